//! What a core runs next, when its thread has left it or was interrupted: this is the place that decides it.
//!
//! In general an interrupt may be about anything: doorbells, expired timers, signals, threads that have come. Mostly, though, it is the timer's, because a slice is
//! over, or because an urgent guest's timer is due. If a few words say that nothing else is due ([`Cpu::is_due`] has the list of all causes), the answer is found here,
//! by the rules of [`realtime`] and of the ready threads ([`ready`]), and the core goes on with it at once. Otherwise it is [`Next::Undecided`], and the general way
//! serves what has come.
//!
//! A waiting thread is taken out of its wait as any waker does it, by the compare-and-swap, under the lock of the timers. So any other waker, or the thread's end,
//! comes either before or after (`docs/protocols/wake-up.md`). No other thread's state is changed.

use core::{cell::Cell, sync::atomic::Ordering};

use motet_hal::{Interrupts, Machine, Trap};
use motet_layout::{PoolAddr, ProcessRecord, TIMER_WAIT, ThreadRecord, TimerNode, WAKE_TIMEOUT};
use motet_protocol::{Context, count, ready, run_queue, schedule, timer, wait};

use crate::{
    alarm::{expire_waits, program_timer, with_alarm},
    balance,
    call::note_pause,
    cpu::{Causes, Cpu},
    cputime,
    crossing::migration,
    extension::hidden,
    handover,
    mm::placement,
    realtime::{self, Tick},
    vm::{is_timer_alone, may_go_on},
};

