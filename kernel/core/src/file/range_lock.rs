//! Byte-range locks (`fcntl`): of processes, and of open file descriptions.
//!
//! An inode has a tree of the ranges that are locked (`motet_protocol::ranges`), each with its owner: a descriptor table (the threads of a process), or
//! an open file. A table's go when any descriptor of the file is closed in it, as POSIX has it; an open file's go with
//! its last descriptor. Both look for locks only if they have ever had one. Who would wait for itself is told ([`deadlock`]). Who sets a lock looks at
//! all that meet it, so a file has no more than [`RANGES_MAX`].

use motet_abi::{Errno, file::*, wire::Wire};
use motet_hal::Machine;
use motet_layout::{FileRecord, FilesRecord, InodeRecord, RangeRecord, sync::Ordering};
use motet_protocol::{Context, lock::lock, ranges, slab, wait};

use super::{deadlock, description::OpenFile, table};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    due,
};

/// What looking at a lock costs.
const RANGE_COST: u64 = 30;

/// What taking a lock out of its tree costs, and giving its record back.
const LEAVE_COST: u64 = 600;

/// Locked ranges of a file. Linux has no such limit, but looks at all of them: there, a hundred thousand locks take minutes.
const RANGES_MAX: u32 = 4096;

/// What is asked for: bytes `start..=end`, of an owner.
#[derive(Clone, Copy)]
struct Wanted {
    start: u64,
    end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    kind: i16,
    /// Pool address of the descriptor table or open file.
    owner: u64,
    pid: u32,
}

/// Serves the commands of `fcntl` that concern locks; `argument` points to a `struct flock`.
///
/// # Errors
/// `EAGAIN`, `EBADF`, `EDEADLK`, `EINVAL`, `EOVERFLOW`, `EFAULT`, `ENOLCK`.
pub fn fcntl<M: Machine>(call: &Call<M>, fd: i32, file: &OpenFile<M>, command: u32, argument: u64) -> SysResult {
    let mut bytes = [0; Flock::SIZE];
    call.read_user(argument, &mut bytes)?;
    let asked = Flock::take(&bytes);
    let of_file = matches!(command, F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW);
    if of_file && asked.l_pid != 0 {
        return Err(Errno::EINVAL.into());
    }
    let files = table::of(call.cpu, call.process);
    let (start, end) = range(file, &asked)?;
    let (owner, pid) =
        if of_file { (call.cpu.raw(file.record()), u32::MAX) } else { (call.cpu.raw(files), call.process.pid.get()) };
    let wanted = Wanted { start, end, kind: asked.l_type, owner, pid };
    if matches!(command, F_GETLK | F_OFD_GETLK) {
        let found = test(call, file, wanted, of_file)?;
        call.write_user(argument, &found.unwrap_or(Flock { l_type: F_UNLCK, ..asked }).to_bytes())?;
        return Ok(0);
    }
    match wanted.kind {
        F_RDLCK => file.check_readable()?,
        F_WRLCK => file.check_writable()?,
        F_UNLCK => {}
        _ => return Err(Errno::EINVAL.into()),
    }
    // What has no inode nobody else can open.
    let Some(inode) = file.inode() else { return Ok(0) };
    let has_had = if of_file { &file.record().has_range_locks } else { &files.has_range_locks };
    if wanted.kind != F_UNLCK {
        has_had.store(1, Ordering::Relaxed);
    }
    deadlock::begin(call.thread);
    call.wait_for(&inode.flock_waiters, || match set(call.cpu, inode, wanted)? {
        None => Ok(Some(0)),
        Some(holder) if command == F_SETLKW => {
            deadlock::check(call, owner, holder)?;
            Ok(None)
        }
        Some(_) if command == F_OFD_SETLKW => Ok(None),
        Some(_) => Err(Stop::from(Errno::EAGAIN)),
    })?;
    // Another thread that has closed the descriptor meanwhile may have found nothing to give up.
    if !of_file && !table::get(call, fd).is_ok_and(|now| core::ptr::eq(now.record(), file.record())) {
        give_up(call.cpu, inode, owner);
        return Err(Errno::EBADF.into());
    }
    Ok(0)
}

