//! The rules of time: what a core's clock shows after it has run, slept, or been rung.
//!
//! Rules about who may block: [`Timing::boundary`] and [`Timing::announce`] wait; [`Timing::sleep`] never does, because
//! QEMU calls it with its big lock held. No wait is unbounded: a core that has waited for long runs one more block, so
//! that its QEMU can stop it for work that needs all its cores to stand still ("escape").

use std::{
    mem::offset_of,
    time::{Duration, Instant},
};

use motet_layout::{
    CORE_IDLE, CORE_OUT, CORE_POLLING, CORES_PER_ISLAND_MAX, CoreId, CoreRecord, Pool, PoolHeader,
    sync::{
        AtomicU32, AtomicU64,
        Ordering::{Relaxed, Release, SeqCst},
    },
};

use motet_protocol::dma;

use crate::{ClockRegion, CoreClock, PS_PER_NS, Settings, pace::View, region::PACE_NONE};

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
    region: &'static ClockRegion,
    header: &'static PoolHeader,
    settings: Settings,
    /// Indices of the machine's cores.
    cores: Vec<usize>,
    bells: B,
    /// For devices that are threads.
    pub(crate) pool: Option<Pool>,
}

impl<B: Bells> Timing<B> {
    /// Joins a region that has been set up, `None` when it has not. `header` describes the machine.
    pub fn new(region: &'static ClockRegion, header: &'static PoolHeader, bells: B) -> Option<Self> {
        let settings = region.settings()?;
        let islands = header.islands.iter().take(header.island_count.get() as usize).enumerate();
        let cores = islands.flat_map(|(island, record)| {
            let first = island * motet_layout::CORES_PER_ISLAND_MAX;
            let visible = first + record.core_count.get() as usize;
            let hidden = |core: &usize| region.cores[*core].hidden.load(Relaxed) != 0;
            (first..visible).chain((visible..first + motet_layout::CORES_PER_ISLAND_MAX).filter(hidden))
        });
        Some(Self { region, header, settings, cores: cores.collect(), bells, pool: None })
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
    fn step_ps(&self) -> u64 {
        if self.cores.len() == 1 { self.settings.quantum_ps } else { self.settings.step_ps() }
    }

    /// How much passes while no other core runs, or is about to. Its alarm is noticed at a boundary.
    fn step_alone_ps(&self, core: usize, now_ps: u64) -> u64 {
        let to_alarm_ps = self.record(core).alarm_ns.load(Relaxed).saturating_mul(PS_PER_NS).saturating_sub(now_ps);
        to_alarm_ps.clamp(self.step_ps(), self.settings.quantum_ps)
    }

    /// A core that goes on as usual.
    fn goes_on(&self, now_ps: u64, woke: bool) -> Next {
        Next { now_ps, step_ps: self.step_ps(), escaped: false, woke }
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

    /// A core is about to ring another one: notes when the doorbell arrives. Of several, the first one wakes.
    pub fn note_ring(&self, core: usize, now_ps: u64) {
        self.note_ring_of(core, self.record(core).ring_target.get() as usize, now_ps);
    }

    /// As [`Timing::note_ring`], of a core that the caller names.
    pub fn note_ring_of(&self, core: usize, target: usize, now_ps: u64) {
        let from = CoreId(core as u8).island().index();
        if self.note_arrival(from, target, now_ps) {
            bump(&self.clock(core).rings_sent, 1);
        }
    }

    /// A device that is no core interrupts one: as if from its own island.
    pub(crate) fn note_interrupt(&self, target: CoreId, now_ps: u64) {
        self.note_arrival(target.island().index(), target.index(), now_ps);
    }

    fn note_arrival(&self, from: usize, target: usize, now_ps: u64) -> bool {
        let (to, Some(target)) = (target / CORES_PER_ISLAND_MAX, self.header.cores.get(target)) else { return false };
        self.note_exchange(now_ps);
        let latency_ns = self.header.islands[from].doorbell_ns[to].get();
        note_first(&target.rung_at_ns, now_ps / PS_PER_NS + u64::from(latency_ns));
        target.rings_received.fetch_add(1, SeqCst);
        true
    }

    /// A core has exchanged something with another island, or is about to.
    pub fn note_exchange(&self, now_ps: u64) {
        let exchanged = &self.region.exchanged_ps;
        // Seldom written: all cores look at it.
        if self.settings.grows() && exchanged.load(Relaxed) + self.settings.step_ps() < now_ps {
            exchanged.fetch_max(now_ps, SeqCst);
        }
    }

    /// A core has written what another one would look at in a loop, and in fact sleeps for: that one sees it when the store has
    /// arrived there.
    pub fn note_write(&self, core: usize, now_ps: u64) {
        let Some((island, target)) = self.target_of(core) else { return };
        self.note_exchange(now_ps);
        let transit_ns = self.header.islands[core / CORES_PER_ISLAND_MAX].transit_ns[island].get();
        note_first(&target.written_at_ns, now_ps / PS_PER_NS + u64::from(transit_ns));
        target.rings_received.fetch_add(1, SeqCst);
        self.bells.ring(self.record(core).ring_target.get() as usize);
    }

    /// A core's migration engine transfers a descriptor, a call or an answer. So many bytes take `transfer_ps`; `moved` is told what of a call or an
    /// answer was copied: from where in the pool, to where, how many bytes. A receiver that polls sees its end; others are interrupted
    /// after that.
    pub fn transfer(
        &self,
        core: usize,
        now_ps: u64,
        transfer_ps: impl Fn(u64) -> u64,
        mut moved: impl FnMut(u64, u64, u64),
    ) {
        let Some((island, target)) = self.target_of(core) else { return };
        self.note_exchange(now_ps);
        let (id, own) = (CoreId(core as u8), self.record(core));
        let (bytes, pieces) = (dma::bytes(id, own), dma::pieces(id, own));
        let arrives_ns = (now_ps + transfer_ps(bytes as u64)).div_ceil(PS_PER_NS);
        if !dma::transfer(id, own, target, arrives_ns) {
            return;
        }
        let record_at = |core: usize| offset_of!(PoolHeader, cores) + core * size_of::<CoreRecord>();
        let receiver = own.ring_target.get() as usize;
        for (from, to, bytes) in pieces.into_iter().filter(|piece| piece.2 != 0) {
            moved((record_at(core) + from) as u64, (record_at(receiver) + to) as u64, bytes as u64);
        }
        let polls = self.header.islands[island].poll_ns.get() != 0 && target.state.load(SeqCst) != CORE_IDLE;
        if polls {
            note_first(&target.written_at_ns, arrives_ns);
        } else {
            let latency_ns = self.header.islands[core / CORES_PER_ISLAND_MAX].doorbell_ns[island].get();
            note_first(&target.rung_at_ns, arrives_ns + u64::from(latency_ns));
        }
        target.rings_received.fetch_add(1, SeqCst);
        bump(&self.clock(core).transfers, 1);
        self.bells.ring(self.record(core).ring_target.get() as usize);
    }

    /// The frame of the pool that a core's kernel has leave the caches.
    pub fn flush_addr(&self, core: usize) -> u64 {
        self.record(core).flush_addr.get()
    }

    /// A core comes from its instruction that waits for an interrupt. If it has not slept, because a doorbell was there
    /// already, but before its time: how much later that is.
    pub fn catch_up(&self, core: usize, now_ps: u64) -> u64 {
        let record = self.record(core);
        let noted = [&record.rung_at_ns, &record.written_at_ns].map(|word| word.swap(0, SeqCst));
        let first_ns = noted.into_iter().filter(|&at_ns| at_ns != 0).min().unwrap_or(0);
        let later_ps = first_ns.saturating_mul(PS_PER_NS).saturating_sub(now_ps);
        if !self.is_stopped() && first_ns != 0 {
            bump(&self.clock(core).idle_ps, later_ps);
            bump(&self.clock(core).ipis_received, u64::from(noted[0] == first_ns));
        }
        later_ps
    }

    /// The core that a core's record names, and its island; `None`: the word is damaged.
    fn target_of(&self, core: usize) -> Option<(usize, &'static CoreRecord)> {
        let target = self.record(core).ring_target.get() as usize;
        Some((target / CORES_PER_ISLAND_MAX, self.header.cores.get(target)?))
    }

    /// A running core has come to the end of its quantum, or runs its first instruction after sleep. Waits until it may
    /// go on.
    pub fn boundary(&self, core: usize, now_ps: u64) -> Next {
        if self.is_stopped() {
            return self.goes_on(now_ps, false);
        }
        if self.settings.deterministic { self.turn_boundary(core, now_ps) } else { self.quantum_boundary(core, now_ps) }
    }

    /// A core falls asleep. Never waits.
    pub fn sleep(&self, core: usize, now_ps: u64) {
        if self.is_stopped() {
            return;
        }
        let clock = self.clock(core);
        self.count_rings(core);
        clock.clock_ps.store(now_ps, Relaxed);
        clock.arrived.store(0, Relaxed);
        clock.running.store(0, SeqCst);
        clock.halted.store(1, SeqCst);
        clock.pace.store(PACE_NONE, SeqCst);
        if self.stop_at_end(core) {
            return;
        }
        let view = self.advance(core);
        self.skip_idle_time(core);
        if !self.settings.deterministic {
            self.wake_parked(view);
        } else if self.has_turn(core) {
            self.pass_turn();
        }
    }

    fn quantum_boundary(&self, core: usize, now_ps: u64) -> Next {
        let (now_ps, woke) = self.wake_up(core, now_ps);
        self.count_rings(core);
        let alone = self.cores.len() == 1;
        // Not in order with looking who is parked: when it looks next, which is within a quantum, or before it waits, this core
        // looks again.
        self.clock(core).clock_ps.store(now_ps, Release);
        if self.stop_at_end(core) {
            return self.goes_on(now_ps, false);
        }
        self.ring_own_alarm(core, now_ps);
        if alone {
            // The machine's time is this core's, and there is nobody to wait for, or to wake.
            self.region.now_ps.store(now_ps.max(self.region.now_ps.load(Relaxed)), Relaxed);
            self.run_devices(core, now_ps);
            return self.goes_on(now_ps, woke);
        }
        if self.is_free(core, now_ps) {
            return self.goes_on(now_ps, woke);
        }
        let view = self.advance(core);
        self.wake_parked(view);
        if view.running == 1 {
            self.keep_together(core, now_ps, view);
            return Next { step_ps: self.step_alone_ps(core, now_ps), ..self.goes_on(now_ps, woke) };
        }
        Next { escaped: self.keep_together(core, now_ps, view), ..self.goes_on(now_ps, woke) }
    }

    /// A boundary of a running core at which nothing is to be done but to say how far it is. False: it is to come to
    /// [`Timing::boundary`].
    pub fn passes(&self, core: usize, now_ps: u64) -> bool {
        let clock = self.clock(core);
        let is_usual = clock.halted.load(Relaxed) == 0
            && self.header.exit.load(Relaxed) == 0
            && self.record(core).alarm_ns.load(Relaxed) > now_ps / PS_PER_NS;
        // In turns, no core is free.
        if !is_usual || self.is_stopped() || !self.is_free(core, now_ps) {
            return false;
        }
        // As in `quantum_boundary`.
        clock.clock_ps.store(now_ps, Release);
        true
    }

    fn turn_boundary(&self, core: usize, now_ps: u64) -> Next {
        let clock = self.clock(core);
        // It may have been given the turn before it came here: then its turn has not begun yet.
        if clock.running.swap(0, SeqCst) != 0 {
            self.count_rings(core);
            clock.clock_ps.store(now_ps, SeqCst);
            if self.stop_at_end(core) {
                return self.goes_on(now_ps, false);
            }
            self.advance(core);
            self.pass_turn();
        } else if clock.halted.load(SeqCst) != 0 {
            clock.arrived.store(1, SeqCst);
        }
        if self.wait_for_turn(core) {
            return Next { escaped: true, ..self.goes_on(now_ps, false) };
        }
        clock.running.store(1, SeqCst);
        let slept = clock.halted.load(SeqCst) != 0;
        let (now_ps, woke) = self.wake_up(core, now_ps);
        clock.clock_ps.store(now_ps, SeqCst);
        let rings = self.record(core).rings_received.load(SeqCst);
        if clock.rings_settled.swap(rings, Relaxed) != rings || slept {
            self.settle(core);
        }
        if self.ring_own_alarm(core, now_ps) {
            self.settle(core);
        }
        self.goes_on(now_ps, woke)
    }

    /// The core's doorbells are to reach it now, and not at a time that the host chooses; counts if that cannot be told.
    pub(crate) fn settle(&self, core: usize) {
        if !self.bells.settle(core) {
            self.region.unsettled.fetch_add(1, Relaxed);
        }
    }

    /// Takes over how often the core's kernel has rung others, so that it is the same at the same time in every run.
    fn count_rings(&self, core: usize) {
        self.clock(core).ipis_sent.store(self.clock(core).rings_sent.load(Relaxed), Relaxed);
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
            self.cores.iter().for_each(|&core| self.wake(core));
        }
        over
    }

    /// As [`Timing::is_stopped`], for a core that has said that it waits: it misses neither this nor that it is woken.
    pub(crate) fn has_stopped(&self) -> bool {
        self.region.stopped.load(SeqCst) != 0
    }

    /// A core that slept is awake: its time is that of what woke it, and whether waking has still to be paid for. Who polls is
    /// awake already, and doorbells' latency goes to the first instruction of who sleeps.
    fn wake_up(&self, core: usize, now_ps: u64) -> (u64, bool) {
        let clock = self.clock(core);
        if clock.halted.load(SeqCst) == 0 {
            return (now_ps, false);
        }
        let known = self.known_wake_ps(core);
        let woken_ps = known.map_or_else(|| self.region.now_ps.load(SeqCst), Wake::at_ps).max(now_ps);
        let polled = self.record(core).state.load(SeqCst) == CORE_POLLING;
        let woke = matches!(known, None | Some(Wake::Alarm(_))) && !polled && woken_ps > now_ps;
        if let Some(Wake::Ring(_)) = known {
            bump(&clock.ipis_received, 1);
        }
        bump(&clock.idle_ps, woken_ps - now_ps);
        // First that it is awake: a core that is halted, and that nothing is noted for, sleeps, and others would let time jump to its alarm.
        clock.clock_ps.store(woken_ps, SeqCst);
        clock.halted.store(0, SeqCst);
        self.record(core).rung_at_ns.store(0, SeqCst);
        self.record(core).written_at_ns.store(0, SeqCst);
        clock.wake_at_ps.store(0, SeqCst);
        clock.arrived.store(0, SeqCst);
        (woken_ps, woke)
    }

    /// When a sleeping core that has been rung wakes, and by what.
    fn known_wake_ps(&self, core: usize) -> Option<Wake> {
        let (clock, record) = (self.clock(core), self.record(core));
        let noted = |word: &AtomicU64| word.load(SeqCst).saturating_mul(PS_PER_NS);
        let ring = Wake::Ring(noted(&record.rung_at_ns));
        let write = Wake::Write(noted(&record.written_at_ns));
        let alarm = Wake::Alarm(clock.wake_at_ps.load(SeqCst));
        [ring, write, alarm].into_iter().filter(|wake| wake.at_ps() != 0).min_by_key(|wake| wake.at_ps())
    }

    /// The time of a core that runs, or is about to; `None` while it sleeps.
    pub(crate) fn active_ps(&self, core: usize) -> Option<u64> {
        let clock = self.clock(core);
        let own_ps = clock.clock_ps.load(SeqCst);
        if clock.halted.load(SeqCst) == 0 {
            return Some(own_ps);
        }
        if let Some(wake) = self.known_wake_ps(core) {
            return Some(own_ps.max(wake.at_ps()));
        }
        let arrived = clock.arrived.load(SeqCst) != 0;
        arrived.then(|| own_ps.max(self.region.now_ps.load(SeqCst)))
    }

    /// Brings the machine's time up to its slowest running core, and rings sleepers whose alarms have passed. What the cores
    /// did. `core` executes what devices do until then.
    fn advance(&self, core: usize) -> View {
        let view = self.view();
        if let Some(slowest_ps) = view.slowest_ps {
            self.run_devices(core, slowest_ps);
            // Seldom written: all cores look at it.
            let mut now_ps = self.region.now_ps.load(SeqCst);
            if now_ps < slowest_ps {
                now_ps = self.region.now_ps.fetch_max(slowest_ps, SeqCst).max(slowest_ps);
            }
            for &core in &self.cores {
                if self.sleeps(core) && self.record(core).alarm_ns.load(SeqCst) <= now_ps / PS_PER_NS {
                    self.ring_alarm(core);
                }
            }
        }
        view
    }

    /// When all cores sleep: lets time jump to the earliest alarm, or to what a device does before that.
    fn skip_idle_time(&self, own: usize) {
        let alarm = |core: usize| self.record(core).alarm_ns.load(SeqCst);
        let (first, alarm_ns) = loop {
            if !self.cores.iter().all(|&core| self.sleeps(core)) {
                return;
            }
            let Some(&first) = self.cores.iter().min_by_key(|&&core| alarm(core)) else { return };
            let alarm_ns = alarm(first);
            let now_ps = self.region.now_ps.load(SeqCst);
            let next = self.next_of_devices(now_ps, alarm_ns.saturating_mul(PS_PER_NS));
            let Some(at_ps) = next else { break (first, alarm_ns) };
            self.region.now_ps.fetch_max(at_ps, SeqCst);
            self.run_devices(own, at_ps);
        };
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
            && matches!(self.record(core).state.load(SeqCst), CORE_IDLE | CORE_POLLING | CORE_OUT)
            && self.record(core).rung_at_ns.load(SeqCst) == 0
            && self.record(core).written_at_ns.load(SeqCst) == 0
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

    pub(crate) fn has_turn(&self, core: usize) -> bool {
        self.region.turn.load(SeqCst) == core as u32 + 1
    }

    /// Whose turn is next: the core that is most behind.
    fn next_turn(&self) -> u32 {
        let active = self.cores.iter().filter_map(|&core| self.active_ps(core).map(|at| (at, core)));
        active.min().map_or(0, |(_, core)| core as u32 + 1)
    }

    /// The core whose turn it is passes it on.
    fn pass_turn(&self) {
        let turn = &self.region.turn;
        let mut next = self.next_turn();
        turn.store(next, SeqCst);
        if next == 0 {
            // Somebody may have come meanwhile, and have seen a turn that was not over.
            next = self.next_turn();
            if next == 0 || turn.compare_exchange(0, next, SeqCst, SeqCst).is_err() {
                return;
            }
        }
        self.wake(next as usize - 1);
    }

    pub(crate) fn cores(&self) -> &[usize] {
        &self.cores
    }

    pub(crate) fn region(&self) -> &'static ClockRegion {
        self.region
    }

    pub(crate) fn header(&self) -> &'static PoolHeader {
        self.header
    }

    pub(crate) fn bells(&self) -> &B {
        &self.bells
    }

    pub(crate) fn clock(&self, core: usize) -> &'static CoreClock {
        &self.region.cores[core]
    }

    fn record(&self, core: usize) -> &'static CoreRecord {
        &self.header.cores[core]
    }
}

/// What wakes a sleeping core, and when, in picoseconds.
#[derive(Clone, Copy)]
enum Wake {
    Alarm(u64),
    Ring(u64),
    Write(u64),
}

impl Wake {
    fn at_ps(self) -> u64 {
        match self {
            Self::Alarm(at_ps) | Self::Ring(at_ps) | Self::Write(at_ps) => at_ps,
        }
    }
}

/// Stores a time, unless an earlier one is there; 0 is none.
fn note_first(word: &AtomicU64, at_ns: u64) {
    // An error says that an earlier one is.
    let _ = word.fetch_update(SeqCst, Relaxed, |noted| (noted == 0 || at_ns < noted).then_some(at_ns));
}

/// Adds to a word that only this thread writes.
fn bump(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed) + by, Relaxed);
}
