//! The serial port's input, by interrupts: the console sends without.

use crate::{Boot, interrupts, isa};

/// The serial port's number at the interrupt controller.
pub const INTERRUPT: u32 = isa::SERIAL_INTERRUPT;

/// Lets the port interrupt when a byte has come, until all that have come are [taken](take).
pub fn listen(boot: &Boot) {
    isa::let_serial_interrupt();
    interrupts::enable_device(boot, INTERRUPT);
}

/// Takes a byte that has come.
#[must_use]
pub fn take() -> Option<u8> {
    isa::take_byte()
}
