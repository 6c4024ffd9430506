//! Threads that the firmware's hidden harts run (`docs/protocols/hidden-harts.md`), while their memory changes under them, signals call them
//! home, their processes fork and are killed.

use motet_abi::signal::SIGKILL;
use motet_hal_hosted::{Config, Defect, Driver, Failure, Faults, IslandConfig, isa::Op, run_seeds};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Ended, ROUGH, Scenario, boot, has_died_with_a_lock};

use super::{AT, ENDED, KILLED, LOST, NAP, SEEDS, THREAD, check, family};

const SIGUSR1: u64 = 10;
const SA_RESTART: u64 = 0x1000_0000;
const ROUNDS: u64 = 5;
const WORKERS: u64 = 2;
/// How often a worker looks at its register and at memory before it makes a call.
const LOOKS: u64 = 60;
/// A `struct sigaction`; not 0: workers are to end; how many have.
const ACTION: u64 = DATA + 512;
const IS_OVER: u64 = DATA + 560;
const OVER: u64 = DATA + 576;
/// Threads' stacks.
const STACKS: u64 = DATA + 0x8000;

/// Counts a register down, and goes to `again` until it is 0.
fn repeat(program: &mut Program, count: u8, again: motet_hal_hosted::asm::Label) {
    let scratch = program.asm.roles.args[5];
    program.asm.li(scratch, u64::MAX);
    program.asm.op(Op::Add, count, count, scratch);
    program.asm.li(scratch, 0);
    program.asm.branch(Op::Bne, count, scratch, again);
}

/// A thread that has another value in its vector register each time, and reads a page that comes and goes.
fn worker(program: &mut Program) {
    let [wanted, seen, count, at, one] = program.asm.roles.saved;
    program.asm.li(wanted, 1);
    let again = program.asm.here();
    program.asm.li(one, 1);
    program.asm.op(Op::Add, wanted, wanted, one);
    program.asm.op_i(Op::VectorSet, wanted, 0, 0);
    program.asm.li(count, LOOKS);
    let look = program.asm.here();
    program.asm.li(at, AT);
    program.asm.op_i(Op::Ld64, seen, at, 0);
    check(program, wanted, seen);
    repeat(program, count, look);
    let scratch = program.asm.roles.args[5];
    program.asm.li(at, IS_OVER);
    program.asm.op_i(Op::Ld64, seen, at, 0);
    program.asm.li(scratch, 0);
    program.asm.branch(Op::Beq, seen, scratch, again);
    program.asm.li(at, OVER);
    program.asm.atomic(Op::AmoAdd, one, one, at, 8);
    program.call(Sys::Exit, &[0]);
}

