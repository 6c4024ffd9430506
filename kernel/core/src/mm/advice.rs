//! System calls that say or ask something of mapped memory, and change no mapping: `madvise`, `mincore`, `msync`.

use core::ops::Range;

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    InodeRecord, PAGE_SIZE, SpaceRecord, VMA_DONT_FORK, VMA_LOCKED, VMA_NEVER_WRITE, VMA_SHARED, VMA_STORE, VMA_VIEW,
    VMA_WIPE_ON_FORK, VmaRecord, sync::Ordering,
};
use motet_protocol::{
    Context, fs, ipc,
    lock::lock,
    memory::release_frame,
    residency::{self, Home},
};

use super::{bring, calls::forget_pages, kept, pieces, range::page_range, space_of, view, vma};
use crate::{
    call::{BUDGET, Call, Stop, SysResult, cost},
    cpu::Cpu,
};

// madvise(2), include/uapi/asm-generic/mman-common.h
const MADV_NORMAL: u64 = 0;
const MADV_RANDOM: u64 = 1;
const MADV_SEQUENTIAL: u64 = 2;
const MADV_WILLNEED: u64 = 3;
const MADV_DONTNEED: u64 = 4;
const MADV_FREE: u64 = 8;
const MADV_REMOVE: u64 = 9;
const MADV_DONTFORK: u64 = 10;
const MADV_DOFORK: u64 = 11;
const MADV_MERGEABLE: u64 = 12;
const MADV_UNMERGEABLE: u64 = 13;
const MADV_HUGEPAGE: u64 = 14;
const MADV_NOHUGEPAGE: u64 = 15;
const MADV_DONTDUMP: u64 = 16;
const MADV_DODUMP: u64 = 17;
const MADV_WIPEONFORK: u64 = 18;
const MADV_KEEPONFORK: u64 = 19;
const MADV_COLD: u64 = 20;
const MADV_PAGEOUT: u64 = 21;
const MADV_POPULATE_READ: u64 = 22;
const MADV_POPULATE_WRITE: u64 = 23;
const MADV_DONTNEED_LOCKED: u64 = 24;

const MS_ASYNC: u64 = 1;
const MS_INVALIDATE: u64 = 2;
const MS_SYNC: u64 = 4;

/// Pages that `mincore` answers for at once.
const MINCORE_PAGES: u64 = 8;

/// What a piece of advice does to the VMAs of its range.
#[derive(Clone, Copy)]
enum Advice {
    /// It is about speed, and nothing is to be gained here.
    Ignored,
    /// As `Ignored`, and not for memory that is locked.
    Unlocked,
    /// Drops pages; anonymous private ones only; locked ones, too.
    Drop { anonymous_only: bool, drops_locked: bool },
    /// Brings pages as if they were used so.
    Populate(Access),
    /// Makes a hole in the file.
    Remove,
    /// Changes flags: those that are set, and those that are cleared.
    Flags(u32, u32),
}

