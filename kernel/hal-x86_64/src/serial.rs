//! The diagnostic console: the 16550 at COM1.

use core::{
    fmt,
    hint::spin_loop,
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Release},
    },
};

use x86_64::instructions::port::{PortReadOnly, PortWriteOnly};

const COM1: u16 = 0x3f8;
const FIFO_SIZE: usize = 16;
const TRANSMITTER_EMPTY: u8 = 0x20;

static BUSY: AtomicBool = AtomicBool::new(false);

/// Sets the port up: 8 bits, no parity, FIFO on, no interrupts. The divisor is the firmware's or QEMU's business.
pub fn init() {
    for (register, value) in [(1, 0), (3, 3), (2, 7), (4, 3)] {
        // SAFETY: COM1 is this kernel's alone.
        unsafe { PortWriteOnly::<u8>::new(COM1 + register).write(value) };
    }
}

/// Writes bytes. Messages of several cores do not mix, unless one dies while writing.
pub fn write(bytes: &[u8]) {
    const PATIENCE: u32 = 1_000_000;
    for _ in 0..PATIENCE {
        if !BUSY.swap(true, Acquire) {
            break;
        }
        spin_loop();
    }
    for chunk in bytes.chunks(FIFO_SIZE) {
        // SAFETY: COM1 is this kernel's alone.
        while unsafe { PortReadOnly::<u8>::new(COM1 + 5).read() } & TRANSMITTER_EMPTY == 0 {
            spin_loop();
        }
        for byte in chunk {
            // SAFETY: as above.
            unsafe { PortWriteOnly::<u8>::new(COM1).write(*byte) };
        }
    }
    BUSY.store(false, Release);
}

/// The console as a formatter's target.
#[derive(Debug)]
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write(text.as_bytes());
        Ok(())
    }
}
