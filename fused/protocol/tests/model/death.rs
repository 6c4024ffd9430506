//! Islands that die in the middle of a direct call: the thread is taken exactly once, by whoever lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use motet_layout::sync::Ordering;
use motet_layout::{
    CORE_IDLE, CORE_OFFLINE, CoreId, ISLAND_DEAD, ISLAND_JOINED, ISLAND_RECLAIMING, IslandId, Pool, ThreadRecord,
};
use motet_protocol::cores::core_record;
use motet_protocol::direct::{self, Outcome, Reach};
use motet_protocol::run_queue::{self, Wake};
use motet_protocol::{Context, cores, orphans, shootdown};

use shuttle::rand::Rng;

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

const CALLEE: u8 = 0;
const CALLER: u8 = 1;

/// A core that may have died: then it rings nobody.
#[derive(Clone)]
struct Mortal {
    core: Core,
    /// Somebody has killed its island.
    dead: Arc<AtomicBool>,
    /// It has done its last step.
    stopped: Arc<AtomicBool>,
    /// The run is over.
    over: Arc<AtomicBool>,
    /// It is going to die, so it does not count that it has the thread.
    dies: bool,
    /// How often somebody who lives has taken the thread.
    taken: Arc<AtomicU32>,
}

impl Context for Mortal {
    fn core(&self) -> CoreId {
        self.core.core()
    }

    fn pool(&self) -> Pool {
        self.core.pool()
    }

    fn relax(&self) {
        self.core.relax();
    }

    fn ring(&self, target: CoreId) {
        if !self.is_dead() {
            self.core.ring(target);
        }
    }
}

impl Mortal {
    fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    fn take(&self) {
        self.taken.fetch_add(u32::from(!self.dies), Relaxed);
    }

    /// Nobody waits for this core any more.
    fn stop(&self) {
        if !self.is_dead() {
            core_record(self, self.core()).state.store(CORE_OFFLINE, Ordering::SeqCst);
        }
        self.stopped.store(true, Relaxed);
    }

    /// As a kernel sleeps.
    fn idle(&self) -> Wake {
        if run_queue::begin_idle(self, CORE_IDLE) {
            self.core.sleep();
        }
        if self.is_dead() {
            return Wake::Look;
        }
        let wake = run_queue::end_idle(self);
        shootdown::pass(self, || ());
        wake
    }

    /// Calls with the thread, and waits for the results.
    fn call(&self, thread: &'static ThreadRecord) {
        let callee = CoreId::new(IslandId(CALLEE), 0);
        let claim = loop {
            match direct::claim(self, callee, Reach::of(self)) {
                Some(claim) if !self.is_dead() => break claim,
                None if !self.is_dead() && !cores::is_dead(self, callee) => self.relax(),
                Some(_) | None => return self.take(),
            }
        };
        claim.message(self).message[0].set(self.raw(thread));
        claim.prepare(self, false);
        if self.is_dead() {
            return;
        }
        thread.core.store(u32::from(callee.0), Ordering::SeqCst);
        if self.is_dead() {
            return;
        }
        claim.publish(self);
        while !self.is_dead() {
            // It may run other threads first.
            for _ in 0..shuttle::rand::thread_rng().gen_range(0..8) {
                shootdown::pass(self, || ());
                self.relax();
            }
            match direct::outcome(self, callee, Reach::of(self)) {
                Outcome::Left | Outcome::Calls | Outcome::Withdrawn => return,
                Outcome::Runs if self.over.load(Relaxed) => return,
                Outcome::Runs => _ = self.idle(),
                Outcome::Returned => {
                    thread.core.store(u32::from(self.core().0), Ordering::SeqCst);
                    if !self.is_dead() {
                        direct::release(self, callee, Reach::of(self));
                    }
                    return self.take();
                }
            }
        }
    }

    /// Runs what it is called for.
    fn serve(&self) {
        while !self.is_dead() && !self.over.load(Relaxed) {
            if self.idle() == Wake::Look {
                continue;
            }
            let Some(caller) = direct::caller(self).filter(|_| !self.is_dead()) else { return };
            let kept = direct::is_disturbed(self, Some(caller), Reach::of(self))
                || !direct::give_back(self, caller, CORE_IDLE, Reach::of(self));
            if kept && !self.is_dead() {
                direct::end_call(self, direct::caller(self), Reach::of(self));
                return self.take();
            }
        }
    }
}

