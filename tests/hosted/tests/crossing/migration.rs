//! Calls by Flick's protocol.

use motet_hal_hosted::{Config, Driver, Faults, isa::Op, run_seeds};
use motet_layout::Isa;
use motet_tests_hosted::{
    ROUGH, Scenario, boot,
    calls::Sys,
    everywhere,
    fat::{Body, Function},
    three_islands,
};

use super::{
    STEPS_MAX,
    crowd::{self, CHILDREN},
    exit_with_digits, fibonacci_of_three, function, scenario,
};

fn migrating(functions: &[Function]) -> Scenario {
    Scenario { migrates: true, ..scenario(functions) }
}

#[test]
fn calls_nest_and_recurse_over_three_isas() {
    everywhere(8, &Scenario { migrates: true, ..fibonacci_of_three() }, 21, "");
}

/// A function runs on its ISA, and the system calls that it makes are made at home: island 0.
#[test]
fn home_makes_the_system_calls_of_functions_elsewhere() {
    fn isa_and_island(body: &mut Body<'_>) {
        body.enter(1);
        body.program.call_as_is(Sys::Island);
        let result = body.result();
        body.program.asm.op_i(Op::Addi, result, result, body.isa as i32);
        body.leave();
    }
    let functions = [
        function("main", None, exit_with_digits::<2>),
        function("on_arm", Some(Isa::AArch64), isa_and_island),
        function("on_riscv", Some(Isa::RiscV64), isa_and_island),
    ];
    // By this kernel's own protocol the islands would be 1 and 2.
    everywhere(5, &scenario(&functions), 35, "");
    everywhere(5, &migrating(&functions), 23, "");
}

/// Processes of several cores call the same one: engines find its place taken, and functions there call back.
#[test]
fn many_homes_share_a_core() {
    run_seeds(0..40, |seed| {
        let mut config = Config::new(Driver::Seeded(seed), three_islands([3, 1, 2]));
        config.faults = if seed % 4 < 2 { Faults::default() } else { ROUGH };
        config.steps_max = STEPS_MAX;
        let crowd = Scenario { migrates: true, ..crowd::crowd(seed % 2 == 1) };
        boot(config, &crowd).map(|ended| {
            let expected = "right\n".repeat(CHILDREN as usize);
            assert_eq!((ended.status, ended.output), (0, expected), "errors: {}", ended.errors);
        })
    });
}
