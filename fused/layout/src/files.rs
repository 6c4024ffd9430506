//! Files: inodes, directory entries, open files, descriptors, pipes.

use crate::sync::{AtomicU32, AtomicU64};

use crate::{
    AtomicByte, Cell32, Cell64, ClockLock, DescriptorsLock, EventLock, FileLock, InodeLock, InterestsLock, PipeLock,
    TreeLinks, WaitNode, WaitQueue, pool_struct,
};

/// Buckets of a directory's index.
pub const DIRECTORY_BUCKETS: usize = 16;

pool_struct! {
    /// A file of the ramfs: directory, regular file, symbolic link, device node or named pipe.
    pub struct InodeRecord: size 512, align 64 {
        /// Guards contents, size and directory lists.
        0 pub lock: InodeLock,
        /// Directory entries, open files, mappings and working directories that refer to it.
        8 pub refs: AtomicU32,
        /// Linux `st_mode`: type and permissions.
        12 pub mode: Cell32,
        /// Inode number.
        16 pub number: Cell64,
        /// Bytes (of the target, for a symbolic link).
        24 pub size: AtomicU64,
        /// Directory entries that name it.
        32 pub links: AtomicU32,
        /// Owner.
        36 pub uid: Cell32,
        /// Group.
        40 pub gid: Cell32,
        /// Linux device number of a device node.
        44 pub rdev: Cell32,
        /// Nanoseconds since 1970 of the last access: an `i64`, as all times of files.
        48 pub accessed_ns: Cell64,
        /// Nanoseconds since 1970 of the last change of contents.
        56 pub modified_ns: Cell64,
        /// Nanoseconds since 1970 of the last change of this record.
        64 pub changed_ns: Cell64,
        /// Nanoseconds since 1970 of its creation.
        72 pub created_ns: Cell64,
        /// Parent directory (pool address): of a directory, with a reference; of other files, where they were last linked.
        80 pub parent: AtomicU64,
        /// Entries (directories only).
        88 pub entry_count: Cell32,
        /// Number of the next entry made here (`d_off` order).
        92 pub next_entry: Cell32,
        /// Root of the page tree: frame number of an index frame, or of page 0 when `page_levels` is 0.
        96 pub pages: Cell32,
        /// Levels of index frames above the pages (512 entries of 8 bytes each).
        100 pub page_levels: Cell32,
        /// Pages present.
        104 pub page_count: Cell32,
        /// Of a directory that the root of a file system covers: which, `MOUNT_*`. The header's `mounts` says where that is.
        108 pub mount: Cell32,
        /// Pipe of a named pipe (pool address).
        112 pub pipe: AtomicU64,
        /// First and last entry in creation order (directories, pool addresses).
        120 pub entries: [Cell64; 2],
        /// Directory index: what hashes of names start with.
        136 pub hash_start: Cell32,
        /// Directory index: buckets in the page tree, behind those here.
        140 pub more_buckets: Cell32,
        /// 1: its pages are registers of the service core, of which it is an owner. It has no other pages.
        144 pub service: Cell32,
        /// 1 + the interface of the FPGA whose registers and data section its pages are; 0: none. It has no other pages.
        148 pub fpga: Cell32,
        /// Pieces of virtual machines' memory that its pages are.
        152 pub guests: AtomicU32,
        /// 1: its pages are a device's: `service`, `fpga`, `late`.
        156 pub is_device: Cell32,
        /// While the page tree gets a level: what `pages` (low half) and `page_levels` become; otherwise 0.
        160 pub new_root: Cell64,
        /// Of such a file: pages that have arrived, a bit each. Set under `lock`, when the page has its bytes.
        168 pub late_arrived: AtomicU64,
        /// Pages that somebody has faulted on.
        176 pub late_wanted: AtomicU64,
        /// Pages that whoever reads the file has been told of. Under `lock`.
        184 pub late_told: Cell64,
        /// Directory index: first entry per hash bucket (pool addresses).
        192 pub buckets: [Cell64; 16],
        /// Threads that wait for the whole-file lock.
        320 pub flock_waiters: WaitQueue,
        /// The whole-file lock (`flock`): number of shared holders, or [`FLOCK_EXCLUSIVE`].
        352 pub flock: Cell32,
        /// Linux's `F_SEAL_*`, with `F_SEAL_SEAL` inverted: what was not made for it (0) takes no seals. Changed under `lock`.
        356 pub seals: AtomicU32,
        /// Byte ranges that are locked: the top [`RangeRecord`] of a tree (pool address), 0: none.
        360 pub ranges: Cell64,
        /// `LATE_*`: whether its pages arrive when they are written (`/dev/late`).
        368 pub late: AtomicU32,
        /// 1: some space has, or had, a private mapping of it, with pages of which the file does not know.
        372 pub mapped_privately: AtomicU32,
        /// Open files that were opened for writing it ([`FileRecord::is_writer`]). Too high if a core has died that was opening or closing one.
        376 pub writers: AtomicU32,
        /// How many byte ranges are locked. With `ranges`.
        380 pub range_count: Cell32,
        /// The entry that named it last (pool address), if somebody still had it when that was removed; 0 otherwise. It goes with the inode.
        384 pub last_entry: AtomicU64,
        /// 1: it was made without a name, and may get one, though it has no links (`O_TMPFILE`).
        392 pub may_be_named: AtomicU32,
        396 _pad3: Cell32,
        /// The segment of shared memory whose pages these are ([`IpcObject`](crate::IpcObject), pool address); 0: they are none's.
        400 pub segment: AtomicU64,
        /// Who watches it: the first [`InodeWatch`](crate::InodeWatch) (pool address); 0: nobody does. Under the header's `notify.lock`; a word that others look at.
        408 pub watches: AtomicU64,
        /// The entry that named it last (pool address), a hint: entries' memory is never used for anything else, so what is there tells.
        416 pub entry: AtomicU64,
        /// The queue of messages that it names ([`IpcObject`](crate::IpcObject), pool address); 0: it is another file. Under the header's `ipc.lock`.
        424 pub queue: AtomicU64,
        432 _pad2: [Cell64; 10],
    }
}

