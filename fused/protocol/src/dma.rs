//! The engine of a core: it transfers what the core has written into its own record to another core's memory. By Flick's protocol
//! that is a descriptor (ISCA '20, section IV-B); by [`crate::noncoherent`] it is a call or an answer, where a transfer is faster than stores.
//!
//! A core writes a descriptor into its own record (`dma_out`), stores for which of the receiver's two places it is, and starts the
//! engine. The engine copies the descriptor and then sets the receiver's status to the time at which it arrives; the receiver
//! clears the status once it has read it. A place whose status is not clear takes none, so no descriptor is lost or overwritten.
//!
//! For a call or an answer, the engine writes the message, then the time at which it arrives, and then the word that says that it is there, as if it
//! had been stored. There is always room, because by `noncoherent` the place belongs to the sender. When all has arrived, the engine interrupts the receiver, unless that polls
//! and has seen it. So no receiver that falls asleep meanwhile misses it.
//!
//! On timed machines the simulator is the engine: copying costs no core anything, and the time is that of `[model.dma]`. On others, the
//! sender's core copies.
//!
//! | word | written by | when |
//! |---|---|---|
//! | `dma_out`; `out_*` | the sender | before it starts the engine, and after `dma_ends_ns` |
//! | `dma_place` | the sender: none → place; the engine: place → none | before the thread is the receiver's; after it has copied |
//! | `dma_in[place]` | the engine | while it has claimed the status |
//! | `dma_arrives_ns[place]` | the engine: 0 → claimed by the sender → time; the receiver: time → 0 | |
//! | a call's slot, `call_arrives_ns`, then `request` | the engine | while the slot is the sender's |
//! | `answer_message` and what goes with it, `answer_arrives_ns`, then `answer` | the engine | while the call is the sender's |
//! | `dma_taken`, `dma_ends_ns` | the engine | before the sender goes on |
//!
//! Protocol pages: `docs/protocols/migration.md`, `docs/protocols/crossing.md`.

use core::mem::offset_of;

use motet_layout::sync::Ordering;

use motet_layout::{
    CALL_BACK, CALLS_BY_DMA, CALLS_BY_STORES, CallSlot, Cell64, CoreId, CoreRecord, CrossingRecord, DMA_ANSWER,
    DMA_AWAY, DMA_CALL, DMA_HOME, DMA_NONE, Descriptor, IslandId, PoolHeader,
};

use crate::message::CallState;

/// Words of the longest message: a call's, with its request.
const MESSAGE_WORDS_MAX: u8 = 22;
/// As a result of [`words_from`]: no message is so long.
pub const NEVER: u8 = u8::MAX;

/// The number of words from which on a message from one island to cores of another one goes by the sender's engine, because the receiver
/// can see it earlier than stores. Stores take the sender's time one after the other, and the last one still has to cross the link, which a transfer's time includes. A
/// doorbell, where there is one, follows in both cases.
pub fn words_from(header: &PoolHeader, from: IslandId, to: IslandId) -> u8 {
    let (sender, receiver) = (&header.islands[from.index()], &header.islands[to.index()]);
    match header.calls_by.get() {
        CALLS_BY_STORES => return NEVER,
        CALLS_BY_DMA => return 0,
        _ => {}
    }
    let bytes = size_of::<CallSlot>() as u64;
    let transfer_ns =
        u64::from(header.dma_setup_ns.get()) + (bytes * u64::from(header.dma_kib_ns.get())).div_ceil(1024);
    let way_ns = if receiver.poll_ns.get() == 0 { 0 } else { u64::from(sender.transit_ns[to.index()].get()) };
    first_slower(sender.store_ns[to.index()].get().into(), way_ns, transfer_ns)
}

/// How many words take longer by stores than a transfer does.
fn first_slower(store_ns: u64, way_ns: u64, transfer_ns: u64) -> u8 {
    let is_slower = |words: &u8| u64::from(*words) * store_ns + way_ns > transfer_ns;
    (1..=MESSAGE_WORDS_MAX).find(is_slower).unwrap_or(NEVER)
}

/// A status from here on says who copies: nothing has arrived.
const CLAIMED: u64 = u64::MAX - 0xff;

/// The status while the engine of a core copies.
pub const fn claimed_by(sender: CoreId) -> u64 {
    CLAIMED + sender.0 as u64
}

/// Transfers, as the engine of `sender`, what the record `from` of `sender` says to `to`, where it arrives at `arrives_ns`. `false`: there is no room, or
/// nothing to transfer.
pub fn transfer(sender: CoreId, from: &CoreRecord, to: &CoreRecord, arrives_ns: u64) -> bool {
    let is_taken = match from.dma_place.get() {
        place @ (DMA_AWAY | DMA_HOME) => transfer_descriptor(sender, from, to, place as usize, arrives_ns),
        DMA_CALL => transfer_call(sender, from, to, arrives_ns),
        DMA_ANSWER => transfer_answer(from, to, arrives_ns),
        _ => false,
    };
    if is_taken {
        from.dma_ends_ns.set(arrives_ns);
    }
    from.dma_taken.set(is_taken.into());
    is_taken
}

