//! The command line: `./motet test` passes it on.

use std::{path::PathBuf, time::SystemTime};

use clap::{Parser, ValueEnum};

use crate::{job::Step, plan::Plan};

/// Runs the checks of Motet.
#[derive(Debug, Parser)]
#[command(name = "./motet test", disable_help_flag = true)]
pub struct Options {
    /// Steps (fmt clippy unit model machine setup; none: all), or one step and parts of names of its tests.
    words: Vec<String>,
    /// What is slow by nature, too.
    #[arg(long)]
    long: bool,
    /// Names the tests and runs none.
    #[arg(long)]
    pub list: bool,
    /// The seed of random tests; otherwise the day's date.
    #[arg(long)]
    seed: Option<u64>,
    /// Keeps so many processors busy; otherwise all.
    #[arg(long)]
    processors: Option<f64>,
    /// Writes the times that were measured to `tests/times.tsv`.
    #[arg(long)]
    pub record: bool,
}

impl Options {
    /// What is to be done.
    ///
    /// # Errors
    /// A word is neither a step nor behind one.
    pub fn plan(&self) -> Result<Plan, String> {
        let root = PathBuf::from(std::env::var_os("MOTET_ROOT").ok_or("start me by ./motet test")?);
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let (steps, names) = self.steps_and_names()?;
        let processors = (self.processors() as usize).max(1);
        let is_ci = std::env::var_os("CI").is_some();
        Ok(Plan {
            root,
            target,
            steps,
            names,
            long: self.long,
            seed: self.seed.unwrap_or_else(today),
            is_ci,
            processors,
        })
    }

    fn steps_and_names(&self) -> Result<(Vec<Step>, Vec<String>), String> {
        let step = |word: &String| Step::from_str(word, false).ok();
        let Some(first) = self.words.first() else { return Ok((Step::ALL.to_vec(), Vec::new())) };
        let Some(first) = step(first) else {
            return Err(format!("there is no step '{first}'; the steps are {}", Step::ALL.map(Step::name).join(" ")));
        };
        let rest = &self.words[1..];
        let steps: Option<Vec<Step>> = rest.iter().map(step).collect();
        Ok(match steps {
            Some(steps) => ([first].into_iter().chain(steps).collect(), Vec::new()),
            None => (vec![first], rest.to_vec()),
        })
    }

    /// Whether every test is run that belongs to what is asked for.
    pub fn is_everything(&self) -> bool {
        self.words.is_empty()
    }

    /// How many processors are kept busy.
    pub fn processors(&self) -> f64 {
        self.processors.unwrap_or_else(|| std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64))
    }

    /// The list of all tests with their times.
    pub fn recorded(&self) -> PathBuf {
        PathBuf::from(std::env::var_os("MOTET_ROOT").unwrap_or_default()).join("tests/times.tsv")
    }

    /// Where the seed is from.
    pub fn seed_is(&self) -> &'static str {
        if self.seed.is_some() { "as asked for" } else { "today's date" }
    }
}

/// The date in UTC as a number: year, month, day.
fn today() -> u64 {
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date(seconds / 86_400)
}

/// The date so many days after 1 January 1970, by the proleptic Gregorian calendar.
fn date(days: u64) -> u64 {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    year * 10_000 + month * 100 + left + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<(Vec<Step>, Vec<String>), String> {
        Options::parse_from(["test"].iter().chain(words)).steps_and_names()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        // As `date -u -d @$((days * 86400)) +%Y%m%d` has them.
        let known =
            [(0, 19_700_101), (59, 19_700_301), (11_016, 20_000_229), (20_454, 20_260_101), (20_784, 20_261_127)];
        assert_eq!(known.map(|(days, _)| date(days)), known.map(|(_, date)| date));
    }

    #[test]
    fn words_behind_a_step_are_steps_or_names() {
        assert_eq!(parsed(&[]).unwrap(), (Step::ALL.to_vec(), vec![]));
        assert_eq!(parsed(&["unit", "model"]).unwrap(), (vec![Step::Unit, Step::Model], vec![]));
        assert_eq!(
            parsed(&["machine", "vm::", "accel"]).unwrap(),
            (vec![Step::Machine], vec!["vm::".into(), "accel".into()])
        );
        assert!(parsed(&["machines"]).unwrap_err().contains("fmt clippy unit"));
    }
}
