//! Programs of three ISAs on one fused machine, under real threads and under many seeds.

use motet_hal_hosted::{Config, Driver, Faults, IslandConfig, isa::Op, run_seeds};
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, boot, everywhere, under};

const ISAS: [Isa; 3] = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];

#[test]
fn a_program_of_each_isa_starts_and_exits() {
    for isa in ISAS {
        let hello = Program::build(isa, |program| {
            program.print(1, "hello\n");
            program.exit(7);
        });
        let scenario = Scenario { files: vec![("hello", hello)], command: vec!["/hello"], ..Scenario::default() };
        everywhere(5, &scenario, 7, "hello\n");
    }
}

/// Copies standard input to standard output, adding one to every byte.
fn incrementer(isa: Isa) -> Vec<u8> {
    Program::build(isa, |program| {
        let [count, at, byte, end, _] = program.asm.roles.saved;
        let again = program.asm.here();
        let done = program.asm.label();
        program.call(Sys::Read, &[0, DATA + 1024, 100]);
        program.or_exit(101);
        program.result_to(count);
        program.asm.li(byte, 0);
        program.asm.branch(Op::Beq, count, byte, done);
        program.asm.li(at, DATA + 1024);
        program.asm.op(Op::Add, end, at, count);
        let next = program.asm.here();
        program.asm.op_i(Op::Ld8, byte, at, 0);
        program.asm.op_i(Op::Addi, byte, byte, 1);
        program.asm.op_i(Op::St8, byte, at, 0);
        program.asm.op_i(Op::Addi, at, at, 1);
        program.asm.branch(Op::Bltu, at, end, next);
        program.arg(0, 1);
        program.arg(1, DATA + 1024);
        program.arg_from(2, count);
        program.call_as_is(Sys::Write);
        program.or_exit(102);
        program.asm.jump(again);
        program.asm.bind(done);
        program.exit(0);
    })
}

/// The frames that islands use (own and have not free), by `/proc/motet`.
fn used_frames(table: &str) -> Vec<u32> {
    let row = |name: &str| -> Vec<u32> {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name)).expect("a row");
        line.split_whitespace().skip(1).map(|word| word.parse().expect("a number")).collect()
    };
    row("frames_owned").into_iter().zip(row("frames_free")).map(|(owned, free)| owned - free).collect()
}

/// A program on the x86-64 island maps 64 pages, binds them to `node`, touches them, and prints `/proc/motet`.
fn binder(node: u64) -> Vec<u8> {
    const AT: u64 = 0x4000_0000;
    Program::build(Isa::X86_64, |program| {
        let [at, end, value, _, _] = program.asm.roles.saved;
        program.call(Sys::Mmap, &[AT, 64 << 12, 3, 0x32, u64::MAX, 0]); // MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS
        program.or_exit(101);
        program.asm.li(at, DATA + 512);
        program.asm.li(value, 1 << node);
        program.asm.op_i(Op::St64, value, at, 0);
        program.call(Sys::Mbind, &[AT, 64 << 12, 2, DATA + 512, 64, 0]); // MPOL_BIND
        program.or_exit(102);
        program.asm.li(at, AT);
        program.asm.li(end, AT + (64 << 12));
        let next = program.asm.here();
        program.asm.op_i(Op::St8, value, at, 0);
        program.asm.op_i(Op::Addi, at, at, 1024);
        program.asm.branch(Op::Bltu, at, end, next);
        program.arg(0, 0xffff_ff9c); // AT_FDCWD
        program.arg_string(1, "/proc/motet");
        program.arg(2, 0);
        program.call_as_is(Sys::Openat);
        program.or_exit(103);
        program.call(Sys::Read, &[3, DATA + 4096, 4096]);
        program.or_exit(104);
        program.result_to(value);
        program.arg(0, 1);
        program.arg(1, DATA + 4096);
        program.arg_from(2, value);
        program.call_as_is(Sys::Write);
        program.exit(0);
    })
}

