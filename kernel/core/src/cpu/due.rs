//! What a core keeps in mind of what is due (`due`): interrupts that wait, and how much it does before it looks again.

use core::cell::Cell;

use motet_hal::Interrupts;

use super::BUDGET;

/// Interrupts that were taken and not acted on yet, and the budget.
pub struct DueCore {
    deferred: Cell<Interrupts>,
    /// What is done before the next look, in instructions, roughly.
    budget: Cell<u64>,
}

impl Default for DueCore {
    fn default() -> Self {
        Self { deferred: Cell::new(Interrupts::EMPTY), budget: Cell::new(BUDGET) }
    }
}

impl DueCore {
    /// Interrupts that were taken, and wait for the core's life.
    #[inline(always)]
    pub fn deferred(&self) -> Interrupts {
        self.deferred.get()
    }

    /// Whether there are any.
    #[inline(always)]
    pub fn has_deferred(&self) -> bool {
        self.deferred.get() != Interrupts::EMPTY
    }

    /// These wait from now on, too.
    #[inline(always)]
    pub fn defer(&self, interrupts: Interrupts) {
        self.deferred.set(self.deferred.get().union(interrupts));
    }

    /// Those that wait: the caller acts on them.
    #[inline(always)]
    pub fn take_deferred(&self) -> Interrupts {
        self.deferred.replace(Interrupts::EMPTY)
    }

    /// User code ran, or this core has looked what is due.
    #[inline(always)]
    pub fn renew_budget(&self) {
        self.budget.set(BUDGET);
    }

    /// Work was done that has cost this much. `true`: the budget is used up.
    #[inline(always)]
    pub fn spend(&self, cost: u64) -> bool {
        let left = self.budget.get().saturating_sub(cost);
        self.budget.set(left);
        left == 0
    }

    /// Whether it is used up.
    #[inline(always)]
    pub fn is_used_up(&self) -> bool {
        self.budget.get() == 0
    }
}
