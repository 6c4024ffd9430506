//! Motet's real-time kernel on the board: it owns the processor. Calls run with interrupts masked; then the thread that is next
//! gets its stack. So do interrupts, on the stack of the thread that they interrupt: that thread goes on where it was when it is
//! next again.

use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use motet_guest_board::{
    self as board, Boot, Mask, Masked,
    interrupts::{self, Interrupt},
    masked, stacks,
};
use motet_rtos::{Kernel, Outcome, PoolId, Priority, QueueId, SemaphoreId, ThreadId, Value, Wait};
use motet_thread_metric::{BLOCK_LEN, Message, Pool, Queue, Rtos, Semaphore, Thread};

const _: () = assert!(stacks::COUNT >= motet_rtos::THREADS_MAX);

/// The kernel on the board.
#[derive(Debug)]
pub struct Motet;

static KERNEL: Masked<Kernel> = Masked::new(Kernel::new());
/// A thread's function, and its argument.
type Main = (fn(usize), usize);

/// What each thread runs.
static MAINS: Masked<[Option<Main>; stacks::COUNT]> = Masked::new([None; stacks::COUNT]);
static HANDLER: Masked<Option<fn()>> = Masked::new(None);
static ARGUMENTS: Masked<&str> = Masked::new("");
/// Calls of a handler change who is next, but it goes on until it has ended.
static IS_IN_INTERRUPT: AtomicBool = AtomicBool::new(false);

/// Ticks are due at `start + number * period`, by the clock.
static START: AtomicU64 = AtomicU64::new(0);
static PERIOD: AtomicU64 = AtomicU64::new(0);
static TICK_HANDLED_AT: AtomicU64 = AtomicU64::new(0);

impl Motet {
    /// Runs Thread-Metric.
    pub fn run(boot: Boot) -> ! {
        masked(|mask| ARGUMENTS.with(mask, |it| *it = boot.arguments));
        motet_thread_metric::run::<Self>()
    }
}

/// A call of the kernel; then whoever is next runs.
fn call<T>(operation: impl FnOnce(&mut Kernel) -> T) -> T {
    masked(|mask| {
        let result = KERNEL.with(mask, operation);
        if !IS_IN_INTERRUPT.load(Relaxed) {
            run_next(mask);
        }
        result
    })
}

/// A call that may wait: it comes back when the caller runs again.
fn wait(operation: impl FnOnce(&mut Kernel) -> Outcome) -> Value {
    let answer = match call(operation) {
        Outcome::Now(answer) => answer,
        Outcome::Later => masked(|mask| KERNEL.with(mask, Kernel::collect)),
    };
    done(answer)
}

fn run_next(mask: &Mask) {
    let next = KERNEL.with(mask, Kernel::next);
    stacks::switch(mask, next.index());
}

fn interrupt(mask: &Mask, interrupt: Interrupt) {
    IS_IN_INTERRUPT.store(true, Relaxed);
    match interrupt {
        Interrupt::Timer => {
            TICK_HANDLED_AT.store(board::now(), Relaxed);
            let ticks = KERNEL.with(mask, |kernel| {
                kernel.tick();
                kernel.now()
            });
            // If that has been, the next tick comes at once.
            interrupts::set_alarm(Motet::time_of(ticks + 1));
        }
        // Nobody has enabled any.
        Interrupt::Device(_) => {}
        Interrupt::Software => HANDLER.with(mask, |handler| *handler).into_iter().for_each(|handler| handler()),
    }
    IS_IN_INTERRUPT.store(false, Relaxed);
    run_next(mask);
}

/// The first thing on a thread's stack.
fn begin(thread: usize) -> ! {
    let main = masked(|mask| MAINS.with(mask, |mains| mains[thread]));
    if let Some((main, argument)) = main {
        main(argument);
    }
    loop {
        Motet::suspend(Thread(thread));
    }
}

/// For what does not fail: images have few objects, and use what they have created.
fn done<T>(result: Result<T, motet_rtos::Error>) -> T {
    result.unwrap_or_else(|error| board::fail(format_args!("a call has failed: {error:?}")))
}

impl Rtos for Motet {
    const NAME: &'static str = "motet-rtos";

