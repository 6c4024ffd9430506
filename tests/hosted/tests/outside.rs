//! Connections to other machines, by an island's network device. The wire loses, doubles, changes and reorders frames.

use motet_hal_hosted::isa::Op;
use motet_hal_hosted::network::NetworkConfig;
use motet_hal_hosted::{Config, Driver, Faults};
use motet_layout::{Isa, IslandId, PacketRecord, PipeRecord, SocketRecord, WatchRecord};
use motet_protocol::slab::SlabObject;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::outside::{Notes, Service, host};
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::scenarios::{ADDRESS, close};
use motet_tests_hosted::{Ended, ROUGH, Scenario, boot_and_look, env, three_islands, whole};

const AF_INET: u64 = 2;
const STREAM: u64 = 1;
const ROOM: u64 = DATA + 0x1000;
const HOST: [u8; 4] = [10, 0, 2, 2];
/// What a gateway has: two sockets, a queue of packets, and a bell.
const OF_GATEWAY: [u32; 4] = [2, 1, 0, 1];

/// A run under a seed with such a machine at the other end of the first island's wire. How it ended, and the sockets, pipes, packets and watches that are left.
fn run(scenario: &Scenario, seed: u64, faults: Faults, network: NetworkConfig) -> (Ended, [u32; 4]) {
    run_at(0, scenario, seed, faults, network)
}

/// The same, at the other end of an island's wire.
fn run_at(island: usize, scenario: &Scenario, seed: u64, faults: Faults, network: NetworkConfig) -> (Ended, [u32; 4]) {
    let mut islands = three_islands([1, 1, 1]);
    islands[island].network = Some(network);
    let mut config = Config::new(Driver::Seeded(seed), islands);
    config.faults = faults;
    config.steps_max = 10_000_000;
    let looked = boot_and_look(config, scenario, |pool| {
        let slabs = &pool.header().slabs;
        let classes = [SocketRecord::CLASS, PipeRecord::CLASS, PacketRecord::CLASS, WatchRecord::CLASS];
        (classes.map(|class| slabs[class].in_use.get()), whole::broken(pool))
    });
    let (ended, (left, broken)) = looked.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert!(broken.is_empty(), "seed {seed}: {broken:?}");
    (ended, left)
}

fn seeds() -> std::ops::Range<u64> {
    let first = env("MOTET_FIRST", 0);
    first..first + env("MOTET_SEEDS", 4)
}

/// Stores an address and a port at [`ADDRESS`].
fn write_endpoint(program: &mut Program, address: [u8; 4], port: u16) {
    let [high, low] = port.to_be_bytes();
    let word = u64::from_le_bytes([2, 0, high, low, address[0], address[1], address[2], address[3]]);
    program.store_at(ADDRESS, word);
    program.store_at(ADDRESS + 8, 0);
}

/// A socket in the first register that calls keep, and a call with it and an address.
fn socket_with(program: &mut Program, call: Sys, address: [u8; 4], port: u16) {
    let [fd, ..] = program.asm.roles.saved;
    write_endpoint(program, address, port);
    program.call(Sys::Socket, &[AF_INET, STREAM, 0]);
    program.or_exit(110);
    program.result_to(fd);
    program.arg_from(0, fd);
    program.arg(1, ADDRESS);
    program.arg(2, 16);
    program.call_as_is(call);
}

/// Reads or writes with the descriptor in the first register.
fn transfer(program: &mut Program, call: Sys, len: u64) {
    let [fd, ..] = program.asm.roles.saved;
    program.arg_from(0, fd);
    program.arg(1, ROOM);
    program.arg(2, len);
    program.call_as_is(call);
}

/// Connects to the host's echo, and has something sent back twice.
fn ask(program: &mut Program) {
    socket_with(program, Sys::Connect, HOST, 7);
    program.or_exit(105);
    for _ in 0..2 {
        transfer(program, Sys::Write, 8);
        program.or_exit_unless(8, 106);
        transfer(program, Sys::Read, 8);
        program.or_exit_unless(8, 107);
    }
    close(program);
}

/// A first program that runs one of `asking` for each instruction set, and does the same itself.
fn on_all_islands(asking: fn(&mut Program)) -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        let [_, pid, ..] = program.asm.roles.saved;
        for path in ["/arm", "/riscv"] {
            program.fork_with(pid, |program| program.exec(path));
        }
        asking(program);
        (0..2).for_each(|_| program.wait());
        program.print(1, "all\n");
        program.exit(0);
    });
    let client = |isa| {
        Program::build(isa, |program| {
            asking(program);
            program.print(1, "one\n");
            program.exit(0);
        })
    };
    let files = vec![("first", first), ("arm", client(Isa::AArch64)), ("riscv", client(Isa::RiscV64))];
    Scenario { files, command: vec!["/first"], ..Scenario::default() }
}

