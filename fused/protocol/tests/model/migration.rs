//! Migration engines: a descriptor arrives whole and once, and whoever it brings finds the thread descheduled.

use std::sync::Arc;

use motet_layout::sync::Ordering;
use motet_layout::{CoreId, DMA_AWAY, DMA_HOME, Descriptor, IslandId, PoolAddr, ThreadRecord};
use motet_protocol::{Context, dma};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, together};

/// Cores that each have a thread; the core behind them runs functions for all.
const HOMES: u8 = 2;
const CALLS: u64 = 2;
/// Both words of a descriptor here: the thread, and the number of its call or return.
const FIRST: usize = 0;
const LAST: usize = 19;

/// Steps of the protocol, as they are and left out.
#[derive(Clone, Copy)]
struct Steps {
    /// The thread belongs to the other core before its transfer starts (Flick, section IV-D).
    leaves_first: bool,
    /// The receiver has read before it clears the status.
    reads_first: bool,
    /// The engine claims the receiver's place before it copies.
    claims: bool,
}

const ALL: Steps = Steps { leaves_first: true, reads_first: true, claims: true };

/// Sends a thread from one core to another, whose descriptor has `number` in its last word.
fn send(core: &Core, steps: Steps, thread: &'static ThreadRecord, target: CoreId, place: u32, number: u64) {
    let cores = &core.pool().header().cores;
    let (own, receiver) = (&cores[core.core().index()], &cores[target.index()]);
    own.dma_out[FIRST].set(core.raw(thread));
    own.dma_out[LAST].set(number);
    own.dma_place.set(place);
    let leave = || thread.core.store(u32::from(target.0), Ordering::SeqCst);
    if steps.leaves_first {
        leave();
    }
    while !transfer(core, steps, own, receiver) {
        core.relax();
    }
    core.ring(target);
    if !steps.leaves_first {
        leave();
    }
}

fn transfer(core: &Core, steps: Steps, own: &motet_layout::CoreRecord, receiver: &motet_layout::CoreRecord) -> bool {
    if steps.claims {
        return dma::transfer(core.core(), own, receiver, 1);
    }
    let place = own.dma_place.get() as usize;
    if receiver.dma_arrives_ns[place].load(Ordering::SeqCst) != 0 {
        return false;
    }
    for (word, from) in receiver.dma_in[place].words.iter().zip(&own.dma_out) {
        word.set(from.get());
    }
    receiver.dma_arrives_ns[place].store(1, Ordering::SeqCst);
    true
}

/// Waits for a descriptor; the thread that it brings must be this core's. Returns it, and the number.
fn receive(core: &Core, steps: Steps, place: u32) -> (&'static ThreadRecord, u64) {
    let own = core.own_record();
    let descriptor: &'static Descriptor = loop {
        match dma::arrival(own, place) {
            Some((descriptor, _)) => break descriptor,
            None => core.sleep(),
        }
    };
    if !steps.reads_first {
        dma::clear(own, place);
        core.relax();
    }
    let (address, number) = (descriptor.words[FIRST].get(), descriptor.words[LAST].get());
    if steps.reads_first {
        dma::clear(own, place);
    }
    let thread = core.pool().get::<ThreadRecord>(PoolAddr(address)).expect("a descriptor names a thread");
    assert_eq!(thread.core.load(Ordering::SeqCst), u32::from(core.core().0), "its sender has the thread still");
    (thread, number)
}

fn model(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let core_of = |island| CoreId::new(IslandId(island), 0);
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for island in 0..HOMES {
            let (core, thread) = (Core::new(pool, island, &bells), objects.thread(core_of(island)));
            actors.push(Box::new(move || {
                for call in 0..CALLS {
                    let number = u64::from(island) << 8 | call;
                    send(&core, steps, thread, core_of(HOMES), DMA_AWAY, number);
                    let (returned, result) = receive(&core, steps, DMA_HOME);
                    assert!(std::ptr::eq(returned, thread), "another thread came home");
                    assert_eq!(result, number + 0x1000, "the result of another call");
                }
            }));
        }
        let away = Core::new(pool, HOMES, &bells);
        actors.push(Box::new(move || {
            for _ in 0..u64::from(HOMES) * CALLS {
                let (thread, number) = receive(&away, steps, DMA_AWAY);
                send(&away, steps, thread, core_of((number >> 8) as u8), DMA_HOME, number + 0x1000);
            }
        }));
        together(actors);
    }
}

#[test]
fn every_descriptor_arrives_once_at_who_may_run_its_thread() {
    explore(1500, model(ALL));
}

/// The race for which Flick changes Linux's scheduler.
#[test]
fn a_transfer_before_the_thread_is_descheduled_is_caught() {
    must_be_caught(1500, model(Steps { leaves_first: false, ..ALL }));
}

#[test]
fn clearing_the_status_before_reading_is_caught() {
    must_be_caught(1500, model(Steps { reads_first: false, ..ALL }));
}

#[test]
fn two_engines_that_do_not_claim_a_place_are_caught() {
    must_be_caught(1500, model(Steps { claims: false, ..ALL }));
}
