//! Calls back, where islands do not cache each other's memory: a function that was called from another island calls one of its caller's
//! ISA.
//!
//! A call back is an answer to the caller's core, which goes on with the thread as if the thread had called that function itself. The answer has all that the
//! first function needs to go on, so no core waits for it; and the thread's record, which lies near the caller's core, never
//! becomes the callee's. When the second function returns, the callee is called again, to go on with the first
//! ([`super::returns`]).

use motet_abi::{
    convention::{self, Arguments, Entry},
    fat::Signature,
    registers,
};
use motet_hal::Machine;
use motet_layout::{CALL_BACK, CoreId, CrossingRecord, Isa, SpaceRecord, ThreadRecord, UserFrame, is_canonical};
use motet_protocol::{
    Context,
    direct::{self, Reach, Reply},
};

use super::{
    caller::{release, take_back},
    gate,
    message::{OnBehalf, WORDS_MAX, fits},
    records::{innermost, nest, new_record, spare_record},
    report,
    request::{count_call, thread_pointer},
    stack,
    state::Pinned,
};
use crate::{cpu::Cpu, mm, signal, tree::process_of};

/// Words of a call back at least: of the call 3, of its caller 8 and the registers that every ISA preserves, and `answer`.
const CALL_BACK_WORDS: u32 = 20;
/// Whether the thread, an ordinary one here, calls back one of `isa`, from where its process is: it moves there, the long way, because its
/// record is near there; its function is called to go on here.
#[cold]
pub fn moves_home<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, space: &SpaceRecord, isa: Isa) -> bool {
    space.home.get() != u32::from(cpu.island().0)
        && innermost(cpu, thread).is_some_and(|outer| outer.caller_isa.get() == isa as u32)
}

/// A called function calls one of its caller's ISA that this core knows: gives that to the caller's core, with all that the function needs
/// to go on. `false`: it is not so, or cannot go this way.
///
/// | word of the answer | |
/// |---|---|
/// | 0 | `Signature::words` |
/// | 1 | the stack pointer when the function returns |
/// | 5 | first argument word, as its register holds it; further ones in `answer_words` |
#[inline(always)]
pub fn call_back<M: Machine>(
    cpu: &Cpu<M>,
    place: OnBehalf,
    frame: &'static UserFrame,
    sp_at_return: u64,
    reach: Reach,
) -> bool {
    let Some(caller) = place.caller else { return false };
    let function = registers::pc(frame);
    let is_possible = |pin: &Pinned| {
        let signature = &pin.signature;
        cpu.isa_of(caller) == Some(pin.isa) && signature.floats == 0 && !signature.has_floats() && fits(signature)
    };
    let Some(pin) = cpu.crossing.pins(reach).get(function, mm::epoch(cpu, place.space)).filter(is_possible) else {
        return false;
    };
    let read = |address| mm::read_word(cpu, place.space, address).ok();
    let Some((pc, sp)) = convention::return_point(M::ISA, frame, read) else { return false };
    let tls = registers::tls_of(M::ISA, frame);
    if !is_canonical(tls) {
        return false; // as an ordinary thread it is told so
    }
    let number = cpu.crossing.next_call_back(cpu.id);
    let by_engine = reach.has_engine() && cpu.crossing.engine_copies(caller, CALL_BACK_WORDS);
    let answer = if by_engine { Reply::outgoing(cpu) } else { Reply::there(cpu, caller) };
    answer.message[0].set(pin.signature.words);
    answer.message[1].set(sp_at_return);
    answer.message[5].set(convention::word_in_register(M::ISA, frame, 0));
    if pin.signature.words > 0xf {
        for (index, slot) in (1..).zip(answer.words) {
            slot.set(convention::word_in_register(M::ISA, frame, index));
        }
    }
    let record = answer.caller;
    record.caller_isa.set(M::ISA as u32);
    record.caller_core.set(u32::from(cpu.id.0));
    record.function.set(function);
    record.return_pc.set(pc);
    record.caller_sp.set(sp);
    record.caller_tls.set(tls);
    record.result.set(pin.signature.result.into());
    record.frame.set(number);
    cpu.machine.save_kept_ext(frame);
    convention::save_caller(M::ISA, frame, record);
    cpu.crossing.call_back(number);
    if by_engine {
        return direct::answer_by_engine(cpu, caller, CALL_BACK, cpu.idle_state());
    }
    direct::answer(cpu, caller, CALL_BACK, cpu.idle_state())
}

