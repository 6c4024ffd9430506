//! Which devices lead to other machines, and from which address one sends there.
//!
//! An island with a network device has a *gateway*: two sockets that wait for what goes outside, bound to the device's address by protocols that no program can name.
//! So they are found as others are, and are closed as others are when their island has died.

use core::{
    net::{Ipv4Addr, Ipv6Addr},
    ops::ControlFlow,
};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{SocketRecord, sync::Ordering};
use motet_protocol::{bound, lock::lock};

use crate::cpu::Cpu;

/// Bytes of a gateway's name: no port, and its address, as those of version 6 (`inet::endpoint`).
const NAME_LEN: usize = 18;
const PORT_LEN: usize = 2;

/// The protocol of a gateway's socket for connections, and of their far ends.
pub const REQUESTS: u32 = 0x1_0006;
/// That of its socket for datagrams.
pub const DATAGRAMS: u32 = 0x1_0011;

/// Where something leaves the machine.
#[derive(Clone, Copy)]
pub struct Route {
    /// The gateway's socket of a protocol.
    pub gateway: &'static SocketRecord,
    /// The device's address.
    pub address: Ipv6Addr,
}

/// What is told of a device.
pub struct Device {
    /// Its number among those of the machine.
    pub number: u8,
    /// Its address on the wire.
    pub hardware: [u8; 6],
    /// Its address.
    pub address: Ipv4Addr,
}

impl Route {
    /// The gateway's device, as its socket for connections says.
    pub fn device(&self) -> Option<Device> {
        let name = &self.gateway.peer_name;
        let hardware = core::array::from_fn(|index| name[index].load(Ordering::Relaxed));
        let number = name[hardware.len()].load(Ordering::Relaxed);
        self.address.to_ipv4_mapped().map(|address| Device { number, hardware, address })
    }

    /// Says it, before it is bound.
    pub fn describe(gateway: &SocketRecord, number: u8, hardware: [u8; 6]) {
        let bytes = hardware.into_iter().chain([number]);
        gateway.peer_name.iter().zip(bytes).for_each(|(to, byte)| to.store(byte, Ordering::Relaxed));
    }
}

/// Shows the gateways. What is bound is locked.
pub fn each<M: Machine>(cpu: &Cpu<M>, protocol: u32, mut each: impl FnMut(Route) -> ControlFlow<()>) {
    bound::look_from(cpu, protocol, &[0; NAME_LEN], |gateway| {
        let byte = |index: usize| gateway.name[PORT_LEN + index].load(Ordering::Relaxed);
        each(Route { gateway, address: Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(byte)) })
    });
}

/// How a socket that has that address of its own, if any, reaches another machine: by the device in whose network that is, otherwise by that with the lowest address. What is bound is locked.
///
/// # Errors
/// `ENETUNREACH`: there is no device, or no one machine has that address; `EINVAL`: the socket's own address is no device's.
pub fn to<M: Machine>(cpu: &Cpu<M>, protocol: u32, own: Option<Ipv6Addr>, to: Ipv6Addr) -> Result<Route, Errno> {
    let address = to.to_ipv4_mapped().ok_or(Errno::ENETUNREACH)?;
    let is_none = address.is_loopback() || address.is_multicast() || address.is_unspecified();
    if is_none || address.octets()[0] >= 240 {
        return Err(Errno::ENETUNREACH);
    }
    let is_far = |route: &Route| route.address.octets()[..15] != to.octets()[..15];
    let mut found: Option<Route> = None;
    each(cpu, protocol, |route| {
        let is_its_own = own.is_none_or(|own| own == route.address);
        let order = |route: &Route| (is_far(route), route.address);
        if is_its_own && found.is_none_or(|found| order(&route) < order(&found)) {
            found = Some(route);
        }
        ControlFlow::Continue(())
    });
    found.ok_or(if own.is_some() { Errno::EINVAL } else { Errno::ENETUNREACH })
}

/// Whether a device has that address. Takes the lock of what is bound.
pub fn leads_to<M: Machine>(cpu: &Cpu<M>, at: Ipv6Addr) -> bool {
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    let mut is_found = false;
    each(cpu, REQUESTS, |route| {
        is_found = route.address == at;
        if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    is_found
}
