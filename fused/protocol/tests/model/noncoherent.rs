//! Calls by stores alone: none is lost, or done twice, or done after it was withdrawn; results reach who called, whoever sleeps or polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use motet_layout::sync::Ordering;
use motet_layout::{
    CALL_RETURNED, CALL_WITHDRAWN, CORE_IDLE, CORE_POLLING, CallSlot, Cell64, CoreId, Pool, THREAD_READY, ThreadRecord,
};
use motet_protocol::cores::core_record;
use motet_protocol::direct::{self, Outcome, Reach};
use motet_protocol::{Context, message, noncoherent, run_queue};
use shuttle::rand::Rng;

use crate::direct::{CALLEE, callee, word_of};
use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, together};

const CALLERS: u8 = 2;
const CALLS_EACH: usize = 2;
const JOBS: usize = CALLERS as usize * CALLS_EACH;
/// How often a core that polls looks before it sleeps.
const LOOKS: usize = 2;

/// How often each call's function has run.
type Ran = Arc<[AtomicU32; JOBS]>;

/// The steps of the protocol that twins get wrong.
#[derive(Clone, Copy)]
pub struct Steps {
    /// Where a call is written.
    pub out: fn(&Core, &'static CallSlot) -> &'static Cell64,
    /// Asks for the call that has been written.
    pub ask: fn(&Core),
    /// Answers a call with its result.
    pub answer: fn(&Core, CoreId, u64, u32),
    /// Gives back the calls that are withdrawn.
    pub give_back: fn(&Core),
    /// This core is to be rung from now on.
    pub look_no_longer: fn(&Core),
    /// Whether it looks once more after that.
    pub looks_once_more: bool,
    /// Whether who has withdrawn a call waits for its answer.
    pub waits: bool,
    /// The call that was withdrawn has been answered.
    pub end_withdrawal: fn(&Core),
}

pub const RIGHT: Steps = Steps {
    out: |_, slot| &slot.message[0],
    ask: |core| noncoherent::ask(core, callee()),
    answer: |core, caller, result, state| {
        direct::reply(core, caller, Reach::Noncoherent)[5].set(result);
        assert!(direct::answer(core, caller, CALL_RETURNED, state), "nobody has marked it");
    },
    give_back: |core| noncoherent::give_back_withdrawn(core),
    look_no_longer: |core| noncoherent::look_no_longer(core),
    looks_once_more: true,
    waits: true,
    end_withdrawal: |core| noncoherent::end_withdrawal(core, callee()),
};

/// A core that is idle until `is_done`, or has a call, or a thread comes.
pub fn idle(core: &Core, steps: Steps, polls: bool, announce: bool, is_done: impl Fn() -> bool) -> Option<CoreId> {
    if polls {
        noncoherent::look_again(core);
    }
    if announce {
        core.announce();
        run_queue::begin_idle(core, if polls { CORE_POLLING } else { CORE_IDLE });
    }
    let mut is_quiet = run_queue::is_quiet(core) && !is_done();
    if polls && is_quiet {
        for _ in 0..LOOKS {
            is_quiet = is_quiet && !noncoherent::is_asked(core) && !is_done();
            core.relax();
        }
        if is_quiet {
            (steps.look_no_longer)(core);
            is_quiet = run_queue::poll_to_sleep(core) && !is_done() || !steps.looks_once_more;
        }
    }
    if is_quiet {
        core.sleep();
    }
    (steps.give_back)(core);
    run_queue::end_idle_noncoherent(core, usize::from(CALLEE))
}

/// Runs calls and threads until there have been as many as there are calls: one that is withdrawn comes as a thread.
fn serve(core: &Core, steps: Steps, polls: bool, ran: &Ran) {
    let (mut done, mut announce) = (0, true);
    while done < JOBS {
        if let Some(caller) = idle(core, steps, polls, announce, || false) {
            let word = word_of(core, caller);
            let index = usize::try_from(word).expect("a small number");
            ran[index].fetch_add(1, Relaxed);
            done += 1;
            core.announce();
            (steps.answer)(core, caller, word + 100, if polls { CORE_POLLING } else { CORE_IDLE });
            announce = false;
            continue;
        }
        announce = true;
        while run_queue::next(core).is_some() {
            done += 1;
            (steps.give_back)(core);
        }
    }
}

/// Calls, and perhaps gives up. `false`: the call was withdrawn.
fn call(core: &Core, steps: Steps, polls: bool, word: u64) -> bool {
    let slot = noncoherent::reserve(core, callee()).expect("nobody else of this island calls");
    (steps.out)(core, slot).set(word);
    (steps.ask)(core);
    let patience = shuttle::rand::thread_rng().gen_range(0..6);
    let (mut withdrawn, mut looks) = (false, 0);
    let outcome = loop {
        match direct::outcome(core, callee(), Reach::Noncoherent) {
            Outcome::Runs => {}
            found => break found,
        }
        looks += 1;
        if looks > patience && !withdrawn && !direct::is_taken(core) {
            noncoherent::withdraw(core, callee());
            withdrawn = true;
            if !steps.waits {
                break Outcome::Withdrawn;
            }
        }
        if patience < 3 && !withdrawn {
            core.relax();
            continue;
        }
        let found = idle(core, steps, polls, true, || direct::has_outcome(core, callee(), Reach::Noncoherent));
        assert!(found.is_none(), "nobody calls this core");
    };
    let result = direct::reply_of(core, callee(), Reach::Noncoherent)[5].get();
    if withdrawn {
        (steps.end_withdrawal)(core);
    }
    direct::release(core, callee(), Reach::Noncoherent);
    match outcome {
        Outcome::Returned => assert_eq!(result, word + 100, "another call's result"),
        Outcome::Withdrawn => assert!(withdrawn, "a call is given back that nobody wants back"),
        found => panic!("{found:?}"),
    }
    outcome == Outcome::Returned
}

/// A core with an engine; `None`: the usual one.
fn new_core(pool: Pool, island: u8, bells: &Arc<Bells>, engine: Option<fn(&Core, CoreId)>) -> Core {
    let mut core = Core::new(pool, island, bells);
    core.engine = engine.unwrap_or(core.engine);
    core
}

/// Two islands call functions of one core, and give up sometimes: then the thread goes there.
pub fn calls(
    steps: Steps,
    engine: Option<fn(&Core, CoreId)>,
    polls: bool,
) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        pool.header().uncached.set(1);
        for island in &pool.header().islands {
            island.poll_ns.set(u64::from(polls));
        }
        let objects = Objects::new(pool, base);
        let (bells, ran) = (Arc::new(Bells::default()), Ran::default());
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for island in 1..=CALLERS {
            let (core, ran) = (new_core(pool, island, &bells, engine), ran.clone());
            let threads: Vec<_> = (0..CALLS_EACH).map(|_| objects.thread(callee())).collect();
            actors.push(Box::new(move || {
                for (number, thread) in threads.into_iter().enumerate() {
                    let index = (usize::from(island) - 1) * CALLS_EACH + number;
                    let has_run = call(&core, steps, polls, index as u64);
                    assert_eq!(ran[index].load(Relaxed), u32::from(has_run), "how often the function has run");
                    if !has_run {
                        thread.state.store(THREAD_READY, Ordering::Relaxed);
                        run_queue::hand_over(&core, thread);
                    }
                }
            }));
        }
        let (server, has_run) = (new_core(pool, CALLEE, &bells, engine), ran.clone());
        actors.push(Box::new(move || serve(&server, steps, polls, &has_run)));
        together(actors);
        assert!(ran.iter().all(|ran| ran.load(Relaxed) <= 1), "a function has run twice");
    }
}

