//! `motet bench hthreads`: operating-system services as hardware, beside hthreads. So far the model: how many cores compute while others wait
//! for a service (Table II, Figure 9), to 4,096 of them.

mod model;
mod paper;

use std::fmt::Write;

use clap::Args;
use motet_fabric::Result;
use motet_page::{
    chart::{self, Scale, scaled_figure},
    svg::Stroke,
};

use self::model::{Curve, Point};
use crate::{
    output::Output,
    page,
    report::{Collected, Measurement},
};

const EXAMPLES: &str = "\
Examples:
  ./motet bench hthreads --quick           a few seconds: shorter simulations
  ./motet bench hthreads --report DIR      then open DIR/index.html

docs/benchmarks.md says what each figure means.";

/// Options of `motet bench hthreads`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    output: Output,
    /// Shorter simulations
    #[arg(long)]
    quick: bool,
}

/// Runs the experiment.
///
/// # Errors
/// A file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    let curves = model::compute(options.quick)?;
    let mut collected = Collected::default();
    collected.add(Ok(model::measurements(&curves)));
    options.output.page("Motet beside hthreads", || body(&curves, &collected.measurements))?;
    let outcome = collected.finish(options.output.json());
    motet_error::print(&table(&curves))?;
    outcome
}

fn table(curves: &[Curve]) -> String {
    let mut text = "\n".to_owned();
    for [what, cells @ ..] in [model::COLUMNS.map(str::to_owned)].iter().chain(&model::rows(curves)) {
        let cells = cells.iter().fold(String::new(), |line, cell| format!("{line}{cell:>15}"));
        let _ = writeln!(text, "  {what:<26}{cells}");
    }
    text
}

/// What the page shows.
fn body(curves: &[Curve], measurements: &[Measurement]) -> String {
    let mut body = "<header>\n<h1>Motet beside hthreads</h1>\n<p class=\"soft\">How many cores compute while others wait for a service of the \
                    operating system, by a queueing model. <code>docs/benchmarks.md</code> says how each figure is made.</p>\n</header>\n\
                    <div class=\"plots\">\n"
        .to_owned();
    let last_published = paper::CORES[paper::CORES.len() - 1];
    body += &plot("Figure 9: the three structures", Scale::Linear, curves, |point| point.cores <= last_published);
    body += &plot("Beyond: to 4,096 cores", Scale::Logarithmic, curves, |_| true);
    body += "</div>\n<p class=\"note\">Solid: in closed form. Dotted: simulated, with services that all take the same time, which the paper does \
             not assume. Dashed: its Table II.</p>\n";
    body += &page::table(&model::COLUMNS, model::rows(curves).into_iter());
    body + &page::all_figures(measurements)
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
        let page = motet_page::page("t", &body(&curves, &model::measurements(&curves)));
        roxmltree::Document::parse_with_options(
            &page,
            roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
        )
        .unwrap();
        assert_eq!(table(&curves).lines().count(), 2 + model::rows(&curves).len());
    }
}
