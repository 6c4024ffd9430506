//! From a machine's shape and its `[model]` table to numbers; everything inconsistent is refused here, by key.

use std::fmt;

use crate::LINE_SIZE;
use crate::config::{
    CLASSES, Config, DomainConfig, Geometry, IslandConfig, Link, Policy, Replacement, Segment, Timing,
};
use crate::table::{AccessTable, CacheTable, CoreTable, ModelTable, RangeTable};

/// Global addresses of island `i`'s private memory begin at `(i + 1) * PRIVATE_SPACE`; the pool's begin at 0.
const PRIVATE_SPACE: u64 = 1 << 44;
/// Added, times the island's number plus one, to what an island caches without coherence: a line of its own.
const ALONE_SPACE: u64 = 1 << 50;
/// Lines below this are of the pool and coherent: the only ones that several islands can hold.
pub(crate) const SHARED_LINES: u64 = PRIVATE_SPACE / LINE_SIZE;
/// Cores under one last-level cache: their bits fit one word.
const DOMAIN_CORES_MAX: usize = 64;

/// What a machine consists of, apart from its `[model]`.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Bytes in the pool.
    pub pool: u64,
    /// The islands, in order.
    pub islands: Vec<Island>,
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

/// A `[model]` that does not describe a machine that could exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The key, as in `model.core.l2`.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for ConfigError {}

type Result<T> = std::result::Result<T, ConfigError>;

fn fail<T>(key: &str, message: impl Into<String>) -> Result<T> {
    Err(ConfigError { key: key.into(), message: message.into() })
}

impl ModelTable {
    /// Resolves the table for a machine.
    ///
    /// # Errors
    /// Names that do not exist, caches that cannot be built, ranges that do not cover the pool exactly.
    pub fn resolve(&self, shape: &Shape) -> Result<Config> {
        if shape.islands.is_empty() || shape.islands.iter().any(|island| island.cores == 0) {
            return fail("island", "a machine has at least one island, and an island at least one core");
        }
        self.check_names(shape)?;
        let ranges = self.ranges(shape)?;
        let mut islands = Vec::new();
        let mut first_core = 0;
        for (index, island) in shape.islands.iter().enumerate() {
            let table = self.core_table(&island.name)?;
            islands.push(self.island(index, island, first_core, table, &ranges)?);
            first_core += island.cores;
        }
        let domains = self.domains(&mut islands)?;
        let dma = &self.dma;
        Ok(Config {
            domains,
            links: self.links(shape),
            back_invalidate_ps: self.link.back_invalidate_ns.unwrap_or(0) * 1000,
            write_back_ps: self.link.write_back_ns.unwrap_or(0) * 1000,
            device_ps: self.device_ns.unwrap_or(500) * 1000,
            dma_setup_ps: dma.setup_ns.unwrap_or(1000) * 1000,
            dma_kib_ps: dma.kib_ns.unwrap_or(128) * 1000,
            seed: self.seed,
            islands,
        })
    }

    fn check_names(&self, shape: &Shape) -> Result<()> {
        let known = |name: &String| shape.islands.iter().any(|island| &island.name == name);
        let cores = self.core.iter().filter_map(|core| core.island.as_ref()).map(|name| ("model.core.island", name));
        let near = self.range.iter().flat_map(|range| &range.near).map(|name| ("model.range.near", name));
        let access = self.access.iter().map(|access| ("model.access.island", &access.island));
        let pairs = self.link.pair.iter().flat_map(|pair| &pair.islands).map(|name| ("model.link.pair.islands", name));
        for (key, name) in cores.chain(near).chain(access).chain(pairs) {
            if !known(name) {
                return fail(key, format!("there is no island \"{name}\""));
            }
        }
        for access in &self.access {
            if access.range != "private" && !self.range.iter().any(|range| range.name == access.range) {
                return fail("model.access.range", format!("there is no range \"{}\"", access.range));
            }
        }
        for (index, core) in self.core.iter().enumerate() {
            if self.core[..index].iter().any(|other| other.island == core.island) {
                return fail("model.core.island", "two tables for the same island");
            }
        }
        Ok(())
    }

    fn core_table(&self, name: &str) -> Result<CoreTable> {
        let named = self.core.iter().find(|core| core.island.as_deref() == Some(name));
        let table = named.or_else(|| self.core.iter().find(|core| core.island.is_none()));
        match table {
            Some(table) => Ok(table.clone()),
            None if self.core.is_empty() => Ok(CoreTable::default()),
            None => fail("model.core", format!("no table for island \"{name}\", and none without `island`")),
        }
    }

