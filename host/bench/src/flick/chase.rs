//! Following a list in the NxP's memory (Figure 5): from how many accesses in each call on the NxP is faster than the host.

use std::time::Duration;

use motet_fabric::{Error, ErrorKind, Result};
use motet_layout::Isa;

use super::{
    machines::{Bench, FLICK_QUANTUM_US, island_of, sum},
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
    for interval_us in INTERVALS_US {
        for delay_us in DELAYS_US {
            let (step, calls) = match (interval_us + delay_us, quick) {
                (0, false) => (4, 8),
                (0, true) => (16, 4),
                (_, false) => (32, 4),
                (_, true) => (128, 2),
            };
            let chase = curve(bench, step, calls, delay_us, interval_us)?;
            let last = chase.points.last().map_or(0.0, |point| point[1]);
            eprintln!(
                "motet: pointer chasing, {delay_us} us more for a call, one every {interval_us} us: {} times the host with {MOST} accesses",
                number(last)
            );
            curves.push(chase);
        }
    }
    Ok(curves)
}

fn curve(bench: &Bench, step: u64, calls: u64, delay_us: u64, interval_us: u64) -> Result<Chase> {
    let machine = bench.machine("flick")?;
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
    Ok(Chase { delay_us, interval_us, points })
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

/// The figures.
///
/// # Errors
/// The NxP is never as fast as the host.
pub fn measurements(bench: &Bench, curves: &[Chase]) -> Result<Vec<Measurement>> {
    let Some(plain) = curves.iter().find(|curve| curve.delay_us + curve.interval_us == 0) else {
        return Ok(Vec::new());
    };
    let machine = project::describe(&bench.machine("flick")?.machine)?;
    let measurement = |metric: &str, value: f64, unit, reference: Option<f64>, source: &str| Measurement {
        metric: metric.into(),
        value,
        unit,
        machine: machine.clone(),
        reference,
        source: format!("machines/flick.toml; {source}"),
    };
    let mut all = Vec::new();
    for curve in curves {
        let (delay_us, interval_us) = (curve.delay_us, curve.interval_us);
        let Some(&[accesses, ratio]) = curve.points.last() else { continue };
        let name = match (delay_us, interval_us) {
            (0, 0) => "pointer_chase_plateau_ratio".to_owned(),
            _ => format!("pointer_chase_ratio_delay_{delay_us}_us_interval_{interval_us}_us"),
        };
        let published = delay_us + interval_us == 0;
        let reference = paper::chase_ratio(accesses, delay_us as f64, interval_us as f64);
        let reference = if published { paper::PLATEAU_RATIO } else { reference };
        let source = if published { "reference: Flick, Figure 5a" } else { "reference: computed from Flick's figures" };
        all.push(measurement(&name, ratio, "times the host's speed", Some(reference), source));
    }
    let Some(even) = break_even(&plain.points) else {
        let message = format!("the NxP is slower than the host even with {MOST} accesses in a call");
        return Err(Error::new(ErrorKind::Software, message));
    };
    let source = "reference: Flick, Figure 5a";
    let reference = Some(paper::BREAK_EVEN_ACCESSES);
    all.insert(0, measurement("pointer_chase_break_even_accesses", even, "accesses", reference, source));
    Ok(all)
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
    fn break_even_is_where_the_curve_reaches_one() {
        assert_eq!(break_even(&[[4.0, 0.5], [8.0, 1.5], [12.0, 2.0]]), Some(6.0));
        assert_eq!(break_even(&[[4.0, 2.0]]), Some(2.0));
        assert_eq!(break_even(&[[4.0, 0.5]]), None);
    }
}
