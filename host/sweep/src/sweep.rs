//! `motet sweep STUDY.toml`: from a study to its points, Snakemake, progress, and results.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::place::Place;
use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};

use crate::{
    options::SweepOptions,
    page,
    plan::{self, Folder, State},
    point::last_lines,
    results,
    snakemake::{Running, Settings, Snakemake},
    study::{Point, Study},
};

/// Exit statuses that are not errors: some points have failed; somebody has interrupted.
const FAILED: u8 = 1;
const INTERRUPTED: u8 = 130;
/// Points at a time where others than this computer run them.
const JOBS_ELSEWHERE: u32 = 100;
/// How often it is looked what has happened.
const LOOK: Duration = Duration::from_millis(200);

/// Runs a study; gives the exit status.
///
/// # Errors
/// The study is wrong, Snakemake cannot be had or does not run, or the host refuses.
pub fn sweep(options: &SweepOptions, home: &Place) -> Result<u8> {
    let path = options.study.as_ref().ok_or_else(|| Error::usage("which study?"))?;
    let study = Study::load(path, &home.root)?;
    let output = options.output.clone().unwrap_or_else(|| default_folder(home).join(&study.name));
    let folder = Folder::create(&output)?;
    if options.list {
        return list(&study, &folder);
    }
    let _lock = lock(&folder)?;
    folder.write(&study, options.again)?;
    let snakemake = Snakemake::find(&home.cache()?, &options.executor)?;
    let mut progress = Progress::new(&study, &folder);
    let ending =
        if progress.open.is_empty() { Ending::Whole } else { run(&snakemake, &mut progress, options, &study)? };
    report(&study, &folder, path)?;
    progress.conclude(&ending)
}

/// Where results of studies go: below the folder of build results, or, of an installation, below the current folder.
fn default_folder(home: &Place) -> PathBuf {
    if home.is_installed { "sweeps".into() } else { home.built.join("sweeps") }
}

fn list(study: &Study, folder: &Folder) -> Result<u8> {
    let lines = study.points.iter().map(|point| {
        let state = match folder.state(&point.id) {
            State::Finished(_) => "finished",
            State::Failed(_) => "failed",
            State::Open => "open",
        };
        format!("{} {state:<8} {}\n", point.id, point.label())
    });
    motet_error::print(&lines.collect::<String>()).map(|()| 0)
}

/// Nobody else works in the folder.
fn lock(folder: &Folder) -> Result<File> {
    let path = folder.path.join("lock");
    let file = File::create(&path).map_err(|error| Error::write(&path, error))?;
    let busy = format!("another sweep is at work in {}", folder.path.display());
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::new(ErrorKind::Temporary, busy))?;
    Ok(file)
}

/// How Snakemake has ended.
enum Ending {
    /// All that it could do is done.
    Whole,
    /// Not well; the end of what it has said.
    Broken(String),
    /// Somebody has interrupted.
    Interrupted,
}

fn run(snakemake: &Snakemake, progress: &mut Progress<'_>, options: &SweepOptions, study: &Study) -> Result<Ending> {
    let interrupted = watch_signals()?;
    let settings = Settings {
        executor: options.executor.clone(),
        jobs: options.jobs.unwrap_or_else(|| default_jobs(&options.executor)),
        // It has to come up, too.
        minutes: study.points.iter().map(|point| point.timeout_s).max().unwrap_or_default().div_ceil(60) + 1,
        options: options.snakemake.clone(),
    };
    progress.begin(settings.jobs);
    let mut running = snakemake.start(&progress.folder.path, &settings)?;
    loop {
        if interrupted.load(Ordering::Relaxed) {
            end(&mut running)?;
            progress.look();
            return Ok(Ending::Interrupted);
        }
        let ended = running.ended()?;
        progress.look();
        match ended {
            None => std::thread::sleep(LOOK),
            Some(true) => return Ok(Ending::Whole),
            Some(false) => return Ok(Ending::Broken(last_lines(&running.log))),
        }
    }
}

fn default_jobs(executor: &str) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    // A machine has several islands.
    if executor == "local" { (processors / 2).max(1) } else { JOBS_ELSEWHERE }
}

fn watch_signals() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let registered = signal_hook::flag::register(signal, flag.clone());
        registered.map_err(|error| Error::new(ErrorKind::Software, format!("signals: {error}")))?;
    }
    Ok(flag)
}

/// Snakemake and its points end in order; what does not within some seconds is killed.
fn end(running: &mut Running) -> Result<()> {
    running.signal(Signal::INT);
    let deadline = Instant::now() + Duration::from_secs(10);
    while running.ended()?.is_none() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
    running.signal(Signal::KILL);
    Ok(())
}

