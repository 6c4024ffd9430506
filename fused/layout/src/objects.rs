//! Kernel objects: blocks and frames of memory, waits and timers, threads, processes.

use crate::sync::{AtomicU32, AtomicU64};

use crate::{AtomicByte, Cell32, Cell64, StageCell, UserFrame, WaitQueue};

pool_struct! {
    /// Who owns a block of frames.
    pub struct BlockRecord: size 24, align 8 {
        /// 0: free; 1 + island index (9: the host); [`BLOCK_RESERVED`]: holds the pool's own tables.
        0 pub owner: AtomicU32,
        /// Free frames in it.
        4 pub free: Cell32,
        /// Index + 1 of the owner's next block, 0 at the end.
        8 pub next: Cell32,
        /// Bitmap word (relative to the block) where the search for a free frame starts.
        12 pub hint: Cell32,
        /// Bit per island (and [`NEAR_HOST`]) whose memory this is: near to it, by the machine's description. All ones
        /// where distance does not matter. Host-written.
        16 pub near: Cell32,
        /// Bit per island that caches it without being told of others' stores. Timed machines only. Host-written.
        20 pub private: Cell32,
    }
}

/// [`BlockRecord::near`]: the host takes such blocks first for what it puts into the pool before the islands start.
pub const NEAR_HOST: u32 = 1 << 8;

/// [`BlockRecord::owner`]: the header, the tables and the bitmap.
pub const BLOCK_RESERVED: u32 = 0xff;

pool_struct! {
    /// One frame: how many users it has, and which islands may execute from it.
    pub struct FrameRecord: size 16, align 8 {
        /// Page-table leaves, page caches and kernel structures that use it; 0: free.
        0 pub refs: AtomicU32,
        /// Bit per island that has synchronised its instruction fetches with the frame's present bytes. Of a page table that
        /// is out of its tree: the next one (frame number), 0: none. Of one that is cut into objects: [`SLAB_FRAME`], their class in the lowest
        /// byte, above it how many are free, and above that the number of the first free one, under the class's lock. Of a page: also [`REPLICA_FRAME`],
        /// [`WRITTEN_FRAME`].
        4 pub synced: AtomicU32,
        /// Of a frame that is cut into objects, or was: the next one of its list (frame number), 0: none. Under the class's lock, as the next one. Of a table of pages: what
        /// is known of the region that it translates, where pages follow their users, under the space's lock. Of a replica that no table has any more: the next such one.
        8 pub next: Cell32,
        /// The previous one.
        12 pub prev: Cell32,
    }
}

/// [`FrameRecord::synced`]: set in a frame that is cut into objects.
pub const SLAB_FRAME: u32 = 1 << 31;
/// [`FrameRecord::synced`]: a replica of a page. It is its leaf's alone, the only one that shows it.
pub const REPLICA_FRAME: u32 = 1 << 30;
/// [`FrameRecord::synced`]: the page was written to while it had replicas. It gets no others.
pub const WRITTEN_FRAME: u32 = 1 << 29;

pool_struct! {
    /// A thread's place in one wait queue. Linked and unlinked under the queue's lock.
    pub struct WaitNode: size 48, align 8 {
        /// Next node (pool address).
        0 pub next: Cell64,
        /// Previous node (pool address).
        8 pub prev: Cell64,
        /// The queue it is linked in (pool address), 0 when it is in none.
        16 pub queue: AtomicU64,
        /// The thread that waits, or the [`WatchRecord`](crate::WatchRecord) or [`OwnerRecord`](crate::OwnerRecord) whose node it is (pool address).
        24 pub thread: Cell64,
        /// What exactly it waits for: a futex's word address, otherwise 0.
        32 pub key: Cell64,
        /// Bits of a bitset futex wait; of a watch, the events that this queue tells of.
        40 pub bits: Cell32,
        /// [`NODE_THREAD`], [`NODE_WATCH`], [`NODE_BELL`] or [`NODE_OWNER`].
        44 pub kind: Cell32,
    }
}

/// Wait nodes in a [`MoreNodes`].
pub const MORE_NODES: usize = 21;

