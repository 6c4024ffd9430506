//! Flick's migration handler (ISCA '20, section IV-B, listings 1 and 2): code in the program's address space that calls functions of
//! other ISAs, and those of its own that these call.
//!
//! The kernel lets a thread that fetches from another ISA's text go on at the handler, which has the function's arguments where
//! callers leave them. It asks the kernel to migrate ([`MIGRATE`](crate::own::MIGRATE)). What the thread comes back with is in registers, as on every
//! later return:
//!
//! | | target | stack pointer for it |
//! |---|---|---|
//! | x86-64 | r10 | rax |
//! | AArch64 | x16 | x17 |
//! | RISC-V | t1 | t2 |
//!
//! With target 0 the function has returned, and the results are in their registers. Otherwise the other side calls `target`: the handler does, and gives
//! the results back ([`MIGRATE_BACK`](crate::own::MIGRATE_BACK)). A thread that comes to an ISA begins at *again* in the same code. Handlers
//! nest as calls do; what each has to keep is on its stack. The kernel puts the kinds of the target's results, and who
//! calls, 16 bytes below the stack pointer, and the handler hands them back as an argument.
//!
//! Flick's handlers are C that is linked to each program, and read arguments from a descriptor that the kernel has copied; here the kernel
//! puts them into registers at once, which is less work.

use motet_layout::{Isa, UserFrame};

use crate::{
    convention::{self, Arguments, Entry, StackWords},
    fat::Signature,
    registers, stubs,
};

/// The handler of an ISA: its code, and where in that, in bytes, a thread goes on when it comes to the ISA, a function that does nothing, and one that
/// makes the system call of its first argument, with the six others.
#[derive(Clone, Copy, Debug)]
pub struct Handler {
    /// The ISA.
    pub isa: Isa,
    /// Its instructions.
    pub code: &'static [u8],
    /// See [`Handler::again`].
    pub again_at: u16,
    /// See [`Handler::nothing`].
    pub nothing_at: u16,
    /// See [`Handler::system_call`].
    pub system_call_at: u16,
}

impl Handler {
    /// Where it is mapped, and begins.
    pub const fn start(&self) -> u64 {
        stubs::handler(self.isa)
    }

    /// Where a thread goes on that comes to the ISA.
    const fn again(&self) -> u64 {
        self.start() + self.again_at as u64
    }

    /// Whether an instruction is the handler's.
    pub const fn contains(&self, pc: u64) -> bool {
        pc >= self.start() && pc < self.start() + stubs::HANDLER_LEN
    }

    /// A function that does nothing.
    pub const fn nothing(&self) -> u64 {
        self.start() + self.nothing_at as u64
    }

    /// A function that makes the system call of its first argument, with the six others.
    pub const fn system_call(&self) -> u64 {
        self.start() + self.system_call_at as u64
    }

    /// Whether a function is one of these, and not the program's.
    pub const fn has(&self, function: u64) -> bool {
        function == self.nothing() || function == self.system_call()
    }
}

/// The handler of an ISA, as its hardware executes it; `None`: there is none, and it calls otherwise.
pub const fn handler(isa: Isa) -> Option<Handler> {
    let (code, again_at, nothing_at, system_call_at) = match isa {
        Isa::X86_64 => (X86_64, 10, 52, 53),
        Isa::AArch64 => (AARCH64, 8, 52, 56),
        Isa::RiscV64 => (RISCV64, 16, 80, 84),
        Isa::Hosted => return None,
    };
    assert!(code.len() as u64 <= stubs::HANDLER_LEN);
    Some(Handler { isa, code, again_at, nothing_at, system_call_at })
}

/// What [`Handler::system_call`] takes and gives.
pub const SYSTEM_CALL: Signature = Signature { words: 0x111_1111, floats: 0, result: 1 };

/// Indices of [`UserFrame::regs`]: target, its stack pointer, the register that the system-call instruction or number has taken from an argument
/// (its number among the arguments, and where it is instead), where the first result is, where the kinds of results are.
struct Registers {
    target: usize,
    stack: usize,
    moved: Option<(usize, usize)>,
    result: usize,
    kinds: usize,
}

const fn registers_of(isa: Isa) -> Registers {
    match isa {
        Isa::X86_64 => Registers { target: 10, stack: 0, moved: Some((3, 10)), result: 10, kinds: 7 },
        Isa::AArch64 => Registers { target: 16, stack: 17, moved: None, result: 0, kinds: 2 },
        Isa::RiscV64 | Isa::Hosted => Registers { target: 6, stack: 7, moved: Some((7, 5)), result: 10, kinds: 12 },
    }
}

