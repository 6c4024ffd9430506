//! The machine at the other end of a network device, which is 10.0.2.2 and, for the third island, 10.0.4.2, with services that tests ask for.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use motet_hal_hosted::network::{Maker, Remote};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{AnySocket, tcp, udp};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint, IpProtocol, Ipv4Packet, TcpPacket};

/// What it does.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    /// Sends back what comes at a port, and ends when that ends. So many may be connected at once.
    Echo(u16, usize),
    /// Reads little at a time at a port, and says at the end how much it was, by 8 bytes.
    Slow(u16),
    /// Lets others connect at a port, and never sends a frame of that connection again.
    Vanishing(u16),
    /// Connects to that port of the island's so many times, sends 8 bytes, and expects them back and the end.
    Ask(u16, u32),
    /// Sends datagrams back that come at a port.
    Datagrams(u16),
    /// Sends so many frames that no machine should send, by this seed.
    Babble(u32, u64),
}

/// What others are told of it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Told {
    /// How often it has been answered as it expects.
    pub answered: u32,
    /// How often it was refused, or its connection was broken off.
    pub refused: u32,
}

/// Where it writes that down.
pub type Notes = Arc<Mutex<Told>>;

/// Makes such a machine.
pub fn host(services: &[Service], notes: &Notes) -> Maker {
    let (services, notes) = (services.to_vec(), notes.clone());
    Maker(Arc::new(move || Box::new(Host::new(&services, notes.clone()))))
}

/// Frames that have come, and those to be sent.
#[derive(Default)]
struct Frames {
    received: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Received(Vec<u8>);
struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl Device for Frames {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received, Sent<'_>)> {
        self.received.pop_front().map(|frame| (Received(frame), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ethernet, 1514);
        capabilities
    }
}

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(&self.0)
    }
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, make: F) -> R {
        let mut frame = vec![0; len];
        let made = make(&mut frame);
        self.0.push(frame);
        made
    }
}

struct Server {
    service: Service,
    handle: SocketHandle,
    /// What it has read, and of which port it asks next.
    count: u64,
    has_asked: bool,
    at: Instant,
}

struct Host {
    frames: Frames,
    interface: Interface,
    sockets: SocketSet<'static>,
    servers: Vec<Server>,
    next_port: u16,
    notes: Notes,
    /// Frames of nonsense that are left, and where the generator is.
    babble: (u32, u64),
}

impl Host {
    fn new(services: &[Service], notes: Notes) -> Self {
        let mut frames = Frames::default();
        let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 2]).into());
        let mut interface = Interface::new(config, &mut frames, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            for network in [2, 4] {
                addresses.push(IpCidr::new(IpAddress::v4(10, 0, network, 2), 24)).expect("room for two");
            }
        });
        let mut sockets = SocketSet::new(Vec::new());
        let mut servers = Vec::new();
        let mut babble = (0, 0);
        for &service in services {
            if let Service::Babble(count, seed) = service {
                babble = (count, seed);
                continue;
            }
            let count = if let Service::Echo(_, count) = service { count } else { 1 };
            for _ in 0..count {
                let handle = if let Service::Datagrams(port) = service {
                    let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 16], vec![0; 32 << 10]);
                    let mut socket = udp::Socket::new(buffer(), buffer());
                    socket.bind(port).expect("a port");
                    sockets.add(socket)
                } else {
                    let buffer = || tcp::SocketBuffer::new(vec![0; 4096]);
                    let mut socket = tcp::Socket::new(buffer(), buffer());
                    if !matches!(service, Service::Vanishing(_)) {
                        socket.set_timeout(Some(Duration::from_secs(60)));
                    }
                    sockets.add(socket)
                };
                servers.push(Server { service, handle, count: 0, has_asked: false, at: Instant::ZERO });
            }
        }
        Self { frames, interface, sockets, servers, next_port: 50_000, notes, babble }
    }

    fn serve(&mut self, now: Instant) {
        for server in &mut self.servers {
            if let Service::Datagrams(_) = server.service {
                let socket = self.sockets.get_mut::<udp::Socket>(server.handle);
                while let Ok((bytes, from)) = socket.recv().map(|(bytes, from)| (bytes.to_vec(), from)) {
                    let _ = socket.send_slice(&bytes, from.endpoint);
                }
                continue;
            }
            let socket = self.sockets.get_mut::<tcp::Socket>(server.handle);
            match server.service {
                Service::Echo(port, _) => {
                    listen(socket, port);
                    echo(socket);
                }
                Service::Slow(port) => {
                    listen(socket, port);
                    server.read_slowly(socket, now);
                }
                Service::Vanishing(port) => listen(socket, port),
                Service::Ask(port, times) => {
                    let mut told = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
                    if server.ask(socket, &mut told, now) && told.answered < times {
                        self.next_port += 1;
                        let to = IpEndpoint::new(IpAddress::v4(10, 0, 2, 15), port);
                        socket.connect(self.interface.context(), to, self.next_port).expect("a free socket");
                    }
                }
                Service::Datagrams(_) | Service::Babble(..) => {}
            }
        }
    }

    /// Whether a frame is of a connection that has vanished: those with bytes are.
    fn is_gone(&self, frame: &[u8]) -> bool {
        let is_tcp = frame.len() >= 54 && frame[12..14] == [8, 0] && frame[23] == 6;
        let port = is_tcp.then(|| u16::from_be_bytes([frame[36], frame[37]]));
        if !is_tcp {
            return false;
        }
        let headers = 14 + 20 + usize::from(frame[46] >> 4) * 4;
        let len = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let is_its = |service| matches!(service, Service::Vanishing(gone) if Some(gone) == port);
        len > headers && self.servers.iter().any(|server| is_its(server.service))
    }
}

