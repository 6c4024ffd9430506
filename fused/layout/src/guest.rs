//! Guests: virtual machines (`docs/vms.md`), and the state of a guest's core beside its [`UserFrame`].

use crate::sync::{AtomicU32, AtomicU64};
use crate::{AtomicByte, Cell32, Cell64, HostStream, InterruptsLock, SpaceRecord, UserFrame, WaitQueue, pool_struct};

pool_struct! {
    /// System registers of a guest's core, while it does not run. In an order of the ISA's own, which its HAL knows (AArch64:
    /// [`aarch64_guest`]); all zero: as after a reset. Written by the core that runs the guest.
    pub struct GuestSystem: size 320, align 64 {
        /// The registers.
        0 pub words: [Cell64; 40],
    }
}

/// Most cores of a guest that has a [`GuestGic`].
pub const GUEST_GIC_CORES: usize = 8;
/// Interrupts in a bank.
pub const GUEST_GIC_BANK: usize = 32;
/// Banks of interrupts that the cores share: ids 32 to 95.
pub const GUEST_GIC_BANKS: usize = 2;

pool_struct! {
    /// 32 interrupts of a guest's interrupt controller, a bit each.
    pub struct GuestGicBank: size 64, align 64 {
        /// Those of group 1.
        0 pub group: Cell32,
        /// Those that are enabled.
        4 pub enabled: Cell32,
        /// Those that are pending by an edge or by software. In a list register, that of an edge is there instead.
        8 pub latched: Cell32,
        /// Those whose device asks for them now.
        12 pub line: Cell32,
        /// Those that are active.
        16 pub active: Cell32,
        /// Those that are edge-triggered.
        20 pub edge: Cell32,
        /// Those that are in a list register of a core.
        24 pub listed: Cell32,
        28 _pad0: Cell32,
        /// Priorities, a byte each.
        32 pub priority: [Cell32; 8],
    }
}

pool_struct! {
    /// The interrupt controller of an AArch64 guest (`motet_protocol::gic`). Guarded by a lock of the guest's.
    pub struct GuestGic: size 1280, align 64 {
        /// Cores that the guest has.
        0 pub cores: Cell32,
        /// GICD_CTLR: groups that are enabled.
        4 pub groups: Cell32,
        /// Cores whose redistributor is awake, a bit each (GICR_WAKER).
        8 pub awake: Cell32,
        12 _pad0: Cell32,
        16 _pad1: [Cell64; 6],
        /// By core: its SGIs and PPIs, ids 0 to 31.
        64 pub private: [GuestGicBank; 8],
        /// SPIs.
        576 pub shared: [GuestGicBank; 2],
        /// By SPI: GICD_IROUTER.
        704 pub routes: [Cell64; 64],
        /// By SPI, a byte each: the core on which it is active, if it is.
        1216 pub owners: [Cell32; 16],
    }
}

