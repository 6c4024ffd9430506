//! Streams: bytes in order, and what goes with some of them.

use motet_abi::{Errno, signal::SIGPIPE};
use motet_hal::Machine;
use motet_layout::{Frame, PAGE_SIZE, PIPE_BUF, PIPE_CAPACITY, PipeRecord, SocketRecord, sync::Ordering};
use motet_protocol::{
    memory::{alloc_frame, release_frame},
    pipe::{
        self,
        packet::{self, Read, Reading},
    },
};

use super::{
    SHUT_WRITE,
    connection::{pipes, reads_no_more, take_reset},
    control::{Ancillary, Files},
    credentials::{sender_of, told},
    family::{Received, Receiving, Sending},
    flags::{MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, SO_PASSCRED, is_on},
    rights::{self, Packet},
    waits_no_more,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cursor::{Cursor, partial, stopped},
    file::kinds::pipe::write_pipe,
    signal,
};

/// What moving a page costs.
const PIECE: u64 = cost::PAGE + cost::bytes(PAGE_SIZE);
/// Bytes that one call receives with open files at most, of those that were sent with these (Linux sends as many in a piece).
const REACH: u64 = 32 << 10;

/// The pipe that a connected socket writes to.
///
/// # Errors
/// `ENOTCONN`; `EPIPE`: it writes no more.
pub fn outgoing<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Result<&'static PipeRecord, Errno> {
    let [_, outgoing] = pipes(cpu, socket).ok_or(Errno::ENOTCONN)?;
    if socket.shut.load(Ordering::Acquire) & SHUT_WRITE == 0 { Ok(outgoing) } else { Err(Errno::EPIPE) }
}

/// Sends bytes.
///
/// # Errors
/// `EISCONN`, `EOPNOTSUPP`: there is an address; `ENOTCONN`, `EPIPE`, `EAGAIN`, `EFAULT`, `ENOMEM`.
pub fn send<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    how: Sending<M>,
    from: &mut Cursor<M>,
) -> SysResult {
    if !how.address.bytes().is_empty() {
        let is_connected = pipes(call.cpu, socket).is_some();
        return Err(if is_connected { Errno::EISCONN } else { Errno::EOPNOTSUPP }.into());
    }
    // Whoever has waited for room is told by the error alone.
    let signals = how.flags & MSG_NOSIGNAL == 0 && !call.has_waited();
    let broken = |errno| {
        if signals && errno == Errno::EPIPE {
            signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
        }
    };
    let outgoing = match (outgoing(call.cpu, socket), call.thread.progress.get()) {
        (Ok(outgoing), _) => outgoing,
        (Err(errno), 0) => {
            broken(errno);
            return Err(errno.into());
        }
        // What was sent before counts.
        (Err(_), sent) => return Ok(sent),
    };
    if from.remaining() == 0 && outgoing.readers.load(Ordering::Acquire) == 0 {
        // Unlike a pipe, it says so also when there is nothing to write.
        broken(Errno::EPIPE);
        return Err(Errno::EPIPE.into());
    }
    let nonblocking = waits_no_more(call, how.nonblocking, socket.timeouts_ns[1].get());
    let sender = sender_of(call, how.credentials, socket, outgoing);
    if how.files.is_none() && sender.is_none() {
        // Unlike of a pipe, there is no signal if some was sent.
        let written = write_pipe(call, outgoing, nonblocking, false, from);
        if written == Err(Stop::Error(Errno::EPIPE)) {
            broken(Errno::EPIPE);
        }
        return written;
    }
    from.resume(call.thread.progress.get())?;
    let mut files = how.files;
    while from.remaining() > 0 {
        match write_marked(call, socket, outgoing, (sender, &mut files, nonblocking), from) {
            Ok(()) => {}
            Err(Stop::Block) => {
                call.thread.progress.set(from.done());
                return Err(Stop::Block);
            }
            Err(stop) => {
                if stop == Stop::Error(Errno::EPIPE) && from.done() == 0 {
                    broken(Errno::EPIPE);
                }
                return if nonblocking { partial(from.done(), stop) } else { stopped(call, from.done(), stop) };
            }
        }
        if from.remaining() > 0 && call.pauses(PIECE) {
            call.thread.progress.set(from.done());
            return Err(Stop::Again);
        }
    }
    Ok(from.done())
}

