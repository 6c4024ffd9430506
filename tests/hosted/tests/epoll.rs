//! Interest lists with more files than a thread has places in queues, written on all islands.

use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere};

const PIPES: u64 = 200;
/// How often each pipe is written.
const ROUNDS: u64 = 2;
/// The list's descriptor; those of the pipes follow, reading end first.
const LIST: u64 = 3;
const FIRST: u64 = LIST + 1;
const WRITERS: [(Isa, &str); 3] = [(Isa::X86_64, "/x86_64"), (Isa::AArch64, "/aarch64"), (Isa::RiscV64, "/riscv64")];
const EPOLL_CTL_ADD: u64 = 1;
const EPOLLIN: u64 = 1;
/// Where the events go; each has 16 bytes on AArch64.
const EVENTS: u64 = DATA + 4096;

/// Writes one byte to every third pipe from `first` on, and again.
fn writer(isa: Isa, first: u64) -> Vec<u8> {
    Program::build(isa, |program| {
        let [fd, end, round, rounds, _] = program.asm.roles.saved;
        program.asm.li(round, 0);
        program.asm.li(rounds, ROUNDS);
        let again = program.asm.here();
        program.asm.li(fd, FIRST + 1 + 2 * first);
        program.asm.li(end, FIRST + 2 * PIPES);
        let next = program.asm.here();
        program.arg_from(0, fd);
        program.arg(1, DATA);
        program.arg(2, 1);
        program.call_as_is(Sys::Write);
        program.or_exit(101);
        program.asm.op_i(Op::Addi, fd, fd, 2 * WRITERS.len() as i32);
        program.asm.branch(Op::Bltu, fd, end, next);
        program.asm.op_i(Op::Addi, round, round, 1);
        program.asm.branch(Op::Bltu, round, rounds, again);
        program.exit(0);
    })
}

/// Watches all pipes, starts the writers, and reads one byte for each event until all have come.
fn reader(events: u64) -> Vec<u8> {
    Program::build(Isa::AArch64, |program| {
        let [at, end, value, read, pid] = program.asm.roles.saved;
        program.call(Sys::EpollCreate1, &[0]);
        program.or_exit(100);
        program.asm.li(at, FIRST);
        program.asm.li(end, FIRST + 2 * PIPES);
        let next = program.asm.here();
        program.call(Sys::Pipe2, &[DATA + 16, 0]);
        program.or_exit(102);
        program.asm.li(value, DATA + 32);
        program.asm.li(read, events);
        program.asm.op_i(Op::St64, read, value, 0);
        program.asm.op_i(Op::St64, at, value, 8);
        program.arg(0, LIST);
        program.arg(1, EPOLL_CTL_ADD);
        program.arg_from(2, at);
        program.arg(3, DATA + 32);
        program.call_as_is(Sys::EpollCtl);
        program.or_exit(103);
        program.asm.op_i(Op::Addi, at, at, 2);
        program.asm.branch(Op::Bltu, at, end, next);
        let children = WRITERS.map(|_| program.fork(pid));
        program.asm.li(read, 0);
        let wait = program.asm.here();
        program.call(Sys::EpollPwait, &[LIST, EVENTS, 64, u64::MAX, 0, 8]);
        program.or_exit(104);
        program.result_to(end);
        program.asm.op(Op::Add, read, read, end);
        program.asm.li(at, EVENTS);
        // 16 bytes for each.
        for _ in 0..4 {
            program.asm.op(Op::Add, end, end, end);
        }
        program.asm.op(Op::Add, end, end, at);
        let event = program.asm.here();
        program.asm.op_i(Op::Ld64, value, at, 8);
        program.arg_from(0, value);
        program.arg(1, DATA);
        program.arg(2, 1);
        program.call_as_is(Sys::Read);
        program.or_exit(105);
        program.asm.op_i(Op::Addi, at, at, 16);
        program.asm.branch(Op::Bltu, at, end, event);
        program.asm.li(value, PIPES * ROUNDS);
        program.asm.branch(Op::Bltu, read, value, wait);
        // Nothing more than was written, and nothing less.
        let good = program.asm.label();
        program.asm.branch(Op::Beq, read, value, good);
        program.exit(106);
        program.asm.bind(good);
        for _ in WRITERS {
            program.wait();
        }
        program.print(1, "read\n");
        program.exit(0);
        for (child, (_, path)) in children.into_iter().zip(WRITERS) {
            program.asm.bind(child);
            program.exec(path);
        }
    })
}

fn scenario(events: u64) -> Scenario {
    let mut files = vec![("reader", reader(events))];
    for (index, (isa, path)) in WRITERS.into_iter().enumerate() {
        files.push((&path[1..], writer(isa, index as u64)));
    }
    Scenario { files, command: vec!["/reader"], ..Scenario::default() }
}

#[test]
fn two_hundred_pipes_written_on_all_islands_are_all_reported() {
    everywhere(20, &scenario(EPOLLIN), 0, "read\n");
}
