//! Reading and writing: `read`, `write` and their relatives.
//!
//! A transfer first resolves a page of user memory, then takes the file's lock and copies: no lock of a file is held
//! while user memory may fault. A call that waits keeps the bytes it has done in the thread's `progress`.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*, signal::SIGPIPE};
use motet_hal::{Access, Machine};
use motet_layout::{FILE_PIPE_READ, FILE_PIPE_WRITE, FileRecord, InodeRecord, PAGE_SIZE, PIPE_BUF, PipeRecord};
use motet_protocol::{
    Context, fs,
    lock::{Guard, lock},
    memory::{alloc_frame, release_frame},
    pipe,
};

use super::{
    cursor::Cursor,
    description::{Anonymous, Kind, OpenFile},
    device, event, proc, signal_fd, socket, table, timer,
};
use crate::{
    call::{Call, Stop, SysResult},
    mm, signal,
};

/// `pwritev2`, `preadv2`: the position is the file's own.
const POSITION_OWN: u64 = u64::MAX;

/// `read(fd, buffer, length)`.
#[inline]
pub fn read<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    if let Some(read) = read_short(call, &file, buffer, len) {
        return Ok(read);
    }
    read_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Write), None)
}

/// `write(fd, buffer, length)`.
#[inline]
pub fn write<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    if write_short(call, &file, buffer, len) {
        return Ok(len);
    }
    write_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Read), None)
}

/// Reads a short message from a pipe, if that is what the call is about: messages between processes are what pipes are
/// measured by.
#[inline(always)]
fn read_short<M: Machine>(call: &Call<M>, file: &OpenFile<M>, buffer: u64, len: u64) -> Option<u64> {
    if file.record().kind.get() != FILE_PIPE_READ || len == 0 {
        return None;
    }
    let len = len.min(PAGE_SIZE - buffer % PAGE_SIZE);
    let ends = call.cpu.object(file.record().object.get())?;
    // Looked at without the lock, to spare the look-up of the buffer when it is for nothing.
    if (pipe::used(ends) as u64).wrapping_sub(1) >= len {
        return None;
    }
    let space = mm::space_of(call.cpu, call.process);
    let run = mm::resolve(call.cpu, space, buffer, Access::Write).ok()?;
    Some(pipe::pop_short(call.cpu, ends, (run, len as usize))? as u64)
}

/// Writes a short message to a pipe, if that is what the call is about.
#[inline(always)]
fn write_short<M: Machine>(call: &Call<M>, file: &OpenFile<M>, buffer: u64, len: u64) -> bool {
    let short = len.wrapping_sub(1) < PAGE_SIZE - buffer % PAGE_SIZE;
    if file.record().kind.get() != FILE_PIPE_WRITE || !short || call.thread.progress.get() != 0 {
        return false;
    }
    let space = mm::space_of(call.cpu, call.process);
    let Ok(run) = mm::resolve(call.cpu, space, buffer, Access::Read) else { return false };
    let Some(ends) = call.cpu.object(file.record().object.get()) else { return false };
    pipe::push_short(call.cpu, ends, (run, len as usize))
}

/// `readv(fd, vector, count)`.
pub fn readv<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    read_file(call, &file, &mut Cursor::vector(call, vector, count, Access::Write)?, None)
}

/// `writev(fd, vector, count)`.
pub fn writev<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    write_file(call, &file, &mut Cursor::vector(call, vector, count, Access::Read)?, None)
}

/// `pread64(fd, buffer, length, offset)`.
pub fn pread64<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, offset, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    read_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Write), Some(check_offset(&file, offset)?))
}

/// `pwrite64(fd, buffer, length, offset)`.
pub fn pwrite64<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, offset, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    write_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Read), Some(check_offset(&file, offset)?))
}

/// `preadv(fd, vector, count, offset)`; the offset's second argument word matters on 32-bit ISAs only.
pub fn preadv<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, offset, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    let mut cursor = Cursor::vector(call, vector, count, Access::Write)?;
    read_file(call, &file, &mut cursor, Some(check_offset(&file, offset)?))
}

/// `pwritev(fd, vector, count, offset)`.
pub fn pwritev<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, offset, ..] = call.args;
    let file = table::get(call, fd as i32)?;
    let mut cursor = Cursor::vector(call, vector, count, Access::Read)?;
    write_file(call, &file, &mut cursor, Some(check_offset(&file, offset)?))
}

/// `preadv2(fd, vector, count, offset, -, flags)`: no flag is offered.
pub fn preadv2<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[5] != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if call.args[3] == POSITION_OWN { readv(call) } else { preadv(call) }
}

