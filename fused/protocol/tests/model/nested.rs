//! A core takes a thread out of its wait, runs its guest, and has the thread wait again, which has stayed in its queue all the time. Another core raises two interrupts
//! for the guest meanwhile. Both are seen.

use std::{cell::Cell, sync::Arc};

use motet_layout::{
    CoreId, IslandId, THREAD_RUNNING, ThreadRecord, VcpuRecord, WAKE_TIMEOUT, WaitQueue, handshake::then_look,
    sync::Ordering,
};
use motet_protocol::{Context, timer, wait};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

type PrepareAgain = fn(&Core, &'static ThreadRecord, &'static WaitQueue) -> bool;

fn model(prepare_again: PrepareAgain) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let [core, raiser] = [0, 1].map(|island| Core::new(pool, island, &bells));
        let (vcpu, thread) = (objects.make::<VcpuRecord>(), objects.thread(CoreId::new(IslandId(0), 0)));
        quietly(|| {
            wait::prepare(thread);
            assert!(wait::enqueue(&core, thread, &vcpu.waiters, 0, u32::MAX));
            timer::arm(&core, &thread.timer, 10);
            assert!(wait::commit(thread));
        });
        together(vec![
            Box::new(move || {
                let taken = Cell::new(false);
                timer::expire_first(&core, 20, |_| {
                    taken.set(wait::take_thread(&core, thread, WAKE_TIMEOUT));
                    true
                });
                let mut seen = 0;
                if taken.get() {
                    thread.state.store(THREAD_RUNNING, Ordering::Relaxed);
                    seen = run(vcpu);
                    if seen != 3 && prepare_again(&core, thread, &vcpu.waiters) {
                        seen |= block(&core, thread, vcpu);
                    }
                } else {
                    go_on(&core, thread);
                }
                wait::finish(&core, thread);
                loop {
                    seen |= run(vcpu);
                    if seen == 3 {
                        break;
                    }
                    wait::prepare(thread);
                    assert!(wait::enqueue(&core, thread, &vcpu.waiters, 0, u32::MAX));
                    seen |= block(&core, thread, vcpu);
                    wait::finish(&core, thread);
                }
            }),
            Box::new(move || {
                for interrupt in [1, 2] {
                    vcpu.raised.fetch_or(interrupt, Ordering::SeqCst);
                    match vcpu.in_guest.load(Ordering::SeqCst) {
                        0 => drop(wait::wake(&raiser, &vcpu.waiters)),
                        _ => raiser.ring(CoreId::new(IslandId(0), 0)),
                    }
                }
            }),
        ]);
    }
}

/// The guest runs, and takes what has been raised.
fn run(vcpu: &VcpuRecord) -> u32 {
    vcpu.in_guest.store(1, Ordering::Release);
    then_look();
    let taken = vcpu.raised.swap(0, Ordering::SeqCst);
    vcpu.in_guest.store(0, Ordering::Release);
    taken
}

/// The thread, which has prepared to wait, does so unless something has been raised.
fn block(core: &Core, thread: &'static ThreadRecord, vcpu: &VcpuRecord) -> u32 {
    let raised = vcpu.raised.swap(0, Ordering::SeqCst);
    if raised == 0 && wait::commit(thread) {
        go_on(core, thread);
    }
    raised
}

fn go_on(core: &Core, thread: &'static ThreadRecord) {
    assert!(std::ptr::eq(core.next_thread(), thread), "another thread was handed over");
    thread.state.store(THREAD_RUNNING, Ordering::Relaxed);
}

#[test]
fn what_comes_for_a_thread_that_stays_in_its_queue_is_seen() {
    explore(3000, model(|core, thread, queue| wait::prepare_again(core, thread, queue)));
}

/// The core looks whether the thread is still in the queue, and does not take the lock for that.
#[test]
fn a_thread_that_is_just_being_taken_out_is_caught() {
    must_be_caught(
        20_000,
        model(|core, thread, queue| {
            wait::prepare(thread);
            thread.nodes[0].queue.load(Ordering::SeqCst) == core.raw(queue)
        }),
    );
}
