//! The local APIC, in xAPIC mode: an end of interrupt, a timer setting is one store (x2APIC needs four instructions).
//!
//! APIC ids are the cores' indices, which is how QEMU numbers the cores of one socket.

use motet_hal::{interrupt::Message, registers::Registers};
use motet_layout::DEVICE_VA;
use x86_64::registers::model_specific::Msr;

use crate::trap::{VECTOR_DOORBELL, VECTOR_NETWORK, VECTOR_SPURIOUS, VECTOR_TIMER};

const PHYS: u64 = 0xfee0_0000;
// SAFETY: the device window maps it uncached for good; used only after the kernel's page tables are active.
const APIC: Registers = unsafe { Registers::new((DEVICE_VA + PHYS) as usize) };

const ID: usize = 0x20;
const TASK_PRIORITY: usize = 0x80;
const END_OF_INTERRUPT: usize = 0xb0;
/// Address of the register to which a store ends the interrupt in service.
pub const END_OF_INTERRUPT_VA: u64 = DEVICE_VA + PHYS + END_OF_INTERRUPT as u64;
const SPURIOUS: usize = 0xf0;
const COMMAND_LOW: usize = 0x300;
const COMMAND_HIGH: usize = 0x310;
const LVT_TIMER: usize = 0x320;
const LVT_LINT0: usize = 0x350;
const LVT_LINT1: usize = 0x360;
const LVT_ERROR: usize = 0x370;
const TIMER_INITIAL: usize = 0x380;
const TIMER_CURRENT: usize = 0x390;
const TIMER_DIVIDE: usize = 0x3e0;
const MASKED: u32 = 1 << 16;
const DIVIDE_BY_16: u32 = 3;

/// Switches this core's APIC on, with the timer and the doorbell as its only sources.
pub fn init() {
    const IA32_APIC_BASE: u32 = 0x1b;
    const BOOT_CORE: u64 = 1 << 8;
    const ENABLE: u64 = 1 << 11;
    const ENABLE_SOFTWARE: u32 = 1 << 8;
    let mut base = Msr::new(IA32_APIC_BASE);
    // SAFETY: puts the APIC where `APIC` is, in xAPIC mode.
    unsafe { base.write(base.read() & BOOT_CORE | ENABLE | PHYS) };
    for lvt in [LVT_LINT0, LVT_LINT1, LVT_ERROR] {
        APIC.write32(lvt, MASKED);
    }
    APIC.write32(TASK_PRIORITY, 0);
    APIC.write32(SPURIOUS, ENABLE_SOFTWARE | u32::from(VECTOR_SPURIOUS));
    APIC.write32(TIMER_DIVIDE, DIVIDE_BY_16);
    APIC.write32(LVT_TIMER, u32::from(VECTOR_TIMER)); // one-shot
}

/// This core's APIC id.
pub fn id() -> u32 {
    APIC.read32(ID) >> 24
}

/// Ends the interrupt in service.
#[inline(always)]
pub fn end_of_interrupt() {
    APIC.write32(END_OF_INTERRUPT, 0);
}

/// Interrupts this core after `count` timer ticks; 0: never.
#[inline(always)]
pub fn start_timer(count: u32) {
    APIC.write32(TIMER_INITIAL, count);
}

/// Timer ticks left.
pub fn timer_left() -> u32 {
    APIC.read32(TIMER_CURRENT)
}

/// Sends core `index` of this island a doorbell.
pub fn send_doorbell(index: usize) {
    send(index, u32::from(VECTOR_DOORBELL));
}

/// Resets core `index` and starts it in real mode at physical address `page * 4096`.
pub fn start_core(index: usize, page: u8) {
    const INIT: u32 = 0x4500;
    const STARTUP: u32 = 0x4600;
    send(index, INIT);
    send(index, STARTUP | u32::from(page));
}

fn send(index: usize, command: u32) {
    APIC.write32(COMMAND_HIGH, (index as u32) << 24);
    APIC.write32(COMMAND_LOW, command);
}

/// The message by which a device interrupts core `index` with a doorbell.
pub fn doorbell_message(index: usize) -> Message {
    Message { address: PHYS | (index as u64) << 12, data: u32::from(VECTOR_DOORBELL) }
}

/// The message by which the network device interrupts the island's first core.
pub const NETWORK_MESSAGE: Message = Message { address: PHYS, data: VECTOR_NETWORK as u32 };
