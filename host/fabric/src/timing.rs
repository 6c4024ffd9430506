//! Timed machines: the clocks that all islands' QEMUs share, and the plugin that keeps them.

use std::{
    collections::BTreeMap,
    fs::File,
    mem::offset_of,
    ops::Range,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use motet_coherence::{Config, Model, Sharing, StalePage};
use motet_layout::{
    CORE_IDLE, CORE_OUT, CORE_POLLING, CORES_PER_ISLAND_MAX, CoreRecord, DMA_REGISTERS, PAGE_SIZE, PoolHeader,
};
use motet_protocol::Context as _;
pub use motet_record::Passage;
use motet_record::{Accesses, Passages, Probe, Record, Row, Snapshot};
use motet_timing::{ClockRegion, PACE_PARKED, PACE_WAITS, PS_PER_NS, Settings};
use rustix::{
    fs::MemfdFlags,
    mm::{self, MapFlags, ProtFlags},
};

use crate::{
    Doorbells, HostPool, qemu,
    stats::{self, CoreStats, HostStats, IslandStats, MachineStats, RegionStats, Samples, StalePageStats, Stats},
};
use motet_error::{Context, Error, ErrorKind, Result};
use motet_machine::{IslandSpec, Machine};

/// Realtime when a deterministic machine starts: 2025-01-01 UTC.
const DETERMINISTIC_START_NS: u64 = 1_735_689_600_000_000_000;

/// How time is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// The plugin's library.
    pub plugin: PathBuf,
    /// Farthest that one running core may be ahead of another, in picoseconds.
    pub quantum_ps: u64,
    /// The same after islands have exchanged nothing for long, not less.
    pub quantum_max_ps: u64,
    /// One core runs at a time, and nothing depends on the host's time.
    pub deterministic: bool,
    /// Which accesses are kept one by one.
    pub accesses: Option<AccessRange>,
    /// When cores come by which instructions is noted.
    pub points: Vec<Point>,
}

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

/// What is kept of them in memory is a hundred megabytes then.
pub const PASSAGES_MAX: usize = 4_000_000;

/// Which of the accesses that cores make in regions of interest are kept.
#[derive(Clone, Copy, Debug)]
pub struct AccessRange {
    /// So many of the first are not.
    pub skip: u64,
    /// So many of those after them are.
    pub count: usize,
}

/// The clocks of one machine. The mapping lives as long as the process.
pub struct Clocks {
    region: &'static ClockRegion,
    memory: OwnedFd,
    model: Model<'static>,
    model_memory: OwnedFd,
    record: Record<'static>,
    record_memory: OwnedFd,
    accesses: Option<(Accesses<'static>, OwnedFd)>,
    points: Option<PointFiles>,
    /// The host's time when the command had ended, as [`Record::began`].
    ended_ns: OnceLock<u64>,
    /// The machine's description, for the plugin.
    description: OwnedFd,
    plugin: File,
}

/// How far a timed machine is, for display while it runs.
#[derive(Clone, Debug, Default)]
pub struct ClockReading {
    /// Simulated time that all running cores have reached.
    pub time_ps: u64,
    /// By island: the sums over its cores.
    pub islands: Vec<IslandReading>,
}

/// What the cores of an island have done so far, added up.
#[derive(Clone, Copy, Debug, Default)]
pub struct IslandReading {
    /// Instructions executed.
    pub instructions: u64,
    /// Time that they were awake.
    pub awake_ps: u64,
    /// Of it, waiting for memory.
    pub stall_ps: u64,
}

/// The points of a run, as the plugin reads them, and where it notes passages.
struct PointFiles {
    list: OwnedFd,
    memory: OwnedFd,
    passages: Passages<'static>,
}

impl PointFiles {
    fn create(points: &[Point]) -> Result<Self> {
        let line = |point: &Point| {
            let register = point.register.as_ref().map_or(String::new(), |name| format!(" {name}"));
            format!("{} {:#x}{register}\n", point.island, point.address)
        };
        let list = qemu::memory_file(points.iter().map(line).collect::<String>().as_bytes())?;
        let words = Passages::words(PASSAGES_MAX);
        let memory = memory_file("motet-passages", words * size_of::<AtomicU64>())?;
        let passages = Passages::new(map_words(&memory, words)?);
        Ok(Self { list, memory, passages })
    }
}

/// What QEMUs are started with to load the plugin.
#[derive(Debug)]
pub struct PluginLaunch<'a> {
    /// What they inherit.
    pub descriptors: Vec<BorrowedFd<'a>>,
    words: String,
}

