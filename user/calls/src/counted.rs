//! What the counting plugin wrote about the measured operations, as their costs.

use std::{vec, vec::Vec};

use motet_layout::marks::MEASURED_MAX;

use crate::{OPERATIONS, Operation};

/// Instructions for one execution of each of [`OPERATIONS`]: the median over its batches.
pub type Costs = [f64; OPERATIONS.len()];

/// The costs that the plugin's text tells, of which each line is a mark and the instructions until then. `None`: marks are missing, as the guest
/// did not execute all operations.
pub fn costs(text: &str) -> Option<Costs> {
    medians(text, &OPERATIONS)?.try_into().ok()
}

/// The same of other operations, of which operation `i` has the marks `2 * i` and `2 * i + 1`.
pub fn medians(text: &str, operations: &[Operation]) -> Option<Vec<f64>> {
    let mut batches: Vec<Vec<f64>> = vec![Vec::new(); operations.len()];
    let mut begin = None;
    for line in text.lines() {
        let (mark, count) = line.split_once(' ')?;
        let (mark, count): (usize, u64) = (mark.parse().ok()?, count.parse().ok()?);
        if mark >= usize::from(MEASURED_MAX) {
            continue; // a kernel's, in the middle of a batch
        }
        if mark % 2 == 0 {
            begin = Some((mark, count));
        } else if let Some((_, before)) = begin.take().filter(|(at, _)| at + 1 == mark) {
            let operation = operations.get(mark / 2)?;
            batches[mark / 2].push((count - before) as f64 / f64::from(operation.iterations));
        }
    }
    let complete = batches.iter().zip(operations).all(|(counted, want)| counted.len() == want.batches as usize);
    complete.then(|| batches.into_iter().map(median).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use std::{format, string::String};

    use super::*;

    fn text(last: usize) -> String {
        let mut text = String::new();
        for (index, operation) in OPERATIONS.iter().enumerate() {
            for batch in 0..operation.batches {
                // Every tenth batch is disturbed by a timer tick.
                let cost = 100 * (index as u64 + 1) * u64::from(operation.iterations);
                let tick = if batch % 10 == 0 { 5000 } else { 0 };
                text += &format!("{} 7000\n{} {}\n", 2 * index, 2 * index + 1, 7000 + cost + tick);
            }
        }
        text.lines().take(last).map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn costs_are_for_one_execution_and_without_ticks() {
        let expected: Costs = core::array::from_fn(|index| 100.0 * (index + 1) as f64);
        assert_eq!(costs(&text(usize::MAX)).unwrap(), expected);
    }

    #[test]
    fn marks_of_kernels_are_not_those_of_programs() {
        let disturbed = text(usize::MAX).replace('\n', "\n70 1\n");
        assert_eq!(costs(&disturbed), costs(&text(usize::MAX)));
    }

    #[test]
    fn an_early_end_is_noticed() {
        assert!(costs(&text(100)).is_none() && costs("").is_none() && costs("0 x\n").is_none());
    }
}
