//! The kernel: generic over the machine, the same source on every island.
#![no_std]
#![forbid(unsafe_code)]

use motet_hal::Machine;

/// Runs this core of the kernel; returns never.
pub fn run<M: Machine>(machine: &'static M) -> ! {
    machine.log(b"motet: kernel reached\n");
    machine.park()
}
