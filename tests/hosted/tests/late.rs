//! Pages that arrive late (docs/protocols/late-pages.md): waiters and who brings them, on islands of their own, which may die at any step.

use motet_hal_hosted::{Driver, Faults, isa::Op};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::{
    ROUGH, Scenario,
    calls::Sys,
    env, everywhere, has_died_with_a_lock,
    program::{DATA, Program},
    under,
};

/// Where the pages are mapped; the first one is brought.
const PAGES: u64 = 0x4000_0000;
/// A message: the page's number and its bytes.
const MESSAGE: u64 = DATA + 0x1000;
const MESSAGE_LEN: u64 = 8 + 4096;
const WORD: u64 = 0x1234;
/// The descriptor of the device.
const DEVICE: u64 = 3;
const READ_WRITE: u64 = 3;
const SHARED_FIXED: u64 = 0x11;
/// Statuses of a waiter: what it should have found, and anything else.
const FOUND: u64 = 7;
const FOUND_NOT: u64 = 8;
const SIGBUS: u64 = 7;
const SIGKILL: u64 = 9;
/// Of [`Program::exec`].
const NO_ISLAND: u64 = 122;

fn open(program: &mut Program) {
    program.arg(0, -100_i64 as u64);
    program.arg_string(1, "/dev/late");
    program.arg(2, 2);
    program.call_as_is(Sys::Openat);
    program.or_exit(100);
}

fn map(program: &mut Program) {
    program.call(Sys::Mmap, &[PAGES, 4096, READ_WRITE, SHARED_FIXED, DEVICE, 0]);
    program.or_exit(101);
}

fn bring(program: &mut Program) {
    program.store_at(MESSAGE + 16, WORD);
    program.call(Sys::Write, &[DEVICE, MESSAGE, MESSAGE_LEN]);
    program.or_exit(102);
}

/// By an instruction, or by a system call, which copies a word of the page to the waiter's output for nobody.
fn wait(program: &mut Program, in_call: bool) {
    let [at, value, word, ..] = program.asm.roles.saved;
    if in_call {
        // The word's address is that of its message's less 8.
        program.call(Sys::Pipe2, &[DATA + 16, 0]);
        program.call(Sys::Write, &[4, PAGES + 8, 8]);
        program.call(Sys::Read, &[3, DATA + 24, 8]);
        program.asm.li(at, DATA + 24);
    } else {
        program.asm.li(at, PAGES + 8);
    }
    program.asm.op_i(Op::Ld64, value, at, 0);
    program.asm.li(word, WORD);
    let good = program.asm.label();
    program.asm.branch(Op::Beq, value, word, good);
    program.exit(FOUND_NOT);
    program.asm.bind(good);
    program.exit(FOUND);
}

/// Waits for a child, and prints how it ended.
fn tell(program: &mut Program, child: u8, ends: &[(u64, &str)]) {
    program.arg_from(0, child);
    for (index, value) in [(1, DATA + 8), (2, 0), (3, 0)] {
        program.arg(index, value);
    }
    program.call_as_is(Sys::Wait4);
    program.or_exit(103);
    let [.., status, wanted] = program.asm.roles.saved;
    program.load_u32(status, DATA + 8);
    for (value, text) in ends {
        let other = program.asm.label();
        program.asm.li(wanted, *value);
        program.asm.branch(Op::Bne, status, wanted, other);
        program.print(1, text);
        program.exit(0);
        program.asm.bind(other);
    }
    program.exit(104);
}

/// A waiter on x86-64, and who brings the page on RISC-V: it is told which one is wanted.
fn brought_from_elsewhere() -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        let [waiter, other, ..] = program.asm.roles.saved;
        open(program);
        map(program);
        let waits = program.fork(waiter);
        let brings = program.fork(other);
        program.call(Sys::Close, &[DEVICE]);
        tell(program, waiter, &[(FOUND << 8, "brought\n"), (SIGBUS, "gone\n")]);
        program.asm.bind(waits);
        program.call(Sys::Close, &[DEVICE]);
        wait(program, false);
        program.asm.bind(brings);
        program.exec("/bringer");
    });
    let files = vec![("first", first), ("bringer", bringer())];
    Scenario { files, command: vec!["/first"], ..Scenario::default() }
}

/// It is told which page is wanted, and brings it.
fn bringer() -> Vec<u8> {
    Program::build(Isa::RiscV64, |program| {
        program.call(Sys::Read, &[DEVICE, MESSAGE, 8]);
        program.or_exit(105);
        bring(program);
        program.exit(0);
    })
}

/// Who brings the page on x86-64, and a waiter on RISC-V. `when_wanted`: the page is brought when it is known to be wanted, so that mostly the waiter
/// sleeps, and is to be woken while the device stays open.
fn brought_to_elsewhere(in_call: bool, when_wanted: bool) -> Scenario {
    let first = Program::build(Isa::X86_64, |program| {
        let [child, ..] = program.asm.roles.saved;
        open(program);
        let waits = program.fork(child);
        if when_wanted {
            program.call(Sys::Read, &[DEVICE, MESSAGE, 8]);
            program.or_exit(105);
        }
        bring(program);
        // Without an island of its own it is no program.
        tell(program, child, &[(FOUND << 8, "brought\n"), (SIGKILL, "killed\n"), (NO_ISLAND << 8, "killed\n")]);
        program.asm.bind(waits);
        program.exec("/waiter");
    });
    let waiter = Program::build(Isa::RiscV64, |program| {
        map(program);
        program.call(Sys::Close, &[DEVICE]);
        wait(program, in_call);
    });
    Scenario { files: vec![("first", first), ("waiter", waiter)], command: vec!["/first"], ..Scenario::default() }
}