#[test]
fn programs_of_all_islands_are_answered_through_a_wire_that_loses_frames() {
    let scenario = on_all_islands(ask);
    for seed in seeds() {
        let wire = wire(seed, &[Service::Echo(7, 12)], &Notes::default());
        let (ended, left) = run(&scenario, seed, ROUGH, wire);
        assert_eq!((ended.status, ended.output.as_str()), (0, "one\none\nall\n"), "seed {seed}: {ended:?}");
        assert_eq!(left[2], OF_GATEWAY[2], "seed {seed}: {left:?}");
    }
}

/// A wire that is as it should be under every other seed.
fn wire(seed: u64, services: &[Service], notes: &Notes) -> NetworkConfig {
    let remote = host(services, notes);
    if seed % 2 == 0 { NetworkConfig::new(remote) } else { NetworkConfig::rough(remote) }
}

/// A program on the device's island alone.
fn alone(write: impl FnOnce(&mut Program)) -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        write(program);
        program.print(1, "all\n");
        program.exit(0);
    });
    Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() }
}

const fn error(number: u64) -> u64 {
    number.wrapping_neg()
}

fn sleep(program: &mut Program, ns: u64) {
    program.store_at(DATA + 0x300, ns / 1_000_000_000);
    program.store_at(DATA + 0x308, ns % 1_000_000_000);
    program.call(Sys::Nanosleep, &[DATA + 0x300, 0]);
}

/// Exits unless the word at [`ROOM`] is that.
fn expect_word(program: &mut Program, wanted: u64, status: u64) {
    let [.., at] = program.asm.roles.saved;
    let result = program.asm.roles.result;
    program.asm.li(at, ROOM);
    program.asm.op_i(Op::Ld64, result, at, 0);
    program.or_exit_unless(wanted, status);
}

#[test]
fn programs_of_all_islands_accept_other_machines() {
    let serve = |program: &mut Program| {
        let [fd, ..] = program.asm.roles.saved;
        for _ in 0..2 {
            program.call(Sys::Accept4, &[3, 0, 0, 0]);
            program.or_exit(101);
            program.result_to(fd);
            transfer(program, Sys::Read, 8);
            program.or_exit_unless(8, 102);
            transfer(program, Sys::Write, 8);
            program.or_exit_unless(8, 103);
            close(program);
        }
    };
    let first = Program::build(Isa::X86_64, |program| {
        let [_, pid, ..] = program.asm.roles.saved;
        socket_with(program, Sys::Bind, [0; 4], 8080);
        program.or_exit(111);
        program.call(Sys::Listen, &[3, 8]);
        program.or_exit(112);
        for path in ["/arm", "/riscv"] {
            program.fork_with(pid, |program| program.exec(path));
        }
        serve(program);
        (0..2).for_each(|_| program.wait());
        program.call(Sys::Close, &[3]);
        // The last ends come through the wire.
        sleep(program, 20_000_000_000);
        program.print(1, "all\n");
        program.exit(0);
    });
    let other = |isa| {
        Program::build(isa, |program| {
            serve(program);
            program.print(1, "one\n");
            program.exit(0);
        })
    };
    let files = vec![("first", first), ("arm", other(Isa::AArch64)), ("riscv", other(Isa::RiscV64))];
    let scenario = Scenario { files, command: vec!["/first"], ..Scenario::default() };
    for seed in seeds() {
        let notes = Notes::default();
        let wire = wire(seed, &[Service::Ask(8080, 6), Service::Ask(8080, 6), Service::Ask(8080, 6)], &notes);
        let (ended, left) = run(&scenario, seed, ROUGH, wire);
        assert_eq!((ended.status, ended.output.as_str()), (0, "one\none\nall\n"), "seed {seed}: {ended:?}");
        let told = *notes.lock().expect("nobody has panicked");
        assert_eq!((told.answered, left), (6, OF_GATEWAY), "seed {seed}: {told:?}");
    }
}

#[test]
fn all_comes_at_a_peer_that_reads_slowly() {
    const LEN: u64 = 40_000;
    let scenario = alone(|program| {
        let [fd, ..] = program.asm.roles.saved;
        socket_with(program, Sys::Connect, HOST, 9);
        program.or_exit(105);
        transfer(program, Sys::Write, LEN);
        program.or_exit_unless(LEN, 106);
        program.arg_from(0, fd);
        program.arg(1, 1); // SHUT_WR
        program.call_as_is(Sys::Shutdown);
        program.or_exit(107);
        transfer(program, Sys::Read, 8);
        program.or_exit_unless(8, 108);
        expect_word(program, LEN, 109);
        transfer(program, Sys::Read, 8);
        program.or_exit_unless(0, 110);
        close(program);
    });
    for seed in seeds() {
        let (ended, _) = run(&scenario, seed, ROUGH, wire(seed, &[Service::Slow(9)], &Notes::default()));
        assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {ended:?}");
    }
}

