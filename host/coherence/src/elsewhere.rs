//! Accesses to memory that other islands cache in other ways (not at all, or privately).
//!
//! Coherent caches are kept consistent (`directory.rs`). Others are not, like caches of processors on both sides of PCIe: an
//! access around the caches arrives at the other side as one of a device; coherent caches there are snooped for it, and private
//! ones are not. The emulator's memory has only one value of each byte, so software that forgets to clean or to drop a private copy
//! works here, and would not on hardware. The model makes it pay, and counts it: a line that another island writes leaves a private cache, which has
//! to read it again, and that read, which hardware would have served from the old copy, is counted as a *stale read*. So
//! is a read of memory while another island's private cache has modified it and not written it back.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::array::{MODIFIED, Probe, STATE_MASK};
use crate::config::{Class, Config, IslandConfig, Policy, Segment};
use crate::core::{Core, IN_L1D, Kind};
use crate::counters::Count;
use crate::directory::{Entry, cores_in};
use crate::locks::numbers;
use crate::resolve::alone_space;
use crate::{LINE_SIZE, Picoseconds};

/// Pages in which stale reads are noted, of all cores together.
pub const STALE_PAGES: usize = 16;
/// Bytes of such a page.
const PAGE_SIZE: u64 = 4096;

/// A page in which a core has read what may have been old ([`Model::stale_pages`](crate::Model::stale_pages)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalePage {
    /// The core, by its number in the machine.
    pub core: usize,
    /// The page's first byte, as an offset into the pool.
    pub address: u64,
    /// Stale reads in it.
    pub reads: u64,
}

/// Of each line of the pool whether an island's private caches had it when another island wrote it: a bit. None where no cache is
/// private.
pub(crate) struct StaleLines<'a> {
    words: &'a [AtomicU64],
}

impl<'a> StaleLines<'a> {
    /// Words of the region for an island: whole host lines.
    pub(crate) fn words(config: &Config, island: &IslandConfig) -> usize {
        let is_private = |segment: &Segment| segment.data == Policy::Private;
        let end = config.ranges.last().map_or(0, |range| range.end);
        let bits = if island.segments.iter().any(is_private) { end.div_ceil(LINE_SIZE) } else { 0 };
        bits.div_ceil(64).next_multiple_of(8) as usize
    }

    /// Takes its words from the front of `rest`.
    pub(crate) fn take(config: &Config, island: &IslandConfig, rest: &mut &'a [AtomicU64]) -> Self {
        let (words, after) = rest.split_at(Self::words(config, island));
        *rest = after;
        Self { words }
    }

    /// Nothing has been written.
    pub(crate) fn reset(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Whether any of the island's caches is private.
    pub(crate) fn is_used(&self) -> bool {
        !self.words.is_empty()
    }

    pub(crate) fn mark(&self, line: u64) {
        if let Some(word) = self.words.get((line / 64) as usize) {
            word.fetch_or(1 << (line % 64), Relaxed);
        }
    }

    /// Whether a line is marked; it no longer is.
    fn clear(&self, line: u64) -> bool {
        let bit = 1 << (line % 64);
        let Some(word) = self.words.get((line / 64) as usize) else { return false };
        word.load(Relaxed) & bit != 0 && word.fetch_and(!bit, Relaxed) & bit != 0
    }
}

/// Words for each page of [`StalePages`]: the page's address and reader, and how many reads.
const PAGE_WORDS: usize = 2;
/// Bits of a page's number in its word; above is 1 + the reader.
const PAGE_BITS: u32 = 48;

/// Where the first stale reads were.
pub(crate) struct StalePages<'a> {
    words: &'a [AtomicU64],
}

