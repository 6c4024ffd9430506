//! What files are: `stat`, `statx`, `statfs`, `access`.

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{NAME_MAX, PAGE_SIZE};

use super::{lookup, node::Node};
use crate::{
    call::{Call, SysResult},
    file::descriptor::table,
    permission::FileRights,
};

/// `stat(path, out)`.
pub fn stat<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, out, ..] = call.args;
    write_stat(call, &lookup::resolve(call, AT_FDCWD, path, 0)?, out)
}

/// `lstat(path, out)`.
pub fn lstat<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, out, ..] = call.args;
    write_stat(call, &lookup::resolve(call, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)?, out)
}

/// `fstat(fd, out)`.
pub fn fstat<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, out, ..] = call.args;
    write_stat(call, &Node::of_file(call.cpu, table::get(call, fd as i32)?), out)
}

/// `newfstatat(dirfd, path, out, flags)`.
pub fn newfstatat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, out, flags, ..] = call.args;
    lookup::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE)?;
    write_stat(call, &lookup::resolve(call, dirfd as i32, path, flags as u32)?, out)
}

/// `statx(dirfd, path, flags, mask, out)`.
pub fn statx<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, flags, mask, out, _] = call.args;
    let both = flags as u32 & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE;
    if mask as u32 & STATX_RESERVED != 0 || both {
        return Err(Errno::EINVAL.into());
    }
    lookup::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE)?;
    let node = lookup::resolve(call, dirfd as i32, path, flags as u32)?;
    call.write_user(out, &node.stat(call)?.statx().to_bytes())?;
    Ok(0)
}

/// `statfs(path, out)`.
pub fn statfs<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, out, ..] = call.args;
    write_statfs(call, &lookup::resolve(call, AT_FDCWD, path, 0)?, out)
}

/// `fstatfs(fd, out)`.
pub fn fstatfs<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, out, ..] = call.args;
    write_statfs(call, &Node::of_file(call.cpu, table::get(call, fd as i32)?), out)
}

/// `access(path, mode)`.
pub fn access<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, mode, ..] = call.args;
    check(call, AT_FDCWD, path, mode as u32, 0)
}

/// `faccessat(dirfd, path, mode)`.
pub fn faccessat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, mode, ..] = call.args;
    check(call, dirfd as i32, path, mode as u32, 0)
}

/// `faccessat2(dirfd, path, mode, flags)`.
pub fn faccessat2<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, mode, flags, ..] = call.args;
    lookup::check_flags(flags, AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    check(call, dirfd as i32, path, mode as u32, flags as u32)
}

fn check<M: Machine>(call: &Call<M>, dirfd: i32, path: u64, mode: u32, flags: u32) -> SysResult {
    if mode & !(R_OK | W_OK | X_OK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let by_effective = flags & AT_EACCESS != 0;
    let rights = if by_effective { FileRights::of(call.process) } else { FileRights::of_real(call.process) };
    lookup::resolve_for(call, &rights, dirfd, path, flags)?.check_for(call, &rights, mode)?;
    Ok(0)
}

fn write_stat<M: Machine>(call: &Call<M>, node: &Node<M>, out: u64) -> SysResult {
    let (bytes, len) = node.stat(call)?.encode(call.isa);
    call.write_user(out, &bytes[..len])?;
    Ok(0)
}

fn write_statfs<M: Machine>(call: &Call<M>, node: &Node<M>, out: u64) -> SysResult {
    let mut result = Statfs {
        f_bsize: PAGE_SIZE as i64,
        f_frsize: PAGE_SIZE as i64,
        f_namelen: NAME_MAX as i64,
        ..Statfs::default()
    };
    node.statfs(call, &mut result)?;
    call.write_user(out, &result.to_bytes())?;
    Ok(0)
}
