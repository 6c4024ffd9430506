//! Owners of open files (`F_SETOWN`, `O_ASYNC`): who is told by a signal that a file may have become ready.
//!
//! An owner that is told has a node in each queue of its file, as a [watch](crate::watch) has. A waker leaves the node there, pushes the owner onto the
//! machine's stack of those that are to be told, and its core sends the signals as soon as it holds no lock. Only who holds the header's `epoll_lock` takes
//! one off that stack. Something that comes while an owner is on it is told of by the same signal.
//!
//! Protocol page: `docs/protocols/wake-up.md`.

use motet_layout::{
    NODE_OWNER, OWNER_OUTPUT, OwnerRecord, PoolAddr, WaitNode, WaitQueue,
    handshake::then_look,
    sync::{AtomicU32, Ordering},
};

use crate::{Context, lock::lock, queue, slab};

/// Puts an owner into a queue of its file. `side`: [`OWNER_INPUT`](motet_layout::OWNER_INPUT) or [`OWNER_OUTPUT`].
pub fn enter(context: &impl Context, owner: &'static OwnerRecord, side: u32, queue: &'static WaitQueue) {
    queue::enter(context, queue, &owner.nodes[side.trailing_zeros() as usize], NODE_OWNER, context.raw(owner), side);
}

/// Takes an owner out of its file's queues. Nobody pushes it afterwards.
pub fn leave(context: &impl Context, owner: &'static OwnerRecord) {
    owner.nodes.iter().for_each(|node| queue::leave(context, node));
}

/// A queue with this node is woken. Its lock is held.
pub(crate) fn tell(context: &impl Context, node: &WaitNode) {
    let (Some(owner), side) = (context.object::<OwnerRecord>(node.thread.get()), node.bits.get()) else { return };
    let room = context.pool().get::<AtomicU32>(PoolAddr(owner.room.get())).filter(|_| owner.room.get() != 0);
    if side == OWNER_OUTPUT && room.is_some_and(|wanted| wanted.swap(0, Ordering::SeqCst) == 0) {
        return;
    }
    mark(context, owner, side);
    context.owner_told();
}

/// Something has come at these sides of an owner's file. Whether the caller has pushed it.
fn mark(context: &impl Context, owner: &'static OwnerRecord, sides: u32) -> bool {
    owner.sides.fetch_or(sides, Ordering::SeqCst);
    let is_first = owner.in_stack.swap(1, Ordering::SeqCst) == 0;
    if is_first {
        push(context, owner);
    }
    is_first
}

fn push(context: &impl Context, owner: &'static OwnerRecord) {
    let stack = &context.pool().header().owners_told;
    let mut head = stack.load(Ordering::Relaxed);
    loop {
        owner.next.set(head);
        match stack.compare_exchange_weak(head, context.raw(owner), Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return,
            Err(found) => head = found,
        }
    }
}

/// Takes an owner off the stack, and at which sides something has come. The header's `epoll_lock` is held: so nobody else takes one, and what is below the
/// first stays there.
pub fn take(context: &impl Context) -> Option<(&'static OwnerRecord, u32)> {
    let stack = &context.pool().header().owners_told;
    loop {
        let head = stack.load(Ordering::SeqCst);
        let owner = context.object::<OwnerRecord>(head)?;
        if stack.compare_exchange(head, owner.next.get(), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            owner.in_stack.store(0, Ordering::Release);
            then_look(); // at what wakers say of it that see it on the stack
            return Some((owner, owner.sides.swap(0, Ordering::SeqCst)));
        }
    }
}

/// Cores have died, of which any may have been about to push an owner, or to send its signal: all that are told are told once more. Every core that lives has
/// passed, and the header's `epoll_lock` is held.
pub fn settle(context: &impl Context) {
    let is_told = |owner: &&'static OwnerRecord| owner.is_on.get() != 0 || owner.in_stack.load(Ordering::SeqCst) != 0;
    for owner in slab::all::<OwnerRecord>(context).filter(is_told) {
        let has_node = |node: &&WaitNode| node.queue.load(Ordering::Relaxed) != 0;
        let sides = owner.nodes.iter().filter(has_node).fold(0, |sides, node| sides | node.bits.get());
        if mark(context, owner, sides) {
            continue;
        }
        // A living core that has said that it pushes it does so under the lock of one of its queues.
        owner
            .nodes
            .iter()
            .filter_map(|node| queue::of(context, node))
            .for_each(|queue| drop(lock(context, &queue.lock)));
        if !is_on_stack(context, owner) {
            push(context, owner);
        }
    }
    context.owner_told();
}

fn is_on_stack(context: &impl Context, wanted: &OwnerRecord) -> bool {
    let first = context.object::<OwnerRecord>(context.pool().header().owners_told.load(Ordering::SeqCst));
    core::iter::successors(first, |owner| context.object(owner.next.get())).any(|owner| core::ptr::eq(owner, wanted))
}
