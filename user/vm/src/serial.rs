//! The serial port of AArch64 machines: what is typed comes by a thread, and the port's interrupt is a line of the machine's controller.

use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use motet_abi::vm::{self as abi, Exit, reason};
use motet_calls::system::{self, Failure, machine};
use motet_vm::{aarch64, pl011::Pl011, uart::Line};

use crate::monitor;

/// Bytes that may wait for the guest. What is typed beyond waits in the file.
const TYPED: usize = 256;
/// How long the thread sleeps while that many wait.
const FULL_NS: u64 = 1_000_000;

static PORT: Pl011 = Pl011::new();
static BYTES: [AtomicU8; TYPED] = [const { AtomicU8::new(0) }; TYPED];
/// Bytes that have come, and bytes that the guest has taken.
static COME: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The port's line.
struct Typed;

impl Line for Typed {
    fn send(&self, byte: u8) {
        monitor::send(&[byte]);
    }

    fn has_come(&self) -> bool {
        TAKEN.load(Relaxed) != COME.load(Acquire)
    }

    fn is_noticed(&self) -> bool {
        self.has_come()
    }

    fn take(&self) -> Option<u8> {
        loop {
            let taken = TAKEN.load(Relaxed);
            if taken == COME.load(Acquire) {
                return None;
            }
            let byte = BYTES[taken % TYPED].load(Relaxed);
            if TAKEN.compare_exchange(taken, taken.wrapping_add(1), AcqRel, Relaxed).is_ok() {
                return Some(byte);
            }
        }
    }
}

/// Begins to take what is typed.
///
/// # Errors
/// There is no thread for it.
pub fn start() -> Result<(), Failure> {
    machine::spawn(listen, 0).map(drop)
}

/// The thread that takes it.
extern "C" fn listen(_: usize) -> ! {
    loop {
        let come = COME.load(Relaxed);
        let room = TYPED - come.wrapping_sub(TAKEN.load(Acquire));
        let mut bytes = [0; TYPED];
        match system::read(monitor::STDIN, &mut bytes[..room.min(TYPED)]) {
            _ if room == 0 => system::sleep_ns(FULL_NS),
            Ok(0) => break,
            Ok(read) => {
                (come..).zip(&bytes[..read]).for_each(|(at, byte)| BYTES[at % TYPED].store(*byte, Relaxed));
                COME.store(come.wrapping_add(read), Release);
                refresh();
            }
            Err(monitor::EINTR) => {}
            Err(_) => break,
        }
    }
    loop {
        system::sleep(u64::from(u32::MAX));
    }
}

/// Brings the interrupt's line to what the port asks for. Of several threads one does it, and again if others came meanwhile.
fn refresh() {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    static IS_HIGH: AtomicBool = AtomicBool::new(false);
    if ASKED.fetch_add(1, AcqRel) != 0 {
        return;
    }
    loop {
        let asked = ASKED.load(Acquire);
        let asks = PORT.asks(&Typed);
        if IS_HIGH.swap(asks, Relaxed) != asks {
            let line = u64::from(aarch64::UART_INTERRUPT) << abi::LINE_INTERRUPT_SHIFT;
            let _ = machine::command(monitor::machine(), abi::LINE, line | if asks { abi::LINE_HIGH } else { 0 });
        }
        if ASKED.compare_exchange(asked, 0, AcqRel, Acquire).is_ok() {
            return;
        }
    }
}

/// A register of the port is read or written.
pub fn access(exit: &mut Exit) {
    let register = exit.address - aarch64::UART;
    if exit.reason == reason::LOAD {
        exit.value = PORT.load(register, &Typed).into();
    } else {
        PORT.store(register, exit.value as u32, &Typed);
    }
    refresh();
}
