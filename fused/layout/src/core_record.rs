//! Cores: their run queues, calls that they are given, and what others may ask of them.

use crate::{
    Cell32, Cell64, CrossingRecord, DESCRIPTOR_WORDS, Descriptor, TimersLock, pool_struct,
    sync::{AtomicU32, AtomicU64},
};

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
/// [`CoreRecord::state`], lowest byte: it was idle, and is given the thread whose frame number is above (`motet_protocol::handed`).
pub const CORE_HANDED: u32 = 7;
/// [`CoreRecord::state`]: taken out (`motet_protocol::hotplug`): it takes no threads, and gives those that come to others. A single bit, as
/// most who ask want to know whether it is this or offline.
pub const CORE_OUT: u32 = 8;

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
        /// `CORE_*`. The core moves it; a waker moves it from idle to awake, or to a thread that the core gets (and then rings).
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
        /// Stores to registers of the FPGA that it served while the program's registers stayed in the core. Written by the core.
        176 pub register_stores: Cell64,
        /// 1: its ready threads run in the order in which they came, each until it waits, ends or leaves; 0: fairly. Host-written.
        184 pub first_come: Cell32,
        /// Threads in the inbox, for placement decisions (approximate: may be too high for a moment): in the half (16 bits) of the
        /// [reclamation](crate::PoolHeader::reclamations) before which they were counted. In this line and not in the inbox's: calls go through that one.
        188 pub inbox_count: AtomicU32,
        /// Lock of the deadlines.
        192 pub timer_lock: TimersLock,
        /// The tree of its deadlines: its top [`TimerNode`](crate::TimerNode) (pool address), 0: there are none.
        200 pub timer_root: Cell64,
        /// Earliest deadline, in nanoseconds on the machine's clock; `u64::MAX` when none.
        208 pub timer_deadline_ns: AtomicU64,
        /// Timed machines: the core's simulated time in nanoseconds, stored by the simulator at the core's request (never 0
        /// once the machine's time runs).
        216 pub clock_ns: AtomicU64,
        /// Timed machines: when the core wants to be interrupted, `u64::MAX` never. Taken back by the simulator when it
        /// rings the core.
        224 pub alarm_ns: AtomicU64,
        /// Timed machines: when the first doorbell rung for it since it lay down arrives ([`IslandRecord::doorbell_ns`](crate::IslandRecord::doorbell_ns)
        /// after the ringer's time), 0 none. Set by the simulator; cleared by the core when it takes a doorbell while
        /// it is awake, and by the simulator when it wakes.
        232 pub rung_at_ns: AtomicU64,
        /// Timed machines: the same, for what it looked at instead of sleeping: when it was written first.
        240 pub written_at_ns: AtomicU64,
        /// Timed machines: doorbells rung for it and things written for it. Counted by the simulator.
        248 pub rings_received: AtomicU64,
        /// How often it went on with another thread by the short way, as the timer had ended a slice or woken who is more urgent. Written by the core.
        256 pub short_switches: Cell64,
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
        /// The frame that leaves the island's caches ([`crate::marks::FLUSH`]): its pool address.
        504 pub flush_addr: Cell64,
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
        /// `AT_LOAD_*`: what it does before it loads a thread's registers first. Written as the field before.
        3632 pub at_load: Cell32,
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
        4056 _pad15: Cell32,
        /// `PENDING_*`: causes for which the core has something to do, and of which no other word tells. Set by `fetch_or`, cleared by `fetch_and`.
        4060 pub pending: AtomicU32,
        /// How many locks it holds of each [`LockClass`](crate::LockClass), four bits each, where their order is checked
        /// (`motet_protocol::lock`). The core's own.
        4064 pub locks_held: [AtomicU64; 2],
        /// The thread whose guest waits for an interrupt in this core while another guest runs there (`motet_protocol::stacked`); 0: none. The core's own,
        /// read by whoever wants the thread.
        4080 pub stacked: AtomicU64,
        4088 _pad12: Cell64,
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

/// [`CoreRecord::at_load`], a bit: every core of its instruction set has vector registers, as long as its own, so they stay open.
pub const AT_LOAD_OPEN: u32 = 1;
/// The same: it hides what its instruction set's islands differ in ([`IslandRecord::hides`](crate::IslandRecord)).
pub const AT_LOAD_HIDE: u32 = 2;

/// [`CoreRecord::pending`], a bit: a real-time thread has been pushed onto the inbox. Cleared by the core. (In the lower bits a kernel
/// numbers further causes, of which other words tell.)
pub const PENDING_URGENT: u32 = 1 << 24;
/// The same: how a thread is scheduled that may be ready here has changed. Cleared by the core.
pub const PENDING_UNSORTED: u32 = 1 << 25;
/// The same: the core is to be out of use, or is ([`CORE_OUT`]). Set and cleared by whoever asks, under the tree lock.
pub const PENDING_LEAVES: u32 = 1 << 26;
/// The same: real-time threads have run long enough in this period, and others come first. The core's own.
pub const PENDING_HELD: u32 = 1 << 27;

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
