//! Pages with plots for a browser: one file each, without scripts and without the network. Of a timed run
//! (`motet run --report`) and of experiments (`motet bench`).
#![forbid(unsafe_code)]

pub mod bars;
pub mod chart;
pub mod format;
pub mod gantt;
pub mod multiples;
pub mod svg;
pub mod tornado;

use format::escape;

/// A whole page; `body` is HTML that is well-formed XML, too.
pub fn page(title: &str, body: &str) -> String {
    let (title, style) = (escape(title), include_str!("style.css"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}
