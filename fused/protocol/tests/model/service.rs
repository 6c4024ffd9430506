//! The service core: threads on two cores ask, a device looks at their windows, kernels put threads to sleep and wake them. What threads are
//! told is what the specification (`../service_support/spec.rs`) says of the order in which the device came by, and none sleeps for ever.

#[allow(dead_code)]
#[path = "../service_support/spec.rs"]
mod spec;

use std::sync::Arc;
use std::sync::Mutex as Ghost;
use std::sync::atomic::AtomicUsize;

use motet_layout::sync::Ordering::SeqCst;
use motet_layout::{PoolAddr, SERVICE_USED, ServiceClient, ServiceCore, ServiceWindow};
use motet_protocol::service::{Answer, Code, Device, KILLED, Operation, Operation::*, Request, ThreadIndex, clients};
use shuttle::rand::{Rng, thread_rng};
use spec::{Id, Spec};

use crate::harness::{Bell, explore, fresh_pool, must_be_caught, point, quietly, together};

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

struct Machine {
    core: &'static ServiceCore,
    steps: Steps,
    program: Program,
    /// Doorbells of cores; who sleeps in `futex`; what makes the device look again.
    cores: [Bell; 2],
    sleepers: [Bell; 2],
    device: Bell,
    /// What the device came by, in its order; what threads were told.
    served: Ghost<Vec<Event>>,
    told: [Ghost<Vec<Answer>>; 2],
    over: AtomicUsize,
    /// Threads in what only one may be in.
    inside: AtomicUsize,
    is_ready: AtomicUsize,
    turn: Turn,
}

/// The thread that computes.
#[derive(Default)]
struct Turn {
    /// Its kernel has it look, or there is something for it to see.
    interrupt: Bell,
    /// It is to look whether it has lost its turn; it is in the queue; and who is woken there.
    attention: AtomicUsize,
    is_queued: AtomicUsize,
    queue: Bell,
    /// What the other one waits for: it computes, it has stopped.
    computes: Bell,
    stands: Bell,
    /// It has its turn again after a system call in which it has waited.
    goes_on: Bell,
}

impl Machine {
    fn new(steps: Steps, program: Program) -> Self {
        let (pool, _) = fresh_pool(2);
        quietly(|| pool.zero(AT, size_of::<ServiceCore>()));
        let core = pool.at::<ServiceCore>(AT);
        quietly(|| {
            [&core.mutexes, &core.barriers, &core.clients].iter().for_each(|word| word.set(2));
            for (page, client) in core.control[..2].iter().enumerate() {
                client.owner.set(OWNER);
                client.core.set(page as u32);
                client.windows.store(0b11, SeqCst);
                client.state.store(SERVICE_USED, SeqCst);
            }
        });
        let machine = Self {
            core,
            steps,
            program,
            cores: Default::default(),
            sleepers: Default::default(),
            device: Bell::default(),
            served: Ghost::default(),
            told: Default::default(),
            over: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            is_ready: AtomicUsize::new(0),
            turn: Turn::default(),
        };
        quietly(|| machine.set_up());
        machine
    }

    /// What is there before the threads begin.
    fn set_up(&self) {
        let mut asks = vec![(MutexCreate, 0, 0), (ConditionCreate, 0, 0), (BarrierCreate, 0, 2), (Slots, 0, 1)];
        match self.program {
            Program::Death => asks.push((Create, 32, 1 << 8)),
            Program::Turns => asks.extend([(Create, 0, 1 << 8), (Create, 32, 1 << 8)]),
            Program::Sleep => asks.extend([(Create, 0, 1 | 1 << 8), (Create, 32, 5 | 1 << 8)]),
            Program::Stop => asks.extend([(Create, 0, 5 | 1 << 8), (Create, 32, 1 | 1 << 8)]),
            _ => {}
        }
        for (number, (operation, object, argument)) in (1..).zip(asks) {
            self.window(FIRST).request.store(Request::new(number, operation, object, argument).0, SeqCst);
            self.serve(FIRST);
        }
    }

    fn window(&self, (page, window): Id) -> &'static ServiceWindow {
        &self.core.pages[page].windows[window]
    }

    fn client(&self, id: Id) -> &'static ServiceClient {
        &self.core.control[id.0]
    }
}

/// The device.
impl Machine {
    fn device(&self) {
        while self.over.load(SeqCst) < THREADS.len() {
            self.control();
            let first = thread_rng().gen_range(0..2);
            for at in [first, 1 - first] {
                self.serve(THREADS[at]);
            }
            self.device.sleep();
        }
    }

