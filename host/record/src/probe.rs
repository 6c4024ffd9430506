//! Reading what all cores have counted.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use motet_coherence::{Model, counter_names};
use motet_layout::CORES_PER_ISLAND_MAX;
use motet_timing::{ClockRegion, CoreClock};

/// Counts of a core's clock; the others are its caches'.
const CLOCK_NAMES: [&str; 7] =
    ["time_ps", "idle_ps", "stall_ps", "instructions", "ipis_sent", "ipis_received", "transfers"];
const TIME: usize = 0;
const IDLE: usize = 1;
const INSTRUCTIONS: usize = 3;

/// Counts of one core.
pub const COLUMNS: usize = CLOCK_NAMES.len() + counter_names().len();

/// The counts of one core, in the order of [`column_names`].
pub type Row = [u64; COLUMNS];

/// The names of all counts: first those of the clock (`time_ps` is the first of all), then the caches'
/// ([`counter_names`]); the caches' own count of instructions is called `model_instructions`.
pub fn column_names() -> impl Iterator<Item = &'static str> {
    let caches = counter_names().iter().map(|&name| if name == "instructions" { "model_instructions" } else { name });
    CLOCK_NAMES.into_iter().chain(caches)
}

/// The counts of a core's clock in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockCounts {
    /// Its time.
    pub time_ps: u64,
    /// Of it, asleep.
    pub idle_ps: u64,
    /// Of it, waiting for memory.
    pub stall_ps: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Doorbells rung for other cores.
    pub ipis_sent: u64,
    /// Times that another core's doorbell woke it.
    pub ipis_received: u64,
    /// Descriptors that its migration engine has transferred.
    pub transfers: u64,
}

impl ClockCounts {
    /// Those of `row`.
    pub fn of(row: &Row) -> Self {
        let [time_ps, idle_ps, stall_ps, instructions, ipis_sent, ipis_received, transfers, ..] = *row;
        Self { time_ps, idle_ps, stall_ps, instructions, ipis_sent, ipis_received, transfers }
    }
}

/// The counts of a core's caches in a row, in the order of [`counter_names`].
pub fn memory_counts(row: &Row) -> &[u64] {
    &row[CLOCK_NAMES.len()..]
}

/// The core that asks, where its clock is more up to date than others can see.
#[derive(Clone, Copy, Debug)]
pub struct Executing {
    /// Its number in the machine.
    pub core: usize,
    /// Its time.
    pub now_ps: u64,
    /// Instructions that are counted already and not executed yet.
    pub instructions_ahead: u64,
}

/// All cores' counts at a moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time of who asked.
    pub now_ps: u64,
    /// Distance between the clocks of the running cores that are farthest apart.
    pub skew_ps: u64,
    /// By number of the core in the machine.
    pub rows: Vec<Row>,
}

/// Reads what the cores of a machine have counted.
pub struct Probe<'a> {
    clocks: &'a ClockRegion,
    model: &'a Model<'a>,
}

impl<'a> Probe<'a> {
    /// A probe of these cores.
    pub fn new(clocks: &'a ClockRegion, model: &'a Model<'a>) -> Self {
        Self { clocks, model }
    }

    /// All cores' counts, for a core that runs.
    pub fn during(&self, asking: Executing) -> Snapshot {
        let mut snapshot = self.at(asking.now_ps);
        let row = &mut snapshot.rows[asking.core];
        row[TIME] = asking.now_ps;
        row[IDLE] = self.clock(asking.core).idle_ps.load(Relaxed);
        row[INSTRUCTIONS] = row[INSTRUCTIONS].saturating_sub(asking.instructions_ahead);
        let running = |core: usize| core == asking.core || self.clock(core).halted.load(SeqCst) == 0;
        let clocks = || snapshot.rows.iter().enumerate().filter(|(core, _)| running(*core)).map(|(_, row)| row[TIME]);
        snapshot.skew_ps = clocks().max().unwrap_or(0) - clocks().min().unwrap_or(0);
        snapshot
    }

