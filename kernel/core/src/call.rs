//! System calls in progress: arguments, results, waiting, user memory.
//!
//! A handler runs to its end. One that must wait puts the thread into the queues that may bring the event and returns
//! [`Stop::Block`]; when the thread runs again, the handler is called again from its beginning, with the same
//! arguments. What it must remember in between (bytes done, an absolute deadline) it keeps in the thread's `progress`,
//! `deadline_ns` and `scratch` words, which are zero at the first call.
//!
//! Interrupts are masked meanwhile, so a handler that may have much to do does it in pieces. After each piece it tells
//! what that has cost ([`Call::pauses`]). Whenever the core's budget is used up, the core looks whether anything else
//! is due: an interrupt (a timer, the end of the thread's slice, a doorbell), a shoot-down, a signal. If so, the handler
//! keeps what it has done and returns [`Stop::Again`]; it holds no lock then, and what others see is as if the call were
//! slow. A call that pauses does not wait: handlers of signals run after it, as on Linux, unless the call chooses to end
//! ([`Call::is_interrupted`]). What ends the thread, or stops its process, is attended to at once.

use core::sync::atomic::Ordering;

use motet_abi::{Errno, registers};
use motet_hal::{Access, Machine};
use motet_layout::{CALL_WAITED, Isa, PAGE_SIZE, PoolAddr, ProcessRecord, ThreadRecord, WAKE_TIMEOUT, WaitQueue};
use motet_protocol::wait;

use crate::{cpu::Cpu, mm, sched, signal};

/// Why a system call does not return a value now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It fails.
    Error(Errno),
    /// The thread has prepared to wait (see `motet_protocol::wait`); the call is dispatched again when it is woken.
    /// The deadline of the wait is in the thread's `deadline_ns` (0: none).
    Block,
    /// The call has more to do, but something else is due (see [`Call::pauses`]); it is dispatched again afterwards.
    Again,
    /// The thread's registers have been replaced (exec, signal return): no result is written to them.
    Replaced,
    /// The thread has exited or was handed to another core: it must not be touched any more.
    Gone,
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

/// What is done between two looks at what else is due, in instructions, roughly: few enough that the core is not deaf for
/// long (at most 20,000 instructions), many enough that looking costs little.
pub const BUDGET: u64 = 5_000;

/// What work costs, in instructions, roughly.
pub mod cost {
    /// Finding and touching a page of user memory or of a file.
    pub const PAGE: u64 = 500;
    /// A frame given back.
    pub const FRAME: u64 = 200;
    /// An object looked at: a descriptor, a directory's entry, a process, a thread.
    pub const OBJECT: u64 = 300;

    /// Copying, or filling with zeros.
    pub const fn bytes(len: u64) -> u64 {
        len / 2
    }
}

/// Strings are copied in aligned pieces of this many bytes (a divisor of the page size), as most are short.
const STRING_PIECE: u64 = 64;
/// What such a piece costs.
const STRING_COST: u64 = 500;

/// Longest path, with its terminating zero (Linux `PATH_MAX`).
pub const PATH_MAX: usize = 4096;

