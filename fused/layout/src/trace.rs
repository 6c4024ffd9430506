//! The trace: which thread each core ran and whom it woke, for the host to read while the machine runs.

use crate::sync::AtomicU64;

use crate::{AtomicByte, CORES_MAX, Cell32, Cell64};

/// [`PoolHeader::trace`](crate::PoolHeader::trace): pool addresses of the cores' [`TraceRing`]s by
/// [`CoreId`](crate::CoreId), 0 where there is no core.
pub type TraceTable = [Cell64; CORES_MAX];

pool_struct! {
    /// One core's events, oldest overwritten only after the host has taken them. The [`TraceEvent`]s follow it in memory;
    /// the event numbered `n` is at index `n % capacity`.
    pub struct TraceRing: size 128, align 64 {
        /// Events written. Stored (release) by the core.
        0 pub head: AtomicU64,
        /// Events that found no room. Written by the core.
        8 pub lost: Cell64,
        /// Room, in events, a power of two. Host-written before boot.
        16 pub capacity: Cell64,
        /// What is written (`motet_protocol::trace::Scope`). Host-written before boot.
        24 pub scope: Cell32,
        28 _pad2: Cell32,
        32 _pad0: [Cell64; 4],
        /// Events taken. Stored (release) by the host.
        64 pub tail: AtomicU64,
        72 _pad1: [Cell64; 7],
    }
}

pool_struct! {
    /// Something that happened on a core. Written by the core before it moves `head`.
    pub struct TraceEvent: size 40, align 8 {
        /// When, in nanoseconds on the machine's clock.
        0 pub time_ns: Cell64,
        /// What: see `motet_protocol::trace`.
        8 pub kind: Cell32,
        /// The thread it is about, 0 none.
        12 pub tid: Cell32,
        /// That thread's process.
        16 pub pid: Cell32,
        /// The core it is about, or how a thread's run ended.
        20 pub detail: Cell32,
        /// The thread's name, NUL-padded.
        24 pub name: [AtomicByte; 16],
    }
}
