//! A position in user memory: one buffer, or the buffers of an I/O vector, walked page by page.

use motet_abi::{Errno, file::IOV_MAX};
use motet_hal::{Access, Machine};
use motet_layout::{PAGE_SIZE, PoolAddr, SpaceRecord, WaitQueue};
use motet_protocol::pipe::Run;

use crate::{
    call::{Call, Stop, SysResult, cost},
    due, mm,
};

/// Most bytes one call transfers (Linux `MAX_RW_COUNT`).
pub const TRANSFER_MAX: u64 = 0x7fff_f000;
const IOVEC_SIZE: u64 = 16;
/// Entries of a vector that are looked at together.
const ENTRIES_AT_ONCE: usize = 16;
/// What a buffer costs, however short it is.
const ENTRY_COST: u64 = 2 * cost::OBJECT;

/// User memory to be read from or written to, in order.
pub struct Cursor<'a, 'c, M: Machine> {
    call: &'a Call<'c, M>,
    space: &'static SpaceRecord,
    access: Access,
    /// Next byte, and bytes left in its buffer.
    at: u64,
    left: u64,
    /// Bytes left in all.
    remaining: u64,
    done: u64,
    /// Address of the next vector entry.
    next_entry: u64,
}

impl<'a, 'c, M: Machine> Cursor<'a, 'c, M> {
    /// One buffer. `access`: [`Access::Write`] when user memory is going to be written.
    #[inline]
    pub fn new(call: &'a Call<'c, M>, address: u64, len: u64, access: Access) -> Self {
        let len = len.min(TRANSFER_MAX);
        let space = mm::space_of(call.cpu, call.process);
        Self { call, space, access, at: address, left: len, remaining: len, done: 0, next_entry: 0 }
    }

    /// The buffers of the `count` entries of the vector at `address`.
    ///
    /// # Errors
    /// `EINVAL` when there are too many or their lengths overflow; `EFAULT`; [`Stop::Page`].
    pub fn vector(call: &'a Call<'c, M>, address: u64, count: u64, access: Access) -> Result<Self, Stop> {
        if count > IOV_MAX as u64 {
            return Err(Errno::EINVAL.into());
        }
        let mut total = 0u64;
        for first in (0..count).step_by(ENTRIES_AT_ONCE) {
            let mut bytes = [0; ENTRIES_AT_ONCE * IOVEC_SIZE as usize];
            let here = (count - first).min(ENTRIES_AT_ONCE as u64);
            let bytes = &mut bytes[..(here * IOVEC_SIZE) as usize];
            call.read_user(address.wrapping_add(first * IOVEC_SIZE), bytes)?;
            for entry in bytes.chunks_exact(IOVEC_SIZE as usize) {
                let len = entry[8..].iter().rev().fold(0, |len, &byte| len << 8 | u64::from(byte));
                total = total.checked_add(len).filter(|&total| total <= i64::MAX as u64).ok_or(Errno::EINVAL)?;
            }
            due::spend_locked(call.cpu, here * ENTRY_COST / 4);
        }
        let mut cursor = Self::new(call, 0, total, access);
        cursor.left = 0;
        cursor.next_entry = address;
        Ok(cursor)
    }

    /// The call that it belongs to.
    pub fn call(&self) -> &'a Call<'c, M> {
        self.call
    }

    /// Bytes left.
    #[inline(always)]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Bytes passed.
    #[inline(always)]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Bytes left of the buffer in which the next byte is; 0: none are left in all.
    ///
    /// # Errors
    /// `EFAULT` when the vector cannot be read; [`Stop::Page`].
    pub fn left_here(&mut self) -> Result<u64, Stop> {
        if self.left == 0 && self.remaining != 0 {
            self.next_buffer()?;
        }
        Ok(self.left.min(self.remaining))
    }

    /// Where the next bytes lie now, up to the end of their page or buffer. At least one must remain.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`; [`Stop::Page`].
    #[inline(always)]
    pub fn run(&mut self) -> Result<Run, Stop> {
        if self.left == 0 {
            self.next_buffer()?;
        }
        let run = mm::resolve(self.call.cpu, self.space, self.at, self.access)?;
        let len = (PAGE_SIZE - self.at % PAGE_SIZE).min(self.left).min(self.remaining);
        Ok((run, len as usize))
    }

