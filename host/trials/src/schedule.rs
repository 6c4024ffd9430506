//! Which job is next: the one that takes longest of those that the processors have room for.
//!
//! A job's weight is the number of processors that it keeps busy by itself. The sum of the weights of the jobs that run stays near the
//! processors that there are, so that little waits for a processor and none stands idle. A job heavier than all processors runs alone. Builds come before tests, because more waits for them.

use std::collections::BTreeSet;

use crate::{
    job::{Job, Kind},
    times::{Time, Times},
};

/// Weights are means: a job that waits for a moment leaves its processors to others. So a little more is given out than there is.
const GIVEN_OUT: f64 = 1.25;
/// Most processes at a time, however light they are.
const JOBS_MAX: usize = 16;

/// Jobs that wait and jobs that run.
pub struct Schedule {
    processors: f64,
    waiting: Vec<Waiting>,
    running: Vec<Running>,
    done: BTreeSet<String>,
}

struct Waiting {
    job: Job,
    weight: f64,
    /// What most wait for, then what takes longest, comes first.
    rank: (u8, f64),
}

/// How soon jobs of a kind are to begin, because others wait for them.
fn urgency(kind: &Kind) -> u8 {
    match kind {
        Kind::Build => 3,
        // It is there soon, and its tests take longest.
        Kind::MachineProgram => 2,
        Kind::TestPrograms(_) => 1,
        Kind::Test(_) => 0,
    }
}

struct Running {
    name: String,
    weight: f64,
    key: Option<&'static str>,
}

impl Schedule {
    /// Nothing to do yet, for so many processors.
    pub fn new(processors: f64) -> Self {
        Self { processors, waiting: Vec::new(), running: Vec::new(), done: BTreeSet::new() }
    }

    /// Adds jobs.
    pub fn add(&mut self, jobs: impl IntoIterator<Item = Job>, times: &Times) {
        for job in jobs {
            let of = |name: &String| times.of(name);
            let (cpu_s, wall_s) =
                job.names().iter().map(of).fold((0.0, 0.0), |sum, time| (sum.0 + time.cpu_s, sum.1 + time.wall_s));
            let weight = job.weight.unwrap_or(Time { cpu_s, wall_s }.weight()).min(self.processors);
            let rank = (urgency(&job.kind), wall_s);
            self.waiting.push(Waiting { job, weight, rank });
        }
        self.waiting.sort_by(|a, b| b.rank.0.cmp(&a.rank.0).then(b.rank.1.total_cmp(&a.rank.1)));
    }

    /// The next job to start now.
    pub fn start(&mut self) -> Option<Job> {
        let busy: f64 = self.running.iter().map(|job| job.weight).sum();
        if self.running.len() >= JOBS_MAX {
            return None;
        }
        let fits = |waiting: &Waiting| {
            let has_room = self.running.is_empty() || busy + waiting.weight <= GIVEN_OUT * self.processors;
            let is_ready = waiting.job.needs.iter().all(|need| self.done.contains(*need));
            let is_locked = waiting.job.key.is_some_and(|key| self.running.iter().any(|job| job.key == Some(key)));
            has_room && is_ready && !is_locked
        };
        let index = self.waiting.iter().position(fits)?;
        let Waiting { job, weight, .. } = self.waiting.remove(index);
        self.running.push(Running { name: job.name.clone(), weight, key: job.key });
        Some(job)
    }

    /// Takes note of a job's end. If it was not well, the jobs that need it are given up, and returned.
    pub fn ended(&mut self, name: &str, is_well: bool) -> Vec<Job> {
        self.running.retain(|job| job.name != name);
        if is_well {
            self.done.insert(name.to_owned());
            return Vec::new();
        }
        let (lost, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| waiting.job.needs.contains(&name));
        self.waiting = waiting;
        let mut lost: Vec<Job> = {
            let lost: Vec<Waiting> = lost;
            lost.into_iter().map(|waiting| waiting.job).collect()
        };
        for job in lost.clone() {
            lost.extend(self.ended(&job.name, false));
        }
        lost
    }

    /// Whether a job runs.
    pub fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        job::{Reports, Step},
        outcome::TestOutcome,
    };
    use std::time::Duration;

    fn test(name: &str) -> Job {
        Job::new(name, Step::Machine, Kind::Test(Reports::Status), ["true"])
    }

    fn times(all: &[(&str, f64, f64)]) -> Times {
        let mut times = Times::default();
        for &(name, cpu_s, wall_s) in all {
            let [cpu, wall] = [cpu_s, wall_s].map(Duration::from_secs_f64);
            times.set(&TestOutcome { name: name.into(), failure: None, left_out: None, wall, cpu });
        }
        times
    }

    fn started(schedule: &mut Schedule) -> Vec<String> {
        std::iter::from_fn(|| schedule.start()).map(|job| job.name).collect()
    }

    #[test]
    fn processors_are_full_and_not_much_more_than_full() {
        let times = times(&[("long", 108.0, 60.0), ("one", 30.0, 30.0), ("sleeps", 4.0, 20.0), ("short", 0.4, 1.0)]);
        let mut schedule = Schedule::new(2.0);
        schedule.add(["short", "sleeps", "one", "long"].map(test), &times);
        assert_eq!(started(&mut schedule), ["long", "sleeps", "short"]);
        schedule.ended("sleeps", true);
        assert_eq!(started(&mut schedule), [""; 0]);
        schedule.ended("long", true);
        assert_eq!(started(&mut schedule), ["one"]);
    }

    #[test]
    fn what_is_heavier_than_all_processors_runs_alone() {
        let times = times(&[("heavy", 40.0, 10.0), ("light", 0.6, 1.0)]);
        let mut schedule = Schedule::new(2.0);
        schedule.add(["heavy", "light"].map(test), &times);
        assert_eq!(started(&mut schedule), ["heavy"]);
        schedule.ended("heavy", true);
        assert_eq!(started(&mut schedule), ["light"]);
        assert!(schedule.is_running());
    }

    #[test]
    fn builds_go_first_and_two_in_one_folder_one_after_the_other() {
        let build = |name| Job::new(name, Step::Unit, Kind::Build, ["true"]).keyed("debug");
        let mut schedule = Schedule::new(4.0);
        schedule.add([test("t"), build("a"), build("b"), test("needs a").after(&["a"])], &times(&[("t", 9.0, 9.0)]));
        assert_eq!(started(&mut schedule), ["a", "t"]);
        schedule.ended("a", true);
        assert_eq!(started(&mut schedule), ["b", "needs a"]);
    }

    #[test]
    fn a_build_that_fails_takes_with_it_all_that_needs_it() {
        let build = |name| Job::new(name, Step::Unit, Kind::Build, ["true"]);
        let mut schedule = Schedule::new(4.0);
        schedule.add([build("a"), build("b").after(&["a"]), test("c").after(&["b"]), test("d")], &Times::default());
        assert_eq!(started(&mut schedule), ["a", "d"]);
        let lost: Vec<String> = schedule.ended("a", false).into_iter().map(|job| job.name).collect();
        assert_eq!((lost, schedule.waiting()), (vec!["b".to_owned(), "c".to_owned()], 0));
    }
}
