//! Sockets between programs of this machine (`AF_UNIX`), as streams.
//!
//! A connection is two pipes. A socket reads from one and writes to the other; its descriptor's file has the socket's record,
//! which holds references to both. A listening socket holds the sockets of connections that have not been accepted yet.
//! Bound sockets are in one tree (`motet_protocol::bound`), by the inode of their name, or by the name itself if it is abstract (unix(7)).
//!
//! Locks: the header's `socket_lock` (for the tree of bound sockets), then a socket's.

mod calls;
mod message;

use core::fmt::{self, Write};

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*, signal::SIGPIPE, terminal::*};
use motet_hal::Machine;
use motet_layout::{
    CoreId, FILE_SOCKET, FileRecord, ISLAND_RECLAIMING, InodeRecord, IslandId, PipeRecord, PoolAddr, RESET_IS,
    RESET_NOT, RESET_TOLD, SOCKET_CONNECTED, SOCKET_LISTENING, SocketRecord, in_order,
};
use motet_protocol::{Context, bound, fs, lock::lock, pipe, slab, wait};

use super::{
    description::OpenFile,
    pipe::{peek_pipe, read_pipe, read_pipe_full, write_pipe},
    table,
};
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::{
        self, Parts,
        kind::{Facts, INPUT, Kind, OUTPUT, Outlet, Queues, Transfer, if_so},
    },
    signal,
};

pub use calls::{accept, accept4, bind, connect, getpeername, getsockname, listen, shutdown, socket, socketpair};
pub use message::{getsockopt, recvfrom, recvmsg, sendmsg, sendto, setsockopt};

/// [`SocketRecord::shut`]: it reads no more.
const SHUT_READ: u32 = 1;
/// [`SocketRecord::shut`]: it writes no more.
const SHUT_WRITE: u32 = 2;

/// The pipes of a connected socket: what it reads from and what it writes to.
fn pipes<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<[&'static PipeRecord; 2]> {
    if socket.state.load(Ordering::Acquire) != SOCKET_CONNECTED {
        return None;
    }
    own_pipes(cpu, socket)
}

/// The same, though it may not be connected: a core that was connecting it has died, or is this one.
fn own_pipes<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<[&'static PipeRecord; 2]> {
    if socket.outgoing.load(Ordering::Acquire) == 0 {
        return None;
    }
    Some([&socket.incoming, &socket.outgoing].map(|pipe| cpu.pool.at(PoolAddr(pipe.load(Ordering::Relaxed)))))
}

/// The socket of a descriptor.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`.
fn get<'c, M: Machine>(call: &Call<'c, M>, fd: u64) -> Result<(OpenFile<'c, M>, &'static SocketRecord), Errno> {
    let file = table::get(call, fd as i32)?;
    let Socket(socket) = file.as_kind().ok_or(Errno::ENOTSOCK)?;
    Ok((file, socket))
}

/// The pipe that a connected socket writes to.
///
/// # Errors
/// `ENOTCONN`; `EPIPE`: it writes no more.
fn outgoing<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Result<&'static PipeRecord, Errno> {
    let [_, outgoing] = pipes(cpu, socket).ok_or(Errno::ENOTCONN)?;
    if socket.shut.load(Ordering::Acquire) & SHUT_WRITE == 0 { Ok(outgoing) } else { Err(Errno::EPIPE) }
}

/// Gives a socket a descriptor.
///
/// # Errors
/// `ENFILE`, `EMFILE`; the socket is closed.
fn open<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, flags: u32) -> Result<u64, Errno> {
    let parts = Parts { kind: FILE_SOCKET, flags: O_RDWR | flags, inode: None, object: call.cpu.raw(socket) };
    match description::create(call.cpu, &parts) {
        Ok(record) => {
            socket.acceptor.store(0, Ordering::Relaxed); // the file has it
            table::install(call, record, flags & O_CLOEXEC != 0, 0)
        }
        Err(errno) => {
            close(call.cpu, socket);
            Err(errno)
        }
    }
}

