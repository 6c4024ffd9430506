//! Fixed-size kernel objects, one cache per type, shared by all islands.
//!
//! A frame is cut into objects of one class; its record says how many are free, and which is the first. Free objects name the next one of their frame in their
//! first word. Frames with free objects are in a list of their class, so all here takes the same time whatever there is.
//!
//! Memory is type-stable for as long as a core may look into it: a stale reference still finds an object of the right type. So a frame all of whose objects
//! are free is first *retired*: it is cut no more, and waits. It goes back when every core has [passed](crate::shootdown::pass) a place where it has no
//! reference, once for many frames ([`return_retired`]). Each class keeps a few empty frames ([`KEPT`]), so that who takes and gives back objects in turn
//! takes and gives back no frames.

use motet_layout::{
    AwayRecord, Cell64, ClockRecord, CrossingRecord, DmaFile, EntryRecord, EpollRecord, EventRecord, FatProgram,
    FileRecord, FilesRecord, Frame, InodeRecord, InodeWatch, InotifyRecord, IpcMessage, IpcObject, IpcUndo,
    IpcUndoList, IpcUser, KeptRecord, MoreNodes, OutgoingRecord, OwnerRecord, PAGE_SIZE, PacketRecord, PipeRecord,
    Pool, PoolSafe, PosixTimerRecord, ProcessRecord, PtyRecord, QueuedSignal, RangeNode, RangeRecord, SLAB_FRAME,
    SignalActions, SlabCache, SocketRecord, SpaceRecord, ThreadRecord, ToldFrame, UserRecord, VcpuRecord, VmRecord,
    VmaRecord, WatchRecord, handshake::then_look, in_order, sync::Ordering,
};

use crate::{
    Context,
    lock::{has_died, holder_word, lock},
    memory::{alloc_common_zeroed_frame, frame_record, release_frame},
    orphans::pass_all,
};

/// Empty frames that a class keeps. Models, and hosted islands that schedule at each operation, have few objects.
pub const KEPT: u32 = if cfg!(motet_model) { 1 } else { 32 };
/// So many retired frames of a class are worth that a core waits for all others which is idle, or looks what is due between two threads.
pub const RETURNED_AT_ONCE: u32 = if cfg!(motet_model) { 1 } else { 32 };
/// And so many, that a core does whose thread is about to return to its program.
pub const RETURNED_IN_BETWEEN: u32 = if cfg!(motet_model) { 2 } else { 512 };
/// Frames that go back while the class is locked once.
pub const RELEASED_AT_ONCE: u32 = 16;

/// Frames of the pool that are looked at before others may come, by who looks for objects that are in use.
const LOOKED_AT_ONCE: u64 = 64;

/// A type with a cache of its own.
pub trait SlabObject: PoolSafe {
    /// Index of its cache in the header; distinct for each type, but for those that are told apart by what they say.
    const CLASS: usize;
    /// Bytes, from the start of the object, that need not be zero in a new object.
    const DIRTY_LEN: usize = 0;
}

macro_rules! classes {
    ($($class:literal $type:ty $(, dirty $dirty:expr)?;)*) => {
        $(impl SlabObject for $type {
            const CLASS: usize = $class;
            $(const DIRTY_LEN: usize = $dirty;)?
        })*
    };
}
classes! {
    0 ThreadRecord, dirty 2048;
    1 ProcessRecord;
    2 SignalActions;
    3 SpaceRecord;
    4 VmaRecord;
    5 InodeRecord;
    6 EntryRecord;
    7 FileRecord;
    8 FilesRecord;
    9 PipeRecord;
    10 EventRecord;
    11 CrossingRecord;
    12 FatProgram;
    13 QueuedSignal;
    14 EpollRecord;
    15 WatchRecord;
    16 ClockRecord;
    17 RangeRecord;
    18 SocketRecord;
    19 RangeNode;
    20 MoreNodes;
    21 UserRecord;
    22 DmaFile;
    23 VmRecord;
    24 VcpuRecord;
    25 PacketRecord;
    26 OutgoingRecord;
    27 AwayRecord;
    28 KeptRecord;
    29 PtyRecord;
    30 PosixTimerRecord;
    // Of one size, and with one class: each says itself what it is.
    31 IpcObject;
    31 IpcMessage;
    31 IpcUndo;
    31 IpcUndoList;
    31 IpcUser;
    32 InotifyRecord;
    33 InodeWatch;
    34 ToldFrame, dirty size_of::<ToldFrame>();
    35 OwnerRecord;
}

