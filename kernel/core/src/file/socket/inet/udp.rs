//! Datagrams (udp(7)): each goes to the queue of whoever is there, or is lost. One to all machines goes to all who receive there.
//!
//! A socket has a queue from its beginning. One that is connected knows its peer by address and port, as that may close and come again.

use motet_abi::{Errno, terminal::*};
use motet_hal::Machine;
use motet_layout::{SOCKET_CONNECTED, SOCKET_NEW, SocketRecord, sync::Ordering};
use motet_protocol::{
    lock::lock,
    pipe::{
        self,
        packet::{Limits, make_room, piece},
    },
    wait,
};

use super::{
    super::{
        OUTPUT_AND_BAND, READS_NO_MORE, SHUT_READ, SHUT_WRITE,
        control::Said,
        family::{Address, Sending},
        flags::{MSG_OOB, SO_BROADCAST, is_on},
        name::Name,
        packet::{self, Queue, fill, queue},
        rights::{self, Packet},
        route,
    },
    IPPROTO_UDP,
    endpoint::{AF_UNSPEC, Endpoint, Version},
    options::is_v6_only,
    origin::{self, Origin},
    port,
    tcp::State,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{INPUT, if_so},
};

/// Bytes of the longest packet of the internet's protocols.
const PACKET_MAX: u64 = 65535;
/// Those of the longest one to another machine: it is sent as one.
const OUTSIDE_MAX: u64 = 1500;
/// Those of the headers of a datagram, which version 4 counts.
const HEADERS: [u64; 2] = [28, 8];

/// `connect`: says where a socket sends, and from whom it receives. `to` is none: nobody.
///
/// # Errors
/// `ENETUNREACH`, `EAFNOSUPPORT`; `EACCES`: broadcasts are not allowed; `EAGAIN`: there is no port.
pub fn connect<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    version: Version,
    to: Option<Endpoint>,
) -> Result<(), Errno> {
    let to = match to {
        Some(to) => Some(reached(call.cpu, socket, to)?),
        None => None,
    };
    if to.is_some() {
        port::choose(call, socket, version).map_err(|_| Errno::EAGAIN)?;
    }
    let _all = lock(call.cpu, &call.cpu.pool.header().socket_lock);
    socket.state.store(SOCKET_NEW, Ordering::Release);
    match to {
        Some((to, is_outside)) => {
            let from = match is_outside {
                true => route::to(call.cpu, route::DATAGRAMS, port::own_address(socket), to.address)?.address,
                false => version.any(),
            };
            port::take_address(call.cpu, socket, from);
            socket.peer_name_len.set(to.name().store(&socket.peer_name));
            socket.state.store(SOCKET_CONNECTED, Ordering::Release);
        }
        None => {
            port::take_address(call.cpu, socket, version.any());
            port::forget_chosen(call.cpu, socket);
        }
    }
    Ok(())
}

/// Whom one reaches, and whether that is another machine.
fn reached<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, to: Endpoint) -> Result<(Endpoint, bool), Errno> {
    if to.is_broadcast() {
        return if is_on(socket, SO_BROADCAST) { Ok((to, false)) } else { Err(Errno::EACCES) };
    }
    let own = port::bound_to(socket);
    match to.reached(own) {
        Err(Errno::ENETUNREACH) if route::leads_to(cpu, to.address) => Ok((to, false)),
        Err(Errno::ENETUNREACH) => {
            let _all = lock(cpu, &cpu.pool.header().socket_lock);
            route::to(cpu, route::DATAGRAMS, port::own_address(socket), to.address).map(|_| (to, true))
        }
        reached => {
            let to = reached?;
            port::sends_from(socket, to).map(|_| (to, false))
        }
    }
}

/// Where a datagram goes.
///
/// # Errors
/// `EDESTADDRREQ`: nobody says so; `EINVAL`, `EAFNOSUPPORT`, `ENETUNREACH`, `EACCES`.
fn destination<M: Machine>(
    cpu: &Cpu<M>,
    socket: &SocketRecord,
    version: Version,
    address: &Address,
) -> Result<(Endpoint, bool), Errno> {
    let is_none = address.bytes().is_empty() || version == Version::V6 && address.family() == Some(AF_UNSPEC);
    if is_none {
        let to = port::peer_of(socket).ok_or(Errno::EDESTADDRREQ)?;
        return if to.is_own() { Ok((to, false)) } else { reached(cpu, socket, to) };
    }
    let to = match version {
        Version::V4 => Endpoint::of_unspecified(address, version, false)?,
        Version::V6 if address.family() == Some(Version::V4.family()) => Endpoint::of(address, Version::V4)?,
        Version::V6 => Endpoint::of(address, version).map_err(|_| Errno::EINVAL)?,
    };
    if to.port == 0 {
        return Err(Errno::EINVAL);
    }
    if is_v6_only(socket) && to.is_v4() {
        return Err(Errno::ENETUNREACH);
    }
    reached(cpu, socket, to)
}

