//! What is wrong with a `[model]`, and where.

use std::fmt;

/// A part of a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The entry of this name.
    Name(&'static str),
    /// The table with this number (from 0) of an array of tables.
    Index(usize),
}

/// Where something stands in a machine description: `model`, `core`, 1, `l2`, `size`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(Vec<Step>);

impl Key {
    /// `[model]` itself.
    pub fn model() -> Self {
        Self(vec![Step::Name("model")])
    }

    /// An entry of the table that this key names.
    pub fn name(&self, name: &'static str) -> Self {
        self.with(Step::Name(name))
    }

    /// A table of the array that this key names.
    pub fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    /// The way from the top of the file.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    fn with(&self, step: Step) -> Self {
        Self(self.0.iter().copied().chain([step]).collect())
    }
}

/// `model.core.l2.size`: which of several tables is meant is said by the place in the file.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().filter_map(|step| match step {
            Step::Name(name) => Some(*name),
            Step::Index(_) => None,
        });
        f.write_str(&names.collect::<Vec<_>>().join("."))
    }
}

/// A `[model]` that does not describe a machine that could exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Which entry.
    pub key: Key,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for ConfigError {}

/// The result of checking a `[model]`.
pub(crate) type Result<T> = std::result::Result<T, ConfigError>;

/// The error that `message` is wrong with `key`.
pub(crate) fn fail<T>(key: &Key, message: impl Into<String>) -> Result<T> {
    Err(ConfigError { key: key.clone(), message: message.into() })
}