pool_struct! {
    /// Places in wait queues of a thread that waits in more than [`WAIT_NODES`]: for `poll` on many files. Only its core
    /// follows the chain; a node is unlinked under its queue's lock.
    pub struct MoreNodes: size 1024, align 64 {
        /// Those that it used before, all of them (pool address).
        0 pub next: Cell64,
        8 _pad: Cell64,
        /// In use from the first on.
        16 pub nodes: [WaitNode; 21],
    }
}

/// [`WaitNode::kind`]: a thread's, which is woken once.
pub const NODE_THREAD: u32 = 0;
/// [`WaitNode::kind`]: a watch's, which stays in the queue.
pub const NODE_WATCH: u32 = 1;
/// [`WaitNode::kind`]: of a [`WatchRecord`](crate::WatchRecord) that rings a core, 1 + which one is in [`WaitNode::bits`].
pub const NODE_BELL: u32 = 2;
/// [`WaitNode::kind`]: of an [`OwnerRecord`](crate::OwnerRecord), who is told by a signal; it stays in the queue.
pub const NODE_OWNER: u32 = 3;

/// Wait nodes inside every thread; more are in [`MoreNodes`].
pub const WAIT_NODES: usize = 8;

pool_struct! {
    /// The place of an object in a search tree (`motet_protocol::treap`). Under the lock of what the tree belongs to.
    pub struct TreeLinks: size 24, align 8 {
        /// Below it: the top of what comes before it (pool address), 0: nothing.
        0 pub left: Cell64,
        /// Below it: the top of what comes after it.
        8 pub right: Cell64,
        /// The object above it (pool address), 0: none.
        16 pub above: Cell64,
    }
}

pool_struct! {
    /// A deadline of a core: a node of its tree of deadlines (`motet_protocol::timer`), under the core's lock of timers.
    pub struct TimerNode: size 48, align 8 {
        /// By deadline.
        0 pub links: TreeLinks,
        /// Nanoseconds on the machine's clock.
        24 pub deadline_ns: Cell64,
        /// 1 + index of the core whose deadline it is; 0: of none.
        32 pub core: AtomicU32,
        /// `TIMER_*`: what expires.
        36 pub kind: Cell32,
        /// The thread or process (pool address).
        40 pub owner: Cell64,
    }
}

/// [`TimerNode::kind`]: a thread's wait times out.
pub const TIMER_WAIT: u32 = 1;
/// [`TimerNode::kind`]: a process's real-time interval timer fires.
pub const TIMER_ALARM: u32 = 2;
/// [`TimerNode::kind`]: a [`PosixTimerRecord`] expires, which owns it.
pub const TIMER_POSIX: u32 = 5;
/// [`TimerNode::kind`]: the first core looks for messages of other kernels without being rung.
pub const TIMER_MESSAGES: u32 = 3;
/// [`TimerNode::kind`]: the first core looks whether the other kernels live.
pub const TIMER_PEERS: u32 = 4;
/// [`TimerNode::kind`]: the first core, which has a network device, sends again what was not answered.
pub const TIMER_NETWORK: u32 = 6;

/// [`ThreadRecord::state`]: the object is not a live thread.
pub const THREAD_FREE: u32 = 0;
/// [`ThreadRecord::state`]: in an inbox or a ready queue.
pub const THREAD_READY: u32 = 1;
/// [`ThreadRecord::state`]: on a core.
pub const THREAD_RUNNING: u32 = 2;
/// [`ThreadRecord::state`]: waits; whoever moves it to ready puts it into an inbox.
pub const THREAD_BLOCKED: u32 = 3;
/// [`ThreadRecord::state`]: stopped by a job-control signal.
pub const THREAD_STOPPED: u32 = 4;
/// [`ThreadRecord::state`]: has exited.
pub const THREAD_DEAD: u32 = 5;
/// [`ThreadRecord::state`]: ends: nothing that its core does for it is done twice.
pub const THREAD_ENDING: u32 = 8;
/// [`ThreadRecord::state`], lowest byte: ready, and not taken out of an inbox yet; the second byte is the index of the core
/// that puts it there.
pub const THREAD_IN_TRANSIT: u32 = 7;
/// [`ThreadRecord::state`]: runs, has put itself into wait queues and looks once more before it blocks.
pub const THREAD_PREPARING: u32 = 6;

