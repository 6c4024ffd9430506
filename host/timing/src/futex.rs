//! Waiting for a word in memory that processes share.

use std::{sync::atomic::AtomicU32, time::Duration};

use rustix::thread::futex;

/// Sleeps until [`wake`], at most for `at_most`, or not at all if `word` is not `expected`.
pub fn wait(word: &AtomicU32, expected: u32, at_most: Duration) {
    let timeout = rustix::time::Timespec::try_from(at_most).ok();
    // Woken, changed meanwhile, timed out, interrupted: the caller looks again in any case.
    let _ = futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref());
}

/// Wakes all that wait for `word`.
pub fn wake(word: &AtomicU32) {
    // Nobody there is no error, and the address is valid.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
