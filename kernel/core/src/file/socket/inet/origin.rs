//! What is told of a datagram besides its bytes (ip(7), ipv6(7)): from where and to where it was sent, how, and when. And what its sender may say of that.

use core::net::{Ipv4Addr, Ipv6Addr};

use motet_abi::{
    Errno,
    time::{Timespec, Timeval},
};
use motet_layout::SocketRecord;

use super::{
    super::{
        control::{Extras, Said},
        flags::{SOL_SOCKET, is_on},
        interface,
        name::Name,
    },
    endpoint::{Endpoint, NAME_LEN, Version},
    options::{
        self, IP_PKTINFO, IP_RECVTOS, IP_RECVTTL, IPV6_RECVHOPLIMIT, IPV6_RECVPKTINFO, IPV6_RECVTCLASS, SO_TIMESTAMP,
        SO_TIMESTAMPNS, SOL_IP, SOL_IPV6, TIMESTAMPNS_BIT, is_told,
    },
};

const IP_TOS: u32 = 1;
const IP_TTL: u32 = 2;
const IPV6_PKTINFO: u32 = 50;
const IPV6_HOPLIMIT: u32 = 52;
const IPV6_TCLASS: u32 = 67;

/// What a packet's name is: the endpoint that it is from, the address and port that it was sent to, hops, class, and when it was sent (nanoseconds of real time).
pub struct Origin {
    pub from: Endpoint,
    pub to: Ipv6Addr,
    pub port: u16,
    pub hops: u8,
    pub class: u8,
    pub sent_ns: u64,
}

const TO: usize = NAME_LEN;
const PORT: usize = TO + 16;
const HOPS: usize = PORT + 2;
const CLASS: usize = HOPS + 1;
const SENT: usize = CLASS + 1;
const LEN: usize = SENT + 8;

impl Origin {
    /// The name of a packet.
    pub fn name(&self) -> Name {
        let mut bytes = [0; LEN];
        bytes[..NAME_LEN].copy_from_slice(self.from.name().bytes());
        bytes[TO..PORT].copy_from_slice(&self.to.octets());
        bytes[PORT..HOPS].copy_from_slice(&self.port.to_be_bytes());
        (bytes[HOPS], bytes[CLASS]) = (self.hops, self.class);
        bytes[SENT..].copy_from_slice(&self.sent_ns.to_le_bytes());
        Name::of_bytes(&bytes)
    }

    /// That of a packet with that name.
    pub fn of_name(name: &Name) -> Option<Self> {
        let bytes = name.bytes().first_chunk::<LEN>()?;
        Some(Self {
            from: Endpoint::of_name(name)?,
            to: Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|index| bytes[TO + index])),
            port: u16::from_be_bytes([bytes[PORT], bytes[PORT + 1]]),
            hops: bytes[HOPS],
            class: bytes[CLASS],
            sent_ns: u64::from_le_bytes(core::array::from_fn(|index| bytes[SENT + index])),
        })
    }
}

/// What a socket is told of a datagram by control messages, as far as it wants to know.
pub fn extras_of(version: Version, socket: &SocketRecord, name: &Name) -> Extras {
    let mut extras = Extras::NONE;
    let Some(origin) = Origin::of_name(name) else { return extras };
    let (seconds, ns) =
        ((origin.sent_ns / 1_000_000_000).cast_signed(), (origin.sent_ns % 1_000_000_000).cast_signed());
    if is_on(socket, TIMESTAMPNS_BIT) {
        extras.add([SOL_SOCKET, SO_TIMESTAMPNS], &Timespec { tv_sec: seconds, tv_nsec: ns }.to_bytes());
    } else if is_on(socket, SO_TIMESTAMP) {
        extras.add([SOL_SOCKET, SO_TIMESTAMP], &Timeval { tv_sec: seconds, tv_usec: ns / 1000 }.to_bytes());
    }
    if version == Version::V6 && is_told(socket, (SOL_IPV6, IPV6_RECVPKTINFO)) {
        let mut told = [0; 20];
        told[..16].copy_from_slice(&origin.to.octets());
        told[16..].copy_from_slice(&interface::INDEX.to_le_bytes());
        extras.add([SOL_IPV6, IPV6_PKTINFO], &told);
    }
    let Some(v4) = origin.to.to_ipv4_mapped() else {
        if is_told(socket, (SOL_IPV6, IPV6_RECVHOPLIMIT)) {
            extras.add([SOL_IPV6, IPV6_HOPLIMIT], &u32::from(origin.hops).to_le_bytes());
        }
        if is_told(socket, (SOL_IPV6, IPV6_RECVTCLASS)) {
            extras.add([SOL_IPV6, IPV6_TCLASS], &u32::from(origin.class).to_le_bytes());
        }
        return extras;
    };
    if is_told(socket, (SOL_IP, IP_PKTINFO)) {
        let to_all = Endpoint { address: origin.to, port: 0 }.is_broadcast();
        let own = if to_all { Ipv4Addr::LOCALHOST } else { v4 };
        let mut told = [0; 12];
        told[..4].copy_from_slice(&interface::INDEX.to_le_bytes());
        told[4..8].copy_from_slice(&own.octets());
        told[8..].copy_from_slice(&v4.octets());
        extras.add([SOL_IP, IP_PKTINFO], &told);
    }
    if is_told(socket, (SOL_IP, IP_RECVTTL)) {
        extras.add([SOL_IP, IP_TTL], &u32::from(origin.hops).to_le_bytes());
    }
    if is_told(socket, (SOL_IP, IP_RECVTOS)) {
        extras.add([SOL_IP, IP_TOS], &[origin.class]);
    }
    extras
}

