//! Translation shoot-down across islands: making other cores drop translations from their TLBs.
//!
//! The initiator edits page-table entries, then asks every core that has the space active: it raises the core's "asked"
//! ticket, rings the core, and waits until "done" has reached the ticket. Requests merge: a target drops all its user
//! translations once for however many requests. A core that idles runs no user code, and serves what was asked before
//! it runs user code again, so it is neither rung nor waited for; the two orders "raise, then look whether idle" and
//! "leave idle, then look whether asked" cannot both miss.
//!
//! Edits of page tables that remove pages or rights are made within [`edit`] and need its [`Stale`], which owns what they
//! remove, pages and tables, until the shoot-down is complete. So nothing can be released too early, and no shoot-down
//! can be forgotten: the compiler refuses it. It refuses code that moves a page and drops it when there is no table for it,
//!
//! ```compile_fail,E0308
//! # use motet_paging::Table;
//! # use motet_protocol::{Context, memory::release_frame};
//! fn move_page(context: &impl Context, home: &Table<'_>, from: u64) {
//!     if let Some(leaf) = home.leaf(from) {
//!         release_frame(context, leaf.frame); // `Mapped`: its table's, not the caller's
//!     }
//! }
//! ```
//!
//! code that releases tables as it takes them out of the tree,
//!
//! ```compile_fail,E0277
//! # use motet_layout::Frame;
//! # use motet_paging::Table;
//! # use motet_protocol::{Context, memory::release_frame};
//! fn unlink(context: &impl Context, table: &Table<'_>, start: u64, end: u64) {
//!     table.unlink(start..end, &mut |frame: Frame| release_frame(context, frame)); // no `Withdrawal`
//! }
//! ```
//!
//! code that edits without a shoot-down that follows,
//!
//! ```compile_fail,E0451
//! # use motet_paging::Table;
//! # use motet_protocol::shootdown::Stale;
//! fn unmap(home: &Table<'_>, start: u64, end: u64) {
//!     let mut stale = Stale { home, narrowed: false }; // only `edit` has one
//!     home.withdraw(start..end, &mut stale);
//! }
//! ```
//!
//! code that takes tables apart that may be in use,
//!
//! ```compile_fail,E0423
//! # use motet_paging::Table;
//! # use motet_protocol::{Context, memory::release_frame, shootdown::Unused};
//! fn dismantle(context: &impl Context, table: &Table<'_>) {
//!     let all = core::iter::once(0..u64::MAX);
//!     table.dismantle(all, &Unused(()), |_| (), |frame| release_frame(context, frame)); // only `end` has one
//! }
//! ```
//!
//! and code that keeps what it owes for later:
//!
//! ```compile_fail,E0521
//! # use motet_layout::SpaceRecord;
//! # use motet_paging::Table;
//! # use motet_protocol::{Context, shootdown::{self, Stale}};
//! fn unmap<'t>(context: &impl Context, space: &SpaceRecord, home: &'t Table<'t>, kept: &mut Option<&'t mut Stale<'t>>) {
//!     shootdown::edit(context, space, home, || {}, |stale| *kept = Some(stale));
//! }
//! ```
//!
//! What is right compiles:
//!
//! ```
//! # use motet_layout::SpaceRecord;
//! # use motet_paging::Table;
//! # use motet_protocol::{Context, shootdown};
//! fn unmap(context: &impl Context, space: &SpaceRecord, home: &Table<'_>, start: u64, end: u64, flush: impl FnOnce()) {
//!     shootdown::edit(context, space, home, flush, |stale| {
//!         home.unlink(start..end, stale);
//!         home.withdraw(start..end, stale);
//!     });
//! }
//! ```
//!
//! Protocol page: `docs/protocols/shoot-down.md`.

use core::ops::Range;
use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, CoreRecord, Frame, ISLANDS_MAX, IslandId, SpaceRecord};
use motet_paging::{Leaf, Mapped, Table, Withdrawal};

use crate::{
    Context,
    cores::{core_record, is_dead},
    count,
    leaf::holds_reference,
    memory::{frame_record, release_frame},
    replicas::{self, is_replica},
    run_queue::{collect, may_run_user},
};

/// What releasing a page costs, and a table whose entries are looked at, in instructions.
const PAGE_COST: u64 = 250;
const TABLE_COST: u64 = 2_000;

/// What edits have taken out of the page tables of a space: owned until the shoot-down is complete, and released then.
///
/// Tables are chained through their frames' records, pages stay in their tables (inactive, or out of the tree with
/// them), so there is room for whatever is taken out.
pub struct Stale<'a> {
    home: &'a Table<'a>,
    /// Whether translations may be in use that are no longer true.
    narrowed: bool,
    /// Tables that are out of their trees and hold no references ([`Chain`]).
    tables: Chain,
    /// Such as hold references to pages.
    tables_of_pages: Chain,
    /// Where the home's table has inactive leaves to be removed.
    range: Range<u64>,
    /// A page that was replaced.
    page: Option<Mapped>,
    /// Replicas that no table shows any more, chained by [`FrameRecord::next`](motet_layout::FrameRecord), which pages have no other use for.
    replicas: Frame,
}

