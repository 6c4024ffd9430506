//! One core of the kernel: what every operation is given to act with.

use core::{cell::Cell, sync::atomic::Ordering};

use motet_abi::extension::ExtensionSet;
use motet_hal::{Interrupts, Machine};
use motet_layout::{
    CORE_IDLE, CORE_POLLING, CORES_PER_ISLAND_MAX, CROSSING_FLICK, CoreId, CoreRecord, Frame, ISLAND_JOINED,
    ISLANDS_MAX, Isa, IslandCounters, IslandId, PAGE_SIZE, Pool, PoolAddr,
};
use motet_paging::{Format, PhysMap};
use motet_protocol::{
    clock::IslandClock,
    direct::Reach,
    dma,
    memory::{caches_privately, common_share, is_private_to},
    shootdown,
};

mod away;
mod budget;
pub mod crossing;
mod tracer;

pub use away::{AwayCore, Place};
pub use budget::{BUDGET, cost};
pub use crossing::CrossingCore;
pub use tracer::Tracer;

/// What `uname` says; programs compare the release with what they need.
pub const KERNEL_RELEASE: &str = "6.12.0-motet";

/// How often an island's counter is corrected while its cores are awake, in nanoseconds.
const STEERING_NS: u64 = 50_000_000;

/// A core of this island, running the kernel. Lives on the core's stack.
pub struct Cpu<M: Machine> {
    /// The machine under this island.
    pub machine: &'static M,
    /// The pool.
    pub pool: Pool,
    /// This core.
    pub id: CoreId,
    /// Its record.
    pub own: &'static CoreRecord,
    /// How often its island had died when it started.
    pub life: u32,
    /// What its island counts.
    pub counted: &'static IslandCounters,
    /// This island's clock.
    pub clock: IslandClock,
    /// Whether a simulator keeps the time.
    pub timed: bool,
    /// How long this core looks for work before it sleeps, in nanoseconds.
    pub poll_ns: u64,
    /// Islands whose cores look for work before they sleep, a bit each.
    pub polling: u32,
    /// How many there are.
    pub islands: usize,
    /// Islands that have cores beside this one, a bit each.
    pub others: u32,
    /// Instruction sets of the islands, 0 none.
    pub isas: [u8; ISLANDS_MAX],
    /// Whether there are islands that do not cache each other's memory.
    pub uncached: bool,
    /// This island has caches that are not told of others' stores.
    pub caches_privately: bool,
    /// The share of memory for what islands use together.
    pub common: usize,
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
    /// Machine time when it woke last, or was last charged.
    pub busy_since_ns: Cell<u64>,
    /// Machine time when it fell asleep last, or was last charged.
    pub idle_since_ns: Cell<u64>,
    /// The epoch of the active address space, as long as `CoreRecord::space_changed` is 0; 0: not known.
    pub epoch: Cell<u64>,
    /// Where words that the kernel reads and writes in the active address space lie.
    pub translations: Translations,
    /// Interrupts that were taken and not acted on yet.
    pub deferred: Cell<Interrupts>,
    /// The FPGA has something to tell about clients that are less urgent than the thread that runs.
    pub fpga_later: Cell<bool>,
    /// This core has been interrupted, and looks at its ready threads next.
    pub looks_at_ready: Cell<bool>,
    /// What this core still does before it looks what else is due, in instructions, roughly (`call::BUDGET`).
    pub budget: Cell<u64>,
    /// Cores of this instruction set.
    pub peers: [u64; 2],
    /// Which of all cores are able to run what it has asked last, and with values in vector registers of so many bytes: what a core has never
    /// changes once threads run.
    pub able: Cell<Option<(ExtensionSet, u32, [u64; 2])>>,
    /// Threads that it has sent to hidden harts.
    pub away: AwayCore,
    /// What it keeps in mind of calls across instruction sets.
    pub crossing: CrossingCore,
    /// Deadline the timer is programmed to, in machine time.
    pub timer_ns: Cell<u64>,
    /// The offset of the clock when it was programmed.
    pub timer_offset_ns: Cell<u64>,
    /// When this core looks next whether the island's counter keeps pace, in machine time.
    pub steer_at_ns: Cell<u64>,
    /// It has said that words of the pool are damaged.
    said_damaged: Cell<bool>,
    /// Writes down what this core does, if anybody wants to know.
    pub tracer: Tracer,
}

