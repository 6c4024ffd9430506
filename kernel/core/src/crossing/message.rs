//! The contents of a call's message, and of its answer, on the short way.
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
//! A function that goes on after a call back ([`RESUMES`], [`super::back`]) has the results of that in words 3 and 5, in word 2 the stack
//! pointer when it returns, in word 4 the record that has its registers (pool address), and of that in the words for arguments what it
//! needs if the registers are here still ([`resume`]).
//!
//! The result's kinds and whether there are more arguments is in the top bits of word 0: pool addresses have 40 bits. Arguments that the
//! function has on its stack ([`Spread`]) are there before the call is given.
//! Argument words are as the function's ISA has them in registers.

use motet_layout::sync::Ordering;

use motet_abi::{
    convention::{self, Arguments, Entry, Results, StackWords},
    fat::Signature,
    registers,
};
use motet_hal::Machine;
use motet_layout::{Cell64, CoreId, CrossingRecord, PoolAddr, ProcessRecord, SpaceRecord, ThreadRecord, UserFrame};
use motet_protocol::{
    Context,
    direct::{self, Message, Reach},
    message::{ADDRESS_BITS, thread_in},
};

use super::{
    gate,
    records::{record_at, signature_of_result},
    request::Request,
    stack,
};
use crate::{cpu::Cpu, mm};

/// Arguments that every call's message has room for, as every ISA has registers for them.
pub const WORDS_MAX: usize = 6;
/// Those that some ISA has registers for. What a function has on its stack, the caller's core writes there.
const REGISTERS_MAX: usize = 8;
/// Floating-point arguments in registers.
const FLOATS_MAX: u32 = 8;
/// Bits of word 0 above the thread's address: its signature's result, and four flags.
pub const RESULT_SHIFT: u32 = ADDRESS_BITS;
pub const MORE_WORDS: u64 = 1 << 60;
pub const FLOATS: u64 = 1 << 61;
pub const RESUMES: u64 = 1 << 62;
const SPREAD: u64 = 1 << 63;
/// The thread id in [`Cpu::ext_owner`] while the core's extended registers are a called function's.
pub const CALLED: u32 = u32::MAX;

/// Whether a call has no more arguments than [`WORDS_MAX`].
#[inline(always)]
pub fn fits(signature: &Signature) -> bool {
    signature.words >> (4 * WORDS_MAX) == 0
}

/// Words of a call in its message, and the request.
pub fn length(signature: &Signature, spread: Option<&Spread>) -> u32 {
    let arguments = if signature.words > 0xf { WORDS_MAX as u32 - 1 } else { 0 };
    let floats = if signature.floats != 0 { FLOATS_MAX } else { 0 };
    let others = if spread.is_some() { (REGISTERS_MAX - WORDS_MAX) as u32 } else { 0 };
    1 + 6 + arguments + floats + others
}

/// What is different for a call with more arguments than [`WORDS_MAX`].
pub struct Spread {
    /// Where the function's stack begins, below its arguments.
    pub stack: u64,
    /// Argument words from [`WORDS_MAX`] on, as the function's registers hold them.
    pub words: [u64; REGISTERS_MAX - WORDS_MAX],
}

impl Spread {
    /// Writes what the function expects on its stack, of more arguments than a message has room for. `None`: the caller's stack cannot
    /// be read, or that of the function not written.
    #[cold]
    pub fn of<M: Machine>(
        cpu: &Cpu<M>,
        thread: &ThreadRecord,
        space: &'static SpaceRecord,
        request: &Request,
    ) -> Option<Self> {
        let mut arguments = Arguments::default();
        let read = |address| mm::read_word(cpu, space, address).ok();
        convention::arguments(M::ISA, &thread.frame, &request.signature, read, &mut arguments)?;
        let (words, stack) = convention::arguments_on_stack(request.isa, request.stack, &request.signature, &arguments);
        let word = |index: usize| {
            let word = arguments.words[WORDS_MAX + index];
            request.signature.word_for(request.isa, WORDS_MAX + index, word)
        };
        stack::push(cpu, space, &words).then(|| Self { stack, words: core::array::from_fn(word) })
    }
}

/// Writes a call into a message. `false`: the thread pointer is not an address.
#[inline(always)]
pub fn write<M: Machine>(
    cpu: &Cpu<M>,
    message: Message,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    request: &Request,
    spread: Option<&Spread>,
) -> bool {
    let Some(tls) = request.tls::<M>(thread) else { return false };
    let (signature, frame, isa) = (&request.signature, &thread.frame, request.isa);
    let mut first = cpu.raw(thread) | u64::from(signature.result & 0xfff) << RESULT_SHIFT;
    if signature.words > 0xf {
        first |= MORE_WORDS;
        for index in 1..WORDS_MAX {
            message.words[index].set(signature.word_for(
                isa,
                index,
                convention::word_in_register(M::ISA, frame, index),
            ));
        }
    }
    if signature.floats != 0 {
        first |= FLOATS;
        let floats = signature.float_count();
        for (index, slot) in message.floats.iter().enumerate() {
            let float = if index < floats { convention::float(M::ISA, frame, index) } else { 0 };
            slot.set(convention::float_in_register(isa, float, signature.is_single(index)));
        }
    }
    let mut stack = request.stack;
    if let Some(spread) = spread {
        first |= SPREAD;
        stack = spread.stack;
        for (slot, &word) in message.words[WORDS_MAX..].iter().zip(&spread.words) {
            slot.set(word);
        }
    }
    let words = [first, cpu.raw(space), request.function, stack, tls, signature.word_for(isa, 0, request.first)];
    for (slot, word) in message.message.iter().zip(words) {
        slot.set(word);
    }
    true
}

