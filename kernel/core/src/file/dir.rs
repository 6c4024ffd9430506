//! Directories as programs see them: `getdents64`, the working directory.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::{AT_FDCWD, DIRENT_MAX, X_OK, dirent64},
};
use motet_hal::Machine;
use motet_layout::{InodeRecord, NAME_MAX};
use motet_protocol::{
    Context,
    fs::{self, Held},
    hand,
    lock::lock,
};

use super::{
    attributes::accessed,
    description::OpenFile,
    node::{self, Node},
    path,
    proc::{self, ProcNode},
    table,
};
use crate::{
    call::{Call, PATH_MAX, Stop, SysResult, cost},
    cursor::partial,
    due,
    permission::{self, Capability},
};

/// Entries are collected in pieces of this many bytes, so that user memory is not touched with a directory locked.
const PIECE: usize = 2048;
/// Entries that are looked at for an inode while the directory is locked once, and what one costs (`call::cost`).
const ENTRIES_AT_ONCE: u32 = 128;
const ENTRY_COST: u64 = 20;
/// Positions of "." and "..", which every directory has; the entries' own follow.
const POSITION_DOT: u64 = 0;
const POSITION_DOT_DOT: u64 = 1;
const POSITION_FIRST: u64 = 2;

/// What stands before a path to which the caller's root does not lead (getcwd(2)), so that it is not taken for one that does.
const UNREACHABLE: &[u8] = b"(unreachable)";

/// Directory records collected for user memory.
pub struct Records {
    bytes: [u8; PIECE],
    len: usize,
    limit: usize,
    /// Where the next call goes on.
    pub next: u64,
    /// The last entry (pool address), if it is one of a directory of the ramfs.
    last: u64,
}

impl Records {
    /// Adds an entry; `next` is the position behind it. `false`: it does not fit.
    pub fn push(&mut self, number: u64, next: u64, mode: u32, name: &[u8]) -> bool {
        match dirent64(&mut self.bytes[self.len..self.limit], number, next as i64, mode, name) {
            Some(len) => {
                self.len += len;
                self.next = next;
                true
            }
            None => false,
        }
    }
}

/// `getdents64(fd, buffer, length)`.
pub fn getdents64<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    file.check_readable()?;
    let len = len as u32 as usize;
    let mut done = call.thread.progress.get() as usize;
    let listing = Listing::of(&file).ok_or(Errno::ENOTDIR);
    if let Ok(Listing::Ramfs(dir)) = listing {
        if dir.links.load(Ordering::Relaxed) == 0 {
            return if done == 0 { Err(Errno::ENOENT.into()) } else { Ok(done as u64) };
        }
        accessed(call.cpu, dir, file.flags());
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
        listing?.collect(call, &mut records);
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
    if done == 0 && len < DIRENT_MAX && !at_end(call, listing?, records.next) {
        return Err(Errno::EINVAL.into());
    }
    Ok(done as u64)
}

/// Whether nothing follows a position, so that an empty result is the end and not too small a buffer.
fn at_end<M: Machine>(call: &Call<M>, listing: Listing, position: u64) -> bool {
    let mut probe = Records { bytes: [0; PIECE], len: 0, limit: PIECE, next: position, last: 0 };
    listing.collect(call, &mut probe);
    probe.len == 0
}

/// A directory that is open.
#[derive(Clone, Copy)]
enum Listing {
    Ramfs(&'static InodeRecord),
    Procfs(ProcNode),
}

impl Listing {
    fn of<M: Machine>(file: &OpenFile<M>) -> Option<Self> {
        let in_ramfs = file.of_ramfs().filter(|dir| fs::is_directory(dir)).map(Self::Ramfs);
        in_ramfs.or_else(|| file.as_kind().filter(|dir| proc::is_directory(*dir)).map(Self::Procfs))
    }

    fn collect<M: Machine>(self, call: &Call<M>, records: &mut Records) {
        match self {
            Self::Ramfs(dir) => collect(call, dir, records),
            Self::Procfs(dir) => proc::list(call, dir, records),
        }
    }
}

fn collect<M: Machine>(call: &Call<M>, dir: &'static InodeRecord, records: &mut Records) {
    let cpu = call.cpu;
    if records.next == POSITION_DOT && !records.push(dir.number.get(), POSITION_DOT_DOT, dir.mode.get(), b".") {
        return;
    }
    if records.next == POSITION_DOT_DOT {
        let above = fs::parent(cpu, dir);
        if !records.push(above.number.get(), POSITION_FIRST, above.mode.get(), b"..") {
            return;
        }
    }
    let mut name = [0; NAME_MAX];
    fs::readdir_after(cpu, dir, records.next, records.last, |entry, inode| {
        due::spend_locked(cpu, cost::OBJECT);
        let name = fs::entry_name(cpu, entry, &mut name);
        let fits = records.push(inode.number.get(), entry.position.get() + 1, inode.mode.get(), name);
        if fits {
            records.last = cpu.raw(entry);
        }
        fits
    });
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

/// The absolute path of a file. (Of several names of a file that is no directory, one; others are not known.)
///
/// # Errors
/// `ENAMETOOLONG`; `ENOENT` when it, or a directory above, was removed.
pub fn path_of<'b, M: Machine>(
    call: &Call<M>,
    node: &Node<M>,
    into: &'b mut [u8; PATH_MAX],
) -> Result<&'b [u8], Errno> {
    text_of(call, node, into, false)
}

