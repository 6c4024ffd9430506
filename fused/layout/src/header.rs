//! The pool header: what the host writes before boot and what islands publish about themselves.

use crate::sync::{AtomicU32, AtomicU64};

use crate::{
    BlocksLock, BoundLock, CORES_MAX, Cell32, Cell64, CrossingRecord, DESCRIPTOR_WORDS, Descriptor, DmaEngine,
    FramesLock, GuestsLock, ISLANDS_MAX, IdsLock, RenameLock, SlabLock, StreamLock, TerminalLock, TimersLock, TreeLock,
    WaitersLock, WatchesLock, pool_struct,
};

/// First eight bytes of every pool: "MOTETPL\x01".
pub const POOL_MAGIC: u64 = u64::from_le_bytes(*b"MOTETPL\x01");
/// Version of the header's own format (the first 64 bytes keep their meaning in every version).
pub const POOL_VERSION: u32 = 1;

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
        /// Island-written: ISA extensions of its cores, as in `/proc/cpuinfo`, with those that are [withheld](CoreRecord::withheld):
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
        /// [`CallSlot`] there, 1 + its index; 0: none.
        1152 pub slot_owners: [AtomicU32; 128],
        /// The same: 1 if that core does not look for what this island writes for it, and is to be rung. Written by that core.
        1664 pub to_be_rung: [AtomicU32; 128],
        2176 _pad4: [Cell64; 240],
    }
}

/// A byte of text in the pool.
pub type AtomicByte = crate::sync::AtomicU8;

/// [`CoreRecord::state`]: not started.
pub const CORE_OFFLINE: u32 = 0;
/// [`CoreRecord::state`]: running; it will look at its inbox without being rung.
pub const CORE_AWAKE: u32 = 1;
/// [`CoreRecord::state`]: waiting for an interrupt; whoever gives it work rings it.
pub const CORE_IDLE: u32 = 2;
/// [`CoreRecord::state`]: looking at this word in a loop before it waits for an interrupt; it need not be rung.
pub const CORE_POLLING: u32 = 3;
/// [`CoreRecord::state`], lowest byte: it was idle, and another core, whose index is in the second byte, is writing `message`
/// (see `motet_protocol::direct`).
pub const CORE_CLAIMED: u32 = 4;
/// [`CoreRecord::state`]: `message` is a call of a function, which it runs or is about to run.
pub const CORE_CALLED: u32 = 5;
/// [`CoreRecord::state`]: it was idle, and is finding out what it woke for.
pub const CORE_WAKING: u32 = 6;
/// [`CoreRecord::state`]: taken out (`motet_protocol::hotplug`): it takes no threads, and gives those that come to others. A single bit, as
/// most who ask want to know whether it is this or offline.
pub const CORE_OUT: u32 = 8;

/// [`PoolHeader::crossing`]: as `docs/protocols/crossing.md` says.
pub const CROSSING_DIRECT: u32 = 0;
/// [`PoolHeader::crossing`]: as Flick does, for comparison (`docs/protocols/migration.md`).
pub const CROSSING_FLICK: u32 = 1;

/// [`CoreRecord::call`], lowest byte: `message` is free.
pub const CALL_NONE: u32 = 0;
/// [`CoreRecord::call`], lowest byte: `message` is a call.
pub const CALL_GIVEN: u32 = 1;
/// [`CoreRecord::call`], lowest byte: `message` has the results of a call.
pub const CALL_RETURNED: u32 = 2;
/// [`CoreRecord::call`], lowest byte: the caller's core is reading the results in `message`.
pub const CALL_TAKEN: u32 = 3;
/// [`CoreRecord::answer`]: the called function calls one of the caller's island.
pub const CALL_BACK: u32 = 4;
/// [`CoreRecord::answer`]: the called function goes on as an ordinary thread.
pub const CALL_LEFT: u32 = 5;
/// [`CoreRecord::answer`]: the callee has not taken the call, and never will.
pub const CALL_WITHDRAWN: u32 = 6;
/// [`CoreRecord::call`], a mark: the thread that calls is to look at its own attention word.
pub const CALL_ATTENTION: u32 = 1 << 16;
/// [`CoreRecord::call`], a mark: the caller's core looks at this word and need not be rung.
pub const CALL_POLLED: u32 = 1 << 17;
/// [`CoreRecord::call`]: one look of the caller's core at it. The number of looks means nothing.
pub const CALL_LOOKED: u32 = 1 << 18;

