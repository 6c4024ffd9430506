//! RISC-V in S-mode: the SBI for the timer and power, the software interrupt by `sip`, an ns16550 as console.

use core::{
    arch::{asm, global_asm},
    ptr,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::{
    Isa, Mask,
    interrupts::{self, Interrupt},
};

pub const ISA: Isa = Isa::RiscV64;
/// Where memory begins.
pub const RAM: usize = 0x8000_0000;
const UART: usize = 0x1000_0000;
const INTERRUPT_ENABLE: usize = UART + 1;
const LINE_STATUS: usize = UART + 5;
const HAS_COME: u8 = 1;
const HOLDS_NOTHING: u8 = 1 << 5;
pub const SERIAL_INTERRUPT: u32 = 10;
/// Of Motet's virtual machines: the first area that they share, its registers and their interrupt.
pub const SHARE_MEMORY: usize = 0x6000_0000;
pub const SHARE_REGISTERS: usize = 0x5fff_0000;
pub const SHARE_INTERRUPT: u32 = 32;

/// The interrupt controller (RISC-V Platform-Level Interrupt Controller Specification 1.0.0).
const CONTROLLER: usize = 0x0c00_0000;
const ENABLED: usize = CONTROLLER + 0x2000;
const CONTEXT: usize = CONTROLLER + 0x20_0000;
const CLAIM: usize = 4;
/// Where the context of the core that boots has its registers, as an offset: harts have two each, of M-mode and of S-mode.
static CONTEXT_AT: AtomicUsize = AtomicUsize::new(CONTEXT + 0x1000);

const SIE: usize = 1 << 1;
const SOFTWARE: usize = 1 << 1;
const TIMER: usize = 1 << 5;
const EXTERNAL: usize = 1 << 9;
const INTERRUPT: usize = 1 << 63;

const SBI_TIME: usize = 0x5449_4D45;
const SBI_HART_STATES: usize = 0x48_534D;
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
    # Which core it is; nobody else uses it.
    li tp, 0
    la sp, motet_guest_first_stack_end
    la t0, __bss_start
    la t1, __bss_end
1:  bgeu t0, t1, 2f
    sd zero, 0(t0)
    addi t0, t0, 8
    j 1b
2:  call motet_guest_start

    # Another core; a1: its stack, with a function and its argument.
    .globl motet_guest_core_entry
motet_guest_core_entry:
    csrw sie, zero
    csrci sstatus, 2
    la t0, motet_guest_fault_entry
    csrw stvec, t0
    mv sp, a1
    ld a0, 8(sp)
    mv tp, a0
    ld t0, 0(sp)
    jalr t0
    unimp

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

    # a0: instructions, which end in a breakpoint; a1: eight words, for and from a0 to a7. The exception that they end in.
motet_guest_attempt:
    addi sp, sp, -128
    kept sd
    sd gp, 104(sp)
    sd a1, 112(sp)
    la t0, motet_guest_recovery
    sd sp, 0(t0)
    la t0, motet_guest_recover
    csrw stvec, t0
    li t0, 32
    csrw sie, t0
    csrsi sstatus, 2
    mv t0, a0
    mv t1, a1
    ld a0, 0(t1)
    ld a1, 8(t1)
    ld a2, 16(t1)
    ld a3, 24(t1)
    ld a4, 32(t1)
    ld a5, 40(t1)
    ld a6, 48(t1)
    ld a7, 56(t1)
    # No register says where the guest's own memory is.
    li t1, 65536
    add sp, t0, t1
    .irp register, s0, s2, s4, s6, s8, s10, t1, t3, t5
    mv \register, a0
    .endr
    .irp register, s1, s3, s5, s7, s9, s11, t2, t4, t6, gp
    mv \register, a3
    .endr
    la ra, 1f
    fence.i
    jr t0
    .option push
    .option norvc
1:  ebreak
    .option pop
    .balign 4
motet_guest_recover:
    la t0, motet_guest_recovery
    ld sp, 0(t0)
    li tp, 0
    ld t1, 112(sp)
    sd a0, 0(t1)
    sd a1, 8(t1)
    csrw sie, zero
    la t0, motet_guest_fault_entry
    csrw stvec, t0
    csrr a0, scause
    csrci sstatus, 2
    ld gp, 104(sp)
    kept ld
    addi sp, sp, 128
    ret

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

    .section .bss
    .balign 8
motet_guest_recovery:
    .zero 8
    "#
);

unsafe extern "C" {
    static motet_guest_trap_entry: u8;
    fn motet_guest_attempt(code: *const u32, arguments: *mut [u64; 8]) -> u64;
    fn motet_guest_begin();
    fn motet_guest_core_entry();
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

fn device(address: usize) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address)
}

fn read(address: usize) -> u32 {
    // SAFETY: the interrupt controller's registers, which are this crate's.
    unsafe { device(address).cast::<u32>().read_volatile() }
}

