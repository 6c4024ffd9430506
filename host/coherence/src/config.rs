//! The model's configuration, resolved to numbers: what [`crate::ModelTable::resolve`] makes of a machine description.
//!
//! All latencies are picoseconds and are from the request to the data.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use serde::Deserialize;

use crate::{Kind, resolve::alone_space};

/// Which line of a full set is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The least recently used one.
    #[default]
    Lru,
    /// The one that a binary tree of "went the other way" bits points at; needs a power of two of ways, at most 64.
    TreePlru,
    /// Any, by a generator with a seed.
    Random,
}

/// How an island caches a range of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// In its caches, coherently with every other island.
    #[default]
    Coherent,
    /// In its caches, coherently only among its own cores; software keeps islands apart.
    Private,
    /// Not at all: each access pays the range's latency.
    Uncached,
}

/// Classes of instructions that may differ in cycles per instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Integer arithmetic, moves, and everything not listed below.
    #[default]
    Integer,
    /// Jumps, branches, calls.
    Branch,
    /// Loads and stores, atomics included; without their memory stalls.
    Memory,
    /// Scalar floating point.
    Float,
    /// Vector instructions.
    Vector,
    /// Privileged instructions, barriers.
    System,
}

/// Number of [`Class`]es.
pub const CLASSES: usize = 6;

/// Shape of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// A power of two.
    pub sets: usize,
    /// Lines in a set.
    pub ways: usize,
    /// Which line of a full set goes.
    pub replacement: Replacement,
    /// False: no cache, only the directory's knowledge of what the level below holds; large enough never to evict.
    pub real: bool,
}

/// A translation look-aside buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlbConfig {
    /// Translations; sets are a power of two.
    pub entries: usize,
    /// In a set.
    pub ways: usize,
    /// A bit for each size of pages that it has, by shift: 1 << 12 for 4 KiB, which each has.
    pub page_shifts: u64,
}

/// The translation look-aside buffers of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlbsConfig {
    /// First level, for instructions.
    pub l1i: TlbConfig,
    /// First level, for data.
    pub l1d: TlbConfig,
    /// Second level, for both.
    pub l2: Option<TlbConfig>,
    /// Latency of the second level, in picoseconds, also for finding that it has nothing.
    pub l2_ps: u64,
    /// Tables of each level that the walker remembers.
    pub walk_cache_entries: usize,
}

/// Latencies of an island's cores, in picoseconds unless named otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// One cycle, in femtoseconds.
    pub cycle_fs: u64,
    /// One instruction of each class without memory stalls, in femtoseconds.
    pub instruction_fs: [u64; CLASSES],
    /// Instruction fetch that hits L1.
    pub l1i_ps: u64,
    /// Data access that hits L1.
    pub l1d_ps: u64,
    /// Hit in L2.
    pub l2_ps: u64,
    /// Hit in L3; zero without L3.
    pub l3_ps: u64,
    /// Extra, when another core under the same L3 must give up or hand over a line.
    pub peer_ps: u64,
    /// Extra, for an atomic read-modify-write.
    pub atomic_ps: u64,
    /// Traps and what goes with them.
    pub traps: Traps,
}

impl Timing {
    /// The clock's frequency.
    pub fn frequency_mhz(&self) -> u64 {
        1_000_000_000 / self.cycle_fs.max(1)
    }
}

/// What a core takes to change between a program and its kernel, in picoseconds, beside the instructions and memory accesses
/// of either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Traps {
    /// From a fault or an interrupt to the handler's first instruction.
    pub entry_ps: u64,
    /// The instruction that ends a handler, to the first instruction after it.
    pub exit_ps: u64,
    /// As `entry_ps`, of an instruction for system calls that has an entry of its own.
    pub syscall_entry_ps: u64,
    /// As `exit_ps`, of the instruction that goes with it.
    pub syscall_exit_ps: u64,
    /// Telling the interrupt controller that an interrupt has been handled.
    pub end_of_interrupt_ps: u64,
    /// From an interrupt that is not another core's doorbell to the first instruction of a core that sleeps.
    pub wake_ps: u64,
}

