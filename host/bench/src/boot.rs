//! `motet bench boot`: how long the machine takes to boot, what system calls cost beside Linux, and whether a pipe
//! between islands is as fast as one inside an island.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use motet_error::{Error, ErrorKind, Result};
use motet_machine::MachineSpec;

use crate::{
    bomb, masked, motet, profile,
    project::{self, ISAS, Project},
    prompt,
    report::{Collected, Measurement, geometric_mean, median},
    system_calls,
};

/// A user waits this long for a prompt without complaint, in seconds.
const BOOT_TARGET_S: f64 = 3.0;
/// A kernel should be deaf for at most so many instructions.
const MASKED_TARGET: f64 = 20_000.0;
/// Of the runs that are longer, so many are told.
const RUNS_TOLD: usize = 12;
/// An island's clock may be behind another's by so much, in microseconds.
const CLOCK_STEP_TARGET_US: f64 = 50.0;
/// The superuser's shell answers within this time whatever other users run, in seconds.
const ANSWER_TARGET_S: f64 = 2.0;
/// How long each pipe is measured.
const PIPE_SECONDS: u64 = 2;

const EXAMPLES: &str = "\
Examples:
  ./motet bench boot --boots 3             the median of three boots
  ./motet bench boot --json boot.json

docs/benchmarks.md says what each figure means.";

/// Options of `motet bench boot`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Write the measurements to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure Linux again, too
    #[arg(long)]
    remeasure: bool,
    /// Boots of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    boots: u32,
    /// Only this part (may be repeated)
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
}

/// Parts of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// Time to the prompt
    Prompt,
    /// Instructions of system calls, beside Linux
    Calls,
    /// Where the instructions of system calls are, by function of the kernel; only when asked for
    Profile,
    /// How long kernels take no interrupts
    Masked,
    /// How long the superuser's shell takes beside fork bombs
    Bomb,
    /// Throughput of pipes
    Pipes,
    /// Linux's instructions alone
    Linux,
}

/// Runs the experiment. A part that fails does not keep the others from being reported.
///
/// # Errors
/// A part failed, or the JSON file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    let mut collected = Collected::default();
    let mut tables = String::new();
    let wanted = |part: Part| {
        let by_default = !matches!(part, Part::Linux | Part::Profile) && options.only.is_empty();
        by_default || options.only.contains(&part)
    };
    if wanted(Part::Prompt) {
        collected.add(boot_to_prompt(&project, options.boots));
    }
    for isa in ISAS {
        if wanted(Part::Linux) {
            collected.add(system_calls::linux_only(&project, isa, options.remeasure));
        }
        if wanted(Part::Calls) {
            collected.add(system_calls::measure(&project, isa, options.remeasure).map(|columns| {
                tables += &columns.table();
                columns.measurements()
            }));
        }
    }
    for isa in ISAS.into_iter().filter(|_| wanted(Part::Profile)) {
        profile::print(&project, isa)?;
    }
    for isa in ISAS.into_iter().filter(|_| wanted(Part::Masked)) {
        collected.add(longest_masked(&project, isa));
    }
    for (name, islands) in bomb::machines().iter().filter(|_| wanted(Part::Bomb)) {
        collected.add(beside_bombs(&project, name, islands));
    }
    if wanted(Part::Pipes) {
        collected.add(pipes(&project));
    }
    let outcome = collected.finish(options.json.as_deref());
    motet_error::print(&tables)?;
    outcome
}

fn boot_to_prompt(project: &Project, boots: u32) -> Result<Vec<Measurement>> {
    let machine = MachineSpec::load(&project.root.join("machines/default.toml"))?;
    let mut times = Vec::new();
    for boot in 1..=boots {
        let seconds = prompt::time(project)?.as_secs_f64();
        eprintln!("motet: boot {boot} of {boots}: prompt after {seconds:.2} s");
        times.push(seconds);
    }
    Ok(vec![Measurement {
        metric: "boot_to_prompt_s".into(),
        value: median(&times),
        unit: "s",
        machine: project::describe(&machine)?,
        reference: None,
        target: Some(BOOT_TARGET_S),
        source: format!("median of {boots} boots"),
    }])
}

fn longest_masked(project: &Project, isa: motet_layout::Isa) -> Result<Vec<Measurement>> {
    eprintln!("motet: looking for the longest time without interrupts on {}", isa.name());
    let longest = masked::longest(project, isa)?;
    for run in longest.runs.iter().filter(|run| run.instructions as f64 > MASKED_TARGET).take(RUNS_TOLD) {
        let (instructions, functions) = (run.instructions, run.functions.join(", "));
        eprintln!("motet: {instructions} instructions without an interrupt during {}, in: {functions}", run.program);
    }
    Ok(vec![Measurement {
        metric: format!("longest_masked_instructions_{}", isa.name()),
        value: longest.runs.first().map_or(0.0, |run| run.instructions as f64),
        unit: "instructions",
        machine: project::describe(&longest.machine.machine)?,
        reference: None,
        target: Some(MASKED_TARGET),
        source: "long, scattered and hostile system calls".into(),
    }])
}

