//! Sockets between programs of this machine (`AF_UNIX`): streams, packets in their order, datagrams.
//!
//! A connection is two pipes. A socket reads from one and writes to the other; its record holds references to both. The pipes of a stream carry bytes, the
//! others' are queues of packets (`motet_protocol::pipe::packet`). A socket of datagrams has a queue from its beginning, and is connected if it has a reference to
//! another one's. A listening socket holds the sockets of connections that have not been accepted yet.
//! Bound sockets are in one tree (`motet_protocol::bound`), by the inode of their name, or by the name itself if it is abstract (unix(7)).
//!
//! Locks: the header's `socket_lock` (for the tree of bound sockets), then a socket's, then that of open files in packets, then a pipe's.

mod connect;
mod datagram;
mod name;
mod packet;
mod stream;

use motet_abi::{Errno, signal::SIGPIPE, terminal::*};
use motet_hal::Machine;
use motet_layout::{
    PipeRecord, PoolAddr, RESET_IS, RESET_NOT, RESET_TOLD, SOCKET_CONNECTED, SOCKET_LISTENING, SocketRecord, in_order,
    sync::Ordering,
};
use motet_protocol::{
    Context,
    pipe::{self, packet::Credentials},
    slab, wait,
};

use super::{
    SHUT_READ, SHUT_WRITE,
    family::{Address, Family, OPTION_MAX, Received, Receiving, Sending, one_queue},
    message::MSG_OOB,
    options::{SO_PASSCRED, SO_PEERCRED, SOL_SOCKET, is_on},
    rights,
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{INPUT, OUTPUT, Outlet, Queues, if_so},
    permission::{FileRights, Identity},
    signal,
};

use name::Name;

const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_RAW: u32 = 3;
const SOCK_SEQPACKET: u32 = 5;
/// Datagrams that wait at a socket before the last one, of whom it is not connected to (Linux `net.unix.max_dgram_qlen`).
const DATAGRAMS_MAX: u32 = 10;
const OUTPUT_AND_BAND: u16 = OUTPUT | POLLWRBAND;

