//! Sending packets of `SOCK_SEQPACKET` and `SOCK_DGRAM`.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{PACKET_MAX, PipeRecord, SocketRecord, sync::Ordering};
use motet_protocol::{
    lock::lock,
    pipe::packet::{self, Limits},
};

use super::{
    super::{
        SHUT_WRITE,
        connection::pipes,
        credentials::sender_of,
        family::{Address, Family, Sending},
        flags::{SO_PASSCRED, is_on},
        name::Name,
        packet::{Queue, fill},
        rights, waits_no_more,
    },
    Unix, datagram,
    name::{self, Place},
};
use crate::{
    call::{Call, Stop, SysResult},
    cursor::Cursor,
};

/// What Linux's bookkeeping takes of a buffer.
const RESERVED: u32 = 32;

/// Sends a packet.
pub fn send<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    how: Sending<M>,
    from: &mut Cursor<M>,
) -> SysResult {
    let (cpu, unix) = (call.cpu, Unix::of(socket));
    // One of a connection always goes to its peer.
    let to = if unix.is_of_datagrams() { how.address } else { &Address::NONE };
    let to = if to.bytes().is_empty() { None } else { Some(to) };
    if let Some(address) = to {
        name::of(address)?;
    } else if socket.outgoing.load(Ordering::Acquire) == 0 {
        return Err(Errno::ENOTCONN.into());
    }
    if is_on(socket, SO_PASSCRED) {
        name::choose(cpu, socket)?;
    }
    let len = from.remaining();
    if len > u64::from(socket.buffers[0].get().saturating_sub(RESERVED)) || len > PACKET_MAX as u64 {
        return Err(Errno::EMSGSIZE.into());
    }
    if let Some(errno) = unix.take_error(cpu) {
        return Err(errno.into());
    }
    if socket.shut.load(Ordering::Acquire) & SHUT_WRITE != 0 {
        return Err(Errno::EPIPE.into());
    }
    let queue = receiver(call, socket, to)?;
    let nonblocking = waits_no_more(call, how.nonblocking, socket.timeouts_ns[1].get());
    let limits = limits(socket, queue.record());
    // Nothing is copied for nothing.
    let writes_no_more = || socket.shut.load(Ordering::Acquire) & SHUT_WRITE != 0;
    call.wait_for(&queue.record().write_waiters, || match writes_no_more() {
        true => Err(Errno::EPIPE.into()),
        false => room(queue.record(), limits, nonblocking),
    })?;
    let packet = fill(call, how.files, from)?;
    packet.record().name_len.set(Name::own(socket).store(&packet.record().name));
    if let Some(sender) = sender_of(call, how.credentials, socket, queue.record()) {
        packet.set_sender(sender);
    }
    let push = || match rights::push(cpu, queue.record(), &packet, limits) {
        Ok(true) => Ok(Some(())),
        Ok(false) if writes_no_more() => Err(Errno::EPIPE.into()),
        Ok(false) if nonblocking => Err(Errno::EAGAIN.into()),
        Ok(false) => Ok(None),
        Err(Errno::EPERM) => Err(Errno::EPERM.into()),
        Err(_) => Err(gone(call, socket, queue.record(), to.is_some()).into()),
    };
    // What a peer that has gone had sent is freed.
    call.wait_for(&queue.record().write_waiters, push).inspect_err(|_| rights::free_dropped(cpu))?;
    packet.release();
    Ok(len)
}

/// Whether a packet has room, or would fail.
fn room(queue: &PipeRecord, limits: Limits, nonblocking: bool) -> Result<Option<()>, Stop> {
    let fails = queue.readers.load(Ordering::Acquire) == 0 || !packet::is_open(queue, limits);
    if fails || packet::has_room(queue, limits) {
        return Ok(Some(()));
    }
    if nonblocking { Err(Errno::EAGAIN.into()) } else { Ok(None) }
}

/// The queue that a packet goes to.
fn receiver<'c, M: Machine>(
    call: &Call<'c, M>,
    socket: &'static SocketRecord,
    to: Option<&Address>,
) -> Result<Queue<'c, M>, Stop> {
    let cpu = call.cpu;
    let Some(address) = to else {
        if Unix::of(socket).is_of_datagrams() {
            return Ok(datagram::peer_queue(cpu, socket)?);
        }
        let [_, outgoing] = pipes(cpu, socket).ok_or(Errno::ENOTCONN)?;
        return Ok(Queue::new(cpu, outgoing));
    };
    let place = Place::of(call, address)?;
    let _all = lock(cpu, &cpu.pool.header().socket_lock);
    Ok(datagram::queue_for(cpu, socket, place.socket(cpu, socket.kind.get())?)?)
}

/// How full a queue may be for what a socket sends there.
fn limits(socket: &SocketRecord, queue: &PipeRecord) -> Limits {
    let counts = Unix::is_kind_of_datagrams(socket) && !datagram::is_mutual(socket, queue);
    let packets = if counts { queue.packets_max.get() + 1 } else { u32::MAX };
    let (from, cost) = (socket.incoming.load(Ordering::Relaxed), socket.buffers[0].get());
    Limits { from, cost, packets, by_writer: !Unix::is_kind_of_datagrams(socket) }
}

/// Why nobody receives from a queue.
fn gone<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, queue: &PipeRecord, is_named: bool) -> Errno {
    let unix = Unix::of(socket);
    if !unix.is_of_datagrams() || queue.reader.load(Ordering::Acquire) != 0 {
        return unix.take_error(call.cpu).unwrap_or(Errno::EPIPE);
    }
    if !is_named {
        datagram::lose_peer(call.cpu, socket, queue);
    }
    Errno::ECONNREFUSED
}
