//! Sockets: what all families have. A family ([`family::Family`]) is a type in a file of its own; [`families`] has the list of them: [`unix`], [`inet`] (of IPv4 and of IPv6) and [`netlink`].

mod calls;
mod connection;
mod control;
mod credentials;
mod families;
mod family;
mod flags;
mod inet;
pub mod interface;
pub mod listed;
mod listening;
mod message;
mod name;
mod netlink;
mod options;
mod packet;
mod rights;
mod route;
mod stream;
mod unix;

use core::fmt::{self, Write};

use motet_layout::sync::{AtomicU32, Ordering};

use motet_abi::{
    Errno,
    file::*,
    terminal::{FIONREAD, POLLWRBAND},
};
use motet_hal::Machine;
use motet_layout::{CoreId, FILE_SOCKET, FileRecord, ISLAND_RECLAIMING, InodeRecord, IslandId, SocketRecord, in_order};
use motet_protocol::{
    Context,
    lock::lock,
    slab::{self, SlabObject},
};

use super::descriptor::{description::OpenFile, table};
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::{
        self, Parts,
        kind::{Attributes, Facts, Kind, OUTPUT, Outlet, Queues, Transfer, answer_ioctl},
    },
};

pub use inet::gateway;

pub use calls::{accept, accept4, bind, connect, getpeername, getsockname, listen, shutdown, socket, socketpair};
pub use message::{messages_done, recvfrom, recvmmsg, recvmsg, sendmmsg, sendmsg, sendto};
pub use options::{getsockopt, setsockopt};
pub use rights::recover as recover_rights;

use control::Said;
use family::{Address, Received, Receiving, Sending};
use listed::Row;

/// [`SocketRecord::shut`]: it reads no more.
const SHUT_READ: u32 = 1;
/// [`SocketRecord::shut`]: it writes no more.
const SHUT_WRITE: u32 = 2;
/// [`SocketRecord::shut`]: it reads what has come, and its peer may go on.
const READS_NO_MORE: u32 = 4;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_RAW: u32 = 3;
const SOCK_SEQPACKET: u32 = 5;
/// What a socket that can be written to is ready for.
const OUTPUT_AND_BAND: u16 = OUTPUT | POLLWRBAND;

/// The socket of a descriptor.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`.
fn get<'c, M: Machine>(call: &Call<'c, M>, fd: u64) -> Result<(OpenFile<'c, M>, &'static SocketRecord), Errno> {
    let file = table::get(call, fd as i32)?;
    let Socket(socket) = file.as_kind().ok_or(Errno::ENOTSOCK)?;
    Ok((file, socket))
}

/// Gives a socket a descriptor.
///
/// # Errors
/// `ENFILE`, `EMFILE`; the socket is closed.
fn open<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, flags: u32) -> Result<u64, Errno> {
    let parts = Parts { kind: FILE_SOCKET, flags: O_RDWR | flags, inode: None, object: call.cpu.raw(socket) };
    match description::create(call.cpu, &parts) {
        Ok(record) => {
            socket.file.set(call.cpu.raw(record));
            in_order();
            socket.acceptor.store(0, Ordering::Release); // the file has it
            table::install(call, record, flags & O_CLOEXEC != 0, 0)
        }
        Err(errno) => {
            families::close(call.cpu, socket);
            Err(errno)
        }
    }
}

/// Repairs a socket whose lock a dead core held and this one has now: the forward links say which connections wait to be accepted.
pub fn recover<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) {
    let (mut last, mut count) = (0, 0);
    let mut at = cpu.object::<SocketRecord>(socket.pending[0].get());
    while let Some(pending) = at {
        last = cpu.raw(pending);
        count += 1;
        at = cpu.object(pending.next.get());
    }
    socket.pending[1].set(last);
    socket.pending_count.set(count);
}

/// Leaves those connections to their listeners that dead cores were accepting, and that still wait, and packets to their queues. Every core that lives has passed
/// since. Whatever has a listener in hand has it still.
pub fn settle_the_dead<M: Machine>(cpu: &Cpu<M>) {
    for socket in accepted_by_dead(cpu) {
        let Some(listener) = cpu.object::<SocketRecord>(socket.listener.get()) else { continue };
        // With it, the list is repaired if the dead core had it.
        let _guard = lock(cpu, &listener.lock);
        if listening::pending(cpu, listener).any(|pending| core::ptr::eq(pending, socket)) {
            socket.acceptor.store(0, Ordering::Release);
        }
    }
    rights::settle(cpu);
}

