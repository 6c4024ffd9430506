//! `wait4` and `waitid`.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    process::{
        __WALL, __WCLONE, __WNOTHREAD, P_ALL, P_PGID, P_PID, P_PIDFD, WCONTINUED, WEXITED, WNOHANG, WNOWAIT, WSTOPPED,
        WUNTRACED, WaitStatus,
    },
    signal::SIGCHLD,
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::{PROCESS_ZOMBIE, ProcessRecord};

use super::exit::reap;
use super::usage::{RUSAGE_LEN, write_rusage};
use crate::{
    call::{Call, Stop, SysResult},
    file::pidfd::{self, Pidfd},
    mm,
    signal::stopping,
    tree::{children, lock_tree, lookup, parent_of, times_ns},
};

/// Options that say which kinds of children are waited for. `__WNOTHREAD` changes nothing: children belong to processes.
const WHICH_KIND: u32 = __WALL | __WCLONE | __WNOTHREAD;

/// Which children are waited for.
#[derive(Clone, Copy)]
enum Which {
    Any,
    Pid(u32),
    Group(u32),
    /// That with this id that was created then.
    Same(Pidfd),
}

/// A change of state of a child.
struct StateChange {
    pid: u32,
    status: u32,
    times_ns: [u64; 2],
    uid: u32,
}

/// `wait4(pid, status, options, rusage)`.
pub fn wait4<M: Machine>(call: &Call<M>) -> SysResult {
    let [pid, status_at, options, rusage_at, ..] = call.args;
    let options = options as u32;
    let which = match pid as i32 {
        -1 => Which::Any,
        0 => Which::Group(call.process.pgid.load(Ordering::Relaxed)),
        pid if pid > 0 => Which::Pid(pid as u32),
        i32::MIN => return Err(Errno::ESRCH.into()),
        group => Which::Group(group.unsigned_abs()),
    };
    if options & !(WNOHANG | WUNTRACED | WCONTINUED | WHICH_KIND) != 0 {
        return Err(Errno::EINVAL.into());
    }
    await_room(call, [(status_at, STATUS_LEN), (rusage_at, RUSAGE_LEN)])?;
    let Some(change) = wait_for(call, which, options | WEXITED)? else { return Ok(0) };
    if status_at != 0 {
        call.write_user(status_at, &change.status.to_le_bytes())?;
    }
    if rusage_at != 0 {
        write_rusage(call, rusage_at, change.times_ns)?;
    }
    Ok(u64::from(change.pid))
}

/// `waitid(kind, id, info, options, rusage)`.
pub fn waitid<M: Machine>(call: &Call<M>) -> SysResult {
    let [kind, id, info_at, options, rusage_at, _] = call.args;
    let (options, id) = (options as u32, id as i32);
    let known = WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED | WHICH_KIND;
    if options & !known != 0 || options & (WEXITED | WSTOPPED | WCONTINUED) == 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut waits = true;
    let which = match kind as u32 {
        P_ALL => Which::Any,
        P_PID if id > 0 => Which::Pid(id as u32),
        P_PGID if id == 0 => Which::Group(call.process.pgid.load(Ordering::Relaxed)),
        P_PGID if id > 0 => Which::Group(id as u32),
        P_PIDFD if id >= 0 => {
            let (pidfd, nonblocking) = named(call, id)?;
            waits = !nonblocking;
            Which::Same(pidfd)
        }
        _ => return Err(Errno::EINVAL.into()),
    };
    await_room(call, [(info_at, INFO_LEN), (rusage_at, RUSAGE_LEN)])?;
    let change = wait_for(call, which, if waits { options } else { options | WNOHANG })?;
    if change.is_none() && options & WNOHANG == 0 {
        return Err(Errno::EAGAIN.into());
    }
    if let Some(change) = &change
        && rusage_at != 0
    {
        write_rusage(call, rusage_at, change.times_ns)?;
    }
    if info_at != 0 {
        // Linux writes the fields that it has, and leaves the others as they are.
        let [signal, code, pid, uid, status] = change.as_ref().map_or([0; 5], |change| {
            let ended = WaitStatus::decode(change.status);
            [SIGCHLD, ended.cld_code() as u32, change.pid, change.uid, ended.si_status() as u32]
        });
        for (offset, words) in [(0, [signal, 0, code]), (16, [pid, uid, status])] {
            let mut bytes = [0; 12];
            words.put(&mut bytes);
            call.write_user(info_at.wrapping_add(offset), &bytes)?;
        }
    }
    Ok(0)
}

