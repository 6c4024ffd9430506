//! Calls and answers that engines carry, where islands do not cache each other's memory: as `noncoherent`, and nobody sees a request or an answer before
//! all of it has arrived, or sleeps when it has.

use motet_layout::sync::Ordering;
use motet_layout::{CALL_RETURNED, CoreId, DMA_CALL, DMA_NONE};
use motet_protocol::cores::core_record;
use motet_protocol::direct::{self, Reply};
use motet_protocol::{Context, dma, message, noncoherent};

use crate::direct::callee;
use crate::harness::{Core, explore, must_be_caught};
use crate::noncoherent::{Endless, RIGHT, Steps, calls, endless};

const CARRIED: Steps = Steps {
    out: |core, _| &core.own_record().out_call.message[0],
    ask: |core| noncoherent::ask_by_engine(core, callee()),
    answer: |core, caller, result, state| {
        Reply::outgoing(core).message[5].set(result);
        assert!(direct::answer_by_engine(core, caller, CALL_RETURNED, state), "nobody has marked it");
    },
    ..RIGHT
};

#[test]
fn every_carried_call_is_done_once_or_withdrawn() {
    explore(1500, calls(CARRIED, None, false));
}

#[test]
fn carried_messages_reach_cores_that_poll_and_then_sleep() {
    explore(1500, calls(CARRIED, None, true));
}

#[test]
fn calls_are_carried_and_answers_stored_and_the_other_way_round() {
    explore(700, calls(Steps { answer: RIGHT.answer, ..CARRIED }, None, false));
    explore(700, calls(Steps { answer: CARRIED.answer, ..RIGHT }, None, true));
}

/// As [`dma::transfer`] of calls, with the request first.
fn request_first(engine: &Core, target: CoreId) {
    let (own, receiver) = (engine.own_record(), core_record(engine, target));
    if own.dma_place.get() == DMA_CALL {
        let slot = noncoherent::slot(engine, target, engine.core().island());
        slot.request.store(message::CallState::Given(engine.core()).word(), Ordering::SeqCst);
        engine.relax();
        slot.message[0].set(own.out_call.message[0].get());
        own.dma_place.set(DMA_NONE);
    } else {
        dma::transfer(engine.core(), own, receiver, 1);
    }
    engine.ring(target);
}

#[test]
fn a_request_that_is_visible_before_its_message_is_caught() {
    must_be_caught(1500, calls(CARRIED, Some(request_first), false));
}

#[test]
fn ringing_before_all_has_arrived_is_caught() {
    let ring_first = |engine: &Core, target: CoreId| {
        engine.ring(target);
        engine.relax();
        dma::transfer(engine.core(), engine.own_record(), core_record(engine, target), 1);
    };
    must_be_caught(1500, calls(CARRIED, Some(ring_first), false));
}

/// Whom to ring is not known before all has arrived: it may fall asleep meanwhile.
#[test]
fn looking_whom_to_ring_before_the_transfer_is_caught() {
    let ask = |core: &Core| {
        noncoherent::tell(core, callee());
        noncoherent::ask_by_engine(core, callee());
    };
    let silent = |engine: &Core, target: CoreId| {
        let is_call = engine.own_record().dma_place.get() == DMA_CALL;
        dma::transfer(engine.core(), engine.own_record(), core_record(engine, target), 1);
        if !is_call {
            engine.ring(target);
        }
    };
    must_be_caught(3000, calls(Steps { ask, ..CARRIED }, Some(silent), true));
}

#[test]
fn writing_an_answer_over_one_under_way_is_caught() {
    let answer = |core: &Core, caller, result, state| {
        core.own_record().out_message[5].set(result);
        assert!(direct::answer_by_engine(core, caller, CALL_RETURNED, state), "nobody has marked it");
    };
    let slow = |engine: &Core, target: CoreId| {
        (0..10).for_each(|_| engine.relax()); // seldom, but the core may be called again meanwhile
        dma::transfer(engine.core(), engine.own_record(), core_record(engine, target), 1);
        engine.ring(target);
    };
    must_be_caught(3000, calls(Steps { answer, ask: RIGHT.ask, out: RIGHT.out, ..CARRIED }, Some(slow), false));
}

const ENDLESS: Endless = Endless { steps: CARRIED, looks: true, checks: true, finds_departing: true };

#[test]
fn who_wants_a_threads_attention_finds_its_call_under_way() {
    explore(1500, endless(ENDLESS));
}

#[test]
fn looking_for_calls_that_have_arrived_alone_is_caught() {
    must_be_caught(1500, endless(Endless { finds_departing: false, ..ENDLESS }));
}
