//! The short way: a call to a sleeping core, and the return to one, without a run queue (`motet_protocol::direct`).
//!
//! The function runs on a register frame of the core's own. While it does nothing but compute, nothing of the thread moves
//! to this core but its pages. Whatever else happens (a system call, a fault, an interrupt) makes it an ordinary thread
//! of this core first: its frame becomes the thread's, and the caller's registers go into the record.
//!
//! | word of the message | call | results |
//! |---|---|---|
//! | 0 | thread | stays |
//! | 1 | address space | second result word |
//! | 2 | function | first floating-point result |
//! | 3 | stack pointer | second floating-point result |
//! | 4 | thread pointer | stays |
//! | 5 | first argument word | first result word |
//!
//! The result's kinds and whether there are more arguments is in the top bits of word 0: pool addresses have 40 bits.
//! Argument words are as the function's ISA has them in registers.

use core::fmt;

use motet_layout::sync::Ordering;

use motet_abi::{
    convention::{self, Entry, Results, StackWords},
    registers,
};
use motet_hal::{Access, Interrupts, Machine, Trap};
use motet_layout::{
    Cell64, CoreId, CoreRecord, CrossingRecord, PoolAddr, ProcessRecord, SpaceRecord, THREAD_RUNNING, ThreadRecord,
    UserFrame,
};
use motet_protocol::{
    Context, count,
    direct::{self, ADDRESS_BITS, Claim, Outcome},
    memory::alloc_zeroed_frame,
    run_queue::{self, Wake, core_record},
    threads,
};

use super::{Fetch, GATE, Request, end, innermost, report, signature_of, stack};
use crate::{
    cpu::Cpu,
    file, mm,
    process::{exit, lock_tree, process_of},
    sched, signal,
};

/// Arguments that a direct call carries: as many as every ISA has registers for, so that none is on the stack.
const WORDS_MAX: usize = 6;
/// Bits of word 0 above the thread's address: its signature's result, and two flags.
const RESULT_SHIFT: u32 = ADDRESS_BITS;
const MORE_WORDS: u64 = 1 << 60;
const FLOATS: u64 = 1 << 61;
/// How often a caller looks whether a core that has nothing to run sleeps.
const LOOKS_MAX: usize = 200;
/// The thread id in [`Cpu::ext_owner`] while the core's extended registers are a called function's.
const CALLED: u32 = u32::MAX;

/// Gives a call to `target`, if that sleeps and all arguments fit into registers. The thread's frame holds the caller's
/// registers, and keeps them. `None`: it is not so; otherwise the thread is no longer this core's, or is again.
#[inline(always)]
pub fn call<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    record: &'static CrossingRecord,
    target: CoreId,
    request: &Request,
) -> Option<Fetch> {
    let stack = stack::top(thread, request.isa);
    if stack == 0 || request.signature.words >> (4 * WORDS_MAX) != 0 {
        return None;
    }
    let claim = direct::claim(cpu, target).or_else(|| claim_late(cpu, target))?;
    request.record(cpu, thread, record, target);
    write(cpu, claim.record(cpu), thread, space, stack, request);
    // Without another thread here, this core is about to look for work.
    let own = cpu.own;
    let waits = !run_queue::has_ready(own);
    let polls = waits && sched::polls(cpu);
    claim.prepare(cpu, polls);
    // Who looks for the thread finds it there, or has set its attention before.
    own.current_thread.store(0, Ordering::Relaxed);
    thread.core.store(u32::from(target.0), Ordering::SeqCst);
    if thread.attention.load(Ordering::SeqCst) != 0 {
        take_back(cpu, thread);
        own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
        claim.withdraw(cpu);
        return None;
    }
    request.begin(cpu, thread, record);
    claim.publish(cpu);
    cpu.resident.set(cpu.raw(space));
    let others = !cpu.awaited.is_empty();
    cpu.awaited.add(target);
    cpu.polls_calls.set(polls);
    request.count(cpu, target);
    Some(if waits && is_back(cpu, thread, record, target, others) { Fetch::Run } else { Fetch::Gone })
}

