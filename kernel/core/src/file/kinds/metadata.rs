//! What inodes say of their files: mode, owner, times, length. Calls and transfers change it.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::*,
    inotify::{IN_ATTRIB, IN_MODIFY},
    signal::SIGXFSZ,
    time::RLIMIT_FSIZE,
};
use motet_hal::Machine;
use motet_layout::{FileRecord, InodeRecord};
use motet_protocol::{Context, fs, lock::lock, notify};

use super::seals;
use crate::{
    call::{BUDGET, Call, Stop},
    cpu::Cpu,
    mm,
    permission::{FileRights, GroupId, loses_privileges},
    signal,
    tree::limit_of,
};

const PERMISSIONS: u32 = 0o7777;

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
pub fn drop_privileges<M: Machine>(call: &Call<M>, inode: &'static InodeRecord) {
    if loses_privileges(inode) {
        clear_set_ids(call, inode);
    }
}

#[cold]
fn clear_set_ids<M: Machine>(call: &Call<M>, inode: &'static InodeRecord) {
    let (before, after) = {
        let _guard = lock(call.cpu, &inode.lock);
        let before = inode.mode.get();
        inode.mode.set(FileRights::of(call.process).mode_written(inode));
        (before, inode.mode.get())
    };
    if before != after {
        fs::happened(call.cpu, inode, 0, IN_ATTRIB);
    }
}

/// So many bytes of a file, or something else that is counted, were read or changed by an open file: tells those who watch (`IN_*`), unless it is nothing.
#[inline(always)]
pub fn happened_by<M: Machine>(cpu: &Cpu<M>, file: &FileRecord, done: u64, event: u32) {
    if notify::is_any(cpu) {
        tell_by(cpu, file, done, event);
    }
}

/// It asks the open file for its inode, so that who reads need not keep that.
#[cold]
#[inline(never)]
fn tell_by<M: Machine>(cpu: &Cpu<M>, file: &FileRecord, done: u64, event: u32) {
    if done != 0
        && let Some(inode) = cpu.object(file.inode.get())
    {
        fs::happened(cpu, inode, file.last_entry.get(), event);
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
    check_size_limit(call, inode, len)?;
    drop_privileges(call, inode);
    cut(call, inode, len)?;
    modified(call.cpu, inode);
    fs::happened(call.cpu, inode, 0, IN_MODIFY);
    Ok(())
}

/// Checks that a file may become `end` bytes long, if it is shorter.
///
/// # Errors
/// `EFBIG`, after the thread was sent `SIGXFSZ`: `RLIMIT_FSIZE` forbids it.
pub fn check_size_limit<M: Machine>(call: &Call<M>, inode: &InodeRecord, end: u64) -> Result<(), Errno> {
    let grows = end > inode.size.load(Ordering::Relaxed);
    if grows && end > limit_of(call.process, RLIMIT_FSIZE) { Err(exceeds_size(call)) } else { Ok(()) }
}

/// Sends `SIGXFSZ` for a write that begins at or beyond the process's file-size limit; returns the error.
#[cold]
pub fn exceeds_size<M: Machine>(call: &Call<M>) -> Errno {
    signal::send_to_thread(call.cpu, call.thread, SIGXFSZ);
    Errno::EFBIG
}
