//! RISC-V.

use core::arch::{asm, global_asm};

global_asm!(".globl _start", "_start:", "mv a0, sp", "call motet_program", "unimp");

/// The instruction set.
pub const ISA: motet_layout::Isa = motet_layout::Isa::RiscV64;

pub(super) use super::generic as number;

/// # Safety
/// As the system call.
#[inline(always)]
pub unsafe fn system_call(number: usize, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel preserves all registers but the result; memory is the caller's promise.
    unsafe {
        asm!("ecall", in("a7") number, inlateout("a0") args[0] => result, in("a1") args[1], in("a2") args[2],
            in("a3") args[3], in("a4") args[4], in("a5") args[5], options(nostack));
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
    unsafe { asm!(".4byte {0}", const const { crate::marks::riscv64(MARK) }, options(nostack)) };
}

/// Executes mark `MARK` with these bytes in the first two argument registers. They need not be there.
#[inline(always)]
pub fn mark_with<const MARK: u8>(name: *const [u8]) {
    // SAFETY: a no-op; registers are only read.
    unsafe {
        asm!(".4byte {0}", const const { crate::marks::riscv64(MARK) },
            in("a0") name.cast::<u8>(), in("a1") name.len(), options(nostack));
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
        asm!("ecall", "bnez a0, 2f", "mv a0, {argument}", "jalr {entry}", "unimp", "2:",
            argument = in(reg) argument, entry = in(reg) entry, in("a7") number::CLONE, inlateout("a0") flags => result,
            in("a1") stack, in("a2") 0, in("a3") 0, in("a4") 0);
    }
    result
}

/// Executes two instructions for each of `iterations`, at least one.
#[inline(never)]
pub fn spin(iterations: u64) {
    // SAFETY: counts down.
    unsafe {
        asm!("2:", "addi {0}, {0}, -1", "bnez {0}, 2b", inout(reg) iterations => _, options(nostack));
    }
}
