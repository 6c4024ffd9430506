//! A core's translation look-aside buffers, and what a miss of all of them reads: page-table entries, through the caches.
//!
//! They are the core's own: nobody else looks at them, or changes them. So they lie in its process and not in the region.
//! Entries belong to an address space (an ASID or PCID), or are global; each is for a page of one of [`PAGE_SHIFTS`].

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

impl Flush {
    fn drops(self, entry: &Entry) -> bool {
        match self {
            Self::Address { address, space, global } => {
                address >> entry.shift == entry.page && if entry.global { global } else { entry.space == space }
            }
            Self::Everywhere(address) => address >> entry.shift == entry.page,
            Self::Space(space) => !entry.global && entry.space == space,
            Self::NotGlobal => !entry.global,
            Self::All => true,
        }
    }
}

/// One translation, or, in a page-walk cache, the table that addresses with the same upper bits lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Address without the bits inside of the page.
    page: u64,
    shift: u32,
    space: u64,
    global: bool,
}

impl Entry {
    fn is(&self, address: u64, space: u64) -> bool {
        address >> self.shift == self.page && (self.global || self.space == space)
    }
}

/// One buffer: sets of entries, the one used last first.
#[derive(Debug)]
struct Buffer {
    sets: Vec<Vec<Entry>>,
    ways: usize,
    shifts: Vec<u32>,
}

impl Buffer {
    fn new(config: &TlbConfig) -> Self {
        let sets = config.entries / config.ways;
        let shifts = PAGE_SHIFTS.into_iter().filter(|shift| config.page_shifts & 1 << shift != 0).collect();
        Self { sets: vec![Vec::with_capacity(config.ways); sets], ways: config.ways, shifts }
    }

    fn set(&self, page: u64) -> usize {
        page as usize & (self.sets.len() - 1)
    }

    /// Looks an address up; what it finds becomes the one used last.
    fn find(&mut self, address: u64, space: u64) -> Option<Entry> {
        for &shift in &self.shifts {
            let set = self.set(address >> shift);
            let set = &mut self.sets[set];
            if let Some(at) = set.iter().position(|entry| entry.shift == shift && entry.is(address, space)) {
                set[..=at].rotate_right(1);
                return set.first().copied();
            }
        }
        None
    }

    /// Keeps a translation; what has to go. A buffer that has no pages of that size keeps the part of it that fits.
    fn keep(&mut self, address: u64, entry: Entry) -> Option<Entry> {
        let shift = self.shifts.iter().copied().rfind(|&shift| shift <= entry.shift)?;
        let entry = Entry { page: address >> shift, shift, ..entry };
        let (set, ways) = (self.set(entry.page), self.ways);
        let set = &mut self.sets[set];
        let gone = if set.len() == ways { set.pop() } else { None };
        set.insert(0, entry);
        gone
    }

    fn flush(&mut self, flush: Flush) -> u64 {
        let drop = |set: &mut Vec<Entry>| {
            let before = set.len();
            set.retain(|entry| !flush.drops(entry));
            (before - set.len()) as u64
        };
        self.sets.iter_mut().map(drop).sum()
    }
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
        Self { address: entry.page << entry.shift, shift: entry.shift }
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
        let table =
            |entries: usize| Buffer { sets: vec![Vec::with_capacity(entries)], ways: entries, shifts: Vec::new() };
        Self {
            first: [Buffer::new(&config.l1i), Buffer::new(&config.l1d)],
            second: config.l2.as_ref().map(Buffer::new),
            tables: (config.walk_cache_entries != 0).then(|| SPANS.map(|_| table(config.walk_cache_entries))),
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
        let known = (1..count.min(WALK_ENTRIES_MAX)).rev().find(|&depth| {
            let set = &mut tables[depth - 1].sets[0];
            let at = set.iter().position(|entry| entry.is(address, space));
            at.map(|at| set[..=at].rotate_right(1)).is_some()
        });
        known.unwrap_or(0)
    }

    /// Keeps what a walk has found; what has to go from the first level.
    pub(crate) fn keep(&mut self, side: Side, address: u64, space: u64, walk: &Walk) -> Option<Gone> {
        if let Some(tables) = &mut self.tables {
            for (table, shift) in tables.iter_mut().zip(SPANS).take(walk.count.saturating_sub(1)) {
                let entry = Entry { page: address >> shift, shift, space, global: false };
                let set = &mut table.sets[0];
                if !set.contains(&entry) {
                    set.truncate(table.ways - 1);
                    set.insert(0, entry);
                }
            }
        }
        let Page { shift, global } = walk.page?;
        let entry = Entry { page: address >> shift, shift, space, global };
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
