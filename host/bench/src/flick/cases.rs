//! Calls that are not the best case, one by one, by Flick's protocol and by this kernel's on the same machine.

use std::{fmt::Write, path::PathBuf, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use super::machines::{Bench, FLICK_QUANTUM_US, Run, island_of};
use crate::{
    motet::Described,
    project,
    report::{Measurement, number},
};

const AT_MOST: Duration = Duration::from_secs(600);
/// Calls of each case.
const CALLS: u64 = 1000;
const QUICK_CALLS: u64 = 100;
/// Processes, each of which is measured at its first call.
const PROCESSES: u64 = 40;
const QUICK_PROCESSES: u64 = 10;
/// What a call takes at most that makes a system call, in microseconds.
const SYSCALL_TARGET_US: f64 = 20.0;

/// A case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    /// As metrics name it, and the guest program with other dashes.
    name: &'static str,
    /// Its name in tables and on the page.
    what: &'static str,
}

/// All of them, in the order of the table. The first is what the others are compared with.
const KINDS: [Kind; 10] = [
    kind("null", "nothing else: the best case"),
    kind("cold", "the first call of a process"),
    kind("six_arguments", "6 integers as arguments"),
    kind("twelve_arguments", "12 integers as arguments"),
    kind("doubles", "3 doubles as arguments, one as result"),
    kind("two_threads", "two threads of a process call in turn"),
    kind("busy", "another process has the NxP compute for 100 us at a time"),
    kind("sleeping", "the NxP does not poll, and is rung"),
    kind("syscall", "the function makes a system call"),
    kind("callback", "the function calls one of the host"),
];

const fn kind(name: &'static str, what: &'static str) -> Kind {
    Kind { name, what }
}

/// What single calls took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    /// The median, in microseconds.
    pub median_us: f64,
    /// What 99 of 100 calls do not exceed.
    pub p99_us: f64,
}

/// A case that was measured.
#[derive(Clone, Debug)]
pub struct Case {
    kind: Kind,
    /// How many calls.
    calls: usize,
    /// By Flick's protocol, and by this kernel's.
    times: [Times; 2],
    described: String,
}

/// Measures all cases.
///
/// # Errors
/// A run fails, a function did not run where it should, or had another result.
pub fn measure(bench: &Bench, quick: bool) -> Result<Vec<Case>> {
    let program = bench.program("cases")?;
    let direct = bench.machine("flick")?;
    let described = project::describe(&direct.machine)?;
    let protocols = [bench.migrating(&direct)?, direct];
    let sleeping = [bench.unpolled(&protocols[0])?, bench.unpolled(&protocols[1])?];
    let mut cases = Vec::new();
    for kind in KINDS {
        let machines = if kind.name == "sleeping" { &sleeping } else { &protocols };
        let of = |machine: &Described| single_calls(bench, &program, machine, kind, quick);
        let [flick, ours] = [of(&machines[0])?, of(&machines[1])?];
        let case = Case { kind, calls: ours.len(), times: [flick, ours].map(Times::of), described: described.clone() };
        let [flick, flick_p99, ours, p99] = case.shown();
        eprintln!("motet: {}: {ours} us (p99 {p99}), by Flick's protocol {flick} (p99 {flick_p99})", kind.what);
        cases.push(case);
    }
    Ok(cases)
}

/// Nanoseconds of each call of a case.
fn single_calls(bench: &Bench, program: &PathBuf, machine: &Described, kind: Kind, quick: bool) -> Result<Vec<u64>> {
    let islands = [island_of(machine, Isa::X86_64)?, island_of(machine, Isa::RiscV64)?];
    let (calls, processes) = if quick { (QUICK_CALLS, QUICK_PROCESSES) } else { (CALLS, PROCESSES) };
    let case = kind.case();
    let command = match kind.name {
        "cold" => format!("n=0; while [ $n -lt {processes} ]; do /in/cases {case} 1 || exit 1; n=$((n+1)); done"),
        _ => format!("/in/cases {case} {calls}"),
    };
    let run = bench.run(machine, FLICK_QUANTUM_US, &[program], &command, AT_MOST)?;
    let took_ns = times_ns(&run.output)?;
    // By each process; all but cold ones have made one before.
    let wanted = if kind.name == "cold" { 1 } else { took_ns.len() as u64 + 1 };
    check_crossings(&run, islands, wanted, &command)?;
    Ok(took_ns)
}

/// Threads may call twice for one call, where the second one's descriptor finds no place; none may be missing.
fn check_crossings(run: &Run, [from, to]: [usize; 2], wanted: u64, command: &str) -> Result<()> {
    let crossed = run.crossings(from, to)?;
    if crossed >= wanted {
        return Ok(());
    }
    let message = format!("{command}: {crossed} calls crossed, and {wanted} should have");
    Err(Error::new(ErrorKind::Software, message))
}

/// What calls took in nanoseconds, without the clock's part, from what the guest program prints.
fn times_ns(output: &str) -> Result<Vec<u64>> {
    let bad = || Error::new(ErrorKind::Software, format!("no times of calls in the output:\n{output}"));
    let (mut clock_ns, mut took_ns) = (None, Vec::new());
    for line in output.lines() {
        let value = |text: &str| text.parse::<u64>().map_err(|_| bad());
        if let Some(text) = line.strip_prefix("clock ") {
            clock_ns = Some(value(text)?);
        } else if let Some(text) = line.strip_prefix("call ") {
            took_ns.push(value(text)?.saturating_sub(clock_ns.ok_or_else(bad)?));
        }
    }
    if took_ns.is_empty() { Err(bad()) } else { Ok(took_ns) }
}

