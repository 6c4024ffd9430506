//! Reading and writing file contents, by runs that lie within one page.

use core::ops::Range;

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::{F_SEAL_FUTURE_WRITE, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_WRITE},
};
use motet_layout::{Frame, InodeRecord, PAGE_SHIFT, PAGE_SIZE, PoolAddr, handshake::then_look};

use crate::{
    Context,
    lock::{lock, try_lock},
    memory::frame_record,
};

use super::pages::{self, FILE_SIZE_MAX, Freed};

/// Copies one run between the file at `offset` and memory: into the file when `write`. Returns the bytes copied, which
/// end at the latest with the run, with the file's page and (reading) with the file; 0: end of file. Writing extends
/// the file.
///
/// `memory` says where the other side's bytes are now. It is asked again whenever this function had to wait for
/// something, because waiting carries out shoot-downs, after which a user page may have lost its frame.
///
/// # Errors
/// `ENOSPC`, `EFBIG`; `EPERM`: a seal forbids it; what `memory` fails with.
#[inline]
pub fn transfer<E: From<Errno>>(
    context: &impl Context,
    inode: &'static InodeRecord,
    offset: u64,
    write: bool,
    mut memory: impl FnMut() -> Result<(PoolAddr, usize), E>,
) -> Result<usize, E> {
    loop {
        let (run, run_len) = memory()?;
        let Some(guard) = try_lock(context, &inode.lock) else {
            drop(lock(context, &inode.lock));
            continue;
        };
        let len = run_len.min((PAGE_SIZE - offset % PAGE_SIZE) as usize);
        if !write {
            let len = (len as u64).min(inode.size.load(Ordering::Relaxed).saturating_sub(offset)) as usize;
            match pages::find(context, inode, offset >> PAGE_SHIFT) {
                _ if len == 0 => {}
                Some(frame) => context.pool().copy(frame.addr().add(offset % PAGE_SIZE), run, len),
                None => context.pool().zero(run, len),
            }
            return Ok(len);
        }
        check_seals(inode, F_SEAL_WRITE | F_SEAL_FUTURE_WRITE, offset + len as u64)?;
        let Some(frame) = pages::find(context, inode, offset >> PAGE_SHIFT) else {
            pages::find_or_allocate(context, inode, offset >> PAGE_SHIFT)?;
            context.spend_locked(ALLOCATED);
            continue;
        };
        context.pool().copy(run, frame.addr().add(offset % PAGE_SIZE), len);
        written(context, frame);
        extend(inode, offset + len as u64);
        drop(guard);
        return Ok(len);
    }
}

/// What a new page costs, in instructions.
const ALLOCATED: u64 = 500;

/// Calls `each` with the pieces of pool memory behind `len` bytes of the file from `offset`, page by page, the inode
/// locked. Reading stops at the end of the file and shows holes as `None`; writing fills holes and extends the file.
/// Returns the bytes covered.
///
/// # Errors
/// `ENOSPC`, `EFBIG` when not a single byte could be covered.
pub fn for_each_run(
    context: &impl Context,
    inode: &'static InodeRecord,
    offset: u64,
    len: u64,
    write: bool,
    mut each: impl FnMut(Option<PoolAddr>, usize),
) -> Result<u64, Errno> {
    let mut done = 0;
    while done < len {
        let at = offset.checked_add(done).ok_or(Errno::EFBIG)?;
        let guard = lock(context, &inode.lock);
        let mut here = (len - done).min(PAGE_SIZE - at % PAGE_SIZE);
        let frame = if write {
            match pages::find_or_allocate(context, inode, at >> PAGE_SHIFT) {
                Ok(frame) => Some(frame),
                Err(_) if done > 0 => return Ok(done),
                Err(errno) => return Err(errno),
            }
        } else {
            here = here.min(inode.size.load(Ordering::Relaxed).saturating_sub(at));
            pages::find(context, inode, at >> PAGE_SHIFT)
        };
        if here == 0 {
            break;
        }
        each(frame.map(|frame| frame.addr().add(at % PAGE_SIZE)), here as usize);
        if let Some(frame) = frame.filter(|_| write) {
            written(context, frame);
            extend(inode, at + here);
        }
        drop(guard);
        done += here;
    }
    Ok(done)
}

