//! Sockets of the internet's protocols (`AF_INET`, `AF_INET6`) between programs of this machine, and with other machines ([`outside`], [`gateway`]).
//!
//! Between programs of this machine, nothing is sent in the protocols' own packets. A connection is two pipes, and datagrams wait in a queue of the pool, as those of `AF_UNIX` do; they are found by
//! protocol, port and address. Both versions share the ports: a socket of version 6 also receives for version 4, unless it says otherwise (`IPV6_V6ONLY`).
//!
//! Locks: as for `AF_UNIX`.

mod endpoint;
pub mod gateway;
mod interface;
mod options;
mod origin;
mod outside;
mod port;
mod tcp;
mod udp;

use motet_abi::{Errno, signal::SIGPIPE};
use motet_hal::Machine;
use motet_layout::{SOCKET_CONNECTED, SOCKET_LISTENING, SocketRecord, sync::Ordering};
use motet_protocol::pipe;

use super::{
    SHUT_READ, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM, connection,
    connection::{pipes, take_reset},
    control::Said,
    family::{Address, Family, OPTION_MAX, Received, Receiving, Sending, one_queue},
    flags::{MSG_ERRQUEUE, SIOCATMARK},
    listed::{List, Row},
    listening,
    name::Name,
    packet::{self, Source},
    route, stream,
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{OUTPUT, Outlet, Queues},
    permission::FileRights,
    signal,
};

use endpoint::{AF_UNSPEC, Endpoint, Version};
use tcp::State;

const AF_INET: u32 = Version::V4.family();
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
const SOCK_KINDS: core::ops::Range<u32> = 0..11;
const PROTOCOLS: u32 = 263;

