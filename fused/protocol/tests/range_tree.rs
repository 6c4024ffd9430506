//! The tree of ranges against a `BTreeMap`: any sequence of operations has the same results and leaves a tree in which every
//! node is as full, every level as deep and every summary as exact as it must be; all nodes are given back in the end.

mod files_support;

use std::{collections::BTreeMap, ops::Bound};

use files_support::Actor;
use motet_layout::{Cell64, Frame, PoolAddr, RANGE_NODE, RANGE_NODE_SLOTS, RangeNode, SpaceRecord};
use motet_protocol::{
    Context,
    memory::{alloc_frame, release_frame},
    range_tree::{self, Entry, LEVELS_MAX, TreeError},
    slab,
};
use proptest::prelude::*;

const POOL_LEN: u64 = 32 << 20;

/// Addresses of the tests, in units that keep neighbours, gaps and overlaps all likely.
const UNITS: u64 = 600;

#[derive(Clone, Debug)]
enum Operation {
    Insert(u64, u64),
    Remove(u64),
    /// The n-th range: how far its start and its end move.
    Resize(usize, i64, i64),
    Gap(u64, u64, u64),
    /// From now on, or no longer, there is no memory for nodes.
    Exhaust(bool),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..UNITS, 1..4u64).prop_map(|(start, len)| Operation::Insert(start, start + len)),
        5 => (0..UNITS).prop_map(Operation::Remove),
        2 => (0..200usize, -2..3i64, -2..3i64).prop_map(|(nth, start, end)| Operation::Resize(nth, start, end)),
        2 => (1..30u64, 0..UNITS, 0..UNITS + 40).prop_map(|(len, floor, top)| Operation::Gap(len, floor, top)),
        1 => any::<bool>().prop_map(Operation::Exhaust),
    ]
}

/// What a tree should hold: by start, the end and the value.
type Model = BTreeMap<u64, (u64, u64)>;

/// A tree in a pool of its own, whose memory can be used up.
struct Tree {
    actor: Actor,
    space: &'static SpaceRecord,
    root: &'static Cell64,
    hoarded: Vec<Frame>,
    kept_nodes: Vec<&'static RangeNode>,
    is_exhausted: bool,
}

thread_local! {
    /// A pool for all trees that are left as they should be.
    static SHARED: Actor = Actor::new(POOL_LEN);
}

impl Tree {
    fn new(actor: Actor) -> Self {
        let space = slab::alloc::<SpaceRecord>(&actor).unwrap();
        Self { actor, space, root: &space.vma_root, hoarded: Vec::new(), kept_nodes: Vec::new(), is_exhausted: false }
    }

    fn exhaust(&mut self, on: bool) {
        if on {
            while let Some(frame) = alloc_frame(&self.actor) {
                self.hoarded.push(frame);
            }
            while let Some(node) = slab::alloc(&self.actor) {
                self.kept_nodes.push(node);
            }
        } else {
            // Enough for the largest tree of these tests.
            let few = self.hoarded.len().saturating_sub(64);
            self.hoarded.drain(few..).for_each(|frame| release_frame(&self.actor, frame));
            self.kept_nodes.drain(..).for_each(|node| slab::free(&self.actor, node));
        }
        self.is_exhausted = on;
    }

    /// Gives back everything but the tree's nodes.
    fn end(mut self) {
        self.exhaust(false);
        self.hoarded.drain(..).for_each(|frame| release_frame(&self.actor, frame));
        slab::free(&self.actor, self.space);
    }

    fn entries(&self) -> Vec<Entry> {
        let next = |last: &Entry| range_tree::first_ending_after(&self.actor, self.root, last.end);
        std::iter::successors(range_tree::first_ending_after(&self.actor, self.root, 0), next).collect()
    }

    /// Nodes of the tree, after checking each.
    fn check(&self) -> u32 {
        let Some(root) = self.actor.object::<RangeNode>(self.root.get()) else { return 0 };
        let level = root.kind.get() - RANGE_NODE;
        assert!((level as usize) < LEVELS_MAX);
        assert!(level == 0 || root.count.get() >= 2, "the root has a reason to be there");
        self.check_node(root, level)
    }

