//! Rules about files (path_resolution(7), chmod(2), chown(2), link(2), unlink(2), utimensat(2)).

use motet_abi::{Errno, file::*};
use motet_layout::{CredentialsRecord, InodeRecord, ProcessRecord};
use motet_protocol::fs;

use super::credentials::{Capability, GroupId, UserId, contains, groups_of};

/// A mode's bits that give a program its file's user or group.
const SET_ID: u32 = S_ISUID | S_ISGID;
/// Set-group-ID and the group's execute bit: only together they concern programs.
const SET_GROUP: u32 = S_ISGID | 0o010;

/// By whose rights files are used.
#[derive(Clone, Copy)]
pub struct FileRights<'a> {
    user: UserId,
    group: GroupId,
    capabilities: u64,
    record: &'a CredentialsRecord,
}

impl<'a> FileRights<'a> {
    /// An id that `chown` leaves as it is.
    pub const UNCHANGED: u32 = u32::MAX;

    /// Those that a process acts by.
    #[inline]
    pub fn of(process: &'a ProcessRecord) -> Self {
        let record = &process.credentials;
        let (user, group) = (UserId(record.users[3].get()), GroupId(record.groups[3].get()));
        Self { user, group, capabilities: record.effective.get(), record }
    }

    /// Those of who started the process, by which `access` decides. The superuser's are all that are permitted.
    pub fn of_real(process: &'a ProcessRecord) -> Self {
        let record = &process.credentials;
        let (user, group) = (UserId(record.users[0].get()), GroupId(record.groups[0].get()));
        let capabilities = if user == super::credentials::ROOT { record.permitted.get() } else { 0 };
        Self { user, group, capabilities, record }
    }

    /// The owner of new files and what is connected to.
    pub fn owner(&self) -> (UserId, GroupId) {
        (self.user, self.group)
    }

    /// Whether a capability is in force.
    #[inline]
    pub fn has(&self, capability: Capability) -> bool {
        contains(self.capabilities, capability)
    }

    /// Fails with `EACCES` unless all of `mask` (`R_OK`, `W_OK`, `X_OK`) may be done with the inode.
    #[inline]
    pub fn check(&self, inode: &InodeRecord, mask: u32) -> Result<(), Errno> {
        self.check_mode(inode.mode.get(), inode.uid.get(), inode.gid.get(), mask)
    }

    /// As [`Self::check`], for a file of that mode and owner.
    #[inline]
    pub fn check_mode(&self, mode: u32, uid: u32, gid: u32, mask: u32) -> Result<(), Errno> {
        let granted = if self.user.0 == uid {
            mode >> 6
        } else if (mode ^ mode >> 3) & 7 != 0 && self.is_in(GroupId(gid)) {
            mode >> 3
        } else {
            mode
        };
        if mask & !granted & 7 == 0 { Ok(()) } else { self.override_access(mode, mask) }
    }

