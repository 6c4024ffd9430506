//! System calls that make, name and connect sockets.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{
    AtomicByte, ProcessRecord, SOCKET_CONNECTED, SOCKET_LISTENING, SOCKET_NAME_MAX, SOCKET_NEW, SocketRecord, in_order,
};
use motet_protocol::{Context, bound, fs::Held, lock::lock, slab, wait};

use super::{SHUT_READ, close, connect_pair, get, open, pipes, set_connected, shut, take_pending, waits_no_more};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    file::{
        names,
        path::{self, Path},
        table,
    },
    mm,
    permission::FileRights,
};

const AF_UNIX: u32 = 1;
const SOCK_STREAM: u32 = 1;
const SOCK_TYPE: u32 = 0xf;
/// Connections that wait to be accepted, at most (Linux's `net.core.somaxconn`).
const BACKLOG_MAX: u32 = 4096;
/// Bytes of an address before its path.
const FAMILY_LEN: usize = 2;

/// A name in an address: a path, or, if it begins with a zero, an abstract name. Empty: none.
pub struct Name {
    bytes: [u8; SOCKET_NAME_MAX],
    len: usize,
}

impl Name {
    fn read<M: Machine>(call: &Call<M>, address: u64, len: u64) -> Result<Self, Stop> {
        let len = usize::try_from(len as i32).map_err(|_| Errno::EINVAL)?;
        let mut bytes = [0; FAMILY_LEN + SOCKET_NAME_MAX];
        let whole = bytes.get_mut(..len).filter(|whole| whole.len() > FAMILY_LEN).ok_or(Errno::EINVAL)?;
        call.read_user(address, whole)?;
        if u32::from(u16::from_le_bytes([whole[0], whole[1]])) != AF_UNIX {
            return Err(Errno::EINVAL.into());
        }
        let path = &whole[FAMILY_LEN..];
        let len = if path[0] == 0 { path.len() } else { path.iter().position(|&b| b == 0).unwrap_or(path.len()) };
        let mut name = Self { bytes: [0; SOCKET_NAME_MAX], len };
        name.bytes[..len].copy_from_slice(&path[..len]);
        Ok(name)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn is_abstract(&self) -> bool {
        self.len > 0 && self.bytes[0] == 0
    }

    fn load((bytes, len): (&[AtomicByte; SOCKET_NAME_MAX], u32)) -> Self {
        let bytes = core::array::from_fn(|index| bytes[index].load(Ordering::Relaxed));
        Self { bytes, len: (len as usize).min(SOCKET_NAME_MAX) }
    }

    fn store(&self, into: &[AtomicByte; SOCKET_NAME_MAX]) -> u32 {
        for (to, &byte) in into.iter().zip(&self.bytes) {
            to.store(byte, Ordering::Relaxed);
        }
        self.len as u32
    }

    /// Waits until the pages have come to which [`write`](Self::write) is to write, if it is.
    pub fn await_pages<M: Machine>(call: &Call<M>, address: u64, len_at: u64) -> Result<(), Stop> {
        if address == 0 || !mm::has_late_pages(call.cpu, call.process) {
            return Ok(());
        }
        let room = u64::from(call.read_user_u32(len_at)?);
        call.await_pages(address, room.min((FAMILY_LEN + SOCKET_NAME_MAX + 1) as u64))
    }

    /// Writes the address that has this name, as much as there is room for, and its length.
    pub fn write<M: Machine>(&self, call: &Call<M>, address: u64, len_at: u64) -> Result<(), Stop> {
        let room = usize::try_from(call.read_user_u32(len_at)?.cast_signed()).map_err(|_| Errno::EINVAL)?;
        let mut bytes = [0; FAMILY_LEN + SOCKET_NAME_MAX + 1];
        bytes[..FAMILY_LEN].copy_from_slice(&(AF_UNIX as u16).to_le_bytes());
        bytes[FAMILY_LEN..][..self.len].copy_from_slice(self.bytes());
        // A path's terminating zero counts.
        let len = FAMILY_LEN + self.len + usize::from(self.len > 0 && !self.is_abstract());
        call.write_user(address, &bytes[..len.min(room)])?;
        call.write_user(len_at, &(len as u32).to_le_bytes())
    }
}

fn own_name(socket: &SocketRecord) -> Name {
    Name::load((&socket.name, socket.name_len.get()))
}

/// The name of a socket's peer.
pub fn peer_name(socket: &SocketRecord) -> Name {
    Name::load((&socket.peer_name, socket.peer_name_len.get()))
}

/// Checks what kind of socket is asked for; its open flags.
fn check_kind(domain: u64, kind: u64, protocol: u64) -> Result<u32, Errno> {
    let (domain, kind, protocol) = (domain as u32, kind as u32, protocol as u32);
    if domain != AF_UNIX {
        return Err(Errno::EAFNOSUPPORT);
    }
    if kind & !(SOCK_TYPE | O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    match (kind & SOCK_TYPE, protocol) {
        (SOCK_STREAM, 0 | AF_UNIX) => Ok(kind & !SOCK_TYPE),
        (_, 0 | AF_UNIX) => Err(Errno::ESOCKTNOSUPPORT),
        _ => Err(Errno::EPROTONOSUPPORT),
    }
}

/// `socket(domain, kind, protocol)`: streams of `AF_UNIX`.
pub fn socket<M: Machine>(call: &Call<M>) -> SysResult {
    let [domain, kind, protocol, ..] = call.args;
    let flags = check_kind(domain, kind, protocol)?;
    let socket = slab::alloc::<SocketRecord>(call.cpu).ok_or(Errno::ENOMEM)?;
    // It has no peer: process 0 is none, and nobody has these ids.
    socket.peer[1].set(u32::MAX);
    socket.peer[2].set(u32::MAX);
    Ok(open(call, socket, flags)?)
}

/// `socketpair(domain, kind, protocol, fds)`.
pub fn socketpair<M: Machine>(call: &Call<M>) -> SysResult {
    let [domain, kind, protocol, fds, ..] = call.args;
    let flags = check_kind(domain, kind, protocol)?;
    let cpu = call.cpu;
    let one = slab::alloc::<SocketRecord>(cpu).ok_or(Errno::ENOMEM)?;
    let Some(two) = slab::alloc::<SocketRecord>(cpu) else {
        slab::free(cpu, one);
        return Err(Errno::ENOMEM.into());
    };
    set_peer(one, call.process);
    set_peer(two, call.process);
    connect_pair(cpu, one, two).inspect_err(|_| [one, two].into_iter().for_each(|socket| close(cpu, socket)))?;
    [one, two].into_iter().for_each(set_connected);
    let files = table::of(cpu, call.process);
    // What was opened a moment ago.
    let undo = |fd: u64| _ = table::close(cpu, files, fd as i32);
    let first = open(call, one, flags).inspect_err(|_| close(cpu, two))?;
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
    let name = Name::read(call, address, len)?;
    let cpu = call.cpu;
    if socket.is_bound.get() != 0 {
        return Err(Errno::EINVAL.into());
    }
    // Before the lock: it may wait for others' directories.
    let inode = match name.is_abstract() {
        true => None,
        false => Some(make_name(call, name.bytes())?),
    };
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    if name.is_abstract() && bound::find(cpu, 0, name.bytes()).is_some() {
        return Err(Errno::EADDRINUSE.into());
    }
    if socket.is_bound.get() != 0 {
        return Err(Errno::EINVAL.into());
    }
    socket.name_len.set(name.store(&socket.name));
    socket.inode.set(inode.map_or(0, |inode| cpu.raw(inode.release())));
    bound::enter(cpu, socket);
    Ok(0)
}

/// Makes a socket's name, with a reference for the caller.
fn make_name<'c, M: Machine>(call: &Call<'c, M>, path: &[u8]) -> Result<Held<'c, Cpu<M>>, Stop> {
    let in_use = |stop: Stop| if stop == Stop::Error(Errno::EEXIST) { Errno::EADDRINUSE.into() } else { stop };
    let node = names::make_socket(call, path).map_err(in_use)?;
    let inode = node.as_inode().ok_or(Errno::EPERM)?;
    Ok(Held::new(call.cpu, inode))
}

