//! System registers that a guest has otherwise than the core: ID registers without what is not kept for guests, and those of debugging
//! and performance monitors, which read as 0 and forget what is written.

use motet_hal::{SystemRegister, set_register};
use motet_layout::{GuestSystem, UserFrame, aarch64_guest as words};

use crate::cpu::read_register;

/// A register's number as in [`SystemRegister`]: as MSR and MRS encode it.
pub const fn number(op0: u64, op1: u64, crn: u64, crm: u64, op2: u64) -> u16 {
    (op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2) as u16
}

const COUNTER: u16 = number(3, 3, 14, 0, 1); // CNTPCT_EL0
const AUXILIARY_CONTROL: u16 = number(3, 0, 1, 0, 1); // ACTLR_EL1

/// Serves an access to such a register; `false`: it is none.
pub fn serve(access: SystemRegister, frame: &UserFrame, system: &GuestSystem) -> bool {
    let Some(value) = read(access.number, system) else { return false };
    let is_id = identification(access.number).is_some();
    if access.is_write {
        return !is_id && access.number != COUNTER;
    }
    set_register(frame, access.register, value);
    true
}

fn read(number: u16, system: &GuestSystem) -> Option<u64> {
    if let Some(value) = identification(number) {
        return Some(value);
    }
    match number {
        // The guest's physical counter is its virtual one.
        COUNTER if !super::is_time_hidden() => {
            Some(read_register!("cntvct_el0").wrapping_sub(system.words[words::COUNTER_OFFSET].get()))
        }
        AUXILIARY_CONTROL => Some(0),
        number if is_of_debugging(number) => Some(0),
        _ => None,
    }
}

/// Debug registers (op0 2), and those of performance monitors (CRn 9, CRm 12 to 14; CRn 14, CRm 8 to 15).
const fn is_of_debugging(number: u16) -> bool {
    let (op0, op1, crn, crm) = (number >> 14, number >> 11 & 7, number >> 7 & 15, number >> 3 & 15);
    op0 == 2
        || op0 == 3 && matches!(op1, 0 | 3) && crn == 9 && matches!(crm, 12..=14)
        || op0 == 3 && op1 == 3 && crn == 14 && crm >= 8
}

/// An ID register (op0 3, op1 0, CRn 0, CRm 1 to 7; Arm ARM, D24.2): the core's fields that mean something to a guest. What is absent:
/// AArch32, EL2 and EL3, SVE, SME, MTE, pointer authentication, and what the kernel would have to turn on in EL2.
fn identification(id: u16) -> Option<u64> {
    let (is_id, crm, op2) = (id >> 7 == number(3, 0, 0, 0, 0) >> 7, id >> 3 & 15, id & 7);
    if !is_id || !matches!(crm, 1..=7) {
        return None;
    }
    Some(match (crm, op2) {
        (4, 0) => {
            // ID_AA64PFR0_EL1: floating point, the interrupt controller, DIT; EL0 and EL1 in AArch64.
            read_register!("id_aa64pfr0_el1") & (0xf << 48 | 0xf << 24 | 0xff << 16) | 0x11
        }
        (4, 1) => read_register!("id_aa64pfr1_el1") & 0xff, // BTI, SSBS
        (5, 0) => 0x0010_1006,                              // ID_AA64DFR0_EL1: debugging, the fewest registers
        (6, 0) => read_register!("id_aa64isar0_el1") & !(0xf << 60), // without random numbers
        // Pointer authentication and 64-byte accesses.
        (6, 1) => read_register!("id_aa64isar1_el1") & !(0xf << 60 | 0xff << 24 | 0xff << 4),
        (6, 2) => read_register!("id_aa64isar2_el1") & 0xf0, // RPRES, not waits with an end
        (7, 0) => read_register!("id_aa64mmfr0_el1") & 0xffff_ffff,
        // Hardware's flags, HPDS, PAN, ETS, AFP.
        (7, 1) => read_register!("id_aa64mmfr1_el1") & (0xf << 44 | 0xf << 36 | 0xf << 20 | 0xf << 12 | 0xf),
        // Without nested virtualization, FWB and EVT.
        (7, 2) => read_register!("id_aa64mmfr2_el1") & !(0xf << 56 | 0xf << 40 | 0xf << 24),
        _ => 0,
    })
}
