//! AArch64 VMSAv8-64 stage 2, 4 KiB granule: Arm ARM DDI 0487, D8.2 (concatenated tables), D8.3.1 (stage 2 descriptors), D8.4
//! (stage 2 permissions) and D8.6 (memory types and shareability).

use crate::{Attr, format::Encoding};

/// Of addresses of `BITS` bits.
pub(crate) struct AArch64Stage2<const BITS: u32>;

/// Valid, and table or page.
const VALID: u64 = 0b11;
/// MemAttr\[3:0\]: normal, write-back both in inner and outer caches (FEAT_S2FWB off).
const NORMAL_WRITE_BACK: u64 = 0b1111 << 2;
/// S2AP\[0\].
const READ: u64 = 1 << 6;
/// S2AP\[1\].
const WRITE: u64 = 1 << 7;
/// SH: a memory all our cores are in one inner domain of.
const INNER_SHAREABLE: u64 = 0b11 << 8;
/// Born set; hardware management of the dirty state (DBM, bit 51) is off.
const ACCESSED: u64 = 1 << 10;
/// XN\[1\]; with XN\[0\] (bit 53, FEAT_XNX) clear it says the same of EL1 and EL0.
const NO_EXECUTE: u64 = 1 << 54;
// Bits 55 .. 58 are for software; 55 is NS in some security states. With bit 0 clear all others are, too.
const SOFTWARE_SHIFT: u32 = 56;
const INACTIVE: u64 = 1 << 58;

impl<const BITS: u32> Encoding for AArch64Stage2<BITS> {
    /// Up to sixteen tables of level 1 save level 0, which cores with physical addresses of 40 or 42 bits do not have in stage 2.
    const LEVELS: u8 = if BITS <= 43 { 3 } else { 4 };
    const INPUT_BITS: u32 = BITS;

    const TABLE_MASK: u64 = VALID;
    const TABLE_BITS: u64 = VALID;
    const ADDRESS_MASK: u64 = 0x0000_ffff_ffff_f000;
    const ADDRESS_SHIFT: u32 = 0;
    const READ_MASK: u64 = VALID | READ;
    const READ_BITS: u64 = VALID | READ;
    const WRITE_MASK: u64 = VALID | WRITE;
    const WRITE_BITS: u64 = VALID | WRITE;

    #[inline(always)]
    fn attr_bits(attr: Attr) -> u64 {
        let software = u64::from(attr.bits() >> 3) << SOFTWARE_SHIFT;
        if !attr.is_active() {
            return software | INACTIVE;
        }
        let write = if attr.contains(Attr::WRITE) { WRITE } else { 0 };
        let execute = if attr.contains(Attr::EXECUTE) { 0 } else { NO_EXECUTE };
        VALID | NORMAL_WRITE_BACK | READ | INNER_SHAREABLE | ACCESSED | write | execute | software
    }

    #[inline(always)]
    fn attr(pte: u64) -> Attr {
        let software = (pte >> SOFTWARE_SHIFT & 3) as u8 * Attr::COW.bits();
        if pte & 1 == 0 {
            return Attr::from_bits(software);
        }
        let write = (pte >> 7 & 1) as u8 * Attr::WRITE.bits();
        let execute = (!pte >> 54 & 1) as u8 * Attr::EXECUTE.bits();
        Attr::from_bits(Attr::READ.bits() | write | execute | software)
    }

    #[inline(always)]
    fn table_bits() -> u64 {
        VALID
    }
}
