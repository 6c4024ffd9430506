//! Machines of hosted islands that run the real kernel: root file system, command, console, programs.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod calls;
pub mod deaths;
pub mod fat;
pub mod kernels;
pub mod modules;
pub mod outside;
pub mod program;
pub mod records;
pub mod scenarios;
pub mod sources;
pub mod whole;

use std::sync::{Arc, Mutex, PoisonError};

use motet_hal::Machine;
use motet_hal_hosted::{Config, Driver, Failure, Faults, Host, IslandConfig, Kernel, Outcome, run_kernels, run_seeds};
use motet_layout::sync::Ordering;
use motet_layout::{
    CALLS_BY_DMA, CONSOLE_TERMINAL, CROSSING_DIRECT, CROSSING_FLICK, CoreId, HostStream, Isa, IslandId, MOUNT_PROC,
    MOUNT_SYS, Pool,
};
use motet_protocol::stream::{self, Part, Side};
use motet_protocol::{Context, engine, fs, memory::set_near};

const STREAM_LEN: u64 = 64 << 10;
const BLOCK_FRAMES: u32 = 256;
/// Room for the command's strings.
const COMMAND_LEN: u64 = 4096;

/// The kernel under test.
struct Motet;

impl Kernel for Motet {
    fn run<M: Machine>(machine: &'static M) -> ! {
        motet_kernel::run(machine)
    }
}

/// What to run: files of the root directory, and the command.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Executable files: name in the root directory, contents.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// The command's strings; the first is the program's path. Of one of several kernels: none, and it serves the others.
    pub command: Vec<&'static str>,
    /// What standard input holds.
    pub input: Vec<u8>,
    /// Standard input and output are a terminal.
    pub is_terminal: bool,
    /// Calls cross instruction sets by Flick's protocol.
    pub migrates: bool,
    /// Pages follow the islands that use them. Each part of the memory is near to another island.
    pub adapts: bool,
    /// The folder in the root directory that has `proc`; empty: the root itself.
    pub proc_in: &'static str,
    /// Thread ids are below this; 0: as usual.
    pub tids: u32,
}

/// How a scenario ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The first process's exit status.
    pub status: u32,
    /// Standard output.
    pub output: String,
    /// Standard error and kernel messages.
    pub errors: String,
    /// Points passed, under a seed.
    pub steps: u64,
    /// Those that [`Faults::death_with`] counts.
    pub steps_with: u64,
    /// Hash of the schedule, under a seed.
    pub trace: u64,
}

/// Whether a run has failed because an island died with a lock held: that ends a machine at once, even one that survives deaths
/// (docs/protocols/lock.md).
pub fn has_died_with_a_lock(failure: &Failure) -> bool {
    failure.message.contains("has died with a lock held")
}

/// The three real ISAs, as many cores each.
pub fn three_islands(cores: [usize; 3]) -> Vec<IslandConfig> {
    let isas = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];
    isas.into_iter().zip(cores).map(|(isa, cores)| IslandConfig::foreign(isa, cores)).collect()
}

/// Runs a scenario on a machine.
///
/// # Errors
/// A kernel panicked, or the run did not end.
///
/// # Panics
/// An island joins again with what is of its [earlier life](records).
pub fn boot(config: Config, scenario: &Scenario) -> Result<Ended, Failure> {
    boot_and_look(config, scenario, |_| ()).map(|(ended, ())| ended)
}

