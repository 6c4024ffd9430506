//! Timers: the deadlines of each core, ordered, in the pool, so that any island can cancel a timer that another one has armed.
//!
//! They are a search tree by deadline, in which equal ones are in the order in which they were armed. A timer's priority, which is a hash of its address and
//! of the machine's seed, is less than that of the timer above it (a treap: Seidel and Aragon, Randomized Search Trees, 1996). So the tree is the same whatever
//! the order of arming, its depth grows with the logarithm of their number, and it is made anew from the timers alone when a core dies in the middle of a
//! change.

use motet_layout::sync::Ordering;

use motet_layout::{CoreId, CoreRecord, ProcessRecord, TimerNode, in_order};

use crate::{Context, cores::core_record, lock::lock, threads};

/// Arms a timer of this core (it must not be armed). The caller reprograms the core's timer afterwards.
pub fn arm(context: &impl Context, node: &'static TimerNode, deadline_ns: u64) {
    let record = context.own_record();
    let _guard = lock(context, &record.timer_lock);
    debug_assert!(node.core.load(Ordering::Relaxed) == 0);
    node.deadline_ns.set(deadline_ns);
    in_order();
    // First: `recover` goes by it.
    node.core.store(u32::from(context.core().0) + 1, Ordering::Release);
    Tree { context, record }.insert(node);
}

