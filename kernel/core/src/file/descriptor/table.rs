//! Descriptor tables.
//!
//! A descriptor word is the pool address of the open file description, plus [`FILES_CLOEXEC`]. Everything that changes
//! a table takes its lock. The only thread of the only process that uses a table reads it without: nobody else changes
//! it (others look into it through procfs at most).

use core::convert::Infallible;

use motet_layout::sync::{AtomicU64, Ordering};

use motet_abi::{
    Errno,
    file::{O_CLOEXEC, O_PATH},
    time::RLIMIT_NOFILE,
};
use motet_hal::Machine;
use motet_layout::{
    FILES_CLOEXEC, FILES_COUNTED, FILES_INLINE, FILES_MAX, FILES_PER_FRAME, FileRecord, FilesRecord, Frame, PoolAddr,
    ProcessRecord,
};
use motet_protocol::{
    Context,
    cores::{all_cores, is_dead},
    hand::{self, Holder},
    ipc,
    lock::lock,
    memory::{alloc_common_zeroed_frame, release_frame},
    slab::{self, SlabObject},
};

use super::{
    description::{self, OpenFile, Parts},
    range_lock,
};
use crate::{
    call::{Call, SysResult, cost},
    cpu::Cpu,
    due, tree,
};

/// After so many descriptors that are looked at, the core looks what else is due; what looking at one costs.
const PASSED_AT_ONCE: u32 = 64;
const PASSED: u64 = 12;
/// What copying a descriptor costs.
const COPIED: u64 = 50;
/// What closing one costs.
pub const CLOSED: u64 = 2 * cost::OBJECT;

/// The descriptor table of a process that has not exited.
#[inline(always)]
pub fn of<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> &'static FilesRecord {
    cpu.pool.at(motet_layout::PoolAddr(process.files.load(Ordering::Relaxed)))
}

/// The open file behind a descriptor.
///
/// # Errors
/// `EBADF`.
#[inline(always)]
pub fn get<'c, M: Machine>(call: &Call<'c, M>, fd: i32) -> Result<OpenFile<'c, M>, Errno> {
    let files = of(call.cpu, call.process);
    if alone(call.process, files) {
        let word = slot(call.cpu, files, fd).ok_or(Errno::EBADF)?.load(Ordering::Relaxed);
        let record = call.cpu.object::<FileRecord>(word & !FILES_CLOEXEC).ok_or(Errno::EBADF)?;
        return Ok(OpenFile::new(call.cpu, record, false));
    }
    get_from(call.cpu, files, fd)
}

/// Gives the calling process a descriptor table of its own, with the same descriptors.
///
/// # Errors
/// `ENOMEM`; `EINVAL` when the process has several threads: they share it always.
pub fn unshare<M: Machine>(call: &Call<M>) -> Result<(), Errno> {
    let files = of(call.cpu, call.process);
    if hand::count(files) == 1 {
        return Ok(());
    }
    if call.process.thread_count.load(Ordering::Relaxed) > 1 {
        return Err(Errno::EINVAL);
    }
    fork_own(call.cpu, call.process)
}

/// Gives a process a copy of the table that it has.
///
/// # Errors
/// `ENOMEM`.
pub fn fork_own<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) -> Result<(), Errno> {
    let shared = of(cpu, process);
    let own = fork(cpu, shared).ok_or(Errno::ENOMEM)?;
    {
        // procfs looks at other processes' tables under this lock.
        let _tree = tree::lock_tree(cpu);
        let place = Holder::word(cpu, &process.files);
        let store = || process.files.store(cpu.raw(own), Ordering::Release);
        hand::exchange(cpu, Some(own), Some(shared), place, store);
    }
    release(cpu, shared);
    Ok(())
}

/// As [`get`], for calls that need an open file: a descriptor of `O_PATH` only names one.
///
/// # Errors
/// `EBADF`.
pub fn get_opened<'c, M: Machine>(call: &Call<'c, M>, fd: i32) -> Result<OpenFile<'c, M>, Errno> {
    let file = get(call, fd)?;
    if file.flags() & O_PATH == 0 { Ok(file) } else { Err(Errno::EBADF) }
}

