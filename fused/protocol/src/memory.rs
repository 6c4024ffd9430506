//! Physical memory of the pool: a global allocator of blocks over per-island allocators of frames.
//!
//! After Stramash, section 6.3: the pool is cut into blocks of a configurable size. An island owns whole blocks and
//! allocates frames from its own. When more than [`PRESSURE_PERCENT`] of its frames are in use, it takes one more block;
//! it returns entirely free blocks while its use stays below that. Unlike in Stramash, islands send each other nothing: the block table is
//! in the pool, and whichever island drops the last reference to a frame frees it into its block.
//!
//! On machines that say where memory lies ([`set_near`]), an island takes blocks near to it first, then blocks
//! near to no island, and memory near to others only when there is nothing else.
//!
//! Invariants: a frame is free in the bitmap exactly if its count is 0 and its block is owned; `free` of a block is the
//! number of its bits set; a block's bits, `free` and `next` are guarded by its owner's lock, ownership by the global one. Everything else
//! can be told from the bits and the owners, and is, when a core has died with a lock held.

mod recover;
mod runs;

pub(crate) use recover::{recover_blocks, recover_share};
pub use runs::{NoRun, alloc_run, alloc_run_on};

use core::ops::Range;

use motet_layout::sync::Ordering;

use motet_layout::{
    BLOCK_RESERVED, BlockRecord, Cell32, Cell64, DISTANCES, Frame, FrameRecord, ISLANDS_MAX, IslandMemory, MemoryState,
    PAGE_SIZE, Pool, PoolAddr, PoolHeader, in_order,
};

use crate::{Context, count, lock::lock};

/// Above this share of used frames an island takes another block.
pub const PRESSURE_PERCENT: u32 = 70;
/// Smallest pool that can hold the tables and a running system, in bytes.
pub const POOL_LEN_MIN: u64 = 32 << 20;
/// Frames in a block unless the machine description says otherwise (4 MiB).
pub const BLOCK_FRAMES_DEFAULT: u32 = 1024;
/// Files leave this share of the pool to everything else: a full disk is an error that programs survive, memory that
/// cannot be touched is not. Those of users leave more, of which they can start processes.
const FILES_LEAVE: u64 = 32;
const FILES_LEAVE_USERS: u64 = 24;
/// New processes leave this share to those that run, for the same reason; a full disk leaves room for some.
const PROCESSES_LEAVE: u64 = 64;
const PROCESSES_LEAVE_USERS: u64 = 36;
/// Users other than the superuser leave this share to it, whatever they need memory for: so it can still look, start processes and end others.
const USERS_LEAVE: u64 = 40;

/// [`distance`]: near to the island.
pub const NEAR: usize = 0;
/// [`distance`]: near to no island.
pub const NEUTRAL: usize = 1;
/// [`distance`]: near to other islands only.
pub const FAR: usize = 2;

/// Why a pool cannot be laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatError {
    /// Fewer than [`POOL_LEN_MIN`] bytes.
    TooSmall,
    /// Length not a multiple of the block size, or the block size not a power of two of at least 64 frames.
    BlockSize,
}

/// Lays out the memory tables of a zeroed pool whose length and header are set; returns the first unused byte. Called
/// once by the host. `extra` bytes are reserved after the tables, and their address is returned.
///
/// # Errors
/// When the pool is too small for its tables or the block size does not fit.
pub fn format(pool: Pool, block_frames: u32, extra: u64) -> Result<PoolAddr, FormatError> {
    if pool.len() < POOL_LEN_MIN {
        return Err(FormatError::TooSmall);
    }
    let block_len = u64::from(block_frames) * PAGE_SIZE;
    if !block_frames.is_power_of_two() || block_frames < 64 || pool.len() % block_len != 0 {
        return Err(FormatError::BlockSize);
    }
    let frames = pool.len() / PAGE_SIZE;
    let blocks = pool.len() / block_len;
    let frame_table = (size_of::<PoolHeader>() as u64).next_multiple_of(PAGE_SIZE);
    let block_table = frame_table + frames * size_of::<FrameRecord>() as u64;
    let bitmap = block_table + blocks * size_of::<BlockRecord>() as u64;
    let extra_at = (bitmap + frames / 8).next_multiple_of(PAGE_SIZE);
    let reserved = (extra_at + extra).div_ceil(block_len);
    if reserved + 2 > blocks {
        return Err(FormatError::TooSmall);
    }
    let header = pool.header();
    header.memory.block_frames.set(block_frames);
    header.memory.block_count.set(blocks as u32);
    header.memory.frames.set(frame_table);
    header.memory.blocks.set(block_table);
    header.frame_bitmap.set(bitmap);
    header.memory.free_blocks.store((blocks - reserved) as u32, Ordering::Relaxed);
    for index in 0..blocks {
        block(pool, index as u32).near.set(u32::MAX);
    }
    for index in 0..reserved {
        block(pool, index as u32).owner.store(BLOCK_RESERVED, Ordering::Relaxed);
    }
    Ok(PoolAddr(extra_at))
}

