//! Descriptors of processes: on whatever islands a process and who has its descriptor are, that is told of its end, and of no other process with its id.

use motet_hal_hosted::{Driver, Faults, isa::Op};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, env, everywhere, has_died_with_a_lock, stride, under};

const POLLED: u64 = DATA + 0x100;
const LONG: u64 = DATA + 0x120;
const INFO: u64 = DATA + 0x180;
const AT: u64 = DATA + 0x200;
const SIGKILL: u64 = 9;
const P_PIDFD: u64 = 3;
const WEXITED: u64 = 4;
/// `ESRCH`, as a call's result.
const NOBODY: u64 = (-3_i64).cast_unsigned();
/// `CLONE_PIDFD | SIGCHLD`.
const WITH_PIDFD: u64 = 0x1000 | 17;
/// What a process ends with that was not told of an end.
const OVERSLEPT: u32 = 55;

/// Exits with `status` unless the word at `address` is `wanted`. Uses two registers of arguments.
fn or_exit_unless_word(program: &mut Program, address: u64, wanted: u64, status: u64) {
    let [.., word, other, _] = program.asm.roles.args;
    program.load_u32(word, address);
    let good = program.asm.label();
    program.asm.li(other, wanted);
    program.asm.branch(Op::Beq, word, other, good);
    program.exit(status);
    program.asm.bind(good);
}

/// Polls descriptor 3 for input, for five seconds at most.
fn poll(program: &mut Program, events: u64, status: u64) {
    for (at, word) in [(POLLED, 3 | 1 << 32), (LONG, 5), (LONG + 8, 0)] {
        program.store_at(at, word);
    }
    program.call(Sys::Ppoll, &[POLLED, 1, LONG, 0, 8]);
    program.or_exit_unless(1, OVERSLEPT.into());
    or_exit_unless_word(program, POLLED + 4, 1 | events << 16, status);
}

/// A program that does nothing until it is killed.
fn sleeper(isa: Isa) -> Vec<u8> {
    Program::build(isa, |program| {
        program.call(Sys::Ppoll, &[0, 0, 0, 0, 8]);
        program.exit(0);
    })
}

/// Processes on all islands are killed by their descriptors, polled, and waited for.
#[test]
fn a_descriptor_tells_of_the_end_of_its_process_on_any_island() {
    let first = Program::build(Isa::X86_64, |program| {
        let [pid, zero, ..] = program.asm.roles.saved;
        for path in ["/x86", "/arm", "/riscv"] {
            program.store_at(AT, 0);
            program.call(Sys::Clone, &[WITH_PIDFD, 0, AT, 0, 0]);
            program.or_exit(100);
            program.result_to(pid);
            let (child, behind) = (program.asm.label(), program.asm.label());
            program.asm.li(zero, 0);
            program.asm.branch(Op::Beq, pid, zero, child);
            or_exit_unless_word(program, AT, 3, 101);
            // Another one kills it while this one waits.
            program.fork_with(pid, |program| {
                program.call(Sys::PidfdSendSignal, &[3, SIGKILL, 0, 0]);
                program.or_exit(102);
                program.exit(0);
            });
            poll(program, 1, 103);
            program.call(Sys::Waitid, &[P_PIDFD, 3, INFO, WEXITED, 0]);
            program.or_exit(104);
            or_exit_unless_word(program, INFO + 24, SIGKILL, 105);
            poll(program, 0x11, 106);
            program.call(Sys::PidfdSendSignal, &[3, SIGKILL, 0, 0]);
            program.or_exit_unless(NOBODY, 107);
            program.call(Sys::Close, &[3]);
            program.wait();
            program.asm.jump(behind);
            program.asm.bind(child);
            program.exec(path);
            program.asm.bind(behind);
        }
        program.print(1, "all\n");
        program.exit(0);
    });
    let files = vec![
        ("first", first),
        ("x86", sleeper(Isa::X86_64)),
        ("arm", sleeper(Isa::AArch64)),
        ("riscv", sleeper(Isa::RiscV64)),
    ];
    everywhere(30, &Scenario { files, command: vec!["/first"], ..Scenario::default() }, 0, "all\n");
}

