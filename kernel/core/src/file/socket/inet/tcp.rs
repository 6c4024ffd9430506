//! Streams (tcp(7)): connections between programs of this machine, as those of `AF_UNIX` are, found by address and port.
//!
//! What programs see of the protocol is kept: whoever closes with something unread, or says so (`SO_LINGER`), resets the connection; what is sent first to a peer
//! that has closed is lost; a peer is not told who reads no more. But a connection is there at once or not at all, and leaves nothing behind when it has ended.

use motet_abi::{Errno, signal::SIGPIPE, terminal::*};
use motet_hal::Machine;
use motet_layout::{PipeRecord, SOCKET_LISTENING, SOCKET_NEW, SocketRecord, sync::Ordering};
use motet_protocol::{Context, lock::lock, pipe, wait};

use super::{
    super::{
        READS_NO_MORE, SHUT_READ, SHUT_WRITE,
        connection::{self, is_reset, pipes, shut, take_reset},
        family::{Address, Received, Receiving, Sending},
        flags::{MSG_NOSIGNAL, MSG_OOB, MSG_PEEK, SO_LINGER, is_on},
        listening::{self, Joining},
        rights, stream, waits_no_more,
    },
    endpoint::{Endpoint, Version},
    options::has_port,
    outside::{self, CONNECTING, is_under_way},
    port,
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{INPUT, OUTPUT, if_so},
    file::readiness::epoll,
    signal,
};

/// [`SocketRecord::shut`]: it has sent something after its peer had closed, which is lost.
const HAS_LOST: u32 = 8;

/// [`SocketRecord::shut`]: it has read all before the end, which had come.
const HAS_READ_END: u32 = 16;

/// Connections that wait to be accepted beyond what their listener has asked for, of those who do not wait until there is room.
const EXCESS_MAX: u32 = 128;
/// Whom a connection is with, as far as is told (`SO_PEERCRED`).
const NOBODY: [u32; 3] = [0, u32::MAX, u32::MAX];

/// States of a connection, as Linux numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Both may send.
    Established = 1,
    /// It is not known yet whether there is a peer.
    SynSent = 2,
    /// Only the peer may send.
    FinWait = 5,
    /// There is none (any more).
    Close = 7,
    /// Only this one may send.
    CloseWait = 8,
    /// Others connect to it.
    Listen = 10,
}

/// The state of a socket's connection.
pub fn state<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> State {
    state_by(socket, pipes(cpu, socket).map(|[incoming, _]| incoming))
}

/// The same, by the pipe that it reads from if it is connected.
pub fn state_by(socket: &SocketRecord, incoming: Option<&PipeRecord>) -> State {
    let Some(incoming) = incoming else {
        let listens = socket.state.load(Ordering::Acquire) == SOCKET_LISTENING;
        return if listens { State::Listen } else { State::Close };
    };
    let shut = socket.shut.load(Ordering::Acquire);
    let has_ended = pipe::readiness(incoming).no_writer;
    match (has_ended, shut & SHUT_WRITE != 0) {
        _ if is_under_way(shut, incoming) => State::SynSent,
        _ if is_reset(incoming) || shut & HAS_LOST != 0 => State::Close,
        (false, false) => State::Established,
        (false, true) => State::FinWait,
        (true, false) => State::CloseWait,
        (true, true) => State::Close,
    }
}

/// `listen`.
///
/// # Errors
/// `EINVAL`: it is connected; `EADDRINUSE`.
pub fn listen<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    version: Version,
    backlog: u32,
) -> Result<(), Errno> {
    port::choose(call, socket, version)?;
    listening::listen(call, socket, backlog, || match socket.state.load(Ordering::Relaxed) {
        SOCKET_NEW => port::check_listener(call.cpu, socket),
        _ => Ok(()),
    })
}

