//! Packets of `SOCK_SEQPACKET` and `SOCK_DGRAM`: each is received as it was sent.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{PACKET_HAS_CREDENTIALS, PACKET_MAX, PacketRecord, PipeRecord, SocketRecord, sync::Ordering};
use motet_protocol::{
    Context,
    pipe::{
        self,
        packet::{self, Credentials, Limits},
    },
    wait,
};

use super::{
    super::{
        SHUT_READ, SHUT_WRITE,
        control::{Ancillary, Files},
        family::{Address, Family, Received, Receiving, Sending},
        message::{MSG_PEEK, MSG_TRUNC},
        options::{SO_PASSCRED, is_on},
        rights::{self, Packet},
        waits_no_more,
    },
    Unix, datagram,
    name::{self, Name, Place, Queue},
    pipes, sender_of, told,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cursor::Cursor,
};
use motet_protocol::lock::lock;

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
        Name::of(address)?;
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
    call.wait_for(&queue.record().write_waiters, || room(queue.record(), limits, nonblocking))?;
    let packet = fill(call, how.files, from)?;
    packet.record().name_len.set(Name::own(socket).store(&packet.record().name));
    if let Some(sender) = sender_of(call, how.credentials, socket, queue.record()) {
        packet.set_sender(sender);
    }
    let push = || match rights::push(cpu, queue.record(), &packet, limits) {
        Ok(true) => Ok(Some(())),
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
    Limits { from: socket.incoming.load(Ordering::Relaxed), cost: socket.buffers[0].get(), packets }
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

/// A packet with the bytes that a call sends.
fn fill<'c, M: Machine>(
    call: &Call<'c, M>,
    files: Option<Packet<'c, M>>,
    from: &mut Cursor<M>,
) -> Result<Packet<'c, M>, Stop> {
    let packet = match files {
        Some(packet) => packet,
        None => Packet::new(call.cpu)?,
    };
    let len = from.remaining() as usize;
    packet::make_room(call.cpu, packet.record(), len)?;
    let mut done = 0;
    while done < len {
        let (run, run_len) = from.run()?;
        let (to, room) = packet::piece(call.cpu, packet.record(), done);
        let here = run_len.min(room);
        call.cpu.pool.copy(run, to, here);
        from.advance(here)?;
        done += here;
        call.serve_due(cost::PAGE + cost::bytes(here as u64));
    }
    Ok(packet)
}

/// Receives a packet.
pub fn receive<'c, M: Machine>(
    call: &Call<'c, M>,
    socket: &'static SocketRecord,
    how: Receiving,
    into: &mut Cursor<M>,
) -> Result<Received<'c, M>, Stop> {
    let (cpu, unix) = (call.cpu, Unix::of(socket));
    if !unix.is_of_datagrams() {
        pipes(cpu, socket).ok_or(Errno::ENOTCONN)?;
    }
    let queue = cpu.object::<PipeRecord>(socket.incoming.load(Ordering::Acquire)).ok_or(Errno::ENOTCONN)?;
    into.await_pages(into.remaining() as usize)?;
    let nonblocking = waits_no_more(call, how.nonblocking, socket.timeouts_ns[0].get());
    let peeks = how.flags & MSG_PEEK != 0;
    let first = call.wait_for(&queue.read_waiters, || {
        if let Some(errno) = unix.take_error(cpu) {
            return Err(errno.into());
        }
        let first = match peeks {
            true => packet::with_first(cpu, queue, |first, seen| First::Seen(Told::of(first, seen))),
            false => take(call, unix, queue),
        };
        let is_shut = socket.shut.load(Ordering::Acquire) & SHUT_READ != 0;
        let is_end = match unix.is_of_datagrams() {
            true => is_shut && !nonblocking,
            false => is_shut || queue.writers.load(Ordering::Acquire) == 0,
        };
        match first {
            // What came after this was looked at comes first.
            None if is_end && pipe::used(queue) == 0 => Ok(Some(First::End)),
            None if nonblocking => Err(Errno::EAGAIN.into()),
            first => Ok(first),
        }
    })?;
    match first {
        First::End => Ok(Received { len: 0, flags: 0, sender: Address::NONE, ancillary: Ancillary::NONE }),
        First::Taken(packet) => {
            let record = packet.record();
            into.shorten(record.len.get().into());
            let done = copy(call, into, |into| {
                // Nothing waits between the two.
                let memory = into.run()?;
                Ok(copy_piece(call, &packet, into.done() as usize, memory))
            })?;
            let (len, flags) = told_len(how, record.len.get(), done);
            let credentials = told(socket, packet.sender());
            let sender = Name::of_sender(record).address_of_sender();
            let files = if packet.file_count() == 0 { Files::None } else { Files::Taken(packet) };
            Ok(Received { len, flags, sender, ancillary: Ancillary { credentials, files } })
        }
        First::Seen(first) => {
            into.shorten(first.len.into());
            // If it has gone meanwhile, the call looks at what is first now.
            let done = copy(call, into, |into| {
                let at = into.done() as usize;
                packet::peek(cpu, queue, (first.seen, at), || into.run())?.ok_or(Stop::Again)
            })?;
            let (len, flags) = told_len(how, first.len, done);
            let credentials = told(socket, first.credentials);
            let files = match first.file_count {
                0 => Files::None,
                count => Files::Seen(queue, first.seen, count),
            };
            let sender = first.sender.address_of_sender();
            Ok(Received { len, flags, sender, ancillary: Ancillary { credentials, files } })
        }
    }
}

