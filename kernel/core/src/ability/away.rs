//! Threads of this core on hidden harts, as far as those need to know who bring threads and spaces to an end; all else is `extension::away`'s.

use core::cell::Cell;

use motet_hal::{Interrupts, Machine};
use motet_layout::{ThreadRecord, sync::Ordering};
use motet_protocol::Context;

use crate::{
    cpu::{Cpu, Place},
    tree::process_of,
};

/// Whether a space has threads away from this core.
pub fn has_away<M: Machine>(cpu: &Cpu<M>, space: u64) -> bool {
    cpu.own.away.load(Ordering::Relaxed) != 0
        && cpu.away.places.iter().any(|place| match place.get() {
            Place::Away(thread, _) => process_of(cpu, thread).space.load(Ordering::Relaxed) == space,
            Place::Free | Place::Home(_) => false,
        })
}

/// The thread is wanted, and this core is its own: if it is away, or waits, it comes home.
pub fn call_home<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if thread.moves.away.load(Ordering::Relaxed) == 0 {
        return;
    }
    let is_it = |place: &Cell<Place>| matches!(place.get(), Place::Away(other, _) if cpu.raw(other) == cpu.raw(thread));
    if let Some(index) = cpu.away.places.iter().position(is_it) {
        cpu.machine.call_home(index);
    }
    // For those that wait.
    cpu.due.defer(Interrupts::DOORBELL);
}
