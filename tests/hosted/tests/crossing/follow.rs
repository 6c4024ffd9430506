//! Pages that follow the islands which use them, while others use them, too.

use motet_hal_hosted::{Config, Driver, Faults, isa::Op, run_seeds};
use motet_layout::{Isa, IslandId, IslandRecord, Pool, sync::Ordering};
use motet_tests_hosted::{
    ROUGH, Scenario, boot_and_look,
    calls::Sys,
    fat::{Body, address_of},
    program::DATA,
    three_islands,
};

use super::{function, no_kernel_fails, scenario};

const PAGE: u64 = 4096;
const PAGES: u64 = 4;
const CLOCK: u64 = DATA + 256;
/// What functions write, and, in a region of its own, what they read.
const WRITTEN: u64 = DATA + PAGE;
const READ: u64 = 0x7000_0000;
/// Long enough for slices to end.
const USE_NS: u64 = 150_000_000;
/// Rounds, in each of which the pages that are read have other values.
const ROUNDS: u64 = 2;
const STEPS_MAX: u64 = 3_000_000;

/// Counts in the pages that are written, and looks what is in those that are read, for a while.
fn use_pages(body: &mut Body<'_>) {
    let [end, now, scratch, value, round] = body.program.asm.roles.saved;
    let argument = body.argument();
    body.enter(1);
    body.program.asm.mov(round, argument);
    let bad = body.program.asm.label();
    body.program.repeat_for(USE_NS, [end, now, scratch], CLOCK, |program| {
        for page in 0..PAGES {
            program.asm.li(scratch, WRITTEN + page * PAGE);
            program.asm.op_i(Op::Ld64, value, scratch, 0);
            program.asm.op_i(Op::Addi, value, value, 1);
            program.asm.op_i(Op::St64, value, scratch, 0);
            program.asm.li(scratch, READ + page * PAGE);
            program.asm.op_i(Op::Ld64, value, scratch, 0);
            program.asm.op_i(Op::Addi, value, value, -(page as i32));
            program.asm.branch(Op::Bne, value, round, bad);
        }
    });
    body.leave();
    body.program.asm.bind(bad);
    body.program.exit(50);
}

/// Home writes all pages, and finds what was counted, each time that functions of other islands have used them.
fn main(body: &mut Body<'_>) {
    let [first, value, scratch, ..] = body.program.asm.roles.saved;
    const FIXED: u64 = 0x32; // of the space's own, no file's
    body.program.call(Sys::Mmap, &[READ, PAGES * PAGE, 3, FIXED, u64::MAX, 0]);
    let bad = body.program.asm.label();
    for round in 0..ROUNDS {
        for page in 0..PAGES {
            body.program.store_at(READ + page * PAGE, round * 100 + page);
            body.program.store_at(WRITTEN + page * PAGE, 0);
        }
        for user in 1..3 {
            body.program.arg(0, round * 100);
            body.call(address_of(user));
        }
        body.program.asm.li(scratch, WRITTEN);
        body.program.asm.op_i(Op::Ld64, first, scratch, 0);
        for page in 0..PAGES {
            body.program.asm.li(scratch, WRITTEN + page * PAGE);
            body.program.asm.op_i(Op::Ld64, value, scratch, 0);
            body.program.asm.branch(Op::Bne, value, first, bad);
        }
    }
    body.program.exit(7);
    body.program.asm.bind(bad);
    body.program.exit(51);
}

fn users() -> Scenario {
    let functions = [
        function("main", None, main),
        function("on_arm", Some(Isa::AArch64), use_pages),
        function("on_riscv", Some(Isa::RiscV64), use_pages),
    ];
    Scenario { adapts: true, ..scenario(&functions) }
}

fn config(seed: u64, faults: Faults) -> Config {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([1, 1, 1]));
    (config.faults, config.quantum, config.steps_max) = (faults, 1024, STEPS_MAX);
    config
}

/// How many pages have moved, and how many replicas there were.
fn followed(pool: Pool) -> [u64; 2] {
    let sum = |of: fn(&IslandRecord) -> u64| pool.header().islands.iter().map(of).sum();
    [
        sum(|island| island.pages_moved.load(Ordering::Relaxed)),
        sum(|island| island.pages_replicated.load(Ordering::Relaxed)),
    ]
}

#[test]
fn pages_that_follow_hold_what_was_written() {
    run_seeds(0..4, |seed| {
        let faults = if seed % 2 == 0 { Faults::default() } else { ROUGH };
        let (ended, [moved, replicated]) = boot_and_look(config(seed, faults), &users(), followed)?;
        assert_eq!(ended.status, 7, "{}", ended.errors);
        assert!(moved >= PAGES && replicated >= PAGES, "{moved} pages moved, and {replicated} got replicas");
        Ok(())
    });
}

/// An island dies while pages follow it, or another one: the others go on, or the program ends.
#[test]
fn islands_die_while_pages_follow() {
    for seed in 0..8 {
        let dies = IslandId(1 + (seed % 2) as u8);
        let faults = Faults { death: Some((dies, 2_000 + seed * 7_919 % 60_000)), survives: true, ..ROUGH };
        if let Err(failure) = boot_and_look(config(seed, faults), &users(), followed) {
            no_kernel_fails(seed, &failure);
        }
    }
}
