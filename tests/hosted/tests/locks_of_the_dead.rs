//! Islands that die in the middle of forks, pipes, faults and files: with locks held, wherever that happens to be.

use std::collections::BTreeMap;

use motet_hal_hosted::{Config, Driver, Failure, Faults, isa::Op};
use motet_layout::{BLOCK_RESERVED, Isa, IslandId, LockClass, PAGE_SIZE, Pool, SLAB_FRAME, sync::Ordering};
use motet_protocol::memory::{block, frame_record};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Ended, ROUGH, Scenario, boot_and_look, three_islands, whole};

/// Where a program's stack of results and its page for copies are.
const PIPE: u64 = DATA + 16;
const SCRATCH: u64 = DATA + 0x3000;
const WORKERS: u64 = 3;

/// The first process stays on x86-64; its children become programs for the other instruction sets, which fork in turn,
/// write to memory that they share with their parents, and tell them through pipes and a file that they are done.
fn family() -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        let [pid, value, ..] = program.asm.roles.saved;
        // All that come of it have the writing end, too. It ends when all have.
        program.call(Sys::Pipe2, &[PIPE, 0]);
        program.or_exit(100);
        for index in 0..WORKERS {
            let child = program.fork(pid);
            let behind = program.asm.label();
            program.asm.jump(behind);
            program.asm.bind(child);
            program.exec(if index == 1 { "/arm" } else { "/riscv" });
            program.asm.bind(behind);
        }
        program.load_u32(value, PIPE + 4);
        program.arg_from(0, value);
        program.call_as_is(Sys::Close);
        program.load_u32(value, PIPE);
        program.arg_from(0, value);
        program.arg(1, SCRATCH);
        program.arg(2, 8);
        program.call_as_is(Sys::Read);
        // Until there is no child any more: also those whose parents have died.
        let again = program.asm.here();
        program.call(Sys::Wait4, &[u64::MAX, 0, 0, 0]);
        let (result, zero) = (program.asm.roles.result, program.asm.roles.args[5]);
        program.asm.li(zero, 0);
        program.asm.branch(Op::Bge, result, zero, again);
        program.print(1, "all\n");
        program.exit(0);
    });
    let worker = |isa| {
        Program::build(isa, |program| {
            let [pid, at, value, ..] = program.asm.roles.saved;
            program.call(Sys::Pipe2, &[PIPE, 0]);
            program.or_exit(100);
            for _ in 0..2 {
                let child = program.fork(pid);
                let behind = program.asm.label();
                program.asm.jump(behind);
                program.asm.bind(child);
                program.asm.li(at, SCRATCH);
                program.asm.li(value, 1);
                program.asm.op_i(Op::St64, value, at, 0);
                program.load_u32(value, PIPE + 4);
                program.arg_from(0, value);
                program.arg(1, SCRATCH);
                program.arg(2, 8);
                program.call_as_is(Sys::Write);
                program.exit(0);
                program.asm.bind(behind);
            }
            program.load_u32(value, PIPE);
            program.arg_from(0, value);
            program.arg(1, SCRATCH);
            program.arg(2, 8);
            program.call_as_is(Sys::Read);
            program.wait();
            program.wait();
            program.exit(0);
        })
    };
    let files = vec![("first", first), ("arm", worker(Isa::AArch64)), ("riscv", worker(Isa::RiscV64))];
    Scenario { files, command: vec!["/first"], ..Scenario::default() }
}

/// Descriptors that all processes share.
const LIST: u64 = 3;
const READER: u64 = 4;
const WRITER: u64 = 5;
const TIMER: u64 = 6;
const LISTENER: u64 = 7;
/// Where programs keep what calls are told: an event, a time, an address, and what comes back.
const EVENT: u64 = DATA + 0x200;
const TIME: u64 = DATA + 0x240;
const ADDRESS: u64 = DATA + 0x280;
const ROOM: u64 = DATA + 0x1000;
const NONBLOCK: u64 = 0o4000;
/// `EPOLLIN | EPOLLET`.
const EDGES: u64 = 1 | 1 << 31;

/// What the calls below are told: a timer of an hour, and an abstract address of two bytes.
fn prepare(program: &mut Program) {
    program.store_at(EVENT, EDGES);
    for (at, word) in [(0, 0), (8, 0), (16, 3600), (24, 0)] {
        program.store_at(TIME + at, word);
    }
    program.store_at(ADDRESS, 1 | u64::from(b'x') << 24);
}

/// Connects to the listener; the descriptor is in the first register that calls keep.
fn connect(program: &mut Program) {
    let [fd, ..] = program.asm.roles.saved;
    program.call(Sys::Socket, &[1, 1, 0]);
    program.result_to(fd);
    program.arg_from(0, fd);
    program.arg(1, ADDRESS);
    program.arg(2, 4);
    program.call_as_is(Sys::Connect);
}