/// A piece of an island's physical memory, and how its cores reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Local physical address of the first byte; a multiple of the line size.
    pub local: u64,
    /// Bytes.
    pub size: u64,
    /// Local plus this, wrapping, is the global address that data is cached under.
    pub data_delta: u64,
    /// The same for instructions.
    pub fetch_delta: u64,
    /// How data is cached.
    pub data: Policy,
    /// How instructions are cached.
    pub fetch: Policy,
    /// Latency of a read of data that memory serves.
    pub load_ps: u64,
    /// Latency of an instruction fetch that memory serves.
    pub fetch_ps: u64,
    /// Latency of an uncached store.
    pub store_ps: u64,
    /// Whether counters say "far".
    pub far: bool,
    /// A bit for each other island that caches this memory coherently, where this one does not.
    pub coherent_elsewhere: u64,
    /// A bit for each other island that caches it privately.
    pub private_elsewhere: u64,
    /// The link with a bandwidth that it is reached over: a place in [`Config::queues`].
    pub queue: Option<usize>,
    /// Whether a miss may be more than a line that comes from memory: it is mixed, or reached over such a link.
    pub unusual: bool,
}

impl Segment {
    /// Latency of a read that memory serves, of instructions or of data.
    #[inline(always)]
    pub(crate) const fn read_ps(&self, instruction: bool) -> u64 {
        if instruction { self.fetch_ps } else { self.load_ps }
    }

    /// Whether other islands may do to this memory what the caches of this island's cores do not learn of, or the other way round.
    #[inline(always)]
    pub(crate) const fn is_mixed(&self) -> bool {
        matches!(self.data, Policy::Private) || self.coherent_elsewhere | self.private_elsewhere != 0
    }

    /// Whether data crosses a link with a bandwidth at each access.
    pub(crate) const fn is_uncached_over_link(&self) -> bool {
        matches!(self.data, Policy::Uncached) && self.queue.is_some()
    }
}

/// A link with a bandwidth, as one island reaches one range over it. The same holds for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueConfig {
    /// Bytes in a microsecond.
    pub bandwidth_mb_s: u64,
    /// Bytes of a transfer beside its data.
    pub packet_bytes: u64,
    /// Link time of the stores that may be under way while their core goes on.
    pub posted_ps: u64,
    /// Time within which the order of transfers does not matter: at least as long as the longest takes, less than 2^32.
    pub window_ps: u64,
    /// Stores that follow each other in a line become one transfer.
    pub combine: bool,
    /// Cores of the island.
    pub cores: usize,
}

impl QueueConfig {
    /// How long the link is in use for so many bytes, those beside the data included.
    pub const fn link_ps(&self, bytes: u64) -> u64 {
        (bytes * 1_000_000).div_ceil(self.bandwidth_mb_s)
    }
}

/// One island.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IslandConfig {
    /// Its name.
    pub name: String,
    /// Its cores are numbered from here, over the whole machine.
    pub first_core: usize,
    /// How many it has.
    pub cores: usize,
    /// The last-level cache it is under.
    pub domain: usize,
    /// Latencies.
    pub timing: Timing,
    /// Each core's instruction cache.
    pub l1i: Geometry,
    /// Each core's data cache.
    pub l1d: Geometry,
    /// Each core's second level.
    pub l2: Geometry,
    /// Each core's translation look-aside buffers; `None`: translation is free.
    pub tlbs: Option<TlbsConfig>,
    /// Its memory, in order of local address.
    pub segments: Vec<Segment>,
}

impl IslandConfig {
    /// The global address under which a core of the island reaches a local one; `None` where it has no memory.
    pub fn global(&self, kind: Kind, local: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| local.wrapping_sub(segment.local) < segment.size)?;
        let delta = if kind == Kind::Fetch { segment.fetch_delta } else { segment.data_delta };
        Some(local.wrapping_add(delta))
    }
}

