//! Answers to the calls of this core: it polls for them, or is rung. What it does with those for which it does not wait in the middle of the call.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_abi::registers;
use motet_hal::{Interrupts, Machine};
use motet_layout::{CoreId, THREAD_READY, ThreadRecord};
use motet_protocol::{
    Context,
    cores::core_record,
    direct::{self, Outcome, Reach},
    message, noncoherent, run_queue, timer,
};

use super::{
    Awake as _,
    back::{take_call, undo},
    caller::{Made, release, resume, take_back},
    damaged::end_damaged,
    gate,
    records::{end, innermost},
    request::uncount_call,
};
use crate::{
    ability,
    alarm::{self, set_timer_exactly},
    cpu::Cpu,
    cputime, handover,
};

/// Over a link: whether this core's call has been taken after its time was over, and is not answered yet. Then there is nothing to wait for but the answer.
pub fn waits_on<M: Machine>(cpu: &Cpu<M>) -> bool {
    let is_over = cpu.crossing.is_time_over(|| cpu.now_ns());
    let waits_on = is_over && direct::is_taken(cpu) && !has_outcome(cpu);
    if waits_on {
        cpu.crossing.no_longer_gives_up();
        cpu.handle_interrupts(Interrupts::EMPTY);
        set_timer_exactly(cpu, timer::next_deadline_ns(cpu));
        cpu.pass();
    }
    waits_on
}

/// Not coherent: the call of this core has not been answered: if it has not even been taken for long, this core wants it back.
fn give_up<M: Machine>(cpu: &Cpu<M>, callee: CoreId) {
    if !cpu.crossing.may_give_up() {
        return;
    }
    let now_ns = cpu.now_ns();
    if cpu.crossing.gives_up_at(now_ns) > now_ns {
        return;
    }
    cpu.crossing.no_longer_gives_up();
    if !direct::is_taken(cpu) {
        cpu.crossing.withdraw();
        noncoherent::withdraw(cpu, callee);
    }
}

/// Not coherent: `callee` has not taken the call of this core: its thread makes the call again, and takes the long way.
fn take_withdrawn<M: Machine>(cpu: &Cpu<M>, callee: CoreId) -> Option<&'static ThreadRecord> {
    cpu.crossing.awaited().remove(callee);
    release(cpu, callee, Reach::Noncoherent);
    let thread = cpu.crossing.away()?;
    take_back(cpu, thread);
    cputime::charge(cpu, thread);
    let undone = innermost(cpu, thread).and_then(|record| {
        if cpu.crossing.resumes() {
            return undo(cpu, thread, record);
        }
        uncount_call(cpu, thread, record);
        end(cpu, thread, record, M::ISA);
        // A thread that has fetched from the function is still there, and fetches again. `call_on` has been passed.
        if record.function.get() != registers::pc(&thread.frame) {
            registers::rewind_syscall(&thread.frame);
        }
        Some(())
    });
    if undone.is_none() {
        registers::set_pc(&thread.frame, gate::address(M::ISA)); // where it is to go on is lost
    }
    cpu.crossing.send_long_way(cpu.raw(thread));
    Some(thread)
}

/// A thread of this core whose function elsewhere has returned, with its caller's registers.
fn returned<M: Machine>(cpu: &Cpu<M>) -> Option<&'static ThreadRecord> {
    let reach = cpu.crossing.reach();
    cpu.crossing.awaited().iter().find_map(|callee| match direct::outcome(cpu, callee, reach) {
        Outcome::Runs => {
            if reach.is_noncoherent() {
                give_up(cpu, callee);
            }
            None
        }
        Outcome::Left => {
            cpu.crossing.awaited().remove(callee);
            if reach.is_noncoherent() {
                release(cpu, callee, reach);
            }
            None
        }
        Outcome::Withdrawn => take_withdrawn(cpu, callee),
        outcome @ (Outcome::Returned | Outcome::Calls) => {
            cpu.crossing.awaited().remove(callee);
            let Some(thread) = called_on(cpu, callee, reach) else {
                let word = core_record(cpu, callee).message[0].get();
                let what = format_args!("the message of its call's results is damaged: word 0 is {word:#x}");
                return end_damaged(cpu, callee, what);
            };
            cputime::charge(cpu, thread);
            match innermost(cpu, thread) {
                Some(record) => {
                    let has_new_ext = match outcome {
                        Outcome::Calls => take_call(cpu, thread, record, callee),
                        Outcome::Returned | Outcome::Runs | Outcome::Left | Outcome::Withdrawn => {
                            resume(cpu, thread, record, callee, reach)
                        }
                    };
                    if has_new_ext {
                        ability::change_ext(thread); // load what was just changed
                    }
                }
                // Where it is to go on is lost; it faults where it called.
                None => {
                    take_back(cpu, thread);
                    release(cpu, callee, reach);
                    registers::set_pc(&thread.frame, gate::address(M::ISA));
                }
            }
            Some(thread)
        }
    })
}

