//! Islands whose counters differ in offset and rate, and jump: what a program knows of an earlier reading is never later than
//! what it reads.

use motet_hal_hosted::{Config, Counter, Driver, isa::Op, run_seeds};
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, boot, three_islands};

const ISAS: [Isa; 3] = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];
const ROUNDS: u64 = 12;
const NAP_NS: u64 = 30_000;
const TOLD: u64 = DATA + 1024;
const OWN: u64 = DATA + 1040;
/// What a program ends with that reads less than it was told, or has slept too short.
const BACK: u64 = 50;

/// Gets a reading from standard input, sleeps, reads the clock, and gives that to standard output; again and again.
fn reader(isa: Isa) -> Vec<u8> {
    Program::build(isa, |program| {
        let [round, at, told, own, limit] = program.asm.roles.saved;
        program.asm.li(round, 0);
        let again = program.asm.here();
        program.call(Sys::Read, &[0, TOLD, 16]);
        program.or_exit(101);
        program.asm.li(at, DATA + 512);
        program.asm.li(own, NAP_NS);
        program.asm.op_i(Op::St64, own, at, 8);
        program.call(Sys::Nanosleep, &[DATA + 512, 0]);
        program.or_exit(102);
        program.call(Sys::ClockGettime, &[1, OWN]);
        program.or_exit(103);
        let (good, bad) = (program.asm.label(), program.asm.label());
        program.asm.li(at, TOLD);
        program.asm.op_i(Op::Ld64, told, at, 0);
        program.asm.op_i(Op::Ld64, own, at, 16);
        program.asm.branch(Op::Bltu, told, own, good);
        program.asm.branch(Op::Bltu, own, told, bad);
        program.asm.op_i(Op::Ld64, told, at, 8);
        program.asm.op_i(Op::Ld64, own, at, 24);
        program.asm.li(limit, NAP_NS);
        program.asm.op(Op::Add, told, told, limit);
        program.asm.branch(Op::Bgeu, own, told, good);
        program.asm.bind(bad);
        program.exit(BACK);
        program.asm.bind(good);
        program.call(Sys::Write, &[1, OWN, 16]);
        program.or_exit(104);
        program.asm.op_i(Op::Addi, round, round, 1);
        program.asm.li(limit, ROUNDS);
        program.asm.branch(Op::Bltu, round, limit, again);
        program.exit(0);
    })
}

/// Runs three readers in a ring of pipes; the first is told that nothing was read before.
fn ring() -> Vec<u8> {
    Program::build(Isa::X86_64, |program| {
        let pid = program.asm.roles.saved[0];
        for pipe in 0..3 {
            program.call(Sys::Pipe2, &[DATA + 16 + 8 * pipe, 0]);
            program.or_exit(110);
        }
        let fd = program.asm.roles.saved[1];
        program.load_u32(fd, DATA + 36);
        program.arg_from(0, fd);
        program.arg(1, TOLD);
        program.arg(2, 16);
        program.call_as_is(Sys::Write);
        program.or_exit(111);
        let children: Vec<_> = ISAS.iter().map(|_| program.fork(pid)).collect();
        for _ in ISAS {
            program.wait();
            // What the child has ended with: the second byte of its wait status.
            program.load_u32(pid, DATA + 8);
            let (good, zero) = (program.asm.label(), program.asm.roles.args[5]);
            program.asm.li(zero, 0);
            program.asm.branch(Op::Beq, pid, zero, good);
            program.asm.li(zero, BACK << 8);
            let other = program.asm.label();
            program.asm.branch(Op::Bne, pid, zero, other);
            program.exit(BACK);
            program.asm.bind(other);
            program.exit(112);
            program.asm.bind(good);
        }
        program.exit(0);
        for (index, child) in (0..3).zip(children) {
            program.asm.bind(child);
            // The reading end of the pipe before, the writing end of its own.
            for (end, to) in [(DATA + 16 + 8 * ((index + 2) % 3), 0), (DATA + 20 + 8 * index, 1)] {
                let from = program.asm.roles.saved[1];
                program.load_u32(from, end);
                program.arg_from(0, from);
                program.arg(1, to);
                program.arg(2, 0);
                program.call_as_is(Sys::Dup3);
                program.or_exit(113);
            }
            program.exec(["/x86_64", "/aarch64", "/riscv64"][index as usize]);
        }
    })
}

#[test]
fn readings_and_sleeps_never_go_back_whatever_the_islands_counters_do() {
    let mut files = vec![("ring", ring())];
    files.extend(ISAS.map(|isa| (isa.name(), reader(isa))));
    let scenario = Scenario { files, command: vec!["/ring"], ..Scenario::default() };
    run_seeds(0..12, |seed| {
        println!("seed {seed}");
        let mut config = Config::new(Driver::Seeded(seed), three_islands([1, 1, 2]));
        config.faults = ROUGH;
        for (index, island) in (0..).zip(&mut config.islands) {
            // One is fast, one is slow, one jumps; which is which changes.
            let kind = (seed + index) % 3;
            let jump_ns = if kind == 2 { 3_000_000 } else { 0 };
            island.counter = Counter {
                fast_ppm: [20_000, -20_000, 300][kind as usize],
                jumps_at_ns: 400_000 * (1 + seed % 4),
                jump_ns,
            };
        }
        boot(config, &scenario).map(|ended| assert_eq!(ended.status, 0, "errors: {}", ended.errors))
    });
}
