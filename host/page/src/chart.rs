//! A chart of curves over a quantity, as papers have them.

use std::fmt::Write;

use crate::{
    format::{escape, short, trimmed},
    svg::{Anchor, Stroke, Svg, ticks, ticks_within},
};

const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 8.0;
/// Room for the axis under the chart.
const AXIS: f64 = 36.0;

/// One curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// A colour of the style sheet: `var(--i0)`.
    pub colour: &'static str,
    /// Whose figures these are.
    pub stroke: Stroke,
    /// x and y, by x.
    pub points: Vec<[f64; 2]>,
}

/// How quantities become lengths, on both axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// From 0 on.
    Linear,
    /// By powers of ten; what is not above 0 is left out.
    Logarithmic,
}

/// Curves with their legend, as a figure whose axes begin at 0. `level`: a line across at that height.
pub fn figure(title: &str, axes: [&str; 2], level: Option<f64>, curves: &[Curve]) -> String {
    scaled_figure(title, axes, Scale::Linear, level, curves)
}

/// The same, with axes of another scale.
pub fn scaled_figure(title: &str, axes: [&str; 2], scale: Scale, level: Option<f64>, curves: &[Curve]) -> String {
    let mut legend = String::new();
    for curve in curves {
        let (class, colour, name) = (curve.stroke.class(), curve.colour, escape(&curve.name));
        let _ = writeln!(legend, "<li><i class=\"{class}\" style=\"background:{colour}\"></i>{name}</li>");
    }
    let (drawing, [_, up], title) = (drawing(title, axes, scale, level, curves), axes, escape(title));
    format!(
        "<figure>\n<h3>{title}</h3>\n<p class=\"soft\">{}</p>\n<ul class=\"legend\">\n{legend}</ul>\n{drawing}</figure>\n",
        escape(up)
    )
}

/// An axis: where it begins and ends, and its ticks.
struct Axis {
    scale: Scale,
    ends: [f64; 2],
    ticks: Vec<f64>,
}

impl Axis {
    /// From 0 to the most of these values, or, with `rounded`, to the last tick.
    fn linear(values: impl Iterator<Item = f64>, wanted: usize, rounded: bool) -> Self {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let ticks = if rounded { ticks(most, wanted) } else { ticks_within(most.max(f64::MIN_POSITIVE), wanted) };
        let end = if rounded { ticks[ticks.len() - 1] } else { most.max(f64::MIN_POSITIVE) };
        Self { scale: Scale::Linear, ends: [0.0, end], ticks }
    }

    /// From the power of ten below all of these values to the one above them.
    fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let exponents = values.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10);
        let [least, most] = exponents.fold([f64::INFINITY, f64::NEG_INFINITY], |[least, most], exponent| {
            [least.min(exponent.floor()), most.max(exponent.ceil())]
        });
        let [least, most] = if least > most { [0.0, 1.0] } else { [least, most.max(least + 1.0)] };
        let ticks = (least as i32..=most as i32).map(|exponent| 10f64.powi(exponent)).collect();
        Self { scale: Scale::Logarithmic, ends: [least, most], ticks }
    }

    /// Where a value lies: 0 at the beginning, 1 at the end.
    fn share(&self, value: f64) -> f64 {
        let [begin, end] = self.ends;
        let value = if self.scale == Scale::Linear { value } else { value.log10() };
        (value - begin) / (end - begin)
    }
}

