//! Sockets between programs of this machine (`AF_UNIX`): streams, packets in their order, datagrams.
//!
//! A socket of datagrams has a queue from its beginning, and is connected if it has a reference to another one's.
//! Bound sockets are in one tree (`motet_protocol::bound`), by the inode of their name, or by the name itself if it is abstract (unix(7)).
//!
//! Locks: the header's `socket_lock` (for the tree of bound sockets), then a socket's, then that of open files in packets, then a pipe's.

mod connect;
mod datagram;
mod name;
mod sending;

use motet_abi::{Errno, signal::SIGPIPE, terminal::*};
use motet_hal::Machine;
use motet_layout::{PipeRecord, SOCKET_CONNECTED, SOCKET_LISTENING, SocketRecord, sync::Ordering};
use motet_protocol::{Context, pipe};

use super::{
    OUTPUT_AND_BAND, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM, connection,
    connection::{connect_pair, pipes, set_connected, take_reset},
    control::Extras,
    credentials::{self, set_peer},
    family::{Address, Family, Received, Receiving, Sending, one_queue},
    flags::{MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, SIOCATMARK},
    listed::{List, Row},
    listening,
    name::Name,
    packet::{Source, prepare, receive},
    stream,
};
use name::PROTOCOL;

use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{OUTPUT, Outlet, Queues},
    signal,
};

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
            (SOCK_STREAM | SOCK_SEQPACKET | SOCK_DGRAM, 0 | Self::CODE) => Ok([kind, PROTOCOL]),
            (SOCK_RAW, 0 | Self::CODE) => Ok([SOCK_DGRAM, PROTOCOL]),
            (_, 0 | Self::CODE) => Err(Errno::ESOCKTNOSUPPORT),
            _ => Err(Errno::EPROTONOSUPPORT),
        }
    }

    fn prepare<M: Machine>(self, call: &Call<M>) -> Result<(), Errno> {
        if self.is_of_datagrams() { prepare(call.cpu, self.0) } else { Ok(()) }
    }

    fn pair<M: Machine>(self, call: &Call<M>, other: Self) -> Result<(), Errno> {
        let both = [self.0, other.0];
        both.into_iter().for_each(|socket| set_peer(socket, credentials::own(call)));
        if self.is_of_datagrams() {
            datagram::pair(call.cpu, both);
        } else {
            connect_pair(call.cpu, self.0, other.0, false)?;
        }
        both.into_iter().for_each(set_connected);
        Ok(())
    }

    fn bind<M: Machine>(self, call: &Call<M>, address: &Address) -> Result<(), Stop> {
        name::bind(call, self.0, address)
    }

    fn listen<M: Machine>(self, call: &Call<M>, backlog: u32) -> Result<(), Errno> {
        if self.is_of_datagrams() {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.0.is_bound.get() == 0 {
            return Err(Errno::EINVAL);
        }
        listening::listen(call, self.0, backlog, || {
            set_peer(self.0, credentials::own(call));
            Ok(())
        })
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
            false => listening::accept(call, self.0, nonblocking),
        }
    }

    fn shutdown<M: Machine>(self, call: &Call<M>, how: u32) -> Result<(), Errno> {
        match self.is_of_datagrams() {
            true => datagram::shut(call.cpu, self.0, how),
            false => listening::shutdown(call.cpu, self.0, how)?,
        }
        Ok(())
    }

    fn name<M: Machine>(self, _cpu: &Cpu<M>) -> Address {
        name::address(&Name::own(self.0))
    }

    fn peer_name<M: Machine>(self, _cpu: &Cpu<M>) -> Result<Address, Errno> {
        if self.0.state.load(Ordering::Acquire) != SOCKET_CONNECTED {
            return Err(Errno::ENOTCONN);
        }
        Ok(name::address(&Name::of_peer(self.0)))
    }

    fn send<M: Machine>(self, call: &Call<M>, how: Sending<M>, from: &mut Cursor<M>) -> SysResult {
        if how.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        match self.0.kind.get() {
            SOCK_STREAM => stream::send(call, self.0, how, from),
            _ => sending::send(call, self.0, how, from),
        }
    }

    fn receive<'c, M: Machine>(
        self,
        call: &Call<'c, M>,
        how: Receiving,
        into: &mut Cursor<M>,
        with: &mut Received<'c, M>,
    ) -> SysResult {
        match self.0.kind.get() {
            // There is never anything urgent.
            SOCK_STREAM if how.flags & MSG_OOB != 0 => Err(Errno::EINVAL.into()),
            SOCK_STREAM => {
                // These are TCP's alone.
                let flags = how.flags & !(MSG_TRUNC | if how.flags & MSG_PEEK != 0 { MSG_WAITALL } else { 0 });
                let len = stream::receive(call, self.0, Receiving { flags, ..how }, into, with)?;
                if self.0.peer_name_len.get() != 0 {
                    with.sender = Some(name::address(&Name::of_peer(self.0)));
                }
                Ok(len)
            }
            _ if how.flags & MSG_OOB != 0 => Err(Errno::EOPNOTSUPP.into()),
            _ => {
                let room_waiters = self.is_of_datagrams().then(|| datagram::room_waiters(call.cpu));
                let source = Source {
                    socket: self.0,
                    room_waiters,
                    address_of: name::address_of_sender,
                    extras_of: |_, _| Extras::NONE,
                };
                receive::<M, Self>(call, source, how, into, with)
            }
        }
    }

    fn take_error<M: Machine>(self, cpu: &Cpu<M>) -> Option<Errno> {
        if take_reset(cpu, self.0).is_some() {
            return Some(Errno::ECONNRESET);
        }
        Errno::from_raw(self.0.error.swap(0, Ordering::AcqRel))
    }

    fn readiness<M: Machine>(self, cpu: &Cpu<M>) -> u16 {
        match (self.is_of_datagrams(), pipes(cpu, self.0)) {
            (true, _) => datagram::readiness(cpu, self.0),
            (false, Some(pipes)) => connection::readiness(self.0, pipes),
            (false, None) => match self.0.state.load(Ordering::Acquire) {
                SOCKET_LISTENING => listening::readiness(self.0),
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
        pipes(cpu, self.0).map_or([None; 2], |pipes| connection::arrivals(self.0, pipes, true))
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

    /// What was sent and not been received, with what keeping packets costs. Of datagrams: what waits where it is connected to.
    fn bytes_unsent<M: Machine>(self, cpu: &Cpu<M>) -> Result<u64, Errno> {
        let outgoing = cpu.object::<PipeRecord>(self.0.outgoing.load(Ordering::Acquire));
        // Nobody receives what was sent to a peer that has closed.
        let Some(outgoing) = outgoing.filter(|outgoing| outgoing.readers.load(Ordering::Acquire) != 0) else {
            return Ok(0);
        };
        Ok(if self.0.kind.get() == SOCK_STREAM { pipe::used(outgoing) as u64 } else { outgoing.cost.get().into() })
    }

    fn listed<M: Machine>(self, cpu: &Cpu<M>) -> Option<Row> {
        // One that waits to be accepted is about to be connected.
        let state = match self.0.state.load(Ordering::Acquire) {
            SOCKET_CONNECTED if self.0.file.get() == 0 && self.0.listener.get() != 0 => 2,
            SOCKET_CONNECTED => 3,
            _ => 1,
        };
        let [incoming, outgoing] = connection::seen_pipes(cpu, self.0);
        let is_read = outgoing.is_some_and(|pipe| pipe.readers.load(Ordering::Acquire) != 0);
        let is_written = incoming.is_some_and(|pipe| pipe.writers.load(Ordering::Acquire) != 0);
        // A peer that is there keeps it.
        let refs = if state != 1 && (is_read || is_written) { 3 } else { 2 };
        let row = Row::new(cpu, self.0, List::Local, state);
        // A core may have died, or be, between the name and what makes it one.
        let own = if name::has_name(self.0) { row.own } else { Name::of_bytes(&[]) };
        Some(Row { refs, own, ..row })
    }

    fn ioctl<M: Machine>(self, call: &Call<M>, (request, at): (u32, u64)) -> SysResult {
        match (request, self.0.kind.get()) {
            (SIOCATMARK, SOCK_STREAM) => {
                call.write_user(at, &0u32.to_le_bytes())?;
                Ok(0)
            }
            (SIOCATMARK, _) => Err(Errno::EOPNOTSUPP.into()),
            _ => Err(Errno::ENOTTY.into()),
        }
    }

    fn outlet<M: Machine>(self, call: &Call<M>) -> Result<Outlet, Errno> {
        if self.0.kind.get() != SOCK_STREAM {
            return Err(Errno::EINVAL);
        }
        let outgoing = stream::outgoing(call.cpu, self.0).inspect_err(|&errno| {
            if errno == Errno::EPIPE && call.thread.progress.get() == 0 {
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
        listening::end(cpu, socket, false);
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>) {
        self.end(cpu);
        listening::free::<M, Self>(cpu, self.0);
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
