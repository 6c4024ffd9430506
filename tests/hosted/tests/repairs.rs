//! What locks protect is repaired when an island has died with one, wherever that was: for each class of locks an island dies at operations that it does
//! with such a lock, one death in each run. The repair is seen to be needed, too: without it, one of these runs ends badly.

use motet_hal_hosted::{Config, Defect, Driver, Faults, IslandConfig, isa::Op};
use motet_layout::{Isa, IslandId, LockClass, sync::Ordering};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::deaths::{
    binders, memory, passers, sharers_of_ipc, spaces, terminals, together, transfers, typists, watchers,
};
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::scenarios::{NONBLOCK, close, connect, listen, sharers, write_address};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, env, three_islands, whole};

/// What islands do while one of them dies.
type Make = fn() -> Scenario;

const PIPE: u64 = DATA + 16;
const POLLED: u64 = DATA + 0x2c0;
const ROOM: u64 = DATA + 0x1000;
const TIME: u64 = DATA + 0x240;
/// `AT_FDCWD`.
const HERE: u64 = (-100_i64).cast_unsigned();
const REMOVE_DIRECTORY: u64 = 0x200;
/// `O_CREAT | O_RDWR`.
const CREATE: u64 = 0o102;

/// Children are made and end.
fn forks() -> Scenario {
    together(
        |_| {},
        |program, _| {
            let [_, pid, ..] = program.asm.roles.saved;
            for _ in 0..2 {
                program.fork_with(pid, |program| {
                    program.exit(0);
                });
            }
            program.wait();
            program.wait();
        },
        fork_and_wait,
    )
}

fn fork_and_wait(program: &mut Program) {
    let [_, pid, ..] = program.asm.roles.saved;
    let child = program.fork(pid);
    let behind = program.asm.label();
    program.wait();
    program.asm.jump(behind);
    program.asm.bind(child);
    program.exit(0);
    program.asm.bind(behind);
}

/// Timers are made, set by the machine's time and by processor time, and deleted, and send signals. In the end, one that is made sends its signal.
fn timers() -> Scenario {
    const SIGNAL: u64 = 10;
    const SET: u64 = DATA + 0x300;
    const EVENT: u64 = DATA + 0x310;
    const ID: u64 = DATA + 0x360;
    const SETTING: u64 = DATA + 0x380;
    const INFO: u64 = DATA + 0x400;
    const MOMENT: u64 = DATA + 0x480;
    fn make(program: &mut Program, clock: u64) {
        for (at, word) in
            [(SET, 1 << (SIGNAL - 1)), (EVENT, 77), (EVENT + 8, SIGNAL), (MOMENT, 0), (MOMENT + 8, 50_000)]
        {
            program.store_at(at, word);
        }
        program.call(Sys::RtSigprocmask, &[0, SET, 0, 8]);
        program.call(Sys::TimerCreate, &[clock, EVENT, ID]);
    }
    fn set(program: &mut Program, id: u64, [interval_ns, value_ns]: [u64; 2]) {
        for (at, word) in [(0, 0), (8, interval_ns), (16, 0), (24, value_ns)] {
            program.store_at(SETTING + at, word);
        }
        program.call(Sys::TimerSettime, &[id, 0, SETTING, 0]);
    }
    together(
        |_| {},
        |program, _| {
            // The machine's time, and the process's and the thread's own.
            for (id, clock) in (0..).zip([1, 2, 3]) {
                make(program, clock);
                set(program, id, [5_000, 5_000]);
            }
            for _ in 0..3 {
                program.call(Sys::RtSigtimedwait, &[SET, INFO, MOMENT, 8]);
                set(program, 0, [5_000, 5_000]);
            }
            program.call(Sys::TimerDelete, &[1]);
        },
        |program| {
            program.call(Sys::TimerDelete, &[0]);
            program.or_exit(101);
            program.call(Sys::TimerDelete, &[2]);
            program.or_exit(102);
            make(program, 1);
            program.or_exit(103);
            set(program, 3, [0, 5_000]);
            program.or_exit(104);
            program.store_at(MOMENT, 5);
            program.call(Sys::RtSigtimedwait, &[SET, INFO, MOMENT, 8]);
            program.or_exit_unless(SIGNAL, 105);
        },
    )
}

/// Two strings, to two arguments.
fn names(program: &mut Program, at: [usize; 2], names: [&str; 2]) {
    for (at, name) in at.into_iter().zip(names) {
        program.arg_string(at, name);
    }
}

