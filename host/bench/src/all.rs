//! `motet bench all`: measures every figure that documents quote, and records it with its origin.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use clap::Args;
use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use crate::{
    figures::{self, Figure, Recorded, Run},
    process,
    project::{self, Project, file_error},
};

/// In the order in which they run; the last one by itself alone.
const EXPERIMENTS: [&str; 13] = [
    "boot",
    "compile",
    "flick",
    "ftm",
    "hthreads",
    "ker-one",
    "os",
    "quantum",
    "sensitivity",
    "sim-accuracy",
    "sim-speed",
    "stramash",
    HOURS,
];
/// Takes hours, so it runs only when it is named; and a part of it at a time is recorded.
const HOURS: &str = "stramash-class-a";

/// The experiment's name on the command line, and what is always asked of it.
fn command_of(experiment: &str) -> (&str, &'static [&'static str]) {
    if experiment == HOURS { ("stramash", &["--class", "a", "--only", "npb"]) } else { (experiment, &[]) }
}

const EXAMPLES: &str = "\
Examples:
  ./motet bench all                      every experiment, whole: two hours
  ./motet bench all flick                one of them
  ./motet bench all flick --only calls   a part of it; other figures of the
                                         experiment stay as they were recorded
  ./motet bench all stramash-class-a --benchmark is --level o2
                                         hours as a whole, so only by name

Each experiment's figures go to docs/figures/EXPERIMENT.json, with the commit,
the computer and the command, and all to the page docs/figures.md. Quotes in
documents that are now different are listed at the end; ./motet bench quotes
--write puts them right.";

const QUOTE_EXAMPLES: &str = "\
Examples:
  ./motet bench quotes           list them, with file and line, and figures of old commits
  ./motet bench quotes --write   put the recorded numbers in; read the sentences
                                 around them afterwards";

/// Options of `motet bench all`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Only this experiment, with the options that follow
    #[arg(value_parser = EXPERIMENTS)]
    experiment: Option<String>,
    /// Options of the experiment
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, requires = "experiment")]
    options: Vec<String>,
}

/// Options of `motet bench quotes`.
#[derive(Args, Debug)]
#[command(after_help = QUOTE_EXAMPLES)]
pub struct QuoteOptions {
    /// Put the recorded numbers into the documents
    #[arg(long)]
    write: bool,
}

/// Lists quotes that are not the recorded figures, or puts them right, and lists figures that are too old to be quoted.
///
/// # Errors
/// Some are not right or too old, or a file cannot be read or written.
pub fn quotes(options: &QuoteOptions) -> Result<()> {
    let project = Project::find()?;
    let all = figures::load_all(&project.root.join("docs/figures"))?;
    let mended = if options.write { figures::requote(&project.root, &all)? } else { Vec::new() };
    mended.iter().for_each(|change| eprintln!("motet: {change}"));
    let wrong = figures::differences(&project.root, &all)?;
    wrong.iter().for_each(|difference| eprintln!("motet: {difference}"));
    let old = figures::old_figures(&project.root, &all)?;
    old.iter().for_each(|line| eprintln!("motet: {line}"));
    if !wrong.is_empty() {
        return Err(Error::new(ErrorKind::Data, format!("{} quotes are not the recorded figures", wrong.len())));
    }
    if !old.is_empty() {
        return Err(Error::new(ErrorKind::Data, format!("figures of {} runs are no evidence any more", old.len())));
    }
    Ok(())
}

