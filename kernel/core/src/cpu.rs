//! One core of the kernel: what every operation is given to act with.

use core::{cell::Cell, sync::atomic::Ordering};

use motet_hal::Machine;
use motet_layout::{CoreId, ISLAND_JOINED, Isa, IslandId, Pool, ThreadRecord};
use motet_paging::{Format, PhysMap};
use motet_protocol::{Context, run_queue::core_record, shootdown, trace::Kind};

use crate::trace::{self, Tracer};

/// A core of this island, running the kernel. Lives on the core's stack.
pub struct Cpu<M: Machine> {
    /// The machine under this island.
    pub machine: &'static M,
    /// The pool.
    pub pool: Pool,
    /// This core.
    pub id: CoreId,
    /// Machine clock minus [`Machine::counter_ns`], in nanoseconds (wrapping).
    pub clock_offset_ns: u64,
    /// Whether a simulator keeps the time.
    pub timed: bool,
    /// This island's map of the pool.
    pub map: PhysMap<'static>,
    /// This island's page-table format.
    pub format: Format,
    /// While set, this core serves no shoot-down, so that user memory resolved before stays where it is. Code that runs
    /// with it set takes no address-space lock and waits for no lock whose holder shoots down.
    pub pinned: Cell<bool>,
    /// The address space whose table this core uses (pool address, 0 none).
    pub active_space: Cell<u64>,
    /// The thread whose extended registers this core holds: its pool address and id.
    pub ext_owner: Cell<(u64, u32)>,
    /// The register frame of functions that this core is called to run (pool address), 0 none yet.
    pub call_frame: Cell<u64>,
    /// The address space that stays active while this core sleeps, because calls come from it (pool address).
    pub resident: Cell<u64>,
    /// Deadline the timer is programmed to, in machine time.
    pub timer_ns: Cell<u64>,
    /// Writes down what this core does, if anybody wants to know.
    pub tracer: Tracer,
}

impl<M: Machine> Cpu<M> {
    /// This core's view of the machine.
    ///
    /// # Panics
    /// When the host described this island wrongly.
    pub fn new(machine: &'static M, clock_offset_ns: u64) -> Self {
        let (pool, id) = (machine.pool(), machine.core());
        let record = &pool.header().islands[id.island().index()];
        let format = Isa::from_raw(record.paging.get()).and_then(Format::from_isa);
        Self {
            machine,
            pool,
            id,
            clock_offset_ns,
            timed: pool.header().timed.get() != 0,
            map: PhysMap::new(&record.ranges, pool.len()),
            format: format.expect("the island record names a page-table format"),
            pinned: Cell::new(false),
            active_space: Cell::new(0),
            ext_owner: Cell::new((0, 0)),
            call_frame: Cell::new(0),
            resident: Cell::new(0),
            timer_ns: Cell::new(u64::MAX),
            tracer: Tracer::new(pool, id),
        }
    }

    /// This core's island.
    #[inline(always)]
    pub fn island(&self) -> IslandId {
        self.id.island()
    }

    /// The islands of an ISA that have joined.
    pub fn islands_of(&self, isa: Isa) -> impl Iterator<Item = IslandId> {
        let header = self.pool.header();
        (0..header.island_count.get()).filter_map(IslandId::from_raw).filter(move |island| {
            let record = &header.islands[island.index()];
            record.isa.get() == isa as u32 && record.state.load(Ordering::Acquire) == ISLAND_JOINED
        })
    }

    /// Carries out shoot-downs asked of this core.
    #[inline(always)]
    pub fn serve_shootdowns(&self) {
        shootdown::serve(self, || self.machine.flush_user());
    }

    /// Runs `use_memory` with resolved user memory kept in place.
    #[inline(always)]
    pub fn with_pinned<R>(&self, use_memory: impl FnOnce() -> R) -> R {
        let outer = self.pinned.replace(true);
        let result = use_memory();
        self.pinned.set(outer);
        result
    }

    /// Nanoseconds on the machine's clock, the same on all islands.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        if self.timed {
            return self.simulated_ns();
        }
        self.machine.counter_ns().wrapping_add(self.clock_offset_ns)
    }

    /// A timed machine's clock, as this core sees it.
    #[cold]
    fn simulated_ns(&self) -> u64 {
        self.machine.publish_clock();
        core_record(self, self.id).clock_ns.load(Ordering::Relaxed)
    }

    /// Says when the doorbell that is about to be rung arrives. Of several, the first one wakes the core.
    #[cold]
    fn note_ring(&self, target: CoreId) {
        let latency_ns = self.island_record().doorbell_ns[target.island().index()].get();
        let arrives_ns = self.simulated_ns() + u64::from(latency_ns);
        let (own, other) = (core_record(self, self.id), core_record(self, target));
        let first = |noted_ns: u64| (noted_ns == 0 || arrives_ns < noted_ns).then_some(arrives_ns);
        // An error says that another one arrives before.
        let _ = other.rung_at_ns.fetch_update(Ordering::SeqCst, Ordering::Relaxed, first);
        other.rings_received.fetch_add(1, Ordering::SeqCst);
        own.rings_sent.set(own.rings_sent.get() + 1);
    }

    /// Waits until the machine's time runs, which it does when all its cores are here.
    pub fn start_timing(&self) {
        while self.timed && core_record(self, self.id).clock_ns.load(Ordering::Acquire) == 0 {
            self.machine.announce_core();
        }
    }

    /// Nanoseconds since 1970-01-01 UTC.
    pub fn realtime_ns(&self) -> u64 {
        self.now_ns() + self.pool.header().realtime_at_zero_ns.get()
    }

    /// Writes a line to the island's diagnostic console.
    pub fn log(&self, line: core::fmt::Arguments<'_>) {
        struct Console<'a, M: Machine>(&'a M);
        impl<M: Machine> core::fmt::Write for Console<'_, M> {
            fn write_str(&mut self, text: &str) -> core::fmt::Result {
                self.0.log(text.as_bytes());
                Ok(())
            }
        }
        // Writing to the console cannot fail.
        let _ = core::fmt::write(&mut Console(self.machine), format_args!("motet: {line}\n"));
    }
}

impl<M: Machine> Context for Cpu<M> {
    #[inline(always)]
    fn core(&self) -> CoreId {
        self.id
    }

    #[inline(always)]
    fn pool(&self) -> Pool {
        self.pool
    }

    fn relax(&self) {
        if !self.pinned.get() {
            self.serve_shootdowns();
        }
        self.machine.relax();
    }

    fn ring(&self, target: CoreId) {
        if self.timed {
            self.note_ring(target);
        }
        trace::about_core(self, Kind::Ring, target);
        self.machine.ring(target);
    }

    #[inline(always)]
    fn woke(&self, thread: &ThreadRecord, target: CoreId) {
        trace::hand_over(self, Kind::Wake, thread, target);
    }
}
