//! Simulated time of a timed machine: one clock per core, in memory that all QEMU processes share.
//!
//! Each core adds up its own time and comes to [`Timing::boundary`] a few times in each quantum, where it waits for cores
//! that are behind. A sleeping core holds nobody back; it wakes at the time of what woke it. When all sleep, time jumps to the
//! earliest alarm. `docs/simulator.md` describes the rules.
//!
//! This crate knows nothing of QEMU; the plugin drives it.
#![forbid(unsafe_code)]

mod boundary;
mod engine;
mod exchange;
mod fpga;
#[cfg(not(motet_model))]
pub mod host;
mod pace;
mod records;
mod region;
mod rules;
mod service;
mod sleep;

pub use records::Records;
pub use region::{
    ClockRegion, CoreClock, MessageCounts, PACE_NONE, PACE_PARKED, PACE_RUNS, PACE_WAITS, REGION_MAGIC, Settings,
};
pub use rules::{Bells, Next, Timing};

/// Picoseconds in a nanosecond.
pub const PS_PER_NS: u64 = 1000;

/// Where simulated time ends: after 213 days. Clocks are picoseconds in 64 bits, which last for half a day more.
pub const TIME_END_PS: u64 = 213 * 86_400 * 1_000_000_000 * PS_PER_NS;
