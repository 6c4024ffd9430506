//! A set: finding a line, remembering uses, and replacing one line by another. What its words are is said above it.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed, Release},
};

use super::{Array, BYTES, HEAD_WORDS, HOLES, LOCK, MEMORY, PRINTS, Probe, SLOT_WORDS, STATE_MASK, TAG_SHIFT, USED};
use crate::order::{self, Order};

/// A set of an array.
#[derive(Clone, Copy)]
pub(crate) struct Set<'s, 'a> {
    pub(super) array: &'s Array<'a>,
    pub(super) row: &'a [AtomicU64],
    /// Index of the first line.
    pub(super) base: usize,
    /// The array's order is [`Order::Packed`].
    pub(super) packed: bool,
    /// It may have more than one word of prints.
    pub(super) wide: bool,
}

/// Where a line was put, and what was there.
#[derive(Clone, Copy)]
pub(crate) struct Replaced {
    pub(crate) index: usize,
    pub(crate) word: u64,
    /// 0 if it was said not to matter.
    pub(crate) link: u64,
    /// Of the line that was there, if there was one.
    print: u64,
}

/// The line of a packed set that goes first.
#[derive(Clone, Copy)]
pub(crate) struct Oldest {
    pub(crate) way: usize,
    pub(crate) word: u64,
    /// The set's order, and the word of prints that has this way's, both as they are before it goes.
    used: u64,
    prints: u64,
}

impl Oldest {
    /// The line.
    #[inline(always)]
    pub(crate) fn probe(self) -> Probe {
        Probe { line: self.word >> TAG_SHIFT, prints: self.print() * BYTES }
    }

    #[inline(always)]
    fn print(self) -> u64 {
        self.prints >> (self.way % 8 * 8) & 0xff
    }
}

impl Replaced {
    /// The line that was there.
    #[inline(always)]
    pub(crate) fn probe(&self) -> Probe {
        Probe { line: self.word >> TAG_SHIFT, prints: self.print * BYTES }
    }
}

/// A word of prints with a line's print for a way.
#[inline(always)]
const fn with_print(prints: u64, way: usize, probe: Probe) -> u64 {
    prints ^ (prints ^ probe.prints) & 0xff << (way % 8 * 8)
}

impl<'s, 'a> Set<'s, 'a> {
    /// The same, to be used without asking whether there is more than one word of prints.
    #[inline(always)]
    pub(crate) fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    /// The same; `narrow`: there is known to be one word of prints.
    #[inline(always)]
    pub(crate) fn narrow(self, narrow: bool) -> Self {
        Self { wide: self.wide && !narrow, ..self }
    }

