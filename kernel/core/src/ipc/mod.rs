//! System V IPC (sysvipc(7)): calls about segments of shared memory, semaphores, and queues of messages. What they are, and who has which, is in
//! [`motet_protocol::ipc`].
//!
//! A call holds the lock from when it has found an object until it has changed it, or is in its wait queue. It copies user memory without the lock.

mod message;
mod segment;
mod semaphore;
mod show;

pub use message::{copy_message, free_message, msgctl, msgget, msgrcv, msgsnd};
pub use segment::{shmat, shmctl, shmdt, shmget};
pub use semaphore::{semctl, semget, semop, semtimedop};
pub use show::{Limit, limit, next, title};

use motet_abi::{
    Errno,
    ipc::{IPC_CREAT, IPC_EXCL, IpcPerm, S_IRWXUGO},
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::{IpcObject, ProcessRecord, WaitQueue};
use motet_protocol::{
    Context,
    ipc::{self, Kind, Maker},
    lock::Guard,
    wait,
};

use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    permission::{self, Capability, Identity, may_control_ipc, may_use_ipc},
};

const NS_PER_SECOND: u64 = 1_000_000_000;
/// A user or group that is none.
const NOBODY: u32 = u32::MAX;

fn now_s<M: Machine>(cpu: &Cpu<M>) -> u64 {
    cpu.realtime_ns() / NS_PER_SECOND
}

/// By whose rights the caller makes something.
pub fn maker<M: Machine>(call: &Call<M>) -> Maker {
    let identity = Identity::of(call.process);
    Maker {
        uid: identity.users.effective.0,
        gid: identity.groups.effective.0,
        pid: call.process.pid.get(),
        is_privileged: permission::has(call.process, Capability::Limits),
        now_s: now_s(call.cpu),
    }
}

/// The id of what has a key, which `check` finds suitable, or of what `make` makes with that key (0: none) and mode.
fn get<M: Machine>(
    call: &Call<M>,
    kind: Kind,
    (key, flags): (u32, u32),
    check: impl FnOnce(&'static IpcObject) -> Result<(), Errno>,
    make: impl FnOnce(u32, u32) -> Result<&'static IpcObject, Errno>,
) -> SysResult {
    let _guard = ipc::lock_all(call.cpu);
    let mode = flags & S_IRWXUGO;
    let found = if key == 0 { None } else { ipc::find_key(call.cpu, kind, key) };
    let object = match found {
        Some(_) if flags & (IPC_CREAT | IPC_EXCL) == IPC_CREAT | IPC_EXCL => return Err(Errno::EEXIST.into()),
        Some(object) => {
            check(object)?;
            may_use_ipc(call.process, object, mode)?;
            object
        }
        None if key != 0 && flags & IPC_CREAT == 0 => return Err(Errno::ENOENT.into()),
        None => make(key, mode)?,
    };
    Ok(u64::from(object.id.get()))
}

/// Takes the lock, and finds what has an id.
fn find<M: Machine>(call: &Call<M>, kind: Kind, id: u64) -> Result<(Guard<'static>, &'static IpcObject), Errno> {
    let guard = ipc::lock_all(call.cpu);
    // Who has waited for something of it had found it.
    let gone = if call.has_waited() { Errno::EIDRM } else { Errno::EINVAL };
    Ok((guard, ipc::find(call.cpu, kind, id as u32).ok_or(gone)?))
}

/// Takes the lock, and finds what has an id and may be used so.
fn find_usable<M: Machine>(
    call: &Call<M>,
    kind: Kind,
    id: u64,
    mask: u32,
) -> Result<(Guard<'static>, &'static IpcObject), Errno> {
    let (guard, object) = find(call, kind, id)?;
    may_use_ipc(call.process, object, mask)?;
    Ok((guard, object))
}

/// The same of what the caller may change and remove.
fn find_own<M: Machine>(call: &Call<M>, kind: Kind, id: u64) -> Result<(Guard<'static>, &'static IpcObject), Errno> {
    let (guard, object) = find(call, kind, id)?;
    may_control_ipc(call.process, object)?;
    Ok((guard, object))
}

/// How an object to be told of is found, and what the call returns then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// By its id; 0.
    ById,
    /// By its place; its id.
    ByPlace,
    /// The same, whatever the permissions.
    Any,
}

