//! Instructions by which programs read a counter of the hardware, or a word of it that not all cores have alike: what they read, and where
//! it goes.

use motet_layout::{Isa, UserFrame};

use crate::registers::{pc, set_pc, set_reg};

/// Bytes of the longest of these instructions.
pub const INSTRUCTION_SIZE_MAX: usize = 4;

/// What a program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Cycles of the core: x86-64's time-stamp counter, RISC-V's `cycle`.
    Cycles,
    /// Ticks of the system's clock: AArch64's `CNTVCT_EL0`.
    Time,
    /// The same of RISC-V's boards: `time`.
    BoardTime,
    /// How many of these there are in a second: AArch64's `CNTFRQ_EL0`.
    Frequency,
    /// No counter: lines of caches, AArch64's `CTR_EL0`.
    CacheType,
}

/// Such an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// What it reads.
    pub counter: Counter,
    size: u64,
    to: To,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Register(u8),
    /// The register that discards what it is given.
    Nowhere,
    /// x86-64's `rdtsc`: edx and eax.
    Halves,
    /// `rdtscp`: and ecx, the processor's number, which is 0 here as the kernel sets none.
    HalvesAndNumber,
}

/// The instruction at the beginning of `code`, if it reads a counter.
///
/// Intel SDM 2B "RDTSC", "RDTSCP"; ARM DDI 0487 C6.2 "MRS", D24 "CNTVCT_EL0", "CTR_EL0"; RISC-V unprivileged architecture, "Zicntr".
pub fn decode(isa: Isa, code: &[u8]) -> Option<Read> {
    if isa == Isa::X86_64 {
        let of = |size, to| Some(Read { counter: Counter::Cycles, size, to });
        return match code {
            [0x0f, 0x31, ..] => of(2, To::Halves),
            [0x0f, 0x01, 0xf9, ..] => of(3, To::HalvesAndNumber),
            _ => None,
        };
    }
    let word = u32::from_le_bytes(*code.first_chunk()?);
    let (counter, register, nowhere) = match isa {
        Isa::AArch64 => {
            let counter = match word & !0x1f {
                0xd53b_e040 | 0xd53b_e0c0 => Counter::Time, // CNTVCT_EL0, CNTVCTSS_EL0
                0xd53b_e000 => Counter::Frequency,
                0xd53b_0020 => Counter::CacheType,
                _ => return None,
            };
            (counter, word & 0x1f, 31)
        }
        Isa::RiscV64 => {
            // csrrs rd, csr, x0
            let counter = match word & !0xf80 {
                0xc000_2073 => Counter::Cycles,
                0xc010_2073 => Counter::BoardTime, // OpenSBI answers this itself
                _ => return None,
            };
            (counter, word >> 7 & 0x1f, 0)
        }
        Isa::X86_64 | Isa::Hosted => return None,
    };
    let to = if register == nowhere { To::Nowhere } else { To::Register(register as u8) };
    Some(Read { counter, size: 4, to })
}

/// Does what the instruction does that a frame's program counter is at.
pub fn answer(frame: &UserFrame, read: Read, value: u64) {
    let (low, high) = (value & 0xffff_ffff, value >> 32);
    match read.to {
        To::Register(register) => set_reg(frame, register, value),
        To::Nowhere => {}
        To::Halves | To::HalvesAndNumber => {
            set_reg(frame, 0, low);
            set_reg(frame, 2, high);
        }
    }
    if read.to == To::HalvesAndNumber {
        set_reg(frame, 1, 0);
    }
    set_pc(frame, pc(frame).wrapping_add(read.size));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_counters_are_told_from_other_instructions() {
        let read = |isa, word: u32| decode(isa, &word.to_le_bytes()).map(|read| (read.counter, read.size, read.to));
        let cycles = |size, to| Some((Counter::Cycles, size, to));
        assert_eq!(read(Isa::X86_64, 0x9090_310f), cycles(2, To::Halves));
        assert_eq!(read(Isa::X86_64, 0x90f9_010f), cycles(3, To::HalvesAndNumber));
        assert_eq!(decode(Isa::X86_64, &[0x0f, 0x31]).map(|read| read.size), Some(2), "at the end of a page");
        for other in [0x90f8_010f, 0x9090_330f, 0x9090_310e] {
            assert_eq!(read(Isa::X86_64, other), None, "{other:#x}"); // swapgs, rdpmc
        }
        assert_eq!(read(Isa::AArch64, 0xd53b_e043), Some((Counter::Time, 4, To::Register(3))));
        assert_eq!(read(Isa::AArch64, 0xd53b_e0df), Some((Counter::Time, 4, To::Nowhere)));
        assert_eq!(read(Isa::AArch64, 0xd53b_e01e), Some((Counter::Frequency, 4, To::Register(30))));
        assert_eq!(read(Isa::AArch64, 0xd53b_0021), Some((Counter::CacheType, 4, To::Register(1))));
        for other in [0xd51b_e043, 0xd53b_e023, 0xd53b_e063] {
            assert_eq!(read(Isa::AArch64, other), None, "{other:#x}"); // a write; the physical counter; what does not exist
        }
        assert_eq!(read(Isa::RiscV64, 0xc000_2573), cycles(4, To::Register(10)));
        assert_eq!(read(Isa::RiscV64, 0xc000_2073), cycles(4, To::Nowhere));
        assert_eq!(read(Isa::RiscV64, 0xc010_2573), Some((Counter::BoardTime, 4, To::Register(10))));
        for other in [0xc020_2573, 0xc000_1573, 0xc010_1573, 0xc000_a573] {
            assert_eq!(read(Isa::RiscV64, other), None, "{other:#x}"); // instret; writes; bits to be set
        }
        assert_eq!(decode(Isa::RiscV64, &[0x73, 0x25]), None);
        assert_eq!(read(Isa::Hosted, 0xc000_2573), None);
    }
}
