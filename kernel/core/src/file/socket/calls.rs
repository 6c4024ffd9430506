//! System calls that make, name and connect sockets, of whatever family.

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::SocketRecord;
use motet_protocol::slab;

use super::{families, family::Address, flags::BUFFER, get, open};
use crate::{
    call::{Call, SysResult},
    file::descriptor::table,
};

const SOCK_TYPE: u32 = 0xf;

/// A new socket that nobody knows yet, and the flags that it is to be opened with.
fn create<M: Machine>(call: &Call<M>, family: u32, kind: u32, protocol: u32) -> Result<&'static SocketRecord, Errno> {
    let [kind, protocol] = families::check(family, kind & SOCK_TYPE, protocol)?;
    let socket = slab::alloc::<SocketRecord>(call.cpu).ok_or(Errno::ENOMEM)?;
    socket.family.set(family);
    socket.kind.set(kind);
    socket.protocol.set(protocol);
    socket.buffers.iter().for_each(|bytes| bytes.set(BUFFER));
    // It has no peer: process 0 is none, and nobody has these ids.
    socket.peer[1].set(u32::MAX);
    socket.peer[2].set(u32::MAX);
    families::prepare(call, socket).inspect_err(|_| families::close(call.cpu, socket))?;
    Ok(socket)
}

/// The open flags in a kind of socket.
///
/// # Errors
/// `EINVAL`: there are others.
fn open_flags(kind: u32) -> Result<u32, Errno> {
    let flags = kind & !SOCK_TYPE;
    if flags & !(O_CLOEXEC | O_NONBLOCK) == 0 { Ok(flags) } else { Err(Errno::EINVAL) }
}

/// `socket(family, kind, protocol)`.
pub fn socket<M: Machine>(call: &Call<M>) -> SysResult {
    let [family, kind, protocol] = [0, 1, 2].map(|index: usize| call.args[index] as u32);
    let flags = open_flags(kind)?;
    Ok(open(call, create(call, family, kind, protocol)?, flags)?)
}

/// `socketpair(family, kind, protocol, fds)`.
pub fn socketpair<M: Machine>(call: &Call<M>) -> SysResult {
    let [family, kind, protocol] = [0, 1, 2].map(|index: usize| call.args[index] as u32);
    let (cpu, fds, flags) = (call.cpu, call.args[3], open_flags(kind)?);
    let one = create(call, family, kind, protocol)?;
    let two = create(call, family, kind, protocol).inspect_err(|_| families::close(cpu, one))?;
    families::pair(call, [one, two]).inspect_err(|_| [one, two].into_iter().for_each(|it| families::close(cpu, it)))?;
    let files = table::of(cpu, call.process);
    // What was opened a moment ago.
    let undo = |fd: u64| _ = table::close(cpu, files, fd as i32);
    let first = open(call, one, flags).inspect_err(|_| families::close(cpu, two))?;
    let second = open(call, two, flags).inspect_err(|_| undo(first))?;
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&(first as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&(second as u32).to_le_bytes());
    call.write_user(fds, &bytes).inspect_err(|_| [first, second].into_iter().for_each(undo))?;
    Ok(0)
}

/// `bind(fd, address, length)`.
pub fn bind<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, address, len, ..] = call.args;
    let (_file, socket) = get(call, fd)?;
    families::bind(call, socket, &Address::read(call, address, len)?)?;
    Ok(0)
}

/// `listen(fd, backlog)`.
pub fn listen<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, backlog, ..] = call.args;
    let (_file, socket) = get(call, fd)?;
    families::listen(call, socket, backlog as u32)?;
    Ok(0)
}

/// `connect(fd, address, length)`.
pub fn connect<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, address, len, ..] = call.args;
    let (file, socket) = get(call, fd)?;
    families::connect(call, socket, file.nonblocking(), &Address::read(call, address, len)?)?;
    Ok(0)
}

/// `accept(fd, address, length)`.
pub fn accept<M: Machine>(call: &Call<M>) -> SysResult {
    accept_one(call, 0)
}

/// `accept4(fd, address, length, flags)`.
pub fn accept4<M: Machine>(call: &Call<M>) -> SysResult {
    accept_one(call, call.args[3] as u32)
}

fn accept_one<M: Machine>(call: &Call<M>, flags: u32) -> SysResult {
    let [fd, address, len_at, ..] = call.args;
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    Address::await_pages(call, address, len_at)?;
    let (file, socket) = get(call, fd)?;
    let end = families::accept(call, socket, file.nonblocking())?;
    let name = families::accepted_from(call.cpu, end);
    let fd = open(call, end, flags)?;
    if address != 0
        && let Err(stop) = name.write(call, address, len_at)
    {
        // It was opened a moment ago.
        let _ = table::close(call.cpu, table::of(call.cpu, call.process), fd as i32);
        return Err(stop);
    }
    Ok(fd)
}

/// `shutdown(fd, how)`.
pub fn shutdown<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, how, ..] = call.args;
    let (_file, socket) = get(call, fd)?;
    // 0: reading, 1: writing, 2: both.
    let how = (how as u32).checked_add(1).filter(|how| *how <= 3 && *how > 0).ok_or(Errno::EINVAL)?;
    families::shutdown(call, socket, how)?;
    Ok(0)
}

/// `getsockname(fd, address, length)`.
pub fn getsockname<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, address, len_at, ..] = call.args;
    let (_file, socket) = get(call, fd)?;
    families::name(call.cpu, socket).write(call, address, len_at)?;
    Ok(0)
}

/// `getpeername(fd, address, length)`.
pub fn getpeername<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, address, len_at, ..] = call.args;
    let (_file, socket) = get(call, fd)?;
    families::peer_name(call.cpu, socket)?.write(call, address, len_at)?;
    Ok(0)
}
