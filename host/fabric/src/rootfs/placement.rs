//! Where the pages of a file lie: text where the machine file says, the rest of a program with the island that runs it.

use std::ops::Range;

use motet_abi::{Errno, fat};
use motet_layout::{InodeRecord, Isa, PAGE_SIZE};
use motet_protocol::fs as pool_fs;
use object::{
    elf::{FileHeader64, PF_X, PT_LOAD},
    endian::LittleEndian,
    read::elf::{FileHeader as _, ProgramHeader as _},
};

use crate::HostPool;

/// What is known of a file from its beginning.
pub(super) struct Placement {
    /// Of a program: its own ISA.
    isa: Option<Isa>,
    /// Pages of the file that are text: from the first byte to the end, and whose.
    texts: Vec<(Range<u64>, Isa)>,
}

impl Placement {
    /// `beginning`: of the file, its program headers included. What is no program, or makes no sense, has no text.
    pub(super) fn of(beginning: &[u8]) -> Self {
        let isa = isa_of(beginning);
        Self { isa, texts: isa.map(|isa| texts(beginning, isa)).unwrap_or_default() }
    }

    /// Writes to the file, a page at a time, from an offset that is at a page's beginning.
    pub(super) fn write(
        &self,
        pool: &HostPool,
        inode: &'static InodeRecord,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        for (at, page) in (offset..).step_by(PAGE_SIZE as usize).zip(bytes.chunks(PAGE_SIZE as usize)) {
            let near = self.text_at(at).and_then(|isa| pool.near_text(isa)).unwrap_or_else(|| pool.near(self.isa));
            let mut done = 0;
            while done < page.len() {
                done += pool_fs::write_bytes(&near, inode, at + done as u64, &page[done..])?;
            }
        }
        Ok(())
    }

    fn text_at(&self, offset: u64) -> Option<Isa> {
        self.texts.iter().find(|(pages, _)| pages.contains(&offset)).map(|(_, isa)| *isa)
    }
}

/// The ISA of a program; `None` for files that are none.
fn isa_of(bytes: &[u8]) -> Option<Isa> {
    let machine = bytes.strip_prefix(b"\x7fELF")?.get(14..16)?;
    motet_abi::elf::isa_of_machine(u16::from_le_bytes([machine[0], machine[1]]))
}

