//! POSIX timers (timer_create(2)): when they expire, and what becomes of them when their signals are taken.
//!
//! A timer with an interval does not expire again while its signal is pending: it is armed anew when that is taken, and what has passed meanwhile is its overrun
//! (as on Linux). So a timer costs no more than its process takes signals, however short its interval is.
//!
//! A timer by processor time is in a tree of the process or thread whose time that is. There its own core looks when a timer interrupts it. Who that is, the
//! timer says by id and time of creation: nothing need be done about timers when it ends.
//!
//! All of it happens under the tree lock.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{
    BY_MACHINE, BY_PROCESS, BY_REAL_TIME, BY_THREAD, Cell64, CoreId, POSIX_ARMED, POSIX_IGNORED, POSIX_OFF,
    PROCESS_ALIVE, PosixTimerRecord, ProcessRecord, TIMER_POSIX, ThreadRecord, TimerNode,
};
use motet_protocol::{
    Context,
    cores::is_dead,
    slab, threads,
    timer::{self, of_process},
    treap::Tree,
};

use crate::{
    alarm::{self, SLICE_NS},
    cpu::Cpu,
    tree::{self, times_ns},
};

/// Whose time a timer goes by.
pub enum Clock {
    /// The machine's.
    Machine,
    /// What a process has used.
    Process(&'static ProcessRecord),
    /// What a thread has used.
    Thread(&'static ThreadRecord),
}

impl Clock {
    /// The clock of a timer. `None`: whose processor time it goes by has ended.
    pub fn of<M: Machine>(cpu: &Cpu<M>, timer: &PosixTimerRecord) -> Option<Self> {
        let (target, started_ns) = (timer.target.get(), timer.target_started_ns.get());
        match timer.clock.get() {
            BY_MACHINE | BY_REAL_TIME => Some(Self::Machine),
            by if by >= BY_THREAD => living_thread(cpu, target, started_ns).map(Self::Thread),
            _ => tree::lookup(cpu, target)
                .filter(|process| process.state.load(Ordering::Acquire) == PROCESS_ALIVE)
                .filter(|process| process.started_ns.get() == started_ns)
                .map(Self::Process),
        }
    }

    /// What it shows to a timer, in nanoseconds.
    pub fn now_ns<M: Machine>(&self, cpu: &Cpu<M>, timer: &PosixTimerRecord) -> u64 {
        let (user_ns, system_ns) = match self {
            Self::Machine => return cpu.reading_ns(),
            Self::Process(process) => times_ns(cpu, process),
            Self::Thread(thread) => (thread.user_ns.get(), thread.system_ns.get()),
        };
        if is_of_user(timer) { user_ns } else { user_ns + system_ns }
    }

    /// The process that this is the processor time of, or of a thread of.
    fn process<M: Machine>(&self, cpu: &Cpu<M>) -> Option<&'static ProcessRecord> {
        match self {
            Self::Machine => None,
            Self::Process(process) => Some(process),
            Self::Thread(thread) => Some(tree::process_of(cpu, thread)),
        }
    }

    /// The top of the tree of the deadlines of processor time that a timer is one of.
    fn deadlines(&self, timer: &PosixTimerRecord) -> Option<&'static Cell64> {
        let which = usize::from(is_of_user(timer));
        match self {
            Self::Machine => None,
            Self::Process(process) => Some(&process.cpu_timers[which]),
            Self::Thread(thread) => Some(&thread.cpu_timers[which]),
        }
    }
}

/// Whether a timer goes by time in user mode alone.
fn is_of_user(timer: &PosixTimerRecord) -> bool {
    timer.clock.get() >= BY_PROCESS && timer.clock.get() & 1 != 0
}

/// The thread with that id that was created then, of a process that lives.
pub fn living_thread<M: Machine>(cpu: &Cpu<M>, tid: u32, started_ns: u64) -> Option<&'static ThreadRecord> {
    super::living_thread(cpu, tid).filter(|thread| thread.started_ns.get() == started_ns)
}

/// The timer of a process with that id.
pub fn find<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, id: u32) -> Option<&'static PosixTimerRecord> {
    let found = of_process(cpu, process).first_from(|timer| timer.id.get() < id);
    found.filter(|timer| timer.id.get() == id)
}

/// Lets a timer expire at the time that it says. It is not armed.
pub fn arm<M: Machine>(cpu: &Cpu<M>, timer: &'static PosixTimerRecord) {
    timer.state.set(POSIX_ARMED);
    if timer.signal.get() != 0 {
        arm_at(cpu, timer, timer.expires_ns.get());
    }
}

/// Puts a timer among the deadlines of its clock, at some time.
pub fn arm_at<M: Machine>(cpu: &Cpu<M>, timer: &'static PosixTimerRecord, deadline_ns: u64) {
    timer.node.kind.set(TIMER_POSIX);
    timer.node.owner.set(cpu.raw(timer));
    let Some(clock) = Clock::of(cpu, timer) else { return };
    match (clock.deadlines(timer), clock.process(cpu)) {
        (Some(deadlines), Some(process)) => {
            timer.node.deadline_ns.set(deadline_ns);
            Tree::<Cpu<M>, TimerNode>::new(cpu, deadlines).insert(&timer.node);
            process.watches_time.store(1, Ordering::Relaxed);
            let left_ns = deadline_ns.saturating_sub(clock.now_ns(cpu, timer));
            alarm::set_timer(cpu, cpu.now_ns() + left_ns.min(SLICE_NS));
        }
        _ => {
            timer::arm(cpu, &timer.node, deadline_ns);
            alarm::reprogram_timer(cpu);
        }
    }
}

