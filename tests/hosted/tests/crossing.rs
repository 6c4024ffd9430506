//! Calls across instruction sets, under real threads and under many seeds with faults.

use motet_abi::fat::Signature;
use motet_hal_hosted::{Config, Driver, Failure, Faults, isa::Op, run_seeds};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::{
    Ended, ROUGH, Scenario, boot,
    calls::Sys,
    everywhere,
    fat::{Body, Function, address_of, executable},
    program::DATA,
    three_islands, under,
};

/// More steps than these tests take.
const STEPS_MAX: u64 = 200_000;

const LONG: Signature = Signature { words: 1, floats: 0, result: 1 };

fn function(name: &'static str, pin: Option<Isa>, write: fn(&mut Body<'_>)) -> Function {
    Function { name, pin, signature: LONG, strict: false, write }
}

fn scenario(functions: &[Function]) -> Scenario {
    let files = vec![("app", executable(Isa::X86_64, functions))];
    Scenario { files, command: vec!["/app"], ..Scenario::default() }
}

/// Exits with the result of the function called last.
fn exit_with_result(body: &mut Body<'_>) {
    let result = body.result();
    body.program.arg_from(0, result);
    body.program.call_as_is(Sys::ExitGroup);
}

/// The Fibonacci number of the argument, by calls of the functions at two addresses.
fn fibonacci(body: &mut Body<'_>, first: u64, second: u64) {
    let (argument, result, scratch) = (body.argument(), body.result(), body.scratch());
    let small = body.program.asm.label();
    body.enter(3);
    body.program.asm.li(scratch, 2);
    body.program.asm.branch(Op::Bltu, argument, scratch, small);
    body.store(argument, 0);
    body.program.asm.op_i(Op::Addi, argument, argument, -1);
    body.call(first);
    let result_of_first = result;
    body.store(result_of_first, 1);
    body.load(argument, 0);
    body.program.asm.op_i(Op::Addi, argument, argument, -2);
    body.call(second);
    let scratch = body.scratch();
    body.load(scratch, 1);
    body.program.asm.op(Op::Add, result, result, scratch);
    body.leave();
    body.program.asm.bind(small);
    body.program.asm.mov(result, argument);
    body.leave();
}

#[test]
fn calls_nest_and_recurse_over_three_isas() {
    let functions = [
        function("main", None, |body| {
            body.program.arg(0, 9);
            body.call(address_of(1));
            exit_with_result(body);
        }),
        function("on_arm", Some(Isa::AArch64), |body| fibonacci(body, address_of(2), address_of(3))),
        function("on_riscv", Some(Isa::RiscV64), |body| fibonacci(body, address_of(3), address_of(1))),
        function("on_x86", Some(Isa::X86_64), |body| fibonacci(body, address_of(1), address_of(2))),
    ];
    everywhere(12, &scenario(&functions), 34, "");
}

#[test]
fn a_function_runs_on_the_isa_it_is_pinned_to() {
    // Each returns its island's number; the islands are x86-64, AArch64, RISC-V.
    fn island(body: &mut Body<'_>) {
        body.program.call_as_is(Sys::Island);
        body.enter(1);
        body.leave();
    }
    let functions = [
        function("main", None, |body| {
            let [sum, ten, ..] = body.program.asm.roles.saved;
            body.program.asm.li(sum, 0);
            body.program.asm.li(ten, 10);
            for index in 1..=4 {
                body.call(address_of(index));
                let result = body.result();
                body.program.asm.op(Op::Mul, sum, sum, ten);
                body.program.asm.op(Op::Add, sum, sum, result);
            }
            body.program.arg_from(0, sum);
            body.program.call_as_is(Sys::ExitGroup);
        }),
        function("anywhere", None, island),
        function("on_arm", Some(Isa::AArch64), island),
        function("on_riscv", Some(Isa::RiscV64), island),
        function("on_x86", Some(Isa::X86_64), island),
    ];
    everywhere(5, &scenario(&functions), 120, "");
}

/// Makes other values of the registers that its caller may expect to find again, and of a place on its stack.
fn scribble(body: &mut Body<'_>) {
    let saved = body.program.asm.roles.saved;
    for register in saved {
        body.program.asm.li(register, 0x5555);
    }
    body.store(saved[0], 0);
}