pool_struct! {
    /// A thread. Fields without remark are written by the core that runs it, or by its creator before it first runs.
    pub struct ThreadRecord: size 4096, align 64 {
        /// Its registers while it does not run.
        0 pub frame: UserFrame,
        /// Thread id.
        2048 pub tid: Cell32,
        /// `THREAD_*`. Blocked → in transit, by compare-and-swap by any waker; other moves by its core.
        2052 pub state: AtomicU32,
        /// Its process (pool address).
        2056 pub process: AtomicU64,
        /// Next in the inbox or ready queue it is in (pool address).
        2064 pub queue_next: AtomicU64,
        /// The core it runs on, or is queued for.
        2072 pub core: AtomicU32,
        /// How far it is with what it does in the kernel.
        2076 pub stage: StageCell,
        /// Why the last wait ended: `WAKE_*`.
        2080 pub wake_reason: AtomicU32,
        /// Wait nodes in use.
        2084 pub wait_count: Cell32,
        /// Progress of the system call in progress (bytes done). When a call begins, this and the next two are 0; outside of calls they mean nothing.
        2088 pub progress: Cell64,
        /// Its absolute deadline in nanoseconds; 0: none, or none computed yet.
        2096 pub deadline_ns: Cell64,
        /// Scratch words of the system call in progress.
        2104 pub scratch: [Cell64; 4],
        /// Signals pending for this thread, bit signal-1.
        2136 pub pending: AtomicU64,
        /// Signals blocked.
        2144 pub signal_mask: AtomicU64,
        /// Mask to restore after `sigsuspend`-like calls, valid when `restore_mask` is 1.
        2152 pub saved_mask: Cell64,
        /// See `saved_mask`.
        2160 pub restore_mask: Cell32,
        /// 1: asked to die (process exit, exec by another thread).
        2164 pub kill: AtomicU32,
        /// Alternate signal stack: address, size, flags.
        2168 pub altstack: [Cell64; 3],
        /// Address to clear and wake at exit (`CLONE_CHILD_CLEARTID`).
        2192 pub clear_child_tid: Cell64,
        /// Policy and real-time priority (`motet_protocol::schedule`). Under the tree lock; read by whoever makes it ready.
        2200 pub schedule: AtomicU32,
        /// Entries of `signal_queue`.
        2204 pub signal_count: Cell32,
        /// Next thread of the process (pool address). Under the process-tree lock.
        2208 pub sibling: Cell64,
        /// Cores it may run on (`sched_setaffinity`), by core index.
        2216 pub affinity: [AtomicU64; 2],
        /// Nanoseconds run in user mode.
        2232 pub user_ns: Cell64,
        /// Nanoseconds run in the kernel.
        2240 pub system_ns: Cell64,
        /// Nanoseconds when it was last charged.
        2248 pub charged_at_ns: Cell64,
        /// Its wait's deadline.
        2256 pub timer: TimerNode,
        /// Its places in wait queues.
        2304 pub nodes: [WaitNode; 8],
        /// More of them while it waits in more queues ([`MoreNodes`], pool address), 0: there are none.
        2688 pub more_nodes: Cell64,
        /// 1: a function that it has called runs in another kernel. Its registers are there, so handlers of its signals wait.
        2696 pub is_elsewhere: AtomicU32,
        /// Not 0: signals, a request to die or to stop may be waiting; looked at before user code runs.
        2700 pub attention: AtomicU32,
        /// Number of the extended registers in its frame, or its area: at first the time in nanoseconds, so that it is none of an earlier thread's, and one more
        /// whenever they are stored or changed. A core that has loaded or stored those of this number still holds them, wherever it was meanwhile. Its core's own.
        2704 pub ext_version: Cell64,
        /// Name (`PR_SET_NAME`), NUL-padded.
        2712 pub name: [AtomicByte; 16],
        /// Large files that nobody uses any more and that it frees before it runs user code again: the first one's
        /// [`InodeRecord`](crate::InodeRecord) (pool address; its `parent` is the next one), 0: none. 1: it is a guest of another kernel's, and
        /// makes its system calls there.
        2728 pub garbage: Cell64,
        /// Signals to groups that it, or the process it is making, may not have seen; a new process gets them (bit signal-1). Under the tree lock.
        2736 pub group_signals: Cell64,
        /// Address of the fault being delivered as a signal.
        2744 pub fault_address: Cell64,
        /// Previous thread of the process (pool address), 0: it is the first one. Under the process-tree lock.
        2752 pub sibling_before: Cell64,
        /// What `PR_SET_TIMERSLACK` has said, in nanoseconds; 0: the usual.
        2760 pub timer_slack_ns: Cell64,
        /// While it waits for a byte-range lock: the owner of one that stands in its way ([`RangeRecord`](crate::RangeRecord)). Under the tree lock.
        2768 pub lock_awaited: Cell64,
        /// Machine time when it was created.
        2776 pub started_ns: Cell64,
        2784 _pad3: [Cell32; 18],
        /// The call across instruction sets that it is in: its last [`CrossingRecord`](crate::CrossingRecord) (pool address), 0: none.
        2856 pub crossing: Cell64,
        /// By ISA code - 1: the top of its stack for that ISA, 0: none made (the program's own ISA: the stack it was
        /// started with).
        2864 pub stack_top: [Cell64; 4],
        /// By ISA code - 1: how far that ISA's stack is used by callers in `crossing`, 0: not at all.
        2896 pub stack_used: [Cell64; 4],
        /// A record kept for its next call (pool address), 0: none.
        2928 pub spare_crossing: Cell64,
        /// Nice value (two's complement): among threads that come to a core, the lowest runs first.
        2936 pub nice: Cell32,
        /// `si_code` of the fault being delivered as a signal, 0: none is.
        2940 pub fault_code: Cell32,
        /// What is known of its pending signals: the first [`QueuedSignal`] (pool address). Under the tree lock.
        2944 pub signal_queue: Cell64,
        /// Machines that call as Flick does: the function that its migration handler is to call.
        2952 pub migrates_to: Cell64,
        /// By ISA code - 1: its [`MigrationContext`](crate::MigrationContext) there, and in the bits below a page's address the core that has
        /// it; 0: none.
        2960 pub contexts: [Cell64; 4],
        /// Extensions that its code has used and that not all cores have, a `motet_abi::extension::ExtensionSet`: it runs on cores
        /// that have them. Written by its core, or by its creator.
        2992 pub needs: Cell64,
        /// [`Isa`](crate::Isa) that `needs` speaks of; other ISAs' cores can run it. With `needs`.
        3000 pub needs_isa: Cell32,
        /// Of what it has in vector registers, in its frame and its area (`motet_protocol::stamp`).
        3004 pub vector_stamp: AtomicU32,
        /// The cores that have what it needs, by core index.
        3008 pub able: [AtomicU64; 2],
        /// What has become of it because of that.
        3024 pub moves: ThreadMoves,
        /// Its window of the service core: 1 + the number of that; 0: none.
        3120 pub service: Cell32,
        /// Who owns that window ([`ServiceClient::owner`](crate::ServiceClient)).
        3124 pub service_owner: Cell32,
        /// Machine time when a core where others waited gave it to an idle one, 0: none has. Its core's own, as the next one.
        3128 pub shared_at_ns: Cell64,
        /// How often that was.
        3136 pub shared: Cell64,
        /// How often a core that was taken out has given it to another one. That core's own, as the next one.
        3144 pub displaced: Cell64,
        /// 1: it looks whether it has lost its turn at the service core when its system call ends. Its core's own.
        3152 pub looks_at_turn: Cell32,
        /// 1: the program was told of vector registers that not all cores have, because it began with an affinity of cores that do: they are
        /// open while it runs. Its core's own.
        3156 pub promised: Cell32,
        /// `set_robust_list` head.
        3160 pub robust_list: Cell64,
        /// How long it runs while its equals wait, in nanoseconds; 0: as everybody.
        3168 pub slice_ns: Cell64,
        /// What it had run in all when its slice began, in nanoseconds. Its core's own.
        3176 pub slice_begun_ns: Cell64,
        /// The core of a virtual machine whose call to run is in progress between two dispatches ([`VcpuRecord`](crate::VcpuRecord), pool
        /// address), 0: none. Its core's own, as the next one.
        3184 pub guest: Cell64,
        /// The reference to the machine's open file that this call has meanwhile ([`FileRecord`](crate::FileRecord), pool address).
        3192 pub guest_file: Cell64,
        /// Of the cores of `needs_isa`, those that have what it needs; none if it needs nothing. If its affinity has none of them, it runs on
        /// these nevertheless. With `able`.
        3200 pub only: [AtomicU64; 2],
        /// Its other halves in other kernels: the first [`AwayRecord`](crate::AwayRecord) (pool address), 0: it has none. Under the tree lock, for others.
        3216 pub away: AtomicU64,
        /// Which islands its new memory should be near to, as [`VmaRecord::policy`](crate::VmaRecord::policy); 0: the one that it runs on.
        3224 pub memory_policy: Cell32,
        3228 _pad4: Cell32,
        /// Timers of its processor time: the tops of two trees of [`TimerNode`]s (pool addresses), by all of it, and by its time in user mode. Under the
        /// tree lock.
        3232 pub cpu_timers: [Cell64; 2],
        3248 _pad2: [Cell64; 106],
    }
}

