//! x86-64 4-level paging: Intel SDM vol. 3A §4.5.4, tables 4-15 to 4-20 (AMD APM vol. 2 §5.4 agrees).

use crate::{Attr, USER_BITS, format::Encoding};

pub(crate) struct X86_64;

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
/// In tables above level 0: a large page. We make none.
const PAGE_SIZE: u64 = 1 << 7;
// Bits 9..11 are ignored by hardware; with PRESENT clear all others are, too.
const COW: u64 = 1 << 9;
const SHARED: u64 = 1 << 10;
const INACTIVE: u64 = 1 << 11;
const NO_EXECUTE: u64 = 1 << 63;

impl Encoding for X86_64 {
    const LEVELS: u8 = 4;
    const INPUT_BITS: u32 = USER_BITS;

    const TABLE_MASK: u64 = PRESENT | PAGE_SIZE;
    const TABLE_BITS: u64 = PRESENT;
    const ADDRESS_MASK: u64 = 0x000f_ffff_ffff_f000;
    const ADDRESS_SHIFT: u32 = 0;
    const READ_MASK: u64 = PRESENT | USER;
    const READ_BITS: u64 = PRESENT | USER;
    const WRITE_MASK: u64 = PRESENT | USER | WRITABLE;
    const WRITE_BITS: u64 = PRESENT | USER | WRITABLE;

    #[inline(always)]
    fn attr_bits(attr: Attr) -> u64 {
        let software = u64::from(attr.bits() >> 3) << 9; // COW and SHARED are adjacent in both
        if !attr.is_active() {
            return software | INACTIVE;
        }
        let write = if attr.contains(Attr::WRITE) { WRITABLE | DIRTY } else { 0 };
        let execute = if attr.contains(Attr::EXECUTE) { 0 } else { NO_EXECUTE };
        PRESENT | USER | ACCESSED | write | execute | software
    }

    #[inline(always)]
    fn attr(pte: u64) -> Attr {
        let software = (pte >> 9 & 3) as u8 * Attr::COW.bits();
        if pte & PRESENT == 0 {
            return Attr::from_bits(software);
        }
        let write = (pte & WRITABLE) as u8; // bit 1 in both
        let execute = (!pte >> 63) as u8 * Attr::EXECUTE.bits();
        Attr::from_bits(Attr::READ.bits() | write | execute | software)
    }

    #[inline(always)]
    fn table_bits() -> u64 {
        PRESENT | WRITABLE | USER | ACCESSED
    }
}

const _: () = assert!(COW == 1 << 9 && SHARED == 1 << 10 && Attr::WRITE.bits() as u64 == WRITABLE);
const _: () = assert!(Attr::SHARED.bits() == 2 * Attr::COW.bits() && Attr::COW.bits() == 1 << 3);