    /// What the mode does not grant capabilities may: all of directories, and of files reading and writing, but executing
    /// only what anybody may execute.
    #[cold]
    fn override_access(&self, mode: u32, mask: u32) -> Result<(), Errno> {
        let is_directory = mode & S_IFMT == S_IFDIR;
        let overrides = self.has(Capability::OverrideAccess) && (mask & X_OK == 0 || is_directory || mode & 0o111 != 0);
        let harmless = if is_directory { R_OK | X_OK } else { R_OK };
        let reads = self.has(Capability::ReadSearch) && mask & !harmless & 7 == 0;
        if overrides || reads { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Whether these are the rights of the file's owner.
    pub fn owns(&self, inode: &InodeRecord) -> bool {
        self.owns_as(inode.uid.get())
    }

    /// The same, of a file of that user.
    pub fn owns_as(&self, uid: u32) -> bool {
        self.user.0 == uid || self.has(Capability::FileOwner)
    }

    /// Whether the group is one of theirs.
    pub fn is_in(&self, group: GroupId) -> bool {
        self.group == group || groups_of(self.record).iter().any(|own| own.get() == group.0)
    }

    /// Owner, group and mode of a new file in `dir`: the group is the directory's if that has the set-group-ID bit, which
    /// new directories inherit.
    pub fn of_new_file(&self, dir: &InodeRecord, mode: u32) -> (u32, u32, u32) {
        let inherits = dir.mode.get() & S_ISGID != 0;
        let gid = if inherits { dir.gid.get() } else { self.group.0 };
        let mode = match mode & S_IFMT {
            S_IFDIR if inherits => mode | S_ISGID,
            S_IFDIR => mode,
            _ if inherits && mode & SET_GROUP == SET_GROUP => self.without_foreign_group(mode, GroupId(gid)),
            _ => mode,
        };
        (self.user.0, gid, mode)
    }

    /// A mode of a file of that group: nobody makes programs that act by the rights of a group that he is not in.
    pub fn without_foreign_group(&self, mode: u32, group: GroupId) -> u32 {
        if self.is_in(group) || self.has(Capability::FileSetId) { mode } else { mode & !S_ISGID }
    }

    /// Fails with `EPERM` unless a name of `inode` may be taken out of `dir`: in a sticky directory only the owner of the
    /// file or of the directory may.
    pub fn may_remove(&self, dir: &InodeRecord, inode: &InodeRecord) -> Result<(), Errno> {
        let own = |inode: &InodeRecord| inode.uid.get() == self.user.0;
        let is_free = dir.mode.get() & S_ISVTX == 0 || own(inode) || own(dir) || self.has(Capability::FileOwner);
        if is_free { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Fails unless `inode` may be moved from `from` to `to` (the same, or another directory): as [`Self::may_remove`], and
    /// a directory whose ".." changes must be writable.
    pub fn may_move(&self, from: &InodeRecord, to: &InodeRecord, inode: &InodeRecord) -> Result<(), Errno> {
        self.may_remove(from, inode)?;
        if fs::is_directory(inode) && !core::ptr::eq(from, to) { self.check(inode, W_OK) } else { Ok(()) }
    }

    /// Fails with `EPERM` unless the file may be given one more name: its owner may, and who may read and write it, if it is
    /// an ordinary file that gives programs no rights (`fs.protected_hardlinks` of proc(5)).
    pub fn may_link(&self, inode: &InodeRecord) -> Result<(), Errno> {
        let mode = inode.mode.get();
        let is_harmless = mode & S_IFMT == S_IFREG && mode & S_ISUID == 0 && mode & SET_GROUP != SET_GROUP;
        if self.owns(inode) || is_harmless && self.check(inode, R_OK | W_OK).is_ok() {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// Fails with `EACCES` unless a symbolic link in `dir` may be followed: in a sticky directory that everybody may write,
    /// only one's own links and those of the directory's owner (`fs.protected_symlinks` of proc(5)).
    pub fn may_follow(&self, dir: &InodeRecord, link: &InodeRecord) -> Result<(), Errno> {
        let is_shared = dir.mode.get() & (S_ISVTX | 0o002) == S_ISVTX | 0o002;
        let owner = link.uid.get();
        if !is_shared || owner == self.user.0 || owner == dir.uid.get() { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Fails with `EPERM` unless owner and group may become these (`u32::MAX`: as before). Where that takes set-ID bits away,
    /// it changes the mode, too, which only the owner may: also with both ids as before.
    pub fn may_give(&self, inode: &InodeRecord, uid: u32, gid: u32) -> Result<(), Errno> {
        let gives = self.gives([inode.uid.get(), inode.gid.get()], [uid, gid]);
        let keeps_mode = self.mode_given(inode) == inode.mode.get() || self.owns(inode);
        if gives && keeps_mode { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Whether a file's owner and group may become these.
    pub fn gives(&self, [owner, group]: [u32; 2], [uid, gid]: [u32; 2]) -> bool {
        let is_owner = self.user.0 == owner;
        let keeps_user = uid == Self::UNCHANGED || is_owner && uid == owner;
        let keeps_group = gid == Self::UNCHANGED || is_owner && (gid == group || self.is_in(GroupId(gid)));
        keeps_user && keeps_group || self.has(Capability::ChangeOwner)
    }

    /// The mode of a file whose owner changes.
    pub fn mode_given(&self, inode: &InodeRecord) -> u32 {
        let mode = inode.mode.get();
        if mode & S_IFMT == S_IFDIR { mode } else { self.without_set_id(mode & !S_ISUID, inode) }
    }

    /// What becomes of a file's mode when it is written or cut: it no longer gives programs its owner's rights, unless it is
    /// written by who may keep them.
    #[cold]
    pub fn mode_written(&self, inode: &InodeRecord) -> u32 {
        let mode = inode.mode.get();
        if self.has(Capability::FileSetId) { mode } else { self.without_set_id(mode & !S_ISUID, inode) }
    }

    fn without_set_id(&self, mode: u32, inode: &InodeRecord) -> u32 {
        if mode & SET_GROUP == SET_GROUP {
            mode & !S_ISGID
        } else {
            self.without_foreign_group(mode, GroupId(inode.gid.get()))
        }
    }
}

/// Whether a regular file has bits that go when it is written ([`FileRights::mode_written`]).
#[inline(always)]
pub fn loses_privileges(inode: &InodeRecord) -> bool {
    inode.mode.get() & SET_ID != 0
}
