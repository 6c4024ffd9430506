//! What islands do while some of them die.

use motet_hal_hosted::isa::Op;
use motet_layout::Isa;

use crate::Scenario;
use crate::calls::Sys;
use crate::program::{DATA, Program};

/// Where a program's stack of results and its page for copies are.
const PIPE: u64 = DATA + 16;
const SCRATCH: u64 = DATA + 0x3000;
const WORKERS: u64 = 3;

/// The first process stays on x86-64; its children become programs for the other instruction sets, which fork in turn,
/// write to memory that they share with their parents, and tell them through pipes and a file that they are done.
pub fn family() -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        let [pid, value, ..] = program.asm.roles.saved;
        // All that come of it have the writing end, too. It ends when all have.
        program.call(Sys::Pipe2, &[PIPE, 0]);
        program.or_exit(100);
        for index in 0..WORKERS {
            program.fork_with(pid, |program| {
                program.exec(if index == 1 { "/arm" } else { "/riscv" });
            });
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
        program.wait_for_all(program.asm.roles.args[5]);
        program.print(1, "all\n");
        program.exit(0);
    });
    let worker = |isa| {
        Program::build(isa, |program| {
            let [pid, at, value, ..] = program.asm.roles.saved;
            program.call(Sys::Pipe2, &[PIPE, 0]);
            program.or_exit(100);
            for _ in 0..2 {
                program.fork_with(pid, |program| {
                    program.asm.li(at, SCRATCH);
                    program.asm.li(value, 1);
                    program.asm.op_i(Op::St64, value, at, 0);
                    program.load_u32(value, PIPE + 4);
                    program.arg_from(0, value);
                    program.arg(1, SCRATCH);
                    program.arg(2, 8);
                    program.call_as_is(Sys::Write);
                    program.exit(0);
                });
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
/// Where programs keep what calls are told: an event, a time, and what comes back.
const EVENT: u64 = DATA + 0x200;
const TIME: u64 = DATA + 0x240;
/// An abstract address of two bytes, once [`write_address`] has put it there.
pub const ADDRESS: u64 = DATA + 0x280;
const ROOM: u64 = DATA + 0x1000;
/// `O_NONBLOCK`, and `SOCK_NONBLOCK`.
pub const NONBLOCK: u64 = 0o4000;
/// `EPOLLIN | EPOLLET`.
const EDGES: u64 = 1 | 1 << 31;

/// What the calls below are told: edges, a timer of an hour, and the address.
fn prepare(program: &mut Program) {
    program.store_at(EVENT, EDGES);
    for (at, word) in [(0, 0), (8, 0), (16, 3600), (24, 0)] {
        program.store_at(TIME + at, word);
    }
    write_address(program);
}

/// Stores the socket address at [`ADDRESS`].
pub fn write_address(program: &mut Program) {
    name_address(program, b'x');
}

/// Stores the address of a socket of that name there.
pub fn name_address(program: &mut Program, name: u8) {
    program.store_at(ADDRESS, 1 | u64::from(name) << 24);
}

/// Listens at [`ADDRESS`] with descriptor 3, the next one; exits with `status` if that fails.
pub fn listen(program: &mut Program, status: u64) {
    for (call, args) in
        [(Sys::Socket, &[1, 1 | NONBLOCK, 0][..]), (Sys::Bind, &[3, ADDRESS, 4]), (Sys::Listen, &[3, 64])]
    {
        program.call(call, args);
        program.or_exit(status);
    }
}

/// Makes a socket and binds or connects it to [`ADDRESS`]; the descriptor is in the first register that calls keep.
pub fn socket_at_address(program: &mut Program, call: Sys) {
    let [fd, ..] = program.asm.roles.saved;
    program.call(Sys::Socket, &[1, 1, 0]);
    program.result_to(fd);
    program.arg_from(0, fd);
    program.arg(1, ADDRESS);
    program.arg(2, 4);
    program.call_as_is(call);
}

/// Connects to who listens at [`ADDRESS`], as [`socket_at_address`].
pub fn connect(program: &mut Program) {
    socket_at_address(program, Sys::Connect);
}

/// Closes the descriptor in the first register that calls keep.
pub fn close(program: &mut Program) {
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
pub fn sharers() -> Scenario {
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
            program.fork_with(pid, |program| {
                program.exec(path);
            });
        }
        share(program, 2);
        program.asm.li(pid, 0);
        program.wait_for_all(pid);
        let result = program.asm.roles.result;
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
        program.leave_open();
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

/// Where a message that is sent lies, and one that is received: a `msghdr`, its vector, its control messages.
pub const SENT: u64 = DATA + 0x400;
/// See [`SENT`].
pub const RECEIVED: u64 = DATA + 0x500;
/// Where the vector of a message lies, behind its beginning.
pub const VECTOR: u64 = 0x40;
/// The same of its control messages.
pub const CONTROL: u64 = 0x60;
/// A descriptor that nobody has.
const NONE: u64 = 0xffff;

/// Makes a pair of sockets of that kind, not waiting: descriptors 3 and 4, if these are the next ones.
pub fn make_pair(program: &mut Program, kind: u64) {
    program.call(Sys::Socketpair, &[1, kind | NONBLOCK, 0, PIPE]);
    program.or_exit(100);
}

/// Stores a message of one byte with room for one open file, and which that is.
pub fn write_message(program: &mut Program, at: u64, fd: u64) {
    let words = [
        (0, 0),
        (8, 0),
        (16, at + VECTOR),
        (24, 1),
        (32, at + CONTROL),
        (40, 24),
        (48, 0),
        (VECTOR, DATA),
        (VECTOR + 8, 1),
        (CONTROL, 20),
        (CONTROL + 8, 1 | 1 << 32),
        (CONTROL + 16, fd),
    ];
    words.into_iter().for_each(|(offset, word)| program.store_at(at + offset, word));
}

/// Sends an open file through a socket.
pub fn send_file(program: &mut Program, socket: u64, fd: u64) {
    write_message(program, SENT, fd);
    program.call(Sys::Sendmsg, &[socket, SENT, 0]);
}

/// Receives one, if there is one.
pub fn receive_file(program: &mut Program, socket: u64) {
    write_message(program, RECEIVED, NONE);
    program.call(Sys::Recvmsg, &[socket, RECEIVED, 0]);
}

/// Closes what was received.
pub fn close_received(program: &mut Program) {
    let [fd, ..] = program.asm.roles.saved;
    program.load_u32(fd, RECEIVED + CONTROL + 16);
    close(program);
}
