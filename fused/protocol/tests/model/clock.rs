//! Readings of islands whose clocks differ: whoever can know of an earlier reading reads no less.

use std::sync::Arc;

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{IslandId, Pool};
use motet_protocol::clock::{IslandClock, TOLERANCE_NS};

use crate::harness::{Objects, explore, fresh_pool, must_be_caught, quietly, together};

/// How far islands' counters are ahead of the first one's. Each shows more whenever it is looked at.
const AHEAD_NS: [u64; 3] = [0, 3 * TOLERANCE_NS, 40 * TOLERANCE_NS];

/// One core of an island with a counter of its own.
struct Reader {
    pool: Pool,
    island: IslandId,
    time: &'static AtomicU64,
    told: &'static AtomicU64,
}

impl Reader {
    fn counter(&self) -> u64 {
        1_000_000 + AHEAD_NS[self.island.index()] + quietly(|| self.time.fetch_add(10, Ordering::Relaxed))
    }

    fn clock(&self) -> IslandClock {
        IslandClock::new(self.pool, self.island)
    }

    /// A reading as the protocol has it.
    fn reads(&self) -> u64 {
        self.clock().read(|| self.counter())
    }

    /// Reads after what another told, and tells.
    fn read_and_tell(&self, read: impl Fn(&Self) -> u64) {
        let told = self.told.load(Ordering::Acquire);
        let reading = read(self);
        assert!(reading >= told, "island {} reads {reading} after {told}", self.island.index());
        self.told.fetch_max(reading, Ordering::AcqRel);
    }
}

/// Two cores of each of three islands tell each other their readings through memory that the kernels know nothing of.
fn telling(read: impl Fn(&Reader) -> u64 + Copy + Send + Sync + 'static) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let (time, told) = (objects.make::<AtomicU64>(), objects.make::<AtomicU64>());
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for core in 0..6 {
            let reader = Arc::new(Reader { pool, island: IslandId(core % 3), time, told });
            actors.push(Box::new(move || {
                for _ in 0..3 {
                    reader.read_and_tell(read);
                }
            }));
        }
        together(actors);
        quietly(|| {
            let header = pool.header();
            let clocks = [0, 1, 2].map(|island| {
                let offset_ns = header.islands[island].clock_offset_ns.load(Ordering::Relaxed);
                AHEAD_NS[island] + offset_ns
            });
            assert!(clocks.iter().all(|&ns| ns <= AHEAD_NS[2]), "a clock was moved too far: {clocks:?}");
        });
    }
}

#[test]
fn no_reading_is_less_than_one_that_was_told() {
    explore(1500, telling(Reader::reads));
}

/// Its own clock is ahead, or so it believes: it tells without raising the latest reading.
#[test]
fn readings_that_are_kept_to_oneself_are_caught() {
    must_be_caught(
        500,
        telling(|reader| {
            let latest_ns = reader.pool.header().latest_reading_ns.load(Ordering::SeqCst);
            reader.clock().own_ns(reader.counter()).max(latest_ns)
        }),
    );
}

/// Looks, and then stores what may be less than another has stored meanwhile.
#[test]
fn a_store_instead_of_a_maximum_is_caught() {
    must_be_caught(
        1500,
        telling(|reader| {
            let latest = &reader.pool.header().latest_reading_ns;
            let own_ns = reader.clock().own_ns(reader.counter());
            let latest_ns = latest.load(Ordering::SeqCst);
            if latest_ns < own_ns {
                latest.store(own_ns, Ordering::SeqCst);
            }
            own_ns.max(latest_ns)
        }),
    );
}

/// Tells the others first.
#[test]
fn raising_the_latest_reading_too_late_is_caught() {
    must_be_caught(
        500,
        telling(|reader| {
            let latest = &reader.pool.header().latest_reading_ns;
            let reading = reader.clock().own_ns(reader.counter()).max(latest.load(Ordering::SeqCst));
            reader.told.fetch_max(reading, Ordering::SeqCst);
            latest.fetch_max(reading, Ordering::SeqCst);
            reading
        }),
    );
}

/// Each of two cores moves the clock by what it has seen it to be behind.
#[test]
fn moving_a_clock_twice_is_caught() {
    must_be_caught(
        1500,
        telling(|reader| {
            let header = reader.pool.header();
            let own_ns = reader.clock().own_ns(reader.counter());
            let latest_ns = header.latest_reading_ns.fetch_max(own_ns, Ordering::SeqCst);
            if latest_ns > own_ns + TOLERANCE_NS {
                let offset = &header.islands[reader.island.index()].clock_offset_ns;
                offset.fetch_add(latest_ns - own_ns - TOLERANCE_NS, Ordering::SeqCst);
            }
            own_ns.max(latest_ns)
        }),
    );
}

/// A wait on one island ends when its clock says so; then another island reads.
fn waiting(has_ended: fn(&Reader, u64) -> bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let (time, told) = (objects.make::<AtomicU64>(), objects.make::<AtomicU64>());
        let reader = |island| Reader { pool, island: IslandId(island), time, told };
        let (begins, waits, ends) = (reader(0), reader(2), reader(1));
        let other = reader(0);
        together(vec![
            Box::new(move || {
                let deadline = begins.reads() + 30 * TOLERANCE_NS;
                if has_ended(&waits, deadline) {
                    assert!(ends.reads() >= deadline, "the wait was too short");
                }
            }),
            Box::new(move || {
                other.reads();
            }),
        ]);
    }
}

#[test]
fn waits_are_not_too_short_for_whoever_reads() {
    explore(500, waiting(|reader, deadline| reader.reads() >= deadline));
}

#[test]
fn a_wait_that_ends_by_the_islands_own_clock_is_caught() {
    must_be_caught(100, waiting(|reader, deadline| reader.clock().own_ns(reader.counter()) >= deadline));
}
