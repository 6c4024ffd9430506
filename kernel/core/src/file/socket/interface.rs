//! The loopback device, the only interface of the machine (netdevice(7)): what programs ask of it by any socket. It is as it is: who may change it is told that this
//! cannot be done, unless nothing changes.

use motet_abi::Errno;
use motet_hal::Machine;

use crate::{
    call::{Call, Stop, SysResult},
    permission::{Capability, has},
};

/// Its name.
pub const NAME: &str = "lo";
/// Its number.
pub const INDEX: u32 = 1;
/// `IFF_RUNNING`.
pub const RUNNING: u16 = 0x40;
/// What it is (`IFF_UP`, `IFF_LOOPBACK` and that).
pub const FLAGS: u16 = 0x1 | 0x8 | RUNNING;
/// Bytes of the longest packet.
pub const MTU: u32 = 65536;
/// Packets that might wait to be sent.
pub const QUEUE_LEN: u32 = 1000;
/// The kind of its addresses (`ARPHRD_LOOPBACK`).
pub const HARDWARE: u16 = 772;
/// Bytes of such an address, all of which are 0.
pub const HARDWARE_LEN: usize = 6;

/// Of its flags, those that can be set (`IFF_UP`, `IFF_PROMISC` and others).
pub const FLAGS_SET: u16 = 0x1 | 0x4 | 0x20 | 0x80 | 0x100 | 0x200 | 0x1000 | 0x2000 | 0x4000 | 0x8000;

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
/// Its address of version 4, as programs read it (`struct sockaddr_in`).
pub const ADDRESS: [u8; SOCKADDR_LEN] = [2, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];

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

    /// What lists of interfaces tell of this one.
    fn listed() -> Self {
        let mut request = Self { bytes: [0; Self::LEN] };
        request.bytes[..NAME.len()].copy_from_slice(NAME.as_bytes());
        request.bytes[NAME_LEN..][..SOCKADDR_LEN].copy_from_slice(&ADDRESS);
        request
    }

    /// What is asked.
    pub fn value<const N: usize>(&self) -> [u8; N] {
        core::array::from_fn(|index| self.bytes[NAME_LEN + index])
    }

    fn number(&self) -> i32 {
        i32::from_le_bytes(self.value())
    }

    /// Fails with `ENODEV` unless it is about this interface. `true`: by another name of it (`lo:NAME`).
    ///
    /// # Errors
    /// `ENODEV`.
    pub fn check(&self) -> Result<bool, Errno> {
        let name = self.bytes[..NAME_LEN].split(|byte| *byte == 0).next().unwrap_or(&[]);
        let mut parts = name.splitn(2, |byte| *byte == b':');
        if parts.next() != Some(NAME.as_bytes()) {
            return Err(Errno::ENODEV);
        }
        Ok(parts.next().is_some())
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
    let tell = |told: &[u8]| {
        Some(Request::read(call, at).and_then(|asked| {
            asked.check()?;
            asked.answer(call, at, told)
        }))
    };
    match request {
        SIOCGIFFLAGS => tell(&FLAGS.to_le_bytes()),
        SIOCGIFMETRIC => tell(&[0; 4]),
        SIOCGIFMTU => tell(&MTU.to_le_bytes()),
        SIOCGIFINDEX => tell(&INDEX.to_le_bytes()),
        SIOCGIFTXQLEN => tell(&QUEUE_LEN.to_le_bytes()),
        SIOCGIFMAP => tell(&[0; MAP_LEN]),
        SIOCGIFHWADDR => {
            let mut told = [0; 2 + HARDWARE_LEN];
            told[..2].copy_from_slice(&HARDWARE.to_le_bytes());
            tell(&told)
        }
        _ => None,
    }
}

/// `SIOCGIFNAME`: by its number.
fn tell_name<M: Machine>(call: &Call<M>, at: u64) -> SysResult {
    let mut asked = Request::read(call, at)?;
    if asked.number().cast_unsigned() != INDEX {
        return Err(Errno::ENODEV.into());
    }
    asked.bytes[..NAME.len()].copy_from_slice(NAME.as_bytes());
    asked.bytes[NAME.len()] = 0;
    asked.answer(call, at, &INDEX.to_le_bytes())
}

/// `SIOCETHTOOL`: there is no driver that could tell or do anything.
fn ask_driver<M: Machine>(call: &Call<M>, at: u64) -> SysResult {
    let asked = Request::read(call, at)?;
    call.read_user_u32(u64::from_le_bytes(asked.value()))?;
    asked.check()?;
    Err(Errno::EOPNOTSUPP.into())
}

/// `SIOCGIFCONF`: those that have an address of version 4, as many as there is room for; without room for any: how much they take.
fn list<M: Machine>(call: &Call<M>, at: u64) -> SysResult {
    let (room, into) = (call.read_user_u32(at)?.cast_signed(), call.read_user_u64(at.wrapping_add(8))?);
    let fits = into == 0 || room >= Request::LEN as i32;
    if into != 0 && fits {
        call.write_user(into, &Request::listed().bytes)?;
    }
    call.write_user(at, &(if fits { Request::LEN as u32 } else { 0 }).to_le_bytes())?;
    Ok(0)
}

fn set<M: Machine>(call: &Call<M>, request: u32, at: u64) -> SysResult {
    let asked = Request::read(call, at)?;
    check_change(call)?;
    asked.check()?;
    let number = asked.number();
    match request {
        SIOCSIFMTU | SIOCSIFTXQLEN if number < 0 => Err(Errno::EINVAL.into()),
        SIOCSIFMTU => unchanged(number.cast_unsigned() == MTU),
        SIOCSIFTXQLEN => unchanged(number.cast_unsigned() == QUEUE_LEN),
        SIOCSIFFLAGS => unchanged((u16::from_le_bytes(asked.value()) ^ FLAGS) & FLAGS_SET == 0),
        SIOCSIFNAME => unchanged(asked.value::<NAME_LEN>().starts_with(&[b'l', b'o', 0])),
        SIOCSIFHWADDR | SIOCSIFHWBROADCAST => {
            if u16::from_le_bytes(asked.value()) != HARDWARE {
                return Err(Errno::EINVAL.into());
            }
            unchanged(asked.value::<{ 2 + HARDWARE_LEN }>()[2..] == [0; HARDWARE_LEN])
        }
        _ => unchanged(false),
    }
}