/// The arguments of the handler that has asked to migrate. As [`convention::arguments`].
pub fn arguments(
    isa: Isa,
    frame: &UserFrame,
    signature: &Signature,
    read: impl FnMut(u64) -> Option<u64>,
    into: &mut Arguments,
) -> Option<()> {
    convention::arguments(isa, frame, signature, read, into)?;
    if let Some((index, register)) = registers_of(isa).moved {
        into.words[index] = frame.regs[register].get();
    }
    Some(())
}

/// The results that a handler gives back, their kinds (`Signature::result`), and the code of the ISA that has called. The extended registers
/// are stored.
pub fn results(isa: Isa, frame: &UserFrame) -> (convention::Results, u32, u32) {
    let registers = registers_of(isa);
    let kept = frame.regs[registers.kinds].get() as u32;
    let signature = Signature { words: 0, floats: 0, result: kept & KINDS };
    let mut results = convention::results(isa, frame, &signature);
    results.words[0] = frame.regs[registers.result].get();
    (results, signature.result, kept >> KINDS.count_ones())
}

/// `Signature::result`.
const KINDS: u32 = 0xfff;

/// What the handler that calls with stack pointer `sp` keeps there for [`results`].
pub const fn kept(sp: u64, caller: Isa, signature: &Signature) -> StackWords {
    StackWords::one(sp - 16, (signature.result & KINDS | (caller as u32) << KINDS.count_ones()) as u64)
}

/// Lets `handler`, of the thread in `frame`, call a function of its ISA. `sp`: where its stack is free. The caller writes the words that come
/// back, and those of [`kept`].
pub fn call(
    frame: &UserFrame,
    handler: &Handler,
    sp: u64,
    tls: u64,
    function: u64,
    signature: &Signature,
    arguments: &Arguments,
) -> StackWords {
    let isa = handler.isa;
    // The handler may still have to return: it keeps its own return address.
    let entry = Entry { function, gate: convention::link(isa, frame), stack: sp, tls };
    let words = convention::enter_kept(frame, isa, &entry, signature, arguments);
    let registers = registers_of(isa);
    frame.regs[registers.target].set(function);
    frame.regs[registers.stack].set(words.sp_at_return);
    registers::set_pc(frame, handler.again());
    registers::set_sp_of(isa, frame, sp);
    words
}

/// Lets the handler in `frame` return what its function has returned.
pub fn finish(frame: &UserFrame, isa: Isa, kinds: u32, results: &convention::Results) {
    let signature = Signature { words: 0, floats: 0, result: kinds };
    if signature.has_floats() {
        convention::hold_ext(frame, isa);
    }
    convention::set_results(frame, isa, &signature, results);
    frame.regs[registers_of(isa).target].set(0);
}

#[rustfmt::skip] // an instruction a line
const X86_64: &[u8] = &[
    0x49, 0x89, 0xca, // mov r10, rcx
    0xb8, 0x03, 0x4d, 0x00, 0x00, // mov eax, 19715
    0x0f, 0x05, // syscall
    // again:
    0x4d, 0x85, 0xd2, // test r10, r10
    0x74, 0x25, // je done
    0x53, // push rbx
    0x48, 0x8d, 0x64, 0x24, 0xf8, // lea rsp, [rsp - 8]
    0x48, 0x89, 0xe3, // mov rbx, rsp
    0x48, 0x89, 0xc4, // mov rsp, rax
    0xb8, 0x08, 0x00, 0x00, 0x00, // mov eax, 8
    0x41, 0xff, 0xd2, // call r10
    0x48, 0x89, 0xdc, // mov rsp, rbx
    0x5f, // pop rdi
    0x5b, // pop rbx
    0x49, 0x89, 0xc2, // mov r10, rax
    0xb8, 0x04, 0x4d, 0x00, 0x00, // mov eax, 19716
    0x0f, 0x05, // syscall
    0xeb, 0xd6, // jmp again
    // done:
    0xc3, // ret
    // system_call:
    0x48, 0x89, 0xf8, // mov rax, rdi
    0x48, 0x89, 0xf7, // mov rdi, rsi
    0x48, 0x89, 0xd6, // mov rsi, rdx
    0x48, 0x89, 0xca, // mov rdx, rcx
    0x4d, 0x89, 0xc2, // mov r10, r8
    0x4d, 0x89, 0xc8, // mov r8, r9
    0x4c, 0x8b, 0x4c, 0x24, 0x08, // mov r9, qword ptr [rsp + 8]
    0x0f, 0x05, // syscall
    0xc3, // ret
];

