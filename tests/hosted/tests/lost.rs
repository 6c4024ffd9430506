//! Islands that die while others wait for what they do.

use motet_hal_hosted::{Driver, Faults, isa::Op};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, env, has_died_with_a_lock, stride, under};

const POLLIN: u64 = 1;
const CLOCK_MONOTONIC: u64 = 1;
/// The status of a reader that slept although there was something to read.
const OVERSLEPT: u32 = 55;

/// A reader on x86-64 that waits for one byte of a writer on RISC-V, or a second. It holds the other end, too: the
/// writer's end alone wakes nobody.
fn reader_and_writer() -> Scenario {
    let reader = Program::build(Isa::X86_64, |program| {
        let [pid, at, value, zero, _] = program.asm.roles.saved;
        program.call(Sys::Pipe2, &[DATA + 16, 0]);
        program.or_exit(100);
        for (address, word) in [(DATA + 32, 3 | POLLIN << 32), (DATA + 48, 1)] {
            program.asm.li(at, address);
            program.asm.li(value, word);
            program.asm.op_i(Op::St64, value, at, 0);
        }
        let child = program.fork(pid);
        program.call(Sys::Ppoll, &[DATA + 32, 1, DATA + 48, 0, 0]);
        program.or_exit(101);
        program.result_to(value);
        // The run takes milliseconds: in the second second, only a wait that found nothing ends.
        let good = program.asm.label();
        program.asm.li(zero, 0);
        program.asm.branch(Op::Beq, value, zero, good);
        program.call(Sys::ClockGettime, &[CLOCK_MONOTONIC, DATA + 80]);
        program.asm.li(at, DATA + 80);
        program.asm.op_i(Op::Ld64, value, at, 0);
        program.asm.branch(Op::Beq, value, zero, good);
        program.exit(u64::from(OVERSLEPT));
        program.asm.bind(good);
        program.wait();
        program.print(1, "waited\n");
        program.exit(0);
        program.asm.bind(child);
        program.exec("/writer");
    });
    let writer = Program::build(Isa::RiscV64, |program| {
        program.print(4, "x");
        program.exit(0);
    });
    Scenario { files: vec![("reader", reader), ("writer", writer)], command: vec!["/reader"], ..Scenario::default() }
}

/// With a point at every atomic operation (`./motet test model`), the island dies in the middle of everything that the writer does.
#[test]
fn who_waits_for_what_a_dead_island_has_done_learns_it() {
    let scenario = reader_and_writer();
    let (mut ended_well, mut locks) = (0, 0);
    let (stride, offset) = stride(12, 3);
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 1) {
        let whole = under(Driver::Seeded(seed), ROUGH, &scenario).unwrap();
        assert_eq!((whole.status, whole.output.as_str()), (0, "waited\n"), "{}", whole.errors);
        for step in (whole.steps / 2 + offset..whole.steps).step_by(stride as usize) {
            let faults = Faults { death: Some((IslandId(2), step)), survives: true, ..ROUGH };
            match under(Driver::Seeded(seed), faults, &scenario) {
                Ok(ended) => {
                    let got = (ended.status, ended.output.as_str());
                    assert_eq!(got, (0, "waited\n"), "seed {seed}, death at step {step}: {}", ended.errors);
                    ended_well += 1;
                }
                Err(failure) => {
                    assert!(has_died_with_a_lock(&failure), "seed {seed}, death at step {step}: {failure}");
                    locks += 1;
                }
            }
        }
    }
    println!("{ended_well} ended well, {locks} with a lock held");
    assert!(ended_well > 5 * locks, "{ended_well} ended well, {locks} with a lock held");
}