/// Where pages of the active address space lie, for the words that the kernel reads and writes there most: a TLB of one
/// entry each, as true as the core's own, because it is dropped with that.
#[derive(Default)]
pub struct Translations {
    /// A page that may be read.
    pub read: Translation,
    /// A page that may be written.
    pub write: Translation,
}

impl Translations {
    fn drop_all(&self) {
        self.read.page.set(0);
        self.write.page.set(0);
    }
}

/// Where a page lies.
#[derive(Default)]
pub struct Translation {
    /// Its address; 0, where nothing is mapped: none.
    page: Cell<u64>,
    addr: Cell<u64>,
}

impl Translation {
    /// Where the byte at `address` lies, if that is known.
    #[inline(always)]
    pub fn get(&self, address: u64) -> Option<PoolAddr> {
        let page = address & !(PAGE_SIZE - 1);
        (self.page.get() == page && page != 0).then(|| PoolAddr(self.addr.get() + address % PAGE_SIZE))
    }

    /// The byte at `address` lies at `addr`.
    pub fn put(&self, address: u64, addr: PoolAddr) {
        self.page.set(address & !(PAGE_SIZE - 1));
        self.addr.set(addr.0 - address % PAGE_SIZE);
    }
}

/// From how many words on messages go to each of the other islands by engines.
fn engine_copies_from(pool: Pool, from: IslandId) -> [u8; ISLANDS_MAX] {
    let header = pool.header();
    let mut words = [dma::NEVER; ISLANDS_MAX];
    let islands = (0..header.island_count.get()).filter_map(IslandId::from_raw).filter(|&island| island != from);
    for to in islands {
        words[to.index()] = dma::words_from(header, from, to);
    }
    words
}

/// The cores of an instruction set, by the machine's description: of those that do not start the state stays offline.
pub fn cores_of_isa(pool: Pool, isa: Isa) -> [u64; 2] {
    let mut set = [0; 2];
    let islands = &pool.header().islands[..(pool.header().island_count.get() as usize).min(ISLANDS_MAX)];
    for (index, island) in islands.iter().enumerate().filter(|(_, island)| island.isa.get() == isa as u32) {
        let first = index * CORES_PER_ISLAND_MAX;
        let count = (island.core_count.get() as usize).min(CORES_PER_ISLAND_MAX);
        set[first / 64] |= ((1 << count) - 1) << (first % 64);
    }
    set
}

