//! Threads that go from cores where others wait to idle cores of other islands of their instruction set.

use motet_abi::signal::SIGKILL;
use motet_hal_hosted::{Config, Driver, Failure, Faults, IslandConfig, isa::Op, run_seeds};
use motet_layout::{CORES_PER_ISLAND_MAX, Isa, IslandId, Pool, sync::Ordering};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, has_died_with_a_lock};

const SEEDS: u64 = 2;
/// A `timespec` for naps, one for the time, a set of cores, and where a program notes its island.
const NAP: u64 = DATA + 128;
const CLOCK: u64 = DATA + 144;
const MASK: u64 = DATA + 160;
const ISLAND: u64 = DATA + 176;
/// The core that looks around after the start has nothing to do by then.
const START_NS: u64 = 20_000_000;
/// The first child has ended long before the second one and the parent.
const SHORT_NS: u64 = 12_000_000;
const LONG_NS: u64 = 60_000_000;
const LOST: u64 = 50;
/// How long who has been given to another core stays there (`kernel/core/src/balance.rs`).
const STAYS_NS: u64 = 50_000_000;

/// What the parent and its second child do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Computes,
    /// The same, and they may run on the first core alone.
    Pinned,
    UsesVectors,
}

fn nap(program: &mut Program, ns: u64) {
    program.store_at(NAP + 8, ns);
    program.call(Sys::Nanosleep, &[NAP, 0]);
}

/// register = 1 + the island where it runs.
fn island_to(program: &mut Program, register: u8) {
    program.call(Sys::Getcpu, &[0, ISLAND]);
    program.load_u32(register, ISLAND);
    program.asm.op_i(Op::Addi, register, register, 1);
}

fn work(program: &mut Program, work: Work, pattern: u64) {
    let [wanted, end, now, scratch, seen] = program.asm.roles.saved;
    program.asm.li(wanted, pattern);
    if work == Work::UsesVectors {
        program.asm.op_i(Op::VectorSet, wanted, 0, 0);
    }
    program.repeat_for(LONG_NS, [end, now, scratch], CLOCK, |program| {
        if work == Work::UsesVectors {
            let same = program.asm.label();
            program.asm.op_i(Op::VectorGet, seen, 0, 0);
            program.asm.branch(Op::Beq, seen, wanted, same);
            program.exit(LOST);
            program.asm.bind(same);
        }
    });
}

/// A child begins on another island and ends soon; a second one and its parent share the core at home. Says where they are at last: ten
/// times the parent's island and the child's, from 1.
fn sharers(kind: Work) -> Scenario {
    let program = Program::build(Isa::RiscV64, |program| {
        let [sum, island, end, now, scratch] = program.asm.roles.saved;
        nap(program, START_NS);
        let short = program.fork(island);
        if kind == Work::Pinned {
            program.store_at(MASK, 1);
            program.call(Sys::SchedSetaffinity, &[0, 8, MASK]);
            program.or_exit(102);
        }
        let long = program.fork(island);
        work(program, kind, 0x1111);
        island_to(program, island);
        program.asm.li(sum, 10);
        program.asm.op(Op::Mul, sum, sum, island);
        for _ in 0..2 {
            program.wait();
            program.load_u32(island, DATA + 8);
            program.asm.li(now, 8);
            program.asm.op(Op::Shr, island, island, now);
            program.asm.op(Op::Add, sum, sum, island);
        }
        program.arg_from(0, sum);
        program.call_as_is(Sys::ExitGroup);
        program.asm.bind(short);
        program.repeat_for(SHORT_NS, [end, now, scratch], CLOCK, |_| ());
        program.exit(0);
        program.asm.bind(long);
        work(program, kind, 0x2222);
        island_to(program, island);
        program.arg_from(0, island);
        program.call_as_is(Sys::ExitGroup);
    });
    Scenario { files: vec![("share", program)], command: vec!["/share"], ..Scenario::default() }
}

