//! Guests of equal threads take turns in a core: when the slice of one is over, the core goes on with the next one's guest at once.
//!
//! The call of the thread that stops does not return, and that of the next one is not dispatched. All else is as otherwise: at each moment the threads have the
//! states, and the places in the queue, that they have when they take turns by the scheduler. So this just ends when anything but the end of a slice comes.

use core::sync::atomic::Ordering;

use motet_hal::{Machine, Trap};
use motet_layout::{ProcessRecord, ThreadRecord, WAKE_NONE};
use motet_protocol::{ready, timer};

use super::{
    call::end_wait,
    guests::{self, Left, Next},
};
use crate::{
    balance,
    cpu::{Causes, Cpu},
    cputime, handover, realtime,
    tree::process_of,
    vm::{Held, Then, may_go_on},
};

/// Goes on after an interrupt by which the slice of the running thread, an ordinary one, which has been charged, may be over ([`may_end_slice`]): with that
/// thread or with the next one, and so forth.
pub fn run<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, now_ns: u64) -> Next {
    let mut turn = match end_slice(cpu, thread, now_ns) {
        Then::Ends(follower) => Round::give(cpu, thread, follower),
        Then::GoesOn => Round { thread, process: process_of(cpu, thread), begun_ns: now_ns },
        Then::Other => return Next::Undecided,
    };
    loop {
        match turn.run(cpu) {
            Ok(follower) => turn = Round::give(cpu, turn.thread, follower),
            Err(trap) => return Next::Left(Left { thread: turn.thread, process: turn.process, trap }),
        }
    }
}

/// Whether the timer has interrupted for the end of a slice, and others wait. Where there are other cores, an idle one may be given the thread.
#[inline(always)]
pub fn may_end_slice<M: Machine>(cpu: &Cpu<M>, now_ns: u64) -> bool {
    cpu.alarm.at_ns() <= now_ns && !ready::is_empty(cpu.own) && !balance::has_peers(cpu)
}

struct Round {
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    begun_ns: u64,
}

impl Round {
    /// The core goes from a thread to the next one.
    #[inline(always)]
    fn give<M: Machine>(cpu: &Cpu<M>, before: &'static ThreadRecord, thread: &'static ThreadRecord) -> Self {
        handover::say_ready(cpu, before);
        ready::rotate(cpu, cpu.own, before, thread);
        let process = process_of(cpu, thread);
        Self { thread, process, begun_ns: guests::begin_at(cpu, thread, process) }
    }

    /// Runs the thread's guest until its slice is over and another one follows: that one. The error is what it has stopped at otherwise, if at anything.
    #[inline(always)]
    fn run<M: Machine>(&self, cpu: &Cpu<M>) -> Result<&'static ThreadRecord, Option<Trap>> {
        let (thread, process) = (self.thread, self.process);
        if thread.attention.load(Ordering::Relaxed) != 0 {
            return Err(None);
        }
        let held = Held::take(cpu, thread).ok_or(None)?;
        // What it may have been woken for, its guest finds out.
        end_wait(cpu, thread);
        thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
        thread.deadline_ns.set(0);
        held.run_until(self.begun_ns, || look(cpu, thread, process)).map_err(Some)
    }
}

/// The timer has interrupted the thread's guest: whether its slice is over ([`end_slice`]), and nothing else is due.
#[inline(always)]
fn look<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> Then<&'static ThreadRecord> {
    let now_ns = cpu.now_ns();
    let is_alone = timer::next_deadline_ns(cpu) > now_ns
        && may_end_slice(cpu, now_ns)
        && !guests::is_else_due(cpu, thread, process, now_ns, Causes::NONE);
    if is_alone { end_slice(cpu, thread, cputime::charge(cpu, thread)) } else { Then::Other }
}

/// What comes after the thread, which has been charged, if its slice is over. If it is not, the thread goes on. [`Then::Other`]: the scheduler decides.
#[inline(always)]
fn end_slice<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, now_ns: u64) -> Then<&'static ThreadRecord> {
    if !realtime::is_slice_over(thread) {
        guests::note_interrupt(cpu, thread);
        realtime::go_on(cpu, thread, now_ns);
        return Then::GoesOn;
    }
    let Some(follower) = ready::follower(cpu, cpu.own, thread).filter(|next| may_go_on(next)) else {
        return Then::Other;
    };
    guests::note_interrupt(cpu, thread);
    realtime::begin_slice(thread);
    Then::Ends(follower)
}
