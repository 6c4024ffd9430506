//! Locked memory: `mlock` and its kin, `MAP_LOCKED`, and `MAP_POPULATE`. Memory is never paged out, so a lock is a flag of VMAs that
//! `RLIMIT_MEMLOCK` counts, and pages that come at once and not when they are used.

use core::ops::Range;

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    InodeRecord, LOCKS_FUTURE, LOCKS_FUTURE_ON_FAULT, PAGE_SIZE, SpaceRecord, USER_END, VMA_EXECUTE, VMA_LOCKED,
    VMA_READ, VMA_SHARED, VMA_STORE, VMA_VIEW, VMA_WRITE, VmaRecord,
};
use motet_protocol::{Context, lock::lock};

use super::{advice::change_in_pieces, fault, limits, pieces, range::page_range, space_of, vma};
use crate::call::{Call, Stop, SysResult};

const MLOCK_ONFAULT: u32 = 1;
const MCL_CURRENT: u64 = 1;
const MCL_FUTURE: u64 = 2;
const MCL_ONFAULT: u64 = 4;

/// `mlock(address, length)`.
///
/// # Errors
/// `EINVAL`; `ENOMEM`: part of the range is not mapped, or cannot be in memory, or more would be locked than may be; `EPERM`: nothing may.
pub fn mlock<M: Machine>(call: &Call<M>) -> SysResult {
    let (start, end) = whole_pages(call)?;
    lock_range(call, start, end, true)
}

/// `mlock2(address, length, flags)`.
///
/// # Errors
/// As [`mlock`].
pub fn mlock2<M: Machine>(call: &Call<M>) -> SysResult {
    let flags = call.args[2] as u32;
    if flags & !MLOCK_ONFAULT != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (start, end) = whole_pages(call)?;
    lock_range(call, start, end, flags & MLOCK_ONFAULT == 0)
}

/// `munlock(address, length)`.
///
/// # Errors
/// `EINVAL`; `ENOMEM`: part of the range is not mapped.
pub fn munlock<M: Machine>(call: &Call<M>) -> SysResult {
    let (start, end) = whole_pages(call)?;
    change_in_pieces(call, space_of(call.cpu, call.process), start, end, 0, VMA_LOCKED)
}

