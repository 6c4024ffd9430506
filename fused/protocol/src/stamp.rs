//! Values that one core writes while others read them: readers find all of one moment, or nothing.
//!
//! A stamp is odd while its values are written. A reader takes it before and after; if it was odd or has changed, what was read is of no
//! moment, and is dropped. The writer waits for nobody. Who writes may be another core each time, if one has handed the values on to the next.
//!
//! Protocol page: `docs/protocols/extensions.md`, "Seen from outside".

use motet_layout::sync::{AtomicU32, Ordering, fence};

/// Lets `write` change the values. It must not be in another one's.
#[inline]
pub fn write<R>(stamp: &AtomicU32, write: impl FnOnce() -> R) -> R {
    // Should a core have died in the middle, it is odd still.
    let odd = stamp.load(Ordering::Relaxed) | 1;
    stamp.store(odd.wrapping_add(2), Ordering::Relaxed);
    fence(Ordering::Release);
    let result = write();
    stamp.store(odd.wrapping_add(3), Ordering::Release);
    result
}

/// What `read` makes of the values, `None`: they were written meanwhile.
pub fn read<R>(stamp: &AtomicU32, read: impl FnOnce() -> R) -> Option<R> {
    let before = stamp.load(Ordering::Acquire);
    if before & 1 != 0 {
        return None;
    }
    let result = read();
    fence(Ordering::Acquire);
    (stamp.load(Ordering::Relaxed) == before).then_some(result)
}
