//! The hosted instruction set: what user programs of tests are made of.
//!
//! Instructions are eight bytes, little-endian: operation, `a`, `b`, `c` (register numbers), then a signed 32-bit
//! immediate. All zeroes is illegal. Plain loads acquire and plain stores release, so that programs need no fences for
//! message passing.
//!
//! Register `rN` is `UserFrame::regs[N]` of the ISA that the island says it has; which of them are the stack pointer,
//! system-call number, arguments and result is that ISA's affair ([`Roles`]). On islands that say they are hosted: r15
//! is the stack pointer; system calls have their number in r8, arguments in r0..r5, the result in r0.

use motet_layout::Isa;

/// Bytes in an instruction.
pub const INSTRUCTION_SIZE: u64 = 8;
/// Most general registers of an ISA.
pub const REGISTERS_MAX: usize = 32;

/// General registers of an ISA.
pub const fn registers(isa: Isa) -> usize {
    match isa {
        Isa::X86_64 | Isa::Hosted => 16,
        Isa::AArch64 | Isa::RiscV64 => 32,
    }
}

/// Index of the thread pointer in a frame.
pub const fn thread_pointer(isa: Isa) -> usize {
    match isa {
        Isa::X86_64 | Isa::Hosted => 16,
        Isa::AArch64 => 32,
        Isa::RiscV64 => 4, // so r4 itself cannot be used otherwise, as on real ones
    }
}

/// Bytes in the ISA's own system-call instruction.
pub const fn system_call_size(isa: Isa) -> u64 {
    match isa {
        Isa::X86_64 => 2,
        Isa::AArch64 | Isa::RiscV64 => 4,
        Isa::Hosted => INSTRUCTION_SIZE,
    }
}

/// Which registers mean what, by the ISA's Linux ABI.
#[derive(Clone, Copy, Debug)]
pub struct Roles {
    /// System-call number.
    pub number: u8,
    /// System-call arguments.
    pub args: [u8; 6],
    /// System-call result.
    pub result: u8,
    /// Stack pointer.
    pub stack: u8,
    /// Five registers that nothing else uses.
    pub saved: [u8; 5],
}

impl Roles {
    /// The roles of an ISA.
    pub const fn of(isa: Isa) -> Self {
        match isa {
            Isa::X86_64 => {
                Self { number: 0, args: [7, 6, 2, 10, 8, 9], result: 0, stack: 4, saved: [3, 5, 12, 13, 14] }
            }
            Isa::AArch64 => {
                Self { number: 8, args: [0, 1, 2, 3, 4, 5], result: 0, stack: 31, saved: [19, 20, 21, 22, 23] }
            }
            Isa::RiscV64 => {
                Self { number: 17, args: [10, 11, 12, 13, 14, 15], result: 10, stack: 2, saved: [8, 9, 18, 19, 20] }
            }
            Isa::Hosted => {
                Self { number: 8, args: [0, 1, 2, 3, 4, 5], result: 0, stack: 15, saved: [9, 10, 11, 12, 13] }
            }
        }
    }
}

/// Extended ("floating-point") registers, which only `save_ext` and `load_ext` move.
pub const EXT_REGISTERS: usize = 4;
/// Vector registers, on RISC-V islands that have them: 64 bits of each, however long they are said to be. The first half of their instructions
/// is one of RISC-V's V (`vadd.vv`), so that kernels see what is missing where they are illegal; `a` is below 16 for that.
pub const VECTOR_REGISTERS: usize = 2;

