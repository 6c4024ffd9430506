//! Allocations, one after the other: stores to registers that are not connected, or not mapped writably. There is nothing but the driver.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use motet_guest_board::{
    self as board, Boot, Mask,
    accelerator::{self, Accelerator, Job},
    interrupts::{self, Interrupt},
    masked,
};

/// Whether the pause is over.
static IS_OVER: AtomicU64 = AtomicU64::new(0);

/// `rounds` stores to each of the machine's accelerators in turn, with a job of a frame behind each and a pause of `pause_us` (2000) before it.
pub fn run(boot: &Boot) -> ! {
    interrupts::start(interrupt);
    interrupts::enable();
    let (rounds, pause_us) = (boot.number("rounds", 4), boot.number("pause_us", 2000));
    for round in 0..rounds {
        for accelerator in boot.accelerators() {
            rest(pause_us);
            // Comes back when it is there.
            accelerator.choose(0);
            compute(&accelerator, round);
        }
    }
    board::println!("passed {rounds}");
    board::power_off(true)
}

fn compute(accelerator: &Accelerator, round: u64) {
    let (bytes, _) = super::frame(accelerator.function());
    let (data, half) = (accelerator.data(), (accelerator.data_len() / super::HALVES) as u32);
    accelerator.begin(&Job { command: 0, data, len: bytes as u32, results: data + half, interrupts: false });
    super::ended(accelerator);
    if accelerator.status() != accelerator::DONE {
        board::fail(format_args!("round {round}: status {:#x}", accelerator.status()));
    }
}

fn rest(pause_us: u64) {
    IS_OVER.store(0, Relaxed);
    interrupts::set_alarm(board::now() + board::frequency() * pause_us / 1_000_000);
    // With interrupts masked, none comes between the look and the sleep, which a pending one ends as well.
    while !masked(|_| {
        let is_over = IS_OVER.load(Relaxed) != 0;
        if !is_over {
            board::wait_for_interrupt();
        }
        is_over
    }) {}
}

fn interrupt(_: &Mask, interrupt: Interrupt) {
    if interrupt != Interrupt::Timer {
        board::fail(format_args!("{interrupt:?} that nobody asked for"));
    }
    interrupts::set_alarm(u64::MAX);
    IS_OVER.store(1, Relaxed);
}