#[test]
fn pages_lie_where_mbind_says() {
    let used = [0, 1, 2].map(|node| {
        let files = vec![("binder", binder(node))];
        let scenario = Scenario { files, command: vec!["/binder"], ..Scenario::default() };
        let ended =
            under(Driver::Seeded(1), Faults::default(), &scenario).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(ended.status, 0, "{}", ended.errors);
        used_frames(&ended.output)
    });
    for node in [1, 2] {
        assert_eq!(used[node][node], used[0][node] + 64, "{used:?}");
        assert_eq!(used[node][0], used[0][0] - 64, "{used:?}");
    }
}

#[test]
fn mbind_refuses_what_it_cannot_do() {
    const AT: u64 = 0x4000_0000;
    // Mode, mask, bits in it, flags, and what must come back; 64 pages are mapped at AT.
    let calls = [
        ([AT, 64 << 12, 2, 0b100, 64, 0], 0),
        ([AT, 64 << 12, 0, 0, 64, 0], 0),
        ([AT, 64 << 12, 2, 0b1000, 64, 0], 22), // no such island
        ([AT, 64 << 12, 2, 0b100, 3, 0], 22),   // two bits count, and are 0
        ([AT, 64 << 12, 3, 0b11, 64, 0], 22),   // interleaved
        ([AT, 64 << 12, 2, 0b1, 64, 2], 0),     // nothing is there to be moved
        ([AT, 64 << 12, 2, 0b1, 64, 8], 22),    // no such flag
        ([AT, 64 << 12, 2, 0b1, u64::MAX, 0], 22),
        ([AT + 1, 64 << 12, 2, 0b1, 64, 0], 22),
        ([AT, 65 << 12, 2, 0b1, 64, 0], 14), // not all of it is mapped
    ];
    let program = Program::build(Isa::X86_64, |program| {
        let [at, value, _, _, _] = program.asm.roles.saved;
        program.call(Sys::Mmap, &[AT, 64 << 12, 3, 0x32, u64::MAX, 0]);
        for (index, ([address, len, mode, mask, bits, flags], errno)) in calls.into_iter().enumerate() {
            program.asm.li(at, DATA + 512);
            program.asm.li(value, mask);
            program.asm.op_i(Op::St64, value, at, 0);
            program.call(Sys::Mbind, &[address, len, mode, DATA + 512, bits, flags]);
            program.result_to(value);
            let good = program.asm.label();
            program.asm.li(at, 0u64.wrapping_sub(errno));
            program.asm.branch(Op::Beq, value, at, good);
            program.exit(100 + index as u64);
            program.asm.bind(good);
        }
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("program", program)], command: vec!["/program"], ..Scenario::default() };
    everywhere(1, &scenario, 0, "");
}