fn transfer_descriptor(sender: CoreId, from: &CoreRecord, to: &CoreRecord, place: usize, arrives_ns: u64) -> bool {
    let status = &to.dma_arrives_ns[place];
    // Acquire: what the receiver has read before it cleared the status is not overwritten before that.
    let is_free = status.compare_exchange(0, claimed_by(sender), Ordering::Acquire, Ordering::Relaxed).is_ok();
    if is_free {
        for (word, from) in to.dma_in[place].words.iter().zip(&from.dma_out) {
            word.set(from.get());
        }
        // Before it has arrived: the sender may die, and what is under way then is nobody's (`lost`).
        from.dma_place.set(DMA_NONE);
        status.store(arrives_ns.clamp(1, CLAIMED - 1), Ordering::Release);
    }
    is_free
}

/// A call goes to the slot of the sender's island.
fn transfer_call(sender: CoreId, from: &CoreRecord, to: &CoreRecord, arrives_ns: u64) -> bool {
    let island = sender.island().index();
    let (slot, out) = (&to.calls[island], &from.out_call);
    copy(&out.message, &slot.message);
    copy(&out.words, &slot.words);
    copy(&out.floats, &slot.floats);
    from.dma_place.set(DMA_NONE);
    to.call_arrives_ns[island].set(arrives_ns);
    // Last, as the callee looks at it.
    slot.request.store(CallState::Given(sender).word(), Ordering::Release);
    true
}

/// An answer goes to the record of the core that has called.
fn transfer_answer(from: &CoreRecord, to: &CoreRecord, arrives_ns: u64) -> bool {
    let kind = from.out_answer.get();
    copy(&from.out_message, &to.answer_message);
    if kind == CALL_BACK {
        copy(&from.out_words, &to.answer_words);
        copy_caller(&from.out_caller, &to.answer_caller);
    }
    from.dma_place.set(DMA_NONE);
    to.answer_arrives_ns.set(arrives_ns);
    to.answer.store(kind, Ordering::Release);
    true
}

/// What a function that calls back says of itself ([`CoreRecord::answer_caller`]).
fn copy_caller(from: &CrossingRecord, to: &CrossingRecord) {
    to.caller_isa.set(from.caller_isa.get());
    to.caller_core.set(from.caller_core.get());
    fn words(record: &CrossingRecord) -> [&Cell64; 6] {
        let CrossingRecord { function, return_pc, caller_sp, caller_tls, result, frame, .. } = record;
        [function, return_pc, caller_sp, caller_tls, result, frame]
    }
    for (to, from) in words(to).into_iter().zip(words(from)) {
        to.set(from.get());
    }
    copy(&from.saved, &to.saved);
    copy(&from.saved_float, &to.saved_float);
}

fn copy(from: &[Cell64], to: &[Cell64]) {
    for (to, from) in to.iter().zip(from) {
        to.set(from.get());
    }
}

/// What the engine of a core, whose record is `from`, is to copy of calls and answers: where it is in the sender's record, where it goes in the
/// receiver's, and how many bytes. A descriptor is not among it.
pub fn pieces(sender: CoreId, from: &CoreRecord) -> [(usize, usize, usize); 2] {
    let none = (0, 0, 0);
    match from.dma_place.get() {
        DMA_CALL => {
            let slot = offset_of!(CoreRecord, calls) + sender.island().index() * size_of::<CallSlot>();
            [(offset_of!(CoreRecord, out_call), slot, size_of::<CallSlot>()), none]
        }
        DMA_ANSWER => {
            // One line, with the word that says that it is there.
            let message = (offset_of!(CoreRecord, out_message), offset_of!(CoreRecord, answer), 64);
            let caller = (offset_of!(CoreRecord, out_caller), offset_of!(CoreRecord, answer_caller));
            let is_call = from.out_answer.get() == CALL_BACK;
            [message, if is_call { (caller.0, caller.1, size_of::<CrossingRecord>()) } else { none }]
        }
        _ => [none; 2],
    }
}

/// How many bytes the engine of a core, whose record is `from`, is to transfer.
pub fn bytes(sender: CoreId, from: &CoreRecord) -> usize {
    match from.dma_place.get() {
        DMA_CALL | DMA_ANSWER => pieces(sender, from).iter().map(|piece| piece.2).sum(),
        _ => size_of::<Descriptor>(),
    }
}

/// The descriptor in one of a core's own places, and when it arrives or has arrived.
#[inline(always)]
pub fn arrival(own: &'static CoreRecord, place: u32) -> Option<(&'static Descriptor, u64)> {
    let arrives_ns = own.dma_arrives_ns[place as usize].load(Ordering::Acquire);
    (arrives_ns != 0 && arrives_ns < CLAIMED).then(|| (&own.dma_in[place as usize], arrives_ns))
}

/// Clears the status of a place, whose descriptor the core has read.
pub fn clear(own: &CoreRecord, place: u32) {
    own.dma_arrives_ns[place as usize].store(0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_goes_by_the_engine_from_where_its_stores_take_longer() {
        // machines/flick.toml: there, and back to a host that is rung.
        assert_eq!([first_slower(5, 412, 1025), first_slower(5, 0, 1025)], [NEVER; 2]);
        assert_eq!([first_slower(400, 412, 1025), first_slower(400, 0, 1025)], [2, 3]);
        assert_eq!([first_slower(47, 0, 1025), first_slower(46, 0, 1025)], [22, NEVER]);
        assert_eq!([first_slower(0, 2000, 1025), first_slower(0, 0, 0)], [1, NEVER]);
    }
}
