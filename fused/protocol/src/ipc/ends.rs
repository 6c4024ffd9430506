//! The end of a process that has operated on semaphores: what it has to undo is undone.

use motet_layout::{IPC_WORDS, IpcObject, IpcUndo, IpcUndoList, ProcessRecord, in_order};

use super::{
    semaphore::{Change, VALUE_MAX, value},
    undo,
};
use crate::Context;

/// Undoes what a list has of some semaphores. `false`: it has nothing more.
fn undo_some(context: &impl Context, list: &'static IpcUndoList, pid: u32, now_s: u64) -> bool {
    let Some(record) = context.object::<IpcUndo>(list.first.get()) else { return false };
    if let Some(set) = context.object::<IpcObject>(record.set.get()) {
        let mut change = Change::new(context, set, Some(list));
        let mut is_any = false;
        for (index, adjust) in record.adjust.iter().enumerate().filter(|(_, adjust)| adjust.get() != 0) {
            let number = (record.part.get() as usize * IPC_WORDS + index) as u16;
            let value = value(context, set, number).saturating_add(adjust.get().cast_signed());
            change.put(number, value.clamp(0, VALUE_MAX), Some(0));
            is_any = true;
        }
        if is_any {
            set.times_s[0].set(now_s);
            change.make(pid);
        }
    }
    undo::drop_record(context, record);
    true
}

/// A process ends, or has its list no more: the last one that has it undoes a part of what is left. `false`: there is more.
pub fn leave_some(context: &impl Context, process: &ProcessRecord, now_s: u64) -> bool {
    let Some(list) = undo::list_of(context, process) else {
        process.undo.set(0);
        return true;
    };
    if list.refs.get() <= 1 && undo_some(context, list, process.pid.get(), now_s) {
        return false;
    }
    process.undo.set(0);
    in_order();
    drop_list(context, list);
    true
}

/// A process has a list no more. The last one has undone what there was.
fn drop_list(context: &impl Context, list: &'static IpcUndoList) {
    list.refs.set(list.refs.get().saturating_sub(1));
    if list.refs.get() == 0 {
        undo::free_list(context, list);
    }
}
