//! Messages: what was asked, as bytes of a packet, and what is answered.
//!
//! A message is a header, what is asked or told, and attributes: each a length, a kind and a value, aligned to words. A packet may have several messages.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{PacketRecord, SocketRecord, sync::Ordering};
use motet_protocol::{
    pipe::packet::{Limits, make_room, piece},
    wait,
};

use super::{
    super::{
        interface::INTERFACES_MAX,
        packet,
        rights::{self, Packet},
    },
    options::{self, NETLINK_CAP_ACK, NETLINK_NO_ENOBUFS},
    port,
};
use crate::call::{Call, cost};

/// Bytes of a message's header.
pub const HEADER_LEN: usize = 16;
/// Those of an error: its header, the error, and the header of what was asked.
pub const ERROR_LEN: usize = HEADER_LEN + 4 + HEADER_LEN;
const ALIGN: usize = 4;
/// Bytes of an attribute's header.
const ATTRIBUTE_LEN: usize = 4;
/// Bits of an attribute's kind that are not flags.
const KIND_BITS: u16 = 0x3fff;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Something is asked.
pub const NLM_F_REQUEST: u16 = 1;
/// More messages follow, up to one that says that they have ended.
const NLM_F_MULTI: u16 = 2;
/// Success is told, too.
pub const NLM_F_ACK: u16 = 4;
/// Of a dump: not all is told.
const NLM_F_DUMP_FILTERED: u16 = 0x20;
/// Of an error: it repeats only the header of what was asked.
const NLM_F_CAPPED: u16 = 0x100;

/// Who has sent an answer: the kernel.
const KERNEL: [u32; 3] = [0; 3];
/// Bytes of the longest answer, of which all are known: it is about all interfaces.
const REPLY_MAX: usize = 640 * INTERFACES_MAX;

/// Bytes of a packet.
pub struct Bytes<'a, 'c, M: Machine> {
    call: &'a Call<'c, M>,
    packet: &'static PacketRecord,
    at: usize,
    len: usize,
}

impl<M: Machine> Clone for Bytes<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Bytes<'_, '_, M> {}

impl<'a, 'c, M: Machine> Bytes<'a, 'c, M> {
    /// All of one.
    pub fn of(call: &'a Call<'c, M>, packet: &Packet<M>) -> Self {
        Self { call, packet: packet.record(), at: 0, len: packet.record().len.get() as usize }
    }

    pub fn call(&self) -> &'a Call<'c, M> {
        self.call
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Some of them, from one on; `None`: there are not so many.
    pub fn get<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        if at.checked_add(N)? > self.len {
            return None;
        }
        let mut done = 0;
        while done < N {
            let (from, here) = piece(self.call.cpu, self.packet, self.at + at + done);
            let here = here.min(N - done);
            if here == 0 {
                return None;
            }
            self.call.cpu.pool.read(from, &mut bytes[done..done + here]);
            done += here;
        }
        Some(bytes)
    }

    /// A word of them.
    pub fn word(&self, at: usize) -> Option<u32> {
        self.get(at).map(u32::from_le_bytes)
    }

    /// A part of them, as far as it is there.
    pub fn part(&self, at: usize, len: usize) -> Self {
        let at = at.min(self.len);
        Self { at: self.at + at, len: len.min(self.len - at), ..*self }
    }

    /// Shows the attributes that begin at a place. What is none ends them.
    ///
    /// # Errors
    /// Those of `each`; `EINVAL`: they end so, and `strict` forbids that.
    pub fn attributes(
        &self,
        from: usize,
        strict: bool,
        mut each: impl FnMut(u16, Self) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut at = from;
        while at < self.len {
            let header = self.get::<ATTRIBUTE_LEN>(at).map(|[low, high, kind @ ..]| {
                (usize::from(u16::from_le_bytes([low, high])), u16::from_le_bytes(kind) & KIND_BITS)
            });
            match header.filter(|(len, _)| (ATTRIBUTE_LEN..=self.len - at).contains(len)) {
                Some((len, kind)) => {
                    each(kind, self.part(at + ATTRIBUTE_LEN, len - ATTRIBUTE_LEN))?;
                    at += len.next_multiple_of(ALIGN);
                }
                None if strict => return Err(Errno::EINVAL),
                None => break,
            }
            self.call.serve_due(cost::OBJECT);
        }
        Ok(())
    }
}

