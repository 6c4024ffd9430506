//! Packets between sockets, and what goes with bytes of a stream.
//!
//! A queue of packets is a [pipe](crate::pipe) whose ring is not used: its `head` and `tail` count packets. Whoever sends fills a packet before it takes the
//! pipe's lock, and whoever receives copies after it has let go of it. So under the lock there is a handful of stores, however long a packet is.
//!
//! Bytes of a stream are in the ring. Open files that are sent with them, and who has sent them, are *marks*: records in the same list that say where in the
//! ring their bytes begin. A reader does not go past them in one piece ([`read`]).
//!
//! A record is in the hand of the core that fills it, and of the core that has received it: its `holder` says so. If that core dies, the reclaimer frees it, unless
//! the chain of its queue has it ([`is_queued`]). The chain, forward, is the truth; the last one, the numbers and the cost follow from it.

use motet_layout::{
    Frame, PACKET_FRAMES, PACKET_HAS_CREDENTIALS, PACKET_HAS_SOCKETS, PACKET_INLINE, PAGE_SIZE, PIPE_CAPACITY,
    PacketRecord, PipeRecord, in_order,
    sync::{AtomicU64, Ordering},
};

use motet_abi::Errno;

use crate::{
    Context,
    lock::{lock, try_lock},
    memory::{alloc_common_frame, release_frame},
    slab, wait,
};

use super::{self as pipe, Run};

/// What the record of a packet costs its queue; each of its frames costs a page.
const RECORD_COST: u32 = size_of::<PacketRecord>() as u32;

/// Who has sent something: process, user and group.
pub type Credentials = [u32; 3];

/// A new packet, in this core's hand.
pub fn create(context: &impl Context) -> Option<&'static PacketRecord> {
    let packet = slab::alloc::<PacketRecord>(context)?;
    packet.holder.store(u32::from(context.core().0) + 1, Ordering::Relaxed);
    Some(packet)
}

/// Frees a packet that is in hand and has no open files.
pub fn free(context: &impl Context, packet: &'static PacketRecord) {
    for word in packet.frames.iter().chain([&packet.rights]) {
        let frame = Frame(word.get());
        if !frame.is_none() {
            word.set(0);
            in_order();
            release_frame(context, frame);
        }
    }
    packet.holder.store(0, Ordering::Release); // from here on nobody else frees it
    slab::free(context, packet);
}

/// Gives a packet room for so many bytes, at most [`PACKET_MAX`](motet_layout::PACKET_MAX).
///
/// # Errors
/// `ENOBUFS`: there is no memory.
pub fn make_room(context: &impl Context, packet: &PacketRecord, len: usize) -> Result<(), Errno> {
    let frames = len.saturating_sub(PACKET_INLINE).div_ceil(PAGE_SIZE as usize);
    for word in packet.frames.iter().take(frames) {
        word.set(alloc_common_frame(context).ok_or(Errno::ENOBUFS)?.0);
    }
    packet.len.set(len as u32);
    Ok(())
}

/// Where a packet's bytes are, from one of them on, as far as they lie together.
pub fn piece(context: &impl Context, packet: &'static PacketRecord, at: usize) -> Run {
    let left = (packet.len.get() as usize).saturating_sub(at);
    let Some(behind) = at.checked_sub(PACKET_INLINE) else {
        let bytes = context.pool().addr_of(packet).add(core::mem::offset_of!(PacketRecord, bytes) as u64);
        return (bytes.add(at as u64), left.min(PACKET_INLINE - at));
    };
    let (index, within) = (behind / PAGE_SIZE as usize, behind % PAGE_SIZE as usize);
    let frame = Frame(packet.frames[index.min(PACKET_FRAMES - 1)].get());
    let left = if frame.is_none() || index >= PACKET_FRAMES { 0 } else { left };
    (frame.addr().add(within as u64), left.min(PAGE_SIZE as usize - within))
}

/// A packet's open files: pool addresses, 0 for those that were taken. `None`: it has had none.
pub fn rights(context: &impl Context, packet: &PacketRecord) -> Option<&'static [AtomicU64]> {
    let frame = Frame(packet.rights.get());
    let words = if frame.is_none() { None } else { context.pool().page_words(frame.addr()) }?;
    Some(&words[..(packet.rights_count.get() as usize).min(motet_layout::RIGHTS_MAX)])
}