/// Disarms a timer, on whichever core it is armed. Does nothing when it is not.
pub fn disarm(context: &impl Context, node: &'static TimerNode) {
    loop {
        let armed_on = node.core.load(Ordering::Acquire);
        let Some(core) = armed_on.checked_sub(1).and_then(CoreId::from_raw) else { return };
        let record = core_record(context, core);
        let _guard = lock(context, &record.timer_lock);
        if node.core.load(Ordering::Relaxed) == armed_on {
            Tree { context, record }.disarm(node);
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
    let tree = Tree { context, record };
    let first = tree.first()?;
    if first.deadline_ns.get() > now_ns {
        return None;
    }
    if act(first) {
        tree.disarm(first);
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
    let (from, to) = (Tree { context, record: own }, Tree { context, record: other });
    while let Some(node) = from.first() {
        from.remove(node);
        in_order();
        node.core.store(u32::from(target.0) + 1, Ordering::Release);
        to.insert(node);
    }
    from.publish_first();
}

/// Disarms a timer without a look whether it is still armed: for models, in which that must be caught.
#[cfg(motet_model)]
pub fn disarm_without_look(context: &impl Context, core: CoreId, node: &'static TimerNode) {
    let record = core_record(context, core);
    let _guard = lock(context, &record.timer_lock);
    Tree { context, record }.disarm(node);
}

/// How many timers are above each other at most in a core's tree: what arming and disarming take grows with it. For tests.
pub fn depth(context: &impl Context, core: CoreId) -> usize {
    let (mut deepest, mut open) = (0, Some((core_record(context, core).timer_root.get(), 1)));
    // Down to the left, and back up from there, without memory of its own.
    let mut from = 0;
    while let Some((at, depth)) = open.take() {
        let Some(node) = context.object::<TimerNode>(at) else { break };
        deepest = deepest.max(depth);
        let (left, right, above) = (node.left.get(), node.right.get(), node.above.get());
        let next = match from {
            from if from != 0 && from == right => (above, depth - 1),
            from if from != 0 && from == left && right != 0 => (right, depth + 1),
            from if from != 0 && from == left => (above, depth - 1),
            _ if left != 0 => (left, depth + 1),
            _ if right != 0 => (right, depth + 1),
            _ => (above, depth - 1),
        };
        from = at;
        open = Some(next);
    }
    deepest
}

/// The timers of a core, whose lock is held.
struct Tree<'a, C: Context> {
    context: &'a C,
    record: &'static CoreRecord,
}

impl<C: Context> Tree<'_, C> {
    fn node(&self, raw: u64) -> Option<&'static TimerNode> {
        self.context.object(raw)
    }

    /// The timer that expires first.
    fn first(&self) -> Option<&'static TimerNode> {
        let mut first = self.node(self.record.timer_root.get())?;
        while let Some(earlier) = self.node(first.left.get()) {
            first = earlier;
        }
        Some(first)
    }

    /// Puts a timer behind those that are not later.
    fn insert(&self, node: &'static TimerNode) {
        let deadline_ns = node.deadline_ns.get();
        let (mut above, mut place) = (None::<&'static TimerNode>, &self.record.timer_root);
        while let Some(at) = self.node(place.get()) {
            above = Some(at);
            place = if deadline_ns < at.deadline_ns.get() { &at.left } else { &at.right };
        }
        node.left.set(0);
        node.right.set(0);
        node.above.set(above.map_or(0, |above| self.context.raw(above)));
        place.set(self.context.raw(node));
        let first_ns = &self.record.timer_deadline_ns;
        if above.is_none() || deadline_ns < first_ns.load(Ordering::Relaxed) {
            first_ns.store(deadline_ns, Ordering::Relaxed);
        }
        let priority = self.priority(node);
        while let Some(above) = self.node(node.above.get()).filter(|above| self.priority(above) < priority) {
            self.lift(node, above);
        }
    }

    /// Takes a timer out, and says so.
    fn disarm(&self, node: &'static TimerNode) {
        self.remove(node);
        node.core.store(0, Ordering::Release);
        self.publish_first();
    }

    /// Takes a timer out of the tree.
    fn remove(&self, node: &'static TimerNode) {
        let below = loop {
            match (self.node(node.left.get()), self.node(node.right.get())) {
                (Some(left), Some(right)) => {
                    let is_left = self.priority(left) > self.priority(right);
                    self.lift(if is_left { left } else { right }, node);
                }
                (left, right) => break left.or(right),
            }
        };
        self.replace(node, below.map_or(0, |below| self.context.raw(below)));
        if let Some(below) = below {
            below.above.set(node.above.get());
        }
    }

    /// Lets a timer and the one above it change places; all stay in order.
    fn lift(&self, node: &'static TimerNode, above: &'static TimerNode) {
        let (raw, raw_above) = (self.context.raw(node), self.context.raw(above));
        let is_left = above.left.get() == raw;
        let (from, to) = if is_left { (&node.right, &above.left) } else { (&node.left, &above.right) };
        let between = from.get();
        self.replace(above, raw);
        node.above.set(above.above.get());
        to.set(between);
        if let Some(between) = self.node(between) {
            between.above.set(raw_above);
        }
        from.set(raw_above);
        above.above.set(raw);
    }

    /// Has who names a timer from above name another one.
    fn replace(&self, node: &'static TimerNode, by: u64) {
        match self.node(node.above.get()) {
            Some(above) if above.left.get() == self.context.raw(node) => above.left.set(by),
            Some(above) => above.right.set(by),
            None => self.record.timer_root.set(by),
        }
    }

    fn priority(&self, node: &'static TimerNode) -> u64 {
        let mixed = (self.context.raw(node) ^ self.context.pool().header().seed[0].get()).wrapping_mul(MIX);
        (mixed ^ mixed >> 32).wrapping_mul(MIX)
    }

    fn publish_first(&self) {
        let first_ns = self.first().map_or(u64::MAX, |first| first.deadline_ns.get());
        self.record.timer_deadline_ns.store(first_ns, Ordering::Relaxed);
    }
}

/// Odd, with bits as if by chance: 2^64 by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Repairs a core's timers whose lock a dead core held and this one has now. Which timers are there they say themselves, and the tree is made anew of them. One
/// that was just put in, or taken out, is in it again; equal ones may have another order.
pub(crate) fn recover(context: &impl Context, core: CoreId) {
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
    };
    record.timer_root.set(0);
    // One that is above itself is not in the tree yet.
    of_this_core(&|node| node.above.set(context.raw(node)));
    let tree = Tree { context, record };
    of_this_core(&|node| {
        if node.above.get() == context.raw(node) {
            tree.insert(node);
        }
    });
    tree.publish_first();
}
