//! Runs one point, for Snakemake: a machine, and its result as a file.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant, SystemTime},
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::place::Place;

use crate::{
    metrics::{self, Metrics},
    plan::{self, Folder, PointResult},
    program,
    study::Point,
    versions::Versions,
};

/// How many lines of a log are told of a point that has failed.
const LINES_TOLD: usize = 4;

/// Runs the point `id` of a sweep's folder. What it says on standard error is its log.
///
/// # Errors
/// It has failed, which a file beside its log says, too.
pub fn run(home: &Place, folder: &Path, id: &str) -> Result<u8> {
    let folder = Folder::create(folder)?;
    let place = folder.point(id);
    let point: Point = plan::read(&place.join("point.json"))?;
    match measure(home, &place, point) {
        Ok(result) => plan::write(&place.join("result.json"), &plan::json(&result)).map(|()| 0),
        Err(error) => {
            plan::write(&place.join("failed"), error.message.as_bytes())?;
            Err(error)
        }
    }
}

fn measure(home: &Place, place: &Path, point: Point) -> Result<PointResult> {
    let arguments = arguments(place, &point);
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let clock = Instant::now();
    let output = place.join("output");
    let stdout = File::create(&output).map_err(|error| Error::write(&output, error))?;
    let stats = place.join("stats.json");
    let _ = fs::remove_file(&stats);
    let program = program::motet()?;
    let child = Command::new(&program).args(&arguments).stdin(Stdio::null()).stdout(stdout).spawn();
    let child = child.map_err(|error| Error::new(ErrorKind::Unavailable, format!("{}: {error}", program.display())))?;
    let status = wait(child, Duration::from_secs(point.timeout_s))?;
    if !status.success() {
        return Err(Error::new(ErrorKind::Software, format!("{status}{}", last_lines(&place.join("log")))));
    }
    let metrics = metrics(&fs::read_to_string(&output).unwrap_or_default(), &stats, &point)?;
    let versions = Versions::now(home);
    Ok(PointResult { point, arguments, metrics, versions, began, host_s: clock.elapsed().as_secs_f64() })
}

fn arguments(place: &Path, point: &Point) -> Vec<String> {
    let path = |name: &str| place.join(name).display().to_string();
    let mut arguments = vec!["run".into(), "--quiet".into(), "--machine".into(), path("machine.toml")];
    arguments.extend(point.options.iter().cloned());
    if point.options.iter().any(|option| option == "--timed") {
        arguments.extend(["--stats".into(), path("stats.json")]);
    }
    arguments.extend(["--".into(), point.command.clone()]);
    arguments
}

fn wait(mut child: Child, at_most: Duration) -> Result<ExitStatus> {
    let deadline = Instant::now() + at_most;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                // As Ctrl-C, so that it ends its islands.
                if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
                std::thread::sleep(Duration::from_secs(2));
                let _ = child.kill();
                let _ = child.wait();
                let message = format!("has not ended within timeout_s = {}", at_most.as_secs());
                return Err(Error::new(ErrorKind::Software, message));
            }
            Err(error) => return Err(Error::new(ErrorKind::Software, error.to_string())),
        }
    }
}

fn metrics(output: &str, stats: &Path, point: &Point) -> Result<Metrics> {
    let simulated = if stats.is_file() { metrics::simulated(&plan::read(stats)?) } else { Metrics::new() };
    let mut all = simulated;
    all.extend(metrics::printed(output));
    all.retain(|name, _| metrics::is_wanted(name, &point.metrics));
    if !all.is_empty() {
        return Ok(all);
    }
    let message = if point.metrics.is_empty() {
        "no metrics: the command has printed no line `name value unit`, and the run was not --timed".into()
    } else {
        format!("no metrics of the names that `metrics` has: {}", point.metrics.join(", "))
    };
    Err(Error::new(ErrorKind::Data, message))
}

/// What a log says at its end, behind a colon.
pub fn last_lines(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES_TOLD)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join("\n    ")) }
}
