//! Thread-Metric's tests of services.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::{Counter, Past, Pool, Queue, Rtos, Semaphore, Test, Thread, Threads};

/// Of the threads of a test that has one thread, or several of one priority.
const PRIORITY: u8 = 10;
const THREADS: usize = 5;

/// The tests in the order of Thread-Metric's description.
pub fn tests<R: Rtos>() -> [Test; 8] {
    [
        Test { name: "basic", start: basic_start::<R>, report: basic_report::<R> },
        Test { name: "cooperative", start: cooperative_start::<R>, report: many_report::<R, 0> },
        Test { name: "preemptive", start: preemptive_start::<R>, report: many_report::<R, 1> },
        Test { name: "interrupt", start: interrupt_start::<R>, report: interrupt_report::<R> },
        Test { name: "interrupt-preemption", start: preemption_start::<R>, report: preemption_report::<R> },
        Test { name: "message", start: message_start::<R>, report: single_report::<R, 0> },
        Test { name: "synchronization", start: synchronization_start::<R>, report: single_report::<R, 1> },
        Test { name: "memory", start: memory_start::<R>, report: single_report::<R, 2> },
    ]
}

fn one<R: Rtos>(main: fn(usize)) -> Threads {
    [begin::<R>(PRIORITY, main, 0), None, None, None, None]
}

/// A new thread that may run.
pub fn begin<R: Rtos>(priority: u8, main: fn(usize), argument: usize) -> Option<Thread> {
    let thread = R::create(priority, main, argument);
    R::resume(thread);
    Some(thread)
}

/// Prints how far a count has come since the last report, if it has.
fn print<R: Rtos>(name: &str, count: u64, past: Past) -> Result<Option<u64>, &'static str> {
    let counted = count - past.count;
    if counted == 0 {
        return Ok(None);
    }
    R::print(format_args!("{name} {counted}"));
    Ok(Some(count))
}

/// Whether counters that take turns have all been counted equally often, give or take the turn under way, and some that were lost.
fn fit(counters: &[&Counter], lost_turns: u64) -> Result<u64, &'static str> {
    let counts = || counters.iter().map(|counter| counter.get());
    if counts().max() > counts().min().map(|least| least + 1 + lost_turns) {
        return Err("some have been counted more often than others");
    }
    Ok(counts().sum())
}

// ---------------------------------------------------------------------------------------------------------------------
// Basic processing: one thread computes. What the others are compared with.

static CELLS: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];
static PASSES: Counter = Counter::new();

/// What a pass makes of a cell.
fn mixed(cell: u32, pass: u64) -> u32 {
    cell.wrapping_add(pass as u32) ^ cell
}

/// One pass over all cells after the other.
pub fn compute(_: usize) {
    loop {
        for cell in &CELLS {
            cell.store(mixed(cell.load(Relaxed), PASSES.get()), Relaxed);
        }
        PASSES.count();
    }
}

fn basic_start<R: Rtos>() -> Threads {
    one::<R>(compute)
}

fn basic_report<R: Rtos>(past: Past) -> Result<Option<u64>, &'static str> {
    let passes = PASSES.get();
    let cell = (0..passes).fold(0, mixed);
    // The pass under way has come to some cell, or to none.
    if CELLS.iter().any(|it| ![cell, mixed(cell, passes)].contains(&it.load(Relaxed))) {
        return Err("a cell has a wrong value");
    }
    print::<R>("basic", passes, past)
}

// ---------------------------------------------------------------------------------------------------------------------
// Scheduling: five threads of one priority relinquish; five threads of rising priorities resume the next and suspend themselves.

static TURNS: [[Counter; THREADS]; 2] = [const { [const { Counter::new() }; THREADS] }; 2];
/// The threads of the preemptive test, by number.
static CHAIN: [Counter; THREADS] = [const { Counter::new() }; THREADS];

fn many_report<R: Rtos, const TEST: usize>(past: Past) -> Result<Option<u64>, &'static str> {
    // Where the reporter preempts a thread, kernels may go on with the next one of its priority; FreeRTOS does.
    let lost_turns = if TEST == 0 { past.reports } else { 0 };
    let count = fit(&TURNS[TEST].each_ref(), lost_turns)?;
    print::<R>(["cooperative", "preemptive"][TEST], count, past)
}

fn cooperative_start<R: Rtos>() -> Threads {
    core::array::from_fn(|number| begin::<R>(PRIORITY, cooperative::<R>, number))
}

fn cooperative<R: Rtos>(number: usize) {
    loop {
        R::relinquish();
        TURNS[0][number].count();
    }
}

/// Only the first thread is resumed from outside.
fn preemptive_start<R: Rtos>() -> Threads {
    let mut threads = [None; THREADS];
    for (number, counter) in CHAIN.iter().enumerate() {
        let thread = R::create(PRIORITY - number as u8, preemptive::<R>, number);
        counter.set(thread.0 as u64);
        threads[number] = Some(thread);
    }
    threads[0].into_iter().for_each(R::resume);
    threads
}

