//! The outside network, on an island that has a device: the *gateway* between programs' sockets and the internet's protocols.
//!
//! Programs' sockets are in the pool as ever, and any thread of any island uses them directly. The other ends of their pipes are this core's, which moves bytes between them
//! and the protocols' sockets (`smoltcp`, in the island's private memory). It works when the device, a program or its own timer asks for that, a bounded piece at a time.
//!
//! Protocol page: `docs/protocols/network.md`.

mod connections;
mod datagrams;
mod frames;
mod wire;

use core::net::Ipv4Addr;

use motet_hal::{Machine, Network, network::FRAME_BYTES_MAX};
use motet_layout::TIMER_NETWORK;
use motet_protocol::{
    Context,
    memory::{alloc_frame, release_frame},
    timer,
};
use smoltcp::{
    iface::{Config, Interface, SocketHandle, SocketSet, SocketStorage},
    socket::tcp,
    time::{Duration, Instant},
    wire::{EthernetAddress, IpCidr},
};

use crate::{alarm, cpu::Cpu, file::socket::gateway, random};

use connections::{Call, Connection};
use wire::Wire;

/// Bytes that a connection keeps of what it has sent, and of what it has received.
const BUFFER_BYTES: usize = 16 << 10;
/// Connections at most, if there is memory for so many.
const CONNECTIONS_MAX: usize = 320;
/// Memory for anything but buffers and what is kept of each connection.
const OTHER_BYTES: usize = 80 << 10;
/// Frames that are looked at, and sent, before this core does something else.
const FRAMES_AT_ONCE: usize = 32;
/// Wishes to be connected that are taken before it does.
const REQUESTS_AT_ONCE: usize = 8;
/// When it looks again that cannot go on now.
const AGAIN_NS: u64 = 1_000_000;
/// When it looks again whether there is room in a listener's list.
const WAITS: Duration = Duration::from_millis(2);

/// The gateway of an island.
struct Net {
    address: Ipv4Addr,
    sockets_of_programs: gateway::Gateway,
    interface: Interface,
    sockets: SocketSet<'static>,
    connections: &'static mut [Connection],
    /// Which of them was served first, the last time.
    served_first: usize,
    /// One of them waits for room in a listener's list, of which nobody tells.
    waits: bool,
    /// The protocols' socket for datagrams, which it sends and receives whole.
    datagrams: SocketHandle,
    /// A frame that has come, and one that is made.
    frames: [&'static mut [u8]; 2],
}

/// This core, an island's first one, takes the network device, if there is one.
pub fn begin<M: Machine>(cpu: &Cpu<M>) {
    let Some(network) = (!cpu.is_timed()).then(|| cpu.machine.take_network()).flatten() else { return };
    match Net::new(cpu, network) {
        Some(net) => {
            cpu.log(format_args!("the network is {}/24", net.address));
            cpu.net.put(net);
            look(cpu);
        }
        None => cpu.log(format_args!("there is no network: its memory is too small")),
    }
}

/// The device, a program or a timer may have asked for the gateway.
#[inline]
pub fn look<M: Machine>(cpu: &Cpu<M>) {
    if let Some(gateway) = cpu.net.take() {
        if let Some(net) = gateway.downcast_mut::<Net>() {
            net.work(cpu);
        }
        cpu.net.put(gateway);
    }
}

impl Net {
    fn new<M: Machine>(cpu: &Cpu<M>, mut network: Network) -> Option<&'static mut Self> {
        let address = Ipv4Addr::new(10, 0, 2 + cpu.island().0, 15);
        let each = 2 * BUFFER_BYTES + size_of::<SocketStorage>() + size_of::<Connection>();
        let count = (network.memory.len().checked_sub(OTHER_BYTES)? / each).min(CONNECTIONS_MAX);
        let mut sockets = SocketSet::new(network.place(count + 1, || SocketStorage::EMPTY)?);
        let connections = network.place(count, Connection::default)?;
        for connection in &mut *connections {
            let [received, sent] = [network.take_bytes(BUFFER_BYTES)?, network.take_bytes(BUFFER_BYTES)?];
            let mut socket = tcp::Socket::new(tcp::SocketBuffer::new(received), tcp::SocketBuffer::new(sent));
            socket.set_nagle_enabled(false);
            connection.handle = sockets.add(socket);
        }
        let datagrams = sockets.add(datagrams::socket(&mut network)?);
        let frames = [network.take_bytes(FRAME_BYTES_MAX)?, network.take_bytes(FRAME_BYTES_MAX)?];
        let [seed] = random::words(cpu);
        let mut config = Config::new(EthernetAddress(network.address).into());
        config.random_seed = seed;
        let (mut room, mut left) = ([0; 0], 0);
        let mut wire = Wire { machine: cpu.machine, received: None, room: &mut room, left: &mut left };
        let mut interface = Interface::new(config, &mut wire, now(cpu));
        interface.update_ip_addrs(|addresses| _ = addresses.push(IpCidr::new(address.into(), 24)));
        let router = Ipv4Addr::new(10, 0, 2 + cpu.island().0, 2);
        interface.routes_mut().add_default_ipv4_route(router).ok()?;
        let sockets_of_programs = gateway::Gateway::open(cpu, address, network.address)?;
        let mut net = Some(Self {
            address,
            sockets_of_programs,
            interface,
            sockets,
            connections,
            served_first: 0,
            waits: false,
            datagrams,
            frames,
        });
        network.place(1, || net.take())?.first_mut()?.as_mut()
    }