/// A function calls back time after time, and those functions call its island in turn: all find their registers and stacks.
#[test]
fn functions_that_call_back_go_on_as_they_were() {
    let functions = [
        function("main", None, |body| {
            let [kept, ..] = body.program.asm.roles.saved;
            let result = body.result();
            body.program.asm.li(kept, 100);
            body.program.arg(0, 6);
            body.call(address_of(1));
            body.program.asm.op(Op::Add, result, result, kept);
            exit_with_result(body);
        }),
        // 6 * 7 / 2 = 21 by the functions below, twice: in a register and on the stack.
        function("sum", Some(Isa::RiscV64), |body| {
            let [sum, count, zero, ..] = body.program.asm.roles.saved;
            let (argument, result, scratch) = (body.argument(), body.result(), body.scratch());
            let again = body.program.asm.label();
            body.enter(3);
            body.program.asm.mov(count, argument);
            body.program.asm.li(sum, 0);
            body.program.asm.li(zero, 0);
            body.store(sum, 0);
            body.program.asm.bind(again);
            body.program.asm.mov(argument, count);
            body.call(address_of(2));
            body.program.asm.op(Op::Add, sum, sum, result);
            body.load(scratch, 0);
            body.program.asm.op(Op::Add, scratch, scratch, result);
            body.store(scratch, 0);
            body.program.asm.op_i(Op::Addi, count, count, -1);
            body.program.asm.branch(Op::Bne, count, zero, again);
            body.load(scratch, 0);
            body.program.asm.op(Op::Add, result, sum, scratch);
            body.leave();
        }),
        // Every other time it calls the island that it was called from.
        function("same", Some(Isa::X86_64), |body| {
            let (argument, result, scratch) = (body.argument(), body.result(), body.scratch());
            let even = body.program.asm.label();
            body.enter(3);
            body.store(argument, 1);
            scribble(body);
            body.program.asm.li(scratch, 1);
            body.program.asm.op(Op::And, scratch, scratch, argument);
            let zero = body.program.asm.roles.saved[0];
            body.program.asm.li(zero, 0);
            body.program.asm.branch(Op::Beq, scratch, zero, even);
            body.call(address_of(3));
            body.program.asm.bind(even);
            body.load(result, 1);
            body.leave();
        }),
        function("scribbles", Some(Isa::RiscV64), |body| {
            body.enter(3);
            scribble(body);
            body.leave();
        }),
    ];
    everywhere(12, &scenario(&functions), 142, "");
}

/// Nine words, so that x86-64 has three on the stack and the others one.
#[test]
fn arguments_beyond_the_registers_arrive() {
    const NINE: Signature = Signature { words: 0x1_1111_1111, floats: 0, result: 1 };
    let functions = [
        function("main", None, |body| {
            // Only ever executed on x86-64: rdi rsi rdx rcx r8 r9, then the stack.
            if body.isa != Isa::X86_64 {
                return;
            }
            let sp = body.program.asm.roles.stack;
            body.program.asm.op_i(Op::Addi, sp, sp, -32);
            for (slot, value) in [(0, 7), (1, 8), (2, 9)] {
                body.program.asm.li(0, value);
                body.program.asm.op_i(Op::St64, 0, sp, 8 * slot);
            }
            for (register, value) in [(7, 1), (6, 2), (2, 3), (1, 4), (8, 5)] {
                body.program.asm.li(register, value);
            }
            // The sixth argument is the register that the call itself uses.
            let back = body.program.asm.label();
            body.program.asm.op_i(Op::Addi, sp, sp, -8);
            body.program.asm.lea(0, back);
            body.program.asm.op_i(Op::St64, 0, sp, 0);
            body.program.asm.li(9, 6);
            body.program.asm.li(0, address_of(1));
            body.program.asm.op_i(Op::Jalr, 0, 0, 0);
            body.program.asm.bind(back);
            exit_with_result(body);
        }),
        Function {
            name: "weigh",
            pin: Some(Isa::RiscV64),
            signature: NINE,
            strict: false,
            write: |body| {
                if body.isa != Isa::RiscV64 {
                    return;
                }
                // 1·1 + 2·2 + … + 9·9 = 285, less 100 to fit a status.
                let (sum, weight, term) = (5, 6, 7);
                body.program.asm.li(sum, -100i64 as u64);
                for index in 0..8 {
                    body.program.asm.li(weight, u64::from(index) + 1);
                    body.program.asm.op(Op::Mul, term, 10 + index, weight);
                    body.program.asm.op(Op::Add, sum, sum, term);
                }
                body.program.asm.op_i(Op::Ld64, term, 2, 0);
                body.program.asm.li(weight, 9);
                body.program.asm.op(Op::Mul, term, term, weight);
                body.program.asm.op(Op::Add, 10, sum, term);
                body.program.asm.op_i(Op::Jalr, 5, 1, 0);
            },
        },
    ];
    everywhere(3, &scenario(&functions), 185, "");
}

