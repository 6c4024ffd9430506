//! The conformance suite: what every HAL must do, run on the machine itself.

use crate::Machine;

/// Runs the suite, reports on the diagnostic console, ends the machine.
pub fn run<M: Machine>(machine: &'static M) -> ! {
    machine.log(b"conformance: 0 passed, 0 failed\n");
    machine.park()
}
