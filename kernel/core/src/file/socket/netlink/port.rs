//! Port ids: numbers by which sockets are found, each of which one socket has. Whoever asks for none gets the number of the process, or another one if that is taken.
//!
//! Sockets that have one are in the tree of `motet_protocol::bound`, by their protocol.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{SocketRecord, sync::Ordering};
use motet_protocol::{bound, lock::lock};

use super::super::name::Name;
use crate::{call::Call, cpu::Cpu, random};

/// What names begin with: no other name in the tree of protocol 0 does, which are abstract ones of `AF_UNIX`, or have an inode.
const BEGIN: u8 = 1;
const NAME_LEN: usize = 5;
/// The largest number that is chosen if a process's own is taken, as a signed one (as on Linux).
const CHOSEN_MAX: i32 = -4097;
/// How many of these are tried.
const TRIES: usize = 64;

/// The name of a socket that has a port.
pub fn name_of(port: u32) -> Name {
    let mut bytes = [BEGIN; NAME_LEN];
    bytes[1..].copy_from_slice(&port.to_be_bytes());
    Name::of_bytes(&bytes)
}

/// The port that a name is of, 0: that of the kernel.
pub fn of_name(name: &[u8]) -> u32 {
    match name {
        [BEGIN, port @ ..] => port.first_chunk().map_or(0, |port| u32::from_be_bytes(*port)),
        _ => 0,
    }
}

/// A socket's port, 0: it has none yet.
pub fn of(socket: &SocketRecord) -> u32 {
    let bytes = core::array::from_fn::<u8, NAME_LEN, _>(|index| socket.name[index].load(Ordering::Relaxed));
    if socket.is_bound.get() != 0 { of_name(&bytes) } else { 0 }
}

/// Who has a port. What is bound is locked.
pub fn find<M: Machine>(cpu: &Cpu<M>, protocol: u32, port: u32) -> Option<&'static SocketRecord> {
    bound::find(cpu, protocol, 0, name_of(port).bytes())
}

/// `bind`: gives a socket a port, 0: any.
///
/// # Errors
/// `EINVAL`: it has another one; `EADDRINUSE`.
pub fn bind<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, port: u32) -> Result<(), Errno> {
    let cpu = call.cpu;
    let all = lock(cpu, &cpu.pool.header().socket_lock);
    if socket.is_bound.get() != 0 {
        return if of(socket) == port { Ok(()) } else { Err(Errno::EINVAL) };
    }
    if port == 0 {
        drop(all);
        return choose(call, socket);
    }
    if enter(cpu, socket, port) { Ok(()) } else { Err(Errno::EADDRINUSE) }
}

/// Gives a socket a port that has none.
///
/// # Errors
/// `EADDRINUSE`.
pub fn choose<M: Machine>(call: &Call<M>, socket: &'static SocketRecord) -> Result<(), Errno> {
    if socket.is_bound.get() != 0 {
        return Ok(());
    }
    let cpu = call.cpu;
    let [random] = random::words(cpu);
    let count = u64::from(CHOSEN_MAX.abs_diff(i32::MIN)) + 1;
    let first = CHOSEN_MAX.cast_unsigned() - (random % (count - TRIES as u64)) as u32;
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    let others = (0..TRIES as u32).map(|index| first - index);
    // Another thread may have given it one.
    let mut all = core::iter::once(call.process.pid.get()).chain(others);
    let has_one = socket.is_bound.get() != 0 || all.any(|port| enter(cpu, socket, port));
    if has_one { Ok(()) } else { Err(Errno::EADDRINUSE) }
}

/// What is bound is locked. `false`: somebody has the port.
fn enter<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord, port: u32) -> bool {
    if find(cpu, socket.protocol.get(), port).is_some() {
        return false;
    }
    socket.name_len.set(name_of(port).store(&socket.name));
    bound::enter(cpu, socket);
    true
}

/// Nobody finds a socket by its port any more.
pub fn leave<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    if socket.is_bound.get() == 0 {
        return;
    }
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    // As in `inet::port::leave`.
    if socket.is_bound.get() != 0 {
        bound::leave(cpu, socket);
    }
}
