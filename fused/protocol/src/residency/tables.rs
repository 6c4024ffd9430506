//! Page tables of a space: which there are, for which island, and the home's.

use core::ops::Range;

use motet_layout::{Frame, Isa, IslandId, SpaceRecord, sync::Ordering};
use motet_paging::{Format, Leaf, OutOfFrames, PhysMap, Table};

use super::Mmu;
use crate::{
    leaf::holds_reference,
    memory::{alloc_zeroed_frame_on, frame_record, release_frame},
    replicas::{self, is_replica},
    shootdown::{self, Stale},
};

/// What releasing a page costs, and a table whose entries are looked at, in instructions.
const PAGE_COST: u64 = 250;
const TABLE_COST: u64 = 1_000;

/// An island's page table of a space, if it has one.
#[inline(always)]
pub fn table(context: &impl Mmu, space: &SpaceRecord, island: IslandId) -> Option<Table<'static>> {
    let root = Frame(space.roots[island.index()].load(Ordering::Relaxed));
    if root.is_none() {
        return None;
    }
    let pool = context.pool();
    if island == context.core().island() {
        return Some(Table { pool, root, format: context.own_format(), map: context.own_map() });
    }
    let record = &pool.header().islands[island.index()];
    let isa = Isa::from_raw(record.paging.get())?;
    let map = PhysMap::new(&record.ranges, pool.len());
    Some(Table { pool, root, format: Format::from_isa(isa)?, map })
}

/// The table of a space that is the authority, and whose it is.
#[derive(Clone, Copy)]
pub struct Home {
    pub(super) island: IslandId,
    pub(super) table: Table<'static>,
}

impl Home {
    /// The space's.
    ///
    /// # Panics
    /// When it has none: the record is corrupt.
    #[inline]
    pub fn of(context: &impl Mmu, space: &SpaceRecord) -> Self {
        let island = IslandId::from_raw(space.home.get());
        let home = island.and_then(|island| Some(Self { island, table: table(context, space, island)? }));
        home.expect("an address space has its home table")
    }

    /// Whose it is.
    pub fn island(&self) -> IslandId {
        self.island
    }

    /// The page resident at an address, whatever its rights. The space's lock is held.
    #[inline]
    pub fn leaf(&self, page: u64) -> Option<Leaf> {
        self.table.leaf(page)
    }

    /// Calls `each` with the pages resident in a range. The space's lock is held.
    pub fn visit(&self, range: Range<u64>, each: impl FnMut(u64, Leaf)) {
        self.table.visit(range, each);
    }

    /// The end of the first piece of work on a range, if a piece is to take a bounded time: [`Table::end_of_piece`].
    pub fn end_of_piece(&self, range: Range<u64>, budget: u64) -> u64 {
        self.table.end_of_piece(range, budget)
    }
}

