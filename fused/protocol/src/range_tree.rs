//! A B+ tree of disjoint address ranges, each with a word that says what it is of: the VMAs of a space.
//!
//! Every slot of an inner node knows what lies below it: the first and the last address, and the longest gap between
//! neighbouring ranges. So looking up an address, inserting, removing and finding a free range all visit
//! O(log n) nodes (R. Bayer and E. McCreight, "Organization and Maintenance of Large Ordered Indices", 1972; the gaps are
//! kept as Linux's maple tree keeps them).
//!
//! The caller holds the lock of what the tree belongs to. Nothing follows a link without looking: a node that is not what
//! its place says gives [`TreeError::Damaged`] (or `None`), and every way through the tree goes down one level at each step.

use motet_layout::{Cell64, PoolAddr, RANGE_NODE, RANGE_NODE_SLOTS as SLOTS, RangeNode};

use crate::{Context, slab};

/// Fewest slots in use of a node that is not the root.
const SLOTS_MIN: usize = SLOTS / 2;
/// What freeing a node costs, and telling a level above what a node holds, in instructions.
const FREED: u64 = 150;
const SUMMARISED: u64 = 600;

/// Most levels of a tree: with `SLOTS_MIN` slots in each node, ten levels hold more ranges than a pool can.
pub const LEVELS_MAX: usize = 10;

/// Why a tree was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeError {
    /// There is no memory for a node.
    OutOfMemory,
    /// The range is empty, or another one has part of it.
    Taken,
    /// There is no such range.
    Missing,
    /// A node is not what its place in the tree says.
    Damaged,
}

/// A range in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First address.
    pub start: u64,
    /// First address past it.
    pub end: u64,
    /// What it is of.
    pub value: u64,
}

/// What a slot holds.
#[derive(Clone, Copy)]
struct Slot {
    start: u64,
    end: u64,
    gap: u64,
    child: u64,
}

type Node = &'static RangeNode;

/// The way from the root to a slot of a leaf; index 0 is the leaf.
struct Path {
    steps: [Option<(Node, usize)>; LEVELS_MAX],
    root_level: usize,
}

/// The first range whose end is above `address`.
pub fn first_ending_after(context: &impl Context, root: &Cell64, address: u64) -> Option<Entry> {
    leaf_of(context, root, address).map(|(leaf, slot)| entry(leaf, slot))
}

/// The ranges whose ends are above `address`, in ascending order. None is added or removed meanwhile.
pub fn from<'a>(context: &'a impl Context, root: &'a Cell64, address: u64) -> impl Iterator<Item = Entry> + 'a {
    let mut at = address;
    let mut place: Option<(Node, usize)> = None;
    core::iter::from_fn(move || {
        let here = place.filter(|&(leaf, slot)| slot < count(leaf));
        let (leaf, slot) = here.or_else(|| leaf_of(context, root, at))?;
        let found = entry(leaf, slot);
        // In a damaged tree, too, it goes up.
        if found.end <= at {
            return None;
        }
        at = found.end;
        place = Some((leaf, slot + 1));
        Some(found)
    })
}

/// Frees the nodes of a tree that nobody uses any more, after telling what its ranges were of.
pub fn clear(context: &impl Context, root: &Cell64, mut each: impl FnMut(u64)) {
    if let Ok(Some((node, level))) = root_node(context, root) {
        free_nodes(context, node, level, &mut each);
    }
    root.set(0);
}

fn free_nodes(context: &impl Context, node: Node, level: usize, each: &mut impl FnMut(u64)) {
    for child in &node.children[..count(node)] {
        if level == 0 {
            each(child.get());
        } else if let Ok(child) = node_at(context, child.get(), level - 1) {
            free_nodes(context, child, level - 1, each);
        }
    }
    slab::free(context, node);
    context.spend_locked(FREED);
}

