//! `motet bench ker-one`: accelerators of an FPGA that clients share, beside Ker-ONE.

mod accelerators;
mod page;
mod paper;

use clap::{Args, ValueEnum};
use motet_fabric::Result;

use crate::{output::Output, report::Collected};

const EXAMPLES: &str = "\
Examples:
  ./motet bench ker-one --quick            fewer rounds
  ./motet bench ker-one --report DIR       everything; then open DIR/index.html

docs/benchmarks.md says what each figure means.";

/// Options of `motet bench ker-one`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    output: Output,
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// Only this part (may be repeated)
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
}

/// Parts of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// The FPGA: allocations, waits, frames in hardware and software (Figure 15, Tables 5 and 6, equation 6)
    Accelerators,
}

/// Runs the experiment. A part that fails does not keep the others from being reported.
///
/// # Errors
/// A part failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let mut collected = Collected::default();
    let mut results = None;
    if wanted(Part::Accelerators) {
        let measured = accelerators::measure(options.quick);
        collected.add(measured.map(|measured| results.insert(measured).measurements()));
    }
    options.output.page("Motet beside Ker-ONE", || page::body(results.as_ref(), &collected.measurements))?;
    collected.finish(options.output.json())
}
