//! What islands say about themselves, and what the host says about them.

use crate::{
    AtomicByte, Cell32, Cell64, TimerNode, pool_struct,
    sync::{AtomicU32, AtomicU64},
};

pool_struct! {
    /// One piece of an island's map from pool offsets to its local physical addresses (which is piecewise linear).
    pub struct PoolRange: size 24, align 8 {
        /// First pool offset of the piece.
        0 pub pool_offset: Cell64,
        /// The island's physical address of that byte.
        8 pub local_phys: Cell64,
        /// Bytes in the piece; zero: unused entry.
        16 pub len: Cell64,
    }
}

pool_struct! {
    /// What an island counts (`/proc/motet`). Written by the island's cores, read by all.
    pub struct IslandCounters: size 128, align 64 {
        /// Doorbells rung by this island.
        0 pub doorbells_rung: AtomicU64,
        /// Doorbell interrupts taken by this island.
        8 pub doorbells_taken: AtomicU64,
        /// Threads of other islands that this island made runnable.
        16 pub foreign_wakeups: AtomicU64,
        /// Page-table entries written in other islands' tables.
        24 pub remote_pte_edits: AtomicU64,
        /// Translation shoot-downs started.
        32 pub shootdowns: AtomicU64,
        /// Shoot-downs of other islands' cores waited for.
        40 pub shootdowns_foreign: AtomicU64,
        /// Blocks taken from the global allocator.
        48 pub blocks_taken: AtomicU64,
        /// Blocks given back to the global allocator.
        56 pub blocks_returned: AtomicU64,
        /// System calls served.
        64 pub syscalls: AtomicU64,
        /// Page faults served.
        72 pub page_faults: AtomicU64,
        /// Context switches.
        80 pub context_switches: AtomicU64,
        /// Threads that moved here from another island.
        88 pub arrivals: AtomicU64,
        /// Frames whose instructions were made visible to this island's cores.
        96 pub icache_syncs: AtomicU64,
        /// Timer ticks and idle wake-ups: that they go on says that the island lives.
        104 pub heartbeat: AtomicU64,
        /// How often its clock was moved forward, because another island had read a later time.
        112 pub clock_steps: AtomicU64,
        /// The furthest that its clock was seen to be behind another island's, in nanoseconds.
        120 pub clock_step_ns_max: AtomicU64,
    }
}

/// Words of [`IslandRecord::visible`].
pub const VISIBLE_WORDS: usize = 3;

/// Words of [`IslandRecord::visible`], and bits of them.
pub mod visible_words {
    /// AArch64: CTR_EL0, of lines of caches.
    pub const CACHE_TYPE: usize = 0;
    /// AArch64: the block that `DC ZVA` zeroes, DCZID_EL0.BS. RISC-V: that of `cbo.zero` in bytes; 0: it has none.
    pub const ZEROED_BLOCK: usize = 1;
    /// AArch64: CNTFRQ_EL0.
    pub const FREQUENCY: usize = 2;
    /// x86-64: what decodes as something else on cores without it, a bit each: [`LZCNT`], [`TZCNT`].
    pub const DECODED: usize = 0;
    /// `lzcnt` is not `bsr`.
    pub const LZCNT: u64 = 1;
    /// `tzcnt` is not `bsf`.
    pub const TZCNT: u64 = 2;
    /// No word, but a bit of [`IslandRecord::hides`]: counters of time, which islands have begun at different moments.
    pub const COUNTERS: usize = 31;
}

/// [`IslandRecord::state`]: nothing there.
pub const ISLAND_ABSENT: u32 = 0;
/// [`IslandRecord::state`]: described by the host, its kernel has not joined.
pub const ISLAND_BOOTING: u32 = 1;
/// [`IslandRecord::state`]: its kernel checked the header and serves threads.
pub const ISLAND_JOINED: u32 = 2;
/// [`IslandRecord::state`]: its kernel refused to join or panicked; `message` says why.
pub const ISLAND_FAILED: u32 = 3;
/// [`IslandRecord::state`]: it has died and the machine goes on; its cores are off. Said by the host.
pub const ISLAND_DEAD: u32 = 4;
/// [`IslandRecord::state`]: the first island is ending what ran on a lost one.
pub const ISLAND_RECLAIMING: u32 = 5;
/// [`IslandRecord::state`]: that has come to its end: the island may be started again.
pub const ISLAND_GONE: u32 = 6;
/// [`IslandRecord::state`]: the host starts it again, and its kernel has not joined. Said by the host (`motet_protocol::rejoin`).
pub const ISLAND_REJOINING: u32 = 7;

