//! Interrupts of devices: lines of the interrupt controller, which is the monitor's own on RISC-V, with lines from it to the cores, and the kernel's on
//! AArch64.

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
/// Lines that the kernel knows: of cores, or of interrupts that AArch64's cores share.
const LINES_MAX: usize = 96;
/// What it has been told of each last.
static LINES: [AtomicBool; LINES_MAX] = [const { AtomicBool::new(false) }; LINES_MAX];

/// From now on lines go to so many cores.
pub fn start(cores: usize) {
    CORES.store(cores, Relaxed);
}

/// The controller's register is read.
pub fn load(offset: u64) -> u32 {
    let value = PLIC.load(offset);
    update();
    value
}

/// It is written.
pub fn store(offset: u64, value: u32) {
    PLIC.store(offset, value);
    update();
}

/// A device's line is as `is_high` says, which is asked again afterwards: others may have changed that and been here before. `interrupt`: its source,
/// or id.
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

/// A device interrupts once. `interrupt`: as before.
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

/// Tells the kernel what has changed of cores' lines.
fn update() {
    for core in 0..CORES.load(Relaxed) {
        tell(&LINES[core], core as u64, || PLIC.is_interrupted(context_of(core)));
    }
}

/// Tells the kernel of a line, if it does not know. Of several that do so at the same time, the last one to tell it looks again afterwards.
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
