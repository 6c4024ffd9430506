//! The page of a sweep: a small plot for each metric, and for each combination of what neither its axis nor its curves show.

use std::{collections::BTreeMap, fmt::Write};

use motet_page::{
    format::{escape, trimmed},
    multiples::{COLOURS, Series, figure},
};

use crate::{
    plan::PointResult,
    results::mean,
    study::{Point, Study},
};

/// More plots make no page that somebody looks at; the tables have all metrics.
const PLOTS_MAX: usize = 120;
/// Metrics that are shown if the study names none: those that say how long something took.
const TIMES: [&str; 2] = ["time", "time_per_entry"];

/// The page's body.
pub fn body(study: &Study, results: &[PointResult], failed: &[(&Point, String)]) -> String {
    let mut body = format!("<h1>{}</h1>\n<p>{}</p>\n", escape(&study.name), escape(&study.about));
    body += &facts(study, results, failed.len());
    if !failed.is_empty() {
        body += "<h2>Points that failed</h2>\n";
        for (point, why) in failed {
            let _ = writeln!(body, "<pre>{}: {}</pre>", escape(&point.label()), escape(why));
        }
    }
    let roles = Roles::of(study);
    let (shown, plots) = plots(study, results, &roles);
    if !plots.is_empty() {
        body += "<h2>Plots</h2>\n<p class=\"soft\">Means over seeds; bars are intervals of confidence of 95 %. What is 0 everywhere has no plot.</p>\n";
        let _ = writeln!(body, "<div class=\"plots small\">\n{plots}</div>");
        if shown == PLOTS_MAX {
            let _ = writeln!(
                body,
                "<p class=\"soft\">There are more: results.csv has all; `metrics` in the study chooses.</p>"
            );
        }
    }
    body + &table(results)
}

fn facts(study: &Study, results: &[PointResult], failed: usize) -> String {
    let fact = |value: String, what: &str| format!("<div><b>{}</b><span>{what}</span></div>\n", escape(&value));
    let mut commits: Vec<&str> = results.iter().map(|result| result.versions.commit.as_str()).collect();
    commits.sort_unstable();
    commits.dedup();
    let short =
        |commit: &&str| commit.chars().take(12).chain(commit.find("-changed").map_or("", |_| "+").chars()).collect();
    let commits: Vec<String> = commits.iter().map(short).collect();
    let seconds: f64 = results.iter().map(|result| result.host_s).sum();
    let facts = [
        fact(format!("{} of {}", results.len(), study.points.len()), "points finished"),
        fact(failed.to_string(), "failed"),
        fact(commits.join(" "), "commit"),
        fact(format!("{seconds:.0} s"), "of the host"),
    ];
    format!("<div class=\"facts\">\n{}</div>\n", facts.concat())
}

/// What axes are in plots.
struct Roles {
    /// Along which they go.
    x: Option<String>,
    /// Of which each value is a curve.
    series: Option<String>,
    /// The others.
    facets: Vec<String>,
}

impl Roles {
    /// The axis that the study names, or the one with most values that are numbers, is x; of the others, that with most values is the curves', if
    /// there are colours.
    fn of(study: &Study) -> Self {
        let axes = study.points.first().map(|point| point.axes.as_slice()).unwrap_or_default();
        let varying = axes.iter().map(|(name, _)| (all_values(study, Some(name)).len(), name.as_str()));
        let mut varying: Vec<(usize, &str)> = varying.filter(|(count, _)| *count > 1).collect();
        let is_number = |name: &str| all_values(study, Some(name)).iter().all(|value| quantity(value).is_some());
        let named = study.x.as_deref().and_then(|x| varying.iter().position(|(_, name)| *name == x));
        let best = |of: &[(usize, &str)], fits: &dyn Fn(&str) -> bool| {
            let fitting = of.iter().enumerate().filter(|(_, (_, name))| fits(name));
            fitting.max_by_key(|(index, (count, _))| (*count, usize::MAX - index)).map(|(index, _)| index)
        };
        let x = named.or_else(|| best(&varying, &is_number)).or_else(|| best(&varying, &|_| true));
        let x = x.map(|index| varying.remove(index).1.to_owned());
        let few: Vec<(usize, &str)> = varying.iter().copied().filter(|(count, _)| *count <= COLOURS.len()).collect();
        let series = best(&few, &|_| true).map(|index| few[index].1.to_owned());
        let facets = varying.iter().map(|(_, name)| (*name).to_owned());
        Self { x, facets: facets.filter(|name| Some(name) != series.as_ref()).collect(), series }
    }
}

