//! Small plots side by side: means with error bars over the values of an axis, which are equally far apart.

use std::fmt::Write;

use crate::{
    format::{escape, short, trimmed},
    svg::{Anchor, Stroke, Svg, ticks},
};

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 8.0;
/// Room for the axis under the plot.
const AXIS: f64 = 34.0;
/// More labels under a plot would overlap.
const LABELS_MAX: usize = 8;
/// Half the width of an error bar's ends.
const END: f64 = 3.0;

/// Colours of series; further ones begin anew.
pub const COLOURS: [&str; 8] =
    ["var(--i0)", "var(--i1)", "var(--i2)", "var(--i3)", "var(--i4)", "var(--i5)", "var(--i6)", "var(--i7)"];

/// A series: for each value of the axis a mean and how far it may be wrong, or nothing.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is; empty if there is one alone.
    pub name: String,
    /// In the order of the axis's values.
    pub means: Vec<Option<[f64; 2]>>,
}

/// One plot with its legend. `values` are those of the axis `across`, as they are shown; `unit` is what is measured.
pub fn figure(title: &str, across: &str, values: &[String], unit: &str, series: &[Series]) -> String {
    let mut legend = String::new();
    for (each, colour) in series.iter().filter(|each| !each.name.is_empty()).zip(COLOURS.iter().cycle()) {
        let _ = writeln!(legend, "<li><i style=\"background:{colour}\"></i>{}</li>", escape(&each.name));
    }
    if !legend.is_empty() {
        legend = format!("<ul class=\"legend\">\n{legend}</ul>\n");
    }
    let drawing = drawing(title, across, values, unit, series);
    format!(
        "<figure>\n<h3>{}</h3>\n<p class=\"soft\">{}</p>\n{legend}{drawing}</figure>\n",
        escape(title),
        escape(unit)
    )
}

fn drawing(title: &str, across: &str, values: &[String], unit: &str, series: &[Series]) -> String {
    let mut svg = Svg::new(WIDTH, TOP + HEIGHT + AXIS);
    let bottom = TOP + HEIGHT;
    let ends = || series.iter().flat_map(|each| each.means.iter().flatten());
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    let most = ends().map(|[mean, error]| finite(mean + error)).fold(0.0, f64::max);
    let least = ends().map(|[mean, error]| finite(mean - error)).fold(0.0, f64::min);
    let up = ticks(most.max(-least), 4);
    let top = up[up.len() - 1];
    let low = if least < 0.0 { -top } else { 0.0 };
    let width = (RIGHT - LEFT) / values.len().max(1) as f64;
    let x_of = |index: usize| LEFT + width * (index as f64 + 0.5);
    let y_of = |value: f64| bottom - HEIGHT * ((value - low) / (top - low)).clamp(0.0, 1.0);
    let below = up.iter().skip(1).map(|tick| -tick).filter(|tick| *tick >= low);
    for tick in up.iter().copied().chain(below) {
        svg.line([LEFT, y_of(tick), RIGHT, y_of(tick)], if tick == 0.0 { "base" } else { "grid" });
        let text = if tick < 0.0 { format!("-{}", short(-tick)) } else { short(tick) };
        svg.text([LEFT - 6.0, y_of(tick) + 4.0], Anchor::End, "tick", &text);
    }
    for index in (0..values.len()).step_by(values.len().div_ceil(LABELS_MAX).max(1)) {
        svg.text([x_of(index), bottom + 15.0], Anchor::Middle, "tick", &values[index]);
    }
    svg.text([(LEFT + RIGHT) / 2.0, bottom + 30.0], Anchor::Middle, "axis", across);
    for (each, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let place = |index: usize, value: f64| value.is_finite().then(|| [x_of(index), y_of(value)]);
        let middles = each.means.iter().enumerate().map(|(index, mean)| mean.and_then(|[mean, _]| place(index, mean)));
        svg.curve(middles, colour, Stroke::Solid, &each.name);
        for (index, [mean, error]) in each.means.iter().enumerate().filter_map(|(index, mean)| Some((index, (*mean)?)))
        {
            if error > 0.0 && error.is_finite() {
                let (x, high, low) = (x_of(index), y_of(mean + error), y_of(mean - error));
                let bar = [[[x, high], [x, low]], [[x - END, high], [x + END, high]], [[x - END, low], [x + END, low]]];
                for line in bar {
                    svg.curve(line.into_iter().map(Some), colour, Stroke::Solid, "");
                }
            }
            svg.rect([x_of(index) - 2.5, y_of(mean) - 2.5, 5.0, 5.0], colour, &each.name);
        }
    }
    for (index, value) in values.iter().enumerate() {
        let mut text = format!("{across}: {value}");
        for each in series {
            if let Some(Some([mean, error])) = each.means.get(index) {
                let error = if *error > 0.0 { format!(" ± {}", trimmed(*error)) } else { String::new() };
                let _ = write!(
                    text,
                    "\n{}{}{}{error} {unit}",
                    each.name,
                    if each.name.is_empty() { "" } else { ": " },
                    trimmed(*mean)
                );
            }
        }
        svg.hover([x_of(index) - width / 2.0, TOP, width, HEIGHT], &text);
    }
    svg.finish(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_plot_is_well_formed_and_has_its_error_bars() {
        let series = [
            Series { name: "a < b".into(), means: vec![Some([1.0, 0.5]), Some([2.0, 0.0])] },
            Series { name: "c".into(), means: vec![None, Some([f64::NAN, 1.0])] },
        ];
        let text = figure("time & more", "size", &values(&["1", "2<3"]), "us", &series);
        let document = roxmltree::Document::parse(&text).unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("li")).count(), 2);
        // 0 to 2 on 170 pixels: 0.5 above and below 1.
        assert!(text.contains("d=\"M121.0 50.5h0L121.0 135.5\""), "{text}");
        assert!(text.contains("1 ± 0.5 us"), "{text}");
    }

    #[test]
    fn nothing_and_what_is_below_nothing_have_plots() {
        roxmltree::Document::parse(&figure("t", "x", &[], "us", &[])).unwrap();
        let below = Series { name: String::new(), means: vec![Some([-1.0, 0.25])] };
        let text = figure("t", "x", &values(&["a"]), "%", &[below]);
        roxmltree::Document::parse(&text).unwrap();
        assert!(!text.contains("legend"));
    }
}
