//! Counts over time, from each core's irregular samples to equal intervals of the run by island.

use motet_fabric::stats::Stats;

/// Most intervals: more are not seen.
const BINS_MAX: u64 = 150;

/// The run in equal intervals.
pub struct Timeline {
    /// Length of an interval, in picoseconds.
    pub interval_ps: f64,
    /// How many there are.
    pub bins: usize,
    /// For each core its island's index, and its rows.
    cores: Vec<(usize, Vec<Vec<u64>>)>,
    columns: Vec<String>,
}

impl Timeline {
    /// The run's timeline; `None` when it has no samples.
    pub fn of(stats: &Stats) -> Option<Self> {
        let samples = &stats.samples;
        let width = samples.columns.len();
        let index_of = |name: &str| stats.machine.islands.iter().position(|island| island.name == name);
        let cores: Vec<_> = stats
            .cores
            .iter()
            .zip(&samples.cores)
            .filter_map(|(core, rows)| {
                let rows = rows.iter().filter(|row| row.len() == width).cloned().collect();
                Some((index_of(&core.island)?, rows))
            })
            .collect();
        let some = cores.iter().any(|(_, rows): &(usize, Vec<Vec<u64>>)| !rows.is_empty());
        if samples.columns.first().is_none_or(|name| name != "time_ps") || !some || stats.time_ps == 0 {
            return None;
        }
        let bins = (stats.time_ps / samples.interval_ps.max(1)).clamp(1, BINS_MAX) as usize;
        Some(Self { interval_ps: stats.time_ps as f64 / bins as f64, bins, cores, columns: samples.columns.clone() })
    }

    /// What an island's cores counted of one of `names` in each interval, added up.
    pub fn island(&self, island: usize, names: &[&str]) -> Vec<f64> {
        let mut sums = vec![0.0; self.bins];
        for (_, rows) in self.cores.iter().filter(|(of, _)| *of == island) {
            for name in names {
                let Some(column) = self.columns.iter().position(|column| column == name) else { continue };
                let mut before = 0.0;
                for (bin, sum) in sums.iter_mut().enumerate() {
                    let until = at(rows, column, (bin + 1) as f64 * self.interval_ps);
                    *sum += (until - before).max(0.0);
                    before = until;
                }
            }
        }
        sums
    }

    /// Cores of an island that have samples.
    pub fn cores_of(&self, island: usize) -> usize {
        self.cores.iter().filter(|(of, _)| *of == island).count()
    }
}

/// A count at a time: on the straight line between the samples before and after; from 0 to the first one; constant after
/// the last one.
fn at(rows: &[Vec<u64>], column: usize, time_ps: f64) -> f64 {
    let after = rows.partition_point(|row| (row[0] as f64) < time_ps);
    let point = |row: &Vec<u64>| (row[0] as f64, row[column] as f64);
    let (from_ps, from) = after.checked_sub(1).map_or((0.0, 0.0), |index| point(&rows[index]));
    match rows.get(after).map(point) {
        Some((to_ps, to)) if to_ps > from_ps => from + (to - from) * (time_ps - from_ps) / (to_ps - from_ps),
        Some((_, to)) => to,
        None => from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_fabric::stats::{CoreStats, IslandStats, MachineStats, Samples};

    fn stats(cores: Vec<Vec<Vec<u64>>>) -> Stats {
        let island = IslandStats { name: "a".into(), cores: cores.len(), ..IslandStats::default() };
        Stats {
            time_ps: 100,
            machine: MachineStats { islands: vec![island], ..MachineStats::default() },
            cores: cores.iter().map(|_| CoreStats { island: "a".into(), ..CoreStats::default() }).collect(),
            samples: Samples { interval_ps: 25, columns: vec!["time_ps".into(), "loads".into()], cores },
            ..Stats::default()
        }
    }

    #[test]
    fn irregular_samples_become_equal_intervals_and_nothing_is_lost() {
        let timeline = Timeline::of(&stats(vec![vec![vec![50, 100], vec![60, 300], vec![90, 330]], vec![]])).unwrap();
        assert_eq!((timeline.bins, timeline.interval_ps), (4, 25.0));
        assert_eq!(timeline.island(0, &["loads"]), [50.0, 50.0, 215.0, 15.0]);
        assert_eq!(timeline.island(0, &["loads", "unknown"]).iter().sum::<f64>(), 330.0);
        assert_eq!(timeline.cores_of(0), 2);
        assert_eq!(timeline.island(1, &["loads"]), [0.0; 4]);
    }

    #[test]
    fn a_run_without_samples_has_no_timeline() {
        assert!(Timeline::of(&Stats::default()).is_none());
        assert!(Timeline::of(&stats(vec![vec![], vec![]])).is_none());
        assert!(Timeline::of(&stats(vec![vec![vec![1]]])).is_none(), "a row without all columns");
    }
}
