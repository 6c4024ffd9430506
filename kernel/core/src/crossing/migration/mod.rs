//! Calls as Flick makes them (ISCA '20, sections III-B and IV-B), for comparison: on machines whose file says `crossing = "flick"`.
//!
//! A fetch from another ISA's text sends the thread to a handler in its own address space ([`motet_abi::migration`]). That asks the
//! kernel to migrate: the thread is descheduled, a descriptor goes to the other core by that core's migration engine
//! ([`motet_protocol::dma`]), and there the thread goes on in the same handler, with registers and a stack of its own, which lie near that core. Returns
//! and calls back go the same way. A thread's *home* is the core where it runs as an ordinary thread; each other ISA has a
//! [`MigrationContext`](motet_layout::MigrationContext) of it. Contexts call only the home, and that calls further ISAs.
//!
//! | file | |
//! |---|---|
//! | `home` | the thread's home core: it leaves, and comes back |
//! | `away` | the core that runs its functions |
//! | `descriptor` | what is transferred |
//!
//! Protocol page: `docs/protocols/migration.md`.

mod away;
mod descriptor;
mod home;

pub use away::{comes_first, forget, is_called, run};
pub use home::{come_home, migrate, migrate_back, redirect};

use motet_abi::{convention, own, registers};
use motet_hal::Machine;
use motet_layout::{
    CoreId, CoreRecord, DMA_NONE, FatProgram, MigrationContext, PoolAddr, ProcessRecord, SpaceRecord, ThreadRecord,
    UserFrame, sync::Ordering,
};
use motet_protocol::Context;

use super::state::Pinned;
use crate::{cpu::Cpu, mm, process::fat};

/// The function at `function`, if another ISA executes it. Remembers it.
fn pinned<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, function: u64) -> Option<Pinned> {
    let epoch = mm::epoch(cpu, space);
    if let Some(pin) = cpu.crossing.other_pins.get(function, epoch) {
        return Some(pin);
    }
    let program = cpu.object::<FatProgram>(space.fat.get())?;
    let isa = mm::pin_at(cpu, space, function)?;
    let pin = fat::pin_of(cpu, program, function).filter(|pin| pin.isa == isa)?;
    let pin = Pinned { isa, strict: pin.strict, signature: pin.signature, program };
    cpu.crossing.other_pins.put(function, epoch, pin);
    Some(pin)
}

/// Where a thread is that is not at home, for people.
pub struct Away {
    /// Its registers there, as they were when it last needed the kernel.
    pub frame: &'static UserFrame,
    /// The instruction, or the function whose handler has not called it yet.
    pub at: u64,
    /// The function that home has called last, and where from; `None`: home has returned since.
    pub called: Option<(u64, u64)>,
}

impl Away {
    /// `None`: the thread is at home.
    pub fn of<M: Machine>(
        cpu: &Cpu<M>,
        thread: &'static ThreadRecord,
        process: &'static ProcessRecord,
    ) -> Option<Self> {
        let core = thread.core.load(Ordering::Relaxed);
        let mut contexts = thread.contexts.iter().filter_map(|slot| home::context_in(slot.get()));
        let (_, context) = contexts.find(|(there, _)| u32::from(there.0) == core)?;
        let frame = &cpu.pool.get::<MigrationContext>(PoolAddr(context))?.frame;
        let (pc, home) = (registers::pc(frame), registers::frame_isa(&thread.frame));
        let is_handler = M::migration_handler(registers::frame_isa(frame)).is_some_and(|handler| handler.contains(pc));
        let function = thread.migrates_to.get();
        let read = |address| mm::read_word(cpu, mm::space_of(cpu, process), address).ok();
        let is_call = registers::syscall_number_of(home, &thread.frame) == own::MIGRATE;
        let from = if is_call { convention::return_point(home, &thread.frame, read) } else { None };
        Some(Self { frame, at: if is_handler { function } else { pc }, called: from.map(|(pc, _)| (function, pc)) })
    }
}

/// Whether nobody is there any more, as far as this core has been told: the islands' own words may be far away.
fn is_gone<M: Machine>(cpu: &Cpu<M>, core: CoreId) -> bool {
    cpu.crossing.dead_islands.get() >> core.island().index() & 1 != 0
}

/// The thread that a core's descriptor is of.
pub fn thread_in<M: Machine>(cpu: &Cpu<M>, record: &CoreRecord) -> Option<&'static ThreadRecord> {
    descriptor::thread_in(&record.dma_out).and_then(|thread| cpu.pool.get::<ThreadRecord>(thread))
}

/// The thread, whose descriptor has been written, becomes `target`'s, and then the transfer starts. `false`: there is no room where it goes to, and the
/// thread is this core's still.
fn depart<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId, place: u32) -> bool {
    // First that it is under way: should this core die, it is found by that.
    cpu.own.dma_place.set(place);
    thread.core.store(u32::from(target.0), Ordering::Release);
    let is_taken = cpu.transfer(target);
    if !is_taken {
        thread.core.store(u32::from(cpu.id.0), Ordering::Release);
        cpu.own.dma_place.set(DMA_NONE);
    }
    is_taken
}
