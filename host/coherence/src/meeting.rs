//! Threads that meet: like `tests/stress.rs`, but they stop where a lock is what keeps another out, so that a missing
//! lock shows within a second. (Without the pauses, leaving out the locks of L2 sets went unnoticed.)

use std::cell::Cell;
use std::sync::Barrier;

use crate::config::Config;
use crate::{
    Bytes,
    table::{CacheTable, CoreTable},
};
use crate::{Core, Held, Island, Kind, Model, ModelTable, Piece, Shape, Sharing, Target, allocate};

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

/// Islands with caches of so few lines that they hardly do anything but miss and meet; `sets`: of each cache.
fn config(islands: &[&str], has_l3: bool, sets: u64) -> Config {
    let cache =
        |lines: u64, ways| Some(CacheTable { size: Bytes(lines * sets * 64), ways, cycles: 1, replacement: None });
    let core = CoreTable {
        l1i: cache(2, 2),
        l1d: cache(2, 2),
        l2: cache(4, 4),
        l3: if has_l3 { cache(8, 4) } else { None },
        l3_cycles: None,
        ..CoreTable::default()
    };
    let memory = vec![Piece { local: 0, size: 1 << 20, target: Target::Pool(0) }];
    let island = |name: &&str| Island {
        name: (*name).into(),
        cores: CORES / islands.len(),
        memory: memory.clone(),
        traps: Default::default(),
    };
    let shape = Shape { pool: 1 << 20, islands: islands.iter().map(island).collect(), own: Vec::new() };
    ModelTable { core: vec![core], ..ModelTable::default() }.resolve(&shape).unwrap()
}

/// As the plugin does it.
fn access(core: &mut Core<'_>, kind: Kind, address: u64) {
    let usual = match kind {
        Kind::Load | Kind::Store => core.access_usual(kind == Kind::Store, address),
        Kind::Fetch | Kind::Atomic | Kind::Walk => None,
    };
    let (_, held) = usual.unwrap_or_else(|| core.access_other(kind, address));
    if held == Held::Only && random(2) == 0 && core.modify_recent(address) {
        core.accessed_again(0, 1);
    }
}

/// What cores access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// Few lines, all the same.
    Common,
    /// Mostly lines of a piece of memory of their own.
    Own,
}

/// All cores access few lines at once, again and again, half of the times beginning with nothing that anybody has asked for.
fn meet(config: &Config, whose: Lines) {
    let accesses = if whose == Lines::Own { 16 } else { 12 };
    let lines = if whose == Lines::Own { 5 } else { 6 } * config.islands[0].l2.sets as u64;
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
            for _ in 0..accesses {
                let kind = [Kind::Fetch, Kind::Load, Kind::Load, Kind::Store, Kind::Atomic][random(5) as usize];
                let piece = if random(5) == 0 { random(CORES as u64) } else { core.number() as u64 };
                let piece = if whose == Lines::Own { piece << 12 } else { 0 };
                access(&mut core, kind, piece + random(lines) * 64);
                if random(4) == 0 {
                    core.keep();
                }
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
    meet(&config(&["a", "b"], true, 1), Lines::Common);
}

#[test]
fn locks_keep_the_invariants_where_islands_of_one_core_without_l3_meet() {
    meet(&config(&["a", "b", "c", "d"], false, 1), Lines::Common);
}

#[test]
fn locks_keep_the_invariants_where_islands_of_one_core_with_an_l3_meet() {
    meet(&config(&["a", "b", "c", "d"], true, 1), Lines::Common);
    meet(&config(&["a", "b", "c", "d"], true, 2), Lines::Own);
}

#[test]
fn several_who_ask_for_a_kept_directory_at_once_wait_for_its_keeper() {
    meet(&config(&["a", "b", "c", "d"], false, 2), Lines::Common);
}

#[test]
fn what_is_kept_is_handed_over_between_accesses_only() {
    meet(&config(&["a", "b", "c", "d"], false, 1), Lines::Own);
}
