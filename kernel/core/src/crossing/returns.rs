//! A function has returned through the gate: its caller goes on. The thread goes to the caller's core the long way; or, if its caller had called back from there,
//! that core is called once more, to go on with what it ran ([`super::back`]).

use motet_layout::sync::Ordering;

use motet_abi::{convention::Results, registers};
use motet_hal::Machine;
use motet_layout::{CoreId, CrossingRecord, Isa, ProcessRecord, SpaceRecord, ThreadRecord};
use motet_protocol::{Context, direct::Reach};

use super::{
    Fetch,
    call::wait,
    caller::{claim, give},
    cores::may_run,
    elsewhere, long,
    message::{RESULT_SHIFT, RESUMES, resume},
    records::{end, free_spare, innermost, outer_of, signature_of},
    report,
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    handover, mm,
};

/// Words of the call that lets a function go on after a call back, and the request.
const GO_BACK_WORDS: u32 = 12;

/// `call_return()`, of the gate: the function that was called has returned.
pub fn call_return<M: Machine>(call: &Call<M>) -> SysResult {
    match come_back(call.cpu, call.thread, call.process) {
        Fetch::Run => Err(Stop::Replaced),
        Fetch::Waits => Err(Stop::Again),
        Fetch::Gone | Fetch::Fault | Fetch::Page => Err(Stop::Gone),
    }
}

/// Returns a thread whose function has passed the gate to its caller, on the caller's core.
pub fn come_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> Fetch {
    let Some(record) = innermost(cpu, thread) else {
        let what = match thread.crossing.get() {
            0 => format_args!("it returns from a call that it has not made"),
            _ => format_args!("the record of its call is damaged"),
        };
        return report::kill(cpu, thread, process, what);
    };
    if record.callee_isa.get() != M::ISA as u32 || record.callee_sp.get() != registers::sp(&thread.frame) {
        let what = format_args!("it returns through a frame that is not its last call's (longjmp over a crossing?)");
        return report::kill(cpu, thread, process, what);
    }
    let signature = signature_of(record);
    if signature.has_floats() {
        handover::save_ext(cpu, thread);
    }
    let results = motet_abi::gate::results(M::ISA, &thread.frame, &signature);
    if record.caller_node.get() != 0 {
        return elsewhere::give_back(cpu, thread, process, record, &results);
    }
    let Some(core) = long::caller_core(cpu, record) else {
        return report::kill(cpu, thread, process, format_args!("the record of its call is damaged"));
    };
    if may_run(thread, core)
        && let Some(fetch) = go_back(cpu, thread, mm::space_of(cpu, process), record, core, &results)
    {
        return fetch;
    }
    let target = match long::target(cpu, thread, process, core) {
        Ok(target) => target,
        Err(fetch) => return fetch,
    };
    long::pop(cpu, thread, record, &results);
    handover::hand_to(cpu, thread, target);
    Fetch::Gone
}

/// Lets the caller in `record`, which has called back a function that has returned `results`, go on with its registers on `target`, if
/// that sleeps. As [`super::call::make`].
fn go_back<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    record: &'static CrossingRecord,
    target: CoreId,
    results: &Results,
) -> Option<Fetch> {
    match cpu.crossing.reach() {
        Reach::Noncoherent => go_back_at(cpu, thread, space, record, target, results, Reach::Noncoherent),
        Reach::Engine => go_back_at(cpu, thread, space, record, target, results, Reach::Engine),
        Reach::Coherent => None,
    }
}

#[inline(always)]
fn go_back_at<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    record: &'static CrossingRecord,
    target: CoreId,
    results: &Results,
    reach: Reach,
) -> Option<Fetch> {
    let outer = outer_of(cpu, thread, record).filter(|_| record.is_local.get() == 0)?;
    // That one gets this core's answer when it returns.
    if outer.caller_core.get() != u32::from(cpu.id.0) {
        return None;
    }
    let isa = Isa::from_raw(record.caller_isa.get())?;
    if signature_of(record).has_floats() || thread.attention.load(Ordering::Relaxed) != 0 {
        return None;
    }
    if cpu.crossing.takes_long_way(cpu.raw(thread)) {
        return None;
    }
    let mut claim = claim(cpu, target, reach)?;
    if reach.has_engine() && cpu.crossing.engine_copies(target, GO_BACK_WORDS) {
        claim = claim.by_engine(cpu);
    }
    let message = claim.message(cpu);
    // The called core has the registers still if it has run nothing else. If it has, it reads them here, where the thread keeps the record.
    free_spare(cpu, thread);
    message.words[resume::PC].set(record.return_pc.get());
    message.words[resume::SP].set(record.caller_sp.get());
    message.words[resume::TLS].set(record.caller_tls.get());
    message.words[resume::RESULT].set(record.result.get());
    message.words[resume::FRAME].set(record.frame.get());
    let first = cpu.raw(thread) | (outer.result.get() & 0xfff) << RESULT_SHIFT | RESUMES;
    let words = [first, cpu.raw(space), outer.callee_sp.get(), results.words[1], cpu.raw(record), results.words[0]];
    for (slot, word) in message.message.iter().zip(words) {
        slot.set(word);
    }
    outer.callee_core.set(u32::from(target.0));
    let made = give(cpu, thread, space, target, claim, || end(cpu, thread, record, isa))?;
    cpu.crossing.set_resumes(true);
    Some(wait(cpu, thread, outer, made, reach))
}
