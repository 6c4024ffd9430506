//! `motet sweep` with machines that run: a study that is interrupted goes on where it was, and a point that fails ends no other.

use std::{fs, path::Path, time::SystemTime};

use rustix::process::{Signal, kill_process};

use crate::{
    process::{Ended, Motet, children_of, expect_gone, pid},
    trial::{Trial, trial},
};

const POINTS: &str = "\
about = 'four machines'
command = 'echo answer {number}.5 things; on riscv64 uname -m'
machine = 'machines/two-riscv.toml'
seeds = 2
[[axis]]
argument = 'number'
range = { from = 1, to = 2 }
";

const FAILING: &str = "\
command = 'echo answer 1 things; echo the reason is {status} >&2; exit {status}'
machine = 'machines/two-riscv.toml'
[[axis]]
argument = 'status'
values = [3, 0]
";

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("sweeps::a_study_that_was_interrupted_goes_on", interrupted),
        trial("sweeps::a_point_that_fails_ends_no_other", failing),
    ]
}

fn sweep(folder: &Path, study: &str) -> Result<Motet, String> {
    fs::write(folder.join("study.toml"), study).map_err(|error| error.to_string())?;
    let sweep = Motet::default().arguments(["sweep", "study.toml", "--output", "out", "--jobs", "1"]);
    Ok(sweep.folder(folder))
}

/// The results' files, and when they were written.
fn results(folder: &Path) -> Vec<(String, SystemTime)> {
    let points = fs::read_dir(folder.join("out/points")).into_iter().flatten().flatten();
    let dates = points.filter_map(|point| {
        let date = fs::metadata(point.path().join("result.json")).ok()?.modified().ok()?;
        Some((point.file_name().to_string_lossy().into_owned(), date))
    });
    dates.collect()
}

fn interrupted() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let motet = sweep(folder.path(), POINTS)?;
    let mut running = motet.start();
    if !running.until(|running| running.errors.so_far().contains("motet sweep: 1 of 4: ")) {
        return Err(running.wait().describe());
    }
    let before = results(folder.path());
    let started = children_of(running.id());
    kill_process(pid(running.id())?, Signal::INT).map_err(|error| error.to_string())?;
    running.wait().expect_code(130)?.expect_errors(&["interrupted; ", "the same command goes on"])?;
    expect_gone(&started)?;
    if before.is_empty() || results(folder.path()).len() == 4 {
        return Err(format!("not in the middle: {before:?}"));
    }
    let ended = motet.wait();
    ended.expect_code(0)?.expect_errors(&["of them finished before", "4 of 4 points have finished"])?;
    let after = results(folder.path());
    if after.len() != 4 || before.iter().any(|result| !after.contains(result)) {
        return Err(format!("{before:?}, then {after:?}"));
    }
    has_rows(folder.path(), &ended, 4)?;
    motet.wait().expect_code(0)?;
    if results(folder.path()) == after { Ok(()) } else { Err("finished points have been run again".into()) }
}

fn failing() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let ended = sweep(folder.path(), FAILING)?.wait();
    let said = ["status=3 seed=1 failed: exit status: 3", "the reason is 3", "1 of 2 points have finished"];
    ended.expect_code(1)?.expect_errors(&said)?;
    has_rows(folder.path(), &ended, 1)
}

/// Tables and page are there.
fn has_rows(folder: &Path, ended: &Ended, wanted: usize) -> Result<(), String> {
    let read = |name: &str| fs::read(folder.join("out").join(name)).map_err(|error| format!("{name}: {error}"));
    let text = String::from_utf8_lossy(&read("results.csv")?).into_owned();
    let rows = text.lines().filter(|line| line.contains(",answer,") && line.contains(",things,")).count();
    let is_parquet = read("results.parquet")?.starts_with(b"PAR1");
    let page = String::from_utf8_lossy(&read("index.html")?).into_owned();
    let is_well = rows == wanted && is_parquet && page.contains("answer");
    if is_well { Ok(()) } else { Err(format!("{rows} rows, not {wanted}\n{text}\n{}", ended.describe())) }
}
