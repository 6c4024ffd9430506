//! Datagrams: sockets without connections. Each has a queue; a connected one has a reference to that of its peer.

use motet_abi::{Errno, terminal::*};
use motet_hal::Machine;
use motet_layout::{PipeRecord, SOCKET_CONNECTED, SOCKET_NEW, SocketRecord, WaitQueue, sync::Ordering};
use motet_protocol::{Context, lock::lock, pipe, wait};

use super::{
    super::{
        OUTPUT_AND_BAND, SHUT_READ, SHUT_WRITE,
        connection::has_room,
        family::Address,
        flags::{DATAGRAMS_MAX, SO_PASSCRED, is_on},
        name::Name,
        packet::{self, Queue, queue},
        rights,
    },
    name::{self, Place},
};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
    description::kind::{INPUT, if_so},
};

const AF_UNSPEC: u32 = 0;

/// Connects two new sockets to each other.
pub fn pair<M: Machine>(cpu: &Cpu<M>, [one, two]: [&'static SocketRecord; 2]) {
    for (socket, other) in [(one, two), (two, one)] {
        if let Some(queue) = queue(cpu, other) {
            set_peer_queue(cpu, socket, Some(Queue::new(cpu, queue)));
        }
    }
}

/// From now on a socket sends to that queue, and only its owner sends to the socket.
fn set_peer_queue<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, to: Option<Queue<M>>) {
    let raw = to.map_or(0, |queue| cpu.raw(queue.release()));
    if let Some(own) = queue(cpu, socket) {
        {
            let _guard = lock(cpu, &own.lock); // what comes afterwards is from the new one
            own.sender.store(raw, Ordering::Release);
        }
        wait::wake(cpu, &own.write_waiters); // others may wait for room
    }
    let before = cpu.object::<PipeRecord>(socket.outgoing.swap(raw, Ordering::AcqRel));
    if let Some(before) = before {
        pipe::put(cpu, before);
    }
}

/// `connect`: says where the socket sends, and from whom it receives.
pub fn connect<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, address: &Address) -> Result<(), Stop> {
    let cpu = call.cpu;
    match address.family() {
        Some(AF_UNSPEC) => disconnect(cpu, socket),
        _ => connect_to(call, socket, address)?,
    }
    rights::free_dropped(cpu);
    wait::wake(cpu, room_waiters(cpu));
    Ok(())
}

fn connect_to<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, address: &Address) -> Result<(), Stop> {
    let cpu = call.cpu;
    let place = Place::of(call, address)?;
    if is_on(socket, SO_PASSCRED) {
        name::choose(cpu, socket)?;
    }
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    let other = place.socket(cpu, socket.kind.get())?;
    let to = queue_for(cpu, socket, other)?;
    let _guard = lock(cpu, &socket.lock);
    turn(cpu, socket, Some(to));
    socket.peer_name_len.set(Name::own(other).store(&socket.peer_name));
    socket.state.store(SOCKET_CONNECTED, Ordering::Release);
    Ok(())
}

/// Sends to nobody, and receives from anybody.
fn disconnect<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) {
    let _guard = lock(cpu, &socket.lock);
    socket.state.store(SOCKET_NEW, Ordering::Release);
    turn(cpu, socket, None);
}

/// A socket that is locked sends to another queue from now on. What its peer has sent before is dropped.
fn turn<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, to: Option<Queue<M>>) {
    let before = cpu.object::<PipeRecord>(socket.outgoing.load(Ordering::Acquire));
    let before = before.map(|queue| Queue::new(cpu, queue));
    set_peer_queue(cpu, socket, to);
    if let Some(before) = before
        && socket.outgoing.load(Ordering::Relaxed) != cpu.raw(before.record())
    {
        drop_of_peer(cpu, socket, before.record());
    }
}

/// Drops what has come to a socket that turns away from a peer. If there was something, a peer that is connected to the socket is told (`ECONNRESET`).
fn drop_of_peer<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, peer: &'static PipeRecord) {
    let Some(own) = queue(cpu, socket) else { return };
    if pipe::used(own) == 0 {
        return;
    }
    rights::purge_later(cpu, own);
    if peer.sender.load(Ordering::Acquire) == cpu.raw(own) {
        {
            let _guard = lock(cpu, &peer.lock); // so the reader is not closed
            if let Some(other) = cpu.object::<SocketRecord>(peer.reader.load(Ordering::Relaxed)) {
                other.error.store(Errno::ECONNRESET as u32, Ordering::Release);
            }
        }
        wait::wake(cpu, &peer.read_waiters);
    }
}

