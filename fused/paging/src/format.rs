//! The formats as data: what every ISA's entries have in common, and the dispatch to each.

use motet_layout::Isa;

use crate::Attr;

/// One ISA's page-table entries. All constants, so that the walker compiles to straight code per format.
///
/// In all formats an entry that hardware uses has bit 0 set, and an address lies in one contiguous field.
pub(crate) trait Encoding {
    /// Bits that tell a table entry from everything else ...
    const TABLE_MASK: u64;
    /// ... and their values in a table entry.
    const TABLE_BITS: u64;
    /// The address field after the shift below.
    const ADDRESS_MASK: u64;
    /// The entry shifted left by this has the address in place.
    const ADDRESS_SHIFT: u32;
    /// Bits that tell a page user code can read ...
    const READ_MASK: u64;
    /// ... and their values.
    const READ_BITS: u64;
    /// Bits that tell a page user code can write ...
    const WRITE_MASK: u64;
    /// ... and their values.
    const WRITE_BITS: u64;

    /// The bits of a leaf beside the address, for normalised attributes.
    fn attr_bits(attr: Attr) -> u64;
    /// The attributes of an entry that is a leaf (anything for one that is not).
    fn attr(pte: u64) -> Attr;

    #[inline(always)]
    fn phys(pte: u64) -> u64 {
        (pte << Self::ADDRESS_SHIFT) & Self::ADDRESS_MASK
    }

    #[inline(always)]
    fn is_table(pte: u64) -> bool {
        pte & Self::TABLE_MASK == Self::TABLE_BITS
    }

    #[inline(always)]
    fn leaf(phys: u64, attr: Attr) -> u64 {
        (phys & Self::ADDRESS_MASK) >> Self::ADDRESS_SHIFT | Self::attr_bits(attr.normalised())
    }

    #[inline(always)]
    fn table(phys: u64) -> u64 {
        (phys & Self::ADDRESS_MASK) >> Self::ADDRESS_SHIFT | Self::table_bits()
    }

    /// All bits of a table entry beside the address.
    fn table_bits() -> u64;

    /// Decodes an entry of the leaf table.
    #[inline(always)]
    fn decode_leaf(pte: u64) -> Entry {
        if pte == 0 {
            return Entry::Empty;
        }
        let (phys, attr) = (Self::phys(pte), Self::attr(pte));
        if Self::leaf(phys, attr) == pte { Entry::Leaf { phys, attr } } else { Entry::Corrupt }
    }

    /// Decodes an entry of a higher table.
    #[inline(always)]
    fn decode_table(pte: u64) -> Entry {
        if pte == 0 {
            return Entry::Empty;
        }
        let phys = Self::phys(pte);
        if Self::table(phys) == pte { Entry::Table(phys) } else { Entry::Corrupt }
    }
}

/// Runs an expression with `$F` naming the encoding of a format.
macro_rules! with_encoding {
    ($format:expr, $F:ident => $body:expr) => {
        match $format {
            $crate::Format::X86_64 => {
                type $F = $crate::x86_64::X86_64;
                $body
            }
            $crate::Format::AArch64 => {
                type $F = $crate::aarch64::AArch64;
                $body
            }
            $crate::Format::Sv48 => {
                type $F = $crate::sv48::Sv48;
                $body
            }
        }
    };
}
pub(crate) use with_encoding;

/// A page-table format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// x86-64, 4-level paging (Intel SDM vol. 3A §4.5).
    X86_64,
    /// AArch64 VMSAv8-64, 4 KiB granule, 48-bit (Arm ARM DDI 0487, D8.3).
    AArch64,
    /// RISC-V Sv48 (privileged architecture, "Sv48").
    Sv48,
}

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Nothing was ever put here, or it was removed.
    Empty,
    /// Local physical address of the next table.
    Table(u64),
    /// A page (level 0 only), present or inactive.
    Leaf {
        /// Local physical address of the page.
        phys: u64,
        /// What may be done with it.
        attr: Attr,
    },
    /// Nothing that this crate ever writes at that level.
    Corrupt,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::X86_64, Self::AArch64, Self::Sv48];

    /// The format of an ISA's tables. Hosted islands borrow another ISA's (`IslandRecord::paging`), so for
    /// [`Isa::Hosted`] itself there is none.
    pub const fn from_isa(isa: Isa) -> Option<Self> {
        match isa {
            Isa::X86_64 => Some(Self::X86_64),
            Isa::AArch64 => Some(Self::AArch64),
            Isa::RiscV64 => Some(Self::Sv48),
            Isa::Hosted => None,
        }
    }

    /// The entry for a page at `phys` (local, page-aligned; at most 48 bits, or 52 on x86-64 and 56 on Sv48).
    #[inline]
    pub fn leaf(self, phys: u64, attr: Attr) -> u64 {
        with_encoding!(self, F => F::leaf(phys, attr))
    }

    /// The entry for the next table at `phys` (local, page-aligned).
    #[inline]
    pub fn table(self, phys: u64) -> u64 {
        with_encoding!(self, F => F::table(phys))
    }

    /// Decodes an entry found at `level` (3 root .. 0). Total: any bits give an answer.
    #[inline]
    pub fn decode(self, pte: u64, level: u8) -> Entry {
        with_encoding!(self, F => if level == 0 { F::decode_leaf(pte) } else { F::decode_table(pte) })
    }

    /// Whether the ISA's hardware would use the entry.
    #[inline]
    pub const fn is_present(self, pte: u64) -> bool {
        match self {
            Self::X86_64 | Self::AArch64 | Self::Sv48 => pte & 1 != 0,
        }
    }
}
