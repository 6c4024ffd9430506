//! What guests do and programs do not, in every ISA that has guests. Encodings as in [`super::super::programs`].

use motet_layout::Isa;

use crate::{Access, GuestAccess, SystemRegister, Widen, ZERO_REGISTER};

/// Instructions of an ISA.
pub struct Instructions {
    pub wait: u32,
    /// Writes the value register to a system register that every guest has, and reads it.
    pub write_system: u32,
    pub read_system: u32,
    /// Reads a system register that guests do not have, ...
    pub read_missing: u32,
    /// ... and what that is.
    pub missing: SystemRegister,
    /// Lets a guest use floating point; empty: it has none.
    pub open_float: &'static [u32],
    /// Accesses of memory at the address register, and what they are.
    pub accesses: &'static [(u32, GuestAccess)],
    /// Its handler of exceptions.
    pub vectors: Vectors,
    /// System registers that each guest has for itself.
    pub registers: &'static [Register],
}

/// What a guest does about an exception: goes on behind the instruction.
pub struct Vectors {
    /// The value register says where the vectors are.
    pub set: u32,
    /// Where among them the handler is, ...
    pub offset: u64,
    pub handler: &'static [u32],
    /// ... and in which register it leaves the cause (by its number in the frame): that of an instruction that there is not.
    pub register: usize,
    pub cause: u64,
}

/// A system register, by instructions that have the value register.
pub struct Register {
    pub write: u32,
    pub read: u32,
    /// Bits that keep what is written to them.
    pub mask: u64,
}

const fn load(size_bytes: u8, register: u8, widen: Widen) -> GuestAccess {
    GuestAccess { kind: Access::Read, size_bytes, register: Some(register), widen, instruction_bytes: 4 }
}

const fn store(size_bytes: u8, register: u8) -> GuestAccess {
    GuestAccess { size_bytes, register: Some(register), instruction_bytes: 4, ..GuestAccess::unknown(Access::Write) }
}

/// MSR Xt; MRS differs in one bit.
const fn aarch64(write: u32, mask: u64) -> Register {
    Register { write, read: write | 1 << 21, mask }
}

/// CSRW of a CSR, and CSRR.
const fn riscv64(csr: u32, mask: u64) -> Register {
    Register { write: csr << 20 | 0x5_1073, read: csr << 20 | 0x2573, mask }
}

const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

const RISC_V: Instructions = Instructions {
    wait: 0x1050_0073,         // wfi
    write_system: 0x1405_1073, // csrw sscratch, a0
    read_system: 0x1400_2573,  // csrr a0, sscratch
    read_missing: 0x14d0_2573, // csrr a0, stimecmp
    missing: SystemRegister { number: 0x14d, is_write: false, register: 10 },
    open_float: &[],
    accesses: &[
        (0x0005_8503, load(1, 10, Widen::Sign64)), // lb a0, 0(a1)
        (0x0005_c503, load(1, 10, Widen::Zero)),   // lbu a0, 0(a1)
        (0x0005_d503, load(2, 10, Widen::Zero)),   // lhu a0, 0(a1)
        (0x0005_a503, load(4, 10, Widen::Sign64)), // lw a0, 0(a1)
        (0x0005_e503, load(4, 10, Widen::Zero)),   // lwu a0, 0(a1)
        (0x0005_8023, store(1, ZERO_REGISTER)),    // sb zero, 0(a1)
    ],
    vectors: Vectors {
        set: 0x1055_1073, // csrw stvec, a0
        offset: 0,
        handler: &[
            0x1420_2673, // csrr a2, scause
            0x1410_26f3, // csrr a3, sepc
            0x0046_8693, // addi a3, a3, 4
            0x1416_9073, // csrw sepc, a3
            0x1020_0073, // sret
        ],
        register: 12,
        cause: 2,
    },
    registers: &[
        riscv64(0x140, u64::MAX), // sscratch
        riscv64(0x141, !3),       // sepc
        riscv64(0x105, !3),       // stvec
        riscv64(0x142, 0x3f),     // scause
        riscv64(0x143, u64::MAX), // stval
    ],
};