/// `madvise(address, length, advice)`.
///
/// # Errors
/// `EINVAL`: advice that is not known, or cannot be followed here; `ENOMEM`: part of the range is not mapped (the
/// advice is followed where it is); `EPERM`: the text of a program for several ISAs, or a file that is sealed; `EACCES`: a file that the
/// mapping does not change.
pub fn madvise<M: Machine>(call: &Call<M>) -> SysResult {
    let (start, end) = page_range(call.args[0], call.args[1], Errno::EINVAL)?;
    let advice = match call.args[2] & u64::from(u32::MAX) {
        MADV_NORMAL | MADV_RANDOM | MADV_SEQUENTIAL | MADV_WILLNEED => Advice::Ignored,
        MADV_COLD | MADV_PAGEOUT => Advice::Unlocked,
        MADV_MERGEABLE | MADV_UNMERGEABLE | MADV_HUGEPAGE | MADV_NOHUGEPAGE => Advice::Ignored,
        // There are no core dumps.
        MADV_DONTDUMP | MADV_DODUMP => Advice::Ignored,
        MADV_DONTNEED => Advice::Drop { anonymous_only: false, drops_locked: false },
        MADV_DONTNEED_LOCKED => Advice::Drop { anonymous_only: false, drops_locked: true },
        MADV_FREE => Advice::Drop { anonymous_only: true, drops_locked: false },
        MADV_POPULATE_READ => Advice::Populate(Access::Read),
        MADV_POPULATE_WRITE => Advice::Populate(Access::Write),
        MADV_REMOVE => Advice::Remove,
        MADV_DONTFORK => Advice::Flags(VMA_DONT_FORK, 0),
        MADV_DOFORK => Advice::Flags(0, VMA_DONT_FORK),
        MADV_WIPEONFORK => Advice::Flags(VMA_WIPE_ON_FORK, 0),
        MADV_KEEPONFORK => Advice::Flags(0, VMA_WIPE_ON_FORK),
        _ => return Err(Errno::EINVAL.into()),
    };
    let (cpu, space) = (call.cpu, space_of(call.cpu, call.process));
    if !matches!(advice, Advice::Ignored | Advice::Unlocked | Advice::Populate(_)) && pieces::done(call).is_none() {
        let _guard = lock(cpu, &space.lock);
        view::check_no_store(cpu, space, start, end)?;
    }
    match advice {
        Advice::Drop { anonymous_only, drops_locked } => {
            drop_in_pieces(call, space, start, end, (anonymous_only, drops_locked))
        }
        Advice::Populate(access) => bring::populate(call, space, start, end, access),
        Advice::Remove => remove_in_pieces(call, space, start, end),
        Advice::Flags(set, clear) => change_in_pieces(call, space, start, end, set, clear),
        Advice::Ignored => check_in_pieces(call, space, start, end, None),
        Advice::Unlocked => check_in_pieces(call, space, start, end, Some(Errno::EINVAL)),
    }
}

/// Sets flags of a range's VMAs, and clears others, where it is mapped.
///
/// # Errors
/// `ENOMEM`: part of it is not mapped; `EINVAL`: a flag is not for what is there; [`Stop::Again`].
pub(super) fn change_in_pieces<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
    set: u32,
    clear: u32,
) -> SysResult {
    let [has_gap, ..] = &call.thread.scratch;
    pieces::of_vmas(call, space, start, end, |start, end| {
        let mut covered = Coverage::from(start);
        let followed = vma::for_each_within(call.cpu, space, start, end, |vma| {
            covered.add(vma);
            if set & VMA_WIPE_ON_FORK != 0 && !is_private_anonymous(vma) {
                return Err(Errno::EINVAL);
            }
            // What a program for several instruction sets runs has its pages by other rules.
            if (set | clear) & VMA_LOCKED == 0 || vma.flags.get() & (VMA_VIEW | VMA_STORE) == 0 {
                vma::mark(space, vma, set, clear);
            }
            Ok(())
        });
        vma::join_within(call.cpu, space, start, end);
        if !covered.reaches(end) {
            has_gap.set(1);
        }
        followed
    })?;
    if has_gap.get() == 0 { Ok(0) } else { Err(Errno::ENOMEM.into()) }
}

/// Whether a range is mapped. `if_locked`: what it fails with where it is locked.
fn check_in_pieces<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
    if_locked: Option<Errno>,
) -> SysResult {
    pieces::of_vmas(call, space, start, end, |start, end| {
        let (mut covered, mut refused) = (Coverage::from(start), None);
        for vma in vma::within(call.cpu, space, start..end) {
            covered.add(vma);
            refused = refused.or(if_locked.filter(|_| vma.flags.get() & VMA_LOCKED != 0));
        }
        match refused {
            Some(errno) => Err(errno),
            None if covered.reaches(end) => Ok(()),
            None => Err(Errno::ENOMEM),
        }
    })?;
    Ok(0)
}

