//! The kernel's calls: who is served, who waits, who is next.

use crate::{
    Error, POOLS_MAX, Priority, QUEUES_MAX, SEMAPHORES_MAX, THREADS_MAX, ThreadId,
    list::{Links, List},
    objects::{Message, Pool, PoolId, Queue, QueueId, Semaphore, SemaphoreId, Table},
    ready::Ready,
};

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all; handlers of interrupts must not.
    No,
    /// Until the tick that is so many after the present one.
    Ticks(u64),
    /// As long as it takes.
    Forever,
}

/// What a call gives that has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing but that.
    Nothing,
    /// What was received.
    Message(Message),
    /// The address of a block.
    Block(usize),
}

/// How a call ends.
pub type Answer = Result<Value, Error>;

/// Whether a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It has.
    Now(Answer),
    /// The caller waits: another thread is next. [`Kernel::collect`] has the answer once the caller runs again.
    Later,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Semaphore(SemaphoreId),
    Message(QueueId),
    Room(QueueId),
    Block(PoolId),
    /// Its deadline alone.
    Time,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub priority: Priority,
    /// Until it is resumed it does not run, whatever it gets meanwhile.
    pub is_suspended: bool,
    pub waits_for: Option<Object>,
    /// The tick at which it ceases to wait; then it is in the line of deadlines.
    pub deadline: Option<u64>,
    /// What it sends once there is room.
    outgoing: Message,
    /// How its last wait has ended.
    answer: Option<Answer>,
}

impl Thread {
    const fn new(priority: Priority, is_suspended: bool) -> Self {
        Self { priority, is_suspended, waits_for: None, deadline: None, outgoing: [0; 2], answer: None }
    }

    pub const fn is_ready(&self) -> bool {
        !self.is_suspended && self.waits_for.is_none()
    }
}

#[derive(Debug)]
pub(crate) struct Objects {
    pub semaphores: Table<Semaphore, SEMAPHORES_MAX>,
    pub queues: Table<Queue, QUEUES_MAX>,
    pub pools: Table<Pool, POOLS_MAX>,
}

impl Objects {
    /// Who waits for it, the most urgent first.
    pub fn line(&mut self, object: Object) -> Option<&mut List> {
        match object {
            Object::Semaphore(id) => Some(&mut self.semaphores.get(id.0).ok()?.takers),
            Object::Message(id) => Some(&mut self.queues.get(id.0).ok()?.receivers),
            Object::Room(id) => Some(&mut self.queues.get(id.0).ok()?.senders),
            Object::Block(id) => Some(&mut self.pools.get(id.0).ok()?.takers),
            Object::Time => None,
        }
    }
}

/// All of the kernel's state. "The caller" is the thread that [`Kernel::next`] has named last: at first the idle thread, which
/// cannot wait or be suspended.
#[derive(Debug)]
pub struct Kernel {
    /// The first `thread_count` are in use.
    pub(crate) threads: [Thread; THREADS_MAX],
    thread_count: usize,
    running: ThreadId,
    now: u64,
    pub(crate) objects: Objects,
    /// A thread is in the list of its priority, or in a line of waiters.
    pub(crate) links: Links,
    pub(crate) ready: Ready,
    /// Threads with a deadline, the next one first.
    pub(crate) deadlines: List,
    pub(crate) deadline_links: Links,
}

impl Default for Kernel {
    fn default() -> Self {
        Self::new()
    }
}