/// The process that a descriptor is of, and whether its calls do not wait. A call that has waited keeps it, whatever has become of the descriptor.
fn named<M: Machine>(call: &Call<M>, fd: i32) -> Result<(Pidfd, bool), Errno> {
    let [pid, started_ns, ..] = &call.thread.scratch;
    if call.has_waited() {
        return Ok((Pidfd { pid: pid.get() as u32, started_ns: started_ns.get() }, false));
    }
    let (pidfd, nonblocking) = pidfd::of_descriptor(call, fd)?;
    pid.set(pidfd.pid.into());
    started_ns.set(pidfd.started_ns);
    Ok((pidfd, nonblocking))
}

const STATUS_LEN: u64 = 4;
const INFO_LEN: u64 = 28;

/// Before a child is reaped, the pages have come that are told of it.
#[inline(always)]
fn await_room<M: Machine>(call: &Call<M>, room: [(u64, u64); 2]) -> Result<(), Stop> {
    if mm::has_late_pages(call.cpu, call.process) {
        for (address, len) in room.into_iter().filter(|(address, _)| *address != 0) {
            call.await_pages(address, len)?;
        }
    }
    Ok(())
}

fn wait_for<M: Machine>(call: &Call<M>, which: Which, options: u32) -> Result<Option<StateChange>, Stop> {
    if options & WNOHANG != 0 {
        return look(call, which, options);
    }
    call.wait_for(&call.process.child_waiters, || look(call, which, options)).map(Some)
}

/// A child whose state has changed; `None`: none has any yet.
fn look<M: Machine>(call: &Call<M>, which: Which, options: u32) -> Result<Option<StateChange>, Stop> {
    let cpu = call.cpu;
    let _tree = lock_tree(cpu);
    let mut any = false;
    let change = |child: &'static ProcessRecord| {
        // A "clone" child is one that does not end with SIGCHLD.
        let is_clone = child.exit_signal.get() != SIGCHLD;
        if options & __WALL == 0 && is_clone != (options & __WCLONE != 0) {
            return None;
        }
        any = true;
        status_of(child, options).map(|status| (child, status))
    };
    let is_own =
        |child: &&ProcessRecord| parent_of(cpu, child).is_some_and(|parent| core::ptr::eq(parent, call.process));
    let found = match which {
        Which::Any => children(cpu, call.process).find_map(change),
        Which::Pid(pid) => lookup(cpu, pid).filter(is_own).and_then(change),
        Which::Same(pidfd) => pidfd.process(cpu).filter(is_own).and_then(change),
        Which::Group(group) => {
            let in_group = |child: &&ProcessRecord| child.pgid.load(Ordering::Relaxed) == group;
            children(cpu, call.process).filter(in_group).find_map(change)
        }
    };
    let Some((child, status)) = found else {
        return if any { Ok(None) } else { Err(Errno::ECHILD.into()) };
    };
    let (user_ns, system_ns) = times_ns(cpu, child);
    let change = StateChange {
        pid: child.pid.get(),
        status,
        // As on Linux, with those of children that it has waited for itself.
        times_ns: [user_ns + child.child_times_ns[0].get(), system_ns + child.child_times_ns[1].get()],
        uid: child.credentials.users[0].get(),
    };
    if options & WNOWAIT == 0 {
        if child.state.load(Ordering::Acquire) == PROCESS_ZOMBIE {
            for (sum, ns) in call.process.child_times_ns.iter().zip(change.times_ns) {
                sum.set(sum.get() + ns);
            }
            reap(cpu, child);
        } else if WaitStatus::decode(status) == WaitStatus::Continued {
            child.continued.store(0, Ordering::Relaxed);
        } else {
            stopping::see(child);
        }
    }
    Ok(Some(change))
}

fn status_of(child: &ProcessRecord, options: u32) -> Option<u32> {
    if child.state.load(Ordering::Acquire) == PROCESS_ZOMBIE {
        return (options & WEXITED != 0).then(|| child.exit_status.load(Ordering::Relaxed));
    }
    if options & WUNTRACED != 0
        && let Some(stopped) = stopping::unseen(child)
    {
        return Some(stopped.encode());
    }
    if options & WCONTINUED != 0 && child.continued.load(Ordering::Relaxed) != 0 {
        return Some(WaitStatus::Continued.encode());
    }
    None
}
