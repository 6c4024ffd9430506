//! Options of these sockets (`SOL_NETLINK`), and the groups that they are in.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::SocketRecord;

use super::super::{control::Extras, family::OPTION_MAX, flags::read_number, name::Name};
use crate::{
    call::{Call, Stop},
    permission::{Capability, has},
};

const SOL_NETLINK: u32 = 270;
const NETLINK_ADD_MEMBERSHIP: u32 = 1;
const NETLINK_DROP_MEMBERSHIP: u32 = 2;
/// The group of a message comes with it.
const NETLINK_PKTINFO: u32 = 3;
const NETLINK_BROADCAST_ERROR: u32 = 4;
/// Nobody is told that there was no room for an answer.
pub const NETLINK_NO_ENOBUFS: u32 = 5;
const NETLINK_LISTEN_ALL_NSID: u32 = 8;
const NETLINK_LIST_MEMBERSHIPS: u32 = 9;
/// Errors do not repeat what was asked.
pub const NETLINK_CAP_ACK: u32 = 10;
const NETLINK_EXT_ACK: u32 = 11;
/// What is asked is looked at more closely, and says which answers are wanted.
pub const NETLINK_GET_STRICT_CHK: u32 = 12;

/// Settings: a bit for each option that is on; the first of the words whose bits are the groups; where messages go.
const OPTIONS: usize = 0;
pub const GROUPS: usize = 1;
pub const DESTINATION: usize = 3;
/// Groups that there are.
const GROUPS_MAX: u32 = 38;
const GROUP_WORDS: usize = 2;

/// What is told of a message besides its sender: its group, of which it has none.
pub fn extras_of(socket: &SocketRecord, _sender: &Name) -> Extras {
    let mut extras = Extras::NONE;
    if is_on(socket, NETLINK_PKTINFO) {
        extras.add([SOL_NETLINK, NETLINK_PKTINFO], &[0; 4]);
    }
    extras
}

/// Whether an option is on.
pub fn is_on(socket: &SocketRecord, option: u32) -> bool {
    socket.settings[OPTIONS].get() >> option & 1 != 0
}

fn is_flag(option: u32) -> bool {
    matches!(
        option,
        NETLINK_PKTINFO
            | NETLINK_BROADCAST_ERROR
            | NETLINK_NO_ENOBUFS
            | NETLINK_LISTEN_ALL_NSID
            | NETLINK_CAP_ACK
            | NETLINK_EXT_ACK
            | NETLINK_GET_STRICT_CHK
    )
}

/// The value of an option, and its bytes.
///
/// # Errors
/// `ENOPROTOOPT`: there is none.
pub fn get(socket: &SocketRecord, (level, option): (u32, u32), into: &mut [u8; OPTION_MAX]) -> Result<usize, Errno> {
    match option {
        _ if level != SOL_NETLINK => return Err(Errno::ENOPROTOOPT),
        NETLINK_LIST_MEMBERSHIPS => {
            for (to, word) in into.chunks_exact_mut(4).zip(&socket.settings[GROUPS..][..GROUP_WORDS]) {
                to.copy_from_slice(&word.get().to_le_bytes());
            }
            return Ok(4 * GROUP_WORDS);
        }
        _ if is_flag(option) => into[..4].copy_from_slice(&u32::from(is_on(socket, option)).to_le_bytes()),
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(4)
}

/// Sets an option.
///
/// # Errors
/// `ENOPROTOOPT`: there is none; `EINVAL`: no such group; `EPERM`, `EFAULT`; [`Stop::Page`].
pub fn set<M: Machine>(
    call: &Call<M>,
    socket: &SocketRecord,
    (level, option): (u32, u32),
    (value, len): (u64, u64),
) -> Result<(), Stop> {
    if level != SOL_NETLINK {
        return Err(Errno::ENOPROTOOPT.into());
    }
    // What is too short is 0.
    let value = if (len as i32) < 4 { 0 } else { read_number(call, value, len)? };
    let (word, bit, on) = match option {
        NETLINK_ADD_MEMBERSHIP | NETLINK_DROP_MEMBERSHIP => {
            let group = value.checked_sub(1).filter(|group| *group < GROUPS_MAX).ok_or(Errno::EINVAL)?;
            (GROUPS + group as usize / 32, group % 32, option == NETLINK_ADD_MEMBERSHIP)
        }
        NETLINK_LISTEN_ALL_NSID if !has(call.process, Capability::Broadcast) => return Err(Errno::EPERM.into()),
        _ if is_flag(option) => (OPTIONS, option, value != 0),
        _ => return Err(Errno::ENOPROTOOPT.into()),
    };
    let setting = &socket.settings[word];
    setting.set(if on { setting.get() | 1 << bit } else { setting.get() & !(1 << bit) });
    Ok(())
}
