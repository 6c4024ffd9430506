//! What comes of it when a direction of a connection ends: who is told, and that what was sent before counts.

use motet_hal_hosted::{Config, Driver, Faults};
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::scenarios::ADDRESS;
use motet_tests_hosted::{Scenario, boot_and_look, three_islands, whole};

const ROOM: u64 = DATA + 0x1000;
const MAPPED: u64 = 0x3000_0000;
/// What is watched, what is told of it, and a moment.
const WATCH: u64 = DATA + 0x600;
const TOLD: u64 = DATA + 0x620;
const MOMENT: u64 = DATA + 0x700;
/// A connection's ends, and the interest list that watches the first one.
const ONE: u64 = 4;
const TWO: u64 = 5;
const LIST: u64 = 6;
const DONTWAIT: u64 = 0x40;
const NOSIGNAL: u64 = 0x4000;
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AGAIN: i64 = -11;
const PIPE: i64 = -32;
const RESET: i64 = -104;

/// Calls, one after the other: each has its number as the status that says that its result is another one.
struct Calls<'a> {
    program: &'a mut Program,
    number: u64,
}

impl Calls<'_> {
    fn call(&mut self, call: Sys, args: &[u64], wanted: i64) -> &mut Self {
        self.number += 1;
        self.program.call(call, args);
        self.program.or_exit_unless(wanted.cast_unsigned(), self.number);
        self
    }

    /// What the list says, once.
    fn told(&mut self, events: u64) -> &mut Self {
        let wait = [LIST, TOLD, 8, 0, 0, 8];
        if events != 0 {
            self.call(Sys::EpollPwait, &wait, 1);
            self.program.load_u32(self.program.asm.roles.result, TOLD);
            self.program.or_exit_unless(events, self.number);
        }
        self.call(Sys::EpollPwait, &wait, 0)
    }

    fn watch(&mut self) -> &mut Self {
        // EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET
        self.program.store_at(WATCH, 0x8000_2005);
        self.call(Sys::EpollCreate1, &[0], 6).call(Sys::EpollCtl, &[LIST, 1, ONE, WATCH], 0)
    }

    fn put(&mut self, fd: u64, len: u64, wanted: i64) -> &mut Self {
        self.call(Sys::Sendto, &[fd, ROOM, len, NOSIGNAL | DONTWAIT, 0, 0], wanted)
    }

    fn shutdown(&mut self, fd: u64, how: u64) -> &mut Self {
        self.call(Sys::Shutdown, &[fd, how], 0)
    }

    fn close(&mut self, fd: u64) -> &mut Self {
        self.call(Sys::Close, &[fd], 0)
    }

    fn receive(&mut self, at: u64, len: u64, flags: u64, wanted: i64) -> &mut Self {
        self.call(Sys::Recvfrom, &[ONE, at, len, flags, 0, 0], wanted)
    }
}

