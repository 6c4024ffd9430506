//! Traps: entering user mode, decoding why it ended, and exceptions of the kernel itself.

use core::{
    arch::{asm, global_asm},
    mem::offset_of,
};

use motet_hal::{Access, Interrupts, Trap};
use motet_layout::UserFrame;
use x86_64::registers::control::Cr2;

use crate::{
    apic,
    core_block::{CORE_BLOCK_SHIFT, CORE_BLOCKS, Core, TRAP_TOP, USER_CS, USER_SS},
    machine,
};

/// Vector of the LAPIC timer.
pub const VECTOR_TIMER: u8 = 32;
/// Vector of doorbells: the ivshmem device's messages and IPIs.
pub const VECTOR_DOORBELL: u8 = 33;
/// Vector the LAPIC raises when an interrupt was withdrawn.
pub const VECTOR_SPURIOUS: u8 = 34;
/// Vector of the network device's messages.
pub const VECTOR_NETWORK: u8 = 35;
/// Vectors with a stub.
pub const VECTORS: usize = 36;
/// Bytes from one stub to the next.
pub const STUB_SIZE: u64 = 16;
/// Bytes from one core's system-call entry to the next core's.
pub const SYSCALL_ENTRY_SIZE: u64 = 256;

/// RFLAGS bits that user code may have set: CF PF AF ZF SF TF DF OF RF AC ID.
const FLAGS_OF_USER: u32 = 0x25_0dd5;

// What `motet_enter_user` returns; 0 is a system call.
const CAUSE_BAD_PC: u64 = 1;
const CAUSE_VECTOR: u64 = 0x100;

global_asm!(
    include_str!("trap.s"),
    core_blocks = const CORE_BLOCKS as i64,
    core_block_shift = const CORE_BLOCK_SHIFT,
    kernel_rsp = const offset_of!(Core, kernel_rsp),
    frame = const offset_of!(Core, frame),
    scratch = const offset_of!(Core, scratch),
    trap_top = const TRAP_TOP,
    user_cs = const USER_CS,
    user_ss = const USER_SS,
    flags_of_user = const FLAGS_OF_USER,
    cause_bad_pc = const CAUSE_BAD_PC,
    cause_vector = const CAUSE_VECTOR,
    kernel_trap = sym kernel_trap,
    vector_doorbell = const VECTOR_DOORBELL,
    end_of_interrupt = const apic::END_OF_INTERRUPT_VA,
    pending = const offset_of!(Core, pending),
    pending_doorbell = const Interrupts::DOORBELL.0,
);

const _: () = assert!(offset_of!(UserFrame, pc) == 8 && offset_of!(UserFrame, status) == 16);
const _: () = assert!(offset_of!(UserFrame, regs) == 64);

unsafe extern "C" {
    fn motet_enter_user();
    static motet_syscall_entries: u8;
}

/// Address of the system-call entry of core `index`.
pub fn syscall_entry(index: usize) -> x86_64::VirtAddr {
    let entries = (&raw const motet_syscall_entries).addr() as u64;
    x86_64::VirtAddr::new(entries + index as u64 * SYSCALL_ENTRY_SIZE)
}

/// Runs user code with `frame` until a trap.
#[inline(always)]
pub fn run_user(frame: &'static UserFrame) -> Trap {
    let (cause, error): (u64, u64);
    // SAFETY: `motet_enter_user` comes back with the stack pointer it was called with; what it changes is declared
    // here, except rbx and rbp, which the compiler does not let be declared. The frame is written as the atomics it
    // consists of.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "call {enter}",
            "pop rbp",
            "pop rbx",
            enter = sym motet_enter_user,
            inout("rdi") frame => _,
            inout("rsi") Core::current() => _,
            out("rax") cause,
            out("rdx") error,
            out("rcx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
        );
    }
    if cause == 0 { Trap::Syscall } else { decode(frame, cause, error) }
}

