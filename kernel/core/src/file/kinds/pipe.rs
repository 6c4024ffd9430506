//! Pipes: bytes between them and user memory.

use core::fmt::{self, Write};

use motet_abi::{Errno, file::*, signal::SIGPIPE, terminal::*};
use motet_hal::{Access, Machine};
use motet_layout::{
    FILE_PIPE_BOTH, FILE_PIPE_READ, FILE_PIPE_WRITE, FileRecord, InodeRecord, PAGE_SIZE, PIPE_BUF, PipeRecord,
    WaitQueue,
    sync::{AtomicU32, Ordering},
};
use motet_protocol::{
    Context, fs,
    memory::{alloc_frame, release_frame},
    pipe,
};

use super::metadata::{accessed, modified};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cursor::{Cursor, partial, stopped},
    description::{
        self, Parts,
        kind::{Attributes, Facts, INPUT, Kind, OUTPUT, Outlet, Queues, Transfer, as_kind, if_so},
    },
    mm, signal,
};

/// What moving a page between a pipe and user memory costs.
const PIPE_PIECE: u64 = cost::PAGE + cost::bytes(PAGE_SIZE);

/// An end of a pipe, or both.
#[derive(Clone, Copy)]
pub struct Pipe(pub &'static PipeRecord);

impl Kind for Pipe {
    const CODES: &'static [u32] = &[FILE_PIPE_READ, FILE_PIPE_WRITE, FILE_PIPE_BOTH];
    const FACTS: Facts = Facts {
        mode: S_IFIFO | 0o600,
        file_system: PIPEFS_MAGIC,
        supports_nowait: true,
        // Packets are not offered.
        refused_flags: O_DIRECT,
        has_signals: true,
        ..Facts::ANONYMOUS
    };

    #[inline(always)]
    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "pipe:[{number}]")
    }

    #[inline(always)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        let read = read_pipe(call, self.0, how.nonblocking(), into)?;
        if read > 0 {
            note_read(call.cpu, file);
        }
        Ok(read)
    }

    #[inline(always)]
    fn write<M: Machine>(
        self,
        call: &Call<M>,
        file: &'static FileRecord,
        how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        let written = write_pipe(call, self.0, how.nonblocking(), true, from)?;
        if written > 0 {
            note_written(call.cpu, file);
        }
        Ok(written)
    }

    fn readiness<M: Machine>(self, _call: &Call<M>, file: &FileRecord) -> u16 {
        let Self(ends) = self;
        let state = pipe::readiness(ends);
        let reads = file.kind.get() != FILE_PIPE_WRITE;
        let writes = file.kind.get() != FILE_PIPE_READ;
        // Nobody has hung up who has not come yet.
        let seen = file.opens_seen.get();
        let had_writer = seen == 0 || ends.writer_opens.load(Ordering::Relaxed) != seen.wrapping_sub(1);
        let for_reading = if_so(state.readable, INPUT) | if_so(state.no_writer && had_writer, POLLHUP);
        let for_writing = if_so(state.writable, OUTPUT) | if_so(state.no_reader, POLLERR);
        if_so(reads, for_reading) | if_so(writes, for_writing)
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, file: &FileRecord) -> Queues {
        let tells = |end, events| if file.kind.get() == end { u16::MAX } else { events };
        [
            (Some(&self.0.read_waiters), tells(FILE_PIPE_READ, INPUT)),
            (Some(&self.0.write_waiters), tells(FILE_PIPE_WRITE, OUTPUT)),
        ]
    }

    fn arrivals<M: Machine>(self, _cpu: &Cpu<M>) -> [Option<u64>; 2] {
        pipe::arrivals(self.0).map(Some)
    }

    fn bytes_ready<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Result<u64, Errno> {
        Ok(pipe::used(self.0) as u64)
    }

    fn outlet<M: Machine>(self, _call: &Call<M>) -> Result<Outlet, Errno> {
        Ok(Outlet::Pipe(self.0))
    }

    fn reopen<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord, flags: u32) -> Result<&'static FileRecord, Errno> {
        // As a mere place, it would count as one that is open for reading.
        if flags & O_PATH != 0 {
            return Err(Errno::ENXIO);
        }
        open_ends(cpu, self.0, None, flags)
    }

    /// Both ends of a pipe are one file.
    fn number<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) -> u64 {
        cpu.raw(self.0) >> 6
    }

    fn attributes(self, _file: &'static FileRecord) -> Option<Attributes> {
        Some(Attributes { mode: &self.0.mode, owner: self.0.owner.each_ref() })
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>, file: &'static FileRecord) {
        pipe::close(cpu, self.0, ends_of(file), &file.ended);
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, file: &'static FileRecord) {
        // A description of both ends has one reference for each.
        for _ in 0..ends_of(file).count_ones() {
            pipe::put(cpu, self.0);
        }
    }
}