/// [`InodeRecord::late`]: it has pages, or holes.
pub const LATE_NOT: u32 = 0;
/// [`InodeRecord::late`]: its pages arrive when they are written.
pub const LATE_ARRIVES: u32 = 1;
/// [`InodeRecord::late`]: what has not arrived does not any more: nobody has the file open.
pub const LATE_ENDED: u32 = 2;
/// Pages of such a file.
pub const LATE_PAGES: u64 = 64;

/// [`InodeRecord::flock`]: one open file holds the lock for itself.
pub const FLOCK_EXCLUSIVE: u32 = u32::MAX;

/// [`InodeRecord::mount`]: it is not covered. As a file system's root: that of the ramfs, which covers nothing.
pub const MOUNT_NONE: u32 = 0;
/// [`InodeRecord::mount`]: procfs.
pub const MOUNT_PROC: u32 = 1;
/// [`InodeRecord::mount`]: sysfs.
pub const MOUNT_SYS: u32 = 2;

/// Longest name of a directory entry, in bytes.
pub const NAME_MAX: usize = 255;

pool_struct! {
    /// A directory entry. Guarded by the directory inode's lock.
    pub struct EntryRecord: size 320, align 64 {
        /// Next in its hash bucket (pool address).
        0 pub bucket_next: Cell64,
        /// Next in creation order (pool address).
        8 pub next: Cell64,
        /// Previous in creation order (pool address).
        16 pub prev: Cell64,
        /// The inode it names (pool address).
        24 pub inode: Cell64,
        /// Hash of the name.
        32 pub hash: Cell32,
        /// Bytes in the name.
        36 pub name_len: Cell32,
        /// Position in the directory (`d_off`): ascending in creation order.
        40 pub position: Cell64,
        /// The directory that it is in (pool address), 0: none. Under the directory's lock.
        48 pub dir: Cell64,
        /// The number of the directory that it was removed from last; 0: it was not.
        56 pub left: Cell64,
        /// The name.
        64 pub name: [AtomicByte; 256],
    }
}

