//! Timed machines: the clocks that all islands' QEMUs share, and the plugin that keeps them.

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use motet_coherence::{Model, Sharing};
use motet_layout::CORES_PER_ISLAND_MAX;
use motet_timing::{ClockRegion, Settings};
use rustix::{
    fs::MemfdFlags,
    mm::{self, MapFlags, ProtFlags},
};

use crate::{
    Doorbells, HostPool,
    error::{Context, Error, ErrorKind, Result},
    machine::Machine,
    qemu,
    stats::{self, CoreStats, IslandStats, MachineStats, Stats},
};

/// Realtime when a deterministic machine starts: 2025-01-01 UTC.
const DETERMINISTIC_START_NS: u64 = 1_735_689_600_000_000_000;

/// How time is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// The plugin's library.
    pub plugin: PathBuf,
    /// Farthest that one running core may be ahead of another, in picoseconds.
    pub quantum_ps: u64,
    /// One core runs at a time, and nothing depends on the host's time.
    pub deterministic: bool,
}

/// The clocks of one machine. The mapping lives as long as the process.
pub struct Clocks {
    region: &'static ClockRegion,
    memory: OwnedFd,
    model: Model<'static>,
    model_memory: OwnedFd,
    /// The machine's description, for the plugin.
    description: OwnedFd,
    plugin: File,
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
}

impl Clocks {
    /// Makes the clocks, and tells the kernels that their machine is timed. Before anything else is put into the pool.
    ///
    /// # Errors
    /// A QEMU is too old or has no plugins, the plugin is not built, or the host refuses memory.
    pub fn create(options: &Options, machine: &Machine, pool: &HostPool) -> Result<Self> {
        for island in &machine.islands {
            qemu::check_plugins(island.isa)?;
        }
        let what =
            || format!("the plugin {} (`cargo build --release -p motet-plugin` makes it)", options.plugin.display());
        let plugin = File::open(&options.plugin).context(ErrorKind::Unavailable, what)?;
        let config = machine.model_config()?;
        let doorbell_ps = config.links.iter().flatten().map(|link| link.doorbell_ps).max().unwrap_or(0);
        let memory = memory_file("motet-clocks", size_of::<ClockRegion>())?;
        let region = map_clocks(&memory)?;
        let words = Model::region_words(&config);
        let model_memory = memory_file("motet-model", words * size_of::<AtomicU64>())?;
        let alone = options.deterministic || config.core_count() == 1;
        let sharing = if alone { Sharing::OneAtATime } else { Sharing::Threads };
        let model = Model::create(config, map_words(&model_memory, words)?, sharing)
            .map_err(|error| Error::new(ErrorKind::Software, error.to_string()))?;
        let description = qemu::memory_file(machine.text.as_bytes())?;
        let settings = Settings { quantum_ps: options.quantum_ps, doorbell_ps, deterministic: options.deterministic };
        region.set_up(settings, machine.islands.iter().map(|island| island.cores).sum());
        let header = pool.header();
        header.timed.set(1);
        if options.deterministic {
            header.realtime_at_zero_ns.set(DETERMINISTIC_START_NS);
            for (index, word) in header.seed.iter().enumerate() {
                word.set(index as u64 + 1);
            }
        }
        Ok(Self { region, memory, model, model_memory, description, plugin })
    }

    /// How to load the plugin into the islands' QEMUs.
    pub fn plugin<'a>(&'a self, pool: &'a HostPool, bells: &'a Doorbells, cores: &[usize]) -> PluginLaunch<'a> {
        let mut descriptors = vec![self.plugin.as_fd(), self.memory.as_fd(), pool.memory()];
        descriptors.extend([self.model_memory.as_fd(), self.description.as_fd()]);
        let mut rings = Vec::new();
        for (island, &count) in cores.iter().enumerate() {
            for core in 0..count {
                let bell = bells.bell(island, core);
                rings.push(format!("{}:{}", island * CORES_PER_ISLAND_MAX + core, bell.as_raw_fd()));
                descriptors.push(bell);
            }
        }
        // By number, so that no character of a path can be misread.
        let words = format!(
            "/proc/self/fd/{},clocks={},pool={},model={},machine={},bells={}",
            self.plugin.as_raw_fd(),
            self.memory.as_raw_fd(),
            pool.memory().as_raw_fd(),
            self.model_memory.as_raw_fd(),
            self.description.as_raw_fd(),
            rings.join("/")
        );
        PluginLaunch { descriptors, words }
    }

    /// Waits until the quantum in which the command ended is over, so that what is counted does not depend on when the host
    /// looked.
    pub fn wait_for_end(&self) {
        let until = Instant::now() + Duration::from_secs(1);
        while self.region.stopped.load(Relaxed) == 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// What was measured.
    pub fn stats(&self, machine: &Machine, command: &str) -> Stats {
        let settings = self.region.settings().expect("set up in create");
        let config = self.model.config();
        let mhz = |index: usize| 1_000_000_000 / config.islands[index].timing.cycle_fs.max(1);
        let islands = machine.islands.iter().enumerate().map(|(index, island)| IslandStats {
            name: island.name.clone(),
            isa: island.isa.name().into(),
            cores: island.cores,
            frequency_mhz: mhz(index),
        });
        let cores =
            machine.islands.iter().enumerate().flat_map(|(index, island)| {
                (0..island.cores).map(move |core| self.core_stats(index, &island.name, core))
            });
        Stats {
            schema: stats::SCHEMA,
            motet: env!("CARGO_PKG_VERSION").into(),
            command: command.into(),
            machine: MachineStats {
                description: machine.text.clone(),
                islands: islands.collect(),
                quantum_ps: settings.quantum_ps,
                deterministic: settings.deterministic,
            },
            time_ps: self.region.now_ps.load(Relaxed),
            out_of_turn: self.region.escapes.load(Relaxed),
            cores: cores.collect(),
            ..Stats::default()
        }
    }

    fn core_stats(&self, island: usize, name: &str, core: usize) -> CoreStats {
        let clock = &self.region.cores[island * CORES_PER_ISLAND_MAX + core];
        let memory = self.model.counters(self.model.core_number(island, core));
        let names = motet_coherence::counter_names().iter().map(|&name| name.to_owned());
        let (time_ps, idle_ps) = (clock.clock_ps.load(Relaxed), clock.idle_ps.load(Relaxed));
        let cycle_fs = self.model.config().islands[island].timing.cycle_fs.max(1);
        CoreStats {
            island: name.into(),
            core,
            time_ps,
            idle_ps,
            stall_ps: clock.stall_ps.load(Relaxed),
            cycles: (u128::from(time_ps.saturating_sub(idle_ps)) * 1000 / u128::from(cycle_fs)) as u64,
            instructions: clock.instructions.load(Relaxed),
            memory: names.zip(memory.values()).collect(),
            ..CoreStats::default()
        }
    }
}

fn memory_file(name: &str, size: usize) -> Result<OwnedFd> {
    let memory = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).host("a memory file")?;
    rustix::fs::ftruncate(&memory, size as u64).host("memory for a timed run")?;
    Ok(memory)
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