impl<M: Machine> Cpu<M> {
    /// This core's view of the machine.
    ///
    /// # Panics
    /// When the host described this island wrongly.
    pub fn new(machine: &'static M) -> Self {
        let (pool, id) = (machine.pool(), machine.core());
        let record = &pool.header().islands[id.island().index()];
        let format = Isa::from_raw(record.paging.get()).and_then(Format::from_isa);
        let islands = &pool.header().islands;
        let uncached = pool.header().uncached.get() != 0;
        let migrates = pool.header().crossing.get() == CROSSING_FLICK;
        let engine_copies_from =
            if uncached && !migrates { engine_copies_from(pool, id.island()) } else { [dma::NEVER; ISLANDS_MAX] };
        let has_engine = engine_copies_from.iter().any(|&words| words != dma::NEVER);
        let reach = match uncached {
            true if has_engine => Reach::Engine,
            true => Reach::Noncoherent,
            false => Reach::Coherent,
        };
        let polls = |index: usize| u32::from(islands[index].poll_ns.get() != 0) << index;
        Self {
            machine,
            pool,
            id,
            own: &pool.header().cores[id.index()],
            life: record.deaths.load(Ordering::Acquire),
            counted: &record.counters,
            clock: IslandClock::new(pool, id.island()),
            timed: pool.header().timed.get() != 0,
            poll_ns: record.poll_ns.get(),
            polling: (0..ISLANDS_MAX).map(polls).sum(),
            others: !(u32::from(record.core_count.get() <= 1) << id.island().index()),
            islands: (pool.header().island_count.get() as usize).min(ISLANDS_MAX),
            isas: core::array::from_fn(|index| islands[index].isa.get() as u8),
            uncached,
            caches_privately: uncached && caches_privately(pool, id.island().index()),
            common: if uncached { common_share(pool) } else { id.island().index() },
            map: PhysMap::new(&record.ranges, pool.len()),
            format: format.expect("the island record names a page-table format"),
            pinned: Cell::new(false),
            active_space: Cell::new(0),
            ext_owner: Cell::new((0, 0)),
            busy_since_ns: Cell::new(u64::MAX),
            idle_since_ns: Cell::new(u64::MAX),
            epoch: Cell::new(0),
            translations: Translations::default(),
            deferred: Cell::new(Interrupts::EMPTY),
            fpga_later: Cell::new(false),
            looks_at_ready: Cell::new(false),
            budget: Cell::new(BUDGET),
            peers: cores_of_isa(pool, M::ISA),
            able: Cell::new(None),
            away: AwayCore::default(),
            crossing: CrossingCore::new(reach, migrates, engine_copies_from),
            timer_ns: Cell::new(u64::MAX),
            timer_offset_ns: Cell::default(),
            steer_at_ns: Cell::default(),
            said_damaged: Cell::new(false),
            tracer: Tracer::new(pool, id),
        }
    }

    /// This core's island.
    #[inline(always)]
    pub fn island(&self) -> IslandId {
        self.id.island()
    }

    /// Whether cores of this island look for work before they sleep.
    #[inline(always)]
    pub fn is_polling(&self) -> bool {
        self.poll_ns != 0
    }

    /// In which state this core announces that it is about to sleep.
    #[inline(always)]
    pub fn idle_state(&self) -> u32 {
        if self.is_polling() { CORE_POLLING } else { CORE_IDLE }
    }

    /// Whether another island has this one's instruction set, and caches that are kept coherent with its. (The machine says of all of its links
    /// at once whether they are.)
    pub fn is_coherent_peer(&self, island: IslandId) -> bool {
        !self.uncached && island != self.id.island() && self.isas.get(island.index()) == Some(&(M::ISA as u8))
    }

    /// The instruction set of a core.
    pub fn isa_of(&self, core: CoreId) -> Option<Isa> {
        Isa::from_raw(u32::from(self.isas[core.island().index()]))
    }

    /// The islands of an ISA that have joined.
    pub fn islands_of(&self, isa: Isa) -> impl Iterator<Item = IslandId> {
        let header = self.pool.header();
        (0..header.island_count.get()).filter_map(IslandId::from_raw).filter(move |island| {
            let record = &header.islands[island.index()];
            record.isa.get() == isa as u32 && record.state.load(Ordering::Acquire) == ISLAND_JOINED
        })
    }

    /// Drops this core's user translations, those of hidden harts that run its threads, and those of guests.
    pub fn flush_user(&self) {
        self.translations.drop_all();
        self.machine.flush_guests();
        if self.own.away.load(Ordering::Relaxed) != 0 {
            self.machine.bring_home();
        }
        self.machine.flush_user();
    }

    /// Drops this core's user translations of the page at `address`.
    pub fn flush_page(&self, address: u64) {
        self.translations.drop_all();
        self.machine.flush_page(address);
    }

    /// Translates user addresses by `root` from now on; [`Frame::NONE`]: not at all.
    pub fn activate_space(&self, root: Frame) {
        self.translations.drop_all();
        self.machine.activate_space(root);
    }

