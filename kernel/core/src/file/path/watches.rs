//! Calls that watch what a path names (inotify(7)).

use motet_abi::{
    Errno,
    file::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, R_OK},
    inotify::{IN_DONT_FOLLOW, IN_KNOWN, IN_MASK_ADD, IN_MASK_CREATE, IN_ONLYDIR},
};
use motet_hal::Machine;
use motet_protocol::notify::{self, Again};

use super::lookup;
use crate::{
    call::{Call, SysResult},
    file::{descriptor::table, kinds::inotify::Inotify},
};

/// `inotify_add_watch(fd, path, mask)`.
///
/// # Errors
/// `EINVAL`, `EBADF`; `ENOTDIR`; `EACCES`: the caller may not read it; `EEXIST`; `ENOSPC`: the user has too many; `EOPNOTSUPP`: nobody knows what happens to it,
/// as in procfs; and those of paths.
pub fn inotify_add_watch<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, path, mask, ..] = call.args;
    let mask = mask as u32;
    if mask == 0 || mask & !IN_KNOWN != 0 {
        return Err(Errno::EINVAL.into());
    }
    let file = table::get_opened(call, fd as i32)?;
    let again = match (mask & IN_MASK_ADD != 0, mask & IN_MASK_CREATE != 0) {
        (true, true) => return Err(Errno::EINVAL.into()),
        (true, false) => Again::Add,
        (false, true) => Again::Refuse,
        (false, false) => Again::Replace,
    };
    let Inotify(instance) = file.as_kind().ok_or(Errno::EINVAL)?;
    let node = lookup::resolve(call, AT_FDCWD, path, if mask & IN_DONT_FOLLOW != 0 { AT_SYMLINK_NOFOLLOW } else { 0 })?;
    if mask & IN_ONLYDIR != 0 && !node.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    node.check(call, R_OK)?;
    let inode = node.as_inode().ok_or(Errno::EOPNOTSUPP)?;
    Ok(notify::add(call.cpu, instance, inode, mask, again)?.into())
}

/// `inotify_rm_watch(fd, wd)`.
///
/// # Errors
/// `EBADF`; `EINVAL`: the descriptor is of something else, or there is no such watch.
pub fn inotify_rm_watch<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, number, ..] = call.args;
    let file = table::get_opened(call, fd as i32)?;
    let Inotify(instance) = file.as_kind().ok_or(Errno::EINVAL)?;
    notify::remove(call.cpu, instance, number as u32)?;
    Ok(0)
}
