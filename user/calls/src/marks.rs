//! Marks: instructions that do nothing on any core, and that a plugin recognises when QEMU translates them.
//!
//! | ISA | instruction | why it does nothing |
//! |---|---|---|
//! | x86-64 | `nop dword ptr [rax + disp32]` | the long no-op has an address that is never used (SDM, NOP) |
//! | AArch64 | `movz xzr, #imm16` | writes the zero register (Arm ARM, C1.2.5) |
//! | RISC-V | `slti x0, x0, imm12` | a hint left to custom use (unprivileged specification, HINT instructions) |

/// Marks are numbered from 0 to here, exclusive.
pub const MARKS_MAX: u8 = 64;

const X86_64_OPCODE: [u8; 3] = [0x0f, 0x1f, 0x80];
const X86_64_DISPLACEMENT: u32 = 0x4d4f_5400;
const AARCH64_WORD: u32 = 0xd280_0000 | 0x4d40 << 5 | 31;
const RISCV64_WORD: u32 = 0x6c0 << 20 | 0x2013;

/// The displacement in the no-op of a mark on x86-64.
pub const fn x86_64(mark: u8) -> u32 {
    assert!(mark < MARKS_MAX);
    X86_64_DISPLACEMENT + mark as u32
}

/// The instruction of a mark on AArch64.
pub const fn aarch64(mark: u8) -> u32 {
    assert!(mark < MARKS_MAX);
    AARCH64_WORD + ((mark as u32) << 5)
}

/// The instruction of a mark on RISC-V.
pub const fn riscv64(mark: u8) -> u32 {
    assert!(mark < MARKS_MAX);
    RISCV64_WORD + ((mark as u32) << 20)
}

/// The mark that an instruction of an ISA is, by QEMU's name of the ISA.
pub fn decode(isa: &str, instruction: &[u8]) -> Option<u8> {
    let word = |at: usize| Some(u32::from_le_bytes(instruction.get(at..)?.try_into().ok()?));
    let number = match isa {
        "x86_64" if instruction.starts_with(&X86_64_OPCODE) => word(3)?.checked_sub(X86_64_DISPLACEMENT)?,
        "aarch64" => word(0)?.checked_sub(AARCH64_WORD).filter(|rest| rest & 31 == 0)? >> 5,
        "riscv64" => word(0)?.checked_sub(RISCV64_WORD).filter(|rest| rest & 0xf_ffff == 0)? >> 20,
        _ => return None,
    };
    u8::try_from(number).ok().filter(|&mark| mark < MARKS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_recognised_on_its_own_isa() {
        for mark in 0..MARKS_MAX {
            let [a, b, c, d] = x86_64(mark).to_le_bytes();
            assert_eq!(decode("x86_64", &[0x0f, 0x1f, 0x80, a, b, c, d]), Some(mark));
            assert_eq!(decode("aarch64", &aarch64(mark).to_le_bytes()), Some(mark));
            assert_eq!(decode("riscv64", &riscv64(mark).to_le_bytes()), Some(mark));
        }
    }

    #[test]
    fn ordinary_instructions_are_no_marks() {
        // Long no-ops that compilers pad with, `nop`, `movz x0, #0x4d40`, `slti x1, x0, 0x6c0`, and nothing.
        assert_eq!(decode("x86_64", &[0x0f, 0x1f, 0x80, 0, 0, 0, 0]), None);
        assert_eq!(decode("x86_64", &[0x90]), None);
        assert_eq!(decode("aarch64", &(AARCH64_WORD & !31).to_le_bytes()), None);
        assert_eq!(decode("aarch64", &0xd503_201f_u32.to_le_bytes()), None);
        assert_eq!(decode("riscv64", &(RISCV64_WORD | 1 << 7).to_le_bytes()), None);
        assert_eq!(decode("riscv64", &[0x01, 0x00]), None);
        assert_eq!(decode("sparc", &RISCV64_WORD.to_le_bytes()), None);
    }

    #[test]
    fn every_operation_has_its_marks() {
        assert!(crate::OPERATIONS.len() * 2 <= usize::from(MARKS_MAX));
    }
}
