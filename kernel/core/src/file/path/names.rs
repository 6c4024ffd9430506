//! Making, removing and changing names.

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_protocol::fs::Replace;

use super::{
    lookup::{self, Follow, Found, Last, Path},
    mount,
    node::Node,
};
use crate::{
    call::{Call, Stop, SysResult},
    permission::{self, Capability},
};

/// `mkdir(path, mode)`.
pub fn mkdir<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, mode, ..] = call.args;
    make_directory(call, AT_FDCWD, path, mode as u32)
}

/// `mkdirat(dirfd, path, mode)`.
pub fn mkdirat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, mode, ..] = call.args;
    make_directory(call, dirfd as i32, path, mode as u32)
}

/// `mknod(path, mode, device)`.
pub fn mknod<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, mode, device, ..] = call.args;
    make_node(call, AT_FDCWD, path, mode as u32, device as u32)
}

/// `mknodat(dirfd, path, mode, device)`.
pub fn mknodat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, mode, device, ..] = call.args;
    make_node(call, dirfd as i32, path, mode as u32, device as u32)
}

/// `rmdir(path)`.
pub fn rmdir<M: Machine>(call: &Call<M>) -> SysResult {
    remove(call, AT_FDCWD, call.args[0], true)
}

/// `unlink(path)`.
pub fn unlink<M: Machine>(call: &Call<M>) -> SysResult {
    remove(call, AT_FDCWD, call.args[0], false)
}

/// `unlinkat(dirfd, path, flags)`.
pub fn unlinkat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, flags, ..] = call.args;
    if flags as u32 & !AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL.into());
    }
    remove(call, dirfd as i32, path, flags as u32 & AT_REMOVEDIR != 0)
}

/// `link(old, new)`.
pub fn link<M: Machine>(call: &Call<M>) -> SysResult {
    let [old, new, ..] = call.args;
    make_link(call, (AT_FDCWD, old), (AT_FDCWD, new), 0)
}

/// `linkat(old_dirfd, old, new_dirfd, new, flags)`.
pub fn linkat<M: Machine>(call: &Call<M>) -> SysResult {
    let [old_dirfd, old, new_dirfd, new, flags, _] = call.args;
    if flags as u32 & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    make_link(call, (old_dirfd as i32, old), (new_dirfd as i32, new), flags as u32)
}

/// `symlink(target, path)`.
pub fn symlink<M: Machine>(call: &Call<M>) -> SysResult {
    let [target, path, ..] = call.args;
    make_symlink(call, target, AT_FDCWD, path)
}

/// `symlinkat(target, dirfd, path)`.
pub fn symlinkat<M: Machine>(call: &Call<M>) -> SysResult {
    let [target, dirfd, path, ..] = call.args;
    make_symlink(call, target, dirfd as i32, path)
}

/// `readlink(path, buffer, length)`.
pub fn readlink<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, buffer, len, ..] = call.args;
    read_link(call, AT_FDCWD, path, buffer, len)
}

/// `readlinkat(dirfd, path, buffer, length)`.
pub fn readlinkat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, buffer, len, ..] = call.args;
    read_link(call, dirfd as i32, path, buffer, len)
}

/// `rename(old, new)`.
pub fn rename<M: Machine>(call: &Call<M>) -> SysResult {
    let [old, new, ..] = call.args;
    change_name(call, (AT_FDCWD, old), (AT_FDCWD, new), 0)
}

/// `renameat(old_dirfd, old, new_dirfd, new)`.
pub fn renameat<M: Machine>(call: &Call<M>) -> SysResult {
    let [old_dirfd, old, new_dirfd, new, ..] = call.args;
    change_name(call, (old_dirfd as i32, old), (new_dirfd as i32, new), 0)
}

/// `renameat2(old_dirfd, old, new_dirfd, new, flags)`.
pub fn renameat2<M: Machine>(call: &Call<M>) -> SysResult {
    let [old_dirfd, old, new_dirfd, new, flags, _] = call.args;
    change_name(call, (old_dirfd as i32, old), (new_dirfd as i32, new), flags as u32)
}

/// Checks that a name can be made, and that the caller may.
fn check_new<M: Machine>(call: &Call<M>, found: &Found<'_, M>) -> Result<(), Errno> {
    if found.node.is_some() {
        return Err(Errno::EEXIST);
    }
    found.parent.new_names()?;
    found.parent.check(call, W_OK | X_OK)
}

