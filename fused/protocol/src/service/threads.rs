//! Threads: their lives, their turns, and what ends with them.
//!
//! ```text
//!            Create          Start           it has a turn
//!   None ----------> New ----------> Ready ------------------------> Running ---> Ended ---> None
//!     |                                ^       it has a turn          ^ | | ^        joined, and its kernel thread
//!     |                                |   Stopped -------------------+ | | |        has ended
//!     |                                |      | ^     more urgent       | | |
//!     |                                |      | +-----------------------+ | |
//!     | asks for something             +------+ asks for something        | | what it waits for has come
//!     +----------------------------------------------------> Running      v | (a started thread becomes ready)
//!                                                                       Waiting
//! ```
//!
//! Threads that were created by the core run in *turns*. A process has a number of slots on each island. The most urgent of its ready threads run
//! there, one in each slot. A thread that becomes ready takes the turn of a less urgent thread on an island where it may run: of the least urgent
//! one. Other threads, and devices, have no turns. They run whenever their kernel runs them.

use motet_layout::{ISLANDS_MAX, ServiceProcess, ServiceThread, handshake::then_look, sync::Ordering};

use super::{Code, DETACHED, Device, HARDWARE, KILLED, Outcome, Reply, State, ThreadIndex, queue::Queue};

/// [`ServiceThread::flags`]: the thread is detached, or has been joined.
const IS_DETACHED: u32 = 1;
/// [`ServiceThread::flags`]: the kernel thread has ended.
const HAS_DIED: u32 = 2;
/// [`ServiceThread::flags`]: the thread was started, and runs in turns.
const HAS_TURNS: u32 = 8;
/// [`ServiceThread::flags`]: the thread has not had its first turn yet.
const BEGINS: u32 = 16;
/// [`ServiceThread::flags`]: the thread is a device.
const IS_HARDWARE: u32 = 32;
/// [`ServiceThread::flags`]: from this bit on, the number of the request that its next answer is for.
const NUMBER: u32 = 24;

const PRIORITY_MAX: u32 = 255;
const ALL_ISLANDS: u32 = (1 << ISLANDS_MAX) - 1;

/// What a thread waits for, encoded in [`ServiceThread::waits`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    Mutex(u16),
    Condition(u16),
    Barrier(u16),
    Thread(ThreadIndex),
    Source(u16),
}

impl Waits {
    fn raw(self) -> u32 {
        let (kind, number) = match self {
            Self::Mutex(number) => (1, number),
            Self::Condition(number) => (2, number),
            Self::Barrier(number) => (3, number),
            Self::Thread(thread) => (4, thread.0),
            Self::Source(number) => (5, number),
        };
        kind << 16 | u32::from(number)
    }

    fn from_raw(raw: u32) -> Option<Self> {
        let number = raw as u16;
        Some(match raw >> 16 {
            1 => Self::Mutex(number),
            2 => Self::Condition(number),
            3 => Self::Barrier(number),
            4 => Self::Thread(ThreadIndex::from_link(u32::from(number) + 1)?),
            5 => Self::Source(number),
            _ => return None,
        })
    }
}

/// Clears a thread's record. `served` stays, because the last request may still be in the window.
fn clear(record: &ServiceThread) {
    let words = [&record.state, &record.priority, &record.next, &record.waits, &record.mutex, &record.islands];
    words.iter().for_each(|word| word.set(0));
    let words = [&record.island, &record.flags, &record.value, &record.code, &record.answer, &record.owned];
    words.iter().for_each(|word| word.set(0));
}

/// The code of a thread's last or next answer.
fn code_of(record: &ServiceThread) -> Code {
    u16::try_from(record.code.get()).ok().and_then(Code::from_raw).unwrap_or(Code::Ok)
}

