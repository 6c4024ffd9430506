//! Limits of processes (getrlimit(2)): how they are read and set; and, of those that run, `RLIMIT_CPU` and `RLIMIT_NPROC`.

use motet_abi::{
    Errno,
    signal::{SIGKILL, SIGXCPU},
    time::{RLIMIT_CPU, RLIMIT_NPROC},
};
use motet_hal::Machine;
use motet_layout::{FILES_MAX, ProcessRecord, ThreadRecord, sync::Ordering};

use super::ids::with_process;
use crate::{
    alarm::{self, SLICE_NS},
    call::{Call, SysResult},
    cpu::Cpu,
    cputime,
    permission::{self, Capability},
    signal::{self, Origin},
    tree::{STACK_DEFAULT, limit_of, limits::LIMITS, lock_tree, process_of, times_ns, users},
};

/// Of each user's processes, the pool has room for one in so many bytes: half of it, if they are small.
const POOL_PER_PROCESS: u64 = 1 << 20;

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

fn limit<M: Machine>(call: &Call<M>, pid: u64, resource: u64, new_at: u64, old_at: u64) -> SysResult {
    if resource >= LIMITS.len() as u64 {
        return Err(Errno::EINVAL.into());
    }
    if old_at != 0 {
        call.await_pages(old_at, 16)?;
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
            if resource as usize == RLIMIT_CPU && soft != u64::MAX {
                process.watches_time.store(1, Ordering::Release);
            }
        }
        if old_at != 0 {
            call.write_user(old_at, &old[0].to_le_bytes())?;
            call.write_user(old_at + 8, &old[1].to_le_bytes())?;
        }
        Ok(0)
    })
}

/// Bytes that a user may have in queues of messages, unless that is changed (`MQ_BYTES_MAX`).
const QUEUE_BYTES_DEFAULT: u64 = 819_200;

/// Linux's limits of a fresh process. `pool_len`: the pool's size in bytes.
pub fn set_default_limits(process: &ProcessRecord, pool_len: u64) {
    for (resource, pair) in process.limits.chunks(2).enumerate() {
        let value = match resource {
            3 => STACK_DEFAULT,
            4 => 0,
            6 => pool_len / POOL_PER_PROCESS,
            7 => FILES_MAX as u64,
            12 => QUEUE_BYTES_DEFAULT,
            13 | 14 => 0,
            _ => u64::MAX,
        };
        pair[0].set(value);
        pair[1].set(if resource == 3 { u64::MAX } else { value });
    }
}

/// Looks after a timer interrupt, and when the running thread gives its core away, whether its process has used up its processor time (`RLIMIT_CPU`), or as much as its timers wait for.
#[inline]
pub fn check_cpu_time<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    check_time_of(cpu, thread, process_of(cpu, thread));
}

/// The same, of a thread whose process is known.
#[inline(always)]
pub fn check_time_of<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    if process.watches_time.load(Ordering::Relaxed) != 0 {
        look_at_time(cpu, thread, process);
    }
}

/// Looks what the processor time of the process is watched for: its limit, and timers. The next look comes when the next timer may be due, or at a later tick.
#[cold]
fn look_at_time<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    let now_ns = cputime::charge(cpu, thread);
    let _tree = lock_tree(cpu);
    let times_ns = times_ns(cpu, process);
    limit_cpu_time(cpu, process, times_ns);
    match signal::expire_by_time(cpu, thread, process, times_ns) {
        // The end of a slice comes anyway.
        Some(left_ns) if left_ns < SLICE_NS => alarm::set_timer(cpu, now_ns + left_ns),
        Some(_) => {}
        None => {
            // Whoever limits it now says so afterwards.
            process.watches_time.swap(0, Ordering::AcqRel);
            if is_limited(process) {
                process.watches_time.store(1, Ordering::Relaxed);
            }
        }
    }
}

/// Whether the processor time of a process is limited.
pub fn is_limited(process: &ProcessRecord) -> bool {
    limit_of(process, RLIMIT_CPU) != u64::MAX
}

/// `SIGXCPU` at the soft limit and every second from then on, `SIGKILL` at the hard one.
fn limit_cpu_time<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, (user_ns, system_ns): (u64, u64)) {
    if !is_limited(process) {
        return;
    }
    let seconds = (user_ns + system_ns) / 1_000_000_000;
    let [soft, hard] = [&process.limits[2 * RLIMIT_CPU], &process.limits[2 * RLIMIT_CPU + 1]];
    if seconds >= hard.get() {
        signal::send_locked(cpu, process, SIGKILL, Origin::KERNEL);
    } else if seconds >= soft.get() {
        // As on Linux, where the next warning comes is seen by getrlimit.
        soft.set(soft.get() + 1);
        signal::send_locked(cpu, process, SIGXCPU, Origin::KERNEL);
    }
}

/// Whether the user of the calling process may have another thread. The superuser may have any number.
///
/// # Errors
/// `EAGAIN`: `RLIMIT_NPROC` is reached.
pub fn check_number<M: Machine>(call: &Call<M>) -> Result<(), Errno> {
    let limit = limit_of(call.process, RLIMIT_NPROC);
    let user = call.process.credentials.users[0].get();
    let is_exempt = [Capability::Limits, Capability::Administer].iter().any(|&may| permission::has(call.process, may));
    if limit == u64::MAX || user == 0 || is_exempt {
        return Ok(());
    }
    // One that waits to be reaped counts, too.
    if users::tasks(call.cpu, call.process) >= limit { Err(Errno::EAGAIN) } else { Ok(()) }
}
