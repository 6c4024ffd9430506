//! Cores that are taken out and come back while others give them threads: no thread is lost, none runs on a core that is out, and nobody waits
//! for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use motet_layout::{CORE_IDLE, CORE_OUT, CoreId, IslandId, PENDING_LEAVES, THREAD_READY, ThreadRecord};
use motet_layout::{handshake::then_look, sync::Ordering};
use motet_protocol::cores::core_record;
use motet_protocol::{Context, handed, hotplug, run_queue};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

/// The core that is taken out, and the one that stays.
const LEAVER: u8 = 0;
const STAYS: u8 = 1;
const WAKERS: u8 = 2;
const THREADS_EACH: usize = 2;
const THREADS: u32 = WAKERS as u32 * THREADS_EACH as u32;

fn leaver() -> CoreId {
    CoreId::new(IslandId(LEAVER), 0)
}

/// The steps of the protocol, to be left out or reordered.
#[derive(Clone, Copy)]
struct Steps {
    /// A waker brings a thread.
    bring: fn(&Core, &'static ThreadRecord),
    /// The core says that it is out.
    leave: fn(&Core),
    /// It may sleep while it is out.
    may_sleep: fn(&Core) -> bool,
    /// It may sleep while it is in use.
    may_idle: fn(&Core) -> bool,
}

const RIGHT: Steps = Steps {
    bring: |core, thread| run_queue::hand_over(core, thread),
    leave: |core| hotplug::leave(core),
    may_sleep: |core| hotplug::may_sleep(core),
    may_idle: |core| !hotplug::is_asked(core),
};

/// What the actors share.
#[derive(Clone, Default)]
struct Run {
    taken: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
    /// The core has been told that it is out, and not been asked back yet.
    is_out: Arc<AtomicBool>,
}

impl Run {
    /// A core runs a thread.
    fn take(&self, core: &Core, thread: &ThreadRecord) {
        let is_leavers = core.core() == leaver();
        assert!(!(is_leavers && self.is_out.load(Relaxed)), "a thread runs on a core that is out");
        assert_eq!(thread.state.load(Ordering::Relaxed), THREAD_READY);
        self.taken.fetch_add(1, Relaxed);
    }

    fn has_all(&self) -> bool {
        self.taken.load(Relaxed) == THREADS
    }
}

fn give_all(core: &Core) {
    while let Some(thread) = run_queue::next(core) {
        // As a kernel that takes another core for a thread of this one.
        run_queue::push(core, thread, CoreId::new(IslandId(STAYS), 0));
    }
}

/// A core in use has nothing to run. It has taken the interrupts that there were, whatever they were for. What it is handed runs at once, unless something is due.
fn idle(core: &Core, run: &Run, may_idle: fn(&Core) -> bool) {
    core.forget_ring();
    if run_queue::begin_idle(core, CORE_IDLE) && may_idle(core) && !run.is_over.load(Relaxed) {
        core.sleep();
    }
    match run_queue::end_idle_with(core).1 {
        Some(thread) if !hotplug::is_asked(core) && !run_queue::has_ready(core.own_record()) => {
            thread.state.store(THREAD_READY, Ordering::Relaxed);
            run.take(core, thread);
        }
        given => given.into_iter().for_each(|thread| handed::make_ready(core, thread)),
    }
}

/// Runs what it is given until the run is over.
fn stay(core: &Core, run: &Run) {
    while !run.is_over.load(Relaxed) {
        match run_queue::next(core) {
            Some(thread) => run.take(core, thread),
            None => idle(core, run, |_| true),
        }
    }
}

/// The same, and leaves when it is asked to.
fn come_and_go(core: &Core, run: &Run, steps: Steps) {
    while !run.is_over.load(Relaxed) {
        if hotplug::is_asked(core) {
            stay_out(core, run, steps);
            continue;
        }
        match run_queue::next(core) {
            Some(thread) => run.take(core, thread),
            None => idle(core, run, steps.may_idle),
        }
    }
}

fn stay_out(core: &Core, run: &Run, steps: Steps) {
    (steps.leave)(core);
    while hotplug::is_asked(core) && !run.is_over.load(Relaxed) {
        give_all(core);
        // It waits for a lock, say, and takes interrupts meanwhile.
        core.forget_ring();
        if (steps.may_sleep)(core) && !run.is_over.load(Relaxed) {
            core.sleep();
        }
    }
    give_all(core);
    hotplug::come_back(core);
}

/// Takes the core out, looks whether it gets any threads, and lets it come back or not.
fn ask(core: &Core, run: &Run, comes_back: bool) {
    let ask = |leaves: bool| {
        let pending = &core_record(core, leaver()).pending;
        if leaves {
            pending.fetch_or(PENDING_LEAVES, Ordering::SeqCst);
        } else {
            pending.fetch_and(!PENDING_LEAVES, Ordering::SeqCst);
        }
        core.ring(leaver());
        while !hotplug::is_done(core, leaver()) {
            core.relax();
        }
    };
    ask(true);
    run.is_out.store(true, Relaxed);
    if comes_back {
        core.relax();
        run.is_out.store(false, Relaxed);
        ask(false);
    }
}

/// Who asks goes on until all threads have run, and ends the run.
fn end(core: &Core, run: &Run) {
    while !run.has_all() {
        core.relax();
    }
    run.is_over.store(true, Relaxed);
    for island in [LEAVER, STAYS] {
        core.ring(CoreId::new(IslandId(island), 0));
    }
}

fn model(steps: Steps, comes_back: bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells, run) = (Objects::new(pool, base), Arc::new(Bells::default()), Run::default());
        quietly(|| pool.header().island_count.set(5));
        let core = |island| Core::new(pool, island, &bells);
        let (goes, stays, asks) = (core(LEAVER), core(STAYS), core(2));
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for waker in (3..3 + WAKERS).map(core) {
            let threads: Vec<_> = (0..THREADS_EACH).map(|_| objects.thread(leaver())).collect();
            actors.push(Box::new(move || {
                for thread in threads {
                    thread.state.store(run_queue::in_transit_by(waker.core()), Ordering::Relaxed);
                    (steps.bring)(&waker, thread);
                }
            }));
        }
        let of_leaver = run.clone();
        actors.push(Box::new(move || come_and_go(&goes, &of_leaver, steps)));
        let of_other = run.clone();
        actors.push(Box::new(move || stay(&stays, &of_other)));
        actors.push(Box::new(move || {
            ask(&asks, &run, comes_back);
            end(&asks, &run);
        }));
        together(actors);
        quietly(|| {
            for island in [LEAVER, STAYS] {
                let record = &pool.header().cores[CoreId::new(IslandId(island), 0).index()];
                assert_eq!(record.inbox_count.load(Ordering::Relaxed), 0, "threads are counted that are not there");
            }
        });
    }
}

