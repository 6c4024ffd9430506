//! Repair when a core has died with the lock held.

use motet_layout::{InodeRecord, InodeWatch, InotifyRecord, in_order, sync::Ordering};

use super::{link, list, state, told::lose_all};
use crate::{Context, slab};

/// Repairs all of it, whose lock a dead core held and this one has now. Each watch says itself whether it is one, and of what; lists, trees and counts are made
/// anew. A queue that was being changed is emptied, and its reader told that events were lost.
pub fn recover(context: &impl Context) {
    let state = state(context);
    if let Some(instance) = context.object::<InotifyRecord>(state.changing.get()) {
        lose_all(context, instance);
    }
    state.instances.set(0);
    for instance in slab::all::<InotifyRecord>(context).filter(|instance| instance.is_used.get() != 0) {
        instance.watches.set(0);
        instance.watch_count.set(0);
        list(context, instance);
    }
    slab::all::<InodeRecord>(context).for_each(|inode| inode.watches.store(0, Ordering::Relaxed));
    context.pool().header().inode_watches.store(0, Ordering::Relaxed);
    for watch in slab::all::<InodeWatch>(context).filter(|watch| watch.mask.get() != 0) {
        let inode = context.object::<InodeRecord>(watch.inode.get());
        let instance = context.object::<InotifyRecord>(watch.instance.get());
        let is_whole = |(inode, instance): &(&InodeRecord, &InotifyRecord)| {
            inode.refs.load(Ordering::Relaxed) != 0 && instance.is_used.get() != 0
        };
        match inode.zip(instance).filter(is_whole) {
            Some((inode, instance)) => link(context, watch, inode, instance),
            None => {
                watch.mask.set(0);
                in_order();
                slab::free(context, watch);
            }
        }
    }
}
