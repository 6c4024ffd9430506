//! The region: where everything lies in it, who made it, and what is shared by all cores.

use std::fmt;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Picoseconds;
use crate::array::{self, Array};
use crate::config::{Config, Geometry};
use crate::core::Core;
use crate::counters::{COUNTER_WORDS, Counters};

/// "motetcoh", read as a little-endian word.
const MAGIC: u64 = 0x686f_6374_6574_6f6d;
/// Changes with the layout of the region.
const VERSION: u64 = 1;
/// Words before everything else: magic, version, fingerprint, length.
const HEADER_WORDS: usize = 8;
/// Words per lock and per claim: a line each, so that they do not share one.
const LOCK_WORDS: usize = 8;
/// More locks than this make no difference.
const BUCKETS_MAX: usize = 1 << 14;

/// The words of one core's caches.
pub(crate) struct CoreState<'a> {
    pub(crate) l1i: Array<'a>,
    pub(crate) l1d: Array<'a>,
    pub(crate) l2: Array<'a>,
    /// Per L2 set: who changes the set, or the L1 lines it includes. Held by the core itself for L2 hits, by others for snoops.
    pub(crate) locks: &'a [AtomicU64],
    pub(crate) counters: &'a [AtomicU64],
    /// 1 while a [`Core`] exists.
    pub(crate) claim: &'a AtomicU64,
    /// Lines that L1I lost other than to its own fetches.
    pub(crate) instruction_lines_lost: &'a AtomicU64,
    pub(crate) island: usize,
}

impl CoreState<'_> {
    /// Takes a line away from L1I.
    pub(crate) fn drop_instructions(&self, line: u64) {
        if self.l1i.change(line, |_| 0).is_some() {
            self.instruction_lines_lost.fetch_add(1, Relaxed);
        }
    }
}

/// The words of one last-level cache, which is also the directory of the cores under it.
pub(crate) struct DomainState<'a> {
    pub(crate) l3: Array<'a>,
    /// Per line: which cores hold it, one bit each.
    pub(crate) sharers: &'a [AtomicU64],
    pub(crate) first_core: usize,
    pub(crate) real: bool,
}

/// The model of a machine, over a region that other processes may share.
pub struct Model<'a> {
    pub(crate) config: Config,
    pub(crate) cores: Vec<CoreState<'a>>,
    pub(crate) domains: Vec<DomainState<'a>>,
    /// Locks of the directory: one for all lines whose numbers end in the same bits.
    buckets: &'a [AtomicU64],
    pub(crate) bucket_count: usize,
}

/// A region that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// It has fewer words than [`Model::region_words`].
    TooSmall {
        /// Words that it has.
        words: usize,
        /// Words that it needs.
        needed: usize,
    },
    /// Nobody has called [`Model::create`] on it, or another version of this crate has.
    NotCreated,
    /// It was created for another configuration.
    OtherConfig,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { words, needed } => write!(f, "the region has {words} words and needs {needed}"),
            Self::NotCreated => f.write_str("the region holds no model of this version"),
            Self::OtherConfig => f.write_str("the region was made for another machine description"),
        }
    }
}

impl std::error::Error for RegionError {}

/// Zeroed memory for a model of one process.
pub fn allocate(words: usize) -> Vec<AtomicU64> {
    std::iter::repeat_with(|| AtomicU64::new(0)).take(words).collect()
}

impl<'a> Model<'a> {
    /// Words that a region needs. Its first word should begin a host cache line.
    pub fn region_words(config: &Config) -> usize {
        let cores: usize = config
            .islands
            .iter()
            .map(|island| {
                let caches = [&island.l1i, &island.l1d, &island.l2].map(padded).iter().sum::<usize>();
                island.cores * (caches + island.l2.sets.next_multiple_of(8) + COUNTER_WORDS + LOCK_WORDS)
            })
            .sum();
        let domains: usize = config
            .domains
            .iter()
            .map(|domain| padded(&domain.l3) + (domain.l3.sets * domain.l3.ways).next_multiple_of(8))
            .sum();
        HEADER_WORDS + bucket_count(config) * LOCK_WORDS + cores + domains
    }

    /// Makes a model with empty caches, whatever the region holds. Nobody else may use the region yet.
    ///
    /// # Errors
    /// A region that is too small.
    pub fn create(config: Config, region: &'a [AtomicU64]) -> Result<Self, RegionError> {
        let model = Self::lay_out(config, region)?;
        region[0].store(0, Relaxed);
        for bucket in model.buckets {
            bucket.store(0, Relaxed);
        }
        for (index, core) in model.cores.iter().enumerate() {
            let seed = model.config.seed ^ (index as u64) << 48;
            core.l1i.reset(seed ^ 1 << 40);
            core.l1d.reset(seed ^ 2 << 40);
            core.l2.reset(seed ^ 3 << 40);
            core.locks.iter().chain(core.counters).for_each(|word| word.store(0, Relaxed));
            core.claim.store(0, Relaxed);
            core.instruction_lines_lost.store(0, Relaxed);
        }
        for (index, domain) in model.domains.iter().enumerate() {
            domain.l3.reset(model.config.seed ^ (index as u64) << 48 ^ 4 << 40);
            domain.sharers.iter().for_each(|word| word.store(0, Relaxed));
        }
        for (word, value) in region[1..].iter().zip(model.identity()) {
            word.store(value, Relaxed);
        }
        region[0].store(MAGIC, Release);
        Ok(model)
    }

