//! Which thread of a core runs next: users share a core fairly, and one user's threads run by nice value.
//!
//! Ready threads stand in groups, one for each user who has any on this core. The next thread is the first of the group
//! whose user this core has served least. A user who comes back after a while begins at the level of those who are there
//! already, so nobody saves up time. However many threads a user has, another one's thread so waits for about as many time
//! slices as there are users. When there are more users than groups, those for whom there was no room share the last one.
//!
//! Within a group a thread stands before the first that is nicer; one that has used up its slice goes behind all.
//!
//! A core whose machine file says so has one group, and its threads stand in the order in which they came.
//!
//! All of it belongs to the core: nobody else reads or writes it, but for the number of threads.

use motet_layout::sync::Ordering;

use motet_layout::{CoreRecord, ProcessRecord, READY_GROUPS, ReadyGroup, ThreadRecord};

use crate::Context;

/// The group of all users for whom there is no other.
const SHARED: usize = READY_GROUPS - 1;

/// Where a thread goes among those of its user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Before the first that is nicer.
    ByNice,
    /// Behind all.
    Last,
}

/// Whether a core, which is this one, has ready threads.
#[inline(always)]
pub fn is_empty(record: &CoreRecord) -> bool {
    record.ready_mask.get() == 0
}

/// Adds a thread, whose state is [`THREAD_READY`](motet_layout::THREAD_READY).
pub fn add(context: &impl Context, record: &CoreRecord, thread: &'static ThreadRecord, place: Place) {
    let place = if record.first_come.get() == 0 { place } else { Place::Last };
    let index = group_for(context, record, thread);
    let group = &record.ready_groups[index];
    if record.ready_mask.get() >> index & 1 == 0 {
        catch_up(record, index);
        record.ready_mask.set(record.ready_mask.get() | 1 << index);
    }
    insert(context, group, thread, place);
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
        let group = record.ready_groups.get(index)?;
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

/// A thread is taken that has not been among the ready ones, of whom there are none.
#[inline]
pub fn take_past(context: &impl Context, record: &CoreRecord, thread: &ThreadRecord) {
    let index = group_for(context, record, thread);
    catch_up(record, index);
    record.ready_running.set(index as u32);
}

/// The core has served the thread that it [took](take) last for so long.
#[inline]
pub fn charge(record: &CoreRecord, ran_ns: u64) {
    if let Some(group) = record.ready_groups.get(record.ready_running.get() as usize) {
        group.served_ns.set(group.served_ns.get().saturating_add(ran_ns));
    }
}

/// The group for a thread.
#[inline(always)]
fn group_for(context: &impl Context, record: &CoreRecord, thread: &ThreadRecord) -> usize {
    if record.first_come.get() != 0 { SHARED } else { group_of(record, user_of(context, thread)) }
}

/// The group for a user's threads.
#[inline]
fn group_of(record: &CoreRecord, user: u32) -> usize {
    // Usually there is one user, and this is the first group.
    if let Some(own) = record.ready_groups[..SHARED].iter().position(|group| group.user.get() == user) {
        return own;
    }
    let running = record.ready_running.get() as usize;
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
    let busy = (record.ready_mask.get() | 1 << record.ready_running.get().min(31)) & !(1 << index);
    if busy == 0 {
        return;
    }
    let groups = record.ready_groups.iter().enumerate();
    let others = groups.filter(|(other, _)| busy >> other & 1 != 0).map(|(_, group)| group.served_ns.get());
    let own = &record.ready_groups[index].served_ns;
    if let Some(least) = others.min() {
        own.set(own.get().max(least));
    }
}

#[cold]
fn least_served(record: &CoreRecord, mask: u32) -> usize {
    let ready = (0..READY_GROUPS).filter(|index| mask >> index & 1 != 0);
    ready.min_by_key(|&index| record.ready_groups[index].served_ns.get()).unwrap_or(READY_GROUPS)
}

fn insert(context: &impl Context, group: &ReadyGroup, thread: &'static ThreadRecord, place: Place) {
    let nice = nice_of(thread);
    // Usually all are equally nice, and none is looked at.
    if place == Place::Last || group.first.get() == 0 || nice >= group.nice_max.get().cast_signed() {
        return append(context, group, thread);
    }
    let ready = |raw: u64| context.object::<ThreadRecord>(raw);
    let mut before: Option<&ThreadRecord> = None;
    let mut at = ready(group.first.get());
    while let Some(other) = at.filter(|other| nice_of(other) <= nice) {
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
    if group.first.get() == 0 || nice_of(thread) > group.nice_max.get().cast_signed() {
        group.nice_max.set(thread.nice.get());
    }
    match context.object::<ThreadRecord>(group.last.get()) {
        Some(last) => last.queue_next.store(raw, Ordering::Relaxed),
        None => group.first.set(raw),
    }
    group.last.set(raw);
}

fn nice_of(thread: &ThreadRecord) -> i32 {
    thread.nice.get().cast_signed()
}

/// The real user of a thread, plus 1; 0 is nobody, as in groups that no user has.
fn user_of(context: &impl Context, thread: &ThreadRecord) -> u32 {
    let process = context.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed));
    process.map_or(u32::MAX, |process| process.credentials.users[0].get()).wrapping_add(1)
}
