//! QEMU's `virt` board as guests use it, in virtual machines of Motet and by itself: entry, device tree, console, clock, the
//! timer's and a software interrupt, masking, stacks, other cores, power.
//!
//! What only an instruction set can do is in [`isa`], a module for each; it is the only place of assembly. One core runs the
//! guest; others run single functions, if they are started ([`cores`]). RISC-V is entered in S-mode, AArch64 at EL1. Translation stays off, so on
//! AArch64 all memory is of the device type: there are no unaligned accesses (the target's compiler makes none) and no
//! read-modify-write atomics.
#![no_std]

#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod isa;

pub mod accelerator;
mod attempt;
mod console;
pub mod cores;
pub mod interrupts;
mod masked;
pub mod serial;
pub mod share;
pub mod stacks;
mod tree;

/// Instruction sets of boards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Armv8-A in its 64-bit state.
    AArch64,
    /// RV64.
    RiscV64,
}

/// This board's.
pub const ISA: Isa = isa::ISA;

pub use attempt::{WORDS_MAX, attempt};
pub use masked::{Mask, Masked, masked};
pub use tree::Boot;

/// Names the function that the board starts: `entry!(main)` with `fn main(boot: Boot) -> !`. Interrupts are masked there.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "Rust" fn motet_guest_main(boot: $crate::Boot) -> ! {
            let main: fn($crate::Boot) -> ! = $main;
            main(boot)
        }
    };
}

/// A line on the console.
#[macro_export]
macro_rules! println {
    ($($arguments:tt)*) => { $crate::print_line(format_args!($($arguments)*)) };
}

/// Prints a line. It is not atomic: who may be preempted by others that print shares lines with them.
pub fn print_line(text: core::fmt::Arguments<'_>) {
    console::print(format_args!("{text}\n"));
}

/// The clock: counts of [`frequency`] since some time before the start.
#[must_use]
pub fn now() -> u64 {
    isa::now()
}

/// Counts of the clock in a second.
#[must_use]
pub fn frequency() -> u64 {
    tree::frequency()
}

/// Turns translation on, by tables of the guest's own: everything stays where it is, and devices below memory are higher as well, by as much as this
/// says. `None`: not on this instruction set.
#[must_use]
pub fn translate() -> Option<usize> {
    isa::translate()
}

/// Waits until an interrupt is pending.
pub fn wait_for_interrupt() {
    isa::wait_for_interrupt();
}

/// Switches the machine off. On RISC-V the reason says whether the guest did what it was to do; PSCI has none.
pub fn power_off(has_succeeded: bool) -> ! {
    isa::power_off(has_succeeded)
}

/// Resets the machine, which begins again.
pub fn reset() -> ! {
    isa::reset()
}

/// Says what is wrong, and switches the machine off.
pub fn fail(reason: core::fmt::Arguments<'_>) -> ! {
    console::print(format_args!("failed: {reason}\n"));
    power_off(false)
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    fail(format_args!("{info}"))
}

/// Entered by the core that boots, on its own stack; the rest of memory is as the image says.
#[unsafe(no_mangle)]
extern "C" fn motet_guest_start(hart: usize, tree: usize) -> ! {
    unsafe extern "Rust" {
        fn motet_guest_main(boot: Boot) -> !;
    }
    let boot = tree::read(hart, tree).unwrap_or_else(|reason| fail(format_args!("{reason}")));
    // SAFETY: `entry!` defines it with this type.
    unsafe { motet_guest_main(boot) }
}

/// An exception, which no guest here provokes in itself.
#[unsafe(no_mangle)]
extern "C" fn motet_guest_fault(cause: usize, value: usize, at: usize) -> ! {
    fail(format_args!("an exception: cause {cause:#x}, value {value:#x}, at {at:#x}"))
}
