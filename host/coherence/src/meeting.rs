//! Threads that meet: like `tests/stress.rs`, but they stop where a lock is what keeps another out, so that a missing
//! lock shows within a second. (Without the pauses, leaving out the locks of L2 sets went unnoticed.)

use std::cell::Cell;
use std::sync::Barrier;

use crate::config::Config;
use crate::{
    Bytes,
    table::{CacheTable, CoreTable},
};
use crate::{Island, Kind, Model, ModelTable, Piece, Shape, Sharing, Target, allocate};

const CORES: usize = 4;

thread_local! {
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

fn random(limit: u64) -> u64 {
    RANDOM.with(|state| {
        let next = state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.set(next);
        (next >> 33) % limit
    })
}

/// Now and then lets another thread run.
pub(crate) fn pause() {
    if RANDOM.with(Cell::get) != 0 && random(4) == 0 {
        std::thread::yield_now();
    }
}

/// Islands with caches of so few lines that they hardly do anything but miss and meet.
fn config(islands: &[&str], has_l3: bool) -> Config {
    let cache = |lines: u64, ways| Some(CacheTable { size: Bytes(lines * 64), ways, cycles: 1, replacement: None });
    let core = CoreTable {
        l1i: cache(2, 2),
        l1d: cache(2, 2),
        l2: cache(4, 4),
        l3: if has_l3 { cache(8, 4) } else { None },
        l3_cycles: None,
        ..CoreTable::default()
    };
    let memory = vec![Piece { local: 0, size: 1 << 20, target: Target::Pool(0) }];
    let island = |name: &&str| Island { name: (*name).into(), cores: CORES / islands.len(), memory: memory.clone() };
    let shape = Shape { pool: 1 << 20, islands: islands.iter().map(island).collect(), own: Vec::new() };
    ModelTable { core: vec![core], ..ModelTable::default() }.resolve(&shape).unwrap()
}

/// All cores access few lines at once, again and again, half of the times beginning with nothing that anybody has asked for.
fn meet(config: &Config) {
    let region = allocate(Model::region_words(config));
    let mut model = Model::create(config.clone(), &region, Sharing::Threads).unwrap();
    // Few accesses between checks: a wrong line is soon replaced.
    for round in 0..4000 {
        if round % 2 == 0 {
            model = Model::create(config.clone(), &region, Sharing::Threads).unwrap();
        }
        let start = Barrier::new(CORES);
        let drive = |core: usize| {
            RANDOM.with(|state| state.set(round * 100 + core as u64 + 1));
            let mut core = model.core(core).unwrap();
            start.wait();
            for _ in 0..12 {
                let kind = [Kind::Fetch, Kind::Load, Kind::Load, Kind::Store, Kind::Atomic][random(5) as usize];
                core.access(kind, random(6) * 64, 8);
            }
        };
        std::thread::scope(|scope| {
            for core in 0..CORES {
                let drive = &drive;
                scope.spawn(move || drive(core));
            }
        });
        model.check().unwrap_or_else(|violation| panic!("round {round}: {violation}"));
    }
}

#[test]
fn locks_keep_the_invariants_where_threads_meet() {
    meet(&config(&["a", "b"], true));
}

#[test]
fn locks_keep_the_invariants_where_islands_of_one_core_without_l3_meet() {
    meet(&config(&["a", "b", "c", "d"], false));
}
