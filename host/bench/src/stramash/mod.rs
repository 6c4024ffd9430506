//! `motet bench stramash`: a thread that goes to another instruction set, on fused kernels and on a kernel for each island, as Stramash is judged beside
//! Popcorn Linux (ASPLOS '25): NAS benchmarks (Figure 9, Table 3), memory of the other island (Figures 11 and 12), and wake-ups (Figure 13).

mod access;
mod charged;
mod futex;
mod npb;
mod page;
mod pages;
mod paper;
mod runs;
mod threads;

use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use motet_error::Result;

use self::{
    npb::{Benchmark, Class, Level, Plan},
    page::Results,
    runs::{Cache, Model, Runs, System},
};
use crate::{output::Output, report::Collected};

const EXAMPLES: &str = "\
Examples:
  ./motet bench stramash                        class S
  ./motet bench stramash --report DIR           then open DIR/index.html
  ./motet bench stramash --benchmark is --level o2
  ./motet bench stramash --only pages           what a page costs
  ./motet bench stramash --only futex           two threads that wake each other
  ./motet bench stramash --class A --only npb --level o2
                                                the paper's problem: hours
  ./motet bench stramash --only npb --l3 32MiB  larger caches (Figure 10)
  ./motet bench stramash --only npb --class A --system adaptive
                                                no other rivals

Each run's counts are kept (target/bench/stramash-runs), so an experiment that
was cut goes on where it was; --fresh makes all runs again. Other programs,
machine files or kernels are other runs. docs/benchmarks.md says what each
figure means.";

/// Options of `motet bench stramash`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    output: Output,
    /// The size of the benchmarks' problems
    #[arg(long, value_enum, value_name = "CLASS", default_value_t = Class::S, ignore_case = true)]
    class: Class,
    /// Only this benchmark (may be repeated)
    #[arg(long, value_enum, value_name = "NAME")]
    benchmark: Vec<Benchmark>,
    /// Only programs compiled so (may be repeated)
    #[arg(long, value_enum, value_name = "LEVEL")]
    level: Vec<Level>,
    /// Only this memory model (may be repeated)
    #[arg(long, value_enum, value_name = "MODEL")]
    model: Vec<Model>,
    /// Only this system, beside fused kernels and popcorn-shm (may be repeated)
    #[arg(long, value_enum, value_name = "SYSTEM")]
    system: Vec<System>,
    /// Last-level caches of this size (benchmarks only)
    #[arg(long, value_enum, value_name = "SIZE", default_value_t = Cache::Usual, ignore_case = true)]
    l3: Cache,
    /// So many runs of benchmarks at a time; simulated time does not depend on it [default: the host's cores]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Only this part
    #[arg(long, value_enum, value_name = "PART")]
    only: Option<Part>,
    /// Make all runs again
    #[arg(long)]
    fresh: bool,
}

/// Parts of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// NAS benchmarks (Figure 9, Table 3)
    Npb,
    /// Pages that another island uses, and lines of them (Figure 12)
    Pages,
    /// 10 MiB that the other island has written (Figure 11)
    Access,
    /// Threads that wake each other (Figure 13)
    Futex,
    /// A thread on each of three islands
    Threads,
}

/// What was named, or everything, in the usual order.
fn chosen<T: Copy + PartialEq>(all: &[T], named: &[T]) -> Vec<T> {
    all.iter().copied().filter(|one| named.is_empty() || named.contains(one)).collect()
}

/// Runs the experiment. A run that fails does not keep the others from being reported.
///
/// # Errors
/// A run failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let models = chosen(&Model::ALL, &options.model);
    let mut runs = Runs::new(options.fresh)?;
    let mut collected = Collected::default();
    let mut results = Results { class: options.class, ..Results::default() };
    if wanted(Part::Pages) {
        results.pages = gathered(&mut collected, pages::measure(&mut runs, &models)?);
        collected.add(Ok(pages::measurements(&results.pages)));
    }
    if wanted(Part::Access) {
        results.access = gathered(&mut collected, access::measure(&mut runs, &models)?);
        collected.add(Ok(access::measurements(&results.access)));
    }
    if wanted(Part::Futex) {
        results.futex = gathered(&mut collected, futex::measure(&mut runs, &models)?);
        collected.add(Ok(futex::measurements(&results.futex)));
    }
    if wanted(Part::Npb) {
        let plan = Plan {
            class: options.class,
            benchmarks: chosen(&Benchmark::ALL, &options.benchmark),
            levels: chosen(&Level::BOTH, &options.level),
            models,
            systems: chosen(&System::ALL, &options.system),
            cache: options.l3,
            jobs: options.jobs.or(std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get),
        };
        results.pairs = gathered(&mut collected, npb::measure(&mut runs, &plan)?);
        collected.add(Ok(npb::measurements(&plan, &results.pairs)));
    }
    if wanted(Part::Threads) {
        threads::measure(&mut runs)?.into_iter().for_each(|measured| collected.add(measured));
    }
    options.output.page("Motet beside Stramash", || page::body(&results, &collected.measurements))?;
    let outcome = collected.finish(options.output.json());
    motet_error::print(&results.tables())?;
    outcome
}

/// What was measured; what was not is told.
fn gathered<T>(collected: &mut Collected, measured: Vec<Result<T>>) -> Vec<T> {
    let mut all = Vec::new();
    for one in measured {
        collected.add(one.map(|one| {
            all.push(one);
            Vec::new()
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parse(words: &str) -> std::result::Result<Options, String> {
        let words = std::iter::once("stramash").chain(words.split_whitespace());
        Line::try_parse_from(words).map(|line| line.options).map_err(|error| error.to_string())
    }

    #[test]
    fn words_of_the_command_line_are_checked() {
        for (words, named) in [
            ("--class B", "[possible values: s, a]"),
            ("--benchmark ep", "[possible values: is, cg, mg, ft]"),
            ("--level o3", "[possible values: o0, o2]"),
            ("--model private", "[possible values: separated, shared, fully-shared]"),
            ("--only futexes", "[possible values: npb, pages, access, futex, threads]"),
            ("is", "unexpected argument 'is'"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(named), "{words}: {error}");
        }
        let options = parse("--class A --benchmark is --benchmark ft --level o2").unwrap();
        assert_eq!((options.class, options.benchmark), (Class::A, vec![Benchmark::Is, Benchmark::Ft]));
        assert_eq!(parse("").unwrap().class, Class::S);
    }

    #[test]
    fn what_is_named_runs_in_the_usual_order() {
        assert_eq!(chosen(&Level::BOTH, &[]), Level::BOTH);
        assert_eq!(chosen(&Benchmark::ALL, &[Benchmark::Ft, Benchmark::Is]), [Benchmark::Is, Benchmark::Ft]);
    }
}
