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
    fat::Signature,
    registers,
};
use motet_hal::{Access, Machine, Trap};
use motet_layout::{
    Cell64, CoreId, CoreRecord, CrossingRecord, Isa, PoolAddr, ProcessRecord, SpaceRecord, THREAD_RUNNING,
    ThreadRecord, UserFrame,
};
use motet_protocol::{
    Context, count,
    direct::{self, ADDRESS_BITS, Claim, Outcome},
    memory::alloc_zeroed_frame,
    run_queue::{self, core_record},
    threads,
};

use super::{GATE, innermost, pop, report, stack};
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

/// Whether a call can go the short way.
pub fn fits(signature: &Signature) -> bool {
    signature.word_count() <= WORDS_MAX
}

/// Gives a call to `target`, if that sleeps. The thread's frame holds the caller's registers, and keeps them. If it comes
/// back true, the thread is no longer this core's.
pub fn call<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    record: &CrossingRecord,
    target: CoreId,
    isa: Isa,
    entry: &Entry<'_>,
) -> bool {
    let Some(claim) = direct::claim(cpu, target).or_else(|| claim_late(cpu, target)) else { return false };
    record.callee_core.set(u32::from(target.0));
    write(claim.record(cpu), cpu.raw(thread), cpu.raw(space), record.result.get(), isa, entry);
    // Without another thread here, this core is about to look for work.
    let own = core_record(cpu, cpu.id);
    let polls = sched::polls(cpu) && !run_queue::has_ready(own);
    claim.prepare(cpu, polls);
    // Who looks for the thread finds it there, or has set its attention before.
    own.current_thread.store(0, Ordering::Relaxed);
    thread.core.store(u32::from(target.0), Ordering::SeqCst);
    if thread.attention.load(Ordering::SeqCst) != 0 {
        take_back(cpu, thread);
        own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
        claim.withdraw(cpu);
        return false;
    }
    cpu.resident.set(cpu.raw(space));
    cpu.awaited.add(target);
    cpu.last_call.set((target, cpu.raw(thread)));
    cpu.polls_calls.set(polls);
    claim.publish(cpu);
    true
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
fn write(message: &CoreRecord, thread: u64, space: u64, result: u64, isa: Isa, entry: &Entry<'_>) {
    let word = |index: usize| entry.signature.word(index).in_register(isa, entry.arguments.words[index]);
    let mut first = thread | (result & 0xfff) << RESULT_SHIFT;
    let words = entry.signature.word_count();
    if words > 1 {
        first |= MORE_WORDS;
        for index in 1..WORDS_MAX {
            message.message_words[index].set(if index < words { word(index) } else { 0 });
        }
    }
    if entry.signature.floats != 0 {
        first |= FLOATS;
        let floats = entry.signature.float_count();
        for (index, slot) in message.message_floats.iter().enumerate() {
            let single = entry.signature.is_single(index);
            let float = if index < floats { entry.arguments.floats[index] } else { 0 };
            slot.set(convention::float_in_register(isa, float, single));
        }
    }
    let argument = if words == 0 { 0 } else { word(0) };
    let words = [first, space, entry.function, entry.stack, entry.tls, argument];
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

/// A call that this core was given. Its arguments are in [`Cpu::arguments`], in their registers' form.
struct Given {
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    /// Who waits for the results; `None`: the call word is damaged, and nobody can be told.
    caller: Option<CoreId>,
    function: u64,
    stack: u64,
    tls: u64,
    signature: Signature,
}

impl Given {
    /// # Errors
    /// A word that cannot be: its number, and the word.
    fn read<M: Machine>(cpu: &Cpu<M>, message: &CoreRecord) -> Result<Self, (u32, u64)> {
        let [first, space, function, stack, tls, word] = core::array::from_fn(|index| message.message[index].get());
        let mut arguments = cpu.arguments.borrow_mut();
        arguments.words[0] = word;
        let mut signature = Signature { words: 1, floats: 0, result: (first >> RESULT_SHIFT) as u32 & 0xfff };
        if first & MORE_WORDS != 0 {
            signature.words = Signature::UNKNOWN.words;
            for index in 1..WORDS_MAX {
                arguments.words[index] = message.message_words[index].get();
            }
        }
        if first & FLOATS != 0 {
            signature.floats = Signature::UNKNOWN.floats;
            arguments.floats = core::array::from_fn(|index| message.message_floats[index].get());
        }
        let thread = direct::thread_of(cpu, message).ok_or((0, first))?;
        let known = cpu.ext_owner.get() == (cpu.raw(thread), CALLED) && cpu.active_space.get() == space;
        // What it says itself is far away; who was here just now is known.
        if !known && thread.core.load(Ordering::Relaxed) != u32::from(cpu.id.0) {
            return Err((0, first));
        }
        if !known && space_of(cpu, thread) != Some(space) {
            return Err((1, space));
        }
        let space = cpu.pool.get(PoolAddr(space)).ok_or((1, space))?;
        Ok(Self { thread, space, caller: direct::caller(cpu), function, stack, tls, signature })
    }

    /// Makes `frame` the registers of the function. `again`: it has registers of the same thread.
    fn enter<M: Machine>(&self, cpu: &Cpu<M>, frame: &UserFrame, again: bool) -> StackWords {
        let (function, stack, tls, signature) = (self.function, self.stack, self.tls, self.signature);
        let arguments = &*cpu.arguments.borrow();
        let entry = Entry { function, gate: GATE, stack, tls, signature, arguments };
        let enter = if again { convention::enter_again } else { convention::enter };
        enter(frame, M::ISA, &entry)
    }
}

/// This core was called: runs the function until it returns, or becomes an ordinary thread and leaves this core.
///
/// `true`: it has returned, and this core has announced that it is about to sleep.
pub fn called<M: Machine>(cpu: &Cpu<M>) -> bool {
    sched::stop_polling(cpu);
    let given = match Given::read(cpu, core_record(cpu, cpu.id)) {
        Ok(given) => given,
        Err((index, word)) => {
            end_damaged(cpu, cpu.id, format_args!("the message of its call is damaged: word {index} is {word:#x}"));
            return false;
        }
    };
    let Some(frame) = call_frame(cpu) else {
        // Without a frame of its own, the core uses the thread's.
        adopt(cpu, &given, None, 0, None);
        return false;
    };
    let owner = (cpu.raw(given.thread), CALLED);
    // What another call of the same thread has left in the registers is its own.
    let again = cpu.ext_owner.get() == owner;
    let words = given.enter(cpu, frame, again);
    if mm::activate(cpu, given.space).is_err() || !stack::push(cpu, given.space, &words) {
        adopt(cpu, &given, Some(frame), words.sp_at_return, Some(Trap::BadAddress { address: words.at }));
        return false;
    }
    cpu.resident.set(cpu.raw(given.space));
    if given.signature.floats != 0 || !again {
        cpu.machine.load_ext(frame);
        cpu.ext_owner.set(owner);
    }
    cpu.serve_shootdowns();
    // Without another thread here, nobody needs a time slice.
    if direct::is_disturbed(cpu) {
        adopt(cpu, &given, Some(frame), words.sp_at_return, None);
        return false;
    }
    let trap = cpu.machine.run_user(frame);
    let returned = matches!(trap, Trap::PageFault { address: GATE, access: Access::Execute });
    let balanced = registers::pc(frame) == GATE && registers::sp(frame) == words.sp_at_return;
    if let Some(caller) = given.caller.filter(|_| returned && balanced)
        && give_back(cpu, &given, caller, frame)
    {
        return true;
    }
    adopt(cpu, &given, Some(frame), words.sp_at_return, Some(trap));
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
fn give_back<M: Machine>(cpu: &Cpu<M>, given: &Given, caller: CoreId, frame: &'static UserFrame) -> bool {
    let floats = given.signature.result >> 8 != 0;
    if floats {
        cpu.machine.save_ext(frame);
    }
    let results = convention::results(frame, &given.signature);
    let message = &core_record(cpu, cpu.id).message;
    message[5].set(results.words[0]);
    message[1].set(results.words[1]);
    if floats {
        message[2].set(results.floats[0]);
        message[3].set(results.floats[1]);
    }
    direct::give_back(cpu, caller, sched::idle_state(cpu))
}

/// Makes the thread of a call an ordinary thread of this core and lets it go on: with `trap`, which `frame` stopped at,
/// or from the function's beginning.
fn adopt<M: Machine>(
    cpu: &Cpu<M>,
    given: &Given,
    frame: Option<&'static UserFrame>,
    sp_at_return: u64,
    trap: Option<Trap>,
) {
    let thread = given.thread;
    let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    let Some(record) = innermost(cpu, thread) else {
        core_record(cpu, cpu.id).current_thread.store(cpu.raw(thread), Ordering::SeqCst);
        direct::end_call(cpu);
        report::kill(cpu, thread, process, format_args!("it is in a call of which there is no record"));
        return;
    };
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
            let words = given.enter(cpu, &thread.frame, false);
            record.callee_sp.set(words.sp_at_return);
            // Should there be no memory for it, the function faults where it returns to.
            stack::push(cpu, given.space, &words);
            thread.ext_core.set(0);
        }
    }
    core_record(cpu, cpu.id).current_thread.store(cpu.raw(thread), Ordering::SeqCst);
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
            resume(cpu, callee)
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

/// Takes the results that `callee` has, and gives them to the thread. `None`: the message is damaged.
fn resume<M: Machine>(cpu: &Cpu<M>, callee: CoreId) -> Option<&'static ThreadRecord> {
    let callee_record = core_record(cpu, callee);
    let message = &callee_record.message;
    // Each word may be far away: only those are read that are needed.
    let thread = match cpu.last_call.get() {
        (called, thread) if called == callee => cpu.object(thread),
        _ => direct::thread_of(cpu, callee_record),
    };
    let Some(thread) = thread.filter(|thread| thread.core.load(Ordering::Relaxed) == u32::from(callee.0)) else {
        let word = message[0].get();
        let what = format_args!("the message of its call's results is damaged: word 0 is {word:#x}");
        return end_damaged(cpu, callee, what);
    };
    let record = innermost(cpu, thread);
    let results = record.map(|record| read_results(message, record.result.get()));
    take_back(cpu, thread);
    direct::release(cpu, callee);
    match record.zip(results) {
        Some((record, results)) => {
            thread.user_ns.set(thread.user_ns.get() + cpu.now_ns().saturating_sub(record.called_at_ns.get()));
            pop(cpu, thread, record, &results);
        }
        // Where it is to go on is lost; it faults where it called.
        None => registers::set_pc(&thread.frame, GATE),
    }
    Some(thread)
}
