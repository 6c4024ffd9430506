//! The region: where everything lies in it, who made it, and what is shared by all cores.

use std::fmt;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Picoseconds;
use crate::array::{self, Array};
use crate::bandwidth::{Queue, Sender};
use crate::config::{Config, DomainConfig, IslandConfig};
use crate::core::Core;
use crate::counters::{COUNTER_WORDS, CounterWords, Counters};
use crate::doubt::{DOUBT_WORDS, Doubt};
use crate::elsewhere::{StaleLines, StalePage, StalePages};
use crate::keep;
use crate::locks::Askers;

/// "motetcoh", read as a little-endian word.
const MAGIC: u64 = 0x686f_6374_6574_6f6d;
/// Changes with the layout of the region.
const VERSION: u64 = 12;
/// Words before everything else: magic, version, fingerprint, length, sharing, keeping.
const HEADER_WORDS: usize = 8;
/// The header's words that are 1 if threads may meet, and if cores may keep their directories.
const SHARING: usize = 4;
const KEEPING: usize = 5;
/// Words between the L1s of a core and its L2. A set of L1 and the one of L2 for the same line would otherwise lie a multiple of
/// 4096 bytes apart, where host processors take a load of the one for a load of what was just stored to the other, and wait
/// (Intel's optimization manual, "Memory disambiguation", 4K aliasing).
const APART_WORDS: usize = 256;
/// Words per core beside its caches and counts: a line, so that cores do not share one.
const OWN_WORDS: usize = 8;
/// Words per directory for who keeps it: likewise.
const KEPT_WORDS: usize = 8;

/// Who may be inside the model at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One thread at a time, of whatever process; what it has done is visible to the next one. No lock is taken and
    /// nothing is atomic. Should two threads meet after all, then counts, costs and the invariants may be wrong, and
    /// nothing else is.
    OneAtATime,
    /// Each core may have a thread of its own, all at once.
    Threads,
}

/// The words of one core's caches.
pub(crate) struct CoreState<'a> {
    pub(crate) l1i: Array<'a>,
    pub(crate) l1d: Array<'a>,
    /// Its sets' locks: who changes the set, or the L1 lines it includes. Held by the core itself for L2 hits, by others
    /// for snoops. If it is its own directory, they are the directory's locks.
    pub(crate) l2: Array<'a>,
    pub(crate) counters: &'a CounterWords,
    /// 1 while a [`Core`] exists.
    pub(crate) claim: &'a AtomicU64,
    /// 1 while the core changes a directory that it keeps (`keep.rs`).
    pub(crate) inside: &'a AtomicU64,
    /// How often it has kept its directory.
    pub(crate) times_kept: &'a AtomicU64,
    /// Its transfers over links with a bandwidth.
    pub(crate) sender: Sender<'a>,
    /// Its clock, and what others took from it.
    pub(crate) doubt: Doubt<'a>,
    pub(crate) island: usize,
}

/// The words of one last-level cache, which is also the directory of the cores under it.
pub(crate) struct DomainState<'a> {
    /// A line's link: which cores hold it, one bit each. If `solo`, this is the core's L2, and the link is the flags that
    /// an L3 has in its tag.
    pub(crate) l3: Array<'a>,
    pub(crate) first_core: usize,
    pub(crate) real: bool,
    /// There is no L3 and one core, so that its L2 knows all that a directory would.
    pub(crate) solo: bool,
    /// One core is under it.
    pub(crate) single: bool,
    /// The bits of a line number that say which set of `l3` has its lock. Victims share their set, hence these bits, with
    /// the line that replaces them: there are no more locks than the smallest L2 or L3 has sets, so one covers both.
    pub(crate) lock_mask: u64,
    /// Who keeps it (`keep.rs`).
    pub(crate) kept: &'a AtomicU64,
}

impl<'a> DomainState<'a> {
    /// All its locks.
    pub(crate) fn locks(&self) -> impl Iterator<Item = &'a AtomicU64> {
        (0..=self.lock_mask).map(|line| self.l3.set(line).lock())
    }
}

