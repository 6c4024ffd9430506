//! What the counting plugin wrote, as costs of operations.

use std::path::Path;

use motet_calls::{OPERATIONS, Operation};
use motet_error::{Error, ErrorKind, Result};
use motet_layout::marks::MEASURED_MAX;

use crate::report::median;

/// Instructions for one execution of each of [`OPERATIONS`]: the median over its batches.
pub type Costs = [f64; OPERATIONS.len()];

/// Reads the plugin's file.
///
/// # Errors
/// It is missing, or the guest did not get to the end.
pub fn read(path: &Path) -> Result<Costs> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::new(ErrorKind::Software, format!("{}: {error}", path.display())))?;
    costs(&text).ok_or_else(|| {
        let message = format!("{}: marks are missing; the guest did not execute all operations", path.display());
        Error::new(ErrorKind::Software, message)
    })
}

fn costs(text: &str) -> Option<Costs> {
    let mut batches: [Vec<f64>; OPERATIONS.len()] = Default::default();
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
            let operation: Operation = *OPERATIONS.get(mark / 2)?;
            batches[mark / 2].push((count - before) as f64 / f64::from(operation.iterations));
        }
    }
    let complete = batches.iter().zip(OPERATIONS).all(|(counted, want)| counted.len() == want.batches as usize);
    complete.then(|| batches.map(|counted| median(&counted)))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(costs(&text(usize::MAX)).unwrap(), [100.0, 200.0, 300.0, 400.0, 500.0]);
    }

    #[test]
    fn marks_of_kernels_are_not_those_of_programs() {
        let disturbed = text(usize::MAX).replace("\n", "\n70 1\n");
        assert_eq!(costs(&disturbed), costs(&text(usize::MAX)));
    }

    #[test]
    fn an_early_end_is_noticed() {
        assert!(costs(&text(100)).is_none() && costs("").is_none() && costs("0 x\n").is_none());
    }
}
