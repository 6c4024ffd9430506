//! Extensions of instruction sets, and which of them runs an instruction.
//!
//! Cores of one ISA need not have the same extensions. When one raises the exception for an illegal instruction, [`needed`] tells from the
//! instruction's bytes which extensions would run it, so that the thread can go to a core that has them. Tables say it; they are
//! generated from what the makers of disassemblers keep (`tests/generated/extensions.rs`).
//!
//! Names are the ones that Linux uses: flags of `/proc/cpuinfo` on x86-64 and AArch64, lower-case letters of the manual on RISC-V.

mod aarch64;
mod cpuinfo;
mod lookup;
mod names;
mod riscv64;
mod set;
mod x86_64;

#[rustfmt::skip]
mod aarch64_table;
#[rustfmt::skip]
mod riscv64_table;
#[rustfmt::skip]
mod x86_64_table;

pub use cpuinfo::Described;
pub use lookup::{ALTERNATIVES_MAX, LONGEST_BYTES, Needed, Requirement, needed};
pub use names::{AArch64, Extension, RiscV64, X86_64};
pub use set::{ExtensionSet, UnknownExtension};