fn drawing(title: &str, [across, up]: [&str; 2], scale: Scale, level: Option<f64>, curves: &[Curve]) -> String {
    let mut svg = Svg::new(WIDTH, TOP + HEIGHT + AXIS);
    let values = |axis: usize| curves.iter().flat_map(move |curve| curve.points.iter().map(move |point| point[axis]));
    let [x_axis, y_axis] = match scale {
        Scale::Linear => [Axis::linear(values(0), 8, false), Axis::linear(values(1).chain(level), 6, true)],
        Scale::Logarithmic => [Axis::logarithmic(values(0)), Axis::logarithmic(values(1).chain(level))],
    };
    let bottom = TOP + HEIGHT;
    let (x_of, y_of) = (|x: f64| LEFT + (RIGHT - LEFT) * x_axis.share(x), |y: f64| bottom - HEIGHT * y_axis.share(y));
    for &step in &y_axis.ticks {
        svg.line([LEFT, y_of(step), RIGHT, y_of(step)], "grid");
        svg.text([LEFT - 6.0, y_of(step) + 4.0], Anchor::End, "tick", &short(step));
    }
    svg.line([LEFT, bottom, RIGHT, bottom], "base");
    for &step in &x_axis.ticks {
        svg.line([x_of(step), bottom, x_of(step), bottom + 3.0], "base");
        svg.text([x_of(step), bottom + 15.0], Anchor::Middle, "tick", &trimmed(step));
    }
    svg.text([(LEFT + RIGHT) / 2.0, bottom + 30.0], Anchor::Middle, "axis", across);
    if let Some(level) = level {
        svg.line([LEFT, y_of(level), RIGHT, y_of(level)], "base");
    }
    for curve in curves {
        let points = curve.points.iter().map(|&[x, y]| [x_of(x), y_of(y)]);
        let points = points.map(|[x, y]| (x.is_finite() && y.is_finite()).then_some([x, y]));
        svg.curve(points, curve.colour, curve.stroke, &curve.name);
    }
    hovers(&mut svg, [across, up], curves, x_of);
    svg.finish(title)
}

/// A hover text for each x that the curve with most points has.
fn hovers(svg: &mut Svg, [across, up]: [&str; 2], curves: &[Curve], x_of: impl Fn(f64) -> f64) {
    let Some(longest) = curves.iter().max_by_key(|curve| curve.points.len()) else { return };
    let width = (RIGHT - LEFT) / longest.points.len().max(1) as f64;
    for &[x, _] in &longest.points {
        let mut text = format!("{across}: {}; {up}", trimmed(x));
        for curve in curves {
            if let Some([_, y]) = curve.points.iter().find(|point| point[0] == x) {
                let _ = write!(text, "\n{}: {}", curve.name, trimmed(*y));
            }
        }
        let left = (x_of(x) - width / 2.0).max(LEFT);
        svg.hover([left, TOP, width.min(RIGHT - left), HEIGHT], &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[[f64; 2]]) -> Curve {
        Curve { name: name.into(), colour: "var(--i0)", stroke: Stroke::Dashed, points: points.into() }
    }

    #[test]
    fn a_figure_is_well_formed_and_names_its_curves() {
        let curves = [curve("a < b", &[[0.0, 1.0], [10.0, 2.0]]), curve("c", &[[10.0, f64::NAN]])];
        let text = figure("speed & more", ["accesses", "ratio"], Some(1.0), &curves);
        let document = roxmltree::Document::parse(&text).unwrap();
        let items = document.descendants().filter(|node| node.has_tag_name("li"));
        assert_eq!(items.filter_map(|node| node.last_child()?.text()).collect::<Vec<_>>(), ["a < b", "c"]);
        // From the lower left corner of 0 and 1 of 2 to the upper right one.
        assert!(text.contains("d=\"M52.0 138.0h0L526.0 8.0\""), "{text}");
        assert!(!text.contains("NaN\" "), "{text}");
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart() {
        let curves = [curve("a", &[[1.0, 1.0], [10.0, 100.0], [0.0, 5.0]])];
        let text = scaled_figure("t", ["x", "y"], Scale::Logarithmic, Some(10.0), &curves);
        roxmltree::Document::parse(&text).unwrap();
        // From the lower left corner to the upper right one; 0 has no place.
        assert!(text.contains("d=\"M52.0 268.0h0L526.0 8.0"), "{text}");
        assert!(text.contains("class=\"base\" x1=\"52.00\" y1=\"138.00\""), "{text}");
    }

    #[test]
    fn nothing_has_a_figure() {
        roxmltree::Document::parse(&scaled_figure("t", ["x", "y"], Scale::Logarithmic, None, &[])).unwrap();
        roxmltree::Document::parse(&figure("t", ["x", "y"], None, &[])).unwrap();
        roxmltree::Document::parse(&figure("t", ["x", "y"], None, &[curve("a", &[])])).unwrap();
    }
}
