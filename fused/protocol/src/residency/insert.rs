//! Entering pages for faults: into the home's table, and from there into the faulting island's.

use core::ops::Range;

use motet_layout::{Frame, IslandId, PAGE_SIZE, SpaceRecord, sync::Ordering};
use motet_paging::{Attr, Leaf, Mapped, OutOfFrames, Table};

use super::{
    Home, Kind, Mmu, replica, table,
    tables::{alloc_table, caches},
};
use crate::{
    add, count,
    memory::{frame_record, release_frame},
    shootdown::{self, Stale},
};

/// What synchronising fetches with a frame costs, which copies it onto itself, in instructions.
const SYNC_COST: u64 = 1_666;

/// Enters a page into a space that has none there. The caller's reference to the frame becomes the leaf's. With `executes` the actor's
/// island may then execute the page, as far as the attributes permit.
///
/// # Errors
/// There was no frame for a table. If the home has the page nevertheless, a fault will find it there; otherwise the reference
/// is released.
#[inline]
pub fn insert(
    context: &impl Mmu,
    space: &SpaceRecord,
    home: &Home,
    page: u64,
    (frame, attr): (Frame, Attr),
    executes: bool,
) -> Result<(), OutOfFrames> {
    let inserted = fill(context, space, home, page, Leaf { frame: frame.into(), attr }, executes);
    if inserted.is_err() && home.table.leaf(page).is_none() {
        release_frame(context, frame);
    } else {
        space.resident.fetch_add(1, Ordering::Relaxed);
    }
    inserted
}

/// Enters a page that the home has into the table of the actor's island, with these attributes, which allow no less than the home's
/// leaf; the home's leaf is widened to them. The home's table comes first: if there is no memory for the other, the authority has the page, and this island will
/// find it there later.
///
/// # Errors
/// There was no frame for a table.
#[inline]
pub fn fill(
    context: &impl Mmu,
    space: &SpaceRecord,
    home: &Home,
    page: u64,
    leaf: Leaf,
    executes: bool,
) -> Result<(), OutOfFrames> {
    if space.replicas.get() != 0 {
        replica::give_way(context, space, home, page, leaf.attr.contains(Attr::WRITE));
    }
    let island = context.core().island();
    let Some(own) = table(context, space, island) else { return fill_home_alone(context, space, home, page, leaf) };
    if executes {
        make_executable(context, leaf.frame.named());
    }
    if island != home.island {
        count(&context.counters().remote_pte_edits);
        enter(context, space, (&home.table, home.island), page, leaf)?;
    }
    let widened = enter(context, space, (&own, island), page, leaf)?.is_some();
    context.page_table_fence();
    if widened {
        // This core may have cached the narrower entry it faulted on, and on AArch64 and RISC-V would fault on it again.
        context.flush_page(page);
    }
    Ok(())
}

/// The space is made here for another island.
#[cold]
fn fill_home_alone(
    context: &impl Mmu,
    space: &SpaceRecord,
    home: &Home,
    page: u64,
    leaf: Leaf,
) -> Result<(), OutOfFrames> {
    count(&context.counters().remote_pte_edits);
    enter(context, space, (&home.table, home.island), page, leaf).map(|_| ())
}

/// Replaces a page by a copy, which the caller has filled, with a reference, in the home's table and in that of the actor's island.
/// When this returns, no core reads or executes the old page, and its reference is released.
///
/// # Errors
/// There was no frame for a table of the actor's island: the home has the copy.
pub fn break_copy(
    context: &impl Mmu,
    space: &SpaceRecord,
    home: &Home,
    page: u64,
    (copy, attr): (Frame, Attr),
    executes: bool,
) -> Result<(), OutOfFrames> {
    let island = context.core().island();
    if executes {
        make_executable(context, copy);
    }
    shootdown::edit(
        context,
        space,
        &home.table,
        || context.flush_page(page),
        |stale| {
            home.table.replace(page, copy, as_synced(context, home.island, copy, attr), stale);
            forget_elsewhere(context, space, home, page..page + PAGE_SIZE, stale);
            context.page_table_fence();
        },
    );
    if island == home.island {
        return Ok(());
    }
    count(&context.counters().remote_pte_edits);
    fill(context, space, home, page, Leaf { frame: copy.into(), attr }, executes)
}

/// Shows at `page` the frame of another leaf of the space, on the actor's island alone, by a leaf that is [`Kind::Borrowed`].
///
/// # Errors
/// There is no table of the island, or no frame for one below it.
pub fn show(
    context: &impl Mmu,
    space: &SpaceRecord,
    page: u64,
    frame: Mapped,
    access: Attr,
) -> Result<(), OutOfFrames> {
    let island = context.core().island();
    let own = table(context, space, island).ok_or(OutOfFrames)?;
    if access.contains(Attr::EXECUTE) {
        make_executable(context, frame.named());
    }
    let shown = Leaf { frame, attr: Kind::Borrowed.allowing(access) };
    enter(context, space, (&own, island), page, shown)?;
    context.page_table_fence();
    context.flush_page(page);
    Ok(())
}

/// Makes what was written to the pages of a range visible to the fetches of the actor's island, and to those of others when they
/// next execute it.
pub fn synchronise(context: &impl Mmu, space: &SpaceRecord, range: Range<u64>) {
    let own = 1 << context.core().island().index();
    Home::of(context, space).table.visit(range, |_, leaf| {
        context.sync_instructions(leaf.frame.named());
        frame_record(context.pool(), leaf.frame.named()).synced.store(own, Ordering::Release);
        context.spend_locked(SYNC_COST);
    });
}

/// Removes a range from the other islands' tables, which are caches of the home's.
pub(super) fn forget_elsewhere(
    context: &impl Mmu,
    space: &SpaceRecord,
    home: &Home,
    range: Range<u64>,
    stale: &mut Stale<'_>,
) {
    for (_, table) in caches(context, space, home) {
        add(&context.counters().remote_pte_edits, table.forget(range.clone(), stale, |_| true));
    }
}

/// Writes a leaf into an island's table; execution only if that island has synchronised its fetches with the frame.
/// Returns what was there before.
#[inline]
fn enter(
    context: &impl Mmu,
    space: &SpaceRecord,
    (table, island): (&Table<'_>, IslandId),
    page: u64,
    leaf: Leaf,
) -> Result<Option<Leaf>, OutOfFrames> {
    let attr = as_synced(context, island, leaf.frame.named(), leaf.attr);
    table.map(page, leaf.frame, attr, &mut || alloc_table(context, space, island))
}

/// The attributes without execution, if an island has not synchronised its fetches with the frame.
#[inline]
fn as_synced(context: &impl Mmu, island: IslandId, frame: Frame, attr: Attr) -> Attr {
    let synced = frame_record(context.pool(), frame).synced.load(Ordering::Acquire) >> island.index() & 1 != 0;
    if synced { attr } else { attr.without(Attr::EXECUTE) }
}

/// Synchronises the actor's island's instruction fetches with a frame, once.
#[inline]
fn make_executable(context: &impl Mmu, frame: Frame) {
    let record = frame_record(context.pool(), frame);
    let bit = 1 << context.core().island().index();
    if record.synced.load(Ordering::Acquire) & bit == 0 {
        context.sync_instructions(frame);
        count(&context.counters().icache_syncs);
        record.synced.fetch_or(bit, Ordering::AcqRel);
        context.spend_locked(SYNC_COST);
    }
}
