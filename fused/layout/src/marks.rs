//! Marks: instructions that do nothing on any core, and that a QEMU plugin recognises when QEMU translates them.
//!
//! | ISA | instruction | why it does nothing |
//! |---|---|---|
//! | x86-64 | `nop dword ptr [rax + disp32]` | the long no-op has an address that is never used (SDM, NOP) |
//! | AArch64 | `movz xzr, #imm16` | writes the zero register (Arm ARM, C1.2.5) |
//! | RISC-V | `slti x0, x0, imm12` | a hint left to custom use (unprivileged specification, HINT instructions) |
//!
//! | marks | who executes them | who listens |
//! |---|---|---|
//! | 0 to 63 | the programs that `./motet bench boot` measures (`motet-calls`) | `host/counting-plugin` |
//! | [`CLOCK`], [`RING`], [`WROTE`], [`WOKE`], [`FLUSH`], [`TRANSFER`], [`ENGINE`], [`CORE`] and following | kernels | `host/timing-plugin` |
//! | [`RING_HART`], [`HIDDEN`], [`WOKE`] | Motet's firmware (docs/firmware.md) | `host/timing-plugin` |
//! | [`LOOK`] | kernels, in the middle of long system calls | `host/counting-plugin` |
//! | [`GUEST_LEFT`], [`GUEST_NEXT`], [`GUEST_RUNS`] | kernels, on the way from guest to guest | `motet bench ker-one`, by their addresses |
//! | [`ROI_BEGIN`], [`ROI_END`] | any program (`user/include/motet.h`) | `host/timing-plugin` |

use crate::{CORES_PER_ISLAND_MAX, Isa};

/// Marks of measured programs are numbered from 0 to here, exclusive.
pub const MEASURED_MAX: u8 = 64;
/// "Store my simulated time into my core record."
pub const CLOCK: u8 = 64;
/// "A region of interest begins." Its name's address is in the first argument register of the ISA's C calling
/// convention, its length in bytes in the second one.
pub const ROI_BEGIN: u8 = 65;
/// "A region of interest ends", with its name as for [`ROI_BEGIN`].
pub const ROI_END: u8 = 66;
/// "I am about to ring core [`ring_target`](crate::CoreRecord::ring_target) of my core record."
pub const RING: u8 = 67;
/// "I have written what core [`ring_target`](crate::CoreRecord::ring_target) of my core record is looking at in a loop."
pub const WROTE: u8 = 68;
/// "I have slept, or would have if a doorbell had not been there already."
pub const WOKE: u8 = 69;
/// "I look whether an interrupt is pending, and act on it."
pub const LOOK: u8 = 70;
/// "My migration engine is to transfer the descriptor in my core record to core [`ring_target`](crate::CoreRecord::ring_target)."
pub const TRANSFER: u8 = 79;
/// "The transfer engine of my island has new descriptors."
pub const ENGINE: u8 = 78;
/// "The lines of the frame [`flush_addr`](crate::CoreRecord::flush_addr) of my core record leave my island's caches, modified ones to
/// memory": what a loop of cache-block instructions does (RISC-V: `cbo.flush`), which not every core that QEMU emulates has.
pub const FLUSH: u8 = 71;
/// "I am about to ring the hart whose number is in my first argument register."
pub const RING_HART: u8 = 72;
/// "I am a hart that only the firmware has, and wait for threads the next time that I sleep."
pub const HIDDEN: u8 = 73;
/// "A guest has stopped, and what it had in this core is stored."
pub const GUEST_LEFT: u8 = 74;
/// "It is decided which thread this core goes on with, which is in the middle of running a guest."
pub const GUEST_NEXT: u8 = 75;
/// "All is ready for a guest, but for its registers."
pub const GUEST_RUNS: u8 = 76;
/// "I am core n of this island, and ready to be timed" is `CORE + n`.
pub const CORE: u8 = 80;
/// Marks are numbered from 0 to here, exclusive.
pub const MARKS_MAX: u8 = CORE + CORES_PER_ISLAND_MAX as u8;

