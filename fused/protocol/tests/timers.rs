//! Deadlines expire in their order, equal ones in the order in which they were armed, and finding a place among many takes few steps.

mod files_support;

use files_support::Actor;
use motet_layout::{CoreId, PoolAddr, TimerNode};
use motet_protocol::{Context, timer};
use proptest::prelude::*;

const POOL: u64 = 64 << 20;

/// Timers as far apart as threads are.
fn nodes(actor: &Actor, count: usize) -> Vec<&'static TimerNode> {
    (0..count as u64).map(|index| actor.pool().at(PoolAddr((32 << 20) / 2 + index * 1024))).collect()
}

fn core() -> Actor {
    let actor = Actor::new(POOL).on_core(0);
    actor.pool().header().seed[0].set(0x1234_5678_9abc_def0);
    actor
}

/// Steps to a place, among so many deadlines that are armed in an order: at most as many as the tree is deep.
fn depth(count: usize, deadline: impl Fn(usize) -> u64) -> usize {
    let actor = core();
    nodes(&actor, count).into_iter().enumerate().for_each(|(index, node)| timer::arm(&actor, node, deadline(index)));
    timer::depth(&actor, CoreId(0))
}

#[test]
fn steps_grow_with_the_logarithm_of_how_many_there_are() {
    for count in [10_usize, 100, 1000, 10_000] {
        let few = 4 * count.ilog2() as usize;
        for (order, depth) in [
            ("later and later", depth(count, |index| 1 + index as u64)),
            ("earlier and earlier", depth(count, |index| (count - index) as u64)),
            ("all the same", depth(count, |_| 5)),
            ("mixed", depth(count, |index| index as u64 * 7919 % 1000 + 1)),
        ] {
            assert!(depth <= few, "{count}, {order}: {depth} above each other");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn deadlines_expire_in_their_order(steps in prop::collection::vec((0..3_u8, 0..40_usize, 0..30_u64), 0..400)) {
        let actor = core();
        let nodes = nodes(&actor, 40);
        // What is armed, in the order in which it expires.
        let mut armed: Vec<(u64, usize)> = Vec::new();
        let mut now_ns = 1;
        for (step, index, time_ns) in steps {
            match step {
                0 => {
                    if !armed.iter().any(|(_, other)| *other == index) {
                        let deadline_ns = now_ns + time_ns;
                        timer::arm(&actor, nodes[index], deadline_ns);
                        let behind = armed.partition_point(|(other_ns, _)| *other_ns <= deadline_ns);
                        armed.insert(behind, (deadline_ns, index));
                    }
                }
                1 => {
                    timer::disarm(&actor, nodes[index]);
                    armed.retain(|(_, other)| *other != index);
                }
                _ => {
                    now_ns += time_ns / 3;
                    while let Some(node) = timer::take_expired(&actor, now_ns) {
                        let (deadline_ns, index) = armed.remove(0);
                        prop_assert!(std::ptr::eq(node, nodes[index]));
                        prop_assert!(deadline_ns <= now_ns);
                    }
                }
            }
            let first_ns = armed.first().map_or(u64::MAX, |(deadline_ns, _)| *deadline_ns);
            prop_assert_eq!(timer::next_deadline_ns(&actor), first_ns);
            prop_assert!(timer::depth(&actor, CoreId(0)) <= armed.len());
            prop_assert!(armed.first().is_none_or(|(deadline_ns, _)| *deadline_ns > now_ns) || step != 2);
        }
    }
}
