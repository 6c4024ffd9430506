//! [`Hosted`]: the HAL of one hosted island.
//!
//! A hosted island says it has one of the real ISAs, or [`Isa::Hosted`]. Its user code is the interpreter's either way;
//! what differs is what the kernel sees: the register frame's numbering, system-call numbers and structures, page-table
//! format, `e_machine`. So several hosted islands are as foreign to each other as real ones.

use std::cell::Cell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use motet_abi::gate::Gate;
use motet_abi::migration::Handler;
use motet_hal::{Access, Interrupts, Machine, Network, Trap, Unsent};
use motet_layout::sync::{AtomicU32, AtomicU64 as PoolWord};
use motet_layout::{
    CORES_PER_ISLAND_MAX, CoreId, Frame, Isa, IslandId, KERNEL_ROOT_SLOT, Pool, PoolAddr, SpaceRecord, UserFrame,
    VECTORS_RISCV64, Windows,
};
use motet_paging::Format;

use crate::baton::Point;
use crate::config::{Counter, Defect, IslandConfig};
use crate::gate;
use crate::hart::{CodePage, Hart, Registers, snapshot};
use crate::hidden::{self, Trips};
use crate::isa::INSTRUCTION_SIZE;
use crate::migration;
use crate::world::{Quiet, World};

thread_local! {
    static CORE: Cell<Option<(CoreId, &'static World)>> = const { Cell::new(None) };
}

/// This thread is a core from now on.
pub fn become_core(core: CoreId, world: &'static World) {
    CORE.set(Some((core, world)));
}

/// This thread is no core any more; which one it was.
pub fn leave_core() -> Option<(CoreId, &'static World)> {
    CORE.take()
}

/// The core this thread is, if any.
pub fn this_core() -> Option<(CoreId, &'static World)> {
    CORE.get()
}

/// The ISA a hosted island says it has.
pub trait Flavour: Send + Sync + 'static {
    /// That ISA.
    const ISA: Isa;
}

macro_rules! flavours {
    ($($name:ident)*) => { $(
        /// A hosted island that passes for one of this ISA.
        pub struct $name;
        impl Flavour for $name {
            const ISA: Isa = Isa::$name;
        }
    )* };
}
flavours! { X86_64 AArch64 RiscV64 }

/// A hosted island that says what it is.
pub struct Plain;

impl Flavour for Plain {
    const ISA: Isa = Isa::Hosted;
}

/// The machine under one hosted island's kernel.
pub struct Hosted<F: Flavour> {
    island: &'static Island,
    flavour: PhantomData<F>,
}

/// The machine under a hosted island of its own ISA.
pub type HostedMachine = Hosted<Plain>;

