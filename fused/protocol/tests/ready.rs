//! Ready threads of a core: users get equal shares, however many threads they have; a user's threads run by nice value;
//! none is forgotten.

#[allow(dead_code)]
mod files_support;

use std::collections::HashMap;

use files_support::Actor;
use motet_abi::process::{SCHED_FIFO, SCHED_IDLE, SCHED_OTHER, SCHED_RR};
use motet_layout::{
    CORE_AWAKE, CORE_IDLE, CORES_MAX, CoreRecord, ProcessRecord, READY_GROUPS, ThreadRecord, sync::Ordering,
};
use motet_protocol::{
    Context,
    ready::{self, Position},
    run_queue,
    schedule::{self, Schedule},
    slab,
};
use proptest::prelude::*;

const SLICE_NS: u64 = 10_000_000;

struct Core {
    actor: Actor,
    record: &'static CoreRecord,
}

impl Core {
    fn new() -> Self {
        let actor = Actor::new(32 << 20);
        Self { actor, record: &actor.pool().header().cores[CORES_MAX / 2] }
    }

    fn process(&self, user: u32) -> &'static ProcessRecord {
        let process = slab::alloc::<ProcessRecord>(&self.actor).unwrap();
        process.credentials.users[0].set(user);
        process
    }

    fn thread(&self, process: &'static ProcessRecord, nice: i32) -> &'static ThreadRecord {
        let thread = slab::alloc::<ThreadRecord>(&self.actor).unwrap();
        thread.process.store(self.actor.raw(process), Ordering::Relaxed);
        thread.nice.set(nice.cast_unsigned());
        thread
    }

    fn add(&self, thread: &'static ThreadRecord, place: Position) {
        ready::add(&self.actor, self.record, thread, place);
    }

    fn take(&self) -> Option<&'static ThreadRecord> {
        ready::take(&self.actor, self.record)
    }

    /// Runs the next thread for a slice; its user.
    fn run_slice(&self) -> u32 {
        let thread = self.take().unwrap();
        ready::charge(self.record, SLICE_NS);
        self.add(thread, Position::Last);
        user_of(self, thread)
    }
}

fn user_of(core: &Core, thread: &ThreadRecord) -> u32 {
    core.actor.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed)).unwrap().credentials.users[0].get()
}

#[test]
fn users_get_equal_shares_however_many_threads_they_have() {
    let core = Core::new();
    let many = core.process(1000);
    for _ in 0..500 {
        core.add(core.thread(many, -20), Position::ByRank);
    }
    core.add(core.thread(core.process(0), 19), Position::ByRank);
    let mut slices = HashMap::new();
    for _ in 0..100 {
        *slices.entry(core.run_slice()).or_insert(0) += 1;
    }
    assert_eq!(slices, HashMap::from([(0, 50), (1000, 50)]));
}

#[test]
fn who_comes_back_runs_soon_and_has_saved_nothing_up() {
    let core = Core::new();
    let many = core.process(1000);
    for _ in 0..100 {
        core.add(core.thread(many, 0), Position::ByRank);
    }
    for _ in 0..1000 {
        assert_eq!(core.run_slice(), 1000);
    }
    core.add(core.thread(core.process(0), 0), Position::ByRank);
    let users: Vec<u32> = (0..20).map(|_| core.run_slice()).collect();
    assert!(users[..2].contains(&0), "{users:?}");
    assert_eq!(users.iter().filter(|&&user| user == 0).count(), 10, "{users:?}");
}

#[test]
fn threads_of_one_user_run_by_nice_value_and_age() {
    let core = Core::new();
    let process = core.process(7);
    let threads: Vec<_> = [0, 5, -5, 0, 5].iter().map(|&nice| core.thread(process, nice)).collect();
    for thread in &threads {
        core.add(thread, Position::ByRank);
    }
    let order: Vec<usize> = std::iter::from_fn(|| core.take())
        .map(|taken| threads.iter().position(|thread| std::ptr::eq(*thread, taken)).unwrap())
        .collect();
    assert_eq!(order, [2, 0, 3, 1, 4]);
}

fn schedule(thread: &ThreadRecord, policy: u32, priority: u32) {
    schedule::set(thread, Schedule::new(policy, priority, false).unwrap());
}

