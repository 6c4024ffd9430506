//! `open` and its relatives: from a path, or from nothing, to a descriptor.

use motet_abi::{
    Errno,
    file::*,
    inotify::{IN_MODIFY, IN_OPEN},
    process::{MFD_ALLOW_SEALING, MFD_CLOEXEC, MFD_EXEC, MFD_NOEXEC_SEAL},
};
use motet_hal::Machine;
use motet_protocol::{
    Context,
    fs::{self, Attributes, Held},
    notify,
};

use super::{
    lookup::{self, Follow, Found, Last, Path},
    node::Node,
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    file::{
        descriptor::{busy, table},
        kinds::{
            ends::{take_pending, wait_for_partner},
            inode, seals,
        },
    },
    mm,
    permission::FileRights,
};

/// Status flags that stay with an open file and can be changed by `fcntl`.
pub const STATUS_FLAGS: u32 = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME;
/// Bytes of the first `struct open_how`.
const OPEN_HOW_SIZE: u64 = 24;
/// What `open` knows.
const OPEN_FLAGS: u32 = STATUS_FLAGS
    | PATH_FLAGS
    | O_ACCMODE
    | O_ASYNC
    | O_CREAT
    | O_EXCL
    | O_NOCTTY
    | O_TRUNC
    | O_SYNC
    | O_LARGEFILE
    | O_TMPFILE;
/// What matters beside `O_PATH`.
const PATH_FLAGS: u32 = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// `open(path, flags, mode)`.
pub fn open<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, flags, mode, ..] = call.args;
    open_at(call, AT_FDCWD, path, (open_flags(call.isa, flags as u32), 0), mode as u32)
}

/// `openat(dirfd, path, flags, mode)`.
pub fn openat<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, flags, mode, ..] = call.args;
    open_at(call, dirfd as i32, path, (open_flags(call.isa, flags as u32), 0), mode as u32)
}

/// `openat2(dirfd, path, how, size)`.
pub fn openat2<M: Machine>(call: &Call<M>) -> SysResult {
    let [dirfd, path, how, size, ..] = call.args;
    if size < OPEN_HOW_SIZE {
        return Err(Errno::EINVAL.into());
    }
    call.check_zeros(how, OPEN_HOW_SIZE, size)?;
    let (flags, mode) = (call.read_user_u64(how)?, call.read_user_u64(how.wrapping_add(8))?);
    let limits = check_limits(call.read_user_u64(how.wrapping_add(16))?)?;
    // Unlike `open`, it refuses what it does not know.
    let known = u32::try_from(flags).map(|flags| open_flags(call.isa, flags)).map_err(|_| Errno::EINVAL)?;
    let may_create = known & O_CREAT != 0 || known & O_TMPFILE == O_TMPFILE;
    let names_only = known & O_PATH != 0 && known & !(PATH_FLAGS | O_LARGEFILE) != 0;
    if known & !OPEN_FLAGS != 0 || names_only || mode > if may_create { 0o7777 } else { 0 } {
        return Err(Errno::EINVAL.into());
    }
    // All names are in memory; but what changes something never counts as quick.
    if limits & RESOLVE_CACHED != 0 && (may_create || known & O_TRUNC != 0) {
        return Err(Errno::EAGAIN.into());
    }
    open_at(call, dirfd as i32, path, (known, limits), mode as u32)
}

/// `creat(path, mode)`.
pub fn creat<M: Machine>(call: &Call<M>) -> SysResult {
    let [path, mode, ..] = call.args;
    open_at(call, AT_FDCWD, path, (O_CREAT | O_WRONLY | O_TRUNC, 0), mode as u32)
}

/// Checks limits of a walk.
fn check_limits(limits: u64) -> Result<u32, Errno> {
    let known = RESOLVE_NO_XDEV
        | RESOLVE_NO_MAGICLINKS
        | RESOLVE_NO_SYMLINKS
        | RESOLVE_BENEATH
        | RESOLVE_IN_ROOT
        | RESOLVE_CACHED;
    let limits = u32::try_from(limits).ok().filter(|limits| limits & !known == 0).ok_or(Errno::EINVAL)?;
    let both = RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    if limits & both == both { Err(Errno::EINVAL) } else { Ok(limits) }
}

