//! AArch64.

use core::arch::{asm, global_asm};

global_asm!(".globl _start", "_start:", "mov x0, sp", "bl motet_program", "udf #0");

pub(super) use super::generic as number;

/// # Safety
/// As the system call.
#[inline(always)]
pub unsafe fn system_call(number: usize, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel preserves all registers but the result; memory is the caller's promise.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") args[0] => result, in("x1") args[1], in("x2") args[2],
            in("x3") args[3], in("x4") args[4], in("x5") args[5], options(nostack));
    }
    result
}

/// Executes mark `MARK`.
#[inline(always)]
pub fn mark<const MARK: u8>() {
    // SAFETY: a no-op.
    unsafe { asm!(".4byte {0}", const const { crate::marks::aarch64(MARK) }, options(nostack)) };
}