/// As [`boot`]; `look` sees the pool at the moment when the machine has ended, with cores in the middle of what they do.
///
/// # Errors
/// See [`boot`].
pub fn boot_and_look<T: Send + 'static>(
    config: Config,
    scenario: &Scenario,
    look: impl FnOnce(Pool) -> T + Send + 'static,
) -> Result<(Ended, T), Failure> {
    let texts = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let seen = Arc::new(Mutex::new(None));
    let sees = {
        let seen = seen.clone();
        move |pool| *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(look(pool))
    };
    let left = Arc::new(Mutex::new(Vec::new()));
    let console = Console { texts: texts.clone(), look: Some(Box::new(sees)), left: left.clone() };
    let outcome = run_motet(config, vec![Box::new(console)], std::slice::from_ref(scenario));
    let left = std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner));
    assert!(left.is_empty(), "islands join again with what is of an earlier life: {left:#?}");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let [output, mut errors] = std::mem::take(&mut *texts.lock().unwrap_or_else(PoisonError::into_inner)).map(text);
    let outcome = outcome.map_err(|mut failure| {
        failure.message.push_str("\n--- standard error\n");
        failure.message.push_str(&errors);
        failure
    })?;
    for log in &outcome.logs {
        errors.push_str(&text(log.clone()));
    }
    let seen =
        seen.lock().unwrap_or_else(PoisonError::into_inner).take().expect("a machine that has ended was looked at");
    let (steps, steps_with, trace) = (outcome.steps, outcome.steps_with, outcome.trace);
    Ok((Ended { status: outcome.status(), output, errors, steps, steps_with, trace }, seen))
}

/// The only place where the kernel is compiled for hosted islands: it is not generic, so no test compiles it once more.
fn run_motet(config: Config, hosts: Vec<Box<dyn Host>>, scenarios: &[Scenario]) -> Result<Outcome, Failure> {
    run_kernels::<Motet>(config, hosts, |kernel, pool| prepare(pool, &scenarios[kernel]))
}

/// The host, as an actor on the pool.
struct HostSide(Pool);

impl Context for HostSide {
    fn core(&self) -> CoreId {
        CoreId::HOST
    }
    fn pool(&self) -> Pool {
        self.0
    }
    fn relax(&self) {
        std::thread::yield_now();
    }
    fn ring(&self, _target: CoreId) {}
}

/// Standard output, and standard error.
type Texts = Arc<Mutex<[Vec<u8>; 2]>>;

/// Takes what a kernel writes to its consoles.
struct Console {
    texts: Texts,
    look: Option<Box<dyn FnOnce(Pool) + Send>>,
    /// What is wrong with the records of islands that join again.
    left: Arc<Mutex<Vec<String>>>,
}

impl Console {
    fn note(&self, found: Vec<String>) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
    }
}

impl Host for Console {
    fn look(&mut self, pool: Pool) -> Vec<CoreId> {
        let header = pool.header();
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rings = Vec::new();
        for (stream, text) in [&header.console_out, &header.console_err].into_iter().zip(texts.iter_mut()) {
            // Until it has been told to ring and there is still nothing.
            while stream::used(stream) != 0 || !stream::consumer_waits(stream) && stream::used(stream) != 0 {
                let mut bytes = vec![0; stream::used(stream)];
                let moved = stream::consume_bytes(&HostSide(pool), Side::Host, stream, &mut bytes);
                text.extend_from_slice(&bytes[..moved.len]);
                if moved.ring {
                    rings.push(CoreId::new(IslandId(0), 0));
                }
            }
        }
        // It is the islands' transfer engines, too.
        for engine in header.dma.iter().take(header.island_count.get() as usize) {
            while let Some(served) = engine::serve(pool, engine, |_, _, _| {}, |_| 0) {
                rings.extend(served.ring);
            }
        }
        rings
    }

    fn ended(&mut self, pool: Pool) {
        if let Some(look) = self.look.take() {
            look(pool);
        }
    }

    fn restarts(&mut self, pool: Pool, island: IslandId) {
        self.note(records::soil(pool, island));
    }

    fn joined(&mut self, pool: Pool, island: IslandId) {
        // Without a point at every operation, others may have begun to bring threads.
        if cfg!(motet_model) {
            self.note(records::left(pool, island));
        }
    }
}

