//! The walker: any island's page table, read and edited by any kernel.

mod apart;

use core::ops::Range;
use motet_layout::sync::{AtomicU64, Ordering};

use motet_layout::{Frame, PAGE_SHIFT, PAGE_SIZE, Pool, PoolAddr};

use crate::format::{Encoding, with_encoding};
use crate::{Attr, ENTRIES, Entry, Format, Mapped, PhysMap, Stage, Withdrawal};

/// Entries of one table page.
type Page = [AtomicU64; ENTRIES];

/// A mapped page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Its frame.
    pub frame: Mapped,
    /// What may be done with it.
    pub attr: Attr,
}

impl Leaf {
    /// Whether it holds no reference to its frame even in the home's table.
    pub fn is_borrowed(self) -> bool {
        self.attr.contains(Attr::BORROWED)
    }
}

/// No frame was left for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfFrames;

/// The user half of an island's page table, or a table of the second stage.
///
/// Addresses at or above the format's end (2^47 for users) are never translated, and editing them panics. Edits are made under the address space's
/// lock; hardware may walk meanwhile. Edits that take something away hand it to a [`Withdrawal`], which keeps it until
/// nobody can use it.
///
/// In the table of an address space's home, leaves hold references to their frames, unless they are
/// [borrowed](Leaf::is_borrowed); in other tables they hold none.
#[derive(Clone, Copy)]
pub struct Table<'a, S = Format> {
    /// The pool, as this kernel sees it.
    pub pool: Pool,
    /// The root table, or the first page of one.
    pub root: Frame,
    /// The format of the island that translates by this table.
    pub format: S,
    /// Where that island sees the pool.
    pub map: PhysMap<'a>,
}

/// How many absent entries cost as much as a page, in [`Table::end_of_piece`].
pub const PAGE_ENTRIES: u64 = 8;
/// How many absent entries cost as much as a table of pages that is looked through and taken away.
const TABLE_ENTRIES: u64 = 256;

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

/// Whether tables of the format translate `va`.
#[inline(always)]
const fn is_translated<F: Encoding>(va: u64) -> bool {
    va >> F::INPUT_BITS == 0
}

/// Allows stores by the entry of a page ([`Table::entry`]), which may be loaded from, if `may` says so. Whether it is allowed now. Nobody edits the table
/// meanwhile.
#[inline(always)]
pub fn allow_stores_by<S: Stage>(format: S, entry: &AtomicU64, may: impl FnOnce() -> bool) -> bool {
    let pte = entry.load(Ordering::Relaxed);
    let is_readable = with_encoding!(S, format, F => pte & F::READ_MASK == F::READ_BITS);
    // Outside of what is there for each format: so it is there once, and in its place.
    if !is_readable || !may() {
        return false;
    }
    let leaf = with_encoding!(S, format, F => F::leaf(F::phys(pte), F::attr(pte).union(Attr::WRITE)));
    entry.store(leaf, Ordering::Release);
    true
}