/// Reads file contents into private memory; returns the bytes read, fewer only at the end of the file.
pub fn read_bytes(context: &impl Context, inode: &'static InodeRecord, offset: u64, into: &mut [u8]) -> usize {
    let mut done = 0;
    let read = for_each_run(context, inode, offset, into.len() as u64, false, |run, len| {
        let piece = &mut into[done..done + len];
        match run {
            Some(run) => context.pool().read(run, piece),
            None => piece.fill(0),
        }
        done += len;
    });
    read.unwrap_or(0) as usize
}

/// Writes file contents from private memory; returns the bytes written.
///
/// # Errors
/// `ENOSPC`, `EFBIG` when nothing was written.
pub fn write_bytes(
    context: &impl Context,
    inode: &'static InodeRecord,
    offset: u64,
    from: &[u8],
) -> Result<usize, Errno> {
    let mut done = 0;
    let written = for_each_run(context, inode, offset, from.len() as u64, true, |run, len| {
        if let Some(run) = run {
            context.pool().write(run, &from[done..done + len]);
        }
        done += len;
    })?;
    Ok(written as usize)
}

/// A piece of [`truncate`] or [`punch`].
pub struct Piece {
    /// Pages that the file no longer has and that somebody may still have mapped, if there are any.
    pub mapped: Option<Range<u64>>,
    /// What is still to be done: everything before this byte; `None`: nothing is.
    pub left: Option<u64>,
}

/// Makes the file `size` bytes long: cuts it, or adds a hole. Returns the pages that somebody may still have mapped and that the file
/// no longer has, if there are any.
///
/// # Errors
/// `EFBIG`; `EPERM`: a seal forbids it.
pub fn truncate(context: &impl Context, inode: &'static InodeRecord, size: u64) -> Result<Option<Range<u64>>, Errno> {
    truncate_some(context, inode, size, u64::MAX).map(|piece| piece.mapped)
}

/// As [`truncate`], as much as `work` instructions (roughly) suffice for: a long file gets shorter with each piece.
///
/// # Errors
/// `EFBIG`.
pub fn truncate_some(
    context: &impl Context,
    inode: &'static InodeRecord,
    size: u64,
    work: u64,
) -> Result<Piece, Errno> {
    if size > FILE_SIZE_MAX {
        return Err(Errno::EFBIG);
    }
    let _guard = lock(context, &inode.lock);
    let shrinks = size < inode.size.load(Ordering::Relaxed);
    check_seals(inode, if shrinks { F_SEAL_SHRINK } else { 0 }, size)?;
    if shrinks && inode.guests.load(Ordering::SeqCst) != 0 {
        return Err(Errno::EPERM);
    }
    let first = size.div_ceil(PAGE_SIZE);
    if size >= inode.size.load(Ordering::Relaxed) {
        inode.size.store(size, Ordering::Relaxed);
        return Ok(Piece { mapped: None, left: None });
    }
    let freed = free_from(context, inode, first, work);
    let is_done = freed.from <= first;
    if is_done {
        inode.size.store(size, Ordering::Relaxed);
        zero_in_page(context, inode, size, PAGE_SIZE - size % PAGE_SIZE);
    }
    then_look(); // whoever maps the file says so, and then faults by its size
    let may_be_mapped = freed.others || inode.mapped_privately.load(Ordering::Relaxed) != 0;
    let mapped = may_be_mapped.then_some(freed.from..u64::MAX);
    Ok(Piece { mapped, left: (!is_done).then_some(freed.from << PAGE_SHIFT) })
}

/// Makes `len` bytes from `offset` read as zero, freeing whole pages. The size does not change. Returns pages as [`truncate`] does.
///
/// # Errors
/// `EPERM`: a seal forbids it.
pub fn punch(
    context: &impl Context,
    inode: &'static InodeRecord,
    offset: u64,
    len: u64,
) -> Result<Option<Range<u64>>, Errno> {
    Ok(punch_some(context, inode, offset, offset.saturating_add(len), u64::MAX)?.mapped)
}

