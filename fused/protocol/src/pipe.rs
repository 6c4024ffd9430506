//! Pipes: a ring of 16 frames, written and read by any island.
//!
//! `head` and `tail` count bytes and return to 0 whenever the pipe empties, so that short messages always use the same
//! frame, which stays in the caches. Frames are allocated when first used and kept.
//!
//! [`push`] and [`pop`] move at most one run each and never wait: when there is no room, or nothing to read, the caller
//! waits in the pipe's queue (see [`crate::wait`]) and comes again. The opposite side is woken only when it waits.

use motet_layout::sync::{AtomicU32, Ordering};

use motet_abi::Errno;
use motet_layout::{
    Cell32, Frame, PAGE_SHIFT, PAGE_SIZE, PIPE_BUF, PIPE_CAPACITY, PIPE_FRAMES, PipeRecord, PoolAddr, in_order,
};

use crate::{
    Context,
    lock::{lock, try_lock},
    memory::{alloc_common_frame, release_frame},
    slab, wait,
};

pub mod packet;

/// A piece of memory to be read or filled: where it is now, and its bytes.
pub type Run = (PoolAddr, usize);

/// A new pipe with one reference and no open end.
pub fn create(context: &impl Context) -> Option<&'static PipeRecord> {
    let pipe = slab::alloc::<PipeRecord>(context)?;
    pipe.refs.store(1, Ordering::Relaxed);
    Some(pipe)
}

/// Drops a reference; the last one frees the pipe.
pub fn put(context: &impl Context, pipe: &'static PipeRecord) {
    if pipe.refs.fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    // Nodes of threads that still wait must not stay linked in memory that becomes another pipe.
    wait::wake(context, &pipe.read_waiters);
    wait::wake(context, &pipe.write_waiters);
    for frame in &pipe.frames {
        if frame.get() != 0 {
            release_frame(context, Frame(frame.get()));
        }
    }
    slab::free(context, pipe);
}

/// The end that reads, in a word of closed ends.
pub const READER: u32 = 1;
/// The end that writes.
pub const WRITER: u32 = 2;

/// Opens ends ([`READER`], [`WRITER`]), with a reference each, and tells openers that wait for them. `closed` is the opener's word of closed ends, with
/// these bits set: they are cleared, and nothing between the two should this core die.
pub fn open(context: &impl Context, pipe: &'static PipeRecord, ends: u32, closed: &AtomicU32) {
    pipe.refs.fetch_add(ends.count_ones(), Ordering::Relaxed);
    change(context, pipe, closed, ends, 0);
    if ends & READER != 0 {
        pipe.reader_opens.fetch_add(1, Ordering::Release);
        wait::wake(context, &pipe.write_waiters);
    }
    if ends & WRITER != 0 {
        pipe.writer_opens.fetch_add(1, Ordering::Release);
        wait::wake(context, &pipe.read_waiters);
    }
}

/// Closes those of the ends that are not closed in the opener's word yet, and returns them. When the last reader closes, writers are woken, whose writes fail; when
/// the last writer closes, readers are woken, who see the end of the stream. The references stay, for the caller to [`put`].
pub fn close(context: &impl Context, pipe: &'static PipeRecord, ends: u32, closed: &AtomicU32) -> u32 {
    let ended = change(context, pipe, closed, 0, ends);
    if ended & READER != 0 && pipe.readers.load(Ordering::Acquire) == 0 {
        wait::wake(context, &pipe.write_waiters);
    }
    if ended & WRITER != 0 && pipe.writers.load(Ordering::Acquire) == 0 {
        wait::wake(context, &pipe.read_waiters);
    }
    ended
}

/// Opens and closes ends as an opener's word changes, and returns in which bits it did.
fn change(context: &impl Context, pipe: &PipeRecord, closed: &AtomicU32, clear: u32, set: u32) -> u32 {
    let _guard = lock(context, &pipe.lock);
    let before = closed.load(Ordering::Relaxed);
    let changes = (before & clear) | (!before & set);
    for (index, end) in [&pipe.readers, &pipe.writers].into_iter().enumerate() {
        let bit = |word: u32| word >> index & 1;
        let count = end.load(Ordering::Relaxed).wrapping_add(bit(before & clear)).checked_sub(bit(!before & set));
        pipe.changed[index].set(count.expect("an end of a pipe that nobody has opened: shared structures are corrupt"));
    }
    pipe.changed_bits[0].set(clear);
    pipe.changed_bits[1].set(set);
    in_order();
    pipe.changing.set(context.pool().find(closed).unwrap_or(PoolAddr::NULL).0);
    in_order();
    finish_change(pipe, closed);
    changes
}

