//! The figures as a page.

use std::fmt::Write;

use motet_page::{
    bars::{self, Bar},
    format::escape,
};

use super::{
    operations::figures,
    results::{Column, Results},
};
use crate::{
    page::{self, rows_of},
    report::Measurement,
};

/// What the page shows.
pub fn body(results: &Results, measurements: &[Measurement]) -> String {
    let mut body = "<header>\n<h1>Motet beside Linux</h1>\n<p class=\"soft\">Instructions of kernel and program for lmbench’s operations, on \
                    the same QEMU and CPU. <code>docs/os.md</code> says how they are counted, and what cannot be compared.</p>\n</header>\n"
        .to_owned();
    for column in &results.columns {
        let _ = writeln!(body, "<h2>{}</h2>", escape(column.isa.name()));
        body += &rows_of(&column.heads(), &column.cells());
        body += &plot(column);
    }
    let rows = figures().into_iter().map(|figure| [figure.name.into(), figure.says.into()]);
    body += "<h2>What is counted</h2>\n";
    body += &page::table(&["operation", "once"], rows);
    body + &page::all_figures(measurements)
}

/// Motet's part of Linux's instructions; what is above 1 has a colour of its own.
fn plot(column: &Column) -> String {
    let bar = |row: &super::results::Row| Bar {
        name: row.figure.name.into(),
        colour: if row.ratio() > 1.0 { "var(--i1)" } else { "var(--i0)" },
        value: row.ratio(),
    };
    let bars: Vec<Bar> = column.rows.iter().map(bar).collect();
    format!("<div class=\"plots\">\n{}</div>\n", bars::figure("Motet’s instructions over Linux’s", "ratio", &bars))
}

#[cfg(test)]
mod tests {
    use super::{super::results::tests::results, *};

    #[test]
    fn the_page_is_well_formed_and_has_every_operation() {
        let text = body(&results(), &results().summary());
        let page = motet_page::page("t", &text);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&page, options).unwrap();
        assert!(figures().iter().all(|figure| text.matches(figure.name).count() > 2));
    }
}
