//! Images: which bytes of a file are loaded where in a machine's memory, and the entry point.

use alloc::vec::Vec;
use core::{fmt, ops::Range};

use elf::{ElfBytes, abi, endian::LittleEndian};

use motet_abi::vm::image_isa;
use motet_calls::Isa;

use crate::{aarch64, board};

/// Bytes of an image and where they go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where, in the machine's memory.
    pub address: u64,
    /// Which bytes of the file.
    pub bytes: Range<usize>,
}

/// How to load an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The entry point.
    pub entry: u64,
    /// The pieces to load; the rest of memory is zero.
    pub pieces: Vec<Piece>,
    /// First address after the image.
    pub end: u64,
}

/// What is wrong with an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Neither ELF nor a Linux kernel.
    Unknown,
    /// What the ELF library says.
    Elf(&'static str),
    /// An ELF file of 32 bits.
    Bits32,
    /// The image is for another machine: its `e_machine`.
    Machine(u16),
    /// An ELF file that is no executable with fixed addresses: its `e_type`.
    NotExecutable(u16),
    /// The file has nothing to load.
    Empty,
    /// A segment, by its number, whose bytes are not in the file.
    Cut(usize),
    /// A segment that does not lie in the machine's memory.
    Outside(usize, Range<u64>),
    /// The entry point is in no segment.
    Entry(u64),
    /// A Linux kernel that does not fit.
    TooLarge(u64),
}

impl fmt::Display for Wrong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(to, "it is neither an ELF file nor a Linux kernel (Image) for RISC-V or AArch64"),
            Self::Elf(why) => write!(to, "its ELF headers are damaged: {why}"),
            Self::Bits32 => write!(to, "it is an ELF file of 32 bits; machines here have 64"),
            Self::Machine(machine) => {
                let (riscv, arm) = (abi::EM_RISCV, abi::EM_AARCH64);
                write!(to, "it is an ELF file for another machine (e_machine {machine}, neither {riscv} nor {arm})")
            }
            Self::NotExecutable(kind) => {
                write!(to, "it is an ELF file without fixed addresses (e_type {kind}, not {})", abi::ET_EXEC)
            }
            Self::Empty => write!(to, "it has no segment to load"),
            Self::Cut(number) => write!(to, "the file ends before the bytes of segment {number}"),
            Self::Outside(number, range) => {
                let (start, end) = (range.start, range.end);
                write!(to, "segment {number} ({start:#x} to {end:#x}) is not within the machine's memory")
            }
            Self::Entry(entry) => write!(to, "it begins at {entry:#x}, which is in none of its segments"),
            Self::TooLarge(bytes) => write!(to, "the kernel needs {bytes} bytes, more than the machine's memory has"),
        }
    }
}

/// How to load the image in `file` into a machine with this memory and instruction set.
///
/// # Errors
/// What is wrong with it.
pub fn plan(machine: Isa, file: &[u8], memory: &Range<u64>) -> Result<Plan, Wrong> {
    if file.starts_with(&abi::ELFMAGIC) {
        return plan_elf(machine, file, memory);
    }
    match image_isa(file) {
        Some(Isa::RiscV64) if machine == Isa::RiscV64 => plan_linux(file, memory),
        Some(Isa::AArch64) if machine == Isa::AArch64 => aarch64::plan_linux(file, memory),
        _ => Err(Wrong::Unknown),
    }
}

fn plan_elf(machine: Isa, file: &[u8], memory: &Range<u64>) -> Result<Plan, Wrong> {
    let headers = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|error| Wrong::Elf(say(&error)))?;
    if headers.ehdr.class != elf::file::Class::ELF64 {
        return Err(Wrong::Bits32);
    }
    if image_isa(file) != Some(machine) {
        return Err(Wrong::Machine(headers.ehdr.e_machine));
    }
    if headers.ehdr.e_type != abi::ET_EXEC {
        return Err(Wrong::NotExecutable(headers.ehdr.e_type));
    }
    let mut plan = Plan { entry: headers.ehdr.e_entry, pieces: Vec::new(), end: memory.start };
    let mut holds_entry = false;
    for (number, segment) in headers.segments().into_iter().flatten().enumerate() {
        if segment.p_type != abi::PT_LOAD || segment.p_memsz == 0 {
            continue;
        }
        let address = segment.p_paddr;
        let outside = |end| Wrong::Outside(number, address..end);
        let end = address.checked_add(segment.p_memsz).ok_or(outside(u64::MAX))?;
        if address < memory.start || end > memory.end {
            return Err(outside(end));
        }
        let file_end = segment.p_offset.checked_add(segment.p_filesz).ok_or(Wrong::Cut(number))?;
        if file_end > file.len() as u64 || segment.p_filesz > segment.p_memsz {
            return Err(Wrong::Cut(number));
        }
        plan.pieces.push(Piece { address, bytes: segment.p_offset as usize..file_end as usize });
        plan.end = plan.end.max(end);
        holds_entry |= (address..end).contains(&plan.entry);
    }
    match () {
        () if plan.pieces.is_empty() => Err(Wrong::Empty),
        () if !holds_entry => Err(Wrong::Entry(plan.entry)),
        () => Ok(plan),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "most kinds of errors are of tables that are not read")]
fn say(error: &elf::ParseError) -> &'static str {
    use elf::ParseError as E;
    match error {
        E::BadMagic(_) => "no ELF magic",
        E::UnsupportedElfEndianness(_) => "it is not little-endian",
        E::UnsupportedVersion(_) => "its version is unknown",
        E::BadEntsize(_) => "the size of a table's entries is wrong",
        E::SliceReadError(_) | E::BadOffset(_) => "the file ends before what they name",
        E::IntegerOverflow => "a number in them is too large",
        _ => "they do not make sense",
    }
}

