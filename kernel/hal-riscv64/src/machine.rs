//! The machine as the kernel sees it.

use core::{
    arch::asm,
    cell::UnsafeCell,
    mem::MaybeUninit,
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use motet_hal::{
    GuestException, GuestInterrupts, Interrupts, Machine, Network, ServeTraps, Stage2, Trap, Unsent, ivshmem::Ivshmem,
    pool_map::PoolMap,
};
use motet_layout::{
    CoreId, Frame, GuestSystem, Isa, IslandId, PAGE_SIZE, Pool, PoolSafe, UserFrame, VECTORS_RISCV64, VISIBLE_WORDS,
    Windows, is_vector_length, marks, sync::AtomicU32, visible_words as words,
};

use crate::{
    boot,
    console::{self, log_line},
    csr::{self, read_csr, write_csr},
    devices, extended, guest, hidden,
    interrupts::{self, Clock},
    memory::{FrameSource, KERNEL_SLOTS},
    nic::Nic,
    panic,
    per_core::{PER_CORE, PerCore},
    platform::Platform,
    sbi, trap,
};

/// The machine under a RISC-V island's kernel. Fixed once the kernel runs.
#[derive(Debug)]
pub struct TheMachine {
    pub(crate) platform: Platform,
    pub(crate) clock: Clock,
    island: IslandId,
    core_count: usize,
    pool: Pool,
    windows: Windows,
    pool_map: PoolMap,
    kernel_entries: [u64; KERNEL_SLOTS.len()],
    kernel_satp: u64,
    /// Whether new page-table entries are seen without a fence (Svvptc).
    sees_new_entries: bool,
    doorbell: Option<Ivshmem>,
    network: Option<Nic>,
}

/// What boot found out and built.
pub struct Parts {
    pub platform: Platform,
    pub clock: Clock,
    pub island: IslandId,
    pub core_count: usize,
    pub pool: Pool,
    pub windows: Windows,
    pub pool_map: PoolMap,
    pub kernel_entries: [u64; KERNEL_SLOTS.len()],
    pub kernel_satp: u64,
    /// Private memory that is free still.
    pub frames: FrameSource,
}

struct Slot(UnsafeCell<MaybeUninit<TheMachine>>);

// SAFETY: written once by the boot core before `READY`, then only read.
unsafe impl Sync for Slot {}

static MACHINE: Slot = Slot(UnsafeCell::new(MaybeUninit::uninit()));
static READY: AtomicBool = AtomicBool::new(false);

impl TheMachine {
    /// Makes the machine. Called once, by the boot core.
    pub(crate) fn install(parts: Parts) -> &'static Self {
        let Parts { platform, clock, island, core_count, pool, windows, pool_map, kernel_entries, kernel_satp, frames } =
            parts;
        let sees_new_entries = platform.harts().iter().all(|hart| hart.has("svvptc"));
        let (doorbell, network) = devices::find(&platform, core_count, frames);
        let machine = Self {
            platform,
            clock,
            island,
            core_count,
            pool,
            windows,
            pool_map,
            kernel_entries,
            kernel_satp,
            sees_new_entries,
            doorbell,
            network,
        };
        // SAFETY: no reference exists yet (`READY` is false), and only the boot core runs.
        let machine = unsafe { (*MACHINE.0.get()).write(machine) };
        READY.store(true, Release);
        machine
    }

    /// The machine, once it is made.
    pub(crate) fn get() -> Option<&'static Self> {
        // SAFETY: initialised before `READY` was set, and not written since.
        READY.load(Acquire).then(|| unsafe { (*MACHINE.0.get()).assume_init_ref() })
    }

    /// Readies the core that executes the call for user code and interrupts.
    pub(crate) fn init_core(&self) {
        let hart = &self.platform.harts()[self.core().index_in_island()];
        boot::init_user_mode(hart.has("zicboz"));
        if hart.has_vector() {
            let bytes = extended::vector_bytes();
            if is_vector_length(bytes as usize) {
                PerCore::this().vector_bytes.store(bytes, Relaxed);
            } else {
                log_line!("threads have no area for vector registers of {} bits: vectors stay off", bytes * 8);
            }
        }
        hidden::init();
        guest::init(self);
        interrupts::init_core(&self.clock);
    }

    /// Whether the island has a network device.
    #[inline(always)]
    pub(crate) const fn has_network(&self) -> bool {
        self.network.is_some()
    }

    pub(crate) fn local_phys(&self, frame: Frame) -> u64 {
        self.pool_map.local_phys(frame.addr().0)
    }

    /// The physical address of an object that lies in the pool.
    pub fn phys_in_pool<T: PoolSafe>(&self, object: &'static T) -> u64 {
        self.pool_map.local_phys(self.pool.addr_of(object).0)
    }
}

