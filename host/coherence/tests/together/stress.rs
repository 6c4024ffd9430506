//! Threads as islands and cores do it: each has a model of its own over the one region.

use std::sync::atomic::AtomicU64;

use motet_coherence::{Config, Counters, Model, Sharing, allocate};

use crate::common::{self, KINDS, config, no_l3, one_l3, only_l1, pool_base};

/// A generator of its own per thread (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// Drives a core with random accesses to few lines; the sum of the costs.
fn drive(config: Config, region: &[AtomicU64], core: usize, seed: u64, accesses: u64) -> u64 {
    let model = Model::attach(config, region).unwrap();
    let island = model.config().island_of(core);
    let mut core = model.core(core).unwrap();
    let mut random = Random(seed);
    let mut total = 0;
    for _ in 0..accesses {
        let kind = KINDS[random.below(5) as usize];
        let private = random.below(4) == 0;
        let address = if private { random.below(64) * 64 } else { pool_base(island) + random.below(96) * 64 + 60 };
        total += core.access(kind, address, 1 + random.below(8) as u32).0;
        core.settle();
    }
    total
}

fn stress(cores: &[usize], text: &str) {
    let config = config(cores, text);
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config.clone(), &region, Sharing::Threads).unwrap();
    for round in 0..20 {
        let before: Vec<Counters> = (0..config.core_count()).map(|core| model.counters(core)).collect();
        let costs: Vec<u64> = std::thread::scope(|scope| {
            let spawn = |core| {
                let (config, region) = (config.clone(), &region);
                scope.spawn(move || drive(config, region, core, round * 64 + core as u64, 10_000))
            };
            let threads: Vec<_> = (0..config.core_count()).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        model.check().unwrap_or_else(|violation| panic!("round {round}: {violation}"));
        for (core, cost) in costs.iter().enumerate() {
            let count = model.counters(core).since(&before[core]);
            assert_eq!(count.stall_ps(), *cost, "core {core} in round {round}: {count:?}");
            // An L1 hit whose line another core takes before its store is granted is a miss of L2 alone.
            assert!(count.l1d_misses <= count.data_accesses() && count.l2d_misses <= count.data_accesses());
        }
    }
}

#[test]
fn invariants_hold_after_threads_met() {
    stress(&[2, 2], common::TINY);
    stress(&[1, 1, 1, 1], common::TINY);
    stress(&[8], common::TINY);
}

#[test]
fn invariants_hold_after_threads_met_under_one_l3() {
    stress(&[2, 2], &one_l3());
}

#[test]
fn invariants_hold_after_threads_met_without_outer_caches() {
    stress(&[2, 2], &no_l3());
    stress(&[2, 2], &only_l1());
}

#[test]
fn invariants_hold_after_islands_of_one_core_met_without_l3() {
    stress(&[1, 1, 1], &no_l3());
}

/// A token passes from core to core, so that events have one order: two runs are then identical, whatever the threads do.
#[test]
fn ordered_threads_are_deterministic() {
    let run = |sharing| {
        let config = config(&[2, 2], common::TINY);
        let region = allocate(Model::region_words(&config));
        let model = Model::create(config.clone(), &region, sharing).unwrap();
        for quantum in 0..40_u64 {
            let (config, region, core) = (config.clone(), &region, (quantum % 4) as usize);
            std::thread::scope(|scope| scope.spawn(move || drive(config, region, core, quantum, 500)).join().unwrap());
        }
        (0..4).map(|core| model.counters(core)).collect::<Vec<_>>()
    };
    let counters = run(Sharing::Threads);
    assert_eq!(counters, run(Sharing::Threads));
    assert_eq!(counters, run(Sharing::OneAtATime));
    assert_ne!(counters[0].fetches, 0);
}
