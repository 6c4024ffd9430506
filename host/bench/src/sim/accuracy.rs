//! `motet bench sim-accuracy`: how often the model's caches hit, beside other simulators that see the same program.
//!
//! Each program runs twice, the second time for twice as long; figures are of the difference, which is free of booting
//! and starting. docs/benchmarks.md says what differs by design.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use motet_error::{Error, ErrorKind, Result};
use motet_fabric::stats::CoreStats;
use motet_layout::Isa;

use super::{
    Geometry, USUAL, cachegrind,
    contrib::{self, Counts},
    gem5,
    machine::{self, Program},
    record,
    tools::Tools,
};
use crate::{
    process,
    project::{self, ISAS, Project},
    report::{Collected, Measurement},
};

const EXAMPLES: &str = "\
Examples:
  ./motet bench sim-accuracy --quick
  ./motet bench sim-accuracy --json sim-accuracy.json";

/// Options of `motet bench sim-accuracy`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Write the measurements to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fewer programs, on one instruction set
    #[arg(long)]
    quick: bool,
    /// Instead of measuring, record anew the trace that the model's tests replay, with contrib's counts; with --gem5, the
    /// traces of cores that share memory, those of programs by running them, with gem5's counts
    #[arg(long, conflicts_with_all = ["json", "quick"])]
    record: bool,
    /// Only replay traces of cores that share memory, in the model and in gem5, whose recorded counts are the reference
    /// otherwise: the path of a gem5.opt that has the protocol MESI_Three_Level
    #[arg(long, value_name = "PATH", conflicts_with = "quick")]
    gem5: Option<PathBuf>,
}

const PROGRAMS: [Program; 5] = [
    Program { name: "stride", arguments: "stride", count: 500_000 },
    Program { name: "cg", arguments: "cg S", count: 1 },
    Program { name: "is", arguments: "is S", count: 10 },
    Program { name: "mg", arguments: "mg S", count: 1 },
    Program { name: "ft", arguments: "ft S", count: 1 },
];
const QUICK: usize = 2;
const AT_MOST: Duration = Duration::from_secs(600);
/// Pairs of runs that are made until their boots are alike.
const ATTEMPTS: u32 = 5;

/// Runs the experiment.
///
/// # Errors
/// A part failed, or the JSON file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    if let Some(gem5) = &options.gem5 {
        let mut collected = Collected::default();
        collected.add(gem5::compare(&project, gem5, options.record));
        return collected.finish(options.json.as_deref());
    }
    let tools = Tools::prepare(&project)?;
    if options.record {
        return record::record(&project, &tools);
    }
    let (isas, programs) = if options.quick { (&ISAS[..1], &PROGRAMS[..QUICK]) } else { (&ISAS[..], &PROGRAMS[..]) };
    let mut collected = Collected::default();
    let mut largest = [0.0_f64; 3];
    for isa in isas {
        for program in programs {
            collected.add(beside_contrib(&project, &tools, *isa, *program, &mut largest));
        }
    }
    if collected.failures.is_empty() {
        collected.add(summary(largest));
    }
    for program in programs {
        collected.add(cachegrind::compare(&project, &tools, *program));
    }
    collected.add(gem5::compare_kept(&project));
    collected.finish(options.json.as_deref())
}

fn summary(largest: [f64; 3]) -> Result<Vec<Measurement>> {
    let measurement = |(name, value): (&str, f64)| Measurement {
        metric: format!("{name}_miss_ratio_vs_contrib_percent"),
        value,
        unit: "percentage points",
        machine: project::host(),
        reference: Some(0.0),
        target: None,
        source: "largest difference between the miss ratios above; reference: equal".into(),
    };
    Ok(["l1d", "l1i", "l2"].into_iter().zip(largest).map(measurement).collect())
}

