//! The calendar of the service core of timed machines: when each operation begins, by a queue that is written otherwise.

#[allow(dead_code)]
mod files_support;
#[allow(dead_code)]
mod service_support;

use motet_layout::{SERVICE_SLOTS, ServiceCore};
use motet_protocol::service;
use proptest::prelude::*;
use service_support::Machine;

/// A core whose operations take `operation_ps`.
fn timed(ports: u32, operation_ps: u64) -> &'static ServiceCore {
    let core = Machine::new().core;
    core.ports.set(ports);
    core.operation_ps.set(operation_ps);
    core
}

/// Begins of the operations that are remembered.
fn begins(core: &ServiceCore) -> Vec<u64> {
    core.began_ps.iter().filter_map(|began| began.get().checked_sub(1)).collect()
}

/// The first of `ports` that is free, in the order of coming; when each is over.
fn queue(ports: usize, operation_ps: u64, asked: &[u64]) -> Vec<u64> {
    let mut free = vec![0; ports];
    let one = |asked_ps: &u64| {
        let port = free.iter_mut().min().unwrap();
        *port = (*port).max(*asked_ps) + operation_ps;
        *port
    };
    asked.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn no_more_operations_than_ports_overlap(
        ports in 1..5u32, operation_ps in 0..20u64, asked in prop::collection::vec(0..400u64, 1..300)
    ) {
        let core = timed(ports, operation_ps);
        let mut queued_ps = 0;
        for asked_ps in asked {
            let over_ps = service::book(core, asked_ps);
            prop_assert!(over_ps >= asked_ps + operation_ps, "none begins before it is asked for");
            queued_ps += over_ps - operation_ps - asked_ps;
            let remembered = begins(core);
            prop_assert!(remembered.contains(&(over_ps - operation_ps)));
            for &at in &remembered {
                let under_way = remembered.iter().filter(|&&began| began <= at && at < began + operation_ps).count();
                prop_assert!(under_way <= ports as usize, "{under_way} at {at}");
            }
        }
        prop_assert_eq!(core.queued_ps.get(), queued_ps);
    }

    /// As many as there can be cores ask at once.
    #[test]
    fn requests_in_the_order_of_time_queue(
        ports in 1..5u32, operation_ps in 1..20u64, steps in prop::collection::vec((0..30u64, 1..SERVICE_SLOTS / 2), 1..12)
    ) {
        let core = timed(ports, operation_ps);
        let mut asked = Vec::new();
        let mut now_ps = 0;
        for (after_ps, count) in steps {
            // Who has asked waits for the answer: no more than there are cores wait at once.
            let over_ps = queue(ports as usize, operation_ps, &asked).into_iter().max().unwrap_or(0);
            now_ps = over_ps.saturating_sub(operation_ps * (SERVICE_SLOTS / 2) as u64 / u64::from(ports)).max(now_ps + after_ps);
            asked.extend(std::iter::repeat_n(now_ps, count));
        }
        let over: Vec<_> = asked.iter().map(|asked_ps| service::book(core, *asked_ps)).collect();
        prop_assert_eq!(over, queue(ports as usize, operation_ps, &asked));
    }

    #[test]
    fn requests_that_do_not_overlap_begin_when_they_are_asked_for_in_any_order(
        order in Just((0..SERVICE_SLOTS as u64).collect::<Vec<_>>()).prop_shuffle(), operation_ps in 1..20u64, gap_ps in 0..3u64
    ) {
        let core = timed(1, operation_ps);
        for number in order {
            let asked_ps = number * (operation_ps + gap_ps);
            prop_assert_eq!(service::book(core, asked_ps), asked_ps + operation_ps);
        }
    }

    #[test]
    fn a_damaged_calendar_ends_nothing(words in prop::collection::vec(any::<u64>(), 128), asked_ps in any::<u64>(), slot in any::<u32>()) {
        let core = timed(slot, asked_ps.rotate_left(7));
        core.began_ps.iter().zip(&words).for_each(|(began, word)| began.set(*word));
        core.next_slot.set(slot);
        service::book(core, asked_ps);
    }
}
