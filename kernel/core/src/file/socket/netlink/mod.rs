//! Sockets of the kernel's own messages (netlink(7)): by `NETLINK_ROUTE`, programs ask about the loopback device, its addresses and its routes (rtnetlink(7)).
//!
//! Whatever is asked is answered before the call returns: answers are packets in the queue of the socket that has asked, and are lost without room there
//! (`ENOBUFS`). A dump is one packet, with its end. Nothing ever changes, so groups may be joined and nobody is told anything.
//!
//! Locks: as for `AF_UNIX`.

mod address;
mod link;
mod message;
mod options;
mod port;
mod request;
mod route;

use motet_abi::{Errno, terminal::*};
use motet_hal::Machine;
use motet_layout::{PACKET_MAX, SocketRecord, sync::Ordering};
use motet_protocol::{
    lock::lock,
    pipe::{self, packet::Limits},
};

use super::{
    OUTPUT_AND_BAND, SOCK_DGRAM, SOCK_RAW, credentials,
    family::{Address, Family, OPTION_MAX, Received, Receiving, Sending, one_queue},
    flags::MSG_OOB,
    interface::check_change,
    listening,
    name::Name,
    packet::{self, Queue, Source},
    rights::{self, Packet},
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{INPUT, OUTPUT, Queues, if_so},
};

use options::{DESTINATION, GROUPS};

const AF_NETLINK: u32 = 16;
const AF_UNSPEC: u32 = 0;
const NETLINK_ROUTE: u32 = 0;
const SOCK_KINDS: core::ops::Range<u32> = 0..11;
/// Bytes of `struct sockaddr_nl`.
const ADDRESS_LEN: usize = 12;
/// What a message's own bookkeeping takes of `SO_SNDBUF`, as Linux counts.
const OVERHEAD: u64 = 32;
/// Bytes of the longest message: an error repeats it, behind its own header.
const MESSAGE_MAX: u64 = PACKET_MAX as u64 - message::ERROR_LEN as u64;

/// A socket.
#[derive(Clone, Copy)]
pub struct Netlink(&'static SocketRecord);

/// Whom an address names: a port, 0 is the kernel, and groups.
struct Place {
    port: u32,
    groups: u32,
}

impl Place {
    /// Reads what programs write.
    ///
    /// # Errors
    /// `EINVAL`: it is too short, or of another family.
    fn of(address: &Address) -> Result<Self, Errno> {
        let bytes = address.bytes();
        if bytes.len() < ADDRESS_LEN || address.family() != Some(AF_NETLINK) {
            return Err(Errno::EINVAL);
        }
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|index| bytes[at + index]));
        Ok(Self { port: word(4), groups: word(8) })
    }

    fn address(&self) -> Address {
        let mut bytes = [0; ADDRESS_LEN];
        bytes[..2].copy_from_slice(&(AF_NETLINK as u16).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.port.to_le_bytes());
        bytes[8..].copy_from_slice(&self.groups.to_le_bytes());
        Address::of(&bytes)
    }

    /// Fails with `EPERM` unless the caller may send there: to the kernel everybody may.
    fn check<M: Machine>(&self, call: &Call<M>) -> Result<(), Errno> {
        if self.port == 0 && self.groups == 0 { Ok(()) } else { check_change(call) }
    }
}

impl Netlink {
    fn destination<M: Machine>(self, call: &Call<M>, address: &Address) -> Result<u32, Errno> {
        if address.bytes().is_empty() {
            return Ok(self.0.settings[DESTINATION].get());
        }
        let to = Place::of(address)?;
        to.check(call)?;
        Ok(to.port)
    }

    /// Sends a packet to another program.
    fn send_to<M: Machine>(self, call: &Call<M>, to: u32, packet: Packet<M>) -> Result<(), Errno> {
        let (cpu, name) = (call.cpu, port::name_of(port::of(self.0)));
        packet.record().name_len.set(name.store(&packet.record().name));
        packet.set_sender(credentials::own(call));
        let (queue, room) = {
            let _all = lock(cpu, &cpu.pool.header().socket_lock);
            let other = port::find(cpu, self.0.protocol.get(), to).ok_or(Errno::ECONNREFUSED)?;
            let queue = packet::queue(cpu, other).ok_or(Errno::ECONNREFUSED)?;
            (Queue::new(cpu, queue), other.buffers[1].get())
        };
        let limits = Limits { from: 0, cost: room, packets: u32::MAX, by_writer: false };
        match rights::push(cpu, queue.record(), &packet, limits) {
            Ok(true) => _ = packet.release(),
            // Linux waits for room, if the call may.
            Ok(false) => return Err(Errno::EAGAIN),
            Err(_) => return Err(Errno::ECONNREFUSED),
        }
        Ok(())
    }
}

impl Family for Netlink {
    const CODE: u32 = AF_NETLINK;
    const TELLS_CREDENTIALS: bool = true;

    fn of(socket: &'static SocketRecord) -> Self {
        Self(socket)
    }

