//! RISC-V Sv48: privileged architecture, "Sv48: Page-Based 48-bit Virtual-Memory System"; entry bits as in "Sv32",
//! table "Encoding of PTE R/W/X fields". Sv39x4 and Sv48x4: its chapter on the hypervisor extension.

use crate::{Attr, USER_BITS, format::Encoding};

pub(crate) struct Sv48;

const VALID: u64 = 1 << 0;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const USER: u64 = 1 << 4;
const ACCESSED: u64 = 1 << 6;
const DIRTY: u64 = 1 << 7;
// RSW, for software; with VALID clear all other bits are, too.
const COW: u64 = 1 << 8;
const SHARED: u64 = 1 << 9;
/// With VALID clear: an inactive leaf.
const INACTIVE: u64 = USER;

impl Encoding for Sv48 {
    const LEVELS: u8 = 4;
    const INPUT_BITS: u32 = USER_BITS;

    const TABLE_MASK: u64 = VALID | READ | WRITE | EXECUTE;
    const TABLE_BITS: u64 = VALID;
    /// PPN is 44 bits, at bit 10 of the entry.
    const ADDRESS_MASK: u64 = 0x00ff_ffff_ffff_f000;
    const ADDRESS_SHIFT: u32 = 2;
    const READ_MASK: u64 = VALID | READ | USER;
    const READ_BITS: u64 = VALID | READ | USER;
    const WRITE_MASK: u64 = VALID | WRITE | USER;
    const WRITE_BITS: u64 = VALID | WRITE | USER;

    #[inline(always)]
    fn attr_bits(attr: Attr) -> u64 {
        let software = u64::from(attr.bits() >> 3) << 8; // COW and SHARED are adjacent in both
        if !attr.is_active() {
            return software | INACTIVE;
        }
        let access = u64::from(attr.bits() & 7) << 1; // R, W, X in this order in both
        let dirty = if attr.contains(Attr::WRITE) { DIRTY } else { 0 };
        VALID | USER | ACCESSED | access | dirty | software
    }

    #[inline(always)]
    fn attr(pte: u64) -> Attr {
        let software = (pte >> 8 & 3) as u8 * Attr::COW.bits();
        if pte & VALID == 0 {
            return Attr::from_bits(software);
        }
        Attr::from_bits((pte >> 1 & 7) as u8 | software)
    }

    /// In a table entry U, A and D must be clear.
    #[inline(always)]
    fn table_bits() -> u64 {
        VALID
    }
}

/// G-stage tables ("Two-Stage Address Translation"): entries are those of Sv48 and Sv39, every access counts as a user's, so that U must
/// be set, G must not, and the root has four times as many.
macro_rules! guest_stage {
    ($name:ident, $levels:expr) => {
        pub(crate) struct $name;

        impl Encoding for $name {
            const LEVELS: u8 = $levels;
            const INPUT_BITS: u32 = 12 + 9 * $levels + 2;

            const TABLE_MASK: u64 = Sv48::TABLE_MASK;
            const TABLE_BITS: u64 = Sv48::TABLE_BITS;
            const ADDRESS_MASK: u64 = Sv48::ADDRESS_MASK;
            const ADDRESS_SHIFT: u32 = Sv48::ADDRESS_SHIFT;
            const READ_MASK: u64 = Sv48::READ_MASK;
            const READ_BITS: u64 = Sv48::READ_BITS;
            const WRITE_MASK: u64 = Sv48::WRITE_MASK;
            const WRITE_BITS: u64 = Sv48::WRITE_BITS;

            #[inline(always)]
            fn attr_bits(attr: Attr) -> u64 {
                Sv48::attr_bits(attr)
            }

            #[inline(always)]
            fn attr(pte: u64) -> Attr {
                Sv48::attr(pte)
            }

            #[inline(always)]
            fn table_bits() -> u64 {
                Sv48::table_bits()
            }
        }
    };
}

guest_stage!(Sv39x4, 3);
guest_stage!(Sv48x4, 4);

const _: () = assert!(READ == (Attr::READ.bits() as u64) << 1 && WRITE == (Attr::WRITE.bits() as u64) << 1);
const _: () = assert!(EXECUTE == (Attr::EXECUTE.bits() as u64) << 1 && COW == 1 << 8 && SHARED == 1 << 9);
