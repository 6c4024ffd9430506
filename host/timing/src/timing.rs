//! Keeping the cores together.
//!
//! Rules about who may block: [`Timing::boundary`] and [`Timing::announce`] wait; [`Timing::sleep`] never does, because
//! QEMU calls it with its big lock held. No wait is unbounded: a core that has waited for long runs one more block, so
//! that its QEMU can stop it for work that needs all its cores to stand still ("escape").

use std::{
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
    time::{Duration, Instant},
};

use motet_layout::{CORE_IDLE, CoreRecord, PoolHeader};
use rustix::thread::futex;

use crate::{ClockRegion, CoreClock, PS_PER_NS, Settings};

/// Longest sleep of a waiting core before it looks again.
const LOOK: Duration = Duration::from_millis(2);
/// A core that waits this long without seeing another one move escapes.
const PATIENCE: Duration = Duration::from_millis(200);
/// The same when an escape spoils what the run is for.
const PATIENCE_DETERMINISTIC: Duration = Duration::from_secs(2);
/// How long an announced core waits for the others at a time.
const ANNOUNCE: Duration = Duration::from_millis(5);
/// Looks before a waiting core sleeps.
const SPINS: u32 = 20;

/// Interrupting cores of the machine.
pub trait Bells {
    /// Rings a core's doorbell.
    fn ring(&self, core: usize);

    /// Waits until the doorbells rung for a core of this process have reached its interrupt controller.
    fn settle(&self, core: usize);
}

/// What a core does after a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Its time, in picoseconds.
    pub now_ps: u64,
    /// It escaped: it comes back after one block.
    pub escaped: bool,
}

/// The rules, as seen by one process.
pub struct Timing<B> {
    region: &'static ClockRegion,
    header: &'static PoolHeader,
    settings: Settings,
    /// Indices of the machine's cores.
    cores: Vec<usize>,
    bells: B,
}

impl<B: Bells> Timing<B> {
    /// Joins a region that has been set up, `None` when it has not. `header` describes the machine.
    pub fn new(region: &'static ClockRegion, header: &'static PoolHeader, bells: B) -> Option<Self> {
        let settings = region.settings()?;
        let islands = header.islands.iter().take(header.island_count.get() as usize).enumerate();
        let cores = islands.flat_map(|(island, record)| {
            let first = island * motet_layout::CORES_PER_ISLAND_MAX;
            first..first + record.core_count.get() as usize
        });
        Some(Self { region, header, settings, cores: cores.collect(), bells })
    }

    /// How time is kept.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// A core says that it is there. `true`: time runs, and the core has been told; `false`: it is to ask again.
    pub fn announce(&self, core: usize) -> bool {
        let region = self.region;
        if region.cores[core].announced.swap(1, SeqCst) == 0
            && region.announced.fetch_add(1, SeqCst) + 1 == region.expected.load(Relaxed)
        {
            region.turn.store(self.cores.first().map_or(0, |&first| first as u32 + 1), SeqCst);
            region.started.store(1, SeqCst);
            self.notify();
        }
        let until = Instant::now() + ANNOUNCE;
        while region.started.load(SeqCst) == 0 {
            if Instant::now() >= until {
                return false;
            }
            self.wait(|| region.started.load(SeqCst) == 0);
        }
        // The thread that runs the core is here, so its kernel does not count at the same time.
        self.record(core).rings.set(0);
        self.publish(core, PS_PER_NS);
        true
    }

    /// Books what a core has done since it last did this, unless nothing counts any more.
    pub fn book(&self, core: usize, instructions: u64, stall_ps: u64) {
        if self.is_stopped() {
            return;
        }
        let clock = self.clock(core);
        bump(&clock.instructions, instructions);
        bump(&clock.stall_ps, stall_ps);
        clock.ipis_sent.store(self.record(core).rings.get(), Relaxed);
    }

    /// Stores a core's time where its kernel finds it.
    pub fn publish(&self, core: usize, now_ps: u64) {
        self.record(core).clock_ns.store(now_ps / PS_PER_NS, Relaxed);
    }

    /// A running core has come to the end of its quantum, or runs its first instruction after sleep. Waits until it may
    /// go on.
    pub fn boundary(&self, core: usize, now_ps: u64) -> Next {
        if self.is_stopped() {
            return Next { now_ps, escaped: false };
        }
        if self.settings.deterministic { self.turn_boundary(core, now_ps) } else { self.quantum_boundary(core, now_ps) }
    }

    /// A core falls asleep. Never waits.
    pub fn sleep(&self, core: usize, now_ps: u64) {
        if self.is_stopped() {
            return;
        }
        let clock = self.clock(core);
        clock.clock_ps.store(now_ps, Relaxed);
        clock.arrived.store(0, Relaxed);
        clock.running.store(0, SeqCst);
        clock.halted.store(1, SeqCst);
        if self.stop_at_end(core) {
            return;
        }
        self.advance();
        self.skip_idle_time();
        if self.settings.deterministic && self.has_turn(core) {
            self.region.turn.store(self.next_turn(), SeqCst);
        }
        self.notify();
    }