pool_struct! {
    /// One core: its run queue and what others may ask of it. The size is a power of two, so that finding it takes one shift.
    pub struct CoreRecord: size 4096, align 64 {
        /// `CORE_*`. The core moves it; a waker moves it from idle to awake (and then rings).
        0 pub state: AtomicU32,
        /// Whose `message` is, and what: `CALL_*` in the lowest byte, the core that calls in the second one, marks above.
        4 pub call: AtomicU32,
        /// Head of the inbox: see `motet_protocol::run_queue`. Its lowest bit, and that of the links that follow, says in which half of
        /// `inbox_count` the thread counts.
        8 pub inbox: AtomicU64,
        /// A call and then its results, in the same cache line as `state`: one line moves there and back.
        16 pub message: [Cell64; 6],
        /// Highest shoot-down ticket asked of this core (fetch_add by initiators).
        64 pub shootdown_asked: AtomicU64,
        /// Highest shoot-down ticket this core has carried out.
        72 pub shootdown_done: AtomicU64,
        /// Highest ticket that was asked when this core last passed a place where it has no thread in transit (`motet_protocol::orphans`).
        80 pub shootdown_passed: AtomicU64,
        /// With `answer_message`: argument words from the second on.
        88 pub answer_words: [Cell64; 5],
        /// The thread it runs (pool address, 0 when idle). Written by the core.
        128 pub current_thread: AtomicU64,
        /// The address space it has active (pool address). Written by the core.
        136 pub active_space: AtomicU64,
        /// Nanoseconds spent idle. Written by the core.
        144 pub idle_ns: Cell64,
        /// Nanoseconds spent in threads and the kernel. Written by the core.
        152 pub busy_ns: Cell64,
        /// Length of the ready queue, for placement decisions (approximate).
        160 pub ready_count: AtomicU32,
        /// Timed machines: the core that it is about to ring, or has written something for. Written by the core.
        164 pub ring_target: Cell32,
        /// Groups of `ready_groups` that have threads, a bit each. This and all about ready threads: the core's own.
        168 pub ready_mask: Cell32,
        /// The group of the thread that the core took last.
        172 pub ready_running: Cell32,
        /// The frame that leaves the island's caches ([`crate::marks::FLUSH`]): its pool address.
        176 pub flush_addr: Cell64,
        /// 1: its ready threads run in the order in which they came, each until it waits, ends or leaves; 0: fairly. Host-written.
        184 pub first_come: Cell32,
        /// Threads in the inbox, for placement decisions (approximate: may be too high for a moment): in the half (16 bits) of the
        /// [reclamation](PoolHeader::reclamations) before which they were counted. In this line and not in the inbox's: calls go through that one.
        188 pub inbox_count: AtomicU32,
        /// Lock of the timer list.
        192 pub timer_lock: TimersLock,
        /// First thread in the list of deadlines, earliest first (pool address).
        200 pub timer_head: Cell64,
        /// Earliest deadline, in nanoseconds on the machine's clock; `u64::MAX` when none.
        208 pub timer_deadline_ns: AtomicU64,
        /// Timed machines: the core's simulated time in nanoseconds, stored by the simulator at the core's request (never 0
        /// once the machine's time runs).
        216 pub clock_ns: AtomicU64,
        /// Timed machines: when the core wants to be interrupted, `u64::MAX` never. Taken back by the simulator when it
        /// rings the core.
        224 pub alarm_ns: AtomicU64,
        /// Timed machines: when the first doorbell rung for it since it lay down arrives ([`IslandRecord::doorbell_ns`]
        /// after the ringer's time), 0 none. Set by the simulator; cleared by the core when it takes a doorbell while
        /// it is awake, and by the simulator when it wakes.
        232 pub rung_at_ns: AtomicU64,
        /// Timed machines: the same, for what it looked at instead of sleeping: when it was written first.
        240 pub written_at_ns: AtomicU64,
        /// Timed machines: doorbells rung for it and things written for it. Counted by the simulator.
        248 pub rings_received: AtomicU64,
        /// 1: it is to be out of use, or is ([`CORE_OUT`]). Written by whoever asks, under the tree lock.
        256 pub leaves: AtomicU32,
        260 _pad9: Cell32,
        /// What it has in hand (`motet_protocol::hand`). This and the next: written by the core, and by others once it has died.
        264 pub hand: [AtomicU64; 6],
        /// Where something in hand goes to, or comes from.
        312 pub hand_place: AtomicU64,
        /// The part of `message` that most calls do not need: argument words, then floating-point arguments.
        320 pub message_words: [Cell64; 8],
        /// See `message_words`.
        384 pub message_floats: [Cell64; 8],
        /// Where islands do not cache each other's memory: what has become of the call that this core has made, `CALL_*` (given: its
        /// callee has taken it). Set to none by this core, to all else by the callee.
        448 pub answer: AtomicU32,
        /// Not 0: the address space that it has active has changed ([`SpaceRecord::epoch`](crate::SpaceRecord)), or nobody uses it any
        /// more. Cleared by the core.
        452 pub space_changed: AtomicU32,
        /// As `message` and `message_words` of the callee elsewhere: results, or a call back.
        456 pub answer_message: [Cell64; 6],
        504 _pad7: Cell64,
        /// With `answer_message`: who calls back, and what it needs to go on.
        512 pub answer_caller: CrossingRecord,
        /// As `answer_caller`, of an answer of this core that its engine is to carry.
        896 pub out_caller: CrossingRecord,
        /// Ready threads by user: see `motet_protocol::ready`.
        1280 pub ready_groups: [ReadyGroup; READY_GROUPS],
        /// The migration engine (`motet_protocol::dma`): the descriptor that it is to transfer. Written by the core.
        1536 pub dma_out: [Cell64; DESCRIPTOR_WORDS],
        /// By `DMA_*`: descriptors that have been transferred to this core. Written by the engine.
        1696 pub dma_in: [Descriptor; 2],
        /// By `DMA_*`, the engine's status: when the descriptor there arrives or has arrived, in nanoseconds of the machine's clock; 0:
        /// there is none. Set by the engine, cleared by the core.
        2016 pub dma_arrives_ns: [AtomicU64; 2],
        /// What the engine is to transfer, and to which of its receiver's places: `DMA_*`; `DMA_NONE` if nothing is under way. Written by the core
        /// before the thread is the receiver's, and by the engine when it has transferred it.
        2032 pub dma_place: Cell32,
        /// Whether the engine has taken what it was to transfer: 1, or 0 if its receiver has no room. Written by the engine.
        2036 pub dma_taken: Cell32,
        /// When the engine is through with that, and the core may write there again. Written by the engine.
        2040 pub dma_ends_ns: Cell64,
        /// Where islands do not cache each other's memory: what the cores of each island ask of this one.
        2048 pub calls: [CallSlot; 8],
        /// The extensions that it has and may use, a `motet_abi::extension::ExtensionSet` of its ISA. Written by the core before it is
        /// awake first.
        3584 pub capabilities: Cell64,
        /// Extensions that the machine's description takes away from it, in the same form. Host-written.
        3592 pub withheld: Cell64,
        /// AT_HWCAP and AT_HWCAP2 of programs that run on cores like it. Written by the core.
        3600 pub hwcap: [Cell64; 2],
        /// RISC-V: what `riscv_hwprobe` says of it (`RISCV_HWPROBE_KEY_IMA_EXT_0`). Written by the core.
        3616 pub probe: Cell64,
        /// Bytes in its vector registers, beyond those that every core of its instruction set has; 0: none. Written by the core.
        3624 pub vector_bytes: Cell32,
        /// 1: it has an extension that another core of its instruction set lacks. Written by the first core, before any program starts.
        3628 pub scarce: Cell32,
        /// 1: every core of its instruction set has vector registers, as long as its own. Written as the field before.
        3632 pub common_vectors: Cell32,
        /// How many threads that it has sent to hidden harts are not home (docs/firmware.md): it serves shoot-downs even if it sleeps. The
        /// highest bit: threads of it wait for a place there. Written by the core.
        3636 pub away: AtomicU32,
        /// Extensions that no processor reports and that the machine's description says it has. Host-written.
        3640 pub claimed: Cell64,
        /// A call of this core that its engine is to carry ([`DMA_CALL`](crate::DMA_CALL)). Written by the core; of its first line, `message` alone counts.
        3648 pub out_call: CallSlot,
        /// By island, of the last call in `calls` that an engine has carried: when it arrives or has arrived, in nanoseconds of the machine's clock.
        /// Written by the engine before the request.
        3840 pub call_arrives_ns: [Cell64; 8],
        /// The same of the answer. Written by the engine before `answer`.
        3904 pub answer_arrives_ns: Cell64,
        /// What the engine is to store in `answer` ([`DMA_ANSWER`](crate::DMA_ANSWER)). Written by the core.
        3912 pub out_answer: Cell32,
        3916 _pad14: Cell32,
        /// As `answer_message` and `answer_words`, of an answer of this core that its engine is to carry.
        3920 pub out_message: [Cell64; 6],
        /// See `out_message`.
        3968 pub out_words: [Cell64; 5],
        /// Ready threads of real-time policies. This and the next three are the core's own.
        4008 pub ready_realtime: ReadyGroup,
        /// When the period began in which real-time threads may run for so long while others wait, in nanoseconds of the machine's clock.
        4040 pub realtime_since_ns: Cell64,
        /// How long they had run then, in nanoseconds.
        4048 pub realtime_before_ns: Cell64,
        /// 1: they have run long enough in this period; others come first.
        4056 pub realtime_held: Cell32,
        /// `READY_*`, not 0: the core looks whether it has something more urgent than what it runs. Cleared by the core.
        4060 pub ready_changed: AtomicU32,
        /// How many locks it holds of each [`LockClass`](crate::LockClass), four bits each, where their order is checked
        /// (`motet_protocol::lock`). The core's own.
        4064 pub locks_held: [AtomicU64; 2],
        4080 _pad12: [Cell64; 2],
    }
}