/// Which ends of its pipe a description opens.
fn ends_of(file: &FileRecord) -> u32 {
    match file.kind.get() {
        FILE_PIPE_READ => pipe::READER,
        FILE_PIPE_WRITE => pipe::WRITER,
        _ => pipe::READER | pipe::WRITER,
    }
}

/// A description of a pipe's ends by the access mode in `flags`.
///
/// # Errors
/// `ENFILE`.
pub fn open_ends<M: Machine>(
    cpu: &Cpu<M>,
    ends: &'static PipeRecord,
    inode: Option<&'static InodeRecord>,
    flags: u32,
) -> Result<&'static FileRecord, Errno> {
    let kind = match flags & O_ACCMODE {
        O_RDONLY => FILE_PIPE_READ,
        O_WRONLY => FILE_PIPE_WRITE,
        _ => FILE_PIPE_BOTH,
    };
    // From when there is a description, that has it.
    if let Some(inode) = inode {
        fs::get(inode);
    }
    let parts = Parts { kind, flags, inode, object: cpu.raw(ends) };
    let record = description::create_prepared(cpu, &parts, |record| {
        record.ended.store(pipe::READER | pipe::WRITER, Ordering::Relaxed); // until they are opened
        if inode.is_none() {
            description::remember_maker(cpu, record);
        }
    });
    match (record, inode) {
        (Ok(record), _) => pipe::open(cpu, ends, ends_of(record), &record.ended),
        (Err(_), Some(inode)) => fs::put(cpu, inode),
        (Err(_), None) => {}
    }
    record
}

/// The end of its pipe that a description opens, if it is one: its queue, how many have the other end open, and how often that was opened.
pub fn partner<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<(&'static WaitQueue, [&'static AtomicU32; 2])> {
    let Pipe(ends) = as_kind(cpu, file)?;
    match file.kind.get() {
        FILE_PIPE_READ => Some((&ends.read_waiters, [&ends.writers, &ends.writer_opens])),
        FILE_PIPE_WRITE => Some((&ends.write_waiters, [&ends.readers, &ends.reader_opens])),
        _ => None,
    }
}

/// Something was read: of a named pipe, that is seen.
#[inline(always)]
fn note_read<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) {
    if let Some(fifo) = cpu.object(file.inode.get()) {
        accessed(cpu, fifo, file.flags.load(Ordering::Relaxed));
    }
}

/// Something was written: of a named pipe, that is seen.
#[inline(always)]
fn note_written<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) {
    if let Some(fifo) = cpu.object(file.inode.get()) {
        modified(cpu, fifo);
    }
}

/// Reads a short message from a pipe, if that is what the call is about: messages between processes are what pipes are
/// measured by.
#[inline(always)]
pub fn read_short<M: Machine>(call: &Call<M>, file: &FileRecord, buffer: u64, len: u64) -> Option<u64> {
    if file.kind.get() != FILE_PIPE_READ || len == 0 || call.thread.progress.get() != 0 {
        return None;
    }
    let len = len.min(PAGE_SIZE - buffer % PAGE_SIZE);
    let ends = call.cpu.object(file.object.get())?;
    // Looked at without the lock, to spare the look-up of the buffer when it is for nothing.
    if (pipe::used(ends) as u64).wrapping_sub(1) >= len {
        return None;
    }
    let space = mm::space_of(call.cpu, call.process);
    let run = mm::resolve(call.cpu, space, buffer, Access::Write).ok()?;
    let read = pipe::pop_short(call.cpu, ends, (run, len as usize))?;
    note_read(call.cpu, file);
    Some(read as u64)
}

/// Writes a short message to a pipe, if that is what the call is about.
#[inline(always)]
pub fn write_short<M: Machine>(call: &Call<M>, file: &FileRecord, buffer: u64, len: u64) -> bool {
    let short = len.wrapping_sub(1) < PAGE_SIZE - buffer % PAGE_SIZE;
    if file.kind.get() != FILE_PIPE_WRITE || !short || call.thread.progress.get() != 0 {
        return false;
    }
    let space = mm::space_of(call.cpu, call.process);
    let Ok(run) = mm::resolve(call.cpu, space, buffer, Access::Read) else { return false };
    let Some(ends) = call.cpu.object(file.object.get()) else { return false };
    let is_written = pipe::push_short(call.cpu, ends, (run, len as usize));
    if is_written {
        note_written(call.cpu, file);
    }
    is_written
}

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
    let has_ends = [&ends.readers, &ends.writers].into_iter().all(|ends| ends.load(Ordering::Acquire) > 0);
    if pipe::used(ends) + len > motet_layout::PIPE_CAPACITY && has_ends {
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