/// What a function that goes on needs if its registers are still in its core's frame: by number, the words for arguments.
pub mod resume {
    pub const PC: usize = 0;
    pub const SP: usize = 1;
    pub const TLS: usize = 2;
    pub const RESULT: usize = 3;
    pub const FRAME: usize = 4;
}

/// The results in a message, of the kinds in a signature's `result`.
#[inline(always)]
pub fn read_results(message: &[Cell64; 6], kinds: u64) -> Results {
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

/// Whose function a core runs.
#[derive(Clone, Copy)]
pub struct OnBehalf {
    /// The thread that has called it.
    pub thread: &'static ThreadRecord,
    /// The thread's address space.
    pub space: &'static SpaceRecord,
    /// As in [`Given`].
    pub caller: Option<CoreId>,
}

/// A call that this core was given.
pub struct Given {
    /// The thread whose call it is.
    pub thread: &'static ThreadRecord,
    /// Its address space.
    pub space: &'static SpaceRecord,
    /// Who waits for the results; `None`: the call word is damaged, and nobody can be told.
    pub caller: Option<CoreId>,
    /// The first word of the message.
    pub first: u64,
    /// The core's extended registers are those of a call of the same thread.
    pub again: bool,
    /// Where it lies.
    pub message: Message,
}

impl Given {
    /// # Errors
    /// A word that cannot be: its number, and the word.
    #[inline(always)]
    pub fn read<M: Machine>(cpu: &Cpu<M>, reach: Reach) -> Result<Self, (u32, u64)> {
        let caller = direct::caller(cpu);
        let message = Message::of(cpu.own, caller.unwrap_or(cpu.id), reach);
        let [first, space] = [0, 1].map(|index: usize| message.message[index].get());
        let thread = thread_in(cpu, first).ok_or((0, first))?;
        let again = cpu.handover.holds(cpu.raw(thread), CALLED);
        let known = again && cpu.mm.active() == space;
        // What it says itself is far away; who was here just now is known.
        if !known && thread.core.load(Ordering::Relaxed) != u32::from(cpu.id.0) {
            return Err((0, first));
        }
        if !known && space_of(cpu, thread) != Some(space) {
            return Err((1, space));
        }
        let space = cpu.pool.get(PoolAddr(space)).ok_or((1, space))?;
        let resumes = reach.is_noncoherent() && first & RESUMES != 0;
        let tls = if resumes { &message.words[resume::TLS] } else { &message.message[4] }.get();
        if !registers::can_hold_tls(M::ISA, tls) {
            return Err((4, tls));
        }
        Ok(Self { thread, space, caller, first, again, message })
    }

    /// Makes `frame` the registers of the function, as the message says. `again`: it has those of a call of the same thread; if the
    /// function only goes on, its own.
    #[inline(always)]
    pub fn enter<M: Machine>(&self, cpu: &Cpu<M>, frame: &UserFrame, again: bool, reach: Reach) -> StackWords {
        let message = self.message;
        if reach.is_noncoherent() && self.resumes() {
            let [pc, sp, result] = [resume::PC, resume::SP, resume::RESULT].map(|index| message.words[index].get());
            let signature = signature_of_result(result);
            let results = Results { words: [5, 3].map(|index: usize| message.message[index].get()), floats: [0; 2] };
            // Who has its own does not look at that record, which is far away.
            match if again { None } else { self.saved_caller(cpu) } {
                Some(saved) => convention::resume_caller(frame, M::ISA, saved, &signature, &results),
                None => convention::return_to(frame, M::ISA, [pc, sp], &signature, &results),
            }
            return StackWords::none(message.message[2].get());
        }
        if !again {
            registers::clear(frame);
        }
        let [function, stack, tls, word] = [2, 3, 4, 5].map(|index: usize| message.message[index].get());
        let words = convention::begin(frame, M::ISA, &Entry { function, gate: gate::address(M::ISA), stack, tls }, 0);
        convention::set_word(frame, M::ISA, 0, word);
        if self.first & MORE_WORDS != 0 {
            let count = if self.first & SPREAD != 0 { REGISTERS_MAX } else { WORDS_MAX };
            for index in 1..count {
                convention::set_word(frame, M::ISA, index, message.words[index].get());
            }
        }
        if self.has_floats() {
            let floats = core::array::from_fn(|index| message.floats[index].get());
            convention::set_floats(frame, M::ISA, &floats);
        }
        words
    }

    /// The record that has the registers of a function that goes on; `None`: the message is damaged.
    pub fn saved_caller<M: Machine>(&self, cpu: &Cpu<M>) -> Option<&'static CrossingRecord> {
        record_at(cpu, self.thread, self.message.message[4].get())
    }

    /// What is left of it when results lie in the message.
    pub fn place(&self) -> OnBehalf {
        OnBehalf { thread: self.thread, space: self.space, caller: self.caller }
    }

    /// Whether the function has called back, and goes on by this call.
    pub fn resumes(&self) -> bool {
        self.first & RESUMES != 0
    }

    pub fn has_floats(&self) -> bool {
        self.first & FLOATS != 0
    }

    pub fn has_float_results(&self) -> bool {
        self.first >> RESULT_SHIFT & 0xf00 != 0
    }
}

/// The address space of a thread (pool address).
fn space_of<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<u64> {
    let process = cpu.pool.get::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)))?;
    Some(process.space.load(Ordering::Relaxed))
}
