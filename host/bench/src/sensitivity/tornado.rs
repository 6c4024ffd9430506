//! A figure and what each parameter makes of it.

use std::fmt::Write;

use super::figures::Figure;
use crate::report::{Measurement, number};

/// A parameter at one of its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// The number in the machine file.
    pub to: f64,
    /// The figure then.
    pub us: f64,
}

/// A parameter and the figure at both of its ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The parameter.
    pub name: &'static str,
    /// What the machine file says.
    pub value: f64,
    /// The lower end and the upper one.
    pub ends: [End; 2],
}

impl Bar {
    /// How far apart the figures are, the one of the file itself among them.
    pub fn spread_us(&self, base_us: f64) -> f64 {
        let us = self.ends.map(|end| end.us);
        base_us.max(us[0]).max(us[1]) - base_us.min(us[0]).min(us[1])
    }

    /// The end that makes the figure the largest, or the smallest; `None` if that is what the file has.
    pub fn end(&self, base_us: f64, slower: bool) -> Option<End> {
        let than = |end: &&End| if slower { end.us > base_us } else { end.us < base_us };
        self.ends.iter().filter(than).max_by(|a, b| (a.us - base_us).abs().total_cmp(&(b.us - base_us).abs())).copied()
    }
}

/// A figure with all its bars.
#[derive(Clone, Debug)]
pub struct Tornado {
    /// The figure.
    pub figure: Figure,
    /// As the machine file has it.
    pub base_us: f64,
    /// The longest first.
    pub bars: Vec<Bar>,
    /// With every parameter at its faster end, and at its slower one.
    pub all_us: Option<[f64; 2]>,
}

impl Tornado {
    /// Puts the bars in order.
    pub fn new(figure: Figure, base_us: f64, mut bars: Vec<Bar>, all_us: Option<[f64; 2]>) -> Self {
        bars.sort_by(|a, b| b.spread_us(base_us).total_cmp(&a.spread_us(base_us)).then(a.name.cmp(b.name)));
        Self { figure, base_us, bars, all_us }
    }

    /// The figure, what it is at each end of each parameter, and with all of them.
    pub fn measurements(&self, machine: &str, source: &str) -> Vec<Measurement> {
        let start = format!("sensitivity_{}", self.figure.metric);
        let measurement = |metric: String, value: f64, reference: f64, what: &str| Measurement {
            metric,
            value,
            unit: "us",
            machine: machine.into(),
            reference: Some(reference),
            target: None,
            source: format!("{source}; {what}"),
        };
        let (reference, target) = (None, Some(self.figure.target_us));
        let base = measurement(start.clone(), self.base_us, self.base_us, "the file as it is");
        let mut all = vec![Measurement { reference, target, ..base }];
        if let Some(both) = self.all_us {
            for (name, us) in ["faster", "slower"].into_iter().zip(both) {
                let what = format!("each parameter at its {name} end; reference: as the file is");
                all.push(measurement(format!("{start}_all_{name}"), us, self.base_us, &what));
            }
        }
        for bar in &self.bars {
            for (which, end) in ["low", "high"].into_iter().zip(bar.ends) {
                let metric = format!("{start}_{}_{which}", bar.name.replace(['.', '-'], "_"));
                let what = format!("{} = {}, not {}; reference: as the file is", bar.name, end.to, bar.value);
                all.push(measurement(metric, end.us, self.base_us, &what));
            }
        }
        all
    }

