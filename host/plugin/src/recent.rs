//! Which lines of data the caches need not be asked about.
//!
//! An access to the line that was used last in its set of L1D hits, no replacement policy changes its mind by it, and
//! nobody else sees it. So for each set there is the virtual address of that line, if all of this holds:
//!
//! - The core's translation of the page is remembered ([`crate::pages`]). What drops or replaces one clears this table.
//! - The core's last access to the set was to this line; the model caches it, and has not told of a loss since
//!   ([`motet_coherence::Core::losses`]). A store needs that the line has been stored to.
//!
//! Sets are told apart by address bits below the size of a page, so every other access to the set comes by the same place,
//! whatever its virtual address.

use motet_coherence::LINE_SIZE;

/// Sets that are told apart: all that differ within a page.
pub const PLACES: usize = 4096 / LINE_SIZE as usize;

/// The last byte of a line that has been stored to; one less for a line that has only been loaded.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct RecentLines([u64; PLACES]);

/// No line's last byte, nor one less.
const NONE: u64 = 0;

impl RecentLines {
    /// Whether a load from an address, or a store to it, is to a line that is known. `place`: of its set.
    #[inline(always)]
    pub fn has(&self, place: usize, address: u64, store: bool) -> bool {
        let entry = self.0[place % PLACES];
        (if store { entry } else { entry | 1 }) == address | (LINE_SIZE - 1)
    }

    /// A line has been used last in its set.
    #[inline(always)]
    pub fn remember(&mut self, place: usize, address: u64, store: bool) {
        self.0[place % PLACES] = (address | (LINE_SIZE - 1)) - u64::from(!store);
    }

    /// Another line has been used, which is not to be remembered.
    #[inline(always)]
    pub fn forget(&mut self, place: usize) {
        self.0[place % PLACES] = NONE;
    }

    /// Forgets all.
    #[inline(never)]
    pub fn clear(&mut self) {
        self.0.fill(NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_known_for_loads_once_it_was_used_and_for_stores_once_it_was_stored_to() {
        let mut lines = RecentLines([NONE; PLACES]);
        for address in [0, 0x1_0000, 0xffff_ffff_ffff_ffc0] {
            let has = |lines: &RecentLines| [false, true].map(|store| lines.has(3, address + 8, store));
            assert_eq!(has(&lines), [false, false]);
            lines.remember(3, address + 60, false);
            assert_eq!(has(&lines), [true, false]);
            lines.remember(3, address, true);
            assert_eq!(has(&lines), [true, true]);
            assert!(!lines.has(3, address ^ 64, false) && !lines.has(4, address, false));
            lines.forget(3);
            assert_eq!(has(&lines), [false, false]);
        }
        lines.remember(0, 0x1000, true);
        lines.clear();
        assert!(!lines.has(0, 0x1000, false));
    }
}