/// Runs the experiments and records what they measured. Of one that fails, nothing is recorded; the others still run.
///
/// # Errors
/// An experiment failed, the source is in no commit, or a file cannot be read or written.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    let (commit, changed) = commit_of(&project.root)?;
    let qemu = project::qemu_version(Isa::X86_64)?;
    let folder = project.root.join("docs/figures");
    std::fs::create_dir_all(&folder).map_err(file_error(&folder))?;
    let wanted = |name: &&&str| options.experiment.as_deref().map_or(**name != HOURS, |only| only == **name);
    let mut failed = Vec::new();
    for &experiment in EXPERIMENTS.iter().filter(wanted) {
        let that_matter = that_matter(&options.options);
        let (name, always) = command_of(experiment);
        let words = [always, &that_matter].concat().join(" ");
        let command = format!("./motet bench {name} {words}").trim_end().to_owned();
        let run = Run { command, commit: commit.clone(), changed, host: computer(), qemu: qemu.clone() };
        let path = folder.join(experiment).with_extension("json");
        let outcome = measure(&project, experiment, &options.options).and_then(|measured| {
            let mut recorded = Recorded::load(&path)?;
            recorded.take(run, measured, that_matter.is_empty());
            recorded.save(&path)
        });
        if let Err(error) = outcome {
            eprintln!("motet: {error}");
            failed.push(experiment);
        }
    }
    let all = figures::load_all(&folder)?;
    figures::write_page(&project.root.join("docs/figures.md"), &all)?;
    for difference in figures::differences(&project.root, &all)? {
        eprintln!("motet: {difference}");
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Software, format!("nothing was recorded of {}, see above", failed.join(", "))))
}

/// Options that change figures: not `--report DIR` and `--jobs N`.
fn that_matter(options: &[String]) -> Vec<&str> {
    let mut rest = options.iter().map(String::as_str);
    let mut kept = Vec::new();
    while let Some(option) = rest.next() {
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        if !["--report", "--jobs"].contains(&name) {
            kept.push(option);
        } else if value.is_none() {
            rest.next();
        }
    }
    kept
}

/// Runs an experiment as a program of its own, whose table and progress are seen as always.
fn measure(project: &Project, experiment: &str, options: &[String]) -> Result<Vec<Figure>> {
    let file = project.scratch("all")?.join(experiment).with_extension("json");
    let own = std::env::current_exe().map_err(file_error(Path::new("the program itself")))?;
    let started = Instant::now();
    eprintln!("motet: bench {experiment} {}", options.join(" "));
    let (name, always) = command_of(experiment);
    let status = Command::new(own).arg(name).args(always).args(options).arg("--json").arg(&file).status();
    let status = status.map_err(file_error(Path::new("the program itself")))?;
    eprintln!("motet: bench {experiment} took {} s", started.elapsed().as_secs());
    if !status.success() {
        return Err(Error::new(ErrorKind::Software, format!("bench {experiment} failed: {status}")));
    }
    let text = std::fs::read_to_string(&file).map_err(file_error(&file))?;
    serde_json::from_str(&text).map_err(|error| Error::new(ErrorKind::Software, format!("{}: {error}", file.display())))
}

/// The commit of the source, and whether anything but documents differs from it.
fn commit_of(root: &Path) -> Result<(String, bool)> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        process::expect(command.arg("-C").arg(root).args(arguments), Duration::from_secs(60)).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("figures are recorded with their commit, which git tells: {error}"),
            )
        })
    };
    let commit = git(&["rev-parse", "HEAD"])?.trim().to_owned();
    let changes = git(&["status", "--porcelain", "--", ".", ":(exclude)docs", ":(exclude)*.md"])?;
    Ok((commit, !changes.trim().is_empty()))
}

/// The computer: processors, memory and kernel.
fn computer() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let kib =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let memory = kib.map_or(String::new(), |kib| format!(", {} GiB", (kib + (1 << 19)) >> 20));
    format!(
        "{}{memory}, Linux {}",
        project::host(),
        read("/proc/sys/kernel/osrelease").trim().split('-').next().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_names_no_folder_of_the_computer() {
        let options =
            ["--report", "/a", "--quick", "--report=/b", "--jobs", "2", "--only", "x", "--jobs=2"].map(str::to_owned);
        assert_eq!(that_matter(&options), ["--quick", "--only", "x"]);
        assert!(that_matter(&options[..2]).is_empty());
    }
}