/// The model of a machine, over a region that other processes may share.
pub struct Model<'a> {
    pub(crate) config: Config,
    pub(crate) cores: Vec<CoreState<'a>>,
    pub(crate) domains: Vec<DomainState<'a>>,
    pub(crate) askers: Askers<'a>,
    /// By island.
    pub(crate) stale: Vec<StaleLines<'a>>,
    pub(crate) stale_pages: StalePages<'a>,
    /// As in [`Config::queues`].
    pub(crate) queues: Vec<Queue<'a>>,
    /// Whether threads may meet, and locks are needed.
    pub(crate) threads: bool,
    /// Whether cores may keep their directories to themselves.
    pub(crate) keeps: bool,
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
    /// Its cores keep their directories, and the host does not let this process take part in that (membarrier(2)).
    NoBarriers,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { words, needed } => write!(f, "the region has {words} words and needs {needed}"),
            Self::NotCreated => f.write_str("the region holds no model of this version"),
            Self::OtherConfig => f.write_str("the region was made for another machine description"),
            Self::NoBarriers => f.write_str("the host refuses membarrier(2), which other processes of the machine use"),
        }
    }
}

impl std::error::Error for RegionError {}

/// Memory for a model of one process.
#[derive(Debug)]
pub struct Region {
    memory: Vec<AtomicU64>,
    /// Words to the first host cache line.
    before: usize,
}

/// Zeroed memory for a model of one process.
pub fn allocate(words: usize) -> Region {
    let memory: Vec<_> = std::iter::repeat_with(|| AtomicU64::new(0)).take(words + 7).collect();
    let before = memory.as_ptr().align_offset(64).min(7);
    Region { memory, before }
}

impl std::ops::Deref for Region {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        &self.memory[self.before..self.memory.len() - 7 + self.before]
    }
}

impl<'a> Model<'a> {
    /// Words that a region needs. Its first word should begin a host cache line.
    pub fn region_words(config: &Config) -> usize {
        let core = |island: &IslandConfig| {
            let caches = [&island.l1i, &island.l1d, &island.l2].map(array::words).iter().sum::<usize>();
            island.cores * (caches + COUNTER_WORDS + OWN_WORDS + APART_WORDS + DOUBT_WORDS)
        };
        let cores: usize = config.islands.iter().map(core).sum();
        let directories = config.domains.iter().filter(|domain| !is_solo(config, domain));
        let domains: usize = directories.map(|domain| array::words(&domain.l3)).sum();
        let stale: usize = config.islands.iter().map(|island| StaleLines::words(config, island)).sum();
        let others = Askers::words(config) + stale + StalePages::WORDS + Queue::words(config);
        HEADER_WORDS + others + cores + domains + KEPT_WORDS * config.domains.len()
    }

    /// Makes a model with empty caches, whatever the region holds. Nobody else may use the region yet.
    ///
    /// # Errors
    /// A region that is too small.
    pub fn create(config: Config, region: &'a [AtomicU64], sharing: Sharing) -> Result<Self, RegionError> {
        let threads = sharing == Sharing::Threads;
        let keeps = threads && keep::join_barriers();
        let model = Self { threads, keeps, ..Self::lay_out(config, region)? };
        region[0].store(0, Relaxed);
        model.askers.reset();
        model.stale.iter().for_each(StaleLines::reset);
        model.stale_pages.reset();
        model.queues.iter().for_each(Queue::reset);
        for (index, core) in model.cores.iter().enumerate() {
            let seed = model.config.seed ^ (index as u64) << 48;
            core.l1i.reset(seed ^ 1 << 40);
            core.l1d.reset(seed ^ 2 << 40);
            core.l2.reset(seed ^ 3 << 40);
            core.counters.iter().for_each(|word| word.store(0, Relaxed));
            [core.claim, core.inside, core.times_kept].into_iter().for_each(|word| word.store(0, Relaxed));
            core.sender.reset();
            core.doubt.reset();
        }
        model.domains.iter().for_each(|domain| domain.kept.store(keep::NOBODY, Relaxed));
        for (index, domain) in model.domains.iter().enumerate().filter(|(_, domain)| !domain.solo) {
            domain.l3.reset(model.config.seed ^ (index as u64) << 48 ^ 4 << 40);
        }
        for (word, value) in region[1..].iter().zip(model.identity()) {
            word.store(value, Relaxed);
        }
        region[SHARING].store(u64::from(threads), Relaxed);
        region[KEEPING].store(u64::from(keeps), Relaxed);
        region[0].store(MAGIC, Release);
        Ok(model)
    }