/// `mlockall(flags)`.
///
/// # Errors
/// `EINVAL`; `ENOMEM`, `EPERM`: as [`mlock`].
pub fn mlockall<M: Machine>(call: &Call<M>) -> SysResult {
    let flags = call.args[0] & u64::from(u32::MAX);
    let known = flags & !(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0;
    if !known || flags & (MCL_CURRENT | MCL_FUTURE) == 0 {
        return Err(Errno::EINVAL.into());
    }
    let space = space_of(call.cpu, call.process);
    if !goes_on(call) {
        let _guard = lock(call.cpu, &space.lock);
        let now = if flags & MCL_CURRENT != 0 { space.mapped_len.get() } else { 0 };
        limits::check_locked(call.process, now)?;
        let future = if flags & MCL_FUTURE != 0 { LOCKS_FUTURE } else { 0 };
        let on_fault = if flags & MCL_ONFAULT != 0 { LOCKS_FUTURE_ON_FAULT } else { 0 };
        space.future_locks.set(if future == 0 { 0 } else { future | on_fault });
    }
    if flags & MCL_CURRENT == 0 {
        return Ok(0);
    }
    // What cannot be locked or in memory is left out, as on Linux.
    let [_, is_at_pages, ..] = &call.thread.scratch;
    if is_at_pages.get() == 0 {
        ignored(change_in_pieces(call, space, 0, USER_END, VMA_LOCKED, 0))?;
        is_at_pages.set(1);
        call.thread.progress.set(0);
    }
    if flags & MCL_ONFAULT == 0 {
        bring(call, space, 0, USER_END, true)?;
    }
    Ok(0)
}

/// `munlockall()`.
///
/// # Errors
/// None.
pub fn munlockall<M: Machine>(call: &Call<M>) -> SysResult {
    let space = space_of(call.cpu, call.process);
    {
        let _guard = lock(call.cpu, &space.lock);
        space.future_locks.set(0);
    }
    ignored(change_in_pieces(call, space, 0, USER_END, 0, VMA_LOCKED))
}

/// The `VMA_*` of locks that a new mapping gets. The space's lock is held.
///
/// # Errors
/// `EPERM`: it asks to be locked, and the process may lock nothing; `EAGAIN`: more would be locked than may be.
pub fn of_new<M: Machine>(call: &Call<M>, space: &SpaceRecord, len: u64, asks: bool) -> Result<u32, Errno> {
    if !asks && space.future_locks.get() == 0 {
        return Ok(0);
    }
    if asks && limits::check_locked(call.process, 0).is_err() {
        return Err(Errno::EPERM);
    }
    limits::check_more_locked(call.process, space, len, VMA_LOCKED)?;
    Ok(VMA_LOCKED)
}

/// Whether the pages of a new mapping with these `VMA_*` come at once because it is locked. The space's lock is held.
pub fn come_at_once(space: &SpaceRecord, flags: u32) -> bool {
    flags & VMA_LOCKED != 0 && space.future_locks.get() & LOCKS_FUTURE_ON_FAULT == 0
}

/// A call whose result is `start` has mapped what ends at `end`, and its pages are to come before it returns. Those that cannot come do so when
/// they are used, or fail then.
///
/// # Errors
/// [`Stop::Again`], [`Stop::Page`]: the call is made again, and begins with [`brought`].
pub fn bring_new<M: Machine>(call: &Call<M>, result: u64, start: u64, end: u64) -> SysResult {
    let [.., result_word, end_word] = &call.thread.scratch;
    result_word.set(result);
    end_word.set(end);
    call.thread.progress.set(0);
    brought_from(call, start, end).map(|()| result)
}

/// What a call returns that has paused while pages come; `None`: it has not.
///
/// # Errors
/// As [`bring_new`].
pub fn brought<M: Machine>(call: &Call<M>) -> Option<SysResult> {
    let [.., result_word, end_word] = &call.thread.scratch;
    let (result, end) = (result_word.get(), end_word.get());
    (end != 0).then(|| brought_from(call, pieces::done(call).unwrap_or(end), end).map(|()| result))
}

fn brought_from<M: Machine>(call: &Call<M>, start: u64, end: u64) -> Result<(), Stop> {
    bring(call, space_of(call.cpu, call.process), start, end, true)
}

/// The pages that a call's range touches.
fn whole_pages<M: Machine>(call: &Call<M>) -> Result<(u64, u64), Errno> {
    let start = call.args[0] & !(PAGE_SIZE - 1);
    let len = call.args[1].checked_add(call.args[0] - start).ok_or(Errno::EINVAL)?;
    page_range(
        start,
        len,
        if len.checked_next_multiple_of(PAGE_SIZE).is_none() { Errno::EINVAL } else { Errno::ENOMEM },
    )
}

/// Locks a range; `at_once`: its pages come, too.
fn lock_range<M: Machine>(call: &Call<M>, start: u64, end: u64, at_once: bool) -> SysResult {
    let space = space_of(call.cpu, call.process);
    let [_, is_at_pages, ..] = &call.thread.scratch;
    if !goes_on(call) {
        let _guard = lock(call.cpu, &space.lock);
        let mut locked = space.locked_len.get().saturating_add(end - start);
        if limits::check_locked(call.process, locked).is_err() {
            // What is locked already counts once.
            for vma in vma::within(call.cpu, space, start..end).filter(|vma| vma.flags.get() & VMA_LOCKED != 0) {
                locked -= vma.end.get().min(end) - vma.start.get().max(start);
            }
        }
        limits::check_locked(call.process, locked)?;
    }
    if is_at_pages.get() == 0 {
        change_in_pieces(call, space, start, end, VMA_LOCKED, 0)?;
        is_at_pages.set(1);
        call.thread.progress.set(0);
    }
    if at_once {
        bring(call, space, start, end, false)?;
    }
    Ok(0)
}

/// Whether the call has paused before.
fn goes_on<M: Machine>(call: &Call<M>) -> bool {
    pieces::done(call).is_some() || call.thread.scratch[1].get() != 0
}

/// Errors do not count; pauses do.
fn ignored(result: SysResult) -> SysResult {
    match result {
        Err(Stop::Error(_)) => Ok(0),
        result => result,
    }
}

/// Brings the pages of a range into this island's table, from where the call has paused: so that its own stores need no copy, and what it may read is
/// read. `tolerant`: of a mapping with a page that cannot come, the rest comes when it is used.
///
/// # Errors
/// `ENOMEM`: a page cannot come; [`Stop::Again`], [`Stop::Page`].
fn bring<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
    tolerant: bool,
) -> Result<(), Stop> {
    let mut at = pieces::done(call).unwrap_or(start);
    while let Some((pages, access)) = next_pages(call, space, at, end, tolerant) {
        at = pages.start + PAGE_SIZE;
        match fault::serve(call.cpu, space, pages.start, access) {
            Ok(()) => {}
            Err(Stop::Error(_)) if tolerant => at = pages.end,
            Err(Stop::Error(_)) => return Err(Errno::ENOMEM.into()),
            Err(stop) => {
                call.thread.progress.set(pages.start);
                return Err(stop);
            }
        }
        if at < end {
            pieces::pause_at(call, at)?;
        }
    }
    Ok(())
}