pool_struct! {
    /// A call by a core of one island to a core of another one, which has it in its record: the callee reads its own memory, and the
    /// caller only stores (`motet_protocol::noncoherent`). It is its caller's until the request, and then the callee's until the answer.
    pub struct CallSlot: size 192, align 64 {
        /// [`CALL_GIVEN`], and who calls in the second byte: the call waits for the callee. Stored by the caller; 0 stored by the callee,
        /// which takes the call or lets it be withdrawn.
        0 pub request: AtomicU32,
        /// 1: the caller does not want the request that waits here. Stored by the caller alone.
        4 pub withdrawn: AtomicU32,
        /// 1: somebody wants the thread whose call this is. 0 stored by the callee alone.
        8 pub attention: AtomicU32,
        12 _pad1: Cell32,
        /// The call, as [`CoreRecord::message`].
        16 pub message: [Cell64; 6],
        /// As [`CoreRecord::message_words`]; of a call that goes on with a function, where that goes on.
        64 pub words: [Cell64; 8],
        /// As [`CoreRecord::message_floats`].
        128 pub floats: [Cell64; 8],
    }
}

/// [`CoreRecord::ready_changed`], a bit: a real-time thread has been pushed onto the inbox.
pub const READY_URGENT: u32 = 1;
/// The same: how a thread is scheduled that may be ready here has changed.
pub const READY_UNSORTED: u32 = 2;

