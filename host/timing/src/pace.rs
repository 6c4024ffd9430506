//! Keeping cores together: the threads of cores that are ahead wait here.
//!
//! A quantum of a program that misses much is a few microseconds on the host, and so is waking a thread; on a virtual
//! host, waking one on a host core that has gone idle is tens of them. So a thread that waits stays runnable: it gives its host core to
//! whoever wants it, and looks again. With more cores than the host has, that alone would let one host core be idle while two
//! threads take turns on another. Whoever waits therefore *pulls* the thread that it waits for to its own host core, when
//! that one queues behind a third.
//!
//! Where others use the host as well, giving way to them costs a time slice of theirs; and some waits are long. Then the
//! thread sleeps ("parked"). It stores that it does and looks at the clocks once more; a core whose clock has moved
//! stores that and then looks who is parked. So one of the two sees the other.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use motet_layout::sync::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use crate::{
    host,
    region::{PACE_PARKED, PACE_RUNS, PACE_WAITS},
    timing::{Bells, Timing},
};

/// Longest sleep of a waiting core before it looks again: whether it has waited for too long.
const LOOK: Duration = Duration::from_millis(10);
/// A core that waits this long without seeing time move escapes.
const PATIENCE: Duration = Duration::from_millis(200);
/// The same when an escape spoils what the run is for.
const PATIENCE_DETERMINISTIC: Duration = Duration::from_secs(2);
/// How long a waiting thread stays runnable.
const GIVES_WAY: Duration = Duration::from_millis(1);
/// How long the core that it waits for must have stood still before a thread pulls that one's: about what moving costs.
const PULLS_AFTER: Duration = Duration::from_micros(5);
/// When giving way once took this long, somebody else uses the host's core.
const CROWDED: Duration = Duration::from_millis(1);
/// For how long that is taken to last.
const CROWDED_FOR: Duration = Duration::from_millis(100);

