//! Threads whose functions other kernels run (`docs/protocols/away.md`), under seeds, with kernels that die.

use std::collections::BTreeMap;

use motet_abi::fat::Signature;
use motet_hal_hosted::{Config, Driver, Failure, Faults, WindowConfig, isa::Op, run_seeds};
use motet_layout::{Isa, IslandId, sync::Ordering};
use motet_protocol::peer::MessageKind;
use motet_tests_hosted::{
    ROUGH, Scenario,
    calls::Sys,
    fat::{Body, Function, address_of, executable},
    is_long,
    kernels::{KernelsEnded, SMALL, boot_kernels, machine},
    program::{DATA, Program},
};

/// Where the functions count: in a page that each of them writes.
const COUNTED: u64 = DATA + 0x1000;
/// Rounds of calls.
const ROUNDS: u64 = 6;
/// Longer than the others take to learn that a kernel has died.
const LONG_SECONDS: u64 = 20;

fn function(name: &'static str, pin: Option<Isa>, write: fn(&mut Body<'_>)) -> Function {
    Function { name, pin, signature: Signature { words: 1, floats: 0, result: 1 }, strict: false, write }
}

fn sleep(program: &mut Program, seconds: u64, ns: u64) {
    program.store_at(DATA + 48, seconds);
    program.store_at(DATA + 56, ns);
    program.call(Sys::Nanosleep, &[DATA + 48, 0]);
}

/// Has home make a system call, and counts.
fn count(body: &mut Body<'_>) {
    let (result, scratch) = (body.result(), body.scratch());
    body.enter(2);
    body.program.call_as_is(Sys::Getpid);
    body.program.asm.li(scratch, COUNTED);
    body.program.asm.op_i(Op::Ld64, result, scratch, 0);
    body.program.asm.op_i(Op::Addi, result, result, 1);
    body.program.asm.op_i(Op::St64, result, scratch, 0);
    body.leave();
}

/// Counts in the other two kernels and here in turn, and exits with how often.
fn main(body: &mut Body<'_>) {
    let [left, zero, ..] = body.program.asm.roles.saved;
    body.program.asm.li(left, ROUNDS);
    body.program.asm.li(zero, 0);
    let again = body.program.asm.here();
    for function in 1..=3 {
        body.call(address_of(function));
    }
    sleep(body.program, 0, 1_000_000);
    body.program.asm.op_i(Op::Addi, left, left, -1);
    body.program.asm.branch(Op::Bne, left, zero, again);
    let scratch = body.scratch();
    body.program.asm.li(scratch, COUNTED);
    let result = body.result();
    body.program.asm.op_i(Op::Ld64, result, scratch, 0);
    body.program.arg_from(0, result);
    body.program.call_as_is(Sys::ExitGroup);
}

/// Kernel 0 runs the program. `lingers`: kernel 2 has no part of it, and runs another one for so long that kernel 1 learns of a death.
fn run(config: Config, lingers: bool) -> Result<(KernelsEnded, Vec<bool>), Failure> {
    let functions = [
        function("main", None, main),
        function("on_arm", Some(Isa::AArch64), count),
        function("on_riscv", (!lingers).then_some(Isa::RiscV64), count),
        function("here", None, count),
    ];
    let app = executable(Isa::X86_64, &functions);
    let scenarios: Vec<Scenario> = (0..3)
        .map(|kernel| {
            let mut scenario = Scenario { files: vec![("app", app.clone())], ..Scenario::default() };
            if kernel == 0 {
                scenario.command = vec!["/app"];
            } else if lingers && kernel == 2 {
                let first = Program::build(Isa::RiscV64, |program| {
                    sleep(program, LONG_SECONDS, 0);
                    program.exit(0);
                });
                scenario.files.push(("first", first));
                scenario.command = vec!["/first"];
            }
            scenario
        })
        .collect();
    boot_kernels(config, &scenarios, |pools| {
        pools.iter().map(|pool| pool.header().peers.remotes.get() != 0).collect() //
    })
}

