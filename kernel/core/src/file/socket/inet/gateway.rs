//! What an island with a network device uses of sockets: its two sockets that wait for what goes outside, and the far ends of connections.
//!
//! A *far end* is a socket of the pool without a file, which the gateway's core is accepting for ever. So if its island dies, it is closed as sockets are that dead cores
//! were accepting, and resets its connection. The gateway stands in the queues of its pipes with a *bell*, and reads and writes them as a program does.

use core::{
    net::{Ipv4Addr, SocketAddrV4},
    ops::ControlFlow,
};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{
    Frame, PAGE_SIZE, PIPE_CAPACITY, PipeRecord, PoolAddr, SOCKET_LISTENING, SocketRecord, WatchRecord, in_order,
    sync::Ordering,
};
use motet_protocol::{Context, bound, lock::lock, pipe, slab, wait, watch};

use super::{
    super::{
        SHUT_WRITE, SOCK_DGRAM, SOCK_STREAM, connection,
        family::Family,
        flags::{BUFFER, SO_LINGER, turn},
        listening::{self, Joining},
        name::Name,
        packet, rights,
        route::{self, DATAGRAMS, REQUESTS, Route},
    },
    AF_INET, IPPROTO_TCP, Inet,
    endpoint::Endpoint,
    origin::Origin,
    port, tcp, udp,
};
use crate::cpu::Cpu;

/// Connections that wait until the gateway takes them.
const BACKLOG: u32 = 64;

/// A gateway's sockets. Copies stand for the same ones.
#[derive(Clone, Copy)]
pub struct Gateway {
    requests: &'static SocketRecord,
    datagrams: &'static SocketRecord,
    bell: &'static WatchRecord,
}

/// A datagram that leaves the machine.
pub struct Datagram {
    /// From where to where it goes.
    pub ends: [SocketAddrV4; 2],
    /// Over how many machines.
    pub hops: u8,
    /// Bytes of it.
    pub len: usize,
}

/// The far end of a connection.
#[derive(Clone, Copy)]
pub struct Far {
    socket: &'static SocketRecord,
    bell: &'static WatchRecord,
    incoming: &'static PipeRecord,
    outgoing: &'static PipeRecord,
}

/// What becomes of a connection of another machine's.
pub enum Arrived {
    /// It waits for a program to accept it.
    There(Far),
    /// There is no room for it now.
    Waits,
    /// Nobody listens any more.
    Unwanted,
}

/// What comes of a try to move bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// So many were moved; 0: there are none, or there is no room.
    Bytes(usize),
    /// There will be no more.
    End,
    /// The program has reset the connection, or reads no more.
    Gone,
}

impl Gateway {
    /// Makes the gateway of a device with that address (and that one on the wire). `None`: there is no memory.
    pub fn open<M: Machine>(cpu: &Cpu<M>, address: Ipv4Addr, hardware: [u8; 6]) -> Option<Self> {
        let requests = new_socket(cpu, SOCK_STREAM, REQUESTS)?;
        let Some((datagrams, bell)) = new_socket(cpu, SOCK_DGRAM, DATAGRAMS).and_then(|datagrams| {
            packet::prepare(cpu, datagrams).ok()?;
            Some((datagrams, new_bell(cpu, requests)?))
        }) else {
            close(cpu, requests);
            return None;
        };
        watch::enter_bell(cpu, bell, 0, &requests.acceptors, cpu.id);
        if let Some(queue) = packet::queue(cpu, datagrams) {
            watch::enter_bell(cpu, bell, 1, &queue.read_waiters, cpu.id);
        }
        requests.backlog.set(BACKLOG);
        requests.state.store(SOCKET_LISTENING, Ordering::Release);
        let _all = lock(cpu, &cpu.pool.header().socket_lock);
        Route::describe(requests, free_number(cpu), hardware);
        for socket in [requests, datagrams] {
            let at = Endpoint { address: address.to_ipv6_mapped(), port: 0 };
            socket.name_len.set(at.name().store(&socket.name));
            bound::enter(cpu, socket);
        }
        Some(Self { requests, datagrams, bell })
    }

    /// Whether anything may have come for it since this was last asked.
    pub fn is_rung(&self) -> bool {
        watch::take_stroke(self.bell)
    }

    /// A program's wish to be connected: the far end, and from where to where. `None`: there is none, or none that can be served now.
    pub fn take_request<M: Machine>(&self, cpu: &Cpu<M>) -> Option<(Far, [SocketAddrV4; 2])> {
        let socket = listening::take_pending(cpu, self.requests)?;
        wait::wake(cpu, &cpu.pool.header().socket_waiters);
        let ends = [port::peer_of(socket), port::bound_to(socket)].map(|end| end.and_then(socket_address));
        let far = Far::new(cpu, socket);
        match (far, ends) {
            (Some(far), [Some(from), Some(to)]) => Some((far, [from, to])),
            _ => {
                connection::end_for(cpu, socket, Errno::ENOBUFS);
                close(cpu, socket);
                None
            }
        }
    }

