//! Services on the timed machine: what a mutex takes by each way to ask for it (Table I, Figure 5), and how a loop that locks one scales
//! (Figure 6), also on machines with up to 16 slaves, beside the queueing model.

use std::{path::PathBuf, time::Duration};

use motet_fabric::{Error, ErrorKind, Result};
use motet_layout::Isa;
use motet_queueing::{
    Times,
    simulate::{Network, Plan, Queues, simulate},
};

use super::paper;
use crate::{
    flick::machines::Bench as Machines,
    motet::{self, Described},
    project::{self, Project},
    report::{Measurement, number},
};

/// How far cores may be apart, in microseconds: ten cycles. With more, who waits is told that much later.
const QUANTUM_US: &str = "0.1";
const AT_MOST: Duration = Duration::from_secs(900);
/// Pairs of lock and unlock of each thread.
const PAIRS: u32 = 300;
const QUICK_PAIRS: u32 = 200;
/// Slaves of `machines/hthreads.toml`.
const SLAVES: u32 = 6;
/// Slaves of the largest machine that is compared with the model.
const SLAVES_MAX: u32 = 16;
/// The first slave.
const FIRST_CPU: u32 = 16;
/// An operation of the service core that is compared with the model: slow, so that cores wait for each other.
const SLOW_OPERATION_NS: u32 = 400;

/// Of a model's cores: simulations with each of these are averaged.
const BEGINNINGS: u64 = 20;

/// How a service is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// In metrics.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// `MOTET_HTHREADS`.
    pub back_end: &'static str,
    /// Of the style sheet.
    pub colour: &'static str,
}

/// All of them.
pub const WAYS: [Way; 4] = [
    Way { name: "hardware", title: "service core", back_end: "hardware", colour: "var(--i0)" },
    Way { name: "rpc", title: "remote procedure calls", back_end: "rpc@0", colour: "var(--i2)" },
    Way { name: "fused", title: "futexes of the fused kernel", back_end: "fused", colour: "var(--i3)" },
    Way { name: "hybrid", title: "futexes, and the service core", back_end: "hybrid", colour: "var(--i4)" },
];

/// What pairs of lock and unlock take, in a slave's cycles.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// Requesters at the same time.
    pub threads: u32,
    /// Of one pair, in a loop of nothing else.
    pub cycles: f64,
    /// Of single pairs between two readings of the clock: mean and standard deviation.
    pub single: [f64; 2],
}

/// What was measured of a way.
#[derive(Clone, Debug)]
pub struct Column {
    /// Which.
    pub way: Way,
    /// Each requester has a mutex of its own.
    pub own: Vec<Latency>,
    /// All have the same one.
    pub same: Vec<Latency>,
    /// Threads, and how many times faster they are than one, in the paper's loop.
    pub speedup: Vec<[f64; 2]>,
    /// Threads, and those that compute on average; then those that wait, and for how long in cycles: equations 3 to 7.
    pub derived: Vec<[f64; 4]>,
    /// Time of a service over the time between two.
    pub rho: f64,
}

/// The slow service core beside the model: cores, and iterations in a thousand cycles as measured and as modelled.
pub type Comparison = Vec<[f64; 3]>;

/// Everything.
#[derive(Clone, Debug)]
pub struct Results {
    /// By way.
    pub columns: Vec<Column>,
    /// Beside the model.
    pub comparison: Comparison,
    machine: String,
}

struct Bench {
    machines: Machines,
    program: PathBuf,
}

/// Measures all of it.
///
/// # Errors
/// The program does not compile, or a run fails.
pub fn measure(quick: bool) -> Result<Results> {
    let bench = Bench::new()?;
    let machine = bench.machines.machine("hthreads")?;
    let wide = bench.with_slaves(&machine, SLAVES_MAX)?;
    let columns = WAYS.iter().map(|way| bench.column(&machine, &wide, *way, quick)).collect::<Result<_>>()?;
    let comparison = bench.compare(&machine, quick)?;
    Ok(Results { columns, comparison, machine: project::describe(&machine.machine)? })
}

impl Bench {
    fn new() -> Result<Self> {
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

    /// Runs the program; its numbers by name.
    fn run(&self, machine: &Described, way: Way, words: &str, threads: u32) -> Result<Numbers> {
        let cpus = (FIRST_CPU..FIRST_CPU + threads).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",");
        let command = format!("MOTET_HTHREADS={} on riscv64 /in/latency -c {cpus} {words}", way.back_end);
        let run = self.machines.run(machine, QUANTUM_US, &[&self.program], &command, AT_MOST)?;
        Ok(Numbers { output: run.output, mhz: slave_mhz(machine) })
    }

