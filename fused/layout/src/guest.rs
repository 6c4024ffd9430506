//! Guests: what a core of a virtual machine is, beside its [`UserFrame`](crate::UserFrame).

use crate::{Cell64, pool_struct};

pool_struct! {
    /// System registers of a guest's core, while it does not run. In an order of the ISA's own, which its HAL knows (AArch64:
    /// [`aarch64_guest`]); all zero: as after a reset. Written by the core that runs the guest.
    pub struct GuestSystem: size 320, align 64 {
        /// The registers.
        0 pub words: [Cell64; 40],
    }
}

/// AArch64: which word of [`GuestSystem`] is what. The general registers, SP_EL0 and TPIDR_EL0 are in the frame, whose `status` means
/// nothing.
pub mod aarch64_guest {
    /// PSTATE, as in SPSR_EL2, with the bits of [`RESET_PSTATE`] inverted.
    pub const PSTATE: usize = 0;
    /// SCTLR_EL1, with the bits of [`RESET_SCTLR`] inverted.
    pub const SCTLR: usize = 1;
    /// TTBR0_EL1.
    pub const TTBR0: usize = 2;
    /// TTBR1_EL1.
    pub const TTBR1: usize = 3;
    /// TCR_EL1.
    pub const TCR: usize = 4;
    /// MAIR_EL1.
    pub const MAIR: usize = 5;
    /// AMAIR_EL1.
    pub const AMAIR: usize = 6;
    /// VBAR_EL1.
    pub const VBAR: usize = 7;
    /// CONTEXTIDR_EL1.
    pub const CONTEXTIDR: usize = 8;
    /// CPACR_EL1.
    pub const CPACR: usize = 9;
    /// ELR_EL1.
    pub const ELR: usize = 10;
    /// SPSR_EL1.
    pub const SPSR: usize = 11;
    /// ESR_EL1.
    pub const ESR: usize = 12;
    /// FAR_EL1.
    pub const FAR: usize = 13;
    /// AFSR0_EL1.
    pub const AFSR0: usize = 14;
    /// AFSR1_EL1.
    pub const AFSR1: usize = 15;
    /// PAR_EL1.
    pub const PAR: usize = 16;
    /// SP_EL1.
    pub const SP: usize = 17;
    /// TPIDR_EL1.
    pub const TPIDR: usize = 18;
    /// TPIDRRO_EL0.
    pub const TPIDRRO: usize = 19;
    /// CSSELR_EL1.
    pub const CSSELR: usize = 20;
    /// CNTKCTL_EL1.
    pub const CNTKCTL: usize = 21;
    /// CNTV_CTL_EL0, as it was when the guest stopped: bit 2 says whether the timer had fired then.
    pub const TIMER_CONTROL: usize = 22;
    /// CNTV_CVAL_EL0.
    pub const TIMER_DEADLINE: usize = 23;
    /// CNTVOFF_EL2: how far the guest's counters are behind the core's. Whoever makes a guest sets it, or moves it to an island whose
    /// counter shows another time.
    pub const COUNTER_OFFSET: usize = 24;
    /// VMPIDR_EL2 without bit 31, which is 1: the guest's MPIDR_EL1. Whoever makes the guest sets it.
    pub const AFFINITY: usize = 25;
    /// 1 + the core where it ran last; 0: none. Its HAL's own.
    pub const LAST_CORE: usize = 26;
    /// ICH_VMCR_EL2: priority mask, binary points, enabled groups of its interrupt interface.
    pub const INTERRUPT_CONTROL: usize = 27;
    /// ICH_AP0R0_EL2, ICH_AP1R0_EL2: its active priorities.
    pub const ACTIVE_PRIORITIES: [usize; 2] = [28, 29];
    /// First of the list registers (ICH_LR0_EL2 ...), which hold interrupts that are pending or active; 0: none.
    pub const LIST: usize = 30;
    /// List registers.
    pub const LIST_LEN: usize = 4;

    /// PSTATE after a reset: EL1 with its own stack pointer, everything masked.
    pub const RESET_PSTATE: u64 = 0x3c5;
    /// SCTLR_EL1 after a reset: translation and caches off; what is 1 in cores without later extensions.
    pub const RESET_SCTLR: u64 = 0x30c5_0838;

    const _: () = assert!(LIST + LIST_LEN <= 40);
}
