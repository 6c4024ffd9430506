//! What a core keeps in mind of two guests that take turns in it (`life::stacked`).

use core::cell::Cell;

/// Whether a thread waits in this core while another one's guest runs, or a guest runs above another one's thread.
pub struct StackedCore {
    /// When the timer of the guest that waits fires, in machine time; `u64::MAX`: never, or none waits.
    deadline_ns: Cell<u64>,
    is_above: Cell<bool>,
}

impl Default for StackedCore {
    fn default() -> Self {
        Self { deadline_ns: Cell::new(u64::MAX), is_above: Cell::new(false) }
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
    pub fn is_above(&self) -> bool {
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
}
