//! The end of a kernel: its last words go to the console and into the island's record.

use core::{
    fmt::Write,
    panic::PanicInfo,
    sync::atomic::{
        AtomicBool,
        Ordering::{Relaxed, Release},
    },
};

use motet_hal::{Machine, Text};
use motet_layout::ISLAND_FAILED;

use crate::{boot, serial, try_machine};

static PANICKING: AtomicBool = AtomicBool::new(false);

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    if PANICKING.swap(true, Relaxed) {
        boot::halt() // another core, or the handler itself, was faster
    }
    let mut text = Text::<512>::new();
    if let Some(machine) = try_machine() {
        let _ = write!(text, "core {}: ", machine.core().0);
    }
    if let Some(place) = info.location() {
        let _ = write!(text, "{}:{}: ", place.file(), place.line());
    }
    let _ = write!(text, "{}", info.message());
    let _ = writeln!(serial::Console, "motet: panic: {}", text.as_str());
    if let Some(machine) = try_machine() {
        let record = &machine.pool().header().islands[machine.island().index()];
        for (into, byte) in record.message.iter().zip(text.as_str().bytes()) {
            into.store(byte, Relaxed);
        }
        record.message_len.store(text.as_str().len() as u32, Relaxed);
        record.state.store(ISLAND_FAILED, Release);
        machine.ring_host();
    }
    boot::halt()
}
