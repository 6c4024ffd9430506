//! Paths: from names to nodes.
//!
//! The whole path lies in one buffer. A symbolic link's target replaces the part of the path that led to it, in place,
//! so a walk needs no recursion and no second buffer.

use core::ops::Range;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::NAME_MAX;

use super::node::{self, Node};
use crate::{
    call::{BUDGET, Call, PATH_MAX, Stop, cost},
    due,
    file::descriptor::table,
    permission::FileRights,
};

/// Most symbolic links followed in one walk (Linux `MAXSYMLINKS`).
const SYMLINKS_MAX: u32 = 40;

/// A path, as far as it has not been walked. It is large: it is filled where it lies, and lent, not moved.
pub struct Path {
    room: Room,
    len: usize,
}

/// Most paths are short, and zeroing room for the longest takes more instructions than walking them.
#[expect(clippy::large_enum_variant, reason = "it lies on the stack, where the kernel has no heap")]
enum Room {
    Short([u8; SHORT_MAX]),
    Long([u8; PATH_MAX]),
}

const SHORT_MAX: usize = 256;

/// The last component of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Last {
    /// An ordinary name: a part of the path.
    Name(Range<usize>),
    /// ".", or nothing behind the root.
    Dot,
    /// "..".
    DotDot,
}

/// What to do with a symbolic link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// It is followed.
    Always,
    /// It is meant itself, unless a slash follows it.
    UnlessLast,
    /// It is meant itself: its name is to be made, changed or removed. What a slash behind it means is the caller's.
    Never,
}

/// Where a walk ended.
pub struct Found<'c, M: Machine> {
    /// The directory that holds (or would hold) the last component.
    pub parent: Node<'c, M>,
    /// What the path names, `None` if it does not exist.
    pub node: Option<Node<'c, M>>,
    /// The last component.
    pub last: Last,
    /// The path ended in a slash: it can name a directory only.
    pub directory: bool,
}

/// A component of a path.
struct Component {
    /// Its bytes in the path: not empty.
    name: Range<usize>,
    /// A slash follows.
    ends_in_slash: bool,
    /// No other component follows.
    is_last: bool,
}

impl Follow {
    /// Whether a symbolic link at `component` is followed.
    fn covers(self, component: &Component) -> bool {
        match self {
            _ if !component.is_last => true,
            Self::Always => true,
            Self::UnlessLast => component.ends_in_slash,
            Self::Never => false,
        }
    }
}

impl Path {
    /// The empty path.
    #[inline(always)]
    pub fn new() -> Self {
        Self { room: Room::Short([0; SHORT_MAX]), len: 0 }
    }

    /// Becomes a zero-terminated path in user memory.
    ///
    /// # Errors
    /// `EFAULT`, `ENAMETOOLONG`; [`Stop::Page`].
    pub fn read_user<M: Machine>(&mut self, call: &Call<M>, address: u64) -> Result<(), Stop> {
        self.len = 0;
        self.len = match call.read_string(address, self.bytes_mut()) {
            Err(Stop::Error(Errno::ENAMETOOLONG)) => call.read_string(address, self.long_bytes_mut()),
            read => read,
        }?;
        Ok(())
    }