/// As [`path_of`], for those who only want to be told: of what was removed the path that it had, with ` (deleted)` behind it.
///
/// # Errors
/// `ENAMETOOLONG`; `ENOENT` when the path is not known.
pub fn path_or_last<'b, M: Machine>(
    call: &Call<M>,
    node: &Node<M>,
    into: &'b mut [u8; PATH_MAX],
) -> Result<&'b [u8], Errno> {
    text_of(call, node, into, true)
}

fn text_of<'b, M: Machine>(
    call: &Call<M>,
    node: &Node<M>,
    into: &'b mut [u8; PATH_MAX],
    also_removed: bool,
) -> Result<&'b [u8], Errno> {
    let mut start = into.len();
    match node {
        Node::Open(_) => return Err(Errno::ENOENT),
        Node::Proc(node) => {
            let len = proc::path_text(*node, into);
            if is_above_all(call, &node::of_process(call, |process| &process.root)) {
                return Ok(&into[..len]);
            }
            into.copy_within(..len, PATH_MAX - len);
            start = PATH_MAX - len;
            prepend(UNREACHABLE, into, &mut start)?;
        }
        Node::Inode(inode) => {
            let root = node::of_process(call, |process| &process.root);
            let mut at = inode.clone();
            let mut is_reached = true;
            if also_removed && at.links.load(Ordering::Relaxed) == 0 {
                prepend(b" (deleted)", into, &mut start)?;
            }
            while !is_root(&root, &at) {
                let above = match fs::is_directory(&at) {
                    true => fs::parent(call.cpu, at.inode()),
                    false => fs::directory_hint(call.cpu, &at).ok_or(Errno::ENOENT)?,
                };
                if core::ptr::eq(above.inode(), at.inode()) {
                    is_reached = false;
                    break;
                }
                let mut name = [0; NAME_MAX];
                match fs::last_name(call.cpu, at.inode(), &mut name).filter(|_| also_removed) {
                    Some(last) => {
                        prepend(last, into, &mut start)?;
                        prepend(b"/", into, &mut start)?;
                    }
                    None => prepend_name(call, above.inode(), at.inode(), into, &mut start)?,
                }
                at = above;
            }
            if start == into.len() {
                prepend(b"/", into, &mut start)?;
            }
            if !is_reached {
                prepend(UNREACHABLE, into, &mut start)?;
            }
        }
    }
    Ok(&into[start..])
}

/// Whether a directory is the file system's own root.
fn is_above_all<M: Machine>(call: &Call<M>, root: &Node<M>) -> bool {
    root.same(&Node::file_system_root(call.cpu))
}

fn is_root<M: Machine>(root: &Node<M>, dir: &Held<'_, crate::cpu::Cpu<M>>) -> bool {
    matches!(root, Node::Inode(root) if core::ptr::eq(root.inode(), dir.inode()))
}

/// Puts the name by which `dir` holds `inode` in front of the path.
fn prepend_name<M: Machine>(
    call: &Call<M>,
    dir: &'static InodeRecord,
    inode: &'static InodeRecord,
    into: &mut [u8],
    start: &mut usize,
) -> Result<(), Errno> {
    let mut name = [0; NAME_MAX];
    let (mut len, mut from, mut last) = (0, 0, 0);
    while len == 0 {
        let mut left = ENTRIES_AT_ONCE;
        fs::readdir_after(call.cpu, dir, from, last, |entry, found| {
            if core::ptr::eq(found, inode) {
                len = fs::entry_name(call.cpu, entry, &mut name).len();
            }
            (from, last) = (entry.position.get() + 1, call.cpu.raw(entry));
            left -= 1;
            len == 0 && left > 0
        });
        if len == 0 && left > 0 {
            return Err(Errno::ENOENT);
        }
        call.serve_due(u64::from(ENTRIES_AT_ONCE) * ENTRY_COST);
    }
    prepend(&name[..len], into, start)?;
    prepend(b"/", into, start)
}

fn prepend(text: &[u8], into: &mut [u8], start: &mut usize) -> Result<(), Errno> {
    let at = start.checked_sub(text.len()).ok_or(Errno::ENAMETOOLONG)?;
    into[at..*start].copy_from_slice(text);
    *start = at;
    Ok(())
}

/// `chdir(path)`.
pub fn chdir<M: Machine>(call: &Call<M>) -> SysResult {
    let dir = path::resolve(call, AT_FDCWD, call.args[0], 0)?;
    change(call, dir, &call.process.cwd)
}

/// `fchdir(fd)`.
pub fn fchdir<M: Machine>(call: &Call<M>) -> SysResult {
    let dir = Node::of_file(call.cpu, table::get(call, call.args[0] as i32)?);
    change(call, dir, &call.process.cwd)
}

/// `chroot(path)`.
pub fn chroot<M: Machine>(call: &Call<M>) -> SysResult {
    let dir = path::resolve(call, AT_FDCWD, call.args[0], 0)?;
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
