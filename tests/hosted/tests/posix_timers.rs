//! Timers that send signals: on whatever island they were set, whoever waits gets their signals, and processor time counts that is used on several islands.

use motet_hal_hosted::{Config, Driver, Faults, IslandConfig, isa::Op};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, env, everywhere, has_died_with_a_lock, whole};

/// `SIGUSR1`, and the set of it.
const SIGNAL: u64 = 10;
const SET: u64 = DATA + 0x100;
/// A `struct sigevent`, a timer's id, a setting (interval, then value), what a signal says, and a long time.
const EVENT: u64 = DATA + 0x110;
const ID: u64 = DATA + 0x160;
const SETTING: u64 = DATA + 0x180;
const INFO: u64 = DATA + 0x200;
const LONG: u64 = DATA + 0x300;
const CORES: u64 = DATA + 0x320;
const NOW: u64 = DATA + 0x340;
const CLOCK_MONOTONIC: u64 = 1;
const CLOCK_PROCESS: u64 = 2;
/// `CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD`.
const THREAD: u64 = 0x0001_0f00;
/// What a process ends with whose timer's signal has not come.
const MISSED: u32 = 55;

/// Blocks the signal, and makes a timer of a clock that sends it.
fn make(program: &mut Program, clock: u64) {
    for (at, word) in [(SET, 1 << (SIGNAL - 1)), (EVENT, 77), (EVENT + 8, SIGNAL), (LONG, 5), (LONG + 8, 0)] {
        program.store_at(at, word);
    }
    program.call(Sys::RtSigprocmask, &[0, SET, 0, 8]);
    program.or_exit(101);
    program.call(Sys::TimerCreate, &[clock, EVENT, ID]);
    program.or_exit(102);
}

/// Sets timer 0.
fn set(program: &mut Program, interval_ns: u64, value_ns: u64) {
    for (at, word) in [(0, 0), (8, interval_ns), (16, 0), (24, value_ns)] {
        program.store_at(SETTING + at, word);
    }
    program.call(Sys::TimerSettime, &[0, 0, SETTING, 0]);
    program.or_exit(103);
}

/// Waits for the signal of timer 0, and looks what it says.
fn take(program: &mut Program) {
    let [.., word, _] = program.asm.roles.saved;
    program.call(Sys::RtSigtimedwait, &[SET, INFO, LONG, 8]);
    program.or_exit_unless(SIGNAL, MISSED.into());
    // `SI_TIMER`, the timer's id, and its word.
    for (at, wanted) in [(8, 0xffff_fffe), (16, 0), (24, 77)] {
        program.load_u32(word, INFO + at);
        let (good, other) = (program.asm.label(), program.asm.roles.args[4]);
        program.asm.li(other, wanted);
        program.asm.branch(Op::Beq, word, other, good);
        // Loaded with its sign, or without.
        program.asm.li(other, u64::from(wanted as u32) as i32 as u64);
        program.asm.branch(Op::Beq, word, other, good);
        program.exit(104);
        program.asm.bind(good);
    }
}

/// Runs on the core with that index from here on.
fn go_to(program: &mut Program, core: u64) {
    program.store_at(CORES, 1 << core);
    program.call(Sys::SchedSetaffinity, &[0, 8, CORES]);
    program.or_exit(105);
}

/// Processes on all islands get the signals of timers that go on by themselves, of timers that expire once, and none of timers that are gone.
#[test]
fn timers_expire_for_those_who_wait_on_all_islands() {
    let work = |program: &mut Program| {
        make(program, CLOCK_MONOTONIC);
        set(program, 30_000, 30_000);
        (0..4).for_each(|_| take(program));
        set(program, 0, 20_000);
        take(program);
        program.call(Sys::TimerGettime, &[0, SETTING]);
        program.or_exit(106);
        // One more, which goes with the process.
        program.call(Sys::TimerCreate, &[CLOCK_MONOTONIC, EVENT, ID]);
        program.call(Sys::TimerSettime, &[1, 0, SETTING, 0]);
        program.call(Sys::TimerDelete, &[0]);
        program.or_exit(107);
        program.call(Sys::TimerDelete, &[0]);
        program.or_exit_unless((-22_i64).cast_unsigned(), 108);
    };
    let first = Program::build(Isa::X86_64, |program| {
        let [pid, ..] = program.asm.roles.saved;
        for path in ["/arm", "/riscv"] {
            program.fork_with(pid, |program| program.exec(path));
        }
        work(program);
        for _ in 0..2 {
            program.wait();
            program.load_u32(pid, DATA + 8);
            let (good, zero) = (program.asm.label(), program.asm.roles.args[5]);
            program.asm.li(zero, 0);
            program.asm.branch(Op::Beq, pid, zero, good);
            program.exit(110);
            program.asm.bind(good);
        }
        program.print(1, "all\n");
        program.exit(0);
    });
    let child = |isa| {
        Program::build(isa, |program| {
            work(program);
            program.exit(0);
        })
    };
    let files = vec![("first", first), ("arm", child(Isa::AArch64)), ("riscv", child(Isa::RiscV64))];
    everywhere(30, &Scenario { files, command: vec!["/first"], ..Scenario::default() }, 0, "all\n");
}

