//! From a machine's shape and its `[model]` table to numbers; everything inconsistent is refused here, by key.

use std::ops::Range;

use crate::{
    LINE_SIZE, Model,
    bandwidth::WORD_BYTES,
    bytes::Bytes,
    config::{
        Config, DomainConfig, Geometry, IslandConfig, Link, Policy, QueueConfig, RangeConfig, Replacement, Segment,
        Timing, TlbConfig, TlbsConfig, Traps,
    },
    error::{Key, Result, fail},
    table::{AccessTable, CacheTable, CoreTable, ModelTable, TlbTable},
    tlb::PAGE_SHIFTS,
    validate::check_link,
};

/// Global addresses of island `i`'s private memory begin at `(i + 1) * PRIVATE_SPACE`; the pool's begin at 0, and are the only
/// ones of which several islands can hold lines.
const PRIVATE_SPACE: u64 = 1 << 44;
/// What is added to addresses that an island caches without coherence: its lines are its own.
pub(crate) const fn alone_space(island: usize) -> u64 {
    (island as u64 + 1) << 50
}
/// Cores under one last-level cache: their bits fit one word.
const DOMAIN_CORES_MAX: usize = 64;
/// What `[[model.access]]` calls the records of the island and of its cores.
pub(crate) const RECORDS: &str = "records";
/// `posted_bytes`, if it is not given: 64 stores of 32 bytes with their headers.
const POSTED_BYTES: u64 = 2048;
/// The usual quantum, which cores' clocks differ by.
const QUANTUM_PS: u64 = 10_000_000;
/// Most windows that the posted stores of one core take.
const POSTED_WINDOWS: u64 = 16;
/// Most host memory for a model, in bytes.
const MODEL_SIZE_MAX: u64 = 4 << 30;

/// What a machine consists of, apart from its `[model]`.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Bytes in the pool.
    pub pool: u64,
    /// The islands, in order.
    pub islands: Vec<Island>,
    /// Parts of the pool that are in memory near an island, whatever range they lie in: first byte, end, island.
    pub own: Vec<(u64, u64, usize)>,
}

/// An island's part of the [`Shape`].
#[derive(Clone, Debug)]
pub struct Island {
    /// Its name in the machine description.
    pub name: String,
    /// Cores that run.
    pub cores: usize,
    /// Its map of physical memory.
    pub memory: Vec<Piece>,
    /// What its traps take where `[[model.core]]` does not say.
    pub traps: TrapCycles,
}

/// What traps take on cores of an instruction set, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrapCycles {
    /// `trap_entry_cycles`.
    pub entry: u64,
    /// `trap_exit_cycles`.
    pub exit: u64,
    /// `syscall_entry_cycles` and `syscall_exit_cycles`; `None`: system calls are traps like others.
    pub syscall: Option<[u64; 2]>,
    /// `end_of_interrupt_cycles`.
    pub end_of_interrupt: u64,
    /// `wake_cycles`.
    pub wake: u64,
}

/// A piece of an island's physical memory map.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Local physical address.
    pub local: u64,
    /// Bytes.
    pub size: u64,
    /// What is there.
    pub target: Target,
}

/// What a [`Piece`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Private memory, from this offset.
    Private(u64),
    /// The pool, from this offset.
    Pool(u64),
}

impl ModelTable {
    /// Resolves the table for a machine.
    ///
    /// # Errors
    /// Names that do not exist, caches that cannot be built, ranges that do not cover the pool exactly.
    pub fn resolve(&self, shape: &Shape) -> Result<Config> {
        if shape.islands.is_empty() || shape.islands.iter().any(|island| island.cores == 0) {
            return fail(&Key::model(), "a machine has at least one island, and an island at least one core");
        }
        self.check(shape)?;
        let ranges = self.ranges(shape)?;
        let mut islands = Vec::new();
        let mut first_core = 0;
        for (index, island) in shape.islands.iter().enumerate() {
            islands.push(self.island(shape, index, first_core, &ranges)?);
            first_core += island.cores;
        }
        note_others(&mut islands);
        let domains = self.domains(&mut islands)?;
        let dma = &self.dma;
        let config = Config {
            domains,
            ranges,
            links: self.links(shape),
            queues: self.queues(shape),
            back_invalidate_ps: self.link.back_invalidate_ns.unwrap_or(0) * 1000,
            write_back_ps: self.link.write_back_ns.unwrap_or(0) * 1000,
            device_ps: self.device_ns.unwrap_or(500) * 1000,
            device_store_ps: self.device_store_ns.unwrap_or(0) * 1000,
            dma_setup_ps: dma.setup_ns.unwrap_or(1000) * 1000,
            dma_kib_ps: dma.kib_ns.unwrap_or(128) * 1000,
            seed: self.seed,
            islands,
        };
        let bytes = Model::region_words(&config) as u64 * 8;
        if bytes > MODEL_SIZE_MAX {
            let message =
                format!("the caches are too large: to model them takes {} MiB of the host's memory", bytes >> 20);
            return fail(&Key::model(), message);
        }
        Ok(config)
    }

