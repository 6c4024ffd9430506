//! The walker: any island's page table, read and edited by any kernel.

use core::ops::Range;
use motet_layout::sync::{AtomicU64, Ordering};

use motet_layout::{Frame, PAGE_SHIFT, PAGE_SIZE, Pool, PoolAddr};

use crate::format::{Encoding, with_encoding};
use crate::{Attr, ENTRIES, Entry, Format, LEVELS, PhysMap};

/// Entries of one table page.
type Page = [AtomicU64; ENTRIES];

/// A mapped page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Its frame.
    pub frame: Frame,
    /// What may be done with it.
    pub attr: Attr,
}

/// No frame was left for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfFrames;

/// The user half of an island's page table.
///
/// Addresses at or above 2^47 are never translated, and editing them panics. Edits are made under the address space's
/// lock; hardware may walk meanwhile. After an edit that takes something away, the caller owes a shoot-down on the
/// island's cores before it reuses a frame.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    /// The pool, as this kernel sees it.
    pub pool: Pool,
    /// The root table.
    pub root: Frame,
    /// The format of the island that translates by this table.
    pub format: Format,
    /// Where that island sees the pool.
    pub map: PhysMap<'a>,
}

/// How many absent entries cost as much as a page, in [`Table::end_of_piece`].
pub const PAGE_ENTRIES: u64 = 16;

/// Bytes translated by one entry at `level`.
const fn span(level: u8) -> u64 {
    1 << (PAGE_SHIFT + 9 * level as u32)
}

/// First address past the one entry at `level` that translates `va`.
const fn next(va: u64, level: u8) -> u64 {
    (va | (span(level) - 1)) + 1
}

#[inline(always)]
const fn index(va: u64, level: u8) -> usize {
    (va >> (PAGE_SHIFT + 9 * level as u32)) as usize % ENTRIES
}

/// Whether `va` is in the half of the address space that user tables translate.
#[inline(always)]
const fn is_user(va: u64) -> bool {
    va >> 47 == 0
}

/// The end of user addresses as tables see it.
const HALF_END: u64 = 1 << 47;

