//! What is scheduled: a compilation, a test, or several tests that share a boot.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

/// How a process's end tells which tests have passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reports {
    /// Its exit status tells of the one test (or compilation) that it is.
    Status,
    /// It writes a line for each test to the file that it is given (`--run FILE`): see [`crate::outcome::parse`].
    File,
}

/// A kind of job, after which more may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Makes something that others need; it is named only when it fails.
    Build,
    /// Makes test programs of which cargo tells on standard output; their tests are jobs, too.
    TestPrograms(Step),
    /// Makes the test program of whole machines.
    MachineProgram,
    /// One or several tests.
    Test(Reports),
}

/// A part of `./motet test` that can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Step {
    /// Formatting.
    Fmt,
    /// Lints of all crates, each for its targets.
    Clippy,
    /// Unit and property tests, several kernels in one process, golden layouts, examples in documentation.
    Unit,
    /// Models of protocols, and kernels in one process whose every access to the pool is a point of a schedule.
    Model,
    /// Whole machines under QEMU.
    Machine,
    /// The front door, other users, and what is installed on new systems.
    Setup,
}

impl Step {
    /// All, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Fmt, Self::Clippy, Self::Unit, Self::Model, Self::Machine, Self::Setup];

    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::Unit => "unit",
            Self::Model => "model",
            Self::Machine => "machine",
            Self::Setup => "setup",
        }
    }
}

/// Something to run, when its turn comes.
#[derive(Clone, Debug)]
pub struct Job {
    /// What times are kept under: a test's name, or a compilation's.
    pub name: String,
    /// The step that it belongs to; it fails with it. A build that several need belongs to the first of them.
    pub step: Step,
    /// What it is.
    pub kind: Kind,
    /// The tests that it runs, by name; empty for what is one test by itself.
    pub tests: Vec<String>,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Variables of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub folder: PathBuf,
    /// Jobs that must have ended well before: their names.
    pub needs: Vec<&'static str>,
    /// Number of processors that it keeps busy, where its recorded time does not tell.
    pub weight: Option<f64>,
    /// No two jobs with the same key run at the same time: cargo locks its folder, and a job that waits keeps a processor from another.
    pub key: Option<&'static str>,
}

impl Job {
    /// A job without needs.
    pub fn new<S: AsRef<OsStr>>(name: &str, step: Step, kind: Kind, command: impl IntoIterator<Item = S>) -> Self {
        Self {
            name: name.to_owned(),
            step,
            kind,
            tests: Vec::new(),
            command: command.into_iter().map(|word| word.as_ref().to_owned()).collect(),
            environment: Vec::new(),
            folder: PathBuf::from("."),
            needs: Vec::new(),
            weight: None,
            key: None,
        }
    }

    /// Keeps so many processors busy.
    pub fn on(mut self, processors: f64) -> Self {
        self.weight = Some(processors);
        self
    }

    /// The names of the tests that it runs.
    pub fn names(&self) -> &[String] {
        if self.tests.is_empty() { std::slice::from_ref(&self.name) } else { &self.tests }
    }

    /// Runs after these.
    pub fn after(mut self, needs: &[&'static str]) -> Self {
        self.needs.extend_from_slice(needs);
        self
    }

    /// Not beside another one with this key.
    pub fn keyed(mut self, key: &'static str) -> Self {
        self.key = Some(key);
        self
    }

    /// With a variable.
    pub fn with(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// In a folder.
    pub fn within(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }
}
