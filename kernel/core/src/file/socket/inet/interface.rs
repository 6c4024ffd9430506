//! Addresses of interfaces, and routes, of which there are none to be made: what programs ask of them by sockets of a version (netdevice(7), rtnetlink(7)).

use motet_abi::Errno;
use motet_hal::Machine;

use super::{
    super::interface::{Interface, Request, SOCKADDR_LEN, check_change, sockaddr, unchanged},
    endpoint::Version,
};
use crate::call::{Call, SysResult};

const SIOCADDRT: u32 = 0x890b;
const SIOCDELRT: u32 = 0x890c;
const SIOCGIFADDR: u32 = 0x8915;
const SIOCSIFADDR: u32 = 0x8916;
const SIOCGIFDSTADDR: u32 = 0x8917;
const SIOCSIFDSTADDR: u32 = 0x8918;
const SIOCGIFBRDADDR: u32 = 0x8919;
const SIOCSIFBRDADDR: u32 = 0x891a;
const SIOCGIFNETMASK: u32 = 0x891b;
const SIOCSIFNETMASK: u32 = 0x891c;
const SIOCDIFADDR: u32 = 0x8936;

/// Where `struct sockaddr_in` has its address.
const OCTETS: core::ops::Range<usize> = 4..8;

/// An `ioctl` that sockets of a version have.
///
/// # Errors
/// `ENOTTY`: it is another one; `ENODEV`: there is no such interface; `EADDRNOTAVAIL`: nor such a name of it; `EPERM`, `EOPNOTSUPP`: nothing can be changed;
/// `EINVAL`, `EFAULT`; [`Stop::Page`](crate::call::Stop::Page).
pub fn ioctl<M: Machine>(call: &Call<M>, version: Version, (request, at): (u32, u64)) -> SysResult {
    match (request, version) {
        (SIOCADDRT | SIOCDELRT, _) | (SIOCSIFADDR | SIOCDIFADDR, Version::V6) => {
            check_change(call)?;
            Err(Errno::EOPNOTSUPP.into())
        }
        // Linux sets that of tunnels alone.
        (SIOCSIFDSTADDR, Version::V6) => Err(Errno::ENODEV.into()),
        (_, Version::V6) => Err(Errno::ENOTTY.into()),
        (SIOCGIFADDR | SIOCGIFDSTADDR, _) => tell(call, at, own),
        (SIOCGIFBRDADDR, _) => tell(call, at, Interface::broadcast),
        (SIOCGIFNETMASK, _) => tell(call, at, Interface::mask),
        (SIOCSIFADDR | SIOCSIFDSTADDR, _) => set(call, at, own),
        (SIOCSIFBRDADDR, _) => set(call, at, Interface::broadcast),
        (SIOCSIFNETMASK, _) => set(call, at, Interface::mask),
        _ => Err(Errno::ENOTTY.into()),
    }
}

fn own(interface: &Interface) -> [u8; 4] {
    interface.address.octets()
}

fn tell<M: Machine>(call: &Call<M>, at: u64, what: fn(&Interface) -> [u8; 4]) -> SysResult {
    let asked = Request::read(call, at)?;
    let (interface, has_other_name) = asked.interface(call.cpu)?;
    if has_other_name {
        return Err(Errno::EADDRNOTAVAIL.into());
    }
    asked.answer(call, at, &sockaddr(what(&interface)))
}

fn set<M: Machine>(call: &Call<M>, at: u64, what: fn(&Interface) -> [u8; 4]) -> SysResult {
    let asked = Request::read(call, at)?;
    check_change(call)?;
    let wanted: [u8; SOCKADDR_LEN] = asked.value();
    if wanted[..2] != sockaddr([0; 4])[..2] {
        return Err(Errno::EINVAL.into());
    }
    let (interface, has_other_name) = asked.interface(call.cpu)?;
    unchanged(!has_other_name && wanted[OCTETS] == what(&interface))
}
