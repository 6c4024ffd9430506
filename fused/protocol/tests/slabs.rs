//! Memory of objects goes back, whatever order they are freed in, and what is free and in use agrees with a list of what was given.

mod files_support;

use files_support::Actor;
use motet_layout::{EntryRecord, InodeRecord, PAGE_SIZE, RangeRecord, SlabCache, ThreadRecord};
use motet_protocol::{
    Context, memory,
    slab::{self, KEPT, RELEASED_AT_ONCE, RETURNED_AT_ONCE, SlabObject, alloc, free},
};
use proptest::prelude::*;

const POOL: u64 = 64 << 20;

fn cache<T: SlabObject>(actor: &Actor) -> &'static SlabCache {
    &actor.pool().header().slabs[T::CLASS]
}

/// Frames that are cut into objects of a type.
fn cut<T: SlabObject>(actor: &Actor) -> u32 {
    cache::<T>(actor).total.get() / (PAGE_SIZE as u32 / size_of::<T>() as u32)
}

/// Makes as many as fill so many frames, and frees them in an order; then only what a class keeps is left, whatever there was before.
fn all_go_back<T: SlabObject>(frames: usize, order: impl Fn(usize, usize) -> usize) {
    let actor = Actor::new(POOL);
    let count = frames * (PAGE_SIZE as usize / size_of::<T>());
    let objects: Vec<&'static T> = (0..count).map(|_| alloc(&actor).unwrap()).collect();
    assert_eq!(cut::<T>(&actor), frames as u32);
    let (free_before, _) = memory::usage(actor.pool());
    let mut is_free = vec![false; count];
    for step in 0..count {
        let index = order(step, count);
        assert!(!std::mem::replace(&mut is_free[index], true), "the order names one twice");
        free(&actor, objects[index]);
    }
    assert!(slab::has_retired(&actor), "nothing goes back");
    assert!(slab::return_retired(&actor, || false));
    assert_eq!((cache::<T>(&actor).in_use.get(), cut::<T>(&actor)), (0, KEPT));
    assert_eq!(memory::usage(actor.pool()).0, free_before + (frames as u64 - u64::from(KEPT)) * PAGE_SIZE);
    assert_eq!(actor.frames_in_use(), 0);
}

/// Who goes through all objects that are in use, in pieces, finds each of them once, and nothing else, also between others' frames.
#[test]
fn all_that_is_in_use_is_found_in_pieces() {
    let actor = Actor::new(POOL);
    let make = |_| {
        let _between: &EntryRecord = alloc(&actor).unwrap();
        alloc::<InodeRecord>(&actor).unwrap()
    };
    let all: Vec<_> = (0..1000).map(make).collect();
    let (mut wanted, mut steps) = (Vec::new(), 0);
    for (index, inode) in all.into_iter().enumerate() {
        match index % 7 {
            0 | 3 => free(&actor, inode),
            _ => wanted.push(actor.raw(inode)),
        }
    }
    let (mut found, mut at) = (Vec::new(), Some(0));
    while let Some(from) = at {
        let (one, next) = slab::look_from::<InodeRecord, u64>(&actor, from, |inode| Some(actor.raw(inode)));
        assert!(next.is_none_or(|next| next > from), "it goes on");
        found.extend(one);
        (at, steps) = (next, steps + 1);
    }
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    assert!(steps > found.len(), "what is between them is looked at in pieces, too: {steps}");
    let (none, _) = slab::look_from::<RangeRecord, u64>(&actor, 0, |range| Some(actor.raw(range)));
    assert_eq!(none, None);
}

#[test]
fn what_many_objects_took_goes_back_in_any_order() {
    // As they came, the other way round, and one of each frame after the other.
    all_go_back::<InodeRecord>(1000, |step, _| step);
    all_go_back::<EntryRecord>(1000, |step, count| count - 1 - step);
    all_go_back::<RangeRecord>(1000, |step, count| step % 1000 * 32 + step / 1000 % (count / 1000));
    all_go_back::<ThreadRecord>(1000, |step, _| step);
}

/// Who has something else to do leaves the rest, which its next call finds.
#[test]
fn giving_back_stops_for_what_is_due_and_goes_on_later() {
    let actor = Actor::new(POOL);
    let frames = 4 * RELEASED_AT_ONCE + KEPT;
    let count = frames as usize * (PAGE_SIZE as usize / size_of::<InodeRecord>());
    let inodes: Vec<&'static InodeRecord> = (0..count).map(|_| alloc(&actor).unwrap()).collect();
    let free_before = memory::usage(actor.pool()).0;
    inodes.into_iter().for_each(|inode| free(&actor, inode));
    let gone_back = || (memory::usage(actor.pool()).0 - free_before) / PAGE_SIZE;
    assert!(!slab::return_retired(&actor, || true), "all has gone back at once");
    assert_eq!(gone_back(), u64::from(RELEASED_AT_ONCE));
    assert!(slab::return_retired(&actor, || false), "the rest is forgotten");
    assert_eq!(gone_back(), u64::from(frames - KEPT));
    assert!(!slab::has_retired(&actor));
}

