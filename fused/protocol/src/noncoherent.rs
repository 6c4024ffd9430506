//! Calls to cores whose memory this island does not cache: by stores alone, or by the caller's engine ([`crate::dma`]), whichever is faster.
//!
//! An operation that is atomic in own memory need not be atomic over a link, and a read takes as long as the way there and back. So nobody claims a
//! core there. Each core has a *slot* for each island ([`CallSlot`]). A core of that island writes a call and then its request into the slot.
//! The callee, which reads its own memory only, takes the request when it has nothing else to do. Its answers are stored into
//! the record of the caller's core (`answer`): first that the call is taken ([`CALL_GIVEN`]), and then one of the ends of [`crate::direct`]. The cores of one
//! island settle among themselves, in their own memory, which of them has the island's slot of a core.
//! | word | stored by | what it says |
//! |---|---|---|
//! | `request` | the caller; 0 by the callee | a call waits here; 0: it is taken, or has been withdrawn |
//! | `withdrawn` | the caller | it does not want the request any more. The callee answers [`CALL_WITHDRAWN`] if it finds both; if it has taken the request, it answers as ever |
//! | `attention` | anybody; 0 by the callee | somebody wants the thread |
//! | `to_be_rung` | the core, in the record of every other island | it does not look at its words, and is to be rung |
//!
//! A core that stops polling stores that it does (`to_be_rung`), and *then* looks once more; whoever writes something for it reads that word afterwards. Both stores
//! may be under way at the same time, so the core first reads its words back: a read does not overtake stores of its own, and its answer
//! does not overtake those of the other side (PCI Express base specification, 2.4.1). Only cores of islands that poll have to do so;
//! others are always rung.
//!
//! A call that an engine carries is written into the record of the caller's core (`out_call`) and copied from there, `request` last. Until it has
//! arrived, the slot does not name the thread, so whoever wants the thread's attention looks into that record, too ([`departing`]). An answer
//! goes the same way. All other words are stored.
//!
//! Protocol page: `docs/protocols/crossing.md`.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{CALL_GIVEN, CALL_WITHDRAWN, CallSlot, CoreId, DMA_ANSWER, DMA_CALL, ISLANDS_MAX, IslandId};

use crate::{
    Context,
    cores::{core_record, cores_of},
    count,
    message::CallState,
};

/// The slot of `callee` for calls of the cores of `island`.
#[inline(always)]
pub fn slot(context: &impl Context, callee: CoreId, island: IslandId) -> &'static CallSlot {
    &core_record(context, callee).calls[island.index()]
}

/// Takes this island's slot of `callee` for a call of this core. `None`: another core of the island has it.
#[inline(always)]
pub fn reserve(context: &impl Context, callee: CoreId) -> Option<&'static CallSlot> {
    let owner = &context.island_record().slot_owners[callee.index()];
    let me = 1 + u32::from(context.core().0);
    owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).ok()?;
    Some(slot(context, callee, context.core().island()))
}

/// Whether this island's slot of `callee` is free (approximate).
pub fn is_free(context: &impl Context, callee: CoreId) -> bool {
    context.island_record().slot_owners[callee.index()].load(Ordering::Relaxed) == 0
}

/// Frees the slot for the next caller: nothing was asked, or the call has been answered.
#[inline(always)]
pub fn free(context: &impl Context, callee: CoreId) {
    context.island_record().slot_owners[callee.index()].store(0, Ordering::Release);
}

/// Stores the request for the call that has been written.
#[inline(always)]
pub fn ask(context: &impl Context, callee: CoreId) {
    let request = CallState::Given(context.core()).word();
    slot(context, callee, context.core().island()).request.store(request, Ordering::Release);
    tell(context, callee);
}

/// As [`ask`], of the call in `out_call`: this core's engine brings it, and the request behind it.
pub fn ask_by_engine(context: &impl Context, callee: CoreId) {
    context.own_record().dma_place.set(DMA_CALL);
    context.transfer(callee);
}

/// Gives `caller` the answer of a kind (`CALL_*`) that is in `out_message`: this core's engine brings it.
pub fn answer_by_engine(context: &impl Context, caller: CoreId, kind: u32) {
    let own = context.own_record();
    own.out_answer.set(kind);
    own.dma_place.set(DMA_ANSWER);
    context.transfer(caller);
}

/// The slot of `callee` to which an engine brings, or has brought, a call whose first word is what `is_it` looks for.
pub fn departing(context: &impl Context, callee: CoreId, is_it: impl Fn(u64) -> bool) -> Option<&'static CallSlot> {
    let islands = (0..context.island_count() as u32).filter_map(IslandId::from_raw);
    let mut callers = islands.flat_map(|island| cores_of(context, island));
    let caller = callers.find(|&caller| is_it(core_record(context, caller).out_call.message[0].get()))?;
    Some(slot(context, callee, caller.island()))
}

/// Withdraws this core's call, for which it has waited for long. It waits for the answer nevertheless, and afterwards
/// calls [`end_withdrawal`].
pub fn withdraw(context: &impl Context, callee: CoreId) {
    slot(context, callee, context.core().island()).withdrawn.store(1, Ordering::Release);
    ring(context, callee); // whatever it does
}

