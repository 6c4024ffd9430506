//! A descriptor: what a thread takes along.
//!
//! | word | call | return |
//! |---|---|---|
//! | 0 | thread; kind (bits 40 to 43), sender (44 to 51), kinds of results (52 to 63) | the same |
//! | 1 | address space; kinds of floats (bits 40 to 55) | address space |
//! | 2 | function | |
//! | 3 | thread pointer | |
//! | 4 | its context there, or the top of its stack and [`IS_STACK`] | its context |
//! | 5 | kinds of words | |
//! | 6 … | words, then floats | two words, two floats |

use motet_abi::{
    convention::{Arguments, Results},
    fat::Signature,
};
use motet_hal::Machine;
use motet_layout::{Cell64, CoreId, DESCRIPTOR_WORDS, Descriptor, PoolAddr, SpaceRecord, ThreadRecord};
use motet_protocol::{Context, message::ADDRESS_BITS};

use crate::cpu::Cpu;

const KIND_SHIFT: u32 = ADDRESS_BITS;
const SENDER_SHIFT: u32 = 44;
const RESULT_SHIFT: u32 = 52;
const FLOATS_SHIFT: u32 = ADDRESS_BITS;
const ADDRESS: u64 = (1 << ADDRESS_BITS) - 1;
const CALL: u64 = 1;
const RETURN: u64 = 2;
/// Word 4 is the top of a stack: the thread has no context yet.
pub const IS_STACK: u64 = 1;
const HEADER_WORDS: usize = 6;
/// Arguments that a descriptor has room for.
const ARGUMENTS_MAX: usize = DESCRIPTOR_WORDS - HEADER_WORDS;

/// A call that is sent.
pub struct Outgoing<'a> {
    pub thread: &'static ThreadRecord,
    pub space: &'static SpaceRecord,
    pub function: u64,
    pub tls: u64,
    pub place: u64,
    pub signature: &'a Signature,
    pub arguments: &'a Arguments,
}

/// What has come.
pub struct Incoming {
    pub thread: &'static ThreadRecord,
    pub space: &'static SpaceRecord,
    pub sender: CoreId,
    pub place: u64,
    pub what: What,
}

#[derive(PartialEq, Eq, Debug)]
pub enum What {
    Call { function: u64, tls: u64, signature: Signature },
    Return { kinds: u32, results: Results },
}

/// Whether a function's arguments fit.
pub fn fits(signature: &Signature) -> bool {
    signature.word_count() + signature.float_count() <= ARGUMENTS_MAX
}

/// Writes a call where this core's engine takes it from.
pub fn write_call<M: Machine>(cpu: &Cpu<M>, call: &Outgoing<'_>) {
    let ends = Ends { thread: cpu.raw(call.thread), space: cpu.raw(call.space), sender: cpu.id, place: call.place };
    encode_call(&cpu.own.dma_out, &ends, call.function, call.tls, call.signature, call.arguments);
}

/// Writes a return.
pub fn write_return<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    place: u64,
    kinds: u32,
    results: &Results,
) {
    let ends = Ends { thread: cpu.raw(thread), space: cpu.raw(space), sender: cpu.id, place };
    encode_return(&cpu.own.dma_out, &ends, kinds, results);
}

/// Reads what has come, and the arguments of a call. `None`: it is damaged.
pub fn read<M: Machine>(cpu: &Cpu<M>, descriptor: &Descriptor, arguments: &mut Arguments) -> Option<Incoming> {
    let (ends, what) = decode(&descriptor.words, arguments)?;
    let thread = cpu.pool.get::<ThreadRecord>(PoolAddr(ends.thread))?;
    let space = cpu.pool.get::<SpaceRecord>(PoolAddr(ends.space))?;
    Some(Incoming { thread, space, sender: ends.sender, place: ends.place, what })
}

/// What every descriptor has: pool addresses, who has sent it, word 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ends {
    thread: u64,
    space: u64,
    sender: CoreId,
    place: u64,
}

impl Ends {
    fn header(&self, kind: u64, result: u32) -> u64 {
        self.thread | kind << KIND_SHIFT | u64::from(self.sender.0) << SENDER_SHIFT | u64::from(result) << RESULT_SHIFT
    }
}

fn encode_call(slots: &[Cell64], ends: &Ends, function: u64, tls: u64, signature: &Signature, arguments: &Arguments) {
    let space = ends.space | u64::from(signature.floats) << FLOATS_SHIFT;
    let words = [ends.header(CALL, signature.result & 0xfff), space, function, tls, ends.place, signature.words];
    let integers = arguments.words.iter().take(signature.word_count());
    let floats = arguments.floats.iter().take(signature.float_count());
    fill(slots, words.iter().chain(integers).chain(floats));
}

