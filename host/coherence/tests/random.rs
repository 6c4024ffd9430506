//! Random traces: every count and every cost equals the reference's, and the invariants hold after every event.

mod common;
#[path = "common/reference.rs"]
mod reference;

use motet_coherence::{Config, Core, Model, Picoseconds, Sharing, allocate};
use proptest::prelude::*;

use common::{Event, KINDS, PRIVATE, config, no_l3, one_l3, only_l1, pool_base};
use reference::Reference;

/// Few lines, so that cores meet; sometimes two lines at once, private memory, or a device.
fn events(cores: Vec<usize>) -> impl Strategy<Value = Vec<Event>> {
    let total: usize = cores.iter().sum();
    let place = prop_oneof![
        8 => (0..48_u64).prop_map(|line| (true, line * 64)),
        3 => (0..96_u64).prop_map(|line| (true, (4 << 20) - 48 * 64 + line * 64)),
        3 => (0..64_u64).prop_map(|line| (false, line * 64)),
        1 => Just((false, PRIVATE + 64)),
        1 => (0..48_u64).prop_map(|line| (true, line * 64 + 60)),
    ];
    let event = (0..total, 0..KINDS.len(), place, prop_oneof![Just(1_u32), Just(4), Just(8)]).prop_map(
        move |(core, kind, (pool, address), size)| {
            let mut island = 0;
            let mut first = 0;
            while core >= first + cores[island] {
                first += cores[island];
                island += 1;
            }
            // On even islands the pool begins where the device of odd ones is.
            let address = if pool { pool_base(island) + address } else { address };
            Event { core, kind: KINDS[kind], address, size }
        },
    );
    prop::collection::vec(event, 1..600)
}

fn islands() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), Just(vec![2]), Just(vec![1, 1]), Just(vec![3, 2]), Just(vec![2, 2, 4]), Just(vec![8])]
}

fn compare(config: Config, events: &[Event]) -> Result<(), TestCaseError> {
    let region = allocate(Model::region_words(&config));
    let mut reference = Reference::new(&config);
    let model = Model::create(config, &region, Sharing::Threads).unwrap();
    let mut cores: Vec<Core<'_>> = (0..model.config().core_count()).map(|core| model.core(core).unwrap()).collect();
    for (at, event) in events.iter().enumerate() {
        let cost = cores[event.core].access(event.kind, event.address, event.size);
        let expected = reference.access(event.core, event.kind, event.address, event.size);
        prop_assert_eq!(cost, Picoseconds(expected), "cost of event {}: {:?}", at, event);
        model.check().map_err(|violation| TestCaseError::fail(format!("event {at}, {event:?}: {violation}")))?;
        prop_assert_eq!(model.counters(event.core), reference.counters[event.core], "event {}: {:?}", at, event);
    }
    for core in 0..cores.len() {
        prop_assert_eq!(model.counters(core), reference.counters[core], "core {}", core);
    }
    Ok(())
}

/// For machines that the reference cannot do: only the invariants, and that the stalls add up to the costs.
fn invariants(config: Config, events: &[Event]) -> Result<(), TestCaseError> {
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::Threads).unwrap();
    let mut cores: Vec<Core<'_>> = (0..model.config().core_count()).map(|core| model.core(core).unwrap()).collect();
    let mut total = vec![0; cores.len()];
    for (at, event) in events.iter().enumerate() {
        total[event.core] += cores[event.core].access(event.kind, event.address, event.size).0;
        model.check().map_err(|violation| TestCaseError::fail(format!("event {at}, {event:?}: {violation}")))?;
    }
    for (core, total) in total.iter().enumerate() {
        prop_assert_eq!(model.counters(core).stall_ps(), *total, "core {}", core);
    }
    Ok(())
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn counts_equal_the_references((cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c)))) {
        compare(config(&cores, common::TINY), &events)?;
    }

    #[test]
    fn counts_equal_the_references_with_one_l3((cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c)))) {
        compare(config(&cores, &one_l3()), &events)?;
    }

    #[test]
    fn invariants_hold_without_l3((cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c)))) {
        invariants(config(&cores, &no_l3()), &events)?;
    }

    #[test]
    fn invariants_hold_with_only_l1((cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c)))) {
        invariants(config(&cores, &only_l1()), &events)?;
    }

    #[test]
    fn invariants_hold_with_other_replacement(
        (cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c))),
        policy in prop_oneof![Just("tree-plru"), Just("random")],
    ) {
        invariants(config(&cores, &format!("replacement = \"{policy}\"\n{}", common::TINY)), &events)?;
    }
}
