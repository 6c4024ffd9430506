//! Inboxes and idle cores: no thread is lost, and a core is rung at most once each time it announces that it will sleep.

use std::sync::Arc;

use motet_abi::process::SCHED_FIFO;
use motet_layout::sync::Ordering;
use motet_layout::{CORE_IDLE, CoreId, IslandId, PENDING_URGENT, THREAD_READY, ThreadRecord};
use motet_protocol::cores::core_record;
use motet_protocol::ready;
use motet_protocol::run_queue;
use motet_protocol::schedule::{self, Schedule};
use motet_protocol::{Context, wait};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

const TARGET: u8 = 0;
const WAKERS: u8 = 2;
const THREADS_EACH: usize = 2;

fn target() -> CoreId {
    CoreId::new(IslandId(TARGET), 0)
}

type Take = fn(&Core) -> &'static ThreadRecord;
type Give = fn(&Core, &'static ThreadRecord);

/// Two islands hand threads to a core that sleeps whenever it has none.
fn model(take: Take, give: Give) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let sleeper = Core::new(pool, TARGET, &bells);
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for island in 1..=WAKERS {
            let core = Core::new(pool, island, &bells);
            let threads: Vec<_> = (0..THREADS_EACH).map(|_| objects.thread(target())).collect();
            actors.push(Box::new(move || {
                for thread in threads {
                    thread.state.store(THREAD_READY, Ordering::Relaxed);
                    give(&core, thread);
                }
            }));
        }
        actors.push(Box::new(move || {
            let mut seen = Vec::new();
            while seen.len() < usize::from(WAKERS) * THREADS_EACH {
                let thread = take(&sleeper);
                let raw = sleeper.raw(thread);
                assert!(!seen.contains(&raw), "a thread was taken twice");
                seen.push(raw);
            }
            assert!(run_queue::next(&sleeper).is_none(), "a thread too many");
        }));
        together(actors);
        quietly(|| {
            let island = usize::from(TARGET);
            // More than it slept: a thread that comes between the announcement and the sleep rings, too.
            let (rings, announcements) = (&bells.rings[island], &bells.announcements[island]);
            assert!(
                rings.load(Ordering::Relaxed) <= announcements.load(Ordering::Relaxed),
                "rung twice for one announcement"
            );
        });
    }
}

#[test]
fn no_thread_is_lost() {
    explore(1500, model(Core::next_thread, run_queue::hand_over));
}

#[test]
fn ringing_whoever_looks_idle_is_caught() {
    must_be_caught(
        1500,
        model(Core::next_thread, |core, thread| {
            let slept = run_queue::is_idle(core_record(core, target()).state.load(Ordering::SeqCst));
            run_queue::hand_over(core, thread);
            if slept {
                core.ring(target());
            }
        }),
    );
}

#[test]
fn sleeping_without_a_second_look_is_caught() {
    must_be_caught(
        1500,
        model(
            |core| {
                loop {
                    if let Some(thread) = run_queue::next(core) {
                        return thread;
                    }
                    core.announce();
                    core_record(core, core.core()).state.store(CORE_IDLE, Ordering::SeqCst);
                    core.sleep();
                    run_queue::end_idle(core);
                }
            },
            run_queue::hand_over,
        ),
    );
}

/// Two islands hand real-time threads to a core that computes: it looks when it is rung, and sleeps when it has nothing.
fn urgent(give: Give) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let core = Core::new(pool, TARGET, &bells);
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for island in 1..=WAKERS {
            let waker = Core::new(pool, island, &bells);
            let thread = objects.thread(target());
            quietly(|| schedule::set(thread, Schedule::new(SCHED_FIFO, island.into(), false).unwrap()));
            actors.push(Box::new(move || {
                thread.state.store(THREAD_READY, Ordering::Relaxed);
                give(&waker, thread);
            }));
        }
        actors.push(Box::new(move || {
            let mut taken = 0;
            // An ordinary thread runs here, until an interrupt.
            let mut computes = true;
            while taken < WAKERS {
                if computes {
                    core.sleep();
                    if core.own_record().pending.fetch_and(!PENDING_URGENT, Ordering::SeqCst) & PENDING_URGENT != 0 {
                        run_queue::collect(&core);
                    }
                    computes = ready::first_realtime(&core, core.own_record()).is_none();
                    continue;
                }
                let thread = core.next_thread();
                assert!(schedule::of(thread).is_realtime());
                taken += 1;
                // It waits at once, and the ordinary one goes on, if none is ready.
                computes = taken < WAKERS
                    && run_queue::next(&core).is_none_or(|next| {
                        run_queue::append_first(&core, next);
                        false
                    });
            }
        }));
        together(actors);
    }
}

