//! The kinds of plots that the report has.

use motet_page::{
    format::{count, percent, short, time, time_unit, trimmed},
    svg::{Anchor, Stroke, Svg, ticks, ticks_within},
};

/// Width of all plots. A page shows them at about this size, so that letters stay readable.
const WIDTH: f64 = 540.0;
const RIGHT: f64 = WIDTH - 14.0;
/// Height of the axis under a plot.
const AXIS: f64 = 36.0;
/// Height of a core's row.
const ROW: f64 = 20.0;

/// Part of a bar: its colour and what it is.
pub type Category = (&'static str, &'static str);

/// A core's bar: its label, and a value for each category.
pub struct Bar {
    /// Its label.
    pub label: String,
    /// Values by category.
    pub parts: Vec<u64>,
}

/// What bars measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Simulated time, in picoseconds.
    Time,
    /// How many.
    Count,
}

/// Stacked bars, one below the other.
pub fn bars(label: &str, measure: Measure, bars: &[Bar], categories: &[Category]) -> String {
    let left = label_width(bars.iter().map(|bar| bar.label.as_str()));
    let height = bars.len() as f64 * ROW + 4.0;
    let mut svg = Svg::new(WIDTH, height + AXIS);
    let most = bars.iter().map(|bar| bar.parts.iter().sum::<u64>()).max().unwrap_or(0).max(1) as f64;
    let (unit, unit_name) = time_unit(most);
    let (unit, axis) = match measure {
        Measure::Time => (unit, format!("simulated time, {unit_name}")),
        Measure::Count => (1.0, "cache lines".into()),
    };
    let scale = (RIGHT - left) / most;
    for step in ticks_within(most / unit, 5) {
        let x = left + step * unit * scale;
        svg.line([x, 0.0, x, height], "grid");
        let shown = if measure == Measure::Time { trimmed(step) } else { short(step) };
        svg.text([x, height + 14.0], Anchor::Middle, "tick", &shown);
    }
    svg.text([(left + RIGHT) / 2.0, height + 30.0], Anchor::Middle, "axis", &axis);
    for (index, bar) in bars.iter().enumerate() {
        let y = 2.0 + index as f64 * ROW;
        svg.text([left - 6.0, y + ROW / 2.0 + 4.0], Anchor::End, "label", &bar.label);
        let whole: u64 = bar.parts.iter().sum();
        let mut x = left;
        for (&part, (name, colour)) in bar.parts.iter().zip(categories) {
            let width = part as f64 * scale;
            let share = percent(part as f64 / whole.max(1) as f64);
            let value = if measure == Measure::Time { time(part) } else { count(part) };
            svg.rect([x, y + 2.0, width, ROW - 4.0], colour, &format!("{}: {name} {value} ({share})", bar.label));
            x += width;
        }
    }
    svg.line([left, 0.0, left, height], "base");
    svg.finish(label)
}

/// A core's rates: its label, its colour, and for each column hits and accesses.
pub struct Rates {
    /// Its label.
    pub label: String,
    /// Its island's colour.
    pub colour: String,
    /// Hits and accesses by column.
    pub hits: Vec<[u64; 2]>,
}

/// A table of bars from 0 to 100 %.
pub fn rate_table(label: &str, columns: &[&str], rows: &[Rates]) -> String {
    let left = label_width(rows.iter().map(|row| row.label.as_str()));
    let top = 20.0;
    let mut svg = Svg::new(WIDTH, top + rows.len() as f64 * ROW + 4.0);
    let (cell, gap) = ((RIGHT - left) / columns.len() as f64, 8.0);
    for (column, name) in columns.iter().enumerate() {
        svg.text([left + cell * column as f64, 12.0], Anchor::Start, "axis", name);
    }
    for (index, row) in rows.iter().enumerate() {
        let y = top + index as f64 * ROW;
        svg.text([left - 6.0, y + ROW / 2.0 + 4.0], Anchor::End, "label", &row.label);
        for (column, &[hits, accesses]) in row.hits.iter().enumerate() {
            let x = left + cell * column as f64;
            let share = hits as f64 / accesses.max(1) as f64;
            let title = format!(
                "{}, {}: {} of {} accesses hit, {} missed",
                row.label,
                columns[column],
                count(hits),
                count(accesses),
                count(accesses.saturating_sub(hits))
            );
            let bar = 44.0f64.min(cell - gap - 48.0).max(8.0);
            svg.rect([x, y + 5.0, bar, ROW - 10.0], "var(--track)", &title);
            svg.rect([x, y + 5.0, bar * share, ROW - 10.0], &row.colour, &title);
            let shown = if accesses == 0 { "\u{2013}".into() } else { percent(share) };
            svg.text([x + bar + 5.0, y + ROW / 2.0 + 4.0], Anchor::Start, "value", &shown);
        }
    }
    svg.finish(label)
}

/// One curve.
pub struct Curve {
    /// What it is.
    pub name: String,
    /// Its colour.
    pub colour: String,
    /// Told apart from another one of a similar colour.
    pub dashed: bool,
    /// A value for each interval, where there is one.
    pub values: Vec<Option<f64>>,
}