    fn column(&self, machine: &Described, wide: &Described, way: Way, quick: bool) -> Result<Column> {
        let pairs = if quick { QUICK_PAIRS } else { PAIRS };
        let requesters = if quick { vec![1, SLAVES] } else { (1..=SLAVES).collect() };
        let latencies = |what: &str| {
            let of = |&threads: &u32| {
                let numbers = self.run(machine, way, &format!("{what} {threads} {pairs}"), threads)?;
                let [cycles, mean, deviation] = ["loop_ns", "mean_ns", "sd_ns"].map(|name| numbers.cycles(name));
                Ok(Latency { threads, cycles: cycles?, single: [mean?, deviation?] })
            };
            requesters.iter().map(of).collect::<Result<Vec<_>>>()
        };
        let (own, same) = (latencies("lock")?, latencies("same")?);
        let [iterations, outside, inside] = paper::LOOP;
        let threads = if quick { vec![1, SLAVES] } else { vec![1, 2, 3, 4, 6, 8, SLAVES_MAX] };
        let times = threads.iter().map(|&threads| {
            let words = format!("speedup {threads} {} {outside} {inside}", threads * iterations);
            Ok([f64::from(threads), self.run(wide, way, &words, threads)?.cycles("time_ns")?])
        });
        let times = times.collect::<Result<Vec<[f64; 2]>>>()?;
        let alone = times.first().map_or(f64::NAN, |first| first[1]);
        let speedup: Vec<[f64; 2]> =
            times.iter().map(|&[threads, cycles]| [threads, threads * alone / cycles]).collect();
        let rho = rho(alone);
        let derived = times.iter().map(|&[threads, cycles]| derive(threads, cycles, rho)).collect();
        let last = own.last().map_or(f64::NAN, |last| last.cycles);
        eprintln!("motet: {}: {} cycles, {} with {SLAVES}", way.title, number(own[0].cycles), number(last));
        Ok(Column { way, own, same, speedup, derived, rho })
    }

    /// A service core that is slow, asked by 1 to 16 slaves, beside the model with the times of one of them.
    fn compare(&self, machine: &Described, quick: bool) -> Result<Comparison> {
        let operation = format!("operation_ns = {SLOW_OPERATION_NS}\n");
        let slow = self.machines.changed(machine, "slow", &[("operation_ns = 80\n", &operation)])?;
        let [_, outside, inside] = paper::LOOP;
        let all: &[u32] = if quick { &[1, 16] } else { &[1, 2, 4, 6, 8, 12, SLAVES_MAX] };
        let mut compared = Vec::new();
        let mut alone = f64::NAN;
        for &cores in all {
            let machine = self.with_slaves(&slow, cores)?;
            let iterations = cores * if quick { QUICK_PAIRS } else { paper::LOOP[0] };
            let words = format!("speedup {cores} {iterations} {outside} {inside}");
            let cycles = self.run(&machine, WAYS[0], &words, cores)?.cycles("time_ns")?;
            let measured = 1000.0 * f64::from(iterations) / cycles;
            if cores == 1 {
                alone = 1000.0 / measured;
            }
            let modelled = modelled(cores, alone, slave_mhz(&machine))?;
            eprintln!(
                "motet: {cores} slaves: {} iterations in 1000 cycles, {} modelled",
                number(measured),
                number(modelled)
            );
            compared.push([f64::from(cores), measured, modelled]);
        }
        Ok(compared)
    }
}

/// Iterations in a thousand cycles by the model, in which a core does what one alone does: two operations, and between them what is left of
/// its time.
fn modelled(cores: u32, alone: f64, mhz: f64) -> Result<f64> {
    let [_, outside, inside] = paper::LOOP.map(f64::from);
    let operation = f64::from(SLOW_OPERATION_NS) * mhz / 1000.0;
    let other = (alone - 2.0 * operation - outside - inside) / 2.0;
    let network = Network {
        cores,
        servers: 1,
        queues: Queues::Shared,
        computing: Times::InTurn([outside + other, inside + other].into()),
        service: Times::Fixed(operation),
        interconnect: None,
    };
    // With times that are always the same, who meets whom follows from how the cores began.
    let begun = (0..BEGINNINGS).map(|seed| {
        let outcome = simulate(&network, Plan { requests: 20_000, seed });
        // Two operations an iteration, of which the server does one after the other while it is busy.
        outcome.map(|outcome| 1000.0 * outcome.utilization / operation / 2.0)
    });
    let sum = begun.sum::<std::result::Result<f64, _>>();
    let sum = sum.map_err(|error| Error::new(ErrorKind::Software, format!("the queueing model refuses: {error}")))?;
    Ok(sum / BEGINNINGS as f64)
}