/// `listen(fd, backlog)`.
pub fn listen<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, backlog, ..] = call.args;
    let (_file, socket) = get(call, fd)?;
    if socket.is_bound.get() == 0 {
        return Err(Errno::EINVAL.into());
    }
    let _guard = lock(call.cpu, &socket.lock);
    if socket.state.load(Ordering::Relaxed) == SOCKET_CONNECTED {
        return Err(Errno::EINVAL.into());
    }
    socket.backlog.set((backlog as u32).min(BACKLOG_MAX));
    set_peer(socket, call.process); // what those who connect are told
    socket.state.store(SOCKET_LISTENING, Ordering::Release);
    // There may be room for those who wait to connect.
    wait::wake(call.cpu, &call.cpu.pool.header().socket_waiters);
    Ok(0)
}

/// `connect(fd, address, length)`: waits while too many others do.
pub fn connect<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, address, len, ..] = call.args;
    let (file, socket) = get(call, fd)?;
    let name = Name::read(call, address, len)?;
    let cpu = call.cpu;
    let node = match name.is_abstract() {
        true => None,
        false => {
            let mut path = Path::new();
            path.set(name.bytes())?;
            Some(path::resolve_path(call, AT_FDCWD, &mut path, 0)?)
        }
    };
    let inode = match &node {
        None => 0,
        Some(node) => {
            node.check(call, W_OK)?;
            let socket = node.as_inode().filter(|inode| inode.mode.get() & S_IFMT == S_IFSOCK);
            cpu.raw(socket.ok_or(Errno::ECONNREFUSED)?)
        }
    };
    let header = cpu.pool.header();
    let nonblocking = waits_no_more(call, file.nonblocking(), socket.timeouts_ns[1].get());
    call.wait_for(&header.socket_waiters, || {
        let _all = lock(cpu, &header.socket_lock);
        let listener = bound::find(cpu, inode, name.bytes()).ok_or(Errno::ECONNREFUSED)?;
        match join(call, socket, listener)? {
            true => Ok(Some(0)),
            false if nonblocking => Err(Stop::from(Errno::EAGAIN)),
            false => Ok(None),
        }
    })
}