/// What the record of a frame that is cut into objects says of these.
#[derive(Clone, Copy)]
struct Cut {
    /// How many are free.
    free: u32,
    /// The number of the first free one, if there is any.
    first: u32,
}

const CLASS: u32 = 0xff;
const FREE_SHIFT: u32 = 8;
const FIRST_SHIFT: u32 = 16;
const NUMBER: u32 = 0xff;
/// No class has more objects in a frame: their numbers, and how many there are, have eight bits.
const OBJECTS_MAX: u64 = 64;

impl Cut {
    #[inline(always)]
    const fn of(word: u32) -> Self {
        Self { free: word >> FREE_SHIFT & NUMBER, first: word >> FIRST_SHIFT & NUMBER }
    }

    #[inline(always)]
    const fn word<T: SlabObject>(self) -> u32 {
        mark::<T>() | self.free << FREE_SHIFT | self.first << FIRST_SHIFT
    }
}

/// Objects of a type in a frame.
const fn per_frame<T: SlabObject>() -> u32 {
    const { assert!(size_of::<T>() as u64 >= PAGE_SIZE / OBJECTS_MAX && size_of::<T>() as u64 <= PAGE_SIZE) };
    PAGE_SIZE as u32 / size_of::<T>() as u32
}

/// A new object, zeroed (but for [`SlabObject::DIRTY_LEN`]); `None` when memory is exhausted.
pub fn alloc<T: SlabObject>(context: &impl Context) -> Option<&'static T> {
    let pool = context.pool();
    let cache = &pool.header().slabs[T::CLASS];
    let guard = lock(context, &cache.lock);
    let (frame, cut) = match first_partial::<T>(pool, cache) {
        Some(found) => found,
        None => refill::<T>(context)?,
    };
    let addr = frame.addr().add(u64::from(cut.first) * size_of::<T>() as u64);
    let next = pool.at::<Cell64>(addr).get() as u32 & NUMBER;
    frame_record(pool, frame).synced.store(Cut { free: cut.free - 1, first: next }.word::<T>(), Ordering::Relaxed);
    in_order();
    cache.in_use.set(cache.in_use.get() + 1);
    if cut.free == per_frame::<T>() {
        cache.empty.set(cache.empty.get() - 1);
    }
    if cut.free == 1 {
        unlink(pool, cache, frame);
    }
    drop(guard);
    pool.zero(addr.add(T::DIRTY_LEN as u64), size_of::<T>() - T::DIRTY_LEN);
    Some(pool.at(addr))
}

/// Frees an object. The caller holds the last reference.
pub fn free<T: SlabObject>(context: &impl Context, object: &'static T) {
    let pool = context.pool();
    let cache = &pool.header().slabs[T::CLASS];
    let addr = pool.addr_of(object);
    let frame = Frame((addr.0 / PAGE_SIZE) as u32);
    let record = frame_record(pool, frame);
    let guard = lock(context, &cache.lock);
    let word = record.synced.load(Ordering::Relaxed);
    let cut = Cut::of(word);
    if word & (SLAB_FRAME | CLASS) != mark::<T>() || cut.free >= per_frame::<T>() {
        // It is no object of this type, or free already: another island has written that.
        drop(guard);
        return context.damaged(addr.0);
    }
    pool.at::<Cell64>(addr).set(u64::from(cut.first));
    in_order();
    let first = (addr.0 % PAGE_SIZE / size_of::<T>() as u64) as u32;
    record.synced.store(Cut { free: cut.free + 1, first }.word::<T>(), Ordering::Relaxed);
    in_order();
    cache.in_use.set(cache.in_use.get() - 1);
    let is_empty = cut.free + 1 == per_frame::<T>();
    if is_empty && cache.empty.get() >= KEPT {
        if cut.free != 0 {
            unlink(pool, cache, frame);
        }
        let retired = retire::<T>(pool, cache, frame);
        drop(guard);
        return tell_of_retired(context, retired);
    }
    if is_empty {
        cache.empty.set(cache.empty.get() + 1);
    }
    if cut.free == 0 {
        link(pool, cache, frame);
    }
}

