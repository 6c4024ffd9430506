//! A real-time guest that uses an accelerator of the FPGA, as Ker-ONE's do (section 4.5), by its native programming model: its driver knows of
//! nobody else. A thread uses it, a less urgent one computes in what is left, and ticks go on. Arguments: `function` (the first accelerator),
//! `part` (`jobs`; with `allocations` and `interrupts` no system is beside it), `rounds` (4), `frames` in each (1), `pause_ticks` after each (0:
//! none), again and again until the other thread has run, `seed` (1), `tick_us` (1000), `translated` (AArch64: 1: it is used at virtual addresses
//! that are not its physical ones).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use motet_guest_board::{
    self as board, Boot, Masked,
    accelerator::{self, Accelerator, Job},
    masked,
};
use motet_thread_metric::Rtos;

use crate::rtos::Motet;

mod allocations;
mod interrupted;
mod memory;

/// Urgency of the thread that uses the accelerator, and of the one that computes beside it.
const PRIORITIES: [u8; 2] = [5, 20];
/// Why accelerators refuse.
const FAULT_SIZE: u32 = 1;
const FAULT_ADDRESS: u32 = 2;
/// What is in the data section's second half: results.
const HALVES: usize = 2;

static BOOT: Masked<Option<Boot>> = Masked::new(None);
/// Turns of the thread that computes.
static TURNS: AtomicU64 = AtomicU64::new(0);

/// The guest.
pub fn run(boot: Boot) -> ! {
    match boot.argument("part") {
        Some("allocations") => allocations::run(&boot),
        Some("interrupts") => interrupted::run(&boot),
        Some(_) | None => {}
    }
    masked(|mask| BOOT.with(mask, |it| *it = Some(boot)));
    let tick_us = boot.number("tick_us", 1000) as u32;
    Motet::start(tick_us, || {
        Motet::resume(Motet::create(PRIORITIES[0], |_| part(), 0));
        Motet::resume(Motet::create(PRIORITIES[1], |_| compute(), 0));
    })
}

fn compute() {
    loop {
        // Nobody else counts.
        TURNS.store(TURNS.load(Relaxed) + 1, Relaxed);
    }
}

fn part() {
    let Some(boot) = masked(|mask| BOOT.with(mask, |boot| *boot)) else { return };
    let accelerator = match boot.number("translated", 0) {
        0 => accelerator(&boot),
        _ => match board::translate() {
            Some(offset) => accelerator(&boot).moved(offset),
            None => board::fail(format_args!("this guest has no tables of its own")),
        },
    };
    let rounds = boot.number("rounds", 4);
    match boot.argument("part").unwrap_or("jobs") {
        "jobs" => jobs(&boot, &accelerator, rounds),
        "outside" => outside(&accelerator),
        "memory" => memory::jobs(&boot, &accelerator, rounds),
        "hostile" => hostile(&boot, &accelerator, rounds),
        other => board::fail(format_args!("there is no part {other}")),
    }
    board::println!("passed {rounds}");
    board::power_off(true)
}

/// The accelerator that the arguments name.
fn accelerator(boot: &Boot) -> Accelerator {
    let named = |one: &Accelerator| boot.argument("function").is_none_or(|name| name == one.function());
    let Some(accelerator) = boot.accelerators().find(named) else {
        board::fail(format_args!("there is no such accelerator"));
    };
    accelerator
}

/// The accelerator's frame, in bytes, and the bytes of its results.
fn frame(function: &str) -> (usize, usize) {
    match function {
        "qam16" => (2350, 2350 * 8),
        "qam64" => (2352, 2352 * 16 / 3),
        "fft512" | "fft1024" => (8192, 8192),
        "aes128" => (1024, 1024),
        _ => (1024, 8),
    }
}

/// The same job again and again, which always has the same results; those of 16-QAM are known.
fn jobs(boot: &Boot, accelerator: &Accelerator, rounds: u64) {
    let frames = boot.number("frames", 1) as usize;
    let (bytes, results) = frame(accelerator.function());
    let half = accelerator.data_len() / HALVES;
    if frames * bytes.max(results) > half {
        board::fail(format_args!("{frames} frames are too many"));
    }
    let mut random = fastrand::Rng::with_seed(boot.number("seed", 1));
    (0..frames * bytes).for_each(|at| accelerator.write(at, random.u8(..)));
    let job = Job {
        command: 0,
        data: accelerator.data(),
        len: (frames * bytes) as u32,
        results: accelerator.data() + half as u32,
        interrupts: false,
    };
    let mut expected = None;
    let (mut preempted, mut connected) = (0, 0);
    for round in 0..rounds {
        let turns = TURNS.load(Relaxed);
        (0..frames * results).for_each(|at| accelerator.write(half + at, 0));
        // It comes back when there is a region: one that was somebody else's meanwhile is connected anew.
        accelerator.choose(job.command);
        connected += u32::from(accelerator.status() == accelerator::READY);
        accelerator.begin(&job);
        preempted += u32::from(ended(accelerator) & 1);
        if accelerator.status() != accelerator::DONE {
            board::fail(format_args!("round {round}: status {:#x}", accelerator.status()));
        }
        let sum = (0..frames * results).fold(0, |sum, at| mixed(sum, accelerator.read(half + at)));
        if *expected.get_or_insert(sum) != sum || accelerator.function() == "qam16" && !is_mapped(accelerator, half) {
            board::fail(format_args!("round {round}: other results"));
        }
        let pause = boot.number("pause_ticks", 0);
        if pause != 0 && !rest(pause, turns) {
            board::fail(format_args!("round {round}: nobody else has run"));
        }
    }
    board::println!("{}: {rounds} jobs, connected in {connected}, stopped in {preempted}", accelerator.function());
}

