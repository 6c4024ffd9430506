//! Experiments on the simulator: how exact its caches are, and how fast it is, beside other cache simulators.

pub mod accuracy;
mod cachegrind;
mod contrib;
mod gem5;
pub mod machine;
mod record;
pub mod speed;
mod tools;
mod watch;

/// A cache, in bytes and ways; lines have 64 bytes everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes.
    pub size: u64,
    /// Lines in a set.
    pub ways: u64,
}

/// One core's caches, for every simulator alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// First level for data.
    pub l1d: Cache,
    /// First level for instructions.
    pub l1i: Cache,
    /// Second level, for both.
    pub l2: Option<Cache>,
}

/// The sizes of the machines in Stramash's tables; cachegrind can have them, too.
const USUAL: Geometry = Geometry {
    l1d: Cache { size: 32 << 10, ways: 8 },
    l1i: Cache { size: 32 << 10, ways: 8 },
    l2: Some(Cache { size: 1 << 20, ways: 16 }),
};