/// Linux's Documentation/arch/riscv/boot-image-header.rst.
fn plan_linux(file: &[u8], memory: &Range<u64>) -> Result<Plan, Wrong> {
    let word = |at: usize| Some(u64::from_le_bytes(*file.get(at..)?.first_chunk()?));
    let size = word(0x10).ok_or(Wrong::Unknown)?.max(file.len() as u64);
    let end = board::IMAGE.checked_add(size).filter(|&end| end <= memory.end).ok_or(Wrong::TooLarge(size))?;
    Ok(Plan { entry: board::IMAGE, pieces: [Piece { address: board::IMAGE, bytes: 0..file.len() }].into(), end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const MEMORY: Range<u64> = board::MEMORY..board::MEMORY + (1 << 20);

    /// An executable with a segment at `address`, whose bytes are the file's last 16, of 64 bytes of memory.
    fn elf(address: u64, entry: u64) -> Vec<u8> {
        let mut file = vec![0; 64 + 56 + 16];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[0x7f, b'E', b'L', b'F', 2, 1, 1]);
        put(16, &abi::ET_EXEC.to_le_bytes());
        put(18, &abi::EM_RISCV.to_le_bytes());
        put(20, &1u32.to_le_bytes());
        put(24, &entry.to_le_bytes());
        put(32, &64u64.to_le_bytes());
        put(52, &[64, 0, 56, 0, 1, 0]);
        put(64, &abi::PT_LOAD.to_le_bytes());
        for (at, word) in (72..).step_by(8).zip([120, address, address, 16, 64, 4096u64]) {
            put(at, &word.to_le_bytes());
        }
        file
    }

    #[test]
    fn an_elf_file_goes_where_its_headers_say() {
        let at = board::MEMORY + 0x1000;
        let plan = plan(Isa::RiscV64, &elf(at, at + 4), &MEMORY).unwrap();
        let pieces = vec![Piece { address: at, bytes: 120..136 }];
        assert_eq!(plan, Plan { entry: at + 4, pieces, end: at + 64 });
    }

    #[test]
    fn what_is_wrong_is_named() {
        let at = board::MEMORY;
        let good = elf(at, at);
        let changed = |offset: usize, bytes: &[u8]| {
            let mut file = good.clone();
            file[offset..offset + bytes.len()].copy_from_slice(bytes);
            plan(Isa::RiscV64, &file, &MEMORY).unwrap_err()
        };
        assert_eq!(plan(Isa::RiscV64, b"#!/bin/sh", &MEMORY), Err(Wrong::Unknown));
        assert_eq!(changed(18, &62u16.to_le_bytes()), Wrong::Machine(62));
        assert_eq!(changed(16, &[3, 0]), Wrong::NotExecutable(3));
        assert_eq!(changed(64, &[0]), Wrong::Empty);
        assert_eq!(changed(24, &1u64.to_le_bytes()), Wrong::Entry(1));
        assert_eq!(changed(96, &17u64.to_le_bytes()), Wrong::Cut(0));
        assert_eq!(changed(104, &u64::MAX.to_le_bytes()), Wrong::Outside(0, at..u64::MAX));
        assert_eq!(changed(104, &(1u64 << 20 | 1).to_le_bytes()), Wrong::Outside(0, at..at + (1 << 20) + 1));
        assert!(matches!(changed(4, &[1]), Wrong::Elf(_)));
    }

    #[test]
    fn a_linux_kernel_goes_behind_the_firmware() {
        let mut file = vec![0; 0x100];
        file[0x10..0x18].copy_from_slice(&0x8_0000u64.to_le_bytes());
        file[0x38..0x3c].copy_from_slice(b"RSC\x05");
        let memory = board::MEMORY..board::IMAGE + 0x8_0000;
        let plan = plan(Isa::RiscV64, &file, &memory).unwrap();
        assert_eq!((plan.entry, plan.end), (board::IMAGE, memory.end));
        assert_eq!(super::plan(Isa::AArch64, &file, &memory), Err(Wrong::Unknown));
        assert_eq!(super::plan(Isa::RiscV64, &file, &(memory.start..memory.end - 1)), Err(Wrong::TooLarge(0x8_0000)));
    }

    #[test]
    fn an_image_for_other_cores_is_refused() {
        let mut file = elf(board::MEMORY, board::MEMORY);
        file[18..20].copy_from_slice(&abi::EM_AARCH64.to_le_bytes());
        assert_eq!(plan(Isa::RiscV64, &file, &MEMORY), Err(Wrong::Machine(abi::EM_AARCH64)));
        assert!(plan(Isa::AArch64, &file, &MEMORY).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_go_into_the_memory(
            changes in proptest::collection::vec((0usize..136, any::<u8>()), 0..6),
            len in 0usize..=136,
        ) {
            let mut file = elf(board::MEMORY, board::MEMORY);
            changes.iter().for_each(|&(at, byte)| file[at] = byte);
            file.truncate(len);
            if let Ok(plan) = plan(Isa::RiscV64, &file, &MEMORY) {
                for piece in &plan.pieces {
                    prop_assert!(piece.bytes.end <= file.len() && piece.bytes.start <= piece.bytes.end);
                    prop_assert!(piece.address >= MEMORY.start && piece.address + piece.bytes.len() as u64 <= plan.end);
                }
                prop_assert!(plan.end <= MEMORY.end && MEMORY.contains(&plan.entry));
            }
        }
    }
}
