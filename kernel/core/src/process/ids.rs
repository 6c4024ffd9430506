//! Who processes are: ids, groups, sessions.

use core::sync::atomic::Ordering;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{ProcessRecord, ThreadRecord};
use motet_protocol::{groups, threads};

use crate::{
    call::{Call, SysResult},
    tree::{self, lock_tree, parent_of},
};

/// `getpid()`.
#[inline]
pub fn getpid<M: Machine>(call: &Call<M>) -> SysResult {
    Ok(u64::from(call.process.pid.get()))
}

/// `gettid()`.
pub fn gettid<M: Machine>(call: &Call<M>) -> SysResult {
    Ok(u64::from(call.thread.tid.get()))
}

/// `getppid()`.
pub fn getppid<M: Machine>(call: &Call<M>) -> SysResult {
    let _tree = lock_tree(call.cpu);
    Ok(parent_of(call.cpu, call.process).map_or(0, |parent| u64::from(parent.pid.get())))
}

/// `set_tid_address(address)`.
pub fn set_tid_address<M: Machine>(call: &Call<M>) -> SysResult {
    call.thread.clear_child_tid.set(call.args[0]);
    gettid(call)
}

/// `getpgid(pid)`.
pub fn getpgid<M: Machine>(call: &Call<M>) -> SysResult {
    with_process(call, call.args[0], |process| Ok(u64::from(process.pgid.load(Ordering::Relaxed))))
}

/// `getpgrp()`.
pub fn getpgrp<M: Machine>(call: &Call<M>) -> SysResult {
    Ok(u64::from(call.process.pgid.load(Ordering::Relaxed)))
}

/// `getsid(pid)`.
pub fn getsid<M: Machine>(call: &Call<M>) -> SysResult {
    with_process(call, call.args[0], |process| Ok(u64::from(process.sid.load(Ordering::Relaxed))))
}

/// `setpgid(pid, pgid)`.
pub fn setpgid<M: Machine>(call: &Call<M>) -> SysResult {
    let (pid, pgid) = (call.args[0] as i32, call.args[1] as i32);
    // A group of 0 is that of the process's own number.
    if pgid < 0 || pgid == 0 && pid < 0 {
        return Err(Errno::EINVAL.into());
    }
    let own_sid = call.process.sid.load(Ordering::Relaxed);
    let _tree = lock_tree(call.cpu);
    let process = if pid == 0 { call.process } else { tree::with_thread(call.cpu, pid as u32).ok_or(Errno::ESRCH)? };
    // Another thread than the first one names no process here.
    if pid != 0 && process.pid.get() != pid as u32 {
        return Err(Errno::EINVAL.into());
    }
    let is_self = core::ptr::eq(process, call.process);
    if !is_self {
        if !parent_of(call.cpu, process).is_some_and(|parent| core::ptr::eq(parent, call.process)) {
            return Err(Errno::ESRCH.into());
        }
        if process.execed.get() != 0 {
            return Err(Errno::EACCES.into());
        }
    }
    let target_pid = process.pid.get();
    if process.sid.load(Ordering::Relaxed) == target_pid || process.sid.load(Ordering::Relaxed) != own_sid {
        return Err(Errno::EPERM.into());
    }
    let pgid = if pgid == 0 { target_pid } else { pgid as u32 };
    if pgid != target_pid {
        // All of a group are in one session.
        let is_own = |member: &ProcessRecord| member.sid.load(Ordering::Relaxed) == own_sid;
        if !groups::any(call.cpu, pgid).is_some_and(is_own) {
            return Err(Errno::EPERM.into());
        }
    }
    groups::change(call.cpu, process, pgid);
    Ok(0)
}

/// `setsid()`.
pub fn setsid<M: Machine>(call: &Call<M>) -> SysResult {
    let pid = call.process.pid.get();
    let _tree = lock_tree(call.cpu);
    // Also a group that it has left keeps its number.
    if groups::any(call.cpu, pid).is_some() {
        return Err(Errno::EPERM.into());
    }
    groups::change(call.cpu, call.process, pid);
    call.process.sid.store(pid, Ordering::Relaxed);
    call.process.left_terminal.set(0);
    Ok(u64::from(pid))
}

/// Calls `act` with the process that a thread of that id is of (0: the caller's), which is not reaped meanwhile.
pub fn with_process<M: Machine>(
    call: &Call<M>,
    pid: u64,
    act: impl FnOnce(&'static ProcessRecord) -> SysResult,
) -> SysResult {
    if pid == 0 || pid as u32 == call.process.pid.get() {
        return act(call.process);
    }
    let _tree = lock_tree(call.cpu);
    act(tree::with_thread(call.cpu, pid as u32).ok_or(Errno::ESRCH)?)
}

/// The thread of that id (0: the caller). Under the process-tree lock.
///
/// # Errors
/// `ESRCH`.
pub fn thread_named<M: Machine>(call: &Call<M>, tid: u64) -> Result<&'static ThreadRecord, Errno> {
    if tid == 0 { Ok(call.thread) } else { threads::lookup(call.cpu, tid as u32).ok_or(Errno::ESRCH) }
}