/// More timers than a core looks at without a look at others are due at the same moment: each sends its signal, whatever is sent for others.
#[test]
fn many_timers_that_are_due_at_once_all_send_their_signals() {
    const MANY: u64 = 60;
    /// The second one that is queued: `SIGRTMIN + 1`.
    const QUEUED: u64 = 34;
    let program = Program::build(Isa::X86_64, |program| {
        let [count, at, scratch, end, _] = program.asm.roles.saved;
        for (at, word) in [(SET, 1 << (QUEUED - 1)), (EVENT, 77), (EVENT + 8, QUEUED), (LONG, 5), (LONG + 8, 0)] {
            program.store_at(at, word);
        }
        program.call(Sys::RtSigprocmask, &[0, SET, 0, 8]);
        program.or_exit(101);
        // All at one time, which is below a second.
        for word in 0..3 {
            program.store_at(SETTING + 8 * word, 0);
        }
        program.now_ns(at, scratch, NOW);
        program.asm.li(scratch, 3_000_000);
        program.asm.op(Op::Add, at, at, scratch);
        program.asm.li(scratch, SETTING);
        program.asm.op_i(Op::St64, at, scratch, 24);
        program.asm.li(count, 0);
        let again = program.asm.here();
        program.call(Sys::TimerCreate, &[CLOCK_MONOTONIC, EVENT, ID]);
        program.or_exit(102);
        program.arg_from(0, count);
        program.arg(1, 1);
        program.arg(2, SETTING);
        program.arg(3, 0);
        program.call_as_is(Sys::TimerSettime);
        program.or_exit(103);
        program.asm.op_i(Op::Addi, count, count, 1);
        program.asm.li(end, MANY);
        program.asm.branch(Op::Bltu, count, end, again);
        program.asm.li(count, 0);
        let next = program.asm.here();
        program.call(Sys::RtSigtimedwait, &[SET, INFO, LONG, 8]);
        program.or_exit_unless(QUEUED, MISSED.into());
        program.asm.op_i(Op::Addi, count, count, 1);
        program.asm.li(end, MANY);
        program.asm.branch(Op::Bltu, count, end, next);
        program.store_at(LONG, 0);
        program.call(Sys::RtSigtimedwait, &[SET, INFO, LONG, 8]);
        program.or_exit_unless((-11_i64).cast_unsigned(), 104);
        program.print(1, "all\n");
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", program)], command: vec!["/first"], ..Scenario::default() };
    everywhere(10, &scenario, 0, "all\n");
}

/// A process that gives the core away before any tick uses time all the same: its timer expires although no interrupt finds it at work.
fn expires_though(gives_away: impl Fn(&mut Program)) {
    let program = Program::build(Isa::X86_64, |program| {
        let [count, end, ..] = program.asm.roles.saved;
        make(program, CLOCK_PROCESS);
        set(program, 0, 20_000);
        program.store_at(NOW, 0);
        program.store_at(NOW + 8, 10_000);
        program.asm.li(count, 0);
        program.asm.li(end, 3000);
        let again = program.asm.here();
        gives_away(program);
        program.asm.op_i(Op::Addi, count, count, 1);
        program.asm.branch(Op::Bltu, count, end, again);
        program.store_at(LONG, 0);
        program.call(Sys::RtSigtimedwait, &[SET, INFO, LONG, 8]);
        program.or_exit_unless(SIGNAL, MISSED.into());
        program.print(1, "all\n");
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", program)], command: vec!["/first"], ..Scenario::default() };
    everywhere(5, &scenario, 0, "all\n");
}

#[test]
fn a_timer_counts_the_time_of_a_process_that_sleeps_often() {
    expires_though(|program| program.call(Sys::Nanosleep, &[NOW, 0]));
}

/// Two islands of one instruction set.
fn twins(seed: u64, faults: Faults) -> Config {
    let islands = [1, 1].map(|cores| IslandConfig::foreign(Isa::X86_64, cores)).to_vec();
    let mut config = Config::new(Driver::Seeded(seed), islands);
    config.faults = faults;
    config
}

/// A timer that is set on an island that dies, by a thread that has left it, expires all the same; what the thread's process has of the dead island, it loses.
#[test]
fn a_timer_outlives_the_island_on_which_it_was_set() {
    let program = Program::build(Isa::X86_64, |program| {
        let [pid, status, zero, ..] = program.asm.roles.saved;
        go_to(program, 0);
        program.fork_with(pid, |program| {
            program.store_at(CORES, 1 << 16);
            program.call(Sys::SchedSetaffinity, &[0, 8, CORES]);
            program.or_exit(0); // the island is dead
            make(program, CLOCK_MONOTONIC);
            set(program, 1_000_000, 2_000_000);
            go_to(program, 0);
            (0..2).for_each(|_| take(program));
            program.exit(0);
        });
        program.wait();
        program.load_u32(status, DATA + 8);
        let (good, killed) = (program.asm.label(), program.asm.roles.args[5]);
        program.asm.li(zero, 0);
        program.asm.branch(Op::Beq, status, zero, good);
        program.asm.li(killed, 9);
        program.asm.branch(Op::Beq, status, killed, good);
        program.exit(MISSED.into());
        program.asm.bind(good);
        program.print(1, "all\n");
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", program)], command: vec!["/first"], ..Scenario::default() };
    let (mut well, mut locks) = (0, 0);
    for seed in 0..env("MOTET_SEEDS", 2) {
        let (ended, broken) = boot_and_look(twins(seed, ROUGH), &scenario, whole::broken).unwrap();
        assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {}", ended.errors);
        assert!(broken.is_empty(), "seed {seed}: {broken:?}");
        let stride = (ended.steps / 120).max(1);
        for step in (1 + seed..ended.steps).step_by(stride as usize) {
            let faults = Faults { death: Some((IslandId(1), step)), survives: true, ..ROUGH };
            match boot_and_look(twins(seed, faults), &scenario, whole::broken) {
                Ok((ended, broken)) => {
                    let got = (ended.status, ended.output.as_str());
                    assert_eq!(got, (0, "all\n"), "seed {seed}, death at step {step}: {}", ended.errors);
                    assert!(broken.is_empty(), "seed {seed}, death at step {step}: {broken:?}");
                    well += 1;
                }
                Err(failure) => {
                    assert!(has_died_with_a_lock(&failure), "seed {seed}, death at step {step}: {failure}");
                    locks += 1;
                }
            }
        }
    }
    println!("{well} ended well, {locks} with a lock held");
    assert!(well > 50 && well > 5 * locks, "{well} ended well, {locks} with a lock held");
}

/// Threads on two islands use the processor, while a third one waits for a timer by their process's time: it expires after little more than half of that.
#[test]
fn a_timer_counts_processor_time_of_threads_on_two_islands() {
    const VALUE_NS: u64 = 40_000_000;
    let program = Program::build(Isa::X86_64, |program| {
        let [start, now, thread, zero, _] = program.asm.roles.saved;
        let scratch = program.asm.roles.args[3];
        make(program, CLOCK_PROCESS);
        let spins: Vec<_> = [0, 16]
            .into_iter()
            .enumerate()
            .map(|(number, core)| {
                let spins = program.asm.label();
                program.store_at(CORES, 1 << core);
                program.call(Sys::Clone, &[THREAD, DATA + 0x4000 * (number as u64 + 1), 0, 0, 0]);
                program.or_exit(109);
                program.result_to(thread);
                program.asm.li(zero, 0);
                program.asm.branch(Op::Beq, thread, zero, spins);
                program.arg_from(0, thread);
                program.arg(1, 8);
                program.arg(2, CORES);
                program.call_as_is(Sys::SchedSetaffinity);
                program.or_exit(110);
                spins
            })
            .collect();
        set(program, 0, VALUE_NS);
        program.now_ns(start, scratch, NOW);
        take(program);
        program.now_ns(now, scratch, NOW);
        program.asm.op(Op::Sub, now, now, start);
        let soon = program.asm.label();
        program.asm.li(zero, VALUE_NS / 5 * 4);
        program.asm.branch(Op::Bltu, now, zero, soon);
        program.exit(111);
        program.asm.bind(soon);
        program.print(1, "all\n");
        program.exit(0);
        spins.into_iter().for_each(|label| program.asm.bind(label));
        let again = program.asm.here();
        program.asm.jump(again);
    });
    let scenario = Scenario { files: vec![("first", program)], command: vec!["/first"], ..Scenario::default() };
    for seed in 0..4 {
        let islands = [2, 1].map(|cores| IslandConfig::foreign(Isa::X86_64, cores)).to_vec();
        let config = Config::new(Driver::Seeded(seed), islands);
        let (ended, _) = boot_and_look(config, &scenario, |_| ()).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {}", ended.errors);
    }
}
