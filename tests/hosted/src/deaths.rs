//! What islands do while one of them dies with a lock (`tests/repairs.rs`).

use motet_hal_hosted::isa::Op;
use motet_layout::Isa;

use crate::Scenario;
use crate::calls::Sys;
use crate::program::{DATA, Program};
use crate::scenarios::{
    ADDRESS, NONBLOCK, close_received, connect, listen, make_pair, name_address, receive_file, send_file,
    socket_at_address, write_address,
};

const ROOM: u64 = DATA + 0x1000;
/// `AT_FDCWD`.
const HERE: u64 = (-100_i64).cast_unsigned();
/// Where programs map memory.
const MAPPED: u64 = 0x3000_0000;
/// Private, fixed, anonymous.
const HOW: u64 = 0x32;
/// `EIO`, as a call's result.
const EIO: u64 = (-5_i64).cast_unsigned();

/// A first process on x86-64 that does `first`, starts programs for the other two that do `work` as it does itself, waits until there is no child any more, does `last`,
/// and says that all is done.
pub fn together(first: fn(&mut Program), work: fn(&mut Program, Isa), last: fn(&mut Program)) -> Scenario {
    let parent = Program::build(Isa::X86_64, |program| {
        let [_, pid, zero, ..] = program.asm.roles.saved;
        first(program);
        for path in ["/arm", "/riscv"] {
            program.fork_with(pid, |program| {
                program.exec(path);
            });
        }
        work(program, Isa::X86_64);
        program.wait_for_all(zero);
        last(program);
        program.leave_open();
        program.print(1, "all\n");
        program.exit(0);
    });
    let child = |isa| {
        Program::build(isa, |program| {
            work(program, isa);
            program.exit(0);
        })
    };
    let files = vec![("first", parent), ("arm", child(Isa::AArch64)), ("riscv", child(Isa::RiscV64))];
    Scenario { files, command: vec!["/first"], ..Scenario::default() }
}

/// Programs use more memory than a block has, and give it back.
pub fn memory() -> Scenario {
    const LEN: u64 = 560 << 12;
    together(
        |_| {},
        |program, _| {
            let [at, end, ..] = program.asm.roles.saved;
            for _ in 0..2 {
                program.call(Sys::Mmap, &[MAPPED, LEN, 3, HOW, u64::MAX, 0]);
                program.or_exit(100);
                program.asm.li(at, MAPPED);
                program.asm.li(end, MAPPED + LEN);
                let again = program.asm.here();
                program.asm.op_i(Op::St64, at, at, 0);
                let page = program.asm.roles.args[5];
                program.asm.li(page, 1 << 12);
                program.asm.op(Op::Add, at, at, page);
                program.asm.branch(Op::Bltu, at, end, again);
                program.call(Sys::Munmap, &[MAPPED, LEN]);
                program.or_exit(101);
            }
        },
        |_| {},
    )
}

/// All bind sockets, which they have made or share, and close them. In the end, those that they share are bound or can be, and a name can be bound.
pub fn binders() -> Scenario {
    /// How many each binds of those that they share, whose descriptors begin here.
    const EACH: u64 = 4;
    const SHARED: u64 = 3;
    fn bind_shared(program: &mut Program, fd: u64) {
        name_address(program, b'A' + fd as u8);
        program.call(Sys::Bind, &[fd, ADDRESS, 4]);
    }
    together(
        |program| {
            for _ in 0..3 * EACH {
                program.call(Sys::Socket, &[1, 1, 0]);
                program.or_exit(100);
            }
        },
        |program, isa| {
            let (first, shared) = match isa {
                Isa::AArch64 => (b'a', SHARED),
                Isa::RiscV64 => (b'f', SHARED + EACH),
                Isa::X86_64 | Isa::Hosted => (b'k', SHARED + 2 * EACH),
            };
            (shared..shared + EACH).for_each(|fd| bind_shared(program, fd));
            // Several at a time, so that there is something between them.
            for _ in 0..2 {
                for name in first..first + 3 {
                    name_address(program, name);
                    socket_at_address(program, Sys::Bind);
                }
                for place in [1, 0, 2] {
                    program.call(Sys::Close, &[SHARED + 3 * EACH + place]);
                }
            }
        },
        |program| {
            for fd in SHARED..SHARED + 3 * EACH {
                // Whoever was to bind it has died, or has bound it.
                bind_shared(program, fd);
                program.call(Sys::Listen, &[fd, 1]);
                program.or_exit(101);
                program.call(Sys::Close, &[fd]);
            }
            write_address(program);
            listen(program, 102);
            connect(program);
            program.or_exit(103);
        },
    )
}

