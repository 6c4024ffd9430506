//! Work on ranges of a space, done in pieces, so that a call about a large range does not hold the core for long (`call` explains).
//!
//! The space's lock is held for one piece at a time. What other cores see in between is what they would see of a slow call on a machine with
//! more cores, and no page that was freed is ever half there. `munmap` proceeds upwards. `mprotect` changes the VMAs first, which faults look at, and
//! then the pages. A call that replaces a range (`MAP_FIXED`) first puts an inaccessible range in its place, piece by piece, so that no other
//! mapping gets a part of it, and then replaces that at once.
//!
//! The thread's `progress` says how far the call has come: an address.

use core::sync::atomic::Ordering;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{Cell64, PAGE_SIZE, SpaceRecord, USER_END, VMA_STORE, VMA_VIEW, VmaRecord};
use motet_protocol::{
    lock::lock,
    residency::{self, Home},
};

use super::{VmaSpec, kept, range, view, vma};
use crate::{
    call::{BUDGET, Call, Stop},
    cpu::Cpu,
};

/// VMAs of one piece.
const VMAS: usize = 5;
/// Entries of the home's table of one piece, as [`motet_paging::Table::end_of_piece`] counts them: up to 24 pages.
pub(super) const ENTRIES: u64 = 24 * motet_paging::PAGE_ENTRIES;
/// Entries of one piece of work that copies pages, be it onto themselves to synchronise code.
const COPIED_ENTRIES: u64 = COPIED_PAGES as u64 * motet_paging::PAGE_ENTRIES;
/// Pages of such a piece.
pub const COPIED_PAGES: usize = 4;
/// A space with no more pages than this, and no more VMAs than [`LITTLE_VMAS`], ends in one go.
const LITTLE_PAGES: u32 = 128;
const LITTLE_VMAS: u32 = 32;
/// What a piece costs of a space that ends, where it may be one VMA with few pages.
const ENDED_PIECE: u64 = BUDGET;
/// In `progress`: the pages' turn has come.
const IS_AT_PAGES: u64 = 1;

/// Returns the address up to which the call had come when it paused.
pub fn done<M: Machine>(call: &Call<M>) -> Option<u64> {
    let progress = call.thread.progress.get();
    (progress != 0).then_some(progress & !(PAGE_SIZE - 1))
}

/// Pauses the call, which has done everything below `at`, if other work is due.
///
/// # Errors
/// [`Stop::Again`].
pub fn pause_at<M: Machine>(call: &Call<M>, at: u64) -> Result<(), Stop> {
    if call.pauses(BUDGET) {
        call.thread.progress.set(at);
        return Err(Stop::Again);
    }
    Ok(())
}

/// Calls `work` with one piece of a range after the other, under the lock, from where the call has paused.
///
/// # Errors
/// What `work` fails with; [`Stop::Again`].
pub fn of<M: Machine>(
    call: &Call<M>,
    space: &SpaceRecord,
    start: u64,
    end: u64,
    work: impl FnMut(u64, u64) -> Result<(), Errno>,
) -> Result<(), Stop> {
    each(call, space, start, end, end_of_piece, work)
}

/// As [`of`], for work on VMAs alone, however many pages they have.
///
/// # Errors
/// As for [`of`].
pub fn of_vmas<M: Machine>(
    call: &Call<M>,
    space: &SpaceRecord,
    start: u64,
    end: u64,
    work: impl FnMut(u64, u64) -> Result<(), Errno>,
) -> Result<(), Stop> {
    each(call, space, start, end, end_of_vmas, work)
}

/// `stop_of` says where the piece ends that begins at an address.
fn each<M: Machine>(
    call: &Call<M>,
    space: &SpaceRecord,
    start: u64,
    end: u64,
    stop_of: impl Fn(&Cpu<M>, &SpaceRecord, u64, u64) -> u64,
    mut work: impl FnMut(u64, u64) -> Result<(), Errno>,
) -> Result<(), Stop> {
    let mut at = done(call).unwrap_or(start);
    while at < end {
        let guard = lock(call.cpu, &space.lock);
        let stop = stop_of(call.cpu, space, at, end);
        work(at, stop)?;
        drop(guard);
        at = stop;
        if at < end {
            pause_at(call, at)?;
        }
    }
    // What else the call does looks soon.
    call.cpu.spend(BUDGET);
    Ok(())
}

/// Unmaps a range.
///
/// # Errors
/// `ENOMEM`; [`Stop::Again`].
pub fn unmap<M: Machine>(call: &Call<M>, space: &'static SpaceRecord, start: u64, end: u64) -> Result<(), Stop> {
    of(call, space, start, end, |start, end| range::unmap_locked(call.cpu, space, start, end))
}

/// Unmaps the first piece of a range; where that ends. The space's lock is held.
///
/// # Errors
/// `ENOMEM`.
pub fn unmap_first<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, start: u64, end: u64) -> Result<u64, Errno> {
    let stop = end_of_piece(cpu, space, start, end);
    range::unmap_locked(cpu, space, start, stop)?;
    Ok(stop)
}

/// Makes what is left to unmap of a range one piece, without making any of it free.
///
/// # Errors
/// `EPERM` when programs may not replace it; `ENOMEM`; [`Stop::Again`].
pub fn make_replaceable<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
) -> Result<(), Stop> {
    if done(call).is_none() {
        let _guard = lock(call.cpu, &space.lock);
        view::check_no_store(call.cpu, space, start, end)?;
    }
    of(call, space, start, end, |start, stop| {
        if stop == end {
            return Ok(());
        }
        range::unmap_locked(call.cpu, space, start, stop)?;
        vma::insert(call.cpu, space, &VmaSpec::anonymous(start, stop, 0))
    })
}

