//! The NAS Parallel Benchmarks (`user/npb`) give the published results wherever their thread goes, and with a thread on each island.

use crate::{
    bad_input::of_the_day,
    crossing::Programs,
    hthreads::source,
    process::{Ended, ISAS, Motet},
    trial::{Trial, is_long, trial},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("npb::results_are_the_published_ones_wherever_the_thread_goes", crossing),
        trial("npb::an_island_that_is_missing_is_named", missing),
    ]
}

/// A benchmark, and how often its thread is away in each schedule.
struct Benchmark {
    name: &'static str,
    alternating: u32,
    round_trips: u32,
    /// It can have a thread on each island.
    has_threads: bool,
    /// One schedule is enough where what is slow is not asked for.
    is_slow: bool,
}

const BENCHMARKS: [Benchmark; 6] = [
    Benchmark { name: "is", alternating: 5, round_trips: 10, has_threads: true, is_slow: false },
    Benchmark { name: "cg", alternating: 8, round_trips: 15, has_threads: true, is_slow: false },
    Benchmark { name: "mg", alternating: 2, round_trips: 1, has_threads: false, is_slow: false },
    Benchmark { name: "ft", alternating: 3, round_trips: 1, has_threads: false, is_slow: true },
    Benchmark { name: "ep", alternating: 128, round_trips: 1, has_threads: true, is_slow: true },
    Benchmark { name: "bt", alternating: 30, round_trips: 1, has_threads: false, is_slow: true },
];

/// A run, and what its output has.
struct Run {
    command: String,
    lines: Vec<String>,
}

fn runs(benchmark: &Benchmark) -> Vec<Run> {
    let away = |schedule: &str, place: usize, times: u32| Run {
        command: format!("{} {schedule} {}", benchmark.name, ISAS[place]),
        lines: vec![format!("0 {place} {times}"), said(benchmark.name, schedule, ISAS[place])],
    };
    let alternating = |place| away("alternating", place, benchmark.alternating);
    let round_trips = |place| away("round-trips", place, benchmark.round_trips);
    let threads = || Run {
        command: format!("{} threads", benchmark.name),
        lines: vec!["0 1 1".to_owned(), "0 2 1".to_owned(), said(benchmark.name, "threads", "all")],
    };
    let place = of_the_day(&[1, 2]);
    let mut runs = match (is_long(), benchmark.is_slow, benchmark.has_threads) {
        (true, ..) => vec![alternating(1), alternating(2), round_trips(1), round_trips(2)],
        (false, true, true) => vec![],
        (false, true, false) => vec![alternating(place)],
        (false, false, _) => vec![alternating(place), round_trips(3 - place)],
    };
    if benchmark.has_threads {
        runs.push(threads());
    }
    runs
}

/// The beginning of the last line.
fn said(name: &str, schedule: &str, place: &str) -> String {
    format!("{} class S schedule {schedule} to {place} ", name.to_uppercase())
}

fn compiled(benchmarks: &[Benchmark], options: &[&str]) -> Result<Programs, String> {
    let programs = Programs::new()?;
    for benchmark in benchmarks {
        let file = source(&format!("user/npb/{}.c", benchmark.name));
        programs.compile(&file, benchmark.name, options)?;
    }
    Ok(programs)
}

fn on_machine(programs: &Programs, command: &str) -> Ended {
    Motet::run(["--in".as_ref(), programs.path.as_os_str(), "--".as_ref(), command.as_ref()]).wait()
}

fn crossing() -> Result<(), String> {
    let levels: &[&str] = if is_long() { &["-O2", "-O0"] } else { &["-O2"] };
    for level in levels {
        let programs = compiled(&BENCHMARKS, &["-std=c11", level])?;
        let runs: Vec<Run> = BENCHMARKS.iter().flat_map(runs).collect();
        let commands: Vec<String> =
            runs.iter().map(|run| format!("/in/programs/{} || exit; echo; ", run.command)).collect();
        let ended = on_machine(&programs, &commands.concat());
        ended.expect_code(0)?;
        for (run, output) in runs.iter().zip(ended.output.split("\n\n")) {
            let has = |wanted: &String| {
                output.lines().any(|line| line == wanted || line.starts_with(wanted) && line.ends_with(" verified"))
            };
            if !run.lines.iter().all(has) {
                return Err(format!("{level}, {}: not {:?} in\n{output}", run.command, run.lines));
            }
        }
    }
    Ok(())
}

fn missing() -> Result<(), String> {
    let programs = compiled(&BENCHMARKS[..1], &["-std=c11", "-O2"])?;
    let ended = on_machine(&programs, "/in/programs/is alternating 7");
    ended.expect_code(2)?.expect_errors(&["npb: the machine has no island 7"]).map(drop)
}
