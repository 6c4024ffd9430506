//! `--accesses`: what all cores fetch, load and store in regions of interest, one by one.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde_json::Value;

use crate::{
    process::{Ended, Motet},
    trial::{Trial, trial},
};

/// Work of three kernels for user programs, pipes between them, doorbells, and atomics in kernels' locks.
const COMMAND: &str = "motet roi a sh -c 'cat /etc/passwd | on aarch64 cat | on riscv64 cat'";

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("accesses::are_those_that_are_counted_and_change_nothing", are_counted),
        trial("accesses::begin_after_what_is_skipped_and_end_when_there_are_enough", window),
        trial("accesses::that_cannot_be_there_are_refused_or_told", refused),
    ]
}

struct Run {
    ended: Ended,
    stats: Vec<u8>,
    lines: Vec<String>,
}

fn run(options: &[&str], command: &str) -> Result<Run, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let paths = ["stats.json", "accesses.txt"].map(|name| folder.path().join(name));
    let path = |path: &PathBuf| path.display().to_string();
    let motet = Motet::run(["--timed", "--deterministic", "--stats", &path(&paths[0])]);
    let place = path(&paths[1]);
    let options = options.iter().map(|&option| if option == "FILE" { place.as_str() } else { option });
    let ended = motet.arguments(options).arguments(["--", command]).wait();
    ended.expect_code(0)?;
    let lines = fs::read_to_string(&paths[1]).unwrap_or_default();
    let lines = lines.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    Ok(Run { ended, stats: fs::read(&paths[0]).map_err(|error| error.to_string())?, lines })
}

/// How many there are, by core and kind.
fn counts(lines: &[String]) -> Result<BTreeMap<(usize, &str), u64>, String> {
    let mut counts = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [core, kind, address] = words[..] else { return Err(format!("not three words: {line}")) };
        u64::from_str_radix(address, 16).map_err(|error| format!("{line}: {error}"))?;
        let core = core.parse().map_err(|_| format!("no core: {line}"))?;
        *counts.entry((core, kind)).or_default() += 1;
    }
    Ok(counts)
}

fn are_counted() -> Result<(), String> {
    let with = run(&["--accesses", "FILE", "--accesses-max", "10000000"], COMMAND)?;
    let without = run(&[], COMMAND)?;
    if with.stats != without.stats {
        return Err("a run whose accesses are written down is another run".into());
    }
    let stats: Value = serde_json::from_slice(&with.stats).map_err(|error| error.to_string())?;
    let counted = counts(&with.lines)?;
    let cores = stats["regions"][0]["cores"].as_array().ok_or("no region")?;
    let mut cores_that_work = 0;
    for (number, core) in cores.iter().enumerate() {
        for (kind, counter) in [("f", "fetches"), ("l", "loads"), ("s", "stores"), ("a", "atomics")] {
            let (ours, theirs) = (counted.get(&(number, kind)).copied().unwrap_or(0), &core["memory"][counter]);
            if theirs.as_u64() != Some(ours) {
                return Err(format!("core {number}: {ours} lines with {kind}, and the region has {theirs} {counter}"));
            }
        }
        cores_that_work += usize::from(counted.contains_key(&(number, "a")));
    }
    if cores_that_work < 3 { Err(format!("not three cores with atomics: {counted:?}")) } else { Ok(()) }
}

fn window() -> Result<(), String> {
    let whole = run(&["--accesses", "FILE", "--accesses-max", "1500"], COMMAND)?;
    let part = run(&["--accesses", "FILE", "--accesses-skip", "1000", "--accesses-max", "500"], COMMAND)?;
    if whole.lines.len() != 1500 || part.lines[..] != whole.lines[1000..] {
        return Err(format!("{} lines, and {} of them", whole.lines.len(), part.lines.len()));
    }
    whole.ended.expect_errors(&["these are 1500", "--accesses-max"])?;
    Ok(())
}

fn refused() -> Result<(), String> {
    let refused = |options: &[&str], code, needles: &[&str]| {
        Motet::run(options)
            .arguments(["--", "echo ran"])
            .wait()
            .expect_code(code)?
            .expect_output("")?
            .expect_errors(needles)
            .map(drop)
    };
    let path = "/proc/no/such";
    refused(&["--timed", "--accesses", path], 64, &["--deterministic"])?;
    refused(&["--timed", "--deterministic", "--accesses-skip", "5"], 64, &["--accesses <FILE>"])?;
    for count in ["0", "10000001", "many"] {
        refused(&["--timed", "--deterministic", "--accesses", path, "--accesses-max", count], 64, &["--accesses-max"])?;
    }
    refused(&["--timed", "--deterministic", "--accesses", path], 73, &["--accesses", path])?;
    let without = run(&["--accesses", "FILE"], "true")?;
    if !without.lines.is_empty() {
        return Err("accesses without a region".into());
    }
    without.ended.expect_errors(&["no region of interest began", "motet roi"])?;
    Ok(())
}
