//! RISC-V in S-mode: the SBI for the timer and power, the software interrupt by `sip`, an ns16550 as console.

use core::{
    arch::{asm, global_asm},
    ptr,
};

use crate::{
    Mask,
    interrupts::{self, Interrupt},
};

/// Where memory begins.
pub const RAM: usize = 0x8000_0000;
const UART: usize = 0x1000_0000;
const LINE_STATUS: usize = UART + 5;
const HOLDS_NOTHING: u8 = 1 << 5;

const SIE: usize = 1 << 1;
const SOFTWARE: usize = 1 << 1;
const TIMER: usize = 1 << 5;
const INTERRUPT: usize = 1 << 63;

const SBI_TIME: usize = 0x5449_4D45;
const SBI_RESET: usize = 0x5352_5354;

global_asm!(
    r#"
    .macro volatiles operation
        \operation ra, 0(sp)
        \operation t0, 8(sp)
        \operation t1, 16(sp)
        \operation t2, 24(sp)
        \operation a0, 32(sp)
        \operation a1, 40(sp)
        \operation a2, 48(sp)
        \operation a3, 56(sp)
        \operation a4, 64(sp)
        \operation a5, 72(sp)
        \operation a6, 80(sp)
        \operation a7, 88(sp)
        \operation t3, 96(sp)
        \operation t4, 104(sp)
        \operation t5, 112(sp)
        \operation t6, 120(sp)
    .endm
    .macro kept operation
        \operation ra, 0(sp)
        \operation s0, 8(sp)
        \operation s1, 16(sp)
        \operation s2, 24(sp)
        \operation s3, 32(sp)
        \operation s4, 40(sp)
        \operation s5, 48(sp)
        \operation s6, 56(sp)
        \operation s7, 64(sp)
        \operation s8, 72(sp)
        \operation s9, 80(sp)
        \operation s10, 88(sp)
        \operation s11, 96(sp)
    .endm

    .section .entry, "ax"
    .globl _start
_start:
    csrw sie, zero
    csrci sstatus, 2
    la t0, motet_guest_fault_entry
    csrw stvec, t0
    la sp, motet_guest_first_stack_end
    la t0, __bss_start
    la t1, __bss_end
1:  bgeu t0, t1, 2f
    sd zero, 0(t0)
    addi t0, t0, 8
    j 1b
2:  call motet_guest_start

    .text
    .balign 4
motet_guest_fault_entry:
    csrr a0, scause
    csrr a1, stval
    csrr a2, sepc
    call motet_guest_fault

    # Interrupts, on the stack of what they interrupt.
    .balign 4
motet_guest_trap_entry:
    addi sp, sp, -144
    volatiles sd
    csrr t0, sepc
    csrr t1, sstatus
    sd t0, 128(sp)
    sd t1, 136(sp)
    csrr a0, scause
    bgez a0, motet_guest_fault_entry
    call motet_guest_interrupt
    ld t0, 128(sp)
    ld t1, 136(sp)
    csrw sepc, t0
    csrw sstatus, t1
    volatiles ld
    addi sp, sp, 144
    sret

    # a0: where the stack pointer goes; a1: the other one.
motet_guest_switch:
    addi sp, sp, -112
    kept sd
    sd sp, 0(a0)
    mv sp, a1
    kept ld
    addi sp, sp, 112
    ret

    # The first thing that a prepared stack does.
motet_guest_begin:
    csrsi sstatus, 2
    mv a0, s1
    jalr s0
    unimp

    .section .stacks, "aw", @nobits
    .balign 16
    .zero 16384
motet_guest_first_stack_end:
    "#
);

unsafe extern "C" {
    static motet_guest_trap_entry: u8;
    fn motet_guest_begin();
    fn motet_guest_switch(from: *mut usize, to: usize);
}

pub fn now() -> u64 {
    let time;
    // SAFETY: reads a counter.
    unsafe { asm!("csrr {}, time", out(reg) time, options(nomem, nostack, preserves_flags)) };
    time
}

