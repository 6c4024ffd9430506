//! Harts and sets of harts, as the firmware names them.

use rustsbi::HartMask;

/// Harts have ids below this: as many as a word has bits.
pub const HARTS_MAX: usize = 64;

/// A hart, by the id that hardware gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HartId(u8);

impl HartId {
    /// The hart with this id, if the firmware can serve it.
    pub const fn new(id: usize) -> Option<Self> {
        if id < HARTS_MAX { Some(Self(id as u8)) } else { None }
    }

    /// Its id, below [`HARTS_MAX`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of harts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct HartSet(pub u64);

impl HartSet {
    /// The set with `hart` added.
    #[must_use]
    pub const fn with(self, hart: HartId) -> Self {
        Self(self.0 | 1 << hart.0)
    }

    /// The set without `hart`.
    #[must_use]
    pub const fn without(self, hart: HartId) -> Self {
        Self(self.0 & !(1 << hart.0))
    }

    /// Whether `hart` is in it.
    pub const fn contains(self, hart: HartId) -> bool {
        self.0 >> hart.0 & 1 != 0
    }

    /// Its harts, in the order of their ids.
    pub fn iter(self) -> impl Iterator<Item = HartId> {
        motet_layout::ones(self.0).filter_map(HartId::new)
    }

    /// The harts that a caller of the SBI names; `None` if one of them is not in this set.
    pub fn select(self, mask: HartMask) -> Option<Self> {
        let (bits, base) = mask.into_inner();
        if base == usize::MAX {
            return Some(self);
        }
        let mut selected = Self::default();
        for bit in (0..usize::BITS).filter(|bit| bits >> bit & 1 != 0) {
            let hart = HartId::new(base.checked_add(bit as usize)?).filter(|hart| self.contains(*hart))?;
            selected = selected.with(hart);
        }
        Some(selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(bits: usize, base: usize) -> Option<u64> {
        HartSet(0b1011).select(HartMask::from_mask_base(bits, base)).map(|set| set.0)
    }

    #[test]
    fn masks_name_present_harts_from_their_base() {
        assert_eq!(select(0b11, 0), Some(0b11));
        assert_eq!(select(0b101, 1), Some(0b1010));
        assert_eq!(select(0, 5), Some(0));
        assert_eq!(select(0b100, usize::MAX), Some(0b1011), "the base that means all harts");
    }

    #[test]
    fn masks_with_an_absent_hart_are_refused() {
        assert_eq!(select(0b100, 0), None);
        assert_eq!(select(1, 64), None);
        assert_eq!(select(1, usize::MAX - 1), None);
        assert_eq!(select(0b110, usize::MAX - 1), None, "ids do not wrap around");
        assert_eq!(select(1 << 63, 1), None);
    }

    #[test]
    fn sets_gain_and_lose_harts() {
        let hart = HartId::new(63).unwrap();
        let set = HartSet(1).with(hart);
        assert!(set.contains(hart) && set.iter().map(HartId::index).eq([0, 63]));
        assert_eq!(set.without(hart), HartSet(1));
        assert_eq!(HartId::new(64), None);
    }
}
