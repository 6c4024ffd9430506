//! User mode as a call: `run_user` and the trap entry; and exceptions in the kernel, which are bugs.
//!
//! A null system call costs 91 instructions here: 42 in, 45 out, 4 for the cause. The registers that a C function
//! would preserve are not saved as such: `run_user` is inlined into the kernel's loop and declares them clobbered, so
//! the compiler spills what it needs there, which is little. CSR accesses are few (5): under QEMU each costs as much as
//! dozens of other instructions.

use core::{
    arch::{asm, global_asm},
    mem::offset_of,
    ptr::from_ref,
    sync::atomic::Ordering::Relaxed,
};

use motet_hal::{Access, Trap};
use motet_layout::UserFrame;

use crate::{
    console::log_line,
    csr::read_csr,
    interrupts,
    machine::TheMachine,
    per_core::{FAULT_REGISTERS, FRAME, PerCore, QUICK, RESUME, SCRATCH, TRAP_STACK},
};

/// Bit of `scause` that marks interrupts.
pub const CAUSE_INTERRUPT: u64 = 1 << 63;
const CAUSE_SYSCALL: u64 = 8;

const REGS: usize = offset_of!(UserFrame, regs);
const PC: usize = offset_of!(UserFrame, pc);

global_asm!(
    // a0: the user frame. Returns at the next trap: a0 scause, a1 sepc; keeps sp, tp, s0, s1 only.
    ".pushsection .text.trap, \"ax\"",
    ".option push",
    ".option arch, +a",
    ".globl motet_enter_user",
    ".balign 64",
    "motet_enter_user:",
    "sd a0, {FRAME}(tp)",
    "sd ra, {RESUME}(tp)",
    "sd sp, {RESUME}+8(tp)",
    "sd s0, {RESUME}+16(tp)",
    "sd s1, {RESUME}+24(tp)",
    "ld t0, {PC}(a0)",
    "csrw sepc, t0",
    // A load reservation must not survive into another thread (unprivileged ISA, "LR/SC"); this ends it.
    "sc.d zero, zero, (tp)",
    ".irp n, 1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "ld x\\n, {REGS}+8*\\n(a0)",
    ".endr",
    "ld a0, {REGS}+80(a0)",
    "sret",
    // Every trap, from user mode and from the kernel (then no frame is in use).
    ".globl motet_trap",
    ".balign 64",
    "motet_trap:",
    "csrrw tp, sscratch, tp",
    "sd a0, {SCRATCH}(tp)",
    "ld a0, {FRAME}(tp)",
    "beqz a0, 1f",
    ".irp n, 1,2,3,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "sd x\\n, {REGS}+8*\\n(a0)",
    ".endr",
    "ld t0, {SCRATCH}(tp)",
    "csrrw t1, sscratch, tp",
    "sd zero, {FRAME}(tp)",
    "sd t0, {REGS}+80(a0)",
    "sd t1, {REGS}+32(a0)",
    "ld ra, {RESUME}(tp)",
    "ld sp, {RESUME}+8(tp)",
    "ld s0, {RESUME}+16(tp)",
    "ld s1, {RESUME}+24(tp)",
    "csrr a0, scause",
    "csrr a1, sepc",
    "ret",
    // A guest's trap. What C functions need not keep goes to the frame; the rest stays where it is for a function that may serve the
    // trap. If it does, the guest goes on.
    ".globl motet_guest_trap",
    ".balign 64",
    "motet_guest_trap:",
    "csrrw tp, sscratch, tp",
    "sd a0, {SCRATCH}(tp)",
    "ld a0, {FRAME}(tp)",
    "beqz a0, 1f",
    ".irp n, 1,2,5,6,7,11,12,13,14,15,16,17,28,29,30,31",
    "sd x\\n, {REGS}+8*\\n(a0)",
    ".endr",
    "ld t0, {SCRATCH}(tp)",
    "csrrw t1, sscratch, tp",
    "sd zero, {FRAME}(tp)",
    "sd t0, {REGS}+80(a0)",
    "sd t1, {REGS}+32(a0)",
    "ld sp, {RESUME}+8(tp)",
    "ld t2, {QUICK}(tp)",
    "ld a1, {QUICK}+8(tp)",
    "addi sp, sp, -16",
    "sd a0, 0(sp)",
    "jalr t2",
    "ld t0, 0(sp)",
    "beqz a0, 2f",
    "mv a0, t0",
    "sd a0, {FRAME}(tp)",
    "ld t0, {PC}(a0)",
    "csrw sepc, t0",
    "sc.d zero, zero, (tp)",
    ".irp n, 1,2,4,5,6,7,11,12,13,14,15,16,17,28,29,30,31",
    "ld x\\n, {REGS}+8*\\n(a0)",
    ".endr",
    "ld a0, {REGS}+80(a0)",
    "sret",
    // It does not: as every trap.
    "2:",
    ".irp n, 3,8,9,18,19,20,21,22,23,24,25,26,27",
    "sd x\\n, {REGS}+8*\\n(t0)",
    ".endr",
    "ld ra, {RESUME}(tp)",
    "ld sp, {RESUME}+8(tp)",
    "ld s0, {RESUME}+16(tp)",
    "ld s1, {RESUME}+24(tp)",
    "csrr a0, scause",
    "csrr a1, sepc",
    "ret",
    // The kernel faulted: keep its registers, and report on the stack for that purpose.
    "1:",
    "ld a0, {SCRATCH}(tp)",
    ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "sd x\\n, {FAULT_REGISTERS}+8*\\n(tp)",
    ".endr",
    "ld sp, {TRAP_STACK}(tp)",
    "call {kernel_fault}",
    ".option pop",
    ".popsection",
    FRAME = const FRAME,
    RESUME = const RESUME,
    QUICK = const QUICK,
    SCRATCH = const SCRATCH,
    TRAP_STACK = const TRAP_STACK,
    FAULT_REGISTERS = const FAULT_REGISTERS,
    REGS = const REGS,
    PC = const PC,
    kernel_fault = sym kernel_fault,
);

