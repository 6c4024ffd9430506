//! The routes, as messages tell of them (`RTM_NEWROUTE`): those to this machine's own addresses are in one table, those to others in another one.

use core::net::{Ipv4Addr, Ipv6Addr};

use motet_abi::Errno;
use motet_hal::Machine;

use super::{
    super::interface::{self, INDEX, Interface},
    address::{SCOPE_HOST, V4, V6},
    message::{Asked, Bytes, Reply},
};
use crate::permission::Identity;

const RTM_NEWROUTE: u16 = 24;
/// Bytes of `struct rtmsg`, and where its flags are.
const HEADER_LEN: usize = 12;
const FLAGS_AT: usize = 8;
/// Tables: of routes, and of this machine's own addresses.
const TABLE_MAIN: u8 = 254;
const TABLE_LOCAL: u8 = 255;
/// The kernel has made it (`RTPROT_KERNEL`).
const MADE_BY_KERNEL: u8 = 2;
/// Who has started the machine has (`RTPROT_BOOT`).
const MADE_AT_BOOT: u8 = 3;
/// How far it leads: anywhere, or to what is on the same network.
const SCOPE_ALL: u8 = 0;
const SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTN_BROADCAST: u8 = 3;
/// Of an answer: it is what was found for an address, and that is this machine's, or all machines'.
const RTM_F_CLONED: u32 = 0x200;
const RTCF_LOCAL: u32 = 0x8000_0000;
const RTCF_BROADCAST: u32 = 0x1000_0000;
const RTM_F_PREFIX: u32 = 0x800;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_PREF: u16 = 20;
const RTA_UID: u16 = 25;
const CACHE_LEN: usize = 32;

/// A route of version 4: where it leads, how many bits of that count, how far, and what it is.
type Route = (Ipv4Addr, u8, u8, u8);

/// Those to addresses of this machine.
const ROUTES: [Route; 3] = [
    (Ipv4Addr::new(127, 0, 0, 0), 8, SCOPE_HOST, RTN_LOCAL),
    (Ipv4Addr::LOCALHOST, 32, SCOPE_HOST, RTN_LOCAL),
    (BROADCAST, 32, SCOPE_LINK, RTN_BROADCAST),
];

/// Those by a network device to addresses of this machine.
fn own_by(interface: &Interface) -> [Route; 2] {
    let all = interface.broadcast().into();
    [(interface.address, 32, SCOPE_HOST, RTN_LOCAL), (all, 32, SCOPE_LINK, RTN_BROADCAST)]
}

/// That to its network.
fn network_of(interface: &Interface) -> Route {
    (interface.address & Ipv4Addr::from(interface.mask()), interface.bits, SCOPE_LINK, RTN_UNICAST)
}
const BROADCAST: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// Which are wanted. 0: any.
#[derive(Default)]
struct Filter {
    table: u32,
    protocol: u8,
    kind: u8,
    /// Those that were found for addresses.
    cloned: bool,
    /// The interface.
    index: u32,
}

impl Filter {
    /// That of a question.
    fn of<M: Machine>(asked: &Asked<M>) -> Result<Self, Errno> {
        let Some(header) = asked.header::<HEADER_LEN>()?.filter(|_| asked.strict) else { return Ok(Self::default()) };
        let [_, to_bits, from_bits, tos, table, protocol, scope, kind, flags @ ..] = header;
        let flags = u32::from_le_bytes(flags);
        if [to_bits, from_bits, tos, scope] != [0; 4] || flags & !(RTM_F_CLONED | RTM_F_PREFIX) != 0 {
            return Err(Errno::EINVAL);
        }
        let mut filter = Self { table: table.into(), protocol, kind, cloned: flags & RTM_F_CLONED != 0, index: 0 };
        asked.body.attributes(HEADER_LEN, true, |kind, value| {
            let value = value.word(0).ok_or(Errno::ERANGE)?;
            match kind {
                RTA_TABLE => filter.table = value,
                RTA_OIF => {
                    let cpu = asked.body.call().cpu;
                    interface::find(cpu, |interface| interface.index == value).ok_or(Errno::ENODEV)?;
                    filter.index = value;
                }
                _ => return Err(Errno::EINVAL),
            }
            Ok(())
        })?;
        Ok(filter)
    }

    fn wants(&self, protocol: u8, kind: u8, index: u32) -> bool {
        let is_any = |wanted: u32, is: u32| wanted == 0 || wanted == is;
        is_any(self.protocol.into(), protocol.into())
            && is_any(self.kind.into(), kind.into())
            && is_any(self.index, index)
    }
}

