//! A core's translation look-aside buffers, and what a miss of all of them reads: page-table entries, through the caches.
//!
//! They are the core's own: nobody else looks at them, or changes them. So they lie in its process and not in the region.
//! Entries belong to an address space (an ASID or PCID), or are global; each is for a page of one of [`PAGE_SHIFTS`].

use std::ops::Range;

use crate::Picoseconds;
use crate::config::TlbConfig;
use crate::core::{Core, Kind};
use crate::counters::Count;

/// Sizes of pages, as shifts: 4 KiB, 2 MiB, 1 GiB.
pub const PAGE_SHIFTS: [u32; 3] = [12, 21, 30];
/// Tables that a walk reads at most.
pub const WALK_ENTRIES_MAX: usize = 4;

/// What a walk finds, top-down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Local physical addresses of the entries that are read, the root's first.
    pub entries: [u64; WALK_ENTRIES_MAX],
    /// How many.
    pub count: usize,
    /// The page that the last one maps; `None`: no page, and nothing is kept.
    pub page: Option<Page>,
}

/// A page that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its size: one of [`PAGE_SHIFTS`].
    pub shift: u32,
    /// In all address spaces.
    pub global: bool,
}

/// What an instruction drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// The translation of an address in an address space.
    Address {
        /// The address.
        address: u64,
        /// The address space.
        space: u64,
        /// The global one, too.
        global: bool,
    },
    /// The translations of an address in all address spaces.
    Everywhere(u64),
    /// All of an address space, apart from global ones.
    Space(u64),
    /// All but global ones.
    NotGlobal,
    /// Everything.
    All,
}

/// One translation, or, in a page-walk cache, the table that addresses with the same upper bits lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// The address without the bits inside of the page, and the page's size: see [`Entry::tag`].
    tag: u64,
    /// The address space: see [`Entry::owner`]. [`GLOBAL`]: all of them.
    owner: u64,
}

/// Where a set has nothing: no tag is 0, as no size is.
const NONE: Entry = Entry { tag: 0, owner: 0 };
/// No address space has this bit.
const GLOBAL: u64 = 1;
/// Bits of a tag that are the size, as a shift.
const SHIFT_BITS: u32 = 6;

impl Entry {
    fn new(address: u64, shift: u32, space: u64, global: bool) -> Self {
        Self { tag: Self::tag(address, shift), owner: if global { GLOBAL } else { Self::owner(space) } }
    }

    /// What all entries for an address with pages of this size have.
    #[inline(always)]
    const fn tag(address: u64, shift: u32) -> u64 {
        address >> shift << SHIFT_BITS | shift as u64
    }

    /// What the entries of an address space have; its number has less than 64 bits.
    #[inline(always)]
    const fn owner(space: u64) -> u64 {
        space << 1
    }

    #[inline(always)]
    const fn is(self, tag: u64, owner: u64) -> bool {
        self.tag == tag && (self.owner == owner || self.owner == GLOBAL)
    }

    const fn shift(self) -> u32 {
        self.tag as u32 & ((1 << SHIFT_BITS) - 1)
    }

    /// Whether this is dropped, if its address is.
    fn is_dropped_by(self, flush: Flush) -> bool {
        let is_global = self.owner == GLOBAL;
        match flush {
            Flush::Address { space, global, .. } => {
                if is_global {
                    global
                } else {
                    self.owner == Self::owner(space)
                }
            }
            Flush::Space(space) => self.owner == Self::owner(space),
            Flush::NotGlobal => !is_global,
            Flush::Everywhere(_) | Flush::All => true,
        }
    }
}

/// One buffer.
#[derive(Debug)]
struct Buffer {
    /// Sets of so many `ways`, one after the other: in each the entry used last first, and behind the last one [`NONE`].
    entries: Box<[Entry]>,
    ways: usize,
    /// The number of the last set.
    last: u64,
    /// Sizes of pages that it has, the smallest first.
    sizes: Vec<Size>,
}

/// A size of pages.
#[derive(Clone, Copy, Debug)]
struct Size {
    shift: u32,
    /// How many entries of a buffer have it: what none has is not looked for.
    held: usize,
}

impl Buffer {
    fn new(config: &TlbConfig) -> Self {
        let shifts = PAGE_SHIFTS.into_iter().filter(|shift| config.page_shifts & 1 << shift != 0);
        Self::with(config.entries, config.ways, shifts)
    }

    fn with(entries: usize, ways: usize, shifts: impl IntoIterator<Item = u32>) -> Self {
        let sizes = shifts.into_iter().map(|shift| Size { shift, held: 0 }).collect();
        Self { entries: vec![NONE; entries].into(), ways, last: (entries / ways) as u64 - 1, sizes }
    }

    /// Where the set is that entries with a tag are in.
    #[inline(always)]
    fn set(&self, tag: u64) -> Range<usize> {
        let first = (tag >> SHIFT_BITS & self.last) as usize * self.ways;
        first..first + self.ways
    }

