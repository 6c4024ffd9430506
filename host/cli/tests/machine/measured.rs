//! What runs leave for those who measure: traces, figures, reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use crate::{
    process::Motet,
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// Both `cat`s are there before they have something to read, so that they have to be woken.
const PIPELINE: &str = "sleepers() { set --; for file in /proc/[0-9]*/stat; do read -r stat <$file && \
    case $stat in *'(cat) S'*) set -- $@ cat ;; esac; done 2>/dev/null; echo $#; }; \
    { sleep 3; until [ $(sleepers) = 2 ]; do sleep 0.1; done; echo voices; } | on aarch64 cat | on riscv64 cat";

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 5] = [
        ("measured::a_trace_shows_threads_on_all_islands_and_who_woke_them", trace_of_a_pipeline),
        ("measured::deterministic_runs_have_the_same_trace", same_trace),
        ("measured::a_report_and_figures_of_a_timed_run", report),
        ("measured::measuring_what_is_not_simulated_is_refused", refused),
        ("measured::quiet_runs_say_nothing", quiet),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

fn folder() -> Result<tempfile::TempDir, String> {
    tempfile::tempdir().map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Value, String> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn run(options: &[&str], path: &Path) -> Result<(), String> {
    let motet = Motet::run(options).argument(path).arguments(["--", PIPELINE]);
    motet.wait().expect_code(0)?.expect_output("voices\n").map(drop)
}

fn trace_of_a_pipeline() -> Result<(), String> {
    let folder = folder()?;
    let path = folder.path().join("trace.json");
    for options in [&["--trace"][..], &["--timed", "--trace"]] {
        run(options, &path)?;
        let lines = read(&path)?;
        let lines = lines.as_array().ok_or("not an array")?;
        check_tracks(lines)?;
        let programs = |island: u64, name: &str| {
            lines.iter().any(|line| line["ph"] == "B" && line["pid"] == island && line["name"] == name)
        };
        if !programs(1, "sh") || !programs(2, "cat") || !programs(3, "cat") {
            return Err(format!("not all islands ran their programs with {options:?}"));
        }
        let arrows = arrows(lines)?;
        for (what, from, to) in [("crossing", 1, 2), ("crossing", 1, 3), ("wake-up", 2, 3)] {
            if !arrows.contains(&(what.to_owned(), from, to)) {
                return Err(format!("no {what} from island {from} to {to} with {options:?}: {arrows:?}"));
            }
        }
    }
    Ok(())
}

/// On every track times ascend, and slices begin and end in turn.
pub fn check_tracks(lines: &[Value]) -> Result<(), String> {
    let mut tracks: BTreeMap<u64, (f64, i32)> = BTreeMap::new();
    // Names of tracks are of no time.
    for line in lines.iter().filter(|line| line["ph"] != "M") {
        let (Some(track), Some(now_us)) = (line["tid"].as_u64(), line["ts"].as_f64()) else {
            return Err(format!("no track or time: {line}"));
        };
        let (latest_us, depth) = tracks.entry(track).or_default();
        *depth += i32::from(line["ph"] == "B") - i32::from(line["ph"] == "E");
        if now_us < *latest_us || !(0..=1).contains(depth) {
            return Err(format!("out of order: {line}"));
        }
        *latest_us = now_us;
    }
    if tracks.values().any(|(_, depth)| *depth != 0) { Err("a slice has no end".into()) } else { Ok(()) }
}

/// What every arrow is, and the islands that it connects.
fn arrows(lines: &[Value]) -> Result<BTreeSet<(String, u64, u64)>, String> {
    let end = |phase: &'static str| {
        let lines = lines.iter().filter(move |line| line["ph"] == phase);
        lines.map(|line| Some((line["id"].as_u64()?, (line["name"].as_str()?.to_owned(), line["pid"].as_u64()?))))
    };
    let from: Option<BTreeMap<_, _>> = end("s").collect();
    let from = from.ok_or("an arrow without number, name or island")?;
    end("f")
        .map(|end| {
            let (number, (_, to)) = end.ok_or("an arrow's end without number, name or island")?;
            let (what, from) = from.get(&number).ok_or_else(|| format!("arrow {number} has no beginning"))?;
            Ok((what.clone(), *from, to))
        })
        .collect()
}

fn same_trace() -> Result<(), String> {
    let folder = folder()?;
    let paths = ["first.json", "second.json"].map(|name| folder.path().join(name));
    for path in &paths {
        run(&["--timed", "--deterministic", "--trace"], path)?;
    }
    let [first, second] = paths.map(|path| fs::read(path).unwrap_or_default());
    if first.is_empty() || first != second { Err("the traces differ".into()) } else { Ok(()) }
}

fn report() -> Result<(), String> {
    let folder = folder()?;
    let path = folder.path().join("new/report");
    run(&["--timed", "--report"], &path)?;
    let stats = read(&path.join("stats.json"))?;
    let cores = stats["cores"].as_array().ok_or("no cores")?;
    if cores.len() != 4 || cores.iter().any(|core| core["instructions"].as_u64().is_none_or(|count| count == 0)) {
        return Err(format!("not four cores with instructions: {cores:?}"));
    }
    let page = fs::read_to_string(path.join("index.html")).map_err(|error| error.to_string())?;
    if !page.contains("riscv.1") || !page.contains("echo voices; } | on aarch64") {
        return Err("the page does not show the run".into());
    }
    Ok(())
}

fn refused() -> Result<(), String> {
    for option in ["--stats", "--report"] {
        Motet::run([option, "x", "--", "true"]).wait().expect_code(64)?.expect_errors(&["--timed", option])?;
    }
    let path = "/proc/no/such/folder";
    for option in ["--report", "--trace"] {
        let motet = Motet::run(["--timed", option, path, "--", "echo ran"]);
        motet.wait().expect_code(73)?.expect_output("")?.expect_errors(&[option, "/proc/no"])?;
    }
    Ok(())
}

fn quiet() -> Result<(), String> {
    let ended = Motet::run(["--quiet", "--timed", "--", "echo out; echo err >&2"]).wait();
    let ended = ended.expect_code(0)?.expect_output("out\n")?;
    if ended.errors == "err\n" { Ok(()) } else { Err(format!("it says: {}", ended.errors)) }
}
