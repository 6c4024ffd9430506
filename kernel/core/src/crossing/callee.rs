//! The callee's side of a call that goes the short way: its steps, by state ([`super::call`] has them all). The callee's core runs the function on
//! a register frame of its own.
//!
//! While the function only computes, nothing of the thread moves to this core but its pages. Anything else (a system call, a fault, an
//! interrupt) first makes it an ordinary thread of this core: its frame becomes the thread's, and the caller's registers go into the record.
//! Where islands do not cache each other's memory, interrupts, missing pages and calls back ([`super::back`]) are exceptions.

use motet_layout::sync::Ordering;

use motet_abi::{convention, registers};
use motet_hal::{Access, Machine, Trap};
use motet_layout::{CALL_RETURNED, CoreId, PoolAddr, ProcessRecord, ThreadRecord, UserFrame};
use motet_protocol::{
    Context, count,
    direct::{self, Message, Reach, Reply},
    memory::alloc_zeroed_frame,
};

use super::{
    Awake as _,
    back::call_back,
    damaged::end_damaged,
    gate,
    message::{CALLED, Given, OnBehalf, resume},
    records::innermost,
    report, stack,
};
use crate::{ability, cpu::Cpu, cputime, mm, process::exit, signal};

/// A function that this core has begun to run.
pub struct Begun {
    /// Whose it is.
    pub given: Given,
    /// Its registers.
    pub frame: &'static UserFrame,
    /// The stack pointer when it returns.
    pub sp_at_return: u64,
}

/// What becomes of a called function that has stopped.
pub enum Step {
    /// It has returned, or called back, and the caller's core has that. This core has announced that it is about to sleep.
    Answered,
    /// What has stopped it is served: it goes on.
    Served,
    /// It needs to be an ordinary thread, which goes on with this.
    Leaves(Trap),
}

/// Reads the call that this core was given, and sets up its function's registers. `None`: the call has ended otherwise.
#[inline(always)]
pub fn begin<M: Machine>(cpu: &Cpu<M>, reach: Reach) -> Option<Begun> {
    let damaged = |(index, word): (u32, u64)| {
        end_damaged(cpu, cpu.id, format_args!("the message of its call is damaged: word {index} is {word:#x}"));
    };
    let given = Given::read(cpu, reach).map_err(damaged).ok()?;
    let (own_frame, resumes) = (call_frame(cpu), reach.is_noncoherent() && given.resumes());
    // What another call of the same thread has left in the registers is its own.
    let frame_of = if reach.is_noncoherent() { cpu.crossing.take_frame_of() } else { 0 };
    let again =
        own_frame.is_some() && given.again && (!resumes || given.message.words[resume::FRAME].get() == frame_of);
    if resumes && !again && given.saved_caller(cpu).is_none() {
        damaged((4, given.message.message[4].get()));
        return None;
    }
    let Some(frame) = own_frame else {
        // Without a frame of its own, the core uses the thread's.
        adopt(cpu, given.place(), None, 0, None, reach);
        return None;
    };
    let words = given.enter(cpu, frame, again, reach);
    let sp_at_return = words.sp_at_return;
    if mm::activate(cpu, given.space).is_err() || !stack::push(cpu, given.space, &words) {
        let trap = Trap::BadAddress { address: words.at };
        adopt(cpu, given.place(), Some(frame), sp_at_return, Some(trap), reach);
        return None;
    }
    cpu.crossing.keep_resident(cpu.raw(given.space));
    if given.has_floats() || !again {
        cpu.machine.load_ext(frame);
        cpu.handover.hold(cpu.raw(given.thread), CALLED, 0);
    }
    Some(Begun { given, frame, sp_at_return })
}

/// Handles a trap of the called function: answers its caller, or serves the trap.
#[inline(always)]
pub fn step<M: Machine>(cpu: &Cpu<M>, begun: &Begun, trap: Trap, reach: Reach) -> Step {
    let &Begun { ref given, frame, sp_at_return } = begun;
    let trap = gate::passed(cpu, given.space, frame, trap);
    let returned = trap == Trap::Syscall && gate::is_passed::<M>(frame);
    let balanced = registers::sp_of(M::ISA, frame) == sp_at_return;
    if let Some(caller) = given.caller.filter(|_| returned && balanced)
        && give_back(cpu, given, caller, frame, reach)
    {
        return Step::Answered;
    }
    if !reach.is_noncoherent() {
        return Step::Leaves(trap);
    }
    let is_fetch = matches!(trap, Trap::PageFault { access: Access::Execute, .. });
    if is_fetch && call_back(cpu, given.place(), frame, sp_at_return, reach) {
        return Step::Answered;
    }
    if !returned && serve(cpu, given.place(), frame, trap) { Step::Served } else { Step::Leaves(trap) }
}

