//! Packets with open files in them, between islands: what is sent is received once, also when senders, receivers and whoever closes meet, and nothing is left when
//! all have gone.

use motet_hal_hosted::{Config, Driver, Faults};
use motet_layout::{Isa, IslandId, PacketRecord, SocketRecord};
use motet_protocol::slab::SlabObject;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::deaths::{passers, together};
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::scenarios::{
    ADDRESS, NONBLOCK, close, close_received, make_pair, name_address, receive_file, send_file,
};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, env, three_islands, whole};

/// `SOCK_STREAM`, `SOCK_DGRAM` and `SOCK_SEQPACKET`.
const KINDS: [u64; 3] = [1, 2, 5];

/// Sockets and packets that are there at the end of a run under a seed, what is not whole, and how many steps it took.
fn left(scenario: &Scenario, seed: u64, faults: Faults) -> ([u32; 2], Vec<String>, u64) {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([1, 1, 1]));
    config.faults = faults;
    config.steps_max = 3_000_000;
    let looked = boot_and_look(config, scenario, |pool| {
        let slabs = &pool.header().slabs;
        let in_use = [SocketRecord::CLASS, PacketRecord::CLASS].map(|class| slabs[class].in_use.get());
        (in_use, whole::broken(pool))
    });
    let (ended, (in_use, broken)) = looked.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {ended:?}");
    (in_use, broken, ended.steps)
}

/// Islands make pairs of which only packets of these pairs know, and receive each other's files.
fn cycles() -> Scenario {
    together(
        |_| {},
        |program, _| {
            for kind in KINDS {
                make_pair(program, kind);
                send_file(program, 3, 4);
                program.or_exit(101);
                send_file(program, 4, 3);
                program.or_exit(102);
                close_both(program);
            }
        },
        collect,
    )
}

fn close_both(program: &mut Program) {
    close_all(program, 3..5);
}

fn close_all(program: &mut Program, descriptors: impl IntoIterator<Item = u64>) {
    for fd in descriptors {
        program.call(Sys::Close, &[fd]);
    }
}

/// Closes a socket: what was left by others goes then.
fn collect(program: &mut Program) {
    let [fd, ..] = program.asm.roles.saved;
    program.call(Sys::Socket, &[1, 1, 0]);
    program.result_to(fd);
    close(program);
}

/// A number for each instruction set.
fn number(isa: Isa) -> u8 {
    match isa {
        Isa::AArch64 => 0,
        Isa::RiscV64 => 1,
        Isa::X86_64 | Isa::Hosted => 2,
    }
}

/// Connects descriptor 4 to 3, which listens, and does not accept it. Both are the next ones.
fn connect_to_listener(program: &mut Program, kind: u64, name: u8) {
    name_address(program, name);
    for (call, args) in [
        (Sys::Socket, &[1, kind | NONBLOCK, 0][..]),
        (Sys::Bind, &[3, ADDRESS, 4]),
        (Sys::Listen, &[3, 64]),
        (Sys::Socket, &[1, kind | NONBLOCK, 0]),
        (Sys::Connect, &[4, ADDRESS, 4]),
    ] {
        program.call(call, args);
        program.or_exit(103);
    }
}

/// Islands send listeners of which connections wait: through these connections, so that nobody can accept them, and through others, by which they are received.
fn listeners() -> Scenario {
    together(
        |_| {},
        |program, isa| {
            for (kind, name) in [(1, b'a'), (5, b'k')] {
                let name = name + 3 * number(isa);
                connect_to_listener(program, kind, name);
                // The listener, and who has connected to it.
                for fd in [3, 4] {
                    send_file(program, 4, fd);
                    program.or_exit(104);
                }
                close_both(program);
                received_listener(program, kind, name + 1);
                close_all(program, 3..10);
            }
        },
        collect,
    )
}

/// A socket waits in a connection that a listener is to accept, which waits in a pair.
fn received_listener(program: &mut Program, kind: u64, name: u8) {
    connect_to_listener(program, kind, name);
    for _ in 0..2 {
        make_pair(program, kind); // 5 and 6, 7 and 8
    }
    send_file(program, 4, 6);
    program.or_exit(105);
    send_file(program, 7, 3);
    program.or_exit(106);
    close_all(program, [3, 6]);
    collect(program);
    receive_file(program, 8); // 3
    program.or_exit(107);
    program.call(Sys::Accept4, &[3, 0, 0, 0]); // 6
    program.or_exit_unless(6, 108);
    receive_file(program, 6); // 9
    program.or_exit(109);
    program.call(Sys::Write, &[5, DATA, 1]);
    program.or_exit(110);
    program.call(Sys::Read, &[9, DATA, 1]);
    program.or_exit_unless(1, 111);
}

