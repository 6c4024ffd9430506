//! Sockets between programs of this machine (`AF_UNIX`), as streams.
//!
//! A connection is two pipes. A socket reads from one and writes to the other; its descriptor's file has the socket's record,
//! which holds references to both. A socket that listens holds those that have been connected to and not been accepted.
//! What is bound is in one list, by the inode of its name, or by the name itself if that is abstract (unix(7)).
//!
//! Locks: the header's `socket_lock` (what is bound), then a socket's.

mod calls;
mod message;

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*, signal::SIGPIPE, terminal::*};
use motet_hal::Machine;
use motet_layout::{
    FILE_SOCKET, InodeRecord, PipeRecord, PoolAddr, SOCKET_CONNECTED, SOCKET_LISTENING, SocketRecord, WaitQueue,
};
use motet_protocol::{Context, fs, lock::lock, pipe, slab, wait};

use super::{
    cursor::Cursor,
    description::{self, Anonymous, Kind, OpenFile, Parts},
    rw, table,
};
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
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
    Some([&socket.incoming, &socket.outgoing].map(|pipe| cpu.pool.at(PoolAddr(pipe.load(Ordering::Relaxed)))))
}

/// The socket of a descriptor.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`.
fn get<'c, M: Machine>(call: &Call<'c, M>, fd: u64) -> Result<(OpenFile<'c, M>, &'static SocketRecord), Errno> {
    let file = table::get(call, fd as i32)?;
    match file.kind() {
        Kind::Anonymous(Anonymous::Socket(socket)) => Ok((file, socket)),
        Kind::Inode(_) | Kind::Pipe(_) | Kind::Device(_) | Kind::Proc(_) | Kind::Anonymous(_) => Err(Errno::ENOTSOCK),
    }
}

/// Gives a socket a descriptor.
///
/// # Errors
/// `ENFILE`, `EMFILE`; the socket is closed.
fn open<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, flags: u32) -> Result<u64, Errno> {
    let parts = Parts { kind: FILE_SOCKET, flags: O_RDWR | flags, inode: None, object: call.cpu.raw(socket) };
    match description::create(call.cpu, &parts) {
        Ok(record) => table::install(call, record, flags & O_CLOEXEC != 0, 0),
        Err(errno) => {
            close(call.cpu, socket);
            Err(errno)
        }
    }
}

/// Connects two sockets that nobody else knows yet, or whose locks are held.
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
        pipe::open_reader(cpu, pipe);
        pipe::open_writer(cpu, pipe);
        pipe.refs.fetch_add(1, Ordering::Relaxed); // each of the two has it, whichever of its ends are open
    }
    for (socket, incoming, outgoing) in [(one, back, there), (two, there, back)] {
        socket.incoming.store(cpu.raw(incoming), Ordering::Relaxed);
        socket.outgoing.store(cpu.raw(outgoing), Ordering::Relaxed);
        socket.state.store(SOCKET_CONNECTED, Ordering::Release);
    }
    Ok(())
}

/// Ends directions of a connection (`SHUT_*`), as far as this socket has not.
fn shut<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord, [incoming, outgoing]: [&'static PipeRecord; 2], how: u32) {
    let ended = how & !socket.shut.fetch_or(how, Ordering::SeqCst);
    if ended & SHUT_READ != 0 {
        pipe::close_reader(cpu, incoming);
        wait::wake(cpu, &incoming.read_waiters);
    }
    if ended & SHUT_WRITE != 0 {
        pipe::close_writer(cpu, outgoing);
        wait::wake(cpu, &outgoing.write_waiters);
    }
}

/// The last descriptor of a socket was closed.
pub fn close<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    unbind(cpu, socket);
    if let Some(pipes) = pipes(cpu, socket) {
        shut(cpu, socket, pipes, SHUT_READ | SHUT_WRITE);
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

/// The first socket that was connected to this one and has not been accepted.
fn take_pending<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> Option<&'static SocketRecord> {
    let _guard = lock(cpu, &socket.lock);
    let first = cpu.object::<SocketRecord>(socket.pending[0].get())?;
    socket.pending[0].set(first.next.get());
    if first.next.get() == 0 {
        socket.pending[1].set(0);
    }
    socket.pending_count.set(socket.pending_count.get() - 1);
    Some(first)
}

