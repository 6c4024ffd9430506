//! Pages to which stores may be allowed at once: what a store to registers of a device waits for. A space keeps in mind (`SpaceRecord::granted`) where the
//! entries of a few such pages are, so no VMA is looked for and no table walked.
//!
//! An entry is used under the space's lock, and under the same lock it is forgotten before a table of pages is unlinked ([`unmap`](super::unmap), the
//! only one who does that while the space lives). So its table is part of the space's. What the entry says is looked at each time. Whoever grants a page
//! forgets it when its VMA comes, changes or goes; as long as the VMA is the same, only its own pages are entered there.

use motet_layout::{Frame, PAGE_SHIFT, PAGE_SIZE, PoolAddr, SpaceRecord, in_order, sync::AtomicU64};
use motet_paging::allow_stores_by;

use super::{Mmu, table};

/// Pages of which a space keeps that in mind.
const PLACES: u64 = 8;

/// Where a page is, if it is there: the index of the first of two words.
#[inline(always)]
fn place(page: u64) -> usize {
    (page >> PAGE_SHIFT) as usize % PLACES as usize * 2
}

/// Who was told to allow stores to a page of a space, which the actor's island is the home of, and the page's entry. The space's lock is held.
#[inline(always)]
pub fn granted(context: &impl Mmu, space: &SpaceRecord, page: u64) -> Option<(u32, &'static AtomicU64)> {
    let at = place(page);
    let who = space.granted[at].get() ^ page;
    // Otherwise the place is empty, or another page's.
    let is_this = who.wrapping_sub(1) < PAGE_SIZE - 1;
    if !is_this || !is_home(context, space) {
        return None;
    }
    Some((who as u32, context.pool().get::<AtomicU64>(PoolAddr(space.granted[at + 1].get()))?))
}

/// From now on, until [`forget_granted`] or [`forget_granted_to`], [`granted`] knows a page and its entry, which is [`entry_of`]'s. `who`: more than 0, less than [`PAGE_SIZE`]. The
/// space's lock is held.
pub fn grant(context: &impl Mmu, space: &SpaceRecord, page: u64, who: u32, entry: &'static AtomicU64) {
    let at = place(page);
    space.has_granted.set(1);
    space.granted[at].set(0);
    in_order();
    space.granted[at + 1].set(context.pool().addr_of(entry).0);
    in_order();
    space.granted[at].set(page | u64::from(who));
}

/// No page is known any more. The space's lock is held.
#[inline]
pub(super) fn forget_granted(space: &SpaceRecord) {
    if space.has_granted.get() != 0 {
        space.granted.iter().for_each(|word| word.set(0));
        space.has_granted.set(0);
    }
}

/// No page is known any more that `who` was told to allow stores to. The space's lock is held.
pub fn forget_granted_to(space: &SpaceRecord, who: u32) {
    let places = space.granted.iter().step_by(2);
    places.filter(|word| word.get() % PAGE_SIZE == u64::from(who)).for_each(|word| word.set(0));
}

/// The entry of a page from which the actor's island, which is the home, may load, and its frame. The space's lock is held.
pub fn entry_of(context: &impl Mmu, space: &SpaceRecord, page: u64) -> Option<(&'static AtomicU64, Frame)> {
    if !is_home(context, space) {
        return None; // two tables are to be edited
    }
    table(context, space, context.core().island())?.entry(page)
}

/// Allows stores to a page by its entry, if loads are allowed and `may` permits it. Returns whether stores are allowed now. The space's lock is held.
#[inline(always)]
pub fn allow_stores(context: &impl Mmu, page: u64, entry: &AtomicU64, may: impl FnOnce() -> bool) -> bool {
    if !allow_stores_by(context.own_format(), entry, may) {
        return false;
    }
    context.page_table_fence();
    context.flush_page(page);
    true
}

#[inline(always)]
fn is_home(context: &impl Mmu, space: &SpaceRecord) -> bool {
    space.home.get() == u32::from(context.core().island().0)
}
