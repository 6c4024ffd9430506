//! Switches from guest to guest: threads that run guests follow each other without what only programs need (address space, floating point,
//! the dispatch of a system call).
//!
//! In general an interrupt of the real core may be about anything: doorbells, expired timers, signals, threads that have come. Mostly, though, a guest is
//! interrupted because another guest's timer is due, or because its slice is over. If a few words say that nothing else is due, this module finds the next
//! thread by the rules of [`realtime`], and changes no other thread's state. It takes a waiting thread out of its wait as any waker does, by the
//! compare-and-swap, under the lock of the timers. So any other waker, or the thread's end, comes either before or after (`docs/protocols/wake-up.md`).

use core::{cell::Cell, sync::atomic::Ordering};

use motet_abi::{registers, time::RLIMIT_CPU};
use motet_hal::{Machine, Trap};
use motet_layout::{PoolAddr, ProcessRecord, TIMER_WAIT, ThreadRecord, TimerNode, WAKE_NONE, WAKE_TIMEOUT, marks};
use motet_protocol::{Context, count, ready, run_queue, schedule, timer, wait};

use super::{
    begin,
    call::{conclude, end_wait, note_pause},
    rounds, stacked, take_over,
};
use crate::{
    alarm,
    call::{Call, Stop},
    cpu::{Causes, Cpu},
    cputime, file, fpga, handover, mm, process, realtime, signal, trace,
    tree::{limits, process_of},
    vm::{self, is_timer_alone, may_go_on},
};

/// Continues the system call by which the thread runs a guest, and then those of further such threads, as long as these are next on this core. Returns
/// the thread that needs something else; `None`: no thread belongs to this core any more.
#[inline(never)]
pub fn serve_guests<M: Machine>(
    cpu: &Cpu<M>,
    mut thread: &'static ThreadRecord,
    mut process: &'static ProcessRecord,
) -> Option<(&'static ThreadRecord, &'static ProcessRecord)> {
    let mut first = None;
    loop {
        let call = Call { cpu, thread, process, args: registers::syscall_args_of(M::ISA, &thread.frame), isa: M::ISA };
        // The call's first dispatch may have ended with an interrupt.
        let is_interrupted = first.is_none() && cpu.due.has_deferred();
        let result = if is_interrupted { Err(Stop::Again) } else { vm::go_on(&call, first.take()) };
        if !matches!(result, Err(Stop::Again | Stop::Block)) {
            file::guest_left(cpu, thread);
        }
        let next = if result == Err(Stop::Again) { next_after(cpu, thread, process) } else { Next::Undecided };
        (thread, process) = match next {
            Next::Thread(next) => begin_guest(cpu, next),
            Next::Left(left) => {
                (thread, process, first) = (left.thread, left.process, left.trap);
                if first.is_some() {
                    continue;
                }
                (thread, process)
            }
            Next::First => next_guest(cpu)?,
            Next::Undecided if conclude(cpu, thread, process, result).is_some() => break,
            Next::Undecided => next_guest(cpu)?,
        };
        if thread.attention.load(Ordering::Relaxed) != 0 {
            break;
        }
        end_wait(cpu, thread);
        thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
    }
    // Guests run whatever address space is active.
    if mm::activate(cpu, mm::space_of(cpu, process)).is_err() {
        process::exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
        return None;
    }
    Some((thread, process))
}

/// Takes the thread that is next on this core, if that is in the middle of running a guest, and this core has nothing else to do first.
#[inline(always)]
fn next_guest<M: Machine>(cpu: &Cpu<M>) -> Option<(&'static ThreadRecord, &'static ProcessRecord)> {
    // What the FPGA has to tell is told here; and who is next is no question of slices, which is what conditions that last are about.
    const TO_LOOP: Causes = TO_SCHEDULER
        .without(Causes::FPGA)
        .without(Causes::FIRST_COME)
        .without(Causes::HELD)
        .without(Causes::CALLS)
        .without(Causes::AWAY);
    if cpu.is_due(TO_LOOP) || !run_queue::first(cpu).is_some_and(vm::may_go_on) {
        return None;
    }
    cpu.own.current_thread.store(0, Ordering::Relaxed);
    fpga::catch_up(cpu);
    Some(begin_guest(cpu, run_queue::next(cpu)?))
}

/// Goes on with a thread that this core has taken, and that is in the middle of running a guest.
#[inline(always)]
fn begin_guest<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
) -> (&'static ThreadRecord, &'static ProcessRecord) {
    let process = process_of(cpu, thread);
    begin_at(cpu, thread, process);
    (thread, process)
}

/// As [`begin_guest`]; returns the time.
#[inline(always)]
pub fn begin_at<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> u64 {
    M::mark::<{ marks::GUEST_NEXT }>();
    trace::stop(cpu);
    take_over(cpu, thread);
    let started_ns = begin(cpu, thread, process);
    if !mm::may_stay_active(cpu) {
        mm::deactivate(cpu);
    }
    handover::take_ext(cpu, thread);
    alarm::program_timer(cpu, started_ns);
    thread.charged_at_ns.set(started_ns);
    started_ns
}

