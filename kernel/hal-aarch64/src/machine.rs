//! The machine: [`Machine`] on AArch64.

use core::{arch::asm, sync::atomic::Ordering};

use motet_hal::ivshmem::Ivshmem;
use motet_hal::pool_map::PoolMap;
use motet_hal::registers::Registers;
use motet_hal::{Access, GuestException, Interrupts, Machine, Network, Stage2, Trap};
use motet_layout::{
    CoreId, DEVICE_VA, Frame, GuestSystem, Isa, PAGE_SIZE, Pool, UserFrame, VECTORS_AARCH64, VISIBLE_WORDS, Windows,
    marks, visible_words as words,
};

use crate::console;
use crate::cpu::{self, CORES, INTERRUPTED, PerCore, barrier, read_register, write_register};
use crate::extended;
use crate::features::Features;
use crate::gic::Gic;
use crate::guest;
use crate::memory::{empty_root, image_phys};
use crate::nic::Nic;

/// This island. One value, made by the boot core; constant afterwards.
pub struct AArch64 {
    pub(crate) gic: Gic,
    pub(crate) doorbell: Option<Ivshmem>,
    pub(crate) network: Option<Nic>,
    pub(crate) cores: usize,
    pub(crate) pool: Pool,
    pub(crate) windows: Windows,
    pub(crate) pool_map: PoolMap,
    pub(crate) clock: Clock,
    pub(crate) command_line: &'static str,
    pub(crate) features: Features,
    pub(crate) guests: Option<Stage2>,
}

/// Conversion between counter ticks and nanoseconds, both as 32.32 fixed-point factors.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    ns_per_tick: u64,
    ticks_per_ns: u64,
}

impl Clock {
    pub(crate) fn detect() -> Self {
        let hertz = read_register!("cntfrq_el0").max(1);
        Self { ns_per_tick: (1_000_000_000 << 32) / hertz, ticks_per_ns: (hertz << 32).div_ceil(1_000_000_000) }
    }

