//! A tornado plot: what a figure is when each of its parameters is at either end, the widest bar on top.

use crate::{
    format::{escape, trimmed},
    svg::{Anchor, Svg, ticks_within},
};

const WIDTH: f64 = 700.0;
/// Room for names to the left.
const LEFT: f64 = 270.0;
/// Room for labels at both ends of bars.
const MARGIN: f64 = 52.0;
const ROW: f64 = 24.0;
const THICK: f64 = 9.0;
const TOP: f64 = 22.0;
const AXIS: f64 = 36.0;
/// Colours of the lower and the upper end.
const COLOURS: [&str; 2] = ["var(--i0)", "var(--i1)"];

/// A parameter.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it is.
    pub name: String,
    /// Its lower and its upper end.
    pub ends: [End; 2],
}

/// A parameter at one end.
#[derive(Clone, Debug)]
pub struct End {
    /// The parameter's value.
    pub label: String,
    /// The figure's.
    pub value: f64,
}

/// Lines across all bars.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// The figure as it is.
    pub base: f64,
    /// What it should be less than.
    pub target: f64,
}

/// The plot as a figure; `bars` in the order in which they are drawn.
pub fn figure(title: &str, note: &str, unit: &str, marks: Marks, bars: &[Bar]) -> String {
    let legend = ["lower end", "upper end"].into_iter().zip(COLOURS).fold(String::new(), |text, (name, colour)| {
        text + &format!("<li><i style=\"background:{colour}\"></i>{name}</li>\n")
    });
    format!(
        "<figure>\n<h3>{}</h3>\n<p class=\"soft\">{}</p>\n<ul class=\"legend\">\n{legend}</ul>\n{}</figure>\n",
        escape(title),
        escape(note),
        drawing(title, unit, marks, bars)
    )
}

fn drawing(title: &str, unit: &str, marks: Marks, bars: &[Bar]) -> String {
    let bottom = TOP + ROW * bars.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + AXIS);
    let values = bars.iter().flat_map(|bar| bar.ends.iter().map(|end| end.value)).chain([marks.base, marks.target]);
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    let (left, right) = (LEFT + MARGIN, WIDTH - MARGIN);
    let x_of = |value: f64| left + (right - left) * (value - least) / (most - least).max(f64::MIN_POSITIVE);
    // The axis begins with the least: about eight of the steps from 0 are to be on it.
    let steps = (8.0 * most / (most - least).max(most / 100.0)) as usize;
    for tick in ticks_within(most, steps.max(8)).into_iter().filter(|tick| *tick >= least) {
        svg.line([x_of(tick), TOP, x_of(tick), bottom], "grid");
        svg.text([x_of(tick), bottom + 15.0], Anchor::Middle, "tick", &trimmed(tick));
    }
    svg.text([(left + right) / 2.0, bottom + 30.0], Anchor::Middle, "axis", unit);
    for (index, bar) in bars.iter().enumerate() {
        row(&mut svg, TOP + ROW * index as f64, x_of, unit, marks.base, bar);
    }
    // Away from each other, as they may be close together.
    let [of_base, of_target] =
        if marks.base < marks.target { [Anchor::End, Anchor::Start] } else { [Anchor::Start, Anchor::End] };
    for (value, what, class, anchor) in
        [(marks.base, "", "base", of_base), (marks.target, "target ", "base dashed", of_target)]
    {
        svg.line([x_of(value), TOP, x_of(value), bottom], class);
        svg.text([x_of(value), TOP - 8.0], anchor, "value", &format!("{what}{}", trimmed(value)));
    }
    svg.finish(title)
}

/// The lower end above the upper one, each from the line of what is.
fn row(svg: &mut Svg, top: f64, x_of: impl Fn(f64) -> f64, unit: &str, base: f64, bar: &Bar) {
    svg.text([LEFT, top + ROW / 2.0 + 4.0], Anchor::End, "label", &bar.name);
    for (index, (end, colour)) in bar.ends.iter().zip(COLOURS).enumerate() {
        let y = top + 3.0 + THICK * index as f64;
        let (from, to) = (x_of(base.min(end.value)), x_of(base.max(end.value)));
        svg.rect(
            [from, y, to - from, THICK],
            colour,
            &format!("{} = {}: {} {unit}", bar.name, end.label, trimmed(end.value)),
        );
        // What cannot be seen has no label.
        if to - from >= 1.0 {
            let (x, anchor) = if end.value < base { (from - 4.0, Anchor::End) } else { (to + 4.0, Anchor::Start) };
            svg.text([x, y + THICK - 0.5], anchor, "value", &end.label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, low: f64, high: f64) -> Bar {
        let end = |label: &str, value| End { label: label.into(), value };
        Bar { name: name.into(), ends: [end("half", low), end("double", high)] }
    }

    #[test]
    fn bars_begin_where_the_figure_is() {
        let marks = Marks { base: 10.0, target: 12.0 };
        let text = figure("a < b", "", "us", marks, &[bar("x", 8.0, 12.0), bar("y & z", 10.0, 11.0)]);
        let document = roxmltree::Document::parse(&text).unwrap();
        let rects: Vec<[f64; 2]> = document
            .descendants()
            .filter(|node| node.has_tag_name("rect"))
            .map(|node| ["x", "width"].map(|name| node.attribute(name).unwrap().parse().unwrap()))
            .collect();
        // From 8 to 12 over 326 units that begin at 322; what changes nothing is not drawn.
        assert_eq!(rects, [[322.0, 163.0], [485.0, 163.0], [485.0, 81.5]]);
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
        assert!(texts.contains(&"y & z") && texts.contains(&"target 12"), "{texts:?}");
    }

    #[test]
    fn nothing_has_a_figure() {
        let text = figure("t", "", "us", Marks { base: 1.0, target: 1.0 }, &[]);
        assert!(!text.contains("NaN") && roxmltree::Document::parse(&text).is_ok(), "{text}");
    }
}