pool_struct! {
    /// How a thread has moved between cores because of extensions, and when it goes back. Its core's own.
    pub struct ThreadMoves: size 96, align 8 {
        /// 1 + index of the core that it came from; 0: it has not moved.
        0 pub home: Cell32,
        /// Slices since it used the vector registers last.
        4 pub unused_slices: Cell32,
        /// Slices without use after which it goes back: more, the sooner it came again.
        8 pub patience_slices: Cell32,
        /// 1: it has asked to stay (`motet_need`).
        12 pub stays: Cell32,
        /// How often it moved to a core that has what it needs.
        16 pub there: Cell64,
        /// How often it went back.
        24 pub back: Cell64,
        /// How often it stayed on a core that it would have left, because it had come and gone too often.
        32 pub stayed: Cell64,
        /// Machine time when it moved last.
        40 pub moved_at_ns: Cell64,
        /// Time on the way, from its leaving a core to its running on the other one.
        48 pub moving_ns: Cell64,
        /// How often its vector registers were opened on a core that has them.
        56 pub opened: Cell64,
        /// 1: it is on its way to a core that has what it needs.
        64 pub on_way: Cell32,
        /// 1: vector registers have been opened for it, or for the thread that made it, in the program that it runs.
        68 pub uses_vectors: Cell32,
        /// 1: it has used what it needs since the last slice's end.
        72 pub used: Cell32,
        /// 1: its core has sent it to a hidden hart, or waits for one to be free. Whoever wants it rings its core.
        76 pub away: AtomicU32,
        /// How often it was sent to a hidden hart.
        80 pub sent: Cell64,
        /// How often it was called home from there.
        88 pub called_home: Cell64,
    }
}

