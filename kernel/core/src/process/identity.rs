//! System calls that read and change credentials.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{
    CREDENTIALS_KEEP_CAPABILITIES, CREDENTIALS_NO_NEW_PRIVILEGES, CREDENTIALS_OPAQUE, GROUPS_MAX, ProcessRecord,
};

use crate::permission::{
    CAPABILITY_LAST, Capability, GroupId, Identity, Ids, UserId, contains, groups_of, has, has_new_privileges_barred,
    is_opaque, keeps_capabilities, set_flag,
};
use crate::{
    call::{Call, Stop, SysResult},
    tree::{lock_tree, lookup, users},
};

/// An id that a call leaves as it is.
const UNCHANGED: u32 = u32::MAX;

/// Versions of `capget`'s structures (linux/capability.h): the first has one word for each set, the others two.
const CAPABILITY_VERSION_1: u32 = 0x1998_0330;
const CAPABILITY_VERSION_2: u32 = 0x2007_1026;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

// linux/prctl.h
const PR_GET_DUMPABLE: u64 = 3;
const PR_SET_DUMPABLE: u64 = 4;
const PR_GET_KEEPCAPS: u64 = 7;
const PR_SET_KEEPCAPS: u64 = 8;
const PR_CAPBSET_READ: u64 = 23;
const PR_CAPBSET_DROP: u64 = 24;
const PR_GET_SECUREBITS: u64 = 27;
const PR_SET_NO_NEW_PRIVS: u64 = 38;
const PR_GET_NO_NEW_PRIVS: u64 = 39;
const PR_CAP_AMBIENT: u64 = 47;
const PR_CAP_AMBIENT_IS_SET: u64 = 1;
const PR_CAP_AMBIENT_RAISE: u64 = 2;
const PR_CAP_AMBIENT_LOWER: u64 = 3;
const PR_CAP_AMBIENT_CLEAR_ALL: u64 = 4;

/// `getuid()`.
pub fn getuid<M: Machine>(call: &Call<M>) -> SysResult {
    Ok(u64::from(call.process.credentials.users[0].get()))
}

/// `geteuid()`.
pub fn geteuid<M: Machine>(call: &Call<M>) -> SysResult {
    Ok(u64::from(call.process.credentials.users[1].get()))
}

/// `getgid()`.
pub fn getgid<M: Machine>(call: &Call<M>) -> SysResult {
    Ok(u64::from(call.process.credentials.groups[0].get()))
}

/// `getegid()`.
pub fn getegid<M: Machine>(call: &Call<M>) -> SysResult {
    Ok(u64::from(call.process.credentials.groups[1].get()))
}

/// `getresuid(real, effective, saved)`.
pub fn getresuid<M: Machine>(call: &Call<M>) -> SysResult {
    let Ids { real, effective, saved, .. } = Identity::of(call.process).users;
    write_three(call, [real.0, effective.0, saved.0])
}

/// `getresgid(real, effective, saved)`.
pub fn getresgid<M: Machine>(call: &Call<M>) -> SysResult {
    let Ids { real, effective, saved, .. } = Identity::of(call.process).groups;
    write_three(call, [real.0, effective.0, saved.0])
}

/// `setuid(uid)`: all ids of the privileged, the effective one of others.
pub fn setuid<M: Machine>(call: &Call<M>) -> SysResult {
    let id = named(call.args[0], UserId)?;
    change_users(call, |users, privileged| set_one(users, id, privileged))
}

/// `setgid(gid)`.
pub fn setgid<M: Machine>(call: &Call<M>) -> SysResult {
    let id = named(call.args[0], GroupId)?;
    change_groups(call, |groups, privileged| set_one(groups, id, privileged))
}

/// `setreuid(real, effective)`.
pub fn setreuid<M: Machine>(call: &Call<M>) -> SysResult {
    let ids = [0, 1].map(|index| given(call.args[index], UserId));
    change_users(call, |users, privileged| set_two(users, ids, privileged))
}

/// `setregid(real, effective)`.
pub fn setregid<M: Machine>(call: &Call<M>) -> SysResult {
    let ids = [0, 1].map(|index| given(call.args[index], GroupId));
    change_groups(call, |groups, privileged| set_two(groups, ids, privileged))
}

