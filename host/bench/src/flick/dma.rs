//! Copies over the link by the host: from how many bytes on the transfer engine (`/dev/dma`) is faster than loads and stores. Calls over the link
//! by stores and by transfers of the core's engine.

use std::time::Duration;

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use super::{
    calls::us_on,
    machines::{Bench, FLICK_QUANTUM_US, island_of},
};
use crate::{
    project,
    report::{Measurement, number},
};

const AT_MOST: Duration = Duration::from_secs(1800);
const REPEATS: u64 = 4;
const QUICK_REPEATS: u64 = 1;

/// How long a store over the link keeps its core, in nanoseconds, where calls are measured both ways.
const STORES_NS: [u64; 4] = [50, 100, 200, 400];
/// By `calls` in the machine file, and in metrics.
const WAYS: [[&str; 2]; 2] = [["stores", "stores"], ["dma", "transfer"]];
const CALLS: u64 = 1000;
const QUICK_CALLS: u64 = 100;

/// Null calls from the host to the NxP and back, by both ways.
///
/// # Errors
/// A run fails.
pub fn calls(bench: &Bench, quick: bool) -> Result<Vec<Measurement>> {
    let flick = bench.machine("flick")?;
    let (described, count) = (project::describe(&flick.machine)?, if quick { QUICK_CALLS } else { CALLS });
    let mut all = Vec::new();
    for store_ns in STORES_NS {
        for [way, name] in WAYS {
            let machine = bench.with_stores(&flick, store_ns, way)?;
            let us = us_on(bench, &machine, false, [Isa::X86_64, Isa::RiscV64], count)?;
            eprintln!("motet: null call by {name} where a store takes {store_ns} ns: {} us", number(us));
            all.push(Measurement {
                metric: format!("null_call_by_{name}_{store_ns}ns_us"),
                value: us,
                unit: "us",
                machine: described.clone(),
                reference: None,
                target: None,
                source: format!("machines/flick.toml with store_ns = {store_ns} and calls = \"{way}\"; {count} calls"),
            });
        }
    }
    Ok(all)
}

/// A size, and what copies take, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    bytes: f64,
    /// To the NxP's memory: by stores, by the engine.
    there: [f64; 2],
    /// From there: by loads, by the engine.
    back: [f64; 2],
}

/// All sizes, and how long the engine itself takes for 1 MiB.
#[derive(Clone, Debug)]
pub struct Copies {
    rows: Vec<Row>,
    engine_ns: f64,
}

/// Measures copies of all sizes.
///
/// # Errors
/// A run fails.
pub fn measure(bench: &Bench, quick: bool) -> Result<Copies> {
    let machine = bench.machine("flick")?;
    let nxp = island_of(&machine, Isa::RiscV64)?;
    let program = bench.program("dma")?;
    let command = format!("/in/dma {nxp} {}", if quick { QUICK_REPEATS } else { REPEATS });
    let run = bench.run(&machine, FLICK_QUANTUM_US, &[&program], &command, AT_MOST)?;
    let copies = copies(&run.output)?;
    for row in &copies.rows {
        let Row { bytes, there: [stores, sent], back: [loads, fetched] } = *row;
        eprintln!(
            "motet: {bytes} bytes over the link: there {} us by stores and {} by the engine, back {} by loads and {}",
            number(stores / 1000.0),
            number(sent / 1000.0),
            number(loads / 1000.0),
            number(fetched / 1000.0)
        );
    }
    Ok(copies)
}

/// From rows of five numbers, and one behind a word.
fn copies(output: &str) -> Result<Copies> {
    let bad = || Error::new(ErrorKind::Software, format!("dma: its table is not whole:\n{output}"));
    let numbers = |line: &str| line.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>();
    let row = |line: &str| match numbers(line)?[..] {
        [bytes, stores, sent, loads, fetched] => Some(Row { bytes, there: [stores, sent], back: [loads, fetched] }),
        _ => None,
    };
    let lines: Vec<&str> = output.lines().collect();
    let (last, rows) = lines.split_last().filter(|(_, rows)| !rows.is_empty()).ok_or_else(bad)?;
    let engine_ns = last.strip_prefix("engine ").and_then(|word| word.parse().ok()).ok_or_else(bad)?;
    let rows = rows.iter().map(|line| row(line)).collect::<Option<_>>().ok_or_else(bad)?;
    Ok(Copies { rows, engine_ns })
}

