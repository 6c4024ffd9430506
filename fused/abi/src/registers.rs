//! The register frame as the Linux ABI of its ISA sees it: system-call arguments, program counter, stack, thread pointer.
//!
//! A frame whose ISA word is none of ours (which no kernel writes) is treated as [`Isa::Hosted`]'s; nothing here panics.

use motet_layout::{EXT_XSTATE_BV, FRAME_REGS, Isa, UserFrame, XSTATE_AVX, is_canonical};

/// Where an ISA keeps what the ABI speaks of: indices into [`UserFrame::regs`].
struct Roles {
    number: u8,
    args: [u8; 6],
    result: u8,
    stack: u8,
    thread: u8,
    /// Bytes of the system-call instruction.
    call_size: u8,
}

/// System V ABI, "Linux conventions" (A.2); `syscall` clobbers rcx (1) and r11.
const X86_64: Roles = Roles { number: 0, args: [7, 6, 2, 10, 8, 9], result: 0, stack: 4, thread: 16, call_size: 2 };
/// `svc #0`: x8, x0..x5.
const AARCH64: Roles = Roles { number: 8, args: [0, 1, 2, 3, 4, 5], result: 0, stack: 31, thread: 32, call_size: 4 };
/// `ecall`: a7 (x17), a0..a5 (x10..x15); tp is x4.
const RISCV64: Roles =
    Roles { number: 17, args: [10, 11, 12, 13, 14, 15], result: 10, stack: 2, thread: 4, call_size: 4 };
const HOSTED: Roles = Roles { number: 8, args: [0, 1, 2, 3, 4, 5], result: 0, stack: 15, thread: 16, call_size: 8 };

#[inline(always)]
const fn roles(isa: Isa) -> &'static Roles {
    match isa {
        Isa::X86_64 => &X86_64,
        Isa::AArch64 => &AARCH64,
        Isa::RiscV64 => &RISCV64,
        Isa::Hosted => &HOSTED,
    }
}

/// The ISA of the frame's registers.
#[inline(always)]
pub fn frame_isa(frame: &UserFrame) -> Isa {
    Isa::from_raw(frame.isa.get()).unwrap_or(Isa::Hosted)
}

#[inline(always)]
fn of(frame: &UserFrame) -> &'static Roles {
    roles(frame_isa(frame))
}

#[inline(always)]
fn reg(frame: &UserFrame, index: u8) -> u64 {
    frame.regs[index as usize % FRAME_REGS].get()
}

#[inline(always)]
pub(crate) fn set_reg(frame: &UserFrame, index: u8, value: u64) {
    frame.regs[index as usize % FRAME_REGS].set(value);
}

/// The number of the system call the frame stopped at.
#[inline(always)]
pub fn syscall_number(frame: &UserFrame) -> u64 {
    reg(frame, of(frame).number)
}

/// The six system-call arguments. Valid until [`set_result`] (on AArch64 and RISC-V the result replaces the first).
#[inline(always)]
pub fn syscall_args(frame: &UserFrame) -> [u64; 6] {
    of(frame).args.map(|index| reg(frame, index))
}

/// As [`syscall_number`], of a frame known to be `isa`'s: a constant there makes this one load.
#[inline(always)]
pub fn syscall_number_of(isa: Isa, frame: &UserFrame) -> u64 {
    reg(frame, roles(isa).number)
}

/// Sets what [`syscall_number_of`] gives.
pub fn set_syscall_number(isa: Isa, frame: &UserFrame, number: u64) {
    set_reg(frame, roles(isa).number, number);
}

/// As [`syscall_args`], of a frame known to be `isa`'s: a constant there makes this six loads.
#[inline(always)]
pub fn syscall_args_of(isa: Isa, frame: &UserFrame) -> [u64; 6] {
    roles(isa).args.map(|index| reg(frame, index))
}