/// Takes the first packet, and tells those who wait for room without sending, if there was little.
fn take<'c, M: Machine>(call: &Call<'c, M>, unix: Unix, queue: &'static PipeRecord) -> Option<First<'c, M>> {
    let mut had_little = false;
    let taken = rights::take_first(call.cpu, queue, || had_little = datagram::has_little_room(queue));
    if taken.is_some() && unix.is_of_datagrams() && had_little {
        wait::wake(call.cpu, datagram::room_waiters(call.cpu));
    }
    taken.map(First::Taken)
}

/// What comes first in a queue.
enum First<'c, M: Machine> {
    /// Nothing will.
    End,
    /// A packet, in hand.
    Taken(Packet<'c, M>),
    /// One that stays there.
    Seen(Told),
}

/// What is told of a packet that stays in its queue. Another thread may receive it meanwhile.
struct Told {
    seen: packet::Seen,
    len: u32,
    credentials: Option<Credentials>,
    sender: Name,
    file_count: usize,
}

impl Told {
    /// The queue's lock is held.
    fn of(record: &PacketRecord, seen: packet::Seen) -> Self {
        let has_credentials = record.flags.load(Ordering::Relaxed) & PACKET_HAS_CREDENTIALS != 0;
        Self {
            seen,
            len: record.len.get(),
            credentials: has_credentials.then(|| record.credentials.each_ref().map(|id| id.get())),
            sender: Name::of_sender(record),
            file_count: record.rights_count.get() as usize,
        }
    }
}

fn copy_piece<M: Machine>(call: &Call<M>, packet: &Packet<M>, at: usize, (run, run_len): pipe::Run) -> usize {
    let (bytes, len) = packet::piece(call.cpu, packet.record(), at);
    let len = len.min(run_len);
    call.cpu.pool.copy(bytes, run, len);
    len
}

/// Copies a packet's bytes to user memory, of which as many remain at most, by pieces that `piece` copies; says how many.
fn copy<'a, 'c, M: Machine>(
    call: &Call<M>,
    into: &mut Cursor<'a, 'c, M>,
    mut piece: impl FnMut(&mut Cursor<'a, 'c, M>) -> Result<usize, Stop>,
) -> Result<u64, Stop> {
    while into.remaining() > 0 {
        let len = piece(into)?;
        if len == 0 {
            break;
        }
        into.advance(len)?;
        call.serve_due(cost::PAGE + cost::bytes(len as u64));
    }
    Ok(into.done())
}

/// What a call returns of a packet of that length of which so many bytes were received, and `MSG_TRUNC` if these are not all.
fn told_len(how: Receiving, len: u32, done: u64) -> (u64, u32) {
    let flags = if done < u64::from(len) { MSG_TRUNC } else { 0 };
    (if how.flags & MSG_TRUNC != 0 { len.into() } else { done }, flags)
}