/// The open file behind a descriptor of any table, with a reference.
///
/// # Errors
/// `EBADF`.
#[inline(never)]
pub fn get_from<'c, M: Machine>(
    cpu: &'c Cpu<M>,
    files: &'static FilesRecord,
    fd: i32,
) -> Result<OpenFile<'c, M>, Errno> {
    let _guard = lock(cpu, &files.lock);
    let word = slot(cpu, files, fd).ok_or(Errno::EBADF)?.load(Ordering::Relaxed);
    let record = cpu.object::<FileRecord>(word & !FILES_CLOEXEC).ok_or(Errno::EBADF)?;
    hand::take(cpu, record);
    Ok(OpenFile::new(cpu, record, true))
}

/// Whether only the calling thread can change the table.
#[inline(always)]
pub fn alone(process: &ProcessRecord, files: &FilesRecord) -> bool {
    process.thread_count.load(Ordering::Relaxed) == 1 && hand::count(files) == 1
}

/// A table without descriptors, with a reference in hand.
///
/// # Errors
/// `ENOMEM`.
pub fn create<M: Machine>(cpu: &Cpu<M>) -> Result<&'static FilesRecord, Errno> {
    let files = slab::alloc::<FilesRecord>(cpu).ok_or(Errno::ENOMEM)?;
    hand::take_first(cpu, files);
    Ok(files)
}

/// A copy of a table, with a reference in hand: the same open files under the same numbers.
pub fn fork<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord) -> Option<&'static FilesRecord> {
    let copy = slab::alloc::<FilesRecord>(cpu)?;
    hand::take_first(cpu, copy);
    let guard = lock(cpu, &files.lock);
    let high = files.high.get();
    for fd in 0..high as i32 {
        let word = slot(cpu, files, fd).map_or(0, |slot| slot.load(Ordering::Relaxed));
        due::spend_locked(cpu, COPIED);
        let Some(record) = cpu.object::<FileRecord>(word & !FILES_CLOEXEC) else { continue };
        let Some(slot) = slot_or_allocate(cpu, copy, fd) else {
            drop(guard);
            release(cpu, copy);
            return None;
        };
        copy.high.set(fd as u32 + 1);
        hand::take(cpu, record);
        hand::give(cpu, record, place_of(cpu, copy, fd), || slot.store(word, Ordering::Relaxed));
        came_into_use(copy, fd as u32);
    }
    copy.low_free.set(files.low_free.get());
    Some(copy)
}

/// Drops a use of a table, which is in hand; the last one closes all its descriptors.
pub fn release<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord) {
    if hand::drop_one(cpu, files) {
        close_table(cpu, files);
    }
}

/// Closes the descriptors of a table that nobody uses any more, and frees it.
pub fn close_table<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord) {
    close_all_matching(cpu, files, |_| true);
    hand::closed(cpu, files);
    for frame in &files.frames {
        if frame.get() != 0 {
            release_frame(cpu, Frame(frame.get()));
        }
    }
    slab::free(cpu, files);
}

/// Closes the descriptors of a table that nobody else uses, the highest first. `false`: `is_due` says that other work is due, and
/// some are left.
pub fn close_all<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, is_due: impl Fn() -> bool) -> bool {
    while hand::count(files) == 1
        && let Some(fd) = files.high.get().checked_sub(1)
    {
        // Many are closed already.
        let _ = close(cpu, files, fd as i32);
        files.high.set(fd);
        if cpu.spend(CLOSED) && is_due() {
            return false;
        }
    }
    true
}

