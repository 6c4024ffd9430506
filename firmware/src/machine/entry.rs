//! Where harts enter the firmware, and how they leave it.
//!
//! `mscratch` tells where a trap came from. In lower modes it holds the end of the hart's stack. In the firmware it holds
//! the end of the hart's emergency stack, negated: a trap there is a fault, which has to be reported whatever the stack's state.

use core::arch::global_asm;

use motet_firmware::{
    dynamic,
    hart::{HARTS_MAX, HartId},
};

/// Bytes of the page below each stack that nobody may touch.
pub const GUARD_LEN: u64 = 4096;
const STACK_LEN: usize = 8192;
const EMERGENCY_LEN: usize = 4096;
const SLOT_LEN: usize = GUARD_LEN as usize + STACK_LEN + EMERGENCY_LEN;
const SLOT_SHIFT: u32 = SLOT_LEN.ilog2();
const _: () = assert!(SLOT_LEN.is_power_of_two() && HARTS_MAX * SLOT_LEN == 1 << 20);
/// The hart that boots reads the device tree on a larger stack.
const BOOT_STACK_LEN: usize = 64 << 10;

/// Registers `x1` to `x31` of the interrupted program.
#[repr(C)]
#[derive(Debug)]
pub struct Frame(pub [u64; 31], u64);

const _: () = assert!(size_of::<Frame>() == 256);

/// Index of `a0` in a frame.
pub const A0: usize = 9;

unsafe extern "C" {
    static motet_firmware_stacks: u8;
    /// Leaves everything on this hart's stack and waits until somebody starts it.
    pub fn motet_firmware_await_launch() -> !;
    /// Leaves to the lower mode with `x1` to `x31` from there, not from the frame, behind which this hart's stack ends. That is memory as
    /// `Places::registers` says, and nothing on this stack is needed any more.
    pub fn motet_firmware_leave_with(frame: *mut Frame, registers: *const [u64; 31]) -> !;
}

/// The page below a hart's stack.
pub fn guard_page(hart: HartId) -> u64 {
    (&raw const motet_firmware_stacks).addr() as u64 + (hart.index() * SLOT_LEN) as u64
}

global_asm!(
    r#"
    .option push
    .option arch, +a
    .macro own_stack
        csrr t0, mhartid
        slli t0, t0, {slot_shift}
        la sp, motet_firmware_stacks
        add sp, sp, t0
        li t0, {guard} + {stack}
        add sp, sp, t0
    .endm

    # What a trap is to find from here on: a fault of the firmware.
    .macro in_firmware
        li t0, {emergency}
        add t0, sp, t0
        neg t0, t0
        csrw mscratch, t0
    .endm

    .macro each operation
        \operation gp, 16(sp)
        \operation tp, 24(sp)
        \operation t0, 32(sp)
        \operation t1, 40(sp)
        \operation t2, 48(sp)
        \operation s0, 56(sp)
        \operation s1, 64(sp)
        \operation a0, 72(sp)
        \operation a1, 80(sp)
        \operation a2, 88(sp)
        \operation a3, 96(sp)
        \operation a4, 104(sp)
        \operation a5, 112(sp)
        \operation a6, 120(sp)
        \operation a7, 128(sp)
        \operation s2, 136(sp)
        \operation s3, 144(sp)
        \operation s4, 152(sp)
        \operation s5, 160(sp)
        \operation s6, 168(sp)
        \operation s7, 176(sp)
        \operation s8, 184(sp)
        \operation s9, 192(sp)
        \operation s10, 200(sp)
        \operation s11, 208(sp)
        \operation t3, 216(sp)
        \operation t4, 224(sp)
        \operation t5, 232(sp)
        \operation t6, 240(sp)
    .endm

    .section .boot, "ax"
    .globl _start
_start:
    la t0, 9f
    csrw mtvec, t0
    csrw mie, zero
    csrci mstatus, 8
    csrr a0, mhartid
    li t0, {harts_max}
    bgeu a0, t0, 9f
    # The hart that the description of the next stage names boots, or the first to come.
    beqz a2, 1f
    li t0, {magic}
    ld t1, 0(a2)
    bne t0, t1, 1f
    ld t1, 8 * {boot_hart}(a2)
    li t0, -1
    beq t0, t1, 1f
    beq a0, t1, 2f
    j 3f
1:  la t0, motet_firmware_lottery
    li t1, 1
    amoadd.w t1, t1, (t0)
    bnez t1, 3f
2:  own_stack
    in_firmware
    la t0, motet_firmware_trap_entry
    csrw mtvec, t0
    la sp, motet_firmware_boot_stack_end
    call motet_firmware_boot
    la t0, motet_firmware_ready
    li t1, 1
    fence rw, w
    sw t1, 0(t0)
    j motet_firmware_await_launch
3:  la t0, motet_firmware_ready
4:  lw t1, 0(t0)
    beqz t1, 4b
    fence r, rw
    own_stack
    in_firmware
    la t0, motet_firmware_trap_entry
    csrw mtvec, t0
    call motet_firmware_join
    j motet_firmware_await_launch
    .balign 4
9:  csrw mie, zero
    wfi
    j 9b

    .section .text.motet_firmware_entry, "ax"
    .globl motet_firmware_await_launch
motet_firmware_await_launch:
    own_stack
    in_firmware
    addi sp, sp, -256
    mv a0, sp
    call motet_firmware_launch
motet_firmware_leave:
    addi t0, sp, 256
    csrw mscratch, t0
    ld ra, 0(sp)
    each ld
    ld sp, 8(sp)
    mret

    .globl motet_firmware_leave_with
motet_firmware_leave_with:
    addi t0, a0, 256
    csrw mscratch, t0
    mv sp, a1
    ld ra, 0(sp)
    each ld
    ld sp, 8(sp)
    mret

    .balign 4
motet_firmware_trap_entry:
    csrrw sp, mscratch, sp
    bltz sp, 5f
    addi sp, sp, -256
    sd ra, 0(sp)
    each sd
    csrr t1, mscratch
    sd t1, 8(sp)
    addi sp, sp, 256
    in_firmware
    addi sp, sp, -256
    mv a0, sp
    call motet_firmware_trap
    j motet_firmware_leave
5:  neg sp, sp
    addi sp, sp, -256
    sd ra, 0(sp)
    each sd
    csrr t1, mscratch
    sd t1, 8(sp)
    addi t0, sp, 256
    neg t0, t0
    csrw mscratch, t0
    mv a0, sp
    call motet_firmware_fault

    .section .stacks, "aw", @nobits
    .balign 4096
    .globl motet_firmware_stacks
motet_firmware_stacks:
    .zero {harts_max} * {slot}
    .zero {boot_stack}
motet_firmware_boot_stack_end:
    .balign 4
motet_firmware_lottery:
    .zero 4
motet_firmware_ready:
    .zero 4
    .option pop
    "#,
    slot_shift = const SLOT_SHIFT,
    guard = const GUARD_LEN,
    stack = const STACK_LEN,
    emergency = const EMERGENCY_LEN,
    slot = const SLOT_LEN,
    boot_stack = const BOOT_STACK_LEN,
    harts_max = const HARTS_MAX,
    magic = const dynamic::MAGIC,
    boot_hart = const dynamic::BOOT_HART,
);