/// Pauses until the less urgent thread has run since it had taken so many turns. After one pause it may not have: a core that its host stops for longer
/// than that has all of the ticks at once.
fn rest(ticks: u64, turns: u64) -> bool {
    const PAUSES_MAX: u32 = 1000;
    (0..PAUSES_MAX).any(|_| {
        Motet::sleep_until(Motet::ticks() + ticks);
        TURNS.load(Relaxed) != turns
    })
}

/// Waits until it is over. Bit 0: it was stopped in between.
fn ended(accelerator: &Accelerator) -> u8 {
    let mut was_preempted = 0;
    while !accelerator.is_over() {
        was_preempted |= u8::from(accelerator.status() == accelerator::PREEMPTED);
    }
    was_preempted
}

fn mixed(sum: u64, byte: u8) -> u64 {
    (sum ^ u64::from(byte)).rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Whether the first points of 16-QAM are those of the first bits.
fn is_mapped(accelerator: &Accelerator, results: usize) -> bool {
    has_points(64, |at| accelerator.read(at), |at| accelerator.read(results + at))
}

/// Whether results are the points of 16-QAM that the data are.
fn has_points(points: usize, data: impl Fn(usize) -> u8, results: impl Fn(usize) -> u8) -> bool {
    const LEVELS: [i16; 4] = [-15543, -5181, 15543, 5181];
    let level = |at: usize| i16::from_le_bytes([results(at), results(at + 1)]);
    (0..points).all(|point| {
        let byte = data(point / 2);
        let bits = usize::from(if point % 2 == 0 { byte >> 4 } else { byte & 15 });
        level(4 * point) == LEVELS[bits >> 2] && level(4 * point + 2) == LEVELS[bits & 3]
    })
}

/// Transfers that leave all memory, by little and by much, and what comes after them.
fn outside(accelerator: &Accelerator) {
    let (bytes, _) = frame(accelerator.function());
    let (first, end) = (accelerator.data(), accelerator.data() + accelerator.data_len() as u32);
    let job = Job { command: 0, data: first, len: bytes as u32, results: first, interrupts: false };
    // Before the first byte of memory; and after the last one, as the machine has less than 2 GiB.
    let (before, behind) = (board::accelerator::MEMORY as u32 - 4, u32::MAX - 3);
    let wrong = [
        Job { data: 0, ..job },
        Job { data: first - 4, ..job },
        Job { data: end - 4, ..job },
        Job { data: before, ..job },
        Job { data: behind, ..job },
        Job { results: first - 4, ..job },
        Job { results: end - 4, ..job },
        Job { results: before, ..job },
        Job { results: behind & !0xfff, ..job },
        Job { results: 0, ..job },
    ];
    for job in wrong {
        accelerator.begin(&job);
        ended(accelerator);
        if accelerator.status() != accelerator::FAILED | FAULT_ADDRESS << 8 {
            board::fail(format_args!("{job:x?}: status {:#x}", accelerator.status()));
        }
    }
    accelerator.begin(&Job { len: 0, ..job });
    ended(accelerator);
    if accelerator.status() != accelerator::FAILED | FAULT_SIZE << 8 {
        board::fail(format_args!("no data: status {:#x}", accelerator.status()));
    }
    accelerator.begin(&job);
    ended(accelerator);
    if accelerator.status() != accelerator::DONE {
        board::fail(format_args!("after that: status {:#x}", accelerator.status()));
    }
}

/// Stores of anything to any register, and to the rest of the page.
fn hostile(boot: &Boot, accelerator: &Accelerator, rounds: u64) {
    let mut random = fastrand::Rng::with_seed(boot.number("seed", 1));
    for _ in 0..rounds {
        let at = if random.bool() { random.usize(..20) } else { random.usize(..accelerator::REGISTERS_LEN / 4) };
        let near = accelerator.data().wrapping_add(random.u32(..2 << 20)).wrapping_sub(random.u32(..4096));
        // Its results go anywhere but over its own program.
        let value = [random.u32(..board::accelerator::MEMORY as u32), random.u32(..16), near][random.usize(..3)];
        accelerator.store(4 * at, value);
        accelerator.write(random.usize(..accelerator.data_len()), random.u8(..));
        core::hint::black_box(accelerator.load(4 * random.usize(..accelerator::REGISTERS_LEN / 4)));
    }
}