/// Sleeps until `callee` has run the function, if this core has nothing else to do: then the thread is as a core that it has
/// never left. Otherwise `false`: the thread is gone, and looked for by [`returned`]. `others`: this core has made other calls.
#[inline(always)]
fn is_back<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    record: &'static CrossingRecord,
    callee: CoreId,
    others: bool,
) -> bool {
    let wake = sched::doze(cpu);
    let is_back = wake == Wake::Look
        && !cpu.deferred.get().contains(Interrupts::TIMER)
        && cpu.active_space.get() == cpu.resident.get()
        && direct::outcome(cpu, callee) == Outcome::Returned;
    if is_back {
        cpu.awaited.remove(callee);
        if resume(cpu, thread, record, callee) {
            sched::reload_ext(cpu, thread);
        }
        cpu.own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
        sched::go_on_after_sleep(cpu, others);
    } else {
        cpu.woken.set(Some(wake));
    }
    is_back
}

/// Claims a core that has nothing to run, and so is about to sleep: that is worth waiting for, compared with the long way.
#[cold]
fn claim_late<M: Machine>(cpu: &Cpu<M>, target: CoreId) -> Option<Claim> {
    for _ in 0..LOOKS_MAX {
        if !direct::is_about_to_sleep(cpu, target) {
            return direct::claim(cpu, target);
        }
        cpu.relax();
    }
    None
}

/// Writes a call into a message.
#[inline(always)]
fn write<M: Machine>(
    cpu: &Cpu<M>,
    message: &CoreRecord,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    stack: u64,
    request: &Request,
) {
    let (signature, frame, isa) = (&request.signature, &thread.frame, request.isa);
    let mut first = cpu.raw(thread) | u64::from(signature.result & 0xfff) << RESULT_SHIFT;
    if signature.words > 0xf {
        first |= MORE_WORDS;
        for index in 1..WORDS_MAX {
            message.message_words[index].set(signature.word_for(
                isa,
                index,
                convention::word_in_register(M::ISA, frame, index),
            ));
        }
    }
    if signature.floats != 0 {
        first |= FLOATS;
        let floats = signature.float_count();
        for (index, slot) in message.message_floats.iter().enumerate() {
            let float = if index < floats { convention::float(M::ISA, frame, index) } else { 0 };
            slot.set(convention::float_in_register(isa, float, signature.is_single(index)));
        }
    }
    let tls = request.tls::<M>(thread);
    let words = [first, cpu.raw(space), request.function, stack, tls, signature.word_for(isa, 0, request.first)];
    for (slot, word) in message.message.iter().zip(words) {
        slot.set(word);
    }
}

/// Whether a core is called to run a function of a thread.
pub fn is_called_for<M: Machine>(cpu: &Cpu<M>, record: &CoreRecord, thread: &'static ThreadRecord) -> bool {
    direct::is_called(record) && direct::thread_of(cpu, record).is_some_and(|found| core::ptr::eq(found, thread))
}

/// The thread is this core's again.
fn take_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    thread.core.store(u32::from(cpu.id.0), Ordering::SeqCst);
}

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

    /// Makes `frame` the registers of the function, as the message says.
    #[inline(always)]
    fn enter<M: Machine>(&self, cpu: &Cpu<M>, frame: &UserFrame) -> StackWords {
        let message = cpu.own;
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
    fn place(&self) -> (&'static ThreadRecord, &'static SpaceRecord) {
        (self.thread, self.space)
    }

    fn has_floats(&self) -> bool {
        self.first & FLOATS != 0
    }

    fn has_float_results(&self) -> bool {
        self.first >> RESULT_SHIFT & 0xf00 != 0
    }
}