/// Releases a process's locks of a file, of which a descriptor is closed in its table.
pub fn descriptor_closed<M: Machine>(cpu: &Cpu<M>, files: &'static FilesRecord, file: &'static FileRecord) {
    if files.has_range_locks.load(Ordering::Relaxed) != 0
        && let Some(inode) = cpu.object::<InodeRecord>(file.inode.get())
    {
        give_up(cpu, inode, cpu.raw(files));
    }
}

/// Releases the locks of an open file whose last reference is dropped.
pub fn file_closed<M: Machine>(cpu: &Cpu<M>, file: &'static FileRecord) {
    if file.has_range_locks.load(Ordering::Relaxed) != 0
        && let Some(inode) = cpu.object::<InodeRecord>(file.inode.get())
    {
        give_up(cpu, inode, cpu.raw(file));
    }
}

fn give_up<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord, owner: u64) {
    // Without a record to be made, nothing fails.
    let _ = set(cpu, inode, Wanted { start: 0, end: i64::MAX as u64, kind: F_UNLCK, owner, pid: 0 });
}

/// The bytes that a `struct flock` means, first and last.
fn range<M: Machine>(file: &OpenFile<M>, asked: &Flock) -> Result<(u64, u64), Errno> {
    let base = match asked.l_whence as u32 {
        SEEK_SET => 0,
        SEEK_CUR => file.offset.load(Ordering::Relaxed) as i64,
        SEEK_END => file.inode().map_or(0, |inode| inode.size.load(Ordering::Relaxed)) as i64,
        _ => return Err(Errno::EINVAL),
    };
    let at = base.checked_add(asked.l_start).ok_or(Errno::EOVERFLOW)?;
    let (first, last) = match asked.l_len {
        0 => (at, i64::MAX),
        len if len > 0 => (at, at.checked_add(len - 1).ok_or(Errno::EOVERFLOW)?),
        len => (at.checked_add(len).ok_or(Errno::EINVAL)?, at.checked_sub(1).ok_or(Errno::EINVAL)?),
    };
    if first < 0 { Err(Errno::EINVAL) } else { Ok((first as u64, last as u64)) }
}

/// The first lock that stands in the way; `F_UNLCK` of an open file: the first that it has itself.
fn test<M: Machine>(call: &Call<M>, file: &OpenFile<M>, wanted: Wanted, of_file: bool) -> Result<Option<Flock>, Errno> {
    let asks_for_own = of_file && wanted.kind == F_UNLCK;
    if !asks_for_own && !matches!(wanted.kind, F_RDLCK | F_WRLCK) {
        return Err(Errno::EINVAL);
    }
    let Some(inode) = file.inode() else { return Ok(None) };
    let _guard = lock(call.cpu, &inode.lock);
    let is_meant = |range: &&'static RangeRecord| match asks_for_own {
        true => range.owner.get() == wanted.owner,
        false => conflicts(range, wanted),
    };
    let in_the_way = meeting(call.cpu, inode, wanted.start, wanted.end).find(is_meant);
    Ok(in_the_way.map(|range| Flock {
        l_type: range.kind(),
        l_whence: SEEK_SET as i16,
        l_start: range.start.get() as i64,
        l_len: if range.end.get() == i64::MAX as u64 { 0 } else { (range.end.get() - range.start.get() + 1) as i64 },
        l_pid: range.pid.get().cast_signed(),
    }))
}