/// Takes pages away from two workers that are away, sends signals whose handler overwrites the vector register, forks: `rounds` times.
fn storm(program: &mut Program, rounds: u64) {
    let [pid, own, count, seen, _] = program.asm.roles.saved;
    let (handler, working, begun) = (program.asm.label(), program.asm.label(), program.asm.label());
    program.asm.jump(begun);
    program.asm.bind(handler);
    program.asm.li(seen, 0xdead);
    program.asm.op_i(Op::VectorSet, seen, 0, 0);
    // What it would return to is RISC-V's code, which no hosted core runs.
    program.call_as_is(Sys::RtSigreturn);
    program.asm.bind(working);
    worker(program);
    program.asm.bind(begun);
    let map = |program: &mut Program| {
        program.call(Sys::Mmap, &[AT, 4096, 3, 0x32, u64::MAX, 0]); // MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS
        program.or_exit(101);
        program.store_at(AT, rounds);
    };
    map(program);
    for (address, value) in [(ACTION + 8, SA_RESTART), (ACTION + 16, 0), (IS_OVER, 0), (OVER, 0)] {
        program.store_at(address, value);
    }
    program.asm.lea(seen, handler);
    program.asm.li(own, ACTION);
    program.asm.op_i(Op::St64, seen, own, 0);
    program.call(Sys::RtSigaction, &[SIGUSR1, ACTION, 0, 8]);
    program.or_exit(102);
    let zero = program.asm.roles.args[5];
    for number in 0..WORKERS {
        program.call(Sys::Clone, &[THREAD, STACKS + 0x2000 * (number + 1), 0, 0, 0]);
        program.or_exit(103);
        program.result_to(seen);
        program.asm.li(zero, 0);
        program.asm.branch(Op::Beq, seen, zero, working);
    }
    program.call(Sys::Getpid, &[]);
    program.result_to(own);
    program.asm.li(count, rounds);
    let again = program.asm.here();
    program.call(Sys::Nanosleep, &[NAP, 0]);
    map(program);
    for _ in 0..2 {
        program.arg_from(0, own);
        program.arg(1, SIGUSR1);
        program.call_as_is(Sys::Kill);
    }
    for rights in [1, 3] {
        program.call(Sys::Mprotect, &[AT, 4096, rights]);
    }
    let child = program.asm.label();
    let parent = program.asm.label();
    program.fork_to(pid, child);
    program.wait();
    program.asm.jump(parent);
    program.asm.bind(child);
    program.exit(0);
    program.asm.bind(parent);
    program.load_u32(seen, DATA + 8);
    let (zero, good) = (program.asm.roles.args[5], program.asm.label());
    program.asm.li(zero, 0);
    program.asm.branch(Op::Beq, seen, zero, good);
    program.exit(LOST);
    program.asm.bind(good);
    repeat(program, count, again);
    program.store_at(IS_OVER, 1);
    let wait = program.asm.here();
    program.call(Sys::Nanosleep, &[NAP, 0]);
    program.load_u32(seen, OVER);
    program.asm.li(count, WORKERS);
    program.asm.branch(Op::Bne, seen, count, wait);
}

/// Where the first process keeps the ids of others.
const ENDLESS: u64 = DATA + 640;
const BESIDE: u64 = DATA + 648;

/// SIGKILL for the process whose id is at an address, and waits for that one: a child that it leaves is the first process's, too.
fn kill(program: &mut Program, id_at: u64) {
    let [pid, at, ..] = program.asm.roles.saved;
    program.asm.li(at, id_at);
    program.asm.op_i(Op::Ld64, pid, at, 0);
    program.arg_from(0, pid);
    program.arg(1, SIGKILL.into());
    program.call_as_is(Sys::Kill);
    program.arg_from(0, pid);
    program.arg(1, DATA + 8);
    program.arg(2, 0);
    program.arg(3, 0);
    program.call_as_is(Sys::Wait4);
    program.or_exit(121);
}

/// Two processes of the kind, of which one ends its storm and kills the other one in the middle of its; and one that does something else for as
/// long.
pub fn storms(beside: Option<fn(&mut Program)>) -> Scenario {
    let program = Program::build(Isa::RiscV64, |program| {
        let [pid, seen, wanted, ..] = program.asm.roles.saved;
        program.store_at(NAP, 0);
        program.store_at(NAP + 8, 30_000);
        let aside = beside.map(|_| {
            let aside = program.fork(pid);
            program.asm.li(seen, BESIDE);
            program.asm.op_i(Op::St64, pid, seen, 0);
            aside
        });
        let endless = program.fork(pid);
        program.asm.li(seen, ENDLESS);
        program.asm.op_i(Op::St64, pid, seen, 0);
        storm(program, ROUNDS);
        let ended = program.asm.label();
        for id_at in beside.map(|_| BESIDE).into_iter().chain([ENDLESS]) {
            kill(program, id_at);
            program.load_u32(seen, DATA + 8);
            program.asm.li(wanted, KILLED);
            program.asm.branch(Op::Bne, seen, wanted, ended);
        }
        program.print(1, "kept\n");
        program.exit(0);
        program.asm.bind(ended);
        // With the status of the other one, which is not to end by itself.
        program.asm.li(wanted, 8);
        program.asm.op(Op::Shr, seen, seen, wanted);
        program.arg_from(0, seen);
        program.call_as_is(Sys::ExitGroup);
        program.asm.bind(endless);
        storm(program, u64::MAX);
        program.exit(0);
        if let (Some(beside), Some(aside)) = (beside, aside) {
            program.asm.bind(aside);
            beside(program);
        }
    });
    Scenario { files: vec![("storms", program)], command: vec!["/storms"], ..Scenario::default() }
}

