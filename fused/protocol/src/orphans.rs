//! Islands that die while the machine goes on: who owns the threads that were there, or on their way.
//!
//! The host sets the dead island's cores to offline and stores that it is dead. From then on no core begins to give them a thread,
//! but hand-overs that have begun before may still be under way. So one core, the *reclaimer*, waits until every living core has
//! [passed](crate::shootdown::pass) a place where it has no thread in transit ([`wait_for_all`]), and then looks:
//!
//! - A thread that is recorded on a dead core belongs to no living one ([`is_orphaned`]), with one exception:
//! - Results that a dead core has given belong to the core that called, if that lives: the reclaimer rings it, as the dead core may have
//!   died before it did.
//! - Results for a dead core, or a function that runs for one, are settled by the call's word ([`settle_calls`]).
//!
//! - A thread whose descriptor a dead core was sending to a living one belongs to nobody, unless the descriptor has arrived ([`settle_transfers`]).
//! - A thread that a dead core was bringing to a living one, which has not found it in its inbox or its state, is brought there
//!   ([`is_stranded`]).
//! - Places in living cores' inboxes that a dead core had counted, and never filled, count no longer ([`forget_places`]).
//!
//! An island that dies meanwhile is left to the next reclamation: no core has passed since, and a hand-over to it or by it may be under way. So threads are
//! asked for islands that are being reclaimed ([`is_reclaimed`]), not for those that are dead.
//!
//! Protocol page: `docs/protocols/crossing.md`.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{
    CALL_NONE, CORE_OFFLINE, CORES_PER_ISLAND_MAX, CoreId, CoreRecord, DMA_AWAY, DMA_HOME, DMA_NONE, ISLAND_FAILED,
    ISLAND_JOINED, ISLAND_RECLAIMING, IslandId, THREAD_IN_TRANSIT, ThreadRecord,
};

use crate::{
    Context,
    cores::{CORES, all_cores, core_record, cores, is_dead, state_of},
    direct::mark_attention,
    dma::claimed_by,
    message::{CallState, owner, phase, thread_of},
    run_queue::{all_of, collect, half_of},
};

/// Sets the cores of a dead island to offline (again): one of them may have been given a call meanwhile.
pub fn turn_off(context: &impl Context, island: IslandId) {
    for index in 0..CORES_PER_ISLAND_MAX {
        core_record(context, CoreId::new(island, index)).state.store(CORE_OFFLINE, Ordering::Release);
    }
    then_look(); // at the calls that they have been given
}

/// Begins a reclamation: once a living core has passed, it counts the threads that it brings to others apart from those before
/// ([`forget_places`]).
pub fn begin_reclaiming(context: &impl Context) {
    context.pool().header().reclamations.fetch_add(1, Ordering::SeqCst);
}

/// Clears the places in inboxes that dead cores had counted and never filled. Every living core has passed twice since the reclamation began: after the first time,
/// none brought threads any more that it had counted before; after the second, these had left the inboxes. All that is still counted from before is of dead cores.
pub fn forget_places(context: &impl Context) {
    let before = half_of(context.pool().header().reclamations.load(Ordering::Relaxed).wrapping_sub(1));
    for core in all_cores(context) {
        core_record(context, core).inbox_count.fetch_and(!all_of(before), Ordering::Relaxed);
    }
}

/// Waits until every other core that lives has passed a place where it holds no lock and has no thread in transit. This core holds
/// no lock.
pub fn wait_for_all(context: &impl Context) {
    until_all_pass(context, || ());
    // Passing empties a core's inbox and its state. This core does not pass: what dead ones have brought it has arrived, too.
    collect(context);
}

/// As [`wait_for_all`], where this core may pass itself, and does: so cores that wait for each other all go on.
pub fn pass_all(context: &impl Context) {
    until_all_pass(context, || context.pass());
}

fn until_all_pass(context: &impl Context, meanwhile: impl Fn()) {
    let mut tickets = [0; CORES];
    let lives = |core: CoreId| {
        core != context.core()
            && core_record(context, core).state.load(Ordering::SeqCst) != CORE_OFFLINE
            // The other cores of one that has failed run until the host says that it is lost.
            && matches!(state_of(context, core.island()), ISLAND_JOINED | ISLAND_FAILED)
    };
    for core in cores().filter(|&core| lives(core)) {
        tickets[core.index()] = core_record(context, core).shootdown_asked.fetch_add(1, Ordering::SeqCst) + 1;
        // Also those that sleep: one may be about to, or be claimed by a core that is no more.
        context.ring(core);
    }
    for core in cores() {
        let passed = &core_record(context, core).shootdown_passed;
        while passed.load(Ordering::Acquire) < tickets[core.index()] && lives(core) {
            meanwhile();
            context.relax();
        }
    }
}

