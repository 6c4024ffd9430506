//! The service core: how it executes requests of threads.
//!
//! - A thread stores a [`Request`] in its window and loads the [`Answer`].
//! - Kernels report by [`ServiceClient`]s which process owns which windows, and which threads have ended.
//! - The *executor* of the core's operations calls [`Device::serve`] and [`Device::control`], one at a time ([`acquire`]). It is the simulator, at
//!   the store of a request, or a thread of the host.
//! - The core checks everything that programs or other islands have written. Numbers are looked up in tables; lists are followed only up to their
//!   greatest possible length.
//!
//! Protocol page: `docs/protocols/service.md`.

pub mod clients;
mod conditions;
pub mod hardware;
mod interrupts;
mod mutexes;
mod queue;
mod threads;
mod times;
mod words;

use core::cell::Cell;

use motet_layout::{
    CORES_MAX, CoreId, Pool, PoolAddr, SERVICE_CLIENTS, SERVICE_FREE, SERVICE_LEFT, SERVICE_USED, SERVICE_WINDOW_BYTES,
    SERVICE_WINDOWS, ServiceClient, ServiceCore, ServiceProcess, ServiceThread, ServiceWindow, handshake::then_look,
    sync::Ordering,
};

pub use times::book;
pub use words::*;

/// The service core of a machine, if it has one.
pub fn of(pool: Pool) -> Option<&'static ServiceCore> {
    let at = pool.header().service.get();
    if at == 0 { None } else { pool.get(PoolAddr(at)) }
}

