//! Timed runs: what they need of the host beside the islands, in one place.
//!
//! [`Clocks`] are the memory that all islands' QEMUs share for a timed run, and the plugin that they load; [`PluginLaunch`]
//! hands both over. [`Watch`] looks for cores that hang, [`Measured`] is what a run has counted, and [`stats`] the form in
//! which others get it. [`bare`] runs programs on bare boards in simulated time.

pub mod bare;
mod counts;
mod header;
#[allow(unsafe_code)] // the mapping of the clocks
mod mapping;
mod measured;
pub mod stats;
mod watch;

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    path::PathBuf,
    sync::{OnceLock, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use motet_coherence::{Model, Sharing};
use motet_error::{Context, Error, ErrorKind, Result};
use motet_layout::CORES_PER_ISLAND_MAX;
use motet_machine::{IslandSpec, MachineSpec, PluginArguments, PointArguments};
use motet_record::{Accesses, Passages, Record};
use motet_timing::{ClockRegion, Settings, TIME_END_PS, host};

use crate::{Doorbells, HostPool, qemu};
pub use counts::{AllCounts, CoreCounts, read_counts};
pub use measured::Measured;
pub use motet_record::{POINTS_MAX, Passage, Point};
pub use watch::{Symptom, Watch};

/// The path of the plugin's library below the folder of build results.
pub fn plugin_path() -> PathBuf {
    ["release", "libmotet_timing_plugin.so"].iter().collect()
}

/// How time is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// The plugin's library.
    pub plugin: PathBuf,
    /// Farthest that one running core may be ahead of another, in picoseconds.
    pub quantum_ps: u64,
    /// The same after islands have exchanged nothing for long, not less.
    pub quantum_max_ps: u64,
    /// The same while cores use the same lines out of turn, not more.
    pub quantum_least_ps: u64,
    /// One core runs at a time, and nothing depends on the host's time.
    pub deterministic: bool,
    /// Which accesses are kept one by one.
    pub accesses: Option<AccessRange>,
    /// When cores come by which instructions is noted.
    pub points: Vec<Point>,
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
        let list = qemu::memory_file(points.iter().map(|point| format!("{point}\n")).collect::<String>().as_bytes())?;
        let (memory, words) = mapping::words("motet-passages", Passages::words(PASSAGES_MAX))?;
        Ok(Self { list, memory, passages: Passages::new(words) })
    }
}

/// What QEMUs are started with to load the plugin.
#[derive(Debug)]
pub struct PluginLaunch<'a> {
    /// What they inherit.
    pub descriptors: Vec<BorrowedFd<'a>>,
    /// By number, so that no character of a path can be misread.
    library: RawFd,
    arguments: PluginArguments,
}

impl PluginLaunch<'_> {
    /// The value of `-plugin` for an island.
    pub fn argument(&self, island: usize) -> String {
        self.value(PluginArguments { island, ..self.arguments.clone() })
    }

    /// The same for a bare board, without a kernel of Motet.
    pub fn bare_argument(&self) -> String {
        self.value(PluginArguments { bare: true, ..self.arguments.clone() })
    }

    fn value(&self, arguments: PluginArguments) -> String {
        format!("/proc/self/fd/{},{arguments}", self.library)
    }
}

impl Clocks {
    /// Makes the clocks, and tells the kernels that their machine is timed. Before anything else is put into the pool.
    ///
    /// # Errors
    /// A QEMU is too old or has no plugins, the plugin is not built, or the host refuses memory.
    pub fn create(options: &Options, machine: &MachineSpec, pool: &HostPool) -> Result<Self> {
        for island in &machine.islands {
            check_harts(island)?;
            qemu::check_plugins(island.isa)?;
        }
        let what = || {
            format!("the plugin {} (`cargo build --release -p motet-timing-plugin` makes it)", options.plugin.display())
        };
        let plugin = File::open(&options.plugin).context(ErrorKind::Unavailable, what)?;
        let config = machine.model_config()?;
        let (memory, region) = mapping::clocks()?;
        let (model_memory, words) = mapping::words("motet-model", Model::region_words(&config))?;
        let alone = options.deterministic || config.core_count() == 1;
        let sharing = if alone { Sharing::OneAtATime } else { Sharing::Threads };
        let model = Model::create(config, words, sharing)
            .map_err(|error| Error::new(ErrorKind::Software, error.to_string()))?;
        let cores = model.config().core_count();
        let (record_memory, words) = mapping::words("motet-record", Record::words(cores))?;
        let record = Record::create(words, cores, options.quantum_ps)
            .map_err(|error| Error::new(ErrorKind::Software, error.to_string()))?;
        let accesses = options.accesses.map(make_accesses).transpose()?;
        let points = if options.points.is_empty() { None } else { Some(PointFiles::create(&options.points)?) };
        let description = qemu::memory_file(machine.text.as_bytes())?;
        let &Options { quantum_ps, quantum_max_ps, quantum_least_ps, deterministic, .. } = options;
        let settings = Settings { quantum_ps, quantum_max_ps, quantum_least_ps, deterministic };
        region.set_up(settings, cores);
        for (island, spec) in machine.islands.iter().enumerate() {
            let first = island * CORES_PER_ISLAND_MAX;
            (spec.cores..spec.harts()).for_each(|hart| region.add_hidden(pool.header(), first + hart));
        }
        for kernel in pool.kernels() {
            header::describe(kernel, model.config(), deterministic);
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
                rings.push((island * CORES_PER_ISLAND_MAX + core, bell.as_raw_fd()));
                descriptors.push(bell);
            }
        }
        descriptors.extend(self.accesses.iter().map(|(_, memory)| memory.as_fd()));
        descriptors.extend(self.points.iter().flat_map(|points| [points.list.as_fd(), points.memory.as_fd()]));
        let arguments = PluginArguments {
            island: 0,
            clocks: self.memory.as_raw_fd(),
            pool: pool.memory().as_raw_fd(),
            model: self.model_memory.as_raw_fd(),
            record: self.record_memory.as_raw_fd(),
            machine: self.description.as_raw_fd(),
            bells: rings,
            accesses: self.accesses.as_ref().map(|(accesses, memory)| (memory.as_raw_fd(), accesses.room())),
            points: self.points.as_ref().map(|points| PointArguments {
                list: points.list.as_raw_fd(),
                passages: points.memory.as_raw_fd(),
                room: PASSAGES_MAX,
            }),
            bare: false,
        };
        PluginLaunch { descriptors, library: self.plugin.as_raw_fd(), arguments }
    }

    /// Waits until the quantum in which the command ended is over, so that what is counted does not depend on when the host
    /// looked.
    pub fn wait_for_end(&self) {
        let until = Instant::now() + Duration::from_secs(1);
        while self.region.stopped.load(Relaxed) == 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
        let _ = self.ended_ns.set(host::monotonic_ns());
    }

    /// How far the machine is now.
    pub fn reading(&self, machine: &MachineSpec) -> ClockReading {
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

    /// Whether simulated time has come to its end. Nobody wakes any more.
    pub fn are_at_end(&self) -> bool {
        self.region.now_ps.load(Relaxed) >= TIME_END_PS
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

fn make_accesses(range: AccessRange) -> Result<(Accesses<'static>, OwnedFd)> {
    let (memory, words) = mapping::words("motet-accesses", Accesses::words(range.count))?;
    let accesses =
        Accesses::create(words, range.skip).map_err(|error| Error::new(ErrorKind::Software, error.to_string()))?;
    Ok((accesses, memory))
}
