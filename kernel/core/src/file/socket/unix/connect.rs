//! Connections: those that are asked for.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{SocketRecord, sync::Ordering};
use motet_protocol::{Context, lock::lock};

use super::{
    super::{
        credentials::{self, set_peer},
        family::Address,
        flags::{SO_PASSCRED, is_on},
        listening,
        name::Name,
        rights, waits_no_more,
    },
    name::{self, Place},
};
use crate::{
    call::{Call, Stop},
    file::readiness::epoll,
};

/// `connect`: waits while too many others do.
pub fn connect<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    nonblocking: bool,
    address: &Address,
) -> Result<(), Stop> {
    let cpu = call.cpu;
    let place = Place::of(call, address)?;
    if is_on(socket, SO_PASSCRED) {
        name::choose(cpu, socket)?;
    }
    let header = cpu.pool.header();
    let nonblocking = waits_no_more(call, nonblocking, socket.timeouts_ns[1].get());
    call.wait_for(&header.socket_waiters, || {
        let _all = lock(cpu, &header.socket_lock);
        let listener = place.socket(cpu, socket.kind.get())?;
        match listening::join(cpu, socket, listener, listening::Joining { excess: 0, is_begun: false }, |end| {
            introduce(call, [socket, listener, end])
        })? {
            true => Ok(Some(())),
            false if nonblocking => Err(Stop::from(Errno::EAGAIN)),
            false => Ok(None),
        }
    })?;
    rights::free_dropped(cpu); // what a core had connected that died before it was done
    if let Some(file) = cpu.object(socket.file.get()) {
        epoll::queues_have_changed(cpu, file);
    }
    Ok(())
}

/// Tells a socket and the end that its listener is to accept of each other.
fn introduce<M: Machine>(call: &Call<M>, [socket, listener, end]: [&SocketRecord; 3]) {
    end.options.store(listener.options.load(Ordering::Relaxed) & 1 << SO_PASSCRED, Ordering::Relaxed);
    let (theirs, ours) = (Name::own(listener), Name::own(socket));
    end.name_len.set(theirs.store(&end.name));
    end.peer_name_len.set(ours.store(&end.peer_name));
    set_peer(end, credentials::own(call));
    socket.peer_name_len.set(theirs.store(&socket.peer_name));
    set_peer(socket, listener.peer.each_ref().map(|id| id.get()));
}