/// `pwritev2(fd, vector, count, offset, -, flags)`: no flag is offered.
pub fn pwritev2<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[5] != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if call.args[3] == POSITION_OWN { writev(call) } else { pwritev(call) }
}

/// Reads from any open file, at its own position unless `at` gives another.
pub fn read_file<M: Machine>(call: &Call<M>, file: &OpenFile<M>, into: &mut Cursor<M>, at: Option<u64>) -> SysResult {
    file.check_readable()?;
    match file.kind() {
        Kind::Pipe(ends) => read_pipe(call, ends, file.nonblocking(), into),
        Kind::Inode(inode) => read_inode(call, file, inode, into, at),
        Kind::Device(device) => device::read(call, device, file.nonblocking(), into),
        Kind::Proc(node) => {
            let (_guard, position) = position(call, file, at);
            let read = proc::read(call, node, position, into)?;
            if at.is_none() {
                file.offset.store(position + read, Ordering::Relaxed);
            }
            Ok(read)
        }
        Kind::Anonymous(Anonymous::Event(counter)) => event::read(call, counter, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Timer(timer)) => timer::read(call, timer, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Socket(socket)) => socket::read(call, socket, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Signals(set)) => signal_fd::read(call, set, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Epoll(_)) => Err(Errno::EINVAL.into()),
    }
}

/// Writes to any open file, at its own position unless `at` gives another.
pub fn write_file<M: Machine>(call: &Call<M>, file: &OpenFile<M>, from: &mut Cursor<M>, at: Option<u64>) -> SysResult {
    file.check_writable()?;
    match file.kind() {
        Kind::Pipe(ends) => write_pipe(call, ends, file.nonblocking(), true, from),
        Kind::Inode(inode) => write_inode(call, file, inode, from, at),
        Kind::Device(device) => device::write(call, device, file.nonblocking(), from),
        Kind::Proc(node) => proc::write(call, node, from),
        Kind::Anonymous(Anonymous::Event(counter)) => event::write(call, counter, file.nonblocking(), from),
        Kind::Anonymous(Anonymous::Socket(socket)) => socket::write(call, socket, file.nonblocking(), true, from),
        Kind::Anonymous(Anonymous::Epoll(_) | Anonymous::Timer(_) | Anonymous::Signals(_)) => Err(Errno::EINVAL.into()),
    }
}

/// What a transfer that an error ended returns: the bytes done, if any.
#[inline(always)]
pub fn partial<E: Into<Stop>>(done: u64, error: E) -> SysResult {
    match error.into() {
        Stop::Error(_) if done > 0 => Ok(done),
        stop @ (Stop::Error(_) | Stop::Block | Stop::Replaced | Stop::Gone) => Err(stop),
    }
}

/// The position to use. The description is locked when it is shared and its own position is used.
fn position<'f, M: Machine>(call: &Call<M>, file: &'f FileRecord, at: Option<u64>) -> (Option<Guard<'f>>, u64) {
    match at {
        Some(at) => (None, at),
        None => {
            let shared = file.refs.load(Ordering::Relaxed) > 1;
            let guard = shared.then(|| lock(call.cpu, &file.lock));
            (guard, file.offset.load(Ordering::Relaxed))
        }
    }
}

fn read_inode<M: Machine>(
    call: &Call<M>,
    file: &FileRecord,
    inode: &'static InodeRecord,
    into: &mut Cursor<M>,
    at: Option<u64>,
) -> SysResult {
    if fs::is_directory(inode) {
        return Err(Errno::EISDIR.into());
    }
    let (_guard, start) = position(call, file, at);
    if start >= inode.size.load(Ordering::Relaxed) {
        return Ok(0);
    }
    let moved = move_inode(call, inode, start, false, into);
    if at.is_none() {
        file.offset.store(start + into.done(), Ordering::Relaxed);
    }
    match moved {
        Ok(()) => Ok(into.done()),
        Err(errno) => partial(into.done(), errno),
    }
}

fn write_inode<M: Machine>(
    call: &Call<M>,
    file: &FileRecord,
    inode: &'static InodeRecord,
    from: &mut Cursor<M>,
    at: Option<u64>,
) -> SysResult {
    if from.remaining() == 0 {
        return Ok(0);
    }
    let append = file.flags.load(Ordering::Relaxed) & O_APPEND != 0;
    let (_guard, own) = position(call, file, at);
    let len = from.remaining();
    let start = if append { fs::reserve(call.cpu, inode, len)? } else { own };
    let moved = move_inode(call, inode, start, true, from);
    let done = from.done();
    if at.is_none() {
        file.offset.store(start + done, Ordering::Relaxed);
    }
    let now = call.cpu.realtime_ns();
    inode.modified_ns.set(now);
    inode.changed_ns.set(now);
    match moved {
        Ok(()) => Ok(done),
        Err(errno) => partial(done, errno),
    }
}