/// The leaf and the slot of the first range whose end is above `address`.
fn leaf_of(context: &impl Context, root: &Cell64, address: u64) -> Option<(Node, usize)> {
    let (mut node, mut level) = root_node(context, root).ok()??;
    loop {
        let slot = (0..count(node)).find(|&slot| node.ends[slot].get() > address)?;
        if level == 0 {
            return Some((node, slot));
        }
        level -= 1;
        node = node_at(context, node.children[slot].get(), level).ok()?;
    }
}

/// The last range whose start is below `address`.
pub fn last_starting_before(context: &impl Context, root: &Cell64, address: u64) -> Option<Entry> {
    let (mut node, mut level) = root_node(context, root).ok()??;
    loop {
        let slot = (0..count(node)).rev().find(|&slot| node.starts[slot].get() < address)?;
        if level == 0 {
            return Some(entry(node, slot));
        }
        level -= 1;
        node = node_at(context, node.children[slot].get(), level).ok()?;
    }
}

/// The highest `len` bytes within `[floor, top)` that no range has part of: their first address.
pub fn highest_gap(context: &impl Context, root: &Cell64, len: u64, floor: u64, top: u64) -> Option<u64> {
    let search = Search { len, floor, top };
    let (mut above, mut found) = (top, None);
    if let Some((node, level)) = root_node(context, root).ok()? {
        found = search.below(context, node, level, top);
        above = node.starts[0].get();
    }
    found.or_else(|| search.between(floor, above))
}

/// Adds a range.
///
/// # Errors
/// [`TreeError`]; nothing has changed then.
pub fn insert(context: &impl Context, root: &Cell64, new: Entry) -> Result<(), TreeError> {
    if new.start >= new.end {
        return Err(TreeError::Taken);
    }
    let carried = Slot { start: new.start, end: new.end, gap: 0, child: new.value };
    if root.get() == 0 {
        let node = slab::alloc::<RangeNode>(context).ok_or(TreeError::OutOfMemory)?;
        become_node(node, 0, &[carried]);
        root.set(context.raw(node));
        return Ok(());
    }
    if let Some((leaf, 0)) = root_node(context, root)?
        && count(leaf) < SLOTS
    {
        let slot = first_slot_after(leaf, new.start);
        if is_taken(leaf, slot, new.end) {
            return Err(TreeError::Taken);
        }
        insert_slot(leaf, slot, carried);
        return Ok(());
    }
    let path = path_to(context, root, new.start)?;
    let (leaf, slot) = path.step(0)?;
    if is_taken(leaf, slot, new.end) {
        return Err(TreeError::Taken);
    }
    let mut spare = reserve(context, &path)?.into_iter().flatten();
    insert_along(context, root, &path, carried, || spare.next())?;
    context.spend_locked(SUMMARISED * path.root_level as u64);
    Ok(())
}

/// Removes the range that starts at `start`; returns what it was of.
///
/// # Errors
/// [`TreeError::Missing`], [`TreeError::Damaged`].
pub fn remove(context: &impl Context, root: &Cell64, start: u64) -> Result<u64, TreeError> {
    let path = path_to_range(context, root, start)?;
    let (leaf, slot) = path.step(0)?;
    let value = leaf.children[slot].get();
    remove_slot(leaf, slot);
    for level in 0..path.root_level {
        let (node, _) = path.step(level)?;
        if count(node) < SLOTS_MIN {
            refill(context, &path, level)?;
        } else {
            path.summarise(level)?;
        }
    }
    let (top, _) = path.step(path.root_level)?;
    if path.root_level > 0 && count(top) == 1 {
        root.set(top.children[0].get());
        slab::free(context, top);
    } else if count(top) == 0 {
        root.set(0);
        slab::free(context, top);
    }
    context.spend_locked(SUMMARISED * path.root_level as u64);
    Ok(value)
}

