//! Numbers that calls about sockets take, which families know as well: flags of messages, options, limits.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{SocketRecord, sync::Ordering};

use crate::call::{Call, Stop};

/// Bytes out of their order.
pub const MSG_OOB: u32 = 0x1;
/// What is received stays there.
pub const MSG_PEEK: u32 = 0x2;
/// There was no room for all control messages.
pub const MSG_CTRUNC: u32 = 0x8;
/// There was no room for the whole packet; asked for: how long it was.
pub const MSG_TRUNC: u32 = 0x20;
/// The call does not wait.
pub const MSG_DONTWAIT: u32 = 0x40;
/// As much is received as there is room for.
pub const MSG_WAITALL: u32 = 0x100;
/// What has gone wrong, and what it was about.
pub const MSG_ERRQUEUE: u32 = 0x2000;
/// No `SIGPIPE`.
pub const MSG_NOSIGNAL: u32 = 0x4000;
/// Descriptors that are received are closed by exec.
pub const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;

/// The level of options that all sockets have.
pub const SOL_SOCKET: u32 = 1;
/// Others may be bound to the same address, unless they listen.
pub const SO_REUSEADDR: u32 = 2;
/// Datagrams may go to all machines.
pub const SO_BROADCAST: u32 = 6;
/// How a socket is closed that has not sent everything.
pub const SO_LINGER: u32 = 13;
/// Others of the same user may be bound to the same address, and take turns.
pub const SO_REUSEPORT: u32 = 15;
/// Who has sent a message comes with it.
pub const SO_PASSCRED: u32 = 16;
/// Whom a socket is connected to.
pub const SO_PEERCRED: u32 = 17;

/// `ioctl`: whether what is read next is an urgent byte.
pub const SIOCATMARK: u32 = 0x8905;

/// What a socket's buffers have at first, and half of what they may be given (Linux `net.core.wmem_max` and `rmem_max`).
pub const BUFFER: u32 = 212_992;
/// What they have at least, for sending and for receiving.
pub const BUFFER_MIN: [u32; 2] = [4608, 2304];

/// Packets that wait at a socket before the last one, of whom it is not connected to (Linux `net.unix.max_dgram_qlen`).
pub const DATAGRAMS_MAX: u32 = 10;

/// Whether an option is on.
pub fn is_on(socket: &SocketRecord, option: u32) -> bool {
    socket.options.load(Ordering::Relaxed) >> option & 1 != 0
}

/// Turns an option on or off.
pub fn turn(socket: &SocketRecord, option: u32, on: bool) {
    let _ = match on {
        true => socket.options.fetch_or(1 << option, Ordering::Relaxed),
        false => socket.options.fetch_and(!(1 << option), Ordering::Relaxed),
    };
}

/// The number that an option is to have.
///
/// # Errors
/// `EINVAL`: it is too short; `EFAULT`; [`Stop::Page`].
pub fn read_number<M: Machine>(call: &Call<M>, value: u64, len: u64) -> Result<u32, Stop> {
    if (len as i32) < 4 { Err(Errno::EINVAL.into()) } else { call.read_user_u32(value) }
}
