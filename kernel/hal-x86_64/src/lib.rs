//! The HAL of x86-64 islands: QEMU's `q35` under TCG.
//!
//! What it needs of the machine: entry by PVH, `-cpu` with NX, 1 GiB pages and FSGSBASE, an HPET, COM1. SMEP and UMIP are
//! used when they are there. The firmware must be qboot: SeaBIOS puts its tables at the end of low memory, that is into
//! the pool, after the host has filled it (the kernel then refuses to join).
//!
//! Invariants:
//! - Interrupts are masked whenever Rust code runs, except for one instruction in [`Machine::wait_for_interrupt`] and
//!   [`Machine::poll_interrupts`].
//! - The kernel half of every root table is the same four entries, fixed before the first other core or user code runs.
//! - Kernel code uses neither GS nor FS: both bases belong to the running thread.
//! - Kernel code uses no SSE or x87 register: they belong to the thread that [`Machine::load_ext`] was last called for.
#![cfg(all(target_arch = "x86_64", target_os = "none"))]
#![no_std]
#![deny(missing_docs)]

mod apic;
mod boot;
mod clock;
mod core_block;
mod cpuid;
mod extended;
mod interrupt_table;
mod nic;
mod paging;
mod panic;
mod pci;
mod serial;
mod start_info;
mod trap;

use core::{
    arch::asm,
    cell::UnsafeCell,
    mem::MaybeUninit,
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        compiler_fence,
    },
};

use motet_hal::{Interrupts, Machine, Network, Text, Trap, ivshmem::Ivshmem, pool_map::PoolMap};
use motet_layout::{
    CoreId, Frame, Isa, IslandId, PAGE_SIZE, Pool, UserFrame, VISIBLE_WORDS, Windows, marks, visible_words as words,
};
use x86_64::{VirtAddr, instructions::tlb};

use crate::{clock::Clock, core_block::Core, nic::Nic, paging::KernelMap};

/// Makes `$main`, a `fn(&'static impl Machine) -> !`, the function that every core of the island runs.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        fn motet_main(machine: &'static $crate::TheMachine) -> ! {
            $main(machine)
        }
    };
}

/// The island's machine.
#[derive(Debug)]
pub struct TheMachine {
    pool: Pool,
    windows: Windows,
    ranges: PoolMap,
    map: KernelMap,
    island: IslandId,
    /// Cores that run threads.
    cores: usize,
    clock: Clock,
    doorbell: Option<Ivshmem>,
    network: Option<Nic>,
    extensions: Text<1024>,
    command_line: Text<512>,
}

struct Slot(UnsafeCell<MaybeUninit<TheMachine>>);

// SAFETY: written once, before `READY`, by the boot core; then only read.
unsafe impl Sync for Slot {}

static MACHINE: Slot = Slot(UnsafeCell::new(MaybeUninit::uninit()));
static READY: AtomicBool = AtomicBool::new(false);

/// The machine, once the boot core has described it.
fn try_machine() -> Option<&'static TheMachine> {
    // SAFETY: `READY` is set after the value was written.
    READY.load(Acquire).then(|| unsafe { (*MACHINE.0.get()).assume_init_ref() })
}

/// The machine. Code that runs on cores other than the boot core, or in traps, comes after it was described.
fn machine() -> &'static TheMachine {
    match try_machine() {
        Some(machine) => machine,
        None => panic!("trap before the machine is described"),
    }
}

impl TheMachine {
    /// Called once, by the boot core.
    fn set(machine: Self) -> &'static Self {
        // SAFETY: nobody reads it before `READY`.
        unsafe { (*MACHINE.0.get()).write(machine) };
        READY.store(true, Release);
        crate::machine()
    }

    /// What a timer interrupt means: the APIC timer has a limited range and another clock than the TSC, so it may fire
    /// before the deadline and is then set again.
    fn timer_expired(&self) -> Interrupts {
        let deadline_ns = Core::current().deadline_ns.load(Relaxed);
        if self.clock.now_ns() >= deadline_ns {
            return Interrupts::TIMER;
        }
        self.set_timer(deadline_ns);
        Interrupts::default()
    }

    fn ring_peer(&self, peer: u32, vector: usize) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring(peer, vector);
        }
    }

    /// Local physical address of a frame.
    fn local_phys(&self, frame: Frame) -> u64 {
        self.ranges.local_phys(frame.addr().0)
    }
}

impl Machine for TheMachine {
    const ISA: Isa = Isa::X86_64;

    #[inline(always)]
    fn core(&self) -> CoreId {
        Core::current().id()
    }

    #[inline(always)]
    fn island(&self) -> IslandId {
        self.island
    }

    #[inline(always)]
    fn pool(&self) -> Pool {
        self.pool
    }

    fn windows(&self) -> Windows {
        self.windows
    }

    fn command_line(&self) -> &str {
        self.command_line.as_str()
    }

    fn log(&self, bytes: &[u8]) {
        serial::write(bytes);
    }

    #[inline(always)]
    fn run_user(&self, frame: &'static UserFrame) -> Trap {
        trap::run_user(frame)
    }

    fn save_ext(&self, frame: &'static UserFrame) -> bool {
        extended::save(frame);
        true
    }

    fn save_kept_ext(&self, frame: &'static UserFrame) {
        extended::save_kept(frame);
    }

    fn load_ext(&self, frame: &'static UserFrame) {
        extended::load(frame);
    }

