//! Connections: those that are asked for, and those that are accepted.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{SOCKET_CONNECTED, SOCKET_LISTENING, SOCKET_NEW, SocketRecord, in_order, sync::Ordering};
use motet_protocol::{Context, lock::lock, slab, wait};

use super::{
    super::{
        SHUT_READ,
        family::Address,
        options::{BUFFER, SO_PASSCRED, is_on},
        rights, waits_no_more,
    },
    connect_pair,
    name::{self, Name, Place},
    own_credentials, pipes, set_connected, set_peer, shut,
};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
    file::readiness::epoll,
};

/// Connections that wait to be accepted, at most (Linux's `net.core.somaxconn`).
const BACKLOG_MAX: u32 = 4096;

/// `listen`.
pub fn listen<M: Machine>(call: &Call<M>, socket: &SocketRecord, backlog: u32) -> Result<(), Errno> {
    if socket.is_bound.get() == 0 {
        return Err(Errno::EINVAL);
    }
    let _guard = lock(call.cpu, &socket.lock);
    if socket.state.load(Ordering::Relaxed) == SOCKET_CONNECTED {
        return Err(Errno::EINVAL);
    }
    socket.backlog.set(backlog.min(BACKLOG_MAX));
    set_peer(socket, own_credentials(call)); // what those who connect are told
    socket.state.store(SOCKET_LISTENING, Ordering::Release);
    // There may be room for those who wait to connect.
    wait::wake(call.cpu, &call.cpu.pool.header().socket_waiters);
    Ok(())
}

/// `connect`: waits while too many others do.
pub fn connect<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    nonblocking: bool,
    address: &Address,
) -> Result<(), Stop> {
    let cpu = call.cpu;
    let place = Place::of(call, address)?;
    if is_on(socket, SO_PASSCRED) {
        name::choose(cpu, socket)?;
    }
    let header = cpu.pool.header();
    let nonblocking = waits_no_more(call, nonblocking, socket.timeouts_ns[1].get());
    call.wait_for(&header.socket_waiters, || {
        let _all = lock(cpu, &header.socket_lock);
        let listener = place.socket(cpu, socket.kind.get())?;
        match join(call, socket, listener)? {
            true => Ok(Some(())),
            false if nonblocking => Err(Stop::from(Errno::EAGAIN)),
            false => Ok(None),
        }
    })?;
    if let Some(file) = cpu.object(socket.file.get()) {
        epoll::queues_have_changed(cpu, file);
    }
    Ok(())
}

/// Connects a socket to one that listens, which is to accept the other end. `false`: too many wait there. What is bound is
/// locked.
fn join<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    listener: &'static SocketRecord,
) -> Result<bool, Errno> {
    let cpu = call.cpu;
    let guard = lock(cpu, &listener.lock);
    let refuses = listener.shut.load(Ordering::Acquire) & SHUT_READ != 0;
    if listener.state.load(Ordering::Relaxed) != SOCKET_LISTENING || refuses {
        return Err(Errno::ECONNREFUSED);
    }
    // Whoever is there comes before what this socket is already.
    match socket.state.load(Ordering::Acquire) {
        SOCKET_NEW => {}
        SOCKET_CONNECTED => return Err(Errno::EISCONN),
        _ => return Err(Errno::EINVAL),
    }
    if listener.pending_count.get() > listener.backlog.get() {
        return Ok(false);
    }
    let end = slab::alloc::<SocketRecord>(cpu).ok_or(Errno::ENOMEM)?;
    for (to, from) in [(&end.family, &listener.family), (&end.kind, &listener.kind)] {
        to.set(from.get());
    }
    end.options.store(listener.options.load(Ordering::Relaxed) & 1 << SO_PASSCRED, Ordering::Relaxed);
    end.buffers.iter().for_each(|bytes| bytes.set(BUFFER));
    connect_pair(cpu, socket, end).inspect_err(|_| slab::free(cpu, end))?;
    let (theirs, ours) = (Name::own(listener), Name::own(socket));
    end.name_len.set(theirs.store(&end.name));
    end.peer_name_len.set(ours.store(&end.peer_name));
    set_peer(end, own_credentials(call));
    socket.peer_name_len.set(theirs.store(&socket.peer_name));
    set_peer(socket, listener.peer.each_ref().map(|id| id.get()));
    end.listener.set(cpu.raw(listener));
    set_connected(end);
    in_order();
    match cpu.object::<SocketRecord>(listener.pending[1].get()) {
        Some(last) => last.next.set(cpu.raw(end)),
        None => listener.pending[0].set(cpu.raw(end)),
    }
    set_connected(socket);
    listener.pending[1].set(cpu.raw(end));
    listener.pending_count.set(listener.pending_count.get() + 1);
    drop(guard);
    wait::wake(cpu, &listener.acceptors);
    Ok(true)
}

/// `accept`.
pub fn accept<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    nonblocking: bool,
) -> Result<&'static SocketRecord, Stop> {
    let cpu = call.cpu;
    let nonblocking = waits_no_more(call, nonblocking, socket.timeouts_ns[0].get());
    let end = call.wait_for(&socket.acceptors, || {
        if socket.state.load(Ordering::Acquire) != SOCKET_LISTENING {
            return Err(Errno::EINVAL.into());
        }
        match take_pending(cpu, socket) {
            None if socket.shut.load(Ordering::Acquire) & SHUT_READ != 0 => Err(Stop::from(Errno::EINVAL)),
            None if nonblocking => Err(Stop::from(Errno::EAGAIN)),
            found => Ok(found),
        }
    })?;
    wait::wake(cpu, &cpu.pool.header().socket_waiters);
    Ok(end)
}

/// The first socket that was connected to this one and has not been accepted. Until it has a file, it says that this core has it.
pub fn take_pending<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<&'static SocketRecord> {
    let _guard = lock(cpu, &socket.lock);
    let first = cpu.object::<SocketRecord>(socket.pending[0].get())?;
    // Whoever looks for sockets that nobody can receive sees it waiting there, or in hand.
    let _rights = rights::lock_rights(cpu);
    first.acceptor.store(u32::from(cpu.id.0) + 1, Ordering::Relaxed);
    in_order();
    socket.pending[0].set(first.next.get());
    in_order();
    if first.next.get() == 0 {
        socket.pending[1].set(0);
    }
    socket.pending_count.set(socket.pending_count.get() - 1);
    Some(first)
}

/// `shutdown`.
pub fn shutdown<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord, how: u32) -> Result<(), Errno> {
    if socket.state.load(Ordering::Acquire) == SOCKET_LISTENING {
        // Nobody comes any more, and whoever waits for somebody need not.
        let _guard = lock(cpu, &socket.lock);
        socket.shut.fetch_or(how, Ordering::AcqRel);
        wait::wake(cpu, &socket.acceptors);
        wait::wake(cpu, &cpu.pool.header().socket_waiters);
        return Ok(());
    }
    let pipes = pipes(cpu, socket).ok_or(Errno::ENOTCONN)?;
    shut(cpu, socket, pipes, how);
    Ok(())
}
