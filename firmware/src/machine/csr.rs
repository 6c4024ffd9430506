//! Control and status registers. Those that the assembler may not know go by number.

/// Reads a register without side effects.
macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading this register has no side effect; where it may be missing, it has been tried.
        unsafe { core::arch::asm!(concat!("csrr {}, ", $name), out(reg) value, options(nomem, nostack)) };
        value
    }};
}

/// Writes a register. The caller answers for what that does.
macro_rules! write {
    ($name:literal, $value:expr) => {
        core::arch::asm!(concat!("csrw ", $name, ", {}"), in(reg) $value, options(nostack))
    };
}

/// Sets bits of a register. The caller answers for what that does.
macro_rules! set {
    ($name:literal, $bits:expr) => {
        core::arch::asm!(concat!("csrs ", $name, ", {}"), in(reg) $bits, options(nostack))
    };
}

/// Clears bits of a register. The caller answers for what that does.
macro_rules! clear {
    ($name:literal, $bits:expr) => {
        core::arch::asm!(concat!("csrc ", $name, ", {}"), in(reg) $bits, options(nostack))
    };
}

/// Whether this hart has a register: reading it goes on behind the read, or at the trap vector, which is there, too.
/// Overwrites what a trap of the firmware's would report.
macro_rules! has {
    ($name:literal) => {{
        let missing: u64;
        // SAFETY: interrupts are masked in M-mode; the vector is back in place at the end, and a trap changes nothing but
        // `mepc`, `mcause`, `mtval` and the fields of `mstatus` that every entry to a lower mode writes.
        unsafe {
            core::arch::asm!(
                "la {vector}, 2f",
                "csrrw {vector}, mtvec, {vector}",
                "li {missing}, 1",
                concat!("csrr {value}, ", $name),
                "li {missing}, 0",
                ".balign 4",
                "2:",
                "csrw mtvec, {vector}",
                vector = out(reg) _,
                missing = out(reg) missing,
                value = out(reg) _,
                options(nostack)
            );
        }
        missing == 0
    }};
}

pub(crate) use {clear, has, read, set, write};
