//! The caller's side of a call that goes the short way: its steps, by state ([`super::call`] has them all).

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_abi::convention;
use motet_hal::Machine;
use motet_layout::{CoreId, CrossingRecord, SpaceRecord, ThreadRecord};
use motet_protocol::{
    Context,
    direct::{self, Claim, Reach},
    noncoherent, run_queue,
};

use super::{
    message::read_results,
    records::{end, signature_of},
};
use crate::cpu::Cpu;

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
    if reach.is_noncoherent() {
        return if cpu.crossing.awaited().is_empty() { direct::claim(cpu, target, reach) } else { None };
    }
    direct::claim(cpu, target, reach).or_else(|| claim_late(cpu, target))
}

/// Claims a core that has nothing to run, and so is about to sleep: that is worth waiting for, compared with the long way.
#[cold]
fn claim_late<M: Machine>(cpu: &Cpu<M>, target: CoreId) -> Option<Claim> {
    for _ in 0..LOOKS_MAX {
        if !direct::is_about_to_sleep(cpu, target) {
            return direct::claim(cpu, target, Reach::Coherent);
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
    let polls = is_idle && cpu.is_polling();
    claim.prepare(cpu, polls);
    // Who looks for the thread finds it there, or has set its attention before.
    own.current_thread.store(0, Ordering::Relaxed);
    thread.core.store(u32::from(target.0), Ordering::Release);
    then_look();
    if thread.attention.load(Ordering::SeqCst) != 0 {
        take_back(cpu, thread);
        own.current_thread.store(cpu.raw(thread), Ordering::Release);
        claim.withdraw(cpu);
        return None;
    }
    begin();
    claim.publish(cpu);
    cpu.crossing.keep_resident(cpu.raw(space));
    let others = !cpu.crossing.awaited().is_empty();
    cpu.crossing.awaited().add(target);
    cpu.crossing.poll_calls(polls);
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
    release(cpu, callee, reach);
    let is_saved = reach.is_noncoherent() && record.is_saved.get() != 0;
    if is_saved {
        convention::resume_caller(&thread.frame, M::ISA, record, &signature, &results);
    } else {
        convention::return_to_caller(&thread.frame, M::ISA, record, &signature, &results);
    }
    end(cpu, thread, record, M::ISA);
    is_saved || signature.has_floats()
}

/// This core has read what `callee` has answered: [`direct::release`].
#[inline(always)]
pub fn release<M: Machine>(cpu: &Cpu<M>, callee: CoreId, reach: Reach) {
    if reach.is_noncoherent() {
        cpu.crossing.no_longer_gives_up();
        if cpu.crossing.end_withdrawal() {
            noncoherent::end_withdrawal(cpu, callee);
        }
    }
    direct::release(cpu, callee, reach);
}

/// Makes the thread this core's again.
pub fn take_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    thread.core.store(u32::from(cpu.id.0), Ordering::Release);
}