/// Lets a timer expire no more.
pub fn disarm<M: Machine>(cpu: &Cpu<M>, timer: &'static PosixTimerRecord) {
    let deadlines = Clock::of(cpu, timer).and_then(|clock| clock.deadlines(timer));
    match deadlines {
        Some(deadlines) if is_listed(timer) => Tree::<Cpu<M>, TimerNode>::new(cpu, deadlines).remove(&timer.node),
        Some(_) => {}
        // Of processor time that has ended, it is in no tree.
        None => timer::disarm(cpu, &timer.node),
    }
    timer.state.set(POSIX_OFF);
}

/// Whether a timer is among the deadlines of its clock, if there still is such a clock.
fn is_listed(timer: &PosixTimerRecord) -> bool {
    timer.state.get() == POSIX_ARMED && timer.signal.get() != 0
}

/// The next expiration of a timer with an interval comes after `now_ns`; those before are counted.
pub fn pass(timer: &PosixTimerRecord, now_ns: u64) {
    let interval_ns = timer.interval_ns.get();
    if interval_ns != 0
        && let Some(late_ns) = now_ns.checked_sub(timer.expires_ns.get())
    {
        let count = late_ns / interval_ns + 1;
        timer.expires_ns.set(timer.expires_ns.get() + count * interval_ns);
        timer.expired.set(timer.expired.get().saturating_add(count));
    }
}

/// The signal of a timer of a process has been taken, of which `entry` is what was known: the timer goes on. Returns its overrun; `None`: no timer has sent it,
/// whatever it says.
pub fn taken<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, id: u32, entry: u64) -> Option<u32> {
    let timer = find(cpu, process, id).filter(|timer| timer.queued.get() == entry)?;
    timer.queued.set(0);
    if timer.interval_ns.get() == 0 {
        timer.state.set(POSIX_OFF);
        return Some(0);
    }
    match Clock::of(cpu, timer) {
        Some(clock) => {
            pass(timer, clock.now_ns(cpu, timer));
            // The one that the signal is of is not beyond itself.
            timer.overrun.set(timer.expired.get().saturating_sub(1));
            timer.expired.set(0);
            arm(cpu, timer);
        }
        None => timer.state.set(POSIX_OFF),
    }
    Some(overrun_of(timer))
}

/// The signal of a timer is pending no more, and nobody has taken it. `entry` is as for [`taken`].
pub fn dropped<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, id: u32, entry: u64) {
    if let Some(timer) = find(cpu, process, id).filter(|timer| timer.queued.get() == entry) {
        timer.queued.set(0);
        leave_unsent(timer);
    }
}

/// A timer has expired whose signal nobody gets: with an interval, it is armed again when somebody does.
pub fn leave_unsent(timer: &PosixTimerRecord) {
    timer.state.set(if timer.interval_ns.get() == 0 { POSIX_OFF } else { POSIX_IGNORED });
}

/// Expirations beyond the one that the last signal told of, as programs are told.
pub fn overrun_of(timer: &PosixTimerRecord) -> u32 {
    timer.overrun.get().min(i32::MAX as u64) as u32
}

/// A signal is not ignored any more: timers of the process that have expired meanwhile send it.
pub fn resume<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, signal: u32) {
    let timers = of_process(cpu, process);
    let is_meant =
        |timer: &&'static PosixTimerRecord| timer.state.get() == POSIX_IGNORED && timer.signal.get() == signal;
    timers.from(timers.first()).filter(is_meant).for_each(|timer| arm(cpu, timer));
}

/// Arms timers here that were armed on dead cores.
pub fn take<M: Machine>(cpu: &Cpu<M>) {
    for timer in all(cpu) {
        let core = timer.node.core.load(Ordering::Acquire).checked_sub(1).and_then(CoreId::from_raw);
        if core.is_some_and(|core| is_dead(cpu, core)) {
            timer::disarm(cpu, &timer.node);
            timer::arm(cpu, &timer.node, timer.node.deadline_ns.get());
        }
    }
}

/// All timers that processes have.
pub fn all<M: Machine>(cpu: &Cpu<M>) -> impl Iterator<Item = &'static PosixTimerRecord> {
    slab::all::<PosixTimerRecord>(cpu).filter(|timer| timer.process.get() != 0)
}

/// Makes the trees of timers anew, when a core has died that was changing one: which timers there are, whose, and which are armed, they say themselves. One that
/// had just been taken from a core's deadlines goes back there. Pending signals come later ([`repair_pending`](super::repair_timers)).
pub fn repair_trees<M: Machine>(cpu: &Cpu<M>) {
    for thread in threads::all(cpu) {
        thread.cpu_timers.iter().for_each(|top| top.set(0));
        let process = tree::process_of(cpu, thread);
        process.timers.set(0);
        process.cpu_timers.iter().for_each(|top| top.set(0));
    }
    for timer in all(cpu) {
        let Some(process) = cpu.object::<ProcessRecord>(timer.process.get()) else { continue };
        of_process(cpu, process).insert(timer);
        if timer.state.get() == POSIX_ARMED && timer.node.core.load(Ordering::Acquire) == 0 {
            arm(cpu, timer);
        }
    }
}
