//! System V IPC (sysvipc(7)): segments of shared memory, sets of semaphores, queues of messages. All under the header's `ipc.lock`, unless a field says otherwise.
//!
//! All records have one size and one slab class, and their wait queues at the same place: who leaves a queue late must find a queue there.

use crate::{AtomicByte, Cell32, Cell64, IpcLock, TreeLinks, WaitQueue, pool_struct, sync::AtomicU32};

/// Kinds of objects with ids, as the places of [`IpcState::tables`]: segments.
pub const IPC_SEGMENTS: usize = 0;
/// Sets of semaphores.
pub const IPC_SETS: usize = 1;
/// Queues of messages.
pub const IPC_QUEUES: usize = 2;
/// Place in `tables`: queues of messages that files name.
pub const IPC_POSIX_QUEUES: usize = 3;

/// [`IpcObject::kind`] of what is in table 0; those of the next tables are 1 and 2 more.
pub const IPC_FIRST_KIND: u32 = 1;
/// [`IpcMessage::kind`].
pub const IPC_MESSAGE: u32 = 4;
/// [`IpcUndo::kind`].
pub const IPC_UNDO: u32 = 5;
/// [`IpcUndoList::kind`].
pub const IPC_UNDO_LIST: u32 = 6;
/// [`IpcUser::kind`].
pub const IPC_USER: u32 = 7;
/// [`IpcObject::kind`]: a queue of messages that a file names.
pub const IPC_POSIX_QUEUE: u32 = 8;

/// Frames of a table.
pub const IPC_TABLE_FRAMES: usize = 32;
/// Places in a frame of a table: addresses, in units of 64 bytes.
pub const IPC_PER_FRAME: usize = 1024;
/// Words at the end of an [`IpcObject`]; semaphores of an [`IpcUndo`].
pub const IPC_WORDS: usize = 64;
/// Semaphores in a frame.
pub const IPC_SEMAPHORES_PER_FRAME: usize = 1024;
/// Bytes of a message in its own record.
pub const IPC_INLINE: usize = 384;
/// Entries of the journal.
pub const IPC_JOURNAL: usize = 512;

pool_struct! {
    /// All of System V IPC.
    pub struct IpcState: size 8192, align 64 {
        /// Guards all of it.
        0 pub lock: IpcLock,
        /// Users who have something of it: the first [`IpcUser`] (pool address).
        8 pub users: Cell64,
        /// What a core is changing in semaphores at once: how many entries of `journal` are valid; 0: none. Whoever finds a number here does that change again.
        16 pub journal_len: Cell32,
        /// The process that changes them.
        20 pub journal_pid: Cell32,
        /// Their set ([`IpcObject`], pool address).
        24 pub journal_set: Cell64,
        /// The [`IpcUndoList`] whose adjustments change (pool address), 0: none do.
        32 pub journal_list: Cell64,
        40 _pad0: [Cell64; 3],
        /// By kind: `IPC_SEGMENTS`, `IPC_SETS`, `IPC_QUEUES`, `IPC_POSIX_QUEUES`.
        64 pub tables: [IpcTable; 4],
        704 _pad1: [Cell64; 424],
        /// A semaphore's number, its value from bit 16 on, its adjustment from bit 32 on, bit 48: which that has.
        4096 pub journal: [Cell64; 512],
    }
}

pool_struct! {
    /// The objects of a kind.
    pub struct IpcTable: size 160, align 8 {
        /// Those with a key: the top of a tree (pool address).
        0 pub keys: Cell64,
        /// Frames of addresses of [`IpcObject`]s (in units of 64 bytes), by place (frame numbers), 0: not needed yet.
        8 pub frames: [Cell32; 32],
        /// How many objects there are.
        136 pub count: Cell32,
        /// One past the highest place in use.
        140 pub high: Cell32,
        /// 1 + the place that was given last.
        144 pub last: Cell32,
        /// What ids are made of beside the place.
        148 pub sequence: Cell32,
        /// Bytes of all segments, in whole pages, or semaphores of all sets.
        152 pub total: Cell64,
    }
}

