//! Timers that expire: POSIX timers by any clock, and interval timers by processor time. The tree lock is held.

use motet_abi::signal::{SI_TIMER, SIGPROF, SIGVTALRM, SigCause, bit};
use motet_hal::Machine;
use motet_layout::{
    Cell64, POSIX_ARMED, POSIX_PENDING, PoolAddr, PosixTimerRecord, ProcessRecord, THREAD_RUNNING, ThreadRecord,
    TimerNode, sync::Ordering,
};
use motet_protocol::{Context, treap::Tree};

use super::{Origin, Pending, SentOfTimer, notify, retarget, send_locked, send_of_timer, timers};
use crate::{
    cpu::Cpu,
    tree::{any_thread, for_each_thread},
};

/// A timer whose signal there is no room for tries again after so long.
const AGAIN_NS: u64 = 10_000_000;
/// So many timers by one clock of processor time expire at once: the rest does at the next look.
const EXPIRED_AT_ONCE: usize = 32;
/// A look for timers of processor time comes no sooner than this after the last one.
const LOOK_NS_MIN: u64 = 50_000;

/// A POSIX timer has expired, and is not armed.
pub fn expired<M: Machine>(cpu: &Cpu<M>, timer: &'static PosixTimerRecord) {
    let process = cpu.object::<ProcessRecord>(timer.process.get());
    match process.map_or(SentOfTimer::Ignored, |process| send(cpu, process, timer)) {
        SentOfTimer::Sent => {}
        SentOfTimer::Ignored => timers::leave_unsent(timer),
        SentOfTimer::NoRoom => {
            if let Some(clock) = timers::Clock::of(cpu, timer) {
                timer.state.set(POSIX_ARMED);
                timers::arm_at(cpu, timer, clock.now_ns(cpu, timer) + AGAIN_NS);
            }
        }
    }
}

fn send<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, timer: &'static PosixTimerRecord) -> SentOfTimer {
    let origin = Origin::new(SI_TIMER, SigCause::Timer { id: timer.id.get(), overrun: 0, value: timer.value.get() });
    match timer.receiver.get() {
        0 => send_of_timer(cpu, process, None, timer, origin),
        _ => match receiver_of(cpu, timer) {
            Some(thread) => send_of_timer(cpu, process, Some(thread), timer, origin),
            None => SentOfTimer::Ignored,
        },
    }
}

/// The pending signals among which a timer's is.
fn pending_of<M: Machine>(
    cpu: &Cpu<M>,
    process: &'static ProcessRecord,
    timer: &PosixTimerRecord,
) -> Option<Pending<'static>> {
    match timer.receiver.get() {
        0 => Some(Pending::of_process(process)),
        _ => receiver_of(cpu, timer).map(Pending::of_thread),
    }
}

/// The thread that gets a timer's signal, if that is not for the process.
fn receiver_of<M: Machine>(cpu: &Cpu<M>, timer: &PosixTimerRecord) -> Option<&'static ThreadRecord> {
    timers::living_thread(cpu, timer.receiver.get(), timer.receiver_started_ns.get())
}

/// The signal of a timer is pending no more: the timer is set anew, or goes.
pub fn withdraw<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, timer: &PosixTimerRecord) {
    if timer.queued.get() != 0
        && let Some(pending) = pending_of(cpu, process, timer)
    {
        pending.remove_of_timer(cpu, timer);
    }
    timer.queued.set(0);
}

/// Timers that wait for their signals to be taken, which are not pending: a core has died that was taking one.
pub fn repair_timers<M: Machine>(cpu: &Cpu<M>) {
    for timer in timers::all(cpu).filter(|timer| timer.state.get() == POSIX_PENDING) {
        let Some(process) = cpu.object::<ProcessRecord>(timer.process.get()) else { continue };
        let (signal, queued) = (timer.signal.get(), timer.queued.get());
        match pending_of(cpu, process, timer) {
            Some(pending) if pending.has(cpu, signal, queued) => {
                pending.set.fetch_or(bit(signal), Ordering::SeqCst);
                // Nobody may have been told yet.
                match receiver_of(cpu, timer) {
                    Some(thread) => notify(cpu, thread, signal),
                    None => retarget(cpu, process, bit(signal)),
                }
            }
            _ => {
                timer.queued.set(0);
                timers::arm(cpu, timer);
            }
        }
    }
}

