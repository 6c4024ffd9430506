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

pub use away::{forget, is_called, run};
pub use home::{come_home, migrate, migrate_back, redirect};

use motet_hal::Machine;
use motet_layout::{CoreId, FatProgram, SpaceRecord};
use motet_protocol::{Context, dma};

use super::state::Pinned;
use crate::{cpu::Cpu, mm, process::fat};

/// The function at `function`, if another ISA executes it. Remembers it.
fn pinned<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, function: u64) -> Option<Pinned> {
    let epoch = mm::epoch(cpu, space);
    if let Some(pin) = cpu.crossing.migrations.get(function, epoch) {
        return Some(pin);
    }
    let program = cpu.object::<FatProgram>(space.fat.get())?;
    let isa = mm::pin_at(cpu, space, function)?;
    let pin = fat::pin_of(cpu, program, function).filter(|pin| pin.isa == isa)?;
    let pin = Pinned { isa, strict: pin.strict, signature: pin.signature, program };
    cpu.crossing.migrations.put(function, epoch, pin);
    Some(pin)
}

/// Starts this core's engine, which transfers the descriptor that has been written. `false`: there is no room where it goes to.
fn start_transfer<M: Machine>(cpu: &Cpu<M>, target: CoreId, place: u32) -> bool {
    cpu.own.dma_place.set(place);
    if cpu.timed {
        cpu.own.ring_target.set(u32::from(target.0));
        cpu.machine.start_transfer();
        return cpu.own.dma_taken.get() != 0;
    }
    let receiver = &cpu.pool.header().cores[target.index()];
    let is_taken = dma::transfer(cpu.own, receiver, cpu.now_ns());
    if is_taken {
        cpu.machine.ring(target);
    }
    is_taken
}

/// Longest transfer: the engine's own limits are far below.
const TRANSFER_NS_MAX: u64 = 1_000_000_000;

/// Waits until a transfer is over whose end this core has looked for too early. `false`: no transfer takes so long, so what says when
/// it arrives is damaged.
fn wait_until<M: Machine>(cpu: &Cpu<M>, arrives_ns: u64) -> bool {
    if !cpu.timed {
        return true;
    }
    let may_come = may_come(arrives_ns, cpu.now_ns());
    while may_come && cpu.now_ns() < arrives_ns {
        cpu.machine.relax();
    }
    may_come
}

fn may_come(arrives_ns: u64, now_ns: u64) -> bool {
    arrives_ns.saturating_sub(now_ns) <= TRANSFER_NS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_in_an_hour_does_not_keep_a_core() {
        assert!(may_come(500, 1_000) && may_come(1_500, 1_000));
        assert!(!may_come(3_600_000_000_000, 1_000) && !may_come(u64::MAX - 1, 1_000));
    }
}