impl Machine for TheMachine {
    const ISA: Isa = Isa::RiscV64;

    #[inline(always)]
    fn core(&self) -> CoreId {
        PerCore::this().core()
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
        self.platform.command_line
    }

    fn log(&self, bytes: &[u8]) {
        console::write(bytes);
    }

    #[inline(always)]
    fn run_user(&self, frame: &'static UserFrame) -> Trap {
        trap::run_user(self, frame)
    }

    fn guest_format(&self) -> Option<Stage2> {
        guest::format()
    }

    fn run_guest(&self, frame: &'static UserFrame, system: &'static GuestSystem, root: Frame) -> Trap {
        guest::run(self, frame, system, root, |_: Trap| false)
    }

    #[inline(always)]
    fn run_guest_with(
        &self,
        frame: &'static UserFrame,
        system: &'static GuestSystem,
        root: Frame,
        serve: impl ServeTraps,
    ) -> Trap {
        guest::run(self, frame, system, root, serve)
    }

    fn widen_guest_page(&self, system: &'static GuestSystem, address: u64) {
        guest::widen_page(system, address);
    }

    fn flush_guests(&self) {
        guest::flush();
    }

    #[inline(always)]
    fn set_guest_clock(&self, system: &'static GuestSystem, offset_ns: u64) {
        guest::set_clock(self, system, offset_ns);
    }

    fn guest_interrupts(&self, system: &'static GuestSystem) -> GuestInterrupts {
        guest::interrupts(system)
    }

    fn set_guest_interrupts(&self, system: &'static GuestSystem, interrupts: GuestInterrupts) {
        guest::set_interrupts(system, interrupts);
    }

    fn is_guest_interrupted(&self, system: &'static GuestSystem) -> bool {
        guest::is_interrupted(system)
    }

    fn raise_in_guest(&self, frame: &'static UserFrame, system: &'static GuestSystem, exception: GuestException) {
        guest::raise(frame, system, exception);
    }

    fn save_ext(&self, frame: &'static UserFrame) -> bool {
        extended::save(self, frame)
    }

    fn load_ext(&self, frame: &'static UserFrame) {
        extended::load(frame);
    }

    fn lend_ext(&self, guest: &'static UserFrame, system: &'static GuestSystem) -> bool {
        extended::lend(guest, system);
        true
    }

    fn take_back_ext(&self, guest: &'static UserFrame, frame: &'static UserFrame) {
        extended::take_back(guest, frame);
    }

    fn withhold_ext(&self, frame: &'static UserFrame) -> bool {
        extended::withhold(frame);
        true
    }

    fn get_ext(&self, frame: &'static UserFrame) -> bool {
        extended::get(frame)
    }

    fn set_ext_aside(&self) -> bool {
        extended::set_aside();
        true
    }

    fn bring_ext_back(&self) {
        extended::bring_back();
    }

    fn vector_bytes(&self) -> u32 {
        PerCore::this().vector_bytes.load(Relaxed) as u32
    }

    fn vector_format(&self) -> u32 {
        VECTORS_RISCV64
    }