    fn quantum_boundary(&self, core: usize, now_ps: u64) -> Next {
        let now_ps = self.wake_up(core, now_ps);
        self.record(core).rung_at_ns.store(0, Relaxed);
        self.clock(core).clock_ps.store(now_ps, SeqCst);
        if self.stop_at_end(core) {
            return Next { now_ps, escaped: false };
        }
        self.ring_own_alarm(core, now_ps);
        self.advance();
        self.notify();
        let ahead = || {
            let slowest = self.cores.iter().filter(|&&other| other != core).filter_map(|&other| self.active_ps(other));
            slowest.min().filter(|&slowest| now_ps > slowest + self.settings.quantum_ps)
        };
        let escaped = self.wait_while(ahead);
        Next { now_ps, escaped }
    }

    fn turn_boundary(&self, core: usize, now_ps: u64) -> Next {
        let clock = self.clock(core);
        // It may have been given the turn before it came here: then its turn has not begun yet.
        if clock.running.swap(0, SeqCst) != 0 {
            clock.clock_ps.store(now_ps, SeqCst);
            if self.stop_at_end(core) {
                return Next { now_ps, escaped: false };
            }
            self.advance();
            let next = self.next_turn();
            if next != core as u32 + 1 {
                self.region.turn.store(next, SeqCst);
                self.notify();
            }
        } else if clock.halted.load(SeqCst) != 0 {
            clock.arrived.store(1, SeqCst);
        }
        let other = || {
            let turn = &self.region.turn;
            let mine = self.has_turn(core) || turn.compare_exchange(0, core as u32 + 1, SeqCst, SeqCst).is_ok();
            (!mine).then(|| turn.load(SeqCst).into())
        };
        if self.wait_while(other) {
            return Next { now_ps, escaped: true };
        }
        clock.running.store(1, SeqCst);
        let slept = clock.halted.load(SeqCst) != 0;
        let now_ps = self.wake_up(core, now_ps);
        clock.clock_ps.store(now_ps, SeqCst);
        if self.record(core).rung_at_ns.swap(0, SeqCst) != 0 || slept {
            self.bells.settle(core);
        }
        if self.ring_own_alarm(core, now_ps) {
            self.bells.settle(core);
        }
        Next { now_ps, escaped: false }
    }

    /// Whether nothing counts any more.
    pub fn is_stopped(&self) -> bool {
        self.region.stopped.load(Relaxed) != 0
    }

    /// Stops time when the machine's command has ended; whether it has. Deterministic runs stop where the core whose turn
    /// it is comes to its boundary, not where the host happens to look.
    fn stop_at_end(&self, core: usize) -> bool {
        let over = self.header.exit.load(SeqCst) != 0 && (!self.settings.deterministic || self.has_turn(core));
        if over {
            self.region.stopped.store(1, SeqCst);
            self.notify();
        }
        over
    }

    /// A core that slept is awake: its time is that of what woke it.
    fn wake_up(&self, core: usize, now_ps: u64) -> u64 {
        let clock = self.clock(core);
        if clock.halted.load(SeqCst) == 0 {
            return now_ps;
        }
        let known_ps = self.known_wake_ps(core);
        if known_ps.is_some_and(|at| at != clock.wake_at_ps.load(SeqCst)) {
            bump(&clock.ipis_received, 1);
        }
        let woken_ps = known_ps.unwrap_or_else(|| self.region.now_ps.load(SeqCst)).max(now_ps);
        bump(&clock.idle_ps, woken_ps - now_ps);
        clock.clock_ps.store(woken_ps, SeqCst);
        clock.wake_at_ps.store(0, SeqCst);
        clock.arrived.store(0, SeqCst);
        clock.halted.store(0, SeqCst);
        woken_ps
    }

    /// When a sleeping core that has been rung wakes.
    fn known_wake_ps(&self, core: usize) -> Option<u64> {
        let alarm_ps = self.clock(core).wake_at_ps.load(SeqCst);
        let rung_ns = self.record(core).rung_at_ns.load(SeqCst);
        let rung_ps = if rung_ns == 0 { 0 } else { rung_ns * PS_PER_NS + self.settings.doorbell_ps };
        match (alarm_ps, rung_ps) {
            (0, 0) => None,
            (0, at) | (at, 0) => Some(at),
            (alarm, rung) => Some(alarm.min(rung)),
        }
    }

    /// The time of a core that runs, or is about to; `None` while it sleeps.
    fn active_ps(&self, core: usize) -> Option<u64> {
        let clock = self.clock(core);
        let own_ps = clock.clock_ps.load(SeqCst);
        if clock.halted.load(SeqCst) == 0 {
            return Some(own_ps);
        }
        let rung = clock.wake_at_ps.load(SeqCst) != 0 || self.record(core).state.load(SeqCst) != CORE_IDLE;
        if rung && let Some(wake_ps) = self.known_wake_ps(core) {
            return Some(own_ps.max(wake_ps));
        }
        let arrived = clock.arrived.load(SeqCst) != 0;
        arrived.then(|| own_ps.max(self.region.now_ps.load(SeqCst)))
    }

