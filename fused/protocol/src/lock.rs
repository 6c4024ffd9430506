//! The cross-ISA lock: one 64-bit word, 0 when free, otherwise 1 + the holder's core index.
//!
//! Test-and-test-and-set: one compare-and-swap when free, plain loads while held. The word names its holder, so that who
//! waits for a dead island's lock learns it. Kernels take locks with interrupts masked and never sleep with one held.
//!
//! Order, outermost first: process tree → descriptor table → address space → inode (parent before child) → watched files
//! → interest list (one, then one that it watches) → bound sockets → socket → pipe, event counter, timer → wait queue (then the interest list's that
//! watches its file) → timer list → ready queue →
//! memory (island, then global) and slabs. A transfer engine's ring comes after the address space, a file of transfers before wait queues; nothing is taken
//! with the ring's.

use motet_layout::sync::{AtomicU64, Ordering};

use motet_layout::CoreId;

use crate::{Context, cores::is_dead};

/// A held lock; dropping it unlocks.
#[must_use = "the lock is released when the guard is dropped"]
#[derive(Debug)]
pub struct Guard<'a> {
    word: &'a AtomicU64,
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.word.store(0, Ordering::Release);
    }
}

/// Takes the lock, spinning while another core holds it.
///
/// # Panics
/// When this core holds it already, or a core has died with it; the message names the place that calls this, which tells the kind of lock.
#[inline(always)]
#[track_caller]
pub fn lock<'a>(context: &impl Context, word: &'a AtomicU64) -> Guard<'a> {
    let me = holder_word(context.core());
    if word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
        lock_contended(context, word, me);
    }
    Guard { word }
}

/// Takes the lock if it is free.
pub fn try_lock<'a>(context: &impl Context, word: &'a AtomicU64) -> Option<Guard<'a>> {
    let me = holder_word(context.core());
    word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).ok().map(|_| Guard { word })
}

/// The core that holds the lock.
pub fn holder(word: &AtomicU64) -> Option<CoreId> {
    match word.load(Ordering::Relaxed) {
        0 => None,
        held => Some(CoreId((held - 1) as u8)),
    }
}

const fn holder_word(core: CoreId) -> u64 {
    core.0 as u64 + 1
}

#[cold]
#[track_caller]
fn lock_contended(context: &impl Context, word: &AtomicU64, me: u64) {
    loop {
        let held = word.load(Ordering::Relaxed);
        assert!(held != me, "core {} takes a lock that it holds", me - 1);
        if let Some(holder) = u32::try_from(held.wrapping_sub(1)).ok().and_then(CoreId::from_raw) {
            assert!(!is_dead(context, holder), "core {} has died with a lock held", held - 1);
        }
        if held == 0 && word.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        context.relax();
    }
}
