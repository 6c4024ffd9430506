//! The page: tables, the paper's plots, and where each way stops.

use motet_page::{
    chart::{self, Scale, scaled_figure},
    format::escape,
    svg::Stroke,
};

use super::{
    linux::Linux,
    machine::{Column, Latency, Results},
    model::{self, Curve, Point},
    paper,
};
use crate::page;

/// What was measured.
pub fn measured(results: &Results) -> String {
    let mut body = page::table(&Results::COLUMNS, results.rows().into_iter());
    body += "<h2>On the timed machine</h2>\n<div class=\"plots\">\n";
    body += &figures(results);
    body += "</div>\n<p class=\"note\">Dashed: the paper, as far as its text has values.</p>\n<h2>Table I: a request and its answer</h2>\n";
    body += &page::table(&Results::SHARED, results.shared().into_iter());
    body += &page::table(&Results::TABLE_1, results.table_1().into_iter());
    body += "<h2>Where each way stops</h2>\n<div class=\"plots\">\n";
    body += &ends(results);
    body += &comparisons(results);
    body += "</div>\n<p class=\"note\">Where each way stops: solid as measured, dashed by the model, dotted upright where all that serve are busy.</p>\n";
    body += &page::table(&Results::ENDS, results.ends().into_iter());
    body += "<h2>Who computes, and who waits (equations 3 to 7)</h2>\n";
    body += &page::table(&Results::QUEUES, results.queues().into_iter());
    body
}

/// Futexes of Linux.
pub fn of_linux(linux: &Linux) -> String {
    let head = format!("<h2>Linux, for orientation</h2>\n<p class=\"note\">{}</p>\n", escape(&linux.source));
    head + &page::table(&Linux::COLUMNS, linux.table().into_iter())
}

fn curve(name: impl Into<String>, colour: &'static str, stroke: Stroke, points: Vec<[f64; 2]>) -> chart::Curve {
    chart::Curve { name: name.into(), colour, stroke, points }
}

/// A curve for each way.
fn curves(results: &Results, of: impl Fn(&Column) -> Vec<[f64; 2]>) -> Vec<chart::Curve> {
    results.columns.iter().map(|column| curve(column.way.title, column.way.colour, Stroke::Solid, of(column))).collect()
}

/// Figures 5 and 6.
fn figures(results: &Results) -> String {
    let latencies = |latencies: &[Latency]| latencies.iter().map(|one| [f64::from(one.threads), one.cycles]).collect();
    let mut own = curves(results, |column| latencies(&column.own));
    let mut spread = curves(results, |column| {
        column.own.iter().map(|one| [f64::from(one.threads), one.singles.spread()[1]]).collect()
    });
    let mut speedup = curves(results, |column| column.speedup.clone());
    for column in &results.columns {
        let (title, colour) = (format!("{}, the paper", column.way.title), column.way.colour);
        let points = |[one, six]: [f64; 2]| vec![[1.0, one], [6.0, six]];
        let published = paper::mutex(column.way.name).map(points);
        own.extend(published.map(|points| curve(&*title, colour, Stroke::Dashed, points)));
        let published = paper::deviation(column.way.name).map(points);
        spread.extend(published.map(|points| curve(&*title, colour, Stroke::Dashed, points)));
        if column.way.name == "rpc" {
            speedup.push(curve(title, colour, Stroke::Dashed, paper::RPC_SPEEDUP.to_vec()));
        }
    }
    let axes = ["requesters", "cycles of a lock and an unlock"];
    let logarithmic =
        |title, axes, curves: &[chart::Curve]| scaled_figure(title, axes, Scale::Logarithmic, None, curves);
    let mut body = logarithmic("Figure 5: a mutex of one's own", axes, &own);
    body += &logarithmic("Figure 5: how far single ones differ", ["requesters", "standard deviation, cycles"], &spread);
    body += &logarithmic("One mutex for all", axes, &curves(results, |column| latencies(&column.same)));
    body + &scaled_figure("Figure 6: speed-up", ["threads", "times as fast as one"], Scale::Linear, None, &speedup)
}

