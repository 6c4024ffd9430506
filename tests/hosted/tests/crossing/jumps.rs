//! Calls that end by jumps (`longjmp`) and because of exceptions.

use motet_hal_hosted::{Config, Driver, Faults, isa::Op};
use motet_layout::{CALLS_BY_DMA, CALLS_BY_STORES, Isa, USER_END};
use motet_tests_hosted::{
    ROUGH, boot,
    calls::Sys,
    everywhere,
    fat::{Body, Function, address_of},
    program::DATA,
    three_islands, under,
};

use super::{
    STEPS_MAX, deaths::survives_deaths, env, exit_with_result, expect_errno, function, no_kernel_fails,
    parent_and_child, scenario,
};

/// Where the programs keep what jumps do not change: a stack pointer, how often they have jumped, and where a function's stack was.
const SP: u64 = DATA;
const COUNT: u64 = DATA + 8;
const PLACE: u64 = DATA + 16;

fn store(body: &mut Body<'_>, register: u8, address: u64) {
    let scratch = body.scratch();
    body.program.asm.li(scratch, address);
    body.program.asm.op_i(Op::St64, register, scratch, 0);
}

fn load(body: &mut Body<'_>, register: u8, address: u64) {
    let scratch = body.scratch();
    body.program.asm.li(scratch, address);
    body.program.asm.op_i(Op::Ld64, register, scratch, 0);
}

/// Calls a function that is not to return.
fn calls<const CALLED: usize>(body: &mut Body<'_>) {
    body.enter(1);
    body.call(address_of(CALLED));
    body.program.exit(99);
}

/// Jumps to the function 4 in the first call of `main`. Its stack is at the same place each time.
fn jumps(body: &mut Body<'_>) {
    body.enter(1);
    let [place, zero, sp, ..] = body.program.asm.roles.saved;
    let (first, same) = (body.program.asm.label(), body.program.asm.label());
    body.program.asm.li(zero, 0);
    body.program.asm.mov(sp, body.program.asm.roles.stack);
    load(body, place, PLACE);
    body.program.asm.branch(Op::Beq, place, zero, first);
    body.program.asm.branch(Op::Beq, place, sp, same);
    body.program.exit(98);
    body.program.asm.bind(first);
    store(body, sp, PLACE);
    body.program.asm.bind(same);
    load(body, sp, SP);
    body.program.arg(0, Isa::X86_64 as u64);
    body.program.arg_from(1, sp);
    body.program.arg(2, address_of(4));
    body.program.arg_from(3, sp);
    body.program.arg(4, 1);
    body.program.call_as_is(Sys::Jump);
    body.program.exit(97);
}

/// Goes on with the stack pointer that is its first argument: makes the calls again, eight times in all.
fn lands(body: &mut Body<'_>) {
    let [sp, add, count, enough, ..] = body.program.asm.roles.saved;
    let again = body.program.asm.label();
    body.program.asm.mov(sp, body.program.asm.roles.args[0]);
    body.program.asm.mov(add, body.program.asm.roles.args[1]);
    body.program.asm.mov(body.program.asm.roles.stack, sp);
    load(body, count, COUNT);
    body.program.asm.op(Op::Add, count, count, add);
    store(body, count, COUNT);
    body.program.asm.li(enough, 8);
    body.program.asm.branch(Op::Bltu, count, enough, again);
    body.program.call_as_is(Sys::Island);
    let result = body.result();
    body.program.asm.op(Op::Add, result, result, count);
    exit_with_result(body);
    body.program.asm.bind(again);
    body.call(address_of(1));
    body.program.exit(96);
}

fn main_of_jumps(body: &mut Body<'_>) {
    store(body, body.program.asm.roles.stack, SP);
    body.call(address_of(1));
    body.program.exit(95);
}

/// Eight jumps over three calls, the innermost of which is on `innermost`.
fn eight_jumps(innermost: Isa) -> [Function; 5] {
    [
        function("main", None, main_of_jumps),
        function("on_arm", Some(Isa::AArch64), calls::<2>),
        function("on_riscv", Some(Isa::RiscV64), calls::<3>),
        function("jumps", Some(innermost), jumps),
        function("lands", None, lands),
    ]
}

