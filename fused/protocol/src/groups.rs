//! Processes by group: whoever looks for the members of a group finds them without a look at the others.
//!
//! All processes of the process tree are in a search tree by group, under the lock of the process tree.

use motet_layout::{ProcessRecord, TreeLinks, sync::Ordering};

use crate::{
    Context,
    treap::{Tree, TreeNode},
};

impl TreeNode for ProcessRecord {
    fn links(&self) -> &TreeLinks {
        &self.links
    }

    fn is_before(&self, other: &Self) -> bool {
        (group_of(self), self.pid.get()) < (group_of(other), other.pid.get())
    }
}

/// Enters a process, which has its id and its group.
pub fn enter(context: &impl Context, process: &'static ProcessRecord) {
    tree(context).insert(process);
}

/// Takes a process out that has been entered.
pub fn leave(context: &impl Context, process: &'static ProcessRecord) {
    tree(context).remove(process);
}

/// Moves a process to another group.
pub fn change(context: &impl Context, process: &'static ProcessRecord, group: u32) {
    let tree = tree(context);
    tree.remove(process);
    process.pgid.store(group, Ordering::Relaxed);
    tree.insert(process);
}

/// Calls `each` with the members of a group, those that wait to be reaped among them. No process enters or leaves meanwhile.
pub fn for_each(context: &impl Context, group: u32, mut each: impl FnMut(&'static ProcessRecord)) {
    let tree = tree(context);
    let first = tree.first_from(|process| group_of(process) < group);
    tree.from(first).take_while(|process| group_of(process) == group).for_each(&mut each);
}

/// A member of a group, if it has any.
pub fn any(context: &impl Context, group: u32) -> Option<&'static ProcessRecord> {
    tree(context).first_from(|process| group_of(process) < group).filter(|process| group_of(process) == group)
}

/// Forgets all, who then are entered again: for a repair.
pub fn clear(context: &impl Context) {
    context.pool().header().groups.set(0);
}

fn tree<C: Context>(context: &C) -> Tree<'_, C, ProcessRecord> {
    Tree::new(context, &context.pool().header().groups)
}

fn group_of(process: &ProcessRecord) -> u32 {
    process.pgid.load(Ordering::Relaxed)
}
