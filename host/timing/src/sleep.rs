//! Falling asleep, waking up, and how time goes on while cores sleep.

use motet_layout::{
    CORE_IDLE, CORE_OUT, CORE_POLLING,
    sync::{
        AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use crate::{Bells, PS_PER_NS, TIME_END_PS, Timing, pace::View, region::PACE_NONE, rules::bump};

impl<B: Bells> Timing<B> {
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

    /// A core that slept is awake: its time is that of what woke it, and whether waking has still to be paid for. Who polls is
    /// awake already, and doorbells' latency goes to the first instruction of who sleeps.
    pub(crate) fn wake_up(&self, core: usize, now_ps: u64) -> (u64, bool) {
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
    pub(crate) fn advance(&self, core: usize) -> View {
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
            let next = self.next_of_devices(now_ps, alarm_ns.saturating_mul(PS_PER_NS).min(TIME_END_PS));
            let Some(at_ps) = next else { break (first, alarm_ns) };
            self.region.now_ps.fetch_max(at_ps, SeqCst);
            self.run_devices(own, at_ps);
        };
        if alarm_ns != u64::MAX {
            let alarm_ps = alarm_ns.saturating_mul(PS_PER_NS).min(TIME_END_PS);
            self.region.now_ps.fetch_max(alarm_ps, SeqCst);
            // At the end, all sleep on until the run is ended.
            if alarm_ps < TIME_END_PS {
                self.ring_alarm(first);
            }
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
    pub(crate) fn ring_own_alarm(&self, core: usize, now_ps: u64) -> bool {
        let alarm = &self.record(core).alarm_ns;
        let due = alarm.load(Relaxed) <= now_ps / PS_PER_NS;
        if due {
            alarm.store(u64::MAX, Relaxed);
            self.bells.ring(core);
        }
        due
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