impl<M: Machine> Call<'_, M> {
    /// A piece of the call's work is done, which has cost this much ([`cost`]). `true`: something else is due; the call keeps
    /// what it has done and returns [`Stop::Again`] (or an early result). The caller holds no lock.
    #[inline(always)]
    pub fn pauses(&self, cost: u64) -> bool {
        self.cpu.spend(cost) && sched::is_anything_due(self.cpu, self.thread)
    }

    /// As [`pauses`](Self::pauses), for a call that has nothing to keep.
    ///
    /// # Errors
    /// [`Stop::Again`].
    #[inline(always)]
    pub fn pause_point(&self, cost: u64) -> Result<(), Stop> {
        if self.pauses(cost) { Err(Stop::Again) } else { Ok(()) }
    }

    /// As [`pauses`](Self::pauses), for work that ends soon (after milliseconds) and cannot be gone on with later: what is due is
    /// done at once, but for other threads of this core and signals, which wait for the call to end.
    #[inline(always)]
    pub fn serve_due(&self, cost: u64) {
        if self.cpu.spend(cost) {
            sched::serve_due(self.cpu, self.thread);
        }
    }

    /// Whether a signal waits for the call to end: a call that Linux lets be interrupted returns what it has done so far.
    pub fn is_interrupted(&self) -> bool {
        signal::deliverable(self.thread, self.process) != 0
    }

    /// Whether the call has waited before this dispatch.
    pub fn has_waited(&self) -> bool {
        self.thread.in_syscall.get() & CALL_WAITED != 0
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

    /// Copies from user memory.
    ///
    /// # Errors
    /// `EFAULT` when a byte cannot be read.
    pub fn read_user(&self, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        let mut done = 0;
        self.user_runs(address, into.len() as u64, Access::Read, |run, len| {
            self.cpu.pool.read(run, &mut into[done..done + len]);
            done += len;
            Ok(())
        })
    }

    /// Copies to user memory.
    ///
    /// # Errors
    /// `EFAULT` when a byte cannot be written (earlier ones may have been).
    pub fn write_user(&self, address: u64, from: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        self.user_runs(address, from.len() as u64, Access::Write, |run, len| {
            self.cpu.pool.write(run, &from[done..done + len]);
            done += len;
            Ok(())
        })
    }

    /// Reads a little-endian 64-bit word of user memory.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn read_user_u64(&self, address: u64) -> Result<u64, Errno> {
        let mut bytes = [0; 8];
        self.read_user(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a little-endian 32-bit word of user memory.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn read_user_u32(&self, address: u64) -> Result<u32, Errno> {
        let mut bytes = [0; 4];
        self.read_user(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Calls `each` with the pieces of pool memory behind a range of user memory, page by page, faulting pages in.
    ///
    /// # Errors
    /// `EFAULT` at the first page that the process may not access that way; what `each` fails with.
    #[inline]
    pub fn user_runs(
        &self,
        address: u64,
        len: u64,
        access: Access,
        mut each: impl FnMut(PoolAddr, usize) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let space = mm::space_of(self.cpu, self.process);
        let end = address.checked_add(len).ok_or(Errno::EFAULT)?;
        let mut at = address;
        while at < end {
            let run = mm::resolve(self.cpu, space, at, access)?;
            let here = (PAGE_SIZE - at % PAGE_SIZE).min(end - at);
            self.cpu.with_pinned(|| each(run, here as usize))?;
            at += here;
        }
        Ok(())
    }

    /// Checks that a structure of `size` bytes, of which `known` are known, has nothing but zeros behind those: whoever knows
    /// more must not be told that it was done.
    ///
    /// # Errors
    /// `E2BIG` when it has, or is longer than a page; `EFAULT`.
    pub fn check_zeros(&self, address: u64, known: u64, size: u64) -> Result<(), Errno> {
        if size > PAGE_SIZE {
            return Err(Errno::E2BIG);
        }
        let mut all_zero = true;
        self.user_runs(address.wrapping_add(known), size.saturating_sub(known), Access::Read, |run, len| {
            for at in 0..len as u64 {
                let mut byte = [0];
                self.cpu.pool.read(run.add(at), &mut byte);
                all_zero &= byte == [0];
            }
            Ok(())
        })?;
        if all_zero { Ok(()) } else { Err(Errno::E2BIG) }
    }

    /// Copies a zero-terminated string; returns its length without the zero.
    ///
    /// # Errors
    /// `EFAULT`; `ENAMETOOLONG` when it does not fit.
    pub fn read_string(&self, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let mut len = 0;
        loop {
            let at = address.checked_add(len as u64).ok_or(Errno::EFAULT)?;
            let here = (STRING_PIECE - at % STRING_PIECE).min((into.len() - len) as u64) as usize;
            if here == 0 {
                return Err(Errno::ENAMETOOLONG);
            }
            let piece = &mut into[len..len + here];
            self.read_user(at, piece)?;
            if let Some(zero) = piece.iter().position(|&byte| byte == 0) {
                return Ok(len + zero);
            }
            len += here;
            sched::spend_locked(self.cpu, STRING_COST);
        }
    }
}

/// The code of the instruction that a thread has stopped at, as much of it as `code` has room for and there is memory behind; `word` is all
/// of it if it is not 0 ([`Trap::IllegalInstruction`](motet_hal::Trap)). `None`: there is no instruction.
pub fn instruction_at<'a, M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    word: u32,
    code: &'a mut [u8],
) -> Option<&'a [u8]> {
    if word != 0 {
        let known = code.first_chunk_mut()?;
        *known = word.to_le_bytes();
        return Some(known);
    }
    let call = Call { cpu, thread, process, args: [0; 6], isa: M::ISA };
    let at = registers::pc(&thread.frame);
    // There may be no page behind the instruction.
    let len = (2..=code.len()).rev().find(|&len| call.read_user(at, &mut code[..len]).is_ok())?;
    Some(&code[..len])
}
