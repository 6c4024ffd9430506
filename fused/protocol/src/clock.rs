//! The machine's clock: readings on all islands are in one order, though each island has a counter of its own.
//!
//! Islands set their clocks by the host's when they join, and their counters run at its pace, so their clocks differ by microseconds.
//! One word for all islands, the latest reading, keeps readings from going back: each reading raises the word before anyone learns of
//! it, and is never less than what was there. `docs/protocols/time.md` says why that is enough.

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{IslandCounters, IslandId, Pool};

/// A clock that is behind another island's by no more than this is not moved, in nanoseconds. More than the pace of a counter is
/// ever wrong by: otherwise each of its errors would stay in all the clocks, and add up.
pub const TOLERANCE_NS: u64 = 5_000;

/// An island's clock, as one of its cores sees it.
#[derive(Clone, Copy)]
pub struct IslandClock {
    latest_ns: &'static AtomicU64,
    offset_ns: &'static AtomicU64,
    counters: &'static IslandCounters,
}

impl IslandClock {
    /// The clock of an island.
    pub fn new(pool: Pool, island: IslandId) -> Self {
        let header = pool.header();
        let record = &header.islands[island.index()];
        Self { latest_ns: &header.latest_reading_ns, offset_ns: &record.clock_offset_ns, counters: &record.counters }
    }

    /// The offset to add to the island's counter (wrapping), in nanoseconds. It is only raised once the island has joined.
    #[inline(always)]
    pub fn offset_ns(&self) -> u64 {
        self.offset_ns.load(Ordering::Relaxed)
    }

    /// The time on the island's own clock when its counter shows `counter_ns`. It may be less than what others have read.
    #[inline(always)]
    pub fn own_ns(&self, counter_ns: u64) -> u64 {
        counter_ns.wrapping_add(self.offset_ns())
    }

    /// A reading that may leave the kernel: not less than any that was made before. `counter` reads the island's counter.
    #[inline(always)]
    pub fn read(&self, counter: impl Fn() -> u64) -> u64 {
        let own_ns = self.own_ns(counter());
        let latest_ns = self.latest_ns.fetch_max(own_ns, Ordering::AcqRel);
        if latest_ns <= own_ns {
            return own_ns;
        }
        self.catch_up(latest_ns, counter);
        latest_ns
    }

    /// Somebody has read `latest_ns`, which was more than the island's own clock showed. If its clock still shows less, it is
    /// behind; another core that was only faster does not count.
    #[cold]
    #[inline(never)]
    fn catch_up(&self, latest_ns: u64, counter: impl Fn() -> u64) {
        let offset_ns = self.offset_ns();
        let behind_ns = latest_ns.saturating_sub(counter().wrapping_add(offset_ns));
        if behind_ns > TOLERANCE_NS {
            self.counters.clock_step_ns_max.fetch_max(behind_ns, Ordering::Relaxed);
            // If another core has moved it meanwhile, that was for the same reason.
            let moved = offset_ns.wrapping_add(behind_ns - TOLERANCE_NS);
            let done = self.offset_ns.compare_exchange(offset_ns, moved, Ordering::Relaxed, Ordering::Relaxed);
            if done.is_ok() {
                crate::count(&self.counters.clock_steps);
            }
        }
    }
}