fn encode_return(slots: &[Cell64], ends: &Ends, kinds: u32, results: &Results) {
    let words = [ends.header(RETURN, kinds), ends.space, 0, 0, ends.place, 0];
    fill(slots, words.iter().chain(&results.words).chain(&results.floats));
}

fn fill<'a>(slots: &[Cell64], words: impl Iterator<Item = &'a u64>) {
    slots.iter().zip(words).for_each(|(slot, word)| slot.set(*word));
}

/// What a descriptor says, whatever is in it. `None`: nothing that is ever sent.
fn decode(words: &[Cell64; DESCRIPTOR_WORDS], arguments: &mut Arguments) -> Option<(Ends, What)> {
    let word = |index: usize| words[index].get();
    let (first, second) = (word(0), word(1));
    let sender = CoreId::from_raw((first >> SENDER_SHIFT & 0xff) as u32)?;
    let ends = Ends { thread: first & ADDRESS, space: second & ADDRESS, sender, place: word(4) };
    let result = (first >> RESULT_SHIFT) as u32;
    let what = match first >> KIND_SHIFT & 0xf {
        CALL => {
            let signature = Signature { words: word(5), floats: (second >> FLOATS_SHIFT) as u32 & 0xffff, result };
            if !fits(&signature) {
                return None;
            }
            let (integers, floats) = (signature.word_count(), signature.float_count());
            for (index, slot) in arguments.words.iter_mut().take(integers).enumerate() {
                *slot = word(HEADER_WORDS + index);
            }
            for (index, slot) in arguments.floats.iter_mut().take(floats).enumerate() {
                *slot = word(HEADER_WORDS + integers + index);
            }
            What::Call { function: word(2), tls: word(3), signature }
        }
        RETURN => {
            let [a, b, c, d] = [0, 1, 2, 3].map(|index| word(HEADER_WORDS + index));
            What::Return { kinds: result, results: Results { words: [a, b], floats: [c, d] } }
        }
        _ => return None,
    };
    Some((ends, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends = Ends { thread: 0xff_1234_5000, space: 0x6000, sender: CoreId(0x7f), place: 0x7fff_0000_1001 };

    fn read(words: &[Cell64; DESCRIPTOR_WORDS]) -> Option<(Ends, What)> {
        decode(words, &mut Arguments::default())
    }

    fn slots() -> [Cell64; DESCRIPTOR_WORDS] {
        core::array::from_fn(|_| Cell64::new(u64::MAX))
    }

    #[test]
    fn a_call_arrives_as_it_was_sent() {
        // As many arguments as there is room for: words alone, and with the eight floats that registers hold.
        for (words, floats) in [(0, 0), (0x11_1111_1111_1111, 0), (0x21_3141, 0xaaaa), (0x12_3412, 0x5555)] {
            let signature = Signature { words, floats, result: 0xa5f };
            assert!(fits(&signature), "{signature:?}");
            let mut arguments = Arguments::default();
            for (index, slot) in arguments.words.iter_mut().take(signature.word_count()).enumerate() {
                *slot = 0x8000_0000_0000_0000 + index as u64;
            }
            for (index, slot) in arguments.floats.iter_mut().take(signature.float_count()).enumerate() {
                *slot = 0x7ff0_0000_0000_0000 + index as u64;
            }
            let slots = slots();
            encode_call(&slots, &ENDS, 0x40_1000, 0x7000_0000_0000, &signature, &arguments);
            let call = What::Call { function: 0x40_1000, tls: 0x7000_0000_0000, signature };
            let mut arrived = Arguments::default();
            assert_eq!((decode(&slots, &mut arrived), arrived), (Some((ENDS, call)), arguments));
        }
    }

    #[test]
    fn a_return_arrives_as_it_was_sent() {
        let results = Results { words: [u64::MAX, 1], floats: [2, 1 << 63] };
        for kinds in [0, 1, 0xfff] {
            let slots = slots();
            encode_return(&slots, &ENDS, kinds, &results);
            assert_eq!(read(&slots), Some((ENDS, What::Return { kinds, results })));
        }
    }

    #[test]
    fn what_is_never_sent_is_nothing() {
        let slots = slots();
        encode_return(&slots, &ENDS, 1, &Results::default());
        let first = slots[0].get();
        for kind in (0..16).filter(|&kind| kind != CALL && kind != RETURN) {
            slots[0].set(first & !(0xf << KIND_SHIFT) | kind << KIND_SHIFT);
            assert_eq!(read(&slots), None);
        }
        // More arguments than there is room for.
        let signature = Signature { words: 0x111_1111_1111_1111, floats: 0, result: 0 };
        assert!(!fits(&signature));
        encode_call(&slots, &ENDS, 0, 0, &signature, &Arguments::default());
        assert_eq!(read(&slots), None);
    }
}
