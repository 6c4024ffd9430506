//! AArch64.

use core::arch::{asm, global_asm};

global_asm!(".globl _start", "_start:", "mov x0, sp", "bl motet_program", "udf #0");

/// The instruction set.
pub const ISA: motet_layout::Isa = motet_layout::Isa::AArch64;

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

/// The kernel's `struct sigaction` with a handler, without flags and a mask. The kernel says where the handler returns to.
pub fn action(handler: extern "C" fn(i32)) -> [usize; 4] {
    [handler as usize, 0, 0, 0]
}

/// Executes mark `MARK`.
#[inline(always)]
pub fn mark<const MARK: u8>() {
    // SAFETY: a no-op.
    unsafe { asm!(".4byte {0}", const const { crate::marks::aarch64(MARK) }, options(nostack)) };
}

/// Executes mark `MARK` with these bytes in the first two argument registers. They need not be there.
#[inline(always)]
pub fn mark_with<const MARK: u8>(name: *const [u8]) {
    // SAFETY: a no-op; registers are only read.
    unsafe {
        asm!(".4byte {0}", const const { crate::marks::aarch64(MARK) },
            in("x0") name.cast::<u8>(), in("x1") name.len(), options(nostack));
    }
}

/// Starts a thread that shares everything with this one, and calls `entry` with `argument`; a negated error number, or its id.
///
/// # Safety
/// `stack` is the end of memory that is the thread's alone, aligned to 16 bytes; all that it uses may be shared between threads.
pub unsafe fn thread(flags: usize, stack: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> isize {
    let result;
    // SAFETY: the thread begins with these registers and never returns; in the caller it is a system call.
    unsafe {
        asm!("svc #0", "cbnz x0, 2f", "mov x0, {argument}", "blr {entry}", "udf #0", "2:",
            argument = in(reg) argument, entry = in(reg) entry, in("x8") number::CLONE, inlateout("x0") flags => result,
            in("x1") stack, in("x2") 0, in("x3") 0, in("x4") 0);
    }
    result
}

/// Executes two instructions for each of `iterations`, at least one.
#[inline(never)]
pub fn spin(iterations: u64) {
    // SAFETY: counts down.
    unsafe {
        asm!("2:", "subs {0}, {0}, #1", "b.ne 2b", inout(reg) iterations => _, options(nostack));
    }
}
