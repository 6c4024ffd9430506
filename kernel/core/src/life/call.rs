//! System calls: they begin, wait or pause, and end.

use core::sync::atomic::Ordering;

use motet_abi::registers;
use motet_hal::{Interrupts, Machine};
use motet_layout::{
    CALL_PAUSED, CALL_WAITED, ProcessRecord, TIMER_WAIT, ThreadRecord, WAKE_NONE, handshake::then_look,
};
use motet_protocol::{Context, count, hand, run_queue, timer, trace::End, wait};

use super::{begin, interrupt::interrupted, take_over};
use crate::{
    alarm,
    call::{BUDGET, Call, Stop, SysResult, end_call},
    cpu::Cpu,
    cputime::charge,
    extension, file, fpga, handover, hotplug, mm, process, signal, syscall, trace,
    tree::process_of,
    turn, vm,
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
        cpu.budget.set(BUDGET); // user code ran
    }
    let result = syscall::dispatch(&call, registers::syscall_number_of(M::ISA, &thread.frame));
    assert!(!cfg!(motet_model) || hand::is_empty(cpu), "a system call has left a reference in hand");
    conclude(cpu, thread, process, result)
}

/// Goes on with the system call that makes the thread a core of a virtual machine; then with other such threads, as long as these are next
/// here: so guests follow each other without what programs need. Returns the one that something else is to be done for; `None`: no thread
/// belongs to this core any more.
#[inline(never)]
pub fn serve_guests<M: Machine>(
    cpu: &Cpu<M>,
    mut thread: &'static ThreadRecord,
    mut process: &'static ProcessRecord,
) -> Option<(&'static ThreadRecord, &'static ProcessRecord)> {
    loop {
        let call = Call { cpu, thread, process, args: registers::syscall_args_of(M::ISA, &thread.frame), isa: M::ISA };
        let result = vm::go_on(&call);
        if !matches!(result, Err(Stop::Again | Stop::Block)) {
            file::guest_left(cpu, thread);
        }
        if conclude(cpu, thread, process, result).is_some() {
            break;
        }
        (thread, process) = next_guest(cpu)?;
        if thread.attention.load(Ordering::Relaxed) != 0 {
            break;
        }
        end_wait(cpu, thread);
        thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
    }
    // Guests run whatever address space is active.
    if mm::activate(cpu, mm::space_of(cpu, process)).is_err() {
        process::exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
        return None;
    }
    Some((thread, process))
}

/// Takes the thread that is next on this core, if that is in the middle of running a guest, and this core has nothing else to do first.
#[inline(always)]
fn next_guest<M: Machine>(cpu: &Cpu<M>) -> Option<(&'static ThreadRecord, &'static ProcessRecord)> {
    let is_due = cpu.deferred.get() != Interrupts::EMPTY
        || cpu.crossing.migrates
        || cpu.crossing.woken.get().is_some()
        || extension::away::has_come(cpu)
        || hotplug::is_asked(cpu)
        || cpu.budget.get() == 0;
    if is_due || !run_queue::first(cpu).is_some_and(vm::may_go_on) {
        return None;
    }
    cpu.own.current_thread.store(0, Ordering::Relaxed);
    fpga::catch_up(cpu);
    trace::stop(cpu);
    let thread = run_queue::next(cpu)?;
    let process = process_of(cpu, thread);
    take_over(cpu, thread);
    let started_ns = begin(cpu, thread, process);
    if !mm::may_stay_active(cpu) {
        mm::deactivate(cpu);
    }
    handover::take_ext(cpu, thread);
    alarm::program_timer(cpu, started_ns);
    thread.charged_at_ns.set(started_ns);
    Some((thread, process))
}

/// The thread no longer waits, if it did.
#[inline(always)]
pub fn end_wait<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    wait::finish(cpu, thread);
    timer::disarm(cpu, &thread.timer);
}

/// A dispatch of a system call is over. `None`: the thread no longer belongs to this core.
#[inline(always)]
fn conclude<M: Machine>(
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
    let in_syscall = thread.in_syscall.get();
    if in_syscall & CALL_WAITED == 0 {
        // What has ended an earlier call's wait is not about this one.
        thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
    }
    thread.in_syscall.set(in_syscall | CALL_PAUSED);
    pause_outside(cpu, thread)
}

/// As [`pause`], where the thread is in no call.
pub fn pause_outside<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    let interrupts = cpu.deferred.replace(Interrupts::EMPTY);
    let is_gone = interrupts != Interrupts::EMPTY && interrupted(cpu, thread, interrupts);
    (!is_gone).then(|| cpu.pass())
}
