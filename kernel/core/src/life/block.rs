//! A thread blocks: it is taken off this core, unless a signal has come; and its wait ends.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{Stage, TIMER_WAIT, ThreadRecord, handshake::then_look};
use motet_protocol::{Context, timer, trace::End, wait};

use crate::{cpu::Cpu, cputime::charge, handover};

/// Blocks the thread, which has prepared to wait; `stage`: in the middle of what. `None`: it is blocked, and may already run elsewhere.
pub fn block<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, stage: Stage) -> Option<()> {
    thread.stage.set(stage);
    handover::save_ext(cpu, thread);
    charge(cpu, thread);
    if thread.deadline_ns.get() != 0 {
        thread.timer.kind.set(TIMER_WAIT);
        thread.timer.owner.set(cpu.raw(thread));
        timer::arm(cpu, &thread.timer, thread.deadline_ns.get());
    }
    leave(cpu, thread)
}

/// Takes the thread, which has prepared to wait and whose registers are saved, off this core. `None`: it is blocked, and may already run elsewhere.
#[inline(always)]
pub fn leave<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    // A signal sent before the thread prepared did not wake it; one sent after does.
    if thread.attention.load(Ordering::SeqCst) != 0 {
        return Some(());
    }
    cpu.own.current_thread.store(0, Ordering::Release);
    if wait::commit(thread) {
        cpu.tracer.will_end(End::Blocked);
        return None;
    }
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::Release);
    then_look(); // at the attention word
    Some(())
}

/// Ends the thread's wait, if it waited.
#[inline(always)]
pub fn end_wait<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    wait::finish(cpu, thread);
    timer::disarm(cpu, &thread.timer);
}