    /// The table that says what an island's cores are, and its key.
    fn core_table(&self, name: &str) -> Result<(CoreTable, Key)> {
        let key = Key::model().name("core");
        let named = self.core.iter().position(|core| core.island.as_deref() == Some(name));
        match named.or_else(|| self.core.iter().position(|core| core.island.is_none())) {
            Some(index) => Ok((self.core[index].clone(), key.index(index))),
            None if self.core.is_empty() => Ok((CoreTable::default(), key)),
            None => fail(&key, format!("there is none for island \"{name}\", and none without `island`")),
        }
    }

    fn island(&self, shape: &Shape, index: usize, first_core: usize, ranges: &[RangeConfig]) -> Result<IslandConfig> {
        let (island, own) = (&shape.islands[index], &shape.own);
        let (table, key) = self.core_table(&island.name)?;
        check_syscalls(island, &table, &key)?;
        let timing = timing(&table, &island.traps);
        let l1i = self.geometry(table.l1i.as_ref());
        let l1d = self.geometry(table.l1d.as_ref());
        let l2 = match &table.l2 {
            Some(cache) => self.geometry(Some(cache)),
            None => standing_in(&[l1i, l1d]),
        };
        self.check_distances(index, island, &table, &key, &timing, ranges)?;
        let mut config = IslandConfig {
            name: island.name.clone(),
            first_core,
            cores: island.cores,
            domain: index,
            timing,
            l1i,
            l1d,
            l2,
            tlbs: tlbs(&table),
            segments: Vec::new(),
        };
        for piece in &island.memory {
            config.segments.extend(self.segments(index, island, piece, &table, ranges, own)?);
        }
        config.segments.sort_by_key(|segment| segment.local);
        if config.segments.windows(2).any(|pair| pair[0].local + pair[0].size > pair[1].local) {
            return fail(&Key::model(), format!("the memory map of \"{}\" overlaps itself", island.name));
        }
        Ok(config)
    }

    fn geometry(&self, cache: Option<&CacheTable>) -> Geometry {
        match cache {
            Some(cache) => geometry(cache.size, cache.ways, cache.replacement.unwrap_or(self.replacement)),
            None => Geometry { sets: 1, ways: 1, replacement: Replacement::Lru, real: false },
        }
    }

    /// That memory has a latency, and one that goes with what is nearer.
    fn check_distances(
        &self,
        index: usize,
        island: &Island,
        table: &CoreTable,
        key: &Key,
        timing: &Timing,
        ranges: &[RangeConfig],
    ) -> Result<()> {
        let near = |name: &str| {
            ranges.iter().find(|range| range.name == name).is_none_or(|range| range.near >> index & 1 != 0)
        };
        let far_of = |range: &&RangeConfig| {
            !near(&range.name) && self.rule(island, &range.name).is_none_or(|(_, rule)| rule.memory_ns.is_none())
        };
        if let Some(range) = ranges.iter().find(far_of).filter(|_| table.remote_cycles.is_none()) {
            let message = format!("is missing: \"{}\" is not near to \"{}\"", range.name, island.name);
            return fail(&key.name("remote_cycles"), message);
        }
        for (at, rule) in self.access.iter().enumerate().filter(|(_, rule)| rule.island == island.name) {
            let key = Key::model().name("access").index(at);
            let ways = Ways::of(table, Some(rule));
            if rule.store_ns.is_some() && ways.data != Policy::Uncached {
                return fail(&key.name("store_ns"), "is for stores past the caches; with it goes data = \"uncached\"");
            }
            check_link(&key, rule, near(&rule.range), ways.data)?;
            let fetches_cached = ways.fetch != Policy::Uncached;
            let cached = ways.data != Policy::Uncached || fetches_cached;
            for (name, ns, cached) in
                [("memory_ns", rule.memory_ns, cached), ("fetch_ns", rule.fetch_ns, fetches_cached)]
            {
                let Some(memory_ps) = ns.map(|ns| ns * 1000) else { continue };
                let slowest_ps = timing.l1i_ps.max(timing.l1d_ps).max(timing.l2_ps).max(timing.l3_ps);
                if cached && memory_ps < slowest_ps {
                    let message = format!("{memory_ps} ps are less than the {slowest_ps} ps of the caches before it");
                    return fail(&key.name(name), message);
                }
                let near_ps = cycles_ps(table.memory_cycles, table.frequency_mhz);
                if !near(&rule.range) && memory_ps < near_ps {
                    let message = format!(
                        "{memory_ps} ps are less than the {near_ps} ps of near memory; is \"{}\" near?",
                        rule.range
                    );
                    return fail(&key.name(name), message);
                }
            }
        }
        Ok(())
    }

