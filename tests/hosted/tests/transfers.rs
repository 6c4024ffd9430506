//! Transfers by engines (`/dev/dma`) of programs on all islands, some of which end while theirs are under way.

use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere};

const PROGRAMS: [(Isa, &str); 3] = [(Isa::X86_64, "/x86_64"), (Isa::AArch64, "/aarch64"), (Isa::RiscV64, "/riscv64")];
const ROUNDS: u64 = 6;
/// The source and the destination: pages that nothing else uses.
const SOURCE: u64 = 0x3000_0000;
const DESTINATION: u64 = 0x3100_0000;
const MAPPED: u64 = 0x5000;
/// What is copied crosses pages on both sides, at different places.
const FROM: u64 = SOURCE + 104;
const TO: u64 = DESTINATION + 0x1000 - 48;
const LEN: u64 = 0x2000 + 80;
/// Where a program has its descriptors, and its completions.
const ASKED: u64 = DATA + 0x1000;
const TOLD: u64 = DATA + 0x2000;
const AT_FDCWD: u64 = -100i64 as u64;
const O_RDWR: u64 = 2;
const FD: u64 = 3;
const EINVAL: u64 = 22;

fn map(program: &mut Program, address: u64) {
    program.call(Sys::Mmap, &[address, MAPPED, 3, 0x32, u64::MAX, 0]); // private, fixed, anonymous
    program.or_exit(100);
}

/// Writes a constant to an address.
fn put(program: &mut Program, address: u64, value: u64) {
    let [at, word, ..] = program.asm.roles.saved;
    program.asm.li(at, address);
    program.asm.li(word, value);
    program.asm.op_i(Op::St64, word, at, 0);
}

/// Exits with `status` unless the word at an address is `wanted`.
fn expect(program: &mut Program, address: u64, wanted: u64, status: u64) {
    let [at, word, ..] = program.asm.roles.saved;
    let good = program.asm.label();
    let scratch = program.asm.roles.args[5];
    program.asm.li(at, address);
    program.asm.op_i(Op::Ld64, word, at, 0);
    program.asm.li(scratch, wanted);
    program.asm.branch(Op::Beq, word, scratch, good);
    program.exit(status);
    program.asm.bind(good);
}

/// Starts a transfer from [`FROM`] to [`TO`].
fn start(program: &mut Program, cookie: u64) {
    for (word, value) in (0..).zip([FROM, TO, LEN, cookie]) {
        put(program, ASKED + 8 * word, value);
    }
    program.call(Sys::Write, &[FD, ASKED, 32]);
    program.or_exit(102);
}

/// Transfers and looks, again and again; ends while one is under way, after it has given its memory back.
fn program(isa: Isa) -> Vec<u8> {
    Program::build(isa, |program| {
        program.arg(0, AT_FDCWD);
        program.arg_string(1, "/dev/dma");
        program.arg(2, O_RDWR);
        program.arg(3, 0);
        program.call_as_is(Sys::Openat);
        program.or_exit(101);
        for round in 0..ROUNDS {
            map(program, SOURCE);
            map(program, DESTINATION);
            put(program, FROM, 1000 + round);
            put(program, FROM + LEN - 8, 2000 + round);
            put(program, TO + LEN, 3000 + round);
            start(program, round);
            program.call(Sys::Read, &[FD, TOLD, 64]);
            program.or_exit(103);
            expect(program, TOLD, round, 104);
            expect(program, TOLD + 8, 0, 105);
            expect(program, TOLD + 16, LEN, 106);
            expect(program, TO, 1000 + round, 107);
            expect(program, TO + LEN - 8, 2000 + round, 108);
            expect(program, TO + LEN, 3000 + round, 109);
            expect(program, TO - 8, 0, 110);
        }
        // Refused, and nothing is kept.
        put(program, ASKED + 16, 0);
        program.call(Sys::Write, &[FD, ASKED, 32]);
        let word = program.asm.roles.saved[2];
        program.result_to(word);
        let scratch = program.asm.roles.args[5];
        program.asm.li(scratch, EINVAL.wrapping_neg());
        let good = program.asm.label();
        program.asm.branch(Op::Beq, word, scratch, good);
        program.exit(111);
        program.asm.bind(good);
        for round in 0..3 {
            start(program, 100 + round);
        }
        program.call(Sys::Munmap, &[DESTINATION, MAPPED]);
        program.or_exit(112);
        program.exit(0);
    })
}

/// Starts a program on each island, and again, whose memory is what the others gave back.
fn starter() -> Vec<u8> {
    Program::build(Isa::AArch64, |program| {
        let pid = program.asm.roles.saved[4];
        for _ in 0..2 {
            let children = PROGRAMS.map(|_| program.fork(pid));
            for _ in PROGRAMS {
                program.wait();
                let (status, zero) = (program.asm.roles.saved[0], program.asm.roles.saved[1]);
                program.load_u32(status, DATA + 8);
                program.asm.li(zero, 0);
                let good = program.asm.label();
                program.asm.branch(Op::Beq, status, zero, good);
                program.exit(113);
                program.asm.bind(good);
            }
            let next = program.asm.label();
            let zero = program.asm.roles.args[5];
            program.asm.li(zero, 0);
            program.asm.branch(Op::Beq, zero, zero, next);
            for (child, (_, path)) in children.into_iter().zip(PROGRAMS) {
                program.asm.bind(child);
                program.exec(path);
            }
            program.asm.bind(next);
        }
        program.print(1, "transferred\n");
        program.exit(0);
    })
}

#[test]
fn transfers_on_all_islands_are_whole_and_outlive_those_who_asked_for_them() {
    let mut files = vec![("starter", starter())];
    files.extend(PROGRAMS.map(|(isa, path)| (&path[1..], program(isa))));
    everywhere(20, &Scenario { files, command: vec!["/starter"], ..Scenario::default() }, 0, "transferred\n");
}
