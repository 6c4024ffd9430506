//! Removing pages and rights from ranges, in the tables of all islands. When these functions return, no core translates by what was removed, and the pages
//! are released.

use core::ops::Range;

use motet_layout::{IslandId, PAGE_SIZE, SpaceRecord, sync::Ordering};
use motet_paging::{Attr, Leaf, OutOfFrames};

use super::{
    Home, Kind, Mmu,
    granted::forget_granted,
    insert::forget_elsewhere,
    tables::{alloc_table, caches, edit, tables},
};
use crate::{add, memory::frame_record};

/// Bytes that one table of pages translates.
const TABLE_SPAN: u64 = PAGE_SIZE * motet_paging::ENTRIES as u64;
/// What moving a piece of pages costs, in instructions.
const MOVED_COST: u64 = 5_000;

/// Unmaps the pages of a range in the tables of all islands, with those tables that only the range needs.
pub fn unmap(context: &impl Mmu, space: &SpaceRecord, range: Range<u64>) {
    // Also of pages outside of the range: their table goes, too, if nothing is mapped by it now.
    forget_granted(space);
    let home = Home::of(context, space);
    if space.replicas.get() != 0 {
        // Before tables are unlinked that show them.
        edit(context, space, &home, |stale| forget_elsewhere(context, space, &home, range.clone(), stale));
    }
    edit(context, space, &home, |stale| {
        for (_, table) in caches(context, space, &home) {
            table.unlink(range.clone(), stale);
        }
        forget_elsewhere(context, space, &home, range.clone(), stale);
        home.table.unlink(range.clone(), stale);
        home.table.withdraw(range, stale);
    });
}

/// Unmaps the pages of a range in the tables of all islands; the tables stay.
pub fn drop_pages(context: &impl Mmu, space: &SpaceRecord, range: Range<u64>) {
    let home = Home::of(context, space);
    edit(context, space, &home, |stale| {
        forget_elsewhere(context, space, &home, range.clone(), stale);
        home.table.withdraw(range, stale);
    });
}

/// Part of a range that gets a new protection.
pub struct Part {
    /// The addresses.
    pub range: Range<u64>,
    /// What is allowed there from now on.
    pub access: Attr,
}

/// Reduces the rights of the resident pages of parts of a space to those allowed from now on; the right to execute comes back with faults. With
/// `is_new_code` islands synchronise their fetches with the pages before they next execute them.
pub fn protect(context: &impl Mmu, space: &SpaceRecord, parts: impl Iterator<Item = Part>, is_new_code: bool) {
    let home = Home::of(context, space);
    edit(context, space, &home, |stale| {
        for Part { range, access } in parts {
            // Other islands look again, by faulting; so does this one where it shows what another leaf owns.
            forget_elsewhere(context, space, &home, range.clone(), stale);
            home.table.forget(range.clone(), stale, Leaf::is_borrowed);
            home.table.narrow(range, stale, |_, leaf| {
                if is_new_code {
                    // It may have been written since islands last fetched from it.
                    frame_record(context.pool(), leaf.frame.named()).synced.store(0, Ordering::Release);
                }
                Kind::of(leaf.attr).allowing(access.without(Attr::EXECUTE))
            });
        }
    });
}

/// Takes away all rights to a page, so that it can be copied, and the copy can take its place by [`break_copy`](super::break_copy). When this
/// returns, no core uses it, nor can any begin to until the space's lock is given back; those that were just lending it have counted their reference. A page that stays is given its rights again by
/// [`fill`](super::fill).
pub fn freeze(context: &impl Mmu, space: &SpaceRecord, page: u64) {
    freeze_those(context, space, core::iter::once(page..page + PAGE_SIZE), |_| true);
}

/// As [`freeze`], of all pages of some ranges that `which` chooses by the home's leaf; with one shoot-down.
pub fn freeze_those(
    context: &impl Mmu,
    space: &SpaceRecord,
    ranges: impl Iterator<Item = Range<u64>>,
    which: impl Fn(Leaf) -> bool,
) {
    let home = Home::of(context, space);
    edit(context, space, &home, |stale| {
        for range in ranges {
            for (_, table) in caches(context, space, &home) {
                // What shows another frame than the home's may belong to a page that is chosen.
                let edits = table.forget(range.clone(), stale, |leaf| leaf.is_borrowed() || which(leaf));
                add(&context.counters().remote_pte_edits, edits);
            }
            home.table.narrow(
                range,
                stale,
                |_, leaf| {
                    if which(leaf) { leaf.attr.without(Attr::ALL_ACCESS) } else { leaf.attr }
                },
            );
        }
    });
}

/// Makes the pages of a range read-only.
pub(super) fn write_protect(context: &impl Mmu, space: &SpaceRecord, range: Range<u64>) {
    let home = Home::of(context, space);
    edit(context, space, &home, |stale| {
        // Other islands look again, by faulting.
        forget_elsewhere(context, space, &home, range.clone(), stale);
        home.table.narrow(range, stale, |_, leaf| leaf.attr.without(Attr::WRITE));
    });
}

/// Removes the pages that some islands [show](super::show) in a range.
pub fn hide(context: &impl Mmu, space: &SpaceRecord, range: Range<u64>, whose: impl Fn(IslandId) -> bool) {
    edit(context, space, &Home::of(context, space), |stale| {
        for (_, table) in tables(context, space).filter(|(island, _)| whose(*island)) {
            table.forget(range.clone(), stale, Leaf::is_borrowed);
        }
    });
}

/// Moves the pages of a range to `to`, where none are, with their references. `piece`: how much of it is done before the core checks
/// for due work, as [`Home::end_of_piece`] counts it.
///
/// # Errors
/// There was no frame for a table: all pages are where they were.
pub fn move_pages(
    context: &impl Mmu,
    space: &SpaceRecord,
    range: Range<u64>,
    to: u64,
    piece: u64,
) -> Result<(), OutOfFrames> {
    let home = Home::of(context, space);
    let start = range.start;
    edit(context, space, &home, |stale| {
        let mut at = start;
        while at < range.end {
            let stop = end_of_moved(&home, at..range.end, to.wrapping_sub(start), piece);
            forget_elsewhere(context, space, &home, at..stop, stale);
            let mut allocate = || alloc_table(context, space, home.island);
            if let Err(rest) = home.table.move_pages(at..stop, to + (at - start), stale, &mut allocate) {
                // The tables that they came from are still there.
                let _ = home.table.move_pages(to..to + (rest - start), start, stale, &mut || None);
                return Err(OutOfFrames);
            }
            at = stop;
            context.spend_locked(MOVED_COST);
        }
        Ok(())
    })
}

/// Where a piece ends of what moves that far: whole tables of pages where they can move as such.
fn end_of_moved(home: &Home, range: Range<u64>, distance: u64, piece: u64) -> u64 {
    let Range { start, end } = range;
    let stop = home.end_of_piece(start..end, piece);
    let border = (start + 1).next_multiple_of(TABLE_SPAN);
    if distance % TABLE_SPAN != 0 {
        return stop;
    }
    if start % TABLE_SPAN != 0 || border > end {
        return stop.min(border);
    }
    let whole = stop.next_multiple_of(TABLE_SPAN);
    if whole <= end { whole } else { stop & !(TABLE_SPAN - 1) }
}