/// The thread for which this core, which has taken the answer, called `callee`; `None`: the message is damaged.
fn called_on<M: Machine>(cpu: &Cpu<M>, callee: CoreId, reach: Reach) -> Option<&'static ThreadRecord> {
    // Once it has answered, others may write their calls over the message.
    if reach.is_noncoherent() {
        return cpu.crossing.away();
    }
    let is_there = |thread: &&ThreadRecord| thread.core.load(Ordering::Relaxed) == u32::from(callee.0);
    message::thread_of(cpu, core_record(cpu, callee)).filter(is_there)
}

/// Whether a call that this core has made, and whose end it polls for, may have ended.
pub fn has_outcome<M: Machine>(cpu: &Cpu<M>) -> bool {
    if cpu.crossing.reach().is_noncoherent() {
        return !cpu.crossing.awaited().is_empty() && direct::has_answer(cpu); // there is one such call
    }
    cpu.crossing.awaited().iter().any(|callee| direct::has_outcome(cpu, callee, Reach::Coherent))
}

/// Stops polling for the ends of the calls that this core has made: from now on they ring. `false`: one may have ended.
pub fn stop_polling_calls<M: Machine>(cpu: &Cpu<M>) -> bool {
    let polled = cpu.crossing.stop_polling_calls();
    if cpu.crossing.reach().is_noncoherent() {
        if cpu.crossing.awaited().is_empty() {
            return true;
        }
        if polled {
            look_no_longer(cpu);
        }
        return !has_outcome(cpu);
    }
    // Each of them, also after one that has ended.
    !polled || cpu.crossing.awaited().iter().filter(|&callee| !direct::stop_polling(cpu, callee)).count() == 0
}

/// Over a link: stores that this core is to be rung from now on. The caller has to look once more whether something has come.
pub fn look_no_longer<M: Machine>(cpu: &Cpu<M>) {
    if !cpu.crossing.look_no_longer() {
        noncoherent::look_no_longer(cpu);
    }
}

/// Over a link: stores that this core polls from now on.
#[inline(always)]
pub fn look_again<M: Machine>(cpu: &Cpu<M>) {
    if cpu.crossing.look_again() {
        noncoherent::look_again(cpu);
    }
}

/// Returns a thread whose function on another core has returned; makes further ones ready.
pub fn first_returned<M: Machine>(cpu: &Cpu<M>) -> Option<&'static ThreadRecord> {
    if cpu.crossing.awaited().is_empty() {
        return None;
    }
    let first = returned(cpu)?;
    make_returned_ready(cpu);
    Some(first)
}

/// The thread that this core waited for goes on (`has_new_ext`: with other extended registers): its slice ends some time, and calls
/// that other threads of this core have made ring it when they end.
#[inline(always)]
pub fn go_on<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, made: &Made, has_new_ext: bool) {
    cpu.crossing.awaited().remove(made.callee);
    if has_new_ext {
        handover::reload_ext(cpu, thread);
    }
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::Release);
    then_look(); // at the attention word, before the thread runs
    if !cpu.alarm.is_set() {
        alarm::reprogram_timer(cpu);
    } else if cpu.crossing.reach().is_noncoherent() && !cpu.is_polling() {
        alarm::begin_slice(cpu); // the timer was for the call
    }
    stop_polling(cpu);
    // The doorbell that ended the sleep may have been theirs, too.
    if made.others {
        make_returned_ready(cpu);
    }
}

/// Makes calls of this core's threads ring it when they end, because it is about to run user code.
#[inline(always)]
pub fn stop_polling<M: Machine>(cpu: &Cpu<M>) {
    if cpu.crossing.polls_calls() && !stop_polling_calls(cpu) {
        make_returned_ready(cpu);
    }
}

/// Makes threads ready whose functions on other cores have returned.
pub fn make_returned_ready<M: Machine>(cpu: &Cpu<M>) {
    while !cpu.crossing.awaited().is_empty()
        && let Some(thread) = returned(cpu)
    {
        thread.state.store(THREAD_READY, Ordering::Relaxed);
        run_queue::append(cpu, thread);
    }
}