impl<'a> StalePages<'a> {
    /// Words of the region.
    pub(crate) const WORDS: usize = PAGE_WORDS * STALE_PAGES;

    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self { words }
    }

    /// Nothing has been read.
    pub(crate) fn reset(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// A core has read a byte of the pool that may have been old.
    fn note(&self, core: usize, address: u64) {
        let key = address / PAGE_SIZE | (core as u64 + 1) << PAGE_BITS;
        for entry in self.words.chunks_exact(PAGE_WORDS) {
            let found = entry[0].compare_exchange(0, key, Relaxed, Relaxed).map_or_else(|other| other, |_| key);
            if found == key {
                entry[1].fetch_add(1, Relaxed);
                return;
            }
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = StalePage> {
        let used = self.words.chunks_exact(PAGE_WORDS).map(|entry| [entry[0].load(Relaxed), entry[1].load(Relaxed)]);
        used.take_while(|[key, _]| *key != 0).map(|[key, reads]| StalePage {
            core: (key >> PAGE_BITS) as usize - 1,
            address: (key & ((1 << PAGE_BITS) - 1)) * PAGE_SIZE,
            reads,
        })
    }
}

impl Core<'_> {
    /// A data access that this core's own caches have not served, in a segment that others cache in other ways: what it does to
    /// their copies, and whether it was a stale read. No lock is held. `line`: the number that this island caches it under.
    #[inline(never)]
    pub(crate) fn meet_elsewhere(&self, kind: Kind, segment: &Segment, line: u64) {
        if kind == Kind::Fetch {
            return;
        }
        let own_space = if segment.data == Policy::Private { alone_lines(self.state.island) } else { 0 };
        let line = line - own_space;
        let mut stale = segment.data == Policy::Private && self.model.stale[self.state.island].clear(line);
        for island in numbers(segment.private_elsewhere) {
            let probe = Probe::new(line + alone_lines(island));
            if !kind.is_write() {
                stale |= self.is_modified_by(island, probe);
            } else if self.leaves(island, probe) {
                self.model.stale[island].mark(line);
            }
        }
        for island in numbers(segment.coherent_elsewhere) {
            let probe = Probe::new(line);
            match segment.data {
                Policy::Coherent => {} // The directories have seen to it.
                Policy::Private if !kind.is_write() => stale |= self.is_modified_by(island, probe),
                Policy::Private | Policy::Uncached => self.snoop_from_afar(island, probe, kind.is_write()),
            }
        }
        if stale {
            self.count(Count::stale_reads, 1);
            self.model.stale_pages.note(self.number, line * LINE_SIZE);
        }
    }

    /// The software of this core has lines of the pool leave its island's caches, modified ones to memory, because others have written
    /// them or are about to (RISC-V: `cbo.flush`, Zicbom). `start`: an offset into the pool. What its instructions take, a loop of three
    /// for each line, and what writing back takes. Where the island does not cache privately, nothing is done, nor takes time.
    pub fn flush_lines(&mut self, start: u64, bytes: u64) -> [Picoseconds; 2] {
        let [mut instructions_ps, mut stall_ps] = [0; 2];
        for line in start / LINE_SIZE..(start + bytes).div_ceil(LINE_SIZE) {
            let mut parts = self.model.config.private_parts(self.state.island);
            if parts.any(|part| part.contains(&(line * LINE_SIZE))) {
                let classes = [Class::System, Class::Integer, Class::Branch];
                instructions_ps += classes.map(|class| self.instructions(class, 1).0).iter().sum::<u64>();
                stall_ps += self.flush_line(line);
            }
        }
        [Picoseconds(instructions_ps), Picoseconds(stall_ps)]
    }

    fn flush_line(&self, line: u64) -> u64 {
        self.count(Count::flushed_lines, 1);
        self.model.stale[self.state.island].clear(line);
        let probe = Probe::new(line + alone_lines(self.state.island));
        if Entry::find(self.own, probe).is_none() {
            return 0;
        }
        let _lock = self.model.lock_directory(self.domain, probe.line, self.number, self.model.threads);
        Entry::find(self.own, probe).map_or(0, |entry| self.coherence(self.drop_entry(entry, probe)))
    }

    /// Makes an island's cores share or drop a line.
    pub(crate) fn snoop_from_afar(&self, island: usize, probe: Probe, drop_it: bool) {
        let number = self.model.config.islands[island].domain;
        let domain = &self.model.domains[number];
        // What comes there just now comes after this access.
        if Entry::find(domain, probe).is_none() {
            return;
        }
        let _lock = self.model.lock_directory(number, probe.line, self.number, self.model.threads);
        if let Some(entry) = Entry::find(domain, probe) {
            // A posted store waits for nothing, and a read's latency includes the way through the other side.
            self.snoop(entry, number, probe, drop_it, &mut 0);
        }
    }

    /// A line leaves an island's private caches; whether data caches had it.
    pub(crate) fn leaves(&self, island: usize, probe: Probe) -> bool {
        let had_data = self.l2_words(island, probe).any(|word| word & IN_L1D != 0);
        self.snoop_from_afar(island, probe, true);
        had_data
    }

    pub(crate) fn is_modified_by(&self, island: usize, probe: Probe) -> bool {
        self.l2_words(island, probe).any(|word| word & STATE_MASK == MODIFIED)
    }

    /// What the L2s of an island's cores say of a line that they have.
    fn l2_words(&self, island: usize, probe: Probe) -> impl Iterator<Item = u64> {
        let domain = &self.model.domains[self.model.config.islands[island].domain];
        let sharers = Entry::find(domain, probe).map_or(0, |entry| entry.sharers);
        cores_in(domain, sharers).filter_map(move |core| Some(self.model.cores[core].l2.find(probe)?.1))
    }
}

/// Added to a line's number where an island caches it alone.
pub(crate) fn alone_lines(island: usize) -> u64 {
    alone_space(island) / LINE_SIZE
}
