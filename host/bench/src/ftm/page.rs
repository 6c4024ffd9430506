//! The figures as tables, and as a page with the paper's plots.

use std::fmt::Write;

use motet_page::{
    bars::{self, Bar},
    chart::{Curve, figure},
    format::escape,
    svg::Stroke,
};

use super::{
    mix::Mix,
    paper,
    queue::{Queue, linear},
    rivals::Rival,
    single::{self, Column},
};
use crate::{
    page::{self, rows_of},
    report::{Measurement, number},
};

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// One thread, by machine.
    pub singles: Vec<(&'static str, Vec<Column>)>,
    /// One thread on Linux.
    pub linux: Vec<Column>,
    /// Many threads.
    pub queues: Vec<Queue>,
    /// Full machines.
    pub mixes: Vec<Mix>,
}

impl Results {
    /// What is printed beside the figures.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        let linux = ("Linux (instructions)", &self.linux);
        for (title, columns) in self.singles.iter().map(|(title, columns)| (*title, columns)).chain([linux]) {
            if columns.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n{title}");
            for row in [single::heads(columns)].iter().chain(&single::rows(columns)) {
                let (first, cells) = row.split_first().expect("a head");
                let cells = cells.iter().fold(String::new(), |line, cell| format!("{line}{cell:>18}"));
                let _ = writeln!(text, "  {first:<32}{cells}");
            }
        }
        text
    }
}

/// What the page shows.
pub fn body(results: &Results, measurements: &[Measurement]) -> String {
    let mut body = "<header>\n<h1>Motet beside Fast Thread Migration</h1>\n<p class=\"soft\">Threads that go to the cores that have their \
                    instructions, in simulated time; Linux in instructions of both harts. <code>docs/benchmarks.md</code> says how each figure is \
                    measured.</p>\n</header>\n"
        .to_owned();
    for (index, (title, columns)) in results.singles.iter().enumerate() {
        let _ = writeln!(body, "<h2>One thread: {}</h2>", escape(title));
        body += &rows_of(&single::heads(columns), &single::rows(columns));
        let linux = if index == 0 { &results.linux[..] } else { &[] };
        body += &plots(columns, linux);
    }
    if !results.linux.is_empty() {
        body += "<h2>One thread on Linux, in instructions</h2>\n";
        body += &rows_of(&single::heads(&results.linux), &single::rows(&results.linux));
    }
    if !results.queues.is_empty() {
        body += &queues(&results.queues);
    }
    for mix in &results.mixes {
        body += &mixed(mix);
    }
    body + &page::all_figures(measurements)
}

/// Figures 3, 5 and 6, and Table 2.
fn plots(columns: &[Column], linux: &[Column]) -> String {
    let all = || columns.iter().chain(linux);
    let bars = |region: &str, published: Option<f64>| -> Vec<Bar> {
        let measured = all().map(|column| Bar {
            name: column.rival.name().into(),
            colour: colour(column.rival),
            value: column.cycles(region),
        });
        let paper = published.map(|value| Bar { name: "the paper".into(), colour: "var(--i7)", value });
        measured.chain(paper).collect()
    };
    let mut text = "<div class=\"plots\">\n".to_owned();
    let unit = "cycles; on Linux instructions";
    for (title, region, published) in [
        ("Figure 3: one migration there and back", "migrate", Some(paper::MIGRATION_CYCLES)),
        ("Table 2: getpid where the vectors are", "away", Some(paper::GETPID_AWAY_CYCLES)),
        ("Figure 5: dgemm 43³", "dgemm", None),
        ("Figure 5: dgemm 43³ with 14 system calls", "calls", None),
        ("Figure 6: dgemm 43³, 1000 times", "repeat", None),
        ("First touch of 10 MiB", "touch", None),
    ] {
        text += &bars::figure(title, unit, &bars(region, published));
    }
    text + "</div>\n"
}

fn colour(rival: Rival) -> &'static str {
    match rival {
        Rival::Fused => "var(--i0)",
        Rival::Firmware => "var(--i1)",
        Rival::Pinned => "var(--i2)",
        Rival::LinuxFirmware => "var(--i3)",
        Rival::LinuxPinned => "var(--i4)",
    }
}

/// Figure 4.
fn queues(queues: &[Queue]) -> String {
    let mut text = "<h2>Figure 4: threads that want the same accelerators</h2>\n<p class=\"note\">Dotted: as long as so many threads would take \
                    one after the other, by the fused way’s time for one.</p>\n<div class=\"plots\">\n"
        .to_owned();
    for accelerators in [1, 2] {
        let of = queues.iter().filter(|queue| queue.accelerators == accelerators);
        let mut curves: Vec<Curve> = of
            .clone()
            .map(|queue| Curve {
                name: queue.rival.name().into(),
                colour: colour(queue.rival),
                stroke: Stroke::Solid,
                points: queue.points.clone(),
            })
            .collect();
        if let Some(first) = of.clone().next() {
            let alone = first.points.first().map_or(0.0, |&[_, cycles]| cycles);
            let point = |&[threads, _]: &[f64; 2]| [threads, alone * linear(threads, accelerators)];
            curves.push(Curve {
                name: "linear".into(),
                colour: "var(--i7)",
                stroke: Stroke::Dotted,
                points: first.points.iter().map(point).collect(),
            });
        }
        let title =
            if accelerators == 1 { "One accelerator".to_owned() } else { format!("{accelerators} accelerators") };
        text +=
            &figure(&title, ["application cores, each with a thread", "cycles until all have ended"], None, &curves);
    }
    text + "</div>\n"
}

fn mixed(mix: &Mix) -> String {
    let bar = |name: &str, colour, value| Bar { name: name.into(), colour, value };
    let bars = [
        bar("pinned", "var(--i2)", mix.pinned),
        bar("fused", "var(--i0)", mix.fused),
        bar("fused, hinted", "var(--i4)", mix.hinted),
        bar("lower bound", "var(--i7)", mix.oracle),
    ];
    let heads = ["", "cycles", "throughput over pinned", "of the bound"].map(str::to_owned);
    let rows: Vec<Vec<String>> = bars
        .iter()
        .map(|bar| {
            vec![bar.name.clone(), number(bar.value), number(mix.pinned / bar.value), number(mix.oracle / bar.value)]
        })
        .collect();
    format!(
        "<h2>8 scalar and 8 vector processes on 4 cores and 2 accelerators: {}</h2>\n{}<div class=\"plots\">\n{}</div>\n",
        escape(mix.title),
        rows_of(&heads, &rows),
        bars::figure("Until all have ended", "cycles", &bars)
    )
}
