//! `motet bench hthreads`: operating-system services as hardware, beside hthreads: what a mutex takes by each way to ask for it (Figure 5), how a
//! loop that locks one scales (Figure 6), and a model of how many cores compute while others wait (Table II, Figure 9), to 4,096 of them.

mod equations;
mod linux;
mod machine;
mod model;
mod paper;
mod plots;
mod printed;
mod results;
mod scaling;

use std::fmt::Write;

use clap::{Args, ValueEnum};
use motet_error::Result;

use self::{linux::Linux, machine::Results, model::Curve};
use crate::{
    output::Output,
    page,
    report::{Collected, Measurement},
};

const EXAMPLES: &str = "\
Examples:
  ./motet bench hthreads --quick           minutes: fewer machines and requesters
  ./motet bench hthreads --report DIR      everything; then open DIR/index.html
  ./motet bench hthreads --only model      the queueing model alone: seconds

docs/benchmarks.md says what each figure means.";

/// Options of `motet bench hthreads`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    output: Output,
    /// Shorter simulations, fewer machines and requesters
    #[arg(long)]
    quick: bool,
    /// Only this part (may be repeated)
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
}

/// Parts of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// The timed machine: a mutex by each way, speed-up, beside the model (Figures 5 and 6)
    Machine,
    /// Futexes of Debian's Linux, for orientation
    Linux,
    /// The model alone (Table II, Figure 9)
    Model,
}

/// Runs the experiment. A part that fails does not keep the other from being reported.
///
/// # Errors
/// A part failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let mut collected = Collected::default();
    let mut results = None;
    if wanted(Part::Machine) {
        collected.add(machine::measure(options.quick).map(|measured| results.insert(measured).measurements()));
    }
    let mut linux = None;
    if wanted(Part::Linux) {
        collected.add(linux::measure().map(|measured| linux.insert(measured).measurements()));
    }
    let curves = if wanted(Part::Model) { model::compute(options.quick)? } else { Vec::new() };
    if !curves.is_empty() {
        collected.add(Ok(model::measurements(&curves)));
    }
    options
        .output
        .page("Motet beside hthreads", || body(results.as_ref(), linux.as_ref(), &curves, &collected.measurements))?;
    let outcome = collected.finish(options.output.json());
    motet_error::print(&tables(results.as_ref(), linux.as_ref(), &curves))?;
    outcome
}

fn tables(results: Option<&Results>, linux: Option<&Linux>, curves: &[Curve]) -> String {
    let mut text = "\n".to_owned();
    if let Some(results) = results {
        text += &columns(Results::COLUMNS, &results.rows());
        text += &columns(Results::SHARED, &results.shared());
        text += &columns(Results::TABLE_1, &results.table_1());
        text += &columns(Results::QUEUES, &results.queues());
        text += &columns(Results::ENDS, &results.ends());
    }
    if let Some(linux) = linux {
        text += &columns(Linux::COLUMNS, &linux.table());
    }
    if !curves.is_empty() {
        text += &columns(model::COLUMNS, &model::rows(curves));
    }
    text
}

fn columns<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let mut text = String::new();
    for row in [heads.map(str::to_owned)].iter().chain(rows) {
        let Some((what, cells)) = row.split_first() else { continue };
        let cells = cells.iter().fold(String::new(), |line, cell| format!("{line}{cell:>16}"));
        let _ = writeln!(text, "  {what:<34}{cells}");
    }
    text.push('\n');
    text
}

/// What the page shows.
fn body(results: Option<&Results>, linux: Option<&Linux>, curves: &[Curve], measurements: &[Measurement]) -> String {
    let mut body = "<header>\n<h1>Motet beside hthreads</h1>\n<p class=\"soft\">Services of an operating system by hardware, by calls of a master, and \
                    by a fused kernel: measured on a timed machine, and by a queueing model. <code>docs/benchmarks.md</code> says how each figure is \
                    made.</p>\n</header>\n"
        .to_owned();
    if let Some(results) = results {
        body += &plots::measured(results);
    }
    body += &linux.map_or_else(String::new, plots::of_linux);
    if !curves.is_empty() {
        body += &plots::modelled(curves);
    }
    body + &page::all_figures(measurements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_well_formed() {
        let curves = model::compute(true).unwrap();
        let page = motet_page::page("t", &body(None, None, &curves, &model::measurements(&curves)));
        roxmltree::Document::parse_with_options(
            &page,
            roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
        )
        .unwrap();
        assert_eq!(columns(model::COLUMNS, &model::rows(&curves)).lines().count(), 2 + model::rows(&curves).len());
    }
}
