//! What every bootable image does once its HAL has a machine: the kernel, or the conformance suite.
#![no_std]
#![forbid(unsafe_code)]

use motet_hal::{
    Machine,
    boot::BootArgs,
    conformance::{self, Stray},
};

/// The kernel's entry point on every core of every island. The HAL has checked the command line and the pool.
pub fn main<M: Machine>(machine: &'static M) -> ! {
    match BootArgs::parse(machine.command_line()) {
        Ok(args) if args.mode == "conformance" => conformance::run(machine),
        Ok(args) => match Stray::of(args.mode) {
            Some(stray) => conformance::go_astray(machine, stray),
            None => motet_kernel::run(machine),
        },
        Err(reason) => panic!("{reason}"),
    }
}