impl<'a> Device<'a> {
    pub(super) fn create(&mut self, thread: ThreadIndex, number: u16, argument: u32) -> Outcome {
        let (made, wanted, there_are) = (self.named(thread, number)?, argument >> 8 & ALL_ISLANDS, self.islands());
        let islands = if wanted == 0 { there_are } else { wanted & there_are };
        if self.state(made) != State::None || islands == 0 {
            return Err(Code::Invalid);
        }
        let record = self.thread(made);
        clear(record);
        record.priority.set(argument & PRIORITY_MAX);
        record.islands.set(islands);
        let flag = |asked: u32, flag: u32| if argument & asked != 0 { flag } else { 0 };
        record.flags.set(flag(DETACHED, IS_DETACHED) | flag(HARDWARE, IS_HARDWARE));
        record.state.set(State::New as u32);
        Ok(Reply::Done(u32::from(number)))
    }

    /// The islands of the machine, a bit each.
    fn islands(&self) -> u32 {
        match self.core.islands.get() & ALL_ISLANDS {
            0 => ALL_ISLANDS,
            islands => islands,
        }
    }

    pub(super) fn start(&mut self, thread: ThreadIndex) -> Outcome {
        let record = self.thread(thread);
        if self.state(thread) != State::New {
            return Err(Code::Invalid);
        }
        let turns = if record.flags.get() & IS_HARDWARE == 0 { HAS_TURNS | BEGINS } else { 0 };
        record.flags.set(record.flags.get() | turns);
        self.resume(thread, Code::Ok, 0);
        Ok(Reply::Waits)
    }

    pub(super) fn exit(&mut self, thread: ThreadIndex, value: u32) -> Outcome {
        self.end(thread, value);
        Ok(Reply::Done(0))
    }

    pub(super) fn join(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let target = self.named(thread, number)?;
        let record = self.thread(target);
        if target == thread {
            return Err(Code::Deadlock);
        }
        if record.flags.get() & IS_DETACHED != 0 || self.state(target) == State::None || self.joiner(target).is_some() {
            return Err(Code::Invalid);
        }
        if self.state(target) != State::Ended {
            self.wait(thread, Waits::Thread(target));
            return Ok(Reply::Waits);
        }
        let value = record.value.get();
        self.is_joined(target);
        Ok(Reply::Done(value))
    }

    /// A thread has been joined, or will not be: its record may be freed when it has ended.
    fn is_joined(&self, thread: ThreadIndex) {
        let record = self.thread(thread);
        record.flags.set(record.flags.get() | IS_DETACHED);
        self.reclaim(thread);
    }

    /// Frees an ended thread's window, once its kernel thread has ended and it has been joined or detached.
    fn reclaim(&self, thread: ThreadIndex) {
        let (record, over) = (self.thread(thread), IS_DETACHED | HAS_DIED);
        if self.state(thread) == State::Ended && record.flags.get() & over == over {
            self.reset(thread);
            self.client(thread).windows.fetch_and(!(1 << thread.window()), Ordering::SeqCst);
        }
    }

    /// Resets a window to the state that it had before any thread used it.
    pub(super) fn reset(&self, thread: ThreadIndex) {
        let (record, window) = (self.thread(thread), self.window(thread));
        self.client(thread).asleep.fetch_and(!(1 << thread.window()), Ordering::SeqCst);
        self.tell_go(thread);
        clear(record);
        record.served.set(0);
        window.request.store(0, Ordering::Relaxed);
        window.answer.store(0, Ordering::Relaxed);
        window.parked.store(0, Ordering::Relaxed);
    }

    pub(super) fn detach(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let target = self.named(thread, number)?;
        let is_detached = self.thread(target).flags.get() & IS_DETACHED != 0;
        if is_detached || self.state(target) == State::None || self.joiner(target).is_some() {
            return Err(Code::Invalid);
        }
        self.is_joined(target);
        Ok(Reply::Done(0))
    }

