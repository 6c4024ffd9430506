//! Sockets of `AF_INET` and `AF_INET6` on the loopback device, between islands: connections are two pipes of the pool, and nothing is left when all have gone.

use motet_hal_hosted::{Config, Driver, Faults};
use motet_layout::{Isa, IslandId, PacketRecord, PipeRecord, SocketRecord};
use motet_protocol::slab::SlabObject;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::deaths::together;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::scenarios::{ADDRESS, NONBLOCK, close};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, env, three_islands, whole};

const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;
/// The server's descriptor.
const SERVER: u64 = 3;
const PORT: u16 = 8080;
const ROOM: u64 = DATA + 0x1000;
/// `EAGAIN`, as a call's result.
const AGAIN: u64 = (-11_i64).cast_unsigned();

/// Sockets, pipes and packets that are there at the end of a run under a seed, what is not whole, and how many steps it took.
fn left(scenario: &Scenario, seed: u64, faults: Faults) -> ([u32; 3], Vec<String>, u64) {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([1, 1, 1]));
    config.faults = faults;
    config.steps_max = 3_000_000;
    let looked = boot_and_look(config, scenario, |pool| {
        let slabs = &pool.header().slabs;
        let classes = [SocketRecord::CLASS, PipeRecord::CLASS, PacketRecord::CLASS];
        (classes.map(|class| slabs[class].in_use.get()), whole::broken(pool))
    });
    let (ended, (in_use, broken)) = looked.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {ended:?}");
    (in_use, broken, ended.steps)
}

/// Stores the address of a port at [`ADDRESS`], by version: 127.0.0.1 or `::1`, or any address.
fn write_endpoint(program: &mut Program, family: u64, is_any: bool) {
    let [high, low] = PORT.to_be_bytes().map(u64::from);
    let (v4, last) = if is_any { (0, 0) } else { (127 | 1 << 24, 1 << 56) };
    let words = match family {
        AF_INET => [v4 << 32, 0, 0],
        _ => [0, 0, last],
    };
    for (index, word) in (0..).zip(words) {
        let port = if index == 0 { family | high << 16 | low << 24 } else { 0 };
        program.store_at(ADDRESS + 8 * index, word | port);
    }
    program.store_at(ADDRESS + 24, 0);
}

fn address_len(family: u64) -> u64 {
    if family == AF_INET { 16 } else { 28 }
}

/// A socket that is bound to the port, or connected to it, with the next descriptor, which is in the first register that calls keep.
fn socket_at_port(program: &mut Program, call: Sys, family: u64, kind: u64) {
    let [fd, ..] = program.asm.roles.saved;
    write_endpoint(program, family, call == Sys::Bind);
    program.call(Sys::Socket, &[family, kind, 0]);
    program.or_exit(110);
    program.result_to(fd);
    program.arg_from(0, fd);
    program.arg(1, ADDRESS);
    program.arg(2, address_len(family));
    program.call_as_is(call);
}

fn listen(program: &mut Program, family: u64, kind: u64) {
    socket_at_port(program, Sys::Bind, family, kind);
    program.or_exit(111);
    program.call(Sys::Listen, &[SERVER, 8]);
    program.or_exit(112);
}

/// Reads or writes 8 bytes with the descriptor in the first register.
fn transfer(program: &mut Program, call: Sys) {
    let [fd, ..] = program.asm.roles.saved;
    program.arg_from(0, fd);
    program.arg(1, ROOM);
    program.arg(2, 8);
    program.call_as_is(call);
}

/// Accepts what a client connects, and sends back what it sends.
fn serve_one(program: &mut Program) {
    let [fd, ..] = program.asm.roles.saved;
    program.call(Sys::Accept4, &[SERVER, 0, 0, 0]);
    program.or_exit(101);
    program.result_to(fd);
    transfer(program, Sys::Read);
    program.or_exit_unless(8, 102);
    transfer(program, Sys::Write);
    program.or_exit_unless(8, 103);
    transfer(program, Sys::Read);
    program.or_exit_unless(0, 104);
    close(program);
}

