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

#[test]
fn connections_of_an_island_that_dies_are_closed() {
    let scenario = clients();
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 1) {
        let (in_use, broken, steps) = left(&scenario, seed, ROUGH);
        assert_eq!((in_use, broken), ([0; 3], vec![]), "seed {seed}: sockets, pipes and packets");
        // From when the children are there.
        for step in (steps / 4..steps).step_by((steps / env("MOTET_DEATHS", 60)) as usize) {
            let faults = Faults { death: Some((IslandId(1 + (step % 2) as u8), step)), survives: true, ..ROUGH };
            let (_, broken, _) = left(&scenario, seed, faults);
            assert_eq!(broken, Vec::<String>::new(), "seed {seed}, death at step {step}");
        }
    }
}