/// [`FileRecord::kind`]: a ramfs inode (regular or directory).
pub const FILE_INODE: u32 = 1;
/// [`FileRecord::kind`]: read end of a pipe.
pub const FILE_PIPE_READ: u32 = 2;
/// [`FileRecord::kind`]: write end of a pipe.
pub const FILE_PIPE_WRITE: u32 = 3;
/// [`FileRecord::kind`]: both ends of a named pipe.
pub const FILE_PIPE_BOTH: u32 = 4;
/// [`FileRecord::kind`]: a character device; `object` is its Linux device number.
pub const FILE_DEVICE: u32 = 5;
/// [`FileRecord::kind`]: a procfs node; `object` encodes which.
pub const FILE_PROC: u32 = 6;
/// [`FileRecord::kind`]: an event counter (`eventfd`); `object` is an [`EventRecord`].
pub const FILE_EVENT: u32 = 7;
/// [`FileRecord::kind`]: an interest list (`epoll`); `object` is an [`EpollRecord`].
pub const FILE_EPOLL: u32 = 8;
/// [`FileRecord::kind`]: a timer (`timerfd`); `object` is a [`ClockRecord`].
pub const FILE_TIMER: u32 = 9;
/// [`FileRecord::kind`]: a socket; `object` is a [`SocketRecord`](crate::SocketRecord).
pub const FILE_SOCKET: u32 = 10;
/// [`FileRecord::kind`]: signals that are read (`signalfd`); `object` is the set, bit signal-1.
pub const FILE_SIGNAL: u32 = 11;
/// [`FileRecord::kind`]: transfers (`/dev/dma`); `object` is a [`DmaFile`](crate::DmaFile).
pub const FILE_DMA: u32 = 12;
/// [`FileRecord::kind`]: the service core (`/dev/service`); `object` is the [`InodeRecord`] whose pages are registers.
pub const FILE_SERVICE: u32 = 13;
/// [`FileRecord::kind`]: an interface of the FPGA (`/dev/accel`); `object` is the [`InodeRecord`] whose pages are its registers and data.
pub const FILE_ACCEL: u32 = 14;
/// [`FileRecord::kind`]: a virtual machine (`/dev/vm`); `object` is its [`VmRecord`](crate::VmRecord).
pub const FILE_VM: u32 = 15;
/// [`FileRecord::kind`]: pages that arrive late (`/dev/late`); `object` is the [`InodeRecord`] whose pages they are.
pub const FILE_LATE: u32 = 16;
/// [`FileRecord::kind`]: a pseudo-terminal; `object` is its [`PtyRecord`](crate::PtyRecord).
pub const FILE_PTY: u32 = 17;
/// [`FileRecord::kind`]: the master of a pseudo-terminal; `object` is its [`PtyRecord`](crate::PtyRecord).
pub const FILE_PTY_MASTER: u32 = 18;
/// [`FileRecord::kind`]: a process (`pidfd`); `object` is its id.
pub const FILE_PIDFD: u32 = 19;
/// [`FileRecord::kind`]: watches of inodes (`inotify`); `object` is an [`InotifyRecord`](crate::InotifyRecord).
pub const FILE_INOTIFY: u32 = 20;
/// [`FileRecord::kind`]: a queue of messages (`mq_open`); `object` is its [`IpcObject`](crate::IpcObject).
pub const FILE_QUEUE: u32 = 21;

pool_struct! {
    /// An open file description.
    pub struct FileRecord: size 128, align 64 {
        /// Of a pipe: ends of it that this has not opened, or has closed, bit 0: reading, 1: writing. Guarded by the pipe's lock. Of a pseudo-terminal: 1: it
        /// is not counted, or no more. Guarded by the header's `ptys_lock`.
        0 pub ended: AtomicU32,
        /// `FILE_*`.
        4 pub kind: Cell32,
        /// Linux open flags, generic numbering: access mode and status flags.
        8 pub flags: AtomicU32,
        /// Descriptors (and system calls in progress) that refer to it: `motet_protocol::hand`.
        12 pub refs: AtomicU32,
        /// File position in bytes.
        16 pub offset: AtomicU64,
        /// Guards `offset` over a read or write.
        24 pub lock: FileLock,
        /// Inode (pool address), 0 when it has none.
        32 pub inode: Cell64,
        /// Pipe, counter, interest list, timer or socket (pool address), device number, procfs node or set of signals.
        40 pub object: Cell64,
        /// What it holds of its inode's whole-file lock: 0, 1 (shared) or [`FLOCK_EXCLUSIVE`]. Guarded by the inode's lock.
        48 pub flock: Cell32,
        /// 1: it has had a lock of a byte range.
        52 pub has_range_locks: AtomicU32,
        /// What watches it: the top [`WatchRecord`] of a tree (pool address), 0: nothing does. Under the header's `epoll_lock`.
        56 pub watches: Cell64,
        /// Of a directory: the entry that was read last. Of another file: the entry that it was opened by, if anything was watched then (pool addresses); a hint.
        64 pub last_entry: Cell64,
        /// 1: it was opened for writing a regular file, by its name, whose [`InodeRecord::writers`] count it.
        72 pub is_writer: Cell32,
        /// Of a named pipe, if it was opened for reading when nobody had it open for writing: 1 + how often that had been done before; 0 otherwise.
        76 pub opens_seen: Cell32,
        /// Of a text that is made line by line: where a line begins, what it is of, and what both are mixed to; a hint. Of a process: first, when that was
        /// created ([`ProcessRecord::started_ns`](crate::ProcessRecord)). Of a socket: first, 1 + its permissions, 0: they were never changed.
        80 pub of_kind: [Cell64; 3],
        /// Of a file without an inode: who made it.
        104 pub uid: Cell32,
        /// The maker's group.
        108 pub gid: Cell32,
        /// Nanoseconds since 1970 of when it was made.
        112 pub made_ns: Cell64,
        /// Who is told of it by a signal: an [`OwnerRecord`] (pool address), 0: nobody was ever named. Under the header's `epoll_lock`.
        120 pub owner: AtomicU64,
    }
}