/// `connect`: waits while too many others do. Who does not wait for that joins them, up to a few: there is no state in between.
///
/// # Errors
/// `EISCONN`; `ENETUNREACH`, `EAFNOSUPPORT`; `ECONNREFUSED`: nobody listens there; `EADDRNOTAVAIL`: there is no port; `EAGAIN`: too many wait.
pub fn connect<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    version: Version,
    nonblocking: bool,
    to: Endpoint,
) -> Result<(), Stop> {
    let (cpu, header) = (call.cpu, call.cpu.pool.header());
    if socket.state.load(Ordering::Acquire) != SOCKET_NEW {
        return outside::go_on(call, socket, (version, nonblocking));
    }
    let to = match to.reached(port::bound_to(socket)) {
        Err(Errno::ENETUNREACH) => match outside::own(cpu, to) {
            Some(to) => to,
            None => return outside::connect(call, socket, (version, nonblocking), to),
        },
        reached => reached?,
    };
    let find = |from| port::find(cpu, socket.protocol.get(), from, to).ok_or(Errno::ECONNREFUSED);
    if !has_port(socket) {
        // Whoever finds nobody needs no port.
        let from = port::sends_from(socket, to)?;
        let _all = lock(cpu, &header.socket_lock);
        find(from)?;
    }
    port::choose(call, socket, version).map_err(|_| Errno::EADDRNOTAVAIL)?;
    let waits_no_more = waits_no_more(call, nonblocking, socket.timeouts_ns[1].get());
    call.wait_for(&header.socket_waiters, || {
        let _all = lock(cpu, &header.socket_lock);
        // A signal may end the wait: whoever asks then is told that there is no connection.
        socket.error.store(0, Ordering::Release);
        let from = port::sends_from(socket, to)?;
        let listener = find(from)?;
        let how = Joining { excess: if nonblocking { EXCESS_MAX } else { 0 }, is_begun: false };
        if listening::join(cpu, socket, listener, how, |end| introduce([socket, listener, end], [from, to]))? {
            return Ok(Some(()));
        }
        socket.error.store(Errno::ETIMEDOUT as u32, Ordering::Release);
        if waits_no_more { Err(Stop::from(Errno::EAGAIN)) } else { Ok(None) }
    })?;
    rights::free_dropped(cpu); // what a core had connected that died before it was done
    if let Some(file) = cpu.object(socket.file.get()) {
        epoll::queues_have_changed(cpu, file);
    }
    Ok(())
}

/// Tells a socket and the end that its listener is to accept of each other. That end is as the listener.
pub fn introduce([socket, listener, end]: [&SocketRecord; 3], [from, to]: [Endpoint; 2]) {
    end.options.store(listener.options.load(Ordering::Relaxed), Ordering::Relaxed);
    for (to, from) in [(&end.linger_s, &listener.linger_s), (&end.owner, &listener.owner)]
        .into_iter()
        .chain(end.settings.iter().zip(&listener.settings))
        .chain(end.buffers.iter().zip(&listener.buffers))
    {
        to.set(from.get());
    }
    for (to, from) in end.timeouts_ns.iter().zip(&listener.timeouts_ns) {
        to.set(from.get());
    }
    for (to, id) in end.peer.iter().zip(NOBODY) {
        to.set(id);
    }
    end.name_len.set(to.name().store(&end.name));
    end.peer_name_len.set(from.name().store(&end.peer_name));
    socket.peer_name_len.set(to.name().store(&socket.peer_name));
}

/// `connect` to nobody.
///
/// # Errors
/// `EISCONN`: a connection is for good.
pub fn disconnect(socket: &SocketRecord) -> Result<(), Errno> {
    if socket.state.load(Ordering::Acquire) == SOCKET_NEW { Ok(()) } else { Err(Errno::EISCONN) }
}

/// `shutdown` of a connection.
///
/// # Errors
/// `ENOTCONN`.
pub fn shutdown<M: Machine>(
    cpu: &Cpu<M>,
    socket: &'static SocketRecord,
    version: Version,
    how: u32,
) -> Result<(), Errno> {
    let pipes = pipes(cpu, socket).ok_or(Errno::ENOTCONN)?;
    if is_under_way(socket.shut.load(Ordering::Acquire), pipes[0]) {
        outside::give_up(cpu, socket, version);
        return Ok(());
    }
    if how & SHUT_READ != 0 {
        socket.shut.fetch_or(READS_NO_MORE, Ordering::AcqRel);
        wait::wake(cpu, &pipes[0].read_waiters);
    }
    shut(cpu, socket, pipes, how & SHUT_WRITE);
    wait::wake(cpu, &pipes[1].write_waiters);
    Ok(())
}

/// Sends bytes.
///
/// # Errors
/// `EOPNOTSUPP`: urgent ones; `EPIPE`, `ECONNRESET`, `EAGAIN`, `EFAULT`, `ENOMEM`.
pub fn send<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    how: Sending<M>,
    from: &mut Cursor<M>,
) -> SysResult {
    if how.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let signals = how.flags & MSG_NOSIGNAL == 0;
    let sent = send_unless_broken(call, socket, how, from);
    if sent == Err(Stop::Error(Errno::EPIPE)) {
        // Whom it was sent to may have closed meanwhile.
        if let Some(errno) = take_reset(call.cpu, socket) {
            return Err(errno.into());
        }
        if signals {
            signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
        }
    }
    sent
}

