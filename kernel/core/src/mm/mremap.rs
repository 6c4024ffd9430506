//! `mremap`: mappings that grow, shrink and move.

use core::ops::Range;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{
    InodeRecord, PAGE_SIZE, SpaceRecord, USER_END, VMA_SHARED, VMA_STACK, VMA_STORE, VMA_VIEW, VmaRecord,
};
use motet_protocol::{
    Context,
    lock::lock,
    residency::{self, Home},
};

use super::{
    View, VmaSpec, bring, kept, limits, pieces,
    policy::Policy,
    range::{LEN_MAX, fixed_range, page_range, unmap_locked},
    recall::{self, recall},
    space_of, vma,
};
use crate::{
    call::{BUDGET, Call, Stop, SysResult},
    cpu::Cpu,
    due,
};

const MREMAP_MAYMOVE: u64 = 1;
const MREMAP_FIXED: u64 = 2;
const MREMAP_DONTUNMAP: u64 = 4;
/// Bytes that one table of pages translates.
const TABLE_SPAN: u64 = PAGE_SIZE * motet_paging::ENTRIES as u64;

/// What a call asks for.
struct Wanted {
    old: Range<u64>,
    new_len: u64,
    /// Where it is to be; `None`: where it is, or where there is room.
    target: Option<u64>,
    may_move: bool,
    /// The old place stays mapped, and has no pages.
    keeps: bool,
}

impl Wanted {
    /// # Errors
    /// `EINVAL`.
    fn of<M: Machine>(call: &Call<M>) -> Result<Self, Errno> {
        let [old, old_len, new_len, flags, target, _] = call.args;
        let (start, end) = page_range(old, old_len, Errno::EINVAL)?;
        let new_len = new_len.checked_next_multiple_of(PAGE_SIZE).filter(|&len| len != 0 && len <= LEN_MAX);
        let new_len = new_len.ok_or(Errno::EINVAL)?;
        let [may_move, is_fixed, keeps] =
            [MREMAP_MAYMOVE, MREMAP_FIXED, MREMAP_DONTUNMAP].map(|flag| flags & flag != 0);
        let is_known = flags & !(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) == 0;
        if !is_known || (is_fixed || keeps) && !may_move || keeps && (new_len != end - start || target % PAGE_SIZE != 0)
        {
            return Err(Errno::EINVAL);
        }
        Ok(Self { old: start..end, new_len, target: is_fixed.then_some(target), may_move, keeps })
    }

    /// Whether the mapping stays as it is, and what it shares is to be mapped once more.
    fn repeats(&self) -> bool {
        self.old.is_empty()
    }

    /// Whether it stays where it is, and gets no longer.
    fn shrinks(&self) -> bool {
        self.target.is_none() && !self.keeps && !self.repeats() && self.new_len <= self.old.end - self.old.start
    }

    /// By how much it gets longer.
    fn growth(&self) -> u64 {
        if self.keeps { self.new_len } else { self.new_len.saturating_sub(self.old.end - self.old.start) }
    }
}