/// Gives the range that starts at `old_start` other bounds, which reach into no other range and lie between the same neighbours.
///
/// # Errors
/// [`TreeError::Missing`], [`TreeError::Damaged`]; [`TreeError::Taken`] when the bounds are not free. Nothing has changed then.
pub fn resize(context: &impl Context, root: &Cell64, old_start: u64, start: u64, end: u64) -> Result<(), TreeError> {
    let path = path_to_range(context, root, old_start)?;
    let (leaf, slot) = path.step(0)?;
    let below = last_starting_before(context, root, old_start).map_or(0, |below| below.end);
    let above = first_ending_after(context, root, leaf.ends[slot].get()).map_or(u64::MAX, |above| above.start);
    if start >= end || start < below || end > above {
        return Err(TreeError::Taken);
    }
    leaf.starts[slot].set(start);
    leaf.ends[slot].set(end);
    for level in 0..path.root_level {
        path.summarise(level)?;
    }
    context.spend_locked(SUMMARISED * path.root_level as u64);
    Ok(())
}

/// The node at a raw address, if it is one of this level.
fn node_at(context: &impl Context, raw: u64, level: usize) -> Result<Node, TreeError> {
    let node = context.pool().get::<RangeNode>(PoolAddr(raw)).ok_or(TreeError::Damaged)?;
    let is_node = node.kind.get() == RANGE_NODE + level as u32 && (1..=SLOTS).contains(&count(node));
    if is_node { Ok(node) } else { Err(TreeError::Damaged) }
}

/// The root and its level; `None` for an empty tree.
fn root_node(context: &impl Context, root: &Cell64) -> Result<Option<(Node, usize)>, TreeError> {
    if root.get() == 0 {
        return Ok(None);
    }
    let node = context.pool().get::<RangeNode>(PoolAddr(root.get())).ok_or(TreeError::Damaged)?;
    let level = node.kind.get().wrapping_sub(RANGE_NODE) as usize;
    if level >= LEVELS_MAX {
        return Err(TreeError::Damaged);
    }
    node_at(context, root.get(), level).map(|node| Some((node, level)))
}

/// The first slot of a node that ends after `address`; behind the last one, if none does.
#[inline(always)]
fn first_slot_after(node: &RangeNode, address: u64) -> usize {
    let used = count(node);
    // Who fills a tree in order, as a fork does, adds behind all.
    if used > 0 && node.ends[used - 1].get() <= address {
        return used;
    }
    (0..used).find(|&slot| node.ends[slot].get() > address).unwrap_or(used)
}

/// Whether the range in a slot, if there is one, begins before `end`.
fn is_taken(leaf: &RangeNode, slot: usize, end: u64) -> bool {
    slot < count(leaf) && leaf.starts[slot].get() < end
}

#[inline(always)]
fn count(node: &RangeNode) -> usize {
    (node.count.get() as usize).min(SLOTS)
}

fn entry(node: &RangeNode, slot: usize) -> Entry {
    Entry { start: node.starts[slot].get(), end: node.ends[slot].get(), value: node.children[slot].get() }
}

/// The way to the first range that ends after `address`, or to behind the last one.
fn path_to(context: &impl Context, root: &Cell64, address: u64) -> Result<Path, TreeError> {
    let (mut node, root_level) = root_node(context, root)?.ok_or(TreeError::Missing)?;
    let mut path = Path { steps: [None; LEVELS_MAX], root_level };
    for level in (0..=root_level).rev() {
        let slot = first_slot_after(node, address);
        if level == 0 {
            path.steps[0] = Some((node, slot));
        } else {
            let slot = slot.min(count(node) - 1);
            path.steps[level] = Some((node, slot));
            node = node_at(context, node.children[slot].get(), level - 1)?;
        }
    }
    Ok(path)
}

/// The way to the range that starts at `start`.
fn path_to_range(context: &impl Context, root: &Cell64, start: u64) -> Result<Path, TreeError> {
    let path = path_to(context, root, start)?;
    let (leaf, slot) = path.step(0)?;
    if slot < count(leaf) && leaf.starts[slot].get() == start { Ok(path) } else { Err(TreeError::Missing) }
}

