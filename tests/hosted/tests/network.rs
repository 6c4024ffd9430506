//! What is told of the network: the loopback device, which nobody changes, and how many sockets there are.

use motet_hal_hosted::Driver;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, everywhere, under};

const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;
/// `EOPNOTSUPP`, as a call's result.
const REFUSED: u64 = (-95_i64).cast_unsigned();
/// A `struct ifreq`, and what it asks or is told.
const REQUEST: u64 = DATA + 0x800;
const VALUE: u64 = REQUEST + 16;
/// An address.
const ADDRESS: u64 = DATA + 0x840;
const ROOM: u64 = DATA + 0x1000;
/// Where the values of TCP begin in `/proc/net/snmp`.
const SNMP_TCP: u64 = 879;

fn v4(bytes: [u8; 4]) -> u64 {
    AF_INET | u64::from(u32::from_le_bytes(bytes)) << 32
}

/// Asks for something of `lo` by descriptor 3, and exits with a status unless that has such a result.
fn ask(program: &mut Program, request: u64, value: u64, wanted: u64, status: u64) {
    program.store_at(VALUE, value);
    program.call(Sys::Ioctl, &[3, request, REQUEST]);
    program.or_exit_unless(wanted, status);
}

/// Nothing succeeds that would do nothing: there is one interface, and it is as it is, also for the superuser.
#[test]
fn the_loopback_device_is_not_changed_by_anybody() {
    // What sets it, what is refused, and what there is; what gets it.
    let all = [
        (0x8922, 1500, 65536, 0x8921),
        (0x8914, 0, 0x49, 0x8913),
        (0x8943, 1, 1000, 0x8942),
        (0x8916, v4([127, 0, 0, 2]), v4([127, 0, 0, 1]), 0x8915),
        (0x891c, v4([255, 255, 0, 0]), v4([255, 0, 0, 0]), 0x891b),
    ];
    let first = Program::build(Isa::AArch64, |program| {
        program.store_at(REQUEST, u64::from_le_bytes(*b"lo\0\0\0\0\0\0"));
        program.store_at(REQUEST + 8, 0);
        program.call(Sys::Socket, &[AF_INET, DATAGRAM, 0]);
        program.or_exit(1);
        for (number, (set, refused, is, get)) in (0..).zip(all) {
            ask(program, set, refused, REFUSED, 10 + number);
            ask(program, set, is, 0, 20 + number);
            ask(program, get, 0, 0, 30 + number);
            let result = program.asm.roles.result;
            for (at, word) in [(VALUE, is & 0xffff_ffff), (VALUE + 4, is >> 32)] {
                program.load_u32(result, at);
                program.or_exit_unless(word, 40 + number);
            }
        }
        // Another name of the device, and a route.
        ask(program, 0x8923, u64::from(b'x'), REFUSED, 50);
        ask(program, 0x890b, 0, REFUSED, 51);
        ask(program, 0x8946, ROOM, REFUSED, 52);
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    everywhere(1, &scenario, 0, "");
}

/// A socket, bound to a port of its kind.
fn bound(program: &mut Program, kind: u64) {
    let [fd, ..] = program.asm.roles.saved;
    program.store_at(ADDRESS, v4([127, 0, 0, 1]) | 0x1f90 << 16);
    program.store_at(ADDRESS + 8, 0);
    program.call(Sys::Socket, &[AF_INET, kind, 0]);
    program.or_exit(1);
    program.result_to(fd);
    program.arg_from(0, fd);
    program.arg(1, ADDRESS);
    program.arg(2, 16);
    program.call_as_is(Sys::Bind);
    program.or_exit(2);
}

/// A list ends, also for who reads behind its end, and in the middle of a line.
#[test]
fn a_list_of_sockets_ends_wherever_it_is_read() {
    // Two lines, of 150 bytes each.
    const LEN: u64 = 300;
    let first = Program::build(Isa::X86_64, |program| {
        bound(program, STREAM);
        program.call(Sys::Listen, &[3, 1]);
        program.or_exit(3);
        program.arg(0, (-100_i64).cast_unsigned());
        program.arg_string(1, "/proc/net/tcp");
        program.arg(2, 0);
        program.call_as_is(Sys::Openat);
        program.or_exit(4);
        program.call(Sys::Read, &[4, ROOM, 0x800]);
        program.or_exit_unless(LEN, 5);
        for (number, place) in (0..).zip([LEN + 1, LEN + 400, 1 << 20, LEN]) {
            for _ in 0..2 {
                program.call(Sys::Lseek, &[4, place, 0]);
                program.or_exit_unless(place, 10 + number);
                program.call(Sys::Read, &[4, ROOM, 0x800]);
                program.or_exit_unless(0, 20 + number);
            }
        }
        for place in [0, 1, 149, 150, 151, LEN - 1] {
            program.call(Sys::Pread64, &[4, ROOM, 0x800, place]);
            program.or_exit_unless(LEN - place, 30);
        }
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    everywhere(2, &scenario, 0, "");
}

/// What is connected counts, whatever the version, and nothing else does, as nothing goes in packets.
#[test]
fn connections_are_counted() {
    let sockstat6 = "TCP6: inuse 0\nUDP6: inuse 0\nUDPLITE6: inuse 0\nRAW6: inuse 0\nFRAG6: inuse 0 memory 0\n";
    let tcp = "Tcp: 1 200 120000 -1 0 0 0 0 2 0 0 0 0 0 0\n";
    let first = Program::build(Isa::AArch64, |program| {
        bound(program, STREAM);
        program.call(Sys::Listen, &[3, 1]);
        program.or_exit(3);
        program.call(Sys::Socket, &[AF_INET, STREAM, 0]);
        program.call(Sys::Connect, &[4, ADDRESS, 16]);
        program.or_exit(4);
        for (path, from) in [("/proc/net/sockstat6", 0), ("/proc/net/snmp", SNMP_TCP)] {
            let len = if from == 0 { sockstat6.len() } else { tcp.len() } as u64;
            program.arg(0, (-100_i64).cast_unsigned());
            program.arg_string(1, path);
            program.arg(2, 0);
            program.call_as_is(Sys::Openat);
            program.or_exit_unless(5, 5);
            program.call(Sys::Pread64, &[5, ROOM, len, from]);
            program.or_exit_unless(len, 6);
            program.call(Sys::Write, &[1, ROOM, len]);
            program.call(Sys::Close, &[5]);
        }
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    everywhere(1, &scenario, 0, &format!("{sockstat6}{tcp}"));
}

/// Those that listen, or have a port; counting goes on where it has given way to other work.
#[test]
fn sockets_are_counted_by_protocol() {
    let told = "sockets: used 4\nTCP: inuse 1 orphan 0 tw 0 alloc 2 mem 0\nUDP: inuse 1 mem 0\n";
    let first = Program::build(Isa::RiscV64, |program| {
        bound(program, STREAM);
        program.call(Sys::Listen, &[3, 1]);
        program.or_exit(3);
        program.call(Sys::Socket, &[AF_INET6, STREAM, 0]);
        bound(program, DATAGRAM);
        program.call(Sys::Socket, &[AF_INET, DATAGRAM, 0]);
        program.arg(0, (-100_i64).cast_unsigned());
        program.arg_string(1, "/proc/net/sockstat");
        program.arg(2, 0);
        program.call_as_is(Sys::Openat);
        program.or_exit(4);
        for place in [0, 20] {
            program.call(Sys::Pread64, &[7, ROOM + place, told.len() as u64 - place, place]);
            program.or_exit_unless(told.len() as u64 - place, 5);
        }
        program.call(Sys::Write, &[1, ROOM, told.len() as u64]);
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    everywhere(3, &scenario, 0, told);
    let ended = under(Driver::Seeded(7), ROUGH, &scenario).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((ended.status, ended.output.as_str()), (0, told));
}
