//! Calls one by one, and random programs: threads that do anything, with interrupts between any two calls.

use std::{vec, vec::Vec};

use proptest::prelude::*;

use crate::{kernel::Object, *};

fn thread(kernel: &mut Kernel, level: u8) -> ThreadId {
    let thread = kernel.create(Priority::new(level).unwrap()).unwrap();
    kernel.resume(thread);
    thread
}

const NOTHING: Outcome = Outcome::Now(Ok(Value::Nothing));

#[test]
fn the_most_urgent_thread_that_is_ready_is_next() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.next(), ThreadId::IDLE);
    let low = thread(&mut kernel, 9);
    assert_eq!(kernel.next(), low);
    let high = thread(&mut kernel, 3);
    assert_eq!(kernel.next(), high);
    kernel.suspend(high).unwrap();
    assert_eq!(kernel.next(), low);
    kernel.resume(high);
    assert_eq!(kernel.next(), high);
    assert_eq!(kernel.suspend(ThreadId::IDLE), Err(Error::Invalid));
}

#[test]
fn threads_of_one_priority_take_turns_only_when_they_relinquish() {
    let mut kernel = Kernel::new();
    let [first, second, third] = [(); 3].map(|()| thread(&mut kernel, 5));
    assert_eq!([kernel.next(), kernel.next()], [first; 2]);
    // Preempted, it stays before the others.
    let urgent = thread(&mut kernel, 1);
    assert_eq!(kernel.next(), urgent);
    kernel.suspend(urgent).unwrap();
    for wanted in [first, second, third, first] {
        assert_eq!(kernel.next(), wanted);
        kernel.relinquish();
    }
}

#[test]
fn waiters_are_served_by_priority_then_in_order() {
    let mut kernel = Kernel::new();
    let semaphore = kernel.create_semaphore(1).unwrap();
    let mut waiters = Vec::new();
    for level in [7, 4, 7, 4] {
        let thread = kernel.create(Priority::new(level).unwrap()).unwrap();
        kernel.resume(thread);
        waiters.push(kernel.next());
        if waiters.len() == 1 {
            assert_eq!(kernel.take(semaphore, Wait::Forever), NOTHING);
        }
        assert_eq!(kernel.take(semaphore, Wait::Forever), Outcome::Later);
    }
    for wanted in [1, 3, 0, 2] {
        kernel.give(semaphore).unwrap();
        assert_eq!(kernel.next(), waiters[wanted]);
        assert_eq!(kernel.collect(), Ok(Value::Nothing));
        kernel.suspend(waiters[wanted]).unwrap();
    }
}

#[test]
fn a_wait_ends_at_its_tick_and_a_sleep_too() {
    let mut kernel = Kernel::new();
    let queue = kernel.create_queue(1).unwrap();
    let waiter = thread(&mut kernel, 2);
    kernel.next();
    assert_eq!(kernel.receive(queue, Wait::Ticks(2)), Outcome::Later);
    let sleeper = thread(&mut kernel, 1);
    kernel.next();
    assert_eq!(kernel.sleep_until(1), Outcome::Later);
    assert_eq!(kernel.next(), ThreadId::IDLE);
    kernel.tick();
    assert_eq!(kernel.next(), sleeper);
    assert_eq!(kernel.collect(), Ok(Value::Nothing));
    assert_eq!(kernel.sleep_until(1), NOTHING);
    assert_eq!(kernel.sleep_until(9), Outcome::Later);
    kernel.tick();
    assert_eq!(kernel.next(), waiter);
    assert_eq!(kernel.collect(), Err(Error::TimedOut));
    assert_eq!(kernel.receive(queue, Wait::Ticks(0)), Outcome::Now(Err(Error::Unavailable)));
}

