//! A thread waits in its core while another one's guest runs there: one core raises an interrupt for its guest, another one wants the thread. Both are seen, whether
//! they come while it waits in the core, before, or while the core makes it wait in a queue.

use std::sync::Arc;

use motet_layout::{
    CoreId, IslandId, THREAD_RUNNING, ThreadRecord, VcpuRecord, WAKE_SIGNAL, handshake::then_look, sync::Ordering,
};
use motet_protocol::{Context, stacked, wait};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, together};

/// Steps that broken twins do otherwise.
#[derive(Clone, Copy)]
struct Steps {
    begin: fn(&Core, &'static ThreadRecord) -> bool,
    /// The guest leaves the core before it is looked whether an interrupt has come.
    leaves_first: bool,
    /// Who wants the thread looks whether it waits in its core.
    looks: bool,
}

const RIGHT: Steps = Steps { begin: |core, thread| stacked::begin(core, thread), leaves_first: true, looks: true };

fn model(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let [core, raiser, killer] = [0, 1, 2].map(|island| Core::new(pool, island, &bells));
        let other = raiser.clone();
        let (vcpu, thread) = (objects.make::<VcpuRecord>(), objects.thread(CoreId::new(IslandId(0), 0)));
        together(vec![
            // For something else.
            Box::new(move || other.ring(CoreId::new(IslandId(0), 0))),
            Box::new(move || {
                let (mut is_raised, mut is_wanted) = (false, false);
                loop {
                    is_wanted |= thread.attention.swap(0, Ordering::SeqCst) != 0;
                    vcpu.in_guest.store(1, Ordering::Release);
                    then_look();
                    is_raised |= vcpu.raised.swap(0, Ordering::SeqCst) != 0;
                    if is_raised && is_wanted {
                        break;
                    }
                    if (steps.begin)(&core, thread) {
                        core.sleep(); // the other guest runs until the core is rung
                        stacked::end(core.own_record());
                    }
                    is_raised |= waits_in_queue(&core, thread, vcpu, steps);
                }
            }),
            Box::new(move || {
                vcpu.raised.fetch_or(1, Ordering::SeqCst);
                match vcpu.in_guest.load(Ordering::SeqCst) {
                    0 => drop(wait::wake(&raiser, &vcpu.waiters)),
                    _ => raiser.ring(CoreId::new(IslandId(0), 0)),
                }
            }),
            Box::new(move || {
                thread.attention.store(1, Ordering::Release);
                let waits = || stacked::waits_in(&killer, CoreId::new(IslandId(0), 0), thread);
                if !wait::wake_thread(&killer, thread, WAKE_SIGNAL) && steps.looks && waits() {
                    killer.ring(CoreId::new(IslandId(0), 0));
                }
            }),
        ]);
    }
}

/// The thread waits as any other, unless something has come. Whether that was an interrupt for its guest.
fn waits_in_queue(core: &Core, thread: &'static ThreadRecord, vcpu: &'static VcpuRecord, steps: Steps) -> bool {
    let leave = || vcpu.in_guest.store(0, Ordering::Release);
    if steps.leaves_first {
        leave();
    }
    wait::prepare(thread);
    assert!(wait::enqueue(core, thread, &vcpu.waiters, 0, u32::MAX));
    let is_raised = vcpu.raised.swap(0, Ordering::SeqCst) != 0;
    if !steps.leaves_first {
        leave();
    }
    if !is_raised && thread.attention.load(Ordering::SeqCst) == 0 && wait::commit(thread) {
        assert!(std::ptr::eq(core.next_thread(), thread), "another thread was handed over");
        thread.state.store(THREAD_RUNNING, Ordering::Relaxed);
    }
    wait::finish(core, thread);
    is_raised
}

#[test]
fn what_comes_for_a_thread_that_waits_in_its_core_is_seen() {
    explore(1500, model(RIGHT));
}

/// The core looks at the attention word before it stores who waits.
#[test]
fn a_thread_that_waits_in_its_core_unseen_is_caught() {
    fn begin(core: &Core, thread: &'static ThreadRecord) -> bool {
        let is_wanted = thread.attention.load(Ordering::SeqCst) != 0;
        core.own_record().stacked.store(core.raw(thread), Ordering::SeqCst);
        if is_wanted {
            stacked::end(core.own_record());
        }
        !is_wanted
    }
    must_be_caught(20_000, model(Steps { begin, ..RIGHT }));
}

/// Who wants the thread only looks whether it waits in a queue.
#[test]
fn who_does_not_ring_for_a_thread_that_waits_in_its_core_is_caught() {
    must_be_caught(1500, model(Steps { looks: false, ..RIGHT }));
}

/// The guest is in the core until all is done.
#[test]
fn a_guest_that_leaves_its_core_too_late_is_caught() {
    must_be_caught(10_000, model(Steps { leaves_first: false, ..RIGHT }));
}
