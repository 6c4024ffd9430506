//! A set-associative array of tag words in the region, and its replacement policies.
//!
//! A tag word is `line << TAG_SHIFT | state`, zero when invalid. Who may write what: `tags` of a core's L1 and L2 are
//! written by that core and cleared by others as `directory.rs` says; `meta`, `stamps` and `recent` only by whoever
//! owns the array's sets at that moment (the core, or the holder of the directory lock), so they need no atomicity.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::config::{Geometry, Replacement};

/// Bits of a tag word below the line number.
pub(crate) const TAG_SHIFT: u32 = 4;
/// The state bits of a private cache's tag word.
pub(crate) const STATE_MASK: u64 = 3;
/// Others may hold the line too.
pub(crate) const SHARED: u64 = 1;
/// No other core holds it; unmodified here.
pub(crate) const EXCLUSIVE: u64 = 2;
/// No other core holds it; modified here.
pub(crate) const MODIFIED: u64 = 3;

/// The tag word of a line in a state.
pub(crate) const fn tag(line: u64, state: u64) -> u64 {
    line << TAG_SHIFT | state
}

/// Words per set and per line that an array needs, as `(sets * 2, lines * 2)`; `recent` and `meta`, tags and stamps.
pub(crate) const fn words(geometry: &Geometry) -> usize {
    let lines = geometry.sets * geometry.ways;
    geometry.sets * 2 + lines * 2
}

/// A cache's tags and what its replacement policy remembers.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a> {
    pub(crate) mask: u64,
    pub(crate) ways: usize,
    replacement: Replacement,
    /// Per set: the way touched last.
    pub(crate) recent: &'a [AtomicU64],
    /// Per set: LRU clock, PLRU tree, or random generator.
    meta: &'a [AtomicU64],
    pub(crate) tags: &'a [AtomicU64],
    /// Per line, LRU: the set's clock when it was touched.
    stamps: &'a [AtomicU64],
}

impl<'a> Array<'a> {
    /// Takes its words from the front of `rest`. Tags come first: they begin where `rest` does.
    pub(crate) fn take(geometry: &Geometry, rest: &mut &'a [AtomicU64]) -> Self {
        let lines = geometry.sets * geometry.ways;
        let mut cut = |count| {
            let (front, back) = rest.split_at(count);
            *rest = back;
            front
        };
        let (tags, stamps, recent, meta) = (cut(lines), cut(lines), cut(geometry.sets), cut(geometry.sets));
        Self {
            mask: geometry.sets as u64 - 1,
            ways: geometry.ways,
            replacement: geometry.replacement,
            recent,
            meta,
            tags,
            stamps,
        }
    }

