//! Byte streams between the machine and the host: console input and output, the command's standard streams.
//!
//! One side produces, one consumes; neither waits for the other here. A side that must sleep first stores that
//! ([`producer_waits`], [`consumer_waits`]) and looks once more; the other side rings when its operation tells it to.
//! Inside the machine there are many producers or consumers: each operation takes the stream's lock. The host is alone
//! on its side and may act without it ([`Side::Host`]).

use motet_layout::{
    handshake::then_look,
    sync::{AtomicU32, Ordering},
};

use motet_layout::{HostStream, PoolAddr};

use crate::{
    Context,
    lock::{Guard, lock, try_lock},
};

/// Who acts on a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// A core of the machine: takes the stream's lock.
    Machine,
    /// The host: its side is its own.
    Host,
}

/// How much of its bytes a producer adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All, or nothing when there is no room for all: no other producer's bytes come between them.
    Whole,
    /// As many as there is room for.
    Fitting,
}

/// What an operation moved, and whether the other side sleeps and must be rung.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use = "the other side may have to be rung"]
pub struct Moved {
    /// Bytes moved.
    pub len: usize,
    /// The other side waits for this: ring it.
    pub ring: bool,
}

/// Whether the producer may still add bytes or has added some that were not consumed.
pub fn readable(stream: &HostStream) -> bool {
    used(stream) != 0 || stream.closed.load(Ordering::Acquire) != 0
}

/// Whether so many bytes of a producer are taken now (if only to be discarded).
pub fn writable(stream: &HostStream, len: usize) -> bool {
    room(stream) >= len || stream.gone.load(Ordering::Acquire) != 0
}

/// Bytes produced and not yet consumed.
pub fn used(stream: &HostStream) -> usize {
    let tail = stream.tail.load(Ordering::Acquire);
    (stream.head.load(Ordering::Acquire).wrapping_sub(tail)).min(stream.capacity.get()) as usize
}

/// Bytes that can be produced now.
pub fn room(stream: &HostStream) -> usize {
    stream.capacity.get() as usize - used(stream)
}

/// Produces bytes from a run of pool memory, as [`Part`] says. `memory` says where they are; it is asked again after every
/// wait for the lock.
///
/// # Errors
/// What `memory` fails with.
pub fn produce<E>(
    context: &impl Context,
    stream: &HostStream,
    part: Part,
    memory: impl FnMut() -> Result<(PoolAddr, usize), E>,
) -> Result<Moved, E> {
    let (_guard, run, len) = lock_for(context, stream, memory)?;
    Ok(fill(stream, part, len, |ring, done, here| context.pool().copy(run.add(done as u64), ring, here)))
}

/// Produces bytes from private memory, as [`Part`] says.
pub fn produce_bytes(context: &impl Context, side: Side, stream: &HostStream, part: Part, from: &[u8]) -> Moved {
    let _guard = (side == Side::Machine).then(|| lock(context, &stream.lock));
    fill(stream, part, from.len(), |ring, done, here| context.pool().write(ring, &from[done..done + here]))
}

/// Consumes bytes into a run of pool memory, as many as there are. `memory` as in [`produce`].
///
/// # Errors
/// What `memory` fails with.
pub fn consume<E>(
    context: &impl Context,
    stream: &HostStream,
    memory: impl FnMut() -> Result<(PoolAddr, usize), E>,
) -> Result<Moved, E> {
    let (_guard, run, len) = lock_for(context, stream, memory)?;
    Ok(drain(stream, len, |ring, done, here| context.pool().copy(ring, run.add(done as u64), here)))
}

/// Consumes bytes into private memory, as many as there are.
pub fn consume_bytes(context: &impl Context, side: Side, stream: &HostStream, into: &mut [u8]) -> Moved {
    let _guard = (side == Side::Machine).then(|| lock(context, &stream.lock));
    drain(stream, into.len(), |ring, done, here| context.pool().read(ring, &mut into[done..done + here]))
}

/// Copies the next bytes into private memory, as many as there are, and leaves them in the stream: how many. They stay the next ones as long as
/// nobody else consumes.
pub fn peek_bytes(context: &impl Context, side: Side, stream: &HostStream, into: &mut [u8]) -> usize {
    let _guard = (side == Side::Machine).then(|| lock(context, &stream.lock));
    let len = into.len().min(used(stream));
    let tail = stream.tail.load(Ordering::Relaxed);
    pieces(stream, tail, len, |ring, done, here| context.pool().read(ring, &mut into[done..done + here]));
    len
}

/// Consumes all bytes there are, into nowhere.
pub fn consume_all(context: &impl Context, stream: &HostStream) -> Moved {
    let _guard = lock(context, &stream.lock);
    drain(stream, usize::MAX, |_, _, _| {})
}

/// Produces bytes for readers that may come at any time ([`replay`]): the newest bytes replace the oldest.
pub fn record(context: &impl Context, stream: &HostStream, from: &[u8]) -> Moved {
    let _guard = lock(context, &stream.lock);
    let kept = &from[from.len().saturating_sub(stream.capacity.get() as usize)..];
    let head = stream.head.load(Ordering::Relaxed);
    let start = head.wrapping_add((from.len() - kept.len()) as u64);
    pieces(stream, start, kept.len(), |ring, done, here| context.pool().write(ring, &kept[done..done + here]));
    stream.head.store(head.wrapping_add(from.len() as u64), Ordering::Release);
    Moved { len: from.len(), ring: !from.is_empty() && take_waiting(&stream.consumer_waiting) }
}

