//! What the program has printed.

use motet_error::{Error, ErrorKind, Result};

/// The text, and the clock of the cores that printed it.
#[derive(Clone, PartialEq, Debug)]
pub struct Printed {
    /// The text.
    pub output: String,
    /// The frequency of a slave's clock.
    pub mhz: f64,
}

impl Printed {
    fn word(&self, name: &str) -> Result<&str> {
        let mut words = self.output.split_whitespace();
        let value = words.find(|word| *word == name).and_then(|_| words.next());
        value.ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> Error {
        Error::new(ErrorKind::Software, format!("the program printed no {name}:\n{}", self.output))
    }

    /// A time that the program has printed in nanoseconds, converted to cycles.
    ///
    /// # Errors
    /// It was not printed.
    pub fn cycles(&self, name: &str) -> Result<f64> {
        let value: f64 = self.word(name)?.parse().map_err(|_| self.missing(name))?;
        Ok(value * self.mhz / 1000.0)
    }

    /// The times of single pairs in cycles, each as often as it was taken.
    ///
    /// # Errors
    /// They were not printed.
    pub fn singles(&self) -> Result<Vec<f64>> {
        let mut singles = Vec::new();
        for one in self.word("times_ns")?.split(',') {
            let (time, count) = one.split_once('*').ok_or_else(|| self.missing("times_ns"))?;
            let time: f64 = time.parse().map_err(|_| self.missing("times_ns"))?;
            let count: usize = count.parse().map_err(|_| self.missing("times_ns"))?;
            singles.extend(std::iter::repeat_n(time * self.mhz / 1000.0, count));
        }
        Ok(singles)
    }

    /// Their mean and standard deviation.
    pub fn spread(&self) -> [f64; 2] {
        [self.cycles("mean_ns"), self.cycles("sd_ns")].map(|value| value.unwrap_or(f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_name() {
        let output = "lock rpc threads 6 mean_ns 120.5 sd_ns 3 max_ns 140\ntimes_ns 120*3,140*1\n".into();
        let printed = Printed { output, mhz: 100.0 };
        assert_eq!(printed.cycles("mean_ns").unwrap(), 12.05);
        assert_eq!(printed.spread(), [12.05, 0.3]);
        assert_eq!(printed.singles().unwrap(), [12.0, 12.0, 12.0, 14.0]);
        assert!(printed.cycles("loop_ns").is_err());
        for bad in ["times_ns", "times_ns 120", "times_ns 120*x", "times_ns x*1"] {
            assert!(Printed { output: bad.into(), mhz: 100.0 }.singles().is_err(), "{bad}");
        }
    }
}
