//! The formats as data: what every ISA's entries have in common, and the dispatch to each.

use motet_layout::{Isa, PAGE_SHIFT, PAGE_SIZE};

use crate::{Attr, Stage2};

/// One ISA's page-table entries. All constants, so that the walker compiles to straight code per format.
///
/// In all formats an entry that hardware uses has bit 0 set, and an address lies in one contiguous field.
pub(crate) trait Encoding {
    /// Levels of a table, the root's included.
    const LEVELS: u8;
    /// Bits of the addresses that a table translates. More than the levels have above the page: the root is as many tables
    /// as the rest says, one after the other.
    const INPUT_BITS: u32;

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

    /// Level of the root.
    const ROOT_LEVEL: u8 = Self::LEVELS - 1;
    /// First address past those that a table translates.
    const END: u64 = 1 << Self::INPUT_BITS;
    /// Bytes translated by one table of the root.
    const ROOT_SPAN: u64 = 1 << (PAGE_SHIFT + 9 * Self::LEVELS as u32);
    /// Tables of the root.
    const ROOT_TABLES: u64 = Self::END.div_ceil(Self::ROOT_SPAN);

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

/// Formats of one stage of translation: [`Format`] or [`Stage2`]. A [`Table`](crate::Table) is of one stage, so that
/// nothing chooses among formats of the other.
pub trait Stage: Copy + sealed::Sealed {
    /// Whether it is the second stage.
    #[doc(hidden)]
    const IS_SECOND: bool;
    /// The format, of stage 1.
    #[doc(hidden)]
    fn first(self) -> Format;
    /// The format, of stage 2.
    #[doc(hidden)]
    fn second(self) -> Stage2;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Runs an expression with `$F` naming the encoding of a format of stage `$S`.
macro_rules! with_encoding {
    ($S:ty, $format:expr, $F:ident => $body:expr) => {
        // Constant: arms of the other stage are not compiled.
        if <$S as $crate::Stage>::IS_SECOND {
            $crate::format::with_second!($crate::Stage::second($format), $F => $body)
        } else {
            $crate::format::with_first!($crate::Stage::first($format), $F => $body)
        }
    };
}
pub(crate) use with_encoding;

macro_rules! with_first {
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
pub(crate) use with_first;

macro_rules! with_second {
    ($format:expr, $F:ident => $body:expr) => {
        match $format {
            $crate::Stage2::AArch64Bits40 => {
                type $F = $crate::aarch64_stage2::AArch64Stage2<40>;
                $body
            }
            $crate::Stage2::AArch64Bits42 => {
                type $F = $crate::aarch64_stage2::AArch64Stage2<42>;
                $body
            }
            $crate::Stage2::AArch64Bits48 => {
                type $F = $crate::aarch64_stage2::AArch64Stage2<48>;
                $body
            }
            $crate::Stage2::Sv39x4 => {
                type $F = $crate::sv48::Sv39x4;
                $body
            }
            $crate::Stage2::Sv48x4 => {
                type $F = $crate::sv48::Sv48x4;
                $body
            }
        }
    };
}
pub(crate) use with_second;

/// What can be asked of every format.
macro_rules! format_methods {
    () => {
        /// The entry for a page at `phys` (local, page-aligned; at most 48 bits, or 52 on x86-64 and 56 on RISC-V).
        #[inline]
        pub fn leaf(self, phys: u64, attr: Attr) -> u64 {
            with_encoding!(Self, self, F => F::leaf(phys, attr))
        }

        /// The entry for the next table at `phys` (local, page-aligned).
        #[inline]
        pub fn table(self, phys: u64) -> u64 {
            with_encoding!(Self, self, F => F::table(phys))
        }

        /// Decodes an entry found at `level` (the root's .. 0). Total: any bits give an answer.
        #[inline]
        pub fn decode(self, pte: u64, level: u8) -> Entry {
            with_encoding!(Self, self, F => if level == 0 { F::decode_leaf(pte) } else { F::decode_table(pte) })
        }

        /// Levels of a table, the root's included.
        pub fn levels(self) -> u8 {
            with_encoding!(Self, self, F => F::LEVELS)
        }

        /// First address past those that a table translates.
        pub fn end(self) -> u64 {
            with_encoding!(Self, self, F => F::END)
        }

        /// Bytes of a root table: a power of two, and what its address must be a multiple of.
        pub fn root_bytes(self) -> u64 {
            with_encoding!(Self, self, F => F::ROOT_TABLES * PAGE_SIZE)
        }
    };
}
pub(crate) use format_methods;

/// A page-table format of user space.
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

    format_methods!();

    /// Whether the ISA's hardware would use the entry.
    #[inline]
    pub const fn is_present(self, pte: u64) -> bool {
        match self {
            Self::X86_64 | Self::AArch64 | Self::Sv48 => pte & 1 != 0,
        }
    }
}

impl sealed::Sealed for Format {}

impl Stage for Format {
    const IS_SECOND: bool = false;

    #[inline(always)]
    fn first(self) -> Format {
        self
    }

    fn second(self) -> Stage2 {
        unreachable!("{self:?} is a format of stage 1")
    }
}
