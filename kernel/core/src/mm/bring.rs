//! Pages that come before they are used: those of locked memory, of `MAP_POPULATE` and of `MADV_POPULATE_…`.

use core::ops::Range;

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    InodeRecord, LOCKS_FUTURE_ON_FAULT, PAGE_SIZE, SpaceRecord, VMA_EXECUTE, VMA_LOCKED, VMA_READ, VMA_SHARED,
    VMA_STORE, VMA_VIEW, VMA_WRITE, VmaRecord,
};
use motet_protocol::{Context, lock::lock};

use super::{fault, pieces, space_of, vma};
use crate::call::{Call, Stop, SysResult};

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
    bring(call, space_of(call.cpu, call.process), start, end, true).map(|()| result)
}

/// What a call returns that has paused while pages come; `None`: it has not.
///
/// # Errors
/// As [`bring_new`].
pub fn brought<M: Machine>(call: &Call<M>) -> Option<SysResult> {
    let [.., result_word, end_word] = &call.thread.scratch;
    let (result, end) = (result_word.get(), end_word.get());
    let rest = || bring(call, space_of(call.cpu, call.process), pieces::done(call).unwrap_or(end), end, true);
    (end != 0).then(|| rest().map(|()| result))
}

/// Brings the pages of a range into this island's table, from where the call has paused: so that its own stores need no copy, and what it may read is
/// read. `tolerant`: of a mapping with a page that cannot come, the rest comes when it is used.
///
/// # Errors
/// `ENOMEM`: a page cannot come; [`Stop::Again`], [`Stop::Page`].
pub(super) fn bring<M: Machine>(
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