    /// What `[[model.access]]` says about an island and a range, and where.
    fn rule(&self, island: &Island, range: &str) -> Option<(usize, &AccessTable)> {
        self.access.iter().enumerate().find(|(_, rule)| rule.island == island.name && rule.range == range)
    }

    fn segments(
        &self,
        index: usize,
        island: &Island,
        piece: &Piece,
        table: &CoreTable,
        ranges: &[RangeConfig],
        own: &[(u64, u64, usize)],
    ) -> Result<Vec<Segment>> {
        if (piece.local | piece.size) % LINE_SIZE != 0 || piece.local.checked_add(piece.size).is_none() {
            return fail(&Key::model(), format!("the memory map of \"{}\" is not made of whole lines", island.name));
        }
        let alone = alone_space(index);
        let make = |local: u64, size: u64, global: u64, near: bool, access: Option<&AccessTable>| {
            let cycles = if near { table.memory_cycles } else { table.remote_cycles.unwrap_or(table.memory_cycles) };
            let load_ps = access
                .and_then(|access| access.memory_ns)
                .map_or_else(|| cycles_ps(cycles, table.frequency_mhz), |ns| ns * 1000);
            let fetch_ps = access.and_then(|access| access.fetch_ns).map_or(load_ps, |ns| ns * 1000);
            let Ways { data, fetch } = Ways::of(table, access);
            let delta = |policy| {
                let space = if policy == Policy::Private { alone } else { 0 };
                (global + space).wrapping_sub(local)
            };
            let (data_delta, fetch_delta) = (delta(data), delta(fetch));
            let store_ns = access.and_then(|access| access.store_ns);
            let posted_ps =
                || access.and_then(|access| queue(access, island.cores)).map_or(load_ps, |queue| issue_ps(&queue));
            let store_ps = store_ns.map_or_else(posted_ps, |ns| ns * 1000);
            let (coherent_elsewhere, private_elsewhere) = (0, 0);
            let far = !near;
            Segment {
                local,
                size,
                data_delta,
                fetch_delta,
                data,
                fetch,
                load_ps,
                fetch_ps,
                store_ps,
                far,
                coherent_elsewhere,
                private_elsewhere,
                queue: access.and_then(|access| self.queue_number(access)),
                unusual: false,
            }
        };
        let rule = |range: &str| self.rule(island, range).map(|(_, rule)| rule);
        Ok(match piece.target {
            Target::Private(offset) => {
                let global = PRIVATE_SPACE * (index as u64 + 1) + offset;
                vec![make(piece.local, piece.size, global, true, rule("private"))]
            }
            Target::Pool(offset) => parts(ranges, own)
                .into_iter()
                .filter_map(|part| {
                    let (from, to) = (part.start.max(offset), part.end.min(offset + piece.size));
                    let near = part.range.near >> index & 1 != 0;
                    let own_rule = if part.record_of == Some(index) { rule(RECORDS) } else { None };
                    let access = own_rule.or_else(|| rule(&part.range.name));
                    (from < to).then(|| make(piece.local + (from - offset), to - from, from, near, access))
                })
                .collect(),
        })
    }

    /// The links with a bandwidth.
    fn queues(&self, shape: &Shape) -> Vec<QueueConfig> {
        let cores =
            |name: &str| shape.islands.iter().find(|island| island.name == name).map_or(1, |island| island.cores);
        self.access.iter().filter_map(|rule| queue(rule, cores(&rule.island))).collect()
    }