/// Descriptors held inside a [`FilesRecord`].
pub const FILES_INLINE: usize = 64;
/// Descriptors per extension frame.
pub const FILES_PER_FRAME: usize = 512;
/// Most descriptors a process can have.
pub const FILES_MAX: usize = FILES_INLINE + 7 * FILES_PER_FRAME;
/// Descriptors of which [`FilesRecord::used`] says together how many are in use.
pub const FILES_COUNTED: usize = 64;
/// Bit in a descriptor word: close on exec. The rest is the pool address of the [`FileRecord`].
pub const FILES_CLOEXEC: u64 = 1;

pool_struct! {
    /// A descriptor table.
    pub struct FilesRecord: size 640, align 64 {
        /// Guards the table.
        0 pub lock: DescriptorsLock,
        /// Processes that use it: `motet_protocol::hand`.
        8 pub refs: AtomicU32,
        /// One past the highest descriptor in use.
        12 pub high: Cell32,
        /// Lowest descriptor that may be free.
        16 pub low_free: Cell32,
        /// 1: it has had a lock of a byte range.
        20 pub has_range_locks: AtomicU32,
        /// 1: a process that has it has asked to be told of messages in a queue.
        24 pub has_notices: AtomicU32,
        28 _pad1: Cell32,
        /// Frames of descriptors 64 and up (frame numbers).
        32 pub frames: [Cell32; 7],
        60 _pad2: Cell32,
        /// Descriptors 0..64.
        64 pub inline: [AtomicU64; 64],
        /// How many of [`FILES_COUNTED`] descriptors are in use, of 0 and up, and so on.
        576 pub used: [AtomicByte; 64],
    }
}

pool_struct! {
    /// A locked byte range of a file. Guarded by the inode's lock.
    pub struct RangeRecord: size 128, align 64 {
        /// Among those of the file, by first byte.
        0 pub links: TreeLinks,
        /// First byte.
        24 pub start: Cell64,
        /// Last byte; `i64::MAX`: to the end, wherever that is.
        32 pub end: Cell64,
        /// Who has it: a [`FilesRecord`] or a [`FileRecord`] (pool address).
        40 pub owner: Cell64,
        /// 1: nobody else has any of it; 0: others may read.
        48 pub write: Cell32,
        /// Process id, as programs are told; `u32::MAX` for an open file's.
        52 pub pid: Cell32,
        /// The greatest `end` of it and those below it.
        56 pub end_max: Cell64,
        /// The file (pool address of its [`InodeRecord`]). Not 0 from before it is in the tree until it is out.
        64 pub inode: Cell64,
        72 _pad: [Cell64; 7],
    }
}

/// Frames of a pipe's buffer.
pub const PIPE_FRAMES: usize = 16;
/// Bytes a pipe holds.
pub const PIPE_CAPACITY: usize = PIPE_FRAMES * 4096;
/// Writes of at most this many bytes are atomic.
pub const PIPE_BUF: usize = 4096;