#[test]
fn functions_of_three_kernels_count_in_one_memory() {
    run_seeds(0..3, |seed| {
        for faults in [Faults::default(), ROUGH] {
            let (ended, _) = run(Config { faults, ..machine(Driver::Seeded(seed), 3, SMALL) }, false)?;
            let first = &ended.kernels[0];
            assert_eq!(first.status, Some(3 * ROUNDS as u32), "seed {seed}: {}", first.errors);
        }
        Ok(())
    });
}

/// A kernel dies somewhere. The process goes on, or ends by a signal: nobody waits for ever, be it for a function, a system call, or a page.
#[test]
fn who_waits_for_a_kernel_that_dies_does_not_wait_for_ever() {
    let deaths = if is_long() { 24 } else { 6 };
    let mut ends = BTreeMap::new();
    run_seeds(0..2, |seed| {
        let config = |faults| Config { faults, ..machine(Driver::Seeded(seed), 3, SMALL) };
        let (whole, _) = run(config(ROUGH), false)?;
        for step in (1..=deaths).map(|part| whole.steps * part / (deaths + 1)) {
            let faults = Faults { death: Some((IslandId(1), step)), survives: true, ..ROUGH };
            let (ended, _) = run(config(faults), false)?;
            *ends.entry(ended.kernels[0].status).or_insert(0) += 1;
        }
        Ok(())
    });
    println!("{ends:?}");
    assert!(ends.keys().all(|status| matches!(status, Some(status) if *status == 3 * ROUNDS as u32 || *status > 128)));
    assert!(ends.keys().any(|status| *status != Some(3 * ROUNDS as u32)), "nobody has learnt of a death");
}

/// Behind the text of a program of three functions.
const BEHIND: u64 = address_of(3);

/// Puts memory in the place of the last function and of the page behind it, in which another kernel counts then.
fn replace_text(body: &mut Body<'_>) {
    // PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS
    body.program.call(Sys::Mmap, &[BEHIND - 4096, 8192, 3, 0x32, u64::MAX, 0]);
    body.program.or_exit(100);
    body.call(address_of(1));
    body.program.arg_from(0, body.result());
    body.program.call_as_is(Sys::ExitGroup);
}

fn count_behind(body: &mut Body<'_>) {
    let (result, scratch) = (body.result(), body.scratch());
    body.enter(2);
    body.program.asm.li(scratch, BEHIND);
    body.program.asm.op_i(Op::Ld64, result, scratch, 0);
    body.program.asm.op_i(Op::Addi, result, result, 1);
    body.program.asm.op_i(Op::St64, result, scratch, 0);
    body.leave();
}

/// Each kernel has views of the program's text of its own. A range that home has put over one of its own is of use where another kernel has none.
#[test]
fn a_range_that_begins_in_a_view_is_known_behind_it() {
    let functions = [
        function("main", None, replace_text),
        function("on_arm", Some(Isa::AArch64), count_behind),
        function("replaced", None, count_behind),
    ];
    let app = executable(Isa::X86_64, &functions);
    let scenarios = [vec!["/app"], Vec::new()].map(|command| {
        Scenario { files: vec![("app", app.clone())], command, ..Scenario::default() } //
    });
    run_seeds(0..2, |seed| {
        let config = Config { faults: ROUGH, ..machine(Driver::Seeded(seed), 2, SMALL) };
        let (ended, refused) =
            boot_kernels(config, &scenarios, |pools| pools[1].header().peers.refused[0].load(Ordering::Relaxed))?;
        let first = &ended.kernels[0];
        assert_eq!((first.status, refused), (Some(1), 0), "seed {seed}: {}", first.errors);
        Ok(())
    });
}

/// The status of a program whose page could not move.
const EFAULT: u64 = 14;

/// The page counted in has been written by kernel 1 alone, which may have died long ago: moves it, and looks into it.
fn move_page(body: &mut Body<'_>) {
    body.call(address_of(1));
    let program = &mut *body.program;
    sleep(program, LONG_SECONDS, 0);
    program.call(Sys::Mremap, &[COUNTED, 4096, 4096, 3, COUNTED + 0x4000]); // MREMAP_MAYMOVE | MREMAP_FIXED
    program.or_exit(EFAULT);
    let (result, scratch) = (program.asm.roles.result, program.asm.roles.saved[0]);
    program.asm.li(scratch, COUNTED + 0x4000);
    program.asm.op_i(Op::Ld64, result, scratch, 0);
    program.arg_from(0, result);
    program.call_as_is(Sys::ExitGroup);
}