/// What was measured, for the table and the JSON file.
///
/// # Errors
/// The engine is never faster, or no machine can be described.
pub fn measurements(bench: &Bench, copies: &Copies) -> Result<Vec<Measurement>> {
    let machine = project::describe(&bench.machine("flick")?.machine)?;
    let measurement = |metric: &str, value: f64, unit, source: &str| Measurement {
        metric: metric.into(),
        value,
        unit,
        machine: machine.clone(),
        reference: None,
        target: None,
        source: format!("machines/flick.toml; {source}"),
    };
    let mut all = vec![measurement("dma_1mib_us", copies.engine_ns / 1000.0, "us", "the engine alone")];
    if let Some(last) = copies.rows.last() {
        let source = "the host copies 1 MiB by /dev/dma, system calls included";
        all.push(measurement("dma_1mib_there_us", last.there[1] / 1000.0, "us", source));
        all.push(measurement("dma_1mib_back_us", last.back[1] / 1000.0, "us", source));
        let source = "the host copies 1 MiB by a loop of loads and stores of 8 bytes";
        all.push(measurement("stores_1mib_there_us", last.there[0] / 1000.0, "us", source));
        all.push(measurement("loads_1mib_back_us", last.back[0] / 1000.0, "us", source));
    }
    for (name, of) in [("there", (|row| row.there) as fn(&Row) -> [f64; 2]), ("back", |row| row.back)] {
        // Where loads or stores are always faster, there is no such size.
        if let Some(bytes) = break_even(copies.rows.iter().map(|row| (row.bytes, of(row)))) {
            let source = "from so many bytes on the engine is faster than loads and stores, as far as was measured";
            all.push(measurement(&format!("dma_break_even_{name}_bytes"), bytes, "bytes", source));
        }
    }
    Ok(all)
}

/// From which size on the second way is faster, on a straight line between two measurements: always, from there on.
fn break_even(rows: impl Iterator<Item = (f64, [f64; 2])>) -> Option<f64> {
    let mut even = None;
    let mut before: Option<(f64, f64)> = None;
    for (bytes, [plain, engine]) in rows {
        let gain = plain - engine;
        even = match before {
            _ if gain <= 0.0 => None,
            Some((smaller, loss)) if loss <= 0.0 => Some(smaller + (bytes - smaller) * -loss / (gain - loss)),
            Some(_) => even,
            None => Some(bytes),
        };
        before = Some((bytes, gain));
    }
    even
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_whole_or_not_at_all() {
        let read = copies("1024 1 2 3 4\n2048 5 6 7 8\nengine 134120\n").unwrap();
        assert_eq!(read.rows[1], Row { bytes: 2048.0, there: [5.0, 6.0], back: [7.0, 8.0] });
        assert_eq!((read.rows.len(), read.engine_ns), (2, 134_120.0));
        for bad in ["", "engine 5\n", "1024 1 2 3 4\n", "1024 1 2 3\nengine 5\n", "1024 1 2 3 4 5\nengine 5\n"] {
            assert!(copies(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn break_even_is_from_where_on_the_engine_stays_ahead() {
        let rows = |gains: [f64; 3]| [1.0, 2.0, 4.0].into_iter().zip(gains.map(|gain| [10.0 + gain, 10.0]));
        assert_eq!(break_even(rows([-2.0, -1.0, 3.0])), Some(2.5));
        assert_eq!(break_even(rows([1.0, -1.0, 1.0])), Some(3.0));
        assert_eq!(break_even(rows([1.0, 2.0, 3.0])), Some(1.0));
        assert_eq!(break_even(rows([1.0, 2.0, -3.0])), None);
    }
}