/// Which of `threads` come, in which order.
fn order(core: &Core, threads: &[&'static ThreadRecord]) -> Vec<usize> {
    std::iter::from_fn(|| core.take())
        .map(|taken| threads.iter().position(|thread| std::ptr::eq(*thread, taken)).unwrap())
        .collect()
}

#[test]
fn real_time_threads_come_before_all_others_by_priority_and_age() {
    let core = Core::new();
    let (superuser, user) = (core.process(0), core.process(1000));
    let threads = [0, 1, 1, 50, 1].map(|priority| {
        let thread = core.thread(if priority == 1 { user } else { superuser }, -20);
        schedule(thread, if priority == 0 { SCHED_OTHER } else { SCHED_FIFO }, priority);
        core.add(thread, Position::ByRank);
        thread
    });
    assert_eq!(order(&core, &threads), [3, 1, 2, 4, 0]);
}

#[test]
fn who_was_interrupted_comes_before_its_equals_and_whose_round_is_over_behind_them() {
    let core = Core::new();
    let process = core.process(0);
    let threads = [5, 5, 3, 5].map(|priority| {
        let thread = core.thread(process, 0);
        schedule(thread, SCHED_RR, priority);
        thread
    });
    for index in [1, 2] {
        core.add(threads[index], Position::ByRank);
    }
    core.add(threads[0], Position::First);
    core.add(threads[3], Position::Last);
    assert_eq!(order(&core, &threads), [0, 1, 3, 2]);
}

#[test]
fn real_time_threads_that_are_held_back_come_when_nobody_else_waits() {
    let core = Core::new();
    let process = core.process(0);
    let threads = [0, 7, 0].map(|priority| {
        let thread = core.thread(process, 0);
        schedule(thread, if priority == 0 { SCHED_OTHER } else { SCHED_FIFO }, priority);
        core.add(thread, Position::ByRank);
        thread
    });
    assert!(std::ptr::eq(ready::first_realtime(&core.actor, core.record).unwrap(), threads[1]));
    ready::hold(core.record, true);
    assert!(ready::first_realtime(&core.actor, core.record).is_none() && ready::has_ordinary(core.record));
    assert_eq!(order(&core, &threads), [0, 2, 1]);
}

#[test]
fn threads_whose_policies_change_are_sorted_anew() {
    let core = Core::new();
    let process = core.process(0);
    let threads = [0, 0, 4, 0].map(|priority| {
        let thread = core.thread(process, 0);
        schedule(thread, if priority == 0 { SCHED_OTHER } else { SCHED_FIFO }, priority);
        core.add(thread, Position::ByRank);
        thread
    });
    schedule(threads[2], SCHED_OTHER, 0);
    schedule(threads[1], SCHED_IDLE, 0);
    schedule(threads[3], SCHED_RR, 9);
    ready::sort(&core.actor, core.record);
    assert_eq!(core.record.ready_count.load(Ordering::Relaxed), 4);
    assert_eq!(order(&core, &threads), [3, 2, 0, 1]);
}

#[test]
fn what_real_time_threads_use_is_not_their_users() {
    let core = Core::new();
    let (first, second) = (core.process(0), core.process(1000));
    let urgent = core.thread(first, 0);
    schedule(urgent, SCHED_FIFO, 1);
    for process in [first, second] {
        core.add(core.thread(process, 0), Position::ByRank);
    }
    let mut users = Vec::new();
    for _ in 0..10 {
        core.add(urgent, Position::ByRank);
        assert!(std::ptr::eq(core.take().unwrap(), urgent));
        ready::charge(core.record, 5 * SLICE_NS);
        users.push(core.run_slice());
    }
    assert_eq!(users.iter().filter(|&&user| user == 0).count(), 5, "{users:?}");
    assert_eq!(ready::realtime_ns(core.record), 50 * SLICE_NS);
}

#[test]
fn groups_without_threads_are_passed_over() {
    let core = Core::new();
    core.add(core.thread(core.process(3), 0), Position::ByRank);
    for group in &core.record.ready_groups {
        group.first.set(0);
    }
    core.record.ready_mask.set(u32::MAX);
    // Bits of groups that there are not serve nobody.
    assert!(core.take().is_none());
    core.record.ready_mask.set(0);
    core.add(core.thread(core.process(3), 0), Position::ByRank);
    assert!(core.take().is_some());
}

/// A core that computes takes nothing out of its inbox for a whole slice. What lies there is its load all the same: otherwise all
/// threads that come meanwhile would choose it.
#[test]
fn threads_on_their_way_to_a_core_are_its_load() {
    let mut core = Core::new();
    core.actor = core.actor.on_core((CORES_MAX / 2) as u8);
    let (id, record) = (core.actor.core(), core.record);
    assert_eq!(run_queue::load(&core.actor, id), 1, "it is awake");
    record.state.store(CORE_IDLE, Ordering::Relaxed);
    assert_eq!(run_queue::load(&core.actor, id), 0);
    record.state.store(CORE_AWAKE, Ordering::Relaxed);
    record.current_thread.store(core.actor.raw(core.thread(core.process(3), 0)), Ordering::Relaxed);
    for waiting in 1..=3 {
        run_queue::push(&core.actor, core.thread(core.process(3), 0), id);
        assert_eq!(run_queue::load(&core.actor, id), 1 + waiting);
    }
    // Somebody who has seen less has to look again.
    assert!(run_queue::reserve(&core.actor, id, 3).is_none());
    assert_eq!(run_queue::load(&core.actor, id), 1 + 3);
    let place = run_queue::reserve(&core.actor, id, 4).unwrap();
    assert_eq!(run_queue::load(&core.actor, id), 1 + 4);
    run_queue::push_reserved(&core.actor, core.thread(core.process(3), 0), place);
    assert_eq!(run_queue::load(&core.actor, id), 1 + 4);
    // What it has taken out counts once.
    assert!(run_queue::next(&core.actor).is_some());
    assert_eq!(run_queue::load(&core.actor, id), 1 + 3);
    assert_eq!(record.inbox_count.load(Ordering::Relaxed), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))] // each has a pool of its own

    /// More users than groups, and threads that come and go in any order.
    #[test]
    fn every_thread_comes_out_once(steps in proptest::collection::vec((any::<bool>(), 0..3 * READY_GROUPS as u32, -3..3), 1..200)) {
        let core = Core::new();
        let processes: Vec<_> = (0..3 * READY_GROUPS as u32).map(|user| core.process(user)).collect();
        let mut inside = Vec::new();
        for (adds, user, nice) in steps {
            if adds {
                let thread = core.thread(processes[user as usize], nice);
                core.add(thread, if nice == 0 { Position::Last } else { Position::ByRank });
                inside.push(core.actor.raw(thread));
            } else if let Some(thread) = core.take() {
                ready::charge(core.record, u64::from(user) * 1_000_000);
                let raw = core.actor.raw(thread);
                let at = inside.iter().position(|&other| other == raw);
                prop_assert!(at.is_some(), "a thread came out twice");
                inside.swap_remove(at.unwrap());
            }
            prop_assert_eq!(core.record.ready_count.load(Ordering::Relaxed) as usize, inside.len());
            prop_assert_eq!(ready::is_empty(core.record), inside.is_empty());
        }
        while let Some(thread) = core.take() {
            let raw = core.actor.raw(thread);
            prop_assert!(inside.contains(&raw));
            inside.retain(|&other| other != raw);
        }
        prop_assert!(inside.is_empty());
    }

    /// A core whose running thread yields to its follower is in the same state as one that puts the thread last and takes the next one.
    #[test]
    fn a_follower_is_who_comes_next(threads in proptest::collection::vec((0_u32..2, -2..3, any::<bool>()), 2..6), turns in 1_usize..8) {
        let core_with = || {
            let core = Core::new();
            let processes = [core.process(1), core.process(2)];
            let threads: Vec<_> = threads.iter().map(|&(user, nice, is_realtime)| {
                let thread = core.thread(processes[user as usize], nice);
                if is_realtime && user == 1 {
                    schedule::set(thread, Schedule::new(SCHED_RR, 1, false).unwrap());
                }
                thread
            }).collect();
            threads.iter().for_each(|thread| core.add(thread, Position::ByRank));
            (core, threads)
        };
        let ((one, of_one), (other, of_other)) = (core_with(), core_with());
        let place = |all: &[&'static ThreadRecord], thread| all.iter().position(|known| std::ptr::eq(*known, thread));
        let (mut running, mut by_queue) = (one.take().unwrap(), other.take().unwrap());
        for _ in 0..turns {
            [&one, &other].iter().for_each(|core| ready::charge(core.record, SLICE_NS));
            match ready::follower(&one.actor, one.record, running) {
                Some(follower) => {
                    ready::rotate(&one.actor, one.record, running, follower);
                    running = follower;
                }
                None => {
                    // There is one where all ready threads are ordinary ones of one user.
                    prop_assert!(threads.iter().any(|(user, ..)| *user != threads[0].0) || threads.iter().any(|(user, _, is_realtime)| *user == 1 && *is_realtime));
                    one.add(running, Position::Last);
                    running = one.take().unwrap();
                }
            }
            other.add(by_queue, Position::Last);
            by_queue = other.take().unwrap();
            prop_assert_eq!(place(&of_one, running), place(&of_other, by_queue));
            prop_assert_eq!(one.record.ready_count.load(Ordering::Relaxed), other.record.ready_count.load(Ordering::Relaxed));
        }
        let rest = |core: &Core, all: &[&'static ThreadRecord]| -> Vec<_> {
            std::iter::from_fn(|| core.take().map(|thread| place(all, thread))).collect()
        };
        prop_assert_eq!(rest(&one, &of_one), rest(&other, &of_other));
    }
}
