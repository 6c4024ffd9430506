//! Rejoining: islands that have died are started again and join the running machine.
//!
//! | who | step |
//! |---|---|
//! | host | the island is lost ([`declare_dead`]): its cores are off, it has died once more |
//! | first island | reclaims it ([`crate::orphans`]), and says that it is gone ([`finish_reclaiming`]): no core, no thread and no space names it any more |
//! | host | it is about to join again ([`begin`]); a machine is started for it, with the doorbells that it had |
//! | its first core | takes what the dead one has left in the records of its cores ([`take_records`]), says that it has joined ([`join`]), starts the others |
//! | each core | says that it is awake, as one that comes back ([`crate::hotplug`]) |
//!
//! No core gives anything to a core that is offline, so until it stores that it is awake its record belongs to the new core alone. Two things of the dead
//! core are left: locks, whose words show that they are of an earlier life ([`crate::lock`]), and tickets of shoot-downs, which the new core serves as any other.
//! A death at any of these steps is a death like any other: the host declares the island dead again.
//!
//! Protocol page: `docs/protocols/hotplug.md`.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{
    CALL_NONE, CORE_OFFLINE, CORES_PER_ISLAND_MAX, CoreId, CoreRecord, ISLAND_DEAD, ISLAND_GONE, ISLAND_JOINED,
    ISLAND_RECLAIMING, ISLAND_REJOINING, IslandId, PoolHeader, ReadyGroup, SpaceRecord,
};

use crate::{
    Context,
    cores::{core_record, cores_of},
    lock::lock,
    slab,
};

/// Declares an island dead, once nothing of it runs any more. The host calls it, and then rings the first core, unless that is the dead one.
pub fn declare_dead(header: &PoolHeader, island: IslandId) {
    for index in 0..CORES_PER_ISLAND_MAX {
        header.cores[CoreId::new(island, index).index()].state.store(CORE_OFFLINE, Ordering::Release);
    }
    let record = &header.islands[island.index()];
    record.deaths.fetch_add(1, Ordering::AcqRel);
    record.state.store(ISLAND_DEAD, Ordering::Release);
    header.died.store(1, Ordering::Release);
}

/// Ends the reclamation of these islands (a bit each), whose processes the first island has ended: they may join again.
pub fn finish_reclaiming(context: &impl Context, reclaimed: u32) {
    let islands = || (0..context.island_count()).filter(|island| reclaimed >> island & 1 != 0);
    // Who ends a space waits until nobody has it active, and for dead cores only as long as they are dead.
    for space in slab::all::<SpaceRecord>(context) {
        for island in islands() {
            space.active[island].store(0, Ordering::Relaxed);
        }
    }
    for island in islands() {
        let state = &context.pool().header().islands[island].state;
        if state.load(Ordering::Relaxed) == ISLAND_RECLAIMING {
            state.store(ISLAND_GONE, Ordering::Release);
        }
    }
}

/// Whether an island has died, and what ran there has been ended: it may be started again.
pub fn is_gone(header: &PoolHeader, island: IslandId) -> bool {
    header.islands[island.index()].state.load(Ordering::Acquire) == ISLAND_GONE
}

/// Stores that the host is about to start an island again, that [is gone](is_gone).
pub fn begin(header: &PoolHeader, island: IslandId) {
    header.islands[island.index()].state.store(ISLAND_REJOINING, Ordering::Release);
}

/// Whether the acting core's island has been started again, and has not joined yet.
pub fn is_rejoining(context: &impl Context) -> bool {
    context.island_record().state.load(Ordering::Acquire) == ISLAND_REJOINING
}

/// Resets the records of an island's cores, which has been started again; its first core calls this. Nothing waits in these records, and nobody
/// calls. Timers stay, should there be any. All cores are in use, also those that had been taken out.
pub fn take_records(context: &impl Context) {
    let record = context.island_record();
    record.hidden_leave.store(0, Ordering::Relaxed);
    record.hidden_out.store(0, Ordering::Relaxed);
    for core in cores_of(context, context.core().island()) {
        take_record(context, core_record(context, core));
    }
}

fn take_record(context: &impl Context, record: &'static CoreRecord) {
    record.call.store(CALL_NONE, Ordering::Relaxed);
    record.answer.store(CALL_NONE, Ordering::Relaxed);
    record.inbox.store(0, Ordering::Relaxed);
    record.inbox_count.store(0, Ordering::Relaxed);
    record.current_thread.store(0, Ordering::Relaxed);
    record.stacked.store(0, Ordering::Relaxed);
    record.active_space.store(0, Ordering::Relaxed);
    record.space_changed.store(0, Ordering::Relaxed);
    record.away.store(0, Ordering::Relaxed);
    record.pending.store(0, Ordering::Relaxed);
    record.ready_count.store(0, Ordering::Relaxed);
    record.ready_mask.set(0);
    record.ready_running.set(0);
    record.ready_groups.iter().chain([&record.ready_realtime]).for_each(forget_group);
    record.realtime_since_ns.set(0);
    record.realtime_before_ns.set(0);
    record
        .hand
        .iter()
        .chain([&record.hand_place])
        .chain(&record.locks_held)
        .for_each(|word| word.store(0, Ordering::Relaxed));
    record.alarm_ns.store(u64::MAX, Ordering::Relaxed);
    // Repairs the list, if a core has died with it; and its earliest deadline is true.
    drop(lock(context, &record.timer_lock));
}

fn forget_group(group: &ReadyGroup) {
    for word in [&group.first, &group.last, &group.served_ns] {
        word.set(0);
    }
    group.user.set(0);
    group.rank_max.set(0);
}

/// Stores that the island has joined again; its first core calls this. Its cores are still offline: each stores that it is awake just before it looks what has come.
pub fn join(context: &impl Context) {
    context.island_record().state.store(ISLAND_JOINED, Ordering::Release);
    then_look(); // at what other islands have become: who reclaims one counts this among the living from now on
}