/// Closes connections that dead cores had accepted, and for which nobody has a file: those that [wait](settle_the_dead) are left to their
/// listeners, and the files that dead cores had in hand are closed, with their sockets. And frees packets that nobody has.
pub fn close_of_the_dead<M: Machine>(cpu: &Cpu<M>) {
    accepted_by_dead(cpu).for_each(|socket| families::close(cpu, socket));
    rights::free_of_the_dead(cpu);
}

/// Sockets of which cores say that they are accepting them, of islands that are being reclaimed.
fn accepted_by_dead<M: Machine>(cpu: &Cpu<M>) -> impl Iterator<Item = &'static SocketRecord> {
    let state_of = |island: IslandId| cpu.pool.header().islands[island.index()].state.load(Ordering::Acquire);
    slab::all::<SocketRecord>(cpu).filter(move |socket| {
        let acceptor = socket.acceptor.load(Ordering::Acquire).checked_sub(1).and_then(CoreId::from_raw);
        acceptor.is_some_and(|core| state_of(core.island()) == ISLAND_RECLAIMING)
    })
}

/// How many sockets there are, accepted or not.
pub fn count<M: Machine>(cpu: &Cpu<M>) -> u32 {
    cpu.pool.header().slabs[SocketRecord::CLASS].in_use.get()
}

/// What is told of the next socket that is wanted, from a place on (0: of the first one), if one is near; and the place to go on from, `None`: there are no more.
pub fn next_listed<M: Machine>(cpu: &Cpu<M>, from: u64, wanted: impl Fn(&Row) -> bool) -> (Option<Row>, Option<u64>) {
    slab::look_from(cpu, from, |socket| families::listed(cpu, socket).filter(&wanted))
}

/// Whether a call must not wait, or not any longer: as its file or its flags say (`nonblocking`), or because the socket's time for that is over.
fn waits_no_more<M: Machine>(call: &Call<M>, nonblocking: bool, timeout_ns: u64) -> bool {
    if nonblocking || timeout_ns == 0 || call.timed_out() {
        return nonblocking || timeout_ns != 0;
    }
    if call.thread.deadline_ns.get() == 0 {
        call.thread.deadline_ns.set(call.cpu.reading_ns().saturating_add(timeout_ns));
    }
    false
}

/// A socket.
#[derive(Clone, Copy)]
pub struct Socket(&'static SocketRecord);

impl Kind for Socket {
    const CODES: &'static [u32] = &[FILE_SOCKET];
    const FACTS: Facts = Facts {
        mode: S_IFSOCK | 0o777,
        file_system: SOCKFS_MAGIC,
        supports_nowait: true,
        has_signals: true,
        ..Facts::ANONYMOUS
    };

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "socket:[{number}]")
    }

    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        // Unlike a call that receives, it takes no packet then.
        if into.remaining() == 0 {
            return Ok(0);
        }
        let how = Receiving { nonblocking: how.nonblocking(), flags: 0 };
        families::receive(call, self.0, how, into, &mut Received::nothing())
    }

    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        let nonblocking = how.nonblocking();
        let (address, said) = (&Address::NONE, Said::default());
        let how = Sending { nonblocking, flags: 0, address, credentials: None, said, files: None };
        families::send(call, self.0, how, from)
    }

    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        families::readiness(call.cpu, self.0)
    }

    fn queues<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        families::queues(cpu, self.0)
    }

    fn wanted_room(self) -> Option<&'static AtomicU32> {
        Some(&self.0.wanted_room)
    }

    fn arrivals<M: Machine>(self, cpu: &Cpu<M>) -> [Option<u64>; 2] {
        families::arrivals(cpu, self.0)
    }

    fn ioctl<M: Machine>(
        self,
        call: &Call<M>,
        file: &FileRecord,
        (request, argument): (u32, u64),
        _memory: impl FnOnce(i32, (u64, u64)) -> Result<&'static InodeRecord, Errno>,
    ) -> SysResult {
        let asked = (request, argument);
        match request {
            FIONREAD => answer_ioctl(self, call, file, asked),
            _ => interface::ioctl(call, asked).unwrap_or_else(|| families::ioctl(call, self.0, asked)),
        }
    }

    fn bytes_ready<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord) -> Result<u64, Errno> {
        families::bytes_ready(cpu, self.0)
    }

    fn attributes(self, file: &'static FileRecord) -> Option<Attributes> {
        Some(Attributes { mode: &file.of_kind[0], owner: [&file.uid, &file.gid] })
    }

    fn outlet<M: Machine>(self, call: &Call<M>) -> Result<Outlet, Errno> {
        families::outlet(call, self.0)
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        families::end(cpu, self.0);
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        families::close(cpu, self.0);
    }
}
