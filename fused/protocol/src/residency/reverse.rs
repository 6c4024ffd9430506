//! The reverse map: from pages of a file to the addresses where a space has them mapped. It is derived from the mappings, so nothing is kept for each
//! page; a space has a page of a file only at addresses that its mappings of the file give.

use core::ops::Range;

use motet_layout::{InodeRecord, PAGE_SIZE, SpaceRecord, VMA_SHARED, VmaRecord};

use super::{
    Mmu,
    withdraw::{drop_pages, write_protect},
};

/// Unmaps pages that a file no longer has, where a space shares the file, so that the next access to them faults.
/// Private mappings keep their pages: a program that runs from the file goes on. `mappings`: all of the space, whose lock is
/// held.
pub fn forget_file(
    context: &impl Mmu,
    space: &SpaceRecord,
    mappings: impl Iterator<Item = &'static VmaRecord>,
    inode: &'static InodeRecord,
    pages: &Range<u64>,
) {
    shared(mappings, context.raw(inode), pages).for_each(|range| drop_pages(context, space, range));
}

/// Makes pages of a file read-only where a space shares it. As [`forget_file`].
pub fn write_protect_file(
    context: &impl Mmu,
    space: &SpaceRecord,
    mappings: impl Iterator<Item = &'static VmaRecord>,
    inode: &'static InodeRecord,
    pages: &Range<u64>,
) {
    shared(mappings, context.raw(inode), pages).for_each(|range| write_protect(context, space, range));
}

/// Where mappings have pages of a file (pool address) that they share.
fn shared(
    mappings: impl Iterator<Item = &'static VmaRecord>,
    file: u64,
    pages: &Range<u64>,
) -> impl Iterator<Item = Range<u64>> {
    let is_its = move |mapping: &&VmaRecord| mapping.inode.get() == file && mapping.flags.get() & VMA_SHARED != 0;
    mappings.filter(is_its).map(|mapping| {
        let address = |page: u64| {
            let within = page.saturating_mul(PAGE_SIZE).saturating_sub(mapping.offset.get());
            mapping.start.get().saturating_add(within).min(mapping.end.get())
        };
        address(pages.start)..address(pages.end)
    })
}
