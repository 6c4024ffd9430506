//! What a thread goes on with, when its core runs it or has served what stopped it.

use core::sync::atomic::Ordering;

use motet_hal::{Machine, Trap};
use motet_layout::{ProcessRecord, Stage, ThreadRecord, WAKE_EVENT, WAKE_TOLD};

use super::block::end_wait;
use crate::{
    attend::{self, Attention},
    away,
    cpu::Cpu,
    mm, realtime, turn,
};

/// What a thread goes on with.
pub enum Resume {
    /// Its program, after one more look.
    Program,
    /// The system call that it is in, which is dispatched again.
    Call,
    /// What it has stopped at already.
    Stopped(Trap),
    /// Its program, whose system calls another kernel makes.
    Away,
    /// The system call that it is in, which another kernel makes.
    AwayCall,
    /// The call in which it runs a guest.
    Guest,
    /// Freeing of files that nobody uses any more because of what it has done.
    Garbage,
    /// A wait for its turn at the service core, in the middle of this.
    Turn(Stage),
    /// A wait for a page of the stack that a signal's handler is to run on.
    HandlerPage,
    /// Nothing here: it no longer belongs to this core.
    Gone,
}

/// Whether the thread runs its program, and nothing comes first: three words tell, and on most ways nothing else is looked at.
#[inline(always)]
pub fn runs_program(thread: &ThreadRecord) -> bool {
    let is_wanted = thread.attention.load(Ordering::Relaxed) != 0;
    thread.stage.get().is_user() && !is_wanted && thread.garbage.get() == 0
}

/// Decides what the thread, which runs on this core, goes on with. `first`: what it has stopped at already.
#[inline(always)]
pub fn resume<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    first: &mut Option<Trap>,
) -> Resume {
    if let Some(trap) = first.take() {
        return Resume::Stopped(trap);
    }
    let is_in_call = || !thread.stage.get().is_user();
    if is_in_call() {
        end_wait(cpu, thread);
        if thread.stage.get().is_between() {
            turn::waited(thread);
        }
    }
    // What the thread was woken for may be there: the call ends with it, and not with a signal that came as well.
    let has_come = is_in_call() && thread.wake_reason.load(Ordering::Relaxed) == WAKE_EVENT;
    let is_wanted = !has_come && thread.attention.load(Ordering::Relaxed) != 0;
    if has_come {
        thread.wake_reason.store(WAKE_TOLD, Ordering::Relaxed);
    }
    if is_wanted && !looks_before_signals(thread) {
        // What is left goes back when the core is idle, or looks what is due.
        let _ = mm::return_slabs(cpu);
        if realtime::gives_way(cpu, thread) {
            return Resume::Gone;
        }
        match attend::attend(cpu, thread, process) {
            Attention::Run => {}
            Attention::Page => return Resume::HandlerPage,
            Attention::Gone => return Resume::Gone,
        }
        if let Some(stage) = turn::wait(cpu, thread) {
            return Resume::Turn(stage);
        }
    }
    match is_in_call() {
        true if thread.guest.get() != 0 => Resume::Guest,
        true if away::is_remote(thread) => Resume::AwayCall,
        true => Resume::Call,
        false if away::is_remote(thread) => Resume::Away,
        false if thread.garbage.get() != 0 => Resume::Garbage,
        false => Resume::Program,
    }
}

/// Whether the thread's call waits and looks once more before a signal ends it: the signal may have come together with what it waits for, as
/// `SIGCHLD` does, which is sent before those are woken who wait for the child. The second time, the signal comes first.
#[cold]
fn looks_before_signals(thread: &ThreadRecord) -> bool {
    let stage = thread.stage.get();
    let looks = stage.has_waited() && !stage.is_paused() && !stage.looks_first() && thread.guest.get() == 0;
    thread.stage.set(stage.looking(looks));
    looks
}