/// Longest name of a region of interest, in bytes.
pub const ROI_NAME_MAX: usize = 63;

const X86_64_OPCODE: [u8; 3] = [0x0f, 0x1f, 0x80];
const X86_64_DISPLACEMENT: u32 = 0x4d4f_5400;
const AARCH64_WORD: u32 = 0xd280_0000 | 0x4d40 << 5 | 31;
const RISCV64_WORD: u32 = 0x680 << 20 | 0x2013;

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

/// The mark that an instruction is.
pub fn decode(isa: Isa, instruction: &[u8]) -> Option<u8> {
    let word = |at: usize| Some(u32::from_le_bytes(instruction.get(at..at + 4)?.try_into().ok()?));
    let number = match isa {
        Isa::X86_64 if instruction.starts_with(&X86_64_OPCODE) => word(3)?.checked_sub(X86_64_DISPLACEMENT)?,
        Isa::AArch64 => word(0)?.checked_sub(AARCH64_WORD).filter(|rest| rest & 31 == 0)? >> 5,
        Isa::RiscV64 => word(0)?.checked_sub(RISCV64_WORD).filter(|rest| rest & 0xf_ffff == 0)? >> 20,
        Isa::X86_64 | Isa::Hosted => return None,
    };
    u8::try_from(number).ok().filter(|&mark| mark < MARKS_MAX)
}

/// An array with, for each core index, the function that executes its [`CORE`] mark, made from the
/// `fn mark<const MARK: u8>()` of a type.
#[macro_export]
macro_rules! core_marks {
    ($machine:ident) => {
        $crate::core_marks!($machine: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($machine:ident: $($core:literal)*) => {
        [$($machine::mark::<{ $crate::marks::CORE + $core }>,)*]
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_recognised_on_its_own_isa() {
        for mark in 0..MARKS_MAX {
            let [a, b, c, d] = x86_64(mark).to_le_bytes();
            assert_eq!(decode(Isa::X86_64, &[0x0f, 0x1f, 0x80, a, b, c, d]), Some(mark));
            assert_eq!(decode(Isa::AArch64, &aarch64(mark).to_le_bytes()), Some(mark));
            assert_eq!(decode(Isa::RiscV64, &riscv64(mark).to_le_bytes()), Some(mark));
        }
    }

    #[test]
    fn immediates_of_marks_have_room_in_their_instructions() {
        let last = MARKS_MAX - 1;
        assert_eq!(aarch64(last) >> 21, 0xd280_0000 >> 21);
        // Positive: bit 31 is the sign.
        assert_eq!(riscv64(last) >> 31, 0);
    }

    #[test]
    fn other_instructions_are_no_marks() {
        // Long no-ops that compilers pad with, `nop`, `movz x0, #0x4d40`, `slti x1, x0, 0x680`, the numbers behind the
        // last mark, and nothing.
        assert_eq!(decode(Isa::X86_64, &[0x0f, 0x1f, 0x80, 0, 0, 0, 0]), None);
        assert_eq!(decode(Isa::X86_64, &[0x90]), None);
        assert_eq!(decode(Isa::AArch64, &(AARCH64_WORD & !31).to_le_bytes()), None);
        assert_eq!(decode(Isa::AArch64, &0xd503_201f_u32.to_le_bytes()), None);
        assert_eq!(decode(Isa::AArch64, &(AARCH64_WORD + (u32::from(MARKS_MAX) << 5)).to_le_bytes()), None);
        assert_eq!(decode(Isa::RiscV64, &(RISCV64_WORD | 1 << 7).to_le_bytes()), None);
        assert_eq!(decode(Isa::RiscV64, &(RISCV64_WORD + (u32::from(MARKS_MAX) << 20)).to_le_bytes()), None);
        assert_eq!(decode(Isa::RiscV64, &[0x01, 0x00]), None);
        assert_eq!(decode(Isa::Hosted, &RISCV64_WORD.to_le_bytes()), None);
    }
}
