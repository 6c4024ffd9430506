//! Which class of instruction one is, for machines whose classes differ in cycles per instruction.
//!
//! An instruction that belongs to two classes is of the more particular one: a vector load is `Memory`, a conditional
//! select on floating-point flags `Float`, an x86 addition to memory `Memory`.

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, InstructionInfoOptions, Mnemonic,
    OpAccess,
};
use motet_coherence::Class;
use motet_layout::Isa;

/// The class of an instruction.
pub fn class(isa: Isa, bytes: &[u8]) -> Class {
    let word = bytes.first_chunk::<4>().map_or(0, |word| u32::from_le_bytes(*word));
    match isa {
        Isa::X86_64 => x86_64(bytes),
        Isa::AArch64 => aarch64(word),
        Isa::RiscV64 if bytes.len() == 2 => compressed([bytes[0], bytes[1]]),
        Isa::RiscV64 => riscv64(word),
        Isa::Hosted => Class::Integer,
    }
}

/// By `op0`, bits 28 to 25 (Arm ARM, C4.1 "A64 instruction set encoding").
fn aarch64(word: u32) -> Class {
    match word >> 25 & 15 {
        // Loads and stores: x1x0.
        4 | 6 | 12 | 14 => Class::Memory,
        // Branches, exceptions, system: 101x. System is 1101 0101 00 (hints and barriers too), exceptions 1101 0100.
        10 | 11 => match word >> 24 {
            0xd4 | 0xd5 => Class::System,
            // Exception returns; other branches to registers are 1101 0110 too.
            0xd6 if word >> 21 & 7 == 4 => Class::System,
            _ => Class::Branch,
        },
        // SVE.
        2 => Class::Vector,
        // Floating point and vectors: x111. Bits 28 and 30 are set, bit 29 clear in scalar vector instructions; scalar
        // floating point proper has bits 31 and 29 free, 30 and 28 as 0 and 1.
        7 | 15 => {
            let scalar_float = word >> 30 & 1 == 0 && word >> 28 & 1 == 1;
            let scalar_vector = word >> 30 & 3 == 1 && word >> 28 & 1 == 1;
            if scalar_float || scalar_vector { Class::Float } else { Class::Vector }
        }
        _ => Class::Integer,
    }
}

/// By the major opcode (unprivileged specification, "RV32/64G instruction set listings").
fn riscv64(word: u32) -> Class {
    let width = word >> 12 & 7;
    match word & 0x7f {
        // LOAD, STORE, AMO.
        0x03 | 0x23 | 0x2f => Class::Memory,
        // LOAD-FP, STORE-FP: scalars and vectors.
        0x07 | 0x27 => Class::Memory,
        // BRANCH, JALR, JAL.
        0x63 | 0x67 | 0x6f => Class::Branch,
        // MADD, MSUB, NMSUB, NMADD, OP-FP.
        0x43 | 0x47 | 0x4b | 0x4f | 0x53 => Class::Float,
        // OP-V; its VSETVL forms have width 7 and set a length, which the vector unit does.
        0x57 => Class::Vector,
        // MISC-MEM: FENCE, FENCE.I; width 2 are cache blocks.
        0x0f if width == 2 => Class::Memory,
        0x0f | 0x73 => Class::System,
        _ => Class::Integer,
    }
}

/// By quadrant and `funct3` (unprivileged specification, "C" extension, RV64).
fn compressed(bytes: [u8; 2]) -> Class {
    let half = u16::from_le_bytes(bytes);
    match (half & 3, half >> 13) {
        // C.ADDI4SPN.
        (0, 0) => Class::Integer,
        // Loads and stores, of doubles too.
        (0, _) => Class::Memory,
        // C.J, C.BEQZ, C.BNEZ.
        (1, 5..) => Class::Branch,
        // C.FLDSP, C.LWSP, C.LDSP and the stores.
        (2, 1..=3 | 5..) => Class::Memory,
        // C.JR, C.JALR: no second source; C.EBREAK has no first one either.
        (2, 4) if half >> 2 & 31 == 0 => {
            if half == 0x9002 {
                Class::System
            } else {
                Class::Branch
            }
        }
        _ => Class::Integer,
    }
}

