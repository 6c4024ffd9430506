//! The few instructions that the suite's user programs are made of, in every ISA.
//!
//! Programs use two registers, [`value_register`] and [`address_register`]; everything else is set through the frame.
//! The encodings were taken from the instruction-set manuals and compared with what the cross assemblers produce; the
//! line's comment is the instruction. Hosted instructions: `motet_hal_hosted::isa`.

use motet_layout::Isa;

/// One step of a user program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A system call.
    Syscall,
    /// A call of a guest's operating system to its hypervisor, where there are guests.
    Hypercall,
    /// An instruction no core has.
    Illegal,
    /// A breakpoint.
    Breakpoint,
    /// Register (frame index) += 1.
    Increment(usize),
    /// value = constant (below 2048).
    Constant(u16),
    /// value = 64-bit word at address.
    Load,
    /// 64-bit word at address = value.
    Store,
    /// An access of `address` that must be aligned (on x86-64, where none of the common ones must: a load).
    AlignedAccess,
    /// Jumps to address.
    Jump,
    /// value += 1, for ever.
    Count,
    /// First floating-point register = value.
    SetFirstExt,
    /// Last floating-point register = value.
    SetLastExt,
    /// value = first floating-point register.
    GetFirstExt,
    /// value = last floating-point register.
    GetLastExt,
    /// All 64-bit elements of the last vector register (`Machine::open_vectors`) = value.
    SetVector,
    /// value = last 64-bit element of the last vector register.
    GetVector,
    /// value = thread pointer (through memory on x86-64: the word at FS:0).
    ThreadPointer,
}

/// A program of a few steps.
pub struct Program {
    bytes: [u8; 512],
    len: usize,
}

impl Program {
    /// The program made of `steps`.
    pub fn new(isa: Isa, steps: &[Step]) -> Self {
        let mut program = Self { bytes: [0; 512], len: 0 };
        for &step in steps {
            program.step(isa, step);
        }
        program
    }

    /// Appends a step.
    pub fn step(&mut self, isa: Isa, step: Step) {
        match isa {
            Isa::X86_64 => x86_64(self, step),
            Isa::AArch64 => aarch64(self, step),
            Isa::RiscV64 => riscv64(self, step),
            Isa::Hosted => hosted(self, step),
        }
    }

    /// Its machine code.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends an instruction.
    pub fn word(&mut self, word: u32) {
        self.push(&word.to_le_bytes());
    }
}

/// Frame index of the register that steps read and write.
pub const fn value_register(isa: Isa) -> usize {
    match isa {
        Isa::X86_64 | Isa::AArch64 | Isa::Hosted => 0, // rax, x0, r0
        Isa::RiscV64 => 10,                            // a0
    }
}

/// Frame index of the register that addresses are taken from.
pub const fn address_register(isa: Isa) -> usize {
    match isa {
        Isa::X86_64 => 7, // rdi
        Isa::AArch64 | Isa::Hosted => 1,
        Isa::RiscV64 => 11, // a1
    }
}

/// Whether writing the last floating-point register makes the rest of the vector register that it is a part of 0 (AArch64).
pub const fn float_clears_vector(isa: Isa) -> bool {
    matches!(isa, Isa::AArch64)
}

/// Whether a system call clears vector registers: on AArch64 it may, as on Linux.
pub const fn call_clears_vector(isa: Isa) -> bool {
    matches!(isa, Isa::AArch64)
}

/// Frame index of the thread pointer.
pub const fn thread_register(isa: Isa) -> usize {
    match isa {
        Isa::X86_64 | Isa::Hosted => 16,
        Isa::AArch64 => 32,
        Isa::RiscV64 => 4,
    }
}

/// Frame indices of the general registers.
pub const fn general_registers(isa: Isa) -> core::ops::Range<usize> {
    match isa {
        Isa::X86_64 | Isa::Hosted => 0..16,
        Isa::AArch64 => 0..32,
        Isa::RiscV64 => 1..32,
    }
}

/// Whether a system call may change the register (x86-64: `syscall` uses rcx and r11).
pub const fn is_clobbered(isa: Isa, register: usize) -> bool {
    matches!((isa, register), (Isa::X86_64, 1 | 11))
}

