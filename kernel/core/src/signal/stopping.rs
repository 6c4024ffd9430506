//! Processes that stop (signal(7), "Job control"): all their threads leave their cores, and only then the parent is told.
//!
//! ```text
//!            a stop signal            the last thread leaves its core
//!   running ──────────────► stopping ─────────────────────────────────► stopped ──► the parent has seen it
//!      ▲                       │                                           │                 │
//!      └───────────────────────┴─────────────── SIGCONT, SIGKILL ──────────┴─────────────────┘
//! ```
//!
//! So whom `wait` tells that a child has stopped finds its memory at rest. The state is in `ProcessRecord::stopped`: 0, or the signal and one, with two
//! bits. It changes under the tree lock, which all functions here need.

use core::sync::atomic::Ordering;

use motet_abi::process::WaitStatus;
use motet_hal::Machine;
use motet_layout::{ProcessRecord, THREAD_STOPPED, ThreadRecord};

use super::tell_parent;
use crate::{cpu::Cpu, tree};

/// No thread is on a core any more, and the parent was told.
const STOPPED: u32 = 1 << 30;
/// The parent has asked, too.
const SEEN: u32 = 1 << 31;

/// Whether the process stops, or has stopped.
pub fn is_begun(process: &ProcessRecord) -> bool {
    process.stopped.load(Ordering::SeqCst) != 0
}

/// A signal begins to stop the process. Its threads have yet to be told.
pub fn begin(process: &ProcessRecord, signal: u32) {
    process.stopped.store(signal + 1, Ordering::Release);
    process.continued.store(0, Ordering::Relaxed);
}

/// The process is not to stop any more. What its parent is to be told, if it was: as on Linux, that it has stopped, if that was under way.
pub fn end(process: &ProcessRecord) -> Option<WaitStatus> {
    match process.stopped.swap(0, Ordering::SeqCst) {
        0 => None,
        word if word & STOPPED != 0 => Some(WaitStatus::Continued),
        word => Some(status(word)),
    }
}

/// `thread` is about to leave its core, stopped or for good. If it is the last one of a process that stops, the parent is told; twice, if this core dies
/// meanwhile.
pub fn thread_leaves<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, thread: &ThreadRecord) {
    let word = process.stopped.load(Ordering::Relaxed);
    let goes_on =
        |other: &ThreadRecord| !core::ptr::eq(other, thread) && other.state.load(Ordering::Relaxed) != THREAD_STOPPED;
    if word == 0 || word & STOPPED != 0 || tree::any_thread(cpu, process, goes_on) {
        return;
    }
    tell_parent(cpu, process, status(word));
    process.stopped.fetch_or(STOPPED, Ordering::Relaxed);
}

/// What `wait` says of a process that has stopped, unless it has said so.
pub fn unseen(process: &ProcessRecord) -> Option<WaitStatus> {
    let word = process.stopped.load(Ordering::Relaxed);
    (word & (STOPPED | SEEN) == STOPPED).then(|| status(word))
}

/// `wait` has said so.
pub fn see(process: &ProcessRecord) {
    process.stopped.fetch_or(SEEN, Ordering::Relaxed);
}

fn status(word: u32) -> WaitStatus {
    WaitStatus::Stopped((word & !(STOPPED | SEEN)).wrapping_sub(1) as u8)
}
