//! The figures as a page, beside the paper's.

use std::fmt::Write;

use motet_layout::Isa;
use motet_page::{
    chart::{Curve, figure},
    format::escape,
    svg::Stroke,
};

use super::{
    bfs::{self, Search},
    calls::{self, NullCall},
    cases::{self, Case},
    chase::{self, Chase},
    machines::Protocol,
    orders::{self, Spread},
    paper,
};
use crate::{
    page::{self, table},
    report::{Measurement, number},
};

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Null calls.
    pub calls: Vec<NullCall>,
    /// Harder calls.
    pub cases: Vec<Case>,
    /// Null calls with the kernel's functions in other orders.
    pub orders: Vec<Spread>,
    /// Pointer chasing.
    pub chases: Vec<Chase>,
    /// Breadth-first search.
    pub searches: Vec<Search>,
}

impl Results {
    /// What is printed beside the figures.
    pub fn tables(&self) -> String {
        let tables = [
            calls::table(&self.calls),
            cases::table(&self.cases),
            orders::table(&self.orders),
            chase::table(&self.chases),
            bfs::table(&self.searches),
        ];
        tables.concat()
    }
}

/// What the page shows.
pub fn body(results: &Results, measurements: &[Measurement]) -> String {
    let mut body = "<header>\n<h1>Motet beside Flick</h1>\n<p class=\"soft\">Calls across instruction sets in simulated time, beside \
                    the figures of Flick (ISCA ’20). <code>docs/benchmarks.md</code> says how each is measured.</p>\n</header>\n"
        .to_owned();
    if !results.calls.is_empty() {
        body += &null_calls(&results.calls);
    }
    if !results.cases.is_empty() {
        body += &harder_calls(&results.cases);
    }
    if !results.orders.is_empty() {
        body += &other_orders(&results.orders);
    }
    if !results.chases.is_empty() {
        body += &chases(&results.chases);
    }
    if !results.searches.is_empty() {
        body += &searches(&results.searches);
    }
    body + &page::all_figures(measurements)
}

fn null_calls(calls: &[NullCall]) -> String {
    let mut text = "<h2>Null calls there and back</h2>\n".to_owned();
    text += &table(&calls::COLUMNS, calls::columns(calls).into_iter());
    let rows = calls.iter().map(|call| {
        let [from, to] = call.isas.map(Isa::name);
        let [reference, target] = [call.reference, call.target].map(|us| us.map_or("–".into(), number));
        [format!("{from} to {to}"), call.machine.clone(), number(call.us), number(call.limit_us), reference, target]
    });
    text += &table(&["call", "machine", "us", "physical limit, us", "Flick, us", "target, us"], rows);
    text += "<div class=\"plots\">\n";
    for call in calls.iter().filter(|call| call.machine.starts_with("flick")) {
        let [from, to] = call.isas.map(Isa::name);
        let title = escape(&format!("Where the time goes: {from} to {to} and back on {}", call.machine));
        let rows = table(&["for each call", "caller", "callee"], calls::rows(call).into_iter());
        let _ = write!(text, "<figure>\n<h3>{title}</h3>\n{rows}</figure>\n");
    }
    text + "</div>\n"
}

fn harder_calls(cases: &[Case]) -> String {
    let rows = table(&cases::COLUMNS, cases::rows(cases).into_iter());
    format!(
        "<h2>Calls that are not the best case</h2>\n<p class=\"note\">Single calls of the host: the median, and what 99 of 100 do \
         not exceed.</p>\n{rows}"
    )
}

fn other_orders(spreads: &[Spread]) -> String {
    format!(
        "<h2>Null calls, whatever the order of the kernel’s functions</h2>\n<p class=\"note\">In a small instruction cache of the board it \
         is luck which functions share a set.</p>\n{}",
        table(&orders::COLUMNS, orders::rows(spreads).into_iter())
    )
}

/// Figures 5a and 5b.
fn chases(chases: &[Chase]) -> String {
    let mut text = format!(
        "<h2>Pointer chasing</h2>\n{}<p class=\"note\">Dashed: Flick, computed from its published figures, since the paper only draws \
         the curves. Dotted: its protocol on this machine. The line across is the host’s own speed.</p>\n<div class=\"plots\">\n",
        table(&chase::COLUMNS, chase::rows(chases).into_iter())
    );
    for (interval_us, title) in [(0, "Figure 5a: one call after the other"), (100, "Figure 5b: a call every 100 us")] {
        let mut curves = Vec::new();
        for chase in chases.iter().filter(|chase| chase.interval_us == interval_us) {
            let (colour, more) = match chase.delay_us {
                0 => ("var(--i0)", String::new()),
                500 => ("var(--i1)", " + 500 us".to_owned()),
                delay => ("var(--i2)", format!(" + {delay} us")),
            };
            let curve = |name: &str, stroke, points| Curve { name: format!("{name}{more}"), colour, stroke, points };
            let measured = chase.points.clone();
            match chase.protocol {
                Protocol::Motet => curves.push(curve("Motet", Stroke::Solid, measured)),
                Protocol::Flick => {
                    let published = |[accesses, _]: &[f64; 2]| {
                        let ratio = paper::chase_ratio(*accesses, chase.delay_us as f64, chase.interval_us as f64);
                        [*accesses, ratio]
                    };
                    curves.push(curve("Flick", Stroke::Dashed, chase.points.iter().map(published).collect()));
                    curves.push(curve("its protocol here", Stroke::Dotted, measured));
                }
            }
        }
        if !curves.is_empty() {
            text += &figure(title, ["memory accesses in each call", "times the host's speed"], Some(1.0), &curves);
        }
    }
    text + "</div>\n"
}

/// Table IV.
fn searches(searches: &[Search]) -> String {
    format!("<h2>Breadth-first search</h2>\n{}", table(&bfs::COLUMNS, bfs::rows(searches).into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_well_formed_and_has_both_figures() {
        let points = vec![[4.0, 0.5], [1024.0, 2.5]];
        let curves = [(0, 0), (500, 0), (1000, 0), (0, 100)];
        let by_both = curves.into_iter().flat_map(|(delay_us, interval_us)| {
            Protocol::BOTH.map(|protocol| Chase { protocol, delay_us, interval_us, points: points.clone() })
        });
        let chases = by_both.collect();
        let results = Results { chases, ..Results::default() };
        let measurement = Measurement {
            metric: "a<b".into(),
            value: 1.0,
            unit: "us",
            machine: "m & n".into(),
            reference: None,
            target: None,
            source: String::new(),
        };
        let text = body(&results, &[measurement]);
        let whole = format!("<body>{text}</body>");
        let document = roxmltree::Document::parse(&whole).unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("figure")).count(), 2);
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("path")).count(), 12);
        let dotted = |node: &roxmltree::Node<'_, '_>| node.attribute("class") == Some("curve dotted");
        assert_eq!(document.descendants().filter(dotted).count(), 4);
        assert!(document.descendants().any(|node| node.text() == Some("a<b")));
    }
}