pool_struct! {
    /// A segment, a set of semaphores, or a queue of messages.
    pub struct IpcObject: size 512, align 64 {
        0 _free: Cell64,
        /// [`IPC_FIRST_KIND`] + its table, or [`IPC_POSIX_QUEUE`]. 0: it is nothing.
        8 pub kind: Cell32,
        /// Its id: what is in the table at the place that the lowest 15 bits say.
        12 pub id: Cell32,
        /// Its key; 0: it has none.
        16 pub key: Cell32,
        /// Who may use it, and [`SHM_DEST`](crate::IPC_DESTROYED).
        20 pub mode: Cell32,
        /// Owner.
        24 pub uid: Cell32,
        /// The owner's group.
        28 pub gid: Cell32,
        /// Who has made it.
        32 pub cuid: Cell32,
        /// The maker's group.
        36 pub cgid: Cell32,
        /// Among those with keys.
        40 pub links: TreeLinks,
        /// Threads that wait for semaphores, or for a message; and for room in a queue.
        64 pub waiters: [WaitQueue; 2],
        /// Seconds since 1970 when it was changed.
        128 pub changed_s: Cell64,
        /// Whose it is counted for ([`IpcUser`], pool address), 0: nobody's.
        136 pub user: Cell64,
        /// Bytes that it is counted for.
        144 pub charge: Cell64,
        /// Seconds since 1970. A segment: attached, detached (by who does it, without the lock). A set: operated on. A queue: sent to, received from.
        152 pub times_s: [Cell64; 2],
        /// Processes. A segment's: who made it, who has attached or detached it last. A queue's: who has sent last, who has received last.
        168 pub pids: [Cell32; 2],
        /// Bytes of a segment; how many semaphores; bytes that a queue may have, or that one which a file names is counted for.
        176 pub size: Cell64,
        /// A segment's pages ([`InodeRecord`](crate::InodeRecord), pool address), with a reference. A queue's file, without one.
        184 pub inode: Cell64,
        /// A queue's messages.
        192 pub count: Cell64,
        /// Bytes in them.
        200 pub bytes: Cell64,
        /// First and last [`IpcMessage`] (pool addresses).
        208 pub messages: [Cell64; 2],
        /// A set's adjustments: the top of a tree of [`IpcUndo`] (pool address).
        224 pub undo: Cell64,
        /// Who is told once that a message has come to a queue that was empty: a descriptor table ([`FilesRecord`](crate::FilesRecord), pool address), 0: nobody.
        232 pub notified: Cell64,
        /// What a handler of that signal is told.
        240 pub notified_value: Cell64,
        /// The process, and the signal; 0: none is sent.
        248 pub notified_by: [Cell32; 2],
        /// A set's semaphores, if they fit: value, and from bit 16 on the process that has changed it last. Otherwise its frames of such (frame numbers). The first one of
        /// a segment: the key that it was made with. The first ones of a queue that a file names: how many messages it may have, and bytes of one of these.
        256 pub words: [Cell32; 64],
    }
}

/// [`IpcObject::mode`]: a segment that goes when nobody has it attached any more.
pub const IPC_DESTROYED: u32 = 0o1000;
/// [`IpcObject::mode`]: a segment whose pages stay in memory.
pub const IPC_LOCKED: u32 = 0o2000;

pool_struct! {
    /// A message.
    pub struct IpcMessage: size 512, align 64 {
        /// The next one of its queue (pool address).
        0 pub next: Cell64,
        /// [`IPC_MESSAGE`]. 0: it is nothing.
        8 pub kind: Cell32,
        /// Bytes.
        12 pub len: Cell32,
        /// Its type.
        16 pub mtype: Cell64,
        /// 1 + the core that sends or receives it, and frees it; 0: it is in a queue.
        24 pub holder: AtomicU32,
        28 _pad0: Cell32,
        32 _pad1: Cell64,
        /// Whose it is counted for ([`IpcUser`], pool address), 0: nobody's.
        40 pub user: Cell64,
        /// If its bytes do not fit into the record: where they are (frame numbers).
        48 pub frames: [Cell32; 2],
        56 _pad2: Cell64,
        64 _queues: [WaitQueue; 2],
        /// Its bytes, if they fit.
        128 pub bytes: [AtomicByte; 384],
    }
}

pool_struct! {
    /// What is added to some semaphores of a set when the processes end that have an undo list (`SEM_UNDO`).
    pub struct IpcUndo: size 512, align 64 {
        /// The next one of the list (pool address).
        0 pub next: Cell64,
        /// [`IPC_UNDO`]. 0: it is nothing.
        8 pub kind: Cell32,
        /// The first semaphore, by [`IPC_WORDS`].
        12 pub part: Cell32,
        /// The set ([`IpcObject`], pool address).
        16 pub set: Cell64,
        /// The list ([`IpcUndoList`], pool address).
        24 pub list: Cell64,
        /// The previous one of the list (pool address).
        32 pub prev: Cell64,
        /// Among those of the set, by list and part.
        40 pub links: TreeLinks,
        64 _queues: [WaitQueue; 2],
        /// Whose it is counted for ([`IpcUser`], pool address), 0: nobody's.
        128 pub user: Cell64,
        136 _pad: [Cell64; 15],
        /// By semaphore, two's complement.
        256 pub adjust: [Cell32; 64],
    }
}

pool_struct! {
    /// What processes that share it (`CLONE_SYSVSEM`) have to undo.
    pub struct IpcUndoList: size 512, align 64 {
        0 _free: Cell64,
        /// [`IPC_UNDO_LIST`]. 0: it is nothing.
        8 pub kind: Cell32,
        /// Processes that have it.
        12 pub refs: Cell32,
        /// The first [`IpcUndo`] (pool address).
        16 pub first: Cell64,
        24 _pad0: [Cell64; 5],
        64 _queues: [WaitQueue; 2],
        128 _pad1: [Cell64; 48],
    }
}

pool_struct! {
    /// What a user has of it.
    pub struct IpcUser: size 512, align 64 {
        /// The next one (pool address).
        0 pub next: Cell64,
        /// [`IPC_USER`]. 0: it is nothing.
        8 pub kind: Cell32,
        /// The user's id.
        12 pub id: Cell32,
        /// Bytes of all of that.
        16 pub bytes: Cell64,
        /// Objects by kind.
        24 pub objects: [Cell32; 4],
        /// Records that are counted for the user; with the last one this goes.
        40 pub refs: Cell32,
        44 _pad2: Cell32,
        /// Bytes that queues which files name are counted for (`RLIMIT_MSGQUEUE`).
        48 pub queue_bytes: Cell64,
        56 _pad0: Cell64,
        64 _queues: [WaitQueue; 2],
        128 _pad1: [Cell64; 48],
    }
}

// Lengths of arrays above.
const _: () = assert!(IPC_TABLE_FRAMES == 32 && IPC_WORDS == 64 && IPC_INLINE == 384 && IPC_JOURNAL == 512);