impl Host {
    /// Whether a frame is the first of a connection that is there: `smoltcp` would make another one of it, as long as another socket listens.
    fn has_come_before(&self, frame: &[u8]) -> bool {
        let is_first = frame.len() >= 54 && frame[12..14] == [8, 0] && frame[23] == 6 && frame[47] & 0x12 == 2;
        let port = is_first.then(|| u16::from_be_bytes([frame[34], frame[35]]));
        let tcp = self.sockets.iter().filter_map(|(_, socket)| tcp::Socket::downcast(socket));
        port.is_some() && tcp.filter_map(tcp::Socket::remote_endpoint).any(|there| Some(there.port) == port)
    }
}

impl Server {
    fn read_slowly(&mut self, socket: &mut tcp::Socket<'_>, now: Instant) {
        if now >= self.at && socket.can_recv() {
            self.count += socket.recv(|bytes| (bytes.len().min(700), bytes.len().min(700))).expect("bytes") as u64;
            self.at = now + Duration::from_millis(3);
        }
        if !socket.may_recv() && socket.can_send() {
            socket.send_slice(&self.count.to_le_bytes()).expect("room");
            socket.close();
        }
    }

    /// `true`: it is to ask again.
    fn ask(&mut self, socket: &mut tcp::Socket<'_>, told: &mut Told, now: Instant) -> bool {
        if socket.can_send() && !self.has_asked {
            socket.send_slice(b"question").expect("room");
            self.has_asked = true;
        }
        if self.has_asked && socket.can_recv() {
            self.count += socket.recv(|bytes| (bytes.len(), bytes.len())).expect("bytes") as u64;
        }
        let has_ended = !socket.may_recv() && socket.state() != tcp::State::SynSent;
        if has_ended && self.count == 8 {
            told.answered += 1;
            socket.close();
            (self.count, self.has_asked, self.at) = (0, false, now + Duration::from_millis(1));
        }
        if socket.state() == tcp::State::Closed && self.at.total_micros() == 0 {
            self.at = now + Duration::from_millis(1);
        } else if socket.state() == tcp::State::Closed && self.has_asked {
            told.refused += 1;
            (self.count, self.has_asked, self.at) = (0, false, now + Duration::from_millis(1));
        }
        !socket.is_open() && now >= self.at && self.at.total_micros() != 0
    }
}

