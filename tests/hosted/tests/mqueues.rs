//! POSIX message queues across islands: programs of three instruction sets send, receive and are told; and one of them dies.

use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::deaths::{
    Argument::{Number as N, Text as T},
    call_with, together,
};
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere, whoever_dies};

const HERE: u64 = (-100_i64).cast_unsigned();
/// `struct mq_attr`, `struct sigevent`, a message, what has come, and its priority.
const ATTRIBUTES: u64 = DATA + 0x400;
const EVENT: u64 = DATA + 0x480;
const MESSAGE: u64 = DATA + 0x500;
const RECEIVED: u64 = DATA + 0x540;
const PRIORITY: u64 = DATA + 0x580;
const LEN: u64 = 16;
const CREATES: u64 = 0o102;
const NONBLOCK: u64 = 0o4000;
const SIGEV_NONE: u64 = 1;
const EAGAIN: u64 = (-11_i64).cast_unsigned();
const ENOSPC: u64 = (-28_i64).cast_unsigned();
const ENOENT: u64 = (-2_i64).cast_unsigned();
const ROUNDS: u64 = 3;

/// The descriptor of the queue that all share: each program opens it first.
const QUEUE: u64 = 3;

fn open(program: &mut Program, name: &'static str, flags: u64, count: u64) {
    for (at, word) in [(0, 0), (8, count), (16, LEN)] {
        program.store_at(ATTRIBUTES + at, word);
    }
    call_with(program, Sys::MqOpen, [T(name), N(flags), N(0o600), N(ATTRIBUTES)]);
}

fn make_directory(program: &mut Program) {
    program.call(Sys::Umask, &[0]);
    for path in ["/dev", "/dev/mqueue"] {
        call_with(program, Sys::Mkdirat, [N(HERE), T(path), N(0o1777)]);
    }
}

/// Sends a number by its priority.
fn send(program: &mut Program, queue: u64, number: u64) {
    program.store_at(MESSAGE, number);
    program.call(Sys::MqTimedsend, &[queue, MESSAGE, 8, number, 0]);
}

/// Takes a message, whose number has to be its priority.
fn receive(program: &mut Program, queue: u64, status: u64) {
    let [number, priority, ..] = program.asm.roles.saved;
    program.call(Sys::MqTimedreceive, &[queue, RECEIVED, LEN, PRIORITY, 0]);
    program.or_exit_unless(8, status);
    program.load_u32(number, RECEIVED);
    program.load_u32(priority, PRIORITY);
    let good = program.asm.label();
    program.asm.branch(Op::Beq, number, priority, good);
    program.exit(status + 1);
    program.asm.bind(good);
}

/// Two send more than there is room for, and one receives all of it.
fn sends() -> Scenario {
    together(
        |program| {
            make_directory(program);
            open(program, "all", CREATES, 2);
            program.or_exit_unless(QUEUE, 100);
        },
        |program, isa| {
            if isa == Isa::X86_64 {
                (0..2 * ROUNDS).for_each(|_| receive(program, QUEUE, 101));
                return;
            }
            open(program, "all", 2, 0);
            program.or_exit_unless(QUEUE, 103);
            for round in 0..ROUNDS {
                send(program, QUEUE, 10 * round + isa as u64);
                program.or_exit(104);
            }
        },
        |program| {
            call_with(program, Sys::MqUnlink, [T("all")]);
            program.or_exit(105);
            open(program, "all", 2, 0);
            program.or_exit_unless(ENOENT, 106);
        },
    )
}

#[test]
fn messages_of_two_islands_reach_a_third_one_through_a_queue_that_is_too_short() {
    everywhere(20, &sends(), 0, "all\n");
}

