//! `motet sweep`: machines × programs × seeds, run by Snakemake, with results that say where they come from.
//!
//! A [study] file has axes, whose values are expanded to points. Each point is a folder with a machine file and what is to be run
//! ([point]); Snakemake runs `motet sweep point` for those without a result. docs/sweep.md describes studies and results.
#![forbid(unsafe_code)]

pub mod options;

#[cfg(feature = "run")]
mod axis;
#[cfg(feature = "run")]
mod diff;
#[cfg(feature = "run")]
mod keys;
#[cfg(feature = "run")]
mod metrics;
#[cfg(feature = "run")]
mod page;
#[cfg(feature = "run")]
mod plan;
#[cfg(feature = "run")]
mod point;
#[cfg(feature = "run")]
mod program;
#[cfg(feature = "run")]
mod results;
#[cfg(feature = "run")]
mod snakemake;
#[cfg(feature = "run")]
mod study;
#[cfg(feature = "run")]
mod sweep;
#[cfg(feature = "run")]
mod versions;

#[cfg(feature = "run")]
pub use program::main;
