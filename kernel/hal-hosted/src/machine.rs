//! [`HostedMachine`]: the HAL of one hosted island.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use motet_hal::{Interrupts, Machine, Trap};
use motet_layout::sync::AtomicU64 as PoolWord;
use motet_layout::{
    CORES_PER_ISLAND_MAX, CoreId, Frame, Isa, IslandId, KERNEL_ROOT_SLOT, Pool, PoolAddr, SpaceRecord, UserFrame,
};
use motet_paging::Format;

use crate::baton::Point;
use crate::hart::{CodePage, Hart, Registers, snapshot};
use crate::world::{IslandConfig, Quiet, World};

thread_local! {
    static CORE: Cell<Option<(CoreId, &'static World)>> = const { Cell::new(None) };
}

/// Makes this thread a core.
pub fn become_core(core: CoreId, world: &'static World) {
    CORE.set(Some((core, world)));
}

/// The core this thread is, if any.
#[cfg(motet_model)]
pub fn this_core() -> Option<(CoreId, &'static World)> {
    CORE.get()
}

/// The machine under one hosted island's kernel.
pub struct HostedMachine {
    world: &'static World,
    island: IslandId,
    format: Format,
    command_line: String,
    extensions: String,
    harts: Vec<Mutex<Hart>>,
    /// Instructions by frame, as first fetched since the frame's last synchronisation.
    instructions: Mutex<HashMap<u32, CodePage>>,
    /// Bumped by every synchronisation.
    epoch: AtomicU64,
    log: Mutex<Vec<u8>>,
}

impl HostedMachine {
    pub(crate) fn new(world: &'static World, island: IslandId, config: &IslandConfig, mode: &str) -> Self {
        Self {
            world,
            island,
            format: Format::from_isa(config.paging).expect("a hosted island borrows a real ISA's page-table format"),
            command_line: format!("island={} pool=0x{:x} mode={mode}", island.0, config.local_base),
            extensions: config.extensions.clone(),
            harts: (0..config.cores).map(|_| Mutex::new(Hart::new())).collect(),
            instructions: Mutex::default(),
            epoch: AtomicU64::new(0),
            log: Mutex::default(),
        }
    }

    /// What this island's kernel has logged, taken away.
    pub(crate) fn take_log(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.log))
    }

    /// Drops the caches of an island whose run is over.
    pub(crate) fn clear(&self) {
        lock(&self.instructions).clear();
        for hart in &self.harts {
            *lock(hart) = Hart::new();
        }
    }

    pub(crate) fn island_index(&self) -> usize {
        self.island.index()
    }

    pub(crate) fn pool_map(&self) -> Pool {
        self.world.pool
    }

    pub(crate) fn pool_words(&self, frame: Frame) -> &'static [PoolWord; 512] {
        self.world.pool.page_words(frame.addr()).expect("a translated frame lies in the pool")
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn checks_stale(&self) -> bool {
        self.world.config.check_stale
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.world.now_ns() + self.counter_offset_ns()
    }

    /// Islands' counters start at different values, as real ones do.
    fn counter_offset_ns(&self) -> u64 {
        7_000_000_000 * (u64::from(self.island.0) + 1)
    }

    pub(crate) fn instruction_epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The frame's instructions as this island sees them.
    pub(crate) fn instructions(&self, frame: Frame) -> CodePage {
        let _quiet = Quiet::begin();
        lock(&self.instructions).entry(frame.0).or_insert_with(|| snapshot(self.pool_words(frame))).clone()
    }

    /// The space that the kernel says this core has active.
    pub(crate) fn active_space(&self) -> Option<&'static SpaceRecord> {
        let record = &self.world.pool.header().cores[self.core().index()];
        self.world.pool.get(PoolAddr(record.active_space.load(Ordering::Relaxed)))
    }

    fn hart(&self) -> MutexGuard<'_, Hart> {
        lock(&self.harts[self.core().index_in_island()])
    }

    fn point(&self, point: Point) {
        self.world.point(self.core(), point);
    }
}

