//! Threads of this core on hidden harts, as far as code needs to know that ends threads and spaces; all else is in `extension::hidden`.

use crate::{cpu::Cpu, tree::process_of};
use motet_hal::{Interrupts, Machine};
use motet_layout::{ThreadRecord, sync::Ordering};

/// Whether a space has threads away from this core.
pub fn has_away<M: Machine>(cpu: &Cpu<M>, space: u64) -> bool {
    cpu.own.away.load(Ordering::Relaxed) != 0
        && cpu
            .hidden
            .away(u64::MAX)
            .any(|(_, thread, _)| process_of(cpu, thread).space.load(Ordering::Relaxed) == space)
}

/// Calls home a thread of this core that is wanted here, if it is away or waits to be sent.
pub fn call_home<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if thread.moves.away.load(Ordering::Relaxed) == 0 {
        return;
    }
    let place = cpu.hidden.away(u64::MAX).find(|(_, other, _)| core::ptr::eq(*other, thread));
    if let Some((place, ..)) = place {
        cpu.machine.call_home(place);
    }
    // For those that wait.
    cpu.due.defer(Interrupts::DOORBELL);
}
