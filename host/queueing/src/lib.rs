//! Queueing models of operating-system services.
//!
//! `n` cores compute, and every so often each asks a service for something and waits until it has it. The service has one server (a kernel on
//! a master core) or several (a microkernel). How many cores compute at a time? The textbooks call this *machine repair*: cores are machines
//! that break, servers repair them. Here it is twice:
//!
//! - [`closed`]: in closed form, for times that are exponentially distributed (hthreads, section IV, equations 3 to 8);
//! - [`simulate`]: event by event, for times of any distribution, measured ones as well, and with an interconnect that requests queue for.
//!
//! Units of time are the caller's: cycles, or seconds. Only ratios of them matter.
#![forbid(unsafe_code)]

pub mod closed;
pub mod simulate;
mod times;

use std::fmt;

pub use times::Times;

/// What cannot be modelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
