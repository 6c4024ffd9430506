//! By whose rights a process acts: ids, supplementary groups, capabilities (credentials(7), capabilities(7)).
//!
//! Credentials belong to the process, not to its threads: what C libraries do to all threads of a Linux process one call
//! here does. Files give no capabilities, and there are no ambient ones; so only the superuser's programs have any.

use motet_abi::file::{S_ISGID, S_ISUID};
use motet_layout::{
    CREDENTIALS_KEEP_CAPABILITIES, CREDENTIALS_NO_NEW_PRIVILEGES, CREDENTIALS_OPAQUE, Cell32, CredentialsRecord,
    GROUPS_MAX, InodeRecord, ProcessRecord,
};

/// A user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserId(pub u32);

/// A group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupId(pub u32);

/// The superuser.
pub const ROOT: UserId = UserId(0);

/// What the superuser may do and others may not, with Linux's numbers (linux/capability.h). Those that no rule here asks
/// for are kept as bits only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Capability {
    /// Give files to anybody.
    ChangeOwner = 0,
    /// Read, write and search any file.
    OverrideAccess = 1,
    /// Read any file, search any directory.
    ReadSearch = 2,
    /// Do what a file's owner may.
    FileOwner = 3,
    /// Keep set-user-ID and set-group-ID bits.
    FileSetId = 4,
    /// Signal any process.
    Kill = 5,
    /// Take any group.
    SetGroups = 6,
    /// Take any user.
    SetUsers = 7,
    /// Take capabilities from the bounding set.
    SetCapabilities = 8,
    /// Bind the first 1023 ports.
    BindPort = 10,
    /// Send to all.
    Broadcast = 11,
    /// Change interfaces and routes.
    ConfigureNetwork = 12,
    /// Lock memory.
    LockMemory = 14,
    /// Use what others have made for sharing.
    IpcOwner = 15,
    /// Change the root directory.
    ChangeRoot = 18,
    /// Look into any process.
    Inspect = 19,
    /// Take the terminal from another session.
    Administer = 21,
    /// Schedule any process as it likes.
    Schedule = 23,
    /// Raise limits.
    Limits = 24,
    /// Make device nodes.
    MakeNode = 27,
    /// Set timers that wake the machine.
    WakeAlarm = 35,
}

impl Capability {
    const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// Every capability of Linux 6.12.
const ALL: u64 = (1 << 41) - 1;
/// Those that `setfsuid` takes from who is no longer the superuser for files: as above, `CAP_LINUX_IMMUTABLE` and
/// `CAP_MAC_OVERRIDE`.
const OF_FILES: u64 = Capability::ChangeOwner.bit()
    | Capability::OverrideAccess.bit()
    | Capability::ReadSearch.bit()
    | Capability::FileOwner.bit()
    | Capability::FileSetId.bit()
    | Capability::MakeNode.bit()
    | 1 << 9
    | 1 << 32;
/// The highest capability's number.
pub const CAPABILITY_LAST: u64 = 40;

/// The four ids of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ids<T> {
    /// Who started the process.
    pub real: T,
    /// By whose rights it acts.
    pub effective: T,
    /// By whose rights it may act again.
    pub saved: T,
    /// By whose rights it uses files.
    pub file: T,
}

impl<T: Copy + PartialEq> Ids<T> {
    /// Whether one of the first three is `id`.
    pub fn contains(&self, id: T) -> bool {
        self.real == id || self.effective == id || self.saved == id
    }

    /// Whether all of the first three are `id`.
    pub fn all_are_same(&self, id: T) -> bool {
        self.real == id && self.effective == id && self.saved == id
    }
}

/// What calls and programs change: the ids and the capabilities that go with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The user ids.
    pub users: Ids<UserId>,
    /// The group ids.
    pub groups: Ids<GroupId>,
    /// Capabilities in force.
    pub effective: u64,
    /// Those that may be put into force.
    pub permitted: u64,
}

