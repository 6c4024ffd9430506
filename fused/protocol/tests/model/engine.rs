//! Transfer engines: who takes a completion finds the bytes, and an engine touches no memory after its completion.

use std::sync::Arc;

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{CoreId, DMA_OK, DMA_RING, DmaEngine, IslandId, PoolAddr, pool_struct};
use motet_protocol::{
    Context,
    engine::{self, Transfer},
    lock::lock,
};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

/// Kernels that use the same engine.
const KERNELS: u8 = 2;
const TRANSFERS: u64 = 2;
/// What memory holds that was given back.
const FREE: u64 = 0xdead;

pool_struct! {
    /// A transfer of 64 bytes, whose first ones matter.
    struct Asked: size 192, align 64 {
        0 from: [AtomicU64; 8],
        64 to: [AtomicU64; 8],
        128 is_over: AtomicU64,
        136 _pad: [AtomicU64; 7],
    }
}

/// Steps of the protocol, as they are and in another order.
#[derive(Clone, Copy)]
struct Steps {
    /// The descriptor is there before `tail` moves.
    descriptor_first: bool,
    /// The bytes are there before `head` moves.
    bytes_first: bool,
    /// Memory is kept until the completion has been taken.
    keeps: bool,
    /// Who takes a completion holds the lock.
    locks: bool,
}

const ALL: Steps = Steps { descriptor_first: true, bytes_first: true, keeps: true, locks: true };

fn submit(core: &Core, steps: Steps, engine: &'static DmaEngine, asked: &'static Asked) {
    let at = core.pool().addr_of(asked);
    let transfer = Transfer { source: at, destination: at.add(64), bytes: 64, flags: 0, core: core.core(), id: at.0 };
    if steps.descriptor_first {
        assert!(engine::submit(core, engine, &transfer, || {}), "there is room");
        return;
    }
    let _guard = lock(core, &engine.lock);
    let tail = engine.tail.fetch_add(1, Ordering::SeqCst);
    core.relax();
    let slot = &engine.ring[tail as usize % DMA_RING];
    slot.source.set(transfer.source.0);
    slot.destination.set(transfer.destination.0);
    slot.bytes.set(transfer.bytes);
    slot.id.set(transfer.id);
}

/// The engine; whether it had anything to do.
fn serve(core: &Core, steps: Steps, engine: &'static DmaEngine) -> bool {
    if steps.bytes_first {
        return engine::serve(core.pool(), engine, |_, _, _| {}, |_| 0).is_some();
    }
    let head = engine.head.load(Ordering::SeqCst);
    if head == engine.tail.load(Ordering::SeqCst) {
        return false;
    }
    let slot = &engine.ring[head as usize % DMA_RING];
    let (from, to, bytes) = (slot.source.get(), slot.destination.get(), slot.bytes.get());
    slot.done.set(bytes);
    engine.head.store(head + 1, Ordering::SeqCst);
    core.relax();
    core.pool().copy(PoolAddr(from), PoolAddr(to), bytes as usize);
    true
}

/// Takes completions, whosesoever they are.
fn collect(core: &Core, steps: Steps, engine: &'static DmaEngine) {
    while let Some((id, done)) = take(core, steps, engine) {
        assert_eq!(done, 64, "all was copied");
        let asked = core.pool().at::<Asked>(PoolAddr(id));
        if steps.keeps {
            assert_eq!(asked.to[0].load(Ordering::SeqCst), asked.from[0].load(Ordering::SeqCst), "the bytes are there");
            asked.to[0].store(FREE, Ordering::SeqCst);
        }
        assert_eq!(asked.is_over.fetch_add(1, Ordering::SeqCst), 0, "it was over before");
    }
}

fn take(core: &Core, steps: Steps, engine: &'static DmaEngine) -> Option<(u64, u64)> {
    if steps.locks {
        let completion = engine::take(core, engine)?;
        assert_eq!(completion.error, DMA_OK, "the engine found what was written");
        return Some((completion.id, completion.done));
    }
    let taken = engine.taken.load(Ordering::SeqCst);
    if taken == engine.head.load(Ordering::SeqCst) {
        return None;
    }
    let slot = &engine.ring[taken as usize % DMA_RING];
    let found = (slot.id.get(), slot.done.get());
    engine.taken.store(taken + 1, Ordering::SeqCst);
    Some(found)
}

fn model(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let engine = &pool.header().dma[0];
        let all: Vec<&'static Asked> =
            (0..u64::from(KERNELS) * TRANSFERS).map(|_| quietly(|| objects.make::<Asked>())).collect();
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for (island, own) in (0..KERNELS).zip(all.chunks(TRANSFERS as usize)) {
            let (core, own) = (Core::new(pool, island, &bells), own.to_vec());
            actors.push(Box::new(move || {
                for (number, asked) in (1..).zip(&own) {
                    asked.from[0].store(u64::from(island) << 8 | number, Ordering::SeqCst);
                    submit(&core, steps, engine, asked);
                    if !steps.keeps {
                        asked.to[0].store(FREE, Ordering::SeqCst);
                    }
                }
                while own.iter().any(|asked| asked.is_over.load(Ordering::SeqCst) == 0) {
                    collect(&core, steps, engine);
                    core.relax();
                }
            }));
        }
        let core = Core::new(pool, KERNELS, &bells);
        assert_ne!(core.core(), CoreId::new(IslandId(0), 0));
        let count = all.len();
        actors.push(Box::new(move || {
            let mut served = 0;
            while served < count {
                if serve(&core, steps, engine) {
                    served += 1;
                } else {
                    core.relax();
                }
            }
        }));
        together(actors);
        let is_free = |asked: &&Asked| asked.to[0].load(Ordering::SeqCst) == FREE;
        assert!(quietly(|| all.iter().all(is_free)), "memory was written after it had been given back");
    }
}

#[test]
fn every_transfer_is_over_once_and_then_its_bytes_are_there_and_its_memory_is_left_alone() {
    explore(1500, model(ALL));
}

#[test]
fn a_completion_before_the_bytes_is_caught() {
    must_be_caught(1500, model(Steps { bytes_first: false, ..ALL }));
}

#[test]
fn a_tail_that_moves_before_the_descriptor_is_written_is_caught() {
    must_be_caught(1500, model(Steps { descriptor_first: false, ..ALL }));
}

#[test]
fn memory_given_back_before_the_completion_is_caught() {
    must_be_caught(1500, model(Steps { keeps: false, ..ALL }));
}

#[test]
fn completions_taken_without_the_lock_are_caught() {
    must_be_caught(1500, model(Steps { locks: false, ..ALL }));
}
