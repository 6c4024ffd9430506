//! `motet sweep diff`: the results of two sweeps, point by point.

use std::collections::{BTreeMap, BTreeSet};

use motet_error::Result;

use crate::{
    metrics,
    options::DiffOptions,
    results::{Row, mean, read_csv},
};

/// A metric of a point: the axes' values, and its name.
type Key = (Vec<(String, String)>, String);

/// What it was for each seed, and its unit.
type Values = BTreeMap<Key, (Vec<f64>, String)>;

/// Prints where two sweeps differ; gives 1 if they do, as `diff`.
///
/// # Errors
/// One of them cannot be read, or the output does not arrive.
pub fn diff(options: &DiffOptions) -> Result<u8> {
    let values = |path| read_csv(path).map(|(axes, rows)| collect(&axes, &rows, &options.metric));
    let (before, after) = (values(&options.before)?, values(&options.after)?);
    let lines = compare(&before, &after, options.above);
    motet_error::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(u8::from(!lines.is_empty()))
}

fn collect(axes: &[String], rows: &[Row], wanted: &[String]) -> Values {
    let mut values = Values::new();
    for row in rows.iter().filter(|row| metrics::is_wanted(&row["metric"], wanted)) {
        let point = axes.iter().map(|axis| (axis.clone(), row[axis].clone())).collect();
        let entry = values.entry((point, row["metric"].clone())).or_insert_with(|| (Vec::new(), row["unit"].clone()));
        entry.0.extend(row["value"].parse::<f64>());
    }
    values
}

/// A line for each difference of more than `above` percent, and for what only one of them has.
fn compare(before: &Values, after: &Values, above: f64) -> Vec<String> {
    let keys: BTreeSet<&Key> = before.keys().chain(after.keys()).collect();
    let lines = keys.into_iter().filter_map(|key @ (point, metric)| {
        let place: String = point.iter().map(|(axis, value)| format!("{axis}={value} ")).collect();
        match (before.get(key), after.get(key)) {
            (Some((old, unit)), Some((new, new_unit))) => {
                let ((old, old_error), (new, new_error)) = (mean(old), mean(new));
                let change = 100.0 * (new - old) / old.abs();
                let is_same = unit == new_unit && (new == old || change.abs() <= above);
                let noise = if old_error + new_error >= (new - old).abs() { " (within the errors)" } else { "" };
                let unit = if unit == new_unit { unit.clone() } else { format!("{unit} -> {new_unit}") };
                (!is_same).then(|| format!("{place}{metric}: {old} -> {new} {unit}, {change:+.2} %{noise}"))
            }
            (Some(_), None) => Some(format!("{place}{metric}: only in the first")),
            (None, _) => Some(format!("{place}{metric}: only in the second")),
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(rows: &[(&str, &str, f64)]) -> Values {
        let rows: Vec<Row> = rows
            .iter()
            .map(|(size, metric, value)| {
                let cells = [
                    ("size", (*size).to_owned()),
                    ("metric", (*metric).into()),
                    ("value", value.to_string()),
                    ("unit", "us".into()),
                ];
                cells.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            })
            .collect();
        collect(&["size".into()], &rows, &[])
    }

    #[test]
    fn means_over_seeds_are_compared_point_by_point() {
        let before = values(&[("1", "time", 10.0), ("1", "time", 12.0), ("2", "time", 5.0), ("3", "time", 1.0)]);
        let after = values(&[("1", "time", 22.0), ("1", "time", 22.0), ("2", "time", 5.0), ("4", "time", 1.0)]);
        assert_eq!(
            compare(&before, &after, 0.0),
            [
                "size=1 time: 11 -> 22 us, +100.00 % (within the errors)",
                "size=3 time: only in the first",
                "size=4 time: only in the second"
            ]
        );
        assert_eq!(compare(&before, &after, 100.0).len(), 2);
        assert_eq!(compare(&before, &before, 0.0), Vec::<String>::new());
    }
}
