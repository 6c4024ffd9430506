//! Interrupts, and how each is served: timers, the host's input, engines and devices, other islands.

use core::sync::atomic::Ordering;

use motet_hal::{Interrupts, Machine};
use motet_layout::ThreadRecord;
use motet_protocol::{Context, count, noncoherent, timer, trace::Kind};

use super::messages;
use crate::{
    alarm,
    cpu::Cpu,
    crossing::{make_returned_ready, migration},
    death,
    due::{begin_budget, poll},
    extension, file, fpga, hotplug,
    kinds::{dma, service},
    mm, net, peers,
    process::limits,
    signal, time, trace,
};

/// Takes interrupts between two threads.
#[cold]
pub fn look<M: Machine>(cpu: &Cpu<M>) {
    begin_budget(cpu);
    let interrupts = poll(cpu).union(cpu.due.take_deferred());
    if interrupts != Interrupts::EMPTY {
        take_interrupts(cpu, interrupts);
    }
    signal::owner::tell(cpu);
    if !mm::return_slabs(cpu) {
        take_interrupts(cpu, cpu.due.take_deferred());
    }
    cpu.pass();
}

/// Serves an interrupt that came while a function of a thread ran here that another core had called.
pub fn interrupted_call<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, interrupts: Interrupts) {
    let interrupts = take_interrupts(cpu, interrupts);
    alarm::reprogram_timer(cpu);
    if interrupts.contains(Interrupts::TIMER) {
        limits::check_cpu_time(cpu, thread);
    }
}

/// Serves interrupts that were taken while user code ran; returns them.
pub fn take_interrupts<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) -> Interrupts {
    if cpu.is_timed() && interrupts.contains(Interrupts::DOORBELL) {
        // Rung for while awake: it wakes nobody.
        let core = cpu.own;
        core.rung_at_ns.store(0, Ordering::Relaxed);
        core.written_at_ns.store(0, Ordering::Relaxed);
    }
    let now_ns = cpu.now_ns();
    cpu.steer_clock(now_ns);
    let interrupts = alarm::with_alarm(cpu, interrupts, now_ns);
    handle_interrupts(cpu, interrupts);
    make_returned_ready(cpu);
    interrupts
}

/// Serves interrupts that were taken, now or before: expired timers, input for the console.
#[inline]
pub fn handle_interrupts<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) {
    let interrupts = interrupts.union(cpu.due.take_deferred());
    count(&cpu.counters().heartbeat);
    if interrupts != Interrupts::EMPTY {
        act_on(cpu, interrupts);
    }
    extension::hidden::look(cpu);
    signal::owner::tell(cpu);
    if timer::next_deadline_ns(cpu) != u64::MAX {
        expire_timers(cpu);
    }
}

/// So many timers of processes expire at once: a process may have many that are due at the same time.
const EXPIRED_AT_ONCE: usize = 16;

#[inline(never)]
fn expire_timers<M: Machine>(cpu: &Cpu<M>) {
    // One moment for all, so that a short interval armed again does not keep the core here.
    let now_ns = cpu.now_ns();
    for _ in 0..EXPIRED_AT_ONCE {
        if !alarm::expire_waits(cpu, now_ns) {
            return;
        }
        time::alarm_expired(cpu);
    }
    // The rest comes with the next interrupt of the timer: that is set for the first deadline, which is over.
}

#[inline(never)]
fn act_on<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) {
    if interrupts.contains(Interrupts::TIMER) {
        cpu.alarm.clear();
        fpga::catch_up(cpu);
    }
    if interrupts.contains(Interrupts::DOORBELL) {
        rung(cpu);
    } else if interrupts.contains(Interrupts::NETWORK) {
        net::look(cpu);
    }
}

/// This core was rung: does what that may have been for, but for threads.
#[inline(always)]
pub fn rung<M: Machine>(cpu: &Cpu<M>) {
    count(&cpu.counters().doorbells_taken);
    trace::about_core(cpu, Kind::Rung, cpu.id);
    if cpu.id.index() == 0 {
        file::host_rang(cpu);
        death::reclaim(cpu);
        if peers::are_there(cpu) {
            messages::take(cpu);
        }
    }
    if cpu.machine.hidden_harts() != 0 && cpu.id.index_in_island() == 0 {
        hotplug::see_to_hidden_harts(cpu);
    }
    if cpu.crossing.migrates() || !cpu.is_timed() || cpu.islands.are_uncached() {
        act_on_engines(cpu);
    }
    net::look(cpu);
    service::rung(cpu);
    fpga::rung(cpu);
}

/// A doorbell may have been an engine's, or another island's over a link.
#[inline(never)]
fn act_on_engines<M: Machine>(cpu: &Cpu<M>) {
    if cpu.crossing.migrates() {
        migration::come_home(cpu);
    }
    if !cpu.is_timed() {
        dma::rung(cpu);
    }
    if cpu.islands.are_uncached() {
        noncoherent::give_back_withdrawn(cpu);
    }
}