    /// Whether the figure stays below its target.
    pub fn verdict(&self) -> String {
        let target_us = self.figure.target_us;
        let is = |us: f64| if us < target_us { "below" } else { "NOT below" };
        let mut text = format!("\n{}, target {} us\n", self.figure.metric, number(target_us));
        let _ = writeln!(text, "  as the file is: {} us, {} the target", number(self.base_us), is(self.base_us));
        let ends = self.bars.iter().flat_map(|bar| bar.ends.map(|end| (bar, end)));
        if let Some((bar, end)) = ends.clone().max_by(|a, b| a.1.us.total_cmp(&b.1.us)) {
            let us = number(end.us);
            let _ = writeln!(
                text,
                "  slowest with one changed: {us} us, {} = {}, {} the target",
                bar.name,
                end.to,
                is(end.us)
            );
        }
        let other_side: Vec<String> = ends
            .filter(|(_, end)| (end.us < target_us) != (self.base_us < target_us))
            .map(|(bar, end)| format!("{} = {} ({} us)", bar.name, end.to, number(end.us)))
            .collect();
        if !other_side.is_empty() {
            let _ = writeln!(text, "  on the other side of the target: {}", other_side.join(", "));
        }
        if let Some([faster, slower]) = self.all_us {
            let _ = writeln!(text, "  with all at their faster ends {} us, {} the target", number(faster), is(faster));
            let _ = writeln!(text, "  with all at their slower ends {} us, {} the target", number(slower), is(slower));
        }
        text
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::sensitivity::figures;

    pub fn bar(name: &'static str, low_us: f64, high_us: f64) -> Bar {
        Bar { name, value: 2.0, ends: [End { to: 1.0, us: low_us }, End { to: 4.0, us: high_us }] }
    }

    pub fn tornado() -> Tornado {
        let figure = figures::named("flick", &[]).unwrap().remove(0);
        let bars =
            vec![bar("b", 10.0, 10.0), bar("wide", 9.0, 13.0), bar("a", 10.0, 10.0), bar("one-sided", 11.5, 12.5)];
        Tornado::new(figure, 10.0, bars, Some([8.0, 20.0]))
    }

    #[test]
    fn the_longest_bars_come_first_and_equal_ones_by_name() {
        let names: Vec<&str> = tornado().bars.iter().map(|bar| bar.name).collect();
        // From 10 to 12.5 is farther than from 11.5.
        assert_eq!(names, ["wide", "one-sided", "a", "b"]);
        let spreads: Vec<f64> = tornado().bars.iter().map(|bar| bar.spread_us(10.0)).collect();
        assert_eq!(spreads, [4.0, 2.5, 0.0, 0.0]);
    }

    #[test]
    fn worse_and_better_ends_are_those_of_the_figure() {
        assert_eq!(bar("falls", 12.0, 9.0).end(10.0, true), Some(End { to: 1.0, us: 12.0 }));
        assert_eq!(bar("falls", 12.0, 9.0).end(10.0, false), Some(End { to: 4.0, us: 9.0 }));
        assert_eq!(bar("both", 11.0, 12.0).end(10.0, true), Some(End { to: 4.0, us: 12.0 }));
        assert_eq!(bar("both", 11.0, 12.0).end(10.0, false), None);
        assert_eq!(bar("none", 10.0, 10.0).end(10.0, true), None);
    }

    #[test]
    fn metrics_name_figure_parameter_and_end() {
        let all = tornado().measurements("m", "s");
        assert_eq!(all.len(), 1 + 2 + 2 * 4);
        let start = "sensitivity_null_call_host_nxp_host_us";
        assert_eq!((all[0].metric.as_str(), all[0].reference, all[0].target), (start, None, Some(12.0)));
        let find = |end: &str| all.iter().find(|row| row.metric == format!("{start}{end}")).unwrap();
        assert_eq!((find("_all_slower").value, find("_all_slower").reference), (20.0, Some(10.0)));
        assert_eq!(find("_one_sided_high").value, 12.5);
        assert_eq!(find("_wide_low").source, "s; wide = 1, not 2; reference: as the file is");
    }

    #[test]
    fn the_verdict_tells_what_crosses_the_target() {
        let text = tornado().verdict();
        assert!(text.contains("as the file is: 10.00 us, below the target"), "{text}");
        assert!(text.contains("slowest with one changed: 13.00 us, wide = 4, NOT below the target"), "{text}");
        assert!(text.contains("other side of the target: wide = 4 (13.00 us), one-sided = 4 (12.50 us)\n"), "{text}");
        assert!(text.contains("all at their slower ends 20.00 us, NOT below"), "{text}");
    }
}
