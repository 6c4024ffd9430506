//! How urgent threads are: `sched_*`, with policies and real-time priorities (sched(7)) and `struct sched_attr`; and nice values.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    process::{
        SCHED_BATCH, SCHED_DEADLINE, SCHED_FIFO, SCHED_FLAG_KEEP_PARAMS, SCHED_FLAG_KEEP_POLICY,
        SCHED_FLAG_RESET_ON_FORK, SCHED_IDLE, SCHED_OTHER, SCHED_RESET_ON_FORK, SCHED_RR,
    },
    registers,
};
use motet_hal::Machine;
use motet_layout::ThreadRecord;
use motet_protocol::{
    groups, run_queue,
    schedule::{self, PRIORITY_MAX, Schedule},
};

use super::{ids::thread_named, limits};
use crate::{
    call::{Call, Stop, SysResult, end_call},
    handover, permission, realtime, time,
    tree::{self, lock_tree, process_of},
};

/// Bytes of `struct sched_attr` that are known, and of its first version.
const ATTR_BYTES: usize = 56;
const ATTR_BYTES_VER0: usize = 48;
/// `getpriority`: a thread, a process group, a user.
const PRIO_PROCESS: u64 = 0;
const PRIO_PGRP: u64 = 1;
const PRIO_USER: u64 = 2;
/// Slices that a thread may ask for, in nanoseconds, as on Linux.
const SLICE_NS_MIN: u64 = 100_000;
const SLICE_NS_MAX: u64 = 100_000_000;

/// `sched_getscheduler(tid)`.
pub fn sched_getscheduler<M: Machine>(call: &Call<M>) -> SysResult {
    let schedule = schedule_of(call)?;
    let resets = if schedule.resets_on_fork() { SCHED_RESET_ON_FORK } else { 0 };
    Ok(u64::from(schedule.policy() | resets))
}

/// `sched_setscheduler(tid, policy, parameters)`.
///
/// # Errors
/// `EPERM`; `EINVAL`: there is no such policy (SCHED_DEADLINE is not there), or it has no such priority; `EFAULT`, `ESRCH`.
pub fn sched_setscheduler<M: Machine>(call: &Call<M>) -> SysResult {
    let [_, policy, parameters, ..] = call.args;
    let policy = policy as u32;
    if (call.args[0] as i32) < 0 || policy.cast_signed() < 0 || parameters == 0 {
        return Err(Errno::EINVAL.into());
    }
    let priority = call.read_user_u32(parameters)?;
    change(call, |_| {
        Schedule::new(policy & !SCHED_RESET_ON_FORK, priority, policy & SCHED_RESET_ON_FORK != 0)
            .map(|schedule| Wanted { schedule, nice: None, slice_ns: None })
    })
}

/// `sched_setparam(tid, parameters)`: another priority of the same policy.
///
/// # Errors
/// As [`sched_setscheduler`].
pub fn sched_setparam<M: Machine>(call: &Call<M>) -> SysResult {
    let [tid, parameters, ..] = call.args;
    if (tid as i32) < 0 || parameters == 0 {
        return Err(Errno::EINVAL.into());
    }
    let priority = call.read_user_u32(parameters)?;
    change(call, |thread| {
        let before = schedule::of(thread);
        Schedule::new(before.policy(), priority, before.resets_on_fork()).map(|schedule| Wanted {
            schedule,
            nice: None,
            slice_ns: None,
        })
    })
}

/// `sched_getparam(tid, parameters)`.
pub fn sched_getparam<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[1] == 0 {
        return Err(Errno::EINVAL.into());
    }
    let schedule = schedule_of(call)?;
    call.write_user(call.args[1], &schedule.priority().to_le_bytes())?;
    Ok(0)
}

/// `sched_setattr(tid, attributes, flags)`. `sched_runtime` of an ordinary policy is the thread's slice, as on Linux from 6.12 on; 0: the usual one.
///
/// # Errors
/// As [`sched_setscheduler`]; `E2BIG`: it is of another version, and says what is not known; `EACCES`: a lower nice value than is allowed.
pub fn sched_setattr<M: Machine>(call: &Call<M>) -> SysResult {
    let [tid, at, flags, ..] = call.args;
    if (tid as i32) < 0 || at == 0 || flags as u32 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let attr = read_attr(call, at)?;
    let known = SCHED_FLAG_RESET_ON_FORK | SCHED_FLAG_KEEP_POLICY | SCHED_FLAG_KEEP_PARAMS;
    if attr.policy.cast_signed() < 0 || attr.flags & !known != 0 {
        return Err(Errno::EINVAL.into());
    }
    change(call, |thread| {
        let before = schedule::of(thread);
        let keeps = attr.flags & SCHED_FLAG_KEEP_PARAMS != 0;
        let policy = if attr.flags & SCHED_FLAG_KEEP_POLICY != 0 { before.policy() } else { attr.policy };
        let priority = if keeps { before.priority() } else { attr.priority };
        let schedule = Schedule::new(policy, priority, attr.flags & SCHED_FLAG_RESET_ON_FORK != 0)?;
        let is_ordinary = !keeps && matches!(policy, SCHED_OTHER | SCHED_BATCH);
        let slice_ns = if attr.runtime_ns == 0 { 0 } else { attr.runtime_ns.clamp(SLICE_NS_MIN, SLICE_NS_MAX) };
        Some(Wanted {
            schedule,
            nice: is_ordinary.then_some(attr.nice.clamp(-20, 19)),
            slice_ns: is_ordinary.then_some(slice_ns),
        })
    })
}

