//! `motet bench sim-speed`: how long programs take in a timed machine, in an untimed one, and under QEMU's contrib plugin
//! `cache`, in turns, so that whatever else the host does meets all of them.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::Args;
use motet_error::Result;
use motet_fabric::stats::Stats;
use motet_layout::Isa;

use super::{
    USUAL, contrib,
    machine::{self, Program},
    tools::Tools,
    watch::{self, Watched},
};
use crate::{
    motet::Described,
    project::{self, ISAS, Project},
    report::{Collected, Measurement, geometric_mean, median},
};

const EXAMPLES: &str = "\
Examples:
  ./motet bench sim-speed --quick
  ./motet bench sim-speed --json sim-speed.json";

/// Options of `motet bench sim-speed`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Write the measurements to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Once instead of three times, and fewer programs
    #[arg(long)]
    quick: bool,
}

const STRIDE: Program = Program { name: "stride", arguments: "stride", count: 10_000_000 };
const PROGRAMS: [Program; 5] = [
    STRIDE,
    Program { name: "cg", arguments: "cg S", count: 5 },
    Program { name: "is", arguments: "is S", count: 100 },
    Program { name: "mg", arguments: "mg S", count: 4 },
    Program { name: "ft", arguments: "ft S", count: 1 },
];
const QUICK: usize = 2;
const ROUNDS: u32 = 3;
/// Times its usual count that stride runs, once and for longer, where the difference is what a miss costs.
const MISSES: [u64; 2] = [2, 6];
const AT_MOST: Duration = Duration::from_secs(900);

/// The targets: times as fast as contrib, rate of three islands over one, rates of two islands with and without lock-step over those of two
/// machines, a miss beside another island over one alone, percent, and megabytes.
const OVER_CONTRIB: f64 = 5.0;
const SCALING: f64 = 1.6;
const LOCKSTEP_OVER_MACHINES: f64 = 0.7;
const FREE_OVER_MACHINES: f64 = 0.9;
const MISS_OVER_ALONE: f64 = 1.5;
const LOCKSTEP_PERCENT: f64 = 25.0;
const MEMORY_MB: f64 = 100.0;

/// What all machines have beside [`USUAL`]: TLBs of a size that server cores have. Chosen, not published.
const TLBS: &str = "itlb = { entries = 128, ways = 8 }\ndtlb = { entries = 64, ways = 4 }\n\
                    l2_tlb = { entries = 1536, ways = 12, cycles = 9 }\n";
/// A last-level cache, for where misses of L2 are what is measured.
const L3: &str = "l3 = { size = \"4MiB\", ways = 16, cycles = 50 }\n";
/// What metrics call quanta, and those, as `motet run` takes them: the usual one, a longer one, one that grows, and the longest
/// there is, which stands for "no lock-step".
const QUANTA_US: [(&str, &str); 4] = [("", "10"), ("_100us", "100"), ("_growing", GROWING_US), ("_free", FREE_US)];
const GROWING_US: &str = "10:1000";
const FREE_US: &str = "100000";
/// Those that the targets are for.
const TARGETED_US: [&str; 2] = [QUANTA_US[0].1, GROWING_US];

/// Runs the experiment.
///
/// # Errors
/// A part failed, or the JSON file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    let tools = Tools::prepare(&project)?;
    let (programs, rounds) = if options.quick { (&PROGRAMS[..QUICK], 1) } else { (&PROGRAMS[..], ROUNDS) };
    let mut collected = Collected::default();
    let bench = Bench { folder: project.scratch("speed")?, project, tools, rounds };
    collected.add(bench.one_island(programs));
    collected.add(bench.misses());
    for several in &SEVERAL {
        collected.add(bench.several_islands(several, programs));
    }
    collected.finish(options.json.as_deref())
}

struct Bench {
    project: Project,
    tools: Tools,
    folder: PathBuf,
    rounds: u32,
}

/// Medians of one program, in seconds.
struct Seconds {
    plain: f64,
    timed: f64,
    contrib: f64,
    /// Timed, in a machine with another island, which does nothing.
    beside: f64,
}

/// What one program takes, and what it executed when timed.
struct Times {
    once: Seconds,
    /// With twice as many iterations.
    twice: Seconds,
    instructions: u64,
}

