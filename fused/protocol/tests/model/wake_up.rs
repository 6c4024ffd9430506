//! Waiting and waking: no wake-up is lost, none is doubled, whoever interferes.

use std::sync::Arc;

use motet_layout::sync::{AtomicU32, Ordering};
use motet_layout::{
    CoreId, IslandId, MORE_NODES, THREAD_BLOCKED, THREAD_READY, THREAD_RUNNING, ThreadRecord, WAIT_NODES, WAKE_SIGNAL,
    WAKE_TIMEOUT, WaitQueue,
};
use motet_protocol::{Context, wait};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

fn core_of(island: u8) -> CoreId {
    CoreId::new(IslandId(island), 0)
}

/// Runs `thread` again after its wait: takes it from its core's queue. Returns why it was woken.
fn resume(core: &Core, thread: &'static ThreadRecord) -> u32 {
    let next = core.next_thread();
    assert!(std::ptr::eq(next, thread), "another thread was handed over");
    let was = thread.state.swap(THREAD_RUNNING, Ordering::SeqCst);
    assert_eq!(was, THREAD_READY, "a thread in a queue is not ready: handed over twice?");
    let reason = thread.wake_reason.load(Ordering::Relaxed);
    wait::finish(core, thread);
    reason
}

/// Takes a permit as user code takes a semaphore: by a futex wait for "some permit", over and over. `false`: a signal came.
fn acquire(core: &Core, thread: &'static ThreadRecord, queue: &'static WaitQueue, permits: &'static AtomicU32) -> bool {
    while !take(permits) {
        // What a limited wake-up may stand for is a change that a waiter observes, not one that the wait consumes.
        if !wait_for(core, thread, queue, || permits.load(Ordering::SeqCst) != 0) {
            return false;
        }
    }
    true
}

/// Takes a permit, if there is one.
fn take(permits: &AtomicU32) -> bool {
    permits.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok()
}

/// Waits in `queue` until `attempt`, as a kernel's system call does. Returns whether it succeeded; a signal ends it.
pub fn wait_for(
    core: &Core,
    thread: &'static ThreadRecord,
    queue: &'static WaitQueue,
    mut attempt: impl FnMut() -> bool,
) -> bool {
    loop {
        if attempt() {
            return true;
        }
        wait::prepare(thread);
        assert!(wait::enqueue(core, thread, queue, 0, u32::MAX));
        if attempt() {
            wait::finish(core, thread);
            return true;
        }
        if !wait::commit(thread) {
            wait::finish(core, thread);
        } else if resume(core, thread) == WAKE_SIGNAL {
            return false;
        }
    }
}

/// Two waiters, two permits, each given by another island; `timeouts` wake the first waiter for no reason.
fn permits(timeouts: u32) {
    let (pool, base) = fresh_pool(2);
    let objects = Objects::new(pool, base);
    let bells = Arc::new(Bells::default());
    let (queue, permits) = (objects.make::<WaitQueue>(), objects.make::<AtomicU32>());
    let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    let mut threads = Vec::new();
    for island in 0..2 {
        let (core, thread) = (Core::new(pool, island, &bells), objects.thread(core_of(island)));
        threads.push(thread);
        actors.push(Box::new(move || assert!(acquire(&core, thread, queue, permits))));
    }
    let (core, first) = (Core::new(pool, 2, &bells), threads[0]);
    actors.push(Box::new(move || {
        for _ in 0..2 {
            permits.fetch_add(1, Ordering::SeqCst);
            wait::wake_matching(&core, queue, 1, 0, u32::MAX);
        }
    }));
    let core = Core::new(pool, 3, &bells);
    actors.push(Box::new(move || {
        for _ in 0..timeouts {
            wait::wake_thread(&core, first, WAKE_TIMEOUT);
        }
    }));
    together(actors);
    quietly(|| {
        assert_eq!(permits.load(Ordering::Relaxed), 0);
        assert_eq!(queue.head.load(Ordering::Relaxed), 0, "a node stayed in the queue");
        assert_eq!(queue.tail.get(), 0);
    });
}

/// A thread waits in more queues than its record has places for, and each of them is woken by another island.
fn many_queues(queues: usize) {
    let (pool, base) = fresh_pool(4);
    let objects = Objects::new(pool, base);
    let bells = Arc::new(Bells::default());
    let thread = objects.thread(core_of(0));
    let happened = objects.make::<AtomicU32>();
    let all: Vec<&'static WaitQueue> = (0..queues).map(|_| objects.make()).collect();
    let woken = [all[0], all[queues / 2], all[queues - 1]];
    let core = Core::new(pool, 0, &bells);
    let places = all.clone();
    let mut actors: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(move || {
        loop {
            let before = happened.load(Ordering::SeqCst);
            if before == woken.len() as u32 {
                break;
            }
            wait::prepare(thread);
            assert!(places.iter().all(|queue| wait::enqueue(&core, thread, queue, 0, u32::MAX)));
            if happened.load(Ordering::SeqCst) != before || !wait::commit(thread) {
                wait::finish(&core, thread);
            } else {
                resume(&core, thread);
            }
        }
    })];
    for (island, queue) in (1..).zip(woken) {
        let core = Core::new(pool, island, &bells);
        actors.push(Box::new(move || {
            happened.fetch_add(1, Ordering::SeqCst);
            wait::wake(&core, queue);
        }));
    }
    together(actors);
    quietly(|| {
        assert!(all.iter().all(|queue| queue.head.load(Ordering::Relaxed) == 0), "a node stayed in a queue");
        assert_eq!(thread.more_nodes.get(), 0, "places were not given back");
    });
}

