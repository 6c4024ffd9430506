//! Who goes on: threads of cores wait here until they may run.
//!
//! A core's thread has a *seat* while it runs. It gives it up when it is a quantum ahead, and when the host has fewer
//! cores than want to run, to one that is behind: so the host's cores stay busy, and no core starves until all others
//! have to wait for it. The word [`CoreClock::seat`] is all there is to it: a core that is to wait stores "waits" and
//! then looks at the clocks; one whose clock has moved, or that leaves its seat, stores that and then looks at the
//! words. So one of the two sees the other, and whoever finds that a core may go on moves its word to "runs" and wakes
//! that core alone. The word also counts the core's waits: a core is seated for the wait that its clock was read in, and
//! not for a later one, which would take it too far.

use std::time::{Duration, Instant};

use motet_layout::sync::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use crate::{
    region::{SEAT_PARKED, SEAT_RUNS, SEAT_STATE, SEAT_WAITS},
    timing::{Bells, Timing},
};

/// Longest sleep of a waiting core before it looks again: whether it has waited for too long.
const LOOK: Duration = Duration::from_millis(10);
/// A core that waits this long without seeing time move escapes.
const PATIENCE: Duration = Duration::from_millis(200);
/// The same when an escape spoils what the run is for.
const PATIENCE_DETERMINISTIC: Duration = Duration::from_secs(2);
/// Looks before a waiting core sleeps, when the host has cores enough. About what a sleep and a wake-up cost.
const SPINS: u32 = 500;

/// What the cores do, seen once.
#[derive(Default)]
struct View {
    /// The slowest core that runs or is about to.
    slowest_ps: u64,
    /// How many cores have a seat.
    seated: u32,
    /// The one of them that is most ahead.
    foremost: Option<(u64, usize)>,
    /// The core to be seated next, of those that may run: its time, and the word of its seat.
    next: Option<(u64, usize, u32)>,
}

/// The word of a seat with another state.
const fn in_state(word: u32, state: u32) -> u32 {
    word & !SEAT_STATE | state
}

/// Whether a core with this word waits for its seat.
const fn is_waiting(word: u32) -> bool {
    matches!(word & SEAT_STATE, SEAT_WAITS | SEAT_PARKED)
}

/// Begins another wait; the word that says so.
fn begin_wait(seat: &AtomicU32) -> u32 {
    let word = in_state(seat.load(Relaxed).wrapping_add(SEAT_STATE + 1), SEAT_WAITS);
    seat.store(word, SeqCst);
    word
}

impl<B: Bells> Timing<B> {
    /// Waits until a core whose time is `now_ps` may go on. `true`: it has waited for long and escapes.
    pub(crate) fn keep_together(&self, core: usize, now_ps: u64) -> bool {
        let seat = &self.clock(core).seat;
        let view = self.view();
        if seat.load(Relaxed) & SEAT_STATE == SEAT_RUNS && !self.must_leave(core, now_ps, &view) {
            if view.next.is_some() {
                self.fill_seats();
            }
            return false;
        }
        let waits = begin_wait(seat);
        let mut patience = Patience::new(PATIENCE);
        loop {
            let view = self.fill_seats();
            if seat.load(SeqCst) & SEAT_STATE == SEAT_RUNS {
                return false;
            }
            if self.has_stopped() || patience.exhausted(view.slowest_ps) {
                return self.escape(core);
            }
            // With a seat left over nobody else could use the host's core.
            self.rest(seat, waits, view.seated < self.settings().host_cores);
        }
    }

    /// Waits for a core's turn. `true`: it has waited for long and escapes.
    pub(crate) fn wait_for_turn(&self, core: usize) -> bool {
        let seat = &self.clock(core).seat;
        let turn = &self.region().turn;
        let mut patience = Patience::new(PATIENCE_DETERMINISTIC);
        loop {
            let waits = begin_wait(seat);
            if self.has_turn(core) || turn.compare_exchange(0, core as u32 + 1, SeqCst, SeqCst).is_ok() {
                seat.store(in_state(waits, SEAT_RUNS), SeqCst);
                return false;
            }
            let progress = self.region().now_ps.load(Relaxed) + u64::from(turn.load(Relaxed));
            if self.has_stopped() || patience.exhausted(progress) {
                return self.escape(core);
            }
            self.rest(seat, waits, self.settings().host_cores > 1);
        }
    }