    /// Whether an address has a translation for a page of the smallest size, and that was used last in its set: then looking it
    /// up changes nothing.
    #[inline(always)]
    fn has_first(&self, address: u64, space: u64) -> bool {
        let tag = Entry::tag(address, PAGE_SHIFTS[0]);
        self.entries[self.set(tag).start].is(tag, Entry::owner(space))
    }

    /// Looks an address up; what it finds becomes the one used last.
    fn find(&mut self, address: u64, space: u64) -> Option<Entry> {
        for size in self.sizes.iter().filter(|size| size.held != 0) {
            let (tag, owner) = (Entry::tag(address, size.shift), Entry::owner(space));
            let range = self.set(tag);
            let set = &mut self.entries[range];
            if let Some(at) = set.iter().position(|entry| entry.is(tag, owner)) {
                let found = set[at];
                set.copy_within(..at, 1);
                set[0] = found;
                return Some(found);
            }
        }
        None
    }

    /// Keeps a translation; what has to go. A buffer that has no pages of that size keeps the part of it that fits.
    fn keep(&mut self, address: u64, entry: Entry) -> Option<Entry> {
        let size = self.sizes.iter_mut().rfind(|size| size.shift <= entry.shift())?;
        size.held += 1;
        let entry = Entry { tag: Entry::tag(address, size.shift), ..entry };
        let range = self.set(entry.tag);
        let set = &mut self.entries[range];
        let gone = set[self.ways - 1];
        set.copy_within(..self.ways - 1, 1);
        set[0] = entry;
        if gone == NONE {
            return None;
        }
        count_out(&mut self.sizes, gone);
        Some(gone)
    }

    /// Whether there is such an entry; it is not used.
    fn has(&self, entry: Entry) -> bool {
        self.entries[self.set(entry.tag)].contains(&entry)
    }

    fn flush(&mut self, flush: Flush) -> u64 {
        let (Flush::Address { address, .. } | Flush::Everywhere(address)) = flush else {
            let Self { entries, sizes, .. } = self;
            let drop = |set| drop_from(set, sizes, |entry| entry.is_dropped_by(flush));
            return entries.chunks_exact_mut(self.ways).map(drop).sum();
        };
        let tags = self.sizes.iter().filter(|size| size.held != 0).map(|size| Entry::tag(address, size.shift));
        let tags: Vec<u64> = tags.collect();
        let mut dropped = 0;
        for tag in tags {
            let range = self.set(tag);
            let drops = |entry: Entry| entry.tag == tag && entry.is_dropped_by(flush);
            dropped += drop_from(&mut self.entries[range], &mut self.sizes, drops);
        }
        dropped
    }
}

/// Drops entries of a set: how many. The others stay in their order.
fn drop_from(set: &mut [Entry], sizes: &mut [Size], drops: impl Fn(Entry) -> bool) -> u64 {
    let used = set.iter().take_while(|entry| **entry != NONE).count();
    let mut kept = 0;
    for at in 0..used {
        let entry = set[at];
        if drops(entry) {
            count_out(sizes, entry);
        } else {
            set[kept] = entry;
            kept += 1;
        }
    }
    set[kept..used].fill(NONE);
    (used - kept) as u64
}

/// An entry has left its buffer.
fn count_out(sizes: &mut [Size], entry: Entry) {
    sizes.iter_mut().filter(|size| size.shift == entry.shift()).for_each(|size| size.held -= 1);
}

/// Which first-level buffer an access looks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Instructions.
    Fetch,
    /// Loads and stores.
    Data,
}

/// What translating an address was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// What it took.
    pub cost: Picoseconds,
    /// A page that the first-level buffer had to give up for it.
    pub gone: Option<Gone>,
    /// The walk, if there was one; not all of its entries need have been read.
    pub read: Option<Walk>,
}

/// Where a translation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    First,
    Second,
    Nowhere,
}

/// A page that a first-level buffer no longer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its first address.
    pub address: u64,
    /// Its size, as a shift.
    pub shift: u32,
}

impl From<Entry> for Gone {
    fn from(entry: Entry) -> Self {
        let shift = entry.shift();
        Self { address: entry.tag >> SHIFT_BITS << shift, shift }
    }
}

/// The buffers of one core.
#[derive(Debug)]
pub(crate) struct Tlbs {
    first: [Buffer; 2],
    second: Option<Buffer>,
    /// Tables of the third, second and first level (by what an entry spans), found by walks.
    tables: Option<[Buffer; 3]>,
}

/// What an entry of the root, and of the next two levels, spans.
const SPANS: [u32; 3] = [39, 30, 21];