impl Times {
    /// What contrib takes over what timed runs take: of all iterations, and of further ones, without first touching memory and translating code.
    fn over_contrib(&self) -> [(&'static str, f64); 4] {
        let all = |of: &dyn Fn(&Seconds) -> f64| self.once.contrib / of(&self.once);
        let further = |of: &dyn Fn(&Seconds) -> f64| {
            (self.twice.contrib - self.once.contrib) / (of(&self.twice) - of(&self.once))
        };
        [
            ("speed_over_contrib_cache", all(&|seconds| seconds.timed)),
            ("further_speed_over_contrib_cache", further(&|seconds| seconds.timed)),
            ("speed_over_contrib_cache_beside_island", all(&|seconds| seconds.beside)),
            ("further_speed_over_contrib_cache_beside_island", further(&|seconds| seconds.beside)),
        ]
    }
}

/// The machines of one program on one island.
struct OneIsland {
    alone: Described,
    /// With another island.
    beside: Described,
}

/// Islands that run at once.
struct Several {
    /// Their number, as metrics call it.
    name: &'static str,
    /// What metrics of lock-step call them.
    lockstep: &'static str,
    isas: &'static [Isa],
    /// The target for their rate over one island's.
    scaling: Option<f64>,
    /// The targets for their rate over that of machines that share nothing: with the usual quantum, and without lock-step.
    over_machines: Option<[f64; 2]>,
}

const SEVERAL: [Several; 2] = [
    // As many as hosts for tests have cores.
    Several {
        name: "two",
        lockstep: "_two_islands",
        isas: &[Isa::X86_64, Isa::AArch64],
        scaling: None,
        over_machines: Some([LOCKSTEP_OVER_MACHINES, FREE_OVER_MACHINES]),
    },
    Several { name: "three", lockstep: "", isas: &ISAS, scaling: Some(SCALING), over_machines: None },
];

/// Medians of one program on several ISAs, in seconds, and the most memory that an island took.
struct Together {
    /// Machines of one island, one after the other.
    alone_s: f64,
    /// The same at once: what the host makes of programs that have nothing to do with each other.
    machines_s: f64,
    /// One machine of several islands, by [`QUANTA_US`].
    islands_s: [f64; QUANTA_US.len()],
    memory_bytes: u64,
}

impl Together {
    /// What metrics say of it: names, values, units and targets.
    fn figures(&self, several: &Several) -> Vec<(String, f64, &'static str, Option<f64>)> {
        let mut figures = Vec::new();
        let [.., free_s] = self.islands_s;
        for ((name, quantum_us), seconds) in QUANTA_US.iter().zip(self.islands_s) {
            let has_target = TARGETED_US.contains(quantum_us);
            let scaling = format!("scaling_{}_islands{name}", several.name);
            figures.push((scaling, self.alone_s / seconds, "ratio", several.scaling.filter(|_| has_target)));
            if *quantum_us != FREE_US {
                let cost = format!("lockstep_cost{}{name}", several.lockstep);
                figures.push((cost, percent(seconds / free_s), "%", has_target.then_some(LOCKSTEP_PERCENT)));
            }
        }
        figures.push((format!("scaling_{}_machines", several.name), self.alone_s / self.machines_s, "ratio", None));
        for ((name, seconds), target) in
            [("", self.islands_s[0]), ("_free", free_s)].into_iter().zip(several.over_machines.into_iter().flatten())
        {
            let metric = format!("scaling_{0}_islands{name}_over_{0}_machines", several.name);
            figures.push((metric, self.machines_s / seconds, "ratio", Some(target)));
        }
        figures
    }

