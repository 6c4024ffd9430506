//! FreeRTOS on the board: it owns the processor. Its sources are compiled by the build script, with what is in `guests/freertos`; this is
//! the Rust side of `shim.c` and of its ports.
#![allow(unsafe_code)]

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use motet_guest_board::{self as board, Boot, Masked, interrupts, masked};
use motet_thread_metric::{BLOCK_LEN, Message, Pool, Queue, Rtos, Semaphore, Thread};

unsafe extern "C" {
    safe fn motet_freertos_create(priority: usize) -> usize;
    safe fn motet_freertos_start();
    safe fn motet_freertos_relinquish();
    safe fn motet_freertos_ticks() -> u64;
    safe fn motet_freertos_sleep_until(tick: u64);
    safe fn motet_freertos_semaphore(count: u32) -> usize;
    safe fn motet_freertos_queue(capacity: usize, message_len: usize) -> usize;
    safe fn motet_freertos_allocate(len: usize) -> usize;
    // Of these, the number of an object has to be one that was created.
    fn motet_freertos_resume(thread: usize);
    fn motet_freertos_resume_from_interrupt(thread: usize);
    fn motet_freertos_suspend(thread: usize);
    fn motet_freertos_take(semaphore: usize);
    fn motet_freertos_give(semaphore: usize) -> isize;
    fn motet_freertos_give_from_interrupt(semaphore: usize) -> isize;
    fn motet_freertos_send(queue: usize, message: *const Message);
    fn motet_freertos_receive(queue: usize, message: *mut Message);
    fn motet_freertos_release(block: usize);
}

/// FreeRTOS.
#[derive(Debug)]
pub struct FreeRtos;

/// A thread's function, and its argument.
type Main = (fn(usize), usize);

const THREADS_MAX: usize = 32;
static MAINS: Masked<[Option<Main>; THREADS_MAX]> = Masked::new([None; THREADS_MAX]);
static HANDLER: Masked<Option<fn()>> = Masked::new(None);
static ARGUMENTS: Masked<&str> = Masked::new("");

/// Ticks are due at `START + number * PERIOD`, by the clock.
static START: AtomicU64 = AtomicU64::new(0);
static PERIOD: AtomicU64 = AtomicU64::new(0);
/// The tick that the alarm is set to.
static NEXT_TICK: AtomicU64 = AtomicU64::new(0);
static TICK_HANDLED_AT: AtomicU64 = AtomicU64::new(0);

impl FreeRtos {
    /// Runs Thread-Metric.
    pub fn run(boot: Boot) -> ! {
        masked(|mask| ARGUMENTS.with(mask, |it| *it = boot.arguments));
        motet_thread_metric::run::<Self>()
    }
}

/// What FreeRTOS and its ports call.
mod callbacks {
    use core::ffi::{CStr, c_char};

    use super::*;

    #[unsafe(no_mangle)]
    extern "C" fn motet_freertos_thread(thread: usize) {
        let main = masked(|mask| MAINS.with(mask, |mains| mains[thread]));
        main.into_iter().for_each(|(main, argument)| main(argument));
    }

    #[unsafe(no_mangle)]
    extern "C" fn motet_freertos_idle() {
        board::wait_for_interrupt();
    }

    #[unsafe(no_mangle)]
    extern "C" fn motet_freertos_start_ticks() {
        START.store(board::now(), Relaxed);
        NEXT_TICK.store(0, Relaxed);
        interrupts::set_up();
        motet_freertos_next_tick();
    }

    /// If it has been, the next tick comes at once.
    #[unsafe(no_mangle)]
    extern "C" fn motet_freertos_next_tick() {
        NEXT_TICK.store(NEXT_TICK.load(Relaxed) + 1, Relaxed);
        interrupts::set_alarm(FreeRtos::time_of(NEXT_TICK.load(Relaxed)));
    }

    #[unsafe(no_mangle)]
    extern "C" fn motet_freertos_tick_begins() {
        TICK_HANDLED_AT.store(board::now(), Relaxed);
    }

