//! Threads that go to cores with vector registers and back, on islands of one instruction set that have none, short ones and long ones,
//! while their processes fork, sleep, are stopped and killed, and memory is taken from under them.

use motet_abi::signal::{SIGCONT, SIGKILL, SIGSTOP};
use motet_hal_hosted::{Config, Driver, Faults, IslandConfig, isa::Op, run_seeds};
use motet_layout::{CORES_PER_ISLAND_MAX, Isa, IslandId, Pool, sync::Ordering};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look};

const SEEDS: u64 = 3;
const CHILDREN: u64 = 5;
const ROUNDS: u64 = 6;
/// `CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD`.
const THREAD: u64 = 0x0001_0f00;
/// Status of a process whose registers are not what they were.
const LOST: u64 = 50;
/// Status of the first process if another one has ended otherwise than by its own `exit`.
const ENDED: u64 = 51;
/// A `timespec` for naps, one for the time, a set of cores, and memory that comes and goes.
const NAP: u64 = DATA + 128;
const CLOCK: u64 = DATA + 144;
const MASK: u64 = DATA + 160;
const AT: u64 = 0x4000_0000;
const AT_LEN: u64 = 4 << 12;
/// Longer than a thread stays where its vector registers are without using them.
const UNUSED_NS: u64 = 35_000_000;
/// The status of a process that SIGKILL has ended.
const KILLED: u64 = 9;

/// What a child does between two looks at its registers.
#[derive(Clone, Copy)]
enum Act {
    Yields,
    Calls,
    Sleeps,
    TouchesMemory,
    Forks,
    StartsThread,
    Computes,
}

const ACTS: [Act; 7] =
    [Act::Yields, Act::TouchesMemory, Act::Sleeps, Act::Forks, Act::StartsThread, Act::Calls, Act::Computes];

/// Exits with [`LOST`] unless the first vector register is `wanted`. Vector instructions take registers below 16 alone.
fn check(program: &mut Program, wanted: u8, seen: u8) {
    let same = program.asm.label();
    program.asm.op_i(Op::VectorGet, seen, 0, 0);
    program.asm.branch(Op::Beq, seen, wanted, same);
    program.exit(LOST);
    program.asm.bind(same);
}

fn act(program: &mut Program, act: Act, wanted: u8, seen: u8, scratch: u8) {
    match act {
        Act::Yields => program.call(Sys::SchedYield, &[]),
        Act::Calls => program.call(Sys::Getpid, &[]),
        Act::Sleeps => program.call(Sys::Nanosleep, &[NAP, 0]),
        Act::TouchesMemory => {
            program.call(Sys::Mmap, &[AT, AT_LEN, 3, 0x32, u64::MAX, 0]); // MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS
            program.or_exit(101);
            program.asm.li(scratch, AT + AT_LEN / 2);
            program.asm.op_i(Op::St8, wanted, scratch, 0);
            check(program, wanted, seen);
            program.call(Sys::Munmap, &[AT, AT_LEN]);
        }
        Act::Forks => {
            let child = program.fork(scratch);
            let parent = program.asm.label();
            program.wait();
            program.asm.jump(parent);
            program.asm.bind(child);
            check(program, wanted, seen);
            program.exit(0);
            program.asm.bind(parent);
            program.load_u32(scratch, DATA + 8);
            or_lost(program, scratch);
        }
        Act::StartsThread => {
            let parent = program.asm.label();
            program.call(Sys::Clone, &[THREAD, DATA + 0x8000, 0, 0, 0]);
            program.or_exit(102);
            program.result_to(scratch);
            let zero = program.asm.roles.args[5];
            program.asm.li(zero, 0);
            program.asm.branch(Op::Bne, scratch, zero, parent);
            check(program, wanted, seen);
            program.call(Sys::Exit, &[0]);
            program.asm.bind(parent);
        }
        Act::Computes => {
            let [now, factor] = [program.asm.roles.saved[3], program.asm.roles.saved[4]];
            read_time(program, scratch, factor);
            program.asm.li(now, UNUSED_NS);
            program.asm.op(Op::Add, scratch, scratch, now);
            let again = program.asm.here();
            read_time(program, now, factor);
            program.asm.branch(Op::Bltu, now, scratch, again);
            visit(program, now);
        }
    }
}

/// Goes to the core with long registers. Refused while it uses short ones; if it has used them once, it has no use for these.
fn visit(program: &mut Program, scratch: u8) {
    let at = program.asm.roles.args[5];
    for cores in [1 << (2 * CORES_PER_ISLAND_MAX), u64::MAX] {
        program.asm.li(at, MASK);
        program.asm.li(scratch, cores);
        program.asm.op_i(Op::St64, scratch, at, 0);
        program.call(Sys::SchedSetaffinity, &[0, 8, MASK]);
    }
}

/// register = the machine's time in nanoseconds. (Islands' counters differ.)
fn read_time(program: &mut Program, register: u8, scratch: u8) {
    program.call(Sys::ClockGettime, &[1, CLOCK]); // CLOCK_MONOTONIC
    let at = program.asm.roles.args[5];
    program.asm.li(at, CLOCK);
    program.asm.op_i(Op::Ld64, register, at, 0);
    program.asm.li(scratch, 1_000_000_000);
    program.asm.op(Op::Mul, register, register, scratch);
    program.asm.op_i(Op::Ld64, scratch, at, 8);
    program.asm.op(Op::Add, register, register, scratch);
}

