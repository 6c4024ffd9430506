//! Messages between kernels that share nothing else (`docs/protocols/messages.md`).

use crate::{
    Cell32, Cell64, MessagesLock, TimerNode, WaitQueue,
    sync::{AtomicU32, AtomicU64},
};

/// Kernels of a machine at most: an island's map of its memory has four pieces, of which the windows to three peers may take three.
pub const NODES_MAX: usize = 4;
/// Slots of a ring at most.
pub const RING_SLOTS_MAX: usize = 1024;
/// Bytes from the beginning of a ring to its first slot.
pub const RING_SLOTS_AT: u64 = 16 << 10;
/// Bytes of a slot at most, and of the longest message with its header.
pub const SLOT_LEN_MAX: u64 = 64 << 10;
/// Bytes of a slot at least: a page, with its message's header.
pub const SLOT_LEN_MIN: u64 = 8 << 10;
/// Pages of one message at most: 4 KiB each, behind what the message says of them, in the longest slot.
pub const PAGES_MAX: usize = 15;
/// Kinds of messages that are counted.
pub const MESSAGE_KINDS_MAX: usize = 32;

pool_struct! {
    /// One direction of a window between two kernels; its slots follow ([`RING_SLOTS_AT`]). All zero at first. Both kernels write here, so neither
    /// believes what it reads: where each of them is in the ring it keeps to itself ([`Peers`]).
    pub struct MessageRing: size 8320, align 64 {
        /// 1: the receiver is not about to look: the next message is to ring it. Set by the receiver, cleared by senders.
        0 pub asleep: AtomicU32,
        4 _pad0: Cell32,
        /// A number that the sender wants to see in `answered`, to know whether the receiver still works.
        8 pub asked: AtomicU64,
        /// The last one of these that the receiver has seen.
        16 pub answered: AtomicU64,
        24 _pad1: [Cell64; 5],
        /// By slot: twice how often a message was taken from it, and 1 more while it has one.
        64 pub turns: [AtomicU64; 1024],
        8256 _pad2: [Cell64; 8],
    }
}

