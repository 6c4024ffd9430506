//! Services on the timed machine: what a mutex takes by each way to ask for it (Table I, Figure 5), and how a loop that locks one scales
//! (Figure 6), also on machines with up to 16 slaves, beside the queueing model.

use std::{path::PathBuf, time::Duration};

use motet_error::Result;
use motet_fabric::stats::{CoreStats, RegionStats, Stats};
use motet_layout::Isa;
use motet_queueing::simulate::Queues;

use super::{
    equations::{self, BEGINNINGS, Derived, Server},
    paper,
    printed::Printed,
    scaling::{self, End},
};
use crate::{
    flick::machines::Bench as Machines,
    motet::{self, Described},
    project::{self, Project},
    report::number,
};

/// The quantum, in microseconds: ten cycles. With a longer one, waiting threads would be told later.
const QUANTUM_US: &str = "0.1";
/// The same where a request takes thousands of cycles.
const SLOW_QUANTUM_US: &str = "1";
/// Iterations of the paper's loop where a request takes thousands of cycles.
const SLOW_LOOP: u32 = 250;
const AT_MOST: Duration = Duration::from_secs(900);
/// Pairs of lock and unlock of each thread, where each thread has a mutex. There are enough that a tick of the timer does not matter.
const PAIRS: u32 = 5000;
/// The same where a pair means a sleep, or a call of another core.
const SLOW_PAIRS: u32 = 300;
/// Pairs of all threads together, where they share one mutex.
const SHARED_PAIRS: u32 = 6000;
/// How many runs the median is taken of, where threads share one mutex.
const SHARED_RUNS: usize = 3;
const QUICK_PAIRS: u32 = 200;
/// Slaves of `machines/hthreads.toml`.
pub const SLAVES: u32 = 6;
/// Slaves of the largest machine that is compared with the model.
const SLAVES_MAX: u32 = 16;
/// The first slave.
const FIRST_CPU: u32 = 16;
/// Time of an operation of the service core.
const OPERATION_NS: u32 = 80;
/// The same when it is compared with the model: slow, so that cores wait for each other.
const SLOW_OPERATION_NS: u32 = 400;
/// Time of a request to the core and of its answer back.
const BUS_NS: u32 = 50 + 50;

/// How a service is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Its name in metrics.
    pub name: &'static str,
    /// Its name in tables and on the page.
    pub title: &'static str,
    /// What `MOTET_HTHREADS` is set to.
    pub back_end: &'static str,
    /// Its class in the style sheet.
    pub colour: &'static str,
    /// What serves requests, and how many of them there are.
    pub servers: u32,
    /// How many threads each server has.
    one_server: Option<&'static str>,
    /// How many of sixteen slaves run the threads; the others serve.
    slaves: u32,
    /// Whether a pair takes thousands of cycles.
    is_slow: bool,
}

/// All ways. The servers of the software microkernel run on slaves of their own, the last of the sixteen.
pub const WAYS: [Way; 5] = [
    Way {
        name: "hardware",
        title: "service core",
        back_end: "hardware",
        colour: "var(--i0)",
        servers: 1,
        one_server: None,
        slaves: SLAVES_MAX,
        is_slow: false,
    },
    Way {
        name: "software",
        title: "servers of a software microkernel",
        back_end: "software:4@28,29,30,31",
        colour: "var(--i1)",
        servers: 4,
        one_server: Some("software:1@31"),
        slaves: SLAVES_MAX - 4,
        is_slow: true,
    },
    Way {
        name: "rpc",
        title: "remote procedure calls",
        back_end: "rpc@0",
        colour: "var(--i2)",
        servers: 1,
        one_server: Some("rpc@0"),
        slaves: SLAVES_MAX,
        is_slow: true,
    },
    Way {
        name: "fused",
        title: "futexes of the fused kernel",
        back_end: "fused",
        colour: "var(--i3)",
        servers: 0,
        one_server: None,
        slaves: SLAVES_MAX,
        is_slow: false,
    },
    Way {
        name: "hybrid",
        title: "futexes, and the service core",
        back_end: "hybrid",
        colour: "var(--i4)",
        servers: 0,
        one_server: None,
        slaves: SLAVES_MAX,
        is_slow: false,
    },
];