impl Path {
    /// The node at a level, and the slot through which the way goes.
    fn step(&self, level: usize) -> Result<(Node, usize), TreeError> {
        self.steps.get(level).copied().flatten().ok_or(TreeError::Damaged)
    }

    /// Tells the level above what the node at `level` holds now.
    fn summarise(&self, level: usize) -> Result<(), TreeError> {
        let ((node, _), (above, slot)) = (self.step(level)?, self.step(level + 1)?);
        put_slot(above, slot, summary(node, above.children[slot].get()));
        Ok(())
    }
}

/// Allocates a node for every one on the way that a new slot will split: those from the leaf up that are full, and a
/// new root if all are.
fn reserve(context: &impl Context, path: &Path) -> Result<[Option<Node>; LEVELS_MAX + 1], TreeError> {
    let mut full = 0;
    while full <= path.root_level && count(path.step(full)?.0) == SLOTS {
        full += 1;
    }
    let wanted = if full > path.root_level { full + 1 } else { full };
    if wanted > LEVELS_MAX {
        return Err(TreeError::OutOfMemory);
    }
    let mut spare = [None; LEVELS_MAX + 1];
    for index in 0..wanted {
        spare[index] = slab::alloc::<RangeNode>(context);
        if spare[index].is_none() {
            spare.into_iter().flatten().for_each(|node| slab::free(context, node));
            return Err(TreeError::OutOfMemory);
        }
    }
    Ok(spare)
}

/// Puts `carried` where the way ends, splitting the nodes that are full.
fn insert_along(
    context: &impl Context,
    root: &Cell64,
    path: &Path,
    mut carried: Slot,
    mut spare: impl FnMut() -> Option<Node>,
) -> Result<(), TreeError> {
    for level in 0..=path.root_level {
        let (node, slot) = path.step(level)?;
        let slot = if level == 0 { slot } else { slot + 1 };
        if count(node) < SLOTS {
            insert_slot(node, slot, carried);
            return (level..path.root_level).try_for_each(|level| path.summarise(level));
        }
        let right = spare().ok_or(TreeError::OutOfMemory)?;
        split(node, level, slot, carried, right);
        carried = summary(right, context.raw(right));
        if level < path.root_level {
            path.summarise(level)?;
        } else {
            let top = spare().ok_or(TreeError::OutOfMemory)?;
            become_node(top, level + 1, &[summary(node, root.get()), carried]);
            root.set(context.raw(top));
        }
    }
    Ok(())
}

/// Moves the upper half of a full node to `right`, and adds a slot to the half to which it belongs.
fn split(node: Node, level: usize, slot: usize, new: Slot, right: Node) {
    let kept = SLOTS.div_ceil(2);
    become_node(right, level, &[]);
    for from in kept..SLOTS {
        put_slot(right, from - kept, slot_at(node, from));
    }
    right.count.set((SLOTS - kept) as u32);
    node.count.set(kept as u32);
    if slot < kept {
        insert_slot(node, slot, new);
    } else {
        insert_slot(right, slot - kept, new);
    }
}

/// Joins the node at `level`, which has too few slots, with a neighbour, or takes a slot from that.
fn refill(context: &impl Context, path: &Path, level: usize) -> Result<(), TreeError> {
    let (above, slot) = path.step(level + 1)?;
    if count(above) < 2 {
        return path.summarise(level);
    }
    let left_slot = slot.saturating_sub(1);
    let left = node_at_or_empty(context, above.children[left_slot].get(), level)?;
    let right = node_at_or_empty(context, above.children[left_slot + 1].get(), level)?;
    let (left_count, right_count) = (count(left), count(right));
    if left_count + right_count <= SLOTS {
        for from in 0..right_count {
            insert_slot(left, left_count + from, slot_at(right, from));
        }
        remove_slot(above, left_slot + 1);
        slab::free(context, right);
    } else {
        if left_count < right_count {
            insert_slot(left, left_count, slot_at(right, 0));
            remove_slot(right, 0);
        } else {
            insert_slot(right, 0, slot_at(left, left_count - 1));
            remove_slot(left, left_count - 1);
        }
        put_slot(above, left_slot + 1, summary(right, context.raw(right)));
    }
    put_slot(above, left_slot, summary(left, context.raw(left)));
    Ok(())
}

