//! A guest that plays ping-pong with its peer over shared memory and doorbells (docs/vms.md), for as many `rounds` as its arguments say (100). It
//! sleeps while it is the other one's turn. The peers have numbers 0 and 1. At the end it prints `share NUMBER BALL INTERRUPTS`. With `again=N`, number 1
//! first resets its machine so often, each time when number 0 has noticed that it has begun.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use motet_guest_board::{
    self as board, Boot, Mask,
    interrupts::{self, Interrupt},
    masked, share,
};

/// Word of the memory: how often the ball has been played. Number 0 plays while it is even.
const BALL: usize = 0;
/// Words: 1 once the peer of that number is there.
const IS_THERE: [usize; 2] = [1, 2];

/// How often number 1 has begun, as it knows itself, and as number 0 has noticed.
const BEGUN: usize = 3;
const NOTICED: usize = 4;

static INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static RUNG: AtomicU64 = AtomicU64::new(0);
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// The guest.
pub fn run(boot: Boot) -> ! {
    let end = 2 * boot.number("rounds", 100) as u32;
    let own = share::id();
    if own > 1 {
        board::fail(format_args!("there are two peers already"));
    }
    let other = 1 - own;
    interrupts::start(interrupt);
    interrupts::enable_device(&boot, share::INTERRUPT);
    interrupts::enable();
    let again = boot.number("again", 0) as u32;
    match own {
        0 => (1..=again).for_each(notice),
        _ if share::load(BEGUN) < again => begin_again(),
        _ => {}
    }
    share::store(IS_THERE[own as usize], 1);
    share::ring(other);
    wait_until(|| share::load(IS_THERE[other as usize]) == 1);
    loop {
        wait_until(|| share::load(BALL) % 2 == own || share::load(BALL) >= end);
        let ball = share::load(BALL);
        if ball >= end {
            break;
        }
        share::store(BALL, ball + 1);
        share::ring(other);
    }
    let (interrupts, rung) = (INTERRUPTS.load(Relaxed), RUNG.load(Relaxed));
    board::println!("share {own} {} {interrupts}", share::load(BALL));
    if interrupts == 0 || rung != 1 << other {
        board::fail(format_args!("{interrupts} interrupts, of peers {rung:#x}"));
    }
    board::println!("passed 1");
    board::power_off(true)
}

/// Waits until the other one has begun, says so, and waits until it knows.
fn notice(begun: u32) {
    wait_until(|| HAS_BEGUN.load(Relaxed));
    HAS_BEGUN.store(false, Relaxed);
    share::store(NOTICED, begun);
    share::ring(1);
}

/// Resets the machine once the other one has noticed that it has begun.
fn begin_again() -> ! {
    let begun = share::load(BEGUN) + 1;
    wait_until(|| share::load(NOTICED) == begun);
    share::store(BEGUN, begun);
    board::reset()
}

/// With interrupts masked, none comes between the look and the sleep, which a pending one ends as well.
fn wait_until(holds: impl Fn() -> bool) {
    while !masked(|_| {
        let holds = holds();
        if !holds {
            board::wait_for_interrupt();
        }
        holds
    }) {}
}

fn interrupt(_: &Mask, interrupt: Interrupt) {
    if interrupt != Interrupt::Device(share::INTERRUPT) {
        board::fail(format_args!("{interrupt:?} that nobody asked for"));
    }
    let rung = share::rung();
    HAS_BEGUN.fetch_or(share::begun() & !1 != 0, Relaxed);
    RUNG.store(RUNG.load(Relaxed) | u64::from(rung), Relaxed);
    INTERRUPTS.store(INTERRUPTS.load(Relaxed) + u64::from(rung != 0), Relaxed);
}