/// AArch64: which word of [`GuestSystem`] is what. The general registers, SP_EL0 and TPIDR_EL0 are in the frame, whose `status` means
/// nothing.
pub mod aarch64_guest {
    /// PSTATE, as in SPSR_EL2, with the bits of [`RESET_PSTATE`] inverted.
    pub const PSTATE: usize = 0;
    /// SCTLR_EL1, with the bits of [`RESET_SCTLR`] inverted.
    pub const SCTLR: usize = 1;
    /// TTBR0_EL1.
    pub const TTBR0: usize = 2;
    /// TTBR1_EL1.
    pub const TTBR1: usize = 3;
    /// TCR_EL1.
    pub const TCR: usize = 4;
    /// MAIR_EL1.
    pub const MAIR: usize = 5;
    /// AMAIR_EL1.
    pub const AMAIR: usize = 6;
    /// VBAR_EL1.
    pub const VBAR: usize = 7;
    /// CONTEXTIDR_EL1.
    pub const CONTEXTIDR: usize = 8;
    /// CPACR_EL1.
    pub const CPACR: usize = 9;
    /// ELR_EL1.
    pub const ELR: usize = 10;
    /// SPSR_EL1.
    pub const SPSR: usize = 11;
    /// ESR_EL1.
    pub const ESR: usize = 12;
    /// FAR_EL1.
    pub const FAR: usize = 13;
    /// AFSR0_EL1.
    pub const AFSR0: usize = 14;
    /// AFSR1_EL1.
    pub const AFSR1: usize = 15;
    /// PAR_EL1.
    pub const PAR: usize = 16;
    /// SP_EL1.
    pub const SP: usize = 17;
    /// TPIDR_EL1.
    pub const TPIDR: usize = 18;
    /// TPIDRRO_EL0.
    pub const TPIDRRO: usize = 19;
    /// CSSELR_EL1.
    pub const CSSELR: usize = 20;
    /// CNTKCTL_EL1.
    pub const CNTKCTL: usize = 21;
    /// CNTV_CTL_EL0, as it was when the guest stopped: bit 2 says whether the timer had fired then.
    pub const TIMER_CONTROL: usize = 22;
    /// CNTV_CVAL_EL0.
    pub const TIMER_DEADLINE: usize = 23;
    /// CNTVOFF_EL2: how far the guest's counters are behind the core's. Whoever makes a guest sets it, or moves it to an island whose
    /// counter shows another time.
    pub const COUNTER_OFFSET: usize = 24;
    /// VMPIDR_EL2 without bit 31, which is 1: the guest's MPIDR_EL1. Whoever makes the guest sets it.
    pub const AFFINITY: usize = 25;
    /// 1 + the core where it ran last; 0: none. Its HAL's own.
    pub const LAST_CORE: usize = 26;
    /// ICH_VMCR_EL2: priority mask, binary points, enabled groups of its interrupt interface.
    pub const INTERRUPT_CONTROL: usize = 27;
    /// ICH_AP0R0_EL2, ICH_AP1R0_EL2: its active priorities.
    pub const ACTIVE_PRIORITIES: [usize; 2] = [28, 29];
    /// First of the list registers (ICH_LR0_EL2 ...), which hold interrupts that are pending or active; 0: none.
    pub const LIST: usize = 30;
    /// List registers.
    pub const LIST_LEN: usize = 4;
    /// The guest's virtual address of its last access that the second stage did not translate.
    pub const FAULT_ADDRESS: usize = 34;

    /// PSTATE after a reset: EL1 with its own stack pointer, everything masked.
    pub const RESET_PSTATE: u64 = 0x3c5;
    /// SCTLR_EL1 after a reset: translation and caches off; what is 1 in cores without later extensions.
    pub const RESET_SCTLR: u64 = 0x30c5_0838;

    const _: () = assert!(LIST + LIST_LEN <= FAULT_ADDRESS && FAULT_ADDRESS < 40);
}

/// Most pieces of memory of a virtual machine.
pub const VM_REGIONS: usize = 8;
/// Most cores of a virtual machine.
pub const VCPUS_MAX: usize = 16;
/// Kinds of exits that are counted.
pub const VM_EXITS: usize = 10;

pool_struct! {
    /// A piece of a virtual machine's memory.
    pub struct VmRegion: size 32, align 8 {
        /// The guest's physical address of its first byte.
        0 pub start: Cell64,
        /// First address past it.
        8 pub end: Cell64,
        /// The memfd whose pages it is ([`InodeRecord`](crate::InodeRecord), pool address), with a reference.
        16 pub inode: Cell64,
        /// Offset in that of `start`, in bytes.
        24 pub offset: Cell64,
    }
}

