//! A set-associative array of lines in the region.
//!
//! Of each set there is a *row* of words. Its *head*, one host cache line, says which way was used last, what the replacement
//! policy remembers, and a byte of hash (a *print*) for each way: a line that is absent is known to be so from the head
//! alone. Then come the *slots* of its lines: each a tag word and a link, which in a core's caches is the line's index in the
//! next level (inclusion keeps it true), and in an L3 the set of cores that hold the line.
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

/// Words of a slot: tag and link.
const SLOT_WORDS: usize = 2;
/// Words of a row of [`Order::Packed`], whatever its number of ways, so that nothing in it needs to be looked for or checked.
const PACKED_WORDS: usize = HEAD_WORDS + order::PACKED_WAYS * SLOT_WORDS;

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
        // The remainder by a prime, stretched to 1 to 255: sets are powers of two, so of lines in one set at equal
        // distances any 241 differ. 0 is the print of ways that do not exist.
        let remainder = line.wrapping_mul(u64::MAX / 241 + 1);
        Self { line, prints: (remainder.wrapping_add(1 << 56) >> 56) * BYTES }
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

/// Words of a row, whole host lines. With [`Order::Stamps`], the stamps come last.
const fn row_words(geometry: &Geometry) -> usize {
    match Order::of(geometry) {
        Order::Packed => PACKED_WORDS,
        Order::Stamps => HEAD_WORDS + (geometry.ways * (SLOT_WORDS + 1)).next_multiple_of(8),
        Order::Tree | Order::Random | Order::None => HEAD_WORDS + (geometry.ways * SLOT_WORDS).next_multiple_of(8),
    }
}

/// Words that an array needs, whole host lines.
pub(crate) const fn words(geometry: &Geometry) -> usize {
    geometry.sets * row_words(geometry)
}

/// A cache's lines and what its replacement policy remembers. A line is named by its index: where its slot is among the words.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a> {
    mask: u64,
    ways: usize,
    order: Order,
    /// Where in a packed order the way is that goes first.
    last_place: u32,
    /// Words of prints in use; 0 if the set is too wide for prints.
    print_words: usize,
    row_words: usize,
    words: &'a [AtomicU64],
    /// The same, as the rows that they are; none if the order is not packed.
    packed: &'a [[AtomicU64; PACKED_WORDS]],
}

/// A set of an array.
#[derive(Clone, Copy)]
pub(crate) struct Set<'s, 'a> {
    array: &'s Array<'a>,
    row: &'a [AtomicU64],
    /// Index of the first line.
    base: usize,
    /// The array's order is [`Order::Packed`].
    packed: bool,
    /// It may have more than one word of prints.
    wide: bool,
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

impl Replaced {
    /// The line that was there.
    #[inline(always)]
    pub(crate) fn probe(&self) -> Probe {
        Probe { line: self.word >> TAG_SHIFT, prints: self.print * BYTES }
    }
}

impl<'a> Array<'a> {
    /// Takes its words from the front of `rest`.
    pub(crate) fn take(geometry: &Geometry, rest: &mut &'a [AtomicU64]) -> Self {
        let (words, after) = rest.split_at(words(geometry));
        *rest = after;
        let order = Order::of(geometry);
        Self {
            mask: geometry.sets as u64 - 1,
            ways: geometry.ways,
            order,
            last_place: order::last_place(geometry.ways),
            print_words: if geometry.ways <= PRINTED_WAYS { geometry.ways.div_ceil(8) } else { 0 },
            row_words: row_words(geometry),
            words,
            packed: if order == Order::Packed { words.as_chunks().0 } else { &[] },
        }
    }

    /// Empties it.
    pub(crate) fn reset(&self, seed: u64) {
        for word in self.words {
            word.store(0, Relaxed);
        }
        for (set, row) in self.words.chunks_exact(self.row_words).enumerate() {
            let (used, memory) = self.order.start(seed ^ (set as u64) << 20);
            row[USED].store(used, Relaxed);
            row[MEMORY].store(memory, Relaxed);
            row[HOLES].store(1, Relaxed);
        }
    }

    /// The set of a line.
    #[inline(always)]
    pub(crate) fn set(&self, line: u64) -> Set<'_, 'a> {
        self.set_of(line, false)
    }