#[test]
fn a_thread_waits_in_any_number_of_queues() {
    explore(300, || many_queues(2 * MORE_NODES + WAIT_NODES + 1));
}

#[test]
fn no_wake_up_is_lost() {
    explore(1500, || permits(0));
}

#[test]
fn no_wake_up_is_lost_beside_timeouts() {
    explore(1500, || permits(2));
}

/// The waiter forgets to look again between entering the queue and blocking.
#[test]
fn blocking_without_a_second_look_is_caught() {
    must_be_caught(1500, || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let (queue, flag) = (objects.make::<WaitQueue>(), objects.make::<AtomicU32>());
        let (waiter, waker) = (Core::new(pool, 0, &bells), Core::new(pool, 1, &bells));
        let thread = objects.thread(core_of(0));
        together(vec![
            Box::new(move || {
                if flag.load(Ordering::SeqCst) == 0 {
                    wait::prepare(thread);
                    wait::enqueue(&waiter, thread, queue, 0, u32::MAX);
                    if wait::commit(thread) {
                        resume(&waiter, thread);
                    }
                }
            }),
            Box::new(move || {
                flag.store(1, Ordering::SeqCst);
                wait::wake(&waker, queue);
            }),
        ]);
    });
}

/// The waker hands over whoever is blocked, without winning the thread's state first.
#[test]
fn handing_over_without_the_state_is_caught() {
    must_be_caught(1500, || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let home = Core::new(pool, 0, &bells);
        let thread = objects.thread(core_of(0));
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(move || {
            wait::prepare(thread);
            if wait::commit(thread) {
                resume(&home, thread);
            }
            assert!(motet_protocol::run_queue::next(&home).is_none(), "handed over twice");
        })];
        for island in 1..3 {
            let core = Core::new(pool, island, &bells);
            actors.push(Box::new(move || {
                while thread.state.load(Ordering::SeqCst) != THREAD_BLOCKED {
                    if thread.state.load(Ordering::SeqCst) == THREAD_RUNNING {
                        return;
                    }
                    core.relax();
                }
                thread.state.store(THREAD_READY, Ordering::SeqCst);
                motet_protocol::run_queue::hand_over(&core, thread);
            }));
        }
        together(actors);
    });
}

/// A waiter whom a signal takes out of its wait, and who waits for something else next, must not swallow the one
/// wake-up that was meant for a waiter of the first queue.
#[test]
fn a_leaver_does_not_swallow_a_wake_up() {
    explore(3000, || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let (queue, permits) = (objects.make::<WaitQueue>(), objects.make::<AtomicU32>());
        let (other_queue, other_flag) = (objects.make::<WaitQueue>(), objects.make::<AtomicU32>());
        let (leaver, stayer) = (Core::new(pool, 0, &bells), Core::new(pool, 1, &bells));
        let (leaving, staying) = (objects.thread(core_of(0)), objects.thread(core_of(1)));
        let (waker, signaller) = (Core::new(pool, 2, &bells), Core::new(pool, 3, &bells));
        together(vec![
            Box::new(move || {
                if !acquire(&leaver, leaving, queue, permits) {
                    wait_for(&leaver, leaving, other_queue, || other_flag.load(Ordering::SeqCst) != 0);
                } else {
                    // It got the permit: the other one needs another.
                    permits.fetch_add(1, Ordering::SeqCst);
                    wait::wake_matching(&leaver, queue, 1, 0, u32::MAX);
                }
            }),
            Box::new(move || {
                while !acquire(&stayer, staying, queue, permits) {}
                permits.fetch_add(1, Ordering::SeqCst); // without a signal the other one waits for it, too
                wait::wake_matching(&stayer, queue, 1, 0, u32::MAX);
                other_flag.store(1, Ordering::SeqCst);
                wait::wake(&stayer, other_queue);
            }),
            Box::new(move || {
                permits.fetch_add(1, Ordering::SeqCst);
                wait::wake_matching(&waker, queue, 1, 0, u32::MAX);
            }),
            Box::new(move || {
                wait::wake_thread(&signaller, leaving, WAKE_SIGNAL);
            }),
        ]);
    });
}

/// Futex requeue, while a signal takes the waiter away: whatever the order, the queues stay sound and nobody sleeps on.
#[test]
fn requeue_beside_a_signal() {
    explore(3000, || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let (from, to) = (objects.make::<WaitQueue>(), objects.make::<WaitQueue>());
        let flag = objects.make::<AtomicU32>();
        let (home, mover, signaller) =
            (Core::new(pool, 0, &bells), Core::new(pool, 1, &bells), Core::new(pool, 2, &bells));
        let thread = objects.thread(core_of(0));
        together(vec![
            Box::new(move || {
                // Twice: a node left behind by the first wait spoils the second.
                wait_for(&home, thread, from, || flag.load(Ordering::SeqCst) != 0);
                wait_for(&home, thread, from, || flag.load(Ordering::SeqCst) != 0);
            }),
            Box::new(move || {
                wait::requeue(&mover, from, 0, to, 0, 1);
                flag.store(1, Ordering::SeqCst);
                wait::wake(&mover, from);
                wait::wake(&mover, to);
            }),
            Box::new(move || {
                wait::wake_thread(&signaller, thread, WAKE_SIGNAL);
            }),
        ]);
        quietly(|| {
            for queue in [from, to] {
                assert_eq!(queue.head.load(Ordering::Relaxed), 0, "a node stayed in a queue");
                assert_eq!(queue.tail.get(), 0, "a node stayed in a queue");
            }
        });
    });
}
