//! Address spaces: their ranges of virtual memory, and programs that hold the text of several instruction sets.

use crate::sync::{AtomicU32, AtomicU64};

use crate::{Cell32, Cell64, SpaceLock};

pool_struct! {
    /// An address space: VMAs and one page table per island that uses it.
    pub struct SpaceRecord: size 512, align 64 {
        /// Guards VMAs and page tables.
        0 pub lock: SpaceLock,
        /// Processes that use it.
        8 pub refs: AtomicU32,
        /// Island whose table is the authority: every mapped page has an entry there.
        12 pub home: Cell32,
        /// The tree of its VMAs: its root [`RangeNode`] (pool address), 0: there are none.
        16 pub vma_root: Cell64,
        /// VMA found last (hint, pool address).
        24 pub last_vma: Cell64,
        /// Program break: start of the heap, and its present end.
        32 pub brk: [Cell64; 2],
        /// `mmap` searches downwards from here.
        48 pub mmap_top: Cell64,
        /// Pages resident.
        56 pub resident: AtomicU32,
        /// VMAs.
        60 pub vma_count: Cell32,
        /// Root table of each island (frame number), 0: the island has none.
        64 pub roots: [AtomicU32; 8],
        /// Cores of each island that have it active (bit per core index).
        96 pub active: [AtomicU32; 8],
        /// Bytes mapped.
        128 pub mapped_len: Cell64,
        /// 1: its home has not run it yet, whose root lacks the kernel's half, and another island fills it (exec across islands).
        136 pub unprepared: AtomicU32,
        /// How often it was copied (`fork`), modulo 2^32. Under the lock.
        140 pub forks: Cell32,
        /// The program's [`FatProgram`] (pool address), 0: it has one ISA only.
        144 pub fat: Cell64,
        /// Changes with each change of its VMAs, and is never the same for two spaces. Written under the lock.
        152 pub epoch: AtomicU64,
        /// 1: its VMAs are being changed, under the lock. Who dies with it leaves a tree that nobody can go by.
        160 pub changing: Cell32,
        /// 1: somebody has. It has no VMAs any more, and its processes are to end.
        164 pub damaged: AtomicU32,
        /// 1: it has mapped pages that arrive late, or its parent had.
        168 pub has_late: AtomicU32,
        /// 1: there is something in `granted`. Under the lock.
        172 pub has_granted: Cell32,
        /// Bytes that are locked: those of all [`VMA_LOCKED`]. Under the lock.
        176 pub locked_len: Cell64,
        /// `LOCKS_FUTURE…`. Under the lock.
        184 pub future_locks: Cell32,
        188 _pad0: Cell32,
        /// Pages of its home's table to which stores may be allowed without a look at its VMAs or a walk (`motet_protocol::residency`): in the place that
        /// a page's number gives, two words, of which the first is the page and who allows it, and the second its entry. Under the lock.
        192 pub granted: [Cell64; 16],
        /// Several kernels keep it alike: its [`KeptRecord`](crate::KeptRecord) (pool address). 0: this one has it alone.
        320 pub kept: AtomicU64,
        /// How many of its pages have a replica, counted for each island. Under the lock.
        328 pub replicas: Cell32,
        332 _pad1: Cell32,
        /// Address of the region that is looked at next, to learn which island uses it. Under the lock.
        336 pub sampled: Cell64,
        /// How many ends of slices pass between two such looks. Under the lock.
        344 pub pause: Cell32,
        /// How many until the next one.
        348 pub pause_left: Cell32,
        352 _pad2: [Cell64; 20],
    }
}

pool_struct! {
    /// An address space's program that holds the text of several ISAs, and how often its threads crossed.
    pub struct FatProgram: size 640, align 64 {
        /// Calls from island `n / 8` to island `n % 8`.
        0 pub calls: [AtomicU64; 64],
        /// Pages of pinned functions that run on another ISA than theirs, because theirs was missing.
        512 pub local_pages: AtomicU64,
        /// Its file (inode pool address); a [`VMA_STORE`] holds the reference.
        520 pub inode: Cell64,
        /// Where the pins are in the file.
        528 pub pins_at: Cell64,
        /// How many.
        536 pub pins: Cell32,
        /// Bytes of names, which follow the pins.
        540 pub names_len: Cell32,
        /// By ISA code - 1: the thread pointer of that ISA, less the address of the block that all ISAs' have in common.
        544 pub thread_pointer_bias: [Cell64; 4],
        /// Bit n: it has text for the ISA with code n.
        576 pub texts: Cell32,
        /// 1: calls to other ISAs go on below the caller's frames; 0: a thread has a stack for each ISA.
        580 pub one_stack: Cell32,
        /// Calls of pinned functions that ran on the caller's ISA, because their own islands were busy.
        584 pub local_calls: AtomicU64,
        592 _pad1: [Cell64; 6],
    }
}

