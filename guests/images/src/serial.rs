//! A guest that reads its console by interrupts: it prints `serial: ready`, waits for interrupts, and prints each line that comes in capitals, for as many
//! `lines` as its arguments say (1); then how many interrupts have come, `serial LINES BYTES INTERRUPTS`.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use motet_guest_board::{
    self as board, Boot, Mask, Masked,
    interrupts::{self, Interrupt},
    masked, serial,
};

/// The longest line.
const LEN: usize = 128;

/// What has come of a line.
struct Input {
    bytes: [u8; LEN],
    len: usize,
    lines: u64,
    count: u64,
}

static INPUT: Masked<Input> = Masked::new(Input { bytes: [0; LEN], len: 0, lines: 0, count: 0 });
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

/// The guest.
pub fn run(boot: Boot) -> ! {
    let lines = boot.number("lines", 1);
    // Before the handler prints, too.
    board::println!("serial: ready");
    interrupts::start(interrupt);
    serial::listen(&boot);
    interrupts::enable();
    let count = loop {
        // With interrupts masked, none comes between the look and the sleep, which a pending one ends as well.
        let count = masked(|mask| {
            let (lines_come, count) = INPUT.with(mask, |input| (input.lines, input.count));
            if lines_come < lines {
                board::wait_for_interrupt();
            }
            (lines_come >= lines).then_some(count)
        });
        if let Some(count) = count {
            break count;
        }
    };
    let interrupts = INTERRUPTS.load(Relaxed);
    board::println!("serial {lines} {count} {interrupts}");
    if interrupts == 0 || interrupts > count + 1 {
        board::fail(format_args!("{interrupts} interrupts of {count} bytes"));
    }
    board::println!("passed 1");
    board::power_off(true)
}

fn interrupt(mask: &Mask, interrupt: Interrupt) {
    if interrupt != Interrupt::Device(serial::INTERRUPT) {
        board::fail(format_args!("{interrupt:?} that nobody asked for"));
    }
    INTERRUPTS.store(INTERRUPTS.load(Relaxed) + 1, Relaxed);
    INPUT.with(mask, |input| {
        while let Some(byte) = serial::take() {
            input.take(byte);
        }
    });
}

impl Input {
    fn take(&mut self, byte: u8) {
        self.count += 1;
        if byte != b'\n' {
            if let Some(at) = self.bytes.get_mut(self.len) {
                *at = byte.to_ascii_uppercase();
                self.len += 1;
            }
            return;
        }
        board::println!("{}", self.bytes[..self.len].escape_ascii());
        self.len = 0;
        self.lines += 1;
    }
}
