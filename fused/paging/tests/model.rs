//! Random operations on tables of all formats against one map, and against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use motet_layout::{Cell64, Frame, PAGE_SIZE, Pool, PoolAddr, PoolRange};
use motet_paging::{
    Attr, Format, Leaf, Mapped, OutOfFrames, PAGE_ENTRIES, PhysMap, Stage, Stage2, Table, Unused, Withdrawal,
};
use proptest::prelude::*;

const POOL_FRAMES: u64 = 256;

/// A pool of leaked memory: tests are few and small.
fn pool() -> Pool {
    let words: &'static mut [u64] = vec![0u64; (POOL_FRAMES * PAGE_SIZE / 8 + 512) as usize].leak();
    let base = words.as_mut_ptr().cast::<u8>();
    let base = base.wrapping_add(base.align_offset(PAGE_SIZE as usize));
    // SAFETY: page-aligned, POOL_FRAMES pages long with room to spare, leaked, used in no other way.
    unsafe { Pool::new(base, POOL_FRAMES * PAGE_SIZE) }
}

fn ranges(pieces: &[(u64, u64, u64)]) -> &'static [PoolRange] {
    let range = |n: usize| {
        let (pool, local, len) = pieces.get(n).copied().unwrap_or_default();
        PoolRange { pool_offset: Cell64::new(pool), local_phys: Cell64::new(local), len: Cell64::new(len) }
    };
    Vec::leak((0..4).map(range).collect())
}

const LEN: u64 = POOL_FRAMES * PAGE_SIZE;

/// One piece, or split as q35 splits it, with the upper piece first.
fn map(split: bool, base: u64) -> PhysMap<'static> {
    let (low, high) = (0x40 * PAGE_SIZE, LEN - 0x40 * PAGE_SIZE);
    let pieces: &[_] = if split { &[(low, 1 << 32, high), (0, base, low)] } else { &[(0, base, LEN)] };
    PhysMap::new(ranges(pieces), LEN)
}

/// An island's table with its own frames.
struct Island<S: Stage = Format> {
    table: Table<'static, S>,
    free: Vec<Frame>,
    taken: BTreeSet<Frame>,
}

impl<S: Stage> Island<S> {
    /// With a root of `root_frames` pages, which lies where its size divides its address and the page before is in use.
    fn of(format: S, root_frames: u32, base: u64, split: bool) -> Self {
        let root = Frame(root_frames);
        let table = Table { pool: pool(), root, format, map: map(split, base) };
        Self { table, free: (2 * root_frames..POOL_FRAMES as u32).map(Frame).collect(), taken: BTreeSet::new() }
    }

    fn map(&mut self, va: u64, leaf: Leaf) -> Result<Option<Leaf>, OutOfFrames> {
        let (free, taken, pool) = (&mut self.free, &mut self.taken, self.table.pool);
        self.table.map(va, leaf.frame, leaf.attr, &mut || {
            let frame = free.pop()?;
            pool.zero_frame(frame);
            taken.insert(frame);
            Some(frame)
        })
    }

    fn move_pages(&mut self, from: Range<u64>, to: u64) -> (Result<(), u64>, Taken) {
        let (mut free, mut taken, pool) =
            (std::mem::take(&mut self.free), std::mem::take(&mut self.taken), self.table.pool);
        let mut out = Taken { home: self.table.root, ..Taken::default() };
        let moved = self.table.move_pages(from, to, &mut out, &mut || {
            let frame = free.pop()?;
            pool.zero_frame(frame);
            taken.insert(frame);
            Some(frame)
        });
        (self.free, self.taken) = (free, taken);
        (moved, out)
    }

