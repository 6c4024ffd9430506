//! Changing what files are: mode, owner, times, length.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::*,
    inotify::IN_MODIFY,
    time::{Timespec, Timeval},
    wire::Wire,
};
use motet_hal::Machine;
use motet_protocol::fs;

use super::{lookup, node::Node};
use crate::{
    call::{BUDGET, Call, Stop, SysResult},
    file::{
        descriptor::table,
        kinds::{
            metadata::{Time, Times, check_size_limit, cut, drop_privileges, happened_by, modified, set_length},
            pipe::Pipe,
            seals,
        },
    },
    mm,
};

const FALLOC_FL_KEEP_SIZE: u64 = 1;
const FALLOC_FL_PUNCH_HOLE: u64 = 2;
const FALLOC_FL_ZERO_RANGE: u64 = 16;

/// `chmod(path, mode)`.
pub fn chmod<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, mode, ..] = call.args;
    lookup::resolve(call, AT_FDCWD, path, 0)?.set_mode(call, mode as u32)?;
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
    lookup::resolve(call, dirfd as i32, path, 0)?.set_mode(call, mode as u32)?;
    Ok(0)
}

/// `fchmodat2(dirfd, path, mode, flags)`.
pub fn fchmodat2<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, mode, flags, ..] = call.args;
    lookup::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    let node = lookup::resolve(call, dirfd as i32, path, flags as u32)?;
    if node.is_symlink() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    node.set_mode(call, mode as u32)?;
    Ok(0)
}

/// `chown(path, uid, gid)`.
pub fn chown<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, uid, gid, ..] = call.args;
    lookup::resolve(call, AT_FDCWD, path, 0)?.set_owner(call, uid as u32, gid as u32)?;
    Ok(0)
}

/// `lchown(path, uid, gid)`.
pub fn lchown<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, uid, gid, ..] = call.args;
    lookup::resolve(call, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)?.set_owner(call, uid as u32, gid as u32)?;
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
    lookup::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    lookup::resolve(call, dirfd as i32, path, flags as u32)?.set_owner(call, uid as u32, gid as u32)?;
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
    lookup::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    let node = if path == 0 && dirfd as i32 != AT_FDCWD {
        lookup::check_flags(flags, 0)?;
        Node::of_file(call.cpu, table::get_opened(call, dirfd as i32)?)
    } else {
        lookup::resolve(call, dirfd as i32, path, flags as u32)?
    };
    change_times(call, &node, times)
}

/// `utimes(path, times)`.
pub fn utimes<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, times, ..] = call.args;
    let times = read_timevals(call, times)?;
    change_times(call, &lookup::resolve(call, AT_FDCWD, path, 0)?, times)
}

/// `futimesat(dirfd, path, times)`.
pub fn futimesat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, times, ..] = call.args;
    let times = read_timevals(call, times)?;
    let node = if path == 0 {
        Node::of_file(call.cpu, table::get(call, dirfd as i32)?)
    } else {
        lookup::resolve(call, dirfd as i32, path, 0)?
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
    change_times(call, &lookup::resolve(call, AT_FDCWD, path, 0)?, times)
}

/// `truncate(path, length)`.
pub fn truncate<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, len, ..] = call.args;
    if len > i64::MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    lookup::resolve(call, AT_FDCWD, path, 0)?.truncate(call, len)?;
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
        check_size_limit(call, inode, end)?;
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
    happened_by(call.cpu, file.record(), 1, IN_MODIFY);
    Ok(0)
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
