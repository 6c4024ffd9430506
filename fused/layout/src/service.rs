//! The service core: operating-system services of programs as a device (`docs/protocols/service.md`).
//!
//! Programs see pages of registers. The core's state (threads, mutexes, ...) is behind them in the pool, where no program can see it. So
//! all executors of the core's operations (every island's simulator, or a thread of the host) share one state.

use crate::{
    Cell32, Cell64,
    sync::{AtomicU32, AtomicU64},
};

/// Pages of registers, one for each process and core.
pub const SERVICE_CLIENTS: usize = 256;
/// Register windows in a page, one for each thread.
pub const SERVICE_WINDOWS: usize = 32;
/// Bytes of a register window.
pub const SERVICE_WINDOW_BYTES: u64 = 128;
/// Numbers of threads of a process: [`SERVICE_WINDOWS`] for each core of the machine.
pub const SERVICE_THREADS: usize = crate::CORES_MAX * SERVICE_WINDOWS;
/// Most mutexes of a machine, and most condition variables.
pub const SERVICE_MUTEXES: usize = 1024;
/// Most barriers.
pub const SERVICE_BARRIERS: usize = 256;
/// Sources of interrupts that threads can be bound to.
pub const SERVICE_SOURCES: usize = 64;
/// Requests whose times the core remembers, to let others wait for it: one of each core.
pub const SERVICE_SLOTS: usize = crate::CORES_MAX;
/// Devices that are threads.
pub const SERVICE_HARDWARE: usize = 16;
/// Parts of a process's memory that such a device may use for a thread.
pub const HARDWARE_REGIONS: usize = 4;
/// Pages of a [`HardwareLeaf`].
pub const HARDWARE_LEAF_PAGES: usize = 512;
/// Leaves of a [`HardwareTable`].
pub const HARDWARE_LEAVES: usize = 32;
/// Coefficients of a filter.
pub const HARDWARE_TAPS: usize = 8;

pool_struct! {
    /// The registers of a thread. Only the thread and the core use them.
    pub struct ServiceWindow: size 128, align 128 {
        /// A request (`motet_protocol::service::Request`). Stored by the thread: from then on the core may act.
        0 pub request: AtomicU64,
        /// The answer (`motet_protocol::service::Answer`). Stored by the core.
        8 pub answer: AtomicU64,
        /// 1: the thread sleeps until its answer changes, and its core is to be rung then. Stored by the thread.
        16 pub parked: AtomicU32,
        20 _pad0: Cell32,
        24 _pad1: [Cell64; 13],
    }
}

pool_struct! {
    /// A page of registers.
    pub struct ServicePage: size 4096, align 4096 {
        /// By thread.
        0 pub windows: [ServiceWindow; 32],
    }
}

/// [`ServiceClient::state`]: free.
pub const SERVICE_FREE: u32 = 0;
/// [`ServiceClient::state`]: a kernel is filling in the owner. That kernel's core is in the bits from 8 on.
pub const SERVICE_TAKEN: u32 = 1;
/// [`ServiceClient::state`]: a process has it.
pub const SERVICE_USED: u32 = 2;
/// [`ServiceClient::state`]: the process has gone. The core makes it free.
pub const SERVICE_LEFT: u32 = 3;

pool_struct! {
    /// What kernels and the service core tell each other about a page of registers.
    pub struct ServiceClient: size 64, align 64 {
        /// `SERVICE_*`. Free to taken to used to left by kernels, left to free by the core.
        0 pub state: AtomicU32,
        /// Its owner: a number of the process's open file. Kernel-written before it is used.
        4 pub owner: Cell32,
        /// The core that it is for. Kernel-written before it is used.
        8 pub core: Cell32,
        /// The user who has it. Kernel-written before it is used.
        12 pub user: Cell32,
        /// Windows that have a thread, a bit each. Set by kernels, cleared by the core when the thread has ended and cannot be joined any more.
        16 pub windows: AtomicU32,
        /// Windows whose threads have ended, in whatever way. Set by kernels, cleared by the core.
        20 pub died: AtomicU32,
        /// Windows whose threads slept and have an answer now. Set by the core, cleared by kernels.
        24 pub answered: AtomicU32,
        /// Windows that are bound to kernel threads. Set by kernels, cleared by the core when the thread has ended. Until then no other thread gets the window.
        28 pub bound: AtomicU32,
        /// Windows whose threads have lost their turns: kernels do not run them. Set and cleared by the core.
        32 pub stopped: AtomicU32,
        /// Windows whose bits of `stopped` have changed. Set by the core, cleared by kernels.
        36 pub told: AtomicU32,
        /// Windows whose threads sleep in system calls, so that others may have their turns. Set by kernels, cleared by
        /// them when the call is over.
        40 pub asleep: AtomicU32,
        /// Windows whose bits of `asleep` have changed in a way that matters to the core. Set by kernels, cleared by the core.
        44 pub changed: AtomicU32,
        48 _pad2: [Cell64; 2],
    }
}

