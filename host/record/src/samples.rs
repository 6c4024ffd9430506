//! Counts over time.
//!
//! Time is cut into intervals; a core leaves at most one row for each, at the first occasion in it. When a core's rows
//! are full its interval doubles, and of two rows that come to lie in one interval the earlier one stays. Rows hold
//! sums since the beginning of the run, so nothing is lost with a row but resolution.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{Record, Row, column_names};

/// Rows that a core keeps.
pub const ROWS_MAX: usize = 512;

/// What a row keeps, by the names of [`column_names`]. The time comes first.
const SAMPLED: [&str; 24] = [
    "time_ps",
    "idle_ps",
    "stall_ps",
    "instructions",
    "ipis_sent",
    "ipis_received",
    "fetches",
    "loads",
    "stores",
    "atomics",
    "l1i_misses",
    "l1d_misses",
    "l2i_misses",
    "l2d_misses",
    "l3i_misses",
    "l3d_misses",
    "near_reads",
    "far_reads",
    "upgrades",
    "snoop_data",
    "snoop_invalidates",
    "invalidations_received",
    "memory_write_backs",
    "device_accesses",
];

/// A core's words before its rows: how many rows there are, the interval, when the next row is due.
const HEAD_WORDS: usize = 8;
const COUNT: usize = 0;
const INTERVAL_PS: usize = 1;
const DUE_PS: usize = 2;

const CORE_WORDS: usize = HEAD_WORDS + ROWS_MAX * SAMPLED.len();

pub(crate) const fn words(cores: usize) -> usize {
    cores * CORE_WORDS
}

/// The names of a row's columns.
pub fn sampled_names() -> &'static [&'static str] {
    &SAMPLED
}

/// All samples of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Samples {
    /// Time between rows.
    pub interval_ps: u64,
    /// For each core its rows: the values of [`sampled_names`], sums since the beginning.
    pub cores: Vec<Vec<Vec<u64>>>,
}

impl Record<'_> {
    pub(crate) fn set_up_samples(&self, interval_ps: u64) {
        for core in 0..self.cores {
            self.core_words(core)[INTERVAL_PS].store(interval_ps.max(1), Relaxed);
        }
    }

    /// Whether a core at this time is to call [`Record::sample`].
    #[inline]
    pub fn is_due(&self, core: usize, now_ps: u64) -> bool {
        now_ps >= self.core_words(core)[DUE_PS].load(Relaxed)
    }

    /// Keeps a core's counts. Only the thread that runs the core calls this.
    pub fn sample(&self, core: usize, row: &Row) {
        let words = self.core_words(core);
        if words[COUNT].load(Relaxed) as usize >= ROWS_MAX {
            make_room(words);
        }
        let count = words[COUNT].load(Relaxed) as usize;
        for (word, value) in row_words(words, count).iter().zip(chosen(row)) {
            word.store(value, Relaxed);
        }
        words[COUNT].store(count as u64 + 1, Relaxed);
        let interval_ps = words[INTERVAL_PS].load(Relaxed);
        words[DUE_PS].store((row[0] / interval_ps).saturating_add(1).saturating_mul(interval_ps), Relaxed);
    }

    /// All samples, with one interval for all cores, and the counts at the end as the last row of each.
    pub fn samples(&self, end: &[Row]) -> Samples {
        let interval_ps =
            (0..self.cores).map(|core| self.core_words(core)[INTERVAL_PS].load(Relaxed)).max().unwrap_or(1);
        let cores = end.iter().take(self.cores).enumerate().map(|(core, end)| {
            let words = self.core_words(core);
            let count = (words[COUNT].load(Relaxed) as usize).min(ROWS_MAX);
            let mut rows: Vec<Vec<u64>> = Vec::new();
            for index in 0..count {
                let row: Vec<u64> = row_words(words, index).iter().map(|word| word.load(Relaxed)).collect();
                if rows.last().is_none_or(|last| last[0] / interval_ps != row[0] / interval_ps) {
                    rows.push(row);
                }
            }
            let end: Vec<u64> = chosen(end).collect();
            if rows.last().is_none_or(|last| last[0] < end[0]) {
                rows.push(end);
            }
            rows
        });
        Samples { interval_ps, cores: cores.collect() }
    }

    fn core_words(&self, core: usize) -> &[AtomicU64] {
        &self.samples[core * CORE_WORDS..][..CORE_WORDS]
    }
}