/// A frame that is none, or nearly one: bytes of all kinds at each layer, of which the checks that come first say that all is well.
fn nonsense(random: &mut u64) -> Vec<u8> {
    let mut below = |bound: u64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % bound
    };
    let len = [1 + below(60), 40 + below(100), below(1501)][below(3) as usize] as usize;
    let mut frame: Vec<u8> = (0..14 + len).map(|_| below(256) as u8).collect();
    let layers = below(5);
    if layers == 0 {
        return frame;
    }
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, [0, 0, 0, 6][below(4) as usize]]);
    if layers == 1 || len < 20 {
        return frame;
    }
    let mut ip = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.set_version(4);
    if layers > 2 {
        ip.set_header_len(20 + 4 * below(3) as u8);
        ip.set_total_len(len as u16);
    }
    ip.clear_flags();
    ip.set_frag_offset(if below(8) == 0 { 8 } else { 0 });
    ip.set_src_addr(Ipv4Addr::new(10, 0, 2, [2, 3, 15, 255][below(4) as usize]));
    ip.set_dst_addr(Ipv4Addr::new(10, 0, 2, 15));
    let protocols = [IpProtocol::Tcp, IpProtocol::Tcp, IpProtocol::Udp, IpProtocol::Icmp];
    ip.set_next_header(protocols[below(4) as usize]);
    if usize::from(ip.header_len()) <= len {
        ip.fill_checksum();
    }
    if layers < 4 || len < 60 || ip.next_header() != IpProtocol::Tcp {
        return frame;
    }
    let (from, to) = (ip.src_addr(), ip.dst_addr());
    let mut segment = TcpPacket::new_unchecked(ip.payload_mut());
    segment.set_dst_port([8080, 8080, 40_000, 1][below(4) as usize]);
    segment.set_header_len(20 + 4 * below(4) as u8);
    if below(2) == 0 {
        segment.clear_flags();
        segment.set_syn(true);
    }
    segment.fill_checksum(&from.into(), &to.into());
    frame
}

fn listen(socket: &mut tcp::Socket<'_>, port: u16) {
    if !socket.is_open() {
        socket.listen(port).expect("a closed socket listens");
    }
}

fn echo(socket: &mut tcp::Socket<'_>) {
    while socket.can_recv() && socket.can_send() {
        let room = socket.send_capacity() - socket.send_queue();
        let bytes = socket.recv(|bytes| {
            let len = bytes.len().min(room);
            (len, bytes[..len].to_vec())
        });
        socket.send_slice(&bytes.expect("it can receive")).expect("there is room");
    }
    if !socket.may_recv() && socket.may_send() && socket.recv_queue() == 0 {
        socket.close();
    }
}

impl Remote for Host {
    fn receive(&mut self, _now_ns: u64, frame: &[u8]) {
        if !self.is_gone(frame) && !self.has_come_before(frame) {
            self.frames.received.push_back(frame.to_vec());
        }
    }

    fn poll(&mut self, now_ns: u64, send: &mut dyn FnMut(&[u8])) -> Option<u64> {
        let now = Instant::from_micros((now_ns / 1000).cast_signed());
        for _ in 0..3 {
            self.interface.poll(now, &mut self.frames, &mut self.sockets);
            self.serve(now);
        }
        self.interface.poll(now, &mut self.frames, &mut self.sockets);
        self.frames.sent.drain(..).for_each(|frame| send(&frame));
        for _ in 0..self.babble.0.min(8) {
            self.babble.0 -= 1;
            send(&nonsense(&mut self.babble.1));
        }
        let servers = self.servers.iter().filter_map(|server| match server.service {
            Service::Ask(..) | Service::Slow(_) if server.at > now => Some(server.at),
            Service::Slow(_) => {
                let socket = self.sockets.get::<tcp::Socket>(server.handle);
                socket.can_recv().then_some(server.at.max(now))
            }
            Service::Ask(..)
            | Service::Echo(..)
            | Service::Vanishing(_)
            | Service::Datagrams(_)
            | Service::Babble(..) => None,
        });
        let babbles = (self.babble.0 > 0).then_some(now + Duration::from_micros(500));
        let servers = servers.chain(babbles);
        let next = servers.chain(self.interface.poll_at(now, &self.sockets)).min();
        next.map(|next| next.total_micros().max(0).cast_unsigned() * 1000)
    }
}
