//! What a core keeps in mind of the FPGA (`fpga`).

use core::cell::Cell;

/// How this core looks for what the FPGA does.
#[derive(Default)]
pub struct FpgaCore {
    /// The store that is served has become a request.
    is_request: Cell<bool>,
    /// This core has looked for long, and is to look no more for the store that is a request.
    looked_long: Cell<bool>,
}

impl FpgaCore {
    /// A store that may become a request: nobody has looked for it.
    #[inline(always)]
    pub fn begin_request(&self) {
        self.is_request.set(false);
        self.looked_long.set(false);
    }

    /// The store has become a request.
    pub fn has_asked(&self) {
        self.is_request.set(true);
    }

    /// Whether it has.
    #[inline(always)]
    pub fn is_request(&self) -> bool {
        self.is_request.get()
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