/// Sends a datagram. It is lost if nobody is there, or has no room.
///
/// # Errors
/// Those of [`destination`]; `EMSGSIZE`; what has gone wrong since this was last asked; `EPIPE`, `ENOBUFS`, `EFAULT`.
pub fn send<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    version: Version,
    how: Sending<M>,
    from: &mut Cursor<M>,
) -> SysResult {
    if how.flags & MSG_OOB != 0 && version == Version::V4 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let (to, is_outside) = destination(call.cpu, socket, version, how.address)?;
    let len = from.remaining();
    let most = if is_outside { OUTSIDE_MAX } else { PACKET_MAX };
    if len > most - HEADERS[usize::from(!to.is_v4())] {
        return Err(Errno::EMSGSIZE.into());
    }
    if let Some(errno) = take_error(socket) {
        return Err(errno.into());
    }
    if socket.shut.load(Ordering::Acquire) & SHUT_WRITE != 0 {
        return Err(Errno::EPIPE.into());
    }
    port::choose(call, socket, version).map_err(|_| Errno::EAGAIN)?;
    if is_outside {
        send_outside(call, socket, &how.said, to, from)?;
        return Ok(len);
    }
    let own = port::sends_from(socket, to)?;
    let origin = origin::of_sent(socket, &how.said, [own, to], call.cpu.realtime_ns())?;
    let own = origin.from;
    // Its bytes are read, whether anybody is there or not.
    let packet = fill(call, None, from)?;
    packet.record().name_len.set(origin.name().store(&packet.record().name));
    if to.is_broadcast() {
        broadcast(call, socket, [own, to], &packet);
        return Ok(len);
    }
    let receiver = receiver(call.cpu, || port::find(call.cpu, socket.protocol.get(), own, to));
    if !receiver.is_some_and(|receiver| deliver(call.cpu, socket.incoming.load(Ordering::Relaxed), receiver, packet)) {
        refuse(call.cpu, socket, to);
    }
    Ok(len)
}

/// Sends a datagram to another machine, by a gateway. It is lost without room there.
fn send_outside<M: Machine>(
    call: &Call<M>,
    socket: &SocketRecord,
    said: &Said,
    to: Endpoint,
    from: &mut Cursor<M>,
) -> Result<(), Stop> {
    let (cpu, own) = (call.cpu, port::bound_to(socket));
    let (receiver, address) = {
        let _all = lock(cpu, &cpu.pool.header().socket_lock);
        let route = route::to(cpu, route::DATAGRAMS, port::own_address(socket), to.address)?;
        let queue = queue(cpu, route.gateway).ok_or(Errno::ENETUNREACH)?;
        ((Queue::new(cpu, queue), route.gateway.buffers[1].get()), route.address)
    };
    let own = Endpoint { address, port: own.map_or(0, |own| own.port) };
    let origin = origin::of_sent(socket, said, [own, to], cpu.realtime_ns())?;
    let packet = fill(call, None, from)?;
    packet.record().name_len.set(origin.name().store(&packet.record().name));
    deliver(cpu, 0, receiver, packet);
    Ok(())
}

/// Another machine has sent a datagram here. It is lost if nobody is there, or has no room.
pub fn arrive<M: Machine>(cpu: &Cpu<M>, origin: &Origin, bytes: &[u8]) {
    let to = Endpoint { address: origin.to, port: origin.port };
    let found = receiver(cpu, || port::find(cpu, IPPROTO_UDP, origin.from, to));
    let Some((found, packet)) = found.and_then(|found| Some((found, Packet::new(cpu).ok()?))) else { return };
    if make_room(cpu, packet.record(), bytes.len()).is_err() {
        return;
    }
    let mut done = 0;
    while done < bytes.len() {
        let (to, here) = piece(cpu, packet.record(), done);
        cpu.pool.write(to, &bytes[done..done + here]);
        done += here;
    }
    packet.record().name_len.set(origin.name().store(&packet.record().name));
    deliver(cpu, 0, found, packet);
}

