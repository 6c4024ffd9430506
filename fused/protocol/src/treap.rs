//! Search trees of objects of the pool: finding, entering and removing one of many takes a number of steps that grows with the logarithm of how many there are.
//!
//! An object's priority, which is a hash of its address and of the machine's seed, is less than that of the object above it (a treap: Seidel and Aragon,
//! Randomized Search Trees, 1996). So the tree is the same whatever the order of entering, nobody outside can make it deep, and it is made anew from its objects
//! alone when a core dies in the middle of a change: which objects are in it, something else must say.
//!
//! Whoever uses a tree holds the lock of what it belongs to.

use core::marker::PhantomData;

use motet_layout::{Cell64, PoolSafe, TreeLinks};

use crate::Context;

/// An object that is in a tree.
pub trait TreeNode: PoolSafe {
    /// Whether it says something of all objects below it, too, and [`sum`](Self::sum) is called when these have changed.
    const IS_SUMMED: bool = false;

    /// Its place there.
    fn links(&self) -> &TreeLinks;

    /// Whether it comes before another one. Of equal ones, that which was entered first does.
    fn is_before(&self, other: &Self) -> bool;

    /// Makes what it says of all below it from what those right below it say.
    fn sum(&self, _left: Option<&Self>, _right: Option<&Self>) {}
}

/// A tree, by the word that names its top (0: it is empty).
pub struct Tree<'a, C, N> {
    context: &'a C,
    root: &'a Cell64,
    objects: PhantomData<fn() -> N>,
}

impl<'a, C: Context, N: TreeNode + 'static> Tree<'a, C, N> {
    /// The tree whose top a word names.
    #[inline(always)]
    pub fn new(context: &'a C, root: &'a Cell64) -> Self {
        Self { context, root, objects: PhantomData }
    }

    /// The object that comes before all others.
    pub fn first(&self) -> Option<&'static N> {
        self.node(self.root.get()).map(|top| self.leftmost(top))
    }

    /// The first object that does not come before what is looked for.
    pub fn first_from(&self, is_before: impl Fn(&N) -> bool) -> Option<&'static N> {
        let (mut found, mut at) = (None, self.root.get());
        while let Some(node) = self.node(at) {
            at = if is_before(node) {
                node.links().right.get()
            } else {
                found = Some(node);
                node.links().left.get()
            };
        }
        found
    }

    /// The object behind another one.
    pub fn next(&self, node: &'static N) -> Option<&'static N> {
        if let Some(right) = self.node(node.links().right.get()) {
            return Some(self.leftmost(right));
        }
        let mut below = node;
        loop {
            let above = self.node(below.links().above.get())?;
            if above.links().left.get() == self.context.raw(below) {
                return Some(above);
            }
            below = above;
        }
    }

    /// All objects in their order from one on. The tree does not change meanwhile.
    pub fn from(&self, first: Option<&'static N>) -> impl Iterator<Item = &'static N> + use<'_, 'a, C, N> {
        core::iter::successors(first, |node| self.next(node))
    }

    /// Enters an object, behind its equals.
    pub fn insert(&self, node: &'static N) {
        let (mut above, mut place) = (None::<&'static N>, self.root);
        while let Some(at) = self.node(place.get()) {
            above = Some(at);
            place = if node.is_before(at) { &at.links().left } else { &at.links().right };
        }
        let links = node.links();
        links.left.set(0);
        links.right.set(0);
        links.above.set(above.map_or(0, |above| self.context.raw(above)));
        place.set(self.context.raw(node));
        self.sum_up(node);
        let priority = self.priority(node);
        while let Some(above) = self.node(links.above.get()).filter(|above| self.priority(above) < priority) {
            self.lift(node, above);
        }
    }

    /// Takes an object out, which is in it.
    pub fn remove(&self, node: &'static N) {
        let links = node.links();
        let below = loop {
            match (self.node(links.left.get()), self.node(links.right.get())) {
                (Some(left), Some(right)) => {
                    let is_left = self.priority(left) > self.priority(right);
                    self.lift(if is_left { left } else { right }, node);
                }
                (left, right) => break left.or(right),
            }
        };
        self.replace(node, below.map_or(0, |below| self.context.raw(below)));
        if let Some(below) = below {
            below.links().above.set(links.above.get());
        }
        if let Some(above) = self.node(links.above.get()) {
            self.sum_up(above);
        }
    }

    /// How many objects are above each other at most: what a step takes grows with it. For tests.
    pub fn depth(&self) -> usize {
        let (mut deepest, mut open) = (0, Some((self.root.get(), 1)));
        // Down to the left, and back up from there, without memory of its own.
        let mut from = 0;
        while let Some((at, depth)) = open.take() {
            let Some(node) = self.node(at) else { break };
            deepest = deepest.max(depth);
            let links = node.links();
            let (left, right, above) = (links.left.get(), links.right.get(), links.above.get());
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

    #[inline(always)]
    fn node(&self, raw: u64) -> Option<&'static N> {
        self.context.object(raw)
    }

    fn leftmost(&self, top: &'static N) -> &'static N {
        let mut first = top;
        while let Some(earlier) = self.node(first.links().left.get()) {
            first = earlier;
        }
        first
    }

    /// Lets an object and the one above it change places; all stay in order.
    fn lift(&self, node: &'static N, above: &'static N) {
        let (raw, raw_above) = (self.context.raw(node), self.context.raw(above));
        let (links, links_above) = (node.links(), above.links());
        let is_left = links_above.left.get() == raw;
        let (from, to) = if is_left { (&links.right, &links_above.left) } else { (&links.left, &links_above.right) };
        let between = from.get();
        self.replace(above, raw);
        links.above.set(links_above.above.get());
        to.set(between);
        if let Some(between) = self.node(between) {
            between.links().above.set(raw_above);
        }
        from.set(raw_above);
        links_above.above.set(raw);
        self.sum(above);
        self.sum(node);
    }

    /// What an object and all above it say of those below them, has changed.
    fn sum_up(&self, node: &'static N) {
        let mut at = Some(node).filter(|_| N::IS_SUMMED);
        while let Some(node) = at {
            self.sum(node);
            at = self.node(node.links().above.get());
        }
    }

    #[inline(always)]
    fn sum(&self, node: &'static N) {
        if N::IS_SUMMED {
            node.sum(self.node(node.links().left.get()), self.node(node.links().right.get()));
        }
    }

    /// Has who names an object from above name another one.
    fn replace(&self, node: &'static N, by: u64) {
        match self.node(node.links().above.get()).map(TreeNode::links) {
            Some(above) if above.left.get() == self.context.raw(node) => above.left.set(by),
            Some(above) => above.right.set(by),
            None => self.root.set(by),
        }
    }

    fn priority(&self, node: &'static N) -> u64 {
        let mixed = (self.context.raw(node) ^ self.context.pool().header().seed[0].get()).wrapping_mul(MIX);
        (mixed ^ mixed >> 32).wrapping_mul(MIX)
    }
}

/// Odd, with bits as if by chance: 2^64 by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
