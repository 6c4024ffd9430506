//! System calls that send, receive, and ask sockets what they are.

use motet_abi::{
    Errno,
    file::{IOV_MAX, O_NONBLOCK},
    time::Timeval,
    wire::Wire,
};
use motet_hal::{Access, Machine};
use motet_layout::{Cell64, PIPE_CAPACITY, SOCKET_LISTENING, SocketRecord, sync::Ordering};

use super::{
    Amount,
    calls::{Name, peer_name},
    get, pipes, write,
};
use crate::{
    call::{Call, Stop, SysResult},
    cursor::Cursor,
    file::description::OpenFile,
};

const MSG_PEEK: u32 = 0x2;
const MSG_DONTROUTE: u32 = 0x4;
const MSG_TRUNC: u32 = 0x20;
const MSG_DONTWAIT: u32 = 0x40;
const MSG_EOR: u32 = 0x80;
const MSG_WAITALL: u32 = 0x100;
const MSG_CONFIRM: u32 = 0x800;
const MSG_NOSIGNAL: u32 = 0x4000;
const MSG_MORE: u32 = 0x8000;
const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;
/// What means nothing here, or is done.
const SEND_FLAGS: u32 = MSG_DONTROUTE | MSG_DONTWAIT | MSG_EOR | MSG_CONFIRM | MSG_NOSIGNAL | MSG_MORE;
const RECEIVE_FLAGS: u32 = MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC;

const SOL_SOCKET: u32 = 1;
const SO_REUSEADDR: u32 = 2;
const SO_TYPE: u32 = 3;
const SO_ERROR: u32 = 4;
const SO_BROADCAST: u32 = 6;
const SO_SNDBUF: u32 = 7;
const SO_RCVBUF: u32 = 8;
const SO_KEEPALIVE: u32 = 9;
const SO_PEERCRED: u32 = 17;
const SO_RCVTIMEO: u32 = 20;
const SO_SNDTIMEO: u32 = 21;
const SO_ACCEPTCONN: u32 = 30;
const SO_PROTOCOL: u32 = 38;
const SO_DOMAIN: u32 = 39;
/// The same as the two before, where times have 32 bits otherwise.
const SO_RCVTIMEO_NEW: u32 = 66;
const SO_SNDTIMEO_NEW: u32 = 67;

/// Longest timeout, so that sums of times do not overflow.
const TIMEOUT_MAX_NS: u64 = u64::MAX / 4;

/// Bytes of `struct msghdr`, and where its fields are.
const HEADER_LEN: usize = 56;
const HEADER_NAME: usize = 0;
const HEADER_NAME_LEN: u64 = 8;
const HEADER_VECTOR: usize = 16;
const HEADER_COUNT: usize = 24;
const HEADER_CONTROL_LEN: usize = 40;
const HEADER_FLAGS: u64 = 48;

/// `sendto(fd, bytes, length, flags, address, address_length)`.
pub fn sendto<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, bytes, len, flags, address, address_len] = call.args;
    let (file, socket) = get(call, fd)?;
    // An address of no bytes is none.
    let address = if address_len as u32 == 0 { 0 } else { address };
    send(call, &file, socket, flags as u32, address, &mut Cursor::new(call, bytes, len, Access::Read))
}

/// `sendmsg(fd, message, flags)`, without control messages.
pub fn sendmsg<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, message, flags, ..] = call.args;
    let (file, socket) = get(call, fd)?;
    let header = Header::read(call, message, true)?;
    if header.control_len != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let mut cursor = Cursor::vector(call, header.vector, header.count, Access::Read)?;
    send(call, &file, socket, flags as u32, header.name, &mut cursor)
}

fn send<M: Machine>(
    call: &Call<M>,
    file: &OpenFile<M>,
    socket: &'static SocketRecord,
    flags: u32,
    address: u64,
    from: &mut Cursor<M>,
) -> SysResult {
    if flags & !SEND_FLAGS != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if address != 0 {
        let is_connected = pipes(call.cpu, socket).is_some();
        return Err(if is_connected { Errno::EISCONN } else { Errno::EOPNOTSUPP }.into());
    }
    let nonblocking = file.nonblocking() || flags & MSG_DONTWAIT != 0;
    write(call, socket, nonblocking, flags & MSG_NOSIGNAL == 0, from)
}