impl Table<'_> {
    /// What user code of the island finds at `va`: the frame and its attributes. `None` for what hardware would not
    /// translate, inactive pages included.
    #[inline]
    pub fn lookup(&self, va: u64) -> Option<(Frame, Attr)> {
        with_encoding!(self.format, F => {
            let (pte, page) = self.walk::<F>(va, F::READ_MASK, F::READ_BITS)?;
            Some((page.frame(), F::attr(pte)))
        })
    }

    /// The byte of the pool that user code of the island may read at `va`.
    ///
    /// This and [`writable`](Self::writable) are what user-memory copies use: one load per level, one test of the leaf.
    #[inline]
    pub fn readable(&self, va: u64) -> Option<PoolAddr> {
        with_encoding!(self.format, F => {
            let (_, page) = self.walk::<F>(va, F::READ_MASK, F::READ_BITS)?;
            Some(page.add(va % PAGE_SIZE))
        })
    }

    /// The byte of the pool that user code of the island may write at `va`.
    #[inline]
    pub fn writable(&self, va: u64) -> Option<PoolAddr> {
        with_encoding!(self.format, F => {
            let (_, page) = self.walk::<F>(va, F::WRITE_MASK, F::WRITE_BITS)?;
            Some(page.add(va % PAGE_SIZE))
        })
    }

    /// The page mapped at `va`, active or not.
    ///
    /// # Panics
    /// When the table is corrupt.
    #[inline]
    pub fn leaf(&self, va: u64) -> Option<Leaf> {
        if !is_user(va) {
            return None;
        }
        with_encoding!(self.format, F => {
            let page = self.leaf_page::<F>(va).ok()?;
            self.decode::<F>(page[index(va, 0)].load(Ordering::Relaxed))
        })
    }

    /// Maps `frame` at `va` and returns what was mapped there before.
    ///
    /// `allocate` gives frames for missing tables, zeroed.
    ///
    /// # Errors
    /// `allocate` had no frame. Tables made so far stay, empty.
    ///
    /// # Panics
    /// When `va` is no user address, or the table is corrupt.
    pub fn map(
        &self,
        va: u64,
        frame: Frame,
        attr: Attr,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<Option<Leaf>, OutOfFrames> {
        assert!(is_user(va), "mapping {va:#x}, which is no user address");
        with_encoding!(self.format, F => {
            let mut page = self.page(self.root.addr());
            for level in (1..LEVELS).rev() {
                page = self.next_or_new::<F>(&page[index(va, level)], level, allocate)?;
            }
            let slot = &page[index(va, 0)];
            let before = self.decode::<F>(slot.load(Ordering::Relaxed));
            self.store::<F>(slot, Some(Leaf { frame, attr }));
            Ok(before)
        })
    }

    /// Replaces the page mapped at `va` by what `edit` makes of it (`None` removes it); returns what it was. Nothing
    /// happens when no page is mapped there.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn update(&self, va: u64, edit: impl FnOnce(Leaf) -> Option<Leaf>) -> Option<Leaf> {
        with_encoding!(self.format, F => {
            let slot = &self.leaf_page::<F>(va).ok()?[index(va, 0)];
            let before = self.decode::<F>(slot.load(Ordering::Relaxed))?;
            let after = edit(before);
            if after != Some(before) {
                self.store::<F>(slot, after);
            }
            Some(before)
        })
    }

    /// Removes the page at `va` and returns it.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn unmap(&self, va: u64) -> Option<Leaf> {
        self.update(va, |_| None)
    }

    /// Visits the pages mapped in `range` (page-aligned), inactive ones too, in ascending order; each becomes what `edit`
    /// returns (`None` removes it). Absent subtrees cost one load per absent entry.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn for_each(&self, range: Range<u64>, mut edit: impl FnMut(u64, Leaf) -> Option<Leaf>) {
        let end = range.end.min(HALF_END);
        let mut va = range.start;
        with_encoding!(self.format, F => while va < end {
            match self.leaf_page::<F>(va) {
                Ok(page) => {
                    let stop = next(va, 1).min(end);
                    self.edit_page::<F>(page, va..stop, &mut edit);
                    va = stop;
                }
                Err((page, level)) => va = skip_empty(page, level, va, end),
            }
        });
    }

    /// Where a piece of work on `range` (page-aligned) ends that is to take a bounded time: after `budget` absent entries, each page mapped
    /// counting as [`PAGE_ENTRIES`] of them, or at the range's end. Never before one entry.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn end_of_piece(&self, range: Range<u64>, budget: u64) -> u64 {
        let end = range.end.min(HALF_END);
        let (mut va, mut spent) = (range.start, 0);
        with_encoding!(self.format, F => while va < end && spent < budget {
            match self.leaf_page::<F>(va) {
                Ok(page) => {
                    let stop = next(va, 1).min(end);
                    while va < stop && spent < budget {
                        spent += if page[index(va, 0)].load(Ordering::Relaxed) == 0 { 1 } else { PAGE_ENTRIES };
                        va += PAGE_SIZE;
                    }
                }
                Err((page, level)) => {
                    let skipped = skip_empty(page, level, va, end);
                    spent += (skipped - va).div_ceil(span(level));
                    va = skipped;
                }
            }
        });
        if va < end { va } else { range.end }
    }

    /// Moves the pages mapped in `from` (page-aligned) to where none are, `to` and on, in the same order. Whole tables move where both
    /// places lie alike in them; absent subtrees cost what they cost [`for_each`](Self::for_each).
    ///
    /// # Errors
    /// `allocate` had no frame for a table: the address from which on nothing has been moved. Moving the rest back needs no
    /// frames.
    ///
    /// # Panics
    /// When a page would come to where there are no user addresses, or the table is corrupt.
    pub fn move_pages(
        &self,
        from: Range<u64>,
        to: u64,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<(), u64> {
        let end = from.end.min(HALF_END);
        let mut va = from.start;
        with_encoding!(self.format, F => while va < end {
            let target = to + (va - from.start);
            match self.leaf_page::<F>(va) {
                Ok(page) => {
                    let stop = next(va, 1).min(end);
                    let is_whole = va % span(1) == 0 && target % span(1) == 0 && stop - va == span(1);
                    if !is_whole || !self.move_table::<F>(va, target, allocate).map_err(|_| va)? {
                        self.move_entries::<F>(page, va..stop, target, allocate)?;
                    }
                    va = stop;
                }
                Err((page, level)) => va = skip_empty(page, level, va, end),
            }
        });
        Ok(())
    }

    /// Moves the table of pages at `va`, unless there is one at `to` already: whether it did.
    fn move_table<F: Encoding>(
        &self,
        va: u64,
        to: u64,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<bool, OutOfFrames> {
        let new = self.slot_of_table::<F>(to, allocate)?;
        let old = self.slot_of_table::<F>(va, allocate)?;
        let is_free = new.load(Ordering::Relaxed) == 0;
        if is_free {
            new.store(old.load(Ordering::Relaxed), Ordering::Release);
            old.store(0, Ordering::Release);
        }
        Ok(is_free)
    }

    fn move_entries<F: Encoding>(
        &self,
        page: &Page,
        from: Range<u64>,
        to: u64,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<(), u64> {
        for va in from.clone().step_by(PAGE_SIZE as usize) {
            let slot = &page[index(va, 0)];
            if let Some(leaf) = self.decode::<F>(slot.load(Ordering::Relaxed)) {
                self.map(to + (va - from.start), leaf.frame, leaf.attr, allocate).map_err(|_| va)?;
                self.store::<F>(slot, None);
            }
        }
        Ok(())
    }

    /// The entry that names the table of pages around `va`; makes the tables above it.
    fn slot_of_table<F: Encoding>(
        &self,
        va: u64,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<&'static AtomicU64, OutOfFrames> {
        assert!(is_user(va), "editing {va:#x}, which is no user address");
        let mut page = self.page(self.root.addr());
        for level in (2..LEVELS).rev() {
            page = self.next_or_new::<F>(&page[index(va, level)], level, allocate)?;
        }
        Ok(&page[index(va, 1)])
    }

    /// Takes tables that `range` (page-aligned) no longer needs out of the tree and hands their frames to `free`.
    ///
    /// A table that lies wholly in `range` goes: the caller has removed its pages before. A table that `range` cuts goes
    /// when it has become empty. The root stays. Hardware may hold translations through a table until the shoot-down, so
    /// its frame must not be used again before. `0..u64::MAX` takes all.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn free_tables(&self, range: Range<u64>, mut free: impl FnMut(Frame)) {
        let range = range.start..range.end.min(HALF_END);
        if range.is_empty() {
            return;
        }
        with_encoding!(self.format, F => self.free_below::<F>(self.root.addr(), LEVELS - 1, 0, &range, &mut free));
    }

    /// Takes all tables but the root out of the tree, whatever they map, and hands their frames to `free`: for a table
    /// that is used no more. `ranges`, which is called for each level, gives the addresses where pages have been mapped;
    /// only what lies there is visited.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn free_all_tables<R: Iterator<Item = Range<u64>>>(&self, ranges: impl Fn() -> R, mut free: impl FnMut(Frame)) {
        with_encoding!(self.format, F => for level in 1..LEVELS {
            for range in ranges() {
                self.free_children::<F>(level, &range, &mut free);
            }
        });
    }

    /// Frees the tables that entries at `level` name, as far as they translate addresses of `range`.
    fn free_children<F: Encoding>(&self, level: u8, range: &Range<u64>, free: &mut impl FnMut(Frame)) {
        let (mut va, end) = (range.start, range.end.min(HALF_END));
        'addresses: while va < end {
            let mut page = self.page(self.root.addr());
            for above in (level + 1..LEVELS).rev() {
                match self.next_table::<F>(&page[index(va, above)], above) {
                    Some(addr) => page = self.page(addr),
                    None => {
                        va = next(va, above);
                        continue 'addresses;
                    }
                }
            }
            let slot = &page[index(va, level)];
            if let Some(child) = self.next_table::<F>(slot, level) {
                slot.store(0, Ordering::Relaxed);
                free(child.frame());
            }
            va = next(va, level);
        }
    }

    /// The level-0 entry of `va`, if its `mask` bits are `bits`, and the page it names.
    #[inline(always)]
    fn walk<F: Encoding>(&self, va: u64, mask: u64, bits: u64) -> Option<(u64, PoolAddr)> {
        match self.map.single_delta() {
            // Subtracting before masking gives the same as after (the delta is page-aligned) and shows the compiler an
            // aligned address, so that the pool need not test it. The pool's bounds check is the map's as well.
            Some(delta) => self.walk_by::<F>(va, mask, bits, |pte| {
                Some(PoolAddr((pte << F::ADDRESS_SHIFT).wrapping_sub(delta) & F::ADDRESS_MASK))
            }),
            None => self.walk_piecewise::<F>(va, mask, bits),
        }
    }

    #[cold]
    #[inline(never)]
    fn walk_piecewise<F: Encoding>(&self, va: u64, mask: u64, bits: u64) -> Option<(u64, PoolAddr)> {
        self.walk_by::<F>(va, mask, bits, |pte| self.map.to_pool(F::phys(pte)))
    }

    #[inline(always)]
    fn walk_by<F: Encoding>(
        &self,
        va: u64,
        mask: u64,
        bits: u64,
        named: impl Fn(u64) -> Option<PoolAddr>,
    ) -> Option<(u64, PoolAddr)> {
        if !is_user(va) {
            return None;
        }
        let mut page: &Page = self.pool.page_words(self.root.addr())?;
        // The next address depends on the loaded entry, which orders the loads on every ISA; the entry was published
        // with release. Hardware walks rely on the same.
        for level in (1..LEVELS).rev() {
            let pte = page[index(va, level)].load(Ordering::Relaxed);
            if !F::is_table(pte) {
                return None;
            }
            page = self.pool.page_words(named(pte)?)?;
        }
        let pte = page[index(va, 0)].load(Ordering::Relaxed);
        if pte & mask != bits {
            return None;
        }
        Some((pte, named(pte)?))
    }

    #[inline(always)]
    fn decode<F: Encoding>(&self, pte: u64) -> Option<Leaf> {
        match F::decode_leaf(pte) {
            Entry::Empty => None,
            Entry::Leaf { phys, attr } => match self.map.to_pool(phys) {
                Some(page) => Some(Leaf { frame: page.frame(), attr }),
                None => corrupt(pte, 0),
            },
            Entry::Table(_) | Entry::Corrupt => corrupt(pte, 0),
        }
    }

    /// Writes a leaf. Release: a frame's content, filled before, is visible to whoever finds the entry.
    #[inline(always)]
    fn store<F: Encoding>(&self, slot: &AtomicU64, leaf: Option<Leaf>) {
        let pte = leaf.map_or(0, |leaf| F::leaf(self.map.to_local(leaf.frame.addr()), leaf.attr));
        slot.store(pte, Ordering::Release);
    }

    #[inline(always)]
    fn page(&self, addr: PoolAddr) -> &'static Page {
        match self.pool.page_words(addr) {
            Some(page) => page,
            None => corrupt(addr.0, LEVELS),
        }
    }

    /// The table an entry at `level` names; `None` when the entry is empty.
    #[inline(always)]
    fn next_table<F: Encoding>(&self, slot: &AtomicU64, level: u8) -> Option<PoolAddr> {
        let pte = slot.load(Ordering::Relaxed);
        if pte == 0 {
            return None;
        }
        match (F::is_table(pte), self.map.to_pool(F::phys(pte))) {
            (true, Some(addr)) => Some(addr),
            _ => corrupt(pte, level),
        }
    }

    #[inline(always)]
    fn next_or_new<F: Encoding>(
        &self,
        slot: &AtomicU64,
        level: u8,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<&'static Page, OutOfFrames> {
        if let Some(addr) = self.next_table::<F>(slot, level) {
            return Ok(self.page(addr));
        }
        let table = allocate().ok_or(OutOfFrames)?.addr();
        slot.store(F::table(self.map.to_local(table)), Ordering::Release); // the zeroes are visible before the entry
        Ok(self.page(table))
    }

    /// The table of pages around `va`, or the deepest table there and the level of its empty entry.
    #[inline(always)]
    fn leaf_page<F: Encoding>(&self, va: u64) -> Result<&'static Page, (&'static Page, u8)> {
        assert!(is_user(va), "editing {va:#x}, which is no user address");
        let mut page = self.page(self.root.addr());
        for level in (1..LEVELS).rev() {
            match self.next_table::<F>(&page[index(va, level)], level) {
                Some(addr) => page = self.page(addr),
                None => return Err((page, level)),
            }
        }
        Ok(page)
    }

    #[inline(always)]
    fn edit_page<F: Encoding>(&self, page: &Page, range: Range<u64>, edit: &mut impl FnMut(u64, Leaf) -> Option<Leaf>) {
        let first = index(range.start, 0);
        let count = ((range.end - range.start) >> PAGE_SHIFT) as usize;
        for (n, slot) in page[first..first + count].iter().enumerate() {
            if let Some(before) = self.decode::<F>(slot.load(Ordering::Relaxed)) {
                let after = edit(range.start + n as u64 * PAGE_SIZE, before);
                if after != Some(before) {
                    self.store::<F>(slot, after);
                }
            }
        }
    }

    /// Frees what [`free_tables`](Self::free_tables) says below the table at `table`, whose first entry translates `base`.
    fn free_below<F: Encoding>(
        &self,
        table: PoolAddr,
        level: u8,
        base: u64,
        range: &Range<u64>,
        free: &mut impl FnMut(Frame),
    ) {
        let page = self.page(table);
        let (first, last) = (range.start.max(base), range.end.min(base + span(level) * ENTRIES as u64));
        let mut va = first & !(span(level) - 1);
        while va < last {
            let slot = &page[index(va, level)];
            if let Some(child) = self.next_table::<F>(slot, level) {
                if level > 1 {
                    self.free_below::<F>(child, level - 1, va, range, free);
                }
                let covered = range.start <= va && va + span(level) <= range.end;
                if covered || self.is_empty_page(child) {
                    debug_assert!(self.is_empty_page(child), "freeing a table that maps pages");
                    slot.store(0, Ordering::Release);
                    free(child.frame());
                }
            }
            va += span(level);
        }
    }

    fn is_empty_page(&self, table: PoolAddr) -> bool {
        self.page(table).iter().all(|slot| slot.load(Ordering::Relaxed) == 0)
    }
}

/// The first address from `va` on, at most `end`, whose entry in `page` (at `level`, empty for `va`) is not empty; the
/// address past the table when all are.
fn skip_empty(page: &Page, level: u8, va: u64, end: u64) -> u64 {
    let mut va = next(va, level);
    while va < end && index(va, level) != 0 && page[index(va, level)].load(Ordering::Relaxed) == 0 {
        va += span(level);
    }
    va
}

#[cold]
fn corrupt(pte: u64, level: u8) -> ! {
    panic!("page-table entry {pte:#018x} at level {level} is nothing a kernel writes: shared structures are corrupt")
}