/// Gives an open file, whose reference is handed over, the lowest free descriptor that is at least `least`.
///
/// # Errors
/// `EMFILE`; `EINVAL` when `least` is beyond the limit. The file is closed.
pub fn install<M: Machine>(
    call: &Call<M>,
    record: &'static FileRecord,
    close_on_exec: bool,
    least: u32,
) -> Result<u64, Errno> {
    let cpu = call.cpu;
    let files = of(cpu, call.process);
    let found = {
        let _guard = lock(cpu, &files.lock);
        lowest_free(call, files, least).map(|(fd, slot)| {
            files.high.set(files.high.get().max(fd + 1));
            let word = cpu.raw(record) | flag(close_on_exec);
            hand::give(cpu, record, place_of(cpu, files, fd as i32), || slot.store(word, Ordering::Release));
            came_into_use(files, fd);
            if least <= files.low_free.get() {
                files.low_free.set(fd + 1);
            }
            u64::from(fd)
        })
    };
    if found.is_err() {
        description::put(cpu, record);
    }
    found
}

/// Opens an object that only descriptors name: gives it a description with these open flags, and that a descriptor.
///
/// # Errors
/// `ENFILE`, `EMFILE`; the object is freed.
pub fn open_anonymous<M: Machine, T: SlabObject>(
    call: &Call<M>,
    kind: u32,
    object: &'static T,
    flags: u32,
) -> SysResult {
    match description::create(call.cpu, &Parts { kind, flags, inode: None, object: call.cpu.raw(object) }) {
        Ok(record) => Ok(install(call, record, flags & O_CLOEXEC != 0, 0)?),
        Err(errno) => {
            slab::free(call.cpu, object);
            Err(errno.into())
        }
    }
}

/// Puts an open file, whose reference is handed over, at descriptor `fd`, closing what was there.
///
/// # Errors
/// `EBADF` when `fd` is beyond the limit, `ENOMEM`. The file is closed.
pub fn replace<M: Machine>(
    call: &Call<M>,
    record: &'static FileRecord,
    close_on_exec: bool,
    fd: u32,
) -> Result<(), Errno> {
    let cpu = call.cpu;
    let files = of(cpu, call.process);
    let before = {
        let _guard = lock(cpu, &files.lock);
        let slot = if fd < limit(call) {
            slot_or_allocate(cpu, files, fd as i32).ok_or(Errno::ENOMEM)
        } else {
            Err(Errno::EBADF)
        };
        slot.map(|slot| {
            files.high.set(files.high.get().max(fd + 1));
            let word = cpu.raw(record) | flag(close_on_exec);
            let closed = cpu.object::<FileRecord>(slot.load(Ordering::Relaxed) & !FILES_CLOEXEC);
            let store = || slot.store(word, Ordering::Release);
            if closed.is_some_and(|closed| core::ptr::eq(closed, record)) {
                store(); // and drops the reference that it has in hand
            } else {
                hand::exchange(cpu, Some(record), closed, place_of(cpu, files, fd as i32), store);
            }
            if closed.is_none() {
                came_into_use(files, fd);
            }
            closed
        })
    };
    let closed = match &before {
        Ok(closed) => *closed,
        Err(_) => Some(record),
    };
    if let Some(closed) = closed {
        if before.is_ok() {
            range_lock::descriptor_closed(cpu, files, closed);
        }
        description::put(cpu, closed);
    }
    before.map(|_| ())
}

/// Closes a descriptor.
///
/// # Errors
/// `EBADF`.
pub fn close<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, fd: i32) -> Result<(), Errno> {
    let record = {
        let _guard = lock(cpu, &files.lock);
        let slot = slot(cpu, files, fd).ok_or(Errno::EBADF)?;
        let word = slot.load(Ordering::Relaxed);
        let record = cpu.object::<FileRecord>(word & !FILES_CLOEXEC).ok_or(Errno::EBADF)?;
        hand::fetch(cpu, record, place_of(cpu, files, fd), || slot.store(0, Ordering::Relaxed));
        let used = &files.used[fd as usize / FILES_COUNTED];
        used.store(used.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        files.low_free.set(files.low_free.get().min(fd as u32));
        record
    };
    range_lock::descriptor_closed(cpu, files, record);
    if files.has_notices.load(Ordering::Relaxed) != 0 {
        ipc::posix::descriptor_closed(cpu, record, cpu.raw(files));
    }
    description::put(cpu, record);
    Ok(())
}

/// For [`close_matching`]: goes on, and looks in between what is due on the core.
fn no_stop<M: Machine>(cpu: &Cpu<M>) -> Result<(), Infallible> {
    due::spend_locked(cpu, CLOSED);
    Ok(())
}

/// As [`close_matching`], where nothing else runs before all are closed.
pub fn close_all_matching<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, which: impl Fn(u64) -> bool) {
    let _ = close_matching(cpu, files, 0, u32::MAX, which, |_| no_stop(cpu));
}

