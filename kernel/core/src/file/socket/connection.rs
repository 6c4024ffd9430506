//! Connections: two pipes, one for each direction.
//!
//! A socket reads from one and writes to the other; its record holds references to both. The pipes of a stream carry bytes, the others' are queues of packets.

use motet_abi::{Errno, terminal::*};
use motet_hal::Machine;
use motet_layout::{
    PipeRecord, PoolAddr, RESET_FOR, RESET_IS, RESET_NOT, RESET_TOLD, SOCKET_CONNECTED, SocketRecord, in_order,
    sync::Ordering,
};
use motet_protocol::{Context, pipe, wait};

use super::{OUTPUT_AND_BAND, READS_NO_MORE, SHUT_READ, SHUT_WRITE, SOCK_STREAM, flags::DATAGRAMS_MAX, rights};
use crate::{
    cpu::Cpu,
    description::kind::{INPUT, if_so},
};

/// The pipes of a connected socket, of streams or packets: what it reads from and what it writes to.
pub fn pipes<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<[&'static PipeRecord; 2]> {
    if socket.state.load(Ordering::Acquire) != SOCKET_CONNECTED {
        return None;
    }
    own_pipes(cpu, socket)
}

/// The same, though it may not be connected: a core that was connecting it has died, or is this one.
fn own_pipes<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<[&'static PipeRecord; 2]> {
    if socket.outgoing.load(Ordering::Acquire) == 0 {
        return None;
    }
    Some([&socket.incoming, &socket.outgoing].map(|pipe| cpu.pool.at(PoolAddr(pipe.load(Ordering::Relaxed)))))
}

/// The same of a socket that may be half made or half gone, each as far as it is there.
pub fn seen_pipes<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> [Option<&'static PipeRecord>; 2] {
    [&socket.incoming, &socket.outgoing].map(|pipe| cpu.pool.get(PoolAddr(pipe.load(Ordering::Acquire))))
}

/// Gives two sockets that nobody else knows yet, or whose locks are held, what connects them. They are not [connected](set_connected) yet. `is_begun`: it is not
/// known yet whether there will be a connection, so the second one cannot write.
///
/// # Errors
/// `ENOMEM`.
pub fn connect_pair<M: Machine>(
    cpu: &Cpu<M>,
    one: &'static SocketRecord,
    two: &'static SocketRecord,
    is_begun: bool,
) -> Result<(), Errno> {
    forget_unfinished(cpu, one);
    let there = pipe::create(cpu).ok_or(Errno::ENOMEM)?;
    let Some(back) = pipe::create(cpu) else {
        pipe::put(cpu, there);
        return Err(Errno::ENOMEM);
    };
    for pipe in [there, back] {
        pipe.refs.fetch_add(1, Ordering::Relaxed); // each of the two has it, whichever of its ends are open
        if one.kind.get() != SOCK_STREAM {
            pipe.packets_max.set(DATAGRAMS_MAX);
        }
    }
    for (socket, incoming, outgoing) in [(one, back, there), (two, there, back)] {
        incoming.reader.store(cpu.raw(socket), Ordering::Relaxed);
        socket.shut.store(SHUT_READ | SHUT_WRITE, Ordering::Relaxed);
        pipe::open(cpu, incoming, pipe::READER, &socket.shut);
        if !is_begun || core::ptr::eq(socket, one) {
            pipe::open(cpu, outgoing, pipe::WRITER, &socket.shut);
        }
        socket.incoming.store(cpu.raw(incoming), Ordering::Relaxed);
        socket.outgoing.store(cpu.raw(outgoing), Ordering::Relaxed);
    }
    Ok(())
}

/// Ends a connection that a core was making of this socket when it died: the other end may wait to be accepted, or was. The socket's lock may be held.
fn forget_unfinished<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) {
    let Some([incoming, _]) = end_directions(cpu, socket, true) else { return };
    rights::purge_later(cpu, incoming);
    for pipe in [&socket.outgoing, &socket.incoming] {
        if let Some(old) = cpu.object::<PipeRecord>(pipe.swap(0, Ordering::AcqRel)) {
            pipe::put(cpu, old);
        }
    }
}

/// From now on a socket is one of a [pair](connect_pair).
pub fn set_connected(socket: &SocketRecord) {
    in_order();
    socket.state.store(SOCKET_CONNECTED, Ordering::Release);
}

/// Ends directions of a connection (`SHUT_*`), as far as this socket has not.
pub fn shut<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, [incoming, outgoing]: [&'static PipeRecord; 2], how: u32) {
    // Whoever watches a socket, for whatever events, waits where that socket reads: each of both ends is told.
    if pipe::close(cpu, incoming, how & SHUT_READ, &socket.shut) != 0 {
        wait::wake(cpu, &incoming.read_waiters);
        wait::wake(cpu, &outgoing.read_waiters);
        pipe::put(cpu, incoming);
    }
    if pipe::close(cpu, outgoing, how & SHUT_WRITE, &socket.shut) != 0 {
        wait::wake(cpu, &outgoing.write_waiters);
        wait::wake(cpu, &incoming.read_waiters);
        pipe::put(cpu, outgoing);
    }
}

