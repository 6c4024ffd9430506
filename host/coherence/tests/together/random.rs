//! Random traces: every count and every cost equals the reference's, and the invariants hold after every event.

use std::collections::HashMap;

use motet_coherence::{Config, Core, Counters, Held, Kind, LINE_SIZE, Model, Picoseconds, Sharing, allocate};
use proptest::prelude::*;

use crate::common::reference::Reference;
use crate::common::{self, Event, KINDS, PRIVATE, config, no_l3, one_l3, only_l1, pool_base, without_l3};

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

/// Caches of any number of ways, and of any policies. What a level must hold, it gets sets for.
fn geometries() -> impl Strategy<Value = String> {
    let ways = || prop_oneof![4 => 1..=16_u64, 1 => 17..=40_u64];
    let policy = prop_oneof![2 => Just("lru"), 1 => Just("tree-plru"), 1 => Just("random")];
    let cache = (ways(), 0..3_u32, policy).prop_map(|(ways, sets_log2, policy)| {
        let ways = if policy == "tree-plru" { ways.next_power_of_two() } else { ways };
        (ways, 1_u64 << sets_log2, policy)
    });
    (prop::array::uniform4(cache), 0..1000_u64).prop_map(|(caches, seed)| {
        let mut lines = [0; 4];
        let [l1i, l1d, l2, l3] = [0, 1, 2, 3].map(|level| {
            let (ways, mut sets, policy) = caches[level];
            let held = lines[..if level < 2 { 0 } else { level }].iter().max().copied().unwrap_or(0);
            while ways * sets < held {
                sets *= 2;
            }
            lines[level] = ways * sets;
            format!("{{ size = {}, ways = {ways}, replacement = \"{policy}\", cycles = ", lines[level] << 6)
        });
        let text = common::TINY
            .replace("{ size = \"512\", ways = 2, cycles = 1", &format!("{l1i}1"))
            .replace("{ size = \"512\", ways = 2, cycles = 2", &format!("{l1d}2"))
            .replace("{ size = \"1KiB\", ways = 4, cycles = ", &l2)
            .replace("{ size = \"2KiB\", ways = 4, cycles = ", &l3);
        format!("seed = {seed}\n{text}")
    })
}

fn compare(config: Config, events: &[Event]) -> Result<(), TestCaseError> {
    compare_with(config.clone(), events, Sharing::OneAtATime)?;
    compare_with(config, events, Sharing::Threads)
}

fn compare_with(config: Config, events: &[Event], sharing: Sharing) -> Result<(), TestCaseError> {
    let region = allocate(Model::region_words(&config));
    let mut reference = Reference::new(&config);
    let model = Model::create(config, &region, sharing).unwrap();
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
    let counts = invariants_with(config.clone(), events, Sharing::OneAtATime)?;
    prop_assert_eq!(counts, invariants_with(config, events, Sharing::Threads)?);
    Ok(())
}

fn invariants_with(config: Config, events: &[Event], sharing: Sharing) -> Result<Vec<Counters>, TestCaseError> {
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, sharing).unwrap();
    let mut cores: Vec<Core<'_>> = (0..model.config().core_count()).map(|core| model.core(core).unwrap()).collect();
    let mut total = vec![0; cores.len()];
    for (at, event) in events.iter().enumerate() {
        total[event.core] += cores[event.core].access(event.kind, event.address, event.size).0;
        model.check().map_err(|violation| TestCaseError::fail(format!("event {at}, {event:?}: {violation}")))?;
    }
    for (core, total) in total.iter().enumerate() {
        prop_assert_eq!(model.counters(core).stall_ps(), *total, "core {}", core);
    }
    Ok((0..cores.len()).map(|core| model.counters(core)).collect())
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
    fn counts_equal_the_references_without_l3((cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c)))) {
        compare(config(&cores, &no_l3()), &events)?;
    }

    #[test]
    fn counts_equal_the_references_without_l3_whatever_the_ways_and_the_policies(
        (cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c))),
        text in geometries(),
    ) {
        compare(config(&cores, &without_l3(&text)), &events)?;
    }

    #[test]
    fn invariants_hold_with_only_l1((cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c)))) {
        invariants(config(&cores, &only_l1()), &events)?;
    }

    #[test]
    fn counts_equal_the_references_whatever_the_ways_and_the_policies(
        (cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c))),
        text in geometries(),
    ) {
        compare(config(&cores, &text), &events)?;
    }

    #[test]
    fn accesses_left_out_while_no_line_is_lost_change_nothing(
        (cores, events) in islands().prop_flat_map(|c| (Just(c.clone()), events(c))),
        text in geometries(),
    ) {
        access_and_leave_out(config(&cores, &text), &events)?;
    }

    #[test]
    fn the_usual_ways_of_cores_with_a_directory_each_change_nothing(
        (cores, events) in prop_oneof![Just(vec![1]), Just(vec![1, 1])].prop_flat_map(|c| (Just(c.clone()), events(c))),
        text in prop_oneof![Just(common::TINY.to_owned()), Just(no_l3()), Just(only_l1())],
    ) {
        access_and_leave_out(config(&cores, &text), &events)?;
    }
}