/// Settles calls between dead cores and living ones. Every core that lives has passed.
pub fn settle_calls(context: &impl Context) {
    for core in cores() {
        let record = core_record(context, core);
        let Some(state) = CallState::of(record.call.load(Ordering::SeqCst)) else { continue };
        let Some(caller) = state.caller() else { continue };
        match (is_dead(context, core), is_dead(context, caller), state) {
            (true, false, CallState::Returned(_)) => context.ring(caller),
            (true, false, CallState::Given(_)) | (true, true, _) => record.call.store(CALL_NONE, Ordering::Release),
            (false, true, _) => settle_orphan(context, core, caller),
            (true, false, CallState::None | CallState::Taken(_)) | (false, false, _) => {}
        }
    }
}

/// The caller's core has died, the callee's lives. Either that finds out, and keeps the thread, or the results are there
/// and the thread is lost.
fn settle_orphan(context: &impl Context, core: CoreId, caller: CoreId) {
    let record = core_record(context, core);
    mark_attention(context, core);
    // Before the word changes: afterwards others may write there.
    let thread = thread_of(context, record);
    let given_up = |from: CallState| from.change(record, CallState::None).is_ok();
    if given_up(CallState::Returned(caller)) || given_up(CallState::Taken(caller)) {
        if let Some(thread) = thread.filter(|thread| thread.core.load(Ordering::SeqCst) == u32::from(core.0)) {
            thread.core.store(u32::from(caller.0), Ordering::Release);
        }
    } else {
        context.ring(core);
    }
}

/// Settles what dead cores were sending by their migration engines: a thread whose descriptor has not arrived is on the dead core, and the place that
/// was claimed for it is free. `thread_in` says which thread a core's descriptor is of. Every core that lives has passed.
pub fn settle_transfers(context: &impl Context, thread_in: impl Fn(&CoreRecord) -> Option<&'static ThreadRecord>) {
    for dead in cores().filter(|&core| is_dead(context, core)) {
        let record = core_record(context, dead);
        let mut is_under_way = matches!(record.dma_place.get(), DMA_AWAY | DMA_HOME);
        for status in cores().flat_map(|core| &core_record(context, core).dma_arrives_ns) {
            is_under_way |= status.compare_exchange(claimed_by(dead), 0, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        }
        record.dma_place.set(DMA_NONE);
        let thread = if is_under_way { thread_in(record) } else { None };
        if let Some(thread) = thread.filter(|thread| {
            CoreId::from_raw(thread.core.load(Ordering::SeqCst)).is_some_and(|core| !is_dead(context, core))
        }) {
            thread.core.store(u32::from(dead.0), Ordering::Release);
        }
    }
}

/// Whether a core's island is being reclaimed: it was dead when that began, and every core that lives has passed since.
pub fn is_reclaimed(context: &impl Context, core: CoreId) -> bool {
    core != CoreId::HOST && state_of(context, core.island()) == ISLAND_RECLAIMING
}

/// Whether a core that is [reclaimed](is_reclaimed) was bringing a thread to another one, which does not have it.
pub fn is_stranded(context: &impl Context, thread: &ThreadRecord) -> bool {
    let state = thread.state.load(Ordering::SeqCst);
    phase(state) == THREAD_IN_TRANSIT && owner(state).is_some_and(|carrier| is_reclaimed(context, carrier))
}

/// Whether a thread that is not blocked belongs to no living core, because the core that it is on is [reclaimed](is_reclaimed). Calls are settled.
pub fn is_orphaned(context: &impl Context, thread: &'static ThreadRecord) -> bool {
    loop {
        let raw = thread.core.load(Ordering::SeqCst);
        let Some(core) = CoreId::from_raw(raw).filter(|&core| is_reclaimed(context, core)) else { return false };
        let record = core_record(context, core);
        let call = record.call.load(Ordering::SeqCst);
        let is_taken = matches!(CallState::of(call), Some(CallState::Returned(_) | CallState::Taken(_)))
            && thread_of(context, record).is_some_and(|found| core::ptr::eq(found, thread));
        // Who takes results says so first in the thread, then in the call's word.
        if thread.core.load(Ordering::SeqCst) == raw {
            return !is_taken;
        }
    }
}
