//! Packets of `SOCK_SEQPACKET` and `SOCK_DGRAM`, and their queues: each is received as it was sent.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{PACKET_HAS_CREDENTIALS, PacketRecord, PipeRecord, SocketRecord, WaitQueue, sync::Ordering};
use motet_protocol::{
    Context,
    lock::lock,
    pipe::{
        self,
        packet::{self, Credentials},
    },
    wait,
};

use super::{
    SHUT_READ, SHUT_WRITE, SOCK_SEQPACKET,
    connection::{pipes, reads_no_more},
    control::{Ancillary, Extras, Files},
    credentials::told,
    family::{Address, Family, Received, Receiving},
    flags::{BUFFER_MIN, DATAGRAMS_MAX, MSG_PEEK, MSG_TRUNC},
    name::Name,
    rights::{self, Packet},
    waits_no_more,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cursor::Cursor,
};

/// Gives a new socket its queue.
///
/// # Errors
/// `ENOMEM`.
pub fn prepare<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Result<(), Errno> {
    let queue = pipe::create(cpu).ok_or(Errno::ENOMEM)?;
    queue.packets_max.set(DATAGRAMS_MAX);
    queue.reader.store(cpu.raw(socket), Ordering::Relaxed);
    socket.shut.store(SHUT_READ, Ordering::Relaxed); // until it is opened
    pipe::open(cpu, queue, pipe::READER, &socket.shut);
    socket.incoming.store(cpu.raw(queue), Ordering::Release);
    Ok(())
}

/// A socket's queue.
pub fn queue<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<&'static PipeRecord> {
    cpu.object(socket.incoming.load(Ordering::Acquire))
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

/// Whether `poll` may have said that there is no room in a queue.
fn has_little_room(queue: &PipeRecord) -> bool {
    pipe::used(queue) > DATAGRAMS_MAX as usize || queue.cost.get() * 4 > BUFFER_MIN[0]
}

/// A count that tells whether anything has come to a socket of datagrams: also that it reads no more.
pub fn arrivals(socket: &SocketRecord, own: &PipeRecord) -> u64 {
    // Far above what the queue counts.
    pipe::arrivals(own)[0].wrapping_add(u64::from(socket.shut.load(Ordering::Acquire)) << 60)
}

/// Ends directions of a socket of datagrams (`SHUT_*`).
pub fn shut<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, how: u32) {
    socket.shut.fetch_or(how & SHUT_WRITE, Ordering::AcqRel);
    let Some(own) = queue(cpu, socket) else { return };
    if pipe::close(cpu, own, how & SHUT_READ, &socket.shut) != 0 {
        pipe::put(cpu, own);
    }
    wait::wake(cpu, &own.read_waiters);
    wait::wake(cpu, &own.write_waiters);
}

/// A socket of datagrams is about to be closed. May be done twice.
pub fn end<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) {
    let Some(own) = queue(cpu, socket) else { return };
    {
        let _guard = lock(cpu, &own.lock); // a peer may be telling the reader something
        own.reader.store(0, Ordering::Release);
    }
    shut(cpu, socket, SHUT_READ);
    own.sender.store(0, Ordering::Release); // whoever sends is told that it has gone
    rights::purge(cpu, own);
}

/// A packet with the bytes that a call sends.
///
/// # Errors
/// `ENOBUFS`, `EFAULT`; [`Stop::Page`].
pub fn fill<'c, M: Machine>(
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

/// Where a call receives packets.
#[derive(Clone, Copy)]
pub struct Source {
    /// The socket.
    pub socket: &'static SocketRecord,
    /// Who waits for room there without sending, and is told when there was little.
    pub room_waiters: Option<&'static WaitQueue>,
    /// The address of a sender with that name.
    pub address_of: fn(&Name) -> Address,
    /// What else is told of a packet whose sender has that name.
    pub extras_of: fn(&SocketRecord, &Name) -> Extras,
}

/// Receives a packet of a family.
///
/// # Errors
/// `ENOTCONN`; what has gone wrong since this was last asked; `EAGAIN`; `EFAULT`.
pub fn receive<'c, M: Machine, F: Family>(
    call: &Call<'c, M>,
    source: Source,
    how: Receiving,
    into: &mut Cursor<M>,
    with: &mut Received<'c, M>,
) -> SysResult {
    let (cpu, Source { socket, address_of, extras_of, .. }) = (call.cpu, source);
    let is_of_datagrams = socket.kind.get() != SOCK_SEQPACKET;
    if !is_of_datagrams {
        pipes(cpu, socket).ok_or(Errno::ENOTCONN)?;
    }
    let queue = cpu.object::<PipeRecord>(socket.incoming.load(Ordering::Acquire)).ok_or(Errno::ENOTCONN)?;
    into.await_pages(into.remaining() as usize)?;
    let nonblocking = waits_no_more(call, how.nonblocking, socket.timeouts_ns[0].get());
    let peeks = how.flags & MSG_PEEK != 0;
    let first = call.wait_for(&queue.read_waiters, || {
        if let Some(errno) = F::of(socket).take_error(cpu) {
            return Err(errno.into());
        }
        let first = match peeks {
            true => packet::with_first(cpu, queue, |first, seen| First::Seen(Told::of(first, seen))),
            false => take(call, source, queue),
        };
        let is_shut = reads_no_more(socket);
        let is_end = match is_of_datagrams {
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
        First::End => Ok(0),
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
            let name = Name::of_sender(record);
            let (sender, extras) = (Some(address_of(&name)), extras_of(socket, &name));
            let files = if packet.file_count() == 0 { Files::None } else { Files::Taken(packet) };
            *with = Received { flags, sender, ancillary: Ancillary { extras, credentials, files } };
            Ok(len)
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
            let (sender, extras) = (Some(address_of(&first.sender)), extras_of(socket, &first.sender));
            *with = Received { flags, sender, ancillary: Ancillary { extras, credentials, files } };
            Ok(len)
        }
    }
}

/// Takes the first packet, and tells those who wait for room without sending, if there was little.
fn take<'c, M: Machine>(call: &Call<'c, M>, source: Source, queue: &'static PipeRecord) -> Option<First<'c, M>> {
    let mut had_little = false;
    let taken = rights::take_first(call.cpu, queue, || had_little = has_little_room(queue));
    if let Some(waiters) = source.room_waiters.filter(|_| taken.is_some() && had_little) {
        wait::wake(call.cpu, waiters);
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
