//! Which thread of a core runs next: users share a core fairly, and one user's threads run by nice value.
//!
//! Ready threads are in groups, one for each user who has any on this core. The next thread is the first of the group
//! whose user this core has served least. A user who comes back after a while begins at the level of those who are there
//! already, so nobody saves up time. So however many threads a user has, another user's thread waits for about as many time
//! slices as there are users. When there are more users than groups, those for whom there was no room share the last one.
//!
//! Within a group a thread stands before the first that is nicer; one that has used up its slice goes behind all.
//!
//! Threads of real-time policies ([`crate::schedule`]) have a group of their own, which comes before all others: by priority, and of
//! equals the one that has waited longest. A core may hold that group back for a while, so that others run, too.
//!
//! A core whose machine file says so has one group, and its threads stand in the order in which they came.
//!
//! The queue belongs to the core: no other core reads or writes it, except the number of threads.

use motet_layout::sync::Ordering;

use motet_layout::{CoreRecord, PENDING_HELD, ProcessRecord, READY_GROUPS, ReadyGroup, ThreadRecord};

use crate::{Context, schedule};

/// The group of all users for whom there is no other.
const SHARED: usize = READY_GROUPS - 1;
/// The group of real-time threads.
const REALTIME: usize = READY_GROUPS;
/// No group.
const NONE: usize = READY_GROUPS + 1;

/// Where a thread goes among those of its user, or among real-time ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// Before the first that is less urgent.
    ByRank,
    /// Before its equals: it has been interrupted by a more urgent one.
    First,
    /// Behind all of its user; a real-time one behind its equals.
    Last,
}

/// Whether a core, which is this one, has ready threads.
#[inline(always)]
pub fn is_empty(record: &CoreRecord) -> bool {
    record.ready_mask.get() == 0
}