/// Ends a withdrawal, after the call has been answered in one way or the other, and before the slot is [free].
pub fn end_withdrawal(context: &impl Context, callee: CoreId) {
    slot(context, callee, context.core().island()).withdrawn.store(0, Ordering::Release);
}

/// Who asks in a slot of this core; `None`: nobody, or the word is damaged.
#[inline(always)]
fn asks(slot: &CallSlot, island: usize) -> Option<CoreId> {
    let request = slot.request.load(Ordering::Acquire);
    if request == 0 {
        return None;
    }
    match CallState::of(request) {
        Some(CallState::Given(caller)) if caller.island().index() == island => Some(caller),
        _ => None,
    }
}

/// Whether somebody asks something of this core.
#[inline(always)]
pub fn is_asked(context: &impl Context) -> bool {
    first_that_asks(context, 0).is_some()
}

/// Who asks something of this core, of all islands from `first` on in turn.
#[inline(always)]
fn first_that_asks(context: &impl Context, first: usize) -> Option<CoreId> {
    let (slots, count) = (&context.own_record().calls, context.island_count().min(ISLANDS_MAX));
    let callers = context.callers();
    let mut index = first;
    for _ in 0..count {
        if index >= count {
            index = 0;
        }
        if callers >> index & 1 != 0
            && let Some(caller) = asks(&slots[index], index)
        {
            return Some(caller);
        }
        index += 1;
    }
    None
}

/// Takes a call that somebody asks for, of all islands from `first` on in turn: the caller is told, and the call word says who it is.
#[inline(always)]
pub fn take(context: &impl Context, first: usize) -> Option<CoreId> {
    let record = context.own_record();
    let caller = first_that_asks(context, first)?;
    record.calls[caller.island().index()].request.store(0, Ordering::Relaxed);
    record.call.store(CallState::Given(caller).word(), Ordering::Relaxed);
    core_record(context, caller).answer.store(CALL_GIVEN, Ordering::Release);
    Some(caller)
}

/// Waits until the last call from `caller`'s island that an engine has carried has arrived. It may be the one that this core has just taken; of an earlier
/// one, that is over.
pub fn await_call(context: &impl Context, caller: CoreId) {
    context.await_transfer(context.own_record().call_arrives_ns[caller.island().index()].get());
}

/// Gives back the calls whose callers want that, and which this core has not taken. Whoever wants one back rings.
pub fn give_back_withdrawn(context: &impl Context) {
    let slots = context.own_record().calls.iter().take(context.island_count());
    for slot in slots {
        // First the request: whoever has made it has taken back the flag of the call before.
        let request = slot.request.load(Ordering::Acquire);
        if request == 0 || slot.withdrawn.load(Ordering::Acquire) == 0 {
            continue;
        }
        let caller = CallState::of(request).and_then(CallState::caller);
        slot.request.store(0, Ordering::Relaxed);
        let Some(caller) = caller else { continue };
        core_record(context, caller).answer.store(CALL_WITHDRAWN, Ordering::Release);
        tell(context, caller);
    }
}

/// Rings `core`, if it does not poll, for what was stored for it.
#[inline(always)]
pub fn tell(context: &impl Context, core: CoreId) {
    if context.polls(core.island()) {
        // Who looks no longer says so, and looks once more.
        then_look();
        if context.island_record().to_be_rung[core.index()].load(Ordering::Relaxed) == 0 {
            return context.wrote(core);
        }
    }
    ring(context, core);
}

fn ring(context: &impl Context, core: CoreId) {
    context.ring(core);
    count(&context.counters().doorbells_rung);
}

/// Stores that this core, of an island that polls, is to be rung from now on, because it is about to sleep, or to run
/// something while it waits for an answer. The caller has to look once more whether something has come already.
pub fn look_no_longer(context: &impl Context) {
    say(context, 1);
    let islands = &context.pool().header().islands;
    // What was stored for this core before the other side could see that is there when this has been read.
    for island in islands.iter().take(context.island_count()) {
        island.to_be_rung[context.core().index()].load(Ordering::SeqCst);
    }
    then_look();
}

/// Stores that this core polls again. Called before it looks for the first time.
pub fn look_again(context: &impl Context) {
    say(context, 0);
    then_look();
}

fn say(context: &impl Context, to_be_rung: u32) {
    for island in context.pool().header().islands.iter().take(context.island_count()) {
        island.to_be_rung[context.core().index()].store(to_be_rung, Ordering::Release);
    }
}

/// Makes the core that runs the call in a slot of its look at the thread's attention word: to be rung after it.
pub fn mark_attention(slot: &CallSlot) {
    slot.attention.store(1, Ordering::Release);
}

/// Whether somebody wants the thread of the call that `caller` has made to this core.
#[inline(always)]
pub fn is_wanted(context: &impl Context, caller: CoreId) -> bool {
    context.own_record().calls[caller.island().index()].attention.load(Ordering::Relaxed) != 0
}

/// Clears the mark of `caller`'s call, whose thread becomes an ordinary one of this core and reads its attention word itself.
pub fn take_attention(context: &impl Context, caller: CoreId) {
    let attention = &context.own_record().calls[caller.island().index()].attention;
    if attention.load(Ordering::Relaxed) != 0 {
        attention.store(0, Ordering::Relaxed);
    }
}