/// [`ThreadRecord::wake_reason`]: it has not slept.
pub const WAKE_NONE: u32 = 0;
/// [`ThreadRecord::wake_reason`]: what was waited for may have happened; look again.
pub const WAKE_EVENT: u32 = 1;
/// [`ThreadRecord::wake_reason`]: the deadline passed.
pub const WAKE_TIMEOUT: u32 = 2;
/// [`ThreadRecord::wake_reason`]: a signal (or a request to die) arrived.
pub const WAKE_SIGNAL: u32 = 3;
/// [`ThreadRecord::wake_reason`]: as [`WAKE_EVENT`], and the call looks, or has looked.
pub const WAKE_TOLD: u32 = 4;

/// [`ProcessRecord::state`]: free object.
pub const PROCESS_FREE: u32 = 0;
/// [`ProcessRecord::state`]: has threads.
pub const PROCESS_ALIVE: u32 = 1;
/// [`ProcessRecord::state`]: waits to be reaped.
pub const PROCESS_ZOMBIE: u32 = 2;

pool_struct! {
    /// A process (thread group). Tree links and the thread list are guarded by the process-tree lock.
    pub struct ProcessRecord: size 1024, align 64 {
        /// Process id.
        0 pub pid: Cell32,
        /// `PROCESS_*`.
        4 pub state: AtomicU32,
        /// Parent (pool address), 0 for the first process.
        8 pub parent: AtomicU64,
        /// First child (pool address).
        16 pub first_child: Cell64,
        /// Next sibling (pool address).
        24 pub next_sibling: Cell64,
        /// Previous sibling (pool address).
        32 pub prev_sibling: Cell64,
        /// First thread (pool address).
        40 pub threads: Cell64,
        /// Threads alive.
        48 pub thread_count: AtomicU32,
        /// Process group.
        52 pub pgid: AtomicU32,
        /// Session.
        56 pub sid: AtomicU32,
        /// Wait status, once a zombie.
        60 pub exit_status: AtomicU32,
        /// Address space (pool address).
        64 pub space: AtomicU64,
        /// Descriptor table (pool address).
        72 pub files: AtomicU64,
        /// Signal actions (pool address).
        80 pub actions: Cell64,
        /// Signals pending for the process, bit signal-1.
        88 pub pending: AtomicU64,
        /// Working directory: a file-system node (see `motet_protocol::fs`).
        96 pub cwd: [Cell64; 2],
        /// Root directory.
        112 pub root: [Cell64; 2],
        /// File mode creation mask.
        128 pub umask: Cell32,
        /// How long its vector registers are, on all cores on which its threads use some: as those of the core where one of them did so first;
        /// 0: none has. A byte for each instruction set, the first one lowest, in units of 8 bytes.
        132 pub vector_lengths: AtomicU32,
        /// What `PR_SVE_SET_VL` has said of programs that it executes: SVE's length in bytes, and `PR_SVE_VL_INHERIT`.
        136 pub next_length: Cell32,
        /// `personality`: `ADDR_NO_RANDOMIZE` or 0.
        140 pub personality: Cell32,
        /// 1: it adopts what its descendants leave (`PR_SET_CHILD_SUBREAPER`).
        144 pub adopts: Cell32,
        148 _pad2: [Cell32; 3],
        /// The program's file (file-system node).
        160 pub exe: [Cell64; 2],
        /// [`Isa`](crate::Isa) of the program.
        176 pub isa: AtomicU32,
        /// 1: has called exec since fork.
        180 pub execed: Cell32,
        /// Program name (`comm`), NUL-padded.
        184 pub name: [AtomicByte; 16],
        /// Where arguments lie in its space: start, end.
        200 pub arguments: [Cell64; 2],
        /// Where the environment lies: start, end.
        216 pub environment: [Cell64; 2],
        /// Parents waiting for children of this process.
        232 pub child_waiters: WaitQueue,
        /// Waits of `vfork` parents for this process.
        264 pub vfork_waiters: WaitQueue,
        /// Real-time interval timer.
        296 pub alarm: TimerNode,
        /// Nanoseconds of user and system time of finished threads.
        344 pub times_ns: [Cell64; 2],
        /// Nanoseconds of user and system time of waited-for children.
        360 pub child_times_ns: [Cell64; 2],
        /// Machine time when it started.
        376 pub started_ns: Cell64,
        /// 1: group exit in progress (exit_status holds the status).
        384 pub exiting: AtomicU32,
        /// Stops or has stopped by job control: 1 + signal; bit 30: all threads have; bit 31: `wait` has said so.
        388 pub stopped: AtomicU32,
        /// 1: continued and not yet reported.
        392 pub continued: AtomicU32,
        /// Signal sent to the parent at exit.
        396 pub exit_signal: Cell32,
        /// Parent-death signal.
        400 pub death_signal: Cell32,
        /// What becomes of calls whose island is busy or missing (`motet_abi::own::CrossingPolicy`).
        404 pub crossing_policy: AtomicU32,
        /// Resource limits: current, maximum per Linux resource number.
        408 pub limits: [Cell64; 32],
        /// [`Isa`](crate::Isa) on which programs for several of them start, if they are for it; 0: the one that they name.
        664 pub start_isa: AtomicU32,
        /// 1 + index of the core that made it: should that die before the process is in the tree (`pid` is 0), it never is.
        668 pub maker: AtomicU32,
        /// Vfork parent waiting (thread address).
        672 pub vfork_parent: Cell64,
        /// What is known of `pending` signals: the first [`QueuedSignal`] (pool address). Under the tree lock.
        680 pub signal_queue: Cell64,
        /// Its real user's [`UserRecord`] (pool address); 0: it is counted nowhere. Under the tree lock.
        688 pub user: Cell64,
        /// The interval of its interval timer in nanoseconds.
        696 pub alarm_interval_ns: Cell64,
        /// Among all processes, by group.
        704 pub links: TreeLinks,
        /// Entries of `signal_queue`.
        728 pub signal_count: Cell32,
        /// 1: it has given up its session's terminal (`TIOCNOTTY`), and does not lead the session.
        732 pub left_terminal: Cell32,
        /// Timers of its processor time, as [`ThreadRecord::cpu_timers`]. Under the tree lock, as the next three.
        736 pub cpu_timers: [Cell64; 2],
        /// Its interval timers of processor time (`ITIMER_VIRTUAL`, `ITIMER_PROF`): of each, the time at which it expires (0: it does not), and its interval.
        752 pub intervals: [Cell64; 4],
        /// Its POSIX timers: the top [`PosixTimerRecord`] of a tree by id (pool address), 0: it has none.
        784 pub timers: Cell64,
        /// The id of its next one, if that is free.
        792 pub next_timer: Cell32,
        /// 1: its processor time is looked at when a timer interrupts its threads: it is limited, or timers are set by it. Set under the tree lock, or before
        /// the process is in the tree.
        796 pub watches_time: AtomicU32,
        /// What it has to undo in semaphores ([`IpcUndoList`](crate::IpcUndoList), pool address); 0: nothing. Changed under the lock of IPC.
        800 pub undo: Cell64,
        808 _pad1: [Cell64; 2],
        /// By whose rights it acts. Written under the process-tree lock by its own threads.
        824 pub credentials: CredentialsRecord,
    }
}

