//! `mremap`: mappings that grow, shrink and move.

use core::ops::Range;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{InodeRecord, PAGE_SIZE, SpaceRecord, USER_END, VMA_STACK, VMA_STORE, VMA_VIEW};
use motet_protocol::{
    Context,
    lock::lock,
    residency::{self, Home},
};

use super::{
    View, VmaSpec,
    calls::{LEN_MAX, fixed_range, page_range, unmap_locked},
    limits, pieces, space_of, vma,
};
use crate::{
    call::{BUDGET, Call, Stop, SysResult},
    cpu::Cpu,
    due,
};

const MREMAP_MAYMOVE: u64 = 1;
const MREMAP_FIXED: u64 = 2;
/// Bytes that one table of pages translates.
const TABLE_SPAN: u64 = PAGE_SIZE * motet_paging::ENTRIES as u64;

/// `mremap(old, old_length, new_length, flags, new)`.
pub fn mremap<M: Machine>(call: &Call<M>) -> SysResult {
    let [old, old_len, new_len, flags, target, _] = call.args;
    let (start, end) = page_range(old, old_len, Errno::EINVAL)?;
    let new_len = new_len.checked_next_multiple_of(PAGE_SIZE).filter(|&len| len != 0 && len <= LEN_MAX);
    let new_len = new_len.ok_or(Errno::EINVAL)?;
    let fixed_alone = flags & (MREMAP_MAYMOVE | MREMAP_FIXED) == MREMAP_FIXED;
    if flags & !(MREMAP_MAYMOVE | MREMAP_FIXED) != 0 || fixed_alone || start == end {
        return Err(Errno::EINVAL.into());
    }
    let space = space_of(call.cpu, call.process);
    if flags & MREMAP_FIXED != 0 {
        make_place(call, space, start..end, target, new_len)?;
    }
    let guard = lock(call.cpu, &space.lock);
    let mapped = vma::find(call.cpu, space, start);
    let shrinks = flags & MREMAP_FIXED == 0 && new_len <= end - start;
    // A call that shrinks and has paused goes on, though not all is there any more.
    let goes_on = shrinks && pieces::done(call).is_some();
    let vma = mapped.filter(|vma| vma.end.get() >= end || goes_on).ok_or(Errno::EFAULT)?;
    if vma.flags.get() & (VMA_VIEW | VMA_STORE) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if shrinks {
        drop(guard);
        pieces::unmap(call, space, start + new_len, end)?;
        return Ok(start);
    }
    // What grows from behind the file's part of a segment (`.bss`) is zero, as that is.
    let is_all_file = vma.file_len.get() >= vma.end.get() - vma.start.get();
    let file_left = vma.file_len.get().saturating_sub(start - vma.start.get());
    let spec = VmaSpec {
        start: end,
        end: start + new_len,
        flags: vma.flags.get() & !VMA_STACK,
        inode: call.cpu.object::<InodeRecord>(vma.inode.get()),
        offset: vma.offset.get() + (start - vma.start.get()),
        file_len: if vma.inode.get() != 0 && is_all_file { new_len } else { file_left },
        node: vma.node.get(),
        view: View::default(),
    };
    limits::check(call, space, new_len.saturating_sub(end - start), vma.flags.get())?;
    let above = vma::first_ending_after(call.cpu, space, end);
    if flags & MREMAP_FIXED == 0
        && vma.end.get() == end
        && spec.end <= USER_END
        && above.is_none_or(|above| above.start.get() >= start + new_len)
    {
        let grown = VmaSpec {
            offset: spec.offset + (end - start),
            file_len: spec.file_len.saturating_sub(end - start),
            ..spec
        };
        vma::insert(call.cpu, space, &grown)?;
        return Ok(start);
    }
    // It may take up to three more on the way, as on Linux.
    if flags & MREMAP_MAYMOVE == 0 || space.vma_count.get() + 3 >= vma::COUNT_MAX {
        return Err(Errno::ENOMEM.into());
    }
    let to = if flags & MREMAP_FIXED != 0 {
        unmap_locked(call.cpu, space, target, target + new_len)?;
        target
    } else {
        place_for(call.cpu, space, start, new_len).ok_or(Errno::ENOMEM)?
    };
    vma::insert(call.cpu, space, &VmaSpec { start: to, end: to + new_len, ..spec })?;
    let moved = start..end.min(start + new_len);
    if residency::move_pages(call.cpu, space, moved, to, pieces::ENTRIES).is_err() {
        unmap_locked(call.cpu, space, to, to + new_len)?;
        return Err(Errno::ENOMEM.into());
    }
    vma::unmap(call.cpu, space, start, end)?;
    drop_tables(call.cpu, space, start, end);
    Ok(to)
}

/// Drops what is left of the tables of a range whose pages have moved away, in pieces.
fn drop_tables<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, start: u64, end: u64) {
    let home = Home::of(cpu, space);
    let mut at = start;
    while at < end {
        due::spend_locked(cpu, BUDGET);
        let stop = home.end_of_piece(at..end, pieces::ENTRIES);
        residency::unmap(cpu, space, at..stop);
        at = stop;
    }
}

/// Checks where `mremap` is told to move a mapping to, and makes that replaceable.
fn make_place<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    old: Range<u64>,
    target: u64,
    len: u64,
) -> Result<(), Stop> {
    let (to, to_end) = page_range(target, len, Errno::EINVAL)?;
    if to < old.end && old.start < to_end {
        return Err(Errno::EINVAL.into());
    }
    fixed_range(target, len)?;
    if pieces::done(call).is_none() {
        let _guard = lock(call.cpu, &space.lock);
        let source = vma::find(call.cpu, space, old.start).filter(|vma| vma.end.get() >= old.end);
        source.filter(|vma| vma.flags.get() & (VMA_VIEW | VMA_STORE) == 0).ok_or(Errno::EFAULT)?;
    }
    pieces::make_replaceable(call, space, to, to_end)
}

/// Where `len` bytes that are now at `start` can move: to where whole tables of pages can, if there is such a place.
fn place_for<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, len: u64) -> Option<u64> {
    let top = space.mmap_top.get();
    if len < TABLE_SPAN {
        return vma::find_free(cpu, space, len, top);
    }
    let roomy = vma::find_free(cpu, space, len + TABLE_SPAN, top);
    let alike = roomy.map(|at| at + (start.wrapping_sub(at) & (TABLE_SPAN - 1)));
    alike.or_else(|| vma::find_free(cpu, space, len, top))
}
