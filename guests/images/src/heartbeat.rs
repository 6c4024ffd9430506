//! A general guest: all of its cores compute, and the first one prints `heartbeat NUMBER PASSES...` now and then, with how far each
//! core has come. It uses no interrupts. Arguments: `interval_ms` between heartbeats (1000), `rounds` until it ends (0: never).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use motet_guest_board::{self as board, Boot, cores};

/// Passes that each core has made over its numbers; a core writes its own.
static PASSES: [AtomicU64; cores::MAX] = [const { AtomicU64::new(0) }; cores::MAX];
/// What each has computed, which depends on the number of passes alone.
static SUMS: [AtomicU64; cores::MAX] = [const { AtomicU64::new(0) }; cores::MAX];

/// The guest.
pub fn run(boot: Boot) -> ! {
    let others = boot.other_cores();
    for (index, id) in others.iter().enumerate() {
        if let Err(error) = cores::start(*id, index + 1, compute_forever) {
            board::fail(format_args!("core {id} does not start: error {error}"));
        }
    }
    let (rounds, count) = (boot.number("rounds", 0), 1 + others.len());
    let interval = board::frequency() * boot.number("interval_ms", 1000) / 1000;
    while PASSES[1..count].iter().any(|passes| passes.load(Relaxed) == 0) {
        pass(0);
    }
    board::println!("heartbeat: {count} cores");
    let mut due = board::now();
    for number in 1.. {
        due += interval;
        // Once at least: a host may have kept this machine from running until now.
        loop {
            pass(0);
            if board::now() >= due {
                break;
            }
        }
        beat(number, count);
        if number == rounds {
            break;
        }
    }
    board::println!("passed {rounds}");
    board::power_off(true)
}

fn beat(number: u64, count: usize) {
    /// Numbers with spaces before them.
    struct List<'a>(&'a [AtomicU64]);
    impl core::fmt::Display for List<'_> {
        fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            self.0.iter().try_for_each(|number| write!(formatter, " {}", number.load(Relaxed)))
        }
    }
    board::println!("heartbeat {number}{}", List(&PASSES[..count]));
    // Others are at work; this core is not.
    let passes = PASSES[0].load(Relaxed);
    if SUMS[0].load(Relaxed) != (0..passes).fold(0, mixed) {
        board::fail(format_args!("the first core has computed something else"));
    }
}

fn compute_forever(core: usize) -> ! {
    loop {
        pass(core);
    }
}

fn mixed(sum: u64, pass: u64) -> u64 {
    (sum ^ pass).rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Some microseconds of work.
fn pass(core: usize) {
    let passes = PASSES[core].load(Relaxed);
    // As slow as what it stands for.
    let sum = (0..1000).fold(SUMS[core].load(Relaxed), |sum, _| core::hint::black_box(sum));
    SUMS[core].store(mixed(sum, passes), Relaxed);
    PASSES[core].store(passes + 1, Relaxed);
}
