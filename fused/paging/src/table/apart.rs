//! Taking page tables out of their tree, and taking a whole tree apart.

use core::ops::Range;

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{Frame, PAGE_SIZE, PoolAddr};

use super::{Leaf, Table, index, next, skip_empty, span};
use crate::format::{Encoding, with_encoding};
use crate::{ENTRIES, LEVELS, Stage, Unused, Withdrawal};

impl<S: Stage> Table<'_, S> {
    /// Takes tables that `range` (page-aligned) no longer needs out of the tree, with the pages that they map: a table
    /// that lies wholly in `range`, and one that maps nothing outside of it. The root stays. Pages of other tables stay mapped.
    /// `0..u64::MAX` takes all.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn unlink(&self, range: Range<u64>, withdrawal: &mut impl Withdrawal) {
        with_encoding!(S, self.format, F => {
            let range = range.start..range.end.min(F::END);
            let mut va = range.start;
            while va < range.end {
                let base = va & !(F::ROOT_SPAN - 1);
                self.unlink_below::<F>(self.root_table::<F>(va), F::ROOT_LEVEL, base, &range, withdrawal);
                va = base + F::ROOT_SPAN;
            }
        });
    }

    /// Takes all tables apart, the root too, whatever they map: `page` is called for the pages, then `table` for what held
    /// them, the pages of the root last. `ranges` gives the addresses where pages have been mapped, in ascending order; only what lies there
    /// is visited, and once.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn dismantle(
        &self,
        ranges: impl Iterator<Item = Range<u64>>,
        _unused: &impl Unused,
        page: impl FnMut(Leaf),
        table: impl FnMut(Frame),
    ) {
        with_encoding!(S, self.format, F => self.dismantle_ranges::<F>(ranges, page, table));
    }

    /// Calls `each` for the pages of a table of pages that [`unlink`](Self::unlink) took out of this tree.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn visit_unlinked(&self, table: Frame, mut each: impl FnMut(Leaf)) {
        with_encoding!(S, self.format, F => for slot in self.page(table.addr()) {
            if let Some(leaf) = self.decode::<F>(slot.load(Ordering::Relaxed)) {
                each(leaf);
            }
        });
    }

    /// Does what [`dismantle`](Self::dismantle) says. Tables are done with as soon as the addresses are past what they translate.
    #[inline(always)]
    fn dismantle_ranges<F: Encoding>(
        &self,
        ranges: impl Iterator<Item = Range<u64>>,
        mut page: impl FnMut(Leaf),
        mut table: impl FnMut(Frame),
    ) {
        // The tables on the way to `va`, by level, down to `level`.
        const { assert!(F::LEVELS <= LEVELS) };
        let mut way = [self.root.addr(); LEVELS as usize];
        let (mut level, mut va) = (F::ROOT_LEVEL, 0);
        for range in ranges {
            let end = range.end.min(F::END);
            let mut start = range.start;
            while start < end {
                while level < F::ROOT_LEVEL && va / span(level + 1) != start / span(level + 1) {
                    table(way[level as usize].frame());
                    level += 1;
                }
                va = start;
                if level == F::ROOT_LEVEL {
                    way[level as usize] = self.root_table::<F>(va);
                }
                while level > 0
                    && let Some(below) = self.next_table::<F>(&self.page(way[level as usize])[index(va, level)], level)
                {
                    level -= 1;
                    way[level as usize] = below;
                }
                let words = self.page(way[level as usize]);
                if level == 0 {
                    start = next(va, 1).min(end);
                    self.each_slot_of_page::<F>(words, va..start, &mut |_, _, leaf| page(leaf));
                } else {
                    start = skip_empty(words, level, va, end);
                }
            }
        }
        way[level as usize..F::ROOT_LEVEL as usize].iter().for_each(|at| table(at.frame()));
        (0..F::ROOT_TABLES).rev().for_each(|n| table(self.root_table::<F>(n * F::ROOT_SPAN).frame()));
    }

    /// Takes the table `child`, which the entry `slot` at `level` names, out of the tree.
    #[inline(always)]
    fn take_out(&self, slot: &AtomicU64, child: PoolAddr, level: u8, withdrawal: &mut impl Withdrawal) {
        slot.store(0, Ordering::Release);
        withdrawal.narrowed();
        withdrawal.take_table(child.frame(), level == 1 && withdrawal.home() == self.root);
    }

    /// Does what [`unlink`](Self::unlink) says below the table at `table`, whose first entry translates `base`.
    fn unlink_below<F: Encoding>(
        &self,
        table: PoolAddr,
        level: u8,
        base: u64,
        range: &Range<u64>,
        withdrawal: &mut impl Withdrawal,
    ) {
        let page = self.page(table);
        let (first, last) = (range.start.max(base), range.end.min(base + span(level) * ENTRIES as u64));
        let mut va = first & !(span(level) - 1);
        while va < last {
            let slot = &page[index(va, level)];
            if slot.load(Ordering::Relaxed) == 0 {
                va += span(level);
                continue;
            }
            if let Some(child) = self.next_table::<F>(slot, level) {
                let needed = if level > 1 {
                    self.unlink_below::<F>(child, level - 1, va, range, withdrawal);
                    !is_empty(self.page(child))
                } else {
                    self.maps_outside(child, va, range)
                };
                if !needed {
                    self.take_out(slot, child, level, withdrawal);
                }
            }
            va += span(level);
        }
    }

    /// Whether the table of pages at `table`, which translates addresses from `base` on, maps any that are not in `range`.
    fn maps_outside(&self, table: PoolAddr, base: u64, range: &Range<u64>) -> bool {
        let entry = |va: u64| (va.clamp(base, base + span(1)) - base) as usize / PAGE_SIZE as usize;
        let (below, above) = self.page(table).split_at(entry(range.end));
        let (below, _) = below.split_at(entry(range.start).min(below.len()));
        !(is_empty(below) && is_empty(above))
    }
}

/// Whether no entry is used. By eight at once: whole tables are looked through here.
fn is_empty(slots: &[AtomicU64]) -> bool {
    let is_any_used = |slots: &[AtomicU64]| slots.iter().fold(0, |bits, slot| bits | slot.load(Ordering::Relaxed)) != 0;
    !slots.chunks(8).any(is_any_used)
}