/// `/first | /second | /third`, each of another ISA; the last writes to standard output.
#[test]
fn a_pipeline_spans_three_isas() {
    let shell = Program::build(Isa::X86_64, |program| {
        let pid = program.asm.roles.saved[0];
        program.call(Sys::Pipe2, &[DATA + 16, 0]);
        program.or_exit(110);
        program.call(Sys::Pipe2, &[DATA + 24, 0]);
        program.or_exit(111);
        let ends = [(None, Some(20)), (Some(16), Some(28)), (Some(24), None)];
        let mut children = Vec::new();
        for _ in &ends {
            children.push(program.fork(pid));
        }
        for fd in 3..7 {
            program.call(Sys::Close, &[fd]);
        }
        for _ in &ends {
            program.wait();
            program.load_u32(pid, DATA + 8);
            let good = program.asm.label();
            let zero = program.asm.roles.args[5];
            program.asm.li(zero, 0);
            program.asm.branch(Op::Beq, pid, zero, good);
            program.exit(112);
            program.asm.bind(good);
        }
        program.exit(0);
        for (child, ((input, output), path)) in
            children.into_iter().zip(ends.into_iter().zip(["/first", "/second", "/third"]))
        {
            program.asm.bind(child);
            for (end, fd) in [(input, 0), (output, 1)] {
                if let Some(end) = end {
                    let from = program.asm.roles.saved[1];
                    program.load_u32(from, DATA + end);
                    program.arg_from(0, from);
                    program.arg(1, fd);
                    program.arg(2, 0);
                    program.call_as_is(Sys::Dup3);
                    program.or_exit(113);
                }
            }
            for fd in 3..7 {
                program.call(Sys::Close, &[fd]);
            }
            program.exec(path);
        }
    });
    let files = vec![
        ("shell", shell),
        ("first", incrementer(Isa::AArch64)),
        ("second", incrementer(Isa::RiscV64)),
        ("third", incrementer(Isa::X86_64)),
    ];
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(8);
    let expected: String = text.bytes().map(|byte| char::from(byte + 3)).collect();
    let scenario = Scenario { files, command: vec!["/shell"], input: text.into_bytes(), ..Scenario::default() };
    everywhere(15, &scenario, 0, &expected);
}

/// Two threads of one process: one reads a page in a loop, the other maps, writes, protects and unmaps it. A translation
/// that outlives its shoot-down fails the run.
#[test]
fn shoot_downs_between_threads() {
    const PAGE: u64 = 0x3000_0000;
    const ROUNDS: u64 = 10;
    for isa in [Isa::X86_64, Isa::RiscV64] {
        let program = Program::build(isa, |program| {
            let [round, at, value, zero, limit] = program.asm.roles.saved;
            let reader = program.asm.label();
            program.asm.li(zero, 0);
            program.call(Sys::Mmap, &[PAGE, 8192, 3, 0x32, u64::MAX, 0]); // private, fixed, anonymous
            program.or_exit(100);
            // CLONE_VM | FS | FILES | SIGHAND | THREAD
            program.call(Sys::Clone, &[0x0001_0f00, DATA + 0x8000, 0, 0, 0]);
            program.or_exit(101);
            program.result_to(value);
            program.asm.branch(Op::Beq, value, zero, reader);
            program.asm.li(round, 1);
            let again = program.asm.here();
            program.asm.li(at, PAGE);
            program.asm.op_i(Op::St64, round, at, 0);
            program.call(Sys::Mprotect, &[PAGE, 4096, 1]);
            program.or_exit(102);
            program.call(Sys::Mmap, &[PAGE, 4096, 3, 0x32, u64::MAX, 0]); // replaces the page by a fresh one
            program.or_exit(103);
            program.asm.op_i(Op::Addi, round, round, 1);
            program.asm.li(limit, ROUNDS);
            program.asm.branch(Op::Bltu, round, limit, again);
            // Tell the reader to stop, and wait until it has.
            program.asm.li(at, DATA);
            program.asm.li(value, 1);
            program.asm.op_i(Op::St32, value, at, 0);
            let wait = program.asm.here();
            program.call(Sys::SchedYield, &[]);
            program.asm.op_i(Op::Ld32, value, at, 4);
            program.asm.branch(Op::Beq, value, zero, wait);
            program.print(1, "done\n");
            program.exit(0);
            program.asm.bind(reader);
            program.asm.li(at, PAGE);
            program.asm.op_i(Op::Ld64, value, at, 0);
            program.asm.li(limit, ROUNDS);
            let sane = program.asm.label();
            program.asm.branch(Op::Bltu, value, limit, sane);
            program.exit(104);
            program.asm.bind(sane);
            program.asm.li(at, DATA);
            program.asm.op_i(Op::Ld32, value, at, 0);
            program.asm.branch(Op::Beq, value, zero, reader);
            program.asm.op_i(Op::St32, value, at, 4);
            program.call(Sys::Exit, &[0]);
        });
        let scenario = Scenario { files: vec![("threads", program)], command: vec!["/threads"], ..Scenario::default() };
        everywhere(15, &scenario, 0, "done\n");
    }
}

