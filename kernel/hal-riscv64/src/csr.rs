//! Control and status registers, by number where the assembler may not know the name.

/// Interrupt bits of `sie` and `sip`: supervisor software, by which the firmware says that a thread has come home.
pub const SOFTWARE_BIT: u64 = 1 << 1;
/// Interrupt bits of `sie` and `sip`: supervisor timer.
pub const TIMER_BIT: u64 = 1 << 5;
/// Interrupt bits of `sie` and `sip`: supervisor external (the IMSIC).
pub const EXTERNAL_BIT: u64 = 1 << 9;

/// `sstatus.FS` and `sstatus.VS`: Initial (1 in both fields).
pub const STATUS_FS_INITIAL: u64 = 1 << 13;
/// `sstatus.FS`: both bits; together they mean Dirty.
pub const STATUS_FS: u64 = 3 << 13;
/// `sstatus.VS`: Initial.
pub const STATUS_VS_INITIAL: u64 = 1 << 9;
/// `sstatus.VS`: both bits; together they mean Dirty.
pub const STATUS_VS: u64 = 3 << 9;

/// `satp` for Sv48 (mode 9) and ASID 0 with its root table at `root_phys`.
pub const fn satp(root_phys: u64) -> u64 {
    9 << 60 | root_phys >> 12
}

/// Reads a CSR without side effects.
macro_rules! read_csr {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading this register has no side effect.
        unsafe { core::arch::asm!(concat!("csrr {}, ", $name), out(reg) value, options(nomem, nostack)) };
        value
    }};
}

/// Writes a CSR. The caller answers for what that does; it is unsafe for registers that can break memory safety.
macro_rules! write_csr {
    ($name:literal, $value:expr) => {
        core::arch::asm!(concat!("csrw ", $name, ", {}"), in(reg) $value, options(nostack))
    };
}

pub(crate) use {read_csr, write_csr};
