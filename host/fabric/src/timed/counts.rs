//! What the simulator of a running machine has counted so far, as lines of numbers, for who watches it ([`crate::watched`]).

use std::{fmt::Write as _, sync::atomic::Ordering::Relaxed};

use motet_layout::{CORES_MAX, CORES_PER_ISLAND_MAX};
use motet_record::Probe;

use super::{Clocks, stats::CoreStats};
use crate::control::Counts;

/// What a core has done since the machine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounts {
    /// Time that passed on its clock.
    pub time_ps: u64,
    /// Of it, asleep.
    pub idle_ps: u64,
    /// Of it, waiting for memory.
    pub stall_ps: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Misses in the caches of level one for instructions and for data, and in those of levels two and three.
    pub misses: [u64; 4],
    /// Reads of memory near to it and of other memory.
    pub reads: [u64; 2],
}

/// All of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllCounts {
    /// Simulated time that all running cores have reached.
    pub time_ps: u64,
    /// By island and core of it.
    pub cores: Vec<(usize, usize, CoreCounts)>,
}

const WORDS: usize = 10;

impl CoreCounts {
    fn of(core: &CoreStats) -> Self {
        let sum = |names: &[&str]| names.iter().map(|name| core.count(name)).sum();
        Self {
            time_ps: core.time_ps,
            idle_ps: core.idle_ps,
            stall_ps: core.stall_ps,
            instructions: core.instructions,
            misses: [
                sum(&["l1i_misses"]),
                sum(&["l1d_misses"]),
                sum(&["l2i_misses", "l2d_misses"]),
                sum(&["l3i_misses", "l3d_misses"]),
            ],
            reads: [sum(&["near_reads"]), sum(&["far_reads"])],
        }
    }

    fn words(&self) -> [u64; WORDS] {
        let [l1i, l1d, l2, l3] = self.misses;
        let [near, far] = self.reads;
        [self.time_ps, self.idle_ps, self.stall_ps, self.instructions, l1i, l1d, l2, l3, near, far]
    }

    fn from_words([time_ps, idle_ps, stall_ps, instructions, l1i, l1d, l2, l3, near, far]: [u64; WORDS]) -> Self {
        Self { time_ps, idle_ps, stall_ps, instructions, misses: [l1i, l1d, l2, l3], reads: [near, far] }
    }
}

impl Counts for Option<&Clocks> {
    fn counts(&self) -> String {
        let Some(clocks) = self else { return String::new() };
        let time_ps = clocks.region.now_ps.load(Relaxed);
        let config = clocks.model.config();
        let rows = Probe::new(clocks.region, &clocks.model).at(time_ps).rows;
        let mut text = format!("{time_ps}\n");
        for (number, core) in clocks.core_stats(&rows).iter().enumerate() {
            let _ = write!(text, "{} {}", config.island_of(number), core.core);
            CoreCounts::of(core).words().iter().for_each(|word| {
                let _ = write!(text, " {word}");
            });
            text.push('\n');
        }
        text
    }
}

/// Reads what a machine has written. `None`: it is something else.
pub fn read_counts(text: &str) -> Option<AllCounts> {
    let mut lines = text.lines();
    let time_ps = lines.next()?.parse().ok()?;
    let mut cores = Vec::new();
    for line in lines.take(CORES_MAX) {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [island, core, words @ ..] = &numbers[..] else { return None };
        let (island, core) = (usize::try_from(*island).ok()?, usize::try_from(*core).ok()?);
        if core >= CORES_PER_ISLAND_MAX {
            return None;
        }
        cores.push((island, core, CoreCounts::from_words(words.try_into().ok()?)));
    }
    Some(AllCounts { time_ps, cores })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_anything_else_is_refused() {
        let counts = CoreCounts::from_words([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let read = read_counts("77\n0 0 1 2 3 4 5 6 7 8 9 10\n2 1 0 0 0 0 0 0 0 0 0 0\n").unwrap();
        assert_eq!(read, AllCounts { time_ps: 77, cores: vec![(0, 0, counts), (2, 1, CoreCounts::default())] });
        for wrong in
            ["", "x", "1\n0", "1\n0 0 1 2 3 4 5 6 7 8 9", "1\n0 16 1 2 3 4 5 6 7 8 9 10", "1\n0 0 1 2 3 4 5 6 7 8 9 -1"]
        {
            assert_eq!(read_counts(wrong), None, "{wrong:?}");
        }
    }
}
