//! The instruction sets that a program is built for, and what the compiler and the linker must know of each.

use std::panic::resume_unwind;

use motet_layout::Isa;
use object::{Architecture, elf};

use crate::error::Result;

/// The ISAs of every program, in the order of [`PerIsa`].
pub const ISAS: [Isa; 3] = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];

/// One value for each of [`ISAS`].
pub type PerIsa<T> = [T; ISAS.len()];

/// Calls `make` with each ISA's index, in threads of their own.
///
/// # Errors
/// The first ISA's that fails.
pub fn at_once<T: Send>(make: impl Fn(usize) -> Result<T> + Sync) -> Result<PerIsa<T>> {
    let [first, second, third] = std::thread::scope(|scope| {
        let make = &make;
        let threads = std::array::from_fn::<_, { ISAS.len() }, _>(|isa| scope.spawn(move || make(isa)));
        threads.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    Ok([first?, second?, third?])
}

/// What is peculiar to an ISA.
pub struct Target {
    /// Clang's name of it.
    pub triple: &'static str,
    /// The folder of the kernel's headers for it.
    pub kernel_headers: &'static str,
    /// The compiler's name of the least processor of the ISA, where its own builtins are compiled.
    pub processor: &'static str,
    /// Flags of the compiler. Code is neither relaxed by the linker nor uses tricks that only one ISA has.
    pub flags: &'static [&'static str],
    /// Whether stores that are sequentially consistent get a fence ([`crate::sequential`]), and atomic operations of 16 bytes become calls ([`crate::wide`]).
    pub fences_stores: bool,
    /// In object files.
    pub architecture: Architecture,
    /// In ELF headers.
    pub machine: elf::Machine,
    /// `e_flags` in ELF headers.
    pub elf_flags: u32,
    /// Fills unused text: an instruction that traps, or a part of one.
    pub trap: u8,
    /// Absolute relocations, of eight and of four bytes: the only ones of data that is shared.
    pub absolute: &'static [(u32, u8)],
    /// Relocations that load from or point to an entry of the global offset table, with the ones that do the same for
    /// a datum.
    pub got: &'static [(u32, u32)],
    /// Relocations of calls: what they refer to runs, but its address is not kept.
    pub calls: &'static [u32],
    /// Relocations whose symbol labels another instruction in place of naming a target.
    pub labels: &'static [u32],
}

const X86_64: Target = Target {
    triple: "x86_64-linux-musl",
    kernel_headers: "x86-linux-any",
    processor: "baseline",
    flags: &[],
    fences_stores: false, // `xchg`
    architecture: Architecture::X86_64,
    machine: elf::EM_X86_64,
    elf_flags: 0,
    trap: 0xcc, // int3
    absolute: &[(elf::R_X86_64_64.0, 8), (elf::R_X86_64_32.0, 4), (elf::R_X86_64_32S.0, 4)],
    got: &[
        (elf::R_X86_64_GOTPCREL.0, elf::R_X86_64_PC32.0),
        (elf::R_X86_64_GOTPCRELX.0, elf::R_X86_64_PC32.0),
        (elf::R_X86_64_REX_GOTPCRELX.0, elf::R_X86_64_PC32.0),
    ],
    calls: &[elf::R_X86_64_PLT32.0],
    labels: &[],
};

const AARCH64: Target = Target {
    triple: "aarch64-linux-musl",
    kernel_headers: "aarch64-linux-any",
    processor: "baseline",
    // Variables that are used together would lie in one section.
    flags: &["-mno-outline-atomics", "-mno-global-merge"],
    fences_stores: true,
    architecture: Architecture::Aarch64,
    machine: elf::EM_AARCH64,
    elf_flags: 0,
    trap: 0, // udf #0
    absolute: &[(elf::R_AARCH64_ABS64.0, 8), (elf::R_AARCH64_ABS32.0, 4)],
    got: &[
        (elf::R_AARCH64_ADR_GOT_PAGE.0, elf::R_AARCH64_ADR_PREL_PG_HI21.0),
        (elf::R_AARCH64_LD64_GOT_LO12_NC.0, elf::R_AARCH64_LDST64_ABS_LO12_NC.0),
    ],
    calls: &[elf::R_AARCH64_CALL26.0, elf::R_AARCH64_JUMP26.0],
    labels: &[],
};

const RISCV64: Target = Target {
    triple: "riscv64-linux-musl",
    kernel_headers: "riscv-linux-any",
    processor: "baseline_rv64-relax",
    flags: &["-march=rv64gc", "-mabi=lp64d", "-mno-relax", "-msmall-data-limit=0"],
    fences_stores: false, // a fence before such a load
    architecture: Architecture::Riscv64,
    machine: elf::EM_RISCV,
    elf_flags: elf::EF_RISCV_RVC.0 | elf::EF_RISCV_FLOAT_ABI_DOUBLE.0,
    trap: 0, // c.unimp
    absolute: &[(elf::R_RISCV_64.0, 8), (elf::R_RISCV_32.0, 4)],
    got: &[(elf::R_RISCV_GOT_HI20.0, elf::R_RISCV_PCREL_HI20.0)],
    calls: &[elf::R_RISCV_CALL.0, elf::R_RISCV_CALL_PLT.0, elf::R_RISCV_JAL.0],
    labels: &[elf::R_RISCV_PCREL_LO12_I.0, elf::R_RISCV_PCREL_LO12_S.0],
};

/// What is peculiar to each of [`ISAS`].
pub static TARGETS: PerIsa<Target> = [X86_64, AARCH64, RISCV64];

/// The place in [`ISAS`] of the ISA called `name`.
pub fn index_by_name(name: &str) -> Option<usize> {
    ISAS.iter().position(|isa| isa.name() == name)
}

/// The names of all, for messages.
pub fn names() -> String {
    ISAS.map(Isa::name).join(", ")
}
