//! A core that dies while its migration engine works: the thread is taken once, and the receiver's place is free for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use motet_layout::sync::Ordering;
use motet_layout::{
    CoreId, CoreRecord, DMA_HOME, DMA_NONE, ISLAND_DEAD, ISLAND_JOINED, ISLAND_RECLAIMING, IslandId, PoolAddr,
    ThreadRecord,
};
use motet_protocol::{Context, cores::core_record, dma, orphans, shootdown};

use shuttle::rand::Rng;

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

const SENDER: u8 = 1;
const RECEIVER: u8 = 2;

/// What twins leave out or reorder.
#[derive(Clone, Copy)]
struct Steps {
    /// The reclaimer settles what was under way.
    settles: bool,
    /// A descriptor is under way until it is copied.
    is_under_way: bool,
    /// Whose engine has claimed a place is known.
    names_claimer: bool,
}

const ALL: Steps = Steps { settles: true, is_under_way: true, names_claimer: true };

/// Sends its thread away, and may be dead after each step: those of `dma::transfer`, and the two before it.
fn send(core: &Core, steps: Steps, dead: &AtomicBool, thread: &'static ThreadRecord) -> Option<()> {
    let lives = || {
        core.relax();
        (!dead.load(Relaxed)).then_some(())
    };
    let target = CoreId::new(IslandId(RECEIVER), 0);
    let (own, receiver) = (core.own_record(), core_record(core, target));
    own.dma_out[0].set(core.raw(thread));
    own.dma_place.set(DMA_HOME);
    lives()?;
    thread.core.store(u32::from(target.0), Ordering::SeqCst);
    if !steps.is_under_way {
        own.dma_place.set(DMA_NONE);
    }
    lives()?;
    let status = &receiver.dma_arrives_ns[DMA_HOME as usize];
    let claim = if steps.names_claimer { dma::claimed_by(core.core()) } else { u64::MAX };
    status.compare_exchange(0, claim, Ordering::SeqCst, Ordering::SeqCst).ok()?;
    lives()?;
    receiver.dma_in[DMA_HOME as usize].words[0].set(own.dma_out[0].get());
    own.dma_place.set(DMA_NONE);
    lives()?;
    status.store(1, Ordering::SeqCst);
    Some(())
}

/// Takes what comes, until the run is over.
fn receive(core: &Core, over: &AtomicBool, taken: &AtomicU32) {
    loop {
        let is_over = over.load(Relaxed);
        if let Some((descriptor, _)) = dma::arrival(core.own_record(), DMA_HOME) {
            let thread = thread_in(core, &descriptor.words[0]);
            assert_eq!(thread.map(|thread| thread.core.load(Ordering::SeqCst)), Some(u32::from(core.core().0)));
            dma::clear(core.own_record(), DMA_HOME);
            taken.fetch_add(1, Relaxed);
        }
        shootdown::pass(core, || ());
        if is_over {
            return;
        }
        core.relax();
    }
}

fn thread_in(core: &Core, word: &motet_layout::Cell64) -> Option<&'static ThreadRecord> {
    core.pool().get::<ThreadRecord>(PoolAddr(word.get()))
}

/// Buries the sender's island, and takes the thread if nobody has it.
fn reclaim(core: &Core, steps: Steps, thread: &'static ThreadRecord, taken: &AtomicU32) {
    let state = &core.pool().header().islands[SENDER as usize].state;
    orphans::turn_off(core, IslandId(SENDER));
    state.store(ISLAND_DEAD, Ordering::SeqCst);
    orphans::wait_for_all(core);
    orphans::turn_off(core, IslandId(SENDER));
    state.store(ISLAND_RECLAIMING, Ordering::SeqCst);
    if steps.settles {
        orphans::settle_transfers(core, |record: &CoreRecord| thread_in(core, &record.dma_out[0]));
    }
    if orphans::is_orphaned(core, thread) {
        taken.fetch_add(1, Relaxed);
    }
}

fn death(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let states = || pool.header().islands.iter().map(|island| &island.state);
        quietly(|| states().take(3).for_each(|state| state.store(ISLAND_JOINED, Ordering::Relaxed)));
        let thread = objects.thread(CoreId::new(IslandId(SENDER), 0));
        let [reclaimer, sender, receiver] = [0, SENDER, RECEIVER].map(|island| Core::new(pool, island, &bells));
        let [dead, stopped, over] = [(); 3].map(|()| Arc::new(AtomicBool::default()));
        let taken = Arc::new(AtomicU32::default());
        let (dies, has_stopped, is_over) = (dead.clone(), stopped.clone(), over.clone());
        let [by_receiver, by_reclaimer] = [(); 2].map(|()| taken.clone());
        together(vec![
            Box::new(move || {
                _ = send(&sender, steps, &dies, thread);
                has_stopped.store(true, Relaxed);
            }),
            Box::new(move || receive(&receiver, &is_over, &by_receiver)),
            Box::new(move || {
                for _ in 0..shuttle::rand::thread_rng().gen_range(0..12) {
                    reclaimer.relax();
                }
                dead.store(true, Relaxed);
                while !stopped.load(Relaxed) {
                    reclaimer.relax();
                }
                reclaim(&reclaimer, steps, thread, &by_reclaimer);
                over.store(true, Relaxed);
            }),
        ]);
        let place = &pool.header().cores[CoreId::new(IslandId(RECEIVER), 0).index()].dma_arrives_ns[DMA_HOME as usize];
        assert_eq!(place.load(Ordering::SeqCst), 0, "the place is not free");
        assert_eq!(taken.load(Relaxed), 1, "times that the thread was taken");
    }
}

#[test]
fn a_thread_whose_sender_dies_is_taken_once() {
    explore(3000, death(ALL));
}

#[test]
fn leaving_transfers_of_a_dead_core_unsettled_is_caught() {
    must_be_caught(3000, death(Steps { settles: false, ..ALL }));
}

#[test]
fn saying_too_early_that_nothing_is_under_way_is_caught() {
    must_be_caught(3000, death(Steps { is_under_way: false, ..ALL }));
}

#[test]
fn a_claim_without_a_name_is_caught() {
    must_be_caught(3000, death(Steps { names_claimer: false, ..ALL }));
}