pool_struct! {
    /// What a kernel has to do with its peers. Host-written before boot, except where said.
    pub struct Peers: size 1088, align 64 {
        /// This kernel's number, from 0.
        0 pub node: Cell32,
        /// Kernels of the machine; 0: its islands have one fused kernel.
        4 pub count: Cell32,
        /// Slots of each ring, a power of two.
        8 pub slots: Cell32,
        /// Bytes of a slot.
        12 pub slot_len: Cell32,
        /// By node: the window to it (an address behind the pool's end); 0 for this kernel's own number. The ring from the kernel with the smaller number comes first in it.
        16 pub windows: [Cell64; 4],
        /// 1: a message rings only a receiver that is not about to look.
        48 pub coalesces: Cell32,
        /// Kernel-written: nodes that have said who they are, a bit each.
        52 pub known: AtomicU32,
        /// Kernel-written: nodes of which no message is taken any more, because they send what is none, a bit each.
        56 pub broken: AtomicU32,
        /// Kernel-written, by the first core: the node of which a message was taken last.
        60 pub taken_from: Cell32,
        /// Kernel-written, by kind of message: those that were sent.
        64 pub sent: [AtomicU64; 32],
        /// Kernel-written, by kind of message: those that came.
        320 pub taken: [AtomicU64; 32],
        /// Kernel-written: bytes of messages that were sent, headers included.
        576 pub bytes_sent: AtomicU64,
        /// Kernel-written: bytes of messages that came.
        584 pub bytes_taken: AtomicU64,
        /// Kernel-written: doorbells rung for messages.
        592 pub doorbells: AtomicU64,
        /// Pages behind one that is asked for that are wished for, too.
        600 pub prefetch: Cell32,
        /// 1: pages are read in place. Behind the windows lies the other kernels' memory, in the order of their numbers.
        604 pub by_reference: Cell32,
        /// Bytes of all windows, which follow the pool in this kernel's map.
        608 pub windows_len: Cell64,
        /// Kernel-written, by node: messages to it that were begun.
        616 pub begun: [AtomicU64; 4],
        /// Kernel-written, by node: messages of it that its ring has got rid of.
        648 pub done: [AtomicU64; 4],
        /// Kernel-written, by node: what it has sent that is no message.
        680 pub refused: [AtomicU64; 4],
        /// Kernel-written, by node: the instruction set ([`Isa`](crate::Isa)) that it has said it has; 0: it has said none.
        712 pub isas: [AtomicU32; 4],
        /// Guards `outgoing` and `outgoing_last`.
        728 pub outgoing_lock: MessagesLock,
        /// Kernel-written, by node: messages to it that its ring had no room for: the first [`OutgoingRecord`] (pool address), 0: there are none.
        736 pub outgoing: [AtomicU64; 4],
        /// Kernel-written, by node: the last of them.
        768 pub outgoing_last: [Cell64; 4],
        /// Kernel-written: the first [`KeptRecord`] of a process of another kernel that has threads here (pool address). Under the tree lock.
        800 pub remotes: Cell64,
        /// Kernel-written: pages that were copied here from other kernels.
        808 pub pages_copied: AtomicU64,
        /// Kernel-written: copies of pages that were dropped here because another kernel writes the page.
        816 pub pages_invalidated: AtomicU64,
        /// Kernel-written: until when no message is taken, because a page has come that a thread is about to use (nanoseconds of the machine's clock).
        824 pub held_until_ns: AtomicU64,
        /// Kernel-written, by node: when its ring was last found full for the first time, in nanoseconds. Under `outgoing_lock`.
        832 pub full_since_ns: [Cell64; 4],
        /// Kernel-written: when the first core looks at the rings without being rung.
        864 pub look: TimerNode,
        /// Kernel-written: 1: that is because messages are not taken until `held_until_ns`.
        912 pub is_put_off: AtomicU32,
        /// Kernel-written: address spaces that other kernels keep alike, too. As long as there are some, this kernel looks whether the others live.
        916 pub spaces: AtomicU32,
        /// Kernel-written: when it looks the next time.
        920 pub watch: TimerNode,
        /// Kernel-written, by node: the number that it was asked for last.
        968 pub asked: [Cell64; 4],
        /// Kernel-written, by node: how often it has not answered since.
        1000 pub silent: [Cell32; 4],
        /// Kernel-written: nodes that no more is taken from or sent to (`broken`), of which this kernel has let go, a bit each.
        1016 pub lost: AtomicU32,
        /// Kernel-written, 1: a [`KeptRecord`] is damaged, and the first core has not looked for it yet.
        1020 pub has_damaged: AtomicU32,
        /// Kernel-written, by node: what is kept for it to be read in place ([`LentRecord`], pool address), 0: nothing can be. Under `outgoing_lock`.
        1024 pub lent: [Cell64; 4],
        /// Kernel-written, by node: probes of it that came, each in its order. For tests.
        1056 pub probes: [AtomicU64; 4],
    }
}

impl Peers {
    /// Bytes of other kernels' memory behind the windows; each of them has as much as this kernel, `pool_len`.
    pub fn others_len(&self, pool_len: u64) -> u64 {
        if self.by_reference.get() == 0 {
            0
        } else {
            u64::from(self.count.get().saturating_sub(1)).saturating_mul(pool_len)
        }
    }
}

/// Pages that are lent to a kernel at most at one time.
pub const LENT_MAX: usize = 340;

pool_struct! {
    /// Pages that another kernel reads in place, when it takes the messages that name them: until then they have a reference more. A frame of its own.
    pub struct LentRecord: size 4096, align 8 {
        /// How many there are.
        0 pub count: Cell32,
        /// Where the first one is.
        4 pub first: Cell32,
        /// By place: the number of the message.
        8 pub numbers: [Cell64; 340],
        /// By place: the page (frame number).
        2728 pub frames: [Cell32; 340],
        4088 _pad0: Cell64,
    }
}

/// Bytes of an [`OutgoingRecord`]'s message at most, without a page.
pub const OUTGOING_MAX: usize = 1480;