#[inline(always)]
fn decode(frame: &UserFrame, cause: u64, error: u64) -> Trap {
    if cause == CAUSE_BAD_PC {
        return Trap::BadAddress { address: frame.pc.get() };
    }
    let vector = (cause - CAUSE_VECTOR) as u8;
    match vector {
        14 => page_fault(error),
        VECTOR_TIMER | VECTOR_DOORBELL | VECTOR_SPURIOUS | VECTOR_NETWORK => Trap::Interrupt(take_interrupt(vector)),
        1 | 3 => Trap::Breakpoint,
        0 | 16 | 19 => Trap::Arithmetic,
        6 | 7 => Trap::IllegalInstruction { word: 0 },
        17 => Trap::Misaligned { address: 0 },
        // An `int n` whose gate is not for user code names the gate. Privileged instructions and non-canonical
        // addresses have error code 0 and are not told apart (neither does Linux: SIGSEGV with address 0).
        13 if error != 0 => Trap::IllegalInstruction { word: 0 },
        _ => Trap::BadAddress { address: 0 },
    }
}

#[inline(always)]
fn page_fault(error: u64) -> Trap {
    const WRITE: u64 = 2;
    const RESERVED: u64 = 8;
    const FETCH: u64 = 16;
    let address = Cr2::read_raw();
    if error & RESERVED != 0 {
        return Trap::BadAddress { address };
    }
    let access = match error & (FETCH | WRITE) {
        0 => Access::Read,
        WRITE => Access::Write,
        _ => Access::Execute,
    };
    Trap::PageFault { address, access }
}

/// Acknowledges the interrupt with `vector`.
#[inline(never)]
fn take_interrupt(vector: u8) -> Interrupts {
    match vector {
        VECTOR_TIMER => {
            apic::end_of_interrupt();
            machine().timer_expired()
        }
        VECTOR_DOORBELL => {
            apic::end_of_interrupt();
            Interrupts::DOORBELL
        }
        VECTOR_NETWORK => {
            apic::end_of_interrupt();
            Interrupts::NETWORK
        }
        _ => Interrupts::default(), // spurious interrupts are not in service
    }
}

/// What `kernel_trap` in `trap.s` has on the stack.
#[repr(C)]
#[derive(Debug)]
struct KernelTrap {
    /// r15 to r8, rdi, rsi, rbp, rbx, rdx, rcx, rax.
    registers: [u64; 15],
    cause: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

/// A trap in kernel mode: an interrupt, but for doorbells, in the window of `wait_for_interrupt` or `poll_interrupts`, or a bug.
extern "C" fn kernel_trap(trap: &KernelTrap) {
    let vector = (trap.cause - CAUSE_VECTOR) as u8;
    if vector >= VECTOR_TIMER {
        Core::current().add_pending(take_interrupt(vector));
        return;
    }
    kernel_exception(trap, vector)
}

#[cold]
fn kernel_exception(trap: &KernelTrap, vector: u8) -> ! {
    const NAMES: [&str; 20] = [
        "division by zero",
        "debug",
        "NMI",
        "breakpoint",
        "overflow",
        "bound",
        "invalid opcode",
        "no FPU",
        "double fault",
        "FPU segment overrun",
        "invalid TSS",
        "segment not present",
        "stack fault",
        "general protection fault",
        "page fault",
        "vector 15",
        "FPU error",
        "alignment check",
        "machine check",
        "SIMD error",
    ];
    let name = NAMES.get(vector as usize).copied().unwrap_or("unknown exception");
    let [r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax] = trap.registers;
    panic!(
        "kernel exception {vector} ({name}), error {:#x}, address {:#x}, rip {:#x}, cs {:#x}, rflags {:#x}\n\
         rax {rax:#x} rbx {rbx:#x} rcx {rcx:#x} rdx {rdx:#x} rsi {rsi:#x} rdi {rdi:#x} rbp {rbp:#x} rsp {:#x}\n\
         r8 {r8:#x} r9 {r9:#x} r10 {r10:#x} r11 {r11:#x} r12 {r12:#x} r13 {r13:#x} r14 {r14:#x} r15 {r15:#x}",
        trap.error,
        Cr2::read_raw(),
        trap.rip,
        trap.cs,
        trap.rflags,
        trap.rsp,
    )
}