/// Those of a family, or all.
///
/// # Errors
/// `EINVAL`; `ENODEV`: to a device that is not there; `ENOENT`: of a table that is not there.
pub fn dump<M: Machine>(asked: &Asked<M>, reply: &mut Reply) -> Result<(), Errno> {
    let filter = Filter::of(asked)?;
    if asked.strict {
        reply.is_filtered();
    }
    if filter.cloned {
        return Ok(());
    }
    let of_table = |table: u8| filter.table == 0 || filter.table == table.into();
    if !of_table(TABLE_LOCAL) && !of_table(TABLE_MAIN) {
        return if matches!(asked.family, V4 | V6) { Err(Errno::ENOENT) } else { Ok(()) };
    }
    if asked.family != V6 {
        interface::all(asked.body.call().cpu, |interface| {
            if of_table(TABLE_MAIN) && !interface.is_loopback() {
                dump_to_others(interface, &filter, reply);
            }
            let by_device = own_by(interface);
            let routes = if interface.is_loopback() { &ROUTES[..] } else { &by_device };
            let is_wanted = |(.., kind): &&Route| filter.wants(MADE_BY_KERNEL, *kind, interface.index);
            for &route in routes.iter().filter(is_wanted).filter(|_| of_table(TABLE_LOCAL)) {
                tell_v4(route, (TABLE_LOCAL, interface), reply);
            }
        });
    }
    if asked.family != V4 && of_table(TABLE_LOCAL) && filter.wants(MADE_BY_KERNEL, RTN_LOCAL, INDEX) {
        reply.message(RTM_NEWROUTE, &[V6, 128, 0, 0, TABLE_LOCAL, MADE_BY_KERNEL, SCOPE_ALL, RTN_LOCAL, 0, 0, 0, 0]);
        reply.word(RTA_TABLE, TABLE_LOCAL.into());
        reply.attribute(RTA_DST, &Ipv6Addr::LOCALHOST.octets());
        tell_rest_of_v6(reply);
    }
    Ok(())
}

/// The routes by a device to other machines: to all, by its router, and to its network.
fn dump_to_others(interface: &Interface, filter: &Filter, reply: &mut Reply) {
    if let Some(router) = interface.router().filter(|_| filter.wants(MADE_AT_BOOT, RTN_UNICAST, interface.index)) {
        reply.message(RTM_NEWROUTE, &[V4, 0, 0, 0, TABLE_MAIN, MADE_AT_BOOT, SCOPE_ALL, RTN_UNICAST, 0, 0, 0, 0]);
        reply.word(RTA_TABLE, TABLE_MAIN.into());
        reply.attribute(RTA_GATEWAY, &router.octets());
        reply.word(RTA_OIF, interface.index);
    }
    if filter.wants(MADE_BY_KERNEL, RTN_UNICAST, interface.index) {
        tell_v4(network_of(interface), (TABLE_MAIN, interface), reply);
    }
}

fn tell_v4((to, bits, scope, kind): Route, (table, interface): (u8, &Interface), reply: &mut Reply) {
    reply.message(RTM_NEWROUTE, &[V4, bits, 0, 0, table, MADE_BY_KERNEL, scope, kind, 0, 0, 0, 0]);
    reply.word(RTA_TABLE, table.into());
    reply.attribute(RTA_DST, &to.octets());
    reply.attribute(RTA_PREFSRC, &interface.address.octets());
    reply.word(RTA_OIF, interface.index);
}

fn tell_rest_of_v6(reply: &mut Reply) {
    reply.word(RTA_PRIORITY, 0);
    reply.word(RTA_OIF, INDEX);
    reply.attribute(RTA_CACHEINFO, &[0; CACHE_LEN]);
    reply.attribute(RTA_PREF, &[0]);
}