/// Makes `who` (not 0) the executor of the core's operations. `false`: there is one already.
pub fn acquire(core: &ServiceCore, who: u64) -> bool {
    core.lock.compare_exchange(0, who, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// The caller is no longer the executor.
pub fn release(core: &ServiceCore) {
    core.lock.store(0, Ordering::Release);
    then_look();
}

/// Whether a thread has a request that has not been executed.
pub fn has_request(core: &ServiceCore, thread: ThreadIndex) -> bool {
    let request = core.pages[thread.client()].windows[thread.window()].request.load(Ordering::SeqCst);
    request != core.threads[usize::from(thread.0)].served.get()
}

/// Timed machines: the time from which on a thread can load its last answer, in picoseconds.
pub fn answered_ps(core: &ServiceCore, thread: ThreadIndex) -> u64 {
    core.threads[usize::from(thread.0)].answered_ps.get()
}

/// Makes `who` the executor in place of `holder`, which has died during an operation. `false`: another one has taken its place already.
pub fn inherit(core: &ServiceCore, holder: u64, who: u64) -> bool {
    core.lock.compare_exchange(holder, who, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// A thread as the core numbers it: its page of registers and its window there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadIndex(u16);

impl ThreadIndex {
    /// The thread of a window. `None`: there is no such window.
    pub fn new(client: usize, window: usize) -> Option<Self> {
        (client < SERVICE_CLIENTS && window < SERVICE_WINDOWS).then(|| Self((client * SERVICE_WINDOWS + window) as u16))
    }

    /// The window at an offset from the first page of registers.
    pub fn at(offset: u64) -> Option<Self> {
        let window = (offset / SERVICE_WINDOW_BYTES) as usize;
        Self::new(window / SERVICE_WINDOWS, window % SERVICE_WINDOWS)
    }

    /// From the word of a list, which is 1 + the number. `None`: the word is 0 or no thread's.
    fn from_link(link: u32) -> Option<Self> {
        let index = (link as usize).checked_sub(1)?;
        Self::new(index / SERVICE_WINDOWS, index % SERVICE_WINDOWS)
    }

    const fn link(self) -> u32 {
        self.0 as u32 + 1
    }

    /// The word for it in kernels' records: 1 + the number.
    pub const fn raw(self) -> u32 {
        self.link()
    }

    /// From the word of a kernel's record.
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::from_link(raw)
    }

    /// Its page of registers.
    pub const fn client(self) -> usize {
        self.0 as usize / SERVICE_WINDOWS
    }

    /// Its window there.
    pub const fn window(self) -> usize {
        self.0 as usize % SERVICE_WINDOWS
    }
}

/// The result of a request that is no error.
enum Reply {
    /// The request is done.
    Done(u32),
    /// The request is done. The answer has this code, which need not be an error.
    But(Code, u32),
    /// The thread waits.
    Waits,
}

type Outcome = Result<Reply, Code>;

/// The executor of operations, at a certain time.
pub struct Device<'a> {
    core: &'a ServiceCore,
    now_ps: u64,
    rings: Cell<u128>,
    /// The thread whose request is being executed, until it is answered.
    asks: Option<ThreadIndex>,
}

const _: () = assert!(CORES_MAX <= u128::BITS as usize);

impl<'a> Device<'a> {
    /// `now_ps`: on a timed machine, the time at which operations are executed. Their answers can be loaded from then on.
    pub fn new(core: &'a ServiceCore, now_ps: u64) -> Self {
        Self { core, now_ps, rings: Cell::new(0), asks: None }
    }

    /// The time at which operations are executed.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// The cores that must be interrupted: sleeping threads have answers, or threads have lost their turns or have got them back.
    pub fn rings(&self) -> impl Iterator<Item = CoreId> + use<> {
        let rings = self.rings.get();
        (0..CORES_MAX as u32).filter(move |core| rings >> core & 1 != 0).filter_map(CoreId::from_raw)
    }

    /// Executes a thread's request. `false`: there is no new request.
    pub fn serve(&mut self, thread: ThreadIndex) -> bool {
        let request = Request(self.window(thread).request.load(Ordering::SeqCst));
        let record = self.thread(thread);
        if request.0 == record.served.get() {
            return false;
        }
        record.served.set(request.0);
        self.core.operations.set(self.core.operations.get().wrapping_add(1));
        if !self.has_thread(thread) {
            self.refuse(thread, request, Code::NoThread);
            if self.has_thread(thread) {
                // The window has been given to a thread meanwhile. The answer just stored is not for that thread.
                self.window(thread).answer.store(0, Ordering::Release);
            }
            // The next thread that gets the window begins anew, even if its first request is the same word.
            record.served.set(0);
            let _ = self.window(thread).request.compare_exchange(request.0, 0, Ordering::SeqCst, Ordering::Relaxed);
            return true;
        }
        let is_waiting = matches!(self.state(thread), State::Waiting | State::Ready);
        if is_waiting && request.operation() != Some(Operation::Withdraw) {
            self.refuse(thread, request, Code::Waits);
            return true;
        }
        self.runs_on(thread);
        self.set_number(thread, request.sequence());
        self.asks = Some(thread);
        let outcome = self.execute_for(thread, request);
        self.give_turns(thread);
        self.asks = None;
        let (code, value) = match outcome {
            Ok(Reply::Waits) => return self.goes_on_later(thread),
            Ok(Reply::Done(value)) => (Code::Ok, value),
            Ok(Reply::But(code, value)) => (code, value),
            Err(code) => {
                self.count_error();
                (code, 0)
            }
        };
        if self.has_lost_turn(thread) {
            self.resume(thread, code, value);
            self.give_turns(thread);
            return self.goes_on_later(thread);
        }
        self.answer(thread, code, value);
        true
    }

    /// Answers that a thread must wait, unless it has its final answer already: its own request may have produced what it waits for. (The thread may
    /// even have lost its turn again since then. It is stopped in that case, and must not be answered a second time.)
    fn goes_on_later(&self, thread: ThreadIndex) -> bool {
        if matches!(self.state(thread), State::Waiting | State::Ready) {
            self.window(thread).answer.store(Answer::waits(self.number_of_wait(thread)).0, Ordering::Release);
            self.thread(thread).answered_ps.set(self.now_ps);
        }
        true
    }

    /// Answers a request with an error. The thread's state does not change, nor does the answer to a request that waits.
    fn refuse(&mut self, thread: ThreadIndex, request: Request, code: Code) {
        self.count_error();
        self.thread(thread).answered_ps.set(self.now_ps);
        self.store_answer(thread, Answer::done(request.sequence(), code, 0));
    }

    fn count_error(&self) {
        self.core.errors.set(self.core.errors.get().wrapping_add(1));
    }

    /// Whether a kernel has given a window to a thread.
    fn has_thread(&self, thread: ThreadIndex) -> bool {
        let client = self.client(thread);
        client.owner.get() != 0
            && client.state.load(Ordering::SeqCst) == SERVICE_USED
            && client.windows.load(Ordering::SeqCst) >> thread.window() & 1 != 0
    }

    fn execute_for(&mut self, thread: ThreadIndex, request: Request) -> Outcome {
        let operation = request.operation().ok_or(Code::Unknown)?;
        match self.state(thread) {
            State::None => self.thread(thread).state.set(State::Running as u32),
            State::New if operation != Operation::Start => return Err(Code::Invalid),
            State::Ended => return Err(Code::NoThread),
            State::New | State::Ready | State::Running | State::Waiting | State::Stopped => {}
        }
        self.execute(thread, operation, request.object(), request.argument())
    }

    fn execute(&mut self, thread: ThreadIndex, operation: Operation, object: u16, argument: u32) -> Outcome {
        match operation {
            Operation::Nothing => Ok(Reply::Done(0)),
            Operation::Own => Ok(Reply::Done(self.number(thread))),
            Operation::Start => self.start(thread),
            Operation::Create => self.create(thread, object, argument),
            Operation::Exit => self.exit(thread, argument),
            Operation::Join => self.join(thread, object),
            Operation::Yield => self.give_turn(thread),
            Operation::SetPriority => self.set_priority(thread, object, argument),
            Operation::Detach => self.detach(thread, object),
            Operation::Delete => self.delete(thread, object),
            Operation::Slots => self.set_slots(thread, object, argument),
            Operation::MutexCreate => self.create_mutex(thread, argument),
            Operation::MutexDestroy => self.destroy_mutex(thread, object),
            Operation::Lock => self.lock(thread, object, true),
            Operation::TryLock => self.lock(thread, object, false),
            Operation::Unlock => self.unlock(thread, object),
            Operation::Consistent => self.make_consistent(thread, object),
            Operation::ConditionCreate => self.create_condition(thread),
            Operation::ConditionDestroy => self.destroy_condition(thread, object),
            Operation::ConditionWait => self.wait_for_condition(thread, object, argument),
            Operation::Signal => self.signal(thread, object, false),
            Operation::Broadcast => self.signal(thread, object, true),
            Operation::BarrierCreate => self.create_barrier(thread, argument),
            Operation::BarrierDestroy => self.destroy_barrier(thread, object),
            Operation::BarrierWait => self.wait_at_barrier(thread, object),
            Operation::SourceBind => self.bind_source(thread, object),
            Operation::SourceWait => self.wait_for_source(thread, object),
            Operation::SourceRaise => self.raise(thread, object),
            Operation::Withdraw => self.withdraw(thread),
        }
    }

    /// Reads what kernels have reported about pages of registers: threads have ended, processes have gone.
    pub fn control(&mut self) {
        if self.core.attention.load(Ordering::SeqCst) == 0 {
            return;
        }
        self.core.attention.store(0, Ordering::Release);
        then_look();
        for (number, client) in self.pages() {
            let ended = if client.died.load(Ordering::SeqCst) == 0 { 0 } else { client.died.swap(0, Ordering::SeqCst) };
            // A page without a process has no threads.
            let died = if client.owner.get() == 0 { 0 } else { ended & client.windows.load(Ordering::SeqCst) };
            for window in (0..SERVICE_WINDOWS).filter(|window| died >> window & 1 != 0) {
                if let Some(thread) = ThreadIndex::new(number, window) {
                    self.died(thread);
                }
            }
            if ended != 0 {
                // This comes last: the next thread that gets such a window has not ended.
                client.bound.fetch_and(!ended, Ordering::SeqCst);
            }
            if client.changed.load(Ordering::SeqCst) != 0 {
                self.turns_have_changed(number, client.changed.swap(0, Ordering::SeqCst));
            }
            if client.state.load(Ordering::SeqCst) == SERVICE_LEFT {
                self.forget_process(client.owner.get());
                self.forget_page(number, client);
            }
        }
    }

    /// A process has gone: frees all its objects.
    fn forget_process(&self, owner: u32) {
        let core = self.core;
        for process in core.processes.iter().filter(|process| process.owner.get() == owner) {
            self.set_crowded(process, false);
            forget_process(process);
        }
        core.mutex.iter().filter(|mutex| mutex.owner.get() == owner).for_each(|mutex| mutex.owner.set(0));
        core.condition.iter().filter(|condition| condition.owner.get() == owner).for_each(|one| one.owner.set(0));
        core.barrier.iter().filter(|barrier| barrier.owner.get() == owner).for_each(|barrier| barrier.owner.set(0));
        core.sources.iter().filter(|source| source.owner.get() == owner).for_each(interrupts::unbind);
        // All lists that its threads may be in are gone, so their records can be cleared, on whatever page they are.
        for thread in self.indices().filter(|thread| self.client(*thread).owner.get() == owner) {
            self.reset(thread);
        }
    }

    fn forget_page(&self, number: usize, client: &ServiceClient) {
        (0..SERVICE_WINDOWS)
            .filter_map(|window| ThreadIndex::new(number, window))
            .for_each(|thread| self.reset(thread));
        client.windows.store(0, Ordering::Relaxed);
        client.died.store(0, Ordering::Relaxed);
        client.answered.store(0, Ordering::Relaxed);
        client.changed.store(0, Ordering::Relaxed);
        client.bound.store(0, Ordering::Relaxed);
        client.state.store(SERVICE_FREE, Ordering::Release);
    }

    /// Gives a thread its final answer; it runs from now on. If it sleeps, its core is interrupted.
    fn answer(&mut self, thread: ThreadIndex, code: Code, value: u32) {
        let record = self.thread(thread);
        record.code.set(code as u32);
        record.answer.set(value);
        record.answered_ps.set(self.now_ps);
        self.store_answer(thread, Answer::done(self.number_of_wait(thread), code, value));
    }

    fn store_answer(&mut self, thread: ThreadIndex, answer: Answer) {
        let window = self.window(thread);
        window.answer.store(answer.0, Ordering::Release);
        then_look();
        if window.parked.load(Ordering::SeqCst) != 0 {
            self.wake(thread);
        }
    }

    /// Has the kernel wake a sleeping thread.
    fn wake(&mut self, thread: ThreadIndex) {
        self.client(thread).answered.fetch_or(1 << thread.window(), Ordering::SeqCst);
        self.ring_for(thread);
    }

    /// Interrupts the core that is responsible for a thread's page, and marks the page.
    fn ring_for(&self, thread: ThreadIndex) {
        let page = thread.client();
        self.core.heard_of[page / 64].fetch_or(1 << (page % 64), Ordering::SeqCst);
        self.ring(self.client(thread).core.get());
    }

    /// Interrupts a core, so that its kernel reads the core's notifications.
    fn ring(&self, core: u32) {
        self.core.answered.store(1, Ordering::Release);
        self.rings.set(self.rings.get() | 1u128.checked_shl(core).unwrap_or(1));
    }

    /// Tells the kernel to stop a thread.
    fn tell_stop(&self, thread: ThreadIndex) {
        self.client(thread).stopped.fetch_or(1 << thread.window(), Ordering::SeqCst);
        self.tell(thread);
    }

    /// Tells the kernel to let a stopped thread run.
    fn tell_go(&self, thread: ThreadIndex) {
        let (client, bit) = (self.client(thread), 1 << thread.window());
        if client.stopped.load(Ordering::Relaxed) & bit != 0 {
            client.stopped.fetch_and(!bit, Ordering::SeqCst);
            self.tell(thread);
        }
    }

    fn tell(&self, thread: ThreadIndex) {
        self.client(thread).told.fetch_or(1 << thread.window(), Ordering::SeqCst);
        self.ring_for(thread);
    }

    fn thread(&self, thread: ThreadIndex) -> &'a ServiceThread {
        &self.core.threads[usize::from(thread.0)]
    }

    fn window(&self, thread: ThreadIndex) -> &'a ServiceWindow {
        &self.core.pages[thread.client()].windows[thread.window()]
    }

    fn client(&self, thread: ThreadIndex) -> &'a ServiceClient {
        &self.core.control[thread.client()]
    }

    /// The owner number of a thread's process.
    fn owner(&self, thread: ThreadIndex) -> u32 {
        self.client(thread).owner.get()
    }

    fn user(&self, thread: ThreadIndex) -> u32 {
        self.client(thread).user.get()
    }

    /// A free entry among the first `limit` ones of a table. `owners` returns an entry's process (0: it is free) and user.
    ///
    /// # Errors
    /// [`Code::Full`]: no entry is free, or the thread's user, who is not the superuser, has half of them.
    fn free_entry(
        &self,
        thread: ThreadIndex,
        limit: usize,
        owners: impl Fn(usize) -> (u32, u32),
    ) -> Result<usize, Code> {
        let user = self.user(thread);
        let is_users = |number: &usize| owners(*number).0 != 0 && owners(*number).1 == user;
        if user != 0 && (0..limit).filter(is_users).count() >= limit.div_ceil(2) {
            return Err(Code::Full);
        }
        (0..limit).position(|number| owners(number).0 == 0).ok_or(Code::Full)
    }

    fn state(&self, thread: ThreadIndex) -> State {
        State::from_raw(self.thread(thread).state.get()).unwrap_or(State::None)
    }

    /// The number that a thread has in its process.
    fn number(&self, thread: ThreadIndex) -> u32 {
        clients::number(self.core, thread)
    }

    /// The machine's pages of registers.
    fn pages(&self) -> impl Iterator<Item = (usize, &'a ServiceClient)> + use<'a> {
        self.core.control.iter().take(self.core.clients.get() as usize).enumerate()
    }

    /// All windows that have threads.
    fn indices(&self) -> impl Iterator<Item = ThreadIndex> + use<'a> {
        let used = self.pages().filter(|(_, client)| client.state.load(Ordering::Relaxed) != SERVICE_FREE);
        used.flat_map(|(number, client)| {
            let windows = client.windows.load(Ordering::Relaxed);
            let windows = (0..SERVICE_WINDOWS).filter(move |window| windows >> window & 1 != 0);
            windows.filter_map(move |window| ThreadIndex::new(number, window))
        })
    }

    /// The threads of a process.
    fn threads_of(&self, owner: u32) -> impl Iterator<Item = ThreadIndex> + use<'a> {
        let core = self.core;
        self.indices().filter(move |thread| core.control[thread.client()].owner.get() == owner)
    }

    /// The thread with a number in the process of `thread`.
    fn named(&self, thread: ThreadIndex, number: u16) -> Result<ThreadIndex, Code> {
        clients::named(self.core, self.owner(thread), u32::from(number)).ok_or(Code::NoThread)
    }

    /// The core's record of a thread's process; a new one if there is none. `None`: the table is full.
    fn process(&self, thread: ThreadIndex) -> Option<&'a ServiceProcess> {
        let owner = self.owner(thread);
        // A process has at least one page, so there are no more processes than pages.
        let mut processes = self.core.processes.iter().take(self.core.clients.get() as usize);
        let known = processes.clone().find(|process| process.owner.get() == owner);
        known.or_else(|| {
            let free = processes.find(|process| process.owner.get() == 0)?;
            forget_process(free);
            free.owner.set(owner);
            Some(free)
        })
    }
}

fn forget_process(process: &ServiceProcess) {
    process.owner.set(0);
    process.ready.set(0);
    process.holders.set(0);
    process.slots.iter().chain(&process.running).for_each(|word| word.set(0));
}
