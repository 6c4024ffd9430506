//! The caller's core: what it does at the states of a call that goes the short way ([`super::call`] has them all).

use motet_layout::sync::Ordering;

use motet_abi::{convention, registers};
use motet_hal::Machine;
use motet_layout::{CoreId, CoreRecord, CrossingRecord, SpaceRecord, THREAD_READY, ThreadRecord};
use motet_protocol::{
    Context,
    cores::core_record,
    direct::{self, Claim, Outcome, Reach},
    message, run_queue,
};

use super::{
    back::take_call,
    damaged::end_damaged,
    gate,
    message::read_results,
    records::{end, innermost, signature_of},
};
use crate::{cpu::Cpu, idle, sched};

/// How often a caller looks whether a core that has nothing to run sleeps.
const LOOKS_MAX: usize = 200;

/// A call that this core has given to another one.
pub struct Made {
    /// To which one.
    pub callee: CoreId,
    /// This core has nothing else to do.
    pub is_idle: bool,
    /// It has made other calls.
    pub others: bool,
}

/// Claims `target` for a call of this core.
#[inline(always)]
pub fn claim<M: Machine>(cpu: &Cpu<M>, target: CoreId, reach: Reach) -> Option<Claim> {
    // Where the callee answers, there is room for one.
    if reach.is_far() && !cpu.crossing.awaited.is_empty() {
        return None;
    }
    let polls = reach.is_far() && cpu.polling >> target.island().index() & 1 != 0;
    direct::claim(cpu, target, polls, reach).or_else(|| claim_late(cpu, target, reach))
}

/// Claims a core that has nothing to run, and so is about to sleep: that is worth waiting for, compared with the long way.
#[cold]
fn claim_late<M: Machine>(cpu: &Cpu<M>, target: CoreId, reach: Reach) -> Option<Claim> {
    for _ in 0..LOOKS_MAX {
        if !direct::is_about_to_sleep(cpu, target) {
            return direct::claim(cpu, target, false, reach);
        }
        cpu.relax();
    }
    None
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
) -> Option<Made> {
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
    cpu.crossing.resident.set(cpu.raw(space));
    let others = !cpu.crossing.awaited.is_empty();
    cpu.crossing.awaited.add(target);
    cpu.crossing.polls_calls.set(polls);
    Some(Made { callee: target, is_idle, others })
}

/// Takes the results that `callee` has for a thread, and gives them to it. `true`: extended registers in its frame have
/// changed.
#[inline(always)]
pub fn resume<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    record: &'static CrossingRecord,
    callee: CoreId,
    reach: Reach,
) -> bool {
    let signature = signature_of(record);
    let results = read_results(direct::reply_of(cpu, callee, reach), signature.result.into());
    take_back(cpu, thread);
    direct::release(cpu, callee, reach);
    let is_saved = reach.is_far() && record.is_saved.get() != 0;
    if is_saved {
        convention::resume_caller(&thread.frame, M::ISA, record, &signature, &results);
    } else {
        convention::return_to_caller(&thread.frame, M::ISA, record, &signature, &results);
    }
    end(cpu, thread, record, M::ISA);
    is_saved || signature.has_floats()
}

/// The thread is this core's again.
pub fn take_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    thread.core.store(u32::from(cpu.id.0), Ordering::SeqCst);
}

/// A thread of this core whose function elsewhere has returned, with its caller's registers.
fn returned<M: Machine>(cpu: &Cpu<M>) -> Option<&'static ThreadRecord> {
    let reach = cpu.crossing.reach;
    cpu.crossing.awaited.iter().find_map(|callee| match direct::outcome(cpu, callee, reach) {
        Outcome::Runs => None,
        Outcome::Left => {
            cpu.crossing.awaited.remove(callee);
            if reach.is_far() {
                direct::release(cpu, callee, reach);
            }
            None
        }
        outcome @ (Outcome::Returned | Outcome::Calls) => {
            cpu.crossing.awaited.remove(callee);
            let Some(thread) = called_on(cpu, callee, reach) else {
                let word = core_record(cpu, callee).message[0].get();
                let what = format_args!("the message of its call's results is damaged: word 0 is {word:#x}");
                return end_damaged(cpu, callee, what);
            };
            sched::charge(cpu, thread);
            match innermost(cpu, thread) {
                Some(record) => {
                    let has_new_ext = match outcome {
                        Outcome::Calls => take_call(cpu, thread, record, callee),
                        Outcome::Returned | Outcome::Runs | Outcome::Left => resume(cpu, thread, record, callee, reach),
                    };
                    if has_new_ext {
                        thread.ext_core.set(0); // load what was just changed
                    }
                }
                // Where it is to go on is lost; it faults where it called.
                None => {
                    take_back(cpu, thread);
                    direct::release(cpu, callee, reach);
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
    if reach.is_far() {
        return cpu.crossing.away.get();
    }
    let is_there = |thread: &&ThreadRecord| thread.core.load(Ordering::Relaxed) == u32::from(callee.0);
    message::thread_of(cpu, core_record(cpu, callee)).filter(is_there)
}

/// Whether a call that this core has made, and looks for the end of, may have ended.
pub fn has_news<M: Machine>(cpu: &Cpu<M>) -> bool {
    cpu.crossing.awaited.iter().any(|callee| direct::has_news(cpu, callee, cpu.crossing.reach))
}

/// This core no longer looks for the ends of the calls that it has made: they ring. `false`: one may have ended.
pub fn stop_polling_calls<M: Machine>(cpu: &Cpu<M>) -> bool {
    let polled = cpu.crossing.polls_calls.replace(false);
    // Each of them, also after one that has ended.
    !polled
        || cpu.crossing.awaited.iter().filter(|&callee| !direct::stop_polling(cpu, callee, cpu.crossing.reach)).count()
            == 0
}

/// Whether a core is called to run a function of a thread.
pub fn is_called_for<M: Machine>(cpu: &Cpu<M>, record: &CoreRecord, thread: &'static ThreadRecord) -> bool {
    direct::is_called(record) && message::thread_of(cpu, record).is_some_and(|found| core::ptr::eq(found, thread))
}

/// A thread whose function elsewhere has returned; further ones become ready.
pub fn first_returned<M: Machine>(cpu: &Cpu<M>) -> Option<&'static ThreadRecord> {
    if cpu.crossing.awaited.is_empty() {
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
    cpu.crossing.awaited.remove(made.callee);
    if has_new_ext {
        sched::reload_ext(cpu, thread);
    }
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
    if cpu.timer_ns.get() == u64::MAX {
        sched::reprogram_timer(cpu);
    }
    stop_polling(cpu);
    // The doorbell that ended the sleep may have been theirs, too.
    if made.others {
        make_returned_ready(cpu);
    }
}

/// This core is about to run user code: calls that its threads have made ring it when they end.
#[inline(always)]
pub fn stop_polling<M: Machine>(cpu: &Cpu<M>) {
    if cpu.crossing.polls_calls.get() && !stop_polling_calls(cpu) {
        make_returned_ready(cpu);
    }
}

/// Threads whose functions elsewhere have returned become ready.
pub fn make_returned_ready<M: Machine>(cpu: &Cpu<M>) {
    while !cpu.crossing.awaited.is_empty()
        && let Some(thread) = returned(cpu)
    {
        thread.state.store(THREAD_READY, Ordering::Relaxed);
        run_queue::append(cpu, thread);
    }
}