    fn check_node(&self, node: &RangeNode, level: u32) -> u32 {
        assert_eq!(node.kind.get(), RANGE_NODE + level);
        let used = node.count.get() as usize;
        let mut nodes = 1;
        for slot in 0..used {
            assert!(node.starts[slot].get() < node.ends[slot].get());
            assert!(slot == 0 || node.ends[slot - 1].get() <= node.starts[slot].get(), "ranges ascend");
            if level == 0 {
                assert_eq!(node.gaps[slot].get(), 0);
                continue;
            }
            let child = self.actor.object::<RangeNode>(node.children[slot].get()).unwrap();
            let below = child.count.get() as usize;
            assert!(below >= RANGE_NODE_SLOTS / 2, "a node is half full");
            assert_eq!(node.starts[slot].get(), child.starts[0].get());
            assert_eq!(node.ends[slot].get(), child.ends[below - 1].get());
            let between = (1..below).map(|at| child.starts[at].get() - child.ends[at - 1].get());
            let longest = between.chain((0..below).map(|at| child.gaps[at].get())).max().unwrap();
            assert_eq!(node.gaps[slot].get(), longest, "the longest gap is known");
            nodes += self.check_node(child, level - 1);
        }
        nodes
    }
}

fn highest_gap(model: &Model, len: u64, floor: u64, top: u64) -> Option<u64> {
    let mut above = top;
    for (&start, &(end, _)) in model.iter().rev() {
        let low = end.max(floor);
        if above >= low && above - low >= len {
            return Some(above - len);
        }
        above = above.min(start);
    }
    (above >= floor && above - floor >= len).then(|| above - len)
}

fn neighbours(model: &Model, start: u64) -> (u64, u64) {
    let below = model.range(..start).next_back().map_or(0, |(_, &(end, _))| end);
    let above = model.range((Bound::Excluded(start), Bound::Unbounded)).next().map_or(u64::MAX, |(&start, _)| start);
    (below, above)
}

