//! Changing what files are: mode, owner, times, length.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::*,
    time::{Timespec, Timeval},
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::InodeRecord;
use motet_protocol::{fs, lock::lock};

use super::{inode, node::Node, path, pipe::Pipe, seals, table};
use crate::{
    call::{BUDGET, Call, Stop, SysResult},
    cpu::Cpu,
    mm,
    permission::{FileRights, GroupId, loses_privileges},
};

const PERMISSIONS: u32 = 0o7777;
const FALLOC_FL_KEEP_SIZE: u64 = 1;
const FALLOC_FL_PUNCH_HOLE: u64 = 2;
const FALLOC_FL_ZERO_RANGE: u64 = 16;

/// `chmod(path, mode)`.
pub fn chmod<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, mode, ..] = call.args;
    path::resolve(call, AT_FDCWD, path, 0)?.set_mode(call, mode as u32)?;
    Ok(0)
}

/// `fchmod(fd, mode)`.
pub fn fchmod<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, mode, ..] = call.args;
    Node::of_file(call.cpu, table::get_opened(call, fd as i32)?).set_mode(call, mode as u32)?;
    Ok(0)
}

/// `fchmodat(dirfd, path, mode)`.
pub fn fchmodat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, mode, ..] = call.args;
    path::resolve(call, dirfd as i32, path, 0)?.set_mode(call, mode as u32)?;
    Ok(0)
}

/// `fchmodat2(dirfd, path, mode, flags)`.
pub fn fchmodat2<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, mode, flags, ..] = call.args;
    path::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    let node = path::resolve(call, dirfd as i32, path, flags as u32)?;
    if node.is_symlink() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    node.set_mode(call, mode as u32)?;
    Ok(0)
}

/// `chown(path, uid, gid)`.
pub fn chown<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, uid, gid, ..] = call.args;
    path::resolve(call, AT_FDCWD, path, 0)?.set_owner(call, uid as u32, gid as u32)?;
    Ok(0)
}

/// `lchown(path, uid, gid)`.
pub fn lchown<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, uid, gid, ..] = call.args;
    path::resolve(call, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)?.set_owner(call, uid as u32, gid as u32)?;
    Ok(0)
}

/// `fchown(fd, uid, gid)`.
pub fn fchown<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, uid, gid, ..] = call.args;
    Node::of_file(call.cpu, table::get_opened(call, fd as i32)?).set_owner(call, uid as u32, gid as u32)?;
    Ok(0)
}

/// `fchownat(dirfd, path, uid, gid, flags)`.
pub fn fchownat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, uid, gid, flags, _] = call.args;
    path::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    path::resolve(call, dirfd as i32, path, flags as u32)?.set_owner(call, uid as u32, gid as u32)?;
    Ok(0)
}

/// `umask(mask)`.
pub fn umask<M: Machine>(call: &Call<M>) -> SysResult {
    let before = call.process.umask.get();
    call.process.umask.set(call.args[0] as u32 & 0o777);
    Ok(u64::from(before))
}

/// `utimensat(dirfd, path, times, flags)`.
pub fn utimensat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, times, flags, ..] = call.args;
    let times = if times == 0 { [Time::Now; 2] } else { read_timespecs(call, times)? };
    if matches!(times, [Time::Keep, Time::Keep]) {
        return Ok(0);
    }
    path::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    let node = if path == 0 && dirfd as i32 != AT_FDCWD {
        path::check_flags(flags, 0)?;
        Node::of_file(call.cpu, table::get_opened(call, dirfd as i32)?)
    } else {
        path::resolve(call, dirfd as i32, path, flags as u32)?
    };
    change_times(call, &node, times)
}

/// `utimes(path, times)`.
pub fn utimes<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, times, ..] = call.args;
    let times = read_timevals(call, times)?;
    change_times(call, &path::resolve(call, AT_FDCWD, path, 0)?, times)
}

/// `futimesat(dirfd, path, times)`.
pub fn futimesat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, times, ..] = call.args;
    let times = read_timevals(call, times)?;
    let node = if path == 0 {
        Node::of_file(call.cpu, table::get(call, dirfd as i32)?)
    } else {
        path::resolve(call, dirfd as i32, path, 0)?
    };
    change_times(call, &node, times)
}

/// `utime(path, times)`: whole seconds.
pub fn utime<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, at, ..] = call.args;
    let mut times = [Time::Now; 2];
    if at != 0 {
        for (index, time) in times.iter_mut().enumerate() {
            let tv_sec = call.read_user_u64(at.wrapping_add(8 * index as u64))?.cast_signed();
            *time = Time::At(Timespec { tv_sec, tv_nsec: 0 }.to_signed_ns());
        }
    }
    change_times(call, &path::resolve(call, AT_FDCWD, path, 0)?, times)
}

/// `truncate(path, length)`.
pub fn truncate<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, len, ..] = call.args;
    if len > i64::MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    path::resolve(call, AT_FDCWD, path, 0)?.truncate(call, len)?;
    Ok(0)
}