/// Two models run the same trace, each access three times, as loops do; one is not told of a fetch, a load or a store of the
/// line that its core used last in that set of L1, unless the core has lost a line. With threads, cores keep their directories
/// now and then.
fn access_and_leave_out(config: Config, events: &[Event]) -> Result<(), TestCaseError> {
    leave_out(config.clone(), events, Sharing::OneAtATime)?;
    leave_out(config, events, Sharing::Threads)
}

fn leave_out(config: Config, events: &[Event], sharing: Sharing) -> Result<(), TestCaseError> {
    let regions = [(); 2].map(|()| allocate(Model::region_words(&config)));
    let sharings = [Sharing::OneAtATime, sharing];
    let models = [0, 1].map(|at| Model::create(config.clone(), &regions[at], sharings[at]).unwrap());
    let [mut all, mut some] = [0, 1].map(|at: usize| {
        (0..config.core_count()).map(|core| models[at].core(core).unwrap()).collect::<Vec<Core<'_>>>()
    });
    // By core, L1 and set: the line, what L1 has of it, and the losses.
    let mut known = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        let (first, last) = (event.address / LINE_SIZE, (event.address + u64::from(event.size) - 1) / LINE_SIZE);
        let (island, fetches) = (&config.islands[config.island_of(event.core)], event.kind == Kind::Fetch);
        let sets = if fetches { island.l1i.sets } else { island.l1d.sets } as u64;
        let (all, some) = (&mut all[event.core], &mut some[event.core]);
        some.settle();
        for _ in 0..3 {
            let expected = all.access(event.kind, event.address, event.size);
            let [place, next] = [first, last].map(|line| (event.core, fetches, line % sets));
            let recent = known.get(&place);
            let recent = recent.filter(|(line, _, losses)| *line == first && first == last && *losses == some.losses());
            let cost = match (event.kind, recent) {
                (Kind::Fetch, Some(_)) => some.fetched_again(1),
                (Kind::Load, Some(_)) => some.accessed_again(1, 0),
                (Kind::Store, Some((_, Held::Modified, _))) => some.accessed_again(0, 1),
                (Kind::Store, Some((_, Held::Only, losses))) => {
                    let losses = *losses;
                    known.insert(place, (first, Held::Modified, losses));
                    prop_assert!(some.modify_recent(event.address));
                    some.accessed_again(0, 1)
                }
                (kind, _) => {
                    let usual = match kind == Kind::Store {
                        store if first == last && (store || kind == Kind::Load) => {
                            some.access_usual(store, event.address)
                        }
                        _ => None,
                    };
                    let (cost, held) = match usual {
                        Some(done) => done,
                        None if first == last => some.access_other(kind, event.address),
                        None => (some.access(kind, event.address, event.size), Held::Nothing),
                    };
                    known.remove(&place);
                    known.remove(&next);
                    if held != Held::Nothing {
                        known.insert(place, (first, held, some.losses()));
                    }
                    cost
                }
            };
            prop_assert_eq!(expected, cost, "event {}: {:?}", at, event);
            let [expected, counters] = [0, 1].map(|model: usize| models[model].counters(event.core));
            prop_assert_eq!(expected, counters, "event {}: {:?}", at, event);
        }
    }
    models[1].check().map_err(|violation| TestCaseError::fail(violation.to_string()))
}
