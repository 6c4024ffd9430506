//! The diagnostic console: a PL011, polled. Usable before the device tree is known.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use motet_hal::registers::Registers;
use motet_layout::DEVICE_VA;

const DATA: usize = 0x00;
const FLAGS: usize = 0x18;
const CONTROL: usize = 0x30;
const FLAG_TRANSMIT_FULL: u32 = 1 << 5;
const CONTROL_ENABLE_TRANSMIT: u32 = 1 << 8 | 1;

/// Physical address; what QEMU `virt` has until the device tree says otherwise.
static BASE: AtomicU64 = AtomicU64::new(0x0900_0000);
static BUSY: AtomicBool = AtomicBool::new(false);
/// Attempts to get the console before a message is written regardless: its holder may have died.
const PATIENCE: u32 = 10_000_000;

/// Uses the PL011 at physical address `base`, below 512 GiB and mapped as a device.
pub fn init(base: u64) {
    BASE.store(base, Ordering::Relaxed);
    registers().write32(CONTROL, CONTROL_ENABLE_TRANSMIT);
}

fn registers() -> Registers {
    // SAFETY: DEVICE_VA maps the PL011 uncached from boot.s on.
    unsafe { Registers::new((DEVICE_VA + BASE.load(Ordering::Relaxed)) as usize) }
}

/// Writes bytes; messages of different cores do not mix.
pub fn write(bytes: &[u8]) {
    let mut patience = PATIENCE;
    while BUSY.swap(true, Ordering::Acquire) && patience > 0 {
        patience -= 1;
        core::hint::spin_loop();
    }
    let registers = registers();
    for byte in bytes {
        while registers.read32(FLAGS) & FLAG_TRANSMIT_FULL != 0 {}
        registers.write32(DATA, u32::from(*byte));
    }
    BUSY.store(false, Ordering::Release);
}

/// A message being put together: as long as the pool's record of it.
pub type Message = motet_hal::Text<512>;

/// Writes a formatted line that begins with "motet: ".
macro_rules! log_line {
    ($($argument:tt)*) => {
        crate::console::write(
            crate::console::Message::of(format_args!("motet: {}\n", format_args!($($argument)*))).bytes(),
        )
    };
}
pub(crate) use log_line;