    /// Has a frame leave this island's caches, if others' stores do not reach these.
    #[inline(never)]
    pub fn flush_private(&self, frame: Frame) {
        if is_private_to(self.pool, frame, self.island().index()) {
            self.own.flush_addr.set(frame.addr().0);
            self.machine.note_flush();
        }
    }

    /// Carries out shoot-downs asked of this core.
    #[inline(always)]
    pub fn serve_shootdowns(&self) {
        shootdown::serve(self, || self.flush_user());
    }

    /// As [`serve_shootdowns`](Self::serve_shootdowns), where this core holds no lock and has no thread in transit from one core to
    /// another.
    #[inline(always)]
    pub fn pass(&self) {
        shootdown::pass(self, || {
            self.flush_user();
            // The islands of timed runs do not die one by one.
            if self.crossing.migrates && !self.timed {
                self.note_deaths();
            }
        });
    }

    /// Work was done that has cost this much (`call::cost`). `true`: the budget is used up, and this core is to look what
    /// else is due. Code that cannot look itself lets its caller do so by the next piece of work.
    #[inline(always)]
    pub fn spend(&self, cost: u64) -> bool {
        let left = self.budget.get().saturating_sub(cost);
        self.budget.set(left);
        left == 0
    }

    /// Runs `use_memory` with resolved user memory kept in place.
    #[inline(always)]
    pub fn with_pinned<R>(&self, use_memory: impl FnOnce() -> R) -> R {
        let outer = self.pinned.replace(true);
        let result = use_memory();
        self.pinned.set(outer);
        result
    }

    /// Nanoseconds on the machine's clock as this island has it: for what stays in the kernel. Other islands' may be
    /// some microseconds ahead.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        if self.timed {
            return self.simulated_ns();
        }
        self.clock.own_ns(self.machine.counter_ns())
    }

    /// Nanoseconds on the machine's clock, for whatever a program may learn of: never less than any earlier reading, on
    /// whichever island.
    #[inline(always)]
    pub fn reading_ns(&self) -> u64 {
        if self.timed {
            return self.simulated_ns();
        }
        self.clock.read(|| self.machine.counter_ns())
    }

    /// Keeps this island's counter in step with the host's clock. Called when a core has been interrupted, or has slept.
    #[inline(always)]
    pub fn steer_clock(&self, now_ns: u64) {
        if now_ns >= self.steer_at_ns.get() {
            self.steer_clock_at(now_ns);
        }
    }

    #[cold]
    fn steer_clock_at(&self, now_ns: u64) {
        self.steer_at_ns.set(if self.timed { u64::MAX } else { now_ns + STEERING_NS });
        if !self.timed {
            self.machine.steer_counter();
        }
    }

    /// A timed machine's clock, as this core sees it.
    #[inline(always)]
    fn simulated_ns(&self) -> u64 {
        self.machine.publish_clock();
        self.own.clock_ns.load(Ordering::Relaxed)
    }

    /// On a timed machine: from now on programs do not see the hardware's counters; waits until the machine's time runs, which it
    /// does when all its cores are here.
    pub fn start_timing(&self) {
        if self.timed {
            self.machine.hide_counters();
        }
        while self.timed && self.own.clock_ns.load(Ordering::Acquire) == 0 {
            self.machine.announce_core();
        }
    }

    /// Nanoseconds since 1970-01-01 UTC.
    pub fn realtime_ns(&self) -> u64 {
        self.reading_ns() + self.pool.header().realtime_at_zero_ns.get()
    }

    /// Says, once, that a word of the pool names no object: lists are walked again and again.
    #[cold]
    #[track_caller]
    pub fn say_damaged(&self, raw: u64) {
        if !self.said_damaged.replace(true) {
            let place = core::panic::Location::caller();
            self.log(format_args!(
                "damaged: {raw:#x} names no object ({place}): what another island has written is wrong"
            ));
        }
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
