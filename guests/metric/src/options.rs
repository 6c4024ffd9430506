//! The guest's arguments: `test=preemptive interval_ms=100 rounds=3 tick_us=1000`. Words that mean nothing here are skipped.

/// What is run, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A test, or `all`.
    pub test: &'static str,
    /// From report to report.
    pub interval_ms: u32,
    /// Reports of each test.
    pub rounds: u32,
    /// Length of the kernel's ticks.
    pub tick_us: u32,
    /// Nothing computes beside the test of response times: the processor waits between ticks.
    pub idle: bool,
}

impl Options {
    /// Reads them; what is missing is as long as usual.
    ///
    /// # Errors
    /// The word whose number is none, or is 0.
    pub fn parse(arguments: &'static str) -> Result<Self, &'static str> {
        let mut options = Self { test: "all", interval_ms: 1000, rounds: 1, tick_us: 1000, idle: false };
        for word in arguments.split_ascii_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || value.parse().ok().filter(|number| *number > 0).ok_or(word);
            match name {
                "test" => options.test = value,
                "interval_ms" => options.interval_ms = number()?,
                "rounds" => options.rounds = number()?,
                "tick_us" => options.tick_us = number()?,
                "idle" => options.idle = number()? > 0,
                _ => {}
            }
        }
        Ok(options)
    }

    /// Whether a test of this name is to be run.
    #[must_use]
    pub fn wants(self, name: &str) -> bool {
        [name, "all"].contains(&self.test)
    }

    /// Ticks in an interval, one at least.
    #[must_use]
    pub fn interval_ticks(self) -> u64 {
        (u64::from(self.interval_ms) * 1000 / u64::from(self.tick_us)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_others_skipped() {
        let options =
            Options::parse("console=ttyS0 test=message  interval_ms=20 rounds=3 tick_us=500 quiet idle=1").unwrap();
        assert_eq!(options, Options { test: "message", interval_ms: 20, rounds: 3, tick_us: 500, idle: true });
        assert_eq!(options.interval_ticks(), 40);
        assert!(options.wants("message") && !options.wants("memory"));
        assert!(Options::parse("").unwrap().wants("memory"));
    }

    #[test]
    fn a_number_that_is_none_is_refused() {
        for word in ["interval_ms=", "rounds=0", "tick_us=-1", "rounds=99999999999"] {
            assert_eq!(Options::parse(word), Err(word));
        }
    }
}
