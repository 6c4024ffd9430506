//! The lists of wait queues: which nodes, of threads that [wait](crate::wait) and of [watches](crate::watch), are in a queue.
//!
//! All functions here want the queue's lock held, but [`enter`] and [`leave`].

use motet_layout::sync::Ordering;

use motet_layout::{MoreNodes, OwnerRecord, PoolAddr, WaitNode, WaitQueue, WatchRecord, in_order};

use crate::{Context, lock::lock, slab, threads};

/// The first node of a queue whose key is `key` and whose bits meet `bits`.
pub fn find(context: &impl Context, queue: &WaitQueue, key: u64, bits: u32) -> Option<&'static WaitNode> {
    find_from(context, queue.head.load(Ordering::Relaxed), key, bits)
}

/// As [`find`], from the node at `at` (pool address) on.
pub fn find_from(context: &impl Context, mut at: u64, key: u64, bits: u32) -> Option<&'static WaitNode> {
    while let Some(node) = context.object::<WaitNode>(at) {
        if node.key.get() == key && node.bits.get() & bits != 0 {
            return Some(node);
        }
        at = node.next.get();
    }
    None
}

/// Appends a node to a queue's list. The node says first where it is: [`recover`] goes by that.
pub fn link_last(context: &impl Context, queue: &'static WaitQueue, node: &'static WaitNode) {
    let tail = queue.tail.get();
    node.queue.store(context.raw(queue), Ordering::Relaxed);
    in_order();
    node.prev.set(tail);
    node.next.set(0);
    in_order();
    match context.object::<WaitNode>(tail) {
        Some(tail) => tail.next.set(context.raw(node)),
        None => queue.head.store(context.raw(node), Ordering::Relaxed),
    }
    queue.tail.set(context.raw(node));
}

/// Puts the node of a record of its own, no thread's, into a queue, whose lock is free: of which [kind](WaitNode::kind) it is, whose, and which wake-ups are about it (or what else its
/// kind has bits for).
pub fn enter(
    context: &impl Context,
    queue: &'static WaitQueue,
    node: &'static WaitNode,
    kind: u32,
    whose: u64,
    bits: u32,
) {
    node.kind.set(kind);
    node.thread.set(whose);
    node.key.set(0);
    node.bits.set(bits);
    let _guard = lock(context, &queue.lock);
    link_last(context, queue, node);
}

/// Takes the node of such a record out of the queue that it is in, if it is in one.
pub fn leave(context: &impl Context, node: &'static WaitNode) {
    if let Some(queue) = of(context, node) {
        let _guard = lock(context, &queue.lock);
        unlink(context, queue, node);
    }
}

/// The queue that a node is in.
pub fn of(context: &impl Context, node: &WaitNode) -> Option<&'static WaitQueue> {
    context.object(node.queue.load(Ordering::Relaxed))
}

/// Takes a node out of its queue, and says so.
pub fn unlink(context: &impl Context, queue: &WaitQueue, node: &WaitNode) {
    detach(context, queue, node);
    node.queue.store(0, Ordering::Release);
}

/// Takes a node out of its queue's list.
pub fn detach(context: &impl Context, queue: &WaitQueue, node: &WaitNode) {
    match context.object::<WaitNode>(node.prev.get()) {
        Some(prev) => prev.next.set(node.next.get()),
        None => queue.head.store(node.next.get(), Ordering::Relaxed),
    }
    match context.object::<WaitNode>(node.next.get()) {
        Some(next) => next.prev.set(node.prev.get()),
        None => queue.tail.set(node.prev.get()),
    }
}

/// Repairs a queue whose lock a dead core held and this one has now. Which nodes are in it they say themselves; their order is that of the
/// links forward. Those that it was just linking, or taking out, come last: who was to be woken may be woken twice, and none is forgotten.
pub fn recover(context: &impl Context, queue: &'static WaitQueue) {
    let raw = context.raw(queue);
    let is_here = |node: &&'static WaitNode| node.queue.load(Ordering::Relaxed) == raw;
    let at = |raw: u64| context.pool().get::<WaitNode>(PoolAddr(raw)).filter(is_here);
    let mut last = 0;
    let mut next = queue.head.load(Ordering::Relaxed);
    while let Some(node) = at(next) {
        node.prev.set(last);
        last = next;
        next = node.next.get();
    }
    match at(last) {
        Some(last) => last.next.set(0),
        None => queue.head.store(0, Ordering::Relaxed),
    }
    queue.tail.set(last);
    let is_linked = |node: &'static WaitNode| {
        let before = at(node.prev.get()).map_or(queue.head.load(Ordering::Relaxed), |before| before.next.get());
        before == context.raw(node)
    };
    let mut look = |node: &'static WaitNode| {
        if is_here(&node) && !is_linked(node) {
            link_last(context, queue, node);
        }
    };
    threads::table(context).flat_map(|thread| &thread.nodes).for_each(&mut look);
    slab::all::<MoreNodes>(context).flat_map(|more| &more.nodes).for_each(&mut look);
    slab::all::<WatchRecord>(context).flat_map(|watch| &watch.nodes).for_each(&mut look);
    slab::all::<OwnerRecord>(context).flat_map(|owner| &owner.nodes).for_each(&mut look);
}