    /// A datagram that a program has sent, with its bytes. One that is too long is lost. `None`: there is none.
    pub fn take_datagram<M: Machine>(&self, cpu: &Cpu<M>, into: &mut [u8]) -> Option<Datagram> {
        let queue = packet::queue(cpu, self.datagrams)?;
        loop {
            let packet = rights::take_first(cpu, queue, || {})?;
            let (record, len) = (packet.record(), packet.record().len.get() as usize);
            let Some(origin) = Origin::of_name(&Name::of_sender(record)).filter(|_| len <= into.len()) else {
                continue;
            };
            let to = Endpoint { address: origin.to, port: origin.port };
            let [Some(from), Some(to)] = [origin.from, to].map(socket_address) else { continue };
            let mut done = 0;
            while done < len {
                let (from, here) = pipe::packet::piece(cpu, record, done);
                if here == 0 {
                    break;
                }
                cpu.pool.read(from, &mut into[done..done + here]);
                done += here;
            }
            return Some(Datagram { ends: [from, to], hops: origin.hops, len: done });
        }
    }

    /// Another machine has sent a datagram.
    pub fn deliver<M: Machine>(
        &self,
        cpu: &Cpu<M>,
        [from, to]: [SocketAddrV4; 2],
        (hops, class): (u8, u8),
        bytes: &[u8],
    ) {
        let (from, to) = (endpoint(from), endpoint(to));
        let (to, port) = (to.address, to.port);
        udp::arrive(cpu, &Origin { from, to, port, hops, class, sent_ns: cpu.realtime_ns() }, bytes);
    }

    /// Who has made the socket that listens for a connection from another machine; `None`: nobody listens.
    pub fn listener<M: Machine>(&self, cpu: &Cpu<M>, [from, to]: [SocketAddrV4; 2]) -> Option<u32> {
        let _all = lock(cpu, &cpu.pool.header().socket_lock);
        Some(port::find(cpu, IPPROTO_TCP, endpoint(from), endpoint(to))?.owner.get())
    }

    /// Another machine is connected: its far end, whose other end waits for a program to accept it.
    pub fn arrive<M: Machine>(&self, cpu: &Cpu<M>, [from, to]: [SocketAddrV4; 2]) -> Arrived {
        let has_room = {
            let _all = lock(cpu, &cpu.pool.header().socket_lock);
            let listener = port::find(cpu, IPPROTO_TCP, endpoint(from), endpoint(to));
            listener.map(|listener| listener.pending_count.get() <= listener.backlog.get())
        };
        match has_room {
            None => return Arrived::Unwanted,
            Some(false) => return Arrived::Waits,
            Some(true) => {}
        }
        let Some(socket) = new_socket(cpu, SOCK_STREAM, REQUESTS) else { return Arrived::Waits };
        let is_joined = {
            let _all = lock(cpu, &cpu.pool.header().socket_lock);
            let [from, to] = [from, to].map(endpoint);
            port::find(cpu, IPPROTO_TCP, from, to).is_some_and(|listener| {
                let how = Joining { excess: 0, is_begun: false };
                let introduce = |end: &'static SocketRecord| tcp::introduce([socket, listener, end], [from, to]);
                listening::join(cpu, socket, listener, how, introduce) == Ok(true)
            })
        };
        let far = if is_joined { Far::new(cpu, socket) } else { None };
        if far.is_none() {
            close(cpu, socket);
        }
        far.map_or(Arrived::Waits, Arrived::There)
    }
}

impl Far {
    fn new<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Option<Self> {
        let [incoming, outgoing] = connection::pipes(cpu, socket)?;
        resets_when_closed(socket, true);
        let bell = new_bell(cpu, socket)?;
        watch::enter_bell(cpu, bell, 0, &incoming.read_waiters, cpu.id);
        watch::enter_bell(cpu, bell, 1, &outgoing.write_waiters, cpu.id);
        Some(Self { socket, bell, incoming, outgoing })
    }

    /// Whether anything may be to be moved since this was last asked.
    pub fn is_rung(&self) -> bool {
        watch::take_stroke(self.bell)
    }

    /// The user whose connection it is.
    pub fn owner(&self) -> u32 {
        self.socket.owner.get()
    }

    /// The other machine has answered: there is a connection.
    pub fn establish<M: Machine>(&self, cpu: &Cpu<M>) {
        pipe::open(cpu, self.outgoing, pipe::WRITER, &self.socket.shut);
    }

    /// Whether the program has closed its socket, or given up connecting it.
    pub fn is_left(&self) -> bool {
        self.outgoing.readers.load(Ordering::Acquire) == 0
    }

