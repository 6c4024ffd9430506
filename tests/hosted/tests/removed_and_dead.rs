//! Islands that die while cores are taken out and come back, of that island and of others: threads, timers and who waits for a core.

use motet_hal_hosted::{Config, Driver, Failure, Faults};
use motet_layout::{
    CORE_OUT, CORES_PER_ISLAND_MAX, CoreId, ISLAND_JOINED, Isa, IslandId, PENDING_LEAVES, Pool, sync::Ordering,
};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Ended, ROUGH, Scenario, boot_and_look, env, three_islands};

/// A time of 20 us.
const NAP: u64 = DATA + 0x200;
/// `AT_FDCWD`.
const HERE: u64 = (-100_i64).cast_unsigned();
const WRITE_ONLY: u64 = 1;
/// Two of each island.
const CORES: [&str; 6] = ["cpu17", "cpu33", "cpu1", "cpu16", "cpu32", "cpu0"];

fn prepare(program: &mut Program) {
    program.store_at(NAP, 0);
    program.store_at(NAP + 8, 20_000);
}

/// Takes a core out, or has it back. That may be refused: the island has died, or it is its last one.
fn set_online(program: &mut Program, core: &str, text: &str) {
    let [fd, ..] = program.asm.roles.saved;
    program.arg(0, HERE);
    program.arg_string(1, &format!("/sys/devices/system/cpu/{core}/online"));
    program.arg(2, WRITE_ONLY);
    program.arg(3, 0);
    program.call_as_is(Sys::Openat);
    program.or_exit(52);
    program.result_to(fd);
    program.arg_from(0, fd);
    program.arg_string(1, text);
    program.arg(2, text.len() as u64);
    program.call_as_is(Sys::Write);
    program.arg_from(0, fd);
    program.call_as_is(Sys::Close);
}

/// Takes cores out and has them back, while a child of this process forks and sleeps.
fn work(program: &mut Program, cores: &[&str]) {
    let [_, pid, ..] = program.asm.roles.saved;
    prepare(program);
    let child = program.fork(pid);
    let behind = program.asm.label();
    for core in cores {
        set_online(program, core, "0");
        program.call(Sys::Nanosleep, &[NAP, 0]);
        set_online(program, core, "1");
    }
    program.asm.jump(behind);
    program.asm.bind(child);
    for _ in 0..3 {
        let grandchild = program.fork(pid);
        let after = program.asm.label();
        program.call(Sys::Nanosleep, &[NAP, 0]);
        program.call(Sys::Wait4, &[u64::MAX, 0, 0, 0]);
        program.asm.jump(after);
        program.asm.bind(grandchild);
        program.call(Sys::Nanosleep, &[NAP, 0]);
        program.exit(0);
        program.asm.bind(after);
    }
    program.exit(0);
    program.asm.bind(behind);
}

/// On all islands somebody takes cores of all islands out. When nobody is left, the first process has them all back.
fn scenario() -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        let [_, pid, zero, ..] = program.asm.roles.saved;
        for path in ["/arm", "/riscv"] {
            program.fork_with(pid, |program| {
                program.exec(path);
            });
        }
        work(program, &CORES);
        program.asm.li(zero, 0);
        program.wait_for_all(zero);
        CORES.iter().for_each(|core| set_online(program, core, "1"));
        program.call(Sys::Nanosleep, &[NAP, 0]);
        program.or_exit(101);
        program.print(1, "all\n");
        program.exit(0);
    });
    let other = |isa, cores: &[&str]| {
        Program::build(isa, |program| {
            work(program, cores);
            program.call(Sys::Wait4, &[u64::MAX, 0, 0, 0]);
            program.exit(0);
        })
    };
    let [arm, riscv] =
        [other(Isa::AArch64, &["cpu33", "cpu17", "cpu16"]), other(Isa::RiscV64, &["cpu32", "cpu1", "cpu33"])];
    Scenario {
        files: vec![("first", first), ("arm", arm), ("riscv", riscv)],
        command: vec!["/first"],
        ..Scenario::default()
    }
}

/// Cores of islands that live and are not in use at the end, although all are to be.
fn missing(pool: Pool) -> Vec<u8> {
    let header = pool.header();
    let islands = (0..3)
        .map(IslandId)
        .filter(|island| header.islands[island.index()].state.load(Ordering::Relaxed) == ISLAND_JOINED);
    let cores = islands.flat_map(|island| {
        let count = header.islands[island.index()].core_count.get() as usize;
        (0..count.min(CORES_PER_ISLAND_MAX)).map(move |index| CoreId::new(island, index))
    });
    let is_missing = |core: &CoreId| {
        let record = &header.cores[core.index()];
        record.pending.load(Ordering::Relaxed) & PENDING_LEAVES != 0 || record.state.load(Ordering::Relaxed) == CORE_OUT
    };
    cores.filter(is_missing).map(|core| core.0).collect()
}

fn run(scenario: &Scenario, seed: u64, faults: Faults) -> Result<(Ended, Vec<u8>), Failure> {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([2, 2, 2]));
    config.faults = faults;
    boot_and_look(config, scenario, missing)
}

/// With a point at every atomic operation (`./motet test model`), islands die between any two of them.
#[test]
fn islands_die_while_cores_are_taken_out() {
    die(0);
}

#[test]
fn islands_die_while_cores_are_taken_out_and_join_again() {
    die(2);
}

fn die(rejoins: u32) {
    let scenario = scenario();
    let first = env("MOTET_FIRST", 0);
    let (mut deaths, mut failures) = (0, Vec::new());
    for seed in first..first + env("MOTET_SEEDS", 1) {
        let (whole, out) = run(&scenario, seed, ROUGH).unwrap();
        assert_eq!((whole.status, whole.output.as_str(), out), (0, "all\n", vec![]), "{}", whole.errors);
        let stride = env("MOTET_STRIDE", whole.steps / 24);
        for step in (whole.steps / 10 + env("MOTET_OFFSET", 0)..whole.steps).step_by(stride as usize) {
            let island = IslandId(1 + (step / stride % 2) as u8);
            let dies_again_within = whole.steps / 2;
            let death = Some((island, step));
            let faults = Faults { death, survives: true, rejoins, dies_again_within, ..ROUGH };
            deaths += 1;
            let failure = match run(&scenario, seed, faults) {
                Ok((ended, out)) if (ended.status, ended.output.as_str()) == (0, "all\n") && out.is_empty() => continue,
                Ok((ended, out)) => format!("{ended:?}, out of use: {out:?}"),
                Err(failure) => failure.to_string(),
            };
            println!("seed {seed}, island {} dies at step {step}: {failure}", island.0);
            failures.push(failure);
        }
    }
    println!("{deaths} deaths, {} failures", failures.len());
    assert!(failures.is_empty(), "{} of {deaths}", failures.len());
}
