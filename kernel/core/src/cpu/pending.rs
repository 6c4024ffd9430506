//! What is due on a core: all causes, and the one place where they are looked at.
//!
//! The general ways ([`life::interrupted`](crate::life), [`life::idle`](crate::life)) act on each cause. A short way (from thread to thread when a slice ends, from
//! guest to guest, a store that is served while the program's registers stay in the core, a look instead of a sleep) may be taken only where there is nothing for
//! the general one. So it names the causes that it serves itself, or that may wait until it ends, and asks for all others. A new cause is a constant and a line of
//! [`Cpu::is_due`] here, and closes every short way that does not name it.
//!
//! Three kinds of words tell. Other cores set bits of [`CoreRecord::pending`]. This core sets those of a word of its own ([`DueCore`](super::DueCore)). Of the rest
//! there is a word already that says it: an inbox that is not empty needs no bit beside it, which each wake-up would have to set.

use motet_hal::{Interrupts, Machine};
use motet_layout::{PENDING_HELD, PENDING_LEAVES, PENDING_UNSORTED, PENDING_URGENT, sync::Ordering};
use motet_protocol::{ready, run_queue::Wake, shootdown};

use super::Cpu;

/// A set of causes for which a core may have something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Causes(u32);

/// Bits of [`CoreRecord::pending`](motet_layout::CoreRecord::pending), which other cores set, too.
impl Causes {
    /// A real-time thread has been pushed onto the inbox.
    pub const URGENT: Self = Self(PENDING_URGENT);
    /// How a thread is scheduled that may be ready here has changed.
    pub const UNSORTED: Self = Self(PENDING_UNSORTED);
    /// It is to be out of use.
    pub const LEAVES: Self = Self(PENDING_LEAVES);
    /// Real-time threads have run long enough in this period.
    pub const HELD: Self = Self(PENDING_HELD);

    const SHARED: Self = Self::URGENT.union(Self::UNSORTED).union(Self::LEAVES).union(Self::HELD);
}

/// Set by the core itself, and only known to it.
impl Causes {
    /// Interrupts that were taken, and wait for the core's life.
    pub const INTERRUPTS: Self = Self(0xff);
    /// It has woken, and has not looked yet for what to do: it may have been called.
    pub const WOKEN: Self = Self(1 << 8);
    /// A thread has come home from a hidden hart, or waited for one and is wanted.
    pub const COME: Self = Self(1 << 9);
    /// The FPGA has something to tell clients that are less urgent than the thread that runs.
    pub const FPGA: Self = Self(1 << 10);
    /// Its ready threads run in the order in which they came. For ever.
    pub const FIRST_COME: Self = Self(1 << 11);
    /// Calls are made as Flick does. For ever.
    pub const MIGRATES: Self = Self(1 << 12);
    /// Owners of files are to be told by signals.
    pub const OWNERS: Self = Self(1 << 13);

    pub(super) const KEPT: Self =
        Self::INTERRUPTS.union(Self::WOKEN).union(Self::COME).union(Self::FPGA).union(Self::OWNERS).union(Self::ALWAYS);
    const ALWAYS: Self = Self::FIRST_COME.union(Self::MIGRATES);
}

/// Told by words that say more.
impl Causes {
    /// Threads have come that are not among the ready ones yet.
    pub const INBOX: Self = Self(1 << 14);
    /// Threads are ready.
    pub const READY: Self = Self(1 << 15);
    /// A thread is ready, and in no queue, as the guest that runs is above its guest.
    pub const BELOW: Self = Self(1 << 16);
    /// It has done as much as it may before it looks.
    pub const BUDGET: Self = Self(1 << 17);
    /// Functions that its threads have called run on other cores.
    pub const CALLS: Self = Self(1 << 18);
    /// Threads of it are on hidden harts, or wait for a place there.
    pub const AWAY: Self = Self(1 << 19);
    /// A shoot-down, or a reclamation, waits for it.
    pub const SHOOTDOWN: Self = Self(1 << 20);
}

const _: () = assert!(
    !Causes::SHARED.has(Causes::KEPT) && Causes::SHARED.0 > Causes::SHOOTDOWN.0 && Causes::KEPT.0 < Causes::INBOX.0,
    "each cause has a bit of its own"
);

/// Sets of them.
impl Causes {
    /// None.
    pub const NONE: Self = Self(0);
    /// All, also those that are added.
    pub const ALL: Self = Self(u32::MAX);
    /// Another thread waits for the core.
    pub const OTHERS: Self = Self::INBOX.union(Self::READY).union(Self::BELOW);
    /// What is ready may be more urgent than what runs, or less.
    pub const MOVED: Self = Self::URGENT.union(Self::UNSORTED);
    /// What lasts, and has its own way to tell when there is something to do.
    pub const LASTING: Self = Self::ALWAYS.union(Self::HELD).union(Self::CALLS).union(Self::AWAY);

    /// What is there for ever on a core, as its machine's description says.
    pub const fn always(is_first_come: bool, migrates: bool) -> Self {
        let first_come = if is_first_come { Self::FIRST_COME } else { Self(0) };
        first_come.union(if migrates { Self::MIGRATES } else { Self(0) })
    }

    /// Both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set, but not those.
    pub const fn without(self, those: Self) -> Self {
        Self(self.0 & !those.0)
    }

    /// Interrupts as causes.
    pub const fn of(interrupts: Interrupts) -> Self {
        Self(interrupts.0 & Self::INTERRUPTS.0)
    }

    /// The interrupts among them.
    pub const fn interrupts(self) -> Interrupts {
        Interrupts(self.0 & Self::INTERRUPTS.0)
    }

    /// Whether the two sets have a cause in common.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl<M: Machine> Cpu<M> {
    /// This core has woken for that, and looks later for what to do.
    #[inline(always)]
    pub fn has_woken(&self, why: Wake) {
        self.due.set(Causes::WOKEN);
        self.crossing.keep_wake(why);
    }

    /// Why it has woken, if it has, and looks now.
    #[inline(always)]
    pub fn take_woken(&self) -> Option<Wake> {
        if self.due.take(Causes::WOKEN) { Some(self.crossing.kept_wake()) } else { None }
    }

    /// Whether any of these causes is there. Where `causes` is a constant, only the words are read that tell of them.
    #[inline(always)]
    pub fn is_due(&self, causes: Causes) -> bool {
        let own = self.own;
        causes.has(Causes::KEPT) && self.due.causes().has(causes)
            || causes.has(Causes::SHARED) && Causes(own.pending.load(Ordering::Relaxed)).has(causes)
            || causes.has(Causes::INBOX) && own.inbox.load(Ordering::Relaxed) != 0
            || causes.has(Causes::READY) && !ready::is_empty(own)
            || causes.has(Causes::BELOW) && self.stacked.is_above()
            || causes.has(Causes::BUDGET) && self.due.is_used_up()
            || causes.has(Causes::CALLS) && !self.crossing.awaited().is_empty()
            || causes.has(Causes::AWAY) && own.away.load(Ordering::Relaxed) != 0
            || causes.has(Causes::SHOOTDOWN) && shootdown::is_asked(self)
    }
}