    pub(super) fn delete(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let target = self.named(thread, number)?;
        if self.state(target) != State::New {
            return Err(Code::Invalid);
        }
        // A thread that joins it gets `KILLED`: it never ends by itself.
        self.end(target, KILLED);
        self.thread(target).flags.set(IS_DETACHED | HAS_DIED);
        self.reclaim(target);
        Ok(Reply::Done(0))
    }

    pub(super) fn set_priority(&mut self, thread: ThreadIndex, number: u16, priority: u32) -> Outcome {
        let target = self.named(thread, number)?;
        if priority > PRIORITY_MAX || matches!(self.state(target), State::None | State::Ended) {
            return Err(Code::Invalid);
        }
        if self.thread(target).priority.get() == priority {
            return Ok(Reply::Done(0));
        }
        // Lists are sorted by priority.
        let queue = self.queue_of(target);
        if let Some(queue) = queue {
            queue.remove(target);
        }
        self.thread(target).priority.set(priority);
        if let Some(queue) = queue {
            queue.add(target);
        }
        Ok(Reply::Done(0))
    }

    pub(super) fn set_slots(&mut self, thread: ThreadIndex, island: u16, slots: u32) -> Outcome {
        let process = self.process(thread).ok_or(Code::Full)?;
        let of_island = process.slots.get(usize::from(island)).ok_or(Code::Invalid)?;
        of_island.set(slots);
        Ok(Reply::Done(0))
    }

    /// The running thread gives its slot to another ready thread of the same priority.
    pub(super) fn give_turn(&mut self, thread: ThreadIndex) -> Outcome {
        let record = self.thread(thread);
        let has_slot = record.flags.get() & HAS_TURNS != 0 && record.island.get() != 0;
        if !has_slot || self.process(thread).is_none_or(|process| self.ready(process).is_empty()) {
            return Ok(Reply::Done(0));
        }
        self.leave_slot(thread);
        self.resume(thread, Code::Ok, 0);
        Ok(Reply::Waits)
    }

    /// A thread has lost its turn, but has made a request before its kernel could stop it. The request is executed now, and answered at the
    /// thread's next turn.
    pub(super) fn runs_on(&mut self, thread: ThreadIndex) {
        if self.state(thread) == State::Stopped {
            self.leave_lists(thread);
            self.thread(thread).state.set(State::Running as u32);
        }
    }

    /// Whether a thread that has made a request has lost its turn. Then it is answered at its next turn.
    pub(super) fn has_lost_turn(&self, thread: ThreadIndex) -> bool {
        let record = self.thread(thread);
        self.state(thread) == State::Running && record.flags.get() & HAS_TURNS != 0 && record.island.get() == 0
    }

    /// A thread waits. It gives up its slot, and leaves the list of slot holders, before it enters another list.
    pub(super) fn wait(&mut self, thread: ThreadIndex, waits: Waits) {
        let record = self.thread(thread);
        record.state.set(State::Waiting as u32);
        record.waits.set(waits.raw());
        self.leave_slot(thread);
    }

    /// Ends a thread's wait. A thread without turns runs, and is answered now. A thread with turns becomes ready, and is answered when it gets a
    /// turn. Turns are given at the end of the operation.
    pub(super) fn resume(&mut self, thread: ThreadIndex, code: Code, value: u32) {
        let record = self.thread(thread);
        record.waits.set(0);
        record.mutex.set(0);
        let process = self.process(thread).filter(|_| record.flags.get() & HAS_TURNS != 0);
        let Some(process) = process else {
            record.state.set(State::Running as u32);
            return self.answer(thread, code, value);
        };
        record.code.set(code as u32);
        record.answer.set(value);
        record.state.set(State::Ready as u32);
        self.ready(process).add(thread);
    }

    fn leave_slot(&self, thread: ThreadIndex) {
        let record = self.thread(thread);
        let island = record.island.get().checked_sub(1);
        record.island.set(0);
        let Some((island, process)) = island.and_then(|island| Some((island, self.process(thread)?))) else { return };
        self.holders(process).remove(thread);
        if let Some(running) = process.running.get(island as usize) {
            running.set(running.get().saturating_sub(1));
        }
    }