/// Supplementary groups that a process may have (`NGROUPS_MAX`).
pub const GROUPS_MAX: usize = 32;

pool_struct! {
    /// By whose rights a process acts (credentials(7)). Its own threads write it under the process-tree lock; others read it
    /// under that lock.
    pub struct CredentialsRecord: size 200, align 8 {
        /// User ids: real, effective, saved, for files.
        0 pub users: [Cell32; 4],
        /// Group ids, in the same order.
        16 pub groups: [Cell32; 4],
        /// Capabilities in force, a bit each by Linux's numbers.
        32 pub effective: Cell64,
        /// Those that it may put into force.
        40 pub permitted: Cell64,
        /// Those that programs of the superuser keep.
        48 pub inheritable: Cell64,
        /// Those that programs of the superuser get.
        56 pub bounding: Cell64,
        /// `CREDENTIALS_*`.
        64 pub flags: Cell32,
        /// Supplementary groups in use.
        68 pub supplementary_count: Cell32,
        /// Supplementary groups, in ascending order.
        72 pub supplementary: [Cell32; 32],
    }
}

/// [`CredentialsRecord::flags`]: programs never get more rights than who starts them (`PR_SET_NO_NEW_PRIVS`).
pub const CREDENTIALS_NO_NEW_PRIVILEGES: u32 = 1;
/// [`CredentialsRecord::flags`]: it has or had rights that others of its user have not: only the privileged look into it.
pub const CREDENTIALS_OPAQUE: u32 = 2;
/// [`CredentialsRecord::flags`]: permitted capabilities survive the loss of the superuser's id (`PR_SET_KEEPCAPS`).
pub const CREDENTIALS_KEEP_CAPABILITIES: u32 = 4;