fn row_words(words: &[AtomicU64], index: usize) -> &[AtomicU64] {
    &words[HEAD_WORDS + index * SAMPLED.len()..][..SAMPLED.len()]
}

fn chosen(row: &Row) -> impl Iterator<Item = u64> {
    static INDICES: OnceLock<Vec<usize>> = OnceLock::new();
    let find = |wanted: &str| column_names().position(|name| name == wanted).expect("a count of this name; tested");
    INDICES.get_or_init(|| SAMPLED.into_iter().map(find).collect()).iter().map(|&index| row[index])
}

/// Doubles the interval until at most half of the rows are left.
fn make_room(words: &[AtomicU64]) {
    let time_ps = |index: usize| row_words(words, index)[0].load(Relaxed);
    while words[COUNT].load(Relaxed) as usize > ROWS_MAX / 2 {
        let interval_ps = words[INTERVAL_PS].load(Relaxed).saturating_mul(2);
        words[INTERVAL_PS].store(interval_ps, Relaxed);
        let mut kept = 1;
        for index in 1..words[COUNT].load(Relaxed) as usize {
            if time_ps(index) / interval_ps == time_ps(kept - 1) / interval_ps {
                continue;
            }
            for (to, from) in row_words(words, kept).iter().zip(row_words(words, index)) {
                to.store(from.load(Relaxed), Relaxed);
            }
            kept += 1;
        }
        words[COUNT].store(kept as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::COLUMNS;
    use motet_coherence::allocate;

    fn row(time_ps: u64) -> Row {
        let mut row = [7; COLUMNS];
        row[0] = time_ps;
        row
    }

    fn run(record: &Record<'_>, core: usize, times: impl IntoIterator<Item = u64>) {
        for time_ps in times {
            if record.is_due(core, time_ps) {
                record.sample(core, &row(time_ps));
            }
        }
    }

    fn times(rows: &[Vec<u64>]) -> Vec<u64> {
        rows.iter().map(|row| row[0]).collect()
    }

    #[test]
    fn there_is_one_row_in_an_interval() {
        let words = allocate(Record::words(1));
        let record = Record::create(&words, 1, 100).unwrap();
        run(&record, 0, [1, 50, 99, 130, 199, 460, 500]);
        let samples = record.samples(&[row(510)]);
        assert_eq!(samples.interval_ps, 100);
        assert_eq!(times(&samples.cores[0]), [1, 130, 460, 500, 510]);
        assert!(
            samples.cores[0].iter().all(|row| row.len() == sampled_names().len() && row[1..].iter().all(|&x| x == 7))
        );
    }

    #[test]
    fn a_long_run_has_longer_intervals() {
        let words = allocate(Record::words(1));
        let record = Record::create(&words, 1, 100).unwrap();
        run(&record, 0, (0..1_000_000).step_by(50));
        let samples = record.samples(&[row(1_000_000)]);
        assert_eq!(samples.interval_ps, 3200);
        let times = times(&samples.cores[0]);
        assert!((ROWS_MAX / 2..=ROWS_MAX).contains(&times.len()), "{}", times.len());
        assert!(times.windows(2).all(|pair| pair[0] / 3200 < pair[1] / 3200 || pair[1] == 1_000_000));
    }

    #[test]
    fn rows_far_apart_make_room_too() {
        let words = allocate(Record::words(1));
        let record = Record::create(&words, 1, 1).unwrap();
        run(&record, 0, (0..2000).map(|index| index * 1_000_000));
        let rows = &record.samples(&[row(2_000_000_000)]).cores[0];
        assert!(rows.len() > ROWS_MAX / 4 && rows.len() <= ROWS_MAX + 1, "{}", rows.len());
        run(&record, 0, [u64::MAX - 1]);
    }

    #[test]
    fn all_cores_have_the_longest_interval() {
        let words = allocate(Record::words(2));
        let record = Record::create(&words, 2, 10).unwrap();
        run(&record, 0, (0..10_000).step_by(10));
        run(&record, 1, (0..200).step_by(10));
        let samples = record.samples(&[row(10_000), row(200)]);
        assert_eq!(samples.interval_ps, 20);
        assert_eq!(times(&samples.cores[1]), [0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200]);
    }

    #[test]
    fn a_core_without_samples_has_its_end() {
        let words = allocate(Record::words(1));
        let record = Record::create(&words, 1, 10).unwrap();
        assert_eq!(times(&record.samples(&[row(0)]).cores[0]), [0]);
    }
}