/// Says which islands a block is near to: a bit each, and [`NEAR_HOST`](motet_layout::NEAR_HOST). Called by the host
/// before anything is allocated; without it, every block is near to all.
pub fn set_near(pool: Pool, index: u32, near: u32) {
    block(pool, index).near.set(near);
}

/// How far a block that is near to the islands `near` is from an island: [`NEAR`], [`NEUTRAL`] or [`FAR`].
pub fn distance(near: u32, island: usize) -> usize {
    const ISLANDS: u32 = (1 << ISLANDS_MAX) - 1;
    match near {
        near if near >> island & 1 != 0 => NEAR,
        near if near & ISLANDS == 0 => NEUTRAL,
        _ => FAR,
    }
}

/// How far a frame is from an island (an index), as [`distance`] says it.
pub fn distance_to(pool: Pool, frame: Frame, island: usize) -> usize {
    distance(block(pool, frame.0 / pool.header().memory.block_frames.get()).near.get(), island)
}

/// Whether there is memory that is not near to an island (an index).
pub fn has_farther(pool: Pool, island: usize) -> bool {
    let blocks = pool.header().memory.block_count.get();
    (0..blocks).any(|index| distance(block(pool, index).near.get(), island) != NEAR)
}

/// Allocates a frame with one reference, contents undefined; near to this island if possible.
#[inline]
pub fn alloc_frame(context: &impl Context) -> Option<Frame> {
    alloc_frame_on(context, context.memory_index())
}

/// As [`alloc_frame`], for what other islands read and write as well: nobody caches it without being told of their stores, as long as
/// there is such memory.
#[inline]
pub fn alloc_common_frame(context: &impl Context) -> Option<Frame> {
    match context.blocks() {
        None => alloc_frame_on(context, context.common_index()),
        Some(blocks) => alloc_frame_within(context, context.memory_index(), blocks),
    }
}

/// [`alloc_common_frame`], filled with zeroes.
pub fn alloc_common_zeroed_frame(context: &impl Context) -> Option<Frame> {
    let frame = alloc_common_frame(context)?;
    context.zero_frame(frame);
    Some(frame)
}

/// The share that is nearest to the pool's own tables, which all islands use: of the first island that these are near to, or the host's.
pub fn common_share(pool: Pool) -> usize {
    let near = block(pool, 0).near.get();
    (0..ISLANDS_MAX).find(|&island| distance(near, island) == NEAR).unwrap_or(ISLANDS_MAX)
}

/// Whether an island caches a frame without being told of others' stores.
#[inline]
pub fn is_private_to(pool: Pool, frame: Frame, island: usize) -> bool {
    let record = block(pool, frame.0 / pool.header().memory.block_frames.get());
    record.private.get() >> island & 1 != 0
}

/// Whether an island caches any frame so.
pub fn caches_privately(pool: Pool, island: usize) -> bool {
    (0..pool.header().memory.block_count.get()).any(|index| block(pool, index).private.get() >> island & 1 != 0)
}

/// Says which islands cache a block without being told of others' stores: a bit each. Called by the host before the islands start.
pub fn set_private(pool: Pool, index: u32, islands: u32) {
    block(pool, index).private.set(islands);
}