    fn serve(&self, id: Id) {
        let index = ThreadIndex::new(id.0, id.1).expect("there is this window");
        let record = &self.core.threads[id.0 * 32 + id.1];
        if !self.steps.serves_once {
            quietly(|| record.served.set(0));
        }
        let mut device = Device::new(self.core, 0);
        if !self.steps.answers_first {
            return self.serve_who_parked_before(id, &mut device, index);
        }
        let stopped = quietly(|| self.core.control[0].stopped.load(SeqCst));
        let crowded = quietly(|| self.core.crowded.load(SeqCst));
        let by_steps = self.steps.stops_first && self.steps.crowds_first;
        let is_served = if by_steps { device.serve(index) } else { quietly(|| device.serve(index)) };
        if !self.steps.crowds_first {
            let now = quietly(|| self.core.crowded.swap(crowded, SeqCst));
            self.core.crowded.store(now, SeqCst);
        }
        let stops = quietly(|| self.core.control[0].stopped.load(SeqCst));
        if !self.steps.stops_first {
            quietly(|| self.core.control[0].stopped.store(stopped, SeqCst));
        }
        if is_served {
            let request = quietly(|| Request(record.served.get()));
            self.served.lock().expect("no panic").push(Event::Asked(id, request));
        }
        if !self.steps.sets_bit {
            quietly(|| self.core.control.iter().for_each(|client| client.answered.store(0, SeqCst)));
        }
        device.rings().for_each(|core| self.cores[usize::from(core.0)].ring());
        if !self.steps.stops_first {
            self.core.control[0].stopped.store(stops, SeqCst);
        }
    }

    /// Looks at `parked`, then stores answers.
    fn serve_who_parked_before(&self, id: Id, device: &mut Device, index: ThreadIndex) {
        let parked = THREADS.map(|id| self.window(id).parked.load(SeqCst));
        point();
        let answered = quietly(|| {
            let (now, before) = (THREADS.map(|id| self.window(id).parked.swap(0, SeqCst)), self.answers());
            if device.serve(index) {
                let request = Request(self.core.threads[id.0 * 32 + id.1].served.get());
                self.served.lock().expect("no panic").push(Event::Asked(id, request));
            }
            THREADS.iter().zip(now).for_each(|(id, parked)| self.window(*id).parked.store(parked, SeqCst));
            let after = self.answers();
            [0, 1].map(|at| before[at] != after[at] && after[at].is_done())
        });
        for at in (0..2).filter(|at| answered[*at] && parked[*at] != 0) {
            self.client(THREADS[at]).answered.fetch_or(1, SeqCst);
            self.core.heard_of[0].fetch_or(1 << THREADS[at].0, SeqCst);
            self.core.answered.store(1, SeqCst);
            self.cores[at].ring();
        }
    }

    fn answers(&self) -> [Answer; 2] {
        THREADS.map(|id| Answer(self.window(id).answer.load(SeqCst)))
    }

    fn control(&self) {
        let is_over = || {
            quietly(|| {
                THREADS.map(|id| {
                    self.core.threads[id.0 * 32].state.get() == 5 || self.client(id).windows.load(SeqCst) & 1 == 0
                })
            })
        };
        let (mut device, before) = (Device::new(self.core, 0), is_over());
        device.control();
        for (at, over) in is_over().into_iter().enumerate() {
            if over && !before[at] {
                self.served.lock().expect("no panic").push(Event::Died(THREADS[at]));
            }
        }
        device.rings().for_each(|core| self.cores[usize::from(core.0)].ring());
    }
}

/// A kernel: whoever has an answer wakes.
impl Machine {
    fn kernel(&self, own: usize) {
        while self.over.load(SeqCst) < THREADS.len() {
            self.cores[own].sleep();
            if self.core.answered.load(SeqCst) == 0 {
                continue;
            }
            self.core.answered.store(0, SeqCst);
            let all = self.core.heard_of[0].load(SeqCst);
            let pages = if self.steps.looks_at_all { all } else { all & 1 << THREADS[own].0 };
            if self.steps.clears_pages_first {
                self.core.heard_of[0].fetch_and(!pages, SeqCst);
            }
            for at in (0..2).filter(|at| pages >> THREADS[*at].0 & 1 != 0) {
                if self.client(THREADS[at]).answered.swap(0, SeqCst) & 1 != 0 {
                    self.sleepers[at].ring();
                }
            }
            if pages >> THREADS[0].0 & 1 != 0 {
                self.hears_of_turn();
            }
            if !self.steps.clears_pages_first {
                self.core.heard_of[0].fetch_and(!pages, SeqCst);
            }
        }
    }

