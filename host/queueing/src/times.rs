//! How long something takes.

use std::sync::Arc;

use fastrand::Rng;

use crate::Error;

/// A distribution of times.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// Exponential, with this mean.
    Exponential(f64),
    /// Always the same.
    Fixed(f64),
    /// Each of these is as likely as the others.
    Measured(Arc<[f64]>),
    /// Each core has these in turn: the parts of a loop.
    InTurn(Arc<[f64]>),
}

impl Times {
    /// What was measured.
    pub fn measured(times: &[f64]) -> Self {
        Self::Measured(times.into())
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Exponential(mean) | Self::Fixed(mean) => *mean,
            Self::Measured(times) | Self::InTurn(times) => times.iter().sum::<f64>() / times.len() as f64,
        }
    }

    /// One of them; a core's `turn`, from 0 on.
    pub(crate) fn sample(&self, rng: &mut Rng, turn: usize) -> f64 {
        match self {
            // Above 0 and at most 1, so that the logarithm is finite.
            Self::Exponential(mean) => -mean * (1.0 - rng.f64()).ln(),
            Self::Fixed(time) => *time,
            Self::Measured(times) => times[rng.usize(..times.len())],
            Self::InTurn(times) => times[turn % times.len()],
        }
    }

    /// # Errors
    /// Times are negative or no numbers, there are none, or their mean is 0. `what` says whose they are.
    pub(crate) fn check(&self, what: &str) -> Result<(), Error> {
        let bad = match self {
            Self::Exponential(time) | Self::Fixed(time) => !(time.is_finite() && *time > 0.0),
            Self::Measured(times) | Self::InTurn(times) => {
                times.iter().any(|time| !(time.is_finite() && *time >= 0.0)) || !times.iter().any(|time| *time > 0.0)
            }
        };
        if bad { Err(Error::new(format!("{what}: times have to be finite and above 0, not {self:?}"))) } else { Ok(()) }
    }
}
