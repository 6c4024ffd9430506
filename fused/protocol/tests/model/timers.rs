//! Deadlines: each armed timer expires once or is disarmed, and the list stays sound.

use std::sync::Arc;

use motet_layout::sync::{AtomicU32, Ordering};
use motet_layout::{CoreId, IslandId, TimerNode};
use motet_protocol::{Context, cores::core_record, timer};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

/// Core 0 arms six timers and takes what has expired; another island disarms one of them (or two do).
fn model(disarm: fn(&Core, &'static TimerNode)) -> impl Fn() + Clone + Send + Sync + 'static {
    // The tree has another form in each run.
    let runs = Arc::new(std::sync::atomic::AtomicU64::new(0));
    move || {
        let (pool, base) = fresh_pool(2);
        quietly(|| pool.header().seed[0].set(runs.fetch_add(1, Ordering::Relaxed) << 20));
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let home = Core::new(pool, 0, &bells);
        let nodes: Vec<&'static TimerNode> = (0..6).map(|_| objects.make()).collect();
        let expired: Vec<&'static AtomicU32> = (0..6).map(|_| objects.make()).collect();
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        let (own_nodes, own_expired) = (nodes.clone(), expired.clone());
        let owner = home.clone();
        actors.push(Box::new(move || {
            for (node, deadline) in own_nodes.iter().zip([30, 10, 20, 12, 35, 25]) {
                timer::arm(&owner, node, deadline);
            }
            let mut last = 0;
            for now in [5, 15, 40] {
                while let Some(node) = timer::take_expired(&owner, now) {
                    let index = own_nodes.iter().position(|own| std::ptr::eq(*own, node)).expect("one of ours");
                    own_expired[index].fetch_add(1, Ordering::Relaxed);
                    assert!(node.deadline_ns.get() <= now, "expired too early");
                    assert!(node.deadline_ns.get() >= last, "expired out of order");
                    last = node.deadline_ns.get();
                }
            }
        }));
        for island in 1..3 {
            let core = Core::new(pool, island, &bells);
            let node = nodes[1];
            actors.push(Box::new(move || disarm(&core, node)));
        }
        together(actors);
        quietly(|| {
            let record = core_record(&home, home.core());
            assert_eq!(record.timer_root.get(), 0, "a timer stayed in the list");
            assert_eq!(record.timer_deadline_ns.load(Ordering::Relaxed), u64::MAX);
            for (index, count) in expired.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                assert!(count == 1 || index == 1 && count == 0, "timer {index} expired {count} times");
            }
        });
    }
}

#[test]
fn expire_once_or_are_disarmed() {
    explore(1500, model(timer::disarm));
}

/// Unlinks without looking again under the lock whether the timer is still armed.
#[test]
fn disarming_without_a_second_look_is_caught() {
    must_be_caught(
        1500,
        model(|core, node| {
            let armed_on = node.core.load(Ordering::Acquire);
            if armed_on == 0 {
                return;
            }
            timer::disarm_without_look(core, CoreId::new(IslandId(0), 0), node);
        }),
    );
}

/// A timer armed on one core, moved to another core's list by its thread, disarmed by a third.
#[test]
fn move_between_cores() {
    explore(1500, || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let cores: Vec<Core> = (0..3).map(|island| Core::new(pool, island, &bells)).collect();
        let node = objects.make::<TimerNode>();
        quietly(|| timer::arm(&cores[0], node, 10));
        let (first, second, third) = (cores[0].clone(), cores[1].clone(), cores[2].clone());
        together(vec![
            Box::new(move || {
                timer::take_expired(&first, 20);
            }),
            Box::new(move || {
                timer::disarm(&second, node);
                timer::arm(&second, node, 30);
            }),
            Box::new(move || timer::disarm(&third, node)),
        ]);
        quietly(|| {
            timer::disarm(&cores[2], node);
            for core in &cores {
                assert_eq!(core_record(core, core.core()).timer_root.get(), 0, "a timer stayed in a list");
            }
        });
    });
}

/// The owner of a timer disarms it and goes on to something else, which the timer must leave alone.
fn going_on(expire: fn(&Core, &AtomicU32)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let (first, second) = (Core::new(pool, 0, &bells), Core::new(pool, 1, &bells));
        let node = objects.make::<TimerNode>();
        let gone_on = objects.make::<AtomicU32>();
        quietly(|| timer::arm(&first, node, 10));
        together(vec![
            Box::new(move || expire(&first, gone_on)),
            Box::new(move || {
                timer::disarm(&second, node);
                gone_on.store(1, Ordering::SeqCst);
            }),
        ]);
    }
}

fn act(gone_on: &AtomicU32) {
    assert_eq!(gone_on.load(Ordering::SeqCst), 0, "a timer acted on an owner that had gone on");
}

#[test]
fn act_before_their_owner_goes_on() {
    explore(
        500,
        going_on(|core, gone_on| {
            timer::expire_first(core, 20, |_| {
                act(gone_on);
                true
            });
        }),
    );
}

/// Takes the timer out of the list first, and then acts.
#[test]
fn acting_after_the_lock_is_caught() {
    must_be_caught(
        500,
        going_on(|core, gone_on| {
            if timer::take_expired(core, 20).is_some() {
                act(gone_on);
            }
        }),
    );
}

/// A core that is taken out has timers, moves them to another core, and that to a third, while the owner of one of them disarms it, after which nobody has it,
/// and the third core's timers expire.
fn moved(move_all: fn(&Core, CoreId)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let cores: Vec<Core> = (0..4).map(|island| Core::new(pool, island, &bells)).collect();
        let nodes: Vec<&'static TimerNode> = (0..4).map(|_| objects.make()).collect();
        quietly(|| {
            for (node, deadline) in nodes.iter().zip([10, 30, 20]) {
                timer::arm(&cores[0], node, deadline);
            }
            timer::arm(&cores[1], nodes[3], 25);
        });
        let (first, second, owner) = (cores[0].clone(), cores[1].clone(), cores[3].clone());
        let disarmed = nodes[2];
        together(vec![
            Box::new(move || move_all(&first, second.core())),
            Box::new({
                let (second, third) = (cores[1].clone(), cores[2].core());
                move || move_all(&second, third)
            }),
            Box::new(move || {
                timer::disarm(&owner, disarmed);
                assert_eq!(disarmed.core.load(Ordering::SeqCst), 0, "a timer is armed that was disarmed");
            }),
        ]);
        quietly(|| {
            let mut left = 0;
            for core in &cores {
                let mut last = 0;
                while let Some(node) = timer::take_expired(core, 40) {
                    assert!(node.deadline_ns.get() >= last, "expired out of order");
                    last = node.deadline_ns.get();
                    left += 1;
                }
                assert_eq!(core_record(core, core.core()).timer_root.get(), 0, "a timer stayed in a list");
            }
            assert_eq!(left, 3, "not all but the one that was disarmed");
        });
    }
}

#[test]
fn timers_of_a_core_that_is_taken_out_are_found_by_who_disarms_them() {
    explore(1500, moved(|core, target| timer::move_all(core, target)));
}

/// Takes each timer out of one list, and then puts it into the other.
#[test]
fn moving_timers_without_both_locks_is_caught() {
    must_be_caught(
        1500,
        moved(|core, target| {
            let there = Core::new(core.pool(), target.island().index() as u8, &core.bells);
            while let Some(node) = timer::take_expired(core, 40) {
                timer::arm(&there, node, node.deadline_ns.get());
            }
        }),
    );
}
