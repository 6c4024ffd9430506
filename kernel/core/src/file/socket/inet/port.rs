//! Which sockets have which ports: binding them, and finding who is there.
//!
//! Bound sockets are in the tree of `motet_protocol::bound`, those of one port next to each other. So a port is looked at as a whole, of which so many sockets
//! may share it ([`SHARERS_MAX`]). A socket keeps the name that it was bound with when it connects: from which address it sends follows from its peer's. It has a port
//! while it is in the tree, or was accepted: its name alone does not say so, as a core may have died between the two.

use core::{net::Ipv6Addr, ops::ControlFlow};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{AtomicByte, SOCKET_CONNECTED, SOCKET_LISTENING, SOCKET_NEW, SocketRecord, sync::Ordering};
use motet_protocol::{bound, lock::lock};

use super::{
    super::{
        SOCK_STREAM,
        flags::{SO_REUSEADDR, SO_REUSEPORT, is_on},
        route,
    },
    endpoint::{Endpoint, NAME_LEN, Version},
    options::{self, has_port, is_v6_only},
};
use crate::{
    call::{Call, cost},
    cpu::Cpu,
    due,
    permission::{Capability, has},
    random,
};

/// Sockets that one port may have.
pub const SHARERS_MAX: usize = 128;
/// Ports that sockets get that ask for any (Linux `net.ipv4.ip_local_port_range`).
const CHOSEN: core::ops::RangeInclusive<u16> = 32768..=60999;
/// The first port that everybody may bind (Linux `net.ipv4.ip_unprivileged_port_start`).
const UNPRIVILEGED: u16 = 1024;

/// Sockets that are looked at before others may look.
const LOOKED_AT_ONCE: u32 = 64;

/// The endpoint that a socket's name is: not all bytes that a name may have are looked at.
fn endpoint<const N: usize>(name: &[AtomicByte; N], len: u32) -> Option<Endpoint> {
    let bytes = core::array::from_fn::<u8, NAME_LEN, _>(|index| name[index].load(Ordering::Relaxed));
    if len as usize == NAME_LEN { Some(Endpoint::of_bytes(&bytes)) } else { None }
}

/// What a socket is bound to. Port 0: it has chosen its address, and has no port (any more).
pub fn bound_to(socket: &SocketRecord) -> Option<Endpoint> {
    let own = endpoint(&socket.name, socket.name_len.get())?;
    match has_port(socket) {
        true => Some(own),
        false if options::has_own_address(socket) => Some(Endpoint { port: 0, ..own }),
        false => None,
    }
}

/// The address that a socket has chosen itself.
pub fn own_address(socket: &SocketRecord) -> Option<Ipv6Addr> {
    bound_to(socket).filter(|_| options::has_own_address(socket)).map(|own| own.address)
}

/// Whom it is connected to.
pub fn peer_of(socket: &SocketRecord) -> Option<Endpoint> {
    let is_connected = socket.state.load(Ordering::Acquire) == SOCKET_CONNECTED;
    if is_connected { endpoint(&socket.peer_name, socket.peer_name_len.get()) } else { None }
}

/// Where a socket is for others: if it is bound to any address and connected, where it sends from.
pub fn own(socket: &SocketRecord) -> Option<Endpoint> {
    let own = bound_to(socket)?;
    Some(match peer_of(socket) {
        Some(peer) if own.is_any() => Endpoint { address: peer.source(), ..own },
        _ => own,
    })
}

/// Where a socket sends from that sends to an endpoint.
///
/// # Errors
/// `EAFNOSUPPORT`: its address is of version 4, and the other one is not.
pub fn sends_from(socket: &SocketRecord, to: Endpoint) -> Result<Endpoint, Errno> {
    let own = bound_to(socket);
    Ok(Endpoint { address: to.source_of(own)?, port: own.map_or(0, |own| own.port) })
}

/// `bind`.
///
/// # Errors
/// `EADDRNOTAVAIL`: the machine has no such address; `EACCES`: the port is privileged; `EINVAL`: it has one; `EADDRINUSE`.
pub fn bind<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, to: Endpoint) -> Result<(), Errno> {
    if !to.is_any() && !to.is_own() && !route::leads_to(call.cpu, to.address) {
        return Err(Errno::EADDRNOTAVAIL);
    }
    if to.port != 0 && to.port < UNPRIVILEGED && !has(call.process, Capability::BindPort) {
        return Err(Errno::EACCES);
    }
    if has_port(socket) || socket.state.load(Ordering::Acquire) != SOCKET_NEW {
        return Err(Errno::EINVAL);
    }
    if to.port == 0 {
        if !choose_at(call, socket, to)? {
            return Err(Errno::EINVAL);
        }
    } else {
        let _all = lock(call.cpu, &call.cpu.pool.header().socket_lock);
        if has_port(socket) {
            return Err(Errno::EINVAL);
        }
        if is_taken(call.cpu, socket, to, may_share) {
            return Err(Errno::EADDRINUSE);
        }
        enter(call.cpu, socket, to);
    }
    options::was_bound(call.cpu, socket, to);
    Ok(())
}

