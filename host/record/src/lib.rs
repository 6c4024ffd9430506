//! What a timed run remembers beside its totals: regions of interest, counts over time, and accesses one by one.
//!
//! Everything lies in one slice of atomic words, which all QEMUs' plugins write and the fabric reads. A [`Probe`] reads
//! what the cores have counted; [`Record::begin`] and [`Record::end`] keep differences of that by name, and
//! [`Record::sample`] keeps a core's own counts now and then; [`Accesses`] are memory of their own. `docs/simulator.md` says what the
//! figures mean.
//!
//! This crate knows nothing of QEMU, and takes the memory as given.
#![forbid(unsafe_code)]

mod accesses;
mod name;
mod passages;
mod probe;
mod regions;
mod samples;
mod warnings;
mod words;

pub use accesses::Accesses;
pub use name::{NAME_MAX, Name};
pub use passages::{POINTS_MAX, Passage, Passages, Point};
pub use probe::{COLUMNS, ClockCounts, Executing, Probe, Row, Snapshot, column_names, memory_counts};
pub use regions::{OTHERS, REGIONS_MAX, Region};
pub use samples::{ROWS_MAX, Samples, sampled_names};
pub use warnings::{Warning, WarningKind};
pub use words::{Record, RecordError};