/// May be done twice.
fn finish_change(pipe: &PipeRecord, closed: &AtomicU32) {
    pipe.readers.store(pipe.changed[0].get(), Ordering::Release);
    pipe.writers.store(pipe.changed[1].get(), Ordering::Release);
    // Other bits may be another pipe's.
    let [clear, set] = [pipe.changed_bits[0].get(), pipe.changed_bits[1].get()];
    if clear != 0 {
        closed.fetch_and(!clear, Ordering::AcqRel);
    }
    closed.fetch_or(set, Ordering::AcqRel);
    in_order();
    pipe.changing.set(0);
}

/// Bytes waiting to be read.
#[inline(always)]
pub fn used(pipe: &PipeRecord) -> usize {
    (pipe.head.get().wrapping_sub(pipe.tail.get()) as usize).min(PIPE_CAPACITY)
}

/// Writes bytes that lie in at most two runs (the second may be empty). Returns how many were taken; `None`: there is
/// not enough room now. With `whole`, which a write of at most [`PIPE_BUF`] bytes must ask for, all or none are taken.
///
/// `memory` says where the bytes are now; it is asked again whenever this function had to wait (see
/// [`fs::transfer`](crate::fs::transfer)).
///
/// # Errors
/// `EPIPE` when nobody can read any more, or the last writer has closed its end meanwhile; `ENOMEM`; what `memory` fails with.
#[inline]
pub fn push<E: From<Errno>>(
    context: &impl Context,
    pipe: &'static PipeRecord,
    whole: bool,
    memory: impl FnMut() -> Result<[Run; 2], E>,
) -> Result<Option<usize>, E> {
    push_with(context, pipe, whole, memory, || {})
}

/// As [`push`]; `mark` is called under the lock, before the bytes count.
#[inline(always)]
pub(crate) fn push_with<E: From<Errno>>(
    context: &impl Context,
    pipe: &'static PipeRecord,
    whole: bool,
    mut memory: impl FnMut() -> Result<[Run; 2], E>,
    mark: impl FnOnce(),
) -> Result<Option<usize>, E> {
    loop {
        let [(run, run_len), (more, more_len)] = memory()?;
        let Some(guard) = try_lock(context, &pipe.lock) else {
            drop(lock(context, &pipe.lock));
            continue;
        };
        // Of a socket, either end can be closed while somebody writes: nothing comes behind the end that its reader has seen.
        if pipe.readers.load(Ordering::Relaxed) == 0 || pipe.writers.load(Ordering::Relaxed) == 0 {
            return Err(Errno::EPIPE.into());
        }
        let room = PIPE_CAPACITY - used(pipe);
        let len = run_len + more_len;
        if room == 0 || whole && room < len {
            return Ok(None);
        }
        let len = len.min(room);
        let head = pipe.head.get();
        if !frames_present(pipe, head, len) {
            allocate(context, pipe, head, len)?;
            continue;
        }
        copy_in(context, pipe, head, run, run_len.min(len));
        if len > run_len {
            copy_in(context, pipe, head.wrapping_add(run_len as u32), more, len - run_len);
        }
        mark();
        pipe.head.set(head.wrapping_add(len as u32));
        drop(guard);
        wait::wake(context, &pipe.read_waiters);
        return Ok(Some(len));
    }
}

/// Reads bytes into one run. Returns how many; 0 at the end of the stream (no bytes and no writer); `None`: nothing to
/// read now. `memory` as in [`push`].
///
/// # Errors
/// What `memory` fails with.
#[inline]
pub fn pop<E>(
    context: &impl Context,
    pipe: &'static PipeRecord,
    mut memory: impl FnMut() -> Result<Run, E>,
) -> Result<Option<usize>, E> {
    loop {
        let (run, run_len) = memory()?;
        let Some(guard) = try_lock(context, &pipe.lock) else {
            drop(lock(context, &pipe.lock));
            continue;
        };
        let used = used(pipe);
        if used == 0 {
            return Ok((pipe.writers.load(Ordering::Acquire) == 0).then_some(0));
        }
        let len = run_len.min(used);
        let tail = pipe.tail.get();
        copy_out(context, pipe, tail, run, len);
        consume(pipe, len, used);
        drop(guard);
        wait::wake(context, &pipe.write_waiters);
        return Ok(Some(len));
    }
}

