//! AArch64 at EL1: GICv3, the virtual timer, PSCI by HVC, a PL011 as console. The software interrupt is number 0 of those that
//! cores send each other.

use core::{
    arch::{asm, global_asm},
    ptr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    Isa, Mask,
    interrupts::{self, Interrupt},
};

pub const ISA: Isa = Isa::AArch64;
/// Where memory begins.
pub const RAM: usize = 0x4000_0000;
const UART: usize = 0x0900_0000;
const FLAGS: usize = UART + 0x18;
const HAS_NOTHING: u32 = 1 << 4;
const INTERRUPT_MASK: usize = UART + 0x38;
const RECEIVED: u32 = 1 << 4;
const RECEIVED_LATELY: u32 = 1 << 6;
pub const SERIAL_INTERRUPT: u32 = 33;
/// Of Motet's virtual machines: the first area that they share, its registers and their interrupt.
pub const SHARE_MEMORY: usize = 0x2000_0000;
pub const SHARE_REGISTERS: usize = 0x1fff_0000;
pub const SHARE_INTERRUPT: u32 = 64;
const IS_FULL: u32 = 1 << 5;

const DISTRIBUTOR: usize = 0x0800_0000;
/// The first core's.
const REDISTRIBUTOR: usize = 0x080a_0000;
const WAKER: usize = REDISTRIBUTOR + 0x14;
const PRIVATE: usize = REDISTRIBUTOR + 0x1_0000;

const SOFTWARE: u32 = 0;
const TIMER: u32 = 27;
/// CNTV_CTL_EL0.ISTATUS.
const TIMER_IS_DUE: u64 = 1 << 2;
/// What an acknowledgement says when there is nothing.
const NONE: u32 = 1020;
/// Of the timer's and the software interrupt, with the 32 levels that a GIC has at least: the timer's is the lowest that can come
/// at all, as FreeRTOS wants it.
const PRIORITIES: [(u32, u8); 2] = [(TIMER, 30 << 3), (SOFTWARE, 20 << 3)];

const SYSTEM_OFF: usize = 0x8400_0008;
const SYSTEM_RESET: usize = 0x8400_0009;
const CPU_ON: usize = 0xC400_0003;
/// The parts of a core's affinity, as PSCI and device trees have it.
const AFFINITY: u64 = 0xff_00ff_ffff;

