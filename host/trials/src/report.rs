//! What is said about tests while they run and at the end, and what is kept of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Instant,
};

use crate::{
    job::{Job, Kind, Step},
    outcome::TestOutcome,
    plan::Plan,
    seconds,
    times::{self, Times},
};

/// Tests of a whole run that took longest, named at the end.
const LONGEST: usize = 10;

/// All that has come of a run so far.
pub struct Report<'a> {
    plan: &'a Plan,
    recorded: &'a Times,
    started: Instant,
    passed: BTreeMap<Step, usize>,
    failed: Vec<(Step, TestOutcome)>,
    measured: Vec<TestOutcome>,
    grown: Vec<String>,
    left_out: Vec<String>,
    skipped: Vec<String>,
    listed: usize,
}

impl<'a> Report<'a> {
    /// Nothing yet.
    pub fn new(plan: &'a Plan, recorded: &'a Times) -> Self {
        Self {
            plan,
            recorded,
            started: Instant::now(),
            passed: BTreeMap::new(),
            failed: Vec::new(),
            measured: Vec::new(),
            grown: Vec::new(),
            left_out: Vec::new(),
            skipped: Vec::new(),
            listed: 0,
        }
    }

    /// A line about the run.
    pub fn say(&self, line: &str) {
        eprintln!("motet test: {line}");
    }

    /// A job begins; of builds it is said, because nothing else is seen for long.
    pub fn started(&self, job: &Job) {
        if !matches!(job.kind, Kind::Test(_)) {
            self.say(&format!("building: {}", job.name));
        }
    }

    /// Names tests.
    pub fn list(&mut self, names: &[String]) {
        names.iter().for_each(|name| println!("{name}"));
        self.listed += names.len();
    }

    /// A job that is one test or a build has ended.
    pub fn job(&mut self, job: &Job, outcome: TestOutcome) {
        if matches!(job.kind, Kind::Test(_)) || outcome.failure.is_some() {
            self.test(job.step, outcome);
        } else {
            self.say(&format!(
                "built: {} ({}, {} of processor time)",
                job.name,
                seconds(outcome.wall),
                seconds(outcome.cpu)
            ));
            self.measured.push(outcome);
        }
    }

    /// A test has ended, or was left out.
    pub fn test(&mut self, step: Step, outcome: TestOutcome) {
        if let Some(why) = outcome.left_out.as_ref().filter(|_| outcome.failure.is_none()) {
            self.say(&format!("skipped: {}, because {why}", outcome.name));
            self.skipped.push(outcome.name);
            return;
        }
        let word = if outcome.failure.is_some() { "FAILED" } else { "ok" };
        println!("{word:6} {:>8} {:>8}  {}", seconds(outcome.wall), seconds(outcome.cpu), outcome.name);
        if outcome.failure.is_some() {
            self.failed.push((step, outcome));
            return;
        }
        *self.passed.entry(step).or_default() += 1;
        let class = self.recorded.get(&outcome.name).and_then(|time| times::left_class(time, outcome.cpu));
        if let Some(class) = class {
            self.grown.push(format!(
                "{} takes {} of processor time; it was one of at most {class} s",
                outcome.name,
                seconds(outcome.cpu)
            ));
        }
        self.measured.push(outcome);
    }

    /// Tests that are there and not run.
    pub fn left_out(&mut self, names: Vec<String>) {
        self.left_out.extend(names);
    }

    /// A job could not be run, or what it gave not be read.
    pub fn broken(&mut self, job: &Job, why: &str) {
        job.names().iter().for_each(|name| self.test(job.step, TestOutcome::failed(name, why.to_owned())));
    }

    /// A job is not run, because another one was not well.
    pub fn lost(&mut self, job: &Job, because: &str) {
        self.broken(job, &format!("not run, because '{because}' has failed"));
    }