    /// Brings the machine's time up to its slowest running core, and rings sleepers whose alarms have passed.
    fn advance(&self) {
        let Some(slowest) = self.cores.iter().filter_map(|&core| self.active_ps(core)).min() else { return };
        let now_ps = self.region.now_ps.fetch_max(slowest, SeqCst).max(slowest);
        for &core in &self.cores {
            if self.sleeps(core) && self.record(core).alarm_ns.load(SeqCst) <= now_ps / PS_PER_NS {
                self.ring_alarm(core);
            }
        }
    }

    /// When all cores sleep: lets time jump to the earliest alarm.
    fn skip_idle_time(&self) {
        if !self.cores.iter().all(|&core| self.sleeps(core)) {
            return;
        }
        let alarm = |core: usize| self.record(core).alarm_ns.load(SeqCst);
        let Some(&first) = self.cores.iter().min_by_key(|&&core| alarm(core)) else { return };
        let alarm_ns = alarm(first);
        if alarm_ns != u64::MAX {
            self.region.now_ps.fetch_max(alarm_ns.saturating_mul(PS_PER_NS), SeqCst);
            self.ring_alarm(first);
        }
    }

    /// Whether a core sleeps and nobody has rung it.
    fn sleeps(&self, core: usize) -> bool {
        let clock = self.clock(core);
        clock.halted.load(SeqCst) != 0
            && clock.wake_at_ps.load(SeqCst) == 0
            && clock.arrived.load(SeqCst) == 0
            && self.record(core).state.load(SeqCst) == CORE_IDLE
    }

    /// Rings a sleeping core for its alarm, once.
    fn ring_alarm(&self, core: usize) {
        let alarm_ns = self.record(core).alarm_ns.swap(u64::MAX, SeqCst);
        if alarm_ns != u64::MAX {
            self.clock(core).wake_at_ps.store(alarm_ns.saturating_mul(PS_PER_NS).max(1), SeqCst);
            self.bells.ring(core);
        }
    }

    /// Rings this core when its own alarm has passed.
    fn ring_own_alarm(&self, core: usize, now_ps: u64) -> bool {
        let alarm = &self.record(core).alarm_ns;
        let due = alarm.load(Relaxed) <= now_ps / PS_PER_NS;
        if due {
            alarm.store(u64::MAX, Relaxed);
            self.bells.ring(core);
        }
        due
    }

    fn has_turn(&self, core: usize) -> bool {
        self.region.turn.load(SeqCst) == core as u32 + 1
    }

    /// Whose turn is next: the core that is most behind.
    fn next_turn(&self) -> u32 {
        let active = self.cores.iter().filter_map(|&core| self.active_ps(core).map(|at| (at, core)));
        active.min().map_or(0, |(_, core)| core as u32 + 1)
    }

    /// Waits while `obstacle` says what this core waits for; `true` when that does not change for long.
    fn wait_while(&self, mut obstacle: impl FnMut() -> Option<u64>) -> bool {
        let patience = if self.settings.deterministic { PATIENCE_DETERMINISTIC } else { PATIENCE };
        let mut seen = None;
        let mut since = None;
        let mut spins = 0;
        loop {
            let Some(found) = obstacle().filter(|_| !self.is_stopped()) else { return false };
            if seen != Some(found) {
                (seen, since) = (Some(found), None);
            }
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            let began = *since.get_or_insert_with(Instant::now);
            if began.elapsed() > patience {
                self.region.escapes.fetch_add(1, Relaxed);
                return true;
            }
            self.wait(|| obstacle().is_some());
        }
    }

    /// Sleeps until the next notice unless `still` says that there is no need.
    fn wait(&self, still: impl FnOnce() -> bool) {
        let sequence = self.region.sequence.load(SeqCst);
        self.region.waiters.fetch_add(1, SeqCst);
        if still() {
            let timeout = rustix::time::Timespec::try_from(LOOK).ok();
            // Woken, changed meanwhile, timed out, interrupted: the caller looks again in any case.
            let _ = futex::wait(&self.region.sequence, futex::Flags::empty(), sequence, timeout.as_ref());
        }
        self.region.waiters.fetch_sub(1, SeqCst);
    }

    /// Lets all waiting cores look again.
    fn notify(&self) {
        self.region.sequence.fetch_add(1, SeqCst);
        if self.region.waiters.load(SeqCst) != 0 {
            let _ = futex::wake(&self.region.sequence, futex::Flags::empty(), i32::MAX as u32);
        }
    }

    fn clock(&self, core: usize) -> &'static CoreClock {
        &self.region.cores[core]
    }

    fn record(&self, core: usize) -> &'static CoreRecord {
        &self.header.cores[core]
    }
}

/// Adds to a word that only this thread writes.
fn bump(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed) + by, Relaxed);
}
