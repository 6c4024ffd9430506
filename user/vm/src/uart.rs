//! A serial port: the registers of a 16550 ("PC16550D Universal Asynchronous Receiver/Transmitter with FIFOs", 8.0 "Registers"), a byte each. It
//! sends at once. Drivers without an interrupt can poll its registers.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Registers.
const DATA: u64 = 0;
const INTERRUPT_ENABLE: u64 = 1;
const INTERRUPT_ID: u64 = 2;
const LINE_CONTROL: u64 = 3;
const MODEM_CONTROL: u64 = 4;
const LINE_STATUS: u64 = 5;
const MODEM_STATUS: u64 = 6;
const SCRATCH: u64 = 7;

/// Line control: the first two registers are the divisor.
const DIVISOR: u8 = 0x80;
/// Line status: a byte can be read; both transmit registers are empty.
const DATA_READY: u8 = 1;
const TRANSMITTER_EMPTY: u8 = 0x60;
/// Interrupt enable, and values of the interrupt id: a byte has come; the transmitter is empty.
const ENABLE_RECEIVED: u8 = 1;
const ENABLE_EMPTY: u8 = 2;
const RECEIVED: u8 = 4;
const EMPTY: u8 = 2;
const NO_INTERRUPT: u8 = 1;
/// Interrupt id: FIFOs are on.
const FIFOS_ON: u8 = 0xc0;
/// Modem status: carrier, ready, clear to send.
const CONNECTED: u8 = 0xb0;

/// Its state.
#[derive(Default)]
pub struct Uart {
    interrupt_enable: AtomicU8,
    /// 1: the transmitter has become empty, and the guest has not been told yet.
    is_empty: AtomicU8,
    fifos: AtomicU8,
    line_control: AtomicU8,
    modem_control: AtomicU8,
    scratch: AtomicU8,
    divisor: [AtomicU8; 2],
}

/// The other end of a serial port.
pub trait Line {
    /// Sends a byte.
    fn send(&self, byte: u8);
    /// Whether a byte has come.
    fn has_come(&self) -> bool;
    /// Whether the watching thread has seen a byte. Only then the port interrupts.
    fn is_noticed(&self) -> bool;
    /// Takes the byte.
    fn take(&self) -> Option<u8>;
}

impl Uart {
    /// A port after a reset.
    pub const fn new() -> Self {
        Self {
            interrupt_enable: AtomicU8::new(0),
            is_empty: AtomicU8::new(0),
            fifos: AtomicU8::new(0),
            line_control: AtomicU8::new(0),
            modem_control: AtomicU8::new(0),
            scratch: AtomicU8::new(0),
            divisor: [AtomicU8::new(0), AtomicU8::new(0)],
        }
    }

    fn is_divisor(&self) -> bool {
        self.line_control.load(Relaxed) & DIVISOR != 0
    }

    /// Whether its interrupt line is high.
    pub fn is_interrupting(&self, line: &impl Line) -> bool {
        let enabled = self.interrupt_enable.load(Relaxed);
        enabled & ENABLE_RECEIVED != 0 && line.is_noticed()
            || enabled & ENABLE_EMPTY != 0 && self.is_empty.load(Relaxed) != 0
    }

    /// Whether received bytes would interrupt.
    pub fn awaits_bytes(&self) -> bool {
        self.interrupt_enable.load(Relaxed) & ENABLE_RECEIVED != 0
    }

    /// The most urgent pending interrupt. The interrupt of the empty transmitter is reported once.
    fn take_pending(&self, line: &impl Line) -> u8 {
        let enabled = self.interrupt_enable.load(Relaxed);
        if enabled & ENABLE_RECEIVED != 0 && line.has_come() {
            RECEIVED
        } else if enabled & ENABLE_EMPTY != 0 && self.is_empty.swap(0, Relaxed) != 0 {
            EMPTY
        } else {
            NO_INTERRUPT
        }
    }

    /// Loads a register.
    pub fn load(&self, register: u64, line: &impl Line) -> u8 {
        match register {
            DATA | INTERRUPT_ENABLE if self.is_divisor() => self.divisor[register as usize].load(Relaxed),
            DATA => line.take().unwrap_or(0),
            INTERRUPT_ENABLE => self.interrupt_enable.load(Relaxed),
            INTERRUPT_ID => self.take_pending(line) | if self.fifos.load(Relaxed) & 1 != 0 { FIFOS_ON } else { 0 },
            LINE_CONTROL => self.line_control.load(Relaxed),
            MODEM_CONTROL => self.modem_control.load(Relaxed),
            LINE_STATUS => TRANSMITTER_EMPTY | if line.has_come() { DATA_READY } else { 0 },
            MODEM_STATUS => CONNECTED,
            SCRATCH => self.scratch.load(Relaxed),
            _ => 0,
        }
    }

