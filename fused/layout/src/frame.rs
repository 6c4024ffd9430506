//! The user register frame: a thread's registers while it is not running on a core.

use crate::{Cell32, Cell64, pool_struct};

/// Words in [`UserFrame::regs`].
pub const FRAME_REGS: usize = 40;

/// x86-64: the word of [`UserFrame::ext`] that is XSTATE_BV of the XSAVE area.
pub const EXT_XSTATE_BV: usize = 64;
/// The bit of XSTATE_BV for the upper halves of ymm0..ymm15. The other bits mean nothing here.
pub const XSTATE_AVX: u64 = 4;
/// x86-64: words of [`UserFrame::ext`] with these halves, as in an XSAVE area in standard format.
pub const EXT_AVX: core::ops::Range<usize> = 72..104;

pool_struct! {
    /// A thread's user-mode registers, in the numbering of its current ISA.
    ///
    /// Written by the core that runs the thread (at every trap) and by whoever completes its system call or moves it
    /// while it does not run. `regs` is indexed by:
    /// - x86-64: hardware encoding (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8..r15), FS base 16, GS base 17;
    /// - AArch64: x0..x30 0..=30, SP_EL0 31, TPIDR_EL0 32;
    /// - RISC-V: x0..x31 (index 0 unused);
    /// - hosted: r0..r15, r15 is the stack pointer, thread pointer 16.
    ///
    /// `ext` holds floating-point and vector state in the HAL's format: x86-64 an XSAVE area, that is an FXSAVE image, the header at
    /// [`EXT_XSTATE_BV`], and AVX state at [`EXT_AVX`] if the header says [`XSTATE_AVX`]; AArch64 q0..q31, then FPSR, FPCR; RISC-V f0..f31,
    /// then fcsr. Valid when `ext_valid` is 1, otherwise "initial state". Vector registers of AArch64 (SVE) and RISC-V (V), whose length
    /// differs from core to core, are in an area of their own ([`VectorArea`](crate::VectorArea)).
    pub struct UserFrame: size 2048, align 64 {
        /// [`Isa`](crate::Isa) of these registers.
        0 pub isa: Cell32,
        /// 1 when `ext` holds the thread's extended state, 0 when it is still in its initial state.
        4 pub ext_valid: Cell32,
        /// Program counter. After a system-call trap: the instruction that follows the call.
        8 pub pc: Cell64,
        /// Condition flags: RFLAGS (x86-64), SPSR_EL1 (AArch64, NZCV and SSBS bits only), unused (RISC-V).
        16 pub status: Cell64,
        /// The thread's [`VectorArea`](crate::VectorArea) (pool address), 0: none. Whoever makes a frame for a thread sets it; otherwise
        /// only allocating and freeing do.
        24 pub vectors: Cell64,
        /// Bytes in a vector register of the state that the area holds, 0: none, the registers are in their initial state. Means
        /// nothing when `ext_valid` is 0.
        32 pub vector_bytes: Cell32,
        36 _pad3: Cell32,
        40 _pad0: [Cell64; 3],
        /// General registers; see above.
        64 pub regs: [Cell64; 40],
        384 _pad1: [Cell64; 16],
        /// Floating-point and vector state.
        512 pub ext: [Cell64; 104],
        1344 _pad2: [Cell64; 88],
    }
}
