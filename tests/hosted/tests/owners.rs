//! Signal-driven reading: whoever writes, on whatever island, and whichever island dies, the owner of a pipe's end is told.

use motet_hal_hosted::{Config, Driver, Faults, IslandConfig, isa::Op};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, env, everywhere, has_died_with_a_lock, whole};

/// The set of `SIGIO`.
const SET: u64 = DATA + 0x100;
const CORES: u64 = DATA + 0x120;
const ROOM: u64 = DATA + 0x1000;
const F_SETFL: u64 = 4;
const F_SETOWN: u64 = 8;
/// `O_ASYNC | O_NONBLOCK`.
const TOLD: u64 = 0o20000 | 0o4000;
const READER: u64 = 3;
const WRITER: u64 = 4;
const WRITES: u64 = 30;
const WRITERS: [(Isa, &str); 3] = [(Isa::X86_64, "/x86_64"), (Isa::AArch64, "/aarch64"), (Isa::RiscV64, "/riscv64")];

/// Makes a pipe of which this process is told. Uses a register.
fn make_pipe(program: &mut Program, pid: u8, reader: u64) {
    program.call(Sys::Pipe2, &[DATA + 16, 0]);
    program.or_exit(100);
    program.call(Sys::Getpid, &[]);
    program.result_to(pid);
    program.arg(0, reader);
    program.arg(1, F_SETOWN);
    program.arg_from(2, pid);
    program.call_as_is(Sys::Fcntl);
    program.or_exit(101);
    program.call(Sys::Fcntl, &[reader, F_SETFL, TOLD]);
    program.or_exit(102);
}

fn block_signal(program: &mut Program) {
    program.store_at(SET, 1 << 28);
    program.call(Sys::RtSigprocmask, &[0, SET, 0, 8]);
    program.or_exit(103);
}

/// Waits for signals, and reads all that there is, until the pipe has ended. `count`: bytes.
fn read_all(program: &mut Program, [count, zero]: [u8; 2]) {
    program.asm.li(count, 0);
    let (again, ended) = (program.asm.here(), program.asm.label());
    program.call(Sys::RtSigtimedwait, &[SET, 0, 0, 8]);
    program.or_exit(104);
    let next = program.asm.here();
    program.call(Sys::Read, &[READER, ROOM, 64]);
    let result = program.asm.roles.result;
    program.asm.li(zero, 0);
    program.asm.branch(Op::Beq, result, zero, ended);
    let nothing = program.asm.label();
    program.asm.branch(Op::Blt, result, zero, nothing);
    program.asm.op(Op::Add, count, count, result);
    program.asm.jump(next);
    program.asm.bind(nothing);
    program.asm.jump(again);
    program.asm.bind(ended);
}

fn write_some(program: &mut Program, [count, end]: [u8; 2]) {
    program.asm.li(count, 0);
    program.asm.li(end, WRITES);
    let again = program.asm.here();
    program.call(Sys::Write, &[WRITER, DATA, 1]);
    program.or_exit(105);
    program.asm.op_i(Op::Addi, count, count, 1);
    program.asm.branch(Op::Bltu, count, end, again);
}

/// Writers on all islands; the reader sleeps but for signals, and gets every byte, and the end.
#[test]
fn bytes_of_all_islands_are_told_by_signals() {
    let reader = Program::build(Isa::AArch64, |program| {
        let [pid, count, zero, wanted, _] = program.asm.roles.saved;
        block_signal(program);
        make_pipe(program, pid, READER);
        for (_, path) in WRITERS {
            program.fork_with(pid, |program| program.exec(path));
        }
        program.call(Sys::Close, &[WRITER]);
        read_all(program, [count, zero]);
        program.asm.li(wanted, WRITES * WRITERS.len() as u64);
        let good = program.asm.label();
        program.asm.branch(Op::Beq, count, wanted, good);
        program.exit(106);
        program.asm.bind(good);
        program.wait_for_all(zero);
        program.print(1, "read\n");
        program.exit(0);
    });
    let mut files = vec![("reader", reader)];
    for (isa, path) in WRITERS {
        let writer = Program::build(isa, |program| {
            let [count, end, ..] = program.asm.roles.saved;
            write_some(program, [count, end]);
            program.exit(0);
        });
        files.push((&path[1..], writer));
    }
    let scenario = Scenario { files, command: vec!["/reader"], ..Scenario::default() };
    everywhere(40, &scenario, 0, "read\n");
}

fn twins(seed: u64, faults: Faults) -> Config {
    let islands = [1, 1].map(|cores| IslandConfig::foreign(Isa::X86_64, cores)).to_vec();
    let mut config = Config::new(Driver::Seeded(seed), islands);
    config.faults = faults;
    config
}

/// The writer has an owner's pipe of its own, too, which it makes and closes again and again, and its island dies: the reader is told of the end.
#[test]
fn the_end_is_told_though_the_writers_island_dies() {
    let program = Program::build(Isa::X86_64, |program| {
        let [pid, count, zero, end, _] = program.asm.roles.saved;
        block_signal(program);
        make_pipe(program, pid, READER);
        program.fork_with(pid, |program| {
            program.store_at(CORES, 1 << 16);
            program.call(Sys::SchedSetaffinity, &[0, 8, CORES]);
            program.or_exit(0); // the island is dead
            program.call(Sys::Close, &[READER]);
            for _ in 0..3 {
                // Its ends are 3 and 5.
                make_pipe(program, pid, READER);
                program.call(Sys::Write, &[5, DATA, 1]);
                program.or_exit(107);
                program.call(Sys::RtSigtimedwait, &[SET, 0, 0, 8]);
                program.or_exit(108);
                program.call(Sys::Close, &[READER]);
                program.call(Sys::Close, &[5]);
            }
            write_some(program, [count, end]);
            program.exit(0);
        });
        program.call(Sys::Close, &[WRITER]);
        read_all(program, [count, zero]);
        program.wait();
        program.print(1, "all\n");
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", program)], command: vec!["/first"], ..Scenario::default() };
    let (mut well, mut locks) = (0, 0);
    for seed in 0..env("MOTET_SEEDS", 2) {
        let (ended, broken) = boot_and_look(twins(seed, ROUGH), &scenario, whole::broken).unwrap();
        assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {}", ended.errors);
        assert!(broken.is_empty(), "seed {seed}: {broken:?}");
        let stride = (ended.steps / 150).max(1);
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
