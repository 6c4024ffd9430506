//! What time it is on a core: the host's, or, where a simulator keeps it, the machine's.

use core::{cell::Cell, sync::atomic::Ordering};

use motet_hal::Machine;
use motet_layout::{IslandId, Pool};
use motet_protocol::clock::IslandClock;

use super::Cpu;

/// How often an island's counter is corrected while its cores are awake, in nanoseconds.
const STEERING_NS: u64 = 50_000_000;

/// The clock that a core reads.
pub struct Clock {
    island: IslandClock,
    is_simulated: bool,
    /// When this core looks next whether the island's counter keeps pace, in machine time.
    steer_at_ns: Cell<u64>,
}

impl Clock {
    /// Of a core of that island.
    pub fn new(pool: Pool, island: IslandId) -> Self {
        let is_simulated = pool.header().timed.get() != 0;
        Self { island: IslandClock::new(pool, island), is_simulated, steer_at_ns: Cell::default() }
    }

    /// What is to be added to the island's counter, in nanoseconds.
    #[inline(always)]
    pub fn offset_ns(&self) -> u64 {
        self.island.offset_ns()
    }

    /// The machine's time when the island's counter shows so much, in nanoseconds.
    #[inline(always)]
    pub fn own_ns(&self, counter_ns: u64) -> u64 {
        self.island.own_ns(counter_ns)
    }

    /// Whether this core is to look by now whether the island's counter keeps pace.
    #[inline(always)]
    pub fn is_to_be_steered(&self, now_ns: u64) -> bool {
        now_ns >= self.steer_at_ns.get()
    }
}

impl<M: Machine> Cpu<M> {
    /// Whether a simulator keeps the time.
    #[inline(always)]
    pub fn is_timed(&self) -> bool {
        self.clock.is_simulated
    }

    /// Nanoseconds on the machine's clock as this island has it: for what stays in the kernel. Other islands' may be
    /// some microseconds ahead.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        if self.is_timed() {
            return self.simulated_ns();
        }
        self.clock.own_ns(self.machine.counter_ns())
    }

    /// Nanoseconds on the machine's clock, for whatever a program may learn of: never less than any earlier reading, on
    /// whichever island.
    #[inline(always)]
    pub fn reading_ns(&self) -> u64 {
        if self.is_timed() {
            return self.simulated_ns();
        }
        self.clock.island.read(|| self.machine.counter_ns())
    }

    /// Nanoseconds since 1970-01-01 UTC.
    pub fn realtime_ns(&self) -> u64 {
        self.reading_ns() + self.pool.header().realtime_at_zero_ns.get()
    }

    /// Keeps this island's counter in step with the host's clock. Called when a core has been interrupted, or has slept.
    #[inline(always)]
    pub fn steer_clock(&self, now_ns: u64) {
        if self.clock.is_to_be_steered(now_ns) {
            self.steer_clock_at(now_ns);
        }
    }

    #[cold]
    fn steer_clock_at(&self, now_ns: u64) {
        self.clock.steer_at_ns.set(if self.is_timed() { u64::MAX } else { now_ns + STEERING_NS });
        if !self.is_timed() {
            self.machine.steer_counter();
        }
    }

    /// A timed machine's clock, as this core sees it.
    #[inline(always)]
    fn simulated_ns(&self) -> u64 {
        self.machine.publish_clock();
        self.own.clock_ns.load(Ordering::Relaxed)
    }

    /// On a timed machine: from now on programs do not see the hardware's counters; waits until the machine's time runs, which it
    /// does when all its cores are here.
    pub fn start_timing(&self) {
        if self.is_timed() {
            self.machine.hide_counters();
        }
        while self.is_timed() && self.own.clock_ns.load(Ordering::Acquire) == 0 {
            self.machine.announce_core();
        }
    }
}
