//! Pipes: bytes between them and user memory.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, signal::SIGPIPE};
use motet_hal::Machine;
use motet_layout::{PAGE_SIZE, PIPE_BUF, PipeRecord};
use motet_protocol::{
    memory::{alloc_frame, release_frame},
    pipe,
};

use crate::{
    call::{Call, Stop, SysResult, cost},
    cursor::{Cursor, partial, stopped},
    signal,
};

/// What moving a page between a pipe and user memory costs.
const PIPE_PIECE: u64 = cost::PAGE + cost::bytes(PAGE_SIZE);

/// Reads from a pipe: what there is, waiting for the first byte.
#[inline]
pub fn read_pipe<M: Machine>(
    call: &Call<M>,
    ends: &'static PipeRecord,
    nonblocking: bool,
    into: &mut Cursor<M>,
) -> SysResult {
    if into.remaining() == 0 {
        return Ok(0);
    }
    let before = call.thread.progress.get();
    if before > 0 {
        into.advance(before as usize)?;
    }
    call.wait_for(&ends.read_waiters, || {
        // Looked at without the lock, to spare the look-up of the buffer when it is for nothing. (A thread that waits
        // looks again after it has entered the queue, which orders this against writers.)
        if pipe::used(ends) == 0 && into.done() > 0 {
            return Ok(Some(into.done()));
        }
        if pipe::used(ends) == 0 && ends.writers.load(Ordering::Acquire) > 0 {
            return if nonblocking { Err(Errno::EAGAIN.into()) } else { Ok(None) };
        }
        match pipe::pop(call.cpu, ends, || into.run()) {
            Ok(Some(len)) => into.advance(len)?,
            Ok(None) if into.done() > 0 => return Ok(Some(into.done())),
            Ok(None) if nonblocking => return Err(Errno::EAGAIN.into()),
            Ok(None) => return Ok(None),
            Err(stop) => return partial(into.done(), stop).map(Some),
        }
        while into.done() > 0 && into.remaining() > 0 && pipe::used(ends) > 0 {
            if call.pauses(PIPE_PIECE) {
                call.thread.progress.set(into.done());
                return Err(Stop::Again);
            }
            match pipe::pop(call.cpu, ends, || into.run()) {
                Ok(Some(len)) if len > 0 => into.advance(len)?,
                Ok(_) | Err(_) => break,
            }
        }
        Ok(Some(into.done()))
    })
}

/// Reads from a pipe until the cursor is full or the stream ends.
pub fn read_pipe_full<M: Machine>(call: &Call<M>, ends: &'static PipeRecord, into: &mut Cursor<M>) -> SysResult {
    into.advance(call.thread.progress.get() as usize)?;
    call.wait_for(&ends.read_waiters, || {
        while into.remaining() > 0 {
            match pipe::pop(call.cpu, ends, || into.run()) {
                Ok(Some(0)) => break,
                Ok(Some(len)) => {
                    into.advance(len)?;
                    if into.remaining() > 0 && call.pauses(PIPE_PIECE) {
                        call.thread.progress.set(into.done());
                        return Err(Stop::Again);
                    }
                }
                Ok(None) => {
                    call.thread.progress.set(into.done());
                    return Ok(None);
                }
                Err(stop) => return stopped(call, into.done(), stop).map(Some),
            }
        }
        Ok(Some(into.done()))
    })
}

/// Copies what there is in a pipe and leaves it there, waiting for the first byte.
pub fn peek_pipe<M: Machine>(
    call: &Call<M>,
    ends: &'static PipeRecord,
    nonblocking: bool,
    into: &mut Cursor<M>,
) -> SysResult {
    call.wait_for(&ends.read_waiters, || {
        let at_end = ends.writers.load(Ordering::Acquire) == 0;
        while into.remaining() > 0 {
            match pipe::peek(call.cpu, ends, into.done() as usize, || into.run()) {
                Ok(0) => break,
                Ok(len) => into.advance(len)?,
                Err(errno) => return partial(into.done(), errno).map(Some),
            }
            call.serve_due(PIPE_PIECE);
        }
        match into.done() {
            0 if into.remaining() > 0 && !at_end => match nonblocking {
                true => Err(Errno::EAGAIN.into()),
                false => Ok(None),
            },
            done => Ok(Some(done)),
        }
    })
}