/// Users whose ready threads a core keeps apart; the last group is for all others.
pub const READY_GROUPS: usize = 8;

pool_struct! {
    /// The ready threads of one user on a core.
    pub struct ReadyGroup: size 32, align 8 {
        /// 1 + the user's id; 0: nobody's yet.
        0 pub user: Cell32,
        /// No thread in the group is less urgent: its rank is not greater (two's complement; see `motet_protocol::schedule`).
        4 pub rank_max: Cell32,
        /// First thread (pool address).
        8 pub first: Cell64,
        /// Last thread (pool address).
        16 pub last: Cell64,
        /// How long the core has served the user, in nanoseconds, as far as that matters to who comes next.
        24 pub served_ns: Cell64,
    }
}

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

/// [`PoolHeader::interactive`]: stdin is a terminal; the machine's console does line editing and job control.
pub const CONSOLE_TERMINAL: u32 = 1;

pool_struct! {
    /// The beginning of the pool. Host-written before any island starts, except where said.
    pub struct PoolHeader: size 634880, align 64 {
        /// [`POOL_MAGIC`].
        0 pub magic: Cell64,
        /// [`POOL_VERSION`].
        8 pub version: Cell32,
        /// Entries used in `islands`.
        12 pub island_count: Cell32,
        /// [`FINGERPRINT`](crate::FINGERPRINT) of the host's layouts; a kernel with another one refuses to join.
        16 pub fingerprint: Cell64,
        /// Bytes in the pool.
        24 pub pool_len: Cell64,
        /// Peer id of the host among the doorbell devices.
        32 pub host_peer: Cell32,
        /// The machine stops: 0 runs, otherwise 1 + the exit status. Written once, by whoever ends the run.
        36 pub exit: AtomicU32,
        /// Nanoseconds of the machine's clock, kept up to date by the host until every island has joined
        /// (islands set their own clocks by it).
        40 pub host_clock_ns: AtomicU64,
        /// Nanoseconds since 1970-01-01 UTC when the machine's clock was 0.
        48 pub realtime_at_zero_ns: Cell64,
        /// Entropy from the host.
        56 pub seed: [Cell64; 4],
        /// `CONSOLE_TERMINAL` or 0.
        88 pub interactive: Cell32,
        /// Rows and columns of the terminal (rows << 16 | columns).
        92 pub terminal_size: AtomicU32,
        /// The command: NUL-terminated argument strings, then NUL-terminated environment strings (pool address).
        96 pub command: Cell64,
        /// Number of argument strings in `command`.
        104 pub command_args: Cell32,
        /// Number of environment strings in `command`.
        108 pub command_env: Cell32,
        /// The root directory's inode (pool address).
        112 pub root_inode: Cell64,
        /// Whether a simulator keeps the machine's time ([`CoreRecord::clock_ns`]): 1, otherwise 0.
        120 pub timed: Cell32,
        /// Log level of the kernels' consoles.
        124 pub verbose: Cell32,
        /// 1: there are islands that do not cache each other's memory, so words are best near who reads them. Timed machines only.
        128 pub uncached: Cell32,
        /// Not 0: an island has died and is to be looked for ([`ISLAND_DEAD`]). Set by the host, cleared by the first core.
        132 pub died: AtomicU32,
        /// How calls cross instruction sets: `CROSSING_*`.
        136 pub crossing: Cell32,
        /// How calls go to islands whose memory is not cached: `CALLS_BY_*`.
        140 pub calls_by: Cell32,
        /// Timed machines: a transfer of a migration engine before its first byte, the stores that start it included, in nanoseconds.
        144 pub dma_setup_ns: Cell32,
        /// Timed machines: each 1024 bytes of it.
        148 pub dma_kib_ns: Cell32,
        /// The service core ([`ServiceCore`](crate::ServiceCore), a pool address); 0: the machine has none.
        152 pub service: Cell64,
        /// The FPGA ([`Fpga`](crate::Fpga), a pool address); 0: the machine has none.
        160 pub fpga: Cell64,
        /// How often the first island has begun to end what ran on lost ones. Written by its first core.
        168 pub reclamations: AtomicU32,
        /// What real-time threads may use of a core while others wait: 1 more than microseconds of a period; 0: nobody has said; `u32::MAX`: all.
        172 pub realtime_limit: AtomicU32,
        176 _pad0: [Cell64; 2],
        /// The latest reading of the machine's clock that anyone was given, in nanoseconds (`motet_protocol::clock`). Raised
        /// by whoever reads. Alone in its cache line. Not used on timed machines.
        192 pub latest_reading_ns: AtomicU64,
        200 _pad1: [Cell64; 167],
        /// Console input, host to machine.
        1536 pub console_in: HostStream,
        /// Console (and the command's standard) output, machine to host.
        1792 pub console_out: HostStream,
        /// The command's standard error, machine to host.
        2048 pub console_err: HostStream,
        /// The terminal's state.
        2304 pub tty: Tty,
        /// Guards the process tree: parents, children, thread lists, process groups.
        8448 pub tree_lock: TreeLock,
        /// Thread table: an array of thread addresses by thread id (pool address).
        8456 pub threads: Cell64,
        /// Entries in `threads`.
        8464 pub threads_len: Cell32,
        /// One past the highest thread id in use.
        8468 pub threads_high: AtomicU32,
        /// Last thread id given.
        8472 pub last_tid: Cell32,
        /// Number of the last inode made.
        8476 pub last_inode: AtomicU32,
        /// Guards thread id allocation.
        8480 pub tid_lock: IdsLock,
        /// Futex wait queues: an array of [`WaitQueue`]s (pool address).
        8488 pub futexes: Cell64,
        /// Entries in `futexes`, a power of two.
        8496 pub futexes_len: Cell32,
        /// Islands that have joined.
        8500 pub joined: AtomicU32,
        /// Random number state (xor-shifted by readers of randomness).
        8504 pub random: AtomicU64,
        /// Context switches, forks and so on since boot, all islands: forks.
        8512 pub forks: AtomicU64,
        /// Bitmap of free frames, one bit per frame (pool address).
        8520 pub frame_bitmap: Cell64,
        /// Guards renames between directories.
        8528 pub rename_lock: RenameLock,
        /// The cores' traces ([`TraceTable`](crate::TraceTable), a pool address); 0: nothing is traced.
        8536 pub trace: Cell64,
        /// Address spaces made so far.
        8544 pub spaces_made: AtomicU64,
        /// Guards which files interest lists (`epoll`) watch.
        8552 pub epoll_lock: WatchesLock,
        /// Guards which sockets are bound.
        8560 pub socket_lock: BoundLock,
        /// The first [`SocketRecord`](crate::SocketRecord) that is bound (pool address), 0: none is.
        8568 pub bound_sockets: Cell64,
        /// Memory allocator.
        8576 pub memory: MemoryState,
        /// Slab caches, by object class.
        9280 pub slabs: [SlabCache; 32],
        /// Threads that wait to connect to a socket where too many do.
        11328 pub socket_waiters: WaitQueue,
        /// Threads that wait to read signals (`signalfd`), of all processes.
        11360 pub signal_waiters: WaitQueue,
        /// Users who have processes: the first [`UserRecord`](crate::UserRecord) (pool address). Under the tree lock.
        11392 pub users: Cell64,
        /// Guards the list of virtual machines.
        11400 pub vms_lock: GuestsLock,
        /// The first [`VmRecord`](crate::VmRecord) (pool address); 0: there is none.
        11408 pub vms: Cell64,
        /// Number of the last one that was made.
        11416 pub last_vm: Cell32,
        /// 1: the host wants one of them to end. Set after the machine's own word; cleared by the first core before it looks.
        11420 pub vms_asked: AtomicU32,
        /// Threads that wait until a core is out of use, or back.
        11424 pub core_waiters: WaitQueue,
        /// Locks that dead cores held and that others have taken over, once what they protect was repaired, by [`LockClass`](crate::LockClass).
        11456 pub locks_recovered: [AtomicU64; 32],
        /// Not 0: the [`WatchRecord`](crate::WatchRecord) (pool address) that is being added to an interest list, or discarded. Under `epoll_lock`.
        11712 pub watch_changing: Cell64,
        11720 _pad2: [Cell64; 71],
        /// The islands, indexed by [`IslandId`](crate::IslandId).
        12288 pub islands: [IslandRecord; 8],
        /// Cores, indexed by [`CoreId`](crate::CoreId) (sparse: 16 per island). Those of an island are sixteen pages, in memory
        /// near it.
        45056 pub cores: [CoreRecord; 128],
        /// The islands' transfer engines, two pages each, in memory near their islands.
        569344 pub dma: [DmaEngine; 8],
    }
}

