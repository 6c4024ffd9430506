//! Clocks, sleeping, timers.

mod intervals;
mod posix;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::ThreadRecord;
use motet_protocol::wait;

pub use intervals::{alarm, alarm_expired, end_alarm, getitimer, setitimer};
pub use posix::{end_timers, timer_create, timer_delete, timer_getoverrun, timer_gettime, timer_settime};

use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cputime, mm, signal,
    tree::{self, lock_tree},
};

const NS: u64 = 1_000_000_000;
const CLOCK_REALTIME: i32 = 0;
const CLOCK_MONOTONIC: i32 = 1;
const CLOCK_PROCESS: i32 = 2;
const CLOCK_THREAD: i32 = 3;
const CLOCK_REALTIME_COARSE: i32 = 5;
const CLOCK_MONOTONIC_COARSE: i32 = 6;
const CLOCK_BOOTTIME: i32 = 7;
const CLOCK_TAI: i32 = 11;
/// Clock numbers that are made from an id: of a thread, not a process; and what of its time they show.
const OF_THREAD: i32 = 4;
const WHICH_TIME: i32 = 3;
const TIME_OF_USER: i32 = 1;
const NO_TIME: i32 = 3;
/// How exact the coarse clocks say they are. They are more exact; programs choose between clocks by this.
const COARSE_NS: u64 = 4_000_000;
const TIMER_ABSTIME: u64 = 1;
/// Clock ticks per second that user programs see (`times`, `/proc/<pid>/stat`).
pub const TICKS_PER_SECOND: u64 = 100;
/// Longest wait, about 146 years: larger values mean "for ever".
const WAIT_NS_MAX: u64 = u64::MAX / 4;

/// Reads a `timespec` as nanoseconds.
///
/// # Errors
/// `EFAULT`; `EINVAL` when it is negative or its nanoseconds are out of range.
pub fn read_timespec<M: Machine>(call: &Call<M>, address: u64) -> Result<u64, Stop> {
    let seconds = call.read_user_u64(address)?;
    let nanoseconds = call.read_user_u64(address.wrapping_add(8))?;
    if seconds >> 63 != 0 || nanoseconds >= NS {
        return Err(Errno::EINVAL.into());
    }
    Ok(seconds.saturating_mul(NS).saturating_add(nanoseconds).min(WAIT_NS_MAX))
}

/// Writes nanoseconds as a `timespec`.
///
/// # Errors
/// `EFAULT`.
pub fn write_timespec<M: Machine>(call: &Call<M>, address: u64, ns: u64) -> Result<(), Stop> {
    write_pair(call, address, ns / NS, ns % NS)
}

/// Writes nanoseconds as a `timeval`.
///
/// # Errors
/// `EFAULT`.
pub fn write_timeval<M: Machine>(call: &Call<M>, address: u64, ns: u64) -> Result<(), Stop> {
    write_pair(call, address, ns / NS, ns % NS / 1000)
}

/// The machine time of the deadline in the `timespec` at `address`.
///
/// # Errors
/// As [`read_timespec`].
pub fn deadline_of<M: Machine>(call: &Call<M>, address: u64, absolute: bool, realtime: bool) -> Result<u64, Stop> {
    let ns = read_timespec(call, address)?;
    Ok(deadline_from(call.cpu, ns, absolute, realtime))
}

/// The machine time `ns` from now, or at `ns` of a clock. Never 0.
pub fn deadline_from<M: Machine>(cpu: &Cpu<M>, ns: u64, absolute: bool, realtime: bool) -> u64 {
    let deadline = match (absolute, realtime) {
        (false, _) => cpu.reading_ns() + ns,
        (true, true) => ns.saturating_sub(cpu.pool.header().realtime_at_zero_ns.get()),
        (true, false) => ns,
    };
    deadline.max(1)
}

/// `clock_gettime(clock, timespec)`.
pub fn clock_gettime<M: Machine>(call: &Call<M>) -> SysResult {
    write_timespec(call, call.args[1], read_clock(call, call.args[0])?)?;
    Ok(0)
}

/// `clock_getres(clock, timespec)`.
pub fn clock_getres<M: Machine>(call: &Call<M>) -> SysResult {
    read_clock(call, call.args[0])?;
    if call.args[1] != 0 {
        let is_coarse = matches!(call.args[0] as i32, CLOCK_REALTIME_COARSE | CLOCK_MONOTONIC_COARSE);
        write_timespec(call, call.args[1], if is_coarse { COARSE_NS } else { 1 })?;
    }
    Ok(0)
}

/// `gettimeofday(timeval, timezone)`.
pub fn gettimeofday<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[0] != 0 {
        write_timeval(call, call.args[0], call.cpu.realtime_ns())?;
    }
    if call.args[1] != 0 {
        call.write_user(call.args[1], &[0; 8])?;
    }
    Ok(0)
}

/// `time(seconds)`.
pub fn time<M: Machine>(call: &Call<M>) -> SysResult {
    let seconds = call.cpu.realtime_ns() / NS;
    if call.args[0] != 0 {
        call.write_user(call.args[0], &seconds.to_le_bytes())?;
    }
    Ok(seconds)
}

/// `nanosleep(request, remaining)`.
pub fn nanosleep<M: Machine>(call: &Call<M>) -> SysResult {
    sleep(call, call.args[0], call.args[1], false, false)
}