/// Gives two sockets that nobody else knows yet, or whose locks are held, what connects them. They are not [connected](set_connected) yet.
///
/// # Errors
/// `ENOMEM`.
fn connect_pair<M: Machine>(cpu: &Cpu<M>, one: &SocketRecord, two: &SocketRecord) -> Result<(), Errno> {
    let there = pipe::create(cpu).ok_or(Errno::ENOMEM)?;
    let Some(back) = pipe::create(cpu) else {
        pipe::put(cpu, there);
        return Err(Errno::ENOMEM);
    };
    for pipe in [there, back] {
        pipe.refs.fetch_add(1, Ordering::Relaxed); // each of the two has it, whichever of its ends are open
    }
    for (socket, incoming, outgoing) in [(one, back, there), (two, there, back)] {
        socket.shut.store(SHUT_READ | SHUT_WRITE, Ordering::Relaxed);
        pipe::open(cpu, incoming, pipe::READER, &socket.shut);
        pipe::open(cpu, outgoing, pipe::WRITER, &socket.shut);
        socket.incoming.store(cpu.raw(incoming), Ordering::Relaxed);
        socket.outgoing.store(cpu.raw(outgoing), Ordering::Relaxed);
    }
    Ok(())
}

/// From now on a socket is one of a [pair](connect_pair).
fn set_connected(socket: &SocketRecord) {
    in_order();
    socket.state.store(SOCKET_CONNECTED, Ordering::Release);
}

/// Ends directions of a connection (`SHUT_*`), as far as this socket has not.
fn shut<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, [incoming, outgoing]: [&'static PipeRecord; 2], how: u32) {
    if pipe::close(cpu, incoming, how & SHUT_READ, &socket.shut) != 0 {
        wait::wake(cpu, &incoming.read_waiters);
        pipe::put(cpu, incoming);
    }
    if pipe::close(cpu, outgoing, how & SHUT_WRITE, &socket.shut) != 0 {
        wait::wake(cpu, &outgoing.write_waiters);
        pipe::put(cpu, outgoing);
    }
}

/// Ends a socket whose last descriptor was closed: nobody finds it any more, and its peer is told. May be done twice.
fn end<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    unbind(cpu, socket);
    let listens = socket.state.load(Ordering::Acquire) == SOCKET_LISTENING;
    let first = if listens { cpu.object(socket.pending[0].get()) } else { None };
    let pending = core::iter::successors(first, |pending: &&SocketRecord| cpu.object(pending.next.get()));
    for ended in core::iter::once(socket).chain(pending) {
        if let Some(pipes) = own_pipes(cpu, ended) {
            let [incoming, outgoing] = pipes;
            // Whoever has connected to what was never accepted is told, too.
            if pipe::used(incoming) > 0 || !core::ptr::eq(ended, socket) {
                // Once: it may have been told already.
                let _ = outgoing.reset.compare_exchange(RESET_NOT, RESET_IS, Ordering::AcqRel, Ordering::Relaxed);
            }
            shut(cpu, ended, pipes, SHUT_READ | SHUT_WRITE);
        }
    }
}

