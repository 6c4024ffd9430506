//! What a system call has kept is nothing to the next one.

use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere};

/// Where a program has a time that has passed before the thread could wait, a time to wait, and the clock's reading.
const NONE: u64 = DATA + 32;
const WAIT: u64 = DATA + 48;
const CLOCK: u64 = DATA + 64;
const WAIT_NS: u64 = 3_000_000;

/// Polls nothing for 1 ns, and then for longer, again and again.
fn polls(isa: Isa) -> Vec<u8> {
    Program::build(isa, |program| {
        let [begun, ended, least, scratch, _] = program.asm.roles.saved;
        for _ in 0..5 {
            for (at, ns) in [(NONE, 1), (WAIT, WAIT_NS)] {
                program.store_at(at, 0);
                program.store_at(at + 8, ns);
            }
            program.call(Sys::Ppoll, &[0, 0, NONE, 0, 8]);
            program.or_exit_unless(0, 100);
            program.now_ns(begun, scratch, CLOCK);
            program.call(Sys::Ppoll, &[0, 0, WAIT, 0, 8]);
            program.or_exit_unless(0, 101);
            program.now_ns(ended, scratch, CLOCK);
            program.asm.op(Op::Sub, ended, ended, begun);
            program.asm.li(least, WAIT_NS);
            let good = program.asm.label();
            program.asm.branch(Op::Bge, ended, least, good);
            program.exit(102);
            program.asm.bind(good);
        }
        program.print(1, "waited\n");
        program.exit(0);
    })
}

#[test]
fn a_poll_waits_after_one_whose_time_had_passed_at_once() {
    for isa in [Isa::X86_64, Isa::AArch64, Isa::RiscV64] {
        let scenario = Scenario { files: vec![("polls", polls(isa))], command: vec!["/polls"], ..Scenario::default() };
        everywhere(10, &scenario, 0, "waited\n");
    }
}