pool_struct! {
    /// The core's own: a process.
    pub struct ServiceProcess: size 128, align 64 {
        /// [`ServiceClient::owner`]; 0: the record is free.
        0 pub owner: Cell32,
        4 _pad2: Cell32,
        /// The first ready thread, 1 + index; 0: none.
        8 pub ready: Cell32,
        /// The first thread that has a slot, likewise.
        12 pub holders: Cell32,
        /// By island: most threads that may run at once; 0: no limit.
        16 pub slots: [Cell32; 8],
        /// By island: threads that run.
        48 pub running: [Cell32; 8],
        /// 1: some of its threads are ready and have no turns.
        80 pub crowded: Cell32,
        84 _pad3: Cell32,
        88 _pad1: [Cell64; 5],
    }
}

pool_struct! {
    /// The core's own: a thread.
    pub struct ServiceThread: size 64, align 64 {
        /// What it does (`motet_protocol::service::State`).
        0 pub state: Cell32,
        /// Its priority; 0 is the most urgent.
        4 pub priority: Cell32,
        /// Next in the queue that it is in, 1 + index; 0: none.
        8 pub next: Cell32,
        /// What it waits for: a kind in the upper half, a number in the lower one.
        12 pub waits: Cell32,
        /// 1 + the mutex that it gets back after its wait for a condition variable; 0: none.
        16 pub mutex: Cell32,
        /// Islands on which it may run, a bit each.
        20 pub islands: Cell32,
        /// 1 + the island whose slot it has; 0: none.
        24 pub island: Cell32,
        /// Bit 0: it is detached or joined; bit 1: its kernel thread has ended; bit 3: it was started; bit 4: it has had no turn yet; bit 5: a device is it; from bit 24 on: the number of the request that it waits with.
        28 pub flags: Cell32,
        /// What it has ended with.
        32 pub value: Cell32,
        /// Code of the answer that it gets when it runs again.
        36 pub code: Cell32,
        /// The value of that answer.
        40 pub answer: Cell32,
        /// 1 + the first mutex that it owns; 0: none.
        44 pub owned: Cell32,
        /// The last request that was executed.
        48 pub served: Cell64,
        /// Timed machines: when its answer is there, in picoseconds.
        56 pub answered_ps: Cell64,
    }
}

pool_struct! {
    /// The core's own: a mutex.
    pub struct ServiceMutex: size 64, align 64 {
        /// [`ServiceClient::owner`] of its process; 0: it is free.
        0 pub owner: Cell32,
        /// Its kind (`motet_protocol::service::Kind`).
        4 pub kind: Cell32,
        /// The thread that has it, 1 + index; 0: none.
        8 pub holder: Cell32,
        /// How often the holder has locked it.
        12 pub depth: Cell32,
        /// The most urgent thread that waits for it, 1 + index; 0: none.
        16 pub waiters: Cell32,
        /// 1: a holder has died; 2: and the next one has not repaired the data.
        20 pub dead: Cell32,
        /// 1 + the next mutex of its holder; 0: none.
        24 pub next: Cell32,
        /// How many threads wait for a condition variable with this mutex.
        28 pub conditions: Cell32,
        /// [`ServiceClient::user`] of its process.
        32 pub user: Cell32,
        36 _pad1: Cell32,
        40 _pad2: [Cell64; 3],
    }
}

pool_struct! {
    /// The core's own: a condition variable.
    pub struct ServiceCondition: size 16, align 16 {
        /// As [`ServiceMutex::owner`].
        0 pub owner: Cell32,
        /// The most urgent thread that waits, 1 + index; 0: none.
        4 pub waiters: Cell32,
        /// 1 + the mutex with which threads wait; 0: none does.
        8 pub mutex: Cell32,
        /// [`ServiceClient::user`] of its process.
        12 pub user: Cell32,
    }
}

pool_struct! {
    /// The core's own: a barrier.
    pub struct ServiceBarrier: size 16, align 16 {
        /// As [`ServiceMutex::owner`].
        0 pub owner: Cell32,
        /// Threads that wait, 1 + index of the first; 0: none.
        4 pub waiters: Cell32,
        /// How many wait.
        8 pub arrived: Cell32,
        /// How many it lets through at once.
        12 pub count: Cell32,
    }
}