fn plain(cores: usize) -> IslandConfig {
    IslandConfig::foreign(Isa::RiscV64, cores)
}

/// How often threads have come to the second island from the first.
fn arrivals(pool: Pool) -> u64 {
    pool.header().islands[1].counters.arrivals.load(Ordering::Relaxed)
}

fn run(
    seed: u64,
    faults: Faults,
    islands: &[IslandConfig],
    uncached: bool,
    scenario: &Scenario,
) -> Result<(u32, u64), Failure> {
    let mut config = Config::new(Driver::Seeded(seed), islands.to_vec());
    // Long enough for slices to end, which is all that these programs are about.
    (config.faults, config.uncached, config.quantum) = (faults, uncached, 1024);
    let (ended, arrivals) = boot_and_look(config, scenario, arrivals)?;
    Ok((ended.status, arrivals))
}

#[test]
fn threads_go_from_busy_cores_to_idle_ones_of_their_instruction_set() {
    let (x86_64, vectors) = (IslandConfig::foreign(Isa::X86_64, 1), || IslandConfig::with_vectors(1, 16));
    let (both, home) = (&[12, 21][..], &[11][..]);
    for (islands, uncached, kind, wanted) in [
        (vec![plain(1), plain(1)], false, Work::Computes, both),
        (vec![plain(1), plain(1), x86_64.clone()], false, Work::Computes, both),
        (vec![vectors(), vectors()], false, Work::UsesVectors, both),
        (vec![plain(1), x86_64], false, Work::Computes, home),
        (vec![plain(1), plain(1)], true, Work::Computes, home),
        (vec![plain(1), plain(1)], false, Work::Pinned, home),
        (vec![vectors(), plain(1)], false, Work::UsesVectors, home),
    ] {
        let names: Vec<_> = islands.iter().map(|island| (island.isa, island.vector_bytes)).collect();
        let scenario = sharers(kind);
        let check = |seed, faults| {
            let (status, _) = run(seed, faults, &islands, uncached, &scenario)?;
            assert!(wanted.contains(&status), "{names:?}, uncached: {uncached}: {status}, not {wanted:?}");
            Ok(())
        };
        run_seeds(0..SEEDS, |seed| check(seed, if seed % 2 == 0 { Faults::default() } else { ROUGH }));
    }
}

/// A process on either core works and sleeps by turns; a third one computes. Each time that it has to wait, the other core may have nothing
/// to do.
#[test]
fn who_has_been_given_to_another_core_stays_a_while() {
    const TURN_NS: u64 = 12_000_000;
    const ALL_NS: u64 = 300_000_000;
    let program = Program::build(Isa::RiscV64, |program| {
        let [pid, ..] = program.asm.roles.saved;
        nap(program, START_NS);
        let bodies = [0, 1].map(|core| (program.fork(pid), core));
        let [_, end, now, scratch, _] = program.asm.roles.saved;
        program.repeat_for(ALL_NS, [end, now, scratch], CLOCK, |_| ());
        program.exit(0);
        for (body, core) in bodies {
            program.asm.bind(body);
            program.store_at(MASK, 1 << (core * CORES_PER_ISLAND_MAX));
            program.call(Sys::SchedSetaffinity, &[0, 8, MASK]);
            program.or_exit(102);
            nap(program, 1 + core as u64 * TURN_NS);
            let again = program.asm.here();
            program.repeat_for(TURN_NS, [end, now, scratch], CLOCK, |_| ());
            nap(program, TURN_NS);
            program.asm.jump(again);
        }
    });
    let scenario = Scenario { files: vec![("turns", program)], command: vec!["/turns"], ..Scenario::default() };
    let mut all = 0;
    run_seeds(0..SEEDS, |seed| {
        let (status, arrivals) = run(seed, Faults::default(), &[plain(1), plain(1)], false, &scenario)?;
        // Each time that it comes it has gone before, and stays there as long; the children come once each.
        let most = 3 + ALL_NS / (2 * STAYS_NS);
        assert!(status == 0 && arrivals <= most, "status {status}, {arrivals} arrivals, at most {most}");
        all += arrivals;
        Ok(())
    });
    assert!(all > 3 * SEEDS, "it never went: {all}");
}