/// A socket of this family.
#[derive(Clone, Copy)]
pub struct Unix(&'static SocketRecord);

impl Family for Unix {
    const CODE: u32 = 1;
    const PASSES_RIGHTS: bool = true;

    fn of(socket: &'static SocketRecord) -> Self {
        Self(socket)
    }

    fn check(kind: u32, protocol: u32) -> Result<[u32; 2], Errno> {
        match (kind, protocol) {
            (SOCK_STREAM | SOCK_SEQPACKET | SOCK_DGRAM, 0 | Self::CODE) => Ok([kind, 0]),
            (SOCK_RAW, 0 | Self::CODE) => Ok([SOCK_DGRAM, 0]),
            (_, 0 | Self::CODE) => Err(Errno::ESOCKTNOSUPPORT),
            _ => Err(Errno::EPROTONOSUPPORT),
        }
    }

    fn prepare<M: Machine>(self, call: &Call<M>) -> Result<(), Errno> {
        if self.is_of_datagrams() { datagram::prepare(call.cpu, self.0) } else { Ok(()) }
    }

    fn pair<M: Machine>(self, call: &Call<M>, other: Self) -> Result<(), Errno> {
        let both = [self.0, other.0];
        both.into_iter().for_each(|socket| set_peer(socket, own_credentials(call)));
        if self.is_of_datagrams() {
            datagram::pair(call.cpu, both);
        } else {
            connect_pair(call.cpu, self.0, other.0)?;
        }
        both.into_iter().for_each(set_connected);
        Ok(())
    }

    fn bind<M: Machine>(self, call: &Call<M>, address: &Address) -> Result<(), Stop> {
        name::bind(call, self.0, address)
    }

    fn listen<M: Machine>(self, call: &Call<M>, backlog: u32) -> Result<(), Errno> {
        if self.is_of_datagrams() { Err(Errno::EOPNOTSUPP) } else { connect::listen(call, self.0, backlog) }
    }

    fn connect<M: Machine>(self, call: &Call<M>, nonblocking: bool, address: &Address) -> Result<(), Stop> {
        match self.is_of_datagrams() {
            true => datagram::connect(call, self.0, address),
            false => connect::connect(call, self.0, nonblocking, address),
        }
    }

    fn accept<M: Machine>(self, call: &Call<M>, nonblocking: bool) -> Result<&'static SocketRecord, Stop> {
        match self.is_of_datagrams() {
            true => Err(Errno::EOPNOTSUPP.into()),
            false => connect::accept(call, self.0, nonblocking),
        }
    }

    fn shutdown<M: Machine>(self, call: &Call<M>, how: u32) -> Result<(), Errno> {
        match self.is_of_datagrams() {
            true => datagram::shut(call.cpu, self.0, how),
            false => connect::shutdown(call.cpu, self.0, how)?,
        }
        Ok(())
    }

    fn name<M: Machine>(self, _cpu: &Cpu<M>) -> Address {
        Name::own(self.0).address()
    }

    fn peer_name<M: Machine>(self, _cpu: &Cpu<M>) -> Result<Address, Errno> {
        if self.0.state.load(Ordering::Acquire) != SOCKET_CONNECTED {
            return Err(Errno::ENOTCONN);
        }
        Ok(Name::of_peer(self.0).address())
    }

    fn send<M: Machine>(self, call: &Call<M>, how: Sending<M>, from: &mut Cursor<M>) -> SysResult {
        if how.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        match self.0.kind.get() {
            SOCK_STREAM => stream::send(call, self.0, how, from),
            _ => packet::send(call, self.0, how, from),
        }
    }

    fn receive<'c, M: Machine>(
        self,
        call: &Call<'c, M>,
        how: Receiving,
        into: &mut Cursor<M>,
    ) -> Result<Received<'c, M>, Stop> {
        match self.0.kind.get() {
            // There is never anything urgent.
            SOCK_STREAM if how.flags & MSG_OOB != 0 => Err(Errno::EINVAL.into()),
            SOCK_STREAM => stream::receive(call, self.0, how, into),
            _ if how.flags & MSG_OOB != 0 => Err(Errno::EOPNOTSUPP.into()),
            _ => packet::receive(call, self.0, how, into),
        }
    }

    fn option<M: Machine>(
        self,
        _cpu: &Cpu<M>,
        (level, option): (u32, u32),
        into: &mut [u8; OPTION_MAX],
    ) -> Result<usize, Errno> {
        match (level, option) {
            (SOL_SOCKET, SO_PEERCRED) => {
                for (to, id) in into.chunks_exact_mut(4).zip(&self.0.peer) {
                    to.copy_from_slice(&id.get().to_le_bytes());
                }
                Ok(12)
            }
            (SOL_SOCKET, _) => Err(Errno::ENOPROTOOPT),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn take_error<M: Machine>(self, cpu: &Cpu<M>) -> Option<Errno> {
        if take_reset(cpu, self.0) {
            return Some(Errno::ECONNRESET);
        }
        Errno::from_raw(self.0.error.swap(0, Ordering::AcqRel))
    }

    fn readiness<M: Machine>(self, cpu: &Cpu<M>) -> u16 {
        match (self.is_of_datagrams(), pipes(cpu, self.0)) {
            (true, _) => datagram::readiness(cpu, self.0),
            (false, Some(pipes)) => connected_readiness(self.0, pipes),
            (false, None) => match self.0.state.load(Ordering::Acquire) {
                SOCKET_LISTENING => {
                    let shut = self.0.shut.load(Ordering::Acquire);
                    if_so(self.0.pending[0].get() != 0 || shut & SHUT_READ != 0, INPUT)
                        | if_so(shut & SHUT_READ != 0, POLLRDHUP)
                        | if_so(shut & (SHUT_READ | SHUT_WRITE) == SHUT_READ | SHUT_WRITE, POLLHUP)
                }
                _ => OUTPUT_AND_BAND | POLLHUP,
            },
        }
    }

    /// Those who wait to read or accept, and to write.
    fn queues<M: Machine>(self, cpu: &Cpu<M>) -> Queues {
        let datagrams = cpu.object::<PipeRecord>(self.0.incoming.load(Ordering::Acquire));
        match (datagrams.filter(|_| self.is_of_datagrams()), pipes(cpu, self.0)) {
            (Some(own), _) => [(Some(&own.read_waiters), u16::MAX), (Some(datagram::room_waiters(cpu)), OUTPUT)],
            (None, Some([incoming, outgoing])) => {
                [(Some(&incoming.read_waiters), u16::MAX), (Some(&outgoing.write_waiters), OUTPUT)]
            }
            (None, None) => one_queue(&self.0.acceptors),
        }
    }

    fn arrivals<M: Machine>(self, cpu: &Cpu<M>) -> [Option<u64>; 2] {
        if self.is_of_datagrams() {
            return datagram::arrivals(cpu, self.0);
        }
        let pipes = pipes(cpu, self.0);
        pipes.map_or([None; 2], |[incoming, outgoing]| {
            [Some(pipe::arrivals(incoming)[0]), Some(pipe::arrivals(outgoing)[1])]
        })
    }

    fn bytes_ready<M: Machine>(self, cpu: &Cpu<M>) -> Result<u64, Errno> {
        let Some(incoming) = cpu.object::<PipeRecord>(self.0.incoming.load(Ordering::Acquire)) else { return Ok(0) };
        match self.0.kind.get() {
            SOCK_STREAM => Ok(pipes(cpu, self.0).map_or(0, |[incoming, _]| pipe::used(incoming) as u64)),
            SOCK_DGRAM => Ok(pipe::packet::with_first(cpu, incoming, |first, _| first.len.get()).unwrap_or(0).into()),
            _ => {
                let mut sum = 0;
                pipe::packet::for_each(cpu, incoming, |packet| sum += u64::from(packet.len.get()));
                Ok(sum)
            }
        }
    }

    fn outlet<M: Machine>(self, call: &Call<M>) -> Result<Outlet, Errno> {
        if self.0.kind.get() != SOCK_STREAM {
            return Err(Errno::EINVAL);
        }
        let outgoing = stream::outgoing(call.cpu, self.0).inspect_err(|&errno| {
            if errno == Errno::EPIPE {
                signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
            }
        });
        outgoing.map(Outlet::Pipe)
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>) {
        let socket = self.0;
        name::unbind(cpu, socket);
        if self.is_of_datagrams() {
            return datagram::end(cpu, socket);
        }
        let listens = socket.state.load(Ordering::Acquire) == SOCKET_LISTENING;
        end_connection(cpu, socket, false);
        if listens {
            // Whoever has connected to what was never accepted is told, too.
            pending(cpu, socket).for_each(|pending| end_connection(cpu, pending, true));
        }
    }

    /// Frees it (it has ended, if it had a descriptor), and the connections that it had not accepted.
    fn close<M: Machine>(self, cpu: &Cpu<M>) {
        let socket = self.0;
        self.end(cpu);
        socket.acceptor.store(0, Ordering::Relaxed); // from here on nobody else closes it
        for pipe in [&socket.incoming, &socket.outgoing] {
            if let Some(pipe) = cpu.object::<PipeRecord>(pipe.load(Ordering::Relaxed)) {
                pipe::put(cpu, pipe);
            }
        }
        // Nobody finds it any more to add to these.
        while let Some(pending) = connect::take_pending(cpu, socket) {
            Self(pending).close(cpu);
        }
        wait::wake(cpu, &cpu.pool.header().socket_waiters);
        // Nodes of threads that still wait must not stay linked in memory that becomes another socket.
        wait::wake(cpu, &socket.acceptors);
        slab::free(cpu, socket);
        rights::collect(cpu);
    }
}

impl Unix {
    fn is_of_datagrams(self) -> bool {
        Self::is_kind_of_datagrams(self.0)
    }

    fn is_kind_of_datagrams(socket: &SocketRecord) -> bool {
        socket.kind.get() == SOCK_DGRAM
    }
}

/// The connections that a socket has not accepted.
pub fn pending<'c, M: Machine>(
    cpu: &'c Cpu<M>,
    socket: &SocketRecord,
) -> impl Iterator<Item = &'static SocketRecord> + use<'c, M> {
    let first = cpu.object::<SocketRecord>(socket.pending[0].get());
    core::iter::successors(first, |pending| cpu.object(pending.next.get()))
}