impl Identity {
    /// A process's.
    pub fn of(process: &ProcessRecord) -> Self {
        let record = &process.credentials;
        let load =
            |[real, effective, saved, file]: &[Cell32; 4]| [real.get(), effective.get(), saved.get(), file.get()];
        let [users, groups] = [load(&record.users), load(&record.groups)];
        let ids = |[real, effective, saved, file]: [u32; 4]| Ids { real, effective, saved, file };
        let (users, groups) = (ids(users), ids(groups));
        Self {
            users: users.map(UserId),
            groups: groups.map(GroupId),
            effective: record.effective.get(),
            permitted: record.permitted.get(),
        }
    }

    /// Makes it the process's. Who gets other rights is opaque from then on, and its parent's death tells it nothing, as a
    /// signal may no longer be its parent's to send (`commit_creds` of Linux). The process-tree lock is held.
    pub fn become_of(&self, process: &ProcessRecord) {
        let before = Self::of(process);
        let record = &process.credentials;
        let Ids { real, effective, saved, file } = self.users;
        for (cell, id) in record.users.iter().zip([real, effective, saved, file]) {
            cell.set(id.0);
        }
        let Ids { real, effective, saved, file } = self.groups;
        for (cell, id) in record.groups.iter().zip([real, effective, saved, file]) {
            cell.set(id.0);
        }
        record.effective.set(self.effective);
        record.permitted.set(self.permitted);
        let acts_as = |of: &Self| (of.users.effective, of.users.file, of.groups.effective, of.groups.file);
        if acts_as(&before) != acts_as(self) || self.permitted & !before.permitted != 0 {
            set_flag(process, CREDENTIALS_OPAQUE, true);
            process.death_signal.set(0);
        }
    }

    /// After the user ids have changed: capabilities go with the superuser's ids, and come back into force with the
    /// effective one (capabilities(7), "Effect of user ID changes on capabilities").
    pub fn follow_users(&mut self, before: &Ids<UserId>, keeps_permitted: bool) {
        let had = before.contains(ROOT);
        if had && !self.users.contains(ROOT) && !keeps_permitted {
            (self.permitted, self.effective) = (0, 0);
        }
        match (before.effective == ROOT, self.users.effective == ROOT) {
            (true, false) => self.effective = 0,
            (false, true) => self.effective = self.permitted,
            _ => {}
        }
    }

    /// After the user for files has changed alone (`setfsuid`).
    pub fn follow_file_user(&mut self, before: UserId) {
        match (before == ROOT, self.users.file == ROOT) {
            (true, false) => self.effective &= !OF_FILES,
            (false, true) => self.effective |= self.permitted & OF_FILES,
            _ => {}
        }
    }

    /// What a process has once it has executed `program`, whose set-user-ID and set-group-ID bits count unless it has given
    /// up new rights (execve(2), capabilities(7) "Capabilities and execution of programs by root").
    pub fn after_exec(process: &ProcessRecord, program: &Owned) -> Self {
        let mut identity = Self::of(process);
        let before = identity;
        let record = &process.credentials;
        let mode = program.mode;
        let barred = has_new_privileges_barred(process);
        if mode & S_ISUID != 0 && !barred {
            identity.users.effective = program.user;
        }
        // Without the group's execute bit it means another thing: mandatory locks.
        if mode & (S_ISGID | 0o010) == S_ISGID | 0o010 && !barred {
            identity.groups.effective = program.group;
        }
        let Ids { real, effective, .. } = identity.users;
        let of_root = real == ROOT || effective == ROOT;
        identity.permitted = if of_root { record.bounding.get() | record.inheritable.get() } else { 0 };
        if barred {
            identity.permitted &= before.permitted;
        }
        identity.effective = if effective == ROOT { identity.permitted } else { 0 };
        identity.users = Ids { saved: effective, file: effective, ..identity.users };
        let effective = identity.groups.effective;
        identity.groups = Ids { saved: effective, file: effective, ..identity.groups };
        identity
    }

    /// Whether a program that starts with it must not trust its surroundings (`AT_SECURE`).
    pub fn is_secure(&self) -> bool {
        self.users.effective != self.users.real
            || self.groups.effective != self.groups.real
            || self.users.real != ROOT && self.effective != 0
    }
}