/// As [`alloc_frame`], near to the island `island` (an index) and out of its blocks.
pub fn alloc_frame_on(context: &impl Context, island: usize) -> Option<Frame> {
    let pool = context.pool();
    let state = &pool.header().memory;
    if !may_take(context, state) {
        return None;
    }
    let share = &state.islands[island];
    let guard = lock(context, &share.lock);
    let owned = u64::from(share.owned_frames.load(Ordering::Relaxed));
    let used = owned - u64::from(share.free_frames.load(Ordering::Relaxed));
    if used * 100 >= owned * u64::from(PRESSURE_PERCENT) {
        take_block(context, state, island, NEUTRAL);
    }
    let frame = pop_frame(pool, share)
        .or_else(|| if take_block(context, state, island, FAR) { pop_frame(pool, share) } else { None });
    drop(guard);
    let frame = frame.or_else(|| borrow_frame(context, state))?;
    begin_use(pool, frame);
    Some(frame)
}

/// As [`alloc_frame_on`], out of these blocks (by number) and no others: those that the island has, and then free ones.
pub fn alloc_frame_within(context: &impl Context, island: usize, blocks: Range<u32>) -> Option<Frame> {
    let pool = context.pool();
    let state = &pool.header().memory;
    if !may_take(context, state) {
        return None;
    }
    let share = &state.islands[island];
    let _guard = lock(context, &share.lock);
    let is_own = |index: &u32| block(pool, *index).owner.load(Ordering::Relaxed) == island as u32 + 1;
    let has_free = |index: &u32| is_own(index) && block(pool, *index).free.get() != 0;
    let index = blocks.clone().find(has_free).or_else(|| {
        let _guard = lock(context, &state.lock);
        let index = blocks.clone().find(|index| block(pool, *index).owner.load(Ordering::Relaxed) == 0)?;
        own_block(context, state, island, index);
        Some(index)
    })?;
    let frame = pop_from(pool, index)?;
    subtract(&share.free_by_distance[distance(block(pool, index).near.get(), island)], 1);
    share.free_frames.fetch_sub(1, Ordering::Relaxed);
    begin_use(pool, frame);
    Some(frame)
}

/// Whether who asks may have memory: if it gets scarce, what is left is the superuser's.
#[inline(always)]
fn may_take(context: &impl Context, state: &MemoryState) -> bool {
    u64::from(state.free_blocks.load(Ordering::Relaxed)) * USERS_LEAVE > u64::from(state.block_count.get())
        || may_take_last(context)
}

#[cold]
#[inline(never)]
fn may_take_last(context: &impl Context) -> bool {
    let pool = context.pool();
    !context.is_limited() || has_free(pool, pool.len() / USERS_LEAVE)
}

/// A frame that was free gets its first reference.
fn begin_use(pool: Pool, frame: Frame) {
    let record = frame_record(pool, frame);
    record.synced.store(0, Ordering::Relaxed);
    record.refs.store(1, Ordering::Release);
}

/// Allocates a frame with one reference, filled with zeroes.
pub fn alloc_zeroed_frame(context: &impl Context) -> Option<Frame> {
    let frame = alloc_frame(context)?;
    context.zero_frame(frame);
    Some(frame)
}

/// As [`alloc_zeroed_frame`], near to the island `island` (an index).
pub fn alloc_zeroed_frame_on(context: &impl Context, island: usize) -> Option<Frame> {
    let frame = alloc_frame_on(context, island)?;
    context.zero_frame(frame);
    Some(frame)
}

/// As [`alloc_zeroed_frame`], for what a file holds: `None` also when little else is left.
pub fn alloc_file_frame(context: &impl Context) -> Option<Frame> {
    let pool = context.pool();
    let has_room = has_free(pool, pool.len() / FILES_LEAVE_USERS)
        || !context.is_limited() && has_free(pool, pool.len() / FILES_LEAVE);
    if has_room { alloc_common_zeroed_frame(context) } else { None }
}

