//! The callee's side of the short way ([`super::direct`] has the messages): runs a function on a register frame of the core's own.
//!
//! While it does nothing but compute, nothing of the thread moves to this core but its pages. Whatever else happens (a system call, a fault, an
//! interrupt) makes it an ordinary thread of this core first: its frame becomes the thread's, and the caller's registers go into the record.
//! Where islands do not cache each other's memory, interrupts, pages that are not there yet and calls back ([`super::back`]) do not.

use motet_layout::sync::Ordering;

use motet_abi::{
    convention::{self, Entry, Results, StackWords},
    registers,
};
use motet_hal::{Access, Machine, Trap};
use motet_layout::{CoreId, PoolAddr, ProcessRecord, SpaceRecord, ThreadRecord, UserFrame};
use motet_protocol::{Context, count, direct, memory::alloc_zeroed_frame};

use super::{
    GATE,
    back::call_back,
    direct::{FLOATS, MORE_WORDS, RESULT_SHIFT, RESUMES, WORDS_MAX, end_damaged},
    innermost, report, signature_of, stack,
};
use crate::{cpu::Cpu, idle, mm, process::exit, sched, signal};

/// The thread id in [`Cpu::ext_owner`] while the core's extended registers are a called function's.
const CALLED: u32 = u32::MAX;

/// A call that this core was given.
struct Given {
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    /// Who waits for the results; `None`: the call word is damaged, and nobody can be told.
    caller: Option<CoreId>,
    /// The first word of the message.
    first: u64,
    /// The core's extended registers are those of a call of the same thread.
    again: bool,
}

impl Given {
    /// # Errors
    /// A word that cannot be: its number, and the word.
    #[inline(always)]
    fn read<M: Machine>(cpu: &Cpu<M>) -> Result<Self, (u32, u64)> {
        let [first, space] = [0, 1].map(|index: usize| cpu.own.message[index].get());
        let thread = direct::thread_in(cpu, first).ok_or((0, first))?;
        let again = cpu.ext_owner.get() == (cpu.raw(thread), CALLED);
        let known = again && cpu.active_space.get() == space;
        // What it says itself is far away; who was here just now is known.
        if !known && thread.core.load(Ordering::Relaxed) != u32::from(cpu.id.0) {
            return Err((0, first));
        }
        if !known && space_of(cpu, thread) != Some(space) {
            return Err((1, space));
        }
        let space = cpu.pool.get(PoolAddr(space)).ok_or((1, space))?;
        Ok(Self { thread, space, caller: direct::caller(cpu), first, again })
    }

    /// Makes `frame` the registers of the function, as the message says. `again`: it has those of a call of the same thread; if the
    /// function only goes on, its own.
    #[inline(always)]
    fn enter<M: Machine>(&self, cpu: &Cpu<M>, frame: &UserFrame, again: bool, far: bool) -> StackWords {
        let message = cpu.own;
        if far && self.resumes() {
            let (caller, signature) = (&message.message_caller, signature_of(&message.message_caller));
            let results = Results { words: [5, 3].map(|index: usize| message.message[index].get()), floats: [0; 2] };
            if again {
                convention::return_to_caller(frame, M::ISA, caller, &signature, &results);
            } else {
                convention::resume_caller(frame, M::ISA, caller, &signature, &results);
            }
            return StackWords::none(message.message[2].get());
        }
        if !again {
            registers::clear(frame);
        }
        let [function, stack, tls, word] = [2, 3, 4, 5].map(|index: usize| message.message[index].get());
        let words = convention::begin(frame, M::ISA, &Entry { function, gate: GATE, stack, tls }, 0);
        convention::set_word(frame, M::ISA, 0, word);
        if self.first & MORE_WORDS != 0 {
            for index in 1..WORDS_MAX {
                convention::set_word(frame, M::ISA, index, message.message_words[index].get());
            }
        }
        if self.has_floats() {
            let floats = core::array::from_fn(|index| message.message_floats[index].get());
            convention::set_floats(frame, M::ISA, &floats);
        }
        words
    }

