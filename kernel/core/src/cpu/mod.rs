//! One core of the kernel: what every operation is given to act with.

use core::{cell::Cell, sync::atomic::Ordering};

use motet_hal::Machine;
use motet_layout::{CoreId, CoreRecord, Frame, Isa, IslandCounters, IslandId, Pool};
use motet_paging::{Format, PhysMap};
use motet_protocol::{memory::is_private_to, shootdown};

mod ability;
mod alarm;
mod awaited;
mod budget;
mod clock;
mod cputime;
pub mod crossing;
mod due;
mod file;
mod fpga;
mod handover;
mod hidden;
mod islands;
mod life;
mod mm;
mod net;
mod pending;
mod say;
mod stacked;
mod tracer;

pub use ability::{AbilityCore, Way};
pub use alarm::AlarmCore;
pub use awaited::AwaitedPage;
pub use budget::{BUDGET, cost};
pub use clock::Clock;
pub use cputime::CputimeCore;
pub use crossing::CrossingCore;
pub use due::DueCore;
pub use file::FileCore;
pub use fpga::FpgaCore;
pub use handover::HandoverCore;
pub use hidden::{HartPlace, HiddenCore};
pub use islands::{Islands, cores_of_isa};
pub use life::LifeCore;
pub use mm::{MmCore, Translation};
pub use net::NetCore;
pub use pending::Causes;
pub use stacked::StackedCore;
pub use tracer::Tracer;

/// In [`ThreadRecord::garbage`](motet_layout::ThreadRecord::garbage): the thread's home is another kernel, which makes its system calls. It leaves no files to be freed
/// here.
pub const REMOTE: u64 = 1;

/// What `uname` says; programs compare the release with what they need.
pub const KERNEL_RELEASE: &str = "6.12.0-motet";

/// A core of this island, running the kernel. Lives on the core's stack. What the core keeps in mind is of the room that it is named after, and known
/// by functions only.
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
    pub island_life: u32,
    /// What its island counts.
    pub counted: &'static IslandCounters,
    /// The machine's islands.
    pub islands: Islands,
    /// What time it is.
    pub clock: Clock,
    /// What cores can do.
    pub ability: AbilityCore,
    /// This core's timer.
    pub alarm: AlarmCore,
    /// Threads that it has sent to hidden harts.
    pub hidden: HiddenCore,
    /// The time that it has used.
    pub cputime: CputimeCore,
    /// Calls across instruction sets.
    pub crossing: CrossingCore,
    /// What is due.
    pub due: DueCore,
    /// Files.
    pub file: FileCore,
    /// What the FPGA has to tell.
    pub fpga: FpgaCore,
    /// Whose extended registers it holds.
    pub handover: HandoverCore,
    /// What its life is doing.
    pub life: LifeCore,
    /// Address spaces.
    pub mm: MmCore,
    /// The outside network.
    pub net: NetCore,
    /// Two guests that take turns.
    pub stacked: StackedCore,
    /// Writes down what this core does, if anybody wants to know.
    pub tracer: Tracer,
    /// It has said that words of the pool are damaged.
    said_damaged: Cell<bool>,
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
        let (own, crossing) = (&pool.header().cores[id.index()], CrossingCore::new(pool, id.island()));
        let causes = Causes::always(own.first_come.get() != 0, crossing.migrates());
        Self {
            machine,
            pool,
            id,
            own,
            island_life: record.deaths.load(Ordering::Acquire),
            counted: &record.counters,
            islands: Islands::new(pool, id.island()),
            clock: Clock::new(pool, id.island()),
            ability: AbilityCore::new(cores_of_isa(pool, M::ISA), id.island()),
            alarm: AlarmCore::default(),
            hidden: HiddenCore::default(),
            cputime: CputimeCore::default(),
            crossing,
            due: DueCore::new(causes),
            file: FileCore::default(),
            fpga: FpgaCore::default(),
            handover: HandoverCore::default(),
            life: LifeCore::default(),
            net: NetCore::default(),
            stacked: StackedCore::default(),
            mm: MmCore::new(
                PhysMap::new(&record.ranges, pool.len()),
                format.expect("the island record names a page-table format"),
            ),
            tracer: Tracer::new(pool, id),
            said_damaged: Cell::new(false),
        }
    }

    /// This core's island.
    #[inline(always)]
    pub fn island(&self) -> IslandId {
        self.id.island()
    }

    /// Drops this core's user translations, those of hidden harts that run its threads, and those of guests.
    pub fn flush_user(&self) {
        self.mm.drop_translations();
        self.machine.flush_guests();
        if self.own.away.load(Ordering::Relaxed) != 0 {
            self.machine.bring_home();
        }
        self.machine.flush_user();
    }

    /// Drops this core's user translations of the page at `address`.
    pub fn flush_page(&self, address: u64) {
        self.mm.drop_translations();
        self.machine.flush_page(address);
    }

    /// Translates user addresses by `root` from now on; [`Frame::NONE`]: not at all.
    pub fn activate_space(&self, root: Frame) {
        self.mm.drop_translations();
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
            if self.crossing.migrates() && !self.is_timed() {
                self.note_deaths();
            }
        });
    }

    /// Work was done that has cost this much (`call::cost`). `true`: the budget is used up, and this core is to look what
    /// else is due. Code that cannot look itself lets its caller do so by the next piece of work.
    #[inline(always)]
    pub fn spend(&self, cost: u64) -> bool {
        self.due.spend(cost)
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
        self.say(line, |bytes| self.machine.log(bytes));
    }
}
