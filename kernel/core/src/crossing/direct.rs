//! The short way: a call to a sleeping core, and the return to one, without a run queue (`motet_protocol::direct`).
//!
//! This is the caller's side; [`super::called`] is the callee's.
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
//! A function that goes on after a call back (`RESUMES`, [`super::back`]) has the results of that in words 3 and 5, its registers in
//! `message_caller`, and in word 2 the stack pointer when it returns.
//!
//! The result's kinds and whether there are more arguments is in the top bits of word 0: pool addresses have 40 bits.
//! Argument words are as the function's ISA has them in registers.

use core::fmt;

use motet_layout::sync::Ordering;

use motet_abi::{
    convention::{self, Results},
    fat::Signature,
    registers,
};
use motet_hal::{Interrupts, Machine};
use motet_layout::{Cell64, CoreId, CoreRecord, CrossingRecord, SpaceRecord, THREAD_RUNNING, ThreadRecord};
use motet_protocol::{
    Context,
    direct::{self, ADDRESS_BITS, Claim, Outcome},
    run_queue::{self, Wake, core_record},
    threads,
};

use super::{
    Fetch, GATE, Request,
    back::{moves_home, take_call},
    end, innermost, report, signature_of,
};
use crate::{
    cpu::Cpu,
    file, idle,
    process::{lock_tree, process_of},
    sched, signal,
};

/// Arguments that a direct call carries: as many as every ISA has registers for, so that none is on the stack.
pub const WORDS_MAX: usize = 6;
/// Bits of word 0 above the thread's address: its signature's result, and two flags.
pub const RESULT_SHIFT: u32 = ADDRESS_BITS;
pub const MORE_WORDS: u64 = 1 << 60;
pub const FLOATS: u64 = 1 << 61;
pub const RESUMES: u64 = 1 << 62;
/// How often a caller looks whether a core that has nothing to run sleeps.
const LOOKS_MAX: usize = 200;

/// Gives a call to `target`, if that sleeps and all arguments fit into registers. The thread's frame holds the caller's
/// registers, and keeps them. `stack`: where the function's begins; 0: the thread has none for it. `None`: it is not so; otherwise the
/// thread is no longer this core's, or is again.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "found out here, where the stack begins costs calls over a link a microsecond"
)]
pub fn call<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    record: &'static CrossingRecord,
    target: CoreId,
    request: &Request,
    stack: u64,
    far: bool,
) -> Option<Fetch> {
    if stack == 0 || !fits(&request.signature) || far && moves_home(cpu, thread, space, request.isa) {
        return None;
    }
    let claim = claim(cpu, target, far)?;
    request.record(cpu, thread, record, target);
    write(cpu, claim.record(), thread, space, stack, request);
    let wait = give(cpu, thread, space, target, claim, || request.begin(cpu, thread, record))?;
    request.count(cpu, target);
    Some(wait.fetch(cpu, thread, record, far))
}

/// Whether a call has no more arguments than a message has room for.
#[inline(always)]
pub fn fits(signature: &Signature) -> bool {
    signature.words >> (4 * WORDS_MAX) == 0
}

/// A call that has been given to another core.
pub struct Wait {
    callee: CoreId,
    /// This core has nothing else to do.
    is_idle: bool,
    /// It has made other calls.
    others: bool,
}

impl Wait {
    /// What becomes of the thread here.
    #[inline(always)]
    pub fn fetch<M: Machine>(
        self,
        cpu: &Cpu<M>,
        thread: &'static ThreadRecord,
        record: &'static CrossingRecord,
        far: bool,
    ) -> Fetch {
        if far {
            cpu.away.set(Some(thread));
        }
        if self.is_idle && is_back(cpu, thread, record, &self, far) { Fetch::Run } else { Fetch::Gone }
    }
}

/// Gives `target`, which is claimed, the call that has been written for it; `begin`: what is left to do when it is certain. `None`:
/// somebody wants the thread, and it stays here.
#[inline(always)]
pub fn give<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    target: CoreId,
    claim: Claim,
    begin: impl FnOnce(),
) -> Option<Wait> {
    // Without another thread here, this core is about to look for work.
    let own = cpu.own;
    let is_idle = !run_queue::has_ready(own);
    let polls = is_idle && idle::polls(cpu);
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
    begin();
    claim.publish(cpu);
    cpu.resident.set(cpu.raw(space));
    let others = !cpu.awaited.is_empty();
    cpu.awaited.add(target);
    cpu.polls_calls.set(polls);
    Some(Wait { callee: target, is_idle, others })
}

/// Sleeps until `callee` has run the function, if this core has nothing else to do: then the thread is as a core that it has
/// never left. Otherwise `false`: the thread is gone, and looked for by [`returned`]. `others`: this core has made other calls.
#[inline(always)]
fn is_back<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    record: &'static CrossingRecord,
    &Wait { callee, others, .. }: &Wait,
    far: bool,
) -> bool {
    let wake = idle::doze(cpu);
    let may_stay = wake == Wake::Look
        && !cpu.deferred.get().contains(Interrupts::TIMER)
        && cpu.active_space.get() == cpu.resident.get();
    let outcome = if may_stay { direct::outcome(cpu, callee, far) } else { Outcome::Runs };
    let has_new_ext = match outcome {
        Outcome::Returned => resume(cpu, thread, record, callee, far),
        Outcome::Calls => take_call(cpu, thread, record, callee),
        Outcome::Runs | Outcome::Left => {
            cpu.woken.set(Some(wake));
            return false;
        }
    };
    cpu.awaited.remove(callee);
    if has_new_ext {
        sched::reload_ext(cpu, thread);
    }
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
    idle::go_on_after_sleep(cpu, others);
    true
}