    /// The pool's ranges: first byte, end, table.
    fn ranges(&self, shape: &Shape) -> Result<Vec<(u64, u64, RangeTable)>> {
        if self.range.is_empty() {
            let near = shape.islands.iter().map(|island| island.name.clone()).collect();
            return Ok(vec![(0, shape.pool, RangeTable { name: "pool".into(), start: None, end: None, near })]);
        }
        let mut ranges = Vec::new();
        let mut at = 0;
        for (index, range) in self.range.iter().enumerate() {
            let (start, end) = (range.start.map_or(at, |bytes| bytes.0), range.end.map_or(shape.pool, |bytes| bytes.0));
            if range.name == "private" || self.range[..index].iter().any(|other| other.name == range.name) {
                return fail("model.range.name", format!("\"{}\" is taken", range.name));
            }
            if start != at || end <= start || end > shape.pool || end % LINE_SIZE != 0 {
                let message =
                    format!("\"{}\" must begin at {at} and end by {}, the pool's size", range.name, shape.pool);
                return fail("model.range", message);
            }
            ranges.push((start, end, range.clone()));
            at = end;
        }
        if at != shape.pool {
            return fail("model.range", format!("ranges end at {at}, the pool at {}", shape.pool));
        }
        Ok(ranges)
    }

    fn island(
        &self,
        index: usize,
        island: &Island,
        first_core: usize,
        table: CoreTable,
        ranges: &[(u64, u64, RangeTable)],
    ) -> Result<IslandConfig> {
        let timing = timing(&table)?;
        let l1i = self.geometry("model.core.l1i", table.l1i.as_ref())?;
        let l1d = self.geometry("model.core.l1d", table.l1d.as_ref())?;
        let l2 = match &table.l2 {
            Some(cache) => self.geometry("model.core.l2", Some(cache))?,
            None => standing_in(&[l1i, l1d]),
        };
        let mut config = IslandConfig {
            name: island.name.clone(),
            first_core,
            cores: island.cores,
            domain: index,
            timing,
            l1i,
            l1d,
            l2,
            segments: Vec::new(),
        };
        for piece in &island.memory {
            config.segments.extend(self.segments(index, island, piece, &table, ranges)?);
        }
        config.segments.sort_by_key(|segment| segment.local);
        if config.segments.windows(2).any(|pair| pair[0].local + pair[0].size > pair[1].local) {
            return fail("island", format!("the memory map of \"{}\" overlaps itself", island.name));
        }
        Ok(config)
    }

    fn geometry(&self, key: &str, cache: Option<&CacheTable>) -> Result<Geometry> {
        match cache {
            Some(cache) => geometry(key, cache.size.0, cache.ways, cache.replacement.unwrap_or(self.replacement)),
            None => Ok(Geometry { sets: 1, ways: 1, replacement: Replacement::Lru, real: false }),
        }
    }

    fn segments(
        &self,
        index: usize,
        island: &Island,
        piece: &Piece,
        table: &CoreTable,
        ranges: &[(u64, u64, RangeTable)],
    ) -> Result<Vec<Segment>> {
        if (piece.local | piece.size) % LINE_SIZE != 0 || piece.local.checked_add(piece.size).is_none() {
            return fail("island", format!("the memory map of \"{}\" is not made of whole lines", island.name));
        }
        let alone = ALONE_SPACE * (index as u64 + 1);
        let make = |local: u64, size: u64, global: u64, near: bool, access: Option<&AccessTable>| {
            let cycles = if near { table.memory_cycles } else { table.remote_cycles.unwrap_or(table.memory_cycles) };
            let load_ps = access
                .and_then(|access| access.memory_ns)
                .map_or_else(|| cycles_ps(cycles, table.frequency_mhz), |ns| ns * 1000);
            let asked = access.and_then(|access| access.data).unwrap_or_default();
            let data = if table.l1d.is_some() { asked } else { Policy::Uncached };
            let asked = access.and_then(|access| access.fetch).unwrap_or(asked);
            let fetch = if table.l1i.is_some() { asked } else { Policy::Uncached };
            let delta = |policy| {
                let space = if policy == Policy::Private { alone } else { 0 };
                (global + space).wrapping_sub(local)
            };
            let (data_delta, fetch_delta) = (delta(data), delta(fetch));
            let store_ps = access.and_then(|access| access.store_ns).map_or(load_ps, |ns| ns * 1000);
            Segment { local, size, data_delta, fetch_delta, data, fetch, load_ps, store_ps, far: !near }
        };
        let rule = |range: &str| self.access.iter().find(|rule| rule.island == island.name && rule.range == range);
        Ok(match piece.target {
            Target::Private(offset) => {
                let global = PRIVATE_SPACE * (index as u64 + 1) + offset;
                vec![make(piece.local, piece.size, global, true, rule("private"))]
            }
            Target::Pool(offset) => ranges
                .iter()
                .filter_map(|(start, end, range)| {
                    let (from, to) = ((*start).max(offset), (*end).min(offset + piece.size));
                    let near = range.near.contains(&island.name);
                    (from < to).then(|| make(piece.local + (from - offset), to - from, from, near, rule(&range.name)))
                })
                .collect(),
        })
    }