/// Who has left the rest may sleep for ever: another core goes on.
#[test]
fn giving_back_goes_on_elsewhere() {
    let actor = Actor::new(POOL);
    let count = (4 * RELEASED_AT_ONCE + KEPT) as usize * (PAGE_SIZE as usize / size_of::<ThreadRecord>());
    let threads: Vec<&'static ThreadRecord> = (0..count).map(|_| alloc(&actor).unwrap()).collect();
    threads.into_iter().for_each(|thread| free(&actor, thread));
    assert!(!slab::return_retired(&actor, || true), "all has gone back at once");
    let other = actor.on_core(0);
    assert!(slab::return_retired(&other, || false));
    let cache = cache::<ThreadRecord>(&other);
    assert_eq!((cache.waiting.get(), cache.retired.get(), other.frames_in_use()), (0, 0, 0), "the rest is forgotten");
}

/// Whoever looks while another core gives frames back leaves what was retired meanwhile to that one, which may have looked for it before: it is not forgotten.
#[test]
fn what_is_retired_while_frames_go_back_goes_back_too() {
    let actor = Actor::new(POOL);
    let other = actor.on_core(0);
    let per_frame = PAGE_SIZE as usize / size_of::<InodeRecord>();
    let count = (KEPT + 4 * RETURNED_AT_ONCE) as usize * per_frame;
    let mut inodes: Vec<&'static InodeRecord> = (0..count).map(|_| alloc(&actor).unwrap()).collect();
    let later = inodes.split_off(count - 2 * RETURNED_AT_ONCE as usize * per_frame);
    inodes.into_iter().for_each(|inode| free(&actor, inode));
    let mut later = later.into_iter();
    let meanwhile = || {
        later.by_ref().for_each(|inode| free(&other, inode));
        assert!(slab::return_retired(&other, || false));
        false
    };
    assert!(slab::return_retired(&actor, meanwhile));
    assert_eq!(cache::<InodeRecord>(&actor).retired_count.get(), 2 * RETURNED_AT_ONCE);
    assert!(slab::has_retired(&actor), "the rest is forgotten");
    assert!(slab::return_retired(&other, || false));
    assert_eq!((cache::<InodeRecord>(&actor).retired.get(), actor.frames_in_use()), (0, 0));
}

/// Whoever takes and gives back objects in turn takes and gives back no frames.
#[test]
fn taking_and_giving_back_in_turn_costs_no_frames() {
    let actor = Actor::new(POOL);
    let some: Vec<&'static ThreadRecord> = (0..40).map(|_| alloc(&actor).unwrap()).collect();
    some.into_iter().for_each(|thread| free(&actor, thread));
    slab::return_retired(&actor, || false);
    let before = (cut::<ThreadRecord>(&actor), cache::<ThreadRecord>(&actor).retired_count.get());
    for _ in 0..100 {
        let some: Vec<&'static ThreadRecord> = (0..KEPT).map(|_| alloc(&actor).unwrap()).collect();
        some.into_iter().for_each(|thread| free(&actor, thread));
    }
    assert_eq!((cut::<ThreadRecord>(&actor), cache::<ThreadRecord>(&actor).retired_count.get()), before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No object is given twice, new ones are zero, and frames are never more than what is in use needs by much.
    #[test]
    fn objects_are_given_once(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..3000)) {
        let actor = Actor::new(POOL);
        let mut given: Vec<&'static EntryRecord> = Vec::new();
        for (gives_back, which) in steps {
            if gives_back && !given.is_empty() {
                free(&actor, given.swap_remove(which.index(given.len())));
            } else {
                let entry: &'static EntryRecord = alloc(&actor).unwrap();
                prop_assert!(given.iter().all(|other| !std::ptr::eq(*other, entry)));
                prop_assert_eq!((entry.bucket_next.get(), entry.inode.get(), entry.position.get()), (0, 0, 0));
                for word in [&entry.bucket_next, &entry.inode, &entry.position] {
                    word.set(u64::MAX);
                }
                given.push(entry);
            }
            prop_assert_eq!(cache::<EntryRecord>(&actor).in_use.get() as usize, given.len());
        }
        given.into_iter().for_each(|entry| free(&actor, entry));
        slab::return_retired(&actor, || false);
        prop_assert!(cut::<EntryRecord>(&actor) <= KEPT);
    }
}