impl PluginLaunch<'_> {
    /// The value of `-plugin` for an island.
    pub fn argument(&self, island: usize) -> String {
        format!("{},island={island}", self.words)
    }

    /// The same for a bare board, without a kernel of Motet.
    pub fn bare_argument(&self) -> String {
        self.argument(0) + ",bare=1"
    }
}

impl Clocks {
    /// Makes the clocks, and tells the kernels that their machine is timed. Before anything else is put into the pool.
    ///
    /// # Errors
    /// A QEMU is too old or has no plugins, the plugin is not built, or the host refuses memory.
    pub fn create(options: &Options, machine: &Machine, pool: &HostPool) -> Result<Self> {
        for island in &machine.islands {
            check_harts(island)?;
            qemu::check_plugins(island.isa)?;
        }
        let what =
            || format!("the plugin {} (`cargo build --release -p motet-plugin` makes it)", options.plugin.display());
        let plugin = File::open(&options.plugin).context(ErrorKind::Unavailable, what)?;
        let config = machine.model_config()?;
        let memory = memory_file("motet-clocks", size_of::<ClockRegion>())?;
        let region = map_clocks(&memory)?;
        let words = Model::region_words(&config);
        let model_memory = memory_file("motet-model", words * size_of::<AtomicU64>())?;
        let alone = options.deterministic || config.core_count() == 1;
        let sharing = if alone { Sharing::OneAtATime } else { Sharing::Threads };
        let model = Model::create(config, map_words(&model_memory, words)?, sharing)
            .map_err(|error| Error::new(ErrorKind::Software, error.to_string()))?;
        let cores = model.config().core_count();
        let words = Record::words(cores);
        let record_memory = memory_file("motet-record", words * size_of::<AtomicU64>())?;
        let record = Record::create(map_words(&record_memory, words)?, cores, options.quantum_ps)
            .map_err(|error| Error::new(ErrorKind::Software, error.to_string()))?;
        let accesses = options.accesses.map(make_accesses).transpose()?;
        let points = if options.points.is_empty() { None } else { Some(PointFiles::create(&options.points)?) };
        let description = qemu::memory_file(machine.text.as_bytes())?;
        let &Options { quantum_ps, quantum_max_ps, deterministic, .. } = options;
        let settings = Settings { quantum_ps, quantum_max_ps, deterministic };
        region.set_up(settings, cores);
        let header = pool.header();
        for (island, spec) in machine.islands.iter().enumerate() {
            let first = island * CORES_PER_ISLAND_MAX;
            (spec.cores..spec.harts()).for_each(|hart| region.add_hidden(header, first + hart));
        }
        header.timed.set(1);
        header.uncached.set(model.config().has_uncached_links().into());
        note_private(pool, model.config());
        for (record, island) in header.islands.iter().zip(&model.config().islands) {
            record.frequency_mhz.set(u32::try_from(island.timing.frequency_mhz()).unwrap_or(u32::MAX));
        }
        note_costs(header, model.config());
        for (record, links) in header.islands.iter().zip(&model.config().links) {
            for ((doorbell_ns, transit_ns), link) in record.doorbell_ns.iter().zip(&record.transit_ns).zip(links) {
                for (word, latency_ps) in [(doorbell_ns, link.doorbell_ps), (transit_ns, link.transit_ps)] {
                    word.set(u32::try_from(latency_ps.div_ceil(PS_PER_NS)).unwrap_or(u32::MAX));
                }
            }
        }
        if options.deterministic {
            header.realtime_at_zero_ns.set(DETERMINISTIC_START_NS);
            for (index, word) in header.seed.iter().enumerate() {
                word.set(index as u64 + 1);
            }
        }
        Ok(Self {
            region,
            memory,
            model,
            model_memory,
            record,
            record_memory,
            accesses,
            points,
            ended_ns: OnceLock::new(),
            description,
            plugin,
        })
    }

