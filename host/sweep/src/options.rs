//! The command line of `motet sweep`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  ./motet sweep studies/doorbell.toml
  ./motet sweep studies/doorbell.toml --list             the points, and which are finished
  ./motet sweep studies/doorbell.toml --jobs 4           four points at a time
  ./motet sweep studies/doorbell.toml --executor slurm --jobs 100 -- --default-resources slurm_partition=short
  ./motet sweep diff target/sweeps/doorbell other/doorbell

Snakemake (9, fetched once from PyPI) runs the points. One that fails ends no other; finished ones are not run again: the same command goes on
after an interruption or a failure. What was measured is in DIR/results.csv and DIR/results.parquet, a row for each metric of each point with
where it comes from, and on the page DIR/index.html. docs/sweep.md describes study files and metrics.
Exit status: 0 when all points have finished, 1 when some have failed, 130 when interrupted.";

/// `motet sweep`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SweepOptions {
    /// Something else than running a study
    #[command(subcommand)]
    pub command: Option<SweepSubcommand>,
    /// The study file
    #[arg(value_name = "STUDY.toml", required = true)]
    pub study: Option<PathBuf>,
    /// The folder for points and results [default: target/sweeps/STUDY]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Points at a time [default: half the processors; 100 with another executor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
    /// Where Snakemake runs points: local, slurm, kubernetes
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub executor: String,
    /// Show the points and whether they are finished; run nothing
    #[arg(long)]
    pub list: bool,
    /// Run finished points again, too
    #[arg(long)]
    pub again: bool,
    /// Further options for Snakemake: those of its executor, for instance
    #[arg(last = true, value_name = "SNAKEMAKE OPTION")]
    pub snakemake: Vec<String>,
}

/// What else there is.
#[derive(Subcommand, Clone, Debug)]
pub enum SweepSubcommand {
    /// Compare the results of two sweeps, point by point
    Diff(DiffOptions),
    /// Run one point: Snakemake's word
    #[command(hide = true)]
    Point(PointOptions),
}

/// `motet sweep point`.
#[derive(Args, Clone, Debug)]
pub struct PointOptions {
    /// The sweep's folder.
    pub folder: PathBuf,
    /// The point.
    pub id: String,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  ./motet sweep diff target/sweeps/doorbell other/doorbell
  ./motet sweep diff before.csv after.csv --metric 'run.*' --above 2

Means over seeds are compared; points are the same when their axes have the same values. Exit status: 0 when there is no difference, 1 when
there is one, as diff has it.";

/// `motet sweep diff`.
#[derive(Args, Clone, Debug)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct DiffOptions {
    /// A sweep's folder, or its results.csv
    pub before: PathBuf,
    /// Another one
    pub after: PathBuf,
    /// Only metrics of this name, which may have `*` in it (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub metric: Vec<String>,
    /// Only differences of more than this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub above: f64,
}
