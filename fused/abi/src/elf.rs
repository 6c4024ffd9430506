//! Which ISA an ELF file is for, and what a program finds on its first stack.

use motet_layout::Isa;

/// `e_machine` of x86-64.
pub const EM_X86_64: u16 = 62;
/// `e_machine` of AArch64.
pub const EM_AARCH64: u16 = 183;
/// `e_machine` of RISC-V.
pub const EM_RISCV: u16 = 243;
/// `e_machine` of hosted executables: "MT", a value nobody has registered (`motet_hal_hosted::elf` writes it).
pub const EM_HOSTED: u16 = 0x4d54;

/// The ISA of an `e_machine` (64-bit little-endian files).
pub const fn isa_of_machine(machine: u16) -> Option<Isa> {
    match machine {
        EM_X86_64 => Some(Isa::X86_64),
        EM_AARCH64 => Some(Isa::AArch64),
        EM_RISCV => Some(Isa::RiscV64),
        EM_HOSTED => Some(Isa::Hosted),
        _ => None,
    }
}

/// `e_machine` of an ISA.
pub const fn machine_of_isa(isa: Isa) -> u16 {
    match isa {
        Isa::X86_64 => EM_X86_64,
        Isa::AArch64 => EM_AARCH64,
        Isa::RiscV64 => EM_RISCV,
        Isa::Hosted => EM_HOSTED,
    }
}

/// End of the auxiliary vector.
pub const AT_NULL: u64 = 0;
/// Address of the program headers.
pub const AT_PHDR: u64 = 3;
/// Bytes of one.
pub const AT_PHENT: u64 = 4;
/// How many.
pub const AT_PHNUM: u64 = 5;
/// Bytes in a page.
pub const AT_PAGESZ: u64 = 6;
/// Where the interpreter is loaded.
pub const AT_BASE: u64 = 7;
/// Flags, 0.
pub const AT_FLAGS: u64 = 8;
/// Entry point of the program.
pub const AT_ENTRY: u64 = 9;
/// Real user.
pub const AT_UID: u64 = 11;
/// Effective user.
pub const AT_EUID: u64 = 12;
/// Real group.
pub const AT_GID: u64 = 13;
/// Effective group.
pub const AT_EGID: u64 = 14;
/// Address of the ISA's name.
pub const AT_PLATFORM: u64 = 15;
/// ISA capabilities: [`crate::system::hwcap`].
pub const AT_HWCAP: u64 = 16;
/// Ticks a second: [`crate::time::USER_HZ`].
pub const AT_CLKTCK: u64 = 17;
/// Whether the program gained privileges.
pub const AT_SECURE: u64 = 23;
/// Address of sixteen random bytes.
pub const AT_RANDOM: u64 = 25;
/// More capabilities.
pub const AT_HWCAP2: u64 = 26;
/// Bytes of the `rseq` structure that are known.
pub const AT_RSEQ_FEATURE_SIZE: u64 = 27;
/// Its alignment.
pub const AT_RSEQ_ALIGN: u64 = 28;
/// Address of the file name.
pub const AT_EXECFN: u64 = 31;
/// Address of the vDSO's ELF header.
pub const AT_SYSINFO_EHDR: u64 = 33;
/// Bytes of the largest signal frame: [`crate::sigframe::min_stack_size`].
pub const AT_MINSIGSTKSZ: u64 = 51;

/// The text AT_PLATFORM points to; RISC-V has none.
pub const fn platform(isa: Isa) -> Option<&'static str> {
    match isa {
        Isa::X86_64 => Some("x86_64"),
        Isa::AArch64 => Some("aarch64"),
        Isa::RiscV64 => None,
        Isa::Hosted => Some("hosted"),
    }
}

/// The ELF interpreter that Debian's dynamic programs of an ISA name.
pub const fn debian_interpreter(isa: Isa) -> Option<&'static str> {
    match isa {
        Isa::X86_64 => Some("/lib64/ld-linux-x86-64.so.2"),
        Isa::AArch64 => Some("/lib/ld-linux-aarch64.so.1"),
        Isa::RiscV64 => Some("/lib/ld-linux-riscv64-lp64d.so.1"),
        Isa::Hosted => None,
    }
}