/// A counter behind a futex lock, in memory shared by two processes after fork... and private memory that is not.
#[test]
fn futexes_and_copy_on_write() {
    const SHARED: u64 = 0x3000_0000;
    const ROUNDS: u64 = 12;
    const FUTEX_WAIT: u64 = 0;
    const FUTEX_WAKE: u64 = 1;
    let program = Program::build(Isa::RiscV64, |program| {
        let [round, at, value, one, pid] = program.asm.roles.saved;
        program.call(Sys::Mmap, &[SHARED, 4096, 3, 0x31, u64::MAX, 0]); // shared, fixed, anonymous
        program.or_exit(100);
        program.asm.li(at, DATA + 512);
        program.asm.li(value, 5);
        program.asm.op_i(Op::St64, value, at, 0);
        let child = program.fork(pid);
        program.asm.bind(child); // both go the same way
        program.asm.li(round, 0);
        let again = program.asm.here();
        // Lock: 0 free, 1 held, 2 held and waited for.
        let locked = program.asm.label();
        program.asm.li(at, SHARED);
        program.asm.li(value, 0);
        program.asm.li(one, 1);
        program.asm.atomic(Op::Cas, value, one, at, 4);
        program.asm.li(one, 0);
        program.asm.branch(Op::Beq, value, one, locked);
        let contended = program.asm.here();
        program.asm.li(value, 2);
        program.asm.atomic(Op::AmoSwap, value, value, at, 4);
        program.asm.branch(Op::Beq, value, one, locked);
        program.call(Sys::Futex, &[SHARED, FUTEX_WAIT, 2, 0]);
        program.asm.jump(contended);
        program.asm.bind(locked);
        program.asm.op_i(Op::Ld64, value, at, 8);
        program.asm.op_i(Op::Addi, value, value, 1);
        program.call(Sys::SchedYield, &[]);
        program.asm.op_i(Op::St64, value, at, 8);
        program.asm.li(value, 0);
        program.asm.atomic(Op::AmoSwap, value, value, at, 4);
        let quiet = program.asm.label();
        program.asm.li(one, 2);
        program.asm.branch(Op::Bne, value, one, quiet);
        program.call(Sys::Futex, &[SHARED, FUTEX_WAKE, 1]);
        program.asm.bind(quiet);
        // Private memory: each process counts for itself.
        program.asm.li(at, DATA + 512);
        program.asm.op_i(Op::Ld64, value, at, 0);
        program.asm.op_i(Op::Addi, value, value, 1);
        program.asm.op_i(Op::St64, value, at, 0);
        program.asm.op_i(Op::Addi, round, round, 1);
        program.asm.li(one, ROUNDS);
        program.asm.branch(Op::Bltu, round, one, again);
        program.asm.li(one, ROUNDS + 5);
        let right = program.asm.label();
        program.asm.branch(Op::Beq, value, one, right);
        program.exit(101);
        program.asm.bind(right);
        let parent = program.asm.label();
        program.asm.li(one, 0);
        program.asm.branch(Op::Bne, pid, one, parent);
        program.exit(0);
        program.asm.bind(parent);
        program.wait();
        program.asm.li(at, SHARED);
        program.asm.op_i(Op::Ld64, value, at, 8);
        program.asm.li(one, 2 * ROUNDS);
        let counted = program.asm.label();
        program.asm.branch(Op::Beq, value, one, counted);
        program.exit(102);
        program.asm.bind(counted);
        program.print(1, "counted\n");
        program.exit(3);
    });
    let scenario = Scenario { files: vec![("futex", program)], command: vec!["/futex"], ..Scenario::default() };
    everywhere(15, &scenario, 3, "counted\n");
}