/// The name of a new file that is no directory, checked as [`check_new`] does.
fn name_of_file<'p, M: Machine>(call: &Call<M>, found: &Found<'_, M>, path: &'p Path) -> Result<&'p [u8], Errno> {
    check_new(call, found)?;
    let name = path.name(&found.last, Errno::EEXIST)?;
    if found.directory { Err(Errno::ENOENT) } else { Ok(name) }
}

/// Checks that a name is there, and that the caller may remove it or move it away.
fn check_removal<M: Machine>(call: &Call<M>, found: &Found<'_, M>) -> Result<(), Errno> {
    found.node.as_ref().ok_or(Errno::ENOENT)?;
    found.parent.check_removal(call)
}

fn make_directory<M: Machine>(call: &Call<M>, dirfd: i32, path_at: u64, mode: u32) -> SysResult {
    let mut path = Path::new();
    path.read_user(call, path_at)?;
    let found = lookup::walk(call, dirfd, &mut path, Follow::Never)?;
    check_new(call, &found)?;
    let name = path.name(&found.last, Errno::EEXIST)?;
    found.parent.mkdir(call, name, S_IFDIR | mode & 0o1777)?;
    Ok(0)
}

fn make_node<M: Machine>(call: &Call<M>, dirfd: i32, path_at: u64, mode: u32, device: u32) -> SysResult {
    let is_device = match mode & S_IFMT {
        0 | S_IFREG | S_IFIFO | S_IFSOCK => false,
        // A whiteout, which stands for nothing: anybody may make one.
        S_IFCHR if device == 0 => false,
        S_IFCHR | S_IFBLK => true,
        S_IFDIR => return Err(Errno::EPERM.into()),
        _ => return Err(Errno::EINVAL.into()),
    };
    let mut path = Path::new();
    path.read_user(call, path_at)?;
    let found = lookup::walk(call, dirfd, &mut path, Follow::Never)?;
    let name = name_of_file(call, &found, &path)?;
    if is_device && !permission::has(call.process, Capability::MakeNode) {
        return Err(Errno::EPERM.into());
    }
    found.parent.create(call, name, mode, device)?;
    Ok(0)
}

/// Makes a socket's name.
///
/// # Errors
/// `EEXIST`, and as for any file.
pub fn make_socket<'c, M: Machine>(call: &Call<'c, M>, path: &[u8]) -> Result<Node<'c, M>, Stop> {
    let mut room = Path::new();
    room.set(path)?;
    let path = &mut room;
    let found = lookup::walk(call, AT_FDCWD, path, Follow::Never)?;
    let name = name_of_file(call, &found, path)?;
    found.parent.create(call, name, S_IFSOCK | 0o777, 0)
}

fn remove<M: Machine>(call: &Call<M>, dirfd: i32, path_at: u64, directory: bool) -> SysResult {
    let mut path = Path::new();
    path.read_user(call, path_at)?;
    let found = lookup::walk(call, dirfd, &mut path, Follow::Never)?;
    let name = match (&found.last, directory) {
        (Last::Name(_), _) => path.name(&found.last, Errno::EINVAL)?,
        (Last::Dot, true) if path.is_root() => return Err(Errno::EBUSY.into()),
        (Last::Dot, true) => return Err(Errno::EINVAL.into()),
        (Last::DotDot, true) => return Err(Errno::ENOTEMPTY.into()),
        (Last::Dot | Last::DotDot, false) => return Err(Errno::EISDIR.into()),
    };
    if found.node.as_ref().is_some_and(|node| mount::is_mounted(call.cpu, node)) {
        return Err(Errno::EBUSY.into());
    }
    check_removal(call, &found)?;
    if !directory && found.directory {
        let is_directory = found.node.as_ref().is_some_and(Node::is_directory);
        return Err(if is_directory { Errno::EISDIR } else { Errno::ENOTDIR }.into());
    }
    let Found { parent, node, .. } = found;
    // Who is told that it is gone is told so before its name goes, if nobody has it: not this call, either.
    drop(node);
    parent.remove(call, name, directory)?;
    Ok(0)
}

