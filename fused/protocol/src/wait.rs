//! Waiting and waking, across islands.
//!
//! A thread that must wait calls [`prepare`], and [`enqueue`] for each queue that may bring the event. Then it looks at the condition once
//! more, and calls either [`finish`] (the condition holds now) or [`commit`] (block). A waker changes the condition, then calls
//! [`wake`]. A waker that meets the thread between prepare and commit moves it back to running, and commit fails: the
//! thread looks again. No wake-up is lost and none is doubled; only the winner of the compare-and-swap on the thread's
//! state hands it over.
//!
//! Protocol page: `docs/protocols/wake-up.md`.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{
    MORE_NODES, MoreNodes, NODE_BELL, NODE_OWNER, NODE_WATCH, THREAD_BLOCKED, THREAD_PREPARING, THREAD_RUNNING,
    ThreadRecord, WAIT_NODES, WAKE_EVENT, WAKE_NONE, WaitNode, WaitQueue,
};

use crate::{
    Context,
    lock::{lock, try_lock},
    owner,
    queue::{detach, find, find_from, link_last, unlink},
    run_queue::{hand_over, in_transit_by},
    slab, watch,
};

/// What waking a thread costs, in instructions.
const WOKEN: u64 = 400;
/// What moving one to another queue costs.
const MOVED: u64 = 60;

/// Begins to wait.
pub fn prepare(thread: &'static ThreadRecord) {
    debug_assert!(thread.state.load(Ordering::Relaxed) == THREAD_RUNNING);
    thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
    thread.state.store(THREAD_PREPARING, Ordering::Relaxed);
    then_look(); // at what wakers change
}

/// Puts the preparing thread into a queue. `key` and `bits` narrow futex wake-ups (otherwise 0 and `u32::MAX`).
/// Returns `false` when there is no memory for its place (the caller then looks again after a short time).
#[inline]
pub fn enqueue(
    context: &impl Context,
    thread: &'static ThreadRecord,
    queue: &'static WaitQueue,
    key: u64,
    bits: u32,
) -> bool {
    let used = thread.wait_count.get() as usize;
    let Some(node) = thread.nodes.get(used).or_else(|| further_node(context, thread, used)) else { return false };
    thread.wait_count.set(used as u32 + 1);
    node.thread.set(context.raw(thread));
    node.key.set(key);
    node.bits.set(bits);
    let guard = lock(context, &queue.lock);
    link_last(context, queue, node);
    drop(guard);
    then_look();
    true
}

/// The node for a thread's place number `used`, of those that it has not in its own record.
#[cold]
fn further_node(context: &impl Context, thread: &ThreadRecord, used: usize) -> Option<&'static WaitNode> {
    let index = (used - WAIT_NODES) % MORE_NODES;
    let last = context.object::<MoreNodes>(thread.more_nodes.get());
    if let Some(last) = last.filter(|_| index != 0) {
        return Some(&last.nodes[index]);
    }
    let more = slab::alloc::<MoreNodes>(context)?;
    more.next.set(thread.more_nodes.get());
    thread.more_nodes.set(context.raw(more));
    Some(&more.nodes[0])
}

/// Leaves all queues. Called by the thread's core when the wait is over or was not needed; the thread is running again.
#[inline(always)]
pub fn finish(context: &impl Context, thread: &'static ThreadRecord) {
    if thread.wait_count.get() != 0 {
        leave_all(context, thread);
    }
    thread.state.store(THREAD_RUNNING, Ordering::Relaxed);
}

/// Begins to wait once more, for a thread that has been [taken](take_thread) out of its wait, and whose one place in `queue` has been left alone since. It takes
/// the queue's lock only if that is free: the core may be in the middle of something under it. `false`: the thread does not wait.
#[must_use = "a thread that does not wait is ready"]
pub fn prepare_again(context: &impl Context, thread: &'static ThreadRecord, queue: &'static WaitQueue) -> bool {
    prepare(thread);
    let Some(guard) = try_lock(context, &queue.lock) else { return false };
    // Who has met the thread while it did not wait has woken nobody, and taken its place out. With the lock held, none is about to.
    if thread.nodes[0].queue.load(Ordering::Relaxed) != context.raw(queue) {
        link_last(context, queue, &thread.nodes[0]);
    }
    drop(guard);
    then_look(); // at the condition
    true
}

fn leave_all(context: &impl Context, thread: &'static ThreadRecord) {
    let used = thread.wait_count.get() as usize;
    thread.nodes[..used.min(WAIT_NODES)].iter().for_each(|node| leave(context, node));
    if used > WAIT_NODES {
        leave_further(context, thread);
    }
    thread.wait_count.set(0);
}

#[cold]
fn leave_further(context: &impl Context, thread: &ThreadRecord) {
    while let Some(more) = context.object::<MoreNodes>(thread.more_nodes.get()) {
        // Those that were not used are in no queue.
        more.nodes.iter().for_each(|node| leave(context, node));
        thread.more_nodes.set(more.next.get());
        slab::free(context, more);
    }
}

/// Takes a node out of its queue, if it is still there.
#[inline(always)]
fn leave(context: &impl Context, node: &WaitNode) {
    while let Some(queue) = context.object::<WaitQueue>(node.queue.load(Ordering::Acquire)) {
        let _guard = lock(context, &queue.lock);
        // Before we held the lock, a waker may have unlinked it, or a requeue moved it.
        if node.queue.load(Ordering::Relaxed) == context.raw(queue) {
            unlink(context, queue, node);
        }
    }
}