    /// Stores to a register.
    pub fn store(&self, register: u64, value: u8, line: &impl Line) {
        match register {
            DATA | INTERRUPT_ENABLE if self.is_divisor() => self.divisor[register as usize].store(value, Relaxed),
            DATA => {
                line.send(value);
                self.is_empty.store(1, Relaxed);
            }
            INTERRUPT_ENABLE => {
                let before = self.interrupt_enable.swap(value & 0xf, Relaxed);
                if value & !before & ENABLE_EMPTY != 0 {
                    self.is_empty.store(1, Relaxed);
                }
            }
            INTERRUPT_ID => self.fifos.store(value & 1, Relaxed),
            LINE_CONTROL => self.line_control.store(value, Relaxed),
            MODEM_CONTROL => self.modem_control.store(value & 0x1f, Relaxed),
            SCRATCH => self.scratch.store(value, Relaxed),
            _ => {}
        }
    }
}

#[cfg(test)]
#[expect(missing_docs, reason = "tests of other ports use it")]
pub mod tests {
    use super::*;
    use core::cell::RefCell;

    /// What was sent, and what has come.
    #[derive(Default)]
    pub struct Bytes(RefCell<[alloc::vec::Vec<u8>; 2]>);

    impl Bytes {
        pub fn sent(&self) -> alloc::vec::Vec<u8> {
            self.0.borrow()[0].clone()
        }
        pub fn comes(&self, byte: u8) {
            self.0.borrow_mut()[1].push(byte);
        }
    }

    impl Line for Bytes {
        fn send(&self, byte: u8) {
            self.0.borrow_mut()[0].push(byte);
        }
        fn has_come(&self) -> bool {
            !self.0.borrow()[1].is_empty()
        }
        fn is_noticed(&self) -> bool {
            self.has_come()
        }
        fn take(&self) -> Option<u8> {
            self.0.borrow_mut()[1].pop()
        }
    }

    #[test]
    fn bytes_go_and_come() {
        let (uart, line) = (Uart::new(), Bytes::default());
        uart.store(DATA, b'a', &line);
        assert_eq!(line.0.borrow()[0], b"a");
        assert_eq!(uart.load(LINE_STATUS, &line), TRANSMITTER_EMPTY);
        line.0.borrow_mut()[1].push(b'b');
        assert_eq!(uart.load(LINE_STATUS, &line), TRANSMITTER_EMPTY | DATA_READY);
        assert_eq!(uart.load(DATA, &line), b'b');
        assert_eq!(uart.load(LINE_STATUS, &line), TRANSMITTER_EMPTY);
    }

    #[test]
    fn the_divisor_hides_data() {
        let (uart, line) = (Uart::new(), Bytes::default());
        uart.store(LINE_CONTROL, DIVISOR | 3, &line);
        uart.store(DATA, 7, &line);
        assert_eq!((uart.load(DATA, &line), line.0.borrow()[0].len()), (7, 0));
        uart.store(LINE_CONTROL, 3, &line);
        assert_eq!(uart.load(DATA, &line), 0);
    }

    #[test]
    fn that_there_is_room_is_told_once_each_time() {
        let (uart, line) = (Uart::new(), Bytes::default());
        uart.store(DATA, b'a', &line);
        assert_eq!(uart.load(INTERRUPT_ID, &line), NO_INTERRUPT, "nobody has asked");
        uart.store(INTERRUPT_ENABLE, ENABLE_EMPTY | ENABLE_RECEIVED, &line);
        assert_eq!(uart.load(INTERRUPT_ID, &line), EMPTY);
        assert_eq!(uart.load(INTERRUPT_ID, &line), NO_INTERRUPT);
        uart.store(DATA, b'a', &line);
        line.0.borrow_mut()[1].push(b'b');
        assert_eq!([(); 2].map(|()| uart.load(INTERRUPT_ID, &line)), [RECEIVED; 2]);
        uart.load(DATA, &line);
        assert_eq!(uart.load(INTERRUPT_ID, &line), EMPTY);
    }

    #[test]
    fn the_line_is_high_while_there_is_something_that_is_to_interrupt() {
        let (uart, line) = (Uart::new(), Bytes::default());
        line.0.borrow_mut()[1].push(b'b');
        assert!(!uart.is_interrupting(&line));
        uart.store(INTERRUPT_ENABLE, ENABLE_RECEIVED, &line);
        assert!(uart.is_interrupting(&line) && uart.awaits_bytes());
        uart.load(DATA, &line);
        assert!(!uart.is_interrupting(&line));
        uart.store(INTERRUPT_ENABLE, ENABLE_EMPTY, &line);
        assert!(uart.is_interrupting(&line) && !uart.awaits_bytes());
        assert_eq!(uart.load(INTERRUPT_ID, &line), EMPTY);
        assert!(!uart.is_interrupting(&line));
        uart.store(DATA, b'a', &line);
        assert!(uart.is_interrupting(&line));
    }
}