/// The first pages from `at` on, of one mapping, and how they are going to be used. `tolerant`: not of one that allows no use.
fn next_pages<M: Machine>(
    call: &Call<M>,
    space: &SpaceRecord,
    at: u64,
    end: u64,
    tolerant: bool,
) -> Option<(Range<u64>, Access)> {
    let _guard = lock(call.cpu, &space.lock);
    vma::within(call.cpu, space, at..end).find_map(|vma| {
        let flags = vma.flags.get();
        let access = match flags {
            _ if is_device(call, vma) || flags & (VMA_VIEW | VMA_STORE) != 0 => return None,
            _ if flags & (VMA_WRITE | VMA_SHARED) == VMA_WRITE => Access::Write,
            _ if flags & VMA_READ != 0 => Access::Read,
            _ if flags & VMA_EXECUTE != 0 => Access::Execute,
            _ if tolerant => return None,
            _ => Access::Read,
        };
        Some((vma.start.get().max(at)..vma.end.get().min(end), access))
    })
}

/// `madvise(…, MADV_POPULATE_…)`: brings the pages of a range as if they were accessed so.
///
/// # Errors
/// `ENOMEM`: part of the range is not mapped, or there is no memory; `EINVAL`: it allows no such access; `EFAULT`: the mapped file has no such
/// page; [`Stop::Again`], [`Stop::Page`].
pub(super) fn populate<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
    access: Access,
) -> SysResult {
    let needed = if access == Access::Write { VMA_WRITE } else { VMA_READ };
    let mut at = pieces::done(call).unwrap_or(start);
    while at < end {
        let flags = {
            let _guard = lock(call.cpu, &space.lock);
            let vma = vma::find(call.cpu, space, at).ok_or(Errno::ENOMEM)?;
            if is_device(call, vma) { VMA_VIEW } else { vma.flags.get() }
        };
        if flags & (VMA_VIEW | VMA_STORE) != 0 || flags & needed == 0 {
            return Err(Errno::EINVAL.into());
        }
        match fault::serve(call.cpu, space, at, access) {
            Ok(()) => {}
            Err(Stop::Error(Errno::ENOMEM)) => return Err(Errno::ENOMEM.into()),
            Err(Stop::Error(_)) => return Err(Errno::EFAULT.into()),
            Err(stop) => {
                call.thread.progress.set(at);
                return Err(stop);
            }
        }
        at += PAGE_SIZE;
        if at < end {
            pieces::pause_at(call, at)?;
        }
    }
    Ok(0)
}

fn is_device<M: Machine>(call: &Call<M>, vma: &VmaRecord) -> bool {
    call.cpu.object::<InodeRecord>(vma.inode.get()).is_some_and(|inode| inode.is_device.get() != 0)
}