    fn arguments() -> &'static str {
        masked(|mask| ARGUMENTS.with(mask, |arguments| *arguments))
    }

    fn print(line: fmt::Arguments<'_>) {
        board::print_line(line);
    }

    fn fail(reason: fmt::Arguments<'_>) -> ! {
        board::fail(reason)
    }

    fn end() -> ! {
        board::power_off(true)
    }

    fn start(tick_us: u32, main: fn()) -> ! {
        static MAIN: Masked<Option<fn()>> = Masked::new(None);
        fn first(_: usize) {
            let main = masked(|mask| MAIN.with(mask, |main| *main));
            main.into_iter().for_each(|main| main());
        }
        let period = (board::frequency() * u64::from(tick_us) / 1_000_000).max(1);
        PERIOD.store(period, Relaxed);
        START.store(board::now(), Relaxed);
        masked(|mask| MAIN.with(mask, |it| *it = Some(main)));
        interrupts::start(interrupt);
        interrupts::set_alarm(Self::time_of(1));
        Self::resume(Self::create(0, first, 0));
        // From here on this is the idle thread.
        interrupts::enable();
        loop {
            board::wait_for_interrupt();
        }
    }

    fn create(priority: u8, main: fn(usize), argument: usize) -> Thread {
        let priority = Priority::new(priority).unwrap_or_else(|| board::fail(format_args!("priority {priority}")));
        masked(|mask| {
            let thread = done(KERNEL.with(mask, |kernel| kernel.create(priority))).index();
            MAINS.with(mask, |mains| mains[thread] = Some((main, argument)));
            stacks::prepare(mask, thread, begin, thread);
            Thread(thread)
        })
    }

    fn resume(thread: Thread) {
        call(|kernel| kernel.resume(ThreadId::from_index(thread.0)));
    }

    fn resume_from_interrupt(thread: Thread) {
        Self::resume(thread);
    }

    fn suspend(thread: Thread) {
        done(call(|kernel| kernel.suspend(ThreadId::from_index(thread.0))));
    }

    fn relinquish() {
        call(Kernel::relinquish);
    }

    fn ticks() -> u64 {
        masked(|mask| KERNEL.with(mask, |kernel| kernel.now()))
    }

    fn sleep_until(tick: u64) {
        wait(|kernel| kernel.sleep_until(tick));
    }

    fn semaphore(count: u32) -> Semaphore {
        Semaphore(done(call(|kernel| kernel.create_semaphore(count))).index())
    }

    fn take(semaphore: Semaphore) {
        wait(|kernel| kernel.take(SemaphoreId::from_index(semaphore.0), Wait::Forever));
    }

    fn give(semaphore: Semaphore) {
        done(call(|kernel| kernel.give(SemaphoreId::from_index(semaphore.0))));
    }

    fn give_from_interrupt(semaphore: Semaphore) {
        Self::give(semaphore);
    }

    fn queue() -> Queue {
        Queue(done(call(|kernel| kernel.create_queue(motet_rtos::MESSAGES_MAX))).index())
    }

    fn send(queue: Queue, message: Message) {
        wait(|kernel| kernel.send(QueueId::from_index(queue.0), message, Wait::Forever));
    }

    fn receive(queue: Queue) -> Message {
        match wait(|kernel| kernel.receive(QueueId::from_index(queue.0), Wait::Forever)) {
            Value::Message(message) => message,
            other @ (Value::Nothing | Value::Block(_)) => board::fail(format_args!("received {other:?}")),
        }
    }

    fn pool() -> Pool {
        const BLOCKS: usize = 16;
        #[repr(align(16))]
        struct Memory([core::sync::atomic::AtomicU8; BLOCKS * BLOCK_LEN]);
        static MEMORY: Memory = Memory([const { core::sync::atomic::AtomicU8::new(0) }; BLOCKS * BLOCK_LEN]);
        let start = (&raw const MEMORY.0).addr();
        Pool(done(call(|kernel| kernel.create_pool(start, BLOCK_LEN, BLOCKS))).index())
    }

    fn allocate(pool: Pool) -> usize {
        match wait(|kernel| kernel.allocate(PoolId::from_index(pool.0), Wait::Forever)) {
            Value::Block(address) => address,
            other @ (Value::Nothing | Value::Message(_)) => board::fail(format_args!("allocated {other:?}")),
        }
    }

    fn release(pool: Pool, block: usize) {
        done(call(|kernel| kernel.release(PoolId::from_index(pool.0), block)));
    }

    fn handle(handler: fn()) {
        masked(|mask| HANDLER.with(mask, |it| *it = Some(handler)));
    }

    fn raise() {
        interrupts::raise();
    }

    fn now() -> u64 {
        board::now()
    }

    fn frequency() -> u64 {
        board::frequency()
    }

    fn time_of(tick: u64) -> u64 {
        START.load(Relaxed) + tick * PERIOD.load(Relaxed)
    }

    fn tick_handled_at() -> u64 {
        TICK_HANDLED_AT.load(Relaxed)
    }
}