/// As [`node_at`], for one that may have just lost its last slot.
fn node_at_or_empty(context: &impl Context, raw: u64, level: usize) -> Result<Node, TreeError> {
    let node = context.pool().get::<RangeNode>(PoolAddr(raw)).ok_or(TreeError::Damaged)?;
    if node.kind.get() == RANGE_NODE + level as u32 { Ok(node) } else { Err(TreeError::Damaged) }
}

fn become_node(node: Node, level: usize, slots: &[Slot]) {
    node.kind.set(RANGE_NODE + level as u32);
    node.count.set(slots.len() as u32);
    for (index, &slot) in slots.iter().enumerate() {
        put_slot(node, index, slot);
    }
}

/// What the slot of a node says.
fn summary(node: Node, raw: u64) -> Slot {
    let used = count(node).max(1);
    let within = (0..used).map(|slot| node.gaps[slot].get());
    let between = (1..used).map(|slot| node.starts[slot].get().saturating_sub(node.ends[slot - 1].get()));
    Slot {
        start: node.starts[0].get(),
        end: node.ends[used - 1].get(),
        gap: within.chain(between).max().unwrap_or(0),
        child: raw,
    }
}

fn slot_at(node: Node, slot: usize) -> Slot {
    Slot {
        start: node.starts[slot].get(),
        end: node.ends[slot].get(),
        gap: node.gaps[slot].get(),
        child: node.children[slot].get(),
    }
}

fn put_slot(node: Node, slot: usize, new: Slot) {
    node.starts[slot].set(new.start);
    node.ends[slot].set(new.end);
    node.gaps[slot].set(new.gap);
    node.children[slot].set(new.child);
}

/// Adds a slot to a node that is not full.
fn insert_slot(node: Node, slot: usize, new: Slot) {
    let used = count(node).min(SLOTS - 1);
    for index in (slot..used).rev() {
        put_slot(node, index + 1, slot_at(node, index));
    }
    put_slot(node, slot.min(used), new);
    node.count.set(used as u32 + 1);
}

fn remove_slot(node: Node, slot: usize) {
    let used = count(node);
    for index in slot + 1..used {
        put_slot(node, index - 1, slot_at(node, index));
    }
    node.count.set((used as u32).saturating_sub(1));
}

/// What [`highest_gap`] looks for.
struct Search {
    len: u64,
    floor: u64,
    top: u64,
}

impl Search {
    /// In what lies below a node, and between its last range and `above`. Goes into a node only if its slot promises a
    /// gap; that can prove too high for one node of each level, the one that `top` cuts.
    fn below(&self, context: &impl Context, node: Node, level: usize, mut above: u64) -> Option<u64> {
        for slot in (0..count(node)).rev() {
            if let Some(found) = self.between(node.ends[slot].get(), above) {
                return Some(found);
            }
            if level > 0 && node.gaps[slot].get() >= self.len && node.starts[slot].get() < self.top {
                let child = node_at(context, node.children[slot].get(), level - 1).ok()?;
                if let Some(found) = self.below(context, child, level - 1, above) {
                    return Some(found);
                }
            }
            above = node.starts[slot].get();
        }
        None
    }

    /// Whether there is room between two addresses: where.
    fn between(&self, low: u64, high: u64) -> Option<u64> {
        let (low, high) = (low.max(self.floor), high.min(self.top));
        high.checked_sub(low).filter(|&room| room >= self.len).map(|_| high - self.len)
    }
}
