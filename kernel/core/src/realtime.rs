//! Threads of real-time policies (sched(7)) on this core: preemption by more urgent ones, ends of slices, and the time that is left for other threads.
//!
//! A core that makes a real-time thread ready rings the core that the thread goes to (`motet_protocol::run_queue`), or, for itself, sets the attention word of
//! the thread that runs. That thread then calls [`gives_way`] before it runs user code. The end of a slice calls [`end_tick`]. For threads without a policy
//! or slice of their own, these only find that no real-time thread waits.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    process::{SCHED_FIFO, SCHED_RR},
};
use motet_hal::Machine;
use motet_layout::{CoreId, PENDING_UNSORTED, PENDING_URGENT, ThreadRecord};
use motet_protocol::{Context, cores::core_record, ready, run_queue, schedule};

use crate::{
    alarm, balance,
    cpu::{Causes, Cpu},
    cputime, handover,
};

/// How long a thread of SCHED_RR runs while its equals wait: Ker-ONE's (section 5.1), for its virtual machines.
pub const ROUND_NS: u64 = 33_000_000;
/// In each period ordinary threads that wait get what real-time threads may not use.
pub const PERIOD_US: u64 = 1_000_000;
/// What these may use of a period unless somebody says otherwise, as on Linux.
const LIMIT_US: u64 = 950_000;
/// Word of the header: there is no limit. Otherwise 1 more than the limit in microseconds, or 0: nobody has said otherwise.
const UNLIMITED: u32 = u32::MAX;

/// How long a thread runs while its equals wait, in nanoseconds.
#[inline]
pub fn slice_ns(thread: &ThreadRecord) -> u64 {
    match (schedule::of(thread).policy(), thread.slice_ns.get()) {
        (SCHED_RR, _) => ROUND_NS,
        (_, 0) => alarm::SLICE_NS,
        (_, own) => own,
    }
}

/// What real-time threads may use of a core in a period while others wait, in microseconds. `None`: all.
pub fn limit_us<M: Machine>(cpu: &Cpu<M>) -> Option<u64> {
    match cpu.pool.header().realtime_limit.load(Ordering::Relaxed) {
        UNLIMITED => None,
        0 => Some(LIMIT_US),
        said => Some(u64::from(said) - 1),
    }
}

/// Sets that limit by the text of `/proc/sys/kernel/sched_rt_runtime_us`; -1 is none.
///
/// # Errors
/// `EINVAL`: it is no number, or more than a period.
pub fn set_limit<M: Machine>(cpu: &Cpu<M>, text: &[u8]) -> Result<(), Errno> {
    let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?.trim();
    let word = match text.parse::<i64>() {
        Ok(-1) => UNLIMITED,
        Ok(us @ 0..) if us as u64 <= PERIOD_US => us as u32 + 1,
        _ => return Err(Errno::EINVAL),
    };
    cpu.pool.header().realtime_limit.store(word, Ordering::Relaxed);
    Ok(())
}

/// How a thread is scheduled has changed: its core looks, at once.
pub fn changed<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    let Some(core) = CoreId::from_raw(thread.core.load(Ordering::Relaxed)) else { return };
    core_record(cpu, core).pending.fetch_or(PENDING_UNSORTED, Ordering::Release);
    if core != cpu.id {
        cpu.ring(core);
    } else if let Some(running) = cpu.object::<ThreadRecord>(cpu.own.current_thread.load(Ordering::Relaxed)) {
        running.attention.store(1, Ordering::Release);
    }
}

/// Preempts the running thread if a more urgent one is ready. `true`: it no longer belongs to this core.
#[inline]
pub fn gives_way<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> bool {
    if cpu.is_due(Causes::MOVED) {
        look_again(cpu, thread);
    }
    if cpu.is_due(Causes::HELD) {
        end_period(cpu);
    }
    match ready::first_realtime(cpu, cpu.own) {
        Some(first) if is_more_urgent(first, thread) => {
            make_way(cpu, thread);
            true
        }
        _ => false,
    }
}

#[cold]
fn look_again<M: Machine>(cpu: &Cpu<M>, running: &ThreadRecord) {
    let changed = cpu.own.pending.fetch_and(!(PENDING_URGENT | PENDING_UNSORTED), Ordering::SeqCst);
    run_queue::collect(cpu);
    if changed & PENDING_UNSORTED != 0 {
        ready::sort(cpu, cpu.own);
        // From now on it may be another group that it uses the core for.
        cputime::charge(cpu, running);
        ready::take_past(cpu, cpu.own, running);
    }
}

/// Whether a thread that waits would take the core from the running one if it were woken: real-time threads are not held back, and all that have
/// come are among the ready ones.
#[inline(always)]
pub fn would_take_core<M: Machine>(cpu: &Cpu<M>, waiter: &ThreadRecord, running: &ThreadRecord) -> bool {
    is_more_urgent(waiter, running)
        && ready::first_realtime(cpu, cpu.own).is_none_or(|first| is_more_urgent(waiter, first))
}

