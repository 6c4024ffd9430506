//! Interest lists (`epoll`): a file that changes tells the lists that watch it that it has changed.
//!
//! The watches of a file are a [search tree](crate::treap) by list and descriptor.
//!
//! A watch (a file in a list) has a node in each queue of its file that brings events which it asks for, as long as it exists. A waker of
//! such a queue leaves the node there, pushes the watch onto its list's *ready list*, a stack, and wakes the threads that wait for the list.
//! Whoever looks through a list takes that stack ([`take_ready`]) and asks the files of the watches on it. So files
//! without events cost nothing.
//!
//! A watch counts as off the stack before its file is asked. An earlier change is then seen; a later one
//! pushes the watch again.
//!
//! Protocol page: `docs/protocols/wake-up.md`.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{
    CoreId, EpollRecord, FileRecord, NODE_BELL, NODE_WATCH, TreeLinks, WaitNode, WaitQueue, WatchRecord, in_order,
};

use crate::{
    Context, queue, slab,
    treap::{Tree, TreeNode},
};

impl TreeNode for WatchRecord {
    fn links(&self) -> &TreeLinks {
        &self.links
    }

    fn is_before(&self, other: &Self) -> bool {
        key(self) < key(other)
    }
}

/// What tells the watches of a file apart.
fn key(watch: &WatchRecord) -> (u64, u32) {
    (watch.list.get(), watch.fd.get())
}

/// The watches of a file, of all lists. The header's `epoll_lock` is held.
pub fn of_file<'a, C: Context>(context: &'a C, file: &'static FileRecord) -> Tree<'a, C, WatchRecord> {
    Tree::new(context, &file.watches)
}

/// The watch of a file in a list, added under a descriptor.
pub fn find(
    context: &impl Context,
    file: &'static FileRecord,
    list: &'static EpollRecord,
    fd: u32,
) -> Option<&'static WatchRecord> {
    let wanted = (context.raw(list), fd);
    of_file(context, file).first_from(|watch| key(watch) < wanted).filter(|watch| key(watch) == wanted)
}

/// Enters a watch, whose list and descriptor are set, among those of its file. It says first that it is there.
pub fn enter_file(context: &impl Context, file: &'static FileRecord, watch: &'static WatchRecord) {
    in_order();
    watch.file.set(context.raw(file));
    in_order();
    of_file(context, file).insert(watch);
}

/// Takes a watch out of those of its file, among which it is.
pub fn leave_file(context: &impl Context, file: &'static FileRecord, watch: &'static WatchRecord) {
    of_file(context, file).remove(watch);
    in_order();
    watch.file.set(0);
    in_order();
}

/// Repairs the watches of a file, among which a dead core was changing one. Which there are they say themselves.
pub fn recover_file(context: &impl Context, file: &'static FileRecord) {
    file.watches.set(0);
    let (raw, watches) = (context.raw(file), of_file(context, file));
    slab::all::<WatchRecord>(context).filter(|watch| watch.file.get() == raw).for_each(|watch| watches.insert(watch));
}

/// Puts a watch into a queue of its file, whose wake-ups count if the watch asks for any of `events`. `side`: which of
/// its nodes to use.
pub fn enter(context: &impl Context, watch: &'static WatchRecord, side: usize, queue: &'static WaitQueue, events: u32) {
    queue::enter(context, queue, &watch.nodes[side], NODE_WATCH, context.raw(watch), events);
}

/// Puts a watch, which is of no file and in no list, into a queue: who wakes that rings a core, once until the core [has looked](take_stroke).
pub fn enter_bell(
    context: &impl Context,
    watch: &'static WatchRecord,
    side: usize,
    queue: &'static WaitQueue,
    core: CoreId,
) {
    queue::enter(context, queue, &watch.nodes[side], NODE_BELL, context.raw(watch), u32::from(core.0) + 1);
}

/// A queue with a bell's node is woken. Its lock is held.
pub(crate) fn strike(context: &impl Context, node: &WaitNode) {
    let core = node.bits.get().checked_sub(1).and_then(CoreId::from_raw);
    if let (Some(watch), Some(core)) = (context.object::<WatchRecord>(node.thread.get()), core)
        && watch.in_ready.swap(1, Ordering::SeqCst) == 0
    {
        context.ring(core);
    }
}

/// Whether one of a bell's queues was woken. Its core looks at what they are about afterwards.
pub fn take_stroke(watch: &WatchRecord) -> bool {
    let is_struck = watch.in_ready.load(Ordering::Relaxed) != 0 && watch.in_ready.swap(0, Ordering::SeqCst) != 0;
    then_look();
    is_struck
}

/// Takes a watch out of its file's queues. Nobody puts it onto its list's stack afterwards.
pub fn leave(context: &impl Context, watch: &'static WatchRecord) {
    watch.nodes.iter().for_each(|node| queue::leave(context, node));
}

/// A queue with this node is woken. Its lock is held. The caller wakes those that wait for the list, which are the result.
pub(crate) fn tell(context: &impl Context, node: &WaitNode) -> Option<&'static WaitQueue> {
    let watch = context.object::<WatchRecord>(node.thread.get())?;
    let list = context.object::<EpollRecord>(watch.list.get())?;
    if watch.events.get() & node.bits.get() == 0 {
        return None;
    }
    if watch.in_ready.swap(1, Ordering::SeqCst) == 0 {
        let mut head = list.ready.load(Ordering::Relaxed);
        loop {
            watch.ready_next.set(head);
            match list.ready.compare_exchange_weak(head, context.raw(watch), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(found) => head = found,
            }
        }
    }
    Some(&list.waiters)
}

/// Takes all watches off a list's stack. Their files are asked afterwards. The list's lock is held.
pub fn take_ready(context: &impl Context, list: &'static EpollRecord, mut each: impl FnMut(&'static WatchRecord)) {
    let mut at = list.ready.swap(0, Ordering::SeqCst);
    while let Some(watch) = context.object::<WatchRecord>(at) {
        at = watch.ready_next.get();
        watch.in_ready.store(0, Ordering::Release);
        each(watch);
    }
    then_look();
}
