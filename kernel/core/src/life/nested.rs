//! An urgent guest runs above a system call of a less urgent thread, in the middle of that call: its timer is due, it computes, and it waits for its timer again.
//!
//! The call has been interrupted where it looks what is due ([`due`](crate::due)). It may hold locks, references, and the extended registers of its thread in
//! whatever state. So the core takes only the lock of its timers, and changes its ready queue; the thread of the guest stays in its wait queue ([`wait::prepare_again`]).
//! When anything but its timer's interrupts and its wait happens, the guest's thread becomes ready, and runs when the call gives way.

use core::{cell::Cell, sync::atomic::Ordering};

use motet_hal::{Interrupts, Machine, Trap};
use motet_layout::{CORE_AWAKE, CoreId, Stage, THREAD_DEAD, THREAD_READY, TIMER_WAIT, ThreadRecord, WAKE_NONE};
use motet_protocol::{
    Context, count,
    ready::{self, Position},
    run_queue, timer,
    trace::End,
    wait,
};

use super::{begin, next, take_over};
use crate::{
    alarm, balance,
    cpu::{Causes, Cpu},
    cputime::charge,
    due::Below,
    realtime, trace,
    tree::process_of,
    vm::{Held, is_timer_alone},
};

/// How long a guest runs at most above a call that holds locks, for which other cores may wait.
const LOCKED_NS: u64 = 50_000;

/// What keeps a guest from running above a call. What the core has to do for the call's thread, and what it does now, comes when the call is over.
const NOT_ABOVE_CALLS: Causes =
    next::TO_SCHEDULER.without(Causes::INTERRUPTS).without(Causes::WOKEN).without(Causes::BUDGET).without(Causes::FPGA);

/// Timers are due at `now_ns`, in the middle of a call. If one of them ends the wait of a thread in the middle of running a guest, which would take the core from
/// the calling one, that guest runs at once, until it waits again. Other threads whose waits they end are woken then, too. `false`: nothing has been done.
pub fn run<M: Machine>(cpu: &Cpu<M>, below: Below, now_ns: u64) -> bool {
    let Some(lower) = cpu.object::<ThreadRecord>(cpu.own.current_thread.load(Ordering::Relaxed)) else { return false };
    // The end of a thread gives back its record, and a call may have sent the thread away already.
    let is_here = CoreId::from_raw(lower.core.load(Ordering::Relaxed)) == Some(cpu.id)
        && lower.state.load(Ordering::Relaxed) != THREAD_DEAD;
    if !is_here || !may_nest(cpu) {
        return false;
    }
    let Some(upper) = take_more_urgent(cpu, lower, now_ns) else { return true };
    // Another one may be more urgent still. What is about the call and its thread comes when the call is over.
    let is_else_due = next::is_wanted(upper, process_of(cpu, upper)) || cpu.is_due(NOT_ABOVE_CALLS);
    let is_next = realtime::would_take_core(cpu, upper, lower) && !is_else_due;
    let held = if is_next { Held::take(cpu, upper) } else { None };
    match held.filter(|_| cpu.machine.set_ext_aside()) {
        Some(held) => Nested { cpu, lower, upper, held }.run(below, now_ns),
        None => run_queue::hand_over(cpu, upper),
    }
    true
}

/// Whether nothing is due but timers, and a guest may run above the call.
fn may_nest<M: Machine>(cpu: &Cpu<M>) -> bool {
    // Where there are other cores, a thread that wakes might go to an idle one.
    cpu.stacked.may_nest()
        && !balance::has_peers(cpu)
        && !cpu.mm.is_pinned()
        && cpu.own.state.load(Ordering::Relaxed) == CORE_AWAKE
        && is_only_timer(cpu)
}

/// Whether the timer's interrupt is all that waits for this core's life, if anything does.
fn is_only_timer<M: Machine>(cpu: &Cpu<M>) -> bool {
    let others = Interrupts(cpu.due.deferred().0 & !Interrupts::TIMER.0);
    others == Interrupts::EMPTY || cpu.is_timed() && is_timer_alone(cpu, others)
}