/// Whose a file is, and its mode, as they were at one time.
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    mode: u32,
    user: UserId,
    group: GroupId,
}

impl Owned {
    /// An inode's. Its lock is held, under which owner and mode change together: otherwise a file that is given to the
    /// superuser might be seen with its new owner and the set-user-ID bit of its former one.
    pub fn of(inode: &InodeRecord) -> Self {
        Self { mode: inode.mode.get(), user: UserId(inode.uid.get()), group: GroupId(inode.gid.get()) }
    }
}

impl<T: Copy> Ids<T> {
    fn map<R>(self, make: impl Fn(T) -> R) -> Ids<R> {
        let Self { real, effective, saved, file } = self;
        Ids { real: make(real), effective: make(effective), saved: make(saved), file: make(file) }
    }
}

/// The first process is the superuser's and may everything.
pub fn start_as_superuser(process: &ProcessRecord) {
    let record = &process.credentials;
    for set in [&record.effective, &record.permitted, &record.bounding] {
        set.set(ALL);
    }
}

/// A new program has begun: whether others of its user may look into it, and nothing is kept of how it would give up rights.
/// The process-tree lock is held.
pub fn start_program(process: &ProcessRecord, is_open: bool) {
    set_flag(process, CREDENTIALS_OPAQUE, !is_open);
    set_flag(process, CREDENTIALS_KEEP_CAPABILITIES, false);
}

/// Gives a new process, which nobody else knows yet, its parent's credentials.
pub fn inherit(parent: &ProcessRecord, child: &ProcessRecord) {
    let (from, to) = (&parent.credentials, &child.credentials);
    let CredentialsRecord {
        users,
        groups,
        effective,
        permitted,
        inheritable,
        bounding,
        flags,
        supplementary_count,
        supplementary,
    } = from;
    for (to, from) in [(&to.users, users), (&to.groups, groups)] {
        to.iter().zip(from).for_each(|(to, from)| to.set(from.get()));
    }
    let sets = [(&to.effective, effective), (&to.permitted, permitted), (&to.inheritable, inheritable)];
    for (to, from) in sets.into_iter().chain([(&to.bounding, bounding)]) {
        to.set(from.get());
    }
    to.flags.set(flags.get());
    to.supplementary_count.set(supplementary_count.get());
    let groups = to.supplementary.iter().zip(supplementary).take(supplementary_count.get() as usize);
    groups.for_each(|(to, from)| to.set(from.get()));
}

/// Whether a process has a capability in force.
#[inline]
pub fn has(process: &ProcessRecord, capability: Capability) -> bool {
    process.credentials.effective.get() & capability.bit() != 0
}

/// Whether a set of capabilities has one.
#[inline]
pub fn contains(set: u64, capability: Capability) -> bool {
    set & capability.bit() != 0
}

/// The supplementary groups.
pub fn groups_of(record: &CredentialsRecord) -> &[Cell32] {
    &record.supplementary[..(record.supplementary_count.get() as usize).min(GROUPS_MAX)]
}

/// Whether programs of this process never get more rights than it has (`PR_SET_NO_NEW_PRIVS`).
pub fn has_new_privileges_barred(process: &ProcessRecord) -> bool {
    process.credentials.flags.get() & CREDENTIALS_NO_NEW_PRIVILEGES != 0
}

/// Whether only the privileged may look into a process (Linux: it is not dumpable).
pub fn is_opaque(process: &ProcessRecord) -> bool {
    process.credentials.flags.get() & CREDENTIALS_OPAQUE != 0
}

/// Whether permitted capabilities survive the loss of the superuser's id.
pub fn keeps_capabilities(process: &ProcessRecord) -> bool {
    process.credentials.flags.get() & CREDENTIALS_KEEP_CAPABILITIES != 0
}

/// Sets or clears a flag (`CREDENTIALS_*`). The process-tree lock is held.
pub fn set_flag(process: &ProcessRecord, flag: u32, set: bool) {
    let flags = &process.credentials.flags;
    flags.set(if set { flags.get() | flag } else { flags.get() & !flag });
}