/// Fills the pool as the host does before boot.
fn prepare(pool: Pool, scenario: &Scenario) {
    let host = HostSide(pool);
    let header = pool.header();
    let extra = 3 * STREAM_LEN + COMMAND_LEN;
    let mut at = motet_protocol::format::format(pool, BLOCK_FRAMES, extra).expect("the pool is large enough");
    // Programs are where they always are: what a seed has found, it finds again.
    header.random_places.store(1, Ordering::Relaxed);
    if scenario.adapts {
        header.adapts.set(1);
        let blocks = header.memory.block_count.get();
        (0..blocks).for_each(|block| set_near(pool, block, 1 << (block % header.island_count.get())));
    }
    if scenario.tids != 0 {
        header.threads_len.set(scenario.tids);
    }
    header.crossing.set(if scenario.migrates { CROSSING_FLICK } else { CROSSING_DIRECT });
    header.interactive.set(if scenario.is_terminal { CONSOLE_TERMINAL } else { 0 });
    for stream in [&header.console_in, &header.console_out, &header.console_err] {
        stream.data.set(at.0);
        stream.capacity.set(STREAM_LEN);
        at = at.add(STREAM_LEN);
    }
    fill_input(pool, &header.console_in, &scenario.input);
    let command: Vec<u8> = scenario.command.iter().flat_map(|text| text.bytes().chain([0])).collect();
    assert!(command.len() as u64 <= COMMAND_LEN, "the command is too long");
    pool.write(at, &command);
    header.command.set(at.0);
    header.command_args.set(scenario.command.len() as u32);
    let root = fs::make_root(&host, 0).expect("room for the root directory");
    let attributes = fs::Attributes { mode: fs::TYPE_DIRECTORY | 0o555, ..fs::Attributes::default() };
    let dev = fs::mkdir(&host, root, b"dev", attributes).expect("room for a directory");
    for (name, minor) in [("dma", 3), ("late", 6), ("probe", 7)] {
        let rdev = 240 << 8 | minor;
        let device = fs::Attributes { mode: fs::TYPE_CHARACTER | 0o666, rdev, ..fs::Attributes::default() };
        fs::create(&host, dev.inode(), name.as_bytes(), device).expect("room for a device");
    }
    let ptmx = fs::Attributes { mode: fs::TYPE_CHARACTER | 0o666, rdev: 5 << 8 | 2, ..fs::Attributes::default() };
    fs::create(&host, dev.inode(), b"ptmx", ptmx).expect("room for a device");
    fs::mkdir(&host, dev.inode(), b"pts", attributes).expect("room for a directory");
    let make = || fs::mkdir(&host, root, scenario.proc_in.as_bytes(), attributes).expect("room for a directory");
    let holder = (!scenario.proc_in.is_empty()).then(make);
    let above = holder.as_ref().map_or(root, |folder| folder.inode());
    let proc = fs::mkdir(&host, above, b"proc", attributes).expect("room for a directory");
    fs::mount(&host, proc.inode(), MOUNT_PROC);
    let sys = fs::mkdir(&host, root, b"sys", attributes).expect("room for a directory");
    fs::mount(&host, sys.inode(), MOUNT_SYS);
    for (name, contents) in &scenario.files {
        let attributes = fs::Attributes { mode: fs::TYPE_REGULAR | 0o755, ..fs::Attributes::default() };
        let file = fs::create(&host, root, name.as_bytes(), attributes).expect("room for a file");
        fs::write_bytes(&host, file.inode(), 0, contents).expect("room for a file's contents");
    }
}

fn fill_input(pool: Pool, stream: &HostStream, input: &[u8]) {
    assert!(input.len() as u64 <= STREAM_LEN, "the input is too long");
    let moved = stream::produce_bytes(&HostSide(pool), Side::Host, stream, Part::Fitting, input);
    assert_eq!(moved.len, input.len());
    stream.closed.store(1, Ordering::Release);
}

/// Late doorbells and stalling islands.
pub const ROUGH: Faults = Faults {
    bell_delay_ns_max: 100_000,
    stall_every: 2000,
    stall_ns_max: 500_000,
    death: None,
    death_with: None,
    survives: false,
    rejoins: 0,
    dies_again_within: 0,
    damage: None,
    damaged_link: None,
    nonsense: None,
};