    /// The place of a rule's link among those that have a bandwidth.
    fn queue_number(&self, rule: &AccessTable) -> Option<usize> {
        let mut with_bandwidth = self.access.iter().filter(|other| other.bandwidth_mb_s.is_some());
        with_bandwidth.position(|other| (&other.island, &other.range) == (&rule.island, &rule.range))
    }

    fn domains(&self, islands: &mut [IslandConfig]) -> Result<Vec<DomainConfig>> {
        let mut domains = Vec::new();
        if let Some(l3) = &self.l3 {
            let l3 = geometry(l3.size, l3.ways, l3.replacement.unwrap_or(self.replacement));
            let cores = islands.iter().map(|island| island.cores).sum();
            domains.push(DomainConfig { l3, first_core: 0, cores, island: 0 });
            islands.iter_mut().for_each(|island| island.domain = 0);
        } else {
            for (index, island) in islands.iter().enumerate() {
                let (table, _) = self.core_table(&island.name)?;
                let l3 = match &table.l3 {
                    Some(cache) => self.geometry(Some(cache)),
                    None => standing_in(&vec![island.l2; island.cores]),
                };
                domains.push(DomainConfig { l3, first_core: island.first_core, cores: island.cores, island: index });
            }
        }
        match domains.iter().find(|domain| domain.cores > DOMAIN_CORES_MAX) {
            Some(domain) => {
                let message = format!("{} cores are under it; at most {DOMAIN_CORES_MAX} are possible", domain.cores);
                fail(&Key::model().name("l3"), message)
            }
            None => Ok(domains),
        }
    }

    fn links(&self, shape: &Shape) -> Vec<Vec<Link>> {
        let pair = |one: &str, other: &str| {
            let special = self.link.pair.iter().find(|pair| {
                let [first, second] = &pair.islands;
                (first == one && second == other) || (first == other && second == one)
            });
            let pick = |special: Option<u64>, general: Option<u64>, default: u64| {
                special.or(general).unwrap_or(default) * 1000
            };
            Link {
                snoop_invalidate_ps: pick(
                    special.and_then(|pair| pair.snoop_invalidate_ns),
                    self.link.snoop_invalidate_ns,
                    150,
                ),
                snoop_data_ps: pick(special.and_then(|pair| pair.snoop_data_ns), self.link.snoop_data_ns, 150),
                transit_ps: pick(special.and_then(|pair| pair.transit_ns), self.link.transit_ns, 0),
                doorbell_ps: pick(special.and_then(|pair| pair.doorbell_ns), self.doorbell_ns, 2000),
            }
        };
        let row = |one: &Island| shape.islands.iter().map(|other| pair(&one.name, &other.name)).collect();
        shape.islands.iter().map(row).collect()
    }
}

/// A part of the pool that is all of one kind.
struct Part<'a> {
    start: u64,
    end: u64,
    /// Where it is in memory.
    range: &'a RangeConfig,
    /// The island whose record it is.
    record_of: Option<usize>,
}

/// The parts of the pool, in order: the ranges, but for islands' records, each in a range that is near its island if one is.
fn parts<'a>(ranges: &'a [RangeConfig], own: &[(u64, u64, usize)]) -> Vec<Part<'a>> {
    let whole = |range: &'a RangeConfig| Part { start: range.start, end: range.end, range, record_of: None };
    let mut parts: Vec<_> = ranges.iter().map(whole).collect();
    for &(start, end, island) in own {
        let is_near = |range: &RangeConfig| range.near >> island & 1 != 0;
        let Some(at) = parts.iter().position(|part| part.start <= start && end <= part.end) else { continue };
        let around = parts[at].range;
        let range = if is_near(around) { around } else { ranges.iter().find(|range| is_near(range)).unwrap_or(around) };
        let (before, after) = (Part { end: start, ..parts[at] }, Part { start: end, ..parts[at] });
        let record = Part { start, end, range, record_of: Some(island) };
        parts.splice(at..=at, [before, record, after].into_iter().filter(|part| part.start < part.end));
    }
    parts
}

