//! Rules about segments, semaphores and queues of messages (sysvipc(7)). Their lock is held.

use motet_abi::Errno;
use motet_layout::{IpcObject, ProcessRecord};

use super::{
    credentials::{Capability, GroupId, Identity, UserId, has},
    file::FileRights,
};

/// Fails with `EACCES` unless a process may do with an object what `mask` says (bits of a mode, whether of owner, group or others).
pub fn may_use_ipc(process: &ProcessRecord, object: &IpcObject, mask: u32) -> Result<(), Errno> {
    let wanted = mask >> 6 | mask >> 3 | mask;
    let (user, rights) = (Identity::of(process).users.effective, FileRights::of(process));
    let is_own = [&object.uid, &object.cuid].into_iter().any(|id| UserId(id.get()) == user);
    let is_of_group = || [&object.cgid, &object.gid].into_iter().any(|id| rights.is_in(GroupId(id.get())));
    let granted = match object.mode.get() {
        mode if is_own => mode >> 6,
        mode if is_of_group() => mode >> 3,
        mode => mode,
    };
    if wanted & !granted & 7 == 0 || has(process, Capability::IpcOwner) { Ok(()) } else { Err(Errno::EACCES) }
}

/// Fails with `EPERM` unless a process may change or remove an object: its owner, who has made it, and the superuser may.
pub fn may_control_ipc(process: &ProcessRecord, object: &IpcObject) -> Result<(), Errno> {
    if owns_ipc(process, object) || has(process, Capability::Administer) { Ok(()) } else { Err(Errno::EPERM) }
}

/// Whether a process acts by the rights of an object's owner, or of who has made it.
pub fn owns_ipc(process: &ProcessRecord, object: &IpcObject) -> bool {
    let user = Identity::of(process).users.effective;
    [&object.uid, &object.cuid].into_iter().any(|id| UserId(id.get()) == user)
}