impl<F: Flavour> Hosted<F> {
    pub(crate) fn leak(island: &'static Island) -> &'static Self {
        Box::leak(Box::new(Self { island, flavour: PhantomData }))
    }
}

/// One island, whatever ISA it says it has.
pub struct Island {
    pub isa: Isa,
    world: &'static World,
    island: IslandId,
    /// Its number in its kernel's pool.
    own: IslandId,
    format: Format,
    command_line: String,
    extensions: String,
    vector_bytes: u32,
    pub hidden_vector_bytes: u32,
    /// Harts from here on are hidden.
    cores: usize,
    counter: Counter,
    harts: Vec<Mutex<Hart>>,
    pub trips: Trips,
    /// Instructions by frame, as first fetched since the frame's last synchronisation.
    instructions: Mutex<HashMap<u32, CodePage>>,
    /// Bumped by every synchronisation.
    epoch: AtomicU64,
    log: Mutex<Vec<u8>>,
}

impl Island {
    pub(crate) fn new(world: &'static World, island: IslandId, config: &IslandConfig, mode: &str) -> Self {
        let own = world.kernels.own_island(island);
        Self {
            isa: config.isa,
            world,
            island,
            own,
            format: Format::from_isa(config.paging).expect("a hosted island borrows a real ISA's page-table format"),
            command_line: format!("island={} pool=0x{:x} mode={mode}", own.0, config.local_base),
            extensions: config.extensions.clone(),
            vector_bytes: config.vector_bytes,
            hidden_vector_bytes: config.hidden_vector_bytes,
            cores: config.cores,
            counter: config.counter,
            harts: (0..config.cores)
                .map(|_| config.vector_bytes)
                .chain((0..config.hidden_harts).map(|_| config.hidden_vector_bytes))
                .map(|bytes| Mutex::new(Hart::new(bytes)))
                .collect(),
            trips: Trips::default(),
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
        self.trips.clear();
        for hart in &self.harts {
            *lock(hart) = Hart::new(self.vector_bytes);
        }
    }

    /// Its hidden harts, each of which is a core to the driver.
    pub(crate) fn hidden_harts(&self) -> impl Iterator<Item = CoreId> {
        (self.cores..self.harts.len()).map(|index| CoreId::new(self.island, index))
    }

    /// Whether that is one of them.
    pub(crate) fn is_hidden(&self, core: CoreId) -> bool {
        core.index_in_island() >= self.cores
    }

    pub(crate) fn ring_hidden(&self) {
        self.hidden_harts().for_each(|hart| self.ring_core(hart));
    }

    /// Rings a core of this island.
    pub(crate) fn ring_core(&self, core: CoreId) {
        self.world.ring(core);
        self.point(Point::Ring);
    }

    /// Sleeps until this core is rung.
    pub(crate) fn sleep(&self) {
        self.world.wait(self.core());
        self.world.take_interrupts(self.core());
    }

    pub(crate) fn user_budget(&self) -> u64 {
        self.world.user_budget()
    }

    pub(crate) fn island_index(&self) -> usize {
        self.island.index()
    }

    /// Its number in its kernel's pool.
    pub(crate) fn own_index(&self) -> usize {
        self.own.index()
    }

    pub(crate) fn pool_map(&self) -> Pool {
        self.world.kernels.pool(self.island)
    }

    pub(crate) fn pool_words(&self, frame: Frame) -> &'static [PoolWord; 512] {
        self.pool_map().page_words(frame.addr()).expect("a translated frame lies in the pool")
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn checks_stale(&self) -> bool {
        self.world.config.check_stale
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.counter.at(self.world.now_ns()) + self.counter_offset_ns()
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
        if self.is_hidden(self.core()) {
            return hidden::space();
        }
        let record = self.world.kernels.core_record(self.core());
        self.pool_map().get(PoolAddr(record.active_space.load(Ordering::Relaxed)))
    }

    pub(crate) fn core(&self) -> CoreId {
        CORE.get().expect("the HAL is called on a core's thread").0
    }

    pub(crate) fn hart(&self) -> MutexGuard<'_, Hart> {
        lock(&self.harts[self.core().index_in_island()])
    }

    fn has(&self, defect: Defect) -> bool {
        self.world.config.defect == Some(defect)
    }

    /// The trap as a HAL with the configured defect reports it.
    fn distort(&self, trap: Trap, regs: &mut Registers) -> Trap {
        if trap == Trap::Syscall && self.has(Defect::SyscallPc) {
            regs.pc -= INSTRUCTION_SIZE;
        }
        if let Trap::PageFault { address, .. } = trap
            && self.has(Defect::FaultKind)
        {
            return Trap::PageFault { address, access: Access::Read };
        }
        trap
    }

    pub(crate) fn point(&self, point: Point) {
        self.world.point(self.core(), point);
    }
}

impl<F: Flavour> Machine for Hosted<F> {
    const ISA: Isa = F::ISA;

    fn core(&self) -> CoreId {
        self.island.world.kernels.own_core(self.island.core())
    }

    fn pool(&self) -> Pool {
        self.island.pool_map()
    }

    fn windows(&self) -> Windows {
        self.island.world.kernels.windows(self.island.island)
    }