/// Lets timers expire by processor time: the running thread's, and its process's, which has used `times_ns` in user mode and in the kernel. Returns how long
/// the thread may run until the next one may be due; `None`: nothing is set by the time of the process.
pub fn expire_by_time<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    (user_ns, system_ns): (u64, u64),
) -> Option<u64> {
    let all_ns = user_ns + system_ns;
    let [virtual_at, virtual_interval, prof_at, prof_interval] = &process.intervals;
    let of_process = [
        expire_interval(cpu, process, (virtual_at, virtual_interval), (user_ns, SIGVTALRM)),
        expire_interval(cpu, process, (prof_at, prof_interval), (all_ns, SIGPROF)),
        expire_posix(cpu, &process.cpu_timers[0], all_ns),
        expire_posix(cpu, &process.cpu_timers[1], user_ns),
    ];
    let (own_user_ns, own_ns) = (thread.user_ns.get(), thread.user_ns.get() + thread.system_ns.get());
    let of_thread =
        [expire_posix(cpu, &thread.cpu_timers[0], own_ns), expire_posix(cpu, &thread.cpu_timers[1], own_user_ns)];
    let soonest = |left: &[Option<u64>]| left.iter().flatten().min().copied();
    // Others of its threads use the process's time, too.
    let of_process = soonest(&of_process).map(|left_ns| left_ns / running(cpu, process));
    let is_watched = || any_thread(cpu, process, |other| other.cpu_timers.iter().any(|top| top.get() != 0));
    let left_ns = soonest(&[of_process, soonest(&of_thread)]).or_else(|| is_watched().then_some(u64::MAX));
    left_ns.map(|left_ns| left_ns.max(LOOK_NS_MIN))
}

/// How many threads of a process run, at least one.
fn running<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> u64 {
    let mut count = 0;
    for_each_thread(cpu, process, |thread| {
        count += u64::from(thread.state.load(Ordering::Relaxed) == THREAD_RUNNING);
    });
    count.max(1)
}

/// Lets an interval timer of a process expire by `now_ns`. Returns how long it is to the next time, if it is set.
fn expire_interval<M: Machine>(
    cpu: &Cpu<M>,
    process: &'static ProcessRecord,
    (at, interval): (&Cell64, &Cell64),
    (now_ns, signal): (u64, u32),
) -> Option<u64> {
    let at_ns = Some(at.get()).filter(|&at_ns| at_ns != 0)?;
    let Some(late_ns) = now_ns.checked_sub(at_ns) else { return Some(at_ns - now_ns) };
    let interval_ns = interval.get();
    let next = late_ns.checked_div(interval_ns).map(|passed| interval_ns - late_ns + passed * interval_ns);
    at.set(next.map_or(0, |left_ns| now_ns + left_ns));
    send_locked(cpu, process, signal, Origin::KERNEL);
    next
}

/// Lets POSIX timers of a tree expire by `now_ns` of its clock. Returns how long it is to the next one.
fn expire_posix<M: Machine>(cpu: &Cpu<M>, top: &'static Cell64, now_ns: u64) -> Option<u64> {
    if top.get() == 0 {
        return None;
    }
    let deadlines = Tree::<Cpu<M>, TimerNode>::new(cpu, top);
    for _ in 0..EXPIRED_AT_ONCE {
        let first = deadlines.first()?;
        if first.deadline_ns.get() > now_ns {
            return Some(first.deadline_ns.get() - now_ns);
        }
        deadlines.remove(first);
        if let Some(timer) = cpu.pool.get::<PosixTimerRecord>(PoolAddr(first.owner.get())) {
            expired(cpu, timer);
        }
    }
    Some(0)
}