/// The child of a fork made on another ISA returns through the same calls as its parent.
#[test]
fn a_fork_while_away_returns_twice() {
    let functions = [
        function("main", None, |body| {
            let [pid, ..] = body.program.asm.roles.saved;
            body.call(address_of(1));
            let parent = body.program.asm.label();
            let (result, zero) = (body.result(), body.scratch());
            body.program.asm.mov(pid, result);
            body.program.asm.li(zero, 0);
            body.program.asm.branch(Op::Bne, pid, zero, parent);
            body.program.print(1, "child\n");
            body.program.exit(5);
            body.program.asm.bind(parent);
            body.program.wait();
            body.program.print(1, "parent\n");
            body.program.load_u32(pid, DATA + 8);
            body.program.asm.li(zero, 8);
            body.program.asm.op(Op::Shr, pid, pid, zero);
            body.program.arg_from(0, pid);
            body.program.call_as_is(Sys::ExitGroup);
        }),
        function("fork_on_riscv", Some(Isa::RiscV64), |body| {
            body.enter(1);
            body.program.call(Sys::Clone, &[17, 0, 0, 0, 0]);
            body.leave();
        }),
    ];
    everywhere(10, &scenario(&functions), 5, "child\nparent\n");
}

#[test]
fn call_on_runs_a_function_on_the_island_asked_for() {
    let functions = [
        function("main", None, |body| {
            let [sum, ..] = body.program.asm.roles.saved;
            body.program.asm.li(sum, 0);
            for island in [2, 0, 1] {
                body.program.call(Sys::CallOn, &[island, address_of(1), 30]);
                let result = body.result();
                body.program.asm.op(Op::Add, sum, sum, result);
            }
            // No such island.
            body.program.call(Sys::CallOn, &[7, address_of(1), 30]);
            let result = body.result();
            body.program.asm.op(Op::Add, sum, sum, result);
            body.program.arg_from(0, sum);
            body.program.call_as_is(Sys::ExitGroup);
        }),
        function("island_and_argument", None, |body| {
            body.enter(1);
            let argument = body.argument();
            body.store(argument, 0);
            body.program.call_as_is(Sys::Island);
            let (result, scratch) = (body.result(), body.scratch());
            body.load(scratch, 0);
            body.program.asm.op(Op::Add, result, result, scratch);
            body.leave();
        }),
    ];
    // (30 + 2) + (30 + 0) + (30 + 1) - EINVAL
    everywhere(5, &scenario(&functions), 93 - 22, "");
}

/// A child keeps the only core of island 1 for ever. Calls of that island run there until it has arrived, then here.
#[test]
fn call_on_does_with_a_busy_island_what_the_policy_says() {
    const BUSY_LOCAL: u64 = 2;
    let functions = [
        function("main", None, |body| {
            let [pid, ..] = body.program.asm.roles.saved;
            let child = body.program.fork(pid);
            body.program.call(Sys::Crossings, &[BUSY_LOCAL, 0]);
            let again = body.program.asm.here();
            body.program.call(Sys::CallOn, &[1, address_of(1), 0]);
            let (result, zero) = (body.result(), body.scratch());
            body.program.asm.li(zero, 0);
            body.program.asm.branch(Op::Bne, result, zero, again);
            body.program.arg_from(0, pid);
            body.program.arg(1, 9);
            body.program.call_as_is(Sys::Kill);
            body.program.wait();
            body.program.exit(7);
            body.program.asm.bind(child);
            body.program.call(Sys::CallOn, &[1, address_of(2), 0]);
            body.program.exit(102);
        }),
        function("island", None, |body| {
            body.enter(1);
            body.program.call_as_is(Sys::Island);
            body.leave();
        }),
        function("for_ever", None, |body| {
            let again = body.program.asm.here();
            body.program.asm.jump(again);
        }),
    ];
    everywhere(5, &scenario(&functions), 7, "");
}

