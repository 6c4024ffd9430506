//! Numbers that calls about sockets take, which families know as well: flags of messages, options.

use motet_layout::{SocketRecord, sync::Ordering};

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
/// No `SIGPIPE`.
pub const MSG_NOSIGNAL: u32 = 0x4000;
/// Descriptors that are received are closed by exec.
pub const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;

/// The level of options that all sockets have.
pub const SOL_SOCKET: u32 = 1;
/// Who has sent a message comes with it.
pub const SO_PASSCRED: u32 = 16;
/// Whom a socket is connected to.
pub const SO_PEERCRED: u32 = 17;

/// What a socket's buffers have at first, and half of what they may be given (Linux `net.core.wmem_max` and `rmem_max`).
pub const BUFFER: u32 = 212_992;
/// What they have at least, for sending and for receiving.
pub const BUFFER_MIN: [u32; 2] = [4608, 2304];

/// Whether an option is on.
pub fn is_on(socket: &SocketRecord, option: u32) -> bool {
    socket.options.load(Ordering::Relaxed) >> option & 1 != 0
}
