//! Which kernels a world has: its islands have one together, or each has one of its own, with windows to the others (`docs/protocols/messages.md`).
//!
//! A kernel of its own is island 0 of its pool. The world's numbers go on: core `index` of kernel `k` is core `index` of island `k` to the driver.

use std::sync::atomic::{AtomicU32, Ordering};

use motet_layout::{
    CORES_PER_ISLAND_MAX, CoreId, CoreRecord, FINGERPRINT, ISLAND_BOOTING, IslandId, IslandRecord, POOL_MAGIC,
    POOL_VERSION, Peers, Pool, Windows,
};
use motet_protocol::{peer::bell_of, ring};

use crate::config::{Config, IslandConfig, WindowConfig};
use crate::region::{Region, Shape};

/// A world's kernels.
pub struct Kernels {
    /// By kernel.
    pools: Vec<Pool>,
    windows: Vec<Windows>,
    islands: usize,
    /// Those that the host has given a command, a bit each.
    commanded: u32,
    /// Those that are dead and do not join again, a bit each.
    dead: AtomicU32,
}

/// The core that has this number to the driver.
pub fn core_of(number: usize) -> CoreId {
    CoreId::new(IslandId((number / CORES_PER_ISLAND_MAX) as u8), number % CORES_PER_ISLAND_MAX)
}

/// The memory that a machine needs.
pub fn shape(config: &Config) -> Shape {
    match config.windows {
        None => Shape { kernels: 1, own_len: config.pool_len, window_len: 0, is_common: false },
        Some(windows) => Shape {
            kernels: config.islands.len(),
            own_len: config.pool_len,
            window_len: ring::window_len(windows.slots, windows.slot_len),
            is_common: windows.by_reference,
        },
    }
}

impl Kernels {
    /// The kernels of a machine, whose pools `prepare` fills behind the headers.
    pub fn new(config: &Config, region: &Region, mut prepare: impl FnMut(usize, Pool)) -> Self {
        let count = shape(config).kernels;
        let (pools, windows) = ((0..count).map(|kernel| region.pool(kernel)).collect::<Vec<_>>(), 0..count);
        let mut commanded = 0;
        for (kernel, &pool) in pools.iter().enumerate() {
            write_header(pool, config, kernel);
            prepare(kernel, pool);
            commanded |= u32::from(pool.header().command_args.get() != 0) << kernel;
        }
        let windows = windows.map(|kernel| region.windows(kernel)).collect();
        Self { pools, windows, islands: config.islands.len(), commanded, dead: AtomicU32::new(0) }
    }

    /// Whether each island has one of its own.
    pub fn are_many(&self) -> bool {
        self.pools.len() > 1
    }

    /// The pools, by kernel.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// The pool of all islands, or of the first one's kernel.
    pub fn first_pool(&self) -> Pool {
        self.pools[0]
    }

    /// The kernel of an island.
    fn of(&self, island: IslandId) -> usize {
        if self.are_many() { island.index() } else { 0 }
    }

    /// The pool of an island's kernel.
    pub fn pool(&self, island: IslandId) -> Pool {
        self.pools[self.of(island)]
    }

    /// The windows of an island's kernel.
    pub fn windows(&self, island: IslandId) -> Windows {
        self.windows[self.of(island)]
    }

    /// The number that an island has for its kernel.
    pub fn own_island(&self, island: IslandId) -> IslandId {
        if self.are_many() { IslandId(0) } else { island }
    }

    /// The number that a core has for its kernel.
    pub fn own_core(&self, core: CoreId) -> CoreId {
        CoreId::new(self.own_island(core.island()), core.index_in_island())
    }