/// `limits`: of the walk.
fn open_at<M: Machine>(call: &Call<M>, dirfd: i32, path_at: u64, (flags, limits): (u32, u32), mode: u32) -> SysResult {
    if let Some((record, seen)) = take_pending(call.cpu, call.thread) {
        let fd = wait_for_partner(call, record, seen, flags)?;
        tell_of_open(call, fd, 0, false);
        return Ok(fd);
    }
    let flags = if flags & O_PATH == 0 { flags } else { flags & PATH_FLAGS };
    check_making(flags)?;
    let mut path = Path::new();
    path.read_user(call, path_at)?;
    let Located { node, entry, is_cleared } = locate(call, dirfd, &mut path, (flags, limits), mode)?;
    let fd = node.open(call, flags)?;
    tell_of_open(call, fd, entry, is_cleared);
    Ok(fd)
}

/// What is to be opened.
struct Located<'c, M: Machine> {
    node: Node<'c, M>,
    /// The entry that names it, if somebody watches something; 0: it is not known, or the latest one.
    entry: u64,
    /// What it contained was taken away.
    is_cleared: bool,
}

/// The entry behind the last component of a path, if somebody watches something.
fn entry_of<M: Machine>(call: &Call<M>, path: &Path, found: &Found<'_, M>) -> u64 {
    if !notify::is_any(call.cpu) {
        return 0;
    }
    let name = path.name(&found.last, Errno::EISDIR).ok();
    let entry = found.parent.as_inode().zip(name).and_then(|(dir, name)| fs::entry_of(call.cpu, dir, name));
    entry.map_or(0, |entry| call.cpu.raw(entry))
}

/// Tells those who watch a file that it was opened.
#[inline]
fn tell_of_open<M: Machine>(call: &Call<M>, fd: u64, entry: u64, is_cleared: bool) {
    if notify::is_any(call.cpu)
        // Another thread may have closed it.
        && let Ok(file) = table::get_opened(call, fd as i32)
        && let Some(inode) = file.inode()
    {
        if !fs::is_directory(inode) {
            file.last_entry.set(entry);
        }
        fs::happened(call.cpu, inode, entry, IN_OPEN);
        if is_cleared {
            fs::happened(call.cpu, inode, entry, IN_MODIFY);
        }
    }
}

/// Checks flags about a file that is made: `open` makes no directory, and what is made without a name has one flag of its own.
fn check_making(flags: u32) -> Result<(), Errno> {
    let unnamed = flags & O_TMPFILE & !O_DIRECTORY != 0;
    let is_whole = flags & (O_TMPFILE | O_CREAT) == O_TMPFILE && flags & O_ACCMODE != O_RDONLY;
    let makes_directory = flags & (O_CREAT | O_DIRECTORY) == O_CREAT | O_DIRECTORY;
    if unnamed && !is_whole || makes_directory { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Finds the file to open, making it if that is asked for, and checks that it may be opened this way.
fn locate<'c, M: Machine>(
    call: &Call<'c, M>,
    dirfd: i32,
    path: &mut Path,
    (flags, limits): (u32, u32),
    mode: u32,
) -> Result<Located<'c, M>, Stop> {
    let exclusive = flags & O_CREAT != 0 && flags & O_EXCL != 0;
    let slash_behind_new = flags & O_CREAT != 0 && path.as_bytes().last() == Some(&b'/');
    let follow = match flags & O_NOFOLLOW == 0 && !exclusive {
        _ if slash_behind_new => Follow::Never,
        true => Follow::Always,
        false => Follow::UnlessLast,
    };
    let unnamed = flags & O_TMPFILE == O_TMPFILE;
    let found = lookup::walk_within(call, dirfd, path, follow, limits)?;
    if slash_behind_new && matches!(found.last, Last::Name(_)) {
        return Err(Errno::EISDIR.into());
    }
    let entry = entry_of(call, path, &found);
    let node = match found.node {
        Some(_) if exclusive && !unnamed => return Err(Errno::EEXIST.into()),
        Some(node) => node,
        None if flags & O_CREAT == 0 || unnamed => return Err(Errno::ENOENT.into()),
        None => {
            let node = create(call, path, &found, flags, mode)?;
            return Ok(Located { node, entry: 0, is_cleared: false });
        }
    };
    if unnamed {
        let node = node.create_unnamed(call, S_IFREG | mode & 0o7777, flags & O_EXCL == 0)?;
        return Ok(Located { node, entry: 0, is_cleared: false });
    }
    check_existing(call, &node, flags)?;
    let is_cleared = flags & O_TRUNC != 0 && flags & O_PATH == 0;
    if is_cleared {
        node.clear(call)?;
    }
    let is_cleared = is_cleared && node.mode() & S_IFMT == S_IFREG;
    Ok(Located { node, entry, is_cleared })
}

