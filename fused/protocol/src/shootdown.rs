//! Translation shoot-down across islands.
//!
//! The initiator edits page-table entries, then asks every core that has the space active: it raises the core's "asked"
//! ticket and rings it, and waits until "done" has reached the ticket. Requests merge: a target drops all its user
//! translations once for however many were asked. A core that idles runs no user code, and serves what was asked before
//! it runs user code again, so it is neither rung nor waited for; the two orders "raise, then look whether idle" and
//! "leave idle, then look whether asked" cannot both miss.
//!
//! Protocol page: `docs/protocols/shoot-down.md`.

use motet_layout::sync::{Ordering, fence};

use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, ISLANDS_MAX, IslandId, SpaceRecord};

use crate::{
    Context, count,
    lost::is_dead,
    run_queue::{collect, core_record, may_run_user},
};

/// Page-table entries were withdrawn or narrowed, and stale translations of them may still be in use. Frames that were
/// unmapped must not be released before [`complete`](Self::complete).
#[must_use = "stale translations remain until the shoot-down is complete"]
#[derive(Debug)]
pub struct Stale(());

impl Stale {
    /// States that page-table entries of a space were withdrawn or narrowed.
    pub fn new() -> Self {
        Self(())
    }

    /// Makes every core drop its translations of `space`. `flush_own` drops this core's; it is called if the space is
    /// active here.
    pub fn complete(self, context: &impl Context, space: &SpaceRecord, flush_own: impl FnOnce()) {
        let Self(()) = self;
        fence(Ordering::SeqCst);
        let me = context.core();
        let mut tickets = [(CoreId::HOST, 0u64); 16];
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
                if asked == tickets.len() {
                    wait_for(context, &tickets);
                    asked = 0;
                }
                let ticket = ask(context, core);
                foreign |= core.island() != me.island();
                tickets[asked] = (core, ticket);
                asked += 1;
            }
        }
        if space.active[me.island().index() % ISLANDS_MAX].load(Ordering::Relaxed) >> me.index_in_island() & 1 != 0 {
            flush_own();
        }
        count(&context.counters().shootdowns);
        if foreign {
            count(&context.counters().shootdowns_foreign);
        }
        wait_for(context, &tickets[..asked]);
    }

    /// No core can have used the entries (they were in a table that is not active anywhere).
    pub fn nothing_cached(self) {
        let Self(()) = self;
    }
}

impl Default for Stale {
    fn default() -> Self {
        Self::new()
    }
}

/// Carries out what was asked of this core: calls `flush` (drop all user translations) if anything was.
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

/// As [`serve`], where this core holds no lock and carries no thread from one core to another: so
/// [`lost::wait_for_all`](crate::lost::wait_for_all) learns that it has been here.
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

fn ask(context: &impl Context, core: CoreId) -> u64 {
    let record = core_record(context, core);
    let ticket = record.shootdown_asked.fetch_add(1, Ordering::SeqCst) + 1;
    if may_run_user(record.state.load(Ordering::SeqCst)) {
        count(&context.counters().doorbells_rung);
        context.ring(core);
    }
    ticket
}

fn wait_for(context: &impl Context, tickets: &[(CoreId, u64)]) {
    for &(core, ticket) in tickets {
        let record = core_record(context, core);
        while record.shootdown_done.load(Ordering::Acquire) < ticket
            && may_run_user(record.state.load(Ordering::SeqCst))
            && !is_dead(context, core)
        {
            context.relax();
        }
    }
}
