//! Signals that end processes.

use motet_abi::signal::{SIGKILL, SIGSTOP, SIGTERM};
use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere};

/// `CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD`.
const THREAD: u64 = 0x0001_0f00;

const O_NONBLOCK: u64 = 0x800;
/// Where a program has a time for `nanosleep`.
const NAP: u64 = DATA + 32;

/// A process with threads on all cores kills itself: whichever thread sees the signal first, none executes another
/// instruction after the call.
#[test]
fn who_kills_its_process_does_not_come_back() {
    let program = Program::build(Isa::X86_64, |program| {
        let [pid, thread, zero, own, _] = program.asm.roles.saved;
        program.asm.li(zero, 0);
        let child = program.fork(pid);
        program.wait();
        program.print(1, "ended\n");
        program.exit(0);
        program.asm.bind(child);
        let other = program.asm.label();
        for number in 0..3u64 {
            program.call(Sys::Clone, &[THREAD, DATA + 0x4000 * (number + 1), 0, 0, 0]);
            program.or_exit(100);
            program.result_to(thread);
            program.asm.branch(Op::Beq, thread, zero, other);
        }
        program.call(Sys::Getpid, &[]);
        program.result_to(own);
        program.arg_from(0, own);
        program.arg(1, SIGKILL.into());
        program.call_as_is(Sys::Kill);
        program.print(1, "came back\n");
        program.asm.bind(other);
        let again = program.asm.here();
        program.call(Sys::SchedYield, &[]);
        program.asm.jump(again);
    });
    let scenario = Scenario { files: vec![("kills", program)], command: vec!["/kills"], ..Scenario::default() };
    everywhere(150, &scenario, 0, "ended\n");
}

/// A group whose processes do nothing but make others and end. Who kills the group kills all of it, also those that are being made meanwhile: the
/// pipe that all have ends.
fn kills_a_group_that_forks(signal: u32) {
    let program = Program::build(Isa::X86_64, |program| {
        let [pid, group, zero, other, _] = program.asm.roles.saved;
        program.asm.li(zero, 0);
        program.call(Sys::Pipe2, &[DATA, 0]);
        program.or_exit(100);
        let leader = program.fork(group);
        // The leader has said that its group is there.
        read_byte(program);
        program.load_u32(other, DATA + 4);
        program.arg_from(0, other);
        program.call_as_is(Sys::Close);
        program.asm.op(Op::Sub, pid, zero, group);
        program.arg_from(0, pid);
        program.arg(1, signal.into());
        program.call_as_is(Sys::Kill);
        program.or_exit(101);
        read_byte(program);
        program.print(1, "ended\n");
        program.exit(0);
        program.asm.bind(leader);
        program.call(Sys::Setpgid, &[0, 0]);
        program.load_u32(other, DATA + 4);
        program.arg_from(0, other);
        program.arg(1, DATA + 16);
        program.arg(2, 1);
        program.call_as_is(Sys::Write);
        let again = program.asm.label();
        for _ in 0..3 {
            program.fork_to(pid, again);
        }
        program.exit(0);
        program.asm.bind(again);
        program.fork_to(pid, again);
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("forks", program)], command: vec!["/forks"], ..Scenario::default() };
    everywhere(150, &scenario, 0, "ended\n");
}

#[test]
fn no_process_of_a_group_escapes_from_sigkill() {
    kills_a_group_that_forks(SIGKILL);
}

/// Nobody handles the signal, so it ends each of them.
#[test]
fn no_process_of_a_group_escapes_from_a_signal_that_ends_it() {
    kills_a_group_that_forks(SIGTERM);
}

/// Who stops a group stops all of it, also those that are being made meanwhile: each process of the group writes a byte and makes another one, and
/// nothing more comes.
#[test]
fn no_process_of_a_group_escapes_from_a_stop() {
    let program = Program::build(Isa::X86_64, |program| {
        let [pid, group, zero, other, _] = program.asm.roles.saved;
        program.asm.li(zero, 0);
        program.store_at(NAP, 0);
        program.store_at(NAP + 8, 2_000_000);
        program.call(Sys::Pipe2, &[DATA, O_NONBLOCK]);
        program.or_exit(100);
        let leader = program.fork(group);
        let waits = program.asm.here();
        program.call(Sys::Nanosleep, &[NAP, 0]);
        let announced = read_all(program);
        program.asm.branch(Op::Bge, zero, announced, waits);
        program.asm.op(Op::Sub, pid, zero, group);
        program.arg_from(0, pid);
        program.arg(1, SIGSTOP.into());
        program.call_as_is(Sys::Kill);
        program.or_exit(101);
        // What runs on other cores stops soon.
        let stopped = program.asm.label();
        for _ in 0..20 {
            program.call(Sys::Nanosleep, &[NAP, 0]);
            let more = read_all(program);
            program.asm.branch(Op::Bge, zero, more, stopped);
        }
        program.print(1, "escaped\n");
        program.asm.bind(stopped);
        program.arg_from(0, pid);
        program.arg(1, SIGKILL.into());
        program.call_as_is(Sys::Kill);
        program.print(1, "ended\n");
        program.exit(0);
        program.asm.bind(leader);
        program.call(Sys::Setpgid, &[0, 0]);
        let again = program.asm.here();
        program.load_u32(other, DATA + 4);
        program.arg_from(0, other);
        program.arg(1, DATA + 16);
        program.arg(2, 1);
        program.call_as_is(Sys::Write);
        program.fork_to(pid, again);
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("forks", program)], command: vec!["/forks"], ..Scenario::default() };
    everywhere(150, &scenario, 0, "ended\n");
}

/// Reads what is in the pipe at [`DATA`], which does not block. The register that is returned has the result.
fn read_all(program: &mut Program) -> u8 {
    read(program, DATA + 64, 4096);
    program.asm.roles.result
}

/// Reads a byte from the pipe at [`DATA`], or nothing if it has ended.
fn read_byte(program: &mut Program) {
    read(program, DATA + 16, 1);
    program.or_exit(102);
}

/// Reads from the pipe at [`DATA`].
fn read(program: &mut Program, to: u64, bytes: u64) {
    let [.., other, _] = program.asm.roles.saved;
    program.load_u32(other, DATA);
    program.arg_from(0, other);
    program.arg(1, to);
    program.arg(2, bytes);
    program.call_as_is(Sys::Read);
}
