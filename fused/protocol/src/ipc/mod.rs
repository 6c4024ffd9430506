//! System V IPC, and POSIX message queues: which segments, sets of semaphores and queues of messages there are, by id, by key and by file, and what each user has of them.
//!
//! All of it is under one lock, the header's `ipc.lock`: an object is found, looked at and changed while nobody removes it. Threads enter wait queues of an object
//! with the lock held, too, so they have seen what the next change is going to wake them for.
//!
//! An id is a place in a table and a number that changes when places are used again. The table's words are the truth: what is in no table is freed after a death.

pub mod ends;
pub mod message;
pub mod posix;
mod recover;
pub mod semaphore;
pub mod undo;

use core::cmp::Ordering::Less;

use motet_abi::Errno;
use motet_layout::{
    Cell32, Frame, IPC_DESTROYED, IPC_FIRST_KIND, IPC_PER_FRAME, IPC_POSIX_QUEUE, IPC_POSIX_QUEUES, IPC_QUEUES,
    IPC_SEGMENTS, IPC_SEMAPHORES_PER_FRAME, IPC_SETS, IPC_TABLE_FRAMES, IPC_USER, IPC_WORDS, InodeRecord, IpcObject,
    IpcState, IpcTable, IpcUser, PAGE_SIZE, PoolAddr, TreeLinks, in_order, sync::Ordering,
};

pub use recover::{recover, settle};

use crate::{
    Context, fs,
    lock::{Guard, lock},
    memory::{alloc_common_zeroed_frame, release_frame},
    slab,
    treap::{Tree, TreeNode},
    wait,
};

/// Bits of an id that are its place.
const PLACE_BITS: u32 = 15;
/// Sequence numbers are below this, so that ids are no negative numbers.
const SEQUENCES: u32 = 1 << (31 - PLACE_BITS);
/// What a look at a place of a table costs, in instructions.
const LOOKED: u64 = 10;
/// What freeing a record costs.
const FREED: u64 = 300;
/// Bytes of a record.
pub const RECORD_SIZE: u64 = size_of::<IpcObject>() as u64;
/// Of how many objects of a kind a user who is not privileged may have one, and such users together all but one.
const SHARE: u32 = 4;
const LEFT: u32 = 8;

/// A kind of object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A segment of shared memory.
    Segment = IPC_SEGMENTS as isize,
    /// A set of semaphores.
    Set = IPC_SETS as isize,
    /// A queue of messages.
    Queue = IPC_QUEUES as isize,
    /// One that a file names.
    Posix = IPC_POSIX_QUEUES as isize,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Segment, Self::Set, Self::Queue, Self::Posix];

    /// How many there may be (`SHMMNI`, `SEMMNI`, `MSGMNI`).
    pub const fn most(self) -> u32 {
        match self {
            Self::Segment => 4096,
            Self::Set | Self::Queue => 32000,
            Self::Posix => 1024,
        }
    }

    const fn code(self) -> u32 {
        match self {
            Self::Segment | Self::Set | Self::Queue => IPC_FIRST_KIND + self as u32,
            Self::Posix => IPC_POSIX_QUEUE,
        }
    }

    fn of(object: &IpcObject) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == object.kind.get())
    }

    const fn has_messages(self) -> bool {
        matches!(self, Self::Queue | Self::Posix)
    }
}

const _: () = assert!(Kind::Set.most() as usize <= IPC_TABLE_FRAMES * IPC_PER_FRAME);
const _: () = assert!(IPC_WORDS * IPC_SEMAPHORES_PER_FRAME >= semaphore::SET_MAX as usize);

/// By whose rights an object is made, and what for.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    /// The user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// The process.
    pub pid: u32,
    /// No limits of users are this one's.
    pub is_privileged: bool,
    /// Seconds since 1970.
    pub now_s: u64,
}

/// All there is of it.
pub fn state(context: &impl Context) -> &'static IpcState {
    &context.pool().header().ipc
}

/// Takes the lock that guards it. All functions here want it held, but for [`left`] and [`detached`].
#[track_caller]
pub fn lock_all(context: &impl Context) -> Guard<'static> {
    lock(context, &state(context).lock)
}

/// The table of a kind.
pub fn table(context: &impl Context, kind: Kind) -> &'static IpcTable {
    &state(context).tables[kind as usize]
}

/// The object with an id.
pub fn find(context: &impl Context, kind: Kind, id: u32) -> Option<&'static IpcObject> {
    at(context, kind, id & ((1 << PLACE_BITS) - 1)).filter(|object| object.id.get() == id)
}

