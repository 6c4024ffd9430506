//! The gate: the instructions to which functions return that another ISA has called. They make a system call, [`CALL_RETURN`], which tells
//! the kernel of the return; on some ISAs that takes much less than a fault.
//!
//! The system call must not take a result's register. x86-64's number lies in that of the first result, which therefore goes to r8. The
//! kernel knows a return by the number and the program counter.

use motet_layout::{Isa, UserFrame};

use crate::{
    convention::{self, Results},
    fat::Signature,
    own::CALL_RETURN,
    registers::{self, set_reg, set_syscall_number},
    stubs,
};

/// The gate of an ISA.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// The ISA.
    pub isa: Isa,
    /// Its instructions.
    pub code: &'static [u8],
    /// See [`Gate::is_passed`]: where its system call ends, in bytes.
    pub passed_at: u16,
}

impl Gate {
    /// Where it is mapped: what functions have as return address.
    #[inline(always)]
    pub const fn start(&self) -> u64 {
        stubs::gate(self.isa)
    }

    #[inline(always)]
    const fn passed(&self) -> u64 {
        self.start() + self.passed_at as u64
    }

    /// Whether `frame`, which has just made a system call, has made the gate's: a function has returned.
    #[inline(always)]
    pub fn is_passed(&self, frame: &UserFrame) -> bool {
        registers::pc(frame) == self.passed() && registers::syscall_number_of(self.isa, frame) == CALL_RETURN
    }

    /// Does with `frame`, whose program counter is where the gate is to be, as its instructions do.
    pub fn pass(&self, frame: &UserFrame) {
        if self.isa == Isa::X86_64 {
            set_reg(frame, X86_64_RESULT, convention::result_word(self.isa, frame, 0));
        }
        set_syscall_number(self.isa, frame, CALL_RETURN);
        registers::set_pc(frame, self.passed());
    }

    /// Lets `frame`, which has passed the gate, be before it once more, with the same results.
    pub fn unpass(&self, frame: &UserFrame) {
        registers::set_result_of(self.isa, frame, first_result(self.isa, frame) as i64);
        registers::set_pc(frame, self.start());
    }
}

/// r8.
const X86_64_RESULT: u8 = 8;

/// The gate of an ISA, as its hardware executes it.
#[inline(always)]
pub const fn gate(isa: Isa) -> Gate {
    let (code, passed_at): (&[u8], u16) = match isa {
        Isa::X86_64 => (X86_64, 10),
        Isa::AArch64 => (AARCH64, 8),
        Isa::RiscV64 => (RISCV64, 12),
        Isa::Hosted => (&[], 0),
    };
    assert!(code.len() as u64 <= stubs::GATE_LEN);
    Gate { isa, code, passed_at }
}

/// The first result word of a function of `isa` that has passed the gate.
#[inline(always)]
pub fn first_result(isa: Isa, frame: &UserFrame) -> u64 {
    match isa {
        Isa::X86_64 => frame.regs[X86_64_RESULT as usize].get(),
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => convention::result_word(isa, frame, 0),
    }
}

/// What a function of `isa` that has passed the gate leaves. As [`convention::results`].
pub fn results(isa: Isa, frame: &UserFrame, signature: &Signature) -> Results {
    let mut results = convention::results(isa, frame, signature);
    results.words[0] = first_result(isa, frame);
    results
}

#[rustfmt::skip] // an instruction a line
const X86_64: &[u8] = &[
    0x49, 0x89, 0xc0, // mov r8, rax
    0xb8, 0x05, 0x4d, 0x00, 0x00, // mov eax, 19717
    0x0f, 0x05, // syscall
    0x0f, 0x0b, // ud2
];

#[rustfmt::skip] // an instruction a line
const AARCH64: &[u8] = &[
    0xa8, 0xa0, 0x89, 0xd2, // mov x8, #19717
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0x00, 0x00, 0x00, 0x00, // udf #0
];

#[rustfmt::skip] // an instruction a line
const RISCV64: &[u8] = &[
    0xb7, 0x58, 0x00, 0x00, // lui a7, 5
    0x93, 0x88, 0x58, 0xd0, // addi a7, a7, -763
    0x73, 0x00, 0x00, 0x00, // ecall
    0x00, 0x00, 0x00, 0x00, // unimp
];