    fn check(kind: u32, protocol: u32) -> Result<[u32; 2], Errno> {
        match (kind, protocol) {
            _ if !SOCK_KINDS.contains(&kind) => Err(Errno::EINVAL),
            (SOCK_RAW | SOCK_DGRAM, NETLINK_ROUTE) => Ok([kind, protocol]),
            (SOCK_RAW | SOCK_DGRAM, _) => Err(Errno::EPROTONOSUPPORT),
            _ => Err(Errno::ESOCKTNOSUPPORT),
        }
    }

    fn prepare<M: Machine>(self, call: &Call<M>) -> Result<(), Errno> {
        packet::prepare(call.cpu, self.0)
    }

    fn bind<M: Machine>(self, call: &Call<M>, address: &Address) -> Result<(), Stop> {
        let at = Place::of(address)?;
        port::bind(call, self.0, at.port)?;
        self.0.settings[GROUPS].set(at.groups);
        Ok(())
    }

    fn connect<M: Machine>(self, call: &Call<M>, _nonblocking: bool, address: &Address) -> Result<(), Stop> {
        let port = match address.family().ok_or(Errno::EINVAL)? {
            AF_UNSPEC => 0,
            _ => {
                let to = Place::of(address)?;
                to.check(call)?;
                port::choose(call, self.0)?;
                to.port
            }
        };
        self.0.settings[DESTINATION].set(port);
        Ok(())
    }

    fn name<M: Machine>(self, _cpu: &Cpu<M>) -> Address {
        Place { port: port::of(self.0), groups: self.0.settings[GROUPS].get() }.address()
    }

    /// The kernel, if it is connected to nobody.
    fn peer_name<M: Machine>(self, _cpu: &Cpu<M>) -> Result<Address, Errno> {
        Ok(Place { port: self.0.settings[DESTINATION].get(), groups: 0 }.address())
    }

    fn send<M: Machine>(self, call: &Call<M>, how: Sending<M>, from: &mut Cursor<M>) -> SysResult {
        let len = from.remaining();
        if how.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        if len == 0 {
            return Err(Errno::ENODATA.into());
        }
        let to = self.destination(call, how.address)?;
        port::choose(call, self.0)?;
        if len > MESSAGE_MAX.min(u64::from(self.0.buffers[0].get()).saturating_sub(OVERHEAD)) {
            return Err(Errno::EMSGSIZE.into());
        }
        // Its bytes are looked at when they are all here, where no program changes them.
        let packet = packet::fill(call, None, from)?;
        match to {
            0 => request::answer(call, self.0, &packet),
            to => self.send_to(call, to, packet)?,
        }
        Ok(len)
    }

    fn receive<'c, M: Machine>(
        self,
        call: &Call<'c, M>,
        how: Receiving,
        into: &mut Cursor<M>,
        with: &mut Received<'c, M>,
    ) -> SysResult {
        if how.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let address_of = |name: &Name| Place { port: port::of_name(name.bytes()), groups: 0 }.address();
        let source = Source { socket: self.0, room_waiters: None, address_of, extras_of: options::extras_of };
        packet::receive::<M, Self>(call, source, how, into, with)
    }

    fn option<M: Machine>(self, _cpu: &Cpu<M>, which: (u32, u32), into: &mut [u8; OPTION_MAX]) -> Result<usize, Errno> {
        options::get(self.0, which, into)
    }

    fn set_option<M: Machine>(self, call: &Call<M>, which: (u32, u32), value: (u64, u64)) -> Result<(), Stop> {
        options::set(call, self.0, which, value)
    }

    fn take_error<M: Machine>(self, _cpu: &Cpu<M>) -> Option<Errno> {
        Errno::from_raw(self.0.error.swap(0, Ordering::AcqRel))
    }

    fn readiness<M: Machine>(self, cpu: &Cpu<M>) -> u16 {
        let has_packets = packet::queue(cpu, self.0).is_some_and(|own| pipe::used(own) > 0);
        let has_error = self.0.error.load(Ordering::Acquire) != 0;
        if_so(has_packets, INPUT) | if_so(has_error, POLLERR) | OUTPUT_AND_BAND
    }

    fn queues<M: Machine>(self, cpu: &Cpu<M>) -> Queues {
        match packet::queue(cpu, self.0) {
            Some(own) => [(Some(&own.read_waiters), u16::MAX), (None, OUTPUT)],
            None => one_queue(&self.0.acceptors),
        }
    }

    fn arrivals<M: Machine>(self, cpu: &Cpu<M>) -> [Option<u64>; 2] {
        [packet::queue(cpu, self.0).map(|own| packet::arrivals(self.0, own)), None]
    }

    fn bytes_ready<M: Machine>(self, _cpu: &Cpu<M>) -> Result<u64, Errno> {
        Err(Errno::ENOTTY)
    }

    fn bytes_unsent<M: Machine>(self, _cpu: &Cpu<M>) -> Result<u64, Errno> {
        Err(Errno::ENOTTY)
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>) {
        port::leave(cpu, self.0);
        packet::end(cpu, self.0);
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>) {
        self.end(cpu);
        listening::free::<M, Self>(cpu, self.0);
    }
}
