//! The end of a kernel: exceptions in kernel mode, and panics.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use motet_hal::Machine;
use motet_layout::ISLAND_FAILED;

use crate::console::{Message, log_line};
use crate::cpu::{PerCore, barrier, read_register};
use crate::machine::AArch64;

/// An exception taken from kernel mode (trap.s), on the core's fault stack.
#[unsafe(no_mangle)]
extern "C" fn motet_kernel_fault(core: &'static PerCore, kind: u64) -> ! {
    if core.faulted.swap(1, Ordering::Relaxed) == 1 {
        // Reporting the first exception (or stopping after it) failed.
        loop {
            barrier!("wfi");
        }
    }
    const KINDS: [&str; 4] = ["synchronous", "IRQ", "FIQ", "SError"];
    let (syndrome, pc) = (read_register!("esr_el1"), read_register!("elr_el1"));
    for (row, registers) in core.fault_regs.chunks_exact(4).enumerate() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|index: usize| registers[index].load(Ordering::Relaxed));
        log_line!("x{:02} {a:#018x} {b:#018x} {c:#018x} {d:#018x}", 4 * row);
    }
    die(format_args!(
        "kernel exception {kind} ({}): class {:#x}, syndrome {syndrome:#x}, pc {pc:#x}, address {:#x}, sp {:#x}",
        KINDS[kind as usize % 4],
        syndrome >> 26 & 0x3f,
        read_register!("far_el1"),
        core.fault_regs[31].load(Ordering::Relaxed),
    ))
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    match info.location() {
        Some(location) => die(format_args!("{} ({location})", info.message())),
        None => die(format_args!("{}", info.message())),
    }
}

/// Reports the end of this kernel and stops the core.
fn die(reason: core::fmt::Arguments) -> ! {
    static DYING: AtomicBool = AtomicBool::new(false);
    let core = PerCore::this().core_id();
    let message = Message::of(format_args!("core {} of island {}: {reason}", core.index_in_island(), core.island().0));
    log_line!("panic: {}", core::str::from_utf8(message.bytes()).unwrap_or("(message cut)"));
    if let (Some(machine), false) = (crate::boot::machine(), DYING.swap(true, Ordering::Relaxed)) {
        publish(machine, message.bytes());
        machine.park()
    }
    crate::machine::stop_core()
}

/// Tells the host and the other islands.
fn publish(machine: &AArch64, message: &[u8]) {
    let record = &machine.pool().header().islands[machine.island().index()];
    for (to, from) in record.message.iter().zip(message) {
        to.store(*from, Ordering::Relaxed);
    }
    record.message_len.store(message.len().min(record.message.len()) as u32, Ordering::Relaxed);
    record.state.store(ISLAND_FAILED, Ordering::Release);
    machine.ring_host();
}
