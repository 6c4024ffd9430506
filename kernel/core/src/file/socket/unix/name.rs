//! Names of sockets: paths, and abstract names, which begin with a zero (unix(7)).

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{AtomicByte, InodeRecord, PipeRecord, SOCKET_NAME_MAX, SocketRecord, sync::Ordering};
use motet_protocol::{Context, bound, fs, fs::Held, lock::lock, pipe};

use super::super::{
    family::{Address, Family},
    unix::Unix,
};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
    file::path::{
        lookup::{self, Path},
        names,
        node::Node,
    },
    random,
};

/// Bytes of an address before its path.
const FAMILY_LEN: usize = 2;
/// Names that are chosen for sockets: a zero, and so many hexadecimal digits.
const CHOSEN_DIGITS: usize = 5;
const CHOSEN: u32 = 1 << (4 * CHOSEN_DIGITS);

/// A name. Empty: none.
pub struct Name {
    bytes: [u8; SOCKET_NAME_MAX],
    len: usize,
}

impl Name {
    /// The name in an address.
    ///
    /// # Errors
    /// `EINVAL`: it has none, or is too long.
    pub fn of(address: &Address) -> Result<Self, Errno> {
        let bytes = address.bytes();
        let fits = bytes.len() > FAMILY_LEN && bytes.len() <= FAMILY_LEN + SOCKET_NAME_MAX;
        if !fits || address.family() != Some(Unix::CODE) {
            return Err(Errno::EINVAL);
        }
        let path = &bytes[FAMILY_LEN..];
        let len = if path[0] == 0 { path.len() } else { path.iter().position(|&b| b == 0).unwrap_or(path.len()) };
        Ok(Self::of_bytes(&path[..len]))
    }

    fn of_bytes(from: &[u8]) -> Self {
        let mut name = Self { bytes: [0; SOCKET_NAME_MAX], len: from.len() };
        name.bytes[..from.len()].copy_from_slice(from);
        name
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn is_abstract(&self) -> bool {
        self.len > 0 && self.bytes[0] == 0
    }

    fn load((bytes, len): (&[AtomicByte; SOCKET_NAME_MAX], u32)) -> Self {
        let mut name = Self { bytes: [0; SOCKET_NAME_MAX], len: (len as usize).min(SOCKET_NAME_MAX) };
        for (to, byte) in name.bytes[..name.len].iter_mut().zip(bytes) {
            *to = byte.load(Ordering::Relaxed);
        }
        name
    }

    /// Stores it, and says how long it is.
    pub fn store(&self, into: &[AtomicByte; SOCKET_NAME_MAX]) -> u32 {
        for (to, &byte) in into.iter().zip(self.bytes()) {
            to.store(byte, Ordering::Relaxed);
        }
        self.len as u32
    }

    /// A socket's own.
    pub fn own(socket: &SocketRecord) -> Self {
        Self::load((&socket.name, socket.name_len.get()))
    }

    /// Its peer's.
    pub fn of_peer(socket: &SocketRecord) -> Self {
        Self::load((&socket.peer_name, socket.peer_name_len.get()))
    }

    /// That of whom has sent a packet.
    pub fn of_sender(packet: &motet_layout::PacketRecord) -> Self {
        Self::load((&packet.name, packet.name_len.get()))
    }

    /// The address that has this name.
    pub fn address(&self) -> Address {
        let mut bytes = [0; FAMILY_LEN + SOCKET_NAME_MAX + 1];
        bytes[..FAMILY_LEN].copy_from_slice(&(Unix::CODE as u16).to_le_bytes());
        bytes[FAMILY_LEN..][..self.len].copy_from_slice(self.bytes());
        // A path's terminating zero counts.
        Address::of(&bytes[..FAMILY_LEN + self.len + usize::from(self.len > 0 && !self.is_abstract())])
    }

    /// The address of a sender: none, if that has no name.
    pub fn address_of_sender(&self) -> Address {
        if self.len == 0 { Address::NONE } else { self.address() }
    }
}

/// Whether a socket is bound, or has its name from the one that has accepted it.
fn has_name(socket: &SocketRecord) -> bool {
    socket.is_bound.get() != 0 || socket.name_len.get() != 0
}

/// `bind`.
pub fn bind<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, address: &Address) -> Result<(), Stop> {
    if address.bytes().len() == FAMILY_LEN && address.family() == Some(Unix::CODE) {
        return Ok(choose(call.cpu, socket)?);
    }
    let name = Name::of(address)?;
    let cpu = call.cpu;
    if has_name(socket) {
        return Err(Errno::EINVAL.into());
    }
    // Before the lock: it may wait for others' directories.
    let inode = match name.is_abstract() {
        true => None,
        false => Some(make(call, name.bytes())?),
    };
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    if name.is_abstract() && bound::find(cpu, 0, name.bytes()).is_some() {
        return Err(Errno::EADDRINUSE.into());
    }
    if has_name(socket) {
        return Err(Errno::EINVAL.into());
    }
    socket.name_len.set(name.store(&socket.name));
    socket.inode.set(inode.map_or(0, |inode| cpu.raw(inode.release())));
    bound::enter(cpu, socket);
    Ok(())
}