/// Nobody but the caller uses island 1. Its core is still on its way to sleep when the next call comes.
#[test]
fn an_island_that_has_just_answered_is_not_busy() {
    const BUSY_END: u64 = 3;
    let functions = [
        function("main", None, |body| {
            let [rounds, ..] = body.program.asm.roles.saved;
            body.program.call(Sys::Crossings, &[BUSY_END, 0]);
            body.program.asm.li(rounds, 30);
            let again = body.program.asm.here();
            body.program.call(Sys::CallOn, &[1, address_of(1), 0]);
            body.program.asm.op_i(Op::Addi, rounds, rounds, -1);
            let zero = body.scratch();
            body.program.asm.li(zero, 0);
            body.program.asm.branch(Op::Bne, rounds, zero, again);
            body.program.exit(7);
        }),
        function("island", None, |body| {
            body.enter(1);
            body.program.call_as_is(Sys::Island);
            body.leave();
        }),
    ];
    everywhere(5, &scenario(&functions), 7, "");
}

/// What is killed, and what is said of it.
fn killed(functions: &[Function], words: &[&str]) {
    let ended = under(Driver::Seeded(1), Faults::default(), &scenario(functions)).unwrap();
    assert_eq!(ended.status, 128 + 9, "{}", ended.errors);
    for word in words {
        assert!(ended.errors.contains(word), "{word:?} is not in {:?}", ended.errors);
    }
}

#[test]
fn leaving_a_function_by_another_way_than_its_return_kills() {
    killed(
        &[
            function("main", None, |body| {
                body.call(address_of(1));
                body.program.exit(0);
            }),
            // Returns with a stack pointer that is not the one it was called with.
            function("crooked", Some(Isa::RiscV64), |body| {
                let sp = body.program.asm.roles.stack;
                body.enter(1);
                body.program.asm.op_i(Op::Addi, sp, sp, -16);
                body.load(1, 3);
                body.program.asm.op_i(Op::Jalr, 5, 1, 0);
            }),
        ],
        &["longjmp", "at 0x", "was called by 0x1", "riscv64"],
    );
}

#[test]
fn returning_from_a_call_that_was_not_made_kills() {
    killed(
        &[function("main", None, |body| {
            body.call(0x7fff_bfff_d000);
            body.program.exit(0);
        })],
        &["returns from a call that it has not made"],
    );
}

#[test]
fn jumping_into_the_middle_of_a_pinned_function_kills() {
    killed(
        &[
            function("main", None, |body| {
                body.call(address_of(1) + 8);
                body.program.exit(0);
            }),
            function("on_arm", Some(Isa::AArch64), |body| {
                body.enter(1);
                body.leave();
            }),
        ],
        &["into the middle of code for aarch64"],
    );
}

#[test]
fn a_signal_without_handler_ends_a_process_that_is_away() {
    let functions = [
        function("main", None, |body| {
            let [pid, ..] = body.program.asm.roles.saved;
            let child = body.program.fork(pid);
            // Wait until the child has arrived, then kill it there.
            let (zero, at) = (body.scratch(), body.program.asm.roles.args[4]);
            body.program.call(Sys::Nanosleep, &[DATA + 256, 0]);
            let _ = (zero, at);
            body.program.arg_from(0, pid);
            body.program.arg(1, 9);
            body.program.call_as_is(Sys::Kill);
            body.program.or_exit(101);
            body.program.wait();
            body.program.load_u32(pid, DATA + 8);
            body.program.arg_from(0, pid);
            body.program.call_as_is(Sys::ExitGroup);
            body.program.asm.bind(child);
            body.call(address_of(1));
            body.program.exit(102);
        }),
        function("for_ever", Some(Isa::AArch64), |body| {
            let again = body.program.asm.here();
            body.program.asm.jump(again);
        }),
    ];
    everywhere(5, &scenario(&functions), 9, "");
}