    /// Makes edits, as if a shoot-down followed, and takes back what they have taken out. `is_home`: leaves hold references.
    fn edit<R>(&mut self, is_home: bool, edits: impl FnOnce(&Table<'_, S>, &mut Taken) -> R) -> (R, Taken) {
        let home = if is_home { self.table.root } else { Frame::NONE };
        let mut out = Taken { home, ..Taken::default() };
        let result = edits(&self.table, &mut out);
        for range in &out.ranges {
            let pages = &mut out.pages;
            self.table.sweep(range.clone(), |leaf| pages.extend((!leaf.is_borrowed()).then_some(leaf.frame)));
        }
        for &(table, holds_pages) in &out.tables {
            if holds_pages {
                let pages = &mut out.pages;
                self.table.visit_unlinked(table, |leaf| pages.extend((!leaf.is_borrowed()).then_some(leaf.frame)));
            }
            if table != self.table.root {
                assert!(self.taken.remove(&table), "freed {table:?} twice");
                self.free.push(table);
            }
        }
        out.pages.sort();
        (result, out)
    }

    fn root_frames(&self) -> Range<u32> {
        self.table.root.0..2 * self.table.root.0
    }

    fn all(&self) -> BTreeMap<u64, Leaf> {
        let mut all = BTreeMap::new();
        self.table.visit(0..u64::MAX, |va, leaf| {
            assert!(all.last_key_value().is_none_or(|(&last, _)| last < va), "not ascending");
            all.insert(va, leaf);
        });
        all
    }
}

impl Island {
    fn new(format: Format, split: bool) -> Self {
        let base = match format {
            Format::X86_64 => 0x400_0000,
            Format::AArch64 => 0x4400_0000,
            Format::Sv48 => 0x8400_0000,
        };
        Self::of(format, (format.root_bytes() / PAGE_SIZE) as u32, base, split)
    }
}

impl Island<Stage2> {
    fn guest(format: Stage2, split: bool) -> Self {
        Self::of(format, (format.root_bytes() / PAGE_SIZE) as u32, 0x8400_0000, split)
    }
}

/// What edits have taken out.
#[derive(Default)]
struct Taken {
    home: Frame,
    narrowed: bool,
    tables: Vec<(Frame, bool)>,
    ranges: Vec<Range<u64>>,
    /// References that are to be dropped.
    pages: Vec<Mapped>,
}

impl Withdrawal for Taken {
    fn home(&self) -> Frame {
        self.home
    }
    fn narrowed(&mut self) {
        self.narrowed = true;
    }
    fn take_table(&mut self, table: Frame, holds_pages: bool) {
        self.tables.push((table, holds_pages));
    }
    fn take_range(&mut self, range: Range<u64>) {
        self.ranges.push(range);
    }
    fn take_page(&mut self, page: Mapped) {
        self.pages.push(page);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Map(u64, Leaf),
    Replace(u64, Frame, Attr),
    Protect(u64, u64, Attr),
    Forget(u64, u64),
    Withdraw(u64, u64),
    Unlink(u64, u64),
    UnlinkHome(u64, u64),
    Move(u64, u64, u64),
}

/// Page addresses below `end` that often meet: few slots at every level, the ends of what is translated among them.
///
/// Boxed, as unions of unions of such are too big for a test's stack.
fn page(end: u64) -> BoxedStrategy<u64> {
    let slot = |top: u64| prop_oneof![Just(0), Just(1.min(top)), Just(7.min(top)), Just(top)];
    let upper = prop_oneof![slot((end >> 39) - 1), (0..end >> 39)];
    (upper, slot(511), slot(511), slot(511)).prop_map(|(a, b, c, d)| a << 39 | b << 30 | c << 21 | d << 12).boxed()
}

/// Operations on a table, and addresses to look at.
fn ops_and_probes(end: u64) -> impl Strategy<Value = (Vec<Op>, Vec<u64>)> {
    (proptest::collection::vec(op(end), 1..60), proptest::collection::vec(page(end), 8))
}

fn attr() -> impl Strategy<Value = Attr> {
    (0u8..32).prop_map(Attr::from_bits)
}

fn op(end: u64) -> impl Strategy<Value = Op> {
    let frame = || (1..POOL_FRAMES as u32).prop_map(Frame);
    let page = || page(end);
    let range = || (page(), page()).prop_map(|(a, b)| (a.min(b), a.max(b) + PAGE_SIZE));
    let leaf = (frame(), attr()).prop_map(|(frame, attr)| Leaf { frame: frame.into(), attr });
    prop_oneof![
        8 => (page(), leaf).prop_map(|(va, leaf)| Op::Map(va, leaf)),
        2 => (page(), frame(), attr()).prop_map(|(va, frame, attr)| Op::Replace(va, frame, attr)),
        2 => (range(), attr()).prop_map(|((start, end), attr)| Op::Protect(start, end, attr)),
        1 => range().prop_map(|(start, end)| Op::Forget(start, end)),
        2 => range().prop_map(|(start, end)| Op::Withdraw(start, end)),
        1 => range().prop_map(|(start, end)| Op::Unlink(start, end)),
        1 => range().prop_map(|(start, end)| Op::UnlinkHome(start, end)),
        3 => (range(), page()).prop_map(|((start, end), to)| Op::Move(start, end, to)),
    ]
}

fn normal(leaf: Leaf) -> Leaf {
    Leaf { attr: leaf.attr.normalised(), ..leaf }
}

/// Applies `op` to the model and an island; both must answer alike.
fn apply<S: Stage>(op: &Op, island: &mut Island<S>, end_of_all: u64, model: &mut BTreeMap<u64, Leaf>) {
    match *op {
        Op::Map(va, leaf) => {
            let before = model.insert(va, normal(leaf));
            assert_eq!(island.map(va, leaf), Ok(before));
        }
        Op::Replace(va, frame, attr) => {
            let Some(&before) = model.get(&va) else { return };
            let ((), out) = island.edit(true, |table, out| table.replace(va, frame, attr, out));
            assert_eq!(out.pages, references([before]));
            assert_eq!(out.narrowed, before.attr.is_active());
            model.insert(va, normal(Leaf { frame: frame.into(), attr }));
        }
        Op::Protect(start, end, attr) => {
            let mut seen = BTreeMap::new();
            let (pages, out) = island.edit(true, |table, out| {
                table.narrow(start..end, out, |va, leaf| {
                    seen.insert(va, leaf);
                    attr
                })
            });
            let there = || model.range(start..end).map(|(&va, &leaf)| (va, leaf));
            assert_eq!(pages, seen.len());
            assert_eq!(seen, there().collect());
            assert_eq!(out.narrowed, there().any(|(_, leaf)| leaf.attr.loses_access(attr.normalised())));
            assert!(out.pages.is_empty() && out.tables.is_empty());
            model.range_mut(start..end).for_each(|(_, leaf)| leaf.attr = attr.normalised());
        }
        Op::Forget(start, end) => {
            let (pages, out) = island.edit(false, |table, out| table.forget(start..end, out, |_| true));
            let there = remove(model, start, end);
            assert_eq!(pages, there.len());
            assert_eq!(out.narrowed, there.iter().any(|leaf| leaf.attr.is_active()));
            assert!(out.pages.is_empty() && out.tables.is_empty());
        }
        Op::Withdraw(start, end) => {
            let ((), out) = island.edit(true, |table, out| table.withdraw(start..end, out));
            let there = remove(model, start, end);
            assert_eq!(out.narrowed, there.iter().any(|leaf| leaf.attr.is_active()));
            assert_eq!(out.pages, references(there));
            assert!(out.tables.is_empty());
        }
        // Another island's: tables go, and no references; pages of tables that stay do, too.
        Op::Unlink(start, end) => {
            let ((), out) = island.edit(false, |table, out| {
                table.unlink(start..end, out);
                table.forget(start..end, out, |_| true);
            });
            let there = remove(model, start, end);
            assert!(out.narrowed || there.iter().all(|leaf| !leaf.attr.is_active()));
            assert!(out.pages.is_empty() && out.tables.iter().all(|&(_, holds_pages)| !holds_pages));
        }
        Op::UnlinkHome(start, end) => {
            let ((), out) = island.edit(true, |table, out| {
                table.unlink(start..end, out);
                table.withdraw(start..end, out);
            });
            assert_eq!(out.pages, references(remove(model, start, end)));
        }
        Op::Move(start, end, to) => {
            let to_end = to + (end - start);
            let is_free = model.range(to..to_end).next().is_none() && (to_end <= start || end <= to);
            if to_end > end_of_all || !is_free {
                return;
            }
            let (result, out) = island.move_pages(start..end, to);
            assert_eq!(result, Ok(()));
            assert!(out.narrowed || model.range(start..end).all(|(_, leaf)| !leaf.attr.is_active()));
            assert!(out.pages.is_empty() && out.tables.is_empty() && out.ranges.is_empty());
            let moved: Vec<_> = model.range(start..end).map(|(&va, &leaf)| (va - start + to, leaf)).collect();
            model.retain(|&va, _| va < start || va >= end);
            model.extend(moved);
            island.edit(true, |table, out| table.unlink(start..end, out));
        }
    }
}

/// Takes the pages of a range out of the model.
fn remove(model: &mut BTreeMap<u64, Leaf>, start: u64, end: u64) -> Vec<Leaf> {
    let there = model.range(start..end).map(|(_, &leaf)| leaf).collect();
    model.retain(|&va, _| va < start || va >= end);
    there
}

/// There are no cores here.
struct Nobody;

impl Unused for Nobody {}

/// The references that leaves of a home's table hold.
fn references(leaves: impl IntoIterator<Item = Leaf>) -> Vec<Mapped> {
    let mut frames: Vec<_> = leaves.into_iter().filter(|leaf| !leaf.is_borrowed()).map(|leaf| leaf.frame).collect();
    frames.sort();
    frames
}

fn check<S: Stage>(island: &Island<S>, model: &BTreeMap<u64, Leaf>, probes: &[u64]) {
    assert_eq!(&island.all(), model);
    for &va in probes.iter().chain(model.keys()) {
        let (leaf, at) = (model.get(&va), va + 0x123);
        let byte = |leaf: &Leaf| leaf.frame.addr().add(0x123);
        let active = leaf.filter(|leaf| leaf.attr.is_active());
        assert_eq!(island.table.leaf(at), leaf.copied());
        assert_eq!(island.table.lookup(at), active.copied());
        assert_eq!(island.table.readable(at), active.map(byte));
        assert_eq!(island.table.writable(at), active.filter(|leaf| leaf.attr.contains(Attr::WRITE)).map(byte));
    }
}

/// A table that `island` has goes through `ops`, is the map after each, and gives everything back.
fn table_is_the_map<S: Stage>(mut island: Island<S>, end: u64, ops: &[Op], probes: &[u64]) {
    let mut model = BTreeMap::new();
    for op in ops {
        apply(op, &mut island, end, &mut model);
        check(&island, &model, probes);
    }
    // Everything given back, exactly once, whatever is still mapped.
    let ranges = [0..probes[0], probes[0]..u64::MAX];
    let (mut pages, mut tables) = (Vec::new(), Vec::new());
    island.table.dismantle(ranges.into_iter(), &Nobody, |leaf| pages.push(leaf), |table| tables.push(table));
    assert_eq!(references(pages), references(model.into_values()));
    let root = tables.split_off(tables.len() - island.root_frames().len());
    assert!(root.iter().rev().map(|frame| frame.0).eq(island.root_frames()), "{root:?}");
    assert!(tables.iter().all(|table| island.taken.remove(table)), "freed twice");
    assert!(island.taken.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn tables_of_all_formats_are_the_map((ops, probes) in ops_and_probes(1 << 47), split: bool) {
        for format in Format::ALL {
            table_is_the_map(Island::new(format, split), 1 << 47, &ops, &probes);
        }
    }

    #[test]
    fn guests_tables_are_the_map(
        (format, (ops, probes)) in proptest::sample::select(Stage2::ALL.to_vec())
            .prop_flat_map(|format| (Just(format), ops_and_probes(format.end()))),
        split: bool,
    ) {
        table_is_the_map(Island::guest(format, split), format.end(), &ops, &probes);
    }

    #[test]
    fn physical_maps_invert(offset in 1..LEN, split: bool) {
        let map = map(split, 0x4400_0000);
        let phys = map.to_local(PoolAddr(offset));
        prop_assert_eq!(map.to_pool(phys), Some(PoolAddr(offset)));
        prop_assert_eq!(phys, match (split, offset < 0x40 * PAGE_SIZE) {
            (true, false) => (1 << 32) + offset - 0x40 * PAGE_SIZE,
            _ => 0x4400_0000 + offset,
        });
    }
}

#[test]
fn outside_of_the_pool_is_nothing() {
    for split in [false, true] {
        let map = map(split, 0x4400_0000);
        for phys in [0, 0x43ff_ffff, 0x4400_0000 + LEN, (1 << 32) + LEN, u64::MAX] {
            assert_eq!(map.to_pool(phys), None);
        }
    }
}

#[test]
fn no_frame_for_a_table_is_an_error_and_leaves_nothing_mapped() {
    for format in Format::ALL {
        let mut island = Island::new(format, false);
        island.free.truncate(2);
        let leaf = Leaf { frame: Frame(200).into(), attr: Attr::READ };
        assert_eq!(island.map(0x1000, leaf), Err(OutOfFrames));
        assert_eq!(island.table.lookup(0x1000), None);
        island.free.push(Frame(100));
        assert_eq!(island.map(0x1000, leaf), Ok(None));
        assert_eq!(island.table.lookup(0x1000), Some(leaf));
    }
}

#[test]
fn what_cannot_be_moved_for_lack_of_frames_can_be_moved_back() {
    const TABLE: u64 = 512 * PAGE_SIZE;
    for (format, shift) in Format::ALL.into_iter().flat_map(|format| [0, PAGE_SIZE].map(|shift| (format, shift))) {
        for frames in 0..5 {
            let mut island = Island::new(format, false);
            for (n, page) in (0..).zip([0, 1, 511, 512, 1023]) {
                island.map(page * PAGE_SIZE, Leaf { frame: Frame(200 + n).into(), attr: Attr::READ }).unwrap();
            }
            let before = island.all();
            island.free.truncate(frames);
            // Into a part of the address space that has no tables yet: it needs two for the tables above, and more for pages
            // if they do not lie alike.
            let to = (1 << 40) + shift;
            let enough = if shift == 0 { 2 } else { 5 };
            match island.move_pages(0..2 * TABLE, to).0 {
                Ok(()) => assert!(frames >= enough),
                Err(rest) => {
                    assert!(frames < enough);
                    assert!(before.keys().all(|&va| island.table.leaf(va).is_some() == (va >= rest)));
                    island.free.clear();
                    assert_eq!(island.move_pages(to..to + rest, 0).0, Ok(()));
                    assert_eq!(island.all(), before);
                }
            }
        }
    }
}

#[test]
fn pieces_cover_a_range_and_none_takes_long() {
    const HALF: u64 = 1 << 47;
    for format in Format::ALL {
        let mut island = Island::new(format, false);
        let dense = (0..600).map(|page| page * PAGE_SIZE);
        let pages: Vec<u64> = dense.chain([(1 << 30) - PAGE_SIZE, 1 << 40, HALF - PAGE_SIZE]).collect();
        for &va in &pages {
            island.map(va, Leaf { frame: Frame(200).into(), attr: Attr::READ }).unwrap();
        }
        for budget in [1, PAGE_ENTRIES, 48 * PAGE_ENTRIES] {
            let (mut at, mut pieces) = (0, 0);
            while at < u64::MAX {
                let end = island.table.end_of_piece(at..u64::MAX, budget);
                assert!(end > at && end % PAGE_SIZE == 0 || end == u64::MAX);
                let within = pages.iter().filter(|va| (at..end).contains(va)).count() as u64;
                assert!(within <= budget.div_ceil(PAGE_ENTRIES), "a piece of {within} pages");
                (at, pieces) = (end, pieces + 1);
            }
            // Tables are looked through once, at most, and 128 TiB of nothing take no time.
            let entries = pages.len() as u64 * PAGE_ENTRIES + 20 * 512;
            assert!(pieces <= entries / budget + 40, "{pieces} pieces of {budget}");
        }
    }
}

#[test]
fn kernel_addresses_are_never_translated() {
    for format in Format::ALL {
        let mut island = Island::new(format, false);
        island.map(0, Leaf { frame: Frame(200).into(), attr: Attr::READ | Attr::WRITE }).unwrap();
        for va in [1 << 47, 1 << 48, 0xffff_9000_0000_0000, 0xffff_ffff_ffff_f000] {
            assert_eq!(island.table.lookup(va), None);
            assert_eq!(island.table.readable(va), None);
            assert_eq!(island.table.writable(va), None);
            assert_eq!(island.table.leaf(va), None);
        }
    }
}

#[test]
fn a_walk_into_garbage_finds_nothing() {
    for (format, garbage) in Format::ALL.into_iter().flat_map(|f| [1, 3, 0x27, 0xffff_ffff_ffff_ffff].map(|g| (f, g))) {
        let mut island = Island::new(format, false);
        island.map(0, Leaf { frame: Frame(200).into(), attr: Attr::READ }).unwrap();
        island.table.pool.at::<Cell64>(island.table.root.addr()).set(garbage);
        assert_eq!(island.table.readable(0), None, "{format:?} {garbage:#x}");
    }
}

/// Where a guest's address leads is what the architecture says: the root's entry is at its upper bits, all of them.
#[test]
fn guests_roots_have_an_entry_for_each_piece_of_the_address_space() {
    for format in Stage2::ALL {
        let span = 1 << (12 + 9 * (format.levels() - 1));
        let entries = format.end() / span;
        for entry in [0, 1, 511, 512, 1023, 1024, entries - 1].into_iter().filter(|entry| *entry < entries) {
            let mut island = Island::guest(format, false);
            island.map(entry * span, Leaf { frame: Frame(200).into(), attr: Attr::READ }).unwrap();
            let root = island.table.root.addr();
            let used: Vec<u64> = (0..format.root_bytes() / 8)
                .filter(|n| island.table.pool.at::<Cell64>(PoolAddr(root.0 + n * 8)).get() != 0)
                .collect();
            assert_eq!(used, [entry], "{format:?}");
        }
        let island = Island::guest(format, false);
        for past in [format.end(), format.end() << 1, u64::MAX] {
            assert_eq!((island.table.lookup(past), island.table.leaf(past)), (None, None));
        }
    }
}

#[test]
fn all_of_a_guests_tables_can_be_unlinked_but_the_root() {
    for format in Stage2::ALL {
        let mut island = Island::guest(format, false);
        for address in [0, format.end() / 2, format.end() - PAGE_SIZE] {
            island.map(address, Leaf { frame: Frame(200).into(), attr: Attr::READ }).unwrap();
        }
        let ((), out) = island.edit(true, |table, out| table.unlink(0..u64::MAX, out));
        assert_eq!(out.pages.len(), 3);
        assert!(island.taken.is_empty() && island.all().is_empty());
    }
}
