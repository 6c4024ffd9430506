//! Islands that die between counting a place in a core's inbox and filling it: what cores count is right again when the dead are reclaimed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use motet_layout::sync::Ordering;
use motet_layout::{CORE_OFFLINE, CoreId, ISLAND_DEAD, ISLAND_JOINED, ThreadRecord};
use motet_protocol::cores::core_record;
use motet_protocol::{Context, orphans, run_queue, shootdown};
use shuttle::rand::Rng;

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

/// Threads that each living core brings to the next one.
const BROUGHT: usize = 3;

/// The steps of the reclaimer, to be left out.
#[derive(Clone, Copy)]
struct Steps {
    begin: fn(&Core),
    wait_again: fn(&Core),
    forget: fn(&Core),
}

const RIGHT: Steps = Steps {
    begin: |core| orphans::begin_reclaiming(core),
    wait_again: |core| orphans::wait_for_all(core),
    forget: |core| orphans::forget_places(core),
};

/// Takes what is in its inbox, all at once or one that is alone; no more than there can be.
fn take_all(core: &Core) {
    while run_queue::next(core).is_some() {}
    let load = run_queue::load(core, core.core());
    assert!(load as usize <= BROUGHT + 2, "more than there are: {load}");
}

fn choose(bound: usize) -> usize {
    shuttle::rand::thread_rng().gen_range(0..bound)
}

/// Counts a place on another core, and dies: after it has filled it, or given it back, or before.
fn die(core: &Core, thread: &'static ThreadRecord, victims: [CoreId; 3]) {
    let place = run_queue::count_on(core, victims[choose(3)]);
    match choose(3) {
        0 => run_queue::push_reserved(core, thread, place),
        1 => run_queue::unreserve(core, place),
        _ => {}
    }
    // The host says so.
    core_record(core, core.core()).state.store(CORE_OFFLINE, Ordering::SeqCst);
    core.pool().header().islands[0].state.store(ISLAND_DEAD, Ordering::SeqCst);
}

/// Brings threads to another core, now and then, and takes those that come.
fn live(core: &Core, mut threads: Vec<&'static ThreadRecord>, other: CoreId, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) || !threads.is_empty() {
        if choose(3) == 0
            && let Some(thread) = threads.pop()
        {
            run_queue::push(core, thread, other);
        }
        shootdown::pass(core, || ());
        take_all(core);
        core.relax();
    }
}

fn reclaim(core: &Core, steps: Steps) {
    while core.pool().header().islands[0].state.load(Ordering::SeqCst) != ISLAND_DEAD {
        core.relax();
    }
    (steps.begin)(core);
    orphans::wait_for_all(core);
    (steps.wait_again)(core);
    (steps.forget)(core);
}

fn reclamation(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let [dying, one, other, reclaimer] = [0, 1, 2, 3].map(|island| Core::new(pool, island, &bells));
        quietly(|| {
            pool.header().island_count.set(4);
            for island in &pool.header().islands[..4] {
                island.core_count.set(1);
                island.state.store(ISLAND_JOINED, Ordering::SeqCst);
            }
        });
        let ids = [one.core(), other.core(), reclaimer.core()];
        let is_over = Arc::new(AtomicBool::new(false));
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        let last = objects.thread(dying.core());
        actors.push(Box::new(move || die(&dying, last, ids)));
        for (core, next) in [(one.clone(), other.core()), (other.clone(), reclaimer.core())] {
            let threads = (0..BROUGHT).map(|_| objects.thread(core.core())).collect();
            let is_over = is_over.clone();
            actors.push(Box::new(move || live(&core, threads, next, &is_over)));
        }
        let core = reclaimer.clone();
        actors.push(Box::new(move || {
            reclaim(&core, steps);
            is_over.store(true, Relaxed);
        }));
        together(actors);
        quietly(|| {
            for core in [&one, &other, &reclaimer] {
                take_all(core);
                let count = core.own_record().inbox_count.load(Ordering::Relaxed);
                assert_eq!(count, 0, "{:?} counts {count:#x} threads that are not there", core.core());
            }
        });
    }
}

#[test]
fn places_that_dead_cores_have_counted_are_forgotten() {
    explore(3000, reclamation(RIGHT));
}

#[test]
fn not_forgetting_places_is_caught() {
    must_be_caught(100, reclamation(Steps { forget: |_| (), ..RIGHT }));
}

/// Without the other half, there is no telling those of living cores apart.
#[test]
fn forgetting_all_places_is_caught() {
    let forget = |core: &Core| {
        for record in &core.pool().header().cores {
            record.inbox_count.store(0, Ordering::Relaxed);
        }
    };
    must_be_caught(3000, reclamation(Steps { forget, ..RIGHT }));
}

#[test]
fn forgetting_places_before_inboxes_are_empty_is_caught() {
    must_be_caught(20000, reclamation(Steps { wait_again: |_| (), ..RIGHT }));
}
