//! The `[model]` table of a machine description, as it is written.
//!
//! Every key has a default, so `[model]` alone is a model. [`ModelTable::resolve`] joins it with the machine's shape.

use serde::Deserialize;

use crate::{
    bytes::Bytes,
    config::{CLASSES, Policy, Replacement},
};

/// `[model]`: caches, latencies and links of a machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelTable {
    /// Which line of a full set goes, in caches that do not say otherwise.
    pub replacement: Replacement,
    /// Seed of random replacement.
    pub seed: u64,
    /// From ringing a doorbell to the other core's first instruction, in nanoseconds. Default: 2000 (Stramash, section 9.1.1).
    pub doorbell_ns: Option<u64>,
    /// A load from a device register, in nanoseconds. Default: 500.
    pub device_ns: Option<u64>,
    /// A store to a device register, in nanoseconds. Default: 0, as the core goes on while it is on its way.
    pub device_store_ns: Option<u64>,
    /// `[model.dma]`.
    pub dma: DmaTable,
    /// `[model.link]`.
    pub link: LinkTable,
    /// `[model.l3]`: one last-level cache for all islands, instead of one each.
    pub l3: Option<SharedL3Table>,
    /// `[[model.core]]`: the cores of each island.
    pub core: Vec<CoreTable>,
    /// `[[model.range]]`: the parts of the pool that differ in distance. Default: one, near every island.
    pub range: Vec<RangeTable>,
    /// `[[model.access]]`: how an island reaches a range, where distance alone does not say it.
    pub access: Vec<AccessTable>,
}

/// `[model.dma]`: a transfer by a device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DmaTable {
    /// Nanoseconds before the first byte. Default: 1000.
    pub setup_ns: Option<u64>,
    /// Nanoseconds for each 1024 bytes. Default: 128 (8 GB/s).
    pub kib_ns: Option<u64>,
}

/// `[model.link]`: what crossing from one last-level cache to another costs, on top of the memory access.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkTable {
    /// Another side's copies are invalidated for a write (CXL: snoop invalidate), in nanoseconds. Default: 150.
    pub snoop_invalidate_ns: Option<u64>,
    /// Another side's exclusive copy becomes shared for a read (CXL: snoop data), in nanoseconds. Default: 150.
    pub snoop_data_ns: Option<u64>,
    /// From a store until another island that polls can see it, in nanoseconds, on top of what the store costs its core. Default: 0
    /// (where islands' caches are coherent, taking the line for the store is what it takes).
    pub transit_ns: Option<u64>,
    /// A last-level cache takes back what its cores hold, to make room, in nanoseconds. Default: 0 (overlapped).
    pub back_invalidate_ns: Option<u64>,
    /// A modified line goes to memory, in nanoseconds. Default: 0 (overlapped).
    pub write_back_ns: Option<u64>,
    /// `[[model.link.pair]]`: pairs that differ.
    pub pair: Vec<PairTable>,
}

/// `[[model.link.pair]]`: two islands with costs of their own, in both directions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairTable {
    /// The two islands' names.
    #[serde(deserialize_with = "two_names")]
    pub islands: [String; 2],
    /// As in `[model.link]`.
    pub snoop_invalidate_ns: Option<u64>,
    /// As in `[model.link]`.
    pub snoop_data_ns: Option<u64>,
    /// As in `[model.link]`.
    pub transit_ns: Option<u64>,
    /// As in `[model]`.
    pub doorbell_ns: Option<u64>,
}

/// An array of two: of itself, a longer one would be cut.
fn two_names<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<[String; 2], D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names
        .try_into()
        .map_err(|names: Vec<String>| serde::de::Error::custom(format_args!("{} islands; a pair is two", names.len())))
}

/// `[model.l3]`: geometry of the one last-level cache. Its latency is each island's `l3_cycles`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedL3Table {
    /// Bytes.
    pub size: Bytes,
    /// Lines in a set.
    pub ways: u32,
    /// Which line of a full set goes.
    pub replacement: Option<Replacement>,
}