/// Whether a new process leaves enough to those that run.
pub fn has_room_for_process(context: &impl Context) -> bool {
    let pool = context.pool();
    let share = if context.is_limited() { PROCESSES_LEAVE_USERS } else { PROCESSES_LEAVE };
    has_free(pool, pool.len() / share)
}

/// Whether this many bytes are free.
fn has_free(pool: Pool, least: u64) -> bool {
    let state = &pool.header().memory;
    let in_blocks = u64::from(state.free_blocks.load(Ordering::Relaxed)) * u64::from(state.block_frames.get());
    // Other islands' counts are looked at only when it gets tight.
    in_blocks * PAGE_SIZE >= least || usage(pool).0 >= least
}

/// Adds a reference to a frame the caller holds one to.
#[inline]
pub fn share_frame(context: &impl Context, frame: Frame) {
    frame_record(context.pool(), frame).refs.fetch_add(1, Ordering::Relaxed);
}

/// Drops a reference; the last one frees the frame.
///
/// # Panics
/// When the frame has no reference: a double free.
#[inline]
pub fn release_frame(context: &impl Context, frame: Frame) {
    let before = frame_record(context.pool(), frame).refs.fetch_sub(1, Ordering::AcqRel);
    assert!(before != 0, "frame {:#x} freed twice", frame.0);
    if before == 1 {
        // Who gets it next may be another island.
        context.flush_frame(frame);
        free_frame(context, frame);
    }
}

/// References to a frame.
#[inline]
pub fn frame_refs(pool: Pool, frame: Frame) -> u32 {
    frame_record(pool, frame).refs.load(Ordering::Acquire)
}

/// The record of a frame.
#[inline]
pub fn frame_record(pool: Pool, frame: Frame) -> &'static FrameRecord {
    let table = pool.header().memory.frames.get();
    pool.at(PoolAddr(table + u64::from(frame.0) * size_of::<FrameRecord>() as u64))
}

/// As [`return_free_blocks`], after a glance whether it can be worth while: at least two blocks' worth of frames is free.
#[inline]
pub fn trim(context: &impl Context) {
    let state = &context.pool().header().memory;
    let share = &state.islands[context.memory_index()];
    if share.free_frames.load(Ordering::Relaxed) >= 2 * state.block_frames.get() {
        return_free_blocks(context);
    }
}

/// Gives entirely free blocks back while the island stays below the pressure limit (keeping one); others' memory first.
/// Returns how many.
#[cold]
#[inline(never)]
pub fn return_free_blocks(context: &impl Context) -> u32 {
    let state = &context.pool().header().memory;
    let share = &state.islands[context.memory_index()];
    let _guard = lock(context, &share.lock);
    (0..DISTANCES).rev().map(|distance| return_from_list(context, state, share, distance)).sum()
}

/// [`return_free_blocks`] of one list. The island's lock is held.
fn return_from_list(context: &impl Context, state: &MemoryState, share: &IslandMemory, distance: usize) -> u32 {
    let pool = context.pool();
    let block_frames = state.block_frames.get();
    let mut returned = 0;
    let mut previous: Option<&BlockRecord> = None;
    let mut next = share.first[distance].get();
    while next != 0 {
        let record = block(pool, next - 1);
        let index = next - 1;
        next = record.next.get();
        if record.free.get() != block_frames || !below_pressure_without(share, block_frames) {
            previous = Some(record);
            continue;
        }
        match previous {
            Some(previous) => previous.next.set(next),
            None => share.first[distance].set(next),
        }
        share.free_frames.fetch_sub(block_frames, Ordering::Relaxed);
        share.owned_frames.fetch_sub(block_frames, Ordering::Relaxed);
        subtract(&share.free_by_distance[distance], block_frames);
        subtract(&share.owned_by_distance[distance], block_frames);
        give_back(context, state, index);
        returned += 1;
    }
    returned
}

/// Bytes free for files: of the superuser, and of other users.
pub fn free_for_files(pool: Pool) -> [u64; 2] {
    [FILES_LEAVE, FILES_LEAVE_USERS].map(|share| usage(pool).0.saturating_sub(pool.len() / share))
}

