//! Two guests take turns in a core without a way through its queues: a real-time guest, the *upper* one, interrupts the *lower* one by its timer, computes,
//! and waits for its timer again.
//!
//! Both threads stay threads that run here, by their states: only the core's word says which of them is the current one. While the upper one runs, the lower
//! one is ready, and in no queue: it has its place before its equals, so it would be the next. While the lower one runs, the upper one waits, and in no queue
//! ([`motet_protocol::stacked`]): its guest is in the core to whoever raises an interrupt for it, and these ring. All that is known of the guests is
//! in the pool, as when they are stopped otherwise.
//!
//! This goes on as long as nothing happens but the upper one's timer, its waits, and either one's own timer. When anything else happens, both are put where the
//! scheduler expects them: the upper one waits in its queue, with its timer armed; or the lower one is among the ready ones. Then the general way serves what has come.

use core::{cell::Cell, sync::atomic::Ordering};

use motet_hal::{GuestTrap, Machine, Trap};
use motet_layout::{ProcessRecord, Stage, THREAD_READY, TIMER_WAIT, ThreadRecord, WAKE_NONE};
use motet_protocol::{Context, count, ready, run_queue, stacked, timer, trace::End, wait};

use super::{begin_guest, block::end_wait, next::is_else_due};
use crate::{
    balance,
    cpu::{Causes, Cpu},
    cputime::charge,
    realtime,
    tree::process_of,
    vm::{Held, Then},
};

/// What is left when guests have taken turns in this core.
#[derive(Clone, Copy)]
pub struct Left {
    /// The one that runs here.
    pub thread: &'static ThreadRecord,
    pub process: &'static ProcessRecord,
    /// What it has stopped at, and what is not served.
    pub trap: Option<Trap>,
}

struct Layer<'a, M: Machine> {
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    held: Held<'a, M>,
}

impl<'a, M: Machine> Layer<'a, M> {
    fn of(cpu: &'a Cpu<M>, thread: &'static ThreadRecord) -> Option<Self> {
        Some(Self { thread, process: process_of(cpu, thread), held: Held::take(cpu, thread)? })
    }

    fn is_wanted(&self) -> bool {
        self.thread.attention.load(Ordering::Relaxed) != 0
    }
}

struct Stacked<'a, M: Machine> {
    cpu: &'a Cpu<M>,
    lower: Layer<'a, M>,
    upper: Layer<'a, M>,
    /// The lower one's among the ready ones' groups.
    group: u32,
    /// The lower one's slice is over, and its equals come first.
    is_lower_last: Cell<bool>,
}

/// Lets `upper`, which this core has taken out of its wait as its timer is due, run above the running thread, which has been charged; and then both in turn. `None`:
/// they cannot, and nothing has changed.
pub fn run<M: Machine>(cpu: &Cpu<M>, lower: &'static ThreadRecord, upper: &'static ThreadRecord) -> Option<Left> {
    let group = ready::running_group(cpu.own);
    // Where there are other cores, the one that wakes might go to one that is idle.
    if balance::has_peers(cpu) || !ready::comes_first(cpu, cpu.own, lower, group) {
        return None;
    }
    if realtime::has_used_slice(lower) && !ready::is_empty(cpu.own) {
        return None;
    }
    let (lower, upper) = (Layer::of(cpu, lower)?, Layer::of(cpu, upper)?);
    let stacked = Stacked { cpu, lower, upper, group, is_lower_last: Cell::new(false) };
    stacked.end_slice();
    let upper = stacked.upper.thread;
    end_wait(cpu, upper);
    upper.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
    upper.deadline_ns.set(0);
    Some(stacked.run())
}

