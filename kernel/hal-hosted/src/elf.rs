//! Writes static ELF executables for hosted islands, so that `execve` can be tested.

use motet_layout::Isa;

/// `e_machine` of hosted executables: "MT", a value nobody has registered.
pub const EM_HOSTED: u16 = 0x4d54;

const HEADER_SIZE: u64 = 64;
const PROGRAM_HEADER_SIZE: u64 = 56;
const PAGE: u64 = 4096;

/// A loadable segment.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Where it is loaded; page-aligned.
    pub address: u64,
    /// `PF_X` 1, `PF_W` 2, `PF_R` 4.
    pub flags: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Bytes in memory; those past `bytes` are zero.
    pub memory_len: u64,
}

/// `e_machine` of programs for islands that say they have `isa`.
const fn machine(isa: Isa) -> u16 {
    match isa {
        Isa::X86_64 => 62,
        Isa::AArch64 => 183,
        Isa::RiscV64 => 243,
        Isa::Hosted => EM_HOSTED,
    }
}

/// An ELF64 little-endian `ET_EXEC` file with these segments.
pub fn executable(isa: Isa, entry: u64, segments: &[Segment]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend_from_slice(&2u16.to_le_bytes()); // ET_EXEC
    file.extend_from_slice(&machine(isa).to_le_bytes());
    file.extend_from_slice(&1u32.to_le_bytes());
    for word in [entry, HEADER_SIZE, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(&0u32.to_le_bytes()); // e_flags
    for half in [HEADER_SIZE as u16, PROGRAM_HEADER_SIZE as u16, segments.len() as u16, 64, 0, 0] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    let mut offset = (HEADER_SIZE + PROGRAM_HEADER_SIZE * segments.len() as u64).next_multiple_of(PAGE);
    for segment in segments {
        file.extend_from_slice(&1u32.to_le_bytes()); // PT_LOAD
        file.extend_from_slice(&segment.flags.to_le_bytes());
        let len = segment.bytes.len() as u64;
        for word in [offset, segment.address, segment.address, len, segment.memory_len.max(len), PAGE] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        offset = (offset + len).next_multiple_of(PAGE);
    }
    for segment in segments {
        file.resize(file.len().next_multiple_of(PAGE as usize), 0);
        file.extend_from_slice(&segment.bytes);
    }
    file
}
