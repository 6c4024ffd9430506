//! Snakemake: fetched once from PyPI into the folder of what is built, and run for a sweep's folder.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use motet_error::{Error, ErrorKind, Result};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process_group},
};

use crate::program;

/// The versions of it and of all that it needs, its executors' included.
const VERSIONS: &str = include_str!("../requirements.txt");

/// Where a call of Snakemake runs points.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its executor.
    pub executor: String,
    /// Points at a time.
    pub jobs: u32,
    /// Minutes that a point takes at most.
    pub minutes: u64,
    /// Further options.
    pub options: Vec<String>,
}

/// Snakemake with an executor, on this computer.
#[derive(Clone, Debug)]
pub struct Snakemake {
    folder: PathBuf,
}

impl Snakemake {
    /// What is in `target`; fetched if it is not there.
    ///
    /// # Errors
    /// There is no such executor, or Python's package installer is missing or fails.
    pub fn find(target: &Path, executor: &str) -> Result<Self> {
        let plugin = format!("snakemake-executor-plugin-{executor}");
        let version = version_of("snakemake").unwrap_or_default();
        let mut packages = vec!["snakemake".to_owned()];
        let mut name = format!("snakemake-{version}");
        if executor != "local" {
            if version_of(&plugin).is_none() {
                let known: Vec<&str> = executors().collect();
                let message = format!("there is no executor '{executor}'; there are local, {}", known.join(", "));
                return Err(Error::usage(message));
            }
            name = format!("{name}-{executor}");
            packages.push(plugin);
        }
        let tools = target.join("sweep-tools");
        let folder = tools.join(name);
        fs::create_dir_all(&tools).map_err(|error| Error::write(&tools, error))?;
        let lock = File::create(tools.join("lock")).map_err(|error| Error::write(&tools, error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| Error::write(&tools, error))?;
        if !folder.is_dir() {
            fetch(&tools, &folder, &packages)?;
        }
        Ok(Self { folder })
    }

    /// Starts it in a group of processes of its own, with its words in `snakemake.log`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, sweep: &Path, settings: &Settings) -> Result<Running> {
        let log = sweep.join("snakemake.log");
        let words = File::create(&log).map_err(|error| Error::write(&log, error))?;
        let errors = words.try_clone().map_err(|error| Error::write(&log, error))?;
        let program = program::motet()?;
        let mut command = Command::new("python3");
        command.args(["-m", "snakemake", "--directory"]).arg(sweep).arg("--snakefile").arg(sweep.join("Snakefile"));
        // Points end no other; a result is finished once it is there (`motet sweep` has a lock of its own, which no interruption leaves behind).
        command.args([
            "--keep-going",
            "--rerun-incomplete",
            "--rerun-triggers",
            "mtime",
            "--nolock",
            "--scheduler",
            "greedy",
        ]);
        let jobs = if settings.executor == "local" { "--cores" } else { "--jobs" };
        command.args([jobs, &settings.jobs.to_string(), "--executor", &settings.executor]);
        // Before --config, which takes all words that follow.
        command.args(&settings.options);
        command
            .arg("--config")
            .arg(format!("motet={}", program.display()))
            .arg(format!("minutes={}", settings.minutes));
        command.env("PYTHONPATH", &self.folder).env("PYTHONNOUSERSITE", "1");
        command.stdin(Stdio::null()).stdout(words).stderr(errors).process_group(0);
        let child = command.spawn().map_err(|error| Error::new(ErrorKind::Unavailable, format!("python3: {error}")))?;
        Ok(Running { child, log })
    }

    /// Its version.
    pub fn version() -> String {
        version_of("snakemake").unwrap_or_default().into()
    }
}

fn version_of(package: &str) -> Option<&'static str> {
    VERSIONS.lines().find_map(|line| line.strip_prefix(package)?.strip_prefix("=="))
}

fn executors() -> impl Iterator<Item = &'static str> {
    let names = VERSIONS.lines().filter_map(|line| line.strip_prefix("snakemake-executor-plugin-"));
    names.filter_map(|line| line.split("==").next()).filter(|name| !name.contains("jobstep"))
}

fn fetch(tools: &Path, folder: &Path, packages: &[String]) -> Result<()> {
    eprintln!("motet sweep: fetching Snakemake {} (once)", Snakemake::version());
    let partial = tools.join("partial");
    let _ = fs::remove_dir_all(&partial);
    let constraints = tools.join("requirements.txt");
    fs::write(&constraints, VERSIONS).map_err(|error| Error::write(&constraints, error))?;
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(&partial);
    install.arg("--constraint").arg(&constraints).args(packages).stdin(Stdio::null());
    let unavailable = |why: &str| {
        let advice = "Have python3 (3.11 or later) with pip (Debian: apt-get install python3-pip), and access to PyPI";
        Error::new(ErrorKind::Unavailable, format!("cannot fetch Snakemake: {why}\n{advice}"))
    };
    let output = install.output().map_err(|error| unavailable(&format!("python3: {error}")))?;
    if !output.status.success() {
        return Err(unavailable(String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    fs::rename(&partial, folder).map_err(|error| Error::write(folder, error))
}

/// Snakemake at work.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// What it says.
    pub log: PathBuf,
}

impl Running {
    /// Whether it has ended, and well.
    ///
    /// # Errors
    /// The host refuses to tell.
    pub fn ended(&mut self) -> Result<Option<bool>> {
        let status = self.child.try_wait().map_err(|error| Error::read(&self.log, error))?;
        Ok(status.map(|status| status.success()))
    }

    /// Sends a signal to it and to all that it has started here.
    pub fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    /// Nothing goes on when this process has ended.
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_all_known() {
        assert!(Snakemake::version().starts_with("9."));
        assert_eq!(executors().collect::<Vec<_>>(), ["kubernetes", "slurm"]);
        assert!(VERSIONS.lines().all(|line| line.starts_with('#') || line.contains("==")));
    }

    #[test]
    fn an_unknown_executor_is_an_error_that_lists_the_known() {
        let error = Snakemake::find(Path::new("/nonexistent"), "slrum").unwrap_err();
        assert!(error.message.contains("local, kubernetes, slurm"), "{error}");
        assert_eq!(error.exit_status(), 64);
    }
}