/// Enters a socket, which is named already, in the list of what is bound.
fn enter_bound<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    let header = cpu.pool.header();
    socket.bound_next.set(header.bound_sockets.get());
    header.bound_sockets.set(cpu.raw(socket));
}

fn bound<M: Machine>(cpu: &Cpu<M>) -> impl Iterator<Item = &'static SocketRecord> {
    let first = cpu.object::<SocketRecord>(cpu.pool.header().bound_sockets.get());
    core::iter::successors(first, |socket| cpu.object(socket.bound_next.get()))
}

fn unbind<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    if socket.is_bound.get() == 0 {
        return;
    }
    {
        let _all = lock(cpu, &cpu.pool.header().socket_lock);
        match bound(cpu).find(|other| other.bound_next.get() == cpu.raw(socket)) {
            Some(before) => before.bound_next.set(socket.bound_next.get()),
            None => cpu.pool.header().bound_sockets.set(socket.bound_next.get()),
        }
    }
    if let Some(inode) = cpu.object::<InodeRecord>(socket.inode.get()) {
        fs::put(cpu, inode);
    }
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

/// Reads from a connection.
pub fn read<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    nonblocking: bool,
    into: &mut Cursor<M>,
) -> SysResult {
    receive(call, socket, nonblocking, Amount::Some, into)
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
    if socket.shut.load(Ordering::Acquire) & SHUT_READ != 0 && pipe::used(incoming) == 0 {
        return Ok(call.thread.progress.get());
    }
    match amount {
        Amount::Peek => rw::peek_pipe(call, incoming, nonblocking, into),
        Amount::Full if !nonblocking => rw::read_pipe_full(call, incoming, into),
        Amount::Full | Amount::Some => rw::read_pipe(call, incoming, nonblocking, into),
    }
}

/// Writes to a connection. `signals`: whether the thread gets `SIGPIPE` when nobody reads any more.
pub fn write<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    nonblocking: bool,
    signals: bool,
    from: &mut Cursor<M>,
) -> SysResult {
    let [_, outgoing] = pipes(call.cpu, socket).ok_or(Errno::ENOTCONN)?;
    if socket.shut.load(Ordering::Acquire) & SHUT_WRITE != 0 {
        if signals {
            signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
        }
        return Err(Errno::EPIPE.into());
    }
    rw::write_pipe(call, outgoing, nonblocking, signals, from)
}

/// What a socket is ready for, of `POLL*`.
pub fn readiness<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> u16 {
    const INPUT: u16 = POLLIN | POLLRDNORM;
    const OUTPUT: u16 = POLLOUT | POLLWRNORM | POLLWRBAND;
    let if_so = |condition, bits| if condition { bits } else { 0 };
    let Some([incoming, outgoing]) = pipes(cpu, socket) else {
        return match socket.state.load(Ordering::Acquire) {
            SOCKET_LISTENING => if_so(socket.pending[0].get() != 0, INPUT),
            _ => OUTPUT | POLLHUP,
        };
    };
    let shut = socket.shut.load(Ordering::Acquire);
    let (input, output) = (pipe::readiness(incoming), pipe::readiness(outgoing));
    let no_more = input.no_writer || shut & SHUT_READ != 0;
    let hung_up = no_more && (output.no_reader || shut & SHUT_WRITE != 0);
    if_so(input.readable || no_more, INPUT)
        | if_so(no_more, POLLRDHUP)
        | if_so(hung_up, POLLHUP)
        | if_so(output.writable || output.no_reader, OUTPUT)
}

/// The queues of those who wait to read or accept, and to write.
pub fn queues<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> [Option<&'static WaitQueue>; 2] {
    match pipes(cpu, socket) {
        Some([incoming, outgoing]) => [Some(&incoming.read_waiters), Some(&outgoing.write_waiters)],
        None => [Some(&socket.acceptors), None],
    }
}

/// Counts that change when something has come to be read, and when room has.
pub fn arrivals<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> [Option<u64>; 2] {
    let pipes = pipes(cpu, socket);
    pipes.map_or([None; 2], |[incoming, outgoing]| {
        [Some(pipe::arrivals(incoming)[0]), Some(pipe::arrivals(outgoing)[1])]
    })
}

/// Bytes that can be read without waiting.
pub fn bytes_ready<M: Machine>(cpu: &Cpu<M>, socket: &SocketRecord) -> u64 {
    pipes(cpu, socket).map_or(0, |[incoming, _]| pipe::used(incoming) as u64)
}