/// Notes in each segment of the pool which other islands cache the same memory, and how, where that is not coherent with this one.
fn note_others(islands: &mut [IslandConfig]) {
    let of_island = |(index, island): (usize, &IslandConfig)| {
        island
            .segments
            .iter()
            .map(move |segment| (index, pool_offsets(index, segment), segment.data))
            .collect::<Vec<_>>()
    };
    let all: Vec<_> = islands.iter().enumerate().flat_map(of_island).collect();
    for (index, island) in islands.iter_mut().enumerate() {
        for segment in &mut island.segments {
            let own = pool_offsets(index, segment);
            let overlaps = |theirs: &Range<u64>| theirs.start < own.end && own.start < theirs.end;
            for (other, _, data) in all.iter().filter(|(other, theirs, _)| *other != index && overlaps(theirs)) {
                match data {
                    Policy::Private => segment.private_elsewhere |= 1 << other,
                    Policy::Coherent if segment.data != Policy::Coherent => segment.coherent_elsewhere |= 1 << other,
                    Policy::Coherent | Policy::Uncached => {}
                }
            }
            segment.unusual = segment.is_mixed() || segment.queue.is_some();
        }
    }
}

/// Where a segment is in the pool; private memory is beyond it, at addresses that no other island has.
fn pool_offsets(island: usize, segment: &Segment) -> Range<u64> {
    let space = if segment.data == Policy::Private { alone_space(island) } else { 0 };
    let start = segment.local.wrapping_add(segment.data_delta).wrapping_sub(space);
    start..start.saturating_add(segment.size)
}

impl Default for CoreTable {
    /// A server core of 2 GHz with 32 KiB, 1 MiB and 4 MiB of cache (Stramash, Table 2, Xeon Gold).
    fn default() -> Self {
        let cache =
            |kib: u64, ways, cycles| Some(CacheTable { size: Bytes(kib << 10), ways, cycles, replacement: None });
        Self {
            island: None,
            frequency_mhz: 2000,
            cpi: None,
            cpi_class: Default::default(),
            l1i: cache(32, 8, 0),
            l1d: cache(32, 8, 4),
            l2: cache(1024, 16, 14),
            l3: cache(4096, 16, 50),
            l3_cycles: Some(50),
            peer_cycles: None,
            atomic_cycles: None,
            trap_entry_cycles: None,
            trap_exit_cycles: None,
            syscall_entry_cycles: None,
            syscall_exit_cycles: None,
            end_of_interrupt_cycles: None,
            wake_cycles: None,
            itlb: None,
            dtlb: None,
            l2_tlb: None,
            walk_cache_entries: None,
            memory_cycles: 300,
            remote_cycles: Some(640),
        }
    }
}

fn cycles_ps(cycles: u64, frequency_mhz: u64) -> u64 {
    (cycles * 1_000_000 + frequency_mhz / 2) / frequency_mhz
}

/// That only cores with instructions for system calls say what these take.
fn check_syscalls(island: &Island, table: &CoreTable, key: &Key) -> Result<()> {
    let given =
        [("syscall_entry_cycles", table.syscall_entry_cycles), ("syscall_exit_cycles", table.syscall_exit_cycles)];
    match given.into_iter().find(|(_, cycles)| cycles.is_some()) {
        Some((name, _)) if island.traps.syscall.is_none() && table.island.is_some() => {
            let message = format!(
                "system calls of \"{}\" are traps like others: trap_entry_cycles, trap_exit_cycles",
                island.name
            );
            fail(&key.name(name), message)
        }
        _ => Ok(()),
    }
}

fn tlbs(table: &CoreTable) -> Option<TlbsConfig> {
    let tlb = |tlb: &TlbTable| TlbConfig {
        entries: tlb.entries,
        ways: tlb.ways,
        page_shifts: match &tlb.pages {
            Some(pages) => pages.iter().map(|page| page.0).sum(),
            None => PAGE_SHIFTS.iter().map(|shift| 1 << shift).sum(),
        },
    };
    Some(TlbsConfig {
        l1i: tlb(table.itlb.as_ref()?),
        l1d: tlb(table.dtlb.as_ref()?),
        l2: table.l2_tlb.as_ref().map(|second| tlb(&second.geometry())),
        l2_ps: cycles_ps(table.l2_tlb.as_ref().map_or(0, |second| second.cycles), table.frequency_mhz),
        walk_cache_entries: table.walk_cache_entries.unwrap_or(0),
    })
}

