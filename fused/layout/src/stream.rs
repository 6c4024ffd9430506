//! Streams between the machine and the host, and queues of threads that wait.

use crate::{
    Cell64, StreamLock, WaitersLock,
    sync::{AtomicU32, AtomicU64},
};

pool_struct! {
    /// A byte stream between the machine and the host: one producer side, one consumer side.
    ///
    /// `head` and `tail` count bytes since boot; the byte numbered `n` is at `data + n % capacity`. The producer side
    /// holds `lock` when it is more than one writer. A side that must wait says so in its `*_waiting` word, looks again,
    /// and then sleeps; the other side rings when it finds the word set.
    pub struct HostStream: size 256, align 64 {
        /// Bytes produced. Stored (release) by the producer.
        0 pub head: AtomicU64,
        /// 1: the producer will add no more.
        8 pub closed: AtomicU32,
        /// 1: the producer waits for room.
        12 pub producer_waiting: AtomicU32,
        16 _pad0: [Cell64; 6],
        /// Bytes consumed. Stored (release) by the consumer.
        64 pub tail: AtomicU64,
        /// 1: the consumer has gone (bytes are discarded, writers get EPIPE).
        72 pub gone: AtomicU32,
        /// 1: the consumer waits for bytes.
        76 pub consumer_waiting: AtomicU32,
        80 _pad1: [Cell64; 6],
        /// Held by one of several producers (or consumers) inside the machine.
        128 pub lock: StreamLock,
        /// Pool address of the bytes.
        136 pub data: Cell64,
        /// Bytes at `data`, a power of two.
        144 pub capacity: Cell64,
        152 _pad2: [Cell64; 5],
        /// Threads that wait for this stream inside the machine.
        192 pub waiters: WaitQueue,
        224 _pad3: [Cell64; 4],
    }
}

pool_struct! {
    /// Threads that wait for something: a lock and a doubly linked list of [`WaitNode`](crate::WaitNode)s.
    pub struct WaitQueue: size 32, align 8 {
        /// Holder of the list.
        0 pub lock: WaitersLock,
        /// First node (pool address), 0 when empty. Read without the lock only to see whether it is empty.
        8 pub head: AtomicU64,
        /// Last node (pool address).
        16 pub tail: Cell64,
        24 _pad: Cell64,
    }
}