/// Blocks the prepared thread. From `true` on the thread belongs to whoever wakes it: its registers must all have been
/// saved. `false`: it was woken meanwhile and is running.
#[must_use]
pub fn commit(thread: &'static ThreadRecord) -> bool {
    thread.state.compare_exchange(THREAD_PREPARING, THREAD_BLOCKED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// Wakes up to `limit` threads of a queue whose key is `key` and whose bits meet `bits`; returns how many.
#[inline]
pub fn wake_matching(context: &impl Context, queue: &'static WaitQueue, limit: u32, key: u64, bits: u32) -> u32 {
    then_look();
    if queue.head.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    wake_queued(context, queue, limit, key, bits)
}

/// Whether anybody is in one of these queues: who enters one from now on sees what the caller has seen before.
#[inline]
pub fn has_any<const N: usize>(queues: [&WaitQueue; N]) -> bool {
    then_look();
    queues.iter().any(|queue| queue.head.load(Ordering::Relaxed) != 0)
}

/// Wakes all threads of a queue.
#[inline]
pub fn wake(context: &impl Context, queue: &'static WaitQueue) -> u32 {
    wake_matching(context, queue, u32::MAX, 0, u32::MAX)
}

/// Wakes one thread, wherever it waits; `reason` tells it why. `false`: it was not waiting.
pub fn wake_thread(context: &impl Context, thread: &'static ThreadRecord, reason: u32) -> bool {
    then_look(); // at the state, after what the caller changed: the other side of `prepare`
    let mut state = thread.state.load(Ordering::SeqCst);
    let in_transit = in_transit_by(context.core());
    loop {
        let next = match state {
            THREAD_BLOCKED => in_transit,
            THREAD_PREPARING => THREAD_RUNNING,
            _ => return false,
        };
        match thread.state.compare_exchange(state, next, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) if next == in_transit => {
                // Nobody runs it before it is handed over, so the reason is in time.
                thread.wake_reason.store(reason, Ordering::Relaxed);
                hand_over(context, thread);
                return true;
            }
            Ok(_) => return true,
            Err(found) => state = found,
        }
    }
}

/// As [`wake_thread`], where this core goes on with the thread itself, or hands it over later: it carries the thread from now on. `false`: it does not
/// wait, or not yet.
#[inline]
pub fn take_thread(context: &impl Context, thread: &'static ThreadRecord, reason: u32) -> bool {
    let in_transit = in_transit_by(context.core());
    let is_taken =
        thread.state.compare_exchange(THREAD_BLOCKED, in_transit, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    if is_taken {
        thread.wake_reason.store(reason, Ordering::Relaxed);
    }
    is_taken
}

/// How many threads in a queue are such. The queue's memory is not given back meanwhile.
pub fn count(context: &impl Context, queue: &'static WaitQueue, is: impl Fn(&ThreadRecord) -> bool) -> u32 {
    let _guard = lock(context, &queue.lock);
    let mut counted = 0;
    let mut at = queue.head.load(Ordering::Relaxed);
    while let Some(node) = find_from(context, at, 0, u32::MAX) {
        let thread = context
            .object::<ThreadRecord>(node.thread.get())
            .filter(|_| !matches!(node.kind.get(), NODE_WATCH | NODE_BELL | NODE_OWNER));
        counted += u32::from(thread.is_some_and(&is));
        at = node.next.get();
        context.spend_locked(MOVED);
    }
    counted
}

/// Moves up to `limit` waiters with `from_key` to another queue and key without waking them (futex requeue).
pub fn requeue(
    context: &impl Context,
    from: &'static WaitQueue,
    from_key: u64,
    to: &'static WaitQueue,
    to_key: u64,
    limit: u32,
) -> u32 {
    if core::ptr::eq(from, to) && from_key == to_key {
        return 0; // they would be found again and again
    }
    // Both locks, so that a waiter that leaves meanwhile finds its node in one of the queues; by address, so that two
    // movers in opposite directions do not wait for each other.
    let (first, second) = if context.raw(from) <= context.raw(to) { (from, to) } else { (to, from) };
    let _first = lock(context, &first.lock);
    let _second = (!core::ptr::eq(first, second)).then(|| lock(context, &second.lock));
    let mut moved = 0;
    while moved < limit {
        let Some(node) = find(context, from, from_key, u32::MAX) else { break };
        // Its queue goes from the one to the other at once: with none between, a waiter that leaves would let it lie.
        detach(context, from, node);
        node.key.set(to_key);
        link_last(context, to, node); // which first says that it is there
        moved += 1;
        context.spend_locked(MOVED);
    }
    moved
}

#[cold]
fn wake_queued(context: &impl Context, queue: &'static WaitQueue, limit: u32, key: u64, bits: u32) -> u32 {
    let _guard = lock(context, &queue.lock);
    let mut woken = 0;
    let mut at = queue.head.load(Ordering::Relaxed);
    while woken < limit {
        let Some(node) = find_from(context, at, key, bits) else { break };
        at = node.next.get();
        if node.kind.get() == NODE_WATCH {
            if let Some(waiters) = watch::tell(context, node) {
                wake(context, waiters);
            }
            continue;
        }
        if node.kind.get() == NODE_BELL {
            watch::strike(context, node);
            continue;
        }
        if node.kind.get() == NODE_OWNER {
            owner::tell(context, node);
            continue;
        }
        let thread = context.pool().at::<ThreadRecord>(motet_layout::PoolAddr(node.thread.get()));
        // Wake first: while its node is linked the thread cannot have left this wait for another one (`finish` needs the
        // lock), so a wake-up that counts goes to a waiter of this queue.
        woken += u32::from(wake_thread(context, thread, WAKE_EVENT));
        unlink(context, queue, node);
        context.spend_locked(WOKEN);
    }
    woken
}
