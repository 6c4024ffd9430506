//! Memory of objects goes back only when nobody looks into it: a core that has the address of a thread, which ends, finds a thread there, and not what the
//! frame is used for next.

use std::sync::Arc;

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{CORE_OFFLINE, ISLAND_JOINED, PoolAddr, THREAD_BLOCKED, ThreadRecord, WAKE_SIGNAL};
use motet_protocol::{Context, cores::core_record, memory, slab, wait};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, point, quietly, together};

/// One core ends a thread, and uses the memory that goes back for something else, while another one wakes the thread by an address that it has read. `waits`: the
/// first one waits for the other.
fn model(waits: bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let (first, second) = (Core::new(pool, 0, &bells), Core::new(pool, 1, &bells));
        let (place, done) = (objects.make::<AtomicU64>(), objects.make::<AtomicU64>());
        let threads: Vec<&'static ThreadRecord> = quietly(|| {
            for island in &pool.header().islands[..3] {
                island.state.store(ISLAND_JOINED, Ordering::Relaxed);
            }
            if !waits {
                core_record(&first, second.core()).state.store(CORE_OFFLINE, Ordering::Relaxed);
            }
            (0..2).map(|_| slab::alloc(&first).expect("there is memory")).collect()
        });
        place.store(first.raw(threads[1]), Ordering::SeqCst);
        let ends = first.clone();
        together(vec![
            Box::new(move || {
                place.store(0, Ordering::SeqCst);
                // The class keeps the first one's memory.
                threads.iter().for_each(|thread| slab::free(&ends, *thread));
                assert!(slab::has_retired(&ends), "nothing goes back");
                slab::return_retired(&ends, || false);
                quietly(|| {
                    while let Some(frame) = memory::alloc_frame(&ends) {
                        let data = ends.pool().at::<ThreadRecord>(frame.addr());
                        data.state.store(THREAD_BLOCKED, Ordering::Relaxed);
                    }
                });
                done.store(1, Ordering::SeqCst);
            }),
            Box::new(move || {
                if let Some(thread) = second.object::<ThreadRecord>(place.load(Ordering::SeqCst)) {
                    // Between reading the address and using it: for as long as the other one takes to give the memory to somebody else.
                    (0..100).for_each(|_| point());
                    assert!(!wait::wake_thread(&second, thread, WAKE_SIGNAL), "what has ended was woken");
                }
                while done.load(Ordering::SeqCst) == 0 {
                    second.pass();
                    second.relax();
                }
            }),
        ]);
        quietly(|| {
            let cache = &pool.header().slabs[<ThreadRecord as slab::SlabObject>::CLASS];
            assert_eq!((cache.in_use.get(), cache.total.get(), cache.empty.get()), (0, 1, 1));
            assert_eq!((cache.retired.get(), cache.waiting.get()), (0, 0));
            assert!(pool.get::<ThreadRecord>(PoolAddr(u64::from(cache.partial.get()) << 12)).is_some());
        });
    }
}

#[test]
fn memory_of_objects_goes_back_when_nobody_looks_into_it() {
    explore(500, model(true));
}

/// It goes back at once.
#[test]
fn not_waiting_for_others_is_caught() {
    must_be_caught(1500, model(false));
}

/// Two cores end a thread each, and give memory back at the same time: what does not go back is said.
fn retired_together() {
    let (pool, base) = fresh_pool(2);
    let objects = Objects::new(pool, base);
    let bells = Arc::new(Bells::default());
    let cores = [0, 1].map(|index| Core::new(pool, index, &bells));
    let done = objects.make::<AtomicU64>();
    let threads: Vec<&'static ThreadRecord> = quietly(|| {
        for island in &pool.header().islands[..3] {
            island.state.store(ISLAND_JOINED, Ordering::Relaxed);
        }
        (0..3).map(|_| slab::alloc(&cores[0]).expect("there is memory")).collect()
    });
    // The class keeps the memory of this one.
    quietly(|| slab::free(&cores[0], threads[2]));
    let ends = |core: Core, thread: &'static ThreadRecord| {
        move || {
            slab::free(&core, thread);
            slab::return_retired(&core, || false);
            done.fetch_add(1, Ordering::SeqCst);
            while done.load(Ordering::SeqCst) != 2 {
                core.pass();
                core.relax();
            }
        }
    };
    let [first, second] = cores.clone();
    together(vec![Box::new(ends(first, threads[0])), Box::new(ends(second, threads[1]))]);
    quietly(|| {
        let cache = &pool.header().slabs[<ThreadRecord as slab::SlabObject>::CLASS];
        let is_left = cache.retired.get() != 0 || cache.waiting.get() != 0;
        assert!(!is_left || slab::has_retired(&cores[0]), "memory is forgotten that nobody uses");
    });
}

#[test]
fn memory_that_two_cores_give_back_is_not_forgotten() {
    explore(3000, retired_together);
}