    /// The geometric mean of what several programs took.
    fn mean(all: &[Self]) -> Self {
        let mean = |of: &dyn Fn(&Self) -> f64| geometric_mean(&all.iter().map(of).collect::<Vec<_>>());
        Self {
            alone_s: mean(&|times| times.alone_s),
            machines_s: mean(&|times| times.machines_s),
            islands_s: std::array::from_fn(|at| mean(&|times| times.islands_s[at])),
            memory_bytes: all.iter().map(|times| times.memory_bytes).max().unwrap_or(0),
        }
    }
}

/// How much longer, in percent.
fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

/// Options of a timed run.
fn timed(quantum_us: &str) -> [String; 3] {
    ["--timed", "--quantum", quantum_us].map(str::to_owned)
}

/// What is measured about a machine, and where it comes from.
struct Figures {
    machine: String,
    source: String,
}

impl Figures {
    fn figure(&self, metric: impl Into<String>, value: f64, unit: &'static str, target: Option<f64>) -> Measurement {
        let (machine, source) = (self.machine.clone(), self.source.clone());
        Measurement { metric: metric.into(), value, unit, machine, reference: None, target, source }
    }
}

impl Bench {
    fn one_island(&self, programs: &[Program]) -> Result<Vec<Measurement>> {
        let isa = Isa::X86_64;
        let machines = OneIsland {
            alone: machine::describe_with(&self.project.scratch("speed-alone")?, &[isa], &USUAL, TLBS)?,
            beside: machine::describe_with(&self.project.scratch("speed-beside")?, SEVERAL[0].isas, &USUAL, TLBS)?,
        };
        let described = project::describe(&machines.alone.machine)?;
        let source = format!("median of {} rounds; contrib cache of qemu {} with L2", self.rounds, self.tools.version);
        let figures = Figures { machine: described, source };
        let start_up: u64 =
            self.stats(&machines.alone, STRIDE.with(0).command(isa))?.cores.iter().map(|core| core.instructions).sum();
        let (mut measurements, mut over_contrib, mut work) = (vec![], BTreeMap::<_, Vec<f64>>::new(), (0.0, 0.0));
        for program in programs {
            let times = self.times(&machines, isa, *program)?;
            let million = times.instructions.saturating_sub(start_up) as f64 / 1e6;
            work = (work.0 + million, work.1 + times.once.timed);
            let name = program.name;
            let ratio = |metric: String, value, target| figures.figure(metric, value, "ratio", target);
            for (metric, value) in times.over_contrib() {
                over_contrib.entry(metric).or_default().push(value);
                measurements.push(ratio(format!("{metric}_{name}"), value, Some(OVER_CONTRIB)));
            }
            let Seconds { plain, timed, contrib, .. } = times.once;
            measurements.push(ratio(format!("slowdown_over_plain_{name}"), timed / plain, None));
            measurements.push(ratio(format!("contrib_slowdown_over_plain_{name}"), contrib / plain, None));
            measurements.push(figures.figure(format!("mips_{name}"), million / timed, "MIPS", None));
        }
        for (metric, ratios) in over_contrib {
            measurements.push(figures.figure(metric, geometric_mean(&ratios), "ratio", Some(OVER_CONTRIB)));
        }
        measurements.push(figures.figure("mips_one_island", work.0 / work.1, "MIPS", None));
        Ok(measurements)
    }

    /// What a miss of L2 costs in further iterations of stride: with an L3 beside another island, over the same alone, with and without that L3.
    fn misses(&self) -> Result<Vec<Measurement>> {
        let (isa, with_l3) = (Isa::X86_64, format!("{TLBS}{L3}"));
        let alone = machine::describe_with(&self.project.scratch("speed-miss-alone")?, &[isa], &USUAL, TLBS)?;
        let l3_alone = machine::describe_with(&self.project.scratch("speed-miss-l3")?, &[isa], &USUAL, &with_l3)?;
        let beside = self.project.scratch("speed-miss-beside")?;
        let beside = machine::describe_with(&beside, SEVERAL[0].isas, &USUAL, &with_l3)?;
        let mut further_s = [vec![], vec![], vec![]];
        for round in 1..=self.rounds {
            eprintln!("motet: misses, round {round} of {}: alone, with an L3, beside another island", self.rounds);
            for (machine, times) in [&alone, &l3_alone, &beside].into_iter().zip(&mut further_s) {
                let taken_s = |longer: u64| -> Result<f64> {
                    let command = STRIDE.with(longer * STRIDE.count).command(isa);
                    Ok(self.watch(machine, &timed(QUANTA_US[0].1), &command, 1)?.seconds)
                };
                let [once_s, longer_s] = MISSES.map(taken_s);
                times.push(longer_s? - once_s?);
            }
        }
        let [alone_s, l3_alone_s, beside_s] = further_s.map(|times| median(&times));
        let source = format!("further iterations of stride, median of {} rounds", self.rounds);
        let figures = Figures { machine: project::describe(&beside.machine)?, source };
        let ratio = |metric, value| figures.figure(metric, value, "ratio", Some(MISS_OVER_ALONE));
        Ok(vec![
            ratio("miss_with_l3_beside_island_over_alone", beside_s / l3_alone_s),
            ratio("miss_with_l3_beside_island_over_alone_without_l3", beside_s / alone_s),
        ])
    }