    /// Empties it.
    pub(crate) fn reset(&self, seed: u64) {
        for word in self.tags.iter().chain(self.stamps).chain(self.recent) {
            word.store(0, Relaxed);
        }
        for (set, word) in self.meta.iter().enumerate() {
            let start = if self.replacement == Replacement::Random { mix(seed ^ (set as u64) << 20) | 1 } else { 0 };
            word.store(start, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn set(&self, line: u64) -> usize {
        (line & self.mask) as usize
    }

    /// The index of a line's tag word, and the word.
    #[inline]
    pub(crate) fn find(&self, line: u64) -> Option<(usize, u64)> {
        let base = self.set(line) * self.ways;
        let words = &self.tags[base..base + self.ways];
        words.iter().enumerate().find_map(|(way, word)| {
            let word = word.load(Relaxed);
            (word >> TAG_SHIFT == line && word & ((1 << TAG_SHIFT) - 1) != 0).then_some((base + way, word))
        })
    }

    /// Remembers a use of the line at an index.
    #[inline]
    pub(crate) fn touch(&self, line: u64, index: usize) {
        let set = self.set(line);
        let way = index - set * self.ways;
        self.recent[set].store(way as u64, Relaxed);
        match self.replacement {
            Replacement::Lru => {
                let clock = self.meta[set].load(Relaxed) + 1;
                self.meta[set].store(clock, Relaxed);
                self.stamps[index].store(clock, Relaxed);
            }
            Replacement::TreePlru => {
                let bits = point_away(self.meta[set].load(Relaxed), way, self.ways);
                self.meta[set].store(bits, Relaxed);
            }
            Replacement::Random => {}
        }
    }

    /// Where a line would go: an invalid way, or the one the policy gives up. The index, and the word there.
    pub(crate) fn victim(&self, line: u64) -> (usize, u64) {
        let set = self.set(line);
        let base = set * self.ways;
        let words = &self.tags[base..base + self.ways];
        let free = words.iter().position(|word| word.load(Relaxed) == 0);
        let way = free.unwrap_or_else(|| match self.replacement {
            Replacement::Lru => {
                let stamps = &self.stamps[base..base + self.ways];
                (0..self.ways).min_by_key(|&way| stamps[way].load(Relaxed)).unwrap_or(0)
            }
            Replacement::TreePlru => follow(self.meta[set].load(Relaxed), self.ways),
            Replacement::Random => {
                let next = mix(self.meta[set].load(Relaxed));
                self.meta[set].store(next, Relaxed);
                (next % self.ways as u64) as usize
            }
        });
        (base + way, words[way].load(Relaxed))
    }

    /// Clears or changes a line's word while its owner may replace it: `Some(word before)` if the line was there.
    pub(crate) fn change(&self, line: u64, state: impl Fn(u64) -> u64) -> Option<u64> {
        let (index, mut word) = self.find(line)?;
        loop {
            match self.tags[index].compare_exchange(word, state(word), Relaxed, Relaxed) {
                Ok(before) => return Some(before),
                Err(now) if now >> TAG_SHIFT == line && now != 0 => word = now,
                Err(_) => return None,
            }
        }
    }
}

/// Turns the bits on the path to `way` away from it. Node `n` has children `2n + 1` and `2n + 2`; a set bit means right.
fn point_away(mut bits: u64, way: usize, ways: usize) -> u64 {
    let (mut node, mut low, mut size) = (0, 0, ways);
    while size > 1 {
        size /= 2;
        let right = way >= low + size;
        bits = if right { bits & !(1 << node) } else { bits | 1 << node };
        low += if right { size } else { 0 };
        node = 2 * node + 1 + usize::from(right);
    }
    bits
}

/// The way that the bits point at.
fn follow(bits: u64, ways: usize) -> usize {
    let (mut node, mut low, mut size) = (0, 0, ways);
    while size > 1 {
        size /= 2;
        let right = bits >> node & 1 == 1;
        low += if right { size } else { 0 };
        node = 2 * node + 1 + usize::from(right);
    }
    low
}

/// SplitMix64's finaliser on a stepped state (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(words: &[AtomicU64], ways: usize, replacement: Replacement) -> Array<'_> {
        let array = Array::take(&Geometry { sets: 1, ways, replacement, real: true }, &mut &words[..]);
        array.reset(1);
        array
    }

    fn fill(array: &Array<'_>, line: u64) -> u64 {
        let (index, old) = array.victim(line);
        array.tags[index].store(tag(line, SHARED), Relaxed);
        array.touch(line, index);
        old >> TAG_SHIFT
    }

    #[test]
    fn lru_gives_up_the_oldest_use() {
        let words: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
        let array = array(&words, 4, Replacement::Lru);
        (1..=4).for_each(|line| assert_eq!(fill(&array, line), 0));
        array.touch(1, array.find(1).unwrap().0);
        assert_eq!([fill(&array, 5), fill(&array, 6), fill(&array, 7), fill(&array, 8)], [2, 3, 4, 1]);
    }

    #[test]
    fn tree_plru_never_gives_up_the_line_just_used_and_random_repeats_with_its_seed() {
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let plru = array(&words, 8, Replacement::TreePlru);
        (1..=8).for_each(|line| assert_eq!(fill(&plru, line), 0));
        // The tree points left at each node after ways 0..8 were used in order: way 0 first, then its opposite.
        assert_eq!(fill(&plru, 9), 1);
        assert_eq!(fill(&plru, 10), 5);
        for line in 11..100 {
            assert_ne!(fill(&plru, line), line - 1);
        }
        let run = || {
            let random = array(&words, 8, Replacement::Random);
            (1..100).map(|line| fill(&random, line)).collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}