    /// Becomes a path in kernel memory.
    ///
    /// # Errors
    /// `ENAMETOOLONG`.
    pub fn set(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        self.len = 0;
        self.room_for(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.len = bytes.len();
        Ok(())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it names the root by nothing but slashes.
    pub fn is_root(&self) -> bool {
        !self.is_empty() && self.as_bytes().iter().all(|&byte| byte == b'/')
    }

    /// The last component found by a walk; `otherwise` when it is not a name.
    ///
    /// # Errors
    /// `otherwise`.
    pub fn name(&self, last: &Last, otherwise: Errno) -> Result<&[u8], Errno> {
        match last {
            Last::Name(range) => Ok(&self.as_bytes()[range.clone()]),
            Last::Dot | Last::DotDot => Err(otherwise),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.room {
            Room::Short(bytes) => &bytes[..self.len],
            Room::Long(bytes) => &bytes[..self.len],
        }
    }

    /// The first component from byte `at` on; `None`: there are only slashes.
    fn component_from(&self, at: usize) -> Option<Component> {
        let bytes = self.as_bytes();
        let count =
            |from: usize, slash: bool| bytes[from..].iter().take_while(|&&byte| (byte == b'/') == slash).count();
        let start = at + count(at, true);
        let end = start + count(start, false);
        let slashes = count(end, true);
        let component =
            Component { name: start..end, ends_in_slash: slashes > 0, is_last: end + slashes == bytes.len() };
        (start < end).then_some(component)
    }

    /// All the room that there is.
    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.room {
            Room::Short(bytes) => bytes,
            Room::Long(bytes) => bytes,
        }
    }

    /// Room for the longest path, which begins with what the path was.
    fn long_bytes_mut(&mut self) -> &mut [u8] {
        if let Room::Short(short) = self.room {
            self.room = Room::Long([0; PATH_MAX]);
            self.bytes_mut()[..SHORT_MAX].copy_from_slice(&short);
        }
        self.bytes_mut()
    }

    /// Room for `len` bytes (at most [`PATH_MAX`]), which begins with what the path was.
    fn room_for(&mut self, len: usize) -> &mut [u8] {
        if len > SHORT_MAX { self.long_bytes_mut() } else { self.bytes_mut() }
    }

    /// Puts a link's target in place of everything before `rest`; `target` fills the buffer it is given, of `room` bytes if there are so many, and
    /// returns the target's length.
    fn replace_head(
        &mut self,
        rest: usize,
        room: usize,
        target: impl FnOnce(&mut [u8]) -> Result<usize, Stop>,
    ) -> Result<(), Stop> {
        let rest_len = self.len - rest;
        let separator = usize::from(rest_len > 0);
        let room = room.min((PATH_MAX - 1).saturating_sub(separator + rest_len));
        let (old_len, behind) = (self.len, room + separator);
        let bytes = self.room_for(behind + rest_len);
        bytes.copy_within(rest..old_len, behind);
        let filled = target(&mut bytes[..room])?;
        if filled == 0 {
            return Err(Errno::ENOENT.into());
        }
        if separator > 0 {
            bytes[filled] = b'/';
        }
        if filled < room {
            bytes.copy_within(behind..behind + rest_len, filled + separator);
        }
        self.len = filled + separator + rest_len;
        Ok(())
    }
}

/// Fails with `EINVAL` when there are `AT_*` flags that a call does not know.
///
/// # Errors
/// `EINVAL`.
pub fn check_flags(flags: u64, known: u32) -> Result<(), Errno> {
    if flags as u32 & !known == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

/// What the path in user memory names, from `dirfd`. `flags`: `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`, `ELOOP`, `EACCES`, `ENAMETOOLONG`, `EFAULT`, `EBADF`.
pub fn resolve<'c, M: Machine>(call: &Call<'c, M>, dirfd: i32, address: u64, flags: u32) -> Result<Node<'c, M>, Stop> {
    let mut path = Path::new();
    path.read_user(call, address)?;
    resolve_path(call, dirfd, &mut path, flags)
}

/// As [`resolve`], by other rights than those that the caller acts by.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_for<'c, M: Machine>(
    call: &Call<'c, M>,
    rights: &FileRights,
    dirfd: i32,
    address: u64,
    flags: u32,
) -> Result<Node<'c, M>, Stop> {
    let mut path = Path::new();
    path.read_user(call, address)?;
    resolve_path_for(call, rights, dirfd, &mut path, flags)
}

/// What a path names, from `dirfd`.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_path<'c, M: Machine>(
    call: &Call<'c, M>,
    dirfd: i32,
    path: &mut Path,
    flags: u32,
) -> Result<Node<'c, M>, Stop> {
    resolve_path_for(call, &FileRights::of(call.process), dirfd, path, flags)
}

fn resolve_path_for<'c, M: Machine>(
    call: &Call<'c, M>,
    rights: &FileRights,
    dirfd: i32,
    path: &mut Path,
    flags: u32,
) -> Result<Node<'c, M>, Stop> {
    if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        return match dirfd {
            AT_FDCWD => Ok(node::of_process(call, |process| &process.cwd)),
            _ => Ok(Node::of_file(call.cpu, table::get(call, dirfd)?)),
        };
    }
    let follow = if flags & AT_SYMLINK_NOFOLLOW == 0 { Follow::Always } else { Follow::UnlessLast };
    Ok(walk_for(call, rights, dirfd, path, (follow, 0))?.node.ok_or(Errno::ENOENT)?)
}

/// Walks a path from `dirfd` up to its last component, which need not exist.
///
/// # Errors
/// As [`resolve`], but for a missing last component.
pub fn walk<'c, M: Machine>(
    call: &Call<'c, M>,
    dirfd: i32,
    path: &mut Path,
    follow: Follow,
) -> Result<Found<'c, M>, Stop> {
    walk_for(call, &FileRights::of(call.process), dirfd, path, (follow, 0))
}

/// As [`walk`], within limits (`RESOLVE_*`).
///
/// # Errors
/// As [`walk`]; `EXDEV`: the path leaves where it must stay; `ELOOP`: a link that must not be followed.
pub fn walk_within<'c, M: Machine>(
    call: &Call<'c, M>,
    dirfd: i32,
    path: &mut Path,
    follow: Follow,
    limits: u32,
) -> Result<Found<'c, M>, Stop> {
    walk_for(call, &FileRights::of(call.process), dirfd, path, (follow, limits))
}

/// Where a walk begins, and what it takes for the root if that is not the process's.
fn beginning<'c, M: Machine>(
    call: &Call<'c, M>,
    dirfd: i32,
    path: &Path,
    limits: u32,
) -> Result<(Node<'c, M>, Option<Node<'c, M>>), Errno> {
    let is_confined = limits & (RESOLVE_BENEATH | RESOLVE_IN_ROOT) != 0;
    let is_absolute = path.as_bytes()[0] == b'/';
    if is_absolute && limits & RESOLVE_BENEATH != 0 {
        return Err(Errno::EXDEV);
    }
    let start = match dirfd {
        _ if is_absolute && !is_confined => node::of_process(call, |process| &process.root),
        AT_FDCWD => node::of_process(call, |process| &process.cwd),
        _ => node::directory_of(call.cpu, table::get(call, dirfd)?)?,
    };
    let root = is_confined.then(|| start.clone());
    Ok((start, root))
}

