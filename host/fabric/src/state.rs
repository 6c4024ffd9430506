//! The state of a running machine, read from the pool: islands, cores, threads, and who holds the machine's own locks. It helps to find out why a run does
//! not end. Nothing is stopped and no lock is taken, so words that are read may change meanwhile; any values give text.

use std::fmt::Write as _;

use motet_layout::{
    CORES_PER_ISLAND_MAX, CoreId, IslandId, Lock, Pool, PoolAddr, PoolHeader, ProcessRecord, ThreadRecord,
    sync::{AtomicU64, Ordering},
};
use motet_protocol::{lock, threads::TIDS};

/// A line for each island, core and thread, and for each lock that somebody holds.
pub fn describe(pool: Pool) -> String {
    let mut text = String::new();
    let header = pool.header();
    let count = header.island_count.get().min(header.islands.len() as u32);
    for island in (0..count).filter_map(IslandId::from_raw) {
        describe_island(header, island, &mut text);
    }
    describe_locks(header, &mut text);
    for thread in threads(pool) {
        describe_thread(pool, thread, &mut text);
    }
    text
}

fn describe_island(header: &PoolHeader, island: IslandId, text: &mut String) {
    let record = &header.islands[island.index()];
    let (state, deaths) = (record.state.load(Ordering::Relaxed), record.deaths.load(Ordering::Relaxed));
    let heartbeat = record.counters.heartbeat.load(Ordering::Relaxed);
    let _ = writeln!(text, "island {}: state {state}, died {deaths} times, heartbeat {heartbeat}", island.0);
    for index in 0..(record.core_count.get() as usize).min(CORES_PER_ISLAND_MAX) {
        let core = CoreId::new(island, index);
        let record = &header.cores[core.index()];
        let [asked, passed, done] = [&record.shootdown_asked, &record.shootdown_passed, &record.shootdown_done]
            .map(|ticket| ticket.load(Ordering::Relaxed));
        let _ = writeln!(
            text,
            "  core {}: state {:#x}, call {:#x}, thread {:#x}, inbox {:#x}, ready {}, tickets asked {asked} passed {passed} done {done}, \
             deadline {} ns, timer lock {:?}",
            core.0,
            record.state.load(Ordering::Relaxed),
            record.call.load(Ordering::Relaxed),
            record.current_thread.load(Ordering::Relaxed),
            record.inbox.load(Ordering::Relaxed),
            record.ready_count.load(Ordering::Relaxed),
            record.timer_deadline_ns.load(Ordering::Relaxed),
            lock::holder(&record.timer_lock),
        );
    }
}

/// Those of the header.
fn describe_locks(header: &PoolHeader, text: &mut String) {
    let mut say = |what: &str, holder: Option<CoreId>| {
        if let Some(core) = holder {
            let _ = writeln!(text, "lock {what}: held by core {}", core.0);
        }
    };
    fn of<const CLASS: u32>(lock: &Lock<CLASS>) -> (String, Option<CoreId>) {
        (format!("{:?}", lock.class()), lock::holder(lock))
    }
    let all = [
        of(&header.tree_lock),
        of(&header.tid_lock),
        of(&header.rename_lock),
        of(&header.epoll_lock),
        of(&header.socket_lock),
        of(&header.vms_lock),
        of(&header.memory.lock),
    ];
    all.iter().for_each(|(what, holder)| say(what, *holder));
    header.slabs.iter().enumerate().for_each(|(class, cache)| say(&format!("slab {class}"), lock::holder(&cache.lock)));
    for (island, memory) in header.memory.islands.iter().enumerate() {
        say(&format!("frames of island {island}"), lock::holder(&memory.lock));
    }
}

fn describe_thread(pool: Pool, thread: &ThreadRecord, text: &mut String) {
    let process = pool.get::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    let name: Vec<u8> = process.map_or_else(Vec::new, |process| {
        process.name.iter().map(|byte| byte.load(Ordering::Relaxed)).take_while(|&byte| byte != 0).collect()
    });
    let queues: Vec<String> = thread
        .nodes
        .iter()
        .map(|node| node.queue.load(Ordering::Relaxed))
        .filter(|&queue| queue != 0)
        .map(|queue| format!("{queue:#x}"))
        .collect();
    let _ = writeln!(
        text,
        "  thread {} at {:#x} of process {} ({}, state {}): state {:#x}, core {}, {:?}, waits in [{}], timer {} ns on core {}",
        thread.tid.get(),
        pool.find(thread).map_or(0, |addr| addr.0),
        process.map_or(0, |process| process.pid.get()),
        String::from_utf8_lossy(&name),
        process.map_or(0, |process| process.state.load(Ordering::Relaxed)),
        thread.state.load(Ordering::Relaxed),
        thread.core.load(Ordering::Relaxed),
        thread.stage.get(),
        queues.join(", "),
        thread.timer.deadline_ns.get(),
        i64::from(thread.timer.core.load(Ordering::Relaxed)) - 1,
    );
}

/// The threads that have a number. Words of the header are claims, too: there are no more numbers than there can be.
pub(crate) fn threads(pool: Pool) -> impl Iterator<Item = &'static ThreadRecord> {
    let header = pool.header();
    let high = header.threads_high.load(Ordering::Relaxed).min(header.threads_len.get()).min(TIDS);
    let at =
        move |tid: u32| PoolAddr(header.threads.get().wrapping_add(u64::from(tid) * size_of::<AtomicU64>() as u64));
    let slot = move |tid| pool.get::<AtomicU64>(at(tid)).map(|slot| PoolAddr(slot.load(Ordering::Relaxed)));
    (1..high).filter_map(move |tid| pool.get(slot(tid)?))
}
