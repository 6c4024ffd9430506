//! The cross-ISA spin lock: one 64-bit word, 0 when free, otherwise 1 + the holder's core index, and in the upper half how often the holder's island had died
//! when the holder started. So the word that a dead core has left is still recognised when its island has joined again ([`crate::rejoin`]).
//!
//! Test-and-test-and-set: one compare-and-swap when free, plain loads while held. The word names its holder, so a core that
//! waits for a dead island's lock sees that, takes the lock over and repairs what it protects ([`crate::recover`]). Kernels take locks with
//! interrupts masked and never sleep with one held.
//!
//! The lock order is that of [`LockClass`]; `docs/protocols/lock.md` explains it. Debug builds and models check it: each core's record says which classes the core
//! holds, and taking a lock out of order panics with both classes. Released kernels do not check.

use motet_layout::sync::{AtomicU64, Ordering};

#[cfg(not(motet_model))]
use motet_layout::PoolAddr;
use motet_layout::{CoreId, Lock, LockClass};

use crate::{Context, count};

#[cfg(motet_model)]
pub mod faults;

#[cfg(motet_model)]
use faults::repair;

/// A held lock; dropping it unlocks.
#[must_use = "the lock is released when the guard is dropped"]
#[derive(Debug)]
pub struct Guard<'a> {
    word: &'a AtomicU64,
    #[cfg(any(debug_assertions, motet_model))]
    taken: order::Taken,
}

impl<'a> Guard<'a> {
    #[inline(always)]
    #[cfg_attr(not(any(debug_assertions, motet_model)), allow(unused_variables))]
    fn new(context: &impl Context, class: LockClass, word: &'a AtomicU64) -> Self {
        Self {
            word,
            #[cfg(any(debug_assertions, motet_model))]
            taken: order::Taken::note(context, class),
        }
    }
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(any(debug_assertions, motet_model))]
        self.taken.forget();
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
    let me = holder_word(context);
    #[cfg(any(debug_assertions, motet_model))]
    order::check(context, lock.class());
    if word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
        lock_contended(context, lock.class(), word, me);
    }
    Guard::new(context, lock.class(), word)
}

/// Takes the lock if it is free. As it never waits, it may be called in any lock order.
pub fn try_lock<'a, const CLASS: u32>(context: &impl Context, lock: &'a Lock<CLASS>) -> Option<Guard<'a>> {
    let word = lock.word();
    word.compare_exchange(0, holder_word(context), Ordering::Acquire, Ordering::Relaxed).ok()?;
    Some(Guard::new(context, lock.class(), word))
}

/// The core that holds the lock.
pub fn holder<const CLASS: u32>(lock: &Lock<CLASS>) -> Option<CoreId> {
    match lock.word().load(Ordering::Relaxed) {
        0 => None,
        held => Some(CoreId((held as u32 - 1) as u8)),
    }
}

/// Whether the core that holds the lock has died, so that nobody will release it.
pub fn is_left<const CLASS: u32>(context: &impl Context, lock: &Lock<CLASS>) -> bool {
    has_died(context, lock.word().load(Ordering::Relaxed))
}

/// What a lock's word says of this core when it holds the lock.
pub(crate) fn holder_word(context: &impl Context) -> u64 {
    u64::from(context.life()) << 32 | (u64::from(context.core().0) + 1)
}

/// Whether who a lock word names has died since: its island, more often than when it started. That word only grows, so a late look never takes a
/// core that lives for dead.
pub(crate) fn has_died(context: &impl Context, held: u64) -> bool {
    let core = CoreId::from_raw((held as u32).wrapping_sub(1)).filter(|&core| core != CoreId::HOST);
    core.is_some_and(|core| {
        let record = &context.pool().header().islands[core.island().index()];
        record.deaths.load(Ordering::Acquire) > (held >> 32) as u32
    })
}