#[test]
fn messages_pass_a_full_queue_in_order() {
    let mut kernel = Kernel::new();
    let queue = kernel.create_queue(2).unwrap();
    let sender = thread(&mut kernel, 2);
    kernel.next();
    assert_eq!(kernel.send(queue, [1, 0], Wait::No), NOTHING);
    assert_eq!(kernel.send(queue, [2, 0], Wait::No), NOTHING);
    assert_eq!(kernel.send(queue, [3, 0], Wait::No), Outcome::Now(Err(Error::Unavailable)));
    assert_eq!(kernel.send(queue, [3, 0], Wait::Forever), Outcome::Later);
    let receiver = thread(&mut kernel, 5);
    assert_eq!(kernel.next(), receiver);
    for number in 1..=3 {
        assert_eq!(kernel.receive(queue, Wait::No), Outcome::Now(Ok(Value::Message([number, 0]))));
    }
    assert_eq!(kernel.receive(queue, Wait::Forever), Outcome::Later);
    assert_eq!(kernel.next(), sender);
    assert_eq!(kernel.collect(), Ok(Value::Nothing));
    assert_eq!(kernel.send(queue, [4, 0], Wait::No), NOTHING);
    kernel.suspend(sender).unwrap();
    assert_eq!(kernel.next(), receiver);
    assert_eq!(kernel.collect(), Ok(Value::Message([4, 0])));
}

#[test]
fn blocks_are_given_back_once_and_only_where_they_came_from() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.create_pool(0, 0, 4), Err(Error::Invalid));
    assert_eq!(kernel.create_pool(usize::MAX - 10, 4, 4), Err(Error::Invalid));
    let pool = kernel.create_pool(1000, 128, 2).unwrap();
    let [first, second] = [(); 2].map(|()| kernel.allocate(pool, Wait::No));
    assert_eq!([first, second], [1000, 1128].map(|address| Outcome::Now(Ok(Value::Block(address)))));
    assert_eq!(kernel.allocate(pool, Wait::No), Outcome::Now(Err(Error::Unavailable)));
    for wrong in [0, 999, 1001, 1256] {
        assert_eq!(kernel.release(pool, wrong), Err(Error::Invalid));
    }
    kernel.release(pool, 1000).unwrap();
    assert_eq!(kernel.release(pool, 1000), Err(Error::Invalid));
    let waiter = thread(&mut kernel, 0);
    kernel.next();
    assert_eq!(kernel.allocate(pool, Wait::Forever), Outcome::Now(Ok(Value::Block(1000))));
    assert_eq!(kernel.allocate(pool, Wait::Forever), Outcome::Later);
    kernel.release(pool, 1128).unwrap();
    assert_eq!(kernel.next(), waiter);
    assert_eq!(kernel.collect(), Ok(Value::Block(1128)));
    assert_eq!(kernel.release(pool, 1128), Ok(()));
}

#[test]
fn there_is_no_more_than_there_is_room_for() {
    let mut kernel = Kernel::new();
    for _ in 1..THREADS_MAX {
        kernel.create(Priority::new(0).unwrap()).unwrap();
    }
    assert_eq!(kernel.create(Priority::new(0).unwrap()), Err(Error::Full));
    for _ in 0..QUEUES_MAX {
        kernel.create_queue(MESSAGES_MAX).unwrap();
    }
    assert_eq!(kernel.create_queue(1), Err(Error::Full));
    assert_eq!(kernel.create_queue(MESSAGES_MAX + 1), Err(Error::Invalid));
    let semaphore = kernel.create_semaphore(u32::MAX).unwrap();
    assert_eq!(kernel.give(semaphore), Err(Error::Full));
    assert_eq!(Priority::new(Priority::IDLE.0), None);
}

/// What a random program does next: a call of the thread that runs, or an interrupt.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take(u8, Wait),
    Give(u8),
    Send(u8, Wait),
    Receive(u8, Wait),
    Allocate(Wait),
    Release,
    Sleep(u64),
    Relinquish,
    Suspend(u8),
    Resume(u8),
    Tick,
}

fn steps() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![Just(Wait::No), (0..5_u64).prop_map(Wait::Ticks), Just(Wait::Forever)].boxed();
    prop_oneof![
        3 => (0..2_u8, wait.clone()).prop_map(|(object, wait)| Step::Take(object, wait)),
        3 => (0..2_u8).prop_map(Step::Give),
        4 => (0..2_u8, wait.clone()).prop_map(|(object, wait)| Step::Send(object, wait)),
        3 => (0..2_u8, wait.clone()).prop_map(|(object, wait)| Step::Receive(object, wait)),
        2 => wait.prop_map(Step::Allocate),
        2 => Just(Step::Release),
        1 => (0..5_u64).prop_map(Step::Sleep),
        2 => Just(Step::Relinquish),
        1 => (0..THREADS).prop_map(Step::Suspend),
        2 => (0..THREADS).prop_map(Step::Resume),
        2 => Just(Step::Tick),
    ]
}

