//! Litmus tests: C11's memory model between threads on islands of all instruction sets, for programs of `motet cc`.

use std::{fs, thread};

use crate::{
    crossing::source,
    hthreads::Tested,
    trial::{Trial, of_long, trial},
};

type Test = fn() -> Result<(), String>;

/// Two cores for each instruction set: threads of one test run at the same time.
const MACHINE: &str = "[pool]\nsize = \"256MiB\"\n\
    [[island]]\nname = \"x86\"\nisa = \"x86_64\"\ncores = 2\n\
    [[island]]\nname = \"arm\"\nisa = \"aarch64\"\ncores = 2\n\
    [[island]]\nname = \"riscv\"\nisa = \"riscv64\"\ncores = 2\n";
/// Of each test on each choice of islands, where what is slow is asked for; otherwise half as many.
const ITERATIONS: u32 = 100_000;
/// Of tests that allow a store to be delayed: one in a hundred shows it, if the host runs two of the machine's cores at a time.
const ENOUGH: u64 = 100_000;
/// Shapes, with the number of ways in which their accesses are written, and of choices of islands.
const SHAPES: [(&str, usize, usize); 5] = [("SB", 5, 9), ("MP", 4, 9), ("LB", 4, 9), ("2+2W", 4, 9), ("IRIW", 4, 6)];

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 1] =
        [("litmus::programs_see_of_each_others_accesses_what_c11_allows", between_instruction_sets)];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// What the program says of a test on some islands.
struct Outcome<'a> {
    /// Shape and way.
    test: &'a str,
    shape: &'a str,
    weak: u64,
    iterations: u64,
}

impl<'a> Outcome<'a> {
    /// `SHAPE WAY ISLAND...: N weak of M, T ms`.
    fn read(line: &'a str) -> Option<Self> {
        let (what, counts) = line.split_once(": ")?;
        let mut words = counts.trim_start_matches("FORBIDDEN ").split([' ', ',']);
        let (weak, iterations) = (words.next()?.parse().ok()?, words.nth(2)?.parse().ok()?);
        let (shape, rest) = what.split_once(' ')?;
        let way = rest.split(' ').next()?;
        Some(Self { test: &what[..shape.len() + 1 + way.len()], shape, weak, iterations })
    }
}

/// Whether more runs on the host (in the last minute) than it has processors, so that two cores of a machine may never run at a time.
fn is_host_busy() -> bool {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    load.is_none_or(|load| load > processors as f64)
}

fn between_instruction_sets() -> Result<(), String> {
    let tested = Tested::new(MACHINE)?;
    tested.programs.compile(&source("litmus"), "litmus", &["-O2"])?;
    let is_busy = is_host_busy();
    let ended = tested.run(&[], &format!("/in/programs/litmus {}", of_long(ITERATIONS / 2, ITERATIONS)));
    let outcomes: Vec<Outcome<'_>> = ended.output.lines().filter_map(Outcome::read).collect();
    let mut tests: Vec<&str> = outcomes.iter().map(|outcome| outcome.test).collect();
    tests.dedup();
    for test in tests {
        let of = || outcomes.iter().filter(|outcome| outcome.test == test);
        let (weak, all) = (of().map(|one| one.weak).sum::<u64>(), of().map(|one| one.iterations).sum::<u64>());
        eprintln!("{test}: {weak} weak of {all}");
    }
    ended.expect_code(0)?;
    for (shape, ways, choices) in SHAPES {
        let found = outcomes.iter().filter(|outcome| outcome.shape == shape).count();
        if found != ways * choices {
            return Err(format!("{found} outcomes of {shape}, not {}\n{}", ways * choices, ended.describe()));
        }
    }
    // Otherwise the tests cannot see what they look for. (That loads are not done in order, or stores seen in another one, an x86-64 host does not show.)
    let allowed = || outcomes.iter().filter(|outcome| ["SB relaxed", "SB release_acquire"].contains(&outcome.test));
    let (weak, iterations) =
        (allowed().map(|one| one.weak).sum::<u64>(), allowed().map(|one| one.iterations).sum::<u64>());
    if weak == 0 && is_busy {
        eprintln!("no store was delayed; the host was busy, so this says nothing");
    } else if weak == 0 && iterations >= ENOUGH {
        return Err(format!("no store was delayed, though nothing forbids it\n{}", ended.describe()));
    }
    Ok(())
}
