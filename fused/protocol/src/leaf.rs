//! Kinds of leaves: who else uses a leaf's frame.

use motet_paging::{Attr, Leaf};

/// What a leaf is to its space: who else has the frame, and whether the leaf holds a reference to it in the home's table. The
/// two software bits of an entry say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The space's own: nobody else has the frame.
    Owned,
    /// A page of a file, or registers of a device, of a shared mapping: stores go to what everybody sees.
    Shared,
    /// Others may have the frame, too, until the first store: never writable.
    CopyOnWrite,
    /// Shows what another leaf of the space owns: holds no reference, and is not counted.
    Borrowed,
}

impl Kind {
    /// The kind of a leaf with these attributes.
    #[inline(always)]
    pub const fn of(attr: Attr) -> Self {
        match (attr.contains(Attr::COW), attr.contains(Attr::SHARED)) {
            (false, false) => Self::Owned,
            (false, true) => Self::Shared,
            (true, false) => Self::CopyOnWrite,
            (true, true) => Self::Borrowed,
        }
    }

    /// The attributes of a leaf of this kind that allows `access`, or as much of it as such leaves may.
    #[inline(always)]
    pub const fn allowing(self, access: Attr) -> Attr {
        let access = access.without(Attr::BORROWED);
        match self {
            Self::Owned => access,
            Self::Shared => access.union(Attr::SHARED),
            Self::CopyOnWrite => access.without(Attr::WRITE).union(Attr::COW),
            Self::Borrowed => access.union(Attr::BORROWED),
        }
    }

    /// Whether a leaf of this kind holds a reference to its frame, in the home's table, and is counted as resident.
    #[inline(always)]
    pub const fn holds_reference(self) -> bool {
        match self {
            Self::Owned | Self::Shared | Self::CopyOnWrite => true,
            Self::Borrowed => false,
        }
    }

    /// The attributes of a leaf for both sides after a fork, and whether the child has the leaf.
    #[inline(always)]
    pub(crate) const fn forked(attr: Attr, is_shared_mapping: bool) -> (Attr, bool) {
        match Self::of(attr) {
            // Marked even where nobody may write to it now: `mprotect` may make it writable.
            Self::Owned | Self::CopyOnWrite if !is_shared_mapping => (attr.without(Attr::WRITE).union(Attr::COW), true),
            // A mapping that is shared stays so, whatever its pages are; registers and the like are everybody's.
            Self::Owned | Self::CopyOnWrite | Self::Shared => (attr, true),
            Self::Borrowed => (attr, false),
        }
    }
}

/// Whether a leaf holds a reference to its frame in the home's table.
#[inline(always)]
pub(crate) fn holds_reference(leaf: Leaf) -> bool {
    Kind::of(leaf.attr).holds_reference()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 4] = [Kind::Owned, Kind::Shared, Kind::CopyOnWrite, Kind::Borrowed];

    #[test]
    fn attributes_say_the_kind_that_they_were_made_of() {
        for kind in KINDS {
            for bits in 0..8 {
                assert_eq!(Kind::of(kind.allowing(Attr::from_bits(bits))), kind);
            }
        }
    }

    #[test]
    fn only_what_is_to_be_copied_refuses_stores() {
        let writable = |kind: &Kind| kind.allowing(Attr::ALL_ACCESS).contains(Attr::WRITE);
        assert_eq!(KINDS.map(|kind| writable(&kind)), [true, true, false, true]);
    }

    #[test]
    fn what_a_fork_shares_is_copied_before_a_store() {
        for kind in KINDS {
            let before = kind.allowing(Attr::ALL_ACCESS);
            let (private, is_given) = Kind::forked(before, false);
            let is_copied = matches!(kind, Kind::Owned | Kind::CopyOnWrite);
            assert_eq!(Kind::of(private), if is_copied { Kind::CopyOnWrite } else { kind });
            assert_eq!(private.contains(Attr::WRITE), !is_copied);
            assert_eq!(is_given, kind != Kind::Borrowed);
            assert_eq!(Kind::forked(before, true), (before, is_given));
        }
    }
}
