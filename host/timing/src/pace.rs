//! Keeping cores together: the threads of cores that are ahead wait here.
//!
//! A quantum of a program that misses much takes a few microseconds on the host. Waking a thread takes as long, and tens of
//! microseconds when its host core has gone idle on a virtual host. So the thread of a core that waits stays runnable: it yields its host
//! core, and looks again.
//!
//! The quantum may grow while no island has anything from another one (Falcon, Faraboschi, Ortega: An Adaptive Synchronization
//! Technique for Parallel Simulation of Networked Clusters, ISPASS 2008): then it is a part of the time for which that has been so.
//!
//! It shrinks while cores use the same lines out of turn, which only the model of caches notices, and grows back in the same way.
//!
//! Where others use the host as well, giving way to them costs a time slice of theirs; and some waits are long. Then the
//! thread sleeps ("parked"). It stores that it does and looks at the clocks once more; a core whose clock has moved
//! stores that and then looks who is parked. So one of the two sees the other: at once if the core falls asleep or waits, which
//! it does in one order with the stores of all others, and otherwise at its next boundary.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use motet_layout::{
    handshake::then_look,
    sync::{
        AtomicU32,
        Ordering::{Relaxed, SeqCst},
    },
};

use crate::{
    region::{PACE_PARKED, PACE_RUNS, PACE_WAITS},
    rules::{Bells, Timing},
};

/// Longest sleep of a waiting core before it looks again: whether it has waited for too long.
const LOOK: Duration = Duration::from_millis(10);
/// A core that waits this long without seeing time move escapes.
const PATIENCE: Duration = Duration::from_millis(200);
/// The same when an escape spoils what the run is for.
const PATIENCE_DETERMINISTIC: Duration = Duration::from_secs(2);
/// How long a waiting thread stays runnable.
const GIVES_WAY: Duration = Duration::from_micros(200);
/// When giving way once took this long, somebody else uses the host's core.
const CROWDED: Duration = Duration::from_millis(1);
/// For how long that is taken to last.
const CROWDED_FOR: Duration = Duration::from_millis(20);
/// A quantum that grows is the time without exchange divided by this.
const QUIET_PART: u64 = 4;