/// `sched_getattr(tid, attributes, size, flags)`.
///
/// # Errors
/// `EINVAL`: less than the first version's size, or flags; `EFAULT`, `ESRCH`.
pub fn sched_getattr<M: Machine>(call: &Call<M>) -> SysResult {
    let [tid, at, size, flags, ..] = call.args;
    let size = size as u32 as usize;
    if (tid as i32) < 0 || at == 0 || flags as u32 != 0 || !(ATTR_BYTES_VER0..=4096).contains(&size) {
        return Err(Errno::EINVAL.into());
    }
    let (schedule, nice, slice_ns) = {
        let _tree = lock_tree(call.cpu);
        let thread = thread_named(call, tid)?;
        (schedule::of(thread), thread.nice.get(), realtime::slice_ns(thread))
    };
    let size = size.min(ATTR_BYTES);
    let flags = if schedule.resets_on_fork() { SCHED_FLAG_RESET_ON_FORK } else { 0 };
    let (nice, runtime_ns) = if schedule.is_realtime() { (0, 0) } else { (nice, slice_ns) };
    let mut bytes = [0; ATTR_BYTES];
    bytes[..4].copy_from_slice(&(size as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&schedule.policy().to_le_bytes());
    bytes[8..16].copy_from_slice(&flags.to_le_bytes());
    bytes[16..20].copy_from_slice(&nice.to_le_bytes());
    bytes[20..24].copy_from_slice(&schedule.priority().to_le_bytes());
    bytes[24..32].copy_from_slice(&runtime_ns.to_le_bytes());
    call.write_user(at, &bytes[..size])?;
    Ok(0)
}

/// `sched_rr_get_interval(tid, interval)`: how long the thread runs while its equals wait. 0: it makes way for none of them (SCHED_FIFO).
pub fn sched_rr_get_interval<M: Machine>(call: &Call<M>) -> SysResult {
    if (call.args[0] as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let interval_ns = {
        let _tree = lock_tree(call.cpu);
        let thread = thread_named(call, call.args[0])?;
        if schedule::of(thread).policy() == SCHED_FIFO { 0 } else { realtime::slice_ns(thread) }
    };
    time::write_timespec(call, call.args[1], interval_ns)?;
    Ok(0)
}

/// `sched_get_priority_max(policy)`.
pub fn sched_get_priority_max<M: Machine>(call: &Call<M>) -> SysResult {
    priority_of(call.args[0], PRIORITY_MAX)
}

/// `sched_get_priority_min(policy)`.
pub fn sched_get_priority_min<M: Machine>(call: &Call<M>) -> SysResult {
    priority_of(call.args[0], 1)
}

/// The priority of a policy: real-time ones have several, `of_realtime` among them.
fn priority_of(policy: u64, of_realtime: u32) -> SysResult {
    match policy as u32 {
        SCHED_FIFO | SCHED_RR => Ok(u64::from(of_realtime)),
        SCHED_OTHER | SCHED_BATCH | SCHED_IDLE | SCHED_DEADLINE => Ok(0),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// What a new thread has of its parent's.
pub fn inherit(parent: &ThreadRecord, child: &ThreadRecord) {
    let of_parent = schedule::of(parent);
    if !of_parent.resets_on_fork() {
        child.nice.set(parent.nice.get());
        child.slice_ns.set(parent.slice_ns.get());
        return schedule::set(child, of_parent);
    }
    let nice = if of_parent.is_realtime() { 0 } else { parent.nice.get().cast_signed().max(0) };
    child.nice.set(nice.cast_unsigned());
}

/// How a thread is to be scheduled. `None`: as before.
struct Wanted {
    schedule: Schedule,
    nice: Option<i32>,
    slice_ns: Option<u64>,
}

/// Schedules the thread that the first argument names as `wanted` says of it. `None`: that cannot be.
fn change<M: Machine>(call: &Call<M>, wanted: impl FnOnce(&ThreadRecord) -> Option<Wanted>) -> SysResult {
    let _tree = lock_tree(call.cpu);
    let thread = thread_named(call, call.args[0])?;
    let Wanted { schedule, nice, slice_ns } = wanted(thread).ok_or(Errno::EINVAL)?;
    let process = process_of(call.cpu, thread);
    let before = schedule::of(thread);
    permission::may_schedule(call.process, process, before, schedule)?;
    let leaves_idle = before.policy() == SCHED_IDLE && schedule.policy() != SCHED_IDLE;
    if leaves_idle {
        let own = thread.nice.get().cast_signed();
        permission::may_lower_nice(call.process, process, own).map_err(|_| Errno::EPERM)?;
    }
    if let Some(nice) = nice {
        if nice < thread.nice.get().cast_signed() {
            permission::may_lower_nice(call.process, process, nice).map_err(|_| Errno::EPERM)?;
        }
        thread.nice.set(nice.cast_unsigned());
    }
    if let Some(slice_ns) = slice_ns {
        thread.slice_ns.set(slice_ns);
    }
    if schedule != before {
        schedule::set(thread, schedule);
        realtime::changed(call.cpu, thread);
    }
    Ok(0)
}

/// Fails unless the first argument names a thread.
fn schedule_of<M: Machine>(call: &Call<M>) -> Result<Schedule, Errno> {
    let tid = call.args[0];
    if (tid as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let _tree = lock_tree(call.cpu);
    thread_named(call, tid).map(schedule::of)
}

/// What is read of a `struct sched_attr`.
struct Attr {
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
}

fn read_attr<M: Machine>(call: &Call<M>, at: u64) -> Result<Attr, Stop> {
    let size = match call.read_user_u32(at)? as usize {
        0 => ATTR_BYTES_VER0,
        size => size,
    };
    let is_known = |size: usize| (ATTR_BYTES_VER0..=4096).contains(&size);
    let mut bytes = [0; ATTR_BYTES];
    if is_known(size) {
        call.read_user(at, &mut bytes[..size.min(ATTR_BYTES)])?;
    }
    let mut has_more = !is_known(size);
    for offset in ATTR_BYTES..size.min(4096) {
        let mut byte = [0];
        call.read_user(at.wrapping_add(offset as u64), &mut byte)?;
        has_more |= byte != [0];
    }
    if has_more {
        // Who asks for too much learns what there is.
        call.write_user(at, &(ATTR_BYTES as u32).to_le_bytes())?;
        return Err(Errno::E2BIG.into());
    }
    let word = |offset: usize| u32::from_le_bytes(core::array::from_fn(|byte| bytes[offset + byte]));
    let long = |offset: usize| u64::from(word(offset)) | u64::from(word(offset + 4)) << 32;
    Ok(Attr { policy: word(4), flags: long(8), nice: word(16).cast_signed(), priority: word(20), runtime_ns: long(24) })
}

/// `sched_yield()`.
pub fn sched_yield<M: Machine>(call: &Call<M>) -> SysResult {
    if run_queue::has_ready(call.cpu.own) {
        registers::set_result(&call.thread.frame, 0);
        end_call(call.thread);
        limits::check_cpu_time(call.cpu, call.thread);
        handover::yield_core(call.cpu, call.thread);
        return Err(Stop::Gone);
    }
    Ok(0)
}

/// `getpriority(which, who)`: 20 - nice, the highest of them.
pub fn getpriority<M: Machine>(call: &Call<M>) -> SysResult {
    let mut lowest: Option<i32> = None;
    for_each_named(call, |thread| {
        let nice = thread.nice.get().cast_signed();
        lowest = Some(lowest.map_or(nice, |lowest| lowest.min(nice)));
    })?;
    Ok((20 - lowest.ok_or(Errno::ESRCH)?) as u64)
}

/// `setpriority(which, who, nice)`: of those whom the caller may change. As on Linux, the last error is told.
///
/// # Errors
/// `ESRCH`; `EPERM`: another user's; `EACCES`: lower than the thread's `RLIMIT_NICE` lets it; `EINVAL`.
pub fn setpriority<M: Machine>(call: &Call<M>) -> SysResult {
    let nice = (call.args[2] as i32).clamp(-20, 19);
    let mut result = Err(Errno::ESRCH);
    for_each_named(call, |thread| {
        let process = process_of(call.cpu, thread);
        let lowers = nice < thread.nice.get().cast_signed();
        let may = permission::may_change(call.process, process).and_then(|()| match lowers {
            true => permission::may_lower_nice(call.process, process, nice),
            false => Ok(()),
        });
        match may {
            Ok(()) => thread.nice.set(nice.cast_unsigned()),
            Err(errno) => result = Err(errno),
        }
        if result == Err(Errno::ESRCH) {
            result = Ok(0);
        }
    })?;
    Ok(result?)
}

/// Calls `each` with the threads that `which` and `who` of `getpriority` name. As on Linux, a process id means the process's
/// first thread.
fn for_each_named<M: Machine>(call: &Call<M>, mut each: impl FnMut(&'static ThreadRecord)) -> Result<(), Errno> {
    let [which, who, ..] = call.args;
    let cpu = call.cpu;
    let _tree = lock_tree(cpu);
    let own = |own: u32| if who as u32 == 0 { own } else { who as u32 };
    match which {
        PRIO_PROCESS => each(thread_named(call, who)?),
        PRIO_PGRP => {
            let pgid = own(call.process.pgid.load(Ordering::Relaxed));
            groups::for_each(cpu, pgid, |process| tree::for_each_thread(cpu, process, &mut each));
        }
        PRIO_USER => {
            let user = own(call.process.credentials.users[0].get());
            tree::for_each(cpu, |process| {
                if process.credentials.users[0].get() == user {
                    tree::for_each_thread(cpu, process, &mut each);
                }
            });
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}
