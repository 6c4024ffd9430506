//! The machine of the model, and its device.

use std::sync::Mutex as Ghost;
use std::sync::atomic::AtomicUsize;

use motet_layout::sync::Ordering::SeqCst;
use motet_layout::{SERVICE_USED, ServiceClient, ServiceCore, ServiceWindow};
use motet_protocol::service::{Answer, Device, Operation::*, Request, ThreadIndex};
use shuttle::rand::{Rng, thread_rng};

use super::spec::Id;
use super::{AT, Event, FIRST, OWNER, Program, Steps, THREADS};
use crate::harness::{Bell, fresh_pool, point, quietly};

pub struct Machine {
    pub core: &'static ServiceCore,
    pub steps: Steps,
    pub program: Program,
    /// Doorbells of cores; who sleeps in `futex`; what makes the device look again.
    pub cores: [Bell; 2],
    pub sleepers: [Bell; 2],
    pub device: Bell,
    /// What the device came by, in its order; what threads were told.
    pub served: Ghost<Vec<Event>>,
    pub told: [Ghost<Vec<Answer>>; 2],
    pub over: AtomicUsize,
    /// Threads in what only one may be in.
    pub inside: AtomicUsize,
    pub is_ready: AtomicUsize,
    pub turn: Turn,
}

/// The thread that computes.
#[derive(Default)]
pub struct Turn {
    /// Its kernel has it look, or there is something for it to see.
    pub interrupt: Bell,
    /// It is to look whether it has lost its turn; it is in the queue; and who is woken there.
    pub attention: AtomicUsize,
    pub is_queued: AtomicUsize,
    pub queue: Bell,
    /// What the other one waits for: it computes, it has stopped.
    pub computes: Bell,
    pub stands: Bell,
    /// It has its turn again after a system call in which it has waited.
    pub goes_on: Bell,
}

impl Machine {
    pub fn new(steps: Steps, program: Program) -> Self {
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

    pub fn window(&self, (page, window): Id) -> &'static ServiceWindow {
        &self.core.pages[page].windows[window]
    }

    pub fn client(&self, id: Id) -> &'static ServiceClient {
        &self.core.control[id.0]
    }
}

/// The device.
impl Machine {
    pub fn device(&self) {
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
