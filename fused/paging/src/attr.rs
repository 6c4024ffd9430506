//! The rights of a page, independently of any ISA.

use core::ops::BitOr;

/// A set of page attributes. Pages described by this crate are always user pages.
///
/// A page with none of read, write and execute is *inactive* (`PROT_NONE`): its entry is not present to hardware and yet
/// keeps the frame and the software bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Attr(u8);

impl Attr {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Loads.
    pub const READ: Self = Self(1);
    /// Stores.
    pub const WRITE: Self = Self(2);
    /// Instruction fetches.
    pub const EXECUTE: Self = Self(4);
    /// Software: the frame is shared with another space until the first store. Means nothing to hardware: whoever sets
    /// it leaves [`WRITE`](Self::WRITE) out.
    pub const COW: Self = Self(8);
    /// Software: the page belongs to a shared mapping.
    pub const SHARED: Self = Self(16);

    /// Software: marks leaves that hold no reference to their frame, in the home's table, too. No other page is both private
    /// and shared.
    pub const BORROWED: Self = Self(Self::COW.0 | Self::SHARED.0);

    /// Everything that means something to hardware.
    pub const ALL_ACCESS: Self = Self(Self::ACCESS);

    const ACCESS: u8 = 7;
    const ALL: u8 = 31;

    /// The set with these bits; unknown bits are dropped.
    #[inline(always)]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL)
    }

    /// The set's bits.
    #[inline(always)]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `other` is in this set.
    #[inline(always)]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set and `other`.
    #[inline(always)]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without `other`.
    #[inline(always)]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether hardware may use the page at all.
    #[inline(always)]
    pub const fn is_active(self) -> bool {
        self.0 & Self::ACCESS != 0
    }

    /// Whether hardware may do something with a page of this set that it may not with one of `after`.
    #[inline(always)]
    pub const fn loses_access(self, after: Self) -> bool {
        self.0 & !after.0 & Self::ACCESS != 0
    }

    /// What an entry of this set means once stored: writing or executing implies reading.
    ///
    /// No ISA can write a page it cannot read, and x86-64 cannot execute one either; the rule is the same everywhere so
    /// that a page means the same on every island.
    #[inline(always)]
    pub const fn normalised(self) -> Self {
        if self.is_active() { Self(self.0 | Self::READ.0) } else { self }
    }
}

impl BitOr for Attr {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl core::fmt::Debug for Attr {
    /// As in `ls`: `rwxcs`, with `-` for what is absent.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (bit, letter) in "rwxcs".chars().enumerate() {
            core::fmt::Write::write_char(f, if self.0 >> bit & 1 == 1 { letter } else { '-' })?;
        }
        Ok(())
    }
}
