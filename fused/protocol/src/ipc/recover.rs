//! Repair when a core has died with the lock held, and what dead cores have left.

use motet_layout::{
    IPC_MESSAGE, IPC_PER_FRAME, IPC_TABLE_FRAMES, IPC_UNDO, IPC_UNDO_LIST, IPC_USER, IpcMessage, IpcObject, IpcUndo,
    IpcUndoList, IpcUser, ProcessRecord, in_order,
};

use super::{
    Kind, RECORD_SIZE, at, count, discharge, give_back, is_listed, keys, lock_all, message, posix,
    remove_unless_attached, semaphore, slot, state, table, trim, undo,
};
use crate::{Context, cores::is_dead, slab};

/// A record that is in use. All of them have one slab class.
enum Record {
    Object(&'static IpcObject, Kind),
    Message(&'static IpcMessage),
    Undo(&'static IpcUndo),
    List(&'static IpcUndoList),
    User(&'static IpcUser),
}

/// All records that are in use: one walk over the pool's frames, of which a repair makes as few as it can.
fn records(context: &impl Context) -> impl Iterator<Item = Record> {
    slab::all::<IpcObject>(context).filter_map(move |object| {
        let raw = context.raw(object);
        match object.kind.get() {
            IPC_MESSAGE => context.object(raw).map(Record::Message),
            IPC_UNDO => context.object(raw).map(Record::Undo),
            IPC_UNDO_LIST => context.object(raw).map(Record::List),
            IPC_USER => context.object(raw).map(Record::User),
            _ => Kind::of(object).map(|kind| Record::Object(object, kind)),
        }
    })
}

/// Repairs all of it, whose lock a dead core held and this one has now. The tables' words, each queue's links forward, and what records of undoing say of
/// themselves are the truth; a change of semaphores that is written down is made again.
pub fn recover(context: &impl Context) {
    Kind::ALL.into_iter().for_each(|kind| repair_table(context, kind));
    forget_links(context);
    count_lists(context);
    link_undo(context);
    semaphore::make_again(context);
    count_users(context);
    free_unused(context);
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
        if kind.has_messages() {
            message::repair(context, object);
        }
    }
}

/// Sets' trees, lists' chains and users' counts are made anew.
fn forget_links(context: &impl Context) {
    state(context).users.set(0);
    for record in records(context) {
        match record {
            Record::Object(object, Kind::Set) => object.undo.set(0),
            Record::List(list) => {
                list.first.set(0);
                list.refs.set(0);
            }
            Record::User(user) => {
                user.bytes.set(0);
                user.refs.set(0);
                user.objects.iter().for_each(|count| count.set(0));
                user.queue_bytes.set(0);
                user.next.set(state(context).users.get());
                state(context).users.set(context.raw(user));
            }
            Record::Object(..) | Record::Message(_) | Record::Undo(_) => {}
        }
    }
}

/// Lists are counted by the processes that have them.
fn count_lists(context: &impl Context) {
    for process in slab::all::<ProcessRecord>(context).filter(|process| process.undo.get() != 0) {
        if let Some(list) = undo::list_of(context, process) {
            list.refs.set(list.refs.get() + 1);
        }
    }
}

/// Records of undoing go into their sets' trees and their lists' chains; those go that lack either.
fn link_undo(context: &impl Context) {
    for record in records(context) {
        let Record::Undo(undo) = record else { continue };
        let set = context.object::<IpcObject>(undo.set.get()).filter(|set| is_listed(context, set));
        let list = context.object::<IpcUndoList>(undo.list.get());
        let list = list.filter(|list| list.kind.get() == IPC_UNDO_LIST && list.refs.get() != 0);
        match set.zip(list) {
            Some((set, list)) => undo::enter(context, undo, set, list),
            None => {
                undo.kind.set(0);
                in_order();
                slab::free(context, undo);
            }
        }
    }
}

/// Counts anew what tables have, and users.
fn count_users(context: &impl Context) {
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
    for record in records(context) {
        match record {
            Record::Object(object, kind) => {
                add(object.user.get(), object.charge.get());
                if is_listed(context, object) {
                    count(context, kind, object, true);
                }
            }
            Record::Message(message) => add(message.user.get(), message::cost_of(u64::from(message.len.get()))),
            Record::Undo(undo) => add(undo.user.get(), RECORD_SIZE),
            Record::List(_) | Record::User(_) => {}
        }
    }
}

/// Frees objects that are not in their table (one that was being made or removed), lists that no process has, and users who have nothing.
fn free_unused(context: &impl Context) {
    for record in records(context) {
        match record {
            Record::Object(object, kind) if !is_listed(context, object) => {
                discharge(context, object.user.get(), object.charge.get());
                if kind.has_messages() {
                    message::repair(context, object);
                }
                give_back(context, object);
            }
            Record::List(list) if list.refs.get() == 0 => undo::free_list(context, list),
            Record::User(user) if user.refs.get() == 0 => {
                user.refs.set(1);
                discharge(context, context.raw(user), 0);
            }
            Record::Object(..) | Record::Message(_) | Record::Undo(_) | Record::List(_) | Record::User(_) => {}
        }
    }
}

/// Islands have died: frees messages that belonged to their cores, segments that are destroyed and that their processes alone had attached, and queues without a file. The lock is
/// not held.
pub fn settle(context: &impl Context) {
    let _guard = lock_all(context);
    for record in records(context) {
        if let Record::Message(message) = record
            && message::holder_of(message).is_some_and(|core| is_dead(context, core))
        {
            message::free(context, message);
        }
    }
    for place in 0..table(context, Kind::Segment).high.get() {
        if let Some(segment) = at(context, Kind::Segment, place) {
            remove_unless_attached(context, segment);
        }
    }
    posix::remove_unnamed(context);
}
