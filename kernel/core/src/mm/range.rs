//! Ranges of addresses: those that system calls may name, and changes of one in a space whose lock is held.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{PAGE_SIZE, SpaceRecord, USER_END, VMA_EXECUTE, VMA_NEVER_WRITE, VMA_READ, VMA_WRITE};
use motet_protocol::residency;

use super::{
    kept,
    vma::{self, attr_of},
};
use crate::cpu::Cpu;

/// Longest heap and mapping, in bytes; keeps sums of addresses from overflowing.
pub(super) const LEN_MAX: u64 = USER_END;
/// Nothing is mapped below this, so that a null pointer leads nowhere (Linux `mmap_min_addr`; here the superuser is no
/// exception).
pub const LOWEST: u64 = 65_536;

/// The range of a mapping whose address is given.
pub(super) fn fixed_range(address: u64, len: u64) -> Result<(u64, u64), Errno> {
    let (start, end) = page_range(address, len, Errno::EINVAL)?;
    if start < LOWEST { Err(Errno::EPERM) } else { Ok((start, end)) }
}

/// The page range of an address (which must be page-aligned) and a length.
pub(super) fn page_range(address: u64, len: u64, overflow: Errno) -> Result<(u64, u64), Errno> {
    if address % PAGE_SIZE != 0 {
        return Err(Errno::EINVAL);
    }
    let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(overflow)?;
    let end = address.checked_add(len).filter(|&end| end <= USER_END).ok_or(overflow)?;
    Ok((address, end))
}

/// Changes the protection of a range of a space whose lock is held.
///
/// # Errors
/// `ENOMEM` when part of the range is not mapped, `EACCES` when part of it may never be written (the part before it is
/// changed).
pub fn protect<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
    flags: u32,
) -> Result<(), Errno> {
    let changed = protect_vmas(cpu, space, start, end, flags);
    protect_pages(cpu, space, start, changed.end, changed.is_new_code);
    changed.result
}

/// What [`protect_vmas`] has done.
pub(super) struct Changed {
    /// First address that it has not come to.
    pub end: u64,
    /// Some of it may be executed that could not be before.
    pub is_new_code: bool,
    /// Why it has not come further.
    pub result: Result<(), Errno>,
}

/// Gives VMAs a new protection, as far as that is possible. Their pages keep their rights until [`protect_pages`]; faults
/// use the VMA, so they give no more than the new protection allows. Errors are those of [`protect`].
pub(super) fn protect_vmas<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
    flags: u32,
) -> Changed {
    let mut covered = start;
    let mut is_new_code = false;
    let result = vma::for_each_within(cpu, space, start, end, |vma| {
        if vma.start.get() > covered {
            return Err(Errno::ENOMEM);
        }
        let old = vma.flags.get();
        if flags & VMA_WRITE != 0 && old & VMA_NEVER_WRITE != 0 {
            return Err(Errno::EACCES);
        }
        covered = vma.end.get();
        vma::set_flags(cpu, space, vma, old & !(VMA_READ | VMA_WRITE | VMA_EXECUTE) | flags);
        is_new_code |= flags & VMA_EXECUTE & !old != 0;
        Ok(())
    });
    vma::join_within(cpu, space, start, end);
    kept::forget_elsewhere(cpu, space, start, covered, false);
    let result = if covered < end { result.and(Err(Errno::ENOMEM)) } else { result };
    Changed { end: covered, is_new_code, result }
}

/// Reduces the rights of a range's resident pages to what their VMAs allow, and waits until no core uses more.
pub(super) fn protect_pages<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
    is_new_code: bool,
) {
    let parts = vma::within(cpu, space, start..end)
        .map(|vma| residency::Part { range: vma.start.get().max(start)..vma.end.get().min(end), access: attr_of(vma) });
    residency::protect(cpu, space, parts, is_new_code);
}

/// Unmaps `[start, end)` of a space whose lock is held.
///
/// # Errors
/// `ENOMEM`.
pub fn unmap_locked<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, start: u64, end: u64) -> Result<(), Errno> {
    if start >= end {
        return Ok(());
    }
    vma::unmap(cpu, space, start, end)?;
    residency::unmap(cpu, space, start..end);
    kept::forget_elsewhere(cpu, space, start, end, true);
    Ok(())
}