const _: () = assert!(SCRATCH == 0, "the entry's sc.d has no offset");

/// Runs user code, or a guest, with the registers of `frame` until a trap; its cause and where it was.
#[inline(always)]
pub fn enter(frame: &'static UserFrame) -> (u64, u64) {
    let (cause, pc): (u64, u64);
    // SAFETY: `motet_enter_user` returns here with sp, tp, s0 and s1 as they were; all other registers are declared.
    // User code is confined by the page table in use, a guest by the second stage; the frame is atomics in the pool.
    unsafe {
        asm!(
            "call motet_enter_user",
            inlateout("a0") from_ref(frame) => cause,
            lateout("a1") pc,
            lateout("s2") _, lateout("s3") _, lateout("s4") _, lateout("s5") _, lateout("s6") _,
            lateout("s7") _, lateout("s8") _, lateout("s9") _, lateout("s10") _, lateout("s11") _,
            clobber_abi("C"),
        );
    }
    (cause, pc)
}

/// [`motet_hal::Machine::run_user`].
#[inline(always)]
pub fn run_user(machine: &TheMachine, frame: &'static UserFrame) -> Trap {
    let (cause, pc) = enter(frame);
    if cause == CAUSE_SYSCALL {
        frame.pc.set(pc + 4);
        return Trap::Syscall;
    }
    frame.pc.set(pc);
    decode(machine, cause, read_csr!("stval"))
}

/// Causes: privileged architecture, "Supervisor cause register values after trap".
#[inline(always)]
pub fn decode(machine: &TheMachine, cause: u64, address: u64) -> Trap {
    match cause {
        // "stval is the faulting instruction", or zero.
        2 => Trap::IllegalInstruction { word: address as u32 },
        3 => Trap::Breakpoint,
        0 | 4 | 6 => Trap::Misaligned { address },
        1 | 5 | 7 => Trap::BadAddress { address },
        12 => Trap::PageFault { address, access: Access::Execute },
        13 => Trap::PageFault { address, access: Access::Read },
        15 => Trap::PageFault { address, access: Access::Write },
        interrupt if interrupt & CAUSE_INTERRUPT != 0 => Trap::Interrupt(interrupts::take(machine)),
        // Software check and hardware error (18, 19) and what a later architecture may add.
        _ => Trap::BadAddress { address },
    }
}

/// Where the trap entry reports an exception in the kernel.
extern "C" fn kernel_fault() -> ! {
    let registers = &PerCore::this().fault_registers;
    let (cause, pc, address) = (read_csr!("scause"), read_csr!("sepc"), read_csr!("stval"));
    if !PerCore::this().panicking.load(Relaxed) {
        for (row, values) in registers.chunks_exact(4).enumerate() {
            let [a, b, c, d] = core::array::from_fn(|i| values[i].load(Relaxed));
            log_line!("x{:<2} {a:016x} {b:016x} {c:016x} {d:016x}", row * 4);
        }
    }
    panic!(
        "{} in the kernel: cause {cause}, pc {pc:#x}, address {address:#x}, ra {:#x}, sp {:#x}",
        cause_name(cause),
        registers[1].load(Relaxed),
        registers[2].load(Relaxed)
    )
}

fn cause_name(cause: u64) -> &'static str {
    match cause {
        0 | 4 | 6 => "misaligned access",
        1 | 5 | 7 => "access fault",
        2 => "illegal instruction",
        3 => "breakpoint",
        12 => "instruction page fault",
        13 => "load page fault",
        15 => "store page fault",
        _ => "trap",
    }
}