/// The object at a place.
pub fn at(context: &impl Context, kind: Kind, place: u32) -> Option<&'static IpcObject> {
    if place >= kind.most() {
        return None;
    }
    let object = context.object::<IpcObject>(u64::from(slot(context, table(context, kind), place)?.get()) << 6)?;
    (object.kind.get() == kind.code()).then_some(object)
}

/// The first object at a place or behind it, and the place. A few places are looked at: `Err` says where to go on.
pub fn next_from(
    context: &impl Context,
    kind: Kind,
    place: u32,
    limit: u32,
) -> Result<Option<(u32, &'static IpcObject)>, u32> {
    let high = table(context, kind).high.get();
    let stop = high.min(place.saturating_add(limit));
    let found = (place..stop).find_map(|place| at(context, kind, place).map(|object| (place, object)));
    if found.is_none() && stop < high { Err(stop) } else { Ok(found) }
}

/// The object with a key, which is not 0.
pub fn find_key(context: &impl Context, kind: Kind, key: u32) -> Option<&'static IpcObject> {
    keys(context, kind).first_from(|object| object.key.get() < key).filter(|object| object.key.get() == key)
}

/// The highest place in use; 0 also if none is.
pub fn highest(context: &impl Context, kind: Kind) -> u32 {
    table(context, kind).high.get().saturating_sub(1)
}

impl TreeNode for IpcObject {
    fn links(&self) -> &TreeLinks {
        &self.links
    }

    fn is_before(&self, other: &Self) -> bool {
        self.key.get().cmp(&other.key.get()) == Less
    }
}

fn keys<C: Context>(context: &C, kind: Kind) -> Tree<'_, C, IpcObject> {
    Tree::new(context, &table(context, kind).keys)
}

/// Makes an object with a key (0: none) and a mode. `charge`: bytes that it is counted for, beside its record; `fill` says what it is. Its size goes into the
/// table's total.
///
/// # Errors
/// `ENOSPC`: there are too many, or the user has; `ENOMEM`; what `fill` fails with.
pub fn make(
    context: &impl Context,
    kind: Kind,
    (key, mode): (u32, u32),
    maker: &Maker,
    charge: u64,
    fill: impl FnOnce(&'static IpcObject) -> Result<(), Errno>,
) -> Result<&'static IpcObject, Errno> {
    let table = table(context, kind);
    let own = find_user(context, maker.uid).map_or(0, |user| user.objects[kind as usize].get());
    let is_free =
        maker.is_privileged || own < kind.most() / SHARE && table.count.get() < kind.most() - kind.most() / LEFT;
    let place = free_place(context, kind).filter(|_| is_free).ok_or(Errno::ENOSPC)?;
    let slot = make_slot(context, table, place)?;
    let charge = charge.saturating_add(RECORD_SIZE);
    let user = self::charge(context, maker.uid, charge, maker.is_privileged)?;
    let object = slab::alloc::<IpcObject>(context);
    let Some(object) = object else {
        discharge(context, user, charge);
        trim(context, table);
        return Err(Errno::ENOMEM);
    };
    object.kind.set(kind.code());
    object.mode.set(mode);
    for (ids, id) in [([&object.uid, &object.cuid], maker.uid), ([&object.gid, &object.cgid], maker.gid)] {
        ids.into_iter().for_each(|word| word.set(id));
    }
    object.changed_s.set(maker.now_s);
    object.user.set(user);
    object.charge.set(charge);
    if let Err(errno) = fill(object) {
        discharge(context, user, charge);
        give_back(context, object);
        trim(context, table);
        return Err(errno);
    }
    if place < table.last.get() {
        table.sequence.set((table.sequence.get() + 1) % SEQUENCES);
    }
    table.last.set(place + 1);
    object.id.set(table.sequence.get() << PLACE_BITS | place);
    object.key.set(key);
    in_order();
    slot.set((context.raw(object) >> 6) as u32); // from now on it is there
    in_order();
    count(context, kind, object, true);
    table.high.set(table.high.get().max(place + 1));
    if key != 0 {
        keys(context, kind).insert(object);
    }
    Ok(object)
}

/// Removes an object: of a set what it has to undo, of a queue its messages. Those who wait look again, and find that it has gone.
pub fn remove(context: &impl Context, object: &'static IpcObject) {
    let Some(kind) = Kind::of(object) else { return };
    let table = table(context, kind);
    let place = object.id.get() & ((1 << PLACE_BITS) - 1);
    if let Some(slot) = slot(context, table, place) {
        slot.set(0);
    }
    in_order();
    forget_key(context, object);
    count(context, kind, object, false);
    discharge(context, object.user.get(), object.charge.get());
    while table.high.get() > 0 && slot(context, table, table.high.get() - 1).is_none_or(|slot| slot.get() == 0) {
        table.high.set(table.high.get() - 1);
        context.spend_locked(LOOKED);
    }
    give_back(context, object);
    trim(context, table);
}

