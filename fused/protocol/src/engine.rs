//! Transfer engines (DMA): each island has one, and descriptors in a ring tell it what to copy within the pool.
//!
//! Kernels write descriptors and move `tail`; the engine executes them in order and moves `head`; kernels take the completions. On
//! timed machines the simulator is the engine, on others a thread of the host. The engine checks each descriptor, and refuses a wrong
//! one with an error.
//!
//! | word | written by | when |
//! |---|---|---|
//! | a descriptor, then `tail` | a kernel that holds `lock` | while there is room: `tail - taken < DMA_RING` |
//! | the bytes, the completion, then `head` | the engine | while `head != tail` |
//! | `taken` | a kernel that holds `lock` | while `taken != head`, after it has read the completion |
//!
//! References to the frames of a transfer are dropped when its completion has been taken, and not before.
//!
//! Protocol page: `docs/protocols/dma.md`.

use motet_layout::{
    CoreId, DMA_BAD_ADDRESS, DMA_BAD_FLAGS, DMA_BAD_LENGTH, DMA_BYTES_MAX, DMA_FLAGS, DMA_LIST, DMA_OK, DMA_OVERLAP,
    DMA_PIECES, DMA_RING, DMA_RINGS, DmaDescriptor, DmaEngine, DmaList, Pool, PoolAddr,
};
use motet_layout::{handshake::then_look, sync::Ordering};

use crate::{Context, lock::lock};

/// What an engine is to do.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Where the bytes are; with `DMA_LIST` the first list.
    pub source: PoolAddr,
    /// Where they go.
    pub destination: PoolAddr,
    /// How many.
    pub bytes: u64,
    /// `DMA_LIST`, `DMA_RINGS`.
    pub flags: u32,
    /// Who is rung.
    pub core: CoreId,
    /// Comes back with the completion.
    pub id: u64,
}

/// What became of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// As in [`Transfer`].
    pub id: u64,
    /// `DMA_OK`, or what was wrong.
    pub error: u32,
    /// Bytes transferred.
    pub done: u64,
    /// When it ends or has ended, in nanoseconds of the machine's clock; 0: it has ended.
    pub arrives_ns: u64,
}

/// Gives an engine a transfer; `start` rings it, if it must be rung before anybody else has the lock. `false`: the ring is full.
pub fn submit(context: &impl Context, engine: &DmaEngine, transfer: &Transfer, start: impl FnOnce()) -> bool {
    let _guard = lock(context, &engine.lock);
    let tail = engine.tail.load(Ordering::Relaxed);
    if tail.wrapping_sub(engine.taken.load(Ordering::Relaxed)) >= DMA_RING as u64 {
        return false;
    }
    let slot = slot(engine, tail);
    slot.source.set(transfer.source.0);
    slot.destination.set(transfer.destination.0);
    slot.bytes.set(transfer.bytes);
    slot.flags.set(transfer.flags);
    slot.core.set(u32::from(transfer.core.0));
    slot.id.set(transfer.id);
    engine.tail.store(tail.wrapping_add(1), Ordering::Release);
    then_look();
    start();
    true
}

/// Whether the ring has room. Without the lock: others may take it.
pub fn has_room(engine: &DmaEngine) -> bool {
    engine.tail.load(Ordering::SeqCst).wrapping_sub(engine.taken.load(Ordering::SeqCst)) < DMA_RING as u64
}

/// Whether completions wait to be taken. Without the lock: others may take them.
#[inline(always)]
pub fn has_completions(engine: &DmaEngine) -> bool {
    engine.head.load(Ordering::Acquire) != engine.taken.load(Ordering::Relaxed)
}

/// Takes the next completion, if there is one.
pub fn take(context: &impl Context, engine: &DmaEngine) -> Option<Completion> {
    let _guard = lock(context, &engine.lock);
    let (taken, tail) = (engine.taken.load(Ordering::Relaxed), engine.tail.load(Ordering::Relaxed));
    // Acquire: the completion, and the bytes, are there.
    let ready = engine.head.load(Ordering::Acquire).wrapping_sub(taken);
    if ready == 0 || ready > tail.wrapping_sub(taken) {
        return None; // more than there were: the engine's word is damaged
    }
    let slot = slot(engine, taken);
    let completion = Completion {
        id: slot.id.get(),
        error: slot.error.get(),
        done: slot.done.get(),
        arrives_ns: slot.arrives_ns.get(),
    };
    engine.taken.store(taken.wrapping_add(1), Ordering::Release);
    then_look();
    Some(completion)
}

