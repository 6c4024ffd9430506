//! What is undone in semaphores when a process ends (`SEM_UNDO` of semop(2)).
//!
//! A record is of some neighbouring semaphores of a set and of one list. It is in the set's tree, by list, and in the list's chain; which these are it says itself.

use core::{cmp::Ordering, ops::RangeInclusive};

use motet_abi::Errno;
use motet_layout::{
    Cell32, IPC_UNDO, IPC_UNDO_LIST, IPC_WORDS, IpcObject, IpcUndo, IpcUndoList, ProcessRecord, TreeLinks, in_order,
};

use super::{RECORD_SIZE, charge, discharge};
use crate::{
    Context, slab,
    treap::{Tree, TreeNode},
};

/// What a look at a record costs, in instructions.
const LOOKED: u64 = 100;

impl TreeNode for IpcUndo {
    fn links(&self) -> &TreeLinks {
        &self.links
    }

    fn is_before(&self, other: &Self) -> bool {
        compare(self, other.list.get(), other.part.get()) == Ordering::Less
    }
}

fn compare(undo: &IpcUndo, list: u64, part: u32) -> Ordering {
    undo.list.get().cmp(&list).then(undo.part.get().cmp(&part))
}

fn tree<'a, C: Context>(context: &'a C, set: &'static IpcObject) -> Tree<'a, C, IpcUndo> {
    Tree::new(context, &set.undo)
}

const fn part_of(number: u16) -> u32 {
    number as u32 / IPC_WORDS as u32
}

/// What a process has to undo, if it has anything.
pub fn list_of(context: &impl Context, process: &ProcessRecord) -> Option<&'static IpcUndoList> {
    context.object::<IpcUndoList>(process.undo.get()).filter(|list| list.kind.get() == IPC_UNDO_LIST)
}

/// The same; there is a list from now on.
///
/// # Errors
/// `ENOMEM`.
pub fn make_list(context: &impl Context, process: &ProcessRecord) -> Result<&'static IpcUndoList, Errno> {
    if let Some(list) = list_of(context, process) {
        return Ok(list);
    }
    let list = slab::alloc::<IpcUndoList>(context).ok_or(Errno::ENOMEM)?;
    list.refs.set(1);
    list.kind.set(IPC_UNDO_LIST);
    in_order();
    process.undo.set(context.raw(list));
    Ok(list)
}

/// A new process, which nobody else knows yet, has its parent's list.
pub fn share(child: &ProcessRecord, list: &'static IpcUndoList, raw: u64) {
    list.refs.set(list.refs.get() + 1);
    child.undo.set(raw);
}

/// Where a list says what to add to a semaphore; `None`: nothing yet.
pub(super) fn word(
    context: &impl Context,
    set: &'static IpcObject,
    list: &'static IpcUndoList,
    number: u16,
) -> Option<&'static Cell32> {
    let (list, part) = (context.raw(list), part_of(number));
    let found = tree(context, set).first_from(|undo| compare(undo, list, part) == Ordering::Less)?;
    let is_it = found.kind.get() == IPC_UNDO && compare(found, list, part) == Ordering::Equal;
    is_it.then(|| &found.adjust[usize::from(number) % IPC_WORDS])
}

/// Makes room for what a list has to add to a semaphore of a set.
///
/// # Errors
/// `ENOMEM`.
pub fn prepare(
    context: &impl Context,
    set: &'static IpcObject,
    list: &'static IpcUndoList,
    number: u16,
    (uid, is_privileged): (u32, bool),
) -> Result<(), Errno> {
    context.spend_locked(LOOKED);
    if word(context, set, list, number).is_some() {
        return Ok(());
    }
    let user = charge(context, uid, RECORD_SIZE, is_privileged)?;
    let Some(undo) = slab::alloc::<IpcUndo>(context) else {
        discharge(context, user, RECORD_SIZE);
        return Err(Errno::ENOMEM);
    };
    undo.user.set(user);
    undo.part.set(part_of(number));
    undo.set.set(context.raw(set));
    undo.list.set(context.raw(list));
    in_order();
    undo.kind.set(IPC_UNDO);
    in_order();
    enter(context, undo, set, list);
    Ok(())
}

/// Puts a record where it belongs.
pub(super) fn enter(
    context: &impl Context,
    undo: &'static IpcUndo,
    set: &'static IpcObject,
    list: &'static IpcUndoList,
) {
    tree(context, set).insert(undo);
    let next = list.first.get();
    undo.next.set(next);
    undo.prev.set(0);
    if let Some(next) = context.object::<IpcUndo>(next) {
        next.prev.set(context.raw(undo));
    }
    list.first.set(context.raw(undo));
}

/// A record goes.
pub(super) fn drop_record(context: &impl Context, undo: &'static IpcUndo) {
    if let Some(set) = context.object::<IpcObject>(undo.set.get()) {
        tree(context, set).remove(undo);
    }
    match context.object::<IpcUndo>(undo.prev.get()) {
        Some(prev) => prev.next.set(undo.next.get()),
        None => {
            if let Some(list) = context.object::<IpcUndoList>(undo.list.get()) {
                list.first.set(undo.next.get());
            }
        }
    }
    if let Some(next) = context.object::<IpcUndo>(undo.next.get()) {
        next.prev.set(undo.prev.get());
    }
    discharge(context, undo.user.get(), RECORD_SIZE);
    undo.kind.set(0);
    in_order();
    slab::free(context, undo);
}

/// Nothing is undone of some semaphores of a set.
pub fn forget(context: &impl Context, set: &'static IpcObject, numbers: RangeInclusive<u16>) {
    let tree = tree(context, set);
    for undo in tree.from(tree.first()) {
        for (index, adjust) in undo.adjust.iter().enumerate() {
            let number = undo.part.get() as usize * IPC_WORDS + index;
            if u16::try_from(number).is_ok_and(|number| numbers.contains(&number)) {
                adjust.set(0);
            }
        }
        context.spend_locked(2 * LOOKED);
    }
}

/// A set goes: nothing is undone of it.
pub(super) fn forget_set(context: &impl Context, set: &'static IpcObject) {
    while let Some(undo) = tree(context, set).first() {
        drop_record(context, undo);
        context.spend_locked(2 * LOOKED);
    }
}

/// Frees a list that nobody has.
pub(super) fn free_list(context: &impl Context, list: &'static IpcUndoList) {
    while let Some(undo) = context.object::<IpcUndo>(list.first.get()) {
        drop_record(context, undo);
    }
    list.kind.set(0);
    in_order();
    slab::free(context, list);
}
