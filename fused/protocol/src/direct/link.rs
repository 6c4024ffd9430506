//! Calls over a link, where islands do not cache each other's memory: into a slot of the callee's record ([`crate::noncoherent`]), by stores or by the caller's engine.
//! The answer comes into the record of the caller's core.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{
    CALL_BACK, CALL_GIVEN, CALL_LEFT, CALL_NONE, CALL_RETURNED, CALL_WITHDRAWN, CORE_AWAKE, Cell64, CoreId, CoreRecord,
};

use super::{Claim, Message, Outcome, Reach, Transport};
use crate::{Context, cores::core_record, noncoherent, run_queue::has_ready};

/// `ENGINE`: this core's engine carries messages of a length from which on that is faster than stores.
pub enum Link<const ENGINE: bool> {}

impl<const ENGINE: bool> Transport for Link<ENGINE> {
    #[inline(always)]
    fn claim(context: &impl Context, core: CoreId) -> Option<Claim> {
        let reach = if ENGINE { Reach::Engine } else { Reach::Noncoherent };
        let record = core_record(context, core);
        noncoherent::reserve(context, core).map(|_| Claim { core, record, polls: false, reach, by_engine: false })
    }

    #[inline(always)]
    fn message(record: &'static CoreRecord, caller: CoreId) -> Message {
        let slot = &record.calls[caller.island().index()];
        Message { message: &slot.message, words: &slot.words, floats: &slot.floats }
    }

    /// The slot can be marked.
    #[inline(always)]
    fn prepare(_context: &impl Context, _claim: &Claim, _polled: bool) {}

    #[inline(always)]
    fn publish(context: &impl Context, claim: Claim) {
        if claim.by_engine {
            noncoherent::ask_by_engine(context, claim.core);
        } else {
            noncoherent::ask(context, claim.core);
        }
    }

    fn withdraw(context: &impl Context, claim: Claim) {
        noncoherent::free(context, claim.core);
    }

    #[inline(always)]
    fn is_disturbed(context: &impl Context, caller: Option<CoreId>) -> bool {
        caller.is_some_and(|caller| noncoherent::is_wanted(context, caller)) || has_ready(context.own_record())
    }

    #[inline(always)]
    fn reply(context: &impl Context, caller: CoreId) -> &'static [Cell64; 6] {
        &core_record(context, caller).answer_message
    }

    #[inline(always)]
    fn reply_of(context: &impl Context, _callee: CoreId) -> &'static [Cell64; 6] {
        &context.own_record().answer_message
    }

    #[inline(always)]
    fn give_back(context: &impl Context, caller: CoreId, state: u32) -> bool {
        answer(context, caller, CALL_RETURNED, state)
    }

    fn end_call(context: &impl Context, caller: Option<CoreId>) {
        let record = context.own_record();
        record.call.store(CALL_NONE, Ordering::Release);
        if let Some(caller) = caller {
            noncoherent::take_attention(context, caller);
            core_record(context, caller).answer.store(CALL_LEFT, Ordering::Release);
        }
        record.state.store(CORE_AWAKE, Ordering::Release);
        then_look(); // whether a shoot-down was asked, and whether somebody wants the thread
    }

    #[inline(always)]
    fn outcome(context: &impl Context, _callee: CoreId) -> Outcome {
        let answer = context.own_record().answer.load(Ordering::Acquire);
        if ENGINE && !matches!(answer, CALL_NONE | CALL_GIVEN) {
            // The last one that an engine has carried: this one, or one that is over.
            context.await_transfer(context.own_record().answer_arrives_ns.get());
        }
        match answer {
            CALL_NONE | CALL_GIVEN => Outcome::Runs,
            CALL_RETURNED => Outcome::Returned,
            CALL_BACK => Outcome::Calls,
            CALL_WITHDRAWN => Outcome::Withdrawn,
            _ => Outcome::Left,
        }
    }

    #[inline(always)]
    fn has_outcome(context: &impl Context, _callee: CoreId) -> bool {
        has_answer(context)
    }

    #[inline(always)]
    fn release(context: &impl Context, callee: CoreId) {
        context.own_record().answer.store(CALL_NONE, Ordering::Relaxed);
        noncoherent::free(context, callee);
    }
}

/// As [`give_back`](super::give_back), over a link: stores the kind of the answer, which lies in the caller's record.
#[must_use]
#[inline(always)]
pub fn answer(context: &impl Context, caller: CoreId, kind: u32, state: u32) -> bool {
    if !ends_call(context, caller, state) {
        return false;
    }
    // From here on the slot is the caller's.
    core_record(context, caller).answer.store(kind, Ordering::Release);
    noncoherent::tell(context, caller);
    true
}

/// As [`answer`], of what is in the [outgoing](super::Reply::outgoing) reply: this core's engine carries it.
#[must_use]
pub fn answer_by_engine(context: &impl Context, caller: CoreId, kind: u32, state: u32) -> bool {
    let ends = ends_call(context, caller, state);
    if ends {
        noncoherent::answer_by_engine(context, caller, kind);
    }
    ends
}

/// The function that `caller` has called is over, and this core is about to sleep. `false`: somebody wants the thread here.
#[inline(always)]
fn ends_call(context: &impl Context, caller: CoreId, state: u32) -> bool {
    if noncoherent::is_wanted(context, caller) {
        return false;
    }
    let record = context.own_record();
    record.call.store(CALL_NONE, Ordering::Relaxed);
    record.state.store(state, Ordering::Release);
    true
}

/// Whether the callee of this core's call has said what has become of it.
#[inline(always)]
pub fn has_answer(context: &impl Context) -> bool {
    !matches!(context.own_record().answer.load(Ordering::Relaxed), CALL_NONE | CALL_GIVEN)
}

/// Whether the callee has taken the call that this core has made, or has even answered it.
pub fn is_taken(context: &impl Context) -> bool {
    context.own_record().answer.load(Ordering::Relaxed) != CALL_NONE
}