impl Kind {
    /// The guest program's word for it: where the NxP sleeps, a null call.
    fn case(self) -> String {
        if self.name == "sleeping" { "null".into() } else { self.name.replace('_', "-") }
    }
}

impl Times {
    /// By nearest rank.
    fn of(mut took_ns: Vec<u64>) -> Self {
        took_ns.sort_unstable();
        let at = |percent: usize| {
            let rank = (took_ns.len() * percent).div_ceil(100).max(1);
            took_ns.get(rank - 1).map_or(f64::NAN, |&ns| ns as f64 / 1e3)
        };
        Self { median_us: at(50), p99_us: at(99) }
    }
}

impl Case {
    /// Median and 99th percentile, by Flick's protocol and by this kernel's.
    fn shown(&self) -> [String; 4] {
        let [flick, ours] = self.times;
        [flick.median_us, flick.p99_us, ours.median_us, ours.p99_us].map(number)
    }
}

/// The figures of all cases.
pub fn measurements(cases: &[Case]) -> Vec<Measurement> {
    let mut all = Vec::new();
    for case in cases {
        // As it is called where its target is named.
        let ours = if case.kind.name == "syscall" { "call_with_syscall" } else { &format!("call_{}", case.kind.name) };
        for (name, times) in [format!("flick_protocol_call_{}", case.kind.name), ours.to_owned()].iter().zip(case.times)
        {
            let target = (name == "call_with_syscall").then_some(SYSCALL_TARGET_US);
            let values = [("us", times.median_us, target, "median"), ("p99_us", times.p99_us, None, "99th percentile")];
            for (end, value, target, what) in values {
                all.push(Measurement {
                    metric: format!("{name}_{end}"),
                    value,
                    unit: "us",
                    machine: case.described.clone(),
                    reference: None,
                    target,
                    source: format!("machines/flick.toml, {} calls, {what}: {}", case.calls, case.kind.what),
                });
            }
        }
    }
    all
}

/// The headings of the columns of [`rows`].
pub const COLUMNS: [&str; 6] =
    ["a call on the NxP: us", "Flick's protocol", "p99", "Motet", "p99", "Flick's time / Motet's"];

/// A row for each case.
pub fn rows(cases: &[Case]) -> Vec<[String; 6]> {
    let row = |case: &Case| {
        let [flick, flick_p99, ours, p99] = case.shown();
        let ratio = number(case.times[0].median_us / case.times[1].median_us);
        [case.kind.what.to_owned(), flick, flick_p99, ours, p99, ratio]
    };
    cases.iter().map(row).collect()
}

/// The cases, for people.
pub fn table(cases: &[Case]) -> String {
    let mut text = String::new();
    let rows = rows(cases);
    for row in (!rows.is_empty()).then(|| COLUMNS.map(str::to_owned)).iter().chain(&rows) {
        let [what, flick, flick_p99, ours, p99, ratio] = row;
        let _ = writeln!(text, "  {what:<58}{flick:>18}{flick_p99:>10}{ours:>10}{p99:>10}{ratio:>25}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(kind: Kind) -> Case {
        let times = |us| Times { median_us: us, p99_us: us + 10.0 };
        Case { kind, calls: 2, times: [times(24.0), times(12.0)], described: String::new() }
    }

    #[test]
    fn the_clocks_part_is_not_the_calls() {
        let output = "clock 456\ncall 10456\ncall 400\nfrom to calls\n0 1 3\n";
        assert_eq!(times_ns(output).unwrap(), [10_000, 0]);
        // Of several processes, each with its own clock.
        assert_eq!(times_ns("clock 1\ncall 11\nclock 2\ncall 22\n").unwrap(), [10, 20]);
        for bad in ["", "clock 456\n", "call 10\n", "clock 1\ncall ten\n"] {
            assert!(times_ns(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentiles_are_calls_that_were_made() {
        let times = Times::of((1..=200).rev().map(|us| us * 1000).collect());
        assert_eq!(times, Times { median_us: 100.0, p99_us: 198.0 });
        assert_eq!(Times::of(vec![7000]), Times { median_us: 7.0, p99_us: 7.0 });
    }

    #[test]
    fn a_call_that_did_not_cross_is_an_error() {
        let run = |output: &str| Run { output: output.into(), stats: motet_fabric::stats::Stats::default() };
        let crossed = run("from to calls\n0 1 101\npages_run_locally 0\ncalls_run_locally 0\n");
        assert!(check_crossings(&crossed, [0, 1], 101, "").is_ok());
        assert!(check_crossings(&crossed, [0, 1], 102, "").is_err());
        assert!(check_crossings(&crossed, [0, 2], 1, "").is_err());
    }

    #[test]
    fn each_case_has_a_median_and_a_percentile_by_both_protocols() {
        let cases = KINDS.map(case);
        let all = measurements(&cases);
        assert_eq!(all.len(), 4 * KINDS.len());
        let value = |metric: &str| all.iter().find(|one| one.metric == metric).map(|one| (one.value, one.target));
        assert_eq!(value("flick_protocol_call_cold_p99_us"), Some((34.0, None)));
        assert_eq!(value("call_with_syscall_us"), Some((12.0, Some(SYSCALL_TARGET_US))));
        assert!(table(&cases).lines().count() == 1 + KINDS.len() && table(&[]).is_empty());
        assert_eq!(rows(&cases)[0][5], "2.000");
    }
}
