//! The private data of one core.

use core::{
    arch::asm,
    mem::offset_of,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use motet_abi::hidden::CONTEXT_WORDS;
use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, IslandId};

use crate::extended::Aside;

/// One core's private state; `tp` points to it. The first words are used by the assembly in `trap.rs` and `boot.rs`.
#[repr(C, align(64))]
pub struct PerCore {
    /// Target of the store that ends a load reservation; also the trap entry's first spill (user `a0`).
    pub scratch: AtomicU64,
    /// The user frame in use (its address in the pool's mapping).
    pub frame: AtomicU64,
    /// Where `run_user` continues, and the registers inline assembly cannot declare as clobbered.
    pub resume: [AtomicU64; 4],
    /// Top of the stack for exceptions in the kernel itself.
    pub trap_stack: AtomicU64,
    /// Top of the kernel stack.
    pub stack: AtomicU64,
    /// While a guest runs: the function that may serve its traps, and what that is called with.
    pub quick: [AtomicUsize; 2],
    /// x0..x31 at an exception in the kernel.
    pub fault_registers: [AtomicU64; 32],
    /// `satp` of the kernel's own root table (set before a core is started).
    pub kernel_satp: AtomicU64,
    /// Core id.
    pub core: AtomicUsize,
    /// The frame whose `ext` words equal this core's extended registers unless sstatus says dirty; 0: none.
    pub ext_frame: AtomicUsize,
    /// The same of the vector words and registers.
    pub vector_frame: AtomicUsize,
    /// What is set aside ([`motet_hal::Machine::set_ext_aside`]): the floating-point registers, ...
    pub aside: Aside,
    /// ... who has which, as `sstatus` says it, ...
    pub aside_status: AtomicU64,
    /// ... and `ext_frame`.
    pub aside_frame: AtomicUsize,
    /// Bytes in a vector register; 0: user code gets no vectors here.
    pub vector_bytes: AtomicU64,
    /// Guests that this core has translations of, by VMID less 1.
    pub guests: [KnownGuest; VMIDS_MAX],
    /// How many VMIDs are in use: at least 1, which is 0 if that is the only one there is.
    pub vmids: AtomicUsize,
    /// The VMID, less 1, that the next guest gets without one.
    pub next_vmid: AtomicUsize,
    /// What `hgatp` holds.
    pub hgatp: AtomicU64,
    /// What `htimedelta` holds.
    pub time_delta: AtomicU64,
    /// 1: this core can run guests.
    pub runs_guests: AtomicU64,
    /// Interrupts that were taken while a guest ran, and that the kernel has not been told.
    pub taken: AtomicU64,
    /// Places of threads that this core has sent to hidden harts and not taken home, a bit each.
    pub away: AtomicU64,
    /// 1: one of them may have come home since the firmware was asked.
    pub may_be_home: AtomicU64,
    /// What the firmware is told of a thread that is sent, or tells of one that comes home.
    pub context: [AtomicU64; CONTEXT_WORDS],
    /// 1 + the place of a thread that the firmware has given back and the kernel has not taken, 0: there is none; and what its context had of that:
    /// `pc`, the cause, and `stval`.
    pub collected: [AtomicU64; 4],
    /// Set by the first panic of this core: a second one only parks.
    pub panicking: AtomicBool,
}

/// Most VMIDs that a core uses.
pub const VMIDS_MAX: usize = 8;

/// A core of a guest that has a VMID here.
pub struct KnownGuest {
    /// Where its system registers are kept; 0: there is none.
    pub system: AtomicU64,
    /// Physical address of the root of its tables.
    pub root: AtomicU64,
}

pub const SCRATCH: usize = offset_of!(PerCore, scratch);
pub const FRAME: usize = offset_of!(PerCore, frame);
pub const RESUME: usize = offset_of!(PerCore, resume);
pub const TRAP_STACK: usize = offset_of!(PerCore, trap_stack);
pub const STACK: usize = offset_of!(PerCore, stack);
pub const QUICK: usize = offset_of!(PerCore, quick);
pub const FAULT_REGISTERS: usize = offset_of!(PerCore, fault_registers);
pub const KERNEL_SATP: usize = offset_of!(PerCore, kernel_satp);

/// By index in the island.
pub static PER_CORE: [PerCore; CORES_PER_ISLAND_MAX] = [const { PerCore::new() }; CORES_PER_ISLAND_MAX];

impl PerCore {
    const fn new() -> Self {
        Self {
            scratch: AtomicU64::new(0),
            frame: AtomicU64::new(0),
            resume: [const { AtomicU64::new(0) }; 4],
            trap_stack: AtomicU64::new(0),
            stack: AtomicU64::new(0),
            quick: [const { AtomicUsize::new(0) }; 2],
            fault_registers: [const { AtomicU64::new(0) }; 32],
            kernel_satp: AtomicU64::new(0),
            core: AtomicUsize::new(0),
            ext_frame: AtomicUsize::new(0),
            vector_frame: AtomicUsize::new(0),
            aside: Aside::new(),
            aside_status: AtomicU64::new(0),
            aside_frame: AtomicUsize::new(0),
            vector_bytes: AtomicU64::new(0),
            guests: [const { KnownGuest { system: AtomicU64::new(0), root: AtomicU64::new(0) } }; VMIDS_MAX],
            vmids: AtomicUsize::new(1),
            next_vmid: AtomicUsize::new(0),
            hgatp: AtomicU64::new(0),
            time_delta: AtomicU64::new(0),
            runs_guests: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            away: AtomicU64::new(0),
            may_be_home: AtomicU64::new(0),
            context: [const { AtomicU64::new(0) }; CONTEXT_WORDS],
            collected: [const { AtomicU64::new(0) }; 4],
            panicking: AtomicBool::new(false),
        }
    }

    /// This core's.
    #[inline(always)]
    pub fn this() -> &'static Self {
        let address: *const Self;
        // SAFETY: reads `tp`, which never changes on a core once Rust runs there.
        unsafe { asm!("mv {}, tp", out(reg) address, options(pure, nomem, nostack, preserves_flags)) };
        // SAFETY: `tp` points to this core's element of `PER_CORE` (invariant of the crate).
        unsafe { &*address }
    }

    /// This core's id.
    #[inline(always)]
    pub fn core(&self) -> CoreId {
        CoreId(self.core.load(Relaxed) as u8)
    }

    /// Names core `index` of `island` (before it is started).
    pub fn set_core(&self, island: IslandId, index: usize) {
        self.core.store(CoreId::new(island, index).index(), Relaxed);
    }
}