/// Connects a socket to one that listens, which is to accept the other end. `false`: too many wait there. What is bound is
/// locked.
fn join<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    listener: &'static SocketRecord,
) -> Result<bool, Errno> {
    let cpu = call.cpu;
    let guard = lock(cpu, &listener.lock);
    let refuses = listener.shut.load(Ordering::Acquire) & SHUT_READ != 0;
    if listener.state.load(Ordering::Relaxed) != SOCKET_LISTENING || refuses {
        return Err(Errno::ECONNREFUSED);
    }
    // Whoever is there comes before what this socket is already.
    match socket.state.load(Ordering::Acquire) {
        SOCKET_NEW => {}
        SOCKET_CONNECTED => return Err(Errno::EISCONN),
        _ => return Err(Errno::EINVAL),
    }
    if listener.pending_count.get() > listener.backlog.get() {
        return Ok(false);
    }
    let end = slab::alloc::<SocketRecord>(cpu).ok_or(Errno::ENOMEM)?;
    connect_pair(cpu, socket, end).inspect_err(|_| slab::free(cpu, end))?;
    let (theirs, ours) = (own_name(listener), own_name(socket));
    end.name_len.set(theirs.store(&end.name));
    end.peer_name_len.set(ours.store(&end.peer_name));
    set_peer(end, call.process);
    socket.peer_name_len.set(theirs.store(&socket.peer_name));
    for (to, from) in socket.peer.iter().zip(&listener.peer) {
        to.set(from.get());
    }
    end.listener.set(cpu.raw(listener));
    set_connected(end);
    in_order();
    match cpu.object::<SocketRecord>(listener.pending[1].get()) {
        Some(last) => last.next.set(cpu.raw(end)),
        None => listener.pending[0].set(cpu.raw(end)),
    }
    set_connected(socket);
    listener.pending[1].set(cpu.raw(end));
    listener.pending_count.set(listener.pending_count.get() + 1);
    drop(guard);
    wait::wake(cpu, &listener.acceptors);
    Ok(true)
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
    let cpu = call.cpu;
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    Name::await_pages(call, address, len_at)?;
    let (file, socket) = get(call, fd)?;
    let nonblocking = waits_no_more(call, file.nonblocking(), socket.timeouts_ns[0].get());
    let end = call.wait_for(&socket.acceptors, || {
        if socket.state.load(Ordering::Acquire) != SOCKET_LISTENING {
            return Err(Errno::EINVAL.into());
        }
        match take_pending(cpu, socket) {
            None if socket.shut.load(Ordering::Acquire) & SHUT_READ != 0 => Err(Stop::from(Errno::EINVAL)),
            None if nonblocking => Err(Stop::from(Errno::EAGAIN)),
            found => Ok(found),
        }
    })?;
    wait::wake(cpu, &cpu.pool.header().socket_waiters);
    let name = peer_name(end);
    let fd = open(call, end, flags)?;
    if address != 0
        && let Err(stop) = name.write(call, address, len_at)
    {
        // It was opened a moment ago.
        let _ = table::close(cpu, table::of(cpu, call.process), fd as i32);
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
    if socket.state.load(Ordering::Acquire) == SOCKET_LISTENING {
        // Nobody comes any more, and whoever waits for somebody need not.
        let _guard = lock(call.cpu, &socket.lock);
        socket.shut.fetch_or(how, Ordering::AcqRel);
        wait::wake(call.cpu, &socket.acceptors);
        wait::wake(call.cpu, &call.cpu.pool.header().socket_waiters);
        return Ok(0);
    }
    let pipes = pipes(call.cpu, socket).ok_or(Errno::ENOTCONN)?;
    shut(call.cpu, socket, pipes, how);
    Ok(0)
}

/// `getsockname(fd, address, length)`.
pub fn getsockname<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, address, len_at, ..] = call.args;
    let (_file, socket) = get(call, fd)?;
    own_name(socket).write(call, address, len_at)?;
    Ok(0)
}

/// `getpeername(fd, address, length)`.
pub fn getpeername<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, address, len_at, ..] = call.args;
    let (_file, socket) = get(call, fd)?;
    pipes(call.cpu, socket).ok_or(Errno::ENOTCONN)?;
    peer_name(socket).write(call, address, len_at)?;
    Ok(0)
}

/// Remembers a process as that to which a socket is connected (`SO_PEERCRED`).
fn set_peer(socket: &SocketRecord, process: &ProcessRecord) {
    let (uid, gid) = FileRights::of(process).owner();
    for (to, value) in socket.peer.iter().zip([process.pid.get(), uid.0, gid.0]) {
        to.set(value);
    }
}
