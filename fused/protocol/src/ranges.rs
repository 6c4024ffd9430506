//! Locked byte ranges of a file, in a search tree by where they begin. Each says how far those below it reach, so who looks for ranges that meet others finds
//! them without a look at the rest (an interval tree: Cormen and others, Introduction to Algorithms, chapter 17).
//!
//! The inode's lock guards them. A range says itself of which file it is, from before it is in the tree until it is out.

use motet_layout::{InodeRecord, RangeRecord, TreeLinks, in_order};

use crate::{
    Context, slab,
    treap::{Tree, TreeNode},
};

impl TreeNode for RangeRecord {
    const IS_SUMMED: bool = true;

    fn links(&self) -> &TreeLinks {
        &self.links
    }

    fn is_before(&self, other: &Self) -> bool {
        self.start.get() < other.start.get()
    }

    fn sum(&self, left: Option<&Self>, right: Option<&Self>) {
        let below = |range: Option<&Self>| range.map_or(0, |range| range.end_max.get());
        self.end_max.set(self.end.get().max(below(left)).max(below(right)));
    }
}

/// Enters a range, whose bytes are set.
pub fn enter(context: &impl Context, inode: &'static InodeRecord, range: &'static RangeRecord) {
    range.inode.set(context.raw(inode));
    in_order();
    tree(context, inode).insert(range);
    inode.range_count.set(inode.range_count.get() + 1);
}

/// Takes a range out.
pub fn leave(context: &impl Context, inode: &'static InodeRecord, range: &'static RangeRecord) {
    tree(context, inode).remove(range);
    in_order();
    range.inode.set(0);
    inode.range_count.set(inode.range_count.get().saturating_sub(1));
}

/// Changes the first and the last byte of a range.
pub fn resize(context: &impl Context, inode: &'static InodeRecord, range: &'static RangeRecord, start: u64, end: u64) {
    let tree = tree(context, inode);
    tree.remove(range);
    range.start.set(start);
    range.end.set(end);
    tree.insert(range);
}

/// The first range, by its first byte, that meets bytes `start..=end`.
pub fn first(context: &impl Context, inode: &InodeRecord, start: u64, end: u64) -> Option<&'static RangeRecord> {
    below(context, inode.ranges.get(), start).filter(|range| range.start.get() <= end)
}

/// The next one that does.
pub fn next(context: &impl Context, range: &'static RangeRecord, start: u64, end: u64) -> Option<&'static RangeRecord> {
    let mut at = range;
    let found = loop {
        if let Some(found) = below(context, at.links.right.get(), start) {
            break found;
        }
        // Up to the next one that comes after it.
        at = loop {
            let above = context.object::<RangeRecord>(at.links.above.get())?;
            if above.links.left.get() == context.raw(at) {
                break above;
            }
            at = above;
        };
        if at.end.get() >= start {
            break at;
        }
    };
    (found.start.get() <= end).then_some(found)
}

/// The first of a range and those below it that does not end before `start`.
fn below(context: &impl Context, top: u64, start: u64) -> Option<&'static RangeRecord> {
    let reaches = |raw: u64| context.object::<RangeRecord>(raw).filter(|range| range.end_max.get() >= start);
    let mut at = reaches(top)?;
    loop {
        at = match reaches(at.links.left.get()) {
            Some(left) => left,
            None if at.end.get() >= start => return Some(at),
            None => reaches(at.links.right.get())?,
        };
    }
}

/// Repairs the ranges of a file, whose lock a dead core held and this one has now.
pub(crate) fn recover(context: &impl Context, inode: &'static InodeRecord) {
    let raw = context.raw(inode);
    inode.ranges.set(0);
    inode.range_count.set(0);
    slab::all::<RangeRecord>(context)
        .filter(|range| range.inode.get() == raw)
        .for_each(|range| enter(context, inode, range));
}

fn tree<'a, C: Context>(context: &'a C, inode: &'static InodeRecord) -> Tree<'a, C, RangeRecord> {
    Tree::new(context, &inode.ranges)
}