    /// Joins a model that another process, or another part of this one, has made.
    ///
    /// # Errors
    /// A region that is too small, not created yet, or made for another configuration.
    pub fn attach(config: Config, region: &'a [AtomicU64]) -> Result<Self, RegionError> {
        let model = Self::lay_out(config, region)?;
        if region[0].load(Acquire) != MAGIC || region[1].load(Relaxed) != VERSION {
            return Err(RegionError::NotCreated);
        }
        if region[1..].iter().zip(model.identity()).any(|(word, value)| word.load(Relaxed) != value) {
            return Err(RegionError::OtherConfig);
        }
        Ok(model)
    }

    fn identity(&self) -> [u64; 3] {
        [VERSION, self.config.fingerprint(), Self::region_words(&self.config) as u64]
    }

    fn lay_out(config: Config, region: &'a [AtomicU64]) -> Result<Self, RegionError> {
        let needed = Self::region_words(&config);
        if region.len() < needed {
            return Err(RegionError::TooSmall { words: region.len(), needed });
        }
        let mut rest = &region[HEADER_WORDS..needed];
        let bucket_count = bucket_count(&config);
        let buckets = cut(&mut rest, bucket_count * LOCK_WORDS);
        let mut cores = Vec::new();
        for (index, island) in config.islands.iter().enumerate() {
            for _ in 0..island.cores {
                let counters = cut(&mut rest, COUNTER_WORDS);
                let own = cut(&mut rest, LOCK_WORDS);
                cores.push(CoreState {
                    counters,
                    claim: &own[0],
                    instruction_lines_lost: &own[1],
                    l1i: take_array(&island.l1i, &mut rest),
                    l1d: take_array(&island.l1d, &mut rest),
                    l2: take_array(&island.l2, &mut rest),
                    locks: cut(&mut rest, island.l2.sets.next_multiple_of(8)),
                    island: index,
                });
            }
        }
        let domains = config.domains.iter().map(|domain| DomainState {
            l3: take_array(&domain.l3, &mut rest),
            sharers: cut(&mut rest, (domain.l3.sets * domain.l3.ways).next_multiple_of(8)),
            first_core: domain.first_core,
            real: domain.l3.real,
        });
        let domains = domains.collect();
        Ok(Self { cores, domains, buckets, bucket_count, config })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Claims a core, to drive it from one thread; `None` while another thread or process has it.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn core(&self, core: usize) -> Option<Core<'_>> {
        let claim = self.cores[core].claim;
        claim.compare_exchange(0, 1, Acquire, Relaxed).ok()?;
        Some(Core::new(self, core))
    }

    /// The number of a core of an island, as [`Model::core`] wants it.
    pub fn core_number(&self, island: usize, core: usize) -> usize {
        self.config.islands[island].first_core + core
    }

    /// A snapshot of a core's counters; exact when the core stands still.
    pub fn counters(&self, core: usize) -> Counters {
        let state = &self.cores[core];
        let timing = &self.config.islands[state.island].timing;
        let mut counters = Counters::load(state.counters);
        // Not counted on the path of L1 hits, because it follows from what is.
        counters.stall_l1_ps = counters.fetches.wrapping_sub(counters.l1i_misses).wrapping_mul(timing.l1i_ps)
            + counters.data_accesses().wrapping_sub(counters.l1d_misses).wrapping_mul(timing.l1d_ps)
            + counters.atomics * timing.atomic_ps;
        counters
    }

    /// From ringing a doorbell to the other island's first instruction.
    pub fn doorbell(&self, from_island: usize, to_island: usize) -> Picoseconds {
        Picoseconds(self.config.links[from_island][to_island].doorbell_ps)
    }

    /// A transfer by a device. Caches are not touched.
    pub fn dma(&self, bytes: u64) -> Picoseconds {
        Picoseconds(self.config.dma_setup_ps + (bytes * self.config.dma_kib_ps).div_ceil(1024))
    }

    /// Locks the directory for a line, and for every line that can be in the same set of any L2 or L3.
    pub(crate) fn lock_line(&self, line: u64, core: usize) -> Guard<'a> {
        let bucket = (line as usize & (self.bucket_count - 1)) * LOCK_WORDS;
        lock(&self.buckets[bucket], core)
    }
}

fn cut<'a>(rest: &mut &'a [AtomicU64], count: usize) -> &'a [AtomicU64] {
    let (front, back) = rest.split_at(count);
    *rest = back;
    front
}

fn padded(geometry: &Geometry) -> usize {
    array::words(geometry).next_multiple_of(8)
}

fn take_array<'a>(geometry: &Geometry, rest: &mut &'a [AtomicU64]) -> Array<'a> {
    let mut words = cut(rest, padded(geometry));
    Array::take(geometry, &mut words)
}

/// Victims share their set, hence their line number's low bits, with the line that replaces them: with no more locks than
/// the smallest L2 or L3 has sets, one lock covers both.
fn bucket_count(config: &Config) -> usize {
    let l2 = config.islands.iter().map(|island| island.l2.sets);
    let l3 = config.domains.iter().map(|domain| domain.l3.sets);
    l2.chain(l3).min().unwrap_or(1).min(BUCKETS_MAX)
}

/// A place where another thread may come between; the unit tests' threads let it happen there.
#[inline(always)]
pub(crate) fn window() {
    #[cfg(test)]
    crate::meeting::pause();
}

/// A held lock.
#[must_use]
pub(crate) struct Guard<'a>(&'a AtomicU64);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

/// Takes a lock; its word then names the core, for whoever looks at a stuck region.
#[inline]
pub(crate) fn lock(word: &AtomicU64, core: usize) -> Guard<'_> {
    let mut tries = 0_u32;
    while word.compare_exchange_weak(0, core as u64 + 1, Acquire, Relaxed).is_err() {
        tries += 1;
        // The holder may be a thread that is not running.
        if tries < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
    Guard(word)
}