/// The tables of all islands that use the space, with their islands.
pub(super) fn tables<'a, C: Mmu>(
    context: &'a C,
    space: &'a SpaceRecord,
) -> impl Iterator<Item = (IslandId, Table<'static>)> + use<'a, C> {
    let islands = (0..context.island_count() as u32).filter_map(IslandId::from_raw);
    islands.filter_map(move |island| Some((island, table(context, space, island)?)))
}

/// The other islands' tables, which are caches of the home's: their leaves hold no references.
pub(super) fn caches<'a, C: Mmu>(
    context: &'a C,
    space: &'a SpaceRecord,
    home: &Home,
) -> impl Iterator<Item = (IslandId, Table<'static>)> + use<'a, C> {
    let home = home.island;
    tables(context, space).filter(move |(island, _)| *island != home)
}

/// Edits the tables of a space; see [`shootdown::edit`].
pub(super) fn edit<R>(
    context: &impl Mmu,
    space: &SpaceRecord,
    home: &Home,
    edits: impl FnOnce(&mut Stale<'_>) -> R,
) -> R {
    shootdown::edit(context, space, &home.table, || context.flush_user(), edits)
}

/// Makes the root of a space's table of an island. The space is locked or not yet shared. `is_shared`: other islands will read
/// or edit it. Another island's root lacks the kernel's half, until that island has [prepared](prepare) it.
pub fn make_root(context: &impl Mmu, space: &SpaceRecord, island: IslandId, is_shared: bool) -> Option<Frame> {
    let root = alloc_table_on(context, island, is_shared)?;
    if island == context.core().island() {
        context.prepare_root(root);
    } else {
        space.unprepared.store(1, Ordering::Relaxed);
    }
    space.roots[island.index()].store(root.0, Ordering::Release);
    Some(root)
}

/// The root of the actor's island, made when there is none; `None`: there is no memory for it. The space is locked.
pub fn ensure_root(context: &impl Mmu, space: &SpaceRecord) -> Option<Frame> {
    let island = context.core().island();
    let root = Frame(space.roots[island.index()].load(Ordering::Relaxed));
    if root.is_none() { make_root(context, space, island, is_shared(space)) } else { Some(root) }
}

/// As [`ensure_root`], for a fault. A space that another island is to run first is filled through its home's table alone.
///
/// # Errors
/// There was no frame for it.
#[inline(always)]
pub fn ensure_table(context: &impl Mmu, space: &SpaceRecord) -> Result<(), OutOfFrames> {
    let is_there = space.roots[context.core().island().index()].load(Ordering::Relaxed) != Frame::NONE.0;
    if is_there || space.unprepared.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    ensure_root(context, space).map(|_| ()).ok_or(OutOfFrames)
}

/// Fills the kernel half of the home's root of a space that the actor's island is about to use, if it is missing and the root is the actor's.
#[cold]
pub fn prepare(context: &impl Mmu, space: &SpaceRecord) {
    let island = context.core().island();
    if space.home.get() == u32::from(island.0) {
        context.prepare_root(Frame(space.roots[island.index()].load(Ordering::Relaxed)));
        space.unprepared.store(0, Ordering::Release);
    }
}

/// Whether other islands read or edit the tables of a space: that of a program for several ISAs, and one that another island than
/// its home fills.
fn is_shared(space: &SpaceRecord) -> bool {
    space.fat.get() != 0 || space.unprepared.load(Ordering::Relaxed) != 0
}

/// A frame for a table of an island.
pub(super) fn alloc_table(context: &impl Mmu, space: &SpaceRecord, island: IslandId) -> Option<Frame> {
    alloc_table_on(context, island, is_shared(space))
}

/// Where islands do not cache each other's memory, shared tables lie where nobody caches them alone.
fn alloc_table_on(context: &impl Mmu, island: IslandId, is_shared: bool) -> Option<Frame> {
    let is_common = context.is_uncached() && is_shared;
    let table = alloc_zeroed_frame_on(context, if is_common { context.common_index() } else { island.index() });
    context.spend_locked(TABLE_COST);
    if let Some(table) = table {
        // Nothing is known of its region.
        frame_record(context.pool(), table).next.set(0);
    }
    table
}

/// Takes the tables of a space apart that no core will have active again, and releases its pages. `ranges` gives the addresses
/// where pages may be, in ascending order, once per table.
pub fn dismantle<R: Iterator<Item = Range<u64>>>(context: &impl Mmu, space: &SpaceRecord, ranges: impl Fn() -> R) {
    let home = Home::of(context, space).island;
    let has_replicas = space.replicas.get() != 0;
    let mut released = 0;
    shootdown::end(
        context,
        space,
        || context.flush_user(),
        |unused| {
            for (island, table) in tables(context, space) {
                let page = |leaf: Leaf| {
                    if island == home && holds_reference(leaf) {
                        release_frame(context, leaf.frame.named());
                        released += 1;
                        context.spend_locked(PAGE_COST);
                    } else if has_replicas && leaf.is_borrowed() && is_replica(context.pool(), leaf.frame.named()) {
                        replicas::end(context, space, leaf.frame.named());
                        context.spend_locked(PAGE_COST);
                    }
                };
                let table_of_pages = |table| {
                    release_frame(context, table);
                    context.spend_locked(TABLE_COST);
                };
                table.dismantle(ranges(), unused, page, table_of_pages);
                space.roots[island.index()].store(0, Ordering::Relaxed);
            }
        },
    );
}
