//! Where a socket is: an address of this machine, and a port (ip(7), ipv6(7)).
//!
//! All addresses are kept as those of version 6, which those of version 4 are mapped to (`::ffff:127.0.0.1`), so that sockets of both versions find each other.

use core::net::{Ipv4Addr, Ipv6Addr};

use motet_abi::Errno;

use super::super::{family::Address, name::Name};

/// Bytes of `struct sockaddr_in`.
const V4_LEN: usize = 16;
/// Bytes of `struct sockaddr_in6`.
const V6_LEN: usize = 28;
/// Those of them that programs must write (RFC 2133 had no more).
const V6_LEN_MIN: usize = 24;
/// Bytes of a name: the port and the address.
pub const NAME_LEN: usize = 18;
/// No family.
pub const AF_UNSPEC: u32 = 0;

/// All machines of the loopback device's network.
const BROADCAST: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// The version of addresses that a socket's programs see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// `AF_INET`.
    V4,
    /// `AF_INET6`.
    V6,
}

impl Version {
    /// `AF_*`.
    pub const fn family(self) -> u32 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }

    /// Any address.
    pub const fn any(self) -> Ipv6Addr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.to_ipv6_mapped(),
            Self::V6 => Ipv6Addr::UNSPECIFIED,
        }
    }
}

/// An address and a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The address, mapped if it is of version 4.
    pub address: Ipv6Addr,
    /// The port, 0: none.
    pub port: u16,
}

impl Endpoint {
    /// Reads what programs write, of a version.
    ///
    /// # Errors
    /// `EINVAL`: it is too short; `EAFNOSUPPORT`: it is of another family.
    pub fn of(address: &Address, version: Version) -> Result<Self, Errno> {
        let bytes = address.bytes();
        let len_min = if version == Version::V4 { V4_LEN } else { V6_LEN_MIN };
        if bytes.len() < len_min {
            return Err(Errno::EINVAL);
        }
        if address.family() != Some(version.family()) {
            return Err(Errno::EAFNOSUPPORT);
        }
        Ok(Self::at(bytes, version))
    }

    /// As [`of`](Self::of), where `AF_UNSPEC` may stand for `AF_INET`. With any address only, if `strict`.
    ///
    /// # Errors
    /// As that.
    pub fn of_unspecified(address: &Address, version: Version, strict: bool) -> Result<Self, Errno> {
        let bytes = address.bytes();
        if version == Version::V4 && address.family() == Some(AF_UNSPEC) && bytes.len() >= V4_LEN {
            let endpoint = Self::at(bytes, version);
            return if strict && !endpoint.is_any() { Err(Errno::EAFNOSUPPORT) } else { Ok(endpoint) };
        }
        Self::of(address, version)
    }

    fn at(bytes: &[u8], version: Version) -> Self {
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        let address = match version {
            Version::V4 => Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]).to_ipv6_mapped(),
            Version::V6 => Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|index| bytes[8 + index])),
        };
        Self { address, port }
    }

    /// What programs read.
    pub fn address(self, version: Version) -> Address {
        let mut bytes = [0; V6_LEN];
        bytes[..2].copy_from_slice(&(version.family() as u16).to_le_bytes());
        bytes[2..4].copy_from_slice(&self.port.to_be_bytes());
        let octets = self.address.octets();
        match version {
            Version::V4 => {
                bytes[4..8].copy_from_slice(&octets[12..]);
                Address::of(&bytes[..V4_LEN])
            }
            Version::V6 => {
                bytes[8..24].copy_from_slice(&octets);
                Address::of(&bytes)
            }
        }
    }

    /// The endpoint that a name is.
    pub fn of_name(name: &Name) -> Option<Self> {
        name.bytes().first_chunk::<NAME_LEN>().map(Self::of_bytes)
    }

    /// That of a name's bytes.
    pub fn of_bytes(bytes: &[u8; NAME_LEN]) -> Self {
        let port = u16::from_be_bytes([bytes[0], bytes[1]]);
        Self { address: Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|index| bytes[2 + index])), port }
    }

    /// Its name: those of one port are next to each other in their order.
    pub fn name(self) -> Name {
        let mut bytes = [0; NAME_LEN];
        bytes[..2].copy_from_slice(&self.port.to_be_bytes());
        bytes[2..].copy_from_slice(&self.address.octets());
        Name::of_bytes(&bytes)
    }

    /// Whether its address is of version 4.
    pub fn is_v4(self) -> bool {
        self.address.to_ipv4_mapped().is_some()
    }

    /// Whether it stands for all addresses of its version.
    pub fn is_any(self) -> bool {
        match self.address.to_ipv4_mapped() {
            Some(address) => address.is_unspecified(),
            None => self.address.is_unspecified(),
        }
    }

    /// Whether the machine has its address. There is only the loopback device.
    pub fn is_own(self) -> bool {
        match self.address.to_ipv4_mapped() {
            Some(address) => address.is_loopback(),
            None => self.address.is_loopback(),
        }
    }

    /// Whether it stands for all machines of the device's network.
    pub fn is_broadcast(self) -> bool {
        self.address.to_ipv4_mapped() == Some(BROADCAST)
    }

    /// Whom a socket reaches there that is bound to `own`: any address is its own, or the machine itself.
    ///
    /// # Errors
    /// `ENETUNREACH`: it is in another network, or is all of them; `EAFNOSUPPORT`.
    pub fn reached(self, own: Option<Self>) -> Result<Self, Errno> {
        let address = match (self.is_any(), own) {
            (false, _) => self.address,
            (true, Some(own)) if own.is_v4() && !self.is_v4() => own.source(),
            (true, _) => self.source_of(own)?,
        };
        let reached = Self { address, ..self };
        if reached.is_own() && !reached.is_broadcast() { Ok(reached) } else { Err(Errno::ENETUNREACH) }
    }

    /// The address from which a socket sends there that is bound to `own`.
    ///
    /// # Errors
    /// `EAFNOSUPPORT`: that is of version 4, and this is not.
    pub fn source_of(self, own: Option<Self>) -> Result<Ipv6Addr, Errno> {
        match own {
            Some(own) if own.is_v4() && !self.is_v4() => Err(Errno::EAFNOSUPPORT),
            Some(own) if !own.is_any() && own.is_v4() == self.is_v4() => Ok(own.address),
            _ => Ok(self.source()),
        }
    }

    /// The address from which one sends there that has none of its own: whom a network device has this address of is reached from it.
    pub fn source(self) -> Ipv6Addr {
        let own = self.address.to_ipv4_mapped();
        if own.is_some_and(|own| !own.is_loopback() && !own.is_unspecified()) {
            return self.address;
        }
        if self.is_v4() { Ipv4Addr::LOCALHOST.to_ipv6_mapped() } else { Ipv6Addr::LOCALHOST }
    }
}
