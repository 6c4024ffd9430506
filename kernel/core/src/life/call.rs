//! System calls: they begin, wait or pause, and end.

use core::sync::atomic::Ordering;

use motet_abi::registers;
use motet_hal::{Interrupts, Machine};
use motet_layout::{ProcessRecord, Stage, TIMER_WAIT, ThreadRecord, handshake::then_look};
use motet_protocol::{Context, count, hand, timer, trace::End, wait};

use super::{interrupt::interrupted, page};
use crate::{
    call::{Call, Stop, SysResult, begin_call, end_call, note_pause},
    cpu::Cpu,
    cputime::charge,
    handover, syscall, trace, turn,
};

/// Dispatches the system call the thread is in. `None`: the thread no longer belongs to this core.
#[inline]
pub fn serve_syscall<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> Option<()> {
    // A thread that runs here has this island's registers.
    debug_assert!(registers::frame_isa(&thread.frame) == M::ISA);
    let call = Call { cpu, thread, process, args: registers::syscall_args_of(M::ISA, &thread.frame), isa: M::ISA };
    count(&cpu.counters().syscalls);
    if thread.stage.get().is_user() {
        begin_call(thread);
        cpu.due.renew_budget(); // user code ran
    }
    let result = syscall::dispatch(&call, registers::syscall_number_of(M::ISA, &thread.frame));
    assert!(!cfg!(motet_model) || hand::is_empty(cpu), "a system call has left a reference in hand");
    end_dispatch(cpu, thread, process, result, pause_first)
}

/// Ends the thread's wait, if it waited.
#[inline(always)]
pub fn end_wait<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    wait::finish(cpu, thread);
    timer::disarm(cpu, &thread.timer);
}

/// Ends a dispatch of a system call, by its result. If its work is not done, the core does what else is due first. `None`: the thread no longer
/// belongs to this core.
#[inline(always)]
pub fn conclude<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    result: SysResult,
) -> Option<()> {
    end_dispatch(cpu, thread, process, result, pause)
}

/// As [`conclude`]; `pause`: what a call does whose work is not done.
#[inline(always)]
fn end_dispatch<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    result: SysResult,
    pause: fn(&Cpu<M>, &'static ThreadRecord) -> Option<()>,
) -> Option<()> {
    let result = match result {
        Ok(value) => value as i64,
        Err(Stop::Error(errno)) => errno.result(),
        Err(Stop::Block) => {
            turn::sleeps(cpu, thread);
            return block(cpu, thread, thread.stage.get().waiting());
        }
        Err(Stop::Page) => return page::wait_in_call(cpu, thread, process),
        Err(Stop::Again) => return pause(cpu, thread),
        Err(Stop::Replaced) => {
            end_call(thread);
            trace::run(cpu, thread, process);
            return Some(());
        }
        Err(Stop::Gone) => return None,
    };
    registers::set_result_of(M::ISA, &thread.frame, result);
    end_call(thread);
    Some(())
}

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

/// Lets what is due be done before the call goes on. `None`: the thread has given up the core.
#[cold]
fn pause<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    note_pause(thread);
    pause_outside(cpu, thread)
}

/// As [`pause`], where the call may have begun to run a guest, which was interrupted: `serve_guests` decides what is next.
#[cold]
fn pause_first<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    if thread.guest.get() == 0 || !cpu.due.has_deferred() {
        return pause(cpu, thread);
    }
    note_pause(thread);
    Some(())
}

/// As [`pause`], where the thread is in no call.
pub fn pause_outside<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    let interrupts = cpu.due.take_deferred();
    if interrupts != Interrupts::EMPTY && interrupted(cpu, thread, interrupts) {
        cpu.handover.has_given(false); // what comes next has its general way
        return None;
    }
    cpu.pass();
    Some(())
}