#[test]
fn every_call_is_done_once_or_withdrawn() {
    explore(1500, calls(RIGHT, None, false));
}

#[test]
fn cores_that_poll_and_then_sleep_are_rung() {
    explore(1500, calls(RIGHT, None, true));
}

#[test]
fn taking_a_call_that_was_given_back_is_caught() {
    let give_back = |core: &Core| {
        for slot in &core.own_record().calls {
            if let Some(message::CallState::Given(caller)) = message::CallState::of(slot.request.load(Ordering::SeqCst))
                && slot.withdrawn.load(Ordering::SeqCst) != 0
            {
                core_record(core, caller).answer.store(CALL_WITHDRAWN, Ordering::SeqCst);
                core.ring(caller);
                slot.request.store(0, Ordering::SeqCst); // too late: the caller may have asked again
            }
        }
    };
    must_be_caught(3000, calls(Steps { give_back, ..RIGHT }, None, false));
}

#[test]
fn looking_for_the_flag_before_the_request_is_caught() {
    let give_back = |core: &Core| {
        for slot in &core.own_record().calls {
            if slot.withdrawn.load(Ordering::SeqCst) == 0 {
                continue;
            }
            (0..10).for_each(|_| core.relax()); // seldom, but the caller may get as far as to its next call
            if let Some(message::CallState::Given(caller)) = message::CallState::of(slot.request.load(Ordering::SeqCst))
            {
                slot.request.store(0, Ordering::SeqCst);
                core_record(core, caller).answer.store(CALL_WITHDRAWN, Ordering::SeqCst);
                core.ring(caller);
            }
        }
    };
    must_be_caught(5000, calls(Steps { give_back, ..RIGHT }, None, false));
}

#[test]
fn using_a_slot_again_that_was_only_asked_to_be_given_back_is_caught() {
    must_be_caught(1500, calls(Steps { waits: false, ..RIGHT }, None, false));
}

