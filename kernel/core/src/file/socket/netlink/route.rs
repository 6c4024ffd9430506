//! The routes to the addresses of the loopback device, as messages tell of them (`RTM_NEWROUTE`). All are in one table; the one that others would be in is empty.

use core::net::{Ipv4Addr, Ipv6Addr};

use motet_abi::Errno;
use motet_hal::Machine;

use super::{
    super::interface::INDEX,
    address::{SCOPE_HOST, V4, V6},
    message::{Asked, Reply},
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
/// How far it leads: anywhere, or to what is on the same network.
const SCOPE_ALL: u8 = 0;
const SCOPE_LINK: u8 = 253;
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
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_PREF: u16 = 20;
const RTA_UID: u16 = 25;
const CACHE_LEN: usize = 32;

/// Those of version 4: where they lead, how many bits of that count, how far, and what they are.
const ROUTES: [(Ipv4Addr, u8, u8, u8); 3] = [
    (Ipv4Addr::new(127, 0, 0, 0), 8, SCOPE_HOST, RTN_LOCAL),
    (Ipv4Addr::LOCALHOST, 32, SCOPE_HOST, RTN_LOCAL),
    (BROADCAST, 32, SCOPE_LINK, RTN_BROADCAST),
];
const BROADCAST: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// Which are wanted. 0: any.
#[derive(Default)]
struct Filter {
    table: u32,
    protocol: u8,
    kind: u8,
    /// Those that were found for addresses.
    cloned: bool,
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
        let mut filter = Self { table: table.into(), protocol, kind, cloned: flags & RTM_F_CLONED != 0 };
        asked.body.attributes(HEADER_LEN, true, |kind, value| {
            let value = value.word(0).ok_or(Errno::ERANGE)?;
            match kind {
                RTA_TABLE => filter.table = value,
                RTA_OIF if value == INDEX => {}
                RTA_OIF => return Err(Errno::ENODEV),
                _ => return Err(Errno::EINVAL),
            }
            Ok(())
        })?;
        Ok(filter)
    }

    fn wants(&self, kind: u8) -> bool {
        matches!(self.protocol, 0 | MADE_BY_KERNEL) && (self.kind == 0 || self.kind == kind)
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
    match filter.table {
        table if table == 0 || table == TABLE_LOCAL.into() => {}
        table if table == TABLE_MAIN.into() => return Ok(()),
        _ if !matches!(asked.family, V4 | V6) => return Ok(()),
        _ => return Err(Errno::ENOENT),
    }
    if asked.family != V6 {
        ROUTES.iter().filter(|(.., kind)| filter.wants(*kind)).for_each(|&route| tell_v4(route, reply));
    }
    if asked.family != V4 && filter.wants(RTN_LOCAL) {
        reply.message(RTM_NEWROUTE, &[V6, 128, 0, 0, TABLE_LOCAL, MADE_BY_KERNEL, SCOPE_ALL, RTN_LOCAL, 0, 0, 0, 0]);
        reply.word(RTA_TABLE, TABLE_LOCAL.into());
        reply.attribute(RTA_DST, &Ipv6Addr::LOCALHOST.octets());
        tell_rest_of_v6(reply);
    }
    Ok(())
}

fn tell_v4((to, bits, scope, kind): (Ipv4Addr, u8, u8, u8), reply: &mut Reply) {
    reply.message(RTM_NEWROUTE, &[V4, bits, 0, 0, TABLE_LOCAL, MADE_BY_KERNEL, scope, kind, 0, 0, 0, 0]);
    reply.word(RTA_TABLE, TABLE_LOCAL.into());
    reply.attribute(RTA_DST, &to.octets());
    reply.attribute(RTA_PREFSRC, &Ipv4Addr::LOCALHOST.octets());
    reply.word(RTA_OIF, INDEX);
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
            RTA_OIF if value.word(0).ok_or(Errno::ERANGE)? > INDEX => return Err(Errno::ENODEV),
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

fn found_v6(reply: &mut Reply) {
    let told = [V6, 128, 128, 0, TABLE_LOCAL, MADE_BY_KERNEL, SCOPE_ALL, RTN_LOCAL, 0, 0, 0, 0];
    reply.message(RTM_NEWROUTE, &told);
    reply.word(RTA_TABLE, TABLE_LOCAL.into());
    reply.attribute(RTA_DST, &Ipv6Addr::LOCALHOST.octets());
    reply.attribute(RTA_SRC, &Ipv6Addr::UNSPECIFIED.octets());
    reply.attribute(RTA_PREFSRC, &Ipv6Addr::LOCALHOST.octets());
    tell_rest_of_v6(reply);
}