    /// Gives turns to the ready threads of a thread's process: first free slots, then the slots of sleeping and of less urgent threads.
    pub(super) fn give_turns(&mut self, thread: ThreadIndex) {
        let Some(process) = self.process(thread) else { return };
        self.give_all_turns(process);
        if self.set_crowded(process, !self.ready(process).is_empty()) {
            // A thread that went to sleep before `crowded` was set has not reported it, so the core looks once more.
            self.give_all_turns(process);
            self.set_crowded(process, !self.ready(process).is_empty());
        }
    }

    /// Notes whether threads of a process want turns. `true`: they do, and did not before.
    pub(super) fn set_crowded(&self, process: &ServiceProcess, is_crowded: bool) -> bool {
        if is_crowded == (process.crowded.get() != 0) {
            return false;
        }
        process.crowded.set(is_crowded.into());
        match is_crowded {
            true => self.core.crowded.fetch_add(1, Ordering::SeqCst),
            false => self.core.crowded.fetch_sub(1, Ordering::SeqCst),
        };
        then_look(); // at the threads that sleep
        is_crowded
    }

    /// Threads of a page have gone to sleep in system calls, or want turns again.
    pub(super) fn turns_have_changed(&mut self, page: usize, windows: u32) {
        if let Some(thread) = ThreadIndex::new(page, windows.trailing_zeros() as usize) {
            self.give_turns(thread);
        }
    }

    /// Whether a thread sleeps in a system call, for something that the core does not know.
    fn is_asleep(&self, thread: ThreadIndex) -> bool {
        self.client(thread).asleep.load(Ordering::SeqCst) >> thread.window() & 1 != 0
    }

    /// The ready threads that would run if they had turns, the most urgent ones first.
    fn candidates(&self, process: &'a ServiceProcess) -> impl Iterator<Item = ThreadIndex> {
        let sleeps_on = |thread: &ThreadIndex| self.state(*thread) == State::Stopped && self.is_asleep(*thread);
        self.ready(process).iter().filter(move |thread| !sleeps_on(thread))
    }

    fn give_all_turns(&mut self, process: &'a ServiceProcess) {
        // The bound ends the loop even if the list is damaged. A thread that loses its turn here comes after those that are ready now.
        for _ in 0..self.core.threads.len() {
            let mut candidates = self.candidates(process);
            let free = candidates.find_map(|thread| Some((thread, self.free_island(process, thread)?)));
            drop(candidates);
            let Some((next, island)) = free.or_else(|| self.take_turn(process)) else { break };
            self.ready(process).remove(next);
            self.run(process, next, island);
        }
    }

    /// Takes a turn away: from a thread that is less urgent or sleeps, for the most urgent ready thread that may use it. Returns that thread and the
    /// island.
    fn take_turn(&mut self, process: &'a ServiceProcess) -> Option<(ThreadIndex, usize)> {
        let least_urgent = self.holders(process).iter().last().map(|thread| self.thread(thread).priority.get())?;
        let is_one_asleep = self.holders(process).iter().any(|thread| self.is_asleep(thread));
        let would_do = |next: &ThreadIndex| is_one_asleep || self.thread(*next).priority.get() < least_urgent;
        let (next, loser, island) = self.candidates(process).take_while(would_do).find_map(|next| {
            let (loser, island) = self.loser_for(process, self.thread(next))?;
            Some((next, loser, island))
        })?;
        self.leave_slot(loser);
        // The thread whose request is being executed need not be stopped. It polls for its answer, and gets it at its next turn.
        if self.asks != Some(loser) {
            self.thread(loser).state.set(State::Stopped as u32);
            self.ready(process).add_before_equals(loser);
            self.tell_stop(loser);
        }
        Some((next, island))
    }

