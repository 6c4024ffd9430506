//! `motet bench compile`: how long `motet cc` takes for packages beside the host's compiler, which makes a third of the code.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use clap::Args;
use motet_error::{Error, ErrorKind, Result};

use crate::{
    process::expect,
    project::{Project, file_error},
    report::{Collected, Measurement, median},
};

const EXAMPLES: &str = "\
Examples:
  ./motet bench compile --quick            once
  ./motet bench compile --json compile.json";

/// Options of `motet bench compile`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Write the measurements to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Once instead of three times
    #[arg(long)]
    quick: bool,
}

/// A package, and how a shell builds it in its folder with `$CC`, `$AR` and `$RANLIB`.
struct Package {
    name: &'static str,
    build: &'static str,
}

const PACKAGES: [Package; 3] = [
    Package {
        name: "bzip2",
        build: r#"make -s CC="$CC" AR="$AR" RANLIB="$RANLIB" CFLAGS="-O2 -w -D_FILE_OFFSET_BITS=64" bzip2"#,
    },
    Package { name: "lz4", build: r#"make -s -C programs CC="$CC" CFLAGS="-O2 -w" lz4"# },
    Package { name: "sqlite", build: r#""$CC" -O2 -w -c build/sqlite3.c -o sqlite3.o"# },
];
const ROUNDS: usize = 3;
/// For each build.
const LIMIT: Duration = Duration::from_secs(3600);
/// Times as long as the host's compiler, at most.
const OVER_GCC: f64 = 2.0;

/// Runs the experiment.
///
/// # Errors
/// A part failed, or the JSON file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    let rounds = if options.quick { 1 } else { ROUNDS };
    let mut collected = Collected::default();
    for package in &PACKAGES {
        collected.add(measure(&project, package, rounds));
    }
    collected.finish(options.json.as_deref())
}

/// Builds a package with both compilers in turns, so that whatever else the host does meets both.
fn measure(project: &Project, package: &Package, rounds: usize) -> Result<Vec<Measurement>> {
    let name = package.name;
    let sources = fetched(project, name)?;
    let folder = project.scratch(&format!("compile-{name}"))?;
    let bin = expect(Command::new(project.motet()).args(["cc", "--print-bin-dir"]), LIMIT)?;
    let tool = |name: &str| format!("{}/{name}", bin.trim());
    let motet = [("CC", tool("motet-cc")), ("AR", tool("motet-ar")), ("RANLIB", tool("motet-ranlib"))];
    let host = [("CC", "gcc".to_owned()), ("AR", "ar".to_owned()), ("RANLIB", "ranlib".to_owned())];
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("motet: compiling {name}, {} of {rounds}", round + 1);
        ours.push(timed(package, &sources, &folder.join(format!("motet-{round}")), &motet)?);
        theirs.push(timed(package, &sources, &folder.join(format!("gcc-{round}")), &host)?);
    }
    let median_of = |times: &[Time], part: fn(&Time) -> f64| median(&times.iter().map(part).collect::<Vec<_>>());
    let [ours_s, theirs_s] = [&ours, &theirs].map(|times| median_of(times, |time| time.wall_s));
    let [ours_cpu_s, theirs_cpu_s] = [&ours, &theirs].map(|times| median_of(times, |time| time.cpu_s));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let measurement = |metric: String, value, unit, reference, target| Measurement {
        metric,
        value,
        unit,
        machine: format!("the host, {cores} cores"),
        reference,
        target,
        source: format!(
            "motet cc for three instruction sets; gcc for the host's, in the same run ({rounds} in turns), one file at a time"
        ),
    };
    Ok(vec![
        measurement(format!("compile_{name}_s"), ours_s, "s", Some(theirs_s), None),
        measurement(format!("compile_{name}_over_gcc"), ours_s / theirs_s, "ratio", None, Some(OVER_GCC)),
        measurement(format!("compile_{name}_cpu_over_gcc"), ours_cpu_s / theirs_cpu_s, "ratio", None, None),
    ])
}

/// How long a build took, and what it took of all cores.
struct Time {
    wall_s: f64,
    cpu_s: f64,
}

/// Builds in a fresh copy of the sources.
fn timed(package: &Package, sources: &Path, folder: &Path, variables: &[(&str, String)]) -> Result<Time> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(file_error(folder))?;
    }
    expect(Command::new("cp").arg("-a").arg(sources).arg(folder), LIMIT)?;
    let mut build = Command::new("sh");
    build.arg("-c").arg(format!("set -e; {}; times", package.build)).current_dir(folder);
    build.envs(variables.iter().map(|(name, value)| (*name, value)));
    let start = Instant::now();
    let said = expect(&mut build, LIMIT)?;
    let wall_s = start.elapsed().as_secs_f64();
    let cpu_s = children_s(&said).ok_or_else(|| Error::new(ErrorKind::Software, format!("sh times said: {said}")))?;
    Ok(Time { wall_s, cpu_s })
}

/// The seconds of a shell's children, from the last line of its command `times` (POSIX): `0m1.2s 0m0.3s`, in user and in system mode.
fn children_s(said: &str) -> Option<f64> {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    said.lines().last()?.split_whitespace().map(seconds).sum()
}

/// The sources of a package, fetched if they are not there.
fn fetched(project: &Project, name: &str) -> Result<PathBuf> {
    let all = project.target.join("sources");
    let mut setup = Command::new(project.root.join("scripts/setup.sh"));
    setup.arg("--libraries").arg(&all).arg(name).env("CARGO_TARGET_DIR", &project.target);
    expect(&mut setup, LIMIT)?;
    Ok(all.join(name))
}

#[cfg(test)]
mod tests {
    use super::children_s;

    #[test]
    fn a_shell_says_what_its_children_took() {
        assert_eq!(children_s("made it\n0m0.00s 0m0.01s\n1m2.50s 0m3.25s\n"), Some(65.75));
        assert_eq!(children_s("").or(children_s("no times\n")), None);
    }
}