/// Sends a copy of a packet to each who receives there. What has come or gone meanwhile may get none, or another one.
fn broadcast<M: Machine>(call: &Call<M>, socket: &SocketRecord, [own, to]: [Endpoint; 2], packet: &Packet<M>) {
    let cpu = call.cpu;
    for index in 0..port::SHARERS_MAX {
        let found = receiver(cpu, || port::find_one(cpu, socket.protocol.get(), [own, to], index));
        let Some(receiver) = found else { break };
        if let Ok(copy) = copy_of(call, packet) {
            // If it has closed, nobody is told.
            let _ = deliver(cpu, socket.incoming.load(Ordering::Relaxed), receiver, copy);
        }
        call.serve_due(cost::STEP);
    }
}

/// Another packet with the same sender and bytes.
fn copy_of<'c, M: Machine>(call: &Call<'c, M>, packet: &Packet<M>) -> Result<Packet<'c, M>, Errno> {
    let (cpu, from, copy) = (call.cpu, packet.record(), Packet::new(call.cpu)?);
    let len = from.len.get() as usize;
    make_room(cpu, copy.record(), len)?;
    copy.record().name_len.set(Name::of_sender(from).store(&copy.record().name));
    let mut done = 0;
    while done < len {
        // Both lie in the same pieces.
        let ((from, here), (to, _)) = (piece(cpu, from, done), piece(cpu, copy.record(), done));
        cpu.pool.copy(from, to, here);
        done += here;
        call.serve_due(cost::PAGE + cost::bytes(here as u64));
    }
    Ok(copy)
}

/// The queue of who receives something, and how much it may hold.
type Receiver<'c, M> = (Queue<'c, M>, u32);

/// That of the socket that is found.
fn receiver<'c, M: Machine>(
    cpu: &'c Cpu<M>,
    find: impl FnOnce() -> Option<&'static SocketRecord>,
) -> Option<Receiver<'c, M>> {
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    let other = find()?;
    Some((Queue::new(cpu, queue(cpu, other)?), other.buffers[1].get()))
}

/// Puts a packet of whose queue is at `from` (pool address, 0: of none) into a queue, if there is room. `false`: whose queue it is has closed.
fn deliver<M: Machine>(cpu: &Cpu<M>, from: u64, (queue, room): Receiver<M>, packet: Packet<M>) -> bool {
    let limits = Limits { from, cost: room, packets: u32::MAX, by_writer: false };
    match rights::push(cpu, queue.record(), &packet, limits) {
        Ok(true) => _ = packet.release(),
        Ok(false) => {}
        Err(_) => return false,
    }
    true
}

/// Nobody was there: who is connected hears that.
fn refuse<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, to: Endpoint) {
    if port::peer_of(socket) == Some(to) && !to.is_broadcast() {
        socket.error.store(Errno::ECONNREFUSED as u32, Ordering::Release);
        if let Some(own) = queue(cpu, socket) {
            wait::wake(cpu, &own.read_waiters);
        }
    }
}

/// `shutdown`.
///
/// # Errors
/// `ENOTCONN`: it is not connected. It is done all the same.
pub fn shutdown<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, how: u32) -> Result<(), Errno> {
    if how & SHUT_READ != 0 {
        // Others may go on.
        socket.shut.fetch_or(READS_NO_MORE, Ordering::AcqRel);
    }
    packet::shut(cpu, socket, how & SHUT_WRITE);
    if socket.state.load(Ordering::Acquire) == SOCKET_CONNECTED { Ok(()) } else { Err(Errno::ENOTCONN) }
}

/// The state of a socket, as Linux numbers those of connections.
pub fn state(socket: &SocketRecord) -> State {
    if port::peer_of(socket).is_some() { State::Established } else { State::Close }
}

/// What has gone wrong since this was last asked.
pub fn take_error(socket: &SocketRecord) -> Option<Errno> {
    Errno::from_raw(socket.error.swap(0, Ordering::AcqRel))
}

/// The events (`POLL*`) for which it is ready.
pub fn readiness<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> u16 {
    let shut = socket.shut.load(Ordering::Acquire);
    let has_packets = queue(cpu, socket).is_some_and(|own| pipe::used(own) > 0);
    let no_more = shut & READS_NO_MORE != 0;
    if_so(has_packets || no_more, INPUT)
        | if_so(socket.error.load(Ordering::Acquire) != 0, POLLERR)
        | if_so(no_more, POLLRDHUP)
        | if_so(no_more && shut & SHUT_WRITE != 0, POLLHUP)
        | OUTPUT_AND_BAND
}
