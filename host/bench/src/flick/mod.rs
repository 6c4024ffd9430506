//! `motet bench flick`: calls across instruction sets, beside Flick (ISCA '20): null calls (Table III), pointer chasing
//! (Figure 5), breadth-first search (Table IV), calls that are not the best case, and how much of the kernel is there for them.

mod bfs;
pub mod calls;
mod cases;
mod chase;
mod dma;
mod graphs;
mod lines;
pub mod machines;
mod orders;
mod page;
pub mod paper;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use motet_error::{Error, Result};

use self::{bfs::Choice, machines::Bench, page::Results};
use crate::{
    output::Output,
    project::Project,
    report::{Collected, Measurement},
};

/// How many null calls, as in the paper.
const CALLS: u64 = 10_000;
const QUICK_CALLS: u64 = 1000;
/// What part of the published graphs the generated ones have.
const SCALE: u32 = 64;
const QUICK_SCALE: u32 = 512;

const EXAMPLES: &str = "\
Examples:
  ./motet bench flick --quick            a few minutes: fewer calls and points
  ./motet bench flick --report DIR       everything; then open DIR/index.html
  ./motet bench flick --only calls       null calls, with their break-down
  ./motet bench flick --only cases       cold and busy calls, and with arguments
  ./motet bench flick --only orders      null calls with the kernel's functions in
                                         random orders
  ./motet bench flick --only bfs --graph soc-Epinions1.txt
                                         a graph of https://snap.stanford.edu
  ./motet bench flick --only bfs --full  graphs of the published sizes: an
                                         hour or more, and 4 GiB of memory

docs/benchmarks.md says what each figure means.";

/// Options of `motet bench flick`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    output: Output,
    /// Fewer calls, points and machines, and smaller graphs
    #[arg(long)]
    quick: bool,
    /// Only this part (may be repeated)
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Search this graph, a list of edges as SNAP has them, instead of generated ones (may be repeated)
    #[arg(long, value_name = "FILE")]
    graph: Vec<PathBuf>,
    /// Generate graphs of the published sizes
    #[arg(long, conflicts_with_all = ["quick", "scale", "graph"])]
    full: bool,
    /// Generate graphs with one Nth of the published vertices and edges [default: 64, but Epinions1 whole; with --quick 512]
    #[arg(long, value_name = "N", conflicts_with = "graph", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    scale: Option<u32>,
    /// Searches of each graph, of which the mean is taken
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    iterations: u64,
    /// Seed of the generated graphs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Parts of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// Null calls there and back (Table III)
    Calls,
    /// Calls that are not the best case, one by one, by both protocols
    Cases,
    /// Null calls with the board's kernel linked in random orders
    Orders,
    /// Following a list in the NxP's memory (Figure 5)
    Chase,
    /// Breadth-first search (Table IV)
    Bfs,
    /// Copies and calls over the link by transfer engines, and by loads and stores
    Dma,
    /// Lines of the kernel that are there for crossings
    Lines,
}

/// Runs the experiment. A part that fails does not keep the others from being reported.
///
/// # Errors
/// A part failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    for path in &options.graph {
        graphs::open(path)?;
    }
    let project = Project::find()?;
    let folder = project.scratch("flick")?;
    let bench = Bench { project, folder };
    let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let mut results = Results::default();
    let mut collected = Collected::default();
    let count = if options.quick { QUICK_CALLS } else { CALLS };
    if wanted(Part::Calls) {
        collected.add(calls::measure(&bench, count, options.quick).map(|calls| {
            results.calls = calls;
            calls::measurements(&results.calls, count)
        }));
    }
    if wanted(Part::Cases) {
        collected.add(cases::measure(&bench, options.quick).map(|cases| {
            results.cases = cases;
            cases::measurements(&results.cases)
        }));
    }
    if wanted(Part::Orders) {
        collected.add(orders::measure(&bench, QUICK_CALLS, options.quick).and_then(|orders| {
            results.orders = orders;
            orders::measurements(&bench, &results.orders, QUICK_CALLS)
        }));
    }
    if wanted(Part::Chase) {
        collected.add(chase::measure(&bench, options.quick).and_then(|chases| {
            results.chases = chases;
            chase::measurements(&bench, &results.chases)
        }));
    }
    if wanted(Part::Bfs) {
        let choice = options.choice();
        collected.add(bfs::measure(&bench, &choice).map(|searches| {
            results.searches = searches;
            bfs::measurements(&results.searches, &choice)
        }));
    }
    if wanted(Part::Dma) {
        collected.add(dma::measure(&bench, options.quick).and_then(|copies| dma::measurements(&bench, &copies)));
        collected.add(dma::calls(&bench, options.quick));
    }
    if wanted(Part::Lines) {
        collected.add(kernel_lines(&bench));
    }
    options.output.page("Motet beside Flick", || page::body(&results, &collected.measurements))?;
    let outcome = collected.finish(options.output.json());
    motet_error::print(&results.tables())?;
    outcome
}

impl Options {
    fn choice(&self) -> Choice {
        let usual = if self.quick { QUICK_SCALE } else { SCALE };
        let scale = if self.full { 1 } else { self.scale.unwrap_or(usual) };
        let small_ones_whole = !self.quick && self.scale.is_none();
        let files = self.graph.clone();
        Choice { files, scale, small_ones_whole, seed: self.seed, iterations: self.iterations }
    }
}

fn kernel_lines(bench: &Bench) -> std::result::Result<Vec<Measurement>, Error> {
    let lines = lines::count(&bench.project.root)?;
    let measurement = |metric: &str, value: usize, reference, source: &str| Measurement {
        metric: metric.into(),
        value: value as f64,
        unit: "lines",
        machine: "the source tree".into(),
        reference,
        target: None,
        source: source.into(),
    };
    let source = "lines of code in kernel and fused, without tests; reference: Flick, kernel, compiler and linker";
    let whole: usize = lines.whole.iter().sum();
    let mut all = vec![measurement("crossing_kernel_lines", whole + lines.elsewhere, Some(paper::LINES), source)];
    for (part, name) in lines::PARTS {
        let metric = format!("crossing_kernel_lines_{name}");
        all.push(measurement(&metric, lines.whole[part as usize], None, "in files that are for crossings only"));
    }
    let source = "lines and blocks that name crossings, in other files";
    all.push(measurement("crossing_kernel_lines_elsewhere", lines.elsewhere, None, source));
    Ok(all)
}
