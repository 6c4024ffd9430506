//! Calls that take long, on an island with one core: other threads run meanwhile, and SIGKILL ends them.

use motet_hal_hosted::asm::Label;
use motet_hal_hosted::isa::Op;
use motet_hal_hosted::{Driver, Faults, run_seeds};
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::scenarios::{ADDRESS, close, connect, write_address};
use motet_tests_hosted::{Scenario, under};

const BUFFER: u64 = 0x3000_0000;
const LEN: u64 = 4 << 20;
const SLEEP_NS: u64 = 300;
const AT_FDCWD: u64 = -100i64 as u64;
const O_RDWR_CREAT: u64 = 0x42;

/// Maps the buffer and makes a file, which gets descriptor 3.
fn prepare(program: &mut Program) {
    program.call(Sys::Mmap, &[BUFFER, LEN, 3, 0x32, u64::MAX, 0]); // private, fixed, anonymous
    program.or_exit(100);
    program.arg(0, AT_FDCWD);
    program.arg_string(1, "/file");
    program.arg(2, O_RDWR_CREAT);
    program.arg(3, 0o600);
    program.call_as_is(Sys::Openat);
    program.or_exit(101);
}

/// Starts a thread that sleeps for a moment again and again and counts that at [`DATA`]; returns when it has begun to, with 0
/// in `zero`.
fn start_sleeper(program: &mut Program) -> Sleeper {
    let [before, at, value, zero, _] = program.asm.roles.saved;
    let sleeper = program.asm.label();
    program.asm.li(at, DATA + 256);
    program.asm.li(value, SLEEP_NS);
    program.asm.op_i(Op::St64, value, at, 8);
    program.asm.li(zero, 0);
    // CLONE_VM | FS | FILES | SIGHAND | THREAD
    program.call(Sys::Clone, &[0x0001_0f00, DATA + 0x8000, 0, 0, 0]);
    program.or_exit(102);
    program.result_to(value);
    program.asm.branch(Op::Beq, value, zero, sleeper);
    let wait = program.asm.here();
    program.call(Sys::SchedYield, &[]);
    program.asm.li(at, DATA);
    program.asm.op_i(Op::Ld64, before, at, 0);
    program.asm.branch(Op::Beq, before, zero, wait);
    Sleeper(sleeper)
}

/// Where the sleeper's code is to be.
struct Sleeper(Label);

impl Sleeper {
    /// Its code, behind the end of the first thread's.
    fn code(self, program: &mut Program) {
        let [_, at, value, ..] = program.asm.roles.saved;
        program.asm.bind(self.0);
        program.asm.li(at, DATA);
        let again = program.asm.here();
        program.call(Sys::Nanosleep, &[DATA + 256, 0]);
        program.asm.op_i(Op::Ld64, value, at, 0);
        program.asm.op_i(Op::Addi, value, value, 1);
        program.asm.op_i(Op::St64, value, at, 0);
        program.asm.jump(again);
    }
}

/// Exits with `status` unless the sleeper has counted at least three times since `before` was read.
fn expect_counts(program: &mut Program, status: u64) {
    let [before, at, value, ..] = program.asm.roles.saved;
    let ran = program.asm.label();
    program.asm.op_i(Op::Ld64, value, at, 0);
    program.asm.op_i(Op::Addi, before, before, 2);
    program.asm.branch(Op::Bltu, before, value, ran);
    program.exit(status);
    program.asm.bind(ran);
}

/// One thread writes a long file, reads it and has it cut, and unmaps much memory; the other one sleeps for a moment again and again, and counts.
#[test]
fn others_run_during_long_calls() {
    let program = Program::build(Isa::AArch64, |program| {
        let [before, at, ..] = program.asm.roles.saved;
        prepare(program);
        let sleeper = start_sleeper(program);
        for (call, status) in [(Sys::Pwrite64, 103), (Sys::Pread64, 106)] {
            program.asm.op_i(Op::Ld64, before, at, 0);
            program.call(call, &[3, BUFFER, LEN, 0]);
            program.or_exit_unless(LEN, status);
            expect_counts(program, status + 1);
        }
        program.call(Sys::Ftruncate, &[3, 0]);
        program.or_exit_unless(0, 109);
        program.call(Sys::Pread64, &[3, BUFFER, LEN, 0]);
        program.or_exit_unless(0, 110);
        // The buffer is resident now.
        program.asm.op_i(Op::Ld64, before, at, 0);
        program.call(Sys::Munmap, &[BUFFER, LEN]);
        program.or_exit_unless(0, 112);
        expect_counts(program, 113);
        program.print(1, "done\n");
        program.exit(0);
        sleeper.code(program);
    });
    let scenario = Scenario { files: vec![("long", program)], command: vec!["/long"], ..Scenario::default() };
    under_seeds(&scenario, "done\n");
}