/// What is asked by a message.
pub struct Request<'a, 'c, M: Machine> {
    /// What it is about (`RTM_*` or `NLMSG_*`).
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    sequence: u32,
    header: [u8; HEADER_LEN],
    /// What follows the header.
    pub body: Bytes<'a, 'c, M>,
}

impl<'a, 'c, M: Machine> Request<'a, 'c, M> {
    /// The first one of some bytes, and the bytes behind it. `None`: these are no message.
    pub fn first(bytes: Bytes<'a, 'c, M>) -> Option<(Self, Bytes<'a, 'c, M>)> {
        let header = bytes.get::<HEADER_LEN>(0)?;
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|index| header[at + index]));
        let len = word(0) as usize;
        if len < HEADER_LEN || len > bytes.len() {
            return None;
        }
        let body = bytes.part(HEADER_LEN, len - HEADER_LEN);
        let behind = bytes.part(len.next_multiple_of(ALIGN), usize::MAX);
        Some((Self { kind: half(4), flags: half(6), sequence: word(8), header, body }, behind))
    }

    /// Tells that it has failed, with what was asked, or that it has not (`None`).
    pub fn tell_error(&self, socket: &SocketRecord, error: Option<Errno>) {
        let (call, is_capped) = (self.body.call, error.is_none() || options::is_on(socket, NETLINK_CAP_ACK));
        let repeated = if is_capped { 0 } else { self.body.len };
        let mut bytes = [0; ERROR_LEN];
        let flags = if is_capped { NLM_F_CAPPED } else { 0 };
        let len = ERROR_LEN + repeated.next_multiple_of(ALIGN);
        write_header(&mut bytes, len, (NLMSG_ERROR, flags), self.sequence, port::of(socket));
        let error = error.map_or(0, |errno| -(errno as i32));
        bytes[HEADER_LEN..][..4].copy_from_slice(&error.to_le_bytes());
        bytes[HEADER_LEN + 4..].copy_from_slice(&self.header);
        deliver(call, socket, len, |to| {
            write(call, to, 0, &bytes);
            write(call, to, ERROR_LEN + repeated, &[0; ALIGN][..len - ERROR_LEN - repeated]);
            let mut done = 0;
            while done < repeated {
                let (from, here) = piece(call.cpu, self.body.packet, self.body.at + done);
                let (to, room) = piece(call.cpu, to, ERROR_LEN + done);
                let here = here.min(room).min(repeated - done);
                if here == 0 {
                    break;
                }
                call.cpu.pool.copy(from, to, here);
                done += here;
                call.serve_due(cost::PAGE + cost::bytes(here as u64));
            }
        });
    }
}

/// What is asked for.
pub struct Asked<'a, 'c, M: Machine> {
    /// What it begins with, and attributes.
    pub body: Bytes<'a, 'c, M>,
    /// `AF_*`, 0: all.
    pub family: u8,
    /// Whether it says what it wants, and nothing unknown (`NETLINK_GET_STRICT_CHK`).
    pub strict: bool,
}

impl<M: Machine> Asked<'_, '_, M> {
    /// What it begins with. `None`: less, as that of all questions may be.
    ///
    /// # Errors
    /// `EINVAL`: less, and that is not allowed.
    pub fn header<const N: usize>(&self) -> Result<Option<[u8; N]>, Errno> {
        match self.body.get(0) {
            None if self.strict => Err(Errno::EINVAL),
            header => Ok(header),
        }
    }
}

fn write_header(into: &mut [u8], len: usize, (kind, flags): (u16, u16), sequence: u32, port: u32) {
    into[..4].copy_from_slice(&(len as u32).to_le_bytes());
    into[4..6].copy_from_slice(&kind.to_le_bytes());
    into[6..8].copy_from_slice(&flags.to_le_bytes());
    into[8..12].copy_from_slice(&sequence.to_le_bytes());
    into[12..HEADER_LEN].copy_from_slice(&port.to_le_bytes());
}

