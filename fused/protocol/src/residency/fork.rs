//! Copying pages to a forked child.

use core::ops::Range;

use motet_layout::{SpaceRecord, in_order, sync::Ordering};
use motet_paging::{Attr, OutOfFrames};

use super::{
    Home, Kind, Mmu,
    tables::{alloc_table, caches, edit},
};
use crate::{
    add,
    memory::{release_frame, share_frame},
    shootdown::Stale,
};

/// What giving a page to a child costs, in instructions.
const PAGE_COST: u64 = 250;

/// Lets `each` copy ranges from a space to a child of its own, which nobody uses yet and whose home is the actor's island. The
/// parent's lock is held. When this returns, no core can store to pages that both have.
///
/// # Errors
/// Those of `each`. The child has what was copied before.
pub fn copy<C: Mmu, E>(
    context: &C,
    parent: &SpaceRecord,
    child: &SpaceRecord,
    each: impl FnOnce(&mut Copying<'_, '_, C>) -> Result<(), E>,
) -> Result<(), E> {
    let (from, to) = (Home::of(context, parent), Home::of(context, child));
    // The child's home may not have synchronised its fetches with what the parent's home executes.
    let lost = if from.island == to.island { Attr::NONE } else { Attr::EXECUTE };
    let (pages, result) = edit(context, parent, &from, |stale| {
        let mut copying = Copying { context, parent, child, from, to, lost, stale, pages: 0 };
        let result = each(&mut copying);
        (copying.pages, result)
    });
    child.resident.store(pages, Ordering::Relaxed);
    result
}

/// A copy of a space that is being made.
pub struct Copying<'a, 'b, C> {
    context: &'a C,
    parent: &'a SpaceRecord,
    child: &'a SpaceRecord,
    from: Home,
    to: Home,
    lost: Attr,
    stale: &'a mut Stale<'b>,
    pages: u32,
}

impl<C: Mmu> Copying<'_, '_, C> {
    /// Gives the child the pages of a range. Both have each page until one of them stores to it, unless the mapping is shared.
    ///
    /// # Errors
    /// There was no frame for a table: it has a part of them.
    pub fn range(&mut self, range: Range<u64>, is_shared_mapping: bool) -> Result<(), OutOfFrames> {
        let Self { context, parent, child, from, to, lost, stale, pages } = self;
        let mut result = Ok(());
        from.table.narrow(range.clone(), *stale, |address, leaf| {
            let (shared, is_given) = Kind::forked(leaf.attr, is_shared_mapping);
            if result.is_err() || !is_given {
                return shared;
            }
            // First the reference: should this core die, the child's tables name nothing that is not theirs.
            share_frame(*context, leaf.frame.named());
            in_order();
            let mut allocate = || alloc_table(*context, child, to.island);
            match to.table.map(address, leaf.frame, shared.without(*lost), &mut allocate) {
                Ok(_) => {
                    *pages += 1;
                    context.spend_locked(PAGE_COST);
                }
                Err(OutOfFrames) => {
                    release_frame(*context, leaf.frame.named());
                    result = Err(OutOfFrames);
                }
            }
            shared
        });
        for (_, table) in caches(*context, parent, from) {
            let edits = table.narrow(range.clone(), *stale, |_, leaf| Kind::forked(leaf.attr, is_shared_mapping).0);
            add(&context.counters().remote_pte_edits, edits);
        }
        result
    }
}
