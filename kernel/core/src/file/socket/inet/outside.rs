//! Connections to other machines, as their programs' sockets see them: they are those of this machine, but for the time until it is known whether there is one.
//!
//! The far end of such a connection is a gateway's ([`gateway`](super::gateway)). A socket has its pipes from when it asks. The far end opens its end for writing when the
//! other machine has answered, or says why there is no connection: so it is *under way* as long as neither has happened.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{PipeRecord, SOCKET_NEW, SocketRecord, sync::Ordering};
use motet_protocol::{Context, lock::lock};

use super::{
    super::{
        connection::{self, is_reset, pipes, take_reset},
        listening::{self, Joining},
        rights,
        route::{self, Route},
        waits_no_more,
    },
    endpoint::{Endpoint, Version},
    options, port,
};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
    file::readiness::epoll,
};

/// [`SocketRecord::shut`]: it is being connected to another machine, or nobody has been told yet that it was.
pub const CONNECTING: u32 = 32;

/// Whether it is not known yet whether a socket's peer answers.
pub fn is_under_way(shut: u32, incoming: &PipeRecord) -> bool {
    shut & CONNECTING != 0 && incoming.writer_opens.load(Ordering::Acquire) == 0 && !is_reset(incoming)
}

/// Whom one reaches at an address of this machine's devices.
pub fn own<M: Machine>(cpu: &Cpu<M>, to: Endpoint) -> Option<Endpoint> {
    route::leads_to(cpu, to.address).then_some(to)
}

/// `connect` to another machine.
///
/// # Errors
/// `ENETUNREACH`, `EINVAL`: no device leads there (from the socket's address); `EADDRNOTAVAIL`: there is no port; `EAGAIN`: too many want to be connected; `EINPROGRESS`:
/// the call does not wait; those of [`go_on`].
pub fn connect<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    (version, nonblocking): (Version, bool),
    to: Endpoint,
) -> Result<(), Stop> {
    let (cpu, header) = (call.cpu, call.cpu.pool.header());
    let find = || route::to(cpu, route::REQUESTS, port::own_address(socket), to.address);
    {
        // Who reaches nobody needs no port.
        let _all = lock(cpu, &header.socket_lock);
        find()?;
    }
    port::choose(call, socket, version).map_err(|_| Errno::EADDRNOTAVAIL)?;
    {
        let _all = lock(cpu, &header.socket_lock);
        let Route { gateway, address } = find()?;
        port::take_address(cpu, socket, address);
        let own = port::bound_to(socket).ok_or(Errno::EADDRNOTAVAIL)?;
        let introduce = |end: &SocketRecord| {
            end.owner.set(socket.owner.get());
            end.name_len.set(to.name().store(&end.name));
            end.peer_name_len.set(Endpoint { address, port: own.port }.name().store(&end.peer_name));
            socket.peer_name_len.set(to.name().store(&socket.peer_name));
            socket.error.store(0, Ordering::Release);
            socket.shut.fetch_or(CONNECTING, Ordering::AcqRel);
        };
        if !listening::join(cpu, socket, gateway, Joining { excess: 0, is_begun: true }, introduce)? {
            return Err(Errno::EAGAIN.into());
        }
    }
    rights::free_dropped(cpu); // what a core had connected that died before it was done
    if let Some(file) = cpu.object(socket.file.get()) {
        epoll::queues_have_changed(cpu, file);
    }
    if nonblocking { Err(Errno::EINPROGRESS.into()) } else { go_on(call, socket, (version, false)) }
}

/// `connect` of a socket that is connected, or is being: waits until it is known.
///
/// # Errors
/// `EISCONN`; `EALREADY`: it is under way, and the call does not wait; `EINPROGRESS`: the socket's time for that is over; why there is no connection (`ECONNREFUSED`,
/// `ETIMEDOUT`, …), `ECONNABORTED`: that was told before.
pub fn go_on<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    (version, nonblocking): (Version, bool),
) -> Result<(), Stop> {
    if socket.shut.load(Ordering::Acquire) & CONNECTING == 0 {
        return Err(Errno::EISCONN.into());
    }
    let [incoming, _] = pipes(call.cpu, socket).ok_or(Errno::EISCONN)?;
    let no_more = waits_no_more(call, nonblocking, socket.timeouts_ns[1].get());
    call.wait_for(&incoming.read_waiters, || match is_under_way(socket.shut.load(Ordering::Acquire), incoming) {
        true if nonblocking => Err(Stop::from(Errno::EALREADY)),
        true if no_more => Err(Stop::from(Errno::EINPROGRESS)),
        true => Ok(None),
        false => Ok(Some(())),
    })?;
    Ok(settle(call.cpu, socket, version, incoming)?)
}

/// It is known whether there is a connection. If there is none, the socket is as before.
fn settle<M: Machine>(
    cpu: &Cpu<M>,
    socket: &'static SocketRecord,
    version: Version,
    incoming: &PipeRecord,
) -> Result<(), Errno> {
    if incoming.writer_opens.load(Ordering::Acquire) != 0 {
        socket.shut.fetch_and(!CONNECTING, Ordering::AcqRel);
        return Ok(());
    }
    let errno = take_reset(cpu, socket).unwrap_or(Errno::ECONNABORTED);
    give_up(cpu, socket, version);
    Err(errno)
}

/// A socket is not to be connected any more, and as before.
pub fn give_up<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord, version: Version) {
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    if socket.shut.load(Ordering::Acquire) & CONNECTING == 0 {
        return; // another thread was first
    }
    connection::end_begun(cpu, socket);
    if !options::has_own_address(socket) {
        port::take_address(cpu, socket, version.any());
    }
    socket.state.store(SOCKET_NEW, Ordering::Release);
    socket.shut.fetch_and(!CONNECTING, Ordering::AcqRel);
}

/// Who sends or receives (`side` 1, 0) waits until it is known whether there is a connection.
///
/// # Errors
/// `EAGAIN`: the call does not wait, or not any longer.
pub fn wait_until_there<M: Machine>(
    call: &Call<M>,
    socket: &SocketRecord,
    incoming: &'static PipeRecord,
    (nonblocking, side): (bool, usize),
) -> Result<(), Stop> {
    let is_under_way = || is_under_way(socket.shut.load(Ordering::Acquire), incoming);
    if !is_under_way() {
        return Ok(());
    }
    let no_more = waits_no_more(call, nonblocking, socket.timeouts_ns[side].get());
    call.wait_for(&incoming.read_waiters, || match is_under_way() {
        true if no_more => Err(Stop::from(Errno::EAGAIN)),
        true => Ok(None),
        false => Ok(Some(())),
    })
}
