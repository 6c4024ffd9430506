//! Lines of data for which the model of the caches need not be called.
//!
//! An access to the line that was used last in its set of L1D hits, no replacement policy changes its mind by it, and
//! nobody else sees it. So for each set there is the virtual address of that line, if all of this holds:
//!
//! - The core's translation of the page is remembered ([`crate::pages`]). What drops or replaces one clears this table.
//! - The core's last access to the set was to this line; the model caches it, and has not told of a loss since
//!   ([`motet_coherence::Core::losses`]). For stores, its page must be known for stores, and the copy be modified; one that is
//!   the only copy is made so by a short call of the model.
//!
//! Sets are told apart by address bits below the size of a page, so every other access to the set comes by the same slot,
//! whatever its virtual address.

use motet_coherence::{Held, LINE_SIZE};

/// Sets that are told apart: all that differ within a page.
pub const SLOTS: usize = 4096 / LINE_SIZE as usize;

/// For each set, the last byte of a line that is [`Held::Modified`], in a page that is known for stores; 1 less for
/// [`Held::Only`], and 2 less for a line to which a store is not known to hit, whatever the reason.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct RecentLines([u64; SLOTS]);

/// No line's last byte, nor little less.
const NONE: u64 = 0;
/// Covers all that a line can be held as.
const ANY: u64 = 3;

impl RecentLines {
    /// Whether a load from an address would hit. `slot`: of its set.
    #[inline(always)]
    pub fn has(&self, slot: usize, address: u64) -> bool {
        self.0[slot % SLOTS] | ANY == address | (LINE_SIZE - 1)
    }

    /// Whether an address is in a line that is known for stores, and held so.
    #[inline(always)]
    pub fn has_for_store(&self, slot: usize, address: u64, held: Held) -> bool {
        self.0[slot % SLOTS] == entry(address, held)
    }

    /// A line has been used last in its set. `stored`: its page is known for stores.
    #[inline(always)]
    pub fn remember(&mut self, slot: usize, address: u64, held: Held, stored: bool) {
        self.0[slot % SLOTS] = match held {
            Held::Nothing => NONE,
            Held::Copy | Held::Only | Held::Modified => entry(address, if stored { held } else { Held::Copy }),
        };
    }

    /// Another line has been used, which is not to be remembered.
    #[inline(always)]
    pub fn forget(&mut self, slot: usize) {
        self.0[slot % SLOTS] = NONE;
    }

    /// Forgets the lines of a page of `1 << shift` bytes.
    pub fn forget_page(&mut self, address: u64, shift: u32) {
        for line in self.0.iter_mut().filter(|line| (**line ^ address) >> shift == 0) {
            *line = NONE;
        }
    }

    /// Forgets all.
    #[inline(never)]
    pub fn clear(&mut self) {
        self.0.fill(NONE);
    }
}

#[inline(always)]
const fn entry(address: u64, held: Held) -> u64 {
    (address | (LINE_SIZE - 1)) - (Held::Modified as u64 - held as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_known_for_loads_once_it_was_used_and_for_stores_as_it_is_held_if_its_page_is() {
        let mut lines = RecentLines([NONE; SLOTS]);
        for address in [0, 0x1_0000, 0xffff_ffff_ffff_ffc0] {
            let for_stores = |lines: &RecentLines| {
                [Held::Modified, Held::Only].map(|held| lines.has_for_store(3, address + 8, held))
            };
            assert!(!lines.has(3, address + 8));
            assert_eq!(for_stores(&lines), [false; 2]);
            for (held, stored, known) in [
                (Held::Modified, true, [true, false]),
                (Held::Only, true, [false, true]),
                (Held::Copy, true, [false, false]),
                (Held::Modified, false, [false, false]),
                (Held::Only, false, [false, false]),
            ] {
                lines.remember(3, address + 60, held, stored);
                assert!([0, 8, 63].iter().all(|byte| lines.has(3, address + byte)));
                assert_eq!(for_stores(&lines), known);
                assert!(!lines.has(3, address ^ 64) && !lines.has(4, address));
            }
            lines.remember(3, address, Held::Nothing, true);
            assert!(!lines.has(3, address + 8));
            assert_eq!(for_stores(&lines), [false; 2]);
            lines.remember(3, address, Held::Modified, true);
            lines.forget(3);
            assert!(!lines.has(3, address + 8));
        }
        for (slot, address) in [(0, 0x1000), (1, 0x1fc0), (2, 0x2080)] {
            lines.remember(slot, address, Held::Modified, true);
        }
        lines.forget_page(0x1000, 12);
        assert_eq!([(0, 0x1000), (1, 0x1fc0), (2, 0x2080)].map(|(slot, at)| lines.has(slot, at)), [false, false, true]);
        lines.remember(0, 0x1000, Held::Modified, true);
        lines.clear();
        assert!(!lines.has(0, 0x1000));
    }
}