/// The pipes of a connected socket, of streams or packets: what it reads from and what it writes to.
fn pipes<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<[&'static PipeRecord; 2]> {
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

/// Gives two sockets that nobody else knows yet, or whose locks are held, what connects them. They are not [connected](set_connected) yet.
///
/// # Errors
/// `ENOMEM`.
fn connect_pair<M: Machine>(cpu: &Cpu<M>, one: &'static SocketRecord, two: &'static SocketRecord) -> Result<(), Errno> {
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
        pipe::open(cpu, outgoing, pipe::WRITER, &socket.shut);
        socket.incoming.store(cpu.raw(incoming), Ordering::Relaxed);
        socket.outgoing.store(cpu.raw(outgoing), Ordering::Relaxed);
    }
    Ok(())
}

/// From now on a socket is one of a [pair](connect_pair).
fn set_connected(socket: &SocketRecord) {
    in_order();
    socket.state.store(SOCKET_CONNECTED, Ordering::Release);
}

/// Ends directions of a connection (`SHUT_*`), as far as this socket has not.
fn shut<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, [incoming, outgoing]: [&'static PipeRecord; 2], how: u32) {
    if pipe::close(cpu, incoming, how & SHUT_READ, &socket.shut) != 0 {
        wait::wake(cpu, &incoming.read_waiters);
        pipe::put(cpu, incoming);
    }
    if pipe::close(cpu, outgoing, how & SHUT_WRITE, &socket.shut) != 0 {
        wait::wake(cpu, &outgoing.write_waiters);
        pipe::put(cpu, outgoing);
    }
}

