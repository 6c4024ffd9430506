//! `motet sweep`: machines × programs × seeds, run by Snakemake, with results that say where they come from.
//!
//! A [study] file has axes, whose values are expanded to points. Each point is a folder with a machine file and what is to be run
//! ([point]); Snakemake runs `motet sweep point` for those without a result. docs/sweep.md describes studies and results.
#![forbid(unsafe_code)]

mod axis;
mod diff;
mod keys;
mod metrics;
pub mod options;
mod page;
mod plan;
mod point;
mod results;
mod snakemake;
mod study;
mod sweep;
mod versions;

use std::path::Path;

use motet_error::Result;
use options::{SweepOptions, SweepSubcommand};

/// Does what the command line says; gives the exit status. `root` is the project's folder, `target` that of what is built.
///
/// # Errors
/// A study is wrong, Snakemake cannot be had, a point has failed (of those that Snakemake starts), or the host refuses.
pub fn run(options: &SweepOptions, root: &Path, target: &Path) -> Result<u8> {
    match &options.command {
        Some(SweepSubcommand::Diff(options)) => diff::diff(options),
        Some(SweepSubcommand::Point(options)) => point::run(root, &options.folder, &options.id),
        None => sweep::sweep(options, root, target),
    }
}