pool_struct! {
    /// The core's own: a source of interrupts.
    pub struct ServiceSource: size 16, align 16 {
        /// [`ServiceClient::owner`] of the process that it is bound to; 0: none.
        0 pub owner: Cell32,
        /// 1 + the thread that it is bound to.
        4 pub thread: Cell32,
        /// Interrupts that the thread has not waited for yet.
        8 pub pending: Cell32,
        12 _pad: Cell32,
    }
}

/// [`ServiceHardware::state`]: the machine has no such device.
pub const HARDWARE_ABSENT: u32 = 0;
/// [`ServiceHardware::state`]: it has no thread.
pub const HARDWARE_FREE: u32 = 1;
/// [`ServiceHardware::state`]: a kernel is giving it one.
pub const HARDWARE_TAKEN: u32 = 2;
/// [`ServiceHardware::state`]: it is a thread. It uses the memory of its table.
pub const HARDWARE_BUSY: u32 = 3;
/// [`ServiceHardware::state`]: its thread has ended, and it uses no memory any more. A kernel makes it free.
pub const HARDWARE_DONE: u32 = 4;

/// [`ServiceHardware::does`]: it sorts.
pub const HARDWARE_SORTS: u32 = 1;
/// [`ServiceHardware::does`]: it filters.
pub const HARDWARE_FILTERS: u32 = 2;

/// [`HardwareRegion::flags`]: the device may write there.
pub const HARDWARE_WRITES: u64 = 1;

pool_struct! {
    /// A device that computes, as a thread (`motet_protocol::service::hardware`).
    pub struct ServiceHardware: size 256, align 64 {
        /// `HARDWARE_*`. Free to taken to busy by kernels, busy to done by the device, done to free by kernels.
        0 pub state: AtomicU32,
        /// What it does: `HARDWARE_SORTS`, `HARDWARE_FILTERS`. Host-written.
        4 pub does: Cell32,
        /// 1: its thread is to end. Set by kernels.
        8 pub stop: AtomicU32,
        /// Its thread's window, 1 + index. This and the rest up to `table` are kernel-written before it is busy.
        12 pub thread: Cell32,
        /// [`ServiceClient::owner`] of its thread's process.
        16 pub owner: Cell32,
        /// The core that is rung when it is done.
        20 pub core: Cell32,
        /// Where the process has its argument.
        24 pub argument: Cell64,
        /// What memory it may use: pool address of a [`HardwareTable`].
        32 pub table: Cell64,
        /// Timed machines: an element, in picoseconds. Host-written.
        40 pub element_ps: Cell64,
        /// Timed machines: a word of memory, or the way to the service core or back, in picoseconds. Host-written.
        48 pub memory_ps: Cell64,
        /// Timed machines: from its creation to its first request, in picoseconds. Host-written.
        56 pub start_ps: Cell64,
        /// Timed machines: when its next step is due, in picoseconds; 0: it has not noticed yet that it is busy. The device's own, as all that follows.
        64 pub due_ps: Cell64,
        /// Its next step (`motet_protocol::service::hardware::Step`).
        72 pub step: Cell32,
        /// The number of its last request.
        76 pub sequence: Cell32,
        /// Its argument: where the elements are.
        80 pub data: Cell64,
        /// Where the results go.
        88 pub out: Cell64,
        /// The word that counts blocks; 0: none.
        96 pub counter: Cell64,
        /// Elements of a block.
        104 pub count: Cell32,
        /// Blocks.
        108 pub blocks: Cell32,
        /// The type of the elements.
        112 pub kind: Cell32,
        /// 1 + the mutex that is locked for each block; 0: none.
        116 pub mutex: Cell32,
        /// 1 + the condition variable that is signalled after each; 0: none.
        120 pub condition: Cell32,
        /// Number of coefficients.
        124 pub taps: Cell32,
        /// How far sums are shifted to the right.
        128 pub shift: Cell32,
        /// Blocks that it has done.
        132 pub block: Cell32,
        /// How much of this block it has done.
        136 pub progress: Cell64,
        /// Coefficients.
        144 pub coefficients: [Cell32; 8],
        /// How many threads it has been.
        176 pub threads: Cell64,
        184 _pad: [Cell64; 9],
    }
}

pool_struct! {
    /// A part of a process's memory.
    pub struct HardwareRegion: size 32, align 8 {
        /// Where the process has it.
        0 pub start: Cell64,
        /// Its length.
        8 pub bytes: Cell64,
        /// The number of its first page in the leaves.
        16 pub first: Cell64,
        /// `HARDWARE_WRITES`.
        24 pub flags: Cell64,
    }
}