/// Whether the engine still has a transfer for which `is_it` says so of its id.
pub fn has_under_way(context: &impl Context, engine: &DmaEngine, is_it: impl Fn(u64) -> bool) -> bool {
    let _guard = lock(context, &engine.lock);
    let (head, tail) = (engine.head.load(Ordering::Acquire), engine.tail.load(Ordering::Relaxed));
    (0..tail.wrapping_sub(head).min(DMA_RING as u64))
        .any(|ahead| is_it(slot(engine, head.wrapping_add(ahead)).id.get()))
}

/// Whether the engine has something to do.
pub fn has_work(engine: &DmaEngine) -> bool {
    engine.head.load(Ordering::Relaxed) != engine.tail.load(Ordering::SeqCst)
}

/// What an engine has done with a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// Who is to be rung.
    pub ring: Option<CoreId>,
}

/// Executes the engine's next descriptor. Calls `moved` for every piece that was copied, with source, destination and bytes; `ends_ns`
/// returns when a transfer of so many bytes ends (0: now). `None`: there is nothing to do. One thread at a time is the engine.
pub fn serve(
    pool: Pool,
    engine: &DmaEngine,
    moved: impl FnMut(PoolAddr, PoolAddr, u64),
    ends_ns: impl FnOnce(u64) -> u64,
) -> Option<Served> {
    let head = engine.head.load(Ordering::Relaxed);
    // Acquire: the descriptor has been written.
    let waiting = engine.tail.load(Ordering::Acquire).wrapping_sub(head);
    if waiting == 0 || waiting > DMA_RING as u64 {
        return None;
    }
    let slot = slot(engine, head);
    let (done, error) = carry_out(pool, slot, moved);
    slot.done.set(done);
    slot.error.set(error);
    slot.arrives_ns.set(ends_ns(done));
    if error != DMA_OK {
        engine.error.set(error);
        engine.errors.set(engine.errors.get().wrapping_add(1));
    }
    let ring = CoreId::from_raw(slot.core.get()).filter(|_| slot.flags.get() & DMA_RINGS != 0);
    // From here on a kernel may use the slot, and the memory, for something else.
    engine.head.store(head.wrapping_add(1), Ordering::Release);
    then_look();
    Some(Served { ring })
}

/// Copies what a descriptor says; the bytes copied, and what was wrong.
fn carry_out(pool: Pool, slot: &DmaDescriptor, mut moved: impl FnMut(PoolAddr, PoolAddr, u64)) -> (u64, u32) {
    let (flags, bytes) = (slot.flags.get(), slot.bytes.get());
    if flags & !DMA_FLAGS != 0 || flags & DMA_RINGS != 0 && CoreId::from_raw(slot.core.get()).is_none() {
        return (0, DMA_BAD_FLAGS);
    }
    if bytes == 0 || bytes > DMA_BYTES_MAX {
        return (0, DMA_BAD_LENGTH);
    }
    if flags & DMA_LIST == 0 {
        let error = copy(pool, slot.source.get(), slot.destination.get(), bytes, &mut moved);
        return (if error == DMA_OK { bytes } else { 0 }, error);
    }
    let (mut done, mut at) = (0, slot.source.get());
    while done < bytes {
        let Some(list) = pool.get::<DmaList>(PoolAddr(at)) else { return (done, DMA_BAD_ADDRESS) };
        let count = list.count.get();
        if count == 0 || count > DMA_PIECES as u64 {
            return (done, DMA_BAD_LENGTH);
        }
        for piece in &list.pieces[..count as usize] {
            let len = piece.bytes.get();
            if len == 0 || len > bytes - done {
                return (done, DMA_BAD_LENGTH);
            }
            let error = copy(pool, piece.source.get(), piece.destination.get(), len, &mut moved);
            if error != DMA_OK {
                return (done, error);
            }
            done += len;
        }
        at = list.next.get();
    }
    (done, DMA_OK)
}

/// Copies contiguous bytes, if they are in the pool and do not overlap.
fn copy(pool: Pool, from: u64, to: u64, len: u64, moved: &mut impl FnMut(PoolAddr, PoolAddr, u64)) -> u32 {
    let is_in_pool = |start: u64| start.checked_add(len).is_some_and(|end| end <= pool.len());
    if !is_in_pool(from) || !is_in_pool(to) {
        return DMA_BAD_ADDRESS;
    }
    if from < to + len && to < from + len {
        return DMA_OVERLAP;
    }
    pool.copy(PoolAddr(from), PoolAddr(to), len as usize);
    moved(PoolAddr(from), PoolAddr(to), len);
    DMA_OK
}

fn slot(engine: &DmaEngine, number: u64) -> &DmaDescriptor {
    &engine.ring[number as usize % DMA_RING]
}