/// A later process has the id of one that was reaped: the descriptor of that one does not reach it.
#[test]
fn a_descriptor_is_not_of_a_later_process_with_the_same_id() {
    let first = Program::build(Isa::X86_64, |program| {
        let [old, pid, zero, ..] = program.asm.roles.saved;
        program.asm.li(zero, 0);
        program.fork_with(old, |program| program.exit(0));
        program.arg_from(0, old);
        program.arg(1, 0);
        program.call_as_is(Sys::PidfdOpen);
        program.or_exit_unless(3, 100);
        program.wait();
        let (again, found, child) = (program.asm.here(), program.asm.label(), program.asm.label());
        program.fork_to(pid, child);
        program.asm.branch(Op::Beq, pid, old, found);
        program.arg_from(0, pid);
        program.arg(1, SIGKILL);
        program.call_as_is(Sys::Kill);
        program.or_exit(101);
        program.wait();
        program.asm.jump(again);
        program.asm.bind(found);
        poll(program, 0x11, 102);
        program.call(Sys::PidfdSendSignal, &[3, SIGKILL, 0, 0]);
        program.or_exit_unless(NOBODY, 103);
        program.call(Sys::PidfdGetfd, &[3, 0, 0]);
        program.or_exit_unless(NOBODY, 104);
        program.call(Sys::Waitid, &[P_PIDFD, 3, INFO, WEXITED, 0]);
        program.or_exit_unless((-10_i64).cast_unsigned(), 105); // ECHILD
        // It lives, and has a descriptor of its own.
        program.arg_from(0, old);
        program.arg(1, 0);
        program.call_as_is(Sys::PidfdOpen);
        program.or_exit_unless(4, 106);
        program.call(Sys::PidfdSendSignal, &[4, SIGKILL, 0, 0]);
        program.or_exit(107);
        program.wait();
        or_exit_unless_word(program, DATA + 8, SIGKILL, 108);
        program.print(1, "all\n");
        program.exit(0);
        program.asm.bind(child);
        program.call(Sys::Ppoll, &[0, 0, 0, 0, 8]);
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], tids: 12, ..Scenario::default() };
    everywhere(20, &scenario, 0, "all\n");
}

/// Whoever polls the descriptor of a process that ends, or whose island dies, learns it.
#[test]
fn who_waits_for_the_end_of_a_process_on_a_dead_island_learns_it() {
    let first = Program::build(Isa::X86_64, |program| {
        let [pid, ..] = program.asm.roles.saved;
        program.fork_with(pid, |program| program.exec("/riscv"));
        program.arg_from(0, pid);
        program.arg(1, 0);
        program.call_as_is(Sys::PidfdOpen);
        program.or_exit_unless(3, 100);
        poll(program, 1, 101);
        program.call(Sys::Waitid, &[P_PIDFD, 3, INFO, WEXITED, 0]);
        program.or_exit(102);
        program.print(1, "all\n");
        program.exit(0);
    });
    let child = Program::build(Isa::RiscV64, |program| program.exit(7));
    let scenario =
        Scenario { files: vec![("first", first), ("riscv", child)], command: vec!["/first"], ..Scenario::default() };
    let (mut well, mut locks) = (0, 0);
    let (stride, offset) = stride(2, 1);
    for seed in 0..env("MOTET_SEEDS", 1) {
        let whole = under(Driver::Seeded(seed), ROUGH, &scenario).unwrap();
        assert_eq!((whole.status, whole.output.as_str()), (0, "all\n"), "{}", whole.errors);
        for step in (1 + offset..whole.steps).step_by(stride as usize) {
            let faults = Faults { death: Some((IslandId(2), step)), survives: true, ..ROUGH };
            match under(Driver::Seeded(seed), faults, &scenario) {
                Ok(ended) => {
                    let got = (ended.status, ended.output.as_str());
                    assert_eq!(got, (0, "all\n"), "seed {seed}, death at step {step}: {}", ended.errors);
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
    assert!(well > 30 && well > 5 * locks, "{well} ended well, {locks} with a lock held");
}