/// Gives a socket a port that it has not chosen itself, if it has none.
///
/// # Errors
/// `EADDRINUSE`: none is free.
pub fn choose<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, version: Version) -> Result<(), Errno> {
    if has_port(socket) {
        return Ok(());
    }
    let address = bound_to(socket).map_or(version.any(), |own| own.address);
    choose_at(call, socket, Endpoint { address, port: 0 }).map(|_| ())
}

/// `false`: it has one meanwhile. The ports from one on are looked at in their order, and those before it afterwards; many sockets in pieces.
fn choose_at<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, at: Endpoint) -> Result<bool, Errno> {
    let cpu = call.cpu;
    let count = u32::from(CHOSEN.end() - CHOSEN.start()) + 1;
    let [random] = random::words(cpu);
    let first = CHOSEN.start() + (random as u32 % count) as u16;
    for (mut next, last) in [(first, *CHOSEN.end()), (*CHOSEN.start(), first)] {
        while next <= last {
            {
                // In the loop: nobody waits while others look.
                let _all = lock(cpu, &cpu.pool.header().socket_lock);
                if has_port(socket) {
                    return Ok(false);
                }
                let (free, is_free) = first_free(cpu, socket.protocol.get(), next);
                if is_free && free <= last {
                    enter(cpu, socket, Endpoint { port: free, ..at });
                    return Ok(true);
                }
                next = free;
            }
            call.serve_due(cost::STEP);
        }
    }
    Err(Errno::EADDRINUSE)
}

/// The first port from one on that nobody has; `false`: so many sockets were looked at that others come first, and this port is the next one.
fn first_free<M: Machine>(cpu: &Cpu<M>, protocol: u32, from: u16) -> (u16, bool) {
    let (mut free, mut left) = (from, LOOKED_AT_ONCE);
    look_from(cpu, protocol, from, |_, own| {
        if own.port > free {
            return ControlFlow::Break(());
        }
        free = own.port + 1;
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (free, left > 0)
}

/// What is bound is locked, as for all below that do not say otherwise.
fn enter<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord, at: Endpoint) {
    socket.name_len.set(at.name().store(&socket.name));
    bound::enter(cpu, socket);
}

/// Nobody finds a socket by its port any more. Takes the lock.
pub fn leave<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    if socket.is_bound.get() == 0 {
        return;
    }
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    // A core that was ending it may have died, with the lock: the tree is repaired then.
    if socket.is_bound.get() != 0 {
        bound::leave(cpu, socket);
    }
}

/// A socket that has not said which port it wants has none any more.
pub fn forget_chosen<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    if socket.is_bound.get() != 0 && !options::has_own_port(socket) {
        bound::leave(cpu, socket);
    }
}

/// A socket that has not chosen its address has this one from now on. What is bound is locked.
pub fn take_address<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord, address: Ipv6Addr) {
    let may_change = socket.is_bound.get() != 0 && !options::has_own_address(socket);
    if let Some(own) = bound_to(socket).filter(|own| may_change && own.address != address) {
        bound::leave(cpu, socket);
        enter(cpu, socket, Endpoint { address, ..own });
    }
}