pool_struct! {
    /// What is known of a pending signal. Those of one number are behind each other; the first ones of all numbers are a list.
    pub struct QueuedSignal: size 64, align 64 {
        /// Of a first one: that of another number (pool address), 0: none.
        0 pub next: Cell64,
        /// Its number.
        8 pub signal: Cell32,
        /// `si_code`.
        12 pub code: Cell32,
        /// Bytes 16 to 48 of its `siginfo_t`: the sender and what depends on `si_code`.
        16 pub fields: [Cell64; 4],
        /// The next one of this number, sent later (pool address), 0: none.
        48 pub same: Cell64,
        /// Of a first one: the last one of this number (pool address).
        56 pub last: Cell64,
    }
}

pool_struct! {
    /// A timer that a process has made (`timer_create`). Under the tree lock, all of it.
    pub struct PosixTimerRecord: size 192, align 64 {
        /// The word that comes with its signal (`sigev_value`).
        0 pub value: Cell64,
        /// The process that has made it (pool address). Not 0 from before it is in that one's tree until it is out.
        8 pub process: Cell64,
        /// Its place among a core's deadlines, or, by processor time, among those of a thread or process.
        16 pub node: TimerNode,
        /// Among those of its process, by id.
        64 pub links: TreeLinks,
        /// Its id, from 0 up.
        88 pub id: Cell32,
        /// By which time it goes: `BY_*`.
        92 pub clock: Cell32,
        /// The signal that it sends; 0: none (`SIGEV_NONE`).
        96 pub signal: Cell32,
        /// `POSIX_*`.
        100 pub state: Cell32,
        /// The thread that gets the signal (`SIGEV_THREAD_ID`); 0: its process does.
        104 pub receiver: Cell32,
        /// The thread or process by whose processor time it goes.
        108 pub target: Cell32,
        /// When the receiver was created: no later thread with its id is it.
        112 pub receiver_started_ns: Cell64,
        /// When the target was created.
        120 pub target_started_ns: Cell64,
        /// When it expires, or has expired: a time as `clock` says.
        128 pub expires_ns: Cell64,
        /// Nanoseconds between expirations; 0: there is one only.
        136 pub interval_ns: Cell64,
        /// Its signal while that is pending ([`QueuedSignal`], pool address); 0: it is not.
        144 pub queued: Cell64,
        /// How often it has expired since its last signal was taken, as far as that was counted.
        152 pub expired: Cell64,
        /// Expirations beyond the one that the last signal told of.
        160 pub overrun: Cell64,
        /// The [`UserRecord`] that counts it (pool address); 0: none does.
        168 pub user: Cell64,
        176 _pad: [Cell64; 2],
    }
}

