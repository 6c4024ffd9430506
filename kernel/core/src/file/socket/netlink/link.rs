//! The interfaces, as messages tell of them (`RTM_NEWLINK`).

use motet_abi::Errno;
use motet_hal::Machine;

use super::{
    super::interface::{self, FLAGS_SET, HARDWARE_LEN, Interface, QUEUE_LEN},
    address::V6,
    message::{Asked, Bytes, Reply},
};

const RTM_NEWLINK: u16 = 16;
const AF_BRIDGE: u8 = 7;
/// Bytes of `struct ifinfomsg`, and where its fields are.
const HEADER_LEN: usize = 16;
const INDEX_AT: usize = 4;
const FLAGS_AT: usize = 8;
const CHANGE_AT: usize = 12;
/// It can carry something (`IFF_LOWER_UP`).
const CARRIES: u32 = 0x1_0000;
/// Bytes of the longest name.
const NAME_LEN: usize = 16;

const IFLA_ADDRESS: u16 = 1;
const IFLA_BROADCAST: u16 = 2;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_QDISC: u16 = 6;
const IFLA_STATS: u16 = 7;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_MAP: u16 = 14;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKMODE: u16 = 17;
const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS64: u16 = 23;
const IFLA_GROUP: u16 = 27;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_PROMISCUITY: u16 = 30;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_CHANGES: u16 = 35;
const IFLA_PROTO_DOWN: u16 = 39;
const IFLA_CARRIER_UP_COUNT: u16 = 47;
const IFLA_CARRIER_DOWN_COUNT: u16 = 48;
const IFLA_MIN_MTU: u16 = 50;
const IFLA_ALT_IFNAME: u16 = 53;
const IFLA_MAX_MTU: u16 = 51;
const IFLA_ALLMULTI: u16 = 61;
/// Bytes of `struct rtnl_link_stats`, `rtnl_link_stats64` and `rtnl_link_ifmap`.
const STATS_LEN: usize = 96;
const STATS64_LEN: usize = 200;
const MAP_LEN: usize = 32;

fn begin(family: u8, interface: &Interface, reply: &mut Reply) {
    let mut told = [0; HEADER_LEN];
    told[0] = family;
    told[2..4].copy_from_slice(&interface.kind.to_le_bytes());
    told[INDEX_AT..][..4].copy_from_slice(&interface.index.to_le_bytes());
    told[FLAGS_AT..][..4].copy_from_slice(&(u32::from(interface.flags) | CARRIES).to_le_bytes());
    reply.message(RTM_NEWLINK, &told);
    let mut name = [0; NAME_LEN];
    let len = interface.name().len();
    name[..len].copy_from_slice(interface.name());
    reply.attribute(IFLA_IFNAME, &name[..=len]);
}

fn tell(interface: &Interface, reply: &mut Reply) {
    begin(0, interface, reply);
    reply.word(IFLA_TXQLEN, QUEUE_LEN);
    for (kind, value) in
        [(IFLA_OPERSTATE, state(interface)), (IFLA_LINKMODE, 0), (IFLA_CARRIER, 1), (IFLA_PROTO_DOWN, 0)]
    {
        reply.attribute(kind, &[value]);
    }
    let words = [
        (IFLA_MTU, interface.mtu),
        (IFLA_MIN_MTU, 0),
        (IFLA_MAX_MTU, 0),
        (IFLA_GROUP, 0),
        (IFLA_PROMISCUITY, 0),
        (IFLA_ALLMULTI, 0),
        (IFLA_NUM_TX_QUEUES, 1),
        (IFLA_NUM_RX_QUEUES, 1),
        (IFLA_CARRIER_CHANGES, 0),
        (IFLA_CARRIER_UP_COUNT, 0),
        (IFLA_CARRIER_DOWN_COUNT, 0),
    ];
    words.into_iter().for_each(|(kind, value)| reply.word(kind, value));
    reply.attribute(IFLA_ADDRESS, &interface.hardware);
    let all = if interface.is_loopback() { 0 } else { 0xff };
    reply.attribute(IFLA_BROADCAST, &[all; HARDWARE_LEN]);
    // Nothing goes through the loopback device in packets, and those of others are not counted.
    reply.attribute(IFLA_STATS64, &[0; STATS64_LEN]);
    reply.attribute(IFLA_STATS, &[0; STATS_LEN]);
    reply.attribute(IFLA_QDISC, b"noqueue\0");
    reply.attribute(IFLA_MAP, &[0; MAP_LEN]);
}