/// Adds a thread, whose state is [`THREAD_READY`](motet_layout::THREAD_READY).
pub fn add(context: &impl Context, record: &CoreRecord, thread: &'static ThreadRecord, place: Position) {
    let place = if record.first_come.get() == 0 { place } else { Position::Last };
    let index = group_for(context, record, thread);
    let group = group(record, index).unwrap_or(&record.ready_realtime);
    if record.ready_mask.get() >> index & 1 == 0 {
        catch_up(record, index);
        record.ready_mask.set(record.ready_mask.get() | 1 << index);
    }
    insert(context, group, thread, place);
    record.ready_count.store(record.ready_count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// As [`add`], of a thread that was running, before its equals.
#[inline]
pub fn put_back(context: &impl Context, record: &CoreRecord, thread: &'static ThreadRecord) {
    let index = group_for(context, record, thread);
    let own = group(record, index).filter(|_| record.first_come.get() == 0);
    let Some(group) = own else { return add(context, record, thread, Position::First) };
    // Usually none of its group is more urgent.
    match context.object::<ThreadRecord>(group.first.get()) {
        Some(first) if rank_of(first) < rank_of(thread) => return add(context, record, thread, Position::First),
        Some(first) => {
            thread.queue_next.store(context.raw(first), Ordering::Relaxed);
            group.first.set(context.raw(thread));
        }
        None => {
            catch_up(record, index);
            record.ready_mask.set(record.ready_mask.get() | 1 << index);
            append(context, group, thread);
        }
    }
    record.ready_count.store(record.ready_count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Takes the next thread out, if there is one.
#[inline]
pub fn take(context: &impl Context, record: &CoreRecord) -> Option<&'static ThreadRecord> {
    loop {
        let mask = record.ready_mask.get();
        if mask == 0 {
            return None;
        }
        let index = if mask.is_power_of_two() { mask.trailing_zeros() as usize } else { least_served(record, mask) };
        let group = group(record, index)?;
        let first = context.object::<ThreadRecord>(group.first.get());
        let next = first.map_or(0, |thread| thread.queue_next.load(Ordering::Relaxed));
        group.first.set(next);
        if next == 0 {
            group.last.set(0);
            record.ready_mask.set(mask & !(1 << index));
        }
        if let Some(thread) = first {
            record.ready_count.store(record.ready_count.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
            record.ready_running.set(index as u32);
            return Some(thread);
        }
    }
}

/// The thread that [`take`] would take.
#[inline]
pub fn first(context: &impl Context, record: &CoreRecord) -> Option<&'static ThreadRecord> {
    let mask = record.ready_mask.get();
    let index = if mask.is_power_of_two() { mask.trailing_zeros() as usize } else { least_served(record, mask) };
    context.object(group(record, index).filter(|_| mask != 0)?.first.get())
}

/// The number of the group of the thread that the core has taken last.
#[inline(always)]
pub fn running_group(record: &CoreRecord) -> u32 {
    record.ready_running.get()
}

/// The core goes on with a thread of a group that it had taken before another one ([`running_group`]); no thread has been [added](add) since.
#[inline(always)]
pub fn run_again(record: &CoreRecord, group: u32) {
    record.ready_running.set(group);
}

/// Whether a thread of this group of ordinary threads, which is not in the queue, would be the next if it were [put back](put_back).
#[inline(always)]
pub fn comes_first(context: &impl Context, record: &CoreRecord, thread: &ThreadRecord, group: u32) -> bool {
    let mask = record.ready_mask.get();
    let is_urgent = |index| {
        // While the thread was not in the queue, another user may have been given its group.
        let is_own = group_for(context, record, thread) == index;
        let first = self::group(record, index).and_then(|group| context.object(group.first.get()));
        is_own && first.is_none_or(|first: &ThreadRecord| rank_of(first) >= rank_of(thread))
    };
    mask == 0 || mask == 1 << group && is_urgent(group as usize)
}

/// The thread that would be next if the running one, which is not in the queue, were [added](add) as [`Position::Last`]. `None`: there is none, or
/// others than ordinary threads of its user are ready.
#[inline(always)]
pub fn follower(context: &impl Context, record: &CoreRecord, running: &ThreadRecord) -> Option<&'static ThreadRecord> {
    let index = record.ready_running.get() as usize;
    let group = record.ready_groups.get(index)?;
    let is_alone = record.ready_mask.get() == 1 << index && record.first_come.get() == 0;
    // While the thread was not in the queue, another user may have been given its group.
    if is_alone && group_for(context, record, running) == index { context.object(group.first.get()) } else { None }
}

/// Puts the running thread behind all others, and takes its [follower](follower()).
#[inline(always)]
pub fn rotate(
    context: &impl Context,
    record: &CoreRecord,
    running: &'static ThreadRecord,
    follower: &'static ThreadRecord,
) {
    if let Some(group) = record.ready_groups.get(record.ready_running.get() as usize) {
        append(context, group, running);
        group.first.set(follower.queue_next.load(Ordering::Relaxed));
    }
}

/// Counts a thread as taken that has not been in the queue.
#[inline]
pub fn take_past(context: &impl Context, record: &CoreRecord, thread: &ThreadRecord) {
    let index = group_for(context, record, thread);
    catch_up(record, index);
    record.ready_running.set(index as u32);
}

/// Charges the time for which the core has run the thread that it [took](take) last.
#[inline]
pub fn charge(record: &CoreRecord, ran_ns: u64) {
    if let Some(group) = group(record, record.ready_running.get() as usize) {
        group.served_ns.set(group.served_ns.get().saturating_add(ran_ns));
    }
}

/// How long the core has run real-time threads, in nanoseconds.
pub fn realtime_ns(record: &CoreRecord) -> u64 {
    record.ready_realtime.served_ns.get()
}

/// The real-time thread that is to run next, unless they are held back.
#[inline]
pub fn first_realtime(context: &impl Context, record: &CoreRecord) -> Option<&'static ThreadRecord> {
    let waits = record.ready_mask.get() >> REALTIME & 1 != 0 && !is_held(record);
    if waits { context.object(record.ready_realtime.first.get()) } else { None }
}

/// Whether real-time threads are held back: they have run long enough in this period, and others come first.
#[inline]
pub fn is_held(record: &CoreRecord) -> bool {
    record.pending.load(Ordering::Relaxed) & PENDING_HELD != 0
}

/// Holds real-time threads of this core back, or no longer.
pub fn hold(record: &CoreRecord, holds: bool) {
    match (holds, is_held(record)) {
        (true, false) => record.pending.fetch_or(PENDING_HELD, Ordering::Relaxed),
        (false, true) => record.pending.fetch_and(!PENDING_HELD, Ordering::Relaxed),
        (true, true) | (false, false) => return,
    };
}

/// Whether threads without a real-time policy wait.
pub fn has_ordinary(record: &CoreRecord) -> bool {
    record.ready_mask.get() & !(1 << REALTIME) != 0
}

/// Takes all out and puts them in again, because what they are ordered by has changed.
#[cold]
pub fn sort(context: &impl Context, record: &CoreRecord) {
    let running = record.ready_running.get();
    let mut all = 0;
    while let Some(thread) = take(context, record) {
        thread.queue_next.store(all, Ordering::Relaxed);
        all = context.raw(thread);
        context.spend_locked(SORTED);
    }
    let mut oldest_first = 0;
    while let Some(thread) = context.object::<ThreadRecord>(all) {
        all = thread.queue_next.load(Ordering::Relaxed);
        thread.queue_next.store(oldest_first, Ordering::Relaxed);
        oldest_first = context.raw(thread);
    }
    while let Some(thread) = context.object::<ThreadRecord>(oldest_first) {
        oldest_first = thread.queue_next.load(Ordering::Relaxed);
        add(context, record, thread, Position::ByRank);
        context.spend_locked(SORTED);
    }
    record.ready_running.set(running);
}

/// What taking a thread out or putting it in again costs, in instructions.
const SORTED: u64 = 100;

/// A group by its number.
#[inline(always)]
fn group(record: &CoreRecord, index: usize) -> Option<&ReadyGroup> {
    record.ready_groups.get(index).or_else(|| (index == REALTIME).then_some(&record.ready_realtime))
}

/// The group for a thread.
#[inline(always)]
fn group_for(context: &impl Context, record: &CoreRecord, thread: &ThreadRecord) -> usize {
    if record.first_come.get() != 0 {
        SHARED
    } else if schedule::of(thread).is_realtime() {
        REALTIME
    } else {
        group_of(record, user_of(context, thread))
    }
}

/// The group for a user's threads.
#[inline]
fn group_of(record: &CoreRecord, user: u32) -> usize {
    // Usually it is whose thread has run last.
    let running = record.ready_running.get() as usize;
    if record.ready_groups[..SHARED].get(running).is_some_and(|group| group.user.get() == user) {
        return running;
    }
    if let Some(own) = record.ready_groups[..SHARED].iter().position(|group| group.user.get() == user) {
        return own;
    }
    let is_free = |index: usize| record.ready_groups[index].user.get() == 0 || index != running;
    let free = (0..SHARED).find(|&index| record.ready_mask.get() >> index & 1 == 0 && is_free(index));
    let index = free.unwrap_or(SHARED);
    if index != SHARED {
        let group = &record.ready_groups[index];
        group.user.set(user);
        group.served_ns.set(0);
    }
    index
}

/// A group that gets its first thread begins at the level of the least served among the others.
#[inline]
fn catch_up(record: &CoreRecord, index: usize) {
    let busy = (record.ready_mask.get() | 1 << record.ready_running.get().min(31)) & !(1 << index | 1 << REALTIME);
    if busy == 0 || index == REALTIME {
        return;
    }
    let groups = record.ready_groups.iter().enumerate();
    let others = groups.filter(|(other, _)| busy >> other & 1 != 0).map(|(_, group)| group.served_ns.get());
    if let (Some(own), Some(least)) = (record.ready_groups.get(index), others.min()) {
        own.served_ns.set(own.served_ns.get().max(least));
    }
}

#[cold]
fn least_served(record: &CoreRecord, mask: u32) -> usize {
    if mask >> REALTIME & 1 != 0 && !is_held(record) {
        return REALTIME;
    }
    let ready = (0..READY_GROUPS).filter(|index| mask >> index & 1 != 0);
    ready.min_by_key(|&index| record.ready_groups[index].served_ns.get()).unwrap_or(if mask >> REALTIME & 1 != 0 {
        REALTIME
    } else {
        NONE
    })
}

fn insert(context: &impl Context, group: &ReadyGroup, thread: &'static ThreadRecord, place: Position) {
    let rank = rank_of(thread);
    let goes_last = match place {
        Position::First => false,
        Position::ByRank => rank >= group.rank_max.get().cast_signed(),
        Position::Last => !schedule::of(thread).is_realtime() || rank >= group.rank_max.get().cast_signed(),
    };
    // Usually all are equally urgent, and none is looked at.
    if goes_last || group.first.get() == 0 {
        return append(context, group, thread);
    }
    let comes_before = |other: &&ThreadRecord| match place {
        Position::First => rank_of(other) < rank,
        Position::ByRank | Position::Last => rank_of(other) <= rank,
    };
    let ready = |raw: u64| context.object::<ThreadRecord>(raw);
    let mut before: Option<&ThreadRecord> = None;
    let mut at = ready(group.first.get());
    while let Some(other) = at.filter(comes_before) {
        before = Some(other);
        at = ready(other.queue_next.load(Ordering::Relaxed));
    }
    let Some(after) = at else { return append(context, group, thread) };
    thread.queue_next.store(context.raw(after), Ordering::Relaxed);
    match before {
        Some(before) => before.queue_next.store(context.raw(thread), Ordering::Relaxed),
        None => group.first.set(context.raw(thread)),
    }
}

fn append(context: &impl Context, group: &ReadyGroup, thread: &'static ThreadRecord) {
    let raw = context.raw(thread);
    thread.queue_next.store(0, Ordering::Relaxed);
    if group.first.get() == 0 || rank_of(thread) > group.rank_max.get().cast_signed() {
        group.rank_max.set(rank_of(thread).cast_unsigned());
    }
    match context.object::<ThreadRecord>(group.last.get()) {
        Some(last) => last.queue_next.store(raw, Ordering::Relaxed),
        None => group.first.set(raw),
    }
    group.last.set(raw);
}

/// The lower, the more urgent: the nice value, or what comes before all of these.
fn rank_of(thread: &ThreadRecord) -> i32 {
    schedule::of(thread).rank(thread.nice.get().cast_signed())
}

/// The real user of a thread, plus 1; 0 is nobody, as in groups that no user has.
fn user_of(context: &impl Context, thread: &ThreadRecord) -> u32 {
    let process = context.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed));
    process.map_or(u32::MAX, |process| process.credentials.users[0].get()).wrapping_add(1)
}