fn open(program: &mut Program, name: &str) {
    let [fd, ..] = program.asm.roles.saved;
    program.arg(0, HERE);
    program.arg_string(1, name);
    program.arg(2, CREATE);
    program.arg(3, 0o666);
    program.call_as_is(Sys::Openat);
    program.result_to(fd);
}

fn make_directory(program: &mut Program, name: &str) {
    program.arg(0, HERE);
    program.arg_string(1, name);
    program.arg(2, 0o777);
    program.call_as_is(Sys::Mkdirat);
}

fn rename(program: &mut Program, from: &str, to: &str) {
    program.arg(0, HERE);
    program.arg(2, HERE);
    program.arg(4, 0);
    names(program, [1, 3], [from, to]);
    program.call_as_is(Sys::Renameat2);
}

fn unlink(program: &mut Program, name: &str, flags: u64) {
    program.arg(0, HERE);
    program.arg_string(1, name);
    program.arg(2, flags);
    program.call_as_is(Sys::Unlinkat);
}

/// Files and directories are made, renamed and removed in one that all share, and a file grows.
fn directories() -> Scenario {
    together(
        |program| {
            make_directory(program, "/d");
            program.or_exit(100);
            open(program, "/d/file");
            program.or_exit(101);
        },
        |program, isa| {
            let own = match isa {
                Isa::AArch64 => ["/d/a", "/d/b", "/d/c"],
                Isa::RiscV64 => ["/d/e", "/d/f", "/d/g"],
                Isa::X86_64 | Isa::Hosted => ["/d/i", "/d/j", "/d/k"],
            };
            for _ in 0..2 {
                open(program, own[0]);
                close(program);
                make_directory(program, own[1]);
                // One deeper each time.
                for at in [8, 1 << 21] {
                    program.call(Sys::Pwrite64, &[3, DATA, 8, at]);
                }
                rename(program, own[0], own[2]);
                unlink(program, own[1], REMOVE_DIRECTORY);
                unlink(program, own[2], 0);
                program.call(Sys::Ftruncate, &[3, 0]);
            }
        },
        |program| {
            program.call(Sys::Pwrite64, &[3, DATA, 8, 1 << 20]);
            program.or_exit(102);
            program.call(Sys::Pread64, &[3, ROOM, 8, 8]);
            program.or_exit(103);
            open(program, "/d/last");
            program.or_exit(104);
            close(program);
            unlink(program, "/d/last", 0);
            program.or_exit(105);
        },
    )
}

/// All connect a socket of datagrams that they share, and disconnect it: it gets a port, and has none any more. In the end, it gets one that nobody else can have.
fn ports() -> Scenario {
    const SOCKET: u64 = 3;
    const TO: u64 = DATA + 0x600;
    const NONE: u64 = DATA + 0x620;
    const TOLD: u64 = DATA + 0x640;
    const TOLD_LEN: u64 = DATA + 0x660;
    const IN_USE: u64 = (-98_i64).cast_unsigned();
    together(
        |program| {
            program.call(Sys::Socket, &[2, 2, 0]);
            program.or_exit(100);
        },
        |program, _| {
            // Port 2000 of 127.0.0.1, and no family.
            for (at, word) in [(TO, 2 | 0xd007 << 16 | 0x0100_007f << 32), (TO + 8, 0), (NONE, 0), (NONE + 8, 0)] {
                program.store_at(at, word);
            }
            for _ in 0..2 {
                program.call(Sys::Connect, &[SOCKET, TO, 16]);
                program.call(Sys::Connect, &[SOCKET, NONE, 16]);
            }
        },
        |program| {
            program.call(Sys::Connect, &[SOCKET, TO, 16]);
            program.or_exit(101);
            program.store_at(TOLD_LEN, 16);
            program.call(Sys::Getsockname, &[SOCKET, TOLD, TOLD_LEN]);
            program.or_exit(102);
            program.call(Sys::Socket, &[2, 2, 0]);
            program.or_exit(103);
            program.call(Sys::Bind, &[SOCKET + 1, TOLD, 16]);
            program.or_exit_unless(IN_USE, 104);
        },
    )
}

