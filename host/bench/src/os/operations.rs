//! What is measured: the operations that the program executes (`user/os/operations.h`), and the figures that come of them.

use motet_calls::Operation;
use motet_error::{Error, ErrorKind, Result};

const LIST: &str = include_str!("../../../../user/os/operations.h");
/// Batches of the program when it is to be quick (`user/os/os.c`).
const QUICK_BATCHES: u32 = 5;
/// Pages that the program's faults are spread over.
const FAULTS: f64 = 64.0;

/// The program's operations, in their order.
pub fn executed(quick: bool) -> Vec<Operation> {
    let batches = |whole| if quick { QUICK_BATCHES } else { whole };
    let operation = |listed: Listed| Operation {
        name: listed.name,
        warm_up: 0,
        batches: batches(listed.batches),
        iterations: listed.iterations,
    };
    listed().map(operation).collect()
}

struct Listed {
    name: &'static str,
    iterations: u32,
    batches: u32,
    says: &'static str,
}

fn listed() -> impl Iterator<Item = Listed> {
    let rows = LIST.lines().filter_map(|line| line.strip_prefix("OPERATION("));
    rows.map(|row| parse(row).unwrap_or_else(|| panic!("user/os/operations.h: {row}")))
}

/// A row of the list, without its beginning.
fn parse(row: &'static str) -> Option<Listed> {
    let mut words = row.strip_suffix("\")")?.splitn(4, ", ");
    let (name, iterations, batches) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Listed { name, iterations, batches, says: words.next()?.strip_prefix('"')? })
}

/// A figure of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its part of metrics' names.
    pub name: &'static str,
    /// What is counted.
    pub says: &'static str,
    from: Origin,
}

/// How a figure comes from what was executed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    /// It is one execution.
    Once(&'static str),
    /// One of so many switches of a round, without what a byte through a pipe costs, as lmbench has it.
    Ring(&'static str, f64),
    /// One of the faults of the first, without the second, which does the same but for them.
    Faults(&'static str, &'static str),
}

/// What is no figure itself.
const PARTS: [&str; 7] =
    ["own_pipe", "ring_2", "ring_16", "map_64_pages", "fault_64_pages", "map_fresh_64_pages", "fault_fresh_64_pages"];

const DERIVED: [Figure; 4] = [
    Figure {
        name: "context_switch_2",
        says: "a switch between 2 processes that pass a byte on, without what the byte's pipe costs (lat_ctx 2)",
        from: Origin::Ring("ring_2", 2.0),
    },
    Figure {
        name: "context_switch_16",
        says: "the same between 16 processes (lat_ctx 16)",
        from: Origin::Ring("ring_16", 16.0),
    },
    Figure {
        name: "page_fault_file",
        says: "a page of a file in memory is read that was mapped before, on average of 64 pages that are read in a scattered order, and unmapped (lat_pagefault)",
        from: Origin::Faults("fault_64_pages", "map_64_pages"),
    },
    Figure {
        name: "page_fault_anonymous",
        says: "a page of anonymous memory is written for the first time, on average of 64, and given back",
        from: Origin::Faults("fault_fresh_64_pages", "map_fresh_64_pages"),
    },
];

/// All figures.
pub fn figures() -> Vec<Figure> {
    let once = |listed: Listed| Figure { name: listed.name, says: listed.says, from: Origin::Once(listed.name) };
    listed().filter(|listed| !PARTS.contains(&listed.name)).map(once).chain(DERIVED).collect()
}

impl Figure {
    /// The figure, by what each of the program's operations cost.
    ///
    /// # Errors
    /// It is not above 0, so that the counts are wrong.
    pub fn value(&self, costs: &[f64]) -> Result<f64> {
        let of = |name: &str| {
            let index = listed().position(|listed| listed.name == name);
            index.and_then(|index| costs.get(index)).copied().unwrap_or(f64::NAN)
        };
        let value = match self.from {
            Origin::Once(name) => of(name),
            Origin::Ring(ring, size) => of(ring) / size - of("own_pipe"),
            Origin::Faults(with, without) => (of(with) - of(without)) / FAULTS,
        };
        if value > 0.0 {
            return Ok(value);
        }
        Err(Error::new(ErrorKind::Software, format!("{value} instructions of {}", self.name)))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Costs of which every figure is `unit` times a number of its own.
    pub fn costs(unit: f64) -> Vec<f64> {
        let of = |(index, listed): (usize, Listed)| match listed.name {
            "own_pipe" => 1.0,
            "ring_2" => 2.0 * 3.0,
            "ring_16" => 16.0 * 4.0,
            "map_64_pages" | "map_fresh_64_pages" => 10.0,
            "fault_64_pages" => 10.0 + 64.0 * 5.0,
            "fault_fresh_64_pages" => 10.0 + 64.0 * 6.0,
            _ => 100.0 + index as f64,
        };
        listed().enumerate().map(|(index, listed)| unit * of((index, listed))).collect()
    }

    #[test]
    fn every_operation_of_the_program_is_read() {
        let all = executed(false);
        assert_eq!(all.len(), LIST.lines().filter(|line| line.contains("OPERATION(")).count() - 1);
        assert!(all.len() * 2 <= usize::from(motet_layout::marks::MEASURED_MAX));
        assert_eq!((all[0].name, all[0].iterations, all[0].batches), ("null_call", 100, 50));
        assert!(executed(true).iter().all(|operation| operation.batches == QUICK_BATCHES));
        assert!(PARTS.iter().all(|part| all.iter().any(|operation| operation.name == *part)));
        assert!(parse("x, 1, 2, \"a, b\")").is_some_and(|row| row.says == "a, b"));
        assert!(parse("x, 1, \"a\")").is_none() && parse("x, y, 2, \"a\")").is_none());
    }

    #[test]
    fn figures_are_without_what_they_are_not_about() {
        let of = |name: &str| figures().into_iter().find(|figure| figure.name == name).unwrap();
        let value = |name| of(name).value(&costs(10.0)).unwrap();
        assert_eq!((value("context_switch_2"), value("context_switch_16")), (20.0, 30.0));
        assert_eq!((value("page_fault_file"), value("page_fault_anonymous")), (50.0, 60.0));
        assert_eq!(value("null_call"), 1000.0);
        assert_eq!(figures().len(), executed(false).len() - PARTS.len() + DERIVED.len());
    }

    #[test]
    fn counts_that_cannot_be_are_told() {
        let figure = figures().into_iter().find(|figure| figure.name == "context_switch_2").unwrap();
        assert!(figure.value(&costs(0.0)).unwrap_err().message.contains("context_switch_2"));
        assert!(figure.value(&[]).is_err());
    }
}
