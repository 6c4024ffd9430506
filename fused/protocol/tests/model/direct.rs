//! Direct calls: none is lost or done twice, results reach who called, and whoever wants a thread or its core reaches it
//! while a function runs there.

use std::sync::Arc;

use motet_layout::sync::Ordering;
use motet_layout::{
    CALL_BACK, CALL_GIVEN, CALL_NONE, CALL_RETURNED, CORE_CALLED, CORE_CLAIMED, CORE_IDLE, CoreId, IslandId, Pool,
    THREAD_READY, ThreadRecord,
};
use motet_protocol::cores::core_record;
use motet_protocol::direct::{self, Claim, Message, Outcome, Reach};
use motet_protocol::run_queue::{self, Wake};
use motet_protocol::{Context, count};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, together};

pub const CALLEE: u8 = 0;
const CALLERS: u8 = 2;
const CALLS_EACH: u64 = 2;

pub fn callee() -> CoreId {
    CoreId::new(IslandId(CALLEE), 0)
}

/// The steps of the protocol that twins get wrong.
#[derive(Clone, Copy)]
struct Steps {
    /// Calls with a word; whether the core could be claimed.
    call: fn(&Core, u64) -> bool,
    /// Waits for the end of a call; its result, if the function has returned.
    wait: fn(&Core) -> Option<u64>,
    /// Gives the result back, and announces sleep.
    give_back: fn(&Core, CoreId),
    /// Whether the core, which has announced sleep, is to sleep.
    is_quiet: fn(&Core) -> bool,
}

const RIGHT: Steps = Steps {
    call: |core, word| {
        let Some(claim) = direct::claim(core, callee(), Reach::of(core)) else { return false };
        publish(core, claim, word, false);
        true
    },
    wait: wait_asleep,
    give_back: |core, caller| {
        assert!(direct::give_back(core, caller, CORE_IDLE, Reach::of(core)), "nobody has marked it")
    },
    is_quiet: |core| run_queue::is_quiet(core),
};

fn publish(core: &Core, claim: Claim, word: u64, polled: bool) {
    claim.message(core).message[0].set(word);
    claim.prepare(core, polled);
    claim.publish(core);
}

fn wait_asleep(core: &Core) -> Option<u64> {
    loop {
        if let Some(ended) = ended(core) {
            return ended;
        }
        core.announce();
        if run_queue::begin_idle(core, CORE_IDLE) {
            core.sleep();
        }
        woken(core);
    }
}

/// This core is awake.
pub fn woken(core: &Core) -> Wake {
    if !Reach::of(core).is_noncoherent() {
        return run_queue::end_idle(core);
    }
    run_queue::end_idle_noncoherent(core, 0).map_or(Wake::Look, |_| Wake::Called)
}

/// The first word of the call that `caller` has made to this core.
pub fn word_of(core: &Core, caller: CoreId) -> u64 {
    Message::of(core.own_record(), caller, Reach::of(core)).message[0].get()
}

/// `Some(None)`: the thread has left for the callee's core.
fn ended(core: &Core) -> Option<Option<u64>> {
    match direct::outcome(core, callee(), Reach::of(core)) {
        Outcome::Runs => None,
        Outcome::Left => Some(None),
        Outcome::Returned => {
            let result = direct::reply_of(core, callee(), Reach::of(core))[5].get();
            direct::release(core, callee(), Reach::of(core));
            Some(Some(result))
        }
        Outcome::Calls | Outcome::Withdrawn => panic!("nobody calls back, or takes a call back"),
    }
}