global_asm!(
    r#"
    .macro volatiles operation
        \operation x0, x1, [sp, 0]
        \operation x2, x3, [sp, 16]
        \operation x4, x5, [sp, 32]
        \operation x6, x7, [sp, 48]
        \operation x8, x9, [sp, 64]
        \operation x10, x11, [sp, 80]
        \operation x12, x13, [sp, 96]
        \operation x14, x15, [sp, 112]
        \operation x16, x17, [sp, 128]
        \operation x18, x30, [sp, 144]
    .endm
    .macro kept operation
        \operation x19, x20, [sp, 0]
        \operation x21, x22, [sp, 16]
        \operation x23, x24, [sp, 32]
        \operation x25, x26, [sp, 48]
        \operation x27, x28, [sp, 64]
        \operation x29, x30, [sp, 80]
    .endm
    .macro vector target
        .balign 128
        b \target
    .endm

    .section .entry, "ax"
    .globl _start
_start:
    msr daifset, 15
    msr spsel, 1
    adrp x1, motet_guest_vectors
    add x1, x1, :lo12:motet_guest_vectors
    msr vbar_el1, x1
    // Which core it is; nobody else uses it.
    msr tpidr_el1, xzr
    adrp x1, motet_guest_first_stack_end
    add x1, x1, :lo12:motet_guest_first_stack_end
    mov sp, x1
    adrp x1, __bss_start
    add x1, x1, :lo12:__bss_start
    adrp x2, __bss_end
    add x2, x2, :lo12:__bss_end
1:  cmp x1, x2
    b.hs 2f
    str xzr, [x1], 8
    b 1b
2:  mov x1, x0
    mov x0, 0
    bl motet_guest_start

    // Another core; x0: its stack, with a function and its argument.
    .globl motet_guest_core_entry
motet_guest_core_entry:
    msr daifset, 15
    msr spsel, 1
    adrp x1, motet_guest_vectors
    add x1, x1, :lo12:motet_guest_vectors
    msr vbar_el1, x1
    mov sp, x0
    ldp x1, x0, [sp]
    msr tpidr_el1, x0
    isb
    blr x1
    udf 0

    .text
    .balign 2048
motet_guest_vectors:
    .rept 5
    vector motet_guest_fault_entry
    .endr
    vector motet_guest_interrupt_entry
    .rept 10
    vector motet_guest_fault_entry
    .endr

    .balign 2048
motet_guest_attempt_vectors:
    .rept 16
    vector motet_guest_recover
    .endr

motet_guest_fault_entry:
    mrs x0, esr_el1
    mrs x1, far_el1
    mrs x2, elr_el1
    bl motet_guest_fault

    // On the stack of what it interrupts.
motet_guest_interrupt_entry:
    sub sp, sp, 176
    volatiles stp
    mrs x0, elr_el1
    mrs x1, spsr_el1
    stp x0, x1, [sp, 160]
    bl motet_guest_interrupt
    ldp x0, x1, [sp, 160]
    msr elr_el1, x0
    msr spsr_el1, x1
    volatiles ldp
    add sp, sp, 176
    eret

    // x0: instructions, which end in a breakpoint; x1: eight words, for and from x0 to x7. The exception that they end in.
motet_guest_attempt:
    sub sp, sp, 112
    kept stp
    stp x1, xzr, [sp, 96]
    adrp x2, motet_guest_recovery
    add x2, x2, :lo12:motet_guest_recovery
    mov x3, sp
    str x3, [x2]
    adrp x2, motet_guest_attempt_vectors
    add x2, x2, :lo12:motet_guest_attempt_vectors
    msr vbar_el1, x2
    // Interrupts leave it as it is.
    msr esr_el1, xzr
    isb
    msr daifclr, 2
    mov x8, x0
    mov x9, x1
    dc cvau, x8
    dsb sy
    ic ivau, x8
    dsb sy
    isb
    ldp x0, x1, [x9]
    ldp x2, x3, [x9, 16]
    ldp x4, x5, [x9, 32]
    ldp x6, x7, [x9, 48]
    // No register says where the guest's own memory is.
    add x9, x8, 16, lsl 12
    mov sp, x9
    .irp register, x9, x10, x12, x14, x16, x18, x20, x22, x24, x26, x28
    mov \register, x0
    .endr
    .irp register, x11, x13, x15, x17, x19, x21, x23, x25, x27, x29
    mov \register, x3
    .endr
    adr x30, 1f
    br x8
1:  brk 0
motet_guest_recover:
    adrp x2, motet_guest_recovery
    add x2, x2, :lo12:motet_guest_recovery
    ldr x2, [x2]
    mov sp, x2
    ldr x2, [sp, 96]
    stp x0, x1, [x2]
    msr tpidr_el1, xzr
    adrp x2, motet_guest_vectors
    add x2, x2, :lo12:motet_guest_vectors
    msr vbar_el1, x2
    isb
    mrs x0, esr_el1
    kept ldp
    add sp, sp, 112
    ret

    // x0: where the stack pointer goes; x1: the other one.
motet_guest_switch:
    sub sp, sp, 96
    kept stp
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    kept ldp
    add sp, sp, 96
    ret

    // The first thing that a prepared stack does.
motet_guest_begin:
    msr daifclr, 2
    mov x0, x20
    blr x19
    udf 0

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
    fn motet_guest_attempt(code: *const u32, arguments: *mut [u64; 8]) -> u64;
    fn motet_guest_begin();
    fn motet_guest_core_entry();
    fn motet_guest_switch(from: *mut usize, to: usize);
}

macro_rules! read_register {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading it changes nothing but, where that is meant, what the interrupt controller offers next.
        unsafe { asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack)) };
        value
    }};
}

macro_rules! write_register {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: a register of the processor's interrupts or its timer, which are this crate's.
        unsafe { asm!(concat!("msr ", $name, ", {}"), "isb", in(reg) value, options(nostack)) };
    }};
}

pub fn now() -> u64 {
    // Not read ahead of what comes before.
    // SAFETY: a barrier.
    unsafe { asm!("isb", options(nostack)) };
    read_register!("cntvct_el0")
}

pub fn frequency() -> Option<u64> {
    Some(read_register!("cntfrq_el0"))
}

/// Reads a device by a plain load, which hypervisors can emulate.
fn read(address: usize) -> u32 {
    let value;
    // SAFETY: registers of the board's devices.
    unsafe { asm!("ldr {0:w}, [{1}]", out(reg) value, in(reg) address, options(nostack)) };
    value
}

fn write(address: usize, value: u32) {
    // SAFETY: as above.
    unsafe { asm!("str {0:w}, [{1}]", in(reg) value, in(reg) address, options(nostack)) };
}

pub fn let_serial_interrupt() {
    write(INTERRUPT_MASK, RECEIVED | RECEIVED_LATELY);
}

pub fn take_byte() -> Option<u8> {
    (read(FLAGS) & HAS_NOTHING == 0).then(|| read(UART) as u8)
}