    fn command_line(&self) -> &str {
        &self.island.command_line
    }

    fn log(&self, bytes: &[u8]) {
        let mut log = lock(&self.island.log);
        log.extend_from_slice(bytes);
        if self.island.world.config.echo_log && bytes.ends_with(b"\n") {
            let line = log[..log.len() - 1].rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
            eprintln!("[{}] {}", self.island.island.0, String::from_utf8_lossy(line));
        }
    }

    fn run_user(&self, frame: &'static UserFrame) -> Trap {
        self.island.point(Point::Call);
        let mut regs = Registers::load(F::ISA, frame);
        let trap = loop {
            let interrupts = self.island.world.take_interrupts(self.island.core());
            if interrupts != Interrupts::default() {
                break Trap::Interrupt(interrupts);
            }
            let budget = self.island.world.user_budget();
            if let Some(trap) = self.island.hart().run(self.island, &mut regs, budget) {
                break trap;
            }
            self.island.point(Point::User(budget));
        };
        let trap = self.island.distort(trap, &mut regs);
        regs.store(F::ISA, frame);
        trap
    }

    fn save_ext(&self, frame: &'static UserFrame) -> bool {
        self.island.hart().save_ext(self.pool(), frame)
    }

    fn load_ext(&self, frame: &'static UserFrame) {
        if !self.island.has(Defect::LoadExt) {
            self.island.hart().load_ext(frame);
        }
    }

    fn vector_bytes(&self) -> u32 {
        self.island.hart().vectors.bytes
    }

    fn vector_format(&self) -> u32 {
        if F::ISA == Isa::RiscV64 { VECTORS_RISCV64 } else { 0 }
    }

    fn withhold_vectors(&self) {
        self.island.hart().vectors.bytes = 0;
    }

    fn open_vectors(&self, frame: &'static UserFrame) {
        self.island.hart().vectors.open(self.pool(), frame);
    }

    fn close_vectors(&self, frame: &'static UserFrame) -> bool {
        let mut hart = self.island.hart();
        let has_stored = hart.save_ext(self.pool(), frame);
        hart.vectors.are_open = false;
        has_stored
    }

    fn discard_vectors(&self, frame: &'static UserFrame) -> bool {
        self.island.hart().vectors.discard(frame);
        false
    }

    fn keep_ext(&self, frame: &'static UserFrame) {
        self.island.hart().vectors.keep(frame);
    }

    fn are_vectors_open(&self) -> bool {
        self.island.hart().vectors.are_open
    }

    fn are_vectors_modified(&self) -> bool {
        let vectors = self.island.hart().vectors;
        vectors.are_open && vectors.are_modified
    }

    fn hidden_harts(&self) -> usize {
        self.island.hidden_harts().count()
    }

    fn hidden_vector_bytes(&self) -> usize {
        self.island.hidden_vector_bytes as usize
    }

    fn hidden_places(&self) -> usize {
        hidden::PLACES
    }

    fn send_away(&self, frame: &'static UserFrame, stamp: &'static AtomicU32, root: Frame) -> Result<usize, Unsent> {
        self.island.point(Point::Call);
        hidden::send_away(self.island, frame, stamp, root)
    }

    fn at_home(&self) -> u64 {
        self.island.point(Point::Call);
        self.island.trips.at_home(self.island.core())
    }

    fn call_home(&self, place: usize) {
        self.island.trips.call_home(place);
        self.island.point(Point::Call);
    }

    fn bring_home(&self) {
        if !self.island.has(Defect::BringHome) {
            hidden::bring_home(self.island);
        }
    }

    fn take_home(&self, place: usize, _frame: &'static UserFrame) -> Trap {
        self.island.trips.take(place)
    }

    fn employ_hidden(&self, number: usize, employed: bool) -> bool {
        hidden::employ(self.island, number, employed)
    }

    fn is_any_waiting(&self) -> bool {
        self.island.trips.is_any_waiting()
    }