    /// The one thread that can lose its turn may have.
    fn hears_of_turn(&self) {
        let (client, turn) = (self.client(THREADS[0]), &self.turn);
        let seen_before = !self.steps.clears_first && self.has_lost_turn();
        if !self.steps.clears_first {
            // Much has to happen in between.
            (0..30).for_each(|_| point());
        }
        if client.told.swap(0, SeqCst) & 1 == 0 {
            return;
        }
        if if self.steps.clears_first { self.has_lost_turn() } else { seen_before } {
            turn.attention.store(1, SeqCst);
            turn.interrupt.ring();
        } else if turn.is_queued.swap(0, SeqCst) != 0 {
            turn.queue.ring();
        }
    }

    fn has_lost_turn(&self) -> bool {
        self.client(THREADS[0]).stopped.load(SeqCst) & 1 != 0
    }

    /// The thread that computes has been interrupted: it goes on when it has its turn.
    fn attends(&self) {
        let turn = &self.turn;
        while turn.attention.swap(0, SeqCst) != 0 && self.has_lost_turn() {
            if !self.steps.queues_first {
                // Much has to happen in between.
                (0..30).for_each(|_| point());
            }
            turn.is_queued.store(1, SeqCst);
            if self.steps.queues_first && !self.has_lost_turn() {
                turn.is_queued.store(0, SeqCst);
                return;
            }
            turn.stands.ring();
            turn.queue.sleep();
            turn.attention.store(1, SeqCst);
        }
    }

    /// A thread waits in a system call for what the core knows nothing of, and then for its turn.
    fn waits_in_call(&self) {
        let (thread, client) = (ThreadIndex::new(0, 0).expect("a window"), self.client(THREADS[0]));
        let tells = match self.steps.sleeps_first {
            true => clients::sleeps(self.core, thread),
            false => {
                let is_crowded = self.core.crowded.load(SeqCst) != 0;
                // Much has to happen in between.
                (0..30).for_each(|_| point());
                client.asleep.fetch_or(1, SeqCst);
                is_crowded && self.has_changed(client)
            }
        };
        if tells {
            self.device.ring();
        }
        // What it waits for may also come of something else.
        let waits_for_other = thread_rng().r#gen::<bool>();
        while waits_for_other && self.is_ready.load(SeqCst) == 0 {
            self.turn.interrupt.sleep();
        }
        let tells = match self.steps.wakes_first {
            true => clients::wakes(self.core, thread),
            false => {
                let has_lost = self.has_lost_turn();
                (0..30).for_each(|_| point());
                client.asleep.fetch_and(!1, SeqCst);
                has_lost && self.has_changed(client)
            }
        };
        if tells {
            self.device.ring();
        }
        self.turn.attention.store(1, SeqCst);
        self.attends();
        self.turn.goes_on.ring();
    }

    fn has_changed(&self, client: &ServiceClient) -> bool {
        client.changed.fetch_or(1, SeqCst);
        self.core.attention.store(1, SeqCst);
        true
    }

    /// A thread sleeps until its answer is not `seen` any more.
    fn futex(&self, at: usize, seen: Answer) {
        let window = self.window(THREADS[at]);
        let has_changed = || window.answer.load(SeqCst) != seen.0;
        let changed_before = has_changed();
        window.parked.store(1, SeqCst);
        if !(if self.steps.parks_first { has_changed() } else { changed_before }) {
            self.sleepers[at].sleep();
        }
        window.parked.store(0, SeqCst);
    }

    fn dies(&self, at: usize) {
        let client = self.client(THREADS[at]);
        if !self.steps.attention_last {
            self.core.attention.store(1, SeqCst);
            self.device.ring();
        }
        client.died.fetch_or(1, SeqCst);
        if self.steps.attention_last {
            self.core.attention.store(1, SeqCst);
        }
        self.device.ring();
    }
}

/// A thread.
struct Thread {
    machine: Arc<Machine>,
    at: usize,
    number: u8,
}

impl Thread {
    fn stores(&mut self, operation: Operation, object: u16, argument: u32) {
        self.number += 1;
        let request = Request::new(self.number, operation, object, argument);
        self.machine.window(THREADS[self.at]).request.store(request.0, SeqCst);
        // The device looks all the time; here it need not when there is nothing.
        self.machine.device.ring();
    }

    fn has(&self) -> Answer {
        Answer(self.machine.window(THREADS[self.at]).answer.load(SeqCst))
    }

    fn awaits(&self) -> Answer {
        loop {
            let answer = self.has();
            if answer.sequence() == self.number && answer.is_done() {
                return answer;
            }
            self.machine.futex(self.at, answer);
        }
    }