/// A number, perhaps a size: `64KiB`.
fn quantity(text: &str) -> Option<f64> {
    let scales = [("GiB", 1024.0 * 1024.0 * 1024.0), ("MiB", 1024.0 * 1024.0), ("KiB", 1024.0), ("", 1.0)];
    scales.iter().find_map(|(unit, scale)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * scale))
}

/// What the seeds have measured, by series and x.
type Curves = BTreeMap<(usize, usize), Vec<f64>>;

/// How many plots there are, and they.
fn plots(study: &Study, results: &[PointResult], roles: &Roles) -> (usize, String) {
    let mut across = all_values(study, roles.x.as_deref());
    if across.iter().all(|x| quantity(x).is_some()) {
        across.sort_by(|a, b| quantity(a).partial_cmp(&quantity(b)).unwrap_or(std::cmp::Ordering::Equal));
    }
    let names = all_values(study, roles.series.as_deref());
    let mut text = String::new();
    let all = gather(study, results, roles, &across, &names);
    let shown = all.len().min(PLOTS_MAX);
    for ((metric, facet), (unit, curves)) in all.into_iter().take(PLOTS_MAX) {
        let at = |series: usize, x: usize| curves.get(&(series, x)).map(|values| mean(values)).map(|(m, e)| [m, e]);
        let series = names.iter().enumerate().map(|(index, name)| Series {
            name: roles.series.as_ref().map_or(String::new(), |axis| format!("{axis}={name}")),
            means: (0..across.len()).map(|x| at(index, x)).collect(),
        });
        let series: Vec<Series> = series.collect();
        let title = if facet.is_empty() { metric } else { format!("{metric}, {facet}") };
        let unit = if unit == "1" { "" } else { &unit };
        text += &figure(&title, roles.x.as_deref().unwrap_or_default(), &across, unit, &series);
    }
    (shown, text)
}

/// By metric and what is beside the plot's axes, its unit and what was measured. Counters of what a machine does not have are left out.
fn gather(
    study: &Study,
    results: &[PointResult],
    roles: &Roles,
    across: &[String],
    names: &[String],
) -> BTreeMap<(String, String), (String, Curves)> {
    let mut all = BTreeMap::<(String, String), (String, Curves)>::new();
    for result in results {
        let place = |values: &[String], axis: Option<&str>| {
            let value = value(&result.point, axis);
            values.iter().position(|other| *other == value).unwrap_or_default()
        };
        let curve = (place(names, roles.series.as_deref()), place(across, roles.x.as_deref()));
        let facets = roles.facets.iter().map(|name| format!("{name}={}", value(&result.point, Some(name))));
        let facet = facets.collect::<Vec<_>>().join(" ");
        for (name, metric) in result.metrics.iter().filter(|(name, _)| is_plotted(name, study)) {
            let plot = all.entry((name.clone(), facet.clone()));
            let (_, curves) = plot.or_insert_with(|| (metric.unit.clone(), Curves::new()));
            curves.entry(curve).or_default().push(metric.value);
        }
    }
    all.retain(|_, (_, curves)| curves.values().flatten().any(|value| *value != 0.0));
    all
}