    /// Whether the program has reset the connection.
    pub fn is_reset(&self) -> bool {
        connection::is_reset(self.incoming)
    }

    /// How many bytes the program's pipe has room for.
    pub fn room(&self) -> usize {
        PIPE_CAPACITY - pipe::used(self.outgoing)
    }

    /// Gives the program bytes, by way of a frame.
    pub fn give<M: Machine>(&self, cpu: &Cpu<M>, frame: Frame, bytes: &[u8]) -> Moved {
        let len = bytes.len().min(self.room()).min(PAGE_SIZE as usize);
        cpu.pool.write(frame.addr(), &bytes[..len]);
        match pipe::push(cpu, self.outgoing, false, || Ok::<_, Errno>([(frame.addr(), len), (PoolAddr::NULL, 0)])) {
            Ok(moved) => Moved::Bytes(moved.unwrap_or(0)),
            Err(Errno::ENOMEM) => Moved::Bytes(0),
            Err(_) => Moved::Gone,
        }
    }

    /// Takes bytes that the program has sent, by way of a frame.
    pub fn take<M: Machine>(&self, cpu: &Cpu<M>, frame: Frame, into: &mut [u8]) -> Moved {
        if connection::is_reset(self.incoming) {
            return Moved::Gone;
        }
        let len = into.len().min(PAGE_SIZE as usize);
        match pipe::pop(cpu, self.incoming, || Ok::<_, Errno>((frame.addr(), len))) {
            // It may have been reset just so, and its end closed.
            Ok(Some(0)) if connection::is_reset(self.incoming) => Moved::Gone,
            Ok(Some(0)) => Moved::End,
            Ok(Some(moved)) => {
                let moved = moved.min(len);
                cpu.pool.read(frame.addr(), &mut into[..moved]);
                Moved::Bytes(moved)
            }
            Ok(None) | Err(_) => Moved::Bytes(0),
        }
    }

    /// The other machine sends no more.
    pub fn end_of_input<M: Machine>(&self, cpu: &Cpu<M>) {
        connection::shut(cpu, self.socket, [self.incoming, self.outgoing], SHUT_WRITE);
    }

    /// There is no connection, or not any longer, and the program is told why.
    pub fn fail<M: Machine>(self, cpu: &Cpu<M>, errno: Errno) {
        connection::end_for(cpu, self.socket, errno);
        self.close(cpu);
    }

    /// All has been moved that there was, and the program is told nothing else.
    pub fn close<M: Machine>(self, cpu: &Cpu<M>) {
        resets_when_closed(self.socket, false);
        close(cpu, self.socket);
    }
}

/// The lowest number that no other device has. What is bound is locked.
fn free_number<M: Machine>(cpu: &Cpu<M>) -> u8 {
    let mut used = 0_u64;
    route::each(cpu, REQUESTS, |route| {
        used |= 1 << (route.device().map_or(0, |device| device.number) % 64);
        ControlFlow::Continue(())
    });
    used.trailing_ones() as u8
}

/// A socket that this core has for ever, and that is closed if it dies.
fn new_socket<M: Machine>(cpu: &Cpu<M>, kind: u32, protocol: u32) -> Option<&'static SocketRecord> {
    let socket = slab::alloc::<SocketRecord>(cpu)?;
    for (to, value) in [(&socket.family, AF_INET), (&socket.kind, kind), (&socket.protocol, protocol)] {
        to.set(value);
    }
    socket.buffers.iter().for_each(|bytes| bytes.set(BUFFER));
    resets_when_closed(socket, true);
    in_order();
    socket.acceptor.store(u32::from(cpu.id.0) + 1, Ordering::Release);
    Some(socket)
}

fn close<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    Inet::<AF_INET>::of(socket).close(cpu);
}

fn resets_when_closed(socket: &SocketRecord, resets: bool) {
    socket.linger_s.set(0);
    turn(socket, SO_LINGER, resets);
}

fn new_bell<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<&'static WatchRecord> {
    let bell = slab::alloc::<WatchRecord>(cpu)?;
    socket.inode.set(cpu.raw(bell));
    in_order();
    Some(bell)
}

/// Frees the bell of a gateway's socket.
pub fn forget_bell<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) {
    if let Some(bell) = cpu.object::<WatchRecord>(socket.inode.get()) {
        watch::leave(cpu, bell);
        socket.inode.set(0);
        in_order();
        slab::free(cpu, bell);
    }
}

fn endpoint(at: SocketAddrV4) -> Endpoint {
    Endpoint { address: at.ip().to_ipv6_mapped(), port: at.port() }
}

fn socket_address(at: Endpoint) -> Option<SocketAddrV4> {
    let ip = at.address.to_ipv4_mapped()?;
    (at.port != 0).then(|| SocketAddrV4::new(ip, at.port))
}
