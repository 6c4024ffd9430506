//! Accesses of several cores in one order, as text that other simulators can replay, too; and what the model makes of them, counted
//! so that it can be compared with theirs.
//!
//! A line is a core's number, a kind (`f`etch, `l`oad, `s`tore, `a`tomic) and an address in hexadecimal; an access is of
//! the eight bytes there. Empty lines and those that begin with `#` say nothing.

use std::{
    fmt,
    io::{self, BufRead},
    str::FromStr,
};

use crate::{Config, Counters, Kind, Model, RegionError, Sharing, allocate};

/// Bytes of an access.
pub const ACCESS_BYTES: u32 = 8;

/// An access by one of the cores. The next one of the trace begins when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the core.
    pub core: usize,
    /// What it does.
    pub kind: Kind,
    /// Physical address; a multiple of [`ACCESS_BYTES`].
    pub address: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Fetch => 'f',
            Kind::Load | Kind::Walk => 'l',
            Kind::Store => 's',
            Kind::Atomic => 'a',
        };
        write!(f, "{} {kind} {:x}", self.core, self.address)
    }
}

/// A line that is no [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoStep;

impl fmt::Display for NoStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a core, one of f, l, s and a, and an address of eight bytes in hexadecimal")
    }
}

impl std::error::Error for NoStep {}

impl FromStr for Step {
    type Err = NoStep;

    fn from_str(line: &str) -> Result<Self, NoStep> {
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or(NoStep);
        let core = word()?.parse().map_err(|_| NoStep)?;
        let kind = match word()? {
            "f" => Kind::Fetch,
            "l" => Kind::Load,
            "s" => Kind::Store,
            "a" => Kind::Atomic,
            _ => return Err(NoStep),
        };
        let address = u64::from_str_radix(word()?, 16).map_err(|_| NoStep)?;
        let whole = address % u64::from(ACCESS_BYTES) == 0 && words.next().is_none();
        if whole { Ok(Self { core, kind, address }) } else { Err(NoStep) }
    }
}

/// Reads a trace.
///
/// # Errors
/// `from`'s, and [`io::ErrorKind::InvalidData`] with the line's number for what is no [`Step`].
pub fn read(from: impl BufRead) -> io::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (index, line) in from.lines().enumerate() {
        let line = line?;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {why}", index + 1));
        steps.push(line.parse().map_err(invalid)?);
    }
    Ok(steps)
}

/// What a trace did, on all cores together. Each count is of something that happens in every protocol in which levels include
/// each other, whatever its messages are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Fetches.
    pub fetches: u64,
    /// Loads, stores and atomics.
    pub data: u64,
    /// Fetches that the core's L1I did not complete alone.
    pub fetches_beyond_l1: u64,
    /// Data accesses that its L1D did not complete alone: misses, and writes to lines that it had, but shared.
    pub data_beyond_l1: u64,
    /// Accesses that its L2 did not complete alone, for the same two reasons.
    pub beyond_l2: u64,
    /// Accesses for which memory was read.
    pub memory_reads: u64,
    /// Lines that a core had for itself and that another one's read made shared.
    pub downgrades: u64,
    /// Lines that cores lost to another one's write, or because the last level needed the room.
    pub invalidations: u64,
    /// Modified lines that left the last level.
    pub memory_write_backs: u64,
    /// Sum of all latencies, in picoseconds.
    pub latency_ps: u64,
}

impl Tally {
    /// Names of the counts, in order; the last one is the latency.
    pub const NAMES: [&str; 10] = [
        "fetches",
        "data",
        "fetches_beyond_l1",
        "data_beyond_l1",
        "beyond_l2",
        "memory_reads",
        "downgrades",
        "invalidations",
        "memory_write_backs",
        "latency_ps",
    ];

    /// The counts, as [`Tally::NAMES`] has them.
    pub fn values(&self) -> [u64; 10] {
        [
            self.fetches,
            self.data,
            self.fetches_beyond_l1,
            self.data_beyond_l1,
            self.beyond_l2,
            self.memory_reads,
            self.downgrades,
            self.invalidations,
            self.memory_write_backs,
            self.latency_ps,
        ]
    }
}

/// Lets the model do what a trace says, from empty caches, and counts.
///
/// # Errors
/// The model's. It allocates its region itself, so there are none but by a defect.
///
/// # Panics
/// A step is of a core that the machine has not got.
pub fn replay(config: Config, steps: &[Step]) -> Result<Tally, RegionError> {
    let region = allocate(Model::region_words(&config));
    let cores = config.core_count();
    let model = Model::create(config, &region, Sharing::OneAtATime)?;
    let mut claimed: Vec<_> = (0..cores).map(|core| model.core(core).expect("nobody else has it")).collect();
    let mut tally = Tally::default();
    for step in steps {
        let core = &mut claimed[step.core];
        let upgrades_before = model.counters(step.core).upgrades;
        let misses = |counters: &Counters| counters.l1i_misses + counters.l1d_misses;
        let misses_before = misses(&model.counters(step.core));
        tally.latency_ps += core.access(step.kind, step.address, ACCESS_BYTES).0;
        let after = model.counters(step.core);
        let beyond = u64::from(misses(&after) > misses_before || after.upgrades > upgrades_before);
        match step.kind {
            Kind::Fetch => tally.fetches_beyond_l1 += beyond,
            Kind::Load | Kind::Store | Kind::Atomic | Kind::Walk => tally.data_beyond_l1 += beyond,
        }
    }
    drop(claimed);
    for core in 0..cores {
        let counted = model.counters(core);
        tally.fetches += counted.fetches;
        tally.data += counted.data_accesses();
        tally.beyond_l2 += counted.l2i_misses + counted.l2d_misses + counted.upgrades;
        tally.memory_reads += counted.l3i_misses + counted.l3d_misses;
        tally.downgrades += counted.peer_data;
        tally.invalidations += counted.peer_invalidates + counted.back_invalidates;
        tally.memory_write_backs += counted.memory_write_backs;
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = "# two cores\n0 f 80000000\n1 l 40\n\n1 s 48\n0 a 40\n";
        let steps = read(text.as_bytes()).unwrap();
        assert_eq!(steps.len(), 4);
        assert_eq!(steps[3], Step { core: 0, kind: Kind::Atomic, address: 0x40 });
        let again: Vec<String> = steps.iter().map(Step::to_string).collect();
        assert_eq!(again.join("\n"), "0 f 80000000\n1 l 40\n1 s 48\n0 a 40");
    }

    #[test]
    fn what_is_no_access_is_refused_with_its_line() {
        for line in ["0 l", "0 x 40", "0 l 41", "0 l 40 1", "-1 l 40", "0 l 0x40"] {
            let error = read(format!("0 l 40\n{line}\n").as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{line}");
            assert!(error.to_string().starts_with("line 2: "), "{error}");
        }
    }
}
