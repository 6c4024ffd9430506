//! The memory: where everything lies in it.
//!
//! ```text
//! header (a line) | warnings | regions, the last one for all that have no room | for each core: samples
//! ```

use std::{
    fmt,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::{regions, samples, warnings};

/// First word: "MOTETRC\x01".
const MAGIC: u64 = u64::from_le_bytes(*b"MOTETRC\x01");
const HEADER_WORDS: usize = 8;
const CORES: usize = 1;
const LOCK: usize = 2;
const BEGAN: usize = 3;
const REGIONS: usize = 4;

/// The record of one run.
pub struct Record<'a> {
    header: &'a [AtomicU64],
    pub(crate) warnings: &'a [AtomicU64],
    pub(crate) regions: &'a [AtomicU64],
    pub(crate) samples: &'a [AtomicU64],
    /// Cores of the machine.
    pub(crate) cores: usize,
}

/// Memory that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordError {
    /// It has fewer words than [`Record::words`].
    TooSmall,
    /// Nobody has called [`Record::create`] on it for as many cores.
    NotCreated,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooSmall => "the memory for regions and samples is too small",
            Self::NotCreated => "the memory for regions and samples is not set up for this machine",
        })
    }
}

impl std::error::Error for RecordError {}

impl<'a> Record<'a> {
    /// Words that the record of a machine needs.
    pub fn words(cores: usize) -> usize {
        HEADER_WORDS + warnings::WORDS + regions::words(cores) + samples::words(cores)
    }

    /// Makes an empty record in zeroed memory, before anybody else looks. `interval_ps`: first time between samples.
    ///
    /// # Errors
    /// Too little memory.
    pub fn create(words: &'a [AtomicU64], cores: usize, interval_ps: u64) -> Result<Self, RecordError> {
        let record = Self::lay_out(words, cores)?;
        record.header[CORES].store(cores as u64, Relaxed);
        record.set_up_samples(interval_ps);
        record.header[0].store(MAGIC, Release);
        Ok(record)
    }

    /// Joins a record that somebody else has made.
    ///
    /// # Errors
    /// Too little memory, or no record of so many cores.
    pub fn attach(words: &'a [AtomicU64], cores: usize) -> Result<Self, RecordError> {
        let record = Self::lay_out(words, cores)?;
        let made = record.header[0].load(Acquire) == MAGIC && record.header[CORES].load(Relaxed) == cores as u64;
        if made { Ok(record) } else { Err(RecordError::NotCreated) }
    }

    fn lay_out(words: &'a [AtomicU64], cores: usize) -> Result<Self, RecordError> {
        if words.len() < Self::words(cores) {
            return Err(RecordError::TooSmall);
        }
        let (header, rest) = words.split_at(HEADER_WORDS);
        let (warnings, rest) = rest.split_at(warnings::WORDS);
        let (regions, samples) = rest.split_at(regions::words(cores));
        Ok(Self { header, warnings, regions, samples, cores })
    }

    /// Notes the host's time, in nanoseconds, when the machine's time began; the first one counts.
    pub fn set_began(&self, host_ns: u64) {
        let _ = self.header[BEGAN].compare_exchange(0, host_ns, Relaxed, Relaxed);
    }

    /// The host's time when the machine's time began, if it did.
    pub fn began(&self) -> Option<u64> {
        Some(self.header[BEGAN].load(Relaxed)).filter(|&host_ns| host_ns != 0)
    }

    /// How many regions there are.
    pub(crate) fn region_count(&self) -> &'a AtomicU64 {
        &self.header[REGIONS]
    }

    /// Keeps others from regions and warnings. Held for as long as it takes to read all counts. (Who is killed while it
    /// holds it takes the machine along.)
    pub(crate) fn lock(&self) -> Guard<'a> {
        let lock = &self.header[LOCK];
        while lock.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            // The holder may be a thread that is not running.
            std::thread::yield_now();
        }
        Guard(lock)
    }
}

/// The held lock.
#[must_use]
pub(crate) struct Guard<'a>(&'a AtomicU64);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_coherence::allocate;

    #[test]
    fn only_records_of_the_same_machine_are_joined() {
        let words = allocate(Record::words(3));
        assert_eq!(Record::attach(&words, 3).err(), Some(RecordError::NotCreated));
        Record::create(&words, 3, 10).unwrap();
        assert!(Record::attach(&words, 3).is_ok());
        assert_eq!(Record::attach(&words, 2).err(), Some(RecordError::NotCreated));
        assert_eq!(Record::attach(&words, 4).err(), Some(RecordError::TooSmall));
    }

    #[test]
    fn time_begins_once() {
        let words = allocate(Record::words(1));
        let record = Record::create(&words, 1, 10).unwrap();
        assert_eq!(record.began(), None);
        record.set_began(5);
        record.set_began(7);
        assert_eq!(record.began(), Some(5));
    }
}
