//! Registers of programs that the firmware itself does not use: floating point and vectors. Whoever calls has the unit on.

use core::arch::global_asm;

unsafe extern "C" {
    /// Copies `x1` to `x31`.
    pub fn motet_firmware_copy_registers(to: *mut [u64; 31], from: *const [u64; 31]);
    /// Stores `f0` to `f31` and `fcsr`.
    pub fn motet_firmware_store_floats(to: *mut [u64; 33]);
    /// Loads them.
    pub fn motet_firmware_load_floats(from: *const [u64; 33]);
    /// Stores the control words, then `v0` to `v31`.
    pub fn motet_firmware_store_vectors(to: *mut u64);
    /// Loads them.
    pub fn motet_firmware_load_vectors(from: *const u64);
}

global_asm!(
    r#"
    .option push
    .option arch, +d, +v
    .macro each_float operation
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        \operation f\n, 8 * \n (a0)
        .endr
    .endm

    .section .text.motet_firmware_registers, "ax"
    .globl motet_firmware_copy_registers
motet_firmware_copy_registers:
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
    ld t0, 8 * \n(a1)
    sd t0, 8 * \n(a0)
    .endr
    ret

    .globl motet_firmware_store_floats
motet_firmware_store_floats:
    each_float fsd
    frcsr t0
    sd t0, 256(a0)
    ret

    .globl motet_firmware_load_floats
motet_firmware_load_floats:
    each_float fld
    ld t0, 256(a0)
    fscsr t0
    ret

    .globl motet_firmware_store_vectors
motet_firmware_store_vectors:
    csrr t0, vstart
    csrr t1, vl
    csrr t2, vtype
    csrr t3, vcsr
    sd t0, 0(a0)
    sd t1, 8(a0)
    sd t2, 16(a0)
    sd t3, 24(a0)
    csrw vstart, zero
    csrr t0, vlenb
    slli t0, t0, 3
    addi a0, a0, 32
    vs8r.v v0, (a0)
    add a0, a0, t0
    vs8r.v v8, (a0)
    add a0, a0, t0
    vs8r.v v16, (a0)
    add a0, a0, t0
    vs8r.v v24, (a0)
    ret

    .globl motet_firmware_load_vectors
motet_firmware_load_vectors:
    ld t1, 8(a0)
    ld t2, 16(a0)
    ld t3, 24(a0)
    ld t4, 0(a0)
    csrw vstart, zero
    csrr t0, vlenb
    slli t0, t0, 3
    addi a0, a0, 32
    vl8re8.v v0, (a0)
    add a0, a0, t0
    vl8re8.v v8, (a0)
    add a0, a0, t0
    vl8re8.v v16, (a0)
    add a0, a0, t0
    vl8re8.v v24, (a0)
    vsetvl zero, t1, t2
    csrw vcsr, t3
    csrw vstart, t4
    ret
    .option pop
    "#
);
