//! Interval timers (setitimer(2)): by real time, and by the processor time of a process.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    time::{ITIMER_PROF, ITIMER_VIRTUAL},
};
use motet_hal::Machine;
use motet_layout::{PoolAddr, PosixTimerRecord, ProcessRecord, TIMER_ALARM, TIMER_POSIX};
use motet_protocol::{Context, timer};

use super::{NS, WAIT_NS_MAX, write_timeval};
use crate::{
    alarm,
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    signal,
    tree::{self, lock_tree},
};

/// Shortest interval of a repeated alarm: a shorter one would leave its process no time to run.
const ALARM_INTERVAL_NS_MIN: u64 = 50_000;
/// A timer that is set never has less left than can be told.
const LEFT_NS_MIN: u64 = 1000;

/// `alarm(seconds)`: returns the seconds that were left.
pub fn alarm<M: Machine>(call: &Call<M>) -> SysResult {
    let (left, _) = set_alarm(call, (call.args[0] & 0xffff_ffff) * NS, 0);
    // To the nearest second, but an armed timer never counts as none.
    Ok((left.saturating_add(NS / 2) / NS).max(u64::from(left != 0)))
}

/// `setitimer(which, new, old)`.
pub fn setitimer<M: Machine>(call: &Call<M>) -> SysResult {
    let which = call.args[0] as u32;
    if which > ITIMER_PROF {
        return Err(Errno::EINVAL.into());
    }
    let timeval = |at: u64| -> Result<u64, Stop> {
        let (seconds, micros) = (call.read_user_u64(at)?, call.read_user_u64(at + 8)?);
        if seconds >> 63 != 0 || micros >= 1_000_000 {
            Err(Errno::EINVAL.into())
        } else {
            Ok(seconds.saturating_mul(NS).saturating_add(micros * 1000))
        }
    };
    // No new value stops the timer, as on Linux, which calls that a misfeature.
    let (interval, value) = match call.args[1] {
        0 => (0, 0),
        new => (timeval(new)?, timeval(new.wrapping_add(16))?),
    };
    if call.args[2] != 0 {
        call.await_pages(call.args[2], 32)?;
    }
    let (value, interval) = (value.min(WAIT_NS_MAX), interval.min(WAIT_NS_MAX));
    let (left, old_interval) = match by_processor_time(which) {
        Some(by) => set_by_time(call, by, value, interval),
        None => set_alarm(call, value, interval),
    };
    write_itimer(call, call.args[2], left, old_interval)?;
    Ok(0)
}

/// `getitimer(which, value)`.
pub fn getitimer<M: Machine>(call: &Call<M>) -> SysResult {
    let which = call.args[0] as u32;
    if which > ITIMER_PROF {
        return Err(Errno::EINVAL.into());
    }
    let (left, interval) = match by_processor_time(which) {
        Some(by) => {
            let used = tree::charged_times_ns(call);
            let _tree = lock_tree(call.cpu);
            left_by_time(call.process, by, used)
        }
        None => alarm_left(call.cpu, call.process),
    };
    write_itimer(call, call.args[1], left, interval)?;
    Ok(0)
}

/// This core's first timer is a process's, and has expired: its real-time interval timer, or a POSIX timer.
///
/// Such timers are armed, disarmed and taken under the tree lock only: the process is alive, and nobody else arms it again.
pub fn alarm_expired<M: Machine>(cpu: &Cpu<M>) {
    let _tree = lock_tree(cpu);
    // Who gets the signal reads no earlier time than that it was set for.
    let now_ns = cpu.reading_ns();
    let mut taken = None;
    timer::expire_first(cpu, now_ns, |node| {
        let is_alarm = alarm::wants_tree(node);
        taken = is_alarm.then_some(node);
        is_alarm
    });
    let Some(node) = taken else { return };
    if node.kind.get() == TIMER_POSIX {
        if let Some(timer) = cpu.pool.get::<PosixTimerRecord>(PoolAddr(node.owner.get())) {
            signal::expired(cpu, timer);
        }
        return;
    }
    let process = cpu.pool.at::<ProcessRecord>(PoolAddr(node.owner.get()));
    let interval = process.alarm_interval_ns.get();
    if interval != 0 {
        timer::arm(cpu, &process.alarm, now_ns + interval.max(ALARM_INTERVAL_NS_MIN));
    }
    signal::send_locked(cpu, process, signal::SIGALRM, signal::Origin::KERNEL);
}

/// Disarms the timer of a process that ends.
pub fn end_alarm<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) {
    if process.alarm.kind.get() != 0 {
        let _tree = lock_tree(cpu);
        timer::disarm(cpu, &process.alarm);
    }
}

/// Which interval timer by processor time that is (the first one by time in user mode alone); `None`: it is by real time.
fn by_processor_time(which: u32) -> Option<usize> {
    which.checked_sub(ITIMER_VIRTUAL).map(|by| by as usize)
}

/// Sets an interval timer by processor time. Returns what was left of it, and its interval.
fn set_by_time<M: Machine>(call: &Call<M>, by: usize, value_ns: u64, interval_ns: u64) -> (u64, u64) {
    let (cpu, process) = (call.cpu, call.process);
    let used = tree::charged_times_ns(call);
    let _tree = lock_tree(cpu);
    let old = left_by_time(process, by, used);
    let at_ns = if value_ns == 0 { 0 } else { used_ns(by, used) + value_ns };
    process.intervals[2 * by].set(at_ns);
    process.intervals[2 * by + 1].set(interval_ns);
    if value_ns != 0 {
        process.watches_time.store(1, Ordering::Relaxed);
        alarm::set_timer(cpu, cpu.now_ns() + value_ns.min(alarm::SLICE_NS));
    }
    old
}

/// What a process has used of the time that such a timer goes by.
fn used_ns(by: usize, (user_ns, system_ns): (u64, u64)) -> u64 {
    if by == 0 { user_ns } else { user_ns + system_ns }
}

fn left_by_time(process: &ProcessRecord, by: usize, used: (u64, u64)) -> (u64, u64) {
    let at_ns = process.intervals[2 * by].get();
    // One that is about to expire has something left.
    let left_ns = if at_ns == 0 { 0 } else { at_ns.saturating_sub(used_ns(by, used)).max(LEFT_NS_MIN) };
    (left_ns, process.intervals[2 * by + 1].get())
}

fn set_alarm<M: Machine>(call: &Call<M>, value_ns: u64, interval_ns: u64) -> (u64, u64) {
    let process = call.process;
    let _tree = lock_tree(call.cpu);
    let old = alarm_left(call.cpu, process);
    timer::disarm(call.cpu, &process.alarm);
    process.alarm_interval_ns.set(interval_ns);
    if value_ns != 0 {
        process.alarm.kind.set(TIMER_ALARM);
        process.alarm.owner.set(call.cpu.raw(process));
        timer::arm(call.cpu, &process.alarm, call.cpu.reading_ns() + value_ns);
        alarm::reprogram_timer(call.cpu);
    }
    old
}

fn alarm_left<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> (u64, u64) {
    let armed = process.alarm.core.load(Ordering::Relaxed) != 0;
    let left = if armed { process.alarm.deadline_ns.get().saturating_sub(cpu.reading_ns()).max(1) } else { 0 };
    (left, process.alarm_interval_ns.get())
}

fn write_itimer<M: Machine>(call: &Call<M>, address: u64, left_ns: u64, interval_ns: u64) -> Result<(), Stop> {
    if address == 0 {
        return Ok(());
    }
    write_timeval(call, address, interval_ns)?;
    write_timeval(call, address + 16, left_ns)
}
