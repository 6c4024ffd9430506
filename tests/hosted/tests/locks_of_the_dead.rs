//! Islands that die in the middle of forks, pipes, faults and files: with locks held, wherever that happens to be.

use std::collections::BTreeMap;

use motet_hal_hosted::{Config, Driver, Failure, Faults};
use motet_layout::{BLOCK_RESERVED, Isa, IslandId, LockClass, PAGE_SIZE, Pool, SLAB_FRAME, sync::Ordering};
use motet_protocol::memory::{block, frame_record};
use motet_tests_hosted::deaths::{hang_ups, terminals};
use motet_tests_hosted::program::Program;
use motet_tests_hosted::scenarios::{family, sharers};
use motet_tests_hosted::{Ended, ROUGH, Scenario, boot_and_look, env, three_islands, whole};

/// What is in use at the end: frames that are not cut into objects, and objects by class. The first process has ended, and there is no other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct InUse {
    frames: i64,
    objects: Vec<i64>,
    /// Locks taken over, by class.
    recovered: Vec<u64>,
    /// What is not whole.
    broken: Vec<String>,
}

impl InUse {
    fn of(pool: Pool) -> Self {
        let header = pool.header();
        let block_frames = header.memory.block_frames.get();
        let is_used = |&frame: &u32| {
            let owner = block(pool, frame / block_frames).owner.load(Ordering::Relaxed);
            let word = pool.at::<motet_layout::Cell64>(motet_layout::PoolAddr(
                header.frame_bitmap.get() + u64::from(frame / 64) * 8,
            ));
            owner != 0 && owner != BLOCK_RESERVED && word.get() >> (frame % 64) & 1 == 0
        };
        let is_cut = |&frame: &u32| {
            frame_record(pool, motet_layout::Frame(frame)).synced.load(Ordering::Relaxed) & SLAB_FRAME != 0
        };
        let used = (0..(pool.len() / PAGE_SIZE) as u32).filter(is_used);
        Self {
            frames: used.filter(|frame| !is_cut(frame)).count() as i64,
            objects: header.slabs.iter().map(|cache| i64::from(cache.in_use.get())).collect(),
            recovered: header.locks_recovered.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            broken: whole::broken(pool),
        }
    }

    fn more_than(&self, other: &Self) -> BTreeMap<String, i64> {
        let objects = self
            .objects
            .iter()
            .zip(&other.objects)
            .enumerate()
            .map(|(class, (own, other))| (format!("class {class}"), own - other));
        objects.chain([("frames".to_owned(), self.frames - other.frames)]).filter(|(_, more)| *more != 0).collect()
    }
}

fn run(scenario: &Scenario, seed: u64, faults: Faults) -> Result<(Ended, InUse), Failure> {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([2, 1, 2]));
    config.faults = faults;
    boot_and_look(config, scenario, InUse::of)
}

/// With a point at every atomic operation (`./motet test model`), islands die between any two of them.
#[test]
fn whatever_locks_an_island_dies_with_the_others_go_on() {
    die_anywhere(&family());
}

#[test]
fn what_islands_share_works_when_one_has_died_changing_it() {
    die_anywhere(&sharers());
}

#[test]
fn a_terminal_whose_master_dies_is_hung_up() {
    die_anywhere(&hang_ups());
}

#[test]
fn terminals_that_islands_die_making_and_closing_are_freed() {
    die_anywhere(&terminals());
}

