//! The guest's console: the serial port of its machine, and the console calls of its firmware.

use motet_abi::vm::{Exit, reason};
use motet_calls::system::Failure;
use motet_vm::{
    aarch64, board,
    pl011::Pl011,
    uart::{Line, Uart},
};

use crate::{input, interrupts, monitor, monitor::IS_AARCH64};

/// First address of its registers, how many bytes they have, and its interrupt.
const PLACE: (u64, u64, usize) = if IS_AARCH64 {
    (aarch64::UART, aarch64::UART_BYTES, aarch64::UART_INTERRUPT as usize)
} else {
    (board::UART, board::UART_BYTES, board::UART_SOURCE)
};

/// The port of RISC-V's machines, and that of AArch64's.
static UART: Uart = Uart::new();
static PL011: Pl011 = Pl011::new();

/// The other end of the port.
struct Console;

impl Line for Console {
    fn send(&self, byte: u8) {
        monitor::send(&[byte]);
    }

    fn has_come(&self) -> bool {
        input::has_come()
    }

    fn is_noticed(&self) -> bool {
        input::is_noticed()
    }

    fn take(&self) -> Option<u8> {
        input::take()
    }
}

/// Starts the thread that waits for input.
///
/// # Errors
/// The thread cannot be made.
pub fn start() -> Result<(), Failure> {
    extern "C" fn watch(_: usize) -> ! {
        input::watch_forever(refresh)
    }
    input::start(watch)
}

/// Loads or stores a register of the port. `false`: the address is not the port's.
pub fn access(exit: &mut Exit) -> bool {
    let (start, bytes, _) = PLACE;
    let Some(register) = exit.address.checked_sub(start).filter(|&register| register < bytes) else { return false };
    match (exit.reason == reason::LOAD, IS_AARCH64) {
        (true, true) => exit.value = PL011.load(register, &Console).into(),
        (true, false) => exit.value = UART.load(register, &Console).into(),
        (false, true) => PL011.store(register, exit.value as u32, &Console),
        (false, false) => UART.store(register, exit.value as u8, &Console),
    }
    settle();
    true
}

/// Takes a byte for the firmware, if there is one.
pub fn take() -> Option<u8> {
    let byte = input::take();
    settle();
    byte
}

/// Has the thread wait for input if received bytes would interrupt, and sets the interrupt line.
fn settle() {
    let listens = if IS_AARCH64 { PL011.listens() } else { UART.awaits_bytes() };
    if listens && !input::is_noticed() {
        input::watch();
    }
    refresh();
}

fn refresh() {
    let asks = || if IS_AARCH64 { PL011.asks(&Console) } else { UART.is_interrupting(&Console) };
    interrupts::set_line(PLACE.2, asks);
}
