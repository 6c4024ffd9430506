//! The FPGA: which accelerator was in which region, for whom, and what the region did.

use std::{collections::BTreeMap, fmt::Write};

use motet_fabric::stats::FpgaStats;
use motet_page::{
    format::{count, percent},
    gantt::{Kind, Row, Slice},
};

/// States, and how they are drawn.
const STATES: [(&str, &str); 6] = [
    ("busy", "var(--i0)"),
    ("preempt", "var(--i5)"),
    ("switch", "var(--coherence)"),
    ("reconfig", "var(--i1)"),
    ("hold", "var(--i4)"),
    ("idle", "var(--idle)"),
];

/// What an FPGA that was used has done. Its regions over time are in the chart.
pub fn section(fpga: &FpgaStats) -> String {
    let mut text = "<h2 id=\"fpga\">The FPGA</h2>\n".to_owned();
    let _ = writeln!(
        text,
        "<p class=\"note\">{} requests, {} preemptions, {} reconfigurations{}.</p>",
        count(fpga.requests),
        count(fpga.preemptions),
        count(fpga.loads),
        if fpga.load_errors == 0 { String::new() } else { format!(", {} failures", count(fpga.load_errors)) }
    );
    text += &table(fpga);
    text
}

/// What slices of [`rows`] are.
pub fn kinds() -> Vec<Kind> {
    STATES.map(|(name, colour)| Kind { name: name.into(), colour, is_ground: name == "idle" }).into()
}

fn table(fpga: &FpgaStats) -> String {
    let heads: String = STATES.iter().map(|(name, _)| format!("<th>{name}</th>")).collect();
    let rows = fpga.regions.iter().zip(1..).map(|(region, number)| {
        let all = region.state_ps.values().sum::<u64>().max(1) as f64;
        let share = |name: &str| percent(region.state_ps.get(name).copied().unwrap_or(0) as f64 / all);
        let cells: String = STATES.iter().map(|(name, _)| format!("<td>{}</td>", share(name))).collect();
        format!(
            "<tr><td>region {number}</td><td>{}</td><td>{}</td>{cells}</tr>\n",
            count(region.frames),
            count(region.loads)
        )
    });
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr><th>of its time</th><th>frames</th><th>reconfigurations</th>{heads}</tr></thead>\n\
         <tbody>\n{}</tbody>\n</table></div>\n",
        rows.collect::<String>()
    )
}

/// A row for each region: from each change to the next.
pub fn rows(fpga: &FpgaStats, end_ps: u64) -> Vec<Row> {
    let mut rows: Vec<Row> =
        (1..=fpga.regions.len()).map(|number| Row { name: format!("region {number}"), slices: Vec::new() }).collect();
    let mut open: BTreeMap<usize, Slice> = BTreeMap::new();
    for change in &fpga.changes {
        let kind = STATES.iter().position(|(name, _)| *name == change.state).unwrap_or(STATES.len() - 1);
        let label = match (&change.accelerator, change.process) {
            (Some(is), Some(process)) if change.state != "idle" => format!("{is} ({process})"),
            (Some(is), _) => is.clone(),
            (None, _) => String::new(),
        };
        let next = Slice { from_ps: change.at_ps, to_ps: end_ps, kind, label, title: change.title() };
        if let (Some(before), Some(row)) = (open.insert(change.region, next), rows.get_mut(change.region)) {
            row.slices.push(Slice { to_ps: change.at_ps, ..before });
        }
    }
    for (region, slice) in open {
        if let Some(row) = rows.get_mut(region) {
            row.slices.push(slice);
        }
    }
    rows
}
