//! Who processes are: ids, groups, sessions, limits, scheduling parameters, names.

use core::sync::atomic::Ordering;

use motet_abi::{Errno, registers, signal::NSIG, system};
use motet_hal::Machine;
use motet_layout::{CORES_MAX, CoreId, Isa, PROCESS_ALIVE, ProcessRecord, ThreadRecord};
use motet_protocol::{memory, run_queue, threads};

use super::wait::write_rusage;
use crate::{
    ability,
    call::{Call, Stop, SysResult},
    cpu::KERNEL_RELEASE,
    cputime, handover, mm,
    permission::{self, Capability},
    process::identity,
    tree::{self, limits::LIMITS, lock_tree, lookup, parent_of, process_of},
};

const KERNEL_VERSION: &str = concat!("#1 SMP Motet ", env!("CARGO_PKG_VERSION"));
const NODE_NAME: &str = "motet";
/// `getpriority`: a thread, a process group, a user.
const PRIO_PROCESS: u64 = 0;
const PRIO_PGRP: u64 = 1;
const PRIO_USER: u64 = 2;
const PR_SET_PDEATHSIG: u64 = 1;
const PR_GET_PDEATHSIG: u64 = 2;
const PR_SET_NAME: u64 = 15;
const PR_GET_NAME: u64 = 16;
const PR_GET_TIMING: u64 = 13;
const PR_SET_TIMING: u64 = 14;
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;
const GS_BASE: usize = 17;

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
    let process = if pid == 0 { call.process } else { lookup(call.cpu, pid as u32).ok_or(Errno::ESRCH)? };
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
        let mut exists = false;
        tree::for_each(call.cpu, |other| {
            exists |= other.pgid.load(Ordering::Relaxed) == pgid && other.sid.load(Ordering::Relaxed) == own_sid;
        });
        if !exists {
            return Err(Errno::EPERM.into());
        }
    }
    process.pgid.store(pgid, Ordering::Relaxed);
    Ok(0)
}

/// `setsid()`.
pub fn setsid<M: Machine>(call: &Call<M>) -> SysResult {
    let pid = call.process.pid.get();
    let _tree = lock_tree(call.cpu);
    if call.process.pgid.load(Ordering::Relaxed) == pid {
        return Err(Errno::EPERM.into());
    }
    call.process.pgid.store(pid, Ordering::Relaxed);
    call.process.sid.store(pid, Ordering::Relaxed);
    Ok(u64::from(pid))
}

/// `uname(buffer)`: the machine name is that of the caller's ISA.
pub fn uname<M: Machine>(call: &Call<M>) -> SysResult {
    call.write_user(call.args[0], &system::utsname(call.isa, NODE_NAME, KERNEL_RELEASE, KERNEL_VERSION))?;
    Ok(0)
}