fn make_link<M: Machine>(call: &Call<M>, old: (i32, u64), new: (i32, u64), flags: u32) -> SysResult {
    if flags & AT_EMPTY_PATH != 0 && !permission::has(call.process, Capability::ReadSearch) {
        return Err(Errno::ENOENT.into());
    }
    let follow = if flags & AT_SYMLINK_FOLLOW != 0 { 0 } else { AT_SYMLINK_NOFOLLOW };
    let node = lookup::resolve(call, old.0, old.1, follow | flags & AT_EMPTY_PATH)?;
    let mut path = Path::new();
    path.read_user(call, new.1)?;
    let found = lookup::walk(call, new.0, &mut path, Follow::Never)?;
    let name = name_of_file(call, &found, &path)?;
    found.parent.link(&node, call, name)?;
    Ok(0)
}

fn make_symlink<M: Machine>(call: &Call<M>, target_at: u64, dirfd: i32, path_at: u64) -> SysResult {
    let mut target = Path::new();
    target.read_user(call, target_at)?;
    let mut path = Path::new();
    path.read_user(call, path_at)?;
    let found = lookup::walk(call, dirfd, &mut path, Follow::Never)?;
    let name = name_of_file(call, &found, &path)?;
    found.parent.symlink(call, name, target.as_bytes())?;
    Ok(0)
}

fn read_link<M: Machine>(call: &Call<M>, dirfd: i32, path_at: u64, buffer: u64, len: u64) -> SysResult {
    if len as i32 <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut path = Path::new();
    path.read_user(call, path_at)?;
    // An empty path means the link that the descriptor names.
    let is_empty = path.is_empty();
    let node = lookup::resolve_path(call, dirfd, &mut path, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    if !node.is_symlink() {
        return Err(if is_empty { Errno::ENOENT } else { Errno::EINVAL }.into());
    }
    let mut target = [0; PATH_MAX];
    let target_len = node.link_text(call, &mut target)?;
    let len = target_len.min(len as i32 as usize);
    call.write_user(buffer, &target[..len])?;
    Ok(len as u64)
}

/// What must be, and be a directory because of a slash behind it, when one name becomes the other.
fn check_ends<M: Machine>(source: &Found<'_, M>, target: &Found<'_, M>, replace: Replace) -> Result<(), Errno> {
    let is_directory = |found: &Found<'_, M>| found.node.as_ref().is_some_and(Node::is_directory);
    let exchanges = replace == Replace::Exchange;
    match target.node {
        _ if source.node.is_none() => return Err(Errno::ENOENT),
        Some(_) if replace == Replace::Refuse => return Err(Errno::EEXIST),
        None if exchanges => return Err(Errno::ENOENT),
        _ => {}
    }
    // What is exchanged is a directory where its own name has a slash; what is moved, where either has.
    let is_slash_right = if exchanges {
        (!source.directory || is_directory(source)) && (!target.directory || is_directory(target))
    } else {
        !source.directory && !target.directory || is_directory(source)
    };
    if is_slash_right { Ok(()) } else { Err(Errno::ENOTDIR) }
}

fn change_name<M: Machine>(call: &Call<M>, old: (i32, u64), new: (i32, u64), flags: u32) -> SysResult {
    let replace = match flags {
        0 => Replace::Allow,
        RENAME_NOREPLACE => Replace::Refuse,
        RENAME_EXCHANGE => Replace::Exchange,
        _ => return Err(Errno::EINVAL.into()),
    };
    let mut old_path = Path::new();
    old_path.read_user(call, old.1)?;
    let source = lookup::walk(call, old.0, &mut old_path, Follow::Never)?;
    let mut new_path = Path::new();
    new_path.read_user(call, new.1)?;
    let target = lookup::walk(call, new.0, &mut new_path, Follow::Never)?;
    if source.parent.mount() != target.parent.mount() {
        return Err(Errno::EXDEV.into());
    }
    let old_name = old_path.name(&source.last, Errno::EBUSY)?;
    let new_name =
        new_path.name(&target.last, if replace == Replace::Refuse { Errno::EEXIST } else { Errno::EBUSY })?;
    check_ends(&source, &target, replace)?;
    check_removal(call, &source)?;
    match target.node {
        Some(_) => check_removal(call, &target)?,
        None => check_new(call, &target)?,
    }
    source.parent.rename(&target.parent, call, (old_name, new_name), replace)?;
    Ok(0)
}
