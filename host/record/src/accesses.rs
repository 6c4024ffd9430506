//! What all cores fetch, load and store, in order, while a region of interest is under way: for `--accesses`.
//!
//! It lies in memory of its own, which only runs have that are asked for it: a word for each access. The order is that of the
//! calls, so it is the machine's where one core runs at a time.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use motet_coherence::{
    Kind,
    interleaved::{ACCESS_BYTES, Step},
};

use crate::RecordError;

/// First word: "MOTETAC\x01".
const MAGIC: u64 = u64::from_le_bytes(*b"MOTETAC\x01");
const HEADER_WORDS: usize = 8;
const SKIP: usize = 1;
/// Regions that are under way, each as often as it has begun.
const DEPTH: usize = 2;
/// Accesses until now, with those that are skipped.
const MADE: usize = 3;

const KIND_BITS: u32 = 2;
const CORE_BITS: u32 = 10;
const KINDS: [Kind; 4] = [Kind::Fetch, Kind::Load, Kind::Store, Kind::Atomic];

/// The accesses of one run.
pub struct Accesses<'a> {
    header: &'a [AtomicU64],
    steps: &'a [AtomicU64],
}

impl<'a> Accesses<'a> {
    /// Words for so many accesses.
    pub const fn words(count: usize) -> usize {
        HEADER_WORDS + count
    }

    /// None yet, in zeroed memory, before anybody else looks. The first `skip` are not kept, and those after that only as far as
    /// there is room.
    ///
    /// # Errors
    /// Too little memory.
    pub fn create(words: &'a [AtomicU64], skip: u64) -> Result<Self, RecordError> {
        let accesses = Self::lay_out(words)?;
        accesses.header[SKIP].store(skip, Relaxed);
        accesses.header[0].store(MAGIC, Release);
        Ok(accesses)
    }

    /// Joins what somebody else has made.
    ///
    /// # Errors
    /// Too little memory, or nobody has called [`Accesses::create`] on it.
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, RecordError> {
        let accesses = Self::lay_out(words)?;
        if accesses.header[0].load(Acquire) == MAGIC { Ok(accesses) } else { Err(RecordError::NotCreated) }
    }

    fn lay_out(words: &'a [AtomicU64]) -> Result<Self, RecordError> {
        let (header, steps) = words.split_at_checked(HEADER_WORDS).ok_or(RecordError::TooSmall)?;
        Ok(Self { header, steps })
    }

    /// A region begins.
    pub fn enter(&self) {
        self.header[DEPTH].fetch_add(1, Relaxed);
    }

    /// A region ends that has begun.
    pub fn leave(&self) {
        self.header[DEPTH].fetch_sub(1, Relaxed);
    }

    /// Whether a region is under way, and there is room.
    pub fn is_open(&self) -> bool {
        let made = self.header[MADE].load(Relaxed);
        self.header[DEPTH].load(Relaxed) != 0 && made.saturating_sub(self.skip()) < self.steps.len() as u64
    }

    /// A core accesses memory. `address`: any of the eight bytes.
    pub fn note(&self, core: usize, kind: Kind, address: u64) {
        let made = self.header[MADE].fetch_add(1, Relaxed);
        let slot = made.checked_sub(self.skip()).and_then(|index| self.steps.get(usize::try_from(index).ok()?));
        if let Some(step) = slot {
            let kind = match kind {
                Kind::Fetch => 0,
                Kind::Load | Kind::Walk => 1,
                Kind::Store => 2,
                Kind::Atomic => 3,
            };
            let words = address / u64::from(ACCESS_BYTES);
            step.store((words << CORE_BITS | core as u64) << KIND_BITS | kind, Relaxed);
        }
    }

    /// Those that were kept.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = Step> + '_ {
        let kept = self.header[MADE].load(Relaxed).saturating_sub(self.skip()).min(self.steps.len() as u64);
        self.steps[..kept as usize].iter().map(|step| {
            let word = step.load(Relaxed);
            Step {
                core: (word >> KIND_BITS) as usize & ((1 << CORE_BITS) - 1),
                kind: KINDS[word as usize % KINDS.len()],
                address: (word >> (KIND_BITS + CORE_BITS)) * u64::from(ACCESS_BYTES),
            }
        })
    }

    /// How many there is room for.
    pub fn room(&self) -> usize {
        self.steps.len()
    }

    fn skip(&self) -> u64 {
        self.header[SKIP].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_coherence::allocate;

    const LAST: u64 = (1 << 55) - 8;

    #[test]
    fn what_is_noted_is_read_in_order_by_whoever_joins() {
        let words = allocate(Accesses::words(5));
        assert_eq!(Accesses::attach(&words).err(), Some(RecordError::NotCreated));
        let accesses = Accesses::create(&words, 0).unwrap();
        let plugin = Accesses::attach(&words).unwrap();
        let steps = [
            (0, Kind::Fetch, 0x1000),
            (1023, Kind::Load, LAST),
            (3, Kind::Store, 0x40),
            (3, Kind::Atomic, 0x48),
            (2, Kind::Load, 0),
        ];
        for (core, kind, address) in steps {
            plugin.note(core, kind, address | 5);
        }
        let read: Vec<_> = accesses.steps().map(|step| (step.core, step.kind, step.address)).collect();
        assert_eq!(read, steps);
        assert_eq!(Accesses::attach(&words[..7]).err(), Some(RecordError::TooSmall));
    }

    #[test]
    fn it_is_open_while_a_region_is_under_way_and_there_is_room_behind_what_is_skipped() {
        let words = allocate(Accesses::words(2));
        let accesses = Accesses::create(&words, 3).unwrap();
        assert!(!accesses.is_open());
        accesses.enter();
        accesses.enter();
        accesses.leave();
        for address in [8, 16, 24, 32] {
            assert!(accesses.is_open());
            accesses.note(0, Kind::Load, address);
        }
        accesses.leave();
        assert!(!accesses.is_open() && accesses.steps().len() < accesses.room());
        accesses.enter();
        assert!(accesses.is_open());
        for address in [40, 48] {
            accesses.note(0, Kind::Store, address);
        }
        assert!(!accesses.is_open());
        assert_eq!(accesses.steps().map(|step| step.address).collect::<Vec<_>>(), [32, 40]);
    }
}