/// Writes bytes of a packet, from one on.
fn write<M: Machine>(call: &Call<M>, packet: &'static PacketRecord, at: usize, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let (to, room) = piece(call.cpu, packet, at + done);
        let here = room.min(bytes.len() - done);
        if here == 0 {
            break;
        }
        call.cpu.pool.write(to, &bytes[done..done + here]);
        done += here;
    }
}

/// Puts a packet with so many bytes, which `fill` writes, into a socket's queue. If there is no room or no memory, it is lost, and the socket is told.
fn deliver<M: Machine>(call: &Call<M>, socket: &SocketRecord, len: usize, fill: impl FnOnce(&'static PacketRecord)) {
    let cpu = call.cpu;
    let Some(queue) = packet::queue(cpu, socket) else { return };
    let limits = Limits { from: 0, cost: socket.buffers[1].get(), packets: u32::MAX, by_writer: false };
    // Without room, nothing is made.
    let has_room = motet_protocol::pipe::packet::has_room(queue, limits);
    let packet = if has_room { Packet::new(cpu).ok() } else { None };
    let is_there = packet.is_some_and(|packet| {
        if make_room(cpu, packet.record(), len).is_err() {
            return false;
        }
        fill(packet.record());
        packet.set_sender(KERNEL);
        let is_pushed = rights::push(cpu, queue, &packet, limits) == Ok(true);
        if is_pushed {
            let _ = packet.release();
        }
        is_pushed
    });
    if !is_there && !options::is_on(socket, NETLINK_NO_ENOBUFS) {
        socket.error.store(Errno::ENOBUFS as u32, Ordering::Release);
        wait::wake(cpu, &queue.read_waiters);
    }
}

/// Messages that answer a request.
pub struct Reply {
    bytes: [u8; REPLY_MAX],
    len: usize,
    /// Where the one begins that is being written.
    begin: usize,
    flags: u16,
    sequence: u32,
    port: u32,
}

impl Reply {
    /// None yet, to a request of a socket. There may be several, of a dump.
    pub fn new<M: Machine>(request: &Request<M>, socket: &SocketRecord, is_dump: bool) -> Self {
        let flags = if is_dump { NLM_F_MULTI } else { 0 };
        let (sequence, port) = (request.sequence, port::of(socket));
        Self { bytes: [0; REPLY_MAX], len: 0, begin: 0, flags, sequence, port }
    }

    /// Not all is told.
    pub fn is_filtered(&mut self) {
        self.flags |= NLM_F_DUMP_FILTERED;
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len().next_multiple_of(ALIGN);
        debug_assert!(end <= REPLY_MAX, "an answer of more than {REPLY_MAX} bytes");
        if end <= REPLY_MAX {
            self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
            self.len = end;
        }
    }

    /// A message of a kind, with what it begins with.
    pub fn message(&mut self, kind: u16, told: &[u8]) {
        self.begin = self.len;
        self.put(&[0; HEADER_LEN]);
        self.put(told);
        self.measure(kind);
    }

    fn measure(&mut self, kind: u16) {
        let len = self.len - self.begin;
        write_header(&mut self.bytes[self.begin..], len, (kind, self.flags), self.sequence, self.port);
    }

    /// An attribute of this message.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        let len = (ATTRIBUTE_LEN + value.len()) as u16;
        let [low, high] = len.to_le_bytes();
        let [kind_low, kind_high] = kind.to_le_bytes();
        self.put(&[low, high, kind_low, kind_high]);
        self.put(value);
        let len = (self.len - self.begin) as u32;
        self.bytes[self.begin..][..4].copy_from_slice(&len.to_le_bytes());
    }

    /// The same, of a word.
    pub fn word(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_le_bytes());
    }

    /// The end of a dump, and why it has ended sooner.
    pub fn done(&mut self, told: Result<(), Errno>) {
        let error = told.err().map_or(0, |errno| -(errno as i32));
        self.message(NLMSG_DONE, &error.to_le_bytes());
    }

    /// Puts it into the socket's queue.
    pub fn deliver<M: Machine>(&self, call: &Call<M>, socket: &SocketRecord) {
        deliver(call, socket, self.len, |packet| write(call, packet, 0, &self.bytes[..self.len]));
    }
}
