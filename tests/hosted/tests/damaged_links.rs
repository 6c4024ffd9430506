//! Words that link the kernels' records and that another island has written wrongly: no kernel's fault is an arbitrary one.
//!
//! A list ends at a word that names no object, and the kernel that finds it says so on its console. What contradicts what a kernel knows
//! ends that kernel by a panic that says what it is, and the host ends the machine, or goes on without the island (docs/protocols/crossing.md).
//! No kernel goes along words without end. Somebody may wait for ever for what was lost.

use motet_hal_hosted::{Config, Driver, ENDLESS_WALK, Failure, Faults};
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Ended, ROUGH, Scenario, boot_and_look, env, three_islands};

const PIPE: u64 = DATA + 16;

/// Forks, programs of all instruction sets, pipes and sleeps.
fn scenario() -> Scenario {
    let program = |isa, next: Option<&str>| {
        Program::build(isa, |program| {
            let [pid, value, ..] = program.asm.roles.saved;
            program.store_at(DATA + 0x200, 0);
            program.store_at(DATA + 0x208, 5_000);
            for _ in 0..3 {
                program.call(Sys::Pipe2, &[PIPE, 0]);
                let child = program.fork(pid);
                let behind = program.asm.label();
                program.load_u32(value, PIPE + 4);
                program.arg_from(0, value);
                program.call_as_is(Sys::Close);
                program.load_u32(value, PIPE);
                program.arg_from(0, value);
                program.arg(1, DATA + 0x300);
                program.arg(2, 8);
                program.call_as_is(Sys::Read);
                program.call(Sys::Wait4, &[u64::MAX, 0, 0, 0]);
                program.asm.jump(behind);
                program.asm.bind(child);
                program.call(Sys::Nanosleep, &[DATA + 0x200, 0]);
                program.load_u32(value, PIPE + 4);
                program.arg_from(0, value);
                program.arg(1, DATA + 0x300);
                program.arg(2, 8);
                program.call_as_is(Sys::Write);
                match next {
                    Some(path) => program.exec(path),
                    None => program.exit(0),
                }
                program.asm.bind(behind);
            }
            program.exit(0);
        })
    };
    let files = vec![
        ("first", program(Isa::X86_64, Some("/arm"))),
        ("arm", program(Isa::AArch64, Some("/riscv"))),
        ("riscv", program(Isa::RiscV64, None)),
    ];
    Scenario { files, command: vec!["/first"], ..Scenario::default() }
}

/// What a kernel says that has found damage.
const SAYS: [&str; 1] = ["shared structures are corrupt"];

/// How runs ended.
#[derive(Default, Debug)]
struct Count {
    harmless: u32,
    said: u32,
    named: u32,
    /// Somebody waits for what was lost.
    endless: u32,
    walks: u32,
    other: u32,
}

fn run(seed: u64, faults: Faults) -> Result<Ended, Failure> {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([2, 1, 2]));
    config.faults = faults;
    config.check_stale = faults.damaged_link.is_none();
    config.steps_max = 2_000_000;
    boot_and_look(config, &scenario(), |_| ()).map(|(ended, ())| ended)
}

#[test]
fn a_word_that_links_to_nothing_panics_nobody() {
    let first = env("MOTET_FIRST", 0);
    let mut count = Count::default();
    let mut failures = Vec::new();
    let whole = run(0, ROUGH).unwrap();
    assert_eq!(whole.status, 0, "{}", whole.errors);
    for seed in first..first + env("MOTET_SEEDS", 60) {
        let step = whole.steps / 6 + seed.wrapping_mul(7919) % (whole.steps * 5 / 6);
        match run(seed, Faults { damaged_link: Some(step), ..ROUGH }) {
            Ok(ended) if ended.errors.contains("names no object") => count.said += 1,
            Ok(_) => count.harmless += 1,
            Err(failure) if SAYS.iter().any(|says| failure.message.contains(says)) => count.named += 1,
            Err(failure) if failure.message.contains(ENDLESS_WALK) => {
                count.walks += 1;
                println!("seed {seed}: {failure}");
                failures.push(format!("{ENDLESS_WALK}, seed {seed}"));
            }
            Err(failure) if !failure.message.contains("panicked") => {
                count.endless += 1;
                if env("MOTET_ALL", 0) != 0 {
                    println!("seed {seed}: {failure}");
                }
            }
            Err(failure) => {
                count.other += 1;
                println!("seed {seed}: {failure}");
                failures.push(failure.message.lines().next().unwrap_or_default().to_owned());
            }
        }
    }
    println!("{count:?}");
    failures.sort_unstable();
    failures.iter().for_each(|failure| println!("{failure}"));
    assert!(failures.is_empty(), "{} of {count:?}", failures.len());
}