pool_struct! {
    /// A pipe. `head` and `tail` count bytes; both return to 0 when it empties.
    pub struct PipeRecord: size 256, align 64 {
        /// Guards everything here.
        0 pub lock: PipeLock,
        /// Bytes written.
        8 pub head: Cell32,
        /// Bytes read.
        12 pub tail: Cell32,
        /// Open files that can read.
        16 pub readers: AtomicU32,
        /// Open files that can write.
        20 pub writers: AtomicU32,
        /// Open files and inodes that refer to it.
        24 pub refs: AtomicU32,
        /// Times a reader / a writer opened a named pipe (openers wait for the other side's next).
        28 pub reader_opens: AtomicU32,
        /// Times a writer opened it.
        32 pub writer_opens: AtomicU32,
        /// How often it was emptied: with `head` and `tail` it tells whether anything was moved.
        36 pub emptied: Cell32,
        /// Not 0: its ends are being opened or closed. Where that is noted (the pool address of the opener's word of closed ends).
        40 pub changing: Cell64,
        /// How many can read, and write, then.
        48 pub changed: [Cell32; 2],
        /// The bits of that word that are cleared then, and that are set.
        56 pub changed_bits: [Cell32; 2],
        /// Threads waiting to read (or poll).
        64 pub read_waiters: WaitQueue,
        /// Threads waiting to write (or poll).
        96 pub write_waiters: WaitQueue,
        /// The buffer's frames, allocated when first used.
        128 pub frames: [Cell32; 16],
        /// Of a connection: `RESET_*`, what its reader is told at the end.
        192 pub reset: AtomicU32,
        /// Of a socket's queue of packets: how many may wait of those whom it has not connected to, 0: it is no such queue.
        196 pub packets_max: Cell32,
        /// First and last [`PacketRecord`](crate::PacketRecord) (pool addresses): packets, or what goes with bytes.
        200 pub packets: [Cell64; 2],
        /// Of a socket: the [`SocketRecord`](crate::SocketRecord) that reads it (pool address), 0: that was closed.
        216 pub reader: AtomicU64,
        /// Of datagrams: the queue of the only socket that may send there (pool address), 0: any may.
        224 pub sender: AtomicU64,
        /// What the packets that wait cost, in bytes.
        232 pub cost: Cell32,
        236 _pad1: Cell32,
        /// Of a pipe without a name: 1 + its permissions, 0: neither these nor its owner were changed.
        240 pub mode: Cell64,
        /// Its user and group, if they were.
        248 pub owner: [Cell32; 2],
    }
}

/// [`PipeRecord::reset`]: the stream ends as it should.
pub const RESET_NOT: u32 = 0;
/// [`PipeRecord::reset`]: who wrote to it has not read all that was sent to it.
pub const RESET_IS: u32 = 1;
/// [`PipeRecord::reset`]: as [`RESET_IS`], and the reader has been told.
pub const RESET_TOLD: u32 = 2;
/// [`PipeRecord::reset`]: with an error number added, the reader is told that.
pub const RESET_FOR: u32 = 0x100;

pool_struct! {
    /// An event counter (`eventfd`).
    pub struct EventRecord: size 128, align 64 {
        /// Guards everything here.
        0 pub lock: EventLock,
        /// The count.
        8 pub count: Cell64,
        /// 1: reads take one at a time.
        16 pub semaphore: Cell32,
        /// How often it was written.
        20 pub writes: Cell32,
        /// How often it was read.
        24 pub reads: Cell32,
        28 _pad0: Cell32,
        /// Threads waiting for a count.
        32 pub read_waiters: WaitQueue,
        /// Threads waiting for room.
        64 pub write_waiters: WaitQueue,
        96 _pad2: [Cell64; 4],
    }
}

pool_struct! {
    /// An interest list (`epoll`).
    pub struct EpollRecord: size 128, align 64 {
        /// Guards the list; who adds to it or removes from it also holds the header's `epoll_lock`.
        0 pub lock: InterestsLock,
        /// First and last [`WatchRecord`] (pool addresses), 0: it watches nothing.
        8 pub all: [Cell64; 2],
        /// The last [`WatchRecord`] of whose file something was heard since the list was looked through (pool address), 0: none.
        24 pub ready: AtomicU64,
        /// Threads waiting for any file of the list.
        32 pub waiters: WaitQueue,
        /// First and last of the watches whose files are asked when the list is looked through (pool addresses): of which
        /// something was heard, or which were ready.
        64 pub asked: [Cell64; 2],
        /// How many of its watches are of interest lists.
        80 pub lists: Cell32,
        84 _pad2: Cell32,
        88 _pad1: [Cell64; 5],
    }
}

