//! Locked memory: `mlock` and its kin, and `MAP_LOCKED`. Memory is never paged out, so a lock is a flag of VMAs that
//! `RLIMIT_MEMLOCK` counts, and pages that come at once and not when they are used.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{LOCKS_FUTURE, LOCKS_FUTURE_ON_FAULT, PAGE_SIZE, USER_END, VMA_LOCKED};
use motet_protocol::lock::lock;

use super::{advice::change_in_pieces, bring::bring, limits, pieces, range::page_range, space_of, vma};
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
