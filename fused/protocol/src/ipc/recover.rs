//! Repair when a core has died with the lock held, and what dead cores have left.

use motet_layout::{
    IPC_MESSAGE, IPC_PER_FRAME, IPC_TABLE_FRAMES, IPC_UNDO, IPC_UNDO_LIST, IPC_USER, IpcMessage, IpcObject, IpcUndo,
    IpcUndoList, IpcUser, ProcessRecord, in_order,
};

use super::{
    Kind, RECORD_SIZE, at, count, discharge, give_back, is_listed, keys, lock_all, message, remove_unless_attached,
    semaphore, slot, state, table, trim, undo,
};
use crate::{Context, cores::is_dead, slab};

/// Repairs all of it, whose lock a dead core held and this one has now. The tables' words, each queue's links forward, and what records of undoing say of
/// themselves are the truth; a change of semaphores that is written down is made again.
pub fn recover(context: &impl Context) {
    Kind::ALL.into_iter().for_each(|kind| repair_table(context, kind));
    repair_undo(context);
    semaphore::make_again(context);
    count_users(context);
    free_unfinished(context);
    Kind::ALL.into_iter().for_each(|kind| trim(context, table(context, kind)));
}

fn repair_table(context: &impl Context, kind: Kind) {
    let table = table(context, kind);
    table.keys.set(0);
    table.count.set(0);
    table.high.set(0);
    for place in (0..(IPC_TABLE_FRAMES * IPC_PER_FRAME) as u32).filter(|&place| place < kind.most()) {
        let Some(word) = slot(context, table, place) else { continue };
        let object = context.object::<IpcObject>(u64::from(word.get()) << 6);
        let Some(object) = object.filter(|object| Kind::of(object) == Some(kind)) else {
            word.set(0);
            continue;
        };
        table.count.set(table.count.get() + 1);
        table.high.set(place + 1);
        if object.key.get() != 0 {
            keys(context, kind).insert(object);
        }
        if kind == Kind::Queue {
            message::repair(context, object);
        }
    }
}

/// Sets' trees and lists' chains are made anew, and lists are counted by the processes that have them.
fn repair_undo(context: &impl Context) {
    let lists = || slab::all::<IpcUndoList>(context).filter(|list| list.kind.get() == IPC_UNDO_LIST);
    let sets = slab::all::<IpcObject>(context).filter(|object| Kind::of(object) == Some(Kind::Set));
    sets.for_each(|set| set.undo.set(0));
    for list in lists() {
        list.first.set(0);
        list.refs.set(0);
    }
    for process in slab::all::<ProcessRecord>(context).filter(|process| process.undo.get() != 0) {
        if let Some(list) = undo::list_of(context, process) {
            list.refs.set(list.refs.get() + 1);
        }
    }
    for record in slab::all::<IpcUndo>(context).filter(|undo| undo.kind.get() == IPC_UNDO) {
        let set = context.object::<IpcObject>(record.set.get()).filter(|set| is_listed(context, set));
        let list = context.object::<IpcUndoList>(record.list.get());
        let list = list.filter(|list| list.kind.get() == IPC_UNDO_LIST && list.refs.get() != 0);
        match set.zip(list) {
            Some((set, list)) => undo::enter(context, record, set, list),
            None => {
                record.kind.set(0);
                in_order();
                slab::free(context, record);
            }
        }
    }
    lists().filter(|list| list.refs.get() == 0).for_each(|list| undo::free_list(context, list));
}

/// Frees objects that are not in their table: one that was being made or removed.
fn free_unfinished(context: &impl Context) {
    let unfinished =
        slab::all::<IpcObject>(context).filter(|object| Kind::of(object).is_some() && !is_listed(context, object));
    for object in unfinished {
        discharge(context, object.user.get(), object.charge.get());
        if Kind::of(object) == Some(Kind::Queue) {
            message::repair(context, object);
        }
        give_back(context, object);
    }
}

/// Counts anew what users have.
fn count_users(context: &impl Context) {
    state(context).users.set(0);
    for user in slab::all::<IpcUser>(context).filter(|user| user.kind.get() == IPC_USER) {
        user.bytes.set(0);
        user.refs.set(0);
        user.objects.iter().for_each(|count| count.set(0));
        user.next.set(state(context).users.get());
        state(context).users.set(context.raw(user));
    }
    let add = |user: u64, bytes: u64| {
        if let Some(user) = context.object::<IpcUser>(user).filter(|user| user.kind.get() == IPC_USER) {
            user.bytes.set(user.bytes.get().saturating_add(bytes));
            user.refs.set(user.refs.get() + 1);
        }
    };
    for kind in Kind::ALL {
        table(context, kind).count.set(0);
        table(context, kind).total.set(0);
    }
    for object in slab::all::<IpcObject>(context) {
        let Some(kind) = Kind::of(object) else { continue };
        add(object.user.get(), object.charge.get());
        if is_listed(context, object) {
            count(context, kind, object, true);
        }
    }
    for message in slab::all::<IpcMessage>(context).filter(|message| message.kind.get() == IPC_MESSAGE) {
        add(message.user.get(), message::cost_of(u64::from(message.len.get())));
    }
    for undo in slab::all::<IpcUndo>(context).filter(|undo| undo.kind.get() == IPC_UNDO) {
        add(undo.user.get(), RECORD_SIZE);
    }
    let unused = slab::all::<IpcUser>(context).filter(|user| user.kind.get() == IPC_USER && user.refs.get() == 0);
    for user in unused {
        user.refs.set(1);
        discharge(context, context.raw(user), 0);
    }
}

/// Islands have died: frees messages that belonged to their cores, and segments that are destroyed and that their processes alone had attached. The lock is not held.
pub fn settle(context: &impl Context) {
    let _guard = lock_all(context);
    for message in slab::all::<IpcMessage>(context).filter(|message| message.kind.get() == IPC_MESSAGE) {
        if message::holder_of(message).is_some_and(|core| is_dead(context, core)) {
            message::free(context, message);
        }
    }
    for place in 0..table(context, Kind::Segment).high.get() {
        if let Some(segment) = at(context, Kind::Segment, place) {
            remove_unless_attached(context, segment);
        }
    }
}