#[test]
fn listeners_in_packets_are_received_with_those_who_wait_or_freed() {
    let scenario = listeners();
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 12) {
        let (in_use, broken, _) = left(&scenario, seed, ROUGH);
        assert_eq!((in_use, broken), ([0, 0], vec![]), "seed {seed}: sockets and packets");
    }
}

/// How many files users may have in packets, and descriptors.
const FEW: u64 = 10;
/// `ETOOMANYREFS`, as a call's result.
const TOO_MANY: u64 = (-109_i64).cast_unsigned();

/// Users make more pairs of which only packets know than they may have files in packets, and then send as many files as they may.
fn limited() -> Scenario {
    together(
        |_| {},
        |program, isa| {
            /// `RLIMIT_NOFILE`
            const LIMIT: u64 = 7;
            let user = 1000 + u64::from(number(isa));
            [DATA + 0x200, DATA + 0x208].into_iter().for_each(|at| program.store_at(at, FEW));
            program.call(Sys::Prlimit64, &[0, LIMIT, DATA + 0x200, 0]);
            program.or_exit(103);
            program.call(Sys::Setresuid, &[user; 3]);
            program.or_exit(104);
            for kind in KINDS {
                for _ in 0..FEW {
                    make_pair(program, kind);
                    for (through, fd) in [(3, 4), (4, 3)] {
                        send_file(program, through, fd);
                        program.or_exit(105);
                    }
                    close_both(program);
                }
                make_pair(program, kind);
                for _ in 0..=FEW {
                    send_file(program, 3, 4);
                    program.or_exit(106);
                }
                // These can be received.
                send_file(program, 3, 4);
                program.or_exit_unless(TOO_MANY, 107);
                receive_file(program, 4);
                program.or_exit(108);
                close_received(program);
                send_file(program, 3, 4);
                program.or_exit(109);
                close_both(program);
            }
        },
        collect,
    )
}

#[test]
fn sockets_that_only_packets_name_are_freed_before_files_are_too_many() {
    let scenario = limited();
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 6) {
        let (in_use, broken, _) = left(&scenario, seed, ROUGH);
        assert_eq!((in_use, broken), ([0, 0], vec![]), "seed {seed}: sockets and packets");
    }
}

#[test]
fn sockets_that_only_packets_name_are_freed() {
    let scenario = cycles();
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 12) {
        let (in_use, broken, _) = left(&scenario, seed, ROUGH);
        assert_eq!((in_use, broken), ([0, 0], vec![]), "seed {seed}: sockets and packets");
    }
}

#[test]
fn files_in_packets_are_received_once_by_any_island() {
    for (seed, kind) in (env("MOTET_FIRST", 0)..).zip(KINDS.into_iter().cycle().take(env("MOTET_SEEDS", 12) as usize)) {
        // One socket stays open in a process that sleeps, so the pair is there.
        let (in_use, broken, _) = left(&passers(kind), seed, ROUGH);
        assert_eq!((in_use, broken), ([2, 0], vec![]), "seed {seed}, kind {kind}: sockets and packets");
    }
}

#[test]
fn packets_of_an_island_that_dies_are_freed_or_received() {
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 1) {
        for kind in KINDS {
            let scenario = passers(kind);
            let (.., steps) = left(&scenario, seed, ROUGH);
            // From when the children are there.
            for step in (steps / 4..steps).step_by((steps / env("MOTET_DEATHS", 30)) as usize) {
                let faults = Faults { death: Some((IslandId(1 + (step % 2) as u8), step)), survives: true, ..ROUGH };
                let (_, broken, _) = left(&scenario, seed, faults);
                assert_eq!(broken, Vec::<String>::new(), "seed {seed}, kind {kind}, death at step {step}");
            }
        }
    }
}

#[test]
fn a_child_on_another_island_gets_a_file() {
    let parent = Program::build(Isa::X86_64, |program| {
        let [_, pid, ..] = program.asm.roles.saved;
        make_pair(program, 5);
        program.fork_with(pid, |program| program.exec("/riscv"));
        // Standard output.
        send_file(program, 3, 1);
        program.or_exit(101);
        program.wait();
        program.exit(0);
    });
    let child = Program::build(Isa::RiscV64, |program| {
        program.call(Sys::Close, &[1]);
        receive_file(program, 4);
        program.or_exit(102);
        // The lowest that is free.
        program.print(1, "all\n");
        close_received(program);
        program.exit(0);
    });
    let files = vec![("first", parent), ("riscv", child)];
    let scenario = Scenario { files, command: vec!["/first"], ..Scenario::default() };
    for seed in 0..env("MOTET_SEEDS", 4) {
        let (in_use, broken, _) = left(&scenario, seed, ROUGH);
        assert_eq!((in_use[1], broken), (0, vec![]), "seed {seed}");
    }
}
