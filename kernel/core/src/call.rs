//! System calls in progress: arguments, results, waiting, user memory.
//!
//! A handler runs to its end. One that must wait puts the thread into the queues that may bring the event and returns
//! [`Stop::Block`]; when the thread runs again, the handler is called again from its beginning, with the same
//! arguments. What it must remember in between (bytes done, an absolute deadline) it keeps in the thread's `progress`,
//! `deadline_ns` and `scratch` words. They are zero when a call begins, in whatever way the last one has ended ([`begin_call`]). No handler
//! clears them at its end, and outside of calls they mean nothing.
//!
//! Interrupts are masked meanwhile, so a handler that may have much to do does it in pieces. After each piece it adds
//! the piece's cost ([`Call::pauses`]). Whenever the core's budget is used up, the core checks whether other work
//! is due: an interrupt (a timer, the end of the thread's slice, a doorbell), a shoot-down, a signal. If so, the handler
//! stores its progress and returns [`Stop::Again`]. It holds no lock then, and to other cores it looks like a slow
//! call. A call that pauses does not wait: signal handlers run after it, as on Linux, unless the call chooses to end
//! ([`Call::is_interrupted`]). Signals that end the thread, or stop its process, act at once.

use core::sync::atomic::Ordering;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{Isa, ProcessRecord, Stage, ThreadRecord, WAKE_NONE, WAKE_TIMEOUT, WaitQueue};
use motet_protocol::wait;

pub use crate::cpu::{BUDGET, cost};
use crate::{cpu::Cpu, due};

/// Why a system call does not return a value now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It fails.
    Error(Errno),
    /// The thread has prepared to wait (see `motet_protocol::wait`); the call is dispatched again when it is woken.
    /// The deadline of the wait is in the thread's `deadline_ns` (0: none).
    Block,
    /// A page of user memory comes later: this core has noted which (`Cpu::mm`). The thread waits for it; then its call goes on if it
    /// has kept anything in `progress` or has waited before, and is made anew otherwise.
    Page,
    /// The call has more to do, but something else is due (see [`Call::pauses`]); it is dispatched again afterwards.
    Again,
    /// The thread's registers have been replaced (exec, signal return): no result is written to them.
    Replaced,
    /// The thread has exited or was handed to another core: it must not be touched any more.
    Gone,
}

impl Stop {
    /// The error, where nobody can wait: `EFAULT` for what else there is.
    pub fn unless_waiting(self) -> Errno {
        match self {
            Self::Error(errno) => errno,
            Self::Page | Self::Block | Self::Again | Self::Replaced | Self::Gone => Errno::EFAULT,
        }
    }
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Error(errno)
    }
}

/// What a system-call handler returns.
pub type SysResult = Result<u64, Stop>;

/// A system call in progress.
pub struct Call<'a, M: Machine> {
    /// The core.
    pub cpu: &'a Cpu<M>,
    /// The calling thread.
    pub thread: &'static ThreadRecord,
    /// Its process.
    pub process: &'static ProcessRecord,
    /// The six arguments.
    pub args: [u64; 6],
    /// The instruction set, and so the ABI, of the caller.
    pub isa: Isa,
}

/// Longest path, with its terminating zero (Linux `PATH_MAX`).
pub const PATH_MAX: usize = 4096;

