//! Bars beside each other, as papers have them: one quantity of several systems.

use std::fmt::Write;

use crate::{
    format::{escape, short, trimmed},
    svg::{Anchor, Svg, ticks},
};

const WIDTH: f64 = 540.0;
/// Room for names to the left.
const LEFT: f64 = 144.0;
/// Room for values to the right.
const RIGHT: f64 = WIDTH - 62.0;
const ROW: f64 = 26.0;
const THICK: f64 = 14.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 34.0;

/// A system.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it is.
    pub name: String,
    /// A colour of the style sheet: `var(--i0)`.
    pub colour: &'static str,
    /// How long the bar is.
    pub value: f64,
}

/// Bars as a figure, from 0 on, in their order from above.
pub fn figure(title: &str, unit: &str, bars: &[Bar]) -> String {
    format!("<figure>\n<h3>{}</h3>\n{}</figure>\n", escape(title), drawing(title, unit, bars))
}

fn drawing(title: &str, unit: &str, bars: &[Bar]) -> String {
    let bottom = TOP + ROW * bars.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + AXIS);
    let most = bars.iter().map(|bar| bar.value).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let steps = ticks(most.max(f64::MIN_POSITIVE), 5);
    let end = steps[steps.len() - 1];
    let x_of = |value: f64| LEFT + (RIGHT - LEFT) * value / end;
    for &step in &steps {
        svg.line([x_of(step), TOP, x_of(step), bottom], "grid");
        svg.text([x_of(step), bottom + 15.0], Anchor::Middle, "tick", &short(step));
    }
    svg.line([LEFT, TOP, LEFT, bottom], "base");
    svg.text([f64::midpoint(LEFT, RIGHT), bottom + 30.0], Anchor::Middle, "axis", unit);
    for (bar, row) in bars.iter().zip(0_u32..) {
        let middle = TOP + ROW * (f64::from(row) + 0.5);
        svg.text([LEFT - 8.0, middle + 4.0], Anchor::End, "tick", &bar.name);
        if bar.value.is_finite() {
            let mut text = String::new();
            let _ = write!(text, "{}: {} {unit}", bar.name, trimmed(bar.value));
            svg.rect([LEFT, middle - THICK / 2.0, x_of(bar.value) - LEFT, THICK], bar.colour, &text);
            svg.text([x_of(bar.value) + 5.0, middle + 4.0], Anchor::Start, "tick", &short(bar.value));
        }
    }
    svg.finish(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_well_formed_and_bars_are_as_long_as_their_values() {
        let bar = |name: &str, value| Bar { name: name.into(), colour: "var(--i0)", value };
        let text = figure("a < b", "cycles", &[bar("x & y", 50.0), bar("z", 100.0), bar("none", f64::NAN)]);
        let document = roxmltree::Document::parse(&text).unwrap();
        let widths: Vec<f64> = { document.descendants() }
            .filter(|node| node.has_tag_name("rect") && node.attribute("fill") == Some("var(--i0)"))
            .map(|node| node.attribute("width").unwrap().parse().unwrap())
            .collect();
        assert!(widths.len() == 2 && (widths[1] / widths[0] - 2.0).abs() < 0.01, "{widths:?}");
    }
}