/// Table frames, chained by [`FrameRecord::synced`](motet_layout::FrameRecord), which tables have no other use for.
#[derive(Default)]
struct Chain {
    /// The first one, [`Frame::NONE`]: there is none.
    first: Frame,
}

/// Edits page tables of `space`, whose lock is held (or which nobody else uses); then makes every core drop the translations that are
/// no longer true, waits for that, and releases what the edits have taken out.
///
/// `home` is the table whose leaves hold references. `flush_own` drops this core's translations; it is called if the
/// space is active here and something was taken back.
pub fn edit<R>(
    context: &impl Context,
    space: &SpaceRecord,
    home: &Table<'_>,
    flush_own: impl FnOnce(),
    edits: impl FnOnce(&mut Stale<'_>) -> R,
) -> R {
    let mut stale = Stale {
        home,
        narrowed: false,
        tables: Chain::default(),
        tables_of_pages: Chain::default(),
        range: 0..0,
        page: None,
        replicas: Frame::NONE,
    };
    let result = edits(&mut stale);
    if stale.narrowed {
        shoot_down(context, space, flush_own);
    }
    stale.release(context, space);
    result
}

/// What edits owe that take access away, and nothing out of the tables: a shoot-down. Tables of the second stage are edited so.
pub struct Narrowing {
    narrowed: bool,
}

/// Edits page tables of `space`, whose lock is held; then makes every core drop the translations that are no longer true, and waits for that.
/// The edits take access away, but no page and no table. `flush_own` as for [`edit`].
pub fn narrow<R>(
    context: &impl Context,
    space: &SpaceRecord,
    flush_own: impl FnOnce(),
    edits: impl FnOnce(&mut Narrowing) -> R,
) -> R {
    let mut narrowing = Narrowing { narrowed: false };
    let result = edits(&mut narrowing);
    if narrowing.narrowed {
        shoot_down(context, space, flush_own);
    }
    result
}

impl Withdrawal for Narrowing {
    fn home(&self) -> Frame {
        Frame::NONE
    }

    fn narrowed(&mut self) {
        self.narrowed = true;
    }

    fn take_table(&mut self, _: Frame, _: bool) {
        unreachable!("an edit that narrows takes out a table");
    }

    fn take_range(&mut self, _: Range<u64>) {
        unreachable!("an edit that narrows takes out pages");
    }

    fn take_page(&mut self, _: Mapped) {
        unreachable!("an edit that narrows replaces a page");
    }
}

/// The tables of a space are used no more ([`end`]).
pub struct Unused(());

impl motet_paging::Unused for Unused {}

/// Makes every core drop its translations of `space`, which no core will have active again with the tables that it has now, and
/// waits for that; then `apart` takes those tables apart.
pub fn end<R>(
    context: &impl Context,
    space: &SpaceRecord,
    flush_own: impl FnOnce(),
    apart: impl FnOnce(&Unused) -> R,
) -> R {
    shoot_down(context, space, flush_own);
    apart(&Unused(()))
}

impl Stale<'_> {
    /// Releases everything. Nobody uses it any more.
    fn release(self, context: &impl Context, space: &SpaceRecord) {
        let mut pages = 0;
        let mut release_page = |leaf: Leaf| {
            if holds_reference(leaf) {
                release_frame(context, leaf.frame.named());
                pages += 1;
                context.spend_locked(PAGE_COST);
            }
        };
        self.home.sweep(self.range, &mut release_page);
        self.tables_of_pages.drain(context, |table| self.home.visit_unlinked(table, &mut release_page));
        self.tables.drain(context, |_| ());
        if let Some(page) = self.page {
            release_frame(context, page.named());
        }
        let mut replica = self.replicas;
        while !replica.is_none() {
            let next = Frame(frame_record(context.pool(), replica).next.get());
            replicas::end(context, space, replica);
            context.spend_locked(PAGE_COST);
            replica = next;
        }
        if pages != 0 {
            space.resident.fetch_sub(pages, Ordering::Relaxed);
        }
    }
}

impl Withdrawal for Stale<'_> {
    fn home(&self) -> Frame {
        self.home.root
    }

    fn narrowed(&mut self) {
        self.narrowed = true;
    }

    fn take_table(&mut self, table: Frame, holds_pages: bool) {
        let chain = if holds_pages { &mut self.tables_of_pages } else { &mut self.tables };
        frame_record(self.home.pool, table).synced.store(chain.first.0, Ordering::Relaxed);
        chain.first = table;
    }

    fn take_range(&mut self, range: Range<u64>) {
        assert!(self.range.is_empty(), "withdrawing two ranges in one edit");
        self.range = range;
    }

    fn take_page(&mut self, page: Mapped) {
        assert!(self.page.is_none(), "replacing two pages in one edit");
        self.page = Some(page);
    }

    fn give_up_borrowed(&mut self, page: Mapped) {
        let (pool, frame) = (self.home.pool, page.named());
        if is_replica(pool, frame) {
            frame_record(pool, frame).next.set(self.replicas.0);
            self.replicas = frame;
        }
    }
}

