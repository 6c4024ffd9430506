//! What is told of the network: the loopback device, which nobody changes.

use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere};

const AF_INET: u64 = 2;
const DATAGRAM: u64 = 2;
/// `EOPNOTSUPP`, as a call's result.
const REFUSED: u64 = (-95_i64).cast_unsigned();
/// A `struct ifreq`, and what it asks or is told.
const REQUEST: u64 = DATA + 0x800;
const VALUE: u64 = REQUEST + 16;

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
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    everywhere(1, &scenario, 0, "");
}