#[cold]
#[track_caller]
fn lock_contended(context: &impl Context, class: LockClass, word: &AtomicU64, me: u64) {
    loop {
        let held = word.load(Ordering::Relaxed);
        assert!(held != me, "core {} takes a lock that it holds ({class:?})", me as u32 - 1);
        // It stays locked: who waits sees another holder.
        if has_died(context, held) && word.compare_exchange(held, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            #[cfg(any(debug_assertions, motet_model))]
            let repairs = order::Taken::note(context, class);
            let is_whole = context.pool().find(word).is_some_and(|lock| repair(context, class, lock));
            assert!(is_whole, "core {} has died with a lock held ({class:?})", held as u32 - 1);
            count(&context.pool().header().locks_recovered[class as usize]);
            #[cfg(any(debug_assertions, motet_model))]
            repairs.forget();
            return;
        }
        if held == 0 && word.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        context.relax();
    }
}

#[cfg(not(motet_model))]
fn repair(context: &impl Context, class: LockClass, lock: PoolAddr) -> bool {
    context.recover(class, lock)
}

/// What each core holds, and whether it may take more.
#[cfg(any(debug_assertions, motet_model))]
mod order {
    use core::sync::atomic::{AtomicU64, Ordering};

    use motet_layout::{CoreId, CoreRecord, LockClass};

    use crate::Context;

    /// Bits of a class's number of locks, and classes in a word.
    const BITS: usize = 4;
    const CLASSES: usize = 64 / BITS;
    const _: () = assert!(LockClass::ALL.len() <= 2 * CLASSES);

    /// A lock that a core has taken. The host takes some, too, and has no record.
    pub struct Taken(Option<(&'static CoreRecord, LockClass)>);

    impl core::fmt::Debug for Taken {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            self.0.map(|(_, class)| class).fmt(f)
        }
    }

    impl Taken {
        pub fn note(context: &impl Context, class: LockClass) -> Self {
            let record = record(context);
            if let Some(record) = record {
                words(record)[class as usize / CLASSES].fetch_add(one(class), Ordering::Relaxed);
            }
            Self(record.map(|record| (record, class)))
        }

        pub fn forget(&self) {
            if let Some((record, class)) = self.0 {
                words(record)[class as usize / CLASSES].fetch_sub(one(class), Ordering::Relaxed);
            }
        }
    }

    /// Whether a core may take a lock, with what it holds.
    #[track_caller]
    pub fn check(context: &impl Context, class: LockClass) {
        let Some(held) = record(context).and_then(innermost) else { return };
        let is_in_order = held < class || held == class && class.may_nest();
        assert!(is_in_order, "core {} takes {class:?} with {held:?} held: out of order", context.core().0);
    }

    /// How many locks of a class a core has.
    #[cfg(motet_model)]
    pub fn held(record: &CoreRecord, class: LockClass) -> u64 {
        let word = words(record)[class as usize / CLASSES].load(Ordering::Relaxed);
        word >> (class as usize % CLASSES * BITS) & ((1 << BITS) - 1)
    }

    fn innermost(record: &CoreRecord) -> Option<LockClass> {
        let [low, high] = words(record).map(|word| word.load(Ordering::Relaxed));
        let bit = (u128::from(high) << 64 | u128::from(low)).checked_ilog2()?;
        LockClass::ALL.get(bit as usize / BITS).copied()
    }

    fn record(context: &impl Context) -> Option<&'static CoreRecord> {
        (context.core() != CoreId::HOST).then(|| context.own_record())
    }

    const fn one(class: LockClass) -> u64 {
        1 << (class as usize % CLASSES * BITS)
    }

    /// No scheduling points of models: nobody else looks there.
    fn words(record: &CoreRecord) -> [&AtomicU64; 2] {
        record.locks_held.each_ref().map(|word| {
            #[cfg(motet_model)]
            return word.unseen();
            #[cfg(not(motet_model))]
            word
        })
    }
}