#[test]
fn a_core_that_computes_learns_of_real_time_threads() {
    explore(1500, urgent(run_queue::hand_over));
}

#[test]
fn ringing_before_the_thread_is_there_is_caught() {
    must_be_caught(
        1500,
        urgent(|waker, thread| {
            core_record(waker, target()).pending.fetch_or(PENDING_URGENT, Ordering::SeqCst);
            waker.ring(target());
            let schedule = schedule::of(thread);
            schedule::set(thread, Schedule::default());
            run_queue::hand_over(waker, thread);
            schedule::set(thread, schedule);
        }),
    );
}

#[test]
fn ringing_before_the_mark_is_there_is_caught() {
    must_be_caught(
        1500,
        urgent(|waker, thread| {
            let schedule = schedule::of(thread);
            schedule::set(thread, Schedule::default());
            run_queue::hand_over(waker, thread);
            schedule::set(thread, schedule);
            waker.ring(target());
            core_record(waker, target()).pending.fetch_or(PENDING_URGENT, Ordering::SeqCst);
        }),
    );
}

/// Two islands hand over threads of several nice values; the core takes them when all are there.
#[test]
fn arrivals_run_by_nice_value_and_equal_ones_in_their_order() {
    const NICE: [i32; 4] = [0, -5, 10, 0];
    explore(500, || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let core = Core::new(pool, TARGET, &bells);
        let thread = |nice: i32| {
            let thread = objects.thread(target());
            quietly(|| thread.nice.set(nice.cast_unsigned()));
            thread.state.store(THREAD_READY, Ordering::Relaxed);
            thread
        };
        let given: Vec<Vec<&'static ThreadRecord>> = (0..WAKERS).map(|_| NICE.map(thread).to_vec()).collect();
        let actors = given.iter().cloned().zip(1..).map(|(threads, island)| {
            let waker = Core::new(pool, island, &bells);
            let actor = move || threads.into_iter().for_each(|thread| run_queue::hand_over(&waker, thread));
            Box::new(actor) as Box<dyn FnOnce() + Send>
        });
        together(actors.collect());
        // Its time is used up: though it is the most important one, the others come first.
        let used_up = thread(-20);
        run_queue::append_last(&core, used_up);
        let place = |wanted: &ThreadRecord| {
            let mut places =
                given.iter().map(|threads| threads.iter().position(|thread| std::ptr::eq(*thread, wanted)));
            let waker = places.clone().position(|place| place.is_some());
            waker.zip(places.find_map(|place| place))
        };
        let taken: Vec<_> = std::iter::from_fn(|| run_queue::next(&core)).collect();
        assert_eq!(taken.len(), given.len() * NICE.len() + 1);
        assert!(std::ptr::eq(taken[taken.len() - 1], used_up));
        for (earlier, later) in taken.iter().zip(&taken[1..taken.len() - 1]) {
            let (Some((waker, first)), Some((other, second))) = (place(earlier), place(later)) else {
                panic!("a thread that nobody gave");
            };
            let in_order = waker != other || first < second;
            assert!(NICE[first] < NICE[second] || NICE[first] == NICE[second] && in_order, "{first} {second}");
        }
    });
}

/// A thread that becomes ready on a core of another island reaches the core it last ran on.
#[test]
fn a_woken_thread_returns_to_its_core() {
    explore(1000, || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let (home, waker) = (Core::new(pool, TARGET, &bells), Core::new(pool, 1, &bells));
        let thread = objects.thread(target());
        together(vec![
            Box::new(move || {
                wait::prepare(thread);
                if wait::commit(thread) {
                    let woken = home.next_thread();
                    assert!(std::ptr::eq(woken, thread));
                    assert_eq!(woken.state.load(Ordering::Relaxed), THREAD_READY);
                }
            }),
            Box::new(move || {
                while !wait::wake_thread(&waker, thread, motet_layout::WAKE_SIGNAL) {
                    waker.relax();
                }
            }),
        ]);
    });
}