    #[unsafe(no_mangle)]
    extern "C" fn motet_freertos_software_interrupt() {
        let handler = masked(|mask| HANDLER.with(mask, |handler| *handler));
        handler.into_iter().for_each(|handler| handler());
    }

    #[unsafe(no_mangle)]
    extern "C" fn motet_freertos_unknown_interrupt(interrupt: u64) {
        board::fail(format_args!("an interrupt that nobody asked for: {interrupt}"));
    }

    #[unsafe(no_mangle)]
    extern "C" fn motet_freertos_assert(file: *const c_char, line: usize) {
        // SAFETY: the compiler's name of a file.
        let file = unsafe { CStr::from_ptr(file) };
        board::fail(format_args!("FreeRTOS: {file:?}, line {line}"));
    }
}

impl Rtos for FreeRtos {
    const NAME: &'static str = "FreeRTOS";

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
        PERIOD.store((board::frequency() * u64::from(tick_us) / 1_000_000).max(1), Relaxed);
        masked(|mask| MAIN.with(mask, |it| *it = Some(main)));
        let thread = motet_freertos_create(0);
        masked(|mask| MAINS.with(mask, |mains| mains[thread] = Some((first, 0))));
        motet_freertos_start();
        board::fail(format_args!("FreeRTOS does not start"))
    }

    fn create(priority: u8, main: fn(usize), argument: usize) -> Thread {
        // The caller is the most urgent thread, so the new one does not run before it is suspended.
        let thread = motet_freertos_create(usize::from(priority));
        Self::suspend(Thread(thread));
        masked(|mask| MAINS.with(mask, |mains| mains[thread] = Some((main, argument))));
        Thread(thread)
    }

    fn resume(thread: Thread) {
        // SAFETY: the tests pass what was created, here and below.
        unsafe { motet_freertos_resume(thread.0) };
    }

    fn resume_from_interrupt(thread: Thread) {
        // SAFETY: as above.
        unsafe { motet_freertos_resume_from_interrupt(thread.0) };
    }

    fn suspend(thread: Thread) {
        // SAFETY: as above.
        unsafe { motet_freertos_suspend(thread.0) };
    }

    fn relinquish() {
        motet_freertos_relinquish();
    }

    fn ticks() -> u64 {
        motet_freertos_ticks()
    }

    fn sleep_until(tick: u64) {
        motet_freertos_sleep_until(tick);
    }

    fn semaphore(count: u32) -> Semaphore {
        Semaphore(motet_freertos_semaphore(count))
    }

    fn take(semaphore: Semaphore) {
        // SAFETY: as above.
        unsafe { motet_freertos_take(semaphore.0) };
    }

    fn give(semaphore: Semaphore) {
        // SAFETY: as above.
        if unsafe { motet_freertos_give(semaphore.0) } == 0 {
            board::fail(format_args!("a semaphore counts no further"));
        }
    }

    fn give_from_interrupt(semaphore: Semaphore) {
        // SAFETY: as above.
        if unsafe { motet_freertos_give_from_interrupt(semaphore.0) } == 0 {
            board::fail(format_args!("a semaphore counts no further"));
        }
    }

    fn queue() -> Queue {
        Queue(motet_freertos_queue(16, size_of::<Message>()))
    }

    fn send(queue: Queue, message: Message) {
        // SAFETY: as above; the message is copied.
        unsafe { motet_freertos_send(queue.0, &raw const message) };
    }

    fn receive(queue: Queue) -> Message {
        let mut message = Message::default();
        // SAFETY: as above; a message is written.
        unsafe { motet_freertos_receive(queue.0, &raw mut message) };
        message
    }

    /// FreeRTOS has no pools: blocks are from its heap, as in Thread-Metric's own port.
    fn pool() -> Pool {
        Pool(0)
    }

    fn allocate(_: Pool) -> usize {
        match motet_freertos_allocate(BLOCK_LEN) {
            0 => board::fail(format_args!("the heap is full")),
            block => block,
        }
    }

    fn release(_: Pool, block: usize) {
        // SAFETY: it was allocated.
        unsafe { motet_freertos_release(block) };
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
