//! Sockets that listen, and the connections that wait there to be accepted.
//!
//! Whoever connects makes the socket of the other end, too, and puts it last in the listener's list. Whoever accepts takes the first.

use motet_abi::{Errno, terminal::*};
use motet_hal::Machine;
use motet_layout::{
    PipeRecord, SOCKET_CONNECTED, SOCKET_LISTENING, SOCKET_NEW, SocketRecord, in_order, sync::Ordering,
};
use motet_protocol::{Context, lock::lock, pipe, slab, wait};

use super::{
    SHUT_READ, SHUT_WRITE, connection,
    connection::{connect_pair, pipes, set_connected, shut},
    family::Family,
    flags::BUFFER,
    rights, waits_no_more,
};
use crate::{
    call::{Call, Stop, cost},
    cpu::Cpu,
    description::kind::{INPUT, if_so},
    due,
};

/// Connections that wait to be accepted, at most (Linux's `net.core.somaxconn`).
const BACKLOG_MAX: u32 = 4096;
/// What ending a connection costs that was not accepted, or freeing it, with its pipes and their frames.
const ENDED: u64 = 8 * cost::OBJECT;

/// The connections that a socket has not accepted.
pub fn pending<'c, M: Machine>(
    cpu: &'c Cpu<M>,
    socket: &SocketRecord,
) -> impl Iterator<Item = &'static SocketRecord> + use<'c, M> {
    let first = cpu.object::<SocketRecord>(socket.pending[0].get());
    core::iter::successors(first, |pending| cpu.object(pending.next.get()))
}

/// Lets a socket listen, which is bound. `prepare` says, with what is bound locked, whether it may, and what those who connect are told.
///
/// # Errors
/// `EINVAL`: it is connected; those of `prepare`.
pub fn listen<M: Machine>(
    call: &Call<M>,
    socket: &SocketRecord,
    backlog: u32,
    prepare: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    // So it does not connect meanwhile, and nobody else begins to listen at the same place.
    let _all = lock(call.cpu, &call.cpu.pool.header().socket_lock);
    let _guard = lock(call.cpu, &socket.lock);
    if socket.state.load(Ordering::Relaxed) == SOCKET_CONNECTED {
        return Err(Errno::EINVAL);
    }
    socket.backlog.set(backlog.min(BACKLOG_MAX));
    prepare()?;
    socket.state.store(SOCKET_LISTENING, Ordering::Release);
    // There may be room for those who wait to connect.
    wait::wake(call.cpu, &call.cpu.pool.header().socket_waiters);
    Ok(())
}

/// How a socket is connected to one that listens.
#[derive(Clone, Copy)]
pub struct Joining {
    /// So many more may wait there than that has asked for.
    pub excess: u32,
    /// Whoever accepts finds out whether there will be a connection.
    pub is_begun: bool,
}

/// Connects a socket to one that listens, which is to accept the other end; `prepare` says what both are called. `false`: too many wait there. What is bound is
/// locked.
///
/// # Errors
/// `ECONNREFUSED`: nobody listens there; `EISCONN`, `EINVAL`: the socket is connected, or listens; `ENOMEM`.
pub fn join<M: Machine>(
    cpu: &Cpu<M>,
    socket: &'static SocketRecord,
    listener: &'static SocketRecord,
    how: Joining,
    prepare: impl FnOnce(&'static SocketRecord),
) -> Result<bool, Errno> {
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
    if listener.pending_count.get() > listener.backlog.get().saturating_add(how.excess) {
        return Ok(false);
    }
    let end = slab::alloc::<SocketRecord>(cpu).ok_or(Errno::ENOMEM)?;
    for (to, from) in
        [(&end.family, &listener.family), (&end.kind, &listener.kind), (&end.protocol, &listener.protocol)]
    {
        to.set(from.get());
    }
    end.buffers.iter().for_each(|bytes| bytes.set(BUFFER));
    connect_pair(cpu, socket, end, how.is_begun).inspect_err(|_| slab::free(cpu, end))?;
    prepare(end);
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
///
/// # Errors
/// `EINVAL`: it does not listen, or not any longer; `EAGAIN`.
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

/// `shutdown` of a socket that listens, or is connected.
///
/// # Errors
/// `ENOTCONN`: it is neither.
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

/// Lets a socket of a family listen no longer, until it is told to again. Those who wait to be accepted are told that they are not.
pub fn stop<M: Machine, F: Family>(call: &Call<M>, socket: &'static SocketRecord) {
    let cpu = call.cpu;
    let mut left = {
        // So nobody connects meanwhile.
        let _guard = lock(cpu, &socket.lock);
        if socket.state.load(Ordering::Relaxed) != SOCKET_LISTENING {
            return;
        }
        socket.state.store(SOCKET_NEW, Ordering::Release);
        socket.pending_count.get()
    };
    wait::wake(cpu, &socket.acceptors);
    wait::wake(cpu, &cpu.pool.header().socket_waiters);
    // No more than there were: another thread may let it listen again.
    while left > 0
        && let Some(pending) = take_pending(cpu, socket)
    {
        connection::end(cpu, pending, true);
        F::of(pending).close(cpu);
        left -= 1;
        call.serve_due(cost::STEP);
    }
}

/// The events (`POLL*`) for which a socket that listens is ready.
pub fn readiness(socket: &SocketRecord) -> u16 {
    let shut = socket.shut.load(Ordering::Acquire);
    if_so(socket.pending[0].get() != 0 || shut & SHUT_READ != 0, INPUT)
        | if_so(shut & SHUT_READ != 0, POLLRDHUP)
        | if_so(shut & (SHUT_READ | SHUT_WRITE) == SHUT_READ | SHUT_WRITE, POLLHUP)
}

/// Ends a socket that may be connected, or listen, and drops what nobody receives any more. `resets`: its peer is told that, also if it has read everything. May
/// be done twice.
pub fn end<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, resets: bool) {
    connection::end(cpu, socket, resets);
    // Whoever has connected to what was never accepted is told, too: also those that a core has left which died while it stopped listening.
    for pending in pending(cpu, socket) {
        connection::end(cpu, pending, true);
        due::spend_locked(cpu, ENDED);
    }
}

/// Frees a socket of a family that has ended, and the connections that it had not accepted.
pub fn free<M: Machine, F: Family>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    socket.acceptor.store(0, Ordering::Relaxed); // from here on nobody else closes it
    in_order();
    // Lists of sockets tell nothing of it any more, also while the next one is made of its record, or if this core dies.
    socket.family.set(0);
    in_order();
    for pipe in [&socket.outgoing, &socket.incoming] {
        if let Some(pipe) = cpu.object::<PipeRecord>(pipe.swap(0, Ordering::AcqRel)) {
            pipe::put(cpu, pipe);
        }
    }
    // Nobody finds it any more to add to these.
    while let Some(pending) = take_pending(cpu, socket) {
        F::of(pending).close(cpu);
        due::spend_locked(cpu, ENDED);
    }
    wait::wake(cpu, &cpu.pool.header().socket_waiters);
    // Nodes of threads that still wait must not stay linked in memory that becomes another socket.
    wait::wake(cpu, &socket.acceptors);
    slab::free(cpu, socket);
    rights::collect(cpu);
}