pool_struct! {
    /// The memory that a device may use: a frame. Each page has a reference. Kernel-written before the device is busy.
    pub struct HardwareTable: size 4096, align 64 {
        /// The parts of the process's memory.
        0 pub regions: [HardwareRegion; 4],
        /// Pool addresses of [`HardwareLeaf`]s; 0: none.
        128 pub leaves: [Cell64; 32],
        /// Pages in the leaves.
        384 pub pages: Cell64,
        /// For the kernel: the address space whose memory it is (pool address).
        392 pub space: Cell64,
        400 _pad: [Cell64; 462],
    }
}

pool_struct! {
    /// Pages of a [`HardwareTable`]: a frame.
    pub struct HardwareLeaf: size 4096, align 64 {
        /// Their pool addresses.
        0 pub pages: [Cell64; 512],
    }
}

pool_struct! {
    /// The service core.
    pub struct ServiceCore: size 1818624, align 4096 {
        /// Who executes an operation: 1 + who; 0: nobody.
        0 pub lock: AtomicU64,
        /// Mutexes and condition variables that there can be. Host-written.
        8 pub mutexes: Cell32,
        /// Barriers. Host-written.
        12 pub barriers: Cell32,
        /// Processes: pages of registers that there can be. Host-written.
        16 pub clients: Cell32,
        /// Timed machines: operations that it executes at once. Host-written.
        20 pub ports: Cell32,
        /// Timed machines: one operation, in picoseconds. Host-written.
        24 pub operation_ps: Cell64,
        /// Not 0: a kernel has changed a [`ServiceClient`]. Set by kernels, cleared by the core.
        32 pub attention: AtomicU32,
        /// Not 0: there is a bit in [`heard_of`](Self::heard_of), or a device is done. Set by the core, cleared by kernels.
        36 pub answered: AtomicU32,
        /// Operations executed.
        40 pub operations: Cell64,
        /// Operations answered with an error.
        48 pub errors: Cell64,
        /// Timed machines: how long requests have waited for others, in picoseconds.
        56 pub queued_ps: Cell64,
        /// Timed machines: when the last operations began, in picoseconds and one more, a ring; 0: there was none.
        64 pub began_ps: [Cell64; 128],
        /// Timed machines: the next entry of `began_ps`.
        1088 pub next_slot: Cell32,
        /// Islands that the machine has, a bit each; 0: all that there can be. Host-written.
        1092 pub islands: Cell32,
        /// Devices that are busy. Counted up by kernels, down by the devices.
        1096 pub hardware_busy: AtomicU32,
        /// Not 0: a device is done. Set by devices, cleared by kernels.
        1100 pub hardware_done: AtomicU32,
        /// Processes that have threads which are ready and have no turns. Kernels look at it when a thread waits.
        1104 pub crowded: AtomicU32,
        1108 _pad3: Cell32,
        /// Pages of registers of which there is a bit in [`ServiceClient::answered`] or [`ServiceClient::told`], a bit each. Set by the core after
        /// that, cleared by kernels before they look there.
        1112 pub heard_of: [AtomicU64; 4],
        1144 _pad1: [Cell64; 241],
        /// Sources of interrupts.
        3072 pub sources: [ServiceSource; 64],
        /// Pages of registers, as kernels and the core see them.
        4096 pub control: [ServiceClient; 256],
        /// Processes.
        20480 pub processes: [ServiceProcess; 256],
        /// Mutexes.
        53248 pub mutex: [ServiceMutex; 1024],
        /// Condition variables.
        118784 pub condition: [ServiceCondition; 1024],
        /// Barriers.
        135168 pub barrier: [ServiceBarrier; 256],
        /// Devices that are threads.
        139264 pub hardware: [ServiceHardware; 16],
        /// By barrier: [`ServiceClient::user`] of its process.
        143360 pub barrier_users: [Cell32; 256],
        144384 _pad2: [Cell64; 4480],
        /// Threads, by page of registers and window.
        180224 pub threads: [ServiceThread; 8192],
        /// The registers.
        704512 pub pages: [ServicePage; 256],
        /// By page of registers and window: the kernel thread that is bound to it ([`ThreadRecord`](crate::ThreadRecord), pool address); 0: none.
        /// Kernel-written.
        1753088 pub kernel_threads: [AtomicU64; 8192],
    }
}

const _: () = assert!(SERVICE_CLIENTS * SERVICE_WINDOWS == 8192 && SERVICE_CLIENTS == 256 && SERVICE_SLOTS == 128);