    /// As [`run`](Self::run), of as many bytes at most as are moved between two looks at what is due.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`; [`Stop::Page`].
    #[inline(always)]
    pub fn piece(&mut self) -> Result<Run, Stop> {
        self.run().map(|(run, len)| (run, len.min(self.call.cpu.due.piece_bytes())))
    }

    /// All remaining bytes as at most two runs; `None` when they are more.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`; [`Stop::Page`].
    #[inline(always)]
    pub fn two_runs(&mut self) -> Result<Option<[Run; 2]>, Stop> {
        let first = self.run()?;
        let rest = self.remaining - first.1 as u64;
        if rest == 0 {
            return Ok(Some([first, (PoolAddr::NULL, 0)]));
        }
        self.second_run(first, rest)
    }

    fn second_run(&mut self, first: Run, rest: u64) -> Result<Option<[Run; 2]>, Stop> {
        let (at, left, next_entry) = (self.at, self.left, self.next_entry);
        self.at += first.1 as u64;
        self.left -= first.1 as u64;
        self.remaining = rest;
        let second = self.run();
        (self.at, self.left, self.next_entry) = (at, left, next_entry);
        self.remaining = rest + first.1 as u64;
        let second = second?;
        if (second.1 as u64) < rest {
            return Ok(None);
        }
        // Finding the second run may have taken waiting, in which the first could move.
        let first_now = self.run()?;
        Ok(Some([first_now, second]))
    }

    /// Passes over `len` bytes.
    ///
    /// # Errors
    /// `EFAULT` when the vector cannot be read; [`Stop::Page`].
    #[inline(always)]
    pub fn advance(&mut self, len: usize) -> Result<(), Stop> {
        let mut len = (len as u64).min(self.remaining);
        self.remaining -= len;
        self.done += len;
        while len > self.left {
            len -= self.left;
            self.left = 0;
            due::spend_locked(self.call.cpu, ENTRY_COST);
            self.next_buffer()?;
        }
        self.at += len;
        self.left -= len;
        if self.left == 0 {
            due::spend_locked(self.call.cpu, ENTRY_COST);
        }
        Ok(())
    }

    /// Lets at most `len` of the bytes left remain.
    pub fn shorten(&mut self, len: u64) {
        self.remaining = self.remaining.min(len);
    }

    /// Passes over what earlier dispatches of the call have done.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    #[inline(always)]
    pub fn resume(&mut self, done: u64) -> Result<(), Stop> {
        if done > 0 { self.advance(done as usize) } else { Ok(()) }
    }

    /// Copies kernel bytes to the cursor, as many as remain; returns how many.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`; [`Stop::Page`].
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<usize, Stop> {
        let mut written = 0;
        while !bytes.is_empty() && self.remaining > 0 {
            let (run, len) = self.run()?;
            let len = len.min(bytes.len());
            self.call.cpu.pool.write(run, &bytes[..len]);
            bytes = &bytes[len..];
            written += len;
            self.advance(len)?;
        }
        Ok(written)
    }

    /// Copies bytes from the cursor, as many as remain and fit; returns how many.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`; [`Stop::Page`].
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Stop> {
        let mut read = 0;
        while read < into.len() && self.remaining > 0 {
            let (run, len) = self.run()?;
            let len = len.min(into.len() - read);
            self.call.cpu.pool.read(run, &mut into[read..read + len]);
            read += len;
            self.advance(len)?;
        }
        Ok(read)
    }

    /// Copies bytes from the cursor without passing over them.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`; [`Stop::Page`].
    pub fn peek(&mut self, into: &mut [u8]) -> Result<(), Stop> {
        let saved = (self.at, self.left, self.remaining, self.done, self.next_entry);
        let read = self.read(into);
        (self.at, self.left, self.remaining, self.done, self.next_entry) = saved;
        read.map(drop)
    }

    /// Waits until all of the next `len` bytes have come, of which the first [`probe`](Self::probe) has: before something is taken for them.
    ///
    /// # Errors
    /// [`Stop::Page`].
    #[inline(always)]
    pub fn await_pages(&mut self, len: usize) -> Result<(), Stop> {
        if mm::has_late_pages(self.call.cpu, self.call.process) { self.await_late_pages(len) } else { Ok(()) }
    }