/// Bytes free and in total, over all islands and the global allocator.
pub fn usage(pool: Pool) -> (u64, u64) {
    let state = &pool.header().memory;
    let mut free = u64::from(state.free_blocks.load(Ordering::Relaxed)) * u64::from(state.block_frames.get());
    for share in &state.islands {
        free += u64::from(share.free_frames.load(Ordering::Relaxed));
    }
    (free * PAGE_SIZE, pool.len())
}

/// The record of a block.
pub fn block(pool: Pool, index: u32) -> &'static BlockRecord {
    pool.at(PoolAddr(pool.header().memory.blocks.get() + u64::from(index) * size_of::<BlockRecord>() as u64))
}

fn below_pressure_without(share: &IslandMemory, frames: u32) -> bool {
    let owned = u64::from(share.owned_frames.load(Ordering::Relaxed) - frames);
    let used = owned + u64::from(frames) - u64::from(share.free_frames.load(Ordering::Relaxed));
    owned > 0 && used * 100 < owned * u64::from(PRESSURE_PERCENT) / 2
}

fn add(count: &Cell32, frames: u32) {
    count.set(count.get() + frames);
}

fn subtract(count: &Cell32, frames: u32) {
    count.set(count.get() - frames);
}

/// The island (an index) near to which a frame lies: the one that owns its block, if the block is near to it or to none;
/// otherwise the first that it is near to. What the host has made lies near the first island.
pub fn island_near(pool: Pool, frame: Frame) -> usize {
    let record = block(pool, frame.0 / pool.header().memory.block_frames.get());
    let owner = (record.owner.load(Ordering::Relaxed) as usize).checked_sub(1).filter(|&owner| owner < ISLANDS_MAX);
    let near = record.near.get();
    owner
        .filter(|&owner| distance(near, owner) != FAR)
        .or_else(|| (0..ISLANDS_MAX).find(|&island| distance(near, island) == NEAR))
        .unwrap_or(0)
}

/// Takes a frame from the island's blocks, as near as there is one. The island's lock is held.
fn pop_frame(pool: Pool, share: &IslandMemory) -> Option<Frame> {
    let distance = share.free_by_distance.iter().position(|free| free.get() != 0)?;
    let frame = pop_from_list(pool, &share.first[distance])?;
    subtract(&share.free_by_distance[distance], 1);
    share.free_frames.fetch_sub(1, Ordering::Relaxed);
    Some(frame)
}

/// Takes a frame from a list of blocks, first its first one.
fn pop_from_list(pool: Pool, first: &Cell32) -> Option<Frame> {
    let mut previous: Option<&BlockRecord> = None;
    let mut at = first.get();
    while at != 0 {
        let record = block(pool, at - 1);
        if record.free.get() != 0 {
            if let Some(previous) = previous {
                // Move to the front, so that the next allocation finds it at once.
                previous.next.set(record.next.get());
                record.next.set(first.get());
                first.set(at);
            }
            return pop_from(pool, at - 1);
        }
        previous = Some(record);
        at = record.next.get();
    }
    None
}

/// When the pool has no free block any more: a frame of another island's block, which goes back there when it is freed.
#[cold]
fn borrow_frame(context: &impl Context, state: &MemoryState) -> Option<Frame> {
    state.islands.iter().find_map(|share| {
        if share.free_frames.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let _guard = lock(context, &share.lock);
        pop_frame(context.pool(), share)
    })
}

fn pop_from(pool: Pool, index: u32) -> Option<Frame> {
    let record = block(pool, index);
    let block_frames = pool.header().memory.block_frames.get();
    let words = block_frames / 64;
    let first = index * words;
    for step in 0..words {
        let word_index = (record.hint.get() + step) % words;
        let word = bitmap_word(pool, first + word_index);
        let bits = word.get();
        if bits != 0 {
            word.set(bits & (bits - 1));
            record.hint.set(word_index);
            subtract(&record.free, 1);
            return Some(Frame((first + word_index) * 64 + bits.trailing_zeros()));
        }
    }
    None
}