    #[inline]
    pub(crate) fn ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32) as u64
    }

    /// The first tick at or after `ns` (up to 2^-32 of the time late).
    #[inline]
    pub(crate) fn ticks(self, ns: u64) -> u64 {
        let ticks = ((u128::from(ns) * u128::from(self.ticks_per_ns)) >> 32) + 1;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// Registers of the device at a physical address below 512 GiB.
pub(crate) fn device(phys: u64) -> Registers {
    // SAFETY: the kernel half maps everything that is not RAM at DEVICE_VA, uncached.
    unsafe { Registers::new((DEVICE_VA + phys) as usize) }
}

/// Stops this core for good.
pub(crate) fn stop_core() -> ! {
    Gic::stop_core();
    write_register!("cntv_ctl_el0", 0);
    cpu::psci_cpu_off();
    loop {
        barrier!("wfi");
    }
}

impl AArch64 {
    /// Local physical address of a frame.
    #[inline]
    pub(crate) fn local_phys(&self, frame: Frame) -> u64 {
        self.pool_map.local_phys(frame.addr().0)
    }

    /// Sends a doorbell message to a peer; nothing happens when there is no doorbell device.
    #[inline]
    fn ring_peer(&self, peer: u32, vector: usize) {
        if let Some(doorbell) = &self.doorbell {
            barrier!("dsb st");
            doorbell.ring(peer, vector);
        }
    }

    /// [`Machine::hide`], once on each core. Where blocks differ, DCZID_EL0 says that programs may not zero any, and `DC ZVA` traps.
    #[cold]
    fn hide_words(&self, words: u32) {
        const ZERO_BLOCKS: u64 = 1 << 14; // SCTLR_EL1.DZE
        const READ_CACHE_TYPE: u64 = 1 << 15; // UCT
        let has = |word: usize| words & 1 << word != 0;
        let taken = [(words::ZEROED_BLOCK, ZERO_BLOCKS), (words::CACHE_TYPE, READ_CACHE_TYPE)];
        let taken = taken.into_iter().filter(|&(word, _)| has(word)).fold(0, |bits, (_, bit)| bits | bit);
        write_register!("sctlr_el1", read_register!("sctlr_el1") & !taken);
        barrier!("isb");
        if has(words::FREQUENCY) {
            self.hide_counters();
        } else if has(words::COUNTERS) {
            cpu::hide_counters_of_programs();
        }
    }

    /// What an exception other than a system call is (ARM DDI 0487, ESR_EL1).
    #[inline(always)]
    fn decode(&self, syndrome: u64, frame: &UserFrame) -> Trap {
        if syndrome == INTERRUPTED {
            return Trap::Interrupt(self.gic.acknowledge());
        }
        let address = cpu::untagged(read_register!("far_el1"));
        match syndrome >> 26 & 0x3f {
            0x20 => abort(syndrome, address, Access::Execute),
            0x24 => {
                let (is_write, is_maintenance) = (syndrome & 1 << 6 != 0, syndrome & 1 << 8 != 0);
                abort(syndrome, address, if is_write && !is_maintenance { Access::Write } else { Access::Read })
            }
            0x22 => Trap::Misaligned { address },
            0x26 => Trap::Misaligned { address: frame.regs[31].get() },
            0x2c => Trap::Arithmetic,
            0x30 | 0x32 | 0x34 | 0x3c => Trap::Breakpoint,
            _ => Trap::IllegalInstruction { word: 0 },
        }
    }
}

/// An instruction or data abort, by its fault status code.
const fn abort(syndrome: u64, address: u64, access: Access) -> Trap {
    match syndrome & 0x3f {
        0x04..=0x0f => Trap::PageFault { address, access }, // translation, access flag, permission
        0x21 => Trap::Misaligned { address },
        _ => Trap::BadAddress { address }, // address size, external, TLB conflict, unsupported atomic
    }
}

impl Machine for AArch64 {
    const ISA: Isa = Isa::AArch64;

    #[inline(always)]
    fn core(&self) -> CoreId {
        PerCore::this().core_id()
    }

    #[inline(always)]
    fn pool(&self) -> Pool {
        self.pool
    }

    fn windows(&self) -> Windows {
        self.windows
    }

    fn command_line(&self) -> &str {
        self.command_line
    }

    fn log(&self, bytes: &[u8]) {
        console::write(bytes);
    }

    #[inline(always)]
    fn run_user(&self, frame: &'static UserFrame) -> Trap {
        const SUPERVISOR_CALL: u64 = 0x15;
        let syndrome = cpu::enter_user(frame);
        if syndrome >> 26 != SUPERVISOR_CALL {
            return self.decode(syndrome, frame);
        }
        if extended::are_vectors_open() {
            extended::drop_vectors(frame);
        }
        Trap::Syscall
    }

    fn serve_stores<R>(&self, serve: impl Fn(&'static UserFrame, u64) -> bool, run: impl FnOnce() -> R) -> R {
        cpu::serve_stores(serve, run)
    }

    fn guest_format(&self) -> Option<Stage2> {
        self.guests
    }

    fn run_guest(&self, frame: &'static UserFrame, system: &'static GuestSystem, root: Frame) -> Trap {
        guest::run(self, frame, system, root)
    }

    fn flush_guests(&self) {
        guest::flush();
    }

    fn raise_in_guest(&self, frame: &'static UserFrame, system: &'static GuestSystem, exception: GuestException) {
        guest::raise(frame, system, exception);
    }

    fn hides_guest_time(&self) -> bool {
        guest::can_hide_time()
    }

    fn guest_ticks(&self, ns: u64) -> u64 {
        self.clock.ticks(ns)
    }

    fn guest_ticks_ns(&self, ticks: u64) -> u64 {
        self.clock.ns(ticks)
    }

    fn guest_timer_ns(&self, system: &'static GuestSystem) -> u64 {
        guest::timer_ns(self, system)
    }

    fn has_guest_timer_fired(&self, system: &'static GuestSystem) -> bool {
        guest::has_timer_fired(system)
    }

    fn set_guest_clock(&self, system: &'static GuestSystem, offset_ns: u64) {
        guest::set_clock(self, system, offset_ns);
    }

    fn save_ext(&self, frame: &'static UserFrame) -> bool {
        extended::save(self, frame);
        true
    }

    fn save_kept_ext(&self, frame: &'static UserFrame) {
        if frame.ext_valid.get() == 1 { cpu::save_kept_ext(frame) } else { extended::save(self, frame) }
    }

    fn load_ext(&self, frame: &'static UserFrame) {
        extended::load(self, frame);
    }

    fn vector_bytes(&self) -> u32 {
        PerCore::this().vector_bytes.load(Ordering::Relaxed)
    }

    fn vector_format(&self) -> u32 {
        VECTORS_AARCH64
    }

    fn withhold_vectors(&self) {
        extended::withhold();
    }

    fn open_vectors(&self, frame: &'static UserFrame) {
        extended::open_vectors(self, frame);
    }

    fn close_vectors(&self, frame: &'static UserFrame) -> bool {
        extended::close_vectors(self, frame);
        true
    }

    fn must_have_vectors(&self, frame: &'static UserFrame) -> bool {
        extended::has_upper_bits(self, frame)
    }

    fn are_vectors_open(&self) -> bool {
        extended::are_vectors_open()
    }

    fn prepare_root(&self, _root: Frame) {
        // The kernel half is in TTBR1.
    }

    #[inline]
    fn activate_space(&self, root: Frame) {
        cpu::set_user_root(if root.is_none() { empty_root() } else { self.local_phys(root) });
    }

    #[inline]
    fn flush_page(&self, address: u64) {
        cpu::flush_page(address);
    }

    #[inline]
    fn flush_user(&self) {
        barrier!("dsb ishst"; "tlbi aside1, xzr"; "dsb nsh"; "isb");
    }

    fn sync_instructions(&self, frame: Frame) {
        cpu::rewrite_frame(self.pool.bytes(frame.addr(), PAGE_SIZE as usize));
    }

    fn zero_frame(&self, frame: Frame) {
        cpu::zero_frame(self.pool.bytes(frame.addr(), PAGE_SIZE as usize));
    }

    #[inline]
    fn page_table_fence(&self) {
        barrier!("dsb ishst"; "isb");
    }

    #[inline]
    fn counter_ns(&self) -> u64 {
        barrier!("isb"); // the counter may otherwise be read ahead of earlier instructions
        self.clock.ns(read_register!("cntvct_el0"))
    }

    fn mark<const MARK: u8>() {
        // SAFETY: a no-op.
        unsafe { asm!(".inst {word}", word = const marks::aarch64(MARK), options(nostack, preserves_flags)) };
    }

    #[inline]
    fn set_timer(&self, deadline_ns: u64) {
        if deadline_ns == u64::MAX {
            write_register!("cntv_ctl_el0", 0);
        } else {
            write_register!("cntv_cval_el0", self.clock.ticks(deadline_ns));
            write_register!("cntv_ctl_el0", 1);
        }
    }

    #[inline]
    fn ring(&self, target: CoreId) {
        if target.island() == self.island() {
            barrier!("dsb st");
            Gic::ring(CORES[target.index_in_island()].affinity.load(Ordering::Relaxed));
        } else {
            let peer = self.pool.header().islands[self.island().index()].doorbell_peers[target.island().index()].get();
            self.ring_peer(peer, target.index_in_island());
        }
    }

    fn ring_host(&self) {
        self.ring_peer(self.pool.header().host_peer.get(), 0);
    }

    #[inline]
    fn wait_for_interrupt(&self) -> Interrupts {
        barrier!("dsb sy"; "wfi"); // a pending interrupt ends it even though it is masked
        self.gic.acknowledge()
    }

    #[inline]
    fn poll_interrupts(&self) -> Interrupts {
        // Asking the core first is cheaper than asking the interrupt controller.
        if read_register!("isr_el1") == 0 { Interrupts::EMPTY } else { self.gic.acknowledge() }
    }

    #[inline]
    fn hide_counters(&self) {
        cpu::hide_counters(if self.guests.is_some() { guest::HIDDEN_TIME } else { 0 });
    }

    fn visible(&self) -> [u64; VISIBLE_WORDS] {
        let mut visible = [0; VISIBLE_WORDS];
        visible[words::CACHE_TYPE] = read_register!("ctr_el0");
        // Without DZP, which says whether programs may zero blocks.
        visible[words::ZEROED_BLOCK] = read_register!("dczid_el0") & 0xf;
        visible[words::FREQUENCY] = read_register!("cntfrq_el0");
        visible
    }

    fn hide(&self, words: u32) {
        if !PerCore::this().hides.swap(true, Ordering::Relaxed) {
            self.hide_words(words);
        }
    }

    fn relax(&self) {
        barrier!("yield");
    }

    fn start_core(&self, index: usize) -> Result<(), &'static str> {
        unsafe extern "C" {
            fn motet_secondary();
        }
        if index == 0 || index >= self.cores {
            return Err("this island has no such core");
        }
        let affinity = CORES[index].affinity.load(Ordering::Relaxed);
        let entry = image_phys(motet_secondary as *const () as u64);
        barrier!("dsb sy");
        match cpu::psci_cpu_on(affinity, entry, index as u64) {
            0 => Ok(()),
            -2 => Err("PSCI: no such core"),
            -4 => Err("PSCI: the core is on already"),
            _ => Err("PSCI: the core does not start"),
        }
    }

    fn extensions(&self) -> &str {
        self.features.as_str()
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
        stop_core()
    }
}
