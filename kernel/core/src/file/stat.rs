//! What files are: `stat`, `statx`, `statfs`, `access`.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{InodeRecord, NAME_MAX, PAGE_SIZE};
use motet_protocol::memory;

use super::{node::Node, path, proc, table};
use crate::{
    call::{Call, SysResult},
    permission::FileRights,
};

/// Device numbers of the ramfs, of procfs and of unnamed pipes.
const RAMFS: Device = Device { major: 0, minor: 2 };
const PROCFS: Device = Device { major: 0, minor: 3 };
const PIPEFS: Device = Device { major: 0, minor: 4 };
const SECTORS_PER_PAGE: u64 = 8;

/// `stat(path, out)`.
pub fn stat<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, out, ..] = call.args;
    write_stat(call, &path::resolve(call, AT_FDCWD, path, 0)?, out)
}

/// `lstat(path, out)`.
pub fn lstat<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, out, ..] = call.args;
    write_stat(call, &path::resolve(call, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)?, out)
}

/// `fstat(fd, out)`.
pub fn fstat<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, out, ..] = call.args;
    write_stat(call, &Node::of_file(call.cpu, table::get(call, fd as i32)?), out)
}

/// `newfstatat(dirfd, path, out, flags)`.
pub fn newfstatat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, out, flags, ..] = call.args;
    path::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE)?;
    write_stat(call, &path::resolve(call, dirfd as i32, path, flags as u32)?, out)
}

/// `statx(dirfd, path, flags, mask, out)`.
pub fn statx<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, flags, mask, out, _] = call.args;
    let both = flags as u32 & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE;
    if mask as u32 & STATX_RESERVED != 0 || both {
        return Err(Errno::EINVAL.into());
    }
    path::check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE)?;
    let node = path::resolve(call, dirfd as i32, path, flags as u32)?;
    call.write_user(out, &stat_of(call, &node).statx().to_bytes())?;
    Ok(0)
}

/// `statfs(path, out)`.
pub fn statfs<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, out, ..] = call.args;
    write_statfs(call, &path::resolve(call, AT_FDCWD, path, 0)?, out)
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
    path::check_flags(flags, AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    check(call, dirfd as i32, path, mode as u32, flags as u32)
}

fn check<M: Machine>(call: &Call<M>, dirfd: i32, path: u64, mode: u32, flags: u32) -> SysResult {
    if mode & !(R_OK | W_OK | X_OK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let by_effective = flags & AT_EACCESS != 0;
    let rights = if by_effective { FileRights::of(call.process) } else { FileRights::of_real(call.process) };
    path::resolve_for(call, &rights, dirfd, path, flags)?.check_for(call, &rights, mode)?;
    Ok(0)
}

fn write_stat<M: Machine>(call: &Call<M>, node: &Node<M>, out: u64) -> SysResult {
    let (bytes, len) = stat_of(call, node).encode(call.isa);
    call.write_user(out, &bytes[..len])?;
    Ok(0)
}

/// What `stat` says about a node.
pub fn stat_of<M: Machine>(call: &Call<M>, node: &Node<M>) -> Stat {
    match node {
        Node::Inode(inode) => of_inode(inode),
        Node::Proc(node) => {
            let boot = Timespec::from_ns(call.cpu.pool.header().realtime_at_zero_ns.get());
            let mode = proc::mode(*node);
            let (uid, gid) = proc::owner(call.cpu, *node);
            Stat {
                uid,
                gid,
                device: PROCFS,
                inode: node.number(),
                mode,
                links: if mode & S_IFMT == S_IFDIR { 2 } else { 1 },
                block_size: PAGE_SIZE as u32,
                accessed: boot,
                modified: boot,
                changed: boot,
                created: boot,
                ..Stat::default()
            }
        }
        Node::Open(file) => Stat {
            uid: file.record().uid.get(),
            gid: file.record().gid.get(),
            accessed: Timespec::from_ns(file.record().made_ns.get()),
            modified: Timespec::from_ns(file.record().made_ns.get()),
            changed: Timespec::from_ns(file.record().made_ns.get()),
            device: PIPEFS,
            inode: file.number(),
            mode: node.mode(),
            links: 1,
            special: file.device(),
            block_size: PAGE_SIZE as u32,
            ..Stat::default()
        },
    }
}

fn of_inode(inode: &InodeRecord) -> Stat {
    Stat {
        device: RAMFS,
        inode: inode.number.get(),
        mode: inode.mode.get(),
        links: inode.links.load(Ordering::Relaxed),
        uid: inode.uid.get(),
        gid: inode.gid.get(),
        special: Device::decode(inode.rdev.get()),
        size: inode.size.load(Ordering::Relaxed),
        block_size: PAGE_SIZE as u32,
        blocks: u64::from(inode.page_count.get()) * SECTORS_PER_PAGE,
        accessed: Timespec::from_signed_ns(inode.accessed_ns.get().cast_signed()),
        modified: Timespec::from_signed_ns(inode.modified_ns.get().cast_signed()),
        changed: Timespec::from_signed_ns(inode.changed_ns.get().cast_signed()),
        created: Timespec::from_signed_ns(inode.created_ns.get().cast_signed()),
    }
}

fn write_statfs<M: Machine>(call: &Call<M>, node: &Node<M>, out: u64) -> SysResult {
    let ([free, free_for_users], total) = (memory::free_for_files(call.cpu.pool), memory::usage(call.cpu.pool).1);
    let mut result = Statfs {
        f_bsize: PAGE_SIZE as i64,
        f_frsize: PAGE_SIZE as i64,
        f_namelen: NAME_MAX as i64,
        ..Statfs::default()
    };
    match node {
        Node::Inode(_) => {
            result.f_type = TMPFS_MAGIC;
            result.f_blocks = total / PAGE_SIZE;
            (result.f_bfree, result.f_bavail) = (free / PAGE_SIZE, free_for_users / PAGE_SIZE);
            // As many as the free memory could hold.
            result.f_ffree = free / size_of::<InodeRecord>() as u64;
            result.f_files = result.f_ffree + u64::from(call.cpu.pool.header().last_inode.load(Ordering::Relaxed));
        }
        Node::Proc(node) => result.f_type = if proc::is_of_sysfs(*node) { SYSFS_MAGIC } else { PROC_SUPER_MAGIC },
        Node::Open(file) => result.f_type = file.facts().file_system,
    }
    call.write_user(out, &result.to_bytes())?;
    Ok(0)
}
