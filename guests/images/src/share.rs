//! A guest that plays ping-pong with its peer over shared memory and doorbells (docs/vms.md), for as many `rounds` as its arguments say (100). It
//! sleeps while it is the other one's turn. The peers have numbers 0 and 1. At the end it prints `share NUMBER BALL INTERRUPTS`.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use motet_guest_board::{
    self as board, Boot, Mask,
    interrupts::{self, Interrupt},
    masked, share,
};

/// Word of the memory: how often the ball has been played. Number 0 plays while it is even.
const BALL: usize = 0;
/// Words: 1 once the peer of that number is there.
const IS_THERE: [usize; 2] = [1, 2];

static INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static RUNG: AtomicU64 = AtomicU64::new(0);

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
    RUNG.store(RUNG.load(Relaxed) | u64::from(rung), Relaxed);
    INTERRUPTS.store(INTERRUPTS.load(Relaxed) + u64::from(rung != 0), Relaxed);
}