/// A child becomes a program for an island that dies while that is prepared. The reclaimer itself does it: it reclaims the island in between.
#[test]
fn who_executes_a_program_for_an_island_that_dies_meanwhile_ends() {
    let first = Program::build(Isa::X86_64, |program| {
        let [pid, ..] = program.asm.roles.saved;
        let child = program.fork(pid);
        program.wait();
        program.print(1, "all\n");
        program.exit(0);
        program.asm.bind(child);
        program.exec("/riscv");
    });
    let riscv = Program::build(Isa::RiscV64, |program| program.exit(0));
    let scenario =
        Scenario { files: vec![("first", first), ("riscv", riscv)], command: vec!["/first"], ..Scenario::default() };
    let boot = |seed, faults| {
        let mut config = Config::new(Driver::Seeded(seed), three_islands([1, 1, 1]));
        config.faults = faults;
        config.steps_max = 2_000_000;
        boot_and_look(config, &scenario, |_| ()).map(|(ended, ())| ended)
    };
    let (mut deaths, mut failures) = (0, Vec::new());
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 1) {
        let steps = boot(seed, Faults::default()).unwrap().steps;
        for step in (steps / 4..steps).step_by(env("MOTET_STRIDE", (steps / 80).max(1)) as usize) {
            deaths += 1;
            let faults = Faults { death: Some((IslandId(2), step)), survives: true, ..Faults::default() };
            match boot(seed, faults) {
                Ok(ended) if (ended.status, ended.output.as_str()) == (0, "all\n") => {}
                Ok(ended) => failures.push(format!("seed {seed}, death at step {step}: {ended:?}")),
                Err(failure) => failures.push(format!("seed {seed}, death at step {step}: {failure}")),
            }
        }
    }
    println!("{deaths} deaths, {} failures", failures.len());
    assert!(failures.is_empty(), "{} of {deaths}; the first: {}", failures.len(), failures[0]);
}

fn die_anywhere(scenario: &Scenario) {
    let first = env("MOTET_FIRST", 0);
    let (mut deaths, mut failures) = (0, Vec::new());
    let mut recovered: BTreeMap<LockClass, u64> = BTreeMap::new();
    let (mut lost, mut most, mut exact): (BTreeMap<String, i64>, BTreeMap<String, i64>, u32) = Default::default();
    for seed in first..first + env("MOTET_SEEDS", 1) {
        let (whole, in_use) = run(scenario, seed, ROUGH).unwrap();
        assert_eq!((whole.status, whole.output.as_str()), (0, "all\n"), "{}", whole.errors);
        assert_eq!(in_use.broken, Vec::<String>::new());
        let stride = env("MOTET_STRIDE", whole.steps / 40);
        for step in (whole.steps / 10 + env("MOTET_OFFSET", 0)..whole.steps).step_by(stride as usize) {
            let island = IslandId(1 + (step / stride % 2) as u8);
            let faults = Faults { death: Some((island, step)), survives: true, ..ROUGH };
            deaths += 1;
            let failure = match run(scenario, seed, faults) {
                Ok((ended, at_rest))
                    if (ended.status, ended.output.as_str()) == (0, "all\n") && at_rest.broken.is_empty() =>
                {
                    for (class, count) in
                        LockClass::ALL.iter().zip(&at_rest.recovered).filter(|(_, count)| **count != 0)
                    {
                        *recovered.entry(*class).or_default() += count;
                    }
                    let more = at_rest.more_than(&in_use);
                    exact += u32::from(more.is_empty());
                    if more.values().any(|more| !(0..=12).contains(more)) {
                        println!("seed {seed}, island {} dies at step {step}: lost {more:?}", island.0);
                    }
                    for (what, more) in more {
                        *lost.entry(what.clone()).or_default() += more;
                        let most = most.entry(what).or_default();
                        *most = more.max(*most);
                    }
                    continue;
                }
                Ok((ended, at_rest)) => format!("{:?}, {ended:?}", at_rest.broken),
                Err(failure) => failure.to_string(),
            };
            println!("seed {seed}, island {} dies at step {step}: {failure}", island.0);
            failures.push(failure);
        }
    }
    println!(
        "{deaths} deaths, {} failures; nothing lost {exact} times; lost in all {lost:?}, at most {most:?}",
        failures.len()
    );
    println!("taken over: {recovered:?}");
    assert!(failures.is_empty(), "{} of {deaths}", failures.len());
}