fn send_unless_broken<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    how: Sending<M>,
    from: &mut Cursor<M>,
) -> SysResult {
    let [incoming, outgoing] = pipes(call.cpu, socket).ok_or(Errno::EPIPE)?;
    let shut = socket.shut.load(Ordering::Acquire);
    // What was sent before counts, and what has gone wrong since is told next time.
    let begins = call.thread.progress.get() == 0;
    if shut & CONNECTING != 0 {
        outside::wait_until_there(call, socket, incoming, (how.nonblocking, 1))?;
    }
    if begins && let Some(errno) = take_reset(call.cpu, socket) {
        return Err(errno.into());
    }
    if from.remaining() == 0 && shut & (SHUT_WRITE | HAS_LOST) == 0 && !is_reset(incoming) {
        return Ok(0);
    }
    let has_closed = outgoing.readers.load(Ordering::Acquire) == 0 && !is_reset(incoming);
    if begins && has_closed && shut & (SHUT_WRITE | HAS_LOST) == 0 {
        // The answer says that there is nobody any more.
        socket.error.store(Errno::EPIPE as u32, Ordering::Release);
        socket.shut.fetch_or(HAS_LOST, Ordering::AcqRel);
        wait::wake(call.cpu, &incoming.read_waiters);
        return Ok(from.remaining());
    }
    if begins {
        let _ = take_error(call.cpu, socket);
    }
    let address = &Address::NONE;
    let flags = how.flags | MSG_NOSIGNAL;
    stream::send(call, socket, Sending { flags, address, credentials: None, files: None, ..how }, from)
}

/// Receives bytes.
///
/// # Errors
/// `ENOTCONN`; `EINVAL`: urgent ones, of which there are none; `ECONNRESET`, `EAGAIN`, `EFAULT`.
pub fn receive<'c, M: Machine>(
    call: &Call<'c, M>,
    socket: &'static SocketRecord,
    how: Receiving,
    into: &mut Cursor<M>,
    with: &mut Received<'c, M>,
) -> SysResult {
    let [incoming, _] = pipes(call.cpu, socket).ok_or(Errno::ENOTCONN)?;
    if how.flags & MSG_OOB != 0 {
        return Err(Errno::EINVAL.into());
    }
    if socket.shut.load(Ordering::Acquire) & CONNECTING != 0 {
        outside::wait_until_there(call, socket, incoming, (how.nonblocking, 0))?;
    }
    let takes = into.remaining() > 0 && how.flags & MSG_PEEK == 0;
    let received = stream::receive(call, socket, how, into, with)?;
    if takes && incoming.writers.load(Ordering::Acquire) == 0 && pipe::used(incoming) == 0 {
        socket.shut.fetch_or(HAS_READ_END, Ordering::AcqRel);
    }
    Ok(received)
}

/// Bytes that wait, as lists of sockets count them: the end that has come is one until it is read.
pub fn waiting(socket: &SocketRecord, incoming: &PipeRecord, state: State) -> u32 {
    let has_end = state == State::CloseWait && socket.shut.load(Ordering::Acquire) & HAS_READ_END == 0;
    pipe::used(incoming) as u32 + u32::from(has_end)
}

/// What has gone wrong since this was last asked.
pub fn take_error<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<Errno> {
    if let Some(errno) = take_reset(cpu, socket) {
        return Some(errno);
    }
    Errno::from_raw(socket.error.swap(0, Ordering::AcqRel))
}

/// The events (`POLL*`) for which it is ready.
pub fn readiness<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> u16 {
    let Some([incoming, outgoing]) = pipes(cpu, socket) else {
        let listens = state(cpu, socket) == State::Listen;
        let has_error = socket.error.load(Ordering::Acquire) != 0;
        return if listens { listening::readiness(socket) } else { OUTPUT | POLLHUP | if_so(has_error, POLLERR) };
    };
    let state = state_by(socket, Some(incoming));
    if state == State::SynSent {
        return 0;
    }
    let shut = socket.shut.load(Ordering::Acquire);
    let (input, output) = (pipe::readiness(incoming), pipe::readiness(outgoing));
    let is_closed = state == State::Close;
    let no_more = input.no_writer || shut & READS_NO_MORE != 0 || is_closed;
    let has_error = socket.error.load(Ordering::Acquire) != 0 || connection::has_reset(incoming);
    if_so(input.readable || no_more, INPUT)
        | if_so(has_error, POLLERR)
        | if_so(no_more, POLLRDHUP)
        | if_so(is_closed || no_more && shut & SHUT_WRITE != 0, POLLHUP)
        | if_so(output.writable || output.no_reader || shut & SHUT_WRITE != 0 || is_closed, OUTPUT)
}

/// It is about to be closed: its peer is told.
pub fn end<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) {
    listening::end(cpu, socket, is_on(socket, SO_LINGER) && socket.linger_s.get() == 0);
}