    /// The same; `packed`: the array is known to be, so that nothing else needs to be compiled.
    #[inline(always)]
    pub(crate) fn set_of(&self, line: u64, packed: bool) -> Set<'_, 'a> {
        let number = (line & self.mask) as usize;
        if packed || self.is_packed() {
            let base = number * PACKED_WORDS + HEAD_WORDS;
            return Set { array: self, row: &self.packed[number], base, packed: true, wide: self.print_words > 1 };
        }
        let start = number * self.row_words;
        let row = &self.words[start..][..self.row_words];
        Set { array: self, row, base: start + HEAD_WORDS, packed: false, wide: true }
    }

    /// How many sets it has.
    pub(crate) fn sets(&self) -> u64 {
        self.mask + 1
    }

    /// Whether its order is [`Order::Packed`].
    #[inline(always)]
    pub(crate) fn is_packed(&self) -> bool {
        self.order == Order::Packed
    }

    /// The index of a line, and its tag word.
    #[inline(always)]
    pub(crate) fn find(&self, probe: Probe) -> Option<(usize, u64)> {
        self.set(probe.line).find(probe)
    }

    /// The tag word at an index.
    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words[index].load(Relaxed)
    }

    /// Changes the tag word at an index.
    #[inline(always)]
    pub(crate) fn set_word(&self, index: usize, word: u64) {
        self.words[index].store(word, Relaxed);
    }

    /// The link at an index.
    #[inline(always)]
    pub(crate) fn link(&self, index: usize) -> u64 {
        self.words[index + 1].load(Relaxed)
    }

    /// Changes the link at an index.
    #[inline(always)]
    pub(crate) fn set_link(&self, index: usize, link: u64) {
        self.words[index + 1].store(link, Relaxed);
    }

    /// All valid lines: index and tag word.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, u64)> {
        let sets = 0..self.words.len() / self.row_words;
        let base = |set: usize| set * self.row_words + HEAD_WORDS;
        let indices = sets.flat_map(move |set| (0..self.ways).map(move |way| base(set) + way * SLOT_WORDS));
        indices.map(|index| (index, self.word(index))).filter(|(_, word)| *word != 0)
    }

    /// Whether an index is in a line's set.
    pub(crate) fn is_in_set(&self, line: u64, index: usize) -> bool {
        line & self.mask == (index / self.row_words) as u64
    }
}

/// Remembers a line's print for a way, in the word of prints that has it; the print before.
#[inline(always)]
fn set_print(prints: &AtomicU64, way: usize, probe: Probe) -> u64 {
    let first = (way % 8 * 8) as u32;
    let before = prints.load(Relaxed).rotate_right(first);
    prints.store((before & !0xff | probe.prints & 0xff).rotate_left(first), Relaxed);
    before & 0xff
}

impl<'s, 'a> Set<'s, 'a> {
    /// The same, to be used without asking whether there is more than one word of prints.
    #[inline(always)]
    pub(crate) fn wide(self) -> Self {
        Self { wide: true, ..self }
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

    /// Changes the tag word at an index.
    #[inline(always)]
    pub(crate) fn set_word(self, index: usize, word: u64) {
        self.tag(self.way(index)).store(word, Relaxed);
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

    #[inline(always)]
    fn index(self, way: usize) -> usize {
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
        if self.row[HOLES].load(Relaxed) != 0
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
        let array = self.array;
        if !self.packed {
            let way = array.make_room(probe);
            return self.put_word(probe, way, flags, link, old_matters);
        }
        if self.row[HOLES].load(Relaxed) != 0 {
            let way = array.make_room(probe) % order::PACKED_WAYS;
            return self.put_word(probe, way, flags, link, old_matters);
        }
        let used = self.row[USED].load(Relaxed);
        self.row[USED].store(order::last_to_front(used, array.last_place), Relaxed);
        let way = order::last_of(used, array.last_place);
        let print = set_print(&self.row[PRINTS + way / 8], way, probe);
        Replaced { print, ..self.put_word(probe, way, flags, link, old_matters) }
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
            set_print(&self.row[PRINTS + way / 8], way, probe);
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