/// A shared interrupt's id, by its cells in device trees (bindings of arm,gic-v3).
pub fn interrupt_number(cells: &[u8]) -> Option<u32> {
    match cells {
        [0, 0, 0, 0, number @ .., _, _, _, _] => Some(32 + u32::from_be_bytes(number.try_into().ok()?)),
        _ => None,
    }
}

/// A shared interrupt comes once each time that its line rises.
pub fn make_edge(number: u32) {
    let (register, bit) = (DISTRIBUTOR + 0xc00 + number as usize / 16 * 4, 2 << (number % 16 * 2));
    write(register, read(register) | bit);
}

/// A shared interrupt: of group 1, of the software interrupt's priority, for the core that boots.
pub fn enable_device(_hart: usize, number: u32) {
    let (word, bit) = (number as usize / 32 * 4, 1 << (number % 32));
    write(DISTRIBUTOR + 0x80 + word, read(DISTRIBUTOR + 0x80 + word) | bit);
    let (priority, shift) = (DISTRIBUTOR + 0x400 + (number as usize & !3), number % 4 * 8);
    write(priority, read(priority) & !(0xff << shift) | u32::from(PRIORITIES[1].1) << shift);
    let affinity = read_register!("mpidr_el1") & AFFINITY;
    write(DISTRIBUTOR + 0x6000 + 8 * number as usize, affinity as u32);
    write(DISTRIBUTOR + 0x6004 + 8 * number as usize, (affinity >> 32) as u32);
    write(DISTRIBUTOR + 0x100 + word, bit);
}

pub fn put(byte: u8) {
    while read(FLAGS) & IS_FULL != 0 {}
    write(UART, u32::from(byte));
}

/// A table of 512 GiB in blocks of 1 GiB (Arm ARM, D8.3): devices, and at `OFFSET` again; the rest is memory.
pub fn translate() -> Option<usize> {
    #[repr(C, align(4096))]
    struct Table([AtomicU64; 512]);
    static TABLE: Table = Table([const { AtomicU64::new(0) }; 512]);
    const GIB: u64 = 1 << 30;
    const OFFSET_GIB: usize = 256;
    const BLOCK: u64 = 1 | 3 << 8 | 1 << 10; // shared, accessed
    const DEVICE: u64 = BLOCK | 3 << 53; // never executed
    const MEMORY: u64 = BLOCK | 1 << 2;
    const ATTRIBUTES: u64 = 0xff << 8; // 0: devices, 1: cached
    const CONTROL: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32; // 39 bits, no upper half, 40 physical bits
    for (number, entry) in (0..).zip(&TABLE.0) {
        entry.store(number * GIB | if number == 0 { DEVICE } else { MEMORY }, Relaxed);
    }
    TABLE.0[OFFSET_GIB].store(DEVICE, Relaxed);
    // SAFETY: what Rust uses stays where it is.
    unsafe {
        asm!("dsb sy", "msr mair_el1, {attributes}", "msr tcr_el1, {control}", "msr ttbr0_el1, {table}", "isb", "tlbi vmalle1",
            "dsb sy", "isb", "mrs {control}, sctlr_el1", "orr {control}, {control}, 1", "msr sctlr_el1, {control}", "isb",
            attributes = in(reg) ATTRIBUTES, control = inout(reg) CONTROL => _, table = in(reg) (&raw const TABLE).addr(), options(nostack));
    }
    Some(OFFSET_GIB << 30)
}

