//! Experiments on the simulator: how exact its caches are, and how fast it is, beside other cache simulators.

pub mod accuracy;
mod cachegrind;
mod contrib;
mod machine;
mod record;
pub mod speed;
mod tools;
mod watch;

use motet_fabric::{Error, ErrorKind, Result};

use crate::report::{self, Measurement};

/// A cache, in bytes and ways; lines have 64 bytes everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes.
    pub size: u64,
    /// Lines in a set.
    pub ways: u64,
}

/// One core's caches, for every simulator alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// First level for data.
    pub l1d: Cache,
    /// First level for instructions.
    pub l1i: Cache,
    /// Second level, for both.
    pub l2: Option<Cache>,
}

/// The sizes of the machines in Stramash's tables; cachegrind can have them, too.
const USUAL: Geometry = Geometry {
    l1d: Cache { size: 32 << 10, ways: 8 },
    l1i: Cache { size: 32 << 10, ways: 8 },
    l2: Some(Cache { size: 1 << 20, ways: 16 }),
};

/// Collects what the parts of an experiment measured. A part that fails does not keep the others from being reported.
#[derive(Debug, Default)]
struct Collected {
    measurements: Vec<Measurement>,
    failures: Vec<ErrorKind>,
}

impl Collected {
    fn add(&mut self, outcome: Result<Vec<Measurement>>) {
        match outcome {
            Ok(more) => self.measurements.extend(more),
            Err(error) => {
                eprintln!("motet: {error}");
                self.failures.push(error.kind);
            }
        }
    }

    fn finish(self, json: Option<&std::path::Path>) -> Result<()> {
        print!("{}", report::table(&self.measurements));
        if let Some(path) = json {
            report::write_json(path, &self.measurements)?;
        }
        match self.failures.first() {
            None => Ok(()),
            Some(kind) => {
                let message = format!("{} part(s) of the experiment failed, see above", self.failures.len());
                Err(Error::new(*kind, message))
            }
        }
    }
}