    fn asks(&mut self, operation: Operation, object: u16, argument: u32) -> Answer {
        self.stores(operation, object, argument);
        self.is_told()
    }

    fn is_told(&self) -> Answer {
        let answer = self.awaits();
        self.machine.told[self.at].lock().expect("no panic").push(answer);
        answer
    }

    fn enters(&self) {
        assert_eq!(self.machine.inside.fetch_add(1, SeqCst), 0, "two are in what only one may be in");
        point();
    }

    fn leaves(&self) {
        self.machine.inside.fetch_sub(1, SeqCst);
    }

    fn lock(&mut self) {
        self.asks(Lock, 0, 0);
        self.enters();
    }

    fn unlock(&mut self) {
        self.leaves();
        self.asks(Unlock, 0, 0);
    }

    fn runs(&mut self) {
        match (self.machine.program, self.at) {
            (Program::Mutex, _) => {
                self.lock();
                self.unlock();
                if self.asks(TryLock, 0, 0).code() == Code::Ok as u16 {
                    self.enters();
                    self.unlock();
                }
            }
            (Program::Condition, 0) => self.waits_until_ready(),
            (Program::Condition, _) => self.says_ready(),
            (Program::TimeLimit, 0) => self.waits_no_longer(),
            (Program::TimeLimit, _) => self.says_ready(),
            (Program::Death, 0) => {
                assert_eq!(self.asks(Join, 32, 0).value(), KILLED);
                assert_eq!(self.asks(Lock, 0, 0).code(), Code::OwnerDead as u16);
                self.asks(Unlock, 0, 0);
            }
            (Program::Death, _) => {
                self.asks(Start, 0, 0);
                self.asks(Lock, 0, 0);
                self.machine.dies(self.at);
            }
            (Program::Barrier, _) => {
                for _ in 0..3 {
                    self.asks(BarrierWait, 0, 0);
                }
            }
            (Program::Turns, _) => {
                self.asks(Start, 0, 0);
                self.enters();
                self.leaves();
                self.asks(Yield, 0, 0);
                self.enters();
                self.leaves();
                self.asks(Exit, 0, 1);
            }
            (Program::Stop, 0) => {
                self.asks(Start, 0, 0);
                self.machine.turn.computes.ring();
                // It asks for nothing until it is told to by memory that they share.
                while self.machine.is_ready.load(SeqCst) == 0 {
                    self.machine.turn.interrupt.sleep();
                    self.machine.attends();
                }
                self.asks(Exit, 0, 1);
            }
            (Program::Sleep, 0) => {
                self.asks(Start, 0, 0);
                self.machine.turn.computes.ring();
                self.machine.waits_in_call();
                self.asks(Exit, 0, 1);
            }
            (Program::Sleep, _) => {
                self.machine.turn.computes.sleep();
                self.asks(Start, 0, 0);
                self.machine.is_ready.store(1, SeqCst);
                self.machine.turn.interrupt.ring();
                // It asks for nothing meanwhile.
                self.machine.turn.goes_on.sleep();
                self.asks(Exit, 0, 1);
            }
            (Program::Stop, _) => {
                self.machine.turn.computes.sleep();
                self.asks(Start, 0, 0);
                // It may also have run before the other one's kernel gets to it.
                if thread_rng().r#gen() {
                    self.machine.turn.stands.sleep();
                }
                self.machine.is_ready.store(1, SeqCst);
                self.machine.turn.interrupt.ring();
                self.asks(Exit, 0, 1);
            }
        }
        self.machine.over.fetch_add(1, SeqCst);
        self.machine.device.ring();
        self.machine.cores.iter().for_each(Bell::ring);
    }

    fn waits_until_ready(&mut self) {
        self.lock();
        while self.machine.is_ready.load(SeqCst) == 0 {
            self.leaves();
            self.asks(ConditionWait, 0, 0);
            self.enters();
        }
        self.unlock();
    }

    fn says_ready(&mut self) {
        self.lock();
        self.machine.is_ready.store(1, SeqCst);
        self.asks(Signal, 0, 0);
        self.unlock();
    }

    fn waits_no_longer(&mut self) {
        self.lock();
        self.leaves();
        self.stores(ConditionWait, 0, 0);
        // The limit is up as soon as it is to wait. Nobody wakes it to tell it that.
        while self.has().sequence() != self.number {
            shuttle::thread::yield_now();
        }
        if self.has().is_wait() {
            self.stores(Withdraw, 0, 0);
        }
        self.is_told();
        self.enters();
        self.unlock();
    }
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