/// Exits with [`LOST`] unless a register is 0.
fn or_lost(program: &mut Program, register: u8) {
    let zero = program.asm.roles.args[5];
    let good = program.asm.label();
    program.asm.li(zero, 0);
    program.asm.branch(Op::Beq, register, zero, good);
    program.exit(LOST);
    program.asm.bind(good);
}

/// A child: its own pattern, which changes from round to round. The last one never ends.
fn child(program: &mut Program, index: u64) {
    let [wanted, seen, scratch, _, _] = program.asm.roles.saved;
    let again = program.asm.here();
    for round in 0..ROUNDS {
        program.asm.li(wanted, 1000 * (index + 1) + round);
        program.asm.op_i(Op::VectorSet, wanted, 0, 0);
        act(program, ACTS[((index + round) % ACTS.len() as u64) as usize], wanted, seen, scratch);
        check(program, wanted, seen);
    }
    if index + 1 == CHILDREN {
        program.asm.jump(again);
    }
    program.exit(0);
}

/// Starts the children, stops them, lets them go on, and kills the last one; says whether all went well.
fn family() -> Scenario {
    let program = Program::build(Isa::RiscV64, |program| {
        let [pid, status, sum, wanted, at] = program.asm.roles.saved;
        for (address, value) in [(NAP, 0), (NAP + 8, 200_000)] {
            program.asm.li(at, address);
            program.asm.li(status, value);
            program.asm.op_i(Op::St64, status, at, 0);
        }
        let mut bodies = Vec::new();
        for index in 0..CHILDREN {
            bodies.push(program.fork(pid));
            program.asm.li(at, DATA + 256 + 8 * index);
            program.asm.op_i(Op::St64, pid, at, 0);
        }
        program.call(Sys::Nanosleep, &[NAP, 0]);
        let signals = [SIGSTOP, SIGCONT].into_iter().flat_map(|signal| (0..CHILDREN).map(move |index| (index, signal)));
        for (index, signal) in signals.chain([(CHILDREN - 1, SIGKILL)]) {
            program.asm.li(at, DATA + 256 + 8 * index);
            program.asm.op_i(Op::Ld64, at, at, 0);
            program.arg_from(0, at);
            program.arg(1, signal.into());
            program.call_as_is(Sys::Kill);
        }
        program.asm.li(sum, 0);
        let lost = program.asm.label();
        for _ in 0..CHILDREN {
            program.wait();
            program.load_u32(status, DATA + 8);
            program.asm.op(Op::Add, sum, sum, status);
            program.asm.li(wanted, LOST << 8);
            program.asm.branch(Op::Beq, status, wanted, lost);
        }
        program.asm.li(wanted, KILLED);
        let ended = program.asm.label();
        program.asm.branch(Op::Bne, sum, wanted, ended);
        program.print(1, "kept\n");
        program.exit(0);
        program.asm.bind(ended);
        program.exit(ENDED);
        program.asm.bind(lost);
        program.exit(LOST);
        for (body, index) in bodies.into_iter().zip(0..) {
            program.asm.bind(body);
            child(program, index);
        }
    });
    Scenario { files: vec![("family", program)], command: vec!["/family"], ..Scenario::default() }
}

/// Two cores without vector registers, then islands of one core with short ones, one with long ones, and one more with short ones.
fn islands() -> Vec<IslandConfig> {
    let plain = IslandConfig::foreign(Isa::RiscV64, 2);
    [plain].into_iter().chain([16, 32, 16].map(|bytes| IslandConfig::with_vectors(1, bytes))).collect()
}

/// How often each island has taken a thread.
fn context_switches(pool: Pool) -> [u64; 4] {
    [0, 1, 2, 3].map(|island: usize| {
        let counters = &pool.header().islands[island].counters;
        counters.context_switches.load(Ordering::Relaxed)
    })
}

#[test]
fn vector_registers_are_kept_whatever_happens_to_their_threads() {
    let mut switches = [0; 4];
    let mut run = |seed: u64, faults: Faults| {
        let mut config = Config::new(Driver::Seeded(seed), islands());
        config.faults = faults;
        let (ended, seen) = boot_and_look(config, &family(), context_switches)?;
        assert_eq!((ended.status, ended.output.as_str()), (0, "kept\n"), "seed {seed}: {}", ended.errors);
        for (all, one) in switches.iter_mut().zip(seen) {
            *all += one;
        }
        Ok(())
    };
    run_seeds(0..SEEDS, |seed| run(seed, Faults::default()));
    run_seeds(1000..1000 + SEEDS, |seed| run(seed, ROUGH));
    assert!(switches.iter().all(|&count| count > 0), "each island has run threads: {switches:?}");
}

/// An island with vectors dies while threads run there: they end, the machine does not.
#[test]
fn threads_of_a_core_that_is_taken_away_end() {
    let mut ended_by_it = 0;
    run_seeds(0..SEEDS, |seed| {
        let mut config = Config::new(Driver::Seeded(seed), islands());
        config.faults.survives = true;
        config.faults.death = Some((IslandId(1), 20_000 + 1000 * seed));
        let (ended, _) = boot_and_look(config, &family(), |_| ())?;
        let has_ended_some = ended.status == ENDED as u32;
        assert!(has_ended_some || ended.status == 0 && ended.output == "kept\n", "seed {seed}: {ended:?}");
        ended_by_it += u32::from(has_ended_some);
        Ok(())
    });
    assert!(ended_by_it > 0, "in some runs threads are there when it dies");
}