/// With a decoder: x86's encodings follow no rule that a small table could state.
fn x86_64(bytes: &[u8]) -> Class {
    let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
    let (mnemonic, flow) = (instruction.mnemonic(), instruction.flow_control());
    if instruction.is_privileged() || SYSTEM.contains(&mnemonic) {
        return Class::System;
    }
    if !matches!(flow, FlowControl::Next | FlowControl::XbeginXabortXend) {
        let trap = matches!(flow, FlowControl::Interrupt | FlowControl::Exception);
        return if trap { Class::System } else { Class::Branch };
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(&instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
    // LEA and the long no-op have an address, and do not access it.
    if info.used_memory().iter().any(|memory| memory.access() != OpAccess::NoMemAccess) {
        return Class::Memory;
    }
    if instruction.cpuid_features().iter().any(|feature| X87.contains(feature)) {
        return Class::Float;
    }
    let mut registers = (0..instruction.op_count()).map(|index| instruction.op_register(index));
    match registers.any(|register| register.is_vector_register() || register.is_mm()) {
        true if is_scalar(mnemonic) => Class::Float,
        true => Class::Vector,
        false => Class::Integer,
    }
}

/// What is no branch, needs no privilege, and yet is about the machine.
const SYSTEM: [Mnemonic; 14] = [
    Mnemonic::Syscall,
    Mnemonic::Sysretq,
    Mnemonic::Sysret,
    Mnemonic::Iret,
    Mnemonic::Iretd,
    Mnemonic::Iretq,
    Mnemonic::Mfence,
    Mnemonic::Lfence,
    Mnemonic::Sfence,
    Mnemonic::Cpuid,
    Mnemonic::Pause,
    Mnemonic::Rdtsc,
    Mnemonic::Rdtscp,
    Mnemonic::Swapgs,
];

const X87: [CpuidFeature; 3] = [CpuidFeature::FPU, CpuidFeature::FPU287, CpuidFeature::FPU387];

/// Whether a vector instruction works on one number: ADDSD, UCOMISS, CVTTSD2SI, their VEX forms; not PABSD.
fn is_scalar(mnemonic: Mnemonic) -> bool {
    let name = format!("{mnemonic:?}").to_ascii_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let kind =
        ["ss", "sd"].iter().any(|kind| name.ends_with(kind)) || ["ss2", "sd2"].iter().any(|kind| name.contains(kind));
    kind && !name.starts_with('p')
}

#[cfg(test)]
mod tests {
    use super::Class::{Branch, Float, Integer, Memory, System, Vector};
    use super::*;

    #[test]
    fn aarch64_instructions_have_the_class_of_their_encoding_group() {
        let cases = [
            (0x9100_0400_u32, Integer), // add x0, x0, #1
            (0x9b02_7c20, Integer),     // mul x0, x1, x2
            (0xd280_0000, Integer),     // mov x0, #0
            (0x1400_0001, Branch),      // b
            (0x5400_0041, Branch),      // b.ne
            (0xb400_0040, Branch),      // cbz x0
            (0x3700_0040, Branch),      // tbnz w0, #0
            (0xd65f_03c0, Branch),      // ret
            (0xf940_0001, Memory),      // ldr x1, [x0]
            (0xa9bf_7bfd, Memory),      // stp x29, x30, [sp, #-16]!
            (0xf821_0002, Memory),      // ldadd x1, x2, [x0]
            (0x3dc0_0000, Memory),      // ldr q0, [x0]
            (0x1e62_2820, Float),       // fadd d0, d1, d2
            (0x1f42_0c20, Float),       // fmadd d0, d1, d2, d3
            (0x9e62_0020, Float),       // scvtf d0, x1
            (0x7ea2_d420, Float),       // fabd s0, s1, s2
            (0x4e22_d420, Vector),      // fadd v0.4s, v1.4s, v2.4s
            (0x4ea2_8420, Vector),      // add v0.4s, v1.4s, v2.4s
            (0xd538_d080, System),      // mrs x0, tpidr_el1
            (0xd503_3fdf, System),      // isb
            (0xd400_0001, System),      // svc #0
            (0xd69f_03e0, System),      // eret
        ];
        cases
            .iter()
            .for_each(|(word, wanted)| assert_eq!(class(Isa::AArch64, &word.to_le_bytes()), *wanted, "{word:#x}"));
    }

    #[test]
    fn riscv_instructions_have_the_class_of_their_opcode() {
        let cases = [
            (0x0015_0513_u32, Integer), // addi a0, a0, 1
            (0x02c5_8533, Integer),     // mul a0, a1, a2
            (0x0000_0517, Integer),     // auipc a0, 0
            (0x00b5_0463, Branch),      // beq a0, a1
            (0x0000_006f, Branch),      // j
            (0x0000_8067, Branch),      // ret
            (0x0005_3503, Memory),      // ld a0, 0(a0)
            (0x00b5_3023, Memory),      // sd a1, 0(a0)
            (0x00b5_302f, Memory),      // amoadd.d
            (0x0005_3507, Memory),      // fld fa0, 0(a0)
            (0x02c5_f553, Float),       // fadd.d fa0, fa1, fa2
            (0x6ac5_f543, Float),       // fmadd.d
            (0x0221_80d7, Vector),      // vadd.vv v1, v2, v3
            (0x0ff0_000f, System),      // fence
            (0x0000_0073, System),      // ecall
            (0x1000_2573, System),      // csrr a0, sstatus
        ];
        cases
            .iter()
            .for_each(|(word, wanted)| assert_eq!(class(Isa::RiscV64, &word.to_le_bytes()), *wanted, "{word:#x}"));
        let compressed = [
            (0x0505_u16, Integer), // c.addi a0, 1
            (0x852e, Integer),     // c.mv a0, a1
            (0x952e, Integer),     // c.add a0, a1
            (0x0048, Integer),     // c.addi4spn a0, sp, 4
            (0x6108, Memory),      // c.ld a0, 0(a0)
            (0xe10c, Memory),      // c.sd a1, 0(a0)
            (0x6502, Memory),      // c.ldsp a0, 0(sp)
            (0xe02a, Memory),      // c.sdsp a0, 0(sp)
            (0x8082, Branch),      // ret
            (0x9502, Branch),      // c.jalr a0
            (0xa001, Branch),      // c.j
            (0xc101, Branch),      // c.beqz a0
            (0x9002, System),      // c.ebreak
        ];
        compressed
            .iter()
            .for_each(|(half, wanted)| assert_eq!(class(Isa::RiscV64, &half.to_le_bytes()), *wanted, "{half:#x}"));
    }

    #[test]
    fn x86_instructions_have_the_class_of_what_they_do() {
        let cases: [(&[u8], Class); 22] = [
            (&[0x48, 0x01, 0xd8], Integer),                   // add rax, rbx
            (&[0x48, 0x8d, 0x04, 0x25, 0, 0, 0, 0], Integer), // lea rax, [0]
            (&[0x0f, 0x1f, 0x40, 0], Integer),                // nop dword ptr [rax]
            (&[0xeb, 0], Branch),                             // jmp
            (&[0x75, 0], Branch),                             // jne
            (&[0xe8, 0, 0, 0, 0], Branch),                    // call
            (&[0xc3], Branch),                                // ret
            (&[0x48, 0x8b, 0x07], Memory),                    // mov rax, [rdi]
            (&[0x55], Memory),                                // push rbp
            (&[0x48, 0x01, 0x07], Memory),                    // add [rdi], rax
            (&[0xf3, 0xa4], Memory),                          // rep movsb
            (&[0x66, 0x0f, 0x6f, 0x07], Memory),              // movdqa xmm0, [rdi]
            (&[0xf2, 0x0f, 0x58, 0xc1], Float),               // addsd xmm0, xmm1
            (&[0xf3, 0x0f, 0x2c, 0xc0], Float),               // cvttss2si eax, xmm0
            (&[0xd9, 0xfa], Float),                           // fsqrt
            (&[0x66, 0x0f, 0x58, 0xc1], Vector),              // addpd xmm0, xmm1
            (&[0x66, 0x0f, 0xfe, 0xc1], Vector),              // paddd xmm0, xmm1
            (&[0x66, 0x0f, 0x38, 0x1e, 0xc1], Vector),        // pabsd xmm0, xmm1
            (&[0x0f, 0x05], System),                          // syscall
            (&[0x0f, 0x22, 0xd8], System),                    // mov cr3, rax
            (&[0x0f, 0xae, 0xf0], System),                    // mfence
            (&[0xcc], System),                                // int3
        ];
        cases.iter().for_each(|(bytes, wanted)| assert_eq!(class(Isa::X86_64, bytes), *wanted, "{bytes:x?}"));
    }
}
