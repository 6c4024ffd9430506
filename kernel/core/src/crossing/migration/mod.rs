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
//! | `nxp` | the core that runs its functions |
//! | `descriptor` | what is transferred |
//!
//! Protocol page: `docs/protocols/migration.md`.

mod descriptor;
mod home;
mod nxp;

pub use home::{come_home, migrate, migrate_back, redirect};
pub use nxp::{Arrival, arrival, comes_first, is_called, run};

use motet_hal::Machine;
use motet_layout::{CoreId, DMA_NONE, FatProgram, SpaceRecord, ThreadRecord, sync::Ordering};
use motet_protocol::Context;

use super::state::Pinned;
use crate::{cpu::Cpu, mm, process::fat};

/// The function at `function`, if another ISA executes it. Remembers it.
fn pinned<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, function: u64) -> Option<Pinned> {
    let epoch = mm::epoch(cpu, space);
    if let Some(pin) = cpu.crossing.migration_pins().get(function, epoch) {
        return Some(pin);
    }
    let program = cpu.object::<FatProgram>(space.fat.get())?;
    let isa = mm::pin_at(cpu, space, function)?;
    let pin = fat::pin_of(cpu, program, function).filter(|pin| pin.isa == isa)?;
    let pin = Pinned::new(&pin, program);
    cpu.crossing.migration_pins().put(function, epoch, pin);
    Some(pin)
}

/// Whether nobody is there any more, as far as this core has been told: the islands' own words may be far away.
fn is_gone<M: Machine>(cpu: &Cpu<M>, core: CoreId) -> bool {
    cpu.crossing.is_dead(core.island())
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
