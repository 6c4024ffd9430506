//! Interrupts of devices. Devices drive lines of the interrupt controller. On RISC-V the monitor emulates the controller, and tells the kernel the lines
//! to the cores. On AArch64 the kernel emulates it, and the monitor tells the kernel the devices' lines.

use core::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

use motet_abi::vm as abi;
use motet_calls::system::machine;
use motet_vm::plic::{Plic, context_of};

use crate::monitor::{self, IS_AARCH64};

static PLIC: Plic = Plic::new();
static CORES: AtomicUsize = AtomicUsize::new(0);
/// Lines that the kernel is told of: those of cores (RISC-V), or of shared interrupts (AArch64).
const LINES_MAX: usize = 96;
/// The last level of each line that the kernel was told.
static LINES: [AtomicBool; LINES_MAX] = [const { AtomicBool::new(false) }; LINES_MAX];

/// Sets the number of cores that lines go to.
pub fn start(cores: usize) {
    CORES.store(cores, Relaxed);
}

/// Loads a register of the controller.
pub fn load(offset: u64) -> u32 {
    let value = PLIC.load(offset);
    update();
    value
}

/// Stores to a register of the controller.
pub fn store(offset: u64, value: u32) {
    PLIC.store(offset, value);
    update();
}

/// Sets a device's line to the level that `is_high` returns. `is_high` is called again afterwards, because another thread may have changed the level
/// and set the line before. `interrupt`: the source (RISC-V) or id (AArch64).
pub fn set_line(interrupt: usize, is_high: impl Fn() -> bool) {
    if IS_AARCH64 {
        return tell(&LINES[interrupt], (interrupt as u64) << abi::LINE_INTERRUPT_SHIFT, is_high);
    }
    loop {
        let level = is_high();
        PLIC.set_level(interrupt, level);
        if is_high() == level {
            break;
        }
    }
    update();
}

/// Pulses a device's line: one interrupt. `interrupt`: as in [`set_line`].
pub fn pulse(interrupt: usize) {
    if IS_AARCH64 {
        for level in [abi::LINE_HIGH, 0] {
            let _ = machine::command(
                monitor::machine(),
                abi::LINE,
                (interrupt as u64) << abi::LINE_INTERRUPT_SHIFT | level,
            );
        }
    } else {
        PLIC.pulse(interrupt);
        update();
    }
}

/// Tells the kernel which lines to cores have changed.
fn update() {
    for (core, line) in LINES.iter().enumerate().take(CORES.load(Relaxed)) {
        tell(line, core as u64, || PLIC.is_interrupted(context_of(core)));
    }
}

/// Tells the kernel a line's level, if it has changed. If several threads do so at the same time, the last one checks the level again afterwards.
fn tell(known: &AtomicBool, line: u64, is_high: impl Fn() -> bool) {
    let mut level = is_high();
    if known.swap(level, SeqCst) == level {
        return;
    }
    loop {
        let argument = line | if level { abi::LINE_HIGH } else { 0 };
        let _ = machine::command(monitor::machine(), abi::LINE, argument);
        let told = level;
        level = is_high();
        if level == told {
            break;
        }
        known.swap(level, SeqCst);
    }
}