/// A socket of one of both families, by the family's number.
#[derive(Clone, Copy)]
pub struct Inet<const FAMILY: u32>(&'static SocketRecord);

impl<const FAMILY: u32> Inet<FAMILY> {
    const VERSION: Version = if FAMILY == Version::V4.family() { Version::V4 } else { Version::V6 };

    fn is_of_datagrams(self) -> bool {
        self.0.kind.get() == SOCK_DGRAM
    }

    fn address_of(name: &Name) -> Address {
        Endpoint::of_name(name).map_or(Address::NONE, |endpoint| endpoint.address(Self::VERSION))
    }
}

impl<const FAMILY: u32> Family for Inet<FAMILY> {
    const CODE: u32 = FAMILY;

    fn of(socket: &'static SocketRecord) -> Self {
        Self(socket)
    }

    fn check(kind: u32, protocol: u32) -> Result<[u32; 2], Errno> {
        match (kind, protocol) {
            _ if !SOCK_KINDS.contains(&kind) || protocol >= PROTOCOLS => Err(Errno::EINVAL),
            (SOCK_STREAM, 0 | IPPROTO_TCP) => Ok([kind, IPPROTO_TCP]),
            (SOCK_DGRAM, 0 | IPPROTO_UDP) => Ok([kind, IPPROTO_UDP]),
            (SOCK_STREAM | SOCK_DGRAM | SOCK_RAW, _) => Err(Errno::EPROTONOSUPPORT),
            _ => Err(Errno::ESOCKTNOSUPPORT),
        }
    }

    fn prepare<M: Machine>(self, call: &Call<M>) -> Result<(), Errno> {
        self.0.owner.set(FileRights::of(call.process).owner().0.0);
        if self.is_of_datagrams() { packet::prepare(call.cpu, self.0) } else { Ok(()) }
    }

    fn bind<M: Machine>(self, call: &Call<M>, address: &Address) -> Result<(), Stop> {
        let to = Endpoint::of_unspecified(address, Self::VERSION, true)?;
        if options::is_v6_only(self.0) && to.is_v4() {
            return Err(Errno::EINVAL.into());
        }
        Ok(port::bind(call, self.0, to)?)
    }

    fn listen<M: Machine>(self, call: &Call<M>, backlog: u32) -> Result<(), Errno> {
        if self.is_of_datagrams() {
            return Err(Errno::EOPNOTSUPP);
        }
        tcp::listen(call, self.0, Self::VERSION, backlog)
    }

    fn connect<M: Machine>(self, call: &Call<M>, nonblocking: bool, address: &Address) -> Result<(), Stop> {
        let to = match address.family().ok_or(Errno::EINVAL)? {
            AF_UNSPEC => None,
            // C libraries so find out which address is sent from.
            AF_INET if self.is_of_datagrams() && options::is_v6_only(self.0) => return Err(Errno::EAFNOSUPPORT.into()),
            AF_INET if self.is_of_datagrams() => Some(Endpoint::of(address, Version::V4)?),
            _ => Some(Endpoint::of(address, Self::VERSION)?),
        };
        if options::is_v6_only(self.0) && to.is_some_and(Endpoint::is_v4) {
            return Err(Errno::ENETUNREACH.into());
        }
        match to {
            to if self.is_of_datagrams() => Ok(udp::connect(call, self.0, Self::VERSION, to)?),
            Some(to) => tcp::connect(call, self.0, Self::VERSION, nonblocking, to),
            None => Ok(tcp::disconnect(self.0)?),
        }
    }

    fn accept<M: Machine>(self, call: &Call<M>, nonblocking: bool) -> Result<&'static SocketRecord, Stop> {
        if self.is_of_datagrams() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let end = listening::accept(call, self.0, nonblocking)?;
        // Until then it was of whoever had made the listener.
        end.owner.set(FileRights::of(call.process).owner().0.0);
        Ok(end)
    }

    fn shutdown<M: Machine>(self, call: &Call<M>, how: u32) -> Result<(), Errno> {
        match self.0.state.load(Ordering::Acquire) {
            _ if self.is_of_datagrams() => udp::shutdown(call.cpu, self.0, how),
            SOCKET_LISTENING if how & SHUT_READ == 0 => Ok(()),
            SOCKET_LISTENING => {
                listening::stop::<M, Self>(call, self.0);
                Ok(())
            }
            _ => tcp::shutdown(call.cpu, self.0, Self::VERSION, how),
        }
    }

    fn name<M: Machine>(self, _cpu: &Cpu<M>) -> Address {
        let own = port::own(self.0).unwrap_or(Endpoint { address: Self::VERSION.any(), port: 0 });
        own.address(Self::VERSION)
    }

    fn peer_name<M: Machine>(self, cpu: &Cpu<M>) -> Result<Address, Errno> {
        if !self.is_of_datagrams() && matches!(tcp::state(cpu, self.0), State::Close | State::SynSent) {
            return Err(Errno::ENOTCONN);
        }
        port::peer_of(self.0).map(|peer| peer.address(Self::VERSION)).ok_or(Errno::ENOTCONN)
    }

    fn accepted_from<M: Machine>(self, _cpu: &Cpu<M>) -> Address {
        port::peer_of(self.0).map_or(Address::NONE, |peer| peer.address(Self::VERSION))
    }

    fn control(self, said: &mut Said, which: (u32, u32), data: &[u8], len: u64) -> Result<(), Errno> {
        if self.is_of_datagrams() { origin::control(Self::VERSION, said, which, data, len) } else { Ok(()) }
    }

    fn send<M: Machine>(self, call: &Call<M>, how: Sending<M>, from: &mut Cursor<M>) -> SysResult {
        match self.is_of_datagrams() {
            true => udp::send(call, self.0, Self::VERSION, how, from),
            false => tcp::send(call, self.0, how, from),
        }
    }

    fn receive<'c, M: Machine>(
        self,
        call: &Call<'c, M>,
        how: Receiving,
        into: &mut Cursor<M>,
        with: &mut Received<'c, M>,
    ) -> SysResult {
        if how.flags & MSG_ERRQUEUE != 0 {
            // What has gone wrong is told by calls alone.
            return Err(Errno::EAGAIN.into());
        }
        if self.is_of_datagrams() {
            let source = Source {
                socket: self.0,
                room_waiters: None,
                address_of: Self::address_of,
                extras_of: |socket, name| origin::extras_of(Self::VERSION, socket, name),
            };
            return packet::receive::<M, Self>(call, source, how, into, with);
        }
        tcp::receive(call, self.0, how, into, with)
    }

    fn option<M: Machine>(self, cpu: &Cpu<M>, which: (u32, u32), into: &mut [u8; OPTION_MAX]) -> Result<usize, Errno> {
        options::get(self.0, Self::VERSION, which, || tcp::state(cpu, self.0) as u8, into)
    }

    fn set_option<M: Machine>(self, call: &Call<M>, which: (u32, u32), value: (u64, u64)) -> Result<(), Stop> {
        options::set(call, self.0, Self::VERSION, which, value)
    }

    fn take_error<M: Machine>(self, cpu: &Cpu<M>) -> Option<Errno> {
        if self.is_of_datagrams() { udp::take_error(self.0) } else { tcp::take_error(cpu, self.0) }
    }

    fn readiness<M: Machine>(self, cpu: &Cpu<M>) -> u16 {
        if self.is_of_datagrams() { udp::readiness(cpu, self.0) } else { tcp::readiness(cpu, self.0) }
    }

    /// Those who wait to read or accept, and to write.
    fn queues<M: Machine>(self, cpu: &Cpu<M>) -> Queues {
        match pipes(cpu, self.0) {
            _ if self.is_of_datagrams() => match packet::queue(cpu, self.0) {
                Some(own) => [(Some(&own.read_waiters), u16::MAX), (None, OUTPUT)],
                None => one_queue(&self.0.acceptors),
            },
            Some([incoming, outgoing]) => {
                [(Some(&incoming.read_waiters), u16::MAX), (Some(&outgoing.write_waiters), OUTPUT)]
            }
            None => one_queue(&self.0.acceptors),
        }
    }

    fn arrivals<M: Machine>(self, cpu: &Cpu<M>) -> [Option<u64>; 2] {
        if self.is_of_datagrams() {
            return [packet::queue(cpu, self.0).map(|own| packet::arrivals(self.0, own)), None];
        }
        pipes(cpu, self.0).map_or([None; 2], |pipes| connection::arrivals(self.0, pipes, false))
    }

    fn bytes_ready<M: Machine>(self, cpu: &Cpu<M>) -> Result<u64, Errno> {
        if self.0.state.load(Ordering::Acquire) == SOCKET_LISTENING {
            return Err(Errno::EINVAL);
        }
        let Some(incoming) = packet::queue(cpu, self.0) else { return Ok(0) };
        if self.is_of_datagrams() {
            return Ok(pipe::packet::with_first(cpu, incoming, |first, _| first.len.get()).unwrap_or(0).into());
        }
        Ok(pipe::used(incoming) as u64)
    }

    /// What was sent has come: to whoever reads it, or to nobody.
    fn bytes_unsent<M: Machine>(self, _cpu: &Cpu<M>) -> Result<u64, Errno> {
        if self.0.state.load(Ordering::Acquire) == SOCKET_LISTENING { Err(Errno::EINVAL) } else { Ok(0) }
    }

    /// A connection that has ended is in no list, nor are datagrams without a port.
    fn listed<M: Machine>(self, cpu: &Cpu<M>) -> Option<Row> {
        if !matches!(self.0.protocol.get(), IPPROTO_TCP | IPPROTO_UDP) {
            return None; // a gateway's
        }
        let (own, peer) = (port::own(self.0), port::peer_of(self.0));
        let [incoming, outgoing] = connection::seen_pipes(cpu, self.0);
        let is_connected = self.0.state.load(Ordering::Acquire) == SOCKET_CONNECTED && outgoing.is_some();
        let state_of_stream = || tcp::state_by(self.0, incoming.filter(|_| is_connected));
        let (list, state) = match (self.is_of_datagrams(), Self::VERSION) {
            (true, Version::V4) => (List::Udp, udp::state(self.0)),
            (true, Version::V6) => (List::Udp6, udp::state(self.0)),
            (false, Version::V4) => (List::Tcp, state_of_stream()),
            (false, Version::V6) => (List::Tcp6, state_of_stream()),
        };
        let is_listed = if self.is_of_datagrams() { options::has_port(self.0) } else { state != State::Close };
        let none = Endpoint { address: Self::VERSION.any(), port: 0 };
        let waiting = match (state, incoming) {
            (State::Listen, _) => self.0.pending_count.get(),
            (_, Some(queue)) if self.is_of_datagrams() => queue.cost.get(),
            (state, Some(queue)) => tcp::waiting(self.0, queue, state),
            (_, None) => 0,
        };
        Some(Row {
            waiting,
            own: own.unwrap_or(none).name(),
            peer: peer.unwrap_or(none).name(),
            ..Row::new(cpu, self.0, list, if is_listed { state as u32 } else { 0 })
        })
    }

    fn ioctl<M: Machine>(self, call: &Call<M>, (request, at): (u32, u64)) -> SysResult {
        if request == SIOCATMARK && !self.is_of_datagrams() {
            // There is never anything urgent.
            call.write_user(at, &0u32.to_le_bytes())?;
            return Ok(0);
        }
        interface::ioctl(call, Self::VERSION, (request, at))
    }

    fn outlet<M: Machine>(self, call: &Call<M>) -> Result<Outlet, Errno> {
        if self.is_of_datagrams() {
            return Err(Errno::EINVAL);
        }
        if call.thread.progress.get() == 0
            && let Some(errno) = take_reset(call.cpu, self.0)
        {
            return Err(errno);
        }
        let outgoing = stream::outgoing(call.cpu, self.0).map_err(|_| {
            signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
            Errno::EPIPE
        });
        outgoing.map(Outlet::Pipe)
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>) {
        port::leave(cpu, self.0);
        if self.is_of_datagrams() { packet::end(cpu, self.0) } else { tcp::end(cpu, self.0) }
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>) {
        self.end(cpu);
        if self.0.protocol.get() == route::REQUESTS {
            gateway::forget_bell(cpu, self.0);
        }
        listening::free::<M, Self>(cpu, self.0);
    }
}
