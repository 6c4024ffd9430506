//! The interfaces of the machine (netdevice(7)): what programs ask of them by any socket. There are the loopback device, and those of islands with a network device. They
//! are as they are: who may change one is told that this cannot be done, unless nothing changes.

use core::{net::Ipv4Addr, ops::ControlFlow};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_protocol::lock::lock;

use super::route;
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    permission::{Capability, has},
};

/// The loopback device's name.
pub const NAME: &str = "lo";
/// Its number.
pub const INDEX: u32 = 1;
/// `IFF_RUNNING`.
pub const RUNNING: u16 = 0x40;
/// What it is (`IFF_UP`, `IFF_LOOPBACK` and that).
pub const FLAGS: u16 = 0x1 | 0x8 | RUNNING;
/// Bytes of its longest packet.
pub const MTU: u32 = 65536;
/// Packets that might wait to be sent at an interface.
pub const QUEUE_LEN: u32 = 1000;
/// The kind of its addresses (`ARPHRD_LOOPBACK`).
pub const HARDWARE: u16 = 772;
/// Bytes of such an address, all of which are 0.
pub const HARDWARE_LEN: usize = 6;

/// Of flags, those that can be set (`IFF_UP`, `IFF_PROMISC` and others).
pub const FLAGS_SET: u16 = 0x1 | 0x4 | 0x20 | 0x80 | 0x100 | 0x200 | 0x1000 | 0x2000 | 0x4000 | 0x8000;

/// What network devices of islands are (`IFF_UP`, `IFF_BROADCAST`, `IFF_RUNNING`, `IFF_MULTICAST`).
const ETHERNET_FLAGS: u16 = 0x1 | 0x2 | RUNNING | 0x1000;
/// The kind of their addresses (`ARPHRD_ETHER`).
const ETHERNET: u16 = 1;
const ETHERNET_MTU: u32 = 1500;
/// Interfaces at most: the loopback device, and one of each island.
pub const INTERFACES_MAX: usize = 1 + motet_layout::ISLANDS_MAX;

/// An interface.
#[derive(Clone, Copy)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// `IFF_*`.
    pub flags: u16,
    /// Bytes of the longest packet.
    pub mtu: u32,
    /// `ARPHRD_*`.
    pub kind: u16,
    /// Its address on the wire.
    pub hardware: [u8; HARDWARE_LEN],
    /// Its address of version 4, and how many bits of that are the network's.
    pub address: Ipv4Addr,
    /// See there.
    pub bits: u8,
    name: [u8; 4],
    name_len: usize,
}

impl Interface {
    /// The loopback device.
    pub const LOOPBACK: Self = Self {
        index: INDEX,
        flags: FLAGS,
        mtu: MTU,
        kind: HARDWARE,
        hardware: [0; HARDWARE_LEN],
        address: Ipv4Addr::LOCALHOST,
        bits: 8,
        name: *b"lo\0\0",
        name_len: NAME.len(),
    };

    fn of(device: &route::Device) -> Self {
        Self {
            index: INDEX + 1 + u32::from(device.number),
            flags: ETHERNET_FLAGS,
            mtu: ETHERNET_MTU,
            kind: ETHERNET,
            hardware: device.hardware,
            address: device.address,
            bits: 24,
            name: [b'e', b't', b'h', b'0' + device.number % 10],
            name_len: 4,
        }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name[..self.name_len]
    }

    /// Whether it is the loopback device.
    pub fn is_loopback(&self) -> bool {
        self.index == INDEX
    }

    /// What of an address is the network's.
    pub fn mask(&self) -> [u8; 4] {
        (u32::MAX << (32 - u32::from(self.bits))).to_be_bytes()
    }

    /// The address of all machines of its network, as interfaces tell it: the loopback device reaches this machine only.
    pub fn broadcast(&self) -> [u8; 4] {
        if self.is_loopback() { [0; 4] } else { (self.address | !Ipv4Addr::from(self.mask())).octets() }
    }

    /// The router to all other networks, if it leads to any.
    pub fn router(&self) -> Option<Ipv4Addr> {
        let [a, b, c, _] = self.address.octets();
        (!self.is_loopback()).then_some(Ipv4Addr::new(a, b, c, 2))
    }
}

/// Shows all interfaces, in the order of their numbers, as they are now.
pub fn all<M: Machine>(cpu: &Cpu<M>, mut each: impl FnMut(&Interface)) {
    each(&Interface::LOOPBACK);
    let mut found = [None; INTERFACES_MAX];
    {
        let _all = lock(cpu, &cpu.pool.header().socket_lock);
        route::each(cpu, route::REQUESTS, |route| {
            if let Some(device) = route.device()
                && let Some(place) = found.get_mut(usize::from(device.number))
            {
                *place = Some(Interface::of(&device));
            }
            ControlFlow::Continue(())
        });
    }
    found.iter().flatten().for_each(each);
}

/// The first that is such.
pub fn find<M: Machine>(cpu: &Cpu<M>, is: impl Fn(&Interface) -> bool) -> Option<Interface> {
    let mut found = None;
    all(cpu, |interface| {
        if found.is_none() && is(interface) {
            found = Some(*interface);
        }
    });
    found
}

