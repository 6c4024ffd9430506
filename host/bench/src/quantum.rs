//! `motet bench quantum`: how much simulated time depends on how far cores may be apart.
//!
//! Three programs that exchange all the time, with quanta from 0.1 to 100 us, in lock-step and in turns (`--deterministic`).
//! docs/benchmarks.md says what the figures mean.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use motet_error::{Error, ErrorKind, Result};
use motet_page::{
    chart::{Curve, Scale, scaled_figure},
    svg::Stroke,
};

use crate::{
    flick::machines::{Bench, Run},
    motet::Described,
    output::Output,
    project::{self, Project},
    report::{Collected, Measurement},
};

/// From the one that the others are compared with.
const QUANTA_NS: [u32; 7] = [100, 250, 1000, 2000, 5000, 10_000, 100_000];
const QUICK: [u32; 2] = [1000, 10_000];
const AT_MOST: Duration = Duration::from_secs(600);
const LINES: u32 = 2000;

const EXAMPLES: &str = "\
Examples:
  ./motet bench quantum --quick            two quanta: a minute
  ./motet bench quantum --report DIR       then open DIR/index.html";

/// Options of `motet bench quantum`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    output: Output,
    /// Quanta of 1 and 10 us only
    #[arg(long)]
    quick: bool,
}

/// Something that cores do together, which they enter as a region of its name.
struct Exchange {
    name: &'static str,
    title: &'static str,
    /// What a user would run.
    command: String,
    /// What it must print.
    prints: String,
    /// Time is for one of so many rounds.
    rounds: u32,
}

fn exchanges() -> [Exchange; 3] {
    let program = |name, title, rounds, prints: String| {
        let command = format!("/in/exchange {name} {rounds}");
        Exchange { name, title, command, prints, rounds }
    };
    let lines = format!("on x86_64 seq {LINES} | on aarch64 rev | on riscv64 sort | on x86_64 tail -n 1");
    [
        program("lock", "A lock that three cores take", 300, "taken 900, word 0\n".into()),
        program("ping_pong", "A word that goes there and back", 300, "taken 0, word 600\n".into()),
        Exchange {
            name: "pipeline",
            title: "A pipeline over three instruction sets",
            command: format!("motet roi pipeline sh -c '{lines}'"),
            prints: "9991\n".into(),
            rounds: 1,
        },
    ]
}

/// Microseconds for one round, by quantum.
struct Measured {
    exchange: Exchange,
    lockstep: Vec<[f64; 2]>,
    in_turns: Vec<[f64; 2]>,
}

/// Runs the experiment. A part that fails does not keep the others from being reported.
///
/// # Errors
/// A part failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    let project = Project::find()?;
    let folder = project.scratch("quantum")?;
    let bench = Bench { project, folder };
    let machine = bench.machine("default")?;
    let described = project::describe(&machine.machine)?;
    let quanta = if options.quick { &QUICK[..] } else { &QUANTA_NS[..] };
    let program = bench.compile(Path::new("user/exchange/exchange.c"))?;
    let mut collected = Collected::default();
    let mut all = Vec::new();
    for exchange in exchanges() {
        collected.add(measure(&bench, &machine, &program, exchange, quanta).map(|measured| {
            let measurements = measured.measurements(&described);
            all.push(measured);
            measurements
        }));
    }
    options.output.page("Quanta of simulated time", || body(&all))?;
    collected.finish(options.output.json())
}

fn measure(
    bench: &Bench,
    machine: &Described,
    program: &PathBuf,
    exchange: Exchange,
    quanta: &[u32],
) -> Result<Measured> {
    let mut measured = Measured { exchange, lockstep: Vec::new(), in_turns: Vec::new() };
    for &quantum_ns in quanta {
        let quantum_us = f64::from(quantum_ns) / 1e3;
        for (options, points) in [(&[][..], &mut measured.lockstep), (&["--deterministic"], &mut measured.in_turns)] {
            eprintln!("motet: {} with a quantum of {quantum_us} us {}", measured.exchange.name, options.join(" "));
            let exchange = &measured.exchange;
            let run =
                bench.run_with(machine, &quantum_us.to_string(), options, &[program], &exchange.command, AT_MOST)?;
            points.push([quantum_us, exchange.round_us(&run)?]);
        }
    }
    Ok(measured)
}