/// Whether an island in this state has died and has not joined again: nothing of it runs.
pub const fn is_dead_state(state: u32) -> bool {
    matches!(state, ISLAND_DEAD | ISLAND_RECLAIMING | ISLAND_GONE | ISLAND_REJOINING)
}

pool_struct! {
    /// One island. Host-written before boot except where said. A page of its own, in memory near the island.
    pub struct IslandRecord: size 4096, align 64 {
        /// [`Isa`](crate::Isa) of the island, 0 if the entry is unused.
        0 pub isa: Cell32,
        /// Cores that run threads (a spare core may exist beside them).
        4 pub core_count: Cell32,
        /// Island-written, before it joins: hidden harts that its firmware has for its cores.
        8 pub hidden_harts: Cell32,
        /// Format of its page tables (an [`Isa`](crate::Isa) code; differs from `isa` on hosted islands only).
        12 pub paging: Cell32,
        /// `ISLAND_*`; the island moves it from booting to joined or failed.
        16 pub state: AtomicU32,
        /// Bytes of its private memory.
        20 pub message_len: AtomicU32,
        /// Bytes of private memory.
        24 pub private_len: Cell64,
        /// Island-written: nanoseconds on the machine's clock when it joined.
        32 pub joined_at_ns: Cell64,
        /// Hidden harts that are to be out of use, a bit each. Written by whoever asks, under the tree lock, and by the first core if it cannot be.
        40 pub hidden_leave: AtomicU32,
        /// Those that are. Written by the island's first core.
        44 pub hidden_out: AtomicU32,
        /// Island-written: the machine's clock minus the island's counter, in nanoseconds (wrapping). Raised by any of its
        /// cores (`motet_protocol::clock`).
        48 pub clock_offset_ns: AtomicU64,
        /// How long its cores look for work before they wait for an interrupt, in nanoseconds.
        56 pub poll_ns: Cell64,
        /// Where its cores see the pool.
        64 pub ranges: [PoolRange; 4],
        /// Timed machines: from when a core of this island rings one of island `i` to when that one is interrupted, in
        /// nanoseconds.
        160 pub doorbell_ns: [Cell32; 8],
        /// Island-written: what it counts.
        192 pub counters: IslandCounters,
        /// Island-written: ISA extensions of its cores, as in `/proc/cpuinfo`, with those that are [withheld](crate::CoreRecord::withheld):
        /// NUL-padded UTF-8.
        320 pub extensions: [AtomicByte; 448],
        /// Island-written: why it failed, UTF-8, `message_len` bytes.
        768 pub message: [AtomicByte; 256],
        /// The peer id of island `i` among the doorbell devices.
        1024 pub doorbell_peers: [Cell32; 8],
        /// How often it has died. Raised by the host before it says so, and never lowered: a lock word names its holder with it
        /// (`motet_protocol::lock`).
        1056 pub deaths: AtomicU32,
        1060 _pad5: Cell32,
        1064 _pad6: Cell64,
        /// Timed machines: from a store by a core of this island until one of island `i` that polls can see it, in nanoseconds.
        1072 pub transit_ns: [Cell32; 8],
        /// Timed machines: of its cores.
        1104 pub frequency_mhz: Cell32,
        1108 _pad2: Cell32,
        /// Timed machines: how long a store by a core of this island into the records of cores of island `i` keeps it, in nanoseconds.
        1112 pub store_ns: [Cell32; 8],
        1144 _pad3: Cell64,
        /// Where islands do not cache each other's memory, by core of the machine: which of this island's cores has the island's
        /// [`CallSlot`](crate::CallSlot) there, 1 + its index; 0: none.
        1152 pub slot_owners: [AtomicU32; 128],
        /// The same: 1 if that core does not look for what this island writes for it, and is to be rung. Written by that core.
        1664 pub to_be_rung: [AtomicU32; 128],
        /// Island-written, before it joins: what programs see of its cores (`motet_abi::visible`).
        2176 pub visible: [Cell64; VISIBLE_WORDS],
        /// What they are to see of them, as of all cores of its instruction set. Written by the machine's first core, before any program starts.
        2200 pub shown: [Cell64; VISIBLE_WORDS],
        /// Which words are hidden because islands of its instruction set differ in them, a bit each, and [`visible_words::COUNTERS`]. Written as the field before.
        2224 pub hides: Cell32,
        2228 _pad7: Cell32,
        /// Regions of address spaces that its threads were found to use, so that their pages follow.
        2232 pub regions_followed: AtomicU64,
        /// Pages that followed to memory near this island.
        2240 pub pages_moved: AtomicU64,
        /// Pages of which it has had replicas.
        2248 pub pages_replicated: AtomicU64,
        /// When its first core, which has a network device, is to look at connections again.
        2256 pub network: TimerNode,
        2304 _pad4: [Cell64; 224],
    }
}