/// Checks that a symbolic link may be followed. `is_direct`: it leads somewhere without a path.
fn check_link(limits: u32, is_direct: bool) -> Result<(), Errno> {
    let refused = if is_direct { RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS } else { RESOLVE_NO_SYMLINKS };
    if limits & refused != 0 {
        return Err(Errno::ELOOP);
    }
    let leaves = is_direct && limits & (RESOLVE_BENEATH | RESOLVE_IN_ROOT) != 0;
    if leaves { Err(Errno::EXDEV) } else { Ok(()) }
}

/// Checks that a step from one file to another stays in its file system, if it must.
fn check_step<M: Machine>(limits: u32, from: &Node<M>, to: &Node<M>) -> Result<(), Errno> {
    if limits & RESOLVE_NO_XDEV != 0 && from.mount() != to.mount() { Err(Errno::EXDEV) } else { Ok(()) }
}

fn walk_for<'c, M: Machine>(
    call: &Call<'c, M>,
    rights: &FileRights,
    dirfd: i32,
    path: &mut Path,
    (follow, limits): (Follow, u32),
) -> Result<Found<'c, M>, Stop> {
    if path.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    let (mut current, root) = beginning(call, dirfd, path, limits)?;
    let mut found = Found { parent: current.clone(), node: None, last: Last::Dot, directory: false };
    let mut at = 0;
    let mut symlinks = 0;
    while let Some(component) = path.component_from(at) {
        let (is_last, end) = (component.is_last, component.name.end);
        // Symbolic links make a path of 40 times the longest one.
        due::spend_locked(call.cpu, cost::OBJECT + cost::bytes(component.name.len() as u64));
        if !current.is_directory() {
            return Err(Errno::ENOTDIR.into());
        }
        current.check_for(call, rights, X_OK)?;
        if component.name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        found.directory = component.ends_in_slash;
        let (last, next) = match &path.as_bytes()[component.name.clone()] {
            b"." => (Last::Dot, Some(current.clone())),
            b".." => match root.as_ref().filter(|root| current.same(root)) {
                Some(_) if limits & RESOLVE_BENEATH != 0 => return Err(Errno::EXDEV.into()),
                Some(root) => (Last::DotDot, Some(root.clone())),
                None => (Last::DotDot, Some(parent(call, &current))),
            },
            name => (Last::Name(component.name.clone()), current.lookup(call, name)?),
        };
        found.last = last;
        let Some(next) = next else {
            if !is_last {
                return Err(Errno::ENOENT.into());
            }
            found.parent = current;
            return Ok(found);
        };
        check_step(limits, &current, &next)?;
        if next.is_symlink() && follow.covers(&component) {
            symlinks += 1;
            if symlinks > SYMLINKS_MAX {
                return Err(Errno::ELOOP.into());
            }
            if is_last {
                current.check_follow(&next, rights)?;
            }
            let direct = next.follow(call)?;
            check_link(limits, direct.is_some())?;
            if let Some(direct) = &direct {
                check_step(limits, &next, direct)?;
            }
            match direct {
                Some(direct) if is_last => {
                    return Ok(finish(Found { parent: current, node: Some(direct), ..found }, follow)?);
                }
                Some(direct) => (current, at) = (direct, end),
                None => {
                    path.replace_head(end, next.link_room(), |into| next.link_text(call, into))?;
                    due::spend_locked(call.cpu, BUDGET);
                    if path.as_bytes().first() == Some(&b'/') {
                        if limits & RESOLVE_BENEATH != 0 {
                            return Err(Errno::EXDEV.into());
                        }
                        let top = root.clone().unwrap_or_else(|| node::of_process(call, |process| &process.root));
                        check_step(limits, &current, &top)?;
                        current = top;
                    }
                    (found.parent, found.last, at) = (current.clone(), Last::Dot, 0);
                }
            }
        } else if is_last {
            return Ok(finish(Found { parent: current, node: Some(next), ..found }, follow)?);
        } else {
            (current, at) = (next, end);
        }
    }
    // Only slashes, or a path that ended in a directory reached by "." or "..".
    found.node = Some(current);
    Ok(found)
}

/// A path that ends in a slash must name a directory.
fn finish<M: Machine>(found: Found<M>, follow: Follow) -> Result<Found<M>, Errno> {
    match &found.node {
        Some(node) if follow != Follow::Never && found.directory && !node.is_directory() => Err(Errno::ENOTDIR),
        _ => Ok(found),
    }
}

/// The directory above; the process's root is its own.
fn parent<'c, M: Machine>(call: &Call<'c, M>, dir: &Node<'c, M>) -> Node<'c, M> {
    let root = node::of_process(call, |process| &process.root);
    if dir.same(&root) { root } else { dir.parent(call.cpu) }
}