/// A core that runs calls and threads until there have been so many. A function's result is its argument plus 100.
fn serve(core: &Core, steps: Steps, jobs: u64) {
    let mut done = 0;
    while done < jobs {
        if run_queue::next(core).is_some() {
            done += 1;
            continue;
        }
        core.announce();
        run_queue::begin_idle(core, CORE_IDLE);
        loop {
            if (steps.is_quiet)(core) {
                core.sleep();
            }
            if woken(core) == Wake::Look {
                break;
            }
            let caller = direct::caller(core).expect("a call says whose it is");
            let word = word_of(core, caller);
            done += 1;
            if direct::is_disturbed(core, Some(caller), Reach::of(core)) {
                direct::end_call(core, Some(caller), Reach::of(core));
                core.ring(caller); // the thread comes back through its run queue
                break;
            }
            direct::reply(core, caller, Reach::of(core))[5].set(word + 100);
            core.announce();
            (steps.give_back)(core, caller);
            if done == jobs {
                return;
            }
        }
    }
}

/// A core that has called tries to call again before it has the result, as one does that runs other threads meanwhile.
fn impatient(claim: fn(&Core) -> Option<Claim>) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, _) = fresh_pool(2);
        let bells = Arc::new(Bells::default());
        let (server, core) = (Core::new(pool, CALLEE, &bells), Core::new(pool, 1, &bells));
        let caller = move || {
            for word in 1..=2 {
                let first = loop {
                    match claim(&core) {
                        Some(first) => break first,
                        None => core.relax(),
                    }
                };
                publish(&core, first, word, false);
                assert!(claim(&core).is_none(), "the core has a result that nobody has taken");
                assert_eq!(wait_asleep(&core), Some(word + 100), "the result is lost");
            }
        };
        together(vec![Box::new(caller), Box::new(move || serve(&server, RIGHT, 2))]);
    }
}

fn claim_callee(core: &Core) -> Option<Claim> {
    direct::claim(core, callee(), Reach::of(core))
}

#[test]
fn a_claim_that_comes_too_early_loses_no_result() {
    explore(3000, impatient(claim_callee));
}

/// Takes its earlier call for the one that it has not made after all.
#[test]
fn a_claim_that_undoes_an_earlier_call_is_caught() {
    must_be_caught(
        3000,
        impatient(|core| {
            let call = &core_record(core, callee()).call;
            let found = call.load(Ordering::Relaxed);
            let claim = claim_callee(core);
            if claim.is_none() && found & 0xff == CALL_GIVEN {
                call.store(CALL_NONE, Ordering::Relaxed);
            }
            claim
        }),
    );
}

/// Islands, which do not cache each other's memory if `uncached`, call functions of one core, and hand it threads where they cannot.
fn calls_where(uncached: bool, steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        pool.header().uncached.set(u32::from(uncached));
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let server = Core::new(pool, CALLEE, &bells);
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for island in 1..=CALLERS {
            let core = Core::new(pool, island, &bells);
            let threads: Vec<_> = (0..CALLS_EACH).map(|_| objects.thread(callee())).collect();
            actors.push(Box::new(move || {
                for (number, thread) in (0..).zip(threads) {
                    let word = u64::from(island) * 10 + number;
                    if (steps.call)(&core, word) {
                        if let Some(result) = (steps.wait)(&core) {
                            assert_eq!(result, word + 100, "another call's result");
                        }
                    } else {
                        thread.state.store(THREAD_READY, Ordering::Relaxed);
                        run_queue::hand_over(&core, thread);
                    }
                }
            }));
        }
        actors.push(Box::new(move || serve(&server, steps, u64::from(CALLERS) * CALLS_EACH)));
        together(actors);
    }
}

fn calls(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    calls_where(false, steps)
}

#[test]
fn every_call_is_done_once_and_its_result_reaches_who_called() {
    explore(1500, calls(RIGHT));
    explore(1500, calls_where(true, RIGHT));
}

#[test]
fn a_caller_that_polls_and_then_sleeps_is_rung() {
    explore(1500, calls(POLLING));
}

type Answer = fn(&Core, CoreId, u32) -> bool;

