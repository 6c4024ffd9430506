//! The FPGA: regions that accelerators are loaded into, and that clients share (`docs/protocols/fpga.md`).
//!
//! A client sees the page of registers of its interface, and its data section, which is all the memory that an accelerator reads and writes for it.
//! The state of the FPGA and its manager is elsewhere, where no program can see it.

use crate::{
    Cell32, Cell64, FpgaLock, WaitQueue, pool_struct,
    sync::{AtomicU32, AtomicU64},
};

/// Most regions.
pub const FPGA_REGIONS: usize = 8;
/// Most accelerators: what regions can be made to be.
pub const FPGA_ACCELERATORS: usize = 16;
/// Most interfaces: one for each client and accelerator.
pub const FPGA_INTERFACES: usize = 64;
/// Words of the buffer that keeps what an accelerator has computed so far: 1 KiB.
pub const FPGA_CONTEXT_WORDS: usize = 128;
/// Changes of regions that are kept: the last ones.
pub const FPGA_CHANGES: usize = 8192;
/// States that a region can be in.
pub const FPGA_STATES: usize = 6;
/// Registers whose meaning is an accelerator's.
pub const FPGA_CUSTOM: usize = 8;

pool_struct! {
    /// The registers of an interface: Ker-ONE's Table 1. The client writes them while its interface is connected, and always reads them.
    pub struct FpgaRegisters: size 4096, align 4096 {
        /// What the accelerator does (`motet_protocol::fpga::Status`), and from bit 8 on why it refused. Stored by the FPGA.
        0 pub status: AtomicU32,
        /// If the lowest byte is not 0, the client starts a job. Stored by the client, cleared by the FPGA when it has seen it.
        4 pub start: AtomicU32,
        /// 1: the job is over. Stored by the FPGA, which stores 0 when a job begins.
        8 pub over: AtomicU32,
        /// The command. The accelerator defines its meaning.
        12 pub command: AtomicU32,
        /// Where in the data section the data begin.
        16 pub data_addr: AtomicU32,
        /// How many bytes.
        20 pub data_size: AtomicU32,
        /// The result. Stored by the FPGA, before `over`.
        24 pub result: AtomicU64,
        /// Bit 0: the job's end wakes the client, or interrupts the guest.
        32 pub interrupt_control: AtomicU32,
        36 _pad0: Cell32,
        /// The first one: where results go in the data section.
        40 pub custom: [AtomicU32; 8],
        72 _pad1: [Cell64; 503],
    }
}

/// [`FpgaInterface::state`]: free.
pub const FPGA_FREE: u32 = 0;
/// [`FpgaInterface::state`]: a kernel is filling in the client.
pub const FPGA_TAKEN: u32 = 1;
/// [`FpgaInterface::state`]: a client has it.
pub const FPGA_USED: u32 = 2;
/// [`FpgaInterface::state`]: the client has gone. The FPGA makes it free.
pub const FPGA_LEFT: u32 = 3;

