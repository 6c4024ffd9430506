//! Messages between kernels that share nothing else (`docs/protocols/messages.md`).

use crate::{
    Cell32, Cell64,
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
/// Kinds of messages that are counted.
pub const MESSAGE_KINDS_MAX: usize = 32;

pool_struct! {
    /// One direction of a window between two kernels; its slots follow ([`RING_SLOTS_AT`]). All zero at first. Both kernels write here, so neither
    /// believes what it reads: where each of them is in the ring it keeps to itself ([`Peers`]).
    pub struct MessageRing: size 8320, align 64 {
        /// 1: the receiver is not about to look: the next message is to ring it. Set by the receiver, cleared by senders.
        0 pub asleep: AtomicU32,
        4 _pad0: Cell32,
        8 _pad1: [Cell64; 7],
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
        60 _pad0: Cell32,
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
        600 _pad2: Cell64,
        /// Bytes of all windows, which follow the pool in this kernel's map.
        608 pub windows_len: Cell64,
        /// Kernel-written, by node: messages to it that were begun.
        616 pub begun: [AtomicU64; 4],
        /// Kernel-written, by node: messages of it that its ring has got rid of.
        648 pub done: [AtomicU64; 4],
        /// Kernel-written, by node: what it has sent that is no message.
        680 pub refused: [AtomicU64; 4],
        712 _pad1: [Cell64; 43],
        /// Kernel-written, by node: probes of it that came, each in its order. For tests.
        1056 pub probes: [AtomicU64; 4],
    }
}

const _: () = assert!(RING_SLOTS_MAX == 1024 && MESSAGE_KINDS_MAX == 32 && NODES_MAX == 4);
const _: () = assert!(size_of::<MessageRing>() as u64 <= RING_SLOTS_AT);