impl Machine for HostedMachine {
    const ISA: Isa = Isa::Hosted;

    fn core(&self) -> CoreId {
        CORE.get().expect("the HAL is called on a core's thread").0
    }

    fn pool(&self) -> Pool {
        self.world.pool
    }

    fn command_line(&self) -> &str {
        &self.command_line
    }

    fn log(&self, bytes: &[u8]) {
        let mut log = lock(&self.log);
        log.extend_from_slice(bytes);
        if self.world.config.echo_log && bytes.ends_with(b"\n") {
            let line = log[..log.len() - 1].rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
            eprintln!("[{}] {}", self.island.0, String::from_utf8_lossy(line));
        }
    }

    fn run_user(&self, frame: &'static UserFrame) -> Trap {
        self.point(Point::Call);
        let mut regs = Registers::load(frame);
        let trap = loop {
            let interrupts = self.world.take_interrupts(self.core());
            if interrupts != Interrupts::default() {
                break Trap::Interrupt(interrupts);
            }
            let budget = self.world.user_budget();
            if let Some(trap) = self.hart().run(self, &mut regs, budget) {
                break trap;
            }
            self.point(Point::User(budget));
        };
        regs.store(frame);
        trap
    }

    fn save_ext(&self, frame: &'static UserFrame) {
        self.hart().save_ext(frame);
    }

    fn load_ext(&self, frame: &'static UserFrame) {
        self.hart().load_ext(frame);
    }

    fn prepare_root(&self, root: Frame) {
        // Nothing translates kernel addresses here; a mark shows tests that the kernel half was filled.
        self.pool_words(root)[KERNEL_ROOT_SLOT].store(1, Ordering::Relaxed);
    }

    fn activate_space(&self, root: Frame) {
        self.point(Point::Call);
        self.hart().activate(root);
    }

    fn flush_page(&self, address: u64) {
        self.point(Point::Call);
        self.hart().flush_page(address);
    }

    fn flush_user(&self) {
        self.point(Point::Call);
        self.hart().flush_all();
    }

    fn sync_instructions(&self, frame: Frame) {
        self.point(Point::Call);
        lock(&self.instructions).remove(&frame.0);
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    fn page_table_fence(&self) {
        self.point(Point::Call);
    }

    fn counter_ns(&self) -> u64 {
        self.now_ns()
    }

    fn set_timer(&self, deadline_ns: u64) {
        let deadline =
            if deadline_ns == u64::MAX { u64::MAX } else { deadline_ns.saturating_sub(self.counter_offset_ns()) };
        self.world.set_timer(self.core(), deadline);
    }

    fn ring(&self, target: CoreId) {
        self.world.ring(target);
        self.point(Point::Ring);
    }

    fn ring_host(&self) {
        self.world.ring_host();
        self.point(Point::Ring);
    }

    fn wait_for_interrupt(&self) -> Interrupts {
        self.world.wait(self.core());
        self.world.take_interrupts(self.core())
    }

    fn poll_interrupts(&self) -> Interrupts {
        self.point(Point::Call);
        self.world.take_interrupts(self.core())
    }

    fn relax(&self) {
        self.point(Point::Relax);
    }

    fn start_core(&self, index: usize) -> Result<(), &'static str> {
        if index == 0 || index >= self.harts.len().min(CORES_PER_ISLAND_MAX) {
            return Err("the island has no such core");
        }
        let started = self.world.start(CoreId::new(self.island, index));
        self.point(Point::Call);
        if started { Ok(()) } else { Err("the core runs already") }
    }

    fn extensions(&self) -> &str {
        &self.extensions
    }

    fn park(&self) -> ! {
        self.world.park(self.core())
    }
}

/// Locks, whatever happened to the previous holder (a core may have been unwound at the end of a run).
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