/// Pages that are lost with a kernel do not become empty ones when they move.
#[test]
fn pages_that_are_lost_do_not_move() {
    let functions = [function("main", None, move_page), function("on_arm", Some(Isa::AArch64), count)];
    let app = executable(Isa::X86_64, &functions);
    let scenarios = [vec!["/app"], Vec::new()].map(|command| {
        Scenario { files: vec![("app", app.clone())], command, ..Scenario::default() } //
    });
    run_seeds(0..2, |seed| {
        let run = |faults| {
            let config = Config { faults, ..machine(Driver::Seeded(seed), 2, SMALL) };
            boot_kernels(config, &scenarios, |_| ()).map(|(ended, ())| ended)
        };
        let whole = run(ROUGH)?;
        assert_eq!(whole.kernels[0].status, Some(1), "seed {seed}: {}", whole.kernels[0].errors);
        let mut statuses = Vec::new();
        for step in (1..=6).map(|part| whole.steps * part / 8) {
            let ended = run(Faults { death: Some((IslandId(1), step)), survives: true, ..ROUGH })?;
            statuses.push(ended.kernels[0].status);
        }
        let lost = Some(EFAULT as u32);
        let may_be = |status: &Option<u32>| matches!(status, Some(1 | 128..)) || *status == lost;
        assert!(statuses.iter().all(may_be) && statuses.contains(&lost), "seed {seed}: {statuses:?}");
        Ok(())
    });
}

/// Has another kernel take the page counted in, uses up all memory by system calls, which fail when there is no more, and reads the page.
fn read_without_memory(body: &mut Body<'_>) {
    body.call(address_of(1));
    let program = &mut *body.program;
    let [fd, zero, at, step, ..] = program.asm.roles.saved;
    program.arg(0, 100u64.wrapping_neg()); // AT_FDCWD
    program.arg_string(1, "/file");
    program.arg(2, 0o102); // O_RDWR | O_CREAT
    program.arg(3, 0o600);
    program.call_as_is(Sys::Openat);
    program.or_exit(100);
    program.result_to(fd);
    program.arg_from(0, fd);
    program.arg(1, DATA + 0x2000);
    program.arg(2, 1);
    program.call_as_is(Sys::Write);
    // PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
    program.call(Sys::Mmap, &[0, 64 << 20, 3, 0x4022, u64::MAX, 0]);
    program.or_exit(101);
    program.result_to(at);
    program.asm.li(zero, 0);
    program.asm.li(step, 4096);
    let again = program.asm.here();
    program.arg_from(0, fd);
    program.arg_from(1, at);
    program.arg(2, 1);
    program.arg(3, 0);
    program.call_as_is(Sys::Pread64);
    program.asm.op(Op::Add, at, at, step);
    program.asm.branch(Op::Blt, zero, program.asm.roles.result, again);
    program.asm.li(step, COUNTED);
    program.asm.op_i(Op::Ld64, step, step, 0);
    program.arg_from(0, step);
    program.call_as_is(Sys::ExitGroup);
}

/// A page comes for which there is no memory: nobody waits for it for ever, and nobody reads something else.
#[test]
fn a_page_without_memory_ends_its_process() {
    let functions = [function("main", None, read_without_memory), function("on_arm", Some(Isa::AArch64), count)];
    let app = executable(Isa::X86_64, &functions);
    let scenarios = [vec!["/app"], Vec::new()].map(|command| {
        Scenario { files: vec![("app", app.clone())], command, ..Scenario::default() } //
    });
    run_seeds(0..2, |seed| {
        let config = Config { faults: ROUGH, ..machine(Driver::Seeded(seed), 2, SMALL) };
        let (ended, ()) = boot_kernels(config, &scenarios, |_| ())?;
        let first = &ended.kernels[0];
        assert_eq!(first.status, Some(128 + 9), "seed {seed}: {}", first.errors);
        assert!(first.errors.contains("there is no memory"), "seed {seed}: {}", first.errors);
        Ok(())
    });
}