#[test]
fn a_jump_ends_the_calls_that_it_leads_over() {
    for innermost in [Isa::X86_64, Isa::AArch64] {
        everywhere(4, &scenario(&eight_jumps(innermost)), 8, "");
    }
}

/// Whatever word of a record or a register changes meanwhile, no kernel panics.
#[test]
fn jumps_over_damaged_records_panic_nobody() {
    let damaged = scenario(&eight_jumps(Isa::AArch64));
    let mut ends = 0;
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 150) {
        let mut config = Config::new(Driver::Seeded(seed), three_islands([2, 1, 2]));
        config.faults = Faults { damage: Some(50 + seed * 37 % 400), ..ROUGH };
        config.steps_max = STEPS_MAX;
        config.uncached = seed % 2 == 1;
        config.calls_by = if seed % 4 == 3 { CALLS_BY_DMA } else { CALLS_BY_STORES };
        match boot(config, &damaged) {
            Ok(_) => ends += 1,
            Err(failure) => no_kernel_fails(seed, &failure),
        }
    }
    assert!(ends > 100, "{ends} ended");
}

/// Three calls, of the instruction sets A, B and A, and a jump from the last one to the first; all that eight times. The first
/// one returns 20 + its island.
fn inner_to_outer() -> [Function; 4] {
    fn first(body: &mut Body<'_>) {
        body.enter(1);
        store(body, body.program.asm.roles.stack, SP);
        body.call(address_of(2));
        body.program.exit(94);
    }
    fn jumps_out(body: &mut Body<'_>) {
        body.enter(1);
        let sp = body.program.asm.roles.saved[0];
        load(body, sp, SP);
        body.program.arg(0, Isa::AArch64 as u64);
        body.program.arg_from(1, sp);
        body.program.arg(2, address_of(4));
        body.program.arg_from(3, sp);
        body.program.call_as_is(Sys::Jump);
        body.program.exit(93);
    }
    fn returns(body: &mut Body<'_>) {
        // As the first function does.
        body.enter(1);
        body.program.asm.mov(body.program.asm.roles.stack, body.program.asm.roles.args[0]);
        let [count, enough, ..] = body.program.asm.roles.saved;
        let again = body.program.asm.label();
        load(body, count, COUNT);
        body.program.asm.op_i(Op::Addi, count, count, 1);
        store(body, count, COUNT);
        body.program.asm.li(enough, 8);
        body.program.asm.branch(Op::Bltu, count, enough, again);
        body.program.call_as_is(Sys::Island);
        let result = body.result();
        body.program.asm.op_i(Op::Addi, result, result, 20);
        body.leave();
        body.program.asm.bind(again);
        body.call(address_of(2));
        body.program.exit(92);
    }
    [
        function("first", Some(Isa::AArch64), first),
        function("between", Some(Isa::RiscV64), calls::<3>),
        function("jumps_out", Some(Isa::AArch64), jumps_out),
        function("returns", None, returns),
    ]
}

#[test]
fn a_jump_from_the_innermost_call_may_lead_to_an_outer_one_of_its_instruction_set() {
    let main = function("main", None, |body| {
        body.call(address_of(1));
        exit_with_result(body);
    });
    let functions = [&[main], &inner_to_outer()[..]].concat();
    everywhere(4, &scenario(&functions), 21, "");
}

#[test]
fn a_machine_survives_an_island_that_dies_while_a_jump_leads_over_it() {
    let deaths = survives_deaths(&parent_and_child(&inner_to_outer()));
    // Few: a caller that a jump leads over is not missed.
    assert!(deaths.killed > 0 && deaths.harmless > 50, "{deaths:?}");
}

fn plus_one<const CALLED: usize>(body: &mut Body<'_>) {
    body.enter(1);
    body.call(address_of(CALLED));
    let result = body.result();
    body.program.asm.op_i(Op::Addi, result, result, 1);
    body.leave();
}

