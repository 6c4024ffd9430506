//! Transfer engines: their registers and descriptors, and what programs have asked them for (`docs/protocols/dma.md`). Engines of cores
//! (`motet_protocol::dma`): what they transfer.

use crate::sync::AtomicU64;

use crate::{Cell32, Cell64, EngineLock, TransfersLock, WaitQueue, pool_struct};

/// Descriptors in the ring of an engine.
pub const DMA_RING: usize = 32;
/// Longest transfer, in bytes.
pub const DMA_BYTES_MAX: u64 = 16 << 20;
/// [`DmaDescriptor::flags`]: `source` is the first [`DmaList`], and there is no `destination`: the lists have the pieces.
pub const DMA_LIST: u32 = 1;
/// [`DmaDescriptor::flags`]: the core that `core` names is rung when the transfer is over. Where a simulator is the engine, nobody is: the
/// completion says when the transfer ends.
pub const DMA_RINGS: u32 = 2;
/// All of [`DmaDescriptor::flags`].
pub const DMA_FLAGS: u32 = DMA_LIST | DMA_RINGS;

/// [`DmaDescriptor::error`]: everything was transferred.
pub const DMA_OK: u32 = 0;
/// [`DmaDescriptor::error`]: flags that there are not, or no such core.
pub const DMA_BAD_FLAGS: u32 = 1;
/// [`DmaDescriptor::error`]: no bytes, or more than [`DMA_BYTES_MAX`], or a list that has others than `bytes`.
pub const DMA_BAD_LENGTH: u32 = 2;
/// [`DmaDescriptor::error`]: what is not in the pool.
pub const DMA_BAD_ADDRESS: u32 = 3;
/// [`DmaDescriptor::error`]: source and destination overlap.
pub const DMA_OVERLAP: u32 = 4;

/// Words of a descriptor of the migration engine.
pub const DESCRIPTOR_WORDS: usize = 20;
/// [`CoreRecord::dma_in`](crate::CoreRecord): for a core that runs functions for threads of other instruction sets.
pub const DMA_AWAY: u32 = 0;
/// [`CoreRecord::dma_in`](crate::CoreRecord): for a core whose thread is elsewhere.
pub const DMA_HOME: u32 = 1;
/// [`CoreRecord::dma_place`](crate::CoreRecord): nothing is under way.
pub const DMA_NONE: u32 = 2;
/// [`CoreRecord::dma_place`](crate::CoreRecord): the call in `out_call`, to the slot of the sender's island.
pub const DMA_CALL: u32 = 3;
/// [`CoreRecord::dma_place`](crate::CoreRecord): the answer in `out_message` and what goes with it.
pub const DMA_ANSWER: u32 = 4;
/// Registers of a migration engine: what to transfer, whereto, and that it is to begin.
pub const DMA_REGISTERS: u32 = 3;

/// [`PoolHeader::calls_by`](crate::PoolHeader): each message over a link goes by stores or by an engine, whichever is faster.
pub const CALLS_BY_FASTEST: u32 = 0;
/// [`PoolHeader::calls_by`](crate::PoolHeader): all go by stores.
pub const CALLS_BY_STORES: u32 = 1;
/// [`PoolHeader::calls_by`](crate::PoolHeader): all go by engines.
pub const CALLS_BY_DMA: u32 = 2;

pool_struct! {
    /// A descriptor of the migration engine: what a thread takes along (`motet_kernel::crossing::migration`).
    pub struct Descriptor: size 160, align 8 {
        /// Its words.
        0 pub words: [Cell64; DESCRIPTOR_WORDS],
    }
}

pool_struct! {
    /// What an engine is to transfer, and what became of it. The kernel writes the first line before it moves `tail`, and reads the second one
    /// after the engine has moved `head`.
    pub struct DmaDescriptor: size 128, align 64 {
        /// Where the bytes are (pool address).
        0 pub source: Cell64,
        /// Where they go (pool address).
        8 pub destination: Cell64,
        /// How many.
        16 pub bytes: Cell64,
        /// `DMA_LIST`, `DMA_RINGS`.
        24 pub flags: Cell32,
        /// Who is rung: an index of a core.
        28 pub core: Cell32,
        /// Means nothing to the engine.
        32 pub id: Cell64,
        40 _pad0: [Cell64; 3],
        /// Engine-written: when the transfer ends or has ended, in nanoseconds of the machine's clock; 0: it has ended.
        64 pub arrives_ns: Cell64,
        /// Engine-written: bytes that were transferred.
        72 pub done: Cell64,
        /// Engine-written: `DMA_OK`, or what is wrong with the descriptor.
        80 pub error: Cell32,
        84 _pad1: Cell32,
        88 _pad2: [Cell64; 5],
    }
}