/// The process's own kernel dies: what it had elsewhere ends.
#[test]
fn remotes_of_a_kernel_that_dies_end() {
    let deaths = if is_long() { 12 } else { 3 };
    let mut learnt = 0;
    run_seeds(0..2, |seed| {
        let config = |faults| Config { faults, ..machine(Driver::Seeded(seed), 3, SMALL) };
        let (whole, _) = run(config(ROUGH), true)?;
        for step in (1..=deaths).map(|part| whole.steps * part / (deaths + 1)) {
            let faults = Faults { death: Some((IslandId(0), step)), survives: true, ..ROUGH };
            let (ended, has_remotes) = run(config(faults), true)?;
            let [_, remotes, lingering] = &ended.kernels[..] else { unreachable!("three kernels") };
            assert_eq!(lingering.status, Some(0), "seed {seed}, step {step}: {}", lingering.errors);
            assert!(!has_remotes[1], "seed {seed}, step {step}: {}", remotes.errors);
            learnt += usize::from(remotes.errors.contains("taken for dead"));
        }
        Ok(())
    });
    assert!(learnt > 0, "nobody has learnt of a death");
}

/// Pages that functions of all kernels count in, one behind the other.
const ARRAY: u64 = DATA + 0x2000;
const ARRAY_PAGES: u64 = 12;
/// A page with a word for each of two threads, and the stack of the second one.
const DONE: u64 = DATA + 0xe000;
const STACK: u64 = DATA + 0x10000 - 64;
/// Rings whose slots have room for three pages.
const AHEAD: WindowConfig = WindowConfig { slots: 2, slot_len: 16 << 10, prefetch: 2, ..SMALL };

/// Reads a word of each page, and counts it then: `place` of the page's words.
fn count_array(body: &mut Body<'_>, place: i32) {
    let (at, value) = (body.scratch(), body.result());
    let [_, end, step, ..] = body.program.asm.roles.args;
    body.enter(2);
    for adds in [0, 1] {
        body.program.asm.li(at, ARRAY);
        body.program.asm.li(end, ARRAY + 4096 * ARRAY_PAGES);
        body.program.asm.li(step, 4096);
        let again = body.program.asm.here();
        body.program.asm.op_i(Op::Ld64, value, at, place);
        if adds == 1 {
            body.program.asm.op_i(Op::Addi, value, value, 1);
            body.program.asm.op_i(Op::St64, value, at, place);
        }
        body.program.asm.op(Op::Add, at, at, step);
        body.program.asm.branch(Op::Bltu, at, end, again);
    }
    body.leave();
}

/// Adds up the first words of the pages, or the second ones, and exits with the sum.
fn exit_with_sum(program: &mut Program, places: &[i32]) {
    let [at, end, step, sum, value] = program.asm.roles.saved;
    program.asm.li(sum, 0);
    program.asm.li(at, ARRAY);
    program.asm.li(end, ARRAY + 4096 * ARRAY_PAGES);
    program.asm.li(step, 4096);
    let again = program.asm.here();
    for &place in places {
        program.asm.op_i(Op::Ld64, value, at, place);
        program.asm.op(Op::Add, sum, sum, value);
    }
    program.asm.op(Op::Add, at, at, step);
    program.asm.branch(Op::Bltu, at, end, again);
    program.arg_from(0, sum);
    program.call_as_is(Sys::ExitGroup);
}

/// Has the other kernels count in the array, and counts there itself.
fn array_main(body: &mut Body<'_>) {
    let [left, zero, ..] = body.program.asm.roles.saved;
    body.program.asm.li(left, ROUNDS / 2);
    body.program.asm.li(zero, 0);
    let again = body.program.asm.here();
    for function in 1..=3 {
        body.call(address_of(function));
    }
    body.program.asm.op_i(Op::Addi, left, left, -1);
    body.program.asm.branch(Op::Bne, left, zero, again);
    exit_with_sum(body.program, &[0]);
}