/// All send ends of one pair of sockets through it, and receive them. In the end, the pair still does that, and has nothing left.
pub fn passers(kind: u64) -> Scenario {
    let prepare: fn(&mut Program) = match kind {
        1 => |program| make_pair(program, 1),
        2 => |program| make_pair(program, 2),
        _ => |program| make_pair(program, 5),
    };
    together(
        prepare,
        |program, _| (0..4).for_each(|_| pass_files(program)),
        |program| {
            // What those who have ended or died have left.
            for socket in [3, 4].into_iter().cycle().take(16) {
                receive_file(program, socket);
                close_received(program);
            }
            send_file(program, 3, 4);
            program.or_exit(103);
            receive_file(program, 4);
            program.or_exit(104);
            close_received(program);
            program.or_exit(105);
        },
    )
}

/// Sends the ends of a pair through each other, and receives what comes.
fn pass_files(program: &mut Program) {
    send_file(program, 3, 4);
    send_file(program, 4, 3);
    for socket in [4, 3] {
        receive_file(program, socket);
        close_received(program);
    }
}

/// All read lines of one length from a terminal. In the end, nobody finds a part of a line there.
pub fn typists() -> Scenario {
    let lines = together(
        |_| {},
        |program, _| {
            for _ in 0..12 {
                program.call(Sys::Read, &[0, ROOM, 64]);
            }
        },
        |program| {
            let (end, again) = (program.asm.label(), program.asm.here());
            program.call(Sys::Read, &[0, ROOM, 64]);
            let (result, zero) = (program.asm.roles.result, program.asm.roles.args[5]);
            program.asm.li(zero, 0);
            program.asm.branch(Op::Beq, result, zero, end);
            program.or_exit_unless(8, 104);
            program.asm.jump(again);
            program.asm.bind(end);
        },
    );
    Scenario { input: b"abcdefg\n".repeat(64), is_terminal: true, ..lines }
}

/// All open a terminal that they share, show something there, and close it; and make terminals of their own, which they hang up. In the end, the shared one's master
/// reads what was shown, and then that nobody has the terminal open.
pub fn terminals() -> Scenario {
    const MASTER: u64 = 3;
    const UNLOCKED: u64 = DATA + 0x700;
    /// `TIOCSPTLCK`, `TIOCGPTPEER`.
    const LOCK: u64 = 0x4004_5431;
    const PEER: u64 = 0x5441;
    /// `O_RDWR | O_NOCTTY`.
    const OPENED: u64 = 0o402;
    fn open_master(program: &mut Program) {
        program.arg(0, HERE);
        program.arg_string(1, "/dev/ptmx");
        program.arg(2, OPENED);
        program.arg(3, 0);
        program.call_as_is(Sys::Openat);
    }
    fn show_and_close(program: &mut Program, terminal: u8) {
        program.arg_from(0, terminal);
        program.arg(1, DATA);
        program.arg(2, 8);
        program.call_as_is(Sys::Write);
        program.arg_from(0, terminal);
        program.call_as_is(Sys::Close);
    }
    fn with(program: &mut Program, fd: u8, request: u64, argument: u64) {
        program.arg_from(0, fd);
        program.arg(1, request);
        program.arg(2, argument);
        program.call_as_is(Sys::Ioctl);
    }
    together(
        |program| {
            open_master(program);
            program.or_exit(100);
            program.store_at(UNLOCKED, 0);
            program.call(Sys::Ioctl, &[MASTER, LOCK, UNLOCKED]);
            program.or_exit(101);
        },
        |program, _| {
            let [master, _, _, terminal, ..] = program.asm.roles.saved;
            program.store_at(UNLOCKED, 0);
            for _ in 0..3 {
                program.call(Sys::Ioctl, &[MASTER, PEER, OPENED]);
                program.result_to(terminal);
                show_and_close(program, terminal);
                open_master(program);
                program.result_to(master);
                with(program, master, LOCK, UNLOCKED);
                with(program, master, PEER, OPENED);
                program.result_to(terminal);
                program.arg_from(0, master);
                program.call_as_is(Sys::Close);
                show_and_close(program, terminal);
            }
        },
        |program| {
            let [_, _, _, terminal, ..] = program.asm.roles.saved;
            program.call(Sys::Ioctl, &[MASTER, PEER, OPENED]);
            program.or_exit(102);
            program.result_to(terminal);
            show_and_close(program, terminal);
            let (end, again) = (program.asm.label(), program.asm.here());
            program.call(Sys::Read, &[MASTER, ROOM, 256]);
            let (result, scratch) = (program.asm.roles.result, program.asm.roles.args[5]);
            program.asm.li(scratch, EIO);
            program.asm.branch(Op::Beq, result, scratch, end);
            program.or_exit(103);
            program.asm.jump(again);
            program.asm.bind(end);
        },
    )
}