/// Bytes a breakpoint trap's `pc` lies behind the breakpoint.
pub const fn breakpoint_advance(isa: Isa) -> u64 {
    match isa {
        Isa::X86_64 => 1,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => 0,
    }
}

/// Whether [`Step::AlignedAccess`] traps on a misaligned address.
pub const fn traps_misaligned(isa: Isa) -> bool {
    match isa {
        Isa::X86_64 => false,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => true,
    }
}

fn x86_64(program: &mut Program, step: Step) {
    match step {
        Step::Syscall => program.push(&[0x0f, 0x05]), // syscall
        // It has no guests.
        Step::Illegal | Step::Hypercall => program.push(&[0x0f, 0x0b]), // ud2
        Step::Breakpoint => program.push(&[0xcc]),                      // int3
        Step::Increment(register) => {
            let register = register as u8;
            program.push(&[0x48 | register >> 3, 0xff, 0xc0 | register & 7]); // inc r64
        }
        Step::Constant(value) => {
            program.push(&[0xb8]); // mov eax, imm32
            program.word(u32::from(value));
        }
        Step::Load | Step::AlignedAccess => program.push(&[0x48, 0x8b, 0x07]), // mov rax, [rdi]
        Step::Store => program.push(&[0x48, 0x89, 0x07]),                      // mov [rdi], rax
        Step::Jump => program.push(&[0xff, 0xe7]),                             // jmp rdi
        Step::Count => program.push(&[0x48, 0xff, 0xc0, 0xeb, 0xfb]),          // 1: inc rax; jmp 1b
        Step::SetFirstExt => program.push(&[0x66, 0x48, 0x0f, 0x6e, 0xc0]),    // movq xmm0, rax
        Step::SetLastExt => program.push(&[0x66, 0x4c, 0x0f, 0x6e, 0xf8]),     // movq xmm15, rax
        Step::GetFirstExt => program.push(&[0x66, 0x48, 0x0f, 0x7e, 0xc0]),    // movq rax, xmm0
        Step::GetLastExt => program.push(&[0x66, 0x4c, 0x0f, 0x7e, 0xf8]),     // movq rax, xmm15
        Step::SetVector => {
            program.push(&[0xc4, 0x61, 0xf9, 0x6e, 0xf8]); // vmovq xmm15, rax
            program.push(&[0xc4, 0x41, 0x01, 0x6c, 0xff]); // vpunpcklqdq xmm15, xmm15, xmm15
            program.push(&[0xc4, 0x43, 0x05, 0x18, 0xff, 0x01]); // vinsertf128 ymm15, ymm15, xmm15, 1
        }
        Step::GetVector => {
            program.push(&[0xc4, 0x63, 0x7d, 0x19, 0xf8, 0x01]); // vextractf128 xmm0, ymm15, 1
            program.push(&[0xc4, 0xe3, 0xf9, 0x16, 0xc0, 0x01]); // vpextrq rax, xmm0, 1
        }
        Step::ThreadPointer => program.push(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]), // mov rax, fs:[0]
    }
}

fn aarch64(program: &mut Program, step: Step) {
    match step {
        Step::Syscall => program.word(0xd400_0001),    // svc #0
        Step::Hypercall => program.word(0xd400_0002),  // hvc #0
        Step::Illegal => program.word(0),              // udf #0
        Step::Breakpoint => program.word(0xd420_0000), // brk #0
        Step::Increment(register) => program.word(0x9100_0400 | (register as u32) << 5 | register as u32), // add xN, xN, #1
        Step::Constant(value) => program.word(0xd280_0000 | u32::from(value) << 5), // movz x0, #value
        Step::Load => program.word(0xf940_0020),                                    // ldr x0, [x1]
        Step::Store => program.word(0xf900_0020),                                   // str x0, [x1]
        Step::AlignedAccess => program.word(0xc85f_7c20),                           // ldxr x0, [x1]
        Step::Jump => program.word(0xd61f_0020),                                    // br x1
        Step::Count => {
            program.word(0x9100_0400); // 1: add x0, x0, #1
            program.word(0x17ff_ffff); // b 1b
        }
        Step::SetFirstExt => program.word(0x9e67_0000), // fmov d0, x0
        Step::SetLastExt => program.word(0x9e67_001f),  // fmov d31, x0
        Step::GetFirstExt => program.word(0x9e66_0000), // fmov x0, d0
        Step::GetLastExt => program.word(0x9e66_03e0),  // fmov x0, d31
        Step::SetVector => {
            program.word(0x25d8_e3e7); // ptrue p7.d
            program.word(0x05e0_381f); // mov z31.d, x0
        }
        Step::GetVector => program.word(0x05e1_bfe0), // lastb x0, p7, z31.d
        Step::ThreadPointer => program.word(0xd53b_d040), // mrs x0, tpidr_el0
    }
}

