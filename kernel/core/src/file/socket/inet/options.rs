//! Options of `AF_INET` and `AF_INET6` (tcp(7), ip(7), ipv6(7)): what changes nothing on the loopback device is remembered.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{SOCKET_NEW, SocketRecord, sync::Ordering};
use motet_protocol::lock::lock;

use super::{
    super::{
        SOCK_STREAM,
        family::OPTION_MAX,
        flags::{SO_REUSEPORT, SOL_SOCKET, is_on, read_number, turn},
    },
    endpoint::{Endpoint, Version},
};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
};

/// Levels of options.
pub const SOL_IP: u32 = 0;
const SOL_TCP: u32 = 6;
pub const SOL_IPV6: u32 = 41;
/// What a socket wants to be told of a datagram.
pub const IP_PKTINFO: u32 = 8;
pub const IP_RECVTTL: u32 = 12;
pub const IP_RECVTOS: u32 = 13;
pub const IPV6_RECVPKTINFO: u32 = 49;
pub const IPV6_RECVHOPLIMIT: u32 = 51;
pub const IPV6_RECVTCLASS: u32 = 66;
pub const SO_TIMESTAMP: u32 = 29;
pub const SO_TIMESTAMPNS: u32 = 35;
/// The bit of [`SO_TIMESTAMPNS`] among the options that are on: that option's own number has none, and what has this number cannot be turned on.
pub const TIMESTAMPNS_BIT: u32 = 30;
const TCP_MAXSEG: u32 = 2;
const TCP_INFO: u32 = 11;
const TCP_QUICKACK: u32 = 12;
const TCP_CONGESTION: u32 = 13;
const IPV6_V6ONLY: u32 = 26;
/// The bits of [`FLAGS`] are in this setting.
const FLAG_WORD: usize = 0;
/// Bytes of the name of how congestion is controlled, and the names that there are.
const CONGESTION_LEN: usize = 16;
const CUBIC_NAME: [u8; 5] = *b"cubic";
const RENO_NAME: [u8; 4] = *b"reno";

/// The bit there that says that a socket has chosen its port itself.
const OWN_PORT: u32 = 1 << 31;
/// That it has chosen its address itself.
const OWN_ADDRESS: u32 = 1 << 30;
/// That congestion is controlled as `reno` does, not as `cubic`.
const RENO: u32 = 1 << 29;
/// What is there of `TCP_QUICKACK`, which is on at first: that it is off.
const QUICK_ACK_OFF: u32 = 1 << 28;
const IP_TOS: (u32, u32) = (SOL_IP, 1);

/// Options that are on or off: a bit each, in this order.
const FLAGS: [(u32, u32); 13] = [
    (SOL_IPV6, IPV6_V6ONLY),
    (SOL_TCP, 1),   // TCP_NODELAY
    (SOL_TCP, 3),   // TCP_CORK
    (SOL_IP, 11),   // IP_RECVERR
    (SOL_IP, 15),   // IP_FREEBIND
    (SOL_IP, 24),   // IP_BIND_ADDRESS_NO_PORT
    (SOL_IPV6, 25), // IPV6_RECVERR
    (SOL_IP, IP_PKTINFO),
    (SOL_IP, IP_RECVTTL),
    (SOL_IP, IP_RECVTOS),
    (SOL_IPV6, IPV6_RECVPKTINFO),
    (SOL_IPV6, IPV6_RECVHOPLIMIT),
    (SOL_IPV6, IPV6_RECVTCLASS),
];

/// An option that is a number.
struct Number {
    /// Its level and number.
    which: (u32, u32),
    /// The setting that has it, less what it is at first.
    at: usize,
    first: i32,
    least: i32,
    most: i32,
}

impl Number {
    const fn new(which: (u32, u32), at: usize, first: i32, [least, most]: [i32; 2]) -> Self {
        Self { which, at, first, least, most }
    }

    fn get(&self, socket: &SocketRecord) -> u32 {
        socket.settings[self.at].get().wrapping_add(self.first.cast_unsigned())
    }

    fn set(&self, socket: &SocketRecord, value: i32) -> Result<(), Errno> {
        let value = match self.which {
            // Two bits are the protocol's own.
            IP_TOS if socket.kind.get() == SOCK_STREAM => value & 0xfc,
            IP_TOS => value & 0xff,
            (SOL_IP | SOL_IPV6, _) if value == -1 => self.first,
            _ => value,
        };
        if value < self.least || value > self.most {
            return Err(Errno::EINVAL);
        }
        socket.settings[self.at].set(value.wrapping_sub(self.first).cast_unsigned());
        Ok(())
    }
}

