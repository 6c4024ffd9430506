//! What a program may not do, and what is damaged.

use motet_abi::stubs;
use motet_hal_hosted::{Config, Driver, Faults, isa::Op};
use motet_layout::{CALLS_BY_DMA, CALLS_BY_STORES, Isa};
use motet_tests_hosted::{
    ROUGH, boot,
    calls::Sys,
    everywhere,
    fat::{Body, Function, address_of},
    three_islands, under,
};

use super::{
    STEPS_MAX, env, exit_with_result, expect_errno, fibonacci, function, no_kernel_fails, parent_and_child, scenario,
};

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
            body.call(stubs::gate(Isa::X86_64));
            body.program.exit(0);
        })],
        &["returns from a call that it has not made"],
    );
}

/// Neither in a call, where it would end the caller's, nor outside.
#[test]
fn only_the_gate_says_that_a_function_has_returned() {
    const ENOSYS: u64 = 38;
    let functions = [
        function("main", None, |body| {
            body.program.call(Sys::CallReturn, &[]);
            expect_errno(body, ENOSYS, 100);
            body.program.arg(0, 20);
            body.call(address_of(1));
            exit_with_result(body);
        }),
        function("on_riscv", Some(Isa::RiscV64), |body| {
            body.enter(2);
            let (result, argument) = (body.result(), body.argument());
            body.store(argument, 0);
            body.program.call(Sys::CallReturn, &[]);
            expect_errno(body, ENOSYS, 101);
            body.load(result, 0);
            body.program.asm.op_i(Op::Addi, result, result, 1);
            body.leave();
        }),
    ];
    everywhere(4, &scenario(&functions), 21, "");
}

/// Its own registers come back, too, from each ISA.
#[test]
fn a_program_may_unmap_the_gate() {
    fn plus_one(body: &mut Body<'_>) {
        body.enter(1);
        let (result, argument) = (body.result(), body.argument());
        body.program.asm.op_i(Op::Addi, result, argument, 1);
        body.leave();
    }
    let functions = [
        function("main", None, |body| {
            let (result, argument) = (body.result(), body.argument());
            body.program.arg(0, 20);
            body.call(address_of(1));
            body.program.asm.mov(body.program.asm.roles.saved[0], result);
            body.program.call(Sys::Munmap, &[stubs::PAGE, 4096]);
            body.program.asm.mov(argument, body.program.asm.roles.saved[0]);
            for index in [1, 2, 1] {
                body.call(address_of(index));
                body.program.asm.mov(argument, result);
            }
            exit_with_result(body);
        }),
        function("on_arm", Some(Isa::AArch64), plus_one),
        function("on_riscv", Some(Isa::RiscV64), |body| {
            body.enter(1);
            body.call(address_of(3));
            body.leave();
        }),
        function("on_x86", Some(Isa::X86_64), plus_one),
    ];
    everywhere(4, &scenario(&functions), 24, "");
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
fn a_thread_pointer_that_is_no_address_kills() {
    // To a third instruction set, and back to the caller's.
    for isa in [Isa::AArch64, Isa::X86_64] {
        killed(
            &[
                function("main", None, |body| {
                    body.call(address_of(1));
                    body.program.exit(0);
                }),
                function("spoils", Some(Isa::RiscV64), |body| {
                    body.enter(1);
                    let scratch = body.scratch();
                    body.program.asm.li(scratch, 0x1234_5678_0000_0000);
                    body.program.asm.op_i(Op::SetTp, scratch, 0, 0);
                    body.call(address_of(2));
                    body.leave();
                }),
                function("called", Some(isa), |body| {
                    body.enter(1);
                    body.leave();
                }),
            ],
            &[&format!("calls a function for {} with thread pointer 0x1234567800000000", isa.name()), "was called by"],
        );
    }
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
        config.calls_by = if seed % 4 == 3 { CALLS_BY_DMA } else { CALLS_BY_STORES };
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