/// Whether it is a queue of packets, whose ring is not used.
#[inline(always)]
fn has_packets(queue: &PipeRecord) -> bool {
    queue.packets_max.get() != 0
}

fn cost(packet: &PacketRecord) -> u32 {
    let frames =
        packet.frames.iter().take_while(|frame| frame.get() != 0).count() + usize::from(packet.rights.get() != 0);
    RECORD_COST + frames as u32 * PAGE_SIZE as u32
}

/// How much of a queue may be full, for whom.
#[derive(Clone, Copy)]
pub struct Limits {
    /// The queue of who sends (pool address): another queue may be open to one sender only ([`PipeRecord::sender`]).
    pub from: u64,
    /// Bytes that packets may cost before the last one.
    pub cost: u32,
    /// Packets before the last one.
    pub packets: u32,
    /// Whoever sends has the writer's end: nothing follows when that is closed.
    pub by_writer: bool,
}

/// Whether a queue is open to who sends.
pub fn is_open(queue: &PipeRecord, limits: Limits) -> bool {
    let sender = queue.sender.load(Ordering::Acquire);
    sender == 0 || sender == limits.from
}

/// Whether another packet has room.
pub fn has_room(queue: &PipeRecord, limits: Limits) -> bool {
    queue.cost.get() < limits.cost && (pipe::used(queue) as u32) < limits.packets
}

/// Puts a packet that is in hand at the end of a queue. `false`: there is no room now.
///
/// # Errors
/// `EPERM`: who receives there does so from somebody else only; `EPIPE`: nobody receives there any more, or the writer's end is closed.
pub fn push(
    context: &impl Context,
    queue: &'static PipeRecord,
    packet: &'static PacketRecord,
    limits: Limits,
) -> Result<bool, Errno> {
    let guard = lock(context, &queue.lock);
    if !is_open(queue, limits) {
        return Err(Errno::EPERM);
    }
    let has_ended = limits.by_writer && queue.writers.load(Ordering::Relaxed) == 0;
    if queue.readers.load(Ordering::Relaxed) == 0 || has_ended {
        return Err(Errno::EPIPE);
    }
    if !has_room(queue, limits) {
        return Ok(false);
    }
    link(context, queue, packet);
    queue.head.set(queue.head.get().wrapping_add(1));
    in_order();
    packet.holder.store(0, Ordering::Release);
    drop(guard);
    wait::wake(context, &queue.read_waiters);
    Ok(true)
}

/// Takes the first record of a queue in hand, packet or mark, if `may` says so of it.
pub fn pop_if(
    context: &impl Context,
    queue: &'static PipeRecord,
    may: impl FnOnce(&'static PacketRecord) -> bool,
) -> Option<&'static PacketRecord> {
    let guard = lock(context, &queue.lock);
    let first = context.object::<PacketRecord>(queue.packets[0].get()).filter(|first| may(first))?;
    unlink_first(context, queue, first);
    drop(guard);
    wait::wake(context, &queue.write_waiters);
    Some(first)
}

/// A packet, or a mark with open files, that was seen in a queue. Another thread may have received it since, and its record may be another one's now,
/// also of the same queue.
#[derive(Clone, Copy)]
pub struct Seen {
    record: &'static PacketRecord,
    /// Of a packet: what was read before it. Of a mark: how often the stream was emptied before it, and where its bytes begin.
    place: pipe::Place,
}

impl Seen {
    /// The queue's lock is held, and the queue has it: a packet as the first one.
    fn of(queue: &PipeRecord, record: &'static PacketRecord) -> Self {
        Self { record, place: Self::place(queue, record) }
    }

    fn place(queue: &PipeRecord, record: &PacketRecord) -> pipe::Place {
        if has_packets(queue) { pipe::place(queue) } else { [queue.emptied.get(), record.at.get()] }
    }

    /// Whether its queue, which is locked, still has it.
    fn is_there(&self, context: &impl Context, queue: &PipeRecord) -> bool {
        let is_this = |other: &PacketRecord| core::ptr::eq(other, self.record);
        let is_linked = match has_packets(queue) {
            true => chain(context, queue).next().is_some_and(is_this),
            // Other marks may come before.
            false => chain(context, queue).any(is_this),
        };
        is_linked && Self::place(queue, self.record) == self.place
    }
}

