//! Limits of address spaces (getrlimit(2)): `RLIMIT_AS`, `RLIMIT_DATA`, `RLIMIT_MEMLOCK`, `RLIMIT_STACK`; and of
//! mappings: no more than there is memory.

use core::{ops::Range, sync::atomic::Ordering};

use motet_abi::{
    Errno,
    time::{RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK, RLIMIT_STACK},
};
use motet_hal::Machine;
use motet_layout::{
    InodeRecord, ProcessRecord, SpaceRecord, ThreadRecord, VMA_HEAP, VMA_LOCKED, VMA_NEVER_WRITE, VMA_NO_RESERVE,
    VMA_SHARED, VMA_STACK, VMA_WRITE, VmaRecord,
};
use motet_protocol::{Context, lock::lock};

use super::vma;
use crate::{
    call::Call,
    cpu::Cpu,
    permission::{self, Capability},
    tree::{STACK_DEFAULT, hard_limit_of, limit_of, process_of},
};

/// Fails with `ENOMEM` when `len` more bytes mapped with these `VMA_*` were more than the process may have. The space's lock
/// is held.
pub fn check<M: Machine>(call: &Call<M>, space: &SpaceRecord, len: u64, flags: u32) -> Result<(), Errno> {
    if space.mapped_len.get().saturating_add(len) > limit_of(call.process, RLIMIT_AS) {
        return Err(Errno::ENOMEM);
    }
    check_commit(call.cpu, len, flags)?;
    if is_data(flags) { check_data(call, space, len, flags) } else { Ok(()) }
}

/// Whether the running thread's process may have its stack begin at `page`, below where it begins now: `RLIMIT_STACK`, `RLIMIT_AS`. The space's
/// lock is held.
#[cold]
pub fn may_grow_stack<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, stack: &VmaRecord, page: u64) -> bool {
    let thread = cpu.object::<ThreadRecord>(cpu.own.current_thread.load(Ordering::Relaxed));
    // The first program is loaded when no thread runs yet.
    let process = thread.map(|thread| process_of(cpu, thread));
    let limits = |process| [RLIMIT_STACK, RLIMIT_AS].map(|resource| limit_of(process, resource));
    let [stack_max, mapped_max] = process.map_or([STACK_DEFAULT, u64::MAX], limits);
    let growth = stack.start.get() - page;
    if process.is_some_and(|process| check_more_locked(process, space, growth, stack.flags.get()).is_err()) {
        return false;
    }
    let fits = stack.end.get() - page <= stack_max && check_commit(cpu, growth, stack.flags.get()).is_ok();
    fits && space.mapped_len.get().saturating_add(growth) <= mapped_max
}

/// Fails with `ENOMEM` when `len` bytes mapped with these `VMA_*` are obviously too many: more than all memory. As Linux's
/// `vm.overcommit_memory` = 0, this is no promise that there is memory for less.
///
/// # Errors
/// `ENOMEM`.
pub fn check_commit<M: Machine>(cpu: &Cpu<M>, len: u64, flags: u32) -> Result<(), Errno> {
    let may_need_it = flags & (VMA_WRITE | VMA_SHARED | VMA_NO_RESERVE) == VMA_WRITE;
    if may_need_it && len > cpu.pool.len() { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// As [`check`], for a range that is going to get this protection.
pub fn check_protection<M: Machine>(
    call: &Call<M>,
    space: &SpaceRecord,
    range: Range<u64>,
    flags: u32,
) -> Result<(), Errno> {
    let is_limited = limit_of(call.process, RLIMIT_DATA) != u64::MAX;
    if flags & VMA_WRITE == 0 || !is_limited && range.end - range.start <= call.cpu.pool.len() {
        return Ok(());
    }
    let (mut new, mut committed) = (0, Ok(()));
    vma::for_each(call.cpu, space, |vma| {
        let (start, end) = (vma.start.get().max(range.start), vma.end.get().min(range.end));
        let (old, len) = (vma.flags.get(), end.saturating_sub(start));
        if old & VMA_WRITE == 0 {
            new += if is_data(old | VMA_WRITE) { len } else { 0 };
            committed = committed.and(check_commit(call.cpu, len, old | VMA_WRITE));
        }
    });
    committed?;
    if new == 0 { Ok(()) } else { check_data(call, space, new, flags) }
}

/// Fails when a process may not have `len` bytes locked in all.
///
/// # Errors
/// `EPERM`: it may lock nothing; `ENOMEM`.
pub fn check_locked(process: &ProcessRecord, len: u64) -> Result<(), Errno> {
    let limit = limit_of(process, RLIMIT_MEMLOCK);
    if permission::has(process, Capability::LockMemory) || len <= limit && limit != 0 {
        return Ok(());
    }
    Err(if limit == 0 { Errno::EPERM } else { Errno::ENOMEM })
}

/// Fails when `len` more bytes with these `VMA_*` were more than the process may have locked. The space's lock is held.
///
/// # Errors
/// `EAGAIN`.
pub fn check_more_locked(process: &ProcessRecord, space: &SpaceRecord, len: u64, flags: u32) -> Result<(), Errno> {
    if flags & VMA_LOCKED == 0 {
        return Ok(());
    }
    check_locked(process, space.locked_len.get().saturating_add(len)).map_err(|_| Errno::EAGAIN)
}

/// The `VMA_*` of locks that a new mapping gets. The space's lock is held.
///
/// # Errors
/// `EPERM`: it asks to be locked, and the process may lock nothing; `EAGAIN`: more would be locked than may be.
pub fn locks_of_new<M: Machine>(call: &Call<M>, space: &SpaceRecord, len: u64, asks: bool) -> Result<u32, Errno> {
    if !asks && space.future_locks.get() == 0 {
        return Ok(0);
    }
    if asks && check_locked(call.process, 0).is_err() {
        return Err(Errno::EPERM);
    }
    check_more_locked(call.process, space, len, VMA_LOCKED)?;
    Ok(VMA_LOCKED)
}

/// Whether a mapping of a file is there through which it may be written, now or after `mprotect`.
pub fn may_write_file<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, inode: &'static InodeRecord) -> bool {
    let _guard = lock(cpu, &space.lock);
    let mut found = false;
    vma::for_each(cpu, space, |vma: &VmaRecord| {
        let may_write = vma.flags.get() & (VMA_SHARED | VMA_NEVER_WRITE) == VMA_SHARED;
        found |= may_write && vma.inode.get() == cpu.raw(inode);
    });
    found
}

fn check_data<M: Machine>(call: &Call<M>, space: &SpaceRecord, len: u64, flags: u32) -> Result<(), Errno> {
    let mut limit = limit_of(call.process, RLIMIT_DATA);
    if limit == 0 && flags & VMA_HEAP == 0 {
        // As Linux does for Valgrind, which keeps programs from `brk` with a limit of 0 and maps memory itself.
        limit = hard_limit_of(call.process, RLIMIT_DATA);
    }
    if limit == u64::MAX {
        return Ok(());
    }
    // Counted when it matters only: hardly anybody sets it.
    let mut data = len;
    vma::for_each(call.cpu, space, |vma| {
        data += if is_data(vma.flags.get()) { vma.end.get() - vma.start.get() } else { 0 };
    });
    if data > limit { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// As Linux counts: private and writable, and no stack.
fn is_data(flags: u32) -> bool {
    flags & (VMA_WRITE | VMA_SHARED | VMA_STACK) == VMA_WRITE
}
