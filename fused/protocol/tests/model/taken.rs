//! A core takes a thread out of its wait to go on with it itself, because the thread's timer is due: others wake it at the same time, and it runs once.

use std::{cell::Cell, sync::Arc};

use motet_layout::sync::Ordering;
use motet_layout::{
    CoreId, IslandId, THREAD_BLOCKED, THREAD_READY, THREAD_RUNNING, ThreadRecord, WAKE_SIGNAL, WAKE_TIMEOUT, WaitQueue,
};
use motet_protocol::{
    Context,
    cores::core_record,
    run_queue::{self, in_transit_by},
    timer, wait,
};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

/// A thread waits on core 0, whose timer is due; core 1 brings what it waits for, core 2 a signal.
fn model(take: fn(&Core, &'static ThreadRecord) -> bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let [first, second, third] = [0, 1, 2].map(|island| Core::new(pool, island, &bells));
        let (queue, thread) = (objects.make::<WaitQueue>(), objects.thread(CoreId::new(IslandId(0), 0)));
        quietly(|| {
            wait::prepare(thread);
            assert!(wait::enqueue(&first, thread, queue, 0, u32::MAX));
            timer::arm(&first, &thread.timer, 10);
            assert!(wait::commit(thread));
        });
        let core = first.clone();
        together(vec![
            Box::new(move || {
                let taken = Cell::new(false);
                timer::expire_first(&core, 20, |_| {
                    taken.set(take(&core, thread));
                    taken.get()
                });
                let from = if taken.get() { in_transit_by(core.core()) } else { THREAD_READY };
                if !taken.get() {
                    assert!(std::ptr::eq(core.next_thread(), thread), "another thread was handed over");
                }
                assert_eq!(thread.state.swap(THREAD_RUNNING, Ordering::SeqCst), from, "it is somebody else's, too");
                wait::finish(&core, thread);
                timer::disarm(&core, &thread.timer);
            }),
            Box::new(move || {
                wait::wake(&second, queue);
            }),
            Box::new(move || {
                wait::wake_thread(&third, thread, WAKE_SIGNAL);
            }),
        ]);
        quietly(|| {
            let record = core_record(&first, first.core());
            assert!(!run_queue::has_ready(record), "it was handed over, too");
            assert_eq!(thread.state.load(Ordering::Relaxed), THREAD_RUNNING);
            assert_eq!((queue.head.load(Ordering::Relaxed), record.timer_root.get()), (0, 0));
        });
    }
}

#[test]
fn who_is_taken_out_of_a_wait_runs_once() {
    explore(1500, model(|core, thread| wait::take_thread(core, thread, WAKE_TIMEOUT)));
}

/// Looks whether the thread waits, and then takes it.
#[test]
fn taking_without_a_compare_and_swap_is_caught() {
    must_be_caught(
        1500,
        model(|core, thread| {
            let waits = thread.state.load(Ordering::SeqCst) == THREAD_BLOCKED;
            if waits {
                thread.state.store(in_transit_by(core.core()), Ordering::Release);
            }
            waits
        }),
    );
}
