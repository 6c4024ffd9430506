//! Limits of processes that run (getrlimit(2)): `RLIMIT_CPU`, `RLIMIT_NPROC`.

use motet_abi::{
    Errno,
    signal::{SIGKILL, SIGXCPU},
    time::{RLIMIT_CPU, RLIMIT_NPROC},
};
use motet_hal::Machine;
use motet_layout::{ProcessRecord, ThreadRecord};

use crate::tree::limit_of;
use crate::{
    call::Call,
    cpu::Cpu,
    cputime,
    permission::{self, Capability},
    signal::{self, Origin},
    tree::{lock_tree, process_of, times_ns, users},
};

/// A timer has interrupted the running thread: its process may have had its time.
#[inline]
pub fn check_cpu_time<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let process = process_of(cpu, thread);
    if limit_of(process, RLIMIT_CPU) != u64::MAX {
        limit_cpu_time(cpu, thread, process);
    }
}

/// `SIGXCPU` at the soft limit and every second from then on, `SIGKILL` at the hard one.
#[cold]
fn limit_cpu_time<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    cputime::charge(cpu, thread);
    let _tree = lock_tree(cpu);
    let (user_ns, system_ns) = times_ns(cpu, process);
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
