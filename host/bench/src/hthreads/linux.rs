//! Mutexes by futexes of Debian's Linux, for orientation: instructions, since its kernel keeps no simulated time, and beside them those of the
//! same program on the timed machine.

use std::{path::PathBuf, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;
use motet_toolchain::Tools;

use super::machine::{Bench, SLAVES, WAYS};
use crate::{
    linux::{self, Settings, Started},
    process,
    project::file_error,
    report::{Measurement, number},
};

const AT_MOST: Duration = Duration::from_secs(900);
/// A hart for each requester, and one for all else.
const HARTS: [&str; 2] = ["-smp", "7"];
const CPUS: &str = "1,2,3,4,5,6";
const CPU: &str = "rv64";
/// What Linux has left to do when its first program runs would be counted as the program's.
const SETTLE_S: u32 = 15;
const PAIRS: u32 = 5000;
/// Where a requester sleeps and wakes in each pair.
const SLOW_PAIRS: u32 = 300;

/// What is measured: its metric, and the program's words before the number of pairs.
const EXPERIMENTS: [(&str, &str, u32, u32); 3] = [
    ("lock_unlock_linux_instructions", "lock", 1, PAIRS),
    ("lock_unlock_linux_6_instructions", "lock", SLAVES, PAIRS),
    ("same_mutex_linux_6_instructions", "same", SLAVES, SLOW_PAIRS),
];

/// Instructions of a pair by a requester's core.
#[derive(Clone, PartialEq, Debug)]
pub struct Linux {
    /// The metric, then on Linux and on Motet.
    pub rows: Vec<(&'static str, f64, f64)>,
    /// What it ran on.
    pub source: String,
}

/// Measures them.
///
/// # Errors
/// Linux cannot be fetched, or a run fails.
pub fn measure() -> Result<Linux> {
    let bench = Bench::new()?;
    let machine = bench.machines.machine("hthreads")?;
    let [.., fused, _] = WAYS;
    let program = compile(&bench)?;
    let bytes = std::fs::read(&program).map_err(file_error(&program))?;
    let (project, folder) = (&bench.machines.project, &bench.machines.folder);
    let further = HARTS.map(str::to_owned);
    let mut rows = Vec::new();
    let mut source = String::new();
    for (metric, what, threads, pairs) in EXPERIMENTS {
        eprintln!("motet: Linux: {threads} requesters ({what})");
        let words = format!("-s {SETTLE_S} -c {CPUS} {what} {threads} {pairs}");
        let settings = Settings::Usual;
        let started = Started {
            cpu: CPU,
            settings,
            further: &further,
            words: &words,
            files: &[],
            says: "times_ns",
            counts: "cores",
        };
        let marks = linux::count(project, Isa::RiscV64, &started, folder, &bytes)?;
        let text = std::fs::read_to_string(&marks).map_err(file_error(&marks))?;
        let counted = counted(&text);
        if counted.len() != threads as usize {
            let message = format!("{} of {threads} cores were counted:\n{text}", counted.len());
            return Err(Error::new(ErrorKind::Software, message));
        }
        let on_linux = counted.iter().sum::<f64>() / f64::from(threads * pairs);
        let run = bench.run_program(&program, &machine, fused, &format!("{what} {threads} {pairs}"), threads)?;
        let [on_motet, _] = run.instructions("pairs", threads).map(|sum| sum / f64::from(threads * pairs));
        rows.push((metric, on_linux, on_motet));
        source = started.describe(project, Isa::RiscV64)?;
    }
    Ok(Linux { rows, source })
}

impl Linux {
    /// What was measured, for the table and the JSON file.
    pub fn measurements(&self) -> Vec<Measurement> {
        let source = "a pair, by futexes of Debian's Linux, executed by the requester's core; reference: the same program on Motet";
        let measurement = |&(metric, on_linux, on_motet): &(&str, f64, f64)| Measurement {
            metric: metric.into(),
            value: on_linux,
            unit: "instructions",
            machine: self.source.clone(),
            reference: Some(on_motet),
            target: None,
            source: source.into(),
        };
        self.rows.iter().map(measurement).collect()
    }

    /// Heads of [`Linux::rows`].
    pub const COLUMNS: [&str; 3] = ["instructions of a lock and an unlock, by futexes", "Linux", "Motet"];

    /// The rows of the printed table.
    pub fn table(&self) -> Vec<[String; 3]> {
        let row =
            |&(metric, on_linux, on_motet): &(&str, f64, f64)| [metric.into(), number(on_linux), number(on_motet)];
        self.rows.iter().map(row).collect()
    }
}

/// The program for one instruction set, as one compiles for a plain Linux.
fn compile(bench: &Bench) -> Result<PathBuf> {
    let project = &bench.machines.project;
    let toolchain = project.target.join("toolchain");
    let tools = Tools::find(&toolchain)?;
    let program = bench.machines.folder.join("latency-of-linux");
    let mut compiler = tools.command("cc");
    compiler.args(["-target", "riscv64-linux-musl", "-static", "-O2", "-Wall", "-Werror", "-I"]);
    compiler.arg(project.root.join("user/include")).arg("-I").arg(project.root.join("user/hthreads"));
    compiler.arg(project.root.join("user/hthreads/latency.c"));
    compiler.arg(toolchain.join("hthreads").join(Isa::RiscV64.name()).join("libhthread.a")).arg("-lm");
    compiler.arg("-o").arg(&program).env("ZIG_GLOBAL_CACHE_DIR", toolchain.join("zig-cache"));
    process::expect(&mut compiler, AT_MOST)?;
    Ok(program)
}

/// Instructions of each core between the first mark of a region that it executes and the next.
fn counted(text: &str) -> Vec<f64> {
    use motet_layout::marks::{ROI_BEGIN, ROI_END};
    let rows = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let [mark, core, count] = [words.next()?, words.next()?, words.next()?].map(str::parse::<u64>);
        Some((mark.ok()?, core.ok()?, count.ok()?))
    });
    let rows: Vec<_> = rows.collect();
    let of = |wanted: u8, core: u64| {
        rows.iter().find(|row| row.0 == u64::from(wanted) && row.1 == core).map(|row| row.2 as f64)
    };
    let begun = rows.iter().filter(|row| row.0 == u64::from(ROI_BEGIN));
    begun.filter_map(|row| Some(of(ROI_END, row.1)? - row.2 as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_the_core_that_executes_the_marks() {
        assert_eq!(counted("65 1 100\n65 2 5\n66 1 170\n66 2 15\n"), [70.0, 10.0]);
        // One that has not ended is not counted, and neither is what is no row.
        assert_eq!(counted("65 1 100\n66 2 170\nx\n66 1\n"), [0.0; 0]);
    }
}
