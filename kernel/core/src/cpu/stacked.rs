//! What a core keeps in mind of two guests that take turns in it (`life::stacked`), and of one that runs above a system call (`life::nested`).

use core::cell::Cell;

/// Whether a thread waits in this core while another one's guest runs, or a guest runs above another one's thread.
pub struct StackedCore {
    /// When the timer of the guest that waits fires, in machine time; `u64::MAX`: never, or none waits.
    deadline_ns: Cell<u64>,
    is_above: Cell<bool>,
    is_nested: Cell<bool>,
    /// The registers of a program or a guest are in the core while the kernel serves its trap.
    is_occupied: Cell<bool>,
}

impl Default for StackedCore {
    fn default() -> Self {
        Self {
            deadline_ns: Cell::new(u64::MAX),
            is_above: Cell::new(false),
            is_nested: Cell::new(false),
            is_occupied: Cell::new(false),
        }
    }
}

impl StackedCore {
    /// When the timer of the guest that waits fires, in machine time; `u64::MAX`: never, or none waits.
    #[inline(always)]
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns.get()
    }

    /// Whether the guest that runs is above a thread that is ready.
    #[inline(always)]
    pub(super) fn is_above(&self) -> bool {
        self.is_above.get()
    }

    /// The upper guest runs.
    #[inline(always)]
    pub fn goes_up(&self) {
        self.deadline_ns.set(u64::MAX);
        self.is_above.set(true);
    }

    /// The lower guest runs, until the upper one's timer fires.
    #[inline(always)]
    pub fn goes_down(&self, deadline_ns: u64) {
        self.deadline_ns.set(deadline_ns);
        self.is_above.set(false);
    }

    /// The two are threads as any others.
    #[inline(always)]
    pub fn end(&self) {
        self.goes_down(u64::MAX);
    }

    /// A guest runs above a system call, until `limit_ns` at most, in machine time.
    #[inline(always)]
    pub fn nest(&self, limit_ns: u64) {
        self.deadline_ns.set(limit_ns);
        self.is_nested.set(true);
    }

    /// It does so no longer.
    #[inline(always)]
    pub fn end_nested(&self) {
        self.deadline_ns.set(u64::MAX);
        self.is_nested.set(false);
    }

    /// Whether one does.
    #[inline(always)]
    pub fn is_nested(&self) -> bool {
        self.is_nested.get()
    }

    /// Whether a guest may run above the call that this core is in.
    #[inline(always)]
    pub fn may_nest(&self) -> bool {
        !self.is_nested.get() && !self.is_occupied.get() && !self.is_above.get() && self.deadline_ns.get() == u64::MAX
    }

    /// Does something while the registers of a program or of a guest are in the core.
    #[inline(always)]
    pub fn occupied<R>(&self, act: impl FnOnce() -> R) -> R {
        self.is_occupied.set(true);
        let result = act();
        self.is_occupied.set(false);
        result
    }
}
