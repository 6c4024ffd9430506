//! The page.

use motet_page::bars::{self, Bar};

use super::{
    accelerators::Results,
    lines::Lines,
    paper::{ACCELERATORS, OVERHEAD_US, PATHS},
    vms, vms_page,
};
use crate::{
    page,
    report::{Measurement, number},
};

pub const HERE: &str = "var(--i0)";
pub const PAPER: &str = "var(--i1)";
pub const SOFTWARE: &str = "var(--i2)";

/// What the page shows.
pub fn body(
    results: Option<&Results>,
    vms: Option<&vms::Results>,
    lines: Option<&Lines>,
    measurements: &[Measurement],
) -> String {
    let mut body = "<header>\n<h1>Motet beside Ker-ONE</h1>\n<p class=\"soft\">Real-time systems in virtual machines, and accelerators of an FPGA that clients share: measured on timed machines. \
                    <code>docs/benchmarks.md</code> says how each figure is made.</p>\n</header>\n"
        .to_owned();
    if let Some(vms) = vms {
        body += &vms_page::body(vms, results.map(|results| &results.interrupts));
    }
    if let Some(lines) = lines {
        body += &format!(
            "<p>Virtual machines are {} lines of code, of the kernel and of their monitors; the whole kernel of an island has {}.</p>\n",
            lines.hypervisor, lines.kernel
        );
    }
    if let Some(results) = results {
        body += &allocations(results);
        body += &frames(results);
    }
    body + &page::all_figures(measurements)
}

fn allocations(results: &Results) -> String {
    let mut bars = Vec::new();
    let mut rows = Vec::new();
    for (path, published) in PATHS.iter().zip(OVERHEAD_US) {
        let overhead = results.overhead(path, false);
        bars.push(Bar { name: path.title.into(), colour: HERE, value: overhead.mean_us });
        bars.push(Bar { name: "Ker-ONE".into(), colour: PAPER, value: published });
        let cold = results.overhead(path, true);
        let cells = [overhead.mean_us, overhead.max_us, cold.mean_us, cold.max_us, published].map(number);
        let [mean, max, cold, cold_max, published] = cells;
        rows.push([path.title.to_owned(), mean, max, cold, cold_max, published]);
    }
    let heads = ["an allocation without its waits, in us", "mean", "most", "cold caches", "most", "Ker-ONE"];
    "<h2>Allocations (Figure 15, equation 6)</h2>\n".to_owned()
        + &page::table(&heads, rows.into_iter())
        + "<div class=\"plots\">\n"
        + &bars::figure("An allocation without its waits", "us", &bars)
        + "</div>\n"
}

fn frames(results: &Results) -> String {
    let figures = results.frames.iter().zip(ACCELERATORS).map(|(frame, published)| {
        let bar = |name: &str, colour, value| Bar { name: name.into(), colour, value };
        let bars = [
            bar("accelerator", HERE, frame.hardware_us),
            bar("… Ker-ONE", PAPER, published.frame_us[0]),
            bar("software", SOFTWARE, frame.software_us),
            bar("… Ker-ONE", PAPER, published.frame_us[1]),
        ];
        bars::figure(published.name, "us for a frame", &bars)
    });
    let figures: String = figures.collect();
    format!("<h2>Frames by accelerators and by software (Table 6)</h2>\n<div class=\"plots\">\n{figures}</div>\n")
}