fn apply(tree: &mut Tree, model: &mut Model, operation: &Operation, value: u64) {
    let (actor, root) = (tree.actor, tree.root);
    match *operation {
        Operation::Insert(start, end) => {
            let taken = model.range(..end).next_back().is_some_and(|(_, &(last, _))| last > start);
            match range_tree::insert(&actor, root, Entry { start, end, value }) {
                Ok(()) => assert!(!taken && model.insert(start, (end, value)).is_none()),
                Err(TreeError::Taken) => assert!(taken),
                Err(error) => assert!(error == TreeError::OutOfMemory && tree.is_exhausted, "{error:?}"),
            }
        }
        Operation::Remove(at) => {
            let start = model.range(..=at).next_back().map_or(at, |(&start, _)| start);
            let expected = model.remove(&start).map(|(_, value)| value).ok_or(TreeError::Missing);
            assert_eq!(range_tree::remove(&actor, root, start), expected);
        }
        Operation::Resize(nth, start_moves, end_moves) => {
            let Some((&old, &(old_end, value))) = model.iter().nth(nth) else { return };
            let (below, above) = neighbours(model, old);
            let (start, end) = (old.saturating_add_signed(start_moves), old_end.saturating_add_signed(end_moves));
            let fits = start < end && below <= start && end <= above;
            let expected = if fits { Ok(()) } else { Err(TreeError::Taken) };
            assert_eq!(range_tree::resize(&actor, root, old, start, end), expected);
            if fits {
                model.remove(&old);
                model.insert(start, (end, value));
            }
        }
        Operation::Gap(len, floor, top) => {
            let found = range_tree::highest_gap(&actor, root, len, floor, top);
            assert_eq!(found, highest_gap(model, len, floor, top));
        }
        Operation::Exhaust(on) => tree.exhaust(on),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_does_what_a_map_does(operations in prop::collection::vec(operation(), 1..1500)) {
        let (mut tree, mut model) = (Tree::new(SHARED.with(|actor| *actor)), Model::new());
        for (value, operation) in (1..).zip(&operations) {
            apply(&mut tree, &mut model, operation, value);
        }
        tree.exhaust(false);
        let nodes = tree.check();
        prop_assert_eq!(tree.actor.objects_in_use(), 1 + nodes);
        let expected: Vec<_> = model.iter().map(|(&start, &(end, value))| Entry { start, end, value }).collect();
        prop_assert_eq!(&tree.entries(), &expected);
        prop_assert_eq!(&range_tree::from(&tree.actor, tree.root, 0).collect::<Vec<_>>(), &expected);
        for at in 0..UNITS + 5 {
            let after = range_tree::first_ending_after(&tree.actor, tree.root, at).map(|found| found.value);
            prop_assert_eq!(after, model.values().find(|(end, _)| *end > at).map(|&(_, value)| value));
            let before = range_tree::last_starting_before(&tree.actor, tree.root, at).map(|found| found.value);
            prop_assert_eq!(before, model.range(..at).next_back().map(|(_, &(_, value))| value));
        }
        if operations.len() % 2 == 0 {
            for &start in model.keys() {
                prop_assert!(range_tree::remove(&tree.actor, tree.root, start).is_ok());
            }
        } else {
            let mut values = Vec::new();
            range_tree::clear(&tree.actor, tree.root, |value| values.push(value));
            prop_assert!(values.into_iter().eq(model.values().map(|&(_, value)| value)));
        }
        prop_assert_eq!((tree.root.get(), tree.actor.objects_in_use()), (0, 1));
        tree.end();
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever is in a tree's records, every operation ends, with a value or an error.
    #[test]
    fn a_damaged_tree_ends_no_kernel(
        damage in prop::collection::vec((0..64u64, 0..64usize, prop_oneof![any::<u64>(), (0..64u64).prop_map(|n| n << 9), 0..40u64]), 1..20),
        operations in prop::collection::vec(operation(), 1..60),
    ) {
        let tree = Tree::new(Actor::new(POOL_LEN));
        for start in 0..300 {
            let new = Entry { start: start * 2, end: start * 2 + 1, value: start };
            range_tree::insert(&tree.actor, tree.root, new).unwrap();
        }
        let nodes: Vec<u64> = node_addresses(&tree);
        for (node, word, value) in damage {
            let node = nodes[node as usize % nodes.len()];
            // Links to nodes of the tree are the most dangerous ones.
            let value = if value % 512 == 0 { nodes[(value >> 9) as usize % nodes.len()] } else { value };
            tree.actor.pool().at::<Cell64>(PoolAddr(node + word as u64 * 8)).set(value);
        }
        for operation in operations {
            let (actor, root) = (&tree.actor, tree.root);
            match operation {
                Operation::Insert(start, end) => {
                    let _ = range_tree::insert(actor, root, Entry { start, end, value: 1 });
                },
                Operation::Remove(start) => {
                    let _ = range_tree::remove(actor, root, start);
                }
                Operation::Resize(nth, start, end) => {
                    let at = nth as u64 * 2;
                    let (start, end) = (at.saturating_add_signed(start), (at + 1).saturating_add_signed(end));
                    let _ = range_tree::resize(actor, root, at, start, end);
                }
                Operation::Gap(len, floor, top) => {
                    let _ = range_tree::highest_gap(actor, root, len, floor, top);
                }
                Operation::Exhaust(_) => {
                    let _ = range_tree::last_starting_before(actor, root, 300);
                    assert!(range_tree::from(actor, root, 0).count() < 1 << 16);
                }
            }
        }
    }
}

fn node_addresses(tree: &Tree) -> Vec<u64> {
    let mut found = vec![tree.root.get()];
    let mut at = 0;
    while at < found.len() {
        let node = tree.actor.object::<RangeNode>(found[at]).unwrap();
        if node.kind.get() > RANGE_NODE {
            found.extend(node.children[..node.count.get() as usize].iter().map(Cell64::get));
        }
        at += 1;
    }
    found
}

/// The depth that bounds every operation: 65,536 ranges with holes between them lie within six levels.
#[test]
fn many_ranges_lie_within_few_levels() {
    let tree = Tree::new(Actor::new(POOL_LEN));
    for n in 0..1 << 16 {
        let start = (n * 40_503 % (1 << 16)) * 2;
        range_tree::insert(&tree.actor, tree.root, Entry { start, end: start + 1, value: n }).unwrap();
    }
    tree.check();
    let root = tree.actor.object::<RangeNode>(tree.root.get()).unwrap();
    assert!(root.kind.get() - RANGE_NODE < 6);
}
