//! Thread-Metric, the public benchmark of real-time kernels (Express Logic, 2007), written from its published description: eight
//! tests, each of which does one service and its opposite over and over, and counts. A reporter, the most urgent thread, wakes
//! at the end of each interval, looks whether what was counted fits together, and prints `NAME COUNT`. A ninth test measures
//! response times (the task release latency of Ker-ONE's evaluation): it prints `NAME MIN MEAN MAX SAMPLES`, in nanoseconds.
//!
//! A kernel that is measured implements [`Rtos`]. Counters are atomics that are loaded and stored, never modified in one step,
//! because guests' memory on AArch64 is of a type that has no such operations; each is written by one thread or handler.
#![no_std]
#![forbid(unsafe_code)]

mod options;
mod response;
mod services;

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

pub use options::Options;

/// A thread of the kernel that is measured, by a number of its own choice.
#[derive(Clone, Copy, Debug)]
pub struct Thread(pub usize);
/// A semaphore.
#[derive(Clone, Copy, Debug)]
pub struct Semaphore(pub usize);
/// A message queue.
#[derive(Clone, Copy, Debug)]
pub struct Queue(pub usize);
/// A pool of memory blocks.
#[derive(Clone, Copy, Debug)]
pub struct Pool(pub usize);
/// A message.
pub type Message = [u64; 2];

/// Bytes of a block in [`Rtos::pool`].
pub const BLOCK_LEN: usize = 128;

/// What a real-time kernel does for the tests. Nothing of it fails: an implementation that cannot do it ends by [`Rtos::fail`].
pub trait Rtos {
    /// As it calls itself.
    const NAME: &'static str;

    /// How the guest was started.
    fn arguments() -> &'static str;
    /// Prints a line.
    fn print(line: fmt::Arguments<'_>);
    /// Says what is wrong and ends the machine.
    fn fail(reason: fmt::Arguments<'_>) -> !;
    /// Ends the machine after success.
    fn end() -> !;

    /// Starts the kernel with ticks of this length, and in it a thread of priority 0 that runs `main`.
    fn start(tick_us: u32, main: fn()) -> !;
    /// A thread of a priority (0 is the most urgent, up to 30), suspended. `main` never returns.
    fn create(priority: u8, main: fn(usize), argument: usize) -> Thread;
    /// Lets a suspended thread run.
    fn resume(thread: Thread);
    /// The same in a handler of an interrupt.
    fn resume_from_interrupt(thread: Thread);
    /// Keeps another thread, or this one, from running.
    fn suspend(thread: Thread);
    /// Lets other threads of this priority run first.
    fn relinquish();
    /// Ticks since the start.
    fn ticks() -> u64;
    /// Waits until so many ticks have been since the start.
    fn sleep_until(tick: u64);

    /// A new semaphore.
    fn semaphore(count: u32) -> Semaphore;
    /// Counts down, waiting if need be.
    fn take(semaphore: Semaphore);
    /// Counts up.
    fn give(semaphore: Semaphore);
    /// The same in a handler of an interrupt.
    fn give_from_interrupt(semaphore: Semaphore);

    /// A new queue for some messages.
    fn queue() -> Queue;
    /// Puts a message behind the others, waiting if need be.
    fn send(queue: Queue, message: Message);
    /// Takes the oldest message, waiting if need be.
    fn receive(queue: Queue) -> Message;

    /// A new pool of blocks of [`BLOCK_LEN`] bytes.
    fn pool() -> Pool;
    /// Takes a block; its address.
    fn allocate(pool: Pool) -> usize;
    /// Gives a block back.
    fn release(pool: Pool, block: usize);

    /// From now on the software interrupt calls `handler`.
    fn handle(handler: fn());
    /// Raises the software interrupt.
    fn raise();

    /// The clock, in counts.
    fn now() -> u64;
    /// Counts of the clock in a second.
    fn frequency() -> u64;
    /// What the clock reads when a tick is due.
    fn time_of(tick: u64) -> u64;
    /// What the clock has read when the handler of the last tick began.
    fn tick_handled_at() -> u64;
}

/// Counts what happens; see the crate about who writes it.
#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub fn count(&self) {
        self.set(self.get().wrapping_add(1));
    }
}

/// So many intervals may pass until there is something to report. A host may keep a machine from running for longer than an interval, all ticks
/// of which come at once afterwards.
const INTERVALS_MAX: u32 = 50;

/// What [`Test::start`] has created.
pub(crate) type Threads = [Option<Thread>; 5];

/// The reports of a test so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    pub reports: u64,
    /// What the last one has returned.
    pub count: u64,
}

/// A test, for one kernel.
pub(crate) struct Test {
    pub name: &'static str,
    /// Creates its objects and threads, and lets those run that begin.
    pub start: fn() -> Threads,
    /// Prints what has happened since the last report; `None` if that is nothing. `Err`: what does not fit together.
    pub report: fn(Past) -> Result<Option<u64>, &'static str>,
}

/// Runs the tests that the guest's arguments name, and ends the machine.
pub fn run<R: Rtos>() -> ! {
    R::start(options::<R>().tick_us, report::<R>)
}

fn options<R: Rtos>() -> Options {
    Options::parse(R::arguments()).unwrap_or_else(|word| R::fail(format_args!("bad argument: {word}")))
}

/// The reporter.
fn report<R: Rtos>() {
    let options = options::<R>();
    R::print(format_args!("{}: interval {} ms, tick {} us", R::NAME, options.interval_ms, options.tick_us));
    let mut passed = 0;
    for test in services::tests::<R>().into_iter().chain([response::test::<R>()]) {
        if options.wants(test.name) {
            run_one::<R>(&test, options);
            passed += 1;
        }
    }
    if passed == 0 {
        R::fail(format_args!("there is no test {}", options.test));
    }
    R::print(format_args!("passed {passed}"));
    R::end();
}

fn run_one<R: Rtos>(test: &Test, options: Options) {
    let threads = (test.start)();
    let mut past = Past::default();
    for reports in 1..=u64::from(options.rounds) {
        let report = |_| {
            R::sleep_until(R::ticks() + options.interval_ticks());
            (test.report)(past).unwrap_or_else(|why| R::fail(format_args!("{}: {why}", test.name)))
        };
        let count = (0..INTERVALS_MAX).find_map(report);
        let count = count.unwrap_or_else(|| R::fail(format_args!("{}: nothing happens", test.name)));
        past = Past { reports, count };
    }
    threads.into_iter().flatten().for_each(R::suspend);
}