// Lengths of arrays above.
const _: () = assert!(ISLANDS_MAX == 8 && CORES_MAX == 128);

pool_struct! {
    /// Physical memory of the pool: see `motet_protocol::memory`.
    pub struct MemoryState: size 704, align 64 {
        /// Guards block ownership changes.
        0 pub lock: BlocksLock,
        /// Frames in a block (a power of two).
        8 pub block_frames: Cell32,
        /// Blocks in the pool, including those that hold the tables.
        12 pub block_count: Cell32,
        /// Pool address of the array of [`BlockRecord`](crate::BlockRecord).
        16 pub blocks: Cell64,
        /// Pool address of the array of [`FrameRecord`](crate::FrameRecord), one per frame.
        24 pub frames: Cell64,
        /// Blocks that no island owns.
        32 pub free_blocks: AtomicU32,
        /// Blocks that islands have given back so far (wraps).
        36 pub returned_blocks: AtomicU32,
        40 _pad: [Cell64; 3],
        /// Per island: lock, owned blocks, free frames.
        64 pub islands: [IslandMemory; 9],
        640 _pad1: [Cell64; 8],
    }
}

/// Distances of a block from an island, each with a list: near to it, near to no island, near to others only.
pub const DISTANCES: usize = 3;

pool_struct! {
    /// One island's share of the pool (index 8: the host, while it builds the root file system). A cache line of its own,
    /// so that islands allocate without disturbing each other.
    pub struct IslandMemory: size 64, align 64 {
        /// Guards the blocks of this island.
        0 pub lock: FramesLock,
        /// Frames free in its blocks.
        8 pub free_frames: AtomicU32,
        /// Frames in its blocks.
        12 pub owned_frames: AtomicU32,
        /// By distance: index + 1 of the first block; 0: none.
        16 pub first: [Cell32; 3],
        /// 1 + [`MemoryState::returned_blocks`] when no block was free but of others' memory; 0: never.
        28 pub searched: Cell32,
        /// By distance: frames free.
        32 pub free_by_distance: [Cell32; 3],
        /// By distance: frames in its blocks.
        44 pub owned_by_distance: [Cell32; 3],
        56 _pad: Cell64,
    }
}

