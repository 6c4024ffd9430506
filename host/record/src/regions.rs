//! Regions of interest.
//!
//! A region is of the whole machine: it lasts from the first begin of its name, by whichever core, until as many ends
//! have followed as begins. What all cores have counted in the meantime is added up, over all its entries.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{COLUMNS, Name, Record, Row, Snapshot, WarningKind, name::NAME_WORDS};

/// Regions that a run can have. Further ones count as one, [`OTHERS`].
pub const REGIONS_MAX: usize = 64;
/// The name of the region that stands for those that have no room.
pub const OTHERS: &str = "(others)";

/// Words of a region before its cores' rows: its name and a line of its own.
const HEAD_WORDS: usize = NAME_WORDS + 8;
const ENTRIES: usize = NAME_WORDS;
const DEPTH: usize = NAME_WORDS + 1;
const BEGUN_PS: usize = NAME_WORDS + 2;
const TIME_PS: usize = NAME_WORDS + 3;
const SKEW_PS: usize = NAME_WORDS + 4;

const fn region_words(cores: usize) -> usize {
    HEAD_WORDS + 2 * cores * COLUMNS
}

pub(crate) const fn words(cores: usize) -> usize {
    (REGIONS_MAX + 1) * region_words(cores)
}

/// What a region has counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its name.
    pub name: Name,
    /// How often it was entered; begins inside of it do not count.
    pub entries: u64,
    /// It had not ended yet; its counts are those up to the end of the run.
    pub open: bool,
    /// Time in it.
    pub time_ps: u64,
    /// Largest distance between running cores' clocks when it began or ended.
    pub skew_ps: u64,
    /// By number of the core in the machine.
    pub cores: Vec<Row>,
}

/// The words of a region.
struct Slot<'a> {
    head: &'a [AtomicU64],
    /// When it began, core by core.
    begun: &'a [AtomicU64],
    /// Sums, core by core.
    sums: &'a [AtomicU64],
}

