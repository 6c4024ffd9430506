//! The part of the page about virtual machines.

use motet_page::bars::{self, Bar};

use super::{
    moments::Spread,
    page::{HERE, PAPER, SOFTWARE},
    paper_vms::{
        CALL_US, CRITICAL_MAX_US, OPERATIONS_US, PREEMPTION_US, RELEASE_EXTRA_US, RESPONSE_US, SWITCH_US, TESTS,
    },
    vms::{KERNELS, Results},
};
use crate::{page, report::number};

/// Figures 12, 13 and 14, Tables 3 and 4.
pub fn body(results: &Results, interrupts: Option<&Spread>) -> String {
    [functions(results), thread_metric(results), response(results), operations(results, interrupts)].concat()
}

fn spread_cells(spread: &Spread) -> [String; 4] {
    [number(spread.min), number(spread.mean), number(spread.max), spread.count.to_string()]
}

fn bar(name: &str, colour: &'static str, value: f64) -> Bar {
    Bar { name: name.into(), colour, value }
}

fn plots(figures: &str) -> String {
    format!("<div class=\"plots\">\n{figures}</div>\n")
}

fn functions(results: &Results) -> String {
    let rows = [
        ("hypercall", &results.calls, "less than ", CALL_US),
        ("virtual interrupt", &results.interrupts, "less than ", CALL_US),
        ("switch of virtual machines", &results.switches, "", SWITCH_US),
    ];
    let table = rows.iter().map(|(name, spread, how, published)| {
        let [min, mean, max, count] = spread_cells(spread);
        [(*name).to_owned(), min, mean, max, count, format!("{how}{}", number(*published))]
    });
    let figures = rows.iter().map(|(name, spread, _, published)| {
        let bars = [
            bar("least", SOFTWARE, spread.min),
            bar("mean", HERE, spread.mean),
            bar("most", SOFTWARE, spread.max),
            bar("Ker-ONE", PAPER, *published),
        ];
        bars::figure(name, "us", &bars)
    });
    "<h2>The kernel's part of virtual machines (Figure 12)</h2>\n".to_owned()
        + &page::table(&["in us", "least", "mean", "most", "samples", "Ker-ONE"], table)
        + &plots(&figures.collect::<String>())
}

fn thread_metric(results: &Results) -> String {
    let mut rows = Vec::new();
    let mut figures = String::new();
    for (kernel, scores) in KERNELS.iter().zip(&results.scores) {
        let mut bars = Vec::new();
        let ratios = scores.ratios().zip(scores.ratios_beside());
        for (index, (test, (ratio, beside))) in TESTS.iter().zip(ratios).enumerate() {
            bars.push(bar(test.title, HERE, 100.0 * ratio));
            bars.push(bar("beside three", SOFTWARE, 100.0 * beside));
            bars.push(bar("Ker-ONE", PAPER, 100.0 * test.ratio()));
            let counts = [scores.native[index], scores.vm[index]].map(|count| number(count * 30.0));
            let [native, vm] = counts;
            let percent = |ratio: f64| format!("{:.1}", 100.0 * ratio);
            rows.push([
                kernel.title.to_owned(),
                test.title.to_owned(),
                native,
                vm,
                percent(ratio),
                percent(beside),
                percent(test.ratio()),
            ]);
        }
        figures += &bars::figure(kernel.title, "% of the bare board", &bars);
    }
    "<h2>Thread-Metric in a virtual machine (Table 3, Figure 13)</h2>\n".to_owned()
        + &page::table(
            &["", "test", "counts in 30 s, bare board", "virtual machine", "%", "beside three others, %", "Ker-ONE, %"],
            rows.into_iter(),
        )
        + &plots(&figures)
}

fn response(results: &Results) -> String {
    let mut rows = Vec::new();
    let mut figures = String::new();
    for (kernel, response) in KERNELS.iter().zip(&results.responses) {
        let parts = [
            ("stay in the kernel", &response.beside.critical, format!("{CRITICAL_MAX_US} at most")),
            (
                "preemption",
                &response.beside.preemption,
                format!("{} on average, {} at most", PREEMPTION_US[0], PREEMPTION_US[1]),
            ),
            ("release, bare board", &response.release_native, "–".into()),
            ("of it: the firmware's timer call", &response.native_call, "–".into()),
            ("release, virtual machine", &response.release_vm, "–".into()),
            ("release, beside a general guest", &response.beside.release, "–".into()),
            ("stay in the kernel, quiet general guest", &response.quiet.critical, "–".into()),
            ("preemption, quiet general guest", &response.quiet.preemption, "–".into()),
            ("release, beside a quiet general guest", &response.quiet.release, "–".into()),
        ];
        rows.extend(parts.map(|(name, spread, published)| {
            let [min, mean, max, count] = spread_cells(spread);
            [kernel.title.to_owned(), name.into(), min, mean, max, count, published]
        }));
        let bars = [
            bar("stay, most", HERE, response.beside.critical.max),
            bar("Ker-ONE", PAPER, CRITICAL_MAX_US),
            bar("preemption, most", HERE, response.beside.preemption.max),
            bar("Ker-ONE", PAPER, PREEMPTION_US[1]),
            bar("release, extra", HERE, response.release_us(&response.beside)),
            bar("Ker-ONE", PAPER, RELEASE_EXTRA_US),
            bar("all (equation 4)", HERE, response.overhead_us(&response.beside)),
            bar("all, quiet guest", HERE, response.overhead_us(&response.quiet)),
            bar("Ker-ONE", PAPER, RESPONSE_US),
        ];
        figures += &bars::figure(kernel.title, "us", &bars);
    }
    "<h2>Response of real-time guests (Figure 14)</h2>\n".to_owned()
        + &page::table(&["", "in us", "least", "mean", "most", "samples", "Ker-ONE"], rows.into_iter())
        + &plots(&figures)
}

fn operations(results: &Results, interrupts: Option<&Spread>) -> String {
    let measured = [Some(&results.trap), Some(&results.resume), interrupts];
    let rows = OPERATIONS_US.iter().zip(measured.into_iter().chain(std::iter::repeat(None)));
    let rows = rows.map(|((name, published), spread)| {
        let here = spread.map_or("logic beside the CPU (machines/embedded.toml)".into(), |spread| number(spread.mean));
        let here = if *name == "pl_irq" && spread.is_none() { "not measured now".into() } else { here };
        [(*name).to_owned(), here, number(*published)]
    });
    "<h2>Operations of allocations (Table 4)</h2>\n".to_owned() + &page::table(&["in us", "here", "Ker-ONE"], rows)
}
