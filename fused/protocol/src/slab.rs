//! Fixed-size kernel objects, one cache per type, shared by all islands.
//!
//! Memory is type-stable: a frame once cut into objects of a class stays with it, so a stale reference still finds an
//! object of the right type. Free objects are linked through their first word.

use motet_layout::{
    Cell64, ClockRecord, CrossingRecord, DmaFile, EntryRecord, EpollRecord, EventRecord, FatProgram, FileRecord,
    FilesRecord, Frame, InodeRecord, MoreNodes, PAGE_SIZE, PipeRecord, PoolAddr, PoolSafe, ProcessRecord, QueuedSignal,
    RangeNode, RangeRecord, SLAB_FRAME, SignalActions, SlabCache, SocketRecord, SpaceRecord, ThreadRecord, UserRecord,
    VcpuRecord, VmRecord, VmaRecord, WatchRecord, in_order, sync::Ordering,
};

use crate::{
    Context,
    lock::lock,
    memory::{alloc_common_zeroed_frame, frame_record},
};

/// A type with a cache of its own.
pub trait SlabObject: PoolSafe {
    /// Index of its cache in the header; distinct for each type.
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
}

/// A new object, zeroed (but for [`SlabObject::DIRTY_LEN`]); `None` when memory is exhausted.
pub fn alloc<T: SlabObject>(context: &impl Context) -> Option<&'static T> {
    let pool = context.pool();
    let cache = &pool.header().slabs[T::CLASS];
    let guard = lock(context, &cache.lock);
    if cache.free.get() == 0 {
        refill::<T>(context)?;
    }
    let addr = PoolAddr(cache.free.get());
    cache.free.set(pool.at::<Cell64>(addr).get());
    cache.in_use.set(cache.in_use.get() + 1);
    drop(guard);
    pool.zero(addr.add(T::DIRTY_LEN as u64), size_of::<T>() - T::DIRTY_LEN);
    Some(pool.at(addr))
}

/// Frees an object. The caller holds the last reference.
pub fn free<T: SlabObject>(context: &impl Context, object: &'static T) {
    let pool = context.pool();
    let cache = &pool.header().slabs[T::CLASS];
    let addr = pool.addr_of(object);
    let _guard = lock(context, &cache.lock);
    pool.at::<Cell64>(addr).set(cache.free.get());
    in_order();
    cache.free.set(addr.0);
    cache.in_use.set(cache.in_use.get() - 1);
}

/// All objects of a type, in use or not; those that are not have had their first words changed. For repairs.
pub fn all<T: SlabObject>(context: &impl Context) -> impl Iterator<Item = &'static T> {
    let pool = context.pool();
    let frames = (0..(pool.len() / PAGE_SIZE) as u32).map(Frame);
    let of_type = move |frame: &Frame| frame_record(pool, *frame).synced.load(Ordering::Relaxed) == mark::<T>();
    let size = size_of::<T>() as u64;
    frames
        .filter(of_type)
        .flat_map(move |frame| (0..PAGE_SIZE / size).map(move |index| pool.at(frame.addr().add(index * size))))
}

/// What the record of a frame says that is cut into objects of a type.
const fn mark<T: SlabObject>() -> u32 {
    SLAB_FRAME | T::CLASS as u32
}

/// Repairs a cache whose lock a dead core held and this one has now. The list is whole at any time; how many are in use is counted again. An
/// object that was just taken out or given back, or the rest of a frame that was just cut, is lost.
pub(crate) fn recover(context: &impl Context, cache: &SlabCache) {
    let (mut free, mut at) = (0, cache.free.get());
    while let Some(next) = context.pool().get::<Cell64>(PoolAddr(at)).filter(|_| free < cache.total.get()) {
        free += 1;
        at = next.get();
    }
    cache.in_use.set(cache.total.get() - free);
}

/// Cuts a frame into objects. The cache's lock is held.
#[cold]
fn refill<T: SlabObject>(context: &impl Context) -> Option<()> {
    const { assert!(size_of::<T>() <= PAGE_SIZE as usize) };
    let pool = context.pool();
    let cache = &pool.header().slabs[T::CLASS];
    // Of zeroes, for who goes through all objects.
    let frame = alloc_common_zeroed_frame(context)?;
    frame_record(pool, frame).synced.store(mark::<T>(), Ordering::Relaxed);
    cache.object_size.set(size_of::<T>() as u32);
    for index in 0..PAGE_SIZE / size_of::<T>() as u64 {
        let addr = frame.addr().add(index * size_of::<T>() as u64);
        pool.at::<Cell64>(addr).set(cache.free.get());
        cache.total.set(cache.total.get() + 1);
        in_order();
        cache.free.set(addr.0);
    }
    Some(())
}