/// What is left when guests have taken turns in this core.
#[derive(Clone, Copy)]
pub struct Left {
    /// The one that runs here.
    pub thread: &'static ThreadRecord,
    pub process: &'static ProcessRecord,
    /// What it has stopped at, and what is not served.
    pub trap: Option<Trap>,
}

/// What a core goes on with, whose guest has been interrupted.
#[derive(Clone, Copy)]
pub enum Next {
    /// This thread, which is in the middle of running a guest, and which this core carries. The other one is among the ready ones.
    Thread(&'static ThreadRecord),
    /// The thread that is left after guests have taken turns ([`stacked`], [`rounds`]). It runs here.
    Left(Left),
    /// The first of the ready ones: the thread is among them now.
    First,
    /// The call pauses, and the scheduler does whatever is due.
    Undecided,
}

/// Decides what this core runs next, after an interrupt in the thread's guest. [`Cpu::due`] has the interrupt.
pub fn next_after<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> Next {
    let now_ns = cpu.now_ns();
    if !is_timer_alone(cpu, cpu.due.deferred()) || is_else_due(cpu, thread, process, now_ns, Causes::INTERRUPTS) {
        return Next::Undecided;
    }
    if timer::next_deadline_ns(cpu) <= now_ns {
        let Some(next) = take_more_urgent(cpu, thread, now_ns) else { return Next::Undecided };
        note_interrupt(cpu, thread);
        cputime::charge(cpu, thread);
        if let Some(left) = stacked::run(cpu, thread, next) {
            return Next::Left(left);
        }
        realtime::make_way(cpu, thread);
        ready::take_past(cpu, cpu.own, next);
        return Next::Thread(next);
    }
    if !rounds::may_end_slice(cpu, now_ns) || schedule::of(thread).is_realtime() {
        return Next::Undecided;
    }
    let now_ns = cputime::charge(cpu, thread);
    if let next @ Next::Left(_) = rounds::run(cpu, thread, now_ns) {
        return next;
    }
    if !realtime::is_slice_over(thread) {
        return Next::Undecided;
    }
    note_interrupt(cpu, thread);
    realtime::begin_slice(thread);
    handover::yield_core(cpu, thread);
    Next::First
}

/// What the short ways between guests leave to the scheduler: all but the ready threads, among which they choose by its rules, and shoot-downs, which are
/// served before each guest.
pub const TO_SCHEDULER: Causes = Causes::ALL.without(Causes::READY).without(Causes::BELOW).without(Causes::SHOOTDOWN);

/// Whether anything else is due, or may be, than timers and the thread's slice, and than `served`: all that `interrupted` looks at.
#[inline(always)]
pub fn is_else_due<M: Machine>(
    cpu: &Cpu<M>,
    thread: &ThreadRecord,
    process: &ProcessRecord,
    now_ns: u64,
    served: Causes,
) -> bool {
    cpu.is_due(TO_SCHEDULER.without(served))
        || is_wanted(thread, process)
        || thread.needs.get() != 0
        || cpu.clock.is_to_be_steered(now_ns)
}

/// Whether something is to be done for a guest's thread before its guest runs, or at its next tick.
#[inline(always)]
pub fn is_wanted(thread: &ThreadRecord, process: &ProcessRecord) -> bool {
    thread.attention.load(Ordering::Relaxed) != 0 || limits::limit_of(process, RLIMIT_CPU) != u64::MAX
}

/// As when the interrupt is taken otherwise.
#[inline(always)]
pub fn note_interrupt<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    count(&cpu.counters().heartbeat);
    cpu.due.take_deferred();
    cpu.alarm.clear();
    note_pause(thread);
}

/// Takes the thread out of its wait whose timer is due, if that is in the middle of running a guest, and would take this core from the running one.
#[inline(always)]
fn take_more_urgent<M: Machine>(cpu: &Cpu<M>, running: &ThreadRecord, now_ns: u64) -> Option<&'static ThreadRecord> {
    let taken = Cell::new(None);
    timer::expire_first(cpu, now_ns, |node| {
        taken.set(take_waiter(cpu, running, node));
        taken.get().is_some()
    });
    let waiter = taken.get()?;
    if timer::next_deadline_ns(cpu) <= now_ns {
        // Another one's is due, too, who may be more urgent still.
        run_queue::hand_over(cpu, waiter);
        return None;
    }
    cpu.woke(waiter, cpu.id);
    Some(waiter)
}

/// Takes the thread out of its wait that a timer ends, if that is in the middle of running a guest, and would take this core from the running one.
#[inline(always)]
pub fn take_waiter<M: Machine>(
    cpu: &Cpu<M>,
    running: &ThreadRecord,
    node: &TimerNode,
) -> Option<&'static ThreadRecord> {
    waiter(cpu, node).filter(|waiter| {
        may_go_on(waiter)
            && realtime::would_take_core(cpu, waiter, running)
            && run_queue::target_of(cpu, waiter) == cpu.id
            && wait::take_thread(cpu, waiter, WAKE_TIMEOUT)
    })
}

/// The thread whose wait a timer ends.
fn waiter<M: Machine>(cpu: &Cpu<M>, node: &TimerNode) -> Option<&'static ThreadRecord> {
    (node.kind.get() == TIMER_WAIT).then(|| cpu.pool.get(PoolAddr(node.owner.get())))?
}