    /// Moves what there is to be moved, as far as may be done at once.
    fn work<M: Machine>(&mut self, cpu: &Cpu<M>) {
        let Some(frame) = alloc_frame(cpu) else { return self.look_again(cpu, AGAIN_NS) };
        let now = now(cpu);
        let mut left = FRAMES_AT_ONCE;
        self.sockets_of_programs.is_rung();
        let mut has_more = self.take_requests(cpu, now);
        has_more |= self.take_frames(cpu, now, &mut left);
        self.interface.poll_maintenance(now);
        has_more |= self.take_datagrams(cpu);
        has_more |= self.serve_connections(cpu, (frame, now), connections::Heard::Answer);
        let has_sent = self.send_frames(cpu, now, &mut left);
        has_more |= self.serve_connections(cpu, (frame, now), connections::Heard::Nothing);
        release_frame(cpu, frame);
        if has_more || has_sent && left == 0 {
            cpu.ring(cpu.id);
        }
        let next = self.interface.poll_at(now, &self.sockets);
        let next = if self.waits { Some(next.map_or(now + WAITS, |next| next.min(now + WAITS))) } else { next };
        match next.map(|next| next.total_micros().max(0).cast_unsigned().saturating_mul(1000)) {
            // The device has no room, or tells when it has; or something is due that could not be done now.
            Some(next_ns) => self.look_again(cpu, next_ns.saturating_sub(cpu.now_ns()).max(AGAIN_NS / 20)),
            None => timer::disarm(cpu, &cpu.island_record().network),
        }
    }

    fn look_again<M: Machine>(&self, cpu: &Cpu<M>, after_ns: u64) {
        let (node, deadline_ns) = (&cpu.island_record().network, cpu.now_ns() + after_ns);
        timer::disarm(cpu, node);
        node.kind.set(TIMER_NETWORK);
        timer::arm(cpu, node, deadline_ns);
        alarm::set_timer(cpu, deadline_ns);
    }

    /// Looks at frames that have come. `true`: there may be more.
    fn take_frames<M: Machine>(&mut self, cpu: &Cpu<M>, now: Instant, left: &mut usize) -> bool {
        for _ in 0..FRAMES_AT_ONCE {
            if *left == 0 {
                // What comes may have to be answered at once.
                return true;
            }
            let Some(len) = cpu.machine.receive_frame(self.frames[0]) else { return false };
            if let Some(ends) = frames::call_of(&self.frames[0][..len.min(FRAME_BYTES_MAX)], self.address)
                && self.prepare_listener(cpu, now, ends) == Call::Ignored
            {
                continue;
            }
            let [received, room] = &mut self.frames;
            let received = Some(&received[..len.min(FRAME_BYTES_MAX)]);
            let mut wire = Wire { machine: cpu.machine, received, room, left };
            self.interface.poll_ingress_single(now, &mut wire, &mut self.sockets);
        }
        true
    }

    /// Sends what the protocols have to send. `true`: some was sent.
    fn send_frames<M: Machine>(&mut self, cpu: &Cpu<M>, now: Instant, left: &mut usize) -> bool {
        let before = *left;
        while *left > 0 {
            let at_first = *left;
            let mut wire = Wire { machine: cpu.machine, received: None, room: self.frames[1], left };
            self.interface.poll_egress(now, &mut wire, &mut self.sockets);
            if *left == at_first {
                break;
            }
        }
        *left < before
    }
}

fn now<M: Machine>(cpu: &Cpu<M>) -> Instant {
    Instant::from_micros((cpu.now_ns() / 1000).cast_signed())
}