pool_struct! {
    /// A virtual machine: an open file of `/dev/vm`.
    pub struct VmRecord: size 2944, align 64 {
        /// Its number in `/proc/vms`.
        0 pub id: Cell32,
        /// The process that has made it.
        4 pub pid: Cell32,
        /// The user who has.
        8 pub user: Cell32,
        /// Pieces of memory. Under the space's lock, as those.
        12 pub region_count: Cell32,
        /// Next in the list of all (pool address). Under the header's `vms_lock`, as the previous one.
        16 pub next: Cell64,
        /// Previous in that list (pool address).
        24 pub prev: Cell64,
        /// Machine time when it was made.
        32 pub started_ns: Cell64,
        /// Cores. Raised under the space's lock, after the core's word is set.
        40 pub vcpu_count: AtomicU32,
        /// 1: the host wants it to end. Cleared by the first core.
        44 pub is_to_end: AtomicU32,
        /// By island: 1 + the index of its table's format among all of the second stage; 0: it has no table.
        48 pub formats: [AtomicByte; 8],
        /// ISA of its cores ([`Isa`](crate::Isa)): that of the core which has made it.
        56 pub isa: Cell32,
        /// 1: the host uses its console: the record stays until it does not any more. Set under the header's `vms_lock`.
        60 pub is_attached: AtomicU32,
        /// Its memory, in ascending order of addresses.
        64 pub regions: [VmRegion; 8],
        /// Its cores ([`VcpuRecord`]s, pool addresses).
        320 pub vcpus: [AtomicU64; 16],
        /// How often it stopped, by kind of what stopped it.
        448 pub exits: [AtomicU64; VM_EXITS],
        /// Nanoseconds that its cores have run.
        528 pub ran_ns: AtomicU64,
        /// Guards `gic`.
        536 pub gic_lock: InterruptsLock,
        /// 1: it has ended, and its record stays for its console. Under the header's `vms_lock`.
        544 pub has_ended: AtomicU32,
        548 _pad1: Cell32,
        552 _pad2: [Cell64; 3],
        /// What translates its physical addresses: a table of the second stage for each island that has run it, all of whose leaves hold
        /// references; and the cores that may have these translations. Of the rest, only lock and resident pages are used.
        576 pub space: SpaceRecord,
        /// The open file that it is ([`FileRecord`](crate::FileRecord), pool address).
        1088 pub file: Cell64,
        1096 _pad3: [Cell64; 7],
        /// AArch64: its interrupt controller.
        1152 pub gic: GuestGic,
        /// What its console has shown last: nobody waits for room, as new bytes replace the oldest, and `tail` means nothing.
        2432 pub console_out: HostStream,
        /// What the host has typed.
        2688 pub console_in: HostStream,
    }
}

/// [`VcpuRecord::state`]: waits to be started.
pub const VCPU_STOPPED: u32 = 0;
/// [`VcpuRecord::state`]: another one is writing where it starts.
pub const VCPU_STARTING: u32 = 1;
/// [`VcpuRecord::state`]: is to begin at `start`.
pub const VCPU_START: u32 = 2;
/// [`VcpuRecord::state`]: runs, or would.
pub const VCPU_STARTED: u32 = 3;

pool_struct! {
    /// A core of a virtual machine. Without remark: used by the core that runs it, which has `runner`.
    pub struct VcpuRecord: size 2624, align 64 {
        /// Its registers, floating-point ones too.
        0 pub frame: UserFrame,
        /// Its system registers.
        2048 pub system: GuestSystem,
        /// Its number among those of its virtual machine.
        2368 pub index: Cell32,
        /// `VCPU_*`.
        2372 pub state: AtomicU32,
        /// The thread whose system call uses it now (thread id); 0: none does.
        2376 pub runner: AtomicU32,
        /// 1 + index of the core in which it executes instructions now; 0: in none. Who changes the words that follow rings that core.
        2380 pub in_guest: AtomicU32,
        /// Interrupts that others have raised, and that it has not taken over yet.
        2384 pub raised: AtomicU32,
        /// Interrupt lines that are high, as the monitor says.
        2388 pub lines: AtomicU32,
        /// 1: its translations are to be dropped before it executes another instruction.
        2392 pub fence: AtomicU32,
        /// What the monitor is to answer: 0 nothing; otherwise its module's.
        2396 pub awaits: Cell32,
        /// The load or store that it is to answer: its module's.
        2400 pub asked: Cell64,
        /// Machine time of its timer, 0: it is not set.
        2408 pub timer_ns: Cell64,
        /// Where it starts, and its first two arguments. Written in state starting.
        2416 pub start: [Cell64; 3],
        /// Its virtual machine ([`VmRecord`], pool address).
        2440 pub vm: Cell64,
        /// The thread that waits for an interrupt, or to be started.
        2448 pub waiters: WaitQueue,
        /// The thread that is in a system call that runs it, until that call ends (thread id); 0: none is.
        2480 pub caller: AtomicU32,
        2484 _pad2: Cell32,
        2488 _pad1: [Cell64; 17],
    }
}
