//! The thread table: thread ids (a process's id is its first thread's) to thread objects.

use motet_layout::sync::{AtomicU64, Ordering};

use motet_layout::{PoolAddr, ThreadRecord, in_order};

use crate::{Context, lock::lock};

/// Thread ids are below this.
pub const TIDS: u32 = 32768;

/// After so many ids, used or not, the core looks what else is due, and what looking at that many costs, in instructions.
const IDS_AT_ONCE: u32 = 64;
const IDS_COST: u64 = IDS_AT_ONCE as u64 * 15;

/// Gives `thread` a fresh id and enters it in the table. `None`: all ids are in use.
pub fn register(context: &impl Context, thread: &'static ThreadRecord) -> Option<u32> {
    let header = context.pool().header();
    let _guard = lock(context, &header.tid_lock);
    let last = header.last_tid.get();
    let len = header.threads_len.get();
    let tid = (1..len)
        .inspect(|&step| passed(context, step))
        .map(|step| (last + step) % len)
        .find(|&tid| tid != 0 && slot(context, tid).is_some_and(|slot| slot.load(Ordering::Relaxed) == 0))?;
    header.last_tid.set(tid);
    thread.tid.set(tid);
    // First: should this core die, whoever looks for what it was making finds the thread.
    if tid >= header.threads_high.load(Ordering::Relaxed) {
        header.threads_high.store(tid + 1, Ordering::Relaxed);
    }
    in_order();
    slot(context, tid)?.store(context.raw(thread), Ordering::Release);
    Some(tid)
}

/// What is in the table: for repairs, in which nobody looks what else is due. A thread may be freed meanwhile.
pub(crate) fn table(context: &impl Context) -> impl Iterator<Item = &'static ThreadRecord> {
    (1..context.pool().header().threads_high.load(Ordering::Relaxed)).filter_map(|tid| lookup(context, tid))
}

/// Takes an id out of the table.
pub fn unregister(context: &impl Context, tid: u32) {
    if let Some(slot) = slot(context, tid) {
        slot.store(0, Ordering::Release);
    }
}

/// Makes an id in use name another thread.
pub fn replace(context: &impl Context, tid: u32, thread: &'static ThreadRecord) {
    if let Some(slot) = slot(context, tid) {
        slot.store(context.raw(thread), Ordering::Release);
    }
}

/// The thread with that id. The process-tree lock keeps it from being freed.
pub fn lookup(context: &impl Context, tid: u32) -> Option<&'static ThreadRecord> {
    context.object(slot(context, tid)?.load(Ordering::Acquire))
}

/// All threads, by ascending id. The process-tree lock keeps them from being freed.
pub fn all(context: &impl Context) -> impl Iterator<Item = &'static ThreadRecord> {
    from(context, 1)
}

/// The threads from an id on, ascending. The process-tree lock keeps them from being freed.
pub fn from(context: &impl Context, first: u32) -> impl Iterator<Item = &'static ThreadRecord> {
    let high = context.pool().header().threads_high.load(Ordering::Relaxed);
    (first..high).inspect(|&tid| passed(context, tid)).filter_map(|tid| lookup(context, tid))
}

#[inline(always)]
fn passed(context: &impl Context, count: u32) {
    if count % IDS_AT_ONCE == 0 {
        context.spend_locked(IDS_COST);
    }
}

fn slot(context: &impl Context, tid: u32) -> Option<&'static AtomicU64> {
    let header = context.pool().header();
    if tid == 0 || tid >= header.threads_len.get() {
        return None;
    }
    context.pool().get(PoolAddr(header.threads.get() + u64::from(tid) * 8))
}
