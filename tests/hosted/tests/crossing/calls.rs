//! What programs find when their functions are called, and when they come back.

use motet_abi::fat::Signature;
use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::{
    calls::Sys,
    everywhere,
    fat::{Body, Function, address_of},
    program::DATA,
};

use super::{
    exit_with_digits, exit_with_result, fibonacci_of_three, function, island, run_for_ever, scenario, sum_of_calls_back,
};

#[test]
fn calls_nest_and_recurse_over_three_isas() {
    everywhere(12, &fibonacci_of_three(), 21, "");
}

#[test]
fn a_function_runs_on_the_isa_it_is_pinned_to() {
    // The islands are x86-64, AArch64, RISC-V.
    let functions = [
        function("main", None, exit_with_digits::<4>),
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
        function("sum", Some(Isa::RiscV64), sum_of_calls_back::<2>),
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
        function("island", None, island),
        function("for_ever", None, run_for_ever),
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
        function("island", None, island),
    ];
    everywhere(5, &scenario(&functions), 7, "");
}

#[test]
fn a_signal_without_handler_ends_a_process_that_is_away() {
    let functions = [
        function("main", None, |body| {
            let [pid, ..] = body.program.asm.roles.saved;
            let child = body.program.fork(pid);
            // Wait until the child has arrived, then kill it there.
            body.program.call(Sys::Nanosleep, &[DATA + 256, 0]);
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
        function("for_ever", Some(Isa::AArch64), run_for_ever),
    ];
    everywhere(5, &scenario(&functions), 9, "");
}