/// Extra latencies between two islands, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// The other's copies are invalidated.
    pub snoop_invalidate_ps: u64,
    /// The other's exclusive copy becomes shared.
    pub snoop_data_ps: u64,
    /// From a store until the other can see it, if it polls.
    pub transit_ps: u64,
    /// From ringing the other's doorbell to its first instruction.
    pub doorbell_ps: u64,
}

/// A last-level cache and the cores under it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DomainConfig {
    /// Shape of the cache, or of the directory that stands in for it.
    pub l3: Geometry,
    /// First core under it.
    pub first_core: usize,
    /// Number of cores under it, at most 64.
    pub cores: usize,
    /// An island under it, whose link costs count for the domain.
    pub island: usize,
}

/// A part of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeConfig {
    /// Its name in the machine description.
    pub name: String,
    /// First byte, as an offset into the pool.
    pub start: u64,
    /// One past its last byte.
    pub end: u64,
    /// A bit for each island, by number, that it is near to.
    pub near: u32,
}

/// Everything the model needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The islands.
    pub islands: Vec<IslandConfig>,
    /// The last-level caches.
    pub domains: Vec<DomainConfig>,
    /// The parts of the pool, in order and without gaps.
    pub ranges: Vec<RangeConfig>,
    /// Row: the island that asks; column: the one that is asked.
    pub links: Vec<Vec<Link>>,
    /// The links with a bandwidth.
    pub queues: Vec<QueueConfig>,
    /// A last-level cache takes back what its cores hold.
    pub back_invalidate_ps: u64,
    /// A modified line goes to memory.
    pub write_back_ps: u64,
    /// A load from a device register.
    pub device_ps: u64,
    /// A store to one.
    pub device_store_ps: u64,
    /// A transfer by a device, before its first byte.
    pub dma_setup_ps: u64,
    /// Each 1024 bytes of it.
    pub dma_kib_ps: u64,
    /// Of random replacement.
    pub seed: u64,
}

impl Config {
    /// A transfer by a device, in picoseconds.
    pub const fn dma_ps(&self, bytes: u64) -> u64 {
        self.dma_setup_ps + (bytes * self.dma_kib_ps).div_ceil(1024)
    }

    /// How long a store of 8 bytes at a pool offset keeps a core of an island, where it does not cache that; 0 where it does. Behind others,
    /// it waits until the link takes it.
    pub fn store_ps(&self, island: usize, offset: u64) -> u64 {
        let is_there = |segment: &&Segment| {
            let start = segment.local.wrapping_add(segment.data_delta);
            segment.data == Policy::Uncached && (start..start.saturating_add(segment.size)).contains(&offset)
        };
        let Some(segment) = self.islands[island].segments.iter().find(is_there) else { return 0 };
        let queue = segment.queue.map(|number| &self.queues[number]);
        segment.store_ps.max(queue.map_or(0, |queue| queue.link_ps(8 + queue.packet_bytes)))
    }

    /// Whether islands do not cache memory that others do. Where nobody caches data, nothing is to be kept coherent.
    pub fn has_uncached_links(&self) -> bool {
        let mut segments = self.islands.iter().flat_map(|island| &island.segments);
        self.islands.iter().any(|island| island.l1d.real) && segments.any(|segment| segment.data == Policy::Uncached)
    }

    /// Cores of all islands.
    pub fn core_count(&self) -> usize {
        self.islands.iter().map(|island| island.cores).sum()
    }

    /// The island that a core belongs to.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn island_of(&self, core: usize) -> usize {
        self.islands
            .iter()
            .position(|island| (island.first_core..island.first_core + island.cores).contains(&core))
            .expect("core numbers are below core_count")
    }

    /// The parts of the pool that an island caches privately, by offset.
    pub fn private_parts(&self, island: usize) -> impl Iterator<Item = Range<u64>> {
        let segments = self.islands[island].segments.iter().filter(|segment| segment.data == Policy::Private);
        segments.map(move |segment| {
            let start = segment.local.wrapping_add(segment.data_delta).wrapping_sub(alone_space(island));
            start..start + segment.size
        })
    }

    /// A number that differs between configurations, so that processes notice when theirs do.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// FNV-1a: the same in every process, unlike the standard library's hasher by promise.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