pool_struct! {
    /// The transfer engine of an island. Pages of its own, in memory near the island. The numbers count descriptors since the start; the one
    /// numbered `n` is in `ring[n % DMA_RING]`.
    pub struct DmaEngine: size 8192, align 64 {
        /// Kernels: who writes descriptors and takes completions.
        0 pub lock: EngineLock,
        /// Descriptors written: the doorbell register. Stored (release) by kernels, under the lock.
        8 pub tail: AtomicU64,
        /// Descriptors whose completions have been taken. Under the lock.
        16 pub taken: AtomicU64,
        24 _pad0: [Cell64; 5],
        /// Descriptors that the engine is through with: it touches their memory no more. Stored (release) by the engine.
        64 pub head: AtomicU64,
        /// Engine-written: the error of the last descriptor that had one (`DMA_*`).
        72 pub error: Cell32,
        76 _pad1: Cell32,
        /// Engine-written: descriptors with errors.
        80 pub errors: Cell64,
        /// Engine-written, timed machines: when the last transfer ends, in picoseconds.
        88 pub busy_until_ps: Cell64,
        96 _pad2: [Cell64; 4],
        /// Threads that wait for room in the ring.
        128 pub waiters: WaitQueue,
        160 _pad3: [Cell64; 492],
        /// The descriptors, in a page of their own.
        4096 pub ring: [DmaDescriptor; 32],
    }
}

/// Pieces of a [`DmaList`].
pub const DMA_PIECES: usize = 169;

pool_struct! {
    /// A part of a transfer: contiguous bytes.
    pub struct DmaPiece: size 24, align 8 {
        /// Where they are (pool address).
        0 pub source: Cell64,
        /// Where they go (pool address).
        8 pub destination: Cell64,
        /// How many.
        16 pub bytes: Cell64,
    }
}

pool_struct! {
    /// The pieces of a transfer, in order: a frame. Each of them has a reference to every frame that it touches.
    pub struct DmaList: size 4096, align 64 {
        /// The next one (pool address), 0: there is none.
        0 pub next: Cell64,
        /// Pieces in it, at least one.
        8 pub count: Cell64,
        /// In the first one, for the kernel: whose transfer it is (pool address of a [`DmaFile`]).
        16 pub file: Cell64,
        /// In the first one, for the kernel: the program's word.
        24 pub cookie: Cell64,
        /// In the first one, for the kernel: the address space that is written (pool address).
        32 pub space: Cell64,
        /// The pieces.
        40 pub pieces: [DmaPiece; 169],
    }
}

/// Transfers of an open file that are under way or whose completions were not read.
pub const DMA_FILE_TRANSFERS: usize = 16;

pool_struct! {
    /// What a program is told of a transfer that is over.
    pub struct DmaCompletion: size 32, align 8 {
        /// Its word.
        0 pub cookie: Cell64,
        /// 0, or Linux's number of an error.
        8 pub status: Cell32,
        12 _pad: Cell32,
        /// Bytes transferred.
        16 pub bytes: Cell64,
        /// When it ended, on the machine's clock in nanoseconds; it is not over before.
        24 pub ended_ns: Cell64,
    }
}

pool_struct! {
    /// An open `/dev/dma`. Guarded by `lock`, but for the queues.
    pub struct DmaFile: size 704, align 64 {
        /// Guards everything here.
        0 pub lock: TransfersLock,
        /// Transfers that the engine has and completions that were not read: at most [`DMA_FILE_TRANSFERS`].
        8 pub used: Cell32,
        /// Transfers that the engine has.
        12 pub under_way: Cell32,
        /// 1: its last descriptor was closed, and it goes with its last transfer.
        16 pub closed: Cell32,
        /// Completions that were read, modulo 2^32; the next one is in `completions[read % DMA_FILE_TRANSFERS]`.
        20 pub read: Cell32,
        /// Completions that came, modulo 2^32.
        24 pub came: Cell32,
        /// 1: completions are being sorted; 2: whoever did that has died, and what came of them is not known.
        28 pub sorting: Cell32,
        /// Threads waiting for a completion.
        32 pub read_waiters: WaitQueue,
        /// Threads waiting for room.
        64 pub write_waiters: WaitQueue,
        96 _pad1: [Cell64; 4],
        /// What was not read.
        128 pub completions: [DmaCompletion; 16],
        640 _pad2: [Cell64; 8],
    }
}
