//! A small real-time kernel, in the manner of ThreadX and µC/OS-II, which runs in virtual machines and on bare boards.
//!
//! One core, threads with fixed priorities, preemption: the thread that runs is always the first one of the most urgent
//! priority that has any that is ready. Threads of one priority run in the order in which they became ready, until they wait or
//! relinquish. A thread that becomes ready goes behind the others of its priority; one that is preempted stays before them.
//!
//! This crate is what the kernel *decides*: [`Kernel`] is a value without hardware, pointers or unsafe code, which the host
//! tests. Who has a processor (`guests/images/src/rtos.rs`) calls it with interrupts masked, and then runs the thread that
//! [`Kernel::next`] names. A call that has to wait returns [`Outcome::Later`], after which another thread is next; when the caller
//! is next again, [`Kernel::collect`] has what it has waited for. Interrupt handlers make the same calls, but those that wait.
//!
//! All calls take constant time, but for two walks over threads: into a line of waiters (by priority), and into the line of
//! deadlines.
#![no_std]
#![forbid(unsafe_code)]

mod kernel;
mod list;
mod objects;
mod ready;

#[cfg(test)]
extern crate std;
#[cfg(test)]
mod tests;

pub use kernel::{Answer, Kernel, Outcome, Value, Wait};
pub use objects::{Message, PoolId, QueueId, SemaphoreId};

/// Threads, the idle one included.
pub const THREADS_MAX: usize = 32;
/// Levels of priority.
pub const PRIORITIES: usize = 32;
/// Semaphores of a kernel.
pub const SEMAPHORES_MAX: usize = 16;
/// Message queues of a kernel.
pub const QUEUES_MAX: usize = 8;
/// Messages that a queue holds at most.
pub const MESSAGES_MAX: usize = 16;
/// Memory pools of a kernel.
pub const POOLS_MAX: usize = 4;
/// Blocks of a pool at most.
pub const BLOCKS_MAX: usize = 64;

/// A thread of a kernel, for as long as the kernel lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(u8);

impl ThreadId {
    /// The thread that runs when no other is ready.
    pub const IDLE: Self = Self(0);

    /// Its number, below [`THREADS_MAX`]: its place in tables of others.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The thread of this number. If there is none, calls refuse it.
    #[must_use]
    pub const fn from_index(index: usize) -> Self {
        Self(if index < THREADS_MAX { index as u8 } else { 0 })
    }
}

/// How urgent a thread is: 0 is the most urgent, [`PRIORITIES`] - 1 the idle thread's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// The idle thread's.
    pub const IDLE: Self = Self(PRIORITIES as u8 - 1);

    /// The priority of this number; `None` from the idle thread's on.
    #[must_use]
    pub const fn new(level: u8) -> Option<Self> {
        if level < Self::IDLE.0 { Some(Self(level)) } else { None }
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is wrong with a call, or how a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is none at once, and the caller does not wait.
    Unavailable,
    /// None came in time.
    TimedOut,
    /// The kernel has no place for another object or thread of this kind, or a semaphore counts no further.
    Full,
    /// A size, number or address that cannot be.
    Invalid,
}