    /// The set's lock.
    #[inline(always)]
    pub(crate) fn lock(self) -> &'a AtomicU64 {
        &self.row[LOCK]
    }

    /// The link at an index.
    #[inline(always)]
    pub(crate) fn link(self, index: usize) -> u64 {
        self.link_word(self.way(index)).load(Relaxed)
    }

    /// The tag word at an index.
    #[inline(always)]
    pub(crate) fn word(self, index: usize) -> u64 {
        self.tag(self.way(index)).load(Relaxed)
    }

    /// The link of the line that goes first.
    #[inline(always)]
    pub(crate) fn link_of(self, old: Oldest) -> u64 {
        self.link_word(old.way).load(Relaxed)
    }

    /// Changes the tag word at an index.
    #[inline(always)]
    pub(crate) fn set_word(self, index: usize, word: u64) {
        self.tag(self.way(index)).store(word, Relaxed);
    }

    /// Changes the link at an index.
    #[inline(always)]
    pub(crate) fn set_link(self, index: usize, link: u64) {
        self.link_word(self.way(index)).store(link, Relaxed);
    }

    #[inline(always)]
    fn link_word(self, way: usize) -> &'a AtomicU64 {
        &self.row[HEAD_WORDS + way * SLOT_WORDS + 1]
    }

    /// The tag word of a way.
    #[inline(always)]
    fn tag(self, way: usize) -> &'a AtomicU64 {
        &self.row[HEAD_WORDS + way * SLOT_WORDS]
    }

    /// The index of a way.
    #[inline(always)]
    pub(crate) fn index(self, way: usize) -> usize {
        self.base + way * SLOT_WORDS
    }

    /// The way of an index.
    #[inline(always)]
    fn way(self, index: usize) -> usize {
        (index - self.base) / SLOT_WORDS
    }

    /// The line that was used last: its index and tag word.
    #[inline(always)]
    pub(crate) fn recent(self) -> (usize, u64) {
        let used = self.row[USED].load(Relaxed);
        let way = if self.packed { order::first_of(used) } else { used } as usize;
        (self.index(way), self.tag(way).load(Relaxed))
    }

    /// The index of a line, and its tag word.
    #[inline(always)]
    pub(crate) fn find(self, probe: Probe) -> Option<(usize, u64)> {
        if !self.packed {
            return self.find_unpacked(probe);
        }
        let [first, second] = self.packed_matches(probe);
        if first | second == 0 {
            return None;
        }
        let mut hits = first >> 7 | second >> 6;
        while hits != 0 {
            let bit = hits.trailing_zeros() as usize;
            // Which of the two words of prints, and which byte.
            let way = (bit & 1) * 8 + (bit / 8 & 7);
            let word = self.tag(way).load(Relaxed);
            if probe.is(word) {
                return Some((self.index(way), word));
            }
            hits &= hits - 1;
        }
        None
    }

    #[inline(never)]
    fn find_unpacked(self, probe: Probe) -> Option<(usize, u64)> {
        let is_there = |way: usize| {
            let word = self.tag(way).load(Relaxed);
            probe.is(word).then(|| (self.index(way), word))
        };
        if self.array.print_words == 0 {
            return (0..self.array.ways).find_map(is_there);
        }
        let words = 0..self.array.print_words;
        let mut hits = words.fold(0, |hits, number| hits | self.matches(probe, number) >> (7 - number));
        while hits != 0 {
            let bit = hits.trailing_zeros() as usize;
            let way = (bit & 7) * 8 + bit / 8;
            if let Some(found) = (way < self.array.ways).then(|| is_there(way)).flatten() {
                return Some(found);
            }
            hits &= hits - 1;
        }
        None
    }

    /// Whether the prints allow that a line is here.
    #[inline(always)]
    pub(crate) fn may_have(self, probe: Probe) -> bool {
        !self.packed || self.packed_matches(probe) != [0, 0]
    }

    /// [`Set::matches`] of both words of prints of a packed set. Ways that do not exist have no line's print.
    #[inline(always)]
    fn packed_matches(self, probe: Probe) -> [u64; 2] {
        [self.matches(probe, 0), if self.wide { self.matches(probe, 1) } else { 0 }]
    }

    /// The top bit of each byte: whether that byte of a word of prints is the line's. Sometimes set above one that is.
    #[inline(always)]
    fn matches(self, probe: Probe, number: usize) -> u64 {
        let differ = self.row[PRINTS + number].load(Relaxed) ^ probe.prints;
        differ.wrapping_sub(BYTES) & !differ & BYTES << 7
    }

    /// Remembers a use of the line at an index.
    #[inline(always)]
    pub(crate) fn touch(self, index: usize) {
        let way = self.way(index);
        if !self.packed {
            return self.touch_unpacked(way);
        }
        let used = self.row[USED].load(Relaxed);
        if order::first_of(used) != way as u64 {
            self.row[USED].store(order::to_front(used, way as u64), Relaxed);
        }
    }

    #[inline(never)]
    fn touch_unpacked(self, way: usize) {
        self.row[USED].store(way as u64, Relaxed);
        let (memory, ways) = (&self.row[MEMORY], self.array.ways);
        match self.array.order {
            Order::Packed | Order::Random | Order::None => {}
            Order::Stamps => {
                let clock = memory.load(Relaxed) + 1;
                memory.store(clock, Relaxed);
                self.stamps()[way].store(clock, Relaxed);
            }
            Order::Tree => memory.store(order::point_away(memory.load(Relaxed), way, ways), Relaxed),
        }
    }

    /// Of each way, with [`Order::Stamps`]: the set's clock when it was touched.
    fn stamps(self) -> &'a [AtomicU64] {
        &self.row[HEAD_WORDS + self.array.ways * SLOT_WORDS..][..self.array.ways]
    }

    /// An invalid way, or the one the policy gives up.
    fn victim(self) -> usize {
        if !self.is_full()
            && let Some(way) = self.hole()
        {
            return way;
        }
        let (memory, ways) = (&self.row[MEMORY], self.array.ways);
        match self.array.order {
            Order::Packed => order::last_of(self.row[USED].load(Relaxed), self.array.last_place),
            Order::Stamps => {
                let stamps = self.stamps();
                (0..stamps.len()).min_by_key(|&way| stamps[way].load(Relaxed)).unwrap_or(0)
            }
            Order::Tree => order::follow(memory.load(Relaxed), ways),
            Order::Random => {
                let next = order::mix(memory.load(Relaxed));
                memory.store(next, Relaxed);
                (next % ways as u64) as usize
            }
            Order::None => 0,
        }
    }

    /// The first invalid way. If there is none, that is remembered, unless another core makes one meanwhile.
    fn hole(self) -> Option<usize> {
        let look = || (0..self.array.ways).find(|&way| self.tag(way).load(Relaxed) == 0);
        look().or_else(|| {
            self.row[HOLES].swap(0, AcqRel);
            let late = look();
            if late.is_some() {
                self.row[HOLES].store(1, Relaxed);
            }
            late
        })
    }

    /// Puts a line that is not here into an invalid way, or in place of the line that the policy gives up, and remembers its
    /// use. `old_matters`: the old line's link is asked for.
    #[inline(always)]
    pub(crate) fn insert(self, probe: Probe, flags: u64, link: u64, old_matters: bool) -> Replaced {
        if !self.packed {
            let way = self.array.make_room(probe);
            return self.put_word(probe, way, flags, link, old_matters);
        }
        if !self.is_full() {
            let way = self.array.make_room(probe) % order::PACKED_WAYS;
            return self.put_word(probe, way, flags, link, old_matters);
        }
        let old = self.oldest();
        let was = if old_matters { self.link_word(old.way).load(Relaxed) } else { 0 };
        self.replace(old, probe, flags, link);
        Replaced { index: self.index(old.way), word: old.word, link: was, print: old.print() }
    }

    /// Whether there is known to be no invalid way.
    #[inline(always)]
    pub(crate) fn is_full(self) -> bool {
        self.row[HOLES].load(Relaxed) == 0
    }

    /// The line of a full packed set that goes first.
    #[inline(always)]
    pub(crate) fn oldest(self) -> Oldest {
        let used = self.row[USED].load(Relaxed);
        let way = order::last_of(used, self.array.last_place);
        Oldest { way, word: self.tag(way).load(Relaxed), used, prints: self.prints_of(way).load(Relaxed) }
    }

    /// Puts a line that is not here in the place of the one that goes first, and remembers its use.
    #[inline(always)]
    pub(crate) fn replace(self, old: Oldest, probe: Probe, flags: u64, link: u64) {
        self.row[USED].store(order::last_to_front(old.used, self.array.last_place), Relaxed);
        self.prints_of(old.way).store(with_print(old.prints, old.way, probe), Relaxed);
        crate::model::window();
        self.link_word(old.way).store(link, Relaxed);
        self.tag(old.way).store(probe.tag(flags), Relaxed);
    }

    /// The word of prints that has a way's.
    #[inline(always)]
    fn prints_of(self, way: usize) -> &'a AtomicU64 {
        &self.row[PRINTS + if self.wide { way / 8 } else { 0 }]
    }

    #[inline(always)]
    fn put_word(self, probe: Probe, way: usize, flags: u64, link: u64, old_matters: bool) -> Replaced {
        let (tag, old_link) = (self.tag(way), self.link_word(way));
        let word = tag.load(Relaxed);
        let print = Probe::new(word >> TAG_SHIFT).prints & 0xff;
        let was = if old_matters { old_link.load(Relaxed) } else { 0 };
        let replaced = Replaced { index: self.index(way), word, link: was, print };
        crate::model::window();
        old_link.store(link, Relaxed);
        tag.store(probe.tag(flags), Relaxed);
        replaced
    }

    #[inline]
    fn print(self, probe: Probe, way: usize) {
        if way < self.array.print_words * 8 {
            let prints = self.prints_of(way);
            prints.store(with_print(prints.load(Relaxed), way, probe), Relaxed);
        }
    }

    /// Puts a line where it is, or was until another core took it; and remembers its use.
    #[inline]
    pub(crate) fn put_again(self, probe: Probe, index: usize, flags: u64, link: u64) {
        let way = self.way(index);
        self.print(probe, way);
        self.put_word(probe, way, flags, link, false);
        self.touch(index);
    }

    /// Makes the way at an index invalid.
    #[inline(always)]
    pub(crate) fn clear(self, index: usize) {
        self.tag(self.way(index)).store(0, Relaxed);
        self.row[HOLES].store(1, Release);
    }

    /// Gives a line another state, or takes it away (`state` 0): the word before, if the line was there. `racing`: the
    /// array's owner may replace the line meanwhile, and has then lost it before.
    #[inline]
    pub(crate) fn change(self, probe: Probe, state: u64, racing: bool) -> Option<u64> {
        let (index, word) = self.find(probe)?;
        crate::model::window();
        let after = if state == 0 { 0 } else { word & !STATE_MASK | state };
        let tag = self.tag(self.way(index));
        if racing {
            tag.compare_exchange(word, after, Relaxed, Relaxed).ok()?;
        } else {
            tag.store(after, Relaxed);
        }
        if state == 0 {
            self.row[HOLES].store(1, Release);
        }
        Some(word)
    }
}

impl Array<'_> {
    /// The way for a line that is to come into its set, which counts as a use of it.
    #[inline(never)]
    fn make_room(&self, probe: Probe) -> usize {
        let set = self.set(probe.line);
        let way = set.victim();
        set.touch(set.index(way));
        set.print(probe, way);
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::{SHARED, words};
    use crate::config::{Geometry, Replacement};

    /// An array of one set.
    fn with_array<R>(ways: usize, replacement: Replacement, test: impl FnOnce(&Array<'_>) -> R) -> R {
        let geometry = Geometry { sets: 1, ways, replacement, real: true };
        let region: Vec<AtomicU64> = (0..words(&geometry)).map(|_| AtomicU64::new(0)).collect();
        let array = Array::take(&geometry, &mut &region[..]);
        array.reset(1);
        test(&array)
    }

    fn fill(array: &Array<'_>, line: u64) -> u64 {
        array.set(line).insert(Probe::new(line), SHARED, 0, true).word >> TAG_SHIFT
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
                    array.set(used).touch(index);
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
                    array.set(line).clear(index);
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