fn traps(table: &CoreTable, usual: &TrapCycles) -> Traps {
    let ps = |given: Option<u64>, usual: u64| cycles_ps(given.unwrap_or(usual), table.frequency_mhz);
    let entry = table.trap_entry_cycles.unwrap_or(usual.entry);
    let exit = table.trap_exit_cycles.unwrap_or(usual.exit);
    let syscall = |given: Option<u64>, index: usize, trap: u64| {
        usual.syscall.map_or(cycles_ps(trap, table.frequency_mhz), |cycles| ps(given, cycles[index]))
    };
    Traps {
        entry_ps: ps(None, entry),
        exit_ps: ps(None, exit),
        syscall_entry_ps: syscall(table.syscall_entry_cycles, 0, entry),
        syscall_exit_ps: syscall(table.syscall_exit_cycles, 1, exit),
        end_of_interrupt_ps: ps(table.end_of_interrupt_cycles, usual.end_of_interrupt),
        wake_ps: ps(table.wake_cycles, usual.wake),
    }
}

fn timing(table: &CoreTable, usual: &TrapCycles) -> Timing {
    let mhz = table.frequency_mhz;
    let classes = table.cpi_class.named();
    let instruction_fs =
        classes.map(|(_, class)| (class.or(table.cpi).unwrap_or(1.0) * 1e9 / mhz as f64).round() as u64);
    let cache = |cache: &Option<CacheTable>| cycles_ps(cache.as_ref().map_or(0, |cache| cache.cycles), mhz);
    Timing {
        cycle_fs: 1_000_000_000 / mhz,
        instruction_fs,
        l1i_ps: cache(&table.l1i),
        l1d_ps: cache(&table.l1d),
        l2_ps: cache(&table.l2),
        l3_ps: if table.l3.is_some() { cache(&table.l3) } else { cycles_ps(table.l3_cycles.unwrap_or(0), mhz) },
        peer_ps: cycles_ps(table.peer_cycles.unwrap_or(30), mhz),
        atomic_ps: cycles_ps(table.atomic_cycles.unwrap_or(0), mhz),
        traps: traps(table, usual),
    }
}

/// The link that a rule tells of, for an island of so many cores. A window has room for two quanta of each; it is longer if that is
/// too short for the longest transfer, or posted stores would fill many.
fn queue(rule: &AccessTable, cores: usize) -> Option<QueueConfig> {
    let (bandwidth_mb_s, packet_bytes) = (rule.bandwidth_mb_s?, rule.packet_bytes.unwrap_or(0));
    let combine = rule.combine.unwrap_or(false);
    let queue = QueueConfig { bandwidth_mb_s, packet_bytes, posted_ps: 0, window_ps: 0, combine, cores };
    let posted_ps = queue.link_ps(rule.posted_bytes.unwrap_or(POSTED_BYTES));
    let longest_ps = queue.link_ps(LINE_SIZE + packet_bytes);
    let window_ps = (2 * QUANTUM_PS * cores as u64).max(longest_ps).max(posted_ps / POSTED_WINDOWS);
    Some(QueueConfig { posted_ps, window_ps, ..queue })
}

/// What a store of eight bytes costs its core where nothing else is said: its part of the link time, so that one core is as fast
/// as the link.
fn issue_ps(queue: &QueueConfig) -> u64 {
    let words = LINE_SIZE / WORD_BYTES;
    if queue.combine {
        queue.link_ps(LINE_SIZE + queue.packet_bytes).div_ceil(words)
    } else {
        queue.link_ps(WORD_BYTES + queue.packet_bytes)
    }
}

/// How an island's caches treat a range.
struct Ways {
    data: Policy,
    fetch: Policy,
}

impl Ways {
    fn of(table: &CoreTable, access: Option<&AccessTable>) -> Self {
        let asked = access.and_then(|access| access.data).unwrap_or_default();
        let data = if table.l1d.is_some() { asked } else { Policy::Uncached };
        let asked = access.and_then(|access| access.fetch).unwrap_or(asked);
        let fetch = if table.l1i.is_some() { asked } else { Policy::Uncached };
        Self { data, fetch }
    }
}

/// Of a size that has been checked.
fn geometry(size: Bytes, ways: u32, replacement: Replacement) -> Geometry {
    let sets = (size.0 / (u64::from(ways) * LINE_SIZE)) as usize;
    Geometry { sets, ways: ways as usize, replacement, real: true }
}

/// A directory that can hold all that the given caches hold together, and one line more while one moves in.
fn standing_in(caches: &[Geometry]) -> Geometry {
    let sets = caches.iter().map(|cache| cache.sets).min().unwrap_or(1);
    let ways = caches.iter().map(|cache| cache.ways * (cache.sets / sets)).sum::<usize>() + 1;
    Geometry { sets, ways, replacement: Replacement::Lru, real: false }
}
