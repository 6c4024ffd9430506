//! `motet bench ftm`: threads that go to the cores that have their instructions, beside Fast Thread Migration and Linux: one migration
//! (Figure 3, Table 2), a product of matrices (Figures 5 and 6), fresh memory, many threads on one accelerator (Figure 4), and a mix.

mod mix;
mod page;
mod paper;
mod queue;
mod rivals;
mod single;

use clap::{Args, ValueEnum};
use motet_error::Result;

use self::{page::Results, rivals::Bench};
use crate::{output::Output, report::Collected};

const EXAMPLES: &str = "\
Examples:
  ./motet bench ftm --quick            two minutes: fewer machines and repetitions
  ./motet bench ftm --report DIR       everything; then open DIR/index.html
  ./motet bench ftm --only single      one thread: migration, system calls, dgemm
  ./motet bench ftm --only queue       many threads that want one accelerator

docs/benchmarks.md says what each figure means.";

/// Options of `motet bench ftm`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    output: Output,
    /// Fewer machines, repetitions and threads
    #[arg(long)]
    quick: bool,
    /// Only this part (may be repeated)
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
}

/// Parts of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// One thread: a migration, system calls, a product of matrices, fresh memory (Figures 3, 5 and 6, Table 2)
    Single,
    /// The same on Linux, in instructions: pinned, and by this project's firmware
    Linux,
    /// Threads of 1 to 8 cores that want one accelerator, or two (Figure 4)
    Queue,
    /// 8 scalar and 8 vector processes on 4 cores and 2 accelerators
    Mix,
}

/// Runs the experiment. A part that fails does not keep the others from being reported.
///
/// # Errors
/// A part failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    let bench = Bench::new()?;
    let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let mut results = Results::default();
    let mut collected = Collected::default();
    if wanted(Part::Single) {
        for machine in if options.quick { &rivals::MACHINES[..1] } else { &rivals::MACHINES[..] } {
            collected.add(single::measure(&bench, machine, options.quick).map(|columns| {
                let measurements = single::measurements(machine, &columns);
                results.singles.push((machine.title, columns));
                measurements
            }));
        }
    }
    if wanted(Part::Linux) {
        collected.add(single::measure_linux(&bench, options.quick).map(|columns| {
            results.linux = columns;
            single::linux_measurements(&results.linux)
        }));
    }
    if wanted(Part::Queue) {
        collected.add(queue::measure(&bench, options.quick).map(|queues| {
            results.queues = queues;
            queue::measurements(&results.queues)
        }));
    }
    if wanted(Part::Mix) {
        collected.add(mix::measure(&bench, options.quick).map(|mixes| {
            results.mixes = mixes;
            results.mixes.iter().flat_map(mix::measurements).collect()
        }));
    }
    options.output.page("Motet beside Fast Thread Migration", || page::body(&results, &collected.measurements))?;
    let outcome = collected.finish(options.output.json());
    motet_error::print(&results.tables())?;
    outcome
}