/// Whether it works (`IF_OPER_UP`), or cannot do otherwise (`IF_OPER_UNKNOWN`).
fn state(interface: &Interface) -> u8 {
    if interface.is_loopback() { 0 } else { 6 }
}

/// What a program that asks by version 6 is told: only the loopback device has such an address.
fn tell_v6(reply: &mut Reply) {
    let interface = &Interface::LOOPBACK;
    begin(V6, interface, reply);
    reply.attribute(IFLA_ADDRESS, &interface.hardware);
    reply.word(IFLA_MTU, interface.mtu);
    reply.attribute(IFLA_OPERSTATE, &[0]);
}

/// Whether a header has more than a family and a number.
fn has_more(header: &[u8; HEADER_LEN]) -> bool {
    header[1..INDEX_AT].iter().chain(&header[FLAGS_AT..]).any(|byte| *byte != 0)
}

fn index_of(header: &[u8; HEADER_LEN]) -> i32 {
    i32::from_le_bytes(core::array::from_fn(|index| header[INDEX_AT + index]))
}

/// All.
///
/// # Errors
/// `EINVAL`.
pub fn dump<M: Machine>(asked: &Asked<M>, reply: &mut Reply) -> Result<(), Errno> {
    let header = asked.header::<HEADER_LEN>()?;
    if asked.strict && header.is_some_and(|header| has_more(&header) || index_of(&header) != 0) {
        return Err(Errno::EINVAL);
    }
    let mut master = 0;
    asked.body.attributes(HEADER_LEN, asked.strict, |kind, value| {
        match kind {
            // It has none.
            IFLA_MASTER => master = value.word(0).unwrap_or(0),
            IFLA_EXT_MASK | IFLA_LINKINFO => {}
            _ if asked.strict => return Err(Errno::EINVAL),
            _ => {}
        }
        Ok(())
    })?;
    match asked.family {
        _ if master != 0 => reply.is_filtered(),
        AF_BRIDGE => {}
        V6 => tell_v6(reply),
        _ => interface::all(asked.body.call().cpu, |interface| tell(interface, reply)),
    }
    Ok(())
}

/// One, by its number or its name.
///
/// # Errors
/// `EINVAL`: nothing says which; `ENODEV`: there is no such one.
pub fn get<M: Machine>(asked: &Asked<M>, reply: &mut Reply) -> Result<(), Errno> {
    let header = asked.body.get::<HEADER_LEN>(0).ok_or(Errno::EINVAL)?;
    if asked.strict && has_more(&header) {
        return Err(Errno::EINVAL);
    }
    let mut name = None;
    asked.body.attributes(HEADER_LEN, asked.strict, |kind, value| {
        match kind {
            IFLA_EXT_MASK => {}
            IFLA_IFNAME => name = Some(name_of(&value)),
            IFLA_ALT_IFNAME => name = name.or_else(|| Some(name_of(&value))),
            _ if asked.strict => return Err(Errno::EINVAL),
            _ => {}
        }
        Ok(())
    })?;
    let found = match index_of(&header) {
        0 => {
            let name = name.ok_or(Errno::EINVAL)?;
            let wanted = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
            interface::find(asked.body.call().cpu, |interface| interface.name() == wanted)
        }
        index if index < 0 => return Err(Errno::EINVAL),
        index => interface::find(asked.body.call().cpu, |interface| interface.index == index.cast_unsigned()),
    };
    tell(&found.ok_or(Errno::ENODEV)?, reply);
    Ok(())
}

/// Some bytes as a name, which ends at the first 0.
fn name_of<M: Machine>(value: &Bytes<M>) -> [u8; NAME_LEN] {
    let mut name = [0; NAME_LEN];
    let len = value.len().min(NAME_LEN);
    for (at, to) in name[..len].iter_mut().enumerate() {
        *to = value.get::<1>(at).map_or(0, |[byte]| byte);
    }
    name
}

/// Whether a message that sets flags of the device, and nothing else, wants those that it has.
pub fn is_as_wanted<M: Machine>(body: &Bytes<M>) -> bool {
    let words = [INDEX_AT, FLAGS_AT, CHANGE_AT].map(|at| body.word(at));
    let [Some(index), Some(flags), Some(change)] = words else { return false };
    let found = interface::find(body.call().cpu, |interface| interface.index == index);
    let is_same = |interface: Interface| (flags ^ u32::from(interface.flags)) & change & u32::from(FLAGS_SET) == 0;
    body.len() == HEADER_LEN && change != 0 && found.is_some_and(is_same)
}