/// A point's value of an axis; empty without one.
fn value(point: &Point, axis: Option<&str>) -> String {
    let found = point.axes.iter().find(|(name, _)| Some(name.as_str()) == axis);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

/// The different values of an axis, in the study's order.
fn all_values(study: &Study, axis: Option<&str>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for value in study.points.iter().map(|point| value(point, axis)) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// A study's own choice; without one, what programs print and how long regions and the run took.
fn is_plotted(name: &str, study: &Study) -> bool {
    let is_simulated = name.starts_with("run.") || name.starts_with("region.");
    !study.metrics.is_empty() || !is_simulated || TIMES.iter().any(|time| name.ends_with(&format!(".{time}")))
}

fn table(results: &[PointResult]) -> String {
    let Some(first) = results.first() else { return String::new() };
    let mut names: Vec<&String> = first.metrics.keys().collect();
    names.truncate(12);
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| {
        let row = cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(&cell))).collect::<String>();
        format!("<tr>{row}</tr>\n")
    };
    let heads = first.point.axes.iter().map(|(name, _)| name.clone()).chain(["seed".into()]);
    let unit = |name: &str| first.metrics.get(name).map(|metric| metric.unit.clone()).filter(|unit| unit != "1");
    let columns = names.iter().map(|name| unit(name).map_or((*name).clone(), |unit| format!("{name}, {unit}")));
    let head = cells("th", &mut heads.chain(columns));
    let rows: String = results
        .iter()
        .map(|result| {
            let axes = result.point.axes.iter().map(|(_, value)| value.clone()).chain([result.point.seed.to_string()]);
            let value = |name: &&String| result.metrics.get(*name).map_or("–".into(), |metric| trimmed(metric.value));
            cells("td", &mut axes.chain(names.iter().map(value)))
        })
        .collect();
    format!(
        "<h2>Points</h2>\n<p class=\"soft\">The first metrics; results.csv and results.parquet have all, with where each comes from.</p>\n\
         <div class=\"scroll\"><table>\n<thead>{head}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::result;

    #[test]
    fn the_axis_with_most_numbers_goes_across_and_another_is_the_curves() {
        let sizes = ["4KiB", "64KiB", "1MiB"];
        let results: Vec<PointResult> = sizes
            .iter()
            .flat_map(|size| ["near", "far"].map(|memory| (*size, memory)))
            .flat_map(|(size, memory)| {
                [1, 2].map(|seed| result(&[("memory", memory), ("size", size), ("one", "1")], seed, seed as f64))
            })
            .collect();
        let points: Vec<Point> = results.iter().map(|result| result.point.clone()).collect();
        let study = Study { name: "s".into(), about: "a < b".into(), metrics: Vec::new(), x: None, points };
        let roles = Roles::of(&study);
        assert_eq!(
            (roles.x.as_deref(), roles.series.as_deref(), roles.facets.len()),
            (Some("size"), Some("memory"), 0)
        );
        let failed = [(&study.points[0], "it <broke>".to_owned())];
        let page = motet_page::page("s", &body(&study, &results, &failed));
        let document = roxmltree::Document::parse_with_options(
            page.strip_prefix("<!DOCTYPE html>\n").unwrap(),
            roxmltree::ParsingOptions::default(),
        );
        let document = document.unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("figure")).count(), 1);
        assert!(page.contains("memory=near") && page.contains("12 of 12") && page.contains("it &lt;broke&gt;"));
        // Seeds 1 and 2: 1.5, with t = 12.7 and one degree of freedom.
        assert!(page.contains("1.5 ± 6.35 us"), "{page}");
        let x = Study { x: Some("memory".into()), ..study };
        assert_eq!(Roles::of(&x).x.as_deref(), Some("memory"));
    }

    #[test]
    fn sizes_are_quantities() {
        assert_eq!([quantity("64KiB"), quantity("1.5"), quantity("x")], [Some(65_536.0), Some(1.5), None]);
    }
}