/// Waits at a pipe that all share, for a short time, and writes there.
fn sleepers() -> Scenario {
    fn prepare(program: &mut Program) {
        for (at, word) in [(TIME, 0), (TIME + 8, 20_000), (POLLED, 3 | 1 << 32)] {
            program.store_at(at, word);
        }
    }
    together(
        |program| {
            program.call(Sys::Pipe2, &[PIPE, NONBLOCK]);
            program.or_exit(100);
        },
        |program, _| {
            prepare(program);
            let [_, pid, ..] = program.asm.roles.saved;
            for _ in 0..3 {
                let child = program.fork(pid);
                let behind = program.asm.label();
                program.call(Sys::Ppoll, &[POLLED, 1, TIME, 0, 8]);
                program.call(Sys::Write, &[4, DATA, 1]);
                program.call(Sys::Wait4, &[u64::MAX, 0, 0, 0]);
                program.asm.jump(behind);
                program.asm.bind(child);
                program.call(Sys::Ppoll, &[POLLED, 1, TIME, 0, 8]);
                program.call(Sys::Read, &[3, ROOM, 8]);
                program.exit(0);
                program.asm.bind(behind);
            }
        },
        |program| {
            let [_, pid, ..] = program.asm.roles.saved;
            program.call(Sys::Read, &[3, ROOM, 64]);
            // Nothing comes before it waits.
            let child = program.fork(pid);
            let behind = program.asm.label();
            program.call(Sys::Ppoll, &[POLLED, 1, 0, 0, 8]);
            program.or_exit(104);
            program.wait();
            program.asm.jump(behind);
            program.asm.bind(child);
            program.call(Sys::Nanosleep, &[TIME, 0]);
            program.call(Sys::Write, &[4, DATA, 1]);
            program.exit(0);
            program.asm.bind(behind);
        },
    )
}

/// All read from a pipe and write to it, and open and close a named one. In the end, what was written last is read, and the named one has no
/// reader and no writer any more.
fn pipes() -> Scenario {
    const NAME: &str = "/named";
    const READS: u64 = 4;
    const WRITES: u64 = 5;
    /// `ENXIO`, as a call's result.
    const NOBODY: u64 = (-6_i64).cast_unsigned();
    fn open_end(program: &mut Program, flags: u64) {
        program.arg(0, HERE);
        program.arg_string(1, NAME);
        program.arg(2, flags | NONBLOCK);
        program.arg(3, 0);
        program.call_as_is(Sys::Openat);
    }
    together(
        |program| {
            program.arg(0, HERE);
            program.arg_string(1, NAME);
            program.arg(2, 0o010_666);
            program.arg(3, 0);
            program.call_as_is(Sys::Mknodat);
            program.or_exit(100);
            open_end(program, 2); // O_RDWR
            program.or_exit(101);
            program.call(Sys::Pipe2, &[PIPE, NONBLOCK]);
            program.or_exit(102);
        },
        |program, _| {
            let [fd, ..] = program.asm.roles.saved;
            for flags in [0, 1, 0] {
                open_end(program, flags);
                program.result_to(fd);
                program.call(Sys::Write, &[WRITES, DATA, 8]);
                program.call(Sys::Read, &[READS, ROOM, 64]);
                close(program);
            }
        },
        |program| {
            // What those who have ended or died have left.
            program.call(Sys::Read, &[READS, ROOM, 4096]);
            program.call(Sys::Write, &[WRITES, DATA, 8]);
            program.or_exit_unless(8, 103);
            program.call(Sys::Read, &[READS, ROOM, 64]);
            program.or_exit_unless(8, 104);
            program.call(Sys::Close, &[3]);
            open_end(program, 1); // O_WRONLY
            program.or_exit_unless(NOBODY, 105);
            open_end(program, 0);
            program.or_exit(106);
            program.call(Sys::Read, &[3, ROOM, 8]);
            program.or_exit_unless(0, 107); // the end
        },
    )
}

/// All connect to one socket, and accept.
fn connections() -> Scenario {
    fn connect_and_accept(program: &mut Program) {
        let [fd, ..] = program.asm.roles.saved;
        connect(program);
        close(program);
        program.call(Sys::Accept4, &[3, 0, 0, 0]);
        program.result_to(fd);
        close(program);
    }
    together(
        |program| {
            write_address(program);
            listen(program, 100);
        },
        |program, _| {
            write_address(program);
            (0..4).for_each(|_| connect_and_accept(program));
        },
        |program| {
            let [fd, _, zero, ..] = program.asm.roles.saved;
            // Whoever connected and was not accepted comes first.
            let again = program.asm.here();
            program.call(Sys::Accept4, &[3, 0, 0, 0]);
            program.result_to(fd);
            close(program);
            program.asm.li(zero, 0);
            program.asm.branch(Op::Bge, fd, zero, again);
            connect_and_accept(program);
            // Of the connection that was accepted, as it was closed.
            program.or_exit(105);
        },
    )
}