/// The one that leads to an address.
///
/// # Errors
/// `EOPNOTSUPP`: of another family; `EINVAL`; `ENODEV`: not by this device; `ENETUNREACH`: none does.
pub fn get<M: Machine>(asked: &Asked<M>, reply: &mut Reply) -> Result<(), Errno> {
    if !matches!(asked.family, V4 | V6) {
        return Err(Errno::EOPNOTSUPP);
    }
    if asked.body.len() < HEADER_LEN {
        return Err(Errno::EINVAL);
    }
    let (mut v4, mut v6) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    asked.body.attributes(HEADER_LEN, asked.strict, |kind, value| {
        match kind {
            RTA_DST if asked.family == V4 => v4 = value.get::<4>(0).ok_or(Errno::ERANGE)?.into(),
            RTA_DST => v6 = value.get::<16>(0).ok_or(Errno::EINVAL)?.into(),
            RTA_OIF => {
                let index = value.word(0).ok_or(Errno::ERANGE)?;
                let exists = || interface::find(value.call().cpu, |interface| interface.index == index).is_some();
                if index != 0 && !exists() {
                    return Err(Errno::ENODEV);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    match asked.family {
        V4 if v4.is_loopback() || v4.is_unspecified() => {
            let owner = Identity::of(asked.body.call().process).users.real;
            found_v4(v4, owner.0, reply);
        }
        V6 if v6 == Ipv6Addr::LOCALHOST => found_v6(reply),
        V4 => found_outside(&asked.body, v4, reply)?,
        _ => return Err(Errno::ENETUNREACH),
    }
    Ok(())
}

/// By the main table, as Linux says of what it has found before.
fn found_v4(to: Ipv4Addr, user: u32, reply: &mut Reply) {
    let (kind, flags) =
        if to == BROADCAST { (RTN_BROADCAST, RTCF_LOCAL | RTCF_BROADCAST) } else { (RTN_LOCAL, RTCF_LOCAL) };
    let mut told = [V4, 32, 0, 0, TABLE_MAIN, 0, SCOPE_ALL, kind, 0, 0, 0, 0];
    told[FLAGS_AT..].copy_from_slice(&(flags | RTM_F_CLONED).to_le_bytes());
    reply.message(RTM_NEWROUTE, &told);
    reply.word(RTA_TABLE, TABLE_MAIN.into());
    reply.attribute(RTA_DST, &to.octets());
    reply.word(RTA_OIF, INDEX);
    reply.attribute(RTA_PREFSRC, &Ipv4Addr::LOCALHOST.octets());
    reply.word(RTA_UID, user);
    reply.attribute(RTA_CACHEINFO, &[0; CACHE_LEN]);
}

/// By a device, to another machine.
///
/// # Errors
/// `ENETUNREACH`: no device leads there.
fn found_outside<M: Machine>(body: &Bytes<M>, to: Ipv4Addr, reply: &mut Reply) -> Result<(), Errno> {
    let cpu = body.call().cpu;
    let is_near = |interface: &Interface| {
        let mask = Ipv4Addr::from(interface.mask());
        !interface.is_loopback() && interface.address & mask == to & mask
    };
    let found = interface::find(cpu, is_near).or_else(|| interface::find(cpu, |found| !found.is_loopback()));
    let interface = found.filter(|_| !to.is_multicast()).ok_or(Errno::ENETUNREACH)?;
    let is_own = interface.address == to;
    let (kind, flags) = if is_own { (RTN_LOCAL, RTCF_LOCAL) } else { (RTN_UNICAST, 0) };
    let mut told = [V4, 32, 0, 0, TABLE_MAIN, 0, SCOPE_ALL, kind, 0, 0, 0, 0];
    told[FLAGS_AT..].copy_from_slice(&(flags | RTM_F_CLONED).to_le_bytes());
    reply.message(RTM_NEWROUTE, &told);
    reply.word(RTA_TABLE, TABLE_MAIN.into());
    reply.attribute(RTA_DST, &to.octets());
    if let Some(router) = interface.router().filter(|_| !is_near(&interface)) {
        reply.attribute(RTA_GATEWAY, &router.octets());
    }
    reply.word(RTA_OIF, if is_own { INDEX } else { interface.index });
    reply.attribute(RTA_PREFSRC, &interface.address.octets());
    reply.word(RTA_UID, Identity::of(body.call().process).users.real.0);
    reply.attribute(RTA_CACHEINFO, &[0; CACHE_LEN]);
    Ok(())
}

fn found_v6(reply: &mut Reply) {
    let told = [V6, 128, 128, 0, TABLE_LOCAL, MADE_BY_KERNEL, SCOPE_ALL, RTN_LOCAL, 0, 0, 0, 0];
    reply.message(RTM_NEWROUTE, &told);
    reply.word(RTA_TABLE, TABLE_LOCAL.into());
    reply.attribute(RTA_DST, &Ipv6Addr::LOCALHOST.octets());
    reply.attribute(RTA_SRC, &Ipv6Addr::UNSPECIFIED.octets());
    reply.attribute(RTA_PREFSRC, &Ipv6Addr::LOCALHOST.octets());
    tell_rest_of_v6(reply);
}