impl<M: Machine> Call<'_, M> {
    /// Adds the cost ([`cost`]) of a finished piece of the call's work. `true`: other work is due; the call stores
    /// its progress and returns [`Stop::Again`] (or an early result). The caller holds no lock.
    #[inline(always)]
    pub fn pauses(&self, cost: u64) -> bool {
        self.cpu.spend(cost) && due::is_anything_due(self.cpu, self.thread)
    }

    /// As [`pauses`](Self::pauses), for a call that has nothing to keep.
    ///
    /// # Errors
    /// [`Stop::Again`].
    #[inline(always)]
    pub fn pause_point(&self, cost: u64) -> Result<(), Stop> {
        if self.pauses(cost) { Err(Stop::Again) } else { Ok(()) }
    }

    /// As [`pauses`](Self::pauses), for work that ends soon (after milliseconds) and cannot be resumed later: due work is
    /// done at once, except other threads of this core and signals, which wait for the call to end.
    #[inline(always)]
    pub fn serve_due(&self, cost: u64) {
        if self.cpu.spend(cost) {
            due::serve_due(self.cpu, self.thread);
        }
    }

    /// Whether a signal waits for the call to end: a call that Linux lets be interrupted returns what it has done so far. (Of a call that is made for a half
    /// of another kernel, none does, as it waits for more than that, unless the call has a mask of its own.)
    pub fn is_interrupted(&self) -> bool {
        let is_here = self.thread.is_elsewhere.load(Ordering::Relaxed) == 0;
        deliverable(self.thread, self.process) != 0 && (is_here || self.thread.restore_mask.get() != 0)
    }

    /// Whether the call begins with this dispatch: it has kept nothing yet.
    pub fn begins(&self) -> bool {
        self.thread.stage.get().begins()
    }

    /// Whether the call has waited before this dispatch.
    pub fn has_waited(&self) -> bool {
        self.thread.stage.get().has_waited()
    }

    /// Whether this dispatch follows a wait that ended because its deadline passed.
    pub fn timed_out(&self) -> bool {
        let woken = self.has_waited() && self.thread.wake_reason.load(Ordering::Relaxed) == WAKE_TIMEOUT;
        // A timer that expired just as an earlier wait ended may have woken this one.
        woken && self.cpu.reading_ns() >= self.thread.deadline_ns.get()
    }

    /// Tries `attempt`; when it has nothing yet, waits in `queue` and tries once more before blocking.
    ///
    /// # Errors
    /// [`Stop::Block`] when the thread must wait; what `attempt` fails with.
    pub fn wait_for<R>(
        &self,
        queue: &'static WaitQueue,
        mut attempt: impl FnMut() -> Result<Option<R>, Stop>,
    ) -> Result<R, Stop> {
        if let Some(result) = attempt()? {
            return Ok(result);
        }
        wait::prepare(self.thread);
        wait::enqueue(self.cpu, self.thread, queue, 0, u32::MAX);
        match attempt() {
            Ok(None) => Err(Stop::Block),
            Ok(Some(result)) => {
                wait::finish(self.cpu, self.thread);
                Ok(result)
            }
            Err(stop) => {
                wait::finish(self.cpu, self.thread);
                Err(stop)
            }
        }
    }
}

/// A system call begins, and does not go on with what it has kept: nothing is left of the last one, in whatever way that has ended.
#[inline(always)]
pub fn begin_call(thread: &ThreadRecord) {
    thread.progress.set(0);
    thread.deadline_ns.set(0);
    for word in &thread.scratch {
        word.set(0);
    }
}

/// Whether the system call that has stopped for a page ([`Stop::Page`]) is made anew, mostly by the instruction that has made it: it has kept nothing
/// and has not waited. Any other call goes on.
#[inline(always)]
pub fn is_made_anew(thread: &ThreadRecord) -> bool {
    thread.stage.get().begins() && thread.progress.get() == 0
}

/// Notes in the thread that its system call pauses.
#[inline(always)]
pub fn note_pause(thread: &ThreadRecord) {
    let stage = thread.stage.get();
    if !stage.has_waited() {
        // What has ended an earlier call's wait is not about this one.
        thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
    }
    thread.stage.set(stage.paused());
}

/// The system call has ended: what the thread does next is no part of it. What it has kept is left to [`begin_call`].
#[inline]
pub fn end_call(thread: &ThreadRecord) {
    if !thread.stage.get().is_user() {
        thread.stage.set(Stage::USER);
        if thread.looks_at_turn.get() != 0 {
            turn_may_be_lost(thread);
        }
    }
}

/// The call is over in which the thread has lost its turn (`turn`), or may have.
#[cold]
fn turn_may_be_lost(thread: &ThreadRecord) {
    thread.looks_at_turn.set(0);
    thread.attention.store(1, Ordering::Release);
}

/// Signals that would interrupt the thread now.
pub fn deliverable(thread: &ThreadRecord, process: &ProcessRecord) -> u64 {
    let pending = thread.pending.load(Ordering::SeqCst) | process.pending.load(Ordering::SeqCst);
    pending & !thread.signal_mask.load(Ordering::Relaxed)
}