fn riscv64(program: &mut Program, step: Step) {
    match step {
        Step::Syscall | Step::Hypercall => program.word(0x0000_0073), // ecall
        Step::Illegal => program.word(0xc000_1073),                   // unimp
        Step::Breakpoint => program.word(0x0010_0073),                // ebreak
        Step::Increment(register) => program.word(0x0010_0013 | (register as u32) << 7 | (register as u32) << 15), // addi
        Step::Constant(value) => program.word(0x0000_0513 | u32::from(value) << 20), // li a0, value
        Step::Load => program.word(0x0005_b503),                                     // ld a0, 0(a1)
        Step::Store => program.word(0x00a5_b023),                                    // sd a0, 0(a1)
        Step::AlignedAccess => program.word(0x0005_b52f),                            // amoadd.d a0, zero, (a1)
        Step::Jump => program.word(0x0005_8067),                                     // jr a1
        Step::Count => {
            program.word(0x0015_0513); // 1: addi a0, a0, 1
            program.word(0xffdf_f06f); // j 1b
        }
        Step::SetFirstExt => program.word(0xf205_0053), // fmv.d.x f0, a0
        Step::SetLastExt => program.word(0xf205_0fd3),  // fmv.d.x f31, a0
        Step::GetFirstExt => program.word(0xe200_0553), // fmv.x.d a0, f0
        Step::GetLastExt => program.word(0xe20f_8553),  // fmv.x.d a0, f31
        Step::SetVector => {
            program.word(0xcd81_7057); // vsetivli zero, 2, e64, m1, ta, ma
            program.word(0x5e05_4fd7); // vmv.v.x v31, a0
        }
        Step::GetVector => {
            program.word(0x3ff0_bf57); // vslidedown.vi v30, v31, 1
            program.word(0x43e0_2557); // vmv.x.s a0, v30
        }
        Step::ThreadPointer => program.word(0x0002_0513), // mv a0, tp
    }
}

fn hosted(program: &mut Program, step: Step) {
    let mut put = |op: u8, a: u8, b: u8, c: u8, imm: i32| {
        program.push(&[op, a, b, c]);
        program.word(imm as u32);
    };
    match step {
        Step::Syscall => put(50, 0, 0, 0, 0),
        // It has no vectors and no guests.
        Step::Illegal | Step::Hypercall | Step::SetVector | Step::GetVector => put(0, 0, 0, 0, 0),
        Step::Breakpoint => put(51, 0, 0, 0, 0),
        Step::Increment(register) => put(14, register as u8, register as u8, 0, 1), // addi
        Step::Constant(value) => put(1, 0, 0, 0, i32::from(value)),                 // li
        Step::Load | Step::AlignedAccess => put(23, 0, 1, 0, 0),                    // ld64 r0, r1
        Step::Store => put(27, 0, 1, 0, 0),                                         // st64 r0, r1
        Step::Jump => put(37, 14, 1, 0, 0),                                         // jalr r14, r1
        Step::Count => {
            put(14, 0, 0, 0, 1); // addi r0, r0, 1
            put(36, 14, 0, 0, -8); // jal r14, -8
        }
        Step::SetFirstExt => put(62, 0, 0, 0, 0),
        Step::SetLastExt => put(62, 0, 0, 0, 3),
        Step::GetFirstExt => put(61, 0, 0, 0, 0),
        Step::GetLastExt => put(61, 0, 0, 0, 3),
        Step::ThreadPointer => put(53, 0, 0, 0, 0), // gettp r0
    }
}