fn beside_bombs(project: &Project, name: &str, islands: &[motet_layout::Isa]) -> Result<Vec<Measurement>> {
    eprintln!("motet: asking the superuser's shell beside fork bombs ({})", name.replace('_', " "));
    let (machine, seconds) = bomb::longest_answer_s(project, islands)?;
    Ok(vec![Measurement {
        metric: format!("shell_beside_fork_bombs_s_max_{name}"),
        value: seconds,
        unit: "s",
        machine: project::describe(&machine.machine)?,
        reference: None,
        target: Some(ANSWER_TARGET_S),
        source: "a command of three processes, the slowest of ten on each island".into(),
    }])
}

/// All pipes of a machine with two cores on each island, so that both ends run at once in either case.
fn pipes(project: &Project) -> Result<Vec<Measurement>> {
    let folder = project.scratch("pipes")?;
    let described = motet::describe(&folder, &ISAS.map(|isa| (isa, 2)))?;
    let programs = motet::collect_programs(project, &folder)?;
    let pairs: Vec<_> = ISAS.iter().flat_map(|from| ISAS.map(|to| (*from, to))).collect();
    let mut script = String::new();
    for (from, to) in &pairs {
        let program = |isa: &motet_layout::Isa| format!("/in/programs/{}/stream", isa.name());
        script += &format!("{} source {PIPE_SECONDS} | {} sink\n", program(from), program(to));
    }
    // Programs of all islands have read the clock all the time.
    script += "cat /proc/motet\n";
    eprintln!("motet: measuring {} pipes for {PIPE_SECONDS} s each", pairs.len());
    let options = ["--in".to_owned(), programs.display().to_string()];
    let output = motet::run(project, &described, &options, &script, Duration::from_secs(180))?;
    let rates: Vec<f64> = output.lines().filter_map(mebibytes_per_second).collect();
    if rates.len() != pairs.len() {
        return Err(Error::new(ErrorKind::Software, format!("pipes: {} of {} measured", rates.len(), pairs.len())));
    }
    let machine = project::describe(&described.machine)?;
    let measurement = |metric: String, value, unit, source: &str| Measurement {
        metric,
        value,
        unit,
        machine: machine.clone(),
        reference: None,
        target: None,
        source: source.into(),
    };
    let mut measurements = Vec::new();
    for ((from, to), rate) in pairs.iter().zip(&rates) {
        let metric = format!("pipe_{}_to_{}_mib_per_s", from.name(), to.name());
        measurements.push(measurement(metric, *rate, "MiB/s", "writes and reads of 64 KiB"));
    }
    let of = |across: bool| -> Vec<f64> {
        pairs.iter().zip(&rates).filter(|((from, to), _)| (from != to) == across).map(|(_, rate)| *rate).collect()
    };
    let ratio = geometric_mean(&of(true)) / geometric_mean(&of(false));
    let source = "geometric means: pipes between two islands over pipes inside an island, one run; reference: equal";
    let mut ratio = measurement("pipe_cross_island_ratio".into(), ratio, "ratio", source);
    ratio.reference = Some(1.0);
    measurements.push(ratio);
    let step_ns = clock_step_ns_max(&output)
        .ok_or_else(|| Error::new(ErrorKind::Software, "/proc/motet says nothing of clocks".to_owned()))?;
    let source = "by /proc/motet, while all islands read the clock";
    let mut step = measurement("clock_step_us_max".into(), step_ns / 1e3, "us", source);
    step.target = Some(CLOCK_STEP_TARGET_US);
    measurements.push(step);
    Ok(measurements)
}

/// The furthest that any island's clock was behind another's, in nanoseconds, from `/proc/motet`.
fn clock_step_ns_max(text: &str) -> Option<f64> {
    let row = text.lines().find_map(|line| line.strip_prefix("clock_step_ns_max "))?;
    row.split_whitespace().map(|word| word.parse::<f64>().ok()).try_fold(0.0, |most: f64, ns| Some(most.max(ns?)))
}

/// From what `stream sink` prints: bytes and nanoseconds.
fn mebibytes_per_second(line: &str) -> Option<f64> {
    let (bytes, nanoseconds) = line.split_once(' ')?;
    let (bytes, nanoseconds): (f64, f64) = (bytes.parse().ok()?, nanoseconds.parse().ok()?);
    (bytes > 0.0 && nanoseconds > 0.0).then(|| bytes / (1 << 20) as f64 / (nanoseconds / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_from_what_the_sink_prints() {
        assert_eq!(mebibytes_per_second("1048576 500000000"), Some(2.0));
        assert_eq!(mebibytes_per_second("0 0"), None);
        assert_eq!(mebibytes_per_second("sh: not found"), None);
        assert_eq!(mebibytes_per_second("clock_steps 1 2 3"), None);
    }

    #[test]
    fn the_furthest_that_a_clock_was_behind_is_that_of_any_island() {
        let row = "clock_steps  1 2\nclock_step_ns_max     0  7200\n";
        assert_eq!(clock_step_ns_max(row), Some(7200.0));
        assert_eq!(clock_step_ns_max("clock_step_ns_max x"), None);
        assert_eq!(clock_step_ns_max(""), None);
    }
}