fn slave_mhz(machine: &Described) -> f64 {
    let config = machine.machine.model_config().ok();
    let island = config.as_ref().and_then(|config| config.islands.get(1));
    island.map_or(f64::NAN, |island| island.timing.frequency_mhz() as f64)
}

/// Of the paper's loop, which takes one thread so many cycles alone: time in services over the time between them.
fn rho(alone: f64) -> f64 {
    let [iterations, outside, inside] = paper::LOOP.map(f64::from);
    let computing = outside + inside;
    (alone / iterations - computing) / computing
}

/// Equations 3 to 7, of threads that end together: threads, cores that compute, cores that wait for others, and how long a request does.
fn derive(threads: f64, cycles: f64, rho: f64) -> [f64; 4] {
    let [iterations, outside, inside] = paper::LOOP.map(f64::from);
    let active = threads * iterations * (outside + inside) / cycles;
    let queued = (threads - active * (1.0 + rho)).max(0.0);
    // Two requests in each iteration.
    let lambda = 2.0 / (outside + inside);
    [threads, active, queued, queued / (active * lambda)]
}

/// What the program has printed.
struct Numbers {
    output: String,
    mhz: f64,
}

impl Numbers {
    /// A time that it has printed in nanoseconds, in cycles of a slave.
    fn cycles(&self, name: &str) -> Result<f64> {
        let mut words = self.output.split_whitespace();
        let value = words.find(|word| *word == name).and_then(|_| words.next()?.parse::<f64>().ok());
        let missing = || Error::new(ErrorKind::Software, format!("the program printed no {name}:\n{}", self.output));
        Ok(value.ok_or_else(missing)? * self.mhz / 1000.0)
    }
}

