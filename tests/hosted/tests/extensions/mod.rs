//! Threads that go to cores with vector registers and back, on islands of one instruction set that have none, short ones and long ones,
//! while their processes fork, sleep, are stopped and killed, and memory is taken from under them.

mod hidden;
// Its threads wait for slices of others, which have too many steps as a model.
#[cfg(not(motet_model))]
mod removed;

use motet_abi::signal::{SIGCONT, SIGKILL, SIGSTOP};
use motet_hal_hosted::{Config, Driver, Faults, IslandConfig, isa::Op, run_seeds};
use motet_layout::{CORES_PER_ISLAND_MAX, Isa, IslandId, Pool, sync::Ordering};
use motet_protocol::memory;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Ended, ROUGH, Scenario, boot_and_look, has_died_with_a_lock};

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
            or_exit_as(program, scratch);
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
            program.repeat_for(UNUSED_NS, [scratch, now, factor], CLOCK, |_| ());
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

/// Exits if another process's status, which is in a register, is not 0: with [`LOST`] if it is that, otherwise (an island's death has ended
/// it) with 1.
fn or_exit_as(program: &mut Program, status: u8) {
    let wanted = program.asm.roles.args[5];
    let [lost, good] = [(), ()].map(|()| program.asm.label());
    program.asm.li(wanted, LOST << 8);
    program.asm.branch(Op::Beq, status, wanted, lost);
    program.asm.li(wanted, 0);
    program.asm.branch(Op::Beq, status, wanted, good);
    program.exit(1);
    program.asm.bind(lost);
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

/// An island with vectors dies while threads run there: they end, the machine does not, unless it dies with a lock held.
#[test]
fn threads_of_a_core_that_is_taken_away_end() {
    const DEATHS: u64 = 2 * SEEDS;
    let (mut ended_by_it, mut ended_well, mut locks) = (0, 0, 0);
    run_seeds(0..DEATHS, |seed| {
        let mut config = Config::new(Driver::Seeded(seed), islands());
        config.faults.survives = true;
        config.faults.death = Some((IslandId(1), 20_000 + 1000 * seed));
        let ended = match boot_and_look(config, &family(), |_| ()) {
            Ok((ended, _)) => ended,
            Err(failure) if has_died_with_a_lock(&failure) => {
                locks += 1;
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let has_ended_some = ended.status == ENDED as u32;
        assert!(has_ended_some || ended.status == 0 && ended.output == "kept\n", "seed {seed}: {ended:?}");
        ended_well += 1;
        ended_by_it += u32::from(has_ended_some);
        Ok(())
    });
    println!("{ended_well} ended well, {locks} with a lock held");
    assert!(ended_by_it > 0, "in some runs threads are there when it dies");
}

/// Of each kind of run of the watcher.
const WATCHES: u64 = 60;
/// How often a process looks at the vector registers of another one, and how often that one uses them before it executes its program anew.
const LOOKS: u64 = 150;
const USES: u64 = 3;
const FIRST_CHILD_VECTORS: &str = "/proc/2/vectors";
const TEXT: u64 = DATA + 0x1000;
const TEXT_LEN: u64 = 0x2000;

/// Uses the first vector register without end, each time with another value, and its memory is another one every so often.
fn user() -> Vec<u8> {
    Program::build(Isa::RiscV64, |program| {
        let [value, at, ..] = program.asm.roles.saved;
        program.asm.li(at, NAP);
        program.asm.li(value, 20_000);
        program.asm.op_i(Op::St64, value, at, 8);
        for number in 1..=USES {
            program.asm.li(value, number * 0x0101_0101_0101_0101);
            program.asm.op_i(Op::VectorSet, value, 0, 0);
            program.call(Sys::Nanosleep, &[NAP, 0]);
        }
        program.exec("/user");
    })
}

/// Prints again and again what `/proc` says of the other one's vector registers, and kills it.
fn watcher() -> Scenario {
    let program = Program::build(Isa::RiscV64, |program| {
        let [pid, file, count, seen, _] = program.asm.roles.saved;
        let other = program.fork(pid);
        program.arg(0, u64::MAX - 99); // AT_FDCWD
        program.arg_string(1, FIRST_CHILD_VECTORS);
        program.arg(2, 0);
        program.call_as_is(Sys::Openat);
        program.or_exit(103);
        program.result_to(file);
        program.asm.li(count, LOOKS);
        let again = program.asm.here();
        program.arg_from(0, file);
        for (index, value) in [(1, TEXT), (2, TEXT_LEN), (3, 0)] {
            program.arg(index, value);
        }
        program.call_as_is(Sys::Pread64);
        program.or_exit(104);
        program.result_to(seen);
        program.arg(0, 1);
        program.arg(1, TEXT);
        program.arg_from(2, seen);
        program.call_as_is(Sys::Write);
        let one = program.asm.roles.args[5];
        program.asm.li(one, u64::MAX);
        program.asm.op(Op::Add, count, count, one);
        program.asm.li(one, 0);
        program.asm.branch(Op::Bne, count, one, again);
        program.arg_from(0, pid);
        program.arg(1, SIGKILL.into());
        program.call_as_is(Sys::Kill);
        program.wait();
        program.exit(0);
        program.asm.bind(other);
        program.exec("/user");
    });
    let files = vec![("watcher", program), ("user", user())];
    Scenario { files, command: vec!["/watcher"], ..Scenario::default() }
}

/// Of a text of `/proc/PID/vectors`: the value of the first register, if there is any.
fn first_register(text: &str) -> Option<u64> {
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let bytes: usize = match line("values") {
        Some("live") => line("register_bytes").unwrap().parse().unwrap(),
        _ => return None,
    };
    let digits = line("v0\t").unwrap();
    assert_eq!(digits.len(), 2 * bytes, "{text}");
    let words: Vec<&str> = (0..digits.len()).step_by(16).map(|at| &digits[at..at + 16]).collect();
    assert!(words.iter().all(|word| *word == words[0]), "values of several moments: {text}");
    assert!(line("v31\t").unwrap().bytes().all(|digit| digit == b'0'), "{text}");
    Some(u64::from_str_radix(words[0], 16).unwrap())
}

#[test]
fn what_others_see_of_vector_registers_is_of_one_moment() {
    let mut seen = std::collections::BTreeSet::new();
    let mut run = |driver: Driver, faults: Faults| {
        let mut config = Config::new(driver, islands());
        config.faults = faults;
        let (ended, _) = boot_and_look(config, &watcher(), |_| ())?;
        assert_eq!(ended.status, 0, "{}", ended.errors);
        let texts: Vec<&str> = ended.output.split("format\t\t").skip(1).collect();
        assert_eq!(texts.len() as u64, LOOKS, "{}", ended.output);
        assert!(texts.iter().all(|text| text.starts_with("riscv64 v\nas_of\t\t")), "{}", ended.output);
        seen.extend(texts.iter().map(|text| first_register(text)));
        Ok(())
    };
    run(Driver::Threads, Faults::default()).unwrap_or_else(|failure| panic!("{failure}"));
    run_seeds(0..WATCHES, |seed| run(Driver::Seeded(seed), Faults::default()));
    run_seeds(1000..1000 + WATCHES, |seed| run(Driver::Seeded(seed), ROUGH));
    let wanted = (1..=USES).map(|number| Some(number * 0x0101_0101_0101_0101)).chain([None]);
    assert!(wanted.clone().all(|value| seen.contains(&value)), "not all has been seen: {seen:x?}");
    assert!(seen.iter().all(|value| wanted.clone().any(|wanted| wanted == *value)), "nobody wrote that: {seen:x?}");
}

/// Bytes in the pool of a machine whose memory a program uses up, and where it does.
const SMALL_POOL: u64 = 32 << 20;
const FULL_AT: u64 = 0x5000_0000;
const ENOMEM: u64 = 12;

/// Reads a byte of its own file into page after page, until there is no memory for one more; then gives `back` pages back.
fn use_up_memory(program: &mut Program, back: u64) {
    let [file, at, scratch, ..] = program.asm.roles.saved;
    program.arg(0, u64::MAX - 99); // AT_FDCWD
    program.arg_string(1, "/full");
    program.arg(2, 0);
    program.call_as_is(Sys::Openat);
    program.or_exit(105);
    program.result_to(file);
    program.call(Sys::Mmap, &[FULL_AT, SMALL_POOL, 3, 0x32, u64::MAX, 0]);
    program.or_exit(106);
    program.asm.li(at, FULL_AT);
    let again = program.asm.here();
    program.arg_from(0, file);
    program.arg_from(1, at);
    program.arg(2, 1);
    program.arg(3, 0);
    program.call_as_is(Sys::Pread64);
    program.asm.li(scratch, 4096);
    program.asm.op(Op::Add, at, at, scratch);
    program.result_to(scratch);
    let one = program.asm.roles.args[5];
    program.asm.li(one, 1);
    program.asm.branch(Op::Beq, scratch, one, again);
    if back > 0 {
        program.call(Sys::Munmap, &[FULL_AT, back << 12]);
    }
}

/// How a program ends on a small machine of one core, and how many bytes of its pool are free then.
fn on_small_machine(write: impl FnOnce(&mut Program)) -> (Ended, u64) {
    let end = Program::build(Isa::RiscV64, |program| program.exit(0));
    let files = vec![("full", Program::build(Isa::RiscV64, write)), ("end", end)];
    let scenario = Scenario { files, command: vec!["/full"], ..Scenario::default() };
    let mut config = Config::new(Driver::Seeded(1), vec![IslandConfig::with_vectors(1, 16)]);
    config.pool_len = SMALL_POOL;
    let free_bytes = |pool| memory::usage(pool).0;
    boot_and_look(config, &scenario, free_bytes).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn a_thread_without_memory_for_its_vector_registers_is_killed() {
    let (ended, _) = on_small_machine(|program| {
        use_up_memory(program, 0);
        let value = program.asm.roles.saved[0];
        program.asm.op_i(Op::VectorSet, value, 0, 0);
        program.exit(0);
    });
    assert_eq!(ended.status, 128 + SIGKILL, "{}", ended.errors);
    let message = "process 1 is killed: there is no memory left for its vector registers of 16 bytes each";
    assert!(ended.errors.contains(message), "{}", ended.errors);
}

/// The exit status of a process that makes a thread when only so many pages are free: what its call says.
fn makes_thread(uses_vectors: bool, free: u64) -> u32 {
    let (ended, _) = on_small_machine(|program| {
        let [value, _, zero, ..] = program.asm.roles.saved;
        if uses_vectors {
            program.asm.op_i(Op::VectorSet, value, 0, 0);
        }
        use_up_memory(program, free);
        program.call(Sys::Clone, &[THREAD, DATA + 0x8000, 0, 0, 0]);
        let made = program.asm.label();
        let result = program.asm.roles.result;
        program.asm.li(zero, 0);
        program.asm.branch(Op::Bge, result, zero, made);
        program.asm.op(Op::Sub, value, zero, result);
        program.arg_from(0, value);
        program.call_as_is(Sys::ExitGroup);
        program.asm.bind(made);
        program.exit(0);
    });
    ended.status
}

#[test]
fn no_thread_is_made_without_memory_for_its_vector_registers() {
    // The record of a thread takes a page, its registers another one.
    assert_eq!([makes_thread(false, 1), makes_thread(true, 2)], [0, 0]);
    assert_eq!(makes_thread(true, 1), ENOMEM as u32);
}

/// How many bytes are free when so many pairs of processes have used vector registers, one after the other: of each pair one has ended, the
/// other has executed another program.
fn free_after(pairs: u64) -> u64 {
    let (ended, free_bytes) = on_small_machine(|program| {
        let [pid, count, ..] = program.asm.roles.saved;
        program.asm.li(count, pairs);
        let again = program.asm.here();
        for executes in [false, true] {
            let parent = program.asm.label();
            let child = program.fork(pid);
            program.wait();
            program.asm.jump(parent);
            program.asm.bind(child);
            program.asm.op_i(Op::VectorSet, count, 0, 0);
            if executes {
                program.exec("/end");
            }
            program.exit(0);
            program.asm.bind(parent);
        }
        let less = program.asm.roles.args[5];
        program.asm.li(less, u64::MAX);
        program.asm.op(Op::Add, count, count, less);
        program.asm.li(less, 0);
        program.asm.branch(Op::Bne, count, less, again);
        program.exit(0);
    });
    assert_eq!(ended.status, 0, "{}", ended.errors);
    free_bytes
}

#[test]
fn memory_of_vector_registers_is_freed_with_their_programs() {
    assert_eq!(free_after(2), free_after(20));
}