pool_struct! {
    /// One file of an interest list. It goes when the file's last descriptor is closed.
    pub struct WatchRecord: size 256, align 64 {
        /// Previous and next in the list (pool addresses).
        0 pub all: [Cell64; 2],
        /// The list (pool address of its [`EpollRecord`]).
        16 pub list: Cell64,
        /// The file (pool address of its [`FileRecord`]). Not 0 from before it is in the file's tree until it is out.
        24 pub file: Cell64,
        32 _pad1: Cell64,
        /// Descriptor under which it was added.
        40 pub fd: Cell32,
        /// `EPOLL*` asked for; after a report of `EPOLLONESHOT` no event is. Wakers look at it without the lock.
        44 pub events: Cell32,
        /// The program's word.
        48 pub data: Cell64,
        /// Not 0: `seen` holds what the file's counts were at the last report.
        56 pub reported: Cell32,
        /// 1: it is among those whose files are asked.
        60 pub is_asked: Cell32,
        /// The file's counts of what came in and what went out.
        64 pub seen: [Cell64; 2],
        /// Previous and next of those whose files are asked (pool addresses).
        80 pub asked: [Cell64; 2],
        /// The watch below it on [`EpollRecord::ready`] (pool address).
        96 pub ready_next: Cell64,
        /// 1: it is on that stack, or somebody is putting it there. Of one that rings a core: it has, and that core has not looked yet.
        104 pub in_ready: AtomicU32,
        108 _pad0: Cell32,
        /// The queues (pool addresses) that it has left while its list is repaired, and enters again.
        112 pub left: [Cell64; 2],
        /// Its places in the file's queues of readers and of writers.
        128 pub nodes: [WaitNode; 2],
        /// Among those of the file, by list and descriptor.
        224 pub links: TreeLinks,
        248 _pad2: Cell64,
    }
}

/// [`OwnerRecord::sides`] and the bits of its nodes: there may be something to read.
pub const OWNER_INPUT: u32 = 1;
/// The same: there may be room to write.
pub const OWNER_OUTPUT: u32 = 2;

pool_struct! {
    /// Who is told by a signal that an open file has become ready (`F_SETOWN`). It goes when the file's last descriptor is closed. Under the header's
    /// `epoll_lock`, but for what wakers write.
    pub struct OwnerRecord: size 256, align 64 {
        /// The one below it on [`PoolHeader::owners_told`](crate::PoolHeader::owners_told) (pool address).
        0 pub next: Cell64,
        /// The file (pool address of its [`FileRecord`]), whose [`FileRecord::owner`] it is. 0: that was closed, or there never was one.
        8 pub file: Cell64,
        /// 1: it is on that stack, or somebody is putting it there.
        16 pub in_stack: AtomicU32,
        /// What has changed since signals were sent: [`OWNER_INPUT`], [`OWNER_OUTPUT`].
        20 pub sides: AtomicU32,
        /// 1 + what it is (`F_OWNER_*`), 0: nobody.
        24 pub kind: Cell32,
        /// Id of a thread, a process or a group.
        28 pub id: Cell32,
        /// When that thread or process was created; of a group: when it was named.
        32 pub since_ns: Cell64,
        /// Real user of who has named it.
        40 pub uid: Cell32,
        /// Effective user of the same.
        44 pub euid: Cell32,
        /// The signal (`F_SETSIG`), 0: `SIGIO`, of which nothing more is told.
        48 pub signal: Cell32,
        /// Descriptor by which `O_ASYNC` was set.
        52 pub fd: Cell32,
        /// 1: `O_ASYNC` is set. The file's own flag is set after this, and cleared before.
        56 pub is_on: Cell32,
        60 _pad0: Cell32,
        /// A word (pool address) that is not 0 if there was no room for what somebody wanted to write: only then is room told of. 0: it always is.
        64 pub room: Cell64,
        72 _pad1: Cell64,
        /// Its places in the file's queues of readers and of writers.
        80 pub nodes: [WaitNode; 2],
        176 _pad2: [Cell64; 10],
    }
}

pool_struct! {
    /// A timer that is read (`timerfd`).
    pub struct ClockRecord: size 64, align 64 {
        /// Guards everything here.
        0 pub lock: ClockLock,
        /// Machine time of the first expiration that was not read (two's complement: it may be before the start).
        8 pub expires_ns: Cell64,
        /// Nanoseconds between expirations, 0: there is one only.
        16 pub interval_ns: Cell64,
        /// 1: absolute times are of the real-time clock.
        24 pub realtime: Cell32,
        /// 1: it expires.
        28 pub armed: Cell32,
        /// Threads waiting for an expiration.
        32 pub waiters: WaitQueue,
    }
}