/// The same by two threads at once, one for each of the other kernels, which write different words of the pages. Ranges behind the array change meanwhile.
fn array_threads(body: &mut Body<'_>) {
    let program = &mut *body.program;
    let [left, zero, value, ..] = program.asm.roles.saved;
    program.call(Sys::Clone, &[0x0001_0f00, STACK, 0, 0, 0]); // CLONE_VM | … | CLONE_THREAD
    program.or_exit(102);
    program.result_to(value);
    program.asm.li(zero, 0);
    let second = program.asm.label();
    program.asm.branch(Op::Beq, value, zero, second);
    for function in [1, 2] {
        if function == 2 {
            body.program.asm.bind(second);
        }
        body.program.asm.li(zero, 0);
        body.program.asm.li(left, ROUNDS / 2);
        let again = body.program.asm.here();
        body.call(address_of(function));
        body.program.call(Sys::Mprotect, &[ARRAY + 4096 * (3 + 4 * function as u64), 4096, 3]);
        body.program.asm.op_i(Op::Addi, left, left, -1);
        body.program.asm.branch(Op::Bne, left, zero, again);
        let (at, done) = (body.scratch(), DONE + 8 * function as u64);
        if function == 2 {
            body.program.asm.li(value, 1);
            body.program.asm.li(at, done);
            body.program.asm.op_i(Op::St64, value, at, 0);
            body.program.call(Sys::Exit, &[0]);
        } else {
            // Until the second one has come to its end.
            let wait = body.program.asm.here();
            sleep(body.program, 0, 100_000);
            body.program.asm.li(at, DONE + 16);
            body.program.asm.op_i(Op::Ld64, value, at, 0);
            body.program.asm.branch(Op::Beq, value, zero, wait);
            exit_with_sum(body.program, &[0, 8]);
        }
    }
}

type Functions = (fn(&mut Body<'_>), fn(&mut Body<'_>));
/// A program of one thread, and one of two, with what RISC-V does.
const BY_ONE: Functions = (array_main, |body| count_array(body, 0));
const BY_TWO: Functions = (array_threads, |body| count_array(body, 8));

/// Runs a program that counts in the array: how it ended, and requests for pages, messages with several of them, and with one, of all kernels.
fn count_in_array(config: Config, (main, on_riscv): Functions) -> Result<(KernelsEnded, [u64; 3]), Failure> {
    let kernels = config.islands.len();
    let functions = [
        function("main", None, main),
        function("on_arm", Some(Isa::AArch64), |body| count_array(body, 0)),
        // Of two kernels, the first one does what RISC-V would do.
        function("on_riscv", (kernels == 3).then_some(Isa::RiscV64), on_riscv),
        function("here", None, |body| count_array(body, 0)),
    ];
    let app = executable(Isa::X86_64, &functions);
    let scenarios: Vec<Scenario> = (0..kernels)
        .map(|kernel| {
            let command = if kernel == 0 { vec!["/app"] } else { Vec::new() };
            Scenario { files: vec![("app", app.clone())], command, ..Scenario::default() }
        })
        .collect();
    boot_kernels(config, &scenarios, |pools| {
        let sent = |kind: MessageKind| {
            pools.iter().map(|pool| pool.header().peers.sent[kind as usize].load(Ordering::Relaxed)).sum()
        };
        [MessageKind::PageRequest, MessageKind::PagesResponse, MessageKind::PageResponse].map(sent)
    })
}

/// Pages come ahead, with fewer messages, and all functions count in one memory.
#[test]
fn pages_that_come_ahead_are_of_one_memory() {
    run_seeds(0..3, |seed| {
        for faults in [Faults::default(), ROUGH] {
            let run = |windows| {
                let (ended, sent) =
                    count_in_array(Config { faults, ..machine(Driver::Seeded(seed), 3, windows) }, BY_ONE)?;
                let first = &ended.kernels[0];
                let wanted = Some((ARRAY_PAGES * 3 * (ROUNDS / 2)) as u32);
                assert_eq!(first.status, wanted, "seed {seed}: {}", first.errors);
                Ok(sent)
            };
            let ([requests, several, _], [plain, none, _]) = (run(AHEAD)?, run(SMALL)?);
            assert!(
                several > 0 && none == 0 && requests * 4 < plain * 3,
                "seed {seed}: {requests} of {plain}, {several}"
            );
        }
        Ok(())
    });
}

