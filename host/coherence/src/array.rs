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
    /// Where in a packed order the way is that goes first.
    last_place: u32,
    /// The bits of a packed order that name ways.
    in_use: u64,
    /// The bits of a head's `USED` that are the way used last.
    last_used: u64,
    /// Words of prints in use; 0 if the set is too wide for prints.
    print_words: usize,
    heads: &'a [Head],
    slots: &'a [Slot],
    /// Per line, with [`Order::Stamps`]: the set's clock when it was touched.
    stamps: &'a [AtomicU64],
}

/// A set of an array. Lines are named by their index in the array.
#[derive(Clone, Copy)]
pub(crate) struct Set<'s, 'a> {
    array: &'s Array<'a>,
    head: &'a Head,
    /// Index of the first line.
    base: usize,
    /// The array's order is [`Order::Packed`].
    packed: bool,
}

/// Where a line was put, and what was there.
#[derive(Clone, Copy)]
pub(crate) struct Replaced {
    pub(crate) index: usize,
    pub(crate) word: u64,
    pub(crate) link: u64,
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
            last_place: order::last_place(geometry.ways),
            in_use: order::in_use(geometry.ways),
            last_used: Order::of(geometry).last_used(),
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

    /// The set of a line.
    #[inline(always)]
    pub(crate) fn set(&self, line: u64) -> Set<'_, 'a> {
        self.set_of(line, false)
    }

    /// The same; `packed`: the array is known to be, so that nothing else needs to be compiled.
    #[inline(always)]
    pub(crate) fn set_of(&self, line: u64, packed: bool) -> Set<'_, 'a> {
        let number = (line & self.mask) as usize;
        let packed = packed || self.is_packed();
        Set { array: self, head: &self.heads[number], base: number * self.ways, packed }
    }

    /// Whether its order is [`Order::Packed`].
    #[inline(always)]
    pub(crate) fn is_packed(&self) -> bool {
        self.order == Order::Packed
    }

    /// The line that was used last in a line's set: its index and tag word.
    #[inline(always)]
    pub(crate) fn recent(&self, line: u64) -> (usize, u64) {
        let number = (line & self.mask) as usize;
        let way = self.heads[number][USED].load(Relaxed) & self.last_used;
        let index = number * self.ways + way as usize;
        (index, self.word(index))
    }

    /// The index of a line, and its tag word.
    #[inline(always)]
    pub(crate) fn find(&self, probe: Probe) -> Option<(usize, u64)> {
        self.set(probe.line).find(probe)
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

    #[cold]
    fn find_by_tags(&self, base: usize, probe: Probe) -> Option<(usize, u64)> {
        let words = self.slots[base..][..self.ways].iter().map(|slot| slot[0].load(Relaxed));
        words.enumerate().find(|(_, word)| probe.is(*word)).map(|(way, word)| (base + way, word))
    }

    #[inline(never)]
    fn touch_unpacked(&self, head: &Head, base: usize, way: usize) {
        head[USED].store(way as u64, Relaxed);
        let memory = &head[MEMORY];
        match self.order {
            Order::Packed | Order::Random | Order::None => {}
            Order::Stamps => {
                let clock = memory.load(Relaxed) + 1;
                memory.store(clock, Relaxed);
                self.stamps[base + way].store(clock, Relaxed);
            }
            Order::Tree => memory.store(order::point_away(memory.load(Relaxed), way, self.ways), Relaxed),
        }
    }

    /// An invalid way, or the one the policy gives up.
    fn victim(&self, head: &Head, base: usize) -> usize {
        if head[HOLES].load(Relaxed) != 0
            && let Some(way) = self.hole(head, base)
        {
            return way;
        }
        match self.order {
            Order::Packed => order::last_of(head[USED].load(Relaxed), self.last_place),
            Order::Stamps => {
                let stamps = &self.stamps[base..][..self.ways];
                (0..stamps.len()).min_by_key(|&way| stamps[way].load(Relaxed)).unwrap_or(0)
            }
            Order::Tree => order::follow(head[MEMORY].load(Relaxed), self.ways),
            Order::Random => {
                let next = order::mix(head[MEMORY].load(Relaxed));
                head[MEMORY].store(next, Relaxed);
                (next % self.ways as u64) as usize
            }
            Order::None => 0,
        }
    }

    /// The way for a line that is to come into its set, which counts as a use of it.
    #[inline(never)]
    fn make_room(&self, line: u64) -> usize {
        let set = self.set(line);
        let way = self.victim(set.head, set.base);
        set.touch(set.base + way);
        way
    }

    /// The first invalid way. If there is none, that is remembered, unless another core makes one meanwhile.
    fn hole(&self, head: &Head, base: usize) -> Option<usize> {
        let look = || self.slots[base..][..self.ways].iter().position(|slot| slot[0].load(Relaxed) == 0);
        look().or_else(|| {
            head[HOLES].swap(0, AcqRel);
            let late = look();
            if late.is_some() {
                head[HOLES].store(1, Relaxed);
            }
            late
        })
    }

    /// All valid lines: index and tag word.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, u64)> {
        self.slots.iter().map(|slot| slot[0].load(Relaxed)).enumerate().filter(|(_, word)| *word != 0)
    }

    /// Whether an index is in a line's set.
    pub(crate) fn is_in_set(&self, line: u64, index: usize) -> bool {
        line & self.mask == (index / self.ways) as u64
    }
}