const THREADS: u8 = 7;
const COUNTS: [u32; 2] = [0, 2];
const CAPACITIES: [usize; 2] = [1, 3];
const BLOCKS: usize = 3;

/// A kernel, and what has to be true of it by what it has been asked and has answered.
struct Program {
    kernel: Kernel,
    threads: Vec<ThreadId>,
    semaphores: Vec<SemaphoreId>,
    queues: Vec<QueueId>,
    pool: PoolId,
    /// The call that a thread waits in.
    pending: Vec<Option<Step>>,
    given: [u32; 2],
    taken: [u32; 2],
    /// Messages of which the sender knows that they are sent.
    sent: [usize; 2],
    received: [Vec<u64>; 2],
    last_message: u64,
    blocks: Vec<usize>,
}

impl Program {
    fn new() -> Self {
        let mut kernel = Kernel::new();
        let threads: Vec<ThreadId> = (0..THREADS).map(|number| thread(&mut kernel, number / 2)).collect();
        let semaphores = COUNTS.map(|count| kernel.create_semaphore(count).unwrap()).to_vec();
        let queues = CAPACITIES.map(|capacity| kernel.create_queue(capacity).unwrap()).to_vec();
        let pool = kernel.create_pool(64, 16, BLOCKS).unwrap();
        kernel.next();
        Self {
            kernel,
            threads,
            semaphores,
            queues,
            pool,
            pending: [const { None }; THREADS_MAX].to_vec(),
            given: [0; 2],
            taken: [0; 2],
            sent: [0; 2],
            received: [const { Vec::new() }; 2],
            last_message: 0,
            blocks: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        let caller = self.kernel.running();
        let outcome = match step {
            Step::Take(object, wait) => self.kernel.take(self.semaphores[usize::from(object)], wait),
            Step::Give(object) => {
                self.kernel.give(self.semaphores[usize::from(object)]).unwrap();
                self.given[usize::from(object)] += 1;
                return;
            }
            Step::Send(object, wait) => {
                self.last_message += 1;
                let message = [self.last_message, u64::from(object)];
                self.kernel.send(self.queues[usize::from(object)], message, wait)
            }
            Step::Receive(object, wait) => self.kernel.receive(self.queues[usize::from(object)], wait),
            Step::Allocate(wait) => self.kernel.allocate(self.pool, wait),
            Step::Release => {
                if let Some(block) = self.blocks.pop() {
                    self.kernel.release(self.pool, block).unwrap();
                }
                return;
            }
            Step::Sleep(ticks) => self.kernel.sleep_until(self.kernel.now() + ticks),
            Step::Relinquish => return self.kernel.relinquish(),
            Step::Suspend(number) => return self.kernel.suspend(self.threads[usize::from(number)]).unwrap(),
            Step::Resume(number) => return self.kernel.resume(self.threads[usize::from(number)]),
            Step::Tick => return self.kernel.tick(),
        };
        match outcome {
            Outcome::Now(answer) => self.answered(step, answer),
            Outcome::Later => self.pending[caller.index()] = Some(step),
        }
    }

    /// Who is next, which has its answer if it has waited.
    fn schedule(&mut self) {
        let next = self.kernel.next();
        if let Some(step) = self.pending[next.index()].take() {
            let answer = self.kernel.collect();
            self.answered(step, answer);
        }
    }

    fn answered(&mut self, step: Step, answer: Answer) {
        let refused = |wait| match answer {
            Err(Error::TimedOut) => matches!(wait, Wait::Ticks(_)),
            Err(Error::Unavailable) => wait != Wait::Forever || self.kernel.running() == ThreadId::IDLE,
            _ => false,
        };
        match (step, answer) {
            (Step::Take(object, _), Ok(Value::Nothing)) => self.taken[usize::from(object)] += 1,
            (Step::Receive(object, _), Ok(Value::Message([number, queue]))) => {
                assert_eq!(queue, u64::from(object), "a message of another queue");
                let received = &mut self.received[usize::from(object)];
                assert!(!received.contains(&number), "it came twice");
                received.push(number);
            }
            (Step::Allocate(_), Ok(Value::Block(address))) => {
                assert!(!self.blocks.contains(&address), "a block for two");
                self.blocks.push(address);
            }
            (Step::Send(object, _), Ok(Value::Nothing)) => self.sent[usize::from(object)] += 1,
            (Step::Sleep(_), Ok(Value::Nothing)) => {}
            (Step::Take(_, wait) | Step::Send(_, wait) | Step::Receive(_, wait) | Step::Allocate(wait), Err(_))
                if refused(wait) => {}
            (Step::Sleep(_), Err(Error::Unavailable)) if self.kernel.running() == ThreadId::IDLE => {}
            (step, answer) => panic!("{step:?} was answered {answer:?}"),
        }
    }

    /// How many threads have an answer to such a call and have not run since. Some of them may have timed out.
    fn under_way(&self, is_it: impl Fn(Step) -> bool) -> usize {
        let has_answer = |index: usize| self.kernel.threads[index].waits_for.is_none();
        self.pending.iter().enumerate().filter(|(index, step)| has_answer(*index) && step.is_some_and(&is_it)).count()
    }

    /// Nobody waits for what there is; who runs is the most urgent; everything is in the one list that it belongs to.
    fn check(&self) {
        let kernel = &self.kernel;
        let is_ready = |thread: &&ThreadId| kernel.threads[thread.index()].is_ready();
        let priority = |thread: &ThreadId| kernel.threads[thread.index()].priority;
        let most_urgent = self.threads.iter().filter(is_ready).map(priority).min();
        assert_eq!(priority(&kernel.running()), most_urgent.unwrap_or(Priority::IDLE));
        for level in 0..PRIORITIES {
            let listed: Vec<ThreadId> = kernel.ready.list(level).iter(&kernel.links).collect();
            let ready = self.threads.iter().filter(is_ready).filter(|thread| priority(thread).index() == level);
            assert_eq!(listed.len(), ready.clone().count(), "priority {level}");
            assert!(ready.into_iter().all(|thread| listed.contains(thread)));
        }
        for (number, semaphore) in kernel.objects.semaphores.iter().enumerate() {
            assert!(semaphore.count == 0 || semaphore.takers.first().is_none(), "a lost wake-up");
            let under_way = self.under_way(|step| matches!(step, Step::Take(object, _) if object == number as u8));
            let missing = COUNTS[number] + self.given[number] - self.taken[number] - semaphore.count;
            assert!(missing as usize <= under_way, "{missing} of {under_way}");
        }
        for (number, queue) in kernel.objects.queues.iter().enumerate() {
            assert!(queue.len() == 0 || queue.receivers.first().is_none(), "a lost wake-up");
            assert!(queue.len() == CAPACITIES[number] || queue.senders.first().is_none(), "a lost wake-up");
            let senders = self.under_way(|step| matches!(step, Step::Send(object, _) if object == number as u8));
            let receivers = self.under_way(|step| matches!(step, Step::Receive(object, _) if object == number as u8));
            let arrived = self.received[number].len() + queue.len();
            assert!(
                self.sent[number] <= arrived + receivers && arrived <= self.sent[number] + senders,
                "lost, or more"
            );
        }
        for pool in kernel.objects.pools.iter() {
            assert!(pool.free() == 0 || pool.takers.first().is_none(), "a lost wake-up");
            assert!(pool.free() as usize + self.blocks.len() <= BLOCKS);
        }
    }

    fn check_lines(&mut self) {
        let kernel = &mut self.kernel;
        let mut deadlines = Vec::new();
        for thread in kernel.deadlines.iter(&kernel.deadline_links) {
            deadlines.push(kernel.threads[thread.index()].deadline.expect("a deadline"));
        }
        assert!(deadlines.is_sorted() && deadlines.iter().all(|deadline| *deadline > kernel.now()), "{deadlines:?}");
        for thread in &self.threads {
            let Some(object) = kernel.threads[thread.index()].waits_for else { continue };
            let Some(line) = kernel.objects.line(object).map(|line| *line) else {
                assert_eq!(object, Object::Time);
                continue;
            };
            let waiting: Vec<ThreadId> = line.iter(&kernel.links).collect();
            assert!(waiting.contains(thread));
            assert!(waiting.iter().map(|waiter| kernel.threads[waiter.index()].priority).is_sorted());
        }
    }
}

proptest! {
    #[test]
    fn random_programs_keep_priorities_and_lose_nothing(program in prop::collection::vec(steps(), 1..200)) {
        let mut running = Program::new();
        for step in program {
            running.step(step);
            running.schedule();
            running.check();
            running.check_lines();
        }
    }
}