/// As [`set_result`], of a frame known to be `isa`'s.
#[inline(always)]
pub fn set_result_of(isa: Isa, frame: &UserFrame, result: i64) {
    set_reg(frame, roles(isa).result, result as u64);
}

/// One system-call argument.
///
/// # Panics
/// When `index` is above 5.
#[inline(always)]
pub fn arg(frame: &UserFrame, index: usize) -> u64 {
    reg(frame, of(frame).args[index])
}

/// Replaces one system-call argument (a restartable call remembers its progress this way).
///
/// # Panics
/// When `index` is above 5.
#[inline(always)]
pub fn set_arg(frame: &UserFrame, index: usize, value: u64) {
    set_reg(frame, of(frame).args[index], value);
}

/// Sets the result of the system call: a value, or a negated [`Errno`](crate::Errno).
#[inline(always)]
pub fn set_result(frame: &UserFrame, result: i64) {
    set_reg(frame, of(frame).result, result as u64);
}

/// The result register: what [`set_result`] wrote, or a function's return value (the same register on every ISA).
#[inline(always)]
pub fn result(frame: &UserFrame) -> i64 {
    reg(frame, of(frame).result) as i64
}

/// The program counter; after a system-call trap, the instruction behind the call.
#[inline(always)]
pub fn pc(frame: &UserFrame) -> u64 {
    frame.pc.get()
}

/// Sets the program counter.
#[inline(always)]
pub fn set_pc(frame: &UserFrame, pc: u64) {
    frame.pc.set(pc);
}

/// The stack pointer.
#[inline(always)]
pub fn sp(frame: &UserFrame) -> u64 {
    reg(frame, of(frame).stack)
}

/// As [`sp`], of a frame known to be `isa`'s: a constant there makes this one load.
#[inline(always)]
pub fn sp_of(isa: Isa, frame: &UserFrame) -> u64 {
    reg(frame, roles(isa).stack)
}

/// As [`set_sp`], of a frame known to be `isa`'s.
#[inline(always)]
pub fn set_sp_of(isa: Isa, frame: &UserFrame, sp: u64) {
    set_reg(frame, roles(isa).stack, sp);
}

/// As [`tls`], of a frame known to be `isa`'s.
#[inline(always)]
pub fn tls_of(isa: Isa, frame: &UserFrame) -> u64 {
    reg(frame, roles(isa).thread)
}

/// As [`set_tls`], of a frame known to be `isa`'s.
#[inline(always)]
pub fn set_tls_of(isa: Isa, frame: &UserFrame, tls: u64) {
    set_reg(frame, roles(isa).thread, tls);
}

/// Sets the stack pointer.
#[inline(always)]
pub fn set_sp(frame: &UserFrame, sp: u64) {
    set_reg(frame, of(frame).stack, sp);
}

/// Whether the register of an ISA can hold a thread pointer: FS base takes canonical addresses only.
#[inline(always)]
pub const fn can_hold_tls(isa: Isa, tls: u64) -> bool {
    match isa {
        Isa::X86_64 => is_canonical(tls),
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => true,
    }
}

/// The thread pointer: FS base, `TPIDR_EL0`, tp.
#[inline(always)]
pub fn tls(frame: &UserFrame) -> u64 {
    reg(frame, of(frame).thread)
}

/// Sets the thread pointer.
#[inline(always)]
pub fn set_tls(frame: &UserFrame, tls: u64) {
    set_reg(frame, of(frame).thread, tls);
}

/// Makes the thread execute its system-call instruction again. The number and the arguments must be as they were:
/// no [`set_result`] in between.
#[inline(always)]
pub fn rewind_syscall(frame: &UserFrame) {
    frame.pc.set(frame.pc.get().wrapping_sub(u64::from(of(frame).call_size)));
}

/// The status word of a fresh thread: RFLAGS with interrupts enabled (bit 1 is always set); SPSR for EL0t, nothing
/// masked; none elsewhere.
pub const fn initial_status(isa: Isa) -> u64 {
    match isa {
        Isa::X86_64 => 0x202,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => 0,
    }
}