/// Both simulators in the same QEMU, so that they see the same instructions and accesses. The first level is compared
/// without a second one, which would take lines from the model's L1 and not from contrib's.
fn beside_contrib(
    project: &Project,
    tools: &Tools,
    isa: Isa,
    program: Program,
    largest: &mut [f64; 3],
) -> Result<Vec<Measurement>> {
    eprintln!("motet: {} on {}, beside QEMU's contrib plugin cache", program.name, isa.name());
    let (one, two) = (Geometry { l2: None, ..USUAL }, USUAL);
    let (ours, theirs, machine) = difference(project, tools, isa, program, &one)?;
    let (ours_two, theirs_two, _) = difference(project, tools, isa, program, &two)?;
    let percent = |misses: u64, of: u64| 100.0 * misses as f64 / of.max(1) as f64;
    let data = ours.count("loads") + ours.count("stores") + ours.count("atomics");
    let l2_misses = ours_two.count("l2d_misses") + ours_two.count("l2i_misses");
    let l2 = ours_two.count("l1d_misses") + ours_two.count("l1i_misses");
    let instructions = theirs.instructions;
    let pairs = [
        ("l1d", percent(ours.count("l1d_misses"), data), percent(theirs.data_misses, theirs.data)),
        ("l1i", percent(ours.count("l1i_misses"), instructions), percent(theirs.instruction_misses, instructions)),
        ("l2", percent(l2_misses, l2), percent(theirs_two.l2_misses, theirs_two.l2)),
    ];
    let mut measurements = Vec::new();
    for (index, (level, value, reference)) in pairs.into_iter().enumerate() {
        let (missed, of) = match level {
            "l1d" => (ours.count("l1d_misses"), theirs.data_misses),
            "l1i" => (ours.count("l1i_misses"), theirs.instruction_misses),
            _ => (l2_misses, theirs_two.l2_misses),
        };
        largest[index] = largest[index].max((value - reference).abs());
        measurements.push(Measurement {
            metric: format!("{level}_miss_percent_{}_{}", program.name, isa.name()),
            value,
            unit: "%",
            machine: machine.clone(),
            reference: Some(reference),
            target: None,
            source: format!("{missed} misses; reference: contrib cache of qemu {}, {of} misses", tools.version),
        });
    }
    Ok(measurements)
}

/// What a program does in addition when it runs twice as long: the model's counts, contrib's, and on which machine.
///
/// Contrib counts the boot, too, where cores wait for one another in loops of any length: a pair of runs whose boots differ
/// so much that its data accesses are not the program's is made again.
fn difference(
    project: &Project,
    tools: &Tools,
    isa: Isa,
    program: Program,
    geometry: &Geometry,
) -> Result<(CoreStats, Counts, String)> {
    for _ in 0..ATTEMPTS {
        let (ours, theirs, machine) = pair_of_runs(project, tools, isa, program, geometry)?;
        let accesses = ours.count("loads") + ours.count("stores") + ours.count("atomics");
        if accesses.abs_diff(theirs.data) <= accesses / 10 {
            return Ok((ours, theirs, machine));
        }
        eprintln!("motet: the boots differed; {} on {} again", program.name, isa.name());
    }
    let what = format!("{} on {}: contrib's counts of booting differ from run to run", program.name, isa.name());
    Err(Error::new(ErrorKind::Unavailable, format!("{what}; try again when the host has less to do")))
}

fn pair_of_runs(
    project: &Project,
    tools: &Tools,
    isa: Isa,
    program: Program,
    geometry: &Geometry,
) -> Result<(CoreStats, Counts, String)> {
    let folder = project.scratch("accuracy")?;
    let machine = machine::describe(&folder, &[isa], geometry)?;
    let programs = machine::programs(project, &folder)?;
    let mut counted = Vec::new();
    for program in [program, program.with(2 * program.count)] {
        let (stats, log) = (folder.join("stats.json"), folder.join("contrib.log"));
        let plugin = contrib::arguments(tools, geometry, &log).join(" ");
        let options = ["--timed", "--deterministic", "--stats", &stats.display().to_string(), "--qemu"];
        let mut options = options.map(str::to_owned).to_vec();
        options.push(format!("{}={plugin}", isa.name()));
        let command = program.command(isa);
        process::expect(&mut machine::run(project, &machine, &programs, &options, &command), AT_MOST)?;
        let stats = machine::read_stats(&stats)?;
        counted.push((stats.cores.first().cloned().unwrap_or_default(), contrib::read(&log)?));
    }
    let (once, twice) = (&counted[0], &counted[1]);
    Ok((beyond(&twice.0, &once.0), twice.1.beyond(&once.1), project::describe(&machine.machine)?))
}

/// What one run counted in addition to another.
pub fn beyond(more: &CoreStats, less: &CoreStats) -> CoreStats {
    let memory = more.memory.iter().map(|(name, count)| (name.clone(), count.saturating_sub(less.count(name))));
    CoreStats {
        instructions: more.instructions.saturating_sub(less.instructions),
        memory: memory.collect(),
        ..CoreStats::default()
    }
}