std::thread_local! {
    /// Until when this thread sleeps rather than gives way.
    static CROWDED_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// What the running cores do, seen once.
#[derive(Clone, Copy)]
pub(crate) struct View {
    /// Time of the slowest core that runs or is about to.
    pub slowest_ps: Option<u64>,
    /// How many run, or are about to.
    pub running: usize,
    /// How far a core may run: a quantum after that.
    limit_ps: u64,
    /// The last exchange among islands, as [`ClockRegion::exchanged_ps`](crate::ClockRegion).
    exchanged_ps: u64,
    /// The last use of a line out of turn, as [`ClockRegion::doubted_ps`](crate::ClockRegion).
    doubted_ps: u64,
    /// How far cores run until they look again.
    step_ps: u64,
    /// Whether a core is parked.
    parked: bool,
}

/// Whether a core may go on.
enum Look {
    Go,
    /// Not yet; something that changes while the machine's time moves.
    Wait(u64),
}

impl<B: Bells> Timing<B> {
    /// Waits until a core whose time is `now_ps` may go on; `view` was seen after that was published. `true`: it has
    /// waited for long and escapes.
    pub(crate) fn keep_together(&self, core: usize, now_ps: u64, view: View) -> bool {
        if self.may_run(now_ps, view) {
            self.runs(core);
            self.free_until(core, view);
            return false;
        }
        let mut has_looked = false;
        self.wait(core, PATIENCE, || {
            let view = self.view();
            if !has_looked {
                // Those who parked while this core's clock was on its way to them.
                then_look();
                self.wake_parked(self.view());
                has_looked = true;
            }
            if !self.may_run(now_ps, view) {
                return Look::Wait(view.slowest_ps.unwrap_or(0));
            }
            self.free_until(core, view);
            Look::Go
        })
    }

    /// Notes how far a core may run without looking at the others again.
    fn free_until(&self, core: usize, view: View) {
        let clock = self.clock(core);
        clock.free_until_ps.store(view.limit_ps, Relaxed);
        clock.exchanged_ps.store(view.exchanged_ps, Relaxed);
        clock.doubted_ps.store(view.doubted_ps, Relaxed);
        clock.step_ps.store(view.step_ps, Relaxed);
    }

    /// Whether a core may run for a step without looking at the others: nobody falls behind the slowest that it has seen, and
    /// the quantum only grows as long as nothing is exchanged.
    pub(crate) fn is_free(&self, core: usize, now_ps: u64) -> bool {
        let clock = self.clock(core);
        now_ps + self.step_of_ps(core) <= clock.free_until_ps.load(Relaxed)
            && self.exchanged_ps() == clock.exchanged_ps.load(Relaxed)
            && self.doubted_ps() == clock.doubted_ps.load(Relaxed)
    }

    /// The last exchange among islands; 0 if nobody needs to know.
    fn exchanged_ps(&self) -> u64 {
        if self.settings().grows() { self.region.exchanged_ps.load(Relaxed) } else { 0 }
    }

    /// The last use of a line out of turn; 0 if nobody needs to know.
    fn doubted_ps(&self) -> u64 {
        if self.settings().shrinks() { self.region.doubted_ps.load(Relaxed) } else { 0 }
    }

    /// How far ahead of the slowest core others may be, now.
    fn quantum_ps(&self, slowest_ps: u64, exchanged_ps: u64, doubted_ps: u64) -> u64 {
        let settings = self.settings();
        let quiet_ps = slowest_ps.saturating_sub(exchanged_ps);
        let quantum_ps = (quiet_ps / QUIET_PART).clamp(settings.quantum_ps, settings.quantum_max_ps);
        if !settings.shrinks() {
            return quantum_ps;
        }
        let calm_ps = slowest_ps.saturating_sub(doubted_ps);
        quantum_ps.min((calm_ps / QUIET_PART).max(settings.quantum_least_ps))
    }

    /// In turns: how long the turn of a core, which is the slowest, is.
    pub(crate) fn begin_turn(&self, core: usize, now_ps: u64) {
        let quantum_ps = self.quantum_ps(now_ps, 0, self.doubted_ps()).min(self.settings().quantum_ps);
        self.clock(core).step_ps.store(self.settings().step_of_ps(quantum_ps), Relaxed);
    }

    /// Waits for a core's turn. `true`: it has waited for long and escapes.
    pub(crate) fn wait_for_turn(&self, core: usize) -> bool {
        let turn = &self.region.turn;
        self.wait(core, PATIENCE_DETERMINISTIC, || {
            if self.has_turn(core) || turn.compare_exchange(0, core as u32 + 1, SeqCst, SeqCst).is_ok() {
                return Look::Go;
            }
            Look::Wait(self.region.now_ps.load(Relaxed) + u64::from(turn.load(Relaxed)))
        })
    }

    /// What the running cores do.
    pub(crate) fn view(&self) -> View {
        let (exchanged_ps, doubted_ps) = (self.exchanged_ps(), self.doubted_ps());
        let (limit_ps, step_ps) = (u64::MAX, self.settings().step_ps());
        let mut view =
            View { slowest_ps: None, running: 0, limit_ps, exchanged_ps, doubted_ps, step_ps, parked: false };
        for &core in &self.cores {
            if let Some(at_ps) = self.active_ps(core) {
                view.running += 1;
                view.parked |= self.clock(core).pace.load(SeqCst) == PACE_PARKED;
                if view.slowest_ps.is_none_or(|slowest_ps| at_ps < slowest_ps) {
                    view.slowest_ps = Some(at_ps);
                }
            }
        }
        if let Some(slowest_ps) = view.slowest_ps {
            let quantum_ps = self.quantum_ps(slowest_ps, exchanged_ps, doubted_ps);
            (view.limit_ps, view.step_ps) = (slowest_ps + quantum_ps, self.settings().step_of_ps(quantum_ps));
        }
        view
    }

    /// Wakes the parked cores that may go on: somebody has moved on or fallen asleep.
    pub(crate) fn wake_parked(&self, view: View) {
        if !view.parked {
            return;
        }
        for &core in &self.cores {
            if self.active_ps(core).is_some_and(|at_ps| self.may_run(at_ps, view)) {
                self.wake(core);
            }
        }
    }

    /// Makes a waiting core look again.
    pub(crate) fn wake(&self, core: usize) {
        let pace = &self.clock(core).pace;
        if pace.compare_exchange(PACE_PARKED, PACE_WAITS, SeqCst, SeqCst).is_ok() {
            self.bells.wake(pace);
        }
    }

    /// Whether a core may run for a step: it will not be more than a quantum ahead.
    fn may_run(&self, at_ps: u64, view: View) -> bool {
        at_ps + view.step_ps <= view.limit_ps
    }

    /// Waits until `look` says that a core may go on. `true`: it has waited for long and escapes.
    fn wait(&self, core: usize, patience: Duration, mut look: impl FnMut() -> Look) -> bool {
        let pace = &self.clock(core).pace;
        let mut patience = Patience::new(patience);
        pace.store(PACE_WAITS, SeqCst);
        while let Look::Wait(progress) = look() {
            if self.has_stopped() {
                break;
            }
            let waited = patience.waited(progress);
            if waited > patience.limit {
                self.runs(core);
                self.region.escapes.fetch_add(1, Relaxed);
                return true;
            }
            if waited > GIVES_WAY || is_crowded() {
                self.park(pace, &mut look);
            } else {
                give_way();
            }
        }
        self.runs(core);
        false
    }

    /// Notes that a core runs.
    fn runs(&self, core: usize) {
        let pace = &self.clock(core).pace;
        if pace.load(Relaxed) != PACE_RUNS {
            pace.store(PACE_RUNS, Relaxed);
        }
    }

    /// Sleeps until somebody wakes this core, for a while.
    fn park(&self, pace: &AtomicU32, look: impl FnOnce() -> Look) {
        pace.store(PACE_PARKED, SeqCst);
        if matches!(look(), Look::Wait(_)) && !self.has_stopped() {
            self.bells.wait(pace, PACE_PARKED, LOOK);
        }
        pace.store(PACE_WAITS, SeqCst);
    }
}

/// Lets others have this thread's host core for a while.
fn give_way() {
    let began = Instant::now();
    std::thread::yield_now();
    let now = Instant::now();
    if now - began > CROWDED {
        CROWDED_UNTIL.set(Some(now + CROWDED_FOR));
    }
}

/// Whether others want this thread's host core, too.
fn is_crowded() -> bool {
    CROWDED_UNTIL.get().is_some_and(|until| Instant::now() < until)
}

/// How long a core has waited without seeing progress.
struct Patience {
    limit: Duration,
    seen: Option<(u64, Instant)>,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, seen: None }
    }

    /// For how long `progress` has been the same.
    fn waited(&mut self, progress: u64) -> Duration {
        match self.seen {
            Some((before, since)) if before == progress => since.elapsed(),
            _ => {
                self.seen = Some((progress, Instant::now()));
                Duration::ZERO
            }
        }
    }
}