/// `setresuid(real, effective, saved)`.
pub fn setresuid<M: Machine>(call: &Call<M>) -> SysResult {
    let ids = [0, 1, 2].map(|index| given(call.args[index], UserId));
    change_users(call, |users, privileged| set_three(users, ids, privileged))
}

/// `setresgid(real, effective, saved)`.
pub fn setresgid<M: Machine>(call: &Call<M>) -> SysResult {
    let ids = [0, 1, 2].map(|index| given(call.args[index], GroupId));
    change_groups(call, |groups, privileged| set_three(groups, ids, privileged))
}

/// `setfsuid(uid)`: the id before, whether it was changed or not.
pub fn setfsuid<M: Machine>(call: &Call<M>) -> SysResult {
    let _tree = lock_tree(call.cpu);
    let mut identity = Identity::of(call.process);
    let before = identity.users.file;
    let may = |id| identity.users.contains(id) || contains(identity.effective, Capability::SetUsers);
    if let Some(id) = given(call.args[0], UserId).filter(|&id| may(id)) {
        identity.users.file = id;
        identity.follow_file_user(before);
        identity.become_of(call.process);
    }
    Ok(u64::from(before.0))
}

/// `setfsgid(gid)`: the id before, whether it was changed or not.
pub fn setfsgid<M: Machine>(call: &Call<M>) -> SysResult {
    let _tree = lock_tree(call.cpu);
    let mut identity = Identity::of(call.process);
    let before = identity.groups.file;
    let may = |id| identity.groups.contains(id) || contains(identity.effective, Capability::SetGroups);
    if let Some(id) = given(call.args[0], GroupId).filter(|&id| may(id)) {
        identity.groups.file = id;
        identity.become_of(call.process);
    }
    Ok(u64::from(before.0))
}

/// `getgroups(size, list)`.
pub fn getgroups<M: Machine>(call: &Call<M>) -> SysResult {
    let [size, list, ..] = call.args;
    let groups = groups_of(&call.process.credentials);
    let size = usize::try_from(size as i32).map_err(|_| Errno::EINVAL)?;
    if size != 0 {
        if size < groups.len() {
            return Err(Errno::EINVAL.into());
        }
        let mut bytes = [0; 4 * GROUPS_MAX];
        for (bytes, group) in bytes.chunks_exact_mut(4).zip(groups) {
            bytes.copy_from_slice(&group.get().to_le_bytes());
        }
        call.write_user(list, &bytes[..4 * groups.len()])?;
    }
    Ok(groups.len() as u64)
}

