//! The HAL of RISC-V islands: QEMU `virt,aia=aplic-imsic`, in S-mode under an SBI firmware (OpenSBI).
//!
//! QEMU writes the device tree to the last 2 MiB of memory when it starts. So that this is not the pool, the last NUMA
//! node is a small private one; and because OpenSBI does not start with three sockets and SiFive CLINTs, such a machine
//! has `aclint=on`.
//!
//! Invariants:
//! - `tp` holds the address of this core's `PerCore` whenever the kernel runs, and `sscratch` does always but in the
//!   trap entry. `PerCore::frame` is 0 whenever the kernel runs: so the entry tells where a trap came from.
//! - sstatus.SIE, SPIE and SPP are 0 at all times: the kernel takes no interrupts (user mode always does), never
//!   returns to S-mode, and so never writes these bits, but around guests ([`guest`]).
//! - Nothing here changes after boot but [`PerCore`]; the kernel half of the page tables is fixed.
#![no_std]
#![deny(missing_docs)]

mod boot;
mod console;
mod csr;
mod devices;
mod extended;
mod guest;
mod hidden;
mod interrupts;
mod machine;
mod memory;
mod nic;
mod panic;
mod per_core;
mod platform;
mod sbi;
mod trap;

pub use machine::TheMachine;

/// Makes `$main`, a `fn(&'static M) -> !` generic over [`Machine`](motet_hal::Machine), the kernel's entry point on every core.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        fn motet_main(machine: &'static $crate::TheMachine) -> ! {
            $main(machine)
        }
    };
}