    /// How to load the plugin into the islands' QEMUs.
    pub fn plugin<'a>(&'a self, pool: &'a HostPool, bells: &'a Doorbells, cores: &[usize]) -> PluginLaunch<'a> {
        let mut descriptors = vec![self.plugin.as_fd(), self.memory.as_fd(), pool.memory()];
        descriptors.extend([self.model_memory.as_fd(), self.record_memory.as_fd(), self.description.as_fd()]);
        let mut rings = Vec::new();
        for (island, &count) in cores.iter().enumerate() {
            for core in 0..count {
                let bell = bells.bell(island, core);
                rings.push(format!("{}:{}", island * CORES_PER_ISLAND_MAX + core, bell.as_raw_fd()));
                descriptors.push(bell);
            }
        }
        // By number, so that no character of a path can be misread.
        let mut words = format!(
            "/proc/self/fd/{},clocks={},pool={},model={},record={},machine={},bells={}",
            self.plugin.as_raw_fd(),
            self.memory.as_raw_fd(),
            pool.memory().as_raw_fd(),
            self.model_memory.as_raw_fd(),
            self.record_memory.as_raw_fd(),
            self.description.as_raw_fd(),
            rings.join("/")
        );
        if let Some((accesses, memory)) = &self.accesses {
            words += &format!(",accesses={}:{}", memory.as_raw_fd(), accesses.room());
            descriptors.push(memory.as_fd());
        }
        if let Some(points) = &self.points {
            let (list, memory) = (points.list.as_raw_fd(), points.memory.as_raw_fd());
            words += &format!(",points={list},passages={memory}:{PASSAGES_MAX}");
            descriptors.extend([points.list.as_fd(), points.memory.as_fd()]);
        }
        PluginLaunch { descriptors, words }
    }

    /// When cores came by the points, and how often that was not kept.
    pub fn passages(&self) -> (Vec<Passage>, u64) {
        self.points.as_ref().map_or((Vec::new(), 0), |points| (points.passages.kept(), points.passages.lost()))
    }

    /// The accesses that were kept, if that was asked for.
    pub fn accesses(&self) -> Option<&Accesses<'static>> {
        self.accesses.as_ref().map(|(accesses, _)| accesses)
    }

    /// Waits until the quantum in which the command ended is over, so that what is counted does not depend on when the host
    /// looked.
    pub fn wait_for_end(&self) {
        let until = Instant::now() + Duration::from_secs(1);
        while self.region.stopped.load(Relaxed) == 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
        let _ = self.ended_ns.set(host_ns());
    }

    /// How far the machine is now.
    pub fn reading(&self, machine: &Machine) -> ClockReading {
        let islands = machine.islands.iter().enumerate().map(|(index, island)| {
            let mut sum = IslandReading::default();
            for clock in &self.region.cores[index * CORES_PER_ISLAND_MAX..][..island.harts()] {
                sum.instructions += clock.instructions.load(Relaxed);
                sum.awake_ps += clock.clock_ps.load(Relaxed).saturating_sub(clock.idle_ps.load(Relaxed));
                sum.stall_ps += clock.stall_ps.load(Relaxed);
            }
            sum
        });
        ClockReading { time_ps: self.region.now_ps.load(Relaxed), islands: islands.collect() }
    }

    /// What a running core has done so far, for [`Hung`]; `None` while it sleeps or waits for other cores.
    fn doing(&self, core: usize, record: &CoreRecord) -> Option<Doing> {
        let clock = &self.region.cores[core];
        let is_here = clock.announced.load(Relaxed) != 0 && self.region.started.load(Relaxed) != 0;
        let waits = matches!(clock.pace.load(Relaxed), PACE_WAITS | PACE_PARKED);
        let notes = [&clock.wake_at_ps, &record.rung_at_ns, &record.written_at_ns];
        let is_rung = notes.iter().any(|note| note.load(Relaxed) != 0)
            || !matches!(record.state.load(Relaxed), CORE_IDLE | CORE_POLLING | CORE_OUT);
        let sleeps = clock.halted.load(Relaxed) != 0 && !is_rung;
        let settings = self.region.settings()?;
        let has_turn = !settings.deterministic || self.region.turn.load(Relaxed) == core as u32 + 1;
        if !is_here || waits || sleeps || !has_turn || self.region.stopped.load(Relaxed) != 0 {
            return None;
        }
        Some(Doing {
            clock_ps: clock.clock_ps.load(Relaxed),
            halted: clock.halted.load(Relaxed),
            idle_ps: clock.idle_ps.load(Relaxed),
            // A hidden hart has no alarm to ask for.
            alarm_ns: if clock.hidden.load(Relaxed) == 0 { record.alarm_ns.load(Relaxed) } else { 0 },
        })
    }

    /// The number that an island's QEMU has for a core.
    pub fn vcpu(&self, island: usize, core: usize) -> Option<usize> {
        let vcpu = self.region.cores[island * CORES_PER_ISLAND_MAX + core].vcpu.load(Relaxed);
        vcpu.checked_sub(1).map(|vcpu| vcpu as usize)
    }

    /// What was measured.
    pub fn stats(&self, machine: &Machine, command: &str) -> Stats {
        let settings = self.region.settings().expect("set up in create");
        let config = self.model.config();
        let islands = machine.islands.iter().enumerate().map(|(index, island)| IslandStats {
            name: island.name.clone(),
            isa: island.isa.name().into(),
            cores: island.cores,
            hidden_harts: island.hidden_harts,
            frequency_mhz: config.islands[index].timing.frequency_mhz(),
        });
        let time_ps = self.region.now_ps.load(Relaxed);
        let probe = Probe::new(self.region, &self.model);
        // Cores that sleep have slept until the end.
        let end = probe.at(time_ps);
        let cores = self.core_stats(&end.rows);
        let stale_read_addresses = self.stale_pages();
        let told = self.record.warnings().into_iter().map(|warning| warning.to_string()).chain(link_errors(&cores));
        let told = told.chain(stale_pages_sentence(&stale_read_addresses)).collect();
        Stats {
            schema: stats::SCHEMA,
            motet: env!("CARGO_PKG_VERSION").into(),
            command: command.into(),
            machine: MachineStats {
                description: machine.text.clone(),
                islands: islands.collect(),
                quantum_ps: settings.quantum_ps,
                quantum_max_ps: settings.quantum_max_ps,
                deterministic: settings.deterministic,
            },
            time_ps,
            out_of_turn: self.region.escapes.load(Relaxed),
            unsettled: self.region.unsettled.load(Relaxed),
            host: (!settings.deterministic).then(|| self.host_stats(&cores)).flatten(),
            cores,
            regions: self.regions(&end),
            samples: self.samples(&end),
            stale_read_addresses,
            warnings: told,
            fpga: None,
        }
    }

    /// Where the first stale reads were.
    fn stale_pages(&self) -> Vec<StalePageStats> {
        let config = self.model.config();
        let named = |page: StalePage| {
            let island = &config.islands[config.island_of(page.core)];
            let range = config.ranges.iter().find(|range| (range.start..range.end).contains(&page.address));
            StalePageStats {
                island: island.name.clone(),
                core: page.core - island.first_core,
                address: page.address,
                range: range.map(|range| range.name.clone()).unwrap_or_default(),
                reads: page.reads,
            }
        };
        self.model.stale_pages().into_iter().map(named).collect()
    }

    fn host_stats(&self, cores: &[CoreStats]) -> Option<HostStats> {
        let took_ns = self.ended_ns.get().copied().unwrap_or_else(host_ns).saturating_sub(self.record.began()?);
        let instructions = cores.iter().map(|core| core.instructions).sum::<u64>() as f64;
        Some(HostStats { seconds: took_ns as f64 / 1e9, mips: instructions * 1e3 / took_ns.max(1) as f64 })
    }

    fn regions(&self, end: &Snapshot) -> Vec<RegionStats> {
        let region = |region: motet_record::Region| RegionStats {
            name: region.name.as_str().into(),
            entries: region.entries,
            open: region.open.into(),
            time_ps: region.time_ps,
            skew_ps: region.skew_ps,
            cores: self.core_stats(&region.cores),
        };
        self.record.regions(end).into_iter().map(region).collect()
    }

    fn samples(&self, end: &Snapshot) -> Samples {
        let samples = self.record.samples(&end.rows);
        Samples {
            interval_ps: samples.interval_ps,
            columns: motet_record::sampled_names().iter().map(|&name| name.to_owned()).collect(),
            cores: samples.cores,
        }
    }

    /// Whether a core of an island is a hart that only the firmware has.
    fn is_hidden(&self, island: usize, core: usize) -> bool {
        self.region.cores[island * CORES_PER_ISLAND_MAX + core].hidden.load(Relaxed) != 0
    }

    /// Counts by core, from those of all cores in the model's order.
    fn core_stats(&self, rows: &[Row]) -> Vec<CoreStats> {
        let config = self.model.config();
        let one = |(number, row): (usize, &Row)| {
            let island = &config.islands[config.island_of(number)];
            let clock = motet_record::ClockCounts::of(row);
            let names = motet_coherence::counter_names().iter().map(|&name| name.to_owned());
            let awake_ps = clock.time_ps.saturating_sub(clock.idle_ps);
            CoreStats {
                island: island.name.clone(),
                core: number - island.first_core,
                hidden: self.is_hidden(config.island_of(number), number - island.first_core).into(),
                time_ps: clock.time_ps,
                idle_ps: clock.idle_ps,
                stall_ps: clock.stall_ps,
                cycles: (u128::from(awake_ps) * 1000 / u128::from(island.timing.cycle_fs.max(1))) as u64,
                instructions: clock.instructions,
                ipis_sent: clock.ipis_sent,
                ipis_received: clock.ipis_received,
                transfers: clock.transfers,
                memory: names.zip(motet_record::memory_counts(row).iter().copied()).collect(),
            }
        };
        rows.iter().enumerate().map(one).collect()
    }
}

