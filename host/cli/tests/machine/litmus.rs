//! Litmus tests: C11's memory model between threads on islands of all instruction sets, for programs of `motet cc`.

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
    /// Rounds in which the threads have run at the same time.
    mixed: u64,
}

impl<'a> Outcome<'a> {
    /// `SHAPE WAY ISLAND...: N weak of M, K of L rounds mixed, T ms`.
    fn read(line: &'a str) -> Option<Self> {
        let (what, counts) = line.split_once(": ")?;
        let mut words = counts.trim_start_matches("FORBIDDEN ").split([' ', ',']);
        let (weak, iterations) = (words.next()?.parse().ok()?, words.nth(2)?.parse().ok()?);
        let mixed = words.nth(1)?.parse().ok()?;
        let (shape, rest) = what.split_once(' ')?;
        let way = rest.split(' ').next()?;
        Some(Self { test: &what[..shape.len() + 1 + way.len()], shape, weak, iterations, mixed })
    }
}

fn between_instruction_sets() -> Result<(), String> {
    let tested = Tested::new(MACHINE)?;
    tested.programs.compile(&source("litmus"), "litmus", &["-O2"])?;
    let ended = tested.run(&[], &format!("/in/programs/litmus {}", of_long(ITERATIONS / 2, ITERATIONS)));
    let outcomes: Vec<Outcome<'_>> = ended.output.lines().filter_map(Outcome::read).collect();
    let mut tests: Vec<&str> = outcomes.iter().map(|outcome| outcome.test).collect();
    tests.dedup();
    for test in tests {
        let of = || outcomes.iter().filter(|outcome| outcome.test == test);
        let (weak, all) = (of().map(|one| one.weak).sum::<u64>(), of().map(|one| one.iterations).sum::<u64>());
        let mixed = of().map(|one| one.mixed).sum::<u64>();
        eprintln!("{test}: {weak} weak of {all}, {mixed} rounds mixed");
    }
    ended.expect_code(0)?;
    for (shape, ways, choices) in SHAPES {
        let found = outcomes.iter().filter(|outcome| outcome.shape == shape).count();
        if found != ways * choices {
            return Err(format!("{found} outcomes of {shape}, not {}\n{}", ways * choices, ended.describe()));
        }
    }
    // Otherwise the tests cannot see what they look for. (That loads are not done in order, or stores seen in another one, an x86-64 host does not show.)
    let allowed = outcomes.iter().filter(|outcome| ["SB relaxed", "SB release_acquire"].contains(&outcome.test));
    if allowed.map(|one| one.weak).sum::<u64>() == 0 {
        return Err(format!("no store was delayed, though nothing forbids it\n{}", ended.describe()));
    }
    Ok(())
}
