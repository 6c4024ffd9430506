//! From guest to guest: threads that run guests follow each other without what only programs need (address space, floating point, the dispatch of a system
//! call). [`next()`] decides who follows.
//!
//! Guests of equal threads take turns: when the slice of one is over, the core goes on with the next one's guest at once. The call of the thread that stops does
//! not return, and that of the next one is not dispatched. At each moment the threads have the states, and the places in the queue, that the
//! scheduler would give them. So when anything but the end of a slice comes, this ends, and nothing has to be put in order first.

use core::sync::atomic::Ordering;

use motet_abi::registers;
use motet_hal::{Machine, Trap};
use motet_layout::{ProcessRecord, ThreadRecord, WAKE_NONE};
use motet_protocol::ready;

use super::{
    begin_guest,
    block::end_wait,
    call::conclude,
    next::{Next, Running, next},
    stacked::{self, Left},
};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
    file, fpga, handover, mm, process, realtime, signal,
    tree::process_of,
    vm::{self, Held, Then},
};

/// Continues the system call by which the thread runs a guest, and then those of further such threads, as long as these are next on this core. Returns
/// the thread that needs something else; `None`: no thread belongs to this core any more.
#[inline(never)]
pub fn serve_guests<M: Machine>(
    cpu: &Cpu<M>,
    mut thread: &'static ThreadRecord,
    mut process: &'static ProcessRecord,
) -> Option<(&'static ThreadRecord, &'static ProcessRecord)> {
    let mut first = None;
    loop {
        let call = Call { cpu, thread, process, args: registers::syscall_args_of(M::ISA, &thread.frame), isa: M::ISA };
        // The call's first dispatch may have ended with an interrupt.
        let is_interrupted = first.is_none() && cpu.due.has_deferred();
        let result = if is_interrupted { Err(Stop::Again) } else { vm::go_on(&call, first.take()) };
        if !matches!(result, Err(Stop::Again | Stop::Block)) {
            file::guest_left(cpu, thread);
        }
        let is_paused = result == Err(Stop::Again);
        let next = if is_paused { next(cpu, Running::Guest(thread, process)) } else { Next::Undecided };
        let left = match next {
            Next::Nothing => take_turns(cpu, thread, process, None),
            Next::Guest(follower) => take_turns(cpu, thread, process, Some(follower)),
            Next::Urgent(urgent) => stacked::run(cpu, thread, urgent).unwrap_or_else(|| take_core(cpu, thread, urgent)),
            Next::First => first_guest(cpu)?,
            // Where a thread runs, it is this one.
            Next::Undecided | Next::Thread(..) | Next::Function(_) => {
                if conclude(cpu, thread, process, result).is_some() {
                    break;
                }
                first_guest(cpu)?
            }
        };
        (thread, process, first) = (left.thread, left.process, left.trap);
        if first.is_some() {
            continue;
        }
        if thread.attention.load(Ordering::Relaxed) != 0 {
            break;
        }
        go_on(cpu, thread);
    }
    // Guests run whatever address space is active.
    if mm::activate(cpu, mm::space_of(cpu, process)).is_err() {
        process::exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
        return None;
    }
    Some((thread, process))
}

/// The thread has left the core: the first of the ready ones, if that runs a guest, too, and goes on at once.
#[inline(always)]
fn first_guest<M: Machine>(cpu: &Cpu<M>) -> Option<Left> {
    cpu.own.current_thread.store(0, Ordering::Relaxed);
    fpga::catch_up(cpu); // before: it may wake who comes first
    if !matches!(next(cpu, Running::Gone), Next::First) {
        return None;
    }
    // Not from the inbox, where a program may be by now.
    Some(begin_call(cpu, ready::take(cpu, cpu.own)?))
}

/// The core goes from a thread to a more urgent one, which it has taken out of its wait.
#[inline(always)]
fn take_core<M: Machine>(cpu: &Cpu<M>, running: &'static ThreadRecord, urgent: &'static ThreadRecord) -> Left {
    realtime::make_way(cpu, running);
    ready::take_past(cpu, cpu.own, urgent);
    begin_call(cpu, urgent)
}

/// Goes on with a thread that this core has taken, and whose call is to be continued.
#[inline(always)]
fn begin_call<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Left {
    let process = process_of(cpu, thread);
    begin_guest(cpu, thread, process);
    Left { thread, process, trap: None }
}

/// The thread's guest goes on: what it may have been woken for, the guest finds out.
#[inline(always)]
fn go_on<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    end_wait(cpu, thread);
    thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
}

/// Guests take turns in this core, from the running thread on, or from its follower: until one stops at anything but the end of its slice.
#[inline(never)]
fn take_turns<M: Machine>(
    cpu: &Cpu<M>,
    mut thread: &'static ThreadRecord,
    mut process: &'static ProcessRecord,
    mut follower: Option<&'static ThreadRecord>,
) -> Left {
    loop {
        if let Some(follower) = follower {
            handover::say_ready(cpu, thread);
            ready::rotate(cpu, cpu.own, thread, follower);
            (thread, process) = (follower, process_of(cpu, follower));
            begin_guest(cpu, thread, process);
        }
        match take_turn(cpu, thread, process) {
            Ok(next) => follower = Some(next),
            Err(trap) => return Left { thread, process, trap },
        }
    }
}

/// Runs the thread's guest until its slice is over and another one follows: that one. The error is what it has stopped at otherwise, if at anything.
#[inline(always)]
fn take_turn<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> Result<&'static ThreadRecord, Option<Trap>> {
    if thread.attention.load(Ordering::Relaxed) != 0 {
        return Err(None);
    }
    let held = Held::take(cpu, thread).ok_or(None)?;
    go_on(cpu, thread);
    thread.deadline_ns.set(0);
    let look = || match next(cpu, Running::AtHand(thread, process)) {
        Next::Guest(follower) => Then::Ends(follower),
        Next::Nothing => Then::GoesOn,
        Next::Thread(..) | Next::Function(_) | Next::Urgent(_) | Next::First | Next::Undecided => Then::Other,
    };
    held.run_until(thread.charged_at_ns.get(), look).map_err(Some)
}
