//! System calls: they begin, wait or pause, and end.

use core::sync::atomic::Ordering;

use motet_abi::registers;
use motet_hal::{Interrupts, Machine};
use motet_layout::{
    CALL_PAUSED, CALL_WAITED, ProcessRecord, TIMER_WAIT, ThreadRecord, WAKE_NONE, handshake::then_look,
};
use motet_protocol::{Context, count, hand, timer, trace::End, wait};

use super::{interrupt::interrupted, page};
use crate::{
    call::{Call, Stop, SysResult, begin_call, end_call},
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
    if thread.in_syscall.get() == 0 {
        begin_call(thread);
        cpu.due.renew_budget(); // user code ran
    }
    let result = syscall::dispatch(&call, registers::syscall_number_of(M::ISA, &thread.frame));
    assert!(!cfg!(motet_model) || hand::is_empty(cpu), "a system call has left a reference in hand");
    if thread.guest.get() != 0 && result == Err(Stop::Again) && cpu.due.has_deferred() {
        // It has begun to run a guest, which was interrupted: `serve_guests` decides what is next.
        note_pause(thread);
        return Some(());
    }
    conclude(cpu, thread, process, result)
}

/// Ends the thread's wait, if it waited.
#[inline(always)]
pub fn end_wait<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    wait::finish(cpu, thread);
    timer::disarm(cpu, &thread.timer);
}

/// Ends a dispatch of a system call, by its result. `None`: the thread no longer belongs to this core.
#[inline(always)]
pub fn conclude<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    result: SysResult,
) -> Option<()> {
    let result = match result {
        Ok(value) => value as i64,
        Err(Stop::Error(errno)) => errno.result(),
        Err(Stop::Block) => {
            turn::sleeps(cpu, thread);
            return block(cpu, thread, CALL_WAITED);
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

/// Blocks the thread, which has prepared to wait. `None`: it is blocked, and may already run elsewhere.
pub fn block<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, in_syscall: u32) -> Option<()> {
    thread.in_syscall.set(in_syscall);
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

/// Notes in the thread that its system call pauses.
#[inline(always)]
pub fn note_pause(thread: &ThreadRecord) {
    let in_syscall = thread.in_syscall.get();
    if in_syscall & CALL_WAITED == 0 {
        // What has ended an earlier call's wait is not about this one.
        thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
    }
    thread.in_syscall.set(in_syscall | CALL_PAUSED);
}

/// As [`pause`], where the thread is in no call.
pub fn pause_outside<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    let interrupts = cpu.due.take_deferred();
    let is_gone = interrupts != Interrupts::EMPTY && interrupted(cpu, thread, interrupts);
    (!is_gone).then(|| cpu.pass())
}
