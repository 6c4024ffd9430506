//! Calls between islands that cache each other's memory: the callee is claimed by the word of its state, and answers where the call was.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{
    CALL_ATTENTION, CALL_LOOKED, CALL_NONE, CALL_POLLED, CORE_AWAKE, CORE_CALLED, CORE_CLAIMED, CORE_IDLE,
    CORE_POLLING, Cell64, CoreId, CoreRecord,
};

use super::{Claim, Message, Outcome, Reach, Transport, wake};
use crate::{
    Context,
    cores::core_record,
    message::{CallState, phase},
    run_queue::{Wake, end_idle, has_ready},
};

/// One line moves there and back: see [the module above](super).
pub enum Coherent {}

impl Transport for Coherent {
    #[inline(always)]
    fn claim(context: &impl Context, core: CoreId) -> Option<Claim> {
        let record = core_record(context, core);
        let claimed = CORE_CLAIMED | u32::from(context.core().0) << 8;
        let claims = |state| record.state.compare_exchange(state, claimed, Ordering::SeqCst, Ordering::Relaxed);
        let state = match claims(CORE_IDLE) {
            Err(CORE_POLLING) => claims(CORE_POLLING),
            other => other,
        };
        let polls = state.ok()? == CORE_POLLING;
        let claim = Claim { core, record, polls, reach: Reach::Coherent, by_engine: false };
        // After the claim: only a claimer moves the word away from none.
        if phase(record.call.load(Ordering::Acquire)) != CALL_NONE {
            // The word is not touched: it may be this core's own earlier call, which is being answered just now.
            finish(context, &claim, CORE_AWAKE);
            return None;
        }
        Some(claim)
    }

    #[inline(always)]
    fn message(record: &'static CoreRecord, _caller: CoreId) -> Message {
        Message { message: &record.message, words: &record.message_words, floats: &record.message_floats }
    }

    #[inline(always)]
    fn prepare(context: &impl Context, claim: &Claim, polled: bool) {
        let polled = if polled { CALL_POLLED } else { 0 };
        claim.record.call.store(CallState::Given(context.core()).word() | polled, Ordering::Release);
    }

    #[inline(always)]
    fn publish(context: &impl Context, claim: Claim) {
        finish(context, &claim, CORE_CALLED);
    }

    fn withdraw(context: &impl Context, claim: Claim) {
        claim.record.call.store(CALL_NONE, Ordering::Relaxed);
        finish(context, &claim, CORE_AWAKE);
    }

    #[inline(always)]
    fn is_disturbed(context: &impl Context, _caller: Option<CoreId>) -> bool {
        let record = context.own_record();
        // Whoever pushes a thread, or marks the call, looks at the state afterwards, and rings; this core looks after the fence of
        // `end_idle`.
        record.call.load(Ordering::Relaxed) & CALL_ATTENTION != 0 || has_ready(record)
    }

    #[inline(always)]
    fn reply(context: &impl Context, _caller: CoreId) -> &'static [Cell64; 6] {
        &context.own_record().message
    }

    #[inline(always)]
    fn reply_of(context: &impl Context, callee: CoreId) -> &'static [Cell64; 6] {
        &core_record(context, callee).message
    }

    #[inline(always)]
    fn give_back(context: &impl Context, caller: CoreId, state: u32) -> bool {
        let record = context.own_record();
        // First that it sleeps: the caller may claim it as soon as it has taken the results.
        record.state.store(state, Ordering::Release);
        let given = record.call.swap(CallState::Returned(caller).word(), Ordering::SeqCst);
        if given & CALL_ATTENTION != 0 && take_back(context, caller, state) {
            return false;
        }
        wake(context, caller, given & CALL_POLLED != 0);
        true
    }

    fn end_call(context: &impl Context, _caller: Option<CoreId>) {
        let record = context.own_record();
        record.call.store(CALL_NONE, Ordering::Release);
        record.state.store(CORE_AWAKE, Ordering::Release);
        then_look(); // whether a shoot-down was asked, and whether somebody wants the thread
    }

    #[inline(always)]
    fn outcome(context: &impl Context, callee: CoreId) -> Outcome {
        let (record, me) = (core_record(context, callee), context.core());
        // Means nothing, but is one instruction that makes the line this core's: RISC-V's compare-and-swap reads first, and
        // would wait for the line twice.
        record.call.fetch_add(CALL_LOOKED, Ordering::Relaxed);
        match CallState::Returned(me).change(record, CallState::Taken(me)) {
            Ok(()) => Outcome::Returned,
            Err(Some(CallState::Given(caller))) if caller == me => Outcome::Runs,
            Err(_) => Outcome::Left,
        }
    }

    #[inline(always)]
    fn has_outcome(context: &impl Context, callee: CoreId) -> bool {
        !CallState::Given(context.core()).is_in(core_record(context, callee).call.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn release(context: &impl Context, callee: CoreId) {
        core_record(context, callee).call.store(CALL_NONE, Ordering::Release);
    }
}

#[inline(always)]
fn finish(context: &impl Context, claim: &Claim, state: u32) {
    claim.record.state.store(state, Ordering::Release);
    wake(context, claim.core, claim.polls);
}

/// This core takes back results that it has just given, unless the caller has them already.
#[cold]
fn take_back(context: &impl Context, caller: CoreId, state: u32) -> bool {
    let record = context.own_record();
    // So that nobody claims it; whoever has done that finds results and gives up, unless they are taken.
    let woken = end_idle(context);
    let taken = CallState::Returned(caller).change(record, CallState::None).is_ok();
    if !taken && woken == Wake::Look {
        record.state.store(state, Ordering::Release);
        then_look();
    }
    taken
}

/// Stores that this core stops polling for the end of its call to `callee`, and is to be rung. `false`: the call has ended. (Over a link, a core
/// stores that for all its calls: [`crate::noncoherent::look_no_longer`].)
pub fn stop_polling(context: &impl Context, callee: CoreId) -> bool {
    let call = core_record(context, callee).call.fetch_and(!CALL_POLLED, Ordering::SeqCst);
    CallState::Given(context.core()).is_in(call)
}

/// Makes the core that is called to run a thread look at the thread's attention word: to be rung after it.
pub fn mark_attention(context: &impl Context, core: CoreId) {
    core_record(context, core).call.fetch_or(CALL_ATTENTION, Ordering::SeqCst);
}