/// What is told while points run.
struct Progress<'a> {
    study: &'a Study,
    folder: &'a Folder,
    /// Those without a result.
    open: Vec<&'a Point>,
    failed: Vec<(&'a Point, String)>,
    before: usize,
    began: Instant,
}

impl<'a> Progress<'a> {
    fn new(study: &'a Study, folder: &'a Folder) -> Self {
        let is_open = |point: &&Point| !matches!(folder.state(&point.id), State::Finished(_));
        let open: Vec<&Point> = study.points.iter().filter(is_open).collect();
        let before = study.points.len() - open.len();
        Self { study, folder, open, failed: Vec::new(), before, began: Instant::now() }
    }

    fn begin(&self, jobs: u32) {
        let all = self.study.points.len();
        let before =
            if self.before == 0 { String::new() } else { format!(", {} of them finished before", self.before) };
        eprintln!("motet sweep: {all} points{before}; {jobs} at a time; in {}", self.folder.path.display());
    }

    /// Tells what has ended since it was last looked.
    fn look(&mut self) {
        let (ended, open): (Vec<_>, Vec<_>) = self
            .open
            .iter()
            .map(|point| (*point, self.folder.state(&point.id)))
            .partition(|(_, state)| !matches!(state, State::Open));
        self.open = open.into_iter().map(|(point, _)| point).collect();
        let all = self.study.points.len();
        for (point, state) in ended {
            let done = all - self.open.len();
            match state {
                State::Failed(why) => {
                    eprintln!("motet sweep: {done} of {all}: {} failed: {why}", point.label());
                    self.failed.push((point, why));
                }
                State::Finished(result) => {
                    let left = self.left().map_or(String::new(), |left| format!("; {left} left"));
                    eprintln!("motet sweep: {done} of {all}: {} ({:.1} s){left}", point.label(), result.host_s);
                }
                State::Open => {}
            }
        }
    }

    /// How long it will take from now on, if it goes on so.
    fn left(&self) -> Option<String> {
        let done = self.study.points.len() - self.before - self.open.len();
        let seconds = self.began.elapsed().as_secs_f64() / done as f64 * self.open.len() as f64;
        (done != 0 && !self.open.is_empty()).then(|| match seconds {
            ..100.0 => format!("{seconds:.0} s"),
            ..6000.0 => format!("{:.0} min", seconds / 60.0),
            _ => format!("{:.1} h", seconds / 3600.0),
        })
    }

    /// The last words, and the exit status.
    fn conclude(mut self, ending: &Ending) -> Result<u8> {
        let all = self.study.points.len();
        let path = self.folder.path.display();
        if let Ending::Interrupted = ending {
            let finished = all - self.open.len() - self.failed.len();
            eprintln!(
                "motet sweep: interrupted; {finished} of {all} points have finished: the same command goes on with the others"
            );
            return Ok(INTERRUPTED);
        }
        if let Ending::Broken(words) = ending
            && self.failed.is_empty()
            && self.open.len() + self.before == all
        {
            let message = format!("Snakemake has run no point ({path}/snakemake.log){words}");
            return Err(Error::new(ErrorKind::Software, message));
        }
        // Killed, or never begun: there is nobody to say why but the log.
        for point in std::mem::take(&mut self.open) {
            let log = self.folder.point(&point.id).join("log");
            let words = last_lines(&log);
            let why = if words.is_empty() { format!(": see {path}/snakemake.log") } else { words };
            eprintln!("motet sweep: {} has no result{why}", point.label());
            self.failed.push((point, why));
        }
        let finished = all - self.failed.len();
        eprintln!(
            "motet sweep: {finished} of {all} points have finished: {path}/index.html, results.csv, results.parquet"
        );
        Ok(if self.failed.is_empty() { 0 } else { FAILED })
    }
}

/// Writes tables and the page of what there is.
fn report<'a>(study: &'a Study, folder: &Folder, file: &Path) -> Result<()> {
    let found = folder.results(&study.points);
    let columns = results::columns(&found, &Snakemake::version());
    plan::write(&folder.path.join("results.csv"), results::csv(&columns).as_bytes())?;
    results::write_parquet(&folder.path.join("results.parquet"), &columns)?;
    let failed = |point: &'a Point| match folder.state(&point.id) {
        State::Failed(why) => Some((point, why)),
        State::Finished(_) | State::Open => None,
    };
    let failed: Vec<(&Point, String)> = study.points.iter().filter_map(failed).collect();
    let body = page::body(study, &found, &failed);
    plan::write(&folder.path.join("index.html"), motet_page::page(&study.name, &body).as_bytes())?;
    let copy: PathBuf = folder.path.join("study.toml");
    fs::copy(file, &copy).map(drop).map_err(|error| Error::write(&copy, error))
}