/// Changes the protection of a range.
///
/// # Errors
/// As for [`range::protect`]; [`Stop::Again`].
pub fn protect<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    start: u64,
    end: u64,
    flags: u32,
) -> Result<(), Stop> {
    let [changed_end, failure, is_new_code, _] = &call.thread.scratch;
    let mut at = done(call).unwrap_or(start);
    if !is_at_pages(call) {
        while at < end && failure.get() == 0 {
            let guard = lock(call.cpu, &space.lock);
            let changed = range::protect_vmas(call.cpu, space, at, end_of_vmas(call.cpu, space, at, end), flags);
            at = changed.end;
            changed_end.set(at);
            failure.set(changed.result.map_or_else(|errno| errno.result().unsigned_abs(), |()| 0));
            is_new_code.set(is_new_code.get() | u64::from(changed.is_new_code));
            drop(guard);
            if at < end {
                pause_at(call, at)?;
            }
        }
        at = start;
    }
    protect_pages(call, space, at, changed_end, is_new_code.get() != 0)?;
    const NEVER_WRITABLE: u64 = Errno::EACCES as u64;
    match failure.get() {
        0 => Ok(()),
        NEVER_WRITABLE => Err(Errno::EACCES.into()),
        _ => Err(Errno::ENOMEM.into()),
    }
}

fn protect_pages<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    at: u64,
    end: &Cell64,
    is_new_code: bool,
) -> Result<(), Stop> {
    of_pages(call, space, (at, end.get()), ENTRIES, |at, stop| {
        range::protect_pages(call.cpu, space, at, stop, is_new_code);
    })
}

/// Calls `work` with one piece of pages after the other, under the lock, when their turn has come. `entries`: of one piece, as
/// [`Home::end_of_piece`] counts them.
fn of_pages<M: Machine>(
    call: &Call<M>,
    space: &SpaceRecord,
    (mut at, end): (u64, u64),
    entries: u64,
    mut work: impl FnMut(u64, u64),
) -> Result<(), Stop> {
    while at < end {
        let guard = lock(call.cpu, &space.lock);
        let stop = Home::of(call.cpu, space).end_of_piece(at..end_of_vmas(call.cpu, space, at, end), entries);
        work(at, stop);
        drop(guard);
        at = stop;
        if at < end {
            pause_at(call, at | IS_AT_PAGES)?;
        }
    }
    Ok(())
}

/// Whether a call that changes VMAs and then pages has come to the pages.
pub fn is_at_pages<M: Machine>(call: &Call<M>) -> bool {
    call.thread.progress.get() & IS_AT_PAGES != 0
}

/// Calls `work` with one piece of a range after the other, under the lock, in a call that may have changed VMAs before. A piece has no
/// more than [`COPIED_PAGES`], which may be copied.
///
/// # Errors
/// [`Stop::Again`].
pub fn of_copies<M: Machine>(
    call: &Call<M>,
    space: &SpaceRecord,
    start: u64,
    end: u64,
    work: impl FnMut(u64, u64),
) -> Result<(), Stop> {
    let at = done(call).filter(|_| is_at_pages(call)).unwrap_or(start);
    of_pages(call, space, (at, end), COPIED_ENTRIES, work)
}

/// Makes what was written to `[start, end)` visible to this island's fetches, and to other islands' when they next fetch.
///
/// # Errors
/// [`Stop::Again`].
pub fn sync<M: Machine>(call: &Call<M>, space: &'static SpaceRecord, start: u64, end: u64) -> Result<(), Stop> {
    let end = end.min(USER_END).next_multiple_of(PAGE_SIZE);
    let mut at = done(call).unwrap_or(start & !(PAGE_SIZE - 1));
    while at < end {
        let stop = {
            let _guard = lock(call.cpu, &space.lock);
            let stop = Home::of(call.cpu, space).end_of_piece(at..end, COPIED_ENTRIES);
            residency::synchronise(call.cpu, space, at..stop);
            stop
        };
        at = stop;
        if at < end {
            pause_at(call, at)?;
        }
    }
    Ok(())
}

/// Frees most of the space of a process that has ended, if nobody else uses the space, so that releasing the rest takes a bounded time. `false`: other
/// work is due, and much is left. The space must not be active on this core.
pub fn give_up<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, is_due: impl Fn() -> bool) -> bool {
    let is_much = || space.resident.load(Ordering::Relaxed) > LITTLE_PAGES || space.vma_count.get() > LITTLE_VMAS;
    // The program's text tells others where its threads were.
    let is_text = |vma: &VmaRecord| vma.flags.get() & (VMA_VIEW | VMA_STORE) != 0;
    while space.refs.load(Ordering::SeqCst) == 1 && is_much() {
        kept::begin_end(cpu, space);
        let guard = lock(cpu, &space.lock);
        let Some(vma) = vma::within(cpu, space, 0..USER_END).find(|vma| !is_text(vma)) else { return true };
        let start = vma.start.get();
        let stop = Home::of(cpu, space).end_of_piece(start..vma.end.get(), ENTRIES);
        if range::unmap_locked(cpu, space, start, stop).is_err() {
            return true; // without memory for a split, the release does it in one go
        }
        drop(guard);
        if cpu.spend(ENDED_PIECE) && is_due() {
            return false;
        }
    }
    true
}

fn end_of_vmas<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64) -> u64 {
    vma::within(cpu, space, start..end).nth(VMAS).map_or(end, |vma| vma.start.get())
}

/// Where a piece of work from `start` on ends that is to take a bounded time. The space's lock is held.
fn end_of_piece<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64) -> u64 {
    Home::of(cpu, space).end_of_piece(start..end_of_vmas(cpu, space, start, end), ENTRIES)
}