/// Ends a connection, and drops what nobody receives any more. May be done twice.
fn end_connection<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, resets: bool) {
    let Some(pipes) = own_pipes(cpu, socket) else { return };
    let [incoming, outgoing] = pipes;
    if pipe::used(incoming) > 0 || resets {
        // Once: it may have been told already.
        let _ = outgoing.reset.compare_exchange(RESET_NOT, RESET_IS, Ordering::AcqRel, Ordering::Relaxed);
    }
    shut(cpu, socket, pipes, SHUT_READ | SHUT_WRITE);
    rights::purge(cpu, incoming);
}

/// Whether the peer has closed the connection and not read all that was sent to it (`ECONNRESET`). It is said once.
fn take_reset<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> bool {
    let is_reset = |[incoming, _]: [&'static PipeRecord; 2]| {
        let reset = &incoming.reset;
        reset.load(Ordering::Acquire) == RESET_IS
            && reset.compare_exchange(RESET_IS, RESET_TOLD, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    pipes(cpu, socket).is_some_and(is_reset)
}

/// The events (`POLL*`) for which a connected socket is ready.
fn connected_readiness(socket: &SocketRecord, [incoming, outgoing]: [&'static PipeRecord; 2]) -> u16 {
    let shut = socket.shut.load(Ordering::Acquire);
    let (input, output) = (pipe::readiness(incoming), pipe::readiness(outgoing));
    let no_more = input.no_writer || shut & SHUT_READ != 0;
    let hung_up = no_more && (output.no_reader || shut & SHUT_WRITE != 0);
    let is_reset = incoming.reset.load(Ordering::Acquire) == RESET_IS;
    let writable = output.writable && has_room(socket, outgoing);
    if_so(input.readable || no_more, INPUT)
        | if_so(is_reset, POLLERR)
        | if_so(no_more, POLLRDHUP)
        | if_so(hung_up, POLLHUP)
        | if_so(writable || output.no_reader, OUTPUT_AND_BAND)
}

/// Whether a socket that waits for room is told: three quarters of what its packets may take are free (as on Linux).
fn has_room(socket: &SocketRecord, outgoing: &PipeRecord) -> bool {
    u64::from(outgoing.cost.get()) * 4 <= u64::from(socket.buffers[0].get())
}

/// Who a process says it is, where it does not say otherwise.
fn own_credentials<M: Machine>(call: &Call<M>) -> Credentials {
    let (uid, gid) = FileRights::of(call.process).owner();
    [call.process.pid.get(), uid.0, gid.0]
}

/// Remembers who a socket is connected to (`SO_PEERCRED`).
fn set_peer(socket: &SocketRecord, credentials: Credentials) {
    for (to, value) in socket.peer.iter().zip(credentials) {
        to.set(value);
    }
}

/// Who is to be told to have sent something, if the sender says so, or either side wants to know (`SO_PASSCRED`).
fn sender_of<M: Machine>(
    call: &Call<M>,
    said: Option<Credentials>,
    socket: &SocketRecord,
    queue: &PipeRecord,
) -> Option<Credentials> {
    said.or_else(|| {
        let reader = call.cpu.object::<SocketRecord>(queue.reader.load(Ordering::Acquire));
        let is_wanted = is_on(socket, SO_PASSCRED) || reader.is_some_and(|reader| is_on(reader, SO_PASSCRED));
        is_wanted.then(|| {
            let own = Identity::of(call.process);
            [call.process.pid.get(), own.users.real.0, own.groups.real.0]
        })
    })
}

/// What is told of the sender, if the receiver wants to know: nobody, if that is not known.
fn told(socket: &SocketRecord, sender: Option<Credentials>) -> Option<Credentials> {
    /// Linux's `overflowuid`.
    const NOBODY: u32 = 65534;
    is_on(socket, SO_PASSCRED).then(|| sender.unwrap_or([0, NOBODY, NOBODY]))
}