/// `[[model.core]]`: the cores of an island. Latencies are from the request to the data, not per level.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreTable {
    /// The island's name; without it, this is what all islands have that no other table names.
    pub island: Option<String>,
    /// Clock frequency.
    pub frequency_mhz: u64,
    /// Cycles per instruction, memory stalls apart. Default: 1.
    pub cpi: Option<f64>,
    /// Cycles per instruction of classes that differ.
    #[serde(default)]
    pub cpi_class: ClassTable,
    /// First-level instruction cache. Without it, instructions are not cached.
    pub l1i: Option<CacheTable>,
    /// First-level data cache. Without it, data is not cached.
    pub l1d: Option<CacheTable>,
    /// Second level, for instructions and data.
    pub l2: Option<CacheTable>,
    /// The island's last level, unless the machine has one for all.
    pub l3: Option<CacheTable>,
    /// Latency of `[model.l3]`; needed if there is one.
    pub l3_cycles: Option<u64>,
    /// Extra cycles to fetch from, or invalidate in, another core under the same last-level cache. Default: 30.
    pub peer_cycles: Option<u64>,
    /// Extra cycles of an atomic read-modify-write. Default: 0.
    pub atomic_cycles: Option<u64>,
    /// From a fault or an interrupt to the handler's first instruction. Default: by ISA, as all of traps.
    pub trap_entry_cycles: Option<u64>,
    /// The instruction that ends a handler.
    pub trap_exit_cycles: Option<u64>,
    /// x86-64's `syscall`.
    pub syscall_entry_cycles: Option<u64>,
    /// x86-64's `sysret`.
    pub syscall_exit_cycles: Option<u64>,
    /// Telling the interrupt controller that an interrupt has been handled.
    pub end_of_interrupt_cycles: Option<u64>,
    /// From an interrupt that is not another core's doorbell to the first instruction of a core that sleeps.
    pub wake_cycles: Option<u64>,
    /// First-level translation look-aside buffer for instructions. Without it, translation is free.
    pub itlb: Option<TlbTable>,
    /// The same for data; both or none.
    pub dtlb: Option<TlbTable>,
    /// Second level, for both.
    pub l2_tlb: Option<SecondTlbTable>,
    /// Tables of each level that the page-table walker remembers. Default: 0, it reads all.
    pub walk_cache_entries: Option<usize>,
    /// Latency of private memory and of near ranges.
    pub memory_cycles: u64,
    /// Latency of the other ranges. Needed if there are such without a latency of their own (`[[model.access]]`).
    pub remote_cycles: Option<u64>,
}

/// `cpi_class = { float = 2.0 }`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassTable {
    /// Integer arithmetic, moves, and everything not listed below.
    pub integer: Option<f64>,
    /// Jumps, branches, calls.
    pub branch: Option<f64>,
    /// Loads and stores, atomics included; without their memory stalls.
    pub memory: Option<f64>,
    /// Scalar floating point.
    pub float: Option<f64>,
    /// Vector instructions.
    pub vector: Option<f64>,
    /// Privileged instructions, barriers.
    pub system: Option<f64>,
}

impl ClassTable {
    /// Each class's key and value, in the order of [`Class`](crate::Class).
    pub(crate) fn named(&self) -> [(&'static str, Option<f64>); CLASSES] {
        [
            ("integer", self.integer),
            ("branch", self.branch),
            ("memory", self.memory),
            ("float", self.float),
            ("vector", self.vector),
            ("system", self.system),
        ]
    }
}

/// `{ size = "32KiB", ways = 8, cycles = 4 }`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    /// Bytes.
    pub size: Bytes,
    /// Lines in a set.
    pub ways: u32,
    /// Latency of a hit.
    pub cycles: u64,
    /// Which line of a full set goes.
    pub replacement: Option<Replacement>,
}

/// `{ entries = 64, ways = 4, pages = ["4KiB", "2MiB"] }`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbTable {
    /// Translations.
    pub entries: usize,
    /// In a set.
    pub ways: usize,
    /// Sizes of pages that it has; what is larger is kept in parts. Default: 4 KiB, 2 MiB and 1 GiB.
    pub pages: Option<Vec<Bytes>>,
}

/// The same with `cycles`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondTlbTable {
    /// As in [`TlbTable`].
    pub entries: usize,
    /// As in [`TlbTable`].
    pub ways: usize,
    /// As in [`TlbTable`].
    pub pages: Option<Vec<Bytes>>,
    /// Latency of a look-up.
    pub cycles: u64,
}

impl SecondTlbTable {
    /// Its geometry.
    pub(crate) fn geometry(&self) -> TlbTable {
        TlbTable { entries: self.entries, ways: self.ways, pages: self.pages.clone() }
    }
}

/// `[[model.range]]`: a part of the pool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeTable {
    /// Its name; `private` stands for islands' private memory and cannot be used.
    pub name: String,
    /// First byte, as an offset into the pool. Default: where the range before it ends.
    pub start: Option<Bytes>,
    /// End. Default: the pool's.
    pub end: Option<Bytes>,
    /// Islands that this range is near to.
    #[serde(default)]
    pub near: Vec<String>,
}

/// `[[model.access]]`: how one island reaches one range.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessTable {
    /// The island's name.
    pub island: String,
    /// A range's name, or `private`.
    pub range: String,
    /// Latency, in nanoseconds. Default: by distance.
    pub memory_ns: Option<u64>,
    /// Latency of instruction fetches that no cache serves, in nanoseconds. Default: as `memory_ns`.
    pub fetch_ns: Option<u64>,
    /// Latency of a store, if data is uncached, in nanoseconds. Default: as a load; with a bandwidth, the link time of eight bytes.
    pub store_ns: Option<u64>,
    /// What the link carries in each direction, in megabytes (10^6 bytes) per second. Default: no limit.
    pub bandwidth_mb_s: Option<u64>,
    /// Bytes of each transfer beside its data: header, sequence number, check sum. Default: 0.
    pub packet_bytes: Option<u64>,
    /// Bytes of uncached stores that may be under way while their core goes on. Default: 2048.
    pub posted_bytes: Option<u64>,
    /// Uncached stores that follow each other in a line become one transfer (memory type: write combining). Default: false.
    pub combine: Option<bool>,
    /// How data is cached. Default: coherently.
    pub data: Option<Policy>,
    /// How instructions are cached. Default: as data.
    pub fetch: Option<Policy>,
}
