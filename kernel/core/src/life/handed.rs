//! From thread to thread without the run queue: a core that has given its thread to an idle core waits for the next one, and runs that at once.
//!
//! Before such a wait a core does nothing of what it does before a sleep ([`idle`](super::idle)), and after it nothing of what it does between two threads: its
//! timer stays set, its address space active. So it waits only where nothing is due, and goes the long way if anything is due afterwards but the thread, and
//! shoot-downs of that address space. The timer, set for the end of the last slice, ends a wait that becomes long.

use core::sync::atomic::Ordering;

use motet_abi::registers;
use motet_hal::{Interrupts, Machine};
use motet_layout::{CORE_IDLE, PoolAddr, ProcessRecord, THREAD_READY, ThreadRecord};
use motet_protocol::{Context, count, handed, ready, run_queue, timer, trace::Kind};

use super::{begin, idle::wait_for_interrupt, interrupt::rung, resume::runs_program, take_over};
use crate::{
    alarm::{program_after_wait, with_alarm},
    cpu::{Causes, Cpu},
    cputime::charge_core,
    extension, handover, mm, trace,
};

/// What may be there for ever, and concerns no idle core.
const HARMLESS: Causes = Causes::FIRST_COME;

/// If the thread that ran here has been given to an idle core, and nothing is due: waits for the next one. `None`: the general way goes on.
#[inline(always)]
pub fn next<M: Machine>(cpu: &Cpu<M>) -> Option<(&'static ThreadRecord, &'static ProcessRecord)> {
    if cpu.handover.is_given() { wait(cpu) } else { None }
}

#[inline(never)]
fn wait<M: Machine>(cpu: &Cpu<M>) -> Option<(&'static ThreadRecord, &'static ProcessRecord)> {
    cpu.handover.has_given(false);
    let (alarm, deadline_ns) = (&cpu.alarm, timer::next_deadline_ns(cpu));
    let is_limited = alarm.is_right(cpu.clock.offset_ns()) && alarm.is_set() && alarm.at_ns() <= deadline_ns;
    if !is_limited || cpu.is_polling() || cpu.is_due(Causes::ALL.without(HARMLESS)) {
        return None;
    }
    trace::stop(cpu);
    run_queue::announce_idle(cpu, CORE_IDLE);
    let before_ns = cpu.now_ns();
    charge_core(cpu, before_ns);
    let is_quiet = run_queue::has_no_thread(cpu)
        && mm::may_stay_active(cpu)
        && !cpu.is_due(Causes::LEAVES.union(Causes::SHOOTDOWN));
    let mut interrupts = Interrupts::EMPTY;
    if is_quiet {
        trace::about_core(cpu, Kind::Sleep, cpu.id);
        interrupts = wait_for_interrupt(cpu);
        trace::about_core(cpu, Kind::Awake, cpu.id);
    }
    let now_ns = cpu.now_ns();
    cpu.steer_clock(now_ns);
    cpu.cputime.woke(now_ns);
    let interrupts = with_alarm(cpu, interrupts, now_ns);
    let (wake, given) = run_queue::end_idle_with(cpu);
    if let Some(thread) = given {
        // First: should its giver have died, and this core reclaim that, the thread is on its way no more.
        thread.state.store(THREAD_READY, Ordering::Relaxed);
        // Its pages come and go, and its space is active here.
        cpu.pass();
        if interrupts == Interrupts::DOORBELL {
            count(&cpu.counters().heartbeat);
            rung(cpu);
            if let Some(process) = run(cpu, thread) {
                return Some((thread, process));
            }
        } else {
            cpu.due.defer(interrupts);
        }
        handed::make_ready(cpu, thread);
    } else {
        cpu.due.defer(interrupts);
    }
    cpu.has_woken(wake);
    None
}

/// Readies this core for the thread that it was handed, if nothing else is due. `None`: it is, or there is more to do for the thread.
#[inline(always)]
fn run<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<&'static ProcessRecord> {
    if cpu.is_due(Causes::ALL.without(HARMLESS))
        || !runs_program(thread)
        || registers::frame_isa(&thread.frame) != M::ISA
    {
        return None;
    }
    let process = cpu.pool.get::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)))?;
    mm::activate(cpu, mm::space_of(cpu, process)).ok()?;
    ready::take_past(cpu, cpu.own, thread);
    take_over(cpu, thread);
    let started_ns = begin(cpu, thread, process);
    handover::take_ext(cpu, thread);
    extension::take(cpu, thread);
    program_after_wait(cpu, started_ns);
    thread.charged_at_ns.set(started_ns);
    Some(process)
}