/// Closes the descriptors `first..=last` whose words satisfy `which`. After each, `goes_on` is told the next one.
///
/// # Errors
/// Those of `goes_on`: some may be left.
pub fn close_matching<M: Machine, E>(
    cpu: &Cpu<M>,
    files: &'static FilesRecord,
    first: u32,
    last: u32,
    which: impl Fn(u64) -> bool,
    mut goes_on: impl FnMut(u32) -> Result<(), E>,
) -> Result<(), E> {
    for fd in first..files.high.get().min(last.saturating_add(1)) {
        let word = slot(cpu, files, fd as i32).map_or(0, |slot| slot.load(Ordering::Relaxed));
        if word != 0 && which(word) {
            // Another thread may have been faster.
            let _ = close(cpu, files, fd as i32);
            goes_on(fd + 1)?;
        }
    }
    Ok(())
}

/// Whether a descriptor is closed by exec.
///
/// # Errors
/// `EBADF`.
pub fn closes_on_exec<M: Machine>(call: &Call<M>, fd: i32) -> Result<bool, Errno> {
    let word = slot(call.cpu, of(call.cpu, call.process), fd).map_or(0, |slot| slot.load(Ordering::Relaxed));
    if word == 0 { Err(Errno::EBADF) } else { Ok(word & FILES_CLOEXEC != 0) }
}

/// Whether a descriptor of any table is closed by exec.
pub fn is_closed_on_exec<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, fd: i32) -> bool {
    slot(cpu, files, fd).is_some_and(|slot| slot.load(Ordering::Relaxed) & FILES_CLOEXEC != 0)
}

/// Sets whether a descriptor is closed by exec.
///
/// # Errors
/// `EBADF`.
pub fn set_close_on_exec<M: Machine>(call: &Call<M>, fd: i32, close: bool) -> Result<(), Errno> {
    let files = of(call.cpu, call.process);
    let _guard = lock(call.cpu, &files.lock);
    let slot = slot(call.cpu, files, fd).ok_or(Errno::EBADF)?;
    let word = slot.load(Ordering::Relaxed);
    if word == 0 {
        return Err(Errno::EBADF);
    }
    slot.store(word & !FILES_CLOEXEC | flag(close), Ordering::Relaxed);
    Ok(())
}

/// The lowest descriptor in use that is at least `from`.
pub fn next_used<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, from: u32) -> Option<u32> {
    (from..files.high.get())
        .inspect(|&fd| passed(cpu, fd))
        .find(|&fd| slot(cpu, files, fd as i32).is_some_and(|slot| slot.load(Ordering::Relaxed) != 0))
}

/// A descriptor was looked at, used or not: after many the core looks what else is due.
#[inline(always)]
fn passed<M: Machine>(cpu: &Cpu<M>, fd: u32) {
    if fd % PASSED_AT_ONCE == PASSED_AT_ONCE - 1 {
        due::spend_locked(cpu, u64::from(PASSED_AT_ONCE) * PASSED);
    }
}

/// Descriptors are below this for the calling process.
pub fn limit<M: Machine>(call: &Call<M>) -> u32 {
    call.process.limits[2 * RLIMIT_NOFILE].get().min(FILES_MAX as u64) as u32
}

fn flag(close_on_exec: bool) -> u64 {
    if close_on_exec { FILES_CLOEXEC } else { 0 }
}