fn close(program: &mut Program) {
    let [fd, ..] = program.asm.roles.saved;
    program.arg_from(0, fd);
    program.call_as_is(Sys::Close);
}

/// Changes an interest list, a timer, a pipe and connections that others change, too.
fn share(program: &mut Program, rounds: u64) {
    let [fd, round, rounds_left, ..] = program.asm.roles.saved;
    prepare(program);
    program.asm.li(round, 0);
    program.asm.li(rounds_left, rounds);
    let again = program.asm.here();
    program.call(Sys::EpollCtl, &[LIST, 1, TIMER, EVENT]);
    program.call(Sys::Write, &[WRITER, DATA, 1]);
    program.call(Sys::EpollPwait, &[LIST, ROOM, 8, 0, 0, 8]);
    program.call(Sys::TimerfdSettime, &[TIMER, 0, TIME, 0]);
    program.call(Sys::TimerfdGettime, &[TIMER, ROOM]);
    connect(program);
    close(program);
    program.call(Sys::Accept4, &[LISTENER, 0, 0, 0]);
    program.result_to(fd);
    close(program);
    program.call(Sys::EpollCtl, &[LIST, 2, TIMER, EVENT]);
    program.asm.op_i(Op::Addi, round, round, 1);
    program.asm.branch(Op::Bltu, round, rounds_left, again);
}

/// The first process makes what all share; children of all instruction sets change it. When they have gone, the list still hears of its pipe, and the
/// listener of connections.
fn sharers() -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        let [fd, pid, ..] = program.asm.roles.saved;
        prepare(program);
        for (call, args) in [
            (Sys::EpollCreate1, &[0][..]),
            (Sys::Pipe2, &[PIPE, NONBLOCK]),
            (Sys::TimerfdCreate, &[1, 0]),
            (Sys::Socket, &[1, 1 | NONBLOCK, 0]),
            (Sys::Bind, &[LISTENER, ADDRESS, 4]),
            (Sys::Listen, &[LISTENER, 64]),
            (Sys::EpollCtl, &[LIST, 1, READER, EVENT]),
        ] {
            program.call(call, args);
            program.or_exit(100);
        }
        for path in ["/arm", "/riscv"] {
            let child = program.fork(pid);
            let behind = program.asm.label();
            program.asm.jump(behind);
            program.asm.bind(child);
            program.exec(path);
            program.asm.bind(behind);
        }
        share(program, 2);
        program.asm.li(pid, 0);
        let again = program.asm.here();
        program.call(Sys::Wait4, &[u64::MAX, 0, 0, 0]);
        let result = program.asm.roles.result;
        program.asm.li(pid, 0);
        program.asm.branch(Op::Bge, result, pid, again);
        // Nothing is left to be told of, and then something comes.
        let again = program.asm.here();
        program.call(Sys::EpollPwait, &[LIST, ROOM, 8, 0, 0, 8]);
        program.or_exit(101);
        program.asm.branch(Op::Bne, result, pid, again);
        program.call(Sys::Write, &[WRITER, DATA, 1]);
        program.or_exit(102);
        program.call(Sys::EpollPwait, &[LIST, ROOM, 8, u64::MAX, 0, 8]);
        program.or_exit(103);
        // Whoever connected and was not accepted comes first.
        let again = program.asm.here();
        program.call(Sys::Accept4, &[LISTENER, 0, 0, 0]);
        program.result_to(fd);
        close(program);
        program.asm.branch(Op::Bge, fd, pid, again);
        connect(program);
        program.or_exit(104);
        program.call(Sys::Accept4, &[LISTENER, 0, 0, 0]);
        program.or_exit(105);
        program.call(Sys::TimerfdSettime, &[TIMER, 0, TIME, 0]);
        program.or_exit(106);
        program.print(1, "all\n");
        program.exit(0);
    });
    let child = |isa| {
        Program::build(isa, |program| {
            share(program, 3);
            program.exit(0);
        })
    };
    let files = vec![("first", first), ("arm", child(Isa::AArch64)), ("riscv", child(Isa::RiscV64))];
    Scenario { files, command: vec!["/first"], ..Scenario::default() }
}

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

/// With a point at every atomic operation (`check_model`), islands die between any two of them.
#[test]
fn whatever_locks_an_island_dies_with_the_others_go_on() {
    die_anywhere(&family());
}

#[test]
fn what_islands_share_works_when_one_has_died_changing_it() {
    die_anywhere(&sharers());
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

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
