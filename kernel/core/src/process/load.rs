//! Loading executables into a new address space.

use elf::abi::{PF_R, PF_W, PF_X, PT_LOAD};
use motet_hal::Machine;
use motet_layout::{InodeRecord, PAGE_SIZE, SpaceRecord, USER_END, VMA_EXECUTE, VMA_READ, VMA_WRITE};

use super::{
    executable::Executable,
    fat::{self, Fat},
    refusal::Refusal,
};
use crate::{
    call::{BUDGET, cost},
    cpu::Cpu,
    due,
    mm::{self, Policy, VmaSpec},
};

/// What mapping a segment costs (`call::cost`).
const SEGMENT: u64 = 4 * cost::OBJECT;

/// Where a file was loaded.
pub struct Loaded {
    /// Entry point.
    pub entry: u64,
    /// Address of the program headers in memory, 0 when no segment holds them.
    pub headers_at: u64,
    /// Number of program headers.
    pub header_count: u64,
    /// Difference between addresses in memory and in the file.
    pub bias: u64,
    /// First address past its last segment.
    pub end: u64,
}

impl Executable<'_> {
    /// Maps the segments into `space`, displaced by `bias` unless the file is fixed.
    ///
    /// # Errors
    /// Segments overlap or leave user space; `ENOMEM`.
    pub fn map<M: Machine>(
        &self,
        cpu: &Cpu<M>,
        space: &'static SpaceRecord,
        inode: &'static InodeRecord,
        bias: u64,
    ) -> Result<Loaded, Refusal> {
        due::spend_locked(cpu, cost::STEP);
        let fat = Fat::find(cpu, self, inode)?;
        // Up to 64 headers have been looked through several times.
        due::spend_locked(cpu, BUDGET);
        let bias = if self.is_fixed() { 0 } else { bias };
        let mut loaded = Loaded {
            entry: self.header.e_entry.wrapping_add(bias),
            headers_at: 0,
            header_count: self.segment_count(),
            bias,
            end: 0,
        };
        let mut mapped_end = 0;
        for segment in self.segments().filter(|segment| segment.p_type == PT_LOAD && segment.p_memsz != 0) {
            let outside = Refusal::Damaged("a segment is outside of the address space");
            let address = segment.p_vaddr.checked_add(bias).ok_or(outside)?;
            let end = address.checked_add(segment.p_memsz).filter(|&end| end <= USER_END).ok_or(outside)?;
            let start = address & !(PAGE_SIZE - 1);
            // Ascending and on pages of its own, as the format demands; the first page is never mapped.
            if start < mapped_end.max(PAGE_SIZE) {
                return Err(Refusal::Damaged("its segments overlap, are not in order, or begin at address 0"));
            }
            mapped_end = end.next_multiple_of(PAGE_SIZE);
            let lead = address - start;
            let spec = VmaSpec {
                start,
                end: mapped_end,
                flags: segment_flags(segment.p_flags),
                inode: (segment.p_filesz != 0).then_some(inode),
                offset: segment.p_offset - lead.min(segment.p_offset),
                file_len: if segment.p_filesz == 0 { 0 } else { segment.p_filesz + lead },
                policy: if fat.is_some() { fat::policy_of_segment(cpu, &segment)? } else { Policy::DEFAULT },
                view: mm::View::default(),
            };
            match &fat {
                Some(fat) if fat.is_text(&segment) => fat.map(cpu, space, inode)?,
                Some(_) | None => mm::insert(cpu, space, &spec)?,
            }
            let in_segment = self.header.e_phoff.wrapping_sub(segment.p_offset);
            if in_segment < segment.p_filesz {
                loaded.headers_at = address + in_segment;
            }
            loaded.end = end;
            due::spend_locked(cpu, SEGMENT);
        }
        Ok(loaded)
    }
}

fn segment_flags(flags: u32) -> u32 {
    let mut vma = 0;
    for (bit, flag) in [(PF_R, VMA_READ), (PF_W, VMA_WRITE), (PF_X, VMA_EXECUTE)] {
        if flags & bit != 0 {
            vma |= flag;
        }
    }
    vma
}