/// `ftruncate(fd, length)`.
pub fn ftruncate<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, len, ..] = call.args;
    if len > i64::MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    let file = table::get_opened(call, fd as i32)?;
    file.check_writable().map_err(|_| Errno::EINVAL)?;
    set_length(call, file.of_ramfs().ok_or(Errno::EINVAL)?, len)?;
    Ok(0)
}

/// `fallocate(fd, mode, offset, length)`. Memory is not reserved in advance.
pub fn fallocate<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, mode, offset, len, ..] = call.args;
    let mode = mode & u64::from(u32::MAX);
    let file = table::get_opened(call, fd as i32)?;
    let is_range = offset <= i64::MAX as u64 && (1..=i64::MAX as u64).contains(&len);
    if !is_range {
        return Err(Errno::EINVAL.into());
    }
    file.check_writable()?;
    if file.as_kind::<Pipe>().is_some() {
        return Err(Errno::ESPIPE.into());
    }
    let inode = file.regular().ok_or(Errno::ENODEV)?;
    let end = offset + len;
    if end > fs::FILE_SIZE_MAX {
        return Err(Errno::EFBIG.into());
    }
    let removes = mode & FALLOC_FL_PUNCH_HOLE != 0;
    if !removes {
        inode::check_size_limit(call, inode, end)?;
        seals::check_growth(inode, end)?;
    }
    drop_privileges(call, inode);
    let reached = &call.thread.scratch[0];
    match mode & !FALLOC_FL_KEEP_SIZE {
        0 => {}
        FALLOC_FL_PUNCH_HOLE if mode & FALLOC_FL_KEEP_SIZE == 0 => return Err(Errno::EOPNOTSUPP.into()),
        FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE => {
            let mut left = Some(if reached.get() == 0 { end } else { reached.get() });
            while let Some(until) = left {
                let piece = fs::punch_some(call.cpu, inode, offset, until, BUDGET)?;
                mm::forget_pages(call.cpu, inode, piece.mapped, false);
                left = piece.left;
                if let Some(until) = left
                    && call.pauses(BUDGET)
                {
                    reached.set(until);
                    return Err(Stop::Again);
                }
            }
        }
        _ => return Err(Errno::EOPNOTSUPP.into()),
    }
    if mode & FALLOC_FL_KEEP_SIZE == 0 && end > inode.size.load(Ordering::Relaxed) {
        cut(call, inode, end)?;
    }
    modified(call.cpu, inode);
    Ok(0)
}

/// Times of the last access and of the last change of contents that are to be set.
pub type Times = [Time; 2];

/// A time to be set.
#[derive(Clone, Copy)]
pub enum Time {
    /// The present.
    Now,
    /// Not at all.
    Keep,
    /// Nanoseconds since 1970, or before.
    At(i64),
}

fn read_timespecs<M: Machine>(call: &Call<M>, at: u64) -> Result<[Time; 2], Stop> {
    let mut bytes = [0; 2 * Timespec::SIZE];
    call.read_user(at, &mut bytes)?;
    let mut times = [Time::Now; 2];
    for (time, bytes) in times.iter_mut().zip(bytes.chunks_exact(Timespec::SIZE)) {
        let spec = Timespec::take(bytes);
        *time = match spec.tv_nsec {
            Timespec::UTIME_NOW => Time::Now,
            Timespec::UTIME_OMIT => Time::Keep,
            0..1_000_000_000 => Time::At(spec.to_signed_ns()),
            _ => return Err(Errno::EINVAL.into()),
        };
    }
    Ok(times)
}

fn read_timevals<M: Machine>(call: &Call<M>, at: u64) -> Result<[Time; 2], Stop> {
    let mut times = [Time::Now; 2];
    if at != 0 {
        let mut bytes = [0; 2 * Timeval::SIZE];
        call.read_user(at, &mut bytes)?;
        for (time, bytes) in times.iter_mut().zip(bytes.chunks_exact(Timeval::SIZE)) {
            let Timeval { tv_sec, tv_usec } = Timeval::take(bytes);
            if !(0..1_000_000).contains(&tv_usec) {
                return Err(Errno::EINVAL.into());
            }
            *time = Time::At(Timespec { tv_sec, tv_nsec: tv_usec * 1000 }.to_signed_ns());
        }
    }
    Ok(times)
}

fn change_times<M: Machine>(call: &Call<M>, node: &Node<M>, times: Times) -> SysResult {
    if !matches!(times, [Time::Keep, Time::Keep]) {
        node.set_times(call, times)?;
    }
    Ok(0)
}