#[test]
fn leaving_the_flag_for_the_next_call_is_caught() {
    must_be_caught(1500, calls(Steps { end_withdrawal: |_| (), ..RIGHT }, None, false));
}

#[test]
fn answering_before_the_result_is_there_is_caught() {
    let answer = |core: &Core, caller, result, state| {
        assert!(direct::answer(core, caller, CALL_RETURNED, state), "nobody has marked it");
        direct::reply(core, caller, Reach::Noncoherent)[5].set(result);
    };
    must_be_caught(1500, calls(Steps { answer, ..RIGHT }, None, false));
}

#[test]
fn looking_whom_to_ring_before_asking_is_caught() {
    let ask = |core: &Core| {
        noncoherent::tell(core, callee());
        (0..10).for_each(|_| core.relax()); // seldom, but the callee may fall asleep meanwhile
        let request = message::CallState::Given(core.core()).word();
        noncoherent::slot(core, callee(), core.core().island()).request.store(request, Ordering::SeqCst);
    };
    must_be_caught(3000, calls(Steps { ask, ..RIGHT }, None, true));
}

#[test]
fn sleeping_without_another_look_is_caught() {
    must_be_caught(3000, calls(Steps { looks_once_more: false, ..RIGHT }, None, true));
}

#[test]
fn sleeping_without_saying_so_is_caught() {
    must_be_caught(1500, calls(Steps { look_no_longer: |_| (), ..RIGHT }, None, true));
}

/// What is done about a call of a function that never ends by itself.
#[derive(Clone, Copy)]
pub struct Endless {
    /// How it is written and asked for.
    pub steps: Steps,
    /// Whether the called core looks whether it is disturbed before it runs the function.
    pub looks: bool,
    /// Whether the caller looks at the attention word before it asks.
    pub checks: bool,
    /// Whether somebody who wants the thread looks for calls that are under way, too.
    pub finds_departing: bool,
}

impl Endless {
    const RIGHT: Self = Self { steps: RIGHT, looks: true, checks: true, finds_departing: false };
}

/// A function that never ends by itself, and somebody on a third island who wants its thread.
pub fn endless(call: Endless) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        pool.header().uncached.set(1);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let [server, caller, third] = [CALLEE, 1, 2].map(|island| Core::new(pool, island, &bells));
        let thread = objects.thread(caller.core());
        together(vec![
            Box::new(move || call_endless(&caller, thread, call)),
            Box::new(move || nudge(&third, thread, call.finds_departing)),
            Box::new(move || {
                loop {
                    if run_queue::next(&server).is_some() {
                        return; // it looks at its attention word itself
                    }
                    let Some(caller) = idle(&server, RIGHT, false, true, || false) else { continue };
                    if !call.looks || !direct::is_disturbed(&server, Some(caller), Reach::Noncoherent) {
                        server.sleep(); // the function, until an interrupt
                    }
                    return direct::end_call(&server, Some(caller), Reach::Noncoherent);
                }
            }),
        ]);
    }
}

fn call_endless(caller: &Core, thread: &'static ThreadRecord, call: Endless) {
    let slot = noncoherent::reserve(caller, callee()).expect("it is free");
    (call.steps.out)(caller, slot).set(caller.raw(thread));
    thread.core.store(u32::from(callee().0), Ordering::SeqCst);
    if call.checks && thread.attention.load(Ordering::SeqCst) != 0 {
        noncoherent::free(caller, callee());
        run_queue::push(caller, thread, callee());
    } else {
        (call.steps.ask)(caller);
    }
}

/// What `handover::nudge` does.
fn nudge(core: &Core, thread: &'static ThreadRecord, finds_departing: bool) {
    thread.attention.store(1, Ordering::SeqCst);
    let found = CoreId::from_raw(thread.core.load(Ordering::SeqCst)).expect("a core");
    let is_it = |word| word == core.raw(thread);
    let arrived = core_record(core, found).calls.iter().find(|slot| is_it(slot.message[0].get()));
    let slot = arrived.or_else(|| if finds_departing { noncoherent::departing(core, found, is_it) } else { None });
    if let Some(slot) = slot {
        noncoherent::mark_attention(slot);
        core.ring(found);
    }
}

#[test]
fn who_wants_a_threads_attention_reaches_the_function_that_it_has_called() {
    explore(1500, endless(Endless::RIGHT));
}

#[test]
fn running_a_function_without_a_look_is_caught() {
    must_be_caught(1500, endless(Endless { looks: false, ..Endless::RIGHT }));
}

#[test]
fn asking_without_a_look_at_the_attention_word_is_caught() {
    must_be_caught(1500, endless(Endless { checks: false, ..Endless::RIGHT }));
}