/// More cores than hidden harts, as many, and fewer.
const ISLANDS: [(usize, usize); 3] = [(3, 1), (2, 2), (1, 2)];

fn run(
    driver: Driver,
    faults: Faults,
    island: usize,
    scenario: &Scenario,
    defect: Option<Defect>,
) -> Result<Ended, Failure> {
    let (cores, hidden) = ISLANDS[island];
    let mut config = Config::new(driver, vec![IslandConfig::with_hidden(cores, hidden, 16)]);
    config.faults = faults;
    config.defect = defect;
    boot(config, scenario)
}

fn must_be_kept(scenario: &Scenario) {
    let judge = |what: String, ended: Ended| {
        assert_eq!((ended.status, ended.output.as_str()), (0, "kept\n"), "{what}: {}", ended.errors);
    };
    for island in 0..ISLANDS.len() {
        run_seeds(0..SEEDS, |seed| {
            run(Driver::Seeded(seed), Faults::default(), island, scenario, None)
                .map(|ended| judge(format!("island {island}, seed {seed}"), ended))
        });
        run_seeds(1000..1000 + SEEDS, |seed| {
            run(Driver::Seeded(seed), ROUGH, island, scenario, None)
                .map(|ended| judge(format!("island {island}, seed {seed} with faults"), ended))
        });
        match run(Driver::Threads, Faults::default(), island, scenario, None) {
            Ok(ended) => judge(format!("island {island}, threads"), ended),
            Err(failure) => panic!("island {island}, threads: {failure}"),
        }
    }
}

#[test]
fn hidden_harts_keep_vector_registers_whatever_happens_to_their_threads() {
    must_be_kept(&family());
}

/// Not as a model: threads wait for slices of others, which have too many steps then.
#[cfg(not(motet_model))]
#[test]
fn threads_come_home_for_signals_forks_and_pages_that_go() {
    must_be_kept(&storms(None));
}

/// A core that does not wait for its threads before a shoot-down is done lets them use what is gone.
#[test]
fn threads_that_stay_away_in_a_shoot_down_are_caught() {
    let caught = (0..20).any(|seed| {
        let ended = run(Driver::Seeded(seed), Faults::default(), 1, &storms(None), Some(Defect::BringHome));
        ended.is_err_and(|failure| failure.message.contains("used after its shoot-down"))
    });
    assert!(caught, "stale translations on hidden harts are not seen");
}

/// An island dies while threads are on its hidden harts: they end, the machine does not, unless it dies with a lock held.
#[test]
fn threads_on_hidden_harts_of_a_dead_island_end() {
    let (mut ended_by_it, mut locks) = (0, 0);
    run_seeds(0..4 * SEEDS, |seed| {
        let islands = vec![IslandConfig::with_hidden(1, 1, 16), IslandConfig::with_hidden(2, 1, 16)];
        let mut config = Config::new(Driver::Seeded(seed), islands);
        config.faults =
            Faults { survives: true, death: Some((IslandId(1), 20_000 + 2000 * seed)), ..Faults::default() };
        let ended = match boot(config, &family()) {
            Ok(ended) => ended,
            Err(failure) if has_died_with_a_lock(&failure) => {
                locks += 1;
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let has_ended_some = ended.status == ENDED as u32;
        assert!(has_ended_some || ended.status == 0 && ended.output == "kept\n", "seed {seed}: {ended:?}");
        ended_by_it += u32::from(has_ended_some);
        Ok(())
    });
    println!("{ended_by_it} ended by it, {locks} with a lock held");
    assert!(ended_by_it > 0, "in some runs threads are there when it dies");
}
