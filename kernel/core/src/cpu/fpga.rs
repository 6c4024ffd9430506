//! What a core keeps in mind of the FPGA (`fpga`).

use core::cell::Cell;

/// Whether the FPGA has something to tell about clients that are less urgent than the thread that runs.
#[derive(Default)]
pub struct FpgaCore(Cell<bool>);

impl FpgaCore {
    /// It has: that waits.
    #[inline(always)]
    pub fn wait(&self) {
        self.0.set(true);
    }

    /// Whether something waits.
    #[inline(always)]
    pub fn has_waiting(&self) -> bool {
        self.0.get()
    }

    /// Whether something has waited, which the caller does.
    #[inline(always)]
    pub fn take_waiting(&self) -> bool {
        self.0.replace(false)
    }
}