/// A large process forks, which cannot let go of its locks in between, while another of its threads sleeps: the timer that
/// comes meanwhile is not forgotten, though nobody enters the kernel afterwards.
#[test]
fn a_timer_that_comes_during_a_fork_is_served_afterwards() {
    let program = Program::build(Isa::AArch64, |program| {
        let [before, at, value, zero, _] = program.asm.roles.saved;
        prepare(program);
        // The buffer becomes resident.
        program.call(Sys::Pread64, &[3, BUFFER, LEN, 0]);
        program.call(Sys::Ftruncate, &[3, LEN]);
        program.call(Sys::Pread64, &[3, BUFFER, LEN, 0]);
        program.or_exit_unless(LEN, 101);
        let sleeper = start_sleeper(program);
        for _ in 0..3 {
            let child = program.fork(value);
            program.asm.li(at, DATA);
            program.asm.op_i(Op::Ld64, before, at, 0);
            let spin = program.asm.here();
            program.asm.op_i(Op::Ld64, value, at, 0);
            program.asm.branch(Op::Beq, before, value, spin);
            program.wait();
            let parent = program.asm.label();
            program.asm.branch(Op::Beq, zero, zero, parent);
            program.asm.bind(child);
            program.exit(0);
            program.asm.bind(parent);
        }
        program.print(1, "done\n");
        program.exit(0);
        sleeper.code(program);
    });
    let scenario = Scenario { files: vec![("forks", program)], command: vec!["/forks"], ..Scenario::default() };
    under_seeds(&scenario, "done\n");
}

/// A thread reads standard input, of which it gets what there was when something else was due, and then computes; its time slice
/// ends although the timer came in the middle of the call.
#[test]
fn a_slice_that_ends_during_a_short_read_ends_after_it() {
    const INPUT: usize = 48 << 10;
    let program = Program::build(Isa::AArch64, |program| {
        let [before, at, value, _, left] = program.asm.roles.saved;
        prepare(program);
        let sleeper = start_sleeper(program);
        program.asm.li(left, INPUT as u64);
        let again = program.asm.here();
        program.asm.li(at, DATA);
        program.asm.op_i(Op::Ld64, before, at, 0);
        program.call(Sys::Read, &[0, BUFFER, LEN]);
        program.or_exit(103);
        program.asm.op(Op::Sub, left, left, program.asm.roles.result);
        let spin = program.asm.here();
        program.asm.op_i(Op::Ld64, value, at, 0);
        program.asm.branch(Op::Beq, before, value, spin);
        let done = program.asm.label();
        let zero = program.asm.roles.args[5];
        program.asm.li(zero, 0);
        program.asm.branch(Op::Beq, left, zero, done);
        program.asm.jump(again);
        program.asm.bind(done);
        program.print(1, "done\n");
        program.exit(0);
        sleeper.code(program);
    });
    let (files, input) = (vec![("reads", program)], vec![b'x'; INPUT]);
    let scenario = Scenario { files, command: vec!["/reads"], input, ..Scenario::default() };
    under_seeds(&scenario, "done\n");
}

