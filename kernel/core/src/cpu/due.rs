//! What a core keeps in mind of what is due (`due`): interrupts that wait, and how much it does before it looks again.

use core::cell::Cell;

use motet_hal::Interrupts;

use super::{BUDGET, Causes, cost};

/// What an urgent guest waits for at most where bytes are copied.
const PIECE_BYTES: usize = 1024;
/// After a deadline that an urgent guest was expected for, the core looks often for so long still.
const URGENT_LATE_NS: u64 = 1_000_000;

/// Causes that only this core knows, among them interrupts that were taken and not acted on yet; and the budget.
pub struct DueCore {
    causes: Cell<Causes>,
    /// What is done before the next look, in instructions, roughly.
    budget: Cell<u64>,
    /// What is done between two looks.
    whole_budget: Cell<u64>,
    /// When the last timer of an urgent guest fires that has been set on this core, in machine time.
    urgent_ns: Cell<u64>,
}

impl DueCore {
    /// Of a core for which these causes are there from the beginning.
    pub fn new(always: Causes) -> Self {
        Self {
            causes: Cell::new(always),
            budget: Cell::new(BUDGET),
            whole_budget: Cell::new(BUDGET),
            urgent_ns: Cell::new(0),
        }
    }
}

impl DueCore {
    /// The causes that only this core knows: see [`Cpu::is_due`](super::Cpu::is_due).
    #[inline(always)]
    pub fn causes(&self) -> Causes {
        self.causes.get()
    }

    /// One of them is there from now on.
    #[inline(always)]
    pub fn set(&self, cause: Causes) {
        debug_assert!(cause.without(Causes::KEPT) == Causes::NONE, "a word of its own tells of {cause:?}");
        self.causes.set(self.causes.get().union(cause));
    }

    /// It is not there any more. Whether it was.
    #[inline(always)]
    pub fn take(&self, cause: Causes) -> bool {
        let was_there = self.causes.get().has(cause);
        if was_there {
            self.causes.set(self.causes.get().without(cause));
        }
        was_there
    }

    /// Interrupts that were taken, and wait for the core's life.
    #[inline(always)]
    pub fn deferred(&self) -> Interrupts {
        self.causes.get().interrupts()
    }

    /// Whether there are any.
    #[inline(always)]
    pub fn has_deferred(&self) -> bool {
        self.deferred() != Interrupts::EMPTY
    }

    /// These wait from now on, too.
    #[inline(always)]
    pub fn defer(&self, interrupts: Interrupts) {
        self.set(Causes::of(interrupts));
    }

    /// Those that wait: the caller acts on them.
    #[inline(always)]
    pub fn take_deferred(&self) -> Interrupts {
        self.causes.replace(self.causes.get().without(Causes::INTERRUPTS)).interrupts()
    }

    /// User code ran, or this core has looked what is due.
    #[inline(always)]
    pub fn renew_budget(&self) {
        self.budget.set(self.whole_budget.get());
    }

    /// Work was done that has cost this much. `true`: the budget is used up.
    #[inline(always)]
    pub fn spend(&self, cost: u64) -> bool {
        let left = self.budget.get().saturating_sub(cost);
        self.budget.set(left);
        left == 0
    }

    /// An urgent guest waits on this core for its timer, which fires at `deadline_ns`, in machine time: the core looks often until then.
    #[inline(always)]
    pub fn expect_urgent(&self, deadline_ns: u64) {
        self.urgent_ns.set(deadline_ns.max(self.urgent_ns.get()));
        self.whole_budget.set(cost::STEP);
    }

    /// The core looks no longer so often, if that timer is long past at `now_ns`; with `u64::MAX`: a guest has ended. Others say again that they wait.
    pub fn forget_urgent(&self, now_ns: u64) {
        if now_ns > self.urgent_ns.get().saturating_add(URGENT_LATE_NS) {
            self.urgent_ns.set(0);
            self.whole_budget.set(BUDGET);
        }
    }

    /// Bytes that are moved at most between two looks, as far as they are moved at once.
    #[inline(always)]
    pub fn piece_bytes(&self) -> usize {
        if self.is_urgent_expected() { PIECE_BYTES } else { usize::MAX }
    }

    /// Whether the core looks often.
    #[inline(always)]
    pub fn is_urgent_expected(&self) -> bool {
        self.whole_budget.get() != BUDGET
    }

    /// Whether it is used up.
    #[inline(always)]
    pub(super) fn is_used_up(&self) -> bool {
        self.budget.get() == 0
    }
}
