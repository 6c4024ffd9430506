//! Formats of the second stage: from a guest's physical addresses to an island's.
//!
//! Their tables translate all addresses from 0 to [`Stage2::end`], and their roots may be longer than a page: [`Stage2::root_bytes`]
//! says how long, and that is their alignment, too. Attributes mean what they mean in user tables; a guest divides what it is given
//! among its own privilege levels by tables of its own.

use motet_layout::PAGE_SIZE;

use crate::format::{Encoding, Stage, format_methods, sealed, with_encoding};
use crate::{Attr, Entry, Format};

/// A page-table format of the second stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage2 {
    /// AArch64, 4 KiB granule, addresses of 40 bits: begins at the architecture's level 1 with two tables (VTCR_EL2: T0SZ 24, SL0 1).
    /// Cores with physical addresses of 40 bits have no level 0.
    AArch64Bits40,
    /// AArch64, 4 KiB granule, addresses of 42 bits: eight tables of level 1 (T0SZ 22, SL0 1).
    AArch64Bits42,
    /// AArch64, 4 KiB granule, addresses of 48 bits: one table of level 0 (T0SZ 16, SL0 2).
    AArch64Bits48,
    /// RISC-V Sv39x4: addresses of 41 bits, a root of 16 KiB.
    Sv39x4,
    /// RISC-V Sv48x4: addresses of 50 bits, a root of 16 KiB.
    Sv48x4,
}

impl Stage2 {
    /// Every format.
    pub const ALL: [Self; 5] =
        [Self::AArch64Bits40, Self::AArch64Bits42, Self::AArch64Bits48, Self::Sv39x4, Self::Sv48x4];

    format_methods!();

    /// Whether the ISA's hardware would use the entry.
    #[inline]
    pub const fn is_present(self, pte: u64) -> bool {
        pte & 1 != 0
    }
}

impl sealed::Sealed for Stage2 {}

impl Stage for Stage2 {
    const IS_SECOND: bool = true;

    fn first(self) -> Format {
        unreachable!("{self:?} is a format of stage 2")
    }

    #[inline(always)]
    fn second(self) -> Stage2 {
        self
    }
}
