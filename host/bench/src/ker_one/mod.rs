//! `motet bench ker-one`: real-time systems in virtual machines, and accelerators of an FPGA that clients share, beside Ker-ONE.

mod accelerators;
mod guest_allocations;
mod image;
mod lines;
mod moments;
mod neighbours;
mod page;
mod paper;
mod paper_vms;
mod parts;
mod vms;
mod vms_figures;
mod vms_page;

use std::{process::Command, time::Duration};

use clap::{Args, ValueEnum};
use motet_error::Result;
use motet_layout::Isa;

use crate::{output::Output, process, project::Project, report::Collected};

use lines::Lines;

const BUILT_WITHIN: Duration = Duration::from_secs(1200);

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
    /// Allocations by real-time guests (Figure 15)
    GuestAllocations,
    /// Real-time systems in virtual machines (Figures 12, 13 and 14, Tables 3 and 4)
    Vms,
    /// Responses of a real-time guest beside other guests, Linux, programs, copies, and hostile guests
    Neighbours,
    /// Lines of code that virtual machines must trust
    Lines,
}

/// Builds the guests that are measured, unless they are there.
///
/// # Errors
/// The build fails.
fn build_guests(project: &Project) -> Result<()> {
    eprintln!("motet: building the guests");
    let mut guests = Command::new(project.motet());
    guests.env("CARGO_TARGET_DIR", &project.target).args(["guests", Isa::RiscV64.name()]);
    process::expect(&mut guests, BUILT_WITHIN).map(drop)
}

/// Runs the experiment. A part that fails does not keep the others from being reported.
///
/// # Errors
/// A part failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let mut collected = Collected::default();
    let (mut results, mut vms, mut lines) = (None, None, None);
    if wanted(Part::Accelerators) {
        let measured = accelerators::measure(options.quick);
        collected.add(measured.map(|measured| results.insert(measured).measurements()));
    }
    if wanted(Part::GuestAllocations) {
        collected.add(guest_allocations::measure(options.quick).map(|measured| measured.measurements()));
    }
    if wanted(Part::Vms) {
        let measured = vms::measure(options.quick);
        collected.add(measured.map(|measured| vms.insert(measured).measurements()));
    }
    if wanted(Part::Neighbours) {
        collected.add(neighbours::measure(options.quick));
    }
    if wanted(Part::Lines) {
        let counted = Project::find().and_then(|project| Lines::count(&project.root));
        collected.add(counted.map(|counted| vms_figures::of_lines(lines.insert(counted), "the sources")));
    }
    options.output.page("Motet beside Ker-ONE", || {
        page::body(results.as_ref(), vms.as_ref(), lines.as_ref(), &collected.measurements)
    })?;
    collected.finish(options.output.json())
}
