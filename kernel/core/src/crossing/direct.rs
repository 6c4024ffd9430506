//! The short way: a call to a sleeping core, and the return to one, without a run queue (`motet_protocol::direct`).
//!
//! The function runs on a register frame of the core's own. While it does nothing but compute, nothing of the thread moves
//! to this core but its pages. Whatever else happens (a system call, a fault, an interrupt) makes it an ordinary thread
//! of this core first: its frame becomes the thread's, and the caller's registers go into the record.
//!
//! | word of the message | call | return |
//! |---|---|---|
//! | 0 | thread | thread |
//! | 1 | address space | second result word |
//! | 2 | function | first floating-point result |
//! | 3 | stack pointer | second floating-point result |
//! | 4 | thread pointer | |
//! | 5 | first argument word | first result word |
//!
//! Where to return to, the result's kinds and whether there are more arguments is in the top bits of word 0: pool
//! addresses have 40 bits. Argument words are as the function's ISA has them in registers.

use motet_layout::sync::Ordering;

use motet_abi::{
    convention::{self, Arguments, Entry, Results},
    fat::Signature,
    registers,
};
use motet_hal::{Access, Machine, Trap};
use motet_layout::{
    CoreId, CoreRecord, CrossingRecord, Isa, PoolAddr, ProcessRecord, SpaceRecord, ThreadRecord, UserFrame,
};
use motet_protocol::{
    Context, count,
    direct::{self, Message},
    memory::alloc_zeroed_frame,
    run_queue::{self, core_record},
};

use super::{GATE, pop, stack};
use crate::{cpu::Cpu, mm, process::exit, sched, signal};

/// Arguments that a direct call carries: as many as every ISA has registers for, so that none is on the stack.
const WORDS_MAX: usize = 6;
/// Bits of word 0 from the lowest: the thread's address, the caller's core, its signature's result, and two flags.
const ADDRESS_BITS: u32 = 40;
const RESULT_SHIFT: u32 = ADDRESS_BITS + 8;
const MORE_WORDS: u64 = 1 << 60;
const FLOATS: u64 = 1 << 61;
/// The thread id in [`Cpu::ext_owner`] while the core's extended registers are a called function's.
const CALLED: u32 = u32::MAX;

/// Whether a call can go the short way.
pub fn fits(signature: &Signature) -> bool {
    signature.word_count() <= WORDS_MAX
}

/// Gives a call to the core that `record` names, if that sleeps. The thread's frame holds the caller's registers, and keeps
/// them. If it comes back true, the thread is no longer this core's.
pub fn call<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    record: &CrossingRecord,
    isa: Isa,
    entry: &Entry,
) -> bool {
    let Some(target) = CoreId::from_raw(record.callee_core.get()) else { return false };
    let Some(claim) = direct::claim(cpu, target) else { return false };
    let message = claim.record(cpu);
    let word = |index: usize| entry.signature.word(index).in_register(isa, entry.arguments.words[index]);
    let mut first = cpu.raw(thread) | u64::from(cpu.id.0) << ADDRESS_BITS;
    first |= (record.result.get() & 0xfff) << RESULT_SHIFT;
    if entry.signature.word_count() > 1 {
        first |= MORE_WORDS;
        for index in 1..WORDS_MAX {
            message.message_words[index].set(word(index));
        }
    }
    if entry.signature.float_count() != 0 {
        first |= FLOATS;
        for (index, slot) in message.message_floats.iter().enumerate() {
            slot.set(convention::float_in_register(
                isa,
                entry.arguments.floats[index],
                entry.signature.is_single(index),
            ));
        }
    }
    let words = [first, cpu.raw(space), entry.function, entry.stack, entry.tls, word(0)];
    for (slot, word) in message.message.iter().zip(words) {
        slot.set(word);
    }
    // Who looks for the thread finds it there.
    let raw = cpu.raw(thread);
    thread.core.store(u32::from(target.0), Ordering::Relaxed);
    message.current_thread.store(raw, Ordering::SeqCst);
    core_record(cpu, cpu.id).current_thread.store(0, Ordering::SeqCst);
    if thread.attention.load(Ordering::SeqCst) != 0 {
        take_back(cpu, thread, target);
        claim.withdraw(cpu);
        return false;
    }
    cpu.resident.set(cpu.raw(space));
    claim.publish(cpu, Message::Call);
    true
}

/// The thread is this core's again.
fn take_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, from: CoreId) {
    let raw = cpu.raw(thread);
    thread.core.store(u32::from(cpu.id.0), Ordering::Relaxed);
    core_record(cpu, cpu.id).current_thread.store(raw, Ordering::SeqCst);
    // Unless that core runs another thread by now.
    let _ = core_record(cpu, from).current_thread.compare_exchange(raw, 0, Ordering::SeqCst, Ordering::Relaxed);
}

/// A call that this core was given.
struct Given {
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    home: CoreId,
    signature: Signature,
    entry: Entry,
}

