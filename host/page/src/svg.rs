//! Drawings: shapes with hover texts, axes with round numbers.

use std::fmt::Write;

use crate::format::escape;

/// A drawing. Colours are the page's variables, so that it follows light and dark.
#[derive(Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Which end of a text is at its position.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// How a curve is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stroke {
    /// Without gaps.
    Solid,
    /// In dashes.
    Dashed,
    /// In dots.
    Dotted,
}

impl Stroke {
    /// Its class in the style sheet; empty for what needs none.
    pub fn class(self) -> &'static str {
        match self {
            Self::Solid => "",
            Self::Dashed => "dashed",
            Self::Dotted => "dotted",
        }
    }
}

impl Svg {
    /// An empty drawing of so many units, which are pixels where there is room.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// A filled rectangle with a hover text. One without area is not drawn.
    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str, title: &str) {
        if width > 0.0 && height > 0.0 {
            let title = title_of(title);
            self.add(format_args!(
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{fill}\">{title}</rect>"
            ));
        }
    }

    /// A straight line of a class of the style sheet.
    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], class: &str) {
        self.add(format_args!("<line class=\"{class}\" x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\"/>"));
    }

    /// A text of a class of the style sheet.
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// A curve through points; it is interrupted where there is none.
    pub fn curve(&mut self, points: impl Iterator<Item = Option<[f64; 2]>>, colour: &str, stroke: Stroke, title: &str) {
        let mut path = String::new();
        let mut pen_down = false;
        for point in points {
            if let Some([x, y]) = point {
                let step = if pen_down { 'L' } else { 'M' };
                // A lone point is a dot, since line ends are round.
                let dot = if pen_down { "" } else { "h0" };
                let _ = write!(path, "{step}{x:.1} {y:.1}{dot}");
            }
            pen_down = point.is_some();
        }
        if !path.is_empty() {
            let class = format!("curve {}", stroke.class());
            let (class, title) = (class.trim_end(), title_of(title));
            self.add(format_args!("<path class=\"{class}\" d=\"{path}\" stroke=\"{colour}\">{title}</path>"));
        }
    }

    /// A place that shows a hover text and nothing else.
    pub fn hover(&mut self, [x, y, width, height]: [f64; 4], title: &str) {
        let title = title_of(title);
        self.add(format_args!(
            "<rect class=\"hover\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\">{title}</rect>"
        ));
    }

    /// The drawing as an element; `label` says what it shows to those who do not see it.
    pub fn finish(self, label: &str) -> String {
        let (width, height, body, label) = (self.width, self.height, self.body, escape(label));
        format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">\n{body}</svg>\n")
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{element}");
    }
}

fn title_of(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<title>{}</title>", escape(text)) }
}

/// Round numbers from 0 to at least `most`, about `wanted` steps: the last is the axis's end.
pub fn ticks(most: f64, wanted: usize) -> Vec<f64> {
    if !(most.is_finite() && most > 0.0) {
        return vec![0.0, 1.0];
    }
    let step = round_step(most / wanted as f64);
    let steps = (most / step - 1e-9).ceil().max(1.0) as usize;
    (0..=steps).map(|index| index as f64 * step).collect()
}

/// Round numbers from 0 up to `most`, about `wanted`; the axis ends where `most` is.
pub fn ticks_within(most: f64, wanted: usize) -> Vec<f64> {
    let mut ticks = ticks(most, wanted);
    ticks.retain(|tick| *tick <= most * (1.0 + 1e-9));
    ticks
}

/// The next larger of 1, 2, 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(ticks(9.3, 4), [0.0, 5.0, 10.0]);
        assert_eq!(ticks(100.0, 4), [0.0, 50.0, 100.0]);
        assert_eq!(ticks(70.0, 4), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks_within(70.0, 4), [0.0, 20.0, 40.0, 60.0]);
        for nothing in [0.0, f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(ticks(nothing, 4), [0.0, 1.0]);
        }
    }

    #[test]
    fn a_curve_has_gaps_where_there_is_nothing() {
        let mut svg = Svg::new(10.0, 10.0);
        let points = [Some([0.0, 1.0]), Some([1.0, 2.0]), None, Some([3.0, 3.0])];
        svg.curve(points.into_iter(), "red", Stroke::Solid, "a<b");
        let text = svg.finish("label");
        assert!(
            text.contains("d=\"M0.0 1.0h0L1.0 2.0M3.0 3.0h0\"") && text.contains("<title>a&lt;b</title>"),
            "{text}"
        );
    }
}