/// Which bytes are read next: how often the pipe was emptied before, and its `tail`. Whatever is read changes it.
pub type Place = [u32; 2];

/// The pipe's lock is held, or nobody reads.
pub fn place(pipe: &PipeRecord) -> Place {
    [pipe.emptied.get(), pipe.tail.get()]
}

/// Copies bytes that wait to be read into one run, from the one `skip` bytes behind a [place](place) on, and leaves them there. Returns how many: 0
/// when there are no more; `None`: some were read since that was the place. `memory` as in [`push`].
///
/// # Errors
/// What `memory` fails with.
pub fn peek<E>(
    context: &impl Context,
    pipe: &'static PipeRecord,
    (from, skip): (Place, usize),
    mut memory: impl FnMut() -> Result<Run, E>,
) -> Result<Option<usize>, E> {
    loop {
        let (run, run_len) = memory()?;
        let Some(_guard) = try_lock(context, &pipe.lock) else {
            drop(lock(context, &pipe.lock));
            continue;
        };
        if place(pipe) != from {
            return Ok(None);
        }
        let len = run_len.min(used(pipe).saturating_sub(skip));
        copy_out(context, pipe, pipe.tail.get().wrapping_add(skip as u32), run, len);
        return Ok(Some(len));
    }
}

/// [`push`] for the ordinary case: a short message, room for it in one frame of the ring, nobody else at the pipe. `false`:
/// it is not that case, and nothing was done.
#[inline(always)]
pub fn push_short(context: &impl Context, pipe: &'static PipeRecord, (run, len): Run) -> bool {
    let Some(guard) = try_lock(context, &pipe.lock) else { return false };
    let (head, within) = (pipe.head.get(), pipe.head.get() as usize % PAGE_SIZE as usize);
    let frame = pipe.frames[slot(head)].get();
    let room = PIPE_CAPACITY.wrapping_sub(head.wrapping_sub(pipe.tail.get()) as usize);
    let fits = within + len <= PAGE_SIZE as usize && len <= room && room <= PIPE_CAPACITY;
    if !fits || frame == 0 || pipe.readers.load(Ordering::Relaxed) == 0 {
        return false;
    }
    context.pool().copy(run, Frame(frame).addr().add(within as u64), len);
    pipe.head.set(head.wrapping_add(len as u32));
    drop(guard);
    wait::wake(context, &pipe.read_waiters);
    true
}

/// [`pop`] for the ordinary case: everything in the pipe lies in one frame and fits into the run. Returns the bytes read;
/// `None`: it is not that case, and nothing was done.
#[inline(always)]
pub fn pop_short(context: &impl Context, pipe: &'static PipeRecord, (run, len): Run) -> Option<usize> {
    let guard = try_lock(context, &pipe.lock)?;
    let tail = pipe.tail.get();
    let (used, within) = (pipe.head.get().wrapping_sub(tail) as usize, tail as usize % PAGE_SIZE as usize);
    if used == 0 || used > len || within + used > PAGE_SIZE as usize {
        return None;
    }
    context.pool().copy(Frame(pipe.frames[slot(tail)].get()).addr().add(within as u64), run, used);
    empty(pipe);
    drop(guard);
    wait::wake(context, &pipe.write_waiters);
    Some(used)
}

/// What a pipe's ends can do without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Readiness {
    /// A read returns bytes.
    pub readable: bool,
    /// A write of [`PIPE_BUF`] bytes succeeds.
    pub writable: bool,
    /// Nobody can write any more (or has yet).
    pub no_writer: bool,
    /// Nobody can read any more.
    pub no_reader: bool,
}

/// What a pipe's ends can do now.
pub fn readiness(pipe: &PipeRecord) -> Readiness {
    let used = used(pipe);
    Readiness {
        readable: used > 0,
        writable: PIPE_CAPACITY - used >= PIPE_BUF,
        no_writer: pipe.writers.load(Ordering::Acquire) == 0,
        no_reader: pipe.readers.load(Ordering::Acquire) == 0,
    }
}

