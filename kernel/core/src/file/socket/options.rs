//! Options of sockets. Those of [`SOL_SOCKET`] that all families have are here; the others are their families'.

use motet_abi::{Errno, time::Timeval, wire::Wire};
use motet_hal::Machine;
use motet_layout::{Cell64, SOCKET_LISTENING, SocketRecord, sync::Ordering};

use super::{
    families,
    family::OPTION_MAX,
    flags::{
        BUFFER, BUFFER_MIN, SO_BROADCAST, SO_LINGER, SO_PASSCRED, SO_PEERCRED, SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET,
        is_on, read_number, turn,
    },
    get,
};
use crate::call::{Call, Stop, SysResult};

const SO_TYPE: u32 = 3;
const SO_ERROR: u32 = 4;
const SO_DONTROUTE: u32 = 5;
const SO_SNDBUF: u32 = 7;
const SO_RCVBUF: u32 = 8;
const SO_KEEPALIVE: u32 = 9;
const SO_OOBINLINE: u32 = 10;
const SO_RCVTIMEO: u32 = 20;
const SO_SNDTIMEO: u32 = 21;
const SO_ACCEPTCONN: u32 = 30;
const SO_PROTOCOL: u32 = 38;
const SO_DOMAIN: u32 = 39;
/// The same as the two before, where times have 32 bits otherwise.
const SO_RCVTIMEO_NEW: u32 = 66;
const SO_SNDTIMEO_NEW: u32 = 67;

/// Bytes of `struct linger`.
const LINGER_LEN: usize = 8;
/// Longest timeout, so that sums of times do not overflow.
const TIMEOUT_MAX_NS: u64 = u64::MAX / 4;

/// `getsockopt(fd, level, option, value, length)`.
pub fn getsockopt<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, level, option, value, len_at, _] = call.args;
    let (level, option) = (level as u32, option as u32);
    let (_file, socket) = get(call, fd)?;
    if (level, option) == (SOL_SOCKET, SO_PASSCRED) && !families::tells_credentials(socket) {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let mut bytes = [0; OPTION_MAX];
    let value_len = match number(call, socket, (level, option)) {
        Some(number) => {
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            4
        }
        None if (level, option) == (SOL_SOCKET, SO_LINGER) => {
            bytes[..4].copy_from_slice(&u32::from(is_on(socket, SO_LINGER)).to_le_bytes());
            bytes[4..LINGER_LEN].copy_from_slice(&socket.linger_s.get().to_le_bytes());
            LINGER_LEN
        }
        None if (level, option) == (SOL_SOCKET, SO_PEERCRED) => {
            for (to, id) in bytes.chunks_exact_mut(4).zip(&socket.peer) {
                to.copy_from_slice(&id.get().to_le_bytes());
            }
            size_of_val(&socket.peer)
        }
        None => match timeout_of(socket, option).filter(|_| level == SOL_SOCKET) {
            Some(timeout) => {
                let [tv_sec, tv_usec] = [timeout.get() / 1_000_000_000, timeout.get() % 1_000_000_000 / 1000];
                let time = Timeval { tv_sec: tv_sec.cast_signed(), tv_usec: tv_usec.cast_signed() };
                bytes[..Timeval::SIZE].copy_from_slice(&time.to_bytes());
                Timeval::SIZE
            }
            None => families::option(call.cpu, socket, (level, option), &mut bytes)?,
        },
    };
    let room = usize::try_from(call.read_user_u32(len_at)?.cast_signed()).map_err(|_| Errno::EINVAL)?;
    let len = room.min(value_len);
    call.write_user(value, &bytes[..len])?;
    call.write_user(len_at, &(len as u32).to_le_bytes())?;
    Ok(0)
}

/// An option that is a number and that all sockets have.
fn number<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, (level, option): (u32, u32)) -> Option<u32> {
    if level != SOL_SOCKET {
        return None;
    }
    Some(match option {
        SO_TYPE => socket.kind.get(),
        SO_DOMAIN => socket.family.get(),
        SO_PROTOCOL => socket.protocol.get(),
        SO_ERROR => families::take_error(call.cpu, socket).map_or(0, |errno| errno as u32),
        SO_REUSEADDR | SO_KEEPALIVE | SO_DONTROUTE | SO_BROADCAST | SO_OOBINLINE | SO_REUSEPORT | SO_PASSCRED => {
            is_on(socket, option).into()
        }
        SO_SNDBUF | SO_RCVBUF => socket.buffers[(option - SO_SNDBUF) as usize].get(),
        SO_ACCEPTCONN => u32::from(socket.state.load(Ordering::Acquire) == SOCKET_LISTENING),
        _ => return None,
    })
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
    let (level, option) = (level as u32, option as u32);
    match (level, option) {
        (SOL_SOCKET, SO_PASSCRED) if !families::tells_credentials(socket) => return Err(Errno::EOPNOTSUPP.into()),
        (
            SOL_SOCKET,
            SO_REUSEADDR | SO_KEEPALIVE | SO_DONTROUTE | SO_BROADCAST | SO_OOBINLINE | SO_SNDBUF | SO_RCVBUF
            | SO_PASSCRED,
        ) => {
            let number = read_number(call, value, len)?;
            match option {
                SO_SNDBUF | SO_RCVBUF => {
                    let which = (option - SO_SNDBUF) as usize;
                    socket.buffers[which].set((number.min(BUFFER) * 2).max(BUFFER_MIN[which]));
                }
                _ => turn(socket, option, number != 0),
            }
        }
        (SOL_SOCKET, SO_LINGER) => {
            if (len as i32) < LINGER_LEN as i32 {
                return Err(Errno::EINVAL.into());
            }
            let (number, seconds) = (call.read_user_u32(value)?, call.read_user_u32(value.wrapping_add(4))?);
            turn(socket, SO_LINGER, number != 0);
            if number != 0 {
                socket.linger_s.set(seconds);
            }
        }
        (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW) => {
            let timeout = read_timeout(call, value, len)?;
            if let Some(cell) = timeout_of(socket, option) {
                cell.set(timeout);
            }
        }
        _ => families::set_option(call, socket, (level, option), (value, len))?,
    }
    Ok(0)
}
