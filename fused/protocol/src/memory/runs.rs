//! Runs of frames: several contiguous, aligned frames, for hardware that needs them (roots of guests' page tables, memory that a
//! device is given).
//!
//! A run lies in one block, so one island's lock guards it like a single frame. Its frames are frames like all others: each has one
//! reference, and is freed alone with [`release_frame`](super::release_frame).

use motet_layout::sync::Ordering;
use motet_layout::{Frame, IslandMemory, Pool};

use super::{
    DISTANCES, FAR, NEUTRAL, PRESSURE_PERCENT, begin_use, bitmap_word, block, distance, may_take, subtract, take_block,
    usage,
};
use crate::{Context, lock::lock};

/// Why there is no run of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRun {
    /// More frames than a block has, or an alignment to more; or no frames at all, or an alignment that is no power of two.
    Impossible,
    /// Fewer frames are free.
    Exhausted,
    /// Enough frames are free, but not so many in a row at such an address.
    Fragmented,
}

/// Allocates `count` frames in a row, the first one's number (and so its address in the pool, in frames) a multiple of `alignment`, with
/// one reference each, contents undefined; near to this island if possible. An island's own addresses of the pool may be aligned to less:
/// it depends on where the pool lies there.
///
/// # Errors
/// Why there are none. Then nothing is taken.
pub fn alloc_run(context: &impl Context, count: u32, alignment: u32) -> Result<Frame, NoRun> {
    alloc_run_on(context, context.memory_index(), count, alignment)
}

/// As [`alloc_run`], near to the island `island` (an index) and out of its blocks.
///
/// # Errors
/// As there.
pub fn alloc_run_on(context: &impl Context, island: usize, count: u32, alignment: u32) -> Result<Frame, NoRun> {
    let pool = context.pool();
    let state = &pool.header().memory;
    let block_frames = state.block_frames.get();
    if count == 0 || !alignment.is_power_of_two() || count.max(alignment) > block_frames {
        return Err(NoRun::Impossible);
    }
    if !may_take(context, state) {
        return Err(NoRun::Exhausted);
    }
    let run = Run { count, alignment };
    let share = &state.islands[island];
    let guard = lock(context, &share.lock);
    let owned = u64::from(share.owned_frames.load(Ordering::Relaxed));
    let used = owned - u64::from(share.free_frames.load(Ordering::Relaxed));
    if (used + u64::from(count)) * 100 > owned * u64::from(PRESSURE_PERCENT) {
        take_block(context, state, island, NEUTRAL);
    }
    let own = run
        .take(pool, island, share)
        .or_else(|| if take_block(context, state, island, FAR) { run.take(pool, island, share) } else { None });
    drop(guard);
    // When the pool has no free block any more: frames of other islands' blocks, which go back there when they are freed.
    let first = own.or_else(|| {
        state.islands.iter().enumerate().find_map(|(other, share)| {
            if share.free_frames.load(Ordering::Relaxed) < count {
                return None;
            }
            let _guard = lock(context, &share.lock);
            run.take(pool, other, share)
        })
    });
    match first {
        Some(first) => {
            (0..count).for_each(|n| begin_use(pool, Frame(first.0 + n)));
            Ok(first)
        }
        None if usage(pool).0 / motet_layout::PAGE_SIZE < u64::from(count) => Err(NoRun::Exhausted),
        None => Err(NoRun::Fragmented),
    }
}

/// What is looked for.
struct Run {
    count: u32,
    alignment: u32,
}

impl Run {
    /// Takes a run from the blocks of an island, as near as there is one. The island's lock is held.
    fn take(&self, pool: Pool, island: usize, share: &IslandMemory) -> Option<Frame> {
        (0..DISTANCES).filter(|&distance| share.free_by_distance[distance].get() >= self.count).find_map(|at| {
            let mut next = share.first[at].get();
            while next != 0 {
                let index = next - 1;
                debug_assert_eq!(distance(block(pool, index).near.get(), island), at);
                if let Some(first) = self.take_from(pool, index) {
                    subtract(&share.free_by_distance[at], self.count);
                    share.free_frames.fetch_sub(self.count, Ordering::Relaxed);
                    return Some(first);
                }
                next = block(pool, index).next.get();
            }
            None
        })
    }

    /// Takes the first run of a block. Its owner's lock is held.
    fn take_from(&self, pool: Pool, index: u32) -> Option<Frame> {
        let record = block(pool, index);
        if record.free.get() < self.count {
            return None;
        }
        let block_frames = pool.header().memory.block_frames.get();
        let base = index * block_frames; // a multiple of every alignment there is
        let mut first = 0;
        while first + self.count <= block_frames {
            match first_used(pool, base + first, self.count) {
                Some(used) => first = (used - base + 1).next_multiple_of(self.alignment),
                None => {
                    each_word(base + first, self.count, |word, bits| {
                        let word = bitmap_word(pool, word);
                        word.set(word.get() & !bits);
                    });
                    subtract(&record.free, self.count);
                    return Some(Frame(base + first));
                }
            }
        }
        None
    }
}

/// The first of `count` frames from `first` on that is in use.
fn first_used(pool: Pool, first: u32, count: u32) -> Option<u32> {
    let mut found = None;
    each_word(first, count, |word, bits| {
        let used = !bitmap_word(pool, word).get() & bits;
        if found.is_none() && used != 0 {
            found = Some(word * 64 + used.trailing_zeros());
        }
    });
    found
}

/// Calls `each` with the words of the bitmap that have bits of these frames, and the bits.
fn each_word(first: u32, count: u32, mut each: impl FnMut(u32, u64)) {
    let (mut at, end) = (first, first + count);
    while at < end {
        let stop = ((at / 64 + 1) * 64).min(end);
        each(at / 64, (u64::MAX >> (64 - (stop - at))) << (at % 64));
        at = stop;
    }
}