fn lowest_free<M: Machine>(
    call: &Call<M>,
    files: &'static FilesRecord,
    least: u32,
) -> Result<(u32, &'static AtomicU64), Errno> {
    let limit = limit(call);
    if least >= limit && least != 0 {
        return Err(Errno::EINVAL);
    }
    let mut fd = least.max(files.low_free.get());
    while fd < limit {
        let (index, within) = (fd as usize / FILES_COUNTED, fd as usize % FILES_COUNTED);
        if within == 0 && usize::from(files.used[index].load(Ordering::Relaxed)) == FILES_COUNTED {
            due::spend_locked(call.cpu, PASSED);
            fd += FILES_COUNTED as u32;
            continue;
        }
        passed(call.cpu, fd);
        let slot = slot_or_allocate(call.cpu, files, fd as i32).ok_or(Errno::ENOMEM)?;
        if slot.load(Ordering::Relaxed) == 0 {
            return Ok((fd, slot));
        }
        fd += 1;
    }
    Err(Errno::EMFILE)
}

/// A descriptor that was free is in use. The table's lock is held, or nobody else knows of it.
pub fn came_into_use(files: &FilesRecord, fd: u32) {
    let used = &files.used[fd as usize / FILES_COUNTED];
    used.store(used.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// The word of a descriptor, `None` when there is none that high.
#[inline(always)]
fn slot<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, fd: i32) -> Option<&'static AtomicU64> {
    let fd = fd as u32 as usize;
    if fd < FILES_INLINE {
        return Some(&files.inline[fd]);
    }
    slot_in_frame(cpu, files, fd - FILES_INLINE)
}

#[cold]
fn slot_in_frame<M: Machine>(cpu: &Cpu<M>, files: &FilesRecord, index: usize) -> Option<&'static AtomicU64> {
    let frame = Frame(files.frames.get(index / FILES_PER_FRAME)?.get());
    if frame.is_none() {
        return None;
    }
    Some(&cpu.pool.page_words(frame.addr())?[index % FILES_PER_FRAME])
}

fn slot_or_allocate<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, fd: i32) -> Option<&'static AtomicU64> {
    if let Some(slot) = slot(cpu, files, fd) {
        return Some(slot);
    }
    let frame = files.frames.get((fd as usize).checked_sub(FILES_INLINE)? / FILES_PER_FRAME)?;
    frame.set(alloc_common_zeroed_frame(cpu)?.0);
    slot(cpu, files, fd)
}

/// Where references are that a descriptor has.
fn place_of<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, fd: i32) -> Holder {
    Holder::Descriptor(cpu.pool.addr_of(files), fd as u32)
}

/// The address of the open file that a descriptor has, or null.
fn address_at<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, fd: u32) -> PoolAddr {
    PoolAddr(slot(cpu, files, fd as i32).map_or(0, |slot| slot.load(Ordering::Acquire)) & !FILES_CLOEXEC)
}

/// Settles moves of dead cores between their hands and a table: where each reference is. The table's lock is held.
pub fn settle_moves<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord) {
    for core in all_cores(cpu).filter(|&core| is_dead(cpu, core)) {
        if let Some(Holder::Descriptor(table, fd)) = hand::place(cpu, core)
            && table == cpu.pool.addr_of(files)
        {
            hand::settle_moves(cpu, core, address_at(cpu, files, fd));
        }
    }
}

/// Repairs a table whose lock a dead core held and this one has now. The table's words say which descriptors there are, and so whether the dead core had
/// moved the reference that it was moving.
pub fn recover<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord) {
    settle_moves(cpu, files);
    let is_used = |fd: &usize| slot(cpu, files, *fd as i32).is_some_and(|slot| slot.load(Ordering::Relaxed) != 0);
    let frames = files.frames.iter().rposition(|frame| frame.get() != 0).map_or(0, |last| last + 1);
    let used = (0..FILES_INLINE + frames * FILES_PER_FRAME).rev().find(is_used);
    files.high.set(used.map_or(0, |fd| fd as u32 + 1));
    files.low_free.set(0);
    for (index, count) in files.used.iter().enumerate() {
        let counted = index * FILES_COUNTED..(index + 1) * FILES_COUNTED;
        count.store(counted.filter(is_used).count() as u8, Ordering::Relaxed);
    }
}