/// That the simulation has a place for each of an island's harts.
fn check_harts(island: &IslandSpec) -> Result<()> {
    if island.harts() <= CORES_PER_ISLAND_MAX {
        return Ok(());
    }
    let message = format!(
        "hidden_harts: {} of island \"{}\" and its {} cores; timed runs have at most {CORES_PER_ISLAND_MAX} in all",
        island.hidden_harts, island.name, island.cores
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// The host's monotonic clock in nanoseconds, as the plugin reads it.
fn host_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What a core has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doing {
    clock_ps: u64,
    halted: u32,
    idle_ps: u64,
    /// A running core's alarm is never off for long: its kernel limits the slice of each thread.
    alarm_ns: u64,
}

/// Why a core is thought to hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symptom {
    /// Its clock stands still although it neither sleeps nor waits for another core.
    ClockStands,
    /// It was rung and does not wake.
    DoesNotWake,
    /// It runs, and does not take the interrupt that its own timer asked for.
    IgnoresInterrupts,
}

/// Looks for cores that hang.
#[derive(Debug, Default)]
pub struct Watch {
    /// For each core that runs: what it did at the last look, and at how many looks there was no progress.
    seen: BTreeMap<usize, (Doing, u32)>,
}

impl Watch {
    /// Looks at all cores. Returns the first that has shown no progress for `looks_max` looks: its island, its number
    /// there, and why.
    pub fn look(&mut self, clocks: &Clocks, header: &PoolHeader, looks_max: u32) -> Option<(usize, usize, Symptom)> {
        for (core, record) in header.cores.iter().enumerate() {
            let Some(doing) = clocks.doing(core, record) else {
                self.seen.remove(&core);
                continue;
            };
            let (before, looks) = self.seen.get(&core).copied().unwrap_or((doing, 0));
            let Some(symptom) = symptom(before, doing) else {
                self.seen.insert(core, (doing, 0));
                continue;
            };
            if looks == looks_max {
                return Some((core / CORES_PER_ISLAND_MAX, core % CORES_PER_ISLAND_MAX, symptom));
            }
            self.seen.insert(core, (doing, looks + 1));
        }
        None
    }
}

/// What is suspicious between two looks at a core that runs.
fn symptom(before: Doing, now: Doing) -> Option<Symptom> {
    if now.clock_ps == before.clock_ps && now.idle_ps == before.idle_ps && now.halted == before.halted {
        return Some(if now.halted == 0 { Symptom::ClockStands } else { Symptom::DoesNotWake });
    }
    let awake = now.halted == 0 && now.idle_ps == before.idle_ps;
    let asked = now.alarm_ns == u64::MAX && before.alarm_ns == u64::MAX;
    (awake && asked).then_some(Symptom::IgnoresInterrupts)
}

fn memory_file(name: &str, size: usize) -> Result<OwnedFd> {
    let memory = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).host("a memory file")?;
    rustix::fs::ftruncate(&memory, size as u64).host("memory for a timed run")?;
    Ok(memory)
}

