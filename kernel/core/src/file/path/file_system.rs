//! What a file system is.
//!
//! A file system says what a node of it is, something that a path can name: a small type in a file of its own, which serves what calls ask of it.
//! What it says nothing about is answered as of files that are only shown, and have no other names than they have. `file::path::node` has the list of all file
//! systems, and the one match over it.
//!
//! An operation that returns [`Stop`] may wait, for a page of a medium or for a reply: the call is made anew later, from its beginning on, so the
//! operation has changed nothing yet. What the others are about is in memory while the node is. Three callers cannot wait yet: `execve` (that it has waited means to it
//! that other threads were asked to end), the start of the first process, and the open of a file that the same call has just made.

use core::fmt;

use motet_abi::{
    Errno,
    file::{Device, O_CLOEXEC, Stat, Statfs, W_OK, X_OK},
};
use motet_hal::Machine;
use motet_layout::{FileRecord, InodeRecord, MOUNT_NONE};
use motet_protocol::fs::{Held, Replace};

use super::{node::Node, records::Records, text::PathText};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    file::{
        descriptor::{description::OpenFile, table},
        kinds::metadata::Times,
    },
    permission::FileRights,
};

/// A root that a file system has.
pub struct Root {
    /// [`InodeRecord::mount`] of the directory that it covers.
    pub mount: u32,
    /// What the file system is called (`/proc/filesystems`).
    pub name: &'static str,
    /// The device that its files are on (`st_dev`).
    pub device: Device,
    /// Which file system it is (`f_type`).
    pub magic: i64,
}