/// All objects of a type, in use or not; those that are not have had their first words changed. For repairs. The caller does not
/// [pass](crate::shootdown::pass) while it has one of them.
pub fn all<T: SlabObject>(context: &impl Context) -> impl Iterator<Item = &'static T> {
    let pool = context.pool();
    let size = size_of::<T>() as u64;
    frames_of(pool, mark::<T>())
        .flat_map(move |frame| (0..PAGE_SIZE / size).map(move |index| pool.at(frame.addr().add(index * size))))
}

/// Objects of a type that are in use, from a place among all objects on (0: from the first one): what `look` finds first in one of them, and the place right behind it,
/// `None`: there are no more. A few frames are looked at, so there may be nothing, and a place to go on from. Nobody takes or gives back objects of the type
/// while `look` has one, which takes no locks. A new one may still have the words of its predecessor.
pub fn look_from<T: SlabObject, R>(
    context: &impl Context,
    from: u64,
    mut look: impl FnMut(&'static T) -> Option<R>,
) -> (Option<R>, Option<u64>) {
    let (pool, per_frame, size) = (context.pool(), u64::from(per_frame::<T>()), size_of::<T>() as u64);
    let frames = pool.len() / PAGE_SIZE;
    let first = (from / per_frame).min(frames);
    let last = (first + LOOKED_AT_ONCE).min(frames);
    let class_of =
        |frame: u64| frame_record(pool, Frame(frame as u32)).synced.load(Ordering::Relaxed) & (SLAB_FRAME | CLASS);
    let Some(found) = (first..last).find(|&frame| class_of(frame) == mark::<T>()) else {
        return (None, (last < frames).then_some(last * per_frame));
    };
    let behind = (found + 1 < frames).then_some((found + 1) * per_frame);
    let _guard = lock(context, &pool.header().slabs[T::CLASS].lock);
    if class_of(found) != mark::<T>() {
        return (None, behind); // it has just been given back
    }
    let frame = Frame(found as u32);
    let free = listed_free(pool, frame, size as u32);
    for index in (if found == first { from % per_frame } else { 0 })..per_frame {
        let is_free = free >> index & 1 != 0;
        if !is_free && let Some(told) = look(pool.at(frame.addr().add(index * size))) {
            return (Some(told), Some(found * per_frame + index + 1));
        }
    }
    (None, behind)
}

/// The frames that are cut into objects of a class.
fn frames_of(pool: Pool, mark: u32) -> impl Iterator<Item = Frame> {
    let is_of_class =
        move |frame: &Frame| frame_record(pool, *frame).synced.load(Ordering::Relaxed) & (SLAB_FRAME | CLASS) == mark;
    (0..(pool.len() / PAGE_SIZE) as u32).map(Frame).filter(is_of_class)
}

/// How many objects are free in a frame of a class (by its number), of which it has so many; `None`: it is not cut into such. For who looks whether all is well.
pub fn free_in(pool: Pool, class: usize, frame: Frame) -> Option<u32> {
    let word = frame_record(pool, frame).synced.load(Ordering::Relaxed);
    (word & (SLAB_FRAME | CLASS) == SLAB_FRAME | class as u32).then(|| Cut::of(word).free)
}

/// How many different objects of `size` bytes the list of a frame's free ones has: as many as [`free_in`] says, unless one was given back twice.
pub fn listed_in(pool: Pool, frame: Frame, size: u32) -> u32 {
    listed_free(pool, frame, size).count_ones()
}

/// A bit for each object of a frame that the list of its free ones has.
fn listed_free(pool: Pool, frame: Frame, size: u32) -> u64 {
    let per_frame = (PAGE_SIZE as u32).checked_div(size).unwrap_or(0);
    let cut = Cut::of(frame_record(pool, frame).synced.load(Ordering::Relaxed));
    let (mut seen, mut at) = (0_u64, cut.first);
    for _ in 0..cut.free {
        if at >= per_frame || seen >> at & 1 != 0 {
            break;
        }
        seen |= 1 << at;
        at = pool.at::<Cell64>(frame.addr().add(u64::from(at * size))).get() as u32 & NUMBER;
    }
    seen
}

/// What the record of a frame says that is cut into objects of a type.
const fn mark<T: SlabObject>() -> u32 {
    SLAB_FRAME | T::CLASS as u32
}

/// Whether there may be retired frames.
#[inline(always)]
pub fn has_retired(context: &impl Context) -> bool {
    context.pool().header().slabs_retired.load(Ordering::Relaxed) != 0
}

/// Gives retired frames back, of all classes, when all cores have passed. This core is at such a place, too. `is_due` is asked after every few frames, with no lock held:
/// `true` leaves the rest for the next call, of any core. `false`: there is such a rest.
#[inline(always)]
pub fn return_retired(context: &impl Context, is_due: impl FnMut() -> bool) -> bool {
    !has_retired(context) || return_all(context, is_due)
}

#[cold]
#[inline(never)]
fn return_all(context: &impl Context, mut is_due: impl FnMut() -> bool) -> bool {
    let header = context.pool().header();
    header.slabs_retired.store(0, Ordering::Relaxed);
    then_look(); // who has left a rest since says so afterwards
    let mut taken = 0_u64;
    for (class, cache) in header.slabs.iter().enumerate() {
        if cache.retired.get() != 0 || cache.waiting.get() != 0 {
            taken |= u64::from(begin_waiting(context, cache)) << class;
        }
    }
    if taken == 0 {
        return true;
    }
    pass_all(context);
    let is_taken = |(class, cache)| (taken >> class & 1 != 0).then_some(cache);
    let mut all = header.slabs.iter().enumerate().filter_map(is_taken);
    while let Some(cache) = all.next() {
        while release_some(context, cache) {
            if is_due() {
                // First as well: this core may die in between.
                header.slabs_retired.store(1, Ordering::Relaxed);
                [cache].into_iter().chain(all).for_each(|cache| leave_rest(context, cache));
                // Whoever comes now may go on.
                header.slabs_retired.store(1, Ordering::Release);
                return false;
            }
        }
    }
    true
}

/// This core waits no more for what waits: it may sleep for long, or have other things to do.
fn leave_rest(context: &impl Context, cache: &SlabCache) {
    let _guard = lock(context, &cache.lock);
    cache.waiter.set(0);
}

/// From now on this core waits for what is retired, or for what another one has left. `false`: another one that lives waits for others.
fn begin_waiting(context: &impl Context, cache: &SlabCache) -> bool {
    let _guard = lock(context, &cache.lock);
    let (is_new, waiter) = (cache.waiting.get() == 0, cache.waiter.get());
    if !is_new && waiter != 0 && waiter != holder_word(context) && !has_died(context, waiter) {
        return false;
    }
    // First: what waits belongs to whom this names.
    cache.waiter.set(holder_word(context));
    in_order();
    if is_new {
        cache.waiting.set(cache.retired.get());
        in_order();
        cache.retired.set(0);
        cache.retired_count.set(0);
    }
    true
}

/// All cores have passed. `false`: there is nothing left that waits.
fn release_some(context: &impl Context, cache: &SlabCache) -> bool {
    let pool = context.pool();
    let _guard = lock(context, &cache.lock);
    for _ in 0..RELEASED_AT_ONCE {
        let frame = Frame(cache.waiting.get());
        if frame.is_none() {
            // What was retired meanwhile, others have left to this core.
            if cache.retired_count.get() >= RETURNED_AT_ONCE {
                context.pool().header().slabs_retired.store(1, Ordering::Relaxed);
            }
            return false;
        }
        cache.waiting.set(frame_record(pool, frame).next.get());
        in_order();
        release_frame(context, frame);
    }
    true
}

/// A frame is cut no more; how many these are now. It is in no list.
#[cold]
fn retire<T: SlabObject>(pool: Pool, cache: &SlabCache, frame: Frame) -> u32 {
    let record = frame_record(pool, frame);
    // From now on, who goes through all objects does not find these.
    record.synced.store(0, Ordering::Relaxed);
    cache.total.set(cache.total.get() - per_frame::<T>());
    record.next.set(cache.retired.get());
    in_order();
    cache.retired.set(frame.0);
    cache.retired_count.set(cache.retired_count.get() + 1);
    cache.retired_count.get()
}

#[cold]
fn tell_of_retired(context: &impl Context, retired: u32) {
    if retired.is_multiple_of(RETURNED_AT_ONCE) {
        context.pool().header().slabs_retired.store(1, Ordering::Relaxed);
    }
    if retired.is_multiple_of(RETURNED_IN_BETWEEN) {
        context.objects_retired();
    }
}

/// The first frame with free objects.
#[inline(always)]
fn first_partial<T: SlabObject>(pool: Pool, cache: &SlabCache) -> Option<(Frame, Cut)> {
    let frame = Frame(cache.partial.get());
    if frame.is_none() {
        return None;
    }
    let word = frame_record(pool, frame).synced.load(Ordering::Relaxed);
    let cut = Cut::of(word);
    if word & (SLAB_FRAME | CLASS) != mark::<T>() || cut.free == 0 || cut.first >= per_frame::<T>() {
        cache.partial.set(0); // another island has written that
        return None;
    }
    Some((frame, cut))
}

/// Puts a frame first in its class's list.
fn link(pool: Pool, cache: &SlabCache, frame: Frame) {
    let (record, next) = (frame_record(pool, frame), cache.partial.get());
    record.prev.set(0);
    record.next.set(next);
    if next != 0 {
        frame_record(pool, Frame(next)).prev.set(frame.0);
    }
    cache.partial.set(frame.0);
}

/// Takes a frame out of its class's list.
fn unlink(pool: Pool, cache: &SlabCache, frame: Frame) {
    let record = frame_record(pool, frame);
    let (prev, next) = (record.prev.get(), record.next.get());
    match prev {
        0 => cache.partial.set(next),
        prev => frame_record(pool, Frame(prev)).next.set(next),
    }
    if next != 0 {
        frame_record(pool, Frame(next)).prev.set(prev);
    }
}

/// Repairs a cache whose lock a dead core held and this one has now. Which objects are free, the frames say; their list and all numbers are made anew. An
/// object that was just taken out or given back, or a frame that was just cut or retired, is lost.
pub(crate) fn recover(context: &impl Context, cache: &SlabCache) {
    let pool = context.pool();
    let first = pool.header().slabs.each_ref();
    let Some(class) = first.iter().position(|other| core::ptr::eq(*other, cache)) else { return };
    let per_frame = (PAGE_SIZE as u32).checked_div(cache.object_size.get()).unwrap_or(0);
    let (mut total, mut free, mut empty) = (0, 0, 0);
    cache.partial.set(0);
    for frame in frames_of(pool, SLAB_FRAME | class as u32) {
        let cut = Cut::of(frame_record(pool, frame).synced.load(Ordering::Relaxed));
        (total, free, empty) = (total + per_frame, free + cut.free, empty + u32::from(cut.free == per_frame));
        if cut.free != 0 {
            link(pool, cache, frame);
        }
    }
    cache.total.set(total);
    cache.in_use.set(total - free.min(total));
    cache.empty.set(empty);
    if cache.retired.get() == cache.waiting.get() {
        cache.retired.set(0); // it had just begun to wait for them
    }
    let (mut retired, mut at) = (0, cache.retired.get());
    while at != 0 && retired < pool.header().memory.block_count.get() * pool.header().memory.block_frames.get() {
        (retired, at) = (retired + 1, frame_record(pool, Frame(at)).next.get());
    }
    cache.retired_count.set(retired);
}

/// Cuts a frame into objects, and puts it into the list. The cache's lock is held.
#[cold]
fn refill<T: SlabObject>(context: &impl Context) -> Option<(Frame, Cut)> {
    let pool = context.pool();
    let cache = &pool.header().slabs[T::CLASS];
    // Of zeroes, for who goes through all objects.
    let frame = alloc_common_zeroed_frame(context)?;
    cache.object_size.set(size_of::<T>() as u32);
    for index in 1..u64::from(per_frame::<T>()) {
        pool.at::<Cell64>(frame.addr().add((index - 1) * size_of::<T>() as u64)).set(index);
    }
    in_order();
    let cut = Cut { free: per_frame::<T>(), first: 0 };
    frame_record(pool, frame).synced.store(cut.word::<T>(), Ordering::Relaxed);
    in_order();
    cache.total.set(cache.total.get() + per_frame::<T>());
    cache.empty.set(cache.empty.get() + 1);
    link(pool, cache, frame);
    Some((frame, cut))
}