/// The function that takes the place of the one that is left returns to its caller.
#[test]
fn the_caller_of_a_function_that_is_left_calls_another_one() {
    let functions = |last: Isa| {
        [
            function("main", None, |body| {
                body.call(address_of(1));
                exit_with_result(body);
            }),
            function("on_arm", Some(Isa::AArch64), plus_one::<2>),
            function("on_x86", Some(Isa::X86_64), plus_one::<3>),
            function("left", Some(last), |body| {
                body.enter(1);
                body.program.call(Sys::Leave, &[address_of(4), 20]);
                body.program.exit(99);
            }),
            function("instead", None, |body| {
                body.enter(1);
                body.store(body.argument(), 0);
                body.program.call_as_is(Sys::Island);
                let (result, scratch) = (body.result(), body.scratch());
                body.load(scratch, 0);
                body.program.asm.op(Op::Add, result, result, scratch);
                body.leave();
            }),
        ]
    };
    for last in [Isa::RiscV64, Isa::AArch64] {
        everywhere(4, &scenario(&functions(last)), 22, "");
    }
}

/// Whatever a program passes, it gets an error, or jumps within itself.
#[test]
fn impossible_jumps_are_refused() {
    const EFAULT: u64 = 14;
    const EINVAL: u64 = 22;
    const KERNEL: u64 = 0xffff_8000_0000_0000;
    const X86: u64 = Isa::X86_64 as u64;
    let functions = [
        function("main", None, |body| {
            for isa in [0, Isa::AArch64 as u64, Isa::RiscV64 as u64, Isa::Hosted as u64, 5, u64::MAX] {
                body.program.call(Sys::Jump, &[isa, SP, address_of(1), 0, 0]);
                expect_errno(body, EINVAL, 90);
            }
            body.program.call(Sys::Leave, &[address_of(1), 0]);
            expect_errno(body, EINVAL, 91);
            body.program.call(Sys::CallOn, &[0, address_of(2), 0]);
            body.call(address_of(1));
            exit_with_result(body);
        }),
        function("on_riscv", Some(Isa::RiscV64), |body| {
            body.enter(1);
            for sp in [0, 1, SP, KERNEL, u64::MAX] {
                for function in [USER_END, KERNEL, 1 << 47, u64::MAX] {
                    body.program.call(Sys::Jump, &[X86, sp, function, 0, 0]);
                    expect_errno(body, EFAULT, 92);
                }
                body.program.call(Sys::Jump, &[Isa::AArch64 as u64, sp, address_of(1), 0, 0]);
                expect_errno(body, EINVAL, 93);
            }
            body.program.call(Sys::Leave, &[KERNEL, 0]);
            expect_errno(body, EFAULT, 94);
            let result = body.result();
            body.program.asm.li(result, 7);
            body.leave();
        }),
        // Its caller has executed no call, in the place of which another function could be called.
        function("by_system_call", None, |body| {
            body.enter(1);
            body.program.call(Sys::Leave, &[address_of(1), 0]);
            expect_errno(body, EINVAL, 95);
            body.leave();
        }),
    ];
    everywhere(2, &scenario(&functions), 7, "");
}

/// To a stack pointer that no call has, but one of its instruction set could have: the process faults, and not the kernel.
#[test]
fn a_jump_into_nowhere_is_a_fault_of_the_program() {
    let functions = [
        function("main", None, |body| {
            body.call(address_of(1));
            body.program.exit(0);
        }),
        function("on_riscv", Some(Isa::RiscV64), |body| {
            body.enter(1);
            body.program.call(Sys::Jump, &[Isa::X86_64 as u64, u64::MAX, USER_END - 8, 0, 0]);
            body.program.exit(1);
        }),
    ];
    let ended = under(Driver::Seeded(1), Faults::default(), &scenario(&functions)).unwrap();
    assert_eq!(ended.status, 128 + 11, "{}", ended.errors);
}