/// The time that a plot spans.
#[derive(Clone, Copy)]
pub struct Span {
    /// Length of an interval, in picoseconds.
    pub interval_ps: f64,
    /// How many there are.
    pub bins: usize,
}

/// Curves over the run. `unit` is that of the values.
pub fn curves(label: &str, span: Span, unit: &str, curves: &[Curve]) -> String {
    let (top, height, left) = (8.0, 150.0, 52.0);
    let mut svg = Svg::new(WIDTH, top + height + AXIS);
    let most = curves.iter().flat_map(|curve| curve.values.iter().flatten()).copied().fold(0.0, f64::max);
    let steps = ticks(most, 4);
    let scale = height / steps[steps.len() - 1];
    let y_of = |value: f64| top + height - value * scale;
    for &step in &steps {
        svg.line([left, y_of(step), RIGHT, y_of(step)], "grid");
        svg.text([left - 6.0, y_of(step) + 4.0], Anchor::End, "tick", &short(step));
    }
    time_axis(&mut svg, span, [left, top, height]);
    if most == 0.0 {
        svg.text([(left + RIGHT) / 2.0, top + height / 2.0], Anchor::Middle, "label", "none in this run");
    }
    let x_of = |bin: usize| left + (RIGHT - left) * (bin as f64 + 0.5) / span.bins as f64;
    for curve in curves {
        let points = curve.values.iter().enumerate();
        let points = points.map(|(bin, value)| value.map(|value| [x_of(bin), y_of(value)]));
        let stroke = if curve.dashed { Stroke::Dashed } else { Stroke::Solid };
        svg.curve(points, &curve.colour, stroke, &curve.name);
    }
    let value_of = |curve: &Curve, bin: usize| curve.values.get(bin).copied().flatten();
    hovers(&mut svg, span, [left, top, height], |bin| {
        let shown = curves.iter().filter_map(|curve| Some((curve, value_of(curve, bin)?)));
        let lines = shown.map(|(curve, value)| format!("\n{}: {} {unit}", curve.name, short(value)));
        lines.collect()
    });
    svg.finish(label)
}

/// Shares of an island's time over the run, stacked: for each category a share (0 to 1) for each interval.
pub fn shares(label: &str, span: Span, categories: &[Category], shares: &[Vec<f64>]) -> String {
    let (top, height, left) = (6.0, 64.0, 52.0);
    let mut svg = Svg::new(WIDTH, top + height + AXIS);
    let width = (RIGHT - left) / span.bins as f64;
    let mut below = vec![0.0; span.bins];
    for ((_, colour), values) in categories.iter().zip(shares) {
        for (bin, (value, below)) in values.iter().zip(&mut below).enumerate() {
            let x = left + width * bin as f64;
            // A little wider, so that no seams show between neighbours.
            let seamless = (width + 0.3).min(RIGHT - x);
            svg.rect([x, top + height * (1.0 - *below - value), seamless, height * value], colour, "");
            *below += value;
        }
    }
    for share in [0.0, 0.5, 1.0] {
        let y = top + height * (1.0 - share);
        svg.line([left - 3.0, y, left, y], "base");
        svg.text([left - 6.0, y + 4.0], Anchor::End, "tick", &format!("{:.0}\u{202f}%", share * 100.0));
    }
    time_axis(&mut svg, span, [left, top, height]);
    hovers(&mut svg, span, [left, top, height], |bin| {
        let lines =
            categories.iter().zip(shares).map(|((name, _), values)| format!("\n{name}: {}", percent(values[bin])));
        lines.collect()
    });
    svg.finish(label)
}

/// The axis of simulated time under a plot at `[left, top, height]`.
fn time_axis(svg: &mut Svg, span: Span, [left, top, height]: [f64; 3]) {
    let end_ps = span.interval_ps * span.bins as f64;
    let (unit, name) = time_unit(end_ps);
    let bottom = top + height;
    svg.line([left, bottom, RIGHT, bottom], "base");
    for step in ticks_within(end_ps / unit, 6) {
        let x = left + (RIGHT - left) * step * unit / end_ps;
        svg.line([x, bottom, x, bottom + 3.0], "base");
        svg.text([x, bottom + 15.0], Anchor::Middle, "tick", &trimmed(step));
    }
    svg.text([(left + RIGHT) / 2.0, bottom + 30.0], Anchor::Middle, "axis", &format!("simulated time, {name}"));
}

/// A hover text for each interval.
fn hovers(svg: &mut Svg, span: Span, [left, top, height]: [f64; 3], text: impl Fn(usize) -> String) {
    let width = (RIGHT - left) / span.bins as f64;
    for bin in 0..span.bins {
        let [from, to] = [bin, bin + 1].map(|edge| time((edge as f64 * span.interval_ps) as u64));
        svg.hover([left + width * bin as f64, top, width, height], &format!("{from} to {to}{}", text(bin)));
    }
}

/// Room for labels.
fn label_width<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    let longest = labels.map(|label| label.chars().count()).max().unwrap_or(0);
    (longest as f64 * 7.0 + 12.0).clamp(52.0, 170.0)
}