/// Shows the first packet of a queue to `look`, under the queue's lock.
pub fn with_first<R>(
    context: &impl Context,
    queue: &PipeRecord,
    look: impl FnOnce(&'static PacketRecord, Seen) -> R,
) -> Option<R> {
    let _guard = lock(context, &queue.lock);
    context.object::<PacketRecord>(queue.packets[0].get()).map(|first| look(first, Seen::of(queue, first)))
}

/// Copies bytes of the first packet of a queue into a run, from one of them on. `None`: it is another one than was seen.
/// `memory` as in [`pipe::push`].
///
/// # Errors
/// What `memory` fails with.
pub fn peek<E>(
    context: &impl Context,
    queue: &PipeRecord,
    (seen, at): (Seen, usize),
    mut memory: impl FnMut() -> Result<Run, E>,
) -> Result<Option<usize>, E> {
    loop {
        let (run, run_len) = memory()?;
        let Some(_guard) = try_lock(context, &queue.lock) else {
            drop(lock(context, &queue.lock));
            continue;
        };
        if !seen.is_there(context, queue) {
            return Ok(None);
        }
        let (bytes, len) = piece(context, seen.record, at);
        let len = len.min(run_len);
        context.pool().copy(bytes, run, len);
        return Ok(Some(len));
    }
}

/// Writes bytes to a stream, all of a run or none, with marks that go with them, which are in hand. `false`: there is no room now, or the marks that wait
/// cost more than `cost_max`.
///
/// # Errors
/// `EPIPE` when nobody reads any more, or the writer's end is closed; `ENOMEM`.
pub fn write(
    context: &impl Context,
    stream: &'static PipeRecord,
    run: Run,
    marks: [Option<&'static PacketRecord>; 2],
    cost_max: u32,
) -> Result<bool, Errno> {
    let has_ends = [&stream.readers, &stream.writers].into_iter().all(|ends| ends.load(Ordering::Acquire) != 0);
    if stream.cost.get() >= cost_max && has_ends {
        return Ok(false);
    }
    // The list says first what goes with bytes that come then: who repairs it leaves out what goes with none.
    let mark = || {
        for mark in marks.into_iter().flatten() {
            mark.at.set(stream.head.get());
            link(context, stream, mark);
        }
    };
    let is_written = pipe::push_with(context, stream, true, || Ok::<_, Errno>([run, (run.0, 0)]), mark)?.is_some();
    if is_written {
        // The reader may have them already: then these are its, and it has said so.
        let own = u32::from(context.core().0) + 1;
        let _guard = lock(context, &stream.lock);
        for mark in marks.into_iter().flatten().filter(|mark| mark.holder.load(Ordering::Relaxed) == own) {
            mark.holder.store(0, Ordering::Release);
        }
    }
    Ok(is_written)
}

/// What a call has received of a stream so far.
#[derive(Clone, Copy, Default)]
pub struct Reading {
    /// It wants to know who has sent the bytes, which come from one sender only.
    pub wants_credentials: bool,
    /// Who has sent what was read: 0, once something was read, for bytes of which that is not known.
    pub sender: Option<Option<Credentials>>,
    /// Open files that came with it, in hand.
    pub rights: Option<&'static PacketRecord>,
    /// How many bytes more may be read with these.
    pub left: Option<u32>,
}

/// What reading a stream brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now, or nothing ever if nobody writes any more.
    Nothing,
    /// Nothing that belongs to what was read.
    Border,
}

/// Reads bytes of a stream into one run, of which the same is so. `memory` as in [`pipe::push`]. `taken` is told of open files that come with them, under the
/// header's `rights_lock` if some are sockets.
///
/// # Errors
/// What `memory` fails with.
pub fn read<E>(
    context: &impl Context,
    stream: &'static PipeRecord,
    reading: &mut Reading,
    mut memory: impl FnMut() -> Result<Run, E>,
    taken: impl FnOnce(&'static PacketRecord),
) -> Result<Read, E> {
    let rights_lock = &context.pool().header().rights_lock;
    let mut has_sockets = false;
    loop {
        let (run, run_len) = memory()?;
        let rights_guard = if has_sockets { try_lock(context, rights_lock) } else { None };
        if has_sockets && rights_guard.is_none() {
            drop(lock(context, rights_lock));
            continue;
        }
        let Some(guard) = try_lock(context, &stream.lock) else {
            drop(lock(context, &stream.lock));
            continue;
        };
        let used = pipe::used(stream);
        if used == 0 {
            return Ok(Read::Nothing);
        }
        if reading.left == Some(0) {
            return Ok(Read::Border);
        }
        let tail = stream.tail.get();
        let mut first = context.object::<PacketRecord>(stream.packets[0].get());
        let files = first.filter(|mark| mark.rights.get() != 0 && mark.at.get() == tail);
        if let Some(files) = files {
            if reading.rights.is_some() {
                return Ok(Read::Border);
            }
            if files.flags.load(Ordering::Relaxed) & PACKET_HAS_SOCKETS != 0 && rights_guard.is_none() {
                has_sockets = true;
                continue;
            }
            first = context.object(files.next.get());
        }
        let own = first.filter(|mark| mark.at.get() == tail || mark.at.get().wrapping_sub(tail) > used as u32);
        let next = match own {
            None => first,
            Some(mark) => context.object(mark.next.get()),
        };
        let sender = own.filter(|mark| mark.flags.load(Ordering::Relaxed) & PACKET_HAS_CREDENTIALS != 0);
        let sender = sender.map(|mark| mark.credentials.each_ref().map(|id| id.get()));
        if reading.wants_credentials && reading.sender.is_some_and(|before| before != sender) {
            return Ok(Read::Border);
        }
        reading.sender = reading.sender.or(Some(sender));
        if let Some(files) = files {
            unlink_first(context, stream, files);
            taken(files);
            reading.rights = Some(files);
            reading.left = Some(files.reach.get().max(1));
        }
        let own_end = own.map(|mark| mark.at.get().wrapping_add(mark.len.get()).wrapping_sub(tail));
        let border = own_end.or(next.map(|mark| mark.at.get().wrapping_sub(tail))).map_or(used, |end| end as usize);
        let len = run_len.min(used).min(border).min(reading.left.map_or(usize::MAX, |left| left as usize));
        pipe::copy_out(context, stream, tail, run, len);
        let is_passed = own_end.is_some_and(|end| end as usize <= len);
        let passed = own.filter(|_| is_passed);
        if let Some(mark) = passed {
            unlink_first(context, stream, mark);
        }
        pipe::consume(stream, len, used);
        reading.left = reading.left.map(|left| left - (len as u32).min(left));
        drop(guard);
        drop(rights_guard);
        if let Some(mark) = passed {
            free(context, mark);
        }
        wait::wake(context, &stream.write_waiters);
        return Ok(Read::Bytes(len));
    }
}

/// What may be looked at together of a stream.
pub struct Ahead {
    /// Which bytes.
    pub from: pipe::Place,
    /// How many.
    pub len: usize,
    /// Who has sent them.
    pub sender: Option<Credentials>,
    /// The first mark with open files that go with them, and how many files these are.
    pub files: Option<(Seen, usize)>,
}

/// Looks at what comes next in a stream.
pub fn look_ahead(context: &impl Context, stream: &PipeRecord, wants_credentials: bool) -> Ahead {
    let _guard = lock(context, &stream.lock);
    let (tail, used) = (stream.tail.get(), pipe::used(stream));
    let (mut rights, mut end, mut sender, mut from, mut first_at) = (None, used, None, 0, 0);
    let mut at = context.object::<PacketRecord>(stream.packets[0].get());
    while let Some(mark) = at {
        let begins = mark.at.get().wrapping_sub(tail);
        let begins = if begins > used as u32 { 0 } else { begins as usize };
        if mark.rights.get() != 0 {
            if rights.is_some() {
                end = end.min(begins);
                break;
            }
            rights = Some(mark);
            end = end.min(begins + mark.reach.get() as usize);
        } else if wants_credentials {
            let own = mark.credentials.each_ref().map(|id| id.get());
            if begins > from || begins > 0 && sender != Some(own) {
                first_at = begins;
                break;
            }
            sender = Some(own);
            from = mark.at.get().wrapping_add(mark.len.get()).wrapping_sub(tail) as usize;
        }
        if begins >= end {
            break;
        }
        at = context.object(mark.next.get());
    }
    if let Some(border) = [from, first_at].into_iter().find(|&border| wants_credentials && border != 0) {
        end = end.min(border);
    }
    let rights = rights.filter(|mark| (mark.at.get().wrapping_sub(tail) as usize) < end);
    let files = rights.map(|mark| (Seen::of(stream, mark), mark.rights_count.get() as usize));
    Ahead { from: pipe::place(stream), len: end, sender, files }
}

/// Does something with what was seen in a queue, while that has it, under the queue's lock.
pub fn with_seen<R>(
    context: &impl Context,
    queue: &PipeRecord,
    seen: Seen,
    act: impl FnOnce(&'static PacketRecord) -> R,
) -> Option<R> {
    let _guard = lock(context, &queue.lock);
    seen.is_there(context, queue).then(|| act(seen.record))
}

/// Shows each record of a queue, under the queue's lock.
pub fn for_each(context: &impl Context, queue: &PipeRecord, each: impl FnMut(&'static PacketRecord)) {
    let _guard = lock(context, &queue.lock);
    chain(context, queue).for_each(each);
}

/// Leaves a record that a dead core had in hand to its queue, if that has it. `false`: nobody else has it.
pub fn is_queued(context: &impl Context, packet: &PacketRecord) -> bool {
    let Some(queue) = context.object::<PipeRecord>(packet.queue.get()) else { return false };
    // With the lock, the chain is repaired if the dead core had it.
    let _guard = lock(context, &queue.lock);
    let is_linked = chain(context, queue).any(|other| core::ptr::eq(other, packet));
    if is_linked {
        packet.holder.store(0, Ordering::Release);
    }
    is_linked
}

fn chain<C: Context>(context: &C, queue: &PipeRecord) -> impl Iterator<Item = &'static PacketRecord> {
    let first = context.object::<PacketRecord>(queue.packets[0].get());
    core::iter::successors(first, |packet| context.object(packet.next.get()))
}

/// The queue's lock is held, as by the two below.
fn link(context: &impl Context, queue: &'static PipeRecord, packet: &'static PacketRecord) {
    packet.next.set(0);
    packet.queue.set(context.raw(queue));
    in_order();
    match context.object::<PacketRecord>(queue.packets[1].get()) {
        Some(last) => last.next.set(context.raw(packet)),
        None => queue.packets[0].set(context.raw(packet)),
    }
    in_order();
    queue.packets[1].set(context.raw(packet));
    queue.cost.set(queue.cost.get().saturating_add(cost(packet)));
}

/// The first record is in this core's hand from now on.
fn unlink_first(context: &impl Context, queue: &PipeRecord, first: &PacketRecord) {
    first.holder.store(u32::from(context.core().0) + 1, Ordering::Relaxed);
    in_order();
    queue.packets[0].set(first.next.get());
    if first.next.get() == 0 {
        queue.packets[1].set(0);
    }
    in_order();
    first.queue.set(0);
    queue.cost.set(queue.cost.get().saturating_sub(cost(first)));
    if has_packets(queue) {
        queue.tail.set(queue.tail.get().wrapping_add(1));
    }
}

/// Repairs the list of a pipe whose lock a dead core held and this one has now. The chain says which packets there are; a mark whose bytes were not written
/// yet is none.
pub(crate) fn recover(context: &impl Context, queue: &PipeRecord) {
    let (mut last, mut count, mut total) = (0, 0_u32, 0_u32);
    let (used, is_of_packets) = (pipe::used(queue) as u32, has_packets(queue));
    let mut at = context.object::<PacketRecord>(queue.packets[0].get());
    while let Some(packet) = at {
        let begins = packet.at.get().wrapping_sub(queue.tail.get());
        let has_bytes = begins < used || begins > PIPE_CAPACITY as u32;
        if !is_of_packets && !has_bytes {
            let link = context.object::<PacketRecord>(last).map_or(&queue.packets[0], |before| &before.next);
            link.set(0);
            break;
        }
        last = context.raw(packet);
        count += 1;
        total += cost(packet);
        at = context.object(packet.next.get());
    }
    queue.packets[1].set(last);
    queue.cost.set(total);
    if is_of_packets {
        queue.tail.set(queue.head.get().wrapping_sub(count));
    }
}
