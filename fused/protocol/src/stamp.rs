//! Stamps (sequence counters): one core writes values while others read them; readers get all values of one moment, or none.
//!
//! A stamp is odd while its values are written. A reader reads it before and after; if it was odd or has changed, the values read do not belong to one
//! moment, and are dropped. The writer waits for nobody. The writer may be another core each time, if one has handed the values on to the next.
//!
//! Protocol page: `docs/protocols/extensions.md`, "Seen from outside".

use motet_layout::sync::{AtomicU32, Ordering, fence};

/// Lets `write` change the values. It must not be called within another `write` of the same stamp.
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

/// The result of `read` on the values. `None`: they were written meanwhile.
pub fn read<R>(stamp: &AtomicU32, read: impl FnOnce() -> R) -> Option<R> {
    let before = stamp.load(Ordering::Acquire);
    if before & 1 != 0 {
        return None;
    }
    let result = read();
    fence(Ordering::Acquire);
    (stamp.load(Ordering::Relaxed) == before).then_some(result)
}