    /// All ways of running a program, in turns, with its iterations and with twice as many.
    fn times(&self, machines: &OneIsland, isa: Isa, program: Program) -> Result<Times> {
        let twice = program.with(2 * program.count);
        let (mut once_s, mut twice_s, mut instructions) = ([const { vec![] }; 4], [const { vec![] }; 4], 0);
        for round in 1..=self.rounds {
            eprintln!(
                "motet: {}, round {round} of {}: untimed, timed, contrib, timed beside another island",
                program.name, self.rounds
            );
            let (taken_s, executed) = self.all_ways(machines, isa, program)?;
            instructions = executed;
            let (longer_s, _) = self.all_ways(machines, isa, twice)?;
            for way in 0..taken_s.len() {
                once_s[way].push(taken_s[way]);
                twice_s[way].push(longer_s[way]);
            }
        }
        let [once, twice] = [once_s, twice_s].map(|times| {
            let [plain, timed, contrib, beside] = times.map(|times| median(&times));
            Seconds { plain, timed, contrib, beside }
        });
        Ok(Times { once, twice, instructions })
    }

    /// Seconds untimed, timed, under contrib, and timed beside another island; instructions of the timed run.
    fn all_ways(&self, machines: &OneIsland, isa: Isa, program: Program) -> Result<([f64; 4], u64)> {
        let OneIsland { alone, beside } = machines;
        let log = self.folder.join("contrib.log");
        let contrib = contrib::arguments(&self.tools, &USUAL, &log).join(" ");
        let contrib = ["--qemu".to_owned(), format!("{}={contrib}", isa.name())];
        let stats = self.folder.join("stats.json");
        let timed = ["--timed", "--stats", &stats.display().to_string()].map(str::to_owned);
        let command = program.command(isa);
        let plain_s = self.watch(alone, &[], &command, 1)?.seconds;
        let timed_s = self.watch(alone, &timed, &command, 1)?.seconds;
        let contrib_s = self.watch(alone, &contrib, &command, 1)?.seconds;
        let instructions = machine::read_stats(&stats)?.cores.iter().map(|core| core.instructions).sum();
        let beside_s = self.watch(beside, &timed, &command, 1)?.seconds;
        Ok(([plain_s, timed_s, contrib_s, beside_s], instructions))
    }

    /// Each program on several islands at once, beside the same programs one after the other.
    fn several_islands(&self, several: &Several, programs: &[Program]) -> Result<Vec<Measurement>> {
        let folder = self.project.scratch(&format!("speed-{}", several.name))?;
        let machine = machine::describe_with(&folder, several.isas, &USUAL, TLBS)?;
        let mut singles = Vec::new();
        for &isa in several.isas {
            let folder = self.project.scratch(&format!("speed-{}", isa.name()))?;
            singles.push((isa, machine::describe_with(&folder, &[isa], &USUAL, TLBS)?));
        }
        let source = format!("median of {} rounds", self.rounds);
        let figures = Figures { machine: project::describe(&machine.machine)?, source };
        let (mut measurements, mut all) = (Vec::new(), Vec::new());
        for program in programs {
            let times = self.together(several.name, &machine, &singles, *program)?;
            for (metric, value, unit, target) in times.figures(several) {
                measurements.push(figures.figure(format!("{metric}_{}", program.name), value, unit, target));
            }
            all.push(times);
        }
        let mean = Together::mean(&all);
        for (metric, value, unit, target) in mean.figures(several) {
            measurements.push(figures.figure(metric, value, unit, target));
        }
        if several.scaling.is_some() {
            let memory_mb = mean.memory_bytes as f64 / 1e6;
            measurements.push(figures.figure("host_memory_per_island_mb", memory_mb, "MB", Some(MEMORY_MB)));
        }
        Ok(measurements)
    }