/// Changes an inode's times, if the caller may.
///
/// # Errors
/// `EPERM`, `EACCES`.
pub fn set_times<M: Machine>(call: &Call<M>, inode: &InodeRecord, times: Times) -> Result<(), Errno> {
    let rights = FileRights::of(call.process);
    if !rights.owns(inode) {
        // Who may write a file may have it written now.
        match times {
            [Time::Now, Time::Now] => rights.check(inode, W_OK)?,
            _ => return Err(Errno::EPERM),
        }
    }
    let now = call.cpu.realtime_ns();
    for (cell, time) in [&inode.accessed_ns, &inode.modified_ns].into_iter().zip(times) {
        match time {
            Time::Now => cell.set(now),
            Time::Keep => {}
            Time::At(ns) => cell.set(ns.cast_unsigned()),
        }
    }
    inode.changed_ns.set(now);
    Ok(())
}

/// Changes an inode's permissions, if the caller may.
///
/// # Errors
/// `EPERM`.
pub fn set_mode<M: Machine>(call: &Call<M>, inode: &'static InodeRecord, mode: u32) -> Result<(), Errno> {
    let rights = FileRights::of(call.process);
    let _guard = lock(call.cpu, &inode.lock);
    if !rights.owns(inode) {
        return Err(Errno::EPERM);
    }
    let mode = rights.without_foreign_group(mode, GroupId(inode.gid.get()));
    seals::check_mode(inode, mode)?;
    inode.mode.set(inode.mode.get() & !PERMISSIONS | mode & PERMISSIONS);
    inode.changed_ns.set(call.cpu.realtime_ns());
    Ok(())
}

/// Changes an inode's owner and group, if the caller may.
///
/// # Errors
/// `EPERM`.
pub fn set_owner<M: Machine>(call: &Call<M>, inode: &'static InodeRecord, uid: u32, gid: u32) -> Result<(), Errno> {
    let rights = FileRights::of(call.process);
    // Owner and mode change together: exec looks at both (`Owned::of`).
    let _guard = lock(call.cpu, &inode.lock);
    rights.may_give(inode, uid, gid)?;
    inode.mode.set(rights.mode_given(inode));
    for (cell, id) in [(&inode.uid, uid), (&inode.gid, gid)] {
        if id != FileRights::UNCHANGED {
            cell.set(id);
        }
    }
    inode.changed_ns.set(call.cpu.realtime_ns());
    Ok(())
}

/// Clears the set-ID bits of a regular file that is about to be written or truncated, unless the caller may keep
/// them.
#[inline(always)]
pub fn drop_privileges<M: Machine>(call: &Call<M>, inode: &InodeRecord) {
    if loses_privileges(inode) {
        let _guard = lock(call.cpu, &inode.lock);
        inode.mode.set(FileRights::of(call.process).mode_written(inode));
    }
}

/// A file has been read, or is about to be: its time of access is noted, once after each change (`relatime` of mount(8), but for its
/// repetition after a day: most reads need no clock). `flags`: those that it was opened with.
#[inline(always)]
pub fn accessed<M: Machine>(cpu: &Cpu<M>, inode: &InodeRecord, flags: u32) {
    let [read, modified, changed] =
        [&inode.accessed_ns, &inode.modified_ns, &inode.changed_ns].map(|time| time.get().cast_signed());
    if read <= modified.max(changed) && flags & O_NOATIME == 0 {
        note_access(cpu, inode);
    }
}

#[cold]
fn note_access<M: Machine>(cpu: &Cpu<M>, inode: &InodeRecord) {
    inode.accessed_ns.set(cpu.realtime_ns());
}

/// A file has other contents.
pub fn modified<M: Machine>(cpu: &Cpu<M>, inode: &InodeRecord) {
    let now = cpu.realtime_ns();
    inode.modified_ns.set(now);
    inode.changed_ns.set(now);
}

/// Truncates or extends a file to `len` bytes, also where it is mapped. A long file gets shorter step by step.
///
/// # Errors
/// `EFBIG`; [`Stop::Again`].
pub fn cut<M: Machine>(call: &Call<M>, inode: &'static InodeRecord, len: u64) -> Result<(), Stop> {
    loop {
        let piece = fs::truncate_some(call.cpu, inode, len, BUDGET)?;
        mm::forget_pages(call.cpu, inode, piece.mapped, true);
        if piece.left.is_none() {
            return Ok(());
        }
        call.pause_point(BUDGET)?;
    }
}

/// Whether an inode can be cut.
///
/// # Errors
/// `EISDIR`, `EINVAL`.
pub fn check_has_length(inode: &InodeRecord) -> Result<(), Errno> {
    match fs::file_type(inode) {
        fs::TYPE_REGULAR => Ok(()),
        fs::TYPE_DIRECTORY => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

/// Cuts or extends an inode.
///
/// # Errors
/// As [`check_has_length`]; `EFBIG`; [`Stop::Again`].
pub fn set_length<M: Machine>(call: &Call<M>, inode: &'static InodeRecord, len: u64) -> Result<(), Stop> {
    check_has_length(inode)?;
    inode::check_size_limit(call, inode, len)?;
    drop_privileges(call, inode);
    cut(call, inode, len)?;
    modified(call.cpu, inode);
    Ok(())
}