/// A file system: its value is one node of it.
///
/// Methods about a name are of the directory that has it. Who calls them has found the name by a look-up, or not, and checked the caller's rights in the
/// directory where nothing else is said.
pub trait FileSystem<'c, M: Machine>: Clone {
    /// The roots that it has.
    const ROOTS: &'static [Root] = &[];
    /// Whether names can be made in it; with what making them fails.
    const NEW_NAMES: Result<(), Errno> = Err(Errno::ENOENT);

    /// The root that covers a directory.
    fn root(_cpu: &'c Cpu<M>, _mount: u32) -> Option<Self> {
        None
    }

    /// The node that an open file was opened from, if that was one of this file system.
    fn of_file(_cpu: &'c Cpu<M>, _file: &OpenFile<'c, M>) -> Option<Self> {
        None
    }

    /// The node that a process refers to by two words, if they are of this file system: the first is an inode's address, or 0.
    fn of_reference(_cpu: &'c Cpu<M>, _words: [u64; 2]) -> Option<Self> {
        None
    }

    /// Two words by which a process can refer to it. An inode's reference goes to them.
    fn into_reference(self, _cpu: &Cpu<M>) -> [u64; 2] {
        [0; 2]
    }

    /// Type and permissions.
    fn mode(&self) -> u32;

    /// [`InodeRecord::mount`] of the directory that its file system's root covers.
    fn mount(&self) -> u32;

    /// [`InodeRecord::mount`], if it is a directory that another root covers.
    fn covered_by(&self) -> u32 {
        MOUNT_NONE
    }

    /// Whether both are the same file.
    fn same(&self, _other: &Self) -> bool {
        false
    }

    /// The inode in the pool that has what it contains.
    fn as_inode(&self) -> Option<&'static InodeRecord> {
        None
    }

    /// Whether those rights allow all of `mask` (`R_OK`, `W_OK`, `X_OK`).
    ///
    /// # Errors
    /// `EACCES`.
    fn check(&self, call: &Call<M>, rights: &FileRights, mask: u32) -> Result<(), Errno>;

    /// What `name` names in this directory.
    ///
    /// # Errors
    /// `ENOTDIR`, `ENAMETOOLONG`.
    fn lookup(&self, _call: &Call<'c, M>, _name: &[u8]) -> Result<Option<Node<'c, M>>, Stop> {
        Err(Errno::ENOTDIR.into())
    }

    /// The directory above this one; `None`: it is its file system's root.
    fn parent(&self, _cpu: &'c Cpu<M>) -> Option<Node<'c, M>> {
        None
    }

    /// Puts its path in front of a text, from `root` on if that is in this file system and above it (`true`), otherwise from its file system's root on.
    ///
    /// # Errors
    /// `ENAMETOOLONG`; `ENOENT`: it has no path.
    fn prepend_path(&self, _call: &Call<'c, M>, _root: &Node<'c, M>, _text: &mut PathText) -> Result<bool, Errno> {
        Err(Errno::ENOENT)
    }

    /// Writes what `/proc/PID/fd` says of it, if that is no path.
    fn write_name(&self, _into: &mut impl fmt::Write) -> Option<fmt::Result> {
        None
    }

    /// Whether those rights allow that a link in this directory is followed at the end of a path.
    ///
    /// # Errors
    /// `EACCES`.
    fn check_follow(&self, _link: &Self, _rights: &FileRights) -> Result<(), Errno> {
        Ok(())
    }

    /// Where this link leads without a path.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`.
    fn follow(&self, _call: &Call<'c, M>) -> Result<Option<Node<'c, M>>, Stop> {
        Ok(None)
    }

    /// Bytes that its text has at most, if it is a symbolic link.
    fn link_room(&self) -> usize {
        0
    }

    /// The text of this symbolic link; returns its length.
    ///
    /// # Errors
    /// `EINVAL`: it is none; `ENAMETOOLONG`: there is no room for it.
    fn link_text(&self, _call: &Call<M>, _into: &mut [u8]) -> Result<usize, Stop> {
        Err(Errno::EINVAL.into())
    }

    /// A call begins to read this directory, which was opened with these flags.
    ///
    /// # Errors
    /// `ENOENT`: it was removed.
    fn begin_list(&self, _call: &Call<M>, _flags: u32) -> Result<(), Errno> {
        Ok(())
    }

    /// Collects this directory's entries from `records.next` on.
    ///
    /// # Errors
    /// `ENOTDIR`.
    fn list(&self, _call: &Call<M>, _records: &mut Records) -> Result<(), Stop> {
        Err(Errno::ENOTDIR.into())
    }

    /// What `stat` says about it.
    ///
    /// # Errors
    /// Those of its medium.
    fn stat(&self, call: &Call<M>) -> Result<Stat, Stop>;

    /// Adds to what `statfs` says what is so of its file system.
    ///
    /// # Errors
    /// Those of its medium.
    fn statfs(&self, _call: &Call<M>, into: &mut Statfs) -> Result<(), Stop> {
        into.f_type = Self::ROOTS.iter().find(|root| root.mount == self.mount()).map_or(0, |root| root.magic);
        Ok(())
    }

    /// Whether it may be opened with these flags by a caller who may read and write it so.
    ///
    /// # Errors
    /// `EPERM`, `EACCES`, `ETXTBSY`.
    fn check_open(&self, _call: &Call<M>, _rights: &FileRights, _flags: u32) -> Result<(), Errno> {
        Ok(())
    }

    /// It is about to be opened with `O_TRUNC`: takes away what it contains, if that can be.
    ///
    /// # Errors
    /// `EACCES`.
    fn clear(&self, _call: &Call<M>) -> Result<(), Stop> {
        Ok(())
    }

    /// An open file of it.
    ///
    /// # Errors
    /// `ENFILE`, and those of what it is.
    fn describe(self, call: &Call<M>, flags: u32) -> Result<&'static FileRecord, Stop>;

    /// Opens it; returns a descriptor.
    ///
    /// # Errors
    /// `EMFILE`, and as [`Self::describe`].
    fn open(self, call: &Call<M>, flags: u32) -> SysResult {
        let record = self.describe(call, flags)?;
        Ok(table::install(call, record, flags & O_CLOEXEC != 0, 0)?)
    }

    /// The inode of which a program that is executed consists. The caller may execute it.
    ///
    /// # Errors
    /// `EACCES`: it is no program; `ETXTBSY`.
    fn executable(self, _call: &Call<M>) -> Result<Held<'c, Cpu<M>>, Stop> {
        Err(Errno::EACCES.into())
    }

    /// Makes a file in this directory that is neither a directory nor a symbolic link; `mode` says of which type.
    ///
    /// # Errors
    /// `EEXIST`, `ENOSPC`.
    fn create(&self, _call: &Call<'c, M>, _name: &[u8], _mode: u32, _device: u32) -> Result<Node<'c, M>, Stop> {
        Err(Errno::EPERM.into())
    }

    /// Makes a regular file without a name (`O_TMPFILE`), which may get one in this file system.
    ///
    /// # Errors
    /// `EOPNOTSUPP`; `ENOTDIR`; `EACCES`.
    fn create_unnamed(&self, _call: &Call<'c, M>, _mode: u32, _may_be_named: bool) -> Result<Node<'c, M>, Stop> {
        Err(Errno::EOPNOTSUPP.into())
    }

    /// Makes a directory in this one.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn mkdir(&self, _call: &Call<M>, _name: &[u8], _mode: u32) -> Result<(), Stop> {
        Err(Errno::EPERM.into())
    }

    /// Makes a symbolic link in this directory.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn symlink(&self, _call: &Call<M>, _name: &[u8], _target: &[u8]) -> Result<(), Stop> {
        Err(Errno::EPERM.into())
    }

    /// Gives a file of this file system one more name, in this directory.
    ///
    /// # Errors
    /// As [`Self::create`]; `EPERM`: that kind of file cannot have several.
    fn link(&self, _node: &Self, _call: &Call<M>, _name: &[u8]) -> Result<(), Stop> {
        Err(Errno::EPERM.into())
    }

    /// Whether the caller may remove or move names of this directory.
    ///
    /// # Errors
    /// `EACCES`; `EPERM`: nobody may.
    fn check_removal(&self, call: &Call<M>) -> Result<(), Errno> {
        self.check(call, &FileRights::of(call.process), W_OK | X_OK)?;
        Err(Errno::EPERM)
    }

    /// Removes a name from this directory: of a directory, or of something else.
    ///
    /// # Errors
    /// `ENOENT`, `EPERM`, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`, `EBUSY`.
    fn remove(&self, _call: &Call<M>, _name: &[u8], _directory: bool) -> Result<(), Stop> {
        Err(Errno::EPERM.into())
    }

    /// Moves a name of this directory to another one of the same file system.
    ///
    /// # Errors
    /// As [`Self::remove`]; `EINVAL`: into itself; `EEXIST`.
    fn rename(
        &self,
        _to: &Self,
        _call: &Call<M>,
        _old_name: &[u8],
        _new_name: &[u8],
        _replace: Replace,
    ) -> Result<(), Stop> {
        Err(Errno::EPERM.into())
    }

    /// Changes its permissions, if the caller may.
    ///
    /// # Errors
    /// `EPERM`.
    fn set_mode(&self, _call: &Call<M>, _mode: u32) -> Result<(), Stop> {
        Err(Errno::EPERM.into())
    }

    /// Changes its owner and group, if the caller may. `FileRights::UNCHANGED`: not that.
    ///
    /// # Errors
    /// `EPERM`.
    fn set_owner(&self, _call: &Call<M>, _uid: u32, _gid: u32) -> Result<(), Stop> {
        Err(Errno::EPERM.into())
    }

    /// Changes its times, if the caller may.
    ///
    /// # Errors
    /// `EPERM`, `EACCES`.
    fn set_times(&self, _call: &Call<M>, _times: Times) -> Result<(), Stop> {
        Err(Errno::EPERM.into())
    }

    /// Cuts or extends it, if the caller may.
    ///
    /// # Errors
    /// `EINVAL`: it has no length; `EISDIR`, `EACCES`, `ETXTBSY`, `EFBIG`.
    fn truncate(&self, _call: &Call<M>, _len: u64) -> Result<(), Stop> {
        Err(Errno::EINVAL.into())
    }
}
