//! The service core (`docs/protocols/service.md`) as programs without a library see it: whose objects are whose, clients that die or store
//! nonsense, and operations of all instruction sets that add up; by the host's thread, and by the simulator.

use std::{fs, path::PathBuf};

use crate::{
    crossing::{Programs, compiled},
    process::{self, Ended, Motet},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// Clients that are killed between a request and its answer, or anywhere else.
const KILLED: &str = "killed 1000";
/// Twelve processes on cores of three instruction sets; each iteration locks a mutex and unlocks it, so a million operations.
const COUNTED: &str = "counted 3 12 42000";
/// As many as a busy host's thread can answer.
const COUNTED_UNTIMED: &str = "counted 3 12 2000";

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 8] = [
        ("service::what_kernels_refuse_of_the_device", || everywhere("refusals")),
        ("service::a_process_sees_its_own_objects_only", || everywhere("strangers")),
        ("service::mutexes_of_a_killed_client_are_others", || on(&Machine::Coherent, KILLED)),
        ("service::mutexes_of_a_killed_client_are_others_in_simulated_time", || on(&Machine::WithoutCaches, KILLED)),
        ("service::nonsense_in_registers_is_its_programs_alone", || everywhere(&format!("fuzz 20000 {}", seed()))),
        ("service::operations_of_three_instruction_sets_add_up", || {
            on(&Machine::Twelve { timed: false }, COUNTED_UNTIMED)
        }),
        ("service::a_million_operations_add_up_in_simulated_time", || on(&Machine::Twelve { timed: true }, COUNTED)),
        ("service::machines_without_a_service_core_say_so", absent),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// Not 0, as the generator needs.
fn seed() -> u64 {
    crate::bad_input::seed() | 1
}

enum Machine {
    /// Three islands that cache each other's memory; not timed.
    Coherent,
    /// A master and six slaves that share memory but no caches; timed.
    WithoutCaches,
    /// Four cores of each instruction set.
    Twelve { timed: bool },
}

impl Machine {
    fn file(&self, programs: &Programs) -> Result<PathBuf, String> {
        let cores = match self {
            Self::WithoutCaches => return Ok(process::root().join("machines/hthreads.toml")),
            Self::Coherent => 1,
            Self::Twelve { .. } => 4,
        };
        let islands = ["x86_64", "aarch64", "riscv64"]
            .map(|isa| format!("[[island]]\nname = \"{isa}\"\nisa = \"{isa}\"\ncores = {cores}\n"));
        let path = programs.path.join("machine.toml");
        let text = format!("[pool]\nsize = \"512MiB\"\n{}[[service]]\n", islands.concat());
        fs::write(&path, text).map_err(|error| error.to_string())?;
        Ok(path)
    }

    fn is_timed(&self) -> bool {
        matches!(self, Self::WithoutCaches | Self::Twelve { timed: true })
    }
}

fn run(machine: &Machine, isas: &[&str], part: &str) -> Result<Ended, String> {
    let programs = compiled("service", &["-O2"])?;
    let (file, program) = (machine.file(&programs)?, programs.path.join("service"));
    let command = isas.iter().map(|isa| format!("on {isa} /in/service {part}")).collect::<Vec<_>>().join(" && ");
    let options: &[&str] = if machine.is_timed() { &["--timed", "--quiet"] } else { &["--quiet"] };
    Ok(Motet::run(["--in".as_ref(), program.as_os_str(), "--machine".as_ref(), file.as_os_str()])
        .arguments(options)
        .arguments(["--", &command])
        .wait())
}

fn on(machine: &Machine, part: &str) -> Result<(), String> {
    run(machine, &["riscv64"], part)?.expect_code(0)?.expect_output("right\n").map(drop)
}

/// By the host's thread on each instruction set, and by the simulator where nobody caches what others store.
fn everywhere(part: &str) -> Result<(), String> {
    let ended = run(&Machine::Coherent, &["x86_64", "aarch64", "riscv64"], part)?;
    ended.expect_code(0)?.expect_output("right\nright\nright\n")?;
    let ended = run(&Machine::WithoutCaches, &["aarch64", "riscv64"], part)?;
    ended.expect_code(0)?.expect_output("right\nright\n").map(drop)
}

fn absent() -> Result<(), String> {
    let ended = compiled("service", &["-O2"])?.run("service refusals", None);
    ended.expect_code(1)?.expect_output("no service core: No such device\n").map(drop)
}