/// Most of a time in seconds.
const SECONDS_MAX: i32 = 32767;
const NUMBERS: [Number; 12] = [
    Number::new(IP_TOS, 1, 0, [0, 255]),
    Number::new((SOL_IP, 2), 2, 64, [1, 255]),            // IP_TTL
    Number::new((SOL_IP, 10), 3, 1, [0, 5]),              // IP_MTU_DISCOVER
    Number::new((SOL_IPV6, 16), 4, 64, [0, 255]),         // IPV6_UNICAST_HOPS
    Number::new((SOL_IPV6, 67), 5, 0, [0, 255]),          // IPV6_TCLASS
    Number::new((SOL_IPV6, 23), 6, 1, [0, 5]),            // IPV6_MTU_DISCOVER
    Number::new((SOL_TCP, 4), 7, 7200, [1, SECONDS_MAX]), // TCP_KEEPIDLE
    Number::new((SOL_TCP, 5), 8, 75, [1, SECONDS_MAX]),   // TCP_KEEPINTVL
    Number::new((SOL_TCP, 6), 9, 9, [1, 127]),            // TCP_KEEPCNT
    Number::new((SOL_TCP, 7), 10, 6, [1, 127]),           // TCP_SYNCNT
    Number::new((SOL_TCP, 18), 11, 0, [0, i32::MAX]),     // TCP_USER_TIMEOUT
    Number::new((SOL_TCP, TCP_MAXSEG), 12, 536, [88, 32767]),
];

/// Whether an option's level is one that sockets of this version and kind have.
fn has_level(socket: &SocketRecord, version: Version, level: u32) -> bool {
    match level {
        SOL_IP => true,
        SOL_TCP => socket.kind.get() == SOCK_STREAM,
        SOL_IPV6 => version == Version::V6,
        _ => false,
    }
}

fn flag(which: (u32, u32)) -> Option<u32> {
    FLAGS.iter().position(|flag| *flag == which).map(|index| 1 << index)
}

/// Whether a socket wants to be told something of what it receives.
pub fn is_told(socket: &SocketRecord, which: (u32, u32)) -> bool {
    flag(which).is_some_and(|bit| has(socket, bit))
}

/// Over how many machines what a socket sends goes, and what kind of service it wants, by version.
pub fn sent_with(socket: &SocketRecord, is_v4: bool) -> [u8; 2] {
    let number = |which: (u32, u32)| NUMBERS.iter().find(|number| number.which == which);
    let (hops, class) = if is_v4 { ((SOL_IP, 2), IP_TOS) } else { ((SOL_IPV6, 16), (SOL_IPV6, 67)) };
    [hops, class].map(|which| number(which).map_or(0, |number| number.get(socket) as u8))
}

/// The bit of an option that says when something has come, of datagrams; and that of the one that it takes the place of.
fn timestamp_bits(socket: &SocketRecord, which: (u32, u32)) -> Option<[u32; 2]> {
    match which {
        _ if socket.kind.get() == SOCK_STREAM => None,
        (SOL_SOCKET, SO_TIMESTAMP) => Some([SO_TIMESTAMP, TIMESTAMPNS_BIT]),
        (SOL_SOCKET, SO_TIMESTAMPNS) => Some([TIMESTAMPNS_BIT, SO_TIMESTAMP]),
        _ => None,
    }
}

/// Whether a socket of version 6 has nothing to do with version 4.
pub fn is_v6_only(socket: &SocketRecord) -> bool {
    flag((SOL_IPV6, IPV6_V6ONLY)).is_some_and(|bit| has(socket, bit))
}

/// Whether a socket has a port: its name alone does not say so.
pub fn has_port(socket: &SocketRecord) -> bool {
    let is_stream = socket.kind.get() == SOCK_STREAM;
    socket.is_bound.get() != 0 || is_stream && socket.state.load(Ordering::Acquire) != SOCKET_NEW
}

/// Whether a socket has chosen its port itself.
pub fn has_own_port(socket: &SocketRecord) -> bool {
    has(socket, OWN_PORT)
}

/// Whether it has chosen its address itself.
pub fn has_own_address(socket: &SocketRecord) -> bool {
    has(socket, OWN_ADDRESS)
}

/// Says what a socket has chosen that was bound. One that is bound to an address of version 6 has nothing to do with version 4.
pub fn was_bound<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, to: Endpoint) {
    let is_one = !to.is_any();
    let v6_only = flag((SOL_IPV6, IPV6_V6ONLY)).filter(|_| is_one && !to.is_v4());
    let bits = [(to.port != 0).then_some(OWN_PORT), is_one.then_some(OWN_ADDRESS), v6_only];
    turn_flag(cpu, socket, bits.into_iter().flatten().sum(), true);
}

fn has(socket: &SocketRecord, bit: u32) -> bool {
    socket.settings[FLAG_WORD].get() & bit != 0
}