/// The position of the oldest byte that a stream has that is [recorded](record).
pub fn oldest(stream: &HostStream) -> u64 {
    let head = stream.head.load(Ordering::Acquire);
    head.saturating_sub(stream.capacity.get())
}

/// Reads bytes of a stream that is [recorded](record), from `position` on: how many have been lost there, which are passed over, and how
/// many follow. `position` goes behind them.
pub fn replay(context: &impl Context, stream: &HostStream, position: &mut u64, into: &mut [u8]) -> (u64, usize) {
    let _guard = lock(context, &stream.lock);
    let head = stream.head.load(Ordering::Relaxed);
    let start = (*position).clamp(oldest(stream), head);
    let len = into.len().min((head - start) as usize);
    pieces(stream, start, len, |ring, done, here| context.pool().read(ring, &mut into[done..done + here]));
    let lost = start.saturating_sub(*position);
    *position = start + len as u64;
    (lost, len)
}

/// Stores that the reader that [replays](replay) is about to sleep, and has got everything up to `position`. `true`: it may; the producer will ring.
#[must_use]
pub fn replay_waits(stream: &HostStream, position: u64) -> bool {
    stream.consumer_waiting.store(1, Ordering::Release);
    then_look();
    stream.head.load(Ordering::Acquire) == position
}

/// Stores that the producer adds no more. `true`: ring the consumer.
#[must_use]
pub fn close(stream: &HostStream) -> bool {
    stream.closed.store(1, Ordering::Release);
    take_waiting(&stream.consumer_waiting)
}

/// Stores that the consumer takes no more. `true`: ring the producer.
#[must_use]
pub fn leave(stream: &HostStream) -> bool {
    stream.gone.store(1, Ordering::Release);
    take_waiting(&stream.producer_waiting)
}

/// Stores that the producer is about to sleep for room for `len` bytes, at most the stream's capacity. `true`: it may; the
/// consumer will ring, perhaps before there is so much. `false`: there is room.
#[must_use]
pub fn producer_waits(stream: &HostStream, len: usize) -> bool {
    stream.producer_waiting.store(1, Ordering::Release);
    then_look();
    !writable(stream, len)
}

/// Stores that the consumer is about to sleep for bytes. `true`: it may; the producer will ring. `false`: there are some.
#[must_use]
pub fn consumer_waits(stream: &HostStream) -> bool {
    stream.consumer_waiting.store(1, Ordering::Release);
    then_look();
    !readable(stream)
}

/// Takes the stream's lock for a run of memory, and never waits for it with a run in hand: the run may be another one afterwards.
fn lock_for<'a, E>(
    context: &impl Context,
    stream: &'a HostStream,
    mut memory: impl FnMut() -> Result<(PoolAddr, usize), E>,
) -> Result<(Guard<'a>, PoolAddr, usize), E> {
    loop {
        let (run, len) = memory()?;
        if let Some(guard) = try_lock(context, &stream.lock) {
            return Ok((guard, run, len));
        }
        drop(lock(context, &stream.lock));
    }
}

fn fill(stream: &HostStream, part: Part, len: usize, each: impl FnMut(PoolAddr, usize, usize)) -> Moved {
    if stream.gone.load(Ordering::Acquire) != 0 {
        return Moved { len, ring: false };
    }
    let room = room(stream);
    let len = if part == Part::Whole && room < len { 0 } else { len.min(room) };
    let head = stream.head.load(Ordering::Relaxed);
    pieces(stream, head, len, each);
    stream.head.store(head.wrapping_add(len as u64), Ordering::Release);
    Moved { len, ring: len > 0 && take_waiting(&stream.consumer_waiting) }
}

fn drain(stream: &HostStream, len: usize, each: impl FnMut(PoolAddr, usize, usize)) -> Moved {
    let len = len.min(used(stream));
    let tail = stream.tail.load(Ordering::Relaxed);
    pieces(stream, tail, len, each);
    stream.tail.store(tail.wrapping_add(len as u64), Ordering::Release);
    Moved { len, ring: len > 0 && take_waiting(&stream.producer_waiting) }
}

/// Calls `each` with the pieces of the ring from `position` on: address, bytes before it, bytes in it.
fn pieces(stream: &HostStream, position: u64, len: usize, mut each: impl FnMut(PoolAddr, usize, usize)) {
    let (data, capacity) = (PoolAddr(stream.data.get()), stream.capacity.get());
    let mut done = 0;
    while done < len {
        let within = position.wrapping_add(done as u64) % capacity;
        let here = ((capacity - within) as usize).min(len - done);
        each(data.add(within), done, here);
        done += here;
    }
}

fn take_waiting(waiting: &AtomicU32) -> bool {
    then_look();
    waiting.load(Ordering::Relaxed) != 0 && waiting.swap(0, Ordering::SeqCst) != 0
}
