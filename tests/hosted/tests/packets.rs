//! Packets with open files in them, between islands: what is sent is received once, also when senders, receivers and whoever closes meet, and nothing is left when
//! all have gone.

use motet_hal_hosted::{Config, Driver, Faults};
use motet_layout::{Isa, IslandId, PacketRecord, SocketRecord};
use motet_protocol::slab::SlabObject;
use motet_tests_hosted::deaths::{passers, together};
use motet_tests_hosted::program::Program;
use motet_tests_hosted::scenarios::{close_received, make_pair, receive_file, send_file};
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
        |program| {
            // What was left by others goes when a socket is closed.
            make_pair(program, 1);
            close_both(program);
        },
    )
}

fn close_both(program: &mut Program) {
    for fd in [3, 4] {
        program.call(motet_tests_hosted::calls::Sys::Close, &[fd]);
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
        program.call(motet_tests_hosted::calls::Sys::Close, &[1]);
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