/// What a core runs next.
#[derive(Clone, Copy)]
pub enum Next {
    /// This thread, which the core has taken: its program, or the system call that it is in. Or it has stopped at this already, on a hidden hart.
    Thread(&'static ThreadRecord, Option<Trap>),
    /// A function that a program has called from another instruction set, as Flick does it. (Of other calls, [`idle`](super::idle) looks who makes one.)
    Function(migration::Arrival),
    /// The guest of this thread, whose turn it is: the first of the ready ones. The one that runs, whose slice is over, goes behind all.
    Guest(&'static ThreadRecord),
    /// The guest of this thread, which is more urgent than the one that runs, and which this core has taken out of its wait. That one makes way.
    Urgent(&'static ThreadRecord),
    /// The first of the ready ones: the one that ran is among them now, or has gone to an idle core.
    First,
    /// Nothing else: the one that runs goes on; without any, the core sleeps.
    Nothing,
    /// Something else is due, which comes first.
    Undecided,
}

/// What a core has been running.
#[derive(Clone, Copy)]
pub enum Running {
    /// Nothing: its last thread has left it, or it has slept.
    Nobody,
    /// A guest, whose thread has left it: only another guest may follow at once.
    Gone,
    /// A thread's program, which was interrupted: [`Cpu::due`] has the interrupt.
    Program(&'static ThreadRecord, &'static ProcessRecord),
    /// A guest, whose thread's call pauses; the same.
    Guest(&'static ThreadRecord, &'static ProcessRecord),
    /// A guest that the core has at hand ([`Held`](crate::vm::Held)), and that the timer alone has interrupted: only its slice may end.
    AtHand(&'static ThreadRecord, &'static ProcessRecord),
}

/// Decides what this core runs next. A guest's thread that was interrupted has been charged then, unless this is [undecided](Next::Undecided).
#[inline(always)]
pub fn next<M: Machine>(cpu: &Cpu<M>, running: Running) -> Next {
    match running {
        Running::Nobody => after_all(cpu),
        Running::Gone => after_gone(cpu),
        Running::Program(thread, process) => after_program(cpu, thread, process),
        Running::Guest(thread, process) => after_guest(cpu, thread, process),
        Running::AtHand(thread, process) => after_turn(cpu, thread, process),
    }
}

#[inline(always)]
fn after_all<M: Machine>(cpu: &Cpu<M>) -> Next {
    if cpu.crossing.migrates()
        && let Some(arrival) = migration::arrival(cpu)
    {
        return Next::Function(arrival);
    }
    // Who has been woken may have been called, and answers first.
    if cpu.is_due(Causes::WOKEN) {
        return Next::Undecided;
    }
    if let Some((thread, trap)) = hidden::next(cpu) {
        return Next::Thread(thread, Some(trap));
    }
    run_queue::next(cpu).map_or(Next::Nothing, |thread| Next::Thread(thread, None))
}

#[inline(always)]
fn after_gone<M: Machine>(cpu: &Cpu<M>) -> Next {
    // Who is next is no question of slices, which is what conditions that last are about.
    const TO_LOOP: Causes =
        TO_SCHEDULER.without(Causes::FIRST_COME).without(Causes::HELD).without(Causes::CALLS).without(Causes::AWAY);
    let is_guest = !cpu.is_due(TO_LOOP) && run_queue::first(cpu).is_some_and(may_go_on);
    if is_guest { Next::First } else { Next::Undecided }
}

#[inline(always)]
fn after_program<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> Next {
    // Threads that have come are ready ones: whoever follows is taken from both.
    const SERVED: Causes = Causes::INTERRUPTS.union(Causes::INBOX);
    let (interrupts, now_ns) = (cpu.due.deferred(), cpu.now_ns());
    let is_timer = is_timer_alone(cpu, interrupts) && with_alarm(cpu, interrupts, now_ns).contains(Interrupts::TIMER);
    // A signal comes before the thread's program does, whoever runs first.
    if !is_timer || is_more_due(cpu, thread, process, now_ns, SERVED) {
        return Next::Undecided;
    }
    if timer::next_deadline_ns(cpu) <= now_ns && cpu.life.before_ready(|| expire_waits(cpu, now_ns)) {
        // The next timer is a process's.
        return Next::Undecided;
    }
    note_timer(cpu);
    if !realtime::gives_way(cpu, thread) && !end_slice(cpu, thread) {
        return Next::Nothing;
    }
    let switches = &cpu.own.short_switches;
    switches.set(switches.get() + 1);
    Next::First
}

/// The timer has interrupted the running thread: its slice is over if others wait. Otherwise it goes on, and the timer is set. `true`: it no longer belongs to this
/// core, or is among the ready ones.
pub fn end_slice<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> bool {
    placement::sample(cpu, thread);
    if !run_queue::has_ready(cpu.own) || cpu.own.first_come.get() != 0 {
        program_timer(cpu, cpu.now_ns());
        return false;
    }
    match realtime::end_tick(cpu, thread) {
        Tick::Yields if balance::share(cpu, thread) => true,
        Tick::Yields => {
            handover::yield_core(cpu, thread);
            true
        }
        Tick::GoesOn => false,
        Tick::Gone => true,
    }
}

#[inline(always)]
fn after_guest<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> Next {
    let now_ns = cpu.now_ns();
    if !is_timer_alone(cpu, cpu.due.deferred()) || is_else_due(cpu, thread, process, now_ns, Causes::INTERRUPTS) {
        return Next::Undecided;
    }
    if timer::next_deadline_ns(cpu) <= now_ns {
        let Some(urgent) = take_more_urgent(cpu, thread, now_ns) else { return Next::Undecided };
        note_interrupt(cpu, thread);
        cputime::charge(cpu, thread);
        return Next::Urgent(urgent);
    }
    if !may_end_slice(cpu, thread, now_ns) || schedule::of(thread).is_realtime() {
        return Next::Undecided;
    }
    end_turn(cpu, thread).unwrap_or_else(|| {
        note_interrupt(cpu, thread);
        realtime::begin_slice(thread);
        handover::yield_core(cpu, thread);
        Next::First
    })
}

#[inline(always)]
fn after_turn<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> Next {
    let now_ns = cpu.now_ns();
    let is_alone = timer::next_deadline_ns(cpu) > now_ns
        && may_end_slice(cpu, thread, now_ns)
        && !is_else_due(cpu, thread, process, now_ns, Causes::NONE);
    if is_alone { end_turn(cpu, thread).unwrap_or(Next::Undecided) } else { Next::Undecided }
}

/// Whether the timer has interrupted for the end of the thread's slice, and others wait. If an idle core is to be given the thread, that is the general way's: here
/// the core may have the thread's guest at hand.
#[inline(always)]
fn may_end_slice<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, now_ns: u64) -> bool {
    cpu.alarm.at_ns() <= now_ns && !ready::is_empty(cpu.own) && !balance::would_share(cpu, thread)
}

/// The thread, an ordinary one, goes on if its slice is not over. `None`: it is, and the next one is no equal that can go on with its guest at once.
#[inline(always)]
fn end_turn<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<Next> {
    let now_ns = cputime::charge(cpu, thread);
    if !realtime::is_slice_over(thread) {
        note_interrupt(cpu, thread);
        realtime::go_on(cpu, thread, now_ns);
        return Some(Next::Nothing);
    }
    let follower = ready::follower(cpu, cpu.own, thread).filter(|next| may_go_on(next))?;
    note_interrupt(cpu, thread);
    realtime::begin_slice(thread);
    Some(Next::Guest(follower))
}

/// What the short ways leave to the general one: all but the ready threads, among which they choose by the scheduler's rules, and shoot-downs, which are
/// served before any user code runs.
pub const TO_SCHEDULER: Causes = Causes::ALL.without(Causes::READY).without(Causes::BELOW).without(Causes::SHOOTDOWN);

/// Whether anything else is due, or may be, than timers and the thread's slice, and than `served`: all that `interrupted` looks at, and what is to be done
/// for the thread.
#[inline(always)]
pub fn is_else_due<M: Machine>(
    cpu: &Cpu<M>,
    thread: &ThreadRecord,
    process: &ProcessRecord,
    now_ns: u64,
    served: Causes,
) -> bool {
    thread.attention.load(Ordering::Relaxed) != 0 || is_more_due(cpu, thread, process, now_ns, served)
}

/// As [`is_else_due`], but for what a thread looks at itself before its program goes on.
#[inline(always)]
fn is_more_due<M: Machine>(
    cpu: &Cpu<M>,
    thread: &ThreadRecord,
    process: &ProcessRecord,
    now_ns: u64,
    served: Causes,
) -> bool {
    cpu.is_due(TO_SCHEDULER.without(served))
        || is_limited(process)
        || thread.needs.get() != 0
        || cpu.clock.is_to_be_steered(now_ns)
}

/// Whether something is to be done for a guest's thread before its guest runs, or at its next tick.
#[inline(always)]
pub fn is_wanted(thread: &ThreadRecord, process: &ProcessRecord) -> bool {
    thread.attention.load(Ordering::Relaxed) != 0 || is_limited(process)
}

/// Whether the process's time is limited, or timers go by it, which the general way looks at.
#[inline(always)]
fn is_limited(process: &ProcessRecord) -> bool {
    process.watches_time.load(Ordering::Relaxed) != 0
}

/// The timer's interrupt is served, as when it is taken otherwise.
#[inline(always)]
fn note_timer<M: Machine>(cpu: &Cpu<M>) {
    count(&cpu.counters().heartbeat);
    cpu.due.take_deferred();
    cpu.alarm.clear();
}

/// The same, where it has interrupted a guest, whose call pauses.
#[inline(always)]
fn note_interrupt<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    note_timer(cpu);
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