/// Takes the thread out of its wait whose guest is to run, if there is one, and wakes all others whose time has come, up to the first timer that is a process's:
/// that wants the process tree.
fn take_more_urgent<M: Machine>(cpu: &Cpu<M>, lower: &ThreadRecord, now_ns: u64) -> Option<&'static ThreadRecord> {
    let (taken, goes_on) = (Cell::new(None), Cell::new(true));
    while goes_on.take() {
        timer::expire_first(cpu, now_ns, |node| {
            let found = if taken.get().is_none() { next::take_waiter(cpu, lower, node) } else { None };
            if found.is_some() {
                taken.set(found);
            }
            let is_done = found.is_some() || !alarm::wants_tree(node) && alarm::expire_wait(cpu, node);
            goes_on.set(is_done);
            is_done
        });
    }
    taken.get()
}

struct Nested<'a, M: Machine> {
    cpu: &'a Cpu<M>,
    lower: &'static ThreadRecord,
    upper: &'static ThreadRecord,
    held: Held<'a, M>,
}

impl<M: Machine> Nested<'_, M> {
    fn run(self, below: Below, now_ns: u64) {
        let (cpu, lower, upper) = (self.cpu, self.lower, self.upper);
        count(&cpu.counters().heartbeat);
        // It was the timer's interrupt only. Should it have been for the end of a slice, that is told below.
        cpu.due.take_deferred();
        charge(cpu, lower);
        let group = ready::running_group(cpu.own);
        cpu.stacked.nest(if below == Below::Locks { now_ns + LOCKED_NS } else { u64::MAX });
        cpu.tracer.will_end(End::Yielded);
        let stopped = self.run_upper();
        charge(cpu, upper);
        cpu.machine.bring_ext_back();
        ready::run_again(cpu.own, group);
        cpu.own.current_thread.store(cpu.raw(lower), Ordering::Release);
        let waits = stopped.is_ok() && self.wait();
        if let Err(Some(trap)) = stopped {
            if let Trap::Interrupt(interrupts) = trap {
                cpu.due.defer(interrupts);
            } else {
                self.held.retake(trap);
            }
        }
        drop(self.held);
        if !waits {
            upper.state.store(THREAD_READY, Ordering::Relaxed);
            ready::add(cpu, cpu.own, upper, Position::ByRank);
            lower.attention.store(1, Ordering::Release);
        }
        cpu.tracer.will_end(if waits { End::Blocked } else { End::Yielded });
        cpu.stacked.end_nested();
        trace::stop(cpu);
        let now_ns = begin(cpu, lower, process_of(cpu, lower));
        lower.charged_at_ns.set(now_ns);
        alarm::program_timer(cpu, now_ns);
        if realtime::loses_place(lower) {
            // When the call is over.
            cpu.due.defer(Interrupts::TIMER);
        }
    }

    /// Runs the guest until it waits. The error is what it has stopped at otherwise, if at anything.
    fn run_upper(&self) -> Result<(), Option<Trap>> {
        let (cpu, upper) = (self.cpu, self.upper);
        upper.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
        upper.deadline_ns.set(0);
        cpu.woke(upper, cpu.id);
        ready::take_past(cpu, cpu.own, upper);
        trace::stop(cpu);
        take_over(cpu, upper);
        let started_ns = begin(cpu, upper, process_of(cpu, upper));
        alarm::program_timer(cpu, started_ns);
        upper.charged_at_ns.set(started_ns);
        if upper.attention.load(Ordering::Relaxed) != 0 {
            return Err(None);
        }
        self.held.run_until_wait(started_ns).map(|_| ()).map_err(Some)
    }

    /// The thread waits as before. `false`: something has come for it.
    fn wait(&self) -> bool {
        let (cpu, upper) = (self.cpu, self.upper);
        self.held.leave();
        upper.stage.set(Stage::CALL_WAITED);
        if !self.held.prepare_wait_again() {
            return false;
        }
        if upper.deadline_ns.get() != 0 {
            upper.timer.kind.set(TIMER_WAIT);
            upper.timer.owner.set(cpu.raw(upper));
            timer::arm(cpu, &upper.timer, upper.deadline_ns.get());
        }
        self.held.count_turn();
        // Who has set it before the thread prepared to wait did not wake it; who sets it later does.
        upper.attention.load(Ordering::SeqCst) == 0 && wait::commit(upper)
    }
}