/// What comes of a connection.
fn with_connection(family: u64, act: impl FnOnce(&mut Calls)) {
    let first = Program::build(Isa::X86_64, |program| {
        let is_local = family == AF_UNIX;
        let address =
            if is_local { AF_UNIX | u64::from(b'x') << 24 } else { AF_INET | 0x901f << 16 | 0x0100_007f << 32 };
        let len = if is_local { 4 } else { 16 };
        program.store_at(ADDRESS, address);
        program.store_at(ADDRESS + 8, 0);
        program.store_at(MOMENT, 0);
        program.store_at(MOMENT + 8, 1_000_000);
        let mut calls = Calls { program, number: 0 };
        calls
            .call(Sys::Socket, &[family, 1, 0], 3)
            .call(Sys::Bind, &[3, ADDRESS, len], 0)
            .call(Sys::Listen, &[3, 1], 0)
            .call(Sys::Socket, &[family, 1, 0], ONE.cast_signed())
            .call(Sys::Connect, &[ONE, ADDRESS, len], 0)
            .call(Sys::Accept4, &[3, 0, 0, 0], TWO.cast_signed());
        act(&mut calls);
        program.print(1, "all\n");
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    let mut config = Config::new(Driver::Seeded(0), three_islands([1, 1, 1]));
    config.faults = Faults::default();
    config.steps_max = 3_000_000;
    let looked = boot_and_look(config, &scenario, whole::broken);
    let (ended, broken) = looked.unwrap_or_else(|failure| panic!("family {family}: {failure}"));
    assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "family {family}: {ended:?}");
    assert_eq!(broken, Vec::<String>::new(), "family {family}");
}

#[test]
fn edges_tell_of_each_end() {
    for family in [AF_UNIX, AF_INET] {
        with_connection(family, |calls| {
            _ = calls.watch().told(4).shutdown(ONE, 0).told(0x2005).shutdown(ONE, 1).told(0x2015)
        });
        // Something was not read.
        with_connection(family, |calls| {
            calls.put(ONE, 4, 4).watch().told(4).shutdown(TWO, 1).told(0x2005).close(TWO).told(0x201d);
        });
    }
    // A peer of TCP is not told who reads no more, but that what it sends comes to nobody.
    with_connection(AF_UNIX, |calls| {
        calls.watch().told(4).shutdown(TWO, 1).told(0x2005).shutdown(TWO, 0).told(0x2015);
    });
    with_connection(AF_INET, |calls| _ = calls.watch().told(4).close(TWO).told(0x2005).put(ONE, 4, 4).told(0x201d));
}

/// A write waits for room, and a child of the same program ends it: by `shutdown`, or because it alone has the other end, and exits.
fn ended_by_child(family: u64, by_shutdown: bool, next: i64) {
    with_connection(family, |calls| {
        let [_, pid, ..] = calls.program.asm.roles.saved;
        calls.call(Sys::Mmap, &[MAPPED, 1 << 17, 3, 0x32, u64::MAX, 0], MAPPED.cast_signed());
        calls.program.fork_with(pid, |program| {
            program.call(Sys::Nanosleep, &[MOMENT, 0]);
            if by_shutdown {
                program.call(Sys::Shutdown, &[ONE, 1]);
            }
            program.exit(0);
        });
        if !by_shutdown {
            calls.close(TWO);
        }
        calls.call(Sys::Write, &[ONE, MAPPED, 1 << 17], 1 << 16).put(ONE, 1, next).put(ONE, 1, PIPE);
    });
}

#[test]
fn what_was_sent_before_the_end_counts() {
    ended_by_child(AF_INET, false, RESET);
    ended_by_child(AF_UNIX, false, PIPE);
    ended_by_child(AF_INET, true, PIPE);
    ended_by_child(AF_UNIX, true, PIPE);
}

#[test]
fn receiving_without_bytes_or_memory_is_as_on_linux() {
    const PEEK: u64 = 2;
    const TRUNC: u64 = 0x20;
    const WAITALL: u64 = 0x100;
    const FAULT: i64 = -14;
    for family in [AF_UNIX, AF_INET] {
        with_connection(family, |calls| {
            calls.receive(ROOM, 0, DONTWAIT, AGAIN).put(TWO, 6, 6).receive(ROOM, 0, DONTWAIT, 0);
            match family {
                AF_INET => calls.receive(0, 2, TRUNC | PEEK, 2).receive(0, 2, TRUNC, 2).receive(ROOM, 8, DONTWAIT, 4),
                _ => calls.receive(0, 2, TRUNC, FAULT).receive(ROOM, 8, DONTWAIT, 6),
            };
            calls.put(TWO, 2, 2).shutdown(TWO, 1).receive(ROOM, 8, PEEK | WAITALL, 2).receive(ROOM, 8, 0, 2);
        });
        with_connection(family, |calls| {
            calls.put(ONE, 4, 4).close(TWO).receive(ROOM, 0, 0, RESET).receive(ROOM, 0, 0, 0);
        });
    }
}
