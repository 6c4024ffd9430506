//! Replicas: copies of a page, near islands that read it often. A replica is a leaf of one island's table, [`Kind::Borrowed`], whose frame is not the home's, but its own
//! ([`is_replica`]). As long as there is one, nobody may store to the page: the home's leaf does not allow it, and who widens that leaf takes the
//! replicas back first ([`fill`](super::fill)).

use motet_layout::{Frame, PAGE_SIZE, Pool, PoolAddr, SpaceRecord, WRITTEN_FRAME, sync::Ordering};
use motet_paging::{Attr, Leaf, OutOfFrames};

use super::{
    Home, Kind, Mmu, table,
    tables::{alloc_table, caches, edit},
};
use crate::{
    add,
    memory::frame_record,
    replicas::{self, is_replica},
};

/// Shows a copy of a page on the actor's island, which is not the home. The page is [frozen](super::freeze), and the caller has made the copy since; from now on all islands may read
/// the page. The caller's reference to the copy becomes the leaf's.
///
/// # Errors
/// There was no frame for a table: the copy is released, the page may be read at home.
pub fn replicate(
    context: &impl Mmu,
    space: &SpaceRecord,
    home: &Home,
    page: u64,
    leaf: Leaf,
    copy: Frame,
) -> Result<(), OutOfFrames> {
    let island = context.core().island();
    debug_assert_ne!(island, home.island, "the home has the page itself");
    replicas::begin(context, space, copy);
    let shown = || {
        let own = table(context, space, island).ok_or(OutOfFrames)?;
        own.map(page, copy, Kind::Borrowed.allowing(Attr::READ), &mut || alloc_table(context, space, island))
    };
    let result = shown().map(|_| ());
    if result.is_err() {
        replicas::end(context, space, copy);
    }
    // The page's tables are there: it is mapped.
    home.table.map(page, leaf.frame, Kind::of(leaf.attr).allowing(Attr::READ), &mut || None)?;
    context.page_table_fence();
    result
}

/// Whether the actor's island reads the page by a replica.
pub fn reads_replica(context: &impl Mmu, space: &SpaceRecord, page: u64) -> bool {
    space.replicas.get() != 0
        && table(context, space, context.core().island())
            .and_then(|own| own.leaf(page))
            .is_some_and(|leaf| leaf.is_borrowed() && is_replica(context.pool(), leaf.frame.named()))
}

/// The byte that all islands see at an address from which the actor's island may load: never one of a replica. The space's lock is held.
pub fn original(context: &impl Mmu, space: &SpaceRecord, address: u64) -> Option<PoolAddr> {
    Home::of(context, space).table.readable(address)
}

/// The page is about to be entered for the actor's island, with stores if `is_written`: the island's replica of it is taken back, or all replicas are. When this returns, no core
/// reads them.
#[cold]
#[inline(never)]
pub(super) fn give_way(context: &impl Mmu, space: &SpaceRecord, home: &Home, page: u64, is_written: bool) {
    let (range, own) = (page..page + PAGE_SIZE, context.core().island());
    let is_its = |leaf: Leaf| leaf.is_borrowed() && is_replica(context.pool(), leaf.frame.named());
    let taken: usize = edit(context, space, home, |stale| {
        let those = caches(context, space, home).filter(|(island, _)| is_written || *island == own);
        those.map(|(_, table)| table.forget(range.clone(), stale, is_its)).sum()
    });
    add(&context.counters().remote_pte_edits, taken);
    if is_written
        && taken != 0
        && let Some(leaf) = home.leaf(page)
    {
        frame_record(context.pool(), leaf.frame.named()).synced.fetch_or(WRITTEN_FRAME, Ordering::Relaxed);
    }
}

/// Whether a page may get a replica: it was not written to while it had one.
pub fn may_replicate(pool: Pool, page: Frame) -> bool {
    frame_record(pool, page).synced.load(Ordering::Relaxed) & WRITTEN_FRAME == 0
}
