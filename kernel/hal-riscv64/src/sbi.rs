//! The calls of the Supervisor Binary Interface that this HAL makes (RISC-V SBI specification 2.0).

use core::arch::asm;

const EXTENSION_TIME: usize = 0x5449_4d45;
/// Hart state management: function 0 starts a hart, 1 stops the caller.
pub const EXTENSION_HART_STATE: usize = 0x0048_534d;
const EXTENSION_BASE: usize = 0x10;
const ERROR_ALREADY_AVAILABLE: isize = -6;

/// Sets this hart's timer (and withdraws its pending interrupt). Only for harts without Sstc.
pub fn set_timer(ticks: u64) {
    call(EXTENSION_TIME, 0, [ticks as usize, 0, 0]);
}

/// Whether the firmware has an extension.
pub fn has(extension: usize) -> bool {
    call(EXTENSION_BASE, 3, [extension, 0, 0]).1 != 0
}

/// Starts `hart` in S-mode at `phys` with translation off, its id in `a0` and `argument` in `a1`.
///
/// # Errors
/// What the firmware answered.
pub fn hart_start(hart: u64, phys: u64, argument: u64) -> Result<(), &'static str> {
    match call(EXTENSION_HART_STATE, 0, [hart as usize, phys as usize, argument as usize]).0 {
        0 => Ok(()),
        ERROR_ALREADY_AVAILABLE => Err("the hart is already started"),
        _ => Err("the firmware refuses to start the hart"),
    }
}

/// Implementation id and version of the firmware (1 is OpenSBI).
pub fn implementation() -> (usize, usize) {
    (call(EXTENSION_BASE, 1, [0; 3]).1, call(EXTENSION_BASE, 2, [0; 3]).1)
}

/// Makes a call of these arguments; answers its error and value.
pub fn call(extension: usize, function: usize, arguments: [usize; 3]) -> (isize, usize) {
    let (error, value);
    // SAFETY: these functions touch no memory of ours, and the firmware keeps all registers but a0 and a1.
    unsafe {
        asm!(
            "ecall",
            inlateout("a0") arguments[0] => error,
            inlateout("a1") arguments[1] => value,
            in("a2") arguments[2],
            in("a6") function,
            in("a7") extension,
            options(nostack)
        );
    }
    (error, value)
}