fn make_accesses(range: AccessRange) -> Result<(Accesses<'static>, OwnedFd)> {
    let words = Accesses::words(range.count);
    let memory = memory_file("motet-accesses", words * size_of::<AtomicU64>())?;
    let accesses = Accesses::create(map_words(&memory, words)?, range.skip)
        .map_err(|error| Error::new(ErrorKind::Software, error.to_string()))?;
    Ok((accesses, memory))
}

fn map_clocks(memory: &OwnedFd) -> Result<&'static ClockRegion> {
    let base = map(memory, size_of::<ClockRegion>())?;
    // SAFETY: page-aligned, of that size, never unmapped, and made of atomics only.
    Ok(unsafe { &*base.cast::<ClockRegion>() })
}

fn map_words(memory: &OwnedFd, words: usize) -> Result<&'static [AtomicU64]> {
    let base = map(memory, words * size_of::<AtomicU64>())?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(base.cast::<AtomicU64>(), words) })
}

fn map(memory: &OwnedFd, size: usize) -> Result<*mut u8> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh shared mapping at an address the system chooses; nothing else refers to it.
    let base = unsafe { mm::mmap(std::ptr::null_mut(), size, protection, MapFlags::SHARED, memory, 0) }
        .host("address space for a timed run")?;
    Ok(base.cast())
}