pool_struct! {
    /// An interface as kernels and the FPGA see it: a client's, for one accelerator.
    pub struct FpgaInterface: size 2048, align 64 {
        // What stores to registers need comes first, in one cache line; then, in one, who waits.
        /// `FPGA_*`. Free to taken to used to left by kernels, left to free by the FPGA.
        0 pub state: AtomicU32,
        /// A number of its client. Kernel-written before it is used.
        4 pub owner: Cell32,
        /// The user who has it. Kernel-written before it is used.
        8 pub user: Cell32,
        /// Its accelerator. Kernel-written before it is used.
        12 pub accelerator: Cell32,
        /// The core that is interrupted for its client. Kernel-written before it is used.
        16 pub core: Cell32,
        /// The client's priority; 0 is the most urgent. Stored by kernels.
        20 pub priority: AtomicU32,
        /// 1: a core polls until it is connected, so the FPGA need not interrupt a core for that. Stored by kernels.
        24 pub looks: AtomicU32,
        /// Kernels' own: 1: the client has chosen its priority; 0: the priority is that of the thread whose store was the last request.
        28 pub is_said: AtomicU32,
        /// 1: a store to its registers has trapped, which is a request. Set by kernels, cleared by the FPGA.
        32 pub asked: AtomicU32,
        /// 1: it is connected to a region. Stored by the FPGA.
        36 pub connected: AtomicU32,
        /// 1: its registers may be mapped writably. Set by kernels before they map them, cleared when no mapping is writable any more.
        40 pub writable: AtomicU32,
        /// 1: kernels must make its mappings read-only. Set by the FPGA, cleared by kernels when they have. 2: the FPGA will demand that later.
        44 pub revoke: AtomicU32,
        /// Signals for the client (`motet_protocol::fpga::SIGNAL_*`). Set by the FPGA, cleared by kernels.
        48 pub signals: AtomicU32,
        /// 1: the request of a store that has trapped has failed; the kernel reports that to its thread. Set by the FPGA, which leaves `asked` alone until kernels have
        /// cleared it, or until it is connected.
        52 pub refused: AtomicU32,
        /// What the client calls the first byte of its data section: a guest's physical address; 0 for programs. Kernel-written before it is used.
        56 pub data_base: Cell64,
        /// The FPGA's own: 1 + the region that it is connected to; 0: none.
        64 pub region: Cell32,
        /// The FPGA's own: its request waits (1), or has a region that is being made ready (2).
        68 pub request: Cell32,
        /// The FPGA's own: the request's number. Older requests have smaller ones.
        72 pub sequence: Cell64,
        /// The FPGA's own: 1: a job has begun and is not over. The following fields are its registers.
        80 pub begun: Cell32,
        /// The FPGA's own: the registers as they were when the job began.
        84 pub command: Cell32,
        /// As above.
        88 pub data_addr: Cell32,
        /// As above.
        92 pub data_size: Cell32,
        /// As above.
        96 pub custom: [Cell32; 8],
        /// Threads that wait for a signal.
        128 pub readers: WaitQueue,
        /// Threads whose stores wait until the registers are connected.
        160 pub waiters: WaitQueue,
        /// The deadline of its requests: the time after a request, in picoseconds; 0: none. Stored by kernels.
        192 pub deadline_ps: AtomicU64,
        /// The FPGA's own: when the request came, in picoseconds.
        200 pub requested_ps: Cell64,
        /// Kernels' own: signals that the client has not read.
        208 pub told: AtomicU32,
        /// Kernels' own: the signals that the client wants.
        212 pub hears: AtomicU32,
        /// The virtual machine that has it ([`VmRecord`](crate::VmRecord), pool address); 0: none. Stored by kernels under `kernel_lock`; whoever stores 0
        /// waits for [`Fpga::transfer`] before the machine is taken apart.
        216 pub guest: AtomicU64,
        /// Kernels' own: its open file's inode (pool address).
        224 pub inode: Cell64,
        /// A page of its virtual machine that a transfer needs and no table has (`motet_protocol::fpga::guest`): its address, and in the lowest bits
        /// what is known. Asked by the FPGA, answered by kernels.
        232 pub wants: AtomicU64,
        /// The FPGA's own: 1: there are signals for which no core was interrupted. That follows when the client has begun for which the region was stopped.
        240 pub is_late: Cell32,
        /// Kernels' own: signals of which a core is telling the client, for who goes on when that core dies. Under `kernel_lock`.
        244 pub telling: AtomicU32,
        248 _pad1: [Cell64; 97],
        /// The FPGA's own: the saved state of its job, while another client has the region.
        1024 pub context: [Cell64; 128],
    }
}

pool_struct! {
    /// A region, and what the monitor knows of it: Ker-ONE's PRR descriptor.
    pub struct FpgaRegion: size 2048, align 64 {
        /// `motet_protocol::fpga::RegionState`.
        0 pub state: Cell32,
        /// 1 + the interface that is connected to it, or was last; 0: none.
        4 pub interface: Cell32,
        /// 1 + the accelerator that it is; 0: none.
        8 pub accelerator: Cell32,
        /// 1 + the interface that gets the region next; 0: none.
        12 pub successor: Cell32,
        /// Its size. Host-written.
        16 pub area: Cell32,
        /// 1: its bitstream is going through the port.
        20 pub loading: Cell32,
        /// When its present activity ends, in picoseconds: a frame, a reconfiguration, a reservation.
        24 pub until_ps: Cell64,
        /// Signals that the manager has not handled yet (`motet_protocol::fpga::IRQ_*`).
        32 pub signals: Cell32,
        36 _pad0: Cell32,
        /// The order in which regions wait for the port.
        40 pub sequence: Cell64,
        /// Frames computed in it.
        48 pub frames: Cell64,
        /// Bitstreams loaded into it.
        56 pub loads: Cell64,
        /// The last entry of the history about it, as [`FpgaChange::what`] but for the region.
        64 pub last_change: Cell64,
        /// When that was, in picoseconds.
        72 pub changed_ps: Cell64,
        /// How long it was in each state until then, in picoseconds.
        80 pub spent_ps: [Cell64; 6],
        128 _pad1: [Cell64; 112],
        /// The accelerator's intermediate state.
        1024 pub context: [Cell64; 128],
    }
}

pool_struct! {
    /// An entry of the history: what a region is from a moment on. Written by the FPGA's executor; the host reads it after a run.
    pub struct FpgaChange: size 16, align 8 {
        /// The moment, in picoseconds.
        0 pub at_ps: Cell64,
        /// From bit 0 on in bytes: the region, its state, 1 + its accelerator, 1 + its interface; in the upper half, the interface's owner.
        8 pub what: Cell64,
    }
}

