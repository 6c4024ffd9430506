//! Queues of messages that files name (mq_overview(7)): messages have priorities instead of types, and the highest comes first.
//!
//! The file says which queue it has, and the queue which file has it. It goes with the file.

use motet_abi::Errno;
use motet_layout::{Cell32, FileRecord, InodeRecord, IpcObject, IpcUser, in_order, sync::Ordering};

use super::{Kind, Maker, at, find_user, lock_all, message::LEN_MAX, remove, table};
use crate::Context;

/// Priorities are below this (`MQ_PRIO_MAX`).
pub const PRIORITIES: u32 = 32768;
/// Messages that a queue may have, of one who is not privileged (`msg_max`) and of one who is; and as it is made if nothing is said (`msg_default`).
pub const COUNT_MAX: [u64; 2] = [10, 1024];
/// Bytes of a message at most (`msgsize_max`), and if nothing is said.
pub const BYTES_MAX: u64 = LEN_MAX;
/// Queues of a user who is not privileged (`queues_max`).
pub const QUEUES_MAX: u32 = Kind::Posix.most() / super::SHARE;
/// Linux's `struct msg_msg` and `struct posix_msg_tree_node`, by which `RLIMIT_MSGQUEUE` counts.
const COUNTED: u64 = 48;

/// What a queue has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Messages.
    pub count: u64,
    /// Bytes of one.
    pub bytes: u64,
}

impl Room {
    /// What is made if nothing is said.
    pub const DEFAULT: Self = Self { count: COUNT_MAX[0], bytes: BYTES_MAX };

    /// That of a queue.
    pub fn of(queue: &IpcObject) -> Self {
        let [count, bytes] = [0, 1].map(|word| u64::from(queue.words[word].get()));
        Self { count, bytes: bytes.min(BYTES_MAX) }
    }

    /// Bytes that a queue is counted for: all of its messages.
    fn cost(self) -> u64 {
        // A record and a node of the tree each: there are more priorities than messages.
        self.count * (self.bytes + 2 * COUNTED)
    }
}

/// Gives a new file, which nobody else knows yet, a queue. `limit`: bytes that the maker's user may have in such queues.
///
/// # Errors
/// `EMFILE`: the user would have more bytes; `ENOSPC`: the user has too many queues, or there are; `ENOMEM`.
pub fn make(
    context: &impl Context,
    inode: &'static InodeRecord,
    room: Room,
    maker: &Maker,
    limit: u64,
) -> Result<(), Errno> {
    let _guard = lock_all(context);
    let bytes = find_user(context, maker.uid).map_or(0, |user: &IpcUser| user.queue_bytes.get());
    if bytes.saturating_add(room.cost()) > limit {
        return Err(Errno::EMFILE);
    }
    let queue = super::make(context, Kind::Posix, (0, 0), maker, 0, |queue| {
        queue.size.set(room.cost());
        queue.words[0].set(room.count as u32);
        queue.words[1].set(room.bytes as u32);
        queue.inode.set(context.raw(inode));
        Ok(())
    })?;
    inode.queue.store(context.raw(queue), Ordering::Release);
    Ok(())
}

/// The queue that a file names. The lock need not be held.
pub fn of(context: &impl Context, inode: &InodeRecord) -> Option<&'static IpcObject> {
    let queue = context.object::<IpcObject>(inode.queue.load(Ordering::Acquire))?;
    (Kind::of(queue) == Some(Kind::Posix)).then_some(queue)
}

/// A file goes that has named a queue: so does the queue. The lock is not held.
#[cold]
pub fn end(context: &impl Context, inode: &InodeRecord) {
    let _guard = lock_all(context);
    let queue = of(context, inode);
    inode.queue.store(0, Ordering::Relaxed);
    if let Some(queue) = queue {
        remove(context, queue);
    }
}

/// Whether a queue has room for another message.
pub fn has_room(queue: &IpcObject) -> bool {
    queue.count.get() < Room::of(queue).count
}

/// Who is told that a message has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The process.
    pub pid: u32,
    /// The signal; 0: none is sent.
    pub signal: u32,
    /// What its handler is told.
    pub value: u64,
}

/// Who is told once that a message has come; `None`: nobody is.
pub fn notice(queue: &IpcObject) -> Option<Notice> {
    let [pid, signal] = queue.notified_by.each_ref().map(Cell32::get);
    (queue.notified.get() != 0).then(|| Notice { pid, signal, value: queue.notified_value.get() })
}

/// A process wants to be told, which has this descriptor table (pool address).
///
/// # Errors
/// `EBUSY`: one does already.
pub fn notify(queue: &IpcObject, files: u64, notice: Notice) -> Result<(), Errno> {
    if queue.notified.get() != 0 {
        return Err(Errno::EBUSY);
    }
    queue.notified_by[0].set(notice.pid);
    queue.notified_by[1].set(notice.signal);
    queue.notified_value.set(notice.value);
    in_order();
    queue.notified.set(files);
    Ok(())
}

/// Nobody is told any more, if it is whoever has this descriptor table.
pub fn forget_notice(queue: &IpcObject, files: u64) {
    if queue.notified.get() == files {
        queue.notified.set(0);
    }
}

/// A descriptor of a queue is closed in a table: its process is not told any more. The lock is not held.
#[cold]
pub fn descriptor_closed(context: &impl Context, file: &FileRecord, files: u64) {
    if let Some(inode) = context.object::<InodeRecord>(file.inode.get())
        && let Some(queue) = of(context, inode)
        && queue.notified.get() == files
    {
        let _guard = lock_all(context);
        forget_notice(queue, files);
    }
}

/// Removes queues that no file has: of dead cores that were making one, or about to remove it.
pub(super) fn remove_unnamed(context: &impl Context) {
    for place in 0..table(context, Kind::Posix).high.get() {
        let Some(queue) = at(context, Kind::Posix, place) else { continue };
        let inode = context.object::<InodeRecord>(queue.inode.get());
        let is_named = inode.is_some_and(|inode| {
            inode.refs.load(Ordering::Relaxed) != 0 && inode.queue.load(Ordering::Relaxed) == context.raw(queue)
        });
        if !is_named {
            remove(context, queue);
        }
    }
}