const SIOCGIFNAME: u32 = 0x8910;
const SIOCGIFCONF: u32 = 0x8912;
const SIOCGIFFLAGS: u32 = 0x8913;
const SIOCSIFFLAGS: u32 = 0x8914;
const SIOCGIFMETRIC: u32 = 0x891d;
const SIOCSIFMETRIC: u32 = 0x891e;
const SIOCGIFMTU: u32 = 0x8921;
const SIOCSIFMTU: u32 = 0x8922;
const SIOCSIFNAME: u32 = 0x8923;
const SIOCSIFHWADDR: u32 = 0x8924;
const SIOCGIFHWADDR: u32 = 0x8927;
const SIOCGIFINDEX: u32 = 0x8933;
const SIOCSIFHWBROADCAST: u32 = 0x8937;
const SIOCGIFTXQLEN: u32 = 0x8942;
const SIOCETHTOOL: u32 = 0x8946;
const SIOCSIFTXQLEN: u32 = 0x8943;
const SIOCGIFMAP: u32 = 0x8970;
const SIOCSIFMAP: u32 = 0x8971;

const NAME_LEN: usize = 16;
/// Bytes of `struct ifmap` that are told.
const MAP_LEN: usize = 21;
/// Bytes of `struct sockaddr`.
pub const SOCKADDR_LEN: usize = 16;

/// An address of version 4, as programs read it (`struct sockaddr_in`).
pub fn sockaddr(octets: [u8; 4]) -> [u8; SOCKADDR_LEN] {
    let mut told = [0; SOCKADDR_LEN];
    told[0] = 2;
    told[4..8].copy_from_slice(&octets);
    told
}

/// A `struct ifreq`: a name, and what is asked or told of the interface that has it.
pub struct Request {
    bytes: [u8; Self::LEN],
}

impl Request {
    /// Bytes of one.
    pub const LEN: usize = 40;

    /// Reads one.
    ///
    /// # Errors
    /// `EFAULT`; [`Stop::Page`].
    pub fn read<M: Machine>(call: &Call<M>, at: u64) -> Result<Self, Stop> {
        let mut bytes = [0; Self::LEN];
        call.read_user(at, &mut bytes)?;
        bytes[NAME_LEN - 1] = 0;
        Ok(Self { bytes })
    }

    /// What lists of interfaces tell of one.
    fn listed(interface: &Interface) -> Self {
        let mut request = Self { bytes: [0; Self::LEN] };
        request.bytes[..interface.name().len()].copy_from_slice(interface.name());
        request.bytes[NAME_LEN..][..SOCKADDR_LEN].copy_from_slice(&sockaddr(interface.address.octets()));
        request
    }

    /// What is asked.
    pub fn value<const N: usize>(&self) -> [u8; N] {
        core::array::from_fn(|index| self.bytes[NAME_LEN + index])
    }

    fn number(&self) -> i32 {
        i32::from_le_bytes(self.value())
    }

    /// The interface that it is about. `true`: by another name of it (`lo:NAME`).
    ///
    /// # Errors
    /// `ENODEV`: there is no such one.
    pub fn interface<M: Machine>(&self, cpu: &Cpu<M>) -> Result<(Interface, bool), Errno> {
        let name = self.bytes[..NAME_LEN].split(|byte| *byte == 0).next().unwrap_or(&[]);
        let mut parts = name.splitn(2, |byte| *byte == b':');
        let wanted = parts.next().unwrap_or(&[]);
        let found = find(cpu, |interface| interface.name() == wanted).ok_or(Errno::ENODEV)?;
        Ok((found, parts.next().is_some()))
    }

    /// Tells something.
    ///
    /// # Errors
    /// `EFAULT`; [`Stop::Page`].
    pub fn answer<M: Machine>(mut self, call: &Call<M>, at: u64, told: &[u8]) -> SysResult {
        self.bytes[NAME_LEN..][..told.len()].copy_from_slice(told);
        call.write_user(at, &self.bytes)?;
        Ok(0)
    }
}

/// Fails with `EPERM` unless the caller may change interfaces.
///
/// # Errors
/// `EPERM`.
pub fn check_change<M: Machine>(call: &Call<M>) -> Result<(), Errno> {
    if has(call.process, Capability::ConfigureNetwork) { Ok(()) } else { Err(Errno::EPERM) }
}

/// Nothing changes, if `is_same`.
///
/// # Errors
/// `EOPNOTSUPP`.
pub fn unchanged(is_same: bool) -> SysResult {
    if is_same { Ok(0) } else { Err(Errno::EOPNOTSUPP.into()) }
}