fn free_frame(context: &impl Context, frame: Frame) {
    let pool = context.pool();
    let state = &pool.header().memory;
    let index = frame.0 / state.block_frames.get();
    let record = block(pool, index);
    // The owner cannot change while the block has a frame in use.
    let owner = record.owner.load(Ordering::Relaxed);
    assert!(owner != 0 && owner != BLOCK_RESERVED, "freed frame {:#x} lies in a block nobody owns", frame.0);
    let share = &state.islands[owner as usize - 1];
    let _guard = lock(context, &share.lock);
    let word = bitmap_word(pool, frame.0 / 64);
    word.set(word.get() | 1 << (frame.0 % 64));
    add(&record.free, 1);
    add(&share.free_by_distance[distance(record.near.get(), owner as usize - 1)], 1);
    record.hint.set(frame.0 / 64 % (state.block_frames.get() / 64));
    share.free_frames.fetch_add(1, Ordering::Relaxed);
}

/// Moves the nearest free block from the global allocator to an island, if one is free within `farthest`. The island's
/// lock is held.
#[cold]
fn take_block(context: &impl Context, state: &MemoryState, island: usize, farthest: usize) -> bool {
    let share = &state.islands[island];
    let searched = state.returned_blocks.load(Ordering::Relaxed).wrapping_add(1);
    let in_vain = farthest < FAR && share.searched.get() == searched;
    if in_vain || state.free_blocks.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let pool = context.pool();
    let _guard = lock(context, &state.lock);
    let Some((index, _)) = nearest_free(pool, state, island).filter(|found| found.1 <= farthest) else {
        share.searched.set(searched);
        return false;
    };
    own_block(context, state, island, index);
    true
}

/// Gives a free block to an island. The island's lock and the global one are held.
fn own_block(context: &impl Context, state: &MemoryState, island: usize, index: u32) {
    let (pool, share) = (context.pool(), &state.islands[island]);
    let frames = state.block_frames.get();
    let record = block(pool, index);
    let distance = distance(record.near.get(), island);
    record.free.set(frames);
    record.hint.set(0);
    record.next.set(share.first[distance].get());
    for word in 0..frames / 64 {
        bitmap_word(pool, index * (frames / 64) + word).set(u64::MAX);
    }
    // Whose it is and which bits are set is what counts (`recover`).
    in_order();
    record.owner.store(island as u32 + 1, Ordering::Relaxed);
    share.first[distance].set(index + 1);
    share.free_frames.fetch_add(frames, Ordering::Relaxed);
    share.owned_frames.fetch_add(frames, Ordering::Relaxed);
    add(&share.free_by_distance[distance], frames);
    add(&share.owned_by_distance[distance], frames);
    state.free_blocks.fetch_sub(1, Ordering::Relaxed);
    count(&context.counters().blocks_taken);
}

/// The first of the free blocks that are nearest to an island, and its distance. The global lock is held.
fn nearest_free(pool: Pool, state: &MemoryState, island: usize) -> Option<(u32, usize)> {
    let mut best: Option<(u32, usize)> = None;
    for index in 0..state.block_count.get() {
        let record = block(pool, index);
        if record.owner.load(Ordering::Relaxed) != 0 {
            continue;
        }
        let distance = distance(record.near.get(), island);
        if best.is_none_or(|best| distance < best.1) {
            best = Some((index, distance));
        }
        if distance == NEAR {
            break;
        }
    }
    best
}

fn give_back(context: &impl Context, state: &MemoryState, index: u32) {
    let pool = context.pool();
    let _guard = lock(context, &state.lock);
    let record = block(pool, index);
    record.free.set(0);
    record.next.set(0);
    record.owner.store(0, Ordering::Relaxed);
    state.free_blocks.fetch_add(1, Ordering::Relaxed);
    state.returned_blocks.fetch_add(1, Ordering::Relaxed);
    count(&context.counters().blocks_returned);
}

fn bitmap_word(pool: Pool, index: u32) -> &'static Cell64 {
    pool.at(PoolAddr(pool.header().frame_bitmap.get() + u64::from(index) * 8))
}
