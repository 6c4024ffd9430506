//! What a core keeps in mind of the FPGA (`fpga`).

use core::cell::Cell;

/// What the FPGA has to tell, and how this core looks for what it does.
#[derive(Default)]
pub struct FpgaCore {
    /// Something waits that is about clients which are less urgent than the thread that runs.
    waiting: Cell<bool>,
    /// This core has looked for long, and is to look no more for the store that is a request.
    looked_long: Cell<bool>,
}

impl FpgaCore {
    /// It has: that waits.
    #[inline(always)]
    pub fn wait(&self) {
        self.waiting.set(true);
    }

    /// Whether something waits.
    #[inline(always)]
    pub fn has_waiting(&self) -> bool {
        self.waiting.get()
    }

    /// Whether something has waited, which the caller does.
    #[inline(always)]
    pub fn take_waiting(&self) -> bool {
        self.waiting.replace(false)
    }

    /// A store that may become a request: nobody has looked for it.
    #[inline(always)]
    pub fn begin_request(&self) {
        self.looked_long.set(false);
    }

    /// This core has looked for long whether a request is decided, and the thread is to sleep.
    pub fn has_looked_long(&self) {
        self.looked_long.set(true);
    }

    /// Whether it has, for the store that it is about to look for: the caller does not go on with that.
    pub fn take_looked_long(&self) -> bool {
        self.looked_long.replace(false)
    }
}
