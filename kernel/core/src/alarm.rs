//! The next interrupt of this core by its timer, or, in timed machines, by the simulator's alarm; and the threads that expired timers wake.

use core::sync::atomic::Ordering;

use motet_hal::{Interrupts, Machine};
use motet_layout::{
    CoreId, PoolAddr, TIMER_ALARM, TIMER_MESSAGES, TIMER_NETWORK, TIMER_PEERS, TIMER_POSIX, TIMER_WAIT, ThreadRecord,
    TimerNode, WAKE_TIMEOUT,
};
use motet_protocol::{Context, timer, wait};

use crate::cpu::Cpu;

/// Longest time a thread runs while another waits for its core.
pub const SLICE_NS: u64 = 10_000_000;

/// Timed machines have no timer interrupt: the simulator rings the core when its time comes.
pub fn with_alarm<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts, now_ns: u64) -> Interrupts {
    let due = cpu.is_timed() && cpu.alarm.is_set() && now_ns >= cpu.alarm.at_ns();
    if due { interrupts.union(Interrupts::TIMER) } else { interrupts }
}

/// Wakes threads whose time has come by `now_ns`. `true`: the next timer is a process's, and has expired, too.
pub fn expire_waits<M: Machine>(cpu: &Cpu<M>, now_ns: u64) -> bool {
    while let Some(node) = timer::expire_first(cpu, now_ns, |node| expire_wait(cpu, node)) {
        if wants_tree(node) {
            return true;
        }
    }
    false
}

/// Whether a timer sends a signal when it expires, which wants the process tree.
#[inline(always)]
pub fn wants_tree(node: &TimerNode) -> bool {
    matches!(node.kind.get(), TIMER_ALARM | TIMER_POSIX)
}

/// The timer of a wait wakes its thread. `false`: it is no such timer, and stays armed.
pub fn expire_wait<M: Machine>(cpu: &Cpu<M>, node: &'static TimerNode) -> bool {
    match node.kind.get() {
        TIMER_WAIT => {
            if let Some(thread) = cpu.pool.get::<ThreadRecord>(PoolAddr(node.owner.get())) {
                wait::wake_thread(cpu, thread, WAKE_TIMEOUT);
            }
            true
        }
        TIMER_ALARM | TIMER_POSIX => false,
        // Rung, and not only noted: who ends a slice drops what is noted beside the timer.
        TIMER_MESSAGES | TIMER_PEERS | TIMER_NETWORK => {
            cpu.ring(CoreId::new(cpu.island(), 0));
            true
        }
        other => {
            cpu.log(format_args!("a timer of unknown kind {other} is dropped: its record is damaged"));
            true
        }
    }
}

/// The earliest deadline of this core, be it of its timers or of the thread that waits in it (`life::stacked`); `u64::MAX`: there is none.
#[inline(always)]
pub fn next_deadline_ns<M: Machine>(cpu: &Cpu<M>) -> u64 {
    timer::next_deadline_ns(cpu).min(cpu.stacked.deadline_ns())
}

/// Sets the timer for the earliest deadline or the end of the slice.
pub fn program_timer<M: Machine>(cpu: &Cpu<M>, now_ns: u64) {
    program_slice(cpu, now_ns, SLICE_NS);
}

/// As [`program_timer`], where the slice has `left_ns` left.
#[inline(always)]
pub fn program_slice<M: Machine>(cpu: &Cpu<M>, now_ns: u64, left_ns: u64) {
    set_timer_at(cpu, slice_deadline_ns(cpu, now_ns, left_ns), || now_ns);
}

#[inline(always)]
fn slice_deadline_ns<M: Machine>(cpu: &Cpu<M>, now_ns: u64, left_ns: u64) -> u64 {
    // A thread may become ready without a doorbell while this one runs, so the slice is always limited.
    next_deadline_ns(cpu).min(now_ns + left_ns).min(cpu.crossing.gives_up_at(now_ns))
}

