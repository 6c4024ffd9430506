//! Looks at frames before the protocols do.

use core::net::{Ipv4Addr, SocketAddrV4};

use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket};

/// From where to where a frame is the first of a connection, if it is one to that address. It is only believed if it is whole.
pub fn call_of(frame: &[u8], own: Ipv4Addr) -> Option<[SocketAddrV4; 2]> {
    let ethernet = EthernetFrame::new_checked(frame).ok().filter(|it| it.ethertype() == EthernetProtocol::Ipv4)?;
    let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    let is_whole = packet.version() == 4 && !packet.more_frags() && packet.frag_offset() == 0;
    let is_for_us = packet.dst_addr() == own && packet.next_header() == IpProtocol::Tcp;
    if !is_whole || !is_for_us || !packet.verify_checksum() {
        return None;
    }
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    let segment = TcpPacket::new_checked(packet.payload()).ok()?;
    let is_call = segment.syn() && !segment.ack() && !segment.rst() && !segment.fin();
    let is_possible = segment.src_port() != 0 && segment.dst_port() != 0;
    if !is_call || !is_possible || !segment.verify_checksum(&from.into(), &to.into()) {
        return None;
    }
    Some([SocketAddrV4::new(from, segment.src_port()), SocketAddrV4::new(to, segment.dst_port())])
}
