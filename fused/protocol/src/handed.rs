//! A thread in the word of an idle core's state: one compare-and-swap hands it over.
//!
//! The inbox ([`crate::run_queue`]) is for any number of threads, and for a core in any state: a place is counted, the thread linked, and the core woken.
//! An idle core has no other thread, so none of that is needed for it. The giver moves the core's state from idle to *handed*, with the thread's frame number in
//! the upper bits, and rings. The core exchanges the word when it wakes, whatever has woken it, and has the thread.
//!
//! | state of the core | who moves it there | what may happen next |
//! |---|---|---|
//! | idle, polling | the core | a giver hands it a thread; a waker or a caller takes it out of its sleep |
//! | [`CORE_HANDED`] | a giver, by compare-and-swap | the core takes the thread when it wakes |
//! | awake | the core | |
//!
//! The thread is in transit by its giver meanwhile, as on any other way, and its record names the core that gets it. So a death of either island is
//! settled as of a thread in an inbox ([`crate::orphans`]): a core that passes takes the thread out of the word, as it empties its inbox.
//!
//! Protocol page: `docs/protocols/wake-up.md`.

use motet_layout::{
    CORE_AWAKE, CORE_HANDED, CORE_IDLE, CORE_POLLING, CoreId, PAGE_SIZE, PoolAddr, THREAD_READY, ThreadRecord,
    sync::Ordering,
};

use crate::{
    Context,
    cores::core_record,
    count,
    message::phase,
    ready::{self, Position},
};

/// Where the number of the thread's frame begins.
const FRAME_SHIFT: u32 = 8;

/// The state of an idle core that is given a thread. `None`: the thread's record lies too high in the pool (from 64 GiB on), or in the middle of a frame.
#[inline(always)]
fn word_of(context: &impl Context, thread: &'static ThreadRecord) -> Option<u32> {
    let raw = context.raw(thread);
    let frame = raw / PAGE_SIZE;
    (raw % PAGE_SIZE == 0 && frame < 1 << (32 - FRAME_SHIFT)).then_some((frame as u32) << FRAME_SHIFT | CORE_HANDED)
}

/// Gives a thread to a core that is idle, and rings it. The caller has stored that the thread is in transit by it, to `target`, and
/// afterwards leaves the thread alone. `false`: the core is not idle, and nothing has happened.
#[inline(always)]
#[must_use]
pub fn give(context: &impl Context, thread: &'static ThreadRecord, target: CoreId) -> bool {
    let Some(word) = word_of(context, thread) else { return false };
    let state = &core_record(context, target).state;
    // What was stored before is there for the core that finds the word.
    match state.compare_exchange(CORE_IDLE, word, Ordering::SeqCst, Ordering::Relaxed) {
        Ok(_) => {
            count(&context.counters().doorbells_rung);
            context.ring(target);
            true
        }
        Err(CORE_POLLING) => {
            let given = state.compare_exchange(CORE_POLLING, word, Ordering::SeqCst, Ordering::Relaxed).is_ok();
            if given {
                context.wrote(target);
            }
            given
        }
        Err(_) => false,
    }
}

/// Whether a thread is in the state of a core.
#[inline(always)]
pub(crate) fn is_in(state: u32) -> bool {
    phase(state) == CORE_HANDED
}

/// The thread in the state that this core has just exchanged. `None`: the word is damaged.
#[inline(always)]
pub(crate) fn thread_in(context: &impl Context, state: u32) -> Option<&'static ThreadRecord> {
    context.pool().get(PoolAddr(u64::from(state >> FRAME_SHIFT) * PAGE_SIZE))
}

/// Takes the thread out of this core's state, if there is one: the core is awake then, and the thread among the ready ones.
pub(crate) fn take_out(context: &impl Context) {
    let state = &context.own_record().state;
    let word = state.load(Ordering::Relaxed);
    // Nobody else moves the word on from there.
    if is_in(word) && state.compare_exchange(word, CORE_AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
        thread_in(context, word).into_iter().for_each(|thread| make_ready(context, thread));
    }
}

/// A thread that was in this core's state waits for its turn among the ready ones. Nobody carries it any more.
pub fn make_ready(context: &impl Context, thread: &'static ThreadRecord) {
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    ready::add(context, context.own_record(), thread, Position::ByRank);
}