fn drop_in_pieces<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
    (anonymous_only, drops_locked): (bool, bool),
) -> SysResult {
    let [has_gap, ..] = &call.thread.scratch;
    pieces::of(call, space, start, end, |start, end| {
        let mut covered = Coverage::from(start);
        for vma in vma::within(call.cpu, space, start..end) {
            covered.add(vma);
            let may_be_dropped = drops_locked || vma.flags.get() & VMA_LOCKED == 0;
            if !may_be_dropped || anonymous_only && !is_private_anonymous(vma) {
                return Err(Errno::EINVAL);
            }
            let range = vma.start.get().max(start)..vma.end.get().min(end);
            residency::drop_pages(call.cpu, space, range.clone());
            kept::forget_elsewhere(call.cpu, space, range.start, range.end, true);
        }
        if !covered.reaches(end) {
            has_gap.set(1);
        }
        Ok(())
    })?;
    if has_gap.get() == 0 { Ok(0) } else { Err(Errno::ENOMEM.into()) }
}

/// Frees the pages of the files that are shared in a range: they read as zeros, in the files and wherever else they are mapped. `progress`: the
/// address up to which that is done; the first word that is kept: what is left of the mapping there, as [`fs::punch_some`] says it.
fn remove_in_pieces<M: Machine>(call: &Call<M>, space: &'static SpaceRecord, start: u64, end: u64) -> SysResult {
    let [left, has_gap, ..] = &call.thread.scratch;
    let mut at = pieces::done(call).unwrap_or(start);
    while at < end {
        let Some((inode, offset, stop)) = shared_file_at(call.cpu, space, at, end)? else { break };
        if stop.start > at {
            has_gap.set(1);
        }
        let until = if left.get() == 0 { offset + (stop.end - stop.start) } else { left.get() };
        let piece = fs::punch_some(call.cpu, inode.inode(), offset, until, BUDGET)?;
        forget_pages(call.cpu, inode.inode(), piece.mapped, false);
        let segment = inode.segment.load(Ordering::Relaxed);
        drop(inode);
        if segment != 0 {
            ipc::left(call.cpu, segment); // which may have been detached meanwhile
        }
        left.set(piece.left.unwrap_or(0));
        at = if piece.left.is_some() { stop.start } else { stop.end };
        if at < end {
            pieces::pause_at(call, at)?;
        }
    }
    if has_gap.get() == 0 && at >= end { Ok(0) } else { Err(Errno::ENOMEM.into()) }
}

/// A file, with a reference; where in it, and where it is mapped.
type Mapped<'c, M> = (fs::Held<'c, Cpu<M>>, u64, Range<u64>);

/// The first file that is mapped between `at` and `end`; `None`: nothing is mapped there.
fn shared_file_at<'c, M: Machine>(
    cpu: &'c Cpu<M>,
    space: &'static SpaceRecord,
    at: u64,
    end: u64,
) -> Result<Option<Mapped<'c, M>>, Errno> {
    let _guard = lock(cpu, &space.lock);
    let Some(vma) = vma::within(cpu, space, at..end).next() else { return Ok(None) };
    let inode = cpu.object::<InodeRecord>(vma.inode.get()).filter(|inode| inode.is_device.get() == 0);
    let inode = inode.filter(|_| vma.flags.get() & VMA_VIEW == 0).ok_or(Errno::EINVAL)?;
    if vma.flags.get() & VMA_LOCKED != 0 {
        return Err(Errno::EINVAL);
    }
    if vma.flags.get() & (VMA_SHARED | VMA_NEVER_WRITE) != VMA_SHARED {
        return Err(Errno::EACCES);
    }
    let mapped = vma.start.get().max(at)..vma.end.get().min(end);
    Ok(Some((fs::Held::new(cpu, inode), vma.offset.get() + (mapped.start - vma.start.get()), mapped)))
}