    fn vector_bytes(&self) -> u32 {
        Core::current().vector_bytes.load(Relaxed)
    }

    fn withhold_vectors(&self) {
        extended::withhold();
    }

    fn keep_vectors_open(&self) {
        extended::keep_open();
    }

    fn open_vectors(&self, frame: &'static UserFrame) {
        extended::open_vectors(frame);
    }

    fn close_vectors(&self, frame: &'static UserFrame) -> bool {
        extended::close_vectors(frame);
        true
    }

    fn are_vectors_open(&self) -> bool {
        extended::are_vectors_open()
    }

    fn prepare_root(&self, root: Frame) {
        let entries = self.pool.at::<[motet_layout::Cell64; 512]>(root.addr());
        for slot in paging::KERNEL_SLOTS {
            entries[slot].set(self.map.root_entry(slot));
        }
    }

    #[inline]
    fn activate_space(&self, root: Frame) {
        let phys = if root.is_none() { self.map.root() } else { self.local_phys(root) };
        // SAFETY: the kernel half is the same in the kernel's own root and in every prepared one.
        unsafe { asm!("mov cr3, {}", in(reg) phys, options(nostack, preserves_flags)) };
    }

    #[inline]
    fn flush_page(&self, address: u64) {
        tlb::flush(VirtAddr::new_truncate(address));
    }

    #[inline]
    fn flush_user(&self) {
        tlb::flush_all(); // kernel translations are global and stay
    }

    fn sync_instructions(&self, frame: Frame) {
        // Instruction fetch is coherent on x86; this is for TCG's translations, which only this process's stores drop.
        // A locked operation that adds nothing cannot lose a store that another island makes at the same time.
        for word in self.pool.at::<[AtomicU64; PAGE_SIZE as usize / 8]>(frame.addr()) {
            // SAFETY: an aligned word of the pool.
            unsafe {
                asm!("lock add qword ptr [{}], 0", in(reg) core::ptr::from_ref(word), options(nostack));
            }
        }
    }

    #[inline(always)]
    fn page_table_fence(&self) {
        compiler_fence(SeqCst); // stores are ordered, and absent entries are never cached
    }

    #[inline(always)]
    fn counter_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn steer_counter(&self) {
        self.clock.steer();
    }

    fn mark<const MARK: u8>() {
        // SAFETY: a no-op.
        unsafe {
            asm!(".byte 0x0f, 0x1f, 0x80", ".4byte {displacement}", displacement = const marks::x86_64(MARK), options(nostack, preserves_flags))
        };
    }

    fn set_timer(&self, deadline_ns: u64) {
        Core::current().deadline_ns.store(deadline_ns, Relaxed);
        apic::start_timer(match deadline_ns {
            u64::MAX => 0,
            _ => self.clock.timer_ticks(deadline_ns.saturating_sub(self.clock.now_ns())),
        });
    }

    fn ring(&self, target: CoreId) {
        compiler_fence(SeqCst); // the processor does not reorder stores with the uncached one that rings
        if target.island() == self.island {
            apic::send_doorbell(target.index_in_island());
        } else {
            let record = &self.pool.header().islands[self.island.index()];
            self.ring_peer(record.doorbell_peers[target.island().index()].get(), target.index_in_island());
        }
    }

    fn ring_host(&self) {
        compiler_fence(SeqCst);
        self.ring_peer(self.pool.header().host_peer.get(), 0);
    }

    fn wait_for_interrupt(&self) -> Interrupts {
        // SAFETY: interrupts are taken after `hlt` has begun at the earliest, so none is missed; the handler only
        // remembers them, and changes rax.
        unsafe { asm!("sti", "hlt", "cli", out("rax") _, options(nostack)) };
        Core::current().take_pending()
    }

    fn poll_interrupts(&self) -> Interrupts {
        // SAFETY: pending interrupts are taken after the first `nop`; the handler only remembers them, and changes rax.
        unsafe { asm!("sti", "nop", "nop", "cli", out("rax") _, options(nostack)) };
        Core::current().take_pending()
    }

    fn visible(&self) -> [u64; VISIBLE_WORDS] {
        let bit = |feature: cpuid::Feature, bit| if feature.present() { bit } else { 0 };
        let mut visible = [0; VISIBLE_WORDS];
        visible[words::DECODED] = bit(cpuid::LZCNT, words::LZCNT) | bit(cpuid::TZCNT, words::TZCNT);
        visible
    }

    #[inline]
    fn hide(&self, words: u32) {
        if words & 1 << words::COUNTERS != 0 {
            core_block::hide_counters();
        }
    }

    #[inline(always)]
    fn hide_counters(&self) {
        core_block::hide_counters();
    }

    fn relax(&self) {
        core::hint::spin_loop();
    }

    fn start_core(&self, index: usize) -> Result<(), &'static str> {
        if index >= self.cores { Err("no such core") } else { boot::start_core(machine(), index) }
    }

    fn extensions(&self) -> &str {
        self.extensions.as_str()
    }

    fn take_network(&self) -> Option<Network> {
        self.network.as_ref()?.take()
    }

    fn send_frame(&self, frame: &[u8]) -> bool {
        self.network.as_ref().is_some_and(|nic| nic.device.send(frame))
    }

    fn receive_frame(&self, buffer: &mut [u8]) -> Option<usize> {
        self.network.as_ref()?.device.receive(buffer)
    }

    fn park(&self) -> ! {
        boot::halt()
    }
}