    /// The thread that loses its turn for the thread `next`, and its island. Only threads on islands where `next` may run are considered. A sleeping
    /// thread comes first, then the least urgent one that is less urgent than `next`. Among several, it is the one that got its turn last.
    fn loser_for(&self, process: &'a ServiceProcess, next: &ServiceThread) -> Option<(ThreadIndex, usize)> {
        let would_do = |thread: ThreadIndex| {
            let record = self.thread(thread);
            let island = record.island.get().checked_sub(1).filter(|island| *island < ISLANDS_MAX as u32)?;
            let is_it = next.islands.get() >> island & 1 != 0
                && self.state(thread) == State::Running
                && (record.priority.get() > next.priority.get() || self.is_asleep(thread));
            is_it.then_some((self.is_asleep(thread), thread, island as usize))
        };
        let of_several = self.holders(process).iter().filter_map(would_do).max_by_key(|(is_asleep, ..)| *is_asleep);
        of_several.map(|(_, thread, island)| (thread, island))
    }

    fn run(&mut self, process: &'a ServiceProcess, thread: ThreadIndex, island: usize) {
        let record = self.thread(thread);
        process.running[island].set(process.running[island].get().saturating_add(1));
        record.island.set(island as u32 + 1);
        let is_answered = self.state(thread) == State::Stopped;
        record.state.set(State::Running as u32);
        self.holders(process).add(thread);
        if is_answered {
            return self.tell_go(thread);
        }
        if self.asks == Some(thread) {
            self.asks = None;
        }
        let code = code_of(record);
        if record.flags.get() & BEGINS != 0 {
            // The answer names the island, and the thread stays there.
            record.flags.set(record.flags.get() & !BEGINS);
            record.islands.set(1 << island);
            record.answer.set(island as u32);
        }
        self.answer(thread, code, record.answer.get());
    }

    /// The island with the most free slots among those on which a thread may run.
    fn free_island(&self, process: &ServiceProcess, thread: ThreadIndex) -> Option<usize> {
        let free = |island: usize| match process.slots[island].get() {
            0 => u32::MAX - process.running[island].get(),
            slots => slots.saturating_sub(process.running[island].get()),
        };
        let allowed = (0..ISLANDS_MAX).filter(|island| self.thread(thread).islands.get() >> island & 1 != 0);
        // Among several, the first one.
        allowed.filter(|&island| free(island) != 0).min_by_key(|&island| u32::MAX - free(island))
    }

    /// Notes the number of the request that a thread's next answer is for.
    pub(super) fn set_number(&self, thread: ThreadIndex, sequence: u8) {
        let flags = &self.thread(thread).flags;
        flags.set(flags.get() & ((1 << NUMBER) - 1) | u32::from(sequence) << NUMBER);
    }

    pub(super) fn number_of_wait(&self, thread: ThreadIndex) -> u8 {
        (self.thread(thread).flags.get() >> NUMBER) as u8
    }

