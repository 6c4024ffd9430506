//! The island's serial port: a 16550, written by polling.

use core::{
    hint::spin_loop,
    ptr::with_exposed_provenance_mut,
    sync::atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use motet_layout::DEVICE_VA;

const LINE_STATUS: usize = 5;
const LINE_STATUS_EMPTY: u8 = 1 << 5;
/// How long a writer waits for another: a core that died in the middle of a line must not silence the others.
const SPINS_MAX: u32 = 1 << 20;

/// Virtual address of the port. Until the device tree has been read: where QEMU's `virt` has it.
static PORT: AtomicUsize = AtomicUsize::new((DEVICE_VA + 0x1000_0000) as usize);
/// Held by the core that writes, so that lines of several cores do not mix.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Uses the port at `phys` from now on.
pub fn set_port(phys: u64) {
    PORT.store((DEVICE_VA + phys) as usize, Relaxed);
}

/// Writes bytes.
pub fn write(bytes: &[u8]) {
    for _ in 0..SPINS_MAX {
        if !BUSY.swap(true, Acquire) {
            break;
        }
        spin_loop();
    }
    let port = with_exposed_provenance_mut::<u8>(PORT.load(Relaxed));
    for byte in bytes {
        // SAFETY: the port's registers, mapped by the boot tables and by the kernel's.
        unsafe {
            while port.add(LINE_STATUS).read_volatile() & LINE_STATUS_EMPTY == 0 {}
            port.write_volatile(*byte);
        }
    }
    BUSY.store(false, Release);
}

/// Writes a formatted line of at most 255 bytes, "motet: " before it.
macro_rules! log_line {
    ($($text:tt)*) => {
        $crate::console::write(motet_hal::Text::<256>::of(format_args!("motet: {}\n", format_args!($($text)*))).bytes())
    };
}

pub(crate) use log_line;
