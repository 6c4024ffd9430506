//! The diagnostic console: a PL011, polled. Usable before the device tree is known.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use motet_hal::ivshmem::Registers;
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

/// A message being put together: as long as the pool's record of it, cut off there.
pub struct Message {
    bytes: [u8; 512],
    len: usize,
}

impl Message {
    /// A message from format arguments.
    pub fn new(arguments: core::fmt::Arguments) -> Self {
        let mut message = Self { bytes: [0; 512], len: 0 };
        let _ = message.write_fmt(arguments); // cut off when full
        message
    }

    /// Its bytes: UTF-8, but for a character cut at the end.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let count = room.len().min(text.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        if count == text.len() { Ok(()) } else { Err(core::fmt::Error) }
    }
}

/// Writes a formatted line that begins with "motet: ".
macro_rules! log_line {
    ($($argument:tt)*) => {
        crate::console::write(
            crate::console::Message::new(format_args!("motet: {}\n", format_args!($($argument)*))).bytes(),
        )
    };
}
pub(crate) use log_line;