/// Two kernels fault on the same pages at once, wish for them, and home changes ranges meanwhile.
#[test]
fn pages_that_several_kernels_want_ahead_are_of_one_memory() {
    run_seeds(0..4, |seed| {
        let slot_len = if seed % 2 == 0 { 16 << 10 } else { 64 << 10 };
        let windows = WindowConfig { slot_len, prefetch: if seed % 2 == 0 { 2 } else { 14 }, ..AHEAD };
        let config = Config { faults: ROUGH, ..machine(Driver::Seeded(seed), 3, windows) };
        let (ended, [_, several, _]) = count_in_array(config, BY_TWO)?;
        let first = &ended.kernels[0];
        let wanted = Some((ARRAY_PAGES * 2 * (ROUNDS / 2)) as u32);
        assert_eq!(first.status, wanted, "seed {seed}: {}", first.errors);
        assert!(several > 0, "seed {seed}");
        Ok(())
    });
}

/// A kernel dies that was asked for pages, or was to have some: nobody waits for ever, and no other status comes out than that of all or a signal's.
#[test]
fn nobody_waits_for_ever_for_pages_ahead() {
    let deaths = if is_long() { 24 } else { 6 };
    let mut ends = BTreeMap::new();
    run_seeds(0..2, |seed| {
        let config = |faults| Config { faults, ..machine(Driver::Seeded(seed), 3, AHEAD) };
        let (whole, _) = count_in_array(config(ROUGH), BY_TWO)?;
        for step in (1..=deaths).map(|part| whole.steps * part / (deaths + 1)) {
            let faults = Faults { death: Some((IslandId(1), step)), survives: true, ..ROUGH };
            let (ended, _) = count_in_array(config(faults), BY_TWO)?;
            *ends.entry(ended.kernels[0].status).or_insert(0) += 1;
        }
        Ok(())
    });
    println!("{ends:?}");
    let whole = (ARRAY_PAGES * 2 * (ROUNDS / 2)) as u32;
    assert!(ends.keys().all(|status| matches!(status, Some(status) if *status == whole || *status > 128)), "{ends:?}");
    assert!(ends.keys().any(|status| *status != Some(whole)), "nobody has learnt of a death");
}

/// Two kernels read pages where the other one has them, which keeps them meanwhile: one at a time, and several.
#[test]
fn pages_that_are_read_in_place_are_of_one_memory() {
    run_seeds(0..4, |seed| {
        for functions in [BY_ONE, BY_TWO] {
            let prefetch = if seed % 2 == 0 { 0 } else { 2 };
            let windows = WindowConfig { prefetch, by_reference: true, ..AHEAD };
            let faults = if seed < 2 { Faults::default() } else { ROUGH };
            let config = Config { faults, ..machine(Driver::Seeded(seed), 2, windows) };
            let (ended, [requests, several, with_page]) = count_in_array(config, functions)?;
            let first = &ended.kernels[0];
            let counters = if functions.0 as *const () == BY_ONE.0 as *const () { 3 } else { 2 };
            let wanted = Some((ARRAY_PAGES * counters * (ROUNDS / 2)) as u32);
            assert_eq!(first.status, wanted, "seed {seed}: {}", first.errors);
            assert!(requests > 0 && with_page == 0 && (several > 0) == (prefetch > 0), "seed {seed}");
        }
        Ok(())
    });
}

/// A kernel dies that was to read pages, or had them: nobody waits for ever.
#[test]
fn nobody_waits_for_ever_for_pages_in_place() {
    let deaths = if is_long() { 24 } else { 6 };
    run_seeds(0..2, |seed| {
        let windows = WindowConfig { by_reference: true, ..AHEAD };
        let config = |faults| Config { faults, ..machine(Driver::Seeded(seed), 2, windows) };
        let (whole, _) = count_in_array(config(ROUGH), BY_TWO)?;
        for step in (1..=deaths).map(|part| whole.steps * part / (deaths + 1)) {
            let faults = Faults { death: Some((IslandId(1), step)), survives: true, ..ROUGH };
            let status = count_in_array(config(faults), BY_TWO)?.0.kernels[0].status;
            assert!(matches!(status, Some(72 | 128..)), "seed {seed}, step {step}: {status:?}");
        }
        Ok(())
    });
}
