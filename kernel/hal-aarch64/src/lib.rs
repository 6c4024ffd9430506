//! The AArch64 HAL: QEMU `virt` with a GICv3 and its ITS, EL1, 4 KiB pages, 48-bit addresses.
//!
//! - The kernel half is TTBR1's and private to the island; TTBR0 holds user tables only, so a user root needs no
//!   preparation. ASIDs are not used: user entries are non-global with ASID 0.
//! - The kernel runs with all exceptions masked. WFI wakes for a masked interrupt and reading ICC_IAR1_EL1 acknowledges
//!   it, so an idle core takes no exception.
//! - TPIDR_EL1 holds the core's `PerCore`. TPIDRRO_EL0 is zero except inside a dying kernel.
//! - Booted as an ELF file or as a Linux `Image` (boot.s). QEMU puts the device tree of an `Image` 128 MiB into RAM,
//!   which must not be inside the pool; that of an ELF file is at the start of RAM.
//!
//! GICv3 with ITS and not GICv2m: the instructions to take and acknowledge an interrupt are as many (one read, one
//! write, one read that says "no more"), but they are system registers rather than device accesses, an island can have
//! more than 8 cores, and each core gets its own message interrupt.
#![cfg(all(target_arch = "aarch64", target_os = "none"))]
#![no_std]
#![deny(missing_docs)]

mod boot;
mod console;
mod cpu;
mod extended;
mod fault;
mod features;
mod gic;
mod guest;
mod machine;
mod memory;
mod nic;
mod tree;

pub use machine::AArch64;

/// Makes `main`, a function `fn(&'static M) -> !` generic over [`Machine`](motet_hal::Machine), the entry point of the
/// image on every core.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        fn motet_main(machine: &'static $crate::AArch64) -> ! {
            $main(machine)
        }
    };
}
