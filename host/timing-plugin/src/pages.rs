//! Where a core's virtual pages lie: asking QEMU costs several times what a cache hit costs.
//!
//! An entry is as good as one in a core's own TLB: it is made by an access that succeeded, and dropped when the core
//! executes an instruction that drops TLB entries ([`crate::translations::are_dropped_by`]). A page that became
//! writable may have moved (copy on write) without such an instruction on a core that has only read it, so only a store
//! makes an entry good for stores, and replaces the one for loads.

/// Pages remembered: as many as have 16 MiB.
const ENTRIES: usize = 4096;
const PAGE_SHIFT: u32 = 12;
/// An address's bits that say which page it is in.
pub const PAGE: u64 = !0 << PAGE_SHIFT;
/// A bit in which the addresses of pages that are kept apart are changed: no address that a program can use becomes another one so.
const APART: u64 = 1 << 62;
/// In a tag: the page has been stored to.
const STORED: u64 = 1;
/// In a tag: one of these generations, but not 0.
const GENERATION: u64 = 2;
const GENERATIONS: u64 = !PAGE & !STORED;

/// A page: its address, the generation that it is of, and whether it has been stored to; and physical minus virtual address.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u64,
    delta: u64,
}

/// Of no generation.
const NONE: Entry = Entry { tag: 0, delta: 0 };

/// A virtual CPU's pages.
#[derive(Debug)]
pub struct Pages {
    /// What entries have in their tags that have not been forgotten.
    generation: u64,
    entries: [Entry; ENTRIES],
}

impl Pages {
    /// None known.
    pub const fn new() -> Self {
        Self { generation: GENERATION, entries: [NONE; ENTRIES] }
    }

    fn slot(address: u64) -> usize {
        (address >> PAGE_SHIFT) as usize % ENTRIES
    }

    /// The physical address of a virtual one, if it is known for loads, or for stores.
    #[inline(always)]
    pub fn find(&self, address: u64, store: bool) -> Option<u64> {
        self.find_page(address).filter(|(_, stored)| *stored || !store).map(|(physical, _)| physical)
    }

    /// The physical address of a virtual one, if it is known for loads, and whether it is for stores.
    #[inline(always)]
    pub fn find_page(&self, address: u64) -> Option<(u64, bool)> {
        let entry = &self.entries[Self::slot(address)];
        let differs = entry.tag ^ (address & PAGE | self.generation);
        (differs <= STORED).then(|| (address.wrapping_add(entry.delta), differs == STORED))
    }

    /// An access to a virtual address has gone to a physical one.
    pub fn learn(&mut self, address: u64, physical: u64, store: bool) {
        let tag = address & PAGE | self.generation | if store { STORED } else { 0 };
        self.entries[Self::slot(address)] = Entry { tag, delta: physical.wrapping_sub(address) };
    }

    /// As [`Pages::learn`], of a page that only [`Pages::find_apart`] is to find.
    pub fn learn_apart(&mut self, address: u64, physical: u64, store: bool) {
        self.learn(address ^ APART, physical, store);
    }

    /// As [`Pages::find`], of a page that is kept apart.
    pub fn find_apart(&self, address: u64, store: bool) -> Option<u64> {
        self.find(address ^ APART, store)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.generation = self.generation + GENERATION & GENERATIONS;
        if self.generation == 0 {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_after_an_access_until_it_is_dropped() {
        let mut pages = Pages::new();
        assert_eq!((pages.find(0, false), pages.find(u64::MAX, true)), (None, None));
        pages.learn(0xffff_9000_0000_1234, 0x8000_5234, true);
        assert_eq!(pages.find(0xffff_9000_0000_1ff8, false), Some(0x8000_5ff8));
        assert_eq!(pages.find(0xffff_9000_0000_1ff8, true), Some(0x8000_5ff8));
        assert_eq!(pages.find(0xffff_9000_0000_2000, false), None);
        pages.clear();
        assert_eq!(pages.find(0xffff_9000_0000_1ff8, false), None);
    }

    #[test]
    fn a_load_does_not_open_a_page_for_stores_and_a_store_replaces_what_loads_knew() {
        let mut pages = Pages::new();
        pages.learn(0x40_1000, 0x8000_1000, false);
        assert_eq!((pages.find(0x40_1008, false), pages.find(0x40_1008, true)), (Some(0x8000_1008), None));
        pages.learn(0x40_1000, 0x8000_9000, true); // the copy of a page that was shared
        assert_eq!(pages.find(0x40_1008, false), Some(0x8000_9008));
    }

    #[test]
    fn what_was_forgotten_is_not_remembered_however_often_more_is() {
        let mut pages = Pages::new();
        for number in 0..10_000_u64 {
            pages.learn(number << PAGE_SHIFT, 0x8000_0000, true);
            assert_eq!(pages.find(number << PAGE_SHIFT | 8, true), Some(0x8000_0008));
            pages.clear();
            assert!((0..=number).all(|number| pages.find(number << PAGE_SHIFT, false).is_none()), "{number}");
        }
    }

    #[test]
    fn a_page_that_is_kept_apart_is_found_only_so() {
        for address in [0x1008, 0xffff_9000_0000_1008] {
            let mut pages = Pages::new();
            pages.learn_apart(address, 0x8000_5008, false);
            assert_eq!((pages.find_page(address), pages.find_apart(address, true)), (None, None));
            assert_eq!(pages.find_apart(address + 8, false), Some(0x8000_5010));
            pages.learn(address, 0x8000_6008, true);
            assert_eq!((pages.find(address, true), pages.find_apart(address, false)), (Some(0x8000_6008), None));
            pages.learn_apart(address, 0x8000_5008, true);
            pages.clear();
            assert_eq!(pages.find_apart(address, false), None);
        }
    }

    #[test]
    fn pages_that_share_an_entry_replace_each_other() {
        let mut pages = Pages::new();
        pages.learn(0x1000, 0x5000, true);
        pages.learn(0x1000 + (ENTRIES << PAGE_SHIFT) as u64, 0x6000, true);
        assert_eq!(pages.find(0x1000, false), None);
    }
}