macro_rules! operations {
    ($($(#[$meta:meta])* $name:ident = $code:literal,)*) => {
        /// An operation.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Op { $($(#[$meta])* $name = $code,)* }

        impl Op {
            /// Decodes an operation; `None` is an illegal instruction.
            pub const fn from_raw(raw: u8) -> Option<Self> {
                match raw { $($code => Some(Self::$name),)* _ => None }
            }
        }
    };
}

operations! {
    /// a = imm, sign-extended.
    Li = 1,
    /// Upper half of a = imm.
    Lih = 2,
    /// a = b + c.
    Add = 3,
    /// a = b - c.
    Sub = 4,
    /// a = b & c.
    And = 5,
    /// a = b | c.
    Or = 6,
    /// a = b ^ c.
    Xor = 7,
    /// a = b << c.
    Shl = 8,
    /// a = b >> c, unsigned.
    Shr = 9,
    /// a = b >> c, signed.
    Sar = 10,
    /// a = b * c.
    Mul = 11,
    /// a = b / c, unsigned; division by zero is an arithmetic trap.
    Divu = 12,
    /// a = b % c, unsigned; division by zero is an arithmetic trap.
    Remu = 13,
    /// a = b + imm.
    Addi = 14,
    /// a = b & imm.
    Andi = 15,
    /// a = pc + imm.
    Lea = 16,
    /// a = byte at b + imm.
    Ld8 = 20,
    /// a = 16 bits at b + imm.
    Ld16 = 21,
    /// a = 32 bits at b + imm.
    Ld32 = 22,
    /// a = 64 bits at b + imm.
    Ld64 = 23,
    /// Byte at b + imm = a.
    St8 = 24,
    /// 16 bits at b + imm = a.
    St16 = 25,
    /// 32 bits at b + imm = a.
    St32 = 26,
    /// 64 bits at b + imm = a.
    St64 = 27,
    /// If a == b, pc += imm.
    Beq = 30,
    /// If a != b, pc += imm.
    Bne = 31,
    /// If a < b (unsigned), pc += imm.
    Bltu = 32,
    /// If a >= b (unsigned), pc += imm.
    Bgeu = 33,
    /// If a < b (signed), pc += imm.
    Blt = 34,
    /// If a >= b (signed), pc += imm.
    Bge = 35,
    /// a = next pc; pc += imm.
    Jal = 36,
    /// a = next pc; pc = b + imm.
    Jalr = 37,
    /// The word of imm bytes (1, 2, 4, 8) at c: if it equals a, it becomes b; a = its old value.
    Cas = 40,
    /// The word of imm bytes at c += b; a = its old value.
    AmoAdd = 41,
    /// The word of imm bytes at c = b; a = its old value.
    AmoSwap = 42,
    /// Orders everything.
    Fence = 43,
    /// A system call.
    Syscall = 50,
    /// A breakpoint.
    Break = 51,
    /// A hint that the program spins.
    Pause = 52,
    /// a = thread pointer.
    GetTp = 53,
    /// Thread pointer = a.
    SetTp = 54,
    /// a = nanoseconds of the core's counter.
    Time = 55,
    /// Extended register imm += a.
    ExtAdd = 60,
    /// a = extended register imm.
    ExtGet = 61,
    /// Extended register imm = a.
    ExtSet = 62,
    /// Vector register imm = a.
    VectorSet = 0x57,
    /// a = vector register imm.
    VectorGet = 0xd7,
}

/// A decoded instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// What it does.
    pub op: Op,
    /// First register.
    pub a: u8,
    /// Second register.
    pub b: u8,
    /// Third register.
    pub c: u8,
    /// The immediate.
    pub imm: i32,
}

impl Instruction {
    /// The instruction's eight bytes as a word.
    pub const fn encode(self) -> u64 {
        self.op as u64
            | (self.a as u64) << 8
            | (self.b as u64) << 16
            | (self.c as u64) << 24
            | (self.imm as u32 as u64) << 32
    }

    /// Decodes a word; `None` is an illegal instruction.
    pub const fn decode(word: u64) -> Option<Self> {
        let (a, b, c) = ((word >> 8) as u8, (word >> 16) as u8, (word >> 24) as u8);
        let Some(op) = Op::from_raw(word as u8) else { return None };
        if a as usize >= REGISTERS_MAX || b as usize >= REGISTERS_MAX || c as usize >= REGISTERS_MAX {
            return None;
        }
        Some(Self { op, a, b, c, imm: (word >> 32) as i32 })
    }
}
