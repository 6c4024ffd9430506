//! The addresses of interfaces, as messages tell of them (`RTM_NEWADDR`).

use core::net::Ipv6Addr;

use motet_abi::Errno;
use motet_hal::Machine;

use super::{
    super::interface::{self, INDEX, Interface},
    message::{Asked, Reply},
};

const RTM_NEWADDR: u16 = 20;
/// Versions of addresses, as messages number them.
pub const V4: u8 = 2;
pub const V6: u8 = 10;
/// Bytes of `struct ifaddrmsg`, and where its last field is.
const HEADER_LEN: usize = 8;
const INDEX_AT: usize = 4;
/// It has no end (`IFA_F_PERMANENT`).
const PERMANENT: u8 = 0x80;
/// It is known to this machine only (`RT_SCOPE_HOST`).
pub const SCOPE_HOST: u8 = 254;
/// Anybody may know it.
const SCOPE_ALL: u8 = 0;
/// Who has made it: the kernel, for the loopback device (`IFAPROT_KERNEL_LO`).
const MADE_BY_KERNEL: u8 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_PROTO: u16 = 11;

fn begin([family, bits, scope]: [u8; 3], index: u32, reply: &mut Reply) {
    let mut told = [family, bits, PERMANENT, scope, 0, 0, 0, 0];
    told[INDEX_AT..].copy_from_slice(&index.to_le_bytes());
    reply.message(RTM_NEWADDR, &told);
}

/// How long it is there: for ever, since the machine is.
fn tell_times(reply: &mut Reply) {
    let mut times = [0; 16];
    times[..8].fill(0xff);
    reply.attribute(IFA_CACHEINFO, &times);
    reply.word(IFA_FLAGS, PERMANENT.into());
}

fn tell_v4(interface: &Interface, reply: &mut Reply) {
    let scope = if interface.is_loopback() { SCOPE_HOST } else { SCOPE_ALL };
    begin([V4, interface.bits, scope], interface.index, reply);
    let octets = interface.address.octets();
    reply.attribute(IFA_ADDRESS, &octets);
    reply.attribute(IFA_LOCAL, &octets);
    if !interface.is_loopback() {
        reply.attribute(IFA_BROADCAST, &interface.broadcast());
    }
    let (mut label, len) = ([0; 8], interface.name().len());
    label[..len].copy_from_slice(interface.name());
    reply.attribute(IFA_LABEL, &label[..=len]);
    tell_times(reply);
}

fn tell_v6(reply: &mut Reply) {
    begin([V6, 128, SCOPE_HOST], INDEX, reply);
    reply.attribute(IFA_ADDRESS, &Ipv6Addr::LOCALHOST.octets());
    tell_times(reply);
    reply.attribute(IFA_PROTO, &[MADE_BY_KERNEL]);
}

/// Those of a family, or all.
///
/// # Errors
/// `EINVAL`; `ENODEV`: of a device that is not there.
pub fn dump<M: Machine>(asked: &Asked<M>, reply: &mut Reply) -> Result<(), Errno> {
    let header = asked.header::<HEADER_LEN>()?;
    let (cpu, mut wanted) = (asked.body.call().cpu, 0);
    if let Some([_, bits, flags, scope, index @ ..]) = header.filter(|_| asked.strict) {
        if [bits, flags, scope] != [0; 3] || asked.body.len() > HEADER_LEN {
            return Err(Errno::EINVAL);
        }
        match u32::from_le_bytes(index) {
            0 => {}
            index => {
                reply.is_filtered();
                interface::find(cpu, |interface| interface.index == index).ok_or(Errno::ENODEV)?;
                wanted = index;
            }
        }
    }
    let is_wanted = |index| wanted == 0 || wanted == index;
    if asked.family != V6 {
        interface::all(cpu, |interface| {
            if is_wanted(interface.index) {
                tell_v4(interface, reply);
            }
        });
    }
    if asked.family != V4 && is_wanted(INDEX) {
        tell_v6(reply);
    }
    Ok(())
}

/// One, of version 6.
///
/// # Errors
/// `EOPNOTSUPP`: of another family; `EINVAL`: nothing says which; `EADDRNOTAVAIL`: there is no such one.
pub fn get<M: Machine>(asked: &Asked<M>, reply: &mut Reply) -> Result<(), Errno> {
    if asked.family != V6 {
        return Err(Errno::EOPNOTSUPP);
    }
    if asked.body.len() < HEADER_LEN {
        return Err(Errno::EINVAL);
    }
    let mut wanted = None;
    asked.body.attributes(HEADER_LEN, asked.strict, |kind, value| {
        if matches!(kind, IFA_ADDRESS | IFA_LOCAL) {
            wanted = Some(Ipv6Addr::from(value.get::<16>(0).ok_or(Errno::ERANGE)?));
        }
        Ok(())
    })?;
    if wanted.ok_or(Errno::EINVAL)? != Ipv6Addr::LOCALHOST {
        return Err(Errno::EADDRNOTAVAIL);
    }
    tell_v6(reply);
    Ok(())
}
