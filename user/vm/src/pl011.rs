//! A serial port: the registers of a PL011 (Arm DDI 0183, chapter 3), of 32 bits. It sends at once. Received bytes wait in the [`Line`] until the guest
//! takes them.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::uart::Line;

/// Registers (3.2).
const DATA: u64 = 0x00;
const FLAGS: u64 = 0x18;
const INTEGER_BAUD: u64 = 0x24;
const FRACTION_BAUD: u64 = 0x28;
const LINE_CONTROL: u64 = 0x2c;
const CONTROL: u64 = 0x30;
const FIFO_LEVELS: u64 = 0x34;
const MASK: u64 = 0x38;
const RAW_STATUS: u64 = 0x3c;
const MASKED_STATUS: u64 = 0x40;
const CLEAR: u64 = 0x44;
/// Identification registers, a byte in each word (3.3.14): the same as QEMU's.
const IDENTIFICATION: u64 = 0xfe0;
const IDENTIFICATION_BYTES: [u8; 8] = [0x11, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

/// Flags: the receive FIFO is empty; the transmit FIFO is empty.
const RECEIVE_EMPTY: u32 = 1 << 4;
const TRANSMIT_EMPTY: u32 = 1 << 7;
/// Interrupts: receive and receive timeout; transmit.
const RECEIVED: u32 = 1 << 4 | 1 << 6;
const ROOM: u32 = 1 << 5;
/// Control after a reset: both directions on.
const BOTH_ON: u32 = 3 << 8;

/// Its state.
pub struct Pl011 {
    baud: [AtomicU32; 2],
    line_control: AtomicU32,
    control: AtomicU32,
    fifo_levels: AtomicU32,
    mask: AtomicU32,
    /// [`ROOM`], from when a byte is sent until the guest clears the interrupt.
    sent: AtomicU32,
}

impl Default for Pl011 {
    fn default() -> Self {
        Self::new()
    }
}

impl Pl011 {
    /// A port after a reset.
    pub const fn new() -> Self {
        Self {
            baud: [const { AtomicU32::new(0) }; 2],
            line_control: AtomicU32::new(0),
            control: AtomicU32::new(BOTH_ON),
            fifo_levels: AtomicU32::new(0x12),
            mask: AtomicU32::new(0),
            sent: AtomicU32::new(0),
        }
    }

    fn pending(&self, line: &impl Line) -> u32 {
        self.sent.load(Relaxed) | if line.has_come() { RECEIVED } else { 0 }
    }

    /// Whether its interrupt line is high.
    pub fn asks(&self, line: &impl Line) -> bool {
        let pending = self.sent.load(Relaxed) | if line.is_noticed() { RECEIVED } else { 0 };
        pending & self.mask.load(Relaxed) != 0
    }

    /// Whether a received byte would interrupt.
    pub fn listens(&self) -> bool {
        self.mask.load(Relaxed) & RECEIVED != 0
    }

    /// Loads a register.
    pub fn load(&self, register: u64, line: &impl Line) -> u32 {
        match register {
            DATA => line.take().unwrap_or(0).into(),
            FLAGS => TRANSMIT_EMPTY | if line.has_come() { 0 } else { RECEIVE_EMPTY },
            INTEGER_BAUD => self.baud[0].load(Relaxed),
            FRACTION_BAUD => self.baud[1].load(Relaxed),
            LINE_CONTROL => self.line_control.load(Relaxed),
            CONTROL => self.control.load(Relaxed),
            FIFO_LEVELS => self.fifo_levels.load(Relaxed),
            MASK => self.mask.load(Relaxed),
            RAW_STATUS => self.pending(line),
            MASKED_STATUS => self.pending(line) & self.mask.load(Relaxed),
            IDENTIFICATION.. if register % 4 == 0 => {
                IDENTIFICATION_BYTES.get((register - IDENTIFICATION) as usize / 4).map_or(0, |byte| u32::from(*byte))
            }
            _ => 0,
        }
    }

    /// Stores to a register.
    pub fn store(&self, register: u64, value: u32, line: &impl Line) {
        match register {
            DATA => {
                line.send(value as u8);
                self.sent.store(ROOM, Relaxed);
            }
            INTEGER_BAUD => self.baud[0].store(value & 0xffff, Relaxed),
            FRACTION_BAUD => self.baud[1].store(value & 0x3f, Relaxed),
            LINE_CONTROL => self.line_control.store(value & 0xff, Relaxed),
            CONTROL => self.control.store(value & 0xffff, Relaxed),
            FIFO_LEVELS => self.fifo_levels.store(value & 0x3f, Relaxed),
            MASK => self.mask.store(value & 0x7ff, Relaxed),
            CLEAR if value & ROOM != 0 => self.sent.store(0, Relaxed),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uart::tests::Bytes;

    #[test]
    fn bytes_go_and_come() {
        let (port, line) = (Pl011::new(), Bytes::default());
        port.store(DATA, 0x161, &line);
        assert_eq!(line.sent(), b"a");
        assert_eq!(port.load(FLAGS, &line), TRANSMIT_EMPTY | RECEIVE_EMPTY);
        line.comes(b'b');
        assert_eq!(port.load(FLAGS, &line), TRANSMIT_EMPTY);
        assert_eq!(port.load(DATA, &line), b'b'.into());
        assert_eq!(port.load(FLAGS, &line), TRANSMIT_EMPTY | RECEIVE_EMPTY);
    }

    #[test]
    fn it_asks_for_what_is_not_masked_until_that_has_been_done() {
        let (port, line) = (Pl011::new(), Bytes::default());
        line.comes(b'a');
        port.store(DATA, 1, &line);
        assert!(!port.asks(&line), "everything is masked after a reset");
        assert_eq!(port.load(RAW_STATUS, &line), RECEIVED | ROOM);
        port.store(MASK, ROOM, &line);
        assert!(port.asks(&line) && !port.listens());
        port.store(CLEAR, ROOM, &line);
        assert!(!port.asks(&line));
        port.store(MASK, RECEIVED, &line);
        assert!(port.asks(&line) && port.listens());
        assert_eq!(port.load(MASKED_STATUS, &line), RECEIVED);
        port.store(CLEAR, RECEIVED, &line);
        assert!(port.asks(&line), "the byte is there still");
        port.load(DATA, &line);
        assert!(!port.asks(&line));
    }

    #[test]
    fn drivers_find_who_made_it() {
        let (port, line) = (Pl011::new(), Bytes::default());
        let byte = |register| port.load(register, &line);
        let id = byte(0xfe0) | byte(0xfe4) << 8 | byte(0xfe8) << 16 | byte(0xfec) << 24;
        assert_eq!(id & 0xf_ffff, 0x4_1011, "Linux's drivers/tty/serial/amba-pl011.c");
        assert_eq!((byte(0xff0), byte(0xffc), byte(0x1000)), (0x0d, 0xb1, 0));
    }
}