impl<S: Stage> Table<'_, S> {
    /// What user code of the island finds at `va`. `None` for what hardware would not
    /// translate, inactive pages included.
    #[inline]
    pub fn lookup(&self, va: u64) -> Option<Leaf> {
        with_encoding!(S, self.format, F => {
            let (pte, page) = self.walk::<F>(va, F::READ_MASK, F::READ_BITS)?;
            Some(Leaf { frame: page.frame().into(), attr: F::attr(pte) })
        })
    }

    /// The byte of the pool that user code of the island may read at `va`.
    ///
    /// This and [`writable`](Self::writable) are what user-memory copies use: one load per level, one test of the leaf.
    #[inline]
    pub fn readable(&self, va: u64) -> Option<PoolAddr> {
        with_encoding!(S, self.format, F => {
            let (_, page) = self.walk::<F>(va, F::READ_MASK, F::READ_BITS)?;
            Some(page.add(va % PAGE_SIZE))
        })
    }

    /// The byte of the pool that user code of the island may write at `va`.
    #[inline]
    pub fn writable(&self, va: u64) -> Option<PoolAddr> {
        with_encoding!(S, self.format, F => {
            let (_, page) = self.walk::<F>(va, F::WRITE_MASK, F::WRITE_BITS)?;
            Some(page.add(va % PAGE_SIZE))
        })
    }

    /// Allows stores to the page at `va`, which may be loaded from, if `may` says so of its frame. Whether it is allowed now. Nobody edits the table
    /// meanwhile.
    #[inline(always)]
    pub fn allow_stores(&self, va: u64, may: impl FnOnce(Frame) -> bool) -> bool {
        self.entry(va).is_some_and(|(entry, frame)| allow_stores_by(self.format, entry, || may(frame)))
    }

    /// The entry of the page at `va`, which may be loaded from, and its frame. It is this page's until [`unlink`](Self::unlink) takes its table out, or the
    /// whole table is taken apart.
    #[inline(always)]
    pub fn entry(&self, va: u64) -> Option<(&'static AtomicU64, Frame)> {
        let (entry, page) = with_encoding!(S, self.format, F => self.find::<F>(va))?;
        Some((entry, page.frame()))
    }

    /// The page mapped at `va`, active or not.
    ///
    /// # Panics
    /// When the table is corrupt.
    #[inline]
    pub fn leaf(&self, va: u64) -> Option<Leaf> {
        with_encoding!(S, self.format, F => {
            if !is_translated::<F>(va) {
                return None;
            }
            let page = self.leaf_page::<F>(va).ok()?;
            self.decode::<F>(page[index(va, 0)].load(Ordering::Relaxed))
        })
    }

    /// Maps `frame` at `va` and returns what was mapped there before: nothing, or the same frame with fewer attributes.
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
        frame: impl Into<Mapped>,
        attr: Attr,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<Option<Leaf>, OutOfFrames> {
        let leaf = Leaf { frame: frame.into(), attr };
        with_encoding!(S, self.format, F => {
            let slot = &self.leaf_page_or_new::<F>(va, allocate)?[index(va, 0)];
            let before = self.decode::<F>(slot.load(Ordering::Relaxed));
            self.store::<F>(slot, Some(leaf));
            Ok(before)
        })
    }

    /// Maps another frame at `va`, where this table, which is the home's, has a page. The withdrawal gets that one.
    ///
    /// # Panics
    /// When no page is mapped there, or the table is corrupt.
    pub fn replace(&self, va: u64, frame: Frame, attr: Attr, withdrawal: &mut impl Withdrawal) {
        debug_assert_eq!(withdrawal.home(), self.root);
        with_encoding!(S, self.format, F => {
            let Ok(page) = self.leaf_page::<F>(va) else { panic!("replacing a page at {va:#x}, where none is") };
            let slot = &page[index(va, 0)];
            let before = self.decode::<F>(slot.load(Ordering::Relaxed));
            self.store::<F>(slot, Some(Leaf { frame: frame.into(), attr }));
            let Some(before) = before else { panic!("replacing a page at {va:#x}, where none is") };
            if before.attr.is_active() {
                withdrawal.narrowed();
            }
            if !before.is_borrowed() {
                withdrawal.take_page(before.frame);
            }
        });
    }

    /// Where a piece of work on `range` (page-aligned) ends that is to take a bounded time: after `budget` absent entries, each page mapped
    /// counting as [`PAGE_ENTRIES`] of them and each table after the first one as more, or at the range's end. Never before one
    /// entry.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn end_of_piece(&self, range: Range<u64>, budget: u64) -> u64 {
        with_encoding!(S, self.format, F => {
            let end = range.end.min(F::END);
            let (mut va, mut spent) = (range.start, 0);
            while va < end && spent < budget {
                match self.leaf_page::<F>(va) {
                    Ok(page) => {
                        let stop = next(va, 1).min(end);
                        if va != range.start {
                            spent += TABLE_ENTRIES;
                        }
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
            }
            if va < end { va } else { range.end }
        })
    }

    /// Moves the pages mapped in `from` (page-aligned) of this table, which is the home's, with their references to where none are, `to` and on, in the same order. Whole tables move where both
    /// places lie alike in them; absent subtrees cost what they cost [`visit`](Self::visit).
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
        withdrawal: &mut impl Withdrawal,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<(), u64> {
        debug_assert_eq!(withdrawal.home(), self.root);
        with_encoding!(S, self.format, F => {
            let end = from.end.min(F::END);
            let mut va = from.start;
            while va < end {
                let target = to + (va - from.start);
                match self.leaf_page::<F>(va) {
                    Ok(page) => {
                        let stop = next(va, 1).min(end);
                        let is_whole = va % span(1) == 0 && target % span(1) == 0 && stop - va == span(1);
                        if !is_whole || !self.move_table::<F>(va, target, withdrawal, allocate).map_err(|_| va)? {
                            self.move_entries::<F>(page, va..stop, target, withdrawal, allocate)?;
                        }
                        va = stop;
                    }
                    Err((page, level)) => va = skip_empty(page, level, va, end),
                }
            }
        });
        Ok(())
    }

    /// Moves the table of pages at `va`, unless there is one at `to` already: whether it did.
    fn move_table<F: Encoding>(
        &self,
        va: u64,
        to: u64,
        withdrawal: &mut impl Withdrawal,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<bool, OutOfFrames> {
        let new = self.slot_of_table::<F>(to, allocate)?;
        let old = self.slot_of_table::<F>(va, allocate)?;
        let is_free = new.load(Ordering::Relaxed) == 0;
        if is_free {
            new.store(old.load(Ordering::Relaxed), Ordering::Release);
            old.store(0, Ordering::Release);
            withdrawal.narrowed();
        }
        Ok(is_free)
    }

    fn move_entries<F: Encoding>(
        &self,
        page: &Page,
        from: Range<u64>,
        to: u64,
        withdrawal: &mut impl Withdrawal,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<(), u64> {
        for va in from.clone().step_by(PAGE_SIZE as usize) {
            let slot = &page[index(va, 0)];
            if let Some(leaf) = self.decode::<F>(slot.load(Ordering::Relaxed)) {
                self.map(to + (va - from.start), leaf.frame, leaf.attr, allocate).map_err(|_| va)?;
                self.store::<F>(slot, None);
                if leaf.attr.is_active() {
                    withdrawal.narrowed();
                }
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
        let mut page = self.root_page::<F>(va);
        for level in (2..F::LEVELS).rev() {
            page = self.next_or_new::<F>(&page[index(va, level)], level, allocate)?;
        }
        Ok(&page[index(va, 1)])
    }

    /// Visits the pages mapped in `range` (page-aligned), inactive ones too, in ascending order. Absent subtrees cost one
    /// load per absent entry.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn visit(&self, range: Range<u64>, mut each: impl FnMut(u64, Leaf)) {
        with_encoding!(S, self.format, F => self.each_slot::<F>(range, |va, _, leaf| each(va, leaf)));
    }

    /// Gives the pages mapped in `range` (in ascending order) the attributes that `attr` returns for them; returns how many there are.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn narrow(
        &self,
        range: Range<u64>,
        withdrawal: &mut impl Withdrawal,
        mut attr: impl FnMut(u64, Leaf) -> Attr,
    ) -> usize {
        let mut pages = 0;
        with_encoding!(S, self.format, F => self.each_slot::<F>(range, |va, slot, leaf| {
            pages += 1;
            let after = attr(va, leaf).normalised();
            if after != leaf.attr {
                self.store::<F>(slot, Some(Leaf { frame: leaf.frame, attr: after }));
                if leaf.attr.loses_access(after) {
                    withdrawal.narrowed();
                }
            }
        }));
        pages
    }

    /// Removes the leaves in `range` for which `which` says so, none of which holds a reference; returns how many.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn forget(
        &self,
        range: Range<u64>,
        withdrawal: &mut impl Withdrawal,
        mut which: impl FnMut(Leaf) -> bool,
    ) -> usize {
        let mut pages = 0;
        let is_home = withdrawal.home() == self.root;
        with_encoding!(S, self.format, F => self.each_slot::<F>(range, |_, slot, leaf| {
            if which(leaf) {
                debug_assert!(!is_home || leaf.is_borrowed(), "losing a page");
                pages += 1;
                self.store::<F>(slot, None);
                if leaf.attr.is_active() {
                    withdrawal.narrowed();
                }
                if leaf.is_borrowed() {
                    withdrawal.give_up_borrowed(leaf.frame);
                }
            }
        }));
        pages
    }

    /// The first table of pages that translates addresses from `from` on, or around it: the first address that it translates, and its frame.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn next_table_of_pages(&self, from: u64) -> Option<(u64, Frame)> {
        with_encoding!(S, self.format, F => {
            let mut va = from & !(span(1) - 1);
            while va < F::END {
                match self.leaf_page::<F>(va) {
                    Ok(page) => return Some((va, self.pool.addr_of(page).frame())),
                    Err((page, level)) => va = skip_empty(page, level, va, F::END),
                }
            }
            None
        })
    }

    /// Takes the pages in `range` out of this table, which is the home's: makes them inactive, and leaves it to the
    /// withdrawal to [`sweep`](Self::sweep) the range.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn withdraw(&self, range: Range<u64>, withdrawal: &mut impl Withdrawal) {
        debug_assert_eq!(withdrawal.home(), self.root);
        if self.narrow(range.clone(), withdrawal, |_, leaf| leaf.attr.without(Attr::ALL_ACCESS)) != 0 {
            withdrawal.take_range(range);
        }
    }

    /// Removes the inactive pages in `range` and hands them to `each`. They have been withdrawn, and the shoot-down is
    /// complete.
    ///
    /// # Panics
    /// When the table is corrupt.
    pub fn sweep(&self, range: Range<u64>, mut each: impl FnMut(Leaf)) {
        with_encoding!(S, self.format, F => self.each_slot::<F>(range, |_, slot, leaf| {
            if !leaf.attr.is_active() {
                self.store::<F>(slot, None);
                each(leaf);
            }
        }));
    }

    /// The slot of the level-0 entry of `va`, and the page that it names, if hardware may use that.
    #[inline(always)]
    fn find<F: Encoding>(&self, va: u64) -> Option<(&'static AtomicU64, PoolAddr)> {
        if !is_translated::<F>(va) {
            return None;
        }
        let mut page: &Page = self.pool.page_words(self.root_table::<F>(va))?;
        for level in (1..F::LEVELS).rev() {
            let pte = page[index(va, level)].load(Ordering::Relaxed);
            if !F::is_table(pte) {
                return None;
            }
            page = self.pool.page_words(self.named::<F>(pte)?)?;
        }
        let slot = &page[index(va, 0)];
        let pte = slot.load(Ordering::Relaxed);
        (pte & F::READ_MASK == F::READ_BITS).then_some((slot, self.named::<F>(pte)?))
    }

    /// What an entry names. As in [`walk`](Self::walk).
    #[inline(always)]
    fn named<F: Encoding>(&self, pte: u64) -> Option<PoolAddr> {
        match self.map.single_delta() {
            Some(delta) => Some(PoolAddr((pte << F::ADDRESS_SHIFT).wrapping_sub(delta) & F::ADDRESS_MASK)),
            None => self.map.to_pool(F::phys(pte)),
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
        if !is_translated::<F>(va) {
            return None;
        }
        let mut page: &Page = self.pool.page_words(self.root_table::<F>(va))?;
        // The next address depends on the loaded entry, which orders the loads on every ISA; the entry was published
        // with release. Hardware walks rely on the same.
        for level in (1..F::LEVELS).rev() {
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
                Some(page) => Some(Leaf { frame: page.frame().into(), attr }),
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

    /// The table of the root that translates `va`.
    #[inline(always)]
    fn root_table<F: Encoding>(&self, va: u64) -> PoolAddr {
        if F::ROOT_TABLES == 1 { self.root.addr() } else { self.root.addr().add(va / F::ROOT_SPAN * PAGE_SIZE) }
    }

    /// The entries of the root that translate `va`, which is to be edited.
    #[inline(always)]
    fn root_page<F: Encoding>(&self, va: u64) -> &'static Page {
        assert!(is_translated::<F>(va), "editing {va:#x}, which the table does not translate");
        self.page(self.root_table::<F>(va))
    }

    #[inline(always)]
    fn page(&self, addr: PoolAddr) -> &'static Page {
        match self.pool.page_words(addr) {
            Some(page) => page,
            None => corrupt(addr.0, u8::MAX),
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
        let mut page = self.root_page::<F>(va);
        for level in (1..F::LEVELS).rev() {
            match self.next_table::<F>(&page[index(va, level)], level) {
                Some(addr) => page = self.page(addr),
                None => return Err((page, level)),
            }
        }
        Ok(page)
    }

    /// The table of pages around `va`, made when there is none.
    #[inline(always)]
    fn leaf_page_or_new<F: Encoding>(
        &self,
        va: u64,
        allocate: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<&'static Page, OutOfFrames> {
        let mut page = self.root_page::<F>(va);
        for level in (1..F::LEVELS).rev() {
            page = self.next_or_new::<F>(&page[index(va, level)], level, allocate)?;
        }
        Ok(page)
    }

    /// Calls `each` with the entries of the pages mapped in `range`, in ascending order.
    #[inline(always)]
    fn each_slot<F: Encoding>(&self, range: Range<u64>, mut each: impl FnMut(u64, &AtomicU64, Leaf)) {
        let end = range.end.min(F::END);
        let mut va = range.start;
        while va < end {
            match self.leaf_page::<F>(va) {
                Ok(page) => {
                    let stop = next(va, 1).min(end);
                    self.each_slot_of_page::<F>(page, va..stop, &mut each);
                    va = stop;
                }
                Err((page, level)) => va = skip_empty(page, level, va, end),
            }
        }
    }

    #[inline(always)]
    fn each_slot_of_page<F: Encoding>(
        &self,
        page: &Page,
        range: Range<u64>,
        each: &mut impl FnMut(u64, &AtomicU64, Leaf),
    ) {
        let first = index(range.start, 0);
        let count = ((range.end - range.start) >> PAGE_SHIFT) as usize;
        for (n, slot) in page[first..first + count].iter().enumerate() {
            if let Some(leaf) = self.decode::<F>(slot.load(Ordering::Relaxed)) {
                each(range.start + n as u64 * PAGE_SIZE, slot, leaf);
            }
        }
    }
}

/// The first address from `va` on, at most `end`, whose entry in `page` (at `level`, empty for `va`) is not empty; the
/// address past the table when all are.
fn skip_empty(page: &Page, level: u8, va: u64, end: u64) -> u64 {
    let at = next(va, level);
    let rest = &page[index(va, level) + 1..];
    let most = end.saturating_sub(at).div_ceil(span(level)).min(rest.len() as u64) as usize;
    let used = rest[..most].iter().position(|slot| slot.load(Ordering::Relaxed) != 0);
    at + used.unwrap_or(most) as u64 * span(level)
}

/// `u8::MAX` as level: it is a root's address.
#[cold]
fn corrupt(pte: u64, level: u8) -> ! {
    panic!("page-table entry {pte:#018x} at level {level} is nothing a kernel writes: shared structures are corrupt")
}
