//! Calls across instruction sets, under real threads and under many seeds with faults.

mod calls;
mod crowd;
mod deaths;
mod follow;
mod jumps;
mod migration;
mod withdrawn;
mod wrong;

use motet_abi::fat::Signature;
use motet_hal_hosted::{Failure, isa::Op};
use motet_layout::Isa;
use motet_tests_hosted::{
    Scenario,
    calls::Sys,
    env,
    fat::{Body, Function, address_of, executable},
    program::DATA,
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

/// Exits with `status` unless the last system call has failed with `errno`.
fn expect_errno(body: &mut Body<'_>, errno: u64, status: u64) {
    let (result, scratch) = (body.result(), body.scratch());
    let good = body.program.asm.label();
    body.program.asm.li(scratch, errno.wrapping_neg());
    body.program.asm.branch(Op::Beq, result, scratch, good);
    body.program.exit(status);
    body.program.asm.bind(good);
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

/// Calls that nest and recurse over three instruction sets: exits with the 8th Fibonacci number, 21.
fn fibonacci_of_three() -> Scenario {
    scenario(&[
        function("main", None, |body| {
            body.program.arg(0, 8);
            body.call(address_of(1));
            exit_with_result(body);
        }),
        function("on_arm", Some(Isa::AArch64), |body| fibonacci(body, address_of(2), address_of(3))),
        function("on_riscv", Some(Isa::RiscV64), |body| fibonacci(body, address_of(3), address_of(1))),
        function("on_x86", Some(Isa::X86_64), |body| fibonacci(body, address_of(1), address_of(2))),
    ])
}

fn run_for_ever(body: &mut Body<'_>) {
    let again = body.program.asm.here();
    body.program.asm.jump(again);
}

/// Returns its island's number.
fn island(body: &mut Body<'_>) {
    body.enter(1);
    body.program.call_as_is(Sys::Island);
    body.leave();
}

/// Twice the sum of what calls back of a function return, of the argument down to 1: kept in a register and on the stack.
fn sum_of_calls_back<const CALLED_BACK: usize>(body: &mut Body<'_>) {
    let [sum, count, zero, ..] = body.program.asm.roles.saved;
    let (argument, result, scratch) = (body.argument(), body.result(), body.scratch());
    body.enter(3);
    body.program.asm.mov(count, argument);
    body.program.asm.li(sum, 0);
    body.program.asm.li(zero, 0);
    body.store(sum, 0);
    let again = body.program.asm.here();
    body.program.asm.mov(argument, count);
    body.call(address_of(CALLED_BACK));
    body.program.asm.op(Op::Add, sum, sum, result);
    body.load(scratch, 0);
    body.program.asm.op(Op::Add, scratch, scratch, result);
    body.store(scratch, 0);
    body.program.asm.op_i(Op::Addi, count, count, -1);
    body.program.asm.branch(Op::Bne, count, zero, again);
    body.load(scratch, 0);
    body.program.asm.op(Op::Add, result, sum, scratch);
    body.leave();
}

/// Calls the functions 1 to `COUNT` and exits with their results as digits.
fn exit_with_digits<const COUNT: usize>(body: &mut Body<'_>) {
    let [sum, ten, ..] = body.program.asm.roles.saved;
    body.program.asm.li(sum, 0);
    body.program.asm.li(ten, 10);
    for index in 1..=COUNT {
        body.call(address_of(index));
        let result = body.result();
        body.program.asm.op(Op::Mul, sum, sum, ten);
        body.program.asm.op(Op::Add, sum, sum, result);
    }
    body.program.arg_from(0, sum);
    body.program.call_as_is(Sys::ExitGroup);
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

/// A program with other registers may do anything, also nothing.
fn no_kernel_fails(seed: u64, failure: &Failure) {
    let text = failure.to_string();
    assert!(!text.contains("panicked") && !text.contains("is lost"), "seed {seed}: {text}");
}