/// All send, receive, want to be told, and make queues of their own; in the end the shared one is whole, and goes.
fn busy() -> Scenario {
    together(
        |program| {
            make_directory(program);
            open(program, "all", CREATES | NONBLOCK, 9);
            program.or_exit_unless(QUEUE, 100);
            program.store_at(EVENT + 8, SIGEV_NONE << 32);
        },
        |program, isa| {
            let name = match isa {
                Isa::X86_64 => "x",
                Isa::AArch64 => "a",
                Isa::RiscV64 | Isa::Hosted => "r",
            };
            if isa != Isa::X86_64 {
                open(program, "all", 2 | NONBLOCK, 0);
                program.or_exit_unless(QUEUE, 101);
                program.store_at(EVENT + 8, SIGEV_NONE << 32);
            }
            for round in 0..2 {
                send(program, QUEUE, 10 * round + isa as u64);
                // Somebody else may be told already.
                program.call(Sys::MqNotify, &[QUEUE, EVENT]);
                open(program, name, CREATES, 1);
                program.or_exit_unless(QUEUE + 1, 102);
                send(program, QUEUE + 1, 7);
                program.or_exit(103);
                call_with(program, Sys::MqUnlink, [T(name)]);
                program.or_exit(104);
                receive(program, QUEUE + 1, 105);
                program.call(Sys::Close, &[QUEUE + 1]);
                program.or_exit(107);
            }
            program.call(Sys::MqTimedreceive, &[QUEUE, RECEIVED, LEN, PRIORITY, 0]);
        },
        |program| {
            let [got, wanted, ..] = program.asm.roles.saved;
            let (again, empty) = (program.asm.here(), program.asm.label());
            program.call(Sys::MqTimedreceive, &[QUEUE, RECEIVED, LEN, PRIORITY, 0]);
            program.result_to(got);
            program.asm.li(wanted, 8);
            program.asm.branch(Op::Beq, got, wanted, again);
            program.asm.li(wanted, EAGAIN);
            program.asm.branch(Op::Beq, got, wanted, empty);
            program.exit(108);
            program.asm.bind(empty);
            call_with(program, Sys::MqUnlink, [T("all")]);
            program.or_exit(109);
            program.call(Sys::Close, &[QUEUE]);
            program.or_exit(110);
        },
    )
}

#[test]
fn all_send_receive_and_make_queues_at_once() {
    everywhere(10, &busy(), 0, "all\n");
}

#[test]
fn queues_are_whole_and_gone_whoever_dies() {
    whoever_dies(&busy(), "all\n");
}

/// A user makes as many queues as may be; others still make theirs, and they go with the last descriptor.
fn flood() -> Scenario {
    const USER: u64 = 1000;
    let program = Program::build(Isa::RiscV64, |program| {
        let [_, pid, got, zero, ..] = program.asm.roles.saved;
        make_directory(program);
        program.fork_with(pid, |program| {
            program.call(Sys::Setresuid, &[USER, USER, USER]);
            program.or_exit(100);
            // Each is counted for its messages; the names are gone at once, and the descriptors stay.
            let again = program.asm.here();
            open(program, "mine", CREATES, 10);
            program.result_to(got);
            call_with(program, Sys::MqUnlink, [T("mine")]);
            program.asm.li(zero, 0);
            program.asm.branch(Op::Bge, got, zero, again);
            open(program, "mine", CREATES, 10);
            program.or_exit_unless(ENOSPC, 101);
            program.exit(0);
        });
        program.wait();
        program.load_u32(got, DATA + 8);
        program.asm.li(zero, 0);
        let good = program.asm.label();
        program.asm.branch(Op::Beq, got, zero, good);
        program.exit(103);
        program.asm.bind(good);
        open(program, "own", CREATES, 100);
        program.or_exit_unless(QUEUE, 104);
        program.print(1, "room\n");
        program.exit(0);
    });
    Scenario { files: vec![("flood", program)], command: vec!["/flood"], ..Scenario::default() }
}

#[test]
fn a_user_who_makes_all_queues_leaves_room_for_others() {
    everywhere(2, &flood(), 0, "room\n");
}