impl<M: Machine> Stacked<'_, M> {
    fn run(self) -> Left {
        loop {
            let deadline_ns = match self.run_upper() {
                Ok(deadline_ns) => deadline_ns,
                Err(trap) => return self.end_above(trap),
            };
            match self.run_lower(deadline_ns) {
                Ok(()) => {}
                Err(trap) => return self.end_below(trap),
            }
        }
    }

    /// Runs the upper guest until it waits, and the lower one is next: until when it waits. The error is what it has stopped at otherwise, if at anything.
    #[inline(always)]
    fn run_upper(&self) -> Result<u64, Option<Trap>> {
        let (cpu, upper) = (self.cpu, &self.upper);
        cpu.tracer.will_end(End::Yielded);
        cpu.stacked.goes_up();
        ready::take_past(cpu, cpu.own, upper.thread);
        let begun_ns = begin_guest(cpu, upper.thread, upper.process);
        if upper.is_wanted() {
            return Err(None);
        }
        let deadline_ns = upper.held.run_until_wait(begun_ns).map_err(Some)?;
        if self.is_lower_next() && stacked::begin(cpu, upper.thread) {
            upper.held.count_turn();
            return Ok(deadline_ns);
        }
        upper.held.leave();
        Err(Some(Trap::Guest(GuestTrap::WaitForInterrupt)))
    }

    /// Whether the general way would go on with the lower one at once, now that the upper one waits.
    #[inline(always)]
    fn is_lower_next(&self) -> bool {
        let (cpu, lower, upper) = (self.cpu, &self.lower, &self.upper);
        !is_else_due(cpu, upper.thread, upper.process, cpu.now_ns(), Causes::NONE)
            && !lower.is_wanted()
            && !self.is_lower_last.get()
            && ready::comes_first(cpu, cpu.own, lower.thread, self.group)
    }

    /// Runs the lower guest until the upper one's timer is due, and nothing else. The error is what it has stopped at otherwise, if at anything.
    #[inline(always)]
    fn run_lower(&self, deadline_ns: u64) -> Result<(), Option<Trap>> {
        let (cpu, lower, upper) = (self.cpu, &self.lower, &self.upper);
        charge(cpu, upper.thread);
        cpu.tracer.will_end(End::Blocked);
        cpu.stacked.goes_down(deadline_ns);
        ready::run_again(cpu.own, self.group);
        let begun_ns = begin_guest(cpu, lower.thread, lower.process);
        if lower.is_wanted() {
            return Err(None);
        }
        let look = || if self.is_upper_due(deadline_ns) { Then::Ends(()) } else { Then::Other };
        lower.held.run_until(begun_ns, look).map_err(Some)?;
        count(&cpu.counters().heartbeat);
        cpu.alarm.clear();
        charge(cpu, lower.thread);
        stacked::end(cpu.own);
        cpu.woke(upper.thread, cpu.id);
        self.end_slice();
        Ok(())
    }

    /// The lower one, which has been charged, begins another slice if it has used up its own.
    #[inline(always)]
    fn end_slice(&self) {
        if realtime::loses_place(self.lower.thread) {
            self.is_lower_last.set(!ready::is_empty(self.cpu.own));
        }
    }

    /// Whether the lower guest was interrupted by the timer for the upper one's timer, and nothing else is due.
    #[inline(always)]
    fn is_upper_due(&self, deadline_ns: u64) -> bool {
        let (cpu, lower, upper) = (self.cpu, &self.lower, &self.upper);
        let now_ns = cpu.now_ns();
        deadline_ns <= now_ns
            && timer::next_deadline_ns(cpu) > now_ns
            && !upper.is_wanted()
            && !is_else_due(cpu, lower.thread, lower.process, now_ns, Causes::NONE)
    }

    /// The upper one runs, and no longer above the other, which is among the ready ones from now on.
    #[cold]
    fn end_above(self, trap: Option<Trap>) -> Left {
        let Self { cpu, lower: Layer { thread, held, .. }, upper, .. } = self;
        cpu.stacked.end();
        // Whoever takes the thread next can run the guest.
        drop(held);
        thread.state.store(THREAD_READY, Ordering::Relaxed);
        if self.is_lower_last.get() {
            run_queue::append_last(cpu, thread);
        } else {
            ready::put_back(cpu, cpu.own, thread);
        }
        Left { thread: upper.thread, process: upper.process, trap }
    }

    /// The lower one runs, and the upper one waits as any other thread from now on, or is among the ready ones.
    #[cold]
    fn end_below(self, trap: Option<Trap>) -> Left {
        let Self { cpu, lower, upper: Layer { thread, held, .. }, .. } = self;
        cpu.stacked.end();
        stacked::end(cpu.own);
        held.leave();
        let waits = held.prepare_wait();
        drop(held);
        if !(waits && block(cpu, thread)) {
            end_wait(cpu, thread);
            thread.state.store(THREAD_READY, Ordering::Relaxed);
            run_queue::append(cpu, thread);
            // The running thread gives way.
            lower.thread.attention.store(1, Ordering::Release);
        }
        Left { thread: lower.thread, process: lower.process, trap }
    }
}

/// Blocks a thread that has prepared to wait for its guest, and that is not the current one. `false`: somebody wants it.
fn block<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> bool {
    thread.stage.set(Stage::CALL_WAITED);
    if thread.deadline_ns.get() != 0 {
        thread.timer.kind.set(TIMER_WAIT);
        thread.timer.owner.set(cpu.raw(thread));
        timer::arm(cpu, &thread.timer, thread.deadline_ns.get());
    }
    // Who has set it before the thread prepared to wait did not wake it; who sets it later does.
    thread.attention.load(Ordering::SeqCst) == 0 && wait::commit(thread)
}