/// Processes on two islands of one instruction set that have one descriptor table.
fn descriptors() -> Scenario {
    /// `CLONE_FILES | SIGCHLD`.
    const SHARING: u64 = 0x400 | 17;
    fn change(program: &mut Program) {
        for at in [20, 21, 20] {
            program.call(Sys::Dup3, &[3, at, 0]);
            program.call(Sys::Pipe2, &[PIPE, 0]);
            program.call(Sys::Close, &[20]);
            program.call(Sys::Close, &[6]);
            program.call(Sys::Close, &[7]);
        }
    }
    let first = Program::build(Isa::X86_64, |program| {
        let [_, pid, zero, ..] = program.asm.roles.saved;
        program.call(Sys::Pipe2, &[PIPE, 0]);
        program.or_exit(100);
        let child = program.asm.label();
        for _ in 0..4 {
            program.call(Sys::Clone, &[SHARING, 0, 0, 0, 0]);
            program.or_exit(120);
            program.result_to(pid);
            program.asm.li(zero, 0);
            program.asm.branch(Op::Beq, pid, zero, child);
        }
        change(program);
        program.wait_for_all(zero);
        change(program);
        program.leave_open();
        program.print(1, "all\n");
        program.exit(0);
        program.asm.bind(child);
        change(program);
        program.exit(0);
    });
    Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() }
}

fn run(make: Make, seed: u64, death: (IslandId, u64), class: LockClass, defect: Option<Defect>) -> Ran {
    let mut islands = three_islands([2, 1, 2]);
    if matches!(class, LockClass::Descriptors | LockClass::Space) {
        islands = [1, 2, 1].map(|cores| IslandConfig::foreign(Isa::X86_64, cores)).to_vec();
    }
    let mut config = Config::new(Driver::Seeded(seed), islands);
    config.faults = Faults { death: Some(death), death_with: Some(class), survives: true, ..ROUGH };
    config.defect = defect;
    config.steps_max = 3_000_000;
    let scenario = make();
    let looked = boot_and_look(config, &scenario, move |pool| {
        let taken_over = pool.header().locks_recovered[class as usize].load(Ordering::Relaxed);
        (taken_over, whole::broken(pool))
    });
    match looked {
        Ok((ended, (taken_over, broken))) => {
            // A terminal shows what is typed, too.
            let has_said_all = match scenario.is_terminal {
                true => ended.output.ends_with("all\r\n"),
                false => ended.output == "all\n",
            };
            let is_well = ended.status == 0 && has_said_all && broken.is_empty();
            let bad = (!is_well).then(|| format!("{broken:?}, {ended:?}"));
            Ran { steps: ended.steps_with, taken_over, bad }
        }
        Err(failure) => Ran { steps: 0, taken_over: 0, bad: Some(failure.to_string()) },
    }
}

/// A run.
struct Ran {
    /// Operations with a lock of the class.
    steps: u64,
    /// Locks of the class that were taken over.
    taken_over: u64,
    /// How it went wrong.
    bad: Option<String>,
}

/// How many deaths of each island, at most, spread over what it does with the lock: more are tried without the repair, until one ends badly.
const DEATHS: u64 = 400;
/// With the repair, one of so many is tried, if there are many.
const APART: u64 = 8;
const MANY: u64 = 100;
/// Seeds; of a run that takes what it takes; and so many in all, until a run without the repair ends badly.
const SEEDS: u64 = 1;
const SEEDS_LONG: u64 = 4;
const SEEDS_MAX: u64 = 24;

/// Islands die at operations with a lock of a class, and the others go on; without the repair, they do not.
fn repaired(class: LockClass, make: Make) {
    repaired_from(0, class, make);
}

/// The same with seeds from this one on: where few runs without the repair end badly, that is seen sooner with some than with others.
fn repaired_from(first: u64, class: LockClass, make: Make) {
    let seen = die(first, class, make, true);
    println!("  without the repair: {}", seen.lines().next().unwrap_or_default());
}

/// The same, where nothing has to be repaired.
fn whole_at_any_time(class: LockClass, make: Make) {
    die(0, class, make, false);
}