/// Two type lines at a terminal that the first process has, and end. It reads until the terminal is hung up.
pub fn hang_ups() -> Scenario {
    const MASTER: u64 = 3;
    const TERMINAL: u64 = 4;
    const UNLOCKED: u64 = DATA + 0x700;
    together(
        |program| {
            program.arg(0, HERE);
            program.arg_string(1, "/dev/ptmx");
            program.arg(2, 0o402);
            program.arg(3, 0);
            program.call_as_is(Sys::Openat);
            program.or_exit(100);
            program.store_at(UNLOCKED, 0);
            program.call(Sys::Ioctl, &[MASTER, 0x4004_5431, UNLOCKED]);
            program.or_exit(101);
            program.call(Sys::Ioctl, &[MASTER, 0x5441, 0o402]);
            program.or_exit(102);
        },
        |program, isa| {
            if isa != Isa::X86_64 {
                program.call(Sys::Close, &[TERMINAL]);
                for _ in 0..5 {
                    program.arg(0, MASTER);
                    program.arg_string(1, "abcdefg\n");
                    program.arg(2, 8);
                    program.call_as_is(Sys::Write);
                }
                return;
            }
            program.call(Sys::Close, &[MASTER]);
            let (end, again) = (program.asm.label(), program.asm.here());
            program.call(Sys::Read, &[TERMINAL, ROOM, 64]);
            let (result, scratch) = (program.asm.roles.result, program.asm.roles.args[5]);
            for ends in [0, EIO] {
                program.asm.li(scratch, ends);
                program.asm.branch(Op::Beq, result, scratch, end);
            }
            program.or_exit_unless(8, 103);
            program.asm.jump(again);
            program.asm.bind(end);
        },
        |_| {},
    )
}

/// All have engines transfer for one open file, and read what has ended. In the end, one more transfer is told of, unless it is said that that is not
/// known.
pub fn transfers() -> Scenario {
    const FILE: u64 = 3;
    const ASKED: u64 = DATA + 0x800;
    const POLLED: u64 = DATA + 0x2c0;
    fn start(program: &mut Program) {
        for (word, value) in (0..).zip([MAPPED, MAPPED + 0x1000, 64, 1]) {
            program.store_at(ASKED + 8 * word, value);
        }
        program.call(Sys::Write, &[FILE, ASKED, 32]);
    }
    fn map(program: &mut Program) {
        program.call(Sys::Mmap, &[MAPPED, 0x2000, 3, HOW, u64::MAX, 0]);
        program.or_exit(101);
    }
    together(
        |program| {
            program.arg(0, HERE);
            program.arg_string(1, "/dev/dma");
            program.arg(2, 2 | NONBLOCK);
            program.arg(3, 0);
            program.call_as_is(Sys::Openat);
            program.or_exit(100);
        },
        |program, _| {
            map(program);
            for _ in 0..3 {
                start(program);
                start(program);
                program.call(Sys::Read, &[FILE, ROOM, 64]);
            }
        },
        |program| {
            let known = program.asm.label();
            let again = program.asm.here();
            program.call(Sys::Read, &[FILE, ROOM, 256]);
            let (result, scratch) = (program.asm.roles.result, program.asm.roles.args[5]);
            program.asm.li(scratch, EIO);
            program.asm.branch(Op::Beq, result, scratch, known);
            program.asm.li(scratch, 0);
            program.asm.branch(Op::Bge, result, scratch, again);
            start(program);
            program.or_exit_unless(32, 102);
            program.store_at(POLLED, FILE | 1 << 32);
            program.call(Sys::Ppoll, &[POLLED, 1, 0, 0, 8]);
            program.or_exit(103);
            program.call(Sys::Read, &[FILE, ROOM, 32]);
            program.or_exit_unless(32, 104);
            program.asm.bind(known);
        },
    )
}