#[inline(always)]
pub fn claim<M: Machine>(cpu: &Cpu<M>, target: CoreId, far: bool) -> Option<Claim> {
    // Where the callee answers, there is room for one.
    if far && !cpu.awaited.is_empty() {
        return None;
    }
    let polls = far && cpu.polling >> target.island().index() & 1 != 0;
    direct::claim(cpu, target, polls, far).or_else(|| claim_late(cpu, target))
}

/// Claims a core that has nothing to run, and so is about to sleep: that is worth waiting for, compared with the long way.
#[cold]
fn claim_late<M: Machine>(cpu: &Cpu<M>, target: CoreId) -> Option<Claim> {
    for _ in 0..LOOKS_MAX {
        if !direct::is_about_to_sleep(cpu, target) {
            return direct::claim(cpu, target, false, cpu.uncached);
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
pub fn take_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    thread.core.store(u32::from(cpu.id.0), Ordering::SeqCst);
}

/// The message that `callee` has is damaged. Ends the process whose call it is, which its thread's own record says: at once if
/// this core was called, otherwise when it runs the thread, which comes back.
#[cold]
pub fn end_damaged<M: Machine>(
    cpu: &Cpu<M>,
    callee: CoreId,
    what: fmt::Arguments<'_>,
) -> Option<&'static ThreadRecord> {
    let Some(thread) = find_called(cpu, callee) else {
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

/// The thread that says that it is in a call of this core to `callee`, or, if that is this core, in one of whom the call word names.
fn find_called<M: Machine>(cpu: &Cpu<M>, callee: CoreId) -> Option<&'static ThreadRecord> {
    let is_own = callee == cpu.id;
    let caller = if is_own { direct::caller(cpu) } else { Some(cpu.id) };
    let is_of_call = |record: &CrossingRecord| {
        // Who is just leaving another core has its caller's registers saved; but so has a function that goes on after a call back.
        (is_own || record.is_saved.get() == 0)
            // Others, whom the core has answered, may not have been taken back yet.
            && caller.is_none_or(|caller| record.caller_core.get() == u32::from(caller.0))
    };
    let is_called = |thread: &&'static ThreadRecord| {
        let on_its_way = thread.core.load(Ordering::Relaxed) == u32::from(callee.0)
            && thread.state.load(Ordering::Relaxed) == THREAD_RUNNING
            && core_record(cpu, callee).current_thread.load(Ordering::Relaxed) != cpu.raw(*thread);
        on_its_way && innermost(cpu, thread).is_some_and(is_of_call)
    };
    let _tree = lock_tree(cpu);
    threads::all(cpu).find(is_called)
}

fn end_message<M: Machine>(cpu: &Cpu<M>, callee: CoreId) {
    if callee == cpu.id {
        direct::end_call(cpu, direct::caller(cpu));
    } else {
        direct::release(cpu, callee, cpu.uncached);
    }
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
    let far = cpu.uncached;
    cpu.awaited.iter().find_map(|callee| match direct::outcome(cpu, callee, far) {
        Outcome::Runs => None,
        Outcome::Left => {
            cpu.awaited.remove(callee);
            if far {
                direct::release(cpu, callee, far);
            }
            None
        }
        outcome @ (Outcome::Returned | Outcome::Calls) => {
            cpu.awaited.remove(callee);
            let Some(thread) = called_on(cpu, callee, far) else {
                let word = core_record(cpu, callee).message[0].get();
                let what = format_args!("the message of its call's results is damaged: word 0 is {word:#x}");
                return end_damaged(cpu, callee, what);
            };
            sched::charge(cpu, thread);
            match innermost(cpu, thread) {
                Some(record) => {
                    let has_new_ext = match outcome {
                        Outcome::Calls => take_call(cpu, thread, record, callee),
                        Outcome::Returned | Outcome::Runs | Outcome::Left => resume(cpu, thread, record, callee, far),
                    };
                    if has_new_ext {
                        thread.ext_core.set(0); // load what was just changed
                    }
                }
                // Where it is to go on is lost; it faults where it called.
                None => {
                    take_back(cpu, thread);
                    direct::release(cpu, callee, far);
                    registers::set_pc(&thread.frame, GATE);
                }
            }
            Some(thread)
        }
    })
}

/// The thread for which this core, which has taken the answer, called `callee`; `None`: the message is damaged.
fn called_on<M: Machine>(cpu: &Cpu<M>, callee: CoreId, far: bool) -> Option<&'static ThreadRecord> {
    // Once it has answered, others may write their calls over the message.
    if far {
        return cpu.away.get();
    }
    let is_there = |thread: &&ThreadRecord| thread.core.load(Ordering::Relaxed) == u32::from(callee.0);
    direct::thread_of(cpu, core_record(cpu, callee)).filter(is_there)
}

/// The results in a message, of the kinds in a signature's `result`.
#[inline(always)]
fn read_results(message: &[Cell64; 6], kinds: u64) -> Results {
    let mut results = Results::default();
    if kinds <= 0xf {
        results.words[0] = message[5].get();
        return results;
    }
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
    far: bool,
) -> bool {
    let signature = signature_of(record);
    let results = read_results(direct::reply_of(cpu, callee, far), signature.result.into());
    take_back(cpu, thread);
    direct::release(cpu, callee, far);
    let is_saved = far && record.is_saved.get() != 0;
    if is_saved {
        convention::resume_caller(&thread.frame, M::ISA, record, &signature, &results);
    } else {
        convention::return_to_caller(&thread.frame, M::ISA, record, &signature, &results);
    }
    end(cpu, thread, record, M::ISA);
    is_saved || signature.has_floats()
}