#[test]
fn a_seed_reproduces_its_run() {
    let files = vec![(
        "hello",
        Program::build(Isa::AArch64, |program| {
            program.print(1, "hello\n");
            program.exit(0);
        }),
    )];
    let scenario = Scenario { files, command: vec!["/hello"], ..Scenario::default() };
    let once = |seed| under(Driver::Seeded(seed), ROUGH, &scenario).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(once(5), once(5));
    assert_ne!(once(5).trace, once(6).trace);
}

/// `CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD`.
const THREAD: u64 = 0x0001_0f00;

/// Writes the island where it runs into memory.
fn note_island(program: &mut Program, at: u64) {
    program.call(Sys::Getcpu, &[0, at]);
}

/// Two processes and a thread begin while their parent and those before them run: says where each has begun.
fn starters() -> Vec<u8> {
    const NAP: u64 = DATA + 128;
    const FIRST: u64 = DATA + 256;
    Program::build(Isa::RiscV64, |program| {
        let [pid, island, at, wanted, _] = program.asm.roles.saved;
        program.asm.li(at, NAP);
        program.asm.li(island, 20_000_000);
        program.asm.op_i(Op::St64, island, at, 8);
        // Cores that look around after the start have nothing to do by then.
        program.call(Sys::Nanosleep, &[NAP, 0]);
        let forked = program.fork(pid);
        program.call(Sys::Clone, &[THREAD, DATA + 0x8000, 0, 0, 0]);
        program.or_exit(102);
        program.result_to(pid);
        program.asm.li(wanted, 0);
        let thread = program.asm.label();
        program.asm.branch(Op::Beq, pid, wanted, thread);
        program.wait();
        let again = program.asm.here();
        program.load_u32(island, FIRST);
        program.asm.branch(Op::Beq, island, wanted, again);
        program.load_u32(pid, DATA + 8);
        // Ten times where the process was and where the thread was.
        program.asm.li(at, 8);
        program.asm.op(Op::Shr, pid, pid, at);
        program.asm.li(at, 10);
        program.asm.op(Op::Mul, pid, pid, at);
        program.asm.op(Op::Add, pid, pid, island);
        program.arg_from(0, pid);
        program.call_as_is(Sys::ExitGroup);
        for is_thread in [false, true] {
            program.asm.bind(if is_thread { thread } else { forked });
            note_island(program, DATA + 264);
            program.load_u32(island, DATA + 264);
            program.asm.li(at, 1);
            program.asm.op(Op::Add, island, island, at);
            if is_thread {
                program.asm.li(at, FIRST);
                program.asm.op_i(Op::St64, island, at, 0);
                program.call(Sys::Exit, &[0]);
            }
            program.arg_from(0, island);
            program.call_as_is(Sys::ExitGroup);
        }
    })
}

/// Where a process and a thread of [`starters`] begin (islands, from 1) on islands with so many RISC-V cores each.
fn places(seed: u64, cores: &[usize], uncached: bool) -> Result<u32, motet_hal_hosted::Failure> {
    let islands = cores.iter().map(|&cores| IslandConfig::foreign(Isa::RiscV64, cores)).collect();
    let mut config = Config::new(Driver::Seeded(seed), islands);
    config.uncached = uncached;
    let scenario = Scenario { files: vec![("start", starters())], command: vec!["/start"], ..Scenario::default() };
    boot(config, &scenario).map(|ended| ended.status)
}

#[test]
fn children_start_on_idle_cores_of_other_islands_of_their_instruction_set() {
    run_seeds(0..4, |seed| {
        // At home while there is room, then elsewhere, and at home again where nobody has nothing to do.
        for (cores, uncached, wanted) in
            [(&[1, 1, 1][..], false, 23), (&[3, 1], false, 11), (&[2, 1], false, 12), (&[1, 1, 1], true, 11)]
        {
            assert_eq!(places(seed, cores, uncached)?, wanted, "{cores:?}, uncached: {uncached}");
        }
        Ok(())
    });
}
