//! How long tests take: what is recorded in the repository, by which they are scheduled, and what was measured now.
//!
//! `times.tsv` has a line for each test: name, seconds of processor time, seconds. Processor time does not depend on what else the computer
//! does, so a test's class (1, 10, 60 s) is one of processor time.

use std::{collections::BTreeMap, fs, io, path::Path, time::Duration};

use crate::outcome::TestOutcome;

/// Classes, in seconds of processor time.
const CLASSES_S: [f64; 3] = [1.0, 10.0, 60.0];
/// What is not recorded is taken to be this.
const UNKNOWN: Time = Time { cpu_s: 1.0, wall_s: 1.0 };
/// The least part of a processor that a process is taken to need.
const WEIGHT_MIN: f64 = 0.05;

/// What a test takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// Seconds of processor time, of the test and all processes that it starts.
    pub cpu_s: f64,
    /// Seconds that it takes by itself.
    pub wall_s: f64,
}

impl Time {
    /// How many processors it keeps busy.
    pub fn weight(self) -> f64 {
        (self.cpu_s / self.wall_s.max(0.01)).max(WEIGHT_MIN)
    }
}

/// Times by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times(BTreeMap<String, Time>);

impl Times {
    /// Those in a file; none where there is no such file.
    pub fn read(path: &Path) -> Self {
        Self::parse(&fs::read_to_string(path).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let parse = |line: &str| {
            let mut words = line.split('\t');
            let (name, cpu_s, wall_s) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((name.to_owned(), Time { cpu_s, wall_s }))
        };
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(parse).collect())
    }

    /// What a job is known to take.
    pub fn of(&self, name: &str) -> Time {
        self.get(name).unwrap_or(UNKNOWN)
    }

    /// The same, if it is recorded.
    pub fn get(&self, name: &str) -> Option<Time> {
        self.0.get(name).copied()
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Keeps a measured time.
    pub fn set(&mut self, outcome: &TestOutcome) {
        let time = Time { cpu_s: outcome.cpu.as_secs_f64(), wall_s: outcome.wall.as_secs_f64() };
        self.0.insert(outcome.name.clone(), time);
    }

    /// Forgets all but these names.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }

    /// Writes them to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, self.text())
    }

    fn text(&self) -> String {
        let lines = self.0.iter().map(|(name, time)| format!("{name}\t{:.2}\t{:.2}\n", time.cpu_s, time.wall_s));
        "# name\tprocessor_s\twall_s\n".chars().chain(lines.collect::<String>().chars()).collect()
    }
}

/// The class that a test was in and has left, in seconds: it takes more now.
pub fn left_class(recorded: Time, now: Duration) -> Option<f64> {
    let class = CLASSES_S.into_iter().find(|class| recorded.cpu_s <= *class)?;
    (now.as_secs_f64() > class).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = "# name\tprocessor_s\twall_s\na b\t2.50\t1.00\nc\t0.00\t0.01\n";
        let times = Times::parse(text);
        assert_eq!(times.text(), text);
        assert_eq!(times.of("a b").weight(), 2.5);
        assert_eq!(times.of("c").weight(), WEIGHT_MIN);
        assert_eq!(times.of("new"), UNKNOWN);
    }

    #[test]
    fn a_test_that_grows_past_its_class_is_named() {
        let time = |cpu_s| Time { cpu_s, wall_s: 1.0 };
        assert_eq!(left_class(time(0.3), Duration::from_millis(900)), None);
        assert_eq!(left_class(time(0.3), Duration::from_millis(1100)), Some(1.0));
        assert_eq!(left_class(time(9.0), Duration::from_secs(11)), Some(10.0));
        // Beyond the last class there is nothing to grow out of.
        assert_eq!(left_class(time(70.0), Duration::from_secs(900)), None);
    }
}