#[test]
fn text_is_shown_but_cannot_be_written_or_taken_apart() {
    const STORE: u64 = 0x7d00_0000_0000;
    let functions = [
        function("main", None, |body| {
            // Writable text is refused, stores cannot be unmapped, dropped or replaced.
            body.program.call(Sys::Mprotect, &[address_of(1), 4096, 7]);
            expect_errno(body, 13, 100);
            for index in 0..3 {
                body.program.call(Sys::Munmap, &[STORE + (index << 36), 4096]);
                expect_errno(body, 1, 101);
                body.program.call(Sys::Mmap, &[STORE + (index << 36), 4096, 3, 0x32, u64::MAX, 0]);
                expect_errno(body, 1, 102);
            }
            body.program.call(Sys::Mprotect, &[STORE, 4096, 3]);
            expect_errno(body, 1, 103);
            body.program.arg(0, 20);
            body.call(address_of(1));
            exit_with_result(body);
        }),
        function("on_riscv", Some(Isa::RiscV64), |body| {
            body.enter(1);
            let (result, argument) = (body.result(), body.argument());
            body.program.asm.op_i(Op::Addi, result, argument, 1);
            body.leave();
        }),
    ];
    everywhere(2, &scenario(&functions), 21, "");
}

fn expect_errno(body: &mut Body<'_>, errno: u64, status: u64) {
    let (result, scratch) = (body.result(), body.scratch());
    let good = body.program.asm.label();
    body.program.asm.li(scratch, errno.wrapping_neg());
    body.program.asm.branch(Op::Beq, result, scratch, good);
    body.program.exit(status);
    body.program.asm.bind(good);
}

/// Files that say what cannot be are refused, whatever byte of note or headers is damaged; kernels go on.
#[test]
fn damaged_executables_never_hurt_a_kernel() {
    let functions = [
        function("main", None, |body| {
            body.program.arg(0, 3);
            body.call(address_of(1));
            exit_with_result(body);
        }),
        function("on_riscv", Some(Isa::RiscV64), |body| fibonacci(body, address_of(1), address_of(2))),
        function("on_arm", Some(Isa::AArch64), |body| fibonacci(body, address_of(1), address_of(2))),
    ];
    let good = scenario(&functions);
    let file = &good.files[0].1;
    let places = (64..64 + 5 * 56).chain(2048..2048 + 20 + 48 + 2 * 56 + 16);
    for (round, at) in places.enumerate() {
        let value = [0, 0xff, 0x80, file[at] ^ 1][round % 4];
        let mut damaged = good.clone();
        damaged.files[0].1[at] = value;
        let ended = under(Driver::Seeded(round as u64), Faults::default(), &damaged);
        // It may run, be refused or be killed; the machine must come to an end that the kernel chose.
        let ended = ended.unwrap_or_else(|failure| panic!("byte {at} = {value}: {failure}"));
        assert!(ended.status < 256, "byte {at} = {value}");
    }
}

/// Whenever an island dies, the run either ends well or the host sees the machine stand still; no other kernel panics.
#[test]
fn an_island_that_dies_in_the_middle_of_calls_panics_nobody() {
    let functions = [
        function("main", None, |body| {
            body.program.arg(0, 4);
            body.call(address_of(1));
            exit_with_result(body);
        }),
        function("on_riscv", Some(Isa::RiscV64), |body| fibonacci(body, address_of(2), address_of(1))),
        function("on_arm", Some(Isa::AArch64), |body| fibonacci(body, address_of(1), address_of(2))),
    ];
    let whole = under(Driver::Seeded(3), ROUGH, &scenario(&functions)).unwrap();
    assert_eq!(whole.status, 3);
    for step in (0..whole.steps).step_by(211) {
        let faults = Faults { death: Some((IslandId(2), step)), ..ROUGH };
        match under(Driver::Seeded(3), faults, &scenario(&functions)) {
            Ok(ended) => assert_eq!(ended.status, 3, "{}", ended.errors),
            Err(failure) => {
                let text = failure.to_string();
                assert!(!text.contains("panicked"), "death at step {step}: {text}");
            }
        }
    }
}

