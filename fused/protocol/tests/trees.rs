//! Trees of objects find what a list of the same objects has, in its order, and are made anew from the objects alone.

mod files_support;

use std::{collections::BTreeMap, ops::ControlFlow};

use files_support::Actor;
use motet_layout::{
    EpollRecord, FileRecord, InodeRecord, ProcessRecord, RangeRecord, SocketRecord, TimerNode, WatchRecord,
    sync::Ordering,
};
use motet_protocol::{
    Context, bound, groups, ranges,
    recover::recover,
    slab::{self, SlabObject},
    treap::Tree,
    watch,
};
use proptest::prelude::*;

const POOL: u64 = 32 << 20;

fn actor() -> Actor {
    let actor = Actor::new(POOL).on_core(0);
    actor.pool().header().seed[0].set(0x1234_5678_9abc_def0);
    actor
}

fn make<T: SlabObject>(actor: &Actor) -> &'static T {
    slab::alloc(actor).unwrap()
}

/// Enters a socket under a name; with an inode that is not 0, under that.
fn bind(actor: &Actor, inode: u64, name: &[u8]) -> &'static SocketRecord {
    bind_to(actor, 0, inode, name)
}

/// As `bind`, of a protocol.
fn bind_to(actor: &Actor, protocol: u32, inode: u64, name: &[u8]) -> &'static SocketRecord {
    let socket: &SocketRecord = make(actor);
    socket.protocol.set(protocol);
    for (cell, &byte) in socket.name.iter().zip(name) {
        cell.store(byte, Ordering::Relaxed);
    }
    socket.name_len.set(name.len() as u32);
    socket.inode.set(inode);
    bound::enter(actor, socket);
    socket
}

