//! Cores that are taken out and come back (`docs/protocols/hotplug.md`) while threads go to vector registers and back, memory is taken from under
//! them, signals come, and processes fork and are killed.

use motet_hal_hosted::{Config, Driver, Failure, Faults, IslandConfig, run_seeds};
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::Program;
use motet_tests_hosted::{Ended, ROUGH, boot};

use super::hidden::storms;
use super::{NAP, SEEDS};

/// `AT_FDCWD`.
const HERE: u64 = (-100_i64).cast_unsigned();
const WRITE_ONLY: u64 = 1;
/// Status of a process that could not take a core out, or have it back.
const REFUSED: u64 = 52;

/// Writes a text to a file in sysfs of a core, or of a hidden hart.
fn set_online(program: &mut Program, what: &str, text: &str) {
    let [fd, ..] = program.asm.roles.saved;
    program.arg(0, HERE);
    program.arg_string(1, &format!("/sys/devices/system/cpu/{what}/online"));
    program.arg(2, WRITE_ONLY);
    program.arg(3, 0);
    program.call_as_is(Sys::Openat);
    program.or_exit(REFUSED);
    program.result_to(fd);
    program.arg_from(0, fd);
    program.arg_string(1, text);
    program.arg(2, text.len() as u64);
    program.call_as_is(Sys::Write);
    program.or_exit(REFUSED);
    program.arg_from(0, fd);
    program.call_as_is(Sys::Close);
}

/// Takes cores and hidden harts out and has them back, for ever.
fn remover(program: &mut Program, all: &[&str]) {
    let again = program.asm.here();
    for &what in all {
        set_online(program, what, "0\n");
        program.call(Sys::Nanosleep, &[NAP, 0]);
        set_online(program, what, "1");
        program.call(Sys::Nanosleep, &[NAP, 0]);
    }
    program.asm.jump(again);
}

fn of_hidden(program: &mut Program) {
    remover(program, &["cpu1", "hidden/hart0", "cpu0", "hidden/hart1"]);
}

fn of_two_islands(program: &mut Program) {
    remover(program, &["cpu1", "cpu17", "cpu0", "cpu16"]);
}

/// Who takes cores out.
type Remover = fn(&mut Program);

fn machines() -> [(Vec<IslandConfig>, Remover); 3] {
    let (plain, vectors) = (|| IslandConfig::foreign(Isa::RiscV64, 2), || IslandConfig::with_vectors(2, 16));
    [
        (vec![plain(), vectors()], of_two_islands),
        (vec![vectors(), vectors()], of_two_islands),
        (vec![IslandConfig::with_hidden(2, 2, 16)], of_hidden),
    ]
}

fn run(driver: Driver, faults: Faults, islands: Vec<IslandConfig>, beside: Remover) -> Result<Ended, Failure> {
    let mut config = Config::new(driver, islands);
    config.faults = faults;
    boot(config, &storms(Some(beside)))
}

#[test]
fn cores_are_taken_out_and_come_back_in_storms() {
    for (index, (islands, beside)) in machines().into_iter().enumerate() {
        let judge = |what: String, ended: Ended| {
            assert_eq!((ended.status, ended.output.as_str()), (0, "kept\n"), "{what}: {}", ended.errors);
        };
        for (first, faults) in [(0, Faults::default()), (1000, ROUGH)] {
            run_seeds(first..first + SEEDS, |seed| {
                run(Driver::Seeded(seed), faults, islands.clone(), beside)
                    .map(|ended| judge(format!("machine {index}, seed {seed}"), ended))
            });
        }
        match run(Driver::Threads, Faults::default(), islands, beside) {
            Ok(ended) => judge(format!("machine {index}, threads"), ended),
            Err(failure) => panic!("machine {index}, threads: {failure}"),
        }
    }
}
