//! Following a list in the NxP's memory (Figure 5): from how many accesses in each call on the NxP is faster than the host.

use std::{fmt::Write, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use super::{
    machines::{Bench, FLICK_QUANTUM_US, Protocol, island_of, sum},
    paper,
};
use crate::{
    project,
    report::{Measurement, number},
};

const AT_MOST: Duration = Duration::from_secs(3600);
/// Most accesses in a call.
const MOST: u64 = 1024;
/// Nodes in the list, each in a page of its own: far more lines than the board caches.
const NODES: u64 = 8192;
/// A delay for each call, as slower ways to migrate have; microseconds.
const DELAYS_US: [u64; 3] = [0, 500, 1000];
/// What the host computes before each call, in microseconds: Figures 5a and 5b.
const INTERVALS_US: [u64; 2] = [0, 100];

/// A curve of Figure 5.
#[derive(Clone, Debug)]
pub struct Chase {
    /// How the calls are made.
    pub protocol: Protocol,
    /// Added to each call.
    pub delay_us: u64,
    /// Computed on the host before each call.
    pub interval_us: u64,
    /// Accesses in each call, and how much faster the NxP is than the host.
    pub points: Vec<[f64; 2]>,
}

/// Measures all curves.
///
/// # Errors
/// A run fails, or the list is not where it should be.
pub fn measure(bench: &Bench, quick: bool) -> Result<Vec<Chase>> {
    let mut curves = Vec::new();
    let delays = INTERVALS_US.into_iter().flat_map(|interval_us| DELAYS_US.map(|delay_us| (interval_us, delay_us)));
    for (interval_us, delay_us) in delays {
        let (step, calls) = match (interval_us + delay_us, quick) {
            (0, false) => (4, 8),
            (0, true) => (16, 4),
            (_, false) => (32, 4),
            (_, true) => (128, 2),
        };
        for protocol in Protocol::BOTH {
            let chase = curve(bench, protocol, [step, calls], delay_us, interval_us)?;
            eprintln!(
                "motet: pointer chasing by {}, {delay_us} us more for a call, one every {interval_us} us: {} times the host with {MOST} accesses",
                protocol.name(),
                number(chase.last())
            );
            curves.push(chase);
        }
    }
    Ok(curves)
}

fn curve(bench: &Bench, protocol: Protocol, [step, calls]: [u64; 2], delay_us: u64, interval_us: u64) -> Result<Chase> {
    let machine = bench.crossing(bench.machine("flick")?, protocol)?;
    let nxp = island_of(&machine, Isa::RiscV64)?;
    let program = bench.program("chase")?;
    let command = format!("/in/chase {nxp} {NODES} {calls} {step} {MOST} {delay_us} {interval_us}");
    let run = bench.run(&machine, FLICK_QUANTUM_US, &[&program], &command, AT_MOST)?;
    let points = points(&run.output)?;
    if points.len() as u64 != MOST / step {
        return Err(Error::new(ErrorKind::Software, format!("{command}: {} rows", points.len())));
    }
    // If the list were in the host's memory, the host would not use the link.
    let host = machine.machine.islands[island_of(&machine, Isa::X86_64)?].name.as_str();
    let reads = sum(&run.region("host")?.cores, host, |core| core.count("uncached_reads"));
    if reads < NODES {
        let message = format!("the list is not in the board's memory: {reads} of {NODES} reads went over the link");
        return Err(Error::new(ErrorKind::Software, message));
    }
    Ok(Chase { protocol, delay_us, interval_us, points })
}

impl Chase {
    /// One call after the other, as fast as they are.
    fn is_plain(&self) -> bool {
        self.delay_us + self.interval_us == 0
    }

    /// How much faster the NxP is with most accesses.
    fn last(&self) -> f64 {
        self.points.last().map_or(f64::NAN, |point| point[1])
    }

    /// The same of Flick.
    fn published(&self) -> f64 {
        match self.is_plain() {
            true => paper::PLATEAU_RATIO,
            false => paper::chase_ratio(MOST as f64, self.delay_us as f64, self.interval_us as f64),
        }
    }
}

/// From rows of: accesses, the host's nanoseconds, the NxP's.
fn points(output: &str) -> Result<Vec<[f64; 2]>> {
    let row = |line: &str| {
        let words: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
        match words?.as_slice() {
            [accesses, host, nxp] if *nxp > 0.0 => Some([*accesses, host / nxp]),
            _ => None,
        }
    };
    let bad = |line: &str| Error::new(ErrorKind::Software, format!("chase: `{line}` is not a row of its table"));
    output.lines().map(|line| row(line).ok_or_else(|| bad(line))).collect()
}

/// What was measured, for the table and the JSON file.
///
/// # Errors
/// The NxP is never as fast as the host.
pub fn measurements(bench: &Bench, curves: &[Chase]) -> Result<Vec<Measurement>> {
    let machine = project::describe(&bench.machine("flick")?.machine)?;
    let measurement = |metric: String, value: f64, unit, reference: f64, source: &str| Measurement {
        metric,
        value,
        unit,
        machine: machine.clone(),
        reference: Some(reference),
        target: None,
        source: format!("machines/flick.toml; {source}"),
    };
    let mut all = Vec::new();
    for curve in curves {
        let prefix = curve.protocol.prefix();
        let source =
            if curve.is_plain() { "reference: Flick, Figure 5a" } else { "reference: computed from Flick's figures" };
        if curve.is_plain() {
            let even = break_even(&curve.points).ok_or_else(|| {
                let message = format!(
                    "by {} the NxP is slower than the host even with {MOST} accesses in a call",
                    curve.protocol.name()
                );
                Error::new(ErrorKind::Software, message)
            })?;
            let metric = format!("{prefix}pointer_chase_break_even_accesses");
            all.push(measurement(metric, even, "accesses", paper::BREAK_EVEN_ACCESSES, source));
        }
        let name = match (curve.delay_us, curve.interval_us) {
            (0, 0) => "plateau_ratio".to_owned(),
            (delay_us, interval_us) => format!("ratio_delay_{delay_us}_us_interval_{interval_us}_us"),
        };
        let metric = format!("{prefix}pointer_chase_{name}");
        all.push(measurement(metric, curve.last(), "times the host's speed", curve.published(), source));
    }
    Ok(all)
}

/// The headings of the columns of [`rows`].
pub const COLUMNS: [&str; 4] = ["pointer chasing", "Flick's paper", "its protocol, on this machine", "Motet"];

/// What the curves come to: the paper's, those of its protocol on this machine, and Motet's.
pub fn rows(curves: &[Chase]) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for ours in curves.iter().filter(|curve| curve.protocol == Protocol::Motet) {
        let (delay_us, interval_us) = (ours.delay_us, ours.interval_us);
        let same = |curve: &&Chase| (curve.delay_us, curve.interval_us) == (delay_us, interval_us);
        let Some(flick) = curves.iter().filter(same).find(|curve| curve.protocol == Protocol::Flick) else { continue };
        if ours.is_plain() {
            let even = |curve: &Chase| break_even(&curve.points).map_or("–".into(), number);
            let what = "accesses in a call, to break even".to_owned();
            rows.push([what, number(paper::BREAK_EVEN_ACCESSES), even(flick), even(ours)]);
        }
        let what = format!("times the host's speed, {delay_us} us more for a call, one every {interval_us} us");
        rows.push([what, number(ours.published()), number(flick.last()), number(ours.last())]);
    }
    rows
}