pool_struct! {
    /// A message that waits for room in its ring.
    pub struct OutgoingRecord: size 1600, align 64 {
        /// The next one to the same kernel (pool address), 0: there is none.
        0 pub next: Cell64,
        /// Bytes in `bytes`: the header and what follows it, without pages.
        8 pub len: Cell32,
        /// Pages that follow these (frame numbers, with a reference each), up to the first 0.
        12 pub pages: [Cell32; 15],
        /// The message.
        72 pub bytes: [Cell64; 185],
        /// 1: pages do not follow, but are read in place.
        1552 pub lends: Cell32,
        1556 _pad1: Cell32,
        1560 _pad0: [Cell64; 5],
    }
}

/// [`AwayRecord::came`]: nothing has.
pub const AWAY_NOTHING: u32 = 0;
/// [`AwayRecord::came`]: a call of a function.
pub const AWAY_CALL: u32 = 1;
/// [`AwayRecord::came`]: the results of a function.
pub const AWAY_RETURN: u32 = 2;
/// [`AwayRecord::came`]: a system call that is to be made for the other half.
pub const AWAY_SYSTEM_CALL: u32 = 3;
/// [`AwayRecord::came`]: a system call's result.
pub const AWAY_RESULT: u32 = 4;
/// [`AwayRecord::came`]: the other half has ended.
pub const AWAY_END: u32 = 5;

pool_struct! {
    /// What a thread has to do with its other half in another kernel (`docs/protocols/away.md`). One of both runs, and the other one waits here for what it sends.
    /// Written by the thread's core, but for what comes: that is written by the core that takes messages, when `came` is [`AWAY_NOTHING`].
    pub struct AwayRecord: size 384, align 64 {
        /// Whose it is (pool address); 0: it is free.
        0 pub thread: Cell64,
        /// The thread's next one (pool address), 0: there is none.
        8 pub next: Cell64,
        /// The other kernel.
        16 pub node: Cell32,
        /// 1: the thread is the other kernel's, which is its home.
        20 pub is_remote: Cell32,
        /// The other half's thread id there; 0: not known.
        24 pub peer: AtomicU32,
        /// `AWAY_*`: what has come.
        28 pub came: AtomicU32,
        /// The thread waits here.
        32 pub waiters: WaitQueue,
        /// What the thread is in the middle of: of a home, 1: it makes a system call for the other half; of a remote, 1: home makes one for it.
        64 pub in_call: Cell32,
        68 _pad0: [Cell32; 3],
        /// What came: its words.
        80 pub words: [Cell64; 32],
        336 _pad1: [Cell64; 6],
    }
}

pool_struct! {
    /// An address space that several kernels keep alike: what one of them knows of it (`docs/protocols/messages.md`).
    pub struct KeptRecord: size 384, align 64 {
        /// The kernel at which its process began.
        0 pub home: Cell32,
        /// By node: the id of the process there; 0: it has none, or has not said so.
        4 pub pids: [AtomicU32; 4],
        20 _pad0: [Cell32; 3],
        /// The next one of another home ([`Peers::remotes`]).
        32 pub next: Cell64,
        /// What this kernel knows of each page, a word for each that is not as at the beginning: a file without a name (inode pool address).
        40 pub pages: Cell64,
        /// Remotes, 1: home has ended, or has died. Home, 1: remotes were told that it ends.
        48 pub is_ending: AtomicU32,
        /// Kernel-written, 1: a message about it was lost, for want of memory: the process ends.
        52 pub is_damaged: AtomicU32,
        /// Remotes: addresses of pages for which home is asked which range they are in, or has said that they are in none ([`KEPT_ABSENT`]); 0: no page. Under the
        /// space's lock.
        56 pub asked: [Cell64; 16],
        /// Home, by node: the number of the last change of ranges that it was told of. Under the space's lock.
        184 pub told: [Cell32; 4],
        /// Remotes: the number of the last change that was told. Home: of the last one.
        200 pub change: Cell32,
        204 _pad3: Cell32,
        208 _pad2: [Cell64; 22],
    }
}

/// In [`KeptRecord::asked`]: the page is in no range.
pub const KEPT_ABSENT: u64 = 1;

const _: () =
    assert!(RING_SLOTS_MAX == 1024 && MESSAGE_KINDS_MAX == 32 && NODES_MAX == 4 && PAGES_MAX == 15 && LENT_MAX == 340);
const _: () = assert!(size_of::<MessageRing>() as u64 <= RING_SLOTS_AT);
