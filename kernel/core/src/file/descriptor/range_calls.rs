//! Byte-range locks as programs set them: the commands of `fcntl` that concern locks.

use motet_abi::{Errno, file::*, wire::Wire};
use motet_hal::Machine;
use motet_layout::sync::Ordering;
use motet_protocol::Context;

use super::{
    deadlock,
    description::OpenFile,
    range_lock::{self, Wanted},
    table,
};
use crate::call::{Call, Stop, SysResult};

/// Serves such a command; `argument` points to a `struct flock`.
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
        let found = range_lock::test(call, file, wanted, of_file)?;
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
    call.wait_for(&inode.flock_waiters, || match range_lock::set(call.cpu, inode, wanted)? {
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
        range_lock::give_up(call.cpu, inode, owner);
        return Err(Errno::EBADF.into());
    }
    Ok(0)
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