/// A process that waits for a child, which calls the functions that follow; both say so.
fn parent_and_child(pinned: &[Function]) -> Scenario {
    let main = function("main", None, |body| {
        let [pid, ..] = body.program.asm.roles.saved;
        let child = body.program.fork(pid);
        body.program.wait();
        body.program.print(1, "waited\n");
        body.program.load_u32(pid, DATA + 8);
        body.program.arg_from(0, pid);
        body.program.call_as_is(Sys::ExitGroup);
        body.program.asm.bind(child);
        body.program.arg(0, 9);
        body.call(address_of(1));
        body.program.exit(0);
    });
    scenario(&[&[main], pinned].concat())
}

/// The process that uses the island ends, its parent goes on: at every step there is an end that the kernel chose. A lock
/// that the dead island held may end the machine, with a message that says so.
fn survives_deaths(scenario: &Scenario) -> Deaths {
    let mut deaths = Deaths::default();
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 6) {
        let whole = under(Driver::Seeded(seed), ROUGH, scenario).unwrap();
        for step in (whole.steps / 5 + seed..whole.steps).step_by(env("MOTET_STRIDE", 31) as usize) {
            let faults = Faults { death: Some((IslandId(2), step)), survives: true, ..ROUGH };
            deaths.note(seed, step, under(Driver::Seeded(seed), faults, scenario));
        }
    }
    println!("{deaths:?}");
    deaths
}

#[test]
fn a_machine_survives_an_island_that_dies_in_the_middle_of_calls() {
    let deaths = survives_deaths(&parent_and_child(&[
        function("on_riscv", Some(Isa::RiscV64), |body| fibonacci(body, address_of(2), address_of(1))),
        function("on_arm", Some(Isa::AArch64), |body| fibonacci(body, address_of(1), address_of(2))),
    ]));
    assert!(deaths.killed > 10 && deaths.harmless > 10, "{deaths:?}");
}

#[test]
fn a_machine_survives_an_island_that_dies_while_a_process_ends_there() {
    let deaths = survives_deaths(&parent_and_child(&[
        function("on_riscv", Some(Isa::RiscV64), |body| {
            body.enter(1);
            let argument = body.argument();
            body.store(argument, 0);
            body.call(address_of(2));
            body.program.exit(0);
        }),
        function("on_arm", Some(Isa::AArch64), |body| {
            body.enter(1);
            body.leave();
        }),
    ]));
    assert!(deaths.locks < deaths.harmless, "{deaths:?}");
}

/// What deaths of islands came to.
#[derive(Default, Debug)]
struct Deaths {
    killed: u32,
    harmless: u32,
    locks: u32,
}

impl Deaths {
    fn note(&mut self, seed: u64, step: u64, outcome: Result<Ended, Failure>) {
        let place = format!("seed {seed}, death at step {step}");
        match outcome {
            Ok(ended) => {
                assert_eq!(ended.output, "waited\n", "{place}: {}", ended.errors);
                let killed = ended.errors.contains("is killed");
                assert_eq!(ended.status, if killed { 9 } else { 0 }, "{place}: {}", ended.errors);
                *(if killed { &mut self.killed } else { &mut self.harmless }) += 1;
            }
            Err(failure) => {
                let text = failure.to_string();
                assert!(text.contains("has died with a lock held"), "{place}: {text}");
                self.locks += 1;
            }
        }
    }
}

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

const CHILDREN: u64 = 5;

/// Processes that call the same core again and again, and say whether what they are told is right.
fn crowd() -> Scenario {
    scenario(&[
        function("main", None, |body| {
            let [number, pid, zero, ..] = body.program.asm.roles.saved;
            body.program.asm.li(zero, 0);
            body.program.asm.li(number, CHILDREN);
            let fork = body.program.asm.here();
            let child = body.program.fork(pid);
            body.program.asm.op_i(Op::Addi, number, number, -1);
            body.program.asm.branch(Op::Bne, number, zero, fork);
            body.program.asm.li(number, CHILDREN);
            let wait = body.program.asm.here();
            body.program.wait();
            body.program.asm.op_i(Op::Addi, number, number, -1);
            body.program.asm.branch(Op::Bne, number, zero, wait);
            body.program.exit(0);
            body.program.asm.bind(child);
            ask_again_and_again(body, number, pid);
        }),
        function("twice", Some(Isa::AArch64), |body| {
            body.enter(1);
            let (result, argument) = (body.result(), body.argument());
            body.program.asm.op(Op::Add, result, argument, argument);
            body.leave();
        }),
    ])
}