/// The bits of the status word that user code may choose (signal return): CF PF AF ZF SF TF DF OF RF AC
/// (`FIX_EFLAGS` in Linux) on x86-64; NZCV and SSBS on AArch64.
const fn user_status_mask(isa: Isa) -> u64 {
    match isa {
        Isa::X86_64 => 0x5_0dd5,
        Isa::AArch64 => 0xf000_1000,
        Isa::RiscV64 | Isa::Hosted => 0,
    }
}

/// Sets the status word to what user code asks for, keeping what is the kernel's.
pub fn set_user_status(frame: &UserFrame, status: u64) {
    let mask = user_status_mask(frame_isa(frame));
    frame.status.set(status & mask | initial_status(frame_isa(frame)) & !mask);
}

/// A fresh thread (`execve`): everything zero but the program counter, the stack pointer and the status word; extended
/// state initial.
pub fn init_frame(frame: &UserFrame, isa: Isa, entry: u64, sp: u64) {
    clear(frame);
    start(frame, isa, entry, sp);
}

/// Makes all general registers 0.
pub fn clear(frame: &UserFrame) {
    frame.regs.iter().for_each(|reg| reg.set(0));
}

/// As [`init_frame`], but the other general registers keep what they have.
#[inline(always)]
pub fn start(frame: &UserFrame, isa: Isa, entry: u64, sp: u64) {
    frame.isa.set(isa as u32);
    frame.ext_valid.set(0);
    frame.status.set(initial_status(isa));
    frame.pc.set(entry);
    set_sp_of(isa, frame, sp);
}

/// Copies a thread's registers (`clone`), extended state included when `from` has it stored (save it first), but for what is in an area of
/// vector registers.
pub fn copy_frame(from: &UserFrame, to: &UserFrame) {
    copy_general(from, to);
    to.ext_valid.set(from.ext_valid.get());
    to.vector_bytes.set(0);
    if from.ext_valid.get() != 0 {
        for (to, from) in to.ext.iter().zip(&from.ext) {
            to.set(from.get());
        }
    }
}

/// Bytes in each of the saved vector registers beyond those of the base ISA; 0: none are saved.
pub fn vector_bytes(frame: &UserFrame) -> u32 {
    if frame.ext_valid.get() == 0 {
        return 0;
    }
    match frame_isa(frame) {
        Isa::X86_64 if frame.ext[EXT_XSTATE_BV].get() & XSTATE_AVX != 0 => 32,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => frame.vector_bytes.get(),
        Isa::X86_64 => 0,
    }
}

/// Copies a thread's registers but for the extended state.
pub fn copy_general(from: &UserFrame, to: &UserFrame) {
    to.isa.set(from.isa.get());
    to.pc.set(from.pc.get());
    to.status.set(from.status.get());
    for (to, from) in to.regs.iter().zip(&from.regs) {
        to.set(from.get());
    }
}

/// Six arguments where a C function of the ISA expects them (a call across ISAs, a signal handler: the first four).
///
/// x86-64 passes the fourth in rcx, where a system call has r10.
pub fn set_call_args(frame: &UserFrame, args: [u64; 6]) {
    let isa = frame_isa(frame);
    for (index, value) in args.into_iter().enumerate() {
        set_reg(frame, call_arg_register(isa, index), value);
    }
}

/// The six arguments of a C function at its entry.
pub fn call_args(frame: &UserFrame) -> [u64; 6] {
    let isa = frame_isa(frame);
    core::array::from_fn(|index| reg(frame, call_arg_register(isa, index)))
}

const fn call_arg_register(isa: Isa, index: usize) -> u8 {
    match (isa, index) {
        (Isa::X86_64, 3) => 1, // rcx
        _ => roles(isa).args[index],
    }
}