impl Record<'_> {
    /// A core begins a region. `snapshot` is asked for when the region is not under way.
    pub fn begin(&self, name: &Name, snapshot: impl FnOnce() -> Snapshot) {
        let _guard = self.lock();
        let index = self.find(name).unwrap_or_else(|| self.add(name));
        let slot = self.slot(index);
        let depth = slot.head[DEPTH].fetch_add(1, Relaxed);
        if depth != 0 {
            return;
        }
        let now = snapshot();
        slot.head[ENTRIES].fetch_add(1, Relaxed);
        slot.head[BEGUN_PS].store(now.now_ps, Relaxed);
        slot.head[SKEW_PS].fetch_max(now.skew_ps, Relaxed);
        for (word, &value) in slot.begun.iter().zip(now.rows.iter().flatten()) {
            word.store(value, Relaxed);
        }
    }

    /// A core ends a region; whether it had begun. `snapshot` is asked for when nobody else is in it.
    pub fn end(&self, name: &Name, snapshot: impl FnOnce() -> Snapshot) -> bool {
        let _guard = self.lock();
        let index =
            self.find(name).or_else(|| (self.region_count().load(Relaxed) > REGIONS_MAX as u64).then_some(REGIONS_MAX));
        let slot = index.map(|index| self.slot(index));
        let Some(slot) = slot.filter(|slot| slot.head[DEPTH].load(Relaxed) != 0) else {
            self.warn_locked(WarningKind::NotBegun, name);
            return false;
        };
        if slot.head[DEPTH].fetch_sub(1, Relaxed) != 1 {
            return true;
        }
        let now = snapshot();
        slot.head[SKEW_PS].fetch_max(now.skew_ps, Relaxed);
        slot.head[TIME_PS].fetch_add(now.now_ps.saturating_sub(slot.head[BEGUN_PS].load(Relaxed)), Relaxed);
        let begun = slot.begun.iter().map(|word| word.load(Relaxed));
        for ((sum, begun), &value) in slot.sums.iter().zip(begun).zip(now.rows.iter().flatten()) {
            // A sleeping core's time is taken to be that of who asks, who may be ahead of it.
            sum.fetch_add(value.saturating_sub(begun), Relaxed);
        }
        true
    }

    /// All regions, in the order in which they first began. `end`: all counts now, for those that are not over.
    pub fn regions(&self, end: &Snapshot) -> Vec<Region> {
        let _guard = self.lock();
        let count = self.region_count().load(Relaxed) as usize;
        (0..count.min(REGIONS_MAX + 1)).map(|index| self.region(&self.slot(index), end)).collect()
    }

    fn region(&self, slot: &Slot<'_>, end: &Snapshot) -> Region {
        let head = |index: usize| slot.head[index].load(Relaxed);
        let open = head(DEPTH) != 0;
        let since = |now: u64, begun: u64| if open { now.saturating_sub(begun) } else { 0 };
        let words = slot.sums.chunks_exact(COLUMNS).zip(slot.begun.chunks_exact(COLUMNS));
        let cores = words.zip(&end.rows).map(|((sums, begun), now)| {
            std::array::from_fn(|column| sums[column].load(Relaxed) + since(now[column], begun[column].load(Relaxed)))
        });
        Region {
            name: Name::load(slot.head),
            entries: head(ENTRIES),
            open,
            time_ps: head(TIME_PS) + since(end.now_ps, head(BEGUN_PS)),
            skew_ps: head(SKEW_PS),
            cores: cores.collect(),
        }
    }

    fn find(&self, name: &Name) -> Option<usize> {
        let count = self.region_count().load(Relaxed) as usize;
        (0..count.min(REGIONS_MAX)).find(|&index| Name::load(self.slot(index).head) == *name)
    }

    /// The slot of a new region.
    fn add(&self, name: &Name) -> usize {
        let index = (self.region_count().load(Relaxed) as usize).min(REGIONS_MAX);
        self.region_count().store(index as u64 + 1, Relaxed);
        if index < REGIONS_MAX {
            name.store(self.slot(index).head);
        } else {
            self.warn_locked(WarningKind::TooMany, name);
            Name::of(OTHERS.as_bytes()).0.store(self.slot(index).head);
        }
        index
    }

    fn slot(&self, index: usize) -> Slot<'_> {
        let words = &self.regions[index * region_words(self.cores)..][..region_words(self.cores)];
        let (head, rows) = words.split_at(HEAD_WORDS);
        let (begun, sums) = rows.split_at(rows.len() / 2);
        Slot { head, begun, sums }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_coherence::allocate;

    fn name(text: &str) -> Name {
        Name::of(text.as_bytes()).0
    }

    /// Two cores, the second one with ten times the counts of the first one.
    fn moment(now_ps: u64) -> Snapshot {
        Snapshot { now_ps, skew_ps: now_ps / 10, rows: vec![[now_ps; COLUMNS], [10 * now_ps; COLUMNS]] }
    }

    fn never() -> Snapshot {
        panic!("nobody needs the counts now")
    }

    fn words() -> motet_coherence::Region {
        allocate(Record::words(2))
    }

    #[test]
    fn entries_of_a_region_add_up() {
        let words = words();
        let record = Record::create(&words, 2, 1).unwrap();
        for (begin, end) in [(100, 150), (1000, 1007)] {
            record.begin(&name("a"), || moment(begin));
            record.end(&name("a"), || moment(end));
        }
        let regions = record.regions(&moment(5000));
        assert_eq!(regions.len(), 1);
        let Region { entries, open, time_ps, skew_ps, ref cores, .. } = regions[0];
        assert_eq!((entries, open, time_ps, skew_ps), (2, false, 57, 100));
        assert_eq!(cores[..], [[57; COLUMNS], [570; COLUMNS]]);
    }

    #[test]
    fn a_region_lasts_from_the_first_begin_to_the_last_end() {
        let words = words();
        let record = Record::create(&words, 2, 1).unwrap();
        record.begin(&name("a"), || moment(10));
        record.begin(&name("a"), never);
        record.end(&name("a"), never);
        record.end(&name("a"), || moment(40));
        let region = &record.regions(&moment(50))[0];
        assert_eq!((region.entries, region.time_ps, region.cores[1][3]), (1, 30, 300));
    }

    #[test]
    fn regions_of_different_names_overlap() {
        let words = words();
        let record = Record::create(&words, 2, 1).unwrap();
        record.begin(&name("a"), || moment(10));
        record.begin(&name("b"), || moment(20));
        record.end(&name("a"), || moment(30));
        record.end(&name("b"), || moment(50));
        let times: Vec<_> = record.regions(&moment(90)).iter().map(|region| region.time_ps).collect();
        assert_eq!(times, [20, 30]);
    }

    #[test]
    fn a_region_that_is_open_at_the_end_counts_until_then() {
        let words = words();
        let record = Record::create(&words, 2, 1).unwrap();
        record.begin(&name("a"), || moment(10));
        let region = &record.regions(&moment(25))[0];
        assert_eq!((region.open, region.entries, region.time_ps, region.cores[0][0]), (true, 1, 15, 15));
    }

    #[test]
    fn an_end_without_a_begin_is_told_and_ignored() {
        let words = words();
        let record = Record::create(&words, 2, 1).unwrap();
        assert!(!record.end(&name("a"), never));
        record.begin(&name("a"), || moment(10));
        assert!(record.end(&name("a"), || moment(20)));
        assert!(!record.end(&name("a"), never));
        assert_eq!(record.regions(&moment(90))[0].time_ps, 10);
        let warning = &record.warnings()[0];
        assert_eq!((warning.kind, warning.count), (WarningKind::NotBegun, 2));
        assert_eq!(warning.to_string(), "region of interest \"a\" ended without having begun; ignored (2 times)");
    }

    #[test]
    fn regions_that_do_not_fit_count_as_one() {
        let words = words();
        let record = Record::create(&words, 2, 1).unwrap();
        for index in 0..REGIONS_MAX as u64 + 2 {
            record.begin(&name(&format!("r{index}")), || moment(index));
            record.end(&name(&format!("r{index}")), || moment(index + 1));
        }
        let regions = record.regions(&moment(1000));
        assert_eq!(regions.len(), REGIONS_MAX + 1);
        let others = &regions[REGIONS_MAX];
        assert_eq!((others.name.as_str(), others.entries, others.time_ps), (OTHERS, 2, 2));
        let warning = &record.warnings()[0];
        assert_eq!((warning.kind, warning.example.as_str()), (WarningKind::TooMany, "r64"));
    }

    #[test]
    fn counts_that_seem_to_go_back_count_nothing() {
        let words = words();
        let record = Record::create(&words, 2, 1).unwrap();
        record.begin(&name("a"), || moment(10));
        record.end(&name("a"), || moment(9));
        let region = &record.regions(&moment(90))[0];
        assert_eq!((region.time_ps, region.cores[0][0]), (0, 0));
    }

    #[test]
    fn threads_that_meet_in_regions_lose_nothing() {
        let words = words();
        let record = Record::create(&words, 2, 1).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let record = &record;
                scope.spawn(move || {
                    for _ in 0..500 {
                        record.begin(&name(&format!("own {thread}")), || moment(1));
                        record.begin(&name("common"), || moment(5));
                        record.end(&name("common"), || moment(6));
                        record.end(&name(&format!("own {thread}")), || moment(3));
                    }
                });
            }
        });
        let regions = record.regions(&moment(90));
        assert_eq!(regions.len(), 5);
        for region in regions {
            let once = if region.name.as_str() == "common" { 1 } else { 2 };
            assert!(!region.open);
            assert_eq!(region.time_ps, region.entries * once);
        }
        assert!(record.warnings().is_empty());
    }
}