/// What a core leaves that dies in the middle of a change.
fn damage(actor: &Actor) {
    let header = actor.pool().header();
    if let Some(top) = actor.object::<SocketRecord>(header.bound_sockets.get()) {
        top.links.left.set(0);
        top.links.above.set(actor.raw(top));
    }
    header.bound_sockets.set(0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn sockets_are_found_by_their_names(steps in prop::collection::vec((0..6_u8, 0..4_u64, "\0[ab]{0,3}"), 0..200)) {
        let actor = actor();
        let mut all: BTreeMap<(u64, String), &'static SocketRecord> = BTreeMap::new();
        for (step, inode, name) in steps {
            // Who connects may use another path than who has bound the socket.
            let key = (inode * 64, if inode == 0 { name.clone() } else { String::new() });
            let found = bound::find(&actor, 0, inode * 64, name.as_bytes());
            prop_assert_eq!(found.map(|found| actor.raw(found)), all.get(&key).map(|known| actor.raw(*known)));
            match (step, all.get(&key).copied()) {
                (0..=3, None) => _ = all.insert(key, bind(&actor, inode * 64, name.as_bytes())),
                (4, Some(socket)) => {
                    bound::leave(&actor, socket);
                    all.remove(&key);
                    slab::free(&actor, socket);
                }
                (5, _) => {
                    damage(&actor);
                    let lock = actor.pool().addr_of(&actor.pool().header().socket_lock);
                    prop_assert!(recover(&actor, motet_layout::LockClass::Bound, lock));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn sockets_of_one_name_are_next_to_each_other(
        steps in prop::collection::vec((0..6_u8, 0..3_u32, "[ab]{2}"), 0..200),
    ) {
        let actor = actor();
        let mut all: Vec<(u32, String, &'static SocketRecord)> = Vec::new();
        for (step, protocol, name) in steps {
            let mut found = Vec::new();
            bound::look_from(&actor, protocol, name.as_bytes(), |socket| {
                found.push(actor.raw(socket));
                ControlFlow::Continue(())
            });
            // Equal ones stay in the order in which they were entered.
            all.sort_by(|one, two| (one.0, &one.1).cmp(&(two.0, &two.1)));
            let known = all.iter().filter(|(own, text, _)| *own == protocol && *text >= name);
            prop_assert_eq!(found, known.map(|(_, _, socket)| actor.raw(*socket)).collect::<Vec<_>>());
            match step {
                0..=3 => all.push((protocol, name.clone(), bind_to(&actor, protocol, 0, name.as_bytes()))),
                _ => if let Some(place) = all.iter().position(|(own, text, _)| (*own, text) == (protocol, &name)) {
                    let (_, _, socket) = all.remove(place);
                    bound::leave(&actor, socket);
                    slab::free(&actor, socket);
                }
            }
        }
    }

    #[test]
    fn members_of_groups_are_found(steps in prop::collection::vec((0..3_u8, 0..30_usize, 1..6_u32), 0..200)) {
        let actor = actor();
        let processes: Vec<&'static ProcessRecord> = (0..30).map(|_| make(&actor)).collect();
        let mut all: BTreeMap<usize, u32> = BTreeMap::new();
        for (step, index, group) in steps {
            match (step, all.contains_key(&index)) {
                (0, false) => {
                    processes[index].pid.set(index as u32 + 1);
                    processes[index].pgid.store(group, Ordering::Relaxed);
                    groups::enter(&actor, processes[index]);
                    all.insert(index, group);
                }
                (1, true) => {
                    groups::change(&actor, processes[index], group);
                    all.insert(index, group);
                }
                (2, true) => {
                    groups::leave(&actor, processes[index]);
                    all.remove(&index);
                }
                _ => {}
            }
            let members: Vec<u32> =
                all.iter().filter(|(_, of)| **of == group).map(|(index, _)| *index as u32 + 1).collect();
            let mut found = Vec::new();
            groups::for_each(&actor, group, |process| found.push(process.pid.get()));
            prop_assert_eq!(&found, &members);
            prop_assert_eq!(groups::any(&actor, group).is_some(), !members.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ranges_that_meet_others_are_found(steps in prop::collection::vec((0..4_u8, 0..40_usize, 0..60_u64, 0..12_u64), 0..200)) {
        let actor = actor();
        let inode: &InodeRecord = make(&actor);
        let records: Vec<&'static RangeRecord> = (0..40).map(|_| make(&actor)).collect();
        let mut all: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for (step, index, start, len) in steps {
            let (range, end) = (records[index], start + len);
            match (step, all.contains_key(&index)) {
                (0, false) => {
                    range.start.set(start);
                    range.end.set(end);
                    ranges::enter(&actor, inode, range);
                    all.insert(index, (start, end));
                }
                (1, true) => {
                    ranges::leave(&actor, inode, range);
                    all.remove(&index);
                }
                (2, true) => {
                    ranges::resize(&actor, inode, range, start, end);
                    all.insert(index, (start, end));
                }
                (3, true) => {
                    inode.ranges.set(0);
                    let lock = actor.pool().addr_of(&inode.lock);
                    prop_assert!(recover(&actor, motet_layout::LockClass::Inode, lock));
                }
                _ => {}
            }
            let mut wanted: Vec<(u64, u64)> =
                all.values().copied().filter(|range| range.0 <= end && start <= range.1).collect();
            wanted.sort_unstable();
            let found = std::iter::successors(ranges::first(&actor, inode, start, end), |range| {
                ranges::next(&actor, range, start, end)
            });
            let mut found: Vec<(u64, u64)> = found.map(|range| (range.start.get(), range.end.get())).collect();
            prop_assert!(found.is_sorted_by_key(|range| range.0));
            found.sort_unstable();
            prop_assert_eq!(found, wanted);
            prop_assert_eq!(inode.range_count.get() as usize, all.len());
        }
    }
}

/// A file's watches are found by list and descriptor; if a core dies with one half in the tree, the others are found, and that one can be removed.
#[test]
fn watches_of_a_file_are_found() {
    let actor = actor();
    let file: &FileRecord = make(&actor);
    let lists: Vec<&'static EpollRecord> = (0..3).map(|_| make(&actor)).collect();
    let mut watches = Vec::new();
    for (index, list) in lists.iter().enumerate() {
        for fd in 0..100 {
            let watch: &WatchRecord = make(&actor);
            watch.list.set(actor.raw(*list));
            watch.fd.set(fd * 7 % 100);
            if index != 2 || fd != 99 {
                watch::enter_file(&actor, file, watch);
            } else {
                watch.file.set(actor.raw(file)); // the core dies
                watch::recover_file(&actor, file);
            }
            watches.push((*list, watch));
        }
    }
    for (index, (list, watch)) in watches.iter().enumerate() {
        let found = watch::find(&actor, file, list, watch.fd.get()).expect("it is there");
        assert!(std::ptr::eq(found, *watch));
        if index % 2 == 0 {
            watch::leave_file(&actor, file, watch);
            assert!(watch::find(&actor, file, list, watch.fd.get()).is_none());
        }
    }
    assert_eq!(watch::of_file(&actor, file).from(watch::of_file(&actor, file).first()).count(), 150);
    // One that has left, and was not freed, does not come back.
    watch::recover_file(&actor, file);
    assert_eq!(watch::of_file(&actor, file).from(watch::of_file(&actor, file).first()).count(), 150);
}

#[test]
fn equals_are_in_the_order_in_which_they_were_entered() {
    let actor = actor();
    let processes: Vec<&'static ProcessRecord> = (0..50).map(|_| make(&actor)).collect();
    let root = motet_layout::Cell64::default();
    let tree: Tree<_, TimerNode> = Tree::new(&actor, &root);
    processes.iter().for_each(|process| tree.insert(&process.alarm));
    let found: Vec<u64> = tree.from(tree.first()).map(|node| actor.raw(node)).collect();
    assert_eq!(found, processes.iter().map(|process| actor.raw(&process.alarm)).collect::<Vec<u64>>());
}