/// Nobody finds an object by its key any more.
pub fn forget_key(context: &impl Context, object: &'static IpcObject) {
    if let Some(kind) = Kind::of(object).filter(|_| object.key.get() != 0) {
        keys(context, kind).remove(object);
        in_order();
        object.key.set(0);
    }
}

/// Frees an object that is in no table, and what it has.
fn give_back(context: &impl Context, object: &'static IpcObject) {
    // Those who wait must not stay linked in memory that becomes another object.
    for queue in &object.waiters {
        wait::wake(context, queue);
    }
    match Kind::of(object) {
        Some(Kind::Set) => {
            undo::forget_set(context, object);
            semaphore::release(context, object);
        }
        Some(Kind::Queue | Kind::Posix) => {
            while let Some(message) = message::take_first(context, object) {
                message::free(context, message);
                context.spend_locked(FREED);
            }
        }
        Some(Kind::Segment) => {
            if let Some(pages) = context.object::<InodeRecord>(object.inode.get()) {
                pages.segment.store(0, Ordering::Relaxed);
                object.inode.set(0);
                in_order();
                fs::put(context, pages);
            }
        }
        None => {}
    }
    object.kind.set(0);
    in_order();
    slab::free(context, object);
}

/// A mapping of a segment has gone, with its reference to the pages: the segment goes, if it is marked as destroyed and this was the last one. The lock is not
/// held. `segment`: what the pages' inode has said (pool address).
#[cold]
pub fn left(context: &impl Context, segment: u64) {
    let _guard = lock_all(context);
    // It may have gone meanwhile, and be another one: that is then looked at.
    if let Some(segment) = context.object::<IpcObject>(segment)
        && is_listed(context, segment)
    {
        remove_unless_attached(context, segment);
    }
}

/// Removes a segment that is marked as destroyed, unless somebody has it attached.
pub fn remove_unless_attached(context: &impl Context, segment: &'static IpcObject) {
    let is_destroyed = segment.mode.get() & IPC_DESTROYED != 0 && Kind::of(segment) == Some(Kind::Segment);
    if is_destroyed && attached(context, segment) == 0 {
        remove(context, segment);
    }
}

/// Whether an object is in its table.
fn is_listed(context: &impl Context, object: &'static IpcObject) -> bool {
    let found = Kind::of(object).and_then(|kind| find(context, kind, object.id.get()));
    found.is_some_and(|found| core::ptr::eq(found, object))
}

/// A process has detached a segment (pages of which it has had mapped). The caller has a reference to the inode still.
#[cold]
pub fn detached(context: &impl Context, inode: &InodeRecord, pid: u32, now_s: u64) {
    if let Some(segment) = context.object::<IpcObject>(inode.segment.load(Ordering::Relaxed)) {
        segment.pids[1].set(pid);
        segment.times_s[1].set(now_s);
    }
}

/// How often a segment is attached: each mapping has a reference to its pages, and so has the segment.
pub fn attached(context: &impl Context, segment: &IpcObject) -> u64 {
    let refs = context.object::<InodeRecord>(segment.inode.get()).map_or(0, |inode| inode.refs.load(Ordering::Relaxed));
    u64::from(refs.saturating_sub(1))
}

/// Counts an object in its table and for its user, or no more.
fn count(context: &impl Context, kind: Kind, object: &IpcObject, is_new: bool) {
    let table = table(context, kind);
    let change = |count: u32| if is_new { count + 1 } else { count.saturating_sub(1) };
    table.count.set(change(table.count.get()));
    let size = match kind {
        Kind::Segment => object.size.get().next_multiple_of(PAGE_SIZE),
        Kind::Set | Kind::Queue | Kind::Posix => object.size.get(),
    };
    let changed = |sum: u64| if is_new { sum.saturating_add(size) } else { sum.saturating_sub(size) };
    table.total.set(changed(table.total.get()));
    if let Some(user) = context.object::<IpcUser>(object.user.get()) {
        let own = &user.objects[kind as usize];
        own.set(change(own.get()));
        if kind == Kind::Posix {
            user.queue_bytes.set(changed(user.queue_bytes.get()));
        }
    }
}

/// The lowest place that nothing has.
fn free_place(context: &impl Context, kind: Kind) -> Option<u32> {
    let table = table(context, kind);
    let high = table.high.get();
    if table.count.get() >= high {
        return Some(high).filter(|&place| place < kind.most());
    }
    let is_free = |&place: &u32| {
        context.spend_locked(LOOKED);
        slot(context, table, place).is_none_or(|slot| slot.get() == 0)
    };
    (0..kind.most()).find(is_free)
}

