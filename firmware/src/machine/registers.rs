//! Registers of programs that the firmware itself does not use: floating point and vectors. Whoever calls has the unit on.

use core::arch::global_asm;

unsafe extern "C" {
    /// Copies `x1` to `x31`.
    pub fn motet_firmware_copy_registers(to: *mut [u64; 31], from: *const [u64; 31]);
    /// Stores `f0` to `f31` and `fcsr`.
    pub fn motet_firmware_store_floats(to: *mut [u64; 33]);
    /// Loads them.
    pub fn motet_firmware_load_floats(from: *const [u64; 33]);
    /// Stores the control words, and `v0` to `v31` in four groups.
    pub fn motet_firmware_store_vectors(control: *mut u64, groups: *const [u64; 4]);
    /// Loads them.
    pub fn motet_firmware_load_vectors(control: *const u64, groups: *const [u64; 4]);
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
    csrr t1, vtype
    csrr t2, vl
    csrr t3, vcsr
    sd t0, 0(a0)
    sd t1, 8(a0)
    sd t2, 16(a0)
    sd t3, 24(a0)
    csrw vstart, zero
    .irp n, 0, 8, 16, 24
    ld t0, \n(a1)
    vs8r.v v\n, (t0)
    .endr
    ret

    .globl motet_firmware_load_vectors
motet_firmware_load_vectors:
    ld t1, 8(a0)
    ld t2, 16(a0)
    ld t3, 24(a0)
    ld t4, 0(a0)
    csrw vstart, zero
    .irp n, 0, 8, 16, 24
    ld t0, \n(a1)
    vl8re8.v v\n, (t0)
    .endr
    vsetvl zero, t2, t1
    csrw vcsr, t3
    csrw vstart, t4
    ret
    .option pop
    "#
);