fn turn_flag<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, bits: u32, on: bool) {
    let _guard = lock(cpu, &socket.lock);
    let before = socket.settings[FLAG_WORD].get();
    socket.settings[FLAG_WORD].set(if on { before | bits } else { before & !bits });
}

/// The value of an option, and its bytes; `state` says which state of TCP the socket is in.
///
/// # Errors
/// `EOPNOTSUPP`: there is no such level; `ENOPROTOOPT`: no such option.
pub fn get(
    socket: &SocketRecord,
    version: Version,
    which: (u32, u32),
    state: impl FnOnce() -> u8,
    into: &mut [u8; OPTION_MAX],
) -> Result<usize, Errno> {
    if let Some([own, _]) = timestamp_bits(socket, which) {
        into[..4].copy_from_slice(&u32::from(is_on(socket, own)).to_le_bytes());
        return Ok(4);
    }
    if which.0 == SOL_SOCKET {
        return Err(Errno::ENOPROTOOPT);
    }
    if !has_level(socket, version, which.0) {
        return Err(if version == Version::V4 { Errno::EOPNOTSUPP } else { Errno::ENOPROTOOPT });
    }
    match which {
        (SOL_TCP, TCP_INFO) => {
            into[0] = state();
            return Ok(OPTION_MAX);
        }
        (SOL_TCP, TCP_CONGESTION) => {
            let name = if has(socket, RENO) { &RENO_NAME[..] } else { &CUBIC_NAME[..] };
            into[..name.len()].copy_from_slice(name);
            return Ok(CONGESTION_LEN);
        }
        (SOL_TCP, TCP_QUICKACK) => {
            into[..4].copy_from_slice(&u32::from(!has(socket, QUICK_ACK_OFF)).to_le_bytes());
            return Ok(4);
        }
        _ => {}
    }
    let value = match (flag(which), NUMBERS.iter().find(|number| number.which == which)) {
        (Some(bit), _) => has(socket, bit).into(),
        (None, Some(number)) => number.get(socket),
        (None, None) => return Err(Errno::ENOPROTOOPT),
    };
    into[..4].copy_from_slice(&value.to_le_bytes());
    Ok(4)
}

/// Sets an option.
///
/// # Errors
/// `ENOPROTOOPT`: there is none; `EINVAL`, `EFAULT`.
pub fn set<M: Machine>(
    call: &Call<M>,
    socket: &SocketRecord,
    version: Version,
    which: (u32, u32),
    (value, len): (u64, u64),
) -> Result<(), Stop> {
    if let Some([own, other]) = timestamp_bits(socket, which) {
        let on = read_number(call, value, len)? != 0;
        // Either turns both off.
        turn(socket, other, false);
        turn(socket, own, on);
        return Ok(());
    }
    let has_level = has_level(socket, version, which.0) || which == (SOL_SOCKET, SO_REUSEPORT);
    if has_level && which == (SOL_TCP, TCP_CONGESTION) {
        return set_congestion(call, socket, (value, len));
    }
    let number = NUMBERS.iter().find(|number| number.which == which);
    let is_known = matches!(which, (SOL_SOCKET, SO_REUSEPORT) | (SOL_TCP, TCP_QUICKACK))
        || flag(which).is_some()
        || number.is_some();
    if !has_level || !is_known {
        return Err(Errno::ENOPROTOOPT.into());
    }
    let value = match which.0 {
        // A byte will do.
        SOL_IP if matches!(len as i32, 1..4) => {
            let mut byte = [0];
            call.read_user(value, &mut byte)?;
            byte[0].into()
        }
        _ => read_number(call, value, len)?,
    };
    if which == (SOL_IPV6, IPV6_V6ONLY) && has_port(socket) {
        return Err(Errno::EINVAL.into());
    }
    match (flag(which), number) {
        (Some(bit), _) => turn_flag(call.cpu, socket, bit, value != 0),
        (None, Some(number)) => number.set(socket, value.cast_signed())?,
        (None, None) if which.0 == SOL_TCP => turn_flag(call.cpu, socket, QUICK_ACK_OFF, value == 0),
        (None, None) => turn(socket, SO_REUSEPORT, value != 0),
    }
    Ok(())
}

/// Says how congestion is controlled, by its name.
fn set_congestion<M: Machine>(call: &Call<M>, socket: &SocketRecord, (at, len): (u64, u64)) -> Result<(), Stop> {
    if (len as i32) < 1 {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = [0; CONGESTION_LEN - 1];
    let len = (len as usize).min(bytes.len());
    call.read_user(at, &mut bytes[..len])?;
    let is_reno = match bytes[..len].split(|byte| *byte == 0).next() {
        Some(name) if *name == RENO_NAME => true,
        Some(name) if *name == CUBIC_NAME => false,
        _ => return Err(Errno::ENOENT.into()),
    };
    turn_flag(call.cpu, socket, RENO, is_reno);
    Ok(())
}