/// `sysinfo(buffer)`, Linux `struct sysinfo` of 64-bit ISAs.
pub fn sysinfo<M: Machine>(call: &Call<M>) -> SysResult {
    let (free, total) = memory::usage(call.cpu.pool);
    let mut processes = 0u16;
    {
        let _tree = lock_tree(call.cpu);
        tree::for_each(call.cpu, |_| processes += 1);
    }
    let mut info = [0u8; 112];
    for (offset, word) in [(0, call.cpu.reading_ns() / 1_000_000_000), (32, total), (40, free)] {
        info[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    }
    info[80..82].copy_from_slice(&processes.to_le_bytes());
    info[104..108].copy_from_slice(&1u32.to_le_bytes());
    call.write_user(call.args[0], &info)?;
    Ok(0)
}

/// `getrusage(who, usage)`.
pub fn getrusage<M: Machine>(call: &Call<M>) -> SysResult {
    let times = match call.args[0] as i32 {
        0 => {
            let (user, system) = tree::charged_times_ns(call);
            [user, system]
        }
        1 => {
            cputime::charge(call.cpu, call.thread);
            [call.thread.user_ns.get(), call.thread.system_ns.get()]
        }
        -1 => [call.process.child_times_ns[0].get(), call.process.child_times_ns[1].get()],
        _ => return Err(Errno::EINVAL.into()),
    };
    write_rusage(call, call.args[1], times)?;
    Ok(0)
}

/// `prlimit64(pid, resource, new, old)`.
pub fn prlimit64<M: Machine>(call: &Call<M>) -> SysResult {
    let [pid, resource, new_at, old_at, ..] = call.args;
    limit(call, pid, resource, new_at, old_at)
}

/// `getrlimit(resource, limit)`.
pub fn getrlimit<M: Machine>(call: &Call<M>) -> SysResult {
    limit(call, 0, call.args[0], 0, call.args[1])
}

/// `setrlimit(resource, limit)`.
pub fn setrlimit<M: Machine>(call: &Call<M>) -> SysResult {
    limit(call, 0, call.args[0], call.args[1], 0)
}

/// Of each user's processes, the pool has room for one in so many bytes: half of it, if they are small.
const POOL_PER_PROCESS: u64 = 1 << 20;

/// Linux's limits of a fresh process. `pool_len`: the pool's size in bytes.
pub fn set_default_limits(process: &ProcessRecord, pool_len: u64) {
    for (resource, pair) in process.limits.chunks(2).enumerate() {
        let value = match resource {
            3 => 8 << 20,
            4 => 0,
            6 => pool_len / POOL_PER_PROCESS,
            7 => motet_layout::FILES_MAX as u64,
            13 | 14 => 0,
            _ => u64::MAX,
        };
        pair[0].set(value);
        pair[1].set(if resource == 3 { u64::MAX } else { value });
    }
}

/// `sched_getaffinity(tid, size, mask)`.
pub fn sched_getaffinity<M: Machine>(call: &Call<M>) -> SysResult {
    let [tid, size, at, ..] = call.args;
    let len = (CORES_MAX / 8) as u64;
    if size < len || size % 8 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let _tree = lock_tree(call.cpu);
    let thread = thread_named(call, tid)?;
    let mut bytes = [0; CORES_MAX / 8];
    for core in (0..CORES_MAX as u32).filter_map(CoreId::from_raw) {
        if run_queue::is_online(call.cpu, core) && run_queue::allowed(affinity_of(thread), core) {
            bytes[core.index() / 8] |= 1 << (core.index() % 8);
        }
    }
    call.write_user(at, &bytes)?;
    Ok(len)
}

/// `sched_setaffinity(tid, size, mask)`: moves the caller at once if it must; another thread, when it is placed next.
///
/// # Errors
/// `EINVAL`: no core that could run the thread; `EFAULT`, `ESRCH`, `EPERM`.
pub fn sched_setaffinity<M: Machine>(call: &Call<M>) -> SysResult {
    let [tid, size, at, ..] = call.args;
    let mask = read_core_set(call, size, at)?;
    let target = {
        let _tree = lock_tree(call.cpu);
        let thread = thread_named(call, tid)?;
        permission::may_change(call.process, process_of(call.cpu, thread))?;
        let last = CoreId::from_raw(thread.core.load(Ordering::Relaxed)).unwrap_or(call.cpu.id);
        // A core of another instruction set, or without what the thread needs, cannot run its code.
        let target = ability::core_for(call.cpu, thread, last, mask).ok_or(Errno::EINVAL)?;
        thread.affinity[0].store(mask[0], Ordering::Relaxed);
        thread.affinity[1].store(mask[1], Ordering::Relaxed);
        (core::ptr::eq(thread, call.thread) && !run_queue::allowed(mask, call.cpu.id)).then_some(target)
    };
    match target {
        None => Ok(0),
        Some(target) => {
            registers::set_result(&call.thread.frame, 0);
            handover::leave_for(call.cpu, call.thread, target);
            Err(Stop::Gone)
        }
    }
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
            tree::for_each(cpu, |process| {
                if process.pgid.load(Ordering::Relaxed) == pgid {
                    tree::for_each_thread(cpu, process, &mut each);
                }
            });
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

/// `getcpu(cpu, node)`: the node is the island.
pub fn getcpu<M: Machine>(call: &Call<M>) -> SysResult {
    for (at, value) in [(call.args[0], u32::from(call.cpu.id.0)), (call.args[1], u32::from(call.cpu.island().0))] {
        if at != 0 {
            call.write_user(at, &value.to_le_bytes())?;
        }
    }
    Ok(0)
}

/// `prctl(option, ...)`.
pub fn prctl<M: Machine>(call: &Call<M>) -> SysResult {
    match call.args[0] {
        PR_SET_NAME => {
            let mut name = [0; 16];
            let len = match call.read_string(call.args[1], &mut name) {
                Ok(len) => len,
                Err(Errno::ENAMETOOLONG) => 15,
                Err(errno) => return Err(errno.into()),
            };
            let leader = call.thread.tid.get() == call.process.pid.get();
            for (index, &byte) in name.iter().enumerate() {
                let byte = if index < len { byte } else { 0 };
                call.thread.name[index].store(byte, Ordering::Relaxed);
                if leader {
                    call.process.name[index].store(byte, Ordering::Relaxed);
                }
            }
            Ok(0)
        }
        PR_GET_NAME => {
            let name: [u8; 16] = core::array::from_fn(|index| call.thread.name[index].load(Ordering::Relaxed));
            call.write_user(call.args[1], &name)?;
            Ok(0)
        }
        PR_SET_PDEATHSIG => {
            if call.args[1] > u64::from(NSIG) {
                return Err(Errno::EINVAL.into());
            }
            call.process.death_signal.set(call.args[1] as u32);
            Ok(0)
        }
        PR_GET_PDEATHSIG => {
            call.write_user(call.args[1], &call.process.death_signal.get().to_le_bytes())?;
            Ok(0)
        }
        // Times are counted, not sampled, whatever is asked for; Linux has but the one value, too.
        PR_GET_TIMING => Ok(0),
        PR_SET_TIMING if call.args[1] == 0 => Ok(0),
        _ => identity::prctl(call),
    }
}

/// `arch_prctl(operation, address)` of x86-64.
pub fn arch_prctl<M: Machine>(call: &Call<M>) -> SysResult {
    let [operation, address, ..] = call.args;
    if call.isa != Isa::X86_64 {
        return Err(Errno::ENOSYS.into());
    }
    match operation {
        ARCH_SET_FS | ARCH_SET_GS if address >= motet_layout::USER_END => Err(Errno::EPERM.into()),
        ARCH_SET_FS => {
            registers::set_tls(&call.thread.frame, address);
            Ok(0)
        }
        ARCH_SET_GS => {
            call.thread.frame.regs[GS_BASE].set(address);
            Ok(0)
        }
        ARCH_GET_FS => {
            call.write_user(address, &registers::tls(&call.thread.frame).to_le_bytes())?;
            Ok(0)
        }
        ARCH_GET_GS => {
            call.write_user(address, &call.thread.frame.regs[GS_BASE].get().to_le_bytes())?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `membarrier(command, ...)`: the query says that nothing is offered.
pub fn membarrier<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[0] as u32 == 0 && call.args[1] as u32 == 0 { Ok(0) } else { Err(Errno::EINVAL.into()) }
}

/// `riscv_flush_icache(start, end, flags)`: makes the caller's code visible to its own fetches.
pub fn riscv_flush_icache<M: Machine>(call: &Call<M>) -> SysResult {
    let [start, end, ..] = call.args;
    if end < start {
        return Err(Errno::EINVAL.into());
    }
    mm::sync(call, mm::space_of(call.cpu, call.process), start, end)?;
    Ok(0)
}

/// `riscv_hwprobe(pairs, count, cpu_count, cpus, flags)`: what all of the cores in a set have; an empty set: all on which the caller
/// may run.
///
/// # Errors
/// `EINVAL`: flags, or a set without a core of the ISA; `EFAULT`; `ENOSYS` on other ISAs.
pub fn riscv_hwprobe<M: Machine>(call: &Call<M>) -> SysResult {
    let [pairs, count, set_len, set_at, flags, _] = call.args;
    if call.isa != Isa::RiscV64 {
        return Err(Errno::ENOSYS.into());
    }
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let cores = if set_at == 0 { run_queue::cores_of(call.thread) } else { read_core_set(call, set_len, set_at)? };
    let Some(extensions) = ability::hwprobe(call.cpu, cores) else { return Err(Errno::EINVAL.into()) };
    for index in 0..count.min(64) {
        let at = pairs.wrapping_add(16 * index);
        let key = call.read_user_u64(at)? as i64;
        let (key, value) = match system::riscv_hwprobe(key, extensions) {
            Some(value) => (key, value),
            None => (-1, 0),
        };
        call.write_user(at, &key.to_le_bytes())?;
        call.write_user(at + 8, &value.to_le_bytes())?;
    }
    Ok(0)
}

/// A set of cores in user memory, `len` bytes of it.
fn read_core_set<M: Machine>(call: &Call<M>, len: u64, at: u64) -> Result<[u64; 2], Errno> {
    let mut bytes = [0; CORES_MAX / 8];
    let len = (len as usize).min(bytes.len());
    call.read_user(at, &mut bytes[..len])?;
    Ok([0, 1].map(|n: usize| u64::from_le_bytes(core::array::from_fn(|byte| bytes[8 * n + byte]))))
}

fn limit<M: Machine>(call: &Call<M>, pid: u64, resource: u64, new_at: u64, old_at: u64) -> SysResult {
    if resource >= LIMITS.len() as u64 {
        return Err(Errno::EINVAL.into());
    }
    with_process(call, pid, |process| {
        permission::may_limit(call.process, process)?;
        let pair = &process.limits[2 * resource as usize..2 * resource as usize + 2];
        let old = [pair[0].get(), pair[1].get()];
        if new_at != 0 {
            let (soft, hard) = (call.read_user_u64(new_at)?, call.read_user_u64(new_at + 8)?);
            if soft > hard {
                return Err(Errno::EINVAL.into());
            }
            if hard > old[1] && !permission::has(call.process, Capability::Limits) {
                return Err(Errno::EPERM.into());
            }
            pair[0].set(soft);
            pair[1].set(hard);
        }
        if old_at != 0 {
            call.write_user(old_at, &old[0].to_le_bytes())?;
            call.write_user(old_at + 8, &old[1].to_le_bytes())?;
        }
        Ok(0)
    })
}

/// Calls `act` with the process of that id (0: the caller's), which stays alive meanwhile.
fn with_process<M: Machine>(
    call: &Call<M>,
    pid: u64,
    act: impl FnOnce(&'static ProcessRecord) -> SysResult,
) -> SysResult {
    if pid == 0 || pid as u32 == call.process.pid.get() {
        return act(call.process);
    }
    let _tree = lock_tree(call.cpu);
    let process = lookup(call.cpu, pid as u32).filter(|process| process.state.load(Ordering::Acquire) == PROCESS_ALIVE);
    act(process.ok_or(Errno::ESRCH)?)
}

/// The thread of that id (0: the caller). Under the process-tree lock.
///
/// # Errors
/// `ESRCH`.
pub fn thread_named<M: Machine>(call: &Call<M>, tid: u64) -> Result<&'static ThreadRecord, Errno> {
    if tid == 0 { Ok(call.thread) } else { threads::lookup(call.cpu, tid as u32).ok_or(Errno::ESRCH) }
}

fn affinity_of(thread: &ThreadRecord) -> [u64; 2] {
    [thread.affinity[0].load(Ordering::Relaxed), thread.affinity[1].load(Ordering::Relaxed)]
}
