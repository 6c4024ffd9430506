//! What a point measures: lines `name value unit` of its output, and the statistics of timed runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A number with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The number.
    pub value: f64,
    /// Its unit; `1` for a number without one.
    pub unit: String,
}

/// By name.
pub type Metrics = BTreeMap<String, Metric>;

/// The lines of an output that are three words, the second of them a number and the first one a name. Of lines with the same name the last counts.
pub fn printed(output: &str) -> Metrics {
    output.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(String, Metric)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let &[name, value, unit] = words.as_slice() else { return None };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/:".contains(c));
    let value = value.parse::<f64>().ok().filter(|value| value.is_finite())?;
    // `10 20 30` is a row of numbers, and so is `a 20 30`.
    let is_unit = unit == "1" || unit.parse::<f64>().is_err();
    (is_name && is_unit).then(|| (name.into(), Metric { value, unit: unit.into() }))
}

/// Of a timed run's statistics (docs/stats.md): `run.*` of the whole run, `region.NAME.*` of each region of interest. Counts are sums over cores.
pub fn simulated(stats: &Value) -> Metrics {
    let mut metrics = Metrics::new();
    add_part(&mut metrics, "run", stats);
    for region in stats["regions"].as_array().into_iter().flatten() {
        let name = format!("region.{}", region["name"].as_str().unwrap_or_default());
        add_part(&mut metrics, &name, region);
        if let (Some(entries), Some(time)) = (region["entries"].as_f64(), region["time_ps"].as_f64())
            && entries > 0.0
        {
            metrics.insert(format!("{name}.entries"), Metric { value: entries, unit: "1".into() });
            let value = time / 1e6 / entries;
            metrics.insert(format!("{name}.time_per_entry"), Metric { value, unit: "us".into() });
        }
    }
    metrics
}

fn add_part(metrics: &mut Metrics, name: &str, part: &Value) {
    if let Some(time) = part["time_ps"].as_f64() {
        metrics.insert(format!("{name}.time"), Metric { value: time / 1e6, unit: "us".into() });
    }
    let mut sums = BTreeMap::<&str, f64>::new();
    for core in part["cores"].as_array().into_iter().flatten() {
        let own = core.as_object().into_iter().flatten().filter(|(key, _)| !["core", "hidden"].contains(&key.as_str()));
        // The model is told of instructions, too, but not of those of a halted core.
        let counters = core["memory"].as_object().into_iter().flatten().filter(|(key, _)| *key != "instructions");
        for (key, value) in own.chain(counters) {
            *sums.entry(key).or_default() += value.as_f64().unwrap_or_default();
        }
    }
    for (key, value) in sums {
        // The clocks' sum means nothing, and objects and words have none.
        if ["time_ps", "island", "memory"].contains(&key) {
            continue;
        }
        let (key, value, unit) = match key.strip_suffix("_ps") {
            Some(key) => (key, value / 1e6, "us"),
            None => (key, value, "1"),
        };
        metrics.insert(format!("{name}.{key}"), Metric { value, unit: unit.into() });
    }
}

/// Whether a name is one of these, in which `*` stands for anything; without any, all are.
pub fn is_wanted(name: &str, patterns: &[String]) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(name, pattern))
}

fn matches(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|start| rest.is_char_boundary(start) && matches(&rest[start..], after))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_three_words_are_metrics() {
        let text = "starting\nlatency 1.5 us\nrounds 300 1\nlatency 2.5 us\na b c\n1 2 3\nx 1\ny 1 2\nz nan s\nw.x-y 3e2 MB/s\n";
        let found: Vec<(String, f64, String)> =
            printed(text).into_iter().map(|(name, metric)| (name, metric.value, metric.unit)).collect();
        let expected = [("latency", 2.5, "us"), ("rounds", 300.0, "1"), ("w.x-y", 300.0, "MB/s")];
        assert_eq!(found, expected.map(|(name, value, unit)| (name.to_owned(), value, unit.to_owned())));
    }

    #[test]
    fn statistics_are_summed_over_cores() {
        let core = |stall: u64| serde_json::json!({"island": "a", "core": 3, "time_ps": 9, "stall_ps": stall, "instructions": 5, "memory": {"far_reads": 2, "instructions": 7}});
        let stats = serde_json::json!({
            "time_ps": 4_000_000u64, "cores": [core(1_000_000), core(2_000_000)],
            "regions": [{"name": "work", "entries": 2, "time_ps": 6_000_000u64, "cores": [core(0)]}]
        });
        let metrics = simulated(&stats);
        for (name, value, unit) in [
            ("run.time", 4.0, "us"),
            ("run.stall", 3.0, "us"),
            ("run.instructions", 10.0, "1"),
            ("run.far_reads", 4.0, "1"),
            ("region.work.time", 6.0, "us"),
            ("region.work.time_per_entry", 3.0, "us"),
            ("region.work.entries", 2.0, "1"),
        ] {
            assert_eq!(metrics.get(name), Some(&Metric { value, unit: unit.into() }), "{name}");
        }
        assert!(!metrics.keys().any(|name| name.ends_with(".core") || name.ends_with(".island")), "{metrics:?}");
    }

    #[test]
    fn stars_stand_for_anything() {
        let wanted = |name: &str, pattern: &str| is_wanted(name, &[pattern.into()]);
        assert!(wanted("run.time", "run.*") && wanted("region.a.time", "*.time") && wanted("a", "*"));
        assert!(!wanted("run.time", "time") && !wanted("region.a.time", "run*") && is_wanted("x", &[]));
    }
}
