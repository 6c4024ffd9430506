//! Names of sockets: paths, and abstract names, which begin with a zero (unix(7)).

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{InodeRecord, SOCKET_NAME_MAX, SocketRecord};
use motet_protocol::{Context, bound, fs, fs::Held, lock::lock};

use super::super::{
    family::{Address, Family},
    name::Name,
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

/// What all sockets of the family have as their protocol.
pub const PROTOCOL: u32 = 0;
/// Bytes of an address before its path.
const FAMILY_LEN: usize = 2;
/// Names that are chosen for sockets: a zero, and so many hexadecimal digits.
const CHOSEN_DIGITS: usize = 5;
const CHOSEN: u32 = 1 << (4 * CHOSEN_DIGITS);

/// The name in an address.
///
/// # Errors
/// `EINVAL`: it has none, or is too long.
pub fn of(address: &Address) -> Result<Name, Errno> {
    let bytes = address.bytes();
    let fits = bytes.len() > FAMILY_LEN && bytes.len() <= FAMILY_LEN + SOCKET_NAME_MAX;
    if !fits || address.family() != Some(Unix::CODE) {
        return Err(Errno::EINVAL);
    }
    let path = &bytes[FAMILY_LEN..];
    let len = if path[0] == 0 { path.len() } else { path.iter().position(|&b| b == 0).unwrap_or(path.len()) };
    Ok(Name::of_bytes(&path[..len]))
}

fn is_abstract(name: &Name) -> bool {
    name.bytes().first() == Some(&0)
}

/// The address that has this name.
pub fn address(name: &Name) -> Address {
    let (name_bytes, mut bytes) = (name.bytes(), [0; FAMILY_LEN + SOCKET_NAME_MAX + 1]);
    bytes[..FAMILY_LEN].copy_from_slice(&(Unix::CODE as u16).to_le_bytes());
    bytes[FAMILY_LEN..][..name_bytes.len()].copy_from_slice(name_bytes);
    // A path's terminating zero counts.
    let terminator = usize::from(!name_bytes.is_empty() && !is_abstract(name));
    Address::of(&bytes[..FAMILY_LEN + name_bytes.len() + terminator])
}

/// The address of a sender: none, if that has no name.
pub fn address_of_sender(name: &Name) -> Address {
    if name.bytes().is_empty() { Address::NONE } else { address(name) }
}

/// Whether a socket is bound, or has its name from the one that is to accept it. One that a core was about to bind when it died may have the bytes of a name.
pub fn has_name(socket: &SocketRecord) -> bool {
    socket.is_bound.get() != 0 || socket.listener.get() != 0
}

/// `bind`.
pub fn bind<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, address: &Address) -> Result<(), Stop> {
    if address.bytes().len() == FAMILY_LEN && address.family() == Some(Unix::CODE) {
        return Ok(choose(call.cpu, socket)?);
    }
    let name = of(address)?;
    let cpu = call.cpu;
    if has_name(socket) {
        return Err(Errno::EINVAL.into());
    }
    // Before the lock: it may wait for others' directories.
    let inode = match is_abstract(&name) {
        true => None,
        false => Some(make(call, name.bytes())?),
    };
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    if is_abstract(&name) && bound::find(cpu, PROTOCOL, 0, name.bytes()).is_some() {
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
        if bound::find(cpu, PROTOCOL, 0, &bytes).is_none() {
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
        let name = of(address)?;
        if is_abstract(&name) {
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
        let socket = bound::find(cpu, PROTOCOL, self.inode, self.name.bytes()).ok_or(Errno::ECONNREFUSED)?;
        if socket.kind.get() == kind { Ok(socket) } else { Err(Errno::EPROTOTYPE) }
    }
}
