//! Valgrind's cachegrind on the same program: without a kernel, by virtual addresses, on the host's own processor.

use std::{path::Path, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use super::{
    Cache, Geometry, USUAL,
    accuracy::beyond,
    machine::{self, Program},
    tools::Tools,
};
use crate::{
    process,
    project::{self, Project, file_error},
    report::Measurement,
};

const AT_MOST: Duration = Duration::from_secs(600);

/// The second level is so large that a program fits with room to spare, or not at all: in between, it matters which
/// physical pages a program gets, and cachegrind knows only virtual ones.
const GEOMETRY: Geometry = Geometry { l2: Some(Cache { size: 4 << 20, ways: 16 }), ..USUAL };

/// What cachegrind counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    instructions: u64,
    l1i_misses: u64,
    l1d_misses: u64,
    last_misses: u64,
}

impl Counts {
    fn beyond(&self, other: &Self) -> Self {
        Self {
            instructions: self.instructions.saturating_sub(other.instructions),
            l1i_misses: self.l1i_misses.saturating_sub(other.l1i_misses),
            l1d_misses: self.l1d_misses.saturating_sub(other.l1d_misses),
            last_misses: self.last_misses.saturating_sub(other.last_misses),
        }
    }
}

/// Misses per 1000 instructions of a program on x86-64, ours beside cachegrind's.
///
/// # Errors
/// Either of them does not run the program to its end.
pub fn compare(project: &Project, tools: &Tools, program: Program) -> Result<Vec<Measurement>> {
    if Isa::X86_64.name() != std::env::consts::ARCH {
        eprintln!("motet: {} beside cachegrind: only on x86-64 hosts", program.name);
        return Ok(Vec::new());
    }
    eprintln!("motet: {} beside Valgrind's cachegrind", program.name);
    let isa = Isa::X86_64;
    let folder = project.scratch("cachegrind")?;
    let machine = machine::describe(&folder, &[isa], &GEOMETRY)?;
    let programs = machine::programs(project, &folder)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for program in [program, program.with(2 * program.count)] {
        theirs.push(cachegrind(project, tools, program, &folder)?);
        let stats = folder.join("stats.json");
        let options = ["--timed", "--deterministic", "--stats", &stats.display().to_string()].map(str::to_owned);
        let command = program.command(isa);
        process::expect(&mut machine::run(project, &machine, &programs, &options, &command), AT_MOST)?;
        ours.push(machine::read_stats(&stats)?.cores.first().cloned().unwrap_or_default());
    }
    let (ours, theirs) = (beyond(&ours[1], &ours[0]), theirs[1].beyond(&theirs[0]));
    let last = ours.count("l2d_misses") + ours.count("l2i_misses");
    let described = project::describe(&machine.machine)?;
    let pairs = [
        ("l1d", ours.count("l1d_misses"), theirs.l1d_misses),
        ("l1i", ours.count("l1i_misses"), theirs.l1i_misses),
        ("l2", last, theirs.last_misses),
    ];
    let per_thousand = |misses: u64, instructions: u64| 1000.0 * misses as f64 / instructions.max(1) as f64;
    let measurement = |(level, ours_missed, theirs_missed): (&str, u64, u64)| Measurement {
        metric: format!("{level}_misses_per_1000_instructions_{}", program.name),
        value: per_thousand(ours_missed, ours.instructions),
        unit: "1/1000",
        machine: described.clone(),
        reference: Some(per_thousand(theirs_missed, theirs.instructions)),
        target: None,
        source: format!(
            "{ours_missed} misses, {} instructions with the kernel's; reference: cachegrind, {theirs_missed} and {}",
            ours.instructions, theirs.instructions
        ),
    };
    Ok(pairs.into_iter().map(measurement).collect())
}

fn cachegrind(project: &Project, tools: &Tools, program: Program, folder: &Path) -> Result<Counts> {
    let out = folder.join("cachegrind.out");
    let cache = |name: &str, cache: Cache| format!("--{name}={},{},64", cache.size, cache.ways);
    let mut valgrind = tools.valgrind();
    valgrind.args(["--tool=cachegrind", "--cache-sim=yes", &cache("I1", GEOMETRY.l1i), &cache("D1", GEOMETRY.l1d)]);
    valgrind.args(GEOMETRY.l2.map(|l2| cache("LL", l2)));
    valgrind.arg(format!("--cachegrind-out-file={}", out.display()));
    valgrind.arg(project.float_program(Isa::X86_64, "kernels")?);
    valgrind.args(program.arguments.split(' ')).arg(program.count.to_string());
    process::expect(&mut valgrind, AT_MOST)?;
    let text = std::fs::read_to_string(&out).map_err(file_error(&out))?;
    parse(&text).ok_or_else(|| Error::new(ErrorKind::Software, format!("{}: no summary", out.display())))
}

fn parse(text: &str) -> Option<Counts> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let names: Vec<&str> = line("events: ")?.split_whitespace().collect();
    let counts: Vec<u64> =
        line("summary: ")?.split_whitespace().map(|count| count.parse().ok()).collect::<Option<_>>()?;
    let count = |name: &str| names.iter().zip(&counts).find(|(other, _)| **other == name).map(|(_, count)| *count);
    Some(Counts {
        instructions: count("Ir")?,
        l1i_misses: count("I1mr")?,
        l1d_misses: count("D1mr")? + count("D1mw")?,
        last_misses: count("ILmr")? + count("DLmr")? + count("DLmw")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_read_by_name() {
        let text = "desc: I1 cache\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nfn=a\n1 2\nsummary: 100 1 2 30 4 5 20 6 7\n";
        let wanted = Counts { instructions: 100, l1i_misses: 1, l1d_misses: 10, last_misses: 14 };
        assert_eq!(parse(text), Some(wanted));
        assert_eq!(parse("events: Ir\nsummary: x\n"), None);
    }
}