impl Results {
    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.way.name == name)
    }

    /// How far the machine is from the model at most, in percent.
    fn apart_percent(&self) -> f64 {
        self.comparison
            .iter()
            .map(|[_, measured, modelled]| 100.0 * (measured / modelled - 1.0).abs())
            .fold(0.0, f64::max)
    }

    /// The worst number of requesters for the hybrid: the better of the other two over it, with mutexes of their own and with one.
    fn hybrid_over_best(&self) -> f64 {
        let [Some(hybrid), Some(fused), Some(hardware)] = ["hybrid", "fused", "hardware"].map(|name| self.column(name))
        else {
            return f64::NAN;
        };
        let worst = |of: fn(&Column) -> &Vec<Latency>| {
            let best = of(fused).iter().zip(of(hardware)).map(|(one, other)| one.cycles.min(other.cycles));
            best.zip(of(hybrid)).map(|(best, hybrid)| best / hybrid.cycles).fold(f64::INFINITY, f64::min)
        };
        worst(|column| &column.own).min(worst(|column| &column.same))
    }

    /// The figures.
    pub fn measurements(&self) -> Vec<Measurement> {
        let mut all = Vec::new();
        let mut add = |metric: String, value: f64, unit, reference, target, source: &str| {
            let (machine, source) = (self.machine.clone(), source.to_owned());
            all.push(Measurement { metric, value, unit, machine, reference, target, source });
        };
        for column in &self.columns {
            let name = column.way.name;
            let (first, last) = (column.own.first(), column.own.last());
            let (Some(first), Some(last)) = (first, last) else { continue };
            let published = paper::mutex(name);
            let target = (name == "hardware").then_some(300.0);
            let pair = "one pair of lock and unlock in a loop of them, a mutex for each requester; reference: hthreads, Figure 5";
            add(
                format!("lock_unlock_{name}_cycles"),
                first.cycles,
                "cycles",
                published.map(|[one, _]| one),
                target,
                pair,
            );
            let six = published.map(|[_, six]| six);
            add(format!("lock_unlock_{name}_{SLAVES}_cycles"), last.cycles, "cycles", six, None, pair);
            let growth = if name == "hardware" { Some(1.02) } else { None };
            let metric = format!("contended_{name}_growth");
            let reference = published.map(|[one, six]| six / one);
            add(metric, last.cycles / first.cycles, "ratio", reference, growth, "six requesters over one");
            let spread = paper::deviation(name);
            for (latency, which, reference) in [(first, "", 0), (last, "_6", 1)] {
                let metric = format!("lock_unlock_{name}{which}_deviation_cycles");
                let reference = spread.map(|both| both[reference]);
                add(
                    metric,
                    latency.single[1],
                    "cycles",
                    reference,
                    None,
                    "standard deviation of single pairs, with the clock read between them",
                );
            }
            let single = "mean of single pairs, with the clock read between them";
            add(format!("lock_unlock_{name}_6_single_cycles"), last.single[0], "cycles", six, None, single);
            if let Some(same) = column.same.last() {
                add(
                    format!("same_mutex_{name}_{SLAVES}_cycles"),
                    same.cycles,
                    "cycles",
                    None,
                    None,
                    "six requesters of one mutex: from one unlock to its requester's next",
                );
            }
            for [threads, speedup] in &column.speedup {
                add(
                    format!("speedup_{name}_{threads}"),
                    *speedup,
                    "ratio",
                    None,
                    None,
                    "the paper's loop (Figure 4) on a machine with sixteen slaves, 1000 iterations of each thread",
                );
            }
            add(
                format!("rho_{name}"),
                column.rho,
                "ratio",
                paper::rho(name),
                None,
                "time in services over time between them in that loop; reference: assumed in hthreads, section IV-A",
            );
        }
        let [fused, hardware] =
            ["fused", "hardware"].map(|name| self.column(name).map_or(f64::NAN, |column| column.own[0].cycles));
        add("fused_over_hardware".into(), fused / hardware, "ratio", None, Some(1.0), "uncontended");
        add(
            "hybrid_over_best".into(),
            self.hybrid_over_best(),
            "ratio",
            None,
            Some(0.97),
            "the better of futexes and service core over both together, at the number of requesters where that is least",
        );
        add(
            "model_vs_machine_max_percent".into(),
            self.apart_percent(),
            "percent",
            None,
            Some(5.0),
            "iterations of the paper's loop per time on 1 to 16 slaves, a service core of 400 ns an operation, beside the queueing model",
        );
        all
    }

    /// Heads of [`Results::rows`].
    pub const COLUMNS: [&str; 9] = [
        "a mutex, in cycles",
        "alone",
        "with six",
        "deviation",
        "with six",
        "one mutex, six",
        "speed-up of six",
        "rho",
        "waiting, six",
    ];

    /// What people look at.
    pub fn rows(&self) -> Vec<[String; 9]> {
        let row = |column: &Column| {
            let of = |latencies: &[Latency], value: fn(&Latency) -> f64| {
                [latencies.first(), latencies.last()]
                    .map(|latency| latency.map_or("–".into(), |latency| number(value(latency))))
            };
            let [alone, six] = of(&column.own, |latency| latency.cycles);
            let [deviation, deviation_six] = of(&column.own, |latency| latency.single[1]);
            let [_, same] = of(&column.same, |latency| latency.cycles);
            let at_six = |[threads, ..]: &[f64; 2]| *threads == f64::from(SLAVES);
            let speedup =
                column.speedup.iter().find(|point| at_six(point)).map_or("–".into(), |point| number(point[1]));
            let waiting = column.derived.iter().find(|point| point[0] == f64::from(SLAVES));
            let waiting = waiting.map_or("–".into(), |point| number(point[3]));
            let title = column.way.title.to_owned();
            [title, alone, six, deviation, deviation_six, same, speedup, number(column.rho), waiting]
        };
        self.columns.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_of_the_paper_give_what_one_thread_does() {
        let [iterations, outside, inside] = paper::LOOP.map(f64::from);
        let alone = iterations * (outside + inside) * 1.5;
        assert!((rho(alone) - 0.5).abs() < 1e-12);
        let [_, active, queued, waiting] = derive(1.0, alone, 0.5);
        assert!((active - 1.0 / 1.5).abs() < 1e-12 && queued.abs() < 1e-12 && waiting.abs() < 1e-9);
        // Two threads that wait for each other half of the time.
        let [_, active, queued, waiting] = derive(2.0, 2.0 * alone, 0.5);
        assert!((active - 1.0 / 1.5).abs() < 1e-12 && (queued - 1.0).abs() < 1e-12);
        assert!((waiting - (outside + inside) * 0.75).abs() < 1e-9);
    }

    #[test]
    fn the_model_of_one_core_takes_what_it_takes_alone() {
        assert!((modelled(1, 500.0, 100.0).unwrap() - 2.0).abs() < 1e-3);
        // A server that is always busy.
        assert!((modelled(64, 500.0, 100.0).unwrap() - 1000.0 / 80.0).abs() < 1e-3);
    }

    #[test]
    fn numbers_are_found_by_name() {
        let numbers = Numbers { output: "lock rpc threads 6 mean_ns 120.5 sd_ns 3\n".into(), mhz: 100.0 };
        assert_eq!(numbers.cycles("mean_ns").unwrap(), 12.05);
        assert!(numbers.cycles("max_ns").is_err());
    }
}