/// Reads what a sender says by a control message.
///
/// # Errors
/// `EINVAL`: there is no such one, or its length or value is wrong.
pub fn control(
    version: Version,
    said: &mut Said,
    (level, kind): (u32, u32),
    data: &[u8],
    len: u64,
) -> Result<(), Errno> {
    let word = |at: usize| data.get(at..at + 4).map(|word| u32::from_le_bytes(core::array::from_fn(|i| word[i])));
    let number = || word(0).filter(|_| len == 4).map(u32::cast_signed).ok_or(Errno::EINVAL);
    let in_range = |value: i32, least: i32| {
        if value < least { Err(Errno::EINVAL) } else { u8::try_from(value).map_err(|_| Errno::EINVAL) }
    };
    match (level, kind) {
        (SOL_IP, IP_PKTINFO) if len == 12 => {
            said.interface = word(0).unwrap_or(0);
            let octets: [u8; 4] = core::array::from_fn(|index| data[4 + index]);
            let source = Ipv4Addr::from(octets);
            said.source = (!source.is_unspecified()).then(|| source.to_ipv6_mapped().octets());
        }
        (SOL_IP, IP_TTL) => said.hops = Some(in_range(number()?, 1)?),
        (SOL_IP, IP_TOS) if len == 1 => said.class = data.first().copied(),
        (SOL_IP, IP_TOS) => said.class = Some(in_range(number()?, 0)?),
        (SOL_IPV6, IPV6_PKTINFO) if version == Version::V6 && len >= 20 => {
            said.interface = word(16).unwrap_or(0);
            let source = Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|index| data[index]));
            said.source = (!source.is_unspecified()).then(|| source.octets());
        }
        (SOL_IPV6, IPV6_HOPLIMIT) if version == Version::V6 => {
            said.hops = Some(number()?).filter(|hops| *hops != -1).map(|hops| in_range(hops, 0)).transpose()?;
        }
        (SOL_IPV6, IPV6_TCLASS) if version == Version::V6 => {
            // Less than nothing is all of it, as on Linux.
            said.class = Some(match number()? {
                -1 => u8::MAX,
                class => in_range(class, 0)?,
            });
        }
        (SOL_IP, _) => return Err(Errno::EINVAL),
        (SOL_IPV6, _) if version == Version::V6 => return Err(Errno::EINVAL),
        _ => {}
    }
    Ok(())
}

/// Where a datagram comes from that a socket bound to `own` sends, and what is said of it.
///
/// # Errors
/// `ENETUNREACH`, `EINVAL`: the machine has no such address; `ENODEV`: nor such an interface.
pub fn of_sent(socket: &SocketRecord, said: &Said, [own, to]: [Endpoint; 2], sent_ns: u64) -> Result<Origin, Errno> {
    if said.interface != 0 && said.interface != interface::INDEX {
        return Err(Errno::ENODEV);
    }
    let from = match said.source {
        Some(source) => Endpoint { address: source.into(), ..own },
        None => own,
    };
    if from.address != own.address && !from.is_own() || from.is_v4() != to.is_v4() {
        return Err(if to.is_v4() { Errno::ENETUNREACH } else { Errno::EINVAL });
    }
    let [hops, class] = options::sent_with(socket, to.is_v4());
    let (to, port) = (to.address, to.port);
    Ok(Origin { from, to, port, hops: said.hops.unwrap_or(hops), class: said.class.unwrap_or(class), sent_ns })
}