/// [`PosixTimerRecord::clock`]: machine time.
pub const BY_MACHINE: u32 = 0;
/// [`PosixTimerRecord::clock`]: machine time; absolute times that programs say are of the real-time clock.
pub const BY_REAL_TIME: u32 = 1;
/// [`PosixTimerRecord::clock`]: processor time of a process; one more: its time in user mode.
pub const BY_PROCESS: u32 = 2;
/// [`PosixTimerRecord::clock`]: processor time of a thread; one more: its time in user mode.
pub const BY_THREAD: u32 = 4;

/// [`PosixTimerRecord::state`]: it does not expire.
pub const POSIX_OFF: u32 = 0;
/// [`PosixTimerRecord::state`]: it will expire. If it sends a signal, it is among the deadlines of its clock.
pub const POSIX_ARMED: u32 = 1;
/// [`PosixTimerRecord::state`]: its signal is pending. If it has an interval, it is armed again when that is taken.
pub const POSIX_PENDING: u32 = 2;
/// [`PosixTimerRecord::state`]: it has an interval and has expired, and its signal is ignored, or nobody is there to get it: armed again when that changes.
pub const POSIX_IGNORED: u32 = 3;

pool_struct! {
    /// What a user has, over all processes of which it is the real one. There is one as long as there is such a process.
    pub struct UserRecord: size 64, align 64 {
        /// The next one (pool address). Under the tree lock, as all of it.
        0 pub next: Cell64,
        /// The user's id.
        8 pub id: Cell32,
        /// Threads, and processes that wait to be reaped. Read without the lock, too.
        12 pub tasks: AtomicU32,
        /// Open files that are in packets which wait. Changed without the lock; the lock is held when the record goes.
        16 pub in_flight: AtomicU32,
        /// POSIX timers that its processes have made. Under the tree lock. The record stays as long as there are any.
        20 pub timers: Cell32,
        24 _pad: [Cell64; 5],
    }
}

pool_struct! {
    /// Signal actions of a process, shared by `CLONE_SIGHAND` threads.
    pub struct SignalActions: size 2112, align 64 {
        /// Processes that use it.
        0 pub refs: AtomicU32,
        4 _pad0: Cell32,
        /// Guards the actions.
        8 pub lock: AtomicU64,
        16 _pad1: [Cell64; 6],
        /// Per signal-1: handler, flags, restorer, mask.
        64 pub actions: [SignalAction; 64],
    }
}

pool_struct! {
    /// One signal's action.
    pub struct SignalAction: size 32, align 8 {
        /// 0 default, 1 ignore, otherwise the handler's address.
        0 pub handler: Cell64,
        /// `SA_*` flags.
        8 pub flags: Cell64,
        /// Restorer address (x86-64).
        16 pub restorer: Cell64,
        /// Signals blocked during the handler.
        24 pub mask: Cell64,
    }
}