impl Chain {
    /// Releases all tables, after `each` has looked at them.
    fn drain(self, context: &impl Context, mut each: impl FnMut(Frame)) {
        let mut at = self.first;
        while !at.is_none() {
            let next = Frame(frame_record(context.pool(), at).synced.load(Ordering::Relaxed));
            each(at);
            release_frame(context, at);
            context.spend_locked(TABLE_COST);
            at = next;
        }
    }
}

/// Makes every core drop its translations of `space`, whose entries were edited before. `flush_own` drops this core's; it is
/// called if the space is active here.
pub fn shoot_down(context: &impl Context, space: &SpaceRecord, flush_own: impl FnOnce()) {
    then_look();
    let me = context.core();
    let mut all = [Asked::NONE; 16];
    let mut asked = 0;
    let mut foreign = false;
    for island in (0..ISLANDS_MAX).map(|index| IslandId(index as u8)) {
        let mut active = space.active[island.index()].load(Ordering::SeqCst);
        while active != 0 {
            let core = CoreId::new(island, active.trailing_zeros() as usize % CORES_PER_ISLAND_MAX);
            active &= active - 1;
            if core == me {
                continue;
            }
            if asked == all.len() {
                wait_for(context, &all);
                asked = 0;
            }
            foreign |= core.island() != me.island();
            all[asked] = ask(context, core);
            asked += 1;
        }
    }
    let own = space.active[me.island().index() % ISLANDS_MAX].load(Ordering::Relaxed) >> me.index_in_island() & 1 != 0;
    if own {
        flush_own();
    }
    if asked != 0 || own {
        count(&context.counters().shootdowns);
    }
    if foreign {
        count(&context.counters().shootdowns_foreign);
    }
    wait_for(context, &all[..asked]);
}

/// Serves shoot-downs that were asked of this core: calls `flush` (drop all user translations) if any was.
#[inline(always)]
pub fn serve(context: &impl Context, flush: impl FnOnce()) {
    let record = context.own_record();
    // Relaxed, as this is on every way to user code; what was asked orders itself when there is something.
    if record.shootdown_asked.load(Ordering::Relaxed) != record.shootdown_done.load(Ordering::Relaxed) {
        let asked = record.shootdown_asked.load(Ordering::Acquire);
        flush();
        record.shootdown_done.store(asked, Ordering::Release);
    }
}

/// Whether anything was asked of this core that it has not passed yet.
#[inline(always)]
pub fn is_asked(context: &impl Context) -> bool {
    let record = context.own_record();
    record.shootdown_asked.load(Ordering::Relaxed) != record.shootdown_passed.load(Ordering::Relaxed)
}

/// As [`serve`], where this core holds no lock and has no thread in transit from one core to another: so
/// [`orphans::wait_for_all`](crate::orphans::wait_for_all) learns that it has been here.
#[inline(always)]
pub fn pass(context: &impl Context, flush: impl FnOnce()) {
    let record = context.own_record();
    if record.shootdown_asked.load(Ordering::Relaxed) != record.shootdown_passed.load(Ordering::Relaxed) {
        let asked = record.shootdown_asked.load(Ordering::Acquire);
        flush();
        collect(context);
        record.shootdown_done.store(asked, Ordering::Release);
        record.shootdown_passed.store(asked, Ordering::Release);
    }
}

/// A core that is to drop its translations.
#[derive(Clone, Copy)]
struct Asked {
    core: CoreId,
    ticket: u64,
    was_rung: bool,
}

impl Asked {
    const NONE: Self = Self { core: CoreId::HOST, ticket: 0, was_rung: false };
}

fn ask(context: &impl Context, core: CoreId) -> Asked {
    let record = core_record(context, core);
    let ticket = record.shootdown_asked.fetch_add(1, Ordering::SeqCst) + 1;
    let was_rung = may_use(record);
    if was_rung {
        ring(context, core);
    }
    Asked { core, ticket, was_rung }
}

/// Whether a core may use translations before it looks at what was asked of it.
fn may_use(record: &CoreRecord) -> bool {
    may_run_user(record.state.load(Ordering::SeqCst)) || record.away.load(Ordering::SeqCst) != 0
}

fn ring(context: &impl Context, core: CoreId) {
    count(&context.counters().doorbells_rung);
    context.ring(core);
}

fn wait_for(context: &impl Context, all: &[Asked]) {
    for &Asked { core, ticket, mut was_rung } in all {
        let record = core_record(context, core);
        while record.shootdown_done.load(Ordering::Acquire) < ticket && may_use(record) && !is_dead(context, core) {
            if !was_rung {
                // Whoever has woken it since may have died before it rang, and who reclaims that may be this core.
                ring(context, core);
                was_rung = true;
            }
            context.relax();
        }
    }
}