std::thread_local! {
    /// Until when this thread sleeps rather than gives way.
    static CROWDED_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// What the running cores do, seen once.
#[derive(Clone, Copy)]
pub(crate) struct View {
    /// The slowest core that runs or is about to: its time, and the core.
    pub slowest: Option<(u64, usize)>,
    /// Whether a core is parked.
    parked: bool,
}

/// Whether a core may go on.
enum Look {
    Go,
    Wait {
        /// Something that changes while the machine's time moves.
        progress: u64,
        /// The core that it waits for.
        behind: Option<usize>,
    },
}

impl<B: Bells> Timing<B> {
    /// Waits until a core whose time is `now_ps` may go on; `view` was seen after that was published. `true`: it has
    /// waited for long and escapes.
    pub(crate) fn keep_together(&self, core: usize, now_ps: u64, view: View) -> bool {
        if self.may_run(now_ps, view) {
            self.goes_on(core);
            return false;
        }
        self.wait(core, PATIENCE, || {
            let view = self.view();
            let (progress, behind) = view.slowest.unzip();
            if self.may_run(now_ps, view) { Look::Go } else { Look::Wait { progress: progress.unwrap_or(0), behind } }
        })
    }

    /// Waits for a core's turn. `true`: it has waited for long and escapes.
    pub(crate) fn wait_for_turn(&self, core: usize) -> bool {
        let turn = &self.region().turn;
        self.wait(core, PATIENCE_DETERMINISTIC, || {
            if self.has_turn(core) || turn.compare_exchange(0, core as u32 + 1, SeqCst, SeqCst).is_ok() {
                return Look::Go;
            }
            let owner = turn.load(Relaxed);
            let progress = self.region().now_ps.load(Relaxed) + u64::from(owner);
            Look::Wait { progress, behind: owner.checked_sub(1).map(|core| core as usize) }
        })
    }

    /// What the running cores do.
    pub(crate) fn view(&self) -> View {
        let mut view = View { slowest: None, parked: false };
        for &core in self.cores() {
            if let Some(at_ps) = self.active_ps(core) {
                view.parked |= self.clock(core).pace.load(SeqCst) == PACE_PARKED;
                if view.slowest.is_none_or(|(slowest_ps, _)| at_ps < slowest_ps) {
                    view.slowest = Some((at_ps, core));
                }
            }
        }
        view
    }

    /// Wakes the parked cores that may go on: somebody has moved on or fallen asleep.
    pub(crate) fn wake_parked(&self, view: View) {
        if !view.parked {
            return;
        }
        for &core in self.cores() {
            if self.active_ps(core).is_some_and(|at_ps| self.may_run(at_ps, view)) {
                self.wake(core);
            }
        }
    }

    /// Makes a waiting core look again.
    pub(crate) fn wake(&self, core: usize) {
        let pace = &self.clock(core).pace;
        if pace.compare_exchange(PACE_PARKED, PACE_WAITS, SeqCst, SeqCst).is_ok() {
            self.bells().wake(pace);
        }
    }

    /// Whether a core may run for a step: it will not be more than a quantum ahead.
    fn may_run(&self, at_ps: u64, view: View) -> bool {
        view.slowest
            .is_none_or(|(slowest_ps, _)| at_ps + self.settings().step_ps() <= slowest_ps + self.settings().quantum_ps)
    }

    /// Waits until `look` says that a core may go on. `true`: it has waited for long and escapes.
    fn wait(&self, core: usize, patience: Duration, look: impl Fn() -> Look) -> bool {
        let pace = &self.clock(core).pace;
        let mut patience = Patience::new(patience);
        pace.store(PACE_WAITS, SeqCst);
        while let Look::Wait { progress, behind } = look() {
            if self.has_stopped() {
                break;
            }
            let waited = patience.waited(progress);
            if waited > patience.limit {
                self.goes_on(core);
                self.region().escapes.fetch_add(1, Relaxed);
                return true;
            }
            if waited > GIVES_WAY || is_crowded() {
                self.park(pace, &look);
            } else {
                self.give_way(core, behind.filter(|_| waited > PULLS_AFTER));
            }
        }
        self.goes_on(core);
        false
    }

    /// Notes that a core runs, and on which of the host's.
    pub(crate) fn goes_on(&self, core: usize) {
        let clock = self.clock(core);
        if clock.pace.load(Relaxed) != PACE_RUNS {
            clock.pace.store(PACE_RUNS, Relaxed);
        }
        let host_core = host::core();
        if clock.host_core.load(Relaxed) != host_core {
            clock.host_core.store(host_core, Relaxed);
        }
    }

    /// Lets others have the host's core, the one that is `behind` first.
    fn give_way(&self, core: usize, behind: Option<usize>) {
        let here = host::core();
        self.clock(core).host_core.store(here, Relaxed);
        if let Some(behind) = behind.filter(|&behind| self.queues_elsewhere(core, behind, here)) {
            let clock = self.clock(behind);
            if host::pull(clock.host_thread.load(Relaxed), here) {
                clock.host_core.store(here, Relaxed);
            }
        }
        let began = Instant::now();
        host::give_way();
        let now = Instant::now();
        if now - began > CROWDED {
            CROWDED_UNTIL.set(Some(now + CROWDED_FOR));
        }
    }

    /// Whether the thread of a core that is `behind` could run here at once, and not where it is: another one runs there.
    fn queues_elsewhere(&self, core: usize, behind: usize, here: u32) -> bool {
        let runs = |core: usize| self.clock(core).pace.load(Relaxed) == PACE_RUNS;
        let place = |core: usize| self.clock(core).host_core.load(Relaxed);
        let there = place(behind);
        // One that has given way there may still say that it waits.
        if there == here || !matches!(self.clock(behind).pace.load(Relaxed), PACE_RUNS | PACE_WAITS) {
            return false;
        }
        let taken = |by: u32| {
            let mut others = self.cores().iter().filter(|&&other| other != core && other != behind);
            others.any(|&other| runs(other) && place(other) == by)
        };
        taken(there) && !taken(here)
    }

    /// Sleeps until somebody wakes this core, for a while.
    fn park(&self, pace: &AtomicU32, look: impl Fn() -> Look) {
        pace.store(PACE_PARKED, SeqCst);
        if matches!(look(), Look::Wait { .. }) && !self.has_stopped() {
            self.bells().wait(pace, PACE_PARKED, LOOK);
        }
        pace.store(PACE_WAITS, SeqCst);
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
