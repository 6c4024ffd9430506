//! Interrupts of devices: lines of the interrupt controller, and those from it to the cores.

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

use motet_abi::vm as abi;
use motet_calls::system::machine;
use motet_vm::plic::{Plic, context_of};

static PLIC: Plic = Plic::new();
static MACHINE: AtomicI32 = AtomicI32::new(-1);
static CORES: AtomicUsize = AtomicUsize::new(0);
/// What the kernel has been told of each core's line last.
static LINES: [AtomicBool; abi::VCPUS_MAX as usize] = [const { AtomicBool::new(false) }; abi::VCPUS_MAX as usize];

/// From now on lines go to the cores of this machine.
pub fn start(machine: i32, cores: usize) {
    CORES.store(cores, Relaxed);
    MACHINE.store(machine, Relaxed);
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

/// A device's line is as `is_high` says, which is asked again afterwards: others may have changed that and been here before.
pub fn set_line(source: usize, is_high: impl Fn() -> bool) {
    loop {
        let level = is_high();
        PLIC.set_level(source, level);
        if is_high() == level {
            break;
        }
    }
    update();
}

/// A device interrupts once.
pub fn pulse(source: usize) {
    PLIC.pulse(source);
    update();
}

/// Tells the kernel what has changed of cores' lines. Of several that do so at the same time, the last one to tell it looks again afterwards.
fn update() {
    for core in 0..CORES.load(Relaxed) {
        let is_high = || PLIC.is_interrupted(context_of(core));
        let mut level = is_high();
        if LINES[core].swap(level, SeqCst) == level {
            continue;
        }
        loop {
            let argument = core as u64 | if level { abi::LINE_HIGH } else { 0 };
            let _ = machine::command(MACHINE.load(Relaxed), abi::LINE, argument);
            let told = level;
            level = is_high();
            if level == told {
                break;
            }
            LINES[core].swap(level, SeqCst);
        }
    }
}