pool_struct! {
    /// An entry of the hardware task index table: an accelerator's bitstream for a region. Host-written.
    pub struct FpgaBitstream: size 32, align 8 {
        /// Its length; 0: the accelerator does not fit there.
        0 pub bytes: Cell64,
        /// For which region it was made.
        8 pub region: Cell32,
        /// Which accelerator it is.
        12 pub accelerator: Cell32,
        /// `motet_protocol::fpga::signature` of these and of the machine's key.
        16 pub signature: Cell64,
        24 _pad: Cell64,
    }
}

pool_struct! {
    /// An accelerator. Host-written.
    pub struct FpgaAccelerator: size 288, align 8 {
        /// Its function: a number that the executor knows.
        0 pub kind: Cell32,
        /// A region that kernels may give to its clients by themselves (`motet_protocol::fpga::Offer`); 0: none. Stored by the FPGA, and by the
        /// kernel that takes it.
        4 pub offer: AtomicU32,
        /// The time that it takes for a frame, in picoseconds.
        8 pub frame_ps: Cell64,
        /// Its name: bytes, and 0 after them.
        16 pub name: [Cell64; 2],
        /// Its bitstreams, by region.
        32 pub bitstreams: [FpgaBitstream; 8],
    }
}

pool_struct! {
    /// The FPGA. The registers, and then the data sections, follow it.
    pub struct Fpga: size 290816, align 4096 {
        /// 1 + the number of the FPGA's executor; 0: none.
        0 pub lock: AtomicU64,
        /// Regions that it has. Host-written, as all up to `data`.
        8 pub region_count: Cell32,
        /// Accelerators that there are.
        12 pub accelerator_count: Cell32,
        /// Interfaces that it has.
        16 pub interface_count: Cell32,
        /// How a solution is chosen (`motet_protocol::fpga::Policy`).
        20 pub policy: Cell32,
        /// What the configuration port takes for 1024 bytes, in picoseconds.
        24 pub port_kib_ps: Cell64,
        /// For how long a region is kept for a client that does not use it, in picoseconds.
        32 pub expire_ps: Cell64,
        /// Bytes of each data section.
        40 pub data_bytes: Cell64,
        /// Where registers are (pool address), a page for each interface.
        48 pub registers: Cell64,
        /// Where data sections are (pool address).
        56 pub data: Cell64,
        /// The key of bitstreams' signatures.
        64 pub key: Cell64,
        /// Not 0: a kernel has changed an [`FpgaInterface`]. Set by kernels, cleared by the FPGA.
        72 pub attention: AtomicU32,
        /// Not 0: there is something in `revoke`, `signals` or `wants` of an interface, whose client has the priority 1 less than this or a less urgent one. Set by
        /// the FPGA, cleared by kernels.
        76 pub answered: AtomicU32,
        /// The last number of a request.
        80 pub sequence: Cell64,
        /// Transfers that the configuration port is to fail: for tests.
        88 pub port_faults: Cell32,
        92 _pad0: Cell32,
        /// Requests, preemptions, reconfigurations, and errors of the port or of bitstreams.
        96 pub requests: Cell64,
        /// As above.
        104 pub preemptions: Cell64,
        /// As above.
        112 pub loads: Cell64,
        /// As above.
        120 pub load_errors: Cell64,
        /// Held by the kernel that does the FPGA's work for kernels.
        128 pub kernel_lock: FpgaLock,
        /// The manager's time, in picoseconds: to search for a region. Host-written, as all up to `manager_stop_ps`.
        136 pub manager_search_ps: Cell64,
        /// To assign a region that is that accelerator already.
        144 pub manager_assign_ps: Cell64,
        /// To reconfigure a region as another accelerator.
        152 pub manager_reconfigure_ps: Cell64,
        /// To stop what a region computes.
        160 pub manager_preempt_ps: Cell64,
        /// For the interrupt at the end of a reconfiguration.
        168 pub manager_port_ps: Cell64,
        /// For the interrupt when a region has stopped.
        176 pub manager_stop_ps: Cell64,
        /// The FPGA's own: until when the manager is busy.
        184 pub manager_until_ps: Cell64,
        /// How many changes there have been. Change n is in [`history`](Self::history) at n modulo its length.
        192 pub changes: Cell64,
        /// The virtual machine ([`VmRecord`](crate::VmRecord), pool address) whose memory a transfer is using now; 0: none. Stored by the FPGA's executor.
        200 pub transfer: AtomicU64,
        /// The interfaces that `answered` is about, a bit each. Set by the FPGA before that, taken by kernels after.
        208 pub answers: AtomicU64,
        216 _pad1: [Cell64; 485],
        /// The regions.
        4096 pub regions: [FpgaRegion; 8],
        /// The accelerators, with the hardware task index table.
        20480 pub accelerators: [FpgaAccelerator; 16],
        25088 _pad2: [Cell64; 448],
        /// The interfaces.
        28672 pub interfaces: [FpgaInterface; 64],
        /// What regions were, and when.
        159744 pub history: [FpgaChange; 8192],
    }
}