fn write(address: usize, value: u32) {
    // SAFETY: as above.
    unsafe { device(address).cast::<u32>().write_volatile(value) };
}

/// A source's number, by its cell in device trees.
pub fn interrupt_number(cell: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(cell.try_into().ok()?))
}

/// The interrupt controller does not know how sources signal.
pub fn make_edge(_number: u32) {}

pub fn enable_device(hart: usize, number: u32) {
    let context = 2 * hart + 1;
    CONTEXT_AT.store(CONTEXT + 0x1000 * context, Relaxed);
    let number = number as usize;
    write(CONTROLLER + 4 * number, 1);
    let enabled = ENABLED + 0x80 * context + number / 32 * 4;
    write(enabled, read(enabled) | 1 << (number % 32));
    write(CONTEXT + 0x1000 * context, 0);
    // SAFETY: a processor's interrupts are this crate's.
    unsafe { asm!("csrs sie, {}", in(reg) EXTERNAL, options(nostack)) };
}

pub fn let_serial_interrupt() {
    // SAFETY: the serial port's registers: it interrupts when a byte has come.
    unsafe { device(INTERRUPT_ENABLE).write_volatile(1) };
}

pub fn take_byte() -> Option<u8> {
    // SAFETY: the serial port's registers.
    unsafe { (device(LINE_STATUS).read_volatile() & HAS_COME != 0).then(|| device(UART).read_volatile()) }
}

pub fn put(byte: u8) {
    // SAFETY: the serial port's registers, which every `virt` board has here.
    unsafe {
        while device(LINE_STATUS).read_volatile() & HOLDS_NOTHING == 0 {}
        device(UART).write_volatile(byte);
    }
}

pub fn translate() -> Option<usize> {
    None
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
        EXTERNAL => {
            let claim = CONTEXT_AT.load(Relaxed) + CLAIM;
            let number = read(claim);
            if number == 0 {
                return;
            }
            // Ended at once, as the handler may not come back soon. It comes again if the device wants something still.
            write(claim, number);
            Interrupt::Device(number)
        }
        _ => crate::fail(format_args!("an interrupt that nobody asked for: {cause:#x}")),
    };
    interrupts::arrived(&Mask::new(), interrupt);
}

pub fn set_alarm(time: u64) {
    call(SBI_TIME, 0, [time as usize, 0, 0]);
}

pub fn raise() {
    // SAFETY: its handler is this crate's.
    unsafe { asm!("csrs sip, {}", in(reg) SOFTWARE, options(nostack)) };
}

pub fn power_off(has_succeeded: bool) -> ! {
    loop {
        // Shutdown, for no reason or because the system has failed.
        call(SBI_RESET, 0, [0, usize::from(!has_succeeded), 0]);
    }
}

pub fn reset() -> ! {
    const COLD_REBOOT: usize = 1;
    loop {
        call(SBI_RESET, 0, [COLD_REBOOT, 0, 0]);
    }
}

/// A call of the firmware (SBI 2.0, chapter 3). Its error, or 0.
fn call(extension: usize, function: usize, arguments: [usize; 3]) -> i64 {
    let error;
    // SAFETY: none of the calls here changes memory.
    unsafe {
        asm!("ecall", in("a7") extension, in("a6") function, inout("a0") arguments[0] => error, inout("a1") arguments[1] => _,
            in("a2") arguments[2], options(nostack));
    }
    error
}

pub fn is_first_core() -> bool {
    let core: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, tp", out(reg) core, options(nomem, nostack, preserves_flags)) };
    core == 0
}

pub fn own_core(hart: usize) -> u64 {
    hart as u64
}

/// Writes what a core's entry loads to the end of its stack. The stack pointer.
///
/// # Safety
/// The stack is nobody else's, and has room.
pub unsafe fn prepare_core(end: usize, function: fn(usize) -> !, number: usize) -> usize {
    let start = end - 16;
    let frame = ptr::with_exposed_provenance_mut::<usize>(start);
    // SAFETY: the caller's promise.
    unsafe {
        frame.write_volatile(function as *const () as usize);
        frame.add(1).write_volatile(number);
    }
    start
}

pub fn start_core(id: u64, stack: usize) -> Result<(), i64> {
    match call(SBI_HART_STATES, 0, [id as usize, motet_guest_core_entry as *const () as usize, stack]) {
        0 => Ok(()),
        error => Err(error),
    }
}

/// `ebreak`
pub const BREAKPOINT: u32 = 0x0010_0073;

pub fn is_breakpoint(exception: u64) -> bool {
    exception == 3
}

/// # Safety
/// See [`crate::attempt`].
pub unsafe fn attempt(code: *const u32, arguments: &mut [u64; 8]) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { motet_guest_attempt(code, arguments) }
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
