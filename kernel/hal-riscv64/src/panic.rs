//! The end of a core: panics and refusals.

use core::{
    arch::asm,
    panic::PanicInfo,
    sync::atomic::Ordering::{Relaxed, Release},
};

use motet_hal::{Machine, Text};
use motet_layout::ISLAND_FAILED;

use crate::{
    console::{log_line, write},
    csr::write_csr,
    machine::TheMachine,
    per_core::PerCore,
};

/// Bytes of a message; what the island record holds.
const MESSAGE_LEN_MAX: usize = 256;

/// Reports on the console and in the island's record, rings the host, stops this core.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let core = PerCore::this();
    if core.panicking.swap(true, Relaxed) {
        park();
    }
    let message = match info.location() {
        Some(at) => Text::<MESSAGE_LEN_MAX>::of(format_args!(
            "core {}: {} ({}:{})",
            core.core().index_in_island(),
            info.message(),
            at.file(),
            at.line()
        )),
        None => Text::of(format_args!("core {}: {}", core.core().index_in_island(), info.message())),
    };
    write(b"motet: panic: ");
    write(message.bytes());
    write(b"\n");
    if let Some(machine) = TheMachine::get() {
        let record = &machine.pool().header().islands[machine.island().index()];
        for (byte, value) in record.message.iter().zip(message.bytes()) {
            byte.store(*value, Relaxed);
        }
        record.message_len.store(message.bytes().len() as u32, Relaxed);
        record.state.store(ISLAND_FAILED, Release);
        machine.ring_host();
    }
    park()
}

/// Says why this kernel does not join, and stops. The host reads the line.
pub fn refuse(reason: core::fmt::Arguments<'_>) -> ! {
    log_line!("refused: {reason}");
    park()
}

/// Stops this core for good.
pub fn park() -> ! {
    loop {
        // SAFETY: nothing can wake this core but what it ignores.
        unsafe {
            write_csr!("sie", 0);
            asm!("wfi", options(nomem, nostack));
        }
    }
}