/// How a run without the repair ends, if it is to be seen that it is needed.
fn die(first: u64, class: LockClass, make: Make, is_seen_missing: bool) -> String {
    let usual = if env("MOTET_LONG", 0) == 0 { SEEDS } else { SEEDS_LONG };
    let (first, seeds) = (env("MOTET_FIRST", first), env("MOTET_SEEDS", usual));
    let (mut runs, mut taken_over, mut tried) = (0, 0, 0);
    let (mut bad, mut missing): (Vec<String>, Option<String>) = (Vec::new(), None);
    for (seed, island) in
        (first..first + SEEDS_MAX.max(seeds)).flat_map(|seed| [1, 2].map(|island| (seed, IslandId(island))))
    {
        if seed >= first + seeds && (missing.is_some() || !is_seen_missing) {
            break;
        }
        let steps = run(make, seed, (island, u64::MAX), class, None).steps;
        let stride = (steps / env("MOTET_DEATHS", DEATHS)).max(1);
        for (index, step) in (1 + (seed * 7 + 3) % stride..=steps).step_by(stride as usize).enumerate() {
            let mut is_tried = steps < MANY || (index as u64 + seed).is_multiple_of(env("MOTET_APART", APART));
            if is_seen_missing && missing.is_none() {
                missing = run(make, seed, (island, step), class, Some(Defect::Unrepaired(class))).bad;
                tried += 1;
                is_tried |= missing.is_some();
            }
            if !is_tried {
                continue;
            }
            let ran = run(make, seed, (island, step), class, None);
            (runs, taken_over) = (runs + 1, taken_over + ran.taken_over);
            missing = missing.filter(|_| taken_over != 0);
            if let Some(text) = ran.bad {
                println!("seed {seed}, island {} dies at operation {step} of {steps}: {text}", island.0);
                bad.push(text);
            }
        }
    }
    println!("{class:?}: {runs} deaths, {taken_over} locks taken over, {} failures", bad.len());
    assert!(taken_over > 0, "nobody dies with such a lock");
    assert!(bad.is_empty(), "{} of {runs}; the first: {}", bad.len(), bad[0]);
    assert!(missing.is_some() || !is_seen_missing, "{tried} runs without the repair of {class:?} end well");
    missing.map(|text| format!("after {tried}: {text}")).unwrap_or_default()
}

#[test]
fn the_process_tree_is_repaired() {
    repaired(LockClass::Tree, forks);
}

#[test]
fn timers_of_processes_are_repaired() {
    repaired(LockClass::Tree, timers);
}

#[test]
fn deadlines_of_timers_of_processes_are_repaired() {
    repaired(LockClass::Timers, timers);
}

#[test]
fn directories_and_files_are_repaired() {
    repaired(LockClass::Inode, directories);
}

#[test]
fn descriptor_tables_are_repaired() {
    repaired(LockClass::Descriptors, descriptors);
}

#[test]
fn interest_lists_are_repaired() {
    repaired(LockClass::Interests, sharers);
}

#[test]
fn timer_lists_are_repaired() {
    repaired(LockClass::Timers, sleepers);
}

#[test]
fn slabs_are_repaired() {
    repaired(LockClass::Slab, forks);
}

#[test]
fn frames_of_islands_are_repaired() {
    repaired(LockClass::Frames, forks);
}

#[test]
fn sockets_are_repaired() {
    repaired(LockClass::Socket, connections);
}

#[test]
fn files_in_packets_are_repaired() {
    repaired_from(16, LockClass::Rights, || passers(2));
}

#[test]
fn open_files_of_pseudo_terminals_are_repaired() {
    repaired(LockClass::Ptys, terminals);
}

#[test]
fn segments_semaphores_and_messages_are_repaired() {
    repaired(LockClass::Ipc, sharers_of_ipc);
}

#[test]
fn watches_of_inodes_are_repaired() {
    repaired(LockClass::Notify, watchers);
}

#[test]
fn wait_queues_are_repaired() {
    repaired(LockClass::Waiters, sleepers);
}

#[test]
fn watches_are_repaired() {
    repaired(LockClass::Watches, sharers);
}

#[test]
fn pipes_are_repaired() {
    repaired(LockClass::Pipe, pipes);
}

#[test]
fn address_spaces_are_repaired() {
    repaired(LockClass::Space, spaces);
}

#[test]
fn the_machines_blocks_are_repaired() {
    repaired(LockClass::Blocks, memory);
}

#[test]
fn terminals_are_repaired() {
    repaired(LockClass::Terminal, typists);
}

#[test]
fn files_of_transfers_are_repaired() {
    repaired(LockClass::Transfers, transfers);
}

#[test]
fn bound_sockets_are_repaired() {
    repaired(LockClass::Bound, binders);
}

#[test]
fn ports_of_datagrams_are_whole_at_any_time() {
    whole_at_any_time(LockClass::Bound, ports);
}

#[test]
fn thread_ids_are_whole_at_any_time() {
    whole_at_any_time(LockClass::Ids, forks);
}
