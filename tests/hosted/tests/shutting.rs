//! A thread reads or writes a socket while another one, on another island, ends that direction (`shutdown`): the first one hears of it, however close they are.

use motet_hal_hosted::{Config, Driver, Faults, isa::Op};
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::deaths::together;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::scenarios::ADDRESS;
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, env, three_islands, whole};

/// What both agree by about when they begin, then a listener, then the ends of connections.
const BEGINS: [u64; 2] = [3, 4];
const LISTENER: u64 = 5;
const FIRST: u64 = 6;
const CONNECTIONS: u64 = 8;
const ROOM: u64 = DATA + 0x1000;
const MAPPED: u64 = 0x3000_0000;
const STREAM: u64 = 1;
const PACKETS: u64 = 5;
/// `MSG_DONTWAIT`, `MSG_NOSIGNAL`; `EPIPE`, as a call's result.
const DONTWAIT: u64 = 0x40;
const NOSIGNAL: u64 = 0x4000;
const PIPE: u64 = (-32_i64).cast_unsigned();

/// Connections of a family, and something in all of them for which there is no more room.
fn make(program: &mut Program, family: u64, kind: u64) {
    let is_local = family == 1;
    program.call(Sys::Mmap, &[MAPPED, 1 << 16, 3, 0x32, u64::MAX, 0]); // private, fixed, anonymous
    program.or_exit(100);
    program.call(Sys::Socketpair, &[1, STREAM, 0, ROOM]);
    program.or_exit(101);
    program.store_at(ADDRESS, if is_local { 1 | u64::from(b'x') << 24 } else { 2 | 0x901f << 16 | 0x0100_007f << 32 });
    program.store_at(ADDRESS + 8, 0);
    let len = if is_local { 4 } else { 16 };
    for (call, args) in
        [(Sys::Socket, &[family, kind, 0][..]), (Sys::Bind, &[LISTENER, ADDRESS, len]), (Sys::Listen, &[LISTENER, 8])]
    {
        program.call(call, args);
        program.or_exit(102);
    }
    for fd in ends() {
        program.call(Sys::Socket, &[family, kind, 0]);
        program.or_exit_unless(fd, 103);
        program.call(Sys::Connect, &[fd, ADDRESS, len]);
        program.or_exit(104);
        program.call(Sys::Accept4, &[LISTENER, 0, 0, 0]);
        program.or_exit_unless(fd + 1, 105);
        for _ in 0..8 {
            program.call(Sys::Sendto, &[fd, MAPPED, 1 << 16, DONTWAIT, 0, 0]);
        }
    }
}

/// One end of each connection.
fn ends() -> impl Iterator<Item = u64> {
    (0..CONNECTIONS).map(|number| FIRST + 2 * number)
}

/// Ends a direction of each connection just when the other one waits there.
fn shut(program: &mut Program, how: u64) {
    for fd in ends() {
        program.call(Sys::Write, &[BEGINS[0], ROOM, 1]);
        program.call(Sys::Shutdown, &[fd, how]);
        program.or_exit(106);
        program.call(Sys::Read, &[BEGINS[0], ROOM, 1]);
        program.or_exit_unless(1, 107);
    }
}

/// Waits in each connection, and hears that it need not.
fn wait(program: &mut Program, waits: impl Fn(&mut Program, u64)) {
    for fd in ends() {
        let (result, zero) = (program.asm.roles.result, program.asm.roles.args[5]);
        let again = program.asm.here();
        program.call(Sys::Recvfrom, &[BEGINS[1], ROOM, 1, DONTWAIT, 0, 0]);
        program.asm.li(zero, 0);
        program.asm.branch(Op::Blt, result, zero, again);
        waits(program, fd);
        program.call(Sys::Write, &[BEGINS[1], ROOM, 1]);
    }
}

fn read(program: &mut Program, isa: Isa) {
    match isa {
        Isa::X86_64 => wait(program, |program, fd| {
            program.call(Sys::Recvfrom, &[fd, ROOM, 8, 0, 0, 0]);
            program.or_exit_unless(0, 108);
        }),
        Isa::AArch64 => shut(program, 0),
        Isa::RiscV64 | Isa::Hosted => {}
    }
}

fn write(program: &mut Program, isa: Isa) {
    match isa {
        Isa::X86_64 => wait(program, |program, fd| {
            program.call(Sys::Sendto, &[fd, ROOM, 8, NOSIGNAL, 0, 0]);
            program.or_exit_unless(PIPE, 109);
        }),
        Isa::AArch64 => shut(program, 1),
        Isa::RiscV64 | Isa::Hosted => {}
    }
}

fn all_hear(name: &str, scenario: &Scenario) {
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 40) {
        let mut config = Config::new(Driver::Seeded(seed), three_islands([1, 1, 1]));
        // So that a whole `shutdown` comes between two steps of the other one.
        config.faults = Faults { stall_every: 60, stall_ns_max: 60_000, ..ROUGH };
        config.steps_max = 6_000_000;
        let looked = boot_and_look(config, scenario, whole::broken);
        let (ended, broken) = looked.unwrap_or_else(|failure| panic!("{name}, seed {seed}: {failure}"));
        println!("{name}, seed {seed}: {} steps", ended.steps);
        assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "{name}, seed {seed}: {ended:?}");
        assert_eq!(broken, Vec::<String>::new(), "{name}, seed {seed}");
    }
}

#[test]
fn whoever_reads_hears_that_nothing_more_is_read() {
    all_hear("AF_UNIX", &together(|program| make(program, 1, STREAM), read, |_| {}));
    all_hear("AF_INET", &together(|program| make(program, 2, STREAM), read, |_| {}));
}

#[test]
fn whoever_writes_hears_that_nothing_more_is_written() {
    all_hear("AF_UNIX", &together(|program| make(program, 1, STREAM), write, |_| {}));
    all_hear("packets", &together(|program| make(program, 1, PACKETS), write, |_| {}));
    all_hear("AF_INET", &together(|program| make(program, 2, STREAM), write, |_| {}));
}
