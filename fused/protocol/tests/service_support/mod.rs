//! A service core in ordinary memory, and how kernels and threads use it.

pub mod spec;

use motet_layout::sync::Ordering::SeqCst;
use motet_layout::{CoreId, Pool, PoolAddr, SERVICE_LEFT, SERVICE_USED, ServiceCore, ServiceThread, ServiceWindow};
use motet_protocol::Context;
use motet_protocol::service::{Answer, Device, Operation, Request, ThreadIndex};

use crate::files_support::Actor;
use spec::Id;

/// Where the core lies: behind what the pool is formatted with.
const AT: PoolAddr = PoolAddr(16 << 20);

pub const MUTEXES: usize = 4;
pub const BARRIERS: usize = 2;
pub const PAGES: usize = 6;
/// Islands of the machine, a bit each.
pub const ISLANDS: u32 = 0b11;

/// The pool that the core lies in.
pub fn pool() -> Pool {
    ACTOR.with(|actor| actor.pool())
}

thread_local! {
    static ACTOR: Actor = Actor::new(32 << 20);
}

/// Whose pool the core lies in.
pub fn actor() -> Actor {
    ACTOR.with(|actor| *actor)
}

pub struct Machine {
    pub core: &'static ServiceCore,
    /// Cores that were rung last.
    pub rung: Vec<CoreId>,
}

impl Machine {
    /// An empty core. A test's thread has one at a time.
    pub fn new() -> Self {
        let pool = pool();
        pool.zero(AT, size_of::<ServiceCore>());
        let core = pool.at::<ServiceCore>(AT);
        core.mutexes.set(MUTEXES as u32);
        core.barriers.set(BARRIERS as u32);
        core.clients.set(PAGES as u32);
        core.islands.set(ISLANDS);
        Self { core, rung: Vec::new() }
    }

    /// With a page of the process 7 and two windows that have threads.
    pub fn with_two() -> (Self, Id, Id) {
        let machine = Self::new();
        machine.use_page(0, 7, 0);
        machine.allot((0, 0));
        machine.allot((0, 1));
        (machine, (0, 0), (0, 1))
    }

    pub fn use_page(&self, page: usize, owner: u32, core: u32) {
        let client = &self.core.control[page];
        client.owner.set(owner);
        client.core.set(core);
        client.state.store(SERVICE_USED, SeqCst);
    }

    pub fn allot(&self, (page, window): Id) {
        self.core.control[page].windows.fetch_or(1 << window, SeqCst);
    }

    pub fn window(&self, (page, window): Id) -> &'static ServiceWindow {
        &self.core.pages[page].windows[window]
    }

    pub fn record(&self, (page, window): Id) -> &'static ServiceThread {
        &self.core.threads[page * 32 + window]
    }

    pub fn answer(&self, id: Id) -> Answer {
        Answer(self.window(id).answer.load(SeqCst))
    }

    /// Whether there was anything to serve.
    pub fn serve(&mut self, id: Id) -> bool {
        let mut device = Device::new(self.core, 0);
        let served = device.serve(ThreadIndex::new(id.0, id.1).unwrap());
        self.rung = device.rings().collect();
        served
    }

    /// The core looks at what kernels have said.
    pub fn control(&mut self) {
        self.core.attention.store(1, SeqCst);
        let mut device = Device::new(self.core, 0);
        device.control();
        self.rung = device.rings().collect();
    }

    /// The next request of a window, with a number of its own.
    pub fn request(&self, id: Id, operation: Operation, object: u16, argument: u32) -> Request {
        let number = Request(self.window(id).request.load(SeqCst)).sequence();
        Request::new(number % 255 + 1, operation, object, argument)
    }

    /// Stores a word into a window and serves it.
    pub fn put(&mut self, id: Id, word: u64) -> Answer {
        self.window(id).request.store(word, SeqCst);
        self.serve(id);
        self.answer(id)
    }

    pub fn ask(&mut self, id: Id, operation: Operation, object: u16, argument: u32) -> Answer {
        let request = self.request(id, operation, object, argument);
        let answer = self.put(id, request.0);
        assert_eq!(answer.sequence(), request.sequence(), "{operation:?} was not answered");
        answer
    }

    pub fn died(&mut self, (page, window): Id) {
        self.core.control[page].died.fetch_or(1 << window, SeqCst);
        self.control();
    }

    /// A process has gone, with all of its pages.
    pub fn left(&mut self, owner: u32) {
        for client in self.core.control.iter().filter(|client| client.owner.get() == owner) {
            if client.state.load(SeqCst) == SERVICE_USED {
                client.state.store(SERVICE_LEFT, SeqCst);
            }
        }
        self.control();
    }

    /// The threads of a list that begins with a word.
    pub fn list(&self, head: u32) -> Vec<Id> {
        let mut found = Vec::new();
        let mut link = head as usize;
        while link != 0 {
            assert!(found.len() < self.core.threads.len(), "the list is a ring");
            found.push(((link - 1) / 32, (link - 1) % 32));
            link = self.core.threads[link - 1].next.get() as usize;
        }
        found
    }
}
