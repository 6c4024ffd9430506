//! docs/figures.md: every recorded figure with what it is compared with, and the run that it comes from.

use std::fmt::Write;

use super::{Recorded, Run};
use crate::report::number;

const HEAD: &str = "\
# Figures

All figures that the experiments have recorded, with the commit and the computer that they were measured on. `./motet bench all` measures them and
writes this page; [benchmarks.md](benchmarks.md) says what each means. A reference is a published figure, or one that
was measured of another system or in another way; a target is what Motet has set itself.
";

/// The page.
pub fn render(all: &[(String, Recorded)]) -> String {
    let mut page = HEAD.to_owned();
    for (experiment, recorded) in all {
        let _ = writeln!(page, "\n## `./motet bench {experiment}`\n");
        for (number, run) in recorded.runs.iter().enumerate() {
            let _ = writeln!(page, "{}. {}", number + 1, describe(run));
        }
        page += "\n| figure | unit | measured | reference | target | run |\n|---|---|---|---|---|---|\n";
        for figure in &recorded.figures {
            let [reference, target] =
                [figure.reference, figure.target].map(|value| value.map_or(String::new(), number));
            let (metric, unit, run) = (&figure.metric, &figure.unit, figure.run + 1);
            let _ =
                writeln!(page, "| `{metric}` | {unit} | {} | {reference} | {target} | {run} |", number(figure.value));
        }
    }
    page
}

fn describe(run: &Run) -> String {
    let Run { command, commit, changed, host, qemu } = run;
    let changes = if *changed { " with changes" } else { "" };
    let short = commit.get(..12).unwrap_or(commit);
    format!("`{command}`, commit {short}{changes}; {host}; QEMU {qemu}")
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{figure, run},
        *,
    };

    #[test]
    fn each_figure_names_its_run() {
        let mut recorded = Recorded::default();
        recorded.take(run("0123456789abcdef"), vec![figure("a_us", 9.204)], true);
        recorded.take(Run { changed: true, ..run("f") }, vec![figure("b_us", 12345.0)], false);
        let page = render(&[("x".into(), recorded)]);
        assert!(page.contains("1. `./motet bench x`, commit 0123456789ab; host 2 x CPU; QEMU 10.0.2\n"), "{page}");
        assert!(page.contains("2. `./motet bench x`, commit f with changes; "), "{page}");
        assert!(page.contains("| `a_us` | us | 9.204 | 18.30 | 12.00 | 1 |\n"), "{page}");
        assert!(page.contains("| `b_us` | us | 12345 | 18.30 | 12.00 | 2 |\n"), "{page}");
    }
}
