//! Islands that die, and are started again while the machine runs.

use motet_hal_hosted::{Config, Driver, Failure, Faults, isa::Op};
use motet_layout::{ISLAND_JOINED, Isa, IslandId, sync::Ordering};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Ended, ROUGH, Scenario, boot_and_look, env, has_died_with_a_lock, three_islands};

/// How many writers must have ended well.
const WRITERS: u64 = 5;

/// A parent on x86-64 that starts writers on another island, and reads what they write, until some have ended well. That takes an island that lives.
fn until_some_have_written(isa: Isa) -> Scenario {
    let parent = Program::build(Isa::X86_64, |program| {
        let [pid, left, status, zero, _] = program.asm.roles.saved;
        program.asm.li(left, WRITERS);
        let again = program.asm.here();
        program.call(Sys::Pipe2, &[DATA + 16, 0]);
        program.or_exit(100);
        let child = program.fork(pid);
        program.call(Sys::Close, &[4]);
        program.call(Sys::Read, &[3, DATA + 32, 1]);
        program.call(Sys::Close, &[3]);
        program.wait();
        program.load_u32(status, DATA + 8);
        program.asm.li(zero, 0);
        program.asm.branch(Op::Bne, status, zero, again);
        program.asm.op_i(Op::Addi, left, left, -1);
        program.asm.branch(Op::Bne, left, zero, again);
        program.print(1, "written\n");
        program.exit(0);
        program.asm.bind(child);
        program.exec("/writer");
    });
    let writer = Program::build(isa, |program| {
        program.print(4, "x");
        program.or_exit(101);
        program.exit(0);
    });
    Scenario { files: vec![("parent", parent), ("writer", writer)], command: vec!["/parent"], ..Scenario::default() }
}

/// How often the island died, and whether it lives at the end.
fn run(seed: u64, faults: Faults, scenario: &Scenario, island: IslandId) -> Result<(Ended, u32, bool), Failure> {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([2, 1, 2]));
    config.faults = faults;
    let (ended, (deaths, lives)) = boot_and_look(config, scenario, move |pool| {
        let record = &pool.header().islands[island.index()];
        (record.deaths.load(Ordering::Relaxed), record.state.load(Ordering::Relaxed) == ISLAND_JOINED)
    })?;
    Ok((ended, deaths, lives))
}

/// Dies at a random step, is started again, dies while it boots or works, three times in all. With a point at every atomic operation
/// (`./motet test model`), that is in the middle of everything that it does to join.
#[test]
fn an_island_that_dies_again_and_again_joins_each_time() {
    let first = env("MOTET_FIRST", 0);
    let (mut again, mut deaths, mut locks) = (0, 0, 0);
    for (isa, island) in [(Isa::AArch64, IslandId(1)), (Isa::RiscV64, IslandId(2))] {
        let scenario = until_some_have_written(isa);
        for seed in first..first + env("MOTET_SEEDS", 3) {
            let (whole, ..) = run(seed, ROUGH, &scenario, island).unwrap();
            assert_eq!((whole.status, whole.output.as_str()), (0, "written\n"), "{}", whole.errors);
            let stride = env("MOTET_STRIDE", whole.steps / 12);
            for step in (whole.steps / 4 + seed..whole.steps).step_by(stride as usize) {
                let death = Some((island, step));
                let dies_again_within = whole.steps / 2;
                let faults = Faults { death, survives: true, rejoins: 3, dies_again_within, ..ROUGH };
                match run(seed, faults, &scenario, island) {
                    Ok((ended, died, lives)) => {
                        let got = (ended.status, ended.output.as_str());
                        assert_eq!(
                            got,
                            (0, "written\n"),
                            "{isa:?}, seed {seed}, death at step {step}: {}",
                            ended.errors
                        );
                        deaths += died;
                        again += u32::from(died != 0 && lives);
                    }
                    Err(failure) => {
                        assert!(
                            has_died_with_a_lock(&failure),
                            "{isa:?}, seed {seed}, death at step {step}: {failure}"
                        );
                        locks += 1;
                    }
                }
            }
        }
    }
    println!("{deaths} deaths, {again} runs that ended with the island alive again, {locks} with a lock held");
    assert!(again > 10 && locks < again, "{deaths} deaths, {again} runs with the island alive again, {locks} locks");
}