/// The function that `callee` runs for a thread of this core, in the call in `outer`, calls one of this island: the thread goes on with
/// that. `true`: extended registers in its frame have changed.
pub fn take_call<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    outer: &'static CrossingRecord,
    callee: CoreId,
) -> bool {
    let own = cpu.own;
    if outer.is_saved.get() == 0 {
        convention::save_caller(M::ISA, &thread.frame, outer);
        outer.is_saved.set(1);
    }
    outer.callee_sp.set(own.answer_message[1].get());
    take_back(cpu, thread);
    let process = process_of(cpu, thread);
    let (space, from) = (mm::space_of(cpu, process), &own.answer_caller);
    let program = cpu.object(space.fat.get());
    let tls_of = |isa| thread_pointer(program, isa, from.caller_tls.get(), M::ISA);
    let Some((isa, tls)) = cpu.isa_of(callee).and_then(|isa| Some((isa, tls_of(isa)?))) else {
        release(cpu, callee, Reach::Noncoherent);
        report::say_killed(cpu, thread, process, format_args!("the message of a call back is damaged"));
        signal::force(cpu, thread, signal::SIGKILL);
        return false;
    };
    let Some(record) = spare_record(cpu, thread).or_else(|| new_record(cpu, thread)) else {
        // No memory: nobody returns to the function.
        release(cpu, callee, Reach::Noncoherent);
        signal::force(cpu, thread, signal::SIGKILL);
        return false;
    };
    cpu.pool.copy(cpu.pool.addr_of(from), cpu.pool.addr_of(record), size_of::<CrossingRecord>());
    let signature = Signature { words: own.answer_message[0].get(), floats: 0, result: record.result.get() as u32 };
    let mut arguments = Arguments::default();
    let words = own.answer_message[5..].iter().chain(&own.answer_words);
    for (argument, word) in arguments.words.iter_mut().zip(words).take(signature.word_count().min(WORDS_MAX)) {
        *argument = word.get();
    }
    release(cpu, callee, Reach::Noncoherent);
    nest(cpu, thread, record);
    record.owner.set(cpu.raw(thread));
    record.caller_isa.set(isa as u32);
    record.caller_core.set(u32::from(callee.0));
    record.callee_isa.set(M::ISA as u32);
    record.callee_core.set(u32::from(cpu.id.0));
    record.outer_used.set(thread.stack_used[isa as usize - 1].get());
    record.is_saved.set(1);
    record.is_local.set(0);
    let entry =
        Entry { function: record.function.get(), gate: gate::address(M::ISA), stack: stack::top(thread, M::ISA), tls };
    let words = convention::enter(&thread.frame, M::ISA, &entry, &signature, &arguments);
    record.callee_sp.set(words.sp_at_return);
    // Should there be no memory for it, the function faults where it returns to.
    stack::push(cpu, space, &words);
    thread.crossing.set(cpu.raw(record));
    thread.spare_crossing.set(0);
    thread.stack_used[isa as usize - 1].set(record.caller_sp.get());
    count_call(program, [callee, cpu.id], false);
    true
}

/// Nobody has let the function in the call in `outer` go on ([`super::returns`]): the thread is again before the gate, which it passes once more
/// with the same results, and tells its caller in another way. `None`: the record is damaged.
pub fn undo<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, outer: &'static CrossingRecord) -> Option<()> {
    let record = spare_record(cpu, thread)?;
    let isa = Isa::from_raw(record.caller_isa.get())?;
    record.outer.set(cpu.raw(outer));
    thread.crossing.set(cpu.raw(record));
    thread.spare_crossing.set(0);
    thread.stack_used[isa as usize - 1].set(record.caller_sp.get());
    M::gate(M::ISA).unpass(&thread.frame);
    Some(())
}
