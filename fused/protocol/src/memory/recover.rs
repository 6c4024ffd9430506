//! Repair of the allocator after a core's death. Which island owns which block, and which frames are free, are single words; everything else is
//! counted again. A frame that was just being taken or freed is lost: nothing says which.

use motet_layout::{DISTANCES, MemoryState, sync::Ordering};

use super::{add, bitmap_word, block, distance};
use crate::Context;

/// Repairs an island's share (by its index), whose lock a dead core held and this one has now.
pub(crate) fn recover_share(context: &impl Context, index: usize) {
    let pool = context.pool();
    let state = &pool.header().memory;
    let share = &state.islands[index];
    let frames = state.block_frames.get();
    for list in 0..DISTANCES {
        share.first[list].set(0);
        share.free_by_distance[list].set(0);
        share.owned_by_distance[list].set(0);
    }
    let (mut free, mut owned) = (0, 0);
    for at in (0..state.block_count.get()).rev() {
        let record = block(pool, at);
        if record.owner.load(Ordering::Relaxed) != index as u32 + 1 {
            continue;
        }
        let words = frames / 64;
        let set = (0..words).map(|word| bitmap_word(pool, at * words + word).get().count_ones()).sum();
        let distance = distance(record.near.get(), index);
        record.free.set(set);
        record.next.set(share.first[distance].get());
        share.first[distance].set(at + 1);
        add(&share.free_by_distance[distance], set);
        add(&share.owned_by_distance[distance], frames);
        free += set;
        owned += frames;
    }
    share.free_frames.store(free, Ordering::Relaxed);
    share.owned_frames.store(owned, Ordering::Relaxed);
}

/// Counts the blocks again that nobody owns. A dead core held the lock, and this one has it now.
pub(crate) fn recover_blocks(context: &impl Context, state: &MemoryState) {
    let is_free = |index: &u32| block(context.pool(), *index).owner.load(Ordering::Relaxed) == 0;
    let free = (0..state.block_count.get()).filter(is_free).count();
    state.free_blocks.store(free as u32, Ordering::Relaxed);
}
