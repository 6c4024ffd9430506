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

mod set;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) use set::{Oldest, Replaced, Set};

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

    /// Whether its order is [`Order::Packed`], with one word of prints.
    pub(crate) fn is_narrow(&self) -> bool {
        self.is_packed() && self.print_words == 1
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