    /// Lets those go on that may: somebody has moved on or left.
    pub(crate) fn release(&self) {
        self.fill_seats();
    }

    /// Gives free seats away.
    fn fill_seats(&self) -> View {
        loop {
            let view = self.view();
            match view.next {
                Some((_, core, word)) if view.seated < self.settings().host_cores => {
                    self.seat_if(core, |now| is_waiting(now) && in_state(now, 0) == in_state(word, 0));
                }
                _ => return view,
            }
        }
    }

    /// Whether a core that has a seat must give it up.
    fn must_leave(&self, core: usize, now_ps: u64, view: &View) -> bool {
        if !self.may_run(now_ps, view.slowest_ps) {
            return true;
        }
        let wanted = view.seated > self.settings().host_cores
            || view.next.is_some_and(|(at_ps, ..)| at_ps + self.starved_ps() <= now_ps);
        wanted && view.foremost.is_some_and(|(_, foremost)| foremost == core)
    }

    /// Whether a core may run for a step: it will not be more than a quantum ahead.
    fn may_run(&self, at_ps: u64, slowest_ps: u64) -> bool {
        at_ps + self.settings().step_ps() <= slowest_ps + self.settings().quantum_ps
    }

    /// How far behind a core must be to get the seat of another one: changing over costs the host time.
    fn starved_ps(&self) -> u64 {
        self.settings().quantum_ps / 4 * 3
    }

    /// Lets a waiting core go on.
    pub(crate) fn seat(&self, core: usize) {
        self.seat_if(core, is_waiting);
    }

    fn seat_if(&self, core: usize, may: impl Fn(u32) -> bool) {
        let seat = &self.clock(core).seat;
        let before = seat.fetch_update(SeqCst, SeqCst, |word| may(word).then_some(in_state(word, SEAT_RUNS)));
        if before.is_ok_and(|word| word & SEAT_STATE == SEAT_PARKED) {
            self.bells().wake(seat);
        }
    }

    fn view(&self) -> View {
        // The seat before the clock: what the clock says then is not older than the wait.
        let active = || {
            self.cores().iter().filter_map(|&core| {
                let word = self.clock(core).seat.load(SeqCst);
                self.active_ps(core).map(|at_ps| (at_ps, core, word))
            })
        };
        let slowest_ps = active().map(|(at_ps, ..)| at_ps).min().unwrap_or(u64::MAX / 2);
        let mut view = View { slowest_ps, ..View::default() };
        let mut first_ps = u64::MAX;
        for (at_ps, core, word) in active() {
            // One that is parked costs a wake-up: one that is on a host's core goes first unless it is much further.
            let rank_ps = match word & SEAT_STATE {
                SEAT_RUNS => {
                    view.seated += 1;
                    view.foremost = view.foremost.max(Some((at_ps, core)));
                    continue;
                }
                SEAT_WAITS => at_ps,
                SEAT_PARKED => at_ps + self.starved_ps(),
                _ => continue,
            };
            if self.may_run(at_ps, slowest_ps) && rank_ps < first_ps {
                first_ps = rank_ps;
                view.next = Some((at_ps, core, word));
            }
        }
        view
    }

    /// Goes on without being allowed to; whether that matters.
    fn escape(&self, core: usize) -> bool {
        let seat = &self.clock(core).seat;
        seat.store(in_state(seat.load(Relaxed), SEAT_RUNS), SeqCst);
        if self.has_stopped() {
            return false;
        }
        self.region().escapes.fetch_add(1, Relaxed);
        true
    }

    /// Waits for somebody to move the word of this core's seat, for a while.
    fn rest(&self, seat: &AtomicU32, waits: u32, spin: bool) {
        for _ in 0..if spin { SPINS } else { 0 } {
            if seat.load(Relaxed) != waits {
                return;
            }
            std::hint::spin_loop();
        }
        let parked = in_state(waits, SEAT_PARKED);
        if seat.compare_exchange(waits, parked, SeqCst, SeqCst).is_ok() {
            self.bells().wait(seat, parked, LOOK);
            // Unless it was seated.
            let _ = seat.compare_exchange(parked, waits, SeqCst, SeqCst);
        }
    }
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

    /// Whether `progress` has been the same for too long.
    fn exhausted(&mut self, progress: u64) -> bool {
        match self.seen {
            Some((before, since)) if before == progress => since.elapsed() > self.limit,
            _ => {
                self.seen = Some((progress, Instant::now()));
                false
            }
        }
    }
}
