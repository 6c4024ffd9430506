//! When cores came by points: instructions that a run is told to watch, for `--points`.
//!
//! It lies in memory of its own, which only runs have that are asked for it.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Points that a run can watch: their numbers have 16 bits.
pub const POINTS_MAX: usize = 1 << 16;

const WORDS: usize = 3;
const CORE_BITS: u32 = 16;

/// An instruction whose moments are noted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// The island's number.
    pub island: usize,
    /// The instruction's virtual address, whoever executes it.
    pub address: u64,
    /// A register whose value is noted, too, by the name that QEMU's debugger interface has for it.
    pub register: Option<String>,
}

impl Point {
    /// Reads `ISLAND 0xADDRESS [REGISTER]`; `island` knows the numbers of islands, as the line calls them. `None`: it is
    /// something else.
    pub fn read(line: &str, island: impl FnOnce(&str) -> Option<usize>) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (name, address, register) = (words.next()?, words.next()?, words.next());
        let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
        let point = Self { island: island(name)?, address, register: register.map(str::to_owned) };
        words.next().is_none().then_some(point)
    }
}

/// As [`Point::read`] reads it, with the island's number.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:#x}", self.island, self.address)?;
        self.register.iter().try_for_each(|register| write!(f, " {register}"))
    }
}

/// A core came by a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// The point's number.
    pub point: usize,
    /// The core's, in the model's order.
    pub core: usize,
    /// The core's time, before the instruction.
    pub at_ps: u64,
    /// The register's value, if one was asked for.
    pub value: u64,
}

/// The passages of one run, in zeroed memory: first how many there were, also of those for which there is no room.
#[derive(Debug)]
pub struct Passages<'a>(&'a [AtomicU64]);

impl<'a> Passages<'a> {
    /// Words for so many.
    pub const fn words(count: usize) -> usize {
        1 + count * WORDS
    }

    /// In memory that nobody has written to, or that somebody else has made one of.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// Keeps one, if there is room.
    pub fn note(&self, passage: Passage) {
        let Some((made, rest)) = self.0.split_first() else { return };
        let index = usize::try_from(made.fetch_add(1, Relaxed)).unwrap_or(usize::MAX);
        let Some(slot) = index.checked_mul(WORDS).and_then(|at| rest.get(at..at + WORDS)) else { return };
        slot[0].store((passage.point << CORE_BITS | passage.core) as u64, Relaxed);
        slot[1].store(passage.at_ps, Relaxed);
        slot[2].store(passage.value, Relaxed);
    }

    /// Those that were kept.
    pub fn kept(&self) -> Vec<Passage> {
        let Some((made, rest)) = self.0.split_first() else { return Vec::new() };
        let made = usize::try_from(made.load(Relaxed)).unwrap_or(usize::MAX);
        let read = |words: &[AtomicU64]| {
            let first = words[0].load(Relaxed) as usize;
            Passage {
                point: first >> CORE_BITS,
                core: first & ((1 << CORE_BITS) - 1),
                at_ps: words[1].load(Relaxed),
                value: words[2].load(Relaxed),
            }
        };
        rest.chunks_exact(WORDS).take(made).map(read).collect()
    }

    /// How many there were for which there was no room.
    pub fn lost(&self) -> u64 {
        let room = (self.0.len().saturating_sub(1) / WORDS) as u64;
        self.0.first().map_or(0, |made| made.load(Relaxed).saturating_sub(room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read_as_they_are_written() {
        let number = |word: &str| word.parse().ok();
        for register in [None, Some("hgatp".to_owned())] {
            let point = Point { island: 2, address: 0x8020_0000, register };
            assert_eq!(Point::read(&point.to_string(), number), Some(point));
        }
        for wrong in ["", "0", "a 0x0", "0 80200000", "0 0xx", "0 0x1 a b"] {
            assert_eq!(Point::read(wrong, number), None, "{wrong}");
        }
    }

    #[test]
    fn passages_are_kept_in_order_as_far_as_there_is_room() {
        let memory: Vec<AtomicU64> = (0..Passages::words(2)).map(|_| AtomicU64::new(0)).collect();
        let (writer, reader) = (Passages::new(&memory), Passages::new(&memory));
        let passage = |point| Passage { point, core: 3, at_ps: 1 << 50, value: u64::MAX };
        assert!(reader.kept().is_empty());
        [7, 9, 11].into_iter().for_each(|point| writer.note(passage(point)));
        assert_eq!((reader.kept(), reader.lost()), (vec![passage(7), passage(9)], 1));
        let nothing = Passages::new(&[]);
        nothing.note(passage(1));
        assert_eq!((nothing.kept(), nothing.lost()), (vec![], 0));
    }
}