fn preemptive<R: Rtos>(number: usize) {
    let thread = |number: usize| Thread(CHAIN[number].get() as usize);
    loop {
        if number + 1 < THREADS {
            R::resume(thread(number + 1));
        }
        TURNS[1][number].count();
        if number > 0 {
            R::suspend(thread(number));
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Interrupts: a thread raises one, whose handler gives a semaphore that the thread then takes; or resumes a thread that is more
// urgent, which suspends itself.

static HANDLED: Counter = Counter::new();
static RAISED: Counter = Counter::new();
static SEMAPHORE: Counter = Counter::new();

/// Raises the interrupt, and waits until it was handled, as no processor promises when that is.
fn raise<R: Rtos>() {
    let before = HANDLED.get();
    R::raise();
    while HANDLED.get() == before {
        core::hint::spin_loop();
    }
}

fn interrupt_start<R: Rtos>() -> Threads {
    fn handler<R: Rtos>() {
        HANDLED.count();
        R::give_from_interrupt(Semaphore(SEMAPHORE.get() as usize));
    }
    SEMAPHORE.set(R::semaphore(0).0 as u64);
    R::handle(handler::<R>);
    one::<R>(interrupt::<R>)
}

fn interrupt<R: Rtos>(_: usize) {
    let semaphore = Semaphore(SEMAPHORE.get() as usize);
    loop {
        raise::<R>();
        R::take(semaphore);
        RAISED.count();
    }
}

fn interrupt_report<R: Rtos>(past: Past) -> Result<Option<u64>, &'static str> {
    fit(&[&HANDLED, &RAISED], 0)?;
    print::<R>("interrupt", RAISED.get(), past)
}

static PREEMPTING: Counter = Counter::new();
/// By the thread that preempts, and the one that is preempted.
static PREEMPTIONS: [Counter; 2] = [const { Counter::new() }; 2];

fn preemption_start<R: Rtos>() -> Threads {
    fn handler<R: Rtos>() {
        HANDLED.count();
        R::resume_from_interrupt(Thread(PREEMPTING.get() as usize));
    }
    HANDLED.set(0);
    let urgent = R::create(PRIORITY - 1, preempting::<R>, 0);
    PREEMPTING.set(urgent.0 as u64);
    R::handle(handler::<R>);
    R::resume(urgent);
    [Some(urgent), begin::<R>(PRIORITY, preempted::<R>, 0), None, None, None]
}

fn preempting<R: Rtos>(_: usize) {
    loop {
        // It comes here before the first interrupt, as it is resumed when it is created.
        R::suspend(Thread(PREEMPTING.get() as usize));
        PREEMPTIONS[0].count();
    }
}

fn preempted<R: Rtos>(_: usize) {
    loop {
        raise::<R>();
        PREEMPTIONS[1].count();
    }
}

fn preemption_report<R: Rtos>(past: Past) -> Result<Option<u64>, &'static str> {
    fit(&[&HANDLED, &PREEMPTIONS[0], &PREEMPTIONS[1]], 0)?;
    print::<R>("interrupt-preemption", PREEMPTIONS[1].get(), past)
}

// ---------------------------------------------------------------------------------------------------------------------
// One thread that does something and its opposite.

static DONE: [Counter; 3] = [const { Counter::new() }; 3];
/// What it does that with.
static OBJECTS: [Counter; 3] = [const { Counter::new() }; 3];

fn single_report<R: Rtos, const TEST: usize>(past: Past) -> Result<Option<u64>, &'static str> {
    print::<R>(["message", "synchronization", "memory"][TEST], DONE[TEST].get(), past)
}

fn message_start<R: Rtos>() -> Threads {
    OBJECTS[0].set(R::queue().0 as u64);
    one::<R>(message::<R>)
}

fn message<R: Rtos>(_: usize) {
    let queue = Queue(OBJECTS[0].get() as usize);
    loop {
        let sent = [DONE[0].get(), !DONE[0].get()];
        R::send(queue, sent);
        if R::receive(queue) != sent {
            R::fail(format_args!("message: another one came out than went in"));
        }
        DONE[0].count();
    }
}

fn synchronization_start<R: Rtos>() -> Threads {
    OBJECTS[1].set(R::semaphore(1).0 as u64);
    one::<R>(synchronization::<R>)
}

fn synchronization<R: Rtos>(_: usize) {
    let semaphore = Semaphore(OBJECTS[1].get() as usize);
    loop {
        R::take(semaphore);
        R::give(semaphore);
        DONE[1].count();
    }
}

fn memory_start<R: Rtos>() -> Threads {
    OBJECTS[2].set(R::pool().0 as u64);
    one::<R>(memory::<R>)
}

fn memory<R: Rtos>(_: usize) {
    let pool = Pool(OBJECTS[2].get() as usize);
    loop {
        let block = R::allocate(pool);
        R::release(pool, block);
        DONE[2].count();
    }
}