    /// The record of an island, in its kernel's pool.
    pub fn island_record(&self, island: IslandId) -> &'static IslandRecord {
        &self.pool(island).header().islands[self.own_island(island).index()]
    }

    /// The record of a core, in its kernel's pool.
    pub fn core_record(&self, core: CoreId) -> &'static CoreRecord {
        &self.pool(core.island()).header().cores[self.own_core(core).index()]
    }

    /// The core that the kernel of `island` means by a number: its own, or by its doorbells another kernel's.
    pub fn named_by(&self, island: IslandId, core: CoreId) -> Option<CoreId> {
        if !self.are_many() {
            return Some(core);
        }
        let bell = self.island_record(island).doorbell_peers.get(core.island().index())?.get();
        IslandId::from_raw(bell).map(|other| CoreId::new(other, core.index_in_island()))
    }

    /// The island of that number in a kernel's pool.
    pub fn island_of(&self, kernel: usize, own: IslandId) -> IslandId {
        if self.are_many() { IslandId(kernel as u8) } else { own }
    }

    /// A kernel of its own has died; the others are not told.
    pub fn bury(&self, island: IslandId) {
        self.dead.fetch_or(1 << island.0, Ordering::Relaxed);
    }

    /// Whether all islands have joined.
    pub fn have_joined(&self) -> bool {
        self.pools.iter().all(|pool| self.has_joined(*pool))
    }

    fn has_joined(&self, pool: Pool) -> bool {
        pool.header().joined.load(Ordering::Relaxed) == (self.islands / self.pools.len()) as u32
    }

    /// Writes the host's clock into the header of each kernel that still boots.
    pub fn show_clock(&self, now_ns: u64) {
        for pool in self.pools.iter().filter(|pool| !self.has_joined(**pool)) {
            pool.header().host_clock_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Whether the run is over: the machine has set its exit word; if there are many, each kernel that lives has joined, and has done so if it was given a command.
    pub fn have_ended(&self) -> bool {
        let has_ended = |pool: &Pool| pool.header().exit.load(Ordering::Acquire) != 0;
        if !self.are_many() {
            return has_ended(&self.pools[0]);
        }
        let lives = |kernel: usize| self.dead.load(Ordering::Relaxed) & 1 << kernel == 0;
        let is_done = |kernel: usize| self.commanded & 1 << kernel == 0 || has_ended(&self.pools[kernel]);
        let mut living = (0..self.pools.len()).filter(|&kernel| lives(kernel));
        living.all(|kernel| self.has_joined(self.pools[kernel]) && is_done(kernel))
    }

    /// Each kernel's exit status. `None`: its command has not ended.
    pub fn statuses(&self) -> Vec<Option<u32>> {
        self.pools.iter().map(|pool| pool.header().exit.load(Ordering::Acquire).checked_sub(1)).collect()
    }
}

/// Describes the machine to a kernel: all of it, or its own part.
fn write_header(pool: Pool, config: &Config, kernel: usize) {
    let islands = match config.windows {
        None => &config.islands[..],
        Some(_) => &config.islands[kernel..=kernel],
    };
    let header = pool.header();
    header.magic.set(POOL_MAGIC);
    header.version.set(POOL_VERSION);
    header.island_count.set(islands.len() as u32);
    header.fingerprint.set(FINGERPRINT);
    header.pool_len.set(config.pool_len);
    header.uncached.set(u32::from(config.uncached));
    header.calls_by.set(config.calls_by);
    header.host_peer.set(config.islands.len() as u32);
    header.realtime_at_zero_ns.set(1_700_000_000_000_000_000);
    for (index, word) in header.seed.iter().enumerate() {
        word.set(0x9e37_79b9_7f4a_7c15u64.rotate_left((index + kernel) as u32));
    }
    for (record, island) in header.islands.iter().zip(islands) {
        write_island(record, island, config, kernel);
    }
    if let Some(windows) = config.windows {
        write_peers(&header.peers, windows, shape(config), kernel);
    }
}

fn write_island(record: &IslandRecord, island: &IslandConfig, config: &Config, kernel: usize) {
    record.isa.set(island.isa as u32);
    record.core_count.set(island.cores as u32);
    for (place, slot) in (0..).zip(&record.doorbell_peers) {
        slot.set(bell(config, kernel, place));
    }
    record.paging.set(island.paging as u32);
    record.state.store(ISLAND_BOOTING, Ordering::Relaxed);
    record.private_len.set(64 << 20);
    record.poll_ns.set(island.poll_ns);
    let (len, behind_len) = (config.pool_len, shape(config).behind_len());
    let below = island.split_at.unwrap_or(len);
    let high = (4 << 30) + below;
    let pieces = [(0, island.local_base, below), (below, high, len - below), (len, high + len - below, behind_len)];
    let pieces = pieces.into_iter().filter(|(_, _, len)| *len != 0);
    for (range, (offset, local, len)) in record.ranges.iter().zip(pieces) {
        range.pool_offset.set(offset);
        range.local_phys.set(local);
        range.len.set(len);
    }
    for (byte, value) in record.extensions.iter().zip(island.extensions.bytes()) {
        byte.store(value, Ordering::Relaxed);
    }
}

/// The doorbell in a place of a kernel's records: of an island, or of another kernel.
fn bell(config: &Config, kernel: usize, place: u32) -> u32 {
    let kernels = config.windows.map_or(0, |_| config.islands.len() as u32);
    (0..kernels).find(|&node| bell_of(kernel as u32, node).island().0 == place as u8).unwrap_or(place)
}

fn write_peers(peers: &Peers, windows: WindowConfig, shape: Shape, kernel: usize) {
    peers.node.set(kernel as u32);
    peers.count.set(shape.kernels as u32);
    peers.slots.set(windows.slots);
    peers.slot_len.set(windows.slot_len);
    peers.coalesces.set(windows.coalesces.into());
    peers.prefetch.set(windows.prefetch);
    peers.by_reference.set(windows.by_reference.into());
    peers.windows_len.set(shape.windows_len());
    for (other, window) in peers.windows.iter().enumerate() {
        window.set(shape.window(kernel, other).unwrap_or(0));
    }
}
