//! Boundaries, where running cores come together: in quanta, or in turns.

use motet_layout::sync::Ordering::{Relaxed, Release, SeqCst};

use crate::{Bells, Next, PS_PER_NS, Timing};

impl<B: Bells> Timing<B> {
    /// A running core has come to the end of its quantum, or runs its first instruction after sleep. Waits until it may
    /// go on.
    pub fn boundary(&self, core: usize, now_ps: u64) -> Next {
        if self.is_stopped() {
            return self.goes_on(core, now_ps, false);
        }
        if self.settings.deterministic { self.turn_boundary(core, now_ps) } else { self.quantum_boundary(core, now_ps) }
    }

    /// A boundary of a running core at which nothing is to be done but to say how far it is. False: it is to come to
    /// [`Timing::boundary`].
    pub fn passes(&self, core: usize, now_ps: u64) -> bool {
        let clock = self.clock(core);
        let is_usual = clock.halted.load(Relaxed) == 0
            && self.records.first().exit.load(Relaxed) == 0
            && self.record(core).alarm_ns.load(Relaxed) > now_ps / PS_PER_NS;
        // In turns, no core is free.
        if !is_usual || self.is_stopped() || !self.is_free(core, now_ps) {
            return false;
        }
        // As in `quantum_boundary`.
        clock.clock_ps.store(now_ps, Release);
        true
    }

    fn quantum_boundary(&self, core: usize, now_ps: u64) -> Next {
        let (now_ps, woke) = self.wake_up(core, now_ps);
        self.count_rings(core);
        let alone = self.cores.len() == 1;
        // Not in order with looking who is parked: when it looks next, which is within a quantum, or before it waits, this core
        // looks again.
        self.clock(core).clock_ps.store(now_ps, Release);
        if self.stop_at_end(core) {
            return self.goes_on(core, now_ps, false);
        }
        self.ring_own_alarm(core, now_ps);
        if alone {
            // The machine's time is this core's, and there is nobody to wait for, or to wake.
            self.region.now_ps.store(now_ps.max(self.region.now_ps.load(Relaxed)), Relaxed);
            self.run_devices(core, now_ps);
            return self.goes_on(core, now_ps, woke);
        }
        if self.is_free(core, now_ps) {
            return self.goes_on(core, now_ps, woke);
        }
        let view = self.advance(core);
        self.wake_parked(view);
        if view.running == 1 {
            self.keep_together(core, now_ps, view);
            return Next { step_ps: self.step_alone_ps(core, now_ps), ..self.goes_on(core, now_ps, woke) };
        }
        Next { escaped: self.keep_together(core, now_ps, view), ..self.goes_on(core, now_ps, woke) }
    }

    fn turn_boundary(&self, core: usize, now_ps: u64) -> Next {
        let clock = self.clock(core);
        // It may have been given the turn before it came here: then its turn has not begun yet.
        if clock.running.swap(0, SeqCst) != 0 {
            self.count_rings(core);
            clock.clock_ps.store(now_ps, SeqCst);
            if self.stop_at_end(core) {
                return self.goes_on(core, now_ps, false);
            }
            self.advance(core);
            self.pass_turn();
        } else if clock.halted.load(SeqCst) != 0 {
            clock.arrived.store(1, SeqCst);
        }
        if self.wait_for_turn(core) {
            return Next { escaped: true, ..self.goes_on(core, now_ps, false) };
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
        self.begin_turn(core, now_ps);
        self.goes_on(core, now_ps, woke)
    }

    /// The core's doorbells are to reach it now, and not at a time that the host chooses; counts if that cannot be told.
    pub(crate) fn settle(&self, core: usize) {
        if !self.bells.settle(core) {
            self.region.unsettled.fetch_add(1, Relaxed);
        }
    }

    /// Takes over how often the core's kernel has rung others, so that it is the same at the same time in every run.
    pub(crate) fn count_rings(&self, core: usize) {
        self.clock(core).ipis_sent.store(self.clock(core).rings_sent.load(Relaxed), Relaxed);
    }

    /// Whether nothing counts any more.
    pub fn is_stopped(&self) -> bool {
        self.region.stopped.load(Relaxed) != 0
    }

    /// Stops time when the machine's command has ended; whether it has. Deterministic runs stop where the core whose turn
    /// it is comes to its boundary, not where the host happens to look.
    pub(crate) fn stop_at_end(&self, core: usize) -> bool {
        let over = self.records.first().exit.load(SeqCst) != 0 && (!self.settings.deterministic || self.has_turn(core));
        if over {
            if !self.is_stopped() {
                self.records.end(&self.region.messages);
            }
            self.region.stopped.store(1, SeqCst);
            self.cores.iter().for_each(|&core| self.wake(core));
        }
        over
    }

    /// As [`Timing::is_stopped`], for a core that has said that it waits: it misses neither this nor that it is woken.
    pub(crate) fn has_stopped(&self) -> bool {
        self.region.stopped.load(SeqCst) != 0
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
    pub(crate) fn pass_turn(&self) {
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
}
