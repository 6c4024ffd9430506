//! An island dies while it accepts a connection: that is closed once, whether it has a file already or not. Or while it connects a socket that others have, too: they connect it anew.

use motet_hal_hosted::{Config, Driver, Failure, Faults, isa::Op};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::scenarios::{ADDRESS, NONBLOCK, close, connect, listen, write_address};
use motet_tests_hosted::{Ended, Scenario, boot_and_look, env, three_islands, whole};

/// Descriptors that parent and child share: the listener, and the end that connects to it.
const LISTENER: u64 = 3;
const CONNECTED: u64 = 4;
const ROOM: u64 = DATA + 0x1000;
/// `EISCONN` and `ECONNRESET`, as a call's results.
const IS_CONNECTED: u64 = (-106_i64).cast_unsigned();
const RESET: u64 = (-104_i64).cast_unsigned();

/// A child on RISC-V accepts what its parent connects, and says so before and after. In the end the parent's end hears that the other one is closed.
fn scenario() -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        let [fd, pid, ..] = program.asm.roles.saved;
        write_address(program);
        listen(program, 100);
        connect(program);
        program.or_exit(101);
        program.fork_with(pid, |program| program.exec("/riscv"));
        program.wait();
        // If it was not accepted, it still waits.
        program.call(Sys::Accept4, &[LISTENER, 0, 0, 0]);
        program.result_to(fd);
        close(program);
        program.call(Sys::Read, &[CONNECTED, ROOM, 8]);
        program.or_exit_unless(0, 102);
        // What was freed is used again.
        for _ in 0..2 {
            connect(program);
            program.or_exit(103);
            program.call(Sys::Accept4, &[LISTENER, 0, 0, 0]);
            program.or_exit(104);
        }
        program.print(1, "all\n");
        program.exit(0);
    });
    let riscv = Program::build(Isa::RiscV64, |program| {
        program.print(1, "<");
        program.call(Sys::Accept4, &[LISTENER, 0, 0, 0]);
        program.or_exit(100);
        program.print(1, ">");
        program.exit(0);
    });
    Scenario { files: vec![("first", first), ("riscv", riscv)], command: vec!["/first"], ..Scenario::default() }
}

/// A child on RISC-V connects its parent's socket. Afterwards that is connected, or its parent connects it. Each connection that there is ends when this socket is closed.
fn connecting() -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        let [fd, pid, zero, ..] = program.asm.roles.saved;
        let result = program.asm.roles.result;
        write_address(program);
        listen(program, 100);
        program.call(Sys::Socket, &[1, 1, 0]);
        program.or_exit_unless(CONNECTED, 101);
        program.fork_with(pid, |program| program.exec("/riscv"));
        program.wait();
        program.call(Sys::Connect, &[CONNECTED, ADDRESS, 4]);
        program.call(Sys::Connect, &[CONNECTED, ADDRESS, 4]);
        program.or_exit_unless(IS_CONNECTED, 102);
        program.call(Sys::Write, &[CONNECTED, ROOM, 8]);
        program.or_exit_unless(8, 103);
        program.call(Sys::Close, &[CONNECTED]);
        let (end, again) = (program.asm.label(), program.asm.here());
        program.call(Sys::Accept4, &[LISTENER, 0, 0, NONBLOCK]);
        program.result_to(fd);
        program.asm.li(zero, 0);
        program.asm.branch(Op::Blt, fd, zero, end);
        for _ in 0..2 {
            program.arg_from(0, fd);
            program.arg(1, ROOM);
            program.arg(2, 8);
            program.call_as_is(Sys::Read);
        }
        // Nothing any more, or it was reset.
        let ended = program.asm.label();
        program.asm.li(zero, 0);
        program.asm.branch(Op::Beq, result, zero, ended);
        program.or_exit_unless(RESET, 104);
        program.asm.bind(ended);
        close(program);
        program.asm.jump(again);
        program.asm.bind(end);
        program.print(1, "all\n");
        program.exit(0);
    });
    let riscv = Program::build(Isa::RiscV64, |program| {
        write_address(program);
        program.print(1, "<");
        program.call(Sys::Connect, &[CONNECTED, ADDRESS, 4]);
        program.or_exit(105);
        program.print(1, ">");
        program.exit(0);
    });
    Scenario { files: vec![("first", first), ("riscv", riscv)], command: vec!["/first"], ..Scenario::default() }
}

/// The run in which RISC-V dies at a step, and what is not whole at its end.
fn run(scenario: &Scenario, seed: u64, step: Option<u64>) -> Result<(Ended, Vec<String>), Failure> {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([1, 1, 1]));
    let death = step.map(|step| (IslandId(2), step));
    config.faults = Faults { death, survives: true, ..Faults::default() };
    config.steps_max = 3_000_000;
    boot_and_look(config, scenario, whole::broken)
}

/// The first step at which the island can die so that the child has said something before.
fn first_after(scenario: &Scenario, seed: u64, steps: u64, said: &str) -> u64 {
    let (mut low, mut high) = (0, steps);
    while low < high {
        let middle = low.midpoint(high);
        match run(scenario, seed, Some(middle)) {
            Ok((ended, _)) if ended.output.starts_with(said) => high = middle,
            _ => low = middle + 1,
        }
    }
    low
}

#[test]
fn what_a_dead_island_was_accepting_is_closed_once() {
    whenever_it_dies(&scenario());
}

#[test]
fn what_a_dead_island_was_connecting_is_connected_anew() {
    whenever_it_dies(&connecting());
}

/// Everything is well, whenever the island dies between the two things that it says.
fn whenever_it_dies(scenario: &Scenario) {
    let is_well = |(ended, broken): &(Ended, Vec<String>)| {
        ended.status == 0 && ended.output.ends_with("all\n") && broken.is_empty()
    };
    let (mut deaths, mut failures) = (0, Vec::new());
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 1) {
        let whole = run(scenario, seed, None).unwrap();
        assert!(is_well(&whole) && whole.0.output == "<>all\n", "{whole:?}");
        let [begins, ends] = ["<", "<>"].map(|said| first_after(scenario, seed, whole.0.steps, said));
        println!("seed {seed}: {} steps, it is at work from {begins} to {ends}", whole.0.steps);
        for step in (begins..ends).step_by(env("MOTET_STRIDE", 2) as usize) {
            deaths += 1;
            match run(scenario, seed, Some(step)) {
                Ok(ended) if is_well(&ended) => {}
                Ok(ended) => failures.push(format!("seed {seed}, death at step {step}: {ended:?}")),
                Err(failure) => failures.push(format!("seed {seed}, death at step {step}: {failure}")),
            }
        }
    }
    println!("{deaths} deaths, {} failures", failures.len());
    assert!(deaths > 100 && failures.is_empty(), "{} of {deaths}; the first: {:?}", failures.len(), failures.first());
}