    /// Shows what was wrong.
    pub fn show_failures(&self) {
        for (_, outcome) in &self.failed {
            println!("\n---- {} ----\n{}", outcome.name, outcome.failure.as_deref().unwrap_or_default());
        }
    }

    /// Whether there was no test so far, neither run nor named.
    pub fn is_empty(&self) -> bool {
        self.passed.is_empty() && self.failed.is_empty() && self.skipped.is_empty() && self.listed == 0
    }

    /// Whether something has failed.
    pub fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// A test that is recorded must have been there, run or left out.
    pub fn expect_all_recorded(&mut self) {
        let ran =
            self.measured.iter().chain(self.failed.iter().map(|(_, outcome)| outcome)).map(|outcome| &outcome.name);
        let there: BTreeSet<&String> = ran.chain(&self.left_out).chain(&self.skipped).collect();
        let gone: Vec<&str> = self.recorded.names().filter(|name| !there.contains(&(*name).to_owned())).collect();
        if !gone.is_empty() {
            let why = format!(
                "recorded in tests/times.tsv, and there no more (if that is meant, take them out):\n{}",
                gone.join("\n")
            );
            self.test(Step::Fmt, TestOutcome::failed("tests::all_are_there", why));
        }
    }

    /// Says what has come of all, keeps the times; whether all have passed.
    ///
    /// # Errors
    /// The times cannot be written.
    pub fn finish(&mut self, kept: &Path) -> Result<bool, String> {
        self.show_failures();
        let mut times = Times::read(kept);
        self.measured.iter().for_each(|outcome| times.set(outcome));
        times.write(kept).map_err(|error| format!("{}: {error}", kept.display()))?;
        self.say_longest();
        self.grown.iter().for_each(|line| self.say(line));
        for step in &self.plan.steps {
            let failed: Vec<&str> =
                self.failed.iter().filter(|(of, _)| of == step).map(|(_, outcome)| outcome.name.as_str()).collect();
            let passed = self.passed.get(step).copied().unwrap_or_default();
            let names = if failed.is_empty() { String::new() } else { format!(": {}", failed.join(" ")) };
            self.say(&format!("{}: {passed} passed, {} failed{names}", step.name(), failed.len()));
        }
        let all = self.measured.iter().chain(self.failed.iter().map(|(_, outcome)| outcome));
        let cpu: f64 = all.map(|outcome| outcome.cpu.as_secs_f64()).sum();
        let wall = self.started.elapsed();
        self.say(&format!(
            "{} in all, {cpu:.0} s of processor time, {:.2} processors busy",
            seconds(wall),
            cpu / wall.as_secs_f64().max(0.01)
        ));
        if !self.skipped.is_empty() {
            self.say(&format!("{} skipped: {}", self.skipped.len(), self.skipped.join(" ")));
        }
        println!("{} passed, {} failed", self.passed.values().sum::<usize>(), self.failed.len());
        Ok(self.failed.is_empty())
    }

    fn say_longest(&self) {
        let mut longest: Vec<&TestOutcome> = self.measured.iter().collect();
        longest.sort_by_key(|outcome| std::cmp::Reverse(outcome.wall));
        if longest.len() > LONGEST {
            let names =
                longest[..LONGEST].iter().map(|outcome| format!("\n    {:>8} {}", seconds(outcome.wall), outcome.name));
            self.say(&format!("the longest:{}", names.collect::<String>()));
        }
    }

    /// Records what was measured; `all`: nothing else is left in the record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record(&self, path: &Path, all: bool) -> Result<(), String> {
        let mut times = self.recorded.clone();
        if all {
            let is_there = |name: &str| self.measured.iter().any(|outcome| outcome.name == name);
            times.retain(|name| is_there(name) || self.skipped.iter().any(|skipped| skipped == name));
        }
        self.measured.iter().for_each(|outcome| times.set(outcome));
        times.write(path).map_err(|error| format!("{}: {error}", path.display()))
    }
}
