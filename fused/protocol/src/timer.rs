//! Timers: an ordered list of deadlines per core, in the pool, so that any island can cancel a timer that another one has armed.

use motet_layout::sync::Ordering;

use motet_layout::{CoreId, CoreRecord, PoolAddr, ProcessRecord, TimerNode, in_order};

use crate::{Context, cores::core_record, lock::lock, threads};

/// Arms a timer on this core's list (it must not be armed). The caller reprograms the core's timer afterwards.
pub fn arm(context: &impl Context, node: &'static TimerNode, deadline_ns: u64) {
    let record = context.own_record();
    let _guard = lock(context, &record.timer_lock);
    debug_assert!(node.core.load(Ordering::Relaxed) == 0);
    node.deadline_ns.set(deadline_ns);
    in_order();
    // First: `recover` goes by it.
    node.core.store(u32::from(context.core().0) + 1, Ordering::Release);
    insert_after(context, record, None, node);
    publish_first(context, record);
}

/// Disarms a timer, on whichever core it is armed. Does nothing when it is not.
pub fn disarm(context: &impl Context, node: &'static TimerNode) {
    loop {
        let armed_on = node.core.load(Ordering::Acquire);
        let Some(core) = armed_on.checked_sub(1).and_then(CoreId::from_raw) else { return };
        let record = core_record(context, core);
        let _guard = lock(context, &record.timer_lock);
        if node.core.load(Ordering::Relaxed) == armed_on {
            unlink(context, record, node);
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
/// `act` runs under the list's lock and before the timer is disarmed: whoever disarms it at the same time waits until it
/// has acted, so it never acts on an owner that has gone on to something else.
pub fn expire_first(
    context: &impl Context,
    now_ns: u64,
    act: impl FnOnce(&'static TimerNode) -> bool,
) -> Option<&'static TimerNode> {
    let record = context.own_record();
    if record.timer_deadline_ns.load(Ordering::Relaxed) > now_ns || record.timer_head.get() == 0 {
        return None;
    }
    let _guard = lock(context, &record.timer_lock);
    let first = context.object::<TimerNode>(record.timer_head.get())?;
    if first.deadline_ns.get() > now_ns {
        return None;
    }
    if act(first) {
        unlink(context, record, first);
    }
    Some(first)
}

/// The earliest deadline of this core, `u64::MAX` when there is none.
pub fn next_deadline_ns(context: &impl Context) -> u64 {
    let record = context.own_record();
    if record.timer_head.get() == 0 { u64::MAX } else { record.timer_deadline_ns.load(Ordering::Relaxed) }
}

/// Moves all timers of this core to another core's list, which is to reprogram its timer afterwards. Both lists are locked, so that whoever
/// disarms one meanwhile finds it in either.
pub fn move_all(context: &impl Context, target: CoreId) {
    let (own, other) = (context.own_record(), core_record(context, target));
    if own.timer_head.get() == 0 || target == context.core() {
        return;
    }
    let (first, second) = if context.core() < target { (own, other) } else { (other, own) };
    let _first = lock(context, &first.timer_lock);
    let _second = lock(context, &second.timer_lock);
    let mut before: Option<&'static TimerNode> = None;
    while let Some(node) = context.object::<TimerNode>(own.timer_head.get()) {
        own.timer_head.set(node.next.get());
        in_order();
        node.core.store(u32::from(target.0) + 1, Ordering::Release);
        before = Some(insert_after(context, other, before, node));
    }
    publish_first(context, own);
    publish_first(context, other);
}

/// Links a timer into a list by its deadline, behind `before`, whose deadline is not later.
fn insert_after(
    context: &impl Context,
    record: &CoreRecord,
    before: Option<&'static TimerNode>,
    node: &'static TimerNode,
) -> &'static TimerNode {
    let mut prev = before;
    let mut next = context.object::<TimerNode>(before.map_or(record.timer_head.get(), |before| before.next.get()));
    while let Some(later) = next.filter(|later| later.deadline_ns.get() <= node.deadline_ns.get()) {
        prev = Some(later);
        next = context.object(later.next.get());
    }
    node.next.set(next.map_or(0, |next| context.raw(next)));
    node.prev.set(prev.map_or(0, |prev| context.raw(prev)));
    let raw = context.raw(node);
    in_order();
    match prev {
        Some(prev) => prev.next.set(raw),
        None => record.timer_head.set(raw),
    }
    if let Some(next) = next {
        next.prev.set(raw);
    }
    node
}

fn unlink(context: &impl Context, record: &'static CoreRecord, node: &'static TimerNode) {
    match context.object::<TimerNode>(node.prev.get()) {
        Some(prev) => prev.next.set(node.next.get()),
        None => record.timer_head.set(node.next.get()),
    }
    if let Some(next) = context.object::<TimerNode>(node.next.get()) {
        next.prev.set(node.prev.get());
    }
    node.core.store(0, Ordering::Release);
    publish_first(context, record);
}

fn publish_first(context: &impl Context, record: &CoreRecord) {
    let first = context.object::<TimerNode>(record.timer_head.get());
    record.timer_deadline_ns.store(first.map_or(u64::MAX, |first| first.deadline_ns.get()), Ordering::Relaxed);
}

/// Repairs a core's list whose lock a dead core held and this one has now. Which timers are in it they say themselves; their order is that of
/// the links forward. One that was just linked, or taken out, is in it again.
pub(crate) fn recover(context: &impl Context, core: CoreId) {
    let record = core_record(context, core);
    let is_here = |node: &&'static TimerNode| node.core.load(Ordering::Relaxed) == u32::from(core.0) + 1;
    let at = |raw: u64| context.pool().get::<TimerNode>(PoolAddr(raw)).filter(is_here);
    let (mut last, mut next) = (0, record.timer_head.get());
    while let Some(node) = at(next) {
        node.prev.set(last);
        last = next;
        next = node.next.get();
    }
    match at(last) {
        Some(last) => last.next.set(0),
        None => record.timer_head.set(0),
    }
    let look = |node: &'static TimerNode| {
        let before = at(node.prev.get()).map_or(record.timer_head.get(), |before| before.next.get());
        if is_here(&node) && before != context.raw(node) {
            insert_after(context, record, None, node);
        }
    };
    for thread in threads::table(context) {
        look(&thread.timer);
        if let Some(process) = context.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed)) {
            look(&process.alarm);
        }
    }
    publish_first(context, record);
}
