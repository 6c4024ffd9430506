//! Physical memory of the pool, and objects in it: who has which of it.

use crate::{BlocksLock, Cell32, Cell64, FramesLock, SlabLock, sync::AtomicU32};

pool_struct! {
    /// Physical memory of the pool: see `motet_protocol::memory`.
    pub struct MemoryState: size 704, align 64 {
        /// Guards block ownership changes.
        0 pub lock: BlocksLock,
        /// Frames in a block (a power of two).
        8 pub block_frames: Cell32,
        /// Blocks in the pool, including those that hold the tables.
        12 pub block_count: Cell32,
        /// Pool address of the array of [`BlockRecord`](crate::BlockRecord).
        16 pub blocks: Cell64,
        /// Pool address of the array of [`FrameRecord`](crate::FrameRecord), one per frame.
        24 pub frames: Cell64,
        /// Blocks that no island owns.
        32 pub free_blocks: AtomicU32,
        /// Blocks that islands have given back so far (wraps).
        36 pub returned_blocks: AtomicU32,
        40 _pad: [Cell64; 3],
        /// Per island: lock, owned blocks, free frames.
        64 pub islands: [IslandMemory; 9],
        640 _pad1: [Cell64; 8],
    }
}

/// Distances of a block from an island, each with a list: near to it, near to no island, near to others only.
pub const DISTANCES: usize = 3;

pool_struct! {
    /// One island's share of the pool (index 8: the host, while it builds the root file system). A cache line of its own,
    /// so that islands allocate without disturbing each other.
    pub struct IslandMemory: size 64, align 64 {
        /// Guards the blocks of this island.
        0 pub lock: FramesLock,
        /// Frames free in its blocks.
        8 pub free_frames: AtomicU32,
        /// Frames in its blocks.
        12 pub owned_frames: AtomicU32,
        /// By distance: index + 1 of the first block; 0: none.
        16 pub first: [Cell32; 3],
        /// 1 + [`MemoryState::returned_blocks`] when no block was free but of others' memory; 0: never.
        28 pub searched: Cell32,
        /// By distance: frames free.
        32 pub free_by_distance: [Cell32; 3],
        /// By distance: frames in its blocks.
        44 pub owned_by_distance: [Cell32; 3],
        56 _pad: Cell64,
    }
}

pool_struct! {
    /// One class of fixed-size objects: see `motet_protocol::slab`. Frames are by number, 0: none.
    pub struct SlabCache: size 64, align 64 {
        /// Guards all this, and the records of the frames.
        0 pub lock: SlabLock,
        /// First frame with free objects. The frame's record has the next one.
        8 pub partial: Cell32,
        /// Frames all of whose objects are free.
        12 pub empty: Cell32,
        /// Object size in bytes.
        16 pub object_size: Cell32,
        /// Objects in use.
        20 pub in_use: Cell32,
        /// Objects that exist.
        24 pub total: Cell32,
        /// First frame that is cut no more, and that a core may still look into.
        28 pub retired: Cell32,
        /// How many these are.
        32 pub retired_count: Cell32,
        /// First frame of those that go back once all cores have passed.
        36 pub waiting: Cell32,
        /// Who waits for that, as a lock names its holder; 0: whoever comes next.
        40 pub waiter: Cell64,
        48 _pad0: [Cell64; 2],
    }
}