    #[cold]
    fn await_late_pages(&mut self, mut len: usize) -> Result<(), Stop> {
        let saved = (self.at, self.left, self.remaining, self.done, self.next_entry);
        let mut awaited = Ok(());
        while awaited.is_ok() && len > 0 && self.remaining > 0 {
            awaited = self.run().and_then(|(_, here)| {
                let here = here.min(len);
                len -= here;
                self.advance(here)
            });
        }
        (self.at, self.left, self.remaining, self.done, self.next_entry) = saved;
        // What else is wrong with them is found out by who writes.
        if awaited == Err(Stop::Page) { awaited } else { Ok(()) }
    }

    /// Writes zero bytes to a [piece](Self::piece); returns how many. At least one must remain.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`; [`Stop::Page`].
    pub fn zero(&mut self) -> Result<usize, Stop> {
        let (run, len) = self.piece()?;
        self.call.cpu.pool.zero(run, len);
        self.advance(len)?;
        Ok(len)
    }

    /// Fails if the next byte cannot be accessed.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`; [`Stop::Page`].
    pub fn probe(&mut self) -> Result<(), Stop> {
        if self.remaining > 0 { self.run().map(drop) } else { Ok(()) }
    }

    #[cold]
    fn next_buffer(&mut self) -> Result<(), Stop> {
        while self.left == 0 {
            self.at = self.call.read_user_u64(self.next_entry)?;
            self.left = self.call.read_user_u64(self.next_entry.wrapping_add(8))?;
            self.next_entry = self.next_entry.wrapping_add(IOVEC_SIZE);
        }
        Ok(())
    }
}

/// Fills user memory by pieces that `make` makes, each as long as it says. As on Linux, a signal ends the call with what is done.
pub fn produce<M: Machine>(
    call: &Call<M>,
    into: &mut Cursor<M>,
    cost_of: impl Fn(u64) -> u64,
    mut make: impl FnMut(&mut Cursor<M>) -> Result<usize, Stop>,
) -> SysResult {
    into.resume(call.thread.progress.get())?;
    while into.remaining() > 0 {
        let made = match make(into) {
            Ok(len) => len as u64,
            Err(errno) => return partial(into.done(), errno),
        };
        if into.remaining() > 0 && call.pauses(cost::PAGE + cost_of(made)) {
            if call.is_interrupted() {
                break;
            }
            call.thread.progress.set(into.done());
            return Err(Stop::Again);
        }
    }
    Ok(into.done())
}

/// What a transfer that an error ended returns: the bytes done, if any.
#[inline(always)]
pub fn partial<E: Into<Stop>>(done: u64, error: E) -> SysResult {
    match error.into() {
        // What comes later another call waits for.
        Stop::Error(_) | Stop::Page if done > 0 => Ok(done),
        stop @ (Stop::Error(_) | Stop::Page | Stop::Block | Stop::Again | Stop::Replaced | Stop::Gone) => Err(stop),
    }
}

/// What a transfer returns that is to be whole, and has stopped after `done` bytes: it waits for a page that comes later, and goes on then, unless a
/// signal ends it.
#[cold]
pub fn stopped<M: Machine>(call: &Call<M>, done: u64, stop: Stop) -> SysResult {
    if stop == Stop::Page && done > 0 && !call.is_interrupted() {
        call.thread.progress.set(done);
        return Err(Stop::Page);
    }
    partial(done, stop)
}

/// Reads a number of 8 bytes that `take` takes; waits while it is 0.
pub fn read_count<M: Machine>(
    call: &Call<M>,
    waiters: &'static WaitQueue,
    nonblocking: bool,
    into: &mut Cursor<M>,
    mut take: impl FnMut() -> u64,
) -> SysResult {
    if into.remaining() < 8 {
        return Err(Errno::EINVAL.into());
    }
    // Faults now, not after the count was taken.
    into.probe()?;
    into.await_pages(8)?;
    let count = call.wait_for(waiters, || match take() {
        0 if nonblocking => Err(Errno::EAGAIN.into()),
        0 => Ok(None),
        count => Ok(Some(count)),
    })?;
    into.write(&count.to_le_bytes())?;
    Ok(8)
}
