//! A guest that reads the time, on all of its cores at once. At the end it prints `began MICROSECONDS` (the time when it began, which is 0 when its
//! machine was made), `ended MICROSECONDS`, and `back MICROSECONDS`: how much earlier at most a core has found it than another one had before. One
//! that finds it earlier than it had itself ends the machine. Argument: `rounds`, how often each core reads it (20000).

use core::sync::atomic::{AtomicU64, Ordering};

use motet_guest_board::{self as board, Boot, cores};

/// How often each core reads the time.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
/// The latest time that a core has found, in ticks.
static LATEST: AtomicU64 = AtomicU64::new(0);
/// By how many ticks one was behind that at most.
static BACK: AtomicU64 = AtomicU64::new(0);
/// Cores that have come to an end.
static DONE: AtomicU64 = AtomicU64::new(0);

/// The guest.
pub fn run(boot: Boot) -> ! {
    let began = board::now();
    let others = boot.other_cores();
    ROUNDS.store(boot.number("rounds", 20_000), Ordering::Release);
    for (number, id) in (1..).zip(others) {
        if let Err(error) = cores::start(*id, number, read_and_stop) {
            board::fail(format_args!("core {id} does not start: error {error}"));
        }
    }
    read();
    while DONE.load(Ordering::Acquire) <= others.len() as u64 {}
    let microseconds = |ticks: u64| ticks * 1_000_000 / board::frequency();
    board::println!("began {}", microseconds(began));
    board::println!("ended {}", microseconds(board::now()));
    board::println!("back {}", microseconds(BACK.load(Ordering::Acquire)));
    board::println!("passed 1");
    board::power_off(true)
}

fn read_and_stop(_core: usize) -> ! {
    read();
    loop {
        board::wait_for_interrupt();
    }
}

fn read() {
    let mut last = 0;
    for _ in 0..ROUNDS.load(Ordering::Acquire) {
        let latest = LATEST.load(Ordering::Acquire);
        let now = board::now();
        if now < last {
            board::fail(format_args!("it is {now}, and was {last}"));
        }
        BACK.fetch_max(latest.saturating_sub(now), Ordering::AcqRel);
        LATEST.fetch_max(now, Ordering::AcqRel);
        last = now;
    }
    DONE.fetch_add(1, Ordering::AcqRel);
}
