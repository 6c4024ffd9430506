//! A pool in ordinary memory, for tests of files, pipes and streams.

use std::alloc::{Layout, alloc_zeroed};

use motet_layout::{CoreId, InodeRecord, PAGE_SIZE, Pool, SlabCache, sync::Ordering};
use motet_protocol::{Context, memory};

/// An actor on a test pool.
#[derive(Clone, Copy)]
pub struct Actor {
    pool: Pool,
    core: CoreId,
}

impl Actor {
    /// The host of a fresh pool of `len` bytes.
    #[allow(dead_code)] // not by every test
    pub fn new(len: u64) -> Self {
        Self::with_blocks(len, 64)
    }

    /// As [`new`](Self::new), with blocks of so many frames.
    pub fn with_blocks(len: u64, block_frames: u32) -> Self {
        let layout = Layout::from_size_align(len as usize, PAGE_SIZE as usize).unwrap();
        // SAFETY: the layout has a size; the memory is leaked, so it outlives all users of the pool.
        let pool = unsafe { Pool::new(alloc_zeroed(layout), len) };
        pool.header().pool_len.set(len);
        memory::format(pool, block_frames, 0).unwrap();
        Self { pool, core: CoreId::HOST }
    }

    /// The same pool as another core.
    #[allow(dead_code)] // not by every test
    pub fn on_core(self, core: u8) -> Self {
        Self { core: CoreId(core), ..self }
    }

    /// Frames in use, apart from those cut into slab objects.
    #[allow(dead_code)] // not by every test
    pub fn frames_in_use(&self) -> u32 {
        let header = self.pool.header();
        let used = header
            .memory
            .islands
            .iter()
            .map(|share| share.owned_frames.load(Ordering::Relaxed) - share.free_frames.load(Ordering::Relaxed));
        let slabs = header.slabs.iter().filter(|cache| cache.object_size.get() != 0);
        let cut = |cache: &SlabCache| cache.total.get() / (PAGE_SIZE as u32 / cache.object_size.get());
        used.sum::<u32>() - slabs.map(|cache| cut(cache) + cache.retired_count.get()).sum::<u32>()
    }

    /// Slab objects in use, of all classes.
    #[allow(dead_code)] // not by every test
    pub fn objects_in_use(&self) -> u32 {
        self.pool.header().slabs.iter().map(|cache| cache.in_use.get()).sum()
    }

    /// The root directory.
    #[allow(dead_code)] // not by every test
    pub fn root(&self) -> &'static InodeRecord {
        self.object(self.pool.header().root_inode.get()).unwrap()
    }
}

impl Context for Actor {
    fn core(&self) -> CoreId {
        self.core
    }
    fn pool(&self) -> Pool {
        self.pool
    }
    fn relax(&self) {
        std::thread::yield_now();
    }
    fn ring(&self, _: CoreId) {}
}