/// The same, for people.
pub fn table(curves: &[Chase]) -> String {
    let mut text = String::new();
    let rows = rows(curves);
    for [what, paper, flick, ours] in (!rows.is_empty()).then(|| COLUMNS.map(str::to_owned)).iter().chain(&rows) {
        let _ = writeln!(text, "  {what:<70}{paper:>14}{flick:>32}{ours:>10}");
    }
    text
}

/// From how many accesses on the NxP is as fast as the host, on a straight line between two measurements.
fn break_even(points: &[[f64; 2]]) -> Option<f64> {
    let index = points.iter().position(|point| point[1] >= 1.0)?;
    let [x, y] = points[index];
    let [before_x, before_y] = index.checked_sub(1).map_or([0.0, 0.0], |before| points[before]);
    Some(before_x + (x - before_x) * (1.0 - before_y) / (y - before_y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_ratios_and_nothing_else_passes() {
        assert_eq!(points("4 100 200\n8 300 150\n").unwrap(), [[4.0, 0.5], [8.0, 2.0]]);
        for bad in ["4 100\n", "4 100 0\n", "begin\n", "1 2 3 4\n"] {
            assert!(points(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_curve_has_the_papers_and_both_protocols() {
        let chase = |protocol, delay_us, interval_us, last| Chase {
            protocol,
            delay_us,
            interval_us,
            points: vec![[4.0, 0.5], [8.0, 1.5], [1024.0, last]],
        };
        let [flick, ours] = Protocol::BOTH;
        let mut curves = vec![chase(flick, 0, 0, 2.5), chase(ours, 0, 0, 2.75), chase(flick, 500, 0, 1.0)];
        let words = |words: [&str; 4]| words.map(str::to_owned);
        let plain = [
            words(["accesses in a call, to break even", "32.00", "6.000", "6.000"]),
            words(["times the host's speed, 0 us more for a call, one every 0 us", "2.600", "2.500", "2.750"]),
        ];
        assert_eq!(rows(&curves), plain);
        curves.push(chase(ours, 500, 0, 1.25));
        assert_eq!(rows(&curves)[2][2..], ["1.000", "1.250"].map(str::to_owned));
        assert!(table(&curves).lines().count() == 4 && table(&[]).is_empty());
    }

    #[test]
    fn break_even_is_where_the_curve_reaches_one() {
        assert_eq!(break_even(&[[4.0, 0.5], [8.0, 1.5], [12.0, 2.0]]), Some(6.0));
        assert_eq!(break_even(&[[4.0, 2.0]]), Some(2.0));
        assert_eq!(break_even(&[[4.0, 0.5]]), None);
    }
}