    fn prepare_root(&self, root: Frame) {
        // Nothing translates kernel addresses here; a mark shows tests that the kernel half was filled.
        self.island.pool_words(root)[KERNEL_ROOT_SLOT].store(1, Ordering::Relaxed);
    }

    fn activate_space(&self, root: Frame) {
        self.island.point(Point::Call);
        let mut hart = self.island.hart();
        hart.activate(root);
        if !self.island.has(Defect::ActivateSpace) {
            hart.flush_all();
        }
    }

    fn flush_page(&self, address: u64) {
        self.island.point(Point::Call);
        if !self.island.has(Defect::FlushPage) {
            self.island.hart().flush_page(address);
        }
    }

    fn flush_user(&self) {
        self.island.point(Point::Call);
        if !self.island.has(Defect::FlushUser) {
            self.island.hart().flush_all();
        }
    }

    fn sync_instructions(&self, frame: Frame) {
        self.island.point(Point::Call);
        if self.island.has(Defect::SyncInstructions) {
            return;
        }
        lock(&self.island.instructions).remove(&frame.0);
        self.island.epoch.fetch_add(1, Ordering::AcqRel);
    }

    fn page_table_fence(&self) {
        self.island.point(Point::Call);
    }

    fn counter_ns(&self) -> u64 {
        self.island.now_ns()
    }

    fn gate(isa: Isa) -> Gate {
        gate::gate(isa)
    }

    fn migration_handler(isa: Isa) -> Option<Handler> {
        migration::handler(isa)
    }

    fn set_timer(&self, deadline_ns: u64) {
        if self.island.has(Defect::SetTimer) {
            return;
        }
        let deadline = if deadline_ns == u64::MAX {
            u64::MAX
        } else {
            self.island.counter.time_at(deadline_ns.saturating_sub(self.island.counter_offset_ns()))
        };
        self.island.world.set_timer(self.island.core(), deadline);
    }

    fn ring(&self, target: CoreId) {
        if self.island.has(Defect::ForeignRing) && target.island() != self.island.own {
            return;
        }
        if let Some(target) = self.island.world.kernels.named_by(self.island.island, target) {
            self.island.world.ring(target);
        }
        self.island.point(Point::Ring);
    }

    fn ring_host(&self) {
        self.island.world.ring_host();
        self.island.point(Point::Ring);
    }

    fn wait_for_interrupt(&self) -> Interrupts {
        self.island.world.wait(self.island.core());
        self.island.world.take_interrupts(self.island.core())
    }

    fn poll_interrupts(&self) -> Interrupts {
        self.island.point(Point::Call);
        self.island.world.take_interrupts(self.island.core())
    }

    /// The interpreter has none.
    fn hide_counters(&self) {}

    fn relax(&self) {
        self.island.point(Point::Relax);
    }

    fn start_core(&self, index: usize) -> Result<(), &'static str> {
        if index == 0 || index >= self.island.cores.min(CORES_PER_ISLAND_MAX) {
            return Err("the island has no such core");
        }
        let started = self.island.world.start(CoreId::new(self.island.island, index));
        self.island.point(Point::Call);
        if started { Ok(()) } else { Err("the core runs already") }
    }

    fn extensions(&self) -> &str {
        &self.island.extensions
    }

    fn take_network(&self) -> Option<Network> {
        self.island.world.link(self.island.island)?.take()
    }

    fn send_frame(&self, frame: &[u8]) -> bool {
        self.island.point(Point::Call);
        let link = self.island.world.link(self.island.island);
        link.is_some_and(|link| link.send(self.island.world.now_ns(), frame))
    }

    fn receive_frame(&self, buffer: &mut [u8]) -> Option<usize> {
        self.island.point(Point::Call);
        self.island.world.link(self.island.island)?.receive(buffer)
    }

    fn park(&self) -> ! {
        self.island.world.park(self.island.core())
    }
}

/// Locks, whatever happened to the previous holder (a core may have been unwound at the end of a run).
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