const AARCH64: Instructions = Instructions {
    wait: 0xd503_207f,         // wfi
    write_system: 0xd518_d080, // msr tpidr_el1, x0
    read_system: 0xd538_d080,  // mrs x0, tpidr_el1
    read_missing: 0xd53b_e220, // mrs x0, cntp_ctl_el0
    missing: SystemRegister { number: 0xdf11, is_write: false, register: 0 },
    open_float: &[
        0xd2a0_0609, // mov x9, #3 << 20
        0xd518_1049, // msr cpacr_el1, x9
        0xd503_3fdf, // isb
    ],
    accesses: &[
        (0x3980_0020, load(1, 0, Widen::Sign64)), // ldrsb x0, [x1]
        (0x39c0_0020, load(1, 0, Widen::Sign32)), // ldrsb w0, [x1]
        (0x7940_0020, load(2, 0, Widen::Zero)),   // ldrh w0, [x1]
        (0xb980_0020, load(4, 0, Widen::Sign64)), // ldrsw x0, [x1]
        (0x3900_003f, store(1, ZERO_REGISTER)),   // strb wzr, [x1]
        // stp x0, x2, [x1]
        (0xa900_0820, GuestAccess::unknown(Access::Write)),
    ],
    vectors: Vectors {
        set: 0xd518_c000, // msr vbar_el1, x0
        offset: 0x200,
        handler: &[
            0xd538_5202, // mrs x2, esr_el1
            0xd538_4023, // mrs x3, elr_el1
            0x9100_1063, // add x3, x3, #4
            0xd518_4023, // msr elr_el1, x3
            0xd69f_03e0, // eret
        ],
        register: 2,
        cause: 1 << 25,
    },
    registers: &[
        aarch64(0xd518_2000, ADDRESS),                                      // TTBR0_EL1
        aarch64(0xd518_2020, ADDRESS),                                      // TTBR1_EL1
        aarch64(0xd518_2040, 0x3f),                                         // TCR_EL1
        aarch64(0xd518_a200, u64::MAX),                                     // MAIR_EL1
        aarch64(0xd518_c000, ADDRESS),                                      // VBAR_EL1
        aarch64(0xd518_d020, 0xffff_ffff),                                  // CONTEXTIDR_EL1
        aarch64(0xd518_1040, 3 << 20),                                      // CPACR_EL1
        aarch64(0xd518_4020, u64::MAX),                                     // ELR_EL1
        aarch64(0xd518_4000, 0xf000_0000),                                  // SPSR_EL1
        aarch64(0xd518_5200, 0xffff_ffff),                                  // ESR_EL1
        aarch64(0xd518_6000, u64::MAX),                                     // FAR_EL1
        aarch64(0xd518_7400, ADDRESS),                                      // PAR_EL1
        aarch64(0xd518_4100, u64::MAX),                                     // SP_EL0
        Register { write: 0x9100_001f, read: 0x9100_03e0, mask: u64::MAX }, // mov sp, x0; mov x0, sp
        aarch64(0xd51b_d040, u64::MAX),                                     // TPIDR_EL0
        aarch64(0xd518_d080, u64::MAX),                                     // TPIDR_EL1
        aarch64(0xd51b_d060, u64::MAX),                                     // TPIDRRO_EL0
        aarch64(0xd51a_0000, 0xf),                                          // CSSELR_EL1
        aarch64(0xd518_e100, 3),                                            // CNTKCTL_EL1
        aarch64(0xd51b_e340, u64::MAX),                                     // CNTV_CVAL_EL0
        aarch64(0xd518_4600, 0xf0),                                         // ICC_PMR_EL1
    ],
};

/// `None`: the suite has no guests of the ISA.
pub const fn instructions(isa: Isa) -> Option<Instructions> {
    match isa {
        Isa::RiscV64 => Some(RISC_V),
        Isa::AArch64 => Some(AARCH64),
        Isa::X86_64 | Isa::Hosted => None,
    }
}