/// `setgroups(size, list)`.
///
/// # Errors
/// `EPERM`; `EINVAL`: more than [`GROUPS_MAX`], or -1 among them; `EFAULT`.
pub fn setgroups<M: Machine>(call: &Call<M>) -> SysResult {
    let [size, list, ..] = call.args;
    if !has(call.process, Capability::SetGroups) {
        return Err(Errno::EPERM.into());
    }
    let size = usize::try_from(size as i32).ok().filter(|&size| size <= GROUPS_MAX).ok_or(Errno::EINVAL)?;
    let mut bytes = [0; 4 * GROUPS_MAX];
    call.read_user(list, &mut bytes[..4 * size])?;
    let mut groups = [0; GROUPS_MAX];
    for (group, bytes) in groups.iter_mut().zip(bytes.chunks_exact(4)) {
        *group = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let groups = &mut groups[..size];
    if groups.contains(&UNCHANGED) {
        return Err(Errno::EINVAL.into());
    }
    groups.sort_unstable();
    let _tree = lock_tree(call.cpu);
    let record = &call.process.credentials;
    record.supplementary_count.set(0);
    for (cell, group) in record.supplementary.iter().zip(&*groups) {
        cell.set(*group);
    }
    record.supplementary_count.set(size as u32);
    Ok(0)
}

/// `capget(header, data)`.
pub fn capget<M: Machine>(call: &Call<M>) -> SysResult {
    let [header, data, ..] = call.args;
    let words = match capability_words(call, header) {
        // Without data the call asks for the version.
        Err(Stop::Error(Errno::EINVAL)) if data == 0 => return Ok(0),
        words => words?,
    };
    let pid = call.read_user_u32(header.wrapping_add(4))?.cast_signed();
    let sets = {
        let _tree = lock_tree(call.cpu);
        let process = match pid {
            0 => call.process,
            pid => lookup(call.cpu, u32::try_from(pid).map_err(|_| Errno::EINVAL)?).ok_or(Errno::ESRCH)?,
        };
        let record = &process.credentials;
        [record.effective.get(), record.permitted.get(), record.inheritable.get()]
    };
    if data != 0 {
        let mut bytes = [0; 24];
        for (index, bytes) in bytes.chunks_exact_mut(4).enumerate() {
            bytes.copy_from_slice(&((sets[index % 3] >> (32 * (index / 3))) as u32).to_le_bytes());
        }
        call.write_user(data, &bytes[..12 * words])?;
    }
    Ok(0)
}

/// `capset(header, data)`: of the calling process.
///
/// # Errors
/// `EPERM`: more than is permitted, or another process; `EINVAL`, `EFAULT`.
pub fn capset<M: Machine>(call: &Call<M>) -> SysResult {
    let [header, data, ..] = call.args;
    let words = capability_words(call, header)?;
    let pid = call.read_user_u32(header.wrapping_add(4))?;
    if pid != 0 && pid != call.process.pid.get() {
        return Err(Errno::EPERM.into());
    }
    let mut bytes = [0; 24];
    call.read_user(data, &mut bytes[..12 * words])?;
    let mut sets = [0u64; 3];
    for (index, bytes) in bytes.chunks_exact(4).enumerate() {
        sets[index % 3] |=
            u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])) << (32 * (index / 3));
    }
    let [effective, permitted, inheritable] = sets;
    let _tree = lock_tree(call.cpu);
    let record = &call.process.credentials;
    let (old, old_inheritable) = (Identity::of(call.process), record.inheritable.get());
    let may_inherit = if has(call.process, Capability::SetCapabilities) { u64::MAX } else { old.permitted };
    let goes_beyond = inheritable & !(old_inheritable | may_inherit & (record.bounding.get() | old.permitted)) != 0
        || inheritable & !(old_inheritable | record.bounding.get()) != 0
        || permitted & !old.permitted != 0
        || effective & !permitted != 0;
    if goes_beyond {
        return Err(Errno::EPERM.into());
    }
    Identity { effective, permitted, ..old }.become_of(call.process);
    record.inheritable.set(inheritable);
    Ok(0)
}