    fn domains(&self, islands: &mut [IslandConfig]) -> Result<Vec<DomainConfig>> {
        let mut domains = Vec::new();
        if let Some(l3) = &self.l3 {
            if self.core.iter().any(|core| core.l3.is_some()) {
                return fail("model.l3", "there is one for the machine and one for an island");
            }
            let l3 = geometry("model.l3", l3.size.0, l3.ways, l3.replacement.unwrap_or(self.replacement))?;
            let cores = islands.iter().map(|island| island.cores).sum();
            domains.push(DomainConfig { l3, first_core: 0, cores, island: 0 });
            islands.iter_mut().for_each(|island| island.domain = 0);
        } else {
            for (index, island) in islands.iter().enumerate() {
                let table = self.core_table(&island.name)?;
                let l3 = match &table.l3 {
                    Some(cache) => self.geometry("model.core.l3", Some(cache))?,
                    None => standing_in(&vec![island.l2; island.cores]),
                };
                domains.push(DomainConfig { l3, first_core: island.first_core, cores: island.cores, island: index });
            }
        }
        match domains.iter().find(|domain| domain.cores > DOMAIN_CORES_MAX) {
            Some(domain) => {
                fail("model.l3", format!("{} cores under one, {DOMAIN_CORES_MAX} are possible", domain.cores))
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
                doorbell_ps: pick(special.and_then(|pair| pair.doorbell_ns), self.doorbell_ns, 2000),
            }
        };
        let row = |one: &Island| shape.islands.iter().map(|other| pair(&one.name, &other.name)).collect();
        shape.islands.iter().map(row).collect()
    }
}

impl Default for CoreTable {
    /// A server core of 2 GHz with 32 KiB, 1 MiB and 4 MiB of cache (Stramash, Table 2, Xeon Gold).
    fn default() -> Self {
        let cache = |kib: u64, ways, cycles| {
            Some(CacheTable { size: crate::table::Bytes(kib << 10), ways, cycles, replacement: None })
        };
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
            memory_cycles: 300,
            remote_cycles: Some(640),
        }
    }
}

fn cycles_ps(cycles: u64, frequency_mhz: u64) -> u64 {
    (cycles * 1_000_000 + frequency_mhz / 2) / frequency_mhz
}

fn timing(table: &CoreTable) -> Result<Timing> {
    let mhz = table.frequency_mhz;
    if !(1..=100_000).contains(&mhz) {
        return fail("model.core.frequency_mhz", "1 to 100000");
    }
    let classes = &table.cpi_class;
    let each = [classes.integer, classes.branch, classes.memory, classes.float, classes.vector, classes.system];
    let mut instruction_fs = [0; CLASSES];
    for (femtoseconds, class) in instruction_fs.iter_mut().zip(each) {
        let cpi = class.or(table.cpi).unwrap_or(1.0);
        if !(0.0..=1000.0).contains(&cpi) {
            return fail("model.core.cpi", "0 to 1000");
        }
        *femtoseconds = (cpi * 1e9 / mhz as f64).round() as u64;
    }
    let cache = |cache: &Option<CacheTable>| cycles_ps(cache.as_ref().map_or(0, |cache| cache.cycles), mhz);
    Ok(Timing {
        cycle_fs: 1_000_000_000 / mhz,
        instruction_fs,
        l1i_ps: cache(&table.l1i),
        l1d_ps: cache(&table.l1d),
        l2_ps: cache(&table.l2),
        l3_ps: if table.l3.is_some() { cache(&table.l3) } else { cycles_ps(table.l3_cycles.unwrap_or(0), mhz) },
        peer_ps: cycles_ps(table.peer_cycles.unwrap_or(30), mhz),
        atomic_ps: cycles_ps(table.atomic_cycles.unwrap_or(0), mhz),
    })
}

fn geometry(key: &str, size: u64, ways: u32, replacement: Replacement) -> Result<Geometry> {
    let set = u64::from(ways) * LINE_SIZE;
    if ways == 0 || ways > 1024 || size == 0 || size % set != 0 || !(size / set).is_power_of_two() || size > 1 << 32 {
        return fail(key, format!("{size} bytes in {ways} ways: the number of sets must be a power of two"));
    }
    if replacement == Replacement::TreePlru && (!ways.is_power_of_two() || ways > 64) {
        return fail(key, format!("tree-plru needs a power of two of ways, at most 64, not {ways}"));
    }
    Ok(Geometry { sets: (size / set) as usize, ways: ways as usize, replacement, real: true })
}

/// A directory that can hold all that the given caches hold together, and one line more while one moves in.
fn standing_in(caches: &[Geometry]) -> Geometry {
    let sets = caches.iter().map(|cache| cache.sets).min().unwrap_or(1);
    let ways = caches.iter().map(|cache| cache.ways * (cache.sets / sets)).sum::<usize>() + 1;
    Geometry { sets, ways, replacement: Replacement::Lru, real: false }
}
