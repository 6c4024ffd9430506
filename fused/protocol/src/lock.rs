//! The cross-ISA lock: one 64-bit word, 0 when free, otherwise 1 + the holder's core index.
//!
//! Test-and-test-and-set: one compare-and-swap when free, plain loads while held. The word names its holder, so that who
//! waits for a dead island's lock learns it, takes it over and repairs what it protects ([`crate::recover`]). Kernels take locks with
//! interrupts masked and never sleep with one held.
//!
//! The order is that of [`LockClass`]; `docs/protocols/lock.md` says it in words.

use motet_layout::sync::{AtomicU64, Ordering};

use motet_layout::{CoreId, Lock, LockClass};

use crate::{Context, cores::is_dead, count};

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
/// When this core holds it already, or a core has died with it and what it protects cannot be repaired; the message names the place that
/// calls this, and the class.
#[inline(always)]
#[track_caller]
pub fn lock<'a, const CLASS: u32>(context: &impl Context, lock: &'a Lock<CLASS>) -> Guard<'a> {
    let word = lock.word();
    let me = holder_word(context.core());
    if word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
        lock_contended(context, lock.class(), word, me);
    }
    Guard { word }
}

/// Takes the lock if it is free.
pub fn try_lock<'a, const CLASS: u32>(context: &impl Context, lock: &'a Lock<CLASS>) -> Option<Guard<'a>> {
    let word = lock.word();
    let me = holder_word(context.core());
    word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).ok().map(|_| Guard { word })
}

/// The core that holds the lock.
pub fn holder<const CLASS: u32>(lock: &Lock<CLASS>) -> Option<CoreId> {
    match lock.word().load(Ordering::Relaxed) {
        0 => None,
        held => Some(CoreId((held - 1) as u8)),
    }
}

const fn holder_word(core: CoreId) -> u64 {
    core.0 as u64 + 1
}

#[cold]
#[track_caller]
fn lock_contended(context: &impl Context, class: LockClass, word: &AtomicU64, me: u64) {
    loop {
        let held = word.load(Ordering::Relaxed);
        assert!(held != me, "core {} takes a lock that it holds ({class:?})", me - 1);
        let dead =
            u32::try_from(held.wrapping_sub(1)).ok().and_then(CoreId::from_raw).filter(|&core| is_dead(context, core));
        // It stays locked: who waits sees another holder.
        if dead.is_some() && word.compare_exchange(held, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            let is_whole = context.pool().find(word).is_some_and(|lock| context.recover(class, lock));
            assert!(is_whole, "core {} has died with a lock held ({class:?})", held - 1);
            count(&context.pool().header().locks_recovered[class as usize]);
            return;
        }
        if held == 0 && word.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        context.relax();
    }
}
