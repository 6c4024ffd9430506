//! A set-associative array of lines in the region.
//!
//! Of each set there is a *head*, one host cache line that says which way was used last, what the replacement policy
//! remembers, and a byte of hash (a *print*) for each way: a line that is absent is known to be so from the head alone.
//! Of each line there is a *slot*: its tag word and its link, which in a core's caches is the line's index in the next
//! level (inclusion keeps it true), and in an L3 the set of cores that hold the line.
//!
//! A tag word is `line << TAG_SHIFT | flags`, zero when invalid. Tag words of a core's L1 and L2 are written by that
//! core and cleared by others as `directory.rs` says. Heads, but for `HOLES`, are written only by whoever owns the
//! array's sets at that moment (the core, or the holder of the directory lock), so they need no atomicity; a print may
//! outlive its line.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed, Release},
};

use crate::config::Geometry;
use crate::order::{self, Order};

/// Bits of a tag word below the line number.
pub(crate) const TAG_SHIFT: u32 = 4;
/// All bits of a tag word below the line number.
pub(crate) const FLAGS: u64 = (1 << TAG_SHIFT) - 1;
/// The state bits of a private cache's tag word.
pub(crate) const STATE_MASK: u64 = 3;
/// Others may hold the line too.
pub(crate) const SHARED: u64 = 1;
/// No other core holds it; unmodified here.
pub(crate) const EXCLUSIVE: u64 = 2;
/// No other core holds it; modified here.
pub(crate) const MODIFIED: u64 = 3;

/// Words of a head, and where in it is what.
const HEAD_WORDS: usize = 8;
/// The order of use, or the way used last ([`Order`]).
const USED: usize = 0;
/// What the policy remembers besides.
const MEMORY: usize = 1;
/// Not 0 if there may be an invalid way: who makes one says so.
const HOLES: usize = 2;
/// A lock, for who needs one per set.
const LOCK: usize = 3;
/// Prints of eight ways each; ways beyond them are found by looking at tags.
const PRINTS: usize = 4;
const PRINTED_WAYS: usize = (HEAD_WORDS - PRINTS) * 8;

type Head = [AtomicU64; HEAD_WORDS];
type Slot = [AtomicU64; 2];

/// A 1 in each byte.
const BYTES: u64 = 0x0101_0101_0101_0101;

/// A line to be looked for: its number, and its print in each byte of a word. The same in every array.
#[derive(Clone, Copy)]
pub(crate) struct Probe {
    pub(crate) line: u64,
    prints: u64,
}

impl Probe {
    #[inline(always)]
    pub(crate) fn new(line: u64) -> Self {
        // Fibonacci hashing (Knuth, volume 3, section 6.4): lines of one set at equal distances differ.
        Self { line, prints: (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) * BYTES }
    }

    /// The tag word of the line with these flags.
    #[inline(always)]
    pub(crate) const fn tag(self, flags: u64) -> u64 {
        self.line << TAG_SHIFT | flags
    }

    /// Whether a tag word is the line's, and valid.
    #[inline(always)]
    pub(crate) const fn is(self, word: u64) -> bool {
        (word ^ self.tag(0)).wrapping_sub(1) < FLAGS
    }
}

/// Words that an array needs, whole host lines.
pub(crate) const fn words(geometry: &Geometry) -> usize {
    let lines = geometry.sets * geometry.ways;
    let stamps = if matches!(Order::of(geometry), Order::Stamps) { lines } else { 0 };
    geometry.sets * HEAD_WORDS + (lines * 2 + stamps).next_multiple_of(8)
}

/// A cache's lines and what its replacement policy remembers.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a> {
    mask: u64,
    ways: usize,
    order: Order,
    /// Words of prints in use; 0 if the set is too wide for prints.
    print_words: usize,
    heads: &'a [Head],
    slots: &'a [Slot],
    /// Per line, with [`Order::Stamps`]: the set's clock when it was touched.
    stamps: &'a [AtomicU64],
}