/// Gives a socket that has no name an abstract one that is free (unix(7), "Autobind feature").
///
/// # Errors
/// `ENOSPC`: there is none.
pub fn choose<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Result<(), Errno> {
    let [first] = random::words(cpu);
    for number in (0..CHOSEN).map(|index| (first as u32).wrapping_add(index) % CHOSEN) {
        let mut bytes = [0; 1 + CHOSEN_DIGITS];
        for (place, digit) in bytes[1..].iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (4 * place) & 0xf) as usize];
        }
        // In the loop: nobody waits while others look.
        let _all = lock(cpu, &cpu.pool.header().socket_lock);
        if has_name(socket) {
            return Ok(());
        }
        if bound::find(cpu, 0, &bytes).is_none() {
            socket.name_len.set(Name::of_bytes(&bytes).store(&socket.name));
            socket.inode.set(0);
            bound::enter(cpu, socket);
            return Ok(());
        }
    }
    Err(Errno::ENOSPC)
}

/// Makes a socket's name, with a reference for the caller.
fn make<'c, M: Machine>(call: &Call<'c, M>, path: &[u8]) -> Result<Held<'c, Cpu<M>>, Stop> {
    let in_use = |stop: Stop| if stop == Stop::Error(Errno::EEXIST) { Errno::EADDRINUSE.into() } else { stop };
    let node = names::make_socket(call, path).map_err(in_use)?;
    let inode = node.as_inode().ok_or(Errno::EPERM)?;
    Ok(Held::new(call.cpu, inode))
}

/// Nobody finds a socket by its name any more.
pub fn unbind<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    if socket.is_bound.get() == 0 {
        return;
    }
    {
        let _all = lock(cpu, &cpu.pool.header().socket_lock);
        // A core that was ending it may have died, with the lock: the tree is repaired then.
        if socket.is_bound.get() != 0 {
            bound::leave(cpu, socket);
        }
    }
    if let Some(inode) = cpu.object::<InodeRecord>(socket.inode.get()) {
        fs::put(cpu, inode);
    }
}

/// What a name names, as far as a path leads there.
pub struct Place<'c, M: Machine> {
    name: Name,
    /// Keeps the inode.
    _node: Option<Node<'c, M>>,
    inode: u64,
}

impl<'c, M: Machine> Place<'c, M> {
    /// Where a name leads. The caller may send there.
    ///
    /// # Errors
    /// Those of look-ups; `EACCES`; `ECONNREFUSED`: that is no socket's name.
    pub fn of(call: &Call<'c, M>, address: &Address) -> Result<Self, Stop> {
        let name = Name::of(address)?;
        if name.is_abstract() {
            return Ok(Self { name, _node: None, inode: 0 });
        }
        let mut path = Path::new();
        path.set(name.bytes())?;
        let node = lookup::resolve_path(call, AT_FDCWD, &mut path, 0)?;
        node.check(call, W_OK)?;
        let socket = node.as_inode().filter(|inode| inode.mode.get() & S_IFMT == S_IFSOCK);
        let inode = call.cpu.raw(socket.ok_or(Errno::ECONNREFUSED)?);
        Ok(Self { name, _node: Some(node), inode })
    }

    /// The socket that has the name. What is bound is locked.
    ///
    /// # Errors
    /// `ECONNREFUSED`: there is none; `EPROTOTYPE`: it is of another kind.
    pub fn socket(&self, cpu: &Cpu<M>, kind: u32) -> Result<&'static SocketRecord, Errno> {
        let socket = bound::find(cpu, self.inode, self.name.bytes()).ok_or(Errno::ECONNREFUSED)?;
        if socket.kind.get() == kind { Ok(socket) } else { Err(Errno::EPROTOTYPE) }
    }
}

/// A queue that a call uses, with a reference.
pub struct Queue<'c, M: Machine> {
    cpu: &'c Cpu<M>,
    record: &'static PipeRecord,
}

impl<'c, M: Machine> Queue<'c, M> {
    /// One that the caller knows to have a reference meanwhile.
    pub fn new(cpu: &'c Cpu<M>, record: &'static PipeRecord) -> Self {
        record.refs.fetch_add(1, Ordering::Relaxed);
        Self { cpu, record }
    }

    /// It.
    pub fn record(&self) -> &'static PipeRecord {
        self.record
    }

    /// It, with the reference.
    pub fn release(self) -> &'static PipeRecord {
        let record = self.record;
        core::mem::forget(self);
        record
    }
}

impl<M: Machine> Drop for Queue<'_, M> {
    fn drop(&mut self) {
        pipe::put(self.cpu, self.record);
    }
}
