//! The reverse map: from pages of a file to the addresses where a space has them mapped. It is derived from the mappings, so nothing is kept for each
//! page; a space has a page of a file only at addresses that its mappings of the file give.

use core::ops::Range;

use motet_layout::{InodeRecord, PAGE_SIZE, SpaceRecord, VMA_SHARED, VMA_STORE, VMA_VIEW, VmaRecord};

use super::{
    Mmu,
    withdraw::{drop_pages, write_protect},
};

/// Unmaps pages that a file no longer has, where a space shares the file, so that the next access to them faults. `is_cut`: because it has become
/// shorter; then private mappings lose them, too, with what has been written there. Text of several instruction sets stays, as others show it:
/// nobody cuts the file of a program that runs. `mappings`: all of the space, whose lock is held.
pub fn forget_file(
    context: &impl Mmu,
    space: &SpaceRecord,
    mappings: impl Iterator<Item = &'static VmaRecord>,
    inode: &'static InodeRecord,
    pages: &Range<u64>,
    is_cut: bool,
) {
    let is_meant = move |flags: u32| flags & VMA_SHARED != 0 || is_cut && flags & (VMA_VIEW | VMA_STORE) == 0;
    mapped(mappings, context.raw(inode), pages, is_meant).for_each(|range| drop_pages(context, space, range));
}

/// Makes pages of a file read-only where a space shares it. As [`forget_file`].
pub fn write_protect_file(
    context: &impl Mmu,
    space: &SpaceRecord,
    mappings: impl Iterator<Item = &'static VmaRecord>,
    inode: &'static InodeRecord,
    pages: &Range<u64>,
) {
    let is_shared = |flags: u32| flags & VMA_SHARED != 0;
    mapped(mappings, context.raw(inode), pages, is_shared).for_each(|range| write_protect(context, space, range));
}

/// Where those mappings have pages of a file (pool address) whose `VMA_*` are meant.
pub fn mapped(
    mappings: impl Iterator<Item = &'static VmaRecord>,
    file: u64,
    pages: &Range<u64>,
    is_meant: impl Fn(u32) -> bool,
) -> impl Iterator<Item = Range<u64>> {
    let is_its = move |mapping: &&VmaRecord| mapping.inode.get() == file && is_meant(mapping.flags.get());
    mappings.filter(is_its).map(|mapping| {
        let address = |page: u64| {
            let within = page.saturating_mul(PAGE_SIZE).saturating_sub(mapping.offset.get());
            // What is behind is not the file's (`.bss`).
            let of_file = mapping.file_len.get().saturating_add(PAGE_SIZE - 1) & !(PAGE_SIZE - 1);
            mapping.start.get().saturating_add(within.min(of_file)).min(mapping.end.get())
        };
        address(pages.start)..address(pages.end)
    })
}
