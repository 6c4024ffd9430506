//! Measurements, as a table for people and as JSON for programs.

use std::{fmt::Write, path::Path};

use motet_error::{Error, ErrorKind, Result, output};
use serde::Serialize;

/// One measured figure. Names are stable: a metric never changes its meaning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// Snake case, with the unit at its end (before the ISA, where there is one).
    pub metric: String,
    /// What was measured.
    pub value: f64,
    /// The unit of `value`, `reference` and `target`.
    pub unit: &'static str,
    /// What it was measured on.
    pub machine: String,
    /// What it is compared with: what a paper says, or what was measured of another system or in another way.
    pub reference: Option<f64>,
    /// What it is to reach: the project's own, which nobody has published or measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Where value and reference come from.
    pub source: String,
}

/// Collects what the parts of an experiment measured. A part that fails does not keep the others from being reported.
#[derive(Debug, Default)]
pub struct Collected {
    /// What was measured so far.
    pub measurements: Vec<Measurement>,
    /// Of the parts that failed.
    pub failures: Vec<ErrorKind>,
}

impl Collected {
    /// Takes what a part measured, or tells why it failed.
    pub fn add(&mut self, outcome: Result<Vec<Measurement>>) {
        match outcome {
            Ok(more) => self.measurements.extend(more),
            Err(error) => {
                eprintln!("motet: {error}");
                self.failures.push(error.kind);
            }
        }
    }

    /// Prints the table, and writes the JSON file if one is wanted.
    ///
    /// # Errors
    /// A part failed, or the file cannot be written.
    pub fn finish(self, json: Option<&Path>) -> Result<()> {
        let printed = motet_error::print(&table(&self.measurements));
        if let Some(path) = json {
            write_json(path, &self.measurements)?;
        }
        printed?;
        match self.failures.first() {
            None => Ok(()),
            Some(kind) => {
                let message = format!("{} part(s) of the experiment failed, see above", self.failures.len());
                Err(Error::new(*kind, message))
            }
        }
    }
}

/// Writes measurements as a JSON list.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(path: &Path, measurements: &[Measurement]) -> Result<()> {
    let mut text = serde_json::to_string_pretty(measurements).expect("numbers and strings");
    text.push('\n');
    let failed = |error| Error::new(ErrorKind::CantCreate, format!("{}: {error}", path.display()));
    output::write(path, text.as_bytes()).map_err(failed)
}

/// The table.
pub fn table(measurements: &[Measurement]) -> String {
    let mut rows = vec![["metric", "value", "reference", "value/reference", "target"].map(str::to_owned)];
    for row in measurements {
        let [reference, target] = [row.reference, row.target].map(|value| value.map_or("-".into(), number));
        let compared = row.reference.filter(|reference| *reference != 0.0);
        let ratio = compared.map_or("-".into(), |reference| format!("{:.2}", row.value / reference));
        rows.push([row.metric.clone(), number(row.value), reference, ratio, target]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for [metric, value, reference, ratio, target] in &rows {
        let [a, b, c, d, e] = widths;
        let _ = writeln!(text, "{metric:a$}  {value:>b$}  {reference:>c$}  {ratio:>d$}  {target:>e$}");
    }
    text
}

/// Four significant digits, or all digits before the point.
pub fn number(value: f64) -> String {
    let before = if value.abs() < 1.0 { 1 } else { value.abs().log10() as usize + 1 };
    format!("{value:.*}", 4_usize.saturating_sub(before))
}

/// The median.
///
/// # Panics
/// There are no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The geometric mean, which treats ratios and their inverses alike.
///
/// # Panics
/// There are no values.
pub fn geometric_mean(values: &[f64]) -> f64 {
    assert!(!values.is_empty());
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// No two measurements have one name.
#[cfg(test)]
pub fn assert_each_once(all: &[Measurement]) {
    let mut names: Vec<&str> = all.iter().map(|measured| &*measured.metric).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a metric twice");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement() -> Measurement {
        Measurement {
            metric: "a_s".into(),
            value: 1.5,
            unit: "s",
            machine: "m".into(),
            reference: Some(3.0),
            target: None,
            source: "s".into(),
        }
    }

    #[test]
    fn tables_line_up_and_compare() {
        let (reference, target) = (None, Some(2.0));
        let other = Measurement { metric: "b_ratio".into(), value: 12345.678, reference, target, ..measurement() };
        let text = table(&[measurement(), other]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["a_s", "1.500", "3.000", "0.50", "-"]);
        assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["b_ratio", "12346", "-", "-", "2.000"]);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
    }

    #[test]
    fn json_has_the_agreed_keys() {
        let file = std::env::temp_dir().join(format!("motet-report-{}.json", std::process::id()));
        write_json(&file, &[measurement()]).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        std::fs::remove_file(&file).unwrap();
        let keys: Vec<&String> = value[0].as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 6);
        assert!(
            ["metric", "value", "unit", "machine", "reference", "source"].iter().all(|key| value[0].get(key).is_some())
        );
    }

    #[test]
    fn statistics() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
    }
}