/// Moves bytes between a regular file and user memory until one of them ends.
fn move_inode<M: Machine>(
    call: &Call<M>,
    inode: &'static InodeRecord,
    start: u64,
    write: bool,
    cursor: &mut Cursor<M>,
) -> Result<(), Errno> {
    let mut at = start;
    while cursor.remaining() > 0 {
        let len = fs::transfer(call.cpu, inode, at, write, || cursor.run())?;
        if len == 0 {
            break;
        }
        cursor.advance(len)?;
        at += len as u64;
    }
    Ok(())
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
    call.wait_for(&ends.read_waiters, || {
        // Looked at without the lock, to spare the look-up of the buffer when it is for nothing. (A thread that waits
        // looks again after it has entered the queue, which orders this against writers.)
        if pipe::used(ends) == 0 && ends.writers.load(Ordering::Acquire) > 0 {
            return if nonblocking { Err(Errno::EAGAIN.into()) } else { Ok(None) };
        }
        match pipe::pop(call.cpu, ends, || into.run())? {
            Some(len) => into.advance(len)?,
            None if nonblocking => return Err(Errno::EAGAIN.into()),
            None => return Ok(None),
        }
        while into.done() > 0 && into.remaining() > 0 && pipe::used(ends) > 0 {
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
                Ok(Some(len)) => into.advance(len)?,
                Ok(None) => {
                    call.thread.progress.set(into.done());
                    return Ok(None);
                }
                Err(errno) => return partial(into.done(), errno).map(Some),
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
            Err(errno) => {
                if errno == Errno::EPIPE && signals {
                    signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
                }
                partial(from.done(), errno).map(Some)
            }
        }
    })?;
    Ok(written)
}

/// Pushes a short write in one piece, if there is room.
#[inline]
fn push_whole<M: Machine>(call: &Call<M>, ends: &'static PipeRecord, from: &mut Cursor<M>) -> Result<(), Errno> {
    let mut in_pieces = false;
    let pushed = pipe::push(call.cpu, ends, true, || {
        from.two_runs()?.ok_or_else(|| {
            in_pieces = true;
            Errno::EAGAIN
        })
    });
    match pushed {
        Ok(Some(len)) => from.advance(len),
        Ok(None) => Ok(()),
        Err(_) if in_pieces => gather(call, ends, from),
        Err(errno) => Err(errno),
    }
}

/// Collects a short write that lies in many pieces, so that it reaches the pipe as one.
#[cold]
fn gather<M: Machine>(call: &Call<M>, ends: &'static PipeRecord, from: &mut Cursor<M>) -> Result<(), Errno> {
    let len = from.remaining() as usize;
    if pipe::used(ends) + len > motet_layout::PIPE_CAPACITY && ends.readers.load(Ordering::Acquire) > 0 {
        return Ok(());
    }
    let mut bytes = [0; PIPE_BUF];
    from.peek(&mut bytes[..len])?;
    let frame = alloc_frame(call.cpu).ok_or(Errno::ENOMEM)?;
    call.cpu.pool.write(frame.addr(), &bytes[..len]);
    let pushed = pipe::push(call.cpu, ends, true, || Ok([(frame.addr(), len), (frame.addr(), 0)]));
    release_frame(call.cpu, frame);
    match pushed? {
        Some(len) => from.advance(len),
        None => Ok(()),
    }
}

/// Pushes as much of a long write as there is room for.
fn push_all<M: Machine>(call: &Call<M>, ends: &'static PipeRecord, from: &mut Cursor<M>) -> Result<(), Errno> {
    while from.remaining() > 0 {
        let pushed = pipe::push(call.cpu, ends, false, || {
            let run = from.run()?;
            Ok::<_, Errno>([run, (run.0, 0)])
        })?;
        match pushed {
            Some(len) => from.advance(len)?,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Checks the offset of `pread64` and its like.
fn check_offset<M: Machine>(file: &OpenFile<M>, offset: u64) -> Result<u64, Errno> {
    if offset > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    match file.kind() {
        Kind::Pipe(_) | Kind::Anonymous(_) => Err(Errno::ESPIPE),
        Kind::Inode(_) | Kind::Device(_) | Kind::Proc(_) => Ok(offset),
    }
}