/// `mremap(old, old_length, new_length, flags, new)`.
pub fn mremap<M: Machine>(call: &Call<M>) -> SysResult {
    if let Some(result) = bring::brought(call) {
        return result;
    }
    let wanted = Wanted::of(call)?;
    let Range { start, end } = wanted.old;
    recall(call, start, end)?;
    let space = space_of(call.cpu, call.process);
    if let Some(target) = wanted.target {
        make_place(call, space, start..end, target, wanted.new_len)?;
    }
    let guard = lock(call.cpu, &space.lock);
    let place = kept::place(call.cpu, space, start, end);
    if place == kept::Place::Away {
        // Another kernel has taken a page since they all came home.
        drop(guard);
        return Err(recall::later(call));
    }
    let mapped = vma::find(call.cpu, space, start);
    // A call that shrinks and has paused goes on, though not all is there any more.
    let goes_on = wanted.shrinks() && pieces::done(call).is_some();
    let vma = mapped.filter(|vma| vma.end.get() >= end || goes_on).ok_or(Errno::EFAULT)?;
    if vma.flags.get() & (VMA_VIEW | VMA_STORE) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if wanted.repeats() && (vma.flags.get() & VMA_SHARED == 0 || vma.inode.get() == 0) {
        return Err(Errno::EINVAL.into());
    }
    if wanted.shrinks() {
        drop(guard);
        pieces::unmap(call, space, start + wanted.new_len, end)?;
        return Ok(start);
    }
    let growth = if wanted.repeats() { wanted.new_len } else { wanted.growth() };
    limits::check_more_locked(call.process, space, growth, vma.flags.get())?;
    limits::check(call, space, wanted.growth(), vma.flags.get())?;
    let comes_at_once = growth != 0 && bring::come_at_once(space, vma.flags.get());
    let may_stay = wanted.target.is_none() && !wanted.keeps && !wanted.repeats();
    if may_stay && has_room_behind(call.cpu, space, vma, &wanted) {
        vma::insert(call.cpu, space, &part(call.cpu, vma, end, end, wanted.growth()))?;
        drop(guard);
        return if comes_at_once { bring::bring_new(call, start, end, end + growth) } else { Ok(start) };
    }
    // It may take up to three more on the way, as on Linux.
    if !wanted.may_move || space.vma_count.get() + 3 >= vma::COUNT_MAX {
        return Err(Errno::ENOMEM.into());
    }
    if place == kept::Place::Lost {
        // What is known of them does not move.
        return Err(Errno::EFAULT.into());
    }
    limits::check_commit(call.cpu, wanted.new_len, vma.flags.get())?;
    let to = move_to_place(call.cpu, space, vma, &wanted)?;
    drop(guard);
    if comes_at_once { bring::bring_new(call, to, to, to + wanted.new_len) } else { Ok(to) }
}

/// Whether a mapping can grow where it is.
fn has_room_behind<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &VmaRecord, wanted: &Wanted) -> bool {
    let Range { start: _, end } = wanted.old;
    let new_end = end + wanted.growth();
    let above = vma::first_ending_after(cpu, space, end);
    vma.end.get() == end && new_end <= USER_END && above.is_none_or(|above| above.start.get() >= new_end)
}

/// A mapping of `len` bytes at `to` of what `vma` has, or would have if it were longer, from `from` on.
fn part<M: Machine>(cpu: &Cpu<M>, vma: &VmaRecord, from: u64, to: u64, len: u64) -> VmaSpec {
    let within = from - vma.start.get();
    // What grows from behind the file's part of a segment (`.bss`) is zero, as that is.
    let is_all_file = vma.inode.get() != 0 && vma.file_len.get() >= vma.end.get() - vma.start.get();
    VmaSpec {
        start: to,
        end: to + len,
        flags: vma.flags.get() & !VMA_STACK,
        inode: cpu.object::<InodeRecord>(vma.inode.get()),
        offset: vma.offset.get() + within,
        file_len: if is_all_file { len } else { vma.file_len.get().saturating_sub(within) },
        policy: Policy(vma.policy.get()),
        view: View::default(),
    }
}

/// Moves a mapping, or a part of it, to where it is wanted, or where there is room: where that is.
fn move_to_place<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    vma: &VmaRecord,
    wanted: &Wanted,
) -> Result<u64, Errno> {
    let (Range { start, end }, new_len) = (wanted.old.clone(), wanted.new_len);
    // Before anything is unmapped, of which it may be a neighbour.
    let spec = part(cpu, vma, start, start, new_len);
    let to = match wanted.target {
        Some(target) => {
            unmap_locked(cpu, space, target, target + new_len)?;
            target
        }
        None => place_for(cpu, space, start, new_len).ok_or(Errno::ENOMEM)?,
    };
    vma::insert(cpu, space, &VmaSpec { start: to, end: to + new_len, ..spec })?;
    if wanted.repeats() {
        return Ok(to);
    }
    let moved = start..end.min(start + new_len);
    if residency::move_pages(cpu, space, moved, to, pieces::ENTRIES).is_err() {
        unmap_locked(cpu, space, to, to + new_len)?;
        return Err(Errno::ENOMEM);
    }
    if !wanted.keeps {
        vma::unmap(cpu, space, start, end)?;
    }
    kept::forget_elsewhere(cpu, space, start, end, true);
    drop_tables(cpu, space, start, end);
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
    // Also of what is only to be mapped once more, the first page.
    if to < old.end.max(old.start + PAGE_SIZE) && old.start < to_end {
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
