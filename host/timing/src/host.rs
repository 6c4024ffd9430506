//! What the host is asked for: waiting for a word in memory that processes share, and its clock.

use std::{sync::atomic::AtomicU32, time::Duration};

use rustix::{
    thread::futex,
    time::{ClockId, Timespec, clock_gettime},
};

/// Sleeps until [`wake`], at most for `at_most`, or not at all if `word` is not `expected`.
pub fn wait(word: &AtomicU32, expected: u32, at_most: Duration) {
    let timeout = Timespec::try_from(at_most).ok();
    // Woken, changed meanwhile, timed out, interrupted: the caller looks again in any case.
    let _ = futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref());
}

/// Wakes all that wait for `word`.
pub fn wake(word: &AtomicU32) {
    // Nobody there is no error, and the address is valid.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

/// The host's monotonic clock, which all its processes share, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