/// The device tree has it.
pub fn frequency() -> Option<u64> {
    None
}

pub fn put(byte: u8) {
    let device = |address| ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: the serial port's registers, which every `virt` board has here.
    unsafe {
        while device(LINE_STATUS).read_volatile() & HOLDS_NOTHING == 0 {}
        device(UART).write_volatile(byte);
    }
}

pub fn wait_for_interrupt() {
    // SAFETY: only waits.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Masks interrupts, and says how that was.
pub fn mask() -> usize {
    let before: usize;
    // SAFETY: a processor's interrupts are this crate's. Memory is not moved across.
    unsafe { asm!("csrrci {}, sstatus, 2", out(reg) before, options(nostack)) };
    before & SIE
}

/// Masks them as they were.
pub fn unmask(before: usize) {
    // SAFETY: as above.
    unsafe { asm!("csrs sstatus, {}", in(reg) before, options(nostack)) };
}

pub fn enable() {
    unmask(SIE);
}

/// The alarm has not been set, so nothing is due.
pub fn set_up_interrupts() {
    // SAFETY: a processor's interrupts are this crate's.
    unsafe { asm!("csrw sie, {}", in(reg) SOFTWARE | TIMER, options(nostack)) };
}

pub fn install_entry() {
    let entry = (&raw const motet_guest_trap_entry).addr();
    // SAFETY: the entry keeps all registers.
    unsafe { asm!("csrw stvec, {}", in(reg) entry, options(nostack)) };
}

#[unsafe(no_mangle)]
extern "C" fn motet_guest_interrupt(cause: usize) {
    let interrupt = match 1 << (cause & !INTERRUPT) {
        TIMER => Interrupt::Timer,
        SOFTWARE => {
            // SAFETY: it has been taken.
            unsafe { asm!("csrc sip, {}", in(reg) SOFTWARE, options(nostack)) };
            Interrupt::Software
        }
        _ => crate::fail(format_args!("an interrupt that nobody asked for: {cause:#x}")),
    };
    interrupts::arrived(&Mask::new(), interrupt);
}

pub fn set_alarm(time: u64) {
    call(SBI_TIME, 0, [time as usize, 0]);
}

pub fn raise() {
    // SAFETY: its handler is this crate's.
    unsafe { asm!("csrs sip, {}", in(reg) SOFTWARE, options(nostack)) };
}

pub fn power_off(has_succeeded: bool) -> ! {
    loop {
        // Shutdown, for no reason or because the system has failed.
        call(SBI_RESET, 0, [0, usize::from(!has_succeeded)]);
    }
}

/// A call of the firmware (SBI 2.0, chapter 3).
fn call(extension: usize, function: usize, arguments: [usize; 2]) {
    // SAFETY: none of the calls above changes memory.
    unsafe {
        asm!("ecall", in("a7") extension, in("a6") function, inout("a0") arguments[0] => _, inout("a1") arguments[1] => _,
            in("a2") 0, options(nostack));
    }
}

/// Writes what [`switch_stacks`] loads to the end of a stack. The stack pointer.
///
/// # Safety
/// The stack is nobody else's, and has room.
pub unsafe fn prepare_stack(end: usize, function: fn(usize) -> !, argument: usize) -> usize {
    let start = end - 112;
    let frame = ptr::with_exposed_provenance_mut::<usize>(start);
    // SAFETY: the caller's promise.
    unsafe {
        frame.write(motet_guest_begin as *const () as usize);
        frame.add(1).write(function as *const () as usize);
        frame.add(2).write(argument);
    }
    start
}

/// Leaves a stack, keeping its pointer, for another one.
///
/// # Safety
/// Interrupts are masked, and the other stack was left by this, or prepared.
pub unsafe fn switch_stacks(from: *mut usize, to: usize) {
    // SAFETY: the caller's promise.
    unsafe { motet_guest_switch(from, to) };
}