/// Acts on what has stopped a called function, if that needs no thread: interrupts, pages that are not there yet, system calls that only
/// read. Only where the thread is
/// far away: elsewhere it costs little to be an ordinary thread, which has a time slice and registers that others can see.
#[inline(never)]
fn serve<M: Machine>(cpu: &Cpu<M>, place: OnBehalf, frame: &UserFrame, trap: Trap) -> bool {
    match trap {
        Trap::Interrupt(interrupts) => cpu.interrupted_call(place.thread, interrupts),
        Trap::PageFault { address, access } => {
            let is_call = access == Access::Execute && mm::pin_at(cpu, place.space, address).is_some();
            if is_call || mm::serve_fault(cpu, place.space, address, access).is_err() {
                return false;
            }
        }
        Trap::Syscall => {
            if !serve_syscall(cpu, place.thread, frame) {
                return false;
            }
        }
        Trap::IllegalInstruction { .. }
        | Trap::Breakpoint
        | Trap::Arithmetic
        | Trap::Misaligned { .. }
        | Trap::BadAddress { .. }
        | Trap::Guest(_) => return false,
    }
    cpu.pass();
    // Serving may have taken the space away.
    mm::activate(cpu, place.space).is_ok()
}

/// Serves the system call that a called function with the registers `frame` makes; `false`: an ordinary thread has to make it.
fn serve_syscall<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, frame: &UserFrame) -> bool {
    cpu.due.renew_budget();
    let Some(result) = cpu.serve_elsewhere(thread, frame) else { return false };
    count(&cpu.counters().syscalls);
    registers::set_result_of(M::ISA, frame, result);
    true
}

/// The register frame of called functions, made at the first call.
fn call_frame<M: Machine>(cpu: &Cpu<M>) -> Option<&'static UserFrame> {
    let frame = match cpu.crossing.call_frame() {
        Some(frame) => frame,
        None => {
            // This core may never run a thread of its own.
            ability::before_load(cpu);
            cpu.crossing.make_call_frame(alloc_zeroed_frame(cpu)?.addr())
        }
    };
    Some(cpu.pool.at(frame))
}

/// Gives the function's results to the caller's core. `false`: somebody wants the thread here.
#[inline(always)]
fn give_back<M: Machine>(cpu: &Cpu<M>, given: &Given, caller: CoreId, frame: &'static UserFrame, reach: Reach) -> bool {
    let has_floats = given.has_float_results();
    let by_engine = reach.has_engine() && cpu.crossing.engine_copies(caller, if has_floats { 5 } else { 3 });
    let reply = if by_engine { Reply::outgoing(cpu).message } else { direct::reply(cpu, caller, reach) };
    reply[5].set(motet_abi::gate::first_result(M::ISA, frame));
    reply[1].set(convention::result_word(M::ISA, frame, 1));
    if has_floats {
        cpu.machine.save_ext(frame);
        reply[2].set(convention::float(M::ISA, frame, 0));
        reply[3].set(convention::float(M::ISA, frame, 1));
    }
    if by_engine {
        return direct::answer_by_engine(cpu, caller, CALL_RETURNED, cpu.idle_state());
    }
    direct::give_back(cpu, caller, cpu.idle_state(), reach)
}

/// Makes the thread of a call an ordinary thread of this core, which is to go on ([`super::take_left`]): with `trap`, which `frame` stopped at, or
/// from the function's beginning.
#[cold]
pub fn adopt<M: Machine>(
    cpu: &Cpu<M>,
    place: OnBehalf,
    frame: Option<&'static UserFrame>,
    sp_at_return: u64,
    trap: Option<Trap>,
    reach: Reach,
) {
    let OnBehalf { thread, space, caller } = place;
    let message = Message::of(cpu.own, caller.unwrap_or(cpu.id), reach);
    let given = Given { thread, space, caller, first: message.message[0].get(), again: false, message };
    let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    let Some(record) = innermost(cpu, thread) else {
        cpu.own.current_thread.store(cpu.raw(thread), Ordering::Release);
        direct::end_call(cpu, caller, reach);
        report::kill(cpu, thread, process, format_args!("it is in a call of which there is no record"));
        return;
    };
    cputime::charge(cpu, thread);
    if record.is_saved.get() == 0 {
        convention::save_caller(registers::frame_isa(&thread.frame), &thread.frame, record);
        record.is_saved.set(1);
    }
    match frame {
        Some(frame) => {
            cpu.machine.save_ext(frame);
            ability::writes(cpu, thread, || registers::copy_frame(frame, &thread.frame));
            record.callee_sp.set(sp_at_return);
            let version = ability::change_ext(thread);
            cpu.handover.hold(cpu.raw(thread), thread.tid.get(), version);
        }
        None => {
            let words = given.enter(cpu, &thread.frame, false, reach);
            record.callee_sp.set(words.sp_at_return);
            // Should there be no memory for it, the function faults where it returns to.
            stack::push(cpu, space, &words);
            ability::change_ext(thread);
        }
    }
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::Release);
    direct::end_call(cpu, caller, reach);
    count(&cpu.counters().context_switches);
    if mm::activate(cpu, space).is_err() {
        return exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
    }
    cpu.crossing.leave(thread, trap);
}