/// What the software of each core did that hardware does not do dependably where islands do not cache each other's memory.
fn link_errors(cores: &[CoreStats]) -> Vec<String> {
    let of = |core: &CoreStats| {
        let kinds = [
            ("far_atomics", "atomic operations over a link, which need not be whole there"),
            ("stale_reads", "reads that old copies in private caches might have answered"),
        ];
        let counted =
            kinds.map(|(counter, what)| (core.count(counter), what)).into_iter().filter(|(times, _)| *times != 0);
        let name = core.label();
        counted.map(|(times, what)| format!("{name}: {times} {what}")).collect::<Vec<_>>()
    };
    cores.iter().flat_map(of).collect()
}

/// Where old copies might have been read, for those who look for the reason.
fn stale_pages_sentence(pages: &[StalePageStats]) -> Option<String> {
    let words =
        |page: &StalePageStats| format!("{:#x} ({}, by {}.{})", page.address, page.range, page.island, page.core);
    let all: Vec<String> = pages.iter().map(words).collect();
    (!all.is_empty()).then(|| format!("such reads were in these pages of the pool: {}", all.join(", ")))
}

/// Tells the kernels what stores into other islands' records take, and what a transfer does.
fn note_costs(header: &PoolHeader, config: &Config) {
    let ns = |ps: u64| u32::try_from(ps.div_ceil(PS_PER_NS)).unwrap_or(u32::MAX);
    header.dma_setup_ns.set(ns(config.dma_setup_ps + u64::from(DMA_REGISTERS) * config.device_store_ps));
    header.dma_kib_ns.set(ns(config.dma_kib_ps));
    for (from, record) in (0..config.islands.len()).zip(&header.islands) {
        for (to, store_ns) in (0..config.islands.len()).zip(&record.store_ns) {
            let records = offset_of!(PoolHeader, cores) + to * CORES_PER_ISLAND_MAX * size_of::<CoreRecord>();
            store_ns.set(ns(config.store_ps(from, records as u64)));
        }
    }
}

/// Tells the kernels which islands cache blocks of the pool privately.
fn note_private(pool: &HostPool, config: &Config) {
    let memory = &pool.header().memory;
    let block_len = u64::from(memory.block_frames.get()) * PAGE_SIZE;
    for index in 0..memory.block_count.get() {
        let start = u64::from(index) * block_len;
        // A range may begin or end within the block.
        let overlaps = |part: Range<u64>| part.start < start + block_len && start < part.end;
        let is_private = |island: usize| config.private_parts(island).any(overlaps);
        let islands =
            (0..config.islands.len()).filter(|&island| is_private(island)).fold(0, |bits, island| bits | 1 << island);
        motet_protocol::memory::set_private(pool.pool(), index, islands);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Doing = Doing { clock_ps: 5, halted: 0, idle_ps: 1, alarm_ns: 9 };

    #[test]
    fn a_core_that_advances_and_has_an_alarm_is_well() {
        assert_eq!(symptom(RUNS, Doing { clock_ps: 6, ..RUNS }), None);
        let without = Doing { alarm_ns: u64::MAX, ..RUNS };
        assert_eq!(symptom(RUNS, Doing { clock_ps: 6, ..without }), None, "the alarm has just gone off");
        assert_eq!(symptom(without, Doing { clock_ps: 6, idle_ps: 2, ..without }), None, "it slept in between");
    }

    #[test]
    fn each_symptom_is_told_apart() {
        assert_eq!(symptom(RUNS, RUNS), Some(Symptom::ClockStands));
        let asleep = Doing { halted: 1, ..RUNS };
        assert_eq!(symptom(asleep, asleep), Some(Symptom::DoesNotWake));
        let without = Doing { alarm_ns: u64::MAX, ..RUNS };
        assert_eq!(symptom(without, Doing { clock_ps: 6, ..without }), Some(Symptom::IgnoresInterrupts));
    }
}