#[test]
fn a_program_is_told_why_there_is_no_connection() {
    let scenario = alone(|program| {
        // Nobody listens there.
        socket_with(program, Sys::Connect, HOST, 99);
        program.or_exit_unless(error(111), 120);
        close(program);
        // Nobody is there.
        socket_with(program, Sys::Connect, [10, 0, 2, 77], 7);
        program.or_exit_unless(error(110), 121);
        close(program);
        // A peer that answers no more.
        socket_with(program, Sys::Connect, HOST, 5);
        program.or_exit(122);
        transfer(program, Sys::Write, 8);
        program.or_exit_unless(8, 123);
        transfer(program, Sys::Read, 8);
        program.or_exit_unless(error(110), 124);
        transfer(program, Sys::Read, 8);
        program.or_exit_unless(0, 125);
        close(program);
    });
    for seed in seeds() {
        let wire = NetworkConfig::new(host(&[Service::Vanishing(5)], &Notes::default()));
        let (ended, left) = run(&scenario, seed, ROUGH, wire);
        assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {ended:?}");
        assert_eq!(left, OF_GATEWAY, "seed {seed}");
    }
}

#[test]
fn a_connection_is_under_way_until_it_is_known() {
    let scenario = alone(|program| {
        let [fd, ..] = program.asm.roles.saved;
        let connect = |program: &mut Program| {
            program.arg_from(0, fd);
            program.arg(1, ADDRESS);
            program.arg(2, 16);
            program.call_as_is(Sys::Connect);
        };
        write_endpoint(program, HOST, 7);
        program.call(Sys::Socket, &[AF_INET, STREAM | 0o4000, 0]);
        program.or_exit(110);
        program.result_to(fd);
        connect(program);
        program.or_exit_unless(error(115), 111);
        connect(program);
        program.or_exit_unless(error(114), 112);
        transfer(program, Sys::Read, 8);
        program.or_exit_unless(error(11), 113);
        transfer(program, Sys::Write, 8);
        program.or_exit_unless(error(11), 114);
        // Until it can be written to.
        program.store_at(ROOM, 3 | 4 << 32);
        program.call(Sys::Ppoll, &[ROOM, 1, 0, 0, 8]);
        program.or_exit_unless(1, 115);
        expect_word(program, 3 | 4 << 32 | 4 << 48, 116);
        connect(program);
        program.or_exit_unless(0, 117);
        connect(program);
        program.or_exit_unless(error(106), 118);
        transfer(program, Sys::Write, 8);
        program.or_exit_unless(8, 119);
        close(program);
        // One that is given up is closed, too.
        write_endpoint(program, [10, 0, 2, 77], 7);
        program.call(Sys::Socket, &[AF_INET, STREAM | 0o4000, 0]);
        program.result_to(fd);
        connect(program);
        program.or_exit_unless(error(115), 120);
        close(program);
        sleep(program, 1_000_000_000);
    });
    for seed in seeds() {
        let (ended, left) =
            run(&scenario, seed, ROUGH, NetworkConfig::new(host(&[Service::Echo(7, 1)], &Notes::default())));
        assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {ended:?}");
        assert_eq!(left, OF_GATEWAY, "seed {seed}");
    }
}

#[test]
fn who_has_all_connections_that_a_user_may_have_leaves_some_to_others() {
    let scenario = alone(|program| {
        let [_, pid, ..] = program.asm.roles.saved;
        let connect = |program: &mut Program| socket_with(program, Sys::Connect, HOST, 7);
        for _ in 0..6 {
            connect(program);
            program.or_exit(120);
        }
        connect(program);
        program.or_exit_unless(error(11), 121);
        program.fork_with(pid, |program| {
            program.call(Sys::Setresuid, &[1000, 1000, 1000]);
            program.or_exit(122);
            connect(program);
            program.or_exit(123);
            program.print(1, "one\n");
            program.exit(0);
        });
        program.wait();
        // Those that are closed are free again.
        for fd in 3..9 {
            program.call(Sys::Close, &[fd]);
        }
        sleep(program, 1_000_000_000);
        for _ in 0..6 {
            connect(program);
            program.or_exit(124);
        }
    });
    for seed in seeds() {
        let mut wire = NetworkConfig::new(host(&[Service::Echo(7, 20)], &Notes::default()));
        // For eight connections.
        wire.memory_bytes = (80 << 10) + 8 * (35 << 10);
        let (ended, _) = run(&scenario, seed, ROUGH, wire);
        assert_eq!((ended.status, ended.output.as_str()), (0, "one\nall\n"), "seed {seed}: {ended:?}");
    }
}

