//! Datagrams to and from other machines. Each is a packet of its own, with its headers: of the protocols, it only needs to know where to.

use core::net::{Ipv4Addr, SocketAddrV4};

use motet_hal::{Machine, Network};
use smoltcp::{
    socket::raw::{PacketBuffer, PacketMetadata, Socket},
    wire::{IpProtocol, IpVersion, Ipv4Packet, UdpPacket},
};

use super::Net;
use crate::{cpu::Cpu, file::socket::gateway::Datagram};

/// Bytes that may wait to be sent, and that may wait to be received.
const BUFFER_BYTES: usize = 24 << 10;
/// Packets.
const PACKETS: usize = 16;
const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// The protocols' socket for them.
pub fn socket(network: &mut Network) -> Option<Socket<'static>> {
    let mut buffer = || {
        let packets = network.place(PACKETS, || PacketMetadata::EMPTY)?;
        Some(PacketBuffer::new(packets, network.take_bytes(BUFFER_BYTES)?))
    };
    let (received, sent) = (buffer()?, buffer()?);
    Some(Socket::new(Some(IpVersion::Ipv4), Some(IpProtocol::Udp), received, sent))
}

impl Net {
    /// Moves datagrams in both directions. `true`: there may be more.
    pub(super) fn take_datagrams<M: Machine>(&mut self, cpu: &Cpu<M>) -> bool {
        let (address, programs) = (self.address, self.sockets_of_programs);
        let socket = self.sockets.get_mut::<Socket>(self.datagrams);
        while let Ok(packet) = socket.recv() {
            if let Some((ends, said, bytes)) = read(packet, address) {
                programs.deliver(cpu, ends, said, bytes);
            }
        }
        for _ in 0..PACKETS {
            let room = &mut *self.frames[1];
            if !socket.can_send() {
                return false;
            }
            let Some(datagram) = programs.take_datagram(cpu, room) else { return false };
            if let Ok(packet) = socket.send(IP_HEADER + UDP_HEADER + datagram.len) {
                write(packet, &datagram, &room[..datagram.len]);
            }
        }
        true
    }
}

/// From where to where a datagram was sent, its hops and class, and its bytes.
type Read<'a> = ([SocketAddrV4; 2], (u8, u8), &'a [u8]);

/// What a received packet says. `None`: it is no whole datagram to that address.
fn read(packet: &[u8], own: Ipv4Addr) -> Option<Read<'_>> {
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    let (from, to) = (ip.src_addr(), ip.dst_addr());
    let is_whole = to == own && ip.next_header() == IpProtocol::Udp && !ip.more_frags() && ip.frag_offset() == 0;
    let payload = packet.get(usize::from(ip.header_len())..usize::from(ip.total_len())).filter(|_| is_whole)?;
    let datagram = UdpPacket::new_checked(payload).ok()?;
    if datagram.dst_port() == 0 || !datagram.verify_checksum(&from.into(), &to.into()) {
        return None;
    }
    let ends = [SocketAddrV4::new(from, datagram.src_port()), SocketAddrV4::new(to, datagram.dst_port())];
    let bytes = payload.get(UDP_HEADER..usize::from(datagram.len()))?;
    Some((ends, (ip.hop_limit(), ip.dscp() << 2 | ip.ecn()), bytes))
}

/// Makes a packet of a datagram.
fn write(packet: &mut [u8], datagram: &Datagram, bytes: &[u8]) {
    let ([from, to], len) = (datagram.ends, packet.len() as u16);
    let mut ip = Ipv4Packet::new_unchecked(packet);
    ip.set_version(4);
    ip.set_header_len(IP_HEADER as u8);
    ip.set_total_len(len);
    ip.set_dont_frag(true);
    ip.set_hop_limit(datagram.hops);
    ip.set_next_header(IpProtocol::Udp);
    ip.set_src_addr(*from.ip());
    ip.set_dst_addr(*to.ip());
    ip.fill_checksum();
    let mut udp = UdpPacket::new_unchecked(ip.payload_mut());
    udp.set_src_port(from.port());
    udp.set_dst_port(to.port());
    udp.set_len(len - IP_HEADER as u16);
    udp.payload_mut().copy_from_slice(bytes);
    udp.fill_checksum(&(*from.ip()).into(), &(*to.ip()).into());
}