/// `clock_nanosleep(clock, flags, request, remaining)`.
pub fn clock_nanosleep<M: Machine>(call: &Call<M>) -> SysResult {
    let [clock, flags, request, remaining, ..] = call.args;
    read_clock(call, clock)?;
    let clock = clock as i32;
    // The process's own time passes while others of its threads run; nothing else of these goes on while one sleeps.
    if !matches!(clock, CLOCK_REALTIME | CLOCK_MONOTONIC | CLOCK_PROCESS | CLOCK_BOOTTIME | CLOCK_TAI) {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let realtime = matches!(clock, CLOCK_REALTIME | CLOCK_TAI);
    sleep(call, request, remaining, flags & TIMER_ABSTIME != 0, realtime)
}

/// `pause()`: waits for a signal.
pub fn pause<M: Machine>(call: &Call<M>) -> SysResult {
    wait::prepare(call.thread);
    Err(Stop::Block)
}

/// `times(buffer)`: ticks of this process and its children.
pub fn times<M: Machine>(call: &Call<M>) -> SysResult {
    let tick_ns = NS / TICKS_PER_SECOND;
    let (user, system) = tree::charged_times_ns(call);
    let children = [call.process.child_times_ns[0].get(), call.process.child_times_ns[1].get()];
    if call.args[0] != 0 {
        for (index, ns) in [user, system, children[0], children[1]].into_iter().enumerate() {
            call.write_user(call.args[0] + 8 * index as u64, &(ns / tick_ns).to_le_bytes())?;
        }
    }
    Ok(call.cpu.reading_ns() / tick_ns)
}

fn sleep<M: Machine>(call: &Call<M>, request: u64, remaining: u64, absolute: bool, realtime: bool) -> SysResult {
    if call.timed_out() {
        return Ok(0);
    }
    if call.begins() {
        let deadline = deadline_of(call, request, absolute, realtime)?;
        call.thread.deadline_ns.set(deadline);
        // Where a signal that ends the sleep finds what to fill in.
        call.thread.scratch[0].set(if absolute { 0 } else { remaining });
    }
    if call.thread.deadline_ns.get() <= call.cpu.reading_ns() {
        return Ok(0);
    }
    wait::prepare(call.thread);
    Err(Stop::Block)
}

fn processor_ns<M: Machine>(call: &Call<M>) -> u64 {
    let (user_ns, system_ns) = tree::charged_times_ns(call);
    user_ns + system_ns
}

/// Tells an interrupted sleep how much of it was left.
pub fn sleep_interrupted<M: Machine>(call: &Call<M>) {
    let remaining = call.thread.scratch[0].get();
    if remaining != 0 {
        let left = call.thread.deadline_ns.get().saturating_sub(call.cpu.reading_ns());
        // The sleep fails with EINTR in any case; a bad address changes nothing more.
        let _ = write_timespec(call, remaining, left);
    }
}

/// Whether a clock shows the time of the machine, and not what threads have used.
pub fn is_of_machine(clock: u64) -> bool {
    matches!(clock as i32, CLOCK_REALTIME | CLOCK_MONOTONIC | 4..=9 | CLOCK_TAI)
}

fn read_clock<M: Machine>(call: &Call<M>, clock: u64) -> Result<u64, Errno> {
    match clock as i32 {
        CLOCK_REALTIME | CLOCK_REALTIME_COARSE | 8 | CLOCK_TAI => Ok(call.cpu.realtime_ns()),
        1 | 4 | 6 | 7 | 9 => Ok(call.cpu.reading_ns()),
        CLOCK_PROCESS => Ok(processor_ns(call)),
        CLOCK_THREAD => {
            cputime::charge(call.cpu, call.thread);
            Ok(call.thread.user_ns.get() + call.thread.system_ns.get())
        }
        clock if clock < 0 => read_clock_of(call, clock),
        _ => Err(Errno::EINVAL),
    }
}

/// The processor time of a process, or of a thread of the caller's, whose id the clock's number is made from (clock_getcpuclockid(3)).
fn read_clock_of<M: Machine>(call: &Call<M>, clock: i32) -> Result<u64, Errno> {
    let id = !(clock >> 3) as u32;
    cputime::charge(call.cpu, call.thread);
    let _tree = lock_tree(call.cpu);
    let (user_ns, system_ns) = if clock & OF_THREAD != 0 {
        let thread = if id == 0 { Some(call.thread) } else { signal::living_thread(call.cpu, id) };
        let own = |thread: &&ThreadRecord| core::ptr::eq(tree::process_of(call.cpu, thread), call.process);
        let thread = thread.filter(own).ok_or(Errno::EINVAL)?;
        (thread.user_ns.get(), thread.system_ns.get())
    } else {
        let is_own = id == 0 || id == call.thread.tid.get();
        let process = if is_own { Some(call.process) } else { tree::lookup(call.cpu, id) };
        tree::times_ns(call.cpu, process.ok_or(Errno::EINVAL)?)
    };
    match clock & WHICH_TIME {
        NO_TIME => Err(Errno::EINVAL),
        TIME_OF_USER => Ok(user_ns),
        _ => Ok(user_ns + system_ns),
    }
}

fn write_pair<M: Machine>(call: &Call<M>, address: u64, first: u64, second: u64) -> Result<(), Stop> {
    if address.is_multiple_of(8) {
        let space = mm::space_of(call.cpu, call.process);
        mm::write_word(call.cpu, space, address, first)?;
        return mm::write_word(call.cpu, space, address.wrapping_add(8), second);
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    call.write_user(address, &bytes)
}