/// As [`punch`], up to the byte `end`, as much as `work` instructions (roughly) suffice for: the last pages first.
///
/// # Errors
/// As [`punch`].
pub fn punch_some(
    context: &impl Context,
    inode: &'static InodeRecord,
    offset: u64,
    end: u64,
    work: u64,
) -> Result<Piece, Errno> {
    let end = end.min(FILE_SIZE_MAX);
    let _guard = lock(context, &inode.lock);
    check_seals(inode, F_SEAL_WRITE | F_SEAL_FUTURE_WRITE, 0)?;
    let head_end = offset.next_multiple_of(PAGE_SIZE).min(end);
    let tail = (end & !(PAGE_SIZE - 1)).max(head_end);
    zero_in_page(context, inode, tail, end.saturating_sub(tail));
    let cut = head_end >> PAGE_SHIFT..tail >> PAGE_SHIFT;
    let freed = pages::free_range(context, inode, cut.start, cut.end, work);
    let mapped = freed.others.then_some(freed.from.min(cut.end)..cut.end);
    if freed.from > cut.start {
        return Ok(Piece { mapped, left: Some(freed.from << PAGE_SHIFT) });
    }
    zero_in_page(context, inode, offset, head_end.saturating_sub(offset));
    Ok(Piece { mapped, left: None })
}

/// Frees pages of a file that nobody uses any more, the last ones first, as many as `work` instructions (roughly) suffice for.
/// `true`: it has none left.
pub(super) fn drain(context: &impl Context, inode: &'static InodeRecord, work: u64) -> bool {
    let _guard = lock(context, &inode.lock);
    free_from(context, inode, 0, work).from == 0
}

/// Frees a file's pages from `first` on, as many as `work` instructions (roughly) suffice for: it ends before them. The inode's lock
/// is held.
fn free_from(context: &impl Context, inode: &InodeRecord, first: u64, work: u64) -> Freed {
    let size = &inode.size;
    let end = size.load(Ordering::Relaxed).div_ceil(PAGE_SIZE).max(first);
    let freed = pages::free_range(context, inode, first, end, work);
    if freed.from > first {
        size.store((freed.from << PAGE_SHIFT).min(size.load(Ordering::Relaxed)), Ordering::Relaxed);
        return freed;
    }
    // A write that failed may have left a page behind the end.
    let behind = pages::free_range(context, inode, first, u64::MAX, u64::MAX);
    Freed { from: first, others: freed.others || behind.others }
}

/// Extends the file by `len` bytes for one appending writer, and returns where they start: concurrent appends do not
/// mix.
///
/// # Errors
/// `EFBIG`; `EPERM`: a seal forbids it.
pub fn reserve(context: &impl Context, inode: &'static InodeRecord, len: u64) -> Result<u64, Errno> {
    let _guard = lock(context, &inode.lock);
    let start = inode.size.load(Ordering::Relaxed);
    let end = start.checked_add(len).filter(|&end| end <= FILE_SIZE_MAX).ok_or(Errno::EFBIG)?;
    check_seals(inode, F_SEAL_WRITE | F_SEAL_FUTURE_WRITE, end)?;
    inode.size.store(end, Ordering::Relaxed);
    Ok(start)
}

/// Cuts off what [`reserve`] has added, from `written`, when no more comes and nothing was added behind it, which `end` was.
pub fn give_back(context: &impl Context, inode: &'static InodeRecord, written: u64, end: u64) {
    let _guard = lock(context, &inode.lock);
    if inode.size.load(Ordering::Relaxed) == end {
        inode.size.store(written, Ordering::Relaxed);
    }
}

/// Fails with `EPERM` when the file has any of `seals`, or is not to grow and would end at `end`. The inode's lock is held.
#[inline(always)]
fn check_seals(inode: &InodeRecord, seals: u32, end: u64) -> Result<(), Errno> {
    let own = inode.seals.load(Ordering::Relaxed);
    let grows = own & F_SEAL_GROW != 0 && end > inode.size.load(Ordering::Relaxed);
    if own & seals != 0 || grows { Err(Errno::EPERM) } else { Ok(()) }
}

/// Zeroes bytes of one page, if it is present. The inode's lock is held.
fn zero_in_page(context: &impl Context, inode: &InodeRecord, offset: u64, len: u64) {
    if len == 0 || offset % PAGE_SIZE == 0 && len == PAGE_SIZE {
        return;
    }
    if let Some(frame) = pages::find(context, inode, offset >> PAGE_SHIFT) {
        context.pool().zero(frame.addr().add(offset % PAGE_SIZE), len as usize);
    }
}

/// The frame's bytes have changed: islands that executed from it must look again before they next map it for execution.
fn written(context: &impl Context, frame: Frame) {
    frame_record(context.pool(), frame).synced.store(0, Ordering::Release);
}

#[inline(always)]
fn extend(inode: &InodeRecord, end: u64) {
    if end > inode.size.load(Ordering::Relaxed) {
        inode.size.store(end, Ordering::Relaxed);
    }
}
