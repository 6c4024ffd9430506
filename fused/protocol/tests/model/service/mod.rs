//! The service core: threads on two cores ask, a device looks at their windows, kernels put threads to sleep and wake them. What threads are
//! told is what the specification (`../../service_support/spec.rs`) says of the order in which the device came by, and none sleeps for ever.

#[allow(dead_code)]
#[path = "../../service_support/spec.rs"]
mod spec;

mod kernel;
mod machine;
mod thread;

use std::sync::Arc;

use motet_layout::PoolAddr;
use motet_protocol::service::{Answer, Request};
use shuttle::rand::{Rng, thread_rng};

use crate::harness::{explore, must_be_caught, together};
use machine::Machine;
use spec::{Id, Spec};
use thread::Thread;

/// Where the core lies: in blocks that nobody allocates from.
const AT: PoolAddr = PoolAddr(4 << 20);
/// The threads, each of its own core and page, and who sets up.
const THREADS: [Id; 2] = [(0, 0), (1, 0)];
const FIRST: Id = (0, 1);
const OWNER: u32 = 7;

/// Steps of the protocol, as they are and otherwise.
#[derive(Clone, Copy)]
struct Steps {
    /// The core stores the answer, and then looks at `parked`.
    answers_first: bool,
    /// The core says whose answer is there.
    sets_bit: bool,
    /// The core compares a request with the one that it has served.
    serves_once: bool,
    /// A thread stores `parked`, and then looks at its answer once more.
    parks_first: bool,
    /// A kernel that clears `answered` of the core looks at all clients.
    looks_at_all: bool,
    /// A kernel clears the bits of pages, and then looks at these.
    clears_pages_first: bool,
    /// A kernel says who has died, and then that there is something to look at.
    attention_last: bool,
    /// The core says that a thread has lost its turn, or has one again, and then that there is something to look at.
    stops_first: bool,
    /// A kernel that clears `told` looks at `stopped` afterwards.
    clears_first: bool,
    /// A thread that has lost its turn enters the queue, and then looks once more whether it has.
    queues_first: bool,
    /// A kernel says that a thread sleeps, and then looks whether anybody wants its turn.
    sleeps_first: bool,
    /// A kernel says that a thread sleeps no longer, and then looks whether it has lost its turn.
    wakes_first: bool,
    /// The core says that a thread wants a turn, and then looks who sleeps.
    crowds_first: bool,
}

const ALL: Steps = Steps {
    answers_first: true,
    sets_bit: true,
    serves_once: true,
    parks_first: true,
    looks_at_all: true,
    clears_pages_first: true,
    attention_last: true,
    stops_first: true,
    clears_first: true,
    queues_first: true,
    sleeps_first: true,
    wakes_first: true,
    crowds_first: true,
};

/// What the threads do.
#[derive(Clone, Copy, Debug)]
enum Program {
    /// Lock, unlock, try.
    Mutex,
    /// Wait and signal.
    Condition,
    /// The same, and the wait has a time limit.
    TimeLimit,
    /// One dies with a mutex that the other one locks then.
    Death,
    Barrier,
    /// One slot for both.
    Turns,
    /// Likewise, and the one computes until the other one has run.
    Stop,
    /// Likewise, and the more urgent one waits in its kernel until the other one has run.
    Sleep,
}

const PROGRAMS: [Program; 7] = [
    Program::Mutex,
    Program::Condition,
    Program::TimeLimit,
    Program::Death,
    Program::Barrier,
    Program::Turns,
    Program::Stop,
];

#[derive(Clone, Copy)]
enum Event {
    Asked(Id, Request),
    Died(Id),
}

/// What the specification says of what the device came by: the answers that threads were to be told.
fn specified(events: &[Event]) -> [Vec<Answer>; 2] {
    let mut spec = Spec { mutexes_max: 2, barriers_max: 2, islands: 0xff, ..Spec::default() };
    for page in 0..2 {
        spec.pages.insert(page, (OWNER, page as u32));
        (0..2).for_each(|window| spec.allot((page, window)));
    }
    let mut last = std::collections::BTreeMap::new();
    for event in events {
        match *event {
            // What is served twice is asked for once.
            Event::Asked(id, request) if last.insert(id, request) != Some(request) => spec.ask(id, request),
            Event::Asked(..) => {}
            Event::Died(id) => spec.died(id),
        }
    }
    THREADS.map(|thread| {
        let said = spec.said.iter().filter(|(id, word)| *id == thread && Answer(*word).is_done());
        said.map(|(_, word)| Answer(*word)).collect()
    })
}

