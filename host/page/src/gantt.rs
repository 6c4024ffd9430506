//! Who had what when: a row for each thing, and slices over time.

use std::fmt::Write;

use crate::{
    format::{escape, time, time_unit, trimmed},
    svg::{Anchor, Svg, ticks_within},
};

const WIDTH: f64 = 1080.0;
/// Least room for names to the left.
const LEFT: f64 = 74.0;
const RIGHT: f64 = WIDTH - 14.0;
const ROW: f64 = 40.0;
const THICK: f64 = 26.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 36.0;
/// Width of a letter, roughly: labels are where there is room for them.
const LETTER: f64 = 6.4;
/// Slices narrower than this are drawn as one with the next, so that a page does not grow with the length of a run.
const NARROW: f64 = 0.6;

/// What slices are.
#[derive(Clone, Debug)]
pub struct Kind {
    /// In the legend.
    pub name: String,
    /// A colour of the style sheet: `var(--i0)`.
    pub colour: &'static str,
    /// Nothing happens: behind all that does, and labels are as those outside.
    pub is_ground: bool,
}

/// From when to when something was what.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Its begin, in picoseconds.
    pub from_ps: u64,
    /// Its end.
    pub to_ps: u64,
    /// Which of the kinds.
    pub kind: usize,
    /// In it, where there is room.
    pub label: String,
    /// Where the pointer is over it.
    pub title: String,
}

/// A thing.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// In order of time.
    pub slices: Vec<Slice>,
}

/// A figure over the time from the first slice's begin to `end_ps`.
pub fn figure(title: &str, note: &str, kinds: &[Kind], rows: &[Row], end_ps: u64) -> String {
    let legend: String = { kinds.iter() }
        .map(|kind| format!("<li><i style=\"background:{}\"></i>{}</li>", kind.colour, escape(&kind.name)))
        .collect();
    let note = if note.is_empty() { String::new() } else { format!("<p class=\"note\">{}</p>\n", escape(note)) };
    format!(
        "<figure class=\"wide\">\n<h3>{}</h3>\n<ul class=\"legend\">{legend}</ul>\n{note}{}</figure>\n",
        escape(title),
        drawing(title, kinds, rows, end_ps)
    )
}

fn drawing(title: &str, kinds: &[Kind], rows: &[Row], end_ps: u64) -> String {
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + AXIS);
    let all = || rows.iter().flat_map(|row| &row.slices);
    let begin_ps = all().map(|slice| slice.from_ps).min().unwrap_or(0);
    let span_ps = end_ps.max(all().map(|slice| slice.to_ps).max().unwrap_or(0)).saturating_sub(begin_ps).max(1) as f64;
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let left = LEFT.max(LETTER * longest as f64 + 14.0);
    let x_of = |at_ps: f64| left + (RIGHT - left) * at_ps / span_ps;
    let (unit, name) = time_unit(span_ps);
    for tick in ticks_within(span_ps / unit, 8) {
        let x = x_of(tick * unit);
        svg.line([x, TOP, x, bottom], "grid");
        svg.text([x, bottom + 15.0], Anchor::Middle, "tick", &trimmed(tick));
    }
    let axis = format!("{name} after {}", time(begin_ps));
    svg.text([f64::midpoint(left, RIGHT), bottom + 31.0], Anchor::Middle, "axis", &axis);
    for (row, number) in rows.iter().zip(0_u32..) {
        let top = TOP + ROW * f64::from(number) + (ROW - THICK) / 2.0;
        svg.text([left - 8.0, top + THICK / 2.0 + 4.0], Anchor::End, "label", &row.name);
        svg.rect([left, top, RIGHT - left, THICK], "var(--idle)", "");
        draw_row(&mut svg, kinds, row, top, &|at_ps| x_of(at_ps.saturating_sub(begin_ps) as f64));
    }
    svg.finish(title)
}

fn draw_row(svg: &mut Svg, kinds: &[Kind], row: &Row, top: f64, x_of: &dyn Fn(u64) -> f64) {
    let mut drawn = f64::NEG_INFINITY;
    for slice in &row.slices {
        let (from, to) = (x_of(slice.from_ps).max(drawn), x_of(slice.to_ps));
        let Some(kind) = kinds.get(slice.kind).filter(|_| to - from >= NARROW) else { continue };
        drawn = to;
        let mut title = slice.title.clone();
        let _ = write!(title, ", {} from {}", time(slice.to_ps - slice.from_ps), time(slice.from_ps));
        svg.rect([from, top, to - from, THICK], kind.colour, &title);
        let class = if kind.is_ground { "label" } else { "inside" };
        if LETTER * slice.label.chars().count() as f64 + 6.0 <= to - from {
            svg.text([f64::midpoint(from, to), top + THICK / 2.0 + 4.0], Anchor::Middle, class, &slice.label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(from_ps: u64, to_ps: u64, kind: usize) -> Slice {
        Slice { from_ps, to_ps, kind, label: "a<b".into(), title: "t".into() }
    }

    #[test]
    fn slices_are_where_and_as_long_as_they_were() {
        let kinds = [
            Kind { name: "busy & so on".into(), colour: "var(--i0)", is_ground: false },
            Kind { name: "idle".into(), colour: "var(--i1)", is_ground: true },
        ];
        let narrow = slice(3_000_000, 3_000_001, 0);
        let row = Row {
            name: "r".into(),
            slices: vec![slice(1_000_000, 2_000_000, 1), slice(2_000_000, 3_000_000, 0), narrow],
        };
        let text = figure("a & b", "n", &kinds, &[row], 5_000_000);
        let document = roxmltree::Document::parse(&text).unwrap();
        let rects: Vec<[f64; 2]> = { document.descendants() }
            .filter(|node| node.has_tag_name("rect") && node.attribute("fill") != Some("var(--idle)"))
            .map(|node| ["x", "width"].map(|name| node.attribute(name).unwrap().parse().unwrap()))
            .collect();
        let quarter = (RIGHT - LEFT) / 4.0;
        assert_eq!(rects.len(), 2, "what nobody can see is not there");
        for (rect, from) in rects.iter().zip([LEFT, LEFT + quarter]) {
            assert!((rect[0] - from).abs() < 0.02 && (rect[1] - quarter).abs() < 0.02, "{rects:?}");
        }
        assert!(text.contains("a&lt;b") && text.contains("µs after 1.000\u{202f}µs"), "{text}");
    }

    #[test]
    fn nothing_is_a_figure_too() {
        assert!(!figure("a", "", &[], &[], 0).contains("NaN"));
    }
}