/// A function calls back, and is called to go on with what that gives, while another thread comes to its core.
fn call_back(answer: Answer) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        pool.header().uncached.set(1);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let [server, caller, third] = [CALLEE, 1, 2].map(|island| Core::new(pool, island, &bells));
        let other = objects.thread(callee());
        together(vec![
            Box::new(move || {
                let mut word = 1;
                for outcome in [Outcome::Calls, Outcome::Returned] {
                    let claim = loop {
                        match claim_callee(&caller) {
                            Some(claim) => break claim,
                            None => caller.relax(),
                        }
                    };
                    publish(&caller, claim, word, false);
                    word = loop {
                        caller.announce();
                        match direct::outcome(&caller, callee(), Reach::of(&caller)) {
                            Outcome::Runs => caller.sleep(),
                            found => {
                                assert_eq!(found, outcome);
                                break direct::reply_of(&caller, callee(), Reach::of(&caller))[5].get();
                            }
                        }
                    };
                    direct::release(&caller, callee(), Reach::of(&caller));
                }
                assert_eq!(word, 3);
            }),
            Box::new(move || {
                other.state.store(THREAD_READY, Ordering::Relaxed);
                run_queue::push(&third, other, callee());
            }),
            Box::new(move || {
                let mut left = 3;
                while left > 0 {
                    if run_queue::next(&server).is_some() {
                        left -= 1;
                        continue;
                    }
                    server.announce();
                    run_queue::begin_idle(&server, CORE_IDLE);
                    while left > 0 {
                        if run_queue::is_quiet(&server) {
                            server.sleep();
                        }
                        if woken(&server) == Wake::Look {
                            break;
                        }
                        let caller = direct::caller(&server).expect("a call says whose it is");
                        let word = word_of(&server, caller);
                        direct::reply(&server, caller, Reach::of(&server))[5].set(word + 1);
                        server.announce();
                        let kind = if word == 1 { CALL_BACK } else { CALL_RETURNED };
                        assert!(answer(&server, caller, kind), "nobody has marked it");
                        left -= 1;
                    }
                }
            }),
        ]);
    }
}

#[test]
fn a_function_that_calls_back_goes_on_with_the_answer() {
    explore(1500, call_back(|core, caller, kind| direct::answer(core, caller, kind, CORE_IDLE)));
}

#[test]
fn ringing_before_the_call_back_is_there_is_caught() {
    let answer: Answer = |core, caller, kind| {
        let own = core_record(core, core.core());
        own.state.store(CORE_IDLE, Ordering::SeqCst);
        core.ring(caller);
        core_record(core, caller).answer.store(kind, Ordering::SeqCst);
        true
    };
    must_be_caught(1500, call_back(answer));
}

/// As [`RIGHT`], looking for the end a few times before it sleeps.
const POLLING: Steps = Steps {
    call: |core, word| {
        let Some(claim) = direct::claim(core, callee(), Reach::of(core)) else { return false };
        publish(core, claim, word, true);
        true
    },
    wait: |core| {
        for _ in 0..2 {
            if direct::has_outcome(core, callee(), Reach::of(core)) {
                break;
            }
            core.relax();
        }
        direct::stop_polling(core, callee());
        wait_asleep(core)
    },
    ..RIGHT
};

#[test]
fn sleeping_without_saying_so_is_caught() {
    must_be_caught(1500, calls(Steps { wait: wait_asleep, ..POLLING }));
}

#[test]
fn ringing_before_the_result_is_there_is_caught() {
    let give_back = |core: &Core, caller| {
        let record = core_record(core, core.core());
        record.state.store(CORE_IDLE, Ordering::SeqCst);
        core.ring(caller);
        record.call.store(2 | u32::from(caller.0) << 8, Ordering::SeqCst);
    };
    must_be_caught(1500, calls(Steps { give_back, ..RIGHT }));
}

#[test]
fn announcing_sleep_twice_is_caught() {
    // The second time, the core may be claimed already.
    must_be_caught(1500, calls(Steps { is_quiet: |core| run_queue::begin_idle(core, CORE_IDLE), ..RIGHT }));
}