/// Whether the peer has closed the connection and not read all that was sent to it (`ECONNRESET`). It is said once.
fn take_reset<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> bool {
    let is_reset = |[incoming, _]: [&'static PipeRecord; 2]| {
        let reset = &incoming.reset;
        reset.load(Ordering::Acquire) == RESET_IS
            && reset.compare_exchange(RESET_IS, RESET_TOLD, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    pipes(cpu, socket).is_some_and(is_reset)
}

/// Frees a socket (which has ended, if it had a descriptor), and the connections that it had not accepted.
pub fn close<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    end(cpu, socket);
    socket.acceptor.store(0, Ordering::Relaxed); // from here on nobody else closes it
    if let Some(pipes) = own_pipes(cpu, socket) {
        pipes.into_iter().for_each(|pipe| pipe::put(cpu, pipe));
    }
    // Nobody finds it any more to add to these.
    while let Some(pending) = take_pending(cpu, socket) {
        close(cpu, pending);
    }
    wait::wake(cpu, &cpu.pool.header().socket_waiters);
    // Nodes of threads that still wait must not stay linked in memory that becomes another socket.
    wait::wake(cpu, &socket.acceptors);
    slab::free(cpu, socket);
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

/// Leaves those connections to their listeners that dead cores were accepting, and that still wait. Every core that lives has passed since.
/// Whatever has a listener in hand has it still.
pub fn settle_accepted<M: Machine>(cpu: &Cpu<M>) {
    for socket in accepted_by_dead(cpu) {
        let Some(listener) = cpu.object::<SocketRecord>(socket.listener.get()) else { continue };
        // With it, the list is repaired if the dead core had it.
        let _guard = lock(cpu, &listener.lock);
        let first = cpu.object::<SocketRecord>(listener.pending[0].get());
        let mut pending = core::iter::successors(first, |pending| cpu.object(pending.next.get()));
        if pending.any(|pending| core::ptr::eq(pending, socket)) {
            socket.acceptor.store(0, Ordering::Release);
        }
    }
}

/// Closes connections that dead cores had accepted, and for which nobody has a file: those that [wait](settle_accepted) are left to their
/// listeners, and the files that dead cores had in hand are closed, with their sockets.
pub fn close_accepted<M: Machine>(cpu: &Cpu<M>) {
    accepted_by_dead(cpu).for_each(|socket| close(cpu, socket));
}

/// Sockets of which cores say that they are accepting them, of islands that are being reclaimed.
fn accepted_by_dead<M: Machine>(cpu: &Cpu<M>) -> impl Iterator<Item = &'static SocketRecord> {
    let state_of = |island: IslandId| cpu.pool.header().islands[island.index()].state.load(Ordering::Acquire);
    slab::all::<SocketRecord>(cpu).filter(move |socket| {
        let acceptor = socket.acceptor.load(Ordering::Acquire).checked_sub(1).and_then(CoreId::from_raw);
        acceptor.is_some_and(|core| state_of(core.island()) == ISLAND_RECLAIMING)
    })
}

/// The first socket that was connected to this one and has not been accepted. Until it has a file, it says that this core has it.
fn take_pending<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<&'static SocketRecord> {
    let _guard = lock(cpu, &socket.lock);
    let first = cpu.object::<SocketRecord>(socket.pending[0].get())?;
    first.acceptor.store(u32::from(cpu.id.0) + 1, Ordering::Relaxed);
    in_order();
    socket.pending[0].set(first.next.get());
    in_order();
    if first.next.get() == 0 {
        socket.pending[1].set(0);
    }
    socket.pending_count.set(socket.pending_count.get() - 1);
    Some(first)
}

fn unbind<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
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

/// How much of what has come is received.
#[derive(Clone, Copy)]
enum Amount {
    /// What there is.
    Some,
    /// As much as there is room for, if nothing ends the stream before.
    Full,
    /// What there is, which the next one receives again.
    Peek,
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
        // Nobody is told by a signal.
        refused_flags: O_ASYNC,
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
        receive(call, self.0, how.nonblocking(), Amount::Some, into)
    }

    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        write(call, self.0, how.nonblocking(), true, from)
    }

    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        readiness(call.cpu, self.0)
    }

    /// Those who wait to read or accept, and to write.
    fn queues<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        match pipes(cpu, self.0) {
            Some([incoming, outgoing]) => {
                [(Some(&incoming.read_waiters), u16::MAX), (Some(&outgoing.write_waiters), OUTPUT)]
            }
            None => [(Some(&self.0.acceptors), u16::MAX), (None, OUTPUT)],
        }
    }

    fn arrivals<M: Machine>(self, cpu: &Cpu<M>) -> [Option<u64>; 2] {
        let pipes = pipes(cpu, self.0);
        pipes.map_or([None; 2], |[incoming, outgoing]| {
            [Some(pipe::arrivals(incoming)[0]), Some(pipe::arrivals(outgoing)[1])]
        })
    }

    fn bytes_ready<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord) -> Result<u64, Errno> {
        Ok(pipes(cpu, self.0).map_or(0, |[incoming, _]| pipe::used(incoming) as u64))
    }

    fn outlet<M: Machine>(self, call: &Call<M>) -> Result<Outlet, Errno> {
        let outgoing = outgoing(call.cpu, self.0).inspect_err(|&errno| {
            if errno == Errno::EPIPE {
                signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
            }
        });
        outgoing.map(Outlet::Pipe)
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        end(cpu, self.0);
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        close(cpu, self.0);
    }
}

