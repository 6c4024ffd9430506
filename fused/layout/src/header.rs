//! The pool header: what the host writes before boot, and where everything else is.

use crate::{
    BoundLock, CORES_MAX, Cell32, Cell64, CoreRecord, DmaEngine, GuestsLock, HostStream, ISLANDS_MAX, IdsLock,
    IpcState, IslandRecord, MemoryState, NotifyState, PTYS_MAX, Peers, PtysLock, RenameLock, RightsLock, SlabCache,
    TreeLock, Tty, TtyInput, WaitQueue, WatchesLock, pool_struct,
    sync::{AtomicU32, AtomicU64},
};

/// First eight bytes of every pool: "MOTETPL\x01".
pub const POOL_MAGIC: u64 = u64::from_le_bytes(*b"MOTETPL\x01");
/// Version of the header's own format (the first 64 bytes keep their meaning in every version).
pub const POOL_VERSION: u32 = 1;

/// [`PoolHeader::crossing`]: as `docs/protocols/crossing.md` says.
pub const CROSSING_DIRECT: u32 = 0;
/// [`PoolHeader::crossing`]: as Flick does, for comparison (`docs/protocols/migration.md`).
pub const CROSSING_FLICK: u32 = 1;

/// [`PoolHeader::interactive`]: stdin is a terminal; the machine's console does line editing and job control.
pub const CONSOLE_TERMINAL: u32 = 1;

pool_struct! {
    /// The beginning of the pool. Host-written before any island starts, except where said.
    pub struct PoolHeader: size 643072, align 64 {
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
        /// Not 0: an island has died and is to be looked for ([`ISLAND_DEAD`](crate::ISLAND_DEAD)). Set by the host, cleared by the first core.
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
        /// Whether programs are placed at random: 1 more than `/proc/sys/kernel/randomize_va_space`; 0: nobody has said.
        176 pub random_places: AtomicU32,
        /// 1: pages follow the islands that use them (`policy = "adaptive"`).
        180 pub adapts: Cell32,
        /// How many watches of inodes there are ([`InodeWatch`](crate::InodeWatch)). Changed under `notify.lock`; who does something to a file looks at it
        /// without: what stands beside it changes seldom, too.
        184 pub inode_watches: AtomicU32,
        188 _pad0: Cell32,
        /// The latest reading of the machine's clock that anyone was given, in nanoseconds (`motet_protocol::clock`). Raised
        /// by whoever reads. Alone in its cache line. Not used on timed machines.
        192 pub latest_reading_ns: AtomicU64,
        200 _pad1: [Cell64; 7],
        /// The directory that is covered by each root of a file system (pool address), by [`InodeRecord::mount`](crate::InodeRecord); 0: none.
        256 pub mounts: [Cell64; 8],
        /// The other kernels of a machine in which each island has one of its own.
        320 pub peers: Peers,
        1408 _pad6: [Cell64; 16],
        /// Console input, host to machine.
        1536 pub console_in: HostStream,
        /// Console (and the command's standard) output, machine to host.
        1792 pub console_out: HostStream,
        /// The command's standard error, machine to host.
        2048 pub console_err: HostStream,
        /// The console's terminal.
        2304 pub tty: Tty,
        /// What is typed there.
        3072 pub typed: TtyInput,
        /// Pseudo-terminals by number ([`PtyRecord`](crate::PtyRecord), pool addresses); 0: there is none. Under `ptys_lock`.
        7168 pub ptys: [AtomicU64; 128],
        /// Guards which pseudo-terminals there are, and how often they are open.
        8192 pub ptys_lock: PtysLock,
        8200 _pad7: [Cell64; 7],
        /// Watches of inodes (`inotify`).
        8256 pub notify: NotifyState,
        8320 _pad8: [Cell64; 16],
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
        /// The sockets that are bound: the top [`SocketRecord`](crate::SocketRecord) of a tree (pool address), 0: none is.
        8568 pub bound_sockets: Cell64,
        /// Memory allocator.
        8576 pub memory: MemoryState,
        /// Slab caches, by object class.
        9280 pub slabs: [SlabCache; 36],
        /// Threads that wait to connect to a socket where too many do.
        11584 pub socket_waiters: WaitQueue,
        /// Threads that wait to read signals (`signalfd`), of all processes.
        11616 pub signal_waiters: WaitQueue,
        /// Users who have processes: the first [`UserRecord`](crate::UserRecord) (pool address). Under the tree lock.
        11648 pub users: Cell64,
        /// Guards the list of virtual machines.
        11656 pub vms_lock: GuestsLock,
        /// The first [`VmRecord`](crate::VmRecord) (pool address); 0: there is none.
        11664 pub vms: Cell64,
        /// Number of the last one that was made.
        11672 pub last_vm: Cell32,
        /// 1: the host wants one of them to end. Set after the machine's own word; cleared by the first core before it looks.
        11676 pub vms_asked: AtomicU32,
        /// Threads that wait until a core is out of use, or back.
        11680 pub core_waiters: WaitQueue,
        /// Locks that dead cores held and that others have taken over, once what they protect was repaired, by [`LockClass`](crate::LockClass).
        11712 pub locks_recovered: [AtomicU64; 32],
        /// Not 0: the [`WatchRecord`](crate::WatchRecord) (pool address) that is being added to an interest list, or discarded. Under `epoll_lock`.
        11968 pub watch_changing: Cell64,
        /// 1: frames of objects wait to go back ([`SlabCache::retired`](crate::SlabCache::retired)); a hint.
        11976 pub slabs_retired: AtomicU32,
        /// Lines for people that were left out, and not said to be yet.
        11980 pub lines_left_out: AtomicU32,
        /// When as many lines may have been said as were, in nanoseconds of the machine's clock: if that is far ahead, more are left out.
        11984 pub lines_until_ns: AtomicU64,
        /// Processes by group: the top [`ProcessRecord`](crate::ProcessRecord) of a tree (pool address). Under the tree lock.
        11992 pub groups: Cell64,
        /// Guards which sockets are in packets that wait, and which packets are to be freed.
        12000 pub rights_lock: RightsLock,
        /// The first [`PacketRecord`](crate::PacketRecord) with sockets that waits (pool address).
        12008 pub in_flight: Cell64,
        /// The first packet that nobody receives any more, and that is to be freed (pool address).
        12016 pub dropped: AtomicU64,
        /// How many sockets are in packets that wait.
        12024 pub sockets_in_flight: AtomicU32,
        12028 _pad3: Cell32,
        /// Threads that wait for the end of a process (`pidfd`), of any.
        12032 pub process_waiters: WaitQueue,
        /// The last [`OwnerRecord`](crate::OwnerRecord) of whose file something was heard and for which no signal was sent yet (pool address), 0: none.
        12064 pub owners_told: AtomicU64,
        12072 _pad2: [Cell64; 27],
        /// The islands, indexed by [`IslandId`](crate::IslandId).
        12288 pub islands: [IslandRecord; 8],
        /// Cores, indexed by [`CoreId`](crate::CoreId) (sparse: 16 per island). Those of an island are sixteen pages, in memory
        /// near it.
        45056 pub cores: [CoreRecord; 128],
        /// The islands' transfer engines, two pages each, in memory near their islands.
        569344 pub dma: [DmaEngine; 8],
        /// System V IPC.
        634880 pub ipc: IpcState,
    }
}

// Lengths of arrays above.
const _: () = assert!(ISLANDS_MAX == 8 && CORES_MAX == 128 && PTYS_MAX == 128);