impl Given {
    fn read<M: Machine>(cpu: &Cpu<M>, message: &CoreRecord) -> Self {
        let [first, space, function, stack, tls, word] = core::array::from_fn(|index| message.message[index].get());
        let mut arguments = Arguments::default();
        arguments.words[0] = word;
        // Words are in their registers' form already.
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
        let address = first & ((1 << ADDRESS_BITS) - 1);
        Self {
            thread: cpu.pool.at(PoolAddr(address)),
            space: cpu.pool.at(PoolAddr(space)),
            home: CoreId::from_raw((first >> ADDRESS_BITS) as u32 & 0xff).unwrap_or(cpu.id),
            signature,
            entry: Entry { function, gate: GATE, stack, tls, signature, arguments },
        }
    }
}

/// This core was called: runs the function until it returns, or becomes an ordinary thread and leaves this core.
pub fn called<M: Machine>(cpu: &Cpu<M>) {
    let given = Given::read(cpu, core_record(cpu, cpu.id));
    let Some(frame) = call_frame(cpu) else {
        // Without a frame of its own, the core uses the thread's.
        return adopt(cpu, &given, None, 0, None);
    };
    let words = convention::enter(frame, M::ISA, &given.entry);
    if mm::activate(cpu, given.space).is_err() || !stack::push(cpu, given.space, &words) {
        return adopt(cpu, &given, Some(frame), words.sp_at_return, Some(Trap::BadAddress { address: words.at }));
    }
    cpu.resident.set(cpu.raw(given.space));
    let owner = (cpu.raw(given.thread), CALLED);
    // What another call of the same thread has left there is its own.
    if given.entry.signature.floats != 0 || cpu.ext_owner.get() != owner {
        cpu.machine.load_ext(frame);
        cpu.ext_owner.set(owner);
    }
    cpu.serve_shootdowns();
    // Without another thread here, nobody needs a time slice.
    if direct::wants_attention(cpu) || run_queue::has_ready(core_record(cpu, cpu.id)) {
        return adopt(cpu, &given, Some(frame), words.sp_at_return, None);
    }
    let trap = cpu.machine.run_user(frame);
    let returned = matches!(trap, Trap::PageFault { address: GATE, access: Access::Execute });
    let balanced = registers::pc(frame) == GATE && registers::sp(frame) == words.sp_at_return;
    if returned && balanced && give_back(cpu, &given, frame) {
        direct::end_call(cpu);
        return;
    }
    adopt(cpu, &given, Some(frame), words.sp_at_return, Some(trap));
}

/// The register frame of called functions, made at the first call.
fn call_frame<M: Machine>(cpu: &Cpu<M>) -> Option<&'static UserFrame> {
    if cpu.call_frame.get() == 0 {
        cpu.call_frame.set(alloc_zeroed_frame(cpu)?.addr().0);
    }
    Some(cpu.pool.at(PoolAddr(cpu.call_frame.get())))
}

/// Gives the function's result to the caller's core, if that sleeps.
fn give_back<M: Machine>(cpu: &Cpu<M>, given: &Given, frame: &'static UserFrame) -> bool {
    let Some(claim) = direct::claim(cpu, given.home) else { return false };
    if given.signature.result >> 8 != 0 {
        cpu.machine.save_ext(frame);
    }
    let results = convention::results(frame, &given.signature);
    let message = claim.record(cpu);
    let words = [cpu.raw(given.thread), results.words[1], results.floats[0], results.floats[1], 0, results.words[0]];
    // All of them: what an earlier message has left there is not the caller's to see.
    for (slot, word) in message.message.iter().zip(words) {
        slot.set(word);
    }
    claim.publish(cpu, Message::Return);
    true
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
    let record = cpu.object::<CrossingRecord>(thread.crossing.get()).expect("a thread that is away is in a call");
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
            let words = convention::enter(&thread.frame, M::ISA, &given.entry);
            record.callee_sp.set(words.sp_at_return);
            // Should there be no memory for it, the function faults where it returns to.
            stack::push(cpu, given.space, &words);
            thread.ext_core.set(0);
        }
    }
    direct::end_call(cpu);
    count(&cpu.counters().context_switches);
    let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    if mm::activate(cpu, given.space).is_err() {
        return exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
    }
    sched::go_on(cpu, thread, process, trap);
}

/// A function that a thread of this core has called has returned: the caller goes on here.
pub fn returned<M: Machine>(cpu: &Cpu<M>) {
    let message = core_record(cpu, cpu.id);
    let [thread, second, float, second_float, _, word] = core::array::from_fn(|index| message.message[index].get());
    let thread = cpu.pool.at::<ThreadRecord>(PoolAddr(thread));
    let record = cpu.object::<CrossingRecord>(thread.crossing.get()).expect("a thread that is away is in a call");
    let results = Results { words: [word, second], floats: [float, second_float] };
    if let Some(callee) = CoreId::from_raw(record.callee_core.get()) {
        take_back(cpu, thread, callee);
    }
    thread.user_ns.set(thread.user_ns.get() + cpu.now_ns().saturating_sub(record.called_at_ns.get()));
    pop(cpu, thread, record, &results);
    sched::run_thread(cpu, thread);
}