fn is_private_anonymous(vma: &VmaRecord) -> bool {
    vma.inode.get() == 0 && vma.flags.get() & (VMA_SHARED | VMA_VIEW) == 0
}

/// `mincore(address, length, vector)`: a byte for each page, 1 if it is in memory: of a private mapping what the process has
/// touched, of a file (also) what is in the page cache.
///
/// # Errors
/// `EINVAL`, `ENOMEM`: part of the range is not mapped; `EFAULT`.
pub fn mincore<M: Machine>(call: &Call<M>) -> SysResult {
    let (start, end) = page_range(call.args[0], call.args[1], Errno::ENOMEM)?;
    let space = space_of(call.cpu, call.process);
    let pages = (end - start) / PAGE_SIZE;
    let mut done = call.thread.progress.get();
    while done < pages {
        let mut resident = [0; MINCORE_PAGES as usize];
        let count = (pages - done).min(MINCORE_PAGES) as usize;
        look_at(call.cpu, space, start + done * PAGE_SIZE, &mut resident[..count])?;
        call.write_user(call.args[2].checked_add(done).ok_or(Errno::EFAULT)?, &resident[..count])?;
        done += count as u64;
        if done < pages && call.pauses(MINCORE_PAGES * cost::PAGE) {
            call.thread.progress.set(done);
            return Err(Stop::Again);
        }
    }
    Ok(0)
}

/// `msync(address, length, flags)`: shared mappings are the file's pages, so there is nothing to write.
///
/// # Errors
/// `EINVAL`; `ENOMEM`: part of the range is not mapped; `EBUSY`: pages that are to be invalidated are locked.
pub fn msync<M: Machine>(call: &Call<M>) -> SysResult {
    let flags = call.args[2] & u64::from(u32::MAX);
    let both = MS_ASYNC | MS_SYNC;
    if flags & !(both | MS_INVALIDATE) != 0 || flags & both == both {
        return Err(Errno::EINVAL.into());
    }
    let (start, end) = page_range(call.args[0], call.args[1], Errno::ENOMEM)?;
    let may_be_locked = flags & MS_INVALIDATE == 0;
    check_in_pieces(call, space_of(call.cpu, call.process), start, end, (!may_be_locked).then_some(Errno::EBUSY))
}

/// How far a range is mapped without a gap, as its VMAs come in ascending order.
struct Coverage {
    end: u64,
    is_whole: bool,
}

impl Coverage {
    fn from(start: u64) -> Self {
        Self { end: start, is_whole: true }
    }

    fn add(&mut self, vma: &VmaRecord) {
        self.is_whole &= vma.start.get() <= self.end;
        self.end = vma.end.get();
    }

    fn reaches(&self, end: u64) -> bool {
        self.is_whole && self.end >= end
    }
}

/// Says of consecutive pages whether they are in memory.
fn look_at<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    start: u64,
    resident: &mut [u8],
) -> Result<(), Errno> {
    let _guard = lock(cpu, &space.lock);
    let home = Home::of(cpu, space);
    for (page, byte) in (start..).step_by(PAGE_SIZE as usize).zip(resident) {
        let vma = vma::find(cpu, space, page).ok_or(Errno::ENOMEM)?;
        *byte = u8::from(is_resident(cpu, &home, vma, page));
    }
    Ok(())
}

fn is_resident<M: Machine>(cpu: &Cpu<M>, home: &Home, vma: &VmaRecord, page: u64) -> bool {
    let at = view::store_address(vma, M::ISA, page).unwrap_or(page);
    if home.leaf(at).is_some() {
        return true;
    }
    let within = page - vma.start.get();
    let inode = cpu.object::<InodeRecord>(vma.inode.get()).filter(|_| within < vma.file_len.get());
    let cached = inode.and_then(|inode| fs::page(cpu, inode, (vma.offset.get() + within) / PAGE_SIZE));
    cached.map(|frame| release_frame(cpu, frame)).is_some()
}