#[test]
fn threads_for_a_core_that_is_out_run_elsewhere() {
    explore(1000, model(RIGHT, false));
}

#[test]
fn a_core_that_comes_back_takes_threads_again() {
    explore(1000, model(RIGHT, true));
}

/// In the word of the core's state if that is idle, as a kernel brings a thread that has been there before.
fn give(core: &Core, thread: &'static ThreadRecord) {
    thread.core.store(u32::from(leaver().0), Ordering::Release);
    if !handed::give(core, thread, leaver()) {
        run_queue::push(core, thread, leaver());
    }
}

#[test]
fn a_core_that_is_asked_to_leave_gives_away_what_it_was_handed() {
    for comes_back in [false, true] {
        explore(1000, model(Steps { bring: give, ..RIGHT }, comes_back));
    }
}

/// It forgets that it may have been handed a thread when it says that it is out.
#[test]
fn leaving_with_a_thread_in_the_state_is_caught() {
    let leave = |core: &Core| {
        if run_queue::begin_idle(core, CORE_IDLE) {
            core.relax();
        }
        core.own_record().state.store(CORE_OUT, Ordering::SeqCst);
        then_look();
    };
    must_be_caught(5000, model(Steps { bring: give, leave, ..RIGHT }, false));
}

/// Who has chosen the core before it left is not heard.
#[test]
fn not_ringing_a_core_that_is_out_is_caught() {
    let bring = |core: &Core, thread: &'static ThreadRecord| {
        let record = core_record(core, leaver());
        thread.state.store(THREAD_READY, Ordering::Relaxed);
        let raw = core.raw(thread);
        let mut head = record.inbox.load(Ordering::Relaxed);
        let _counted = run_queue::count_on(core, leaver());
        loop {
            thread.queue_next.store(head, Ordering::Relaxed);
            match record.inbox.compare_exchange_weak(head, raw, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(found) => head = found,
            }
        }
        if record.state.load(Ordering::SeqCst) != CORE_OUT {
            run_queue::wake_core(core, leaver());
        }
    };
    must_be_caught(20_000, model(Steps { bring, ..RIGHT }, false));
}

#[test]
fn sleeping_out_of_use_without_a_second_look_is_caught() {
    must_be_caught(20_000, model(Steps { may_sleep: |_| true, ..RIGHT }, false));
}

/// It looks what there is, and then says that it is out.
#[test]
fn looking_before_saying_so_is_caught() {
    let leave = |_: &Core| ();
    let may_sleep = |core: &Core| {
        let is_quiet = hotplug::may_sleep(core);
        core.own_record().state.store(CORE_OUT, Ordering::SeqCst);
        is_quiet
    };
    must_be_caught(20_000, model(Steps { leave, may_sleep, ..RIGHT }, false));
}

/// The doorbell has been taken for something else before the core looks whether it is asked.
#[test]
fn falling_asleep_without_a_look_whether_one_is_asked_is_caught() {
    must_be_caught(20_000, model(Steps { may_idle: |_| true, ..RIGHT }, false));
}