/// Takes the lock, and finds what the caller wants to be told of; what the call returns.
fn find_told<M: Machine>(
    call: &Call<M>,
    kind: Kind,
    number: u64,
    how: Told,
) -> Result<(Guard<'static>, &'static IpcObject, u64), Errno> {
    let (guard, object) = match how {
        Told::ById => find(call, kind, number)?,
        Told::ByPlace | Told::Any => {
            let guard = ipc::lock_all(call.cpu);
            (guard, ipc::at(call.cpu, kind, number as u32).ok_or(Errno::EINVAL)?)
        }
    };
    if how != Told::Any {
        may_use_ipc(call.process, object, motet_abi::ipc::S_IRUGO)?;
    }
    let result = if how == Told::ById { 0 } else { u64::from(object.id.get()) };
    Ok((guard, object, result))
}

/// Whose an object is, as programs are told.
fn perm_of(object: &IpcObject) -> IpcPerm {
    IpcPerm {
        key: object.key.get(),
        uid: object.uid.get(),
        gid: object.gid.get(),
        cuid: object.cuid.get(),
        cgid: object.cgid.get(),
        mode: object.mode.get(),
        seq: (object.id.get() >> 15) as u16,
    }
}

/// Reads whose an object is to be: the first bytes of a `struct *id_ds`.
fn read_perm<M: Machine>(call: &Call<M>, address: u64) -> Result<IpcPerm, Stop> {
    let mut bytes = [0; IpcPerm::SIZE];
    call.read_user(address, &mut bytes)?;
    Ok(IpcPerm::take(&bytes))
}

/// Gives an object another owner and mode (`IPC_SET`).
fn set_perm(object: &IpcObject, perm: &IpcPerm, now_s: u64) -> Result<(), Errno> {
    if perm.uid == NOBODY || perm.gid == NOBODY {
        return Err(Errno::EINVAL);
    }
    object.uid.set(perm.uid);
    object.gid.set(perm.gid);
    object.mode.set(object.mode.get() & !S_IRWXUGO | perm.mode & S_IRWXUGO);
    object.changed_s.set(now_s);
    Ok(())
}

/// The caller waits in an object's queue, where it is told of what meets `bits`. The lock is held, so it has missed nothing.
fn wait_in<M: Machine>(call: &Call<M>, queue: &'static WaitQueue, bits: u32) -> SysResult {
    wait::prepare(call.thread);
    wait::enqueue(call.cpu, call.thread, queue, 0, bits);
    Err(Stop::Block)
}

/// A process ends, or shall have nothing to undo any more: semaphores get what they are owed. `false`: other work is due, and some is left.
pub fn leave<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, is_due: impl Fn() -> bool) -> bool {
    while process.undo.get() != 0 {
        let is_done = {
            let _guard = ipc::lock_all(cpu);
            ipc::ends::leave_some(cpu, process, now_s(cpu))
        };
        if !is_done && cpu.spend(cost::STEP) && is_due() {
            return false;
        }
    }
    true
}

/// A new process, which nobody else knows yet, shares with its parent what is undone (`CLONE_SYSVSEM`).
///
/// # Errors
/// `ENOMEM`.
pub fn share<M: Machine>(cpu: &Cpu<M>, parent: &ProcessRecord, child: &ProcessRecord) -> Result<(), Errno> {
    let _guard = ipc::lock_all(cpu);
    let list = ipc::undo::make_list(cpu, parent)?;
    ipc::undo::share(child, list, cpu.raw(list));
    Ok(())
}