    /// One program on each ISA: machines of one island, one by one and all at once, and one machine of all islands, with several
    /// quanta, in turns.
    fn together(
        &self,
        name: &str,
        machine: &Described,
        singles: &[(Isa, Described)],
        program: Program,
    ) -> Result<Together> {
        eprintln!("motet: {} on each island alone, to let all take equally long", program.name);
        let programs = self.balance(singles, program)?;
        let commands: Vec<String> =
            singles.iter().zip(&programs).map(|((isa, _), program)| program.command(*isa)).collect();
        let all = commands.join(" & ") + " & wait";
        let (mut alone_s, mut machines_s, mut islands_s) = (vec![], vec![], [const { vec![] }; QUANTA_US.len()]);
        let mut memory_bytes = 0;
        for round in 1..=self.rounds {
            eprintln!(
                "motet: {} on {name} islands, round {round} of {}: one by one, {name} machines, together",
                program.name, self.rounds
            );
            let mut sum_s = 0.0;
            for ((_, machine), command) in singles.iter().zip(&commands) {
                sum_s += self.watch(machine, &timed(QUANTA_US[0].1), command, 1)?.seconds;
            }
            alone_s.push(sum_s);
            machines_s.push(self.at_once(singles, &commands)?);
            for (times, (_, quantum_us)) in islands_s.iter_mut().zip(QUANTA_US) {
                let together = self.watch(machine, &timed(quantum_us), &all, singles.len())?;
                memory_bytes = memory_bytes.max(together.memory_bytes);
                times.push(together.seconds);
            }
        }
        let [alone_s, machines_s] = [alone_s, machines_s].map(|times| median(&times));
        Ok(Together { alone_s, machines_s, islands_s: islands_s.map(|times| median(&times)), memory_bytes })
    }

    /// Machines of one island, all at once: seconds from the first program's begin to the last one's end.
    fn at_once(&self, machines: &[(Isa, Described)], commands: &[String]) -> Result<f64> {
        let folders = machine::programs(&self.project, &self.folder)?;
        let options = timed(QUANTA_US[0].1);
        let watched: Vec<Watched> = std::thread::scope(|scope| {
            let start = |((_, machine), command): (&(Isa, Described), &String)| {
                let mut motet = machine::run(&self.project, machine, &folders, &options, command);
                scope.spawn(move || watch::watch(&mut motet, 1, AT_MOST, &[]))
            };
            let threads: Vec<_> = machines.iter().zip(commands).map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("a watcher does not panic")).collect::<Result<_>>()
        })?;
        let began = watched.iter().map(|run| run.began).min();
        let ends = watched.iter().map(|run| run.began + Duration::from_secs_f64(run.seconds));
        Ok(ends.max().zip(began).map_or(0.0, |(end, began)| (end - began).as_secs_f64()))
    }

    fn watch(&self, machine: &Described, options: &[String], command: &str, programs: usize) -> Result<Watched> {
        let folders = machine::programs(&self.project, &self.folder)?;
        // Looking takes time, so it is done only where memory is what is asked for.
        let islands = if programs > 1 { &machine.machine.islands[..] } else { &[] };
        let private: Vec<u64> = islands.iter().map(|island| island.private).collect();
        let mut motet = machine::run(&self.project, machine, &folders, options, command);
        watch::watch(&mut motet, programs, AT_MOST, &private)
    }

    /// The program for each island, with counts so that all take about as long as the one that is fastest in simulated time:
    /// otherwise one of them would in the end run alone.
    fn balance(&self, singles: &[(Isa, Described)], program: Program) -> Result<Vec<Program>> {
        let times = singles.iter().map(|(isa, machine)| Ok(self.stats(machine, program.command(*isa))?.time_ps.max(1)));
        let times: Vec<u64> = times.collect::<Result<_>>()?;
        let least_ps = times.iter().copied().min().unwrap_or(1);
        let share = |time_ps: u64| ((program.count * least_ps) as f64 / time_ps as f64).round().max(1.0);
        Ok(times.into_iter().map(|time_ps| program.with(share(time_ps) as u64)).collect())
    }

    /// The statistics of a timed run.
    fn stats(&self, machine: &Described, command: String) -> Result<Stats> {
        let stats = self.folder.join("stats.json");
        self.watch(machine, &["--timed", "--stats", &stats.display().to_string()].map(str::to_owned), &command, 1)?;
        machine::read_stats(&stats)
    }
}