    fn ready(&self, process: &'a ServiceProcess) -> Queue<'a> {
        Queue::new(self.core, &process.ready)
    }

    /// The list of threads that have slots.
    fn holders(&self, process: &'a ServiceProcess) -> Queue<'a> {
        Queue::new(self.core, &process.holders)
    }

    pub(super) fn waits_for(&self, thread: ThreadIndex) -> Option<Waits> {
        Waits::from_raw(self.thread(thread).waits.get())
    }

    /// The list that a thread is in.
    fn queue_of(&self, thread: ThreadIndex) -> Option<Queue<'a>> {
        match self.state(thread) {
            State::Ready | State::Stopped => self.process(thread).map(|process| self.ready(process)),
            State::Running if self.thread(thread).island.get() != 0 => {
                self.process(thread).map(|process| self.holders(process))
            }
            State::Waiting => match self.waits_for(thread)? {
                Waits::Mutex(number) => {
                    self.core.mutex.get(usize::from(number)).map(|mutex| self.queue(&mutex.waiters))
                }
                Waits::Condition(number) => {
                    self.core.condition.get(usize::from(number)).map(|condition| self.queue(&condition.waiters))
                }
                Waits::Barrier(number) => {
                    self.core.barrier.get(usize::from(number)).map(|barrier| self.queue(&barrier.waiters))
                }
                Waits::Thread(_) | Waits::Source(_) => None,
            },
            State::None | State::New | State::Running | State::Ended => None,
        }
    }

    pub(super) fn queue(&self, head: &'a motet_layout::Cell32) -> Queue<'a> {
        Queue::new(self.core, head)
    }

    /// The thread that waits for a thread's end.
    fn joiner(&self, target: ThreadIndex) -> Option<ThreadIndex> {
        let waits = Waits::Thread(target).raw();
        let waits_for_it =
            |thread: &ThreadIndex| self.state(*thread) == State::Waiting && self.thread(*thread).waits.get() == waits;
        self.threads_of(self.owner(target)).find(waits_for_it)
    }

    /// A thread ends: its mutexes, sources of interrupts and slot go to others.
    fn end(&mut self, thread: ThreadIndex, value: u32) {
        self.leave_lists(thread);
        self.abandon_mutexes(thread);
        self.abandon_sources(thread);
        self.leave_slot(thread);
        let record = self.thread(thread);
        record.state.set(State::Ended as u32);
        record.value.set(value);
        if let Some(joiner) = self.joiner(thread) {
            self.is_joined(thread);
            self.resume(joiner, Code::Ok, value);
        }
    }

    /// Removes a thread that ends, or waits no longer, from its list.
    fn leave_lists(&mut self, thread: ThreadIndex) {
        if let Some(queue) = self.queue_of(thread) {
            queue.remove(thread);
        }
        if self.state(thread) == State::Waiting {
            match self.waits_for(thread) {
                Some(Waits::Condition(number)) => self.left_condition(thread, number),
                Some(Waits::Barrier(number)) => self.left_barrier(number),
                _ => {}
            }
        }
        self.tell_go(thread);
        self.thread(thread).waits.set(0);
        self.thread(thread).mutex.set(0);
    }

    pub(super) fn withdraw(&mut self, thread: ThreadIndex) -> Outcome {
        let record = self.thread(thread);
        match self.state(thread) {
            State::Ready => Ok(Reply::Waits), // its wait is over already
            State::Waiting => {
                match (self.waits_for(thread), record.mutex.get()) {
                    // The condition was signalled, and the thread waits only for its mutex. That wait cannot be withdrawn.
                    (Some(Waits::Mutex(_)), 1..) => {}
                    // It gets the mutex back before it continues, as if it had been signalled.
                    (Some(Waits::Condition(_)), mutex @ 1..) => {
                        self.leave_lists(thread);
                        self.take_back(thread, (mutex - 1) as u16, Code::Withdrawn);
                    }
                    _ => {
                        self.leave_lists(thread);
                        self.resume(thread, Code::Withdrawn, 0);
                    }
                }
                Ok(Reply::Waits)
            }
            State::None | State::New | State::Running | State::Ended | State::Stopped => {
                Ok(Reply::But(code_of(record), record.answer.get()))
            }
        }
    }

    /// A kernel thread has ended.
    pub(super) fn died(&mut self, thread: ThreadIndex) {
        let record = self.thread(thread);
        // A thread that the core has not created cannot be joined.
        let was_created = record.flags.get() & (HAS_TURNS | IS_HARDWARE) != 0 || self.state(thread) == State::New;
        if self.state(thread) != State::Ended {
            self.end(thread, KILLED);
            self.give_turns(thread);
        }
        let over = if was_created { HAS_DIED } else { HAS_DIED | IS_DETACHED };
        record.flags.set(record.flags.get() | over);
        self.reclaim(thread);
    }
}