#[test]
fn claiming_a_core_whose_results_wait_is_caught() {
    let call = |core: &Core, word| {
        let record = core_record(core, callee());
        if record.state.compare_exchange(CORE_IDLE, CORE_CLAIMED, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        record.message[0].set(word);
        record.call.store(CALL_GIVEN | u32::from(core.core().0) << 8, Ordering::SeqCst);
        record.state.store(CORE_CALLED, Ordering::SeqCst);
        count(&core.counters().doorbells_rung);
        core.ring(callee());
        true
    };
    must_be_caught(1500, calls(Steps { call, ..RIGHT }));
}

type Disturb = fn(&Core, Pool, &'static ThreadRecord, &'static ThreadRecord);

/// A function that never ends by itself, and somebody on a third island who wants its thread or its core.
fn endless(disturb: Disturb, looks: bool, checks: bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let [server, caller, third] = [CALLEE, 1, 2].map(|island| Core::new(pool, island, &bells));
        let (thread, other) = (objects.thread(caller.core()), objects.thread(callee()));
        let raw = caller.raw(thread);
        together(vec![
            Box::new(move || {
                let Some(claim) = direct::claim(&caller, callee(), Reach::of(&caller)) else {
                    return run_queue::push(&caller, thread, callee());
                };
                claim.message(&caller).message[0].set(raw);
                claim.prepare(&caller, false);
                thread.core.store(u32::from(callee().0), Ordering::SeqCst);
                if checks && thread.attention.load(Ordering::SeqCst) != 0 {
                    claim.withdraw(&caller);
                    run_queue::push(&caller, thread, callee());
                } else {
                    claim.publish(&caller);
                }
            }),
            Box::new(move || disturb(&third, pool, thread, other)),
            Box::new(move || {
                let mut other_ran = false;
                loop {
                    match run_queue::next(&server) {
                        Some(found) if std::ptr::eq(found, thread) => return, // it looks at its attention word itself
                        Some(_) => {
                            other_ran = true;
                            continue;
                        }
                        None => {}
                    }
                    server.announce();
                    if run_queue::begin_idle(&server, CORE_IDLE) {
                        server.sleep();
                    }
                    if run_queue::end_idle(&server) == Wake::Called {
                        if !other_ran
                            && (!looks || !direct::is_disturbed(&server, direct::caller(&server), Reach::Coherent))
                        {
                            server.sleep(); // the function, until an interrupt
                        }
                        return direct::end_call(&server, direct::caller(&server), Reach::of(&server));
                    }
                }
            }),
        ]);
    }
}

/// What `handover::nudge` does.
fn nudge(core: &Core, pool: Pool, thread: &'static ThreadRecord, _: &'static ThreadRecord) {
    thread.attention.store(1, Ordering::SeqCst);
    let found = CoreId::from_raw(thread.core.load(Ordering::SeqCst)).expect("a core");
    let record = &pool.header().cores[found.index()];
    if direct::is_called(record) && record.message[0].get() == core.raw(thread) {
        direct::mark_attention(core, found);
        core.ring(found);
    }
}

/// Another thread becomes ready on the callee's core.
fn hand_another(core: &Core, _: Pool, _: &'static ThreadRecord, other: &'static ThreadRecord) {
    other.state.store(THREAD_READY, Ordering::Relaxed);
    run_queue::push(core, other, callee());
}

#[test]
fn who_wants_a_threads_attention_reaches_the_function_that_it_has_called() {
    explore(1500, endless(nudge, true, true));
}

#[test]
fn a_called_function_does_not_keep_a_thread_from_its_core() {
    explore(1500, endless(hand_another, true, true));
}

#[test]
fn running_a_function_without_a_look_is_caught() {
    must_be_caught(1500, endless(nudge, false, true));
    must_be_caught(1500, endless(hand_another, false, true));
}

#[test]
fn publishing_a_call_without_a_look_at_the_attention_word_is_caught() {
    must_be_caught(1500, endless(nudge, true, false));
}