/// Writes to a pipe: everything, waiting for room; up to [`PIPE_BUF`] bytes in one piece. `signals`: the thread gets `SIGPIPE`
/// when nobody reads any more.
#[inline]
pub fn write_pipe<M: Machine>(
    call: &Call<M>,
    ends: &'static PipeRecord,
    nonblocking: bool,
    signals: bool,
    from: &mut Cursor<M>,
) -> SysResult {
    if from.remaining() == 0 {
        return Ok(0);
    }
    let before = call.thread.progress.get();
    if before > 0 {
        from.advance(before as usize)?;
    }
    let whole = before == 0 && from.remaining() <= PIPE_BUF as u64;
    let written = call.wait_for(&ends.write_waiters, || {
        let pushed = if whole { push_whole(call, ends, from) } else { push_all(call, ends, from) };
        match pushed {
            Ok(()) if from.remaining() == 0 => Ok(Some(from.done())),
            Ok(()) if !nonblocking => {
                call.thread.progress.set(from.done());
                Ok(None)
            }
            Ok(()) => partial(from.done(), Errno::EAGAIN).map(Some),
            Err(Stop::Again) => {
                call.thread.progress.set(from.done());
                Err(Stop::Again)
            }
            Err(stop) => {
                if stop == Stop::Error(Errno::EPIPE) && signals {
                    signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
                }
                let goes_on = stop == Stop::Page && !nonblocking;
                let stopped = if goes_on { stopped(call, from.done(), stop) } else { partial(from.done(), stop) };
                stopped.map(Some)
            }
        }
    })?;
    Ok(written)
}

/// Pushes a short write in one piece, if there is room.
#[inline]
fn push_whole<M: Machine>(call: &Call<M>, ends: &'static PipeRecord, from: &mut Cursor<M>) -> Result<(), Stop> {
    let mut in_pieces = false;
    let pushed = pipe::push(call.cpu, ends, true, || {
        from.two_runs()?.ok_or_else(|| {
            in_pieces = true;
            Stop::from(Errno::EAGAIN)
        })
    });
    match pushed {
        Ok(Some(len)) => from.advance(len),
        Ok(None) => Ok(()),
        Err(_) if in_pieces => gather(call, ends, from),
        Err(stop) => Err(stop),
    }
}

/// Collects a short write that lies in many pieces, so that it reaches the pipe as one.
#[cold]
fn gather<M: Machine>(call: &Call<M>, ends: &'static PipeRecord, from: &mut Cursor<M>) -> Result<(), Stop> {
    let len = from.remaining() as usize;
    if pipe::used(ends) + len > motet_layout::PIPE_CAPACITY && ends.readers.load(Ordering::Acquire) > 0 {
        return Ok(());
    }
    let mut bytes = [0; PIPE_BUF];
    from.peek(&mut bytes[..len])?;
    let frame = alloc_frame(call.cpu).ok_or(Errno::ENOMEM)?;
    call.cpu.pool.write(frame.addr(), &bytes[..len]);
    let pushed = pipe::push(call.cpu, ends, true, || Ok::<_, Errno>([(frame.addr(), len), (frame.addr(), 0)]));
    release_frame(call.cpu, frame);
    match pushed? {
        Some(len) => from.advance(len),
        None => Ok(()),
    }
}

/// Pushes as much of a long write as there is room for.
fn push_all<M: Machine>(call: &Call<M>, ends: &'static PipeRecord, from: &mut Cursor<M>) -> Result<(), Stop> {
    while from.remaining() > 0 {
        let pushed = pipe::push(call.cpu, ends, false, || {
            let run = from.run()?;
            Ok::<_, Stop>([run, (run.0, 0)])
        })?;
        match pushed {
            Some(len) => from.advance(len)?,
            None => return Ok(()),
        }
        if from.remaining() > 0 {
            call.pause_point(PIPE_PIECE)?;
        }
    }
    Ok(())
}