/// The word of a place; `None`: nothing has been there.
fn slot(context: &impl Context, table: &IpcTable, place: u32) -> Option<&'static Cell32> {
    let (frame, index) = (place as usize / IPC_PER_FRAME, place as usize % IPC_PER_FRAME);
    let frame = table.frames.get(frame)?.get();
    if frame == 0 {
        return None;
    }
    context.pool().get(Frame(frame).addr().add(4 * index as u64))
}

/// The word of a place, for which there is memory from now on.
fn make_slot(context: &impl Context, table: &IpcTable, place: u32) -> Result<&'static Cell32, Errno> {
    let frame = table.frames.get(place as usize / IPC_PER_FRAME).ok_or(Errno::ENOSPC)?;
    if frame.get() == 0 {
        frame.set(alloc_common_zeroed_frame(context).ok_or(Errno::ENOMEM)?.0);
    }
    slot(context, table, place).ok_or(Errno::ENOMEM)
}

/// A table without objects needs no memory.
fn trim(context: &impl Context, table: &IpcTable) {
    if table.count.get() != 0 {
        return;
    }
    for frame in table.frames.iter().filter(|frame| frame.get() != 0) {
        let number = Frame(frame.get());
        frame.set(0);
        in_order();
        release_frame(context, number);
    }
}

/// Bytes that a user who is not privileged may have.
pub fn user_bytes_most(context: &impl Context) -> u64 {
    context.pool().len() / 2
}

/// Counts bytes for a user, and one record that has them. The user's record (pool address).
///
/// # Errors
/// `ENOMEM`: the user has too many, or there is no memory for the count.
pub fn charge(context: &impl Context, uid: u32, bytes: u64, is_privileged: bool) -> Result<u64, Errno> {
    let user = find_user(context, uid);
    let total = user.map_or(0, |user| user.bytes.get()).saturating_add(bytes);
    if !is_privileged && total > user_bytes_most(context) {
        return Err(Errno::ENOMEM);
    }
    let user = match user {
        Some(user) => user,
        None => {
            let user = slab::alloc::<IpcUser>(context).ok_or(Errno::ENOMEM)?;
            user.kind.set(IPC_USER);
            user.id.set(uid);
            user.next.set(state(context).users.get());
            in_order();
            state(context).users.set(context.raw(user));
            user
        }
    };
    user.bytes.set(total);
    user.refs.set(user.refs.get() + 1);
    Ok(context.raw(user))
}

/// Uncounts bytes, and the record that had them. With the last one, the user's record goes.
pub fn discharge(context: &impl Context, user: u64, bytes: u64) {
    let Some(user) = context.object::<IpcUser>(user).filter(|user| user.kind.get() == IPC_USER) else { return };
    user.bytes.set(user.bytes.get().saturating_sub(bytes));
    user.refs.set(user.refs.get().saturating_sub(1));
    if user.refs.get() != 0 {
        return;
    }
    let mut place = &state(context).users;
    while let Some(other) = context.object::<IpcUser>(place.get()) {
        if core::ptr::eq(other, user) {
            place.set(user.next.get());
            in_order();
            user.kind.set(0);
            slab::free(context, user);
            return;
        }
        place = &other.next;
    }
}

fn find_user(context: &impl Context, uid: u32) -> Option<&'static IpcUser> {
    let mut at = context.object::<IpcUser>(state(context).users.get());
    while let Some(user) = at {
        if user.id.get() == uid {
            return Some(user);
        }
        context.spend_locked(LOOKED);
        at = context.object(user.next.get());
    }
    None
}

/// Takes a frame that is counted nowhere else.
fn take_frame(context: &impl Context, word: &Cell32) -> Result<(), Errno> {
    word.set(alloc_common_zeroed_frame(context).ok_or(Errno::ENOMEM)?.0);
    Ok(())
}

/// Gives such frames back.
fn release_frames(context: &impl Context, words: &[Cell32]) {
    for word in words.iter().filter(|word| word.get() != 0) {
        let frame = Frame(word.get());
        word.set(0);
        in_order();
        release_frame(context, frame);
    }
}

/// The pool address of a frame that a word names, if that is in the pool.
fn frame_at(context: &impl Context, word: &Cell32) -> Option<PoolAddr> {
    let addr = Frame(word.get()).addr();
    (word.get() != 0 && addr.0.checked_add(PAGE_SIZE).is_some_and(|end| end <= context.pool().len())).then_some(addr)
}
