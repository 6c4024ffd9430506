//! Islands that die in the middle of calls.

use motet_hal_hosted::{Driver, Failure, Faults};
use motet_layout::{Isa, IslandId};
use motet_tests_hosted::{Ended, ROUGH, Scenario, fat::address_of, has_died_with_a_lock, under};

use super::{env, exit_with_result, fibonacci, function, parent_and_child, scenario};

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

/// The process that uses the island ends, its parent goes on: at every step there is an end that the kernel chose. A lock
/// that the dead island held may end the machine, with a message that says so.
pub fn survives_deaths(scenario: &Scenario) -> Deaths {
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

/// What deaths of islands came to.
#[derive(Default, Debug)]
pub struct Deaths {
    pub killed: u32,
    pub harmless: u32,
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
                assert!(has_died_with_a_lock(&failure), "{place}: {failure}");
                self.locks += 1;
            }
        }
    }
}