impl<'a> Array<'a> {
    /// Takes its words from the front of `rest`.
    pub(crate) fn take(geometry: &Geometry, rest: &mut &'a [AtomicU64]) -> Self {
        let lines = geometry.sets * geometry.ways;
        let (words, after) = rest.split_at(words(geometry));
        *rest = after;
        let (heads, lines_words) = words.split_at(geometry.sets * HEAD_WORDS);
        let (slots, stamps) = lines_words.split_at(lines * 2);
        Self {
            mask: geometry.sets as u64 - 1,
            ways: geometry.ways,
            order: Order::of(geometry),
            print_words: if geometry.ways <= PRINTED_WAYS { geometry.ways.div_ceil(8) } else { 0 },
            heads: heads.as_chunks().0,
            slots: slots.as_chunks().0,
            stamps,
        }
    }

    /// Empties it.
    pub(crate) fn reset(&self, seed: u64) {
        for word in self.heads.as_flattened().iter().chain(self.slots.as_flattened()).chain(self.stamps) {
            word.store(0, Relaxed);
        }
        for (set, head) in self.heads.iter().enumerate() {
            let (used, memory) = self.order.start(seed ^ (set as u64) << 20);
            head[USED].store(used, Relaxed);
            head[MEMORY].store(memory, Relaxed);
            head[HOLES].store(1, Relaxed);
        }
    }

    /// Number of sets.
    pub(crate) fn sets(&self) -> u64 {
        self.mask + 1
    }

    #[inline(always)]
    pub(crate) fn set(&self, line: u64) -> usize {
        (line & self.mask) as usize
    }