    /// What is left of it when results lie in the message.
    fn place(&self) -> Place {
        Place { thread: self.thread, space: self.space, caller: self.caller }
    }

    /// It has called back, and goes on.
    fn resumes(&self) -> bool {
        self.first & RESUMES != 0
    }

    fn has_floats(&self) -> bool {
        self.first & FLOATS != 0
    }

    fn has_float_results(&self) -> bool {
        self.first >> RESULT_SHIFT & 0xf00 != 0
    }
}

/// Whose function a core runs.
#[derive(Clone, Copy)]
pub struct Place {
    /// The thread that has called it.
    pub thread: &'static ThreadRecord,
    /// The thread's address space.
    pub space: &'static SpaceRecord,
    /// As in [`Given`].
    pub caller: Option<CoreId>,
}

/// This core was called: runs the function until it returns, or becomes an ordinary thread and leaves this core.
///
/// `true`: it has returned, or called back, and this core has announced that it is about to sleep.
#[inline(always)]
pub fn called<M: Machine>(cpu: &Cpu<M>) -> bool {
    if cpu.uncached { called_from_far(cpu) } else { run_called(cpu, false) }
}

/// Where islands do not cache each other's memory (`far`): apart from it, so that the other one has more registers.
#[inline(never)]
fn called_from_far<M: Machine>(cpu: &Cpu<M>) -> bool {
    run_called(cpu, true)
}

#[inline(always)]
fn run_called<M: Machine>(cpu: &Cpu<M>, far: bool) -> bool {
    idle::stop_polling(cpu);
    let given = match Given::read(cpu) {
        Ok(given) => given,
        Err((index, word)) => {
            end_damaged(cpu, cpu.id, format_args!("the message of its call is damaged: word {index} is {word:#x}"));
            return false;
        }
    };
    let Some(frame) = call_frame(cpu) else {
        // Without a frame of its own, the core uses the thread's.
        adopt(cpu, given.place(), None, 0, None);
        return false;
    };
    // What another call of the same thread has left in the registers is its own.
    let frame_of = if far { cpu.frame_of.replace(0) } else { 0 };
    let again = given.again && (!far || !given.resumes() || cpu.own.message_caller.frame.get() == frame_of);
    let words = given.enter(cpu, frame, again, far);
    if mm::activate(cpu, given.space).is_err() || !stack::push(cpu, given.space, &words) {
        adopt(cpu, given.place(), Some(frame), words.sp_at_return, Some(Trap::BadAddress { address: words.at }));
        return false;
    }
    cpu.resident.set(cpu.raw(given.space));
    if given.has_floats() || !again {
        cpu.machine.load_ext(frame);
        cpu.ext_owner.set((cpu.raw(given.thread), CALLED));
    }
    let sp_at_return = words.sp_at_return;
    loop {
        // Without another thread here, nobody needs a time slice.
        if direct::is_disturbed(cpu) {
            adopt(cpu, given.place(), Some(frame), sp_at_return, None);
            return false;
        }
        let trap = cpu.machine.run_user(frame);
        let returned = matches!(trap, Trap::PageFault { address: GATE, access: Access::Execute });
        let balanced = registers::pc(frame) == GATE && registers::sp_of(M::ISA, frame) == sp_at_return;
        if let Some(caller) = given.caller.filter(|_| returned && balanced)
            && give_back(cpu, &given, caller, frame, far)
        {
            return true;
        }
        let is_fetch = matches!(trap, Trap::PageFault { access: Access::Execute, .. });
        if far && is_fetch && call_back(cpu, given.place(), frame, sp_at_return) {
            return true;
        }
        if !far || returned || !serve(cpu, given.place(), trap) {
            adopt(cpu, given.place(), Some(frame), sp_at_return, Some(trap));
            return false;
        }
    }
}

