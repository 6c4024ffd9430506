//! The rules of time: what a core's clock shows after it has run, slept, or been rung.
//!
//! Rules about who may block: [`Timing::boundary`] and [`Timing::announce`] wait; [`Timing::sleep`] never does, because
//! QEMU calls it with its big lock held. No wait is unbounded: a core that has waited for long runs one more block, so
//! that its QEMU can stop it for work that needs all its cores to stand still ("escape").
//!
//! Here are the beginning of time and what is booked. `boundary` is about cores that run, `sleep` about those that sleep,
//! `exchange` about what cores do to others; `pace` lets the host's threads wait for each other.

use std::time::{Duration, Instant};

use motet_layout::{
    CoreRecord, Pool,
    sync::{
        AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use crate::{ClockRegion, CoreClock, PS_PER_NS, Records, Settings};

/// How long an announced core waits for the others at a time.
const ANNOUNCE: Duration = Duration::from_millis(5);

/// Interrupting cores of the machine, and letting the threads that run them wait.
pub trait Bells {
    /// Rings a core's doorbell.
    fn ring(&self, core: usize);

    /// Waits until the doorbells rung for a core of this process have reached its interrupt controller. `false`: it has
    /// waited for long in vain, and cannot say whether they have.
    #[must_use]
    fn settle(&self, core: usize) -> bool;

    /// Sleeps until [`Bells::wake`], at most for `at_most`, or not at all if `word` is not `expected`. It may also return
    /// for no reason.
    fn wait(&self, word: &AtomicU32, expected: u32, at_most: Duration);

    /// Wakes all that wait for `word`.
    fn wake(&self, word: &AtomicU32);
}

/// What a core does after a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Its time, in picoseconds.
    pub now_ps: u64,
    /// How much time is to pass until its next boundary, in picoseconds.
    pub step_ps: u64,
    /// It escaped: it comes back after one block.
    pub escaped: bool,
    /// It has slept, and was not woken by another core: that it takes a while to wake is not in the time yet.
    pub woke: bool,
}

/// The rules, as seen by one process.
pub struct Timing<B> {
    pub(crate) region: &'static ClockRegion,
    pub(crate) records: Records,
    pub(crate) settings: Settings,
    /// Indices of the machine's cores.
    pub(crate) cores: Vec<usize>,
    pub(crate) bells: B,
    /// For devices that are threads.
    pub(crate) pool: Option<Pool>,
}

impl<B: Bells> Timing<B> {
    /// Joins a region that has been set up, `None` when it has not. `records`: the machine's, of its only header or of several.
    pub fn new(region: &'static ClockRegion, records: impl Into<Records>, bells: B) -> Option<Self> {
        let settings = region.settings()?;
        let records = records.into();
        let cores = records.islands().flat_map(|(island, record)| {
            let first = island * motet_layout::CORES_PER_ISLAND_MAX;
            let visible = first + record.core_count.get() as usize;
            let hidden = |core: &usize| region.cores[*core].hidden.load(Relaxed) != 0;
            (first..visible).chain((visible..first + motet_layout::CORES_PER_ISLAND_MAX).filter(hidden))
        });
        let cores = cores.collect();
        Some(Self { region, records, settings, cores, bells, pool: None })
    }

    /// The same for a machine with a service core, whose devices use the pool.
    #[must_use]
    pub fn with_pool(self, pool: Pool) -> Self {
        Self { pool: Some(pool), ..self }
    }

    /// How time is kept.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The most time that passes on a core between two boundaries, in picoseconds ([`Next::step_ps`] says how much).
    pub fn step_max_ps(&self) -> u64 {
        self.settings.quantum_ps
    }

    /// How much passes while others run. A core that nobody waits for needs no more than one boundary in each quantum.
    pub(crate) fn step_ps(&self, core: usize) -> u64 {
        if self.cores.len() == 1 { self.settings.quantum_ps } else { self.step_of_ps(core) }
    }

    /// How much is to pass on a core between two boundaries while others run.
    pub fn step_of_ps(&self, core: usize) -> u64 {
        match self.clock(core).step_ps.load(Relaxed) {
            0 => self.settings.step_ps(),
            step_ps => step_ps,
        }
    }

    /// How much passes while no other core runs, or is about to. Its alarm is noticed at a boundary.
    pub(crate) fn step_alone_ps(&self, core: usize, now_ps: u64) -> u64 {
        let to_alarm_ps = self.record(core).alarm_ns.load(Relaxed).saturating_mul(PS_PER_NS).saturating_sub(now_ps);
        to_alarm_ps.clamp(self.step_ps(core), self.settings.quantum_ps)
    }

    /// A core that goes on as usual.
    pub(crate) fn goes_on(&self, core: usize, now_ps: u64, woke: bool) -> Next {
        Next { now_ps, step_ps: self.step_ps(core), escaped: false, woke }
    }

    /// A core says that it is there. `true`: time runs, and the core has been told; `false`: it is to ask again.
    pub fn announce(&self, core: usize) -> bool {
        self.count_announced(core);
        let region = self.region;
        let until = Instant::now() + ANNOUNCE;
        while region.started.load(SeqCst) == 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.bells.wait(&region.started, 0, left);
        }
        // The thread that runs the core is here, so its kernel does not count at the same time.
        self.clock(core).rings_sent.store(0, Relaxed);
        self.publish(core, PS_PER_NS);
        true
    }

    /// A hidden hart says that it is there, and falls asleep until it is rung. Never waits.
    pub fn announce_asleep(&self, core: usize) {
        let clock = self.clock(core);
        clock.clock_ps.store(PS_PER_NS, Relaxed);
        clock.halted.store(1, SeqCst);
        self.count_announced(core);
    }

    /// Lets time begin if this core is the last one to say that it is there.
    fn count_announced(&self, core: usize) {
        let region = self.region;
        if region.cores[core].announced.swap(1, SeqCst) == 0
            && region.announced.fetch_add(1, SeqCst) + 1 == region.expected.load(Relaxed)
        {
            region.turn.store(self.cores.first().map_or(0, |&first| first as u32 + 1), SeqCst);
            region.started.store(1, SeqCst);
            self.bells.wake(&region.started);
        }
    }

    /// Books what a core has done since it last did this, unless nothing counts any more.
    pub fn book(&self, core: usize, instructions: u64, stall_ps: u64) {
        if self.is_stopped() {
            return;
        }
        let clock = self.clock(core);
        bump(&clock.instructions, instructions);
        bump(&clock.stall_ps, stall_ps);
        self.count_rings(core);
    }

    /// Stores a core's time where its kernel finds it.
    pub fn publish(&self, core: usize, now_ps: u64) {
        self.record(core).clock_ns.store(now_ps / PS_PER_NS, Relaxed);
    }

    pub(crate) fn clock(&self, core: usize) -> &'static CoreClock {
        &self.region.cores[core]
    }

    pub(crate) fn record(&self, core: usize) -> &'static CoreRecord {
        self.records.cores()[core]
    }
}

/// Stores a time, unless an earlier one is there; 0 is none.
pub(crate) fn note_first(word: &AtomicU64, at_ns: u64) {
    // An error says that an earlier one is.
    let _ = word.fetch_update(SeqCst, Relaxed, |noted| (noted == 0 || at_ns < noted).then_some(at_ns));
}

/// Adds to a word that only this thread writes.
pub(crate) fn bump(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed) + by, Relaxed);
}