    #[inline(always)]
    fn head(&self, line: u64) -> &'a Head {
        &self.heads[self.set(line)]
    }

    /// The lock of a line's set.
    #[inline(always)]
    pub(crate) fn lock(&self, line: u64) -> &'a AtomicU64 {
        &self.head(line)[LOCK]
    }

    /// The tag word that was used last in a line's set.
    #[inline(always)]
    pub(crate) fn recent(&self, line: u64) -> u64 {
        let set = self.set(line);
        let way = self.order.last_used(self.heads[set][USED].load(Relaxed));
        self.word(set * self.ways + way)
    }

    /// The tag word at an index.
    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.slots[index][0].load(Relaxed)
    }

    /// Changes the flags of the line at an index.
    #[inline(always)]
    pub(crate) fn set_word(&self, index: usize, word: u64) {
        self.slots[index][0].store(word, Relaxed);
    }

    /// The link at an index.
    #[inline(always)]
    pub(crate) fn link(&self, index: usize) -> u64 {
        self.slots[index][1].load(Relaxed)
    }

    /// Changes the link at an index.
    #[inline(always)]
    pub(crate) fn set_link(&self, index: usize, link: u64) {
        self.slots[index][1].store(link, Relaxed);
    }

    /// The index of a line, and its tag word.
    #[inline(always)]
    pub(crate) fn find(&self, probe: Probe) -> Option<(usize, u64)> {
        let set = self.set(probe.line);
        let base = set * self.ways;
        if self.print_words == 0 {
            return self.find_by_tags(probe, base);
        }
        let mut hits = 0;
        for (number, prints) in self.heads[set][PRINTS..PRINTS + self.print_words].iter().enumerate() {
            let differ = prints.load(Relaxed) ^ probe.prints;
            // The top bit of each byte that is 0 (and of some above one; tags decide).
            hits |= (differ.wrapping_sub(BYTES) & !differ & BYTES << 7) >> (7 - number);
        }
        while hits != 0 {
            let bit = hits.trailing_zeros() as usize;
            let index = base + (bit & 7) * 8 + bit / 8;
            // Prints of ways that do not exist may match, too.
            let word = self.slots.get(index).map_or(0, |slot| slot[0].load(Relaxed));
            if probe.is(word) {
                return Some((index, word));
            }
            hits &= hits - 1;
        }
        None
    }

    #[cold]
    fn find_by_tags(&self, probe: Probe, base: usize) -> Option<(usize, u64)> {
        let words = self.slots[base..base + self.ways].iter().map(|slot| slot[0].load(Relaxed));
        words.enumerate().find(|(_, word)| probe.is(*word)).map(|(way, word)| (base + way, word))
    }

    /// Remembers a use of the line at an index; false if that changes nothing.
    #[inline(always)]
    pub(crate) fn touch(&self, line: u64, index: usize) -> bool {
        let set = self.set(line);
        let (head, way) = (&self.heads[set], index - set * self.ways);
        let used = head[USED].load(Relaxed);
        if self.order.last_used(used) == way && self.order != Order::Tree {
            return false;
        }
        head[USED].store(self.order.used(used, way), Relaxed);
        match self.order {
            Order::Packed | Order::Random | Order::None => {}
            Order::Stamps => {
                let clock = head[MEMORY].load(Relaxed) + 1;
                head[MEMORY].store(clock, Relaxed);
                self.stamps[index].store(clock, Relaxed);
            }
            Order::Tree => {
                head[MEMORY].store(order::point_away(head[MEMORY].load(Relaxed), way, self.ways), Relaxed);
            }
        }
        true
    }

    /// Where a line would go: an invalid way, or the one the policy gives up. The index, and the word there.
    #[inline(always)]
    pub(crate) fn victim(&self, line: u64) -> (usize, u64) {
        let set = self.set(line);
        let head = &self.heads[set];
        let hole = if head[HOLES].load(Relaxed) == 0 { None } else { self.hole(set) };
        let way = hole.unwrap_or_else(|| match self.order {
            Order::Packed => order::last_of(head[USED].load(Relaxed), self.ways),
            Order::Stamps => {
                let stamps = &self.stamps[set * self.ways..][..self.ways];
                (0..self.ways).min_by_key(|&way| stamps[way].load(Relaxed)).unwrap_or(0)
            }
            Order::Tree => order::follow(head[MEMORY].load(Relaxed), self.ways),
            Order::Random => {
                let next = order::mix(head[MEMORY].load(Relaxed));
                head[MEMORY].store(next, Relaxed);
                (next % self.ways as u64) as usize
            }
            Order::None => 0,
        });
        let index = set * self.ways + way;
        (index, self.word(index))
    }

    /// The first invalid way of a set. If there is none, that is remembered, unless another core makes one meanwhile.
    #[cold]
    fn hole(&self, set: usize) -> Option<usize> {
        let slots = &self.slots[set * self.ways..][..self.ways];
        let look = || slots.iter().position(|slot| slot[0].load(Relaxed) == 0);
        look().or_else(|| {
            self.heads[set][HOLES].swap(0, AcqRel);
            let late = look();
            if late.is_some() {
                self.heads[set][HOLES].store(1, Relaxed);
            }
            late
        })
    }

    /// Puts a line at an index, in place of what is there.
    #[inline(always)]
    pub(crate) fn place(&self, probe: Probe, index: usize, flags: u64, link: u64) {
        let set = self.set(probe.line);
        let way = index - set * self.ways;
        if let Some(prints) = self.heads[set][PRINTS..].get(way / 8).filter(|_| self.print_words != 0) {
            let byte = 0xff << (way % 8 * 8);
            prints.store(prints.load(Relaxed) & !byte | probe.prints & byte, Relaxed);
        }
        self.set_link(index, link);
        self.set_word(index, probe.tag(flags));
    }

    /// Makes the way at an index invalid.
    #[inline]
    pub(crate) fn clear(&self, line: u64, index: usize) {
        self.set_word(index, 0);
        self.head(line)[HOLES].store(1, Release);
    }

    /// Gives a line another state, or takes it away (`state` 0): the word before, if the line was there. `racing`: the
    /// array's owner may replace the line meanwhile, and has then lost it before.
    #[inline]
    pub(crate) fn change(&self, probe: Probe, state: u64, racing: bool) -> Option<u64> {
        let (index, word) = self.find(probe)?;
        crate::model::window();
        let after = if state == 0 { 0 } else { word & !STATE_MASK | state };
        if racing {
            self.slots[index][0].compare_exchange(word, after, Relaxed, Relaxed).ok()?;
        } else {
            self.set_word(index, after);
        }
        if state == 0 {
            self.head(probe.line)[HOLES].store(1, Release);
        }
        Some(word)
    }

    /// All valid lines: index and tag word.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, u64)> {
        self.slots.iter().map(|slot| slot[0].load(Relaxed)).enumerate().filter(|(_, word)| *word != 0)
    }

    /// Whether an index is in a line's set.
    pub(crate) fn is_in_set(&self, line: u64, index: usize) -> bool {
        self.set(line) == index / self.ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Replacement;

    /// An array of one set.
    fn with_array<R>(ways: usize, replacement: Replacement, test: impl FnOnce(&Array<'_>) -> R) -> R {
        let geometry = Geometry { sets: 1, ways, replacement, real: true };
        let region: Vec<AtomicU64> = (0..words(&geometry)).map(|_| AtomicU64::new(0)).collect();
        let array = Array::take(&geometry, &mut &region[..]);
        array.reset(1);
        test(&array)
    }

    fn fill(array: &Array<'_>, line: u64) -> u64 {
        let (index, old) = array.victim(line);
        array.place(Probe::new(line), index, SHARED, 0);
        array.touch(line, index);
        old >> TAG_SHIFT
    }

    #[test]
    fn lru_gives_up_the_oldest_use_whatever_the_number_of_ways() {
        for ways in (1..=40).chain([64, 200]) {
            with_array(ways, Replacement::Lru, |array| {
                // In order of use, oldest first.
                let mut lines: Vec<u64> = (1..=ways as u64).collect();
                lines.iter().for_each(|&line| assert_eq!(fill(array, line), 0));
                for step in 0..1000 {
                    let used = lines.remove(step * 7919 % ways);
                    let (index, _) = array.find(Probe::new(used)).unwrap();
                    array.touch(used, index);
                    lines.push(used);
                    let new = 1000 + step as u64;
                    let oldest = lines.remove(0);
                    assert_eq!(fill(array, new), oldest, "{ways} ways, step {step}");
                    assert!(array.find(Probe::new(oldest)).is_none());
                    lines.push(new);
                }
                assert!(
                    lines
                        .iter()
                        .all(|&line| array.find(Probe::new(line)).is_some_and(|(_, word)| word == line << 4 | 1))
                );
            });
        }
    }

    #[test]
    fn an_invalid_way_is_used_first_and_lines_with_the_same_print_are_told_apart() {
        let print = |line| Probe::new(line).prints;
        let twins: Vec<u64> = (1..).filter(|&line| print(line) == print(1)).take(8).collect();
        for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Random] {
            with_array(8, replacement, |array| {
                twins.iter().for_each(|&line| assert_eq!(fill(array, line), 0));
                for &line in &twins {
                    let (index, word) = array.find(Probe::new(line)).unwrap();
                    assert_eq!(word >> TAG_SHIFT, line);
                    array.clear(line, index);
                    assert!(array.find(Probe::new(line)).is_none());
                    assert_eq!(fill(array, line), 0);
                }
            });
        }
    }

    #[test]
    fn tree_plru_never_gives_up_the_line_just_used_and_random_repeats_with_its_seed() {
        with_array(8, Replacement::TreePlru, |plru| {
            (1..=8).for_each(|line| assert_eq!(fill(plru, line), 0));
            // The tree points left at each node after ways 0..8 were used in order: way 0 first, then its opposite.
            assert_eq!(fill(plru, 9), 1);
            assert_eq!(fill(plru, 10), 5);
            for line in 11..100 {
                assert_ne!(fill(plru, line), line - 1);
            }
        });
        let run =
            || with_array(8, Replacement::Random, |random| (1..100).map(|line| fill(random, line)).collect::<Vec<_>>());
        assert_eq!(run(), run());
    }
}