pub fn wait_for_interrupt() {
    // SAFETY: only waits.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Masks interrupts, and says how that was.
pub fn mask() -> usize {
    let before: usize;
    // SAFETY: a processor's interrupts are this crate's. Memory is not moved across.
    unsafe { asm!("mrs {}, daif", "msr daifset, 2", out(reg) before, options(nostack)) };
    before
}

/// Masks them as they were.
pub fn unmask(before: usize) {
    // SAFETY: as above.
    unsafe { asm!("msr daif, {}", in(reg) before, options(nostack)) };
}

pub fn enable() {
    // SAFETY: as above.
    unsafe { asm!("msr daifclr, 2", options(nostack)) };
}

/// Interrupt controller and timer, with the alarm off (Arm IHI 0069, chapter 12).
pub fn set_up_interrupts() {
    const AFFINITY_ROUTING: u32 = 1 << 4;
    const GROUP_1: u32 = 1 << 1;
    write(DISTRIBUTOR, AFFINITY_ROUTING);
    write(DISTRIBUTOR, AFFINITY_ROUTING | GROUP_1);
    const IS_ASLEEP: u32 = 1 << 1;
    const CHILDREN_ASLEEP: u32 = 1 << 2;
    write(WAKER, read(WAKER) & !IS_ASLEEP);
    while read(WAKER) & CHILDREN_ASLEEP != 0 {}
    // All private interrupts are of group 1.
    write(PRIVATE + 0x80, u32::MAX);
    for (interrupt, priority) in PRIORITIES {
        let word = PRIVATE + 0x400 + (interrupt as usize & !3);
        let shift = interrupt % 4 * 8;
        write(word, read(word) & !(0xff << shift) | u32::from(priority) << shift);
        write(PRIVATE + 0x100, 1 << interrupt);
    }
    write_register!("icc_sre_el1", read_register!("icc_sre_el1") | 1);
    write_register!("icc_pmr_el1", 0xff);
    write_register!("icc_bpr1_el1", 0);
    write_register!("icc_igrpen1_el1", 1);
}

/// It is where the first entry has put it.
pub fn install_entry() {}

#[unsafe(no_mangle)]
extern "C" fn motet_guest_interrupt() {
    let acknowledged = read_register!("icc_iar1_el1");
    if acknowledged >= u64::from(NONE) {
        return;
    }
    // Ended at once, as the handler may not come back soon. The timer's stays pending for as long as it is due, but masked.
    write_register!("icc_eoir1_el1", acknowledged);
    let interrupt = match acknowledged as u32 {
        // A hypervisor learns late that the timer has been set to another time: what it raised meanwhile is for nothing.
        TIMER if read_register!("cntv_ctl_el0") & TIMER_IS_DUE == 0 => return,
        TIMER => Interrupt::Timer,
        SOFTWARE => Interrupt::Software,
        device if device >= 32 => Interrupt::Device(device),
        other => crate::fail(format_args!("an interrupt that nobody asked for: {other}")),
    };
    interrupts::arrived(&Mask::new(), interrupt);
}

pub fn set_alarm(time: u64) {
    write_register!("cntv_cval_el0", time);
    write_register!("cntv_ctl_el0", 1);
}

pub fn raise() {
    let affinity = read_register!("mpidr_el1");
    let others = (affinity >> 8 & 0xff) << 16 | (affinity >> 16 & 0xff) << 32 | (affinity >> 32 & 0xff) << 48;
    write_register!("icc_sgi1r_el1", others | u64::from(SOFTWARE) << 24 | 1 << (affinity & 15));
}

/// PSCI's has no reason.
pub fn power_off(_has_succeeded: bool) -> ! {
    loop {
        call(SYSTEM_OFF, [0; 3]);
    }
}

pub fn reset() -> ! {
    loop {
        call(SYSTEM_RESET, [0; 3]);
    }
}

/// A call of PSCI. Its error, or 0.
fn call(function: usize, arguments: [usize; 3]) -> i64 {
    let error;
    // SAFETY: none of the calls here changes memory.
    unsafe {
        asm!("hvc 0", inout("x0") function => error, inout("x1") arguments[0] => _, inout("x2") arguments[1] => _,
            inout("x3") arguments[2] => _, options(nostack));
    }
    error
}

pub fn is_first_core() -> bool {
    read_register!("tpidr_el1") == 0
}

pub fn own_core(_hart: usize) -> u64 {
    read_register!("mpidr_el1") & AFFINITY
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
        asm!("dsb sy", options(nostack));
    }
    start
}

pub fn start_core(id: u64, stack: usize) -> Result<(), i64> {
    match call(CPU_ON, [id as usize, motet_guest_core_entry as *const () as usize, stack]) {
        0 => Ok(()),
        error => Err(error),
    }
}

/// `brk #0`
pub const BREAKPOINT: u32 = 0xD420_0000;

pub fn is_breakpoint(exception: u64) -> bool {
    exception >> 26 & 0x3f == 0x3c
}

/// # Safety
/// See [`crate::attempt`].
pub unsafe fn attempt(code: *const u32, arguments: &mut [u64; 8]) -> u64 {
    // SAFETY: the caller's promise.
    let exception = unsafe { motet_guest_attempt(code, arguments) };
    // What the instructions may have raised, and the end of their time.
    write_register!("cntv_ctl_el0", 0);
    while let acknowledged @ 0..NONE = read_register!("icc_iar1_el1") as u32 {
        write_register!("icc_eoir1_el1", u64::from(acknowledged));
    }
    exception
}

/// Writes what [`switch_stacks`] loads to the end of a stack. The stack pointer.
///
/// # Safety
/// The stack is nobody else's, and has room.
pub unsafe fn prepare_stack(end: usize, function: fn(usize) -> !, argument: usize) -> usize {
    let start = end - 96;
    let frame = ptr::with_exposed_provenance_mut::<usize>(start);
    // SAFETY: the caller's promise.
    unsafe {
        frame.write(function as *const () as usize);
        frame.add(1).write(argument);
        frame.add(11).write(motet_guest_begin as *const () as usize);
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