impl Kernel {
    /// A kernel with the idle thread only.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            threads: [const { Thread::new(Priority::IDLE, false) }; THREADS_MAX],
            thread_count: 1,
            running: ThreadId::IDLE,
            now: 0,
            objects: Objects { semaphores: Table::new(), queues: Table::new(), pools: Table::new() },
            links: Links::new(),
            ready: Ready::new(),
            deadlines: List::EMPTY,
            deadline_links: Links::new(),
        }
    }

    /// Makes the thread that has to run now the caller. Whoever has a processor asks after every call, and after every interrupt.
    #[allow(clippy::should_implement_trait)] // It is no iterator.
    pub fn next(&mut self) -> ThreadId {
        self.running = self.ready.first();
        self.running
    }

    /// The caller.
    #[must_use]
    pub const fn running(&self) -> ThreadId {
        self.running
    }

    /// Ticks since the start.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// What the caller has waited for, once, when it is next again.
    pub fn collect(&mut self) -> Answer {
        self.threads[self.running.index()].answer.take().unwrap_or(Err(Error::Invalid))
    }

    /// A new thread, suspended.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub fn create(&mut self, priority: Priority) -> Result<ThreadId, Error> {
        let thread = self.threads.get_mut(self.thread_count).ok_or(Error::Full)?;
        *thread = Thread::new(priority, true);
        self.thread_count += 1;
        Ok(ThreadId(self.thread_count as u8 - 1))
    }

    /// Lets a thread run again that is suspended, if it does not wait as well. Others stay as they are.
    pub fn resume(&mut self, thread: ThreadId) {
        let state = &mut self.threads[thread.index()];
        if state.is_suspended {
            state.is_suspended = false;
            self.make_ready(thread);
        }
    }

    /// Keeps a thread from running until it is resumed. If it waits it goes on waiting, and gets what it waits for.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the idle thread, or none.
    pub fn suspend(&mut self, thread: ThreadId) -> Result<(), Error> {
        if thread == ThreadId::IDLE || thread.index() >= self.thread_count {
            return Err(Error::Invalid);
        }
        self.make_unready(thread);
        self.threads[thread.index()].is_suspended = true;
        Ok(())
    }

    /// Lets the other threads of the caller's priority run first.
    pub fn relinquish(&mut self) {
        let thread = self.running;
        if self.threads[thread.index()].is_ready() && thread != ThreadId::IDLE {
            self.make_unready(thread);
            self.make_ready(thread);
        }
    }

    /// Waits for a tick; not at all if it has been. [`Error::Unavailable`]: the idle thread cannot.
    pub fn sleep_until(&mut self, tick: u64) -> Outcome {
        match tick.checked_sub(self.now) {
            None | Some(0) => Outcome::Now(Ok(Value::Nothing)),
            Some(ticks) => self.wait(Object::Time, Wait::Ticks(ticks)),
        }
    }

    /// A tick has passed: ends the waits whose time has come.
    pub fn tick(&mut self) {
        self.now += 1;
        while let Some(thread) = self.deadlines.first()
            && self.threads[thread.index()].deadline.is_some_and(|deadline| deadline <= self.now)
        {
            let has_slept = self.threads[thread.index()].waits_for == Some(Object::Time);
            self.end_wait(thread, if has_slept { Ok(Value::Nothing) } else { Err(Error::TimedOut) });
        }
    }

    /// A new semaphore that counts `count`.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub fn create_semaphore(&mut self, count: u32) -> Result<SemaphoreId, Error> {
        self.objects.semaphores.add(Semaphore { count, takers: List::EMPTY }).map(SemaphoreId)
    }

    /// Counts the semaphore down by one, or waits for who counts it up.
    pub fn take(&mut self, id: SemaphoreId, wait: Wait) -> Outcome {
        match self.objects.semaphores.get(id.0) {
            Ok(semaphore) if semaphore.count > 0 => {
                semaphore.count -= 1;
                Outcome::Now(Ok(Value::Nothing))
            }
            Ok(_) => self.wait(Object::Semaphore(id), wait),
            Err(error) => Outcome::Now(Err(error)),
        }
    }

    /// Serves the first who waits for the semaphore, or counts it up by one.
    ///
    /// # Errors
    /// [`Error::Full`]: it counts no further.
    pub fn give(&mut self, id: SemaphoreId) -> Result<(), Error> {
        let semaphore = self.objects.semaphores.get(id.0)?;
        match semaphore.takers.first() {
            Some(taker) => self.end_wait(taker, Ok(Value::Nothing)),
            None => semaphore.count = semaphore.count.checked_add(1).ok_or(Error::Full)?,
        }
        Ok(())
    }

    /// A new queue for so many messages.
    ///
    /// # Errors
    /// [`Error::Full`], or [`Error::Invalid`]: no message, or more than [`crate::MESSAGES_MAX`].
    pub fn create_queue(&mut self, capacity: usize) -> Result<QueueId, Error> {
        self.objects.queues.add(Queue::new(capacity)?).map(QueueId)
    }

    /// Gives a message to the first receiver, or puts it behind the others, or waits for room.
    pub fn send(&mut self, id: QueueId, message: Message, wait: Wait) -> Outcome {
        let queue = match self.objects.queues.get(id.0) {
            Ok(queue) => queue,
            Err(error) => return Outcome::Now(Err(error)),
        };
        if let Some(receiver) = queue.receivers.first() {
            self.end_wait(receiver, Ok(Value::Message(message)));
        } else if !queue.push(message) {
            self.threads[self.running.index()].outgoing = message;
            return self.wait(Object::Room(id), wait);
        }
        Outcome::Now(Ok(Value::Nothing))
    }

    /// Takes the oldest message, or waits for one.
    pub fn receive(&mut self, id: QueueId, wait: Wait) -> Outcome {
        let queue = match self.objects.queues.get(id.0) {
            Ok(queue) => queue,
            Err(error) => return Outcome::Now(Err(error)),
        };
        let Some(message) = queue.pop() else { return self.wait(Object::Message(id), wait) };
        // There is room now for the first who waits for it.
        if let Some(sender) = queue.senders.first() {
            queue.push(self.threads[sender.index()].outgoing);
            self.end_wait(sender, Ok(Value::Nothing));
        }
        Outcome::Now(Ok(Value::Message(message)))
    }

    /// A new pool of blocks of `block_len` bytes in the memory from `start` on, which is the caller's to give.
    ///
    /// # Errors
    /// [`Error::Full`], or [`Error::Invalid`] for sizes that cannot be.
    pub fn create_pool(&mut self, start: usize, block_len: usize, blocks: usize) -> Result<PoolId, Error> {
        self.objects.pools.add(Pool::new(start, block_len, blocks)?).map(PoolId)
    }

    /// Takes a block, or waits for one.
    pub fn allocate(&mut self, id: PoolId, wait: Wait) -> Outcome {
        match self.objects.pools.get(id.0).map(Pool::take) {
            Ok(Some(address)) => Outcome::Now(Ok(Value::Block(address))),
            Ok(None) => self.wait(Object::Block(id), wait),
            Err(error) => Outcome::Now(Err(error)),
        }
    }

    /// Gives a block back: to the first who waits for one, if any.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it is not the address of a block in use.
    pub fn release(&mut self, id: PoolId, address: usize) -> Result<(), Error> {
        let pool = self.objects.pools.get(id.0)?;
        pool.check(address)?;
        match pool.takers.first() {
            Some(taker) => self.end_wait(taker, Ok(Value::Block(address))),
            None => pool.put(address),
        }
        Ok(())
    }

    /// The caller waits, if it may.
    fn wait(&mut self, object: Object, wait: Wait) -> Outcome {
        let caller = self.running;
        if caller == ThreadId::IDLE || matches!(wait, Wait::No | Wait::Ticks(0)) {
            return Outcome::Now(Err(Error::Unavailable));
        }
        self.make_unready(caller);
        let Self { threads, objects, links, .. } = self;
        let priority = threads[caller.index()].priority;
        threads[caller.index()].waits_for = Some(object);
        if let Some(line) = objects.line(object) {
            line.insert_before(links, caller, |other| threads[other.index()].priority > priority);
        }
        if let Wait::Ticks(ticks) = wait {
            let deadline = self.now.saturating_add(ticks);
            self.threads[caller.index()].deadline = Some(deadline);
            let is_later = |other: ThreadId| self.threads[other.index()].deadline.is_some_and(|it| it > deadline);
            self.deadlines.insert_before(&mut self.deadline_links, caller, is_later);
        }
        Outcome::Later
    }

    /// A thread that waits has got its answer.
    fn end_wait(&mut self, thread: ThreadId, answer: Answer) {
        let state = &mut self.threads[thread.index()];
        state.answer = Some(answer);
        if state.deadline.take().is_some() {
            self.deadlines.remove(&mut self.deadline_links, thread);
        }
        if let Some(line) = state.waits_for.take().and_then(|object| self.objects.line(object)) {
            line.remove(&mut self.links, thread);
        }
        self.make_ready(thread);
    }

    fn make_ready(&mut self, thread: ThreadId) {
        let state = &self.threads[thread.index()];
        if state.is_ready() {
            self.ready.push(&mut self.links, thread, state.priority);
        }
    }

    fn make_unready(&mut self, thread: ThreadId) {
        let state = &self.threads[thread.index()];
        if state.is_ready() {
            self.ready.remove(&mut self.links, thread, state.priority);
        }
    }
}
