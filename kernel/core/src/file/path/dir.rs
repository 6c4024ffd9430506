//! Directories as programs see them: `getdents64`, the working directory, the root.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::{AT_FDCWD, DIRENT_MAX, X_OK},
};
use motet_hal::Machine;
use motet_protocol::{hand, lock::lock};

use super::{
    absolute::path_of,
    lookup,
    node::{self, Node},
    records::{PIECE, Records},
};
use crate::{
    call::{Call, PATH_MAX, Stop, SysResult, cost},
    cursor::partial,
    file::descriptor::table,
    permission::{self, Capability},
};

/// `getdents64(fd, buffer, length)`.
pub fn getdents64<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    file.check_readable()?;
    let len = len as u32 as usize;
    let mut done = call.thread.progress.get() as usize;
    let dir = Node::opened_from(call.cpu, &file).filter(Node::is_directory).ok_or(Errno::ENOTDIR)?;
    if let Err(errno) = dir.begin_list(call, file.flags()) {
        return partial(done as u64, errno);
    }
    let _guard = (hand::count(file.record()) > 1).then(|| lock(call.cpu, &file.record().lock));
    let mut records = Records {
        bytes: [0; PIECE],
        len: 0,
        limit: 0,
        next: file.offset.load(Ordering::Relaxed),
        last: file.last_entry.get(),
    };
    loop {
        records.len = 0;
        records.limit = PIECE.min(len - done);
        if let Err(stop) = dir.list(call, &mut records) {
            return later(call, done as u64, stop);
        }
        if records.len == 0 {
            break;
        }
        if let Err(stop) = call.write_user(buffer.wrapping_add(done as u64), &records.bytes[..records.len]) {
            return partial(done as u64, stop);
        }
        done += records.len;
        file.offset.store(records.next, Ordering::Relaxed);
        file.last_entry.set(records.last);
        if call.pauses(cost::bytes(PIECE as u64)) {
            if call.is_interrupted() {
                break;
            }
            call.thread.progress.set(done as u64);
            return Err(Stop::Again);
        }
    }
    if done == 0 && len < DIRENT_MAX && !at_end(call, &dir, records.next)? {
        return Err(Errno::EINVAL.into());
    }
    Ok(done as u64)
}

/// A file system has stopped a call after `done` bytes: if entries come later, it goes on then.
#[cold]
fn later<M: Machine>(call: &Call<M>, done: u64, stop: Stop) -> SysResult {
    if matches!(stop, Stop::Error(_)) {
        return partial(done, stop);
    }
    call.thread.progress.set(done);
    Err(stop)
}

/// Whether nothing follows a position, so that an empty result is the end and not too small a buffer.
fn at_end<M: Machine>(call: &Call<M>, dir: &Node<M>, position: u64) -> Result<bool, Stop> {
    let mut probe = Records { bytes: [0; PIECE], len: 0, limit: PIECE, next: position, last: 0 };
    dir.list(call, &mut probe)?;
    Ok(probe.len == 0)
}

/// `getcwd(buffer, length)`.
pub fn getcwd<M: Machine>(call: &Call<M>) -> SysResult {
    let [buffer, len, ..] = call.args;
    let cwd = node::of_process(call, |process| &process.cwd);
    let mut bytes = [0; PATH_MAX];
    let path = path_of(call, &cwd, &mut bytes)?;
    if path.len() as u64 + 1 > len {
        return Err(Errno::ERANGE.into());
    }
    call.write_user(buffer, path)?;
    call.write_user(buffer.wrapping_add(path.len() as u64), &[0])?;
    Ok(path.len() as u64 + 1)
}

/// `chdir(path)`.
pub fn chdir<M: Machine>(call: &Call<M>) -> SysResult {
    let dir = lookup::resolve(call, AT_FDCWD, call.args[0], 0)?;
    change(call, dir, &call.process.cwd)
}

/// `fchdir(fd)`.
pub fn fchdir<M: Machine>(call: &Call<M>) -> SysResult {
    let dir = Node::of_file(call.cpu, table::get(call, call.args[0] as i32)?);
    change(call, dir, &call.process.cwd)
}

/// `chroot(path)`.
pub fn chroot<M: Machine>(call: &Call<M>) -> SysResult {
    let dir = lookup::resolve(call, AT_FDCWD, call.args[0], 0)?;
    if !dir.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    dir.check(call, X_OK)?;
    if !permission::has(call.process, Capability::ChangeRoot) {
        return Err(Errno::EPERM.into());
    }
    change(call, dir, &call.process.root)
}

fn change<M: Machine>(call: &Call<M>, dir: Node<M>, reference: &'static [motet_layout::Cell64; 2]) -> SysResult {
    if !dir.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    dir.check(call, X_OK)?;
    node::store(call.cpu, reference, Some(dir));
    Ok(0)
}