/// They run where islands do not cache each other's memory.
fn crowded(seed: u64, faults: Faults) -> Result<Ended, Failure> {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([3, 1, 2]));
    config.uncached = true;
    config.faults = faults;
    config.steps_max = STEPS_MAX;
    boot(config, &crowd())
}

/// A core that has answered is soon called by somebody else, who writes over its message.
#[test]
fn results_reach_who_called_while_others_call_the_same_core() {
    run_seeds(0..40, |seed| {
        let faults = if seed % 2 == 0 { Faults::default() } else { ROUGH };
        crowded(seed, faults).map(|ended| {
            let expected = "right\n".repeat(CHILDREN as usize);
            assert_eq!((ended.status, ended.output), (0, expected), "errors: {}", ended.errors);
        })
    });
}

/// Calls the second function with `number`, six times, and says whether it was told twice that each time.
fn ask_again_and_again(body: &mut Body<'_>, number: u8, rounds: u8) {
    let (argument, result, scratch) = (body.argument(), body.result(), body.scratch());
    let wrong = body.program.asm.label();
    body.program.asm.li(rounds, 6);
    let again = body.program.asm.here();
    body.program.asm.mov(argument, number);
    body.call(address_of(1));
    body.program.asm.op(Op::Add, scratch, number, number);
    body.program.asm.branch(Op::Bne, result, scratch, wrong);
    body.program.asm.op_i(Op::Addi, rounds, rounds, -1);
    body.program.asm.li(scratch, 0);
    body.program.asm.branch(Op::Bne, rounds, scratch, again);
    body.program.print(1, "right\n");
    body.program.exit(0);
    body.program.asm.bind(wrong);
    body.program.print(1, "wrong\n");
    body.program.exit(1);
}

/// Whatever word of a record, a message or a register changes during calls, no kernel panics; most processes end.
#[test]
fn damaged_records_and_messages_panic_nobody() {
    let damaged = parent_and_child(&[
        function("on_riscv", Some(Isa::RiscV64), |body| fibonacci(body, address_of(2), address_of(1))),
        function("on_arm", Some(Isa::AArch64), |body| fibonacci(body, address_of(1), address_of(2))),
    ]);
    let (mut ends, mut said) = (0, 0);
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 300) {
        let mut config = Config::new(Driver::Seeded(seed), three_islands([2, 1, 2]));
        config.faults = Faults { damage: Some(150 + seed * 37 % 700), ..ROUGH };
        config.steps_max = STEPS_MAX;
        config.uncached = seed % 2 == 1;
        match boot(config, &damaged) {
            Ok(ended) => {
                ends += 1;
                said += u32::from(ended.errors.contains("is killed"));
            }
            Err(failure) => no_kernel_fails(seed, &failure),
        }
    }
    println!("{ends} ended, of {said} the kernel says why");
    assert!(ends > 200 && said > 20, "{ends} ended, of {said} the kernel says why");
}

/// Others, who have been answered by the same core or are about to call it, go on.
#[test]
fn a_damaged_message_ends_whose_call_it_is() {
    let mut ends = 0;
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 500) {
        match crowded(seed, Faults { damage: Some(150 + seed * 37 % 300), ..ROUGH }) {
            Ok(ended) if ended.errors.contains("the message of its call is damaged") => {
                ends += 1;
                let others = "right\n".repeat(CHILDREN as usize - 1);
                assert_eq!((ended.status, ended.output), (0, others), "seed {seed}: {}", ended.errors);
            }
            // What the message says may be wrong and yet possible.
            Ok(_) => {}
            Err(failure) => no_kernel_fails(seed, &failure),
        }
    }
    assert!(ends > 20, "{ends} ended");
}

/// A program with other registers may do anything, also nothing.
fn no_kernel_fails(seed: u64, failure: &Failure) {
    let text = failure.to_string();
    assert!(!text.contains("panicked") && !text.contains("is lost"), "seed {seed}: {text}");
}
