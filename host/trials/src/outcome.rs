//! What came of a job, and how a process of several tests says it.

use std::time::Duration;

/// One test's end.
#[derive(Clone, Debug, PartialEq)]
pub struct TestOutcome {
    /// Its name.
    pub name: String,
    /// What was wrong, if something was.
    pub failure: Option<String>,
    /// Why it was left out, if it was.
    pub left_out: Option<String>,
    /// How long it took.
    pub wall: Duration,
    /// Processor time of it and of all processes that it started.
    pub cpu: Duration,
}

impl TestOutcome {
    /// Of one that took no time.
    pub fn failed(name: &str, why: String) -> Self {
        Self { name: name.to_owned(), failure: Some(why), left_out: None, wall: Duration::ZERO, cpu: Duration::ZERO }
    }
}

/// Reads the file that a process of several tests writes: for each test a line of JSON, an array of name, seconds, seconds of processor
/// time, what was wrong, and why it was left out (null: nothing, and it was not). A line that was not written to its end is none.
pub fn parse(text: &str) -> Vec<TestOutcome> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<TestOutcome> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let seconds = |index: usize| Duration::try_from_secs_f64(value.get(index)?.as_f64()?).ok();
    Some(TestOutcome {
        name: value.get(0)?.as_str()?.to_owned(),
        wall: seconds(1)?,
        cpu: seconds(2)?,
        failure: value.get(3)?.as_str().map(str::to_owned),
        left_out: value.get(4)?.as_str().map(str::to_owned),
    })
}

/// The outcomes of tests that a process had to run: those that it told of, and a failure for each of the others.
pub fn of_all(tests: &[String], told: &str, output: &str) -> Vec<TestOutcome> {
    let mut told = parse(told);
    for name in tests {
        if !told.iter().any(|outcome| outcome.name == *name) {
            told.push(TestOutcome::failed(name, format!("it did not come to its end\n{output}")));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_without_a_whole_line_has_failed() {
        let told = "[\"a\", 1.5, 2.0, null, null]\n[\"b\", 0.5, 0.0, \"no\\nway\", null]\n[\"c\", 1.0, 1.0, null, nul";
        let names = ["a", "b", "c"].map(str::to_owned);
        let outcomes = of_all(&names, told, "it panicked");
        let failures: Vec<Option<&str>> = outcomes.iter().map(|outcome| outcome.failure.as_deref()).collect();
        assert_eq!(failures, [None, Some("no\nway"), Some("it did not come to its end\nit panicked")]);
        assert_eq!((outcomes[0].wall, outcomes[0].cpu), (Duration::from_millis(1500), Duration::from_secs(2)));
    }

    #[test]
    fn a_test_that_is_left_out_says_why() {
        let names = ["a"].map(str::to_owned);
        let outcomes = of_all(&names, "[\"a\", 0.0, 0.0, null, \"no right\"]\n", "");
        assert_eq!((&outcomes[0].failure, outcomes[0].left_out.as_deref()), (&None, Some("no right")));
    }
}