/// [`VmaRecord::flags`]: readable.
pub const VMA_READ: u32 = 1;
/// [`VmaRecord::flags`]: writable.
pub const VMA_WRITE: u32 = 2;
/// [`VmaRecord::flags`]: executable.
pub const VMA_EXECUTE: u32 = 4;
/// [`VmaRecord::flags`]: writes are seen by others (`MAP_SHARED`).
pub const VMA_SHARED: u32 = 8;
/// [`VmaRecord::flags`]: grows down (the stack).
pub const VMA_STACK: u32 = 16;
/// [`VmaRecord::flags`]: the heap.
pub const VMA_HEAP: u32 = 32;
/// [`VmaRecord::flags`]: a view: each island sees what its ISA's [`VMA_STORE`] holds. No page belongs to it.
pub const VMA_VIEW: u32 = 64;
/// [`VmaRecord::flags`]: holds one ISA's text for views. Programs can neither change nor remove it.
pub const VMA_STORE: u32 = 128;
/// [`VmaRecord::flags`]: a view whose pin is ignored, because no island of that ISA was there.
pub const VMA_LOCAL: u32 = 256;
/// [`VmaRecord::flags`]: a call has run what a view shows locally; other threads may have gone there without one.
pub const VMA_RAN_LOCALLY: u32 = 512;
/// [`VmaRecord::flags`]: can never be made writable, as it shares a file that was opened for reading only.
pub const VMA_NEVER_WRITE: u32 = 1024;
/// [`VmaRecord::flags`]: a forked child does not get it (`MADV_DONTFORK`).
pub const VMA_DONT_FORK: u32 = 2048;
/// [`VmaRecord::flags`]: a forked child finds zeroes there (`MADV_WIPEONFORK`).
pub const VMA_WIPE_ON_FORK: u32 = 4096;
/// [`VmaRecord::flags`]: may be longer than there is memory (`MAP_NORESERVE`).
pub const VMA_NO_RESERVE: u32 = 8192;
/// [`VmaRecord::flags`]: locked (`mlock`, `MAP_LOCKED`): it counts against `RLIMIT_MEMLOCK`.
pub const VMA_LOCKED: u32 = 16384;
/// [`SpaceRecord::future_locks`]: what is mapped from now on is locked (`MCL_FUTURE`).
pub const LOCKS_FUTURE: u32 = 1;
/// [`SpaceRecord::future_locks`]: … and its pages come when they are used (`MCL_ONFAULT`).
pub const LOCKS_FUTURE_ON_FAULT: u32 = 2;

pool_struct! {
    /// A range of an address space with one meaning.
    pub struct VmaRecord: size 128, align 64 {
        /// First address.
        0 pub start: Cell64,
        /// First address past it.
        8 pub end: Cell64,
        /// `VMA_*`.
        16 pub flags: Cell32,
        /// Which islands its frames should be near to: the mode of Linux's memory policy (`MPOL_*`), and a bit for each island from bit 16 on. 0: as the
        /// thread's policy says.
        20 pub policy: Cell32,
        /// File it maps (inode pool address), 0: anonymous.
        24 pub inode: Cell64,
        /// Offset in the file of `start`.
        32 pub offset: Cell64,
        /// Bytes of the file from `start` on; zero-filled after them (ELF segments).
        40 pub file_len: Cell64,
        48 _pad0: [Cell64; 2],
        /// Views, by ISA code - 1: the address in that ISA's store which `start` shows, 0: it has none.
        64 pub store: [Cell64; 4],
        /// Views: the [`Isa`](crate::Isa) that alone executes it; 0: each executes its own.
        96 pub pin: Cell32,
        /// Views: calls of its functions that run on another ISA than its pin's, which it lets them.
        100 pub local_calls: Cell32,
        104 _pad2: [Cell64; 3],
    }
}

/// Slots of a [`RangeNode`].
pub const RANGE_NODE_SLOTS: usize = 15;

pool_struct! {
    /// A node of a B+ tree of disjoint address ranges (`motet_protocol::range_tree`). Under the lock of what it is a tree of. The words that a
    /// search compares fill two cache lines.
    pub struct RangeNode: size 512, align 64 {
        /// [`RANGE_NODE`] + its level; 0 is a leaf's.
        0 pub kind: Cell32,
        /// Slots in use, in ascending order.
        4 pub count: Cell32,
        /// First address past what a slot stands for: a range, or all ranges below a node.
        8 pub ends: [Cell64; 15],
        /// In a leaf: what the range is of (pool address). Otherwise: the node (pool address).
        128 pub children: [Cell64; 15],
        /// First address of what the slot stands for.
        248 pub starts: [Cell64; 15],
        /// The longest gap between neighbouring ranges below the slot's node, in bytes; 0 in a leaf.
        368 pub gaps: [Cell64; 15],
        488 _pad0: [Cell64; 3],
    }
}

/// [`RangeNode::kind`] of a leaf. A free object never has it: its first word is the address of another one.
pub const RANGE_NODE: u32 = 0x5241_4e10;