pool_struct! {
    /// One class of fixed-size objects: see `motet_protocol::slab`.
    pub struct SlabCache: size 64, align 64 {
        /// Guards the free list.
        0 pub lock: SlabLock,
        /// First free object (pool address), linked through its first word.
        8 pub free: Cell64,
        /// Object size in bytes.
        16 pub object_size: Cell32,
        /// Objects in use.
        20 pub in_use: Cell32,
        /// Objects that exist.
        24 pub total: Cell32,
        28 _pad0: Cell32,
        32 _pad1: [Cell64; 4],
    }
}

/// Bytes of terminal input that can wait for a reader.
pub const TTY_INPUT_SIZE: usize = 4096;

pool_struct! {
    /// The console terminal: line discipline and job control.
    pub struct Tty: size 6144, align 64 {
        /// Guards everything here.
        0 pub lock: TerminalLock,
        /// Linux `termios` flags: input, output, control, local.
        8 pub flags: [Cell32; 4],
        /// Linux control characters `c_cc[0..32]`.
        24 pub control: [AtomicByte; 32],
        /// Foreground process group.
        56 pub foreground_pgid: Cell32,
        /// Session it controls.
        60 pub session: Cell32,
        /// Bytes of `input` that form finished lines (or raw input), from `read`.
        64 pub ready: Cell32,
        /// Next byte to be read, modulo [`TTY_INPUT_SIZE`].
        68 pub read: Cell32,
        /// Bytes in `input` from `read`, finished or not.
        72 pub used: Cell32,
        /// End-of-file marks typed and not yet read.
        76 pub eof_marks: Cell32,
        80 _pad0: [Cell64; 6],
        /// Threads that wait for input.
        128 pub readers: WaitQueue,
        160 _pad1: [Cell64; 4],
        /// Input bytes, a ring.
        192 pub input: [AtomicByte; 4096],
        /// Per input byte, bit n: the byte n of `input` ends a line.
        4288 pub line_ends: [Cell64; 64],
        4800 _pad2: [Cell64; 168],
    }
}
