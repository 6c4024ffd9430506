//! A thread that becomes ready takes the turn of a less urgent one that computes, wherever that does so (`docs/protocols/service.md`).

use libtest_mimic::Trial;

use crate::{
    hthreads::{MACHINE, Tested, source},
    trial,
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 3] = [
        ("preemption::the_urgent_run_at_once_on_every_island", islands),
        ("preemption::the_urgent_run_at_once_in_simulated_time", timed),
        ("preemption::a_deterministic_run_is_the_same_twice", twice),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// Tests of the program.
const TESTS: &str = "created\nwoken\nby_time\nequal\nowner\nin_a_call\nforeign\nasleep\nsignals\nkilled\n";

fn tested(machine: &str) -> Result<Tested, String> {
    let tested = Tested::new(machine)?;
    tested.programs.compile(&source("tests/guest/hthreads/preemption.c"), "preemption", &["-O2", "-lhthread"])?;
    Ok(tested)
}

/// Those of another instruction set than the program's first thread's are in a call across instruction sets when they lose their turns.
fn islands() -> Result<(), String> {
    let tested = tested(MACHINE)?;
    let runs = [("", 0, 1), ("", 1, 1), ("", 2, 2), ("on riscv64", 2, 2), ("on aarch64", 0, 1)];
    let line = |(before, island, cores): &(&str, u32, u32)| {
        format!("{before} /in/programs/preemption {island} {cores} || exit\n")
    };
    let hybrid = "MOTET_HTHREADS=hybrid /in/programs/preemption 2 2 || exit\n";
    let ended = tested.run(&[], &(runs.iter().map(line).collect::<String>() + hybrid));
    ended.expect_code(0)?.expect_output(&TESTS.repeat(runs.len() + 1)).map(drop)
}

fn timed() -> Result<(), String> {
    let tested = tested(MACHINE)?;
    let ended = tested.run(
        &["--timed"],
        "/in/programs/preemption 1 1 created woken by_time && /in/programs/preemption 2 2 created equal owner foreign asleep",
    );
    ended.expect_code(0)?.expect_output("created\nwoken\nby_time\ncreated\nequal\nowner\nforeign\nasleep\n").map(drop)
}

/// In everything that can be seen: what the program prints has the time in nanoseconds.
fn twice() -> Result<(), String> {
    let tested = tested(MACHINE)?;
    let command = "MOTET_HTHREADS=hardware /in/programs/preemption 2 2 measured; cat /proc/stat";
    let run = || tested.run(&["--timed", "--deterministic"], command).expect_code(0).map(|ended| ended.output.clone());
    let (first, second) = (run()?, run()?);
    if first == second && first.contains(" ns\nmeasured\n") {
        Ok(())
    } else {
        Err(format!("two runs:\n{first}\n{second}"))
    }
}
