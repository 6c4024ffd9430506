//! Physical memory of the pool: a global allocator of blocks over per-island allocators of frames.
//!
//! After Stramash, section 6.3: the pool is cut into blocks of a configurable size. An island owns whole blocks and
//! allocates frames from its own; when more than [`PRESSURE_PERCENT`] of its frames are in use it asks for one block
//! more, and it gives entirely free blocks back while it stays below. Unlike there, nothing is sent: the block table is
//! in the pool, and a frame is freed into its block by whichever island drops the last reference.
//!
//! Invariants: a frame is free in the bitmap exactly if its count is 0 and its block is owned; `free` of a block is the
//! number of its bits set; a block's bits, `free` and `next` are guarded by its owner's lock, ownership by the global one.

use motet_layout::sync::Ordering;

use motet_layout::{
    BLOCK_RESERVED, BlockRecord, Cell64, Frame, FrameRecord, IslandMemory, MemoryState, PAGE_SIZE, Pool, PoolAddr,
    PoolHeader,
};

use crate::{Context, count, lock::lock};

/// Above this share of used frames an island takes another block.
pub const PRESSURE_PERCENT: u32 = 70;
/// Smallest pool that can hold the tables and a running system, in bytes.
pub const POOL_LEN_MIN: u64 = 32 << 20;
/// Frames in a block unless the machine description says otherwise (4 MiB).
pub const BLOCK_FRAMES_DEFAULT: u32 = 1024;

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
    for index in 0..reserved {
        block(pool, index as u32).owner.store(BLOCK_RESERVED, Ordering::Relaxed);
    }
    Ok(PoolAddr(extra_at))
}

/// Allocates a frame with one reference, contents undefined.
#[inline]
pub fn alloc_frame(context: &impl Context) -> Option<Frame> {
    let pool = context.pool();
    let state = &pool.header().memory;
    let share = &state.islands[context.memory_index()];
    let guard = lock(context, &share.lock);
    let owned = share.owned_frames.load(Ordering::Relaxed);
    let used = owned - share.free_frames.load(Ordering::Relaxed);
    if used * 100 >= owned * PRESSURE_PERCENT {
        take_block(context, state, share);
    }
    let frame = pop_frame(pool, share)?;
    drop(guard);
    let record = frame_record(pool, frame);
    record.synced.store(0, Ordering::Relaxed);
    record.refs.store(1, Ordering::Release);
    Some(frame)
}

/// Allocates a frame with one reference, filled with zeroes.
pub fn alloc_zeroed_frame(context: &impl Context) -> Option<Frame> {
    let frame = alloc_frame(context)?;
    context.pool().zero_frame(frame);
    Some(frame)
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

/// Gives entirely free blocks back while the island stays below the pressure limit (keeping one). Returns how many.
pub fn return_free_blocks(context: &impl Context) -> u32 {
    let pool = context.pool();
    let state = &pool.header().memory;
    let share = &state.islands[context.memory_index()];
    let block_frames = state.block_frames.get();
    let _guard = lock(context, &share.lock);
    let mut returned = 0;
    let mut previous: Option<&BlockRecord> = None;
    let mut next = share.current.get();
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
            None => share.current.set(next),
        }
        share.free_frames.fetch_sub(block_frames, Ordering::Relaxed);
        share.owned_frames.fetch_sub(block_frames, Ordering::Relaxed);
        give_back(context, state, index);
        returned += 1;
    }
    returned
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
    let owned = share.owned_frames.load(Ordering::Relaxed) - frames;
    let used = owned + frames - share.free_frames.load(Ordering::Relaxed);
    owned > 0 && used * 100 < owned * PRESSURE_PERCENT / 2
}

/// Takes a frame from the island's blocks, first the current one. The island's lock is held.
fn pop_frame(pool: Pool, share: &IslandMemory) -> Option<Frame> {
    let mut previous: Option<&BlockRecord> = None;
    let mut at = share.current.get();
    while at != 0 {
        let record = block(pool, at - 1);
        if record.free.get() != 0 {
            if let Some(previous) = previous {
                // Move to the front, so that the next allocation finds it at once.
                previous.next.set(record.next.get());
                record.next.set(share.current.get());
                share.current.set(at);
            }
            return pop_from(pool, share, at - 1);
        }
        previous = Some(record);
        at = record.next.get();
    }
    None
}

fn pop_from(pool: Pool, share: &IslandMemory, index: u32) -> Option<Frame> {
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
            record.free.set(record.free.get() - 1);
            share.free_frames.fetch_sub(1, Ordering::Relaxed);
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
    record.free.set(record.free.get() + 1);
    record.hint.set(frame.0 / 64 % (state.block_frames.get() / 64));
    share.free_frames.fetch_add(1, Ordering::Relaxed);
}

/// Moves a block from the global allocator to this island, if one is free. The island's lock is held.
#[cold]
fn take_block(context: &impl Context, state: &MemoryState, share: &IslandMemory) {
    if state.free_blocks.load(Ordering::Relaxed) == 0 {
        return;
    }
    let pool = context.pool();
    let _guard = lock(context, &state.lock);
    let Some(index) = (0..state.block_count.get()).find(|&index| block(pool, index).owner.load(Ordering::Relaxed) == 0)
    else {
        return;
    };
    let frames = state.block_frames.get();
    let record = block(pool, index);
    record.owner.store(context.memory_index() as u32 + 1, Ordering::Relaxed);
    record.free.set(frames);
    record.hint.set(0);
    record.next.set(share.current.get());
    for word in 0..frames / 64 {
        bitmap_word(pool, index * (frames / 64) + word).set(u64::MAX);
    }
    share.current.set(index + 1);
    share.free_frames.fetch_add(frames, Ordering::Relaxed);
    share.owned_frames.fetch_add(frames, Ordering::Relaxed);
    state.free_blocks.fetch_sub(1, Ordering::Relaxed);
    count(&context.counters().blocks_taken);
}

fn give_back(context: &impl Context, state: &MemoryState, index: u32) {
    let pool = context.pool();
    let _guard = lock(context, &state.lock);
    let record = block(pool, index);
    record.free.set(0);
    record.next.set(0);
    record.owner.store(0, Ordering::Relaxed);
    state.free_blocks.fetch_add(1, Ordering::Relaxed);
    count(&context.counters().blocks_returned);
}

fn bitmap_word(pool: Pool, index: u32) -> &'static Cell64 {
    pool.at(PoolAddr(pool.header().frame_bitmap.get() + u64::from(index) * 8))
}