    fn withhold_vectors(&self) {
        PerCore::this().vector_bytes.store(0, Relaxed);
    }

    fn open_vectors(&self, frame: &'static UserFrame) {
        extended::open_vectors(self, frame);
    }

    fn close_vectors(&self, frame: &'static UserFrame) -> bool {
        extended::close_vectors(self, frame)
    }

    fn discard_vectors(&self, frame: &'static UserFrame) -> bool {
        extended::discard_vectors(frame);
        false
    }

    fn keep_ext(&self, frame: &'static UserFrame) {
        extended::keep(frame);
    }

    fn are_vectors_open(&self) -> bool {
        extended::are_vectors_open()
    }

    fn are_vectors_modified(&self) -> bool {
        extended::are_vectors_modified()
    }

    fn hidden_harts(&self) -> usize {
        hidden::harts()
    }

    fn hidden_vector_bytes(&self) -> usize {
        hidden::vector_bytes()
    }

    fn send_away(&self, frame: &'static UserFrame, stamp: &'static AtomicU32, root: Frame) -> Result<usize, Unsent> {
        hidden::send_away(self, frame, stamp, csr::satp(self.local_phys(root)))
    }

    fn at_home(&self) -> u64 {
        hidden::at_home()
    }

    fn call_home(&self, place: usize) {
        hidden::call_home(place);
    }

    fn bring_home(&self) {
        hidden::bring_home();
    }

    fn take_home(&self, place: usize, frame: &'static UserFrame) -> Trap {
        hidden::take_home(self, place, frame)
    }

    fn employ_hidden(&self, number: usize, employed: bool) -> bool {
        hidden::employ(number, employed)
    }

    fn is_any_waiting(&self) -> bool {
        hidden::is_any_waiting()
    }

    fn prepare_root(&self, root: Frame) {
        let table = self.pool.bytes(root.addr(), PAGE_SIZE as usize).cast::<u64>();
        for (slot, entry) in KERNEL_SLOTS.into_iter().zip(self.kernel_entries) {
            // SAFETY: `bytes` checked the range; the caller owns the fresh frame.
            unsafe { table.add(slot).write(entry) };
        }
    }

    fn activate_space(&self, root: Frame) {
        let satp = if root.is_none() { self.kernel_satp } else { csr::satp(self.local_phys(root)) };
        // SAFETY: every root has the kernel half (`prepare_root`). ASID 0 spares the global entries, which never change;
        // the fence comes after, so that no translation of the old root that is made in between survives.
        unsafe { asm!("csrw satp, {}", "sfence.vma zero, {}", in(reg) satp, in(reg) 0, options(nostack)) };
    }

    fn flush_page(&self, address: u64) {
        // SAFETY: only drops cached translations.
        unsafe { asm!("sfence.vma {}, {}", in(reg) address, in(reg) 0, options(nostack)) };
    }

    fn flush_user(&self) {
        // SAFETY: only drops cached translations.
        unsafe { asm!("sfence.vma zero, {}", in(reg) 0, options(nostack)) };
    }

    /// Other cores of the island need no FENCE.I of their own: QEMU drops translated code for all cores of its process
    /// when one of them stores to it.
    fn sync_instructions(&self, frame: Frame) {
        let bytes = self.pool.bytes(frame.addr(), PAGE_SIZE as usize);
        // SAFETY: the frame's bytes (checked). An atomic addition of zero changes nothing and loses no store that another
        // island makes meanwhile. The first fence orders before the loads whatever told this core of the code.
        unsafe {
            asm!(
                "fence rw, rw",
                "2: amoadd.d zero, zero, ({at})",
                "addi {at}, {at}, 8",
                "bne {at}, {end}, 2b",
                "fence.i",
                at = inout(reg) bytes => _,
                end = in(reg) bytes.add(PAGE_SIZE as usize),
                options(nostack)
            );
        }
    }