/// A process is killed by its parent in the middle of a long write: the file is not as long as it would be.
#[test]
fn a_killed_process_leaves_its_long_call() {
    let program = Program::build(Isa::AArch64, |program| {
        let [pid, at, value, _, _] = program.asm.roles.saved;
        prepare(program);
        program.asm.li(at, DATA + 256);
        program.asm.li(value, SLEEP_NS);
        program.asm.op_i(Op::St64, value, at, 8);
        let child = program.fork(pid);
        program.call(Sys::Nanosleep, &[DATA + 256, 0]);
        program.arg_from(0, pid);
        program.arg(1, 9);
        program.call_as_is(Sys::Kill);
        program.or_exit(103);
        program.wait();
        let killed = program.asm.label();
        program.load_u32(value, DATA + 8);
        let nine = program.asm.roles.args[5];
        program.asm.li(nine, 9);
        program.asm.branch(Op::Beq, value, nine, killed);
        program.exit(104);
        program.asm.bind(killed);
        program.call(Sys::Pread64, &[3, BUFFER, LEN, 0]);
        let (result, whole) = (program.asm.roles.result, program.asm.roles.args[5]);
        program.asm.li(whole, LEN);
        let cut = program.asm.label();
        program.asm.branch(Op::Bltu, result, whole, cut);
        program.exit(105);
        program.asm.bind(cut);
        program.print(1, "killed\n");
        program.exit(0);
        program.asm.bind(child);
        let again = program.asm.here();
        program.call(Sys::Pwrite64, &[3, BUFFER, LEN, 0]);
        program.asm.jump(again);
    });
    let scenario = Scenario { files: vec![("killed", program)], command: vec!["/killed"], ..Scenario::default() };
    under_seeds(&scenario, "killed\n");
}

/// A listener is closed at which many have connected, while another thread, on another core, unmaps memory again and again: each time it waits until the first core has heard of it.
#[test]
fn others_are_answered_while_a_listener_with_many_is_closed() {
    const MANY: u64 = 120;
    let program = Program::build(Isa::RiscV64, |program| {
        let [fd, at, value, zero, before] = program.asm.roles.saved;
        write_address(program);
        for (call, args) in [(Sys::Socket, &[1, 1, 0][..]), (Sys::Bind, &[3, ADDRESS, 4]), (Sys::Listen, &[3, MANY])] {
            program.call(call, args);
            program.or_exit(100);
        }
        program.asm.li(before, 0);
        let again = program.asm.here();
        connect(program);
        program.or_exit(101);
        close(program);
        program.asm.op_i(Op::Addi, before, before, 1);
        program.asm.li(value, MANY);
        program.asm.branch(Op::Bltu, before, value, again);
        let other = program.asm.label();
        program.asm.li(zero, 0);
        // CLONE_VM | FS | FILES | SIGHAND | THREAD
        program.call(Sys::Clone, &[0x0001_0f00, DATA + 0x8000, 0, 0, 0]);
        program.or_exit(102);
        program.result_to(fd);
        program.asm.branch(Op::Beq, fd, zero, other);
        program.asm.li(at, DATA);
        let wait = program.asm.here();
        program.call(Sys::SchedYield, &[]);
        program.asm.op_i(Op::Ld64, before, at, 0);
        program.asm.branch(Op::Beq, before, zero, wait);
        program.call(Sys::Close, &[3]);
        program.asm.op_i(Op::Ld64, value, at, 0);
        program.asm.op_i(Op::Addi, before, before, 8);
        let answered = program.asm.label();
        program.asm.branch(Op::Bltu, before, value, answered);
        program.exit(103);
        program.asm.bind(answered);
        program.print(1, "done\n");
        program.exit(0);
        program.asm.bind(other);
        program.asm.li(at, DATA);
        let again = program.asm.here();
        program.call(Sys::Mmap, &[BUFFER, 4096, 3, 0x32, u64::MAX, 0]);
        program.store_at(BUFFER, 1);
        program.call(Sys::Munmap, &[BUFFER, 4096]);
        program.asm.li(at, DATA);
        program.asm.op_i(Op::Ld64, value, at, 0);
        program.asm.op_i(Op::Addi, value, value, 1);
        program.asm.op_i(Op::St64, value, at, 0);
        program.asm.jump(again);
    });
    let scenario = Scenario { files: vec![("closes", program)], command: vec!["/closes"], ..Scenario::default() };
    under_seeds(&scenario, "done\n");
}

/// Time goes by with what cores do, then: a real host copies so fast that a long call is over before others are due.
fn under_seeds(scenario: &Scenario, output: &str) {
    run_seeds(0..10, |seed| {
        println!("seed {seed}");
        under(Driver::Seeded(seed), Faults::default(), scenario)
            .map(|ended| assert_eq!((ended.status, ended.output.as_str()), (0, output), "errors: {}", ended.errors))
    });
}