#[rustfmt::skip] // an instruction a line
const AARCH64: &[u8] = &[
    0x68, 0xa0, 0x89, 0xd2, // mov x8, #19715
    0x01, 0x00, 0x00, 0xd4, // svc #0
    // again:
    0x70, 0x01, 0x00, 0xb4, // cbz x16, done
    0xfd, 0x7b, 0xbe, 0xa9, // stp x29, x30, [sp, #-32]!
    0xfd, 0x03, 0x00, 0x91, // mov x29, sp
    0x3f, 0x02, 0x00, 0x91, // mov sp, x17
    0x00, 0x02, 0x3f, 0xd6, // blr x16
    0xbf, 0x03, 0x00, 0x91, // mov sp, x29
    0xe2, 0x0b, 0x40, 0xf9, // ldr x2, [sp, #16]
    0xfd, 0x7b, 0xc2, 0xa8, // ldp x29, x30, [sp], #32
    0x88, 0xa0, 0x89, 0xd2, // mov x8, #19716
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0xf6, 0xff, 0xff, 0x17, // b again
    // done:
    0xc0, 0x03, 0x5f, 0xd6, // ret
    // system_call:
    0xe8, 0x03, 0x00, 0xaa, // mov x8, x0
    0xe0, 0x03, 0x01, 0xaa, // mov x0, x1
    0xe1, 0x03, 0x02, 0xaa, // mov x1, x2
    0xe2, 0x03, 0x03, 0xaa, // mov x2, x3
    0xe3, 0x03, 0x04, 0xaa, // mov x3, x4
    0xe4, 0x03, 0x05, 0xaa, // mov x4, x5
    0xe5, 0x03, 0x06, 0xaa, // mov x5, x6
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0xc0, 0x03, 0x5f, 0xd6, // ret
];

#[rustfmt::skip] // an instruction a line
const RISCV64: &[u8] = &[
    0x93, 0x82, 0x08, 0x00, // mv t0, a7
    0xb7, 0x58, 0x00, 0x00, // lui a7, 5
    0x93, 0x88, 0x38, 0xd0, // addi a7, a7, -765
    0x73, 0x00, 0x00, 0x00, // ecall
    // again:
    0x63, 0x00, 0x03, 0x04, // beqz t1, done
    0x13, 0x01, 0x01, 0xfe, // addi sp, sp, -32
    0x23, 0x30, 0x11, 0x00, // sd ra, 0(sp)
    0x23, 0x34, 0x81, 0x00, // sd s0, 8(sp)
    0x13, 0x04, 0x01, 0x00, // mv s0, sp
    0x13, 0x81, 0x03, 0x00, // mv sp, t2
    0xe7, 0x00, 0x03, 0x00, // jalr t1
    0x13, 0x01, 0x04, 0x00, // mv sp, s0
    0x03, 0x36, 0x01, 0x01, // ld a2, 16(sp)
    0x83, 0x30, 0x01, 0x00, // ld ra, 0(sp)
    0x03, 0x34, 0x81, 0x00, // ld s0, 8(sp)
    0x13, 0x01, 0x01, 0x02, // addi sp, sp, 32
    0xb7, 0x58, 0x00, 0x00, // lui a7, 5
    0x93, 0x88, 0x48, 0xd0, // addi a7, a7, -764
    0x73, 0x00, 0x00, 0x00, // ecall
    0x6f, 0xf0, 0x5f, 0xfc, // j again
    // done:
    0x67, 0x80, 0x00, 0x00, // ret
    // system_call:
    0x93, 0x08, 0x05, 0x00, // mv a7, a0
    0x13, 0x85, 0x05, 0x00, // mv a0, a1
    0x93, 0x05, 0x06, 0x00, // mv a1, a2
    0x13, 0x86, 0x06, 0x00, // mv a2, a3
    0x93, 0x06, 0x07, 0x00, // mv a3, a4
    0x13, 0x87, 0x07, 0x00, // mv a4, a5
    0x93, 0x07, 0x08, 0x00, // mv a5, a6
    0x73, 0x00, 0x00, 0x00, // ecall
    0x67, 0x80, 0x00, 0x00, // ret
];