fn create<'c, M: Machine>(
    call: &Call<'c, M>,
    path: &Path,
    found: &Found<'c, M>,
    flags: u32,
    mode: u32,
) -> Result<Node<'c, M>, Stop> {
    let dir = &found.parent;
    dir.new_names()?;
    let name = path.name(&found.last, Errno::EISDIR)?;
    if found.directory {
        return Err(Errno::EISDIR.into());
    }
    dir.check(call, W_OK | X_OK)?;
    match dir.create(call, name, S_IFREG | mode & 0o7777, 0) {
        // Someone else has just made it.
        Err(Stop::Error(Errno::EEXIST)) if flags & O_EXCL == 0 => {
            let node = dir.lookup(call, name)?.ok_or(Errno::ENOENT)?;
            check_existing(call, &node, flags | O_NOFOLLOW)?;
            if flags & O_TRUNC != 0 {
                node.clear(call)?;
            }
            Ok(node)
        }
        made => made,
    }
}

fn check_existing<M: Machine>(call: &Call<M>, node: &Node<M>, flags: u32) -> Result<(), Errno> {
    if flags & O_DIRECTORY != 0 && !node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    if node.is_symlink() && flags & O_PATH == 0 {
        return Err(Errno::ELOOP);
    }
    if flags & O_PATH != 0 {
        return Ok(());
    }
    let writes = flags & O_ACCMODE != O_RDONLY;
    if node.is_directory() && (writes || flags & O_CREAT != 0) {
        return Err(Errno::EISDIR);
    }
    let mask = match flags & O_ACCMODE {
        O_RDONLY => R_OK,
        O_WRONLY => W_OK,
        _ => R_OK | W_OK,
    };
    let rights = FileRights::of(call.process);
    node.check_for(call, &rights, mask)?;
    node.check_open(call, &rights, flags)
}

/// Opens a program for exec: a regular file that may be executed.
///
/// # Errors
/// As `open`; `EACCES` when it is not executable; `ETXTBSY`.
pub fn open_executable<'c, M: Machine>(
    call: &Call<'c, M>,
    dirfd: i32,
    path: &[u8],
    flags: u64,
) -> Result<Held<'c, Cpu<M>>, Stop> {
    let mut room = Path::new();
    room.set(path)?;
    let node = lookup::resolve_path(call, dirfd, &mut room, flags as u32)?;
    if node.is_symlink() {
        return Err(Errno::ELOOP.into());
    }
    node.check(call, X_OK)?;
    node.executable(call)
}

/// The file to map for `mmap`; `None` for memory without a file (`/dev/zero`).
///
/// # Errors
/// `EBADF`, `EACCES`, `ENODEV`.
pub fn inode_for_mmap<'c, M: Machine>(
    call: &Call<'c, M>,
    fd: i32,
    writable_shared: bool,
) -> Result<Option<mm::Mappable<'c, M>>, Errno> {
    let file = table::get_opened(call, fd)?;
    file.check_readable().map_err(|_| Errno::EACCES)?;
    if writable_shared {
        file.check_writable().map_err(|_| Errno::EACCES)?;
    }
    file.map(call, writable_shared)
}

/// `memfd_create(name, flags)`: a file without a name, of ordinary pages.
///
/// # Errors
/// `EINVAL`: unknown flags, or the name is longer than 249 bytes; `EFAULT`.
pub fn memfd_create<M: Machine>(call: &Call<M>) -> SysResult {
    let [name, flags, ..] = call.args;
    let flags = flags as u32;
    let known = MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC;
    if flags & !known != 0 || flags & (MFD_NOEXEC_SEAL | MFD_EXEC) == MFD_NOEXEC_SEAL | MFD_EXEC {
        return Err(Errno::EINVAL.into());
    }
    let mut name_bytes = [0; seals::NAME_MAX + 1];
    let name_len = call
        .read_string(name, &mut name_bytes)
        .map_err(|stop| if stop == Errno::ENAMETOOLONG.into() { Errno::EINVAL.into() } else { stop })?;
    let (uid, gid) = FileRights::of(call.process).owner();
    let mode = S_IFREG | if flags & MFD_NOEXEC_SEAL == 0 { 0o777 } else { 0o666 };
    let attributes = Attributes { mode, uid: uid.0, gid: gid.0, rdev: 0, now_ns: call.cpu.realtime_ns() };
    let inode = Held::adopt(call.cpu, fs::new_inode(call.cpu, attributes)?);
    fs::name_once(call.cpu, inode.inode(), b"memfd:", &name_bytes[..name_len])?;
    seals::prepare(&inode, flags);
    let record = inode::open(call, inode, O_RDWR)?;
    busy::made(call.cpu, record);
    Ok(table::install(call, record, flags & MFD_CLOEXEC != 0, 0)?)
}