const CHILDREN: u64 = 6;
/// Status of a process of which another one has ended otherwise than by its own `exit`.
const ENDED: u64 = 51;

/// Adds up the wait statuses of so many children, and exits with [`ENDED`] unless all are 0.
fn wait_for(program: &mut Program, children: u64, [sum, status]: [u8; 2]) {
    program.asm.li(sum, 0);
    for _ in 0..children {
        program.wait();
        program.load_u32(status, DATA + 8);
        program.asm.op(Op::Add, sum, sum, status);
    }
    let good = program.asm.label();
    program.asm.li(status, 0);
    program.asm.branch(Op::Beq, sum, status, good);
    program.exit(ENDED);
    program.asm.bind(good);
}

/// Children with children of their own, more than there are cores.
fn family() -> Scenario {
    let program = Program::build(Isa::RiscV64, |program| {
        let [pid, sum, end, now, scratch] = program.asm.roles.saved;
        nap(program, START_NS);
        let child = program.asm.label();
        for _ in 0..CHILDREN {
            program.fork_to(pid, child);
        }
        wait_for(program, CHILDREN, [sum, scratch]);
        program.print(1, "all\n");
        program.exit(0);
        program.asm.bind(child);
        let grandchild = program.fork(pid);
        program.repeat_for(SHORT_NS, [end, now, scratch], CLOCK, |_| ());
        wait_for(program, 1, [sum, scratch]);
        program.exit(0);
        program.asm.bind(grandchild);
        program.repeat_for(SHORT_NS / 2, [end, now, scratch], CLOCK, |_| ());
        nap(program, SHORT_NS / 8);
        program.exit(0);
    });
    Scenario { files: vec![("family", program)], command: vec!["/family"], ..Scenario::default() }
}

/// What was on a dead island ends, and nothing else; nobody waits for what went there, or was to go.
#[test]
fn an_island_may_die_while_children_begin_there_and_threads_are_given_to_it() {
    const DEATHS: u64 = 40;
    let scenario = family();
    let islands = [1, 1, 2].map(plain).to_vec();
    let config = |seed, faults| {
        let mut config = Config::new(Driver::Seeded(seed), islands.clone());
        (config.faults, config.quantum) = (faults, 256);
        config
    };
    let (mut whole, mut ended_by_it, mut locks) = (0, 0, 0);
    run_seeds(0..SEEDS, |seed| {
        let (all, moved) = boot_and_look(config(seed, ROUGH), &scenario, arrivals)?;
        assert_eq!((all.status, all.output.as_str()), (0, "all\n"), "{}", all.errors);
        assert!(moved > 1, "{moved} have come to the second island");
        let first = all.steps / 4;
        for step in (first..all.steps).step_by(((all.steps - first) / DEATHS) as usize) {
            let faults = Faults { death: Some((IslandId(1), step)), survives: true, ..ROUGH };
            match boot_and_look(config(seed, faults), &scenario, |_| ()) {
                Ok((ended, ())) => match (ended.status, ended.output.as_str()) {
                    (0, "all\n") => whole += 1,
                    (status, "") if [ENDED as u32, 128 + SIGKILL].contains(&status) => ended_by_it += 1,
                    _ => panic!("seed {seed}, death at step {step}: {ended:?}"),
                },
                Err(failure) if has_died_with_a_lock(&failure) => locks += 1,
                Err(failure) => panic!("seed {seed}, death at step {step}: {failure}"),
            }
        }
        Ok(())
    });
    println!("{whole} not touched, {ended_by_it} ended by it, {locks} with a lock held");
    assert!(whole > 0 && ended_by_it > 0, "{whole} not touched, {ended_by_it} ended by it");
}
