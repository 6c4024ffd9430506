//! Watches of inodes (inotify(7)): who watches, what is watched, and what was told. All under the header's `notify.lock`, unless a field says otherwise.

use crate::{AtomicByte, Cell32, Cell64, NotifyLock, TreeLinks, WaitQueue, sync::AtomicU32};

/// Bytes in a frame of what was told.
pub const TOLD_BYTES: usize = 4080;

pool_struct! {
    /// All of it, but for how many watches there are, which the header says.
    pub struct NotifyState: size 64, align 64 {
        /// Guards all of it.
        0 pub lock: NotifyLock,
        /// The first [`InotifyRecord`] (pool address).
        8 pub instances: Cell64,
        /// The [`InotifyRecord`] whose queue is being changed (pool address), 0: none is. Whoever finds it here after a death empties that queue.
        16 pub changing: Cell64,
        /// The last cookie of two events that belong together.
        24 pub cookie: Cell32,
        28 _pad0: Cell32,
        32 _pad1: [Cell64; 4],
    }
}

pool_struct! {
    /// What one open file watches, and what it was told and has not been read.
    pub struct InotifyRecord: size 128, align 64 {
        0 _free: Cell64,
        /// 1: it is one. From before it is in the list until it is out.
        8 pub is_used: Cell32,
        /// The user whom it is counted for.
        12 pub uid: Cell32,
        /// The next of all (pool address).
        16 pub next: Cell64,
        /// The previous one.
        24 pub prev: Cell64,
        /// Threads that wait for something to be told.
        32 pub waiters: WaitQueue,
        /// Events to be read. Also looked at without the lock, as the next three.
        64 pub count: AtomicU32,
        /// Bytes that reading them gives.
        68 pub bytes: AtomicU32,
        /// 1: behind these, events were lost.
        72 pub lost: AtomicU32,
        /// How often something was told.
        76 pub arrivals: AtomicU32,
        /// First and last [`ToldFrame`] (pool addresses), 0: there is none.
        80 pub frames: [Cell64; 2],
        /// How much of the first one has been read.
        96 pub head: Cell32,
        /// Where the last event begins in the last frame, if `count` is not 0.
        100 pub last: Cell32,
        /// How many frames there are.
        104 pub frame_count: Cell32,
        /// How many watches.
        108 pub watch_count: Cell32,
        /// The number that was given last.
        112 pub last_number: Cell32,
        /// 1 + the core that makes it, until an open file has it.
        116 pub maker: AtomicU32,
        /// Watches by number: the top [`InodeWatch`] of a tree (pool address).
        120 pub watches: Cell64,
    }
}

pool_struct! {
    /// A watch of an inode.
    pub struct InodeWatch: size 64, align 64 {
        /// Among those of its open file, by number.
        0 pub links: TreeLinks,
        /// The inode (pool address). The watch has no reference to it; it goes when the inode does.
        24 pub inode: Cell64,
        /// Whose it is ([`InotifyRecord`], pool address).
        32 pub instance: Cell64,
        /// The next of the inode (pool address).
        40 pub next: Cell64,
        /// The previous one.
        48 pub prev: Cell64,
        /// Its number (`wd`).
        56 pub number: Cell32,
        /// `IN_*`: what is told, and how. 0: it is nothing.
        60 pub mask: Cell32,
    }
}

pool_struct! {
    /// A frame of events, each as programs read it.
    pub struct ToldFrame: size 4096, align 64 {
        /// The next one (pool address), 0: it is the last.
        0 pub next: Cell64,
        /// Bytes that are used.
        8 pub used: Cell32,
        12 _pad0: Cell32,
        /// Events.
        16 pub bytes: [AtomicByte; 4080],
    }
}

// Lengths of arrays above.
const _: () = assert!(TOLD_BYTES == 4080);