/// This core was called: runs the function until it returns, or becomes an ordinary thread and leaves this core.
///
/// `true`: it has returned, and this core has announced that it is about to sleep.
pub fn called<M: Machine>(cpu: &Cpu<M>) -> bool {
    sched::stop_polling(cpu);
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
    let again = given.again;
    if !again {
        registers::clear(frame);
    }
    let words = given.enter(cpu, frame);
    if mm::activate(cpu, given.space).is_err() || !stack::push(cpu, given.space, &words) {
        adopt(cpu, given.place(), Some(frame), words.sp_at_return, Some(Trap::BadAddress { address: words.at }));
        return false;
    }
    cpu.resident.set(cpu.raw(given.space));
    if given.has_floats() || !again {
        cpu.machine.load_ext(frame);
        cpu.ext_owner.set((cpu.raw(given.thread), CALLED));
    }
    // Without another thread here, nobody needs a time slice.
    if direct::is_disturbed(cpu) {
        adopt(cpu, given.place(), Some(frame), words.sp_at_return, None);
        return false;
    }
    let trap = cpu.machine.run_user(frame);
    let returned = matches!(trap, Trap::PageFault { address: GATE, access: Access::Execute });
    let balanced = registers::pc(frame) == GATE && registers::sp_of(M::ISA, frame) == words.sp_at_return;
    if let Some(caller) = given.caller.filter(|_| returned && balanced)
        && give_back(cpu, &given, caller, frame)
    {
        return true;
    }
    adopt(cpu, given.place(), Some(frame), words.sp_at_return, Some(trap));
    false
}

/// The address space of a thread (pool address).
fn space_of<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<u64> {
    let process = cpu.pool.get::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)))?;
    Some(process.space.load(Ordering::Relaxed))
}

/// The message that `callee` has is damaged. Ends the process whose call it is, which its thread's own record says: at once if
/// this core was called, otherwise when it runs the thread, which comes back.
#[cold]
fn end_damaged<M: Machine>(cpu: &Cpu<M>, callee: CoreId, what: fmt::Arguments<'_>) -> Option<&'static ThreadRecord> {
    let is_called = |thread: &&'static ThreadRecord| {
        let on_its_way = thread.core.load(Ordering::Relaxed) == u32::from(callee.0)
            && thread.state.load(Ordering::Relaxed) == THREAD_RUNNING
            && core_record(cpu, callee).current_thread.load(Ordering::Relaxed) != cpu.raw(*thread);
        on_its_way && innermost(cpu, thread).is_some_and(|record| record.is_saved.get() == 0)
    };
    let thread = {
        let _tree = lock_tree(cpu);
        threads::all(cpu).find(is_called)
    };
    let Some(thread) = thread else {
        file::kernel_message(cpu, format_args!("a call to core {} is lost: {what}", callee.index()));
        end_message(cpu, callee);
        return None;
    };
    take_back(cpu, thread);
    end_message(cpu, callee);
    if callee == cpu.id {
        report::kill(cpu, thread, process_of(cpu, thread), what);
        return None;
    }
    report::say_killed(cpu, thread, process_of(cpu, thread), what);
    signal::force(cpu, thread, signal::SIGKILL);
    Some(thread)
}

