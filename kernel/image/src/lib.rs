//! What every bootable image does once its HAL has a machine: the kernel, or the conformance suite.
#![no_std]
#![forbid(unsafe_code)]

use motet_hal::{Machine, boot::BootArgs};

/// The kernel's entry point on every core of every island. The HAL has checked the command line and the pool.
pub fn main<M: Machine>(machine: &'static M) -> ! {
    match BootArgs::parse(machine.command_line()) {
        Ok(args) if args.mode == "conformance" => motet_hal::conformance::run(machine),
        Ok(_) => motet_kernel::run(machine),
        Err(reason) => panic!("{reason}"),
    }
}