    /// Joins a model that another process, or another part of this one, has made; who may be in it was said then.
    ///
    /// # Errors
    /// A region that is too small, not created yet, or made for another configuration; a host whose processes differ in what
    /// they may do.
    pub fn attach(config: Config, region: &'a [AtomicU64]) -> Result<Self, RegionError> {
        let mut model = Self::lay_out(config, region)?;
        if region[0].load(Acquire) != MAGIC || region[1].load(Relaxed) != VERSION {
            return Err(RegionError::NotCreated);
        }
        if region[1..].iter().zip(model.identity()).any(|(word, value)| word.load(Relaxed) != value) {
            return Err(RegionError::OtherConfig);
        }
        model.threads = region[SHARING].load(Relaxed) != 0;
        model.keeps = region[KEEPING].load(Relaxed) != 0;
        if model.keeps && !keep::join_barriers() {
            return Err(RegionError::NoBarriers);
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
        let askers = Askers::take(&config, &mut rest);
        let stale = config.islands.iter().map(|island| StaleLines::take(&config, island, &mut rest)).collect();
        let stale_pages = StalePages::new(cut(&mut rest, StalePages::WORDS));
        let queues = config.queues.iter().map(|queue| Queue::take(queue, &mut rest)).collect();
        let mut cores = Vec::new();
        for (index, island) in config.islands.iter().enumerate() {
            for _ in 0..island.cores {
                let counters = cut(&mut rest, COUNTER_WORDS);
                let own = cut(&mut rest, OWN_WORDS);
                cores.push(CoreState {
                    counters: counters.try_into().expect("as many as were cut"),
                    claim: &own[0],
                    inside: &own[1],
                    times_kept: &own[2],
                    sender: Sender::new(own[3..7].try_into().expect("four of them")),
                    l1i: Array::take(&island.l1i, &mut rest),
                    l1d: Array::take(&island.l1d, &mut rest),
                    l2: Array::take(&island.l2, cut_apart(&mut rest)),
                    doubt: Doubt::new(cut(&mut rest, DOUBT_WORDS)),
                    island: index,
                });
            }
        }
        let domains = config.domains.iter().enumerate().map(|(number, domain)| {
            let solo = is_solo(&config, domain);
            let l3 = if solo { cores[domain.first_core].l2 } else { Array::take(&domain.l3, &mut rest) };
            let l2_sets = config.islands.iter().filter(|island| island.domain == number).map(|island| island.l2.sets);
            let l3_sets = if solo { None } else { Some(domain.l3.sets) };
            let locks = l2_sets.chain(l3_sets).min().unwrap_or(1);
            DomainState {
                l3,
                first_core: domain.first_core,
                real: domain.l3.real,
                solo,
                single: domain.cores == 1,
                lock_mask: locks as u64 - 1,
                kept: &cut(&mut rest, KEPT_WORDS)[0],
            }
        });
        let domains = domains.collect();
        Ok(Self { cores, domains, askers, stale, stale_pages, queues, config, threads: true, keeps: false })
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

    /// The first pages in which reads were stale (`stale_reads`), at most [`STALE_PAGES`](crate::STALE_PAGES) of all cores together.
    pub fn stale_pages(&self) -> Vec<StalePage> {
        self.stale_pages.all().collect()
    }

    /// From ringing a doorbell to the other island's first instruction.
    pub fn doorbell(&self, from_island: usize, to_island: usize) -> Picoseconds {
        Picoseconds(self.config.links[from_island][to_island].doorbell_ps)
    }

    /// A transfer by a device. Caches are not touched.
    pub fn dma(&self, bytes: u64) -> Picoseconds {
        Picoseconds(self.config.dma_ps(bytes))
    }
}

/// Whether a core's L2 is its own directory ([`DomainState::solo`]).
fn is_solo(config: &Config, domain: &DomainConfig) -> bool {
    !domain.l3.real && domain.cores == 1 && config.islands[domain.island].l2.real
}

/// What is left behind [`APART_WORDS`].
fn cut_apart<'r, 'a>(rest: &'r mut &'a [AtomicU64]) -> &'r mut &'a [AtomicU64] {
    cut(rest, APART_WORDS);
    rest
}

fn cut<'a>(rest: &mut &'a [AtomicU64], count: usize) -> &'a [AtomicU64] {
    let (front, back) = rest.split_at(count);
    *rest = back;
    front
}

/// A place where another thread may come between; the unit tests' threads let it happen there.
#[inline(always)]
pub(crate) fn window() {
    #[cfg(test)]
    crate::meeting::pause();
}