fn end_message<M: Machine>(cpu: &Cpu<M>, callee: CoreId) {
    if callee == cpu.id { direct::end_call(cpu) } else { direct::release(cpu, callee) }
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
fn give_back<M: Machine>(cpu: &Cpu<M>, given: &Given, caller: CoreId, frame: &'static UserFrame) -> bool {
    let message = &cpu.own.message;
    message[5].set(convention::result_word(M::ISA, frame, 0));
    message[1].set(convention::result_word(M::ISA, frame, 1));
    if given.has_float_results() {
        cpu.machine.save_ext(frame);
        message[2].set(convention::float(M::ISA, frame, 0));
        message[3].set(convention::float(M::ISA, frame, 1));
    }
    direct::give_back(cpu, caller, sched::idle_state(cpu))
}

/// Makes the thread of a call an ordinary thread of this core and lets it go on: with `trap`, which `frame` stopped at,
/// or from the function's beginning.
#[cold]
fn adopt<M: Machine>(
    cpu: &Cpu<M>,
    (thread, space): (&'static ThreadRecord, &'static SpaceRecord),
    frame: Option<&'static UserFrame>,
    sp_at_return: u64,
    trap: Option<Trap>,
) {
    let given = Given { thread, space, caller: None, first: cpu.own.message[0].get(), again: false };
    let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    let Some(record) = innermost(cpu, thread) else {
        cpu.own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
        direct::end_call(cpu);
        report::kill(cpu, thread, process, format_args!("it is in a call of which there is no record"));
        return;
    };
    sched::charge(cpu, thread);
    convention::save_caller(&thread.frame, record);
    record.is_saved.set(1);
    match frame {
        Some(frame) => {
            cpu.machine.save_ext(frame);
            registers::copy_frame(frame, &thread.frame);
            record.callee_sp.set(sp_at_return);
            thread.ext_core.set(u32::from(cpu.id.0) + 1);
            cpu.ext_owner.set((cpu.raw(thread), thread.tid.get()));
        }
        None => {
            registers::clear(&thread.frame);
            let words = given.enter(cpu, &thread.frame);
            record.callee_sp.set(words.sp_at_return);
            // Should there be no memory for it, the function faults where it returns to.
            stack::push(cpu, given.space, &words);
            thread.ext_core.set(0);
        }
    }
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
    direct::end_call(cpu);
    count(&cpu.counters().context_switches);
    if mm::activate(cpu, given.space).is_err() {
        return exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
    }
    sched::go_on(cpu, thread, process, trap);
}

/// Whether a call that this core has made, and looks for the end of, may have ended.
pub fn has_news<M: Machine>(cpu: &Cpu<M>) -> bool {
    cpu.awaited.iter().any(|callee| direct::has_news(cpu, callee))
}

/// This core no longer looks for the ends of the calls that it has made: they ring. `false`: one may have ended.
pub fn stop_polling<M: Machine>(cpu: &Cpu<M>) -> bool {
    let polled = cpu.polls_calls.replace(false);
    // Each of them, also after one that has ended.
    !polled || cpu.awaited.iter().filter(|&callee| !direct::stop_polling(cpu, callee)).count() == 0
}

/// A thread of this core whose function elsewhere has returned, with its caller's registers.
pub fn returned<M: Machine>(cpu: &Cpu<M>) -> Option<&'static ThreadRecord> {
    cpu.awaited.iter().find_map(|callee| match direct::outcome(cpu, callee) {
        Outcome::Runs => None,
        Outcome::Left => {
            cpu.awaited.remove(callee);
            None
        }
        Outcome::Returned => {
            cpu.awaited.remove(callee);
            let callee_record = core_record(cpu, callee);
            let is_there = |thread: &&ThreadRecord| thread.core.load(Ordering::Relaxed) == u32::from(callee.0);
            let Some(thread) = direct::thread_of(cpu, callee_record).filter(is_there) else {
                let word = callee_record.message[0].get();
                let what = format_args!("the message of its call's results is damaged: word 0 is {word:#x}");
                return end_damaged(cpu, callee, what);
            };
            sched::charge(cpu, thread);
            match innermost(cpu, thread) {
                Some(record) => {
                    if resume(cpu, thread, record, callee) {
                        thread.ext_core.set(0); // load what was just changed
                    }
                }
                // Where it is to go on is lost; it faults where it called.
                None => {
                    take_back(cpu, thread);
                    direct::release(cpu, callee);
                    registers::set_pc(&thread.frame, GATE);
                }
            }
            Some(thread)
        }
    })
}

/// The results in a message, of the kinds in a signature's `result`.
fn read_results(message: &[Cell64; 6], kinds: u64) -> Results {
    let mut results = Results::default();
    for (index, at) in [(0, 5), (1, 1)] {
        if kinds >> (4 * index) & 15 != 0 {
            results.words[index] = message[at].get();
        }
    }
    for (index, at) in [(0, 2), (1, 3)] {
        if kinds >> (8 + 2 * index) & 3 != 0 {
            results.floats[index] = message[at].get();
        }
    }
    results
}

/// Takes the results that `callee` has for a thread, and gives them to it. `true`: extended registers in its frame have
/// changed.
#[inline(always)]
fn resume<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    record: &'static CrossingRecord,
    callee: CoreId,
) -> bool {
    let signature = signature_of(record);
    let results = read_results(&core_record(cpu, callee).message, signature.result.into());
    take_back(cpu, thread);
    direct::release(cpu, callee);
    convention::return_to_caller(&thread.frame, M::ISA, record, &signature, &results);
    end(cpu, thread, record, M::ISA);
    signature.has_floats()
}