/// What the reclaimer does that twins leave out.
#[derive(Clone, Copy)]
struct Steps {
    wait: fn(&Core),
    settle: fn(&Core),
    is_orphaned: fn(&Core, &'static ThreadRecord) -> bool,
}

const RIGHT: Steps = Steps {
    wait: |core| orphans::wait_for_all(core),
    settle: |core| orphans::settle_calls(core),
    is_orphaned: |core, thread| orphans::is_orphaned(core, thread),
};

fn death_of(victim: u8, steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let states = || pool.header().islands.iter().map(|island| &island.state);
        quietly(|| states().take(3).for_each(|state| state.store(ISLAND_JOINED, Ordering::Relaxed)));
        let thread = objects.thread(CoreId::new(IslandId(CALLER), 0));
        let (over, taken) = (Arc::new(AtomicBool::default()), Arc::new(AtomicU32::default()));
        let mortal = |island| Mortal {
            core: Core::new(pool, island, &bells),
            dead: Arc::default(),
            stopped: Arc::default(),
            over: over.clone(),
            dies: island == victim,
            taken: taken.clone(),
        };
        let (callee, caller, reclaimer) = (mortal(CALLEE), mortal(CALLER), Core::new(pool, 2, &bells));
        let dying = if victim == CALLEE { callee.clone() } else { caller.clone() };
        let living = if victim == CALLEE { caller.clone() } else { callee.clone() };
        let (over, found) = (over.clone(), taken.clone());
        together(vec![
            Box::new(move || {
                caller.call(thread);
                caller.stop();
            }),
            Box::new(move || {
                callee.serve();
                callee.stop();
            }),
            Box::new(move || {
                for _ in 0..shuttle::rand::thread_rng().gen_range(0..60) {
                    reclaimer.relax();
                }
                dying.dead.store(true, Relaxed);
                reclaimer.ring(dying.core()); // a core that sleeps is dead, too
                while !dying.stopped.load(Relaxed) {
                    reclaimer.relax();
                }
                let state = &pool.header().islands[victim as usize].state;
                orphans::turn_off(&reclaimer, IslandId(victim));
                state.store(ISLAND_DEAD, Ordering::SeqCst);
                (steps.wait)(&reclaimer);
                orphans::turn_off(&reclaimer, IslandId(victim));
                state.store(ISLAND_RECLAIMING, Ordering::SeqCst);
                (steps.settle)(&reclaimer);
                (steps.wait)(&reclaimer);
                if (steps.is_orphaned)(&reclaimer, thread) {
                    found.fetch_add(1, Relaxed);
                }
                over.store(true, Relaxed);
                reclaimer.ring(living.core());
            }),
        ]);
        assert_eq!(taken.load(Relaxed), 1, "times that the thread was taken");
    }
}

const BOTH: [u8; 2] = [CALLEE, CALLER];

#[test]
fn a_thread_whose_callee_or_caller_dies_is_taken_once() {
    for victim in BOTH {
        explore(3000, death_of(victim, RIGHT));
    }
}

#[test]
fn reclaiming_before_others_have_passed_is_caught() {
    for victim in BOTH {
        // At once: going through all cores is long enough for the others to pass.
        let settle = |core: &Core| quietly(|| orphans::settle_calls(core));
        must_be_caught(20000, death_of(victim, Steps { wait: |_| (), settle, ..RIGHT }));
    }
}

#[test]
fn taking_threads_whose_results_are_there_is_caught() {
    let is_orphaned = |core: &Core, thread: &'static ThreadRecord| {
        CoreId::from_raw(thread.core.load(Ordering::SeqCst)).is_some_and(|found| cores::is_dead(core, found))
    };
    must_be_caught(3000, death_of(CALLEE, Steps { is_orphaned, ..RIGHT }));
}

#[test]
fn leaving_calls_of_a_dead_caller_unsettled_is_caught() {
    must_be_caught(3000, death_of(CALLER, Steps { settle: |_| (), ..RIGHT }));
}

/// The reclaimer brings threads on that a dead core was bringing somewhere. One that lies in its own inbox already would
/// be in its queue twice.
#[test]
fn a_thread_that_a_dead_core_has_brought_to_the_reclaimer_is_not_stranded() {
    quietly(|| {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let [dying, other, reclaimer] = [0, 1, 2].map(|island| Core::new(pool, island, &bells));
        let thread = objects.thread(reclaimer.core());
        thread.state.store(run_queue::in_transit_by(dying.core()), Ordering::Relaxed);
        run_queue::push(&dying, thread, reclaimer.core());
        pool.header().islands[2].state.store(ISLAND_JOINED, Ordering::SeqCst);
        pool.header().islands[0].state.store(ISLAND_DEAD, Ordering::SeqCst);
        for core in [&dying, &other] {
            core_record(core, core.core()).state.store(CORE_OFFLINE, Ordering::SeqCst);
        }
        orphans::wait_for_all(&reclaimer);
        pool.header().islands[0].state.store(ISLAND_RECLAIMING, Ordering::SeqCst);
        assert!(!orphans::is_stranded(&reclaimer, thread));
        assert!(run_queue::next(&reclaimer).is_some_and(|found| std::ptr::eq(found, thread)));
        assert!(run_queue::next(&reclaimer).is_none());
    });
}