/// Receives from a connection.
fn receive<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    nonblocking: bool,
    amount: Amount,
    into: &mut Cursor<M>,
) -> SysResult {
    let [incoming, _] = pipes(call.cpu, socket).ok_or(Errno::EINVAL)?;
    let nonblocking = waits_no_more(call, nonblocking, socket.timeouts_ns[0].get());
    let received = if socket.shut.load(Ordering::Acquire) & SHUT_READ != 0 && pipe::used(incoming) == 0 {
        Ok(call.thread.progress.get())
    } else {
        match amount {
            Amount::Peek => peek_pipe(call, incoming, nonblocking, into),
            Amount::Full if !nonblocking => read_pipe_full(call, incoming, into),
            Amount::Full | Amount::Some => read_pipe(call, incoming, nonblocking, into),
        }
    };
    let is_end = received == Ok(0) && pipe::used(incoming) == 0;
    if is_end && take_reset(call.cpu, socket) { Err(Errno::ECONNRESET.into()) } else { received }
}

/// Writes to a connection. `signals`: whether the thread gets `SIGPIPE` when nobody reads any more.
fn write<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    nonblocking: bool,
    signals: bool,
    from: &mut Cursor<M>,
) -> SysResult {
    let outgoing = outgoing(call.cpu, socket).inspect_err(|&errno| {
        if signals && errno == Errno::EPIPE {
            signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
        }
    })?;
    if from.remaining() == 0 && outgoing.readers.load(Ordering::Acquire) == 0 {
        // Unlike a pipe, it says so also when there is nothing to write.
        if signals {
            signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
        }
        return Err(Errno::EPIPE.into());
    }
    let nonblocking = waits_no_more(call, nonblocking, socket.timeouts_ns[1].get());
    write_pipe(call, outgoing, nonblocking, signals, from)
}

/// The events (`POLL*`) for which a socket is ready.
fn readiness<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> u16 {
    const OUTPUT_AND_BAND: u16 = OUTPUT | POLLWRBAND;
    let Some([incoming, outgoing]) = pipes(cpu, socket) else {
        return match socket.state.load(Ordering::Acquire) {
            SOCKET_LISTENING => {
                let shut = socket.shut.load(Ordering::Acquire);
                if_so(socket.pending[0].get() != 0 || shut & SHUT_READ != 0, INPUT)
                    | if_so(shut & SHUT_READ != 0, POLLRDHUP)
                    | if_so(shut & (SHUT_READ | SHUT_WRITE) == SHUT_READ | SHUT_WRITE, POLLHUP)
            }
            _ => OUTPUT_AND_BAND | POLLHUP,
        };
    };
    let shut = socket.shut.load(Ordering::Acquire);
    let (input, output) = (pipe::readiness(incoming), pipe::readiness(outgoing));
    let no_more = input.no_writer || shut & SHUT_READ != 0;
    let hung_up = no_more && (output.no_reader || shut & SHUT_WRITE != 0);
    let is_reset = incoming.reset.load(Ordering::Acquire) == RESET_IS;
    if_so(input.readable || no_more, INPUT)
        | if_so(is_reset, POLLERR)
        | if_so(no_more, POLLRDHUP)
        | if_so(hung_up, POLLHUP)
        | if_so(output.writable || output.no_reader, OUTPUT_AND_BAND)
}