/// Processes on islands of one instruction set that have one address space, in which each maps and unmaps memory of its own.
pub fn spaces() -> Scenario {
    /// `CLONE_VM | SIGCHLD`.
    const SHARING: u64 = 0x100 | 17;
    fn change(program: &mut Program, at: u64) {
        for _ in 0..3 {
            program.call(Sys::Mmap, &[at, 0x5000, 3, HOW, u64::MAX, 0]);
            program.store_at(at + 0x4000, 1);
            program.call(Sys::Mprotect, &[at + 0x1000, 0x1000, 1]);
            program.call(Sys::Munmap, &[at + 0x2000, 0x1000]);
            program.store_at(at + 0x4000, 1);
            program.call(Sys::Munmap, &[at, 0x5000]);
        }
    }
    let first = Program::build(Isa::X86_64, |program| {
        let [pid, zero, ..] = program.asm.roles.saved;
        program.fork_with(pid, |program| {
            let [pid, zero, ..] = program.asm.roles.saved;
            for index in 1..4 {
                let behind = program.asm.label();
                program.call(Sys::Clone, &[SHARING, 0, 0, 0, 0]);
                program.or_exit(120);
                program.result_to(pid);
                program.asm.li(zero, 0);
                program.asm.branch(Op::Bne, pid, zero, behind);
                change(program, MAPPED + (index << 20));
                program.exit(0);
                program.asm.bind(behind);
            }
            change(program, MAPPED);
            program.wait_for_all(zero);
            change(program, MAPPED);
            program.exit(0);
        });
        program.wait_for_all(zero);
        program.print(1, "all\n");
        program.exit(0);
    });
    Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() }
}