/// The queue of a socket to which another one may send. What is bound is locked, so that it exists.
///
/// # Errors
/// `EPERM`: it receives from somebody else only; `ECONNREFUSED`.
pub fn queue_for<'c, M: Machine>(
    cpu: &'c Cpu<M>,
    socket: &SocketRecord,
    other: &SocketRecord,
) -> Result<Queue<'c, M>, Errno> {
    let to = queue(cpu, other).ok_or(Errno::ECONNREFUSED)?;
    match to.sender.load(Ordering::Acquire) {
        sender if sender == 0 || sender == socket.incoming.load(Ordering::Relaxed) => Ok(Queue::new(cpu, to)),
        _ => Err(Errno::EPERM),
    }
}

/// The queue that a socket is connected to.
///
/// # Errors
/// `ENOTCONN`.
pub fn peer_queue<'c, M: Machine>(cpu: &'c Cpu<M>, socket: &SocketRecord) -> Result<Queue<'c, M>, Errno> {
    // Another thread may connect it to another one.
    let _guard = lock(cpu, &socket.lock);
    let to = cpu.object::<PipeRecord>(socket.outgoing.load(Ordering::Acquire)).ok_or(Errno::ENOTCONN)?;
    Ok(Queue::new(cpu, to))
}

/// The peer of a socket has gone: it is connected to nobody any more. The caller frees what is dropped.
pub fn lose_peer<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, to: &PipeRecord) {
    {
        let _guard = lock(cpu, &socket.lock);
        let peer = cpu.object::<PipeRecord>(socket.outgoing.load(Ordering::Acquire));
        if !peer.is_some_and(|peer| core::ptr::eq(peer, to)) {
            return;
        }
        socket.state.store(SOCKET_NEW, Ordering::Release);
        turn(cpu, socket, None);
    }
    wait::wake(cpu, room_waiters(cpu));
}

/// Those who wait until there is room for a datagram anywhere, without sending one (`poll`). A peer's queue may go while they wait, this one does not.
pub fn room_waiters<M: Machine>(cpu: &Cpu<M>) -> &'static WaitQueue {
    &cpu.pool.header().socket_waiters
}

/// `shutdown`.
pub fn shut<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, how: u32) {
    packet::shut(cpu, socket, how);
    wait::wake(cpu, room_waiters(cpu));
}

/// The socket is about to be closed. May be done twice.
pub fn end<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) {
    packet::end(cpu, socket);
    wait::wake(cpu, room_waiters(cpu));
}

/// Whether a socket and the owner of a queue send to each other.
pub fn is_mutual(socket: &SocketRecord, to: &PipeRecord) -> bool {
    to.sender.load(Ordering::Acquire) == socket.incoming.load(Ordering::Relaxed)
}

/// The events (`POLL*`) for which it is ready.
pub fn readiness<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> u16 {
    let shut = socket.shut.load(Ordering::Acquire);
    let has_packets = queue(cpu, socket).is_some_and(|own| pipe::used(own) > 0);
    let writable = peer_queue(cpu, socket).map_or(true, |to| {
        let to = to.record();
        has_room(socket, to) && (is_mutual(socket, to) || pipe::used(to) <= DATAGRAMS_MAX as usize)
    });
    let has_error = socket.error.load(Ordering::Acquire) != 0;
    if_so(has_packets || shut & SHUT_READ != 0, INPUT)
        | if_so(has_error, POLLERR)
        | if_so(shut & SHUT_READ != 0, POLLRDHUP)
        | if_so(shut & (SHUT_READ | SHUT_WRITE) == SHUT_READ | SHUT_WRITE, POLLHUP)
        | if_so(writable, OUTPUT_AND_BAND)
}

/// What has come, and what has gone.
pub fn arrivals<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> [Option<u64>; 2] {
    let own = queue(cpu, socket).map(|own| packet::arrivals(socket, own));
    [own, peer_queue(cpu, socket).ok().map(|to| pipe::arrivals(to.record())[1])]
}
