//! What cores do to others: doorbells, stores that are waited for, transfers.

use std::{
    mem::offset_of,
    time::{Duration, Instant},
};

use motet_layout::{
    CORE_IDLE, CORES_PER_ISLAND_MAX, CoreId, CoreRecord, PoolHeader,
    sync::Ordering::{Relaxed, SeqCst},
};
use motet_protocol::dma;

use crate::{
    Bells, PS_PER_NS, Timing,
    rules::{bump, note_first},
};

/// How long a core that rings waits for one that wakes, of the host's time; and how long it sleeps at a time meanwhile.
const WAKING: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_micros(50);

impl<B: Bells> Timing<B> {
    /// A core is about to ring another one: notes when the doorbell arrives. Of several, the first one wakes.
    pub fn note_ring(&self, core: usize, now_ps: u64) {
        if let Some((target, _)) = self.target_of(core) {
            self.note_ring_of(core, target, now_ps);
        }
    }

    /// As [`Timing::note_ring`], of a core that the caller names.
    pub fn note_ring_of(&self, core: usize, target: usize, now_ps: u64) {
        self.let_wake(target);
        self.count_ring_of(core, target, now_ps);
    }

    fn count_ring_of(&self, core: usize, target: usize, now_ps: u64) {
        let from = CoreId(core as u8).island().index();
        if self.note_arrival(from, target, now_ps) {
            bump(&self.clock(core).rings_sent, 1);
        }
    }

    /// A device that is no core interrupts one: as if from its own island. Never waits.
    pub(crate) fn interrupt(&self, target: CoreId, now_ps: u64) {
        self.ring_at_once(target.index(), || _ = self.note_arrival(target.island().index(), target.index(), now_ps));
    }

    /// A device rings a core for another one. Never waits.
    pub(crate) fn ring_for(&self, core: usize, target: CoreId, now_ps: u64) {
        self.ring_at_once(target.index(), || self.count_ring_of(core, target.index(), now_ps));
    }

    /// Notes a ring and rings. In turns, who wakes already is not rung: it sees what it is rung for when its turn begins, and takes one interrupt,
    /// whenever the host lets it take that (see [`let_wake`](Self::let_wake)).
    fn ring_at_once(&self, target: usize, note: impl FnOnce()) {
        let wakes = self.settings.deterministic && self.wakes(target);
        note();
        if !wakes {
            self.bells.ring(target);
        }
    }

    /// A core that slept was rung, and its turn has not begun.
    fn wakes(&self, core: usize) -> bool {
        let Some(record) = self.records.cores().get(core) else { return false };
        let clock = self.clock(core);
        let rung = [&record.rung_at_ns, &record.written_at_ns, &clock.wake_at_ps];
        clock.halted.load(SeqCst) != 0 && rung.into_iter().any(|word| word.load(SeqCst) != 0)
    }

    /// In turns: a core that is rung is to have taken the interrupt that woke it, if one did. x86 cores take it as they wake: a doorbell before that
    /// were the same interrupt, and one after it a second one. So it is always a second one.
    fn let_wake(&self, target: usize) {
        if !self.settings.deterministic || !self.wakes(target) {
            return;
        }
        let arrived = &self.clock(target).arrived;
        let until = Instant::now() + WAKING;
        while arrived.load(SeqCst) == 0 {
            if self.is_stopped() || self.records.first().exit.load(SeqCst) != 0 {
                return;
            }
            if Instant::now() >= until {
                self.region.unsettled.fetch_add(1, Relaxed);
                return;
            }
            self.bells.wait(arrived, 0, LOOK);
        }
    }

    fn note_arrival(&self, from: usize, target: usize, now_ps: u64) -> bool {
        let (to, Some(target)) = (target / CORES_PER_ISLAND_MAX, self.records.cores().get(target)) else {
            return false;
        };
        self.note_exchange(now_ps);
        let latency_ns = self.records.doorbell_ns(from, to);
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

    /// A core has found that another one had used the same line out of turn. In turns, only who has its turn is heard: when another one comes here,
    /// having woken or escaped, the host chooses, and turns would be as long as it likes.
    pub fn note_doubt(&self, core: usize, now_ps: u64) {
        let doubted = &self.region.doubted_ps;
        let is_heard = !self.settings.deterministic || self.clock(core).running.load(Relaxed) != 0;
        if self.settings.shrinks() && is_heard && doubted.load(Relaxed) + self.settings.quantum_least_ps / 8 < now_ps {
            doubted.fetch_max(now_ps, SeqCst);
        }
    }

    /// A core has taken back a line that another one had taken, soon, though not out of turn: with a short quantum they would not be. So
    /// it stays short.
    pub fn note_return(&self, core: usize, now_ps: u64) {
        let doubted_ps = self.region.doubted_ps.load(Relaxed);
        if doubted_ps != 0 && now_ps < doubted_ps + self.settings.quantum_ps {
            self.note_doubt(core, now_ps);
        }
    }

    /// A core has written what another one would look at in a loop, and in fact sleeps for: that one sees it when the store has
    /// arrived there.
    pub fn note_write(&self, core: usize, now_ps: u64) {
        let Some((receiver, target)) = self.target_of(core) else { return };
        let island = receiver / CORES_PER_ISLAND_MAX;
        self.let_wake(receiver);
        self.note_exchange(now_ps);
        let transit_ns = self.records.transit_ns(core / CORES_PER_ISLAND_MAX, island);
        note_first(&target.written_at_ns, now_ps / PS_PER_NS + u64::from(transit_ns));
        target.rings_received.fetch_add(1, SeqCst);
        self.bells.ring(receiver);
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
        let Some((receiver, target)) = self.target_of(core) else { return };
        let island = receiver / CORES_PER_ISLAND_MAX;
        self.let_wake(receiver);
        self.note_exchange(now_ps);
        let (id, own) = (self.records.number(core), self.record(core));
        let (bytes, pieces) = (dma::bytes(id, own), dma::pieces(id, own));
        let arrives_ns = (now_ps + transfer_ps(bytes as u64)).div_ceil(PS_PER_NS);
        if !dma::transfer(id, own, target, arrives_ns) {
            return;
        }
        let record_at =
            |core: usize| offset_of!(PoolHeader, cores) + self.records.number(core).index() * size_of::<CoreRecord>();
        for (from, to, bytes) in pieces.into_iter().filter(|piece| piece.2 != 0) {
            moved((record_at(core) + from) as u64, (record_at(receiver) + to) as u64, bytes as u64);
        }
        let polls = self.records.island(island).0.poll_ns.get() != 0 && target.state.load(SeqCst) != CORE_IDLE;
        if polls {
            note_first(&target.written_at_ns, arrives_ns);
        } else {
            let latency_ns = self.records.doorbell_ns(core / CORES_PER_ISLAND_MAX, island);
            note_first(&target.rung_at_ns, arrives_ns + u64::from(latency_ns));
        }
        target.rings_received.fetch_add(1, SeqCst);
        bump(&self.clock(core).transfers, 1);
        self.bells.ring(receiver);
    }

    /// The frame of the pool that a core's kernel has leave the caches.
    pub fn flush_addr(&self, core: usize) -> u64 {
        self.record(core).flush_addr.get()
    }

    /// The core that a core's record names; `None`: the word is damaged.
    fn target_of(&self, core: usize) -> Option<(usize, &'static CoreRecord)> {
        let target = self.records.named(core, self.record(core).ring_target.get())?;
        Some((target, self.record(target)))
    }
}