fn ask(program: &mut Program, family: u64) {
    socket_at_port(program, Sys::Connect, family, STREAM);
    program.or_exit(105);
    transfer(program, Sys::Write);
    program.or_exit_unless(8, 106);
    transfer(program, Sys::Read);
    program.or_exit_unless(8, 107);
    close(program);
}

#[test]
fn one_server_serves_clients_of_both_versions_on_all_islands() {
    let server = Program::build(Isa::X86_64, |program| {
        let [_, pid, ..] = program.asm.roles.saved;
        listen(program, AF_INET6, STREAM);
        for path in ["/arm", "/riscv", "/first4"] {
            program.fork_with(pid, |program| program.exec(path));
        }
        (0..3).for_each(|_| serve_one(program));
        (0..3).for_each(|_| program.wait());
        program.call(Sys::Close, &[SERVER]);
        program.print(1, "all\n");
        program.exit(0);
    });
    let client = |isa, family| {
        Program::build(isa, |program| {
            ask(program, family);
            program.exit(0);
        })
    };
    let files = vec![
        ("first", server),
        ("arm", client(Isa::AArch64, AF_INET6)),
        ("riscv", client(Isa::RiscV64, AF_INET)),
        ("first4", client(Isa::X86_64, AF_INET)),
    ];
    let scenario = Scenario { files, command: vec!["/first"], ..Scenario::default() };
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 4) {
        let (in_use, broken, _) = left(&scenario, seed, ROUGH);
        assert_eq!((in_use, broken), ([0; 3], vec![]), "seed {seed}: sockets, pipes and packets");
    }
}

/// What a program does, and what comes of it.
enum Step {
    /// A call, and its result.
    Call(Sys, Vec<u64>, i64),
    /// What `ppoll` says of a descriptor.
    Ready(u64, u64),
    /// What a word of memory is.
    Word(u64, u64),
}

use Step::{Call, Ready, Word};

/// Addresses in memory: of version 4 and 6, any, mapped, of another network, with a privileged port, another port, no family.
const V4: u64 = DATA + 0x600;
const V6: u64 = DATA + 0x620;
const ANY4: u64 = DATA + 0x640;
const ANY6: u64 = DATA + 0x660;
const MAPPED: u64 = DATA + 0x680;
const FAR: u64 = DATA + 0x6a0;
const PRIVILEGED: u64 = DATA + 0x6c0;
const OTHER: u64 = DATA + 0x6e0;
const NONE: u64 = DATA + 0x700;
/// A number, no time, `struct linger`, `struct pollfd`, and what is told.
const ONE: u64 = DATA + 0x720;
const AT_ONCE: u64 = DATA + 0x730;
const LINGER: u64 = DATA + 0x740;
const LOOK: u64 = DATA + 0x750;
const TOLD: u64 = DATA + 0x760;
const TOLD_LEN: u64 = DATA + 0x790;
/// A `struct msghdr`, its only buffer, and its control messages.
const HEADER: u64 = DATA + 0x800;
const BUFFER: u64 = DATA + 0x840;
const CONTROL: u64 = DATA + 0x860;
/// `POLL*` that are asked for.
const ASKED: u64 = 0x23c7;
const NOSIGNAL: u64 = 0x4000;
const DONTWAIT: u64 = 0x40;

fn write_memory(program: &mut Program) {
    let endpoint = |family: u64, port: u16, address: u64| {
        let [high, low] = port.to_be_bytes().map(u64::from);
        family | high << 16 | low << 24 | address << 32
    };
    let v4 = |bytes: [u8; 4]| u64::from(u32::from_le_bytes(bytes));
    let words = [
        (V4, endpoint(AF_INET, PORT, v4([127, 0, 0, 1]))),
        (V6, endpoint(AF_INET6, PORT, 0)),
        (V6 + 16, 1 << 56),
        (ANY4, endpoint(AF_INET, PORT, 0)),
        (ANY6, endpoint(AF_INET6, PORT, 0)),
        (MAPPED, endpoint(AF_INET6, PORT, 0)),
        (MAPPED + 16, 0xffff << 16 | v4([127, 0, 0, 1]) << 32),
        (FAR, endpoint(AF_INET, PORT, v4([203, 0, 113, 1]))),
        (PRIVILEGED, endpoint(AF_INET, 80, v4([127, 0, 0, 1]))),
        (OTHER, endpoint(AF_INET, PORT + 1, v4([127, 0, 0, 1]))),
        (ONE, 1),
        (LINGER, 1),
        (TOLD_LEN, 28),
        (HEADER + 16, BUFFER),
        (HEADER + 24, 1),
        (HEADER + 32, CONTROL),
        (HEADER + 40, 64),
        (BUFFER, ROOM),
        (BUFFER + 8, 64),
    ];
    words.into_iter().for_each(|(at, word)| program.store_at(at, word));
}