/// What pairs of lock and unlock take, in a slave's cycles.
#[derive(Clone, PartialEq, Debug)]
pub struct Latency {
    /// How many threads ask at the same time.
    pub threads: u32,
    /// Cycles of one pair, in a loop of nothing else.
    pub cycles: f64,
    /// Single pairs between two readings of the clock, by how long they took.
    pub singles: Printed,
    /// Instructions of one pair: of a core that asks, and of all that do not.
    pub instructions: [f64; 2],
}

/// What was measured of one way of asking.
#[derive(Clone, Debug)]
pub struct Column {
    /// The way.
    pub way: Way,
    /// Costs where each requester has a mutex of its own.
    pub own: Vec<Latency>,
    /// Costs where all requesters have the same mutex.
    pub same: Vec<Latency>,
    /// Numbers of threads, with their speed-up over one thread in the paper's loop.
    pub speedup: Vec<[f64; 2]>,
    /// Cycles of an iteration of one thread alone.
    pub alone: f64,
    /// Equations 3 to 7, by numbers of threads.
    pub derived: Vec<Derived>,
    /// Ratio of the time of a service to the time between two services.
    pub rho: f64,
    /// What serves its requests.
    pub server: Option<Server>,
}

/// A slow service core beside the model.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// Operations that it executes at once.
    pub ports: u32,
    /// Throughputs, by number of cores.
    pub points: Vec<Compared>,
}

/// Throughputs of one number of slaves, in iterations per thousand cycles.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compared {
    /// Number of slaves.
    pub cores: u32,
    /// Measured on the machine.
    pub measured: f64,
    /// Computed by the model in which the server is busy for the operation alone.
    pub modelled: f64,
    /// Computed by the paper's model, in which the server is busy for the whole request, with the measured times of single requests.
    pub congregate: f64,
}

/// All results of the experiment.
#[derive(Clone, Debug)]
pub struct Results {
    /// The results of each way.
    pub columns: Vec<Column>,
    /// A slow service core beside the model.
    pub comparisons: Vec<Comparison>,
    /// The speed-ups beyond what was measured.
    pub ends: Vec<End>,
    /// What the machine was, in words.
    pub machine: String,
}

/// Compiles and runs the program.
pub struct Bench {
    /// The machines that it runs on.
    pub machines: Machines,
    program: PathBuf,
}

/// Runs all measurements.
///
/// # Errors
/// The program does not compile, or a run fails.
pub fn measure(quick: bool) -> Result<Results> {
    let bench = Bench::new()?;
    let machine = bench.machines.machine("hthreads")?;
    let wide = bench.with_slaves(&machine, SLAVES_MAX)?;
    let columns = WAYS.iter().map(|way| bench.column(&machine, &wide, *way, quick)).collect::<Result<Vec<_>>>()?;
    let ends = scaling::ends(&columns)?;
    let comparisons = [1, 2].iter().map(|ports| bench.compare(&machine, *ports, quick)).collect::<Result<_>>()?;
    Ok(Results { columns, comparisons, ends, machine: project::describe(&machine.machine)? })
}

/// What a run has printed, and what was counted in its region.
pub struct Measured {
    /// What it has printed.
    pub printed: Printed,
    stats: Stats,
}

impl Measured {
    /// Instructions in a region, by sums of the asking cores and of all others.
    pub fn instructions(&self, region: &str, asking: u32) -> [f64; 2] {
        let found: Option<&RegionStats> = self.stats.regions.iter().find(|found| found.name == region);
        let cores = found.map_or(&[][..], |region| &region.cores);
        let asks = |core: &CoreStats| core.island == "slaves" && core.core < asking as usize;
        let sum = |of: bool| cores.iter().filter(|core| asks(core) == of).map(|core| core.instructions as f64).sum();
        [sum(true), sum(false)]
    }
}

impl Way {
    fn quantum_us(self) -> &'static str {
        if self.is_slow { SLOW_QUANTUM_US } else { QUANTUM_US }
    }

    /// Iterations of each thread in the paper's loop.
    fn iterations(self) -> u32 {
        if self.is_slow { SLOW_LOOP } else { paper::LOOP[0] }
    }
}

