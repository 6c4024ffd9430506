//! `./motet test`: builds what tests need and runs them, as many side by side as the processors can carry.
//!
//! Everything is a process: a compilation, a test of Rust's test harness, a test of whole machines (`host/cli/tests/machine`), a script. What
//! each takes is recorded in `tests/times.tsv`, which is also the list of all tests: one that is gone fails the run.
#![forbid(unsafe_code)]

mod job;
mod options;
mod outcome;
mod plan;
mod process;
mod report;
mod schedule;
mod space;
mod times;

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use clap::Parser;
use job::{Job, Kind, Reports};
use options::Options;
use outcome::TestOutcome;
use plan::{Plan, Tests};
use process::Ended;
use report::Report;
use schedule::Schedule;
use times::Times;

/// A script's exit status when it needs rights that its user has not (EX_NOPERM).
const NOT_PERMITTED: i32 = 77;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Whether somebody has told this process to end.
pub fn is_interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

fn main() -> ExitCode {
    let options = Options::parse();
    match watch_signals().and_then(|()| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("motet test: {error}");
            // As a shell says it of SIGINT, or EX_USAGE.
            ExitCode::from(if is_interrupted() { 130 } else { 64 })
        }
    }
}

fn watch_signals() -> Result<(), String> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, flag.clone()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Runs the tests that are asked for; whether all have passed.
fn run(options: &Options) -> Result<bool, String> {
    let plan = options.plan()?;
    let recorded = Times::read(&options.recorded());
    let kept = plan.target.join("times.tsv");
    let mut run = Run { plan: &plan, recorded: &recorded, list: options.list, report: Report::new(&plan, &recorded) };
    if !options.list {
        run.report.say(&format!(
            "seed {} ({}); one of them again: ./motet test STEP NAME --seed {}",
            plan.seed,
            options.seed_is(),
            plan.seed
        ));
        if options.is_everything()
            && let Some(line) = space::warning(&plan.target, !kept.exists())
        {
            run.report.say(&line);
        }
    }
    if let Err(error) = run.all(options.processors()) {
        run.report.show_failures();
        return Err(error);
    }
    if run.report.is_empty() && !plan.names.is_empty() {
        return Err(format!(
            "no test of this step has one of these in its name: {} (--list names all)",
            plan.names.join(" ")
        ));
    }
    if options.list {
        return Ok(!run.report.has_failed());
    }
    if options.is_everything() {
        run.report.expect_all_recorded();
    }
    let is_well = run.report.finish(&kept)?;
    if options.record {
        run.report.record(&options.recorded(), options.is_everything() && plan.long)?;
    }
    Ok(is_well)
}

/// Jobs on their way.
struct Run<'a> {
    plan: &'a Plan,
    recorded: &'a Times,
    list: bool,
    report: Report<'a>,
}

/// What a thread tells of the job that it has watched.
type Told = (Job, Result<(Ended, String), String>);

impl Run<'_> {
    fn all(&mut self, processors: f64) -> Result<(), String> {
        let mut schedule = Schedule::new(processors);
        let (tell, told) = mpsc::channel::<Told>();
        self.add(&mut schedule, self.plan.jobs());
        let mut stopped = None;
        loop {
            while !is_interrupted()
                && stopped.is_none()
                && let Some(job) = schedule.start()
            {
                self.report.started(&job);
                let tell = tell.clone();
                std::thread::spawn(move || {
                    let ended = run_job(&job);
                    // Nobody listens who has failed by then.
                    drop(tell.send((job, ended)));
                });
            }
            if !schedule.is_running() {
                break;
            }
            let (job, ended) = told.recv().map_err(|error| error.to_string())?;
            let is_well = self.ended(&job, ended, &mut schedule);
            for lost in schedule.ended(&job.name, is_well) {
                self.report.lost(&lost, &job.name);
            }
            if !is_well || self.report.has_failed() {
                stopped = stopped.or_else(|| space::exhausted(&self.plan.target));
            }
        }
        if is_interrupted() { Err("interrupted".into()) } else { stopped.map_or(Ok(()), Err) }
    }

    /// Takes tests up, or names them.
    fn add(&mut self, schedule: &mut Schedule, mut jobs: Vec<Job>) {
        if self.list {
            let is_test = |job: &Job| matches!(job.kind, Kind::Test(_));
            jobs.iter().filter(|job| is_test(job)).for_each(|job| self.report.list(job.names()));
            jobs.retain(|job| !is_test(job) && job.kind != Kind::Build);
            jobs.iter_mut().for_each(|job| job.needs.clear());
        }
        schedule.add(jobs, self.recorded);
    }

    /// What follows from a job's end; whether it was well.
    fn ended(&mut self, job: &Job, ended: Result<(Ended, String), String>, schedule: &mut Schedule) -> bool {
        let (ended, told) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                self.report.broken(job, &error);
                return false;
            }
        };
        let code = ended.status.and_then(|status| status.code());
        let is_skipped = code == Some(NOT_PERMITTED) && matches!(job.kind, Kind::Test(_));
        let is_well = code == Some(0) || is_skipped;
        if matches!(job.kind, Kind::Test(Reports::File)) {
            for outcome in outcome::of_all(&job.tests, &told, &ended.shown()) {
                self.report.test(job.step, outcome);
            }
            return true;
        }
        let failure = (!is_well).then(|| ended.shown());
        let left_out = is_skipped.then(|| ended.errors.trim_end().to_owned());
        self.report
            .job(job, TestOutcome { name: job.name.clone(), failure, left_out, wall: ended.wall, cpu: ended.cpu });
        if is_well {
            match self.follow_ups(job, &ended) {
                Ok(tests) => {
                    if self.list {
                        self.report.list(&tests.left_out);
                    }
                    self.report.left_out(tests.left_out);
                    self.add(schedule, tests.jobs);
                }
                Err(error) => {
                    self.report.broken(job, &error);
                    return false;
                }
            }
        }
        is_well
    }

    /// The tests of the programs that a job has built.
    fn follow_ups(&self, job: &Job, ended: &Ended) -> Result<Tests, String> {
        match job.kind {
            Kind::TestPrograms(step) => self.plan.tests(step, &ended.output, |program, ignored| {
                let mut command = Command::new(&program.path);
                command.args(["--list", "--format", "terse"]).args(ignored.then_some("--ignored"));
                output_of(command.current_dir(&program.folder))
            }),
            Kind::MachineProgram => {
                let program = plan::only_program(&ended.output).ok_or("cargo tells of no test program")?;
                let listed =
                    output_of(Command::new(&program).arg("--list").env("MOTET_TEST_SEED", self.plan.seed.to_string()))?;
                Ok(self.plan.machine_tests(&program, &listed))
            }
            Kind::Build | Kind::Test(_) => Ok(Tests::default()),
        }
    }
}

/// Runs a job; how it ended, and what it wrote to its file of results.
fn run_job(job: &Job) -> Result<(Ended, String), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let results = folder.path().join("results");
    let mut job = job.clone();
    if job.kind == Kind::Test(Reports::File) {
        job.command.extend(["--run".into(), results.clone().into()]);
        job.command.extend(job.tests.iter().map(Into::into));
    }
    let ended = process::run(&job, folder.path())
        .map_err(|error| format!("{}: {error}", Path::new(&job.command[0]).display()))?;
    Ok((ended, fs::read_to_string(&results).unwrap_or_default()))
}

/// What a command prints.
fn output_of(command: &mut Command) -> Result<String, String> {
    let ended = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if ended.status.success() { Ok(text(&ended.stdout)) } else { Err(text(&ended.stderr)) }
}

/// Seconds, as people read them.
fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
