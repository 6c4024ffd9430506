//! System calls: they begin, wait or pause, and end.

use motet_abi::registers;
use motet_hal::{Interrupts, Machine};
use motet_layout::{ProcessRecord, ThreadRecord};
use motet_protocol::{Context, count, hand};

use super::{block::block, page, preempt::interrupted};
use crate::{
    call::{Call, Stop, SysResult, begin_call, end_call, note_pause},
    cpu::Cpu,
    process::limits,
    syscall, trace, turn,
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

/// As [`serve_syscall`], of a half whose home is another kernel.
#[cold]
#[inline(never)]
pub fn serve_remote_syscall<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> Option<()> {
    let call = Call { cpu, thread, process, args: registers::syscall_args_of(M::ISA, &thread.frame), isa: M::ISA };
    count(&cpu.counters().syscalls);
    if thread.stage.get().is_user() {
        begin_call(thread);
        cpu.due.renew_budget(); // user code ran
    }
    let result = syscall::dispatch_remote(&call, registers::syscall_number_of(M::ISA, &thread.frame));
    conclude(cpu, thread, process, result)
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
            limits::check_time_of(cpu, thread, process);
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