/// Whether a socket reads what has come, and nothing after that.
pub fn reads_no_more(socket: &SocketRecord) -> bool {
    socket.shut.load(Ordering::Acquire) & (SHUT_READ | READS_NO_MORE) != 0
}

/// Ends a connection, and drops what nobody receives any more. May be done twice.
pub fn end<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, resets: bool) {
    if let Some([incoming, _]) = end_directions(cpu, socket, resets) {
        rights::purge(cpu, incoming);
    }
}

fn end_directions<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, resets: bool) -> Option<[&'static PipeRecord; 2]> {
    let pipes = own_pipes(cpu, socket)?;
    let [incoming, outgoing] = pipes;
    if pipe::used(incoming) > 0 || resets {
        reset(cpu, outgoing, RESET_IS);
    }
    shut(cpu, socket, pipes, SHUT_READ | SHUT_WRITE);
    Some(pipes)
}

/// Ends a connection, whose other end is told why, unless it was told something before. May be done twice.
pub fn end_for<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, errno: Errno) {
    if let Some([_, outgoing]) = own_pipes(cpu, socket) {
        reset(cpu, outgoing, RESET_FOR + errno as u32);
    }
    end(cpu, socket, true);
}

/// Ends a connection that was begun, whose other end is told so. No packets wait there.
pub fn end_begun<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) {
    end_directions(cpu, socket, true);
}

/// Once: it may have been told already.
fn reset<M: Machine>(cpu: &Cpu<M>, outgoing: &'static PipeRecord, how: u32) {
    if outgoing.reset.compare_exchange(RESET_NOT, how, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        // The writer's end may be closed since long.
        wait::wake(cpu, &outgoing.read_waiters);
    }
}

/// What a pipe's reader is to be told, if it has not been.
fn errno_of(reset: u32) -> Option<Errno> {
    match reset {
        RESET_NOT | RESET_TOLD => None,
        RESET_IS => Some(Errno::ECONNRESET),
        other => Some(other.checked_sub(RESET_FOR).and_then(Errno::from_raw).unwrap_or(Errno::ECONNRESET)),
    }
}

/// Whether the peer has closed the connection and not read all that was sent to it (`ECONNRESET`), or why else it has ended. It is said once.
pub fn take_reset<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<Errno> {
    let [incoming, _] = pipes(cpu, socket)?;
    let said = incoming.reset.load(Ordering::Acquire);
    let errno = errno_of(said)?;
    let told = incoming.reset.compare_exchange(said, RESET_TOLD, Ordering::AcqRel, Ordering::Relaxed);
    told.is_ok().then_some(errno)
}

/// Whether it has, also if that was said.
pub fn is_reset(incoming: &PipeRecord) -> bool {
    incoming.reset.load(Ordering::Acquire) != RESET_NOT
}

/// Whether [`take_reset`] would say so.
pub fn has_reset(incoming: &PipeRecord) -> bool {
    errno_of(incoming.reset.load(Ordering::Acquire)).is_some()
}

/// The events (`POLL*`) for which a connected socket is ready.
pub fn readiness(socket: &SocketRecord, [incoming, outgoing]: [&'static PipeRecord; 2]) -> u16 {
    let shut = socket.shut.load(Ordering::Acquire);
    let (input, output) = (pipe::readiness(incoming), pipe::readiness(outgoing));
    let no_more = input.no_writer || shut & SHUT_READ != 0;
    let hung_up = no_more && (output.no_reader || shut & SHUT_WRITE != 0);
    let writable = output.writable && has_room(socket, outgoing);
    if_so(input.readable || no_more, INPUT)
        | if_so(has_reset(incoming), POLLERR)
        | if_so(no_more, POLLRDHUP)
        | if_so(hung_up, POLLHUP)
        | if_so(writable || output.no_reader, OUTPUT_AND_BAND)
}

/// Counts that tell whether anything has come to a connected socket, for reading and for writing: also that a direction has ended, or the connection was reset.
/// `hears`: it is told that its peer reads no more.
pub fn arrivals(
    socket: &SocketRecord,
    [incoming, outgoing]: [&'static PipeRecord; 2],
    hears: bool,
) -> [Option<u64>; 2] {
    let is_reset = is_reset(incoming);
    let is_alone = hears && outgoing.readers.load(Ordering::Acquire) == 0;
    // Far above what the pipes count.
    let ends = u64::from(socket.shut.load(Ordering::Acquire)) << 2 | u64::from(is_reset) << 1 | u64::from(is_alone);
    let counts = [pipe::arrivals(incoming)[0], pipe::arrivals(outgoing)[1]];
    counts.map(|count| Some(count.wrapping_add(ends << 58)))
}

/// Whether a socket that waits for room is told: three quarters of what its packets may take are free (as on Linux).
pub fn has_room(socket: &SocketRecord, outgoing: &PipeRecord) -> bool {
    u64::from(outgoing.cost.get()) * 4 <= u64::from(socket.buffers[0].get())
}