/// Exchanges what the owner has of the range for what it wants; with locks of the same kind that it meets, that becomes one. Returns the owner of a
/// lock that stands in the way.
///
/// # Errors
/// `ENOLCK`: the file has too many locks, or there is no memory.
fn set<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord, wanted: Wanted) -> Result<Option<u64>, Errno> {
    let guard = lock(cpu, &inode.lock);
    let (mut divided, mut has_own, mut in_the_way, mut joined, mut joins) = (None, false, None, wanted, 0);
    for range in meeting(cpu, inode, wanted.start.saturating_sub(1), wanted.end.saturating_add(1)) {
        if wanted.kind != F_UNLCK && conflicts(range, wanted) {
            in_the_way = Some(range.owner.get());
        }
        if range.owner.get() == wanted.owner {
            has_own = true;
            let (start, end) = (range.start.get(), range.end.get());
            if range.kind() == wanted.kind {
                (joined.start, joined.end) = (joined.start.min(start), joined.end.max(end));
                joins += 1;
            } else if start < wanted.start && wanted.end < end {
                // One of another kind that reaches over both ends of the range becomes two.
                divided = Some(range);
            }
        }
    }
    if in_the_way.is_some() {
        return Ok(in_the_way);
    }
    if wanted.kind == F_UNLCK && !has_own {
        return Ok(None);
    }
    let more = (u32::from(divided.is_some()) + u32::from(wanted.kind != F_UNLCK)).saturating_sub(joins);
    if more != 0 && inode.range_count.get() + more > RANGES_MAX {
        return Err(Errno::ENOLCK);
    }
    let rest = divided.map(|_| slab::alloc::<RangeRecord>(cpu).ok_or(Errno::ENOLCK)).transpose()?;
    let new = if wanted.kind == F_UNLCK {
        None
    } else {
        let Some(new) = slab::alloc::<RangeRecord>(cpu) else {
            rest.into_iter().for_each(|rest| slab::free(cpu, rest));
            return Err(Errno::ENOLCK);
        };
        Some(new)
    };
    if let (Some(range), Some(rest)) = (divided, rest) {
        rest.set(Wanted { start: wanted.end + 1, end: range.end.get(), kind: range.kind(), ..wanted });
        ranges::enter(cpu, inode, rest);
        ranges::resize(cpu, inode, range, range.start.get(), wanted.start - 1);
    }
    cut(cpu, inode, joined);
    if let Some(new) = new {
        new.set(joined);
        ranges::enter(cpu, inode, new);
    }
    drop(guard);
    wait::wake(cpu, &inode.flock_waiters);
    Ok(None)
}

/// Takes the range out of the owner's locks, none of which reaches over both of its ends. The inode's lock is held.
fn cut<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord, wanted: Wanted) {
    let mut at = ranges::first(cpu, inode, wanted.start, wanted.end);
    while let Some(range) = at {
        at = ranges::next(cpu, range, wanted.start, wanted.end);
        due::spend_locked(cpu, RANGE_COST);
        let (start, end) = (range.start.get(), range.end.get());
        if range.owner.get() != wanted.owner {
            continue;
        }
        if start < wanted.start {
            ranges::resize(cpu, inode, range, start, wanted.start - 1);
        } else if end > wanted.end {
            ranges::resize(cpu, inode, range, wanted.end + 1, end);
        } else {
            ranges::leave(cpu, inode, range);
            slab::free(cpu, range);
            due::spend_locked(cpu, LEAVE_COST);
        }
    }
}

fn conflicts(range: &RangeRecord, wanted: Wanted) -> bool {
    let exclusive = range.write.get() != 0 || wanted.kind == F_WRLCK;
    range.owner.get() != wanted.owner && exclusive && overlaps(range, wanted)
}

fn overlaps(range: &RangeRecord, wanted: Wanted) -> bool {
    range.start.get() <= wanted.end && wanted.start <= range.end.get()
}

/// Locks that have any of the bytes `start..=end`, by their first bytes. The inode's lock is held.
fn meeting<M: Machine>(
    cpu: &Cpu<M>,
    inode: &InodeRecord,
    start: u64,
    end: u64,
) -> impl Iterator<Item = &'static RangeRecord> {
    core::iter::successors(ranges::first(cpu, inode, start, end), move |range| {
        due::spend_locked(cpu, RANGE_COST);
        ranges::next(cpu, range, start, end)
    })
}

/// A record in the words of `fcntl`.
trait Range {
    fn kind(&self) -> i16;
    fn set(&self, wanted: Wanted);
}

impl Range for RangeRecord {
    fn kind(&self) -> i16 {
        if self.write.get() != 0 { F_WRLCK } else { F_RDLCK }
    }

    fn set(&self, wanted: Wanted) {
        self.start.set(wanted.start);
        self.end.set(wanted.end);
        self.owner.set(wanted.owner);
        self.write.set(u32::from(wanted.kind == F_WRLCK));
        self.pid.set(wanted.pid);
    }
}