/// Acts on what has stopped a called function, if that needs no thread: interrupts, pages that are not there yet. Only where the thread is
/// far away: elsewhere it costs little to be an ordinary thread, which has a time slice and registers that others can see.
#[inline(never)]
fn serve<M: Machine>(cpu: &Cpu<M>, place: Place, trap: Trap) -> bool {
    match trap {
        Trap::Interrupt(interrupts) => sched::interrupted_call(cpu, interrupts),
        Trap::PageFault { address, access } => {
            let is_call = access == Access::Execute && mm::pin_at(cpu, place.space, address).is_some();
            if is_call || mm::serve_fault(cpu, place.space, address, access).is_err() {
                return false;
            }
        }
        Trap::Syscall
        | Trap::IllegalInstruction
        | Trap::Breakpoint
        | Trap::Arithmetic
        | Trap::Misaligned { .. }
        | Trap::BadAddress { .. } => return false,
    }
    cpu.pass();
    // Serving may have taken the space away.
    mm::activate(cpu, place.space).is_ok()
}

/// The register frame of called functions, made at the first call.
fn call_frame<M: Machine>(cpu: &Cpu<M>) -> Option<&'static UserFrame> {
    if cpu.call_frame.get() == 0 {
        cpu.call_frame.set(alloc_zeroed_frame(cpu)?.addr().0);
    }
    Some(cpu.pool.at(PoolAddr(cpu.call_frame.get())))
}

/// Gives the function's results to the caller's core. `false`: somebody wants the thread here.
#[inline(always)]
fn give_back<M: Machine>(cpu: &Cpu<M>, given: &Given, caller: CoreId, frame: &'static UserFrame, far: bool) -> bool {
    let reply = direct::reply(cpu, caller, far);
    reply[5].set(convention::result_word(M::ISA, frame, 0));
    reply[1].set(convention::result_word(M::ISA, frame, 1));
    if given.has_float_results() {
        cpu.machine.save_ext(frame);
        reply[2].set(convention::float(M::ISA, frame, 0));
        reply[3].set(convention::float(M::ISA, frame, 1));
    }
    direct::give_back(cpu, caller, idle::idle_state(cpu), far)
}

/// Makes the thread of a call an ordinary thread of this core and lets it go on: with `trap`, which `frame` stopped at,
/// or from the function's beginning.
#[cold]
fn adopt<M: Machine>(
    cpu: &Cpu<M>,
    place: Place,
    frame: Option<&'static UserFrame>,
    sp_at_return: u64,
    trap: Option<Trap>,
) {
    let Place { thread, space, caller } = place;
    let given = Given { thread, space, caller, first: cpu.own.message[0].get(), again: false };
    let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    let Some(record) = innermost(cpu, thread) else {
        cpu.own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
        direct::end_call(cpu, caller);
        report::kill(cpu, thread, process, format_args!("it is in a call of which there is no record"));
        return;
    };
    sched::charge(cpu, thread);
    if record.is_saved.get() == 0 {
        convention::save_caller(registers::frame_isa(&thread.frame), &thread.frame, record);
        record.is_saved.set(1);
    }
    match frame {
        Some(frame) => {
            cpu.machine.save_ext(frame);
            registers::copy_frame(frame, &thread.frame);
            record.callee_sp.set(sp_at_return);
            thread.ext_core.set(u32::from(cpu.id.0) + 1);
            cpu.ext_owner.set((cpu.raw(thread), thread.tid.get()));
        }
        None => {
            let words = given.enter(cpu, &thread.frame, false, cpu.uncached);
            record.callee_sp.set(words.sp_at_return);
            // Should there be no memory for it, the function faults where it returns to.
            stack::push(cpu, given.space, &words);
            thread.ext_core.set(0);
        }
    }
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
    direct::end_call(cpu, caller);
    count(&cpu.counters().context_switches);
    if mm::activate(cpu, given.space).is_err() {
        return exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
    }
    sched::go_on(cpu, thread, process, trap);
}

/// The address space of a thread (pool address).
fn space_of<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<u64> {
    let process = cpu.pool.get::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)))?;
    Some(process.space.load(Ordering::Relaxed))
}
