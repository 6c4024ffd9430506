//! Byte-range locks (`fcntl`): of processes, and of open file descriptions.
//!
//! An inode has a tree of the ranges that are locked (`motet_protocol::ranges`), each with its owner: a descriptor table (the threads of a process), or
//! an open file. A table's go when any descriptor of the file is closed in it, as POSIX has it; an open file's go with
//! its last descriptor. Both look for locks only if they have ever had one. Who would wait for itself is told (`deadlock`). Who sets a lock looks at
//! all that meet it, so a file has no more than [`RANGES_MAX`].

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{FileRecord, FilesRecord, InodeRecord, RangeRecord, sync::Ordering};
use motet_protocol::{Context, lock::lock, ranges, slab, wait};

use super::description::OpenFile;
use crate::{call::Call, cpu::Cpu, due};

/// What looking at a lock costs.
const RANGE_COST: u64 = 30;

/// What taking a lock out of its tree costs, and giving its record back.
const LEAVE_COST: u64 = 600;

/// Locked ranges of a file. Linux has no such limit, but looks at all of them: there, a hundred thousand locks take minutes.
const RANGES_MAX: u32 = 4096;

/// What is asked for: bytes `start..=end`, of an owner.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// The first byte.
    pub start: u64,
    /// The last byte.
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i16,
    /// Pool address of the descriptor table or open file.
    pub owner: u64,
    /// What `F_GETLK` says whose it is.
    pub pid: u32,
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

/// Releases an owner's locks of a file.
pub fn give_up<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord, owner: u64) {
    // Without a record to be made, nothing fails.
    let _ = set(cpu, inode, Wanted { start: 0, end: i64::MAX as u64, kind: F_UNLCK, owner, pid: 0 });
}

/// The first lock that stands in the way; `F_UNLCK` of an open file: the first that it has itself.
///
/// # Errors
/// `EINVAL`: that is no lock.
pub fn test<M: Machine>(
    call: &Call<M>,
    file: &OpenFile<M>,
    wanted: Wanted,
    of_file: bool,
) -> Result<Option<Flock>, Errno> {
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
pub fn set<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord, wanted: Wanted) -> Result<Option<u64>, Errno> {
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