/// Does steps, and says `all`; the status of a step that has another result is its number.
fn follow(steps: &[Step]) {
    let first = Program::build(Isa::X86_64, |program| {
        write_memory(program);
        for (number, step) in (1..).zip(steps) {
            match step {
                Call(call, args, wanted) => {
                    program.call(*call, args);
                    program.or_exit_unless(wanted.cast_unsigned(), number);
                }
                Ready(fd, wanted) => {
                    program.store_at(LOOK, fd | ASKED << 32);
                    program.call(Sys::Ppoll, &[LOOK, 1, AT_ONCE, 0, 8]);
                    let result = program.asm.roles.result;
                    program.load_u32(result, LOOK + 4);
                    program.or_exit_unless(ASKED | wanted << 16, number);
                }
                Word(at, wanted) => {
                    let result = program.asm.roles.result;
                    program.load_u32(result, *at);
                    program.or_exit_unless(*wanted, number);
                }
            }
        }
        program.print(1, "all\n");
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    let (in_use, broken, _) = left(&scenario, 0, Faults::default());
    assert_eq!((in_use, broken), ([0; 3], vec![]), "sockets, pipes and packets");
}

fn call(call: Sys, args: &[u64], wanted: i64) -> Step {
    Call(call, args.to_vec(), wanted)
}

fn socket(family: u64, kind: u64, fd: i64) -> Step {
    call(Sys::Socket, &[family, kind, 0], fd)
}

fn put(fd: u64, len: u64, wanted: i64) -> Step {
    call(Sys::Sendto, &[fd, ROOM, len, NOSIGNAL | DONTWAIT, 0, 0], wanted)
}

fn put_to(fd: u64, len: u64, to: u64, wanted: i64) -> Step {
    call(Sys::Sendto, &[fd, ROOM, len, NOSIGNAL | DONTWAIT, to, 28], wanted)
}

fn get(fd: u64, wanted: i64) -> Step {
    call(Sys::Recvfrom, &[fd, ROOM, 64, DONTWAIT, 0, 0], wanted)
}

fn error_of(fd: u64, wanted: u64) -> [Step; 3] {
    let len = call(Sys::Getsockopt, &[fd, 1, 4, TOLD, TOLD_LEN], 0);
    [len, Word(TOLD, wanted), Word(TOLD_LEN, 4)]
}

/// A listener at descriptor 3, and a connection: 4 has asked for it, 5 was accepted.
fn connection() -> Vec<Step> {
    vec![
        socket(AF_INET, STREAM, 3),
        call(Sys::Bind, &[3, V4, 16], 0),
        call(Sys::Listen, &[3, 1], 0),
        socket(AF_INET, STREAM, 4),
        call(Sys::Connect, &[4, V4, 16], 0),
        call(Sys::Accept4, &[3, 0, 0, 0], 5),
    ]
}

/// What comes of a connection.
fn with_connection(steps: impl IntoIterator<Item = Step>) {
    follow(&connection().into_iter().chain(steps).collect::<Vec<_>>());
}

#[test]
fn a_peer_that_closes_with_something_unread_resets_the_connection() {
    with_connection([
        put(4, 4, 4),
        put(5, 4, 4),
        call(Sys::Close, &[5], 0),
        Ready(4, 0x215d),
        get(4, 4),
        get(4, -104),
        get(4, 0),
        put(4, 1, -32),
        Ready(4, 0x2155),
        call(Sys::Getpeername, &[4, TOLD, TOLD_LEN], -107),
    ]);
    with_connection([put(4, 4, 4), call(Sys::Close, &[5], 0), put(4, 1, -104), put(4, 1, -32), get(4, 0)]);
    with_connection([
        call(Sys::Setsockopt, &[5, 1, 13, LINGER, 8], 0),
        call(Sys::Close, &[5], 0),
        Ready(4, 0x215d),
        get(4, -104),
        get(4, 0),
    ]);
}

#[test]
fn what_is_sent_first_to_a_peer_that_has_closed_is_lost() {
    let closed = [put(5, 4, 4), call(Sys::Close, &[5], 0), Ready(4, 0x2145), get(4, 4), get(4, 0), put(4, 4, 4)];
    with_connection(closed.into_iter().chain([Ready(4, 0x215d), put(4, 1, -32), put(4, 1, -32), get(4, 0)]));
    let told = [call(Sys::Close, &[5], 0), put(4, 4, 4)].into_iter().chain(error_of(4, 32)).chain(error_of(4, 0));
    with_connection(told.chain([get(4, 0), put(4, 1, -32)]));
    with_connection([put(4, 0, 0), get(5, -11), call(Sys::Close, &[5], 0), put(4, 0, 0)]);
}

#[test]
fn each_direction_ends_by_itself() {
    with_connection([
        put(4, 4, 4),
        call(Sys::Shutdown, &[4, 1], 0),
        Ready(4, 0x104),
        Ready(5, 0x2145),
        get(5, 4),
        get(5, 0),
        put(4, 1, -32),
        put(5, 4, 4),
        get(4, 4),
        Ready(4, 0x104),
        call(Sys::Shutdown, &[5, 1], 0),
        Ready(4, 0x2155),
        Ready(5, 0x2155),
    ]);
    with_connection([
        call(Sys::Shutdown, &[5, 0], 0),
        Ready(5, 0x2145),
        Ready(4, 0x104),
        get(5, 0),
        put(4, 4, 4),
        get(5, 4),
        get(5, 0),
    ]);
    with_connection([
        call(Sys::Shutdown, &[3, 0], 0),
        Ready(3, 0x114),
        call(Sys::Accept4, &[3, 0, 0, 0], -22),
        socket(AF_INET, STREAM, 6),
        call(Sys::Connect, &[6, V4, 16], -111),
    ]);
}

#[test]
fn ports_are_bound_once_unless_their_sockets_share_them() {
    let reuse = |fd, option| call(Sys::Setsockopt, &[fd, 1, option, ONE, 4], 0);
    follow(&[
        socket(AF_INET, STREAM, 3),
        socket(AF_INET, STREAM, 4),
        socket(AF_INET6, STREAM, 5),
        call(Sys::Bind, &[3, FAR, 16], -99),
        call(Sys::Bind, &[3, V4, 15], -22),
        call(Sys::Bind, &[3, V6, 28], -97),
        call(Sys::Bind, &[3, V4, 16], 0),
        call(Sys::Bind, &[3, V4, 16], -22),
        call(Sys::Bind, &[4, V4, 16], -98),
        call(Sys::Bind, &[4, ANY4, 16], -98),
        call(Sys::Bind, &[5, MAPPED, 28], -98),
        call(Sys::Bind, &[5, ANY6, 28], -98),
        call(Sys::Bind, &[5, V6, 28], 0),
        // Both share it until one listens.
        reuse(4, 2),
        call(Sys::Bind, &[4, V4, 16], -98),
        reuse(3, 2),
        call(Sys::Bind, &[4, V4, 16], 0),
        call(Sys::Listen, &[3, 1], 0),
        call(Sys::Listen, &[4, 1], -98),
        call(Sys::Close, &[3], 0),
        call(Sys::Listen, &[4, 1], 0),
    ]);
    follow(&[
        socket(AF_INET, STREAM, 3),
        socket(AF_INET, STREAM, 4),
        reuse(3, 15),
        call(Sys::Bind, &[3, V4, 16], 0),
        call(Sys::Bind, &[4, V4, 16], -98),
        reuse(4, 15),
        call(Sys::Bind, &[4, V4, 16], 0),
        call(Sys::Listen, &[3, 1], 0),
        call(Sys::Listen, &[4, 1], 0),
    ]);
    // Nothing of version 4 is in the way of what is of version 6 only.
    follow(&[
        socket(AF_INET, STREAM, 3),
        socket(AF_INET6, STREAM, 4),
        call(Sys::Bind, &[3, ANY4, 16], 0),
        call(Sys::Bind, &[4, ANY6, 28], -98),
        call(Sys::Setsockopt, &[4, 41, 26, ONE, 4], 0),
        call(Sys::Bind, &[4, MAPPED, 28], -22),
        call(Sys::Bind, &[4, ANY6, 28], 0),
        call(Sys::Setsockopt, &[4, 41, 26, ONE, 4], -22),
    ]);
}

#[test]
fn so_many_sockets_share_a_port() {
    const MOST: i64 = 128;
    let bound = |fd: i64| {
        let fd_word = fd.cast_unsigned();
        let result = if fd < 3 + MOST { 0 } else { -98 };
        [
            socket(AF_INET, DATAGRAM, fd),
            call(Sys::Setsockopt, &[fd_word, 1, 2, ONE, 4], 0),
            call(Sys::Bind, &[fd_word, V4, 16], result),
        ]
    };
    follow(&(3..=3 + MOST).flat_map(bound).collect::<Vec<_>>());
}

#[test]
fn privileged_ports_need_a_capability() {
    follow(&[
        socket(AF_INET, STREAM, 3),
        call(Sys::Bind, &[3, PRIVILEGED, 16], 0),
        socket(AF_INET, STREAM, 4),
        call(Sys::Setresuid, &[1000, 1000, 1000], 0),
        call(Sys::Bind, &[4, PRIVILEGED, 16], -13),
        call(Sys::Bind, &[4, V4, 16], 0),
    ]);
}

#[test]
fn whoever_connects_is_told_where_nobody_is() {
    follow(&[
        socket(AF_INET, STREAM, 3),
        call(Sys::Connect, &[3, V4, 16], -111),
        call(Sys::Connect, &[3, FAR, 16], -101),
        call(Sys::Connect, &[3, V4, 15], -22),
        call(Sys::Connect, &[3, V6, 28], -97),
        call(Sys::Connect, &[3, NONE, 16], 0),
        put(3, 1, -32),
        get(3, -107),
        call(Sys::Shutdown, &[3, 2], -107),
        Ready(3, 0x114),
        // It listens at a port that is chosen.
        call(Sys::Listen, &[3, 1], 0),
        call(Sys::Connect, &[3, V4, 16], -106),
        call(Sys::Getsockname, &[3, TOLD, TOLD_LEN], 0),
        socket(AF_INET, STREAM, 4),
        call(Sys::Connect, &[4, TOLD, 16], 0),
        call(Sys::Connect, &[4, TOLD, 16], -106),
        // Whoever waits there when it closes is told.
        put(4, 4, 4),
        call(Sys::Close, &[3], 0),
        Ready(4, 0x215d),
        get(4, -104),
        get(4, 0),
    ]);
}

#[test]
fn names_follow_whom_a_socket_is_connected_to() {
    /// 127.0.0.1, as it lies in memory.
    const LOOPBACK: u64 = 0x0100_007f;
    let name = |which, fd| call(which, &[fd, TOLD, TOLD_LEN], 0);
    follow(&[
        socket(AF_INET, STREAM, 3),
        call(Sys::Bind, &[3, ANY4, 16], 0),
        call(Sys::Listen, &[3, 1], 0),
        // An address of version 4 in one of version 6.
        socket(AF_INET6, STREAM, 4),
        call(Sys::Connect, &[4, MAPPED, 28], 0),
        call(Sys::Accept4, &[3, 0, 0, 0], 5),
        name(Sys::Getsockname, 4),
        Word(TOLD + 20, LOOPBACK),
        Word(TOLD_LEN, 28),
        name(Sys::Getpeername, 4),
        Word(TOLD + 20, LOOPBACK),
        name(Sys::Getsockname, 3),
        Word(TOLD + 4, 0),
        name(Sys::Getsockname, 5),
        Word(TOLD + 4, LOOPBACK),
        name(Sys::Getpeername, 5),
        Word(TOLD + 4, LOOPBACK),
        call(Sys::Getpeername, &[3, TOLD, TOLD_LEN], -107),
    ]);
}

#[test]
fn whoever_does_not_wait_joins_a_backlog_that_is_full() {
    let connected = |fd: u64| {
        [socket(AF_INET, STREAM | NONBLOCK, fd.cast_signed()), call(Sys::Connect, &[fd, V4, 16], 0), Ready(fd, 0x104)]
    };
    let begin = [socket(AF_INET, STREAM, 3), call(Sys::Bind, &[3, V4, 16], 0), call(Sys::Listen, &[3, 0], 0)];
    let accepted = (7..10).map(|fd| call(Sys::Accept4, &[3, 0, 0, NONBLOCK], fd));
    follow(&begin.into_iter().chain((4..7).flat_map(connected)).chain(accepted).collect::<Vec<_>>());
}

#[test]
fn so_many_join_a_backlog_that_is_full() {
    const MOST: i64 = 128;
    let begin = [socket(AF_INET, STREAM, 3), call(Sys::Bind, &[3, V4, 16], 0), call(Sys::Listen, &[3, 0], 0)];
    let connected = |fd: i64| {
        let fd_word = fd.cast_unsigned();
        let result = if fd <= 4 + MOST { 0 } else { -11 };
        [socket(AF_INET, STREAM | NONBLOCK, fd), call(Sys::Connect, &[fd_word, V4, 16], result)]
    };
    let last = 5 + MOST;
    // Who was told to come later is not connected, and may be when one of the others has been accepted.
    let later = [
        Ready(last.cast_unsigned(), 0x11c),
        call(Sys::Accept4, &[3, 0, 0, NONBLOCK], last + 1),
        call(Sys::Connect, &[last.cast_unsigned(), V4, 16], 0),
        Ready(last.cast_unsigned(), 0x104),
    ];
    let told = error_of(last.cast_unsigned(), 0);
    follow(&begin.into_iter().chain((4..=last).flat_map(connected)).chain(later).chain(told).collect::<Vec<_>>());
}

#[test]
fn a_listener_that_was_shut_down_listens_again() {
    let named = |fd| call(Sys::Accept4, &[3, TOLD, TOLD_LEN, 0], fd);
    follow(&[
        socket(AF_INET, STREAM, 3),
        call(Sys::Bind, &[3, V4, 16], 0),
        call(Sys::Listen, &[3, 4], 0),
        socket(AF_INET, STREAM, 4),
        call(Sys::Connect, &[4, V4, 16], 0),
        call(Sys::Shutdown, &[3, 1], 0),
        Ready(3, 0x41),
        // Who waits there is told at once.
        call(Sys::Shutdown, &[3, 0], 0),
        Ready(4, 0x215d),
        get(4, -104),
        call(Sys::Shutdown, &[3, 0], -107),
        socket(AF_INET, STREAM, 5),
        call(Sys::Connect, &[5, V4, 16], -111),
        call(Sys::Listen, &[3, 4], 0),
        call(Sys::Connect, &[5, V4, 16], 0),
        // Whoever resets the connection first has an address all the same.
        call(Sys::Setsockopt, &[5, 1, 13, LINGER, 8], 0),
        call(Sys::Close, &[5], 0),
        named(5),
        Word(TOLD_LEN, 16),
        Word(TOLD + 4, 0x0100_007f),
        get(5, -104),
    ]);
}

#[test]
fn datagrams_say_where_they_were_sent_to() {
    const LOOPBACK: u64 = 0x0100_007f;
    let message = [(0, 28), (8, 0), (12, 8), (16, 1), (20, LOOPBACK), (24, LOOPBACK)];
    let begin = [
        socket(AF_INET, DATAGRAM, 3),
        call(Sys::Bind, &[3, ANY4, 16], 0),
        call(Sys::Setsockopt, &[3, 0, 8, ONE, 4], 0),
        socket(AF_INET, DATAGRAM, 4),
        put_to(4, 4, V4, 4),
        call(Sys::Recvmsg, &[3, HEADER, 0], 4),
        Word(HEADER + 40, 32),
    ];
    let told = message.map(|(at, word)| Word(CONTROL + at, word));
    // As a sender's, it says where the next one comes from: from here.
    let sent = [call(Sys::Connect, &[4, V4, 16], 0), call(Sys::Sendmsg, &[4, HEADER, 0], 64), get(3, 64)];
    follow(&begin.into_iter().chain(told).chain(sent).collect::<Vec<_>>());
}

#[test]
fn options_that_change_nothing_here_are_remembered() {
    let set = |level, option, at, wanted| call(Sys::Setsockopt, &[3, level, option, at, 4], wanted);
    let get = |level, option| call(Sys::Getsockopt, &[3, level, option, TOLD, TOLD_LEN], 0);
    follow(&[
        socket(AF_INET, STREAM, 3),
        get(6, 4),
        Word(TOLD, 7200),
        set(6, 4, ONE, 0),
        get(6, 4),
        Word(TOLD, 1),
        set(6, 4, AT_ONCE, -22),
        set(6, 1, ONE, 0),
        get(6, 1),
        Word(TOLD, 1),
        // One that others have, of a level that others have, and of none; credentials are not told.
        call(Sys::Setsockopt, &[3, 41, 26, ONE, 4], -92),
        call(Sys::Getsockopt, &[3, 41, 26, TOLD, TOLD_LEN], -95),
        set(6, 1000, ONE, -92),
        set(1, 16, ONE, -95),
    ]);
}

#[test]
fn datagrams_go_to_whoever_is_there_or_are_lost() {
    follow(&[
        socket(AF_INET, DATAGRAM, 3),
        socket(AF_INET, DATAGRAM, 4),
        put(3, 1, -89),
        put_to(4, 4, V4, 4),
        get(4, -11),
        call(Sys::Bind, &[3, V4, 16], 0),
        put_to(4, 3, V4, 3),
        put_to(4, 0, V4, 0),
        put_to(4, 5, V4, 5),
        Ready(3, 0x345),
        call(Sys::Recvfrom, &[3, ROOM, 2, 0x20 | 2, TOLD, TOLD_LEN], 3),
        Word(TOLD_LEN, 16),
        call(Sys::Recvfrom, &[3, ROOM, 2, 0, 0, 0], 2),
        get(3, 0),
        get(3, 5),
        get(3, -11),
        // Back to whom the first one was from.
        put_to(3, 6, TOLD, 6),
        get(4, 6),
        put_to(4, 40000, V4, 40000),
        call(Sys::Sendto, &[4, ROOM, 65508, 0, V4, 16], -90),
        get(3, 64),
        put_to(4, 1, FAR, -101),
        call(Sys::Listen, &[3, 1], -95),
        call(Sys::Accept4, &[3, 0, 0, 0], -95),
    ]);
}

#[test]
fn datagrams_of_a_connection_come_from_its_peer() {
    follow(&[
        socket(AF_INET, DATAGRAM, 3),
        socket(AF_INET, DATAGRAM, 4),
        socket(AF_INET, DATAGRAM, 5),
        call(Sys::Bind, &[3, V4, 16], 0),
        call(Sys::Bind, &[4, OTHER, 16], 0),
        call(Sys::Connect, &[3, OTHER, 16], 0),
        put_to(5, 3, V4, 3),
        put_to(4, 4, V4, 4),
        get(3, 4),
        get(3, -11),
        put(3, 5, 5),
        get(4, 5),
        // Its peer has gone.
        call(Sys::Close, &[4], 0),
        put(3, 4, 4),
        Ready(3, 0x30c),
        put(3, 4, -111),
        get(3, -11),
        put(3, 4, 4),
        get(3, -111),
        // It has none any more.
        call(Sys::Connect, &[3, NONE, 16], 0),
        put(3, 4, -89),
        put_to(5, 3, V4, 3),
        get(3, 3),
        call(Sys::Shutdown, &[3, 2], -107),
        Ready(3, 0x2355),
        put_to(3, 1, V4, -32),
        get(3, -11),
    ]);
}

#[test]
fn datagrams_that_have_no_room_are_lost() {
    // Each costs its record and a page.
    let have_room = 212_992_usize.div_ceil(768 + 4096);
    let begin = [socket(AF_INET, DATAGRAM, 3), call(Sys::Bind, &[3, V4, 16], 0), socket(AF_INET, DATAGRAM, 4)];
    let sent = (0..have_room + 10).map(|_| put_to(4, 1000, V4, 1000));
    let got = (0..have_room).map(|_| get(3, 64)).chain([get(3, -11)]);
    follow(&begin.into_iter().chain(sent).chain(got).collect::<Vec<_>>());
}

/// All connect to one port, send something and close; all accept there, too. In the end, nothing waits, and the port is free.
fn clients() -> Scenario {
    together(
        |program| listen(program, AF_INET, STREAM | NONBLOCK),
        |program, _| {
            for _ in 0..2 {
                socket_at_port(program, Sys::Connect, AF_INET, STREAM | NONBLOCK);
                transfer(program, Sys::Write);
                accept_one(program);
                program.call(Sys::Close, &[4]);
            }
        },
        |program| {
            // What those who have ended or died have left.
            (0..8).for_each(|_| accept_one(program));
            program.call(Sys::Accept4, &[SERVER, 0, 0, 0]);
            program.or_exit_unless(AGAIN, 108);
            program.call(Sys::Close, &[SERVER]);
            listen(program, AF_INET, STREAM);
            program.call(Sys::Close, &[SERVER]);
        },
    )
}

/// Accepts a connection, if there is one, reads from it and closes it.
fn accept_one(program: &mut Program) {
    let [fd, ..] = program.asm.roles.saved;
    program.call(Sys::Accept4, &[SERVER, 0, 0, NONBLOCK]);
    program.result_to(fd);
    transfer(program, Sys::Read);
    close(program);
}

/// All send datagrams to one port, receive there, and bind ports of their own. In the end, nothing waits.
fn senders() -> Scenario {
    together(
        |program| {
            socket_at_port(program, Sys::Bind, AF_INET6, DATAGRAM | NONBLOCK);
            program.or_exit(109);
        },
        |program, _| {
            for _ in 0..2 {
                socket_at_port(program, Sys::Connect, AF_INET, DATAGRAM | NONBLOCK);
                (0..2).for_each(|_| transfer(program, Sys::Write));
                (0..3).for_each(|_| program.call(Sys::Read, &[SERVER, ROOM, 8]));
                program.call(Sys::Close, &[4]);
            }
        },
        |program| {
            (0..12).for_each(|_| program.call(Sys::Read, &[SERVER, ROOM, 8]));
            program.call(Sys::Read, &[SERVER, ROOM, 8]);
            program.or_exit_unless(AGAIN, 108);
            program.call(Sys::Close, &[SERVER]);
            listen(program, AF_INET, STREAM);
            program.call(Sys::Close, &[SERVER]);
        },
    )
}

#[test]
fn connections_of_an_island_that_dies_are_closed() {
    nothing_is_left_of_the_dead(&clients());
}

#[test]
fn datagrams_of_an_island_that_dies_are_freed_or_received() {
    nothing_is_left_of_the_dead(&senders());
}

fn nothing_is_left_of_the_dead(scenario: &Scenario) {
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 1) {
        let (in_use, broken, steps) = left(scenario, seed, ROUGH);
        assert_eq!((in_use, broken), ([0; 3], vec![]), "seed {seed}: sockets, pipes and packets");
        // From when the children are there.
        for step in (steps / 4..steps).step_by((steps / env("MOTET_DEATHS", 60)) as usize) {
            let faults = Faults { death: Some((IslandId(1 + (step % 2) as u8), step)), survives: true, ..ROUGH };
            let (_, broken, _) = left(scenario, seed, faults);
            assert_eq!(broken, Vec::<String>::new(), "seed {seed}, death at step {step}");
        }
    }
}