/// Counts that tell whether anything has come to a pipe's ends, for reading and for writing, since they were last looked
/// at: different ones if so.
pub fn arrivals(pipe: &PipeRecord) -> [u64; 2] {
    let state = readiness(pipe);
    let opened = |opens: &AtomicU32, all_gone: bool| u64::from(opens.load(Ordering::Relaxed)) * 2 + u64::from(all_gone);
    let moved = |position: &Cell32| u64::from(position.get()) + (u64::from(pipe.emptied.get()) << 32);
    [
        moved(&pipe.head).wrapping_add(opened(&pipe.writer_opens, state.no_writer) << 32),
        moved(&pipe.tail).wrapping_add(opened(&pipe.reader_opens, state.no_reader) << 32),
    ]
}

/// So many bytes of those `used` were read. The pipe's lock is held.
#[inline(always)]
pub(crate) fn consume(pipe: &PipeRecord, len: usize, used: usize) {
    if len == used {
        empty(pipe);
    } else {
        pipe.tail.set(pipe.tail.get().wrapping_add(len as u32));
    }
}

/// Everything was read. The pipe's lock is held.
#[inline(always)]
fn empty(pipe: &PipeRecord) {
    pipe.head.set(0);
    in_order();
    pipe.tail.set(0);
    pipe.emptied.set(pipe.emptied.get().wrapping_add(1));
}

#[inline(always)]
fn slot(position: u32) -> usize {
    (position as usize % PIPE_CAPACITY) >> PAGE_SHIFT
}

/// Whether the frames behind `len` bytes (at least 1) from `head` exist.
#[inline(always)]
fn frames_present(pipe: &PipeRecord, head: u32, len: usize) -> bool {
    let (first, last) = (slot(head), slot(head.wrapping_add(len as u32 - 1)));
    if pipe.frames[first].get() == 0 || pipe.frames[last].get() == 0 {
        return false;
    }
    // Frames are allocated in ring order, and a push has at most two pages: only one frame can lie between.
    first == last || pipe.frames[(first + 1) % PIPE_FRAMES].get() != 0
}

#[cold]
fn allocate(context: &impl Context, pipe: &PipeRecord, head: u32, len: usize) -> Result<(), Errno> {
    let pages = (head as usize % PAGE_SIZE as usize + len).div_ceil(PAGE_SIZE as usize);
    for step in 0..pages {
        let frame = &pipe.frames[(slot(head) + step) % PIPE_FRAMES];
        if frame.get() == 0 {
            frame.set(alloc_common_frame(context).ok_or(Errno::ENOMEM)?.0);
        }
    }
    Ok(())
}

#[inline(always)]
fn copy_in(context: &impl Context, pipe: &PipeRecord, head: u32, run: PoolAddr, len: usize) {
    pieces(pipe, head, len, |ring, done, here| context.pool().copy(run.add(done as u64), ring, here));
}

#[inline(always)]
pub(crate) fn copy_out(context: &impl Context, pipe: &PipeRecord, tail: u32, run: PoolAddr, len: usize) {
    pieces(pipe, tail, len, |ring, done, here| context.pool().copy(ring, run.add(done as u64), here));
}

/// Calls `each` with the pieces of the ring from `position` on: address, bytes before it, bytes in it.
#[inline(always)]
fn pieces(pipe: &PipeRecord, position: u32, len: usize, mut each: impl FnMut(PoolAddr, usize, usize)) {
    let mut done = 0;
    while done < len {
        let at = position.wrapping_add(done as u32);
        let within = at as usize % PAGE_SIZE as usize;
        let here = (PAGE_SIZE as usize - within).min(len - done);
        each(Frame(pipe.frames[slot(at)].get()).addr().add(within as u64), done, here);
        done += here;
    }
}

/// Repairs a pipe whose lock a dead core held and this one has now: it may have been about to say that everything was read, or been opening or closing ends.
pub(crate) fn recover(context: &impl Context, pipe: &PipeRecord) {
    if let Some(closed) =
        context.pool().get::<AtomicU32>(PoolAddr(pipe.changing.get())).filter(|_| pipe.changing.get() != 0)
    {
        finish_change(pipe, closed);
    }
    if pipe.head.get().wrapping_sub(pipe.tail.get()) as usize > PIPE_CAPACITY {
        pipe.tail.set(pipe.head.get());
    }
    // It may have been emptied just so: what was seen of it before is not trusted.
    pipe.emptied.set(pipe.emptied.get().wrapping_add(1));
    packet::recover(context, pipe);
}