/// Measured and modelled speed-ups, and where they end.
fn ends(results: &Results) -> String {
    let mut drawn = curves(results, |column| column.speedup.clone());
    for end in &results.ends {
        let at = end.limit.map_or("no end".to_owned(), |limit| format!("ends at {limit:.0}"));
        let title = format!("{}: {at}, {}", end.title, end.why);
        let is_bus = end.name == "hardware_bus";
        let colour = if is_bus { "var(--i5)" } else { end.colour };
        drawn.push(curve(title, colour, Stroke::Dashed, end.points.clone()));
        // Drawn twice: a hover text is that of the longest curve.
        let upright = end.limit.map(|limit| vec![[limit, 1.0], [limit, limit]]);
        drawn.extend(upright.map(|points| curve(format!("{}: its end", end.title), colour, Stroke::Dotted, points)));
    }
    let axes = ["threads, each on a core", "times as fast as one"];
    scaled_figure("Where each way stops scaling, and why", axes, Scale::Logarithmic, None, &drawn)
}

/// The slow service core, and models of it.
fn comparisons(results: &Results) -> String {
    let colours = ["var(--i0)", "var(--i2)"];
    let mut drawn = Vec::new();
    for (comparison, colour) in results.comparisons.iter().zip(colours) {
        let points = |of: fn(&super::machine::Compared) -> f64| {
            comparison.points.iter().map(|point| [f64::from(point.cores), of(point)]).collect::<Vec<_>>()
        };
        let ports = if comparison.ports == 1 { "one operation at a time" } else { "two at a time" };
        drawn.push(curve(format!("{ports}: the machine"), colour, Stroke::Solid, points(|point| point.measured)));
        drawn.push(curve(format!("{ports}: the model"), colour, Stroke::Dashed, points(|point| point.modelled)));
        let title = format!("{ports}: if all of a request were the server's, with measured times");
        drawn.push(curve(title, colour, Stroke::Dotted, points(|point| point.congregate)));
    }
    let axes = ["slaves", "iterations in 1000 cycles"];
    scaled_figure("A slow service core, and models", axes, Scale::Linear, None, &drawn)
}

/// Figure 9, and beyond.
pub fn modelled(curves: &[Curve]) -> String {
    let mut body = "<h2>By a queueing model</h2>\n<div class=\"plots\">\n".to_owned();
    let last_published = paper::CORES[paper::CORES.len() - 1];
    body += &plot("Figure 9: the three structures", Scale::Linear, curves, |point| point.cores <= last_published);
    body += &plot("Beyond: to 4,096 cores", Scale::Logarithmic, curves, |_| true);
    body += "</div>\n<p class=\"note\">Solid: in closed form. Dotted: simulated, with services that all take the same time, which the paper does \
             not assume. Dashed: its Table II.</p>\n";
    body + &page::table(&model::COLUMNS, model::rows(curves).into_iter())
}

fn plot(title: &str, scale: Scale, curves: &[Curve], shown: impl Fn(&Point) -> bool) -> String {
    let drawn = curves.iter().flat_map(|Curve { structure, points }| {
        let line = |what: &str, stroke, of: fn(&Point) -> Option<f64>| {
            let points = points.iter().filter(|point| shown(point));
            let points = points.filter_map(|point| Some([f64::from(point.cores), of(point)?])).collect();
            curve(format!("{}{what}", structure.title), structure.colour, stroke, points)
        };
        [
            line("", Stroke::Solid, |point| Some(point.closed)),
            line(", even services", Stroke::Dotted, |point| Some(point.even)),
            line(", the paper", Stroke::Dashed, |point| point.published),
        ]
    });
    scaled_figure(title, ["cores", "cores that compute"], scale, None, &drawn.collect::<Vec<_>>())
}
