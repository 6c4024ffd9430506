//! The cache, coherence and cost model: memory events of simulated cores in, picoseconds out.
//!
//! It knows nothing of where the events come from. Its whole state is one slice of atomic words without pointers, so it
//! may lie in memory that several processes share: each process makes a [`Model`] over it and drives the [`Core`]s it has
//! claimed, one thread per core. Hits in a core's own L1 and L2 touch only that core's words; misses meet in the
//! directory, under a lock per group of lines. `docs/coherence.md` describes states, transitions and costs.
//!
//! Invariants, true whenever no access is under way, and checked by [`Model::check`]: a line has one writer or many
//! readers; what an L1 holds its L2 holds, and what an L2 holds its L3 holds; the directory says exactly who holds what.
#![forbid(unsafe_code)]

mod array;
mod bandwidth;
mod bytes;
mod check;
pub mod config;
mod core;
mod counters;
mod directory;
mod doubt;
mod elsewhere;
mod engine;
mod error;
pub mod interleaved;
mod keep;
mod locks;
#[cfg(test)]
mod meeting;
mod model;
mod order;
mod resolve;
mod table;
mod tlb;
pub mod trace;
mod trap;
mod usual;
mod validate;

pub use bytes::Bytes;
pub use check::Violation;
pub use config::{Class, Config, Policy, QueueConfig, RangeConfig, Replacement};
pub use core::{Core, Held, Kind};
pub use counters::{Counters, counter_names};
pub use elsewhere::{STALE_PAGES, StalePage};
pub use error::{ConfigError, Key, Step};
pub use model::{Model, Region, RegionError, Sharing, allocate};
pub use resolve::{Island, Piece, Shape, Target, TrapCycles};
pub use table::ModelTable;
pub use tlb::{Flush, Gone, PAGE_SHIFTS, Page, Side, Translated, WALK_ENTRIES_MAX, Walk};
pub use trap::TrapEvent;

/// Bytes in a cache line, on every core.
pub const LINE_SIZE: u64 = 64;

/// Simulated time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picoseconds(pub u64);

impl std::ops::Add for Picoseconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl std::ops::AddAssign for Picoseconds {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl std::iter::Sum for Picoseconds {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        Self(parts.map(|part| part.0).sum())
    }
}
