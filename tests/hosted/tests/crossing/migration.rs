//! Calls by Flick's protocol.

use motet_hal_hosted::{Config, Driver, Faults, isa::Op, run_seeds};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::{
    ROUGH, Scenario, boot,
    calls::Sys,
    everywhere,
    fat::{Body, Function, address_of, executable},
    has_died_with_a_lock, three_islands,
};

use super::{
    STEPS_MAX,
    crowd::{self, CHILDREN},
    deaths::survives_deaths,
    env, exit_with_digits, fibonacci, fibonacci_of_three, function, parent_and_child, scenario,
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

/// The island that functions run on dies: at home, there, and on the way.
#[test]
fn a_machine_survives_an_island_that_dies_while_threads_are_there() {
    let deaths = survives_deaths(&Scenario {
        migrates: true,
        ..parent_and_child(&[
            function("on_riscv", Some(Isa::RiscV64), |body| fibonacci(body, address_of(2), address_of(1))),
            function("on_arm", Some(Isa::AArch64), |body| fibonacci(body, address_of(1), address_of(2))),
        ])
    });
    assert!(deaths.killed > 10 && deaths.harmless > 10, "{deaths:?}");
}

/// The island that functions come from, and return to, dies.
#[test]
fn a_machine_survives_an_island_that_dies_while_its_threads_are_elsewhere() {
    let home = [
        function("main", None, |body| {
            body.program.arg(0, 9);
            body.call(address_of(1));
            body.program.exit(0);
        }),
        function("on_x86", Some(Isa::X86_64), |body| fibonacci(body, address_of(2), address_of(3))),
        function("on_arm", Some(Isa::AArch64), |body| fibonacci(body, address_of(1), address_of(3))),
        function("on_riscv", Some(Isa::RiscV64), |body| fibonacci(body, address_of(2), address_of(1))),
    ];
    let mut scenario = parent_and_child(&[function("goes_home", None, |body| body.program.exec("/home"))]);
    scenario.files.push(("home", executable(Isa::RiscV64, &home)));
    let deaths = survives_deaths(&Scenario { migrates: true, ..scenario });
    assert!(deaths.killed > 10 && deaths.harmless > 10, "{deaths:?}");
}

/// A core dies that several homes share: engines find its place taken, functions there call back, and descriptors are on their way in both
/// directions. Whose thread was there or under way ends, and later calls find that island no more.
#[test]
fn homes_that_share_a_core_survive_its_death() {
    let (mut killed, mut whole) = (0, 0);
    let crowd_at = |seed: u64, death: Option<u64>| {
        let mut config = Config::new(Driver::Seeded(seed), three_islands([3, 1, 2]));
        config.faults = Faults { death: death.map(|step| (IslandId(1), step)), survives: true, ..ROUGH };
        config.steps_max = STEPS_MAX;
        boot(config, &Scenario { migrates: true, ..crowd::crowd(seed % 2 == 1) })
    };
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 2) {
        let steps = crowd_at(seed, None).unwrap().steps;
        for step in (steps / 4 + seed..steps).step_by(env("MOTET_STRIDE", 211) as usize) {
            let place = format!("seed {seed}, death at step {step}");
            match crowd_at(seed, Some(step)) {
                Ok(ended) => {
                    let ends = ended.errors.matches("is killed").count();
                    assert_eq!(
                        (ended.status, ended.output),
                        (0, "right\n".repeat(CHILDREN as usize - ends)),
                        "{place}: {}",
                        ended.errors
                    );
                    *(if ends == 0 { &mut whole } else { &mut killed }) += 1;
                }
                Err(failure) => {
                    assert!(has_died_with_a_lock(&failure), "{place}: {failure}");
                }
            }
        }
    }
    println!("{killed} with somebody killed, {whole} without");
    assert!(killed > 10, "{killed} with somebody killed, {whole} without");
}