/// Shows the sockets of a port and of those behind it, until `each` has enough. No lock is held that comes after wait queues.
fn look_from<M: Machine>(
    cpu: &Cpu<M>,
    protocol: u32,
    port: u16,
    mut each: impl FnMut(&'static SocketRecord, Endpoint) -> ControlFlow<()>,
) {
    let first = Endpoint { address: Version::V6.any(), port }.name();
    bound::look_from(cpu, protocol, first.bytes(), |socket| {
        due::spend_locked(cpu, cost::OBJECT);
        bound_to(socket).map_or(ControlFlow::Break(()), |own| each(socket, own))
    });
}

/// As [`look_from`], those of the port alone.
fn look_at<M: Machine>(
    cpu: &Cpu<M>,
    protocol: u32,
    port: u16,
    mut each: impl FnMut(&'static SocketRecord, Endpoint) -> ControlFlow<()>,
) {
    look_from(
        cpu,
        protocol,
        port,
        |socket, own| if own.port == port { each(socket, own) } else { ControlFlow::Break(()) },
    );
}

/// Whether others are in the way of a socket at an endpoint, which it `may_share` with some.
fn is_taken<M: Machine>(
    cpu: &Cpu<M>,
    socket: &SocketRecord,
    at: Endpoint,
    may_share: fn(&SocketRecord, &SocketRecord) -> bool,
) -> bool {
    let (mut is_taken, mut count) = (false, 0);
    look_at(cpu, socket.protocol.get(), at.port, |other, own| {
        if core::ptr::eq(other, socket) {
            return ControlFlow::Continue(());
        }
        count += 1;
        is_taken = count >= SHARERS_MAX || overlap((socket, at), (other, own)) && !may_share(socket, other);
        if is_taken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    is_taken
}

/// Whether some address leads to both.
fn overlap((one, own): (&SocketRecord, Endpoint), (two, other): (&SocketRecord, Endpoint)) -> bool {
    covers(one, own, other) || covers(two, other, own)
}

/// Whether what leads to `other` leads to a socket that is bound to `own`, too.
fn covers(socket: &SocketRecord, own: Endpoint, other: Endpoint) -> bool {
    own.address == other.address
        || own.is_any() && (own.is_v4() == other.is_v4() || !own.is_v4() && !is_v6_only(socket))
}

/// Whether a socket may be bound where another one is.
fn may_share(socket: &SocketRecord, other: &SocketRecord) -> bool {
    let listens = other.state.load(Ordering::Acquire) == SOCKET_LISTENING;
    let both = |option| is_on(socket, option) && is_on(other, option);
    both(SO_REUSEADDR) && !listens || may_share_work(socket, other)
}

/// Whether two sockets take turns in receiving what is for both.
fn may_share_work(socket: &SocketRecord, other: &SocketRecord) -> bool {
    is_on(socket, SO_REUSEPORT) && is_on(other, SO_REUSEPORT) && socket.owner.get() == other.owner.get()
}

/// Whether a socket may begin to listen: nobody else does there.
///
/// # Errors
/// `EADDRINUSE`.
pub fn check_listener<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Result<(), Errno> {
    let own = bound_to(socket).ok_or(Errno::EINVAL)?;
    if is_taken(cpu, socket, own, |socket, other| {
        other.state.load(Ordering::Acquire) != SOCKET_LISTENING || may_share_work(socket, other)
    }) {
        return Err(Errno::EADDRINUSE);
    }
    Ok(())
}

/// Who receives what is sent from one endpoint to another: who listens there, of `SOCK_STREAM`.
pub fn find<M: Machine>(cpu: &Cpu<M>, protocol: u32, from: Endpoint, to: Endpoint) -> Option<&'static SocketRecord> {
    let (mut best, mut best_rank, mut ties) = (None::<&'static SocketRecord>, 0, 0);
    look_at(cpu, protocol, to.port, |socket, own| {
        match rank(socket, own, from, to) {
            Some(rank) if rank > best_rank || best.is_none() => (best, best_rank, ties) = (Some(socket), rank, 1),
            Some(rank) if rank == best_rank => {
                // Of those that share the work, always the same one for one sender. Otherwise, the newest.
                ties += 1;
                if !best.is_some_and(|best| may_share_work(socket, best)) || turn_of(from).is_multiple_of(ties) {
                    best = Some(socket);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    best
}

/// One of those who receive what is sent from one endpoint to another, by its place among them.
pub fn find_one<M: Machine>(
    cpu: &Cpu<M>,
    protocol: u32,
    [from, to]: [Endpoint; 2],
    index: usize,
) -> Option<&'static SocketRecord> {
    let (mut found, mut left) = (None, index);
    look_at(cpu, protocol, to.port, |socket, own| {
        if rank(socket, own, from, to).is_none() {
            return ControlFlow::Continue(());
        }
        if left == 0 {
            found = Some(socket);
            return ControlFlow::Break(());
        }
        left -= 1;
        ControlFlow::Continue(())
    });
    found
}

/// A number that differs between senders.
fn turn_of(from: Endpoint) -> u32 {
    u32::from(from.port).wrapping_mul(0x9e37_79b1) >> 16
}

/// How well a socket fits what is sent from one endpoint to another. `None`: not at all.
fn rank(socket: &SocketRecord, own: Endpoint, from: Endpoint, to: Endpoint) -> Option<u32> {
    if !covers(socket, own, to) {
        return None;
    }
    let near = 2 * u32::from(own.address == to.address) + u32::from(own.is_v4() == to.is_v4());
    if socket.kind.get() == SOCK_STREAM {
        return (socket.state.load(Ordering::Acquire) == SOCKET_LISTENING).then_some(near);
    }
    match peer_of(socket) {
        Some(peer) if peer == from => Some(4 + near),
        Some(_) => None,
        None => Some(near),
    }
}
