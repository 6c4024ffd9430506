//! `motet top`: a machine that runs, on a terminal or as text.
//!
//! A [sample](motet_fabric::watched) is the machine at a moment; two of them are a [view], of which [tables] are made, for a [screen] or for
//! scripts ([batch]).
#![forbid(unsafe_code)]

pub mod options;

#[cfg(feature = "run")]
mod batch;
#[cfg(feature = "run")]
mod program;
#[cfg(feature = "run")]
mod screen;
#[cfg(feature = "run")]
mod tables;
#[cfg(feature = "run")]
mod view;

#[cfg(feature = "run")]
pub use program::main;