/// An argument of a call.
pub enum Argument {
    /// A number.
    Number(u64),
    /// The address of a text.
    Text(&'static str),
}

/// A call with some texts among its arguments.
pub fn call_with<const N: usize>(program: &mut Program, call: Sys, arguments: [Argument; N]) {
    for (place, argument) in arguments.into_iter().enumerate() {
        match argument {
            Argument::Number(number) => program.arg(place, number),
            Argument::Text(text) => program.arg_string(place, text),
        }
    }
    program.call_as_is(call);
}

/// The descriptor of watches that all share.
const WATCHES: u64 = 3;
/// What is told.
const TOLD: u64 = DATA + 0x2800;
/// All events.
const ALL_EVENTS: u64 = 0xfff;
const EAGAIN: u64 = (-11_i64).cast_unsigned();

/// All change what all watch, by descriptors that they share and by some of their own, and read what is told. In the end, a change is told still, and watches can be made
/// and ended.
pub fn watchers() -> Scenario {
    use Argument::{Number as N, Text as T};
    const HERE: u64 = (-100_i64).cast_unsigned();
    const MAKE: u64 = 0o101;
    together(
        |program| {
            call_with(program, Sys::Mkdirat, [N(HERE), T("/w"), N(0o700)]);
            program.or_exit(100);
            program.call(Sys::InotifyInit1, &[NONBLOCK]);
            program.or_exit_unless(WATCHES, 101);
            call_with(program, Sys::InotifyAddWatch, [N(WATCHES), T("/w"), N(ALL_EVENTS)]);
            program.or_exit_unless(1, 102);
        },
        |program, isa| {
            let [own, fd, ..] = program.asm.roles.saved;
            let (path, moved) = match isa {
                Isa::X86_64 => ("/w/x", "/w/xx"),
                Isa::AArch64 => ("/w/a", "/w/aa"),
                Isa::RiscV64 | Isa::Hosted => ("/w/r", "/w/rr"),
            };
            for _ in 0..2 {
                program.call(Sys::InotifyInit1, &[NONBLOCK]);
                program.result_to(own);
                for watched in ["/w", "/"] {
                    program.arg_from(0, own);
                    program.arg_string(1, watched);
                    program.arg(2, ALL_EVENTS);
                    program.call_as_is(Sys::InotifyAddWatch);
                }
                call_with(program, Sys::Openat, [N(HERE), T(path), N(MAKE), N(0o600)]);
                program.result_to(fd);
                call_with(program, Sys::InotifyAddWatch, [N(WATCHES), T(path), N(ALL_EVENTS)]);
                program.arg_from(0, fd);
                program.arg_string(1, path);
                program.arg(2, 4);
                program.call_as_is(Sys::Write);
                program.arg_from(0, fd);
                program.call_as_is(Sys::Close);
                call_with(program, Sys::Renameat2, [N(HERE), T(path), N(HERE), T(moved), N(0)]);
                program.call(Sys::Read, &[WATCHES, TOLD, 64]);
                call_with(program, Sys::Unlinkat, [N(HERE), T(moved), N(0)]);
                program.arg_from(0, own);
                program.arg(1, 1);
                program.call_as_is(Sys::InotifyRmWatch);
                program.arg_from(0, own);
                program.arg(1, TOLD);
                program.arg(2, 256);
                program.call_as_is(Sys::Read);
                program.arg_from(0, own);
                program.call_as_is(Sys::Close);
            }
        },
        |program| {
            let [got, wanted, ..] = program.asm.roles.saved;
            let read_all = |program: &mut Program| {
                let (again, empty) = (program.asm.here(), program.asm.label());
                program.call(Sys::Read, &[WATCHES, TOLD, 512]);
                program.result_to(got);
                program.asm.li(wanted, EAGAIN);
                program.asm.branch(Op::Beq, got, wanted, empty);
                program.or_exit(103);
                program.asm.jump(again);
                program.asm.bind(empty);
            };
            read_all(program);
            call_with(program, Sys::Mkdirat, [N(HERE), T("/w/last"), N(0o700)]);
            program.or_exit(104);
            program.call(Sys::Read, &[WATCHES, TOLD, 512]);
            program.or_exit_unless(32, 105);
            call_with(program, Sys::InotifyAddWatch, [N(WATCHES), T("/w/last"), N(ALL_EVENTS)]);
            program.or_exit(106);
            program.result_to(got);
            program.arg(0, WATCHES);
            program.arg_from(1, got);
            program.call_as_is(Sys::InotifyRmWatch);
            program.or_exit(107);
            program.call(Sys::InotifyRmWatch, &[WATCHES, 1]);
            program.or_exit(108);
            read_all(program);
        },
    )
}

/// The first object of each kind of System V IPC has this id.
const IPC_ID: u64 = 0;
const IPC_KEY: u64 = 0x600d;
const IPC_CREAT: u64 = 0o1000;
const IPC_NOWAIT: u64 = 0o4000;
const IPC_RMID: u64 = 0;
const SEM_UNDO: u64 = 0x1000;
const GETVAL: u64 = 12;
const SETVAL: u64 = 16;
const OPERATIONS: u64 = DATA + 0x700;
const MESSAGE: u64 = DATA + 0x740;
const RECEIVED: u64 = DATA + 0x2000;

/// One operation on a semaphore of the set that all share, which is undone.
fn operate(program: &mut Program, number: u64, change: i16) {
    program.store_at(OPERATIONS, number | u64::from(change.cast_unsigned()) << 16 | SEM_UNDO << 32);
    program.call(Sys::Semop, &[IPC_ID, OPERATIONS, 1]);
}

/// All attach a segment, operate on semaphores, send and receive messages, and make and remove objects of their own. In the end, what the dead have done to semaphores is
/// undone, and all of it can be used and removed.
pub fn sharers_of_ipc() -> Scenario {
    together(
        |program| {
            program.call(Sys::Shmget, &[IPC_KEY, 0x3000, IPC_CREAT | 0o600]);
            program.or_exit_unless(IPC_ID, 100);
            program.call(Sys::Semget, &[IPC_KEY, 100, IPC_CREAT | 0o600]);
            program.or_exit_unless(IPC_ID, 101);
            program.call(Sys::Msgget, &[IPC_KEY, IPC_CREAT | 0o600]);
            program.or_exit_unless(IPC_ID, 102);
            program.call(Sys::Semctl, &[IPC_ID, 2, SETVAL, 1]);
            program.or_exit(103);
        },
        |program, _| {
            let [id, ..] = program.asm.roles.saved;
            // Two semaphores at once, of which adjustments are in two records.
            program.store_at(OPERATIONS + 16, 1 << 16 | SEM_UNDO << 32 | 99 << 48);
            program.store_at(OPERATIONS + 24, 2 | SEM_UNDO << 16);
            program.store_at(MESSAGE, 7);
            for _ in 0..2 {
                operate(program, 2, -1);
                program.call(Sys::Shmat, &[IPC_ID, MAPPED, 0]);
                program.call(Sys::Semop, &[IPC_ID, OPERATIONS + 16, 2]);
                program.call(Sys::Msgsnd, &[IPC_ID, MESSAGE, 8, IPC_NOWAIT]);
                program.call(Sys::Msgsnd, &[IPC_ID, MESSAGE, 500, IPC_NOWAIT]);
                for (make, args, control, command) in [
                    (Sys::Shmget, [0, 0x1000, 0o600], Sys::Shmctl, 1),
                    (Sys::Semget, [0, 2, 0o600], Sys::Semctl, 2),
                    (Sys::Msgget, [0, 0o600, 0], Sys::Msgctl, 1),
                ] {
                    program.call(make, &args);
                    program.result_to(id);
                    program.arg_from(0, id);
                    (1..=command).for_each(|place| program.arg(place, IPC_RMID));
                    program.call_as_is(control);
                }
                program.call(Sys::Msgrcv, &[IPC_ID, RECEIVED, 1000, 0, IPC_NOWAIT]);
                program.call(Sys::Shmdt, &[MAPPED]);
                operate(program, 2, 1);
            }
        },
        |program| {
            let [got, zero, ..] = program.asm.roles.saved;
            // What this one has to undo is undone with its end only.
            program.store_at(OPERATIONS, u64::from((-2_i16).cast_unsigned()) << 16 | SEM_UNDO << 32 | 99 << 48);
            program.store_at(OPERATIONS + 8, u64::from((-4_i16).cast_unsigned()) | SEM_UNDO << 16);
            program.call(Sys::Semop, &[IPC_ID, OPERATIONS, 2]);
            program.or_exit(104);
            for (number, value) in [(0, 0), (99, 0), (2, 1)] {
                program.call(Sys::Semctl, &[IPC_ID, number, GETVAL]);
                program.or_exit_unless(value, 105);
            }
            let again = program.asm.here();
            program.call(Sys::Msgrcv, &[IPC_ID, RECEIVED, 1000, 0, IPC_NOWAIT]);
            program.result_to(got);
            program.asm.li(zero, 0);
            program.asm.branch(Op::Bge, got, zero, again);
            program.store_at(MESSAGE, 9);
            program.call(Sys::Msgsnd, &[IPC_ID, MESSAGE, 16, IPC_NOWAIT]);
            program.or_exit(106);
            program.call(Sys::Msgrcv, &[IPC_ID, RECEIVED, 1000, 9, IPC_NOWAIT]);
            program.or_exit_unless(16, 107);
            program.call(Sys::Shmat, &[IPC_ID, MAPPED, 0]);
            program.or_exit(108);
            program.call(Sys::Shmdt, &[MAPPED]);
            program.or_exit(109);
            for (make, args, status) in [
                (Sys::Shmget, [IPC_KEY, 0x3000, 0], 110),
                (Sys::Semget, [IPC_KEY, 100, 0], 111),
                (Sys::Msgget, [IPC_KEY, 0, 0], 112),
            ] {
                program.call(make, &args);
                program.or_exit_unless(IPC_ID, status);
            }
            for (control, status) in [(Sys::Shmctl, 113), (Sys::Msgctl, 114)] {
                program.call(control, &[IPC_ID, IPC_RMID, 0]);
                program.or_exit(status);
            }
            program.call(Sys::Semctl, &[IPC_ID, 0, IPC_RMID]);
            program.or_exit(115);
        },
    )
}