/// `recvfrom(fd, bytes, length, flags, address, address_length)`.
pub fn recvfrom<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, bytes, len, flags, address, len_at] = call.args;
    let (file, socket) = get(call, fd)?;
    Name::await_pages(call, address, len_at)?;
    let received = receive(call, &file, socket, flags as u32, &mut Cursor::new(call, bytes, len, Access::Write))?;
    if address != 0 {
        write_sender(call, socket, address, len_at)?;
    }
    Ok(received)
}

/// Writes the address of whom a message is from: nothing, if that has no name.
fn write_sender<M: Machine>(call: &Call<M>, socket: &SocketRecord, address: u64, len_at: u64) -> Result<(), Stop> {
    let name = peer_name(socket);
    if name.is_empty() { call.write_user(len_at, &0u32.to_le_bytes()) } else { name.write(call, address, len_at) }
}

/// `recvmsg(fd, message, flags)`: no control message ever comes.
pub fn recvmsg<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, message, flags, ..] = call.args;
    let (file, socket) = get(call, fd)?;
    let header = Header::read(call, message, false)?;
    let mut cursor = Cursor::vector(call, header.vector, header.count, Access::Write)?;
    Name::await_pages(call, header.name, message.wrapping_add(HEADER_NAME_LEN))?;
    let received = receive(call, &file, socket, flags as u32, &mut cursor)?;
    if header.name != 0 {
        write_sender(call, socket, header.name, message.wrapping_add(HEADER_NAME_LEN))?;
    }
    // 32 bits, as the C library of some programs has it; the others' upper half is 0 for lengths that there are.
    call.write_user(message.wrapping_add(HEADER_CONTROL_LEN as u64), &0u32.to_le_bytes())?;
    let flags = flags as u32 & MSG_CMSG_CLOEXEC;
    call.write_user(message.wrapping_add(HEADER_FLAGS), &flags.to_le_bytes())?;
    Ok(received)
}

/// Receives from a socket. (`MSG_TRUNC` means nothing to streams.)
fn receive<M: Machine>(
    call: &Call<M>,
    file: &OpenFile<M>,
    socket: &'static SocketRecord,
    flags: u32,
    into: &mut Cursor<M>,
) -> SysResult {
    if flags & !RECEIVE_FLAGS != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let amount = match flags {
        flags if flags & MSG_PEEK != 0 => Amount::Peek,
        flags if flags & MSG_WAITALL != 0 => Amount::Full,
        _ => Amount::Some,
    };
    super::receive(call, socket, file.flags() & O_NONBLOCK != 0 || flags & MSG_DONTWAIT != 0, amount, into)
}

/// What is needed of a `struct msghdr`.
struct Header {
    name: u64,
    vector: u64,
    count: u64,
    control_len: u64,
}

impl Header {
    fn read<M: Machine>(call: &Call<M>, address: u64, is_sent: bool) -> Result<Self, Stop> {
        let mut bytes = [0; HEADER_LEN];
        call.read_user(address, &mut bytes)?;
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|index| bytes[at + index]));
        // Two lengths are of 32 bits with padding behind in some C libraries.
        let (count, control_len) = (word(HEADER_COUNT) as u32, word(HEADER_CONTROL_LEN) as u32);
        if count as usize > IOV_MAX {
            return Err(Errno::EMSGSIZE.into());
        }
        Ok(Self {
            // An address of no bytes is none.
            name: if is_sent && word(HEADER_NAME_LEN as usize) as u32 == 0 { 0 } else { word(HEADER_NAME) },
            vector: word(HEADER_VECTOR),
            count: u64::from(count),
            control_len: u64::from(control_len),
        })
    }
}