/// The options of `prctl` that concern rights.
pub fn prctl<M: Machine>(call: &Call<M>) -> SysResult {
    let [option, argument, rest @ ..] = call.args;
    let process = call.process;
    let _tree = lock_tree(call.cpu);
    let switch = |flag: u32, is_set: bool| {
        if argument > 1 {
            return Err(Errno::EINVAL.into());
        }
        set_flag(process, flag, is_set);
        Ok(0)
    };
    match option {
        PR_GET_DUMPABLE => Ok(u64::from(!is_opaque(process))),
        PR_SET_DUMPABLE => switch(CREDENTIALS_OPAQUE, argument == 0),
        PR_GET_KEEPCAPS => Ok(u64::from(keeps_capabilities(process))),
        PR_SET_KEEPCAPS => switch(CREDENTIALS_KEEP_CAPABILITIES, argument == 1),
        PR_GET_SECUREBITS => Ok(0),
        PR_CAPBSET_READ | PR_CAPBSET_DROP if argument > CAPABILITY_LAST => Err(Errno::EINVAL.into()),
        PR_CAPBSET_READ => Ok(process.credentials.bounding.get() >> argument & 1),
        PR_CAPBSET_DROP if !has(process, Capability::SetCapabilities) => Err(Errno::EPERM.into()),
        PR_CAPBSET_DROP => {
            let bounding = &process.credentials.bounding;
            bounding.set(bounding.get() & !(1 << argument));
            Ok(0)
        }
        PR_SET_NO_NEW_PRIVS if argument == 1 && rest[..3] == [0; 3] => switch(CREDENTIALS_NO_NEW_PRIVILEGES, true),
        PR_GET_NO_NEW_PRIVS if argument == 0 && rest[..3] == [0; 3] => {
            Ok(u64::from(has_new_privileges_barred(process)))
        }
        PR_CAP_AMBIENT => change_ambient(argument, rest[..3].try_into().unwrap_or([0; 3])),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// There are no ambient capabilities: none is set, none can be.
fn change_ambient(how: u64, [capability, rest @ ..]: [u64; 3]) -> SysResult {
    let is_valid =
        rest == [0; 2] && if how == PR_CAP_AMBIENT_CLEAR_ALL { capability == 0 } else { capability <= CAPABILITY_LAST };
    match how {
        _ if !is_valid => Err(Errno::EINVAL.into()),
        PR_CAP_AMBIENT_IS_SET | PR_CAP_AMBIENT_LOWER | PR_CAP_AMBIENT_CLEAR_ALL => Ok(0),
        PR_CAP_AMBIENT_RAISE => Err(Errno::EPERM.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// The words of each set in a structure of the version in `header`; writes the version that there is into any other.
fn capability_words<M: Machine>(call: &Call<M>, header: u64) -> Result<usize, Stop> {
    match call.read_user_u32(header)? {
        CAPABILITY_VERSION_1 => Ok(1),
        CAPABILITY_VERSION_2 | CAPABILITY_VERSION_3 => Ok(2),
        _ => {
            call.write_user(header, &CAPABILITY_VERSION_3.to_le_bytes())?;
            Err(Errno::EINVAL.into())
        }
    }
}

/// An id given to a call, `None` for -1.
fn given<T>(raw: u64, make: impl Fn(u32) -> T) -> Option<T> {
    Some(raw as u32).filter(|&raw| raw != UNCHANGED).map(make)
}

fn named<T>(raw: u64, make: impl Fn(u32) -> T) -> Result<T, Errno> {
    given(raw, make).ok_or(Errno::EINVAL)
}

fn change_users<M: Machine>(
    call: &Call<M>,
    change: impl FnOnce(Ids<UserId>, bool) -> Result<Ids<UserId>, Errno>,
) -> SysResult {
    change_identity(call, |identity, process| {
        let before = identity.users;
        identity.users = change(before, contains(identity.effective, Capability::SetUsers))?;
        identity.follow_users(&before, keeps_capabilities(process));
        Ok(())
    })
}

fn change_groups<M: Machine>(
    call: &Call<M>,
    change: impl FnOnce(Ids<GroupId>, bool) -> Result<Ids<GroupId>, Errno>,
) -> SysResult {
    change_identity(call, |identity, _| {
        identity.groups = change(identity.groups, contains(identity.effective, Capability::SetGroups))?;
        Ok(())
    })
}

fn change_identity<M: Machine>(
    call: &Call<M>,
    change: impl FnOnce(&mut Identity, &ProcessRecord) -> Result<(), Errno>,
) -> SysResult {
    let _tree = lock_tree(call.cpu);
    let mut identity = Identity::of(call.process);
    change(&mut identity, call.process)?;
    identity.become_of(call.process);
    users::follow(call.cpu, call.process);
    Ok(0)
}

/// What `setuid` and `setgid` make of ids.
fn set_one<T: Copy + PartialEq>(ids: Ids<T>, id: T, privileged: bool) -> Result<Ids<T>, Errno> {
    if privileged {
        return Ok(Ids { real: id, effective: id, saved: id, file: id });
    }
    if id != ids.real && id != ids.saved {
        return Err(Errno::EPERM);
    }
    Ok(Ids { effective: id, file: id, ..ids })
}

/// What `setreuid` and `setregid` make of ids.
fn set_two<T: Copy + PartialEq>(ids: Ids<T>, to: [Option<T>; 2], privileged: bool) -> Result<Ids<T>, Errno> {
    let [real, effective] = to;
    let may_real = real.is_none_or(|real| real == ids.real || real == ids.effective);
    let may_effective = effective.is_none_or(|effective| ids.contains(effective));
    if !(privileged || may_real && may_effective) {
        return Err(Errno::EPERM);
    }
    let new = effective.unwrap_or(ids.effective);
    let saves = real.is_some() || effective.is_some_and(|effective| effective != ids.real);
    Ok(Ids { real: real.unwrap_or(ids.real), effective: new, saved: if saves { new } else { ids.saved }, file: new })
}

/// What `setresuid` and `setresgid` make of ids.
fn set_three<T: Copy + PartialEq>(ids: Ids<T>, to: [Option<T>; 3], privileged: bool) -> Result<Ids<T>, Errno> {
    if !privileged && to.into_iter().flatten().any(|id| !ids.contains(id)) {
        return Err(Errno::EPERM);
    }
    let [real, effective, saved] = to;
    let effective = effective.unwrap_or(ids.effective);
    Ok(Ids { real: real.unwrap_or(ids.real), effective, saved: saved.unwrap_or(ids.saved), file: effective })
}

fn write_three<M: Machine>(call: &Call<M>, ids: [u32; 3]) -> SysResult {
    for (id, at) in ids.into_iter().zip(call.args) {
        call.write_user(at, &id.to_le_bytes())?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::ROOT;

    const ALL_ROOT: Ids<UserId> = Ids { real: ROOT, effective: ROOT, saved: ROOT, file: ROOT };
    const USER: UserId = UserId(1000);
    const OF_USER: Ids<UserId> = Ids { real: USER, effective: USER, saved: USER, file: USER };

    /// setuid(2): the superuser gives all ids up for good, another one only goes between its real and its saved one.
    #[test]
    fn setuid_takes_all_ids_of_the_privileged_only() {
        assert_eq!(set_one(ALL_ROOT, USER, true), Ok(OF_USER));
        assert_eq!(set_one(OF_USER, ROOT, false), Err(Errno::EPERM));
        let set_id = Ids { effective: ROOT, saved: ROOT, file: ROOT, ..OF_USER };
        let given_up = Ids { effective: USER, file: USER, ..set_id };
        assert_eq!(set_one(set_id, USER, false), Ok(given_up));
        assert_eq!(set_one(given_up, ROOT, false), Ok(set_id));
    }

    /// setreuid(2): the saved id follows when the real one is set, or the effective one to what the real one was not.
    #[test]
    fn setreuid_saves_the_effective_id() {
        let set_id = Ids { effective: ROOT, saved: ROOT, file: ROOT, ..OF_USER };
        assert_eq!(set_two(set_id, [None, Some(USER)], false), Ok(Ids { effective: USER, file: USER, ..set_id }));
        let swapped = Ids { real: ROOT, effective: USER, saved: USER, file: USER };
        assert_eq!(set_two(set_id, [Some(ROOT), Some(USER)], false), Ok(swapped));
        assert_eq!(set_two(OF_USER, [Some(ROOT), None], false), Err(Errno::EPERM));
        assert_eq!(set_two(set_id, [Some(UserId(7)), None], false), Err(Errno::EPERM));
    }

    /// capabilities(7), "Effect of user ID changes on capabilities".
    #[test]
    fn capabilities_go_with_the_superusers_ids() {
        let groups = Ids { real: GroupId(0), effective: GroupId(0), saved: GroupId(0), file: GroupId(0) };
        let root = Identity { users: ALL_ROOT, groups, effective: 0xff, permitted: 0xff };
        let after = |users, keeps| {
            let mut identity = Identity { users, ..root };
            identity.follow_users(&ALL_ROOT, keeps);
            (identity.effective, identity.permitted)
        };
        assert_eq!(after(OF_USER, false), (0, 0));
        assert_eq!(after(OF_USER, true), (0, 0xff));
        assert_eq!(after(Ids { saved: ROOT, ..OF_USER }, false), (0, 0xff));
        let mut back = Identity { effective: 0, ..root };
        back.follow_users(&Ids { saved: ROOT, ..OF_USER }, false);
        assert_eq!(back.effective, 0xff);
        let mut files = Identity { users: Ids { file: USER, ..ALL_ROOT }, ..root };
        files.follow_file_user(ROOT);
        // `CAP_KILL`, `CAP_SETGID` and `CAP_SETUID` have nothing to do with files.
        assert_eq!(files.effective, 0xe0);
    }
}