impl Exchange {
    fn round_us(&self, run: &Run) -> Result<f64> {
        if run.output != self.prints {
            let message = format!("{}: printed {:?} instead of {:?}", self.command, run.output, self.prints);
            return Err(Error::new(ErrorKind::Software, message));
        }
        Ok(run.region(self.name)?.time_ps as f64 / 1e6 / f64::from(self.rounds))
    }
}

impl Measured {
    /// Each beside the same with the shortest quantum.
    fn measurements(&self, machine: &str) -> Vec<Measurement> {
        let ways = [("", &self.lockstep), ("_in_turns", &self.in_turns)];
        let points = ways.iter().flat_map(|(way, points)| points.iter().map(move |point| (way, points[0], point)));
        points
            .map(|(way, [shortest_us, reference], [quantum_us, round_us])| Measurement {
                metric: format!("quantum_{}_ns{way}_{}_us", quantum_us * 1e3, self.exchange.name),
                value: *round_us,
                unit: "us",
                machine: machine.to_owned(),
                reference: Some(reference),
                target: None,
                source: format!("simulated time of a round; reference: with a quantum of {shortest_us} us"),
            })
            .collect()
    }
}

fn body(all: &[Measured]) -> String {
    let mut body = "<header>\n<h1>Quanta of simulated time</h1>\n<p class=\"soft\">Running cores are at most a quantum apart. What exchanges \
                    cost should not depend on it: the shorter the quantum, the closer to the truth.</p>\n</header>\n<div class=\"plots\">\n"
        .to_owned();
    for Measured { exchange, lockstep, in_turns } in all {
        // Of the shortest quantum, in lock-step: what the others should be, too.
        let level = lockstep.first().map(|[_, us]| *us);
        let curve = |name: &str, colour, points: &[[f64; 2]]| Curve {
            name: name.into(),
            colour,
            stroke: Stroke::Solid,
            points: points.into(),
        };
        let curves = [curve("lock-step", "var(--i0)", lockstep), curve("in turns", "var(--i1)", in_turns)];
        let axes = ["quantum, us", "us of simulated time for each round"];
        body += &scaled_figure(exchange.title, axes, Scale::Logarithmic, level, &curves);
    }
    body + "</div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let [exchange, ..] = exchanges();
        Measured { exchange, lockstep: vec![[1.0, 4.0], [10.0, 5.0]], in_turns: vec![[1.0, 6.0], [10.0, 9.0]] }
    }

    #[test]
    fn each_quantum_is_compared_with_the_shortest_of_its_way() {
        let all = measured().measurements("m");
        let found: Vec<_> = all.iter().map(|one| (&*one.metric, one.value, one.reference.unwrap())).collect();
        let wanted = [
            ("quantum_1000_ns_lock_us", 4.0, 4.0),
            ("quantum_10000_ns_lock_us", 5.0, 4.0),
            ("quantum_1000_ns_in_turns_lock_us", 6.0, 6.0),
            ("quantum_10000_ns_in_turns_lock_us", 9.0, 6.0),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_page_is_well_formed_and_has_both_ways() {
        let whole = format!("<body>{}</body>", body(&[measured(), measured()]));
        let document = roxmltree::Document::parse(&whole).unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("path")).count(), 4);
    }

    #[test]
    fn what_prints_something_else_is_no_measurement() {
        let [exchange, ..] = exchanges();
        let run = Run { output: "taken 899, word 0\n".into(), stats: Default::default() };
        assert!(exchange.round_us(&run).unwrap_err().message.contains("instead of"));
    }
}
