//! The page: a tornado plot for each figure, and all measurements.

use motet_page::{
    format::{escape, trimmed},
    tornado,
};

use super::tornado::{Bar, Tornado};
use crate::{page, report::Measurement};

/// The longest bars of a figure are drawn, so many at most; the table has all.
const DRAWN_MOST: usize = 20;
/// What changes less of the figure is not drawn.
const LEAST: f64 = 0.005;

/// What the page shows.
pub fn body(tornados: &[Tornado], measurements: &[Measurement]) -> String {
    let mut body = "<header>\n<h1>What the figures depend on</h1>\n<p class=\"soft\">Every number of a machine file that no paper has is set \
                    to half and to double, alone, and the figures are measured again. <code>docs/benchmarks.md</code> says more.</p>\n</header>\n\
                    <div class=\"plots\">\n"
        .to_owned();
    body.extend(tornados.iter().map(figure));
    body += "</div>\n";
    for tornado in tornados {
        body += &format!("<pre>{}</pre>\n", escape(tornado.verdict().trim()));
    }
    body + &page::all_figures(measurements)
}

fn figure(tornado: &Tornado) -> String {
    let drawn = |bar: &&Bar| bar.spread_us(tornado.base_us) >= LEAST * tornado.base_us;
    let bars: Vec<tornado::Bar> = tornado.bars.iter().filter(drawn).take(DRAWN_MOST).map(drawn_bar).collect();
    let hidden = tornado.bars.len() - bars.len();
    let note = match hidden {
        0 => String::new(),
        _ => format!("{hidden} parameters that change less, or nothing, are not drawn."),
    };
    let marks = tornado::Marks { base: tornado.base_us, target: tornado.figure.target_us };
    tornado::figure(&tornado.figure.metric, &note, "us", marks, &bars)
}

fn drawn_bar(bar: &Bar) -> tornado::Bar {
    let ends = bar.ends.map(|end| tornado::End { label: value(bar.name, end.to), value: end.us });
    tornado::Bar { name: format!("{} ({})", bar.name, value(bar.name, bar.value)), ends }
}

/// A parameter's value as files have it.
fn value(name: &str, value: f64) -> String {
    match name.ends_with(".size") {
        true => motet_coherence::Bytes(value as u64).to_string(),
        false if value.fract() == 0.0 => format!("{value}"),
        false => trimmed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tornado::tests::tornado, *};

    #[test]
    fn the_page_is_well_formed_and_draws_what_changes() {
        let tornado = tornado();
        let measurements = tornado.measurements("m & n", "s");
        let whole = format!("<body>{}</body>", body(&[tornado.clone(), tornado], &measurements));
        let document = roxmltree::Document::parse(&whole).unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("svg")).count(), 2);
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
        assert!(texts.contains(&"wide (2)") && !texts.contains(&"a (2)"), "{texts:?}");
        assert!(texts.contains(&"2 parameters that change less, or nothing, are not drawn."), "{texts:?}");
    }

    #[test]
    fn values_are_written_as_in_files() {
        assert_eq!(value("core.a.l1i.size", 16384.0), "16KiB");
        assert_eq!((value("doorbell_ns", 1000.0), value("core.a.cpi", 0.5)), ("1000".into(), "0.5".into()));
    }
}
