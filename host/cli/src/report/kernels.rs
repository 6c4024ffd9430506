//! Kernels of islands that have one each: what they have exchanged.

use motet_fabric::stats::KernelStats;
use motet_page::format::{count, escape};

use crate::messages;

/// A table of messages.
pub fn section(kernels: &[KernelStats]) -> String {
    let rows = messages::rows(kernels);
    if rows.is_empty() {
        return String::new();
    }
    let head: String =
        kernels.iter().map(|kernel| format!("<th>{0} sent</th><th>{0} taken</th>", escape(&kernel.island))).collect();
    let cell = |number: &Option<u64>| format!("<td>{}</td>", number.map_or_else(String::new, count));
    let body = rows.iter().map(|row| {
        let cells: String = row.counts.iter().flatten().map(cell).collect();
        format!("<tr><td>{}</td>{cells}</tr>\n", escape(&row.name))
    });
    format!(
        "<h2 id=\"kernels\">Messages between kernels</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>messages</th>{head}</tr></thead>\n\
         <tbody>\n{}</tbody>\n</table></div>\n",
        body.collect::<String>()
    )
}