#[test]
fn waiters_and_bringers_on_any_islands_meet() {
    everywhere(20, &brought_from_elsewhere(), 0, "brought\n");
    for in_call in [false, true] {
        everywhere(20, &brought_to_elsewhere(in_call, true), 0, "brought\n");
    }
}

/// Two messages are sent by one call; the second one's last bytes are in the page. `has_file`: an open file goes with that one.
fn sent_together(has_file: bool) -> Scenario {
    /// Two `mmsghdr`, their vectors, a control message, and memory that is there.
    const ALL: u64 = DATA + 0x400;
    const VECTORS: u64 = DATA + 0x500;
    const CONTROL: u64 = DATA + 0x600;
    const ORDINARY: u64 = DATA + 0x4000;
    const PAGE: u64 = 4096;
    /// Bytes of a `mmsghdr`, and where the number of bytes that were sent is in it.
    const ENTRY: u64 = 64;
    const SENT: u64 = 56;
    let first = Program::build(Isa::X86_64, |program| {
        let [child, ..] = program.asm.roles.saved;
        open(program);
        map(program);
        program.call(Sys::Socketpair, &[1, 1, 0, DATA + 16]); // 4 and 5
        program.or_exit(106);
        let brings = program.fork(child);
        for (at, word) in [(0, ORDINARY), (8, 3), (16, ORDINARY), (24, PAGE), (32, PAGES), (40, PAGE)] {
            program.store_at(VECTORS + at, word);
        }
        for (entry, vector, count) in [(ALL, VECTORS, 1), (ALL + ENTRY, VECTORS + 16, 2)] {
            program.store_at(entry + 16, vector);
            program.store_at(entry + 24, count);
        }
        if has_file {
            for (at, word) in [(CONTROL, 20), (CONTROL + 8, 1 | 1 << 32), (CONTROL + 16, 1)] {
                program.store_at(at, word);
            }
            program.store_at(ALL + ENTRY + 32, CONTROL);
            program.store_at(ALL + ENTRY + 40, 24);
        }
        program.call(Sys::Sendmmsg, &[4, ALL, 2, 0]);
        program.or_exit_unless(2, 107);
        let [sent, wanted, ..] = program.asm.roles.saved;
        for (entry, bytes) in [(ALL, 3), (ALL + ENTRY, 2 * PAGE)] {
            let good = program.asm.label();
            program.load_u32(sent, entry + SENT);
            program.asm.li(wanted, bytes);
            program.asm.branch(Op::Beq, sent, wanted, good);
            program.exit(108);
            program.asm.bind(good);
        }
        program.print(1, "sent\n");
        program.exit(0);
        program.asm.bind(brings);
        program.exec("/bringer");
    });
    let files = vec![("first", first), ("bringer", bringer())];
    Scenario { files, command: vec!["/first"], ..Scenario::default() }
}

#[test]
fn messages_of_one_call_are_sent_whole_when_their_pages_come() {
    for has_file in [false, true] {
        everywhere(4, &sent_together(has_file), 0, "sent\n");
    }
}

/// The RISC-V island dies at steps of the run.
fn dies(scenario: &Scenario, without: &str) {
    let (mut whole_runs, mut cut_runs) = (0, 0);
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 1) {
        let whole = under(Driver::Seeded(seed), ROUGH, scenario).unwrap();
        assert_eq!((whole.status, whole.output.as_str()), (0, "brought\n"), "{}", whole.errors);
        // Builds for models count more steps.
        let stride = (whole.steps / 2 / env("MOTET_DEATHS", 40)).max(1);
        for step in (whole.steps / 2..whole.steps).step_by(stride as usize) {
            let faults = Faults { death: Some((IslandId(2), step)), survives: true, ..ROUGH };
            match under(Driver::Seeded(seed), faults, scenario) {
                Ok(ended) if (ended.status, ended.output.as_str()) == (0, "brought\n") => whole_runs += 1,
                Ok(ended) => {
                    let got = (ended.status, ended.output.as_str());
                    assert_eq!(got, (0, without), "seed {seed}, death at step {step}: {}", ended.errors);
                    cut_runs += 1;
                }
                Err(failure) => {
                    assert!(has_died_with_a_lock(&failure), "seed {seed}, death at step {step}: {failure}");
                }
            }
        }
    }
    println!("{whole_runs} brought, {cut_runs} {without}");
    assert!(whole_runs > 0 && cut_runs > 0, "{whole_runs} brought, {cut_runs} {without}");
}

#[test]
fn who_waits_for_a_page_that_a_dead_island_was_to_bring_goes_on() {
    dies(&brought_from_elsewhere(), "gone\n");
}

#[test]
fn who_waits_for_a_page_dies_with_its_island() {
    dies(&brought_to_elsewhere(false, false), "killed\n");
    dies(&brought_to_elsewhere(true, false), "killed\n");
}
