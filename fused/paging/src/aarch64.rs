//! AArch64 VMSAv8-64 stage 1, 4 KiB granule, 48-bit addresses: Arm ARM DDI 0487, D8.3.1 (descriptor formats) and
//! D8.4 (permissions, EL1&0).

use crate::{Attr, USER_BITS, format::Encoding};

pub(crate) struct AArch64;

/// Valid, and table (levels 3..1) or page (level 0).
const VALID: u64 = 0b11;
/// AP\[1\]: user access.
const USER: u64 = 1 << 6;
/// AP\[2\].
const READ_ONLY: u64 = 1 << 7;
/// SH: a memory all our cores are in one inner domain of.
const INNER_SHAREABLE: u64 = 0b11 << 8;
/// Born set; hardware management of the dirty state (DBM, bit 51) is off.
const ACCESSED: u64 = 1 << 10;
const NOT_GLOBAL: u64 = 1 << 11;
const PRIVILEGED_NO_EXECUTE: u64 = 1 << 53;
const USER_NO_EXECUTE: u64 = 1 << 54;
// Bits 55..58 are for software; with bit 0 clear all others are, too. AttrIndx 0 is normal write-back memory.
const COW: u64 = 1 << 55;
const SHARED: u64 = 1 << 56;
const INACTIVE: u64 = 1 << 57;

impl Encoding for AArch64 {
    const LEVELS: u8 = 4;
    const INPUT_BITS: u32 = USER_BITS;

    const TABLE_MASK: u64 = VALID;
    const TABLE_BITS: u64 = VALID;
    const ADDRESS_MASK: u64 = 0x0000_ffff_ffff_f000;
    const ADDRESS_SHIFT: u32 = 0;
    const READ_MASK: u64 = VALID | USER;
    const READ_BITS: u64 = VALID | USER;
    const WRITE_MASK: u64 = VALID | USER | READ_ONLY;
    const WRITE_BITS: u64 = VALID | USER;

    #[inline(always)]
    fn attr_bits(attr: Attr) -> u64 {
        let software = u64::from(attr.bits() >> 3) << 55; // COW and SHARED are adjacent in both
        if !attr.is_active() {
            return software | INACTIVE;
        }
        let write = if attr.contains(Attr::WRITE) { 0 } else { READ_ONLY };
        let execute = if attr.contains(Attr::EXECUTE) { 0 } else { USER_NO_EXECUTE };
        VALID | USER | INNER_SHAREABLE | ACCESSED | NOT_GLOBAL | PRIVILEGED_NO_EXECUTE | write | execute | software
    }

    #[inline(always)]
    fn attr(pte: u64) -> Attr {
        let software = (pte >> 55 & 3) as u8 * Attr::COW.bits();
        if pte & 1 == 0 {
            return Attr::from_bits(software);
        }
        let write = (!pte >> 7 & 1) as u8 * Attr::WRITE.bits();
        let execute = (!pte >> 54 & 1) as u8 * Attr::EXECUTE.bits();
        Attr::from_bits(Attr::READ.bits() | write | execute | software)
    }

    #[inline(always)]
    fn table_bits() -> u64 {
        VALID
    }
}

const _: () = assert!(COW == 1 << 55 && SHARED == 1 << 56);
