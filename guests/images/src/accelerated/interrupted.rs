//! An accelerator whose driver sleeps until it is interrupted. There is nothing but the driver: the processor waits meanwhile.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use motet_guest_board::{
    self as board, Boot, Mask,
    accelerator::{self, Accelerator, Job},
    interrupts::{self, Interrupt},
    masked,
};

/// Those that have come, and what they are to be.
static COUNT: AtomicU64 = AtomicU64::new(0);
static EXPECTED: AtomicU32 = AtomicU32::new(0);
static IS_LATE: AtomicU64 = AtomicU64::new(0);
/// How long it waits for an interrupt that is too many.
const AFTERWARDS_US: u64 = 20_000;

/// `rounds` jobs with an interrupt each, every fourth of which is wrong, and a job after each third one whose interrupt is off.
pub fn run(boot: &Boot) -> ! {
    let accelerator = super::accelerator(boot);
    let Some(number) = accelerator.interrupt() else {
        board::fail(format_args!("it has no interrupt"));
    };
    EXPECTED.store(number, Relaxed);
    interrupts::start(interrupt);
    interrupts::enable_edge(boot, number);
    interrupts::enable();
    let (rounds, frames) = (boot.number("rounds", 4), boot.number("frames", 1) as usize);
    let (bytes, _) = super::frame(accelerator.function());
    let half = (accelerator.data_len() / super::HALVES) as u32;
    let (data, len) = (accelerator.data(), (frames * bytes) as u32);
    let job = Job { command: 0, data, len, results: data + half, interrupts: true };
    for round in 0..rounds {
        let is_wrong = round % 4 == 3;
        accelerator.begin(&if is_wrong { Job { results: data - 4, ..job } } else { job });
        sleep_until(|| COUNT.load(Relaxed) != round);
        expect(&accelerator, round, is_wrong);
        if round % 3 == 2 {
            accelerator.begin(&Job { interrupts: false, ..job });
            while !accelerator.is_over() {}
        }
    }
    interrupts::set_alarm(board::now() + board::frequency() * AFTERWARDS_US / 1_000_000);
    sleep_until(|| IS_LATE.load(Relaxed) != 0);
    let count = COUNT.load(Relaxed);
    if count != rounds {
        board::fail(format_args!("{count} interrupts of {rounds} jobs"));
    }
    board::println!("passed {rounds}");
    board::power_off(true)
}

fn expect(accelerator: &Accelerator, round: u64, is_wrong: bool) {
    let expected = if is_wrong { accelerator::FAILED | super::FAULT_ADDRESS << 8 } else { accelerator::DONE };
    let (count, status) = (COUNT.load(Relaxed), accelerator.status());
    if count != round + 1 || !accelerator.is_over() || status != expected {
        board::fail(format_args!("round {round}: {count} interrupts, status {status:#x}"));
    }
}

/// With interrupts masked, none comes between the look and the sleep, which a pending one ends as well.
fn sleep_until(holds: impl Fn() -> bool) {
    while !masked(|_| {
        let holds = holds();
        if !holds {
            board::wait_for_interrupt();
        }
        holds
    }) {}
}

fn interrupt(_: &Mask, interrupt: Interrupt) {
    match interrupt {
        Interrupt::Timer => {
            interrupts::set_alarm(u64::MAX);
            IS_LATE.store(1, Relaxed);
        }
        Interrupt::Device(number) if number == EXPECTED.load(Relaxed) => {
            COUNT.fetch_add(1, SeqCst);
        }
        other @ (Interrupt::Software | Interrupt::Device(_)) => {
            board::fail(format_args!("{other:?} that nobody asked for"))
        }
    }
}