fn model(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    model_of(steps, &PROGRAMS)
}

fn model_of(steps: Steps, programs: &'static [Program]) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let program = programs[thread_rng().gen_range(0..programs.len())];
        let machine = Arc::new(Machine::new(steps, program));
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for at in 0..2 {
            let mut thread = Thread { machine: machine.clone(), at, number: 0 };
            actors.push(Box::new(move || thread.runs()));
            let kernel = machine.clone();
            actors.push(Box::new(move || kernel.kernel(at)));
        }
        let device = machine.clone();
        actors.push(Box::new(move || device.device()));
        together(actors);
        if matches!(program, Program::Sleep) {
            return; // of who sleeps the specification knows nothing
        }
        let said = specified(&machine.served.lock().expect("no panic"));
        for (told, said) in machine.told.iter().zip(said) {
            let told = told.lock().expect("no panic").clone();
            // What a thread waited for may have come before it withdrew: it is told so twice, and has looked once.
            let is_told = |answer: &Answer| told.contains(answer) || !matches!(program, Program::TimeLimit);
            let said: Vec<_> = said.into_iter().filter(is_told).collect();
            assert_eq!(told, said, "{program:?}: answers of no order");
        }
    }
}

#[test]
fn threads_are_told_what_the_specification_says_and_none_sleeps_for_ever() {
    explore(1500, model(ALL));
    explore(500, model_of(ALL, &[Program::Stop]));
    // An answer that is taken back because its thread loses its turn at once comes of one schedule in some ten thousand.
    explore(20000, model_of(ALL, &[Program::Sleep]));
}

#[test]
fn a_core_that_looks_whether_a_thread_sleeps_before_it_answers_is_caught() {
    must_be_caught(1500, model(Steps { answers_first: false, ..ALL }));
}

#[test]
fn a_core_that_does_not_say_whose_answer_is_there_is_caught() {
    must_be_caught(1500, model(Steps { sets_bit: false, ..ALL }));
}

#[test]
fn a_request_that_is_served_twice_is_caught() {
    must_be_caught(1500, model(Steps { serves_once: false, ..ALL }));
}

#[test]
fn a_thread_that_looks_before_it_says_that_it_sleeps_is_caught() {
    must_be_caught(1500, model(Steps { parks_first: false, ..ALL }));
}

#[test]
fn a_kernel_that_wakes_its_own_threads_alone_is_caught() {
    must_be_caught(1500, model(Steps { looks_at_all: false, ..ALL }));
}

#[test]
fn a_kernel_that_looks_at_pages_before_it_clears_their_bits_is_caught() {
    must_be_caught(5000, model(Steps { clears_pages_first: false, ..ALL }));
}

#[test]
fn attention_before_a_death_is_caught() {
    must_be_caught(1500, model(Steps { attention_last: false, ..ALL }));
}

#[test]
fn a_core_that_tells_of_a_turn_before_it_takes_it_is_caught() {
    must_be_caught(5000, model_of(Steps { stops_first: false, ..ALL }, &[Program::Stop]));
}

#[test]
fn a_kernel_that_looks_whose_turn_is_lost_before_it_clears_that_it_is_told_is_caught() {
    must_be_caught(5000, model_of(Steps { clears_first: false, ..ALL }, &[Program::Stop]));
}

#[test]
fn a_thread_that_looks_at_its_turn_before_it_can_be_woken_is_caught() {
    must_be_caught(5000, model_of(Steps { queues_first: false, ..ALL }, &[Program::Stop]));
}

#[test]
fn a_kernel_that_looks_who_wants_a_turn_before_it_says_that_a_thread_sleeps_is_caught() {
    must_be_caught(20000, model_of(Steps { sleeps_first: false, ..ALL }, &[Program::Sleep]));
}

#[test]
fn a_kernel_that_looks_whose_turn_is_lost_before_it_says_that_a_thread_is_awake_is_caught() {
    must_be_caught(20000, model_of(Steps { wakes_first: false, ..ALL }, &[Program::Sleep]));
}

#[test]
fn a_core_that_looks_who_sleeps_before_it_says_that_a_turn_is_wanted_is_caught() {
    must_be_caught(20000, model_of(Steps { crowds_first: false, ..ALL }, &[Program::Sleep]));
}