/// Writes a page at most, with who has sent it and the open files that go with it.
fn write_marked<'c, M: Machine>(
    call: &Call<'c, M>,
    socket: &SocketRecord,
    outgoing: &'static PipeRecord,
    (sender, files, nonblocking): (Option<packet::Credentials>, &mut Option<Packet<'c, M>>, bool),
    from: &mut Cursor<M>,
) -> Result<(), Stop> {
    let cpu = call.cpu;
    let mut bytes = [0; PIPE_BUF];
    let len = from.remaining().min(PIPE_BUF as u64) as usize;
    from.peek(&mut bytes[..len])?;
    let who = match sender {
        None => None,
        Some(sender) => {
            let mark = Packet::new(cpu)?;
            mark.set_sender(sender);
            mark.record().len.set(len as u32);
            Some(mark)
        }
    };
    if let Some(files) = files {
        files.record().len.set(len as u32);
        files.record().reach.set(from.remaining().min(REACH) as u32);
    }
    let frame = alloc_frame(cpu).ok_or(Errno::ENOBUFS)?;
    cpu.pool.write(frame.addr(), &bytes[..len]);
    let marks = [files.as_ref().map(Packet::record), who.as_ref().map(Packet::record)];
    let cost_max = socket.buffers[0].get();
    let written = call.wait_for(&outgoing.write_waiters, || {
        let write = || packet::write(cpu, outgoing, (frame.addr(), len), marks, cost_max);
        let is_written = match marks[0] {
            Some(files) => rights::with_sockets_in_flight(cpu, files, write)?,
            None => write()?,
        };
        match is_written {
            true => Ok(Some(())),
            false if nonblocking => Err(Stop::from(Errno::EAGAIN)),
            false => Ok(None),
        }
    });
    release_frame(cpu, frame);
    written?;
    // The stream has them now.
    [files.take(), who].into_iter().flatten().for_each(|mark| _ = mark.release());
    from.advance(len)
}

/// Receives bytes, and does not say from whom.
///
/// # Errors
/// `EINVAL`: it is not connected; `ECONNRESET`, `EAGAIN`, `EFAULT`.
pub fn receive<'c, M: Machine>(
    call: &Call<'c, M>,
    socket: &'static SocketRecord,
    how: Receiving,
    into: &mut Cursor<M>,
    with: &mut Received<'c, M>,
) -> SysResult {
    let [incoming, _] = pipes(call.cpu, socket).ok_or(Errno::EINVAL)?;
    let nonblocking = waits_no_more(call, how.nonblocking, socket.timeouts_ns[0].get());
    let how = Receiving { nonblocking, ..how };
    let dropped = if how.flags & MSG_TRUNC != 0 { Some(alloc_frame(call.cpu).ok_or(Errno::ENOBUFS)?) } else { None };
    let stream = Incoming { socket, pipe: incoming, dropped };
    let ancillary = &mut with.ancillary;
    let received = match how.flags & MSG_PEEK != 0 {
        _ if into.remaining() == 0 => stream.await_bytes(call, nonblocking),
        true if how.flags & MSG_WAITALL != 0 && !nonblocking => stream.peek_all(call, into),
        true => stream.peek(call, nonblocking, into, ancillary),
        false => stream.read(call, how, into, ancillary),
    };
    if let Some(frame) = dropped {
        release_frame(call.cpu, frame);
    }
    let is_end = received == Ok(0) && pipe::used(incoming) == 0;
    match is_end.then(|| take_reset(call.cpu, socket)).flatten() {
        Some(errno) => Err(errno.into()),
        None => received,
    }
}

/// Where bytes are received.
#[derive(Clone, Copy)]
struct Incoming {
    socket: &'static SocketRecord,
    pipe: &'static PipeRecord,
    /// They go there, and not to user memory: nobody wants them.
    dropped: Option<Frame>,
}

impl Incoming {
    /// Whether nothing comes any more. What came before this was asked comes first.
    fn has_ended(&self) -> bool {
        self.pipe.writers.load(Ordering::Acquire) == 0 || reads_no_more(self.socket)
    }

    /// Where the next bytes go.
    fn room<M: Machine>(&self, into: &mut Cursor<M>) -> Result<pipe::Run, Stop> {
        match self.dropped {
            Some(frame) => Ok((frame.addr(), into.remaining().min(PAGE_SIZE) as usize)),
            None => into.run(),
        }
    }

    /// Receives no bytes, when there are some.
    fn await_bytes<M: Machine>(&self, call: &Call<M>, nonblocking: bool) -> SysResult {
        call.wait_for(&self.pipe.read_waiters, || match self.has_ended() || pipe::used(self.pipe) > 0 {
            true => Ok(Some(0)),
            false if nonblocking => Err(Errno::EAGAIN.into()),
            false => Ok(None),
        })
    }