#[inline(always)]
fn is_more_urgent(first: &ThreadRecord, running: &ThreadRecord) -> bool {
    schedule::of(first).priority() > schedule::of(running).priority()
}

/// The running thread goes among the ready ones before its equals, unless its slice is over.
#[inline]
pub fn make_way<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    cputime::charge(cpu, thread);
    if loses_place(thread) { handover::yield_core(cpu, thread) } else { handover::step_aside(cpu, thread) }
}

/// Whether the equals come first of a thread that gives way and has been charged: it has run for its slice, and begins another one. `SCHED_FIFO` threads keep
/// their place.
#[inline(always)]
pub fn loses_place(thread: &ThreadRecord) -> bool {
    schedule::of(thread).policy() != SCHED_FIFO && is_round_over(thread)
}

/// Whether the thread, which has been charged, has run for its slice. If so, it begins another one.
#[inline(always)]
fn is_round_over(thread: &ThreadRecord) -> bool {
    let is_over = has_used_slice(thread);
    if is_over {
        begin_slice(thread);
    }
    is_over
}

/// The thread, which has been charged, begins another slice.
#[inline(always)]
pub fn begin_slice(thread: &ThreadRecord) {
    thread.slice_begun_ns.set(thread.user_ns.get());
}

/// Whether the thread, which has been charged, has run for its slice.
#[inline(always)]
pub fn has_used_slice(thread: &ThreadRecord) -> bool {
    thread.user_ns.get().saturating_sub(thread.slice_begun_ns.get()) >= slice_ns(thread)
}

/// What becomes of a thread whose time is up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// Its equals come first, as for any thread.
    Yields,
    /// It goes on, and this core's timer is set.
    GoesOn,
    /// It no longer belongs to this core.
    Gone,
}

/// The timer has interrupted the running thread while others wait for its core.
#[inline]
pub fn end_tick<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Tick {
    if has_plain_slice(thread) {
        return Tick::Yields;
    }
    end_long_tick(cpu, thread)
}

/// Whether the thread's slice is over whenever the timer interrupts it.
#[inline(always)]
fn has_plain_slice(thread: &ThreadRecord) -> bool {
    !schedule::of(thread).is_realtime() && thread.slice_ns.get() == 0
}

/// Whether the slice of the running thread, an ordinary one that has been charged, is over now that the timer interrupts it and others wait: what
/// [`end_tick`] would do is to let it yield.
#[inline(always)]
pub fn is_slice_over(thread: &ThreadRecord) -> bool {
    thread.slice_ns.get() == 0 || has_used_slice(thread)
}

#[cold]
fn end_long_tick<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Tick {
    let schedule = schedule::of(thread);
    let now_ns = cputime::charge(cpu, thread);
    if schedule.is_realtime() {
        balance::share_waiting(cpu);
        if is_limit_reached(cpu, now_ns) {
            make_way(cpu, thread);
            return Tick::Gone;
        }
    }
    let is_over = is_round_over(thread);
    if is_over && !schedule.is_realtime() {
        return Tick::Yields;
    }
    let equal = |first: &ThreadRecord| schedule::of(first).priority() == schedule.priority();
    if is_over && schedule.policy() == SCHED_RR && ready::first_realtime(cpu, cpu.own).is_some_and(equal) {
        handover::yield_core(cpu, thread);
        return Tick::Gone;
    }
    go_on(cpu, thread, now_ns);
    Tick::GoesOn
}

/// Sets the timer for the running thread, which has been charged, and whose slice is not over.
#[inline(always)]
pub fn go_on<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, now_ns: u64) {
    let left_ns = slice_ns(thread).saturating_sub(thread.user_ns.get().saturating_sub(thread.slice_begun_ns.get()));
    alarm::program_slice(cpu, now_ns, left_ns.min(alarm::SLICE_NS));
}

/// Whether real-time threads have had their part of the period, and others wait. Then these come first until its end.
fn is_limit_reached<M: Machine>(cpu: &Cpu<M>, now_ns: u64) -> bool {
    let (Some(limit_us), true) = (limit_us(cpu), ready::has_ordinary(cpu.own)) else { return false };
    if now_ns.saturating_sub(cpu.own.realtime_since_ns.get()) >= 1000 * PERIOD_US {
        cpu.own.realtime_since_ns.set(now_ns);
        cpu.own.realtime_before_ns.set(ready::realtime_ns(cpu.own));
    }
    let ran_ns = ready::realtime_ns(cpu.own).saturating_sub(cpu.own.realtime_before_ns.get());
    let is_reached = ran_ns >= 1000 * limit_us;
    ready::hold(cpu.own, is_reached);
    is_reached
}

#[cold]
fn end_period<M: Machine>(cpu: &Cpu<M>) {
    if cpu.now_ns().saturating_sub(cpu.own.realtime_since_ns.get()) >= 1000 * PERIOD_US {
        ready::hold(cpu.own, false);
    }
}