/// An `ioctl` that sockets of all families have, if it is one.
///
/// # Errors
/// `ENODEV`: there is no such interface; `EPERM`, `EOPNOTSUPP`: it cannot be changed; `EINVAL`, `EFAULT`; [`Stop::Page`].
pub fn ioctl<M: Machine>(call: &Call<M>, (request, at): (u32, u64)) -> Option<SysResult> {
    match request {
        SIOCGIFCONF => Some(list(call, at)),
        SIOCGIFNAME => Some(tell_name(call, at)),
        SIOCETHTOOL => Some(ask_driver(call, at)),
        SIOCSIFFLAGS | SIOCSIFMETRIC | SIOCSIFMTU | SIOCSIFNAME | SIOCSIFHWADDR | SIOCSIFHWBROADCAST
        | SIOCSIFTXQLEN | SIOCSIFMAP => Some(set(call, request, at)),
        _ => tell(call, request, at),
    }
}

fn tell<M: Machine>(call: &Call<M>, request: u32, at: u64) -> Option<SysResult> {
    let is_one = matches!(
        request,
        SIOCGIFFLAGS | SIOCGIFMETRIC | SIOCGIFMTU | SIOCGIFINDEX | SIOCGIFTXQLEN | SIOCGIFMAP | SIOCGIFHWADDR
    );
    is_one.then(|| {
        let asked = Request::read(call, at)?;
        let (interface, _) = asked.interface(call.cpu)?;
        match request {
            SIOCGIFFLAGS => asked.answer(call, at, &interface.flags.to_le_bytes()),
            SIOCGIFMTU => asked.answer(call, at, &interface.mtu.to_le_bytes()),
            SIOCGIFINDEX => asked.answer(call, at, &interface.index.to_le_bytes()),
            SIOCGIFTXQLEN => asked.answer(call, at, &QUEUE_LEN.to_le_bytes()),
            SIOCGIFMAP => asked.answer(call, at, &[0; MAP_LEN]),
            SIOCGIFHWADDR => {
                let mut told = [0; 2 + HARDWARE_LEN];
                told[..2].copy_from_slice(&interface.kind.to_le_bytes());
                told[2..].copy_from_slice(&interface.hardware);
                asked.answer(call, at, &told)
            }
            _ => asked.answer(call, at, &[0; 4]),
        }
    })
}

/// `SIOCGIFNAME`: by its number.
fn tell_name<M: Machine>(call: &Call<M>, at: u64) -> SysResult {
    let mut asked = Request::read(call, at)?;
    let index = asked.number().cast_unsigned();
    let interface = find(call.cpu, |interface| interface.index == index).ok_or(Errno::ENODEV)?;
    let name = interface.name();
    asked.bytes[..name.len()].copy_from_slice(name);
    asked.bytes[name.len()] = 0;
    asked.answer(call, at, &index.to_le_bytes())
}

/// `SIOCETHTOOL`: there is no driver that could tell or do anything.
fn ask_driver<M: Machine>(call: &Call<M>, at: u64) -> SysResult {
    let asked = Request::read(call, at)?;
    call.read_user_u32(u64::from_le_bytes(asked.value()))?;
    asked.interface(call.cpu)?;
    Err(Errno::EOPNOTSUPP.into())
}

/// `SIOCGIFCONF`: those that have an address of version 4, as many as there is room for; without room for any: how much they take.
fn list<M: Machine>(call: &Call<M>, at: u64) -> SysResult {
    let (room, into) = (call.read_user_u32(at)?.cast_signed(), call.read_user_u64(at.wrapping_add(8))?);
    let (mut told, mut failed) = (0, None);
    all(call.cpu, |interface| {
        let fits = into == 0 || i64::from(room) >= i64::from(told) + Request::LEN as i64;
        if !fits || failed.is_some() {
            return;
        }
        if into != 0
            && let Err(stop) = call.write_user(into.wrapping_add(told.into()), &Request::listed(interface).bytes)
        {
            failed = Some(stop);
        }
        told += Request::LEN as u32;
    });
    if let Some(stop) = failed {
        return Err(stop);
    }
    call.write_user(at, &told.to_le_bytes())?;
    Ok(0)
}

fn set<M: Machine>(call: &Call<M>, request: u32, at: u64) -> SysResult {
    let asked = Request::read(call, at)?;
    check_change(call)?;
    let (interface, _) = asked.interface(call.cpu)?;
    let number = asked.number();
    match request {
        SIOCSIFMTU | SIOCSIFTXQLEN if number < 0 => Err(Errno::EINVAL.into()),
        SIOCSIFMTU => unchanged(number.cast_unsigned() == interface.mtu),
        SIOCSIFTXQLEN => unchanged(number.cast_unsigned() == QUEUE_LEN),
        SIOCSIFFLAGS => unchanged((u16::from_le_bytes(asked.value()) ^ interface.flags) & FLAGS_SET == 0),
        SIOCSIFNAME => {
            let wanted = asked.value::<NAME_LEN>();
            unchanged(wanted.split(|byte| *byte == 0).next() == Some(interface.name()))
        }
        SIOCSIFHWADDR | SIOCSIFHWBROADCAST => {
            if u16::from_le_bytes(asked.value()) != interface.kind {
                return Err(Errno::EINVAL.into());
            }
            unchanged(asked.value::<{ 2 + HARDWARE_LEN }>()[2..] == interface.hardware)
        }
        _ => unchanged(false),
    }
}