#[test]
fn datagrams_go_out_and_come_back() {
    let scenario = on_all_islands(|program| {
        let [fd, ..] = program.asm.roles.saved;
        write_endpoint(program, HOST, 53);
        program.call(Sys::Socket, &[AF_INET, 2, 0]);
        program.result_to(fd);
        program.arg_from(0, fd);
        program.arg(1, ADDRESS);
        program.arg(2, 16);
        program.call_as_is(Sys::Connect);
        program.or_exit(120);
        for len in [8, 1400] {
            transfer(program, Sys::Write, len);
            program.or_exit_unless(len, 121);
            transfer(program, Sys::Read, 2000);
            program.or_exit_unless(len, 122);
        }
        transfer(program, Sys::Write, 1473);
        program.or_exit_unless(error(90), 123);
        close(program);
    });
    for seed in seeds() {
        let remote = host(&[Service::Datagrams(53)], &Notes::default());
        let (ended, left) = run(&scenario, seed, ROUGH, NetworkConfig::new(remote));
        assert_eq!((ended.status, ended.output.as_str()), (0, "one\none\nall\n"), "seed {seed}: {ended:?}");
        assert_eq!(left, OF_GATEWAY, "seed {seed}");
    }
}

#[test]
fn frames_that_are_none_harm_nobody() {
    let scenario = alone(|program| {
        let [fd, ..] = program.asm.roles.saved;
        socket_with(program, Sys::Bind, [0; 4], 8080);
        program.or_exit(111);
        program.arg_from(0, fd);
        program.arg(1, 4);
        program.call_as_is(Sys::Listen);
        program.or_exit(112);
        (0..8).for_each(|_| ask(program));
        sleep(program, 100_000_000);
        ask(program);
    });
    for seed in seeds() {
        let wire = wire(seed, &[Service::Echo(7, 20), Service::Babble(1000, seed)], &Notes::default());
        let (ended, _) = run(&scenario, seed, ROUGH, wire);
        assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {ended:?}");
    }
}

/// Asks again and again, whatever comes of that.
fn ask_in_any_case(program: &mut Program) {
    for _ in 0..3 {
        socket_with(program, Sys::Connect, HOST, 7);
        let [fd, ..] = program.asm.roles.saved;
        program.arg_from(0, fd);
        for (index, value) in [(1, ROOM), (2, 8), (3, 0x4000), (4, 0), (5, 0)] {
            program.arg(index, value); // MSG_NOSIGNAL
        }
        program.call_as_is(Sys::Sendto);
        transfer(program, Sys::Read, 8);
        close(program);
    }
}

#[test]
fn when_the_device_has_died_its_connections_have_ended_and_nothing_is_left() {
    let client = |isa: Isa| {
        Program::build(isa, |program| {
            let [_, pid, ..] = program.asm.roles.saved;
            if isa == Isa::X86_64 {
                program.fork_with(pid, |program| program.exec("/arm"));
            }
            ask_in_any_case(program);
            if isa == Isa::X86_64 {
                program.wait();
                sleep(program, 50_000_000);
                program.print(1, "all\n");
            }
            program.exit(0);
        })
    };
    let files = vec![("first", client(Isa::X86_64)), ("arm", client(Isa::AArch64))];
    let scenario = Scenario { files, command: vec!["/first"], ..Scenario::default() };
    for seed in seeds() {
        let wire = || NetworkConfig::new(host(&[Service::Echo(7, 4)], &Notes::default()));
        let (whole_run, left) = run_at(2, &scenario, seed, ROUGH, wire());
        assert_eq!((whole_run.output.as_str(), left), ("all\n", OF_GATEWAY), "seed {seed}");
        for part in 1..env("MOTET_DEATHS", 8) {
            let step = whole_run.steps * part / env("MOTET_DEATHS", 8);
            let faults = Faults { death: Some((IslandId(2), step)), survives: true, ..ROUGH };
            let (ended, left) = run_at(2, &scenario, seed, faults, wire());
            assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}, step {step}: {ended:?}");
            // The core may have been making or freeing one just then.
            assert!(
                left.iter().sum::<u32>() <= 1,
                "seed {seed}, step {step}: {left:?} sockets, pipes, packets, watches"
            );
        }
    }
}