/// The text of a program of an ISA, and of those that `motet cc` has put into it.
fn texts(beginning: &[u8], own: Isa) -> Vec<(Range<u64>, Isa)> {
    let endian = LittleEndian;
    let Ok(header) = FileHeader64::<LittleEndian>::parse(beginning) else { return Vec::new() };
    let segments = header.program_headers(endian, beginning).unwrap_or_default();
    let of_segment = |segment: &object::elf::ProgramHeader64<LittleEndian>| {
        let flags = segment.p_flags(endian).0;
        let isa = match segment.p_type(endian).0 {
            kind if kind == PT_LOAD.0 && flags & PF_X.0 != 0 => own,
            fat::PT_TEXT => fat::isa_of_flags(flags)?,
            _ => return None,
        };
        let (start, len) = segment.file_range(endian);
        let end = start.checked_add(len)?.checked_next_multiple_of(PAGE_SIZE)?;
        Some((start & !(PAGE_SIZE - 1)..end, isa))
    };
    segments.iter().filter_map(of_segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use motet_machine::MachineSpec;

    const LOAD: u32 = PT_LOAD.0;

    /// A program of an `e_machine` with segments: type, flags, first byte in the file, bytes there.
    pub fn program(machine: u16, segments: &[(u32, u32, u64, u64)]) -> Vec<u8> {
        let mut bytes =
            [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 9], &2_u16.to_le_bytes(), &machine.to_le_bytes()].concat();
        bytes.extend(1_u32.to_le_bytes());
        [0x400000_u64, 64, 0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(0_u32.to_le_bytes());
        [64, 56, segments.len() as u16, 64, 0, 0].iter().for_each(|half| bytes.extend(half.to_le_bytes()));
        for &(kind, flags, offset, len) in segments {
            bytes.extend([kind, flags].iter().flat_map(|word| word.to_le_bytes()));
            [offset, 0x400000_u64.wrapping_add(offset), 0, len, len, 4096]
                .iter()
                .for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        bytes
    }

    #[test]
    fn the_isa_of_a_file_is_known_from_its_beginning() {
        let elf = |machine: u16| program(machine, &[]);
        assert_eq!((isa_of(&elf(62)), isa_of(&elf(183))), (Some(Isa::X86_64), Some(Isa::AArch64)));
        assert_eq!((isa_of(&elf(1)), isa_of(b"\x7fELF"), isa_of(b"#!/bin/sh\n and so on")), (None, None, None));
    }

    #[test]
    fn text_is_what_is_executed_and_what_is_of_other_instruction_sets() {
        let other = (Isa::RiscV64 as u32) << fat::FLAGS_ISA_SHIFT;
        let segments =
            [(LOAD, 4, 0, 0x1800), (LOAD, 5, 0x2800, 0x1000), (LOAD, 6, 0x5000, 64), (fat::PT_TEXT, other, 0x8000, 9)];
        let placement = Placement::of(&program(62, &segments));
        let found = (0..10).map(|page| placement.text_at(page << 12)).collect::<Vec<_>>();
        let mut wanted = vec![None; 10];
        (wanted[2], wanted[3], wanted[8]) = (Some(Isa::X86_64), Some(Isa::X86_64), Some(Isa::RiscV64));
        assert_eq!(found, wanted);
        // What makes no sense has none.
        let senseless = program(62, &[(LOAD, 5, u64::MAX - 1, 4), (fat::PT_TEXT, 0, 0, 4096)]);
        assert!(Placement::of(&senseless).texts.is_empty());
        assert!(Placement::of(&program(62, &segments)[..70]).texts.is_empty());
    }

    /// The ranges of the pool that a file's pages lie in.
    fn ranges(pool: &HostPool, machine: &MachineSpec, bytes: &[u8]) -> Vec<String> {
        let attributes = pool_fs::Attributes { mode: 0o755, uid: 0, gid: 0, rdev: 0, now_ns: 0 };
        let root = crate::rootfs::root_of(pool).unwrap();
        let file = pool_fs::create(pool, root, b"file", attributes).unwrap();
        Placement::of(bytes).write(pool, file.inode(), 0, bytes).unwrap();
        let ranges = machine.model_config().unwrap().ranges;
        let range_of = |page| {
            let at = pool_fs::page(pool, file.inode(), page).unwrap().addr().0;
            ranges.iter().find(|range| (range.start..range.end).contains(&at)).unwrap().name.clone()
        };
        let found = (0..(bytes.len() as u64).div_ceil(PAGE_SIZE)).map(range_of).collect();
        pool_fs::unlink(pool, root, b"file", 0, |_| Ok(())).unwrap();
        found
    }

    #[test]
    fn text_lies_where_the_machine_file_says_and_the_rest_with_the_island() {
        let other = (Isa::RiscV64 as u32) << fat::FLAGS_ISA_SHIFT;
        let with_pages = |mut bytes: Vec<u8>, pages: usize| {
            bytes.resize(pages << 12, 1);
            bytes
        };
        let fat = with_pages(program(62, &[(LOAD, 5, 0x1000, 0x1000), (fat::PT_TEXT, other, 0x2000, 0x1000)]), 4);
        let plain = with_pages(program(243, &[(LOAD, 4, 0, 0x1000), (LOAD, 5, 0x1000, 0x1800)]), 4);
        for (text, of_fat, of_plain) in [
            ("", ["near-a"; 4], ["near-b"; 4]),
            ("near-a", ["near-a"; 4], ["near-b", "near-a", "near-a", "near-b"]),
            ("nobody", ["near-a", "near-a", "nobody", "near-a"], ["near-b", "nobody", "nobody", "near-b"]),
            ("near-b", ["near-a", "near-a", "near-b", "near-a"], ["near-b"; 4]),
        ] {
            let key = if text.is_empty() { String::new() } else { format!("text = \"{text}\"") };
            let machine = MachineSpec::parse(&format!(
                "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n\
                 [[island]]\nname = \"b\"\nisa = \"riscv64\"\ncores = 1\n{key}\n\
                 [[model.range]]\nname = \"near-a\"\nend = \"24MiB\"\nnear = [\"a\"]\n\
                 [[model.range]]\nname = \"nobody\"\nend = \"32MiB\"\n\
                 [[model.range]]\nname = \"near-b\"\nnear = [\"b\"]\n"
            ))
            .unwrap();
            let pool = HostPool::create(&machine, &Command::default(), 2, false).unwrap();
            pool_fs::make_root(&pool, 0).unwrap();
            assert_eq!(ranges(&pool, &machine, &fat), of_fat, "{text}");
            assert_eq!(ranges(&pool, &machine, &plain), of_plain, "{text}");
            assert_eq!(ranges(&pool, &machine, &vec![1; 8192]), ["near-a"; 2], "{text}: no program");
        }
    }

    #[test]
    fn text_that_its_range_has_no_room_for_is_an_error() {
        let machine = MachineSpec::parse(
            "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"riscv64\"\ncores = 1\ntext = \"x\"\n\
             [[model.range]]\nname = \"rest\"\nend = \"60MiB\"\nnear = [\"a\"]\n[[model.range]]\nname = \"x\"\n",
        )
        .unwrap();
        let pool = HostPool::create(&machine, &Command::default(), 2, false).unwrap();
        let root = pool_fs::make_root(&pool, 0).unwrap();
        let attributes = pool_fs::Attributes { mode: 0o755, uid: 0, gid: 0, rdev: 0, now_ns: 0 };
        let file = pool_fs::create(&pool, root, b"file", attributes).unwrap();
        let mut bytes = program(243, &[(LOAD, 5, 0, 8 << 20)]);
        bytes.resize(8 << 20, 1);
        let refused = Placement::of(&bytes).write(&pool, file.inode(), 0, &bytes);
        assert_eq!(refused, Err(Errno::ENOSPC));
        assert!(
            pool.header().memory.free_blocks.load(motet_layout::sync::Ordering::Relaxed) > 8,
            "elsewhere there is room"
        );
    }
}