    /// All cores' counts at `now_ps`, for somebody outside. Cores that sleep have slept until then.
    pub fn at(&self, now_ps: u64) -> Snapshot {
        let rows = (0..self.model.config().core_count()).map(|core| {
            let mut row = self.row(core);
            if self.clock(core).halted.load(SeqCst) != 0 {
                row[IDLE] += now_ps.saturating_sub(row[TIME]);
                row[TIME] = row[TIME].max(now_ps);
            }
            row
        });
        Snapshot { now_ps, skew_ps: 0, rows: rows.collect() }
    }

    /// What a core has counted up to its last boundary.
    pub fn row(&self, core: usize) -> Row {
        let clock = self.clock(core);
        let words = [&clock.clock_ps, &clock.idle_ps, &clock.stall_ps, &clock.instructions];
        let own = words.into_iter().chain([&clock.ipis_sent, &clock.ipis_received, &clock.transfers]);
        let own = own.map(|word| word.load(Relaxed));
        let mut row = [0; COLUMNS];
        row.iter_mut().zip(own.chain(self.model.counters(core).values())).for_each(|(to, from)| *to = from);
        row
    }

    fn clock(&self, core: usize) -> &'a CoreClock {
        let config = self.model.config();
        let island = config.island_of(core);
        &self.clocks.cores[island * CORES_PER_ISLAND_MAX + core - config.islands[island].first_core]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_coherence::{Island, Kind, ModelTable, Piece, Shape, Sharing, Target, allocate};

    /// Two islands, of two cores and one core.
    fn config() -> motet_coherence::Config {
        let island = |name: &str, cores| Island {
            name: name.into(),
            cores,
            memory: vec![Piece { local: 0, size: 1 << 20, target: Target::Pool(0) }],
            traps: Default::default(),
        };
        let shape = Shape { pool: 1 << 20, islands: vec![island("a", 2), island("b", 1)], own: Vec::new() };
        ModelTable::default().resolve(&shape).unwrap()
    }

    fn set(clocks: &ClockRegion, core: usize, clock_ps: u64, halted: u32) {
        let clock = &clocks.cores[core];
        clock.clock_ps.store(clock_ps, Relaxed);
        clock.idle_ps.store(7, Relaxed);
        clock.instructions.store(100, Relaxed);
        clock.halted.store(halted, Relaxed);
    }

    #[test]
    fn the_core_that_asks_is_exact_and_sleepers_go_along() {
        let config = config();
        let words = allocate(motet_coherence::Model::region_words(&config));
        let model = Model::create(config, &words, Sharing::OneAtATime).unwrap();
        let _ = model.core(2).unwrap().access(Kind::Load, 64, 8);
        let clocks = ClockRegion::default();
        set(&clocks, 0, 1000, 0);
        set(&clocks, 1, 400, 1);
        set(&clocks, CORES_PER_ISLAND_MAX, 1250, 0);
        let probe = Probe::new(&clocks, &model);
        let now = probe.during(Executing { core: 0, now_ps: 1100, instructions_ahead: 3 });
        let counts: Vec<_> = now.rows.iter().map(ClockCounts::of).collect();
        assert_eq!(counts.iter().map(|count| count.time_ps).collect::<Vec<_>>(), [1100, 1100, 1250]);
        assert_eq!(counts.iter().map(|count| count.idle_ps).collect::<Vec<_>>(), [7, 707, 7]);
        assert_eq!(counts.iter().map(|count| count.instructions).collect::<Vec<_>>(), [97, 100, 100]);
        assert_eq!((now.now_ps, now.skew_ps), (1100, 150));
        let loads = counter_names().iter().position(|&name| name == "loads").unwrap();
        assert_eq!(now.rows.iter().map(|row| memory_counts(row)[loads]).collect::<Vec<_>>(), [0, 0, 1]);
    }

    #[test]
    fn columns_have_different_names() {
        let mut names: Vec<_> = column_names().collect();
        assert_eq!(names.len(), COLUMNS);
        assert_eq!(names[INSTRUCTIONS], "instructions");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COLUMNS);
    }
}