impl Tlbs {
    pub(crate) fn new(config: &crate::config::TlbsConfig) -> Self {
        let entries = config.walk_cache_entries;
        Self {
            first: [Buffer::new(&config.l1i), Buffer::new(&config.l1d)],
            second: config.l2.as_ref().map(Buffer::new),
            tables: (entries != 0).then(|| SPANS.map(|span| Buffer::with(entries, entries, [span]))),
        }
    }

    /// Looks an address up, and brings it to the first level from the second; what has to go from there.
    pub(crate) fn find(&mut self, side: Side, address: u64, space: u64) -> (Found, Option<Gone>) {
        let first = &mut self.first[side as usize];
        if first.find(address, space).is_some() {
            return (Found::First, None);
        }
        match self.second.as_mut().and_then(|second| second.find(address, space)) {
            Some(entry) => (Found::Second, first.keep(address, entry).map(Gone::from)),
            None => (Found::Nowhere, None),
        }
    }

    /// How many of a walk's entries need not be read, because a table further down is known.
    pub(crate) fn known_tables(&mut self, address: u64, space: u64, count: usize) -> usize {
        let Some(tables) = &mut self.tables else { return 0 };
        let known =
            (1..count.min(WALK_ENTRIES_MAX)).rev().find(|&depth| tables[depth - 1].find(address, space).is_some());
        known.unwrap_or(0)
    }

    /// Keeps what a walk has found; what has to go from the first level.
    pub(crate) fn keep(&mut self, side: Side, address: u64, space: u64, walk: &Walk) -> Option<Gone> {
        if let Some(tables) = &mut self.tables {
            for (table, span) in tables.iter_mut().zip(SPANS).take(walk.count.saturating_sub(1)) {
                let entry = Entry::new(address, span, space, false);
                if !table.has(entry) {
                    table.keep(address, entry);
                }
            }
        }
        let Page { shift, global } = walk.page?;
        let entry = Entry::new(address, shift, space, global);
        if let Some(second) = &mut self.second {
            second.keep(address, entry);
        }
        self.first[side as usize].keep(address, entry).map(Gone::from)
    }

    /// Drops translations, and all tables that are known of the address spaces concerned: how many translations, each counted
    /// once for each buffer.
    pub(crate) fn flush(&mut self, flush: Flush) -> u64 {
        // Of an address, all tables of its address space: what x86-64 promises, and others may do.
        let tables = match flush {
            Flush::Address { space, .. } => Flush::Space(space),
            Flush::Everywhere(_) => Flush::All,
            other @ (Flush::Space(_) | Flush::NotGlobal | Flush::All) => other,
        };
        for table in self.tables.iter_mut().flatten() {
            table.flush(tables);
        }
        self.first.iter_mut().chain(&mut self.second).map(|buffer| buffer.flush(flush)).sum()
    }
}

impl Core<'_> {
    /// Whether [`Core::translate`] would find an address where it was used last, and change nothing and cost nothing.
    #[inline(always)]
    pub fn has_translated(&self, side: Side, address: u64, space: u64) -> bool {
        self.tlbs.as_ref().is_none_or(|tlbs| tlbs.first[side as usize].has_first(address, space))
    }

    /// Translates an address for an access: its latency before the access itself, and what has to be told of its TLBs. `walk`
    /// says what a walk reads, and is asked only if there is one; its reads go through the caches.
    pub fn translate(&mut self, side: Side, address: u64, space: u64, walk: impl FnOnce() -> Walk) -> Translated {
        let Some(tlbs) = &mut self.tlbs else { return Translated::default() };
        let (found, gone) = tlbs.find(side, address, space);
        if found == Found::First {
            return Translated::default();
        }
        self.count(if side == Side::Fetch { Count::itlb_misses } else { Count::dtlb_misses }, 1);
        self.count(Count::stall_tlb_ps, self.l2_tlb_ps);
        if found == Found::Second {
            return Translated { cost: Picoseconds(self.l2_tlb_ps), gone, read: None };
        }
        let walk = walk();
        let known = self.tlbs.as_mut().map_or(0, |tlbs| tlbs.known_tables(address, space, walk.count));
        let read = walk.entries.get(known..walk.count).unwrap_or_default();
        let cost = read.iter().map(|&entry| self.access(Kind::Walk, entry, 8)).sum::<Picoseconds>();
        self.count(Count::tlb_walks, 1);
        let gone = self.tlbs.as_mut().and_then(|tlbs| tlbs.keep(side, address, space, &walk));
        Translated { cost: Picoseconds(self.l2_tlb_ps) + cost, gone, read: Some(walk) }
    }

    /// The core executes an instruction that drops translations.
    pub fn flush(&mut self, flush: Flush) {
        let Some(tlbs) = &mut self.tlbs else { return };
        let dropped = tlbs.flush(flush);
        self.count(Count::tlb_flushes, 1);
        self.count(Count::tlb_flushed, dropped);
    }

    /// Whether translation costs anything.
    pub fn translates(&self) -> bool {
        self.tlbs.is_some()
    }
}