/// Runs a scenario on two x86-64, one AArch64 and two RISC-V cores. Under every other seed, islands (none of
/// which dies) are told that they do not cache each other's memory; under every fourth, engines carry the calls between them.
///
/// # Errors
/// See [`boot`].
pub fn under(driver: Driver, faults: Faults, scenario: &Scenario) -> Result<Ended, Failure> {
    let mut config = Config::new(driver, three_islands([2, 1, 2]));
    config.faults = faults;
    config.uncached = faults.death.is_none() && matches!(driver, Driver::Seeded(seed) if seed % 2 == 1);
    if matches!(driver, Driver::Seeded(seed) if seed % 4 == 3) {
        config.calls_by = CALLS_BY_DMA;
    }
    boot(config, scenario)
}

/// Runs a scenario on threads, under seeds, and under seeds with faults; all must end alike.
///
/// # Panics
/// When one does not.
pub fn everywhere(seeds: u64, scenario: &Scenario, status: u32, output: &str) {
    let judge = |ended: Ended| {
        assert_eq!((ended.status, ended.output.as_str()), (status, output), "errors: {}", ended.errors);
    };
    judge(under(Driver::Threads, Faults::default(), scenario).unwrap_or_else(|failure| panic!("{failure}")));
    run_seeds(0..seeds, |seed| {
        println!("seed {seed}");
        under(Driver::Seeded(seed), Faults::default(), scenario).map(judge)
    });
    run_seeds(1000..1000 + seeds, |seed| {
        println!("seed {seed} with faults");
        under(Driver::Seeded(seed), ROUGH, scenario).map(judge)
    });
}

/// Runs a scenario on three islands under seeds, and once for each of some steps at which the second or the third island dies: it ends alike, and leaves the pool whole. Deaths
/// come where a core calls its machine, not at every operation: `repairs` has that.
///
/// # Panics
/// When one does not.
pub fn whoever_dies(scenario: &Scenario, output: &str) {
    let (stride, offset) = stride(40, 10);
    let first = env("MOTET_FIRST", 0);
    run_seeds(first..first + env("MOTET_SEEDS", 2), |seed| {
        let run = |death: Option<(IslandId, u64)>| {
            let mut config = Config::new(Driver::Seeded(seed), three_islands([2, 1, 2]));
            config.faults = Faults { death, survives: true, ..ROUGH };
            boot_and_look(config, scenario, whole::broken)
        };
        let (whole_run, _) = run(None)?;
        assert_eq!((whole_run.status, whole_run.output.as_str()), (0, output), "{}", whole_run.errors);
        let steps = || (offset..whole_run.steps).step_by(stride as usize);
        for (island, step) in [1, 2].into_iter().flat_map(|island| steps().map(move |step| (island, step))) {
            let (ended, broken) = run(Some((IslandId(island), step)))?;
            let got = (ended.status, ended.output.as_str());
            assert_eq!(got, (0, output), "seed {seed}, island {island} dies at {step}: {}", ended.errors);
            assert!(broken.is_empty(), "seed {seed}, island {island} dies at {step}: {broken:?}");
        }
        Ok(())
    });
}

/// Whether what is slow by nature is asked for (`./motet test long`).
pub fn is_long() -> bool {
    std::env::var_os("MOTET_LONG").is_some()
}

/// One step in so many is tried; where what is slow by nature is not asked for (`./motet test long`), one in `quick`, others each day. The
/// stride, and where it begins.
pub fn stride(quick: u64, long: u64) -> (u64, u64) {
    let stride = if is_long() { long } else { quick };
    let stride = env("MOTET_STRIDE", stride).max(1);
    (stride, env("MOTET_OFFSET", env("MOTET_TEST_SEED", 0)) % stride)
}

/// A number in the environment, with which somebody asks for more than a test does by itself.
pub fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