    /// Reads what there is, waiting for the first byte; with `MSG_WAITALL`, until there is no more room. What goes with some of the bytes ends it.
    fn read<'c, M: Machine>(
        &self,
        call: &Call<'c, M>,
        how: Receiving,
        into: &mut Cursor<M>,
        ancillary: &mut Ancillary<'c, M>,
    ) -> SysResult {
        let mut reading = Reading { wants_credentials: is_on(self.socket, SO_PASSCRED), ..Reading::default() };
        let mut files = None;
        let received = self.read_bytes(call, how, into, (&mut reading, &mut files));
        if let Some(sender) = reading.sender {
            ancillary.credentials = told(self.socket, sender);
        }
        if let Some(files) = files {
            ancillary.files = Files::Taken(files);
        }
        received
    }

    fn read_bytes<'c, M: Machine>(
        &self,
        call: &Call<'c, M>,
        how: Receiving,
        into: &mut Cursor<M>,
        (reading, files): (&mut Reading, &mut Option<Packet<'c, M>>),
    ) -> SysResult {
        into.resume(call.thread.progress.get())?;
        let is_full = how.flags & MSG_WAITALL != 0 && !how.nonblocking;
        call.wait_for(&self.pipe.read_waiters, || {
            while into.remaining() > 0 {
                let leaves = |mark| rights::leave_flight(call.cpu, mark);
                let read = packet::read(call.cpu, self.pipe, reading, || self.room(into), leaves);
                if files.is_none() {
                    *files = reading.rights.map(|mark| Packet::taken(call.cpu, mark));
                }
                // What was received with something cannot be kept until there is more.
                let may_wait = files.is_none() && !reading.wants_credentials;
                match read {
                    Ok(Read::Bytes(len)) => {
                        into.advance(len)?;
                        if into.remaining() > 0 && call.pauses(PIECE) {
                            if !may_wait {
                                break;
                            }
                            call.thread.progress.set(into.done());
                            return Err(Stop::Again);
                        }
                    }
                    Ok(Read::Border) => break,
                    Ok(Read::Nothing) => {
                        // Each time anew: whoever ends it wakes only those who wait already.
                        let is_end = self.has_ended();
                        // What came after this was looked at comes first.
                        if is_end && pipe::used(self.pipe) > 0 {
                            continue;
                        }
                        if is_end || into.done() > 0 && !(is_full && may_wait) {
                            break;
                        }
                        if how.nonblocking {
                            return partial(into.done(), Errno::EAGAIN).map(Some);
                        }
                        call.thread.progress.set(into.done());
                        return Ok(None);
                    }
                    Err(stop) if is_full && may_wait => return stopped(call, into.done(), stop).map(Some),
                    Err(stop) => return partial(into.done(), stop).map(Some),
                }
            }
            Ok(Some(into.done()))
        })
    }

    /// Copies what there is, up to what one call receives, and leaves it there, waiting for the first byte.
    fn peek<'c, M: Machine>(
        &self,
        call: &Call<'c, M>,
        nonblocking: bool,
        into: &mut Cursor<M>,
        ancillary: &mut Ancillary<'c, M>,
    ) -> SysResult {
        let wants_credentials = is_on(self.socket, SO_PASSCRED);
        call.wait_for(&self.pipe.read_waiters, || {
            let is_end = self.has_ended();
            let ahead = packet::look_ahead(call.cpu, self.pipe, wants_credentials);
            if ahead.len == 0 && !is_end {
                return if nonblocking { Err(Errno::EAGAIN.into()) } else { Ok(None) };
            }
            let files = ahead.files.map_or(Files::None, |(mark, count)| Files::Seen(self.pipe, mark, count));
            *ancillary = Ancillary { credentials: told(self.socket, ahead.sender), files, ..Ancillary::NONE };
            into.shorten(ahead.len as u64);
            self.peek_bytes(call, ahead.from, into).map(Some)
        })
    }

    /// Copies bytes of a stream that has nothing else, and leaves them there, waiting until there are as many as there is room for, or until whoever sends may wait.
    fn peek_all<M: Machine>(&self, call: &Call<M>, into: &mut Cursor<M>) -> SysResult {
        let wanted = into.remaining().min(PIPE_CAPACITY as u64);
        let mut from = None;
        call.wait_for(&self.pipe.read_waiters, || {
            let is_end = self.has_ended();
            let ahead = packet::look_ahead(call.cpu, self.pipe, false);
            if *from.get_or_insert(ahead.from) != ahead.from {
                // Some was read that was seen: the call looks at what comes next.
                return Err(Stop::Again);
            }
            let seen = self.peek_bytes(call, ahead.from, into)?;
            // It may have stopped before: at memory that is not there, or because some was read. Whoever sends may wait for more room than there is.
            if seen >= wanted || seen < ahead.len as u64 || is_end || !pipe::readiness(self.pipe).writable {
                return Ok(Some(seen));
            }
            // A signal ends the call with these; otherwise it begins anew.
            call.thread.progress.set(seen);
            Ok(None)
        })
    }

    /// Copies as many bytes as remain, which are there from a place on. If some are read meanwhile, those count that were copied before; if none was, the call looks
    /// at what comes next then.
    fn peek_bytes<M: Machine>(&self, call: &Call<M>, from: pipe::Place, into: &mut Cursor<M>) -> SysResult {
        while into.remaining() > 0 {
            match pipe::peek(call.cpu, self.pipe, (from, into.done() as usize), || self.room(into)) {
                Ok(Some(0)) => break,
                Ok(Some(len)) => into.advance(len)?,
                Ok(None) if into.done() > 0 => break,
                Ok(None) => return Err(Stop::Again),
                Err(stop) => return partial(into.done(), stop),
            }
            call.serve_due(PIECE);
        }
        Ok(into.done())
    }
}