/// `getsockopt(fd, level, option, value, length)`.
pub fn getsockopt<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, level, option, value, len_at, _] = call.args;
    let (level, option) = (level as u32, option as u32);
    let (_file, socket) = get(call, fd)?;
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let mut bytes = [0; Timeval::SIZE];
    let number = match option {
        SO_TYPE | SO_DOMAIN => 1,
        SO_ERROR if super::take_reset(call.cpu, socket) => Errno::ECONNRESET as u32,
        SO_ERROR | SO_PROTOCOL => 0,
        SO_REUSEADDR | SO_KEEPALIVE | SO_BROADCAST => socket.options.load(Ordering::Relaxed) >> option & 1,
        SO_SNDBUF | SO_RCVBUF => PIPE_CAPACITY as u32,
        SO_ACCEPTCONN => u32::from(socket.state.load(Ordering::Acquire) == SOCKET_LISTENING),
        SO_PEERCRED => socket.peer[0].get(),
        SO_RCVTIMEO | SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW => 0,
        _ => return Err(Errno::ENOPROTOOPT.into()),
    };
    let value_len = match timeout_of(socket, option) {
        Some(timeout) => {
            let [tv_sec, tv_usec] = [timeout.get() / 1_000_000_000, timeout.get() % 1_000_000_000 / 1000];
            bytes = Timeval { tv_sec: tv_sec.cast_signed(), tv_usec: tv_usec.cast_signed() }.to_bytes();
            Timeval::SIZE
        }
        None => {
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            bytes[4..8].copy_from_slice(&socket.peer[1].get().to_le_bytes());
            bytes[8..12].copy_from_slice(&socket.peer[2].get().to_le_bytes());
            if option == SO_PEERCRED { 12 } else { 4 }
        }
    };
    let room = usize::try_from(call.read_user_u32(len_at)?.cast_signed()).map_err(|_| Errno::EINVAL)?;
    let len = room.min(value_len);
    call.write_user(value, &bytes[..len])?;
    call.write_user(len_at, &(len as u32).to_le_bytes())?;
    Ok(0)
}

/// The timeout that an option is about.
fn timeout_of(socket: &SocketRecord, option: u32) -> Option<&Cell64> {
    match option {
        SO_RCVTIMEO | SO_RCVTIMEO_NEW => Some(&socket.timeouts_ns[0]),
        SO_SNDTIMEO | SO_SNDTIMEO_NEW => Some(&socket.timeouts_ns[1]),
        _ => None,
    }
}

/// Reads a timeout: nanoseconds, 0: there is none.
fn read_timeout<M: Machine>(call: &Call<M>, value: u64, len: u64) -> Result<u64, Stop> {
    let mut bytes = [0; Timeval::SIZE];
    if (len as i32) < Timeval::SIZE as i32 {
        return Err(Errno::EINVAL.into());
    }
    call.read_user(value, &mut bytes)?;
    let Timeval { tv_sec, tv_usec } = Timeval::take(&bytes);
    if !(0..1_000_000).contains(&tv_usec) {
        return Err(Errno::EDOM.into());
    }
    // A negative time has passed when a wait begins.
    let Ok(seconds) = u64::try_from(tv_sec) else { return Ok(1) };
    let ns = seconds.saturating_mul(1_000_000_000).saturating_add(tv_usec.cast_unsigned() * 1000);
    Ok(ns.min(TIMEOUT_MAX_NS))
}

/// `setsockopt(fd, level, option, value, length)`: what changes nothing here is accepted.
pub fn setsockopt<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, level, option, value, len, _] = call.args;
    let (_file, socket) = get(call, fd)?;
    let option = option as u32;
    match (level as u32, option) {
        (SOL_SOCKET, SO_REUSEADDR | SO_KEEPALIVE | SO_BROADCAST | SO_SNDBUF | SO_RCVBUF) => {
            if (len as i32) < 4 {
                return Err(Errno::EINVAL.into());
            }
            let is_set = call.read_user_u32(value)? != 0;
            match option {
                SO_SNDBUF | SO_RCVBUF => {}
                _ if is_set => _ = socket.options.fetch_or(1 << option, Ordering::Relaxed),
                _ => _ = socket.options.fetch_and(!(1 << option), Ordering::Relaxed),
            }
            Ok(0)
        }
        (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW) => {
            let timeout = read_timeout(call, value, len)?;
            if let Some(cell) = timeout_of(socket, option) {
                cell.set(timeout);
            }
            Ok(0)
        }
        (SOL_SOCKET, _) => Err(Errno::ENOPROTOOPT.into()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}
