//! Kernels of class T one after the other on a bare RISC-V machine, QEMU's `virt`: no operating system, no address
//! translation, no interrupts. Each execution is the same, access by access; a trace of it is recorded, and the cache
//! model replays it.
#![no_std]
#![no_main]

use core::{
    arch::{asm, global_asm},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use motet_kernels::{Class, Memory, conjugate_gradient, fourier, integer_sort, multigrid};

// Switches floating point on (`mstatus.FS`), and puts the stack 16 MiB above the program.
global_asm!(".globl _start", "_start:", "li t0, 0x6000", "csrs mstatus, t0", "li sp, 0x81000000", "tail bare_main");

/// Memory for arrays begins above the stack.
const ARRAYS: usize = 0x8100_0000;
/// Memory that nobody else uses: the machine's RAM, which is zero at first.
struct Bare(AtomicUsize);

impl Bare {
    fn take<T>(&self, count: usize) -> &'static mut [T] {
        let size = (count * size_of::<T>()).next_multiple_of(64);
        let start = core::ptr::with_exposed_provenance_mut(self.0.fetch_add(size, Relaxed));
        // SAFETY: RAM of this program alone, handed out once; zero is a value of all types below.
        unsafe { core::slice::from_raw_parts_mut(start, count) }
    }
}

impl Memory for Bare {
    fn numbers(&mut self, count: usize) -> &'static mut [f64] {
        self.take(count)
    }
    fn words(&mut self, count: usize) -> &'static [AtomicU64] {
        self.take(count)
    }
    fn integers(&mut self, count: usize) -> &'static mut [u32] {
        self.take(count)
    }
}

#[unsafe(no_mangle)]
extern "C" fn bare_main() -> ! {
    let mut memory = Bare(AtomicUsize::new(ARRAYS));
    let right = integer_sort::run(Class::T, 1, &mut memory).verified
        && conjugate_gradient::run(Class::T, 1, &mut memory).verified
        && multigrid::run(Class::T, 1, &mut memory).verified
        && fourier::run(Class::T, 1, &mut memory).verified;
    finish(u64::from(!right))
}

/// Ends QEMU by a semihosting call (RISC-V semihosting; Arm's SYS_EXIT). Unlike a device's register, this ends it with this
/// very instruction, so that the same number of instructions is executed every time.
fn finish(status: u64) -> ! {
    const SYS_EXIT: usize = 0x18;
    const APPLICATION_EXIT: u64 = 0x2_0026;
    let block = [APPLICATION_EXIT, status];
    loop {
        // SAFETY: QEMU reads the two words.
        unsafe {
            asm!(".balign 16", ".option push", ".option norvc", "slli x0, x0, 0x1f", "ebreak", "srai x0, x0, 7", ".option pop",
                in("a0") SYS_EXIT, in("a1") &raw const block);
        }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    finish(101)
}