impl Bench {
    /// Compiles the program.
    ///
    /// # Errors
    /// It does not compile.
    pub fn new() -> Result<Self> {
        let project = Project::find()?;
        let folder = project.scratch("hthreads")?;
        let program = folder.join("latency");
        let source = project.root.join("user/hthreads/latency.c");
        eprintln!("motet: compiling the guest program `latency`");
        let options = ["-O2".into(), source.into_os_string(), "-lhthread".into(), "-lm".into()];
        motet::compile(&project, Isa::RiscV64, options, &program)?;
        Ok(Self { machines: Machines { project, folder }, program })
    }

    fn with_slaves(&self, machine: &Described, slaves: u32) -> Result<Described> {
        let cores = format!("cores = {slaves}\n");
        self.machines.changed(machine, &slaves.to_string(), &[("cores = 6\n", &cores)])
    }

    /// Runs the program.
    fn run(&self, machine: &Described, way: Way, words: &str, threads: u32) -> Result<Measured> {
        self.run_program(&self.program, machine, way, words, threads)
    }

    /// Runs a build of the program.
    ///
    /// # Errors
    /// The run fails.
    pub fn run_program(
        &self,
        program: &PathBuf,
        machine: &Described,
        way: Way,
        words: &str,
        threads: u32,
    ) -> Result<Measured> {
        let cpus = (FIRST_CPU..FIRST_CPU + threads).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",");
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let command = format!("MOTET_HTHREADS={} on riscv64 /in/{name} -c {cpus} {words}", way.back_end);
        let run = self.machines.run(machine, way.quantum_us(), &[program], &command, AT_MOST)?;
        Ok(Measured { printed: Printed { output: run.output, mhz: slave_mhz(machine) }, stats: run.stats })
    }

    /// Measures pairs by 1 to 6 requesters: with a mutex for each of them, or one for all, as `what` says.
    fn latencies(&self, machine: &Described, way: Way, what: &str, quick: bool) -> Result<Vec<Latency>> {
        let requesters = if quick { vec![1, SLAVES] } else { (1..=SLAVES).collect() };
        let of = |threads: u32| {
            let pairs = match what {
                _ if quick => QUICK_PAIRS,
                _ if way.is_slow => SLOW_PAIRS,
                "same" => SHARED_PAIRS / threads,
                _ => PAIRS,
            };
            let run = self.run(machine, way, &format!("{what} {threads} {pairs}"), threads)?;
            let cycles = run.printed.cycles("loop_ns")?;
            run.printed.singles()?;
            let instructions = run.instructions("pairs", threads).map(|sum| sum / f64::from(threads * pairs));
            Ok(Latency { threads, cycles, singles: run.printed, instructions })
        };
        // Who of several gets one mutex first is the host's choice within a quantum, and one sleep more can be many.
        let runs = if what == "same" && !quick && !way.is_slow { SHARED_RUNS } else { 1 };
        let median = |threads: u32| {
            let mut all = (0..runs).map(|_| of(threads)).collect::<Result<Vec<_>>>()?;
            all.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
            Ok(all.swap_remove(runs / 2))
        };
        requesters.into_iter().map(median).collect()
    }

    fn column(&self, machine: &Described, wide: &Described, way: Way, quick: bool) -> Result<Column> {
        // Servers on slaves leave too few of six.
        let machine = if way.slaves < SLAVES_MAX { wide } else { machine };
        let own = self.latencies(machine, way, "lock", quick)?;
        let same = self.latencies(machine, way, "same", quick)?;
        let threads = if quick { vec![1, SLAVES] } else { vec![1, 2, 3, 4, 6, 8, 12, SLAVES_MAX] };
        let threads = threads.into_iter().filter(|&threads| threads <= way.slaves);
        let times = threads.map(|threads| Ok([f64::from(threads), self.loop_cycles(wide, way, threads)?]));
        let times = times.collect::<Result<Vec<[f64; 2]>>>()?;
        let alone = times.first().map_or(f64::NAN, |first| first[1]);
        let speedup: Vec<[f64; 2]> =
            times.iter().map(|&[threads, cycles]| [threads, threads * alone / cycles]).collect();
        let rho = equations::rho(alone);
        let derived = times.iter().map(|&[threads, cycles]| equations::derive(threads, cycles, rho));
        let derived = derived.collect();
        let last = own.last().map_or(f64::NAN, |last| last.cycles);
        eprintln!("motet: {}: {} cycles, {} with {SLAVES}", way.title, number(own[0].cycles), number(last));
        let server = self.server(wide, way)?;
        Ok(Column { way, own, same, speedup, alone, derived, rho, server })
    }

    /// The cycles of an iteration of the paper's loop, for each thread.
    fn loop_cycles(&self, wide: &Described, way: Way, threads: u32) -> Result<f64> {
        let [_, outside, inside] = paper::LOOP;
        let words = format!("speedup {threads} {} {outside} {inside}", threads * way.iterations());
        Ok(self.run(wide, way, &words, threads)?.printed.cycles("time_ns")? / f64::from(way.iterations()))
    }

    /// For how long the service core or a server is busy with a request. The core: its operation. A server: measured with as many threads as it can have,
    /// so that it always is.
    fn server(&self, wide: &Described, way: Way) -> Result<Option<Server>> {
        if way.servers == 0 {
            return Ok(None);
        }
        let service = match way.one_server {
            None => f64::from(OPERATION_NS) * slave_mhz(wide) / 1000.0,
            Some(back_end) => {
                let threads = way.slaves / way.servers;
                self.loop_cycles(wide, Way { back_end, ..way }, threads)? / (2.0 * f64::from(threads))
            }
        };
        let bus = way.one_server.is_none().then(|| f64::from(BUS_NS) * slave_mhz(wide) / 1000.0);
        Ok(Some(Server { servers: way.servers, queues: Queues::OfEachServer, service, bus }))
    }

    /// Measures a slow service core that 1 to 16 slaves ask, beside the model with the times of one slave.
    fn compare(&self, machine: &Described, ports: u32, quick: bool) -> Result<Comparison> {
        let operation = format!("operation_ns = {SLOW_OPERATION_NS}\nports = {ports}\n");
        let slow = self.machines.changed(machine, &format!("slow-{ports}"), &[("operation_ns = 80\n", &operation)])?;
        let [_, outside, inside] = paper::LOOP;
        let all: &[u32] = if quick { &[1, 16] } else { &[1, 2, 4, 6, 8, 12, SLAVES_MAX] };
        let single = self.run(&slow, WAYS[0], &format!("lock 1 {QUICK_PAIRS}"), 1)?.printed.singles()?;
        let mut points = Vec::new();
        let mut alone = f64::NAN;
        for &cores in all {
            let machine = self.with_slaves(&slow, cores)?;
            let iterations = cores * if quick { QUICK_PAIRS } else { paper::LOOP[0] };
            // One core alone always does the same. Of several, each begins somewhere in its loop, as in the model.
            let (beginnings, span) = if cores == 1 { (1, 0) } else { (BEGINNINGS, alone as u32) };
            let words = format!("speedup {cores} {iterations} {outside} {inside} {beginnings} {span}");
            let cycles = self.run(&machine, WAYS[0], &words, cores)?.printed.cycles("time_ns")?;
            let measured = 1000.0 * f64::from(iterations) / cycles;
            if cores == 1 {
                alone = 1000.0 / measured;
            }
            let service = f64::from(SLOW_OPERATION_NS) * slave_mhz(&machine) / 1000.0;
            let server = Server { servers: ports, queues: Queues::Shared, service, bus: None };
            let modelled = 1000.0 * equations::iterations(cores, alone, server)?;
            let congregate = 1000.0 * equations::congregate_iterations(cores, ports, &single)?;
            eprintln!(
                "motet: {cores} slaves, {ports} ports: {} iterations in 1000 cycles, {} modelled",
                number(measured),
                number(modelled)
            );
            points.push(Compared { cores, measured, modelled, congregate });
        }
        Ok(Comparison { ports, points })
    }
}

fn slave_mhz(machine: &Described) -> f64 {
    let config = machine.machine.model_config().ok();
    let island = config.as_ref().and_then(|config| config.islands.get(1));
    island.map_or(f64::NAN, |island| island.timing.frequency_mhz() as f64)
}
