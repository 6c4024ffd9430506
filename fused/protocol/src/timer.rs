//! Timers: the deadlines of each core, ordered, in the pool, so that any island can cancel a timer that another one has armed.
//!
//! They are a [search tree](crate::treap) by deadline, in which equal ones are in the order in which they were armed.

use motet_layout::sync::Ordering;

use motet_layout::{CoreId, CoreRecord, PosixTimerRecord, ProcessRecord, TimerNode, TreeLinks, in_order};

use crate::{
    Context,
    cores::core_record,
    lock::lock,
    threads,
    treap::{Tree, TreeNode},
};

/// Arms a timer of this core (it must not be armed). The caller reprograms the core's timer afterwards.
pub fn arm(context: &impl Context, node: &'static TimerNode, deadline_ns: u64) {
    let record = context.own_record();
    let _guard = lock(context, &record.timer_lock);
    debug_assert!(node.core.load(Ordering::Relaxed) == 0);
    node.deadline_ns.set(deadline_ns);
    in_order();
    // First: `recover` goes by it.
    node.core.store(u32::from(context.core().0) + 1, Ordering::Release);
    insert(context, record, node);
}

/// Disarms a timer, on whichever core it is armed. Does nothing when it is not.
pub fn disarm(context: &impl Context, node: &'static TimerNode) {
    loop {
        let armed_on = node.core.load(Ordering::Acquire);
        let Some(core) = armed_on.checked_sub(1).and_then(CoreId::from_raw) else { return };
        let record = core_record(context, core);
        let _guard = lock(context, &record.timer_lock);
        if node.core.load(Ordering::Relaxed) == armed_on {
            take_out(context, record, node);
            return;
        }
    }
}

/// Takes the first timer of this core that has expired at `now_ns`.
pub fn take_expired(context: &impl Context, now_ns: u64) -> Option<&'static TimerNode> {
    expire_first(context, now_ns, |_| true)
}

/// Lets the first timer of this core that has expired at `now_ns` act; returns it. It is disarmed if `act` says so.
///
/// `act` runs under the core's lock of timers and before the timer is disarmed: whoever disarms it at the same time waits until it
/// has acted, so it never acts on an owner that has gone on to something else.
pub fn expire_first(
    context: &impl Context,
    now_ns: u64,
    act: impl FnOnce(&'static TimerNode) -> bool,
) -> Option<&'static TimerNode> {
    let record = context.own_record();
    if record.timer_deadline_ns.load(Ordering::Relaxed) > now_ns || record.timer_root.get() == 0 {
        return None;
    }
    let _guard = lock(context, &record.timer_lock);
    let first = tree(context, record).first()?;
    if first.deadline_ns.get() > now_ns {
        return None;
    }
    if act(first) {
        take_out(context, record, first);
    }
    Some(first)
}

/// The earliest deadline of this core, `u64::MAX` when there is none.
pub fn next_deadline_ns(context: &impl Context) -> u64 {
    let record = context.own_record();
    if record.timer_root.get() == 0 { u64::MAX } else { record.timer_deadline_ns.load(Ordering::Relaxed) }
}

/// Moves all timers of this core to another one, which is to reprogram its timer afterwards. Both locks are held, so that whoever
/// disarms one meanwhile finds it with either.
pub fn move_all(context: &impl Context, target: CoreId) {
    let (own, other) = (context.own_record(), core_record(context, target));
    if own.timer_root.get() == 0 || target == context.core() {
        return;
    }
    let (first, second) = if context.core() < target { (own, other) } else { (other, own) };
    let _first = lock(context, &first.timer_lock);
    let _second = lock(context, &second.timer_lock);
    let from = tree(context, own);
    while let Some(node) = from.first() {
        from.remove(node);
        in_order();
        node.core.store(u32::from(target.0) + 1, Ordering::Release);
        insert(context, other, node);
    }
    publish_first(context, own);
}

/// Disarms a timer without a look whether it is still armed: for models, in which that must be caught.
#[cfg(motet_model)]
pub fn disarm_without_look(context: &impl Context, core: CoreId, node: &'static TimerNode) {
    let record = core_record(context, core);
    let _guard = lock(context, &record.timer_lock);
    take_out(context, record, node);
}

/// How many timers are above each other at most in a core's tree: what arming and disarming take grows with it. For tests.
pub fn depth(context: &impl Context, core: CoreId) -> usize {
    tree(context, core_record(context, core)).depth()
}

impl TreeNode for TimerNode {
    fn links(&self) -> &TreeLinks {
        &self.links
    }

    fn is_before(&self, other: &Self) -> bool {
        self.deadline_ns.get() < other.deadline_ns.get()
    }
}

impl TreeNode for PosixTimerRecord {
    fn links(&self) -> &TreeLinks {
        &self.links
    }

    fn is_before(&self, other: &Self) -> bool {
        self.id.get() < other.id.get()
    }
}

/// The timers that a process has made, by id. The tree lock is held.
pub fn of_process<'a, C: Context>(context: &'a C, process: &'a ProcessRecord) -> Tree<'a, C, PosixTimerRecord> {
    Tree::new(context, &process.timers)
}

/// The timers of a core, whose lock is held.
fn tree<'a, C: Context>(context: &'a C, record: &'static CoreRecord) -> Tree<'a, C, TimerNode> {
    Tree::new(context, &record.timer_root)
}

/// Puts a timer behind those that are not later.
fn insert(context: &impl Context, record: &'static CoreRecord, node: &'static TimerNode) {
    let (deadline_ns, first_ns) = (node.deadline_ns.get(), &record.timer_deadline_ns);
    if record.timer_root.get() == 0 || deadline_ns < first_ns.load(Ordering::Relaxed) {
        first_ns.store(deadline_ns, Ordering::Relaxed);
    }
    tree(context, record).insert(node);
}

/// Takes a timer out, and says so.
fn take_out(context: &impl Context, record: &'static CoreRecord, node: &'static TimerNode) {
    tree(context, record).remove(node);
    node.core.store(0, Ordering::Release);
    publish_first(context, record);
}

fn publish_first(context: &impl Context, record: &'static CoreRecord) {
    let first_ns = tree(context, record).first().map_or(u64::MAX, |first| first.deadline_ns.get());
    record.timer_deadline_ns.store(first_ns, Ordering::Relaxed);
}

/// Repairs a core's timers whose lock a dead core held and this one has now. Which timers are there they say themselves, and the tree is made anew of them. One
/// that was just put in, or taken out, is in it again; equal ones may have another order. `more`: timers besides those of threads and processes.
pub(crate) fn recover<I: Iterator<Item = &'static TimerNode>>(
    context: &impl Context,
    core: CoreId,
    more: impl Fn() -> I,
) {
    let record = core_record(context, core);
    let of_this_core = |act: &dyn Fn(&'static TimerNode)| {
        let look = |node: &'static TimerNode| {
            if node.core.load(Ordering::Relaxed) == u32::from(core.0) + 1 {
                act(node);
            }
        };
        for thread in threads::table(context) {
            look(&thread.timer);
            if let Some(process) = context.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed)) {
                look(&process.alarm); // once for each of its threads
            }
        }
        more().for_each(look);
    };
    record.timer_root.set(0);
    // One that is above itself is not in the tree yet.
    of_this_core(&|node| node.links.above.set(context.raw(node)));
    of_this_core(&|node| {
        if node.links.above.get() == context.raw(node) {
            insert(context, record, node);
        }
    });
    publish_first(context, record);
}