/// Remembers a line's print for a way, in the word of prints that has it.
#[inline(always)]
fn set_print(prints: &AtomicU64, way: usize, probe: Probe) {
    let byte = 0xff << (way % 8 * 8);
    let before = prints.load(Relaxed);
    prints.store(before ^ (before ^ probe.prints) & byte, Relaxed);
}

impl<'a> Set<'_, 'a> {
    /// The link at an index.
    #[inline(always)]
    pub(crate) fn link(self, index: usize) -> u64 {
        self.array.link(index)
    }

    /// The set's lock.
    #[inline(always)]
    pub(crate) fn lock(self) -> &'a AtomicU64 {
        &self.head[LOCK]
    }

    /// The index of a line, and its tag word.
    #[inline(always)]
    pub(crate) fn find(self, probe: Probe) -> Option<(usize, u64)> {
        if !self.packed {
            return self.find_unpacked(probe);
        }
        // Up to 16 ways, and ways that do not exist have no line's print.
        self.among(probe, self.matches(probe, 0) | self.matches(probe, 1))
    }

    #[inline(never)]
    fn find_unpacked(self, probe: Probe) -> Option<(usize, u64)> {
        match self.array.print_words {
            0 => self.array.find_by_tags(self.base, probe),
            words => self.among(probe, (0..words).fold(0, |hits, number| hits | self.matches(probe, number))),
        }
    }

    /// The line, if it is among the ways whose prints say so ([`Set::matches`]).
    #[inline(always)]
    fn among(self, probe: Probe, mut hits: u64) -> Option<(usize, u64)> {
        while hits != 0 {
            let bit = hits.trailing_zeros() as usize;
            let index = self.base + (bit & 7) * 8 + bit / 8;
            let word = self.array.slots.get(index).map_or(0, |slot| slot[0].load(Relaxed));
            if probe.is(word) {
                return Some((index, word));
            }
            hits &= hits - 1;
        }
        None
    }

    /// Bit `number` of each byte: whether that byte of a word of prints is the line's. Sometimes set above one that is.
    #[inline(always)]
    fn matches(self, probe: Probe, number: usize) -> u64 {
        let differ = self.head[PRINTS..][number].load(Relaxed) ^ probe.prints;
        (differ.wrapping_sub(BYTES) & !differ & BYTES << 7) >> (7 - number)
    }

    /// Remembers a use of the line at an index.
    #[inline(always)]
    pub(crate) fn touch(self, index: usize) {
        let way = index - self.base;
        if !self.packed {
            return self.array.touch_unpacked(self.head, self.base, way);
        }
        let used = self.head[USED].load(Relaxed);
        if order::first_of(used) != way as u64 {
            self.head[USED].store(order::to_front(used, way as u64), Relaxed);
        }
    }

    /// Puts a line that is not here into an invalid way, or in place of the line that the policy gives up, and remembers its
    /// use.
    #[inline(always)]
    pub(crate) fn insert(self, probe: Probe, flags: u64, link: u64) -> Replaced {
        if self.packed && self.head[HOLES].load(Relaxed) == 0 {
            let (used, array) = (self.head[USED].load(Relaxed), self.array);
            let way = order::last_of(used, array.last_place);
            self.head[USED].store(order::last_to_front(used, array.last_place, array.in_use), Relaxed);
            set_print(&self.head[PRINTS + way / 8], way, probe);
            return self.put_word(probe, way, flags, link);
        }
        let way = self.array.make_room(probe.line);
        self.put(probe, way, flags, link)
    }

    #[inline(always)]
    fn put(self, probe: Probe, way: usize, flags: u64, link: u64) -> Replaced {
        if let Some(prints) = self.head[PRINTS..].get(way / 8).filter(|_| self.array.print_words != 0) {
            set_print(prints, way, probe);
        }
        self.put_word(probe, way, flags, link)
    }

    #[inline(always)]
    fn put_word(self, probe: Probe, way: usize, flags: u64, link: u64) -> Replaced {
        let [word, old_link] = &self.array.slots[self.base + way];
        let replaced = Replaced { index: self.base + way, word: word.load(Relaxed), link: old_link.load(Relaxed) };
        crate::model::window();
        old_link.store(link, Relaxed);
        word.store(probe.tag(flags), Relaxed);
        replaced
    }

    /// Puts a line where it is, or was until another core took it; and remembers its use.
    #[inline(always)]
    pub(crate) fn put_again(self, probe: Probe, index: usize, flags: u64, link: u64) {
        self.put(probe, index - self.base, flags, link);
        self.touch(index);
    }

    /// Makes the way at an index invalid.
    #[inline(always)]
    pub(crate) fn clear(self, index: usize) {
        self.array.set_word(index, 0);
        self.head[HOLES].store(1, Release);
    }

    /// Gives a line another state, or takes it away (`state` 0): the word before, if the line was there. `racing`: the
    /// array's owner may replace the line meanwhile, and has then lost it before.
    #[inline]
    pub(crate) fn change(self, probe: Probe, state: u64, racing: bool) -> Option<u64> {
        let (index, word) = self.find(probe)?;
        crate::model::window();
        let after = if state == 0 { 0 } else { word & !STATE_MASK | state };
        if racing {
            self.array.slots[index][0].compare_exchange(word, after, Relaxed, Relaxed).ok()?;
        } else {
            self.array.set_word(index, after);
        }
        if state == 0 {
            self.head[HOLES].store(1, Release);
        }
        Some(word)
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
        array.set(line).insert(Probe::new(line), SHARED, 0).word >> TAG_SHIFT
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
