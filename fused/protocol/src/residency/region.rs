//! Regions: what one table of pages translates (2 MiB). The record of the home's table keeps in mind who uses the region.

use core::ops::Range;

use motet_layout::{Cell32, PAGE_SIZE};
use motet_paging::ENTRIES;

use super::{Home, Mmu};
use crate::memory::frame_record;

/// Bytes of a region.
pub const REGION_LEN: u64 = PAGE_SIZE * ENTRIES as u64;

/// A region in which the home has pages, or had. Valid as long as the space's lock is held.
#[derive(Clone, Copy)]
pub struct Region {
    start: u64,
    known: &'static Cell32,
}

impl Region {
    /// Its addresses.
    pub fn range(self) -> Range<u64> {
        self.start..self.start + REGION_LEN
    }

    /// What was last [remembered](Self::remember) of it; at first 0.
    pub fn known(self) -> u32 {
        self.known.get()
    }

    /// Keeps something in mind, until the table goes.
    pub fn remember(self, known: u32) {
        self.known.set(known);
    }
}

/// The first region from an address on. The space's lock is held.
pub fn next_region(context: &impl Mmu, home: &Home, from: u64) -> Option<Region> {
    let (start, table) = home.table.next_table_of_pages(from)?;
    Some(Region { start, known: &frame_record(context.pool(), table).next })
}

/// The region around a page that the home has. The space's lock is held.
pub fn region_at(context: &impl Mmu, home: &Home, page: u64) -> Option<Region> {
    next_region(context, home, page).filter(|region| region.range().contains(&page))
}