    /// By 32 words a round: the compiler's `memset` takes three times as many instructions.
    fn zero_frame(&self, frame: Frame) {
        let bytes = self.pool.bytes(frame.addr(), PAGE_SIZE as usize);
        // SAFETY: the frame's bytes (checked).
        unsafe {
            asm!(
                "2:",
                ".set word, 0",
                ".rept 32",
                "sd zero, word({at})",
                ".set word, word + 8",
                ".endr",
                "addi {at}, {at}, 256",
                "bne {at}, {end}, 2b",
                at = inout(reg) bytes => _,
                end = in(reg) bytes.add(PAGE_SIZE as usize),
                options(nostack)
            );
        }
    }

    fn page_table_fence(&self) {
        if self.sees_new_entries {
            // An entry that became valid is seen soon; until then the access faults again, which the kernel must
            // expect anyway. Entries that were valid before are the business of `flush_page`.
            // SAFETY: only orders.
            unsafe { asm!("fence w, rw", options(nostack)) };
        } else {
            self.flush_user();
        }
    }

    #[inline(always)]
    fn counter_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn mark<const MARK: u8>() {
        // SAFETY: a no-op.
        unsafe { asm!(".4byte {word}", word = const marks::riscv64(MARK), options(nostack, preserves_flags)) };
    }

    fn set_timer(&self, deadline_ns: u64) {
        self.clock.arm(deadline_ns);
    }

    fn ring(&self, target: CoreId) {
        let index = target.index_in_island();
        if target.island() == self.island {
            if let Some(hart) = self.platform.harts().get(index) {
                interrupts::send(hart.imsic);
            }
        } else if let Some(doorbell) = &self.doorbell {
            let peer = self.pool.header().islands[self.island().index()].doorbell_peers[target.island().index()].get();
            order_before_devices();
            doorbell.ring(peer, index);
        }
    }

    fn ring_host(&self) {
        if let Some(doorbell) = &self.doorbell {
            order_before_devices();
            doorbell.ring(self.pool.header().host_peer.get(), 0);
        }
    }

    fn wait_for_interrupt(&self) -> Interrupts {
        interrupts::wait(self)
    }

    fn poll_interrupts(&self) -> Interrupts {
        interrupts::take(self)
    }

    fn visible(&self) -> [u64; VISIBLE_WORDS] {
        let mut visible = [0; VISIBLE_WORDS];
        visible[words::ZEROED_BLOCK] = self.platform.zeroed_block;
        visible
    }

    fn hide(&self, words: u32) {
        // OpenSBI would answer reads of `time` with this island's, though slower; nobody would those of `instret`, which is no time.
        const TIME_INSTRET: u64 = 1 << 1 | 1 << 2;
        let readable = read_csr!("scounteren");
        if words & 1 << words::COUNTERS != 0 && readable & !TIME_INSTRET != 0 {
            // SAFETY: it concerns user mode only.
            unsafe { write_csr!("scounteren", readable & TIME_INSTRET) };
        }
    }

    fn hide_counters(&self) {
        // SAFETY: it concerns user mode only.
        unsafe { write_csr!("scounteren", 0) };
        guest::hide_counters();
    }

    fn relax(&self) {
        core::hint::spin_loop();
    }

    fn start_core(&self, index: usize) -> Result<(), &'static str> {
        if index == 0 || index >= self.core_count {
            return Err("the island has no such core");
        }
        let core = &PER_CORE[index];
        core.set_core(self.island, index);
        core.kernel_satp.store(self.kernel_satp, Relaxed);
        order_before_devices();
        sbi::hart_start(self.platform.harts()[index].id, boot::secondary_entry_phys(), boot::phys_of(core))
    }

    fn extensions(&self) -> &str {
        self.platform.harts()[self.core().index_in_island()].isa
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
        panic::park()
    }
}

/// Orders memory accesses before the device store that follows.
pub(crate) fn order_before_devices() {
    // SAFETY: only orders.
    unsafe { asm!("fence rw, ow", options(nostack)) };
}
