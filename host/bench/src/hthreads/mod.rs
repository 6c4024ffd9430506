//! `motet bench hthreads`: operating-system services as hardware, beside hthreads: what a mutex takes by each way to ask for it (Figure 5), how a
//! loop that locks one scales (Figure 6), and a model of how many cores compute while others wait (Table II, Figure 9), to 4,096 of them.

mod machine;
mod model;
mod paper;

use std::fmt::Write;

use clap::{Args, ValueEnum};
use motet_fabric::Result;
use motet_page::{
    chart::{self, Scale, scaled_figure},
    svg::Stroke,
};

use self::{
    machine::{Column, Latency, Results},
    model::{Curve, Point},
};
use crate::{
    output::Output,
    page,
    report::{Collected, Measurement},
};

const EXAMPLES: &str = "\
Examples:
  ./motet bench hthreads --quick           two minutes: fewer machines and requesters
  ./motet bench hthreads --report DIR      everything; then open DIR/index.html
  ./motet bench hthreads --only model      the queueing model alone: seconds

docs/benchmarks.md says what each figure means.";

/// Options of `motet bench hthreads`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    output: Output,
    /// Shorter simulations, fewer machines and requesters
    #[arg(long)]
    quick: bool,
    /// Only this part (may be repeated)
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
}

/// Parts of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// The timed machine: a mutex by each way, speed-up, beside the model (Figures 5 and 6)
    Machine,
    /// The model alone (Table II, Figure 9)
    Model,
}

/// Runs the experiment. A part that fails does not keep the other from being reported.
///
/// # Errors
/// A part failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let mut collected = Collected::default();
    let mut results = None;
    if wanted(Part::Machine) {
        collected.add(machine::measure(options.quick).map(|measured| results.insert(measured).measurements()));
    }
    let curves = if wanted(Part::Model) { model::compute(options.quick)? } else { Vec::new() };
    if !curves.is_empty() {
        collected.add(Ok(model::measurements(&curves)));
    }
    options.output.page("Motet beside hthreads", || body(results.as_ref(), &curves, &collected.measurements))?;
    let outcome = collected.finish(options.output.json());
    motet_error::print(&tables(results.as_ref(), &curves))?;
    outcome
}

fn tables(results: Option<&Results>, curves: &[Curve]) -> String {
    let mut text = "\n".to_owned();
    if let Some(results) = results {
        for [what, cells @ ..] in [Results::COLUMNS.map(str::to_owned)].iter().chain(&results.rows()) {
            let cells = cells.iter().fold(String::new(), |line, cell| format!("{line}{cell:>16}"));
            let _ = writeln!(text, "  {what:<30}{cells}");
        }
        text.push('\n');
    }
    if !curves.is_empty() {
        text += &table(curves);
    }
    text
}

fn table(curves: &[Curve]) -> String {
    let mut text = String::new();
    for [what, cells @ ..] in [model::COLUMNS.map(str::to_owned)].iter().chain(&model::rows(curves)) {
        let cells = cells.iter().fold(String::new(), |line, cell| format!("{line}{cell:>15}"));
        let _ = writeln!(text, "  {what:<26}{cells}");
    }
    text
}

/// What the page shows.
fn body(results: Option<&Results>, curves: &[Curve], measurements: &[Measurement]) -> String {
    let mut body = "<header>\n<h1>Motet beside hthreads</h1>\n<p class=\"soft\">Services of an operating system by hardware, by calls of a master, and \
                    by a fused kernel: measured on a timed machine, and by a queueing model. <code>docs/benchmarks.md</code> says how each figure is \
                    made.</p>\n</header>\n"
        .to_owned();
    if let Some(results) = results {
        body += &page::table(&Results::COLUMNS, results.rows().into_iter());
        body += &measured(results);
    }
    if !curves.is_empty() {
        body += &modelled(curves);
    }
    body + &page::all_figures(measurements)
}

/// Figures 5 and 6, and the machine beside the model.
fn measured(results: &Results) -> String {
    let curves = |of: &dyn Fn(&Column) -> Vec<[f64; 2]>| -> Vec<chart::Curve> {
        let drawn = results.columns.iter().map(|column| chart::Curve {
            name: column.way.title.into(),
            colour: column.way.colour,
            stroke: Stroke::Solid,
            points: of(column),
        });
        drawn.collect()
    };
    let latencies = |latencies: &[Latency]| latencies.iter().map(|one| [f64::from(one.threads), one.cycles]).collect();
    let mut body = "<h2>On the timed machine</h2>\n<div class=\"plots\">\n".to_owned();
    let axes = ["requesters", "cycles of a lock and an unlock"];
    body += &scaled_figure(
        "Figure 5: a mutex of one's own",
        axes,
        Scale::Logarithmic,
        None,
        &curves(&|column| latencies(&column.own)),
    );
    body +=
        &scaled_figure("One mutex for all", axes, Scale::Logarithmic, None, &curves(&|column| latencies(&column.same)));
    let speedup = curves(&|column| column.speedup.clone());
    body += &scaled_figure("Figure 6: speed-up", ["threads", "times as fast as one"], Scale::Linear, None, &speedup);
    let line = |name: &str, stroke, column: usize| chart::Curve {
        name: name.into(),
        colour: "var(--i0)",
        stroke,
        points: results.comparison.iter().map(|point| [point[0], point[column]]).collect(),
    };
    let compared = [line("the machine", Stroke::Solid, 1), line("the model", Stroke::Dashed, 2)];
    let axes = ["slaves", "iterations in 1000 cycles"];
    body += &scaled_figure("A slow service core, and the model", axes, Scale::Linear, None, &compared);
    body + "</div>\n"
}

/// Figure 9, and beyond.
fn modelled(curves: &[Curve]) -> String {
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
            chart::Curve { name: format!("{}{what}", structure.title), colour: structure.colour, stroke, points }
        };
        [
            line("", Stroke::Solid, |point| Some(point.closed)),
            line(", even services", Stroke::Dotted, |point| Some(point.even)),
            line(", the paper", Stroke::Dashed, |point| point.published),
        ]
    });
    scaled_figure(title, ["cores", "cores that compute"], scale, None, &drawn.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_well_formed() {
        let curves = model::compute(true).unwrap();
        let page = motet_page::page("t", &body(None, &curves, &model::measurements(&curves)));
        roxmltree::Document::parse_with_options(
            &page,
            roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
        )
        .unwrap();
        assert_eq!(table(&curves).lines().count(), 1 + model::rows(&curves).len());
    }
}