/// As [`program_timer`], after a wait in which the timer stayed set for the end of an earlier slice: less than half of that is too little for this one.
#[inline(always)]
pub fn program_after_wait<M: Machine>(cpu: &Cpu<M>, now_ns: u64) {
    let deadline_ns = slice_deadline_ns(cpu, now_ns, SLICE_NS);
    if cpu.alarm.at_ns() < deadline_ns.min(now_ns + SLICE_NS / 2) {
        set_timer_exactly(cpu, deadline_ns);
    } else {
        set_timer_at(cpu, deadline_ns, || now_ns);
    }
}

/// Sets the timer for a thread with which this core goes on after a sleep that has just ended: as for one that begins to run.
pub fn begin_slice<M: Machine>(cpu: &Cpu<M>) {
    set_timer_exactly(cpu, timer::next_deadline_ns(cpu).min(cpu.cputime.busy_since_ns() + SLICE_NS));
}

/// This core begins to run a function that another one has called. Most return before a slice is over, so a timer that is set already is kept: one time in so many
/// calls it is set, and interrupts the call that runs then, or a sleep ([`set_timer_by`]).
#[inline(always)]
pub fn limit_call<M: Machine>(cpu: &Cpu<M>) {
    if !cpu.alarm.is_set() {
        limit_call_now(cpu);
    }
}

#[cold]
#[inline(never)]
fn limit_call_now<M: Machine>(cpu: &Cpu<M>) {
    reprogram_timer(cpu);
}

/// As [`set_timer`], but a timer that interrupts earlier stays set.
#[inline(always)]
pub fn set_timer_by<M: Machine>(cpu: &Cpu<M>, deadline_ns: u64) {
    if cpu.alarm.at_ns() > deadline_ns || !cpu.alarm.is_right(cpu.clock.offset_ns()) {
        set_timer(cpu, deadline_ns);
    }
}

/// A timer was armed on this core while a thread runs: lets its deadline interrupt.
pub fn reprogram_timer<M: Machine>(cpu: &Cpu<M>) {
    program_timer(cpu, cpu.now_ns());
}

pub fn set_timer<M: Machine>(cpu: &Cpu<M>, deadline_ns: u64) {
    set_timer_at(cpu, deadline_ns, || cpu.now_ns());
}

/// As [`set_timer`], where the caller may know the time already.
#[inline(always)]
pub fn set_timer_at<M: Machine>(cpu: &Cpu<M>, deadline_ns: u64, now_ns: impl FnOnce() -> u64) {
    let programmed = cpu.alarm.at_ns();
    let offset_ns = cpu.clock.offset_ns();
    // The clock may have been moved since.
    let is_right = cpu.alarm.is_right(offset_ns);
    // An interrupt that comes too early is harmless; reprogramming costs more.
    if is_right && programmed <= deadline_ns && deadline_ns != u64::MAX && programmed > now_ns() {
        return;
    }
    if programmed != deadline_ns || !is_right {
        if cpu.is_timed() {
            return set_alarm(cpu, deadline_ns);
        }
        cpu.alarm.set_by(deadline_ns, offset_ns);
        let local = if deadline_ns == u64::MAX { u64::MAX } else { deadline_ns.wrapping_sub(offset_ns) };
        cpu.machine.set_timer(local);
    }
}

/// As [`set_timer`], but not earlier: an early alarm would end a sleep.
#[inline(always)]
pub fn set_timer_exactly<M: Machine>(cpu: &Cpu<M>, deadline_ns: u64) {
    if cpu.is_timed() {
        return set_alarm(cpu, deadline_ns);
    }
    cpu.alarm.clear();
    set_timer(cpu, deadline_ns);
}

/// Timed machines: sets when the simulator rings this core.
fn set_alarm<M: Machine>(cpu: &Cpu<M>, deadline_ns: u64) {
    cpu.alarm.set(deadline_ns);
    cpu.own.alarm_ns.store(deadline_ns, Ordering::Relaxed);
}
